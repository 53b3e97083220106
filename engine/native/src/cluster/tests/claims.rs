//! Claims against the engine: what `model::claims` says about a division happens when the same disks are lost in virtual time.
//!
//! For every single and every double loss a cluster is made on simulated disks, with a volume of each layout that the claim
//! was drawn from; the parts are lost at once; volumes are written and read; then the process dies, starts without what is lost,
//! and is read again. The claim and what happened must be the same, volume by volume, in both directions.
use super::*;
use crate::cap::Content;
use crate::cap::label::Label;
use crate::cluster::core::{ClusterCore, Settings};
use crate::cluster::find;
use crate::cluster::handle::Core;
use crate::cluster::source::DiskSource;
use crate::dg::{Dg, DgConfig, DgParts};
use crate::io::sim::{CrashKind, Events, SimDisk};
use crate::io::{Disk, Env, OpenError};
use model::claims::{Claim, Division, Fate, layouts, verdict};
use model::ids::{ComponentId, DiskGroupId};
use model::placement::{Placement, PlannedLeg};
use model::units::Timestamp;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

mod shapes;

use shapes::{SHAPES, Shape, division, path_of, plan_of, policy};

/// Bytes that each volume holds before anything is lost.
const DATA_BYTES: usize = 64 << 10;
/// Where it is written after the loss.
const LATER: u64 = 512 << 10;

/// Simulated disks by path, and those that are not there.
#[derive(Clone)]
struct SimSource(Rc<Machine>);

/// What [`SimSource`] shares: the disks, those that are not there, and the handles of the process that runs.
type Machine = (BTreeMap<PathBuf, SimDisk>, RefCell<BTreeSet<PathBuf>>, RefCell<BTreeMap<PathBuf, Disk>>);

impl DiskSource for SimSource {
    async fn open(&self, path: &Path, _writable: bool, _wait: Duration) -> Result<Disk, OpenError> {
        let there = self.0.0.get(path).filter(|_| !self.0.1.borrow().contains(path));
        match there {
            Some(disk) => {
                // A second handle of the same process must not end the first.
                let known = self.0.2.borrow().get(path).cloned();
                let open = match known {
                    Some(open) => open,
                    None => disk.open().await,
                };
                self.0.2.borrow_mut().insert(path.into(), open.clone());
                Ok(open)
            }
            None => Err(OpenError::Open { path: path.into(), source: std::io::ErrorKind::NotFound.into() }),
        }
    }

    fn candidates(&self) -> Vec<find::Candidate> {
        Vec::new()
    }

    async fn peek(&self, _path: &Path) -> find::Peek {
        find::Peek::Unreadable
    }
}

type SimCore = Rc<ClusterCore<SimSource>>;

/// A cluster on simulated disks.
struct World {
    source: SimSource,
    settings: Settings,
    seed: u64,
    core: SimCore,
    _folder: tempfile::TempDir,
}

