//! A component in memory with a log, destage, crashes and latencies; and the world of hosts that hold them.
//!
//! It follows the contract of [`Store`] and nothing more: what is appended is visible, what is flushed survives power loss, what
//! is stable and flushed leaves the log. A crash of kind kill keeps the log, power loss any prefix from the flushed part on.
use crate::fmt::descriptor::{Csn, Leg, Node, ObjectDescriptor};
use crate::io::{Env, IoBuf};
use crate::obj::quorum::revote;
use crate::obj::store::{Append, Change, Members, ReadRun, Store, StoreError, StoreStatus, Unsettled};
use crate::obj::{Boot, Config, ObjError, ObjectEvent, Owner};
use model::ids::{ComponentId, DiskGroupId, DiskId, HostId, ObjectId};
use model::policy::Policy;
use model::state::ComponentState;
use model::units::{BLOCK_BYTES, Timestamp};
use model::view::ObjectType;
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;
use std::time::Duration;

pub const BLOCK: usize = BLOCK_BYTES as usize;

#[derive(Clone)]
struct Rec {
    block: u64,
    oseq: u64,
    data: Option<IoBuf>,
    /// Place in the log, from 1.
    place: u64,
}

/// How long requests of one component take.
#[derive(Clone, Copy, Default)]
pub struct Latency {
    pub append: Duration,
    pub read: Duration,
    pub flush: Duration,
    pub commit: Duration,
    /// Up to so much more, at random.
    pub jitter: Duration,
}

#[derive(Default)]
pub struct Part {
    pub host: usize,
    life: Cell<u64>,
    up: Cell<bool>,
    log: RefCell<Vec<Rec>>,
    appended: Cell<u64>,
    durable: Cell<u64>,
    cap: RefCell<BTreeMap<u64, Rec>>,
    pending: RefCell<BTreeMap<u64, Vec<Rec>>>,
    next_pending: Cell<u64>,
    csn: Cell<Csn>,
    pub descriptor: RefCell<Rc<[u8]>>,
    stable: Cell<u64>,
    stable_durable: Cell<u64>,
    pub latency: Cell<Latency>,
    pub damaged: Cell<bool>,
    pub bad: RefCell<BTreeSet<u64>>,
    pub room: Cell<u64>,
    /// Requests fail as a broken disk.
    pub broken: Cell<bool>,
}

/// How a host goes down.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Crash {
    Kill,
    Power,
}

impl Part {
    fn newest(&self, block: u64) -> Option<Rec> {
        let capped = self.cap.borrow().get(&block).cloned();
        let log = self.log.borrow();
        let logged = log.iter().filter(|rec| rec.block == block).max_by_key(|rec| rec.oseq).cloned();
        capped.into_iter().chain(logged).max_by_key(|rec| rec.oseq)
    }

    fn written(&self) -> BTreeMap<u64, u64> {
        let mut newest: BTreeMap<u64, u64> =
            self.cap.borrow().iter().map(|(block, rec)| (*block, rec.oseq)).collect();
        for rec in self.log.borrow().iter() {
            let entry = newest.entry(rec.block).or_default();
            *entry = rec.oseq.max(*entry);
        }
        newest
    }

    fn destage(&self) {
        let (stable, durable) = (self.stable.get(), self.durable.get());
        let (ready, kept) =
            self.log.take().into_iter().partition(|rec| rec.place <= durable && rec.oseq <= stable);
        *self.log.borrow_mut() = kept;
        let ready: Vec<Rec> = ready;
        for rec in ready {
            let cap = &mut *self.cap.borrow_mut();
            if cap.get(&rec.block).is_none_or(|old| old.oseq <= rec.oseq) {
                cap.insert(rec.block, rec);
            }
        }
    }

    fn push(&self, mut rec: Rec) {
        self.appended.set(self.appended.get() + 1);
        rec.place = self.appended.get();
        self.log.borrow_mut().push(rec);
    }

    fn crash(&self, kind: Crash, env: &Env) {
        self.life.set(self.life.get() + 1);
        self.up.set(false);
        for (_, records) in self.pending.take() {
            if env.chance(1, 2) {
                records.into_iter().for_each(|rec| self.push(rec));
            }
        }
        if kind == Crash::Power {
            let kept = self.durable.get() + env.below(self.appended.get() - self.durable.get() + 1);
            self.log.borrow_mut().retain(|rec| rec.place <= kept);
            self.stable.set(self.stable_durable.get());
        }
        // Recovery of a group ends with a flush of its log.
        self.durable.set(self.appended.get());
    }

