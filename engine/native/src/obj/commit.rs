//! Commits of descriptors, the marks that losses leave, and recovery.
//!
//! A commit stands once more than half of the votes of the old and of the new descriptor have it flushed. Invariants: one
//! commit at a time; a number is never used twice, also when a commit failed; after a failed commit nothing is acknowledged
//! until recovery has put a descriptor in force again; recovery may fail or be repeated at any point.
use super::owner::{Access, ObjError, ObjectEvent, Owner, candidates, reason};
use super::quorum::{self, Inaccessible, Loss, is_current, is_written, move_to};
use super::route::{Member, Route};
use super::store::{Store, StoreError};
use crate::fmt::descriptor::{Leg, ObjectDescriptor};
use crate::mutant::{Mutant, on};
use futures_util::future::join_all;
use model::ids::ComponentId;
use model::state::ComponentState;
use std::rc::Rc;
use tokio::sync::MutexGuard;

/// Proof that the commit lock is held.
pub(super) type Turn<'a> = MutexGuard<'a, ()>;

/// Attempts of one recovery: each one more loses a component, so more than an object has cannot help.
const RECOVERY_ATTEMPTS: usize = 16;

impl<S: Store> Owner<S> {
    /// The components went away (host down, disk pulled): marks them before anything is acknowledged without them.
    pub async fn legs_gone(&self, components: &[ComponentId]) {
        components.iter().for_each(|component| self.detach(*component, Loss::Away));
        let turn = self.0.commits.lock().await;
        let _ = self.reconcile(&turn).await;
    }

    /// The disk of the components failed for good.
    pub async fn legs_failed(&self, components: &[ComponentId]) {
        components.iter().for_each(|component| self.detach(*component, Loss::Failed));
        let turn = self.0.commits.lock().await;
        let _ = self.reconcile(&turn).await;
    }

    /// The components are reachable again. What they missed is marked (state stale): a resync must follow. An object that
    /// could not be served recovers, if they suffice; else the error says what is still missing.
    pub async fn legs_returned(&self, components: &[ComponentId]) -> Result<(), ObjError> {
        if self.is_open() {
            let turn = self.0.commits.lock().await;
            self.attach_found(|component| components.contains(&component));
            if self.reconcile(&turn).await.is_ok() {
                return Ok(());
            }
        }
        self.recover().await
    }

    /// A component failed a request and was given up: it is marked. `Err`: the object is blocked, the request must wait.
    pub(super) async fn leg_failed(
        &self,
        member: &Rc<Member<S>>,
        error: StoreError,
    ) -> Result<(), Inaccessible> {
        if error == StoreError::NoSpace {
            // Another leg took the write: this one is behind.
            member.detach(Loss::Behind(u64::MAX));
        }
        if on(Mutant::AckBeforeStaleMark) {
            let owner = self.clone();
            tokio::task::spawn_local(async move {
                let turn = owner.0.commits.lock().await;
                let _ = owner.reconcile(&turn).await;
            });
            return Ok(());
        }
        let turn = self.0.commits.lock().await;
        self.reconcile(&turn).await
    }

    /// Attaches reachable components that this object has given up or never had. A failed disk does not come back.
    fn attach_found(&self, wanted: impl Fn(ComponentId) -> bool) {
        let mut running = self.0.running.borrow_mut();
        for (component, store) in self.0.members.components(self.0.id) {
            let member = running.entry(component).or_insert_with(|| Rc::new(Member::new(component, None)));
            if wanted(component) && !member.is_attached() && member.missed() != Some(Loss::Failed) {
                member.attach(store);
            }
        }
    }

    /// How `component` was lost, seen from now.
    fn loss(&self, component: ComponentId) -> Option<Loss> {
        let Some(member) = self.member(component) else { return Some(Loss::Away) };
        if !member.is_attached() {
            return Some(member.missed().unwrap_or(Loss::Away));
        }
        member.damage().map(Loss::Behind).or(member.missed().map(|_| Loss::Behind(u64::MAX)))
    }

