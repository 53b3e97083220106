//! The division of a cluster that is there, so that its page says the same as the wizard did.
use super::{Division, Domain, Member};
use crate::ids::{DiskGroupId, DiskId};
use crate::state::{DiskRole, HostKind};
use crate::view::{DiskView, Snapshot};
use std::collections::BTreeMap;

/// The division that a snapshot shows: a fault domain with several hosts is one domain. What is known of the device behind a
/// disk (body, controller, enclosure) is asked of `device`; a disk that it does not know is a body of its own.
pub fn of_snapshot(snapshot: &Snapshot, device: &dyn Fn(&DiskView) -> Option<Member>) -> Division {
    let mut caches: BTreeMap<DiskGroupId, DiskId> = BTreeMap::new();
    for disk in snapshot.disks.iter().filter(|disk| disk.role == DiskRole::Cache) {
        caches.extend(disk.disk_group.iter().chain(&disk.serves).map(|group| (*group, disk.id)));
    }
    // A group has one cache: disks of one domain behind different caches are entered apart, under the same name.
    let mut domains: BTreeMap<(String, Option<DiskId>), Domain> = BTreeMap::new();
    let mut kind = None;
    for disk in &snapshot.disks {
        if !matches!(disk.role, DiskRole::Capacity | DiskRole::Combined) {
            continue;
        }
        let host = snapshot.hosts.iter().find(|host| host.name == disk.host);
        kind = kind.max(host.map(|host| host.kind));
        let name = host.and_then(|host| host.fault_domain.clone()).unwrap_or_else(|| disk.host.clone());
        let cache = disk.disk_group.and_then(|group| caches.get(&group).copied());
        let domain = domains.entry((name.clone(), cache)).or_default();
        (domain.name, domain.cache) = (name, cache.into_iter().collect());
        domain.capacity.push(disk.id);
    }
    let member = |disk: &DiskView| {
        let (id, name) = (disk.id, disk.name.clone());
        match device(disk) {
            Some(known) => Member { id, name, ..known },
            None => Member {
                id,
                name,
                size_bytes: disk.size_bytes,
                media: disk.media,
                body: format!("disk {id}"),
                controller: None,
                enclosure: None,
            },
        }
    };
    Division {
        kind: kind.unwrap_or(HostKind::Machine),
        domains: domains.into_values().collect(),
        members: snapshot.disks.iter().map(member).collect(),
    }
}
