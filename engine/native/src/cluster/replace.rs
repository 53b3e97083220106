//! A new disk in the place of a lost one.
//!
//! Order: the new disk is checked and formatted as any claimed disk, joins the group of the lost one (or makes a group of its own where
//! the lost one was one), what the lost one carried is rebuilt wherever placement says, and only when no known object names the lost
//! disk any more does the configuration forget it. Broken off anywhere, both disks are members and repair goes on by itself; the lost
//! one stays listed until the replacement is asked for again, with the same disk or another. A disk that failed is closed for the
//! time of its replacement; one that is only absent may return before the end, and is used again then.
use super::blueprint::{Blueprint, blueprint, member, new_member};
use super::care::TICK;
use super::core::ClusterCore;
use super::source::DiskSource;
use crate::cap::label::Label;
use crate::fmt::config::{ClusterConfig, ConfigDisk};
use crate::fmt::superblock::{MEMBERS_MAX, Member, Superblock};
use model::engine::{Applied, EngineError};
use model::ids::{DiskGroupId, DiskId, ObjectId, TaskId};
use model::plan::{PlannedDisk, PlannedGroup};
use model::state::{DiskRole, Severity};

fn conflict(detail: impl Into<String>) -> EngineError {
    EngineError::Conflict { detail: detail.into() }
}

