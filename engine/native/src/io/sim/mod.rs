//! The simulated disk: the same interface as a real one, with every fault a disk can have, decided by a seed.
//!
//! Model, per sector of 512 bytes: the durable version, the versions of completed writes that no flush covers yet, and the
//! versions of writes under way. `Kill` is the death of the process: completed writes survive, those under way land in part,
//! not at all, or late, until the lock of the disk is free. `Power` is the loss of power of the disk: every sector becomes
//! its durable or any later version, independently of all others, or all in one of the ways that real disks prefer.
//! Invariants: nothing that a flush covered is ever lost by `crash`; a lost or misdirected write is acknowledged as if it had
//! worked; all decisions come from the disk's own generator, so a seed repeats exactly.
mod crash;
mod events;
mod hold;
mod pages;

pub use crash::CrashKind;
pub use events::Events;
pub use pages::Pages;

use super::disk::{Disk, DiskError, Geometry, IoOp, Kind, SECTOR_BYTES};
use super::env::below;
use super::{IoBuf, Reader};
use model::state::Media;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{Notify, oneshot};

/// How often a disk misbehaves by itself, in cases of a million; and its speed.
#[derive(Clone, Copy, Debug)]
pub struct Misbehaviour {
    /// A write is acknowledged and not done.
    pub lost_write_ppm: u32,
    /// A write is acknowledged and lands elsewhere, close by.
    pub misdirected_write_ppm: u32,
    /// A write reports an error and lands in part.
    pub write_error_ppm: u32,
    /// A read reports an error; the next one may work.
    pub read_error_ppm: u32,
    /// A read returns one wrong bit; the next one may be right.
    pub read_flip_ppm: u32,
    /// A flush reports an error, and what was not flushed is lost.
    pub flush_error_ppm: u32,
    /// Longest latency of an I/O, milliseconds of virtual time: each takes 0 to this.
    pub latency_ms_max: u32,
}

impl Default for Misbehaviour {
    fn default() -> Self {
        Self {
            lost_write_ppm: 0,
            misdirected_write_ppm: 0,
            write_error_ppm: 0,
            read_error_ppm: 0,
            read_flip_ppm: 0,
            flush_error_ppm: 0,
            latency_ms_max: 4,
        }
    }
}

/// A simulated medium. Clones share it; [`SimDisk::open`] gives the disk to an engine.
#[derive(Clone)]
pub struct SimDisk(Rc<Medium>);

struct Medium {
    state: RefCell<State>,
    rng: RefCell<ChaCha8Rng>,
    misbehaviour: Cell<Misbehaviour>,
    events: Events,
    geometry: Geometry,
    life: Cell<u32>,
    /// The life that ended because the disk was pulled; 0: none.
    pulled: Cell<u32>,
    settled: Notify,
    holds: hold::Holds,
}

#[derive(Default)]
struct State {
    /// What reads see: every completed write.
    image: Pages,
    /// What flushes cover.
    durable: Pages,
    /// Completed and not flushed, in order of completion, each with its number.
    unflushed: VecDeque<(u64, SimWrite)>,
    completed: u64,
    /// Under way, by number of submission.
    in_flight: BTreeMap<u64, InFlight>,
    submitted: u64,
    rotten: BTreeSet<u64>,
}

/// Bytes on their way to the disk; `data` empty means zeros (discard).
#[derive(Clone)]
struct SimWrite {
    offset_bytes: u64,
    len_bytes: u64,
    data: Vec<IoBuf>,
}

struct InFlight {
    what: Pending,
    reply: Option<oneshot::Sender<Result<(), DiskError>>>,
}

enum Pending {
    Write(SimWrite),
    /// A flush covers what had completed when it started.
    Flush {
        covers: u64,
    },
}

impl SimWrite {
    fn apply(&self, pages: &mut Pages) {
        if self.data.is_empty() {
            return pages.discard(self.offset_bytes, self.len_bytes);
        }
        let mut at = self.offset_bytes;
        for buf in &self.data {
            pages.write(at, buf);
            at += buf.len() as u64;
        }
    }

    fn sectors(&self) -> std::ops::Range<u64> {
        self.offset_bytes / SECTOR_BYTES..(self.offset_bytes + self.len_bytes) / SECTOR_BYTES
    }

