//! Partition tables: GPT at the start and its backup at the end, for sectors of 512 and 4096 bytes; MBR with its chain.
use super::{Kind, Probe};

/// Entries of a GPT that are read at most; 128 is what everybody writes.
const ENTRIES_MAX: u32 = 256;
/// Links of a chain of logical partitions that are followed at most.
const CHAIN_MAX: usize = 32;
/// Type of the MBR entry that stands before a GPT.
const PROTECTIVE: u8 = 0xee;

/// Partition types that are worth a name. Source: UEFI specification, Discoverable Partitions, VMware and Ceph documents.
const TYPES: &[(&str, &str)] = &[
    ("c12a7328-f81f-11d2-ba4b-00a0c93ec93b", "EFI system"),
    ("21686148-6449-6e6f-744e-656564454649", "BIOS boot"),
    ("0fc63daf-8483-4772-8e79-3d69d8477de4", "Linux"),
    ("0657fd6d-a4ab-43c4-84e5-0933c84b4f4f", "Linux swap"),
    ("e6d6d379-f507-44c2-a23c-238f2a3df928", "Linux LVM"),
    ("a19d880f-05fc-4d3b-a006-743f0f84911e", "Linux RAID"),
    ("ebd0a0a2-b9e5-4433-87c0-68b6b72699c7", "Windows"),
    ("e3c9e316-0b5c-4db8-817d-f92df00215ae", "Windows reserved"),
    ("e75caf8f-f680-4cee-afa3-b001e56efc2d", "Windows storage space"),
    ("6a898cc3-1dd2-11b2-99a6-080020736631", "ZFS"),
    ("516e7cba-6ecf-11d6-8ff8-00022d09712b", "FreeBSD ZFS"),
    ("4fbd7e29-9d25-41b8-afd0-062c0ceff05d", "Ceph OSD"),
    ("aa31e02a-400f-11db-9590-000c2911d1b8", "VMFS"),
    ("381cfccc-7288-11e0-92ee-000c2911d0b2", "VMware vSAN"),
];

/// `GPT with 1 partition`.
pub(super) fn counted(name: &str, count: usize) -> String {
    let noun = if count == 1 { "partition" } else { "partitions" };
    format!("{name} with {count} {noun}")
}

/// Notes the tables and answers their partitions: name, offset, size; each once.
pub(super) fn partitions(disk: &Probe<'_>) -> Vec<(String, u64, u64)> {
    let mut parts: Vec<(String, u64, u64)> = Vec::new();
    for sector in [512, 4096] {
        let last = (disk.size / sector).checked_sub(1).map(|last| last * sector);
        for (offset, place) in [(Some(sector), ""), (last, "backup at the end")] {
            for part in offset.and_then(|offset| gpt(disk, offset, sector, place)).unwrap_or_default() {
                if !parts.iter().any(|known| known.1 == part.1) {
                    parts.push(part);
                }
            }
        }
    }
    if parts.is_empty() {
        parts = mbr(disk);
    }
    parts
}

fn le(bytes: &[u8]) -> u64 {
    bytes.iter().rev().fold(0, |number, byte| number << 8 | u64::from(*byte))
}

