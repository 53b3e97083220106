//! Data in and out: writes in place or into new extents, trims, verified reads, and questions about the map.
use super::state::{State, mask, pieces};
use super::{BlockRun, CapDisk, CapError, Content, Reservation};
use crate::fmt::bitmap::ExtentState;
use crate::fmt::component::ComponentKind;
use crate::fmt::leaf::{EXTENT_BLOCKS, LEAF_EXTENTS};
use crate::fmt::{BLOCK, LocalId, crc32c};
use crate::io::{DiskError, IoBuf};
use crate::mutant::{Mutant, on};

/// A stretch of the disk: byte offset and number of blocks.
type Stretch = (u64, usize);

/// Adds a stretch, joined to the last one where they touch.
fn push(stretches: &mut Vec<Stretch>, offset: u64, nblk: usize) {
    match stretches.last_mut() {
        Some((last, blocks)) if *last + (*blocks * BLOCK) as u64 == offset => *blocks += nblk,
        _ => stretches.push((offset, nblk)),
    }
}

/// Bytes `start .. start + len` of buffers that follow one another, without copying.
fn part(bufs: &[IoBuf], start: usize, len: usize) -> Vec<IoBuf> {
    let mut at = 0;
    let mut parts = Vec::new();
    for buf in bufs {
        let (from, to) = (start.max(at), (start + len).min(at + buf.len()));
        if from < to {
            parts.push(buf.slice(from - at..to - at));
        }
        at += buf.len();
    }
    parts
}

/// What one read has to bring, block by block.
#[derive(Clone, Copy, Debug, PartialEq)]
enum Wanted {
    Zero,
    Bad,
    At { offset: u64, crc: u32 },
}

impl CapDisk {
    /// Body of [`CapDisk::write`].
    #[allow(clippy::too_many_arguments, reason = "the fields of one log record")]
    pub(super) async fn write_run(
        &self,
        local: LocalId,
        block: u64,
        oseq: u64,
        data_oseq: u64,
        crcs: &[u32],
        bufs: Vec<IoBuf>,
        reservation: Option<&mut Reservation>,
    ) -> Result<(), CapError> {
        let nblk = crcs.len() as u64;
        let end = block.saturating_add(nblk);
        if bufs.iter().map(IoBuf::len).sum::<usize>() != crcs.len() * BLOCK {
            return Err(CapError::Range { local, block, end });
        }
        let _gate = self.0.gate.read().await;
        let stretches = self.place(local, block, nblk, reservation)?;
        let mut start = 0;
        for (offset, blocks) in stretches {
            self.disk().write(offset, part(&bufs, start, blocks * BLOCK)).await?;
            start += blocks * BLOCK;
        }
        let mut state = self.0.state.borrow_mut();
        let Ok(component) = state.component(local) else { return Ok(()) }; // removed meanwhile
        let strip = component.header.kind == ComponentKind::Strip;
        let mut crcs = crcs.iter();
        for (extent, first, count) in pieces(block, nblk) {
            state.change(local, extent, |entry| {
                for (slot, crc) in entry.crc[first..first + count].iter_mut().zip(crcs.by_ref()) {
                    *slot = *crc;
                }
                entry.valid |= mask(first, count);
                entry.oseq = entry.oseq.max(oseq);
                if strip {
                    entry.strip_oseq[0] = entry.strip_oseq[0].max(data_oseq);
                }
            })?;
        }
        Ok(())
    }

    /// Gives every block a place: extents that do not exist are allocated (without a valid block yet).
    fn place(
        &self,
        local: LocalId,
        block: u64,
        nblk: u64,
        mut reservation: Option<&mut Reservation>,
    ) -> Result<Vec<Stretch>, CapError> {
        let mut state = self.0.state.borrow_mut();
        state.check_range(local, block, nblk)?;
        let mut stretches = Vec::new();
        for (index, first, count) in pieces(block, nblk) {
            let extent = match state.component(local)?.entry(index).extent {
                Some(extent) => extent,
                None => {
                    let no_space = CapError::NoSpace { after_checkpoint: state.extents.quarantined() };
                    let extent = state.extents.take(ExtentState::Data).ok_or(no_space)?;
                    state.change(local, index, |entry| entry.extent = Some(extent))?;
                    if let Some(reservation) = &mut reservation {
                        reservation.spend_extent(&mut state);
                    }
                    extent
                }
            };
            push(&mut stretches, state.offset_bytes(extent) + (first * BLOCK) as u64, count);
        }
        Ok(stretches)
    }

