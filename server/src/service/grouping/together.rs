//! Hosts whose data lies on one device: they are lost together, so they count as one fault domain, whoever names others.
//!
//! Map: [`settled`] what the fault domains of a draft are; [`split`] and [`torn`] what is refused, and why; [`hosts_of`] the hosts
//! of a cluster that runs.
//! Invariant: what is shown and what is made both ask [`settled`]: a form, a claim or a request cannot make two of one device.
use super::{ONE_DEVICE, described, division};
use crate::app::App;
use crate::error::{AppError, FieldError};
use crate::service::draft::{Claim, Draft, DraftDisk};
use crate::service::{inventory, survives};
use ::inventory::grouping::{Division, Domain, free_name};
use model::state::{DiskRole, HostKind};
use model::view::{FaultDomainView, Snapshot};
use std::collections::BTreeSet;

/// The named fault domains of a draft, with hosts on one device together.
pub fn settled(draft: &Draft) -> Vec<FaultDomainView> {
    let mut domains = draft.fault_domains.clone();
    let hosts = draft.hosts.iter().map(|host| &host.name);
    let mut names: BTreeSet<String> = hosts.chain(domains.iter().map(|one| &one.name)).cloned().collect();
    for hosts in division(draft, &[]).together() {
        merge(&mut domains, &hosts, &mut names);
    }
    domains
}

/// Puts hosts on one device into one named fault domain: into the first that has one of them, with all that the others of
/// them were together with, or else into a new one.
fn merge(domains: &mut Vec<FaultDomainView>, hosts: &[&str], names: &mut BTreeSet<String>) {
    let has_one = |domain: &FaultDomainView| domain.hosts.iter().any(|host| hosts.contains(&host.as_str()));
    let at = domains.iter().position(has_one);
    let mut all: Vec<String> =
        domains.iter().filter(|domain| has_one(domain)).flat_map(|domain| domain.hosts.clone()).collect();
    for host in hosts {
        if !all.iter().any(|known| known == host) {
            all.push((*host).to_owned());
        }
    }
    let name = match at {
        Some(at) => domains[at].name.clone(),
        None => free_name(&format!("{ONE_DEVICE}{}", hosts[0]), names),
    };
    domains.retain(|domain| !has_one(domain));
    let at = at.unwrap_or(domains.len()).min(domains.len());
    domains.insert(at, FaultDomainView { name, hosts: all });
}

/// Why hosts are one fault domain, in a sentence.
pub fn sentence(hosts: &[&str]) -> String {
    format!("{} lie on one device and fail together: they are one fault domain", hosts.join(" and "))
}

fn domain_of<'a>(domains: &'a [FaultDomainView], host: &str) -> Option<&'a str> {
    let domain = domains.iter().find(|domain| domain.hosts.iter().any(|known| known == host));
    domain.map(|domain| domain.name.as_str())
}

/// Hosts on one device that these fault domains keep apart by name. What they do not name is put together by [`settled`] while
/// there is a draft; a cluster that runs (`named_only` is false) has to be told.
pub fn split(division: &Division, domains: &[FaultDomainView], named_only: bool) -> Vec<FieldError> {
    let is_split = |hosts: &Vec<&str>| {
        let mut named: BTreeSet<Option<&str>> = hosts.iter().map(|host| domain_of(domains, host)).collect();
        if named_only {
            named.remove(&None);
        }
        named.len() > 1 || !named_only && named.contains(&None)
    };
    let problem = |hosts: Vec<&str>| FieldError::new("fault_domains", sentence(&hosts));
    division.together().into_iter().filter(is_split).map(problem).collect()
}

/// Hosts of a cluster that runs, with their data disks and what those lie on. The hosts of a lab are played by files: what these
/// lie on is not asked.
///
/// # Errors
/// [`AppError::Internal`].
pub async fn hosts_of(app: &App, snapshot: &Snapshot) -> Result<Division, AppError> {
    let lab = snapshot.hosts.iter().any(|host| host.kind == HostKind::Lab);
    let data = |role: DiskRole| matches!(role, DiskRole::Capacity | DiskRole::Combined) && !lab;
    let disks: Vec<_> = snapshot.disks.iter().filter(|disk| data(disk.role)).collect();
    let members = match disks.is_empty() {
        true => Vec::new(),
        false => {
            let files: Vec<DraftDisk> = disks.iter().map(|disk| survives::as_file(disk)).collect();
            described(files, &inventory::look(app).await).await?
        }
    };
    let of_host = |host: &str| disks.iter().filter(|disk| disk.host == host).map(|disk| disk.id).collect();
    let domain = |host: &model::view::HostView| Domain {
        name: host.name.clone(),
        cache: Vec::new(),
        capacity: of_host(&host.name),
    };
    let kind = snapshot.hosts.first().map_or(HostKind::Disk, |host| host.kind);
    Ok(Division { kind, domains: snapshot.hosts.iter().map(domain).collect(), members })
}

/// Claims that would put data of another host on a device that has some already, field by field: both copies would go at once.
pub fn torn(
    draft: &Draft,
    claims: &[Claim],
    running: &Division,
    domains: &[FaultDomainView],
) -> Vec<FieldError> {
    let mut all = running.clone();
    let added = Draft { claims: claims.to_vec(), ..draft.clone() };
    let added = division(&added, &[]);
    all.members.extend(added.members);
    let mut problems = Vec::new();
    for (index, claim) in claims.iter().enumerate() {
        let mut with = all.clone();
        let (cache, capacity) = (Vec::new(), claim.capacity.clone());
        with.domains.push(Domain { name: claim.host.clone(), cache, capacity });
        let is_apart = |host: &&str| {
            *host != claim.host
                && (domain_of(domains, host).is_none()
                    || domain_of(domains, host) != domain_of(domains, &claim.host))
        };
        let lists = with.together();
        let list = lists.iter().filter(|hosts| hosts.contains(&claim.host.as_str()));
        if let Some(other) = list.flatten().copied().find(|host| is_apart(host)) {
            let detail = format!(
                "{}; claim the disk for {other}, or put both hosts into one fault domain first",
                sentence(&[other, &claim.host])
            );
            problems.push(FieldError::new(format!("claims[{index}].capacity"), detail));
        }
        all.domains = with.domains;
    }
    problems
}