    /// Brings the descriptor in line with who is reachable and who missed what, and commits it if that changed anything.
    /// `Err`: blocked; nothing may be acknowledged until recovery.
    pub(super) async fn reconcile(&self, turn: &Turn<'_>) -> Result<(), Inaccessible> {
        loop {
            if let Access::Blocked(why) = &*self.0.access.borrow() {
                return Err(why.clone());
            }
            let old = self.descriptor();
            let now = self.0.env.wall();
            let marked = quorum::mark_lost(&old, self.0.seq.stable(), now, |component| self.loss(component));
            let mut wanted = marked.inspect_err(|why| self.set_access(Access::Blocked(why.clone())))?;
            wanted.for_each_leg_mut(&mut |leg| {
                if leg.state == ComponentState::Absent && self.is_reachable(leg.component) {
                    move_to(leg, returned_state(leg), now);
                }
            });
            let changed = wanted != *old;
            if changed {
                self.commit(turn, wanted).await?;
            }
            self.forgive_attached();
            if !changed {
                return Ok(());
            }
        }
    }

    /// What attached components missed stands in the descriptor now.
    fn forgive_attached(&self) {
        for member in self.0.running.borrow().values().filter(|member| member.is_attached()) {
            member.forgive();
        }
    }

    /// Commits `wanted` under the next number and puts it in force. `Err`: blocked.
    pub(super) async fn commit(
        &self,
        _: &Turn<'_>,
        mut wanted: ObjectDescriptor,
    ) -> Result<(), Inaccessible> {
        let old = self.descriptor();
        wanted.csn = self.0.boot.next_csn();
        wanted.owner_epoch = self.0.boot.epoch();
        let bytes: Rc<[u8]> = wanted.to_bytes().into();
        let named = |component| old.leg(component).is_some() || wanted.leg(component).is_some();
        let members: Vec<_> =
            self.0.running.borrow().values().filter(|m| named(m.component)).cloned().collect();
        let stored = members.iter().map(|member| self.store_descriptor(member, wanted.csn, bytes.clone()));
        let stored: Vec<bool> = join_all(stored).await;
        let has = |component| {
            members.iter().zip(&stored).any(|(member, stored)| *stored && member.component == component)
        };
        let both = quorum::majority(&old, has).and(quorum::majority(&wanted, has));
        both.inspect_err(|why| self.set_access(Access::Blocked(why.clone())))?;
        match Route::new(Rc::new(wanted), &mut self.0.running.borrow_mut()) {
            Ok(route) => *self.0.route.borrow_mut() = Rc::new(route),
            Err(error) => unreachable!("the layout was checked before the commit: {error}"),
        }
        self.tell(ObjectEvent::Changed);
        self.settle_stale();
        Ok(())
    }

    async fn store_descriptor(&self, member: &Rc<Member<S>>, csn: (u64, u64), bytes: Rc<[u8]>) -> bool {
        let limit = self.0.config.reply_timeout;
        let request = member.run_any(async |store| store.commit_descriptor(csn, bytes).await);
        match tokio::time::timeout(limit, request).await {
            Ok(stored) => stored.is_ok(),
            Err(_) => {
                member.detach(Loss::Away);
                false
            }
        }
    }

    /// Puts a descriptor in force again and makes the current legs equal. Does nothing when the object is served.
    pub(super) async fn recover(&self) -> Result<(), ObjError> {
        let _closed = self.0.gate.close().await;
        let turn = self.0.commits.lock().await;
        for _ in 0..RECOVERY_ATTEMPTS {
            match &*self.0.access.borrow() {
                Access::Open => return Ok(()),
                Access::Deleted => return Err(ObjError::Deleted),
                Access::Blocked(_) => {}
            }
            match self.recover_once(&turn).await {
                Ok(true) => self.set_access(Access::Open),
                Ok(false) => {}
                Err(why) => {
                    let said = reason(&*self.0.members, &why);
                    self.set_access(Access::Blocked(why));
                    return Err(ObjError::Inaccessible(said));
                }
            }
        }
        Err(ObjError::Inaccessible(self.inaccessible().unwrap_or_default()))
    }

