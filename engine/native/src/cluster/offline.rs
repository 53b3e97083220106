//! What the command line does with disks that no server uses: look for clusters, bring one into a new folder, print one disk.
//!
//! Invariants: `scan` and `dump` write nothing; `import` writes only the hint of the new folder; a disk in use is refused and its holder
//! named. (`check` opens the cluster and stands in its own file.)
use super::assemble::{Assembly, assemble};
use super::hint::{self, HintError, HintedDisk};
use super::source::{Looked, MachineSource, PathError, look};
use crate::cap::CapDisk;
use crate::cap::label::{self, Label};
use crate::fmt::superblock::Roles;
use crate::io::{Disk, LOCK_WAIT, Ring};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

/// Why disks could not be looked at or imported; `Display` says what to do.
#[derive(Debug, thiserror::Error)]
pub enum OfflineError {
    /// The kernel gave no ring.
    #[error("failed to set up io_uring; allow it for this process (kernel.io_uring_disabled, seccomp)")]
    Ring(#[source] std::io::Error),
    /// A path cannot be used.
    #[error("{0}")]
    Path(PathError),
    /// A folder cannot be listed.
    #[error("failed to list {}", path.display())]
    List {
        /// Which.
        path: PathBuf,
        /// The cause.
        #[source]
        source: std::io::Error,
    },
    /// No disk of Millpond among the paths.
    #[error("no disk of Millpond among these paths{0}")]
    NothingFound(String),
    /// More than one cluster.
    #[error("these disks belong to {count} clusters ({names}); import one at a time, with only its paths")]
    Mixed {
        /// How many.
        count: usize,
        /// Their names.
        names: String,
    },
    /// Not enough of it is there.
    #[error("{0}")]
    Incomplete(String),
    /// The folder serves a cluster already.
    #[error("{} serves a cluster already; name a new folder", .0.display())]
    FolderInUse(PathBuf),
    /// The hint of the new folder cannot be written.
    #[error("{0}")]
    Hint(HintError),
}

/// What [`scan`] found.
#[derive(Debug)]
pub struct Scanned {
    /// Clusters, each with what is missing and what is odd.
    pub clusters: Vec<Assembly>,
    /// Paths that cannot be used, each with its reason in one sentence.
    pub refused: Vec<(PathBuf, String)>,
}

/// Runs `body` on a loop of its own with a ring: the offline commands are programs of their own.
pub(super) fn on_own_loop<T>(
    body: impl AsyncFnOnce(Ring) -> Result<T, OfflineError>,
) -> Result<T, OfflineError> {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().build().map_err(OfflineError::Ring)?;
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let ring = Ring::new().map_err(OfflineError::Ring)?;
        body(ring).await
    })
}

/// All files below the given paths: a folder stands for what is in it (two levels, as a lab has them).
pub fn expand(paths: &[PathBuf]) -> Result<Vec<PathBuf>, OfflineError> {
    let mut files = Vec::new();
    for path in paths {
        expand_one(path, 3, &mut files)?;
    }
    files.sort();
    files.dedup();
    Ok(files)
}

fn expand_one(path: &Path, depth: u32, files: &mut Vec<PathBuf>) -> Result<(), OfflineError> {
    if !path.is_dir() {
        if path.extension().is_none_or(|extension| extension != "json") {
            files.push(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()));
        }
        return Ok(());
    }
    let failed = |source| OfflineError::List { path: path.to_owned(), source };
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if depth > 0 {
            expand_one(&entry.path(), depth - 1, files)?;
        }
    }
    Ok(())
}

/// Looks at disks read-only: which clusters are there and what each lacks.
///
/// # Errors
/// When the machine refuses; a single bad path is listed, not an error.
pub fn scan(paths: &[PathBuf]) -> Result<Scanned, OfflineError> {
    let paths = expand(paths)?;
    on_own_loop(async |ring| {
        let looked = look(&MachineSource::new(ring), &paths, false, std::time::Duration::ZERO).await;
        Ok(scanned(looked))
    })
}

fn scanned(looked: Looked) -> Scanned {
    let refused = looked.refused.into_iter().map(|(path, error)| (path, sentence(&error))).collect();
    Scanned { clusters: assemble(looked.seen), refused }
}

/// The error with its causes, in one line for a person.
pub fn sentence(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(next) = cause {
        text.push_str(": ");
        text.push_str(&next.to_string());
        cause = next.source();
    }
    text
}

