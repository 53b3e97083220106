//! The object as clients see it, and where it finds its components.
use super::cluster::Cluster;
use super::content::SECTOR;
use super::reference::{Outage, Violation};
use super::workload::{Board, Failure, Volume};
use super::world::System;
use crate::dg::Dg;
use crate::io::IoBuf;
use crate::io::sim::Events;
use crate::obj::store::Members;
use crate::obj::{DgLeg, ObjError, Owner};
use model::ids::{ComponentId, HostId, ObjectId};
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;

/// The groups that run, by host: where an object finds its components.
#[derive(Default)]
pub struct Directory(pub RefCell<Vec<Option<Dg>>>);

impl Members<DgLeg> for Directory {
    fn components(&self, object: ObjectId) -> Vec<(ComponentId, DgLeg)> {
        let groups = self.0.borrow();
        let legs = groups.iter().flatten().flat_map(|dg| {
            let mine = dg.components().into_iter().filter(|component| component.object == object);
            mine.map(|component| (component.component, DgLeg::new(dg.clone(), component.local)))
        });
        legs.collect()
    }

    fn host_name(&self, host: HostId) -> String {
        host.to_string()
    }
}

/// The volume.
#[derive(Clone)]
pub struct ObjectVolume(pub Owner<DgLeg>);

fn failure(error: ObjError) -> Failure {
    match error {
        ObjError::NoSpace => Failure::Refused,
        other => Failure::Failed(other.to_string()),
    }
}

fn bytes_of(sectors: &Range<u64>) -> (u64, u64) {
    (sectors.start * SECTOR, (sectors.end - sectors.start) * SECTOR)
}

impl Volume for ObjectVolume {
    async fn read(&self, sectors: Range<u64>) -> Result<Vec<IoBuf>, Failure> {
        let (offset, len) = bytes_of(&sectors);
        let bytes = self.0.read_bytes(offset, len).await.map_err(failure)?;
        Ok(vec![IoBuf::copy_of(&bytes)])
    }

    async fn write(&self, first: u64, data: IoBuf, durable: bool) -> Result<(), Failure> {
        self.0.write_bytes(first * SECTOR, &data, durable).await.map_err(failure)
    }

    async fn trim(&self, sectors: Range<u64>, keep: bool) -> Result<(), Failure> {
        let (offset, len) = bytes_of(&sectors);
        let done = if keep {
            self.0.write_zeroes(offset, len, true, false).await
        } else {
            self.0.trim(offset, len, false).await
        };
        done.map_err(failure)
    }

    async fn flush(&self) -> Result<(), Failure> {
        self.0.flush().await.map_err(failure)
    }
}

impl System for Cluster {
    type Volume = ObjectVolume;

    async fn boot(&mut self) -> Result<ObjectVolume, Violation> {
        Cluster::boot(self).await
    }

    fn crash(&mut self, outage: Outage) {
        Cluster::crash(self, outage);
    }

    async fn disturb(&mut self, _: &Board) {}

    async fn settle(&mut self, _: &Board) -> Result<(), Violation> {
        self.heal(&BTreeSet::new()).await?;
        Cluster::settle(self, &BTreeSet::new()).await
    }

    fn describe(&self) -> String {
        Cluster::describe(self)
    }

    fn events(&self) -> &Events {
        &self.events
    }
}
