//! From a draft to a plan, and to a picture of the cluster that it would make. Pure.
//!
//! The picture ([`picture`]) is a snapshot like any other, so that capacity, placement and what-if answer for a draft with the
//! same functions that decide on the live cluster.
use crate::error::{AppError, FieldError};
use crate::service::auth::check_name;
use crate::service::disks::changed;
use crate::service::draft::{
    Claim, Draft, DraftDisk, SpaceEfficiency, fault_domain_problems, policy_problems,
};
use crate::service::format::plural;
use crate::service::grouping::{division, serves_others, together};
use model::arithmetic::fault_domains_needed;
use model::capacity::usable_by_policy;
use model::claims::noun_of;
use model::disk_room::{LOG_BYTES_MIN, SLICES_MAX, data_bytes, slice_bytes};
use model::engine::Capabilities;
use model::ids::{DiskGroupId, DiskId};
use model::placement::Topology;
use model::plan::{ClusterPlan, PlannedDisk, PlannedGroup, PlannedHost};
use model::recommend::{Candidate, GROUP_CAPACITY_MAX, Recommendation, recommend};
use model::state::{ClusterState, ClusterType, DiskRole, DiskState, HostState};
use model::units::{DISK_BYTES_MIN, Timestamp};
use model::view::{ClusterView, DiskView, HostView, ResyncView, Snapshot};
use std::collections::{BTreeMap, BTreeSet};

/// Components that a host may carry. Source: vSAN, 9,000.
const COMPONENTS_MAX: u32 = 9_000;
/// Disk groups of one host at most. Source: vSAN.
const HOST_GROUPS_MAX: usize = 5;

/// The recommended role of every disk of a host, with the reason.
pub fn recommendations(draft: &Draft, host: &str) -> Vec<Recommendation> {
    let candidates: Vec<Candidate> = disks_of(draft, host).map(candidate).collect();
    recommend(&candidates)
}

fn disks_of<'a>(draft: &'a Draft, host: &'a str) -> impl Iterator<Item = &'a DraftDisk> {
    draft.disks.iter().filter(move |disk| disk.host == host)
}

fn candidate(disk: &DraftDisk) -> Candidate {
    Candidate { id: disk.id, name: disk.name.clone(), size_bytes: disk.size_bytes, media: disk.media }
}

/// The claims that follow the recommendation for every host. Disks that hold something are left out, unless they are ticked.
/// A cache disk whose slices serve several hosts stays that: its own host is no domain with data.
pub fn recommended_claims(draft: &Draft) -> Vec<Claim> {
    let ticked = draft.ticked();
    let may_go = |disk: &&DraftDisk| !disk.holds_data || ticked.get(&disk.id) == Some(&disk.mark());
    let slice = |host: &str| {
        let claim = draft.claims.iter().find(|claim| claim.host == host)?;
        let foreign = |id: &&DiskId| draft.disk(**id).is_some_and(|disk| disk.host != host);
        claim.cache.iter().find(foreign).copied()
    };
    let mut claims = Vec::new();
    for host in &draft.hosts {
        if serves_others(draft, &host.name) {
            continue;
        }
        let blank: Vec<Candidate> = disks_of(draft, &host.name).filter(may_go).map(candidate).collect();
        let mut claim = Claim { host: host.name.clone(), ..Claim::default() };
        for advice in recommend(&blank) {
            match advice.role {
                DiskRole::Cache => claim.cache.push(advice.id),
                DiskRole::Capacity | DiskRole::Combined => claim.capacity.push(advice.id),
                DiskRole::None => {}
            }
        }
        if let Some(slice) = slice(&host.name) {
            let own = std::mem::replace(&mut claim.cache, vec![slice]);
            claim.capacity.extend(own);
        }
        for id in claim.cache.clone().into_iter().chain(claim.capacity.clone()) {
            if let (Some(mark), Some(true)) = (ticked.get(&id), draft.disk(id).map(|disk| disk.holds_data)) {
                claim.tick(id, mark.clone());
            }
        }
        if !claim.capacity.is_empty() {
            claims.push(claim);
        }
    }
    claims
}

