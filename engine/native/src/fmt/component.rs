//! Component headers: what a component is, the roots of its map, and the descriptor of its object.
//!
//! A descriptor that does not fit in the header goes on in a chain of descriptor pages. Each page is checked by the checksum that its
//! predecessor keeps; the chain is written from its end, so that the checksum of a page is known when the one before it is encoded.
//! A witness is a header without a map.
use super::dir::{DirEntry, DirEntryRaw};
use super::header::{self, HEADER_BYTES, Header, Kind, Place};
use super::{BLOCK, FmtError, LocalId, on_disk};
use model::ids::{ComponentId, ObjectId};
use uuid::Uuid;
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Top-level directory pages of a component: 16 × 120 × 120 leaves of 2 MiB are 450 GiB, more than the largest component.
pub const MAP_ROOTS: usize = 16;
/// Bytes of a descriptor that fit in the header.
pub const INLINE_BYTES: usize = 3328;
/// Bytes of a descriptor in each further page.
pub const CHAINED_BYTES: usize = BLOCK - 128;

on_disk! {
    struct ComponentRaw {
        header: [u8; HEADER_BYTES],
        component: [u8; 16],
        object: [u8; 16],
        kind: u8,
        rsv0: [u8; 7],
        size_blocks: U64,
        csn_epoch: U64,
        csn: U64,
        applied_stable_oseq: U64,
        snapshots_offset_bytes: U64,
        descriptor_bytes: U32,
        next_crc: U32,
        next_offset_bytes: U64,
        rsv1: [u8; 96],
        roots: [DirEntryRaw; MAP_ROOTS],
        descriptor: [u8; INLINE_BYTES],
    }
}
on_disk! {
    struct DescriptorRaw {
        header: [u8; HEADER_BYTES],
        bytes: U32,
        next_crc: U32,
        next_offset_bytes: U64,
        rsv0: [u8; 48],
        descriptor: [u8; CHAINED_BYTES],
    }
}
const _: () = assert!(size_of::<ComponentRaw>() == BLOCK && size_of::<DescriptorRaw>() == BLOCK);

#[cfg(test)]
pub(crate) const TABLES: &[(&str, super::Fields, usize)] = &[
    ("component header", ComponentRaw::FIELDS, size_of::<ComponentRaw>()),
    ("descriptor page", DescriptorRaw::FIELDS, size_of::<DescriptorRaw>()),
];

/// What a component is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum ComponentKind {
    /// A mirror leg.
    Data = 1,
    /// A vote without data.
    Witness = 2,
    /// A data strip of an erasure-coded group; reserved.
    Strip = 3,
    /// Parity of an erasure-coded group; reserved.
    Parity = 4,
    /// Takes the writes that an absent leg misses; reserved.
    Durability = 5,
}

/// A component as its header says.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Component {
    /// Number in the disk group.
    pub local: LocalId,
    /// The component.
    pub component: ComponentId,
    /// Its object.
    pub object: ObjectId,
    /// What it is for.
    pub kind: ComponentKind,
    /// Size in blocks of 4 KiB; 0 for a witness.
    pub size_blocks: u64,
    /// Version of the descriptor: (boot epoch, number).
    pub csn: (u64, u64),
    /// The last stable sequence of the object that was logged in a batch which this checkpoint contains.
    pub applied_stable_oseq: u64,
    /// Roots of the map.
    pub roots: [DirEntry; MAP_ROOTS],
}

/// A page of a chain: what it continues with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Next {
    /// Byte offset of the next page of the descriptor; 0: this is the last.
    pub offset_bytes: u64,
    /// Checksum in that page's header.
    pub crc: u32,
}

/// Pages that a descriptor of `bytes` needs besides the header.
pub fn chained_pages(bytes: usize) -> usize {
    bytes.saturating_sub(INLINE_BYTES).div_ceil(CHAINED_BYTES)
}

impl Component {
    /// Encodes the header with the front of `descriptor` (all of it: its whole length is kept). Returns the block and its checksum.
    /// `header.owner` must be the local id. Panics when the descriptor is longer than 4 GiB.
    pub fn encode(&self, header: &Header, descriptor: &[u8], next: Next) -> (Vec<u8>, u32) {
        let mut raw = ComponentRaw::new_zeroed();
        raw.component = self.component.0.into_bytes();
        raw.object = self.object.0.into_bytes();
        raw.kind = self.kind as u8;
        raw.size_blocks = self.size_blocks.into();
        raw.csn_epoch = self.csn.0.into();
        raw.csn = self.csn.1.into();
        raw.applied_stable_oseq = self.applied_stable_oseq.into();
        raw.descriptor_bytes = u32::try_from(descriptor.len()).expect("a descriptor is short").into();
        raw.next_crc = next.crc.into();
        raw.next_offset_bytes = next.offset_bytes.into();
        for (place, root) in raw.roots.iter_mut().zip(&self.roots) {
            *place = root.encode();
        }
        let inline = &descriptor[..descriptor.len().min(INLINE_BYTES)];
        raw.descriptor[..inline.len()].copy_from_slice(inline);
        let mut block = raw.as_bytes().to_vec();
        let crc = header::seal(&mut block, Kind::Component, header);
        (block, crc)
    }

