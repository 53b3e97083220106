//! What the command line does with disks that no server uses: look for clusters, bring one into a new folder, print one disk.
//!
//! Invariants: `scan` and `dump` write nothing; `import` writes only the hint of the new folder; a disk in use is refused and its holder
//! named. (`check` opens the cluster and stands in its own file.)
use super::hint::{self, HintError};
use super::import::{FoundCluster, Scanned, chosen, hinted, is_free, look_inside};
use super::source::{MachineSource, PathError, look};
use crate::cap::CapDisk;
use crate::cap::label::{self, Label};
use crate::fmt::superblock::Roles;
use crate::io::{Disk, LOCK_WAIT, Ring};
use model::ids::ClusterId;
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
    #[error(
        "these disks belong to {count} clusters ({names}); import one at a time: name it with --cluster, or give only its paths"
    )]
    Mixed {
        /// How many.
        count: usize,
        /// Their names and ids.
        names: String,
    },
    /// A person must put something right first.
    #[error("{}", .0.join("; "))]
    Obstacles(Vec<String>),
    /// It is no disk.
    #[error("{} is neither a file nor a block device; name disks, or folders of disks", .0.display())]
    NoDisk(PathBuf),
    /// More files than anybody has disks.
    #[error("{} holds more than {PATHS_MAX} files; name the disks", .0.display())]
    TooMany(PathBuf),
    /// The folder serves a cluster already.
    #[error("{} serves a cluster already; name a new folder", .0.display())]
    FolderInUse(PathBuf),
    /// The hint of the new folder cannot be written.
    #[error("{0}")]
    Hint(HintError),
}

/// Files that are looked at in one go. Source: the largest cluster has 2,240 disks.
const PATHS_MAX: usize = 4096;
/// How deep folders are looked into: DIR/lab/HOST/DISK.
const DEPTH: u32 = 3;

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
        expand_one(path, DEPTH, &mut files)?;
    }
    files.sort();
    files.dedup();
    Ok(files)
}

fn expand_one(path: &Path, depth: u32, files: &mut Vec<PathBuf>) -> Result<(), OfflineError> {
    use std::os::unix::fs::FileTypeExt;
    let kind = std::fs::metadata(path).ok().map(|meta| meta.file_type());
    if !kind.is_some_and(|kind| kind.is_dir()) {
        // Opening a pipe would wait for its other end. What is not there is for the one who opens it to say.
        let is_disk = kind.is_none_or(|kind| kind.is_file() || kind.is_block_device());
        let is_note = path.extension().is_some_and(|extension| extension == "json");
        match (is_disk, depth == DEPTH) {
            (false, true) => return Err(OfflineError::NoDisk(path.to_owned())),
            (true, _) if !is_note => {
                files.push(std::path::absolute(path).unwrap_or_else(|_| path.to_owned()))
            }
            _ => {}
        }
        return Ok(());
    }
    let failed = |source| OfflineError::List { path: path.to_owned(), source };
    for entry in std::fs::read_dir(path).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        if files.len() > PATHS_MAX {
            return Err(OfflineError::TooMany(path.to_owned()));
        }
        if depth > 0 {
            expand_one(&entry.path(), depth - 1, files)?;
        }
    }
    Ok(())
}

/// Looks at disks read-only: which clusters are there, what each lacks, and what would be in it.
///
/// # Errors
/// When the machine refuses; a single bad path is listed, not an error.
pub fn scan(paths: &[PathBuf]) -> Result<Scanned, OfflineError> {
    let paths = expand(paths)?;
    on_own_loop(async |ring| {
        let looked = look(&MachineSource::new(ring), &paths, false, std::time::Duration::ZERO).await;
        Ok(look_inside(looked).await)
    })
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

/// Makes `folder` serve the one cluster on `paths`, or the one that is named; answers its name and what a person should know. Only the
/// folder's hint is written.
///
/// # Errors
/// As the variants say; the folder is as before then.
pub fn import(
    folder: &Path,
    paths: &[PathBuf],
    cluster: Option<ClusterId>,
) -> Result<(String, Vec<String>), OfflineError> {
    if !is_free(folder).map_err(OfflineError::Hint)? {
        return Err(OfflineError::FolderInUse(folder.to_owned()));
    }
    let paths = expand(paths)?;
    on_own_loop(async |ring| {
        let mut looked = look(&MachineSource::new(ring), &paths, false, LOCK_WAIT).await;
        if let Some(index) = looked.refused.iter().position(|(_, error)| error.in_use()) {
            return Err(OfflineError::Path(looked.refused.swap_remove(index).1));
        }
        let scanned = look_inside(looked).await;
        let refused: Vec<String> = scanned.refused.iter().map(|(_, why)| why.clone()).collect();
        let cluster = match cluster {
            Some(cluster) => cluster,
            None => the_only_one(&scanned, &refused)?,
        };
        let found = chosen(scanned, cluster).map_err(OfflineError::Obstacles)?;
        hint::store(folder, &hinted(&found.assembly)).map_err(OfflineError::Hint)?;
        Ok((found.assembly.config.name, [found.notes, refused].concat()))
    })
}

fn the_only_one(scanned: &Scanned, refused: &[String]) -> Result<ClusterId, OfflineError> {
    match &scanned.clusters[..] {
        [] => Err(OfflineError::NothingFound(
            refused.first().map(|why| format!(" ({why})")).unwrap_or_default(),
        )),
        [one] => Ok(one.assembly.cluster),
        several => {
            let name =
                |found: &FoundCluster| format!("{} {}", found.assembly.config.name, found.assembly.cluster);
            let names = several.iter().map(name).collect::<Vec<_>>().join(", ");
            Err(OfflineError::Mixed { count: several.len(), names })
        }
    }
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
