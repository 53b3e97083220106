//! Components come, change and go: each step is a record in the log, flushed before it is done.
//!
//! Invariants: a configuration reaches the capacity disk's memory only after its record is flushed, and keeps its log space until
//! then; a local id is given out once.
use super::append::Job;
use super::core::{Comp, Core};
use super::overlay::Overlay;
use super::pins::Pin;
use super::space::TOKENS_MIN;
use super::{Dg, DgComponent, DgError};
use crate::cap::{self, ComponentInfo};
use crate::fmt::component::ComponentKind;
use crate::fmt::log::{Record, RecordKind};
use crate::fmt::log_config::{ConfigPayload, DESCRIPTOR_BYTES_MAX};
use crate::fmt::{BLOCK, LocalId, crc32c};
use crate::io::IoBuf;
use crate::mutant::{Mutant, on};
use model::ids::{ComponentId, DiskId, ObjectId};
use std::collections::{BTreeMap, VecDeque};
use std::rc::Rc;
use tokio::sync::oneshot;

/// A component to make.
#[derive(Clone, Debug)]
pub struct NewComponent {
    /// The component.
    pub component: ComponentId,
    /// Its object.
    pub object: ObjectId,
    /// What it is for.
    pub kind: ComponentKind,
    /// Blocks of 4 KiB; 0 for a witness.
    pub size_blocks: u64,
    /// Version of the descriptor: (boot epoch, number).
    pub csn: (u64, u64),
    /// The object's descriptor, sealed.
    pub descriptor: Rc<[u8]>,
}

impl Dg {
    /// Makes a component on `disk`. On return it is on stable media.
    ///
    /// # Errors
    /// `NoDisk`, `DiskFailed`, `Capacity`: nothing was made. `Failed`, `Gone`: it may exist at the next open.
    pub async fn create_component(&self, disk: DiskId, new: NewComponent) -> Result<LocalId, DgError> {
        let core = self.core();
        let index =
            core.members.iter().position(|member| member.disk == disk).ok_or(DgError::NoDisk(disk))?;
        if core.members[index].failed.get() {
            return Err(core.members[index].lost());
        }
        let local = core.next_local();
        let NewComponent { component, object, kind, size_blocks, csn, descriptor } = new;
        core.clone()
            .detached(async move |core: Rc<Core>| {
                let new = cap::NewComponent { local, component, object, kind, size_blocks, csn, descriptor };
                let _pin = core.log_config(index, &new).await?;
                if let Err(error) = core.members[index].cap.create(new) {
                    let gone = record(local, RecordKind::Delete, 0, 0, (0, 0));
                    core.log_record(index, gone, None).await?;
                    return Err(error.into());
                }
                core.add_comp(local, index, size_blocks, 0);
                Ok(local)
            })
            .await
    }

    /// Sets the descriptor of a component's object. On return it is on stable media. An older version than the present is ignored.
    ///
    /// # Errors
    /// `NoComponent`, `DiskFailed`, `DescriptorTooLong`: nothing has changed. `Failed`, `Gone`: it may hold at the next open.
    pub async fn commit_descriptor(
        &self,
        local: LocalId,
        csn: (u64, u64),
        descriptor: Rc<[u8]>,
    ) -> Result<(), DgError> {
        self.core().clone().reconfigure(local, csn, descriptor, None).await
    }

    /// [`Dg::commit_descriptor`] and a new size, not below the present.
    ///
    /// # Errors
    /// As [`Dg::commit_descriptor`].
    pub async fn grow_component(
        &self,
        local: LocalId,
        size_blocks: u64,
        csn: (u64, u64),
        descriptor: Rc<[u8]>,
    ) -> Result<(), DgError> {
        self.core().clone().reconfigure(local, csn, descriptor, Some(size_blocks)).await
    }

    /// Removes a component and all its data. On return it is gone for good.
    ///
    /// # Errors
    /// `NoComponent`, `DiskFailed`: nothing has changed. `Failed`, `Gone`: it may still exist at the next open.
    pub async fn delete_component(&self, local: LocalId) -> Result<(), DgError> {
        let index = self.core().member_of(local)?;
        self.core()
            .clone()
            .detached(async move |core: Rc<Core>| {
                let record = record(local, RecordKind::Delete, 0, 0, (0, 0));
                let pin = core.log_record(index, record, None).await?;
                core.flush().await?;
                core.remove_comp(local);
                core.members[index].cap.remove(local);
                drop(pin);
                Ok(())
            })
            .await
    }

