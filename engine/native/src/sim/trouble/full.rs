//! The file system under a capacity disk is full for a while: what is stable waits in the log, and the log for it.
use super::super::cluster::Cluster;
use std::time::Duration;

/// Longest time that a disk stays full, milliseconds.
const FULL_MS_MAX: u64 = 20_000;

/// On the capacity disks of a host that has its log elsewhere.
pub fn strike(cluster: &Cluster, host: usize) {
    let group = &cluster.hosts[host];
    let full_ms = 1 + cluster.env.below(FULL_MS_MAX);
    if group.is_combined() {
        return;
    }
    for disk in &group.opened {
        let disk = disk.clone();
        disk.faults().set_full(true);
        tokio::task::spawn_local(async move {
            tokio::time::sleep(Duration::from_millis(full_ms)).await;
            disk.faults().set_full(false);
        });
    }
}