/// Makes `folder` serve the one cluster on `paths`; answers its name and what is odd. Only the folder's hint is written.
///
/// # Errors
/// As the variants say; the folder is as before then.
pub fn import(folder: &Path, paths: &[PathBuf]) -> Result<(String, Vec<String>), OfflineError> {
    if hint::load(folder).map_err(OfflineError::Hint)?.is_some() {
        return Err(OfflineError::FolderInUse(folder.to_owned()));
    }
    let paths = expand(paths)?;
    on_own_loop(async |ring| {
        let mut looked = look(&MachineSource::new(ring), &paths, true, LOCK_WAIT).await;
        if let Some(index) = looked.refused.iter().position(|(_, error)| error.in_use()) {
            return Err(OfflineError::Path(looked.refused.swap_remove(index).1));
        }
        let Scanned { mut clusters, refused } = scanned(looked);
        let why = refused.first().map(|(_, why)| format!(" ({why})")).unwrap_or_default();
        let cluster = match clusters.len() {
            0 => return Err(OfflineError::NothingFound(why)),
            1 => clusters.remove(0),
            count => {
                let names: Vec<&str> = clusters.iter().map(|cluster| cluster.config.name.as_str()).collect();
                return Err(OfflineError::Mixed { count, names: names.join(", ") });
            }
        };
        if let Some(refusal) = cluster.refusal() {
            return Err(OfflineError::Incomplete(refusal));
        }
        let disks: Vec<HintedDisk> = cluster
            .disks
            .values()
            .map(|disk| HintedDisk {
                id: disk.superblock.disk,
                name: disk.superblock.name.clone(),
                path: disk.path.clone(),
            })
            .collect();
        hint::store(folder, &disks).map_err(OfflineError::Hint)?;
        let mut oddities: Vec<String> = cluster.findings.iter().map(ToString::to_string).collect();
        oddities.extend(refused.into_iter().map(|(_, why)| why));
        Ok((cluster.config.name, oddities))
    })
}

/// Prints the structures of one disk: superblock, regions, groups, configuration.
///
/// # Errors
/// When the disk is in use, foreign, or cannot be read.
pub fn dump(path: &Path) -> Result<Value, OfflineError> {
    let paths = [std::path::absolute(path).unwrap_or_else(|_| path.to_owned())];
    on_own_loop(async |ring| {
        let mut looked = look(&MachineSource::new(ring), &paths, false, LOCK_WAIT).await;
        if let Some((_, error)) = looked.refused.pop() {
            return Err(OfflineError::Path(error));
        }
        let disk = looked.seen.pop().ok_or_else(|| OfflineError::NothingFound(String::new()))?;
        let configs: Vec<Value> = disk
            .configs
            .iter()
            .map(|slot| {
                let config = crate::fmt::config::ClusterConfig::from_bytes(&slot.payload);
                json!({
                    "epoch": slot.epoch,
                    "sequence": slot.sequence,
                    "bytes": slot.payload.len(),
                    "cluster": config.as_ref().ok().map(|config| config.name.clone()),
                    "disks": config.as_ref().ok().map(|config| config.disks.iter().map(|disk| disk.name.clone()).collect::<Vec<_>>()),
                    "policies": config.as_ref().ok().map(|config| config.policies.clone()),
                    "error": config.err().map(|error| error.to_string()),
                })
            })
            .collect();
        let checkpoint = match looked.disks.get(&disk.path) {
            Some(open) if disk.superblock.roles.contains(Roles::CAPACITY) => checkpoint_of(open).await,
            _ => Value::Null,
        };
        Ok(json!({
            "path": disk.path,
            "superblock_offsets_bytes": crate::fmt::superblock::copies(disk.superblock.size_bytes),
            "superblock": disk.superblock,
            "configs": configs,
            "capacity": checkpoint,
        }))
    })
}

/// What the newest checkpoint of a capacity disk says, or why it cannot be read.
async fn checkpoint_of(disk: &Disk) -> Value {
    let found = match label::scan(disk).await {
        Ok(found) => found,
        Err(error) => return json!({ "error": sentence(&error) }),
    };
    match CapDisk::dump(&Label::read_only(disk.clone(), found)).await {
        Ok(dump) => dump,
        Err(error) => json!({ "error": sentence(&error) }),
    }
}

#[cfg(test)]
#[path = "offline_tests.rs"]
mod tests;
