//! When a disk may be written, and what is left of what was on it.
use super::*;
use crate::io::{IoBuf, OpenOptions, Ring, create_file, open_file};
use model::ids::DiskId;
use model::plan::Review;
use model::state::Media;
use std::time::Duration;

fn planned(erase: bool, review: Option<Review>) -> PlannedDisk {
    PlannedDisk {
        id: DiskId::from_random([1; 16]),
        name: "sdb".into(),
        path: "/dev/sdb".into(),
        size_bytes: 64 << 20,
        media: Media::Hdd,
        make_file: false,
        erase,
        review,
    }
}

fn review(contents: Option<&str>) -> Review {
    Review { identity: "wwn:0x1".into(), contents: contents.map(Into::into), fingerprint: "a".into() }
}

fn found(contents: Option<&str>, fingerprint: &str) -> Found {
    Found { contents: contents.map(Into::into), fingerprint: fingerprint.into(), ..Found::default() }
}

/// Identity and size as reviewed.
fn said(planned: &PlannedDisk, found: &Found) -> String {
    problem(planned, 64 << 20, Some("wwn:0x1"), found).unwrap_or_default()
}

#[test]
fn a_disk_is_written_only_as_it_was_reviewed() {
    let blank = planned(false, Some(review(None)));
    assert_eq!(said(&blank, &found(None, "a")), "");
    let listed = planned(true, Some(review(Some("ext4 file system (data)"))));
    assert_eq!(said(&listed, &found(Some("ext4 file system (data)"), "a")), "");

    let other = problem(&blank, 64 << 20, Some("wwn:0x2"), &found(None, "a")).expect("refused");
    assert!(other.contains("/dev/sdb is another disk") && other.contains("wwn:0x2"), "{other}");
    assert!(problem(&blank, 64 << 20, None, &found(None, "a")).is_some(), "nobody can identify it");
    assert!(problem(&blank, 65 << 20, Some("wwn:0x1"), &found(None, "a")).is_some(), "another size");

    let filled = said(&blank, &found(Some("ZFS member (tank)"), "b"));
    assert!(filled.contains("/dev/sdb holds ZFS member (tank) and is not listed"), "{filled}");
    let changed = said(&listed, &found(Some("ZFS member (tank)"), "b"));
    assert!(changed.contains("it held ext4 file system (data), it holds ZFS member (tank)"), "{changed}");
    assert!(!said(&listed, &found(None, "b")).is_empty(), "emptied by somebody: he may be at work");
    let unlisted = planned(false, Some(review(Some("vdo member"))));
    assert!(said(&unlisted, &found(None, "a")).contains("vdo member"), "only lsblk knew it");

    let file = planned(false, None);
    assert_eq!(said(&file, &found(None, "x")), "");
    assert!(said(&file, &found(Some("data"), "x")).contains("not listed for erasing"));
    let broken = Found { unreadable: Some("byte 7".into()), ..found(None, "a") };
    assert!(said(&blank, &broken).contains("cannot be read"));
}

/// Finds the byte 0xEE at multiples of 1 MiB plus 100 as signatures; those below 1 MiB are tables.
struct Marks;

impl Inspect for Marks {
    fn identities(&self, _: &[PathBuf]) -> BTreeMap<PathBuf, String> {
        BTreeMap::new()
    }

    fn look(&self, size_bytes: u64, read: &ReadAt<'_>) -> Found {
        let places = (0..size_bytes >> 20).map(|mib| (mib << 20) + 100);
        let is_marked = |offset: &u64| {
            let mut byte = [0];
            read(*offset, &mut byte).expect("reads");
            byte[0] == 0xee
        };
        let signature = |offset_bytes: u64| Signature { offset_bytes, is_table: offset_bytes < 1 << 20 };
        let signatures: Vec<Signature> = places.filter(is_marked).map(signature).collect();
        Found { contents: (!signatures.is_empty()).then(|| "marks".into()), signatures, ..Found::default() }
    }
}

#[test]
fn erasing_takes_every_signature_and_both_ends() {
    let folder = tempfile::tempdir().expect("folder");
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().expect("runtime");
    tokio::task::LocalSet::new().block_on(&runtime, async {
        let path = folder.path().join("disk");
        create_file(&path, (64 << 20) + 512).await.expect("made");
        let options = OpenOptions { writable: true, lock_wait: Duration::ZERO, media: Media::Flash };
        let disk = open_file(&Ring::new().expect("ring"), &path, options).await.expect("open");
        let mut mark = IoBuf::zeroed(4096);
        mark.as_mut()[100] = 0xee;
        for mib in [0u64, 1, 7, 20, 63] {
            disk.write(mib << 20, vec![mark.clone()]).await.expect("write");
        }
        disk.write((64 << 20) + 512 - 512, vec![mark.slice(0..512)]).await.expect("the last sector");
        let inspector = Inspector(Arc::new(Marks));
        assert_eq!(look(&inspector, &disk).await.expect("looked").signatures.len(), 5);
        erase(&inspector, &disk, &path).await.expect("erased");
        let bytes = std::fs::read(&path).expect("file");
        assert!(bytes.iter().all(|byte| *byte == 0), "everything marked is gone, and the ends");
    });
}
