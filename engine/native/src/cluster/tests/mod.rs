//! A whole engine in a folder: a lab of files, clients over NBD, hosts that come and go.
use super::offline;
use super::start::Options;
use crate::cluster::handle::NativeEngine;
use crate::nbd::client::Client;
use model::engine::{Applied, Engine, EngineError, Fault, FaultTarget, Intent};
use model::ids::{ClusterId, DiskId, HostId, ObjectId, TaskId};
use model::plan::{ClusterPlan, PlannedDisk, PlannedGroup, PlannedHost};
use model::policy::Policy;
use model::state::{
    ClusterState, ClusterType, Compliance, ComponentState, HostKind, HostRole, Media, ObjectHealth, TaskState,
};
use model::view::{ObjectView, Snapshot};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

mod claims;
mod disks;
mod faults;
mod machine;

const MIB: u64 = 1 << 20;
/// Far above what anything here takes.
const PATIENCE: Duration = Duration::from_secs(60);

fn id(kind: u8, number: u32) -> [u8; 16] {
    let mut bytes = [kind; 16];
    bytes[..4].copy_from_slice(&number.to_be_bytes());
    bytes
}

/// A plan of `hosts` hosts with one cache disk and one capacity disk each, as files under `folder`.
fn plan(folder: &Path, hosts: u32, capacity_mib: u64) -> ClusterPlan {
    let host = |number: u32| PlannedHost {
        id: HostId::from_random(id(1, number)),
        name: format!("h{number}"),
        kind: HostKind::Lab,
        role: HostRole::Data,
    };
    let disk = |host: u32, name: &str, kind: u8, mib: u64| PlannedDisk {
        id: DiskId::from_random(id(kind, host)),
        name: format!("h{host}-{name}"),
        path: folder.join(format!("lab/h{host}/h{host}-{name}.img")).display().to_string(),
        size_bytes: mib * MIB,
        media: Media::Flash,
        make_file: true,
        erase: false,
        review: None,
    };
    let claim = |number: u32| PlannedGroup {
        host: host(number).id,
        cache_host: None,
        cache: Some(disk(number, "cache1", 2, 64)),
        capacity: vec![disk(number, "cap1", 3, capacity_mib)],
    };
    ClusterPlan {
        id: ClusterId::from_random(id(9, 1)),
        name: "lab".into(),
        cluster_type: ClusterType::SingleSite,
        hosts: (1..=hosts).map(host).collect(),
        fault_domains: Vec::new(),
        sites: Vec::new(),
        claims: (1..=hosts).map(claim).collect(),
        policies: vec![Policy::built_in()],
        default_policy: "default".into(),
        repair_delay_seconds: 3600,
        licence_key: None,
    }
}

struct Lab {
    folder: PathBuf,
    engine: NativeEngine,
    tasks: u32,
    _keep: tempfile::TempDir,
}

impl Lab {
    async fn new(hosts: u32, capacity_mib: u64) -> Self {
        let keep = tempfile::tempdir().expect("a folder");
        let folder = keep.path().to_owned();
        let engine = NativeEngine::start(Options::new(&folder)).expect("starts");
        let mut lab = Self { folder, engine, tasks: 0, _keep: keep };
        assert_eq!(lab.snapshot().await.cluster.state, ClusterState::Unconfigured);
        let plan = plan(&lab.folder, hosts, capacity_mib);
        lab.run(Intent::ConfigureCluster { plan }).await;
        assert_eq!(lab.snapshot().await.cluster.state, ClusterState::Ready);
        lab
    }

    async fn snapshot(&self) -> Arc<Snapshot> {
        self.engine.snapshot().await.expect("answers")
    }

    async fn apply(&mut self, intent: Intent) -> Result<Applied, EngineError> {
        self.tasks += 1;
        self.engine.apply(TaskId::from_random(id(7, self.tasks)), intent).await
    }