    /// Body of [`CapDisk::punch`].
    pub(super) async fn punch_run(
        &self,
        local: LocalId,
        block: u64,
        nblk: u64,
        oseq: u64,
        keep: impl Fn(u64) -> bool,
    ) -> Result<(), CapError> {
        // A write under way may be about to make a block of the same extent valid: it must not lose its extent.
        let _gate = self.0.gate.write().await;
        let mut state = self.0.state.borrow_mut();
        state.check_range(local, block, nblk)?;
        let mut index = block / EXTENT_BLOCKS as u64;
        let end = (block + nblk).div_ceil(EXTENT_BLOCKS as u64);
        while index < end {
            if !state.component(local)?.has_leaf(index) {
                index = (index / LEAF_EXTENTS as u64 + 1) * LEAF_EXTENTS as u64;
                continue;
            }
            let from = block.max(index * EXTENT_BLOCKS as u64);
            let to = (block + nblk).min((index + 1) * EXTENT_BLOCKS as u64);
            let (first, count) = ((from % EXTENT_BLOCKS as u64) as usize, (to - from) as usize);
            punch_extent(&mut state, local, (index, keep(index)), first, count, oseq)?;
            index += 1;
        }
        Ok(())
    }

    /// Body of [`CapDisk::remember`].
    pub(super) fn remember_run(&self, local: LocalId, block: u64, nblk: u64) {
        let mut state = self.0.state.borrow_mut();
        if state.check_range(local, block, nblk).is_err() {
            return;
        }
        for (extent, _, _) in pieces(block, nblk) {
            if state.component(local).is_ok_and(|component| component.entry(extent).oseq == 0) {
                // The component was found above.
                let _ = state.change(local, extent, |entry| entry.oseq = 1);
            }
        }
    }

    /// Body of [`CapDisk::read`].
    pub(super) async fn read_runs(
        &self,
        local: LocalId,
        block: u64,
        nblk: u64,
    ) -> Result<Vec<BlockRun>, CapError> {
        let mut runs: Vec<BlockRun> = Vec::new();
        let wanted = self.wanted(local, block, nblk)?;
        let mut at = 0;
        while at < wanted.len() {
            let len = wanted[at..].windows(2).take_while(|pair| follows(pair[0], pair[1])).count() + 1;
            match wanted[at] {
                Wanted::Zero => runs.push(BlockRun { nblk: len as u64, content: Content::Zero }),
                Wanted::Bad => runs.push(BlockRun { nblk: len as u64, content: Content::Bad }),
                Wanted::At { .. } => {
                    self.read_stretch(local, block + at as u64, &wanted[at..at + len], &mut runs).await?;
                }
            }
            at += len;
        }
        Ok(runs)
    }

    fn wanted(&self, local: LocalId, block: u64, nblk: u64) -> Result<Vec<Wanted>, CapError> {
        let state = self.0.state.borrow();
        let component = state.check_range(local, block, nblk)?;
        let mut wanted = Vec::with_capacity(nblk as usize);
        for (index, first, count) in pieces(block, nblk) {
            let entry = component.entry(index);
            wanted.extend((first..first + count).map(|i| match entry.extent {
                _ if entry.bad => Wanted::Bad,
                Some(extent) if entry.valid & (1 << i) != 0 => {
                    Wanted::At { offset: state.offset_bytes(extent) + (i * BLOCK) as u64, crc: entry.crc[i] }
                }
                _ => Wanted::Zero,
            }));
        }
        Ok(wanted)
    }

    /// Reads blocks that lie in a row on the disk. What does not verify is looked up and read once more, block by block: the kernel may
    /// have failed for a moment, or the blocks have moved since they were looked up.
    async fn read_stretch(
        &self,
        local: LocalId,
        block: u64,
        wanted: &[Wanted],
        runs: &mut Vec<BlockRun>,
    ) -> Result<(), CapError> {
        let Wanted::At { offset, .. } = wanted[0] else { return Ok(()) };
        let read = self.disk().read(offset, IoBuf::for_read(wanted.len() * BLOCK)).await;
        let buf = match read {
            Err(DiskError::Gone) => return Err(DiskError::Gone.into()),
            other => other.ok(),
        };
        let verified = |at: usize| buf.as_ref().is_some_and(|buf| holds(buf, at, wanted[at]));
        let mut at = 0;
        while at < wanted.len() {
            let good = (at..wanted.len()).take_while(|at| verified(*at)).count();
            if let (1.., Some(buf)) = (good, &buf) {
                let crcs = wanted[at..at + good].iter().map(|wanted| wanted.crc()).collect();
                let content = Content::Data { buf: buf.slice(at * BLOCK..(at + good) * BLOCK), crcs };
                runs.push(BlockRun { nblk: good as u64, content });
                at += good;
                continue;
            }
            let content = self.read_again(local, block + at as u64).await?;
            runs.push(BlockRun { nblk: 1, content });
            at += 1;
        }
        Ok(())
    }

