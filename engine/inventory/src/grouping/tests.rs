//! Groupings against a stupid oracle: every volume that can be placed, every single and double loss, one by one.
use super::*;
use model::claims::parts;
use model::policy::FaultToleranceMethod;
use proptest::prelude::*;

const GB: u64 = 1_000_000_000;

fn member(number: u128, size_bytes: u64, media: Media) -> Member {
    let name = format!("sd{}", char::from(b'a' + u8::try_from(number).expect("few")));
    Member {
        id: DiskId(uuid::Uuid::from_u128(number + 100)),
        body: name.clone(),
        name,
        size_bytes,
        media,
        controller: None,
        enclosure: None,
    }
}

fn mirror(failures: u8) -> Policy {
    Policy { name: format!("ftt{failures}"), failures_to_tolerate: failures, ..Policy::built_in() }
}

fn kinds(groupings: &[Grouping]) -> Vec<(HostKind, usize)> {
    groupings.iter().map(|grouping| (grouping.kind, grouping.domains.len())).collect()
}

#[test]
fn three_equal_disks_are_three_domains() {
    let members: Vec<Member> = (0..3).map(|number| member(number, 1000 * GB, Media::Flash)).collect();
    let groupings = propose(&members, &[Policy::built_in()]);
    assert_eq!(kinds(&groupings), [(HostKind::Disk, 3), (HostKind::Machine, 1)]);
    let first = &groupings[0].yields[0];
    // The log of each disk, its maps and what is kept back are not data.
    let usable = first.usable.usable_bytes;
    assert!((1435 * GB..1447 * GB).contains(&usable) && first.refusal.is_none(), "{usable}");
    assert_eq!(best(&groupings), Some(0));
    let said: Vec<&str> = first.sentences.iter().map(|sentence| sentence.text.as_str()).collect();
    let twice = "Two losses at once, before the first is rebuilt, are not survived.";
    assert_eq!(said, ["Survives the loss of any one disk.", twice]);
    assert_eq!(first.survives, ["disk sda", "disk sdb", "disk sdc"]);
    assert!(first.dies_with.is_empty());
    let machine = &groupings[1].yields[0];
    assert!(machine.refusal.as_deref().unwrap().contains("needs 3 fault domains, 1 available"));
    assert_eq!(machine.usable.usable_bytes, 0);
}

#[test]
fn two_disks_are_told_what_to_buy() {
    let members = [member(0, 4000 * GB, Media::Hdd), member(1, 4000 * GB, Media::Hdd)];
    let groupings = propose(&members, &[Policy::built_in()]);
    let remedy = groupings[0].yields[0].remedy.clone().unwrap();
    assert!(remedy.contains("For the witness alone even a file of 67.11 MB on another device is enough (then 3.95 TB are usable)"), "{remedy}");
    assert!(remedy.starts_with("1 more disk of at least 4 TB (then 5.9"), "{remedy}");
}

#[test]
fn files_on_one_device_are_one_domain_also_when_a_person_splits_them() {
    let mut members: Vec<Member> = (0..4).map(|number| member(number, 100 * GB, Media::Flash)).collect();
    members[1].body = "sda".into();
    let groupings = propose(&members, &[Policy::built_in()]);
    assert_eq!(groupings[0].domains.len(), 3);
    let split: Vec<Domain> = (0..3)
        .map(|index| Domain { name: format!("d{index}"), cache: vec![], capacity: vec![members[index].id] })
        .collect();
    let made = evaluate(HostKind::Disk, "mine", split, &members, &[Policy::built_in()]);
    assert_eq!(made.yields[0].usable.has_fault_domains, 2);
    assert!(made.yields[0].refusal.is_some());
    assert_eq!(
        made.warnings[0].text,
        "the failure domains d0 and d1 lie on one device and fail together: 2 count as 1"
    );
}

#[test]
fn a_shared_cache_is_a_shared_fate() {
    let mut members: Vec<Member> = (0..3).map(|number| member(number, 4000 * GB, Media::Hdd)).collect();
    members.push(member(3, 500 * GB, Media::Flash));
    let groupings = propose(&members, &[Policy::built_in()]);
    assert_eq!(kinds(&groupings), [(HostKind::Disk, 4), (HostKind::Disk, 3), (HostKind::Machine, 1)]);
    let sliced = &groupings[1];
    assert_eq!(sliced.yields[0].dies_with, ["cache disk sdd"]);
    let bad = sliced.yields[0].sentences.iter().find(|sentence| !sentence.good).unwrap();
    assert_eq!(bad.text, "Does not survive the loss of cache disk sdd: data can be lost.");
    assert_eq!(best(&groupings), Some(0), "what survives everything is better than what does not");
    assert_eq!(sliced.yields[0].survives, ["disk sda", "disk sdb", "disk sdc"]);
    assert!(
        sliced.warnings[0].text.starts_with("the disk sdd is the cache of sda, sdb, sdc"),
        "{:?}",
        sliced.warnings
    );
}

