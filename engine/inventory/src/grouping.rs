//! Failure domains out of one machine: proposals, and what any grouping survives and yields. Pure; the arithmetic is
//! `model`'s own (placement and water-filling), so a page here and a refusal there cannot differ.
//!
//! Invariants: disks of one body (two halves of a drive, several files on one device) are never counted as two domains;
//! "survives" is said only when every volume that the policy can place survives it, wherever it lies: the loss touches
//! no more domains than the policy tolerates.
use crate::disk::{Disk, Warning, WarningKind, size_text};
use model::arithmetic::fault_domains_needed;
use model::capacity::{UsableByPolicy, usable_by_policy};
use model::ids::DiskId;
use model::placement::{Room, Topology, place};
use model::policy::Policy;
use model::recommend::{Candidate, recommend};
use model::state::{DiskRole, HostKind, Media};
use model::units::{DISK_BYTES_MIN, VOLUME_BYTES_MIN};
use std::collections::{BTreeMap, BTreeSet};

/// Components of a disk that are assumed for a preview: more than one volume needs.
const COMPONENTS_MAX: u32 = 9000;

/// A disk, a file or a slice that could carry data.
#[derive(Clone, Debug, PartialEq, Eq)]
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

impl From<&Disk> for Member {
    fn from(disk: &Disk) -> Self {
        Self {
            id: disk.id,
            name: disk.name().to_owned(),
            size_bytes: disk.facts.size_bytes.unwrap_or(0),
            media: disk.media().unwrap_or(Media::Hdd),
            body: disk.body.clone(),
            controller: disk.facts.controller.clone(),
            enclosure: disk.facts.enclosure.clone(),
        }
    }
}

/// One failure domain of a grouping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Domain {
    /// Name, fit for a host.
    pub name: String,
    /// Cache disks; none when each capacity disk carries its own log. One cache may serve several domains.
    pub cache: Vec<DiskId>,
    /// Disks that carry data.
    pub capacity: Vec<DiskId>,
}

/// What one policy gets from a grouping.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Yield {
    /// Usable bytes, domains needed and counted, bytes that stay unused.
    pub usable: UsableByPolicy,
    /// Why it cannot be placed; `None` when it can.
    pub refusal: Option<String>,
    /// What would make it possible, in one sentence: the smallest thing to buy.
    pub remedy: Option<String>,
    /// Every single loss that all volumes survive: `disk sda`, `controller 0000:3b:00.0`.
    pub survives: Vec<String>,
    /// Every single loss that some volume does not survive.
    pub dies_with: Vec<String>,
}

/// A way to divide the machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Grouping {
    /// Kind of each domain; the noun follows it.
    pub kind: HostKind,
    /// One line: `each disk is a failure domain`.
    pub title: String,
    /// The domains.
    pub domains: Vec<Domain>,
    /// What each policy gets, in the order given.
    pub yields: Vec<Yield>,
    /// What to know.
    pub warnings: Vec<Warning>,
}

/// Proposals for these members, finest first: each disk, each disk behind slices of one flash disk, each controller, each
/// enclosure, the whole machine. Those that would be the same are left out.
pub fn propose(members: &[Member], policies: &[Policy]) -> Vec<Grouping> {
    let mut drafts: Vec<(HostKind, &str, Vec<Domain>)> = vec![(
        HostKind::Disk,
        "each disk is a failure domain",
        by(members, "", &|member| Some(member.body.clone())),
    )];
    if let Some(domains) = behind_one_cache(members) {
        drafts.push((
            HostKind::Disk,
            "each rotating disk is a failure domain, with a slice of one flash disk",
            domains,
        ));
    }
    let controllers = by(members, "controller-", &|member| member.controller.clone());
    drafts.push((HostKind::Enclosure, "each controller is a failure domain", controllers));
    let enclosures = by(members, "enclosure-", &|member| member.enclosure.clone());
    drafts.push((HostKind::Enclosure, "each enclosure is a failure domain", enclosures));
    let machine = by(members, "", &|_| Some("machine".into()));
    drafts.push((HostKind::Machine, "the whole machine is one failure domain", machine));
    let mut seen: Vec<BTreeSet<Vec<DiskId>>> = Vec::new();
    let mut groupings = Vec::new();
    for (kind, title, domains) in drafts {
        let shape =
            domains.iter().map(|domain| [domain.cache.clone(), domain.capacity.clone()].concat()).collect();
        if !domains.is_empty() && !seen.contains(&shape) {
            seen.push(shape);
            groupings.push(evaluate(kind, title, domains, members, policies));
        }
    }
    groupings
}

