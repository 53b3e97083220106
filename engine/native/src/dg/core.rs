//! The state that all tasks of a group share.
//!
//! Invariants: no borrow of `state` is held across an await; once `dead` is set it stays, and every waiter is woken to see it.
use super::append::Job;
use super::overlay::Overlay;
use super::pins::{Batches, Ring};
use super::room::LogRooms;
use super::space::Token;
use super::{DgConfig, DgError};
use crate::cap::CapDisk;
use crate::cap::label::Label;
use crate::fmt::LocalId;
use crate::io::{Disk, DiskError};
use model::ids::{DiskGroupId, DiskId};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::{Rc, Weak};
use tokio::sync::{Notify, mpsc, oneshot};
use tokio::task::JoinHandle;
use tokio::time::Instant;

/// Why nothing works any more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Dead {
    Killed,
    Failed,
}

/// One component.
pub(super) struct Comp {
    pub member: usize,
    pub size_blocks: u64,
    pub overlay: Overlay,
    /// STABLE values in the log, as (batch, value), oldest first.
    pub logged_stable: VecDeque<(u64, u64)>,
    /// Extents that a write was promised.
    pub tokens: BTreeMap<u64, Weak<Token>>,
    /// From so many on, the dead ones are forgotten.
    pub tokens_max: usize,
}

/// One capacity disk.
pub(super) struct Member {
    pub disk: DiskId,
    pub cap: CapDisk,
    pub label: Label,
    pub failed: Cell<bool>,
    /// It failed because it is not there any more.
    pub pulled: Cell<bool>,
    /// The newest batch with a record for this disk.
    pub last_batch: Cell<u64>,
    /// `applied_batch` and generation of its newest durable checkpoint.
    pub applied_batch: Cell<u64>,
    pub generation: Cell<u64>,
    /// Destage is worth a look now.
    pub kick: Notify,
    pub drains: mpsc::UnboundedSender<oneshot::Sender<()>>,
    pub progress: Cell<Option<Instant>>,
}

impl Member {
    /// Why a failed disk does nothing.
    pub fn lost(&self) -> DgError {
        if self.pulled.get() { DgError::DiskGone(self.disk) } else { DgError::DiskFailed(self.disk) }
    }
}

