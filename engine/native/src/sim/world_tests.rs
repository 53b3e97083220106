//! The harness judged by the simplest system that keeps the promises, a bare disk behind a lock, and by spoilt ones.
use super::super::content::SECTOR;
use super::super::workload::Failure;
use super::*;
use crate::io::sim::{CrashKind, Misbehaviour, SimDisk};
use crate::io::{Disk, Env, IoBuf};
use model::units::Timestamp;
use std::ops::Range;
use tokio::sync::RwLock;

#[derive(Clone)]
struct Bare {
    disk: Disk,
    lock: Rc<RwLock<()>>,
    flushes: bool,
}

impl Volume for Bare {
    async fn read(&self, sectors: Range<u64>) -> Result<Vec<IoBuf>, Failure> {
        let _shared = self.lock.read().await;
        let buf = IoBuf::for_read(((sectors.end - sectors.start) * SECTOR) as usize);
        Ok(vec![self.disk.read(sectors.start * SECTOR, buf).await.map_err(failure)?])
    }

    async fn write(&self, first: u64, data: IoBuf, durable: bool) -> Result<(), Failure> {
        let _alone = self.lock.write().await;
        self.disk.write(first * SECTOR, vec![data]).await.map_err(failure)?;
        if durable { self.flush().await } else { Ok(()) }
    }

    async fn trim(&self, sectors: Range<u64>, _keep: bool) -> Result<(), Failure> {
        let _alone = self.lock.write().await;
        let len = (sectors.end - sectors.start) * SECTOR;
        self.disk.discard(sectors.start * SECTOR, len).await.map_err(failure)
    }

    async fn flush(&self) -> Result<(), Failure> {
        if self.flushes { self.disk.flush().await.map_err(failure) } else { Ok(()) }
    }
}

fn failure(error: crate::io::DiskError) -> Failure {
    Failure::Failed(error.to_string())
}

struct BareWorld {
    disk: SimDisk,
    flushes: bool,
}

impl System for BareWorld {
    type Volume = Bare;

    async fn boot(&mut self) -> Result<Bare, Violation> {
        let disk = self.disk.open().await;
        // A recovered state must be durable before anybody reads it.
        disk.flush().await.map_err(|error| Violation(error.to_string()))?;
        Ok(Bare { disk, lock: Rc::default(), flushes: self.flushes })
    }

    fn crash(&mut self, outage: Outage) {
        self.disk.crash(match outage {
            Outage::Kill => CrashKind::Kill,
            Outage::Power => CrashKind::Power,
        });
    }

    async fn disturb(&mut self, _: &Board) {}

    async fn settle(&mut self, _: &Board) -> Result<(), Violation> {
        Ok(())
    }

    fn describe(&self) -> String {
        String::new()
    }

    fn events(&self) -> &Events {
        self.disk.events()
    }
}

fn run(seed: u64, flushes: bool, how: Misbehaviour) -> Result<Story, Violation> {
    in_virtual_time(async {
        let env = Env::seeded(seed, Timestamp(0));
        let disk = SimDisk::new(512 << 10, env.next_u64(), &Events::default());
        disk.misbehave(how);
        let load = Rc::new(Load::draw(&env, 8, (512 << 10) / SECTOR));
        let board = Board::new(&env, load.sectors);
        let plan = Plan { lives: 4, ops: 60, disturbances: 0, power: true };
        live(&mut BareWorld { disk, flushes }, &board, &load, plan).await
    })
}

#[test]
fn bare_disk_keeps_the_promises() {
    for seed in 0..20 {
        let story = run(seed, true, Misbehaviour::default());
        assert!(
            story.as_ref().is_ok_and(|story| story.failed == 0 && story.ops > 0),
            "seed {seed}: {story:?}"
        );
    }
}

#[test]
fn same_seed_same_history() {
    let story = |seed| run(seed, true, Misbehaviour::default());
    assert_eq!(story(3), story(3));
    assert_ne!(story(3), story(4));
}

fn caught(flushes: bool, how: Misbehaviour) -> usize {
    (0..20).filter(|seed| run(*seed, flushes, how).is_err()).count()
}

#[test]
fn skipped_flushes_lost_writes_and_wrong_bits_are_caught() {
    assert!(caught(false, Misbehaviour::default()) > 0, "no flush");
    assert!(caught(true, Misbehaviour { lost_write_ppm: 20_000, ..Misbehaviour::default() }) > 0, "lost");
    assert!(
        caught(true, Misbehaviour { misdirected_write_ppm: 20_000, ..Misbehaviour::default() }) > 0,
        "elsewhere"
    );
    assert!(caught(true, Misbehaviour { read_flip_ppm: 20_000, ..Misbehaviour::default() }) > 0, "flipped");
}
