//! What the NBD front serves: one [`Export`] per name, found through an [`ExportDirectory`].
//!
//! Invariants:
//! - Everything runs on the one engine thread; futures are not `Send`, exports are cheap clones of a shared handle.
//! - The front has checked every range against [`Export::size_bytes`] before it calls; an export that shrank or is being
//!   deleted meanwhile answers with an error, never with bytes of something else.
//! - A call is never dropped half way: once started it runs to its end, also when its client is gone.
//! - Data moves by reference: a payload arrives in the buffer that goes to the disk, chunks leave from the buffer that came
//!   from it.
#![allow(async_fn_in_trait, reason = "one thread: no caller ever needs Send futures")]

use crate::io::IoBuf;
use model::units::BLOCK_BYTES;

/// Why an export refused or failed a request. Each variant is one errno of the protocol.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ExportError {
    /// No free extent for data that would be new. Nothing of the request was written.
    #[error("no space for new data")]
    NoSpace,
    /// The data cannot be read or written: no copy left, or no quorum within the device time-out. A failed write may have
    /// been stored in part, like on any disk.
    #[error("input/output error")]
    Io,
    /// The request makes no sense for this export.
    #[error("invalid request")]
    Invalid,
    /// The export does not allow this.
    #[error("not permitted")]
    NotPermitted,
    /// The export does not know this operation.
    #[error("not supported")]
    NotSupported,
    /// No memory for the request now.
    #[error("out of memory")]
    NoMemory,
    /// The server, the host or the volume is going away. Nothing was done.
    #[error("shutting down")]
    Shutdown,
}

/// A run of bytes of an answer to a read.
#[derive(Clone)]
pub enum Chunk {
    /// Bytes of a buffer, any alignment. It may be shared with caches: nobody writes into it.
    Data(IoBuf),
    /// So many zero bytes that no buffer holds.
    Zero(usize),
}

impl Chunk {
    /// Length, bytes.
    pub fn len(&self) -> usize {
        match self {
            Self::Data(buf) => buf.len(),
            Self::Zero(len) => *len,
        }
    }

    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// The bytes of one write, placed so that no aligned block has to be copied again.
///
/// The buffer covers the whole 4 KiB blocks that the write touches: it begins at the write's offset rounded down, and the
/// payload lies `offset % 4096` into it. The bytes before and after it are zero until the owner of a read-modify-write
/// fills them from the old blocks; then the buffer goes to the log as it is.
pub struct Payload {
    buf: IoBuf,
    start: usize,
    len: usize,
}

impl Payload {
    /// Room for a write of `len` bytes at `offset`: the payload bytes are arbitrary until they are filled.
    pub fn for_write(offset: u64, len: usize) -> Self {
        const BLOCK: usize = BLOCK_BYTES as usize;
        let start = (offset % BLOCK_BYTES) as usize;
        let mut buf = IoBuf::for_read((start + len).next_multiple_of(BLOCK).max(BLOCK));
        let bytes = buf.as_mut();
        bytes[..start].fill(0);
        bytes[start + len..].fill(0);
        Self { buf, start, len }
    }

    /// A payload holding a copy of `bytes`: for tests and small internal writes.
    pub fn copied(offset: u64, bytes: &[u8]) -> Self {
        let mut payload = Self::for_write(offset, bytes.len());
        payload.bytes_mut().copy_from_slice(bytes);
        payload
    }

    /// The bytes to write.
    pub fn bytes(&self) -> &[u8] {
        &self.buf.as_slice()[self.start..self.start + self.len]
    }

    /// The bytes to write, to fill them.
    pub fn bytes_mut(&mut self) -> &mut [u8] {
        &mut self.buf.as_mut()[self.start..self.start + self.len]
    }

    /// Length of the write, bytes.
    pub fn len(&self) -> usize {
        self.len
    }

    /// Whether nothing is to be written.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// The buffer of whole blocks, and where in it the payload begins, bytes. The buffer has no other holder.
    pub fn into_parts(self) -> (IoBuf, usize) {
        (self.buf, self.start)
    }
}

/// What a range of an export is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Allocation {
    /// Stored data.
    Data,
    /// Reads as zero, and its space is set aside: a write there cannot fail for want of space.
    Zero,
    /// Reads as zero, nothing is set aside: a write there may fail with [`ExportError::NoSpace`].
    Hole,
}

/// A run of one allocation state.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Run {
    /// Length, bytes; never 0.
    pub len: u64,
    /// What it is made of.
    pub allocation: Allocation,
}

/// One named thing to serve: an open object, or memory in tests.
pub trait Export: Clone + 'static {
    /// Its size now, bytes. It may grow while it is served.
    fn size_bytes(&self) -> u64;

    /// Reads `len` bytes at `offset`: chunks in order that together have exactly that length.
    async fn read(&self, offset: u64, len: usize) -> Result<Vec<Chunk>, ExportError>;

    /// Writes `payload` at `offset`. Ok: the write survives the death of the process; with `fua` also power loss.
    async fn write(&self, offset: u64, payload: Payload, fua: bool) -> Result<(), ExportError>;

    /// Gives the whole blocks inside the range back (rounded inward); they read as zero afterwards, the edges keep their
    /// bytes. An empty or never-written range succeeds.
    async fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), ExportError>;

    /// Makes exactly this range read as zero, unaligned edges included. `no_hole`: keep the space set aside.
    async fn write_zeroes(&self, offset: u64, len: u64, no_hole: bool, fua: bool) -> Result<(), ExportError>;

    /// Ok: every write of this export acknowledged before the call, on any connection, survives power loss.
    async fn flush(&self) -> Result<(), ExportError>;

    /// The allocation of the range from its begin: at least one run, at most `runs_max`. Together they may be shorter than
    /// `len` (when `runs_max` is reached), never longer.
    async fn block_status(&self, offset: u64, len: u64, runs_max: usize) -> Result<Vec<Run>, ExportError>;
}

/// Finds exports by name.
pub trait ExportDirectory: Clone + 'static {
    /// What it finds.
    type Export: Export;

    /// The export called `name`, opened; `None` when there is none or it must not be served now.
    async fn open(&self, name: &str) -> Option<Self::Export>;

    /// All names, in order: what a client sees when it lists.
    fn names(&self) -> Vec<String>;
}
