//! Disks that are pulled, and disks that return: a look once a second.
//!
//! A pulled device is let go, its components are absent (not failed: it is as it was when it comes back), and the devices of the machine
//! are watched for its superblock, wherever it turns up. It is taken back by opening its disk groups anew, as those of a host that
//! returns. Invariants: a disk is known by its superblock, read again through the handle that holds it; a disk that turns up twice is not
//! taken at all; one that another life of the cluster used since is not written; nothing is ever written to another disk that stands
//! in the place of a lost one.
use super::core::{ClusterCore, DisksTurn};
use super::find::{Candidate, Peek};
use super::open::used_elsewhere;
use super::source::DiskSource;
use crate::cap::label::scan;
use crate::fmt::superblock::Access;
use crate::io::Disk;
use futures_util::future::join_all;
use model::ids::{DiskGroupId, DiskId};
use model::state::Severity;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// Ticks of the care loop between two looks: one second.
const EVERY_TICKS: u64 = 4;
/// A reason is told of when it was found so often in a row: a device is held by others for a moment when it comes.
const REFUSED_TIMES: u32 = 5;

/// What the watch remembers between two looks.
#[derive(Default)]
pub(super) struct Watch {
    /// Devices that were looked at and carry none of our lost disks.
    known: BTreeSet<Candidate>,
    /// A look at devices is under way.
    searching: bool,
    /// Why disks that turned up are not used, and how often in a row that was found.
    refused: BTreeMap<DiskId, (String, u32)>,
}

