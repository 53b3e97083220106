//! One disk for a component that is rebuilt or added, given those that stay.
use super::{Refusal, Topology, search};
use crate::ids::DiskId;
use std::collections::BTreeSet;

/// What the new component needs.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SpareNeed {
    /// Bytes that must be free: its data and structures.
    pub bytes: u64,
    /// Which replica (place within its row) it is; `None` for a witness.
    pub replica: Option<usize>,
    /// Fault domains that the object's layout needs in all, for the numbers of a refusal.
    pub domains: usize,
}

/// A component that stays.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StayingLeg {
    /// Its disk.
    pub disk: DiskId,
    /// Which replica it belongs to; `None` for a witness.
    pub replica: Option<usize>,
}

/// The disk for one new component: the freest, in a fault domain that holds nothing of another replica or witness of
/// the object. Columns of the same replica may share its domain, on another disk where there is one.
///
/// # Errors
/// A refusal that says how many fault domains there are and why each other host is out.
pub fn place_one(topology: &Topology, need: SpareNeed, staying: &[StayingLeg]) -> Result<DiskId, Refusal> {
    let domain_of =
        |disk| topology.rooms.iter().find(|room| room.disk == disk).map(|room| &room.fault_domain);
    let same = |leg: &StayingLeg| need.replica.is_some() && leg.replica == need.replica;
    let taken: BTreeSet<&String> =
        staying.iter().filter(|leg| !same(leg)).filter_map(|leg| domain_of(leg.disk)).collect();
    let used: BTreeSet<DiskId> = staying.iter().map(|leg| leg.disk).collect();
    let mut open: Vec<_> = topology.rooms.iter().filter(|room| !taken.contains(&room.fault_domain)).collect();
    open.retain(|room| search::refused(room, need.bytes).is_none());
    open.sort_by_key(|room| (used.contains(&room.disk), std::cmp::Reverse(room.freedom()), room.disk));
    if let Some(room) = open.first() {
        return Ok(room.disk);
    }
    let mut refusal = search::refusal(topology, need.domains, need.bytes);
    for domain in taken {
        refusal.reasons.push((domain.clone(), "already holds a component of this object".into()));
    }
    Err(refusal)
}