impl World {
    async fn new(division: &Division, policies: &[Policy], seed: u64) -> Self {
        let events = Events::default();
        let disks = division.members.iter().enumerate().map(|(index, member)| {
            (path_of(member), SimDisk::new(member.size_bytes, seed * 100 + index as u64, &events))
        });
        let source = SimSource(Rc::new((disks.collect(), RefCell::default(), RefCell::default())));
        let folder = tempfile::tempdir().expect("a folder");
        let settings = Settings::new(folder.path().to_owned());
        let core = start(&source, &settings, seed).await;
        let task = TaskId::from_random(id(7, 1));
        let plan = plan_of(division, policies);
        core.apply(task, Intent::ConfigureCluster { plan }).await.expect("accepted");
        for _ in 0..10_000 {
            if core.take_snapshot().cluster.state == ClusterState::Ready {
                return Self { source, settings, seed, core, _folder: folder };
            }
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
        panic!("the cluster was not made: {:#?}", core.take_snapshot().tasks);
    }

    /// Makes a volume where a placement says, and fills its beginning.
    async fn volume(&self, number: u32, policy: &Policy, placement: &Placement) -> ObjectId {
        let object = ObjectId::from_random(id(5, number));
        let made = self.core.make_placed(object, &format!("v{number}"), MIB, policy.clone(), placement).await;
        made.expect("made");
        let owner = self.core.owner(object).expect("open");
        owner.write_bytes(0, &pattern(number as u8, DATA_BYTES), false).await.expect("written");
        owner.flush().await.expect("flushed");
        object
    }

    /// From now on every I/O of these disks fails.
    fn lose(&self, lost: &BTreeSet<DiskId>) {
        let state = self.core.state.borrow();
        for run in lost.iter().filter_map(|disk| state.disks.get(disk)) {
            run.disk.as_ref().expect("open").faults().set_failing(true);
            self.source.0.1.borrow_mut().insert(run.path.clone());
        }
    }

    /// The process dies and starts again, without what is lost.
    async fn restart(&mut self) {
        self.stop();
        self.core = start(&self.source, &self.settings, self.seed + 1).await;
    }

    fn stop(&self) {
        for (dg, _) in self.core.directory.groups() {
            self.core.directory.remove_group(dg.group());
            dg.kill();
        }
        self.core.state.borrow_mut().stopping = true;
        self.source.0.2.borrow_mut().clear();
        self.source.0.0.values().for_each(|disk| disk.crash(CrashKind::Kill));
    }
}

async fn start(source: &SimSource, settings: &Settings, seed: u64) -> SimCore {
    let env = Env::seeded(seed, Timestamp(0));
    ClusterCore::start(source.clone(), env, settings.clone()).await.expect("starts")
}

/// Whether a volume can be read, with the right bytes; and written, when `write`.
async fn goes_on(core: &SimCore, object: ObjectId, number: u32, write: bool) -> bool {
    let Some(owner) = core.owner(object) else { return false };
    let later = pattern(number as u8 + 100, 8192);
    if write
        && !matches!(tokio::time::timeout(PATIENCE, owner.write_bytes(LATER, &later, true)).await, Ok(Ok(())))
    {
        return false;
    }
    let read = async {
        Ok::<_, crate::obj::ObjError>((
            owner.read_bytes(0, DATA_BYTES as u64).await?,
            owner.read_bytes(LATER, 8192).await?,
        ))
    };
    match tokio::time::timeout(PATIENCE, read).await {
        Ok(Ok(bytes)) => {
            assert_eq!(bytes, (pattern(number as u8, DATA_BYTES), later), "a wrong byte was read");
            true
        }
        _ => false,
    }
}

/// Components that can be read with the right bytes on what is left, without asking the cluster: groups of which log and disk are
/// both there are opened on their own.
async fn survivors(world: &World, objects: &BTreeMap<ObjectId, u32>) -> BTreeSet<ComponentId> {
    let mut labels: BTreeMap<DiskId, Label> = BTreeMap::new();
    for (path, disk) in &world.source.0.0 {
        if !world.source.0.1.borrow().contains(path) {
            let label = Label::load(disk.open().await).await.expect("a label");
            let disk = label.superblock().disk;
            labels.insert(disk, label);
        }
    }
    let mut found: BTreeMap<DiskGroupId, (DiskId, BTreeSet<DiskId>)> = BTreeMap::new();
    for label in labels.values() {
        for group in &label.superblock().groups {
            let members = group.members.iter().map(|member| member.disk);
            found.entry(group.group).or_insert((group.log_disk, BTreeSet::new())).1.extend(members);
        }
    }
    let mut readable = BTreeSet::new();
    for (group, (log, members)) in found {
        let caps: Vec<Label> = members.iter().filter_map(|disk| labels.get(disk).cloned()).collect();
        let Some(log) = labels.get(&log).cloned().filter(|_| !caps.is_empty()) else { continue };
        let Ok(dg) = Dg::open(DgParts { group, log, caps, epoch: 1000 }, DgConfig::default()).await else {
            continue;
        };
        for component in dg.components() {
            let Some(number) = objects.get(&component.object).filter(|_| component.size_blocks > 0) else {
                continue;
            };
            let runs = dg.read(component.local, 0, (DATA_BYTES / 4096) as u32).await.unwrap_or_default();
            let bytes: Vec<u8> = runs
                .iter()
                .flat_map(|run| match &run.content {
                    Content::Data { buf, .. } => buf.as_slice().to_vec(),
                    _ => Vec::new(),
                })
                .collect();
            if bytes == pattern(*number as u8, DATA_BYTES) {
                readable.insert(component.component);
            }
        }
        dg.kill();
    }
    readable
}

/// Loses the parts of one claim in a fresh cluster and compares what happens with what was claimed.
async fn judge(
    shape: &Shape,
    division: &Division,
    policy: &Policy,
    claim: &Claim,
    lost: &BTreeSet<DiskId>,
    seed: u64,
) {
    let gone = division.gone_with(lost);
    let what = format!("{} under {}, {lost:?} lost (seed {seed})", shape.name, policy.name);
    let mut world = World::new(division, std::slice::from_ref(policy), seed).await;
    let layouts = layouts(&division.topology(), policy, &gone);
    let mut volumes = Vec::new();
    for (number, (fate, placement)) in layouts.iter().enumerate() {
        let number = number as u32 + 1;
        let object = world.volume(number, policy, placement).await;
        let descriptor = world.core.owner(object).expect("open").descriptor();
        let data: Vec<ComponentId> = descriptor.layout.legs().into_iter().map(|leg| leg.component).collect();
        let touched = placement
            .legs()
            .into_iter()
            .chain(&placement.witnesses)
            .any(|leg: &PlannedLeg| gone.contains(&leg.disk));
        volumes.push((number, object, *fate, data, touched));
    }
    world.lose(lost);
    let mut live = BTreeMap::new();
    for (number, object, ..) in &volumes {
        live.insert(*object, goes_on(&world.core, *object, *number, true).await);
    }
    world.stop();
    let numbers = volumes.iter().map(|(number, object, ..)| (*object, *number)).collect();
    let readable = survivors(&world, &numbers).await;
    let mut happened = BTreeSet::new();
    for (number, object, claimed, data, touched) in &volumes {
        let real = match (live[object], touched, data.iter().any(|component| readable.contains(component))) {
            (true, false, _) => Fate::Available,
            (true, true, _) => Fate::Reduced,
            (false, _, true) => Fate::Unavailable,
            (false, _, false) => Fate::Lost,
        };
        assert_eq!(real, *claimed, "{what}: volume {number}");
        happened.insert(real);
    }
    assert_eq!(happened, claim.fates, "{what}");
    world.restart().await;
    let ready = world.core.take_snapshot().cluster.state == ClusterState::Ready;
    assert_eq!(ready, claim.restarts, "{what}: whether it starts again");
    for (number, object, claimed, ..) in volumes {
        let again = goes_on(&world.core, object, number, false).await;
        assert_eq!(again, ready && claimed.goes_on(), "{what}: volume {number} after a restart");
    }
    world.stop();
}

async fn check(shape: &Shape, failures: u8) -> (usize, usize) {
    let (division, policy) = (division(shape), policy(failures));
    let verdict = verdict(&division, &policy, true);
    let claims: Vec<&Claim> = verdict.singles.iter().chain(&verdict.doubles).collect();
    for (index, claim) in claims.iter().enumerate() {
        let lost = claim.lost.iter().flat_map(|part| verdict.parts[*part].disks.iter().copied()).collect();
        judge(shape, &division, &policy, claim, &lost, index as u64 + 1).await;
    }
    (claims.len(), claims.iter().filter(|claim| claim.worst().goes_on()).count())
}

/// Losses that are judged, and of these that are survived, must be as many as in the table: else the test would pass on nothing.
async fn run(shape: usize, failures: u8, expected: (usize, usize)) {
    let local = tokio::task::LocalSet::new();
    let counted = local.run_until(check(&SHAPES[shape], failures)).await;
    assert_eq!(counted, expected, "{} under {failures}", SHAPES[shape].name);
}

#[tokio::test(start_paused = true)]
async fn three_equal_disks_do_as_claimed() {
    run(0, 1, (6, 3)).await;
    run(0, 0, (6, 0)).await;
}

#[tokio::test(start_paused = true)]
async fn slices_of_one_cache_disk_do_as_claimed() {
    run(1, 1, (10, 3)).await;
}

#[tokio::test(start_paused = true)]
async fn two_controllers_do_as_claimed() {
    run(2, 1, (4 + 2 + 11, 4)).await;
}

#[tokio::test(start_paused = true)]
async fn five_unequal_disks_do_as_claimed() {
    run(4, 1, (15, 5)).await;
    run(4, 2, (15, 15)).await;
}

#[tokio::test(start_paused = true)]
async fn domains_with_cache_disks_do_as_claimed() {
    let local = tokio::task::LocalSet::new();
    let (judged, survived) = local.run_until(check(&SHAPES[5], 1)).await;
    assert!(judged > 60 && survived >= 13, "{judged}, {survived}");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_placed_is_refused_by_both() {
    let division = division(&SHAPES[3]);
    let said = verdict(&division, &policy(1), true);
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            let world = World::new(&division, &[policy(1)], 1).await;
            let intent = Intent::CreateVolume {
                id: ObjectId::from_random(id(5, 1)),
                name: "v".into(),
                size_bytes: MIB,
                policy: Some("ftt1".into()),
            };
            let refused = world.core.apply(TaskId::from_random(id(7, 2)), intent).await;
            let Err(EngineError::Unplaceable(refusal)) = refused else { panic!("{refused:?}") };
            assert_eq!(said.refusal, Some(refusal.summary));
            world.stop();
            assert_eq!(check(&SHAPES[3], 0).await, (3, 0));
        })
        .await;
}

