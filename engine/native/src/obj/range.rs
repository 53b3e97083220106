//! Range locks: who may change or look at which blocks of one object, first come, first served.
//!
//! A writer waits for every overlapping entry that came before it; a reader waits for the writers before it and holds nothing.
//! Invariants: an entry that waits is counted by exactly the earlier entries that block it; dropping a guard, granted or not,
//! releases it. A writer keeps its guard until its request is acknowledged or has failed: a reader that came between two
//! legs must not see the new value on one and the old one on the other.
use std::cell::RefCell;
use std::future::poll_fn;
use std::ops::Range;
use std::rc::Rc;
use std::task::{Poll, Waker};

struct Entry {
    ticket: u64,
    blocks: Range<u64>,
    writer: bool,
    /// Earlier entries that this one waits for.
    blockers: usize,
    waker: Option<Waker>,
}

#[derive(Default)]
struct State {
    next_ticket: u64,
    /// In order of arrival.
    entries: Vec<Entry>,
}

/// The lock of one object. Clones share it.
#[derive(Clone, Default)]
pub struct RangeLock(Rc<RefCell<State>>);

/// A place in the queue, and the lock once granted.
pub struct RangeGuard {
    lock: RangeLock,
    ticket: u64,
}

fn overlap(a: &Range<u64>, b: &Range<u64>) -> bool {
    a.start < b.end && b.start < a.end
}

impl RangeLock {
    /// Takes `blocks` for a change.
    pub async fn write(&self, blocks: Range<u64>) -> RangeGuard {
        let guard = self.enter(blocks, true);
        guard.granted().await;
        guard
    }

    /// Waits for the changes of `blocks` that came before.
    pub async fn settle(&self, blocks: Range<u64>) {
        if self.0.borrow().entries.iter().any(|entry| entry.writer && overlap(&entry.blocks, &blocks)) {
            self.enter(blocks, false).granted().await;
        }
    }

    fn enter(&self, blocks: Range<u64>, writer: bool) -> RangeGuard {
        let state = &mut *self.0.borrow_mut();
        let ticket = state.next_ticket;
        state.next_ticket += 1;
        let blockers = state.entries.iter().filter(|e| e.writer && overlap(&e.blocks, &blocks)).count();
        state.entries.push(Entry { ticket, blocks, writer, blockers, waker: None });
        RangeGuard { lock: self.clone(), ticket }
    }

    fn leave(&self, ticket: u64) {
        let state = &mut *self.0.borrow_mut();
        let Ok(index) = state.entries.binary_search_by_key(&ticket, |entry| entry.ticket) else { return };
        let gone = state.entries.remove(index);
        if !gone.writer {
            return;
        }
        for entry in &mut state.entries[index..] {
            if overlap(&entry.blocks, &gone.blocks) {
                entry.blockers -= 1;
                if entry.blockers == 0
                    && let Some(waker) = entry.waker.take()
                {
                    waker.wake();
                }
            }
        }
    }
}

impl RangeGuard {
    async fn granted(&self) {
        poll_fn(|context| {
            let state = &mut *self.lock.0.borrow_mut();
            match state.entries.binary_search_by_key(&self.ticket, |entry| entry.ticket) {
                Ok(index) if state.entries[index].blockers > 0 => {
                    state.entries[index].waker = Some(context.waker().clone());
                    Poll::Pending
                }
                _ => Poll::Ready(()),
            }
        })
        .await;
    }
}

impl Drop for RangeGuard {
    fn drop(&mut self) {
        self.lock.leave(self.ticket);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use std::task::Context;

    fn poll(guard: &RangeGuard) -> bool {
        let mut granted = std::pin::pin!(guard.granted());
        granted.as_mut().poll(&mut Context::from_waker(Waker::noop())).is_ready()
    }

    proptest! {
        /// The oracle looks at the whole history: granted when no earlier overlapping writer is left.
        #[test]
        fn grants_are_first_come_first_served(steps in prop::collection::vec((0u64..12, 1u64..5, any::<bool>(), any::<bool>()), 1..40)) {
            let lock = RangeLock::default();
            let mut held: Vec<(Range<u64>, bool, RangeGuard)> = Vec::new();
            for (start, len, writer, release) in steps {
                if release && !held.is_empty() {
                    held.remove(start as usize % held.len());
                } else {
                    let blocks = start..start + len;
                    held.push((blocks.clone(), writer, lock.enter(blocks, writer)));
                }
                for (index, (blocks, _, guard)) in held.iter().enumerate() {
                    let free = !held[..index].iter().any(|(other, writer, _)| *writer && overlap(other, blocks));
                    prop_assert_eq!(poll(guard), free);
                }
            }
        }
    }
}
