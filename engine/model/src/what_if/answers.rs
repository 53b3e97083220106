//! The answers, from a snapshot alone.
use super::{Answer, FailTarget, ObjectRef, Question};
use crate::arithmetic::{Rewrite, capacity_factor, fault_domains_needed, legs, rewrite};
use crate::availability::{Reach, availability, availability_now};
use crate::ids::DiskId;
use crate::placement::{
    COMPONENT_METADATA_BYTES, Placement, SpareNeed, StayingLeg, Topology, nearest_policies, place, place_one,
};
use crate::policy::Policy;
use crate::view::{ComponentView, ObjectView, Snapshot, TreeNode};
use std::collections::BTreeSet;

/// Answers a question about a snapshot. Pure; nothing is reserved.
pub fn answer(snapshot: &Snapshot, question: &Question) -> Answer {
    let mut topology = Topology::from_snapshot(snapshot);
    let domains = u32::try_from(topology.usable_domains().len()).unwrap_or(u32::MAX);
    let mut answer = match question {
        Question::Fail { targets } => fail(snapshot, &mut topology, &failed_disks(snapshot, targets)),
        Question::Maintenance { host } => {
            let targets = [FailTarget::Host(host.clone())];
            fail(snapshot, &mut topology, &failed_disks(snapshot, &targets))
        }
        Question::CreateVolume { size_bytes, policy } => create(snapshot, &mut topology, policy, *size_bytes),
        Question::PutPolicy { policy } => put_policy(snapshot, &mut topology, policy),
    };
    answer.has_fault_domains = domains;
    answer.fullest_disk_percent = fullest_percent(snapshot, &topology);
    answer
}

/// Disks that fail with the targets, those of witness-only hosts included.
fn failed_disks(snapshot: &Snapshot, targets: &[FailTarget]) -> BTreeSet<DiskId> {
    let hit = |host: &str, disk: DiskId, target: &FailTarget| match target {
        FailTarget::Disk(id) => *id == disk,
        FailTarget::Host(name) => name == host,
        FailTarget::FaultDomain(name) => snapshot.hosts.iter().any(|view| {
            view.name == host && view.fault_domain.as_deref().unwrap_or(&view.name) == name.as_str()
        }),
        FailTarget::Site(name) => {
            snapshot.hosts.iter().any(|view| view.name == host && view.site.as_ref() == Some(name))
        }
    };
    let direct =
        snapshot.disks.iter().filter(|disk| targets.iter().any(|target| hit(&disk.host, disk.id, target)));
    let mut failed: BTreeSet<DiskId> = direct.map(|disk| disk.id).collect();
    // A cache disk takes its whole disk group with it.
    let groups: BTreeSet<_> = snapshot
        .disks
        .iter()
        .filter(|disk| disk.role == crate::state::DiskRole::Cache && failed.contains(&disk.id))
        .flat_map(|disk| disk.disk_group.iter().chain(&disk.serves).copied())
        .collect();
    let members =
        snapshot.disks.iter().filter(|disk| disk.disk_group.is_some_and(|group| groups.contains(&group)));
    failed.extend(members.map(|disk| disk.id));
    failed
}

fn named(object: &ObjectView) -> ObjectRef {
    ObjectRef { uuid: object.uuid, name: object.name.clone() }
}

fn fail(snapshot: &Snapshot, topology: &mut Topology, failed: &BTreeSet<DiskId>) -> Answer {
    for room in topology.rooms.iter_mut().filter(|room| failed.contains(&room.disk)) {
        room.unusable = Some(format!("{} would have failed", room.disk_name));
    }
    let mut answer = Answer { rebuild_fits: true, satisfiable: true, ..Answer::default() };
    for object in &snapshot.objects {
        let leaves = object.tree.leaves();
        let lost = |leaf: &ComponentView| failed.contains(&leaf.disk) && Reach::now(leaf) != Reach::Gone;
        if !leaves.iter().any(|(leaf, _)| lost(leaf)) {
            answer.unaffected += 1;
            continue;
        }
        let reach =
            |leaf: &ComponentView| if failed.contains(&leaf.disk) { Reach::Gone } else { Reach::now(leaf) };
        if availability(&object.tree, &reach).accessible {
            answer.reduced.push(named(object));
        } else if availability_now(&object.tree).accessible {
            answer.inaccessible.push(named(object));
        } else {
            answer.unaffected += 1;
            continue;
        }
        rebuild(snapshot, topology, object, failed, &mut answer);
    }
    answer
}

