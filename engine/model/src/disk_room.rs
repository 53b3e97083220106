//! What a disk has left for data once it is laid out: labels, log, maps and what is kept back are subtracted.
//!
//! The native engine lays disks out with these numbers, and a test there fills disks to hold the two together. Invariant: the
//! answer is never more than what fits.
use crate::state::DiskRole;
use crate::units::EXTENT_BYTES;

const MIB: u64 = 1 << 20;
/// First byte of the regions: two labels and two slots of the configuration come before.
pub const REGIONS_OFFSET_BYTES: u64 = 3 * MIB;
/// Bytes at the end of a disk: the other two labels.
pub const TAIL_BYTES: u64 = MIB;
/// The log of one group is never smaller: a few batches of 1 MiB, and room for what must still be written when it is full.
pub const LOG_BYTES_MIN: u64 = 16 * MIB;
/// The log of one group is never larger. Source: vSAN's limit of the write buffer, 600 GB.
pub const LOG_BYTES_MAX: u64 = 600_000_000_000 / MIB * MIB;
/// The log of a combined disk is never larger: a longer one holds no more than the disk can write back anyway, and it is filled with
/// zeros when the disk is formatted, which takes a rotating disk three minutes.
pub const COMBINED_LOG_BYTES_MAX: u64 = 32 << 30;
/// Share of a combined disk that its log takes, percent. Source: the 10 % that vSAN advises for a cache tier.
pub const COMBINED_LOG_PERCENT: u8 = 10;
/// Disk groups that one cache disk can serve in slices.
pub const SLICES_MAX: usize = 8;
/// Extents of one allocation group at most: what one bitmap page maps, 1000 MiB.
pub const GROUP_EXTENTS_MAX: u64 = 16_000;

/// Metadata pages in one extent.
const EXTENT_PAGES: u64 = EXTENT_BYTES / 4096;
/// Pages that are always kept back.
const SPARE_PAGES: u64 = 32;
/// Extents that one page of a component's map describes.
const LEAF_EXTENTS: u64 = 32;
/// Entries of one page of a directory.
const DIRECTORY_ENTRIES: u64 = 120;
/// Pages of the table of components and of one component beside its map, generously.
const TABLE_PAGES: u64 = 16;

/// Bytes of the log that a combined disk carries in `space_bytes` of regions.
pub fn combined_log_bytes(space_bytes: u64, log_percent: u8) -> u64 {
    (space_bytes / 100 * u64::from(log_percent.min(90)) / MIB * MIB)
        .clamp(LOG_BYTES_MIN, COMBINED_LOG_BYTES_MAX)
}

/// Bytes of each slice of a cache disk of `size_bytes` that serves `count` groups; 0 when it is too small for them.
pub fn slice_bytes(size_bytes: u64, count: usize) -> u64 {
    let space = regions_bytes(size_bytes);
    let each = space / u64::try_from(count.max(1)).unwrap_or(u64::MAX) / MIB * MIB;
    if count > SLICES_MAX || each < LOG_BYTES_MIN { 0 } else { each.min(LOG_BYTES_MAX) }
}

/// Extents of one allocation group of a region of `len_bytes`: an eighth of it, 1000 MiB at most.
pub fn group_extents(len_bytes: u64) -> u64 {
    (len_bytes / EXTENT_BYTES).div_ceil(8).clamp(1, GROUP_EXTENTS_MAX)
}

fn regions_bytes(size_bytes: u64) -> u64 {
    (size_bytes / MIB * MIB).saturating_sub(TAIL_BYTES + REGIONS_OFFSET_BYTES)
}

/// Bytes of data that a disk of `size_bytes` takes in a role, its maps written and what is kept back subtracted; 0 for a cache disk.
pub fn data_bytes(role: DiskRole, size_bytes: u64) -> u64 {
    let space = regions_bytes(size_bytes);
    let region = match role {
        DiskRole::Capacity => space,
        DiskRole::Combined => space.saturating_sub(combined_log_bytes(space, COMBINED_LOG_PERCENT)),
        DiskRole::Cache | DiskRole::None => return 0,
    };
    let extents = region / EXTENT_BYTES;
    let groups = extents.div_ceil(group_extents(region));
    let bitmaps = groups + groups.div_ceil(DIRECTORY_ENTRIES) + 1;
    // Every page may have to be written once more before its old place comes free: it counts twice.
    let fixed = (2 * (bitmaps + TABLE_PAGES) + SPARE_PAGES).div_ceil(EXTENT_PAGES);
    let left = u128::from(extents.saturating_sub(fixed));
    let per = u128::from(LEAF_EXTENTS * DIRECTORY_ENTRIES * EXTENT_PAGES);
    let data = left * per / (per + 2 * u128::from(DIRECTORY_ENTRIES + 1));
    u64::try_from(data).unwrap_or(0) * EXTENT_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn log_maps_and_reserve_are_subtracted() {
        let disk = 64 * MIB;
        assert_eq!(data_bytes(DiskRole::Cache, disk), 0);
        assert_eq!(data_bytes(DiskRole::None, disk), 0);
        let (own, behind) = (data_bytes(DiskRole::Combined, disk), data_bytes(DiskRole::Capacity, disk));
        assert!(behind - own >= LOG_BYTES_MIN - MIB && behind < disk - 4 * MIB, "{own} {behind}");
        // A large disk gives its log no more than 32 GiB, and its maps less than a hundredth.
        let large = 4_000_787_030_016;
        let percent = data_bytes(DiskRole::Combined, large) * 1000 / large;
        assert!((980..990).contains(&percent), "{percent}");
        let percent = data_bytes(DiskRole::Capacity, large) * 1000 / large;
        assert!((990..1000).contains(&percent), "{percent}");
    }

    #[test]
    fn nothing_is_left_of_what_is_too_small() {
        for size in [0, 1, MIB, 4 * MIB, 20 * MIB] {
            assert_eq!(data_bytes(DiskRole::Combined, size), 0, "{size}");
        }
        assert_eq!(slice_bytes(64 * MIB, 3), 20 * MIB);
        assert_eq!((slice_bytes(64 * MIB, 4), slice_bytes(1 << 40, 9)), (0, 0));
    }
}
