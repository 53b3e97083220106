//! Disks that are copied, used elsewhere, replaced: what the engine does with them, on a machine of simulated disks.
use super::machine::{Machine, World};
use super::*;
use crate::io::sim::{Events, SimDisk};
use std::collections::BTreeSet;

/// Runs a test with virtual time.
async fn local(test: impl Future<Output = ()>) {
    tokio::task::LocalSet::new().run_until(test).await;
}

fn disk(number: u32) -> DiskId {
    DiskId::from_random(id(3, number))
}

fn planned(number: u32, mib: u64) -> PlannedDisk {
    PlannedDisk {
        id: disk(number),
        name: format!("d{number}"),
        path: format!("/dev/simulated{number}"),
        size_bytes: mib * MIB,
        media: Media::Flash,
        make_file: false,
        erase: false,
        review: None,
    }
}

/// Disks that are domains of their own, and by number which of them have a cache disk and a further disk behind it: those of disk
/// `n` are `n + 10` and `n + 20`.
fn cluster(disks: u32, grouped: &[u32]) -> ClusterPlan {
    let host = |number: u32| PlannedHost {
        id: HostId::from_random(id(1, number)),
        name: format!("d{number}"),
        kind: HostKind::Disk,
        role: HostRole::Data,
    };
    let claim = |number: u32| {
        let is_grouped = grouped.contains(&number);
        let second = is_grouped.then(|| planned(number + 20, 96));
        PlannedGroup {
            host: host(number).id,
            cache_host: None,
            cache: is_grouped.then(|| planned(number + 10, 64)),
            capacity: [planned(number, 96)].into_iter().chain(second).collect(),
        }
    };
    ClusterPlan {
        id: ClusterId::from_random(id(9, 3)),
        name: "disks".into(),
        cluster_type: ClusterType::SingleSite,
        hosts: (1..=disks).map(host).collect(),
        fault_domains: Vec::new(),
        sites: Vec::new(),
        claims: (1..=disks).map(claim).collect(),
        policies: vec![Policy::built_in()],
        default_policy: "default".into(),
        repair_delay_seconds: 3600,
        licence_key: None,
    }
}

fn is_healthy(world: &World, object: ObjectId) -> bool {
    let snapshot = world.core.take_snapshot();
    snapshot.objects.iter().any(|seen| seen.uuid == object && seen.health == ObjectHealth::Healthy)
}