/// Takes room for what one object loses.
fn rebuild(
    snapshot: &Snapshot,
    topology: &mut Topology,
    object: &ObjectView,
    failed: &BTreeSet<DiskId>,
    answer: &mut Answer,
) {
    let policy = snapshot.policies.iter().find(|policy| policy.name == object.policy);
    let domains = policy.map_or(1, fault_domains_needed) as usize;
    let replicas = replicas(&object.tree);
    let mut staying: Vec<StayingLeg> = replicas
        .iter()
        .filter(|(leaf, _)| !failed.contains(&leaf.disk))
        .map(|(leaf, replica)| StayingLeg { disk: leaf.disk, replica: *replica })
        .collect();
    for (leaf, replica) in replicas.iter().filter(|(leaf, _)| failed.contains(&leaf.disk)) {
        answer.bytes_to_move += leaf.used_bytes;
        let need =
            SpareNeed { bytes: leaf.used_bytes + COMPONENT_METADATA_BYTES, replica: *replica, domains };
        match place_one(topology, need, &staying) {
            Ok(disk) => {
                take(topology, disk, need.bytes);
                staying.push(StayingLeg { disk, replica: *replica });
            }
            Err(refusal) => {
                answer.rebuild_fits = false;
                answer.refusal.get_or_insert(refusal);
            }
        }
    }
}

/// Leaves with their place within their row; `None` for witnesses.
fn replicas(tree: &TreeNode) -> Vec<(&ComponentView, Option<usize>)> {
    fn walk<'a>(node: &'a TreeNode, replica: usize, found: &mut Vec<(&'a ComponentView, Option<usize>)>) {
        match node {
            TreeNode::Component(leaf) => found.push((leaf, Some(replica))),
            TreeNode::Witness(leaf) => found.push((leaf, None)),
            TreeNode::Concat { children } | TreeNode::Raid0 { children } => {
                children.iter().for_each(|child| walk(child, replica, found));
            }
            TreeNode::Raid1 { children } | TreeNode::Raid5 { children } | TreeNode::Raid6 { children } => {
                children.iter().enumerate().for_each(|(place, child)| walk(child, place, found));
            }
        }
    }
    let mut found = Vec::new();
    walk(tree, 0, &mut found);
    found
}

fn take(topology: &mut Topology, disk: DiskId, bytes: u64) {
    if let Some(room) = topology.rooms.iter_mut().find(|room| room.disk == disk) {
        room.free_bytes = room.free_bytes.saturating_sub(bytes);
        room.components += 1;
    }
}

fn take_all(topology: &mut Topology, placement: &Placement, bytes_of_leg: impl Fn(u64) -> u64) {
    for leg in placement.legs().into_iter().chain(&placement.witnesses) {
        take(topology, leg.disk, leg.reserve_bytes.max(bytes_of_leg(leg.size_bytes)));
    }
}

fn create(snapshot: &Snapshot, topology: &mut Topology, policy: &Policy, size_bytes: u64) -> Answer {
    let mut answer = about(policy);
    match place(topology, policy, size_bytes) {
        Ok(placement) => {
            answer.satisfiable = placement.tolerates >= policy.failures_to_tolerate;
            answer.rebuild_fits = true;
            take_all(topology, &placement, |_| 0);
        }
        Err(refusal) => {
            answer.nearest = nearest_policies(topology, policy, size_bytes);
            answer.refusal = Some(refusal);
        }
    }
    answer.unaffected = snapshot.objects.len() as u64;
    answer
}

fn about(policy: &Policy) -> Answer {
    Answer {
        needs_fault_domains: fault_domains_needed(policy),
        capacity_factor: capacity_factor(policy),
        ..Answer::default()
    }
}

