//! One capacity disk: which extents are used, where each block of each component lies, and checkpoints of all that.
//!
//! Map: `label` superblock and configuration slots · `types` the words · `extents` which extents are free · `pages` metadata pages inside
//! extents · `tree` directory pages in RAM · `state` components and their leaves in RAM · `space` reservations · `rw` data in and out ·
//! `checkpoint` · `load` from the disk · `verify` · `dump`.
//! Invariants: between checkpoints only data blocks are written, in place or in extents that the durable checkpoint calls free; a
//! metadata page is never overwritten; an extent or page that the durable checkpoint uses is not used again before the checkpoint that
//! freed it is durable; a checkpoint is one consistent cut of bitmap, maps and headers; after a crash the disk is as the last durable
//! checkpoint says, apart from blocks that were overwritten in place since (their records are still in the log); space is refused by
//! `reserve` and `create` alone. No borrow of the state is held across an await.
mod checkpoint;
mod dump;
mod extents;
pub mod label;
mod load;
mod pages;
mod rw;
mod state;
#[cfg(test)]
mod tests;
mod tree;
mod types;
mod verify;

pub use types::*;

use crate::fmt::LocalId;
use crate::io::{Disk, IoBuf};
use label::Label;
use state::State;
use std::cell::RefCell;
use std::rc::Rc;

/// One capacity disk. Clones share it. All of its maps are in RAM.
#[derive(Clone)]
pub struct CapDisk(Rc<Inner>);

struct Inner {
    label: Label,
    state: RefCell<State>,
    /// Shared by writes, taken whole by trims and by the cut of a checkpoint.
    gate: tokio::sync::RwLock<()>,
    /// One checkpoint, or check, at a time.
    checkpointing: tokio::sync::Mutex<()>,
}

/// Extents and map pages that are promised to one writer; given back when dropped, less what writes took from it.
pub struct Reservation {
    disk: Rc<Inner>,
    left: Need,
}

impl Reservation {
    /// Extents that are left of it.
    pub fn extents_left(&self) -> u64 {
        self.left.extents
    }

    /// Takes what another reservation of the same disk has left.
    pub fn join(&mut self, mut other: Self) {
        debug_assert!(Rc::ptr_eq(&self.disk, &other.disk), "reservations of two disks");
        self.left.extents += std::mem::take(&mut other.left.extents);
        self.left.pages.append(&mut other.left.pages);
    }

    /// A write took an extent; one that needs more than was promised takes it from what is free.
    fn spend_extent(&mut self, state: &mut State) {
        let spent = self.left.extents.min(1);
        self.left.extents -= spent;
        state.reserved_extents -= spent;
    }
}

impl Drop for Reservation {
    fn drop(&mut self) {
        self.disk.state.borrow_mut().give_back(&self.left);
    }
}

impl std::fmt::Debug for Reservation {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Reservation({:?})", self.left)
    }
}

impl CapDisk {
    fn new(label: Label, state: State) -> Self {
        Self(Rc::new(Inner {
            label,
            state: RefCell::new(state),
            gate: tokio::sync::RwLock::new(()),
            checkpointing: tokio::sync::Mutex::new(()),
        }))
    }

    fn disk(&self) -> &Disk {
        self.0.label.disk()
    }

    /// Writes the first checkpoint (no components) into the extents region that the label's superblock names.
    pub async fn format(label: &Label) -> Result<(), CapError> {
        let region = label.superblock().extents_region().ok_or(CapError::NoExtents)?;
        let disk = Self::new(label.clone(), State::new(region));
        disk.checkpoint(CheckpointMark::default()).await.map(drop)
    }

    /// Loads all maps of the newest checkpoint into RAM and checks them. A component whose map is damaged is listed as such.
    pub async fn open(label: Label) -> Result<Self, CapError> {
        let loaded = load::load(&label).await?;
        for finding in &loaded.findings {
            tracing::warn!(component = ?finding.component, offset = ?finding.offset_bytes, "{}", finding.text);
        }
        Ok(Self::new(label, loaded.state))
    }

    /// The label, shared with whoever else changes the superblock.
    pub fn label(&self) -> &Label {
        &self.0.label
    }

    /// All components, by local id.
    pub fn components(&self) -> Vec<ComponentInfo> {
        self.0.state.borrow().components.values().map(state::Loaded::info).collect()
    }

    /// One component.
    pub fn component(&self, local: LocalId) -> Option<ComponentInfo> {
        self.0.state.borrow().components.get(&local).map(state::Loaded::info)
    }

    /// Makes a component in RAM; durable with the next checkpoint (until then the log's record makes it again).
    pub fn create(&self, new: NewComponent) -> Result<(), CapError> {
        self.0.state.borrow_mut().create(new)
    }

    /// Removes a component from RAM and frees its extents; durable with the next checkpoint. `false`: there was none.
    pub fn remove(&self, local: LocalId) -> bool {
        self.0.state.borrow_mut().remove(local)
    }

