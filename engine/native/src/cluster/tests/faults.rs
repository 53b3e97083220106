//! What breaks: room, hosts, disks, blocks, the process.
use super::*;

#[tokio::test]
async fn b5_parallel_thick_volumes_never_overbook() {
    // 110 MiB disks take 3 thick components of 30 MiB and their structures, not 4: 9 places, 2 for each volume.
    let mut lab = Lab::new(3, 110).await;
    let thick = Policy { name: "thick".into(), object_space_reservation_percent: 100, ..Policy::built_in() };
    lab.run(Intent::PutPolicy { policy: thick, expected_version: None, apply_now: false }).await;
    for round in 0..3 {
        let creates = (0..6u32).map(|number| {
            let number = round * 10 + number;
            let intent = Intent::CreateVolume {
                id: ObjectId::from_random(id(5, number)),
                name: format!("v{number}"),
                size_bytes: 30 * MIB,
                policy: Some("thick".into()),
            };
            lab.engine.apply(TaskId::from_random(id(8, number)), intent)
        });
        let results = futures_util::future::join_all(creates).await;
        let made = results.iter().filter(|result| result.is_ok()).count();
        assert_eq!(made, 4, "{results:?}");
        let refused = results.iter().filter_map(|result| result.as_ref().err());
        assert!(refused.clone().all(|error| matches!(error, EngineError::Unplaceable(_))), "{results:?}");
        let snapshot = lab.snapshot().await;
        assert!(snapshot.disks.iter().all(|disk| disk.used_bytes + disk.reserved_bytes <= disk.size_bytes));
        for object in &snapshot.objects {
            lab.run(Intent::DeleteVolume { id: object.uuid }).await;
        }
    }
    lab.engine.shutdown().await.expect("stops");
}

#[tokio::test]
async fn a6_a_missing_witness_is_added_when_a_third_host_joins() {
    let mut lab = Lab::new(2, 128).await;
    assert!(matches!(lab.create(1, "db", 16, None).await, Err(EngineError::Unplaceable(_))));
    let forced = Policy { name: "forced".into(), force_provisioning: true, ..Policy::built_in() };
    lab.run(Intent::PutPolicy { policy: forced, expected_version: None, apply_now: false }).await;
    let applied = lab.create(1, "db", 16, Some("forced")).await.expect("forced");
    assert_eq!(applied.warnings.len(), 1, "{applied:?}");
    let made = lab.wait_health("db", ObjectHealth::ReducedCannotRebuild).await;
    assert_eq!((hosts_of(&made).0.len(), made.tolerates_now), (2, 0));
    let more = plan(&lab.folder, 3, 128);
    let (hosts, claims) = (vec![more.hosts[2].clone()], vec![more.claims[2].clone()]);
    lab.run(Intent::AddClaims { hosts, claims }).await;
    let whole = lab.wait_health("db", ObjectHealth::Healthy).await;
    assert_eq!((hosts_of(&whole).1, whole.tolerates_now), (vec!["h3".to_owned()], 1));
    lab.engine.shutdown().await.expect("stops");
}

#[tokio::test]
async fn faults_and_marks_are_kept_over_a_crash() {
    let mut lab = Lab::new(3, 128).await;
    lab.create(1, "db", 16, None).await.expect("made");
    let (data, _) = hosts_of(&*lab.volume("db").await);
    let client = lab.client("db").await;
    client.write(0, &pattern(1, 65536), false).await.expect("written");
    lab.fault(&data[0], Fault::PowerOff).await;
    client.write(0, &pattern(2, 65536), false).await.expect("goes on");
    drop(client);
    // As kill -9: the engine thread ends without a stop.
    let fresh = tempfile::tempdir().expect("a folder");
    let dead =
        std::mem::replace(&mut lab.engine, NativeEngine::start(Options::new(fresh.path())).expect("starts"));
    drop(dead);
    lab.engine = NativeEngine::start(Options::new(&lab.folder)).expect("starts again");
    let waiting = lab.wait_health("db", ObjectHealth::ReducedWaiting).await;
    assert!(waiting.accessible);
    assert_eq!(lab.client("db").await.read(0, 65536).await.expect("readable"), pattern(2, 65536));
    lab.fault(&data[0], Fault::PowerOn).await;
    lab.wait_health("db", ObjectHealth::Healthy).await;
    lab.fault(&data[1], Fault::PowerOff).await;
    assert_eq!(lab.client("db").await.read(0, 65536).await.expect("readable"), pattern(2, 65536));
    lab.engine.shutdown().await.expect("stops");
}