impl<D: DiskSource + 'static> ClusterCore<D> {
    /// Puts `by` in the place of `lost`, as a task.
    pub(super) fn replace_disk(
        &self,
        task: TaskId,
        lost: DiskId,
        by: &PlannedDisk,
    ) -> Result<Applied, EngineError> {
        if self.board.task(task).is_some() {
            return Ok(Applied::default());
        }
        let config = self.ready()?;
        let entry = config.disks.iter().find(|disk| disk.id == lost).cloned();
        let entry = entry.ok_or_else(|| EngineError::NotFound { what: format!("disk {lost}") })?;
        let joined = config.disks.iter().find(|disk| disk.id == by.id);
        if joined.is_some_and(|joined| !self.works(joined)) {
            let (what, users) = (format!("disk {}", by.name), "this cluster".into());
            return Err(EngineError::InUse { what, users });
        }
        if [lost, by.id].iter().any(|id| self.state.borrow().replacing.contains(id)) {
            return Err(conflict(format!("a replacement of disk {} is under way", entry.name)));
        }
        if self.works(&entry) {
            return Err(conflict(format!(
                "disk {} works: only an absent or failed disk is replaced; claim {} beside it instead",
                entry.name, by.name
            )));
        }
        let made = match joined {
            // It came in by a replacement that was broken off.
            Some(_) => None,
            None => Some(self.replacement(&config, &entry, by)?),
        };
        self.board.start_task(task, "replace-disk", &entry.name);
        self.state.borrow_mut().replacing.extend([lost, by.id]);
        let (core, by) = (self.rc(), by.clone());
        tokio::task::spawn_local(async move {
            let result = core.carry_out(task, &entry, &by, made).await;
            if result.is_err() {
                core.close_unlisted(&[by.id]);
            }
            {
                let mut state = core.state.borrow_mut();
                state.given_up.remove(&lost);
                state.replacing.retain(|id| ![lost, by.id].contains(id));
            }
            core.board.finish_task(task, result);
        });
        Ok(Applied::default())
    }

    async fn carry_out(
        &self,
        task: TaskId,
        lost: &ConfigDisk,
        by: &PlannedDisk,
        made: Option<Blueprint>,
    ) -> Result<(), EngineError> {
        if let Some(made) = made {
            self.format_disks(task, &made).await?;
            self.put_in_place(lost, by, made).await?;
        }
        self.unstick();
        self.changed(None);
        self.empty(task, lost).await?;
        self.forget(lost).await?;
        let text = format!("disk {} was replaced by {}", lost.name, by.name);
        self.board.event(Severity::Info, "disk-replaced", format!("disk:{}", by.id), text);
        self.unstick();
        self.changed(None);
        Ok(())
    }

    /// Whether the disk is there and its groups have no complaint about it.
    pub(super) fn works(&self, entry: &ConfigDisk) -> bool {
        let state = self.state.borrow();
        let label = state.disks.get(&entry.id).and_then(|run| run.label.as_ref());
        let is_fine = |group: DiskGroupId| {
            let dg = self.directory.group(group);
            dg.is_some_and(|dg| !dg.is_failed() && !dg.failed_disks().contains(&entry.id))
        };
        label.is_some() && entry.groups().all(is_fine)
    }

    /// The label of the disk that carries the log of a group.
    fn log_label(&self, group: DiskGroupId) -> Option<Label> {
        let state = self.state.borrow();
        let labels = state.disks.values().filter_map(|run| run.label.as_ref());
        labels.into_iter().find(|label| label.superblock().log_region(group).is_some()).cloned()
    }

    /// The label of the disk that carries the log of a capacity disk's group.
    fn log_of(&self, lost: &ConfigDisk) -> Result<Label, EngineError> {
        self.log_label(lost.disk_group).ok_or_else(|| {
            conflict(format!(
                "the disk with the log of {}'s disk group is not there; bring that back first",
                lost.name
            ))
        })
    }

    fn replacement(
        &self,
        config: &ClusterConfig,
        lost: &ConfigDisk,
        by: &PlannedDisk,
    ) -> Result<Blueprint, EngineError> {
        let epoch = u32::try_from(self.boot().epoch()).unwrap_or(u32::MAX);
        match lost.role {
            DiskRole::Combined => {
                let claim = PlannedGroup {
                    host: lost.host,
                    cache_host: None,
                    cache: None,
                    capacity: vec![by.clone()],
                };
                blueprint(config.id, &config.hosts, &[claim], epoch, &self.env)
            }
            DiskRole::Capacity => {
                let log = self.log_of(lost)?;
                let known = log.superblock().group(lost.disk_group).cloned();
                let mut group = known.ok_or_else(|| conflict("its disk group is not known any more"))?;
                join(&mut group.members, lost.id, by.id, epoch);
                member(config.id, lost.host, by, group, epoch)
            }
            _ => Err(conflict(format!(
                "disk {} carries the log of its disk group, and the disks behind it cannot be used without it: bring it back, or \
                 claim a new disk group; what was on this one is rebuilt there",
                lost.name
            ))),
        }
    }

    /// Makes the formatted disk a member of the cluster, in the group of a lost capacity disk.
    async fn put_in_place(
        &self,
        lost: &ConfigDisk,
        by: &PlannedDisk,
        made: Blueprint,
    ) -> Result<(), EngineError> {
        let turn = self.disks_turn.lock().await;
        if self.works(lost) {
            return Err(came_back(lost, "the new one was not added"));
        }
        let in_group = lost.role == DiskRole::Capacity;
        if in_group {
            let epoch = u32::try_from(self.boot().epoch()).unwrap_or(u32::MAX);
            let change = |superblock: &mut Superblock| {
                if let Some(group) = superblock.group_mut(lost.disk_group) {
                    join(&mut group.members, lost.id, by.id, epoch);
                }
            };
            let changed = self.log_of(lost)?.update(change).await;
            changed.map_err(|error| conflict(format!("the disk group: {error}")))?;
        }
        self.change_config(|config| config.disks.extend(made.config_disks)).await?;
        self.store_hint().map_err(|error| conflict(format!("the list of disks: {error}")))?;
        if in_group {
            self.give_up(lost.id);
            self.restart_groups_of(&turn, by.id).await;
        } else {
            self.open_groups(&turn, None).await;
        }
        Ok(())
    }

    /// Closes a disk that failed: when its group is opened anew, it would be a member as if nothing had happened.
    fn give_up(&self, lost: DiskId) {
        let mut state = self.state.borrow_mut();
        let Some(run) = state.disks.get_mut(&lost) else { return };
        run.label = None;
        if let Some(disk) = run.disk.take() {
            disk.faults().power_off();
            state.given_up.insert(lost);
        }
    }

    /// Waits until repair has built anew whatever lay on the lost disk.
    async fn empty(&self, task: TaskId, lost: &ConfigDisk) -> Result<(), EngineError> {
        let total = self.users_of_disk(lost.id).len().max(1);
        loop {
            let users = self.users_of_disk(lost.id);
            if users.is_empty() {
                return Ok(());
            }
            let done = total.saturating_sub(users.len());
            self.board.progress(task, (90 + done * 9 / total) as u8, "rebuilding what it carried");
            if self.works(lost) {
                return Err(came_back(lost, "the new one beside it"));
            }
            if self.state.borrow().stopping {
                return Err(conflict(
                    "Millpond is stopping; what is missing is rebuilt after the next start",
                ));
            }
            for object in users {
                let stuck = self.with_object(object, |found| {
                    found.repair_now = true;
                    let closed = found.owner.as_ref().is_none_or(|owner| owner.inaccessible().is_some());
                    let why = found.stuck.clone().or_else(|| closed.then(|| "it cannot be read now".into()));
                    why.map(|why| format!("{} cannot be rebuilt: {why}", found.seen.name))
                });
                if let Some(Some(why)) = stuck {
                    return Err(conflict(format!(
                        "{why}; the new disk is in use, {} stays listed",
                        lost.name
                    )));
                }
            }
            self.care.notify_one();
            tokio::time::sleep(TICK).await;
        }
    }

    fn users_of_disk(&self, disk: DiskId) -> Vec<ObjectId> {
        let state = self.state.borrow();
        let uses =
            |object: &super::core::RunObject| object.descriptor().legs().iter().any(|leg| leg.disk == disk);
        state.objects.iter().filter(|(_, object)| uses(object)).map(|(id, _)| *id).collect()
    }

    /// Takes a disk that nothing names any more out of the cluster. The group lets go of it first: broken off after that, it is
    /// listed and used by nobody.
    async fn forget(&self, lost: &ConfigDisk) -> Result<(), EngineError> {
        let _turn = self.disks_turn.lock().await;
        let in_group = lost.role == DiskRole::Capacity;
        if in_group {
            let change = |superblock: &mut Superblock| {
                if let Some(group) = superblock.group_mut(lost.disk_group) {
                    group.members.retain(|member| member.disk != lost.id);
                }
            };
            let changed = self.log_of(lost)?.update(change).await;
            changed.map_err(|error| conflict(format!("the disk group: {error}")))?;
        }
        self.change_config(|config| config.disks.retain(|disk| disk.id != lost.id)).await?;
        // A group of one disk goes with it.
        if !in_group && let Some(dg) = self.directory.remove_group(lost.disk_group) {
            dg.kill();
        }
        self.state.borrow_mut().disks.remove(&lost.id);
        self.store_hint().map_err(|error| conflict(format!("the list of disks: {error}")))
    }
}

fn came_back(lost: &ConfigDisk, and: &str) -> EngineError {
    conflict(format!("disk {} came back meanwhile: it is used again, and {and}", lost.name))
}

/// Adds a member to a group; a full one gives the lost member's place away.
fn join(members: &mut Vec<Member>, lost: DiskId, by: DiskId, epoch: u32) {
    if members.iter().any(|member| member.disk == by) {
        return;
    }
    if members.len() >= MEMBERS_MAX {
        members.retain(|member| member.disk != lost);
    }
    members.push(new_member(by, epoch));
}
