//! What the kernel says about a block device: sectors, whether it is still there, who holds it.
//!
//! Invariants: nothing here writes; whatever cannot be found out counts as "there" and "not named": only a clear word of the
//! kernel makes a disk absent.
use super::file::Holder;
use rustix::fs::{SeekFrom, Stat};
use std::collections::BTreeSet;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};

/// States of a device after which nothing is answered any more. Source: kernel, `scsi_device_state` and `nvme_ctrl_state`.
const DEAD_STATES: [&str; 6] = ["offline", "transport-offline", "cancel", "deleted", "deleting", "dead"];

/// Where the kernel's files are: a parameter, so that tests bring their own.
#[derive(Clone, Debug)]
pub struct Places {
    /// `/sys`
    pub sys: PathBuf,
    /// `/proc`
    pub proc: PathBuf,
}

impl Default for Places {
    fn default() -> Self {
        Self { sys: "/sys".into(), proc: "/proc".into() }
    }
}

impl Places {
    fn text(root: &Path, name: &str) -> Option<String> {
        std::fs::read_to_string(root.join(name)).ok().map(|text| text.trim().to_owned())
    }

    fn names(folder: &Path) -> Vec<String> {
        let entries = std::fs::read_dir(folder).into_iter().flatten().flatten();
        let mut names: Vec<String> =
            entries.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }
}

/// A block device that is open.
#[derive(Clone, Debug)]
pub(super) struct Device {
    places: Places,
    /// `MAJOR:MINOR`.
    number: String,
    /// Size when it was opened.
    size_bytes: u64,
    /// Smallest unit of offset and length.
    pub logical_block_bytes: u32,
    /// What it writes at once.
    pub physical_block_bytes: u32,
}

/// `MAJOR:MINOR` of the device that a node stands for.
pub(super) fn number_of(stat: &Stat) -> String {
    format!("{}:{}", rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev))
}

impl Device {
    /// Asks an open device.
    ///
    /// # Errors
    /// When it does not say how large its sectors are.
    pub(super) fn of(fd: &OwnedFd, stat: &Stat, size_bytes: u64, places: Places) -> rustix::io::Result<Self> {
        let logical_block_bytes = rustix::fs::ioctl_blksszget(fd)?;
        let physical_block_bytes = rustix::fs::ioctl_blkpbszget(fd).unwrap_or(logical_block_bytes);
        let number = number_of(stat);
        Ok(Self { places, number, size_bytes, logical_block_bytes, physical_block_bytes })
    }

    /// Whether it takes back what is not used. One that does not might be asked to write zeros instead, which takes hours.
    pub(super) fn can_discard(&self) -> bool {
        let folder = self.places.sys.join("dev/block").join(&self.number);
        Places::text(&folder, "queue/discard_max_bytes").is_none_or(|bytes| bytes != "0")
    }

    /// Whether the device behind an open handle is still there in its whole size. The kernel takes the size of a device away
    /// when it is pulled; a SCSI disk that stopped to answer stays with its size and says so in its state.
    pub(super) fn is_there(&self, fd: impl AsFd) -> bool {
        let is_whole = rustix::fs::seek(fd, SeekFrom::End(0)).is_ok_and(|size| size >= self.size_bytes);
        let folder = self.places.sys.join("dev/block").join(&self.number);
        let is_listed = folder.exists() || !self.places.sys.join("dev/block").exists();
        let state = Places::text(&folder, "device/state");
        is_whole && is_listed && !state.is_some_and(|state| DEAD_STATES.contains(&state.as_str()))
    }
}

/// What holds the device `number` exclusively, in words: a file system, swap, or what is made of it. `None` when the kernel
/// shows none of these: then it is a process.
pub(super) fn use_of(places: &Places, number: &str) -> Option<String> {
    let whole = places.sys.join("dev/block").join(number);
    let mut devices = vec![whole.clone()];
    let inside = Places::names(&whole).into_iter().map(|name| whole.join(name));
    devices.extend(inside.filter(|path| path.join("partition").exists()));
    if let Some(holder) = devices.iter().flat_map(|device| Places::names(&device.join("holders"))).next() {
        return Some(format!("{holder}, which is made of it"));
    }
    let numbers: BTreeSet<String> = devices.iter().filter_map(|device| Places::text(device, "dev")).collect();
    let names: BTreeSet<String> = devices.iter().filter_map(|device| device_name(device)).collect();
    mount_of(places, &numbers, &names).or_else(|| swap_on(places, &names))
}

/// The kernel's name of a device below `/dev`.
fn device_name(folder: &Path) -> Option<String> {
    let text = Places::text(folder, "uevent")?;
    text.lines().find_map(|line| line.strip_prefix("DEVNAME=")).map(|name| format!("/dev/{name}"))
}

fn mount_of(places: &Places, numbers: &BTreeSet<String>, names: &BTreeSet<String>) -> Option<String> {
    let mounts = Places::text(&places.proc, "self/mountinfo")?;
    mounts.lines().find_map(|line| {
        let fields: Vec<&str> = line.split(' ').collect();
        let dash = fields.iter().position(|field| *field == "-")?;
        let is_it = numbers.contains(*fields.get(2)?) || names.contains(*fields.get(dash + 2)?);
        is_it.then(|| format!("the file system mounted on {}", fields[4].replace("\\040", " ")))
    })
}

