//! Single faults and rules, each as directly as possible; and the rules again without each of them.
use super::super::*;
use super::run;
use super::world::*;
use crate::io::sim::{CrashKind, Misbehaviour};
use std::cell::RefCell;
use std::time::Duration;

/// One component with five flushed writes of blocks 0 to 4, in a batch each.
async fn five_writes(world: &mut World) -> (Dg, LocalId, RefCell<Oracle>) {
    let dg = world.open().await;
    let oracle = RefCell::default();
    let local = dg.create_component(disk_id(1), new_component(1, (1, 1))).await.unwrap();
    for tag in 1..=5 {
        change(&dg, &oracle, local, tag - 1, &[tag]).await.unwrap();
    }
    dg.flush().await.unwrap();
    (dg, local, oracle)
}

fn a_rotten_header_is_damage_until_a_descriptor_says_so() {
    run(async {
        let mut world = World::new(1, 1, MIB, false).await;
        let (dg, local, oracle) = five_writes(&mut world).await;
        change(&dg, &oracle, local, 5, &[6]).await.unwrap();
        let all = headers(&world);
        world.log.flip_bit(all[all.len() - 3] + 100, 3);
        world.crash(dg, CrashKind::Kill);
        for _ in 0..2 {
            let dg = world.open().await;
            let component = dg.component(local).unwrap();
            assert!(component.damaged, "flushed records are missing");
            assert_eq!(component.applied_stable_oseq, 0);
            world.crash(dg, CrashKind::Kill);
        }
        let dg = world.open().await;
        let csn = (u64::from(world.epoch), 9);
        dg.commit_descriptor(local, csn, descriptor(csn)).await.unwrap();
        assert!(!dg.component(local).unwrap().damaged);
        world.crash(dg, CrashKind::Power);
        let dg = world.open().await;
        assert!(!dg.component(local).unwrap().damaged);
        // The group works on: what is left of the old life never comes back.
        change(&dg, &oracle, local, 0, &[77]).await.unwrap();
        dg.flush().await.unwrap();
        world.crash(dg, CrashKind::Power);
        let dg = world.open().await;
        assert!(!dg.component(local).unwrap().damaged);
        assert_eq!(tags(&dg, local, 0, 1).await, [Some(77)]);
    });
}

fn a_torn_end_is_no_damage() {
    run(async {
        let mut world = World::new(2, 1, MIB, false).await;
        let (dg, local, oracle) = five_writes(&mut world).await;
        change(&dg, &oracle, local, 5, &[6]).await.unwrap();
        let last = headers(&world).last().copied().unwrap();
        world.log.flip_bit(last + 4096, 0);
        world.crash(dg, CrashKind::Kill);
        let dg = world.open().await;
        assert!(!dg.component(local).unwrap().damaged);
        assert_eq!(tags(&dg, local, 4, 2).await, [Some(5), Some(0)]);
    });
}

fn an_older_copy_of_a_disk_is_stale() {
    run(async {
        let mut world = World::new(3, 2, MIB, false).await;
        let (dg, local, oracle) = five_writes(&mut world).await;
        let other = dg.create_component(disk_id(2), new_component(2, (1, 1))).await.unwrap();
        dg.drain().await.unwrap();
        let image = world.caps[0].snapshot();
        change(&dg, &oracle, local, 0, &[9]).await.unwrap();
        flush(&dg, &oracle).await.unwrap();
        dg.drain().await.unwrap();
        assert_eq!(dg.log_usage().used_bytes, 0);
        world.crash(dg, CrashKind::Kill);
        world.caps[0].restore(image);
        let dg = world.open().await;
        assert!(dg.component(local).unwrap().damaged);
        assert!(!dg.component(other).unwrap().damaged);
    });
}