/// Writes until nothing more fits; what fits is the yield, no less than claimed and hardly more.
async fn fill(shape: &Shape, failures: u8) {
    let (division, policy) = (division(shape), policy(failures));
    let claimed = verdict(&division, &policy, false).usable.usable_bytes;
    let world = World::new(&division, std::slice::from_ref(&policy), 1).await;
    let mut open = Vec::new();
    for number in 1..=8u32 {
        let object = ObjectId::from_random(id(5, number));
        let (name, policy) = (format!("v{number}"), Some(policy.name.clone()));
        let intent = Intent::CreateVolume { id: object, name, size_bytes: 200 * MIB, policy };
        world.core.apply(TaskId::from_random(id(8, number)), intent).await.expect("thin");
        open.push((object, 0));
    }
    let mut written = 0;
    let block = pattern(7, MIB as usize);
    while !open.is_empty() {
        let mut still = Vec::new();
        for (object, at) in open {
            let owner = world.core.owner(object).expect("open");
            if at < 200 && owner.write_bytes(at * MIB, &block, false).await.is_ok() {
                written += MIB;
                still.push((object, at + 1));
            }
        }
        open = still;
    }
    assert!(written + 3 * MIB >= claimed, "{}: {written} of {claimed} claimed", shape.name);
    assert!(written <= claimed + claimed / 20, "{}: {written}, only {claimed} claimed", shape.name);
    world.stop();
}

#[tokio::test(start_paused = true)]
async fn yields_are_what_can_be_written() {
    let local = tokio::task::LocalSet::new();
    local.run_until(fill(&SHAPES[0], 1)).await;
}
