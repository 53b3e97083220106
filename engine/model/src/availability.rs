//! Whether an object can be used, and what it survives: votes and data over its real tree.
//!
//! Accessible exactly when more than half of all votes are reachable and every row has enough readable legs.
//! Components that are stale or being built vote, but are not read.
use crate::state::ComponentState;
use crate::view::{ComponentView, TreeNode, Votes};
use serde::{Deserialize, Serialize};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Most failures that are asked about. Source: the largest `failures_to_tolerate`.
const FAILURES_ASKED_MAX: u32 = 3;

/// What a component can do.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Nothing.
    Gone,
    /// Vote.
    Votes,
    /// Vote and be read.
    Reads,
}

impl Reach {
    /// What a component in its present state can do.
    pub fn now(leaf: &ComponentView) -> Self {
        match leaf.state {
            ComponentState::Active => Self::Reads,
            ComponentState::Stale | ComponentState::Resyncing | ComponentState::Reconfiguring => Self::Votes,
            ComponentState::Absent | ComponentState::Degraded => Self::Gone,
        }
    }
}

/// Whether an object can be read and written, and which condition fails if not.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Availability {
    /// Both conditions hold.
    pub accessible: bool,
    /// Votes.
    pub votes: Votes,
    /// `no majority: 1 of 3 votes` or `data incomplete: 3 of 6 components`; both, when both fail.
    pub condition: Option<String>,
}

/// Availability of a tree, given what each component can do.
pub fn availability(tree: &TreeNode, reach: &dyn Fn(&ComponentView) -> Reach) -> Availability {
    let mut votes = Votes::default();
    tree.for_each_leaf(&mut |leaf, _| {
        votes.total += leaf.votes;
        votes.present += if reach(leaf) >= Reach::Votes { leaf.votes } else { 0 };
    });
    let mut failed = Vec::new();
    if votes.present * 2 <= votes.total {
        failed.push(format!("no majority: {} of {} votes", votes.present, votes.total));
    }
    if let Some((readable, all)) = incomplete(tree, reach) {
        failed.push(format!("data incomplete: {readable} of {all} components"));
    }
    let condition = if failed.is_empty() { None } else { Some(failed.join("; ")) };
    Availability { accessible: condition.is_none(), votes, condition }
}

/// Whether every part of the data can be read, whatever the votes say.
pub fn is_complete(tree: &TreeNode, reach: &dyn Fn(&ComponentView) -> Reach) -> bool {
    incomplete(tree, reach).is_none()
}

/// Availability as it is.
pub fn availability_now(tree: &TreeNode) -> Availability {
    availability(tree, &Reach::now)
}

fn data_children(children: &[TreeNode]) -> impl Iterator<Item = &TreeNode> + Clone {
    children.iter().filter(|child| !matches!(child, TreeNode::Witness(_)))
}

/// The first part of the tree that cannot be read: (readable children, all children), or `None` when all can.
fn incomplete(node: &TreeNode, reach: &dyn Fn(&ComponentView) -> Reach) -> Option<(usize, usize)> {
    let group = |children: &[TreeNode], may_miss: Option<usize>| {
        let all = data_children(children).count();
        let readable = data_children(children).filter(|child| incomplete(child, reach).is_none()).count();
        let needed = may_miss.map_or(1, |may_miss| all.saturating_sub(may_miss));
        (readable < needed).then_some((readable, all))
    };
    match node {
        TreeNode::Component(leaf) => (reach(leaf) < Reach::Reads).then_some((0, 1)),
        TreeNode::Witness(_) => None,
        TreeNode::Concat { children } | TreeNode::Raid0 { children } => {
            data_children(children).find_map(|child| incomplete(child, reach))
        }
        TreeNode::Raid1 { children } => group(children, None),
        TreeNode::Raid5 { children } => group(children, Some(1)),
        TreeNode::Raid6 { children } => group(children, Some(2)),
    }
}

/// Failures of fault domains that the object survives from now on, worst case, at most 3.
///
/// Votes and every row lose their heaviest domains first; each condition only gets worse with more failures, so the
/// worst sets may be looked for one condition at a time.
pub fn tolerates_now(tree: &TreeNode) -> u32 {
    if !availability_now(tree).accessible {
        return 0;
    }
    (1..=FAILURES_ASKED_MAX)
        .take_while(|failed| survives_votes(tree, *failed) && survives_data(tree, *failed))
        .count() as u32
}

