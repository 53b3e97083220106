//! What was posted, into the draft. [`put`] is pure and also serves previews; [`save`] stores, and does what buttons ask.
use super::{Posted, Step, group, posted};
use crate::app::{App, Cluster};
use crate::edge::Rng;
use crate::error::{AppError, FieldError};
use crate::service::auth::{Actor, check_name};
use crate::service::draft::{self, Claim, Draft, Services, SpaceEfficiency};
use crate::service::grouping::{Candidate, Wish, serves_others};
use crate::service::inventory::Seen;
use crate::service::{cluster, disks, lab, licence, plan};
use ::inventory::grouping::free_name;
use model::ids::DiskId;
use model::plan::LabShape;
use model::policy::{FaultToleranceMethod, Policy, SiteTolerance};
use model::state::{ClusterType, HostKind};
use model::view::FaultDomainView;

/// Puts the answers of a step into the draft.
///
/// # Errors
/// [`AppError::Invalid`] with every wrong field; what was right is in the draft.
pub fn put(
    draft: &mut Draft,
    step: Step,
    form: &Posted,
    rng: &dyn Rng,
    candidates: &[Candidate],
) -> Result<(), AppError> {
    match step {
        Step::Group => {
            let Some(wish) = group::wish_of(form) else { return Ok(()) };
            AppError::check(wish.problems())?;
            wish.put(draft, rng, candidates);
            Ok(())
        }
        Step::Hosts => {
            let name = posted(form, "name").trim();
            draft.name = name.to_owned();
            check_name(name).map_err(|detail| AppError::field("name", detail))
        }
        Step::Type => {
            draft.cluster_type = match posted(form, "type") {
                "two-node" => ClusterType::TwoNode,
                "stretched" => ClusterType::Stretched,
                "compute" => ClusterType::Compute,
                _ => ClusterType::SingleSite,
            };
            Ok(())
        }
        Step::Services => {
            let space_efficiency = match posted(form, "space_efficiency") {
                "compression" => SpaceEfficiency::Compression,
                "deduplication" => SpaceEfficiency::Deduplication,
                _ => SpaceEfficiency::None,
            };
            draft.services = Services { space_efficiency, encryption: posted(form, "encryption") == "on" };
            Ok(())
        }
        Step::Domains => domains(draft, form),
        Step::Disks => {
            draft.claims = claims(draft, form);
            Ok(())
        }
        Step::Policies => {
            let chosen = posted(form, "default_policy");
            if draft.policies.iter().any(|policy| policy.name == chosen) {
                chosen.clone_into(&mut draft.default_policy);
            }
            Ok(())
        }
        Step::Licence => {
            let key = posted(form, "key").trim();
            let community = posted(form, "edition") != "key" || key.is_empty();
            draft.licence_key = (!community).then(|| key.to_owned());
            Ok(())
        }
        Step::Review => Ok(()),
    }
}

/// `fd.HOST=NAME`; an empty name: the host is its own.
fn domains(draft: &mut Draft, form: &Posted) -> Result<(), AppError> {
    let mut domains: Vec<FaultDomainView> = Vec::new();
    for host in &draft.hosts {
        let name = posted(form, &format!("fd.{}", host.name)).trim();
        if name.is_empty() {
            continue;
        }
        match domains.iter_mut().find(|domain| domain.name == name) {
            Some(domain) => domain.hosts.push(host.name.clone()),
            None => domains.push(FaultDomainView { name: name.to_owned(), hosts: vec![host.name.clone()] }),
        }
    }
    draft.set_fault_domains(domains)
}

