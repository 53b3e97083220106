//! Import and dump on real files: a cluster of two disks made by hand.
use super::*;
use crate::cap::label::Label;
use crate::cluster::assemble::tests::{config, seen};
use crate::fmt::superblock::{Region, RegionKind, Superblock};
use crate::io::{OpenOptions, create_file, open_file};
use model::state::Media;
use std::time::Duration;

const DISK_BYTES: u64 = 64 << 20;

/// Makes the disks of one host of the configuration as files in `folder`.
fn make(folder: &Path, cluster: u8, disks: &[(u8, u8)]) {
    let config = config(cluster, 2, (3, 9));
    let made: Result<(), OfflineError> = on_own_loop(async |ring| {
        for (host, number) in disks {
            let path = folder.join(format!("h{host}-{number}.img"));
            create_file(&path, DISK_BYTES).await.expect("make the file");
            let options = OpenOptions { writable: true, lock_wait: Duration::ZERO, media: Media::Flash };
            let disk = open_file(&ring, &path, options).await.expect("open the file");
            let mut model = seen(&config, *host, *number);
            model.superblock.size_bytes = DISK_BYTES;
            let label = Label::format(disk, model.superblock).await.expect("format");
            label.store_config(&model.configs[0]).await.expect("store the configuration");
        }
        Ok(())
    });
    made.expect("disks are made");
}

/// Gives the disk at `path` extents and an empty checkpoint.
fn format_extents(path: &Path) {
    let made: Result<(), OfflineError> = on_own_loop(async |ring| {
        let options = OpenOptions { writable: true, lock_wait: Duration::ZERO, media: Media::Flash };
        let label = Label::load(open_file(&ring, path, options).await.expect("open")).await.expect("load");
        let add = |superblock: &mut Superblock| {
            let (kind, group) = (RegionKind::Extents, superblock.groups[0].group);
            superblock.regions = vec![Region { kind, group, offset_bytes: 3 << 20, len_bytes: 32 << 20 }];
        };
        label.update(add).await.expect("add the region");
        CapDisk::format(&label).await.expect("format");
        Ok(())
    });
    made.expect("the disk is made");
}

#[test]
fn import_writes_the_hint_of_a_new_folder_once() {
    let folder = tempfile::tempdir().expect("a folder");
    let (disks, data) = (folder.path().join("disks"), folder.path().join("data"));
    std::fs::create_dir(&disks).expect("make the folder");
    make(&disks, 1, &[(1, 0), (1, 1), (2, 0), (2, 1)]);
    let (name, oddities) = import(&data, std::slice::from_ref(&disks), None).expect("import");
    assert_eq!((name.as_str(), oddities.len()), ("mill", 0));
    let hint = hint::load(&data).expect("load").expect("a hint");
    assert_eq!(hint.len(), 4);
    assert!(hint.iter().all(|disk| disk.path.starts_with(&disks)), "{hint:?}");
    assert!(matches!(import(&data, &[disks], None), Err(OfflineError::FolderInUse(_))));
}

#[test]
fn half_a_cluster_two_clusters_and_nothing_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let (half, data) = (folder.path().join("half"), folder.path().join("data"));
    std::fs::create_dir(&half).expect("make the folder");
    make(&half, 1, &[(1, 0), (1, 1)]);
    let refused =
        import(&data, std::slice::from_ref(&half), None).expect_err("half of the disks").to_string();
    assert!(refused.contains("2 of 4 disks"), "{refused}");
    let other = folder.path().join("other");
    std::fs::create_dir(&other).expect("make the folder");
    make(&other, 2, &[(2, 0), (2, 1)]);
    assert!(matches!(import(&data, &[half, other], None), Err(OfflineError::Mixed { count: 2, .. })));
    let blank = folder.path().join("blank");
    std::fs::write(&blank, vec![0; 1 << 20]).expect("write");
    let refused = import(&data, &[blank], None).expect_err("no disk").to_string();
    assert!(refused.contains("no disk of Millpond") && refused.contains("superblock"), "{refused}");
    assert!(!data.exists(), "a refused import leaves nothing behind");
}

