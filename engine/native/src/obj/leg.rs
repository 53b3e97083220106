//! A component in a disk group, as its object sees it.
use super::store::{Append, Change, ReadRun, Store, StoreError, StoreStatus, Unsettled};
use crate::cap::CapError;
use crate::dg::{self, AppendKind, Content, Dg, DgError, LogRoom, Reservation};
use crate::fmt::LocalId;
use crate::fmt::descriptor::Csn;
use crate::io::DiskError;
use model::ids::DiskGroupId;
use std::rc::Rc;
use std::time::Duration;

/// One component of an open disk group. When the group is stopped or fails, every request says so.
#[derive(Clone)]
pub struct DgLeg {
    dg: Dg,
    local: LocalId,
}

impl DgLeg {
    /// Component `local` of `dg`.
    pub fn new(dg: Dg, local: LocalId) -> Self {
        Self { dg, local }
    }

    /// Its disk group.
    pub fn dg(&self) -> &Dg {
        &self.dg
    }

    /// Its number there.
    pub fn local(&self) -> LocalId {
        self.local
    }
}

fn store_error(error: DgError) -> StoreError {
    match error {
        DgError::Gone | DgError::DiskGone(_) | DgError::NoComponent(_) => StoreError::Gone,
        DgError::ReadLog(DiskError::Gone) => StoreError::Gone,
        DgError::Capacity(why) if matches!(*why, CapError::Disk(DiskError::Gone)) => StoreError::Gone,
        DgError::Capacity(why) if matches!(*why, CapError::NoSpace { .. }) => StoreError::NoSpace,
        other => {
            tracing::warn!(error = &other as &dyn std::error::Error, "a component failed a request");
            StoreError::Failed
        }
    }
}

/// Blocks as the group counts them in one request: callers split long ranges before.
fn count(nblk: u64) -> u32 {
    u32::try_from(nblk).unwrap_or(u32::MAX)
}

impl Store for DgLeg {
    type Room = Reservation;
    type LogRoom = LogRoom;

    fn is_silent(&self, limit: Duration) -> bool {
        self.dg.is_silent(limit)
    }

    fn status(&self) -> StoreStatus {
        match self.dg.component(self.local) {
            Some(component) => StoreStatus {
                csn: component.csn,
                descriptor: component.descriptor,
                stable_oseq: component.stable_oseq,
                damaged: component.damaged,
                applied_oseq: component.applied_stable_oseq,
            },
            None => StoreStatus {
                csn: (0, 0),
                descriptor: Rc::default(),
                stable_oseq: 0,
                damaged: true,
                applied_oseq: 0,
            },
        }
    }

    fn admit(&self, block: u64, nblk: u64) -> Result<Reservation, StoreError> {
        self.dg.admit(self.local, block, count(nblk)).map_err(store_error)
    }

    async fn make_room(&self) -> Result<(), StoreError> {
        self.dg.make_room(self.local).await.map_err(store_error)
    }

    fn log(&self) -> DiskGroupId {
        self.dg.group()
    }

    fn log_bytes(&self, nblk: u64, has_payload: bool) -> u64 {
        self.dg.log_bytes(nblk, has_payload)
    }

    fn log_room_now(&self, bytes: u64) -> Option<LogRoom> {
        self.dg.log_room_now(bytes)
    }

    async fn log_room(&self, bytes: u64) -> Result<LogRoom, StoreError> {
        self.dg.log_room(bytes).await.map_err(store_error)
    }

    async fn append(&self, append: Append<Reservation>) -> Result<(), StoreError> {
        let kind = match append.change {
            Change::Data => AppendKind::Data,
            Change::Trim => AppendKind::Trim,
            Change::Zero { .. } => AppendKind::Zero,
            Change::Resync => AppendKind::Resync,
            Change::Repair => AppendKind::Repair,
        };
        let append = dg::Append {
            local: self.local,
            kind,
            block: append.block,
            nblk: count(append.nblk),
            oseq: append.oseq,
            data_oseq: append.oseq,
            bufs: append.bufs,
            crcs: append.crcs,
            reservation: append.room.unwrap_or_default(),
        };
        self.dg.append(append).await.map_err(store_error)
    }

    async fn flush(&self) -> Result<(), StoreError> {
        self.dg.flush().await.map_err(store_error)
    }

    async fn flush_wanted(&self) {
        self.dg.flush_asked().await;
    }

    fn set_stable(&self, oseq: u64) {
        self.dg.set_stable(self.local, oseq);
    }

    async fn read(&self, block: u64, nblk: u64) -> Result<Vec<ReadRun>, StoreError> {
        let runs = self.dg.read(self.local, block, count(nblk)).await.map_err(store_error)?;
        let run = |run: dg::BlockRun| match run.content {
            Content::Data { buf, .. } => ReadRun::Data(buf),
            Content::Zero => ReadRun::Zero(run.nblk),
            Content::Bad | Content::IoError => ReadRun::Bad(run.nblk),
        };
        Ok(runs.into_iter().map(run).collect())
    }

    async fn block_status(&self, block: u64, nblk: u64) -> Result<Vec<(u64, bool)>, StoreError> {
        self.dg.block_status(self.local, block, count(nblk)).await.map_err(store_error)
    }

    fn unsettled(&self, oseq: u64) -> Vec<Unsettled> {
        let run = |run: dg::UnstableRun| Unsettled {
            block: run.block,
            nblk: run.nblk.into(),
            oseq: run.oseq,
            hole: run.hole,
        };
        self.dg.unstable(self.local, oseq).into_iter().map(run).collect()
    }

    fn changed_since(&self, oseq: u64) -> Vec<u64> {
        self.dg.changed_since(self.local, oseq)
    }

    fn max_oseq(&self) -> u64 {
        self.dg.max_oseq(self.local)
    }

    async fn commit_descriptor(&self, csn: Csn, bytes: Rc<[u8]>) -> Result<(), StoreError> {
        self.dg.commit_descriptor(self.local, csn, bytes).await.map_err(store_error)
    }

    async fn resize(&self, blocks: u64) -> Result<(), StoreError> {
        let status = self.status();
        self.dg.grow_component(self.local, blocks, status.csn, status.descriptor).await.map_err(store_error)
    }

    async fn delete(&self) -> Result<(), StoreError> {
        self.dg.delete_component(self.local).await.map_err(store_error)
    }
}