    /// What is under way never lands.
    pub fn forget_pending(&self) {
        self.pending.take();
    }

    /// Value of a block as the tests write it: its first eight bytes.
    pub fn value(&self, block: u64) -> u64 {
        let data = self.newest(block).and_then(|rec| rec.data);
        data.map_or(0, |data| u64::from_le_bytes(data[..8].try_into().expect("eight bytes")))
    }

    /// All bytes of a block.
    pub fn bytes(&self, block: u64) -> Vec<u8> {
        self.newest(block).and_then(|rec| rec.data).map_or(vec![0; BLOCK], |data| data.to_vec())
    }

    /// Its descriptor.
    pub fn held(&self) -> ObjectDescriptor {
        ObjectDescriptor::from_bytes(&self.descriptor.borrow()).expect("a test wrote it")
    }
}

/// Handle of a component in one life of its host.
#[derive(Clone)]
pub struct MemStore {
    part: Rc<Part>,
    life: u64,
    world: Rc<World>,
    component: ComponentId,
}

pub struct Room(Rc<Part>, u64);

impl Drop for Room {
    fn drop(&mut self) {
        self.0.room.set(self.0.room.get() + self.1);
    }
}

impl MemStore {
    fn check(&self) -> Result<(), StoreError> {
        if self.part.broken.get() {
            return Err(StoreError::Failed);
        }
        if self.part.life.get() == self.life && self.part.up.get() { Ok(()) } else { Err(StoreError::Gone) }
    }

    async fn wait(&self, pick: impl Fn(Latency) -> Duration) -> Result<(), StoreError> {
        self.check()?;
        let latency = self.part.latency.get();
        let jitter = Duration::from_micros(self.world.env.below(latency.jitter.as_micros() as u64 + 1));
        tokio::time::sleep(pick(latency) + jitter).await;
        self.check()
    }
}

impl Store for MemStore {
    type Room = Room;
    type LogRoom = ();

    fn is_silent(&self, _: Duration) -> bool {
        false
    }

    fn status(&self) -> StoreStatus {
        StoreStatus {
            csn: self.part.csn.get(),
            descriptor: self.part.descriptor.borrow().clone(),
            stable_oseq: self.part.stable.get(),
            damaged: self.part.damaged.get(),
            applied_oseq: 0,
        }
    }

    fn admit(&self, _: u64, nblk: u64) -> Result<Room, StoreError> {
        self.check()?;
        let left = self.part.room.get().checked_sub(nblk).ok_or(StoreError::NoSpace)?;
        self.part.room.set(left);
        Ok(Room(self.part.clone(), nblk))
    }

    async fn make_room(&self) -> Result<(), StoreError> {
        self.check()
    }

    fn log(&self) -> DiskGroupId {
        DiskGroupId::from_random([self.part.host as u8; 16])
    }

    fn log_bytes(&self, _: u64, _: bool) -> u64 {
        0
    }

    fn log_room_now(&self, _: u64) -> Option<()> {
        Some(())
    }

    async fn log_room(&self, _: u64) -> Result<(), StoreError> {
        self.check()
    }

    async fn append(&self, append: Append<Room>) -> Result<(), StoreError> {
        assert_eq!(append.bufs.is_empty(), append.crcs.is_empty());
        let bytes: Vec<u8> = append.bufs.iter().flat_map(|buf| buf.to_vec()).collect();
        let record = |index: u64| {
            let data = (!bytes.is_empty()).then(|| {
                let at = index as usize * BLOCK;
                IoBuf::copy_of(&bytes[at..at + BLOCK])
            });
            assert!(append.change != Change::Data || data.is_some());
            Rec { block: append.block + index, oseq: append.oseq, data, place: 0 }
        };
        let records: Vec<_> = (0..append.nblk).map(record).collect();
        self.check()?;
        let ticket = self.part.next_pending.get();
        self.part.next_pending.set(ticket + 1);
        self.part.pending.borrow_mut().insert(ticket, records);
        let waited = self.wait(|latency| latency.append).await;
        let records = self.part.pending.borrow_mut().remove(&ticket);
        waited?;
        for rec in records.unwrap_or_default() {
            if rec.data.is_some() && self.part.newest(rec.block).is_none_or(|old| old.data.is_none()) {
                self.part.room.set(self.part.room.get().saturating_sub(1));
            }
            self.part.bad.borrow_mut().remove(&rec.block);
            self.part.push(rec);
        }
        Ok(())
    }