    /// Decodes the header that was read at `place`.
    ///
    /// # Errors
    /// Any: the page is not what its parent points at.
    pub fn decode(block: &[u8], place: Place) -> Result<Decoded, FmtError> {
        let (header, crc) = header::open(block, Kind::Component, place)?;
        let raw = ComponentRaw::ref_from_bytes(block).map_err(|_| FmtError::Length(block.len()))?;
        let component = Self {
            local: LocalId(u32::try_from(header.owner).map_err(|_| FmtError::Field("owner"))?),
            component: ComponentId(Uuid::from_bytes(raw.component)),
            object: ObjectId(Uuid::from_bytes(raw.object)),
            kind: match raw.kind {
                1 => ComponentKind::Data,
                2 => ComponentKind::Witness,
                3 => ComponentKind::Strip,
                4 => ComponentKind::Parity,
                5 => ComponentKind::Durability,
                _ => return Err(FmtError::Field("component kind")),
            },
            size_blocks: raw.size_blocks.get(),
            csn: (raw.csn_epoch.get(), raw.csn.get()),
            applied_stable_oseq: raw.applied_stable_oseq.get(),
            roots: std::array::from_fn(|i| DirEntry::decode(&raw.roots[i])),
        };
        let len = raw.descriptor_bytes.get() as usize;
        let next = Next { offset_bytes: raw.next_offset_bytes.get(), crc: raw.next_crc.get() };
        if (chained_pages(len) == 0) != (next == Next::default()) {
            return Err(FmtError::Field("next_offset_bytes"));
        }
        let (inline, rest) = raw.descriptor.split_at(len.min(INLINE_BYTES));
        let reserved = raw.rsv0 == [0; 7] && raw.rsv1 == [0; 96] && raw.snapshots_offset_bytes.get() == 0;
        if !reserved || rest.iter().any(|byte| *byte != 0) {
            return Err(FmtError::Reserved);
        }
        Ok(Decoded { component, header, crc, descriptor: inline.to_vec(), descriptor_bytes: len, next })
    }
}

/// A component header as it was read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Decoded {
    /// What it says.
    pub component: Component,
    /// Its header.
    pub header: Header,
    /// Its checksum, for comparison with the parent's.
    pub crc: u32,
    /// The front of the descriptor.
    pub descriptor: Vec<u8>,
    /// Length of the whole descriptor.
    pub descriptor_bytes: usize,
    /// Where it goes on.
    pub next: Next,
}

/// Encodes a page with `part` of a descriptor (at most `CHAINED_BYTES`). Returns the block and its checksum.
pub fn encode_chained(header: &Header, part: &[u8], next: Next) -> (Vec<u8>, u32) {
    let mut raw = DescriptorRaw::new_zeroed();
    raw.bytes = (part.len() as u32).into();
    raw.next_crc = next.crc.into();
    raw.next_offset_bytes = next.offset_bytes.into();
    raw.descriptor[..part.len()].copy_from_slice(part);
    let mut block = raw.as_bytes().to_vec();
    let crc = header::seal(&mut block, Kind::Descriptor, header);
    (block, crc)
}

/// Decodes a page of a descriptor: (part, next, checksum).
///
/// # Errors
/// Any: the page is not what its predecessor points at.
pub fn decode_chained(block: &[u8], place: Place) -> Result<(Vec<u8>, Next, u32), FmtError> {
    let (_, crc) = header::open(block, Kind::Descriptor, place)?;
    let raw = DescriptorRaw::ref_from_bytes(block).map_err(|_| FmtError::Length(block.len()))?;
    let len = raw.bytes.get() as usize;
    if len == 0 || len > CHAINED_BYTES {
        return Err(FmtError::Field("bytes"));
    }
    let (part, rest) = raw.descriptor.split_at(len);
    if raw.rsv0 != [0; 48] || rest.iter().any(|byte| *byte != 0) {
        return Err(FmtError::Reserved);
    }
    Ok((part.to_vec(), Next { offset_bytes: raw.next_offset_bytes.get(), crc: raw.next_crc.get() }, crc))
}
