//! The state of a running cluster, shared by everything on the engine thread.
//!
//! Invariants: no borrow of `state` is held across an await, nor while an object is asked to do something (it calls back); the
//! configuration changes only under `config_turn`, room is given out only under `place_turn`.
use super::board::Board;
use super::claim::Inspector;
use super::counters::VolumeCounters;
use super::faults::LabFaults;
use super::leg::{Directory, Leg, LegMembers};
use super::pace::ResyncPace;
use super::source::DiskSource;
use super::watch::Watch;
use crate::cap::label::Label;
use crate::dg::DgConfig;
use crate::fmt::config::{ClusterConfig, ConfigHost};
use crate::fmt::descriptor::ObjectDescriptor;
use crate::io::{Disk, Env};
use crate::obj::{self, Boot, ObjectEvent, Owner};
use model::engine::EngineError;
use model::ids::{ComponentId, DiskId, HostId, ObjectId};
use model::state::{ClusterState, Severity};
use model::units::Timestamp;
use model::view::{ObjectView, Snapshot};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::rc::{Rc, Weak};
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Mutex, Notify};

/// What a start decides once.
#[derive(Clone, Debug)]
pub struct Settings {
    /// The data folder.
    pub data_dir: PathBuf,
    /// How long to wait for the lock of a disk.
    pub lock_wait: Duration,
    /// Written to the cluster when given.
    pub repair_delay_seconds: Option<u32>,
    /// Where the NBD socket will be, for attach strings; `None` when none is served.
    pub nbd_socket: Option<PathBuf>,
    /// Times and amounts of objects.
    pub objects: obj::Config,
    /// Numbers of disk groups.
    pub groups: DgConfig,
    /// Whether repair runs; a check looks without moving anything.
    pub looks_after: bool,
    /// Knows foreign disks.
    pub inspector: Inspector,
}

impl Settings {
    /// The defaults for a data folder.
    pub fn new(data_dir: PathBuf) -> Self {
        Self {
            data_dir,
            lock_wait: crate::io::LOCK_WAIT,
            repair_delay_seconds: None,
            nbd_socket: None,
            objects: obj::Config::default(),
            groups: DgConfig::default(),
            looks_after: true,
            inspector: Inspector::default(),
        }
    }
}

/// One claimed disk.
#[derive(Default)]
pub(super) struct RunDisk {
    /// Absolute path last used.
    pub path: PathBuf,
    /// Open, also when its host has no power.
    pub disk: Option<Disk>,
    /// Its label while its host is up.
    pub label: Option<Label>,
}

/// One host.
#[derive(Clone, Copy)]
pub(super) struct RunHost {
    pub up: bool,
    /// The owner's side reaches it.
    pub reachable: bool,
    pub since: Timestamp,
}

/// One object, open or not.
pub(super) struct RunObject {
    pub owner: Option<Owner<Leg>>,
    /// The newest descriptor that was seen; the owner's own is newer.
    pub seen: Rc<ObjectDescriptor>,
    /// Why it could not be opened.
    pub why: Option<String>,
    pub view: Option<Arc<ObjectView>>,
    /// The view does not say all that is known.
    pub dirty: bool,
    pub repair_now: bool,
    /// Why no replacement could be placed, until something changes.
    pub stuck: Option<String>,
    /// Components that are being replaced, and those that replace them.
    pub replacing: BTreeSet<ComponentId>,
    /// Resyncs that were started and have not reported yet.
    pub starting: BTreeSet<ComponentId>,
    /// Components whose resync ended early a moment ago: not tried again before a rest.
    pub resting: BTreeSet<ComponentId>,
    /// A change of its layout is at work.
    pub reshaping: bool,
    /// The repair loop is adding what its layout lacks.
    pub completing: bool,
    pub counters: Rc<VolumeCounters>,
}

impl RunObject {
    pub fn new(seen: Rc<ObjectDescriptor>) -> Self {
        Self {
            owner: None,
            seen,
            why: None,
            view: None,
            dirty: true,
            repair_now: false,
            stuck: None,
            replacing: BTreeSet::new(),
            starting: BTreeSet::new(),
            resting: BTreeSet::new(),
            reshaping: false,
            completing: false,
            counters: Rc::default(),
        }
    }

