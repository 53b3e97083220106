//! Shapes of the API, in the words of the contract. Times are RFC 3339, byte counts integers.
use crate::api::openapi::HasSchema;
use crate::db::tasks::Task;
use crate::db::views::query::ObjectRow;
use crate::edge::rfc3339;
use crate::service::cluster::Overview;
use crate::service::disks;
use crate::service::draft::Services;
use model::engine::{Attach, Capability, EngineKind};
use model::state::{
    ClusterState, ClusterType, Compliance, HostKind, HostRole, HostState, ObjectHealth, TaskState,
};
use model::view::{ComponentView, HostView, ObjectView, TreeNode, Votes};
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

mod policy;
pub use policy::{PolicyBody, PolicyItem};

/// A page of a list.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct List<T: HasSchema> {
    /// In order.
    pub items: Vec<T>,
    /// Give it as `after` for the next page; null after the last.
    pub next: Option<String>,
}

/// Long work that was accepted.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct Accepted {
    /// Id of the task to follow.
    pub task: String,
    /// What to know although it was accepted.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub warnings: Vec<String>,
}

/// Hosts under one name.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct HostGroup {
    /// Name.
    pub name: String,
    /// Names of its hosts.
    pub hosts: Vec<String>,
}

/// A cluster.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct Cluster {
    /// Key in paths: `/api/v1/clusters/{key}/…`.
    pub key: String,
    /// Name.
    pub name: String,
    /// Identity; of the draft while nothing is configured.
    pub uuid: String,
    /// `single-site`, `two-node`, `stretched`, `compute`.
    #[serde(rename = "type")]
    #[cfg_attr(test, schema(value_type = String))]
    pub cluster_type: ClusterType,
    /// `unconfigured`, `configuring`, `ready`, `unavailable`.
    #[cfg_attr(test, schema(value_type = String))]
    pub state: ClusterState,
    /// Why it is unavailable.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub state_reason: Option<String>,
    /// `native`, `ceph`, `recorded`.
    #[cfg_attr(test, schema(value_type = String))]
    pub engine: EngineKind,
    /// Whether it can be changed.
    pub writable: bool,
    /// Name → `{available, why_not}`.
    #[cfg_attr(test, schema(value_type = Object))]
    pub capabilities: BTreeMap<String, Capability>,
    /// Named fault domains; a host in none is one of its own.
    pub fault_domains: Vec<HostGroup>,
    /// Sites of a stretched cluster.
    pub sites: Vec<HostGroup>,
    /// Data services.
    pub services: Services,
    /// Default policy.
    pub default_policy: String,
    /// How long an absent component is waited for.
    pub repair_delay_seconds: u32,
    /// What to know about it.
    pub warnings: Vec<String>,
}

impl From<Overview> for Cluster {
    fn from(overview: Overview) -> Self {
        let Overview { key, view, capabilities, services, warnings } = overview;
        let domains = view.fault_domains.into_iter();
        Self {
            key,
            name: view.name,
            uuid: view.id.to_string(),
            cluster_type: view.cluster_type,
            state: view.state,
            state_reason: view.state_reason,
            engine: capabilities.engine,
            writable: view.writable,
            capabilities: capabilities.features,
            fault_domains: domains.map(|group| HostGroup { name: group.name, hosts: group.hosts }).collect(),
            sites: view
                .sites
                .into_iter()
                .map(|site| HostGroup { name: site.name, hosts: site.hosts })
                .collect(),
            services,
            default_policy: view.default_policy,
            repair_delay_seconds: view.repair_delay_seconds,
            warnings,
        }
    }
}

/// A host.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct Host {
    /// Name.
    pub name: String,
    /// `machine`, `enclosure`, `disk`, `lab`, `ceph`.
    #[cfg_attr(test, schema(value_type = String))]
    pub kind: HostKind,
    /// `data`, `witness`.
    #[cfg_attr(test, schema(value_type = String))]
    pub role: HostRole,
    /// `connected`, `absent`, `entering-maintenance`, `maintenance`.
    #[cfg_attr(test, schema(value_type = String))]
    pub state: HostState,
    /// Since when.
    pub state_since: String,
    /// Effective fault domain: the named one, else the host itself.
    pub fault_domain: String,
    /// Site.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub site: Option<String>,
    /// Disk groups.
    pub disk_groups: u32,
    /// Components.
    pub components: u32,
    /// Components it may carry.
    pub components_max: u32,
    /// Faults injected into it.
    pub faults: Vec<String>,
}

