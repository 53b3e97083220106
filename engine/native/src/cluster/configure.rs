//! Making a cluster, adding disks to it, and changing its configuration.
//!
//! Invariants: a file or device that holds something is never written unless the person listed it (see `claim`); the configuration is
//! the last thing written, so a formatting that was broken off leaves disks that belong to no cluster and can be erased again.
use super::blueprint::{Blueprint, NewDisk, blueprint, config_host, first_config};
use super::capabilities::check_policy;
use super::claim;
use super::config_store;
use super::core::{ClusterCore, RunDisk, RunHost};
use super::source::DiskSource;
use crate::cap::CapDisk;
use crate::cap::label::Label;
use crate::dg::Dg;
use crate::fmt::config::ClusterConfig;
use crate::io::{Disk, create_file};
use crate::obj::Boot;
use model::engine::{Applied, EngineError};
use model::ids::{DiskId, TaskId};
use model::plan::{ClusterPlan, PlannedGroup, PlannedHost};
use model::state::{ClusterState, Severity};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};

/// Boot epoch in which a cluster is made.
const FIRST_EPOCH: u32 = 1;

fn failed(what: &str, error: &dyn std::error::Error) -> EngineError {
    let source = error.source().map(|source| format!(": {source}")).unwrap_or_default();
    EngineError::Conflict { detail: format!("{what}: {error}{source}") }
}

