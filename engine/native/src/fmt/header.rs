//! The common header: the first 64 bytes of every metadata block and of every log batch.
//!
//! It says what the block is and where it belongs, so that a torn, rotten, misdirected, stale or foreign block is noticed before
//! anything in it is believed. Data blocks have none: their checksum is in the leaf that points at them.
use super::{FmtError, on_disk};
use crate::mutant::{Mutant, on};
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

/// Bytes of the header.
pub const HEADER_BYTES: usize = 64;
/// The first four bytes of every block: "MPND".
const MAGIC: u32 = u32::from_le_bytes(*b"MPND");
const VERSION: u8 = 1;

/// What a block is. Numbers are never used again for something else.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u16)]
pub enum Kind {
    /// `fmt::superblock`.
    Superblock = 1,
    /// `fmt::slot`: one copy of the cluster configuration.
    ConfigSlot = 2,
    /// `fmt::log`: the header blocks of a batch.
    LogBatch = 3,
    /// `fmt::component`: a component header.
    Component = 4,
    /// `fmt::component`: the rest of a descriptor that does not fit in its header.
    Descriptor = 5,
    /// `fmt::dir`: a directory page.
    Directory = 6,
    /// `fmt::leaf`: the map of 2 MiB of a component.
    Leaf = 7,
    /// `fmt::bitmap`: the extents of one allocation group.
    Bitmap = 8,
}

on_disk! {
    pub(crate) struct HeaderRaw {
        magic: U32,
        kind: U16,
        version: u8,
        rsv0: u8,
        crc: U32,
        len: U32,
        dev_id: U64,
        self_off: U64,
        generation: U64,
        incarnation: U32,
        rsv1: U32,
        owner: U64,
        rsv2: U64,
    }
}
const _: () = assert!(size_of::<HeaderRaw>() == HEADER_BYTES);

#[cfg(test)]
pub(crate) const TABLES: &[(&str, super::Fields, usize)] =
    &[("block header", HeaderRaw::FIELDS, HEADER_BYTES)];

/// What the header says besides kind, length and checksum.
#[derive(Clone, Copy, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Header {
    /// `fmt::dev_id` of the disk that the block was written for.
    pub dev_id: u64,
    /// Byte offset on the disk where the block belongs.
    pub self_off: u64,
    /// Superblock generation, checkpoint generation or batch sequence, by kind.
    pub generation: u64,
    /// Boot epoch of the cluster when the block was written.
    pub incarnation: u32,
    /// Local id of the component that the block belongs to, or 0.
    pub owner: u64,
}

/// Where a block was read from: what its header must agree with.
#[derive(Clone, Copy, Debug)]
pub struct Place {
    /// `fmt::dev_id` of the disk, or `None` while the disk is not known yet (its superblock is being read).
    pub dev_id: Option<u64>,
    /// Byte offset on the disk.
    pub self_off: u64,
}

/// CRC-32C over the block with its checksum field taken as zero.
fn block_crc(block: &[u8]) -> u32 {
    let mut digest = crc_fast::Digest::new(crc_fast::CrcAlgorithm::Crc32Iscsi);
    digest.update(&block[..8]);
    digest.update(&[0; 4]);
    digest.update(&block[12..]);
    digest.finalize() as u32
}

/// Writes the header into the first 64 bytes of `block` and its checksum over all of `block`. Returns the checksum, which the parent
/// of a metadata page keeps. Panics when the block is shorter than its header or longer than 4 GiB: a mistake of the caller.
pub fn seal(block: &mut [u8], kind: Kind, header: &Header) -> u32 {
    let mut raw = HeaderRaw {
        magic: MAGIC.into(),
        kind: (kind as u16).into(),
        version: VERSION,
        rsv0: 0,
        crc: 0.into(),
        len: u32::try_from(block.len()).expect("a block is shorter than 4 GiB").into(),
        dev_id: header.dev_id.into(),
        self_off: header.self_off.into(),
        generation: header.generation.into(),
        incarnation: header.incarnation.into(),
        rsv1: 0.into(),
        owner: header.owner.into(),
        rsv2: 0.into(),
    };
    block[..HEADER_BYTES].copy_from_slice(raw.as_bytes());
    let crc = block_crc(block);
    raw.crc = crc.into();
    block[..HEADER_BYTES].copy_from_slice(raw.as_bytes());
    crc
}

