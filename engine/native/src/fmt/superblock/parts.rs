//! The parts of a superblock that have a table of their own: regions, groups with their members, keys, checkpoint root.
use super::{MEMBERS_MAX, WRAPPED_KEY_BYTES_MAX};
use crate::fmt::dir::{DirEntry, DirEntryRaw};
use crate::fmt::{FmtError, LocalId, on_disk};
use model::ids::{DiskGroupId, DiskId};
use uuid::Uuid;
use zerocopy::FromZeros;
use zerocopy::byteorder::little_endian::{U16, U32, U64};

/// What a region holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u16)]
pub enum RegionKind {
    /// The ring of a group's write-ahead log.
    Log = 1,
    /// Extents of 64 KiB: data and metadata pages.
    Extents = 2,
    /// Read cache; reserved, not written yet.
    ReadCache = 3,
}

/// A part of the disk that belongs to one group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[allow(missing_docs, reason = "said by the names; offset and length in bytes of the disk")]
pub struct Region {
    pub kind: RegionKind,
    pub group: DiskGroupId,
    pub offset_bytes: u64,
    pub len_bytes: u64,
}

/// A capacity disk of a group as it was at the last move of the log's tail: with less than this it is an old copy of itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Member {
    /// The disk.
    pub disk: DiskId,
    /// Boot epoch in its superblock.
    pub epoch: u32,
    /// The epoch in which it was found that this disk lost records, by a damaged log or as an old copy; 0 for never. Components
    /// whose descriptor was committed under a lower epoch are stale and nobody has said so yet.
    pub damaged_epoch: u32,
    /// Generation of its newest checkpoint.
    pub checkpoint_generation: u64,
}

/// One disk group as this disk knows it. The log disk keeps all of it; a capacity disk keeps group, log disk, members and `flushed_seq`.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct GroupLog {
    /// The group.
    pub group: DiskGroupId,
    /// The disk that carries the log.
    pub log_disk: DiskId,
    /// First batch that recovery must read.
    pub tail_seq: u64,
    /// Where that batch begins, bytes from the start of the log region.
    pub tail_offset_bytes: u64,
    /// Newest batch known to be on stable media when this superblock was written: a log that ends below it is damaged.
    pub flushed_seq: u64,
    /// The next local id to give out; never lowered.
    pub next_local: LocalId,
    /// Capacity disks, at most `MEMBERS_MAX`.
    pub members: Vec<Member>,
}

/// A wrapped data key. Cipher 0 is no encryption; the fields are reserved until there is one.
#[derive(Clone, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[allow(missing_docs, reason = "said by the names")]
pub struct EncryptionSlot {
    pub cipher: u16,
    pub key_encryption_key: Uuid,
    pub wrapped_key: Vec<u8>,
}

/// The newest checkpoint of the extents region: all that is needed to read its maps.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct CheckpointRoot {
    /// +1 with each checkpoint; 0 is a disk without extents.
    pub generation: u64,
    /// Every record of this disk in batches up to here is in the checkpoint.
    pub applied_batch: u64,
    /// Root of the component table.
    pub table: DirEntry,
    /// Root of the bitmap.
    pub bitmap: DirEntry,
    /// Components in the table.
    pub components: u32,
    /// Extents in use for data.
    pub data_extents: u64,
    /// Extents in use for metadata pages.
    pub metadata_extents: u64,
}

on_disk! {
    pub(super) struct RegionRaw { kind: U16, rsv0: [u8; 6], group: [u8; 16], offset_bytes: U64, len_bytes: U64 }
}
on_disk! {
    pub(super) struct MemberRaw { disk: [u8; 16], epoch: U32, damaged_epoch: U32, checkpoint_generation: U64 }
}
on_disk! {
    pub(super) struct GroupRaw {
        group: [u8; 16],
        log_disk: [u8; 16],
        tail_seq: U64,
        tail_offset_bytes: U64,
        flushed_seq: U64,
        next_local: U32,
        member_count: u8,
        rsv0: [u8; 3],
        members: [MemberRaw; MEMBERS_MAX],
    }
}
on_disk! {
    pub(super) struct EncryptionRaw {
        cipher: U16,
        wrapped_key_bytes: U16,
        rsv0: U32,
        key_encryption_key: [u8; 16],
        wrapped_key: [u8; WRAPPED_KEY_BYTES_MAX],
    }
}
on_disk! {
    pub(super) struct CheckpointRaw {
        generation: U64,
        applied_batch: U64,
        table: DirEntryRaw,
        bitmap: DirEntryRaw,
        components: U32,
        rsv0: U32,
        data_extents: U64,
        metadata_extents: U64,
    }
}

#[cfg(test)]
pub(super) const TABLES: &[(&str, crate::fmt::Fields, usize)] = &[
    ("region", RegionRaw::FIELDS, size_of::<RegionRaw>()),
    ("group", GroupRaw::FIELDS, size_of::<GroupRaw>()),
    ("member", MemberRaw::FIELDS, size_of::<MemberRaw>()),
    ("encryption slot", EncryptionRaw::FIELDS, size_of::<EncryptionRaw>()),
    ("checkpoint root", CheckpointRaw::FIELDS, size_of::<CheckpointRaw>()),
];

/// Copies `bytes` to the front of `place`; the number of bytes is returned.
pub(super) fn put_bytes(place: &mut [u8], bytes: &[u8], field: &'static str) -> Result<usize, FmtError> {
    place.get_mut(..bytes.len()).ok_or(FmtError::Field(field))?.copy_from_slice(bytes);
    Ok(bytes.len())
}

