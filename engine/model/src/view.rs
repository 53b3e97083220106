//! What an engine reports: plain data in the console's own terms, that serde can carry.
//!
//! A [`Snapshot`] is the whole truth at one version. Objects are shared pointers, so that taking one clones pointers
//! and a reader finds what changed by comparing them. Times are wall-clock and for people.
use crate::ids::{ClusterId, ComponentId, DiskGroupId, DiskId, HostId, ObjectId, TaskId};
use crate::policy::Policy;
use crate::state::{
    ClusterState, ClusterType, Compliance, ComponentState, DiskRole, DiskState, HostKind, HostRole,
    HostState, Media, ObjectHealth, ResyncReason, ResyncState, Severity, TaskState,
};
use crate::units::Timestamp;
use serde::{Deserialize, Serialize};
use std::sync::Arc;

/// The whole truth of one cluster at one version.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Snapshot {
    /// Rises with every change of anything below.
    pub version: u64,
    /// When it was taken.
    pub taken_at: Timestamp,
    /// The cluster itself.
    pub cluster: ClusterView,
    /// Hosts, by name.
    pub hosts: Vec<HostView>,
    /// Claimed disks, by host and name.
    pub disks: Vec<DiskView>,
    /// Policies in force, by name.
    pub policies: Vec<Policy>,
    /// Objects, by name.
    pub objects: Vec<Arc<ObjectView>>,
    /// What moves and what is scheduled to.
    pub resync: ResyncView,
    /// Tasks that the engine runs or ran since it started.
    pub tasks: Vec<TaskView>,
}

/// Identity and configuration of a cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterView {
    /// Identity; nil while unconfigured.
    pub id: ClusterId,
    /// Name; empty while unconfigured.
    pub name: String,
    /// Kind.
    pub cluster_type: ClusterType,
    /// Life.
    pub state: ClusterState,
    /// Why it is `unavailable`, in one sentence; else `None`.
    pub state_reason: Option<String>,
    /// False when the engine only reads (recorded, or an import not yet confirmed).
    pub writable: bool,
    /// Named fault domains. A host in none is a domain of its own.
    pub fault_domains: Vec<FaultDomainView>,
    /// Sites of a stretched cluster; empty otherwise.
    pub sites: Vec<SiteView>,
    /// Name of the default policy.
    pub default_policy: String,
    /// How long an absent component is waited for.
    pub repair_delay_seconds: u32,
    /// The signed licence key in force, if one was entered.
    pub licence_key: Option<String>,
    /// When the cluster was made.
    pub created_at: Timestamp,
    /// Order of the cluster configuration: (boot epoch, sequence).
    pub config_version: (u64, u64),
}

/// A named fault domain.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FaultDomainView {
    /// Name.
    pub name: String,
    /// Names of its hosts.
    pub hosts: Vec<String>,
}

/// A site.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SiteView {
    /// Name.
    pub name: String,
    /// Names of its hosts.
    pub hosts: Vec<String>,
}

/// A host.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostView {
    /// Identity.
    pub id: HostId,
    /// Name.
    pub name: String,
    /// Kind; the noun follows it.
    pub kind: HostKind,
    /// Data or witness.
    pub role: HostRole,
    /// Liveness.
    pub state: HostState,
    /// Since when it is in that state.
    pub state_since: Timestamp,
    /// Its named fault domain; `None` means that it is one of its own.
    pub fault_domain: Option<String>,
    /// Its site.
    pub site: Option<String>,
    /// Disk groups on it.
    pub disk_groups: u32,
    /// Components on it.
    pub components: u32,
    /// Components it may carry.
    pub components_max: u32,
    /// Faults injected into it, in words; empty outside a lab.
    pub faults: Vec<String>,
}