/// Length in bytes of the block that begins in `bytes` (at least 64 of them), believed before its checksum is known: for reading the
/// rest of a block whose first part was read. The caller bounds it.
pub fn length_claimed(bytes: &[u8]) -> Result<usize, FmtError> {
    let (raw, _) = HeaderRaw::ref_from_prefix(bytes)
        .map_err(|_| FmtError::Short { needed: HEADER_BYTES, found: bytes.len() })?;
    if raw.magic.get() != MAGIC {
        return Err(FmtError::Magic);
    }
    if raw.version != VERSION {
        return Err(FmtError::HeaderVersion(raw.version));
    }
    match raw.len.get() as usize {
        len if len < HEADER_BYTES => Err(FmtError::Length(len)),
        len => Ok(len),
    }
}

/// Checks the block at the start of `bytes`: magic, version, length, checksum, kind, disk, place, reserved bytes. Bytes after the
/// block's own length are not looked at. The checksum that was found is returned for comparison with the parent's.
pub fn open(bytes: &[u8], kind: Kind, place: Place) -> Result<(Header, u32), FmtError> {
    let len = length_claimed(bytes)?;
    let block = bytes.get(..len).ok_or(FmtError::Short { needed: len, found: bytes.len() })?;
    let (raw, _) = HeaderRaw::ref_from_prefix(block).map_err(|_| FmtError::Length(len))?;
    if raw.crc.get() != block_crc(block) {
        return Err(FmtError::Checksum);
    }
    if raw.kind.get() != kind as u16 {
        return Err(FmtError::Kind(raw.kind.get()));
    }
    if place.dev_id.is_some_and(|dev_id| dev_id != raw.dev_id.get()) {
        return Err(FmtError::OtherDisk);
    }
    if raw.self_off.get() != place.self_off && !on(Mutant::NoSelfOffset) {
        return Err(FmtError::Misplaced(raw.self_off.get()));
    }
    if (raw.rsv0, raw.rsv1.get(), raw.rsv2.get()) != (0, 0, 0) {
        return Err(FmtError::Reserved);
    }
    let header = Header {
        dev_id: raw.dev_id.get(),
        self_off: raw.self_off.get(),
        generation: raw.generation.get(),
        incarnation: raw.incarnation.get(),
        owner: raw.owner.get(),
    };
    Ok((header, raw.crc.get()))
}

#[cfg(test)]
mod tests {
    use super::*;

    const HEADER: Header = Header { dev_id: 7, self_off: 4096, generation: 9, incarnation: 3, owner: 5 };
    const PLACE: Place = Place { dev_id: Some(7), self_off: 4096 };

    fn block() -> Vec<u8> {
        let mut block = vec![0x5a; 4096];
        seal(&mut block, Kind::Leaf, &HEADER);
        block
    }

    #[test]
    fn opens_what_was_sealed_and_nothing_else() {
        let mut bytes = block();
        bytes.extend([1, 2, 3]);
        assert_eq!(open(&bytes, Kind::Leaf, PLACE).map(|(header, _)| header), Ok(HEADER));
        assert_eq!(open(&bytes, Kind::Bitmap, PLACE), Err(FmtError::Kind(Kind::Leaf as u16)));
        let other_disk = Place { dev_id: Some(8), ..PLACE };
        assert_eq!(open(&bytes, Kind::Leaf, other_disk), Err(FmtError::OtherDisk));
        let elsewhere = Place { self_off: 8192, ..PLACE };
        assert_eq!(open(&bytes, Kind::Leaf, elsewhere), Err(FmtError::Misplaced(4096)));
        assert_eq!(
            open(&bytes[..4095], Kind::Leaf, PLACE),
            Err(FmtError::Short { needed: 4096, found: 4095 })
        );
        assert_eq!(open(&[0; 4096], Kind::Leaf, PLACE), Err(FmtError::Magic));
        assert!(open(&[], Kind::Leaf, PLACE).is_err());
    }

    #[test]
    fn every_flipped_bit_is_noticed() {
        let mut bytes = block();
        for bit in 0..bytes.len() * 8 {
            bytes[bit / 8] ^= 1 << (bit % 8);
            assert!(open(&bytes, Kind::Leaf, PLACE).is_err(), "bit {bit}");
            bytes[bit / 8] ^= 1 << (bit % 8);
        }
    }

    #[test]
    fn the_mutant_believes_a_misdirected_block() {
        crate::mutant::set(Some(Mutant::NoSelfOffset));
        let elsewhere = Place { self_off: 8192, ..PLACE };
        let opened = open(&block(), Kind::Leaf, elsewhere);
        crate::mutant::set(None);
        assert!(opened.is_ok());
    }
}
