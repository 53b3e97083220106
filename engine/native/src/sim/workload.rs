//! Clients: random operations from a grammar, some of which each seed leaves out, judged by the reference.
//!
//! Invariant: every operation tells the reference of its start before it is sent and of its end before the client goes on.
use super::content::{SECTOR, filled};
use super::reference::{Outage, Reference, Violation};
use crate::io::{Env, IoBuf};
use std::cell::{Cell, RefCell};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

/// Why a volume did not do what was asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Failure {
    /// Nothing happened: refused before it began (no space, shutting down).
    Refused,
    /// It may or may not have happened, wholly or in part.
    Failed(String),
}

/// What the clients use: one leg with a small owner, or an object.
pub trait Volume: Clone + 'static {
    /// The bytes of the sectors.
    fn read(&self, sectors: Range<u64>) -> impl Future<Output = Result<Vec<IoBuf>, Failure>>;
    /// Writes whole sectors from `first`.
    fn write(&self, first: u64, data: IoBuf, durable: bool) -> impl Future<Output = Result<(), Failure>>;
    /// Makes the sectors read as zeros; `keep` keeps their space.
    fn trim(&self, sectors: Range<u64>, keep: bool) -> impl Future<Output = Result<(), Failure>>;
    /// Makes everything acknowledged durable.
    fn flush(&self) -> impl Future<Output = Result<(), Failure>>;
}

/// What a client may do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Op {
    /// A write of a few sectors.
    Write,
    /// A write of many.
    BigWrite,
    /// A write that is durable when acknowledged.
    DurableWrite,
    /// Blocks given back.
    Trim,
    /// Zeros that keep their space.
    Zero,
    /// A flush.
    Flush,
    /// A read of a few sectors.
    Read,
    /// A read of many.
    BigRead,
    /// A pause.
    Think,
}

const OPS: [(Op, u64); 9] = [
    (Op::Write, 12),
    (Op::BigWrite, 2),
    (Op::DurableWrite, 1),
    (Op::Trim, 2),
    (Op::Zero, 1),
    (Op::Flush, 2),
    (Op::Read, 8),
    (Op::BigRead, 1),
    (Op::Think, 2),
];

/// The shape of one seed's load.
#[derive(Clone, Debug)]
pub struct Load {
    /// Alignment of everything, sectors.
    pub unit: u64,
    /// Size of the volume, sectors.
    pub sectors: u64,
    /// Clients at once.
    pub clients: u64,
    /// Longest small and big operation, units.
    pub small: u64,
    /// Longest big operation, units.
    pub big: u64,
    /// Part of the volume that is used, units: small parts make conflicts.
    pub span: u64,
    weights: Vec<(Op, u64)>,
}

impl Load {
    /// Draws a load for a volume of `sectors`: writes and reads always, each other operation in half of the seeds.
    pub fn draw(env: &Env, unit: u64, sectors: u64) -> Self {
        let mut weights: Vec<(Op, u64)> = OPS.to_vec();
        weights.retain(|(op, _)| matches!(op, Op::Write | Op::Read | Op::Flush) || env.chance(1, 2));
        let units = sectors / unit;
        let span = if env.chance(1, 3) { units } else { (4 + env.below(60)).min(units) };
        Self {
            unit,
            sectors,
            clients: 1 + env.below(4),
            small: 1 + env.below(8),
            big: 16 + env.below(100),
            span,
            weights,
        }
    }

    fn op(&self, env: &Env) -> Op {
        let total = self.weights.iter().map(|(_, weight)| weight).sum();
        let mut at = env.below(total);
        for (op, weight) in &self.weights {
            if at < *weight {
                return *op;
            }
            at -= weight;
        }
        Op::Read
    }

    fn sectors(&self, env: &Env, longest: u64) -> Range<u64> {
        let len = 1 + env.below(longest.min(self.span));
        let first = env.below(self.span - len + 1);
        first * self.unit..(first + len) * self.unit
    }
}

/// What the clients of one world share.
pub struct Board {
    /// The oracle.
    pub reference: RefCell<Reference>,
    /// The world's randomness.
    pub env: Env,
    /// The first broken promise.
    pub violation: RefCell<Option<Violation>>,
    /// Operations done, and those that failed.
    pub done: Cell<u64>,
    /// Operations that failed.
    pub failed: Cell<u64>,
    /// How it went down, while it is not open.
    pub down: Cell<Option<Outage>>,
    /// Whether operations may fail now (more faults than the policy tolerates).
    pub may_fail: Cell<bool>,
}

impl Board {
    /// For a blank volume of `sectors`.
    pub fn new(env: &Env, sectors: u64) -> Rc<Self> {
        Rc::new(Self {
            reference: RefCell::new(Reference::new(sectors)),
            env: env.clone(),
            violation: RefCell::new(None),
            done: Cell::new(0),
            failed: Cell::new(0),
            down: Cell::new(None),
            may_fail: Cell::new(false),
        })
    }

