//! What a loss does to one volume: from its rows, its votes and the disks that are gone.
use crate::availability::{Reach, availability, is_complete};
use crate::ids::DiskId;
use crate::placement::{Placement, PlannedLeg, PlannedNode};
use crate::view::{ComponentView, TreeNode};
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// What became of a volume, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Fate {
    /// Nothing of it was lost.
    Available,
    /// In use, with less redundancy until it is rebuilt.
    Reduced,
    /// Not in use, for want of votes; its data is whole on the disks that are left, and it is back when enough of the others are.
    Unavailable,
    /// Data is on no disk that is left.
    Lost,
}

impl Fate {
    /// Whether clients go on.
    pub fn goes_on(self) -> bool {
        self <= Self::Reduced
    }
}

/// What happens to a volume that was placed like this when the disks in `gone` are lost at once.
pub fn fate_of_placement(placement: &Placement, gone: &BTreeSet<DiskId>) -> Fate {
    let legs: Vec<&PlannedLeg> = placement.legs().into_iter().chain(&placement.witnesses).collect();
    if !legs.iter().any(|leg| gone.contains(&leg.disk)) {
        return Fate::Available;
    }
    if !is_whole(&placement.root, gone) {
        return Fate::Lost;
    }
    let total: u32 = legs.iter().map(|leg| leg.votes).sum();
    let present: u32 = legs.iter().filter(|leg| !gone.contains(&leg.disk)).map(|leg| leg.votes).sum();
    if present * 2 > total { Fate::Reduced } else { Fate::Unavailable }
}

fn is_whole(node: &PlannedNode, gone: &BTreeSet<DiskId>) -> bool {
    let enough = |legs: &[PlannedLeg], needed: usize| {
        legs.iter().filter(|leg| !gone.contains(&leg.disk)).count() >= needed
    };
    match node {
        PlannedNode::Concat(children) | PlannedNode::Stripe { columns: children, .. } => {
            children.iter().all(|child| is_whole(child, gone))
        }
        PlannedNode::Mirror(legs) => enough(legs, 1),
        PlannedNode::Raid5(legs) => enough(legs, legs.len().saturating_sub(1)),
        PlannedNode::Raid6(legs) => enough(legs, legs.len().saturating_sub(2)),
    }
}

/// What happens to an object as it lies now when the disks in `gone` are lost at once: a component that is not current counts as
/// no copy.
pub fn fate_of_tree(tree: &TreeNode, gone: &BTreeSet<DiskId>) -> Fate {
    let reach = |leaf: &ComponentView| if gone.contains(&leaf.disk) { Reach::Gone } else { Reach::now(leaf) };
    if !is_complete(tree, &reach) {
        return Fate::Lost;
    }
    if !availability(tree, &reach).accessible {
        return Fate::Unavailable;
    }
    let hurt = |leaf: &ComponentView| reach(leaf) != Reach::Reads;
    if tree.leaves().iter().any(|(leaf, _)| hurt(leaf)) { Fate::Reduced } else { Fate::Available }
}
