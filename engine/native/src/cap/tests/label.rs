//! Superblock pairs and configuration slots: damage, crashes at every event, foreign disks.
use super::*;
use crate::cap::label::{LabelError, scan};
use crate::fmt::slot::ConfigSlot;
use crate::fmt::superblock::copies;
use crate::io::sim::CrashKind;

const SIZE: u64 = 64 * MIB;

#[tokio::test(flavor = "local", start_paused = true)]
async fn the_newest_pair_wins_and_damage_is_mended() {
    let medium = medium(SIZE, 1);
    let label = Label::format(medium.open().await, superblock(SIZE)).await.unwrap();
    for epoch in 2..=5 {
        label.update(|superblock| superblock.epoch = epoch).await.unwrap();
    }
    let newest = scan(&medium.open().await).await.unwrap();
    assert_eq!((newest.superblock.epoch, newest.superblock.generation, newest.damaged.len()), (5, 5, 0));
    // Three of the four copies go, one after the other, each mended by the next load.
    for copy in copies(SIZE) {
        medium.flip_bit(copy + 2000, 3);
        assert_eq!(scan(&medium.open().await).await.unwrap().damaged, [copy]);
        assert_eq!(Label::load(medium.open().await).await.unwrap().superblock().epoch, 5);
        assert_eq!(scan(&medium.open().await).await.unwrap().damaged, [0u64; 0]);
    }
    // Without its newest pair the disk is as it was before the last update.
    let newest_pair: Vec<u64> = copies(SIZE)[..2].to_vec();
    for copy in &newest_pair {
        medium.flip_bit(copy + 2000, 3);
    }
    let found = scan(&medium.open().await).await.unwrap();
    assert!(found.superblock.epoch >= 4, "{found:?}");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_foreign_disk_is_refused_and_not_written() {
    let medium = medium(SIZE, 1);
    let disk = medium.open().await;
    disk.write(0, vec![IoBuf::copy_of(&[0x77; 8192])]).await.unwrap();
    let before = medium.peek(0, 200_000);
    assert!(matches!(Label::load(medium.open().await).await, Err(LabelError::Foreign(_))));
    assert_eq!(medium.peek(0, 200_000), before);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn an_update_that_crashes_anywhere_leaves_the_old_or_the_new() {
    for kind in [CrashKind::Power, CrashKind::Kill] {
        for (event, seed) in (0..=3).flat_map(|event| (0..12).map(move |seed| (event, seed))) {
            let medium = medium(SIZE, seed);
            let label = Label::format(medium.open().await, superblock(SIZE)).await.unwrap();
            label.update(|superblock| superblock.epoch = 2).await.unwrap();
            let events = medium.events().clone();
            events.stop_after(Some(events.count() + event));
            let finished = tokio::select! {
                biased;
                done = label.update(|superblock| superblock.epoch = 3) => { done.unwrap(); true }
                () = events.stopped() => false,
            };
            medium.crash(kind);
            events.stop_after(None);
            let label = Label::load(medium.open().await).await.unwrap();
            let epoch = label.superblock().epoch;
            assert!(if finished { epoch == 3 } else { epoch == 2 || epoch == 3 }, "event {event}: {epoch}");
            // What a load has shown is durable, whatever comes next.
            medium.crash(CrashKind::Power);
            let label = Label::load(medium.open().await).await.unwrap();
            assert_eq!(label.superblock().epoch, epoch, "event {event} seed {seed}");
            label.update(|superblock| superblock.epoch += 1).await.unwrap();
            let again = Label::load(medium.open().await).await.unwrap();
            assert_eq!(again.superblock().epoch, epoch + 1);
        }
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn updates_of_several_callers_all_count() {
    let medium = medium(SIZE, 1);
    let label = Label::format(medium.open().await, superblock(SIZE)).await.unwrap();
    let bump = || label.update(|superblock| superblock.epoch += 1);
    let (a, b, c) = tokio::join!(bump(), bump(), bump());
    a.and(b).and(c).unwrap();
    assert_eq!(Label::load(medium.open().await).await.unwrap().superblock().epoch, 4);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn configuration_slots_keep_the_newest_through_every_crash() {
    for (event, seed) in (0..=2).flat_map(|event| (0..12).map(move |seed| (event, seed))) {
        let medium = medium(SIZE, seed);
        let label = Label::format(medium.open().await, superblock(SIZE)).await.unwrap();
        assert_eq!(label.load_config().await.unwrap(), None);
        let slot = |epoch, sequence| ConfigSlot { epoch, sequence, payload: vec![sequence as u8; 9000] };
        for sequence in 1..=3 {
            label.store_config(&slot(1, sequence)).await.unwrap();
            assert_eq!(label.load_config().await.unwrap(), Some(slot(1, sequence)));
        }
        let events = medium.events().clone();
        events.stop_after(Some(events.count() + event));
        // A higher epoch is newer, whatever its sequence.
        let finished = tokio::select! {
            biased;
            done = async { label.store_config(&slot(2, 1)).await } => { done.unwrap(); true }
            () = events.stopped() => false,
        };
        medium.crash(CrashKind::Power);
        events.stop_after(None);
        let found = Label::load(medium.open().await).await.unwrap().load_config().await.unwrap().unwrap();
        assert!(found == slot(2, 1) || (!finished && found == slot(1, 3)), "{found:?}");
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_slot_of_another_disk_is_not_believed() {
    let medium = medium(SIZE, 1);
    let label = Label::format(medium.open().await, superblock(SIZE)).await.unwrap();
    let slot = ConfigSlot { epoch: 1, sequence: 1, payload: vec![1; 10] };
    let other = slot.encode(label.dev_id() + 1, layout::CONFIG_SLOTS[0]).unwrap();
    label.disk().write(layout::CONFIG_SLOTS[0], vec![IoBuf::copy_of(&other)]).await.unwrap();
    assert_eq!(label.load_config().await.unwrap(), None);
}
