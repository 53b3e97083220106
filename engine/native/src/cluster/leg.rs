//! A component in an open disk group, as an object sees it; and the directory that finds components by object.
//!
//! Invariants: the directory names exactly the components of groups that are open; a host that is cut off from the owner's side has
//! none, although its groups run on; what a group has deleted is out of the directory before the call returns.
use crate::cap::{BlockRun, CapError, Content};
use crate::dg::{self, AppendKind, Dg, DgComponent, DgError};
use crate::fmt::LocalId;
use crate::fmt::descriptor::Csn;
use crate::obj::store::{Append, Change, Members, ReadRun, Store, StoreError, StoreStatus, Unsettled};
use model::ids::{ComponentId, DiskGroupId, DiskId, HostId, ObjectId};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Where one component lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Place {
    /// Its disk group.
    pub group: DiskGroupId,
    /// Its disk.
    pub disk: DiskId,
    /// Its number in the group.
    pub local: LocalId,
}

struct OpenGroup {
    dg: Dg,
    host: HostId,
}

/// All open groups and the components in them.
#[derive(Default)]
pub struct Directory {
    groups: RefCell<BTreeMap<DiskGroupId, OpenGroup>>,
    objects: RefCell<BTreeMap<ObjectId, BTreeMap<ComponentId, Place>>>,
    cut_off: RefCell<BTreeSet<HostId>>,
    host_names: RefCell<BTreeMap<HostId, String>>,
}

impl Directory {
    /// A group is open: its components can be found.
    pub fn insert_group(&self, dg: Dg, host: HostId) {
        let group = dg.group();
        for found in dg.components() {
            self.insert(found.object, found.component, Place { group, disk: found.disk, local: found.local });
        }
        self.groups.borrow_mut().insert(group, OpenGroup { dg, host });
    }

    /// A group is closed or lost: takes it and its components out.
    pub fn remove_group(&self, group: DiskGroupId) -> Option<Dg> {
        let removed = self.groups.borrow_mut().remove(&group);
        let mut objects = self.objects.borrow_mut();
        objects.values_mut().for_each(|places| places.retain(|_, place| place.group != group));
        objects.retain(|_, places| !places.is_empty());
        removed.map(|open| open.dg)
    }

    /// A component was made.
    pub fn insert(&self, object: ObjectId, component: ComponentId, place: Place) {
        self.objects.borrow_mut().entry(object).or_default().insert(component, place);
    }

    fn remove(&self, object: ObjectId, component: ComponentId) {
        let mut objects = self.objects.borrow_mut();
        if let Some(places) = objects.get_mut(&object) {
            places.remove(&component);
            if places.is_empty() {
                objects.remove(&object);
            }
        }
    }

    /// The open group.
    pub fn group(&self, group: DiskGroupId) -> Option<Dg> {
        self.groups.borrow().get(&group).map(|open| open.dg.clone())
    }

    /// Every open group, with its host.
    pub fn groups(&self) -> Vec<(Dg, HostId)> {
        self.groups.borrow().values().map(|open| (open.dg.clone(), open.host)).collect()
    }

    /// Every object with a component in an open group.
    pub fn objects(&self) -> Vec<ObjectId> {
        self.objects.borrow().keys().copied().collect()
    }

    /// Where the components of an object lie, those of hosts that are cut off included.
    pub fn places(&self, object: ObjectId) -> BTreeMap<ComponentId, Place> {
        self.objects.borrow().get(&object).cloned().unwrap_or_default()
    }

    /// Components by object that lie where `wanted` says.
    pub fn on(&self, wanted: impl Fn(&Place) -> bool) -> BTreeMap<ObjectId, Vec<ComponentId>> {
        let objects = self.objects.borrow();
        let of = |places: &BTreeMap<ComponentId, Place>| -> Vec<ComponentId> {
            places.iter().filter(|(_, place)| wanted(place)).map(|(component, _)| *component).collect()
        };
        let found = objects.iter().map(|(object, places)| (*object, of(places)));
        found.filter(|(_, components)| !components.is_empty()).collect()
    }

    /// Components on each disk.
    pub fn count_by_disk(&self) -> BTreeMap<DiskId, u32> {
        let mut counts = BTreeMap::new();
        for place in self.objects.borrow().values().flat_map(BTreeMap::values) {
            *counts.entry(place.disk).or_default() += 1;
        }
        counts
    }

    /// Sets the hosts that the owner's side cannot reach.
    pub fn set_cut_off(&self, hosts: BTreeSet<HostId>) {
        *self.cut_off.borrow_mut() = hosts;
    }

    /// Names of hosts, for reasons.
    pub fn set_host_names(&self, names: BTreeMap<HostId, String>) {
        *self.host_names.borrow_mut() = names;
    }

    /// The component, if its group is open, its host reachable and its disk sound.
    pub fn leg(self: &Rc<Self>, object: ObjectId, component: ComponentId) -> Option<Leg> {
        let place = *self.objects.borrow().get(&object)?.get(&component)?;
        let groups = self.groups.borrow();
        let open = groups.get(&place.group)?;
        let sound = !open.dg.is_failed()
            && !open.dg.failed_disks().contains(&place.disk)
            && !self.cut_off.borrow().contains(&open.host);
        let (dg, directory) = (open.dg.clone(), Rc::clone(self));
        sound.then_some(Leg { dg, local: place.local, object, component, directory })
    }
}

