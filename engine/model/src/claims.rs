//! What a way to divide disks into fault domains survives, and what it yields: the claims that pages make.
//!
//! Map: this file has the words and what can be lost ([`parts`]); `fate` says what a loss does to a volume; `verdict` tries
//! every single and every double loss. The native engine's tests build the same divisions in its simulator, lose the same
//! things and read back: a claim that is wrong in either direction fails there.
//! Invariants: disks of one body are never counted as two domains; a cache disk that is lost takes the disks behind it along;
//! "survived" is said only when it holds for every volume that placement could make, wherever it lies.
use crate::disk_room::data_bytes;
use crate::ids::DiskId;
use crate::placement::{Room, Topology};
use crate::state::{DiskRole, HostKind, Media};
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};

mod fate;
mod live;
mod verdict;

pub use fate::{Fate, fate_of_placement, fate_of_tree};
pub use live::of_snapshot;
pub use verdict::{Claim, PARTS_PAIRED_MAX, Verdict, layouts, verdict};

/// Components of a disk that are assumed for a preview: more than one volume needs.
const COMPONENTS_MAX: u32 = 9000;

/// A disk, a file or a slice that could carry data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Member {
    /// Identity.
    pub id: DiskId,
    /// Short name.
    pub name: String,
    /// Size.
    pub size_bytes: u64,
    /// What it is made of.
    pub media: Media,
    /// Members with the same body are parts of one device: they fail together.
    pub body: String,
    /// Controller; `None` when unknown.
    pub controller: Option<String>,
    /// Enclosure; `None` when there is none.
    pub enclosure: Option<String>,
}

/// One fault domain of a division.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Domain {
    /// Name, fit for a host.
    pub name: String,
    /// Cache disks; none when each capacity disk carries its own log. One cache may serve several domains.
    pub cache: Vec<DiskId>,
    /// Disks that carry data.
    pub capacity: Vec<DiskId>,
}

/// A machine, divided.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Division {
    /// Kind of each domain; the noun follows it.
    pub kind: HostKind,
    /// The domains.
    pub domains: Vec<Domain>,
    /// Every disk that a domain names, and perhaps more.
    pub members: Vec<Member>,
}

/// What a part of the machine is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum PartKind {
    /// A disk with data.
    Disk,
    /// A disk that only carries logs.
    Cache,
    /// One device that several disks are parts of.
    Device,
    /// A controller.
    Controller,
    /// An enclosure.
    Enclosure,
    /// A fault domain as a whole.
    Domain,
}

/// Something that can be lost at once.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Part {
    /// What it is.
    pub kind: PartKind,
    /// In words: `disk sda`, `cache disk nvme0n1`, `controller 0000:3b:00.0`.
    pub name: String,
    /// The disks that go with it at once; those behind a lost cache are not listed.
    pub disks: BTreeSet<DiskId>,
}

/// Disk groups of a domain: its capacity disks dealt out to its cache disks in turn; without one, each is its own group.
pub fn groups(cache: &[DiskId], capacity: &[DiskId]) -> Vec<(Option<DiskId>, Vec<DiskId>)> {
    if cache.is_empty() {
        return capacity.iter().map(|id| (None, vec![*id])).collect();
    }
    let mut groups: Vec<(Option<DiskId>, Vec<DiskId>)> =
        cache.iter().map(|id| (Some(*id), Vec::new())).collect();
    let count = groups.len();
    for (index, id) in capacity.iter().enumerate() {
        groups[index % count].1.push(*id);
    }
    groups.retain(|(_, capacity)| !capacity.is_empty());
    groups
}

impl Division {
    /// A member by id.
    pub fn member(&self, id: DiskId) -> Option<&Member> {
        self.members.iter().find(|member| member.id == id)
    }

    /// Every disk that a domain names.
    pub fn used(&self) -> BTreeSet<DiskId> {
        self.domains.iter().flat_map(|domain| domain.capacity.iter().chain(&domain.cache)).copied().collect()
    }

    fn known<'a>(&'a self, ids: &'a [DiskId]) -> impl Iterator<Item = &'a Member> {
        ids.iter().filter_map(|id| self.member(*id))
    }

    /// For each domain the index of the domain that it counts as: those that share a body of a capacity disk are one.
    pub fn counted_as(&self) -> Vec<usize> {
        let mut counted: Vec<usize> = (0..self.domains.len()).collect();
        let mut first: BTreeMap<&str, usize> = BTreeMap::new();
        for (index, domain) in self.domains.iter().enumerate() {
            for member in self.known(&domain.capacity) {
                let (from, to) = (counted[index], counted[*first.entry(&member.body).or_insert(index)]);
                let (from, to) = (from.max(to), from.min(to));
                counted.iter_mut().filter(|one| **one == from).for_each(|one| *one = to);
            }
        }
        counted
    }

    /// Domains that only count together, by name; each list has at least two.
    pub fn together(&self) -> Vec<Vec<&str>> {
        let mut of: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
        for (domain, counted) in self.domains.iter().zip(self.counted_as()) {
            if !domain.capacity.is_empty() {
                of.entry(counted).or_default().push(&domain.name);
            }
        }
        of.into_values().filter(|names| names.len() > 1).collect()
    }