/// Domains by a key. Members without one stay together: what nobody knows is not counted as independent. No key at all:
/// no domains.
fn by(members: &[Member], prefix: &str, key: &dyn Fn(&Member) -> Option<String>) -> Vec<Domain> {
    if members.iter().all(|member| key(member).is_none()) {
        return Vec::new();
    }
    let mut groups: BTreeMap<String, Vec<&Member>> = BTreeMap::new();
    for member in members {
        groups.entry(key(member).unwrap_or_else(|| "unknown".into())).or_default().push(member);
    }
    let mut names = BTreeSet::new();
    let domain = |(key, group): (String, Vec<&Member>)| {
        let wished = match (prefix, group.as_slice()) {
            ("", [only]) => only.name.clone(),
            _ => format!("{prefix}{key}"),
        };
        domain_of(free_name(&wished, &mut names), &group)
    };
    groups.into_iter().map(domain).collect()
}

/// A name of letters, digits, dot, underscore and hyphen that nobody has yet.
fn free_name(wished: &str, taken: &mut BTreeSet<String>) -> String {
    let allowed = |one: char| if one.is_ascii_alphanumeric() || "._-".contains(one) { one } else { '-' };
    let mut name: String = wished.chars().take(60).map(allowed).collect();
    if !name.starts_with(|first: char| first.is_ascii_alphanumeric()) {
        name.insert(0, 'd');
    }
    let plain = name.clone();
    let mut count = 1;
    while !taken.insert(name.clone()) {
        count += 1;
        name = format!("{plain}-{count}");
    }
    name
}

/// A domain with the roles that `model` recommends for its disks.
fn domain_of(name: String, group: &[&Member]) -> Domain {
    let candidate = |member: &&Member| Candidate {
        id: member.id,
        name: member.name.clone(),
        size_bytes: member.size_bytes,
        media: member.media,
    };
    let candidates: Vec<Candidate> = group.iter().map(candidate).collect();
    let roles = recommend(&candidates);
    let of = |wanted: &[DiskRole]| {
        roles.iter().filter(|one| wanted.contains(&one.role)).map(|one| one.id).collect()
    };
    Domain { name, cache: of(&[DiskRole::Cache]), capacity: of(&[DiskRole::Capacity, DiskRole::Combined]) }
}

/// One flash disk before at least two rotating ones: each of them a domain, with a slice.
fn behind_one_cache(members: &[Member]) -> Option<Vec<Domain>> {
    let flash: Vec<&Member> = members.iter().filter(|member| member.media == Media::Flash).collect();
    let rotating: Vec<Member> = members.iter().filter(|member| member.media == Media::Hdd).cloned().collect();
    let ([cache], true) = (flash.as_slice(), rotating.len() >= 2) else { return None };
    let mut domains = by(&rotating, "", &|member| Some(member.body.clone()));
    domains.iter_mut().for_each(|domain| domain.cache = vec![cache.id]);
    Some(domains)
}

/// What a grouping survives and yields; for proposals and for what a person made of them.
pub fn evaluate(
    kind: HostKind,
    title: &str,
    domains: Vec<Domain>,
    members: &[Member],
    policies: &[Policy],
) -> Grouping {
    let known: BTreeMap<DiskId, &Member> = members.iter().map(|member| (member.id, member)).collect();
    let merged = merged_domains(&domains, &known);
    let topology = topology(&domains, &merged, &known);
    let losses = losses(&domains, &merged, &known);
    let yields = policies.iter().map(|policy| yield_of(policy, &topology, &losses, &known)).collect();
    let mut warnings = shared_bodies(&domains, &merged);
    warnings.extend(shared_caches(&domains, &known));
    if let Some(policy) = policies.first() {
        warnings.extend(uneven(policy, &topology));
    }
    Grouping { kind, title: title.to_owned(), domains, yields, warnings }
}

