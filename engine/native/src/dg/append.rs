//! The log writer: gathers what is queued into batches and writes them one after the other.
//!
//! Map: [`Dg::append`] puts jobs into the queue · [`run`] the writer's task · [`Core::gather`] chooses what fits.
//! Invariants: batches are written in chain order, one at a time; a job is answered after its batch is in the log and its record in
//! the overlay, in the order of the queue; payloads are never copied; client records leave 5 % of the ring to those that make room
//! or keep the configuration (else two full logs could wait for each other).
use super::core::{Core, State};
use super::overlay::{Body, Rec};
use super::pins::{Batch, Pin, Place};
use super::space::Token;
use super::{Append, AppendKind, Dg, DgError, Reservation};
use crate::fmt::log::{self, BatchHead, Record, RecordKind, flags};
use crate::fmt::{BLOCK, LocalId};
use crate::io::{DiskError, IoBuf};
use crate::mutant::{Mutant, on};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::oneshot;
use tokio::time::Instant;

/// Share of the ring that client records leave free.
pub(super) const RESERVE_PERCENT: u64 = 5;
/// How long a STABLE value waits for a batch that takes it along.
const STABLE_DELAY: Duration = Duration::from_secs(1);

/// Appends that wait for room for so long are worth a line.
const WAIT_LONG: Duration = Duration::from_secs(10);

/// What the waiter of a job gets: the pin of a configuration record, nothing for others.
pub(super) type Answer = Result<Option<Pin>, DgError>;

/// One record on its way into the log.
pub(super) struct Job {
    pub member: usize,
    pub record: Record,
    pub bufs: Vec<IoBuf>,
    pub crcs: Rc<[u32]>,
    pub tokens: Vec<Rc<Token>>,
    pub done: oneshot::Sender<Answer>,
}

impl Job {
    /// Answers that it did not happen.
    pub fn refuse(self, error: DgError) {
        // Nobody waits any more when this fails.
        let _ = self.done.send(Err(error));
    }

    fn blocks(&self) -> usize {
        self.record.payload_blocks()
    }
}

/// What goes into the next batch.
struct Gathered {
    place: Place,
    jobs: Vec<Job>,
    stables: Vec<(LocalId, u64)>,
}

impl Dg {
    /// Writes one change to the log. Returns, in chain order, once it is in the log and reads see it: it survives the death of the
    /// process, and a power cut after the next [`Dg::flush`]. Waits while the log is full.
    ///
    /// # Errors
    /// `OutOfRange`, `NoComponent`, `DiskFailed`: nothing was written. `Failed`, `Gone`: it may be in the log or not.
    pub async fn append(&self, append: Append) -> Result<(), DgError> {
        let core = self.core();
        let Append { local, block, nblk, .. } = append;
        let member = core.member_of_range(local, block, nblk)?;
        let payload: usize = append.bufs.iter().map(IoBuf::len).sum();
        let whole = payload == nblk as usize * BLOCK && append.crcs.len() == nblk as usize;
        let fits = match append.kind {
            AppendKind::Data => whole,
            AppendKind::Trim | AppendKind::Zero => payload == 0,
            AppendKind::Resync | AppendKind::Repair => whole || payload == 0,
        };
        if !fits {
            return Err(DgError::OutOfRange { local, block, nblk });
        }
        let step = if payload > 0 { core.batch_blocks_max() as u32 } else { u32::from(u16::MAX) };
        let mut rest = append;
        let mut waits = Vec::new();
        while rest.nblk > step {
            waits.push(core.enqueue(split_front(&mut rest, step), member));
        }
        let last = core.enqueue(rest, member);
        core.rooms.work.notify_one();
        for wait in waits {
            wait.await.unwrap_or(Err(DgError::Gone))?;
        }
        last.await.unwrap_or(Err(DgError::Gone)).map(drop)
    }
}

/// Takes `step` blocks off the front of `rest`.
fn split_front(rest: &mut Append, step: u32) -> Append {
    let bufs =
        if rest.bufs.is_empty() { Vec::new() } else { take_front(&mut rest.bufs, step as usize * BLOCK) };
    let crcs = if rest.crcs.is_empty() { rest.crcs.clone() } else { rest.crcs[..step as usize].into() };
    if !rest.crcs.is_empty() {
        rest.crcs = rest.crcs[step as usize..].into();
    }
    let front = Append {
        bufs,
        crcs,
        nblk: step,
        reservation: Reservation { tokens: rest.reservation.tokens.clone() },
        ..*rest
    };
    rest.block += u64::from(step);
    rest.nblk -= step;
    front
}

