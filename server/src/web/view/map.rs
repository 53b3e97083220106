//! The fault-domain map: domains, their hosts, the disks of each, and what lies on them.
use crate::web::format;
use crate::web::parts::{Chip, Tone};
use crate::web::view::words;
use model::ids::DiskId;
use model::state::{DiskRole, DiskState, HostState};
use model::units::Timestamp;
use model::view::{HostView, Snapshot};
use std::collections::{BTreeMap, BTreeSet};

/// Up to so many hosts all are shown, also those that hold nothing.
const HOSTS_SHOWN_ALWAYS: usize = 12;

/// A short name of a component in its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tag {
    /// E.g. `A1`, `W`.
    pub text: String,
    /// State.
    pub tone: Tone,
}

/// A fault domain.
#[derive(Clone, Debug, Default)]
pub struct DomainBox {
    /// Name.
    pub name: String,
    /// What of the object it holds, e.g. `Copy A`.
    pub holds: String,
    /// A named domain; else its single host is drawn without a frame.
    pub named: bool,
    /// Hosts by name.
    pub hosts: Vec<HostBox>,
}

/// A host.
#[derive(Clone, Debug, Default)]
pub struct HostBox {
    /// Name.
    pub name: String,
    /// State when it is not simply connected.
    pub chip: Option<Chip>,
    /// Drawn hatched.
    pub away: bool,
    /// Disks by name, those that carry data only.
    pub disks: Vec<DiskBox>,
}

/// A disk.
#[derive(Clone, Debug, Default)]
pub struct DiskBox {
    /// Short name without the host's.
    pub name: String,
    /// Path.
    pub path: String,
    /// Size for people.
    pub size: String,
    /// Fill.
    pub percent: u8,
    /// Components of the object on it.
    pub tags: Vec<Tag>,
}

/// The map of a cluster. `tags` puts components on disks; with `only_used`, hosts and disks without one are left out. In a
/// large cluster hosts without one always are, and without any tags those that are well.
pub fn domains(
    snapshot: &Snapshot,
    tags: &BTreeMap<DiskId, Vec<Tag>>,
    only_used: bool,
    now: Timestamp,
) -> Vec<DomainBox> {
    let used_hosts: BTreeSet<&str> = snapshot
        .disks
        .iter()
        .filter(|disk| tags.contains_key(&disk.id))
        .map(|disk| disk.host.as_str())
        .collect();
    let all_hosts = !only_used && snapshot.hosts.len() <= HOSTS_SHOWN_ALWAYS;
    let mut boxes: BTreeMap<&str, DomainBox> = BTreeMap::new();
    for host in &snapshot.hosts {
        let wanted = if tags.is_empty() {
            in_trouble(snapshot, host)
        } else {
            used_hosts.contains(host.name.as_str())
        };
        if !all_hosts && !wanted {
            continue;
        }
        let key = host.fault_domain.as_deref().unwrap_or(&host.name);
        let domain = boxes.entry(key).or_insert_with(|| DomainBox {
            name: key.to_owned(),
            named: host.fault_domain.is_some(),
            ..DomainBox::default()
        });
        let drawn = host_box(snapshot, host, tags, only_used, now);
        for tag in drawn.disks.iter().flat_map(|disk| &disk.tags) {
            if !domain.holds.split(' ').any(|held| held == tag.text) {
                domain.holds = format!("{} {}", domain.holds, tag.text).trim().to_owned();
            }
        }
        domain.hosts.push(drawn);
    }
    boxes.into_values().collect()
}

/// Whether a host, or a disk of it, is not simply well.
fn in_trouble(snapshot: &Snapshot, host: &HostView) -> bool {
    let mut disks = snapshot.disks.iter().filter(|disk| disk.host == host.name);
    host.state != HostState::Connected || disks.any(|disk| disk.state != DiskState::Healthy)
}

fn host_box(
    snapshot: &Snapshot,
    host: &HostView,
    tags: &BTreeMap<DiskId, Vec<Tag>>,
    only_used: bool,
    now: Timestamp,
) -> HostBox {
    let carries = |role: DiskRole| matches!(role, DiskRole::Capacity | DiskRole::Combined);
    let disks = snapshot
        .disks
        .iter()
        .filter(|disk| disk.host == host.name && carries(disk.role))
        .filter(|disk| !only_used || tags.contains_key(&disk.id))
        .map(|disk| DiskBox {
            name: disk.name.strip_prefix(&format!("{}-", host.name)).unwrap_or(&disk.name).to_owned(),
            path: disk.path.clone(),
            size: format::bytes(disk.size_bytes),
            percent: format::percent(disk.used_bytes, disk.size_bytes),
            tags: tags.get(&disk.id).cloned().unwrap_or_default(),
        })
        .collect();
    HostBox {
        name: host.name.clone(),
        chip: words::host_note(host, now),
        away: host.state == HostState::Absent,
        disks,
    }
}

/// What the shapes say.
pub fn legend() -> Vec<Chip> {
    vec![
        Chip::new(Tone::Healthy, "Healthy"),
        Chip::new(Tone::Rebuilding, "Resyncing"),
        Chip::new(Tone::Absent, "Absent: may come back"),
        Chip::new(Tone::Degraded, "Degraded: will not come back"),
    ]
}
