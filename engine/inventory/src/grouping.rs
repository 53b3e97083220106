//! Failure domains out of one machine: proposals, and what any grouping survives and yields. Pure; what is said is `model`'s
//! own (`claims`), which the native engine checks in its simulator, so a page here and the engine there cannot differ.
//!
//! Map: this file proposes and evaluates; `words` makes sentences of it.
//! Invariants: disks of one body (two halves of a drive, several files on one device) are never counted as two domains;
//! "survives" is said only when every volume that the policy can place survives it, wherever it lies.
use crate::disk::{Disk, Warning, WarningKind, size_text};
use model::arithmetic::fault_domains_needed;
use model::capacity::{UsableByPolicy, usable_by_policy};
use model::claims::{Verdict, verdict};
use model::disk_room::{SLICES_MAX, data_bytes, slice_bytes};
use model::ids::DiskId;
use model::placement::{Room, Topology, place};
use model::policy::Policy;
use model::recommend::{Candidate, recommend};
use model::state::{DiskRole, HostKind, Media};
use model::units::{DISK_BYTES_MIN, VOLUME_BYTES_MIN};
use std::collections::{BTreeMap, BTreeSet};

mod words;

pub use model::claims::{Division, Domain, Member};

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
    /// The same in sentences, each with the noun of what is lost.
    pub sentences: Vec<Sentence>,
}

/// One thing that is survived, or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Sentence {
    /// Whether it is good news.
    pub good: bool,
    /// `Survives the loss of any one disk.`
    pub text: String,
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

impl Grouping {
    /// Whether everything that can be lost alone is survived under the first policy.
    pub fn survives_all(&self) -> bool {
        self.yields.first().is_some_and(|one| one.refusal.is_none() && one.dies_with.is_empty())
    }
}

/// The proposal to begin with: one that survives every single loss under the first policy, of those the one that yields most; else
/// the one that yields most.
pub fn best(groupings: &[Grouping]) -> Option<usize> {
    let worth = |grouping: &Grouping| {
        let usable = grouping.yields.first().map_or(0, |one| one.usable.usable_bytes);
        (grouping.survives_all(), usable)
    };
    // The first of equals: the finest.
    let mut order: Vec<usize> = (0..groupings.len()).collect();
    order.sort_by_key(|index| std::cmp::Reverse(worth(&groupings[*index])));
    order.first().copied()
}

/// Proposals for these members, finest first: each disk, each disk behind slices of flash disks, each controller, each
/// enclosure, the whole machine. Those that would be the same are left out.
pub fn propose(members: &[Member], policies: &[Policy]) -> Vec<Grouping> {
    let mut drafts: Vec<(HostKind, &str, Vec<Domain>)> =
        vec![(HostKind::Disk, "each disk is a failure domain", by_body(members))];
    if let Some((title, domains)) = behind_flash(members) {
        drafts.push((HostKind::Disk, title, domains));
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

/// One domain for each device; what lies on one device together carries its own logs: a cache beside it would be no faster.
fn by_body(members: &[Member]) -> Vec<Domain> {
    let mut domains = by(members, "", &|member| Some(member.body.clone()));
    for domain in &mut domains {
        let cache = std::mem::take(&mut domain.cache);
        domain.capacity.extend(cache);
    }
    domains
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
            ("", [only, ..]) if key != "machine" => only.name.clone(),
            _ => format!("{prefix}{key}"),
        };
        domain_of(free_name(&wished, &mut names), &group)
    };
    groups.into_iter().map(domain).collect()
}