    /// Version of `sector`, which must be one of [`SimWrite::sectors`].
    fn sector(&self, sector: u64) -> pages::Sector {
        let mut bytes = [0; SECTOR_BYTES as usize];
        let mut skip = (sector * SECTOR_BYTES - self.offset_bytes) as usize;
        let mut filled = 0;
        for buf in &self.data {
            if skip >= buf.len() {
                skip -= buf.len();
                continue;
            }
            let take = (buf.len() - skip).min(bytes.len() - filled);
            bytes[filled..filled + take].copy_from_slice(&buf[skip..skip + take]);
            filled += take;
            skip = 0;
            if filled == bytes.len() {
                break;
            }
        }
        bytes
    }
}

impl SimDisk {
    /// A blank flash disk of `size_bytes` whose behaviour follows `seed`.
    pub fn new(size_bytes: u64, seed: u64, events: &Events) -> Self {
        Self(Rc::new(Medium {
            state: RefCell::default(),
            rng: RefCell::new(ChaCha8Rng::seed_from_u64(seed)),
            misbehaviour: Cell::default(),
            events: events.clone(),
            geometry: Geometry {
                size_bytes,
                physical_block_bytes: 4096,
                sector_bytes: 512,
                media: Media::Flash,
            },
            life: Cell::new(0),
            pulled: Cell::new(0),
            settled: Notify::new(),
            holds: hold::Holds::default(),
        }))
    }

    /// Opens the disk as a new process would: waits for the lock, that is until no write of an earlier life can land.
    /// Handles of earlier lives answer `Gone` from now on.
    pub async fn open(&self) -> Disk {
        let disk = self.open_without_lock();
        self.0.quiesce().await;
        disk
    }

    /// Opens the disk at once: late writes of a killed process may still land. What a missing lock would allow.
    pub fn open_without_lock(&self) -> Disk {
        self.0.life.set(self.0.life.get() + 1);
        let handle = SimHandle { medium: Rc::clone(&self.0), life: self.0.life.get() };
        Disk::new(Kind::Sim(handle), self.0.geometry)
    }

    /// Its size.
    pub fn size_bytes(&self) -> u64 {
        self.0.geometry.size_bytes
    }

    /// Pulls the disk out: open handles answer `Gone` and say so, [`SimDisk::open`] plugs it in again.
    pub fn pull(&self) {
        self.0.pulled.set(self.0.life.replace(self.0.life.get() + 1));
    }

    /// Sets how the disk misbehaves from now on.
    pub fn misbehave(&self, how: Misbehaviour) {
        self.0.misbehaviour.set(how);
    }

    /// How it misbehaves.
    pub fn misbehaviour(&self) -> Misbehaviour {
        self.0.misbehaviour.get()
    }

    /// What a read of the whole disk would return now.
    pub fn snapshot(&self) -> Pages {
        self.0.state.borrow().image.clone()
    }

    /// Puts an older image back, as a restored backup would; open handles are dead.
    pub fn restore(&self, image: Pages) {
        self.0.life.set(self.0.life.get() + 1);
        let old = self.0.state.replace(State { image: image.clone(), durable: image, ..State::default() });
        drop(old);
        self.0.settled.notify_waiters();
    }

    /// Flips one bit of the stored byte at `offset_bytes`.
    pub fn flip_bit(&self, offset_bytes: u64, bit: u8) {
        let mut state = self.0.state.borrow_mut();
        let State { image, durable, .. } = &mut *state;
        for pages in [image, durable] {
            let mut byte = [0];
            pages.read(offset_bytes, &mut byte);
            pages.write(offset_bytes, &[byte[0] ^ (1 << (bit & 7))]);
        }
    }

    /// Makes the sector that holds `offset_bytes` unreadable until it is written again.
    pub fn rot(&self, offset_bytes: u64) {
        self.0.state.borrow_mut().rotten.insert(offset_bytes / SECTOR_BYTES);
    }

    /// Reads the stored bytes past all faults, for a checker.
    pub fn peek(&self, offset_bytes: u64, len_bytes: usize) -> Vec<u8> {
        let mut bytes = vec![0; len_bytes];
        self.0.state.borrow().image.read(offset_bytes, &mut bytes);
        bytes
    }

