//! Which health holds first, and its reason.
use super::*;
use crate::ids::{ComponentId, DiskId};
use crate::placement::votes;

/// A mirror of `data` copies with `witnesses`, each component in the domain and state listed.
fn mirror(data: usize, leaves: &[(&str, ComponentState)]) -> TreeNode {
    let names: Vec<&str> = leaves.iter().map(|leaf| leaf.0).collect();
    let children = leaves.iter().zip(votes(&names)).enumerate().map(|(index, ((name, state), votes))| {
        let leaf = ComponentView {
            uuid: ComponentId(uuid::Uuid::from_u128(index as u128)),
            state: *state,
            state_since: Timestamp(0),
            votes,
            host: (*name).into(),
            fault_domain: (*name).into(),
            disk: DiskId(uuid::Uuid::nil()),
            disk_path: String::new(),
            used_bytes: 0,
            bytes_to_sync: 0,
            reason: None,
        };
        if index < data { TreeNode::Component(leaf) } else { TreeNode::Witness(leaf) }
    });
    TreeNode::Raid1 { children: children.collect() }
}

fn derived(tree: &TreeNode, change: impl FnOnce(&mut Facts<'_>)) -> Derived {
    let policy = Policy::built_in();
    let mut facts = Facts {
        tree,
        policy: &policy,
        policy_version: 1,
        repair_at: None,
        cannot_rebuild: None,
        moving: false,
        cannot_open: None,
    };
    change(&mut facts);
    derive(&facts)
}

use ComponentState::{Absent, Active, Degraded, Reconfiguring, Resyncing, Stale};

#[test]
fn health_is_the_first_that_holds() {
    use ObjectHealth::*;
    let states = |a, b, witness| mirror(2, &[("h1", a), ("h2", b), ("h3", witness)]);
    let timer = |facts: &mut Facts<'_>| facts.repair_at = Some(Timestamp(1));
    let none = |_: &mut Facts<'_>| {};
    assert_eq!(derived(&states(Active, Active, Active), none).health, Healthy);
    assert_eq!(derived(&states(Active, Absent, Absent), timer).health, Inaccessible);
    assert_eq!(derived(&states(Absent, Stale, Active), timer).health, Inaccessible);
    assert_eq!(derived(&states(Active, Resyncing, Active), none).health, ReducedRebuilding);
    assert_eq!(derived(&states(Active, Stale, Active), none).health, ReducedRebuilding);
    assert_eq!(derived(&states(Active, Resyncing, Absent), timer).health, ReducedRebuilding);
    assert_eq!(derived(&states(Active, Absent, Active), timer).health, ReducedWaiting);
    assert_eq!(derived(&states(Active, Active, Absent), timer).health, ReducedWaiting);
    assert_eq!(derived(&states(Active, Degraded, Active), none).health, ReducedCannotRebuild);
    let wider =
        mirror(3, &[("h1", Active), ("h2", Active), ("h4", Reconfiguring), ("h3", Active), ("h5", Active)]);
    assert_eq!(derived(&wider, none).health, PolicyChange);
    assert_eq!(derived(&states(Active, Active, Active), |facts| facts.moving = true).health, Moving);
}

#[test]
fn a3_no_free_domain_stays_reduced_with_the_numbers() {
    let tree = mirror(2, &[("h1", Active), ("h3", Absent), ("h2", Active)]);
    let found = derived(&tree, |facts| facts.cannot_rebuild = Some("needs 3 fault domains, 2 available"));
    assert_eq!(found.health, ObjectHealth::ReducedCannotRebuild);
    assert_eq!(found.compliance, Compliance::NonCompliant);
    assert_eq!(found.reason.as_deref(), Some("cannot rebuild: needs 3 fault domains, 2 available"));
    assert_eq!((found.accessible, found.tolerates_now), (true, 0));
}

#[test]
fn a3_two_components_in_one_domain_are_never_compliant() {
    for (data, leaves) in [
        (2, vec![("h1", Active), ("h1", Active), ("h2", Active)]),
        (2, vec![("h1", Active), ("h2", Active), ("h2", Active)]),
        (3, vec![("h1", Active), ("h2", Active), ("h2", Active), ("h3", Active), ("h4", Active)]),
    ] {
        let found = derived(&mirror(data, &leaves), |_| {});
        assert_eq!(found.compliance, Compliance::NonCompliant, "{leaves:?}");
        assert_ne!(found.health, ObjectHealth::Healthy, "{leaves:?}");
        assert!(found.reason.is_some());
    }
}

#[test]
fn a6_two_copies_without_a_tie_breaker_are_not_healthy() {
    let found = derived(&mirror(2, &[("h1", Active), ("h2", Active)]), |_| {});
    assert_eq!((found.health, found.tolerates_now), (ObjectHealth::ReducedCannotRebuild, 0));
}

#[test]
fn an_edited_policy_makes_out_of_date() {
    let tree = mirror(2, &[("h1", Active), ("h2", Active), ("h3", Active)]);
    let edited = Policy { failures_to_tolerate: 2, version: 2, ..Policy::built_in() };
    let facts = Facts {
        tree: &tree,
        policy: &edited,
        policy_version: 1,
        repair_at: None,
        cannot_rebuild: None,
        moving: false,
        cannot_open: None,
    };
    let found = derive(&facts);
    assert_eq!((found.health, found.compliance), (ObjectHealth::Healthy, Compliance::OutOfDate));
}

#[test]
fn a_narrow_stripe_is_another_rule() {
    let tree = mirror(2, &[("h1", Active), ("h2", Active), ("h3", Active)]);
    let wide = Policy { stripe_width: 2, ..Policy::built_in() };
    let facts = Facts {
        tree: &tree,
        policy: &wide,
        policy_version: 1,
        repair_at: None,
        cannot_rebuild: None,
        moving: false,
        cannot_open: None,
    };
    assert_eq!(derive(&facts).health, ObjectHealth::NonCompliant);
}
