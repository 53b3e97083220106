//! What other fault domains would mean for the cluster and its volumes. Pure: the snapshot and the wished domains in.
//!
//! Invariant: putting other fault domains in force moves nothing by itself. Parts stay where they are; those that are made or
//! rebuilt afterwards follow the new domains. What a volume would need is therefore said as bytes that *have to* move.
use crate::app::{App, Cluster};
use crate::error::AppError;
use crate::service::cluster::snapshot_or_picture;
use crate::service::draft;
use model::arithmetic::fault_domains_needed;
use model::capacity::{EffectiveDomains, effective_domains};
use model::health::{Facts, derive};
use model::ids::{DiskId, ObjectId};
use model::placement::{COMPONENT_METADATA_BYTES, SpareNeed, StayingLeg, Topology, place_one};
use model::state::Compliance;
use model::view::{ComponentView, FaultDomainView, ObjectView, Snapshot, TreeNode};
use std::collections::{BTreeMap, BTreeSet};

/// A volume that the change touches.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Touched {
    /// Identity.
    pub uuid: ObjectId,
    /// Name.
    pub name: String,
    /// Failures it survives now.
    pub before: u32,
    /// And afterwards.
    pub after: u32,
    /// Whether its policy is kept now and not afterwards.
    pub breaks: bool,
}

/// Effective domains of the hosts when `named` are the named ones; a host without a usable disk counts in none.
pub fn effective(snapshot: &Snapshot, named: &[FaultDomainView]) -> EffectiveDomains {
    let topology = Topology::from_snapshot(snapshot);
    let usable: BTreeSet<&str> =
        topology.rooms.iter().filter(|room| room.unusable.is_none()).map(|room| room.host.as_str()).collect();
    let hosts: Vec<(&str, bool)> =
        snapshot.hosts.iter().map(|host| (host.name.as_str(), usable.contains(host.name.as_str()))).collect();
    effective_domains(&hosts, named)
}

fn moved(tree: &TreeNode, domains: &EffectiveDomains) -> TreeNode {
    let all = |children: &[TreeNode]| children.iter().map(|child| moved(child, domains)).collect();
    let leaf = |leaf: &model::view::ComponentView| {
        let mut leaf = leaf.clone();
        if let Some(domain) = domains.of_host.get(&leaf.host) {
            leaf.fault_domain.clone_from(domain);
        }
        leaf
    };
    match tree {
        TreeNode::Concat { children } => TreeNode::Concat { children: all(children) },
        TreeNode::Raid0 { children } => TreeNode::Raid0 { children: all(children) },
        TreeNode::Raid1 { children } => TreeNode::Raid1 { children: all(children) },
        TreeNode::Raid5 { children } => TreeNode::Raid5 { children: all(children) },
        TreeNode::Raid6 { children } => TreeNode::Raid6 { children: all(children) },
        TreeNode::Component(one) => TreeNode::Component(leaf(one)),
        TreeNode::Witness(one) => TreeNode::Witness(leaf(one)),
    }
}

fn touched(snapshot: &Snapshot, object: &ObjectView, domains: &EffectiveDomains) -> Option<Touched> {
    let policy = snapshot.policies.iter().find(|policy| policy.name == object.policy)?;
    let tree = moved(&object.tree, domains);
    let facts = Facts {
        tree: &tree,
        policy,
        policy_version: object.policy_version,
        repair_at: object.repair_at,
        cannot_rebuild: None,
        moving: false,
        cannot_open: None,
    };
    let after = derive(&facts);
    let before = derive(&Facts { tree: &object.tree, ..facts });
    let promised = u32::from(policy.failures_to_tolerate);
    let breaks = before.compliance == Compliance::Compliant && after.compliance == Compliance::NonCompliant
        || before.tolerates_now >= promised && after.tolerates_now < promised;
    let changed = breaks || before.tolerates_now != after.tolerates_now;
    changed.then(|| Touched {
        uuid: object.uuid,
        name: object.name.clone(),
        before: before.tolerates_now,
        after: after.tolerates_now,
        breaks,
    })
}