/// `d.ID=cache|capacity|none`, `e.ID=MARK`: the mark of what was shown.
fn claims(draft: &Draft, form: &Posted) -> Vec<Claim> {
    let mut claims = Vec::new();
    // Cache disks whose slices serve the other hosts.
    let mut slices = Vec::new();
    for host in &draft.hosts {
        let mut claim = Claim { host: host.name.clone(), ..Claim::default() };
        for disk in draft.disks.iter().filter(|disk| disk.host == host.name) {
            let list = match posted(form, &format!("d.{}", disk.id)) {
                "cache" => &mut claim.cache,
                "capacity" => &mut claim.capacity,
                _ => continue,
            };
            list.push(disk.id);
            let mark = posted(form, &format!("e.{}", disk.id));
            if !mark.is_empty() {
                claim.tick(disk.id, mark);
            }
        }
        if claim.capacity.is_empty() && serves_others(draft, &host.name) {
            slices.push(claim);
        } else if !claim.capacity.is_empty() || !claim.cache.is_empty() {
            claims.push(claim);
        }
    }
    let slices: Vec<(DiskId, Option<String>)> = slices
        .iter()
        .flat_map(|claim| claim.cache.iter().map(|id| (*id, claim.expected.get(id).cloned())))
        .collect();
    let without = claims.iter_mut().filter(|claim: &&mut Claim| claim.cache.is_empty());
    for (index, claim) in without.enumerate() {
        let Some((id, mark)) = slices.get(index % slices.len().max(1)) else { break };
        claim.cache.push(*id);
        if let Some(mark) = mark {
            claim.tick(*id, mark.clone());
        }
    }
    claims
}

/// The policy in the editor.
///
/// # Errors
/// [`AppError::Invalid`] with every field that is no number.
pub fn policy(form: &Posted) -> Result<Policy, AppError> {
    fn number<T: std::str::FromStr>(
        form: &Posted,
        name: &'static str,
        otherwise: T,
        errors: &mut Vec<FieldError>,
    ) -> T {
        match posted(form, name).trim() {
            "" => otherwise,
            text => text.parse().unwrap_or_else(|_| {
                errors.push(FieldError::new(name, format!("\"{text}\" is not a whole number that fits")));
                otherwise
            }),
        }
    }
    let mut errors = Vec::new();
    let method = match posted(form, "fault_tolerance_method") {
        "raid5" => FaultToleranceMethod::Raid5,
        "raid6" => FaultToleranceMethod::Raid6,
        _ => FaultToleranceMethod::Raid1,
    };
    let legs = number(form, "data_legs", 3, &mut errors);
    let limit = posted(form, "iops_limit").trim();
    let policy = Policy {
        name: posted(form, "name").trim().to_owned(),
        failures_to_tolerate: match method {
            FaultToleranceMethod::Raid1 => number(form, "failures_to_tolerate", 1, &mut errors),
            FaultToleranceMethod::Raid5 => 1,
            FaultToleranceMethod::Raid6 => 2,
        },
        fault_tolerance_method: method,
        data_legs: match method {
            FaultToleranceMethod::Raid1 => None,
            FaultToleranceMethod::Raid5 => Some(if legs == 2 { 2 } else { 3 }),
            FaultToleranceMethod::Raid6 => Some(4),
        },
        stripe_width: number(form, "stripe_width", 1, &mut errors),
        object_space_reservation_percent: number(form, "object_space_reservation_percent", 0, &mut errors),
        iops_limit: if limit.is_empty() { None } else { Some(number(form, "iops_limit", 1, &mut errors)) },
        checksum: form.is_empty() || posted(form, "checksum") == "on",
        force_provisioning: posted(form, "force_provisioning") == "on",
        site_tolerance: SiteTolerance::None,
        version: 1,
    };
    AppError::check(errors)?;
    Ok(policy)
}

fn lab_shape(form: &Posted) -> Result<LabShape, AppError> {
    let mut errors = Vec::new();
    let hosts = posted(form, "lab_hosts").trim().parse().unwrap_or_else(|_| {
        errors.push(FieldError::new("lab_hosts", "a number of hosts, 1 to 64"));
        0
    });
    let mut disks = |field: &'static str| {
        lab::parse_disks(posted(form, field)).unwrap_or_else(|detail| {
            errors.push(FieldError::new(field, detail));
            model::plan::DiskShape { count: 0, size_bytes: 0 }
        })
    };
    let (cache, capacity) = (disks("lab_cache"), disks("lab_capacity"));
    AppError::check(errors)?;
    Ok(LabShape { hosts, cache, capacity })
}

/// Fields of the lab form carry a prefix.
fn prefixed(error: AppError) -> AppError {
    match error {
        AppError::Invalid(errors) => {
            let named = |error: FieldError| FieldError { field: format!("lab_{}", error.field), ..error };
            AppError::Invalid(errors.into_iter().map(named).collect())
        }
        other => other,
    }
}

