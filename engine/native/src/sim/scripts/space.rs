//! Space that is given out again, and blocks that are not where they belong.
use super::super::cluster::Shape;
use super::super::leg_world::new_component;
use super::super::reference::{Outage, Violation};
use super::super::volume::ObjectVolume;
use super::super::workload;
use super::super::world::Story;
use super::log::{heads, leg};
use super::{mirror, soon};
use crate::cap::{self, CapDisk, CapError, CheckpointMark, Content};
use crate::dg::{self, Append, AppendKind, Dg, DgError};
use crate::fmt::header::Place;
use crate::fmt::{BLOCK, LocalId, crc32c};
use crate::io::IoBuf;
use crate::io::sim::CrashKind;
use model::ids::{ComponentId, ObjectId};
use model::units::BLOCK_BYTES;

const EXTENT_BLOCKS: u64 = 16;

fn text(error: impl std::fmt::Display) -> Violation {
    Violation(error.to_string())
}

/// The last block of an extent of a full disk is trimmed and new extents are written; the power fails before a checkpoint: the
/// old checkpoint must still find what it points at.
pub async fn freed_before_the_checkpoint(seed: u64) -> Result<Story, Violation> {
    let mut stage = leg(seed).await?;
    stage.crash(Outage::Kill).await;
    let group = &stage.system.group;
    let label = group.load().await?.caps.remove(0);
    let disk = CapDisk::open(label).await.map_err(text)?;
    let local = LocalId(1000);
    let new = new_component(ComponentId::from_random([9; 16]), ObjectId::from_random([9; 16]), 1, 1 << 16);
    let dg::NewComponent { component, object, kind, size_blocks, csn, descriptor } = new;
    let new = cap::NewComponent { local, component, object, kind, size_blocks, csn, descriptor };
    disk.create(new).map_err(text)?;
    let mut extent = 0;
    loop {
        match put(&disk, local, extent, 1).await {
            Ok(()) => extent += 1,
            Err(CapError::NoSpace { after_checkpoint: 0 }) => break,
            Err(CapError::NoSpace { .. }) => {
                disk.checkpoint(CheckpointMark::default()).await.map_err(text)?;
            }
            Err(error) => return Err(text(error)),
        }
    }
    disk.checkpoint(CheckpointMark::default()).await.map_err(text)?;
    disk.punch(local, 3 * EXTENT_BLOCKS, 1, 2).await.map_err(text)?;
    while put_anywhere(&disk, local, extent).await.is_ok() {
        extent += 1;
    }
    disk.label().disk().flush().await.map_err(text)?;
    drop(disk);
    group.disks().for_each(|disk| disk.crash(CrashKind::Power));
    let label = group.load().await?.caps.remove(0);
    let disk = CapDisk::open(label).await.map_err(text)?;
    let runs = disk.read(local, 3 * EXTENT_BLOCKS, 1).await.map_err(text)?;
    match &runs[0].content {
        Content::Data { buf, .. } if buf.iter().all(|byte| *byte == 1) => Ok(Story::default()),
        other => Err(Violation(format!("the checkpoint points at {other:?}"))),
    }
}

/// Writes the first block of an extent in room that is set aside for it.
async fn put(disk: &CapDisk, local: LocalId, extent: u64, oseq: u64) -> Result<(), CapError> {
    let (block, crcs, bufs) = first_block(extent, oseq);
    let mut room = disk.reserve(disk.need(local, block, 1))?;
    disk.write(local, block, oseq, oseq, &crcs, bufs, Some(&mut room)).await
}

/// The same in whatever room there is.
async fn put_anywhere(disk: &CapDisk, local: LocalId, extent: u64) -> Result<(), CapError> {
    let (block, crcs, bufs) = first_block(extent, 3);
    disk.write(local, block, 3, 3, &crcs, bufs, None).await
}

fn first_block(extent: u64, oseq: u64) -> (u64, [u32; 1], Vec<IoBuf>) {
    let mut buf = IoBuf::zeroed(BLOCK);
    buf.as_mut().fill(oseq as u8);
    (extent * EXTENT_BLOCKS, [crc32c(&buf)], vec![buf])
}

