//! The plan of a new cluster: what the wizard and `POST /cluster` hand to an engine. Nothing exists before it is applied.
use crate::ids::{ClusterId, DiskId, HostId};
use crate::policy::Policy;
use crate::state::{ClusterType, HostKind, HostRole, Media};
use crate::view::{FaultDomainView, SiteView};
use serde::{Deserialize, Serialize};

/// A new cluster in full. Ids are minted by the server, so that a retry makes the same cluster.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ClusterPlan {
    /// Identity.
    pub id: ClusterId,
    /// Name.
    pub name: String,
    /// Kind.
    pub cluster_type: ClusterType,
    /// All hosts.
    pub hosts: Vec<PlannedHost>,
    /// Named fault domains.
    pub fault_domains: Vec<FaultDomainView>,
    /// Sites.
    pub sites: Vec<SiteView>,
    /// Disk groups.
    pub claims: Vec<PlannedGroup>,
    /// All policies, the built-in one included.
    pub policies: Vec<Policy>,
    /// Name of the default policy.
    pub default_policy: String,
    /// Repair delay.
    pub repair_delay_seconds: u32,
    /// A verified licence key, if one was entered.
    pub licence_key: Option<String>,
}

/// A host of the plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedHost {
    /// Identity.
    pub id: HostId,
    /// Name.
    pub name: String,
    /// Kind.
    pub kind: HostKind,
    /// Role.
    pub role: HostRole,
}

/// One disk group of the plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedGroup {
    /// Its host.
    pub host: HostId,
    /// Host of the cache disk when that is another one: a disk whose slices serve several hosts has a host of its own, so that
    /// the loss of one of those takes nothing else along.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub cache_host: Option<HostId>,
    /// The disk that carries the log. `None`: each capacity disk carries its own (`combined`), one group a disk.
    pub cache: Option<PlannedDisk>,
    /// Capacity disks, 1..=7.
    pub capacity: Vec<PlannedDisk>,
}

/// One disk of the plan.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct PlannedDisk {
    /// Identity from first sight on; written into the superblock.
    pub id: DiskId,
    /// Short name.
    pub name: String,
    /// Absolute path.
    pub path: String,
    /// Size; a file is made with it when `make_file`.
    pub size_bytes: u64,
    /// What it is made of.
    pub media: Media,
    /// Whether the engine makes the file. Never over a file that is not blank.
    pub make_file: bool,
    /// Whether the person listed it in `erase`.
    pub erase: bool,
    /// What was known of it when the person decided; `None` for files.
    #[serde(default)]
    pub review: Option<Review>,
}

/// What a person saw of a disk when it was claimed. It is compared with the open disk right before the first write:
/// whatever is different then is a reason to write nothing.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Review {
    /// What the disk is known by, as `wwn:0x5000…` or `serial:MODEL NUMBER`.
    pub identity: String,
    /// Everything on it in one line; `None`: blank.
    pub contents: Option<String>,
    /// Of the signatures on it and of samples of its bytes; equal when nothing changed there.
    pub fingerprint: String,
}

/// The lab that `--lab` and the first screen speak of.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabShape {
    /// Number of hosts, 1..=64.
    pub hosts: u32,
    /// Cache disks a host, and the size of each.
    pub cache: DiskShape,
    /// Capacity disks a host, and the size of each.
    pub capacity: DiskShape,
}

/// So many disks of so many bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskShape {
    /// Count a host.
    pub count: u32,
    /// Size of each.
    pub size_bytes: u64,
}