    /// All components of the disks that are there, by local id.
    pub fn components(&self) -> Vec<DgComponent> {
        let core = self.core();
        let mut all = Vec::new();
        for (index, member) in core.members.iter().enumerate().filter(|(_, member)| !member.failed.get()) {
            let found = member.cap.components();
            all.extend(found.into_iter().map(|info| core.describe(index, info)));
        }
        all.sort_by_key(|component| component.local);
        all
    }

    /// One component.
    pub fn component(&self, local: LocalId) -> Option<DgComponent> {
        let index = self.core().member_of(local).ok()?;
        Some(self.core().describe(index, self.core().members[index].cap.component(local)?))
    }

    /// All writes up to `stable_oseq` are on stable media of every active leg: they may be destaged. Logged with the next batch.
    pub fn set_stable(&self, local: LocalId, stable_oseq: u64) {
        let core = self.core();
        let hurried = core.hurried();
        let mut state = core.state.borrow_mut();
        let Some(comp) = state.comps.get_mut(&local) else { return };
        if stable_oseq <= comp.overlay.stable_oseq() {
            return;
        }
        comp.overlay.set_stable(stable_oseq);
        let index = comp.member;
        state.stable_dirty.insert(local, stable_oseq);
        drop(state);
        if hurried {
            core.members[index].kick.notify_one();
        }
        core.rooms.work.notify_one();
    }
}

fn record(component: LocalId, kind: RecordKind, nblk: u16, block: u64, csn: (u64, u64)) -> Record {
    Record { component, kind, flags: 0, nblk, block, oseq: csn.1, data_oseq: csn.0, payload: 0 }
}

impl Core {
    fn next_local(&self) -> LocalId {
        let mut state = self.state.borrow_mut();
        if on(Mutant::ReuseLocalId) {
            let free = (1..).find(|id| !state.comps.contains_key(&LocalId(*id)));
            return LocalId(free.unwrap_or(state.next_local));
        }
        let local = state.next_local;
        state.next_local += 1;
        LocalId(local)
    }