#[tokio::test(start_paused = true)]
async fn a_copy_of_a_disk_is_not_opened_and_neither_is_the_original() {
    local(async {
        let mut world = World::new(cluster(3, &[]), 1).await;
        let object = world.volume(1, "default").await;
        world.stop();
        let original = world.machine.disk(Path::new("/dev/simulated1"));
        let copy = SimDisk::new(original.size_bytes(), 77, &Events::default());
        copy.restore(original.snapshot());
        world.machine.add(Path::new("/dev/copied"), copy.clone());
        let (before, copied) = (original.snapshot(), copy.snapshot());
        assert!(world.restart().await, "two of three disks are enough");
        assert!(!world.is_open(disk(1)), "nobody knows which one is right");
        assert!(world.told("disk-finding", "/dev/copied").await);
        assert!(world.reads(object, 1).await);
        world.stop();
        assert!(original.snapshot() == before && copy.snapshot() == copied, "neither was written");
        // Without the copy all is well again.
        world.machine.pull(Path::new("/dev/copied"));
        assert!(world.restart().await && world.is_open(disk(1)));
        world.until("the volume is healthy", |_| is_healthy(&world, object)).await;
        world.stop();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn disks_that_another_server_used_are_left_as_they_are() {
    local(async {
        let mut world = World::new(cluster(3, &[]), 1).await;
        let object = world.volume(1, "default").await;
        // Two of three disks go to another server, are used there, and come back.
        world.pull(&BTreeSet::from([disk(2), disk(3)])).await;
        let elsewhere = Machine::default();
        for path in ["/dev/simulated2", "/dev/simulated3"] {
            elsewhere.add(Path::new(path), world.machine.disk(Path::new(path)));
        }
        let paths: Vec<String> =
            elsewhere.there().iter().map(|(path, _)| path.display().to_string()).collect();
        let mut other = World::start(elsewhere.clone(), 5).await.expect("starts");
        let cluster = ClusterId::from_random(id(9, 3));
        other.run(Intent::ImportCluster { cluster, paths }).await.expect("imported");
        other.until("the volume is open there", |core| core.owner(object).is_some()).await;
        other.fill(object, 2).await;
        other.stop();
        let after: Vec<_> = elsewhere.there().iter().map(|(_, disk)| disk.snapshot()).collect();
        world.machine.plug(Path::new("/dev/simulated2"));
        world.machine.plug(Path::new("/dev/simulated3"));
        tokio::time::sleep(Duration::from_secs(30)).await;
        assert!(!world.is_open(disk(2)) && !world.is_open(disk(3)));
        assert!(world.told("disk-finding", "used by another server meanwhile").await);
        let now: Vec<_> = elsewhere.there().iter().map(|(_, disk)| disk.snapshot()).collect();
        assert!(now == after, "they were written");
        // All three together know what was written last.
        world.stop();
        assert!(world.restart().await);
        world.until("the volume is healthy", |_| is_healthy(&world, object)).await;
        assert!(world.reads(object, 2).await);
        world.stop();
    })
    .await;
}

/// A blank disk for a planned one.
fn add(world: &World, number: u32) -> PlannedDisk {
    let planned = planned(number, 96);
    let blank = SimDisk::new(planned.size_bytes, 200 + u64::from(number), &Events::default());
    world.machine.add(Path::new(&planned.path), blank);
    planned
}

#[tokio::test(start_paused = true)]
async fn a_failed_disk_is_replaced_in_its_group_though_it_can_be_read() {
    local(async {
        let mut world = World::new(cluster(4, &[1]), 1).await;
        let mut objects = Vec::new();
        for number in 1..=6 {
            objects.push((world.volume(number, "default").await, number));
        }
        let broken = world.core.state.borrow().disks[&disk(1)].disk.clone().expect("open");
        let config = world.core.ready().expect("ready");
        let entry =
            |number| config.disks.iter().find(|known| known.id == disk(number)).cloned().expect("listed");
        broken.faults().set_failing(true);
        for (object, number) in &objects {
            world.fill(*object, *number).await;
        }
        world.until("the disk is called failed", |core| !core.works(&entry(1))).await;
        // Its label can be read again: a disk with a bad place, not a dead one.
        broken.faults().set_failing(false);
        let by = add(&world, 50);
        world.run(Intent::ReplaceDisk { lost: disk(1), by }).await.expect("replaced");
        let config = world.core.ready().expect("ready");
        let group =
            |number| config.disks.iter().find(|known| known.id == disk(number)).map(|known| known.disk_group);
        assert_eq!(group(1), None, "the lost disk is forgotten");
        assert_eq!(group(50), group(21), "the new one is in its group");
        world.stop();
        assert!(world.restart().await);
        assert!(world.is_open(disk(50)) && !world.told("disk-group-failed", "").await);
        for (object, number) in objects {
            world.until("all volumes are healthy", |_| is_healthy(&world, object)).await;
            assert!(world.reads(object, number).await);
        }
        world.stop();
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_replacement_that_broke_off_is_asked_for_again() {
    local(async {
        let mut world = World::new(cluster(5, &[]), 1).await;
        let mut both = None;
        for number in 1..=20 {
            let object = world.volume(number, "default").await;
            let legs = world.core.owner(object).expect("open").descriptor();
            let on: BTreeSet<DiskId> = legs.layout.legs().iter().map(|leg| leg.disk).collect();
            if on == BTreeSet::from([disk(1), disk(2)]) {
                both = Some((object, number));
            }
        }
        let (object, number) = both.expect("one of them lies on disks 1 and 2");
        world.pull(&BTreeSet::from([disk(1)])).await;
        world.pull(&BTreeSet::from([disk(2)])).await;
        let by = add(&world, 50);
        let ask = Intent::ReplaceDisk { lost: disk(1), by };
        let refused = world.run(ask.clone()).await.expect_err("it lies on neither of the others");
        assert!(refused.contains("d1 stays listed"), "{refused}");
        world.machine.plug(Path::new("/dev/simulated2"));
        let all_open = |_: &_| world.core.take_snapshot().objects.iter().all(|object| object.accessible);
        world.until("the other disk is back", all_open).await;
        world.run(ask).await.expect("replaced");
        let listed: Vec<DiskId> =
            world.core.ready().expect("ready").disks.iter().map(|known| known.id).collect();
        assert!(!listed.contains(&disk(1)) && listed.contains(&disk(50)), "{listed:?}");
        world.until("the volume is healthy", |_| is_healthy(&world, object)).await;
        assert!(world.reads(object, number).await);
        // The lost disk belongs to nothing any more.
        world.machine.plug(Path::new("/dev/simulated1"));
        tokio::time::sleep(Duration::from_secs(5)).await;
        assert!(!world.is_open(disk(1)));
        world.stop();
    })
    .await;
}
