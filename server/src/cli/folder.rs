//! The data folder: mode 0700, and only its owner writes to it.
use std::os::unix::fs::{DirBuilderExt, MetadataExt};
use std::path::{Path, PathBuf};

/// The absolute path of a folder that need not exist.
pub(super) fn absolute(folder: &Path) -> Result<PathBuf, String> {
    std::path::absolute(folder).map_err(|error| format!("{}: {error}", folder.display()))
}

/// Makes the folder (0700) when it is missing, and refuses one that belongs to somebody else.
pub(super) fn prepare(folder: &Path) -> Result<PathBuf, String> {
    let folder = absolute(folder)?;
    if !folder.exists() {
        let made = std::fs::DirBuilder::new().recursive(true).mode(0o700).create(&folder);
        made.map_err(|error| format!("cannot make {}: {error}", folder.display()))?;
    }
    let meta = std::fs::metadata(&folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    if !meta.is_dir() {
        return Err(format!("{} is not a folder; name another one with --data", folder.display()));
    }
    let me = rustix::process::geteuid().as_raw();
    if meta.uid() != me {
        return Err(format!("{} belongs to another user; run this as its owner", folder.display()));
    }
    Ok(folder)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_folder_is_private() {
        let parent = tempfile::tempdir().unwrap();
        let folder = prepare(&parent.path().join("a/b")).unwrap();
        assert_eq!(std::fs::metadata(folder).unwrap().mode() & 0o777, 0o700);
        let file = parent.path().join("file");
        std::fs::write(&file, "x").unwrap();
        assert!(prepare(&file).unwrap_err().contains("not a folder"));
    }
}
