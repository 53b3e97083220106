//! An export in memory: sparse blocks in a map. For tests of the front and of clients; nothing survives the process.

use super::export::{Allocation, Chunk, Export, ExportDirectory, ExportError, Payload, Run};
use crate::io::IoBuf;
use model::units::BLOCK_BYTES;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use tokio::sync::Notify;

const BLOCK: usize = BLOCK_BYTES as usize;

#[derive(Default)]
struct State {
    blocks: RefCell<BTreeMap<u64, IoBuf>>,
    flushes: Cell<u64>,
    held: Cell<bool>,
    waiting: Cell<usize>,
    released: Notify,
}

/// A thin volume in memory. Clones are the same volume.
#[derive(Clone)]
pub struct MemExport {
    size_bytes: u64,
    state: Rc<State>,
}

impl MemExport {
    /// An empty one; never-written bytes read as zero.
    pub fn new(size_bytes: u64) -> Self {
        Self { size_bytes, state: Rc::default() }
    }

    /// Flushes so far; a write with FUA counts as one.
    pub fn flushes(&self) -> u64 {
        self.state.flushes.get()
    }

    /// While `true`, requests do not finish: like a volume that waits for a host.
    pub fn hold(&self, held: bool) {
        self.state.held.set(held);
        self.state.released.notify_waiters();
    }

    /// Requests that [`MemExport::hold`] keeps from finishing.
    pub fn waiting(&self) -> usize {
        self.state.waiting.get()
    }

    async fn pass(&self) {
        let waiting = &self.state.waiting;
        waiting.set(waiting.get() + 1);
        while self.state.held.get() {
            self.state.released.notified().await;
        }
        waiting.set(waiting.get() - 1);
    }

    fn sync(&self, fua: bool) {
        self.state.flushes.set(self.state.flushes.get() + u64::from(fua));
    }

    /// Changes the bytes of one block; a buffer that a reader still holds is copied first.
    fn change(&self, block: u64, change: impl FnOnce(&mut [u8])) {
        let mut blocks = self.state.blocks.borrow_mut();
        let buf = blocks.entry(block).or_insert_with(|| IoBuf::zeroed(BLOCK));
        if buf.try_mut().is_none() {
            *buf = IoBuf::copy_of(buf.as_slice());
        }
        change(buf.as_mut());
    }
}

/// The parts of a range in its blocks: block, first byte in it, length.
fn parts(offset: u64, len: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    let end = offset + len;
    (offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES)).map(move |block| {
        let begin = offset.max(block * BLOCK_BYTES);
        let stop = end.min((block + 1) * BLOCK_BYTES);
        (block, (begin % BLOCK_BYTES) as usize, stop.saturating_sub(begin) as usize)
    })
}

impl Export for MemExport {
    fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Vec<Chunk>, ExportError> {
        self.pass().await;
        let blocks = self.state.blocks.borrow();
        let mut chunks: Vec<Chunk> = Vec::new();
        for (block, start, len) in parts(offset, len as u64) {
            match (blocks.get(&block), chunks.last_mut()) {
                (Some(buf), _) => chunks.push(Chunk::Data(buf.slice(start..start + len))),
                (None, Some(Chunk::Zero(zeroes))) => *zeroes += len,
                (None, _) => chunks.push(Chunk::Zero(len)),
            }
        }
        Ok(chunks)
    }

    async fn write(&self, offset: u64, payload: Payload, fua: bool) -> Result<(), ExportError> {
        self.pass().await;
        let len = payload.len();
        let (buf, start) = payload.into_parts();
        let mut at = start;
        for (block, begin, len) in parts(offset, len as u64) {
            if len == BLOCK {
                self.state.blocks.borrow_mut().insert(block, buf.slice(at..at + BLOCK));
            } else {
                self.change(block, |bytes| {
                    bytes[begin..begin + len].copy_from_slice(&buf.as_slice()[at..at + len])
                });
            }
            at += len;
        }
        self.sync(fua);
        Ok(())
    }

    async fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), ExportError> {
        self.pass().await;
        let whole = offset.div_ceil(BLOCK_BYTES)..(offset + len) / BLOCK_BYTES;
        self.state.blocks.borrow_mut().retain(|block, _| !whole.contains(block));
        self.sync(fua);
        Ok(())
    }

    async fn write_zeroes(&self, offset: u64, len: u64, _: bool, fua: bool) -> Result<(), ExportError> {
        self.trim(offset, len, fua).await?;
        let whole = offset.div_ceil(BLOCK_BYTES)..(offset + len) / BLOCK_BYTES;
        let last = (offset + len) / BLOCK_BYTES;
        for (block, start, len) in
            parts(offset, len).filter(|part| part.0 == offset / BLOCK_BYTES || part.0 == last).take(2)
        {
            if !whole.contains(&block) && self.state.blocks.borrow().contains_key(&block) {
                self.change(block, |bytes| bytes[start..start + len].fill(0));
            }
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), ExportError> {
        self.pass().await;
        self.sync(true);
        Ok(())
    }

    async fn block_status(&self, offset: u64, len: u64, runs_max: usize) -> Result<Vec<Run>, ExportError> {
        self.pass().await;
        let blocks = self.state.blocks.borrow();
        let end = offset + len;
        let mut runs: Vec<Run> = Vec::new();
        let mut at = offset;
        while at < end {
            let block = at / BLOCK_BYTES;
            let (allocation, next) = if blocks.contains_key(&block) {
                (Allocation::Data, block + 1)
            } else {
                let next = blocks.range(block..).next().map_or(u64::MAX / BLOCK_BYTES, |(next, _)| *next);
                (Allocation::Hole, next)
            };
            let stop = end.min(next * BLOCK_BYTES);
            let full = runs.len() == runs_max;
            match runs.last_mut() {
                Some(run) if run.allocation == allocation => run.len += stop - at,
                _ if full => break,
                _ => runs.push(Run { len: stop - at, allocation }),
            }
            at = stop;
        }
        Ok(runs)
    }
}

/// Exports in memory by name.
#[derive(Clone, Default)]
pub struct MemDirectory(Rc<RefCell<BTreeMap<String, MemExport>>>);

impl MemDirectory {
    /// Adds one.
    pub fn insert(&self, name: &str, export: MemExport) {
        self.0.borrow_mut().insert(name.to_owned(), export);
    }
}

impl ExportDirectory for MemDirectory {
    type Export = MemExport;

    async fn open(&self, name: &str) -> Option<MemExport> {
        self.0.borrow().get(name).cloned()
    }

    fn names(&self) -> Vec<String> {
        self.0.borrow().keys().cloned().collect()
    }
}
