//! Importing a cluster that lies on disks: where such disks may be, what is on them, and taking it over.
//!
//! Invariant: a look writes nothing, on no disk and nowhere else; what it shows is what opening the cluster now would give.
use crate::app::{App, Cluster};
use crate::engines;
use crate::error::{AppError, FieldError};
use crate::service::auth::Actor;
use crate::service::format::{bytes_text, plural};
use crate::service::{draft, intent, inventory};
use ::inventory::contents::Kind;
use model::engine::Intent;
use model::ids::{ClusterId, TaskId};
use model::state::ObjectHealth;
use model::view::ObjectView;
use std::path::PathBuf;

pub use engines::{FoundCluster, Scan};

/// Paths of one look. Source: the largest cluster has 2,240 disks; more are named by their folder.
const PATHS_MAX: usize = 4096;

/// A disk of this machine that carries a label of Millpond.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Candidate {
    /// Where.
    pub path: String,
    /// What is on it, in words.
    pub what: String,
    /// Size, bytes.
    pub size_bytes: u64,
}

/// Disks of this machine that carry a label of Millpond and belong to no cluster of this process; why there may be more, if so.
pub async fn candidates(app: &App) -> (Vec<Candidate>, Option<String>) {
    let mut ours = std::collections::BTreeSet::new();
    for cluster in app.clusters.values() {
        ours.extend(cluster.projected.borrow().disks.iter().map(|disk| disk.path.clone()));
    }
    let seen = inventory::look(app).await;
    let labelled = seen.disks().filter(|disk| disk.contents.has(Kind::Millpond));
    let candidates = labelled.map(|disk| Candidate {
        path: disk.path().to_owned(),
        what: disk.contents.summary().unwrap_or_default(),
        size_bytes: disk.facts.size_bytes.unwrap_or(0),
    });
    (candidates.filter(|candidate| !ours.contains(&candidate.path)).collect(), seen.problem)
}

/// Checks paths as a person or a program names them.
///
/// # Errors
/// [`AppError::Invalid`] with the number of each that is wrong.
fn checked(paths: &[String]) -> Result<Vec<PathBuf>, AppError> {
    if paths.is_empty() {
        return Err(AppError::field("paths", "name at least one disk or folder"));
    }
    if paths.len() > PATHS_MAX {
        return Err(AppError::field(
            "paths",
            format!("name at most {PATHS_MAX} paths, or the folder they are in"),
        ));
    }
    let wrong = paths.iter().enumerate().filter(|(_, path)| !path.starts_with('/') || path.contains('\0'));
    let errors = wrong.map(|(index, path)| {
        FieldError::new(
            format!("paths[{index}]"),
            format!("`{path}` is no absolute path; it begins with a slash"),
        )
    });
    AppError::check(errors.collect())?;
    Ok(paths.iter().map(PathBuf::from).collect())
}

/// What is on these disks, or in these folders of disks. Nothing is written.
///
/// # Errors
/// [`AppError::Invalid`] on `paths`; [`AppError::Conflict`] when the machine refuses. A single bad path is listed instead.
pub async fn scan(paths: &[String]) -> Result<Scan, AppError> {
    engines::scan(checked(paths)?).await
}

/// Takes over a cluster, as a task. The disks are looked at again first; what is in the way then fails the task. Whoever was `shown`
/// the disks of the cluster one by one gets these and no others.
///
/// # Errors
/// [`AppError::Invalid`] on `paths`; [`AppError::NotFound`] when the cluster is not there; [`AppError::Conflict`] when this server has a
/// cluster already, something is in the way now, or the disks are not those that were shown.
pub async fn start(
    app: &App,
    actor: &Actor,
    cluster: &Cluster,
    wanted: ClusterId,
    paths: &[String],
    shown: bool,
) -> Result<TaskId, AppError> {
    if !draft::is_unconfigured(cluster).await? {
        let why = "this server has a cluster already; import with a data folder of its own: millpond import --data NEWDIR PATH...";
        return Err(AppError::Conflict(why.into()));
    }
    let scan = scan(paths).await?;
    let found = scan.clusters.into_iter().find(|found| found.id == wanted);
    let found = found.ok_or_else(|| AppError::NotFound(format!("cluster {wanted} on these disks")))?;
    if !found.obstacles.is_empty() {
        return Err(AppError::Conflict(found.obstacles.join("; ")));
    }
    // The disks themselves, not the folders: what comes into a folder meanwhile was not shown to anybody.
    let present: Vec<String> = found.present.iter().map(|(_, path)| path.display().to_string()).collect();
    if shown && let Some(why) = not_as_shown(paths, &present) {
        return Err(AppError::Conflict(why));
    }
    let paths = present;
    let outcome =
        intent::apply(app, actor, cluster, Intent::ImportCluster { cluster: wanted, paths }).await?;
    Ok(outcome.task)
}

/// What became of the disks that were shown: the first that the cluster has no more.
fn not_as_shown(shown: &[String], present: &[String]) -> Option<String> {
    let gone = shown.iter().find(|path| !present.contains(path))?;
    Some(format!(
        "{gone} is not as it was shown: it was taken away, changed, or is in use now. This is what is there now; nothing was written"
    ))
}

/// How many volumes have which health, worst first.
pub fn healths(found: &FoundCluster) -> Vec<(ObjectHealth, usize)> {
    let mut counts: Vec<(ObjectHealth, usize)> = Vec::new();
    for object in &found.inside.objects {
        match counts.iter_mut().find(|(health, _)| *health == object.health) {
            Some((_, count)) => *count += 1,
            None => counts.push((object.health, 1)),
        }
    }
    counts.sort_by_key(|(health, _)| worst_first(*health));
    counts
}

fn worst_first(health: ObjectHealth) -> u8 {
    match health {
        ObjectHealth::Inaccessible => 0,
        ObjectHealth::ReducedCannotRebuild => 1,
        ObjectHealth::ReducedWaiting => 2,
        ObjectHealth::ReducedRebuilding => 3,
        ObjectHealth::PolicyChange => 4,
        ObjectHealth::NonCompliant => 5,
        ObjectHealth::Moving => 6,
        ObjectHealth::Healthy => 7,
    }
}

/// A volume in one line: size, whether it can be read, and what it would survive.
fn volume_words(object: &ObjectView) -> String {
    let reason = object.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    let can = if object.accessible { "available" } else { "NOT available" };
    let size = bytes_text(object.size_bytes);
    match object.health {
        ObjectHealth::Healthy => format!("{}, {size}: healthy", object.name),
        _ => format!("{}, {size}: {can}, not as protected as its policy says{reason}", object.name),
    }
}

/// A cluster that was found, in lines for a terminal.
pub fn described(found: &FoundCluster) -> String {
    let mut lines = vec![format!("cluster \"{}\" {}", found.name, found.id)];
    let (here, away) = (found.present.len(), found.missing.len());
    lines.push(format!("  disks: {here} of {} are there", here + away));
    for (name, path) in &found.present {
        lines.push(format!("    {name}: {}", path.display()));
    }
    for (_, name, host) in &found.missing {
        lines.push(format!("    {name} of host {host}: missing"));
    }
    lines.push(format!("  {}", plural(found.inside.objects.len() as u64, "volume")));
    lines.extend(found.inside.objects.iter().map(|object| format!("    {}", volume_words(object))));
    lines.extend(found.notes.iter().map(|note| format!("  note: {note}")));
    lines.extend(found.obstacles.iter().map(|obstacle| format!("  in the way: {obstacle}")));
    if found.obstacles.is_empty() {
        lines.push("  can be imported".into());
    }
    lines.join("\n") + "\n"
}