    /// Runs a change in its own task, so that it ends even when the caller goes away.
    async fn detached<T: 'static>(
        self: Rc<Self>,
        change: impl AsyncFnOnce(Rc<Self>) -> Result<T, DgError> + 'static,
    ) -> Result<T, DgError> {
        self.check()?;
        let (done, wait) = oneshot::channel();
        let core = Rc::clone(&self);
        let task = tokio::task::spawn_local(async move {
            // The caller may be gone.
            let _ = done.send(change(core).await);
        });
        {
            let mut tasks = self.tasks.borrow_mut();
            tasks.retain(|task| !task.is_finished());
            tasks.push(task);
        }
        wait.await.unwrap_or_else(|_| Err(self.check().err().unwrap_or(DgError::Gone)))
    }

    /// Logs the whole state of a component and flushes.
    async fn log_config(self: &Rc<Self>, index: usize, new: &cap::NewComponent) -> Result<Pin, DgError> {
        if new.descriptor.len() > DESCRIPTOR_BYTES_MAX {
            return Err(DgError::DescriptorTooLong(new.descriptor.len()));
        }
        let payload = ConfigPayload {
            component: new.component,
            object: new.object,
            disk: self.members[index].disk,
            size_blocks: new.size_blocks,
            kind: new.kind,
            descriptor: &new.descriptor,
        };
        let blocks = payload.len_bytes().div_ceil(BLOCK);
        let mut buf = IoBuf::zeroed(blocks * BLOCK);
        payload.encode(buf.as_mut());
        let record =
            record(new.local, RecordKind::Config, blocks as u16, payload.len_bytes() as u64, new.csn);
        let pin = self.log_record(index, record, Some(buf)).await?;
        self.flush().await?;
        Ok(pin)
    }

    /// Logs a record that may use the reserve; the pin keeps it in the log.
    async fn log_record(
        &self,
        member: usize,
        record: Record,
        payload: Option<IoBuf>,
    ) -> Result<Pin, DgError> {
        self.check()?;
        let crcs = payload.iter().flat_map(|buf| buf.chunks(BLOCK).map(crc32c)).collect();
        let (done, wait) = oneshot::channel();
        let (bufs, tokens) = (payload.into_iter().collect(), Vec::new());
        self.state.borrow_mut().urgent.push_back(Job { member, record, bufs, crcs, tokens, done });
        self.rooms.work.notify_one();
        match wait.await {
            Ok(Ok(Some(pin))) => Ok(pin),
            Ok(Err(error)) => Err(error),
            Ok(Ok(None)) | Err(_) => Err(self.check().err().unwrap_or(DgError::Gone)),
        }
    }

    async fn reconfigure(
        self: Rc<Self>,
        local: LocalId,
        csn: (u64, u64),
        descriptor: Rc<[u8]>,
        size_blocks: Option<u64>,
    ) -> Result<(), DgError> {
        let index = self.member_of(local)?;
        let info = self.members[index].cap.component(local).ok_or(DgError::NoComponent(local))?;
        let size_blocks = size_blocks.unwrap_or(0).max(info.size_blocks);
        let ComponentInfo { component, object, kind, .. } = info.clone();
        let new = cap::NewComponent { local, component, object, kind, size_blocks, csn, descriptor };
        self.detached(async move |core: Rc<Core>| {
            let _pin = core.log_config(index, &new).await?;
            if csn > info.csn {
                core.state.borrow_mut().damaged.remove(&new.local);
            }
            core.apply_config(index, new)
        })
        .await
    }

    /// Brings a flushed or replayed configuration into the capacity disk's memory.
    pub fn apply_config(&self, index: usize, new: cap::NewComponent) -> Result<(), DgError> {
        let cap = &self.members[index].cap;
        if let Some(comp) = self.state.borrow_mut().comps.get_mut(&new.local) {
            comp.size_blocks = comp.size_blocks.max(new.size_blocks);
        }
        Ok(upsert(cap, new)?)
    }

    /// Makes the component known to log and overlay.
    pub fn add_comp(&self, local: LocalId, member: usize, size_blocks: u64, applied_stable: u64) {
        let mut overlay = Overlay::default();
        overlay.set_stable(applied_stable);
        let (logged_stable, tokens) = (VecDeque::new(), BTreeMap::new());
        let comp = Comp { member, size_blocks, overlay, logged_stable, tokens, tokens_max: TOKENS_MIN };
        self.state.borrow_mut().comps.insert(local, comp);
    }

    pub fn remove_comp(&self, local: LocalId) {
        let removed = {
            let mut state = self.state.borrow_mut();
            state.stable_dirty.remove(&local);
            state.damaged.remove(&local);
            let removed = state.comps.remove(&local);
            state.overlay_runs -= removed.as_ref().map_or(0, |comp| comp.overlay.runs());
            removed
        };
        drop(removed);
    }

    fn describe(&self, index: usize, info: ComponentInfo) -> DgComponent {
        let disk = self.members[index].disk;
        let state = self.state.borrow();
        let stable_oseq = state.comps.get(&info.local).map_or(0, |comp| comp.overlay.stable_oseq());
        DgComponent {
            local: info.local,
            component: info.component,
            object: info.object,
            kind: info.kind,
            disk,
            size_blocks: info.size_blocks,
            csn: info.csn,
            descriptor: info.descriptor,
            applied_stable_oseq: info.applied_stable_oseq,
            stable_oseq,
            damaged: info.damaged || state.damaged.contains(&info.local),
        }
    }
}

/// Makes the component, or renews size and descriptor when the version is not older.
pub(super) fn upsert(cap: &cap::CapDisk, new: cap::NewComponent) -> Result<(), cap::CapError> {
    match cap.component(new.local) {
        None => cap.create(new),
        Some(known) => {
            cap.resize(new.local, new.size_blocks.max(known.size_blocks))?;
            if new.csn >= known.csn {
                cap.set_descriptor(new.local, new.csn, new.descriptor)?;
            }
            Ok(())
        }
    }
}