pub(super) fn put_list<T, R>(
    place: &mut [R],
    items: &[T],
    field: &'static str,
    encode: impl Fn(&T) -> Result<R, FmtError>,
) -> Result<u8, FmtError> {
    let place = place.get_mut(..items.len()).ok_or(FmtError::Field(field))?;
    for (raw, item) in place.iter_mut().zip(items) {
        *raw = encode(item)?;
    }
    Ok(items.len() as u8)
}

pub(super) fn take_list<T, R>(
    place: &[R],
    count: u8,
    field: &'static str,
    decode: impl Fn(&R) -> Result<T, FmtError>,
) -> Result<Vec<T>, FmtError> {
    place.get(..count.into()).ok_or(FmtError::Field(field))?.iter().map(decode).collect()
}

impl Region {
    pub(super) fn encode(&self) -> RegionRaw {
        RegionRaw {
            kind: (self.kind as u16).into(),
            rsv0: [0; 6],
            group: self.group.0.into_bytes(),
            offset_bytes: self.offset_bytes.into(),
            len_bytes: self.len_bytes.into(),
        }
    }

    pub(super) fn decode(raw: &RegionRaw) -> Result<Self, FmtError> {
        Ok(Self {
            kind: match raw.kind.get() {
                1 => RegionKind::Log,
                2 => RegionKind::Extents,
                3 => RegionKind::ReadCache,
                _ => return Err(FmtError::Field("region kind")),
            },
            group: DiskGroupId(Uuid::from_bytes(raw.group)),
            offset_bytes: raw.offset_bytes.get(),
            len_bytes: raw.len_bytes.get(),
        })
    }
}

impl GroupLog {
    pub(super) fn encode(&self) -> Result<GroupRaw, FmtError> {
        let mut raw = GroupRaw::new_zeroed();
        raw.group = self.group.0.into_bytes();
        raw.log_disk = self.log_disk.0.into_bytes();
        raw.tail_seq = self.tail_seq.into();
        raw.tail_offset_bytes = self.tail_offset_bytes.into();
        raw.flushed_seq = self.flushed_seq.into();
        raw.next_local = self.next_local.0.into();
        raw.member_count = put_list(&mut raw.members, &self.members, "members", |member| {
            Ok(MemberRaw {
                disk: member.disk.0.into_bytes(),
                epoch: member.epoch.into(),
                damaged_epoch: member.damaged_epoch.into(),
                checkpoint_generation: member.checkpoint_generation.into(),
            })
        })?;
        Ok(raw)
    }

    pub(super) fn decode(raw: &GroupRaw) -> Result<Self, FmtError> {
        Ok(Self {
            group: DiskGroupId(Uuid::from_bytes(raw.group)),
            log_disk: DiskId(Uuid::from_bytes(raw.log_disk)),
            tail_seq: raw.tail_seq.get(),
            tail_offset_bytes: raw.tail_offset_bytes.get(),
            flushed_seq: raw.flushed_seq.get(),
            next_local: LocalId(raw.next_local.get()),
            members: take_list(&raw.members, raw.member_count, "member_count", |member| {
                Ok(Member {
                    disk: DiskId(Uuid::from_bytes(member.disk)),
                    epoch: member.epoch.get(),
                    damaged_epoch: member.damaged_epoch.get(),
                    checkpoint_generation: member.checkpoint_generation.get(),
                })
            })?,
        })
    }
}

impl EncryptionSlot {
    pub(super) fn encode(&self) -> Result<EncryptionRaw, FmtError> {
        let mut raw = EncryptionRaw::new_zeroed();
        raw.cipher = self.cipher.into();
        raw.key_encryption_key = self.key_encryption_key.into_bytes();
        let bytes = put_bytes(&mut raw.wrapped_key, &self.wrapped_key, "wrapped_key")?;
        raw.wrapped_key_bytes = (bytes as u16).into();
        Ok(raw)
    }

    pub(super) fn decode(raw: &EncryptionRaw) -> Result<Self, FmtError> {
        let wrapped_key = raw.wrapped_key.get(..raw.wrapped_key_bytes.get().into());
        Ok(Self {
            cipher: raw.cipher.get(),
            key_encryption_key: Uuid::from_bytes(raw.key_encryption_key),
            wrapped_key: wrapped_key.ok_or(FmtError::Field("wrapped_key_bytes"))?.to_vec(),
        })
    }
}

impl CheckpointRoot {
    pub(super) fn encode(&self) -> CheckpointRaw {
        CheckpointRaw {
            generation: self.generation.into(),
            applied_batch: self.applied_batch.into(),
            table: self.table.encode(),
            bitmap: self.bitmap.encode(),
            components: self.components.into(),
            rsv0: 0.into(),
            data_extents: self.data_extents.into(),
            metadata_extents: self.metadata_extents.into(),
        }
    }

    pub(super) fn decode(raw: &CheckpointRaw) -> Self {
        Self {
            generation: raw.generation.get(),
            applied_batch: raw.applied_batch.get(),
            table: DirEntry::decode(&raw.table),
            bitmap: DirEntry::decode(&raw.bitmap),
            components: raw.components.get(),
            data_extents: raw.data_extents.get(),
            metadata_extents: raw.metadata_extents.get(),
        }
    }
}