/// What is wrong with claims, field by field.
fn claim_problems(draft: &Draft, claims: &[Claim]) -> Vec<FieldError> {
    let mut problems = Vec::new();
    let mut seen = BTreeSet::new();
    for (index, claim) in claims.iter().enumerate() {
        let field = format!("claims[{index}]");
        problems.extend(slice_problems(draft, claims, claim, &format!("{field}.cache")));
        if draft.host(&claim.host).is_none() {
            problems.push(FieldError::new(
                format!("{field}.host"),
                format!("there is no host \"{}\"", claim.host),
            ));
        }
        if claim.capacity.is_empty() {
            problems.push(FieldError::new(format!("{field}.capacity"), "name at least one capacity disk"));
        }
        let groups = groups_of(claim).len();
        if groups > HOST_GROUPS_MAX && !claim.cache.is_empty() {
            let detail = format!("{groups} disk groups; at most {HOST_GROUPS_MAX} a host");
            problems.push(FieldError::new(format!("{field}.cache"), detail));
        }
        if !claim.cache.is_empty() && claim.capacity.len() > claim.cache.len() * GROUP_CAPACITY_MAX {
            let detail = format!("at most {GROUP_CAPACITY_MAX} capacity disks for each cache disk");
            problems.push(FieldError::new(format!("{field}.capacity"), detail));
        }
        let named = [("cache", &claim.cache), ("capacity", &claim.capacity)];
        for (part, id, place) in named
            .iter()
            .flat_map(|(part, ids)| ids.iter().enumerate().map(move |(place, id)| (*part, *id, place)))
        {
            // A cache disk may be named by several claims: they share it in slices.
            let turn = if part == "cache" { index } else { 0 };
            let problem = disk_problem(draft, claim, id, !seen.insert((id, part, turn)));
            problems
                .extend(problem.map(|detail| FieldError::new(format!("{field}.{part}[{place}]"), detail)));
        }
    }
    let by_capacity: BTreeSet<DiskId> =
        claims.iter().flat_map(|claim| claim.capacity.iter().copied()).collect();
    for (index, claim) in claims.iter().enumerate() {
        if claim.cache.iter().any(|id| by_capacity.contains(id)) {
            problems.push(FieldError::new(
                format!("claims[{index}].cache"),
                "a disk is cache or capacity, not both",
            ));
        }
    }
    problems
}

fn disk_problem(draft: &Draft, claim: &Claim, id: DiskId, twice: bool) -> Option<String> {
    let Some(disk) = draft.disk(id) else {
        return Some(format!("there is no free disk {id}"));
    };
    if disk.host != claim.host && !claim.cache.contains(&id) {
        return Some(format!("disk {} belongs to host \"{}\"", disk.name, disk.host));
    }
    if twice {
        return Some(format!("disk {} is claimed twice", disk.name));
    }
    if disk.size_bytes < DISK_BYTES_MIN {
        return Some(format!("disk {} is smaller than {} MiB", disk.name, DISK_BYTES_MIN >> 20));
    }
    let contents = disk.seen().and_then(|review| review.contents.as_deref()).unwrap_or("something");
    let expected = claim.expected.get(&id).filter(|_| claim.erase.contains(&id));
    if expected.is_some_and(|expected| *expected != disk.mark()) {
        return Some(changed(&disk.name, Some(contents)));
    }
    (disk.holds_data && !claim.erase.contains(&id)).then(|| {
        format!("disk {} holds {contents}; name it in `erase` if that may go, or leave it out", disk.name)
    })
}

