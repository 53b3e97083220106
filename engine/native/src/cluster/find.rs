//! Finding disks by what is written on them: names such as `/dev/sda` change from start to start, the superblock does not.
//!
//! Nothing here opens a disk exclusively or writes: a look reads the copies of the superblock and lets go.
use super::hint::HintedDisk;
use super::source::DiskSource;
use crate::fmt::BLOCK;
use crate::fmt::superblock::{Superblock, copies};
use model::ids::{ClusterId, DiskId};
use model::units::DISK_BYTES_MIN;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, FileTypeExt, OpenOptionsExt};
use std::path::{Path, PathBuf};

/// Kernel names of devices that are never disks of a cluster.
const NEVER: [&str; 8] = ["ram", "zram", "sr", "fd", "nbd", "rbd", "mtdblock", "drbd"];
/// Unit of sizes in sysfs, bytes, on every device.
const SYS_SECTOR_BYTES: u64 = 512;

/// A block device that may carry a disk.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Candidate {
    /// Its path.
    pub path: PathBuf,
    /// Changes when another device takes the name, and when size or state change.
    pub mark: String,
}

/// What a look at a path found.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Peek {
    /// This disk.
    Ours(ClusterId, DiskId),
    /// Something else, or nothing.
    Other,
    /// Nothing is there.
    NotThere,
    /// It cannot be read.
    Unreadable,
}

/// The block devices that `sys` (`/sys`) lists and that may carry a disk. A device that others are made of is left out: the
/// way to a multipath disk is its map.
pub fn candidates(sys: &Path) -> Vec<Candidate> {
    let block = sys.join("block");
    let text = |name: &str, file: &str| {
        std::fs::read_to_string(block.join(name).join(file)).map(|text| text.trim().to_owned()).ok()
    };
    let is_never = |name: &str| {
        NEVER.iter().any(|never| {
            name.strip_prefix(never)
                .is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
        })
    };
    let held = |name: &str| {
        block.join(name).join("holders").read_dir().is_ok_and(|mut holders| holders.next().is_some())
    };
    let entries = std::fs::read_dir(&block).into_iter().flatten().flatten();
    let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
    let mut found: Vec<Candidate> = names
        .filter(|name| !is_never(name) && !held(name))
        .filter_map(|name| {
            let sectors: u64 = text(&name, "size")?.parse().ok()?;
            let is_large = sectors.saturating_mul(SYS_SECTOR_BYTES) >= DISK_BYTES_MIN;
            let said = |file| text(&name, file).unwrap_or_default();
            let mark = format!("{} {} {sectors} {}", said("dev"), said("diskseq"), said("device/state"));
            let path = Path::new("/dev").join(name.replace('!', "/"));
            is_large.then_some(Candidate { path, mark })
        })
        .collect();
    found.sort();
    found
}

/// Looks at the superblocks of a file or device.
pub fn peek(path: &Path) -> Peek {
    let opened =
        std::fs::OpenOptions::new().read(true).custom_flags(libc::O_NONBLOCK | libc::O_CLOEXEC).open(path);
    let file = match opened {
        Ok(file) => file,
        Err(error) if error.kind() == ErrorKind::NotFound => return Peek::NotThere,
        Err(error) if matches!(error.raw_os_error(), Some(libc::ENXIO | libc::ENODEV | libc::ENOMEDIUM)) => {
            return Peek::NotThere;
        }
        Err(_) => return Peek::Unreadable,
    };
    let size = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0)).unwrap_or(0);
    if size < DISK_BYTES_MIN {
        return Peek::Other;
    }
    let mut is_readable = false;
    let mut newest: Option<Superblock> = None;
    for offset in copies(size) {
        let mut block = vec![0; BLOCK];
        if file.read_exact_at(&mut block, offset).is_err() {
            continue;
        }
        is_readable = true;
        let found = Superblock::decode(&block, offset).ok();
        newest = newest.into_iter().chain(found).max_by_key(|superblock| superblock.generation);
    }
    match newest {
        Some(superblock) => Peek::Ours(superblock.cluster, superblock.disk),
        None if is_readable => Peek::Other,
        None => Peek::Unreadable,
    }
}

/// Whether the path leads to a block device.
pub(super) fn is_device(path: &Path) -> bool {
    std::fs::metadata(path).is_ok_and(|found| found.file_type().is_block_device())
}

