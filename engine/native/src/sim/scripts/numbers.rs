//! Numbers that two lives must never give to two things: of descriptors, of writes, of components.
use super::super::cluster::Shape;
use super::super::reference::{Outage, Violation};
use super::super::world::Story;
use super::{Stage, mirror, soon};
use crate::io::IoOp;
use crate::sim::cluster::Cluster;

/// A mark reaches one component, everything dies, and without that component another mark is committed: the later one holds.
pub async fn two_descriptors(seed: u64) -> Result<Story, Violation> {
    let mut stage = mirror(seed, Shape::MIRROR).await?;
    stage.write(20).await;
    stage.flush().await;
    stage.hold(2, IoOp::Write, 0);
    stage.system.lose(1, Outage::Kill);
    // The mark is on host 0 only.
    stage.begin_write(21).await;
    soon().await;
    stage.crash(Outage::Kill).await;
    boot_without(&mut stage, &[0]).await?;
    stage.write(20).await;
    stage.write(22).await;
    stage.crash(Outage::Kill).await;
    boot_without(&mut stage, &[]).await?;
    stage.read(16..32).await;
    stage.finish().await
}

/// A resync takes fresh numbers for the target alone; with the target away at the next start, new writes must be above them.
pub async fn numbers_of_a_resync(seed: u64) -> Result<Story, Violation> {
    let mut stage = mirror(seed, Shape::MIRROR).await?;
    stage.system.lose_and_tell(1, Outage::Kill).await;
    for extent in 0..6 {
        stage.write_blocks(extent * 32..extent * 32 + 4).await;
    }
    stage.flush().await;
    stage.system.regain(1).await?;
    let (owner, stale) = (stage.system.object()?, stage.system.stale());
    let resync = tokio::task::spawn_local(async move {
        for component in stale {
            // The crash ends it.
            let _ = owner.resync(component, &()).await;
        }
    });
    // Somewhere on its way.
    tokio::time::sleep(std::time::Duration::from_millis(20 + stage.system.env.below(100))).await;
    resync.abort();
    let _ = resync.await;
    stage.crash(Outage::Kill).await;
    boot_without(&mut stage, &[1]).await?;
    stage.write_blocks(32..36).await;
    stage.write_blocks(64..68).await;
    stage.flush().await;
    stage.system.regain(1).await?;
    stage.finish().await
}

/// Starts with some hosts away. When the object needs one of them, they come, too.
async fn boot_without(stage: &mut Stage<Cluster>, away: &[usize]) -> Result<(), Violation> {
    for host in 0..3 {
        stage.system.up[host] = !away.contains(&host);
    }
    stage.system.start_hosts().await.map_err(|(_, violation)| violation)?;
    if stage.system.open_object().await.is_err() {
        for host in away {
            stage.system.start(*host).await?;
        }
        stage.system.open_object().await.map_err(|error| Violation(error.to_string()))?;
    }
    stage.attach()
}
