//! Signatures with several places, or with a name inside that says whose they are.
use super::{Kind, Probe, label, with_label};
use crc_fast::{CrcAlgorithm, checksum};
use uuid::Uuid;

/// Looks for all of them.
pub(super) fn look(probe: &Probe<'_>) {
    millpond(probe);
    zfs(probe);
    mdraid(probe);
    lvm(probe);
    luks(probe);
    ext(probe);
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    bytes.get(at..at + 4).map_or(0, |four| u32::from_le_bytes(four.try_into().expect("four bytes")))
}

fn u32_be_at(bytes: &[u8], at: usize) -> u32 {
    u32_at(bytes, at).swap_bytes()
}

fn uuid_at(bytes: &[u8], at: usize) -> Option<Uuid> {
    Uuid::from_slice(bytes.get(at..at + 16)?).ok()
}

/// Our superblock: four copies in two pairs. Source: docs/on-disk-format.md, "Superblock".
fn millpond(probe: &Probe<'_>) {
    const BLOCK: usize = 4096;
    let end = probe.size / BLOCK as u64 * BLOCK as u64;
    let places = [Some(4 << 10), end.checked_sub(128 << 10), Some(64 << 10), end.checked_sub(4 << 10)];
    for (index, offset) in places.into_iter().enumerate() {
        let Some(block) = offset.and_then(|offset| probe.bytes(offset, BLOCK)) else { continue };
        if !block.starts_with(b"MPND\x01\0") {
            continue;
        }
        let mut unsealed = block.clone();
        unsealed[8..12].fill(0);
        let is_whole = u64::from(u32_at(&block, 8)) == checksum(CrcAlgorithm::Crc32Iscsi, &unsealed);
        let format = u16::from_le_bytes([block[64], block[65]]);
        let cluster = uuid_at(&block, 96).map(|uuid| uuid.to_string()).unwrap_or_default();
        let length = usize::from(block[159]).min(80);
        let name = label(&block[160..160 + length]).unwrap_or_else(|| "a disk".into());
        let what = match (is_whole, format) {
            (true, 0) => format!("{name} of the Millpond cluster {cluster}"),
            (true, newer) => format!("{name} of the Millpond cluster {cluster}, format {newer}"),
            (false, _) => "a damaged Millpond superblock".into(),
        };
        probe.found(Kind::Millpond, what, format!("superblock copy {} of 4", index + 1), offset.unwrap_or(0));
    }
}

/// Four labels of 256 KiB, two at each end; in each a list of names at 16 KiB and uberblocks from 128 KiB on. A label
/// whose list was wiped is still one: import may find it.
fn zfs(probe: &Probe<'_>) {
    const LABEL: u64 = 256 << 10;
    const UBERBLOCK: [u8; 8] = 0x00ba_b10c_u64.to_le_bytes();
    let end = probe.size / LABEL * LABEL;
    let places = [Some(0), Some(LABEL), end.checked_sub(2 * LABEL), end.checked_sub(LABEL)];
    let mut seen = Vec::new();
    for (index, offset) in places.into_iter().enumerate() {
        let Some(offset) = offset.filter(|offset| !seen.contains(offset)) else { continue };
        seen.push(offset);
        let Some(rings) = probe.bytes(offset + (128 << 10), 128 << 10) else { continue };
        let is_uberblock =
            |slot: &[u8]| slot.starts_with(&UBERBLOCK) || slot.iter().take(8).eq(UBERBLOCK.iter().rev());
        let uberblock = rings.chunks_exact(1024).position(is_uberblock);
        let names = probe.bytes(offset + (16 << 10), 16 << 10).unwrap_or_default();
        let pool = nvlist_text(&names, "name");
        if uberblock.is_none() && pool.is_none() {
            continue;
        }
        let at = uberblock.map_or(16 << 10, |slot| (128 << 10) + slot as u64 * 1024);
        let what = with_label("ZFS member", pool);
        probe.found(Kind::Zfs, what, format!("label {} of 4", index + 1), offset + at);
    }
}

/// The text with this name in an XDR name-value list: length and name, type 9 (text), one element, length and text.
fn nvlist_text(list: &[u8], name: &str) -> Option<String> {
    let mut wanted = u32::try_from(name.len()).ok()?.to_be_bytes().to_vec();
    wanted.extend(name.as_bytes());
    wanted.resize(4 + name.len().next_multiple_of(4), 0);
    wanted.extend([0, 0, 0, 9, 0, 0, 0, 1]);
    let at = list.windows(wanted.len()).position(|window| window == wanted)? + wanted.len();
    let length = usize::try_from(u32_be_at(list, at)).ok()?;
    label(list.get(at + 4..at + 4 + length)?)
}