/// The directory as the objects ask it.
#[derive(Clone)]
pub struct LegMembers(pub Rc<Directory>);

impl Members<Leg> for LegMembers {
    fn components(&self, object: ObjectId) -> Vec<(ComponentId, Leg)> {
        let places = self.0.places(object);
        places.into_keys().filter_map(|component| Some((component, self.0.leg(object, component)?))).collect()
    }

    fn host_name(&self, host: HostId) -> String {
        self.0.host_names.borrow().get(&host).cloned().unwrap_or_else(|| host.to_string())
    }
}

/// One reachable component.
#[derive(Clone)]
pub struct Leg {
    dg: Dg,
    local: LocalId,
    object: ObjectId,
    component: ComponentId,
    directory: Rc<Directory>,
}

fn store_error(error: DgError) -> StoreError {
    match error {
        DgError::Gone | DgError::NoDisk(_) | DgError::NoComponent(_) => StoreError::Gone,
        DgError::Capacity(cause) if matches!(*cause, CapError::NoSpace { .. }) => StoreError::NoSpace,
        _ => StoreError::Failed,
    }
}

impl Leg {
    fn found(&self) -> Option<DgComponent> {
        self.dg.component(self.local)
    }

    /// Bytes allocated.
    pub fn used_bytes(&self) -> u64 {
        self.dg.used_bytes(self.local)
    }
}

/// Number of blocks as records carry it; callers keep below the limits of `obj::store`.
fn count(nblk: u64) -> Result<u32, StoreError> {
    u32::try_from(nblk).map_err(|_| StoreError::Failed)
}

impl Store for Leg {
    type Room = dg::Reservation;

    fn status(&self) -> StoreStatus {
        match self.found() {
            Some(found) => StoreStatus {
                csn: found.csn,
                descriptor: found.descriptor,
                stable_oseq: found.stable_oseq,
                damaged: found.damaged,
                applied_oseq: found.applied_stable_oseq,
            },
            // Gone meanwhile: nothing it said before counts.
            None => StoreStatus {
                csn: (0, 0),
                descriptor: Rc::from([]),
                stable_oseq: 0,
                damaged: true,
                applied_oseq: 0,
            },
        }
    }

    fn admit(&self, block: u64, nblk: u64) -> Result<Self::Room, StoreError> {
        self.dg.admit(self.local, block, count(nblk)?).map_err(store_error)
    }

    async fn make_room(&self) -> Result<(), StoreError> {
        self.dg.make_room(self.local).await.map_err(store_error)
    }

    async fn append(&self, append: Append<Self::Room>) -> Result<(), StoreError> {
        let Append { change, block, nblk, oseq, bufs, crcs, room } = append;
        let kind = match change {
            Change::Data => AppendKind::Data,
            Change::Trim => AppendKind::Trim,
            Change::Zero { .. } => AppendKind::Zero,
            Change::Resync => AppendKind::Resync,
            Change::Repair => AppendKind::Repair,
        };
        let reservation = room.unwrap_or_default();
        let (local, nblk) = (self.local, count(nblk)?);
        let append = dg::Append { local, kind, block, nblk, oseq, data_oseq: oseq, bufs, crcs, reservation };
        self.dg.append(append).await.map_err(store_error)
    }

    async fn flush(&self) -> Result<(), StoreError> {
        self.dg.flush().await.map_err(store_error)
    }

    fn set_stable(&self, oseq: u64) {
        self.dg.set_stable(self.local, oseq);
    }

    async fn read(&self, block: u64, nblk: u64) -> Result<Vec<ReadRun>, StoreError> {
        let runs = self.dg.read(self.local, block, count(nblk)?).await.map_err(store_error)?;
        let run = |BlockRun { nblk, content }| match content {
            Content::Data { buf, .. } => ReadRun::Data(buf),
            Content::Zero => ReadRun::Zero(nblk),
            Content::Bad | Content::IoError => ReadRun::Bad(nblk),
        };
        Ok(runs.into_iter().map(run).collect())
    }

    async fn block_status(&self, block: u64, nblk: u64) -> Result<Vec<(u64, bool)>, StoreError> {
        self.dg.block_status(self.local, block, count(nblk)?).await.map_err(store_error)
    }

    fn unsettled(&self, oseq: u64) -> Vec<Unsettled> {
        let runs = self.dg.unstable(self.local, oseq).into_iter();
        runs.map(|run| Unsettled { block: run.block, nblk: run.nblk.into(), oseq: run.oseq, hole: run.hole })
            .collect()
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
        let found = self.found().ok_or(StoreError::Gone)?;
        self.dg.grow_component(self.local, blocks, found.csn, found.descriptor).await.map_err(store_error)
    }

    async fn delete(&self) -> Result<(), StoreError> {
        self.dg.delete_component(self.local).await.map_err(store_error)?;
        self.directory.remove(self.object, self.component);
        Ok(())
    }
}
