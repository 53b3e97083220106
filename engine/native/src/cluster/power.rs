//! Hosts come and go: power, partitions, and the switches of disks, as the lab's faults say.
//!
//! Invariants: power-off is like kill -9 of the host: what was under way may land, nothing is written in its name afterwards; a
//! host that returns gets the boot epoch before its groups are opened, and its legs are marked before they are read.
use super::core::{ClusterCore, DisksTurn};
use super::faults::LabFaults;
use super::source::DiskSource;
use futures_util::future::join_all;
use model::engine::{Applied, EngineError, Fault, FaultTarget};
use model::ids::{ComponentId, DiskGroupId, DiskId, HostId, ObjectId};
use model::state::{DiskRole, Severity};
use std::collections::{BTreeMap, BTreeSet};
use std::os::unix::fs::{FileTypeExt, MetadataExt};
use std::time::Duration;

/// Number of the kernel's driver for loop devices. Source: kernel, `admin-guide/devices.txt`.
const LOOP_MAJOR: u32 = 7;

impl<D: DiskSource + 'static> ClusterCore<D> {
    /// Breaks or heals something. Done on return, and kept over restarts.
    pub(super) async fn inject(&self, target: &FaultTarget, fault: &Fault) -> Result<Applied, EngineError> {
        let turn = self.disks_turn.lock().await;
        self.ready()?;
        let names = self.hosts_of(target)?;
        self.only_files(target, &names)?;
        if let Fault::Corrupt { object, offset_bytes, length_bytes } = fault {
            return self.corrupt(target, *object, *offset_bytes, *length_bytes).await;
        }
        if let Fault::Partition { from } = fault
            && let Some(unknown) =
                from.iter().find(|name| !self.config_hosts().iter().any(|host| host.name == **name))
        {
            return Err(EngineError::NotFound { what: format!("host {unknown:?}") });
        }
        let before = self.state.borrow().faults.clone();
        let mut after = before.clone();
        after.inject(target, &names, fault)?;
        let stored = after.store(&self.settings.data_dir.join("lab"));
        stored.map_err(|error| EngineError::Conflict {
            detail: format!("the fault cannot be kept: {error}"),
        })?;
        self.state.borrow_mut().faults = after.clone();
        self.apply_disk_faults();
        for host in self.config_hosts() {
            match (before.host(&host.name).off, after.host(&host.name).off) {
                (false, true) => self.power_off(host.id, &host.name).await,
                (true, false) => self.power_on(&turn, host.id, &host.name).await,
                _ => {}
            }
        }
        self.revive_disks(&turn, &before, &after).await;
        self.settle_partition().await;
        self.unstick();
        self.changed(None);
        let mut applied: Vec<String> = Vec::new();
        for name in &names {
            let words = after.host(name).words();
            applied.push(format!(
                "host {name}: {}",
                if words.is_empty() { "healthy".into() } else { words.join("; ") }
            ));
        }
        if let FaultTarget::Disk(id) = target {
            let words = after.disk(*id).words();
            applied.push(format!(
                "disk {id}: {}",
                if words.is_empty() { "healthy".into() } else { words.join("; ") }
            ));
        }
        Ok(Applied { done: true, applied, warnings: Vec::new() })
    }

    /// Names of the hosts that a target means; none for a disk.
    fn hosts_of(&self, target: &FaultTarget) -> Result<Vec<String>, EngineError> {
        let hosts = self.config_hosts();
        let named = |wanted: &dyn Fn(&crate::fmt::config::ConfigHost) -> bool| -> Vec<String> {
            hosts.iter().filter(|host| wanted(host)).map(|host| host.name.clone()).collect()
        };
        let (found, what) = match target {
            FaultTarget::Host(name) => (named(&|host| host.name == *name), format!("host {name:?}")),
            FaultTarget::FaultDomain(name) => (
                named(&|host| host.fault_domain.as_ref().unwrap_or(&host.name) == name),
                format!("fault domain {name:?}"),
            ),
            FaultTarget::Site(name) => {
                (named(&|host| host.site.as_ref() == Some(name)), format!("site {name:?}"))
            }
            FaultTarget::Disk(id) if self.state.borrow().disks.contains_key(id) => return Ok(Vec::new()),
            FaultTarget::Disk(id) => (Vec::new(), format!("disk {id}")),
        };
        if found.is_empty() { Err(EngineError::NotFound { what }) } else { Ok(found) }
    }

    /// Faults are for labs: a disk that is a device is never broken on purpose. A loop device is a file.
    fn only_files(&self, target: &FaultTarget, hosts: &[String]) -> Result<(), EngineError> {
        let state = self.state.borrow();
        let Some(config) = &state.config else { return Ok(()) };
        let ids: Vec<HostId> =
            config.hosts.iter().filter(|host| hosts.contains(&host.name)).map(|host| host.id).collect();
        let meant = |id: DiskId, host: HostId| *target == FaultTarget::Disk(id) || ids.contains(&host);
        let mut disks = config.disks.iter().filter(|disk| meant(disk.id, disk.host));
        let device = disks.find(|disk| {
            let path = state.disks.get(&disk.id).map(|run| &run.path);
            path.and_then(|path| std::fs::metadata(path).ok()).is_some_and(|found| {
                let is_loop = rustix::fs::major(found.rdev()) == LOOP_MAJOR;
                found.file_type().is_block_device() && !is_loop
            })
        });
        device.map_or(Ok(()), |disk| {
            let detail = format!("{} is a real device; faults are for lab and file disks only", disk.name);
            Err(EngineError::Invalid { field: "target".into(), detail })
        })
    }

    /// Sets the switches of every open disk.
    pub(super) fn apply_disk_faults(&self) {
        let state = self.state.borrow();
        let Some(config) = &state.config else { return };
        for entry in &config.disks {
            let Some(disk) = state.disks.get(&entry.id).and_then(|run| run.disk.as_ref()) else { continue };
            let host = config.hosts.iter().find(|host| host.id == entry.host);
            let of_host = host.map(|host| state.faults.host(&host.name)).unwrap_or_default();
            let of_disk = state.faults.disk(entry.id);
            let switch = disk.faults();
            switch.set_failing(of_disk.failing);
            switch.set_full(of_disk.full);
            switch.set_slow(Duration::from_millis(of_disk.slow_ms.max(of_host.slow_ms).into()));
        }
    }

    async fn power_off(&self, host: HostId, name: &str) {
        let logs = groups_on(&self.state.borrow(), host);
        let hit = |dg: &crate::dg::Dg, of: HostId| of == host || logs.contains(&dg.group());
        let groups: Vec<_> = self.directory.groups().into_iter().filter(|(dg, of)| hit(dg, *of)).collect();
        let ids: BTreeSet<_> = groups.iter().map(|(dg, _)| dg.group()).collect();
        let lost = self.directory.on(|place| ids.contains(&place.group));
        for (dg, _) in &groups {
            dg.kill();
            self.directory.remove_group(dg.group());
        }
        let now = self.env.wall();
        {
            let mut state = self.state.borrow_mut();
            let disks: Vec<DiskId> = disks_of(&state, host);
            for id in disks {
                if let Some(run) = state.disks.get_mut(&id) {
                    run.label = None;
                    if let Some(disk) = &run.disk {
                        disk.faults().power_off();
                    }
                }
            }
            if let Some(run) = state.hosts.get_mut(&host) {
                (run.up, run.since) = (false, now);
            }
        }
        self.board.event(
            Severity::Warning,
            "host-absent",
            format!("host:{name}"),
            format!("host {name} is absent"),
        );
        self.tell_gone(lost).await;
    }

    /// Hosts of disks that do not fail any more start again: a group that met an error takes nothing until it is opened anew.
    async fn revive_disks(&self, turn: &DisksTurn<'_>, before: &LabFaults, after: &LabFaults) {
        let healed = |id: &DiskId| before.disk(*id).failing && !after.disk(*id).failing;
        let hosts: Vec<(HostId, String)> = {
            let state = self.state.borrow();
            let Some(config) = &state.config else { return };
            let ids: BTreeSet<HostId> =
                config.disks.iter().filter(|disk| healed(&disk.id)).map(|disk| disk.host).collect();
            let up = |host: &HostId| state.hosts.get(host).is_some_and(|run| run.up);
            let hosts = config.hosts.iter().filter(|host| ids.contains(&host.id) && up(&host.id));
            hosts.map(|host| (host.id, host.name.clone())).collect()
        };
        for (host, name) in hosts {
            self.power_off(host, &name).await;
            self.power_on(turn, host, &name).await;
        }
    }

    /// Tells objects that components went away: what they miss is marked before anything else is acknowledged.
    pub(super) async fn tell_gone(&self, lost: BTreeMap<ObjectId, Vec<ComponentId>>) {
        let told = lost.iter().map(async |(object, components)| {
            if let Some(owner) = self.owner(*object) {
                owner.legs_gone(components).await;
            }
        });
        join_all(told).await;
        self.changed(None);
    }

    async fn power_on(&self, turn: &DisksTurn<'_>, host: HostId, name: &str) {
        let disks: Vec<_> = {
            let state = self.state.borrow();
            let ids = disks_of(&state, host);
            ids.into_iter().filter_map(|id| state.disks.get(&id)?.disk.clone()).collect()
        };
        for disk in disks {
            disk.quiesce().await;
            disk.faults().power_on();
        }
        let now = self.env.wall();
        if let Some(run) = self.state.borrow_mut().hosts.get_mut(&host) {
            (run.up, run.since) = (true, now);
        }
        let epoch = u32::try_from(self.boot().epoch()).unwrap_or(u32::MAX);
        if let Err(error) = self.load_labels(&|disk| disk.host == host, epoch).await {
            tracing::warn!(%error, host = name, "no disk of the host could be used");
        }
        let disks = disks_of(&self.state.borrow(), host).into_iter().collect();
        self.renew_config(&disks).await;
        let opened = self.open_groups(turn, Some(host)).await;
        self.board.event(
            Severity::Info,
            "host-connected",
            format!("host:{name}"),
            format!("host {name} is back"),
        );
        let back = self.directory.on(|place| opened.contains(&place.group));
        self.open_objects(back.into_keys().collect()).await;
        // A cache disk that returns brings back the groups whose logs it carries, whichever hosts these are of.
        let sliced: Vec<DiskId> = {
            let state = self.state.borrow();
            let config = state.config.iter().flat_map(|config| &config.disks);
            let caches = config.filter(|disk| disk.host == host && disk.role == DiskRole::Cache);
            let away = |group| self.directory.group(group).is_none();
            caches.filter(|disk| disk.groups().any(away)).map(|disk| disk.id).collect()
        };
        for cache in sliced {
            self.restart_groups_of(turn, cache).await;
        }
    }

    /// Gives disks that returned the configuration in force.
    pub(super) async fn renew_config(&self, disks: &BTreeSet<DiskId>) {
        let (labels, slot) = {
            let state = self.state.borrow();
            let Some(config) = &state.config else { return };
            let slot = crate::fmt::slot::ConfigSlot {
                epoch: u32::try_from(config.version.0).unwrap_or(u32::MAX),
                sequence: config.version.1,
                payload: config.to_bytes(),
            };
            let labels = disks.iter().filter_map(|id| state.disks.get(id)?.label.clone());
            (labels.collect::<Vec<_>>(), slot)
        };
        for label in labels {
            let known = label.load_config().await.ok().flatten().map(|known| (known.epoch, known.sequence));
            if known < Some((slot.epoch, slot.sequence))
                && let Err(error) = label.store_config(&slot).await
            {
                tracing::warn!(%error, "the configuration could not be renewed on a returned disk");
            }
        }
    }

    /// Decides which hosts the owner's side reaches; answers those that changed.
    pub(super) fn update_partition(&self) -> (Vec<HostId>, Vec<HostId>) {
        let mut state = self.state.borrow_mut();
        let Some(config) = &state.config else { return (Vec::new(), Vec::new()) };
        let up: Vec<(HostId, String)> = config
            .hosts
            .iter()
            .filter(|host| state.hosts.get(&host.id).is_some_and(|run| run.up))
            .map(|host| (host.id, host.name.clone()))
            .collect();
        let mut votes: BTreeMap<HostId, u64> = BTreeMap::new();
        for object in state.objects.values() {
            for leg in object.descriptor().legs() {
                *votes.entry(leg.host).or_default() += u64::from(leg.votes);
            }
        }
        let talks = |a: &str, b: &str| {
            let apart = |from: &str, to: &str| state.faults.host(from).partitioned_from.contains(to);
            !apart(a, b) && !apart(b, a)
        };
        let side = owners_side(&up, &talks, &votes);
        let now = self.env.wall();
        let (mut lost, mut back) = (Vec::new(), Vec::new());
        for (host, run) in &mut state.hosts {
            let reachable = !up.iter().any(|(id, _)| id == host) || side.contains(host);
            if run.reachable != reachable {
                if reachable {
                    back.push(*host)
                } else {
                    lost.push(*host)
                }
                (run.reachable, run.since) = (reachable, now);
            }
        }
        let cut_off = state.hosts.iter().filter(|(_, run)| !run.reachable).map(|(host, _)| *host).collect();
        self.directory.set_cut_off(cut_off);
        (lost, back)
    }

    pub(super) async fn settle_partition(&self) {
        let (lost, back) = self.update_partition();
        let groups_of = |hosts: &[HostId]| -> BTreeSet<_> {
            let of = self.directory.groups().into_iter().filter(|(_, host)| hosts.contains(host));
            of.map(|(dg, _)| dg.group()).collect()
        };
        let name = |host: &HostId| {
            self.config_hosts()
                .into_iter()
                .find(|entry| entry.id == *host)
                .map_or_else(String::new, |entry| entry.name)
        };
        for host in &lost {
            let (subject, text) = (format!("host:{}", name(host)), format!("host {} is cut off", name(host)));
            self.board.event(Severity::Warning, "host-absent", subject, text);
        }
        let groups = groups_of(&lost);
        if !groups.is_empty() {
            self.tell_gone(self.directory.on(|place| groups.contains(&place.group))).await;
        }
        for host in &back {
            let (subject, text) =
                (format!("host:{}", name(host)), format!("host {} is reachable again", name(host)));
            self.board.event(Severity::Info, "host-connected", subject, text);
        }
        let groups = groups_of(&back);
        if !groups.is_empty() {
            let objects = self.directory.on(|place| groups.contains(&place.group));
            self.open_objects(objects.into_keys().collect()).await;
        }
    }
}

