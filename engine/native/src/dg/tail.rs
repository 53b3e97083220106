//! Moving the tail of the log: what every disk has in a checkpoint need not be read again.
//!
//! Invariants: a disk whose records are all in its checkpoint does not hold the tail; space is free only after the superblock that
//! names the new tail is flushed; the superblock remembers how new each disk was, so that an older copy of it is noticed.
use super::core::Core;
use super::{Dg, DgError};
use crate::fmt::superblock::Superblock;
use crate::mutant::{Mutant, on};
use std::rc::Rc;
use tokio::sync::oneshot;

/// A generation that no disk ever reaches: the disk missed records.
const NEVER: u64 = u64::MAX;

impl Dg {
    /// Applies all that is stable to the disks and makes checkpoints: an orderly end. Takes as long as it takes; the caller gives up.
    ///
    /// # Errors
    /// `Failed`, `Gone`.
    pub async fn drain(&self) -> Result<(), DgError> {
        let core = self.core();
        core.flush().await?;
        for index in 0..core.members.len() {
            core.drain_member(index).await;
        }
        core.check()
    }
}

impl Core {
    /// Applies what is stable on one disk and makes its checkpoint.
    pub async fn drain_member(&self, index: usize) {
        let (done, wait) = oneshot::channel();
        if self.members[index].drains.send(done).is_ok() {
            // An error: the disk failed or the group is dead.
            let _ = wait.await;
        }
    }

    /// Names the new tail in the superblock and gives the space before it free, if there is any.
    pub async fn move_tail(self: &Rc<Self>) {
        let _turn = self.tail_lock.lock().await;
        if self.check().is_err() {
            return;
        }
        let (seq, offset, durable, next_local) = {
            let state = self.state.borrow();
            let usable = self.members.iter().filter(|member| !member.failed.get());
            let held = usable.filter(|member| member.last_batch.get() > member.applied_batch.get());
            let upto = held.map(|member| member.applied_batch.get()).fold(state.durable, u64::min);
            let (seq, offset) = state.batches.first_after(upto).unwrap_or((state.next_seq, state.ring.head));
            (seq, offset, state.durable, state.next_local)
        };
        if self.state.borrow().batches.is_first(seq) {
            return;
        }
        if on(Mutant::EarlyLogReuse) {
            self.release(seq);
        }
        let change = |superblock: &mut Superblock| {
            self.note_members(superblock, seq);
            if let Some(group) = superblock.group_mut(self.group) {
                group.tail_seq = seq;
                group.tail_offset_bytes = offset;
                group.flushed_seq = durable;
                group.next_local.0 = next_local;
            }
        };
        match self.label.update(change).await {
            Ok(()) => self.release(seq),
            Err(error) => self.fail(&error),
        }
    }

    /// Says how new each disk is that what lies before batch `tail` relies on.
    fn note_members(&self, superblock: &mut Superblock, tail: u64) {
        let unknown_last = self.state.borrow().unknown_last;
        let Some(group) = superblock.group_mut(self.group) else { return };
        for known in &mut group.members {
            match self.members.iter().find(|member| member.disk == known.disk) {
                Some(member) if member.failed.get() => known.checkpoint_generation = NEVER,
                Some(member) => {
                    known.epoch = self.epoch;
                    known.checkpoint_generation = member.generation.get();
                }
                None if unknown_last > 0 && tail > unknown_last => known.checkpoint_generation = NEVER,
                None => {}
            }
        }
    }

    fn release(&self, seq: u64) {
        let mut state = self.state.borrow_mut();
        let freed = state.batches.release_before(seq);
        state.ring.used_bytes -= freed;
        drop(state);
        self.rooms.work.notify_one();
    }
}