    /// Notes a broken promise; the first one counts.
    pub fn broken(&self, violation: Violation) {
        self.violation.borrow_mut().get_or_insert(violation);
    }

    /// The broken promise, if any.
    pub fn verdict(&self) -> Result<(), Violation> {
        self.violation.borrow().clone().map_or(Ok(()), Err)
    }

    fn failed(&self, what: &str, failure: &Failure) {
        self.failed.set(self.failed.get() + 1);
        if let Failure::Failed(why) = failure
            && !self.may_fail.get()
        {
            self.broken(Violation(format!("{what} failed although nothing justifies it: {why}")));
        }
    }
}

/// Runs operations until `ops` are done or a promise is broken. Abort it to end it earlier.
pub async fn client<V: Volume>(board: Rc<Board>, volume: V, load: Rc<Load>, ops: u64) {
    for _ in 0..ops {
        if board.violation.borrow().is_some() {
            return;
        }
        one(&board, &volume, &load).await;
        board.done.set(board.done.get() + 1);
    }
}

async fn one<V: Volume>(board: &Board, volume: &V, load: &Load) {
    let env = &board.env;
    match load.op(env) {
        Op::Write => write(board, volume, load.sectors(env, load.small), false).await,
        Op::BigWrite => write(board, volume, load.sectors(env, load.big), false).await,
        Op::DurableWrite => write(board, volume, load.sectors(env, load.small), true).await,
        Op::Trim => trim(board, volume, whole_blocks(load.sectors(env, load.big), load.sectors), false).await,
        Op::Zero => trim(board, volume, load.sectors(env, load.small), true).await,
        Op::Flush => flush(board, volume).await,
        Op::Read => read(board, volume, load.sectors(env, load.small)).await,
        Op::BigRead => read(board, volume, load.sectors(env, load.big)).await,
        Op::Think => tokio::time::sleep(Duration::from_millis(env.below(200))).await,
    }
}

/// The blocks of 4 KiB that a range touches: only those can be given back.
fn whole_blocks(sectors: Range<u64>, size: u64) -> Range<u64> {
    const BLOCK: u64 = model::units::BLOCK_BYTES / SECTOR;
    sectors.start / BLOCK * BLOCK..sectors.end.next_multiple_of(BLOCK).min(size)
}

/// One write of `sectors`.
pub async fn write<V: Volume>(board: &Board, volume: &V, sectors: Range<u64>, durable: bool) {
    let version = board.reference.borrow_mut().begin_write(sectors.clone(), false);
    let data = filled(version, sectors.start, sectors.end - sectors.start);
    let result = volume.write(sectors.start, data, durable).await;
    end_write(board, version, durable, "a write", result);
}

/// One trim of `sectors`.
pub async fn trim<V: Volume>(board: &Board, volume: &V, sectors: Range<u64>, keep: bool) {
    let version = board.reference.borrow_mut().begin_write(sectors.clone(), true);
    let result = volume.trim(sectors, keep).await;
    end_write(board, version, false, "a trim", result);
}

fn end_write(board: &Board, version: u64, durable: bool, what: &str, result: Result<(), Failure>) {
    let mut reference = board.reference.borrow_mut();
    match result {
        Ok(()) => reference.end_write(version, durable),
        Err(failure) => {
            if failure == Failure::Refused {
                reference.forget_write(version);
            }
            board.failed(what, &failure);
        }
    }
}

/// One flush.
pub async fn flush<V: Volume>(board: &Board, volume: &V) {
    let start = board.reference.borrow_mut().begin_flush();
    match volume.flush().await {
        Ok(()) => board.reference.borrow_mut().end_flush(start),
        Err(failure) => board.failed("a flush", &failure),
    }
}

/// One read of `sectors`.
pub async fn read<V: Volume>(board: &Board, volume: &V, sectors: Range<u64>) {
    let start = board.reference.borrow_mut().begin_read();
    let result = volume.read(sectors.clone()).await;
    let mut reference = board.reference.borrow_mut();
    match result {
        Ok(bufs) => {
            let bytes = bufs.concat_bytes();
            let want = ((sectors.end - sectors.start) * SECTOR) as usize;
            if bytes.len() != want {
                board.broken(Violation(format!("a read of {want} bytes gave {}", bytes.len())));
            } else if let Err(violation) = reference.check_read(start, sectors.start, &bytes) {
                board.broken(violation);
            }
        }
        Err(failure) => {
            reference.end_read(start);
            board.failed("a read", &failure);
        }
    }
}

/// Reads the whole volume, in pieces.
pub async fn read_all<V: Volume>(board: &Board, volume: &V, load: &Load) {
    for first in (0..load.span * load.unit).step_by((64 * load.unit) as usize) {
        read(board, volume, first..(first + 64 * load.unit).min(load.sectors)).await;
    }
}

trait ConcatBytes {
    fn concat_bytes(&self) -> Vec<u8>;
}

impl ConcatBytes for Vec<IoBuf> {
    fn concat_bytes(&self) -> Vec<u8> {
        self.iter().flat_map(|buf| buf.as_slice()).copied().collect()
    }
}
