//! How long the front waits for a peer that holds memory of the pool.
//!
//! A peer that moves next to nothing for a whole period is given up, but only when others need the memory: a paused virtual
//! machine keeps its connection on an idle server. A byte now and then does not count as moving.

use std::io;
use std::time::Duration;
use tokio::time::{Instant, timeout_at};

/// Fewer bytes in a period are next to nothing.
const PERIOD_BYTES_MIN: usize = 64 << 10;

/// The wait for one transfer.
pub(super) struct Patience {
    period: Duration,
    deadline: Instant,
    moved: usize,
}

impl Patience {
    pub(super) fn new(period: Duration) -> Self {
        Self { period, deadline: Instant::now() + period, moved: 0 }
    }

    /// Runs one step of the transfer and returns the bytes that it moved; `None` when a period ended first and the wait
    /// goes on. `give_up` is asked at the end of a period in which too little moved. `step` must be safe to drop.
    pub(super) async fn step(
        &mut self,
        step: impl Future<Output = io::Result<usize>>,
        give_up: impl FnOnce() -> bool,
    ) -> io::Result<Option<usize>> {
        let moved = match timeout_at(self.deadline, step).await {
            Ok(moved) => Some(moved?),
            Err(_) => None,
        };
        self.moved += moved.unwrap_or(0);
        if self.moved >= PERIOD_BYTES_MIN || moved.is_none() {
            if self.moved < PERIOD_BYTES_MIN && give_up() {
                return Err(io::ErrorKind::TimedOut.into());
            }
            self.deadline = Instant::now() + self.period;
            self.moved = 0;
        }
        Ok(moved)
    }
}
