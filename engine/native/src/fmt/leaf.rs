//! Leaves: where 32 extents (2 MiB) of a component lie, what is valid in them, and the checksum of each 4 KiB block.
//!
//! A block's checksum is here and not with the block, so that a lost, misdirected or old data write is noticed as well as rot. An extent
//! that was trimmed keeps its entry as a hole with the sequence of the trim: a leg that comes back must learn of it.
//! The digest of a leaf covers what the blocks are (valid bits and checksums) and not where they lie: replicas have equal digests.
use super::header::{self, HEADER_BYTES, Header, Kind, Place};
use super::{BLOCK, FmtError, on_disk};
use crate::fmt::dir::DirEntry;
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Extents of a leaf.
pub const LEAF_EXTENTS: usize = 32;
/// Blocks of an extent.
pub const EXTENT_BLOCKS: usize = 16;
/// Blocks of a leaf.
pub const LEAF_BLOCKS: u64 = (LEAF_EXTENTS * EXTENT_BLOCKS) as u64;

/// Bits 0..48 of an entry's place are the extent's number + 1; 0 is no extent.
const PLACE_MASK: u64 = (1 << 48) - 1;
/// The extent could not be read or written and must not be used again.
const FLAG_BAD: u64 = 1 << 62;

on_disk! {
    struct LeafEntryRaw {
        place: U64,
        oseq: U64,
        birth: U32,
        valid: U16,
        rsv0: U16,
        crc: [U32; EXTENT_BLOCKS],
        strip_oseq: [U64; 4],
    }
}
on_disk! {
    struct LeafRaw { header: [u8; HEADER_BYTES], index: U32, rsv0: [u8; 188], entries: [LeafEntryRaw; LEAF_EXTENTS] }
}
const _: () = assert!(size_of::<LeafEntryRaw>() == 120 && size_of::<LeafRaw>() == BLOCK);

#[cfg(test)]
pub(crate) const TABLES: &[(&str, super::Fields, usize)] = &[
    ("leaf entry", LeafEntryRaw::FIELDS, size_of::<LeafEntryRaw>()),
    ("leaf", LeafRaw::FIELDS, size_of::<LeafRaw>()),
];

/// One extent of a component. All zero: never written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct LeafEntry {
    /// Number of the extent in the extents region; `None` is a hole and reads as zero.
    pub extent: Option<u64>,
    /// The content was lost: reading any block of it is an error until it is written again.
    pub bad: bool,
    /// Highest object sequence applied.
    pub oseq: u64,
    /// Snapshot epoch in which the extent was allocated; 0 until there are snapshots.
    pub birth: u32,
    /// Bit per block: 1 is data, 0 reads as zero.
    pub valid: u16,
    /// CRC-32C of each valid block, else 0.
    pub crc: [u32; EXTENT_BLOCKS],
    /// Erasure coding. Parity: highest sequence folded in, for each data strip. Data: the first is the sequence of the content.
    pub strip_oseq: [u64; 4],
}

impl LeafEntry {
    fn encode(&self) -> LeafEntryRaw {
        let place =
            self.extent.map_or(0, |extent| (extent + 1) & PLACE_MASK) | if self.bad { FLAG_BAD } else { 0 };
        LeafEntryRaw {
            place: place.into(),
            oseq: self.oseq.into(),
            birth: self.birth.into(),
            valid: self.valid.into(),
            rsv0: 0.into(),
            crc: self.crc.map(Into::into),
            strip_oseq: self.strip_oseq.map(Into::into),
        }
    }

    fn decode(raw: &LeafEntryRaw) -> Result<Self, FmtError> {
        let place = raw.place.get();
        let entry = Self {
            extent: (place & PLACE_MASK).checked_sub(1),
            bad: place & FLAG_BAD != 0,
            oseq: raw.oseq.get(),
            birth: raw.birth.get(),
            valid: raw.valid.get(),
            crc: raw.crc.map(U32::get),
            strip_oseq: raw.strip_oseq.map(U64::get),
        };
        if place & !(PLACE_MASK | FLAG_BAD) != 0 || raw.rsv0.get() != 0 {
            return Err(FmtError::Reserved);
        }
        if entry.extent.is_none() && entry.valid != 0 {
            return Err(FmtError::Field("valid"));
        }
        let stray = entry.crc.iter().enumerate().any(|(i, crc)| entry.valid & (1 << i) == 0 && *crc != 0);
        if stray { Err(FmtError::Field("crc")) } else { Ok(entry) }
    }
}

