//! Long random histories with checkpoints and reopens, and the single rules one by one.
use super::*;
use crate::fmt::leaf::LEAF_BLOCKS;

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_random_history_reads_back_over_checkpoints_and_reopens() {
    for seed in 0..6 {
        let medium = medium(80 * MIB, seed);
        let mut disk = formatted(&medium).await;
        let mut script = Script::new(seed);
        for step in 1..=400u64 {
            let op = script.next();
            match apply(&disk, &op).await {
                Err(CapError::NoSpace { after_checkpoint: 1.. }) => {
                    checkpoint(&disk, step).await;
                    apply(&disk, &op).await.unwrap();
                }
                other => other.unwrap(),
            }
            if script.env.chance(1, 15) {
                checkpoint(&disk, step).await;
                assert!(!disk.is_dirty());
                if script.env.chance(1, 2) {
                    disk = reopened(&medium).await;
                    assert!(!disk.is_dirty());
                }
                compare(&disk, &script.oracle, &BTreeSet::new()).await.unwrap();
                assert_eq!(disk.verify(true, |_, _| false).await, []);
            }
        }
        compare(&disk, &script.oracle, &BTreeSet::new()).await.unwrap();
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn writes_under_way_share_an_extent_and_trims_wait_for_them() {
    let disk = formatted(&medium(64 * MIB, 1)).await;
    let local = LocalId(1);
    disk.create(new_component(local, SIZE_BLOCKS)).unwrap();
    let write = |block: u64| {
        let disk = &disk;
        async move {
            let (crcs, bufs) = run_of(block, 1, 5);
            disk.write(local, block, 5, 5, &crcs, bufs, None).await.unwrap();
        }
    };
    // The trim of block 2 finds no valid block yet, and must not free the extent under the writes.
    tokio::join!(write(0), write(1), disk.punch(local, 2, 1, 6), write(3), checkpoint(&disk, 1)).2.unwrap();
    let info = disk.component(local).unwrap();
    assert_eq!((info.used_bytes, info.oseq_max), (65536, 6));
    assert_eq!(disk.status(local, 0, 5), [(2, true), (1, false), (1, true), (1, false)]);
    assert_eq!(disk.verify(true, |_, _| false).await, []);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_hole_keeps_the_sequence_of_its_trim_and_only_real_blocks_are_written() {
    let medium = medium(64 * MIB, 1);
    let disk = formatted(&medium).await;
    let local = LocalId(1);
    disk.create(new_component(local, SIZE_BLOCKS)).unwrap();
    apply(&disk, &Op::Write { local, block: 30, nblk: 4, oseq: 3 }).await.unwrap();
    disk.punch(local, 0, SIZE_BLOCKS, 9).await.unwrap();
    checkpoint(&disk, 1).await;
    let disk = reopened(&medium).await;
    let info = disk.component(local).unwrap();
    assert_eq!((info.used_bytes, info.oseq_max), (0, 9));
    assert_eq!(disk.changed_since(local, 8), [(1, 9), (2, 9)]);
    assert_eq!(disk.changed_since(local, 9), []);
    assert_eq!(disk.usage().data_bytes, 0);
    assert!(matches!(
        disk.read(local, 0, SIZE_BLOCKS).await.unwrap()[..],
        [super::super::BlockRun { nblk: SIZE_BLOCKS, content: Content::Zero }]
    ));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn rot_is_reported_where_it_is_and_a_passing_fault_is_not() {
    let medium = medium(64 * MIB, 1);
    let disk = formatted(&medium).await;
    let local = LocalId(1);
    disk.create(new_component(local, SIZE_BLOCKS)).unwrap();
    apply(&disk, &Op::Write { local, block: 0, nblk: 40, oseq: 1 }).await.unwrap();
    let flips = crate::io::sim::Misbehaviour {
        read_flip_ppm: 300_000,
        read_error_ppm: 100_000,
        ..Default::default()
    };
    medium.misbehave(flips);
    let mut tried = 0;
    while !matches!(disk.read(local, 0, 40).await.unwrap()[..], [super::super::BlockRun { nblk: 40, .. }]) {
        tried += 1;
        assert!(tried < 100, "a read that fails once is tried again");
    }
    medium.misbehave(Default::default());
    let extent = disk.0.state.borrow().components[&local].entry(1).extent.unwrap();
    let offset = disk.0.state.borrow().offset_bytes(extent);
    medium.flip_bit(offset + 4096 * 3 + 17, 2);
    medium.rot(offset + 4096 * 5);
    let kinds: Vec<_> = disk
        .read(local, 16, 8)
        .await
        .unwrap()
        .into_iter()
        .map(|run| (run.nblk, std::mem::discriminant(&run.content)))
        .collect();
    let data = std::mem::discriminant(&Content::Data { buf: IoBuf::zeroed(0), crcs: Vec::new() });
    let of = |content| std::mem::discriminant(&content);
    let good: u64 = kinds.iter().filter(|(_, kind)| *kind == data).map(|(n, _)| n).sum();
    assert_eq!(good, 6);
    assert!(kinds.contains(&(1, of(Content::Bad))) && kinds.contains(&(1, of(Content::IoError))));
    let findings = disk.verify(true, |_, _| false).await;
    assert_eq!(findings.iter().map(|finding| finding.block).collect::<Vec<_>>(), [Some(19), Some(21)]);
    assert_eq!(disk.verify(true, |_, block| block == 19 || block == 21).await, []);
    // Writing it again mends it.
    apply(&disk, &Op::Write { local, block: 16, nblk: 8, oseq: 2 }).await.unwrap();
    assert_eq!(disk.verify(true, |_, _| false).await, []);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn damaged_pages_are_found_and_stay_with_their_component() {
    let medium = medium(64 * MIB, 1);
    let disk = formatted(&medium).await;
    for local in [LocalId(1), LocalId(2)] {
        disk.create(new_component(local, SIZE_BLOCKS)).unwrap();
        apply(&disk, &Op::Write { local, block: LEAF_BLOCKS - 1, nblk: 2, oseq: 4 }).await.unwrap();
    }
    checkpoint(&disk, 1).await;
    let leaf = disk.0.state.borrow().components[&LocalId(1)].map.get(1).page_offset_bytes;
    let image = medium.snapshot();
    medium.flip_bit(leaf + 1000, 0);
    assert_eq!(disk.verify(false, |_, _| false).await.len(), 1);
    let disk = reopened(&medium).await;
    assert_eq!(disk.components().iter().map(|info| info.damaged).collect::<Vec<_>>(), [true, false]);
    // What the damaged map may have used is not given to anyone, even after the component is gone; the next open finds it free.
    let used = disk.usage().data_bytes;
    assert_eq!(used, 4 * 65536);
    assert!(disk.remove(LocalId(1)));
    checkpoint(&disk, 2).await;
    assert_eq!(disk.usage().data_bytes, 3 * 65536);
    let disk = reopened(&medium).await;
    assert_eq!(disk.usage().data_bytes, 2 * 65536);
    checkpoint(&disk, 3).await;
    assert_eq!(disk.verify(true, |_, _| false).await, []);
    // A page of the table is needed by all: the disk does not open.
    medium.restore(image);
    let label = Label::load(medium.open().await).await.unwrap();
    let table = label.superblock().checkpoint.table.page_offset_bytes;
    medium.flip_bit(table + 1000, 0);
    assert!(
        matches!(CapDisk::open(label).await, Err(CapError::Damaged { offset_bytes, .. }) if offset_bytes == table)
    );
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn ranges_and_numbers_are_checked() {
    let disk = formatted(&medium(64 * MIB, 1)).await;
    let local = LocalId(1);
    assert!(matches!(disk.read(local, 0, 1).await, Err(CapError::NoComponent(LocalId(1)))));
    disk.create(new_component(local, 100)).unwrap();
    assert!(matches!(disk.create(new_component(local, 100)), Err(CapError::CannotCreate(_))));
    assert!(matches!(disk.create(new_component(LocalId(0), 100)), Err(CapError::CannotCreate(_))));
    assert!(matches!(disk.read(local, 99, 2).await, Err(CapError::Range { end: 101, .. })));
    assert!(matches!(disk.punch(local, u64::MAX, 2, 1).await, Err(CapError::Range { .. })));
    let (crcs, bufs) = run_of(0, 2, 1);
    let wrong = disk.write(local, 0, 1, 1, &crcs[..1], bufs, None).await;
    assert!(matches!(wrong, Err(CapError::Range { .. })));
    disk.resize(local, 200).unwrap();
    disk.resize(local, 50).unwrap();
    assert_eq!(disk.component(local).unwrap().size_blocks, 200);
    assert_eq!((disk.oseq_max(LocalId(7)), disk.usage().data_bytes), (0, 0));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn the_mark_of_a_checkpoint_is_kept() {
    let medium = medium(64 * MIB, 1);
    let disk = formatted(&medium).await;
    disk.create(new_component(LocalId(3), 100)).unwrap();
    let mark = CheckpointMark { applied_batch: 77, applied_stable: vec![(LocalId(3), 12), (LocalId(9), 1)] };
    assert_eq!(disk.checkpoint(mark).await.unwrap(), 2);
    checkpoint(&disk, 78).await;
    let disk = reopened(&medium).await;
    assert_eq!(disk.component(LocalId(3)).unwrap().applied_stable_oseq, 12);
    let root = disk.label().superblock().checkpoint;
    assert_eq!((root.generation, root.applied_batch, root.components), (3, 78, 1));
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_dump_shows_the_checkpoint_and_writes_nothing() {
    let medium = medium(64 * MIB, 1);
    let disk = formatted(&medium).await;
    let local = LocalId(1);
    disk.create(new_component(local, SIZE_BLOCKS)).unwrap();
    apply(&disk, &Op::Write { local, block: 17, nblk: 2, oseq: 3 }).await.unwrap();
    checkpoint(&disk, 5).await;
    let opened = medium.open().await;
    let events = medium.events().count();
    let label = Label::read_only(opened.clone(), crate::cap::label::scan(&opened).await.unwrap());
    let dump = CapDisk::dump(&label).await.unwrap();
    assert_eq!(medium.events().count(), events);
    assert_eq!(
        (&dump["checkpoint"]["applied_batch"], &dump["findings"]),
        (&5.into(), &serde_json::json!([]))
    );
    let extent = &dump["components"][0]["leaves"][0]["extents"][0];
    assert_eq!((&extent["index"], &extent["valid_blocks"]), (&1.into(), &"0110000000000000".into()));
    let free: u64 = dump["allocation_groups"]
        .as_array()
        .unwrap()
        .iter()
        .map(|group| group["free"].as_u64().unwrap())
        .sum();
    assert_eq!(free, 60 * 16 - 1 - disk.usage().metadata_bytes / 65536);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn replicas_have_equal_digests_wherever_their_data_lies() {
    let media = [medium(64 * MIB, 1), medium(64 * MIB, 2)];
    let disks = [formatted(&media[0]).await, formatted(&media[1]).await];
    let local = LocalId(1);
    let write = |block, oseq| Op::Write { local, block, nblk: 9, oseq };
    for (disk, order) in disks.iter().zip([[100, 700, 300], [300, 100, 700]]) {
        disk.create(new_component(local, SIZE_BLOCKS)).unwrap();
        for block in order {
            apply(disk, &write(block, block)).await.unwrap();
        }
    }
    let digests = |disk: &CapDisk| (0..3).map(|leaf| disk.leaf_digest(local, leaf)).collect::<Vec<_>>();
    assert_eq!(digests(&disks[0]), digests(&disks[1]));
    assert!(digests(&disks[0])[0] != 0 && digests(&disks[0])[2] == 0);
    for disk in &disks {
        checkpoint(disk, 1).await;
    }
    let roots = |disk: &CapDisk| disk.0.state.borrow().components[&local].map.roots()[0].digest;
    assert_eq!(roots(&disks[0]), roots(&disks[1]));
    apply(&disks[0], &write(700, 4)).await.unwrap();
    checkpoint(&disks[0], 2).await;
    assert_ne!(roots(&disks[0]), roots(&disks[1]));
    assert_eq!(digests(&disks[0])[0], digests(&disks[1])[0]);
    assert_ne!(digests(&disks[0])[1], digests(&disks[1])[1]);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn the_mutant_forgets_trims() {
    let disk = formatted(&medium(64 * MIB, 1)).await;
    let local = LocalId(1);
    disk.create(new_component(local, 100)).unwrap();
    apply(&disk, &Op::Write { local, block: 0, nblk: 4, oseq: 3 }).await.unwrap();
    crate::mutant::set(Some(crate::mutant::Mutant::ForgetHoleSequence));
    disk.punch(local, 0, 100, 9).await.unwrap();
    crate::mutant::set(None);
    assert_eq!(disk.changed_since(local, 0), []);
}
