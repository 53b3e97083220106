//! Flushing the log: one fdatasync at a time, shared by all who wait.
//!
//! Invariants: a flush waits only for batches that were begun before it was called; what it covers is read before the fdatasync
//! is submitted; an error is final for the group.
use super::core::Core;
use super::{Dg, DgError};
use crate::mutant::{Mutant, on};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;
use tokio::time::Instant;

impl Dg {
    /// Makes every append that returned before this call survive a power cut, and the batch that is being written: what was given up
    /// before this call is in the log when it returns, or never will be.
    ///
    /// # Errors
    /// `Failed` (final: what was not flushed may be lost), `Gone`.
    pub async fn flush(&self) -> Result<(), DgError> {
        self.core().flush().await
    }

    /// Notified when the log fills with records that are not stable: whoever owns objects here flushes and calls
    /// [`Dg::set_stable`], else appends wait for the owner's own timer.
    pub fn flush_wanted(&self) -> &Notify {
        &self.core().flush_wanted
    }

    /// Whether the log disk has not answered a write or a flush for `limit`: it is neither gone nor does it report an error. A log
    /// that is full does not count.
    pub fn is_silent(&self, limit: Duration) -> bool {
        let state = self.core().state.borrow();
        let silent = |since: Option<Instant>| since.is_some_and(|since| since.elapsed() >= limit);
        silent(state.writing) || silent(state.flushing)
    }

    /// Returns when the log is full, at once if it is; see [`Dg::flush_wanted`].
    pub async fn flush_asked(&self) {
        let asked = self.core().flush_wanted.notified();
        if !self.core().state.borrow().blocked {
            asked.await;
        }
    }
}

impl Core {
    /// See [`Dg::flush`].
    pub async fn flush(self: &Rc<Self>) -> Result<(), DgError> {
        let target = {
            let state = self.state.borrow();
            state.completed + u64::from(state.writing.is_some())
        };
        loop {
            self.check()?;
            let waiting = self.flushed.notified();
            let mut waiting = std::pin::pin!(waiting);
            waiting.as_mut().enable();
            let start = {
                let mut state = self.state.borrow_mut();
                if state.durable >= target {
                    return Ok(());
                }
                let start = state.completed >= target && state.flushing.is_none();
                if start {
                    state.flushing = Some(Instant::now());
                }
                start
            };
            if start {
                // Its own task: a waiter that goes away must not take the flush of the others with it.
                let task = tokio::task::spawn_local(flush_once(Rc::clone(self)));
                let mut tasks = self.tasks.borrow_mut();
                tasks.retain(|task| !task.is_finished());
                tasks.push(task);
            }
            waiting.await;
        }
    }
}

async fn flush_once(core: Rc<Core>) {
    let covers = core.state.borrow().completed;
    let result = if on(Mutant::SkipLogFlush) { Ok(()) } else { core.log.flush().await };
    {
        let mut state = core.state.borrow_mut();
        state.flushing = None;
        if result.is_ok() {
            state.durable = state.durable.max(covers);
        }
    }
    if let Err(error) = result {
        core.fail(&error);
    }
    core.flushed.notify_waiters();
}
