//! Signatures that are bytes at a fixed place, counted from the start or from the end.
//!
//! Offsets and bytes are facts of the formats: kernel headers, the documents of each project, and util-linux as a list of
//! what exists. A signature of two bytes is used only together with a second one.
use super::{Kind, Probe, label, with_label};

/// Where a signature stands.
#[derive(Clone, Copy)]
enum At {
    /// Bytes from the start.
    Start(u64),
    /// Bytes before the end, which is the size rounded down to 512.
    End(u64),
}
use At::{End, Start};

/// A row of the table: kind, name, place in words (empty for the usual one), place, bytes, label (offset, length).
type Row = (Kind, &'static str, &'static str, At, &'static [u8], Option<(u64, usize)>);

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;
const G: u64 = 1 << 30;

const FILE_SYSTEMS: &[Row] = &[
    (Kind::FileSystem, "XFS file system", "", Start(0), b"XFSB", Some((108, 12))),
    (Kind::FileSystem, "Btrfs file system", "", Start(64 * K + 64), b"_BHRfS_M", Some((64 * K + 299, 256))),
    (
        Kind::FileSystem,
        "Btrfs file system",
        "second copy",
        Start(64 * M + 64),
        b"_BHRfS_M",
        Some((64 * M + 299, 256)),
    ),
    (
        Kind::FileSystem,
        "Btrfs file system",
        "third copy",
        Start(256 * G + 64),
        b"_BHRfS_M",
        Some((256 * G + 299, 256)),
    ),
    (Kind::FileSystem, "NTFS file system", "", Start(3), b"NTFS    ", None),
    (Kind::FileSystem, "NTFS file system", "backup at the end", End(512 - 3), b"NTFS    ", None),
    (Kind::FileSystem, "exFAT file system", "", Start(3), b"EXFAT   ", None),
    (Kind::FileSystem, "exFAT file system", "backup in sector 12", Start(12 * 512 + 3), b"EXFAT   ", None),
    (Kind::FileSystem, "FAT12 file system", "", Start(54), b"FAT12   ", Some((43, 11))),
    (Kind::FileSystem, "FAT16 file system", "", Start(54), b"FAT16   ", Some((43, 11))),
    (Kind::FileSystem, "FAT32 file system", "", Start(82), b"FAT32   ", Some((71, 11))),
    (
        Kind::FileSystem,
        "FAT32 file system",
        "backup in sector 6",
        Start(6 * 512 + 82),
        b"FAT32   ",
        Some((6 * 512 + 71, 11)),
    ),
    (Kind::FileSystem, "ReFS file system", "", Start(3), b"ReFS\0", None),
    (Kind::FileSystem, "ReiserFS file system", "", Start(64 * K + 52), b"ReIsErFs", Some((64 * K + 100, 16))),
    (
        Kind::FileSystem,
        "ReiserFS file system",
        "",
        Start(64 * K + 52),
        b"ReIsEr2Fs",
        Some((64 * K + 100, 16)),
    ),
    (
        Kind::FileSystem,
        "ReiserFS file system",
        "",
        Start(64 * K + 52),
        b"ReIsEr3Fs",
        Some((64 * K + 100, 16)),
    ),
    (Kind::FileSystem, "JFS file system", "", Start(32 * K), b"JFS1", Some((32 * K + 152, 16))),
    (Kind::FileSystem, "F2FS file system", "", Start(K), b"\x10\x20\xf5\xf2", None),
    (Kind::FileSystem, "F2FS file system", "second copy", Start(5 * K), b"\x10\x20\xf5\xf2", None),
    (Kind::FileSystem, "NILFS2 file system", "", Start(K), b"\x02\0\0\0\0\0\x34\x34", Some((K + 152, 80))),
    (Kind::FileSystem, "HFS+ file system", "", Start(K), b"H+\0\x04", None),
    (Kind::FileSystem, "HFS+ file system", "backup at the end", End(K), b"H+\0\x04", None),
    (Kind::FileSystem, "HFSX file system", "", Start(K), b"HX\0\x05", None),
    (Kind::FileSystem, "APFS container", "", Start(32), b"NXSB", None),
    (Kind::FileSystem, "ISO 9660 image", "", Start(32 * K + 1), b"CD001", Some((32 * K + 40, 32))),
    (Kind::FileSystem, "UDF file system", "", Start(32 * K + 1), b"BEA01", None),
    (Kind::FileSystem, "SquashFS image", "", Start(0), b"hsqs", None),
    (Kind::FileSystem, "EROFS image", "", Start(K), b"\xe2\xe1\xf5\xe0", Some((K + 64, 16))),
    (Kind::FileSystem, "cramfs image", "", Start(0), b"\x45\x3d\xcd\x28", None),
    (Kind::FileSystem, "GFS2 file system", "", Start(64 * K), b"\x01\x16\x19\x70", None),
    (Kind::FileSystem, "OCFS2 file system", "", Start(8 * K), b"OCFSV2", None),
    (
        Kind::FileSystem,
        "UFS2 file system",
        "",
        Start(64 * K + 1372),
        b"\x19\x01\x54\x19",
        Some((64 * K + 680, 32)),
    ),
    (Kind::FileSystem, "bcachefs file system", "", Start(4 * K + 24), BCACHEFS, Some((4 * K + 72, 32))),
    (Kind::FileSystem, "VMFS datastore", "", Start(2 * M), b"\x5e\xf1\xab\x2f", None),
];

const BCACHE: &[u8] = b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81";
const BCACHEFS: &[u8] = b"\xc6\x85\x73\xf6\x66\xce\x90\xa9\xd9\x6a\x60\xcf\x80\x3d\xf7\xef";
const BLUESTORE: &[u8] = b"bluestore block device";
const STRATIS: &[u8] = b"!Stra0tis\x86\xff\x02^\x41rh";

const POOLS: &[Row] = &[
    (Kind::Ceph, "Ceph OSD (bluestore)", "", Start(0), BLUESTORE, None),
    (Kind::Ceph, "Ceph OSD (bluestore)", "label copy at 1 GiB", Start(G), BLUESTORE, None),
    (Kind::Ceph, "Ceph OSD (bluestore)", "label copy at 10 GiB", Start(10 * G), BLUESTORE, None),
    (Kind::Ceph, "Ceph OSD (bluestore)", "label copy at 100 GiB", Start(100 * G), BLUESTORE, None),
    (Kind::Ceph, "Ceph OSD (bluestore)", "label copy at 1000 GiB", Start(1000 * G), BLUESTORE, None),
    (Kind::Pool, "bcache member", "", Start(4 * K + 24), BCACHE, Some((4 * K + 72, 32))),
    (Kind::Pool, "Stratis member", "", Start(512 + 4), STRATIS, None),
    (Kind::Pool, "Stratis member", "second copy", Start(9 * 512 + 4), STRATIS, None),
    (Kind::Pool, "VDO member", "", Start(0), b"dmvdo001", None),
    (Kind::Pool, "dm-integrity device", "", Start(0), b"integrt\0", None),
    (Kind::Pool, "dm-verity device", "", Start(0), b"verity\0\0", None),
    (Kind::Pool, "Oracle ASM disk", "", Start(32), b"ORCLDISK", Some((72, 32))),
    (Kind::Pool, "VMFS volume member", "", Start(M), b"\x0d\xd0\x01\xc0", None),
    (Kind::Pool, "DRBD member", "at the end", End(4 * K - 60), b"\x83\x74\x02\x6b", None),
    (Kind::Pool, "DRBD member", "at the end", End(4 * K - 60), b"\x83\x74\x02\x6c", None),
    (Kind::Pool, "DRBD member", "at the end", End(4 * K - 60), b"\x83\x74\x02\x6d", None),
    (Kind::Raid, "Intel firmware RAID member", "at the end", End(1024), b"Intel Raid ISM Cfg Sig. ", None),
    (Kind::Raid, "DDF firmware RAID member", "at the end", End(512), b"\xde\x11\xde\x11", None),
    (Kind::Raid, "DDF firmware RAID member", "at the end", End(512), b"\x11\xde\x11\xde", None),
    (
        Kind::Raid,
        "DDF firmware RAID member",
        "257 sectors before the end",
        End(257 * 512),
        b"\xde\x11\xde\x11",
        None,
    ),
    (Kind::Raid, "NVIDIA firmware RAID member", "at the end", End(1024), b"NVIDIA", None),
    (Kind::Raid, "LSI firmware RAID member", "at the end", End(512), b"$XIDE$", None),
    (Kind::Raid, "HighPoint firmware RAID member", "", Start(9 * 512 + 32), b"\xf0\x16\x78\x5a", None),
    (Kind::Raid, "FreeBSD mirror member", "at the end", End(512), b"GEOM::MIRROR", None),
    (Kind::Encrypted, "FreeBSD GELI encryption", "at the end", End(512), b"GEOM::ELI", None),
    (Kind::Encrypted, "BitLocker encryption", "", Start(3), b"-FVE-FS-", None),
    (Kind::Table, "Windows dynamic disk", "", Start(6 * 512), b"PRIVHEAD", None),
    (Kind::Table, "Windows dynamic disk", "at the end", End(512), b"PRIVHEAD", None),
    (Kind::Table, "Apple partition map", "", Start(512), b"PM\0\0", None),
    (Kind::Table, "BSD disk label", "", Start(512), b"\x57\x45\x56\x82", None),
];

/// Swap stands at the end of its first page; pages differ between processors.
const PAGE_BYTES: [u64; 5] = [4 * K, 8 * K, 16 * K, 32 * K, 64 * K];
/// The words at that place: swap, old swap, and a system asleep in it.
const SWAP: [(&[u8; 10], &str); 4] = [
    (b"SWAPSPACE2", "swap space"),
    (b"SWAP-SPACE", "swap space"),
    (b"S1SUSPEND\0", "a suspended system in swap space"),
    (b"S2SUSPEND\0", "a suspended system in swap space"),
];

/// Compares every place with its signatures.
pub(super) fn look(probe: &Probe<'_>) {
    for (kind, what, place, at, magic, label_at) in FILE_SYSTEMS.iter().chain(POOLS) {
        let offset = match at {
            Start(offset) => Some(*offset),
            End(back) => (probe.size / 512 * 512).checked_sub(*back),
        };
        let Some(offset) = offset.filter(|offset| probe.is_at(*offset, magic)) else { continue };
        let named = label_at.and_then(|(offset, length)| label(&probe.bytes(offset, length)?));
        let named = named.filter(|name| name != "NO NAME");
        probe.found(*kind, with_label(what, named), *place, offset);
    }
    for page in PAGE_BYTES {
        let Some(word) = probe.bytes(page - 10, 10) else { continue };
        for (magic, what) in SWAP {
            if word == magic {
                let named = probe.bytes(K + 28, 16).and_then(|bytes| label(&bytes));
                probe.found(
                    Kind::Swap,
                    with_label(what, named),
                    format!("{} KiB pages", page / K),
                    page - 10,
                );
            }
        }
    }
}

/// A row for the test: kind, name, place in words, offset from the start or (`Err`) before the end, bytes.
#[cfg(test)]
pub(super) type PlainRow = (Kind, &'static str, &'static str, Result<u64, u64>, &'static [u8]);

/// The table for its test.
#[cfg(test)]
pub(super) fn rows() -> Vec<PlainRow> {
    let row = |row: &Row| {
        let at = match row.3 {
            Start(offset) => Ok(offset),
            End(back) => Err(back),
        };
        (row.0, row.1, row.2, at, row.4)
    };
    FILE_SYSTEMS.iter().chain(POOLS).map(row).collect()
}