fn swap_on(places: &Places, names: &BTreeSet<String>) -> Option<String> {
    let swaps = Places::text(&places.proc, "swaps")?;
    let path = |line: &str| line.split_whitespace().next().map(ToOwned::to_owned);
    let used = swaps.lines().skip(1).filter_map(path).find(|path| names.contains(path))?;
    Some(format!("swap on {used}"))
}

/// Who holds a device that refused to be opened exclusively.
pub(super) fn holder(places: &Places, stat: &Stat) -> Holder {
    match use_of(places, &number_of(stat)) {
        Some(what) => Holder { what: Some(what), ..Holder::default() },
        // Another Millpond also locks the device's node, and that lock is listed with its process.
        None => super::file::holder_by_lock(stat),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn places(files: &[(&str, &str)]) -> (tempfile::TempDir, Places) {
        let folder = tempfile::tempdir().expect("a folder");
        for (name, text) in files {
            let path = folder.path().join(name);
            std::fs::create_dir_all(path.parent().expect("a parent")).expect("folders");
            std::fs::write(path, text).expect("a file");
        }
        let (sys, proc) = (folder.path().join("sys"), folder.path().join("proc"));
        (folder, Places { sys, proc })
    }

    const DISK: [(&str, &str); 6] = [
        ("sys/dev/block/8:0/dev", "8:0\n"),
        ("sys/dev/block/8:0/uevent", "MAJOR=8\nMINOR=0\nDEVNAME=sda\n"),
        ("sys/dev/block/8:0/sda1/dev", "8:1\n"),
        ("sys/dev/block/8:0/sda1/partition", "1\n"),
        ("sys/dev/block/8:0/sda1/uevent", "DEVNAME=sda1\n"),
        ("sys/dev/block/8:0/holders/.keep", ""),
    ];

    fn used(more: &[(&str, &str)]) -> Option<String> {
        let files: Vec<_> = DISK[..5].iter().chain(more).copied().collect();
        let (_folder, places) = places(&files);
        use_of(&places, "8:0")
    }

    #[test]
    fn what_holds_a_disk_is_named() {
        assert_eq!(used(&[]), None);
        assert_eq!(
            used(&[("sys/dev/block/8:0/holders/md127", "")]).as_deref(),
            Some("md127, which is made of it")
        );
        assert_eq!(
            used(&[("sys/dev/block/8:0/sda1/holders/dm-0", "")]).as_deref(),
            Some("dm-0, which is made of it")
        );
        let mount = "36 35 8:1 / /srv/my\\040data rw - ext4 /dev/sda1 rw\n";
        assert_eq!(
            used(&[("proc/self/mountinfo", mount)]).as_deref(),
            Some("the file system mounted on /srv/my data")
        );
        // Btrfs shows a number of its own; the name of the device is right.
        let btrfs = "36 35 0:44 / /pool rw - btrfs /dev/sda1 rw\n";
        assert_eq!(
            used(&[("proc/self/mountinfo", btrfs)]).as_deref(),
            Some("the file system mounted on /pool")
        );
        let swaps = "Filename\tType\n/dev/sda1 partition 1 0 -2\n";
        assert_eq!(used(&[("proc/swaps", swaps)]).as_deref(), Some("swap on /dev/sda1"));
    }

    #[test]
    fn a_device_that_takes_nothing_back_is_not_asked_to() {
        let can_discard = |files: &[(&str, &str)]| {
            let (_folder, places) = places(files);
            let (number, size_bytes) = ("8:0".to_owned(), 8192);
            Device { places, number, size_bytes, logical_block_bytes: 512, physical_block_bytes: 512 }
                .can_discard()
        };
        let limit = "sys/dev/block/8:0/queue/discard_max_bytes";
        assert!(can_discard(&[(limit, "2147450880\n")]));
        assert!(!can_discard(&[(limit, "0\n")]));
        assert!(can_discard(&[]), "nobody says so");
    }

    #[test]
    fn a_device_is_gone_when_its_size_or_its_state_says_so() {
        let file = tempfile::tempfile().expect("a file");
        file.set_len(8192).expect("a size");
        let is_there = |files: &[(&str, &str)], size_bytes: u64| {
            let (_folder, places) = places(files);
            let number = "8:0".to_owned();
            let (logical_block_bytes, physical_block_bytes) = (512, 4096);
            Device { places, number, size_bytes, logical_block_bytes, physical_block_bytes }.is_there(&file)
        };
        let listed = ("sys/dev/block/8:0/dev", "8:0");
        assert!(is_there(&[listed], 8192));
        assert!(!is_there(&[listed], 8193), "it is smaller than it was");
        assert!(!is_there(&[("sys/dev/block/8:16/dev", "8:16")], 8192), "it is not listed");
        assert!(is_there(&[], 8192), "without sysfs nobody says that it is gone");
        for (state, there) in [("running", true), ("live", true), ("offline", false), ("deleting", false)] {
            assert_eq!(
                is_there(&[listed, ("sys/dev/block/8:0/device/state", state)], 8192),
                there,
                "{state}"
            );
        }
    }
}
