//! Resync: bringing a stale or new leg up to date while clients write.
//!
//! A run: barrier and commit (the target is written from now on) · walk the extents that changed on either side, each under its
//! range lock, copied with a fresh sequence · barrier, flush, commit with the mark cleared. Invariants: the mark is durable
//! before the first byte and goes only at the end; `stale_from` never rises; progress counts positions looked at, so it
//! neither falls within a run nor exceeds its total; when the source or the target goes away the run ends and says so.
use super::owner::{ObjError, ObjectEvent, Owner};
use super::quorum::{is_written, move_to};
use super::read::ReadError;
use super::room::{Blocked, Need};
use super::route::{Member, Route};
use super::store::{Append, Change, ReadRun, Store, StoreError};
use crate::fmt::crc32c;
use crate::fmt::descriptor::{Cursor, Leg};
use crate::mutant::{Mutant, on};
use futures_util::future::join_all;
use model::ids::ComponentId;
use model::state::ComponentState;
use model::units::{BLOCK_BYTES, EXTENT_BYTES, Timestamp};
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::rc::Rc;

/// Blocks of one extent.
const EXTENT: u64 = EXTENT_BYTES / BLOCK_BYTES;
/// Extents copied under one lock: 512 KiB.
const STEP_EXTENTS: u64 = 8;

/// Holds a resync back: a rate, a limit, a pause.
#[allow(async_fn_in_trait, reason = "one thread: no caller ever needs Send futures")]
pub trait Pace {
    /// Waits until `bytes` more may be copied. Called with no lock held.
    async fn take(&self, bytes: u64);
}

/// As fast as it goes.
impl Pace for () {
    async fn take(&self, _: u64) {}
}

/// One run of one resync.
#[derive(Debug)]
pub struct Progress {
    /// Rises with every run for this component, from 1.
    pub run: u32,
    /// When it began.
    pub started_at: Timestamp,
    /// Component that it reads from at the start.
    pub source: ComponentId,
    /// Bytes to look at.
    pub bytes_total: u64,
    /// Bytes looked at, whether they had to be copied or not.
    pub bytes_done: Cell<u64>,
    /// Blocks without any good copy: (first block in the component, count).
    pub lost: RefCell<Vec<(u64, u64)>>,
}

/// What a run works on.
struct Run {
    group: usize,
    target: ComponentId,
    /// It is over when a recovery has happened since.
    recovery: u64,
    extents: Vec<u64>,
    progress: Rc<Progress>,
}

impl<S: Store> Owner<S> {
    /// Brings `component` up to date. On an error it stays marked, and another run may be started; see [`ObjError::Aborted`].
    pub async fn resync(&self, component: ComponentId, pace: &impl Pace) -> Result<(), ObjError> {
        if self.0.resyncs.borrow().contains_key(&component) {
            return Err(ObjError::Refused("a resync of this component is at work"));
        }
        let run = self.begin(component).await?;
        self.tell(ObjectEvent::ResyncStarted(component));
        let mut result = self.walk(&run, pace).await;
        if result.is_ok() {
            result = self.finish(&run).await;
        }
        self.0.resyncs.borrow_mut().remove(&component);
        match &result {
            Ok(()) => self.tell(ObjectEvent::ResyncFinished(component)),
            Err(_) => {
                self.step_back(component).await;
                self.tell(ObjectEvent::ResyncAborted(component));
            }
        }
        result
    }

    /// Bytes that a resync of `component` has yet to look at; 0 when it is current, `None` when that cannot be known now.
    pub fn bytes_to_sync(&self, component: ComponentId) -> Option<u64> {
        if let Some(progress) = self.0.resyncs.borrow().get(&component) {
            return Some(progress.bytes_total - progress.bytes_done.get());
        }
        let route = self.route();
        let leg = route.descriptor.leg(component)?;
        if leg.stale_from.is_none() {
            return Some(0);
        }
        let group = super::quorum::group_of(&route.descriptor, component).ok()??;
        let source = self.choose(&route.groups[group], &[])?.store()?;
        let target = self.member(component)?.attached();
        Some(changed(&source, target.as_ref(), leg).len() as u64 * EXTENT_BYTES)
    }

