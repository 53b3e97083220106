//! The owner of one open object: what it holds, whether it can be served, and what it tells others.
use super::address::LayoutError;
use super::gate::Gate;
use super::quorum::{self, Candidate, Inaccessible, Loss};
use super::range::RangeLock;
use super::resync::Progress;
use super::route::{Member, MemberMap, Route};
use super::sequence::{Boot, Sequencer};
use super::store::{Members, Store};
use crate::fmt::descriptor::ObjectDescriptor;
use crate::io::Env;
use model::ids::{ComponentId, ObjectId};
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::{Mutex, Notify};
use tokio::time::Instant;

/// Why a request on an object failed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ObjError {
    /// The range does not lie in the object. Nothing was done.
    #[error("the range lies outside the object")]
    OutOfRange,
    /// No room on a leg. Nothing was written.
    #[error("no space left for new data")]
    NoSpace,
    /// The object cannot be served, and nobody came back in time. A write may have been stored in part.
    #[error("{0}")]
    Inaccessible(String),
    /// No good copy of this block is left; its neighbours are not affected.
    #[error("no good copy of block {0} is left")]
    Lost(u64),
    /// Every current copy of some writes lost power before they were flushed: they were acknowledged and are gone.
    #[error("writes that were not flushed are lost: every copy lost power")]
    UnflushedLost,
    /// The object is deleted.
    #[error("the object is deleted")]
    Deleted,
    /// The layout cannot be served. Nothing was done.
    #[error("the layout cannot be served")]
    Layout(#[from] LayoutError),
    /// The object has no such component, or not in a state for this. Nothing was done.
    #[error("{0}")]
    Refused(&'static str),
    /// A resync ended early: its source or its target went away. The target stays marked.
    #[error("the resync was aborted")]
    Aborted,
}

/// What an object tells.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum ObjectEvent {
    /// The descriptor changed: legs, states, marks, size.
    Changed,
    /// It cannot be served; why.
    AccessLost(String),
    /// It can be served again.
    AccessBack,
    /// A bad copy of a block was rewritten from a good one.
    Repaired {
        /// Component with the bad copy.
        component: ComponentId,
        /// First block in the component.
        block: u64,
        /// Blocks.
        nblk: u64,
    },
    /// No good copy of a block is left.
    BlockLost {
        /// Component that was read last.
        component: ComponentId,
        /// Block in the component.
        block: u64,
    },
    /// A resync began, ended well, or was aborted.
    ResyncStarted(ComponentId),
    /// The component is current.
    ResyncFinished(ComponentId),
    /// It ended early; the target stays marked.
    ResyncAborted(ComponentId),
}

/// Receives the events of an object.
pub type Observer = Rc<dyn Fn(ObjectId, ObjectEvent)>;

/// Times and amounts, the same for all objects.
#[derive(Clone, Copy, Debug)]
pub struct Config {
    /// How long a request waits for an object that cannot be served, before it fails.
    pub device_timeout: Duration,
    /// How long a component may take to store a descriptor before it counts as away.
    pub reply_timeout: Duration,
    /// At most so long after a write the object is flushed without being asked.
    pub auto_flush: Duration,
    /// Or after so many bytes.
    pub auto_flush_bytes: u64,
    /// Bytes of a resync between two cursors in the descriptor.
    pub cursor_bytes: u64,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            device_timeout: Duration::from_secs(30),
            reply_timeout: Duration::from_secs(5),
            auto_flush: Duration::from_secs(1),
            auto_flush_bytes: 64 << 20,
            cursor_bytes: 1 << 30,
        }
    }
}

/// Whether the object can be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Access {
    Open,
    /// Requests wait; recovery must run first.
    Blocked(Inaccessible),
    Deleted,
}

