//! Room on the capacity disks: what was admitted always fits, and what a disk that fails or is absent does to the others.
use super::super::*;
use super::run;
use super::world::*;
use crate::io::sim::{CrashKind, Misbehaviour};

/// A component larger than its disk.
async fn large(dg: &Dg) -> LocalId {
    let new = NewComponent { size_blocks: 1 << 20, ..new_component(1, (1, 1)) };
    dg.create_component(disk_id(1), new).await.unwrap()
}

async fn settle(dg: &Dg, local: LocalId, oseq: u64) {
    dg.flush().await.unwrap();
    dg.set_stable(local, oseq);
    dg.drain().await.unwrap();
}

#[test]
fn an_admitted_write_fits_although_a_trim_comes_first() {
    run(async {
        let mut world = World::new(20, 1, MIB, false).await;
        let dg = world.open().await;
        let local = large(&dg).await;
        let reservation = dg.admit(local, 0, 16).unwrap();
        dg.append(Append { reservation, ..data(local, 0, 1, &[1; 16]) }).await.unwrap();
        settle(&dg, local, 1).await;
        let promised = dg.admit(local, 0, 16).unwrap();
        dg.append(trim(local, 0, 2, 16)).await.unwrap();
        let mut others = Vec::new();
        while let Ok(other) = dg.admit(local, 16 * (1 + others.len() as u64), 16) {
            others.push(other);
        }
        settle(&dg, local, 2).await;
        assert_eq!(tags(&dg, local, 0, 1).await, [Some(0)]);
        let more = dg.admit(local, 16 * (1 + others.len() as u64), 16);
        assert!(matches!(more, Err(DgError::Capacity(_))), "the place of the promised write was given away");
        dg.append(Append { reservation: promised, ..data(local, 0, 3, &[3; 16]) }).await.unwrap();
        settle(&dg, local, 3).await;
        assert_eq!(dg.log_usage().overlay_runs, 0, "the write is not applied");
        assert_eq!(tags(&dg, local, 0, 16).await, [Some(3); 16]);
        // Without a promise the place of a trimmed extent is free again.
        dg.append(trim(local, 0, 4, 16)).await.unwrap();
        settle(&dg, local, 4).await;
        assert!(dg.admit(local, 16 * (1 + others.len() as u64), 16).is_ok());
    });
}

#[test]
fn a_failed_capacity_disk_fails_its_components_only() {
    run(async {
        let mut world = World::new(21, 2, MIB, false).await;
        let dg = world.open().await;
        let broken = dg.create_component(disk_id(1), new_component(1, (1, 1))).await.unwrap();
        let sound = dg.create_component(disk_id(2), new_component(2, (1, 1))).await.unwrap();
        world.caps[0].misbehave(Misbehaviour { write_error_ppm: 1_000_000, ..Misbehaviour::default() });
        for local in [broken, sound] {
            dg.append(data(local, 0, 1, &[7])).await.unwrap();
        }
        dg.flush().await.unwrap();
        [broken, sound].into_iter().for_each(|local| dg.set_stable(local, 1));
        dg.drain().await.unwrap();
        assert_eq!(dg.failed_disks(), [disk_id(1)]);
        assert!(matches!(dg.append(data(broken, 0, 2, &[8])).await, Err(DgError::DiskFailed(_))));
        dg.append(data(sound, 0, 2, &[8])).await.unwrap();
        assert_eq!(tags(&dg, sound, 0, 1).await, [Some(8)]);
        settle(&dg, sound, 2).await;
        assert_eq!(dg.log_usage().used_bytes, 0, "a failed disk keeps no log space");
    });
}

#[test]
fn an_absent_disk_comes_back_whole_unless_the_log_moved_on() {
    run(async {
        for moved_on in [false, true] {
            let mut world = World::new(22, 2, MIB, false).await;
            let dg = world.open().await;
            let away = dg.create_component(disk_id(1), new_component(1, (1, 1))).await.unwrap();
            let here = dg.create_component(disk_id(2), new_component(2, (1, 1))).await.unwrap();
            dg.drain().await.unwrap();
            for local in [away, here] {
                dg.append(data(local, 0, 1, &[7])).await.unwrap();
            }
            dg.flush().await.unwrap();
            world.crash(dg, CrashKind::Power);
            let absent = world.caps.remove(0);
            let dg = world.open().await;
            assert!(dg.component(away).is_none());
            assert_eq!(tags(&dg, here, 0, 1).await, [Some(7)]);
            dg.append(data(here, 1, 2, &[8])).await.unwrap();
            if moved_on {
                settle(&dg, here, 2).await;
            }
            dg.flush().await.unwrap();
            world.crash(dg, CrashKind::Power);
            world.caps.insert(0, absent);
            let dg = world.open().await;
            assert_eq!(tags(&dg, here, 0, 2).await, [Some(7), Some(8)]);
            let damaged = dg.component(away).unwrap().damaged;
            assert!(damaged || tags(&dg, away, 0, 1).await == [Some(7)], "silently lost");
            assert_eq!(damaged, moved_on);
        }
    });
}