#[test]
fn dump_shows_one_disk_and_scan_lists_what_it_cannot_use() {
    let folder = tempfile::tempdir().expect("a folder");
    make(folder.path(), 1, &[(1, 0), (1, 1), (2, 0)]);
    let path = folder.path().join("h1-1.img");
    let unmade = dump(&path).expect("dump");
    assert!(unmade["capacity"]["error"].is_string(), "{}", unmade["capacity"]);
    format_extents(&path);
    let dump = dump(&path).expect("dump");
    assert_eq!(dump["superblock"]["name"], "h1-1");
    assert_eq!(dump["configs"][0]["cluster"], "mill");
    assert_eq!(dump["capacity"]["components"].as_array().map(Vec::len), Some(0), "{}", dump["capacity"]);
    assert!(dump["capacity"]["usage"]["free"].is_number() || dump["capacity"]["usage"].is_object());
    std::fs::write(folder.path().join("notes.txt"), "not a disk").expect("write");
    let scanned = scan(&[folder.path().to_owned()]).expect("scan");
    assert_eq!((scanned.clusters.len(), scanned.refused.len()), (1, 1));
    let found = &scanned.clusters[0];
    assert!(found.assembly.confirmed() && !found.notes.is_empty() && found.obstacles.is_empty(), "{found:?}");
}

/// What every file of a folder holds.
fn bytes_of(folder: &Path) -> std::collections::BTreeMap<PathBuf, Vec<u8>> {
    let files = expand(&[folder.to_owned()]).expect("list");
    files.into_iter().map(|path| (path.clone(), std::fs::read(path).expect("read"))).collect()
}

/// Marks the disk at `path` as written by a version with features that this one does not know.
fn make_newer(path: &Path, incompatible: u64, read_only: u64) {
    let made: Result<(), OfflineError> = on_own_loop(async |ring| {
        let options = OpenOptions { writable: true, lock_wait: Duration::ZERO, media: Media::Flash };
        let label = Label::load(open_file(&ring, path, options).await.expect("open")).await.expect("load");
        for _ in 0..2 {
            let mark = |superblock: &mut Superblock| {
                (superblock.incompatible, superblock.read_only_compatible) = (incompatible, read_only);
            };
            label.update(mark).await.expect("mark it");
        }
        Ok(())
    });
    made.expect("the disk is marked");
}

#[test]
fn a_newer_format_is_refused_with_its_feature_bits_and_nothing_is_written() {
    let folder = tempfile::tempdir().expect("a folder");
    let (disks, data) = (folder.path().join("disks"), folder.path().join("data"));
    std::fs::create_dir(&disks).expect("make the folder");
    make(&disks, 1, &[(1, 0), (1, 1), (2, 0), (2, 1)]);
    make_newer(&disks.join("h1-1.img"), 1 << 40, 0);
    let before = bytes_of(&disks);
    let scanned = scan(std::slice::from_ref(&disks)).expect("scan");
    let found = &scanned.clusters[0];
    assert_eq!((found.assembly.present, scanned.refused.len()), (3, 1));
    let said = found.obstacles.join(" ");
    assert!(
        said.contains("h1-1.img") && said.contains("newer version") && said.contains("0x10000000000"),
        "{said}"
    );
    assert_eq!(said, scanned.refused[0].1);
    let refused = import(&data, std::slice::from_ref(&disks), None).expect_err("a newer disk").to_string();
    assert!(refused.contains("use that version") && !data.exists(), "{refused}");
    // Left out, it is one that is missing; the others may be opened without it.
    let others = ["h1-0.img", "h2-0.img", "h2-1.img"].map(|name| disks.join(name));
    assert!(scan(&others).expect("scan").clusters[0].obstacles.is_empty());
    // Features that only forbid writing: it may be looked at.
    make_newer(&disks.join("h2-1.img"), 0, 1 << 9);
    let scanned = scan(&others).expect("scan");
    let said = scanned.clusters[0].obstacles.join(" ");
    assert!(said.contains("h2-1.img") && said.contains("feature bits 0x200"), "{said}");
    assert_eq!(before[&disks.join("h1-1.img")], bytes_of(&disks)[&disks.join("h1-1.img")]);
}

#[test]
fn a_look_inside_writes_nothing_and_a_pipe_is_no_disk() {
    let folder = tempfile::tempdir().expect("a folder");
    make(folder.path(), 1, &[(1, 0), (1, 1), (2, 0), (2, 1)]);
    format_extents(&folder.path().join("h1-1.img"));
    let before = bytes_of(folder.path());
    let scanned = scan(&[folder.path().to_owned()]).expect("scan");
    let inside = &scanned.clusters[0].inside;
    assert_eq!((inside.cluster.name.as_str(), inside.hosts.len()), ("mill", 2), "{inside:?}");
    assert!(bytes_of(folder.path()) == before, "a byte was written");
    let chosen = scan(&[Path::new("/dev/null").to_owned()]).expect_err("no disk");
    assert!(chosen.to_string().contains("neither a file nor a block device"), "{chosen}");
}
