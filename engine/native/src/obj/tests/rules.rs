//! One scenario for each safety rule of this layer; the mutant that removes the rule dies in it.
use super::mem::{Crash, Latency, MemStore, World, block_of, component, mirror};
use super::{Verdict, ensure, rule};
use crate::fmt::descriptor::Node;
use crate::mutant::Mutant;
use crate::obj::{ObjError, Owner, quorum};
use model::units::BLOCK_BYTES;
use std::rc::Rc;
use std::time::Duration;

const SIZE: u64 = 4 << 20;
const SECOND: Duration = Duration::from_secs(1);

type Obj = Owner<MemStore>;

fn two_legs(seed: u64) -> Rc<World> {
    World::new(seed, mirror(0..2, SIZE), SIZE, 1)
}

async fn write(object: &Obj, block: u64, value: u64) -> Result<(), ObjError> {
    object.write_bytes(block * BLOCK_BYTES, &block_of(value), false).await
}

async fn read(object: &Obj, block: u64) -> Result<u64, ObjError> {
    let bytes = object.read_bytes(block * BLOCK_BYTES, 8).await?;
    Ok(u64::from_le_bytes(bytes.try_into().expect("eight bytes")))
}

fn text(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Starts a write of its own and lets it get under way.
async fn start(object: &Obj, block: u64, value: u64) -> tokio::task::JoinHandle<Result<(), ObjError>> {
    let object = object.clone();
    let task = tokio::task::spawn_local(async move { write(&object, block, value).await });
    tokio::task::yield_now().await;
    task
}

fn slow_append(world: &World, n: usize, append: Duration) {
    let part = world.part(n);
    part.latency.set(Latency { append, ..part.latency.get() });
}

fn legs_equal(world: &World, a: usize, b: usize, blocks: std::ops::Range<u64>) -> Verdict {
    for block in blocks {
        let (left, right) = (world.part(a).value(block), world.part(b).value(block));
        ensure(left == right, || format!("block {block}: {left} on leg {a}, {right} on leg {b}"))?;
    }
    Ok(())
}

/// Host down and known to be, back, known to be back, resynced.
async fn away_and_back(world: &World, object: &Obj, n: usize, between: impl AsyncFnOnce()) -> Verdict {
    world.down(n, Crash::Kill);
    object.legs_gone(&[component(n)]).await;
    between().await;
    world.up(n);
    object.legs_returned(&[component(n)]).await.map_err(text)?;
    object.resync(component(n), &()).await.map_err(text)
}

/// Two writes, the later acknowledged first; a flush; a leg is lost before the earlier lands on it.
#[test]
fn stable_is_below_everything_under_way() {
    rule(Mutant::HighestAcked, async || {
        let world = two_legs(3);
        let object = world.open().await.map_err(text)?;
        slow_append(&world, 1, SECOND);
        let early = start(&object, 20, 1).await;
        slow_append(&world, 1, Duration::ZERO);
        write(&object, 100, 2).await.map_err(text)?;
        object.flush().await.map_err(text)?;
        // The early write is under way to leg 1 and does not land there.
        away_and_back(&world, &object, 1, async || {
            early.await.expect("ran").expect("acknowledged by leg 0 after the mark");
        })
        .await?;
        legs_equal(&world, 0, 1, 0..128)
    });
}

/// A write under the old write set is under way when the resync begins.
#[test]
fn write_set_changes_behind_a_barrier() {
    rule(Mutant::NoBarrier, async || {
        let world = two_legs(2);
        let object = world.open().await.map_err(text)?;
        world.down(1, Crash::Kill);
        object.legs_gone(&[component(1)]).await;
        slow_append(&world, 0, SECOND);
        let old = start(&object, 20, 1).await;
        slow_append(&world, 0, Duration::ZERO);
        world.up(1);
        object.legs_returned(&[component(1)]).await.map_err(text)?;
        object.resync(component(1), &()).await.map_err(text)?;
        old.await.expect("ran").map_err(text)?;
        legs_equal(&world, 0, 1, 0..128)
    });
}

/// A write reaches only the leg that is then lost: its copy must be undone by the resync.
#[test]
fn resync_looks_at_both_sides() {
    rule(Mutant::OneSidedDelta, async || {
        let world = two_legs(3);
        let object = world.open().await.map_err(text)?;
        write(&object, 20, 1).await.map_err(text)?;
        object.flush().await.map_err(text)?;
        slow_append(&world, 0, SECOND);
        let torn = start(&object, 20, 2).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        ensure(world.part(1).value(20) == 2, || "the write has not reached leg 1".into())?;
        // It never reaches leg 0, and everything restarts without leg 1.
        torn.abort();
        world.part(0).forget_pending();
        world.crash_all(Crash::Kill, &[1]);
        slow_append(&world, 0, Duration::ZERO);
        let object = world.open().await.map_err(text)?;
        let kept = read(&object, 20).await.map_err(text)?;
        world.up(1);
        object.legs_returned(&[component(1)]).await.map_err(text)?;
        object.resync(component(1), &()).await.map_err(text)?;
        ensure(world.part(1).value(20) == kept, || format!("leg 1 keeps {}", world.part(1).value(20)))
    });
}

/// Everything dies while a write is on one leg only.
#[test]
fn legs_are_equal_after_a_crash() {
    rule(Mutant::NoRollForward, async || {
        let world = two_legs(4);
        let object = world.open().await.map_err(text)?;
        write(&object, 20, 1).await.map_err(text)?;
        slow_append(&world, 0, SECOND);
        let torn = start(&object, 20, 2).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        ensure(world.part(1).value(20) == 2, || "the write has not reached leg 1".into())?;
        torn.abort();
        world.part(0).forget_pending();
        world.crash_all(Crash::Kill, &[]);
        let _object = world.open().await.map_err(text)?;
        legs_equal(&world, 0, 1, 0..128)
    });
}

/// A leg is lost, a write is acknowledged, and at once only the lost leg and the witness are left.
#[test]
fn stale_mark_comes_before_the_acknowledgement() {
    rule(Mutant::AckBeforeStaleMark, async || {
        let world = two_legs(5);
        let object = world.open().await.map_err(text)?;
        write(&object, 20, 1).await.map_err(text)?;
        for n in 0..3 {
            world.part(n).latency.set(Latency { commit: SECOND, ..Latency::default() });
        }
        world.down(1, Crash::Kill);
        write(&object, 20, 2).await.map_err(text)?;
        world.crash_all(Crash::Kill, &[0]);
        match world.open().await {
            Err(ObjError::Inaccessible(why)) => {
                ensure(why == "latest data is on h1, which is absent", || format!("it says: {why}"))
            }
            Err(other) => Err(other.to_string()),
            Ok(object) => Err(format!("served {:?} from a leg that missed a write", read(&object, 20).await)),
        }
    });
}

/// A reader that saw the new value must not see the old one later, from the other leg.
#[test]
fn range_lock_is_held_until_the_acknowledgement() {
    rule(Mutant::EarlyRangeUnlock, async || {
        let world = two_legs(6);
        let object = world.open().await.map_err(text)?;
        write(&object, 20, 1).await.map_err(text)?;
        slow_append(&world, 1, SECOND);
        let late = start(&object, 20, 2).await;
        tokio::time::sleep(Duration::from_millis(10)).await;
        let newest = read(&object, 20).await.map_err(text)?;
        world.down(0, Crash::Kill);
        object.legs_gone(&[component(0)]).await;
        let seen = read(&object, 20).await.map_err(text)?;
        ensure(seen >= newest, || format!("{seen} after {newest}"))?;
        late.await.expect("ran").map_err(text)
    });
}

/// A trim during a read-modify-write of the same block: old bytes must not come back.
#[test]
fn trims_take_the_range_lock() {
    rule(Mutant::TrimWithoutLock, async || {
        let world = two_legs(7);
        let object = world.open().await.map_err(text)?;
        write(&object, 20, 1).await.map_err(text)?;
        for n in 0..2 {
            world.part(n).latency.set(Latency { read: SECOND, ..Latency::default() });
        }
        let writer = object.clone();
        let partial = async move { writer.write_bytes(20 * BLOCK_BYTES, &[9; 512], false).await };
        let partial = tokio::task::spawn_local(partial);
        tokio::task::yield_now().await;
        object.trim(20 * BLOCK_BYTES, BLOCK_BYTES, false).await.map_err(text)?;
        partial.await.expect("ran").map_err(text)?;
        let rest = object.read_bytes(20 * BLOCK_BYTES + 512, 512).await.map_err(text)?;
        ensure(rest.iter().all(|byte| *byte == 0), || "trimmed bytes came back".into())
    });
}

/// A component that was away when its object was deleted returns.
#[test]
fn deleted_object_stays_deleted() {
    rule(Mutant::NoTombstone, async || {
        let world = two_legs(8);
        let object = world.open().await.map_err(text)?;
        world.down(1, Crash::Kill);
        object.legs_gone(&[component(1)]).await;
        object.delete().await.map_err(text)?;
        ensure(object.read_bytes(0, 8).await == Err(ObjError::Deleted), || "it can still be read".into())?;
        world.up(1);
        crate::obj::purge(world.object, &super::mem::Directory(world.clone()), (9, 1), |_| false).await;
        let left = world.parts.borrow().len();
        ensure(left == 0, || format!("{left} components are left"))
    });
}

#[test]
fn a_leg_may_wait_only_for_another_of_its_own_group() {
    // Two stripes of two copies each: components 0 and 1, 2 and 3.
    let layout = Node::Stripe(vec![mirror(0..2, 1 << 20), mirror(2..4, 1 << 20)]);
    let others = |sound: &[usize], n| {
        quorum::has_other(&layout, component(n), |leg| sound.iter().any(|n| component(*n) == leg.component))
    };
    assert!(others(&[1], 0) && others(&[0, 1, 2, 3], 3));
    assert!(!others(&[0, 2, 3], 0), "itself and another group do not count");
    assert!(!others(&[0, 1], 2) && !others(&[0, 1], 9));
}