fn survives_votes(tree: &TreeNode, failed: u32) -> bool {
    let mut by_domain: BTreeMap<&str, u32> = BTreeMap::new();
    let mut total = 0;
    tree.for_each_leaf(&mut |leaf, _| {
        total += leaf.votes;
        if Reach::now(leaf) >= Reach::Votes {
            *by_domain.entry(&leaf.fault_domain).or_default() += leaf.votes;
        }
    });
    let mut heavy: Vec<u32> = by_domain.into_values().collect();
    heavy.sort_unstable_by_key(|votes| Reverse(*votes));
    heavy.iter().skip(failed as usize).sum::<u32>() * 2 > total
}

fn survives_data(node: &TreeNode, failed: u32) -> bool {
    match node {
        TreeNode::Component(_) => failed == 0,
        TreeNode::Witness(_) => true,
        TreeNode::Concat { children } | TreeNode::Raid0 { children } => {
            data_children(children).all(|child| survives_data(child, failed))
        }
        TreeNode::Raid1 { children } => group_survives(node, children, None, failed),
        TreeNode::Raid5 { children } => group_survives(node, children, Some(1), failed),
        TreeNode::Raid6 { children } => group_survives(node, children, Some(2), failed),
    }
}

fn group_survives(node: &TreeNode, children: &[TreeNode], may_miss: Option<usize>, failed: u32) -> bool {
    let mut by_domain: BTreeMap<&str, usize> = BTreeMap::new();
    let mut all = 0usize;
    for child in data_children(children) {
        let TreeNode::Component(leaf) = child else { return every_set_survives(node, failed) };
        all += 1;
        if Reach::now(leaf) == Reach::Reads {
            *by_domain.entry(&leaf.fault_domain).or_default() += 1;
        }
    }
    let mut heavy: Vec<usize> = by_domain.into_values().collect();
    heavy.sort_unstable_by_key(|legs| Reverse(*legs));
    let needed = may_miss.map_or(1, |may_miss| all.saturating_sub(may_miss));
    heavy.iter().skip(failed as usize).sum::<usize>() >= needed
}

/// For groups of groups (copies that are themselves striped): tries every set of domains.
fn every_set_survives(node: &TreeNode, failed: u32) -> bool {
    let domains: BTreeSet<&str> = node.leaves().iter().map(|(leaf, _)| leaf.fault_domain.as_str()).collect();
    let domains: Vec<&str> = domains.into_iter().collect();
    let sets = combinations(domains.len(), failed as usize);
    sets.into_iter().all(|set| {
        let gone: BTreeSet<&str> = set.into_iter().map(|index| domains[index]).collect();
        let reach = |leaf: &ComponentView| {
            if gone.contains(leaf.fault_domain.as_str()) { Reach::Gone } else { Reach::now(leaf) }
        };
        incomplete(node, &reach).is_none()
    })
}

/// All sets of `size` (or all, when there are fewer) of `count` indices.
fn combinations(count: usize, size: usize) -> Vec<Vec<usize>> {
    let mut sets = vec![Vec::new()];
    for _ in 0..size.min(count) {
        let longer = |set: Vec<usize>| {
            let first = set.last().map_or(0, |last| last + 1);
            (first..count).map(move |next| set.iter().copied().chain([next]).collect())
        };
        sets = sets.into_iter().flat_map(longer).collect();
    }
    sets
}

/// What one more host failure would do, by name of each host that holds a component.
pub fn if_one_more_fails(tree: &TreeNode) -> BTreeMap<String, Availability> {
    let hosts: BTreeSet<&String> = tree.leaves().iter().map(|(leaf, _)| &leaf.host).collect();
    let without = |host: &String| {
        availability(tree, &|leaf| if leaf.host == *host { Reach::Gone } else { Reach::now(leaf) })
    };
    hosts.into_iter().map(|host| (host.clone(), without(host))).collect()
}

#[cfg(test)]
#[path = "availability_tests.rs"]
mod tests;
