//! The superblock: identity, layout and newest consistent state of one disk. 4 KiB, four copies in two pairs.
//!
//! Pair A lies at 4 KiB and 128 KiB before the end, pair B at 64 KiB and 4 KiB before the end. An update writes the pair that is older
//! and flushes, so that the newer one is whole at any moment; the highest valid generation wins (`cap::label` does the I/O). Everything
//! a disk or a disk group must know before it can read anything else is here: regions, members, log tails, checkpoint root.
//! One disk carries up to eight groups (a cache disk in slices, or the log and the extents of a `combined` disk).
use super::dir::{DirEntry, DirEntryRaw};
use super::header::{self, HEADER_BYTES, Header, Kind, Place};
use super::{BLOCK, FmtError, LocalId, dev_id, on_disk};
use model::ids::{ClusterId, DiskGroupId, DiskId, HostId};
use model::state::Media;
use uuid::Uuid;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// The on-disk format that this program reads and writes. Nothing is promised about 0 but that it is recognised.
pub const FORMAT: u16 = 0;
/// Incompatible features that this program knows: a disk with any other is refused.
pub const INCOMPATIBLE_KNOWN: u64 = 0;
/// Features without which a disk may be read but not written.
pub const READ_ONLY_KNOWN: u64 = 0;
/// Regions of one disk.
pub const REGIONS_MAX: usize = 16;
/// Disk groups with a region on one disk. Source: slices of a shared cache disk, up to 8.
pub const GROUPS_MAX: usize = 8;
/// Capacity disks of one group. Source: vSAN, 7.
pub const MEMBERS_MAX: usize = 7;
/// Bytes of a disk's name.
pub const NAME_BYTES_MAX: usize = 80;
/// Bytes of a wrapped data key.
pub const WRAPPED_KEY_BYTES_MAX: usize = 72;

/// Byte offsets of the four copies on a disk of `size_bytes`: `[A0, A1, B0, B1]`, a pair being two neighbours.
pub fn copies(size_bytes: u64) -> [u64; 4] {
    let end = size_bytes / BLOCK as u64 * BLOCK as u64;
    [4 << 10, end - (128 << 10), 64 << 10, end - (4 << 10)]
}

/// What a disk does, as a set: `CACHE | CAPACITY` is a combined disk.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Roles(u8);

impl Roles {
    /// It carries the log of one or more disk groups.
    pub const CACHE: Self = Self(1);
    /// It carries extents.
    pub const CAPACITY: Self = Self(2);
    /// It carries component headers without data.
    pub const WITNESS: Self = Self(4);
    /// Log and extents of the same group on one disk.
    pub const COMBINED: Self = Self(3);

    /// Whether all of `other` is in this set.
    pub fn contains(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }
}

impl std::ops::BitOr for Roles {
    type Output = Self;
    fn bitor(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }
}

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

/// The superblock, without its header's disk number and place, which follow from disk and copy.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Superblock {
    /// +1 with each update of this disk's superblock.
    pub generation: u64,
    /// Features of which an unknown one forbids reading.
    pub incompatible: u64,
    /// Features of which an unknown one forbids writing.
    pub read_only_compatible: u64,
    /// Features that may be unknown.
    pub compatible: u64,
    /// The cluster.
    pub cluster: ClusterId,
    /// This disk.
    pub disk: DiskId,
    /// The host it was last used in: a hint, not an identity.
    pub host: HostId,
    /// Name for people, at most `NAME_BYTES_MAX` bytes of UTF-8.
    pub name: String,
    /// Size when formatted.
    pub size_bytes: u64,
    /// Physical block when formatted.
    pub physical_block_bytes: u32,
    /// Media when formatted.
    pub media: Media,
    /// What it does.
    pub roles: Roles,
    /// Boot epoch: one number for the whole cluster, raised and flushed on every reachable disk before the first append of a life.
    pub epoch: u32,
    /// Set by an orderly stop, cleared by the next open.
    pub clean: bool,
    /// Keys, current and next.
    pub encryption: [EncryptionSlot; 2],
    /// Newest checkpoint.
    pub checkpoint: CheckpointRoot,
    /// At most `REGIONS_MAX`, in ascending order of offset.
    pub regions: Vec<Region>,
    /// At most `GROUPS_MAX`.
    pub groups: Vec<GroupLog>,
}

