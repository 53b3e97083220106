//! Legs that are lost, return, or hold more or less than the other one.
use super::super::cluster::Shape;
use super::super::reference::{Outage, Violation};
use super::super::world::{Story, System};
use super::{mirror, soon};
use crate::io::IoOp;
use crate::obj::purge;
use std::time::Duration;

/// Everything dies while a write is on one leg only: afterwards both have it, or none.
pub async fn torn_write(seed: u64) -> Result<Story, Violation> {
    let mut stage = mirror(seed, Shape::MIRROR).await?;
    stage.write(20).await;
    stage.flush().await;
    stage.hold(0, IoOp::Write, 0);
    stage.begin_write(20).await;
    soon().await;
    stage.crash(Outage::Kill).await;
    stage.boot().await?;
    stage.finish().await
}

/// The same, and the leg that has the write is away when the object is opened: what only it has must go when it returns.
pub async fn torn_write_returns(seed: u64) -> Result<Story, Violation> {
    let mut stage = mirror(seed, Shape::MIRROR).await?;
    stage.write(20).await;
    stage.flush().await;
    // Until the logs say that it is stable.
    tokio::time::sleep(Duration::from_secs(3)).await;
    stage.hold(0, IoOp::Write, 0);
    stage.begin_write(20).await;
    soon().await;
    stage.crash(Outage::Kill).await;
    stage.system.up[1] = false;
    stage.boot().await?;
    stage.read(20..21).await;
    stage.system.regain(1).await?;
    stage.finish().await
}

/// A leg is lost and a write acknowledged without it; then only that leg and the witness are left. They must not serve.
pub async fn stale_mark_before_the_acknowledgement(seed: u64) -> Result<Story, Violation> {
    let mut stage = mirror(seed, Shape::MIRROR).await?;
    stage.write(20).await;
    stage.flush().await;
    stage.system.lose(1, Outage::Kill);
    // The write itself passes, the mark does not.
    stage.hold(2, IoOp::Write, 0);
    stage.hold(0, IoOp::Write, 1);
    stage.begin_write(20).await;
    soon().await;
    stage.crash(Outage::Kill).await;
    stage.system.up = vec![false, true, true];
    stage.system.start_hosts().await.map_err(|(_, violation)| violation)?;
    if stage.system.open_object().await.is_ok() {
        stage.attach()?;
        stage.read(20..21).await;
        stage.system.regain(0).await?;
    } else {
        stage.system.start(0).await?;
        stage.system.open_object().await.map_err(|error| Violation(error.to_string()))?;
        stage.attach()?;
    }
    stage.finish().await
}

/// An extent is trimmed while a leg is away: the hole must count as a change when it returns.
pub async fn trim_while_away(seed: u64) -> Result<Story, Violation> {
    let stage = mirror(seed, Shape::MIRROR).await?;
    stage.write_blocks(32..48).await;
    stage.flush().await;
    stage.system.drain().await?;
    let mut stage = stage;
    stage.system.lose_and_tell(1, Outage::Kill).await;
    stage.trim(32..48).await;
    stage.flush().await;
    stage.system.drain().await?;
    stage.system.regain(1).await?;
    stage.finish().await
}

/// The leg that stays has the trimmed content in its log only, the one that was away on its disk.
pub async fn trim_of_hidden_content(seed: u64) -> Result<Story, Violation> {
    let mut stage = mirror(seed, Shape::MIRROR).await?;
    stage.write_blocks(32..48).await;
    stage.flush().await;
    stage.system.dg(0)?.drain().await.map_err(|error| Violation(error.to_string()))?;
    stage.system.lose_and_tell(0, Outage::Kill).await;
    stage.trim(32..48).await;
    stage.flush().await;
    stage.system.drain().await?;
    stage.system.regain(0).await?;
    stage.finish().await
}

/// Nothing that is not on every leg leaves a log: else nobody could bring it to the others after a crash.
pub async fn unstable_stays_in_the_log(seed: u64) -> Result<Story, Violation> {
    let mut stage = mirror(seed, Shape::MIRROR).await?;
    stage.write(20).await;
    stage.flush().await;
    stage.hold(0, IoOp::Write, 0);
    stage.begin_write(20).await;
    soon().await;
    stage.system.dg(1)?.drain().await.map_err(|error| Violation(error.to_string()))?;
    stage.crash(Outage::Kill).await;
    stage.boot().await?;
    stage.finish().await
}

/// An object is deleted while a leg is away: what returns is removed, and nothing is served.
pub async fn deleted_while_away(seed: u64) -> Result<Story, Violation> {
    let mut stage = mirror(seed, Shape::MIRROR).await?;
    stage.write(20).await;
    stage.system.lose_and_tell(1, Outage::Kill).await;
    let owner = stage.system.object()?;
    owner.delete().await.map_err(|error| Violation(error.to_string()))?;
    let object = owner.id();
    stage.system.owner = None;
    drop(owner);
    for _ in 0..2 {
        stage.system.crash(Outage::Kill);
        stage.system.start_hosts().await.map_err(|(_, violation)| violation)?;
        if stage.system.open_object().await.is_ok() {
            return Err(Violation("a deleted object can be opened".to_owned()));
        }
        stage.system.up = vec![true; 3];
    }
    purge(object, &*stage.system.directory, stage.system.next_csn(), |_| false).await;
    let left = stage.system.components(object);
    if left > 0 {
        return Err(Violation(format!("{left} components of a deleted object are left")));
    }
    let events = stage.system.events();
    Ok(Story { events: events.count(), trace: events.trace(), ..Story::default() })
}