impl Core {
    /// Queues a change that fits a batch.
    fn enqueue(&self, append: Append, member: usize) -> oneshot::Receiver<Answer> {
        let kind = match append.kind {
            AppendKind::Data => RecordKind::Data,
            AppendKind::Trim => RecordKind::Trim,
            AppendKind::Zero => RecordKind::Zero,
            AppendKind::Resync => RecordKind::Resync,
            AppendKind::Repair => RecordKind::Repair,
        };
        let hole = append.bufs.is_empty() && matches!(kind, RecordKind::Resync | RecordKind::Repair);
        let record = Record {
            component: append.local,
            kind,
            flags: if hole { flags::HOLE } else { 0 },
            nblk: append.nblk as u16,
            block: append.block,
            oseq: append.oseq,
            data_oseq: append.data_oseq,
            payload: 0,
        };
        let (done, wait) = oneshot::channel();
        let Append { bufs, crcs, reservation: Reservation { tokens }, .. } = append;
        let job = Job { member, record, bufs, crcs, tokens, done };
        let mut state = self.state.borrow_mut();
        let line = if kind == RecordKind::Repair { &mut state.urgent } else { &mut state.queue };
        line.push_back(job);
        wait
    }

    /// Longest payload of a batch, blocks: a quarter of a small ring, so that a few batches always fit.
    pub fn batch_blocks_max(&self) -> usize {
        self.batch_blocks_of(&self.state.borrow())
    }

    pub fn batch_blocks_of(&self, state: &State) -> usize {
        self.cfg.batch_blocks_max.clamp(1, log::PAYLOAD_BLOCKS_MAX).min(quarter_blocks(state))
    }

    /// Takes from the queues what the next batch can hold; `None` when nothing waits or nothing fits.
    fn gather(&self, flush_stables: bool) -> Option<Gathered> {
        let stables = self.state.borrow().stable_dirty.len().min(log::RECORDS_MAX / 2);
        let gathered = self.gather_with(stables, flush_stables);
        // Many values may make the head longer than the room that was promised for it.
        if gathered.is_none() && stables > 0 { self.gather_with(0, false) } else { gathered }
    }

    fn gather_with(&self, stable_slots: usize, flush_stables: bool) -> Option<Gathered> {
        let blocks_max = self.batch_blocks_max();
        let mut state = self.state.borrow_mut();
        let keep = state.ring.len_bytes * RESERVE_PERCENT / 100;
        let (mut jobs, mut blocks, mut place) = (Vec::new(), 0, None);
        let mut blocked = false;
        for urgent in [true, false] {
            let keep = if urgent { 0 } else { keep };
            while jobs.len() + stable_slots < log::RECORDS_MAX {
                let State { queue, urgent: first, ring, .. } = &mut *state;
                let line = if urgent { first } else { queue };
                // Whoever gave up waiting asked for nothing.
                while line.pop_front_if(|job| job.done.is_closed()).is_some() {}
                let Some(next) = line.front() else { break };
                let total = blocks + next.blocks();
                if !jobs.is_empty() && total > blocks_max {
                    break;
                }
                let bytes = (log::head_blocks(jobs.len() + 1 + stable_slots, total) + total) * BLOCK;
                let Some(at) = ring.place(bytes as u64, keep) else {
                    blocked = jobs.is_empty();
                    break;
                };
                place = Some(at);
                blocks = total;
                jobs.extend(line.pop_front());
            }
        }
        state.blocked = blocked || self.rooms.is_wanted();
        if jobs.is_empty() && flush_stables && stable_slots > 0 {
            place = state.ring.place(BLOCK as u64, 0);
        }
        let place = place?;
        let mut stables = Vec::with_capacity(stable_slots);
        while stables.len() < stable_slots
            && let Some(stable) = state.stable_dirty.pop_first()
        {
            stables.push(stable);
        }
        Some(Gathered { place, jobs, stables })
    }