    /// I/O under way, writes and flushes.
    pub fn in_flight(&self) -> usize {
        self.0.state.borrow().in_flight.len()
    }

    /// The counter that this disk reports to.
    pub fn events(&self) -> &Events {
        &self.0.events
    }
}

impl Medium {
    fn below(&self, n: u64) -> u64 {
        below(&mut *self.rng.borrow_mut(), n)
    }

    fn happens(&self, ppm: u32) -> bool {
        ppm > 0 && self.below(1_000_000) < u64::from(ppm)
    }

    async fn latency(&self) {
        match self.below(u64::from(self.misbehaviour.get().latency_ms_max) + 1) {
            0 => tokio::task::yield_now().await,
            ms => tokio::time::sleep(Duration::from_millis(ms)).await,
        }
        while self.events.is_stopped() {
            std::future::pending::<()>().await;
        }
    }

    async fn quiesce(&self) {
        while !self.state.borrow().in_flight.is_empty() {
            self.settled.notified().await;
        }
    }

    /// Ends the I/O `number`: its effect becomes visible and its waiter hears of it.
    fn complete(&self, number: u64) {
        if !self.state.borrow().in_flight.contains_key(&number) || !self.events.step() {
            return;
        }
        let Some(mut io) = self.state.borrow_mut().in_flight.remove(&number) else { return };
        let result = match &io.what {
            Pending::Write(write) => self.complete_write(write),
            Pending::Flush { covers } => self.complete_flush(*covers),
        };
        if let Some(reply) = io.reply.take() {
            // The waiter may have given up: the I/O happened all the same.
            let _ = reply.send(result);
        }
        if self.state.borrow().in_flight.is_empty() {
            self.settled.notify_waiters();
        }
    }

    fn complete_write(&self, write: &SimWrite) -> Result<(), DiskError> {
        let how = self.misbehaviour.get();
        self.events.note(write.offset_bytes ^ (write.len_bytes << 40));
        if self.happens(how.write_error_ppm) {
            self.land_in_part(write);
            return Err(DiskError::Io {
                op: IoOp::Write,
                offset_bytes: write.offset_bytes,
                len_bytes: write.len_bytes,
                errno: libc::EIO,
            });
        }
        if self.happens(how.lost_write_ppm) {
            return Ok(());
        }
        let mut write = write.clone();
        if self.happens(how.misdirected_write_ppm) {
            write.offset_bytes = self.elsewhere(&write);
        }
        self.land(write);
        Ok(())
    }

    fn elsewhere(&self, write: &SimWrite) -> u64 {
        let distance = (1 + self.below(16)) * 4096;
        let up = write.offset_bytes + distance;
        if up + write.len_bytes <= self.geometry.size_bytes {
            up
        } else {
            write.offset_bytes.saturating_sub(distance)
        }
    }

    fn land(&self, write: SimWrite) {
        let mut state = self.state.borrow_mut();
        write.apply(&mut state.image);
        let sectors = write.sectors();
        let healed: Vec<u64> = state.rotten.range(sectors).copied().collect();
        for sector in healed {
            state.rotten.remove(&sector);
        }
        state.completed += 1;
        let number = state.completed;
        state.unflushed.push_back((number, write));
    }

    fn complete_flush(&self, covers: u64) -> Result<(), DiskError> {
        self.events.note(covers ^ (1 << 63));
        let failed = self.happens(self.misbehaviour.get().flush_error_ppm);
        let mut state = self.state.borrow_mut();
        let state = &mut *state;
        if failed {
            state.unflushed.clear();
            state.image = state.durable.clone();
            return Err(DiskError::FlushFailed);
        }
        while let Some((number, write)) = state.unflushed.front()
            && *number <= covers
        {
            write.apply(&mut state.durable);
            state.unflushed.pop_front();
        }
        Ok(())
    }
}

/// One opening of a simulated disk.
#[derive(Clone)]
pub(super) struct SimHandle {
    medium: Rc<Medium>,
    life: u32,
}

