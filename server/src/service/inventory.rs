//! This machine's disks, looked at and never written to. Block devices can be claimed in a later release.
use crate::edge::Rng;
use crate::error::AppError;
use model::ids::DiskId;
use model::state::Media;
use serde::Deserialize;
use sha2::{Digest, Sha256};
use std::io::{Read, Seek, SeekFrom};
use std::path::Path;

/// Why no block device can be claimed yet.
pub const NOT_YET: &str = "block devices come with a later release; file disks and labs work now";
/// Bytes of a file that are looked at, at most, to see whether it is blank.
const LOOK_BYTES_MAX: u64 = 1 << 30;

/// A block device of this machine.
#[derive(Clone, Debug, PartialEq)]
pub struct Device {
    /// Made from model, serial and path: the same at every look.
    pub id: DiskId,
    /// `/dev/…`
    pub path: String,
    /// Model.
    pub model: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// Size.
    pub size_bytes: u64,
    /// What it is made of.
    pub media: Media,
    /// What is on it, in words.
    pub contents: Option<String>,
}

#[derive(Deserialize)]
struct Lsblk {
    blockdevices: Vec<Node>,
}

#[derive(Deserialize)]
struct Node {
    path: String,
    size: u64,
    rota: bool,
    #[serde(rename = "type")]
    kind: String,
    model: Option<String>,
    serial: Option<String>,
    fstype: Option<String>,
    #[serde(default)]
    mountpoints: Vec<Option<String>>,
    #[serde(default)]
    children: Vec<Node>,
}

/// Reads what `lsblk --json --bytes` prints.
///
/// # Errors
/// When it is not that.
pub fn parse(json: &[u8]) -> Result<Vec<Device>, serde_json::Error> {
    let listed: Lsblk = serde_json::from_slice(json)?;
    Ok(listed.blockdevices.into_iter().filter(|node| node.kind == "disk").map(device).collect())
}

fn device(node: Node) -> Device {
    let mut hash = Sha256::new();
    for part in [node.model.as_deref(), node.serial.as_deref(), Some(&node.path)] {
        hash.update(part.unwrap_or_default());
        hash.update([0]);
    }
    let digest: [u8; 32] = hash.finalize().into();
    let mut id = [0; 16];
    id.copy_from_slice(&digest[..16]);
    let contents = contents(&node);
    Device {
        id: DiskId::from_random(id),
        path: node.path,
        model: node.model.map(|text| text.trim().to_owned()).filter(|text| !text.is_empty()),
        serial: node.serial,
        size_bytes: node.size,
        media: if node.rota { Media::Hdd } else { Media::Flash },
        contents,
    }
}

fn contents(node: &Node) -> Option<String> {
    if !node.children.is_empty() {
        return Some(format!("{} partitions or volumes", node.children.len()));
    }
    if let Some(mount) = node.mountpoints.iter().flatten().next() {
        return Some(format!("mounted at {mount}"));
    }
    node.fstype.clone()
}

/// Lists this machine's disks. Without `lsblk` the list is empty and the log says so.
pub async fn devices() -> Vec<Device> {
    let columns = "PATH,SIZE,ROTA,TYPE,MODEL,SERIAL,FSTYPE,MOUNTPOINTS";
    let run =
        || std::process::Command::new("lsblk").args(["--json", "--bytes", "--output", columns]).output();
    match tokio::task::spawn_blocking(run).await {
        Ok(Ok(output)) if output.status.success() => parse(&output.stdout).unwrap_or_else(|error| {
            tracing::warn!(%error, "lsblk printed something else");
            Vec::new()
        }),
        other => {
            tracing::warn!(result = ?other.map(|output| output.map(|output| output.status)), "lsblk cannot be run");
            Vec::new()
        }
    }
}

/// What a file would be as a disk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FileDisk {
    /// Size: of the file, or what was asked for.
    pub size_bytes: u64,
    /// Whether it has to be made.
    pub make_file: bool,
    /// Whether it holds anything.
    pub holds_data: bool,
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
            Ok(FileDisk { size_bytes: size_bytes.ok_or_else(missing)?, make_file: true, holds_data: false })
        }
        Err(error) => Err(AppError::field("path", format!("cannot be looked at: {error}"))),
        Ok(meta) if !meta.is_file() => Err(AppError::field("path", "is there and is not a plain file")),
        Ok(meta) => {
            if size_bytes.is_some_and(|size| size != meta.len()) {
                let detail = format!("the file is there and has {} bytes; leave the size out", meta.len());
                return Err(AppError::field("size_bytes", detail));
            }
            let blank = is_blank(path)
                .map_err(|error| AppError::field("path", format!("cannot be read: {error}")))?;
            Ok(FileDisk { size_bytes: meta.len(), make_file: false, holds_data: !blank })
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
    fn lsblk_is_read_and_ids_stay() {
        let json = br#"{"blockdevices": [
            {"path": "/dev/sda", "size": 1000204886016, "rota": true, "type": "disk", "model": "WDC WD10 ", "serial": "X1",
             "fstype": null, "mountpoints": [null], "children": [
                {"path": "/dev/sda1", "size": 1, "rota": true, "type": "part", "fstype": "ext4", "mountpoints": ["/"]}]},
            {"path": "/dev/sr0", "size": 1, "rota": true, "type": "rom", "mountpoints": [null]},
            {"path": "/dev/nvme0n1", "size": 512, "rota": false, "type": "disk", "model": null, "mountpoints": [null]}]}"#;
        let devices = parse(json).unwrap();
        assert_eq!(devices.len(), 2);
        assert_eq!((devices[0].media, devices[1].media), (Media::Hdd, Media::Flash));
        assert_eq!(devices[0].contents.as_deref(), Some("1 partitions or volumes"));
        assert_eq!(devices, parse(json).unwrap());
        assert_ne!(devices[0].id, devices[1].id);
    }

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
        std::os::unix::fs::FileExt::write_all_at(&file, &[1], (48 << 20) + 7).unwrap();
        assert!(look_at_file(&path, None).unwrap().holds_data);
        assert!(look_at_file(&path, Some(1)).is_err());
        assert!(look_at_file(folder.path(), None).is_err());
    }
}