/// What is wrong with cache disks that are named by claims of several hosts: such a disk has a host of its own, and no more slices
/// than a label has room for.
fn slice_problems(draft: &Draft, claims: &[Claim], claim: &Claim, field: &str) -> Vec<FieldError> {
    let carries = |host: &str| claims.iter().any(|other| other.host == host && !other.capacity.is_empty());
    let mut problems = Vec::new();
    for disk in claim.cache.iter().filter_map(|id| draft.disk(*id)) {
        if disk.host != claim.host && carries(&disk.host) {
            let detail = format!(
                "cache disk {} belongs to host \"{}\", which has data disks of its own: with that host it would take \"{}\" \
                 along; give it a host of its own",
                disk.name, disk.host, claim.host
            );
            problems.push(FieldError::new(field, detail));
        }
        let users = claims.iter().filter(|other| other.cache.contains(&disk.id)).count();
        let slice = slice_bytes(disk.size_bytes, users);
        if users > 1 && slice == 0 {
            let detail = format!(
                "cache disk {} cannot be shared in {users} slices: at most {SLICES_MAX}, each of at least {} MiB",
                disk.name,
                LOG_BYTES_MIN >> 20
            );
            problems.push(FieldError::new(field, detail));
        }
    }
    problems
}

/// Disk groups of a claim.
fn groups_of(claim: &Claim) -> Vec<(Option<DiskId>, Vec<DiskId>)> {
    model::claims::groups(&claim.cache, &claim.capacity)
}

/// Disk groups as an engine takes them. The claims must have no problems.
pub fn planned_groups(draft: &Draft, claims: &[Claim]) -> Vec<PlannedGroup> {
    let mut planned = Vec::new();
    for claim in claims {
        let Some(host) = draft.host(&claim.host) else { continue };
        let disk = |id: &DiskId| {
            draft.disk(*id).map(|disk| PlannedDisk {
                id: disk.id,
                name: disk.name.clone(),
                path: disk.path.clone(),
                size_bytes: disk.size_bytes,
                media: disk.media,
                make_file: disk.make_file,
                erase: claim.erase.contains(id),
                review: disk.seen().cloned(),
            })
        };
        for (cache, capacity) in groups_of(claim) {
            let home = cache.and_then(|id| draft.disk(id)).and_then(|disk| draft.host(&disk.host));
            let cache = cache.as_ref().and_then(disk);
            planned.push(PlannedGroup {
                host: host.id,
                cache_host: home.map(|home| home.id).filter(|home| *home != host.id),
                cache,
                capacity: capacity.iter().filter_map(disk).collect(),
            });
        }
    }
    planned
}

/// What this engine lacks of what the draft asks for, by name.
fn missing(draft: &Draft, can: &Capabilities) -> Option<String> {
    let asked = [
        ("two-node", draft.cluster_type == ClusterType::TwoNode),
        ("stretched", draft.cluster_type == ClusterType::Stretched),
        ("compute", draft.cluster_type == ClusterType::Compute),
        ("sites", !draft.sites.is_empty()),
        ("compression", draft.services.space_efficiency == SpaceEfficiency::Compression),
        ("deduplication", draft.services.space_efficiency == SpaceEfficiency::Deduplication),
        ("encryption", draft.services.encryption),
    ];
    let (name, _) = asked.into_iter().find(|(name, asked)| *asked && !can.can(name))?;
    let why = can.features.get(name).and_then(|feature| feature.why_not.clone());
    Some(why.unwrap_or_else(|| {
        format!("`{name}` is not there yet; leave it out and choose it in a later release")
    }))
}

