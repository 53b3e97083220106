//! Reads: which leg, what if its copy is bad, and repairs.
//!
//! Invariants: bytes that are returned had a matching checksum; a read waits for the changes of its blocks that came before it; a
//! repair copies under the range lock, so it cannot overtake a write; a block without a good copy is an error and harms no other.
use super::owner::{ObjError, ObjectEvent, Owner};
use super::quorum::Inaccessible;
use super::route::{Member, Route, RouteLeg};
use super::store::{Append, Change, DATA_BLOCKS_MAX, ReadRun, Store};
use crate::fmt::crc32c;
use crate::io::IoBuf;
use futures_util::future::join_all;
use model::units::BLOCK_BYTES;
use std::ops::Range;
use std::rc::Rc;
use tokio::time::Instant;

/// Blocks of one leg that were found bad, for one run of a component.
struct Bad<S> {
    member: Rc<Member<S>>,
    group: usize,
    block: u64,
    nblk: u64,
}

/// Why a segment was not read.
pub(super) enum ReadError {
    /// No current leg is reachable.
    Blocked,
    /// No good copy of this block of the component is left.
    Lost(u64),
}

impl<S: Store> Owner<S> {
    /// Reads the whole blocks in `blocks`: runs of data and zeros in order that together cover them.
    ///
    /// The object may end inside the last block; the bytes behind are zero.
    pub async fn read_blocks(&self, blocks: Range<u64>) -> Result<Vec<ReadRun>, ObjError> {
        self.0.range.settle(blocks.clone()).await;
        self.read_unlocked(blocks, self.deadline()).await
    }