/// Components come and go: none gets the number of another, and none shows what another one held, whatever the log replays.
pub async fn component_numbers(seed: u64) -> Result<Story, Violation> {
    let mut stage = leg(seed).await?;
    let mut given = Vec::new();
    for life in 0..3 {
        let dg = stage.volume().dg.clone();
        for round in 0..3 {
            let local = create(&dg, stage.system.group.caps[0].0, life * 10 + round).await?;
            if given.contains(&local) {
                return Err(Violation(format!("{local} is given out again")));
            }
            given.push(local);
            let shown = dg.read(local, 0, 8).await.map_err(text)?;
            if shown.iter().any(|run| !matches!(run.content, Content::Zero)) {
                return Err(Violation(format!("a new component shows {shown:?}")));
            }
            fill(&dg, local).await.map_err(text)?;
            dg.delete_component(local).await.map_err(text)?;
        }
        drop(dg);
        let outage = if life == 0 { Outage::Kill } else { Outage::Power };
        stage.crash(outage).await;
        stage.boot().await?;
    }
    stage.finish().await
}

async fn create(dg: &Dg, disk: model::ids::DiskId, number: u8) -> Result<LocalId, Violation> {
    let (component, object) = (ComponentId::from_random([number; 16]), ObjectId::from_random([7; 16]));
    dg.create_component(disk, new_component(component, object, 1, 64)).await.map_err(text)
}

async fn fill(dg: &Dg, local: LocalId) -> Result<(), DgError> {
    let reservation = dg.admit(local, 0, 8)?;
    let mut buf = IoBuf::zeroed(8 * BLOCK);
    buf.as_mut().fill(0xee);
    let crcs = buf.chunks(BLOCK).map(crc32c).collect();
    let (kind, bufs) = (AppendKind::Data, vec![buf]);
    dg.append(Append { local, kind, block: 0, nblk: 8, oseq: 1, data_oseq: 1, bufs, crcs, reservation }).await
}

/// A batch of the log that stands where it was not written is none.
pub async fn header_out_of_place(seed: u64) -> Result<Story, Violation> {
    let stage = mirror(seed, Shape::MIRROR).await?;
    stage.write(20).await;
    stage.flush().await;
    let group = &stage.system.hosts[0];
    for at in heads(group) {
        let bytes = group.log.1.peek(at, BLOCK);
        let decoded = |self_off| crate::fmt::log::decode(&bytes, Place { dev_id: None, self_off });
        if decoded(at).is_ok() && decoded(at + BLOCK_BYTES).is_ok() {
            return Err(Violation(format!("the batch at {at} is believed elsewhere")));
        }
    }
    stage.finish().await
}

/// Content rots on the disk of one leg and in the log of the other: reads show what was written, and both are repaired.
pub async fn rot_at_rest(seed: u64) -> Result<Story, Violation> {
    let stage = mirror(seed, Shape::MIRROR).await?;
    stage.write_blocks(0..64).await;
    stage.flush().await;
    stage.system.drain().await?;
    stage.write_blocks(128..136).await;
    rot(&stage.system.dg(0)?, &stage.system.hosts[0]);
    soon().await;
    let volume = ObjectVolume(stage.system.object()?);
    for _ in 0..12 {
        // An odd number of reads, so that each place is read from either leg.
        for first in (0..17).map(|nth| nth % 16 * 64) {
            workload::read(&stage.board, &volume, first..first + 64).await;
        }
    }
    drop(volume);
    stage.finish().await
}

fn rot(dg: &Dg, group: &super::super::group::Group) {
    for component in dg.components() {
        for block in (0..component.size_blocks).step_by(3) {
            if let Some(at) = dg.locate(component.local, block)
                && let Some((_, disk)) = group.caps.iter().find(|(id, _)| *id == component.disk)
            {
                disk.flip_bit(at + block * 7 % BLOCK_BYTES, (block % 8) as u8);
            }
        }
    }
}