/// A claimed disk.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DiskView {
    /// Identity, as in its superblock.
    pub id: DiskId,
    /// Short name, unique on its host (`h1-cap1`).
    pub name: String,
    /// Name of its host.
    pub host: String,
    /// Absolute path last used.
    pub path: String,
    /// Size.
    pub size_bytes: u64,
    /// What it is made of.
    pub media: Media,
    /// What it does.
    pub role: DiskRole,
    /// Its disk group.
    pub disk_group: Option<DiskGroupId>,
    /// More disk groups whose logs lie on it, in slices: they share its fate.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub serves: Vec<DiskGroupId>,
    /// Bytes allocated on it: data and metadata; the log for a cache disk.
    pub used_bytes: u64,
    /// Bytes promised to writes and components that are not yet allocated.
    pub reserved_bytes: u64,
    /// Bytes that hold structures rather than data.
    pub metadata_bytes: u64,
    /// State.
    pub state: DiskState,
    /// Components on it.
    pub components: u32,
    /// Checksum errors found on it since the start.
    pub checksum_errors: u64,
    /// Faults injected into it, in words; empty outside a lab.
    pub faults: Vec<String>,
}

impl DiskView {
    /// Bytes that a new component could still take.
    pub fn free_bytes(&self) -> u64 {
        self.size_bytes.saturating_sub(self.used_bytes).saturating_sub(self.reserved_bytes)
    }
}

/// Votes of an object.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Votes {
    /// All votes.
    pub total: u32,
    /// Votes of reachable components.
    pub present: u32,
}

/// What an object is for. This release makes volumes only.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectType {
    /// A volume.
    Volume,
}

/// An object and where it lies.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ObjectView {
    /// Identity, also the volume's.
    pub uuid: ObjectId,
    /// Name.
    pub name: String,
    /// What it is for.
    #[serde(rename = "type")]
    pub object_type: ObjectType,
    /// Size that a client sees.
    pub size_bytes: u64,
    /// Bytes written by clients and still held, counted once (the largest copy).
    pub used_bytes: u64,
    /// Bytes allocated on all disks for it.
    pub used_raw_bytes: u64,
    /// Name of its policy.
    pub policy: String,
    /// The version of the policy that its layout follows.
    pub policy_version: u64,
    /// As the policy says?
    pub compliance: Compliance,
    /// Health, the first that holds.
    pub health: ObjectHealth,
    /// Why it is not healthy, in one sentence; `None` when it is.
    pub reason: Option<String>,
    /// Whether it can be read and written.
    pub accessible: bool,
    /// Votes.
    pub votes: Votes,
    /// Failures of fault domains that it survives from now on, computed from placement.
    pub tolerates_now: u32,
    /// When repair of an absent component starts by itself.
    pub repair_at: Option<Timestamp>,
    /// Order of its descriptor: (boot epoch, CSN). Intents carry it back.
    pub csn: (u64, u64),
    /// When it was made.
    pub created_at: Timestamp,
    /// The real tree.
    pub tree: TreeNode,
}

/// One node of the real tree of an object.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "kind", rename_all = "kebab-case")]
pub enum TreeNode {
    /// Pieces one after the other, each at most 255 GiB a leg.
    Concat {
        /// Pieces in order.
        children: Vec<TreeNode>,
    },
    /// Stripe columns, 1 MiB units.
    Raid0 {
        /// Columns in order.
        children: Vec<TreeNode>,
    },
    /// Copies (and, at the root, the witnesses).
    Raid1 {
        /// Legs, then witnesses.
        children: Vec<TreeNode>,
    },
    /// One parity.
    Raid5 {
        /// Legs.
        children: Vec<TreeNode>,
    },
    /// Two parities.
    Raid6 {
        /// Legs.
        children: Vec<TreeNode>,
    },
    /// A leaf that holds data.
    Component(ComponentView),
    /// A leaf that only votes.
    Witness(ComponentView),
}