impl<D: DiskSource + 'static> ClusterCore<D> {
    /// One look; searching goes on behind it.
    pub(super) fn watch_disks(&self) {
        if !self.ticks.get().is_multiple_of(EVERY_TICKS) {
            return;
        }
        for id in self.pulled_disks() {
            self.let_go(id);
        }
        let lost = self.lost_disks();
        if lost.is_empty() || self.watch.borrow().searching {
            return;
        }
        self.watch.borrow_mut().searching = true;
        let core = self.rc();
        tokio::task::spawn_local(async move {
            core.search(&lost).await;
            core.watch.borrow_mut().searching = false;
        });
    }

    fn pulled_disks(&self) -> Vec<DiskId> {
        let state = self.state.borrow();
        let open = state.disks.iter().filter_map(|(id, run)| Some((*id, run.disk.as_ref()?)));
        open.filter(|(_, disk)| disk.is_pulled()).map(|(id, _)| id).collect()
    }

    /// Listed disks that are not open, of hosts with power, with the path at which each was last.
    fn lost_disks(&self) -> BTreeMap<DiskId, PathBuf> {
        let state = self.state.borrow();
        let listed = state.config.iter().flat_map(|config| &config.disks);
        let up = listed.filter(|disk| state.hosts.get(&disk.host).is_some_and(|host| host.up));
        let closed = up.filter(|disk| !state.given_up.contains(&disk.id)).filter_map(|disk| {
            let run = state.disks.get(&disk.id);
            let path = run.map(|run| run.path.clone()).unwrap_or_default();
            run.is_none_or(|run| run.disk.is_none()).then_some((disk.id, path))
        });
        closed.collect()
    }

    /// Why a component on this disk of `host` is away.
    pub(super) fn absence(&self, id: DiskId, host: &str) -> String {
        let state = self.state.borrow();
        let listed = state.config.iter().flat_map(|config| &config.disks).find(|disk| disk.id == id);
        let connected = |host| state.hosts.get(&host).is_some_and(|run| run.up && run.reachable);
        let closed = state.disks.get(&id).is_none_or(|run| run.disk.is_none());
        match listed.filter(|disk| connected(disk.host) && closed) {
            Some(disk) => format!("disk {} of {host} is absent", disk.name),
            None => format!("{host} is absent"),
        }
    }

    fn name_of_disk(&self, id: DiskId) -> String {
        let state = self.state.borrow();
        let listed = state.config.iter().flat_map(|config| &config.disks).find(|disk| disk.id == id);
        listed.map_or_else(|| id.to_string(), |disk| disk.name.clone())
    }

    /// Lets a pulled disk go and tells its groups.
    fn let_go(&self, id: DiskId) {
        let path = {
            let mut state = self.state.borrow_mut();
            let Some(run) = state.disks.get_mut(&id) else { return };
            (run.disk, run.label) = (None, None);
            run.path.clone()
        };
        self.watch.borrow_mut().known.retain(|candidate| candidate.path != path);
        for (dg, _) in self.directory.groups() {
            dg.disk_pulled(id);
        }
        let name = self.name_of_disk(id);
        let text = format!(
            "disk {name} ({}) was pulled or lost its connection; plug it in again, or replace it",
            path.display()
        );
        self.board.event(Severity::Warning, "disk-absent", format!("disk:{id}"), text);
        self.changed(None);
    }

    /// Looks for lost disks among the devices that are new since the last look, and at the files where they were.
    async fn search(&self, lost: &BTreeMap<DiskId, PathBuf>) {
        let open: BTreeSet<PathBuf> = {
            let state = self.state.borrow();
            let open = state.disks.values().filter(|run| run.disk.is_some());
            open.map(|run| run.path.clone()).collect()
        };
        let listed = self.source.candidates();
        self.watch.borrow_mut().known.retain(|known| listed.contains(known));
        let mut places: BTreeMap<DiskId, BTreeSet<PathBuf>> = BTreeMap::new();
        let mut found = |id: DiskId, path: &Path| {
            if lost.contains_key(&id) {
                places.entry(id).or_default().insert(path.to_owned());
                return true;
            }
            false
        };
        let is_new = |candidate: &Candidate| {
            !open.contains(&candidate.path) && !self.watch.borrow().known.contains(candidate)
        };
        let looks = listed.into_iter().filter(is_new).map(async |candidate| {
            let peek = self.source.peek(&candidate.path).await;
            (candidate, peek)
        });
        // All at once: one that hangs holds up the others no longer than itself.
        for (candidate, peek) in join_all(looks).await {
            match peek {
                Peek::Ours(_, id) if found(id, &candidate.path) => {}
                Peek::Ours(..) | Peek::Other | Peek::Newer => {
                    self.watch.borrow_mut().known.insert(candidate);
                }
                // It may only be slow to come: looked at again.
                Peek::NotThere | Peek::Unreadable => {}
            }
        }
        for path in lost.values().filter(|path| path.is_file()) {
            if let Peek::Ours(_, id) = self.source.peek(path).await {
                found(id, path);
            }
        }
        for (id, paths) in places {
            let paths: Vec<PathBuf> = paths.into_iter().collect();
            match &paths[..] {
                [path] => self.take_back_disk(id, path).await,
                [first, second, ..] => self.tell_of_copy(id, first, second),
                [] => {}
            }
        }
    }

    fn tell_of_copy(&self, id: DiskId, first: &Path, second: &Path) {
        let (name, first, second) = (self.name_of_disk(id), first.display(), second.display());
        self.refuse(id, format!(
            "{first} and {second} both carry disk {name}: one is a copy; take away the one that was not used last"
        ));
    }

    /// Tells, once, why a disk that turned up is not used.
    fn refuse(&self, id: DiskId, why: String) {
        let times = {
            let mut watch = self.watch.borrow_mut();
            let known = watch.refused.entry(id).or_default();
            *known = if known.0 == why { (why.clone(), known.1.saturating_add(1)) } else { (why.clone(), 1) };
            known.1
        };
        if times == REFUSED_TIMES {
            self.board.event(Severity::Warning, "disk-finding", format!("disk:{id}"), why);
        }
    }

    /// Opens a disk that turned up, and what can be opened with it.
    async fn take_back_disk(&self, id: DiskId, path: &Path) {
        let turn = self.disks_turn.lock().await;
        // Meanwhile it may have been opened elsewhere, or taken out of the cluster.
        if !self.lost_disks().contains_key(&id) {
            return;
        }
        let disk = match self.open_known(id, path).await {
            Ok(disk) => disk,
            Err(why) => {
                let (name, path) = (self.name_of_disk(id), path.display());
                return self.refuse(id, format!("disk {name} is back ({path}) and is not used: {why}"));
            }
        };
        // Only now: a failed try must not stop the watch.
        {
            let mut state = self.state.borrow_mut();
            let run = state.disks.entry(id).or_default();
            (run.path, run.disk, run.label) = (path.to_owned(), Some(disk), None);
        }
        self.watch.borrow_mut().refused.remove(&id);
        self.apply_disk_faults();
        self.restart_groups_of(&turn, id).await;
        if let Err(error) = self.store_hint() {
            tracing::warn!(%error, "the list of disks could not be written");
        }
        let text = format!("disk {} is back ({})", self.name_of_disk(id), path.display());
        self.board.event(Severity::Info, "disk-returned", format!("disk:{id}"), text);
        self.unstick();
        self.changed(None);
    }

    /// Opens `path` exclusively when it is this disk of this cluster and may be written.
    async fn open_known(&self, id: DiskId, path: &Path) -> Result<Disk, String> {
        let cluster = self.ready().map_err(|error| error.to_string())?.id;
        let opened = self.source.open(path, true, Duration::ZERO).await;
        let disk = opened.map_err(|error| error.to_string())?;
        let found = scan(&disk).await.map_err(|error| error.to_string())?.superblock;
        if (found.cluster, found.disk) != (cluster, id) {
            return Err("it carries another disk".into());
        }
        let ours = u32::try_from(self.boot().epoch()).unwrap_or(u32::MAX);
        match found.access() {
            Access::ReadOnly(_) => Err("this version may not write it".into()),
            _ if found.epoch > ours => Err(used_elsewhere(found.epoch, ours)),
            _ => Ok(disk),
        }
    }

    /// Closes the groups that the disk belongs to and opens them again with it. Groups that share a disk go together.
    pub(super) async fn restart_groups_of(&self, turn: &DisksTurn<'_>, id: DiskId) {
        let (groups, disks) = self.sharing(id);
        let lost = self.directory.on(|place| groups.contains(&place.group));
        for group in &groups {
            if let Some(dg) = self.directory.remove_group(*group) {
                dg.kill();
            }
        }
        {
            // No configuration is being written through a label while it is loaded anew.
            let _turn = self.config_turn.lock().await;
            let open: Vec<Disk> = {
                let mut state = self.state.borrow_mut();
                let runs = state.disks.iter_mut().filter(|(id, _)| disks.contains(*id));
                runs.filter_map(|(_, run)| {
                    run.label = None;
                    run.disk.clone()
                })
                .collect()
            };
            open.iter().for_each(|disk| disk.faults().power_off());
            self.tell_gone(lost).await;
            for disk in &open {
                disk.quiesce().await;
                disk.faults().power_on();
            }
            let epoch = u32::try_from(self.boot().epoch()).unwrap_or(u32::MAX);
            if let Err(error) = self.load_labels(&|disk| disks.contains(&disk.id), epoch).await {
                tracing::warn!(%error, "a disk that returned could not be used");
            }
        }
        self.renew_config(&disks).await;
        let opened = self.open_groups(turn, None).await;
        let back = self.directory.on(|place| opened.contains(&place.group));
        self.open_objects(back.into_keys().collect()).await;
    }

    /// The groups that the disk belongs to, and every disk and group that shares something with them.
    fn sharing(&self, id: DiskId) -> (BTreeSet<DiskGroupId>, BTreeSet<DiskId>) {
        let state = self.state.borrow();
        let mut of: BTreeMap<DiskId, BTreeSet<DiskGroupId>> = BTreeMap::new();
        for disk in state.config.iter().flat_map(|config| &config.disks) {
            of.entry(disk.id).or_default().insert(disk.disk_group);
            let label = state.disks.get(&disk.id).and_then(|run| run.label.as_ref());
            for known in label.iter().flat_map(|label| label.superblock().groups.clone()) {
                // A member knows the log disk of its group also while that is away.
                of.entry(known.log_disk).or_default().insert(known.group);
                of.entry(disk.id).or_default().insert(known.group);
            }
        }
        drop(state);
        let (mut groups, mut disks) = (BTreeSet::new(), BTreeSet::from([id]));
        loop {
            let before = (groups.len(), disks.len());
            groups.extend(disks.iter().filter_map(|disk| of.get(disk)).flatten());
            let near = of.iter().filter(|(_, known)| !known.is_disjoint(&groups));
            disks.extend(near.map(|(disk, _)| *disk));
            if before == (groups.len(), disks.len()) {
                return (groups, disks);
            }
        }
    }
}
