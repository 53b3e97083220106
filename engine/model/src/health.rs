//! Health, compliance and reason of an object, derived from its tree and what is known about its repair.
//!
//! The health is the first of the contract's list that holds. Compliance looks at fault domains, not at counts: two
//! components of different replicas in one domain are never compliant.
use crate::availability::{Reach, availability, tolerates_now};
use crate::policy::Policy;
use crate::state::{Compliance, ComponentState, ObjectHealth};
use crate::units::Timestamp;
use crate::view::{ComponentView, TreeNode, Votes};
use std::collections::{BTreeMap, BTreeSet};

/// What is known about an object beside its tree.
#[derive(Clone, Copy, Debug)]
pub struct Facts<'a> {
    /// Its tree with the state of every component.
    pub tree: &'a TreeNode,
    /// Its policy as it is now.
    pub policy: &'a Policy,
    /// The version of the policy that its layout follows.
    pub policy_version: u64,
    /// When the repair timer of an absent component ends; `None` when no timer runs.
    pub repair_at: Option<Timestamp>,
    /// Why nothing can restore redundancy now (`needs 3 fault domains, 2 available`), if repair was tried.
    pub cannot_rebuild: Option<&'a str>,
    /// Whether components move for another reason than redundancy.
    pub moving: bool,
    /// Overrides accessibility: the engine could not open the object although votes and data look complete.
    pub cannot_open: Option<&'a str>,
}

/// What follows from the facts.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Derived {
    /// Health, the first that holds.
    pub health: ObjectHealth,
    /// As the policy says?
    pub compliance: Compliance,
    /// Why it is not healthy, in one sentence.
    pub reason: Option<String>,
    /// Whether it can be read and written.
    pub accessible: bool,
    /// Votes.
    pub votes: Votes,
    /// Failures of fault domains survived from now on.
    pub tolerates_now: u32,
}

/// Derives health, compliance and reason.
pub fn derive(facts: &Facts<'_>) -> Derived {
    let available = availability(facts.tree, &Reach::now);
    let tolerates = tolerates_now(facts.tree);
    let accessible = available.accessible && facts.cannot_open.is_none();
    let (health, reason) = if let Some(condition) = available.condition.as_deref().or(facts.cannot_open) {
        (ObjectHealth::Inaccessible, Some(condition.to_owned()))
    } else {
        reduced(facts, tolerates).unwrap_or_else(|| complete(facts))
    };
    let kept = matches!(health, ObjectHealth::Healthy | ObjectHealth::Moving);
    let compliance = if facts.policy.version != facts.policy_version {
        Compliance::OutOfDate
    } else if kept {
        Compliance::Compliant
    } else {
        Compliance::NonCompliant
    };
    let compliance = match (health, compliance) {
        (
            ObjectHealth::PolicyChange
            | ObjectHealth::Healthy
            | ObjectHealth::Moving
            | ObjectHealth::NonCompliant,
            any,
        ) => any,
        _ => Compliance::NonCompliant,
    };
    let tolerates_now = if accessible { tolerates } else { 0 };
    Derived { health, compliance, reason, accessible, votes: available.votes, tolerates_now }
}

/// What a policy promises to survive.
fn promised(policy: &Policy) -> u32 {
    u32::from(policy.failures_to_tolerate)
}

