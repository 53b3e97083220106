//! A believable snapshot of any size from a seed, consistent in itself: real placement, real votes, derived health.
use crate::arithmetic::legs;
use crate::health::{Facts, derive};
use crate::ids::{ClusterId, ComponentId, DiskGroupId, DiskId, HostId, ObjectId};
use crate::placement::{Placement, PlannedLeg, Room, Topology, place};
use crate::policy::{FaultToleranceMethod, Policy};
use crate::state::{
    ClusterState, ClusterType, ComponentState, DiskRole, DiskState, HostKind, HostRole, HostState, Media,
    ObjectHealth, ResyncReason, ResyncState,
};
use crate::tree::tree;
use crate::units::{REPAIR_DELAY_SECONDS, Timestamp};
use crate::view::{
    ClusterView, ComponentView, DiskView, HostView, ObjectType, ObjectView, ResyncItem, ResyncView,
    ScheduledRepair, Snapshot,
};
use std::collections::BTreeMap;
use std::sync::Arc;

/// Components that a host may carry. Source: vSAN, 9,000.
const COMPONENTS_MAX: u32 = 9_000;
/// Capacity disks behind one cache disk.
const GROUP_DISKS: u32 = 7;
/// Hosts that one object may choose from: enough for every policy with two to spare.
const HOSTS_A_CHOICE: u64 = 9;
/// When the recording was made: a fixed moment, so that equal seeds give equal snapshots.
const TAKEN_AT: Timestamp = Timestamp(1_760_000_000_000);

/// What to make.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct GenerateSpec {
    /// Equal seeds give equal snapshots.
    pub seed: u64,
    /// Hosts, at least 1.
    pub hosts: u32,
    /// Capacity disks a host, at least 1; every seven get a cache disk.
    pub disks_per_host: u32,
    /// Objects.
    pub objects: u32,
    /// Hosts that are absent; the repair timer of their components runs.
    pub faults: u32,
}

/// Numbers from a seed (splitmix64): not random, only well mixed.
struct Mix(u64);