impl From<HostView> for Host {
    fn from(host: HostView) -> Self {
        Self {
            fault_domain: host.fault_domain.unwrap_or_else(|| host.name.clone()),
            name: host.name,
            kind: host.kind,
            role: host.role,
            state: host.state,
            state_since: rfc3339(host.state_since),
            site: host.site,
            disk_groups: host.disk_groups,
            components: host.components,
            components_max: host.components_max,
            faults: host.faults,
        }
    }
}

/// A disk.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct Disk {
    /// Identity, fixed at first sight.
    pub id: String,
    /// Short name.
    pub name: String,
    /// Host; absent for a disk that belongs to none yet.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub host: Option<String>,
    /// Absolute path.
    pub path: String,
    /// Model.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub model: Option<String>,
    /// Serial number.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub serial: Option<String>,
    /// Size.
    pub size_bytes: u64,
    /// `flash`, `hdd`.
    pub media: String,
    /// What it holds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub contents: Option<String>,
    /// A word for what it holds, for `expected` of a claim that erases it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub mark: String,
    /// `eligible`, `erase-needed`, `in-use`, `ineligible`.
    pub eligibility: String,
    /// Why it may not be claimed.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// What to know before it is claimed.
    pub warnings: Vec<String>,
    /// `none`, `cache`, `capacity`, `combined`.
    pub role: String,
    /// Disk group.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub disk_group: Option<String>,
    /// Bytes allocated.
    pub used_bytes: u64,
    /// Bytes that a new component could take.
    pub free_bytes: u64,
    /// `healthy`, `absent`, `failed`, `slow`, `full`.
    pub state: String,
    /// Components on it.
    pub components: u32,
    /// Checksum errors since the start.
    pub checksum_errors: u64,
    /// Faults injected into it.
    pub faults: Vec<String>,
    /// What is known of the block device; absent for files and claimed disks.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub device: Option<super::device::Device>,
}

impl From<disks::Disk> for Disk {
    fn from(disk: disks::Disk) -> Self {
        use crate::db::to_word;
        let view = disk.view;
        Self {
            id: view.id.to_string(),
            free_bytes: view.free_bytes(),
            host: Some(view.host).filter(|host| !host.is_empty()),
            name: view.name,
            path: view.path,
            model: disk.model,
            serial: disk.serial,
            size_bytes: view.size_bytes,
            media: to_word(&view.media),
            contents: disk.contents,
            mark: disk.mark,
            eligibility: to_word(&disk.eligibility),
            reason: disk.reason,
            warnings: disk.warnings,
            role: to_word(&view.role),
            disk_group: view.disk_group.map(|group| group.to_string()),
            used_bytes: view.used_bytes,
            state: to_word(&view.state),
            components: view.components,
            checksum_errors: view.checksum_errors,
            faults: view.faults,
            device: disk.device.as_deref().map(super::device::Device::from),
        }
    }
}

/// A volume.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct Volume {
    /// Name.
    pub name: String,
    /// Identity, also its object's.
    pub uuid: String,
    /// Size that a client sees.
    pub size_bytes: u64,
    /// Bytes held, counted once.
    pub used_bytes: u64,
    /// Policy.
    pub policy: String,
    /// `compliant`, `non-compliant`, `out-of-date`.
    #[cfg_attr(test, schema(value_type = String))]
    pub compliance: Compliance,
    /// As an object's.
    #[cfg_attr(test, schema(value_type = String))]
    pub health: ObjectHealth,
    /// How a client reaches it.
    #[cfg_attr(test, schema(value_type = Object))]
    pub attach: Attach,
}

/// An object, in a list without its tree.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct Object {
    /// Identity.
    pub uuid: String,
    /// Name.
    pub name: String,
    /// `volume`.
    #[serde(rename = "type")]
    pub object_type: String,
    /// Size that a client sees.
    pub size_bytes: u64,
    /// Bytes held, counted once.
    pub used_bytes: u64,
    /// Policy.
    pub policy: String,
    /// `compliant`, `non-compliant`, `out-of-date`.
    #[cfg_attr(test, schema(value_type = String))]
    pub compliance: Compliance,
    /// The first that holds, worst first.
    #[cfg_attr(test, schema(value_type = String))]
    pub health: ObjectHealth,
    /// Why it is not healthy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// Whether it can be read and written.
    pub accessible: bool,
    /// Votes.
    #[cfg_attr(test, schema(value_type = Object))]
    pub votes: Votes,
    /// Failures of fault domains that it survives from now on.
    pub tolerates_now: u32,
    /// When repair starts by itself.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub repair_at: Option<String>,
    /// The real tree.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(value_type = Option<Object>))]
    pub tree: Option<Node>,
}

