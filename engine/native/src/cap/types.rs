//! The words of a capacity disk: what goes in and comes out of [`super::CapDisk`].
use super::label::LabelError;
use crate::fmt::component::ComponentKind;
use crate::fmt::{FmtError, LocalId};
use crate::io::{DiskError, IoBuf};
use model::ids::{ComponentId, ObjectId};
use std::rc::Rc;

/// Why a capacity disk refused or failed.
#[derive(Debug, thiserror::Error)]
pub enum CapError {
    /// No free extents are left for this. Raised by `reserve` and `create` alone, before anything has changed;
    /// `after_checkpoint` extents come free with the next checkpoint.
    #[error("no space: {after_checkpoint} extents come free with the next checkpoint")]
    NoSpace {
        /// Extents that were freed since the last checkpoint.
        after_checkpoint: u64,
    },
    /// There is no component with this number.
    #[error("component {0} is not on this disk")]
    NoComponent(LocalId),
    /// A component with this number exists, or the table (14,400 components) is full.
    #[error("component {0} cannot be created here")]
    CannotCreate(LocalId),
    /// Blocks beyond the end of the component, or buffers and checksums that do not fit the range. Nothing has changed.
    #[error("blocks {block} to {end} are not a range of component {local}")]
    Range {
        /// The component.
        local: LocalId,
        /// First block.
        block: u64,
        /// One past the last.
        end: u64,
    },
    /// The superblock has no extents region, or no checkpoint.
    #[error("the disk has no extents")]
    NoExtents,
    /// A page that the checkpoint needs as a whole is damaged: the disk cannot be used, other copies must be.
    #[error("the metadata page at byte {offset_bytes} is damaged")]
    Damaged {
        /// Where.
        offset_bytes: u64,
        /// What is wrong with it.
        #[source]
        source: FmtError,
    },
    /// The disk failed. A write leaves old and new bytes mixed in the blocks it named (their log records are still there); a
    /// checkpoint leaves the old one or the new one, and may be tried again after `NoSpace` of the backing file.
    #[error("the disk failed")]
    Disk(#[from] DiskError),
    /// The superblock could not be written; as `Disk`.
    #[error("the checkpoint could not be committed")]
    Label(#[from] LabelError),
}

/// A component to make.
#[derive(Clone, Debug)]
#[allow(missing_docs, reason = "as in fmt::component::Component")]
pub struct NewComponent {
    pub local: LocalId,
    pub component: ComponentId,
    pub object: ObjectId,
    pub kind: ComponentKind,
    pub size_blocks: u64,
    pub csn: (u64, u64),
    pub descriptor: Rc<[u8]>,
}

/// A component as it is in RAM now (the checkpoint may be older).
#[derive(Clone, Debug)]
pub struct ComponentInfo {
    /// Number in the disk group.
    pub local: LocalId,
    /// The component.
    pub component: ComponentId,
    /// Its object.
    pub object: ObjectId,
    /// What it is for.
    pub kind: ComponentKind,
    /// Size in blocks.
    pub size_blocks: u64,
    /// Version of the descriptor: (boot epoch, number).
    pub csn: (u64, u64),
    /// The object's descriptor, opaque here.
    pub descriptor: Rc<[u8]>,
    /// The stable sequence that the last checkpoint contains.
    pub applied_stable_oseq: u64,
    /// Bytes of extents in use.
    pub used_bytes: u64,
    /// Highest object sequence applied, holes included.
    pub oseq_max: u64,
    /// Part of its map could not be read when the disk was opened: the leg must not be used, only removed.
    pub damaged: bool,
}

/// A page of a component's map that does not exist yet: a leaf (level 0) or a directory above it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct NewPage {
    /// The component.
    pub local: LocalId,
    /// Levels below it.
    pub level: u8,
    /// Which of its level.
    pub index: u64,
}

/// What a write needs that does not exist yet: see [`super::CapDisk::need`].
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Need {
    /// Data extents.
    pub extents: u64,
    /// Map pages, each once; room for two is kept for each, the second for its next version.
    pub pages: Vec<NewPage>,
}

impl Need {
    /// Whether everything is there.
    pub fn is_nothing(&self) -> bool {
        self.extents == 0 && self.pages.is_empty()
    }

    /// Adds what another write needs; a page that both need is one page.
    pub fn join(&mut self, other: Self) {
        self.extents += other.extents;
        for page in other.pages {
            if !self.pages.contains(&page) {
                self.pages.push(page);
            }
        }
    }
}

/// Blocks of one kind in a row, as [`super::CapDisk::read`] found them.
#[derive(Clone, Debug)]
pub struct BlockRun {
    /// How many blocks.
    pub nblk: u64,
    /// What is in them.
    pub content: Content,
}

/// What blocks hold.
#[derive(Clone, Debug)]
pub enum Content {
    /// Bytes whose checksums were verified, and the checksums.
    Data {
        /// 4 KiB for each block.
        buf: IoBuf,
        /// CRC-32C of each block.
        crcs: Vec<u32>,
    },
    /// Never written, or trimmed: reads as zero.
    Zero,
    /// The checksum did not match, twice.
    Bad,
    /// The disk could not read it, twice.
    IoError,
}

/// What a checkpoint contains, said by the disk group that has applied it.
#[derive(Clone, Debug, Default)]
pub struct CheckpointMark {
    /// Every record of this disk in batches up to here has been applied (its `write` or `punch` has returned), or is superseded by a
    /// record that is itself stable.
    pub applied_batch: u64,
    /// For components: the last stable sequence logged in a batch up to `applied_batch`. Components not named keep theirs.
    pub applied_stable: Vec<(LocalId, u64)>,
}

/// Use of the extents region, bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, serde::Serialize)]
pub struct Usage {
    /// All of it.
    pub size_bytes: u64,
    /// Extents of components.
    pub data_bytes: u64,
    /// Extents of metadata pages.
    pub metadata_bytes: u64,
    /// Promised by reservations or kept for metadata pages that a checkpoint may need.
    pub reserved_bytes: u64,
    /// Of these, for metadata pages.
    pub metadata_due_bytes: u64,
    /// Extents that failed.
    pub bad_bytes: u64,
    /// What a reservation can still get now. Extents freed since the last checkpoint are in none of these but `size_bytes`.
    pub free_bytes: u64,
}

/// Something that is not as it must be.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Finding {
    /// The component it is about.
    pub component: Option<LocalId>,
    /// The block of the component, when it is about data.
    pub block: Option<u64>,
    /// Where on the disk, bytes.
    pub offset_bytes: Option<u64>,
    /// What is wrong, for people.
    pub text: String,
}
