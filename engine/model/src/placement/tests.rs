//! Placement against a search of all possibilities, and its refusals.
use super::*;
use crate::policy::Policy;
use proptest::prelude::*;
use std::collections::BTreeSet;

const MIB: u64 = 1 << 20;

/// A disk with `free` MiB of a large one.
fn room(host: &str, number: u32, free_mib: u64) -> Room {
    let bytes: String = host.chars().filter(char::is_ascii_digit).collect();
    let host_number: u32 = bytes.parse().unwrap_or(0);
    Room {
        disk: DiskId(uuid::Uuid::from_u128(u128::from(host_number) << 32 | u128::from(number))),
        disk_name: format!("{host}-cap{number}"),
        host: host.into(),
        fault_domain: host.into(),
        site: None,
        total_bytes: 1 << 40,
        free_bytes: free_mib * MIB,
        promised_bytes: 0,
        components: 0,
        components_max: 9000,
        unusable: None,
    }
}

fn hosts(count: u32, disks: u32, free_mib: u64) -> Topology {
    let rooms =
        (1..=count).flat_map(|host| (1..=disks).map(move |disk| room(&format!("h{host}"), disk, free_mib)));
    Topology { rooms: rooms.collect() }
}

fn policy(method: FaultToleranceMethod, failures: u8) -> Policy {
    let percent = 100;
    Policy {
        fault_tolerance_method: method,
        failures_to_tolerate: failures,
        object_space_reservation_percent: percent,
        ..Policy::built_in()
    }
}

use FaultToleranceMethod::{Raid1, Raid5, Raid6};

/// Takes the room of a placement.
fn take(topology: &mut Topology, placement: &Placement) {
    for leg in placement.legs().into_iter().chain(&placement.witnesses) {
        let room = topology.rooms.iter_mut().find(|room| room.disk == leg.disk).expect("a known disk");
        room.components += 1;
        room.free_bytes = room.free_bytes.checked_sub(leg.reserve_bytes).expect("never more than is free");
    }
}

#[test]
fn a1_disks_do_not_replace_hosts() {
    for disks in [1, 2, 8] {
        let refusal = place(&hosts(2, disks, 1000), &policy(Raid1, 1), 10 * MIB).expect_err("two hosts");
        assert_eq!(refusal.summary, "needs 3 fault domains, 2 available");
        assert_eq!((refusal.needs_fault_domains, refusal.has_fault_domains), (3, 2));
        assert!(refusal.nearest[0].starts_with("1 more host"), "{:?}", refusal.nearest);
        assert!(place(&hosts(3, disks, 1000), &policy(Raid1, 1), 10 * MIB).is_ok());
    }
}

#[test]
fn a1_every_method_needs_exactly_its_number() {
    for (method, failures, needs) in
        [(Raid1, 0, 1), (Raid1, 1, 3), (Raid1, 2, 5), (Raid1, 3, 7), (Raid5, 1, 4), (Raid6, 2, 6)]
    {
        let placement =
            place(&hosts(needs, 2, 1000), &policy(method, failures), 10 * MIB).expect("exactly enough");
        assert_eq!(placement.tolerates, failures);
        let refusal =
            place(&hosts(needs - 1, 2, 1000), &policy(method, failures), 10 * MIB).expect_err("one less");
        assert_eq!((refusal.needs_fault_domains, refusal.has_fault_domains), (needs, needs - 1));
    }
}

#[test]
fn a1_fifty_objects_on_six_hosts_with_an_almost_full_disk_each() {
    let mut topology = hosts(6, 2, 4000);
    topology
        .rooms
        .iter_mut()
        .filter(|room| room.disk_name.ends_with("cap1"))
        .for_each(|room| room.free_bytes = MIB);
    for number in 0..50 {
        let placement =
            place(&topology, &policy(Raid6, 2), 200 * MIB).unwrap_or_else(|no| panic!("{number}: {no}"));
        let domains: BTreeSet<_> = placement.legs().iter().map(|leg| leg.fault_domain.clone()).collect();
        assert_eq!((placement.legs().len(), domains.len(), placement.witnesses.len()), (6, 6, 0));
        take(&mut topology, &placement);
    }
}

