//! The check of a capacity disk: all structures of the durable checkpoint, and, when deep, all data.
use super::{CapDisk, CapError, Content, Finding, load};
use crate::fmt::LocalId;
use crate::fmt::leaf::LEAF_BLOCKS;

impl CapDisk {
    /// Body of [`CapDisk::verify`]. No checkpoint runs meanwhile, so that the pages of the durable one stay where they are.
    pub(super) async fn run_verify(
        &self,
        deep: bool,
        covered: impl Fn(LocalId, u64) -> bool,
    ) -> Vec<Finding> {
        let _turn = self.0.checkpointing.lock().await;
        let mut findings = match load::load(self.label()).await {
            Ok(loaded) => loaded.findings,
            Err(error) => vec![disk_finding(&error)],
        };
        if deep {
            for component in self.components() {
                findings.extend(self.verify_data(component.local, component.size_blocks, &covered).await);
            }
        }
        findings
    }

    async fn verify_data(
        &self,
        local: LocalId,
        size_blocks: u64,
        covered: &impl Fn(LocalId, u64) -> bool,
    ) -> Vec<Finding> {
        let mut findings = Vec::new();
        // Only leaves that exist have data: every leaf has a sequence above zero.
        for leaf in self.leaves(local) {
            let first = u64::from(leaf) * LEAF_BLOCKS;
            let nblk = LEAF_BLOCKS.min(size_blocks.saturating_sub(first));
            let runs = match self.read(local, first, nblk).await {
                Ok(runs) => runs,
                Err(CapError::NoComponent(_)) => return findings, // removed meanwhile
                Err(error) => {
                    findings.push(Finding { component: Some(local), ..disk_finding(&error) });
                    return findings;
                }
            };
            let mut block = first;
            for run in runs {
                let text = match run.content {
                    Content::Bad => Some("checksum of a data block does not match"),
                    Content::IoError => Some("data block cannot be read"),
                    Content::Data { .. } | Content::Zero => None,
                };
                if let Some(text) = text {
                    let blocks = (block..block + run.nblk).filter(|block| !covered(local, *block));
                    findings.extend(blocks.map(|block| Finding {
                        component: Some(local),
                        block: Some(block),
                        offset_bytes: None,
                        text: text.into(),
                    }));
                }
                block += run.nblk;
            }
        }
        findings
    }

    fn leaves(&self, local: LocalId) -> Vec<u32> {
        let state = self.0.state.borrow();
        state.component(local).map(|component| component.leaves.keys().copied().collect()).unwrap_or_default()
    }
}

fn disk_finding(error: &CapError) -> Finding {
    let offset_bytes = match error {
        CapError::Damaged { offset_bytes, .. } => Some(*offset_bytes),
        _ => None,
    };
    let cause = std::error::Error::source(error).map(|cause| format!(": {cause}")).unwrap_or_default();
    Finding { component: None, block: None, offset_bytes, text: format!("{error}{cause}") }
}