impl SimHandle {
    pub(super) fn reader(&self, size_bytes: u64) -> Option<Reader> {
        self.is_alive().then(|| Reader::of_image(self.medium.state.borrow().image.clone(), size_bytes))
    }

    fn is_alive(&self) -> bool {
        self.medium.life.get() == self.life
    }

    pub(super) fn is_pulled(&self) -> bool {
        self.medium.pulled.get() == self.life
    }

    pub(super) async fn read(&self, offset_bytes: u64, mut buf: IoBuf) -> Result<IoBuf, DiskError> {
        let len_bytes = buf.len() as u64;
        buf.as_mut();
        self.medium.latency().await;
        self.medium.holds.pass(IoOp::Read).await;
        if !self.is_alive() {
            return Err(DiskError::Gone);
        }
        let how = self.medium.misbehaviour.get();
        let sectors = offset_bytes / SECTOR_BYTES..(offset_bytes + len_bytes) / SECTOR_BYTES;
        let rotten = self.medium.state.borrow().rotten.range(sectors).next().is_some();
        if rotten || self.medium.happens(how.read_error_ppm) {
            return Err(DiskError::Io { op: IoOp::Read, offset_bytes, len_bytes, errno: libc::EIO });
        }
        self.medium.state.borrow().image.read(offset_bytes, buf.as_mut());
        self.mix_in_flight(offset_bytes, buf.as_mut());
        if self.medium.happens(how.read_flip_ppm) && len_bytes > 0 {
            let at = self.medium.below(len_bytes * 8);
            buf.as_mut()[(at / 8) as usize] ^= 1 << (at % 8);
        }
        Ok(buf)
    }

    /// A read beside a write under way sees either version, sector by sector.
    fn mix_in_flight(&self, offset_bytes: u64, bytes: &mut [u8]) {
        let state = self.medium.state.borrow();
        let wanted = offset_bytes / SECTOR_BYTES..(offset_bytes + bytes.len() as u64) / SECTOR_BYTES;
        for io in state.in_flight.values() {
            let Pending::Write(write) = &io.what else { continue };
            let has = write.sectors();
            for sector in wanted.start.max(has.start)..wanted.end.min(has.end) {
                if self.medium.below(2) == 0 {
                    let at = (sector * SECTOR_BYTES - offset_bytes) as usize;
                    bytes[at..at + SECTOR_BYTES as usize].copy_from_slice(&write.sector(sector));
                }
            }
        }
    }

    pub(super) async fn write(&self, offset_bytes: u64, data: Vec<IoBuf>) -> Result<(), DiskError> {
        let len_bytes = data.iter().map(|buf| buf.len() as u64).sum();
        self.submit(Pending::Write(SimWrite { offset_bytes, len_bytes, data })).await
    }

    pub(super) async fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), DiskError> {
        self.submit(Pending::Write(SimWrite { offset_bytes, len_bytes, data: Vec::new() })).await
    }

    pub(super) async fn flush(&self) -> Result<(), DiskError> {
        let covers = self.medium.state.borrow().completed;
        self.submit(Pending::Flush { covers }).await
    }

    async fn submit(&self, what: Pending) -> Result<(), DiskError> {
        if !self.is_alive() {
            return Err(DiskError::Gone);
        }
        let op = match &what {
            Pending::Write(_) => IoOp::Write,
            Pending::Flush { .. } => IoOp::Flush,
        };
        let (reply, done) = oneshot::channel();
        let number = {
            let mut state = self.medium.state.borrow_mut();
            state.submitted += 1;
            let number = state.submitted;
            state.in_flight.insert(number, InFlight { what, reply: Some(reply) });
            number
        };
        let medium = Rc::clone(&self.medium);
        tokio::task::spawn_local(async move {
            medium.latency().await;
            medium.holds.pass(op).await;
            medium.complete(number);
        });
        done.await.unwrap_or(Err(DiskError::Gone))
    }

    pub(super) async fn quiesce(&self) {
        self.medium.quiesce().await;
    }

    pub(super) fn is_allocated(&self, offset_bytes: u64, len_bytes: u64) -> bool {
        self.medium.state.borrow().image.holds(offset_bytes, len_bytes)
    }
}

#[cfg(test)]
mod tests;