    async fn flush(&self) -> Result<(), StoreError> {
        self.check()?;
        let upto = self.part.appended.get();
        let stable = self.part.stable.get();
        self.wait(|latency| latency.flush).await?;
        self.part.durable.set(self.part.durable.get().max(upto));
        self.part.stable_durable.set(self.part.stable_durable.get().max(stable));
        Ok(())
    }

    async fn flush_wanted(&self) {
        std::future::pending().await
    }

    fn set_stable(&self, oseq: u64) {
        if self.check().is_ok() {
            self.part.stable.set(self.part.stable.get().max(oseq));
            self.part.destage();
        }
    }

    async fn read(&self, block: u64, nblk: u64) -> Result<Vec<ReadRun>, StoreError> {
        // What is there when the request comes; the answer takes its time.
        let run = |block| match self.part.newest(block).and_then(|rec| rec.data) {
            _ if self.part.bad.borrow().contains(&block) => ReadRun::Bad(1),
            Some(data) => ReadRun::Data(data),
            None => ReadRun::Zero(1),
        };
        let runs = (block..block + nblk).map(run).collect();
        self.wait(|latency| latency.read).await?;
        Ok(runs)
    }

    async fn block_status(&self, block: u64, nblk: u64) -> Result<Vec<(u64, bool)>, StoreError> {
        self.check()?;
        let allocated = |block| self.part.newest(block).is_some_and(|rec| rec.data.is_some());
        Ok((block..block + nblk).map(|block| (1, allocated(block))).collect())
    }

    fn unsettled(&self, oseq: u64) -> Vec<Unsettled> {
        let blocks: BTreeSet<u64> = self.part.log.borrow().iter().map(|rec| rec.block).collect();
        let newest = blocks.into_iter().filter_map(|block| self.part.newest(block));
        newest
            .filter(|rec| rec.oseq > oseq)
            .map(|rec| Unsettled { block: rec.block, nblk: 1, oseq: rec.oseq, hole: rec.data.is_none() })
            .collect()
    }

    fn changed_since(&self, oseq: u64) -> Vec<u64> {
        let changed = self.part.written().into_iter().filter(|(_, newest)| *newest > oseq);
        changed.map(|(block, _)| block / 16).collect::<BTreeSet<_>>().into_iter().collect()
    }

    fn max_oseq(&self) -> u64 {
        self.part.written().into_values().max().unwrap_or(0)
    }

    async fn commit_descriptor(&self, csn: Csn, bytes: Rc<[u8]>) -> Result<(), StoreError> {
        self.wait(|latency| latency.commit).await?;
        if csn >= self.part.csn.get() {
            self.part.csn.set(csn);
            *self.part.descriptor.borrow_mut() = bytes;
        }
        Ok(())
    }

    async fn resize(&self, _: u64) -> Result<(), StoreError> {
        self.check()
    }

    async fn delete(&self) -> Result<(), StoreError> {
        self.check()?;
        self.world.parts.borrow_mut().remove(&self.component);
        Ok(())
    }
}

/// Hosts, each with components.
pub struct World {
    pub env: Env,
    pub object: ObjectId,
    pub parts: RefCell<BTreeMap<ComponentId, Rc<Part>>>,
    pub epoch: Cell<u64>,
    pub events: RefCell<Vec<ObjectEvent>>,
    pub config: Cell<Config>,
}

pub fn component(n: usize) -> ComponentId {
    ComponentId::from_random([n as u8 + 1; 16])
}

fn host(n: usize) -> HostId {
    HostId::from_random([n as u8 + 1; 16])
}

pub fn leg(n: usize, size_bytes: u64) -> Leg {
    Leg {
        component: component(n),
        host: host(n),
        fault_domain: format!("h{}", n + 1),
        site: None,
        disk_group: DiskGroupId::from_random([9; 16]),
        disk: DiskId::from_random([n as u8; 16]),
        size_bytes,
        votes: 1,
        state: ComponentState::Active,
        state_since: Timestamp(0),
        stale_from: None,
        absent_since: None,
        cursor: None,
        lost: Vec::new(),
        unknown: BTreeMap::new(),
    }
}

