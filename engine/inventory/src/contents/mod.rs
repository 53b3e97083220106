//! What is on a disk: signatures read from it, and what `lsblk` takes it for. Neither is trusted alone.
//!
//! Map: `magic` is the table of simple signatures, `members` those with several places or a name inside (LVM, md, ZFS,
//! LUKS, ext, Millpond), `tables` partition tables; this file walks them and holds the words.
//! Invariants: reading is a closure, so a file, a device and a test are the same; every read is bounded, whatever the
//! disk says; a disk is blank only when every place was read and nothing was found, in samples over its whole length, too.
mod magic;
mod members;
mod tables;

use crate::lsblk::Node;
use sha2::{Digest, Sha256};
use std::cell::{Cell, RefCell};
use std::io;

/// Reads exactly a buffer at an offset.
pub type ReadAt<'a> = dyn Fn(u64, &mut [u8]) -> io::Result<()> + 'a;

/// Partitions that are looked into; a table with more is named, and its first ones are.
const PARTITIONS_MAX: usize = 32;
/// Places that are sampled for data without a signature, spread evenly.
const SAMPLES: u64 = 64;
/// Bytes of one sample.
const SAMPLE_BYTES: u64 = 4096;
/// Bytes read at both ends for the same reason.
const END_BYTES: u64 = 256 << 10;

/// What a finding is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// A disk of a Millpond cluster.
    Millpond,
    /// A member of a ZFS pool.
    Zfs,
    /// A member of a software or firmware array.
    Raid,
    /// An LVM physical volume.
    Lvm,
    /// A Ceph OSD.
    Ceph,
    /// A cache or pool member of another kind.
    Pool,
    /// Encrypted.
    Encrypted,
    /// A file system.
    FileSystem,
    /// Swap space.
    Swap,
    /// A partition table.
    Table,
    /// Something without a signature.
    Unknown,
}

/// One thing on a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Finding {
    /// What it is.
    pub kind: Kind,
    /// In words: `ZFS member (oldtank)`.
    pub what: String,
    /// Where: `label 3 of 4`, `backup at the end`, `partition 1`; empty when there is only one place.
    pub place: String,
    /// Byte on the disk where the signature stands; `None` when only `lsblk` names it.
    pub offset_bytes: Option<u64>,
    /// Partition that it lies in.
    pub partition: Option<String>,
}

/// Everything on a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Contents {
    /// Findings, most telling first.
    pub findings: Vec<Finding>,
    /// Whether the disk itself was read; else only `lsblk` was asked.
    pub was_read: bool,
    /// Where reading failed, in one sentence.
    pub unreadable: Option<String>,
}

impl Contents {
    /// Everything in one line: `ZFS member (oldtank) in partition 1; GPT with 2 partitions`. `None` when nothing is there.
    pub fn summary(&self) -> Option<String> {
        let mut said: Vec<String> = Vec::new();
        for finding in &self.findings {
            let text = match &finding.partition {
                Some(partition) => format!("{} in {partition}", finding.what),
                None => finding.what.clone(),
            };
            if !said.contains(&text) {
                said.push(text);
            }
        }
        let more = said.len().saturating_sub(4);
        said.truncate(4);
        if more > 0 {
            said.push(format!("{more} more"));
        }
        (!said.is_empty()).then(|| said.join("; "))
    }

    /// Whether anything of this kind is there.
    pub fn has(&self, kind: Kind) -> bool {
        self.findings.iter().any(|finding| finding.kind == kind)
    }
}

/// A disk, or a part of one, that is looked at.
pub(crate) struct Probe<'a> {
    read: &'a ReadAt<'a>,
    base: u64,
    /// Bytes of this part.
    pub size: u64,
    partition: Option<String>,
    failed: &'a RefCell<Option<String>>,
    found: &'a RefCell<Vec<Finding>>,
    reads: &'a Cell<u64>,
}