    /// Applies an intent and waits for its task.
    async fn run(&mut self, intent: Intent) {
        let applied = self.apply(intent).await.expect("accepted");
        if applied.done {
            return;
        }
        let task = TaskId::from_random(id(7, self.tasks));
        let snapshot = self
            .wait_for("the task", |snapshot| {
                snapshot.tasks.iter().any(|known| known.id == task && known.state != TaskState::Running)
            })
            .await;
        let task = snapshot.tasks.iter().find(|known| known.id == task).expect("listed").clone();
        assert_eq!((task.state, task.error), (TaskState::Succeeded, None));
    }

    async fn wait_for(&self, what: &str, holds: impl Fn(&Snapshot) -> bool) -> Arc<Snapshot> {
        let waiting = async {
            loop {
                let snapshot = self.snapshot().await;
                if holds(&snapshot) {
                    return snapshot;
                }
                let _ = self.engine.events(u64::MAX, snapshot.version).await;
            }
        };
        match tokio::time::timeout(PATIENCE, waiting).await {
            Ok(snapshot) => snapshot,
            Err(_) => panic!("{what} did not happen: {:#?}", self.snapshot().await),
        }
    }

    async fn create(
        &mut self,
        number: u32,
        name: &str,
        mib: u64,
        policy: Option<&str>,
    ) -> Result<Applied, EngineError> {
        let (id, name, policy) = (ObjectId::from_random(id(5, number)), name.into(), policy.map(Into::into));
        self.apply(Intent::CreateVolume { id, name, size_bytes: mib * MIB, policy }).await
    }

    async fn fault(&mut self, host: &str, fault: Fault) {
        self.run(Intent::InjectFault { target: FaultTarget::Host(host.into()), fault }).await;
    }

    async fn volume(&self, name: &str) -> Arc<ObjectView> {
        find(&*self.snapshot().await, name).clone()
    }

    async fn wait_health(&self, name: &str, health: ObjectHealth) -> Arc<ObjectView> {
        let what = format!("{name} {health:?}");
        let snapshot = self.wait_for(&what, |snapshot| find(snapshot, name).health == health).await;
        find(&snapshot, name).clone()
    }

    async fn client(&self, name: &str) -> Client {
        Client::connect(&self.folder.join("nbd.sock"), name).await.expect("served")
    }

    async fn restart(&mut self) {
        self.engine.shutdown().await.expect("stops");
        let options = Options::new(&self.folder);
        self.engine = NativeEngine::start(options).expect("starts again");
    }
}

fn find<'a>(snapshot: &'a Snapshot, name: &str) -> &'a Arc<ObjectView> {
    snapshot.objects.iter().find(|object| object.name == name).unwrap_or_else(|| panic!("no volume {name}"))
}

/// Hosts of data components, hosts of witnesses.
fn hosts_of(object: &ObjectView) -> (Vec<String>, Vec<String>) {
    let leaves = object.tree.leaves();
    let of =
        |witness| leaves.iter().filter(|(_, is)| *is == witness).map(|(leaf, _)| leaf.host.clone()).collect();
    (of(false), of(true))
}

fn pattern(seed: u8, len: usize) -> Vec<u8> {
    (0..len).map(|index| (index as u8).wrapping_mul(31).wrapping_add(seed)).collect()
}