fn put_policy(snapshot: &Snapshot, topology: &mut Topology, policy: &Policy) -> Answer {
    let mut answer = Answer { satisfiable: true, rebuild_fits: true, ..about(policy) };
    let old = snapshot.policies.iter().find(|old| old.name == policy.name);
    let users: Vec<_> = snapshot.objects.iter().filter(|object| object.policy == policy.name).collect();
    answer.unaffected = (snapshot.objects.len() - users.len()) as u64;
    if let Err(refusal) = place(topology, policy, crate::units::VOLUME_BYTES_MIN) {
        answer.nearest = nearest_policies(topology, policy, crate::units::VOLUME_BYTES_MIN);
        refuse(&mut answer, refusal);
    }
    let change = old.map_or(Rewrite::Nothing, |old| rewrite(old, policy));
    for object in users {
        match change {
            Rewrite::Nothing => {
                answer.unaffected += 1;
                continue;
            }
            Rewrite::DropLegs(_) => {}
            Rewrite::AddLegs(count) => {
                let bytes = object.used_bytes.saturating_mul(u64::from(count));
                answer.bytes_to_move += bytes;
                answer.peak_extra_bytes += bytes;
                add_legs(topology, object, policy, count, &mut answer);
            }
            Rewrite::Rebuild => {
                let (all, data) = legs(policy);
                let bytes = object.used_bytes.div_ceil(u64::from(data)).saturating_mul(u64::from(all));
                answer.bytes_to_move += bytes;
                answer.peak_extra_bytes += bytes;
                let share = object.used_bytes as f64 / object.size_bytes.max(1) as f64;
                match place(topology, policy, object.size_bytes) {
                    Ok(new) => take_all(topology, &new, |leg_bytes| (leg_bytes as f64 * share) as u64),
                    Err(refusal) => refuse(&mut answer, refusal),
                }
            }
        }
        answer.objects.push(named(object));
    }
    answer
}

/// Takes room for `count` more copies of a mirror, and for the witnesses that go with them.
fn add_legs(topology: &mut Topology, object: &ObjectView, policy: &Policy, count: u32, answer: &mut Answer) {
    let replicas = replicas(&object.tree);
    let copies = replicas.iter().filter_map(|(_, replica)| *replica).max().map_or(0, |last| last + 1);
    let rows = replicas.iter().filter(|(_, replica)| *replica == Some(0)).count();
    // Witnesses are placed anew, so only the copies stay in the way.
    let data = replicas.iter().filter(|(_, replica)| replica.is_some());
    let mut staying: Vec<StayingLeg> =
        data.map(|(leaf, replica)| StayingLeg { disk: leaf.disk, replica: *replica }).collect();
    let domains = fault_domains_needed(policy) as usize;
    let each = object.used_bytes / rows.max(1) as u64 + COMPONENT_METADATA_BYTES;
    for replica in copies..copies + count as usize {
        for _ in 0..rows {
            let need = SpareNeed { bytes: each, replica: Some(replica), domains };
            match place_one(topology, need, &staying) {
                Ok(disk) => {
                    take(topology, disk, each);
                    staying.push(StayingLeg { disk, replica: Some(replica) });
                }
                Err(refusal) => refuse(answer, refusal),
            }
        }
    }
}

fn refuse(answer: &mut Answer, refusal: crate::placement::Refusal) {
    answer.satisfiable = false;
    answer.rebuild_fits = false;
    answer.refusal.get_or_insert(refusal);
}

/// The fullest usable disk of the topology, 0..=100.
fn fullest_percent(snapshot: &Snapshot, topology: &Topology) -> u8 {
    let percent = |room: &crate::placement::Room| {
        let disk = snapshot.disks.iter().find(|disk| disk.id == room.disk)?;
        let used = disk.size_bytes.saturating_sub(room.free_bytes);
        u8::try_from((u128::from(used) * 100).checked_div(u128::from(disk.size_bytes))?).ok()
    };
    topology
        .rooms
        .iter()
        .filter(|room| room.unusable.is_none())
        .filter_map(percent)
        .max()
        .unwrap_or(0)
        .min(100)
}
