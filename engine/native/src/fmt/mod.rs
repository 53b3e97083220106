//! Pure codecs of everything that Millpond writes to a disk. No I/O, no clock, no allocation policy.
//!
//! Map: `header` the 64 bytes in front of every block · `superblock` the label of a disk · `slot` the cluster
//! configuration slots · `layout` where the regions of a disk lie · `leaf`, `dir` the map of a component · `component`
//! its header · `bitmap` the extents of one allocation group · `cbor`, `descriptor`, `config` objects and cluster as
//! sealed CBOR. docs/on-disk-format.md shows the same bytes as tables; a test holds the two together. Invariants: all
//! numbers are little endian; a block that was changed in any bit, or lies on another disk or at another offset than
//! the one it was sealed for, is an error and never a value; each value has exactly one encoding (reserved bytes are
//! zero).
pub mod bitmap;
pub mod cbor;
#[cfg(test)]
mod cbor_tests;
pub mod component;
pub mod config;
pub mod descriptor;
pub mod dir;
pub mod header;
pub mod layout;
pub mod leaf;
pub mod log;
pub mod log_config;
pub mod slot;
pub mod superblock;

use model::ids::DiskId;

/// Bytes of one block: what `model::units` says, as an index type.
pub const BLOCK: usize = model::units::BLOCK_BYTES as usize;

/// Why bytes are not what they should be. Nothing on the disk has changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum FmtError {
    /// The block does not begin with the magic number: never written, zeroed, or foreign.
    #[error("no Millpond block here")]
    Magic,
    /// The header version is newer than this program.
    #[error("header version {0} is not known")]
    HeaderVersion(u8),
    /// The buffer is shorter than the block says it is; `needed` bytes are enough.
    #[error("block of {needed} bytes in a buffer of {found}")]
    Short {
        /// Bytes that the block has.
        needed: usize,
        /// Bytes that were given.
        found: usize,
    },
    /// The length is not one that this kind of block can have.
    #[error("block length {0} is impossible")]
    Length(usize),
    /// The CRC-32C over the block does not match.
    #[error("checksum mismatch")]
    Checksum,
    /// Another kind of block (its number) than expected.
    #[error("unexpected kind of block: {0}")]
    Kind(u16),
    /// Sealed for another disk (`dev_id` differs).
    #[error("block of another disk")]
    OtherDisk,
    /// Sealed for the given byte offset: a misdirected write or read.
    #[error("block belongs at byte {0}")]
    Misplaced(u64),
    /// A field has a value that this version never writes.
    #[error("field {0} has an impossible value")]
    Field(&'static str),
    /// Reserved bytes are not zero, or the encoding is not the canonical one.
    #[error("reserved bytes are in use")]
    Reserved,
    /// The disk has another format number than this program writes.
    #[error("on-disk format {0} is not known")]
    Format(u16),
    /// Feature bits that this program must know to read the disk.
    #[error("unknown incompatible features {0:#x}")]
    Incompatible(u64),
}

impl FmtError {
    /// Whether a newer version of Millpond wrote this.
    pub fn is_newer(&self) -> bool {
        matches!(self, Self::Format(_) | Self::Incompatible(_) | Self::HeaderVersion(_))
    }
}

/// Number of a component in its disk group. Given out once and never again (a replayed record must not meet a newer
/// component);
/// zero is no component.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct LocalId(pub u32);

impl std::fmt::Display for LocalId {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        self.0.fmt(f)
    }
}

/// CRC-32C (Castagnoli) of `bytes`: the checksum of every data block and of every block with a header.
pub fn crc32c(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}

/// The number of a disk in block headers: the last eight bytes of its uuid, big endian as uuids are.
pub fn dev_id(disk: DiskId) -> u64 {
    disk.0.as_u64_pair().1
}

/// Name, offset and size in bytes of each field of a structure, as the document shows them.
#[cfg(test)]
pub type Fields = &'static [(&'static str, usize, usize)];

/// Defines a structure exactly as it lies on disk, with the table of its fields.
macro_rules! on_disk {
    ($(#[$meta:meta])* $vis:vis struct $name:ident { $($field:ident: $type:ty),* $(,)? }) => {
        $(#[$meta])*
        #[derive(
            Clone, Copy, zerocopy::FromBytes, zerocopy::IntoBytes, zerocopy::KnownLayout, zerocopy::Immutable,
            zerocopy::Unaligned,
        )]
        #[repr(C)]
        $vis struct $name { $($field: $type),* }

        impl $name {
            /// Name, offset and size of each field, bytes.
            #[cfg(test)]
            pub(crate) const FIELDS: $crate::fmt::Fields =
                &[$((stringify!($field), std::mem::offset_of!($name, $field), size_of::<$type>())),*];
        }
    };
}
pub(crate) use on_disk;

#[cfg(test)]
mod tests;
