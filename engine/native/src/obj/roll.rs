//! The union roll-forward: after a crash, every record above the stable sequence that any current leg has goes to all of them.
//!
//! Acknowledged writes are on every current leg, writes that were under way on some: giving all of them what one has makes
//! the legs equal and loses nothing. Records keep their sequence, so doing it again changes nothing.
use super::owner::Owner;
use super::quorum::Loss;
use super::route::{Member, Route, RouteLeg};
use super::store::{Append, Change, DATA_BLOCKS_MAX, ReadRun, Store, StoreError, Unsettled};
use crate::fmt::crc32c;
use crate::mutant::{Mutant, on};
use futures_util::future::join_all;
use model::units::BLOCK_BYTES;
use std::collections::BTreeMap;
use std::rc::Rc;

/// The newest version of a block among legs: sequence, hole, index of a leg that has it.
type Newest = BTreeMap<u64, (u64, bool, usize)>;

/// A component was lost on the way; it is detached.
pub(super) struct LegLost;

impl<S: Store> Owner<S> {
    /// Makes the current legs of every group equal above `stable`, flushes them, and declares everything stable.
    pub(super) async fn roll_forward(&self, stable: u64) -> Result<(), LegLost> {
        let route = self.route();
        // A request that was given up when the object was blocked may still be on its way into a log: it lands before the look.
        self.flush_reachable(&route).await?;
        if !on(Mutant::NoRollForward) {
            for group in &route.groups {
                let current: Vec<_> =
                    group.iter().filter(|leg| leg.current).map(|leg| leg.member.clone()).collect();
                self.equalise(&current, stable).await?;
            }
        }
        self.flush_reachable(&route).await?;
        let top = route
            .legs()
            .filter(|leg| leg.current)
            .filter_map(|leg| Some(leg.member.store()?.max_oseq()))
            .max();
        self.0.seq.raise_stable(top.unwrap_or(0).max(stable));
        route
            .legs()
            .filter_map(|leg: &RouteLeg<S>| leg.member.store())
            .for_each(|s| s.set_stable(self.0.seq.stable()));
        Ok(())
    }

    async fn flush_reachable(&self, route: &Route<S>) -> Result<(), LegLost> {
        let flushes = route.legs().map(|leg| self.attempt(&leg.member, async |s| s.flush().await));
        join_all(flushes).await.into_iter().collect()
    }

    /// Runs a request; a component that fails it is given up.
    async fn attempt<T>(
        &self,
        member: &Rc<Member<S>>,
        request: impl AsyncFnOnce(S) -> Result<T, StoreError>,
    ) -> Result<T, LegLost> {
        member.run(request).await.map_err(|error| {
            if error == StoreError::NoSpace {
                member.detach(Loss::Behind(u64::MAX));
            }
            LegLost
        })
    }

    async fn equalise(&self, legs: &[Rc<Member<S>>], stable: u64) -> Result<(), LegLost> {
        if legs.len() < 2 {
            return Ok(());
        }
        let unsettled =
            |member: &Rc<Member<S>>| member.store().map(|store| store.unsettled(stable)).ok_or(LegLost);
        let of_leg = legs.iter().map(unsettled).collect::<Result<Vec<_>, _>>()?;
        let mut newest = Newest::new();
        for (index, runs) in of_leg.iter().enumerate() {
            for (block, run) in runs.iter().flat_map(blocks) {
                let entry = newest.entry(block).or_insert((run.oseq, run.hole, index));
                if run.oseq > entry.0 {
                    *entry = (run.oseq, run.hole, index);
                }
            }
        }
        for (index, member) in legs.iter().enumerate() {
            let own: BTreeMap<u64, u64> =
                of_leg[index].iter().flat_map(blocks).map(|(b, run)| (b, run.oseq)).collect();
            let missing =
                newest.iter().filter(|(block, (oseq, ..))| own.get(block).is_none_or(|own| own < oseq));
            for (first, nblk, (oseq, hole, from)) in runs(missing.map(|(block, newest)| (*block, *newest))) {
                self.bring(&legs[from], member, first, nblk, oseq, hole).await?;
            }
        }
        Ok(())
    }

    async fn bring(
        &self,
        from: &Rc<Member<S>>,
        to: &Rc<Member<S>>,
        block: u64,
        nblk: u64,
        oseq: u64,
        hole: bool,
    ) -> Result<(), LegLost> {
        if hole {
            return self.put(to, block, nblk, oseq, Vec::new()).await;
        }
        let mut at = block;
        for run in self.attempt(from, async |store| store.read(block, nblk).await).await? {
            match &run {
                ReadRun::Data(buf) => self.put(to, at, run.blocks(), oseq, vec![buf.clone()]).await?,
                ReadRun::Zero(blocks) => self.put(to, at, *blocks, oseq, Vec::new()).await?,
                // Its own read will find that the copy is bad and look at the other legs.
                ReadRun::Bad(_) => {}
            }
            at += run.blocks();
        }
        Ok(())
    }

    async fn put(
        &self,
        to: &Rc<Member<S>>,
        block: u64,
        nblk: u64,
        oseq: u64,
        bufs: Vec<crate::io::IoBuf>,
    ) -> Result<(), LegLost> {
        // A repair, so that it may use the reserve of the log: others whose records fill it may have to wait for this object.
        let change = Change::Repair;
        let crcs = bufs.iter().flat_map(|buf| buf.chunks(BLOCK_BYTES as usize).map(crc32c)).collect();
        // Room was admitted when the write was taken; after a crash it is asked for again.
        self.attempt(to, async |store| {
            let room = Some(store.admit(block, nblk)?);
            store.append(Append { change, block, nblk, oseq, bufs, crcs, room }).await
        })
        .await
    }
}

fn blocks(run: &Unsettled) -> impl Iterator<Item = (u64, Unsettled)> {
    let run = *run;
    (run.block..run.block + run.nblk).map(move |block| (block, run))
}

/// Neighbouring blocks of one version as runs of at most a record: (first block, blocks, version).
fn runs<V: PartialEq + Copy>(blocks: impl Iterator<Item = (u64, V)>) -> Vec<(u64, u64, V)> {
    let mut runs: Vec<(u64, u64, V)> = Vec::new();
    for (block, version) in blocks {
        match runs.last_mut() {
            Some((first, nblk, last))
                if *first + *nblk == block && *last == version && *nblk < DATA_BLOCKS_MAX =>
            {
                *nblk += 1;
            }
            _ => runs.push((block, 1, version)),
        }
    }
    runs
}
