//! Rot: a bit of stored content flips, or a sector becomes unreadable.
use super::Cluster;
use crate::io::sim::SimDisk;
use model::units::BLOCK_BYTES;

/// Attempts to find a place with something in it.
const TRIES: usize = 40;

/// One place of the host rots: of its object's content on the capacity disk, or of its log.
pub fn strike(cluster: &Cluster, host: usize) {
    let env = &cluster.env;
    let place = if env.chance(1, 3) { in_log(cluster, host) } else { on_capacity(cluster, host) };
    let Some((disk, offset_bytes)) = place else { return };
    let at = offset_bytes + env.below(BLOCK_BYTES);
    match env.below(3) {
        0 => disk.rot(at),
        _ => disk.flip_bit(at, env.below(8) as u8),
    }
}

fn on_capacity(cluster: &Cluster, host: usize) -> Option<(SimDisk, u64)> {
    let dg = cluster.dg(host).ok()?;
    let components = dg.components();
    for _ in 0..if components.is_empty() { 0 } else { TRIES } {
        let component = &components[cluster.env.below(components.len() as u64) as usize];
        let block = cluster.env.below(component.size_blocks.max(1));
        if let Some(offset_bytes) = dg.locate(component.local, block) {
            let (_, disk) = cluster.hosts[host].caps.iter().find(|(id, _)| *id == component.disk)?;
            return Some((disk.clone(), offset_bytes));
        }
    }
    None
}

fn in_log(cluster: &Cluster, host: usize) -> Option<(SimDisk, u64)> {
    let group = &cluster.hosts[host];
    let (start, blocks) = (group.log_region().start, group.log_blocks());
    for _ in 0..TRIES {
        let offset_bytes = start + cluster.env.below(blocks) * BLOCK_BYTES;
        if group.log.1.peek(offset_bytes, BLOCK_BYTES as usize).iter().any(|byte| *byte != 0) {
            return Some((group.log.1.clone(), offset_bytes));
        }
    }
    None
}