/// The paths at which the listed disks are now: where the list says, and for devices with another disk there, or none, wherever they
/// are found. A path that cannot be read stays in the list, so that somebody says so.
pub(super) async fn resolve(source: &impl DiskSource, listed: &[HintedDisk]) -> Vec<PathBuf> {
    let mut paths = Vec::new();
    let mut moved: BTreeSet<DiskId> = BTreeSet::new();
    for hinted in listed {
        let may_move = is_device(&hinted.path) || hinted.path.starts_with("/dev");
        match if may_move { source.peek(&hinted.path).await } else { Peek::Unreadable } {
            Peek::Ours(_, disk) if disk == hinted.id => paths.push(hinted.path.clone()),
            Peek::Unreadable => paths.push(hinted.path.clone()),
            Peek::Ours(..) | Peek::Other | Peek::NotThere => _ = moved.insert(hinted.id),
        }
    }
    let mut found = BTreeSet::new();
    if !moved.is_empty() {
        for candidate in source.candidates() {
            if let Peek::Ours(_, disk) = source.peek(&candidate.path).await
                && moved.contains(&disk)
            {
                found.insert(disk);
                paths.push(candidate.path);
            }
        }
    }
    let is_lost = |hinted: &&HintedDisk| moved.contains(&hinted.id) && !found.contains(&hinted.id);
    let lost = listed.iter().filter(is_lost).map(|hinted| hinted.path.clone());
    // Where another disk is now, nothing of ours must be opened, not even to say so.
    paths.extend(lost.filter(|path| !is_device(path)));
    paths
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::io::{Disk, OpenError};
    use std::time::Duration;

    #[test]
    fn candidates_are_disks_with_a_mark_that_follows_them() {
        let sys = tempfile::tempdir().expect("a folder");
        let put = |name: &str, text: &str| {
            let path = sys.path().join("block").join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
            std::fs::write(path, text).expect("a file");
        };
        for name in ["sda", "sdb", "dm-0", "zram0", "sr0", "cciss!c0d0"] {
            put(&format!("{name}/size"), "2097152\n");
        }
        put("sdc/size", "16\n");
        put("sdb/holders/dm-0", "");
        put("sda/diskseq", "7");
        let paths = |found: &[Candidate]| -> Vec<String> {
            found.iter().map(|one| one.path.display().to_string()).collect()
        };
        let before = candidates(sys.path());
        assert_eq!(paths(&before), ["/dev/cciss/c0d0", "/dev/dm-0", "/dev/sda"]);
        put("sda/diskseq", "8");
        let after = candidates(sys.path());
        assert_eq!(paths(&after), paths(&before));
        assert_ne!(after[2].mark, before[2].mark, "another disk has the name");
    }

    /// Devices that are not there for the file system, with what stands on each.
    struct Shelf(Vec<(&'static str, u8)>);

    impl DiskSource for Shelf {
        async fn open(&self, _: &Path, _: bool, _: Duration) -> Result<Disk, OpenError> {
            unreachable!("nothing is opened to find out where it is")
        }

        fn candidates(&self) -> Vec<Candidate> {
            self.0.iter().map(|(path, _)| Candidate { path: path.into(), mark: String::new() }).collect()
        }

        async fn peek(&self, path: &Path) -> Peek {
            let found = self.0.iter().find(|(known, _)| Path::new(known) == path);
            let ours =
                |number| Peek::Ours(ClusterId::from_random([9; 16]), DiskId::from_random([number; 16]));
            found.map_or(Peek::NotThere, |(_, number)| ours(*number))
        }
    }

    #[tokio::test]
    async fn disks_are_found_where_they_are_now() {
        let hinted = |number: u8, path: &str| HintedDisk {
            id: DiskId::from_random([number; 16]),
            name: format!("d{number}"),
            path: path.into(),
        };
        let listed = [
            hinted(1, "/dev/no-a"),
            hinted(2, "/dev/no-b"),
            hinted(3, "/dev/no-c"),
            hinted(4, "/srv/disk4.img"),
            hinted(5, "/dev/no-e"),
        ];
        // 1 stayed, 2 and 3 changed places, 5 is lost, a stranger came.
        let shelf = Shelf(vec![("/dev/no-a", 1), ("/dev/no-b", 3), ("/dev/no-c", 2), ("/dev/no-f", 8)]);
        let mut paths = resolve(&shelf, &listed).await;
        paths.sort();
        let expected = ["/dev/no-a", "/dev/no-b", "/dev/no-c", "/dev/no-e", "/srv/disk4.img"];
        assert_eq!(paths, expected.map(PathBuf::from));
    }

    #[test]
    fn a_look_needs_a_whole_superblock() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        assert_eq!(peek(&path), Peek::NotThere);
        std::fs::write(&path, [0; 4096]).expect("a small file");
        assert_eq!(peek(&path), Peek::Other);
        std::fs::File::create(&path).expect("a file").set_len(64 << 20).expect("a size");
        assert_eq!(peek(&path), Peek::Other);
    }
}
