//! Opening a cluster: find its disks, agree on the configuration, raise the epoch, open groups and objects.
//!
//! Invariants: nothing is written before more than half of the listed disks are there; the boot epoch is flushed on every reachable
//! disk before anything is appended in this life; a disk of a host without power is not touched.
use super::assemble::{Assembly, assemble};
use super::core::{ClusterCore, DisksTurn, RunDisk, RunHost, RunObject, Settings};
use super::find;
use super::hint::{self, HintError, HintedDisk};
use super::source::{DiskSource, Looked, PathError, look};
use crate::cap::label::Label;
use crate::dg::{Dg, DgParts};
use crate::fmt::config::ConfigDisk;
use crate::fmt::descriptor::ObjectDescriptor;
use crate::io::Env;
use crate::obj::{Boot, ObjError, Owner, purge, store::Members, store::Store};
use futures_util::stream::{self, StreamExt};
use model::ids::{DiskGroupId, DiskId, HostId, ObjectId};
use model::state::{ClusterState, DiskRole, Severity};
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;
use std::rc::Rc;

/// Objects opened at one time.
const OPEN_AT_ONCE: usize = 64;

/// Why a cluster could not be started; `Display` says what to do. Nothing was written, but for `Epoch`.
#[derive(Debug, thiserror::Error)]
pub enum StartError {
    /// The list of disks cannot be read.
    #[error("{0}")]
    Hint(HintError),
    /// A disk is used by another process.
    #[error("{0}")]
    InUse(PathError),
    /// None of the listed disks carries a cluster.
    #[error("none of the {count} disks that {} lists can be used: {first}; put them back, or import them into a new folder", folder.display())]
    NoDisks {
        /// The data folder.
        folder: PathBuf,
        /// Disks in the list.
        count: usize,
        /// What is wrong with the first.
        first: String,
    },
    /// Disks of several clusters.
    #[error("the disks belong to {0} clusters; import one of them into a new folder")]
    Mixed(usize),
    /// No disk took the new epoch.
    #[error("no disk could be written: {0}")]
    Epoch(String),
    /// The kernel gave no ring.
    #[error("failed to set up io_uring; allow it for this process (kernel.io_uring_disabled, seccomp)")]
    Ring(#[source] std::io::Error),
    /// The folder is used by another process, or cannot be.
    #[error("{0}")]
    Folder(String),
    /// The NBD socket cannot be made.
    #[error("{0}")]
    Nbd(crate::nbd::listener::ListenError),
}

impl<D: DiskSource + 'static> ClusterCore<D> {
    /// Opens the cluster of the data folder, or an engine without one when the folder lists no disks.
    ///
    /// # Errors
    /// `StartError`. A cluster of which too many disks are missing is no error: it is there, unavailable, with the reason.
    pub async fn start(source: D, env: Env, settings: Settings) -> Result<Rc<Self>, StartError> {
        let listed = hint::load(&settings.data_dir).map_err(StartError::Hint)?;
        let core = Self::unconfigured(source, env, settings);
        if let Some(listed) = listed.filter(|listed| !listed.is_empty()) {
            core.open_listed(&listed).await?;
        }
        if core.settings.looks_after {
            core.spawn_care();
        }
        Ok(core)
    }

    pub(super) async fn open_listed(&self, listed: &[HintedDisk]) -> Result<(), StartError> {
        let paths = find::resolve(&self.source, listed).await;
        let mut looked = look(&self.source, &paths, true, self.settings.lock_wait).await;
        if let Some(index) = looked.refused.iter().position(|(_, error)| error.in_use()) {
            return Err(StartError::InUse(looked.refused.swap_remove(index).1));
        }
        for (path, error) in &looked.refused {
            self.board.event(
                Severity::Warning,
                "disk-unusable",
                format!("path:{}", path.display()),
                error.to_string(),
            );
        }
        let mut found = assemble(std::mem::take(&mut looked.seen));
        if found.len() > 1 {
            return Err(StartError::Mixed(found.len()));
        }
        let Some(assembly) = found.pop() else {
            let folder = self.settings.data_dir.clone();
            let first = looked
                .refused
                .first()
                .map_or_else(|| "they hold no cluster".into(), |(_, error)| error.to_string());
            return Err(StartError::NoDisks { folder, count: listed.len(), first });
        };
        for finding in &assembly.findings {
            self.board.event(Severity::Warning, "disk-finding", "cluster".into(), finding.to_string());
        }
        self.take_over(&assembly, listed, looked).await
    }

