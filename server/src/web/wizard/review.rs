//! The last step: everything once more, what is written, what is erased, what is still wrong.
use super::body::{Body, answer, domain_of};
use super::{Step, size};
use crate::app::Config;
use crate::error::AppError;
use crate::service::draft::{Draft, DraftDisk};
use crate::service::grouping::{self, Candidate};
use crate::service::plan;
use crate::service::unit::{self, UnitPlan};
use crate::web::format;
use crate::web::parts::Fact;
use crate::web::view::explain::sentence;
use crate::web::view::words;
use model::disk_room::slice_bytes;
use model::engine::Capabilities;
use model::ids::DiskId;
use std::collections::BTreeSet;

/// The service that keeps this server running over a restart of the machine: the command that installs it, and its unit.
pub struct Keep {
    /// To be run by root.
    pub command: String,
    /// What it writes.
    pub unit: String,
}

/// What to do so that the cluster is served after the next restart, too; `None` when a service manager does it already.
fn keep(config: &Config) -> Option<Keep> {
    let program = std::env::current_exe().ok().filter(|_| !config.supervised)?;
    let words = [&["service".to_owned(), "install".to_owned()], &unit::arguments(config)[1..]].concat();
    let words: Vec<String> = words.iter().map(|word| unit::for_shell(word)).collect();
    let command = format!("sudo {} {}", unit::for_shell(&program.display().to_string()), words.join(" "));
    let user = unit::owner(&config.data_dir).unwrap_or_else(|_| "root".into());
    Some(Keep { command, unit: UnitPlan::new(config, program, user).text() })
}

/// The review of a draft.
pub fn review(draft: &Draft, can: &Capabilities, config: &Config, candidates: &[Candidate]) -> Body {
    // A cache disk that serves several groups is formatted once.
    let mut seen = BTreeSet::new();
    let claimed = draft.claims.iter().flat_map(|claim| claim.cache.iter().chain(&claim.capacity));
    let claimed: Vec<&DiskId> = claimed.filter(|id| seen.insert(**id)).collect();
    let costs = costs(draft, candidates, &claimed);
    let made = claimed.iter().filter_map(|id| Some(written(draft, draft.disk(**id)?)));
    let erased: BTreeSet<&DiskId> = draft.claims.iter().flat_map(|claim| &claim.erase).collect();
    let erased = erased
        .into_iter()
        .filter_map(|id| draft.disk(*id))
        .map(|disk| format!("{}, {}, {}: {}", disk.name, disk.path, size(disk.size_bytes), contents(disk)));
    let problems = match plan::plan(draft, can) {
        Ok(_) => Vec::new(),
        Err(AppError::Invalid(errors)) => {
            errors.into_iter().map(|error| (error.detail, step_of(&error.field).to_owned())).collect()
        }
        Err(other) => vec![(other.to_string(), "type".to_owned())],
    };
    let steps = [
        Step::Hosts,
        Step::Group,
        Step::Type,
        Step::Services,
        Step::Domains,
        Step::Disks,
        Step::Policies,
        Step::Licence,
    ];
    let mut facts = vec![Fact::new("Name", &draft.name)];
    facts.extend(steps.map(|step| Fact::new(step.row().2, answer(draft, step))));
    facts.push(Fact::new("Waits for an absent part", format::duration(draft.repair_delay_seconds.into())));
    Body::Review {
        facts,
        made: made.collect(),
        erased: erased.collect(),
        policies: draft
            .policies
            .iter()
            .map(|policy| format!("{}: {}", policy.name, words::policy(policy, super::panel::noun(draft))))
            .collect(),
        problems,
        keep: keep(config),
        costs,
    }
}

/// What a disk that is erased holds, as it was seen.
fn contents(disk: &DraftDisk) -> String {
    let known = disk.seen().and_then(|seen| seen.contents.clone());
    known.unwrap_or_else(|| if disk.holds_data { "data of unknown kind" } else { "nothing" }.to_owned())
}

/// What is written to a disk: its role, for whom, in which fault domain, in how many slices, and what goes with it.
fn written(draft: &Draft, disk: &DraftDisk) -> String {
    let served = draft.claims.iter().filter(|claim| claim.cache.contains(&disk.id));
    let served: Vec<&str> = served.map(|claim| claim.host.as_str()).collect();
    let holder = draft.claims.iter().find(|claim| claim.capacity.contains(&disk.id));
    let role = match holder {
        Some(claim) if claim.cache.is_empty() => format!("data and its own log, {}", claim.host),
        Some(claim) => format!("data, {}", claim.host),
        None => format!("cache of {}", served.join(", ")),
    };
    let domain = holder.map(|claim| domain_of(draft, &claim.host)).filter(|domain| !domain.is_empty());
    let domain = domain.map_or_else(String::new, |domain| format!(", fault domain {domain}"));
    let slice = match slice_bytes(disk.size_bytes, served.len()) {
        bytes if served.len() > 1 => format!(", a slice of {} for each", size(bytes)),
        _ => String::new(),
    };
    let erased = draft.claims.iter().any(|claim| claim.erase.contains(&disk.id));
    let erased = if erased { format!("; erases {}", contents(disk)) } else { String::new() };
    let verb = if disk.make_file { "makes the file" } else { "formats" };
    let (name, path, bytes) = (&disk.name, &disk.path, size(disk.size_bytes));
    format!("{name}: {verb} {path}, {bytes}: {role}{domain}{slice}{erased}")
}

/// What the claims will cost: of the roles, and of each claimed disk.
fn costs(draft: &Draft, candidates: &[Candidate], claimed: &[&DiskId]) -> Vec<String> {
    if draft.lab.is_some() {
        return Vec::new();
    }
    let mut costs = grouping::costs(draft, candidates);
    for candidate in candidates.iter().filter(|one| claimed.contains(&&one.member.id)) {
        let name = &candidate.member.name;
        costs.extend(candidate.warnings.iter().map(|warning| format!("disk {name}: {warning}")));
    }
    costs.iter().map(|text| sentence(text)).collect()
}

/// The step where a field of the plan is put right.
fn step_of(field: &str) -> &'static str {
    match field {
        _ if field.starts_with("claims") => "disks",
        _ if field.starts_with("fault_domains") => "fault-domains",
        _ if field.contains("polic") => "policies",
        _ => "hosts",
    }
}
