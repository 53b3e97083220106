//! Finding disks by what is written on them: names such as `/dev/sda` change from start to start, the superblock does not.
//!
//! Nothing here opens a disk exclusively or writes: a look reads the copies of the superblock and lets go.
use super::hint::HintedDisk;
use super::source::DiskSource;
use crate::fmt::superblock::{Superblock, copies};
use crate::fmt::{BLOCK, FmtError};
use futures_util::future::join_all;
use model::ids::{ClusterId, DiskId};
use model::units::DISK_BYTES_MIN;
use std::collections::BTreeSet;
use std::io::ErrorKind;
use std::os::unix::fs::{FileExt, FileTypeExt, MetadataExt, OpenOptionsExt};
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
    /// A disk of ours, or of others, that a newer version wrote.
    Newer,
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
    let size_bytes = rustix::fs::seek(&file, rustix::fs::SeekFrom::End(0)).unwrap_or(0);
    peek_in(size_bytes, |offset, block| file.read_exact_at(block, offset).is_ok())
}

/// Looks at the superblocks of `size_bytes`; `read` fills a block from an offset and says whether it could.
pub(super) fn peek_in(size_bytes: u64, read: impl Fn(u64, &mut [u8]) -> bool) -> Peek {
    if size_bytes < DISK_BYTES_MIN {
        return Peek::Other;
    }
    let mut is_readable = false;
    let mut newest: Option<Superblock> = None;
    for offset in copies(size_bytes) {
        let mut block = vec![0; BLOCK];
        if !read(offset, &mut block) {
            continue;
        }
        is_readable = true;
        let found = Superblock::decode(&block, offset);
        if found.as_ref().is_err_and(FmtError::is_newer) {
            return Peek::Newer;
        }
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

/// Whether two paths lead to the same place: a disk has several names.
fn is_same(one: &Path, other: &Path) -> bool {
    let device = |path| {
        let found = std::fs::metadata(path).ok()?;
        found.file_type().is_block_device().then(|| found.rdev())
    };
    one == other || device(one).is_some_and(|number| device(other) == Some(number))
}

/// Where the listed disks are now. For devices every one of the machine is looked at: names change, and a copy of a disk (all
/// places of it are named then, so that somebody says so) may have taken the name of its original. A path that cannot be read
/// stays in the list, so that somebody says so, too. No place is named twice.
pub(super) async fn resolve(source: &impl DiskSource, listed: &[HintedDisk]) -> Vec<PathBuf> {
    let is_moving = |hinted: &&HintedDisk| is_device(&hinted.path) || hinted.path.starts_with("/dev");
    let (devices, files): (Vec<_>, Vec<_>) = listed.iter().partition(is_moving);
    let mut paths: Vec<PathBuf> = Vec::new();
    let mut name = |path: &Path| {
        if !paths.iter().any(|known| is_same(known, path)) {
            paths.push(path.to_owned());
        }
    };
    files.iter().for_each(|hinted| name(&hinted.path));
    if devices.is_empty() {
        return paths;
    }
    let hinted: Vec<&Path> = devices.iter().map(|hinted| hinted.path.as_path()).collect();
    let candidates: Vec<PathBuf> = source.candidates().into_iter().map(|candidate| candidate.path).collect();
    let others = candidates.iter().filter(|path| !hinted.iter().any(|known| is_same(known, path)));
    let places: Vec<&Path> = hinted.iter().copied().chain(others.map(PathBuf::as_path)).collect();
    // All at once: one that hangs holds up the others no longer than itself.
    let peeked = join_all(places.into_iter().map(async |path| (path, source.peek(path).await))).await;
    let mut found = BTreeSet::new();
    for (path, peek) in peeked {
        match peek {
            Peek::Ours(_, disk) if listed.iter().any(|hinted| hinted.id == disk) => {
                found.insert(disk);
                name(path);
            }
            Peek::Newer | Peek::Unreadable if hinted.contains(&path) => name(path),
            _ => {}
        }
    }
    // Where another disk is now, nothing of ours must be opened, not even to say so.
    let lost = devices.iter().filter(|hinted| !found.contains(&hinted.id) && !is_device(&hinted.path));
    lost.for_each(|hinted| name(&hinted.path));
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

    /// Devices that are not there for the file system, with the number of the disk on each; 0: a newer version wrote it.
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
            match found {
                Some((_, 0)) => Peek::Newer,
                Some((_, number)) => ours(*number),
                None => Peek::NotThere,
            }
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

    #[tokio::test]
    async fn a_copy_is_named_beside_its_original_and_no_place_twice() {
        let hinted = |number: u8, path: &str| HintedDisk {
            id: DiskId::from_random([number; 16]),
            name: format!("d{number}"),
            path: path.into(),
        };
        // The copy of 1 took its name; what cannot be read is named; two listed disks may have had one path.
        let shelf = Shelf(vec![("/dev/no-a", 1), ("/dev/no-z", 1), ("/dev/no-new", 0)]);
        let listed = [
            hinted(1, "/dev/no-a"),
            hinted(2, "/dev/no-new"),
            hinted(3, "/srv/d.img"),
            hinted(4, "/srv/d.img"),
        ];
        let paths = resolve(&shelf, &listed).await;
        assert_eq!(paths, ["/srv/d.img", "/dev/no-a", "/dev/no-new", "/dev/no-z"].map(PathBuf::from));
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