impl From<ObjectRow> for Object {
    fn from(row: ObjectRow) -> Self {
        Self {
            uuid: row.uuid.to_string(),
            name: row.name,
            object_type: row.object_type,
            size_bytes: row.size_bytes,
            used_bytes: row.used_bytes,
            policy: row.policy,
            compliance: row.compliance,
            health: row.health,
            reason: row.reason,
            accessible: row.accessible,
            votes: row.votes,
            tolerates_now: row.tolerates_now,
            repair_at: row.repair_at.map(rfc3339),
            tree: None,
        }
    }
}

impl From<&ObjectView> for Object {
    fn from(object: &ObjectView) -> Self {
        Self {
            uuid: object.uuid.to_string(),
            name: object.name.clone(),
            object_type: crate::db::to_word(&object.object_type),
            size_bytes: object.size_bytes,
            used_bytes: object.used_bytes,
            policy: object.policy.clone(),
            compliance: object.compliance,
            health: object.health,
            reason: object.reason.clone(),
            accessible: object.accessible,
            votes: object.votes,
            tolerates_now: object.tolerates_now,
            repair_at: object.repair_at.map(rfc3339),
            tree: Some(node(&object.tree)),
        }
    }
}

/// A node of the tree; `kind` is `concat`, `raid0`, `raid1`, `raid5`, `raid6`, `component` or `witness`.
#[derive(Serialize)]
#[serde(untagged)]
pub enum Node {
    /// Inner node.
    Inner {
        /// Kind.
        kind: &'static str,
        /// In order.
        children: Vec<Node>,
    },
    /// Leaf.
    Leaf(Box<Leaf>),
}

/// A leaf of the tree.
#[derive(Serialize)]
pub struct Leaf {
    kind: &'static str,
    uuid: String,
    state: String,
    state_since: String,
    votes: u32,
    host: String,
    fault_domain: String,
    disk: String,
    disk_path: String,
    used_bytes: u64,
    bytes_to_sync: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
}

/// The tree for the API.
pub fn node(tree: &TreeNode) -> Node {
    let inner =
        |kind, children: &[TreeNode]| Node::Inner { kind, children: children.iter().map(node).collect() };
    match tree {
        TreeNode::Concat { children } => inner("concat", children),
        TreeNode::Raid0 { children } => inner("raid0", children),
        TreeNode::Raid1 { children } => inner("raid1", children),
        TreeNode::Raid5 { children } => inner("raid5", children),
        TreeNode::Raid6 { children } => inner("raid6", children),
        TreeNode::Component(leaf) => Node::Leaf(Box::new(self::leaf("component", leaf))),
        TreeNode::Witness(leaf) => Node::Leaf(Box::new(self::leaf("witness", leaf))),
    }
}

fn leaf(kind: &'static str, view: &ComponentView) -> Leaf {
    Leaf {
        kind,
        uuid: view.uuid.to_string(),
        state: crate::db::to_word(&view.state),
        state_since: rfc3339(view.state_since),
        votes: view.votes,
        host: view.host.clone(),
        fault_domain: view.fault_domain.clone(),
        disk: view.disk.to_string(),
        disk_path: view.disk_path.clone(),
        used_bytes: view.used_bytes,
        bytes_to_sync: view.bytes_to_sync,
        reason: view.reason.clone(),
    }
}

/// A task.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct TaskItem {
    /// Identity.
    pub id: String,
    /// What it does.
    pub kind: String,
    /// What to.
    pub subject: String,
    /// `running`, `succeeded`, `failed`, `cancelled`.
    #[cfg_attr(test, schema(value_type = String))]
    pub state: TaskState,
    /// 0 to 100.
    pub progress_percent: u8,
    /// The step at work.
    pub step: String,
    /// Who started it.
    pub started_by: String,
    /// When.
    pub started_at: String,
    /// End.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub finished_at: Option<String>,
    /// Why it failed, with the remedy.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub error: Option<String>,
}

impl From<Task> for TaskItem {
    fn from(Task { view, started_by }: Task) -> Self {
        Self {
            id: view.id.to_string(),
            kind: view.kind,
            subject: view.subject,
            state: view.state,
            progress_percent: view.progress_percent,
            step: view.step,
            started_by,
            started_at: rfc3339(view.started_at),
            finished_at: view.finished_at.map(rfc3339),
            error: view.error,
        }
    }
}
