//! A machine of simulated disks and a cluster on it, in virtual time: disks are pulled, plugged in, copied; the process dies and
//! starts again.
use super::*;
use crate::cluster::core::{ClusterCore, Settings};
use crate::cluster::find;
use crate::cluster::handle::Core;
use crate::cluster::open::StartError;
use crate::cluster::source::DiskSource;
use crate::io::sim::{CrashKind, Events, SimDisk};
use crate::io::{Disk, Env, OpenError};
use model::units::Timestamp;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Bytes that a volume holds from the start.
pub const DATA_BYTES: usize = 64 << 10;

/// Simulated disks by path, those that are not plugged in, and the handles of the process that runs.
#[derive(Clone, Default)]
pub struct Machine(Rc<Shelf>);

#[derive(Default)]
struct Shelf {
    disks: RefCell<BTreeMap<PathBuf, SimDisk>>,
    away: RefCell<BTreeSet<PathBuf>>,
    open: RefCell<BTreeMap<PathBuf, Disk>>,
}

impl Machine {
    pub fn add(&self, path: &Path, disk: SimDisk) {
        self.0.disks.borrow_mut().insert(path.to_owned(), disk);
    }

    pub fn disk(&self, path: &Path) -> SimDisk {
        self.0.disks.borrow()[path].clone()
    }

    /// The disks that are plugged in.
    pub fn there(&self) -> Vec<(PathBuf, SimDisk)> {
        let (disks, away) = (self.0.disks.borrow(), self.0.away.borrow());
        let there = disks.iter().filter(|(path, _)| !away.contains(*path));
        there.map(|(path, disk)| (path.clone(), disk.clone())).collect()
    }

    pub fn pull(&self, path: &Path) {
        self.disk(path).pull();
        self.0.away.borrow_mut().insert(path.to_owned());
        self.0.open.borrow_mut().remove(path);
    }

    pub fn plug(&self, path: &Path) {
        self.0.away.borrow_mut().remove(path);
    }

    /// The process dies; what it had in flight may land.
    pub fn crash(&self) {
        self.0.open.borrow_mut().clear();
        self.0.disks.borrow().values().for_each(|disk| disk.crash(CrashKind::Kill));
    }
}

impl DiskSource for Machine {
    async fn open(&self, path: &Path, _writable: bool, _wait: Duration) -> Result<Disk, OpenError> {
        let there = self.there().into_iter().find(|(known, _)| known == path);
        let Some((_, disk)) = there else {
            return Err(OpenError::Open { path: path.into(), source: std::io::ErrorKind::NotFound.into() });
        };
        // A second handle of the same process must not end the first.
        let known = self.0.open.borrow().get(path).filter(|disk| !disk.faults().is_off()).cloned();
        let open = match known {
            Some(open) => open,
            None => disk.open().await,
        };
        self.0.open.borrow_mut().insert(path.into(), open.clone());
        Ok(open)
    }

    fn candidates(&self) -> Vec<find::Candidate> {
        let there = self.there().into_iter();
        there.map(|(path, _)| find::Candidate { path, mark: String::new() }).collect()
    }

    async fn peek(&self, path: &Path) -> find::Peek {
        let there = self.there().into_iter().find(|(known, _)| known == path);
        let Some((_, disk)) = there else { return find::Peek::NotThere };
        find::peek_in(disk.size_bytes(), |offset, block| {
            block.copy_from_slice(&disk.peek(offset, block.len()));
            true
        })
    }
}

pub type SimCore = Rc<ClusterCore<Machine>>;

/// A running cluster on a machine.
pub struct World {
    pub machine: Machine,
    pub core: SimCore,
    settings: Settings,
    seed: u64,
    tasks: u32,
    _folder: tempfile::TempDir,
}

impl World {
    /// Makes the cluster of a plan on disks of the planned sizes.
    pub async fn new(plan: ClusterPlan, seed: u64) -> Self {
        let machine = Machine::default();
        let events = Events::default();
        let planned = plan.claims.iter().flat_map(|claim| claim.cache.iter().chain(&claim.capacity));
        for (index, disk) in planned.enumerate() {
            let sim = SimDisk::new(disk.size_bytes, seed * 100 + index as u64, &events);
            machine.0.disks.borrow_mut().entry(PathBuf::from(&disk.path)).or_insert(sim);
        }
        let mut world = Self::start(machine, seed).await.expect("starts without a cluster");
        world.run(Intent::ConfigureCluster { plan }).await.expect("made");
        assert_eq!(world.core.take_snapshot().cluster.state, ClusterState::Ready);
        world
    }