#[tokio::test]
async fn a_mirror_outlives_a_host_and_catches_up() {
    let mut lab = Lab::new(3, 128).await;
    lab.create(1, "db", 32, None).await.expect("made");
    let made = lab.volume("db").await;
    assert_eq!(
        (made.health, made.compliance, made.tolerates_now),
        (ObjectHealth::Healthy, Compliance::Compliant, 1)
    );
    let (data, _) = hosts_of(&made);
    let client = lab.client("db").await;
    client.write(0, &pattern(1, 1 << 20), false).await.expect("written");
    lab.fault(&data[1], Fault::PowerOff).await;
    let waiting = lab.wait_health("db", ObjectHealth::ReducedWaiting).await;
    assert!(waiting.accessible && waiting.repair_at.is_some());
    client.write(1 << 20, &pattern(2, 1 << 20), true).await.expect("goes on");
    client.write(4096, &pattern(3, 8192), true).await.expect("goes on");
    lab.fault(&data[1], Fault::PowerOn).await;
    let healed = lab.wait_health("db", ObjectHealth::Healthy).await;
    assert!(healed.tree.leaves().iter().all(|(leaf, _)| leaf.state == ComponentState::Active));
    // The returned copy alone must have everything.
    lab.fault(&data[0], Fault::PowerOff).await;
    lab.wait_health("db", ObjectHealth::ReducedWaiting).await;
    let mut expected = pattern(1, 1 << 20);
    expected[4096..4096 + 8192].copy_from_slice(&pattern(3, 8192));
    assert_eq!(client.read(0, 1 << 20).await.expect("readable"), expected);
    assert_eq!(client.read(1 << 20, 1 << 20).await.expect("readable"), pattern(2, 1 << 20));
    lab.engine.shutdown().await.expect("stops");
}

#[tokio::test]
async fn everything_is_back_after_a_restart_and_after_an_import() {
    let mut lab = Lab::new(3, 128).await;
    lab.create(1, "db", 16, None).await.expect("made");
    let gold = Policy { name: "gold".into(), failures_to_tolerate: 0, ..Policy::built_in() };
    lab.run(Intent::PutPolicy { policy: gold, expected_version: None, apply_now: false }).await;
    lab.client("db").await.write(0, &pattern(9, 65536), true).await.expect("written");
    lab.restart().await;
    let snapshot = lab.snapshot().await;
    assert_eq!(snapshot.policies.len(), 2);
    assert_eq!(find(&snapshot, "db").health, ObjectHealth::Healthy);
    assert_eq!(lab.client("db").await.read(0, 65536).await.expect("readable"), pattern(9, 65536));
    lab.engine.shutdown().await.expect("stops");
    let fresh = tempfile::tempdir().expect("a folder");
    let paths = [lab.folder.join("lab")];
    let folder = fresh.path().to_owned();
    let imported =
        tokio::task::spawn_blocking(move || offline::import(&folder, &paths, None).map(|found| found.0));
    assert_eq!(imported.await.expect("no panic").expect("imported"), "lab");
    let engine = NativeEngine::start(Options::new(fresh.path())).expect("starts");
    let snapshot = engine.snapshot().await.expect("answers");
    assert_eq!(find(&snapshot, "db").health, ObjectHealth::Healthy);
    let client = Client::connect(&fresh.path().join("nbd.sock"), "db").await.expect("served");
    assert_eq!(client.read(0, 65536).await.expect("readable"), pattern(9, 65536));
    engine.shutdown().await.expect("stops");
}

#[tokio::test]
async fn a_copy_is_rebuilt_elsewhere_when_there_is_a_spare_host() {
    let mut lab = Lab::new(4, 128).await;
    lab.create(1, "db", 16, None).await.expect("made");
    let (data, _) = hosts_of(&*lab.volume("db").await);
    lab.client("db").await.write(0, &pattern(4, 1 << 20), true).await.expect("written");
    lab.fault(&data[0], Fault::PowerOff).await;
    lab.wait_health("db", ObjectHealth::ReducedWaiting).await;
    lab.run(Intent::RepairNow { object: None }).await;
    let healed = lab.wait_health("db", ObjectHealth::Healthy).await;
    let (now, _) = hosts_of(&healed);
    assert!(!now.contains(&data[0]), "{now:?}");
    lab.fault(&data[1], Fault::PowerOff).await;
    let client = lab.client("db").await;
    assert_eq!(client.read(0, 1 << 20).await.expect("readable"), pattern(4, 1 << 20));
    lab.engine.shutdown().await.expect("stops");
}

