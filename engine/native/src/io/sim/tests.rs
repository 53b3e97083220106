//! Every rule of the simulated disk, shown to happen and shown not to go too far.
use super::*;
use std::collections::BTreeSet;

const MIB: u64 = 1 << 20;

fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("runtime");
    tokio::task::LocalSet::new().block_on(&runtime, test)
}

fn filled(byte: u8) -> IoBuf {
    let mut buf = IoBuf::zeroed(4096);
    buf.as_mut().fill(byte);
    buf
}

fn bytes_at(disk: &SimDisk, offset_bytes: u64) -> BTreeSet<u8> {
    disk.peek(offset_bytes, 4096).into_iter().collect()
}

async fn opened(seed: u64) -> (SimDisk, Disk) {
    let medium = SimDisk::new(MIB, seed, &Events::default());
    let disk = medium.open().await;
    (medium, disk)
}

/// What sector values of block 0 hundred seeds leave behind: flushed 1, completed 2, under way 3.
async fn after_crash(kind: CrashKind) -> BTreeSet<Vec<u8>> {
    let mut seen = BTreeSet::new();
    for seed in 0..100 {
        let (medium, disk) = opened(seed).await;
        disk.write(0, vec![filled(1)]).await.expect("write");
        disk.flush().await.expect("flush");
        disk.write(0, vec![filled(2)]).await.expect("write");
        let pending = tokio::task::spawn_local(async move { disk.write(0, vec![filled(3)]).await });
        while medium.in_flight() == 0 {
            tokio::task::yield_now().await;
        }
        medium.crash(kind);
        assert_eq!(pending.await.expect("task"), Err(DiskError::Gone));
        let _next = medium.open().await;
        assert_eq!(medium.in_flight(), 0, "the lock is free when nothing can land any more");
        seen.insert(bytes_at(&medium, 0).into_iter().collect());
    }
    seen
}

#[test]
fn kill_keeps_completed_writes_and_tears_those_under_way() {
    run(async {
        let seen = after_crash(CrashKind::Kill).await;
        assert_eq!(seen, BTreeSet::from([vec![2], vec![3], vec![2, 3]]));
    });
}

#[test]
fn power_cut_keeps_flushed_and_any_later_version_of_each_sector() {
    run(async {
        let seen = after_crash(CrashKind::Power).await;
        for torn in [vec![1], vec![2], vec![3], vec![1, 2, 3]] {
            assert!(seen.contains(&torn), "{torn:?} of {seen:?}");
        }
        assert!(seen.iter().flatten().all(|byte| (1..=3).contains(byte)), "{seen:?}");
    });
}

#[test]
fn power_cut_after_a_kill_still_loses_unflushed_writes() {
    run(async {
        let mut lost = 0;
        for seed in 0..50 {
            let (medium, disk) = opened(seed).await;
            disk.write(0, vec![filled(1)]).await.expect("write");
            medium.crash(CrashKind::Kill);
            assert_eq!(bytes_at(&medium, 0), BTreeSet::from([1]));
            medium.crash(CrashKind::Power);
            lost += u32::from(bytes_at(&medium, 0) != BTreeSet::from([1]));
        }
        assert!(lost > 0);
    });
}

#[test]
fn flush_covers_only_what_completed_before_it_started() {
    run(async {
        let mut lost = 0;
        for seed in 0..100 {
            let (medium, disk) = opened(seed).await;
            let flush = tokio::task::spawn_local({
                let disk = disk.clone();
                async move { disk.flush().await }
            });
            while medium.in_flight() == 0 {
                tokio::task::yield_now().await;
            }
            disk.write(0, vec![filled(1)]).await.expect("write");
            if flush.is_finished() {
                continue;
            }
            flush.await.expect("task").expect("flush");
            medium.crash(CrashKind::Power);
            lost += u32::from(bytes_at(&medium, 0) != BTreeSet::from([1]));
        }
        assert!(lost > 5, "{lost} of 100");
    });
}

