//! One capacity disk: which extents are used, where each block of each component lies, and checkpoints of all that.
//!
//! Map: `label` superblock and configuration slots · `types` the words · `extents` which extents are free · `pages` metadata pages inside
//! extents · `tree` directory pages in RAM · `state` components and their leaves in RAM · `space` reservations · `rw` data in and out ·
//! `checkpoint` · `load` from the disk · `verify`.
//! Invariants: between checkpoints only data blocks are written, in place or in extents that the durable checkpoint calls free; a
//! metadata page is never overwritten; an extent or page that the durable checkpoint uses is not used again before the checkpoint that
//! freed it is durable; a checkpoint is one consistent cut of bitmap, maps and headers; after a crash the disk is as the last durable
//! checkpoint says, apart from blocks that were overwritten in place since (their records are still in the log); space is refused by
//! `reserve` and `create` alone. No borrow of the state is held across an await.
pub mod label;
mod types;

pub use types::*;

use crate::fmt::LocalId;
use crate::io::IoBuf;
use label::Label;
use std::rc::Rc;

/// One capacity disk. Clones share it. All of its maps are in RAM.
#[derive(Clone)]
pub struct CapDisk(Rc<()>);

/// Extents and metadata pages that are promised to one writer; given back when dropped, less what writes took from it.
pub struct Reservation(());

#[allow(unused_variables, clippy::todo, reason = "bodies follow")]
impl CapDisk {
    /// Writes the first checkpoint (no components) into the extents region that the label's superblock names.
    pub async fn format(label: &Label) -> Result<(), CapError> {
        todo!()
    }
    /// Loads all maps of the newest checkpoint into RAM and checks them. A component whose map is damaged is listed as such.
    pub async fn open(label: Label) -> Result<Self, CapError> {
        todo!()
    }
    /// The label, shared with whoever else changes the superblock.
    pub fn label(&self) -> &Label {
        todo!()
    }
    /// All components, by local id.
    pub fn components(&self) -> Vec<ComponentInfo> {
        todo!()
    }
    /// One component.
    pub fn component(&self, local: LocalId) -> Option<ComponentInfo> {
        todo!()
    }
    /// Makes a component in RAM; durable with the next checkpoint (until then the log's record makes it again).
    pub fn create(&self, new: NewComponent) -> Result<(), CapError> {
        todo!()
    }
    /// Removes a component from RAM and frees its extents; durable with the next checkpoint. `false`: there was none.
    pub fn remove(&self, local: LocalId) -> bool {
        todo!()
    }
    /// Grows a component; durable with the next checkpoint. A smaller size is ignored.
    pub fn resize(&self, local: LocalId, size_blocks: u64) -> Result<(), CapError> {
        todo!()
    }
    /// Sets descriptor and its version; durable with the next checkpoint.
    pub fn set_descriptor(&self, local: LocalId, csn: (u64, u64), bytes: Rc<[u8]>) -> Result<(), CapError> {
        todo!()
    }
    /// What a write of these blocks needs that does not exist yet.
    pub fn need(&self, local: LocalId, block: u64, nblk: u64) -> Need {
        todo!()
    }
    /// Promises space.
    pub fn reserve(&self, need: Need) -> Result<Reservation, CapError> {
        todo!()
    }
    /// Writes whole blocks of one contiguous run: in place where an extent exists, else into a new one (taken from the reservation; a
    /// write without one takes any free extent, for replay). `crcs` has one CRC-32C for each block. On return reads see the new blocks,
    /// and the extents have at least sequence `oseq`. Durable with the next checkpoint. The caller never runs two operations on the same
    /// block at once; different blocks may run together.
    #[allow(clippy::too_many_arguments, reason = "the fields of one log record")]
    pub async fn write(
        &self,
        local: LocalId,
        block: u64,
        oseq: u64,
        data_oseq: u64,
        crcs: &[u32],
        bufs: Vec<IoBuf>,
        reservation: Option<&mut Reservation>,
    ) -> Result<(), CapError> {
        todo!()
    }
    /// Makes blocks read as zero. Extents without a valid block are freed; their entries stay as holes with sequence `oseq`. Blocks that
    /// were never written get a hole entry, too (so it may need a leaf page: reserve as for a write; no extent is taken).
    pub async fn punch(&self, local: LocalId, block: u64, nblk: u64, oseq: u64) -> Result<(), CapError> {
        todo!()
    }
    /// Reads blocks, in order, with every checksum verified and one more try when it does not match.
    pub async fn read(&self, local: LocalId, block: u64, nblk: u64) -> Result<Vec<BlockRun>, CapError> {
        todo!()
    }
    /// Runs of (blocks, whether they hold data).
    pub fn status(&self, local: LocalId, block: u64, nblk: u64) -> Vec<(u64, bool)> {
        todo!()
    }
    /// Extents (index in the component, sequence) with a sequence above `oseq`, holes included, in order. Skips subtrees without any.
    pub fn changed_since(&self, local: LocalId, oseq: u64) -> Vec<(u64, u64)> {
        todo!()
    }
    /// Highest object sequence applied; 0 for none and for an unknown component.
    pub fn oseq_max(&self, local: LocalId) -> u64 {
        todo!()
    }
    /// Whether RAM differs from the last durable checkpoint.
    pub fn is_dirty(&self) -> bool {
        todo!()
    }
    /// Makes everything that returned before this call durable: waits for writes under way, takes one consistent cut, flushes data,
    /// writes changed pages to free places, flushes, commits the superblock with `mark`, flushes, then releases what was freed.
    /// Returns the generation.
    pub async fn checkpoint(&self, mark: CheckpointMark) -> Result<u64, CapError> {
        todo!()
    }
    /// Use of the extents region.
    pub fn usage(&self) -> Usage {
        todo!()
    }
    /// Reads every structure of the durable checkpoint again and compares; with `deep` also all data, apart from blocks that `covered`
    /// says are in the log (they may have been overwritten in place since).
    pub async fn verify(&self, deep: bool, covered: impl Fn(LocalId, u64) -> bool) -> Vec<Finding> {
        todo!()
    }
}