fn a_failed_flush_is_final() {
    run(async {
        let mut world = World::new(4, 1, MIB, false).await;
        let (dg, local, oracle) = five_writes(&mut world).await;
        change(&dg, &oracle, local, 0, &[9]).await.unwrap();
        world.log.misbehave(Misbehaviour { flush_error_ppm: 1_000_000, ..Misbehaviour::default() });
        assert!(matches!(dg.flush().await, Err(DgError::Failed)));
        world.log.misbehave(Misbehaviour::default());
        assert!(matches!(dg.flush().await, Err(DgError::Failed)));
        assert!(matches!(dg.append(data(local, 0, 99, &[1])).await, Err(DgError::Failed)));
        assert!(dg.is_failed());
    });
}

fn rot_in_the_log_is_bad_there_and_after_destaging() {
    run(async {
        let mut world = World::new(5, 1, MIB, false).await;
        let (dg, local, oracle) = five_writes(&mut world).await;
        let last = headers(&world).last().copied().unwrap();
        world.log.flip_bit(last + 4096 + 77, 1);
        assert_eq!(tags(&dg, local, 3, 2).await, [Some(4), None]);
        flush(&dg, &oracle).await.unwrap();
        dg.drain().await.unwrap();
        assert_eq!(dg.log_usage().overlay_runs, 0);
        assert_eq!(tags(&dg, local, 3, 2).await, [Some(4), None]);
        let repair = Append { kind: AppendKind::Repair, ..data(local, 4, 5, &[5]) };
        dg.append(repair).await.unwrap();
        assert_eq!(tags(&dg, local, 3, 2).await, [Some(4), Some(5)]);
    });
}

fn only_stable_records_are_destaged() {
    run(async {
        let mut world = World::new(6, 1, MIB, false).await;
        let (dg, local, _) = five_writes(&mut world).await;
        dg.set_stable(local, 3);
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!(dg.log_usage().overlay_runs, 2);
        assert_eq!(dg.unstable(local, 3).iter().map(|run| run.oseq).collect::<Vec<_>>(), [4, 5]);
        dg.set_stable(local, 5);
        tokio::time::sleep(Duration::from_secs(100)).await;
        assert_eq!((dg.log_usage().overlay_runs, dg.log_usage().used_bytes), (0, 0));
        world.crash(dg, CrashKind::Power);
        let dg = world.open().await;
        assert_eq!(dg.component(local).unwrap().applied_stable_oseq, 5);
        assert_eq!(dg.changed_since(local, 4), [0]);
        assert!(dg.changed_since(local, 5).is_empty());
    });
}

fn the_epoch_is_on_every_disk_before_the_first_append() {
    run(async {
        let mut world = World::new(7, 2, MIB, false).await;
        world.epoch = 41;
        let dg = world.open().await;
        world.crash(dg, CrashKind::Power);
        for disk in [&world.log, &world.caps[0], &world.caps[1]] {
            assert_eq!(Label::load(disk.open().await).await.unwrap().superblock().epoch, 42);
        }
        world.epoch = 7;
        assert!(matches!(world.try_open().await, Err(DgError::Epoch { given: 7, found: 42 })));
    });
}

fn a_local_id_is_given_out_once() {
    run(async {
        let mut world = World::new(8, 1, MIB, false).await;
        let (dg, local, _) = five_writes(&mut world).await;
        dg.delete_component(local).await.unwrap();
        assert!(matches!(dg.read(local, 0, 1).await, Err(DgError::NoComponent(_))));
        let second = dg.create_component(disk_id(1), new_component(2, (1, 1))).await.unwrap();
        assert_ne!(second, local);
        dg.delete_component(second).await.unwrap();
        dg.drain().await.unwrap();
        world.crash(dg, CrashKind::Power);
        let dg = world.open().await;
        let third = dg.create_component(disk_id(1), new_component(3, (1, 1))).await.unwrap();
        assert!(third > second);
        assert_eq!(tags(&dg, third, 0, 5).await, [Some(0); 5]);
    });
}

