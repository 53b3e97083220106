//! Bitmap pages: the state of each extent of one allocation group, two bits each.
use super::header::{self, HEADER_BYTES, Header, Kind, Place};
use super::layout::GROUP_EXTENTS_MAX;
use super::{BLOCK, FmtError, on_disk};
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, FromZeros, IntoBytes};

/// Bytes of state in a page.
const STATE_BYTES: usize = GROUP_EXTENTS_MAX as usize / 4;

on_disk! {
    struct BitmapRaw {
        header: [u8; HEADER_BYTES],
        first: U64,
        extents: U32,
        free: U32,
        rsv0: [u8; 16],
        states: [u8; STATE_BYTES],
    }
}
const _: () = assert!(size_of::<BitmapRaw>() == BLOCK);

#[cfg(test)]
pub(crate) const TABLES: &[(&str, super::Fields, usize)] =
    &[("bitmap page", BitmapRaw::FIELDS, size_of::<BitmapRaw>())];

/// What an extent is used for.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
#[repr(u8)]
pub enum ExtentState {
    /// Nothing.
    #[default]
    Free = 0,
    /// One extent of one component.
    Data = 1,
    /// Sixteen metadata pages.
    Metadata = 2,
    /// It failed; never used again.
    Bad = 3,
}

/// The states of one allocation group, packed as they lie on disk: extent i in bits 2 (i mod 4) of byte i / 4.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Bitmap {
    first: u64,
    extents: u32,
    states: Box<[u8; STATE_BYTES]>,
}

impl Bitmap {
    /// `extents` free extents from number `first` on. Panics above 16,000: a mistake of the caller.
    pub fn empty(first: u64, extents: u32) -> Self {
        assert!(u64::from(extents) <= GROUP_EXTENTS_MAX);
        Self { first, extents, states: Box::new([0; STATE_BYTES]) }
    }

    /// Number of the first extent.
    pub fn first(&self) -> u64 {
        self.first
    }

    /// Extents in the group.
    pub fn extents(&self) -> u32 {
        self.extents
    }

    /// State of extent `index` of the group. Panics beyond its end.
    pub fn get(&self, index: u32) -> ExtentState {
        assert!(index < self.extents);
        match self.states[index as usize / 4] >> (index % 4 * 2) & 3 {
            0 => ExtentState::Free,
            1 => ExtentState::Data,
            2 => ExtentState::Metadata,
            _ => ExtentState::Bad,
        }
    }

    /// Sets the state of extent `index` of the group. Panics beyond its end.
    pub fn set(&mut self, index: u32, state: ExtentState) {
        assert!(index < self.extents);
        let (byte, shift) = (&mut self.states[index as usize / 4], index % 4 * 2);
        *byte = *byte & !(3 << shift) | (state as u8) << shift;
    }

    /// Extents in `state`.
    pub fn count(&self, state: ExtentState) -> u32 {
        (0..self.extents).filter(|index| self.get(*index) == state).count() as u32
    }

    /// Encodes the page; its checksum for the parent is returned with it.
    pub fn encode(&self, header: &Header) -> (Vec<u8>, u32) {
        let mut raw = BitmapRaw::new_zeroed();
        raw.first = self.first.into();
        raw.extents = self.extents.into();
        raw.free = self.count(ExtentState::Free).into();
        raw.states = *self.states;
        let mut block = raw.as_bytes().to_vec();
        let crc = header::seal(&mut block, Kind::Bitmap, header);
        (block, crc)
    }

    /// Decodes the page that was read at `place`; header and checksum come with it.
    ///
    /// # Errors
    /// Any: the page is not what its parent points at.
    pub fn decode(block: &[u8], place: Place) -> Result<(Self, Header, u32), FmtError> {
        let (header, crc) = header::open(block, Kind::Bitmap, place)?;
        let raw = BitmapRaw::ref_from_bytes(block).map_err(|_| FmtError::Length(block.len()))?;
        if u64::from(raw.extents.get()) > GROUP_EXTENTS_MAX {
            return Err(FmtError::Field("extents"));
        }
        let page = Self { first: raw.first.get(), extents: raw.extents.get(), states: Box::new(raw.states) };
        if page.encode(&header).0 != block {
            return Err(FmtError::Reserved);
        }
        if page.count(ExtentState::Free) != raw.free.get() {
            return Err(FmtError::Field("free"));
        }
        // States beyond the end must be free, else the encoding were not unique.
        let mut whole = Self { extents: GROUP_EXTENTS_MAX as u32, ..page.clone() };
        for index in 0..page.extents {
            whole.set(index, ExtentState::Free);
        }
        if *whole.states != [0; STATE_BYTES] {
            return Err(FmtError::Reserved);
        }
        Ok((page, header, crc))
    }
}
