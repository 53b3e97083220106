//! The search: rows of a layout to fault domains, then to disks.
//!
//! Every leg of an object needs the same room, so a disk is a number of slots. First try: each replica keeps to fault
//! domains of its own over all rows. If that fails: row by row, the domains with the most slots left. The second is
//! exact: rows·legs slots in different domains exist exactly when Σ min(slots, rows) >= rows·legs, and taking from the
//! fullest first never breaks that (the argument of water-filling). So a refusal means that no solution exists.
use super::votes::{domains_for_majority, votes};
use super::{COMPONENT_METADATA_BYTES, Layout, Placement, PlannedLeg, PlannedNode, Refusal, Room, Topology};
use crate::policy::{FaultToleranceMethod, SiteTolerance};
use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};

/// Why `room` cannot take a component of `bytes`, or `None`. The filters, by name: unusable, component limit, room.
pub(super) fn refused(room: &Room, bytes: u64) -> Option<String> {
    if let Some(reason) = &room.unusable {
        return Some(reason.clone());
    }
    if room.components >= room.components_max {
        return Some(format!("{} has its {} components already", room.disk_name, room.components_max));
    }
    if room.free_bytes < bytes {
        return Some(format!(
            "{} needs {} free, has {}",
            room.disk_name,
            human(bytes),
            human(room.free_bytes)
        ));
    }
    None
}

/// Bytes in the largest binary unit that keeps three digits, for sentences.
pub(super) fn human(bytes: u64) -> String {
    let units = ["B", "KiB", "MiB", "GiB", "TiB"];
    let power = (0..units.len() - 1).find(|power| bytes >> (10 * power) < 1024).unwrap_or(units.len() - 1);
    let value = bytes as f64 / (1u64 << (10 * power)) as f64;
    if value.fract() == 0.0 {
        format!("{value} {}", units[power])
    } else {
        format!("{value:.1} {}", units[power])
    }
}

/// A refusal with the numbers of this topology: fault domains with room for `bytes`, and a reason for every host without.
pub(super) fn refusal(topology: &Topology, needs: usize, bytes: u64) -> Refusal {
    let mut hosts: BTreeMap<&str, Option<Vec<String>>> = BTreeMap::new();
    let mut with_room = BTreeSet::new();
    let mut rooms: Vec<_> = topology.rooms.iter().collect();
    rooms.sort_by_key(|room| (&room.disk_name, room.disk));
    for room in rooms {
        let entry = hosts.entry(&room.host).or_insert_with(|| Some(Vec::new()));
        match refused(room, bytes) {
            None => {
                with_room.insert(room.fault_domain.as_str());
                *entry = None;
            }
            Some(reason) => {
                if let Some(reasons) = entry
                    && !reasons.contains(&reason)
                {
                    reasons.push(reason);
                }
            }
        }
    }
    let usable = topology.usable_domains().len();
    let full =
        |room: &Room| refused(room, bytes).is_some() && refused(room, COMPONENT_METADATA_BYTES).is_none();
    let (has, why, what) = if usable < needs || bytes <= COMPONENT_METADATA_BYTES {
        (usable.min(with_room.len()), "", String::new())
    } else {
        let why = if topology.rooms.iter().any(full) { "not enough space: " } else { "" };
        (with_room.len(), why, format!(" with {} free on one disk", human(bytes)))
    };
    Refusal {
        summary: format!(
            "{why}needs {needs} fault domain{}{what}, {has} available",
            if needs == 1 { "" } else { "s" }
        ),
        needs_fault_domains: u32::try_from(needs).unwrap_or(u32::MAX),
        has_fault_domains: u32::try_from(has).unwrap_or(u32::MAX),
        reasons: hosts
            .into_iter()
            .filter_map(|(host, reasons)| reasons.map(|reasons| (host.to_owned(), reasons.join("; "))))
            .collect(),
        nearest: Vec::new(),
    }
}

/// A fault domain with the slots of its disks.
struct Domain<'a> {
    name: &'a str,
    /// Disks that can take a component, freest first, with the legs that each can still take.
    disks: Vec<(&'a Room, usize)>,
    witness: Option<&'a Room>,
}

impl Domain<'_> {
    fn slots(&self) -> usize {
        self.disks.iter().map(|(_, slots)| slots).sum()
    }
}

