//! The boundary that every engine implements: native, Ceph, recorded.
//!
//! The server sends intents and reads snapshots; it never tells an engine a fact that the engine already holds.
//! Architecture invariant: every argument and result is plain data that serde can carry, in the console's own terms. No
//! path of the data plane, socket, extent or placement group crosses, so an engine can move to its own process.
//! What an engine cannot do is absent from its [`Capabilities`] and refused by name, never faked. (On Ceph a volume is an
//! RBD image, a policy a pool with its rule, a component a shard of a placement group: the trait says "volume", "policy"
//! and "component" only; inventory, host and disk actions need an orchestrator there, so each is a capability of its own.)
use crate::ids::{ClusterId, DiskId, ObjectId, TaskId};
use crate::placement::Refusal;
use crate::plan::{ClusterPlan, PlannedDisk, PlannedGroup, PlannedHost};
use crate::policy::Policy;
use crate::view::{Event, FaultDomainView, Snapshot};
use crate::what_if::{Answer, Question};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;
use std::sync::Arc;

/// A boxed future, because `dyn` traits cannot yet have `async fn`.
pub type EngineFuture<'a, T> = std::pin::Pin<Box<dyn Future<Output = Result<T, EngineError>> + Send + 'a>>;

/// Which engine it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum EngineKind {
    /// Embedded, one machine.
    Native,
    /// An existing Ceph cluster.
    Ceph,
    /// A recording, read-only.
    Recorded,
}

/// What this engine can do, by name: `raid1`, `raid5`, `raid6`, `stripe`, `sites`, `snapshots`, `maintenance`, `faults`,
/// `compression`, `encryption`, `resync-limit`, `import`, `two-node`, `stretched`, … A name that is absent is a
/// `false` with the general sentence.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Capabilities {
    /// Which engine.
    pub engine: EngineKind,
    /// Name → whether it can, and if not, why and what would.
    pub features: BTreeMap<String, Capability>,
}

/// One capability.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Capability {
    /// Can it?
    pub available: bool,
    /// If not: one sentence that says what is missing.
    pub why_not: Option<String>,
}

impl Capabilities {
    /// Whether the engine can do `name`.
    pub fn can(&self, name: &str) -> bool {
        self.features.get(name).is_some_and(|feature| feature.available)
    }
}

