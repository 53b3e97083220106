//! What other fault domains would mean for the cluster and its volumes. Pure: the snapshot and the wished domains in.
use model::capacity::{EffectiveDomains, effective_domains};
use model::health::{Facts, derive};
use model::placement::Topology;
use model::state::Compliance;
use model::view::{FaultDomainView, ObjectView, Snapshot, TreeNode};
use std::collections::BTreeSet;

/// A volume that the change touches.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Touched {
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
    let breaks = before.compliance == Compliance::Compliant && after.compliance == Compliance::NonCompliant;
    let changed = breaks || before.tolerates_now != after.tolerates_now;
    changed.then(|| Touched {
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
}
