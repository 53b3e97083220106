//! Holding back I/O of one kind, so that a script decides in which order the disks of a world answer.
//!
//! Invariant: what is held is under way: a crash decides about it as about any other I/O, and lifts the hold.
use super::super::disk::IoOp;
use super::SimDisk;
use std::cell::Cell;
use tokio::sync::Notify;

/// How many more I/Os of each kind may end; `None`: any number.
#[derive(Default)]
pub(super) struct Holds {
    reads: Cell<Option<u64>>,
    writes: Cell<Option<u64>>,
    flushes: Cell<Option<u64>>,
    changed: Notify,
}

impl Holds {
    fn left(&self, op: IoOp) -> &Cell<Option<u64>> {
        match op {
            IoOp::Read => &self.reads,
            IoOp::Write | IoOp::Discard => &self.writes,
            IoOp::Flush => &self.flushes,
        }
    }

    /// Waits until an I/O of this kind may end.
    pub async fn pass(&self, op: IoOp) {
        loop {
            let changed = self.changed.notified();
            match self.left(op).get() {
                None => return,
                Some(0) => changed.await,
                Some(left) => return self.left(op).set(Some(left - 1)),
            }
        }
    }

    pub fn lift(&self) {
        [&self.reads, &self.writes, &self.flushes].into_iter().for_each(|left| left.set(None));
        self.changed.notify_waiters();
    }
}

impl SimDisk {
    /// From now on only `count` more I/Os of this kind end; the others stay under way.
    pub fn hold(&self, op: IoOp, count: u64) {
        self.0.holds.left(op).set(Some(count));
        self.0.holds.changed.notify_waiters();
    }

    /// All I/O goes on.
    pub fn lift_holds(&self) {
        self.0.holds.lift();
    }
}
