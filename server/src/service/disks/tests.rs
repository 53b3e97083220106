//! Which devices are free beside claimed disks.
use super::*;
use ::inventory::source::Recorded;
use ::inventory::{Options, survey};

/// A machine whose eligible disk is `sdh`, and a cluster with one disk that is known by the same identity.
fn free_beside(state: DiskState, path: &str) -> Vec<DiskId> {
    let folder = tempfile::tempdir().unwrap();
    let fixtures = Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/inventory/fixtures");
    std::fs::copy(fixtures.join("E9_lsblk_signatures.json"), folder.path().join("lsblk.json")).unwrap();
    let machine = survey(&Recorded::open(folder.path()).unwrap(), Options::default()).unwrap();
    let known = machine.find("sdh").unwrap().id;
    let seen = Seen { inventory: Some(Arc::new(machine)), problem: None };
    let mut snapshot = crate::web::sample::snapshot();
    snapshot.disks.truncate(1);
    let claimed = &mut snapshot.disks[0];
    (claimed.id, claimed.state, claimed.path) = (known, state, path.into());
    let free = free_devices(&seen, &snapshot);
    free.iter().filter(|(_, disk)| disk.name() == "sdh").map(|(id, _)| *id).chain([known]).collect()
}

#[test]
fn a_claimed_disk_is_no_free_one_and_another_in_its_place_has_another_id() {
    assert_eq!(free_beside(DiskState::Healthy, "/dev/sdh").len(), 1, "it is the claimed one");
    let ids = free_beside(DiskState::Absent, "/dev/sdh");
    assert_eq!(ids.len(), 2, "the claimed one was pulled: this is another");
    assert_ne!(ids[0], ids[1]);
    assert_eq!(ids, free_beside(DiskState::Absent, "/dev/sdh"), "the same at every look");
}