/// One header and its entries. `None` when there is no header.
fn gpt(disk: &Probe<'_>, offset: u64, sector: u64, place: &str) -> Option<Vec<(String, u64, u64)>> {
    let header = disk.bytes(offset, 92).filter(|header| header.starts_with(b"EFI PART"))?;
    let entry_bytes = le(&header[84..88]);
    let count = u32::try_from(le(&header[80..84])).unwrap_or(0).min(ENTRIES_MAX);
    let mut parts = Vec::new();
    let mut types: Vec<String> = Vec::new();
    if (128..=4096).contains(&entry_bytes) {
        let first = le(&header[72..80]).saturating_mul(sector);
        for index in 0..u64::from(count) {
            let Some(entry) = disk.bytes(first.saturating_add(index * entry_bytes), 48) else { break };
            if entry[..16].iter().all(|byte| *byte == 0) {
                continue;
            }
            types.push(type_name(&entry[..16]));
            let (from, to) = (le(&entry[32..40]), le(&entry[40..48]));
            if let Some(sectors) = to.checked_sub(from).and_then(|sectors| sectors.checked_add(1)) {
                let part = (
                    format!("partition {}", index + 1),
                    from.saturating_mul(sector),
                    sectors.saturating_mul(sector),
                );
                parts.push(part);
            }
        }
    }
    let mut named: Vec<String> = types.iter().filter(|name| !name.is_empty()).cloned().collect();
    named.dedup();
    let list = if named.is_empty() { String::new() } else { format!(" ({})", named.join(", ")) };
    disk.found(Kind::Table, counted("GPT", types.len()) + &list, place, offset);
    Some(parts)
}

/// A type by name; empty for one that is not in the list. The first three groups of a GUID are little endian.
fn type_name(bytes: &[u8]) -> String {
    let guid = uuid::Uuid::from_slice_le(bytes).map(|guid| guid.to_string()).unwrap_or_default();
    TYPES.iter().find(|(known, _)| *known == guid).map_or(String::new(), |(_, name)| (*name).to_owned())
}

/// An MBR with at least one entry that makes sense. Boot sectors of file systems end with the same two bytes.
fn mbr(disk: &Probe<'_>) -> Vec<(String, u64, u64)> {
    let Some(block) = disk.bytes(0, 512).filter(|block| block[510..] == [0x55, 0xaa]) else {
        return Vec::new();
    };
    let entries = entries(&block);
    let is_sound = entries.iter().all(|entry| matches!(entry.flag, 0 | 0x80));
    if entries.is_empty() || !is_sound {
        return Vec::new();
    }
    if entries.iter().all(|entry| entry.kind == PROTECTIVE) {
        disk.found(Kind::Table, "protective MBR of a GPT", "", 510);
        return Vec::new();
    }
    let mut parts = Vec::new();
    for entry in &entries {
        if matches!(entry.kind, 0x05 | 0x0f | 0x85) {
            logical(disk, entry.first, &mut parts);
        } else {
            parts.push((format!("partition {}", entry.number), entry.first * 512, entry.sectors * 512));
        }
    }
    disk.found(Kind::Table, counted("MBR partition table", parts.len()), "", 510);
    parts
}

struct Entry {
    number: usize,
    flag: u8,
    kind: u8,
    first: u64,
    sectors: u64,
}

fn entries(block: &[u8]) -> Vec<Entry> {
    let entry = |number: usize| {
        let raw = &block[446 + number * 16..462 + number * 16];
        Entry {
            number: number + 1,
            flag: raw[0],
            kind: raw[4],
            first: le(&raw[8..12]),
            sectors: le(&raw[12..16]),
        }
    };
    (0..4).map(entry).filter(|entry| entry.kind != 0 && entry.sectors != 0).collect()
}

/// Follows the chain of logical partitions: each link names one and the next link.
fn logical(disk: &Probe<'_>, start: u64, parts: &mut Vec<(String, u64, u64)>) {
    let mut link = start;
    for index in 0..CHAIN_MAX {
        let Some(block) = disk.bytes(link * 512, 512).filter(|block| block[510..] == [0x55, 0xaa]) else {
            return;
        };
        let entries = entries(&block);
        for entry in entries.iter().filter(|entry| !matches!(entry.kind, 0x05 | 0x0f | 0x85)) {
            parts.push((format!("partition {}", index + 5), (link + entry.first) * 512, entry.sectors * 512));
        }
        let next = entries
            .iter()
            .find(|entry| matches!(entry.kind, 0x05 | 0x0f | 0x85))
            .map(|entry| start + entry.first);
        match next.filter(|next| *next > link) {
            Some(next) => link = next,
            None => return,
        }
    }
}
