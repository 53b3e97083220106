//! Placement: where the components of an object lie. Pure: named filters, then a sort, and a reason for every refused host.
//!
//! Map: `room` what a disk offers and the topology of all of them; `layout` the shape that a policy gives an object;
//! `search` assigns rows of that shape to fault domains and disks; `votes` decides votes and witnesses; `spare` finds one
//! disk for a repair. This file holds the result types and the two entrances.
//! Invariants: the legs of one row (a column of a piece) lie in different fault domains; with the needed number of
//! domains placement succeeds whenever any solution exists (see `search`); equal input gives equal output, whatever
//! the order of the rooms.
use crate::ids::DiskId;
use crate::policy::{FaultToleranceMethod, Policy};
use serde::{Deserialize, Serialize};

mod layout;
mod room;
mod search;
mod spare;
mod votes;

pub use layout::{COMPONENT_METADATA_BYTES, Layout, map_bytes};
pub use room::{Room, Topology};
pub use spare::{SpareNeed, StayingLeg, place_one};
pub use votes::{domains_for_majority, votes};

/// Why something cannot be placed: the numbers, the reason per host, and the nearest thing that would work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{summary}")]
pub struct Refusal {
    /// One sentence with the numbers, e.g. `needs 3 fault domains, 2 available`.
    pub summary: String,
    /// Fault domains needed.
    pub needs_fault_domains: u32,
    /// Fault domains that count.
    pub has_fault_domains: u32,
    /// Reason per refused host or disk: (name, one sentence).
    pub reasons: Vec<(String, String)>,
    /// What would work, in words.
    pub nearest: Vec<String>,
}

/// Where a new object goes.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Placement {
    /// Always three levels above the legs: concat of stripes of mirrors (or parity groups), also with one child each.
    pub root: PlannedNode,
    /// Components that only vote.
    pub witnesses: Vec<PlannedLeg>,
    /// Failures of fault domains that it survives, from data and votes. Less than the policy asks only when forced.
    pub tolerates: u8,
    /// What the person should know: lowered by force, columns that share a disk.
    pub warnings: Vec<String>,
}

/// A node of a planned tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum PlannedNode {
    /// Pieces one after the other.
    Concat(Vec<PlannedNode>),
    /// Columns in units of 1 MiB; `size_bytes` of the address space of this piece.
    Stripe {
        /// Size that the piece adds to the object.
        size_bytes: u64,
        /// Columns in order.
        columns: Vec<PlannedNode>,
    },
    /// Whole copies.
    Mirror(Vec<PlannedLeg>),
    /// Data legs, then one parity leg.
    Raid5(Vec<PlannedLeg>),
    /// Data legs, then two parity legs.
    Raid6(Vec<PlannedLeg>),
}

/// A leaf of a planned tree.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct PlannedLeg {
    /// Disk that it lies on.
    pub disk: DiskId,
    /// Host of that disk.
    pub host: String,
    /// Effective fault domain of that host.
    pub fault_domain: String,
    /// Address space of the component; 0 for a witness.
    pub size_bytes: u64,
    /// Bytes set aside on the disk at once: the policy's reservation and the component's structures.
    pub reserve_bytes: u64,
    /// Votes, at least 1.
    pub votes: u32,
}

impl Placement {
    /// All legs in tree order, row by row, without the witnesses.
    pub fn legs(&self) -> Vec<&PlannedLeg> {
        self.rows().into_iter().flatten().collect()
    }

    /// The legs of each row (mirror or parity group), in address order.
    pub fn rows(&self) -> Vec<&[PlannedLeg]> {
        let mut rows = Vec::new();
        collect_rows(&self.root, &mut rows);
        rows
    }
}

fn collect_rows<'a>(node: &'a PlannedNode, rows: &mut Vec<&'a [PlannedLeg]>) {
    match node {
        PlannedNode::Concat(children) | PlannedNode::Stripe { columns: children, .. } => {
            children.iter().for_each(|child| collect_rows(child, rows));
        }
        PlannedNode::Mirror(legs) | PlannedNode::Raid5(legs) | PlannedNode::Raid6(legs) => rows.push(legs),
    }
}