/// The plan of the cluster, checked from scratch: disks and rules may have changed since a step was filled in.
///
/// # Errors
/// [`AppError::NotYet`] for what the engine lacks; [`AppError::Invalid`] with every wrong field.
pub fn plan(draft: &Draft, can: &Capabilities) -> Result<ClusterPlan, AppError> {
    if let Some(text) = missing(draft, can) {
        return Err(AppError::NotYet(text));
    }
    let mut problems = Vec::new();
    if let Err(detail) = check_name(&draft.name) {
        problems.push(FieldError::new("name", detail));
    }
    if draft.claims.is_empty() {
        problems.push(FieldError::new("claims", "claim at least one capacity disk"));
    }
    problems.extend(claim_problems(draft, &draft.claims));
    let claimed = used_hosts(draft);
    let hosts: Vec<&str> = draft.hosts.iter().map(|host| host.name.as_str()).collect();
    problems.extend(fault_domain_problems(&draft.fault_domains, &hosts));
    problems.extend(together::split(&division(draft, &[]), &draft.fault_domains, true));
    for policy in &draft.policies {
        let field = |problem: FieldError| {
            FieldError::new(format!("policies[{}].{}", policy.name, problem.field), problem.detail)
        };
        problems.extend(policy_problems(policy).into_iter().map(field));
    }
    if !draft.policies.iter().any(|policy| policy.name == draft.default_policy) {
        let detail = format!("there is no policy \"{}\"", draft.default_policy);
        problems.push(FieldError::new("default_policy", detail));
    }
    AppError::check(problems)?;
    let hosts = draft.hosts.iter().filter(|host| claimed.contains(host.name.as_str()));
    let mut fault_domains = together::settled(draft);
    fault_domains.iter_mut().for_each(|domain| domain.hosts.retain(|host| claimed.contains(host.as_str())));
    fault_domains.retain(|domain| !domain.hosts.is_empty());
    Ok(ClusterPlan {
        id: draft.cluster,
        name: draft.name.clone(),
        cluster_type: draft.cluster_type,
        hosts: hosts
            .map(|host| PlannedHost {
                id: host.id,
                name: host.name.clone(),
                kind: host.kind,
                role: host.role,
            })
            .collect(),
        fault_domains,
        sites: draft.sites.clone(),
        claims: planned_groups(draft, &draft.claims),
        policies: draft.policies.clone(),
        default_policy: draft.default_policy.clone(),
        repair_delay_seconds: draft.repair_delay_seconds,
        licence_key: draft.licence_key.clone(),
    })
}

/// Hosts that the claims use: those with data, and those whose cache disks serve others.
fn used_hosts(draft: &Draft) -> BTreeSet<&str> {
    let caches = draft.claims.iter().flat_map(|claim| &claim.cache);
    let homes = caches.filter_map(|id| draft.disk(*id)).map(|disk| disk.host.as_str());
    draft.claims.iter().map(|claim| claim.host.as_str()).chain(homes).collect()
}

/// Checks claims that are added to a cluster that runs.
///
/// # Errors
/// [`AppError::Invalid`].
pub fn check_claims(draft: &Draft, claims: &[Claim]) -> Result<(), AppError> {
    let mut problems = claim_problems(draft, claims);
    if claims.is_empty() {
        problems.push(FieldError::new("claims", "claim at least one capacity disk"));
    }
    AppError::check(problems)
}

/// What one or two fault domains mean, and other things to know although the plan is valid.
pub fn warnings(draft: &Draft) -> Vec<String> {
    let claimed: BTreeSet<&str> = draft.claims.iter().map(|claim| claim.host.as_str()).collect();
    // A host whose disks only carry logs of others holds no data: it is in no fault domain, and none is missing for it.
    let used = used_hosts(draft);
    let only_logs = |host: &str| used.contains(host) && !claimed.contains(host);
    let hosts = draft.hosts.iter().filter(|host| !only_logs(&host.name));
    let hosts: Vec<(&str, bool)> =
        hosts.map(|host| (host.name.as_str(), claimed.contains(host.name.as_str()))).collect();
    let mut warnings = model::capacity::effective_domains(&hosts, &together::settled(draft)).warnings;
    warnings.extend(too_few(draft));
    let mut users: BTreeMap<DiskId, u32> = BTreeMap::new();
    draft.claims.iter().flat_map(|claim| &claim.cache).for_each(|id| *users.entry(*id).or_default() += 1);
    for (id, _) in users.iter().filter(|(_, count)| **count > 1) {
        let name = draft.disk(*id).map_or_else(|| id.to_string(), |disk| disk.name.clone());
        warnings.push(format!("the cache disk {name} is shared: the disk groups behind it fail together"));
    }
    warnings
}

/// That the default policy needs more fault domains than there are with data; `None` when it does not, or none is there yet.
fn too_few(draft: &Draft) -> Option<String> {
    let policy = draft.policies.iter().find(|policy| policy.name == draft.default_policy)?;
    let usable = usable_by_policy(&Topology::from_snapshot(&picture(draft, Timestamp(0))), policy);
    let (has, needs) = (usable.has_fault_domains, fault_domains_needed(policy));
    if !(1..needs).contains(&has) {
        return None;
    }
    let kind = draft.claims.first().and_then(|claim| draft.host(&claim.host)).map(|host| host.kind);
    let noun = if together::settled(draft).is_empty() { noun_of(kind?) } else { "fault domain" };
    Some(format!(
        "{has} of the {} that the policy {} needs: until more are added, volumes can only be made with a policy that survives less",
        plural(needs.into(), noun),
        policy.name
    ))
}