#[test]
fn a_controller_is_survived_only_when_it_is_a_domain() {
    let mut members: Vec<Member> = (0..6).map(|number| member(number, 1000 * GB, Media::Hdd)).collect();
    for (index, one) in members.iter_mut().enumerate() {
        one.controller = Some(format!("0000:0{}:00.0", index / 2));
    }
    let groupings = propose(&members, &[Policy::built_in()]);
    assert_eq!(kinds(&groupings), [(HostKind::Disk, 6), (HostKind::Enclosure, 3), (HostKind::Machine, 1)]);
    assert_eq!(groupings[0].yields[0].dies_with.len(), 3);
    assert!(groupings[1].yields[0].dies_with.is_empty());
    assert!(groupings[1].yields[0].survives.contains(&"controller 0000:02:00.0".to_owned()));
    assert!(
        groupings[1].domains.iter().all(|domain| model::arithmetic::name_problem(&domain.name).is_none())
    );
}

#[test]
fn uneven_domains_say_what_stays_unused() {
    let sizes = [20, 20, 20, 100];
    let members: Vec<Member> =
        (0..4).map(|number| member(number, sizes[number as usize] * 1000 * GB, Media::Hdd)).collect();
    let warnings = &propose(&members, &[Policy::built_in()])[0].warnings;
    assert_eq!(warnings.len(), 1);
    let text = &warnings[0].text;
    assert!(text.contains("stay unused (") && text.contains("TB of sdd); 5"), "{text}");
}

/// Whether a placed volume is still there when these disks are gone.
fn is_alive(placement: &model::placement::Placement, gone: &BTreeSet<DiskId>) -> bool {
    let witnesses = &placement.witnesses;
    let all = placement.legs().into_iter().chain(witnesses);
    let (mut total, mut present) = (0, 0);
    for leg in all {
        total += leg.votes;
        present += if gone.contains(&leg.disk) { 0 } else { leg.votes };
    }
    let needed = |row: &[model::placement::PlannedLeg]| row.iter().any(|leg| !gone.contains(&leg.disk));
    present * 2 > total && placement.rows().into_iter().all(needed)
}

proptest! {
    /// Whatever the disks: each part is named once, as survived or not, and what is said to be survived is survived by the volumes
    /// that we can make.
    #[test]
    fn what_is_said_to_survive_survives(
        shape in prop::collection::vec((1u64..40, 0u8..4, 0u8..6, any::<bool>()), 1..8),
        failures in 1u8..3,
    ) {
        let members: Vec<Member> = shape.iter().enumerate().map(|(index, (size, controller, body, flash))| {
            let media = if *flash { Media::Flash } else { Media::Hdd };
            let mut one = member(index as u128, size * 100 * GB, media);
            one.controller = (*controller < 3).then(|| format!("0000:0{controller}:00.0"));
            if *body < 2 { one.body = format!("body{body}"); }
            one
        }).collect();
        let policy = mirror(failures);
        for grouping in propose(&members, std::slice::from_ref(&policy)) {
            let said = &grouping.yields[0];
            let division = Division { kind: grouping.kind, domains: grouping.domains.clone(), members: members.clone() };
            let topology = division.topology();
            let parts = parts(&division);
            prop_assert_eq!(said.refusal.is_none(), place(&topology, &policy, VOLUME_BYTES_MIN).is_ok());
            prop_assert_eq!(said.survives.len() + said.dies_with.len(), if said.refusal.is_some() { 0 } else { parts.len() });
            for size in [VOLUME_BYTES_MIN, 300 * GB / 4096 * 4096] {
                let Ok(placement) = place(&topology, &policy, size) else { continue };
                for part in parts.iter().filter(|part| said.survives.contains(&part.name)) {
                    let gone = division.gone_with(&part.disks);
                    prop_assert!(is_alive(&placement, &gone), "{} {}", grouping.title, part.name);
                }
            }
        }
    }
}

#[test]
fn parity_needs_its_domains() {
    let members: Vec<Member> = (0..6).map(|number| member(number, 1000 * GB, Media::Flash)).collect();
    let raid6 = Policy {
        name: "raid6".into(),
        failures_to_tolerate: 2,
        fault_tolerance_method: FaultToleranceMethod::Raid6,
        ..Policy::built_in()
    };
    let grouping = &propose(&members, &[raid6])[0];
    assert_eq!(grouping.domains.len(), 6);
    let usable = grouping.yields[0].usable.usable_bytes;
    assert!((3835 * GB..3860 * GB).contains(&usable), "{usable}");
}