#[tokio::test]
async fn a_deleted_volume_does_not_come_back_with_a_host() {
    let mut lab = Lab::new(3, 128).await;
    lab.create(1, "db", 16, None).await.expect("made");
    let (data, _) = hosts_of(&*lab.volume("db").await);
    lab.fault(&data[0], Fault::PowerOff).await;
    let id = lab.volume("db").await.uuid;
    lab.run(Intent::DeleteVolume { id }).await;
    lab.fault(&data[0], Fault::PowerOn).await;
    let gone = |snapshot: &Snapshot| {
        snapshot.objects.is_empty() && snapshot.hosts.iter().all(|host| host.components == 0)
    };
    lab.wait_for("the last component goes", gone).await;
    lab.restart().await;
    assert!(lab.snapshot().await.objects.is_empty());
    lab.create(2, "db", 16, None).await.expect("the name is free");
    lab.engine.shutdown().await.expect("stops");
}

#[tokio::test]
async fn a_rotten_block_is_read_from_the_other_copy_and_repaired() {
    let mut lab = Lab::new(3, 128).await;
    lab.create(1, "db", 16, None).await.expect("made");
    let client = lab.client("db").await;
    client.write(0, &pattern(5, 1 << 20), true).await.expect("written");
    let view = lab.volume("db").await;
    for (leaf, _) in view.tree.leaves().into_iter().filter(|(_, witness)| !witness).take(1) {
        let fault =
            Fault::Corrupt { object: Some(view.uuid), offset_bytes: Some(8192), length_bytes: Some(8192) };
        let applied = lab.apply(Intent::InjectFault { target: FaultTarget::Disk(leaf.disk), fault }).await;
        assert_eq!(applied.expect("flipped").applied.len(), 2);
    }
    for _ in 0..4 {
        assert_eq!(client.read(0, 1 << 20).await.expect("readable"), pattern(5, 1 << 20));
    }
    let snapshot = lab.wait_for("the error is counted", |snapshot| {
        snapshot.disks.iter().any(|disk| disk.checksum_errors > 0)
    });
    assert_eq!(find(&*snapshot.await, "db").health, ObjectHealth::Healthy);
    lab.engine.shutdown().await.expect("stops");
}

#[tokio::test]
async fn a_failed_disk_is_rebuilt_at_once_and_a_cut_off_host_is_absent() {
    let mut lab = Lab::new(4, 128).await;
    lab.create(1, "db", 16, None).await.expect("made");
    let client = lab.client("db").await;
    client.write(0, &pattern(7, 1 << 20), true).await.expect("written");
    let view = lab.volume("db").await;
    let (data, _) = hosts_of(&view);
    let disk = view.tree.leaves()[0].0.disk;
    let fault = Intent::InjectFault { target: FaultTarget::Disk(disk), fault: Fault::Fail };
    lab.run(fault).await;
    client.write(1 << 20, &pattern(8, 1 << 20), true).await.expect("goes on");
    let moved = lab
        .wait_for("the copy moves", |snapshot| {
            let object = find(snapshot, "db");
            object.health == ObjectHealth::Healthy && !hosts_of(object).0.contains(&data[0])
        })
        .await;
    let (now, _) = hosts_of(find(&moved, "db"));
    let others: Vec<String> =
        (1..=4).map(|number| format!("h{number}")).filter(|host| *host != now[1]).collect();
    lab.fault(&now[1], Fault::Partition { from: others }).await;
    lab.wait_health("db", ObjectHealth::ReducedWaiting).await;
    client.write(0, &pattern(9, 4096), true).await.expect("goes on");
    lab.fault(&now[1], Fault::Heal).await;
    lab.wait_health("db", ObjectHealth::Healthy).await;
    lab.fault(&now[0], Fault::PowerOff).await;
    assert_eq!(client.read(0, 4096).await.expect("readable"), pattern(9, 4096));
    lab.engine.shutdown().await.expect("stops");
}