pub(super) struct Inner<S: Store> {
    pub id: ObjectId,
    pub members: Rc<dyn Members<S>>,
    pub boot: Rc<Boot>,
    pub env: Env,
    pub config: Config,
    pub observer: Observer,
    pub range: RangeLock,
    pub gate: Gate,
    pub seq: Sequencer,
    /// Held while a descriptor is made and committed.
    pub commits: Mutex<()>,
    pub running: RefCell<MemberMap<S>>,
    pub route: RefCell<Rc<Route<S>>>,
    pub access: RefCell<Access>,
    pub access_changed: Notify,
    /// Rises with every recovery: a resync that began before is over.
    pub recoveries: Cell<u64>,
    /// How often acknowledged writes were lost before their flush, and of how many a flush has told.
    pub losses: Cell<u64>,
    pub losses_told: Cell<u64>,
    pub dirty_bytes: Cell<u64>,
    pub auto_flush_armed: Cell<bool>,
    pub resyncs: RefCell<BTreeMap<ComponentId, Rc<Progress>>>,
    /// Resync runs so far, by target.
    pub runs: RefCell<BTreeMap<ComponentId, u32>>,
    pub repaired_blocks: Cell<u64>,
    pub read_turn: Cell<u32>,
}

/// The owner of one open object. A clone is another handle of the same.
pub struct Owner<S: Store>(pub(super) Rc<Inner<S>>);

impl<S: Store> Clone for Owner<S> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

/// Reachable components whose descriptor can be read; `trusted` says of which the damage is dealt with.
pub(super) fn candidates<S: Store>(
    found: &[(ComponentId, S)],
    trusted: impl Fn(ComponentId) -> bool,
) -> Vec<Candidate> {
    let candidate = |(component, store): &(ComponentId, S)| {
        let status = store.status();
        let descriptor = ObjectDescriptor::from_bytes(&status.descriptor).ok()?;
        Some(Candidate { component: *component, descriptor, damaged: status.damaged && !trusted(*component) })
    };
    found.iter().filter_map(candidate).collect()
}

impl<S: Store> Owner<S> {
    /// Opens an object: finds the descriptor in force, commits it again in this boot epoch, makes the current legs equal above
    /// the stable sequence, and serves. On an error nothing is served; open again when a host has returned.
    pub async fn open(
        id: ObjectId,
        members: Rc<dyn Members<S>>,
        boot: Rc<Boot>,
        env: Env,
        config: Config,
        observer: Observer,
    ) -> Result<Self, ObjError> {
        let found = members.components(id);
        let candidates = candidates(&found, |_| false);
        let winner = quorum::winner(&candidates);
        let winner = winner.map_err(|why| ObjError::Inaccessible(reason(&*members, &why)))?;
        if winner.tombstone.is_some() {
            return Err(ObjError::Deleted);
        }
        let mut running = MemberMap::new();
        let route = Rc::new(Route::new(Rc::new(winner.clone()), &mut running)?);
        let owner = Self(Rc::new(Inner {
            id,
            members,
            seq: Sequencer::new(boot.clone()),
            boot,
            env,
            config,
            observer,
            range: RangeLock::default(),
            gate: Gate::default(),
            commits: Mutex::default(),
            running: RefCell::new(running),
            route: RefCell::new(route),
            access: RefCell::new(Access::Blocked(Inaccessible::NoMajority { present: 0, total: 0 })),
            access_changed: Notify::new(),
            recoveries: Cell::default(),
            losses: Cell::default(),
            losses_told: Cell::default(),
            dirty_bytes: Cell::default(),
            auto_flush_armed: Cell::default(),
            resyncs: RefCell::default(),
            runs: RefCell::default(),
            repaired_blocks: Cell::default(),
            read_turn: Cell::default(),
        }));
        owner.recover().await?;
        Ok(owner)
    }

    /// Identity.
    pub fn id(&self) -> ObjectId {
        self.0.id
    }

    /// The descriptor in force.
    pub fn descriptor(&self) -> Rc<ObjectDescriptor> {
        self.0.route.borrow().descriptor.clone()
    }

    /// Size that a client sees, bytes.
    pub fn size_bytes(&self) -> u64 {
        self.0.route.borrow().descriptor.size_bytes
    }