    /// Cache disks that serve several domains, with the names of those.
    pub fn shared_caches(&self) -> Vec<(&Member, Vec<&str>)> {
        let mut users: BTreeMap<DiskId, Vec<&str>> = BTreeMap::new();
        for domain in self.domains.iter().filter(|domain| !domain.capacity.is_empty()) {
            domain.cache.iter().for_each(|id| users.entry(*id).or_default().push(&domain.name));
        }
        let shared = users.into_iter().filter(|(_, names)| names.len() > 1);
        shared.filter_map(|(id, names)| Some((self.member(id)?, names))).collect()
    }

    /// What placement works on: every capacity disk with the bytes that are left for data on it.
    pub fn topology(&self) -> Topology {
        let counted = self.counted_as();
        let mut topology = Topology::default();
        for (index, domain) in self.domains.iter().enumerate() {
            let role = if domain.cache.is_empty() { DiskRole::Combined } else { DiskRole::Capacity };
            for member in self.known(&domain.capacity) {
                let bytes = data_bytes(role, member.size_bytes);
                topology.rooms.push(Room {
                    disk: member.id,
                    disk_name: member.name.clone(),
                    host: domain.name.clone(),
                    fault_domain: self.domains[counted[index]].name.clone(),
                    site: None,
                    total_bytes: bytes,
                    free_bytes: bytes,
                    promised_bytes: 0,
                    components: 0,
                    components_max: COMPONENTS_MAX,
                    unusable: None,
                });
            }
        }
        topology
    }

    /// Everything that is lost when these disks are: a cache disk takes along the disks behind it.
    pub fn gone_with(&self, lost: &BTreeSet<DiskId>) -> BTreeSet<DiskId> {
        let mut gone = lost.clone();
        for domain in &self.domains {
            for (cache, capacity) in groups(&domain.cache, &domain.capacity) {
                if cache.is_some_and(|cache| lost.contains(&cache)) {
                    gone.extend(capacity);
                }
            }
        }
        gone
    }
}

/// Everything of the machine that can be lost at once and that a domain uses, each once: two names for the same disks are one
/// part, the smaller thing first.
pub fn parts(division: &Division) -> Vec<Part> {
    let mut all: BTreeMap<(PartKind, String), BTreeSet<DiskId>> = BTreeMap::new();
    let names = body_names(division);
    let caches: BTreeSet<DiskId> = division.domains.iter().flat_map(|domain| domain.cache.clone()).collect();
    let shared: BTreeSet<DiskId> = division.shared_caches().iter().map(|(member, _)| member.id).collect();
    for domain in &division.domains {
        let own = domain.cache.iter().filter(|id| !shared.contains(id));
        let whole: BTreeSet<DiskId> = own.chain(&domain.capacity).copied().collect();
        if domain.capacity.is_empty() {
            continue;
        }
        let noun = noun_of(division.kind);
        all.entry((PartKind::Domain, format!("{noun} {}", domain.name))).or_default().extend(whole);
        for member in division.known(&domain.capacity).chain(division.known(&domain.cache)) {
            let body = &names[member.body.as_str()];
            let (kind, name) = match (body.as_slice(), caches.contains(&member.id)) {
                ([_], true) => (PartKind::Cache, format!("cache disk {}", member.name)),
                ([_], false) => (PartKind::Disk, format!("disk {}", member.name)),
                (several, _) => (PartKind::Device, format!("the device with {}", several.join(", "))),
            };
            let mut part = |kind, name| all.entry((kind, name)).or_default().insert(member.id);
            part(kind, name);
            member.controller.as_ref().map(|key| part(PartKind::Controller, format!("controller {key}")));
            member.enclosure.as_ref().map(|key| part(PartKind::Enclosure, key.clone()));
        }
    }
    let mut found: Vec<Part> = Vec::new();
    for ((kind, name), disks) in all {
        // A controller says more than "the disk on it", so it stays; a domain of one disk does not.
        let is_known = found.iter().any(|part| part.disks == disks);
        if !is_known || matches!(kind, PartKind::Controller | PartKind::Enclosure) {
            found.push(Part { kind, name, disks });
        }
    }
    found
}

/// Names of the used members of each body.
fn body_names(division: &Division) -> BTreeMap<&str, Vec<&str>> {
    let used = division.used();
    let mut names: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for member in division.members.iter().filter(|member| used.contains(&member.id)) {
        names.entry(&member.body).or_default().insert(&member.name);
    }
    names.into_iter().map(|(body, names)| (body, names.into_iter().collect())).collect()
}

/// The noun of a fault domain of this kind.
pub fn noun_of(kind: HostKind) -> &'static str {
    match kind {
        HostKind::Machine | HostKind::Lab | HostKind::Ceph => "host",
        HostKind::Enclosure => "enclosure",
        HostKind::Disk => "disk",
    }
}

#[cfg(test)]
#[path = "claims_tests.rs"]
mod tests;
