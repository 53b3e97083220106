//! Space: refused by reservations alone, and never missing later.
use super::*;
use crate::cap::{Need, NewPage};
use model::units::EXTENT_BYTES;

/// Writes single blocks at `stride` until a reservation is refused even after a checkpoint; returns the blocks.
pub(super) async fn fill(disk: &CapDisk, local: LocalId, stride: u64) -> Vec<u64> {
    let size = disk.component(local).unwrap().size_blocks;
    let mut written = Vec::new();
    for block in (0..size).step_by(stride as usize) {
        match apply(disk, &Op::Write { local, block, nblk: 1, oseq: 1 }).await {
            Ok(()) => written.push(block),
            Err(CapError::NoSpace { after_checkpoint: 0 }) => return written,
            Err(CapError::NoSpace { .. }) => drop(checkpoint(disk, 1).await),
            Err(error) => panic!("{error}"),
        }
    }
    panic!("the disk is not full");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_full_disk_refuses_reservations_and_does_everything_else() {
    for stride in [16, 512] {
        let medium = medium(64 * MIB, 1);
        let disk = formatted(&medium).await;
        let local = LocalId(1);
        disk.create(new_component(local, 1 << 20)).unwrap();
        let written = fill(&disk, local, stride).await;
        assert!(written.len() > if stride == 16 { 900 } else { 700 }, "{} extents", written.len());
        assert_eq!(disk.usage().free_bytes / EXTENT_BYTES, 0);
        let refused = disk.reserve(extents(1));
        assert!(matches!(refused, Err(CapError::NoSpace { after_checkpoint: 0 })), "{refused:?}");
        // Everything that exists can be overwritten, described, trimmed and checkpointed again and again.
        for round in 2..6 {
            for block in &written {
                apply(&disk, &Op::Write { local, block: *block, nblk: 1, oseq: round }).await.unwrap();
            }
            disk.set_descriptor(local, (1, round), vec![round as u8; 8000].into()).unwrap();
            checkpoint(&disk, round).await;
        }
        assert_eq!(disk.verify(true, |_, _| false).await, []);
        disk.punch(local, 0, written[9] + 1, 7).await.unwrap();
        assert!(matches!(disk.reserve(extents(1)), Err(CapError::NoSpace { after_checkpoint: 10 })));
        checkpoint(&disk, 7).await;
        let reservation = disk.reserve(extents(5)).unwrap();
        assert!(disk.usage().reserved_bytes / EXTENT_BYTES >= 5);
        drop(reservation);
        let disk = reopened(&medium).await;
        assert_eq!(disk.component(local).unwrap().used_bytes, (written.len() as u64 - 10) * EXTENT_BYTES);
        assert!(disk.remove(local));
        checkpoint(&disk, 8).await;
        checkpoint(&disk, 9).await;
        let usage = disk.usage();
        assert_eq!(usage.data_bytes, 0);
        assert!(usage.metadata_bytes < 2 * MIB && usage.free_bytes > 57 * MIB, "{usage:?}");
        assert_eq!(disk.verify(true, |_, _| false).await, []);
    }
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn twenty_thousand_scattered_blocks_fit_into_eight_gibibytes() {
    let medium = medium(8 << 30, 1);
    medium.misbehave(crate::io::sim::Misbehaviour { latency_ms_max: 0, ..Default::default() });
    let disk = formatted(&medium).await;
    let env = Env::seeded(5, model::units::Timestamp(0));
    for local in 1..=4 {
        disk.create(new_component(LocalId(local), (4 << 30) / 4096)).unwrap();
    }
    for oseq in 1..=20_000 {
        let local = LocalId(1 + env.below(4) as u32);
        let block = env.below((4 << 30) / 4096);
        apply(&disk, &Op::Write { local, block, nblk: 1, oseq }).await.unwrap();
        if oseq % 2500 == 0 {
            checkpoint(&disk, oseq).await;
        }
    }
    let disk = reopened(&medium).await;
    let usage = disk.usage();
    assert!(usage.data_bytes > 18_000 * EXTENT_BYTES && usage.metadata_bytes > 28 * MIB, "{usage:?}");
    assert_eq!(disk.verify(false, |_, _| false).await, []);
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn parallel_reservations_never_promise_more_than_there_is() {
    let disk = formatted(&medium(64 * MIB, 1)).await;
    let free = disk.usage().free_bytes / EXTENT_BYTES;
    let mut held = Vec::new();
    let page = |index| NewPage { local: LocalId(9), level: 0, index };
    while let Ok(reservation) = disk.reserve(Need { extents: 7, pages: vec![page(held.len() as u64)] }) {
        held.push(reservation);
    }
    let promised = held.len() as u64 * 7;
    assert!(promised <= free && promised > free - 80, "{promised} of {free}");
    let mut first = held.remove(0);
    first.join(held.remove(0));
    assert_eq!(first.extents_left(), 14);
    drop((held, first));
    assert_eq!(disk.usage().free_bytes / EXTENT_BYTES, free);
}

/// However many writes wait for the same page of a map, room for one page is set aside; it comes free with the last of them.
#[tokio::test(flavor = "local", start_paused = true)]
async fn a_page_that_many_need_is_promised_once() {
    let disk = formatted(&medium(64 * MIB, 1)).await;
    disk.create(new_component(LocalId(1), 1 << 20)).unwrap();
    let free = |disk: &CapDisk| disk.usage().free_bytes / EXTENT_BYTES;
    let before = free(&disk);
    let held: Vec<_> =
        (0..32).map(|extent| disk.reserve(disk.need(LocalId(1), extent * 16, 16)).unwrap()).collect();
    assert_eq!(
        before - free(&disk),
        32,
        "32 extents, and a leaf and its directories in pages that are there"
    );
    apply(&disk, &Op::Write { local: LocalId(1), block: 0, nblk: 16, oseq: 1 }).await.unwrap();
    assert!(disk.need(LocalId(1), 16, 16).pages.is_empty(), "the first write made the pages");
    drop(held);
    assert!((1..=2).contains(&(before - free(&disk))));
}

fn extents(extents: u64) -> Need {
    Need { extents, pages: Vec::new() }
}