    /// Why it cannot be served now; `None` when it can.
    pub fn inaccessible(&self) -> Option<String> {
        match &*self.0.access.borrow() {
            Access::Open => None,
            Access::Blocked(why) => Some(reason(&*self.0.members, why)),
            Access::Deleted => Some(ObjError::Deleted.to_string()),
        }
    }

    /// Everything up to this sequence is on stable media on every current leg.
    pub fn stable_oseq(&self) -> u64 {
        self.0.seq.stable()
    }

    /// Whether a component is reachable, as far as this object knows.
    pub fn is_reachable(&self, component: ComponentId) -> bool {
        self.member(component).is_some_and(|member| member.is_attached())
    }

    /// Blocks rewritten from a good copy since the object was opened.
    pub fn repaired_blocks(&self) -> u64 {
        self.0.repaired_blocks.get()
    }

    /// Blocks found bad on a component since the object was opened.
    pub fn bad_blocks(&self, component: ComponentId) -> u64 {
        self.member(component).map_or(0, |member| member.bad_blocks.get())
    }

    /// Progress of the resyncs at work, by target.
    pub fn resyncs(&self) -> Vec<(ComponentId, Rc<Progress>)> {
        self.0.resyncs.borrow().iter().map(|(component, progress)| (*component, progress.clone())).collect()
    }

    pub(super) fn member(&self, component: ComponentId) -> Option<Rc<Member<S>>> {
        self.0.running.borrow().get(&component).cloned()
    }

    pub(super) fn route(&self) -> Rc<Route<S>> {
        self.0.route.borrow().clone()
    }

    pub(super) fn tell(&self, event: ObjectEvent) {
        (self.0.observer)(self.0.id, event);
    }

    pub(super) fn is_open(&self) -> bool {
        *self.0.access.borrow() == Access::Open
    }

    /// From when on a request that starts now fails rather than waits.
    pub(super) fn deadline(&self) -> Instant {
        Instant::now() + self.0.config.device_timeout
    }

    /// Waits until the object can be served.
    pub(super) async fn wait_open(&self, deadline: Instant) -> Result<(), ObjError> {
        loop {
            let changed = self.0.access_changed.notified();
            match &*self.0.access.borrow() {
                Access::Open => return Ok(()),
                Access::Deleted => return Err(ObjError::Deleted),
                Access::Blocked(_) => {}
            }
            if tokio::time::timeout_at(deadline, changed).await.is_err() {
                return Err(ObjError::Inaccessible(self.inaccessible().unwrap_or_default()));
            }
        }
    }

    /// Waits until it cannot be served any more.
    pub(super) async fn until_blocked(&self) {
        loop {
            let changed = self.0.access_changed.notified();
            if !self.is_open() {
                return;
            }
            changed.await;
        }
    }

    pub(super) fn set_access(&self, access: Access) {
        let before = self.0.access.replace(access.clone());
        if before == access {
            return;
        }
        match &access {
            Access::Open => self.tell(ObjectEvent::AccessBack),
            Access::Blocked(why) => self.tell(ObjectEvent::AccessLost(reason(&*self.0.members, why))),
            Access::Deleted => self.tell(ObjectEvent::Changed),
        }
        self.0.access_changed.notify_waiters();
    }

    /// Gives a component up after it failed a request, or because its host went.
    pub(super) fn detach(&self, component: ComponentId, loss: Loss) {
        if let Some(member) = self.member(component) {
            member.detach(loss);
        }
    }
}

/// The sentence for people.
pub(super) fn reason<S>(members: &dyn Members<S>, why: &Inaccessible) -> String {
    match why {
        Inaccessible::NoMajority { present, total } => format!("no majority: {present} of {total} votes"),
        Inaccessible::NoCurrentLeg(hosts) if hosts.is_empty() => "data incomplete: no current copy".into(),
        Inaccessible::NoCurrentLeg(hosts) => {
            let names: Vec<_> = hosts.iter().map(|host| members.host_name(*host)).collect();
            let verb = if names.len() == 1 { "is" } else { "are" };
            format!("latest data is on {}, which {verb} absent", names.join(", "))
        }
    }
}
