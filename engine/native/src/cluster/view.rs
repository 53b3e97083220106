//! The snapshot: everything that is known, in the console's own terms. Objects that did not change keep their pointer.
use super::core::{ClusterCore, RunObject, State};
use super::repair::due;
use super::reshape::pieces;
use super::source::DiskSource;
use crate::fmt::config::{ClusterConfig, ConfigDisk, ConfigHost};
use crate::fmt::descriptor::Leg;
use model::health::{Facts, derive};
use model::ids::{ClusterId, DiskId, HostId, ObjectId};
use model::placement::{Topology, map_bytes};
use model::state::{
    ClusterState, ClusterType, ComponentState, DiskRole, DiskState, HostState, Media, ObjectHealth,
    ResyncReason, ResyncState,
};
use model::tree::tree;
use model::units::{EXTENT_BYTES, Timestamp};
use model::view::{
    ClusterView, ComponentView, DiskView, FaultDomainView, HostView, ObjectView, ResyncItem, ResyncView,
    ScheduledRepair, SiteView, Snapshot,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Components that a host may carry. Source: vSAN, 9,000.
const HOST_COMPONENTS_MAX: u32 = 9_000;
/// A change of used bytes below this is not worth a new view, bytes.
const USED_STEP_BYTES: u64 = 1 << 20;
/// Looks between two comparisons of used bytes.
const USED_EVERY_TICKS: u64 = 4;

impl<D: DiskSource + 'static> ClusterCore<D> {
    /// The snapshot of now; the one from before when nothing changed.
    pub(super) fn take_snapshot(&self) -> Arc<Snapshot> {
        let version = self.board.version();
        if let Some(known) = self.state.borrow().snapshot.clone().filter(|known| known.version == version) {
            return known;
        }
        self.renew_views();
        let state = self.state.borrow();
        let mut objects: Vec<Arc<ObjectView>> =
            state.objects.values().filter_map(|object| object.view.clone()).collect();
        objects.sort_by(|a, b| a.name.cmp(&b.name));
        let snapshot = Arc::new(Snapshot {
            version,
            taken_at: self.env.wall(),
            cluster: cluster_view(&state),
            hosts: self.host_views(&state),
            disks: self.disk_views(&state),
            policies: state.policies_by_name(),
            resync: self.resync_view(&state, &objects),
            objects,
            tasks: self.board.tasks(),
        });
        drop(state);
        self.state.borrow_mut().snapshot = Some(snapshot.clone());
        snapshot
    }

    /// What placement works on.
    pub(super) fn topology(&self) -> Topology {
        self.board.touch();
        Topology::from_snapshot(&self.take_snapshot())
    }

    /// Marks objects whose numbers moved, and says so.
    pub(super) fn refresh(&self) {
        let compare = self.ticks.get().is_multiple_of(USED_EVERY_TICKS);
        let mut moved = Vec::new();
        for (id, object) in &self.state.borrow().objects {
            let syncing = object.owner.as_ref().is_some_and(|owner| !owner.resyncs().is_empty());
            let known = object.view.as_ref().map_or(0, |view| view.used_raw_bytes);
            let grew = compare && self.used_raw(*id).abs_diff(known) >= USED_STEP_BYTES;
            if syncing || grew {
                moved.push(*id);
            }
        }
        if !moved.is_empty() {
            moved.into_iter().for_each(|id| _ = self.with_object(id, |_| ()));
            self.board.touch();
        }
    }

    fn used_raw(&self, id: ObjectId) -> u64 {
        let places = self.directory.places(id);
        let legs = places.into_keys().filter_map(|component| self.directory.leg(id, component));
        legs.map(|leg| leg.used_bytes()).sum()
    }

    fn renew_views(&self) {
        let renewed: Vec<(ObjectId, Arc<ObjectView>)> = {
            let state = self.state.borrow();
            let dirty = state.objects.iter().filter(|(_, object)| object.dirty || object.view.is_none());
            dirty.map(|(id, object)| (*id, Arc::new(self.object_view(&state, *id, object)))).collect()
        };
        let mut state = self.state.borrow_mut();
        for (id, view) in renewed {
            if let Some(object) = state.objects.get_mut(&id) {
                (object.view, object.dirty) = (Some(view), false);
            }
        }
    }

    fn object_view(&self, state: &State, id: ObjectId, object: &RunObject) -> ObjectView {
        let descriptor = object.descriptor();
        let leaf = |leg: &Leg| self.component_view(state, id, object, leg);
        let rows = pieces(&descriptor.layout);
        let rows = rows.into_iter().map(|piece| {
            piece.into_iter().map(|row| row.into_iter().map(leaf).collect::<Vec<_>>()).collect::<Vec<_>>()
        });
        let witnesses = descriptor.witnesses.iter().map(leaf).collect();
        let tree = tree(descriptor.policy.fault_tolerance_method, rows.collect(), witnesses);
        let config = state.config.as_ref();
        let named = config
            .and_then(|config| config.policies.iter().find(|policy| policy.name == descriptor.policy.name));
        let policy = named.unwrap_or(&descriptor.policy);
        let delay = config.map_or(0, |config| config.repair_delay_seconds);
        // Once a replacement was looked for in vain no timer is waited for.
        let repair_at = repair_at(&descriptor.legs(), delay).filter(|_| object.stuck.is_none());
        let said = object.owner.as_ref().map_or(object.why.clone(), |owner| owner.inaccessible());
        let facts = Facts {
            tree: &tree,
            policy,
            policy_version: descriptor.policy.version,
            repair_at,
            cannot_rebuild: object.stuck.as_deref(),
            moving: false,
            cannot_open: said.as_deref(),
        };
        let derived = derive(&facts);
        let leaves = tree.leaves();
        let used_raw_bytes = leaves.iter().map(|(leaf, _)| leaf.used_bytes).sum();
        let reason = if derived.health == ObjectHealth::Inaccessible {
            said.or(derived.reason)
        } else {
            derived.reason
        };
        ObjectView {
            uuid: id,
            name: descriptor.name.clone(),
            object_type: descriptor.object_type,
            size_bytes: descriptor.size_bytes,
            used_bytes: largest_copy(&descriptor.layout, &leaves),
            used_raw_bytes,
            policy: descriptor.policy.name.clone(),
            policy_version: descriptor.policy.version,
            compliance: derived.compliance,
            health: derived.health,
            reason,
            accessible: derived.accessible,
            votes: derived.votes,
            tolerates_now: derived.tolerates_now,
            repair_at: repair_at.filter(|_| derived.health == ObjectHealth::ReducedWaiting),
            csn: descriptor.csn,
            created_at: descriptor.created_at,
            tree,
        }
    }

    fn component_view(&self, state: &State, id: ObjectId, object: &RunObject, leg: &Leg) -> ComponentView {
        let handle = self.directory.leg(id, leg.component);
        let open = object.owner.as_ref().is_some_and(|owner| owner.inaccessible().is_none());
        // An object that cannot commit cannot say that a component went away: what is seen counts.
        let seen = match (&handle, leg.state) {
            (None, ComponentState::Degraded) => ComponentState::Degraded,
            (None, _) => ComponentState::Absent,
            (Some(_), ComponentState::Absent) if leg.stale_from.is_none() => ComponentState::Active,
            (Some(_), ComponentState::Absent) => ComponentState::Stale,
            (Some(_), known) => known,
        };
        let host = host_name(state, leg.host);
        let reason = match seen {
            ComponentState::Active => None,
            ComponentState::Absent => Some(self.absence(leg.disk, &host)),
            ComponentState::Degraded => Some("its disk failed".into()),
            ComponentState::Stale => Some("missed writes while it was away".into()),
            ComponentState::Resyncing => Some("is being brought up to date".into()),
            ComponentState::Reconfiguring => Some("is being built".into()),
        };
        let owner = object.owner.as_ref().filter(|_| leg.stale_from.is_some());
        ComponentView {
            uuid: leg.component,
            state: if open && handle.is_some() { leg.state } else { seen },
            state_since: leg.state_since,
            votes: leg.votes,
            host,
            fault_domain: domain_of(state, leg.host).unwrap_or_else(|| leg.fault_domain.clone()),
            disk: leg.disk,
            disk_path: path_of(state, leg.disk),
            used_bytes: handle.map_or(0, |handle| handle.used_bytes()),
            bytes_to_sync: owner.and_then(|owner| owner.bytes_to_sync(leg.component)).unwrap_or(0),
            reason,
        }
    }

    fn host_views(&self, state: &State) -> Vec<HostView> {
        let Some(config) = &state.config else { return Vec::new() };
        let counts = self.directory.count_by_disk();
        let mut views: Vec<HostView> =
            config.hosts.iter().map(|host| host_view(state, config, host, &counts)).collect();
        views.sort_by(|a, b| a.name.cmp(&b.name));
        views
    }

    fn disk_views(&self, state: &State) -> Vec<DiskView> {
        let Some(config) = &state.config else { return Vec::new() };
        let counts = self.directory.count_by_disk();
        let (promised, bad) = (reserved(state), bad_blocks(state));
        let mut views: Vec<DiskView> =
            config.disks.iter().map(|disk| self.disk_view(state, disk, &counts, &promised, &bad)).collect();
        views.sort_by(|a, b| (&a.host, &a.name).cmp(&(&b.host, &b.name)));
        views
    }

    fn disk_view(
        &self,
        state: &State,
        disk: &ConfigDisk,
        counts: &BTreeMap<DiskId, u32>,
        promised: &BTreeMap<DiskId, u64>,
        bad: &BTreeMap<DiskId, u64>,
    ) -> DiskView {
        let run = state.disks.get(&disk.id);
        let label = run.and_then(|run| run.label.as_ref());
        let known = label.and_then(|label| label.superblock().groups.first().map(|known| known.group));
        let group = known.unwrap_or(disk.disk_group);
        let dg = self.directory.group(group);
        let usage = dg.as_ref().and_then(|dg| dg.usage(disk.id));
        let size_bytes = run.and_then(|run| run.disk.as_ref()).map_or(0, |open| open.geometry().size_bytes);
        let log = |group| self.directory.group(group).map_or(0, |dg| dg.log_usage().used_bytes);
        let log_used: u64 = if disk.role == DiskRole::Cache { disk.groups().map(log).sum() } else { 0 };
        // What lies outside the extents (labels, the log of a combined disk) takes no components either.
        let outside = usage.map_or(0, |usage| size_bytes.saturating_sub(usage.size_bytes));
        let fault = state.faults.disk(disk.id);
        let failed = dg.as_ref().is_some_and(|dg| dg.is_failed() || dg.failed_disks().contains(&disk.id));
        let here = label.is_some() && state.hosts.get(&disk.host).is_some_and(|run| run.up && run.reachable);
        let disk_state = match (here, failed || fault.failing, fault.full, fault.slow_ms > 0) {
            (false, ..) => DiskState::Absent,
            (_, true, ..) => DiskState::Failed,
            (_, _, true, _) => DiskState::Full,
            (.., true) => DiskState::Slow,
            _ => DiskState::Healthy,
        };
        let usage = usage.unwrap_or_default();
        // A write under way may be one that its volume was promised room for.
        let under_way = usage.reserved_bytes - usage.metadata_due_bytes;
        let promised_bytes = promised.get(&disk.id).copied().unwrap_or(0);
        DiskView {
            id: disk.id,
            name: disk.name.clone(),
            host: host_name(state, disk.host),
            path: path_of(state, disk.id),
            size_bytes,
            media: label.map_or(Media::Flash, |label| label.superblock().media),
            role: disk.role,
            disk_group: Some(group),
            serves: disk.serves.clone(),
            used_bytes: log_used + outside + usage.data_bytes + usage.metadata_bytes + usage.bad_bytes,
            reserved_bytes: usage.metadata_due_bytes + under_way.max(promised_bytes),
            metadata_bytes: outside + usage.metadata_bytes,
            state: disk_state,
            components: counts.get(&disk.id).copied().unwrap_or(0),
            checksum_errors: bad.get(&disk.id).copied().unwrap_or(0),
            faults: fault.words(),
        }
    }

    fn resync_view(&self, state: &State, objects: &[Arc<ObjectView>]) -> ResyncView {
        let mut view = ResyncView { limit_bytes_per_second: self.pace.limit(), ..ResyncView::default() };
        let now = self.env.wall();
        for object in objects {
            if let Some(starts_at) = object.repair_at {
                let why = object.reason.clone().unwrap_or_default();
                let object_name = object.name.clone();
                view.scheduled.push(ScheduledRepair { object: object.uuid, object_name, starts_at, why });
            }
            let Some(owner) = state.objects.get(&object.uuid).and_then(|run| run.owner.as_ref()) else {
                continue;
            };
            let replacing = state.objects.get(&object.uuid).map(|run| &run.replacing);
            let leaves = object.tree.leaves();
            let host = |component| {
                leaves.iter().find(|(leaf, _)| leaf.uuid == component).map(|(leaf, _)| leaf.host.clone())
            };
            let running = owner.resyncs();
            for (component, progress) in &running {
                let built = leaves
                    .iter()
                    .any(|(leaf, _)| leaf.uuid == *component && leaf.state == ComponentState::Reconfiguring);
                let reason = match (built, replacing.is_some_and(|set| set.contains(component))) {
                    (_, true) => ResyncReason::Repair,
                    (true, false) => ResyncReason::PolicyChange,
                    (false, false) => ResyncReason::Stale,
                };
                let done = progress.bytes_done.get().min(progress.bytes_total);
                let ms = now.0.saturating_sub(progress.started_at.0).max(0) as u64;
                view.items.push(ResyncItem {
                    object: object.uuid,
                    object_name: object.name.clone(),
                    component: *component,
                    run: progress.run,
                    reason,
                    state: ResyncState::Active,
                    from: host(progress.source).unwrap_or_default(),
                    to: host(*component).unwrap_or_default(),
                    bytes_total: progress.bytes_total,
                    bytes_done: done,
                    bytes_per_second: (ms >= 2000).then(|| done.saturating_mul(1000) / ms),
                    started_at: progress.started_at,
                });
            }
            let waiting = leaves.iter().filter(|(leaf, witness)| {
                let behind = matches!(leaf.state, ComponentState::Stale | ComponentState::Reconfiguring);
                !witness && behind && !running.iter().any(|(component, _)| *component == leaf.uuid)
            });
            for (leaf, _) in waiting {
                view.items.push(ResyncItem {
                    object: object.uuid,
                    object_name: object.name.clone(),
                    component: leaf.uuid,
                    run: 0,
                    reason: if leaf.state == ComponentState::Stale {
                        ResyncReason::Stale
                    } else {
                        ResyncReason::PolicyChange
                    },
                    state: ResyncState::Queued,
                    from: String::new(),
                    to: leaf.host.clone(),
                    bytes_total: leaf.bytes_to_sync,
                    bytes_done: 0,
                    bytes_per_second: None,
                    started_at: now,
                });
            }
        }
        view
    }
}