impl Mix {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mut mixed = self.0;
        mixed = (mixed ^ (mixed >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        mixed = (mixed ^ (mixed >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ (mixed >> 31)
    }

    fn below(&mut self, bound: u64) -> u64 {
        self.next() % bound.max(1)
    }

    fn id(&mut self) -> [u8; 16] {
        (u128::from(self.next()) << 64 | u128::from(self.next())).to_be_bytes()
    }
}

/// Makes a snapshot. Objects that find no place are left out, so a tiny cluster has fewer than asked for.
pub fn generate(spec: GenerateSpec) -> Snapshot {
    let mut mix = Mix(spec.seed);
    let mut snapshot = Snapshot {
        version: 1,
        taken_at: TAKEN_AT,
        cluster: cluster(&mut mix),
        hosts: Vec::new(),
        disks: Vec::new(),
        policies: policies(spec.hosts),
        objects: Vec::new(),
        resync: ResyncView::default(),
        tasks: Vec::new(),
    };
    let absent = spec.faults.min(spec.hosts);
    for number in 1..=spec.hosts.max(1) {
        let away = number > spec.hosts - absent;
        add_host(&mut snapshot, &mut mix, number, spec.disks_per_host.max(1), away);
    }
    let mut rooms: Vec<Vec<Room>> = vec![Vec::new(); snapshot.hosts.len()];
    let index_of: BTreeMap<String, usize> =
        snapshot.hosts.iter().enumerate().map(|(index, host)| (host.name.clone(), index)).collect();
    for mut room in Topology::from_snapshot(&snapshot).rooms {
        // The objects were made before the faults.
        room.unusable = None;
        rooms[index_of[&room.host]].push(room);
    }
    for number in 0..spec.objects {
        if let Some(object) = object(&mut snapshot, &mut mix, &mut rooms, number) {
            snapshot.objects.push(Arc::new(object));
        }
    }
    settle(&mut snapshot);
    snapshot
}

fn cluster(mix: &mut Mix) -> ClusterView {
    ClusterView {
        id: ClusterId::from_random(mix.id()),
        name: "recorded".into(),
        cluster_type: ClusterType::SingleSite,
        state: ClusterState::Ready,
        state_reason: None,
        writable: false,
        fault_domains: Vec::new(),
        sites: Vec::new(),
        default_policy: "default".into(),
        repair_delay_seconds: REPAIR_DELAY_SECONDS,
        licence_key: None,
        created_at: Timestamp(TAKEN_AT.0 - 90 * 86_400_000),
        config_version: (3, 7),
    }
}

/// The built-in policy and those that this number of hosts can satisfy.
fn policies(hosts: u32) -> Vec<Policy> {
    use FaultToleranceMethod::{Raid1, Raid5, Raid6};
    let make = |name: &str, method, failures| Policy {
        name: name.into(),
        fault_tolerance_method: method,
        failures_to_tolerate: failures,
        ..Policy::built_in()
    };
    let all = [
        (1, make("archive", Raid1, 0)),
        (3, Policy::built_in()),
        (5, make("gold", Raid1, 2)),
        (4, make("silver", Raid5, 1)),
        (6, make("vault", Raid6, 2)),
        (3, Policy { stripe_width: 2, ..make("wide", Raid1, 1) }),
    ];
    all.into_iter()
        .filter(|(needs, policy)| hosts >= *needs || policy.name == "default")
        .map(|(_, policy)| policy)
        .collect()
}

fn add_host(snapshot: &mut Snapshot, mix: &mut Mix, number: u32, disks: u32, away: bool) {
    let host = format!("h{number}");
    let groups = disks.div_ceil(GROUP_DISKS);
    for group in 0..groups {
        let id = DiskGroupId::from_random(mix.id());
        let cache = format!("{host}-cache{}", group + 1);
        add_disk(snapshot, mix, &host, cache, (DiskRole::Cache, 800 << 30, id), away);
        for disk in group * GROUP_DISKS..((group + 1) * GROUP_DISKS).min(disks) {
            let size_bytes = (4 << 40) + (mix.below(3) << 40);
            add_disk(
                snapshot,
                mix,
                &host,
                format!("{host}-cap{}", disk + 1),
                (DiskRole::Capacity, size_bytes, id),
                away,
            );
        }
    }
    snapshot.hosts.push(HostView {
        id: HostId::from_random(mix.id()),
        name: host,
        kind: HostKind::Lab,
        role: HostRole::Data,
        state: if away { HostState::Absent } else { HostState::Connected },
        state_since: if away { Timestamp(TAKEN_AT.0 - 600_000) } else { snapshot.cluster.created_at },
        fault_domain: None,
        site: None,
        disk_groups: groups,
        components: 0,
        components_max: COMPONENTS_MAX,
        faults: if away { vec!["power-off".into()] } else { Vec::new() },
    });
}

fn add_disk(
    snapshot: &mut Snapshot,
    mix: &mut Mix,
    host: &str,
    name: String,
    (role, size_bytes, group): (DiskRole, u64, DiskGroupId),
    away: bool,
) {
    snapshot.disks.push(DiskView {
        id: DiskId::from_random(mix.id()),
        path: format!("/var/lib/millpond/lab/{host}/{name}.img"),
        name,
        host: host.into(),
        size_bytes,
        media: Media::Flash,
        role,
        disk_group: Some(group),
        serves: Vec::new(),
        used_bytes: 1 << 30,
        reserved_bytes: 0,
        metadata_bytes: 1 << 30,
        state: if away { DiskState::Absent } else { DiskState::Healthy },
        components: 0,
        checksum_errors: 0,
        faults: Vec::new(),
    });
}

/// Places one object on some of the hosts, and takes the room.
fn object(
    snapshot: &mut Snapshot,
    mix: &mut Mix,
    rooms: &mut [Vec<Room>],
    number: u32,
) -> Option<ObjectView> {
    let policy = snapshot.policies[mix.below(snapshot.policies.len() as u64) as usize].clone();
    let size_bytes = (1 + mix.below(64)) << 30;
    let used_bytes = size_bytes / 100 * mix.below(70) / 4096 * 4096;
    let count = rooms.len() as u64;
    let first = mix.below(count);
    let chosen: Vec<usize> =
        (0..HOSTS_A_CHOICE.min(count)).map(|step| ((first + step) % count) as usize).collect();
    let mut topology = Topology::default();
    for host in &chosen {
        let disks = rooms[*host].len() as u64;
        let from = mix.below(disks);
        topology
            .rooms
            .extend((0..disks.min(4)).map(|step| rooms[*host][((from + step) % disks) as usize].clone()));
    }
    let placement = place(&topology, &policy, size_bytes).ok()?;
    let (_, data_legs) = legs(&policy);
    let rows = placement.rows().len() as u64;
    let leg_used = used_bytes / u64::from(data_legs) / rows;
    let mut view = |leg: &PlannedLeg, used: u64| {
        if let Some(room) = rooms.iter_mut().flatten().find(|room| room.disk == leg.disk) {
            room.free_bytes = room.free_bytes.saturating_sub(used);
            room.components += 1;
            room.promised_bytes += leg.size_bytes.saturating_sub(used);
        }
        component(snapshot, mix, leg, used)
    };
    let pieces = pieces(&policy, &placement, &mut |leg| view(leg, leg_used));
    let witnesses = placement.witnesses.iter().map(|leg| view(leg, 0)).collect();
    let tree = tree(policy.fault_tolerance_method, pieces, witnesses);
    Some(finished(snapshot, mix, &policy, tree, (number, size_bytes, used_bytes)))
}

fn pieces(
    policy: &Policy,
    placement: &Placement,
    view: &mut dyn FnMut(&PlannedLeg) -> ComponentView,
) -> Vec<Vec<Vec<ComponentView>>> {
    let rows: Vec<Vec<ComponentView>> =
        placement.rows().into_iter().map(|row| row.iter().map(&mut *view).collect()).collect();
    rows.chunks(usize::from(policy.stripe_width.max(1))).map(<[_]>::to_vec).collect()
}

fn component(snapshot: &Snapshot, mix: &mut Mix, leg: &PlannedLeg, used_bytes: u64) -> ComponentView {
    let host = snapshot.hosts.iter().find(|host| host.name == leg.host);
    let since = host.map_or(TAKEN_AT, |host| host.state_since);
    let away = host.is_some_and(|host| host.state == HostState::Absent);
    let disk = snapshot.disks.iter().find(|disk| disk.id == leg.disk);
    ComponentView {
        uuid: ComponentId::from_random(mix.id()),
        state: if away { ComponentState::Absent } else { ComponentState::Active },
        state_since: since,
        votes: leg.votes,
        host: leg.host.clone(),
        fault_domain: leg.fault_domain.clone(),
        disk: leg.disk,
        disk_path: disk.map_or_else(String::new, |disk| disk.path.clone()),
        used_bytes,
        bytes_to_sync: 0,
        reason: away.then(|| format!("{} is absent", leg.host)),
    }
}

fn finished(
    snapshot: &Snapshot,
    mix: &mut Mix,
    policy: &Policy,
    tree: crate::view::TreeNode,
    (number, size_bytes, used_bytes): (u32, u64, u64),
) -> ObjectView {
    let away = tree.leaves().iter().any(|(leaf, _)| leaf.state == ComponentState::Absent);
    let repair_at = away.then(|| {
        Timestamp(TAKEN_AT.0 - 600_000).plus_seconds(u64::from(snapshot.cluster.repair_delay_seconds))
    });
    let facts = Facts {
        tree: &tree,
        policy,
        policy_version: policy.version,
        repair_at,
        cannot_rebuild: None,
        moving: false,
        cannot_open: None,
    };
    let derived = derive(&facts);
    ObjectView {
        uuid: ObjectId::from_random(mix.id()),
        name: format!("volume-{number:06}"),
        object_type: ObjectType::Volume,
        size_bytes,
        used_bytes,
        used_raw_bytes: tree.leaves().iter().map(|(leaf, _)| leaf.used_bytes).sum(),
        policy: policy.name.clone(),
        policy_version: policy.version,
        compliance: derived.compliance,
        health: derived.health,
        reason: derived.reason,
        accessible: derived.accessible,
        votes: derived.votes,
        tolerates_now: derived.tolerates_now,
        repair_at: repair_at.filter(|_| derived.health == ObjectHealth::ReducedWaiting),
        csn: (3, 1),
        created_at: Timestamp(snapshot.cluster.created_at.0 + i64::from(number) * 1000),
        tree,
    }
}

/// Sums that follow from the objects: components and bytes of hosts and disks, scheduled repairs, one resync.
fn settle(snapshot: &mut Snapshot) {
    let mut of_disk: BTreeMap<DiskId, (u32, u64)> = BTreeMap::new();
    for object in &snapshot.objects {
        object.tree.for_each_leaf(&mut |leaf, _| {
            let sums = of_disk.entry(leaf.disk).or_default();
            sums.0 += 1;
            sums.1 += leaf.used_bytes;
        });
        if let Some(starts_at) = object.repair_at {
            let why = object.reason.clone().unwrap_or_default();
            let object_name = object.name.clone();
            snapshot.resync.scheduled.push(ScheduledRepair {
                object: object.uuid,
                object_name,
                starts_at,
                why,
            });
        }
    }
    let mut of_host: BTreeMap<&str, u32> = BTreeMap::new();
    for disk in &mut snapshot.disks {
        let (components, bytes) = of_disk.get(&disk.id).copied().unwrap_or_default();
        disk.components = components;
        disk.used_bytes += bytes;
        *of_host.entry(&disk.host).or_default() += components;
    }
    for host in &mut snapshot.hosts {
        host.components = of_host.get(host.name.as_str()).copied().unwrap_or(0);
    }
    if !snapshot.resync.scheduled.is_empty() {
        resync_one(snapshot);
    }
}

/// Shows one healthy object as being resynced after a short absence, so that pages have something that moves.
fn resync_one(snapshot: &mut Snapshot) {
    let redundant = |object: &&mut Arc<ObjectView>| object.reason.is_none() && object.tolerates_now > 0;
    let Some(slot) = snapshot.objects.iter_mut().find(redundant) else { return };
    let mut object = ObjectView::clone(slot);
    let from = object.tree.leaves().last().map(|(leaf, _)| leaf.host.clone());
    let Some((target, total)) = set_resyncing(&mut object.tree) else { return };
    let policy = snapshot.policies.iter().find(|policy| policy.name == object.policy);
    let Some(policy) = policy else { return };
    let facts = Facts {
        tree: &object.tree,
        policy,
        policy_version: policy.version,
        repair_at: None,
        cannot_rebuild: None,
        moving: false,
        cannot_open: None,
    };
    let derived = derive(&facts);
    (object.health, object.reason, object.compliance) = (derived.health, derived.reason, derived.compliance);
    (object.accessible, object.tolerates_now, object.repair_at) =
        (derived.accessible, derived.tolerates_now, None);
    snapshot.resync.items.push(ResyncItem {
        object: object.uuid,
        object_name: object.name.clone(),
        component: target.uuid,
        run: 1,
        reason: ResyncReason::Stale,
        state: ResyncState::Active,
        from: from.unwrap_or_default(),
        to: target.host,
        bytes_total: total,
        bytes_done: total - total / 2,
        bytes_per_second: Some(100 << 20),
        started_at: Timestamp(TAKEN_AT.0 - 30_000),
    });
    *slot = Arc::new(object);
}

/// Makes the first data leaf a resyncing one; answers it and the bytes of its run.
fn set_resyncing(node: &mut crate::view::TreeNode) -> Option<(ComponentView, u64)> {
    use crate::view::TreeNode::*;
    match node {
        Component(leaf) => {
            let total = leaf.used_bytes;
            leaf.state = ComponentState::Resyncing;
            leaf.bytes_to_sync = total / 2;
            leaf.reason = Some("catching up after an absence".into());
            Some((leaf.clone(), total))
        }
        Witness(_) => None,
        Concat { children }
        | Raid0 { children }
        | Raid1 { children }
        | Raid5 { children }
        | Raid6 { children } => children.iter_mut().find_map(set_resyncing),
    }
}
