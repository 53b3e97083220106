//! The claim step: disks host by host, with what is recommended for each and what to know before.
use super::body::domain_of;
use super::size;
use crate::app::{App, Cluster};
use crate::error::AppError;
use crate::service::disks::{self, Disk};
use crate::service::draft::Draft;
use crate::service::plan;
use crate::web::format;
use crate::web::parts::Choice;
use crate::web::view::words;
use model::ids::DiskId;
use model::state::{DiskRole, Eligibility};
use std::collections::BTreeMap;

/// A disk of the claim table.
pub struct DiskRow {
    /// Id.
    pub id: String,
    /// Short name.
    pub name: String,
    /// Model and serial, or path.
    pub model: String,
    /// Media.
    pub media: &'static str,
    /// Size as printed on it.
    pub label: String,
    /// Size in binary units.
    pub binary: String,
    /// What it holds.
    pub contents: String,
    /// Whether it holds something.
    pub holds_data: bool,
    /// Whether erasing it is ticked.
    pub erase: bool,
    /// The mark of what it holds: the value of the tick.
    pub mark: String,
    /// `cache`, `capacity`, `none`.
    pub role: &'static str,
    /// Choices.
    pub choices: Vec<Choice>,
    /// Why this role is recommended, or why it cannot be claimed.
    pub reason: String,
    /// What to know before it is claimed.
    pub warnings: Vec<String>,
    /// Whether it can be claimed.
    pub eligible: bool,
}

/// The disks of one host.
pub struct DiskHost {
    /// Name, or `This machine`.
    pub name: String,
    /// Fault domain.
    pub domain: String,
    /// Sums.
    pub sums: String,
    /// Disks.
    pub disks: Vec<DiskRow>,
}

fn role_of(draft: &Draft, id: DiskId) -> &'static str {
    for claim in &draft.claims {
        if claim.cache.contains(&id) {
            return "cache";
        }
        if claim.capacity.contains(&id) {
            return "capacity";
        }
    }
    "none"
}

/// The disks of every host of the draft, then this machine's, or why those cannot be listed.
///
/// # Errors
/// [`AppError::Unavailable`], [`AppError::Internal`].
pub async fn hosts(app: &App, cluster: &Cluster, draft: &Draft) -> Result<Vec<DiskHost>, AppError> {
    let mut hosts = disk_hosts(draft, disks::all(app, cluster).await?);
    // Without this row a machine that cannot be looked at would seem to have no disks.
    if let Some(sums) = disks::problem(app, cluster).await? {
        let (name, domain) = ("This machine".into(), String::new());
        hosts.push(DiskHost { name, domain, sums, disks: Vec::new() });
    }
    Ok(hosts)
}

fn disk_hosts(draft: &Draft, disks: Vec<Disk>) -> Vec<DiskHost> {
    let mut hosts: Vec<DiskHost> = Vec::new();
    let mut advice = BTreeMap::new();
    for host in &draft.hosts {
        advice.extend(plan::recommendations(draft, &host.name).into_iter().map(|one| (one.id, one)));
    }
    for disk in disks {
        let name = if disk.view.host.is_empty() { "This machine".to_owned() } else { disk.view.host.clone() };
        if hosts.last().is_none_or(|host| host.name != name) {
            hosts.push(DiskHost {
                domain: domain_of(draft, &name),
                name,
                sums: String::new(),
                disks: Vec::new(),
            });
        }
        let recommended = advice.get(&disk.view.id).map(|one| {
            let role = match one.role {
                DiskRole::Cache => "Recommended as cache",
                DiskRole::Capacity | DiskRole::Combined => "Recommended for capacity",
                DiskRole::None => "Left out",
            };
            format!("{role}: {}", one.reason)
        });
        if let Some(host) = hosts.last_mut() {
            host.disks.push(disk_row(draft, &disk, recommended));
        }
    }
    for host in &mut hosts {
        let sum = |role: &str| -> u64 {
            let claims =
                draft.disks.iter().filter(|disk| disk.host == host.name && role_of(draft, disk.id) == role);
            claims.map(|disk| disk.size_bytes).sum()
        };
        host.sums = format!("{} capacity, {} cache", size(sum("capacity")), size(sum("cache")));
    }
    hosts
}

fn disk_row(draft: &Draft, disk: &Disk, recommended: Option<String>) -> DiskRow {
    let view = &disk.view;
    let mark = if disk.mark.is_empty() { "new".to_owned() } else { disk.mark.clone() };
    // A device that no host has yet cannot be claimed for one.
    let homeless = view.host.is_empty().then(|| "it belongs to no host yet".to_owned());
    let eligible = disk.can_be_claimed() && homeless.is_none();
    let why_not = disk.why_not.clone().or_else(|| disk.reason.clone()).or(homeless);
    let why_not = why_not.filter(|_| !eligible).unwrap_or_default();
    let choice = |value: &str, word: &str| Choice { why_not: why_not.clone(), ..Choice::new(value, word) };
    let model: Vec<&str> = [disk.model.as_deref(), disk.serial.as_deref()].into_iter().flatten().collect();
    DiskRow {
        id: view.id.to_string(),
        name: view.name.clone(),
        model: if model.is_empty() { view.path.clone() } else { model.join(" · ") },
        media: words::media(view.media),
        label: format::label_bytes(view.size_bytes),
        binary: size(view.size_bytes),
        contents: disk.contents.clone().unwrap_or_else(|| {
            super::group::unknown_or(
                "Empty",
                disk.device.as_ref().is_none_or(|device| device.contents.was_read),
            )
        }),
        holds_data: eligible && disk.eligibility == Eligibility::EraseNeeded,
        erase: draft.ticked().get(&view.id) == Some(&mark),
        mark,
        role: role_of(draft, view.id),
        choices: vec![
            choice("cache", "Cache"),
            choice("capacity", "Capacity"),
            Choice { none: true, ..Choice::new("none", "Leave") },
        ],
        reason: if eligible { recommended.unwrap_or_default() } else { format!("Not eligible: {why_not}") },
        warnings: disk.warnings.clone(),
        eligible,
    }
}
