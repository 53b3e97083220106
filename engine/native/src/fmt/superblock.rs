//! The superblock: identity, layout and newest consistent state of one disk. 4 KiB, four copies in two pairs.
//!
//! Pair A lies at 4 KiB and 128 KiB before the end, pair B at 64 KiB and 4 KiB before the end. An update writes the pair that is older
//! and flushes, so that the newer one is whole at any moment; the highest valid generation wins (`cap::label` does the I/O). Everything
//! a disk or a disk group must know before it can read anything else is here: regions, members, log tails, checkpoint root.
//! One disk carries up to eight groups (a cache disk in slices, or the log and the extents of a `combined` disk).
mod parts;

pub use parts::{CheckpointRoot, EncryptionSlot, GroupLog, Member, Region, RegionKind};

use super::header::{self, HEADER_BYTES, Header, Kind, Place};
use super::{BLOCK, FmtError, dev_id, on_disk};
use model::ids::{ClusterId, DiskGroupId, DiskId, HostId};
use model::state::Media;
use parts::{CheckpointRaw, EncryptionRaw, GroupRaw, RegionRaw, put_bytes, put_list, take_list};
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
pub(crate) const TABLES: &[(&str, super::Fields, usize)] =
    &[("superblock", SuperblockRaw::FIELDS, size_of::<SuperblockRaw>())];
/// The tables of its parts.
#[cfg(test)]
pub(crate) const PART_TABLES: &[(&str, super::Fields, usize)] = parts::TABLES;

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
