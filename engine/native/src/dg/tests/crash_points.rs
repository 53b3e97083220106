//! Scripted work, stopped after every single disk event, with the death of the process and with a power cut.
use super::super::*;
use super::run;
use super::world::*;
use crate::io::sim::CrashKind;
use std::cell::RefCell;
use std::time::Duration;

type Shared = Rc<RefCell<Oracle>>;

/// What is done. Ends early when the group ends.
#[derive(Clone, Copy, Debug)]
enum Script {
    CreateWriteFlush,
    Wrap,
    Checkpoint,
    Configuration,
}

async fn create(dg: &Dg, oracle: &Shared, disk: u8, number: u8) -> Result<LocalId, DgError> {
    let local = dg.create_component(disk_id(disk), new_component(number, (1, 1))).await?;
    oracle.borrow_mut().comps.insert(local, ((1, 1), None));
    Ok(local)
}

async fn commit(dg: &Dg, oracle: &Shared, local: LocalId, csn: (u64, u64)) -> Result<(), DgError> {
    oracle.borrow_mut().comps.entry(local).and_modify(|entry| entry.1 = Some(csn));
    dg.commit_descriptor(local, csn, descriptor(csn)).await?;
    oracle.borrow_mut().comps.insert(local, (csn, None));
    Ok(())
}

async fn play(script: Script, dg: Dg, oracle: Shared) -> Result<(), DgError> {
    let last = dg.core().members.len() as u8;
    match script {
        Script::CreateWriteFlush => {
            let a = create(&dg, &oracle, 1, 1).await?;
            let b = create(&dg, &oracle, last, 2).await?;
            change(&dg, &oracle, a, 0, &[1, 1, 1]).await?;
            flush(&dg, &oracle).await?;
            change(&dg, &oracle, a, 1, &[2]).await?;
            let both = (change(&dg, &oracle, a, 40, &[3, 3]), change(&dg, &oracle, b, 7, &[4]));
            let (first, second) = tokio::join!(both.0, both.1);
            first.and(second)?;
            flush(&dg, &oracle).await?;
            change(&dg, &oracle, a, 0, &[0, 0]).await
        }
        Script::Wrap => {
            let a = create(&dg, &oracle, 1, 1).await?;
            for tag in 1..24 {
                change(&dg, &oracle, a, (tag * 37) % 200, &[tag; 33]).await?;
            }
            Ok(())
        }
        Script::Checkpoint => {
            let a = create(&dg, &oracle, 1, 1).await?;
            let b = create(&dg, &oracle, last, 2).await?;
            for tag in 1..4 {
                change(&dg, &oracle, a, 3, &[tag, tag]).await?;
                change(&dg, &oracle, b, tag * 16, &[tag + 10]).await?;
                flush(&dg, &oracle).await?;
                change(&dg, &oracle, a, 4, &[tag + 20]).await?;
                tokio::time::sleep(Duration::from_secs(34)).await;
            }
            dg.drain().await
        }
        Script::Configuration => {
            let a = create(&dg, &oracle, 1, 1).await?;
            let b = create(&dg, &oracle, 1, 2).await?;
            change(&dg, &oracle, b, 0, &[1]).await?;
            commit(&dg, &oracle, a, (1, 3)).await?;
            oracle.borrow_mut().deleting.insert(b);
            dg.delete_component(b).await?;
            oracle.borrow_mut().comps.remove(&b);
            commit(&dg, &oracle, a, (1, 4)).await?;
            dg.drain().await?;
            let c = create(&dg, &oracle, 1, 3).await?;
            assert_ne!(c, b, "a local id is given out once");
            commit(&dg, &oracle, c, (1, 5)).await
        }
    }
}

/// Plays until `stop` events have happened, crashes, recovers (crashing again after `again` events of the recovery), and checks.
/// Returns how many events there were when nothing stopped it.
async fn play_until(
    script: Script,
    combined: bool,
    stop: Option<(u64, CrashKind)>,
    again: Option<u64>,
) -> Result<u64, String> {
    let seed = stop.map_or(0, |(at, _)| at);
    let mut world = World::new(seed, if combined { 1 } else { 2 }, MIB, combined).await;
    let oracle = Shared::default();
    let dg = world.open().await;
    let before = world.events.count();
    world.events.stop_after(stop.map(|(at, _)| before + at));
    let owner = tokio::task::spawn_local(own(dg.clone(), oracle.clone()));
    let work = tokio::task::spawn_local(play(script, dg.clone(), oracle.clone()));
    let Some((_, kind)) = stop else {
        work.await.map_err(|error| error.to_string())?.map_err(|error| error.to_string())?;
        return Ok(world.events.count() - before);
    };
    tokio::select! {
        biased;
        () = world.events.stopped() => {}
        _ = work => {}
    }
    owner.abort();
    world.crash(dg, kind);
    if let Some(again) = again {
        world.events.stop_after(Some(world.events.count() + again));
        world.epoch += 1;
        tokio::select! {
            biased;
            () = world.events.stopped() => {}
            opened = world.try_open() => drop(opened.map(|dg| dg.kill())),
        }
        world.log.crash(kind);
        world.caps.iter().for_each(|cap| cap.crash(kind));
        world.events.stop_after(None);
    }
    let dg = world.open().await;
    let checked = check_crash(&oracle, &dg, kind).await;
    checked.map_err(|error| format!("{script:?} stopped after {stop:?}, again {again:?}: {error}"))?;
    dg.drain().await.map_err(|error| error.to_string())?;
    match dg.verify(true).await.first() {
        Some(finding) => Err(format!("{script:?} stopped after {stop:?}, again {again:?}: {finding:?}")),
        None => Ok(0),
    }
}

/// Every crash point of a script, or each `step`th.
fn every_point(script: Script, combined: bool, step: usize) -> Result<(), String> {
    let events = run(play_until(script, combined, None, None))?;
    for at in (1..=events).step_by(step) {
        for kind in [CrashKind::Kill, CrashKind::Power] {
            let again = (at % 3 == 0).then_some(1 + at % 7);
            run(play_until(script, combined, Some((at, kind)), again))?;
        }
    }
    Ok(())
}

#[test]
fn create_write_flush_at_every_point() {
    every_point(Script::CreateWriteFlush, false, 1).unwrap();
    every_point(Script::CreateWriteFlush, true, 1).unwrap();
}

#[test]
fn wrap_at_many_points() {
    every_point(Script::Wrap, false, 3).unwrap();
    every_point(Script::Wrap, true, 5).unwrap();
}

#[test]
fn checkpoint_at_every_point() {
    every_point(Script::Checkpoint, false, 1).unwrap();
    every_point(Script::Checkpoint, true, 1).unwrap();
}

#[test]
fn configuration_at_every_point() {
    every_point(Script::Configuration, false, 1).unwrap();
    every_point(Script::Configuration, true, 1).unwrap();
}

/// For the mutants: whether any crash point notices.
pub fn wrap_notices() -> Result<(), String> {
    every_point(Script::Wrap, false, 3)?;
    every_point(Script::Wrap, true, 5)
}