/// A licence that is wrong is a wrong field of its step.
fn of_the_key(error: AppError) -> AppError {
    match error {
        AppError::Invalid(errors) => AppError::Invalid(
            errors.into_iter().map(|error| FieldError { field: "key".into(), ..error }).collect(),
        ),
        other => other,
    }
}

/// Stores a step and does what its button asks. `Some` is an address to go to instead of the next step.
///
/// # Errors
/// [`AppError::Invalid`], [`AppError::Conflict`], [`AppError::NotYet`].
pub async fn save(
    app: &App,
    actor: &Actor,
    cluster: &Cluster,
    step: Step,
    form: &Posted,
) -> Result<Option<String>, AppError> {
    let go = posted(form, "go");
    let version = posted(form, "version").parse().ok();
    if step == Step::Licence && posted(form, "edition") == "key" {
        licence::verify(app, posted(form, "key").trim()).await.map_err(of_the_key)?;
    }
    if step == Step::Review {
        let configure = cluster::Configure::default();
        let task = cluster::configure(app, actor, cluster, version, &configure).await?;
        return Ok(Some(format!("/setup-cluster/{}/progress?task={task}", cluster.key)));
    }
    let lab = if (step, go) == (Step::Hosts, "lab") { Some(lab_shape(form)?) } else { None };
    let new_policy = if (step, go) == (Step::Policies, "add") { Some(policy(form)?) } else { None };
    let seen = if step == Step::Disks { disks::seen_for_draft(app, cluster).await? } else { Seen::default() };
    let snapshot = cluster.snapshot().await?;
    let known = super::candidates(app, &draft::load(app, &cluster.key).await?.draft, step).await?;
    let change = |draft: &mut Draft| {
        let rng = app.rng.as_ref();
        let before = draft.claims.clone();
        if step == Step::Group {
            group::act(draft, rng, &known, form, go)?;
        } else {
            put(draft, step, form, rng, &known)?;
        }
        if step == Step::Disks {
            // What the person sees now is what each disk is compared with before it is written.
            let named = disks::named_by(&draft.claims);
            disks::adopt(app, &seen, &snapshot, draft, &named).map_err(|error| claim_fields(draft, error))?;
        }
        match (step, go.split_once(':')) {
            (Step::Hosts, Some(("remove", name))) => draft.remove_host(name),
            (Step::Policies, Some(("remove", name))) => draft.delete_policy(name)?,
            _ => {}
        }
        match (step, go) {
            (Step::Hosts, "add") => draft
                .add_host(app.rng.as_ref(), posted(form, "host").trim(), HostKind::Machine)
                .map_err(renamed)?,
            (Step::Group, "next" | "review") => group::check(app, draft, &known)?,
            (Step::Disks, "recommend") => recommend(draft, before),
            (Step::Domains, "clear") => draft.fault_domains.clear(),
            (Step::Disks, "next") => check_claims(draft)?,
            _ => {}
        }
        // The step that claims disks begins with the recommendation.
        if step < Step::Disks && matches!(go, "next" | "review") && draft.claims.is_empty() {
            draft.claims = plan::recommended_claims(draft);
        }
        if let Some(policy) = &new_policy {
            draft.put_policy(policy.clone(), None)?;
        }
        if matches!(go, "next" | "leave") {
            step.beside(1).unwrap_or(step).row().1.clone_into(&mut draft.step);
        }
        if go == "review" {
            Step::Review.row().1.clone_into(&mut draft.step);
        }
        Ok(())
    };
    draft::change_unconfigured(app, actor, cluster, version, change).await?;
    if let Some(shape) = lab {
        lab::plan(app, actor, cluster, None, &shape).await.map_err(prefixed)?;
    }
    match (step, go) {
        (Step::Hosts, "file") => add_file(app, actor, cluster, form).await?,
        (Step::Group, "file") => add_domain_file(app, actor, cluster, form).await?,
        (_, "review") => return Ok(Some(Step::Review.href(&cluster.key))),
        _ => {}
    }
    Ok(None)
}

/// The recommended roles: slices as they were, whatever the form says of them, and the ticks of the form.
fn recommend(draft: &mut Draft, before: Vec<Claim>) {
    let ticked = draft.ticked();
    draft.claims = before;
    for claim in &mut draft.claims {
        (claim.erase, claim.expected) = (ticked.keys().copied().collect(), ticked.clone());
    }
    draft.claims = plan::recommended_claims(draft);
}

