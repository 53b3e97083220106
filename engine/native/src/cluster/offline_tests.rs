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
            create_file(&path, DISK_BYTES, 0..0).await.expect("make the file");
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
    let (name, oddities) = import(&data, std::slice::from_ref(&disks)).expect("import");
    assert_eq!((name.as_str(), oddities.len()), ("mill", 0));
    let hint = hint::load(&data).expect("load").expect("a hint");
    assert_eq!(hint.len(), 4);
    assert!(hint.iter().all(|disk| disk.path.starts_with(&disks)), "{hint:?}");
    assert!(matches!(import(&data, &[disks]), Err(OfflineError::FolderInUse(_))));
}

#[test]
fn half_a_cluster_two_clusters_and_nothing_are_refused_with_the_reason() {
    let folder = tempfile::tempdir().expect("a folder");
    let (half, data) = (folder.path().join("half"), folder.path().join("data"));
    std::fs::create_dir(&half).expect("make the folder");
    make(&half, 1, &[(1, 0), (1, 1)]);
    let refused = import(&data, std::slice::from_ref(&half)).expect_err("half of the disks").to_string();
    assert!(refused.contains("2 of 4 disks"), "{refused}");
    let other = folder.path().join("other");
    std::fs::create_dir(&other).expect("make the folder");
    make(&other, 2, &[(2, 0), (2, 1)]);
    assert!(matches!(import(&data, &[half, other]), Err(OfflineError::Mixed { count: 2, .. })));
    let blank = folder.path().join("blank");
    std::fs::write(&blank, vec![0; 1 << 20]).expect("write");
    let refused = import(&data, &[blank]).expect_err("no disk").to_string();
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
    assert!(scanned.clusters[0].confirmed() && !scanned.clusters[0].findings.is_empty());
}
