//! `check`: verifies a stopped cluster, every structure and, deep, every byte of every copy.
//!
//! Labels are looked at first, before anything is opened. Then the cluster is opened as a start would open it (which replays the logs and
//! raises the epoch, as any start does) but without clients and without repair, so that nothing moves while it is looked at. The logs are
//! written back, each disk verifies its maps, and the current copies of each object are compared block by block.
//! What is found is reported, never mended; reading does not rewrite.
use super::assemble::assemble;
use super::core::{ClusterCore, Settings};
use super::find;
use super::hint::{self, HintedDisk};
use super::offline::sentence;
use super::open::StartError;
use super::source::{DiskSource, MachineSource, look};
use crate::cap::label;
use crate::fmt::descriptor::{Leg as DescribedLeg, Node, ObjectDescriptor};
use crate::io::{Env, IoBuf, Ring, lock_file};
use crate::obj::quorum::is_current;
use crate::obj::store::{ReadRun, Store};
use model::state::ClusterState;
use std::path::Path;
use std::rc::Rc;
use std::time::Duration;

/// Blocks compared at one time: 1 MiB of each copy.
const COMPARE_BLOCKS: u64 = 256;

/// What a check looked at and found.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Report {
    /// Name of the cluster.
    pub cluster: String,
    /// Disks that were verified.
    pub disks: usize,
    /// Objects that were looked at.
    pub objects: usize,
    /// Bytes of copies that were compared, each copy counted.
    pub compared_bytes: u64,
    /// What is wrong, one sentence each; empty is clean.
    pub findings: Vec<String>,
}

/// Checks the stopped cluster of a data folder.
///
/// # Errors
/// `StartError` when it could not run: the folder or a disk is in use, or too little is there to open it.
pub fn check(folder: &Path, deep: bool, lock_wait: Duration) -> Result<Report, StartError> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(StartError::Ring)?;
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let folder = std::path::absolute(folder).map_err(|error| StartError::Folder(error.to_string()))?;
        let listed = hint::load(&folder).map_err(StartError::Hint)?.unwrap_or_default();
        if listed.is_empty() {
            return Err(StartError::Folder(format!("{} serves no cluster", folder.display())));
        }
        let lock = lock_file(&folder.join("lock"), lock_wait).await;
        let _lock = lock.map_err(|error| StartError::Folder(error.to_string()))?;
        let source = MachineSource::new(Ring::new().map_err(StartError::Ring)?);
        let mut report = Report::default();
        look_at_labels(&source, &listed, lock_wait, &mut report).await?;
        let settings = Settings { lock_wait, looks_after: false, ..Settings::new(folder) };
        let core = ClusterCore::start(source, Env::machine([0; 32]), settings).await?;
        check_open(&core, deep, &mut report).await;
        core.stop().await;
        Ok(report)
    })
}

/// The labels as they lie there, before anything is opened for writing.
async fn look_at_labels(
    source: &impl DiskSource,
    listed: &[HintedDisk],
    lock_wait: Duration,
    report: &mut Report,
) -> Result<(), StartError> {
    let paths = find::resolve(source, listed).await;
    let mut looked = look(source, &paths, false, lock_wait).await;
    if let Some(index) = looked.refused.iter().position(|(_, error)| error.in_use()) {
        return Err(StartError::InUse(looked.refused.swap_remove(index).1));
    }
    report.findings.extend(looked.refused.iter().map(|(_, error)| sentence(error)));
    for (path, disk) in &looked.disks {
        if let Ok(found) = label::scan(disk).await {
            let damaged = found.damaged.iter().map(|offset| format!("byte {offset}")).collect::<Vec<_>>();
            if !damaged.is_empty() {
                let copies = damaged.join(", ");
                report
                    .findings
                    .push(format!("{}: damaged copies of the superblock at {copies}", path.display()));
            }
        }
    }
    for assembly in assemble(looked.seen) {
        report.cluster.clone_from(&assembly.config.name);
        report.findings.extend(assembly.findings.iter().map(ToString::to_string));
    }
    Ok(())
}