/// The cluster that the draft would make, as if it ran and held nothing. Unclaimed disks do not appear.
pub fn picture(draft: &Draft, now: Timestamp) -> Snapshot {
    let groups = planned_groups(draft, &draft.claims);
    let named = together::settled(draft);
    let domain_of = |host: &str| {
        let mut domains = named.iter();
        domains.find(|domain| domain.hosts.iter().any(|name| name == host)).map(|domain| domain.name.clone())
    };
    let hosts = draft.hosts.iter().map(|host| HostView {
        id: host.id,
        name: host.name.clone(),
        kind: host.kind,
        role: host.role,
        state: HostState::Connected,
        state_since: now,
        fault_domain: domain_of(&host.name),
        site: None,
        disk_groups: u32::try_from(groups.iter().filter(|group| group.host == host.id).count())
            .unwrap_or(u32::MAX),
        components: 0,
        components_max: COMPONENTS_MAX,
        faults: Vec::new(),
    });
    let mut disks = Vec::new();
    for group in &groups {
        let Some(host) = draft.hosts.iter().find(|host| host.id == group.host) else { continue };
        // A cache disk may serve several groups: a group is called after its first data disk.
        let group_id = group.capacity.first().map(|disk| DiskGroupId(disk.id.0));
        let capacity = if group.cache.is_some() { DiskRole::Capacity } else { DiskRole::Combined };
        let cache = group.cache.iter().map(|disk| (disk, DiskRole::Cache));
        let all = cache.chain(group.capacity.iter().map(|disk| (disk, capacity)));
        for (disk, role) in all {
            let home = draft.disk(disk.id).map_or(host.name.as_str(), |known| known.host.as_str());
            match disks.iter_mut().find(|known: &&mut DiskView| known.id == disk.id) {
                Some(shared) => shared.serves.extend(group_id),
                None => disks.push(planned_disk(disk, role, home, group_id)),
            }
        }
    }
    Snapshot {
        version: 0,
        taken_at: now,
        cluster: planned_cluster(draft, now),
        hosts: hosts.collect(),
        disks,
        policies: draft.policies.clone(),
        objects: Vec::new(),
        resync: ResyncView::default(),
        tasks: Vec::new(),
    }
}

fn planned_disk(disk: &PlannedDisk, role: DiskRole, host: &str, group: Option<DiskGroupId>) -> DiskView {
    // Labels, log, maps and what is kept back: no data will lie there.
    let laid_out = match role {
        DiskRole::Capacity | DiskRole::Combined => disk.size_bytes - data_bytes(role, disk.size_bytes),
        DiskRole::Cache | DiskRole::None => 0,
    };
    DiskView {
        id: disk.id,
        name: disk.name.clone(),
        host: host.to_owned(),
        path: disk.path.clone(),
        size_bytes: disk.size_bytes,
        media: disk.media,
        role,
        disk_group: group,
        serves: Vec::new(),
        used_bytes: laid_out,
        reserved_bytes: 0,
        metadata_bytes: laid_out,
        state: DiskState::Healthy,
        components: 0,
        checksum_errors: 0,
        faults: Vec::new(),
    }
}

fn planned_cluster(draft: &Draft, now: Timestamp) -> ClusterView {
    ClusterView {
        id: draft.cluster,
        name: draft.name.clone(),
        cluster_type: draft.cluster_type,
        state: ClusterState::Unconfigured,
        state_reason: None,
        writable: true,
        fault_domains: together::settled(draft),
        sites: draft.sites.clone(),
        default_policy: draft.default_policy.clone(),
        repair_delay_seconds: draft.repair_delay_seconds,
        licence_key: draft.licence_key.clone(),
        created_at: now,
        config_version: (0, 0),
    }
}

#[cfg(test)]
mod tests;