/// A name of letters, digits, dot, underscore and hyphen that nobody has yet.
pub fn free_name(wished: &str, taken: &mut BTreeSet<String>) -> String {
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
pub fn domain_of(name: String, group: &[&Member]) -> Domain {
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

/// Flash before at least two rotating disks: each of those a domain, with a flash disk of its own where there are enough, else
/// with a slice. `None` when there is no such mix, or a slice would be too small for a log.
fn behind_flash(members: &[Member]) -> Option<(&'static str, Vec<Domain>)> {
    let mut flash: Vec<&Member> = members.iter().filter(|member| member.media == Media::Flash).collect();
    flash.sort_by_key(|member| (std::cmp::Reverse(member.size_bytes), member.name.as_str()));
    let rotating: Vec<Member> = members.iter().filter(|member| member.media == Media::Hdd).cloned().collect();
    if flash.is_empty() || rotating.len() < 2 {
        return None;
    }
    let mut domains = by_body(&rotating);
    let users = |index: usize, count: usize| (index..count).step_by(flash.len()).count();
    let fits = |(index, member): (usize, &&Member)| {
        let users = users(index, domains.len());
        users == 0 || users <= SLICES_MAX && slice_bytes(member.size_bytes, users) > 0
    };
    if !flash.iter().enumerate().all(fits) {
        return None;
    }
    let title = match (flash.len(), domains.len()) {
        (flash, count) if flash >= count => {
            "each rotating disk is a failure domain, with a cache disk of its own"
        }
        (1, _) => "each rotating disk is a failure domain, with a slice of one flash disk",
        _ => "each rotating disk is a failure domain, with a slice of a flash disk",
    };
    for (index, domain) in domains.iter_mut().enumerate() {
        domain.cache = vec![flash[index % flash.len()].id];
    }
    Some((title, domains))
}

/// What a grouping survives and yields; for proposals and for what a person made of them.
pub fn evaluate(
    kind: HostKind,
    title: &str,
    domains: Vec<Domain>,
    members: &[Member],
    policies: &[Policy],
) -> Grouping {
    let division = Division { kind, domains, members: members.to_vec() };
    let topology = division.topology();
    let judged = |policy: &Policy| yield_of(policy, &division, &topology);
    let yields = policies.iter().map(judged).collect();
    let mut warnings = words::shared_bodies(&division);
    warnings.extend(words::shared_caches(&division));
    if let Some(policy) = policies.first() {
        warnings.extend(uneven(policy, &topology));
    }
    Grouping { kind, title: title.to_owned(), domains: division.domains, yields, warnings }
}

fn yield_of(policy: &Policy, division: &Division, topology: &Topology) -> Yield {
    let verdict = verdict(division, policy, true);
    let named = |survived: bool| {
        let claims = verdict.singles.iter().filter(|claim| claim.worst().goes_on() == survived);
        claims.map(|claim| verdict.names(claim).join(" and ")).collect()
    };
    let (survives, dies_with) = (named(true), named(false));
    let sentences = words::sentences(&verdict, division.kind);
    let remedy = verdict.refusal.as_ref().and_then(|_| remedy(policy, division, topology));
    let Verdict { usable, refusal, .. } = verdict;
    Yield { usable, refusal, remedy, survives, dies_with, sentences }
}

/// What to buy so that the policy can be placed: disks as large as the smallest one, with what they then yield; and that tiny
/// ones do, where they are only there for witnesses.
fn remedy(policy: &Policy, division: &Division, topology: &Topology) -> Option<String> {
    let missing =
        fault_domains_needed(policy).saturating_sub(usable_by_policy(topology, policy).has_fault_domains);
    let rooms: BTreeSet<DiskId> = topology.rooms.iter().map(|room| room.disk).collect();
    let sizes = division.members.iter().filter(|member| rooms.contains(&member.id));
    let smallest = sizes.map(|member| member.size_bytes).min()?;
    let with = |size_bytes: u64| {
        let bytes = data_bytes(DiskRole::Combined, size_bytes);
        let mut larger = topology.clone();
        let template = topology.rooms.first()?;
        for index in 0..missing {
            let name = format!("new-{}", index + 1);
            let more = Room {
                disk: fresh_id(index, division),
                disk_name: name.clone(),
                host: name.clone(),
                fault_domain: name,
                ..template.clone()
            };
            larger.rooms.push(Room { total_bytes: bytes, free_bytes: bytes, ..more });
        }
        let usable = usable_by_policy(&larger, policy).usable_bytes;
        (usable > 0 && place(&larger, policy, VOLUME_BYTES_MIN).is_ok()).then_some(usable)
    };
    let mut sizes = vec![DISK_BYTES_MIN];
    sizes.extend((smallest > DISK_BYTES_MIN).then_some(smallest));
    let mut works =
        sizes.into_iter().rev().filter_map(|size| Some((size_text(size), size_text(with(size)?))));
    let (size, usable) = works.next().filter(|_| missing > 0)?;
    let noun = words::remedy_noun(division.kind, missing);
    let said = format!("{missing} more {noun} of at least {size} (then {usable} are usable)");
    Some(match works.next() {
        Some((size, usable)) => {
            let tiny = words::tiny(division.kind, missing, &size);
            format!("{said}. For the witness alone {tiny} enough (then {usable} are usable)")
        }
        None => said,
    })
}

fn fresh_id(index: u32, division: &Division) -> DiskId {
    let ids = (0..=u128::MAX).map(|number| DiskId(uuid::Uuid::from_u128(number)));
    ids.filter(|id| division.member(*id).is_none()).nth(index as usize).unwrap_or(DiskId(uuid::Uuid::nil()))
}

/// What domains of different sizes leave unused under a policy.
fn uneven(policy: &Policy, topology: &Topology) -> Option<Warning> {
    let usable = usable_by_policy(topology, policy);
    let unused: u64 = usable.stranded_bytes.values().sum();
    // What the even share leaves by rounding is not worth a word.
    if usable.usable_bytes == 0 || unused < DISK_BYTES_MIN {
        return None;
    }
    let parts: Vec<String> = usable
        .stranded_bytes
        .iter()
        .filter(|(_, bytes)| **bytes >= DISK_BYTES_MIN)
        .map(|(name, bytes)| format!("{} of {name}", size_text(*bytes)))
        .collect();
    let text = format!(
        "uneven failure domains: under the policy {} {} stay unused ({}); {} are usable",
        policy.name,
        size_text(unused),
        parts.join(", "),
        size_text(usable.usable_bytes)
    );
    Some(Warning { kind: WarningKind::UnevenDomains, text })
}

#[cfg(test)]
mod tests;