    /// Writes one batch: header, for which `bufs` begins with a place, and payloads in one write. Moves the head.
    async fn write_batch(
        &self,
        records: Vec<Record>,
        crcs: Vec<u32>,
        mut bufs: Vec<IoBuf>,
        pad: Option<u64>,
    ) -> Result<Rc<Batch>, DiskError> {
        let (seq, offset, head) = {
            let state = self.state.borrow();
            let head = BatchHead {
                batch_seq: state.next_seq,
                incarnation: self.epoch,
                prev_crc: state.prev_crc,
                durable_upto: state.durable,
                wrap: pad.is_some(),
                records,
                crcs,
            };
            (state.next_seq, state.ring.head, head)
        };
        self.state.borrow_mut().writing = Some(Instant::now());
        let head_bytes = log::head_blocks(head.records.len(), head.crcs.len()) * BLOCK;
        let mut header = IoBuf::zeroed(head_bytes);
        let at = self.region_offset + offset;
        let crc = log::encode(&head, self.dev_id, at, header.as_mut());
        let written = (head_bytes + head.crcs.len() * BLOCK) as u64;
        bufs[0] = header;
        self.log.write(at, bufs).await?;
        let mut state = self.state.borrow_mut();
        let len = pad.unwrap_or(written);
        state.next_seq = seq + 1;
        state.completed = seq;
        state.writing = None;
        state.prev_crc = crc;
        state.ring.advance(len);
        self.flushed.notify_waiters();
        Ok(state.batches.push(seq, offset, len))
    }

    async fn write_gathered(&self, gathered: Gathered) -> Result<(), DiskError> {
        let Gathered { place, mut jobs, stables } = gathered;
        if let Place::Wrapped { pad_bytes, .. } = place {
            let kind = RecordKind::Pad;
            let none = (LocalId(0), 0);
            let pad = Record {
                component: none.0,
                kind,
                flags: 0,
                nblk: 0,
                block: 0,
                oseq: 0,
                data_oseq: 0,
                payload: 0,
            };
            self.write_batch(vec![pad], vec![], vec![IoBuf::zeroed(0)], Some(pad_bytes)).await?;
        }
        let mut records = Vec::with_capacity(jobs.len() + stables.len());
        let mut crcs = Vec::with_capacity(jobs.iter().map(Job::blocks).sum());
        let mut bufs = Vec::with_capacity(1 + jobs.len());
        bufs.push(IoBuf::zeroed(0));
        for job in &mut jobs {
            let blocks = job.blocks();
            if blocks > 0 {
                job.record.payload = crcs.len() as u32;
                crcs.extend_from_slice(&job.crcs);
                bufs.append(&mut job.bufs);
            }
            records.push(job.record);
        }
        records.extend(stables.iter().map(|(component, oseq)| stable_record(*component, *oseq)));
        let payload_at = self.region_offset + (log::head_blocks(records.len(), crcs.len()) * BLOCK) as u64;
        let batch = match self.write_batch(records, crcs, bufs, None).await {
            Ok(batch) => batch,
            Err(error) => {
                // First, so that those who wait hear whether the disk failed or was pulled.
                self.fail(&error);
                let answer = self.check().err().unwrap_or(DgError::Failed);
                jobs.into_iter().for_each(|job| job.refuse(answer.clone()));
                return Err(error);
            }
        };
        let payload_at = payload_at + batch.offset_bytes;
        let mut state = self.state.borrow_mut();
        for (local, value) in stables {
            self.note_stable(&mut state, &batch, local, value);
        }
        for job in jobs {
            self.note(&mut state, &batch, payload_at, job);
        }
        Ok(())
    }

    /// Puts the record of a written job into the overlay and answers it.
    fn note(&self, state: &mut State, batch: &Rc<Batch>, payload_at: u64, job: Job) {
        let Job { member, record, crcs, tokens, done, .. } = job;
        self.members[member].last_batch.set(batch.seq);
        let pin = Pin::new(batch, member);
        let answer = if !record.kind.is_content() {
            Ok(Some(pin))
        } else if self.members[member].failed.get() {
            Err(self.members[member].lost())
        } else if let Some(comp) = state.comps.get_mut(&record.component) {
            let offset_bytes = payload_at + u64::from(record.payload) * BLOCK as u64;
            let inserted = comp.overlay.insert(rec_of(&record, offset_bytes, crcs, 0, tokens, pin));
            state.overlay_runs = state.overlay_runs.wrapping_add_signed(inserted.grown);
            self.remember(member, &record, inserted.hidden);
            Ok(None)
        } else {
            Err(DgError::NoComponent(record.component))
        };
        // Nobody waits any more when this fails.
        let _ = done.send(answer);
    }