impl<D: DiskSource + 'static> ClusterCore<D> {
    /// Makes the cluster of a plan, as a task.
    pub(super) fn configure(&self, task: TaskId, plan: ClusterPlan) -> Result<Applied, EngineError> {
        if self.board.task(task).is_some() {
            return Ok(Applied::default());
        }
        let life = self.state.borrow().life;
        if life != ClusterState::Unconfigured {
            return Err(EngineError::Conflict { detail: "this engine has a cluster already".into() });
        }
        let config = first_config(&plan, FIRST_EPOCH, self.env.wall())?;
        plan.policies.iter().try_for_each(check_policy)?;
        let made = blueprint(plan.id, &config.hosts, &plan.claims, FIRST_EPOCH, &self.env)?;
        let warnings = if plan.hosts.len() < 3 {
            vec![format!(
                "{} hosts cannot survive the loss of one: a mirror needs 3 fault domains",
                plan.hosts.len()
            )]
        } else {
            Vec::new()
        };
        self.state.borrow_mut().life = ClusterState::Configuring;
        self.board.start_task(task, "configure-cluster", &plan.name);
        let core = self.rc();
        tokio::task::spawn_local(async move {
            let result = core.make_cluster(task, config, made).await;
            if result.is_err() {
                core.forget_cluster();
            }
            core.board.finish_task(task, result);
        });
        Ok(Applied { done: false, applied: Vec::new(), warnings })
    }

    fn forget_cluster(&self) {
        for (dg, _) in self.directory.groups() {
            self.directory.remove_group(dg.group());
            dg.kill();
        }
        let mut state = self.state.borrow_mut();
        (state.life, state.config) = (ClusterState::Unconfigured, None);
        state.disks.clear();
        state.hosts.clear();
    }

    async fn make_cluster(
        &self,
        task: TaskId,
        mut config: ClusterConfig,
        made: Blueprint,
    ) -> Result<(), EngineError> {
        let labels = self.format_disks(task, &made).await?;
        config.disks = made.config_disks;
        self.board.progress(task, 90, "writing the configuration");
        config_store::commit(&labels, None, &config)
            .await
            .map_err(|error| failed("the configuration", &error))?;
        let (name, now) = (config.name.clone(), self.env.wall());
        {
            let mut state = self.state.borrow_mut();
            let host = RunHost { up: true, reachable: true, since: now };
            state.hosts = config.hosts.iter().map(|entry| (entry.id, host)).collect();
            state.tried_sequence = config.version.1;
            state.boot = Boot::new(FIRST_EPOCH.into());
            state.config = Some(config);
        }
        self.store_hint().map_err(|error| failed("the list of disks", &error))?;
        self.name_hosts();
        self.board.progress(task, 95, "opening the disk groups");
        self.open_groups(&self.disks_turn.lock().await, None).await;
        self.state.borrow_mut().life = ClusterState::Ready;
        self.board.event(
            Severity::Info,
            "cluster-made",
            "cluster".into(),
            format!("cluster {name} is ready"),
        );
        self.changed(None);
        Ok(())
    }

    /// Adds disk groups, as a task.
    pub(super) fn add_claims(
        &self,
        task: TaskId,
        hosts: &[PlannedHost],
        claims: &[PlannedGroup],
    ) -> Result<Applied, EngineError> {
        if self.board.task(task).is_some() {
            return Ok(Applied::default());
        }
        let config = self.ready()?;
        for host in hosts {
            if let Some(detail) = model::arithmetic::name_problem(&host.name) {
                return Err(EngineError::Invalid { field: "hosts".into(), detail });
            }
            if config.hosts.iter().any(|known| known.name == host.name) {
                return Err(EngineError::NameTaken { what: format!("host {:?}", host.name) });
            }
        }
        let listed = |disk: DiskId| config.disks.iter().any(|known| known.id == disk);
        let planned = claims.iter().flat_map(|claim| claim.cache.iter().chain(&claim.capacity));
        if let Some(disk) = planned.into_iter().find(|disk| listed(disk.id)) {
            let (what, users) = (format!("disk {}", disk.name), "this cluster".into());
            return Err(EngineError::InUse { what, users });
        }
        let new_hosts: Vec<_> = hosts.iter().map(config_host).collect();
        let all: Vec<_> = config.hosts.iter().chain(&new_hosts).cloned().collect();
        let epoch = u32::try_from(self.boot().epoch()).unwrap_or(u32::MAX);
        let made = blueprint(config.id, &all, claims, epoch, &self.env)?;
        self.board.start_task(task, "claim-disks", &config.name);
        let core = self.rc();
        tokio::task::spawn_local(async move {
            let wanted: Vec<DiskId> = made.config_disks.iter().map(|disk| disk.id).collect();
            let result = core.join(task, new_hosts, made).await;
            if result.is_err() {
                core.close_unlisted(&wanted);
            }
            core.board.finish_task(task, result);
        });
        Ok(Applied::default())
    }

    /// Lets go of these disks, which were opened for a claim that failed, unless it had listed them already.
    pub(super) fn close_unlisted(&self, claimed: &[DiskId]) {
        let mut state = self.state.borrow_mut();
        let listed: BTreeSet<DiskId> =
            state.config.iter().flat_map(|config| &config.disks).map(|disk| disk.id).collect();
        state.disks.retain(|id, _| listed.contains(id) || !claimed.contains(id));
    }

    async fn join(
        &self,
        task: TaskId,
        new_hosts: Vec<crate::fmt::config::ConfigHost>,
        made: Blueprint,
    ) -> Result<(), EngineError> {
        self.format_disks(task, &made).await?;
        let now = self.env.wall();
        for host in &new_hosts {
            let run = RunHost { up: true, reachable: true, since: now };
            self.state.borrow_mut().hosts.insert(host.id, run);
        }
        let turn = self.disks_turn.lock().await;
        self.board.progress(task, 90, "writing the configuration");
        self.change_config(|config| {
            config.hosts.extend(new_hosts.iter().cloned());
            config.disks.extend(made.config_disks.iter().cloned());
        })
        .await?;
        self.store_hint().map_err(|error| failed("the list of disks", &error))?;
        self.name_hosts();
        self.open_groups(&turn, None).await;
        self.board.event(Severity::Info, "disks-claimed", "cluster".into(), "disk groups were added".into());
        self.unstick();
        self.changed(None);
        Ok(())
    }

    /// Looks into every disk, and when nothing speaks against any of them: makes files, erases, formats labels, logs and capacity
    /// disks, and enters the disks.
    pub(super) async fn format_disks(
        &self,
        task: TaskId,
        made: &Blueprint,
    ) -> Result<BTreeMap<DiskId, Label>, EngineError> {
        let total = made.disks.len().max(1);
        let step = |done: usize, from: usize, to: usize| (from + done * (to - from) / total) as u8;
        let mut open = self.open_reviewed(task, made).await?;
        for (done, new) in made.disks.iter().enumerate() {
            if new.planned.make_file {
                self.board.progress(task, step(done, 10, 40), &format!("making {}", new.planned.name));
                open.insert(new.planned.id, (self.make_file(new).await?, false));
            }
        }
        for (done, new) in made.disks.iter().enumerate() {
            let Some((disk, true)) = open.get(&new.planned.id) else { continue };
            self.board.progress(task, step(done, 40, 50), &format!("erasing {}", new.planned.name));
            claim::erase(&self.settings.inspector, disk, Path::new(&new.planned.path))
                .await
                .map_err(|detail| EngineError::Conflict { detail })?;
        }
        let mut labels = BTreeMap::new();
        for (done, new) in made.disks.iter().enumerate() {
            let Some((disk, _)) = open.remove(&new.planned.id) else { continue };
            self.board.progress(task, step(done, 50, 90), &format!("formatting {}", new.planned.name));
            let label = format_one(new, &disk).await?;
            labels.insert(new.planned.id, label.clone());
            let path = PathBuf::from(&new.planned.path);
            let run = RunDisk { path, disk: Some(disk), label: Some(label) };
            self.state.borrow_mut().disks.insert(new.planned.id, run);
        }
        Ok(labels)
    }

    /// Opens the disks that are there exclusively and looks into each; answers them with whether there is something to erase.
    async fn open_reviewed(
        &self,
        task: TaskId,
        made: &Blueprint,
    ) -> Result<BTreeMap<DiskId, (Disk, bool)>, EngineError> {
        let there = || made.disks.iter().map(|new| &new.planned).filter(|planned| !planned.make_file);
        let mut open = Vec::new();
        for planned in there() {
            let path = Path::new(&planned.path);
            let opened = self.source.open(path, true, self.settings.lock_wait).await;
            open.push((planned, opened.map_err(|error| failed("cannot use a disk", &error))?));
        }
        self.board.progress(task, 5, "looking into the disks");
        let reviewed = there().filter(|planned| planned.review.is_some());
        let paths = reviewed.map(|planned| PathBuf::from(&planned.path)).collect();
        let identities = claim::identities(&self.settings.inspector, paths).await;
        let (mut problems, mut passed) = (Vec::new(), BTreeMap::new());
        for (planned, disk) in open {
            let found = claim::look(&self.settings.inspector, &disk).await;
            let found = found.map_err(|error| failed(&planned.name, &error))?;
            let identity = identities.get(Path::new(&planned.path)).map(String::as_str);
            let size_bytes = disk.geometry().size_bytes;
            problems.extend(claim::problem(planned, size_bytes, identity, &found));
            if size_bytes < planned.size_bytes {
                problems.push(format!("{} is smaller than planned", planned.path));
            }
            passed.insert(planned.id, (disk, planned.erase && found.contents.is_some()));
        }
        if problems.is_empty() { Ok(passed) } else { Err(claim::refusal(problems)) }
    }

    async fn make_file(&self, new: &NewDisk) -> Result<Disk, EngineError> {
        let path = Path::new(&new.planned.path);
        if let Some(folder) = path.parent() {
            let made = std::fs::create_dir_all(folder);
            made.map_err(|error| failed(&format!("folder {}", folder.display()), &error))?;
        }
        // The log is zeroed when its group is formatted; the file must have its size, and be blank.
        create_file(path, new.planned.size_bytes)
            .await
            .map_err(|error| failed("cannot make a disk", &error))?;
        let opened = self.source.open(path, true, self.settings.lock_wait).await;
        opened.map_err(|error| failed("cannot use a disk", &error))
    }

    /// Changes the configuration: in force, and seen by everyone, once it stands on a majority of the disks.
    pub(super) async fn change_config(
        &self,
        change: impl FnOnce(&mut ClusterConfig),
    ) -> Result<(), EngineError> {
        let _turn = self.config_turn.lock().await;
        let old = self.ready()?;
        let mut new = old.clone();
        change(&mut new);
        let labels = {
            let mut state = self.state.borrow_mut();
            state.tried_sequence += 1;
            new.version = (state.boot.epoch(), state.tried_sequence);
            let labels = state.disks.iter().filter_map(|(id, run)| Some((*id, run.label.clone()?)));
            labels.collect::<BTreeMap<_, _>>()
        };
        config_store::commit(&labels, Some(&old), &new)
            .await
            .map_err(|error| failed("nothing was changed", &error))?;
        self.state.borrow_mut().config = Some(new);
        self.changed(None);
        Ok(())
    }
}

async fn format_one(new: &NewDisk, disk: &Disk) -> Result<Label, EngineError> {
    let name = &new.planned.name;
    let geometry = disk.geometry();
    let mut superblock = new.superblock.clone();
    superblock.physical_block_bytes = geometry.physical_block_bytes;
    superblock.size_bytes = geometry.size_bytes;
    let logs: Vec<_> = superblock
        .groups
        .iter()
        .filter(|group| superblock.log_region(group.group).is_some())
        .map(|group| group.group)
        .collect();
    let has_extents = superblock.extents_region().is_some();
    let label = Label::format(disk.clone(), superblock).await.map_err(|error| failed(name, &error))?;
    for group in logs {
        Dg::format(&label, group).await.map_err(|error| failed(name, &error))?;
    }
    if has_extents {
        CapDisk::format(&label).await.map_err(|error| failed(name, &error))?;
    }
    Ok(label)
}