    /// Enters what was found, and opens it when it may be.
    async fn take_over(
        &self,
        assembly: &Assembly,
        listed: &[HintedDisk],
        mut looked: Looked,
    ) -> Result<(), StartError> {
        let now = self.env.wall();
        let turn = self.disks_turn.lock().await;
        {
            let mut state = self.state.borrow_mut();
            for disk in &assembly.config.disks {
                let seen = assembly.disks.get(&disk.id);
                let hinted =
                    listed.iter().find(|hinted| hinted.id == disk.id).map(|hinted| hinted.path.clone());
                let path = seen.map(|seen| seen.path.clone()).or(hinted).unwrap_or_default();
                let open = looked.disks.remove(&path).filter(|_| seen.is_some());
                state.disks.insert(disk.id, RunDisk { path, disk: open, label: None });
            }
            for host in &assembly.config.hosts {
                let up = !state.faults.host(&host.name).off;
                state.hosts.insert(host.id, RunHost { up, reachable: true, since: now });
            }
            state.tried_sequence = 0;
            state.config = Some(assembly.config.clone());
            if let Some(reason) = assembly.refusal() {
                (state.life, state.reason) = (ClusterState::Unavailable, Some(reason));
                return Ok(());
            }
        }
        self.name_hosts();
        self.apply_disk_faults();
        let epoch = assembly.epoch_max + 1;
        self.load_labels(&|_| true, epoch).await?;
        self.state.borrow_mut().boot = Boot::new(epoch.into());
        self.update_partition();
        self.open_groups(&turn, None).await;
        self.open_objects(self.directory.objects()).await;
        // Only now: whoever hears that it is ready sees all its volumes.
        self.state.borrow_mut().life = ClusterState::Ready;
        if let Err(error) = self.store_hint() {
            tracing::warn!(%error, "the list of disks could not be renewed");
        }
        // The votes of the objects may give the side to others than the number of hosts did.
        self.settle_partition().await;
        if let Some(seconds) = self.settings.repair_delay_seconds
            && let Err(error) = self.change_config(|config| config.repair_delay_seconds = seconds).await
        {
            tracing::warn!(%error, "the repair delay could not be stored");
        }
        self.changed(None);
        Ok(())
    }

    pub(super) fn name_hosts(&self) {
        let names = self.config_hosts().into_iter().map(|host| (host.id, host.name)).collect();
        self.directory.set_host_names(names);
    }

    /// Loads the labels of the disks that are wanted, of hosts that are up, and raises their epoch. One that another life used
    /// since is left as it is: what that life wrote has numbers above ours.
    pub(super) async fn load_labels(
        &self,
        wanted: &dyn Fn(&ConfigDisk) -> bool,
        epoch: u32,
    ) -> Result<(), StartError> {
        let wanted: Vec<(ConfigDisk, crate::io::Disk)> = {
            let state = self.state.borrow();
            let config = state.config.iter().flat_map(|config| &config.disks);
            let ours = config.filter(|disk| wanted(disk) && !state.given_up.contains(&disk.id));
            let up = ours.filter(|disk| state.hosts.get(&disk.host).is_some_and(|host| host.up));
            up.filter_map(|disk| Some((disk.clone(), state.disks.get(&disk.id)?.disk.clone()?))).collect()
        };
        let (mut raised, mut last_error) = (0, None);
        let total = wanted.len();
        for (entry, disk) in wanted {
            let raise = async {
                let label = Label::load(disk).await.map_err(|error| error.to_string())?;
                let (found, clean) = (label.superblock().epoch, label.superblock().clean);
                if found > epoch {
                    return Err(used_elsewhere(found, epoch));
                }
                if found < epoch || clean {
                    let raised =
                        label.update(|superblock| (superblock.epoch, superblock.clean) = (epoch, false));
                    raised.await.map_err(|error| error.to_string())?;
                }
                Ok::<_, String>(label)
            };
            match raise.await {
                Ok(label) => {
                    raised += 1;
                    if let Some(run) = self.state.borrow_mut().disks.get_mut(&entry.id) {
                        run.label = Some(label);
                    }
                }
                Err(error) => {
                    let text = format!("{}: {error}", entry.name);
                    self.board.event(
                        Severity::Error,
                        "disk-failed",
                        format!("disk:{}", entry.id),
                        text.clone(),
                    );
                    last_error = Some(text);
                }
            }
        }
        match last_error {
            Some(error) if raised == 0 && total > 0 => Err(StartError::Epoch(error)),
            _ => Ok(()),
        }
    }

    /// Opens the groups of a host (of all hosts when `None`) whose log disk has a label; answers which.
    pub(super) async fn open_groups(
        &self,
        _turn: &DisksTurn<'_>,
        only: Option<HostId>,
    ) -> BTreeSet<DiskGroupId> {
        let epoch = u32::try_from(self.boot().epoch()).unwrap_or(u32::MAX);
        let parts = self.group_parts(only, epoch);
        let opened = parts.into_iter().map(async |(host, parts)| {
            let group = parts.group;
            (host, group, Dg::open(parts, self.settings.groups).await)
        });
        let mut open = BTreeSet::new();
        for (host, group, result) in futures_util::future::join_all(opened).await {
            match result {
                Ok(dg) => {
                    self.directory.insert_group(dg, host);
                    open.insert(group);
                }
                Err(error) => {
                    let text = format!("disk group {group} cannot be opened: {error}");
                    self.board.event(
                        Severity::Error,
                        "disk-group-failed",
                        format!("disk-group:{group}"),
                        text,
                    );
                }
            }
        }
        open
    }

