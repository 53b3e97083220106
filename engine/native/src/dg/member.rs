//! One capacity disk: an elevator that applies stable records to it, and its checkpoints, in one task.
//!
//! Map: [`run`] the loop · [`sweep`] one round of the elevator · [`destage`] one run of blocks · [`checkpoint`].
//! Invariants: destage and checkpoint of a disk never run at once (a checkpoint is one cut); no two writes of a sweep touch the same
//! block; a run leaves the overlay only after its write returned; only stable records are applied.
use super::core::{Core, Member};
use super::overlay::Piece;
use super::read::follows_in_log;
use super::space::{EXTENT_BLOCKS, Token};
use crate::cap::{CapError, CheckpointMark};
use crate::fmt::{BLOCK, LocalId};
use crate::io::{DiskError, IoBuf};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{Semaphore, mpsc, oneshot};
use tokio::task::JoinSet;
use tokio::time::Instant;

/// How long an idle disk waits before it looks again.
const TICK: Duration = Duration::from_secs(1);
/// Stable data without any progress for so long is an alarm.
const STALL: Duration = Duration::from_secs(10);

/// Where the elevator is.
type Cursor = (LocalId, u64);

/// The task of member `index`.
pub(super) async fn run(
    core: Rc<Core>,
    index: usize,
    mut drains: mpsc::UnboundedReceiver<oneshot::Sender<()>>,
) {
    let member = &core.members[index];
    let mut cursor = Cursor::default();
    let mut checked = Instant::now();
    let mut drain: Option<oneshot::Sender<()>> = None;
    loop {
        if core.dead.get().is_some() || member.failed.get() {
            return;
        }
        let moved = sweep(&core, index, &mut cursor).await;
        note_progress(&core, index, moved);
        if drain.is_some() && moved > 0 {
            continue;
        }
        let idle = moved == 0;
        let elapsed = checked.elapsed() >= Duration::from_secs(core.cfg.checkpoint_seconds);
        let due = drain.is_some() || elapsed || checkpoint_pays(&core, index, idle);
        let dirty = drain.is_some() && member.cap.is_dirty();
        if due && (has_new(&core, member) || dirty) {
            checkpoint(&core, index, dirty).await;
            checked = Instant::now();
        }
        if let Some(done) = drain.take() {
            core.move_tail().await;
            // Nobody waits any more when this fails.
            let _ = done.send(());
        }
        let wait = if idle { TICK } else { pace(&core) };
        tokio::select! {
            biased;
            command = drains.recv() => match command {
                Some(done) => drain = Some(done),
                None => return,
            },
            () = member.kick.notified() => {}
            () = tokio::time::sleep(wait) => {}
        }
    }
}

/// Pause between two sweeps: a second while the log is nearly empty (what is overwritten meanwhile need not be applied), none from
/// half full.
fn pace(core: &Core) -> Duration {
    if core.hurried() {
        return Duration::ZERO;
    }
    let fill = core.fill_percent().clamp(10, 50);
    TICK * (50 - fill) as u32 / 40
}

fn note_progress(core: &Core, index: usize, moved: usize) {
    let member = &core.members[index];
    let waiting = || {
        let state = core.state.borrow();
        state.comps.values().any(|comp| comp.member == index && comp.overlay.has_destageable())
    };
    if moved > 0 || !waiting() {
        member.progress.set(None);
    } else if member.progress.get().is_none() {
        member.progress.set(Some(Instant::now()));
    }
}

impl Member {
    /// Stable data waits and nothing has moved for too long.
    pub fn is_stalled(&self) -> bool {
        self.progress.get().is_some_and(|since| since.elapsed() >= STALL)
    }
}

/// Whether the log holds something of this disk that its newest checkpoint does not have.
fn has_new(core: &Core, member: &Member) -> bool {
    core.check().is_ok() && !member.failed.get() && member.last_batch.get() > member.applied_batch.get()
}

/// Whether a checkpoint now would free enough of a log that fills up.
fn checkpoint_pays(core: &Core, index: usize, idle: bool) -> bool {
    if !core.hurried() {
        return false;
    }
    let member = &core.members[index];
    let state = core.state.borrow();
    let applied = state.batches.applied(index, member.applied_batch.get(), state.completed);
    let frees = state.batches.bytes_between(member.applied_batch.get(), applied);
    frees > 0 && (idle || frees >= state.ring.len_bytes / 8)
}