    /// Puts the target into the write set, behind a barrier, and lists what to look at.
    async fn begin(&self, component: ComponentId) -> Result<Run, ObjError> {
        let closed = self.0.gate.close().await;
        let turn = self.0.commits.lock().await;
        if !self.is_open() {
            return Err(ObjError::Inaccessible(self.inaccessible().unwrap_or_default()));
        }
        let mut wanted = (*self.descriptor()).clone();
        let leg = wanted.leg(component).ok_or(ObjError::Refused("the object has no such component"))?;
        match leg.state {
            ComponentState::Stale | ComponentState::Resyncing | ComponentState::Reconfiguring => {}
            ComponentState::Active => return Err(ObjError::Refused("the component is current")),
            _ => return Err(ObjError::Refused("the component is not reachable")),
        }
        if leg.state == ComponentState::Stale {
            let now = self.0.env.wall();
            wanted.for_each_leg_mut(&mut |leg| {
                if leg.component == component {
                    move_to(leg, ComponentState::Resyncing, now);
                }
            });
            self.commit(&turn, wanted).await.map_err(|_| ObjError::Aborted)?;
        }
        drop(turn);
        // What the target has in its log from before it went away must leave it: a full one has no room for the resync, and nobody
        // else asks for a flush.
        let route = self.route();
        let stable = self.0.seq.low_water();
        self.flush_legs(&route).await.map_err(|_| ObjError::Aborted)?;
        self.settle_stable(&route, stable);
        drop(closed);
        let route = self.route();
        let group = super::quorum::group_of(&route.descriptor, component)?;
        let group = group.ok_or(ObjError::Refused("a witness has nothing to resync"))?;
        let source = self.choose(&route.groups[group], &[]).ok_or(ObjError::Aborted)?;
        let target = self.member(component).and_then(|member| member.store()).ok_or(ObjError::Aborted)?;
        let leg = route.descriptor.leg(component).ok_or(ObjError::Aborted)?;
        let extents = changed(&source.store().ok_or(ObjError::Aborted)?, Some(&target), leg);
        let run = self.0.runs.borrow().get(&component).copied().unwrap_or(0) + 1;
        self.0.runs.borrow_mut().insert(component, run);
        let progress = Rc::new(Progress {
            run,
            started_at: self.0.env.wall(),
            source: source.component,
            bytes_total: extents.len() as u64 * EXTENT_BYTES,
            bytes_done: Cell::default(),
            lost: RefCell::new(Vec::new()),
        });
        self.0.resyncs.borrow_mut().insert(component, progress.clone());
        Ok(Run { group, target: component, recovery: self.0.recoveries.get(), extents, progress })
    }

    /// The target, if the run is still what it was.
    fn alive(&self, run: &Run, route: &Route<S>) -> Result<Rc<Member<S>>, ObjError> {
        let leg = route.descriptor.leg(run.target).filter(|leg| leg.stale_from.is_some() && is_written(leg));
        let member = self.member(run.target).filter(|member| member.store().is_some());
        let same = self.is_open() && run.recovery == self.0.recoveries.get() && leg.is_some();
        if same { member.ok_or(ObjError::Aborted) } else { Err(ObjError::Aborted) }
    }

    async fn walk(&self, run: &Run, pace: &impl Pace) -> Result<(), ObjError> {
        let mut since_cursor = 0;
        let mut index = 0;
        while index < run.extents.len() {
            let first = run.extents[index];
            let neighbours = run.extents[index..].iter().zip(first..first + STEP_EXTENTS);
            let count = neighbours.take_while(|(extent, expected)| **extent == *expected).count() as u64;
            pace.take(count * EXTENT_BYTES).await;
            let done = self.copy(run, first, count).await?;
            index += done as usize;
            since_cursor += done * EXTENT_BYTES;
            run.progress.bytes_done.set(run.progress.bytes_done.get() + done * EXTENT_BYTES);
            if since_cursor >= self.0.config.cursor_bytes {
                since_cursor = 0;
                self.save_cursor(run, run.extents[index - 1] + 1).await?;
            }
        }
        Ok(())
    }