    fn group_parts(&self, only: Option<HostId>, epoch: u32) -> Vec<(HostId, DgParts)> {
        let state = self.state.borrow();
        let Some(config) = &state.config else { return Vec::new() };
        let label = |disk: DiskId| state.disks.get(&disk).and_then(|run| run.label.clone());
        let mut parts: BTreeMap<DiskGroupId, (HostId, DgParts)> = BTreeMap::new();
        for disk in config.disks.iter().filter(|disk| only.is_none_or(|host| disk.host == host)) {
            if disk.role == DiskRole::Cache {
                continue;
            }
            let Some(cap) = label(disk.id) else { continue };
            let known = cap.superblock().groups.first().cloned();
            let Some((group, log)) = known.and_then(|known| Some((known.group, label(known.log_disk)?)))
            else {
                continue;
            };
            let new = || (disk.host, DgParts { group, log, caps: Vec::new(), epoch });
            if self.directory.group(group).is_none() {
                parts.entry(group).or_insert_with(new).1.caps.push(cap);
            }
        }
        parts.into_values().collect()
    }

    /// Opens objects that are not open, or tells the open ones that components returned.
    pub(super) async fn open_objects(&self, objects: Vec<ObjectId>) {
        stream::iter(objects).for_each_concurrent(OPEN_AT_ONCE, |object| self.open_object(object)).await;
        self.changed(None);
    }

    async fn open_object(&self, object: ObjectId) {
        if let Some(owner) = self.owner(object) {
            let components: Vec<_> = self.directory.places(object).into_keys().collect();
            // What is still missing stands in the object's own reason.
            if owner.legs_returned(&components).await.is_ok() {
                self.remove_orphans(object, &owner.descriptor()).await;
            }
            self.with_object(object, |_| ());
            return;
        }
        let members = self.members();
        let newest = members
            .components(object)
            .into_iter()
            .filter_map(|(_, leg)| ObjectDescriptor::from_bytes(&leg.status().descriptor).ok())
            .max_by_key(|descriptor| descriptor.csn);
        let Some(newest) = newest else { return };
        let boot = self.boot();
        let (env, config) = (self.env.clone(), self.settings.objects);
        let opened = Owner::open(object, members.clone(), boot.clone(), env, config, self.observer()).await;
        match opened {
            Err(ObjError::Deleted) => self.purge_object(object).await,
            result => {
                let mut state = self.state.borrow_mut();
                let entry =
                    state.objects.entry(object).or_insert_with(|| RunObject::new(Rc::new(newest.clone())));
                entry.dirty = true;
                match result {
                    Ok(owner) => {
                        entry.seen = owner.descriptor();
                        (entry.owner, entry.why) = (Some(owner), None);
                    }
                    Err(error) => {
                        if newest.csn >= entry.seen.csn {
                            entry.seen = Rc::new(newest);
                        }
                        entry.why = Some(error.to_string());
                    }
                }
            }
        }
    }

    /// Removes components that returned and that the descriptor in force, which is newer than theirs, does not name.
    pub(super) async fn remove_orphans(&self, object: ObjectId, descriptor: &ObjectDescriptor) {
        for component in self.directory.places(object).into_keys() {
            let Some(leg) = self.directory.leg(object, component) else { continue };
            let status = leg.status();
            if descriptor.leg(component).is_none() && status.csn < descriptor.csn {
                // What cannot be removed now is tried again when it returns the next time.
                let _ = leg.delete().await;
            }
        }
    }

    /// Removes what is left of a deleted object.
    pub(super) async fn purge_object(&self, object: ObjectId) {
        let places = self.directory.places(object);
        // With every disk of the cluster in use, a component that is on none of them lay on one that was taken out: it can never
        // return. Otherwise nothing is known of it.
        let config = self.state.borrow().config.clone();
        let whole = config.is_some_and(|config| config.disks.iter().all(|disk| self.works(disk)));
        let gone = |component| whole && !places.contains_key(&component);
        let csn = self.boot().next_csn();
        purge(object, &*self.members(), csn, gone).await;
        self.state.borrow_mut().objects.remove(&object);
    }

    /// Writes the list of disks into the data folder.
    pub(super) fn store_hint(&self) -> Result<(), HintError> {
        let state = self.state.borrow();
        let Some(config) = &state.config else { return Ok(()) };
        let hinted = |disk: &ConfigDisk| HintedDisk {
            id: disk.id,
            name: disk.name.clone(),
            path: state.disks.get(&disk.id).map(|run| run.path.clone()).unwrap_or_default(),
        };
        let disks: Vec<HintedDisk> = config.disks.iter().map(hinted).collect();
        drop(state);
        hint::store(&self.settings.data_dir, &disks)
    }
}

/// Why a disk that another life of the cluster used since may not be used.
pub(super) fn used_elsewhere(found: u32, ours: u32) -> String {
    format!(
        "it was used by another server meanwhile (its start {found}, ours is {ours}), so its contents are newer than what is known \
         here; stop this server and import the disks that were there"
    )
}
