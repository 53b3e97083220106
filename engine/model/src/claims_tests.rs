//! Claims about divisions whose right answer is known, and the rules that hold for all.
use super::*;
use crate::policy::Policy;
use proptest::prelude::*;

const GIB: u64 = 1 << 30;

fn id(number: usize) -> DiskId {
    DiskId(uuid::Uuid::from_u128(number as u128 + 1))
}

fn member(number: usize, gib: u64) -> Member {
    let name = format!("sd{}", char::from(b'a' + number as u8));
    let (body, media) = (name.clone(), Media::Hdd);
    Member { id: id(number), name, size_bytes: gib * GIB, media, body, controller: None, enclosure: None }
}

/// Each disk a domain, without cache.
fn each(sizes: &[u64]) -> Division {
    let members: Vec<Member> = sizes.iter().enumerate().map(|(number, gib)| member(number, *gib)).collect();
    let domain = |one: &Member| Domain { name: one.name.clone(), cache: vec![], capacity: vec![one.id] };
    Division { kind: HostKind::Disk, domains: members.iter().map(domain).collect(), members }
}

fn mirror(failures: u8) -> Policy {
    Policy { failures_to_tolerate: failures, ..Policy::built_in() }
}

fn worst(division: &Division, failures: u8) -> Vec<(String, Fate)> {
    let verdict = verdict(division, &mirror(failures), true);
    let all = verdict.singles.iter().chain(&verdict.doubles);
    all.map(|claim| (verdict.names(claim).join(" + "), claim.worst())).collect()
}

#[test]
fn three_disks_survive_one_and_lose_data_with_two() {
    let division = each(&[100, 100, 100]);
    let expected = [
        ("disk sda", Fate::Reduced),
        ("disk sdb", Fate::Reduced),
        ("disk sdc", Fate::Reduced),
        ("disk sda + disk sdb", Fate::Lost),
        ("disk sda + disk sdc", Fate::Lost),
        ("disk sdb + disk sdc", Fate::Lost),
    ];
    assert_eq!(worst(&division, 1), expected.map(|(name, fate)| (name.to_owned(), fate)));
    // Whether it is lost or only away depends on which of the two carried the witness.
    let both = &verdict(&division, &mirror(1), true).doubles[0];
    assert_eq!(both.fates.iter().copied().collect::<Vec<_>>(), [Fate::Unavailable, Fate::Lost]);
}

#[test]
fn five_disks_survive_any_two_under_two_failures() {
    let all = worst(&each(&[100, 100, 100, 50, 200]), 2);
    assert_eq!(all.len(), 5 + 10);
    assert!(all.iter().all(|(_, fate)| *fate == Fate::Reduced), "{all:?}");
}

#[test]
fn a_shared_cache_takes_all_behind_it_along() {
    let mut division = each(&[100, 100, 100]);
    division.members.push(Member { media: Media::Flash, ..member(3, 50) });
    division.domains.iter_mut().for_each(|domain| domain.cache = vec![id(3)]);
    let verdict = verdict(&division, &mirror(1), true);
    assert_eq!(verdict.single("cache disk sdd").unwrap().worst(), Fate::Lost);
    assert_eq!(verdict.single("disk sda").unwrap().worst(), Fate::Reduced);
    assert_eq!(division.shared_caches()[0].1, ["sda", "sdb", "sdc"]);
    assert_eq!(verdict.parts.len(), 4, "the cache belongs to no domain alone: {:?}", verdict.parts);
}

#[test]
fn one_body_is_one_domain_and_one_part() {
    let mut division = each(&[100, 100, 100, 100]);
    division.members[1].body = "sda".into();
    assert_eq!(division.together(), [["sda", "sdb"]]);
    let verdict = verdict(&division, &mirror(1), false);
    assert_eq!(verdict.usable.has_fault_domains, 3);
    assert_eq!(verdict.single("the device with sda, sdb").unwrap().worst(), Fate::Reduced);
    division.members[2].body = "sda".into();
    let two = super::verdict(&division, &mirror(1), false);
    assert_eq!(two.refusal.as_deref(), Some("needs 3 fault domains, 2 available"));
    assert_eq!((two.usable.usable_bytes, two.singles.len()), (0, 0));
}

#[test]
fn a_controller_is_lost_as_a_whole() {
    let mut division = each(&[100, 100, 100, 100]);
    for (index, one) in division.members.iter_mut().enumerate() {
        one.controller = Some(format!("0000:0{}:00.0", index / 2));
    }
    let by_disk = verdict(&division, &mirror(1), true);
    assert_eq!(by_disk.single("controller 0000:00:00.0").unwrap().worst(), Fate::Lost);
    // A disk and its own controller are no pair.
    assert!(
        by_disk.doubles.iter().all(|claim| by_disk.names(claim) != ["disk sda", "controller 0000:00:00.0"])
    );
}

#[test]
fn yields_are_what_is_left_for_data() {
    let division = each(&[100, 100, 100]);
    let usable = verdict(&division, &mirror(1), false).usable.usable_bytes;
    let each = data_bytes(DiskRole::Combined, 100 * GIB);
    assert!(each < 90 * GIB && usable / 3 * 2 <= each && usable / 3 * 2 + 4096 > each, "{usable} of {each}");
}

proptest! {
    /// The claim is the worst of all volumes: no volume fares worse, however full the disks are; and never worse than two failures
    /// more than the policy tolerates could make it.
    #[test]
    fn no_volume_fares_worse_than_claimed(
        shape in prop::collection::vec((1u64..40, 0usize..3), 3..7),
        failures in 1u8..3,
        fill in prop::collection::vec(0u64..1000, 7),
    ) {
        let mut division = each(&shape.iter().map(|(gib, _)| *gib).collect::<Vec<_>>());
        for (one, (_, controller)) in division.members.iter_mut().zip(&shape) {
            one.controller = Some(format!("c{controller}"));
        }
        let policy = mirror(failures);
        let verdict = verdict(&division, &policy, true);
        let mut topology = division.topology();
        for (room, promised) in topology.rooms.iter_mut().zip(&fill) {
            (room.promised_bytes, room.components) = (*promised << 20, (*promised % 7) as u32);
        }
        let Ok(placement) = crate::placement::place(&topology, &policy, 1 << 20) else {
            prop_assert!(verdict.refusal.is_some());
            return Ok(());
        };
        for claim in verdict.singles.iter().chain(&verdict.doubles) {
            let direct = claim.lost.iter().flat_map(|index| verdict.parts[*index].disks.clone()).collect();
            let fate = fate_of_placement(&placement, &division.gone_with(&direct));
            prop_assert!(fate <= claim.worst(), "{:?}: {fate:?}, claimed {:?}", verdict.names(claim), claim.fates);
        }
    }
}
