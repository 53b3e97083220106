//! Trims of content that never left the log: what a leg that was away needs to learn from the one that stayed.
use super::super::*;
use super::run;
use super::world::*;
use crate::io::sim::CrashKind;

/// One component, with block 3 written (sequence 10), and then the first three extents trimmed (sequence 11): nothing was applied.
async fn hidden(world: &mut World) -> (Dg, LocalId) {
    let dg = world.open().await;
    let local = dg.create_component(disk_id(1), new_component(1, (1, 1))).await.unwrap();
    dg.append(data(local, 3, 10, &[7])).await.unwrap();
    dg.append(trim(local, 0, 11, 48)).await.unwrap();
    dg.flush().await.unwrap();
    (dg, local)
}

/// After everything is applied the extent of the content, and no other, says that it has changed.
async fn knows(dg: &Dg, local: LocalId, stable: u64) {
    dg.set_stable(local, stable);
    dg.drain().await.unwrap();
    assert!(dg.unstable(local, 0).is_empty(), "everything is applied");
    assert_eq!(tags(dg, local, 0, 48).await, [Some(0); 48]);
    assert_eq!((dg.changed_since(local, 10), dg.changed_since(local, stable)), (vec![0], vec![]));
    assert_eq!(dg.used_bytes(local), 0);
}

#[test]
fn a_trim_of_content_that_was_never_applied_is_remembered() {
    run(async {
        let mut world = World::new(1, 1, MIB, false).await;
        let (dg, local) = hidden(&mut world).await;
        knows(&dg, local, 11).await;
        world.crash(dg, CrashKind::Power);
        let dg = world.open().await;
        knows(&dg, local, 11).await;
    });
}

#[test]
fn a_replay_remembers_it_too() {
    run(async {
        let mut world = World::new(2, 1, MIB, false).await;
        let (dg, local) = hidden(&mut world).await;
        world.crash(dg, CrashKind::Power);
        let dg = world.open().await;
        knows(&dg, local, 11).await;
    });
}

/// A stable trim gives back the log space of the content, and is itself hidden by a trim that cannot be applied yet: what the
/// content left must be in the checkpoint that moves the tail.
#[test]
fn it_is_remembered_when_the_log_has_only_the_trims() {
    run(async {
        let mut world = World::new(3, 1, MIB, false).await;
        let (dg, local) = hidden(&mut world).await;
        dg.append(trim(local, 0, 12, 48)).await.unwrap();
        dg.flush().await.unwrap();
        dg.set_stable(local, 11);
        dg.drain().await.unwrap();
        assert_eq!(dg.unstable(local, 0).iter().map(|run| run.oseq).collect::<Vec<_>>(), [12]);
        world.crash(dg, CrashKind::Power);
        let dg = world.open().await;
        knows(&dg, local, 12).await;
    });
}

/// A hole that a resync copies stands for an entry of its source: whoever learns from the target later needs it.
#[test]
fn a_hole_of_a_resync_is_remembered() {
    run(async {
        let mut world = World::new(4, 1, MIB, false).await;
        let dg = world.open().await;
        let local = dg.create_component(disk_id(1), new_component(1, (1, 1))).await.unwrap();
        dg.append(Append { kind: AppendKind::Resync, ..trim(local, 0, 11, 16) }).await.unwrap();
        dg.flush().await.unwrap();
        knows(&dg, local, 11).await;
    });
}

#[test]
fn a_group_that_forgets_it_is_noticed() {
    use crate::mutant::{Mutant, set};
    set(Some(Mutant::ForgetHiddenData));
    let changed = run(async {
        let mut world = World::new(1, 1, MIB, false).await;
        let (dg, local) = hidden(&mut world).await;
        dg.set_stable(local, 11);
        dg.drain().await.unwrap();
        dg.changed_since(local, 10)
    });
    set(None);
    assert_eq!(changed, Vec::<u64>::new());
}