/// One round of the elevator; returns how many runs were applied.
async fn sweep(core: &Rc<Core>, index: usize, cursor: &mut Cursor) -> usize {
    let mut pieces = pick(core, index, *cursor);
    if pieces.is_empty() && *cursor != Cursor::default() {
        pieces = pick(core, index, Cursor::default());
    }
    *cursor = match pieces.last() {
        Some((local, last)) if pieces.len() == core.cfg.sweep_runs => {
            (*local, last.block + u64::from(last.nblk))
        }
        _ => Cursor::default(),
    };
    let depth = Rc::new(Semaphore::new(core.cfg.destage_depth.max(1)));
    let mut writes = JoinSet::new();
    for (local, unit) in units(pieces) {
        let (core, depth) = (Rc::clone(core), Rc::clone(&depth));
        writes.spawn_local(async move {
            let _turn = depth.acquire().await;
            destage(&core, index, local, &unit).await.map(|()| unit.len())
        });
    }
    let mut moved = 0;
    let mut failed = None;
    while let Some(done) = writes.join_next().await {
        match done {
            Ok(Ok(runs)) => moved += runs,
            Ok(Err(CapError::NoComponent(_))) => moved += 1,
            // The file system under the disk is full: not the disk's fault, the records wait in the log.
            Ok(Err(CapError::Disk(DiskError::NoSpace) | CapError::NoSpace { .. })) => {}
            Ok(Err(error)) => failed = Some(error),
            Err(_) => {}
        }
    }
    if let Some(error) = failed
        && core.dead.get().is_none()
    {
        core.fail_member(index, &error);
    }
    moved
}

/// What the next sweep takes, in order of component and block.
fn pick(core: &Core, index: usize, cursor: Cursor) -> Vec<(LocalId, Piece)> {
    let state = core.state.borrow();
    let mut pieces = Vec::new();
    for (local, comp) in state.comps.range(cursor.0..).filter(|(_, comp)| comp.member == index) {
        let left = core.cfg.sweep_runs - pieces.len();
        if left == 0 {
            break;
        }
        let from = if *local == cursor.0 { cursor.1 } else { 0 };
        pieces.extend(comp.overlay.destageable(from, left).into_iter().map(|piece| (*local, piece)));
    }
    pieces
}

/// Joins runs of logged blocks that follow each other in one extent: they are written at once. A run over several extents stays alone.
fn units(pieces: Vec<(LocalId, Piece)>) -> Vec<(LocalId, Vec<Piece>)> {
    let mut units: Vec<(LocalId, Vec<Piece>)> = Vec::new();
    for (local, piece) in pieces {
        let extent = piece.block / EXTENT_BLOCKS;
        let joins = |unit: &&mut (LocalId, Vec<Piece>)| {
            let Some(last) = unit.1.last() else { return false };
            let end = last.block + u64::from(last.nblk);
            let inside = piece.block + u64::from(piece.nblk) <= (extent + 1) * EXTENT_BLOCKS;
            unit.0 == local
                && end == piece.block
                && inside
                && last.block / EXTENT_BLOCKS == extent
                && last.logged_at().is_some()
                && piece.logged_at().is_some()
        };
        match units.last_mut().filter(joins) {
            Some(unit) => unit.1.push(piece),
            None => units.push((local, vec![piece])),
        }
    }
    units
}

/// Applies one unit to the disk.
async fn destage(core: &Core, index: usize, local: LocalId, unit: &[Piece]) -> Result<(), CapError> {
    let first = &unit[0];
    if first.logged_at().is_some() {
        write_unit(core, index, local, unit).await?;
    } else if let Some(rec) = &first.rec {
        let keep = |extent| core.token(local, extent).is_some();
        let cap = &core.members[index].cap;
        cap.punch_keeping(local, first.block, u64::from(first.nblk), rec.oseq, keep).await?;
    }
    let mut state = core.state.borrow_mut();
    let mut dropped = 0;
    if let Some(comp) = state.comps.get_mut(&local) {
        for piece in unit {
            let rec = piece.rec.as_ref();
            dropped += rec.map_or(0, |rec| comp.overlay.applied(rec, piece.block, piece.nblk));
        }
    }
    state.overlay_runs -= dropped;
    Ok(())
}