impl TreeNode {
    /// Calls `visit` for every leaf, in order; the flag is true for witnesses.
    pub fn for_each_leaf<'a>(&'a self, visit: &mut dyn FnMut(&'a ComponentView, bool)) {
        match self {
            Self::Concat { children }
            | Self::Raid0 { children }
            | Self::Raid1 { children }
            | Self::Raid5 { children }
            | Self::Raid6 { children } => children.iter().for_each(|child| child.for_each_leaf(visit)),
            Self::Component(leaf) => visit(leaf, false),
            Self::Witness(leaf) => visit(leaf, true),
        }
    }

    /// All leaves in order; the flag is true for witnesses.
    pub fn leaves(&self) -> Vec<(&ComponentView, bool)> {
        let mut leaves = Vec::new();
        self.for_each_leaf(&mut |leaf, witness| leaves.push((leaf, witness)));
        leaves
    }
}

/// A leaf of the tree.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ComponentView {
    /// Identity.
    pub uuid: ComponentId,
    /// State.
    pub state: ComponentState,
    /// Since when.
    pub state_since: Timestamp,
    /// Votes.
    pub votes: u32,
    /// Name of the host.
    pub host: String,
    /// Effective fault domain: the named one, else the host's name.
    pub fault_domain: String,
    /// The disk.
    pub disk: DiskId,
    /// Its path.
    pub disk_path: String,
    /// Bytes allocated.
    pub used_bytes: u64,
    /// Bytes that a resync has yet to look at for it.
    pub bytes_to_sync: u64,
    /// Why it is not active, in one sentence.
    pub reason: Option<String>,
}

/// What moves and what will.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct ResyncView {
    /// Resyncs at work or queued.
    pub items: Vec<ResyncItem>,
    /// Repairs that the timer will start.
    pub scheduled: Vec<ScheduledRepair>,
    /// Manual limit; `None` is none.
    pub limit_bytes_per_second: Option<u64>,
}

/// One resync. `bytes_done` counts positions processed (equal ones too), so it never exceeds the total or falls within a run.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ResyncItem {
    /// Object.
    pub object: ObjectId,
    /// Its name.
    pub object_name: String,
    /// The component that is brought up to date.
    pub component: ComponentId,
    /// Rises with every restart of this component's resync.
    pub run: u32,
    /// Why.
    pub reason: ResyncReason,
    /// State.
    pub state: ResyncState,
    /// Host that is read from.
    pub from: String,
    /// Host that is written to.
    pub to: String,
    /// Bytes to look at in this run.
    pub bytes_total: u64,
    /// Bytes looked at.
    pub bytes_done: u64,
    /// Rate over the last minutes; `None` in the first seconds.
    pub bytes_per_second: Option<u64>,
    /// When the run began.
    pub started_at: Timestamp,
}

/// A repair that the timer will start.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ScheduledRepair {
    /// Object.
    pub object: ObjectId,
    /// Its name.
    pub object_name: String,
    /// When.
    pub starts_at: Timestamp,
    /// Why, in one sentence.
    pub why: String,
}

/// A task.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct TaskView {
    /// Identity, minted by the server.
    pub id: TaskId,
    /// What it does, e.g. `configure-cluster`, `apply-policy`.
    pub kind: String,
    /// What it does it to, for people.
    pub subject: String,
    /// State.
    pub state: TaskState,
    /// 0..=100, never falls.
    pub progress_percent: u8,
    /// The step at work, one short sentence.
    pub step: String,
    /// Start.
    pub started_at: Timestamp,
    /// End.
    pub finished_at: Option<Timestamp>,
    /// Why it failed, with the remedy.
    pub error: Option<String>,
}

/// Something that happened. `seq` orders the events of one engine life; a reader that is behind gets a gap.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Event {
    /// Order.
    pub seq: u64,
    /// When.
    pub time: Timestamp,
    /// How bad.
    pub severity: Severity,
    /// Kind, e.g. `host-absent`, `resync-finished`.
    pub kind: String,
    /// What it is about: `host:h1`, `disk:UUID`, `object:UUID`, `cluster`.
    pub subject: String,
    /// One sentence.
    pub text: String,
}