on_disk! {
    struct RegionRaw { kind: U16, rsv0: [u8; 6], group: [u8; 16], offset_bytes: U64, len_bytes: U64 }
}
on_disk! {
    struct MemberRaw { disk: [u8; 16], epoch: U32, damaged_epoch: U32, checkpoint_generation: U64 }
}
on_disk! {
    struct GroupRaw {
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
    struct EncryptionRaw {
        cipher: U16,
        wrapped_key_bytes: U16,
        rsv0: U32,
        key_encryption_key: [u8; 16],
        wrapped_key: [u8; WRAPPED_KEY_BYTES_MAX],
    }
}
on_disk! {
    struct CheckpointRaw {
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
on_disk! {
    struct SuperblockRaw {
        header: [u8; HEADER_BYTES],
        format: U16,
        region_count: u8,
        group_count: u8,
        rsv0: U32,
        incompatible: U64,
        read_only_compatible: U64,
        compatible: U64,
        cluster: [u8; 16],
        disk: [u8; 16],
        host: [u8; 16],
        size_bytes: U64,
        physical_block_bytes: U32,
        media: u8,
        roles: u8,
        clean: u8,
        name_bytes: u8,
        name: [u8; NAME_BYTES_MAX],
        encryption: [EncryptionRaw; 2],
        checkpoint: CheckpointRaw,
        regions: [RegionRaw; REGIONS_MAX],
        groups: [GroupRaw; GROUPS_MAX],
        rsv1: [u8; 616],
    }
}
const _: () = assert!(size_of::<SuperblockRaw>() == BLOCK);

/// The tables of this file for docs/on-disk-format.md.
#[cfg(test)]
pub(crate) const TABLES: &[(&str, super::Fields, usize)] = &[
    ("superblock", SuperblockRaw::FIELDS, size_of::<SuperblockRaw>()),
    ("region", RegionRaw::FIELDS, size_of::<RegionRaw>()),
    ("group", GroupRaw::FIELDS, size_of::<GroupRaw>()),
    ("member", MemberRaw::FIELDS, size_of::<MemberRaw>()),
    ("encryption slot", EncryptionRaw::FIELDS, size_of::<EncryptionRaw>()),
    ("checkpoint root", CheckpointRaw::FIELDS, size_of::<CheckpointRaw>()),
];

/// Whether a disk may be written by this program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// All features are known.
    ReadWrite,
    /// These features are not known; reading is safe.
    ReadOnly(u64),
}

impl Superblock {
    /// The regions of `group`, in order of offset.
    pub fn regions_of(&self, group: DiskGroupId) -> impl Iterator<Item = &Region> {
        self.regions.iter().filter(move |region| region.group == group)
    }

    /// The log region of `group`.
    pub fn log_region(&self, group: DiskGroupId) -> Option<Region> {
        self.regions_of(group).find(|region| region.kind == RegionKind::Log).copied()
    }

    /// The extents region; a disk has at most one.
    pub fn extents_region(&self) -> Option<Region> {
        self.regions.iter().find(|region| region.kind == RegionKind::Extents).copied()
    }

    /// What this disk knows of `group`.
    pub fn group(&self, group: DiskGroupId) -> Option<&GroupLog> {
        self.groups.iter().find(|known| known.group == group)
    }

    /// What this disk knows of `group`, to change.
    pub fn group_mut(&mut self, group: DiskGroupId) -> Option<&mut GroupLog> {
        self.groups.iter_mut().find(|known| known.group == group)
    }

    /// Whether this program may write the disk. (One that it may not even read does not decode.)
    pub fn access(&self) -> Access {
        match self.read_only_compatible & !READ_ONLY_KNOWN {
            0 => Access::ReadWrite,
            unknown => Access::ReadOnly(unknown),
        }
    }

    /// Encodes the copy that belongs at byte `self_off`.
    ///
    /// # Errors
    /// `Field` when a list or text is longer than its place.
    pub fn encode(&self, self_off: u64) -> Result<Vec<u8>, FmtError> {
        let mut raw = SuperblockRaw::new_zeroed();
        raw.format = FORMAT.into();
        raw.incompatible = self.incompatible.into();
        raw.read_only_compatible = self.read_only_compatible.into();
        raw.compatible = self.compatible.into();
        raw.cluster = self.cluster.0.into_bytes();
        raw.disk = self.disk.0.into_bytes();
        raw.host = self.host.0.into_bytes();
        raw.size_bytes = self.size_bytes.into();
        raw.physical_block_bytes = self.physical_block_bytes.into();
        raw.media = match self.media {
            Media::Flash => 1,
            Media::Hdd => 2,
        };
        raw.roles = self.roles.0;
        raw.clean = self.clean.into();
        raw.name_bytes = put_bytes(&mut raw.name, self.name.as_bytes(), "name")? as u8;
        for (slot, key) in raw.encryption.iter_mut().zip(&self.encryption) {
            *slot = key.encode()?;
        }
        raw.checkpoint = self.checkpoint.encode();
        raw.region_count =
            put_list(&mut raw.regions, &self.regions, "regions", |region| Ok(region.encode()))?;
        raw.group_count = put_list(&mut raw.groups, &self.groups, "groups", GroupLog::encode)?;
        let mut block = raw.as_bytes().to_vec();
        let header = Header {
            dev_id: dev_id(self.disk),
            self_off,
            generation: self.generation,
            incarnation: self.epoch,
            owner: 0,
        };
        header::seal(&mut block, Kind::Superblock, &header);
        Ok(block)
    }

    /// Decodes the copy that was read at byte `self_off`.
    ///
    /// # Errors
    /// `Format` and `Incompatible` say that a newer program wrote the disk; every other error that this copy is no superblock.
    pub fn decode(block: &[u8], self_off: u64) -> Result<Self, FmtError> {
        let (header, _) = header::open(block, Kind::Superblock, Place { dev_id: None, self_off })?;
        let raw = SuperblockRaw::ref_from_bytes(block).map_err(|_| FmtError::Length(block.len()))?;
        if raw.format.get() != FORMAT {
            return Err(FmtError::Format(raw.format.get()));
        }
        let unknown = raw.incompatible.get() & !INCOMPATIBLE_KNOWN;
        if unknown != 0 {
            return Err(FmtError::Incompatible(unknown));
        }
        let name = raw.name.get(..raw.name_bytes.into()).ok_or(FmtError::Field("name_bytes"))?;
        let superblock = Self {
            generation: header.generation,
            incompatible: raw.incompatible.get(),
            read_only_compatible: raw.read_only_compatible.get(),
            compatible: raw.compatible.get(),
            cluster: ClusterId(Uuid::from_bytes(raw.cluster)),
            disk: DiskId(Uuid::from_bytes(raw.disk)),
            host: HostId(Uuid::from_bytes(raw.host)),
            name: std::str::from_utf8(name).map_err(|_| FmtError::Field("name"))?.to_owned(),
            size_bytes: raw.size_bytes.get(),
            physical_block_bytes: raw.physical_block_bytes.get(),
            media: match raw.media {
                1 => Media::Flash,
                2 => Media::Hdd,
                _ => return Err(FmtError::Field("media")),
            },
            roles: Roles(raw.roles),
            epoch: header.incarnation,
            clean: raw.clean != 0,
            encryption: [
                EncryptionSlot::decode(&raw.encryption[0])?,
                EncryptionSlot::decode(&raw.encryption[1])?,
            ],
            checkpoint: CheckpointRoot::decode(&raw.checkpoint),
            regions: take_list(&raw.regions, raw.region_count, "region_count", Region::decode)?,
            groups: take_list(&raw.groups, raw.group_count, "group_count", GroupLog::decode)?,
        };
        if header.dev_id != dev_id(superblock.disk) {
            return Err(FmtError::OtherDisk);
        }
        // One encoding for each value: whatever decoding did not look at must be what encoding writes.
        if superblock.encode(self_off)? != block {
            return Err(FmtError::Reserved);
        }
        Ok(superblock)
    }
}

/// Copies `bytes` to the front of `place`; the number of bytes is returned.
fn put_bytes(place: &mut [u8], bytes: &[u8], field: &'static str) -> Result<usize, FmtError> {
    place.get_mut(..bytes.len()).ok_or(FmtError::Field(field))?.copy_from_slice(bytes);
    Ok(bytes.len())
}

fn put_list<T, R>(
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

fn take_list<T, R>(
    place: &[R],
    count: u8,
    field: &'static str,
    decode: impl Fn(&R) -> Result<T, FmtError>,
) -> Result<Vec<T>, FmtError> {
    place.get(..count.into()).ok_or(FmtError::Field(field))?.iter().map(decode).collect()
}

impl Region {
    fn encode(&self) -> RegionRaw {
        RegionRaw {
            kind: (self.kind as u16).into(),
            rsv0: [0; 6],
            group: self.group.0.into_bytes(),
            offset_bytes: self.offset_bytes.into(),
            len_bytes: self.len_bytes.into(),
        }
    }

    fn decode(raw: &RegionRaw) -> Result<Self, FmtError> {
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
    fn encode(&self) -> Result<GroupRaw, FmtError> {
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

    fn decode(raw: &GroupRaw) -> Result<Self, FmtError> {
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
    fn encode(&self) -> Result<EncryptionRaw, FmtError> {
        let mut raw = EncryptionRaw::new_zeroed();
        raw.cipher = self.cipher.into();
        raw.key_encryption_key = self.key_encryption_key.into_bytes();
        let bytes = put_bytes(&mut raw.wrapped_key, &self.wrapped_key, "wrapped_key")?;
        raw.wrapped_key_bytes = (bytes as u16).into();
        Ok(raw)
    }

    fn decode(raw: &EncryptionRaw) -> Result<Self, FmtError> {
        let wrapped_key = raw.wrapped_key.get(..raw.wrapped_key_bytes.get().into());
        Ok(Self {
            cipher: raw.cipher.get(),
            key_encryption_key: Uuid::from_bytes(raw.key_encryption_key),
            wrapped_key: wrapped_key.ok_or(FmtError::Field("wrapped_key_bytes"))?.to_vec(),
        })
    }
}

impl CheckpointRoot {
    fn encode(&self) -> CheckpointRaw {
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

    fn decode(raw: &CheckpointRaw) -> Self {
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