/// The domain that each domain counts as: those that share a body of a capacity disk are one.
fn merged_domains(domains: &[Domain], known: &BTreeMap<DiskId, &Member>) -> Vec<usize> {
    let mut merged: Vec<usize> = (0..domains.len()).collect();
    let mut first: BTreeMap<&str, usize> = BTreeMap::new();
    for (index, domain) in domains.iter().enumerate() {
        for member in domain.capacity.iter().filter_map(|id| known.get(id)) {
            let (from, to) = (merged[index], merged[*first.entry(&member.body).or_insert(index)]);
            merged.iter_mut().filter(|one| **one == from).for_each(|one| *one = to);
        }
    }
    merged
}

fn topology(domains: &[Domain], merged: &[usize], known: &BTreeMap<DiskId, &Member>) -> Topology {
    let mut rooms = Vec::new();
    for (index, domain) in domains.iter().enumerate() {
        for member in domain.capacity.iter().filter_map(|id| known.get(id)) {
            rooms.push(Room {
                disk: member.id,
                disk_name: member.name.clone(),
                host: domain.name.clone(),
                fault_domain: domains[merged[index]].name.clone(),
                site: None,
                total_bytes: member.size_bytes,
                free_bytes: member.size_bytes,
                promised_bytes: 0,
                components: 0,
                components_max: COMPONENTS_MAX,
                unusable: None,
            });
        }
    }
    Topology { rooms }
}

/// Every single thing that can be lost, and the domains that it touches.
fn losses(
    domains: &[Domain],
    merged: &[usize],
    known: &BTreeMap<DiskId, &Member>,
) -> BTreeMap<String, BTreeSet<usize>> {
    let mut losses: BTreeMap<String, BTreeSet<usize>> = BTreeMap::new();
    let mut names: BTreeMap<&str, BTreeSet<&str>> = BTreeMap::new();
    for member in known.values() {
        names.entry(&member.body).or_default().insert(&member.name);
    }
    for (index, domain) in domains.iter().enumerate() {
        for member in domain.capacity.iter().chain(&domain.cache).filter_map(|id| known.get(id)) {
            let body: Vec<&str> = names[member.body.as_str()].iter().copied().collect();
            let noun = if body.len() > 1 { "the device with" } else { "disk" };
            let mut touch = |what: String| losses.entry(what).or_default().insert(merged[index]);
            touch(format!("{noun} {}", body.join(", ")));
            member.controller.as_ref().map(|key| touch(format!("controller {key}")));
            member.enclosure.as_ref().map(|key| touch(key.clone()));
        }
    }
    losses
}

fn yield_of(
    policy: &Policy,
    topology: &Topology,
    losses: &BTreeMap<String, BTreeSet<usize>>,
    known: &BTreeMap<DiskId, &Member>,
) -> Yield {
    let mut usable = usable_by_policy(topology, policy);
    let refusal = place(topology, policy, VOLUME_BYTES_MIN).err();
    let tolerated = usize::from(policy.failures_to_tolerate);
    let (mut survives, mut dies_with) = (Vec::new(), Vec::new());
    if refusal.is_none() {
        for (what, touched) in losses {
            let list = if touched.len() <= tolerated { &mut survives } else { &mut dies_with };
            list.push(what.clone());
        }
    } else {
        usable.usable_bytes = 0;
    }
    let remedy = refusal.as_ref().and_then(|_| remedy(policy, topology, known));
    Yield { usable, refusal: refusal.map(|refusal| refusal.summary), remedy, survives, dies_with }
}

