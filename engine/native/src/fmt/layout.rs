//! Where the regions of a disk lie: pure arithmetic, used once when a disk is formatted (afterwards its superblock says it).
//!
//! ```text
//! 0        1 MiB     2 MiB     3 MiB                              end - 1 MiB       end
//! | A0, B0 | config A | config B | regions: log ..., then extents | A1 … B1 (128 KiB) |
//! ```
//! Regions begin and end at multiples of 1 MiB, do not overlap, and one disk has at most one extents region.
use super::superblock::{GROUPS_MAX, Region, RegionKind, Roles};
use model::disk_room::{TAIL_BYTES, combined_log_bytes};
use model::ids::DiskGroupId;
use model::units::DISK_BYTES_MIN;

pub use model::disk_room::{
    GROUP_EXTENTS_MAX, LOG_BYTES_MAX, LOG_BYTES_MIN, REGIONS_OFFSET_BYTES as REGIONS_OFFSET, group_extents,
};

const MIB: u64 = 1 << 20;
/// Byte offsets of the two slots of the cluster configuration.
pub const CONFIG_SLOTS: [u64; 2] = [MIB, 2 * MIB];
/// Bytes of one slot: 2,240 disks with 160 hosts and their policies are about 300 KiB.
pub const CONFIG_SLOT_BYTES: u64 = MIB;

const _: () = assert!(GROUPS_MAX == model::disk_room::SLICES_MAX);

/// Why a disk cannot be laid out.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// Smaller than the smallest disk or than its logs need.
    #[error("a disk of {size_bytes} bytes is too small: it needs {needed_bytes}")]
    TooSmall {
        /// Size of the disk.
        size_bytes: u64,
        /// What would be enough.
        needed_bytes: u64,
    },
    /// No group, more than eight, or several on a disk that has extents.
    #[error("{0} disk groups cannot share this disk")]
    Groups(usize),
}

/// The regions of a disk of `size_bytes` with `roles` for `groups`. A cache disk is shared out evenly; a combined disk gives
/// `log_percent` of its space, but 16 MiB at least and 32 GiB at most, to the log; any other disk is one extents region.
///
/// # Errors
/// `LayoutError`, each with what would be right.
pub fn regions(
    roles: Roles,
    size_bytes: u64,
    groups: &[DiskGroupId],
    log_percent: u8,
) -> Result<Vec<Region>, LayoutError> {
    let only_cache = roles == Roles::CACHE;
    let groups_max = if only_cache { GROUPS_MAX } else { 1 };
    if groups.is_empty() || groups.len() > groups_max {
        return Err(LayoutError::Groups(groups.len()));
    }
    let count = groups.len() as u64;
    let needed_bytes = DISK_BYTES_MIN.max(REGIONS_OFFSET + TAIL_BYTES + count * LOG_BYTES_MIN);
    if size_bytes < needed_bytes {
        return Err(LayoutError::TooSmall { size_bytes, needed_bytes });
    }
    let end = size_bytes / MIB * MIB - TAIL_BYTES;
    let space = end - REGIONS_OFFSET;
    let log_bytes = match (only_cache, roles.contains(Roles::CACHE)) {
        (true, _) => space / count / MIB * MIB,
        (false, true) => combined_log_bytes(space, log_percent),
        (false, false) => 0,
    };
    let log_bytes = log_bytes.min(LOG_BYTES_MAX);
    let mut regions = Vec::new();
    let mut offset_bytes = REGIONS_OFFSET;
    if log_bytes > 0 {
        for group in groups {
            regions.push(Region { kind: RegionKind::Log, group: *group, offset_bytes, len_bytes: log_bytes });
            offset_bytes += log_bytes;
        }
    }
    if !only_cache {
        let len_bytes = end - offset_bytes;
        regions.push(Region { kind: RegionKind::Extents, group: groups[0], offset_bytes, len_bytes });
    }
    Ok(regions)
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn groups(count: usize) -> Vec<DiskGroupId> {
        (0..count).map(|i| DiskGroupId::from_random([i as u8; 16])).collect()
    }

    #[test]
    fn the_smallest_disk_has_room_in_every_role() {
        for roles in [Roles::CACHE, Roles::CAPACITY, Roles::WITNESS, Roles::COMBINED] {
            let made = regions(roles, 64 << 20, &groups(1), 30).unwrap();
            assert!(made.iter().all(|region| region.len_bytes >= LOG_BYTES_MIN), "{made:?}");
            assert_eq!(made.len(), if roles == Roles::COMBINED { 2 } else { 1 });
            assert!(regions(roles, (64 << 20) - 1, &groups(1), 30).is_err());
        }
        assert_eq!(regions(Roles::CACHE, 1 << 30, &[], 0), Err(LayoutError::Groups(0)));
        assert_eq!(regions(Roles::CAPACITY, 1 << 30, &groups(2), 0), Err(LayoutError::Groups(2)));
        assert_eq!(regions(Roles::CACHE, 1 << 30, &groups(9), 0), Err(LayoutError::Groups(9)));
    }

    #[test]
    fn a_group_is_an_eighth_and_at_most_one_bitmap_page() {
        assert_eq!(group_extents(8 << 20), 16);
        assert_eq!(group_extents(60 << 20), 120);
        assert_eq!(group_extents(1 << 40), GROUP_EXTENTS_MAX);
    }

    proptest! {
        #[test]
        fn regions_lie_in_order_inside_the_disk(
            role in 0..4usize, size in (64u64 << 20)..(1 << 45), count in 1..=8usize, percent in 0..=100u8,
        ) {
            let roles = [Roles::CACHE, Roles::CAPACITY, Roles::WITNESS, Roles::COMBINED][role];
            let Ok(made) = regions(roles, size, &groups(count), percent) else {
                prop_assert!(count > 1);
                return Ok(());
            };
            let mut end = REGIONS_OFFSET;
            for region in &made {
                prop_assert!(region.offset_bytes == end && region.len_bytes >= LOG_BYTES_MIN.min(6 * MIB));
                prop_assert!(region.len_bytes.is_multiple_of(MIB));
                end += region.len_bytes;
            }
            prop_assert!(end <= super::super::superblock::copies(size)[1]);
        }
    }
}