/// What a person wants. Every intent is idempotent under the task id it is applied with.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "intent", rename_all = "kebab-case")]
#[allow(clippy::large_enum_variant, reason = "intents are rare and short-lived")]
pub enum Intent {
    /// Make the cluster. Runs as a task.
    ConfigureCluster {
        /// The whole plan.
        plan: ClusterPlan,
    },
    /// Take over the cluster that lies on disks of this machine. Runs as a task.
    ImportCluster {
        /// Which, as the look at the disks found it.
        cluster: ClusterId,
        /// Absolute paths of its disks.
        paths: Vec<String>,
    },
    /// Add disk groups to a configured cluster. Runs as a task.
    AddClaims {
        /// Hosts that are new with them.
        hosts: Vec<PlannedHost>,
        /// The groups.
        claims: Vec<PlannedGroup>,
    },
    /// Put a new disk in the place of one that is absent or failed: into its group, or as a group of its own where the lost one
    /// was that. What the lost one carried is rebuilt, then it is forgotten. Runs as a task.
    ReplaceDisk {
        /// The lost one.
        lost: DiskId,
        /// The new one.
        by: PlannedDisk,
    },
    /// Change settings of the cluster; what is `None` stays.
    UpdateCluster {
        /// New name.
        name: Option<String>,
        /// New default policy, by name.
        default_policy: Option<String>,
        /// New repair delay.
        repair_delay_seconds: Option<u32>,
    },
    /// Replace the named fault domains.
    SetFaultDomains {
        /// All of them.
        fault_domains: Vec<FaultDomainView>,
    },
    /// Add a policy, or replace the one of that name when its version is `expected_version`.
    PutPolicy {
        /// The policy; its `version` is set by the engine.
        policy: Policy,
        /// `None` to add.
        expected_version: Option<u64>,
        /// Whether volumes follow now (a task) or become out of date.
        apply_now: bool,
    },
    /// Delete a policy that no volume uses.
    DeletePolicy {
        /// Its name.
        name: String,
    },
    /// Make a volume. Done when `apply` returns.
    CreateVolume {
        /// Identity, minted by the server.
        id: ObjectId,
        /// Name.
        name: String,
        /// Size, a multiple of 4096.
        size_bytes: u64,
        /// Policy by name; `None` is the default policy.
        policy: Option<String>,
    },
    /// Grow a volume. Done when `apply` returns.
    GrowVolume {
        /// Which.
        id: ObjectId,
        /// New size, not smaller than now.
        size_bytes: u64,
    },
    /// Delete a volume and its data. Done when `apply` returns.
    DeleteVolume {
        /// Which.
        id: ObjectId,
    },
    /// Give a volume another policy, or apply the edited one again (`policy: None`). Runs as a task.
    ApplyPolicy {
        /// Which.
        id: ObjectId,
        /// The descriptor that the intent was based on; `None` takes the present one.
        expected_csn: Option<(u64, u64)>,
        /// Policy by name; `None`: the one it has.
        policy: Option<String>,
    },
    /// Do not wait for the repair timer.
    RepairNow {
        /// Only this object; `None` is all.
        object: Option<ObjectId>,
    },
    /// Limit resync, `None` lifts the limit.
    SetResyncLimit {
        /// Bytes a second over the cluster.
        limit_bytes_per_second: Option<u64>,
    },
    /// Store a licence key that the server verified; `None` goes back to Community.
    SetLicence {
        /// The key.
        key: Option<String>,
    },
    /// Break or heal something in a lab. Done when `apply` returns; kept until healed, over restarts too.
    InjectFault {
        /// What.
        target: FaultTarget,
        /// How.
        fault: Fault,
    },
    /// Verify every byte of every copy in the background.
    Scrub,
}

/// What a fault hits.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultTarget {
    /// A host by name.
    Host(String),
    /// All hosts of a fault domain by name.
    FaultDomain(String),
    /// All hosts of a site by name.
    Site(String),
    /// A disk by id.
    Disk(DiskId),
}

/// A fault of a lab.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(tag = "fault", rename_all = "kebab-case")]
pub enum Fault {
    /// Like kill -9 of the host.
    PowerOff,
    /// The host comes back.
    PowerOn,
    /// Every I/O takes so much longer.
    Slow {
        /// Added latency; `None` takes 200 ms.
        latency_ms: Option<u32>,
    },
    /// The host cannot talk to these hosts.
    Partition {
        /// Host names.
        from: Vec<String>,
    },
    /// Every I/O of the disk fails.
    Fail,
    /// Flips bytes on the disk.
    Corrupt {
        /// In a component of this object; `None` takes any.
        object: Option<ObjectId>,
        /// From this offset of the object.
        offset_bytes: Option<u64>,
        /// So many bytes.
        length_bytes: Option<u64>,
    },
    /// The disk says that it has no room.
    Full,
    /// Undo every fault of the target.
    Heal,
}

/// What `apply` says when it has accepted an intent.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Applied {
    /// True when all is done; false: follow the task in the snapshot.
    pub done: bool,
    /// What was done, in words, one entry each (faults say what was flipped).
    pub applied: Vec<String>,
    /// What the person should know although it worked.
    pub warnings: Vec<String>,
}

/// Events newer than those the reader knows.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct EventBatch {
    /// True: some were dropped; take a new snapshot.
    pub gap: bool,
    /// In order.
    pub events: Vec<Event>,
    /// The snapshot version when the batch was made: if it is newer than the reader's, something changed.
    pub version: u64,
}

/// How a client reaches a volume.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Attach {
    /// NBD over the unix socket.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nbd_unix_uri: Option<String>,
    /// NBD over TCP.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nbd_uri: Option<String>,
    /// RBD.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub rbd: Option<String>,
}

