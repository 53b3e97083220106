//! What a disk offers to components, and all of them together.
use crate::arithmetic::legs;
use crate::ids::DiskId;
use crate::state::{DiskRole, DiskState, HostRole, HostState};
use crate::view::{DiskView, HostView, Snapshot};
use std::collections::BTreeMap;

/// One disk that carries components, usable or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// The disk.
    pub disk: DiskId,
    /// Its short name, for reasons.
    pub disk_name: String,
    /// Name of its host.
    pub host: String,
    /// Effective fault domain: the named one, else the host's name.
    pub fault_domain: String,
    /// Site of the host.
    pub site: Option<String>,
    /// Size.
    pub total_bytes: u64,
    /// Bytes that a new component could take now.
    pub free_bytes: u64,
    /// Bytes that thin components on it may yet grow by: only sorted by, never filtered.
    pub promised_bytes: u64,
    /// Components on it.
    pub components: u32,
    /// Components that it may carry.
    pub components_max: u32,
    /// Why it takes nothing new, in one sentence (`h3 is absent`); `None` when it does.
    pub unusable: Option<String>,
}

impl Room {
    /// Sort key: what is left when everything promised is taken; the freest has the largest.
    pub(super) fn freedom(&self) -> i128 {
        i128::from(self.free_bytes) - i128::from(self.promised_bytes)
    }
}

/// Every disk that carries components. Hosts without such a disk do not appear.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// All of them, in any order.
    pub rooms: Vec<Room>,
}

impl Topology {
    /// Names of the fault domains with at least one usable disk.
    pub fn usable_domains(&self) -> std::collections::BTreeSet<&str> {
        let usable = self.rooms.iter().filter(|room| room.unusable.is_none());
        usable.map(|room| room.fault_domain.as_str()).collect()
    }

    /// The disks of a snapshot that carry components. Hosts that are away and disks that failed are listed as unusable.
    pub fn from_snapshot(snapshot: &Snapshot) -> Self {
        let mut promised: BTreeMap<DiskId, u64> = BTreeMap::new();
        for object in &snapshot.objects {
            let policy = snapshot.policies.iter().find(|policy| policy.name == object.policy);
            let data_legs = policy.map_or(1, |policy| u64::from(legs(policy).1));
            let leaves = object.tree.leaves();
            let data = leaves.iter().filter(|(_, witness)| !witness).count() as u64;
            let copies = policy.map_or(1, |policy| u64::from(legs(policy).0)).max(1);
            let each = object.size_bytes / data_legs.max(1) * copies / data.max(1);
            for (leaf, _) in leaves.into_iter().filter(|(_, witness)| !witness) {
                *promised.entry(leaf.disk).or_default() += each.saturating_sub(leaf.used_bytes);
            }
        }
        let hosts: BTreeMap<&str, &HostView> =
            snapshot.hosts.iter().map(|host| (host.name.as_str(), host)).collect();
        let components: BTreeMap<&str, u32> =
            snapshot.hosts.iter().map(|host| (host.name.as_str(), host.components)).collect();
        let mut topology = Self::default();
        for disk in &snapshot.disks {
            let Some(host) = hosts.get(disk.host.as_str()) else { continue };
            if !matches!(disk.role, DiskRole::Capacity | DiskRole::Combined) {
                continue;
            }
            let host_left = host.components_max.saturating_sub(components[disk.host.as_str()]);
            topology.rooms.push(Room {
                disk: disk.id,
                disk_name: disk.name.clone(),
                host: disk.host.clone(),
                fault_domain: host.fault_domain.clone().unwrap_or_else(|| disk.host.clone()),
                site: host.site.clone(),
                total_bytes: disk.size_bytes.saturating_sub(disk.metadata_bytes),
                free_bytes: disk.free_bytes(),
                promised_bytes: promised.get(&disk.id).copied().unwrap_or(0),
                components: disk.components,
                components_max: disk.components.saturating_add(host_left),
                unusable: unusable(host, disk),
            });
        }
        topology
    }
}

/// Why a disk takes nothing new.
fn unusable(host: &HostView, disk: &DiskView) -> Option<String> {
    match host.state {
        HostState::Connected => {}
        HostState::Absent => return Some(format!("{} is absent", host.name)),
        HostState::EnteringMaintenance | HostState::Maintenance => {
            return Some(format!("{} is in maintenance", host.name));
        }
    }
    if host.role == HostRole::Witness {
        return Some(format!("{} holds witnesses only", host.name));
    }
    match disk.state {
        DiskState::Healthy | DiskState::Slow => None,
        DiskState::Absent => Some(format!("{} is absent", disk.name)),
        DiskState::Failed => Some(format!("{} failed", disk.name)),
        DiskState::Full => Some(format!("{} is full", disk.name)),
    }
}