/// When the timer of the first absent component ends.
fn repair_at(legs: &[&Leg], delay_seconds: u32) -> Option<Timestamp> {
    let absent = legs.iter().filter(|leg| leg.state == ComponentState::Absent);
    absent.filter_map(|leg| leg.absent_since).map(|since| due(since, delay_seconds)).min()
}

/// Bytes of the largest copy of each row, summed: what clients have written and still hold.
fn largest_copy(layout: &crate::fmt::descriptor::Node, leaves: &[(&ComponentView, bool)]) -> u64 {
    let used = |leg: &&Leg| {
        leaves.iter().find(|(leaf, _)| leaf.uuid == leg.component).map_or(0, |(leaf, _)| leaf.used_bytes)
    };
    let rows = pieces(layout);
    rows.iter().flatten().map(|row| row.iter().map(used).max().unwrap_or(0)).sum()
}

/// Bytes promised by reservations and not yet written, with what the map of these will take, by disk.
fn reserved(state: &State) -> BTreeMap<DiskId, u64> {
    let mut promised = BTreeMap::new();
    for object in state.objects.values() {
        let descriptor = object.descriptor();
        let percent = u64::from(descriptor.policy.object_space_reservation_percent);
        if percent == 0 {
            continue;
        }
        let leaves: BTreeMap<_, _> = object
            .view
            .iter()
            .flat_map(|view| view.tree.leaves())
            .map(|(leaf, _)| (leaf.uuid, leaf.used_bytes))
            .collect();
        for leg in descriptor.layout.legs() {
            let used = leaves.get(&leg.component).copied().unwrap_or(0);
            let asked = (u128::from(leg.size_bytes) * u128::from(percent)).div_ceil(100) as u64;
            let asked = asked.next_multiple_of(EXTENT_BYTES);
            let to_come = (asked + map_bytes(asked)).saturating_sub(used + map_bytes(used));
            *promised.entry(leg.disk).or_default() += to_come;
        }
    }
    promised
}

