//! `disks.json`: the paths of the disks last used. A hint only: a disk is known by its superblock, and a wrong or missing hint
//! costs a search, never data. Written to a new file, flushed, renamed, and the folder flushed.
use model::ids::DiskId;
use serde::{Deserialize, Serialize};
use std::fs::File;
use std::io::{self, Write};
use std::path::{Path, PathBuf};

const NAME: &str = "disks.json";

/// One disk of the hint.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HintedDisk {
    /// Identity as its superblock said.
    pub id: DiskId,
    /// Short name, for messages.
    pub name: String,
    /// Absolute path last used.
    pub path: PathBuf,
}

/// Why the hint could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum HintError {
    /// The file is there and cannot be read.
    #[error("failed to read {path}; import the disks into a new folder, or restore the file")]
    Read {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
    /// The file is there and is not what this program wrote.
    #[error("{path} is not a list of disks; move it away and import the disks into a new folder")]
    Parse {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: serde_json::Error,
    },
    /// The file cannot be written.
    #[error("failed to write {path}; check the free space and the rights of the folder")]
    Write {
        /// The file.
        path: PathBuf,
        /// The cause.
        #[source]
        source: io::Error,
    },
}

/// Reads the hint; `None` when the folder has none (no cluster yet).
///
/// # Errors
/// When the file is there and unreadable: an unreadable hint is never taken as "no cluster".
pub fn load(folder: &Path) -> Result<Option<Vec<HintedDisk>>, HintError> {
    let path = folder.join(NAME);
    let text = match std::fs::read(&path) {
        Ok(text) => text,
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(None),
        Err(source) => return Err(HintError::Read { path, source }),
    };
    serde_json::from_slice(&text).map(Some).map_err(|source| HintError::Parse { path, source })
}

/// Replaces the hint; either the old or the new one is there after a crash.
///
/// # Errors
/// When the folder cannot be written; the old hint stands then.
pub fn store(folder: &Path, disks: &[HintedDisk]) -> Result<(), HintError> {
    let path = folder.join(NAME);
    replace(folder, &path, disks).map_err(|source| HintError::Write { path, source })
}

/// Writes `value` as JSON beside `path`, flushes, renames over it, flushes the folder.
pub(super) fn replace(folder: &Path, path: &Path, value: &(impl Serialize + ?Sized)) -> io::Result<()> {
    std::fs::create_dir_all(folder)?;
    let fresh = path.with_extension("json.new");
    let mut file = File::create(&fresh)?;
    file.write_all(&serde_json::to_vec_pretty(value)?)?;
    file.sync_all()?;
    std::fs::rename(&fresh, path)?;
    File::open(folder)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hint_comes_back_and_a_broken_one_is_no_empty_one() {
        let folder = tempfile::tempdir().expect("a folder");
        assert_eq!(load(folder.path()).expect("no hint is fine"), None);
        let disks = vec![HintedDisk {
            id: DiskId::from_random([3; 16]),
            name: "h1-cap1".into(),
            path: "/x/y".into(),
        }];
        store(folder.path(), &disks).expect("store");
        store(folder.path(), &disks).expect("store again");
        assert_eq!(load(folder.path()).expect("load"), Some(disks));
        std::fs::write(folder.path().join(NAME), "[{").expect("break it");
        assert!(matches!(load(folder.path()), Err(HintError::Parse { .. })));
    }
}
