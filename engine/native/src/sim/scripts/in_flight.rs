//! Writes that are under way while the set of legs, the stable mark or the content changes.
use super::super::cluster::Shape;
use super::super::reference::{Outage, Violation};
use super::super::workload::{self, Board};
use super::super::world::Story;
use super::{mirror, sectors, soon};
use crate::io::IoOp;
use std::rc::Rc;
use std::time::Duration;

/// Writes are acknowledged out of order, a flush passes, and the leg on which the oldest had not landed is lost: its delta begins
/// below that write.
pub async fn acknowledged_out_of_order(seed: u64) -> Result<Story, Violation> {
    let shape = Shape { tolerates: 1, columns: 2, step: 2, hosts: 5 };
    let mut stage = mirror(seed, shape).await?;
    stage.write(10).await;
    // The first write fills the batch under way, the second waits behind it, the third goes to the other column.
    stage.hold(1, IoOp::Write, 0);
    stage.begin_write(10).await;
    soon().await;
    stage.begin_write(20).await;
    stage.write(300).await;
    let flush = async |board: Rc<Board>, volume| workload::flush(&board, &volume).await;
    stage.begin(flush).await;
    tokio::time::sleep(Duration::from_millis(50)).await;
    stage.hold(1, IoOp::Write, 1);
    soon().await;
    stage.system.lose_and_tell(1, Outage::Power).await;
    stage.join().await;
    stage.system.regain(1).await?;
    stage.finish().await
}

/// A write that was sent to the old write set waits in front of a full log while a leg is resynced: it must be there when the leg
/// counts again.
pub async fn write_set_behind_a_barrier(seed: u64) -> Result<Story, Violation> {
    let mut stage = mirror(seed, Shape::MIRROR).await?;
    stage.write(10).await;
    stage.flush().await;
    stage.system.lose_and_tell(1, Outage::Kill).await;
    stage.write(250).await;
    stage.system.regain(1).await?;
    // Nothing leaves the log, so that it fills; descriptors still find room in it.
    stage.system.hosts[0].caps[0].1.hold(IoOp::Write, 0);
    while !stage.is_busy() {
        let range = sectors(128..168);
        stage.begin(async move |board, volume| workload::write(&board, &volume, range, false).await).await;
        tokio::time::sleep(Duration::from_millis(200)).await;
    }
    // Where nothing has changed so far: the walk does not come by.
    stage.begin_write(5).await;
    let (owner, stale) = (stage.system.object()?, stage.system.stale());
    let resync = tokio::task::spawn_local(async move {
        for component in stale {
            // Healing tries again.
            let _ = owner.resync(component, &()).await;
        }
    });
    soon().await;
    stage.lift(0);
    stage.join().await;
    let _ = resync.await;
    stage.finish().await
}

/// A reader has seen a write that is on one leg only; the next read, from the other leg, must not show what was before.
pub async fn read_after_read(seed: u64) -> Result<Story, Violation> {
    let mut stage = mirror(seed, Shape::MIRROR).await?;
    stage.write(20).await;
    stage.write(60).await;
    stage.hold(1, IoOp::Write, 0);
    stage.begin_write(20).await;
    soon().await;
    let read = |block| {
        async move |board: Rc<Board>, volume| {
            workload::read(&board, &volume, sectors(block..block + 1)).await;
        }
    };
    // The leg that does not wait for a write is read.
    stage.begin(read(20)).await;
    soon().await;
    // Now it has more to do than the other one.
    stage.hold(0, IoOp::Read, 0);
    for _ in 0..6 {
        stage.begin(read(60)).await;
    }
    soon().await;
    stage.begin(read(20)).await;
    soon().await;
    (0..2).for_each(|host| stage.lift(host));
    stage.finish().await
}

/// A block is trimmed while a write of a part of it has read the rest: the rest must not come back.
pub async fn trim_beside_a_partial_write(seed: u64) -> Result<Story, Violation> {
    let mut stage = mirror(seed, Shape::MIRROR).await?;
    stage.write(20).await;
    stage.flush().await;
    let hosts = &stage.system.hosts;
    hosts.iter().flat_map(|group| group.disks()).for_each(|disk| disk.hold(IoOp::Read, 0));
    let first = sectors(20..21).start;
    stage
        .begin(async move |board, volume| workload::write(&board, &volume, first..first + 1, false).await)
        .await;
    soon().await;
    stage.begin(async |board, volume| workload::trim(&board, &volume, sectors(20..21), false).await).await;
    soon().await;
    (0..3).for_each(|host| stage.lift(host));
    stage.join().await;
    stage.read(20..21).await;
    stage.finish().await
}