    /// Copies up to `count` extents from `first`; returns how many it looked at.
    async fn copy(&self, run: &Run, first: u64, count: u64) -> Result<u64, ObjError> {
        let map_run = self.route().map.object_run(run.group, first * EXTENT, count * EXTENT);
        let Some((at, nblk)) = map_run else { return Ok(count) };
        let _lock = self.0.range.write(at..at + nblk).await;
        let pass = self.0.gate.pass().await;
        let route = self.route();
        let target = self.alive(run, &route)?;
        self.copy_locked(run, &route, &target, first * EXTENT, nblk).await?;
        drop(pass);
        self.note_written(nblk * BLOCK_BYTES);
        Ok(nblk.div_ceil(EXTENT))
    }

    async fn copy_locked(
        &self,
        run: &Run,
        route: &Route<S>,
        target: &Rc<Member<S>>,
        block: u64,
        nblk: u64,
    ) -> Result<(), ObjError> {
        match self.read_group(route, run.group, block, nblk).await {
            Ok(runs) => self.put_runs(target, block, runs).await,
            Err(ReadError::Blocked) => Err(ObjError::Aborted),
            Err(ReadError::Lost(_)) => {
                // Some block has no good copy: block by block, so that only that one is lost.
                for block in block..block + nblk {
                    match self.read_group(route, run.group, block, 1).await {
                        Ok(runs) => self.put_runs(target, block, runs).await?,
                        Err(ReadError::Blocked) => return Err(ObjError::Aborted),
                        Err(ReadError::Lost(_)) => run.progress.lost.borrow_mut().push((block, 1)),
                    }
                }
                Ok(())
            }
        }
    }

    /// Writes what was read under a fresh sequence. It is assigned only now, with room in the log for all records: a sequence that
    /// waits for a read or for room would hold all newer writes in the logs.
    async fn put_runs(&self, to: &Rc<Member<S>>, block: u64, runs: Vec<ReadRun>) -> Result<(), ObjError> {
        let needs = runs.iter().map(|run| Need {
            member: to.clone(),
            nblk: run.blocks(),
            has_payload: matches!(run, ReadRun::Data(_)),
        });
        let _rooms = self.log_rooms(needs.collect()).await.map_err(|Blocked| ObjError::Aborted)?;
        let oseq = self.0.seq.assign();
        let mut at = block;
        let puts = runs.into_iter().map(|run| {
            let (nblk, block) = (run.blocks(), at);
            at += nblk;
            let bufs: Vec<_> = if let ReadRun::Data(buf) = run { vec![buf] } else { Vec::new() };
            let crcs = bufs.iter().flat_map(|buf| buf.chunks(BLOCK_BYTES as usize).map(crc32c)).collect();
            to.run(async move |store| {
                let room = if bufs.is_empty() { None } else { Some(store.admit(block, nblk)?) };
                store.append(Append { change: Change::Resync, block, nblk, oseq, bufs, crcs, room }).await
            })
        });
        let puts = tokio::select! {
            biased;
            () = self.until_blocked() => None,
            puts = join_all(puts) => Some(puts),
        };
        self.0.seq.acknowledge(oseq);
        match puts.map(|puts| puts.into_iter().collect::<Result<(), StoreError>>()) {
            None => Err(ObjError::Aborted),
            Some(Ok(())) => Ok(()),
            // A full disk is not a bad one: the run ends, the leg waits for room.
            Some(Err(StoreError::NoSpace)) => Err(ObjError::NoSpace),
            Some(Err(error)) => {
                let _ = self.leg_failed(to, error).await;
                Err(ObjError::Aborted)
            }
        }
    }

    /// Extents before `extent` are done: a later run looks there only at what changed since.
    async fn save_cursor(&self, run: &Run, extent: u64) -> Result<(), ObjError> {
        self.flush_untold().await?;
        let oseq = self.0.seq.stable();
        let lost = run.progress.lost.borrow().clone();
        self.change_leg(run, |leg| {
            leg.cursor = Some(Cursor { extent, oseq });
            leg.lost.clone_from(&lost);
        })
        .await
    }