/// The smallest thing to add so that the policy can be placed: tiny disks for witnesses if they will do, else disks as
/// large as the smallest one. With what it then yields.
fn remedy(policy: &Policy, topology: &Topology, known: &BTreeMap<DiskId, &Member>) -> Option<String> {
    let missing =
        fault_domains_needed(policy).saturating_sub(usable_by_policy(topology, policy).has_fault_domains);
    let smallest = topology.rooms.iter().map(|room| room.total_bytes).min()?;
    let sizes = [DISK_BYTES_MIN, smallest.max(DISK_BYTES_MIN)];
    let with = |size_bytes: u64| {
        let mut larger = topology.clone();
        let template = topology.rooms.first()?;
        for index in 0..missing {
            let name = format!("new-{}", index + 1);
            let id = fresh_id(index, known);
            let more = Room {
                disk: id,
                disk_name: name.clone(),
                host: name.clone(),
                fault_domain: name,
                ..template.clone()
            };
            larger.rooms.push(Room { total_bytes: size_bytes, free_bytes: size_bytes, ..more });
        }
        let usable = usable_by_policy(&larger, policy).usable_bytes;
        (usable > 0 && place(&larger, policy, VOLUME_BYTES_MIN).is_ok()).then_some(usable)
    };
    let works = sizes.into_iter().filter_map(|size| Some((size, with(size)?)));
    let said: Vec<String> = works
        .map(|(size, usable)| {
            let noun = if missing == 1 { "device" } else { "devices" };
            format!(
                "{missing} more {noun} of at least {} (then {} are usable)",
                size_text(size),
                size_text(usable)
            )
        })
        .collect();
    (missing > 0 && !said.is_empty()).then(|| format!("add {}", said.join(", or ")))
}

fn fresh_id(index: u32, known: &BTreeMap<DiskId, &Member>) -> DiskId {
    let ids = (0..=u128::MAX).map(|number| DiskId(uuid::Uuid::from_u128(number)));
    ids.filter(|id| !known.contains_key(id)).nth(index as usize).unwrap_or(DiskId(uuid::Uuid::nil()))
}

fn shared_bodies(domains: &[Domain], merged: &[usize]) -> Vec<Warning> {
    let mut of: BTreeMap<usize, Vec<&str>> = BTreeMap::new();
    for (index, domain) in domains.iter().enumerate() {
        of.entry(merged[index]).or_default().push(&domain.name);
    }
    let shared = of.into_values().filter(|names| names.len() > 1);
    let sentence = |names: Vec<&str>| Warning {
        kind: WarningKind::SharedFate,
        text: format!(
            "{} lie on one device and fail together: {} count as 1",
            names.join(" and "),
            names.len()
        ),
    };
    shared.map(sentence).collect()
}

fn shared_caches(domains: &[Domain], known: &BTreeMap<DiskId, &Member>) -> Vec<Warning> {
    let mut users: BTreeMap<DiskId, Vec<&str>> = BTreeMap::new();
    for domain in domains {
        domain.cache.iter().for_each(|id| users.entry(*id).or_default().push(&domain.name));
    }
    let shared = users.into_iter().filter(|(_, names)| names.len() > 1);
    let sentence = |(id, names): (DiskId, Vec<&str>)| Warning {
        kind: WarningKind::SharedFate,
        text: format!(
            "{} is the cache of {}: when it fails, all {} are lost at once",
            known.get(&id).map_or("one disk", |member| member.name.as_str()),
            names.join(", "),
            names.len()
        ),
    };
    shared.map(sentence).collect()
}

/// What domains of different sizes leave unused under a policy.
fn uneven(policy: &Policy, topology: &Topology) -> Option<Warning> {
    let usable = usable_by_policy(topology, policy);
    let unused: u64 = usable.stranded_bytes.values().sum();
    if usable.usable_bytes == 0 || unused == 0 {
        return None;
    }
    let (name, most) = usable.stranded_bytes.iter().max_by_key(|(_, bytes)| **bytes)?;
    let text = format!(
        "uneven failure domains: under the policy {} {} stay unused, {} of them in {name}; {} are usable",
        policy.name,
        size_text(unused),
        size_text(*most),
        size_text(usable.usable_bytes)
    );
    Some(Warning { kind: WarningKind::UnevenDomains, text })
}

#[cfg(test)]
mod tests;