/// Disk groups that lie on disks of a host, or whose logs do.
pub(super) fn groups_on(state: &super::core::State, host: HostId) -> BTreeSet<DiskGroupId> {
    let disks = state.config.iter().flat_map(|config| &config.disks);
    disks.filter(|disk| disk.host == host).flat_map(|disk| disk.groups()).collect()
}

fn disks_of(state: &super::core::State, host: HostId) -> Vec<DiskId> {
    let disks = state.config.iter().flat_map(|config| &config.disks);
    disks.filter(|disk| disk.host == host).map(|disk| disk.id).collect()
}

/// The hosts on the owner's side: of the groups of hosts that reach each other the one with the most votes, then the most hosts,
/// then the one with the first name.
fn owners_side(
    up: &[(HostId, String)],
    talks: &dyn Fn(&str, &str) -> bool,
    votes: &BTreeMap<HostId, u64>,
) -> BTreeSet<HostId> {
    let mut left: Vec<&(HostId, String)> = up.iter().collect();
    left.sort_by(|a, b| a.1.cmp(&b.1));
    let mut best: Option<(u64, usize, BTreeSet<HostId>)> = None;
    while !left.is_empty() {
        let mut side = vec![left.remove(0)];
        let mut next = 0;
        while next < side.len() {
            let (near, far): (Vec<_>, Vec<_>) =
                left.into_iter().partition(|host| talks(&side[next].1, &host.1));
            side.extend(near);
            left = far;
            next += 1;
        }
        let weight = side.iter().filter_map(|(host, _)| votes.get(host)).sum();
        let better = best.as_ref().is_none_or(|(votes, hosts, _)| (weight, side.len()) > (*votes, *hosts));
        if better {
            best = Some((weight, side.len(), side.iter().map(|(host, _)| *host).collect()));
        }
    }
    best.map(|(_, _, side)| side).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_side_with_most_votes_goes_on() {
        let host = |number: u8| (HostId::from_random([number; 16]), format!("h{number}"));
        let up = [host(1), host(2), host(3), host(4)];
        let votes: BTreeMap<_, _> =
            up.iter().zip([1, 1, 1, 5]).map(|(host, votes)| (host.0, votes)).collect();
        let apart = |a: &str, b: &str| (a == "h4") == (b == "h4");
        assert_eq!(owners_side(&up, &apart, &votes), BTreeSet::from([up[3].0]));
        assert_eq!(owners_side(&up, &apart, &BTreeMap::new()).len(), 3, "no votes: the most hosts");
        assert_eq!(owners_side(&up, &|_, _| true, &votes).len(), 4);
        // A chain: h1-h2-h3 reach each other through h2.
        let chain = |a: &str, b: &str| a != "h4" && b != "h4" && (a == "h2" || b == "h2");
        assert_eq!(owners_side(&up, &chain, &BTreeMap::new()).len(), 3);
    }
}
