//! The gate of the write set: writes pass together, a change of the set waits until they are through and keeps new ones out.
//!
//! Invariant: while a [`Closed`] lives, no [`Pass`] does. So a write issued under an old write set is over before a resync
//! walks, a mark is cleared or a layout is switched.
use std::cell::Cell;
use std::rc::Rc;
use tokio::sync::{Mutex, Notify, OwnedMutexGuard};

#[derive(Default)]
struct State {
    passing: Cell<usize>,
    closed: Cell<bool>,
    opened: Notify,
    empty: Notify,
    /// Who may close it.
    turn: std::sync::Arc<Mutex<()>>,
}

/// The gate of one object. Clones share it.
#[derive(Clone, Default)]
pub struct Gate(Rc<State>);

/// One write under way.
pub struct Pass(Rc<State>);

/// The gate held shut.
pub struct Closed {
    state: Rc<State>,
    _turn: OwnedMutexGuard<()>,
}

impl Gate {
    /// Waits while it is shut, and passes.
    pub async fn pass(&self) -> Pass {
        while self.0.closed.get() {
            let opened = self.0.opened.notified();
            if self.0.closed.get() {
                opened.await;
            }
        }
        self.0.passing.set(self.0.passing.get() + 1);
        Pass(self.0.clone())
    }

    /// Shuts it and waits until every write that has passed is over.
    pub async fn close(&self) -> Closed {
        let turn = self.0.turn.clone().lock_owned().await;
        self.0.closed.set(true);
        let closed = Closed { state: self.0.clone(), _turn: turn };
        while self.0.passing.get() > 0 && !crate::mutant::on(crate::mutant::Mutant::NoBarrier) {
            self.0.empty.notified().await;
        }
        closed
    }
}

impl Drop for Pass {
    fn drop(&mut self) {
        self.0.passing.set(self.0.passing.get() - 1);
        if self.0.passing.get() == 0 {
            self.0.empty.notify_one();
        }
    }
}

impl Drop for Closed {
    fn drop(&mut self) {
        self.state.closed.set(false);
        self.state.opened.notify_waiters();
    }
}