    /// Grows a component; durable with the next checkpoint. A smaller size is ignored.
    pub fn resize(&self, local: LocalId, size_blocks: u64) -> Result<(), CapError> {
        let mut state = self.0.state.borrow_mut();
        if size_blocks > state.component(local)?.header.size_blocks {
            state.component_mut(local)?.header.size_blocks = size_blocks;
        }
        Ok(())
    }

    /// Sets descriptor and its version; durable with the next checkpoint.
    pub fn set_descriptor(&self, local: LocalId, csn: (u64, u64), bytes: Rc<[u8]>) -> Result<(), CapError> {
        self.0.state.borrow_mut().set_descriptor(local, csn, bytes)
    }

    /// What a write of these blocks needs that does not exist yet.
    pub fn need(&self, local: LocalId, block: u64, nblk: u64) -> Need {
        self.0.state.borrow().need(local, block, nblk)
    }

    /// Promises space.
    pub fn reserve(&self, need: Need) -> Result<Reservation, CapError> {
        let mut state = self.0.state.borrow_mut();
        state.promise(&need)?;
        Ok(Reservation { disk: Rc::clone(&self.0), left: need })
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
        self.write_run(local, block, oseq, data_oseq, crcs, bufs, reservation).await
    }

    /// Makes blocks read as zero. Extents without a valid block are freed; their entries stay as holes with sequence `oseq`. Extents that
    /// were never written have no entry and get none, unless [`CapDisk::remember`] was called for them. Never needs space. Waits for the
    /// writes under way.
    pub async fn punch(&self, local: LocalId, block: u64, nblk: u64, oseq: u64) -> Result<(), CapError> {
        self.punch_run(local, block, nblk, oseq, |_| false).await
    }

    /// The same, but an extent of the component for which `keep` says so stays allocated without a valid block: a write was promised
    /// that it finds it. `keep` is asked at the very moment.
    pub async fn punch_keeping(
        &self,
        local: LocalId,
        block: u64,
        nblk: u64,
        oseq: u64,
        keep: impl Fn(u64) -> bool,
    ) -> Result<(), CapError> {
        self.punch_run(local, block, nblk, oseq, keep).await
    }

    /// Gives the extents of these blocks an entry, if they have none: a hole of the lowest sequence. For content that exists, or existed,
    /// on replicas while this map may never see it: the trim that hides it must leave its sequence here. Of an unknown component, and
    /// outside of one, nothing happens. New leaf pages are not taken from a reservation.
    pub fn remember(&self, local: LocalId, block: u64, nblk: u64) {
        self.remember_run(local, block, nblk);
    }

    /// Reads blocks, in order, with every checksum verified and one more try when it does not match.
    pub async fn read(&self, local: LocalId, block: u64, nblk: u64) -> Result<Vec<BlockRun>, CapError> {
        self.read_runs(local, block, nblk).await
    }

    /// Runs of (blocks, whether they hold data).
    pub fn status(&self, local: LocalId, block: u64, nblk: u64) -> Vec<(u64, bool)> {
        self.status_runs(local, block, nblk)
    }

    /// Extents (index in the component, sequence) with a sequence above `oseq`, holes included, in order. Skips subtrees without any.
    pub fn changed_since(&self, local: LocalId, oseq: u64) -> Vec<(u64, u64)> {
        self.changed_extents(local, oseq)
    }

    /// Highest object sequence applied; 0 for none and for an unknown component.
    pub fn oseq_max(&self, local: LocalId) -> u64 {
        self.0.state.borrow().components.get(&local).map_or(0, state::Loaded::oseq_max)
    }

    /// Digest of the content of 2 MiB of a component (`fmt::leaf`): equal for replicas that hold the same, wherever it lies. 0: nothing.
    pub fn leaf_digest(&self, local: LocalId, leaf: u32) -> u64 {
        let state = self.0.state.borrow();
        let node = state.components.get(&local).and_then(|component| component.leaves.get(&leaf));
        node.map_or(0, |node| node.leaf.digest())
    }

    /// Whether RAM differs from the last durable checkpoint.
    pub fn is_dirty(&self) -> bool {
        self.0.state.borrow().dirty
    }

    /// Makes everything that returned before this call durable: waits for writes under way, takes one consistent cut, flushes data,
    /// writes changed pages to free places, flushes, commits the superblock with `mark`, flushes, then releases what was freed.
    /// Returns the generation.
    pub async fn checkpoint(&self, mark: CheckpointMark) -> Result<u64, CapError> {
        self.run_checkpoint(mark).await
    }

    /// Use of the extents region.
    pub fn usage(&self) -> Usage {
        self.0.state.borrow().usage()
    }

    /// Reads every structure of the durable checkpoint again and compares; with `deep` also all data, apart from blocks that `covered`
    /// says are in the log (they may have been overwritten in place since).
    pub async fn verify(&self, deep: bool, covered: impl Fn(LocalId, u64) -> bool) -> Vec<Finding> {
        self.run_verify(deep, covered).await
    }
}