impl Probe<'_> {
    /// `length` bytes at `offset`; `None` beyond the end or where reading fails.
    pub fn bytes(&self, offset: u64, length: usize) -> Option<Vec<u8>> {
        if offset.checked_add(length as u64)? > self.size {
            return None;
        }
        self.reads.set(self.reads.get() + 1);
        let mut bytes = vec![0; length];
        match (self.read)(self.base + offset, &mut bytes) {
            Ok(()) => Some(bytes),
            Err(error) => {
                let sentence = format!("reading at byte {} failed: {error}", self.base + offset);
                self.failed.borrow_mut().get_or_insert(sentence);
                None
            }
        }
    }

    /// Whether these bytes stand at `offset`.
    pub fn is_at(&self, offset: u64, magic: &[u8]) -> bool {
        self.bytes(offset, magic.len()).is_some_and(|bytes| bytes == magic)
    }

    /// Notes a finding whose signature stands at `offset`.
    pub fn found(&self, kind: Kind, what: impl Into<String>, place: impl Into<String>, offset: u64) {
        self.found.borrow_mut().push(Finding {
            kind,
            what: what.into(),
            place: place.into(),
            offset_bytes: Some(self.base + offset),
            partition: self.partition.clone(),
        });
    }

    /// A part of this one.
    fn part(&self, name: String, offset: u64, size: u64) -> Self {
        let size = size.min(self.size.saturating_sub(offset));
        Self { base: self.base + offset, size, partition: Some(name), ..*self }
    }
}

/// Looks at a disk of `size_bytes`.
pub fn look(read: &ReadAt<'_>, size_bytes: u64) -> Contents {
    let (failed, found, reads) = (RefCell::new(None), RefCell::new(Vec::new()), Cell::new(0));
    let disk = Probe {
        read,
        base: 0,
        size: size_bytes,
        partition: None,
        failed: &failed,
        found: &found,
        reads: &reads,
    };
    signatures(&disk);
    for (name, offset, size) in tables::partitions(&disk).into_iter().take(PARTITIONS_MAX) {
        signatures(&disk.part(name, offset, size));
    }
    if found.borrow().is_empty()
        && let Some(offset) = first_data(&disk)
    {
        let what = format!("data of unknown kind (not zero at byte {offset})");
        disk.found(Kind::Unknown, what, "", offset);
    }
    let mut findings = found.into_inner();
    findings.sort_by_key(|finding| (finding.kind, finding.offset_bytes));
    Contents { findings, was_read: true, unreadable: failed.into_inner() }
}

/// A word for what stands on a disk now: of its findings, of the blocks around them, of both ends and of samples over its whole
/// length. Two looks with the same word saw the same.
pub fn fingerprint(read: &ReadAt<'_>, size_bytes: u64, contents: &Contents) -> String {
    let mut digest = Sha256::new();
    digest.update(size_bytes.to_be_bytes());
    for finding in contents.findings.iter().filter(|finding| finding.offset_bytes.is_some()) {
        digest.update(format!("{finding:?}"));
    }
    let block = |offset: &u64| (offset / SAMPLE_BYTES * SAMPLE_BYTES, SAMPLE_BYTES);
    let offsets = contents.findings.iter().filter_map(|finding| finding.offset_bytes);
    let around: Vec<(u64, u64)> = offsets.map(|offset| block(&offset)).collect();
    for (offset, length) in samples(size_bytes).into_iter().chain(around) {
        let length = length.min(size_bytes.saturating_sub(offset));
        let mut bytes = vec![0; usize::try_from(length).unwrap_or(0)];
        digest.update(offset.to_be_bytes());
        match read(offset, &mut bytes) {
            Ok(()) => digest.update(&bytes),
            Err(_) => digest.update(b"unreadable"),
        }
    }
    digest.finalize().iter().take(16).map(|byte| format!("{byte:02x}")).collect()
}

/// Both ends in full, and places between them: offset and length.
fn samples(size_bytes: u64) -> Vec<(u64, u64)> {
    let head = END_BYTES.min(size_bytes);
    let tail = size_bytes.saturating_sub(END_BYTES).max(head);
    let middle =
        (1..SAMPLES).map(|index| (size_bytes / SAMPLES * index / SAMPLE_BYTES * SAMPLE_BYTES, SAMPLE_BYTES));
    std::iter::once((0, head)).chain(middle).chain([(tail, size_bytes - tail)]).collect()
}

