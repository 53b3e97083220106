//! From a draft to a plan, and to a picture of the cluster that it would make. Pure.
//!
//! The picture ([`picture`]) is a snapshot like any other, so that capacity, placement and what-if answer for a draft with the
//! same functions that decide on the live cluster.
use crate::error::{AppError, FieldError};
use crate::service::auth::check_name;
use crate::service::draft::{
    Claim, Draft, DraftDisk, SpaceEfficiency, fault_domain_problems, policy_problems,
};
use model::disk_room::{LOG_BYTES_MIN, SLICES_MAX, data_bytes, slice_bytes};
use model::engine::Capabilities;
use model::ids::{DiskGroupId, DiskId};
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

/// The claims that follow the recommendation for every host. Disks that hold something are left out.
pub fn recommended_claims(draft: &Draft) -> Vec<Claim> {
    let mut claims = Vec::new();
    for host in &draft.hosts {
        let blank: Vec<Candidate> =
            disks_of(draft, &host.name).filter(|disk| !disk.holds_data).map(candidate).collect();
        let mut claim = Claim { host: host.name.clone(), ..Claim::default() };
        for advice in recommend(&blank) {
            match advice.role {
                DiskRole::Cache => claim.cache.push(advice.id),
                DiskRole::Capacity | DiskRole::Combined => claim.capacity.push(advice.id),
                DiskRole::None => {}
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
    let contents = disk.review.as_ref().and_then(|review| review.contents.as_deref()).unwrap_or("something");
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
                review: disk.review.clone(),
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
    let mut fault_domains = draft.fault_domains.clone();
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
    let mut warnings = model::capacity::effective_domains(&hosts, &draft.fault_domains).warnings;
    if (1..3).contains(&claimed.len()) {
        let count = claimed.len();
        warnings.push(format!(
            "{count} of the 3 hosts that a mirrored volume needs: volumes can be made without protection only, until more are added"
        ));
    }
    let mut users: BTreeMap<DiskId, u32> = BTreeMap::new();
    draft.claims.iter().flat_map(|claim| &claim.cache).for_each(|id| *users.entry(*id).or_default() += 1);
    for (id, _) in users.iter().filter(|(_, count)| **count > 1) {
        let name = draft.disk(*id).map_or_else(|| id.to_string(), |disk| disk.name.clone());
        warnings.push(format!("cache disk {name} is shared: the disk groups behind it fail together"));
    }
    warnings
}

/// The cluster that the draft would make, as if it ran and held nothing. Unclaimed disks do not appear.
pub fn picture(draft: &Draft, now: Timestamp) -> Snapshot {
    let groups = planned_groups(draft, &draft.claims);
    let domain_of = |host: &str| {
        let mut domains = draft.fault_domains.iter();
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
        fault_domains: draft.fault_domains.clone(),
        sites: draft.sites.clone(),
        default_policy: draft.default_policy.clone(),
        repair_delay_seconds: draft.repair_delay_seconds,
        licence_key: draft.licence_key.clone(),
        created_at: now,
        config_version: (0, 0),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::{Rng, SystemRng};
    use crate::service::lab;
    use model::engine::EngineKind;
    use std::path::Path;

    fn nothing_special() -> Capabilities {
        Capabilities { engine: EngineKind::Native, features: BTreeMap::new() }
    }

    fn lab_draft(shape: &str) -> Draft {
        let rng: &dyn Rng = &SystemRng;
        let mut draft = Draft::new(rng, None);
        lab::put(&mut draft, rng, Path::new("/data"), &lab::parse_shape(shape).unwrap());
        draft.name = "mill".into();
        draft.claims = recommended_claims(&draft);
        draft
    }

    fn fields(result: Result<ClusterPlan, AppError>) -> Vec<String> {
        match result {
            Err(AppError::Invalid(errors)) => errors.into_iter().map(|error| error.field).collect(),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn the_recommended_lab_is_a_plan() {
        let draft = lab_draft("hosts=4,cache=1x256MiB,capacity=2x1GiB");
        let plan = plan(&draft, &nothing_special()).unwrap();
        assert_eq!((plan.hosts.len(), plan.claims.len()), (4, 4));
        assert!(plan.claims.iter().all(|group| group.cache.is_some() && group.capacity.len() == 2));
        assert_eq!(picture(&draft, Timestamp(0)).disks.len(), 12);
    }

    #[test]
    fn without_a_cache_each_disk_is_its_own_group() {
        let mut draft = lab_draft("hosts=3,cache=0,capacity=2x1GiB");
        draft.claims.iter_mut().for_each(|claim| claim.capacity.append(&mut claim.cache));
        let plan = plan(&draft, &nothing_special()).unwrap();
        assert_eq!(plan.claims.len(), 6);
        assert!(plan.claims.iter().all(|group| group.cache.is_none() && group.capacity.len() == 1));
    }

    #[test]
    fn every_wrong_claim_names_its_field() {
        let mut draft = lab_draft("hosts=3,cache=1x256MiB,capacity=2x1GiB");
        let foreign = draft.claims[1].capacity[0];
        draft.claims[0].capacity.push(foreign);
        draft.claims[2].host = "h9".into();
        draft.name = "../x".into();
        let wrong = fields(plan(&draft, &nothing_special()));
        for field in ["name", "claims[0].capacity[2]", "claims[2].host"] {
            assert!(wrong.contains(&field.to_owned()), "{field} in {wrong:?}");
        }
    }

    #[test]
    fn a_disk_that_holds_something_is_only_taken_when_it_is_listed() {
        let mut draft = lab_draft("hosts=3,cache=1x256MiB,capacity=1x1GiB");
        let id = draft.claims[0].capacity[0];
        draft.disks.iter_mut().filter(|disk| disk.id == id).for_each(|disk| disk.holds_data = true);
        assert_eq!(fields(plan(&draft, &nothing_special())), ["claims[0].capacity[0]"]);
        draft.claims[0].erase.push(id);
        assert!(plan(&draft, &nothing_special()).is_ok());
    }

    #[test]
    fn what_the_engine_lacks_is_named() {
        let mut draft = lab_draft("hosts=3");
        draft.services.encryption = true;
        let error = plan(&draft, &nothing_special()).unwrap_err();
        assert!(matches!(&error, AppError::NotYet(text) if text.contains("encryption")), "{error}");
    }
}
