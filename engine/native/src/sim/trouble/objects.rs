//! Other objects that are made, written, grown and deleted while hosts come and go.
//!
//! Each block is written once, with a mark of its own that is durable when acknowledged. Invariants: what was acknowledged is
//! there; what was not is there or reads as zeros; a deleted object does not come back, and nothing of it is left in the end.
use super::super::cluster::{Cluster, Shape, broken};
use super::super::reference::Violation;
use crate::fmt::BLOCK;
use crate::obj::{DgLeg, ObjError, Owner, purge};
use model::ids::ObjectId;
use model::state::ComponentState;
use model::units::BLOCK_BYTES;
use std::collections::{BTreeMap, BTreeSet};

/// Objects at once: their components are small, but the disks are, too.
const OBJECTS_MAX: usize = 2;
/// Size of a new object, and by how much it grows, blocks.
const STEP_BLOCKS: u64 = 32;
/// Size of an object at most, blocks.
const SIZE_MAX: u64 = 160;

struct Extra {
    id: ObjectId,
    owner: Option<Owner<DgLeg>>,
    /// Blocks that were written, and whether that was acknowledged.
    written: BTreeMap<u64, bool>,
}

/// The objects of one world.
#[derive(Default)]
pub struct Objects {
    alive: Vec<Extra>,
    /// Deleted, or perhaps: the last step was cut short.
    deleted: BTreeSet<ObjectId>,
}

fn mark(id: ObjectId, block: u64) -> u8 {
    1 + ((u64::from(id.0.as_bytes()[0]) + block * 7) % 255) as u8
}

impl Objects {
    /// Their owners are gone.
    pub fn crash(&mut self) {
        self.alive.iter_mut().for_each(|extra| extra.owner = None);
    }

    /// Opens them after a start. One whose making was cut short never was.
    pub async fn boot(&mut self, cluster: &Cluster) -> Result<(), Violation> {
        for extra in &mut self.alive {
            extra.owner = Some(
                cluster
                    .open(extra.id)
                    .await
                    .map_err(|error| broken("another object does not open", &error))?,
            );
        }
        Ok(())
    }

    /// Hosts that hold something of them that is not current.
    pub fn hurt(&self, cluster: &Cluster) -> BTreeSet<usize> {
        let owners = self.alive.iter().filter_map(|extra| extra.owner.as_ref());
        let descriptors: Vec<_> = owners.map(Owner::descriptor).collect();
        let legs = descriptors.iter().flat_map(|descriptor| descriptor.legs());
        let bad = legs.filter(|leg| leg.state != ComponentState::Active || leg.stale_from.is_some());
        bad.filter_map(|leg| cluster.hosts.iter().position(|group| group.host == leg.host)).collect()
    }

    /// A host went away or is back.
    pub async fn tell(&self, cluster: &Cluster, host: usize, back: bool) -> Result<(), Violation> {
        for owner in self.alive.iter().filter_map(|extra| extra.owner.as_ref()) {
            let descriptor = owner.descriptor();
            let legs = descriptor.legs().into_iter();
            let here = legs.filter(|leg| leg.host == cluster.hosts[host].host).map(|leg| leg.component);
            let here: Vec<_> = here.collect();
            owner.legs_gone(&here).await;
            if back {
                let told = owner.legs_returned(&here).await;
                told.map_err(|error| broken("another object, a host returned", &error))?;
            }
        }
        Ok(())
    }

    /// One of them is made, written, grown, deleted, resynced or looked at.
    pub async fn strike(&mut self, cluster: &Cluster) -> Result<(), Violation> {
        let env = &cluster.env;
        if self.alive.is_empty() || self.alive.len() < OBJECTS_MAX && env.chance(1, 3) {
            return self.make(cluster).await;
        }
        let index = env.below(self.alive.len() as u64) as usize;
        match env.below(6) {
            0 => self.delete(cluster, index).await,
            1 => self.alive[index].grow(cluster).await,
            2 | 3 => self.alive[index].write(cluster).await,
            4 => self.alive[index].check().await,
            _ => {
                self.alive[index].resync().await;
                Ok(())
            }
        }
    }