fn signatures(probe: &Probe<'_>) {
    members::look(probe);
    magic::look(probe);
}

/// The first sampled byte that is not zero: both ends in full, and places between them.
fn first_data(probe: &Probe<'_>) -> Option<u64> {
    let nonzero = |offset: u64, length: u64| {
        let bytes = probe.bytes(offset, usize::try_from(length).ok()?)?;
        bytes.iter().position(|byte| *byte != 0).map(|index| offset + index as u64)
    };
    samples(probe.size)
        .into_iter()
        .filter(|(offset, length)| offset + length <= probe.size)
        .find_map(|(offset, length)| nonzero(offset, length))
}

/// Adds what `lsblk` sees on the disk and its partitions and the reading did not.
pub(crate) fn add_lsblk(contents: &mut Contents, disk: &Node) {
    let parts = disk.children.iter().filter(|child| child.kind == "part");
    let count = parts.clone().count();
    let mut seen: Vec<Finding> = Vec::new();
    let mut see = |kind, what: String, partition: Option<String>| {
        let place = "as lsblk says".to_owned();
        seen.push(Finding { kind, what, place, offset_bytes: None, partition });
    };
    for node in std::iter::once(disk).chain(parts) {
        let partition = (node.kind == "part").then(|| node.name.clone());
        if let Some((kind, what)) =
            node.fstype.as_deref().and_then(|fstype| of_fstype(fstype, node.label.as_deref()))
        {
            see(kind, what, partition);
        }
    }
    if disk.table.is_some() || count > 0 {
        let name = table_name(disk.table.as_deref());
        see(Kind::Table, tables::counted(name, count), None);
    }
    for finding in seen {
        if !contents.findings.iter().any(|known| known.kind == finding.kind) {
            contents.findings.push(finding);
        }
    }
    contents.findings.sort_by_key(|finding| (finding.kind, finding.offset_bytes));
}

fn table_name(table: Option<&str>) -> &str {
    match table {
        Some("gpt") => "GPT",
        Some("dos") => "MBR partition table",
        _ => "partition table",
    }
}

/// What `lsblk` means by a file system type. Multipath members are recognised by their map.
fn of_fstype(fstype: &str, label: Option<&str>) -> Option<(Kind, String)> {
    let named = |what: &str| match label {
        Some(label) => format!("{what} ({label})"),
        None => what.to_owned(),
    };
    let (kind, what) = match fstype {
        "mpath_member" => return None,
        "zfs_member" => (Kind::Zfs, named("ZFS member")),
        "linux_raid_member" => (Kind::Raid, named("mdadm member")),
        other if other.ends_with("_raid_member") => (Kind::Raid, named("firmware RAID member")),
        "LVM2_member" | "LVM1_member" => (Kind::Lvm, "LVM physical volume".into()),
        "ceph_bluestore" => (Kind::Ceph, "Ceph OSD (bluestore)".into()),
        "crypto_LUKS" => (Kind::Encrypted, named("LUKS encryption")),
        "BitLocker" => (Kind::Encrypted, named("BitLocker encryption")),
        "swap" | "swsuspend" => (Kind::Swap, named("swap space")),
        "bcache" | "stratis" | "vdo" | "drbd" | "VMFS_volume_member" => {
            (Kind::Pool, named(&format!("{fstype} member")))
        }
        other => (Kind::FileSystem, named(&format!("{other} file system"))),
    };
    Some((kind, what))
}

/// A text from a disk, for people: printable characters, without blanks around it.
pub(crate) fn label(bytes: &[u8]) -> Option<String> {
    let end = bytes.iter().position(|byte| *byte == 0).unwrap_or(bytes.len());
    let text: String = String::from_utf8_lossy(&bytes[..end])
        .chars()
        .filter(|one| !one.is_control())
        .collect::<String>()
        .trim()
        .into();
    (!text.is_empty() && !text.contains('\u{fffd}')).then_some(text)
}

/// `what (label)`, or `what` alone.
pub(crate) fn with_label(what: &str, label: Option<String>) -> String {
    match label {
        Some(label) => format!("{what} ({label})"),
        None => what.to_owned(),
    }
}

#[cfg(test)]
mod tests;
