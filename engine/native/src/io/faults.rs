//! Faults that the lab and the simulator switch on a disk while it is in use.
//!
//! Invariant: once `power_off` returned, every I/O of the disk, also one under way, answers `Gone`; what the kernel already
//! holds may still land, and [`super::Disk::quiesce`] waits for that.
use std::cell::Cell;
use std::time::Duration;
use tokio::sync::Notify;

/// The switches of one disk; all off at first.
#[derive(Default)]
pub struct FaultSwitch {
    off: Cell<bool>,
    failing: Cell<bool>,
    full: Cell<bool>,
    slow: Cell<Duration>,
    flush_failed: Cell<bool>,
    gone: Notify,
}

impl FaultSwitch {
    /// Takes the power away: every I/O answers `Gone` until [`FaultSwitch::power_on`].
    pub fn power_off(&self) {
        self.off.set(true);
        self.gone.notify_waiters();
    }

    /// Gives the power back, for a new life of the host: it forgets a failed flush and must recover from what the disk
    /// holds. Wait for [`super::Disk::quiesce`] first.
    pub fn power_on(&self) {
        self.flush_failed.set(false);
        self.off.set(false);
    }

    /// Whether the power is off.
    pub fn is_off(&self) -> bool {
        self.off.get()
    }

    /// Every I/O answers an I/O error while set.
    pub fn set_failing(&self, failing: bool) {
        self.failing.set(failing);
    }

    /// Whether every I/O answers an error.
    pub fn is_failing(&self) -> bool {
        self.failing.get()
    }

    /// Writes that need new space on the backing store answer `NoSpace` while set.
    pub fn set_full(&self, full: bool) {
        self.full.set(full);
    }

    /// Whether writes that need new space are refused.
    pub fn is_full(&self) -> bool {
        self.full.get()
    }

    /// Adds `latency` to every I/O; zero is normal speed.
    pub fn set_slow(&self, latency: Duration) {
        self.slow.set(latency);
    }

    /// The added latency.
    pub fn slow(&self) -> Duration {
        self.slow.get()
    }

    /// Whether a flush failed since the power came.
    pub fn flush_failed(&self) -> bool {
        self.flush_failed.get()
    }

    pub(super) fn set_flush_failed(&self) {
        self.flush_failed.set(true);
    }

    /// Runs `io`, unless or until the power goes: then `None`. The I/O itself is not stopped by that.
    pub(super) async fn unless_off<T>(&self, io: impl Future<Output = T>) -> Option<T> {
        if self.off.get() {
            return None;
        }
        tokio::select! {
            biased;
            () = self.gone.notified() => None,
            done = io => Some(done),
        }
    }
}