#[tokio::test]
async fn a3_without_a_spare_host_nothing_is_rebuilt_and_the_numbers_are_said() {
    let mut lab = Lab::new(3, 128).await;
    lab.create(1, "db", 16, None).await.expect("made");
    let (data, _) = hosts_of(&*lab.volume("db").await);
    lab.fault(&data[0], Fault::PowerOff).await;
    lab.run(Intent::RepairNow { object: None }).await;
    let stuck = lab.wait_health("db", ObjectHealth::ReducedCannotRebuild).await;
    assert_eq!(stuck.compliance, Compliance::NonCompliant);
    assert_eq!(stuck.reason.as_deref(), Some("cannot rebuild: needs 3 fault domains, 2 available"));
    lab.fault(&data[0], Fault::PowerOn).await;
    lab.wait_health("db", ObjectHealth::Healthy).await;
    lab.engine.shutdown().await.expect("stops");
}

#[tokio::test]
async fn policies_and_volumes_keep_their_rules() {
    let mut lab = Lab::new(5, 128).await;
    assert!(matches!(lab.create(1, "../x", 16, None).await, Err(EngineError::Invalid { .. })));
    assert!(matches!(lab.create(1, "x", 0, None).await, Err(EngineError::Invalid { .. })));
    lab.create(1, "db", 16, None).await.expect("made");
    assert!(matches!(lab.create(2, "db", 16, None).await, Err(EngineError::NameTaken { .. })));
    let three = Policy { name: "three".into(), failures_to_tolerate: 3, ..Policy::built_in() };
    lab.run(Intent::PutPolicy { policy: three, expected_version: None, apply_now: false }).await;
    let refused = lab.create(3, "wide", 16, Some("three")).await;
    let Err(EngineError::Unplaceable(refusal)) = refused else { panic!("{refused:?}") };
    assert_eq!(refusal.summary, "needs 7 fault domains, 5 available");
    // An edit between mirror levels reaches the volume.
    lab.client("db").await.write(0, &pattern(6, 1 << 20), true).await.expect("written");
    let two = Policy { failures_to_tolerate: 2, ..Policy::built_in() };
    lab.run(Intent::PutPolicy { policy: two.clone(), expected_version: Some(1), apply_now: false }).await;
    assert_eq!(lab.volume("db").await.compliance, Compliance::OutOfDate);
    let stale =
        lab.apply(Intent::PutPolicy { policy: two, expected_version: Some(1), apply_now: false }).await;
    assert!(matches!(stale, Err(EngineError::StaleVersion { .. })));
    let id = lab.volume("db").await.uuid;
    lab.run(Intent::ApplyPolicy { id, expected_csn: None, policy: None }).await;
    let grown = lab.volume("db").await;
    let (data, witnesses) = hosts_of(&grown);
    assert_eq!((data.len(), witnesses.len(), grown.tolerates_now), (3, 2, 2));
    assert_eq!((grown.health, grown.compliance), (ObjectHealth::Healthy, Compliance::Compliant));
    for host in &data[..2] {
        lab.fault(host, Fault::PowerOff).await;
    }
    let client = lab.client("db").await;
    assert_eq!(client.read(0, 1 << 20).await.expect("readable"), pattern(6, 1 << 20));
    for host in &data[..2] {
        lab.fault(host, Fault::PowerOn).await;
    }
    lab.wait_health("db", ObjectHealth::Healthy).await;
    let one = Policy { failures_to_tolerate: 1, ..Policy::built_in() };
    lab.run(Intent::PutPolicy { policy: one, expected_version: Some(2), apply_now: true }).await;
    let (data, witnesses) = hosts_of(&*lab.volume("db").await);
    assert_eq!((data.len(), witnesses.len()), (2, 1));
    lab.run(Intent::GrowVolume { id, size_bytes: 32 * MIB }).await;
    assert_eq!(lab.volume("db").await.size_bytes, 32 * MIB);
    let used = lab.apply(Intent::DeletePolicy { name: "default".into() }).await;
    assert!(matches!(used, Err(EngineError::Conflict { .. })));
    lab.run(Intent::DeletePolicy { name: "three".into() }).await;
    lab.run(Intent::DeleteVolume { id }).await;
    assert!(lab.snapshot().await.objects.is_empty());
    lab.engine.shutdown().await.expect("stops");
}