/// Verifies an open cluster that nobody uses.
async fn check_open<D: DiskSource + 'static>(core: &Rc<ClusterCore<D>>, deep: bool, report: &mut Report) {
    let (life, reason, descriptors) = {
        let state = core.state.borrow();
        let descriptors: Vec<_> =
            state.objects.values().map(|object| (object.descriptor(), object.why.clone())).collect();
        (state.life, state.reason.clone(), descriptors)
    };
    if life != ClusterState::Ready {
        report.findings.push(reason.unwrap_or_else(|| "the cluster cannot be opened".into()));
    }
    for (dg, _) in core.directory.groups() {
        if let Err(error) = dg.drain().await {
            report.findings.push(format!(
                "disk group {}: cannot be written back: {}",
                dg.group(),
                sentence(&error)
            ));
        }
        for (disk, finding) in dg.verify(deep).await {
            let place = finding.offset_bytes.map(|offset| format!(" at byte {offset}")).unwrap_or_default();
            report.findings.push(format!("disk {disk}{place}: {}", finding.text));
        }
        report.disks +=
            dg.components().iter().map(|found| found.disk).collect::<std::collections::BTreeSet<_>>().len();
    }
    report.objects = descriptors.len();
    for (descriptor, why) in descriptors {
        if let Some(why) = why {
            report.findings.push(format!("{}: {why}", descriptor.name));
        }
        if deep {
            compare_object(core, &descriptor, report).await;
        }
    }
}

/// Compares the current copies of every mirror of an object. A copy that is known to be behind is no finding.
async fn compare_object<D: DiskSource + 'static>(
    core: &Rc<ClusterCore<D>>,
    descriptor: &ObjectDescriptor,
    report: &mut Report,
) {
    let mut mirrors = Vec::new();
    collect_mirrors(&descriptor.layout, &mut mirrors);
    for legs in mirrors {
        let stores: Vec<_> = legs
            .iter()
            .filter(|leg| is_current(leg))
            .filter_map(|leg| Some((*leg, core.directory.leg(descriptor.uuid, leg.component)?)))
            .collect();
        let Some(blocks) = stores.iter().map(|(leg, _)| leg.size_bytes / model::units::BLOCK_BYTES).min()
        else {
            continue;
        };
        let mut block = 0;
        while block < blocks {
            let nblk = COMPARE_BLOCKS.min(blocks - block);
            compare_range(&descriptor.name, &stores, block, nblk, report).await;
            block += nblk;
        }
    }
}

async fn compare_range<S: Store>(
    name: &str,
    stores: &[(&DescribedLeg, S)],
    block: u64,
    nblk: u64,
    report: &mut Report,
) {
    let mut first: Option<(&DescribedLeg, Vec<Option<IoBuf>>)> = None;
    for (leg, store) in stores {
        let content = match store.read(block, nblk).await {
            Ok(runs) => blocks_of(runs),
            Err(error) => {
                report.findings.push(format!("{name}: component {}: {}", leg.component, sentence(&error)));
                continue;
            }
        };
        report.compared_bytes += nblk * model::units::BLOCK_BYTES;
        for (index, read) in content.iter().enumerate() {
            if read.is_none() {
                let block = block + index as u64;
                report
                    .findings
                    .push(format!("{name}: component {}: block {block} cannot be read", leg.component));
            }
        }
        let Some((other, expected)) = &first else {
            first = Some((leg, content));
            continue;
        };
        for (index, (left, right)) in expected.iter().zip(&content).enumerate() {
            if let (Some(left), Some(right)) = (left, right)
                && left.as_slice() != right.as_slice()
            {
                let block = block + index as u64;
                let (one, two) = (other.component, leg.component);
                report
                    .findings
                    .push(format!("{name}: block {block} differs between components {one} and {two}"));
            }
        }
    }
}

/// One buffer a block; `None` where no good content was read.
fn blocks_of(runs: Vec<ReadRun>) -> Vec<Option<IoBuf>> {
    let block = model::units::BLOCK_BYTES as usize;
    let zero = IoBuf::zeroed(block);
    let mut blocks = Vec::new();
    for run in runs {
        match run {
            ReadRun::Data(buf) => {
                blocks.extend(
                    (0..buf.len() / block).map(|index| Some(buf.slice(index * block..(index + 1) * block))),
                );
            }
            ReadRun::Zero(nblk) => blocks.extend((0..nblk).map(|_| Some(zero.clone()))),
            ReadRun::Bad(nblk) => blocks.extend((0..nblk).map(|_| None)),
        }
    }
    blocks
}

fn collect_mirrors<'a>(node: &'a Node, into: &mut Vec<Vec<&'a DescribedLeg>>) {
    match node {
        Node::Mirror(children) if children.iter().all(|child| matches!(child, Node::Leaf(_))) => {
            into.push(node.legs())
        }
        Node::Concat(children)
        | Node::Stripe(children)
        | Node::Mirror(children)
        | Node::Ec { children, .. } => {
            children.iter().for_each(|child| collect_mirrors(child, into));
        }
        Node::Leaf(leg) => into.push(vec![leg.as_ref()]),
    }
}
