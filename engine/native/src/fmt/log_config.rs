//! Payload of a configuration record: all that a component is, so that replaying one makes the component or renews it.
//!
//! A fixed part, then the descriptor of the object, then zeros up to a whole block. The record's header carries the checksum of each
//! block, the length of fixed part and descriptor, and the version (CSN and its epoch).
use super::component::ComponentKind;
use super::{BLOCK, FmtError, on_disk};
use model::ids::{ComponentId, DiskId, ObjectId};
use uuid::Uuid;
use zerocopy::byteorder::little_endian::{U32, U64};
use zerocopy::{FromBytes, IntoBytes};

on_disk! {
    pub(crate) struct ConfigRaw {
        component: [u8; 16],
        object: [u8; 16],
        disk: [u8; 16],
        size_blocks: U64,
        kind: u8,
        rsv0: [u8; 3],
        descriptor_bytes: U32,
    }
}
const FIXED: usize = size_of::<ConfigRaw>();

#[cfg(test)]
pub(crate) const TABLES: &[(&str, super::Fields, usize)] = &[("log configuration", ConfigRaw::FIELDS, FIXED)];

/// Bytes of the longest descriptor: what a whole batch takes.
pub const DESCRIPTOR_BYTES_MAX: usize = super::log::PAYLOAD_BLOCKS_MAX * BLOCK - FIXED;

/// The whole state of a component, besides its local id and version.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigPayload<'a> {
    /// The component.
    pub component: ComponentId,
    /// Its object.
    pub object: ObjectId,
    /// The capacity disk that it lies on.
    pub disk: DiskId,
    /// Blocks of 4 KiB; 0 for a witness.
    pub size_blocks: u64,
    /// What it is for.
    pub kind: ComponentKind,
    /// The object's descriptor, sealed.
    pub descriptor: &'a [u8],
}

impl<'a> ConfigPayload<'a> {
    /// Bytes without the zeros at the end.
    pub fn len_bytes(&self) -> usize {
        FIXED + self.descriptor.len()
    }

    /// Writes into `out`, zeroed and long enough for [`ConfigPayload::len_bytes`] in whole blocks.
    ///
    /// # Panics
    /// When `out` is too short: the caller made it for this payload.
    pub fn encode(&self, out: &mut [u8]) {
        let raw = ConfigRaw {
            component: self.component.0.into_bytes(),
            object: self.object.0.into_bytes(),
            disk: self.disk.0.into_bytes(),
            size_blocks: self.size_blocks.into(),
            kind: self.kind as u8,
            rsv0: [0; 3],
            descriptor_bytes: (self.descriptor.len() as u32).into(),
        };
        out[..FIXED].copy_from_slice(raw.as_bytes());
        out[FIXED..self.len_bytes()].copy_from_slice(self.descriptor);
    }

    /// Reads the payload blocks of a record.
    ///
    /// # Errors
    /// `Length`, `Field` or `Reserved` when no writer wrote these bytes.
    pub fn decode(bytes: &'a [u8]) -> Result<Self, FmtError> {
        let (raw, rest) = ConfigRaw::ref_from_prefix(bytes).map_err(|_| FmtError::Length(bytes.len()))?;
        let descriptor_bytes = raw.descriptor_bytes.get() as usize;
        let (descriptor, slack) =
            rest.split_at_checked(descriptor_bytes).ok_or(FmtError::Field("descriptor_bytes"))?;
        if raw.rsv0 != [0; 3] || slack.len() >= BLOCK || slack.iter().any(|byte| *byte != 0) {
            return Err(FmtError::Reserved);
        }
        Ok(Self {
            component: ComponentId(Uuid::from_bytes(raw.component)),
            object: ObjectId(Uuid::from_bytes(raw.object)),
            disk: DiskId(Uuid::from_bytes(raw.disk)),
            size_blocks: raw.size_blocks.get(),
            kind: match raw.kind {
                1 => ComponentKind::Data,
                2 => ComponentKind::Witness,
                _ => return Err(FmtError::Field("kind")),
            },
            descriptor,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn gives_back_what_was_encoded_and_refuses_nonsense() {
        let descriptor = vec![9; 5000];
        let payload = ConfigPayload {
            component: ComponentId::from_random([1; 16]),
            object: ObjectId::from_random([2; 16]),
            disk: DiskId::from_random([3; 16]),
            size_blocks: 77,
            kind: ComponentKind::Witness,
            descriptor: &descriptor,
        };
        let mut bytes = vec![0; payload.len_bytes().div_ceil(BLOCK) * BLOCK];
        payload.encode(&mut bytes);
        assert_eq!(ConfigPayload::decode(&bytes), Ok(payload));
        for (at, value) in [(56, 9), (57, 1), (63, 255), (8191, 1)] {
            let mut bytes = bytes.clone();
            bytes[at] = value;
            assert!(ConfigPayload::decode(&bytes).is_err(), "byte {at}");
        }
        assert!(ConfigPayload::decode(&bytes[..63]).is_err());
    }
}
