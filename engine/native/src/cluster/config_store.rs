//! Commits of the cluster configuration: in force once more than half of the disks that it lists carry it, flushed.
use crate::cap::label::Label;
use crate::fmt::config::ClusterConfig;
use crate::fmt::slot::ConfigSlot;
use futures_util::future::join_all;
use model::ids::DiskId;
use std::collections::{BTreeMap, BTreeSet};

/// Why a configuration is not in force. Some disks may carry it: the next commit must have a higher sequence.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{stored} of {listed} disks could store the configuration, more than half are needed{}", first(.failed))]
pub struct NotCommitted {
    /// Disks that stored it.
    pub stored: usize,
    /// Disks that it lists.
    pub listed: usize,
    /// Name and reason of those that failed.
    pub failed: Vec<(String, String)>,
}

fn first(failed: &[(String, String)]) -> String {
    failed.first().map_or_else(String::new, |(name, why)| format!(" ({name}: {why})"))
}

/// Writes `new` to every disk at hand. It stands when more than half of the disks that it lists have it, and more than half
/// of those that the configuration before it listed.
///
/// # Errors
/// `NotCommitted`: the caller goes on with the old one and never uses that sequence again.
pub async fn commit(
    labels: &BTreeMap<DiskId, Label>,
    old: Option<&ClusterConfig>,
    new: &ClusterConfig,
) -> Result<(), NotCommitted> {
    let slot = ConfigSlot {
        epoch: u32::try_from(new.version.0).unwrap_or(u32::MAX),
        sequence: new.version.1,
        payload: new.to_bytes(),
    };
    let listed: BTreeSet<DiskId> = new.disks.iter().map(|disk| disk.id).collect();
    let at_hand: Vec<(DiskId, &Label)> =
        labels.iter().filter(|(id, _)| listed.contains(id)).map(|(id, label)| (*id, label)).collect();
    let written = join_all(at_hand.iter().map(|(_, label)| label.store_config(&slot))).await;
    let mut stored = BTreeSet::new();
    let mut failed = Vec::new();
    for ((id, label), result) in at_hand.into_iter().zip(written) {
        match result {
            Ok(()) => _ = stored.insert(id),
            Err(error) => failed.push((label.superblock().name.clone(), error.to_string())),
        }
    }
    let majority = |disks: &BTreeSet<DiskId>| disks.intersection(&stored).count() * 2 > disks.len();
    let before: BTreeSet<DiskId> =
        old.map(|old| old.disks.iter().map(|disk| disk.id).collect()).unwrap_or_default();
    if majority(&listed) && (before.is_empty() || majority(&before)) {
        return Ok(());
    }
    Err(NotCommitted { stored: stored.len(), listed: listed.len(), failed })
}
