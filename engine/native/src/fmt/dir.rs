//! Directory pages: the inner nodes of every tree on a capacity disk, 120 entries in 4 KiB.
//!
//! A tree is copied on write: a page is never overwritten, its parent holds its checksum, and the root is in the superblock (or in a
//! component header). Number of extents, highest sequence and digest of all that hangs below are folded upward, so that a walk can
//! skip what has not changed and two replicas are compared by one number. An entry that is all zero points nowhere.
use super::header::{self, HEADER_BYTES, Header, Kind, Place};
use super::{BLOCK, FmtError, on_disk};
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Entries of a page.
pub const DIR_ENTRIES: usize = 120;

on_disk! {
    pub(crate) struct DirEntryRaw { page_offset_bytes: U64, crc: U32, allocated: U32, oseq_max: U64, digest: U64 }
}
on_disk! {
    struct DirectoryRaw {
        header: [u8; HEADER_BYTES],
        level: u8,
        rsv0: [u8; 7],
        first: U64,
        rsv1: [u8; 176],
        entries: [DirEntryRaw; DIR_ENTRIES],
    }
}
const _: () = assert!(size_of::<DirectoryRaw>() == BLOCK);

#[cfg(test)]
pub(crate) const TABLES: &[(&str, super::Fields, usize)] = &[
    ("directory entry", DirEntryRaw::FIELDS, size_of::<DirEntryRaw>()),
    ("directory page", DirectoryRaw::FIELDS, size_of::<DirectoryRaw>()),
];

/// A pointer to a page, with the sum of what is below it.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct DirEntry {
    /// Byte offset of the page on the disk; 0: there is none.
    pub page_offset_bytes: u64,
    /// Checksum in the page's header.
    pub crc: u32,
    /// Extents allocated below (data extents in a component's map and in the table, extents in use in the bitmap).
    pub allocated: u32,
    /// Highest object sequence applied below.
    pub oseq_max: u64,
    /// Digest of the content below (`leaf` says of what), 0 when there is none.
    pub digest: u64,
}

impl DirEntry {
    /// Whether it points nowhere.
    pub fn is_empty(&self) -> bool {
        self.page_offset_bytes == 0
    }

    pub(crate) fn encode(&self) -> DirEntryRaw {
        DirEntryRaw {
            page_offset_bytes: self.page_offset_bytes.into(),
            crc: self.crc.into(),
            allocated: self.allocated.into(),
            oseq_max: self.oseq_max.into(),
            digest: self.digest.into(),
        }
    }

    pub(crate) fn decode(raw: &DirEntryRaw) -> Self {
        Self {
            page_offset_bytes: raw.page_offset_bytes.get(),
            crc: raw.crc.get(),
            allocated: raw.allocated.get(),
            oseq_max: raw.oseq_max.get(),
            digest: raw.digest.get(),
        }
    }
}

/// A directory page: entries `first ..` of the pages one level below (level 0 points at leaves).
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Directory {
    /// 0 points at leaves, n at pages of level n - 1.
    pub level: u8,
    /// Index, among all things of the level below, of what the first entry points at.
    pub first: u64,
    /// The entries.
    #[serde(serialize_with = "in_use")]
    pub entries: [DirEntry; DIR_ENTRIES],
}

/// Entries that point somewhere, by their position: what a person wants to see.
fn in_use<S: serde::Serializer>(entries: &[DirEntry; DIR_ENTRIES], to: S) -> Result<S::Ok, S::Error> {
    to.collect_map(entries.iter().enumerate().filter(|(_, entry)| **entry != DirEntry::default()))
}

impl Directory {
    /// A page that points nowhere.
    pub fn empty(level: u8, first: u64) -> Self {
        Self { level, first, entries: [DirEntry::default(); DIR_ENTRIES] }
    }

    /// Encodes the page; its checksum for the parent is returned with it.
    pub fn encode(&self, header: &Header) -> (Vec<u8>, u32) {
        let mut raw = DirectoryRaw::new_zeroed();
        raw.level = self.level;
        raw.first = self.first.into();
        for (place, entry) in raw.entries.iter_mut().zip(&self.entries) {
            *place = entry.encode();
        }
        let mut block = raw.as_bytes().to_vec();
        let crc = header::seal(&mut block, Kind::Directory, header);
        (block, crc)
    }

    /// Decodes the page that was read at `place`; header and checksum come with it.
    ///
    /// # Errors
    /// Any: the page is not what its parent points at.
    pub fn decode(block: &[u8], place: Place) -> Result<(Self, Header, u32), FmtError> {
        let (header, crc) = header::open(block, Kind::Directory, place)?;
        let raw = DirectoryRaw::ref_from_bytes(block).map_err(|_| FmtError::Length(block.len()))?;
        let page = Self {
            level: raw.level,
            first: raw.first.get(),
            entries: std::array::from_fn(|i| DirEntry::decode(&raw.entries[i])),
        };
        if raw.rsv0 != [0; 7] || raw.rsv1 != [0; 176] {
            return Err(FmtError::Reserved);
        }
        Ok((page, header, crc))
    }
}