/// Counters since the engine started, of one entity (`cluster`, `host:N`, `disk:ID`, `volume:N`).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Counters {
    /// Reads done.
    pub reads: u64,
    /// Writes done.
    pub writes: u64,
    /// Bytes read.
    pub read_bytes: u64,
    /// Bytes written.
    pub written_bytes: u64,
    /// Sum of read latencies, microseconds.
    pub read_latency_us_total: u64,
    /// Sum of write latencies, microseconds.
    pub write_latency_us_total: u64,
    /// I/Os under way now.
    pub outstanding: u64,
    /// Bytes moved by resync.
    pub resync_bytes: u64,
}

/// Why an engine refused or failed. The variants are what a caller can act on; `Display` is safe text with the remedy.
#[derive(Clone, Debug, PartialEq, thiserror::Error, Serialize, Deserialize)]
#[serde(tag = "error", rename_all = "kebab-case")]
#[non_exhaustive]
pub enum EngineError {
    /// No such thing.
    #[error("{what} does not exist")]
    NotFound {
        /// E.g. `volume "db"`.
        what: String,
    },
    /// The name is taken.
    #[error("{what} exists already; choose another name")]
    NameTaken {
        /// E.g. `volume "db"`.
        what: String,
    },
    /// It cannot be placed; the refusal has the numbers.
    #[error("{0}")]
    Unplaceable(Refusal),
    /// Something uses it.
    #[error("{what} is in use by {users}")]
    InUse {
        /// What.
        what: String,
        /// Who, by name.
        users: String,
    },
    /// Somebody changed it meanwhile.
    #[error("{what} was changed meanwhile (now version {current}); look at it again and repeat")]
    StaleVersion {
        /// What.
        what: String,
        /// The version now.
        current: String,
    },
    /// This engine or this release cannot do it.
    #[error("{text}")]
    Unsupported {
        /// Name of the capability.
        capability: String,
        /// One sentence.
        text: String,
    },
    /// A value is wrong.
    #[error("{field}: {detail}")]
    Invalid {
        /// Name of the field in the API.
        field: String,
        /// One sentence.
        detail: String,
    },
    /// It cannot be done in this state.
    #[error("{detail}")]
    Conflict {
        /// One sentence with the remedy.
        detail: String,
    },
    /// The engine is not there or failed; the outcome is unknown.
    #[error("the engine is unavailable: {detail}")]
    Unavailable {
        /// Safe text.
        detail: String,
    },
}

/// A storage engine, as the console sees it.
pub trait Engine: Send + Sync + 'static {
    /// What it can do. Cheap, constant during a run.
    fn capabilities(&self) -> Capabilities;

    /// The whole truth now: pointers are cloned, nothing is computed.
    fn snapshot(&self) -> EngineFuture<'_, Arc<Snapshot>>;

    /// Waits until there is an event after `seq`, or the snapshot is newer than `version`; then answers.
    fn events(&self, seq: u64, version: u64) -> EngineFuture<'_, EventBatch>;

    /// Accepts an intent under the server's task id. Answers when it is refused, done, or durable and under way.
    ///
    /// # Errors
    /// Any [`EngineError`]; except for `Unavailable` nothing has changed then.
    fn apply(&self, task: TaskId, intent: Intent) -> EngineFuture<'_, Applied>;

    /// Stops a task that can be stopped.
    fn cancel(&self, task: TaskId) -> EngineFuture<'_, ()>;

    /// What would happen. The same function decides when it does happen.
    fn what_if(&self, question: Question) -> EngineFuture<'_, Answer>;

    /// How a client reaches a volume.
    fn attach(&self, volume: ObjectId) -> EngineFuture<'_, Attach>;

    /// Counters by entity, since the start.
    fn counters(&self) -> EngineFuture<'_, BTreeMap<String, Counters>>;

    /// Flushes, writes back and stops; afterwards every call answers `Unavailable`.
    fn shutdown(&self) -> EngineFuture<'_, ()>;
}