#[tokio::test]
async fn a_healed_disk_is_used_again() {
    let mut lab = Lab::new(3, 128).await;
    lab.create(1, "db", 16, None).await.expect("made");
    let client = lab.client("db").await;
    client.write(0, &pattern(1, 1 << 20), true).await.expect("written");
    let disk = lab.volume("db").await.tree.leaves()[0].0.disk;
    let target = FaultTarget::Disk(disk);
    lab.run(Intent::InjectFault { target: target.clone(), fault: Fault::Fail }).await;
    client.write(0, &pattern(2, 1 << 20), true).await.expect("goes on");
    let stuck = lab.wait_health("db", ObjectHealth::ReducedCannotRebuild).await;
    assert!(
        stuck.reason.as_deref().is_some_and(|reason| reason.contains("needs 3 fault domains")),
        "{stuck:?}"
    );
    lab.run(Intent::InjectFault { target, fault: Fault::Heal }).await;
    lab.wait_health("db", ObjectHealth::Healthy).await;
    let alone = |snapshot: &Snapshot| snapshot.hosts.iter().map(|host| host.components).sum::<u32>() == 3;
    lab.wait_for("what the disk held before goes", alone).await;
    lab.engine.shutdown().await.expect("stops");
}

#[tokio::test]
async fn a_host_that_was_given_up_for_its_slowness_is_taken_back() {
    let mut lab = Lab::new(3, 128).await;
    lab.create(1, "db", 16, None).await.expect("made");
    let (data, _) = hosts_of(&*lab.volume("db").await);
    let client = lab.client("db").await;
    client.write(0, &pattern(1, 65536), true).await.expect("written");
    lab.fault(&data[0], Fault::Slow { latency_ms: Some(8_000) }).await;
    client.write(0, &pattern(2, 65536), true).await.expect("the slow copy is given up");
    lab.wait_health("db", ObjectHealth::ReducedWaiting).await;
    lab.fault(&data[0], Fault::Heal).await;
    let whole = lab.wait_health("db", ObjectHealth::Healthy).await;
    assert_eq!(hosts_of(&whole).0, data, "it was taken back, not rebuilt elsewhere");
    lab.engine.shutdown().await.expect("stops");
}

#[tokio::test]
async fn b6_thin_space_runs_out_and_comes_back() {
    let mut lab = Lab::new(3, 100).await;
    lab.create(1, "a", 90, None).await.expect("thin");
    lab.create(2, "b", 90, None).await.expect("thin");
    let (first, second) = (lab.client("a").await, lab.client("b").await);
    let mut written = Vec::new();
    let mut refused = false;
    'fill: for mib in 0..90u64 {
        for (name, client) in [("a", &first), ("b", &second)] {
            match client.write(mib * MIB, &pattern(mib as u8, 1 << 20), true).await {
                Ok(()) => written.push((name, mib)),
                Err(_) => {
                    refused = true;
                    break 'fill;
                }
            }
        }
    }
    assert!(refused, "180 MiB of mirrors do not fit on 300 MiB");
    for (name, mib) in &written {
        let client = if *name == "a" { &first } else { &second };
        assert_eq!(client.read(mib * MIB, 1 << 20).await.expect("readable"), pattern(*mib as u8, 1 << 20));
    }
    let object = lab.volume("a").await;
    assert!(
        object.tree.leaves().iter().all(|(leaf, _)| leaf.state != ComponentState::Degraded),
        "{object:?}"
    );
    let id = lab.volume("b").await.uuid;
    drop(second);
    lab.run(Intent::DeleteVolume { id }).await;
    let again = async {
        while first.write(80 * MIB, &pattern(3, 1 << 20), true).await.is_err() {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    tokio::time::timeout(PATIENCE, again).await.expect("room comes back");
    lab.engine.shutdown().await.expect("stops");
}