    async fn make(&mut self, cluster: &Cluster) -> Result<(), Violation> {
        if cluster.up.contains(&false) {
            return Ok(());
        }
        let id = ObjectId::from_random(cluster.env.id_bytes());
        // Until it is whole, what is left of it is to be removed.
        self.deleted.insert(id);
        let mut descriptor = cluster.descriptor(id, Shape { columns: 1, ..cluster.shape });
        descriptor.size_bytes = STEP_BLOCKS * BLOCK_BYTES;
        descriptor.layout.for_each_leg_mut(&mut |leg| leg.size_bytes = STEP_BLOCKS * BLOCK_BYTES);
        descriptor.csn = cluster.next_csn();
        cluster.make(&descriptor).await?;
        let owner = cluster.open(id).await.map_err(|error| broken("opening a new object", &error))?;
        self.deleted.remove(&id);
        self.alive.push(Extra { id, owner: Some(owner), written: BTreeMap::new() });
        Ok(())
    }

    async fn delete(&mut self, cluster: &Cluster, index: usize) -> Result<(), Violation> {
        let extra = self.alive.remove(index);
        self.deleted.insert(extra.id);
        let Some(owner) = extra.owner else { return Ok(()) };
        owner.delete().await.map_err(|error| broken("deleting an object", &error))?;
        match cluster.open(extra.id).await {
            Ok(_) => Err(Violation("a deleted object can be opened".to_owned())),
            Err(_) => Ok(()),
        }
    }

    /// All hosts are there and whole but those that are `gone` for good: everything is read, and what was deleted leaves nothing.
    pub async fn mend(&mut self, cluster: &Cluster, gone: bool) -> Result<(), Violation> {
        for extra in &mut self.alive {
            extra.resync().await;
            extra.check().await?;
        }
        for id in &self.deleted {
            match cluster.open(*id).await {
                // Its deletion was cut short before it began to count.
                Ok(owner) => {
                    owner.delete().await.map_err(|error| broken("deleting an object again", &error))?
                }
                Err(ObjError::Deleted) => {}
                // Its making was cut short.
                Err(_) => cluster.remove(*id).await?,
            }
            purge(*id, &*cluster.directory, cluster.next_csn(), |_| gone).await;
            let left = cluster.components(*id);
            if left > 0 {
                return Err(Violation(format!("{left} components of a deleted object are left")));
            }
        }
        self.alive.iter_mut().for_each(|extra| extra.owner = None);
        Ok(())
    }
}

impl Extra {
    fn owner(&self) -> Result<Owner<DgLeg>, Violation> {
        self.owner.clone().ok_or_else(|| Violation("another object is not open".to_owned()))
    }

    async fn write(&mut self, cluster: &Cluster) -> Result<(), Violation> {
        let owner = self.owner()?;
        let block = cluster.env.below(owner.size_bytes() / BLOCK_BYTES);
        self.written.entry(block).or_insert(false);
        let done = owner.write_bytes(block * BLOCK_BYTES, &[mark(self.id, block); BLOCK], true).await;
        match done {
            Ok(()) => _ = self.written.insert(block, true),
            Err(ObjError::NoSpace) => {}
            Err(error) => return Err(broken("writing another object", &error)),
        }
        Ok(())
    }

    async fn grow(&mut self, cluster: &Cluster) -> Result<(), Violation> {
        let owner = self.owner()?;
        let blocks = owner.size_bytes() / BLOCK_BYTES + STEP_BLOCKS;
        if blocks > SIZE_MAX || cluster.up.contains(&false) {
            return Ok(());
        }
        match owner.grow(blocks * BLOCK_BYTES, Vec::new()).await {
            // A leg that is away, unknown to the others: growth waits for it.
            Ok(()) | Err(ObjError::NoSpace | ObjError::Refused(_) | ObjError::Aborted) => Ok(()),
            Err(error) => Err(broken("growing another object", &error)),
        }
    }

    async fn resync(&self) {
        let Some(owner) = &self.owner else { return };
        let descriptor = owner.descriptor();
        for leg in descriptor.legs().into_iter().filter(|leg| leg.stale_from.is_some()) {
            // Refused while it is away; the end tries again.
            let _ = owner.resync(leg.component, &()).await;
        }
    }

    async fn check(&self) -> Result<(), Violation> {
        let owner = self.owner()?;
        for block in 0..owner.size_bytes() / BLOCK_BYTES {
            let bytes = owner.read_bytes(block * BLOCK_BYTES, BLOCK_BYTES).await;
            let bytes = bytes.map_err(|error| broken("reading another object", &error))?;
            let is = |byte| bytes.iter().all(|shown| *shown == byte);
            let (marked, zero) = (is(mark(self.id, block)), is(0));
            let fits = match self.written.get(&block) {
                Some(true) => marked,
                Some(false) => marked || zero,
                None => zero,
            };
            if !fits {
                let state = self.written.get(&block);
                return Err(Violation(format!(
                    "block {block} of another object shows {}, {state:?}",
                    bytes[0]
                )));
            }
        }
        Ok(())
    }
}
