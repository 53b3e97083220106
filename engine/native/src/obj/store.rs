//! What an object asks of one reachable component: a narrow view of a disk group.
//!
//! Invariants that every implementation keeps: an append that returned survives the death of the process, in order; after a
//! flush it survives power loss; of two records of one block the higher sequence wins, whatever the order of arrival; nothing
//! above the stable sequence leaves the log; reads verify the checksum of every block.
#![allow(async_fn_in_trait, reason = "one thread: no caller ever needs Send futures")]
use crate::fmt::descriptor::Csn;
use crate::io::IoBuf;
use model::ids::{ComponentId, DiskGroupId, ObjectId};
use std::rc::Rc;
use std::time::Duration;

/// Blocks of one data record at most: a log batch carries 1 MiB.
pub const DATA_BLOCKS_MAX: u64 = 256;
/// Blocks of one record without payload at most: its count has 16 bits.
pub const HOLE_BLOCKS_MAX: u64 = 32768;

/// Why a component did not do what it was asked. What was appended may or may not be there.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum StoreError {
    /// Its host or disk is away: it may come back.
    #[error("the component is away")]
    Gone,
    /// Its disk reports errors: it does not come back by itself.
    #[error("the disk of the component failed")]
    Failed,
    /// No room for blocks that would be new; nothing was changed.
    #[error("no space on the disk of the component")]
    NoSpace,
}

/// What a record does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Change {
    /// Client data.
    Data,
    /// Blocks given back.
    Trim,
    /// Blocks that read as zero; `keep` their space.
    Zero {
        /// The space stays set aside.
        keep: bool,
    },
    /// Content copied from another leg; without buffers it is a hole.
    Resync,
    /// Content of another leg because this leg's copy is bad or missing; without buffers it is a hole. May use the reserve of the log.
    Repair,
}

/// One record for one component.
pub struct Append<R> {
    /// What it does.
    pub change: Change,
    /// First block in the component.
    pub block: u64,
    /// Blocks.
    pub nblk: u64,
    /// Sequence of the object.
    pub oseq: u64,
    /// The blocks in order; empty for holes.
    pub bufs: Vec<IoBuf>,
    /// CRC-32C of each block; empty for holes.
    pub crcs: Rc<[u32]>,
    /// Room admitted for it.
    pub room: Option<R>,
}

/// A run of blocks as read.
#[derive(Clone, Debug)]
pub enum ReadRun {
    /// Verified bytes of whole blocks.
    Data(IoBuf),
    /// So many blocks that read as zero.
    Zero(u64),
    /// So many blocks whose content is lost here: the checksum does not match, or the disk cannot read them.
    Bad(u64),
}

impl ReadRun {
    /// Length, blocks.
    pub fn blocks(&self) -> u64 {
        match self {
            Self::Data(buf) => buf.len() as u64 / model::units::BLOCK_BYTES,
            Self::Zero(blocks) | Self::Bad(blocks) => *blocks,
        }
    }
}

/// A run of blocks written after some sequence and not yet settled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unsettled {
    /// First block in the component.
    pub block: u64,
    /// Blocks.
    pub nblk: u64,
    /// Their sequence.
    pub oseq: u64,
    /// Whether they read as zero.
    pub hole: bool,
}

/// What a component says of itself.
#[derive(Clone, Debug)]
pub struct StoreStatus {
    /// The newest descriptor it holds.
    pub csn: Csn,
    /// Its bytes.
    pub descriptor: Rc<[u8]>,
    /// Every write up to this sequence is on stable media on all legs that were active.
    pub stable_oseq: u64,
    /// The log of its group lost flushed records: what is above `applied_oseq` cannot be trusted, the descriptor neither.
    pub damaged: bool,
    /// The stable sequence that stood in the log before the last record that is on the capacity disk.
    pub applied_oseq: u64,
}

/// One reachable component. A clone is another handle of the same.
pub trait Store: Clone + 'static {
    /// Room on the capacity disk, set aside until the record that it was admitted for is stored, or until it is dropped.
    type Room;
    /// Room in the log, set aside until it is dropped.
    type LogRoom;

    /// Whether its disk has left a request unanswered for `limit`, without being away or reporting an error.
    fn is_silent(&self, limit: Duration) -> bool;
    /// What it says of itself.
    fn status(&self) -> StoreStatus;
    /// Sets room aside for blocks that may be new. The only place where space runs out.
    fn admit(&self, block: u64, nblk: u64) -> Result<Self::Room, StoreError>;
    /// Applies what is stable and releases what was freed, so that an admission that failed may succeed.
    async fn make_room(&self) -> Result<(), StoreError>;
    /// Which log it writes to. Rooms in several logs are taken in this order.
    fn log(&self) -> DiskGroupId;
    /// What a record of `nblk` blocks, with payload or without, takes of the log at most.
    fn log_bytes(&self, nblk: u64, has_payload: bool) -> u64;
    /// Room in the log, if it is there and nobody waits for it.
    fn log_room_now(&self, bytes: u64) -> Option<Self::LogRoom>;
    /// Room in the log, in turn.
    async fn log_room(&self, bytes: u64) -> Result<Self::LogRoom, StoreError>;
    /// Adds a record; returns once it is in the log and visible. Waits for no other record when there is room in the log for it.
    async fn append(&self, append: Append<Self::Room>) -> Result<(), StoreError>;
    /// Makes everything appended before the call stable.
    async fn flush(&self) -> Result<(), StoreError>;
    /// Returns when its log is full of what only a flush makes stable.
    async fn flush_wanted(&self);
    /// Records up to `oseq` may leave the log.
    fn set_stable(&self, oseq: u64);
    /// Reads whole blocks: runs in order that together cover the range.
    async fn read(&self, block: u64, nblk: u64) -> Result<Vec<ReadRun>, StoreError>;
    /// Runs of (blocks, allocated) that together cover the range.
    async fn block_status(&self, block: u64, nblk: u64) -> Result<Vec<(u64, bool)>, StoreError>;
    /// The newest records above `oseq` that are still in the log, without overlap.
    fn unsettled(&self, oseq: u64) -> Vec<Unsettled>;
    /// Extents (of 64 KiB) with a record above `oseq`, ascending; holes count.
    fn changed_since(&self, oseq: u64) -> Vec<u64>;
    /// The highest sequence in the component.
    fn max_oseq(&self) -> u64;
    /// Stores a descriptor; flushed when it returns.
    async fn commit_descriptor(&self, csn: Csn, bytes: Rc<[u8]>) -> Result<(), StoreError>;
    /// Changes the address space; flushed when it returns. Never shrinks.
    async fn resize(&self, blocks: u64) -> Result<(), StoreError>;
    /// Removes the component; flushed when it returns.
    async fn delete(&self) -> Result<(), StoreError>;
}

/// Where reachable components are found.
pub trait Members<S> {
    /// Every reachable component of `object`, also those that its descriptor does not name.
    fn components(&self, object: ObjectId) -> Vec<(ComponentId, S)>;
    /// Name of the host of a component, for reasons that people read.
    fn host_name(&self, host: model::ids::HostId) -> String;
}