/// The map of 2 MiB of a component.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Leaf {
    /// Which 2 MiB.
    pub index: u32,
    /// The extents.
    pub entries: [LeafEntry; LEAF_EXTENTS],
}

impl Leaf {
    /// A leaf of which nothing was ever written.
    pub fn empty(index: u32) -> Self {
        Self { index, entries: [LeafEntry::default(); LEAF_EXTENTS] }
    }

    /// Extents that are allocated.
    pub fn allocated(&self) -> u32 {
        self.entries.iter().filter(|entry| entry.extent.is_some()).count() as u32
    }

    /// Highest object sequence applied.
    pub fn oseq_max(&self) -> u64 {
        self.entries.iter().map(|entry| entry.oseq).max().unwrap_or(0)
    }

    /// xxh3 over (valid, checksums) of all extents, little endian; 0 when no block is valid.
    pub fn digest(&self) -> u64 {
        if self.entries.iter().all(|entry| entry.valid == 0) {
            return 0;
        }
        let mut hasher = xxhash_rust::xxh3::Xxh3::new();
        for entry in &self.entries {
            hasher.update(&entry.valid.to_le_bytes());
            hasher.update(entry.crc.map(U32::new).as_bytes());
        }
        hasher.digest()
    }

    /// Encodes the leaf; its checksum for the parent is returned with it.
    pub fn encode(&self, header: &Header) -> (Vec<u8>, u32) {
        let mut raw = LeafRaw::new_zeroed();
        raw.index = self.index.into();
        for (place, entry) in raw.entries.iter_mut().zip(&self.entries) {
            *place = entry.encode();
        }
        let mut block = raw.as_bytes().to_vec();
        let crc = header::seal(&mut block, Kind::Leaf, header);
        (block, crc)
    }

    /// Decodes the leaf that was read at `place`; header and checksum come with it.
    ///
    /// # Errors
    /// Any: the page is not what its parent points at.
    pub fn decode(block: &[u8], place: Place) -> Result<(Self, Header, u32), FmtError> {
        let (header, crc) = header::open(block, Kind::Leaf, place)?;
        let raw = LeafRaw::ref_from_bytes(block).map_err(|_| FmtError::Length(block.len()))?;
        if raw.rsv0 != [0; 188] {
            return Err(FmtError::Reserved);
        }
        let mut leaf = Self::empty(raw.index.get());
        for (entry, raw) in leaf.entries.iter_mut().zip(&raw.entries) {
            *entry = LeafEntry::decode(raw)?;
        }
        Ok((leaf, header, crc))
    }
}

/// The digest of a level from the digests below it, in order: 0 when all are 0, else xxh3 over them, little endian.
pub fn fold_digests(below: impl Iterator<Item = u64>) -> u64 {
    let mut any = 0;
    let mut hasher = xxhash_rust::xxh3::Xxh3::new();
    for digest in below {
        any |= digest;
        hasher.update(&digest.to_le_bytes());
    }
    if any == 0 { 0 } else { hasher.digest() }
}

/// Sum, maximum and digest over the entries of a page, for the entry that points at the page.
pub fn fold(entries: &[DirEntry], page_offset_bytes: u64, crc: u32) -> DirEntry {
    DirEntry {
        page_offset_bytes,
        crc,
        allocated: entries.iter().map(|entry| entry.allocated).sum(),
        oseq_max: entries.iter().map(|entry| entry.oseq_max).max().unwrap_or(0),
        digest: fold_digests(entries.iter().map(|entry| entry.digest)),
    }
}
