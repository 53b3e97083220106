//! Files as disks: what one would be, looked at and not yet written to.
use crate::edge::Rng;
use crate::error::AppError;
use model::ids::DiskId;
use model::plan::Review;
use std::io::{Read, Seek, SeekFrom};
use std::os::unix::fs::{FileExt, MetadataExt};
use std::path::Path;

/// Bytes of a file that are looked at, at most, to see whether it is blank.
const LOOK_BYTES_MAX: u64 = 1 << 30;

/// What a file would be as a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDisk {
    /// Size: of the file, or what was asked for.
    pub size_bytes: u64,
    /// Whether it has to be made.
    pub make_file: bool,
    /// Whether it holds anything.
    pub holds_data: bool,
    /// What it holds; `None` when it has to be made.
    pub looked: Option<Review>,
}

/// What is said of a file that holds something.
pub fn contents(looked: Option<&Review>) -> String {
    let known = looked.and_then(|looked| looked.contents.clone());
    known.unwrap_or_else(|| "data of unknown kind".to_owned())
}

/// What a file is known by: another one in its place has another. `None` when there is no plain file.
pub fn identity(path: &Path) -> Option<String> {
    let meta = std::fs::symlink_metadata(path).ok().filter(std::fs::Metadata::is_file)?;
    Some(format!("file:{}:{}", meta.dev(), meta.ino()))
}

/// Looks at what a file holds as the engine does right before it writes.
fn look(path: &Path) -> std::io::Result<Review> {
    let file = std::fs::File::open(path)?;
    let size_bytes = file.metadata()?.len();
    let read = |offset: u64, buffer: &mut [u8]| file.read_exact_at(buffer, offset);
    let contents = ::inventory::contents::look(&read, size_bytes);
    Ok(Review {
        identity: identity(path).unwrap_or_default(),
        fingerprint: ::inventory::contents::fingerprint(&read, size_bytes, &contents),
        contents: contents.summary(),
    })
}

/// Looks at a path for a file disk; changes nothing.
///
/// # Errors
/// [`AppError::Invalid`] on `path` or `size_bytes`.
pub fn look_at_file(path: &Path, size_bytes: Option<u64>) -> Result<FileDisk, AppError> {
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => {
            let missing =
                || AppError::field("size_bytes", "the file is not there; say how large it shall be");
            Ok(FileDisk {
                size_bytes: size_bytes.ok_or_else(missing)?,
                make_file: true,
                holds_data: false,
                looked: None,
            })
        }
        Err(error) => Err(AppError::field("path", format!("cannot be looked at: {error}"))),
        Ok(meta) if !meta.is_file() => Err(AppError::field("path", "is there and is not a plain file")),
        Ok(meta) => {
            if size_bytes.is_some_and(|size| size != meta.len()) {
                let detail = format!("the file is there and has {} bytes; leave the size out", meta.len());
                return Err(AppError::field("size_bytes", detail));
            }
            let unread = |error: std::io::Error| AppError::field("path", format!("cannot be read: {error}"));
            let looked = look(path).map_err(unread)?;
            let holds_data = !is_blank(path).map_err(unread)?;
            Ok(FileDisk { size_bytes: meta.len(), make_file: false, holds_data, looked: Some(looked) })
        }
    }
}

/// Whether a file holds zeros only. Holes are skipped; one with more than 1 GiB of data is taken to hold something.
fn is_blank(path: &Path) -> std::io::Result<bool> {
    let mut file = std::fs::File::open(path)?;
    let length = file.metadata()?.len();
    let (mut at, mut looked) = (0, 0);
    let mut buffer = vec![0; 1 << 16];
    while at < length {
        at = match rustix::fs::seek(&file, rustix::fs::SeekFrom::Data(at)) {
            Ok(data) => data,
            Err(rustix::io::Errno::NXIO) => return Ok(true),
            Err(error) => return Err(error.into()),
        };
        file.seek(SeekFrom::Start(at))?;
        let read = file.read(&mut buffer)?;
        if read == 0 {
            return Ok(true);
        }
        looked += read as u64;
        if looked > LOOK_BYTES_MAX || buffer[..read].iter().any(|byte| *byte != 0) {
            return Ok(false);
        }
        at += read as u64;
    }
    Ok(true)
}

/// A new identity for a file disk.
pub fn mint(rng: &dyn Rng) -> DiskId {
    DiskId::from_random(rng.bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_with_a_single_byte_is_not_blank() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk.img");
        let new = look_at_file(&path, Some(64 << 20)).unwrap();
        assert!(new.make_file && !new.holds_data);
        assert!(look_at_file(&path, None).is_err());
        let file = std::fs::File::create(&path).unwrap();
        file.set_len(64 << 20).unwrap();
        assert!(!look_at_file(&path, None).unwrap().holds_data);
        let blank = look_at_file(&path, None).unwrap().looked.unwrap();
        file.write_all_at(&[1], (48 << 20) + 7).unwrap();
        assert!(look_at_file(&path, None).unwrap().holds_data);
        // What is written over it later is seen, and so is another file in its place.
        file.write_all_at(&[0x55; 4096], 0).unwrap();
        let written = look_at_file(&path, None).unwrap().looked.unwrap();
        assert_ne!(written.fingerprint, blank.fingerprint);
        assert_eq!(written.identity, blank.identity);
        std::fs::copy(&path, folder.path().join("copy")).unwrap();
        assert_ne!(identity(&folder.path().join("copy")).unwrap(), written.identity);
        assert!(look_at_file(&path, Some(1)).is_err());
        assert!(look_at_file(folder.path(), None).is_err());
    }
}
