//! Absence, repair, resync progress, full disks, legs added, dropped and replaced, growth.
use super::mem::{Crash, MemStore, World, block_of, component, leg, mirror, run};
use crate::obj::{ObjError, ObjectEvent, Owner, Pace};
use model::state::ComponentState;
use model::units::{BLOCK_BYTES, EXTENT_BYTES};
use std::cell::RefCell;
use std::rc::Rc;
use std::time::Duration;

const SIZE: u64 = 4 << 20;

type Obj = Owner<MemStore>;

async fn write(object: &Obj, block: u64, value: u64) -> Result<(), ObjError> {
    object.write_bytes(block * BLOCK_BYTES, &block_of(value), false).await
}

async fn read(object: &Obj, block: u64) -> Result<u64, ObjError> {
    let bytes = object.read_bytes(block * BLOCK_BYTES, 8).await?;
    Ok(u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
}

async fn opened() -> (Rc<World>, Obj) {
    let world = World::new(1, mirror(0..2, SIZE), SIZE, 1);
    let object = world.open().await.expect("opens");
    (world, object)
}

fn state(object: &Obj, n: usize) -> ComponentState {
    object.descriptor().leg(component(n)).expect("a leg").state
}

fn assert_equal(world: &World, a: usize, b: usize) {
    for block in 0..SIZE / BLOCK_BYTES {
        assert_eq!(world.part(a).value(block), world.part(b).value(block), "block {block}");
    }
}

/// Adds a component on a new host that the descriptor in force does not name yet.
fn spare(world: &World, object: &Obj, n: usize) {
    world.add_part(n, &object.descriptor());
}

/// Calls back before each step.
struct Before<F>(F);

impl<F: AsyncFn(u64)> Pace for Before<F> {
    async fn take(&self, bytes: u64) {
        (self.0)(bytes).await;
    }
}

#[test]
fn progress_counts_positions_and_is_complete_at_the_end() {
    run(async || {
        let (world, object) = opened().await;
        for block in [0, 17, 100, 900] {
            write(&object, block, 7).await.unwrap();
        }
        spare(&world, &object, 5);
        object.add_leg(0, leg(5, 0)).await.unwrap();
        let held = world.part(5).held();
        assert_eq!(
            held.leg(component(5)).unwrap().stale_from,
            Some(0),
            "the mark is durable before the first byte"
        );
        assert_eq!(object.bytes_to_sync(component(5)), Some(4 * EXTENT_BYTES));
        let seen = RefCell::new(Vec::new());
        let pace = Before(async |_| {
            let (_, progress) = object.resyncs().remove(0);
            seen.borrow_mut().push((progress.run, progress.bytes_done.get(), progress.bytes_total));
        });
        object.resync(component(5), &pace).await.unwrap();
        let seen = seen.into_inner();
        assert!(seen.windows(2).all(|pair| pair[0].1 < pair[1].1 && pair[1].1 <= pair[1].2), "{seen:?}");
        assert_eq!(seen.last().unwrap().2, 4 * EXTENT_BYTES);
        assert_eq!(object.bytes_to_sync(component(5)), Some(0));
        assert_eq!(state(&object, 5), ComponentState::Active);
        assert_equal(&world, 0, 5);
        object.drop_leg(component(0)).await.unwrap();
        assert!(!world.parts.borrow().contains_key(&component(0)));
        assert_eq!(read(&object, 900).await, Ok(7));
    });
}

#[test]
fn target_or_source_that_dies_ends_the_run_and_the_next_one_starts_again() {
    run(async || {
        for victim in [1, 0] {
            let (world, object) = opened().await;
            for block in (0..1000).step_by(200) {
                write(&object, block, block + 1).await.unwrap();
            }
            world.down(1, Crash::Kill);
            object.legs_gone(&[component(1)]).await;
            for block in (0..1000).step_by(100) {
                write(&object, block, block + 2).await.unwrap();
            }
            world.up(1);
            object.legs_returned(&[component(1)]).await.unwrap();
            let steps = RefCell::new(0);
            let pace = Before(async |_| {
                *steps.borrow_mut() += 1;
                if *steps.borrow() == 3 {
                    world.down(victim, Crash::Kill);
                }
            });
            assert_eq!(object.resync(component(1), &pace).await, Err(ObjError::Aborted));
            assert!(world.events.borrow().contains(&ObjectEvent::ResyncAborted(component(1))));
            assert!(object.descriptor().leg(component(1)).unwrap().stale_from.is_some());
            let why = object.inaccessible();
            assert_eq!(why.is_some(), victim == 0, "{why:?}");
            object.legs_gone(&[component(victim)]).await;
            world.up(victim);
            object.legs_returned(&[component(victim)]).await.unwrap();
            object.resync(component(1), &()).await.unwrap();
            assert_equal(&world, 0, 1);
        }
    });
}

#[test]
fn half_built_copy_is_never_chosen() {
    run(async || {
        let (world, object) = opened().await;
        for block in (0..1000).step_by(50) {
            write(&object, block, 9).await.unwrap();
        }
        spare(&world, &object, 5);
        object.add_leg(0, leg(5, 0)).await.unwrap();
        let runner = object.clone();
        let slow = Before(async |_| tokio::time::sleep(Duration::from_secs(1)).await);
        let task = tokio::task::spawn_local(async move { runner.resync(component(5), &slow).await });
        tokio::time::sleep(Duration::from_millis(5500)).await;
        task.abort();
        // Everything dies at half; only the half-built copy and the witness are left.
        world.crash_all(Crash::Kill, &[0, 1]);
        assert!(world.open().await.is_err());
        world.up(0);
        let object = world.open().await.unwrap();
        assert_eq!(read(&object, 950).await, Ok(9));
        assert_ne!(state(&object, 5), ComponentState::Active);
        object.resync(component(5), &()).await.unwrap();
        assert_equal(&world, 0, 5);
    });
}

#[test]
fn bad_block_is_served_from_the_other_leg_and_rewritten() {
    run(async || {
        let (world, object) = opened().await;
        write(&object, 20, 5).await.unwrap();
        world.part(0).bad.borrow_mut().insert(20);
        for _ in 0..4 {
            assert_eq!(read(&object, 20).await, Ok(5));
        }
        while world.part(0).bad.borrow().contains(&20) {
            tokio::time::sleep(Duration::from_millis(1)).await;
        }
        assert_eq!(object.repaired_blocks(), 1);
        assert!(object.bad_blocks(component(0)) > 0);
        assert_eq!(world.part(0).value(20), 5);
        let repaired = ObjectEvent::Repaired { component: component(0), block: 20, nblk: 1 };
        assert_eq!(world.events.borrow().iter().filter(|event| **event == repaired).count(), 1);
    });
}

#[test]
fn block_without_good_copy_is_lost_alone_and_stays_lost_on_a_new_leg() {
    run(async || {
        let (world, object) = opened().await;
        for block in 19..22 {
            write(&object, block, block).await.unwrap();
        }
        for n in 0..2 {
            world.part(n).bad.borrow_mut().insert(20);
        }
        assert_eq!(read(&object, 20).await, Err(ObjError::Lost(20)));
        assert_eq!(read(&object, 19).await, Ok(19));
        spare(&world, &object, 5);
        object.add_leg(0, leg(5, 0)).await.unwrap();
        object.resync(component(5), &()).await.unwrap();
        assert_eq!(object.descriptor().leg(component(5)).unwrap().lost, vec![(20, 1)]);
        object.drop_leg(component(0)).await.unwrap();
        object.drop_leg(component(1)).await.unwrap();
        assert_eq!(read(&object, 20).await, Err(ObjError::Lost(20)), "never zeros in place of lost bytes");
        assert_eq!(read(&object, 21).await, Ok(21));
        write(&object, 20, 77).await.unwrap();
        assert_eq!(read(&object, 20).await, Ok(77));
        assert!(object.descriptor().leg(component(5)).unwrap().lost.is_empty());
    });
}

#[test]
fn full_disk_refuses_before_anything_is_written_and_marks_no_leg() {
    run(async || {
        let (world, object) = opened().await;
        write(&object, 0, 1).await.unwrap();
        world.part(1).room.set(0);
        assert_eq!(write(&object, 50, 2).await, Err(ObjError::NoSpace));
        assert_eq!((state(&object, 0), state(&object, 1)), (ComponentState::Active, ComponentState::Active));
        assert_eq!((world.part(0).value(50), read(&object, 0).await), (0, Ok(1)));
        object.trim(0, BLOCK_BYTES, false).await.expect("freeing works on a full disk");
        world.part(1).room.set(10);
        write(&object, 50, 2).await.unwrap();
    });
}

#[test]
fn last_current_copy_and_current_beside_stale_are_not_dropped() {
    run(async || {
        let (world, object) = opened().await;
        world.down(1, Crash::Kill);
        object.legs_gone(&[component(1)]).await;
        let error = object.drop_leg(component(0)).await.unwrap_err();
        assert_eq!(error.to_string(), "it is the last current copy");
        world.up(1);
        let world3 = World::new(2, mirror(0..3, SIZE), SIZE, 2);
        let object = world3.open().await.unwrap();
        world3.down(1, Crash::Kill);
        object.legs_gone(&[component(1)]).await;
        let error = object.drop_leg(component(0)).await.unwrap_err();
        assert_eq!(error.to_string(), "another copy is not current: drop that one first");
        object.drop_leg(component(1)).await.unwrap();
        assert_eq!(object.descriptor().votes_total() % 2, 1);
    });
}

#[test]
fn request_without_quorum_waits_for_a_host_and_then_fails() {
    run(async || {
        let (world, object) = opened().await;
        for n in [1, 2] {
            world.down(n, Crash::Kill);
        }
        object.legs_gone(&[component(1), component(2)]).await;
        assert_eq!(object.inaccessible().as_deref(), Some("no majority: 1 of 3 votes"));
        let waiting = object.clone();
        let waiting = tokio::task::spawn_local(async move { write(&waiting, 3, 4).await });
        tokio::time::sleep(Duration::from_secs(2)).await;
        world.up(2);
        object.legs_returned(&[component(2)]).await.unwrap();
        waiting.await.unwrap().unwrap();
        world.down(0, Crash::Kill);
        object.legs_gone(&[component(0)]).await;
        let before = tokio::time::Instant::now();
        let error = write(&object, 3, 5).await.unwrap_err();
        assert_eq!(error.to_string(), "latest data is on h1, which is absent");
        assert_eq!(before.elapsed(), world.config.get().device_timeout);
    });
}

#[test]
fn damaged_log_makes_a_leg_stale() {
    run(async || {
        let (world, object) = opened().await;
        write(&object, 3, 4).await.unwrap();
        drop(object);
        world.crash_all(Crash::Kill, &[]);
        world.part(1).damaged.set(true);
        let object = world.open().await.unwrap();
        assert_eq!(state(&object, 1), ComponentState::Stale);
        world.part(1).damaged.set(false);
        object.resync(component(1), &()).await.unwrap();
        assert_equal(&world, 0, 1);
    });
}

#[test]
fn object_grows_and_keeps_its_bytes() {
    run(async || {
        let (_world, object) = opened().await;
        write(&object, 3, 4).await.unwrap();
        object.grow(2 * SIZE - 512, Vec::new()).await.unwrap();
        assert_eq!(object.size_bytes(), 2 * SIZE - 512);
        write(&object, SIZE / BLOCK_BYTES + 5, 6).await.unwrap();
        assert_eq!((read(&object, 3).await, read(&object, SIZE / BLOCK_BYTES + 5).await), (Ok(4), Ok(6)));
        assert_eq!(object.grow(SIZE, Vec::new()).await, Err(ObjError::Refused("an object cannot shrink")));
    });
}