pub fn mirror(hosts: std::ops::Range<usize>, size_bytes: u64) -> Node {
    Node::Mirror(hosts.map(|n| Node::Leaf(Box::new(leg(n, size_bytes)))).collect())
}

impl World {
    /// Host `n` holds component `n`: the legs of `layout`, then `witnesses` more.
    pub fn new(seed: u64, layout: Node, size_bytes: u64, witnesses: usize) -> Rc<Self> {
        let legs = layout.legs().len();
        let mut descriptor = ObjectDescriptor {
            uuid: ObjectId::from_random([7; 16]),
            name: "v1".into(),
            object_type: ObjectType::Volume,
            size_bytes,
            created_at: Timestamp(0),
            csn: (0, 1),
            layout,
            witnesses: (legs..legs + witnesses).map(|n| leg(n, 0)).collect(),
            policy: Policy::built_in(),
            owner_epoch: 0,
            tombstone: None,
            unknown: BTreeMap::new(),
        };
        revote(&mut descriptor);
        let world = Rc::new(Self {
            env: Env::seeded(seed, Timestamp(1)),
            object: descriptor.uuid,
            parts: RefCell::default(),
            epoch: Cell::new(0),
            events: RefCell::default(),
            config: Cell::new(Config { device_timeout: Duration::from_secs(10), ..Config::default() }),
        });
        (0..legs + witnesses).for_each(|n| world.add_part(n, &descriptor));
        world
    }

    pub fn add_part(&self, n: usize, descriptor: &ObjectDescriptor) {
        let part = Part { host: n, ..Part::default() };
        part.up.set(true);
        part.room.set(1 << 40);
        part.csn.set(descriptor.csn);
        *part.descriptor.borrow_mut() = descriptor.to_bytes().into();
        self.parts.borrow_mut().insert(component(n), Rc::new(part));
    }

    pub fn part(&self, n: usize) -> Rc<Part> {
        self.parts.borrow()[&component(n)].clone()
    }

    pub fn is_up(&self, n: usize) -> bool {
        self.parts.borrow().get(&component(n)).is_some_and(|part| part.up.get())
    }

    pub fn down(&self, n: usize, kind: Crash) {
        self.part(n).crash(kind, &self.env);
    }

    pub fn up(&self, n: usize) {
        self.part(n).up.set(true);
    }

    /// Everything goes down at once; all come up but those in `away`.
    pub fn crash_all(&self, kind: Crash, away: &[usize]) {
        let parts = self.parts.borrow().clone();
        for part in parts.values() {
            part.crash(kind, &self.env);
            part.up.set(!away.contains(&part.host));
        }
    }

    pub async fn open(self: &Rc<Self>) -> Result<Owner<MemStore>, ObjError> {
        self.epoch.set(self.epoch.get() + 1);
        let world = self.clone();
        let observer = Rc::new(move |_, event| world.events.borrow_mut().push(event));
        let boot = Boot::new(self.epoch.get());
        let members = Rc::new(Directory(self.clone()));
        Owner::open(self.object, members, boot, self.env.clone(), self.config.get(), observer).await
    }
}

pub struct Directory(pub Rc<World>);

impl Members<MemStore> for Directory {
    fn components(&self, _: ObjectId) -> Vec<(ComponentId, MemStore)> {
        let parts = self.0.parts.borrow();
        let up = parts.iter().filter(|(_, part)| part.up.get());
        let store = |(component, part): (&ComponentId, &Rc<Part>)| {
            let store = MemStore {
                part: part.clone(),
                life: part.life.get(),
                world: self.0.clone(),
                component: *component,
            };
            (*component, store)
        };
        up.map(store).collect()
    }

    fn host_name(&self, id: HostId) -> String {
        (0..16).find(|n| host(*n) == id).map_or("?".into(), |n| format!("h{}", n + 1))
    }
}

/// A block of a value.
pub fn block_of(value: u64) -> Vec<u8> {
    value.to_le_bytes().repeat(BLOCK / 8)
}

/// Runs a scenario in virtual time.
pub fn run<T>(scenario: impl AsyncFnOnce() -> T) -> T {
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("runtime");
    tokio::task::LocalSet::new().block_on(&runtime, scenario())
}