    /// One attempt; `false`: a component was lost meanwhile, try without it.
    async fn recover_once(&self, turn: &Turn<'_>) -> Result<bool, Inaccessible> {
        self.0.recoveries.set(self.0.recoveries.get() + 1);
        self.attach_found(|_| true);
        let found = self.0.members.components(self.0.id);
        for member in self.0.running.borrow().values() {
            if !found.iter().any(|(component, _)| *component == member.component) {
                member.detach(Loss::Away);
            }
        }
        let trusted = |component| self.member(component).is_some_and(|member| member.damage().is_none());
        let candidates = candidates(&found, trusted);
        let attached: Vec<_> = candidates.into_iter().filter(|c| self.is_reachable(c.component)).collect();
        let winner = quorum::winner(&attached)?.clone();
        // What a current leg missed above the stable sequence, the roll-forward brings; damage it cannot see.
        let loss = |component| match self.loss(component) {
            Some(Loss::Behind(u64::MAX)) => None,
            other => other,
        };
        let stable = self.persisted_stable(&winner);
        let now = self.0.env.wall();
        let old_life = |component| {
            let found = attached.iter().find(|candidate| candidate.component == component);
            let is_old = found.is_some_and(|candidate| candidate.descriptor.csn.0 < winner.csn.0);
            let trusted_up_to = self.member(component)?.attached()?.status().applied_oseq;
            (is_old && winner.leg(component).is_some_and(is_current)).then_some(Loss::Behind(trusted_up_to))
        };
        // Every start commits to all current legs that are there. One that is called current and has not heard of a life since
        // is a disk from a backup (or a start was broken off just there): it is brought up to date, if its group has another copy
        // to do it from.
        let is_sound =
            |leg: &Leg| is_current(leg) && loss(leg.component).is_none() && old_life(leg.component).is_none();
        let mut wanted = quorum::mark_lost(&winner, stable, now, |component| {
            loss(component).or_else(|| {
                old_life(component).filter(|_| quorum::has_other(&winner.layout, component, is_sound))
            })
        })?;
        wanted.for_each_leg_mut(&mut |leg| {
            let dead_run = leg.state == ComponentState::Resyncing;
            if self.is_reachable(leg.component) && (leg.state == ComponentState::Absent || dead_run) {
                move_to(leg, returned_state(leg), now);
            }
        });
        self.commit(turn, wanted).await?;
        self.forgive_attached();
        let lost = self.lost_unflushed();
        let equal = self.roll_forward(stable).await.is_ok();
        if equal {
            self.0.losses.set(self.0.losses.get() + u64::from(lost));
            self.0.running.borrow().values().for_each(|member| member.forget_stored());
        }
        Ok(equal)
    }

    /// Whether acknowledged writes are gone: in some group no current leg has all that it stored.
    fn lost_unflushed(&self) -> bool {
        let kept = |leg: &super::route::RouteLeg<S>| leg.current && leg.member.kept_all(self.0.seq.stable());
        self.route().groups.iter().any(|legs| !legs.iter().any(kept))
    }

    /// The highest sequence that a sound current leg, or this run, knows to be stable.
    fn persisted_stable(&self, descriptor: &ObjectDescriptor) -> u64 {
        let sound = |leg: &&Leg| is_current(leg) && is_written(leg);
        let known = descriptor.layout.legs().into_iter().filter(sound).filter_map(|leg| {
            let member = self.member(leg.component)?;
            if member.damage().is_some() { None } else { member.attached()?.status().stable_oseq.into() }
        });
        known.max().unwrap_or(0).max(self.0.seq.stable())
    }
}

/// The state of a component that was away and is reachable again.
fn returned_state(leg: &Leg) -> ComponentState {
    if is_current(leg) { ComponentState::Active } else { ComponentState::Stale }
}