#[test]
fn late_write_of_a_killed_process_lands_on_a_disk_opened_without_its_lock() {
    run(async {
        let mut overwritten = 0;
        for seed in 0..100 {
            let (medium, disk) = opened(seed).await;
            tokio::task::spawn_local(async move { disk.write(0, vec![filled(1)]).await });
            while medium.in_flight() == 0 {
                tokio::task::yield_now().await;
            }
            medium.crash(CrashKind::Kill);
            let disk = medium.open_without_lock();
            disk.write(0, vec![filled(2)]).await.expect("write");
            disk.quiesce().await;
            overwritten += u32::from(bytes_at(&medium, 0) != BTreeSet::from([2]));
        }
        assert!(overwritten > 0);
    });
}

#[test]
fn completions_reorder() {
    run(async {
        let (medium, disk) = opened(7).await;
        let order = Rc::new(RefCell::new(Vec::new()));
        let writers: Vec<_> = (0..32_u64)
            .map(|number| {
                let (disk, order) = (disk.clone(), Rc::clone(&order));
                tokio::task::spawn_local(async move {
                    disk.write(number * 4096, vec![filled(1)]).await.expect("write");
                    order.borrow_mut().push(number);
                })
            })
            .collect();
        for writer in writers {
            writer.await.expect("task");
        }
        assert!(!order.borrow().is_sorted());
        assert_eq!(medium.events().count(), 32);
    });
}

#[test]
fn same_seed_same_trace() {
    let trace = |seed| {
        run(async {
            let (medium, disk) = opened(seed).await;
            let writes: Vec<_> = (0..64_u64)
                .map(|number| {
                    let disk = disk.clone();
                    tokio::task::spawn_local(async move { disk.write(number * 4096, vec![filled(1)]).await })
                })
                .collect();
            for write in writes {
                write.await.expect("task").expect("write");
            }
            medium.events().trace()
        })
    };
    assert_eq!(trace(1), trace(1));
    assert_ne!(trace(1), trace(2));
}

#[test]
fn lost_and_misdirected_writes_are_acknowledged() {
    run(async {
        let (medium, disk) = opened(1).await;
        medium.misbehave(Misbehaviour { lost_write_ppm: 1_000_000, ..Misbehaviour::default() });
        disk.write(0, vec![filled(1)]).await.expect("acknowledged");
        assert_eq!(bytes_at(&medium, 0), BTreeSet::from([0]));
        medium.misbehave(Misbehaviour { misdirected_write_ppm: 1_000_000, ..Misbehaviour::default() });
        disk.write(0, vec![filled(1)]).await.expect("acknowledged");
        assert_eq!(bytes_at(&medium, 0), BTreeSet::from([0]));
        let elsewhere = (1..=16).filter(|page| bytes_at(&medium, page * 4096) == BTreeSet::from([1])).count();
        assert_eq!(elsewhere, 1);
    });
}

#[test]
fn errors_flips_and_rot() {
    run(async {
        let (medium, disk) = opened(1).await;
        disk.write(0, vec![filled(1)]).await.expect("write");
        medium.rot(512);
        assert!(matches!(
            disk.read(0, IoBuf::for_read(4096)).await,
            Err(DiskError::Io { op: IoOp::Read, .. })
        ));
        disk.read(1024, IoBuf::for_read(512)).await.expect("other sectors are well");
        disk.write(0, vec![filled(1)]).await.expect("write");
        disk.read(0, IoBuf::for_read(4096)).await.expect("written again");
        medium.flip_bit(100, 3);
        let read = disk.read(0, IoBuf::for_read(4096)).await.expect("read");
        assert_eq!(read[100], 1 ^ 8);
        medium.misbehave(Misbehaviour { read_flip_ppm: 1_000_000, ..Misbehaviour::default() });
        let read = disk.read(4096, IoBuf::for_read(4096)).await.expect("read");
        assert_eq!(read.iter().map(|byte| byte.count_ones()).sum::<u32>(), 1);
        medium.misbehave(Misbehaviour { write_error_ppm: 1_000_000, ..Misbehaviour::default() });
        let error = disk.write(8192, vec![filled(1)]).await;
        assert!(matches!(error, Err(DiskError::Io { op: IoOp::Write, .. })), "{error:?}");
    });
}

