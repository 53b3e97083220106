//! Scripts: short histories over the engine on simulated disks, each the one in which a rule of safety is needed.
//!
//! Map: [`Stage`] what a script plays on · `in_flight`, `mirror`, `numbers`, `log`, `space` the scripts.
//! Where the first designs broke in models, their histories are here: writes under way (`acknowledged-out-of-order`), a changing
//! write set (`write-set-barrier`), two legs and a witness (`torn-write`, `torn-write-returns`, `stale-mark-first`), numbers given
//! twice (`two-descriptors`, `numbers-of-a-resync`).
//! A script must pass with every seed (the seed decides what survives a crash and how long an I/O takes); without the rule that
//! it is about some seed fails.
pub mod in_flight;
pub mod log;
pub mod mirror;
pub mod numbers;
pub mod space;

use super::cluster::{Cluster, Shape};
use super::content::SECTOR;
use super::group::Limits;
use super::reference::{Outage, Violation};
use super::volume::ObjectVolume;
use super::workload::{self, Board};
use super::world::{Story, System};
use crate::io::{Env, IoOp};
use model::units::{BLOCK_BYTES, Timestamp};
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;
use tokio::task::JoinHandle;

/// Sectors of a block.
const SECTORS: u64 = BLOCK_BYTES / SECTOR;
/// Time in which everything that is not held back ends, and before anything counts as silent.
const SOON: Duration = Duration::from_millis(500);

/// A system with its clients and the oracle that judges them.
pub struct Stage<S: System> {
    /// What is played with.
    pub system: S,
    /// The oracle.
    pub board: Rc<Board>,
    volume: Option<S::Volume>,
    under_way: Vec<JoinHandle<()>>,
}

/// A mirror of `shape` that serves.
pub async fn mirror(seed: u64, shape: Shape) -> Result<Stage<Cluster>, Violation> {
    let env = Env::seeded(seed, Timestamp(0));
    // Logs apart from the disks, so that a script can hold back one without the other.
    let limits = Limits { apart: true, ..Limits::default() };
    let cluster = Cluster::draw(&env, env.id_bytes(), shape, &limits);
    let board = Board::new(&env, cluster.sectors());
    Stage::new(cluster, board).await
}

impl<S: System> Stage<S> {
    /// Boots the system.
    pub async fn new(system: S, board: Rc<Board>) -> Result<Self, Violation> {
        let mut stage = Self { system, board, volume: None, under_way: Vec::new() };
        stage.boot().await?;
        Ok(stage)
    }

    /// What the clients use.
    pub fn volume(&self) -> S::Volume {
        self.volume.clone().expect("scripts boot before they use it")
    }

    /// Opens everything again.
    pub async fn boot(&mut self) -> Result<(), Violation> {
        self.volume = Some(self.system.boot().await?);
        Ok(())
    }

    /// Everything stops; what is under way is given up.
    pub async fn crash(&mut self, outage: Outage) {
        for task in self.under_way.drain(..) {
            task.abort();
            // It was aborted, or ended before.
            let _ = task.await;
        }
        self.volume = None;
        self.system.crash(outage);
        self.system.events().stop_after(None);
        self.board.reference.borrow_mut().crash(outage);
    }

    /// A write of one block.
    pub async fn write(&self, block: u64) {
        self.write_blocks(block..block + 1).await;
    }

    /// A write.
    pub async fn write_blocks(&self, blocks: Range<u64>) {
        workload::write(&self.board, &self.volume(), sectors(blocks), false).await;
    }

    /// A trim.
    pub async fn trim(&self, blocks: Range<u64>) {
        workload::trim(&self.board, &self.volume(), sectors(blocks), false).await;
    }

    /// A read.
    pub async fn read(&self, blocks: Range<u64>) {
        workload::read(&self.board, &self.volume(), sectors(blocks)).await;
    }

    /// A flush.
    pub async fn flush(&self) {
        workload::flush(&self.board, &self.volume()).await;
    }

    /// Begins something that a client does, and lets it get under way.
    pub async fn begin<F: Future<Output = ()> + 'static>(
        &mut self,
        what: impl FnOnce(Rc<Board>, S::Volume) -> F,
    ) {
        let task = tokio::task::spawn_local(what(Rc::clone(&self.board), self.volume()));
        self.under_way.push(task);
        tokio::task::yield_now().await;
    }

    /// Begins a write of one block.
    pub async fn begin_write(&mut self, block: u64) {
        let range = sectors(block..block + 1);
        self.begin(async move |board, volume| workload::write(&board, &volume, range, false).await).await;
    }

    /// Whether something that was begun has not ended.
    pub fn is_busy(&self) -> bool {
        self.under_way.iter().any(|task| !task.is_finished())
    }

    /// Waits until all that was begun has ended, and may itself be given up.
    pub async fn idle(&self) {
        while self.is_busy() {
            soon().await;
        }
    }

    /// Waits for all that was begun.
    pub async fn join(&mut self) {
        for task in self.under_way.drain(..) {
            if let Err(error) = task.await
                && error.is_panic()
            {
                std::panic::resume_unwind(error.into_panic());
            }
        }
    }

    /// Everything heals; all copies are compared, all disks verified, all content is looked at once more after a restart.
    pub async fn finish(mut self) -> Result<Story, Violation> {
        self.join().await;
        self.board.verdict()?;
        self.system.settle(&self.board).await?;
        self.boot().await?;
        let blocks = self.board.reference.borrow().sectors() / SECTORS;
        for first in (0..blocks).step_by(16) {
            self.read(first..first + 16).await;
        }
        self.system.crash(Outage::Kill);
        self.board.verdict()?;
        let events = self.system.events();
        Ok(Story { ops: 0, failed: self.board.failed.get(), events: events.count(), trace: events.trace() })
    }
}

impl Stage<Cluster> {
    /// Of the log of a host only `count` more I/Os of this kind end.
    pub fn hold(&self, host: usize, op: IoOp, count: u64) {
        self.system.hosts[host].log.1.hold(op, count);
    }

    /// The clients use the object that the script has opened.
    pub fn attach(&mut self) -> Result<(), Violation> {
        self.volume = Some(ObjectVolume(self.system.object()?));
        Ok(())
    }

    /// Nothing of a host is held back any more.
    pub fn lift(&self, host: usize) {
        self.system.hosts[host].disks().for_each(crate::io::sim::SimDisk::lift_holds);
    }
}

fn sectors(blocks: Range<u64>) -> Range<u64> {
    blocks.start * SECTORS..blocks.end * SECTORS
}

/// Lets everything go on that can.
async fn soon() {
    tokio::time::sleep(SOON).await;
}