#[test]
fn a_refusal_names_every_host_and_its_reason() {
    let mut topology = hosts(3, 1, 1000);
    topology.rooms[0].unusable = Some("h1 is absent".into());
    topology.rooms[1].free_bytes = 5 * MIB;
    let refusal = place(&topology, &policy(Raid1, 1), 10 * MIB).expect_err("one host left");
    assert_eq!(refusal.summary, "needs 3 fault domains, 2 available");
    assert_eq!(refusal.reasons, [("h1".into(), "h1 is absent".to_owned())]);
    topology.rooms[0].unusable = None;
    topology.rooms[0].components_max = 0;
    let refusal = place(&topology, &policy(Raid1, 0), 10_000 * MIB).expect_err("too large");
    assert_eq!(refusal.reasons.len(), 3, "{refusal:?}");
    assert!(refusal.reasons[0].1.contains("components already"));
    assert!(refusal.reasons[1].1.contains("needs 9.8 GiB free, has 5 MiB"), "{refusal:?}");
}

#[test]
fn b5_freest_hosts_first_places_four_of_six() {
    let mut topology = hosts(3, 1, 98);
    let placed = (0..6).filter(|_| {
        let placement = place(&topology, &policy(Raid1, 1), 30 * MIB);
        if let Ok(placement) = &placement {
            take(&mut topology, placement);
        }
        placement.is_ok()
    });
    assert_eq!(placed.count(), 4);
}

#[test]
fn force_takes_what_there_is_and_says_so() {
    let forced = Policy { force_provisioning: true, ..policy(Raid1, 1) };
    let placement = place(&hosts(2, 1, 1000), &forced, 10 * MIB).expect("forced");
    assert_eq!((placement.legs().len(), placement.witnesses.len(), placement.tolerates), (2, 0, 0));
    assert!(placement.warnings[0].contains("survives 0 failures now, the policy asks for 1"));
    let parity = Policy { force_provisioning: true, ..policy(Raid6, 2) };
    assert_eq!(place(&hosts(5, 1, 1000), &parity, 10 * MIB).expect("forced").legs().len(), 1);
    assert!(place(&hosts(1, 1, 1), &forced, 10 * MIB).is_err(), "force makes no room");
}

#[test]
fn large_objects_are_cut_into_pieces_and_stripes_use_different_disks() {
    let wide = Policy { stripe_width: 2, object_space_reservation_percent: 0, ..policy(Raid1, 1) };
    let size = 1200 << 30;
    let placement = place(&hosts(3, 2, 1000), &wide, size).expect("thin");
    let PlannedNode::Concat(pieces) = &placement.root else { panic!("a concat") };
    assert_eq!(pieces.len(), 3);
    let total: u64 = pieces
        .iter()
        .map(|piece| match piece {
            PlannedNode::Stripe { size_bytes, columns } => {
                assert_eq!(columns.len(), 2);
                *size_bytes
            }
            _ => panic!("a stripe"),
        })
        .sum();
    assert_eq!(total, size);
    for rows in placement.rows().chunks(2) {
        assert_ne!(rows[0][0].disk, rows[1][0].disk);
        assert_eq!(rows[0][0].fault_domain, rows[1][0].fault_domain);
        assert!(rows[0][0].size_bytes <= crate::units::COMPONENT_BYTES_MAX);
    }
    assert_eq!(placement.warnings, Vec::<String>::new());
    assert_eq!(place(&hosts(3, 1, 1000), &wide, size).expect("thin").warnings.len(), 1);
}