#[test]
fn failed_flush_loses_what_was_not_flushed_and_is_final() {
    run(async {
        let (medium, disk) = opened(1).await;
        disk.write(0, vec![filled(1)]).await.expect("write");
        disk.flush().await.expect("flush");
        disk.write(0, vec![filled(2)]).await.expect("write");
        medium.misbehave(Misbehaviour { flush_error_ppm: 1_000_000, ..Misbehaviour::default() });
        assert_eq!(disk.flush().await, Err(DiskError::FlushFailed));
        medium.misbehave(Misbehaviour::default());
        assert_eq!(disk.flush().await, Err(DiskError::FlushFailed), "never retried into success");
        assert_eq!(disk.write(0, vec![filled(3)]).await, Err(DiskError::FlushFailed));
        assert_eq!(bytes_at(&medium, 0), BTreeSet::from([1]));
    });
}

#[test]
fn older_image_comes_back() {
    run(async {
        let (medium, disk) = opened(1).await;
        disk.write(0, vec![filled(1)]).await.expect("write");
        let image = medium.snapshot();
        disk.write(0, vec![filled(2)]).await.expect("write");
        medium.restore(image);
        assert_eq!(disk.read(0, IoBuf::for_read(4096)).await.err(), Some(DiskError::Gone));
        let disk = medium.open().await;
        assert_eq!(disk.read(0, IoBuf::for_read(4096)).await.expect("read")[0], 1);
    });
}

#[test]
fn full_disk_refuses_only_writes_that_need_space() {
    run(async {
        let (_, disk) = opened(1).await;
        disk.write(0, vec![filled(1)]).await.expect("write");
        disk.faults().set_full(true);
        disk.write(0, vec![filled(2)]).await.expect("space is there");
        assert_eq!(disk.write(65536, vec![filled(2)]).await, Err(DiskError::NoSpace));
        disk.discard(0, 4096).await.expect("discard");
        assert_eq!(disk.write(0, vec![filled(2)]).await, Err(DiskError::NoSpace));
    });
}

#[test]
fn world_stops_after_the_given_event() {
    run(async {
        let (medium, disk) = opened(1).await;
        medium.events().stop_after(Some(3));
        let worker = tokio::task::spawn_local(async move {
            for number in 0..10 {
                disk.write(number * 4096, vec![filled(1)]).await?;
            }
            disk.flush().await
        });
        medium.events().stopped().await;
        assert_eq!(medium.events().count(), 3);
        medium.crash(CrashKind::Kill);
        assert_eq!(worker.await.expect("task"), Err(DiskError::Gone));
        medium.events().stop_after(None);
        let disk = medium.open().await;
        disk.flush().await.expect("the next life goes on");
        assert!((0..3).all(|number| bytes_at(&medium, number * 4096) == BTreeSet::from([1])));
    });
}

#[test]
fn out_of_range_is_an_error() {
    run(async {
        let (_, disk) = opened(1).await;
        let beyond = disk.read(MIB - 512, IoBuf::for_read(1024)).await;
        assert!(matches!(beyond, Err(DiskError::OutOfRange { .. })));
        let wrapping = disk.read(u64::MAX - 511, IoBuf::for_read(1024)).await;
        assert!(matches!(wrapping, Err(DiskError::OutOfRange { .. })));
    });
}

#[test]
fn held_io_stays_under_way_until_it_is_allowed_or_the_disk_crashes() {
    run(async {
        let (medium, disk) = opened(1).await;
        medium.hold(IoOp::Write, 0);
        let write = |at: u64| {
            let disk = disk.clone();
            tokio::task::spawn_local(async move { disk.write(at, vec![filled(7)]).await })
        };
        let (first, second) = (write(0), write(4096));
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!(medium.in_flight(), 2);
        disk.flush().await.expect("another kind is not held");
        medium.hold(IoOp::Write, 1);
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!((medium.in_flight(), first.is_finished() != second.is_finished()), (1, true));
        medium.crash(CrashKind::Kill);
        let disk = medium.open().await;
        disk.write(0, vec![filled(8)]).await.expect("the hold is lifted");
    });
}