/// Volumes whose protection or compliance the change alters, those that lose first.
pub fn touched_volumes(snapshot: &Snapshot, domains: &EffectiveDomains) -> Vec<Touched> {
    let mut list: Vec<Touched> =
        snapshot.objects.iter().filter_map(|object| touched(snapshot, object, domains)).collect();
    list.sort_by_key(|touched| (!touched.breaks, touched.after, touched.name.clone()));
    list
}

/// What other fault domains would mean, all of it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Preview {
    /// Domains that count now, and with the wished ones.
    pub now: EffectiveDomains,
    /// And then.
    pub then: EffectiveDomains,
    /// Volumes whose protection or compliance it alters.
    pub touched: Vec<Touched>,
    /// What has to move before every volume is as its policy says again.
    pub moves: Moves,
}

/// What has to move so that no two copies of a volume share a fault domain.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Moves {
    /// Bytes of the parts that have to leave their domain.
    pub bytes: u64,
    /// Parts that find no disk in another domain.
    pub homeless: u32,
}

/// Computes a preview. Pure; nothing is reserved or changed.
pub fn preview(snapshot: &Snapshot, wished: &[FaultDomainView]) -> Preview {
    let now = effective(snapshot, &snapshot.cluster.fault_domains);
    let then = effective(snapshot, wished);
    let touched = touched_volumes(snapshot, &then);
    let moves = moves(snapshot, &then, &touched);
    Preview { now, then, touched, moves }
}

/// Computes a preview of the cluster as it is now.
///
/// # Errors
/// [`AppError::Invalid`] for unknown hosts and wrong names; [`AppError::Unavailable`].
pub async fn preview_now(
    app: &App,
    cluster: &Cluster,
    wished: &[FaultDomainView],
) -> Result<Preview, AppError> {
    let snapshot = snapshot_or_picture(app, cluster).await?;
    let hosts: Vec<&str> = snapshot.hosts.iter().map(|host| host.name.as_str()).collect();
    AppError::check(draft::fault_domain_problems(wished, &hosts))?;
    Ok(preview(&snapshot, wished))
}

/// Parts with the number of their copy; witnesses have none.
fn copies(tree: &TreeNode) -> Vec<(&ComponentView, Option<usize>)> {
    fn walk<'a>(node: &'a TreeNode, copy: usize, found: &mut Vec<(&'a ComponentView, Option<usize>)>) {
        match node {
            TreeNode::Component(leaf) => found.push((leaf, Some(copy))),
            TreeNode::Witness(leaf) => found.push((leaf, None)),
            TreeNode::Concat { children } | TreeNode::Raid0 { children } => {
                children.iter().for_each(|child| walk(child, copy, found));
            }
            TreeNode::Raid1 { children } | TreeNode::Raid5 { children } | TreeNode::Raid6 { children } => {
                children.iter().enumerate().for_each(|(copy, child)| walk(child, copy, found));
            }
        }
    }
    let mut found = Vec::new();
    walk(tree, 0, &mut found);
    found
}