async fn write_unit(core: &Core, index: usize, local: LocalId, unit: &[Piece]) -> Result<(), CapError> {
    let mut bufs = Vec::with_capacity(unit.len());
    for group in unit.chunk_by(follows_in_log) {
        // A payload that rotted in the log goes to the disk with its right checksums: it is then found to be bad there, and the log
        // is not held up by it.
        bufs.push(match core.fetch(group).await {
            Ok(fetched) => fetched.buf,
            Err(DiskError::Io { .. }) => {
                IoBuf::zeroed(group.iter().map(|piece| piece.nblk as usize * BLOCK).sum())
            }
            Err(error) => return Err(error.into()),
        });
    }
    let crcs: Vec<u32> = unit.iter().flat_map(Piece::crcs).copied().collect();
    let recs = || unit.iter().filter_map(|piece| piece.rec.as_ref());
    let oseq = recs().map(|rec| rec.oseq).max().unwrap_or(0);
    let data_oseq = recs().map(|rec| rec.data_oseq).max().unwrap_or(0);
    let cap = &core.members[index].cap;
    let (block, end) = (unit[0].block, unit[0].block + crcs.len() as u64);
    let mut from = block;
    while from < end {
        let (to, token) = same_token(core, local, from, end);
        let part = (from - block) as usize..(to - block) as usize;
        let bufs = if part.len() == crcs.len() {
            std::mem::take(&mut bufs)
        } else {
            vec![bufs[0].slice(part.start * BLOCK..part.end * BLOCK)]
        };
        match token.as_ref().and_then(|token| token.room.as_ref()) {
            None => cap.write(local, from, oseq, data_oseq, &crcs[part], bufs, None).await?,
            Some(room) => {
                let mut room = room.lock().await;
                cap.write(local, from, oseq, data_oseq, &crcs[part], bufs, Some(&mut room)).await?;
            }
        }
        from = to;
    }
    Ok(())
}

/// The blocks from `from` whose extents draw on the same token.
fn same_token(core: &Core, local: LocalId, from: u64, end: u64) -> (u64, Option<Rc<Token>>) {
    let token = core.token(local, from / EXTENT_BLOCKS);
    let mut to = from;
    while to < end {
        let extent = to / EXTENT_BLOCKS;
        let other = core.token(local, extent);
        if other.as_ref().map(Rc::as_ptr) != token.as_ref().map(Rc::as_ptr) {
            break;
        }
        to = ((extent + 1) * EXTENT_BLOCKS).min(end);
    }
    (to, token)
}

/// Makes what was applied durable, so that the tail may move; with `always` also when something holds the tail.
async fn checkpoint(core: &Rc<Core>, index: usize, always: bool) {
    if core.flush().await.is_err() {
        return;
    }
    let member = &core.members[index];
    let mark = {
        let state = core.state.borrow();
        let applied_batch = state.batches.applied(index, member.applied_batch.get(), state.durable);
        if applied_batch <= member.applied_batch.get() && !always {
            return;
        }
        let comps = state.comps.iter().filter(|(_, comp)| comp.member == index);
        let stable = comps.filter_map(|(local, comp)| {
            let upto = comp.logged_stable.iter().take_while(|(batch, _)| *batch <= applied_batch);
            upto.last().map(|(_, value)| (*local, *value))
        });
        CheckpointMark { applied_batch, applied_stable: stable.collect() }
    };
    let applied_batch = mark.applied_batch;
    match member.cap.checkpoint(mark).await {
        Ok(generation) => {
            member.generation.set(generation);
            member.applied_batch.set(applied_batch);
            let mut state = core.state.borrow_mut();
            for comp in state.comps.values_mut().filter(|comp| comp.member == index) {
                while comp.logged_stable.front().is_some_and(|(batch, _)| *batch <= applied_batch) {
                    comp.logged_stable.pop_front();
                }
            }
        }
        Err(CapError::Disk(DiskError::NoSpace)) => {}
        Err(error) if core.dead.get().is_none() => core.fail_member(index, &error),
        Err(_) => {}
    }
    core.move_tail().await;
}