    async fn read_again(&self, local: LocalId, block: u64) -> Result<Content, CapError> {
        let wanted = self.wanted(local, block, 1)?[0];
        let Wanted::At { offset, crc } = wanted else {
            return Ok(if wanted == Wanted::Zero { Content::Zero } else { Content::Bad });
        };
        match self.disk().read(offset, IoBuf::for_read(BLOCK)).await {
            Ok(buf) if holds(&buf, 0, wanted) => Ok(Content::Data { buf, crcs: vec![crc] }),
            Ok(_) => Ok(Content::Bad),
            Err(DiskError::Gone) => Err(DiskError::Gone.into()),
            Err(_) => Ok(Content::IoError),
        }
    }

    /// Where on the disk the data of a block lies now, bytes; `None` when it has none. For the lab, which damages it there.
    pub fn locate(&self, local: LocalId, block: u64) -> Option<u64> {
        match self.wanted(local, block, 1).ok()?.first()? {
            Wanted::At { offset, .. } => Some(*offset),
            _ => None,
        }
    }

    /// Body of [`CapDisk::status`].
    pub(super) fn status_runs(&self, local: LocalId, block: u64, nblk: u64) -> Vec<(u64, bool)> {
        let state = self.0.state.borrow();
        let Ok(component) = state.component(local) else { return vec![(nblk, false)] };
        let mut runs: Vec<(u64, bool)> = Vec::new();
        for (index, first, count) in pieces(block, nblk) {
            let valid = component.entry(index).valid;
            for i in first..first + count {
                let data = valid & (1 << i) != 0;
                match runs.last_mut() {
                    Some((blocks, last)) if *last == data => *blocks += 1,
                    _ => runs.push((1, data)),
                }
            }
        }
        runs
    }

    /// Body of [`CapDisk::changed_since`].
    pub(super) fn changed_extents(&self, local: LocalId, oseq: u64) -> Vec<(u64, u64)> {
        let state = self.0.state.borrow();
        let Ok(component) = state.component(local) else { return Vec::new() };
        let mut changed = Vec::new();
        for leaf in component.map.changed_since(oseq) {
            let Some(node) = component.leaves.get(&(leaf as u32)) else { continue };
            let entries = node.leaf.entries.iter().enumerate().filter(|(_, entry)| entry.oseq > oseq);
            changed.extend(entries.map(|(i, entry)| (leaf * LEAF_EXTENTS as u64 + i as u64, entry.oseq)));
        }
        changed
    }
}

impl Wanted {
    fn crc(self) -> u32 {
        if let Wanted::At { crc, .. } = self { crc } else { 0 }
    }
}

/// Whether `b` lies right behind `a`, or is the same nothing.
fn follows(a: Wanted, b: Wanted) -> bool {
    match (a, b) {
        (Wanted::At { offset: a, .. }, Wanted::At { offset: b, .. }) => a + BLOCK as u64 == b,
        (a, b) => a == b,
    }
}

fn holds(buf: &IoBuf, at: usize, wanted: Wanted) -> bool {
    on(Mutant::NoReadChecksum) || crc32c(&buf[at * BLOCK..(at + 1) * BLOCK]) == wanted.crc()
}

/// Clears blocks of one extent; without a valid block left it becomes a hole that remembers the sequence, and its place is freed
/// unless it is to be kept.
fn punch_extent(
    state: &mut State,
    local: LocalId,
    (index, keep): (u64, bool),
    first: usize,
    count: usize,
    oseq: u64,
) -> Result<(), CapError> {
    let mut entry = state.component(local)?.entry(index);
    if entry.oseq == 0 && entry.extent.is_none() {
        return Ok(()); // neither written nor remembered: there is nothing that a returning leg could still hold
    }
    entry.valid &= !mask(first, count);
    entry.crc[first..first + count].fill(0);
    entry.oseq = entry.oseq.max(oseq);
    if entry.valid == 0 {
        if let Some(extent) = entry.extent.take_if(|_| !keep) {
            state.extents.free(extent);
        }
        entry.bad = false;
        if on(Mutant::ForgetHoleSequence) {
            entry.oseq = 0;
        }
    }
    state.change(local, index, |slot| *slot = entry)
}