    /// Barrier, flush on both sides, and the mark goes.
    async fn finish(&self, run: &Run) -> Result<(), ObjError> {
        let _closed = self.0.gate.close().await;
        let route = self.route();
        self.alive(run, &route)?;
        let stable = self.0.seq.low_water();
        self.flush_legs(&route).await.map_err(|_| ObjError::Aborted)?;
        self.settle_stable(&route, stable);
        let now = self.0.env.wall();
        let lost = run.progress.lost.borrow().clone();
        self.change_leg(run, |leg| {
            leg.stale_from = None;
            leg.cursor = None;
            leg.lost.clone_from(&lost);
            move_to(leg, ComponentState::Active, now);
        })
        .await
    }

    async fn change_leg(&self, run: &Run, change: impl Fn(&mut Leg)) -> Result<(), ObjError> {
        let turn = self.0.commits.lock().await;
        let route = self.route();
        self.alive(run, &route)?;
        let mut wanted = (*route.descriptor).clone();
        wanted.for_each_leg_mut(&mut |leg| {
            if leg.component == run.target {
                change(leg);
            }
        });
        self.commit(&turn, wanted).await.map_err(|_| ObjError::Aborted)
    }

    /// After an aborted run the target leaves the write set: its disk may be full, and nobody copies the rest.
    async fn step_back(&self, component: ComponentId) {
        let turn = self.0.commits.lock().await;
        let mut wanted = (*self.descriptor()).clone();
        let now = self.0.env.wall();
        let mut changed = false;
        wanted.for_each_leg_mut(&mut |leg| {
            if leg.component == component && leg.stale_from.is_some() && is_written(leg) {
                move_to(leg, ComponentState::Stale, now);
                changed = true;
            }
        });
        if changed && self.is_open() {
            let _ = self.commit(&turn, wanted).await;
        }
    }

    /// A write covered blocks that were lost on some leg: they are not lost any more, before it is acknowledged.
    pub(super) async fn clear_lost(&self, block: u64, nblk: u64) -> Result<(), super::quorum::Inaccessible> {
        let turn = self.0.commits.lock().await;
        let route = self.route();
        let mut wanted = (*route.descriptor).clone();
        let covers = |group: usize, lost: &(u64, u64)| {
            let run = route.map.object_run(group, lost.0, lost.1);
            run.is_some_and(|(at, n)| n == lost.1 && block <= at && at + n <= block + nblk)
        };
        for (group, legs) in route.groups.iter().enumerate() {
            for leg in legs {
                let component = leg.member.component;
                if let Some(progress) = self.0.resyncs.borrow().get(&component) {
                    progress.lost.borrow_mut().retain(|lost| !covers(group, lost));
                }
                wanted.for_each_leg_mut(&mut |leg| {
                    if leg.component == component {
                        leg.lost.retain(|lost| !covers(group, lost));
                    }
                });
            }
        }
        if wanted == *route.descriptor { Ok(()) } else { self.commit(&turn, wanted).await }
    }

    pub(super) fn has_lost(&self, route: &Route<S>) -> bool {
        let found = self.0.resyncs.borrow().values().any(|progress| !progress.lost.borrow().is_empty());
        found || route.legs().any(|leg| !leg.lost.is_empty())
    }
}

/// Extents of which `target` may lack a write, or have one that was never acknowledged.
fn changed<S: Store>(source: &S, target: Option<&S>, leg: &Leg) -> Vec<u64> {
    let since = |oseq: u64| -> BTreeSet<u64> {
        let theirs = source.changed_since(oseq).into_iter();
        let target = target.filter(|_| !on(Mutant::OneSidedDelta));
        theirs.chain(target.into_iter().flat_map(|target| target.changed_since(oseq))).collect()
    };
    let all = since(leg.stale_from.unwrap_or(0));
    match leg.cursor {
        None => all.into_iter().collect(),
        Some(Cursor { extent, oseq }) => {
            let behind = since(oseq).into_iter().filter(|changed| *changed < extent);
            behind.chain(all.into_iter().filter(|changed| *changed >= extent)).collect()
        }
    }
}