/// Domains that can take anything, the best for data first: enough different disks, then the freest, then by name.
fn domains<'a>(topology: &'a Topology, layout: &Layout) -> Vec<Domain<'a>> {
    let mut by_name: BTreeMap<&str, Domain> = BTreeMap::new();
    let mut rooms: Vec<_> =
        topology.rooms.iter().filter(|room| refused(room, COMPONENT_METADATA_BYTES).is_none()).collect();
    rooms.sort_by_key(|room| (Reverse(room.freedom()), room.disk));
    for room in rooms {
        let name = room.fault_domain.as_str();
        let domain = by_name.entry(name).or_insert_with(|| Domain { name, disks: Vec::new(), witness: None });
        domain.witness = domain.witness.or(Some(room));
        let room_for = (room.free_bytes / layout.reserve_bytes.max(1)).min(layout.rows() as u64);
        let slots = (room.components_max - room.components).min(u32::try_from(room_for).unwrap_or(u32::MAX));
        if slots > 0 {
            domain.disks.push((room, slots as usize));
        }
    }
    let mut domains: Vec<_> = by_name.into_values().collect();
    domains.sort_by_key(|domain| {
        let freest = domain.disks.first().map_or(i128::MIN, |(room, _)| room.freedom());
        (Reverse(domain.disks.len().min(layout.columns)), Reverse(freest), domain.name)
    });
    domains
}

/// For each row the domain (index) of each leg.
type Assignment = Vec<Vec<usize>>;

/// Each replica on domains of its own: single ones if there are enough, else sets filled largest first.
fn assign_disjoint(domains: &[Domain], rows: usize, legs: usize) -> Option<Assignment> {
    let enough: Vec<usize> = (0..domains.len()).filter(|index| domains[*index].slots() >= rows).collect();
    let mut sets: Vec<(usize, Vec<usize>)> = vec![(0, Vec::new()); legs];
    if enough.len() >= legs {
        for (set, index) in sets.iter_mut().zip(enough) {
            *set = (rows, vec![index]);
        }
    } else {
        let mut order: Vec<usize> = (0..domains.len()).collect();
        order.sort_by_key(|index| Reverse(domains[*index].slots()));
        for index in order {
            let least = sets.iter_mut().min_by_key(|set| set.0)?;
            if least.0 < rows && domains[index].slots() > 0 {
                least.0 += domains[index].slots();
                least.1.push(index);
            }
        }
    }
    if sets.iter().any(|set| set.0 < rows) {
        return None;
    }
    let mut left: Vec<usize> = domains.iter().map(Domain::slots).collect();
    let mut assignment = vec![Vec::with_capacity(legs); rows];
    for row in &mut assignment {
        for (_, set) in &sets {
            let index = *set.iter().max_by_key(|index| (left[**index], Reverse(**index)))?;
            left[index] = left[index].checked_sub(1)?;
            row.push(index);
        }
    }
    Some(assignment)
}

/// Row by row, the domains with the most slots left: exact, see the head of this file.
fn assign_by_row(domains: &[Domain], rows: usize, legs: usize) -> Option<Assignment> {
    let mut left: Vec<usize> = domains.iter().map(Domain::slots).collect();
    let mut assignment = Vec::with_capacity(rows);
    for _ in 0..rows {
        let mut order: Vec<usize> = (0..domains.len()).collect();
        order.sort_by_key(|index| (Reverse(left[*index]), *index));
        order.truncate(legs);
        if order.len() < legs || order.iter().any(|index| left[*index] == 0) {
            return None;
        }
        order.sort_unstable();
        order.iter().for_each(|index| left[*index] -= 1);
        assignment.push(order);
    }
    Some(assignment)
}

/// Places `layout`, or says why not.
pub(super) fn fit(topology: &Topology, layout: &Layout) -> Result<Placement, Refusal> {
    if layout.sites != SiteTolerance::None {
        let mut refusal = refusal(topology, layout.domains, layout.reserve_bytes);
        refusal.summary = "the policy asks for sites: needs a stretched cluster".into();
        return Err(refusal);
    }
    let needed = if layout.forced { layout.legs } else { layout.domains };
    let mut domains = domains(topology, layout);
    if domains.len() < needed {
        return Err(refusal(topology, needed, COMPONENT_METADATA_BYTES));
    }
    let rows = layout.rows();
    let assignment = assign_disjoint(&domains, rows, layout.legs)
        .or_else(|| assign_by_row(&domains, rows, layout.legs))
        .ok_or_else(|| no_room(topology, layout))?;
    let mut shared = false;
    let mut placed: Vec<Vec<PlannedLeg>> = Vec::with_capacity(rows);
    let mut used = Vec::new();
    for (row, chosen) in assignment.iter().enumerate() {
        if row % layout.columns == 0 {
            used = vec![BTreeSet::new(); layout.legs];
        }
        let piece_bytes = layout.pieces_bytes[row / layout.columns];
        let mut legs = Vec::with_capacity(layout.legs);
        for (replica, index) in chosen.iter().enumerate() {
            let room =
                take_disk(&mut domains[*index], &used[replica]).ok_or_else(|| no_room(topology, layout))?;
            shared |= !used[replica].insert(room.disk);
            legs.push(leg(room, layout.leg_bytes(piece_bytes), layout.reserve_bytes));
        }
        placed.push(legs);
    }
    let mut placement = assemble(layout, placed, witnesses(&domains, layout, &assignment));
    if shared {
        placement.warnings.push(format!("some of the {} stripe columns share a disk", layout.columns));
    }
    Ok(placement)
}