/// Finds another disk for each part that shares its new domain with another copy, on one picture of the room there is.
fn moves(snapshot: &Snapshot, domains: &EffectiveDomains, touched: &[Touched]) -> Moves {
    let mut topology = Topology::from_snapshot(snapshot);
    for room in &mut topology.rooms {
        if let Some(domain) = domains.of_host.get(&room.host) {
            room.fault_domain.clone_from(domain);
        }
    }
    let home: BTreeMap<DiskId, String> =
        topology.rooms.iter().map(|room| (room.disk, room.fault_domain.clone())).collect();
    let broken: BTreeSet<ObjectId> =
        touched.iter().filter(|touched| touched.breaks).map(|touched| touched.uuid).collect();
    let mut moves = Moves::default();
    for object in snapshot.objects.iter().filter(|object| broken.contains(&object.uuid)) {
        let policy = snapshot.policies.iter().find(|policy| policy.name == object.policy);
        let needs = policy.map_or(1, fault_domains_needed) as usize;
        let mut held: BTreeMap<&str, Option<usize>> = BTreeMap::new();
        let (mut staying, mut leaving) = (Vec::new(), Vec::new());
        for (leaf, copy) in copies(&object.tree) {
            let domain = home.get(&leaf.disk).map_or(leaf.host.as_str(), String::as_str);
            let shared = held.get(domain).is_some_and(|other| copy.is_none() || *other != copy);
            if shared {
                leaving.push((leaf, copy));
            } else {
                held.insert(domain, copy);
                staying.push(StayingLeg { disk: leaf.disk, replica: copy });
            }
        }
        for (leaf, replica) in leaving {
            moves.bytes += leaf.used_bytes;
            let bytes = leaf.used_bytes + COMPONENT_METADATA_BYTES;
            match place_one(&topology, SpareNeed { bytes, replica, domains: needs }, &staying) {
                Ok(disk) => {
                    for room in topology.rooms.iter_mut().filter(|room| room.disk == disk) {
                        room.free_bytes = room.free_bytes.saturating_sub(bytes);
                    }
                    staying.push(StayingLeg { disk, replica });
                }
                Err(_) => moves.homeless += 1,
            }
        }
    }
    moves
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::sample;

    fn named(domains: &[(&str, &[&str])]) -> Vec<FaultDomainView> {
        let view = |(name, hosts): &(&str, &[&str])| FaultDomainView {
            name: (*name).into(),
            hosts: hosts.iter().map(|host| (*host).to_owned()).collect(),
        };
        domains.iter().map(view).collect()
    }

    #[test]
    fn a_forgotten_host_and_an_empty_domain_are_said() {
        let snapshot = sample::snapshot();
        let domains = named(&[("rack-a", &["h1", "h2"]), ("rack-b", &["h4", "h5"]), ("rack-d", &[])]);
        let effective = effective(&snapshot, &domains);
        // h3 is away and counts in no domain; h6 is one of its own.
        assert_eq!(effective.domains, ["h6", "rack-a", "rack-b"]);
        let text = effective.warnings.join("\n");
        assert!(text.contains("h6 is in no fault domain") && text.contains("rack-d has no host"), "{text}");
    }

    #[test]
    fn a_volume_with_two_copies_in_one_domain_breaks() {
        let snapshot = sample::snapshot();
        let same = effective(&snapshot, &snapshot.cluster.fault_domains);
        assert_eq!(touched_volumes(&snapshot, &same), []);
        // mail and registry lie on h1, h4 and h6.
        let together =
            named(&[("rack-a", &["h1", "h4"]), ("rack-b", &["h2", "h3"]), ("rack-c", &["h5", "h6"])]);
        let touched = touched_volumes(&snapshot, &effective(&snapshot, &together));
        let mail = touched.iter().find(|touched| touched.name == "mail").expect("mail is touched");
        assert_eq!((mail.before, mail.after, mail.breaks), (1, 0, true));
    }

    #[test]
    fn what_has_to_move_is_the_part_that_shares_its_domain() {
        let snapshot = sample::snapshot();
        assert_eq!(preview(&snapshot, &snapshot.cluster.fault_domains).moves, Moves::default());
        let together =
            named(&[("rack-a", &["h1", "h4"]), ("rack-b", &["h2", "h3"]), ("rack-c", &["h5", "h6"])]);
        let seen = preview(&snapshot, &together);
        let broken: Vec<&str> = seen
            .touched
            .iter()
            .filter(|touched| touched.breaks)
            .map(|touched| touched.name.as_str())
            .collect();
        let one_copy = |name: &str| {
            let object = snapshot.objects.iter().find(|object| object.name == name).expect("it is there");
            object.tree.leaves().iter().map(|(leaf, _)| leaf.used_bytes).max().unwrap_or(0)
        };
        assert!(!broken.is_empty());
        assert_eq!(seen.moves.bytes, broken.iter().map(|name| one_copy(name)).sum::<u64>(), "{seen:?}");
        // All hosts in one domain: nothing can be apart.
        let all: Vec<&str> = snapshot.hosts.iter().map(|host| host.name.as_str()).collect();
        let alone = preview(&snapshot, &named(&[("rack-a", &all)]));
        assert!(alone.moves.homeless > 0, "{alone:?}");
    }
}