fn a_full_log_waits_for_what_makes_room() {
    run(async {
        let mut world = World::new(9, 1, MIB, false).await;
        let dg = world.open().await;
        let oracle = Rc::new(RefCell::new(Oracle::default()));
        let local = dg.create_component(disk_id(1), new_component(1, (1, 1))).await.unwrap();
        let filler = {
            let (dg, oracle) = (dg.clone(), oracle.clone());
            tokio::task::spawn_local(async move {
                for tag in 1..=40 {
                    change(&dg, &oracle, local, tag * 5, &[tag; 20]).await.unwrap();
                }
            })
        };
        dg.flush_wanted().notified().await;
        assert!(!filler.is_finished());
        let usage = dg.log_usage();
        assert!(usage.waiting && usage.unstable_bytes > MIB * 3 / 4, "{usage:?}");
        // The reserve still takes configurations.
        dg.commit_descriptor(local, (1, 2), descriptor((1, 2))).await.unwrap();
        let owner = tokio::task::spawn_local(own(dg.clone(), oracle.clone()));
        filler.await.unwrap();
        owner.abort();
        assert!(!dg.log_usage().waiting);
        Oracle::check_live(&oracle, &dg, local, 0, BLOCKS as u32).await;
    });
}

fn a_stopped_group_answers_everyone() {
    run(async {
        let mut world = World::new(10, 1, MIB, false).await;
        let (dg, local, _) = five_writes(&mut world).await;
        let late = dg.clone();
        let waiter = tokio::task::spawn_local(async move { late.append(data(local, 0, 9, &[9])).await });
        tokio::task::yield_now().await;
        dg.kill();
        assert!(matches!(waiter.await.unwrap(), Err(DgError::Gone)));
        assert!(matches!(dg.flush().await, Err(DgError::Gone)));
        assert!(matches!(dg.read(local, 0, 1).await, Err(DgError::Gone)));
    });
}

macro_rules! tests {
    ($($name:ident),* $(,)?) => {
        $(mod $name {
            #[test]
            fn holds() {
                super::$name();
            }
        })*
    };
}
tests!(
    a_rotten_header_is_damage_until_a_descriptor_says_so,
    a_torn_end_is_no_damage,
    an_older_copy_of_a_disk_is_stale,
    a_failed_flush_is_final,
    rot_in_the_log_is_bad_there_and_after_destaging,
    only_stable_records_are_destaged,
    the_epoch_is_on_every_disk_before_the_first_append,
    a_local_id_is_given_out_once,
    a_full_log_waits_for_what_makes_room,
    a_stopped_group_answers_everyone,
);

/// Each rule removed: a test that holds with it must fail.
mod mutants {
    use super::*;
    use crate::mutant::{Mutant, set};
    use std::panic::{AssertUnwindSafe, catch_unwind};

    fn dies(mutant: Mutant, test: impl Fn()) {
        set(Some(mutant));
        let died = catch_unwind(AssertUnwindSafe(test)).is_err();
        set(None);
        assert!(died, "{mutant:?} lives");
    }

    fn lives() {
        for seed in 0..40 {
            run(super::super::random::lives(seed, false, 6)).unwrap();
        }
    }

    #[test]
    fn no_log_scan() {
        dies(Mutant::NoLogScan, a_rotten_header_is_damage_until_a_descriptor_says_so);
    }

    #[test]
    fn no_epoch_bump() {
        dies(Mutant::NoEpochBump, the_epoch_is_on_every_disk_before_the_first_append);
    }

    #[test]
    fn destage_unstable() {
        dies(Mutant::DestageUnstable, only_stable_records_are_destaged);
    }

    #[test]
    fn no_read_checksum() {
        dies(Mutant::NoReadChecksum, rot_in_the_log_is_bad_there_and_after_destaging);
    }

    #[test]
    fn reuse_local_id() {
        dies(Mutant::ReuseLocalId, a_local_id_is_given_out_once);
    }

    #[test]
    fn skip_log_flush() {
        dies(Mutant::SkipLogFlush, lives);
    }

    #[test]
    fn early_log_reuse() {
        dies(Mutant::EarlyLogReuse, || super::super::crash_points::wrap_notices().unwrap());
    }
}