/// The freest disk with a slot, one that this replica does not use in this piece if there is one.
fn take_disk<'a>(domain: &mut Domain<'a>, used: &BTreeSet<crate::ids::DiskId>) -> Option<&'a Room> {
    let open = domain.disks.iter_mut().filter(|(_, slots)| *slots > 0);
    let (room, slots) = open.min_by_key(|(room, slots)| (used.contains(&room.disk), Reverse(*slots)))?;
    *slots -= 1;
    Some(room)
}

fn leg(room: &Room, size_bytes: u64, reserve_bytes: u64) -> PlannedLeg {
    let (host, fault_domain) = (room.host.clone(), room.fault_domain.clone());
    PlannedLeg { disk: room.disk, host, fault_domain, size_bytes, reserve_bytes, votes: 1 }
}

/// Witnesses in domains without data, until a majority survives; fewest components first.
fn witnesses(domains: &[Domain], layout: &Layout, assignment: &Assignment) -> Vec<PlannedLeg> {
    let data: BTreeSet<usize> = assignment.iter().flatten().copied().collect();
    let missing = domains_for_majority(layout.failures).saturating_sub(data.len());
    let mut free: Vec<&Room> = (0..domains.len())
        .filter(|index| !data.contains(index))
        .filter_map(|index| domains[index].witness)
        .collect();
    free.sort_by_key(|room| (room.components, room.fault_domain.as_str(), room.disk));
    free.into_iter().take(missing).map(|room| leg(room, 0, COMPONENT_METADATA_BYTES)).collect()
}

fn no_room(topology: &Topology, layout: &Layout) -> Refusal {
    let mut refusal = refusal(topology, layout.domains, layout.reserve_bytes);
    if refusal.has_fault_domains >= refusal.needs_fault_domains {
        refusal.summary = format!(
            "not enough space: {} components of {} do not fit on the disks in different fault domains",
            layout.rows() * layout.legs,
            human(layout.reserve_bytes)
        );
    }
    refusal
}

fn assemble(layout: &Layout, mut rows: Vec<Vec<PlannedLeg>>, mut witnesses: Vec<PlannedLeg>) -> Placement {
    let all: Vec<&mut PlannedLeg> = rows.iter_mut().flatten().chain(witnesses.iter_mut()).collect();
    let votes = votes(&all.iter().map(|leg| leg.fault_domain.clone()).collect::<Vec<_>>());
    all.into_iter().zip(votes).for_each(|(leg, votes)| leg.votes = votes);
    let tolerates = tolerates(layout, &rows, &witnesses);
    let mut rows = rows.into_iter();
    let pieces = layout.pieces_bytes.iter().map(|size_bytes| {
        let columns = rows.by_ref().take(layout.columns).map(|legs| match layout.method {
            FaultToleranceMethod::Raid1 => PlannedNode::Mirror(legs),
            FaultToleranceMethod::Raid5 => PlannedNode::Raid5(legs),
            FaultToleranceMethod::Raid6 => PlannedNode::Raid6(legs),
        });
        PlannedNode::Stripe { size_bytes: *size_bytes, columns: columns.collect() }
    });
    Placement { root: PlannedNode::Concat(pieces.collect()), witnesses, tolerates, warnings: Vec::new() }
}

/// Failures of fault domains survived: legs of a row are in different domains, so data survives legs - needed of them;
/// votes survive as many as leave more than half when the heaviest domains go.
fn tolerates(layout: &Layout, rows: &[Vec<PlannedLeg>], witnesses: &[PlannedLeg]) -> u8 {
    let mut by_domain: BTreeMap<&str, u32> = BTreeMap::new();
    for leg in rows.iter().flatten().chain(witnesses) {
        *by_domain.entry(&leg.fault_domain).or_default() += leg.votes;
    }
    let mut heavy: Vec<u32> = by_domain.into_values().collect();
    heavy.sort_unstable_by_key(|votes| Reverse(*votes));
    let total: u32 = heavy.iter().sum();
    let by_data = layout.legs - layout.legs_needed;
    let survives = |failed: &usize| heavy.iter().skip(*failed).sum::<u32>() * 2 > total;
    let count = (1..=by_data).take_while(survives).count();
    u8::try_from(count).unwrap_or(u8::MAX)
}
