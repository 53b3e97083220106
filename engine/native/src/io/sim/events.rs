//! Counts what happens to the simulated disks of one world, and can stop the world after any event.
use std::cell::Cell;
use std::rc::Rc;
use tokio::sync::Notify;

/// One counter for all disks of a world; clones share it.
#[derive(Clone, Default)]
pub struct Events(Rc<Inner>);

#[derive(Default)]
struct Inner {
    count: Cell<u64>,
    stop_after: Cell<Option<u64>>,
    stopped: Notify,
    trace: Cell<u64>,
}

impl Events {
    /// Events so far: completed writes, discards and flushes.
    pub fn count(&self) -> u64 {
        self.0.count.get()
    }

    /// Stops all disks after the event number `count` (from 1): nothing completes any more until the next crash.
    pub fn stop_after(&self, count: Option<u64>) {
        self.0.stop_after.set(count);
        if self.is_stopped() {
            self.0.stopped.notify_waiters();
        }
    }

    /// Whether the disks stand still.
    pub fn is_stopped(&self) -> bool {
        self.0.stop_after.get().is_some_and(|stop| self.0.count.get() >= stop)
    }

    /// Waits until the disks stand still.
    pub async fn stopped(&self) {
        while !self.is_stopped() {
            self.0.stopped.notified().await;
        }
    }

    /// A number that depends on every I/O so far and its order: equal for two runs of one seed.
    pub fn trace(&self) -> u64 {
        self.0.trace.get()
    }

    /// Folds `value` into the trace.
    pub fn note(&self, value: u64) {
        // One step of FNV-1a over 64 bits; no more than a fingerprint.
        self.0.trace.set((self.0.trace.get() ^ value).wrapping_mul(0x0000_0100_0000_01b3).rotate_left(29));
    }

    /// Counts one event; false when the world stands still and it must not happen.
    pub(super) fn step(&self) -> bool {
        if self.is_stopped() {
            return false;
        }
        self.0.count.set(self.0.count.get() + 1);
        if self.is_stopped() {
            self.0.stopped.notify_waiters();
        }
        true
    }
}
