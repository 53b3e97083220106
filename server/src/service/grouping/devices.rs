//! On which device a file lies: by the number of its file system, through sysfs down to whole disks.
//!
//! Invariant: what cannot be told apart counts as one: two files are only on different devices when the kernel says so.
use ::inventory::disk::Disk;
use model::state::Media;
use std::collections::BTreeSet;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

/// Devices stacked on each other at most: partition, array, mapping, volume, and some.
const STACK_MAX: usize = 8;

/// What is under a file.
pub struct Under {
    /// Files with the same body fail together.
    pub body: String,
    /// What the device is made of, when it is known.
    pub media: Option<Media>,
    /// Its controller.
    pub controller: Option<String>,
    /// Its enclosure.
    pub enclosure: Option<String>,
    /// What to know, in a sentence.
    pub note: Option<String>,
}

/// What is under the file at `path`, which need not be there yet: its folder decides then.
pub fn under(path: &Path, known: &[Disk]) -> Under {
    let meta = path.metadata().or_else(|_| path.parent().unwrap_or(path).metadata());
    let plain = |body: String, note: Option<String>| Under {
        body,
        media: None,
        controller: None,
        enclosure: None,
        note,
    };
    // The node of a device that is gone says nothing: its folder is no device that it shared with others.
    let is_node = path.starts_with("/dev") && !path.starts_with("/dev/shm");
    let Some(meta) = meta.ok().filter(|_| !is_node) else { return plain(path.display().to_string(), None) };
    let (major, minor) = (rustix::fs::major(meta.dev()), rustix::fs::minor(meta.dev()));
    let disks = disks_of(Path::new("/sys"), major, minor);
    let names: Vec<&str> = disks.iter().map(String::as_str).collect();
    let note = Some(format!("a file on {}, together with everything else there", names.join(" and ")));
    let of = |name: &str| known.iter().find(|disk| disk.facts.kernel_name() == name);
    match (names.as_slice(), names.first().and_then(|name| of(name))) {
        ([], _) => {
            let note = "a file on a file system that is no local disk (a network share, or memory)";
            plain(format!("file system {major}:{minor}"), Some(note.into()))
        }
        ([_], Some(disk)) => Under {
            body: disk.body.clone(),
            media: disk.media(),
            controller: disk.facts.controller.clone(),
            enclosure: disk.facts.enclosure.clone(),
            note,
        },
        // An array of several disks is one device to whoever writes to it.
        (names, _) => plain(format!("device {}", names.join(" ")), note),
    }
}

/// Kernel names of the whole disks under a device, through partitions, mappings and arrays; none for a file system without one.
fn disks_of(sys: &Path, major: u32, minor: u32) -> BTreeSet<String> {
    let mut disks = BTreeSet::new();
    let link = sys.join(format!("dev/block/{major}:{minor}"));
    if let Ok(found) = link.canonicalize() {
        descend(&found, 0, &mut disks);
    }
    disks
}

fn descend(device: &Path, depth: usize, disks: &mut BTreeSet<String>) {
    let below = |name: &str| -> Vec<PathBuf> {
        let entries = std::fs::read_dir(device.join(name)).into_iter().flatten().flatten();
        entries.filter_map(|entry| entry.path().canonicalize().ok()).collect()
    };
    let is_partition = device.join("partition").exists();
    let slaves = below("slaves");
    match device.parent() {
        Some(parent) if is_partition && depth < STACK_MAX => descend(parent, depth + 1, disks),
        _ if !slaves.is_empty() && depth < STACK_MAX => {
            slaves.iter().for_each(|slave| descend(slave, depth + 1, disks));
        }
        _ => disks.extend(device.file_name().map(|name| name.to_string_lossy().into_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::symlink;

    #[test]
    fn partitions_mappings_and_arrays_lead_to_whole_disks() {
        let sys = tempfile::tempdir().unwrap();
        let at = |path: &str| sys.path().join(path);
        for folder in
            ["devices/sda/sda1", "devices/sdb", "devices/md0/slaves", "devices/dm-0/slaves", "dev/block"]
        {
            std::fs::create_dir_all(at(folder)).unwrap();
        }
        std::fs::write(at("devices/sda/sda1/partition"), "1").unwrap();
        symlink(at("devices/sda/sda1"), at("devices/md0/slaves/sda1")).unwrap();
        symlink(at("devices/sdb"), at("devices/md0/slaves/sdb")).unwrap();
        symlink(at("devices/md0"), at("devices/dm-0/slaves/md0")).unwrap();
        for (number, device) in
            [("8:1", "devices/sda/sda1"), ("8:16", "devices/sdb"), ("253:0", "devices/dm-0")]
        {
            symlink(at(device), at(&format!("dev/block/{number}"))).unwrap();
        }
        let names = |major, minor| disks_of(sys.path(), major, minor).into_iter().collect::<Vec<_>>();
        assert_eq!(names(8, 1), ["sda"]);
        assert_eq!(names(8, 16), ["sdb"]);
        assert_eq!(names(253, 0), ["sda", "sdb"]);
        assert_eq!(names(0, 44), Vec::<String>::new());
    }

    #[test]
    fn two_files_in_one_folder_share_a_body() {
        let folder = tempfile::tempdir().unwrap();
        let bodies = ["a.img", "b.img"].map(|name| under(&folder.path().join(name), &[]).body);
        assert_eq!(bodies[0], bodies[1]);
        let gone = ["/dev/sdnot", "/dev/sdthere"].map(|path| under(Path::new(path), &[]).body);
        assert_ne!(gone[0], gone[1], "two disks that were pulled share nothing");
    }
}