    /// A process over the disks of a machine, in a folder of its own.
    pub async fn start(machine: Machine, seed: u64) -> Result<Self, StartError> {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = Settings::new(folder.path().to_owned());
        let env = Env::seeded(seed, Timestamp(0));
        let core = ClusterCore::start(machine.clone(), env, settings.clone()).await?;
        Ok(Self { machine, core, settings, seed, tasks: 0, _folder: folder })
    }

    /// Applies an intent and waits for the end of its task.
    pub async fn run(&mut self, intent: Intent) -> Result<(), String> {
        self.tasks += 1;
        let task = TaskId::from_random(id(7, self.tasks));
        let applied = self.core.apply(task, intent).await.map_err(|error| error.to_string())?;
        if applied.done {
            return Ok(());
        }
        self.until("the task", |core| core.board.task(task).is_some_and(|task| task.finished_at.is_some()))
            .await;
        self.core.board.task(task).and_then(|task| task.error).map_or(Ok(()), Err)
    }

    /// Lets virtual time pass until something holds.
    pub async fn until(&self, what: &str, holds: impl Fn(&SimCore) -> bool) {
        for _ in 0..60_000 {
            if holds(&self.core) {
                return;
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("{what} did not happen: {:#?}", self.core.take_snapshot());
    }

    /// Fills the beginning of a volume.
    pub async fn fill(&self, object: ObjectId, number: u8) {
        let owner = self.core.owner(object).expect("open");
        owner.write_bytes(0, &pattern(number, DATA_BYTES), false).await.expect("written");
        owner.flush().await.expect("flushed");
    }

    /// Makes a volume of 1 MiB and fills its beginning.
    pub async fn volume(&mut self, number: u8, policy: &str) -> ObjectId {
        let object = ObjectId::from_random(id(5, number.into()));
        let (name, policy) = (format!("v{number}"), Some(policy.to_owned()));
        self.run(Intent::CreateVolume { id: object, name, size_bytes: MIB, policy }).await.expect("made");
        self.fill(object, number).await;
        object
    }

    /// Whether the beginning of a volume can be read; a wrong byte is the end.
    pub async fn reads(&self, object: ObjectId, number: u8) -> bool {
        let Some(owner) = self.core.owner(object) else { return false };
        match tokio::time::timeout(PATIENCE, owner.read_bytes(0, DATA_BYTES as u64)).await {
            Ok(Ok(bytes)) => {
                assert_eq!(bytes, pattern(number, DATA_BYTES), "a wrong byte was read");
                true
            }
            _ => false,
        }
    }

    pub fn path(&self, disk: DiskId) -> PathBuf {
        self.core.state.borrow().disks[&disk].path.clone()
    }

    pub fn is_open(&self, disk: DiskId) -> bool {
        self.core.state.borrow().disks.get(&disk).is_some_and(|run| run.disk.is_some())
    }

    /// Pulls these disks at once, and waits until the engine has seen it: a log behind which a disk was pulled could vote until then.
    pub async fn pull(&self, lost: &BTreeSet<DiskId>) {
        lost.iter().for_each(|disk| self.machine.pull(&self.path(*disk)));
        self.until("the pulled disks are let go", |_| !lost.iter().any(|disk| self.is_open(*disk))).await;
    }

    /// Whether something was told of a disk.
    pub async fn told(&self, kind: &str, words: &str) -> bool {
        let told = self.core.board.wait(0, u64::MAX);
        let events = tokio::time::timeout(Duration::from_millis(1), told).await;
        events.is_ok_and(|batch| {
            batch.events.iter().any(|event| event.kind == kind && event.text.contains(words))
        })
    }

    /// The process dies.
    pub fn stop(&self) {
        for (dg, _) in self.core.directory.groups() {
            self.core.directory.remove_group(dg.group());
            dg.kill();
        }
        self.core.state.borrow_mut().stopping = true;
        self.machine.crash();
    }

    /// The process is dead and starts again with the disks that are there; whether it has a cluster that may be written.
    pub async fn restart(&mut self) -> bool {
        let env = Env::seeded(self.seed + 1, Timestamp(0));
        match ClusterCore::start(self.machine.clone(), env, self.settings.clone()).await {
            Ok(core) => {
                self.core = core;
                self.core.take_snapshot().cluster.state == ClusterState::Ready
            }
            Err(StartError::NoDisks { .. }) => false,
            Err(error) => panic!("{error}"),
        }
    }
}
