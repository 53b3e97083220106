//! Writes, trims, zeroes and flushes.
//!
//! The order of one write: range lock, edges, gate, room on every leg, sequence, appends to the whole write set in parallel, marks
//! for legs that failed, flush if asked, acknowledgement, unlock. Invariants: space runs out before anything is appended or
//! not at all; a failed leg is marked on a majority before the acknowledgement; the stable sequence is read before the first
//! flush begins, and only what was appended to every written leg counts.
use super::owner::{ObjError, Owner};
use super::pieces::{Op, Part, Piece};
use super::quorum::Inaccessible;
use super::range::RangeGuard;
use super::room::{Blocked, Need};
use super::route::{Member, Route};
use super::store::{Change, Store};
use crate::io::IoBuf;
use crate::mutant::{Mutant, on};
use futures_util::StreamExt;
use futures_util::future::join_all;
use futures_util::stream::FuturesUnordered;
use model::units::BLOCK_BYTES;
use std::ops::Range;
use std::rc::Rc;
use tokio::time::Instant;

const BLOCK: usize = BLOCK_BYTES as usize;

impl<S: Store> Owner<S> {
    /// Writes `len` bytes at `offset`. `buf` holds the whole blocks that the range touches, the bytes of the write at their
    /// place and zeros around them, which are filled from the old blocks. It must not be shared.
    ///
    /// Ok: in the log of every current leg, and with `fua` on their stable media. `NoSpace`: nothing was written.
    pub async fn write(&self, offset: u64, len: u64, buf: IoBuf, fua: bool) -> Result<(), ObjError> {
        let end = self.check(offset, len)?;
        if len == 0 {
            return Ok(());
        }
        let blocks = offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES);
        if buf.len() as u64 != (blocks.end - blocks.start) * BLOCK_BYTES {
            return Err(ObjError::OutOfRange);
        }
        let deadline = self.deadline();
        let lock = self.0.range.write(blocks.clone()).await;
        let buf = self.fill_edges(offset..end, buf, deadline).await?;
        self.apply(lock, &Op::data(blocks.start, buf), fua, deadline).await
    }

    /// Writes `bytes` at `offset`: for small internal writes and tests.
    pub async fn write_bytes(&self, offset: u64, bytes: &[u8], fua: bool) -> Result<(), ObjError> {
        let start = (offset % BLOCK_BYTES) as usize;
        let mut buf = IoBuf::zeroed((start + bytes.len()).next_multiple_of(BLOCK));
        buf.as_mut()[start..start + bytes.len()].copy_from_slice(bytes);
        self.write(offset, bytes.len() as u64, buf, fua).await
    }

    /// Gives back the whole blocks inside the range; they read as zero. The edges keep their bytes.
    pub async fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), ObjError> {
        let end = self.check(offset, len)?;
        let last = if end == self.size_bytes() { end.div_ceil(BLOCK_BYTES) } else { end / BLOCK_BYTES };
        let blocks = offset.div_ceil(BLOCK_BYTES)..last;
        if blocks.is_empty() {
            return Ok(());
        }
        self.hole(Change::Trim, blocks, fua).await
    }

    /// Makes exactly this range read as zero. `no_hole`: the space stays set aside.
    pub async fn write_zeroes(
        &self,
        offset: u64,
        len: u64,
        no_hole: bool,
        fua: bool,
    ) -> Result<(), ObjError> {
        let end = self.check(offset, len)?;
        let inner = offset.div_ceil(BLOCK_BYTES) * BLOCK_BYTES..end / BLOCK_BYTES * BLOCK_BYTES;
        if inner.start >= inner.end {
            // Inside one block, or over one border: at most two edges.
            let middle = inner.start.min(end);
            self.write_bytes(offset, &vec![0; (middle - offset) as usize], fua).await?;
            return self.write_bytes(middle, &vec![0; (end - middle) as usize], fua).await;
        }
        self.write_bytes(offset, &vec![0; (inner.start - offset) as usize], fua).await?;
        let blocks = inner.start / BLOCK_BYTES..inner.end / BLOCK_BYTES;
        self.hole(Change::Zero { keep: no_hole }, blocks, fua).await?;
        self.write_bytes(inner.end, &vec![0; (end - inner.end) as usize], fua).await
    }

    async fn hole(&self, change: Change, blocks: Range<u64>, fua: bool) -> Result<(), ObjError> {
        let deadline = self.deadline();
        let range = if on(Mutant::TrimWithoutLock) { u64::MAX - 1..u64::MAX } else { blocks.clone() };
        let lock = self.0.range.write(range).await;
        self.apply(lock, &Op::hole(change, &blocks), fua, deadline).await
    }

    /// Makes every write acknowledged before this call stable on every current leg. When all of them lost power before a flush,
    /// so that acknowledged writes are gone, the flushes under way and the next one say so.
    pub async fn flush(&self) -> Result<(), ObjError> {
        let told = self.0.losses_told.get();
        let result = self.flush_untold().await;
        if self.0.losses.get() > told {
            self.0.losses_told.set(self.0.losses.get());
            return Err(ObjError::UnflushedLost);
        }
        result
    }

    /// A flush that no client waits for.
    pub(super) async fn flush_untold(&self) -> Result<(), ObjError> {
        let deadline = self.deadline();
        loop {
            self.wait_open(deadline).await?;
            if self.0.seq.is_clean() {
                return Ok(());
            }
            let route = self.route();
            let (stable, acks) = (self.0.seq.low_water(), self.0.seq.acks());
            let dirty = self.0.dirty_bytes.replace(0);
            if self.flush_legs(&route).await.is_ok() {
                self.settle_stable(&route, stable);
                self.0.seq.flushed(acks);
                return Ok(());
            }
            self.0.dirty_bytes.set(self.0.dirty_bytes.get() + dirty);
        }
    }

    pub(super) fn check(&self, offset: u64, len: u64) -> Result<u64, ObjError> {
        let end = offset.checked_add(len).filter(|end| *end <= self.size_bytes());
        end.ok_or(ObjError::OutOfRange)
    }

    /// Fills the bytes before and after the write from the old blocks; they are zero so far. The caller holds the range lock.
    async fn fill_edges(
        &self,
        range: Range<u64>,
        mut buf: IoBuf,
        deadline: Instant,
    ) -> Result<IoBuf, ObjError> {
        let (head, tail) = ((range.start % BLOCK_BYTES) as usize, (range.end % BLOCK_BYTES) as usize);
        let (first, last) = (range.start / BLOCK_BYTES, (range.end - 1) / BLOCK_BYTES);
        let size = buf.len();
        if head > 0
            && let Some(old) = self.read_block(first, deadline).await?
        {
            buf.as_mut()[..head].copy_from_slice(&old[..head]);
        }
        if tail > 0
            && let Some(old) = self.read_block(last, deadline).await?
        {
            buf.as_mut()[size - BLOCK + tail..].copy_from_slice(&old[tail..]);
        }
        Ok(buf)
    }

    /// Brings `op` to every leg and acknowledges it; the range lock is held to the end.
    async fn apply(&self, lock: RangeGuard, op: &Op, fua: bool, deadline: Instant) -> Result<(), ObjError> {
        let mut lock = Some(lock);
        let mut made_room = false;
        loop {
            self.wait_open(deadline).await?;
            let pass = self.0.gate.pass().await;
            if !self.is_open() {
                continue;
            }
            let route = self.route();
            let pieces = match op.admit(&route) {
                Err(ObjError::NoSpace) if !made_room => {
                    made_room = true;
                    drop(pass);
                    self.make_room(&route, op).await?;
                    continue;
                }
                pieces => pieces?,
            };
            if on(Mutant::EarlyRangeUnlock) {
                lock.take();
            }
            let stored = join_all(pieces.into_iter().map(|piece| self.store(piece))).await;
            let stored = match stored.into_iter().collect() {
                Ok(()) => self.after_append(&route, op, fua).await,
                Err(blocked) => Err(blocked),
            };
            if stored.is_ok() {
                if !Rc::ptr_eq(&route, &self.route()) {
                    // A leg that was marked meanwhile may have got it.
                    self.settle_stale();
                }
                return Ok(());
            }
            // Blocked: some legs may have some of it. Recovery makes them equal, then it is written again.
            drop(pass);
        }
    }

    /// Brings one piece to its legs under a sequence of its own, which it gets when there is room for it in every log: from then
    /// on it waits for no other write.
    async fn store(&self, piece: Piece<S>) -> Result<(), Blocked> {
        let needs = piece.parts.iter().map(|part| Need {
            member: part.member.clone(),
            nblk: part.append.nblk,
            has_payload: !part.append.bufs.is_empty(),
        });
        let _rooms = self.log_rooms(needs.collect()).await?;
        let oseq = self.0.seq.assign();
        let stored = self.fan_out(piece.parts, oseq).await;
        match stored {
            Ok(()) => {
                self.0.seq.acknowledge(oseq);
                self.note_written(piece.bytes);
            }
            Err(_) => self.0.seq.give_up(oseq),
        }
        stored
    }

    /// A disk is full: what clients have freed may not be given back yet.
    async fn make_room(&self, route: &Route<S>, op: &Op) -> Result<(), ObjError> {
        self.flush_untold().await?;
        for segment in route.map.segments(op.block, op.nblk, u64::MAX) {
            for leg in &route.groups[segment.group] {
                // A leg that fails here fails its append too.
                let _ = leg.member.run(async |store| store.make_room().await).await;
            }
        }
        Ok(())
    }

    /// Appends all parts in parallel and marks the legs that failed.
    async fn fan_out(&self, parts: Vec<Part<S>>, oseq: u64) -> Result<(), Blocked> {
        let appends = parts.into_iter().map(async |Part { member, mut append }| {
            append.oseq = oseq;
            let block = append.block;
            let result = member.run(async |store| store.append(append).await).await;
            if result.is_ok() {
                member.stored(block, oseq);
            }
            result.err().map(|error| (member, error))
        });
        let results = tokio::select! {
            biased;
            () = self.until_blocked() => return Err(Blocked),
            results = join_all(appends) => results,
        };
        for (member, error) in results.into_iter().flatten() {
            self.leg_failed(&member, error).await?;
        }
        Ok(())
    }

    async fn after_append(&self, route: &Route<S>, op: &Op, fua: bool) -> Result<(), Blocked> {
        if self.has_lost(route) {
            self.clear_lost(op.block, op.nblk).await?;
        }
        if fua {
            self.flush_legs(route).await?;
        }
        Ok(())
    }

    /// Flushes every written leg in parallel and marks those that failed. `Err`: the object is blocked.
    pub(super) async fn flush_legs(&self, route: &Route<S>) -> Result<(), Inaccessible> {
        let flushes = route.legs().map(async |leg| {
            let result = leg.member.run(async |store| store.flush().await).await;
            result.err().map(|error| (leg.member.clone(), error))
        });
        for (member, error) in join_all(flushes).await.into_iter().flatten() {
            self.leg_failed(&member, error).await?;
        }
        Ok(())
    }

    /// Everything up to `stable` is on stable media of every current leg: it may leave the logs.
    pub(super) fn settle_stable(&self, route: &Route<S>, stable: u64) {
        self.0.seq.raise_stable(stable);
        for store in route.legs().filter_map(|leg| leg.member.store()) {
            store.set_stable(stable);
        }
    }

    /// Lets what reachable legs that are not written any more have in their logs leave them: a resync brings them everything, and the
    /// logs are those of other objects, too. Their own highest sequence becomes their stable one, in the background.
    pub(super) fn settle_stale(&self) {
        let route = self.route();
        let is_written =
            |member: &Rc<Member<S>>| route.legs().any(|leg| leg.member.component == member.component);
        let running = self.0.running.borrow();
        for member in running.values().filter(|member| member.is_attached() && !is_written(member)) {
            let member = member.clone();
            tokio::task::spawn_local(async move {
                let settle = async |store: S| {
                    let all = store.max_oseq();
                    store.flush().await?;
                    store.set_stable(all);
                    Ok(())
                };
                // One that fails is given up; it is not written anyway.
                let _ = member.run_any(settle).await;
            });
        }
    }

    /// Starts the flush that nobody asks for: after a while, after many bytes, or when the log of a leg is full.
    pub(super) fn note_written(&self, bytes: u64) {
        let dirty = self.0.dirty_bytes.get() + bytes;
        self.0.dirty_bytes.set(dirty);
        let full = dirty >= self.0.config.auto_flush_bytes && dirty - bytes < self.0.config.auto_flush_bytes;
        if !full && self.0.auto_flush_armed.replace(true) {
            return;
        }
        let weak = Rc::downgrade(&self.0);
        let delay = if full { std::time::Duration::ZERO } else { self.0.config.auto_flush };
        let stores: Vec<S> = self.route().legs().filter_map(|leg| leg.member.store()).collect();
        tokio::task::spawn_local(async move {
            let mut asked: FuturesUnordered<_> =
                stores.into_iter().map(async |store| store.flush_wanted().await).collect();
            tokio::select! {
                biased;
                () = tokio::time::sleep(delay) => {}
                Some(()) = asked.next() => {}
            }
            drop(asked);
            let Some(inner) = weak.upgrade() else { return };
            if !full {
                inner.auto_flush_armed.set(false);
            }
            // An error means that the object is blocked or deleted: recovery flushes, or nothing is left to flush.
            let _ = Owner(inner).flush_untold().await;
        });
    }
}
