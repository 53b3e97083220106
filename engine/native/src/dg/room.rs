//! Room in the log, promised before a record has its sequence.
//!
//! A record that waits for room holds every newer one of its object in the logs of all its legs: two objects whose records wait in
//! each other's logs would wait for ever. So a writer first takes room in all logs that it needs (in the order of their groups) and
//! only then a sequence. Invariants: what is promised fits at once, whatever the tail does, together with the pad of one wrap;
//! promises are kept in the order they were asked for; one that is dropped gives its room back and wakes the writer's task,
//! which passes it on.
use super::append::RESERVE_PERCENT;
use super::core::{Core, State};
use super::{Dg, DgError};
use crate::fmt::BLOCK;
use crate::fmt::log;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use tokio::sync::{Notify, oneshot};

/// Who has room and who waits for it.
#[derive(Default)]
pub(super) struct LogRooms {
    promised_bytes: Cell<u64>,
    waiting: RefCell<VecDeque<(u64, oneshot::Sender<LogRoom>)>>,
    /// Wakes the writer's task.
    pub work: Notify,
}

/// Room in the log of a group. Held until the append that it is for has returned.
pub struct LogRoom {
    rooms: Rc<LogRooms>,
    bytes: u64,
}

impl std::fmt::Debug for LogRoom {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "LogRoom({} bytes)", self.bytes)
    }
}

impl LogRoom {
    fn new(rooms: &Rc<LogRooms>, bytes: u64) -> Self {
        rooms.promised_bytes.set(rooms.promised_bytes.get() + bytes);
        Self { rooms: rooms.clone(), bytes }
    }
}

impl Drop for LogRoom {
    fn drop(&mut self) {
        self.rooms.promised_bytes.set(self.rooms.promised_bytes.get() - self.bytes);
        self.rooms.work.notify_one();
    }
}

impl LogRooms {
    /// Whether somebody waits.
    pub fn is_wanted(&self) -> bool {
        !self.waiting.borrow().is_empty()
    }

    /// Everyone who waits hears that the group is dead.
    pub fn refuse(&self) {
        self.waiting.borrow_mut().clear();
    }
}

impl Dg {
    /// Bytes of the log that an append of `nblk` blocks takes at most, with payload or without.
    pub fn log_bytes(&self, nblk: u64, has_payload: bool) -> u64 {
        self.core().log_bytes(nblk, has_payload)
    }

    /// Room in the log, if there is some at once and nobody waits for it.
    pub fn log_room_now(&self, bytes: u64) -> Option<LogRoom> {
        let core = self.core();
        let bytes = core.at_most_all(bytes);
        if core.rooms.is_wanted() || bytes > core.room_left() {
            return None;
        }
        Some(LogRoom::new(&core.rooms, bytes))
    }

    /// Room in the log, in turn. Whoever waits holds no sequence of a record that is not yet in the log.
    ///
    /// # Errors
    /// `Failed`, `Gone`.
    pub async fn log_room(&self, bytes: u64) -> Result<LogRoom, DgError> {
        self.core().check()?;
        if let Some(room) = self.log_room_now(bytes) {
            return Ok(room);
        }
        let wait = self.core().ask_for_room(self.core().at_most_all(bytes));
        wait.await.map_err(|_| self.core().check().err().unwrap_or(DgError::Gone))
    }
}

impl Core {
    fn log_bytes(&self, nblk: u64, has_payload: bool) -> u64 {
        let blocks = if has_payload {
            let step = self.batch_blocks_max() as u64;
            let (whole, rest) = (nblk / step, nblk % step);
            let batch = |blocks: u64| log::head_blocks(1, blocks as usize) as u64 + blocks;
            whole * batch(step) + if rest > 0 { batch(rest) } else { 0 }
        } else {
            nblk.div_ceil(u64::from(u16::MAX))
        };
        blocks * BLOCK as u64
    }

    /// More than a whole log is never promised: such a writer goes when it is empty.
    fn at_most_all(&self, bytes: u64) -> u64 {
        bytes.min(self.room_of(&self.state.borrow(), 0))
    }

    /// What may be promised of a log of which `used_bytes` are taken: not the reserve, nor the pad before a wrap.
    fn room_of(&self, state: &State, used_bytes: u64) -> u64 {
        let blocks_max = self.batch_blocks_of(state);
        let pad = (log::head_blocks(1, blocks_max) + blocks_max) * BLOCK;
        let keep = state.ring.len_bytes * RESERVE_PERCENT / 100;
        state.ring.len_bytes.saturating_sub(used_bytes + (BLOCK + pad) as u64 + keep)
    }

    fn room_left(&self) -> u64 {
        let state = self.state.borrow();
        if state.overlay_runs >= self.cfg.overlay_runs_max {
            return 0;
        }
        self.room_of(&state, state.ring.used_bytes).saturating_sub(self.rooms.promised_bytes.get())
    }

    fn ask_for_room(&self, bytes: u64) -> oneshot::Receiver<LogRoom> {
        let (send, wait) = oneshot::channel();
        self.rooms.waiting.borrow_mut().push_back((bytes, send));
        self.state.borrow_mut().blocked = true;
        self.rooms.work.notify_one();
        wait
    }

    /// Gives what room there is to those who wait, in turn.
    pub fn grant_rooms(&self) {
        loop {
            let left = self.room_left();
            let next = self
                .rooms
                .waiting
                .borrow_mut()
                .pop_front_if(|(bytes, send)| send.is_closed() || *bytes <= left);
            let Some((bytes, send)) = next else { return };
            if !send.is_closed() {
                // Whoever is gone meanwhile gives it back.
                let _ = send.send(LogRoom::new(&self.rooms, bytes));
            }
        }
    }
}