/// Whether the reason of `error` is a disk that is not there any more.
fn is_gone(error: &(dyn std::error::Error + 'static)) -> bool {
    let mut cause = Some(error);
    while let Some(error) = cause {
        if matches!(error.downcast_ref(), Some(DiskError::Gone)) {
            return true;
        }
        cause = error.source();
    }
    false
}

pub(super) struct State {
    pub comps: BTreeMap<LocalId, Comp>,
    pub batches: Batches,
    pub ring: Ring,
    pub next_seq: u64,
    pub prev_crc: u32,
    /// The newest batch on stable media, and the newest one written.
    pub durable: u64,
    pub completed: u64,
    /// The batch after `completed` is being written, since when.
    pub writing: Option<Instant>,
    /// A flush of the log is under way, since when.
    pub flushing: Option<Instant>,
    pub queue: VecDeque<Job>,
    /// Records that may use the reserve of the log.
    pub urgent: VecDeque<Job>,
    pub stable_dirty: BTreeMap<LocalId, u64>,
    /// The writer waits for space.
    pub blocked: bool,
    pub overlay_runs: usize,
    pub next_local: u32,
    /// Components that lost records, until a descriptor is committed that knows it.
    pub damaged: BTreeSet<LocalId>,
    /// The newest batch with records of components that are not here; 0 for none.
    pub unknown_last: u64,
}

pub(super) struct Core {
    pub group: DiskGroupId,
    pub cfg: DgConfig,
    pub epoch: u32,
    pub label: Label,
    pub log: Disk,
    pub dev_id: u64,
    /// Where the region begins on the log disk, bytes.
    pub region_offset: u64,
    pub members: Vec<Member>,
    pub state: RefCell<State>,
    pub dead: Cell<Option<Dead>>,
    /// Promised room in the log; wakes the writer when there is something to do, or space.
    pub rooms: Rc<LogRooms>,
    /// For those who wait for a flush: one ended, or a batch was written.
    pub flushed: Notify,
    /// For owners: the log fills with records that only a flush makes stable.
    pub flush_wanted: Notify,
    /// The wait for room of which the log was told last.
    pub told_waiting: Cell<Option<Instant>>,
    pub tail_lock: tokio::sync::Mutex<()>,
    pub tasks: RefCell<Vec<JoinHandle<()>>>,
}

impl Core {
    /// An error once the group is stopped or failed.
    pub fn check(&self) -> Result<(), DgError> {
        match self.dead.get() {
            None => Ok(()),
            Some(Dead::Killed) => Err(DgError::Gone),
            Some(Dead::Failed) => Err(DgError::Failed),
        }
    }

    /// Stops every task; waiters get `Gone`.
    pub fn kill(&self) {
        self.die(Dead::Killed);
        for task in self.tasks.borrow_mut().drain(..) {
            task.abort();
        }
    }

    /// The log cannot be trusted any more; or its disk was pulled, and is as it was when it comes back.
    pub fn fail(&self, why: &(dyn std::error::Error + 'static)) {
        if self.dead.get().is_none() {
            tracing::error!(group = %self.group, error = why, "the log failed");
        }
        self.die(if is_gone(why) { Dead::Killed } else { Dead::Failed });
    }

    fn die(&self, how: Dead) {
        if self.dead.get().is_none() {
            self.dead.set(Some(how));
        }
        let jobs: Vec<Job> = {
            let mut state = self.state.borrow_mut();
            let State { queue, urgent, .. } = &mut *state;
            queue.drain(..).chain(urgent.drain(..)).collect()
        };
        for job in jobs {
            job.refuse(self.check().err().unwrap_or(DgError::Gone));
        }
        self.flushed.notify_waiters();
        self.rooms.refuse();
        self.rooms.work.notify_one();
        self.members.iter().for_each(|member| member.kick.notify_one());
    }

    /// The capacity disk failed: its components are gone until the next open, and it keeps no log space.
    pub fn fail_member(&self, index: usize, why: &(dyn std::error::Error + 'static)) {
        let member = &self.members[index];
        member.pulled.set(is_gone(why) && (!member.failed.get() || member.pulled.get()));
        if !member.failed.replace(true) {
            tracing::error!(disk = %member.disk, error = why, "capacity disk failed");
        }
        let lost: Vec<Overlay> = {
            let mut state = self.state.borrow_mut();
            let comps = state.comps.values_mut().filter(|comp| comp.member == index);
            let lost: Vec<Overlay> = comps.map(|comp| std::mem::take(&mut comp.overlay)).collect();
            state.overlay_runs -= lost.iter().map(Overlay::runs).sum::<usize>();
            lost
        };
        drop(lost);
    }

    /// Index of the member that `local` lies on, when both are usable.
    pub fn member_of(&self, local: LocalId) -> Result<usize, DgError> {
        self.check()?;
        let state = self.state.borrow();
        let index = state.comps.get(&local).ok_or(DgError::NoComponent(local))?.member;
        let member = &self.members[index];
        if member.failed.get() { Err(member.lost()) } else { Ok(index) }
    }

    /// [`Core::member_of`], and the range lies in the component.
    pub fn member_of_range(&self, local: LocalId, block: u64, nblk: u32) -> Result<usize, DgError> {
        let index = self.member_of(local)?;
        let size_blocks = self.state.borrow().comps.get(&local).map_or(0, |comp| comp.size_blocks);
        let inside = block.checked_add(u64::from(nblk)).is_some_and(|end| end <= size_blocks);
        if inside && nblk > 0 { Ok(index) } else { Err(DgError::OutOfRange { local, block, nblk }) }
    }

    /// How full the log is, in percent, or the memory for overlays when that is fuller.
    pub fn fill_percent(&self) -> u64 {
        let state = self.state.borrow();
        let log = state.ring.used_bytes * 100 / state.ring.len_bytes;
        log.max((state.overlay_runs * 100 / self.cfg.overlay_runs_max.max(1)) as u64)
    }

    /// Destaging should go as fast as it can.
    pub fn hurried(&self) -> bool {
        self.state.borrow().blocked || self.fill_percent() >= 50
    }
}
