//! Every single and every double loss, tried on the volumes that placement could make.
//!
//! How full the disks are decides where placement puts the next volume. So a loss is tried on volumes that are drawn towards what
//! is lost as far as placement goes along, and on volumes that are drawn away from it: `place` itself lays them out, on disks
//! that only differ in how free they look.
use super::{Division, Fate, Part, fate_of_placement, parts};
use crate::capacity::{UsableByPolicy, usable_by_policy};
use crate::ids::DiskId;
use crate::placement::{Placement, Topology, place};
use crate::policy::Policy;
use crate::units::VOLUME_BYTES_MIN;
use serde::{Deserialize, Serialize};
use std::collections::BTreeSet;

/// Parts of which every pair is still tried; of more, only single losses are.
pub const PARTS_PAIRED_MAX: usize = 24;
/// Makes a disk look less free than any other, bytes.
const FAR: u64 = 1 << 60;

/// What one loss does to data.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Claim {
    /// Indices into the parts: one, or two that are lost at once.
    pub lost: Vec<usize>,
    /// What can become of a volume; which of these depends on where it lies. Never empty.
    pub fates: BTreeSet<Fate>,
    /// Whether the cluster could also start again without what is lost: more than half of its disks, cache disks included, must be
    /// there. While it runs, this changes nothing.
    pub restarts: bool,
}

impl Claim {
    /// The worst that can become of a volume: what is claimed.
    pub fn worst(&self) -> Fate {
        self.fates.last().copied().unwrap_or(Fate::Available)
    }
}

/// What a division survives and yields under one policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Verdict {
    /// Usable bytes, domains needed and counted, bytes that stay unused.
    pub usable: UsableByPolicy,
    /// Why no volume can be placed; `None` when one can. No loss is judged then.
    pub refusal: Option<String>,
    /// What can be lost.
    pub parts: Vec<Part>,
    /// Every single loss, in the order of the parts.
    pub singles: Vec<Claim>,
    /// Every pair, or none when there are too many parts.
    pub doubles: Vec<Claim>,
}

impl Verdict {
    /// The claim about one part.
    pub fn single(&self, name: &str) -> Option<&Claim> {
        self.singles.iter().find(|claim| self.parts[claim.lost[0]].name == name)
    }

    /// Names of the parts of a claim.
    pub fn names(&self, claim: &Claim) -> Vec<&str> {
        claim.lost.iter().map(|index| self.parts[*index].name.as_str()).collect()
    }
}

/// What `division` survives and yields under `policy`; pairs only when `pairs`.
pub fn verdict(division: &Division, policy: &Policy, pairs: bool) -> Verdict {
    let topology = division.topology();
    let mut usable = usable_by_policy(&topology, policy);
    let refusal = place(&topology, policy, VOLUME_BYTES_MIN).err().map(|refusal| refusal.summary);
    let parts = parts(division);
    let all = division.used();
    if refusal.is_some() {
        usable.usable_bytes = 0;
        return Verdict { usable, refusal, parts, singles: Vec::new(), doubles: Vec::new() };
    }
    let tried = |lost: Vec<usize>| {
        let direct: BTreeSet<DiskId> =
            lost.iter().flat_map(|index| parts[*index].disks.iter().copied()).collect();
        let fates = layouts(&topology, policy, &division.gone_with(&direct));
        let fates = fates.into_iter().map(|(fate, _)| fate).collect();
        Claim { lost, fates, restarts: (all.len() - direct.len()) * 2 > all.len() }
    };
    let singles = (0..parts.len()).map(|index| tried(vec![index])).collect();
    let mut doubles = Vec::new();
    if pairs && parts.len() <= PARTS_PAIRED_MAX {
        for first in 0..parts.len() {
            let apart = (first + 1..parts.len()).filter(|second| {
                // A disk and the controller it sits on are lost together anyway.
                let (one, other) = (&parts[first].disks, &parts[*second].disks);
                !one.is_subset(other) && !other.is_subset(one)
            });
            doubles.extend(apart.map(|second| tried(vec![first, second])));
        }
    }
    Verdict { usable, refusal, parts, singles, doubles }
}

/// Layouts of volumes that placement could make, each with what becomes of it when the disks in `gone` are lost: one for each
/// fate, at least.
pub fn layouts(topology: &Topology, policy: &Policy, gone: &BTreeSet<DiskId>) -> Vec<(Fate, Placement)> {
    let lost = topology.rooms.iter().filter(|room| gone.contains(&room.disk));
    let hit: BTreeSet<&str> = lost.map(|room| room.fault_domain.as_str()).collect();
    let hit: Vec<&str> = hit.into_iter().collect();
    let mut layouts: Vec<(Fate, Placement)> = Vec::new();
    for drawn in 0..=hit.len() {
        for witness_hit in [false, true] {
            let placed = probe(topology, policy, gone, &hit[..drawn], witness_hit);
            let judged = placed.map(|placement| (fate_of_placement(&placement, gone), placement));
            let new = judged.filter(|(_, placement)| !layouts.iter().any(|(_, known)| known == placement));
            layouts.extend(new);
        }
    }
    layouts
}

/// A volume whose data is drawn to the lost disks of `drawn` and away from all other lost ones; its witnesses to lost domains or
/// away from them.
fn probe(
    topology: &Topology,
    policy: &Policy,
    gone: &BTreeSet<DiskId>,
    drawn: &[&str],
    witness_hit: bool,
) -> Option<Placement> {
    let mut biased = topology.clone();
    for room in &mut biased.rooms {
        let lost = gone.contains(&room.disk);
        let wanted = drawn.contains(&room.fault_domain.as_str());
        room.promised_bytes = match (lost, wanted) {
            (true, true) => 0,
            (false, _) => FAR,
            (true, false) => 2 * FAR,
        };
        room.components = u32::from(lost != witness_hit);
    }
    place(&biased, policy, VOLUME_BYTES_MIN).ok()
}