#[test]
fn thin_volumes_spread_by_what_was_promised() {
    let mut topology = hosts(4, 1, 1000);
    topology.rooms[0].promised_bytes = 500 * MIB;
    let thin = Policy { object_space_reservation_percent: 0, ..policy(Raid1, 1) };
    let placement = place(&topology, &thin, 100 * MIB).expect("fits");
    assert!(placement.legs().iter().all(|leg| leg.host != "h1"));
}

#[test]
fn a_spare_keeps_clear_of_the_other_components() {
    let topology = hosts(4, 2, 1000);
    let staying = [
        StayingLeg { disk: topology.rooms[0].disk, replica: Some(0) },
        StayingLeg { disk: topology.rooms[2].disk, replica: None },
    ];
    let need = SpareNeed { bytes: 10 * MIB, replica: Some(1), domains: 3 };
    let found = place_one(&topology, need, &staying).expect("h3 or h4");
    assert_eq!(found, topology.rooms[4].disk);
    let three = Topology { rooms: topology.rooms[..4].to_vec() };
    let refusal = place_one(&three, need, &staying).expect_err("no third domain");
    assert_eq!(refusal.summary, "needs 3 fault domains, 2 available");
    let column = SpareNeed { replica: Some(0), ..need };
    assert_eq!(
        place_one(&three, column, &staying),
        Ok(topology.rooms[1].disk),
        "another disk of its own domain"
    );
}

/// Whether `legs` slots in different domains exist for each of `rows` rows: tries everything.
fn oracle(slots: &mut Vec<usize>, rows: usize, legs: usize) -> bool {
    if rows == 0 {
        return true;
    }
    (0..1u32 << slots.len()).filter(|set| set.count_ones() as usize == legs).any(|set| {
        let chosen: Vec<usize> = (0..slots.len()).filter(|index| set >> index & 1 == 1).collect();
        if chosen.iter().any(|index| slots[*index] == 0) {
            return false;
        }
        chosen.iter().for_each(|index| slots[*index] -= 1);
        let fits = oracle(slots, rows - 1, legs);
        chosen.iter().for_each(|index| slots[*index] += 1);
        fits
    })
}

proptest! {
    /// Places exactly when a solution exists, disjoint by row, within room, tolerating what the policy asks.
    #[test]
    fn placement_succeeds_exactly_when_a_solution_exists(
        slots in proptest::collection::vec(proptest::collection::vec(0..3u64, 1..3), 1..7),
        width in 1..4u8,
        shape in prop_oneof![Just((Raid1, 0)), Just((Raid1, 1)), Just((Raid1, 2)), Just((Raid5, 1)), Just((Raid6, 2))],
    ) {
        let mut wanted = policy(shape.0, shape.1);
        wanted.stripe_width = width;
        let size = u64::from(width) * 12 * MIB;
        let layout = Layout::of(&wanted, size);
        let mut topology = Topology::default();
        for (host, disks) in slots.iter().enumerate() {
            for (number, count) in disks.iter().enumerate() {
                let mut room = room(&format!("h{host}"), u32::try_from(number).unwrap_or(0), 0);
                room.free_bytes = layout.reserve_bytes * count + COMPONENT_METADATA_BYTES;
                topology.rooms.push(room);
            }
        }
        let mut of_domain: Vec<usize> = slots.iter().map(|disks| disks.iter().sum::<u64>() as usize).collect();
        let possible = slots.len() >= layout.domains && oracle(&mut of_domain, layout.rows(), layout.legs);
        let placed = place(&topology, &wanted, size);
        prop_assert_eq!(placed.is_ok(), possible);
        if let Ok(placement) = placed {
            prop_assert_eq!(placement.tolerates, shape.1);
            for row in placement.rows() {
                let domains: BTreeSet<_> = row.iter().map(|leg| &leg.fault_domain).collect();
                prop_assert_eq!(domains.len(), row.len());
            }
            topology.rooms.reverse();
            prop_assert_eq!(&place(&topology, &wanted, size).expect("order does not matter"), &placement);
            take(&mut topology, &placement);
        }
    }
}
