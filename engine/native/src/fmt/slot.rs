//! A slot of the cluster configuration: opaque bytes (`fmt::config` knows them) with their place in the order of versions.
//!
//! A slot is one block with the common header, padded to whole 4 KiB, so that a torn write of it is noticed.
use super::header::{self, HEADER_BYTES, Header, Kind, Place};
use super::layout::CONFIG_SLOT_BYTES;
use super::{BLOCK, FmtError, on_disk};
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, IntoBytes};

on_disk! {
    struct SlotRaw { header: [u8; HEADER_BYTES], sequence: U64, payload_bytes: U32, rsv0: U32, rsv1: [u8; 48] }
}

#[cfg(test)]
pub(crate) const TABLES: &[(&str, super::Fields, usize)] =
    &[("config slot", SlotRaw::FIELDS, size_of::<SlotRaw>())];

/// Bytes of payload that fit in a slot.
pub const PAYLOAD_BYTES_MAX: usize = CONFIG_SLOT_BYTES as usize - size_of::<SlotRaw>();

/// One version of the cluster configuration. Versions are ordered by epoch, then sequence.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigSlot {
    /// Boot epoch in which it was written.
    pub epoch: u32,
    /// Sequence within the epoch.
    pub sequence: u64,
    /// The configuration.
    pub payload: Vec<u8>,
}

impl ConfigSlot {
    /// Encodes the slot for the disk with number `dev_id` at byte `self_off`; a multiple of 4 KiB long.
    ///
    /// # Errors
    /// `Length` when the payload does not fit.
    pub fn encode(&self, dev_id: u64, self_off: u64) -> Result<Vec<u8>, FmtError> {
        if self.payload.len() > PAYLOAD_BYTES_MAX {
            return Err(FmtError::Length(self.payload.len()));
        }
        let raw = SlotRaw {
            header: [0; HEADER_BYTES],
            sequence: self.sequence.into(),
            payload_bytes: (self.payload.len() as u32).into(),
            rsv0: 0.into(),
            rsv1: [0; 48],
        };
        let mut block = raw.as_bytes().to_vec();
        block.extend_from_slice(&self.payload);
        block.resize(block.len().next_multiple_of(BLOCK), 0);
        let header =
            Header { dev_id, self_off, generation: self.sequence, incarnation: self.epoch, owner: 0 };
        header::seal(&mut block, Kind::ConfigSlot, &header);
        Ok(block)
    }

    /// Decodes what was read at byte `self_off` of the disk with number `dev_id`; bytes after the slot are not looked at.
    ///
    /// # Errors
    /// Any: this slot holds no configuration.
    pub fn decode(bytes: &[u8], dev_id: u64, self_off: u64) -> Result<Self, FmtError> {
        let place = Place { dev_id: Some(dev_id), self_off };
        let (header, _) = header::open(bytes, Kind::ConfigSlot, place)?;
        let (raw, rest) = SlotRaw::ref_from_prefix(bytes)
            .map_err(|_| FmtError::Short { needed: size_of::<SlotRaw>(), found: bytes.len() })?;
        let payload =
            rest.get(..raw.payload_bytes.get() as usize).ok_or(FmtError::Field("payload_bytes"))?.to_vec();
        let slot = Self { epoch: header.incarnation, sequence: raw.sequence.get(), payload };
        let len = header::length_claimed(bytes)?;
        if slot.encode(dev_id, self_off)? != bytes[..len] {
            return Err(FmtError::Reserved);
        }
        Ok(slot)
    }
}