    /// The descriptor in force, or the newest that was seen.
    pub fn descriptor(&self) -> Rc<ObjectDescriptor> {
        self.owner.as_ref().map_or_else(|| self.seen.clone(), Owner::descriptor)
    }
}

pub(super) struct State {
    pub life: ClusterState,
    /// Why it is unavailable.
    pub reason: Option<String>,
    pub config: Option<ClusterConfig>,
    /// Highest sequence of a configuration that was tried.
    pub tried_sequence: u64,
    pub boot: Rc<Boot>,
    pub disks: BTreeMap<DiskId, RunDisk>,
    pub hosts: BTreeMap<HostId, RunHost>,
    pub objects: BTreeMap<ObjectId, RunObject>,
    /// Names of volumes that are being made.
    pub names_taken: BTreeSet<String>,
    pub faults: LabFaults,
    /// Disks of replacements under way, the lost and the new ones.
    pub replacing: BTreeSet<DiskId>,
    /// Failed disks that a replacement under way closed: they are not opened again before it ends.
    pub given_up: BTreeSet<DiskId>,
    pub snapshot: Option<Arc<Snapshot>>,
    pub stopping: bool,
}

impl State {
    /// The policies of the configuration, in order of their names.
    pub fn policies_by_name(&self) -> Vec<model::policy::Policy> {
        let mut policies = self.config.as_ref().map(|config| config.policies.clone()).unwrap_or_default();
        policies.sort_by(|a, b| a.name.cmp(&b.name));
        policies
    }
}

/// The right to open and close disks and groups, see [`ClusterCore::disks_turn`].
pub(super) type DisksTurn<'a> = tokio::sync::MutexGuard<'a, ()>;

/// A running cluster. Shared as `Rc` on the engine thread.
pub struct ClusterCore<D> {
    pub(super) me: Weak<Self>,
    pub(super) env: Env,
    pub(super) board: Board,
    pub(super) source: D,
    pub(super) settings: Settings,
    pub(super) directory: Rc<Directory>,
    pub(super) state: RefCell<State>,
    /// Something changed that repair may act on.
    pub(super) care: Notify,
    pub(super) config_turn: Mutex<()>,
    pub(super) place_turn: Mutex<()>,
    /// Held while disks or groups are opened or closed, and while power or partitions change: a group that is opened twice would
    /// write its log twice, and a label that is loaded anew must not be written through the old one.
    pub(super) disks_turn: Mutex<()>,
    pub(super) pace: ResyncPace,
    pub(super) watch: RefCell<Watch>,
    /// What starts with the cluster, called once it is ready.
    pub(super) front: RefCell<Option<crate::nbd::Front<super::volumes::Volumes<D>>>>,
    pub(super) ticks: Cell<u64>,
    /// The lock of the data folder, held for as long as the core lives.
    pub(super) lock: RefCell<Option<crate::io::FileLock>>,
}