/// Places a new object of `size_bytes` under `policy`.
///
/// With `force_provisioning` a mirror gets as many copies and witnesses as there are fault domains for, a parity
/// policy falls back to one copy; `tolerates` and a warning say so.
///
/// # Errors
/// A refusal with the numbers; with `force_provisioning` only when not even one copy fits.
pub fn place(topology: &Topology, policy: &Policy, size_bytes: u64) -> Result<Placement, Refusal> {
    let layout = Layout::of(policy, size_bytes);
    let refusal = match search::fit(topology, &layout) {
        Ok(placement) => return Ok(placement),
        Err(refusal) => refusal,
    };
    if policy.force_provisioning
        && let Some(placement) = forced(topology, &layout)
    {
        return Ok(placement);
    }
    Err(Refusal { nearest: nearest_in_words(topology, policy, size_bytes, &refusal), ..refusal })
}

/// The most redundant mirror that fits when the policy itself does not.
fn forced(topology: &Topology, wanted: &Layout) -> Option<Placement> {
    let most = if wanted.method == FaultToleranceMethod::Raid1 { wanted.legs } else { 1 };
    (1..=most).rev().find_map(|copies| {
        let mut placement = search::fit(topology, &wanted.forced_to(copies)).ok()?;
        placement.warnings.insert(
            0,
            format!(
                "made by force with {copies} of {} components a row: it survives {} failures now, the policy asks \
                 for {}",
                wanted.legs, placement.tolerates, wanted.failures
            ),
        );
        Some(placement)
    })
}

/// The policies nearest to `policy` that the topology can satisfy for a volume of this size, best protected first.
pub fn nearest_policies(topology: &Topology, policy: &Policy, size_bytes: u64) -> Vec<Policy> {
    use FaultToleranceMethod::{Raid1, Raid5, Raid6};
    let shapes = [(Raid1, 3, None), (Raid6, 2, None), (Raid1, 2, None), (Raid5, 1, None), (Raid1, 1, None)];
    let shapes = shapes.into_iter().chain([(Raid5, 1, Some(2)), (Raid1, 0, None)]);
    let mut found = Vec::new();
    for (method, failures, data_legs) in shapes {
        if failures > policy.failures_to_tolerate {
            continue;
        }
        let candidate = Policy {
            fault_tolerance_method: method,
            failures_to_tolerate: failures,
            data_legs,
            force_provisioning: false,
            ..policy.clone()
        };
        let same = Layout::of(&candidate, size_bytes) == Layout::of(policy, size_bytes);
        if !same && search::fit(topology, &Layout::of(&candidate, size_bytes)).is_ok() {
            found.push(candidate);
        }
        if found.len() == 2 {
            break;
        }
    }
    let thin = Policy { object_space_reservation_percent: 0, force_provisioning: false, ..policy.clone() };
    if thin.object_space_reservation_percent != policy.object_space_reservation_percent
        && search::fit(topology, &Layout::of(&thin, size_bytes)).is_ok()
    {
        found.insert(0, thin);
    }
    found
}

fn nearest_in_words(topology: &Topology, policy: &Policy, size_bytes: u64, refusal: &Refusal) -> Vec<String> {
    let mut words = Vec::new();
    let missing = refusal.needs_fault_domains.saturating_sub(refusal.has_fault_domains);
    if missing > 0 {
        let noun = if missing == 1 { "host" } else { "hosts" };
        words.push(format!("{missing} more {noun} with a capacity disk, each in a fault domain of its own"));
    }
    for near in nearest_policies(topology, policy, size_bytes) {
        let method = match near.fault_tolerance_method {
            FaultToleranceMethod::Raid1 if near.failures_to_tolerate == 0 => {
                "one copy without redundancy".into()
            }
            FaultToleranceMethod::Raid1 => format!("a mirror of {} copies", near.failures_to_tolerate + 1),
            FaultToleranceMethod::Raid5 => format!("RAID-5 {}+1", near.data_legs.unwrap_or(3)),
            FaultToleranceMethod::Raid6 => "RAID-6 4+2".into(),
        };
        let thin = near.object_space_reservation_percent != policy.object_space_reservation_percent;
        let reserve = if thin { ", with no space reserved" } else { "" };
        words.push(format!("{method} ({} failures tolerated{reserve})", near.failures_to_tolerate));
    }
    words
}

#[cfg(test)]
mod tests;