fn renamed(error: AppError) -> AppError {
    match error {
        AppError::Invalid(errors) => AppError::Invalid(
            errors.into_iter().map(|error| FieldError { field: "host".into(), ..error }).collect(),
        ),
        AppError::Conflict(text) => AppError::field("host", text),
        other => other,
    }
}

fn check_claims(draft: &Draft) -> Result<(), AppError> {
    plan::check_claims(draft, &draft.claims).map_err(|error| claim_fields(draft, error))
}

/// The error with the fields of the form.
fn claim_fields(draft: &Draft, error: AppError) -> AppError {
    match error {
        AppError::Invalid(errors) => {
            let named =
                |error: FieldError| FieldError { field: field_of_claim(draft, &error.field), ..error };
            AppError::Invalid(errors.into_iter().map(named).collect())
        }
        other => other,
    }
}

/// `claims[1].capacity[0]` → the id of that disk's row, so that the summary can lead there.
fn field_of_claim(draft: &Draft, field: &str) -> String {
    let numbers: Vec<usize> = field.split(['[', ']']).filter_map(|part| part.parse().ok()).collect();
    let id: Option<&DiskId> = match numbers.as_slice() {
        [claim, disk] => draft.claims.get(*claim).and_then(|claim| {
            if field.contains("cache") { claim.cache.get(*disk) } else { claim.capacity.get(*disk) }
        }),
        _ => None,
    };
    id.map_or_else(|| "disks".to_owned(), |id| format!("disk-{id}"))
}

async fn add_file(app: &App, actor: &Actor, cluster: &Cluster, form: &Posted) -> Result<(), AppError> {
    let size_bytes = file_size(form)?;
    let (host, path) = (posted(form, "file_host").trim(), posted(form, "file_path").trim());
    let added = disks::add_file(app, actor, cluster, host, path, size_bytes).await;
    added.map(|_| ()).map_err(of_file)
}

fn file_size(form: &Posted) -> Result<Option<u64>, AppError> {
    match posted(form, "file_size").trim() {
        "" => Ok(None),
        text => lab::parse_size(text)
            .map(Some)
            .ok_or_else(|| AppError::field("file_size", "a size is written 1GiB or 1073741824")),
    }
}

/// Fields of a file carry a prefix.
fn of_file(error: AppError) -> AppError {
    let named = |error: FieldError| {
        let field =
            if error.field == "size_bytes" { "file_size".into() } else { format!("file_{}", error.field) };
        FieldError { field, ..error }
    };
    match error {
        AppError::Invalid(errors) => AppError::Invalid(errors.into_iter().map(named).collect()),
        AppError::Conflict(text) => AppError::field("file_path", text),
        other => other,
    }
}

