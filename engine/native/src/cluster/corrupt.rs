//! The fault "corrupt": flips bits of stored data on one disk, behind the engine's back, and says exactly what was flipped.
use super::core::ClusterCore;
use super::leg::Place;
use super::source::DiskSource;
use crate::obj::address::{AddressMap, groups};
use model::engine::{Applied, EngineError, FaultTarget};
use model::ids::{ComponentId, DiskId, ObjectId};
use model::units::{BLOCK_BYTES, EXTENT_BYTES};

/// Blocks of one extent.
const EXTENT_BLOCKS: u64 = EXTENT_BYTES / BLOCK_BYTES;
/// Bytes that are damaged when no length is given.
const LENGTH_DEFAULT: u64 = BLOCK_BYTES;
/// The most bytes that one fault damages.
const LENGTH_MAX: u64 = 1 << 20;

fn invalid(field: &str, detail: &str) -> EngineError {
    EngineError::Invalid { field: field.into(), detail: detail.into() }
}

impl<D: DiskSource + 'static> ClusterCore<D> {
    /// Flips one bit in every sector of the blocks that the range touches, where they are stored on the target's disk.
    pub(super) async fn corrupt(
        &self,
        target: &FaultTarget,
        object: Option<ObjectId>,
        offset_bytes: Option<u64>,
        length_bytes: Option<u64>,
    ) -> Result<Applied, EngineError> {
        let FaultTarget::Disk(disk) = target else {
            return Err(invalid("fault", "corrupt is for disks"));
        };
        let length = length_bytes.unwrap_or(LENGTH_DEFAULT);
        if !(1..=LENGTH_MAX).contains(&length) {
            return Err(invalid("length_bytes", "between 1 and 1048576"));
        }
        if let Some(id) = object {
            self.volume_name(id)?;
        }
        let on_disk = self.directory.on(|place| place.disk == *disk);
        let mut found = on_disk.into_iter().filter(|(id, _)| object.is_none_or(|wanted| wanted == *id));
        let parts =
            found.by_ref().flat_map(|(id, components)| components.into_iter().map(move |one| (id, one)));
        for (id, component) in parts.collect::<Vec<_>>() {
            let flipped = self.flip(*disk, id, component, offset_bytes, length).await?;
            if !flipped.is_empty() {
                return Ok(Applied { done: true, applied: flipped, warnings: Vec::new() });
            }
        }
        Err(EngineError::Conflict {
            detail: "no stored data of that object lies there; write some first".into(),
        })
    }

    async fn flip(
        &self,
        disk: DiskId,
        object: ObjectId,
        component: ComponentId,
        offset_bytes: Option<u64>,
        length: u64,
    ) -> Result<Vec<String>, EngineError> {
        let Some(owner) = self.owner(object) else { return Ok(Vec::new()) };
        let Some(Place { group, local, .. }) = self.directory.places(object).get(&component).copied() else {
            return Ok(Vec::new());
        };
        let (Some(dg), Some(open)) = (
            self.directory.group(group),
            self.state.borrow().disks.get(&disk).and_then(|run| run.disk.clone()),
        ) else {
            return Ok(Vec::new());
        };
        // What is still in the log only would be read from there.
        let _ = owner.flush().await;
        let _ = dg.drain().await;
        let descriptor = owner.descriptor();
        let rows = groups(&descriptor.layout).unwrap_or_default();
        let row = rows.iter().position(|row| row.legs().iter().any(|leg| leg.component == component));
        let (Some(row), Ok(map)) = (row, AddressMap::new(&descriptor.layout, descriptor.size_bytes)) else {
            return Ok(Vec::new());
        };
        let from = offset_bytes.unwrap_or(0) / BLOCK_BYTES;
        let count = (offset_bytes.unwrap_or(0) % BLOCK_BYTES + length).div_ceil(BLOCK_BYTES);
        // Only extents that hold something are looked at: a thin volume may be mostly empty.
        let extents = dg.changed_since(local, 0).into_iter();
        let stored = extents.flat_map(|extent| extent * EXTENT_BLOCKS..(extent + 1) * EXTENT_BLOCKS);
        let ours = stored.filter_map(|block| Some((map.object_run(row, block, 1)?.0, block)));
        let ours = ours.filter(|(_, block)| dg.locate(local, *block).is_some());
        let wanted: Vec<(u64, u64)> = match offset_bytes {
            Some(_) => ours.filter(|(at, _)| (from..from + count).contains(at)).collect(),
            None => ours.take(count as usize).collect(),
        };
        let mut flipped = Vec::new();
        for (at, block) in wanted {
            let Some(offset) = dg.locate(local, block) else { continue };
            let done = open.corrupt(offset, BLOCK_BYTES).await;
            done.map_err(|error| EngineError::Conflict {
                detail: format!("the disk cannot be damaged: {error}"),
            })?;
            flipped.push(format!(
                "flipped a bit in each sector of {BLOCK_BYTES} bytes at {offset} of disk {disk}: byte {} of volume {}",
                at * BLOCK_BYTES,
                descriptor.name
            ));
        }
        Ok(flipped)
    }
}