/// md superblocks: 0.90 in the last 64 KiB block but one, 1.0 eight KiB before the end, 1.1 at the start, 1.2 at 4 KiB.
fn mdraid(probe: &Probe<'_>) {
    const MAGIC: [u8; 4] = 0xa92b_4efc_u32.to_le_bytes();
    let old = (probe.size / (64 << 10) * (64 << 10)).checked_sub(64 << 10);
    let sectors = probe.size / 512;
    let at_end = sectors.checked_sub(16).map(|sector| sector / 8 * 8 * 512);
    let places = [("0.90", old, 0), ("1.0", at_end, 1), ("1.1", Some(0), 1), ("1.2", Some(4 << 10), 1)];
    for (version, offset, major) in places {
        let Some(block) = offset.and_then(|offset| probe.bytes(offset, 256)) else { continue };
        let is_big_endian = block[..4].iter().eq(MAGIC.iter().rev());
        if block[..4] != MAGIC && !(major == 0 && is_big_endian) {
            continue;
        }
        let said = if is_big_endian { u32_be_at(&block, 4) } else { u32_at(&block, 4) };
        if said != major {
            continue;
        }
        let name = if major == 1 { label(&block[32..64]) } else { None };
        let what = with_label("mdadm member", name);
        probe.found(Kind::Raid, what, format!("superblock {version}"), offset.unwrap_or(0));
    }
}

/// An LVM label in one of the first four sectors. The volume group's name is text further on, in the metadata area.
fn lvm(probe: &Probe<'_>) {
    for sector in 0..4 {
        let Some(block) = probe.bytes(sector * 512, 512) else { continue };
        if block.starts_with(b"LABELONE") && block[24..32] == *b"LVM2 001" {
            probe.found(Kind::Lvm, "LVM physical volume", format!("label in sector {sector}"), sector * 512);
        }
    }
}

/// A LUKS header at the start; version 2 has a second one, with the first letters turned round, at one of nine places.
fn luks(probe: &Probe<'_>) {
    if let Some(block) = probe.bytes(0, 128).filter(|block| block.starts_with(b"LUKS\xba\xbe")) {
        let version = u16::from_be_bytes([block[6], block[7]]);
        let name = if version == 2 { label(&block[24..72]) } else { None };
        probe.found(Kind::Encrypted, with_label("LUKS encryption", name), format!("version {version}"), 0);
    }
    for shift in 14..=22 {
        if probe.is_at(1 << shift, b"SKUL\xba\xbe") {
            probe.found(Kind::Encrypted, "LUKS encryption", "second header", 1 << shift);
        }
    }
}

/// ext2, ext3 and ext4 share a superblock at 1 KiB; features tell them apart. Copies stand at the start of block groups.
fn ext(probe: &Probe<'_>) {
    const MAGIC: [u8; 2] = [0x53, 0xef];
    // With blocks of 1, 2 and 4 KiB the second block group begins at block 8193, 16384 and 32768.
    let copies = [(8193 << 10, 0), (16384 << 11, 1), (32768 << 12, 2)];
    let usual = [(1024, "", None)].into_iter();
    let backups = copies.map(|(offset, size)| (offset, "backup of a block group", Some(size)));
    for (offset, place, block_size) in usual.chain(backups) {
        let Some(block) = probe.bytes(offset, 256).filter(|block| block[56..58] == MAGIC) else { continue };
        // Two bytes are no proof: the block size must fit the place, and there are at most 64 KiB a block.
        let log_block_size = u32_at(&block, 24);
        if log_block_size > 6 || block_size.is_some_and(|wanted| wanted != log_block_size) {
            continue;
        }
        let (compatible, incompatible) = (u32_at(&block, 92), u32_at(&block, 96));
        let name = match (compatible & 0x4 != 0, incompatible & !0x16 != 0) {
            (_, true) => "ext4",
            (true, false) => "ext3",
            (false, false) => "ext2",
        };
        let what = with_label(&format!("{name} file system"), label(&block[120..136]));
        probe.found(Kind::FileSystem, what, place, offset + 56);
    }
}