    /// Reads `len` bytes at `offset` into one vector: for tests and small internal reads.
    pub async fn read_bytes(&self, offset: u64, len: u64) -> Result<Vec<u8>, ObjError> {
        let end = self.check(offset, len)?;
        let blocks = offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES);
        if len == 0 {
            return Ok(Vec::new());
        }
        let skip = (offset % BLOCK_BYTES) as usize;
        let mut bytes = Vec::new();
        for run in self.read_blocks(blocks).await? {
            match run {
                ReadRun::Data(buf) => bytes.extend_from_slice(&buf),
                ReadRun::Zero(n) | ReadRun::Bad(n) => {
                    bytes.resize(bytes.len() + (n * BLOCK_BYTES) as usize, 0)
                }
            }
        }
        bytes.drain(..skip);
        bytes.truncate(len as usize);
        Ok(bytes)
    }

    /// Runs of (bytes, allocated) that cover the range from its begin.
    pub async fn block_status(&self, offset: u64, len: u64) -> Result<Vec<(u64, bool)>, ObjError> {
        let end = self.check(offset, len)?;
        let blocks = offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES);
        self.0.range.settle(blocks.clone()).await;
        let deadline = self.deadline();
        let mut runs: Vec<(u64, bool)> = Vec::new();
        let (mut at, mut left) = (offset, len);
        while left > 0 {
            self.wait_open(deadline).await?;
            let route = self.route();
            let block = at / BLOCK_BYTES;
            let segment =
                route.map.segments(block, blocks.end - block, u64::MAX).next().ok_or(ObjError::OutOfRange)?;
            let Some(member) = self.choose(&route.groups[segment.group], &[]) else {
                self.catch_up().await;
                continue;
            };
            let status = member.run(async |s| s.block_status(segment.block, segment.nblk).await).await;
            let status = match status {
                Ok(status) => status,
                Err(error) => {
                    let _ = self.leg_failed(&member, error).await;
                    continue;
                }
            };
            for (nblk, allocated) in status {
                let bytes = (nblk * BLOCK_BYTES - at % BLOCK_BYTES).min(left);
                match runs.last_mut() {
                    Some(last) if last.1 == allocated => last.0 += bytes,
                    _ => runs.push((bytes, allocated)),
                }
                (at, left) = (at + bytes, left - bytes);
                if left == 0 {
                    break;
                }
            }
        }
        Ok(runs)
    }

    /// One block for a read-modify-write, `None` when it reads as zero. The caller holds the range lock.
    pub(super) async fn read_block(&self, block: u64, deadline: Instant) -> Result<Option<IoBuf>, ObjError> {
        match self.read_unlocked(block..block + 1, deadline).await?.pop() {
            Some(ReadRun::Data(buf)) => Ok(Some(buf)),
            _ => Ok(None),
        }
    }

    async fn read_unlocked(&self, blocks: Range<u64>, deadline: Instant) -> Result<Vec<ReadRun>, ObjError> {
        loop {
            self.wait_open(deadline).await?;
            let route = self.route();
            match self.read_now(&route, &blocks).await {
                Ok(runs) => return Ok(runs),
                Err(ReadError::Lost(block)) => return Err(ObjError::Lost(block)),
                Err(ReadError::Blocked) => self.catch_up().await,
            }
        }
    }

    /// No current leg could be used: waits until the descriptor, or the access, says so.
    async fn catch_up(&self) {
        let turn = self.0.commits.lock().await;
        let _ = self.reconcile(&turn).await;
    }

    /// Reads from the legs of `route` without waiting for any to come back.
    async fn read_now(&self, route: &Route<S>, blocks: &Range<u64>) -> Result<Vec<ReadRun>, ReadError> {
        let mut segments = route.map.segments(blocks.start, blocks.end - blocks.start, DATA_BLOCKS_MAX);
        let Some(first) = segments.next() else { return Ok(Vec::new()) };
        let mut runs = self.read_group(route, first.group, first.block, first.nblk).await?;
        let more = segments.map(|s| self.read_group(route, s.group, s.block, s.nblk));
        for part in join_all(more).await {
            runs.extend(part?);
        }
        Ok(runs)
    }

    /// The current leg with the least under way; ties go round.
    pub(super) fn choose(&self, legs: &[RouteLeg<S>], not: &[Rc<Member<S>>]) -> Option<Rc<Member<S>>> {
        let turn = self.0.read_turn.get().wrapping_add(1);
        self.0.read_turn.set(turn);
        let start = turn as usize % legs.len().max(1);
        let usable = |leg: &&RouteLeg<S>| {
            let excluded = not.iter().any(|other| Rc::ptr_eq(other, &leg.member));
            leg.current && !excluded && leg.member.store().is_some()
        };
        let in_turn = legs[start..].iter().chain(&legs[..start]).filter(usable);
        in_turn.min_by_key(|leg| leg.member.outstanding.get()).map(|leg| leg.member.clone())
    }

    /// Reads a run of one group from the best leg, bad blocks from the others.
    pub(super) async fn read_group(
        &self,
        route: &Route<S>,
        group: usize,
        block: u64,
        nblk: u64,
    ) -> Result<Vec<ReadRun>, ReadError> {
        loop {
            let legs = &route.groups[group];
            let member = self.choose(legs, &[]).ok_or(ReadError::Blocked)?;
            let runs = match member.run(async |store| store.read(block, nblk).await).await {
                Ok(runs) => mask_lost(legs, &member, block, runs),
                Err(error) => {
                    // Marked or blocked: the route has changed, or the next choice says so.
                    let _ = self.leg_failed(&member, error).await;
                    continue;
                }
            };
            if !runs.iter().any(|run| matches!(run, ReadRun::Bad(_))) {
                return Ok(runs);
            }
            return self.rescue(route, group, &member, block, runs).await;
        }
    }

    /// Replaces bad runs by good copies of other legs, and has the bad copies rewritten.
    async fn rescue(
        &self,
        route: &Route<S>,
        group: usize,
        from: &Rc<Member<S>>,
        block: u64,
        runs: Vec<ReadRun>,
    ) -> Result<Vec<ReadRun>, ReadError> {
        let mut good = Vec::new();
        let mut at = block;
        for run in runs {
            let nblk = run.blocks();
            if matches!(run, ReadRun::Bad(_)) {
                from.bad_blocks.set(from.bad_blocks.get() + nblk);
                for bad in at..at + nblk {
                    good.push(self.other_copy(&route.groups[group], from, bad).await?);
                }
                self.repair_later(Bad { member: from.clone(), group, block: at, nblk });
            } else {
                good.push(run);
            }
            at += nblk;
        }
        Ok(good)
    }

    /// A good copy of one block from any current leg but `not`.
    async fn other_copy(
        &self,
        legs: &[RouteLeg<S>],
        not: &Rc<Member<S>>,
        block: u64,
    ) -> Result<ReadRun, ReadError> {
        let mut tried = vec![not.clone()];
        while let Some(member) = self.choose(legs, &tried) {
            tried.push(member.clone());
            match member.run(async |store| store.read(block, 1).await).await {
                Ok(runs) => match mask_lost(legs, &member, block, runs).pop() {
                    Some(ReadRun::Bad(_)) | None => member.bad_blocks.set(member.bad_blocks.get() + 1),
                    Some(run) => return Ok(run),
                },
                Err(error) => _ = self.leg_failed(&member, error).await,
            }
        }
        self.tell(ObjectEvent::BlockLost { component: not.component, block });
        Err(ReadError::Lost(block))
    }

    fn repair_later(&self, bad: Bad<S>) {
        let owner = self.clone();
        tokio::task::spawn_local(async move {
            // A repair that fails leaves the bad copy; the next read finds it again.
            let _ = owner.repair(&bad).await;
        });
    }

    async fn repair(&self, bad: &Bad<S>) -> Result<(), ()> {
        let (at, nblk) = self.route().map.object_run(bad.group, bad.block, bad.nblk).ok_or(())?;
        let _lock = self.0.range.write(at..at + nblk).await;
        let pass = self.0.gate.pass().await;
        let route = self.route();
        let legs = route.groups.get(bad.group).ok_or(())?;
        if !self.is_open() || !legs.iter().any(|leg| leg.current && Rc::ptr_eq(&leg.member, &bad.member)) {
            return Err(());
        }
        let now = bad.member.run(async |store| store.read(bad.block, nblk).await).await.map_err(drop)?;
        let mut block = bad.block;
        for run in now {
            if matches!(run, ReadRun::Bad(_)) {
                for bad_block in block..block + run.blocks() {
                    let good = self.other_copy(legs, &bad.member, bad_block).await.map_err(drop)?;
                    self.rewrite(&bad.member, bad_block, good).await.map_err(drop)?;
                    self.0.repaired_blocks.set(self.0.repaired_blocks.get() + 1);
                    let component = bad.member.component;
                    self.tell(ObjectEvent::Repaired { component, block: bad_block, nblk: 1 });
                }
            }
            block += run.blocks();
        }
        drop(pass);
        self.note_written(nblk * BLOCK_BYTES);
        Ok(())
    }

    async fn rewrite(&self, member: &Rc<Member<S>>, block: u64, good: ReadRun) -> Result<(), Inaccessible> {
        let oseq = self.0.seq.assign();
        let bufs: Vec<_> = if let ReadRun::Data(buf) = good { vec![buf] } else { Vec::new() };
        let crcs = bufs.iter().map(|buf| crc32c(buf)).collect();
        let result = member.run(async |store| {
            let room = Some(store.admit(block, 1)?);
            store.append(Append { change: Change::Repair, block, nblk: 1, oseq, bufs, crcs, room }).await
        });
        let result = result.await;
        self.0.seq.acknowledge(oseq);
        match result {
            Ok(()) => Ok(()),
            Err(error) => self.leg_failed(member, error).await,
        }
    }
}

/// Turns blocks that `member` never got into bad ones.
fn mask_lost<S: Store>(
    legs: &[RouteLeg<S>],
    member: &Rc<Member<S>>,
    block: u64,
    runs: Vec<ReadRun>,
) -> Vec<ReadRun> {
    let leg = legs.iter().find(|leg| Rc::ptr_eq(&leg.member, member));
    let Some(lost) = leg.map(|leg| &leg.lost).filter(|lost| !lost.is_empty()) else { return runs };
    let is_lost = |block: u64| lost.iter().any(|(first, nblk)| (*first..first + nblk).contains(&block));
    let mut masked = Vec::new();
    let mut at = block;
    for run in runs {
        for index in 0..run.blocks() {
            masked.push(match &run {
                _ if is_lost(at + index) => ReadRun::Bad(1),
                ReadRun::Data(buf) => {
                    let start = (index * BLOCK_BYTES) as usize;
                    ReadRun::Data(buf.slice(start..start + BLOCK_BYTES as usize))
                }
                ReadRun::Zero(_) => ReadRun::Zero(1),
                ReadRun::Bad(_) => ReadRun::Bad(1),
            });
        }
        at += run.blocks();
    }
    masked
}