impl<D: DiskSource + 'static> ClusterCore<D> {
    /// A core without a cluster.
    pub(super) fn unconfigured(source: D, env: Env, settings: Settings) -> Rc<Self> {
        let state = State {
            life: ClusterState::Unconfigured,
            reason: None,
            config: None,
            tried_sequence: 0,
            boot: Boot::new(0),
            disks: BTreeMap::new(),
            hosts: BTreeMap::new(),
            objects: BTreeMap::new(),
            names_taken: BTreeSet::new(),
            faults: LabFaults::load(&settings.data_dir.join("lab")),
            replacing: BTreeSet::new(),
            given_up: BTreeSet::new(),
            snapshot: None,
            stopping: false,
        };
        Rc::new_cyclic(|me| Self {
            me: me.clone(),
            board: Board::new(env.clone()),
            env,
            source,
            settings,
            directory: Rc::default(),
            state: RefCell::new(state),
            care: Notify::new(),
            config_turn: Mutex::default(),
            place_turn: Mutex::default(),
            disks_turn: Mutex::default(),
            pace: ResyncPace::default(),
            watch: RefCell::default(),
            front: RefCell::default(),
            ticks: Cell::new(0),
            lock: RefCell::default(),
        })
    }

    /// Itself, to move into tasks.
    pub(super) fn rc(&self) -> Rc<Self> {
        self.me.upgrade().unwrap_or_else(|| unreachable!("called through its Rc"))
    }

    pub(super) fn members(&self) -> Rc<LegMembers> {
        Rc::new(LegMembers(self.directory.clone()))
    }

    pub(super) fn boot(&self) -> Rc<Boot> {
        self.state.borrow().boot.clone()
    }

    /// The configuration, when there is a cluster that may be changed.
    pub(super) fn ready(&self) -> Result<ClusterConfig, EngineError> {
        let state = self.state.borrow();
        if state.stopping {
            return Err(EngineError::Unavailable { detail: "it is stopping".into() });
        }
        match (state.life, &state.config) {
            (ClusterState::Ready, Some(config)) => Ok(config.clone()),
            (ClusterState::Unavailable, _) => {
                let reason = state.reason.clone().unwrap_or_default();
                Err(EngineError::Conflict { detail: format!("the cluster is read-only: {reason}") })
            }
            _ => Err(EngineError::Conflict { detail: "there is no cluster yet; make one first".into() }),
        }
    }

    /// Hosts of the configuration; empty without one.
    pub(super) fn config_hosts(&self) -> Vec<ConfigHost> {
        self.state.borrow().config.as_ref().map(|config| config.hosts.clone()).unwrap_or_default()
    }

    /// The object's owner, when it is open.
    pub(super) fn owner(&self, object: ObjectId) -> Option<Owner<Leg>> {
        self.state.borrow().objects.get(&object)?.owner.clone()
    }

    /// Runs `change` on an object and marks it as changed.
    pub(super) fn with_object<T>(
        &self,
        object: ObjectId,
        change: impl FnOnce(&mut RunObject) -> T,
    ) -> Option<T> {
        let mut state = self.state.borrow_mut();
        let found = state.objects.get_mut(&object)?;
        found.dirty = true;
        Some(change(found))
    }

    /// Marks objects (all when `None`) as changed and looks for repairs.
    pub(super) fn changed(&self, objects: Option<&BTreeSet<ObjectId>>) {
        {
            let mut state = self.state.borrow_mut();
            for (id, object) in &mut state.objects {
                object.dirty |= objects.is_none_or(|wanted| wanted.contains(id));
            }
        }
        self.board.touch();
        self.care.notify_one();
    }

    /// Room or hosts changed: what could not be placed may be placed now.
    pub(super) fn unstick(&self) {
        let mut state = self.state.borrow_mut();
        for object in state.objects.values_mut().filter(|object| object.stuck.is_some()) {
            object.stuck = None;
            object.dirty = true;
        }
        drop(state);
        self.care.notify_one();
    }

    pub(super) fn observer(&self) -> obj::Observer {
        let me = self.me.clone();
        Rc::new(move |object, event| {
            if let Some(core) = me.upgrade() {
                core.on_object(object, &event);
            }
        })
    }

    fn on_object(&self, object: ObjectId, event: &ObjectEvent) {
        let name = self.with_object(object, |found| {
            match event {
                ObjectEvent::ResyncFinished(component) | ObjectEvent::ResyncAborted(component) => {
                    found.starting.remove(component);
                }
                _ => {}
            }
            found.seen.name.clone()
        });
        let Some(name) = name else { return };
        let subject = format!("object:{object}");
        let say = |severity, kind, text| self.board.event(severity, kind, subject.clone(), text);
        match event {
            ObjectEvent::Changed => self.board.touch(),
            ObjectEvent::AccessLost(why) => {
                say(Severity::Error, "object-inaccessible", format!("{name} stopped: {why}"))
            }
            ObjectEvent::AccessBack => {
                say(Severity::Info, "object-accessible", format!("{name} can be read and written"))
            }
            ObjectEvent::Repaired { nblk, .. } => {
                say(
                    Severity::Warning,
                    "block-repaired",
                    format!("{name}: {nblk} bad blocks were rewritten from a good copy"),
                );
            }
            ObjectEvent::BlockLost { block, .. } => {
                say(Severity::Error, "block-lost", format!("{name}: no good copy of block {block} is left"));
            }
            ObjectEvent::ResyncStarted(_) => {
                say(Severity::Info, "resync-started", format!("{name}: a copy is being brought up to date"))
            }
            ObjectEvent::ResyncFinished(_) => {
                say(Severity::Info, "resync-finished", format!("{name}: the copy is up to date"))
            }
            ObjectEvent::ResyncAborted(_) => say(
                Severity::Warning,
                "resync-aborted",
                format!("{name}: a resync ended early and will start again"),
            ),
        }
        self.care.notify_one();
    }
}
