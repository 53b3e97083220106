//! The log: what flushes promise, where it ends, and when its space is free.
use super::super::cluster::Shape;
use super::super::group::Group;
use super::super::leg_world::LegWorld;
use super::super::reference::{Outage, Violation};
use super::super::workload::{self, Board};
use super::super::world::{Story, System};
use super::{Stage, mirror, sectors, soon};
use crate::fmt::log::head_blocks_claimed;
use crate::io::{Env, IoOp};
use model::units::{BLOCK_BYTES, Timestamp};
use std::time::Duration;

/// One disk group that serves.
pub(super) async fn leg(seed: u64) -> Result<Stage<LegWorld>, Violation> {
    let env = Env::seeded(seed, Timestamp(0));
    let world = LegWorld::draw(&env);
    let board = Board::new(&env, world.sectors());
    Stage::new(world, board).await
}

/// The power fails right after a flush.
pub async fn power_cut_after_a_flush(seed: u64) -> Result<Story, Violation> {
    let mut stage = leg(seed).await?;
    stage.write_blocks(20..28).await;
    stage.flush().await;
    stage.write(24).await;
    stage.crash(Outage::Power).await;
    stage.boot().await?;
    stage.read(16..32).await;
    stage.finish().await
}

/// A header in the middle of the log rots: what follows is missing, and the leg may not pass for current.
pub async fn rot_in_the_middle(seed: u64) -> Result<Story, Violation> {
    let mut stage = mirror(seed, Shape::MIRROR).await?;
    stage.system.hosts.iter_mut().for_each(|group| group.damage = true);
    for block in 20..23 {
        stage.write(block).await;
        stage.flush().await;
    }
    let heads = heads(&stage.system.hosts[1]);
    let Some(place) = heads.iter().rev().nth(1) else {
        return Err(Violation("the log has too few batches".to_owned()));
    };
    stage.system.hosts[1].log.1.flip_bit(place + stage.system.env.below(64), 3);
    stage.crash(Outage::Kill).await;
    stage.boot().await?;
    stage.read(16..32).await;
    stage.finish().await
}

/// Where the batches of a log begin, oldest first.
pub(super) fn heads(group: &Group) -> Vec<u64> {
    let mut found: Vec<(u64, u64)> = Vec::new();
    for at in group.log_region().step_by(BLOCK_BYTES as usize) {
        let block = group.log.1.peek(at, BLOCK_BYTES as usize);
        if head_blocks_claimed(&block).is_some() {
            found.push((u64::from_le_bytes(block[64..72].try_into().expect("eight bytes")), at));
        }
    }
    found.sort_unstable();
    found.into_iter().map(|(_, at)| at).collect()
}

/// A log wraps round and round, always full; the power fails at any moment.
pub async fn wraps(seed: u64) -> Result<Story, Violation> {
    let mut stage = leg(seed).await?;
    let events = stage.system.events().clone();
    let turns = 3 * stage.system.group.log_blocks() / 32;
    events.stop_after(Some(events.count() + 20 + stage.system.env().below(4 * turns)));
    stage
        .begin(async move |board, volume| {
            for turn in 0..turns {
                let first = turn * 37 % 160;
                workload::write(&board, &volume, sectors(first..first + 32), false).await;
            }
        })
        .await;
    tokio::select! {
        biased;
        () = events.stopped() => {}
        () = stage.idle() => {}
    }
    stage.crash(Outage::Power).await;
    stage.boot().await?;
    stage.finish().await
}

/// The power fails at any moment of a checkpoint.
pub async fn checkpoint_cut_short(seed: u64) -> Result<Story, Violation> {
    let mut stage = leg(seed).await?;
    for extent in 0..4 {
        stage.write_blocks(extent * 40..extent * 40 + 6).await;
    }
    stage.flush().await;
    let dg = stage.volume().dg.clone();
    let events = stage.system.events().clone();
    events.stop_after(Some(events.count() + 1 + seed % 40));
    tokio::select! {
        biased;
        () = events.stopped() => {}
        // An error shows in what is found after the crash.
        _ = dg.drain() => {}
    }
    drop(dg);
    stage.crash(Outage::Power).await;
    stage.boot().await?;
    stage.finish().await
}

/// A flushed record is replaced by one that no flush covers, while a checkpoint moves the tail: the power fails.
pub async fn replaced_by_what_is_not_flushed(seed: u64) -> Result<Story, Violation> {
    let mut stage = leg(seed).await?;
    let (dg, local) = (stage.volume().dg.clone(), stage.volume().locals[0]);
    stage.write(20).await;
    let first = dg.max_oseq(local);
    let flush = stage.board.reference.borrow_mut().begin_flush();
    dg.flush().await.map_err(|error| Violation(error.to_string()))?;
    stage.board.reference.borrow_mut().end_flush(flush);
    let log = stage.system.group.log.1.clone();
    log.hold(IoOp::Flush, 0);
    stage.write(21).await;
    let stable = dg.clone();
    let drain = tokio::task::spawn_local(async move {
        // An error shows in what is found after the crash.
        let _ = dg.drain().await;
    });
    soon_ms(20).await;
    stage.write(22).await;
    // The flush that the draining begins with ends, the one that its checkpoint begins with does not cover the next write.
    log.hold(IoOp::Flush, 1);
    soon_ms(20).await;
    // Stable only now, so that it is not applied before it is replaced.
    stable.set_stable(local, first);
    drop(stable);
    stage.write(20).await;
    let events = stage.system.events().clone();
    events.stop_after(Some(events.count() + 1 + seed % 24));
    log.lift_holds();
    tokio::select! {
        biased;
        () = events.stopped() => {}
        () = soon() => {}
    }
    drain.abort();
    stage.crash(Outage::Power).await;
    stage.boot().await?;
    stage.read(16..32).await;
    stage.finish().await
}

async fn soon_ms(ms: u64) {
    tokio::time::sleep(Duration::from_millis(ms)).await;
}