/// Adds a file with a failure domain of its own: of the same kind as the others, to be moved or merged like them.
async fn add_domain_file(app: &App, actor: &Actor, cluster: &Cluster, form: &Posted) -> Result<(), AppError> {
    let (size_bytes, path) = (file_size(form)?, posted(form, "file_path").trim());
    let folder = std::path::Path::new(path).parent().unwrap_or(std::path::Path::new("/"));
    let free = lab::free_bytes(folder)?;
    if let Some(size) = size_bytes.filter(|size| *size > free) {
        // The file is sparse at first: one that could never be filled would promise what is not there.
        let text = format!(
            "{} is more than {} has free: {}",
            super::size(size),
            folder.display(),
            super::size(free)
        );
        return Err(AppError::field("file_size", text));
    }
    let stem = std::path::Path::new(path).file_stem().map(|stem| stem.to_string_lossy().into_owned());
    let wished = stem.unwrap_or_else(|| "file".into());
    let kind = group::wish_of(form).map_or(HostKind::Disk, |wish| wish.kind);
    let add = |draft: &mut Draft| {
        let mut taken = draft.hosts.iter().map(|host| host.name.clone()).collect();
        let name = free_name(&wished, &mut taken);
        draft.add_host(app.rng.as_ref(), &name, kind)?;
        Ok(name)
    };
    let (host, _) = draft::change_unconfigured(app, actor, cluster, None, add).await?;
    let added = disks::add_file(app, actor, cluster, &host, path, size_bytes).await;
    let settle = |draft: &mut Draft, candidates: &[Candidate]| {
        if added.is_err() {
            draft.remove_host(&host);
        } else {
            Wish::from_draft(draft).put(draft, app.rng.as_ref(), candidates);
        }
        Ok(())
    };
    let known = super::candidates(app, &draft::load(app, &cluster.key).await?.draft, Step::Group).await?;
    draft::change_unconfigured(app, actor, cluster, None, |draft| settle(draft, &known)).await?;
    added.map(|_| ()).map_err(of_file)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::{Rng, SystemRng};

    fn form(pairs: &[(&str, &str)]) -> Posted {
        pairs.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect()
    }

    fn lab_draft() -> Draft {
        let rng: &dyn Rng = &SystemRng;
        let mut draft = Draft::new(rng, None);
        lab::put(&mut draft, rng, std::path::Path::new("/data"), &lab::parse_shape("hosts=3").unwrap());
        draft
    }

    #[test]
    fn claims_are_what_was_chosen_and_erasure_is_by_name() {
        let mut draft = lab_draft();
        draft.disks[1].holds_data = true;
        let ids: Vec<String> = draft.disks.iter().map(|disk| disk.id.to_string()).collect();
        let (cache, capacity, erase) =
            (format!("d.{}", ids[0]), format!("d.{}", ids[1]), format!("e.{}", ids[1]));
        let seen = model::plan::Review {
            identity: "file:1:1".into(),
            contents: Some("ext4".into()),
            fingerprint: "a".into(),
        };
        draft.disks[1].looked = Some(seen);
        let mark = draft.disks[1].mark();
        let mut pairs = vec![(cache.as_str(), "cache"), (capacity.as_str(), "capacity")];
        put(&mut draft, Step::Disks, &form(&pairs), &SystemRng, &[]).unwrap();
        assert_eq!((draft.claims.len(), draft.claims[0].erase.len()), (1, 0));
        assert!(check_claims(&draft).is_err(), "it holds something and nobody ticked it");
        pairs.push((erase.as_str(), mark.as_str()));
        put(&mut draft, Step::Disks, &form(&pairs), &SystemRng, &[]).unwrap();
        assert_eq!(draft.claims[0].erase.len(), 1);
        assert!(check_claims(&draft).is_ok());
        // What it holds now is not what was ticked.
        if let Some(seen) = &mut draft.disks[1].looked {
            (seen.contents, seen.fingerprint) = (Some("LVM".into()), "b".into());
        }
        let error = check_claims(&draft).unwrap_err().to_string();
        assert!(error.contains("holds LVM now"), "{error}");
    }

    #[test]
    fn hosts_without_a_name_are_domains_of_their_own() {
        let mut draft = lab_draft();
        let named = form(&[("fd.h1", "rack-a"), ("fd.h2", " rack-a "), ("fd.h3", "")]);
        put(&mut draft, Step::Domains, &named, &SystemRng, &[]).unwrap();
        assert_eq!(draft.fault_domains.len(), 1);
        assert_eq!(draft.fault_domains[0].hosts, ["h1", "h2"]);
        let wrong = put(&mut draft, Step::Domains, &form(&[("fd.h1", "../x")]), &SystemRng, &[]);
        assert!(matches!(wrong, Err(AppError::Invalid(_))));
    }

    #[test]
    fn a_policy_follows_its_method() {
        let raid6 = policy(&form(&[
            ("name", "safe"),
            ("fault_tolerance_method", "raid6"),
            ("failures_to_tolerate", "0"),
        ]))
        .unwrap();
        assert_eq!((raid6.failures_to_tolerate, raid6.data_legs), (2, Some(4)));
        let mirror =
            policy(&form(&[("name", "m"), ("failures_to_tolerate", "2"), ("checksum", "on")])).unwrap();
        assert_eq!((mirror.failures_to_tolerate, mirror.data_legs, mirror.checksum), (2, None, true));
        let wrong = policy(&form(&[("stripe_width", "many"), ("iops_limit", "-1")]));
        assert!(matches!(wrong, Err(AppError::Invalid(errors)) if errors.len() == 2));
    }
}
