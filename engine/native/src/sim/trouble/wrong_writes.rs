//! Writes of capacity disks that are acknowledged and lost, or land elsewhere, for a while.
//!
//! Not those of the log: a batch that was lost at its very end leaves nothing that could tell.
use super::Cluster;
use crate::io::sim::Misbehaviour;

/// Begins or ends on the capacity disks of a host.
pub fn strike(cluster: &Cluster, host: usize) {
    let env = &cluster.env;
    let group = &cluster.hosts[host];
    for (_, disk) in group.caps.iter().filter(|(id, _)| *id != group.log.0) {
        let how = disk.misbehaviour();
        let ppm = if env.chance(1, 2) { 0 } else { 1 + env.below(100_000) as u32 };
        let (lost_write_ppm, misdirected_write_ppm) = if env.chance(1, 2) { (ppm, 0) } else { (0, ppm) };
        disk.misbehave(Misbehaviour { lost_write_ppm, misdirected_write_ppm, ..how });
    }
}