/// The reduced states, or `None` when no redundancy is missing.
fn reduced(facts: &Facts<'_>, tolerates: u32) -> Option<(ObjectHealth, Option<String>)> {
    let mut states: BTreeMap<ComponentState, Vec<&ComponentView>> = BTreeMap::new();
    facts.tree.for_each_leaf(&mut |leaf, _| states.entry(leaf.state).or_default().push(leaf));
    let of = |state| states.get(&state).map_or(&[][..], Vec::as_slice);
    let lost =
        [ComponentState::Absent, ComponentState::Degraded, ComponentState::Stale, ComponentState::Resyncing];
    let any_lost = lost.into_iter().any(|state| !of(state).is_empty());
    let layout_current = facts.policy.version == facts.policy_version;
    // An out-of-date object is measured by what it has: the new promise is not its own yet.
    if !any_lost && (tolerates >= promised(facts.policy) || !layout_current) {
        return None;
    }
    if !any_lost && !of(ComponentState::Reconfiguring).is_empty() {
        return None;
    }
    let syncing = of(ComponentState::Resyncing).len() + of(ComponentState::Stale).len();
    if syncing > 0 || (any_lost && !of(ComponentState::Reconfiguring).is_empty()) {
        let names = hosts(
            of(ComponentState::Resyncing)
                .iter()
                .chain(of(ComponentState::Stale))
                .chain(of(ComponentState::Reconfiguring)),
        );
        return Some((
            ObjectHealth::ReducedRebuilding,
            Some(format!("a component on {names} is being brought up to date")),
        ));
    }
    let away = hosts(of(ComponentState::Absent).iter().chain(of(ComponentState::Degraded)));
    if facts.repair_at.is_some() && facts.cannot_rebuild.is_none() && of(ComponentState::Degraded).is_empty()
    {
        let text = format!("a component on {away} is absent; repair waits for the delay");
        return Some((ObjectHealth::ReducedWaiting, Some(text)));
    }
    if facts.repair_at.is_some() && !of(ComponentState::Absent).is_empty() {
        return Some((
            ObjectHealth::ReducedWaiting,
            Some(format!("components on {away} are away; repair waits for the delay")),
        ));
    }
    let text = match (facts.cannot_rebuild, any_lost) {
        (Some(reason), _) => format!("cannot rebuild: {reason}"),
        (None, true) => format!("a component on {away} is missing and its repair has not begun"),
        (None, false) => {
            format!(
                "survives {tolerates} of the {} failures that its policy asks for",
                promised(facts.policy)
            )
        }
    };
    Some((ObjectHealth::ReducedCannotRebuild, Some(text)))
}

/// The states without missing redundancy.
fn complete(facts: &Facts<'_>) -> (ObjectHealth, Option<String>) {
    let reconfiguring =
        facts.tree.leaves().iter().any(|(leaf, _)| leaf.state == ComponentState::Reconfiguring);
    if reconfiguring {
        return (ObjectHealth::PolicyChange, Some("a new layout is being built".into()));
    }
    if let Some(rule) = broken_rule(facts) {
        return (ObjectHealth::NonCompliant, Some(rule));
    }
    if facts.moving {
        return (ObjectHealth::Moving, Some("components move to other disks".into()));
    }
    (ObjectHealth::Healthy, None)
}

/// A rule other than availability that is not met.
fn broken_rule(facts: &Facts<'_>) -> Option<String> {
    let mut rule = None;
    shared_domain(facts.tree, &mut rule);
    if rule.is_some() {
        return rule;
    }
    let width = columns(facts.tree);
    (facts.policy.version == facts.policy_version && width < usize::from(facts.policy.stripe_width))
        .then(|| format!("striped over {width} columns, the policy asks for {}", facts.policy.stripe_width))
}

/// Finds two components of one row in one fault domain.
fn shared_domain(node: &TreeNode, found: &mut Option<String>) {
    let (children, row) = match node {
        TreeNode::Component(_) | TreeNode::Witness(_) => return,
        TreeNode::Concat { children } | TreeNode::Raid0 { children } => (children, false),
        TreeNode::Raid1 { children } | TreeNode::Raid5 { children } | TreeNode::Raid6 { children } => {
            (children, true)
        }
    };
    let mut seen = BTreeSet::new();
    for child in children {
        match child {
            TreeNode::Component(leaf) | TreeNode::Witness(leaf) if row => {
                if !seen.insert(&leaf.fault_domain) {
                    *found = Some(format!("two components lie in fault domain {}", leaf.fault_domain));
                }
            }
            other => shared_domain(other, found),
        }
    }
}

/// Fewest columns of any stripe; 1 without a stripe.
fn columns(node: &TreeNode) -> usize {
    match node {
        TreeNode::Component(_) | TreeNode::Witness(_) => 1,
        TreeNode::Raid0 { children } => children.len(),
        TreeNode::Concat { children }
        | TreeNode::Raid1 { children }
        | TreeNode::Raid5 { children }
        | TreeNode::Raid6 { children } => {
            let inner = children.iter().filter(|child| !matches!(child, TreeNode::Witness(_))).map(columns);
            inner.min().unwrap_or(1)
        }
    }
}

fn hosts<'a>(leaves: impl Iterator<Item = &'a &'a ComponentView>) -> String {
    let names: BTreeSet<&str> = leaves.map(|leaf| leaf.host.as_str()).collect();
    names.into_iter().collect::<Vec<_>>().join(", ")
}

#[cfg(test)]
#[path = "health_tests.rs"]
mod tests;