/// Blocks found bad since the start, by disk.
fn bad_blocks(state: &State) -> BTreeMap<DiskId, u64> {
    let mut bad = BTreeMap::new();
    for owner in state.objects.values().filter_map(|object| object.owner.as_ref()) {
        for leg in owner.descriptor().layout.legs() {
            *bad.entry(leg.disk).or_default() += owner.bad_blocks(leg.component);
        }
    }
    bad
}

fn host_view(
    state: &State,
    config: &ClusterConfig,
    host: &ConfigHost,
    counts: &BTreeMap<DiskId, u32>,
) -> HostView {
    let run = state.hosts.get(&host.id);
    let up = run.is_some_and(|run| run.up && run.reachable);
    let disks = || config.disks.iter().filter(|disk| disk.host == host.id);
    let groups: std::collections::BTreeSet<_> = disks()
        .filter(|disk| disk.role != DiskRole::Cache)
        .map(|disk| {
            let label = state.disks.get(&disk.id).and_then(|run| run.label.as_ref());
            label
                .and_then(|label| label.superblock().groups.first().map(|known| known.group))
                .unwrap_or(disk.disk_group)
        })
        .collect();
    HostView {
        id: host.id,
        name: host.name.clone(),
        kind: host.kind,
        role: host.role,
        state: match (host.maintenance, up) {
            (true, _) => HostState::Maintenance,
            (false, true) => HostState::Connected,
            (false, false) => HostState::Absent,
        },
        state_since: run.map_or(config.created_at, |run| run.since),
        fault_domain: host.fault_domain.clone(),
        site: host.site.clone(),
        disk_groups: groups.len() as u32,
        components: disks().filter_map(|disk| counts.get(&disk.id)).sum(),
        components_max: HOST_COMPONENTS_MAX,
        faults: state.faults.host(&host.name).words(),
    }
}

