//! A component in an open disk group, as an object sees it; and the directory that finds components by object.
//!
//! Invariants: the directory names exactly the components of groups that are open; a host that is cut off from the owner's side has
//! none, although its groups run on; what a group has deleted is out of the directory before the call returns.
use crate::dg::{Dg, LogRoom, Reservation};
use crate::fmt::LocalId;
use crate::fmt::descriptor::Csn;
use crate::obj::DgLeg;
use crate::obj::store::{Append, Members, ReadRun, Store, StoreError, StoreStatus, Unsettled};
use model::ids::{ComponentId, DiskGroupId, DiskId, HostId, ObjectId};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

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
        let (inner, directory) = (DgLeg::new(open.dg.clone(), place.local), Rc::clone(self));
        sound.then_some(Leg { inner, object, component, directory })
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

/// One reachable component: as its group gives it, but a deletion leaves the directory, too.
#[derive(Clone)]
pub struct Leg {
    inner: DgLeg,
    object: ObjectId,
    component: ComponentId,
    directory: Rc<Directory>,
}

impl Leg {
    /// Bytes allocated.
    pub fn used_bytes(&self) -> u64 {
        self.inner.dg().used_bytes(self.inner.local())
    }
}

impl Store for Leg {
    type Room = Reservation;
    type LogRoom = LogRoom;

    fn is_silent(&self, limit: Duration) -> bool {
        self.inner.is_silent(limit)
    }

    fn status(&self) -> StoreStatus {
        self.inner.status()
    }

    fn admit(&self, block: u64, nblk: u64) -> Result<Reservation, StoreError> {
        self.inner.admit(block, nblk)
    }

    async fn make_room(&self) -> Result<(), StoreError> {
        self.inner.make_room().await
    }

    fn log(&self) -> DiskGroupId {
        self.inner.log()
    }

    fn log_bytes(&self, nblk: u64, has_payload: bool) -> u64 {
        self.inner.log_bytes(nblk, has_payload)
    }

    fn log_room_now(&self, bytes: u64) -> Option<LogRoom> {
        self.inner.log_room_now(bytes)
    }

    async fn log_room(&self, bytes: u64) -> Result<LogRoom, StoreError> {
        self.inner.log_room(bytes).await
    }

    async fn append(&self, append: Append<Reservation>) -> Result<(), StoreError> {
        self.inner.append(append).await
    }

    async fn flush(&self) -> Result<(), StoreError> {
        self.inner.flush().await
    }

    async fn flush_wanted(&self) {
        self.inner.flush_wanted().await;
    }

    fn set_stable(&self, oseq: u64) {
        self.inner.set_stable(oseq);
    }

    async fn read(&self, block: u64, nblk: u64) -> Result<Vec<ReadRun>, StoreError> {
        self.inner.read(block, nblk).await
    }

    async fn block_status(&self, block: u64, nblk: u64) -> Result<Vec<(u64, bool)>, StoreError> {
        self.inner.block_status(block, nblk).await
    }

    fn unsettled(&self, oseq: u64) -> Vec<Unsettled> {
        self.inner.unsettled(oseq)
    }

    fn changed_since(&self, oseq: u64) -> Vec<u64> {
        self.inner.changed_since(oseq)
    }

    fn max_oseq(&self) -> u64 {
        self.inner.max_oseq()
    }

    async fn commit_descriptor(&self, csn: Csn, bytes: Rc<[u8]>) -> Result<(), StoreError> {
        self.inner.commit_descriptor(csn, bytes).await
    }

    async fn resize(&self, blocks: u64) -> Result<(), StoreError> {
        self.inner.resize(blocks).await
    }

    async fn delete(&self) -> Result<(), StoreError> {
        self.inner.delete().await?;
        self.directory.remove(self.object, self.component);
        Ok(())
    }
}