    /// Says once that appends wait for room for long, and which component has most that is not stable.
    fn note_waiting(&self, waiting: &mut Option<Instant>) {
        let since = *waiting.get_or_insert_with(Instant::now);
        if since.elapsed() < WAIT_LONG || self.told_waiting.replace(Some(since)) == Some(since) {
            return;
        }
        let state = self.state.borrow();
        let held = state.comps.iter().map(|(local, comp)| (comp.overlay.unstable_bytes(), *local));
        let most = held.max().unwrap_or_default();
        tracing::warn!(group = %self.group, component = %most.1, unstable_bytes = most.0, "the log is full and nothing leaves it");
    }

    /// Content that a hole hides before it was applied may be on the disk of another leg, which can be away and return: the hole has
    /// to leave its sequence in the map although the map never saw the content. It does so for entries that exist, so they are made
    /// now: before the log space of the content is given back, and again by every replay until then. A hole that a resync copied
    /// stands for an entry of its source.
    pub fn remember(&self, member: usize, record: &Record, mut hidden: Vec<Range<u64>>) {
        if on(Mutant::ForgetHiddenData) {
            return;
        }
        if record.kind == RecordKind::Resync && record.payload_blocks() == 0 {
            hidden.push(record.block..record.block + u64::from(record.nblk));
        }
        for blocks in hidden {
            self.members[member].cap.remember(record.component, blocks.start, blocks.end - blocks.start);
        }
    }

    /// A STABLE value is in `batch`.
    pub fn note_stable(&self, state: &mut State, batch: &Batch, local: LocalId, value: u64) {
        if let Some(comp) = state.comps.get_mut(&local) {
            comp.logged_stable.push_back((batch.seq, value));
            self.members[comp.member].last_batch.set(batch.seq);
        }
    }
}

/// The record in memory of a content record in the log whose payload begins at byte `offset_bytes` of the log disk.
pub(super) fn rec_of(
    record: &Record,
    offset_bytes: u64,
    crcs: Rc<[u32]>,
    first: usize,
    tokens: Vec<Rc<Token>>,
    pin: Pin,
) -> Rec {
    let Record { block, nblk, oseq, data_oseq, .. } = *record;
    let body =
        if record.payload_blocks() > 0 { Body::Logged { offset_bytes, crcs, first } } else { Body::Hole };
    Rec { block, nblk: u32::from(nblk), oseq, data_oseq, body, _tokens: tokens, _pin: pin }
}

fn stable_record(component: LocalId, oseq: u64) -> Record {
    Record {
        component,
        kind: RecordKind::Stable,
        flags: 0,
        nblk: 0,
        block: 0,
        oseq,
        data_oseq: 0,
        payload: 0,
    }
}

fn quarter_blocks(state: &State) -> usize {
    ((state.ring.len_bytes / 4) as usize / BLOCK).saturating_sub(2).max(1)
}

/// Takes the first `bytes` off `bufs`, sharing the memory.
fn take_front(bufs: &mut Vec<IoBuf>, bytes: usize) -> Vec<IoBuf> {
    let (mut taken, mut left, mut whole) = (Vec::new(), bytes, 0);
    for buf in bufs.iter_mut() {
        if left >= buf.len() {
            left -= buf.len();
            taken.push(buf.clone());
            whole += 1;
        } else {
            if left > 0 {
                taken.push(buf.slice(0..left));
                *buf = buf.slice(left..buf.len());
            }
            break;
        }
    }
    bufs.drain(..whole);
    taken
}

/// The writer's task: ends when the group is dead.
pub(super) async fn run(core: Rc<Core>) {
    let mut flush_stables = false;
    let mut waiting = None;
    while core.dead.get().is_none() {
        core.grant_rooms();
        if let Some(gathered) = core.gather(std::mem::take(&mut flush_stables)) {
            waiting = None;
            if let Err(error) = core.write_gathered(gathered).await {
                return core.fail(&error);
            }
            continue;
        }
        let (blocked, stables) = {
            let state = core.state.borrow();
            (state.blocked, !state.stable_dirty.is_empty())
        };
        if blocked {
            core.flush_wanted.notify_waiters();
            core.note_waiting(&mut waiting);
            core.members.iter().for_each(|member| member.kick.notify_one());
        }
        tokio::select! {
            biased;
            () = core.rooms.work.notified() => {}
            () = tokio::time::sleep(STABLE_DELAY), if stables || blocked => flush_stables = stables,
        }
    }
}