fn cluster_view(state: &State) -> ClusterView {
    let writable = state.life == ClusterState::Ready;
    let Some(config) = &state.config else {
        return ClusterView {
            id: ClusterId(uuid::Uuid::nil()),
            name: String::new(),
            cluster_type: ClusterType::SingleSite,
            state: state.life,
            state_reason: state.reason.clone(),
            writable: true,
            fault_domains: Vec::new(),
            sites: Vec::new(),
            default_policy: "default".into(),
            repair_delay_seconds: model::units::REPAIR_DELAY_SECONDS,
            licence_key: None,
            created_at: Timestamp::default(),
            config_version: (0, 0),
        };
    };
    let mut domains: BTreeMap<&str, Vec<String>> = BTreeMap::new();
    for host in &config.hosts {
        if let Some(domain) = &host.fault_domain {
            domains.entry(domain).or_default().push(host.name.clone());
        }
    }
    let site = |name: &String| SiteView {
        name: name.clone(),
        hosts: config
            .hosts
            .iter()
            .filter(|host| host.site.as_ref() == Some(name))
            .map(|host| host.name.clone())
            .collect(),
    };
    ClusterView {
        id: config.id,
        name: config.name.clone(),
        cluster_type: config.cluster_type,
        state: state.life,
        state_reason: state.reason.clone(),
        writable,
        fault_domains: domains
            .into_iter()
            .map(|(name, hosts)| FaultDomainView { name: name.to_owned(), hosts })
            .collect(),
        sites: config.sites.iter().map(site).collect(),
        default_policy: config.default_policy.clone(),
        repair_delay_seconds: config.repair_delay_seconds,
        licence_key: config.licence_key.clone(),
        created_at: config.created_at,
        config_version: config.version,
    }
}

fn host_name(state: &State, id: HostId) -> String {
    let hosts = state.config.iter().flat_map(|config| &config.hosts);
    hosts.into_iter().find(|host| host.id == id).map_or_else(|| id.to_string(), |host| host.name.clone())
}

/// The effective fault domain of a host as it is now.
fn domain_of(state: &State, id: HostId) -> Option<String> {
    let mut hosts = state.config.iter().flat_map(|config| &config.hosts);
    hosts
        .find(|host| host.id == id)
        .map(|host| host.fault_domain.clone().unwrap_or_else(|| host.name.clone()))
}

fn path_of(state: &State, disk: DiskId) -> String {
    state.disks.get(&disk).map(|run| run.path.display().to_string()).unwrap_or_default()
}
