//! Usable capacity against the recorded cases and against plain counting.
use super::*;
use proptest::prelude::*;

const GIB: f64 = (1u64 << 30) as f64;

#[test]
fn b1_every_number_of_the_file() {
    let file: serde_json::Value =
        serde_json::from_str(include_str!("../cases/B1_uneven_domains.json")).expect("a JSON file");
    let cases = file["cases"].as_array().expect("a list of cases");
    assert_eq!(cases.len(), 5);
    for case in cases {
        let list = case["domains_gib"].as_array().expect("capacities");
        let bytes: Vec<u64> = list.iter().map(|gib| gib.as_u64().expect("a number") << 30).collect();
        let shapes = [
            ("mirror_2_copies_ftt1", 2, 1),
            ("mirror_3_copies", 3, 1),
            ("raid5_3+1", 4, 3),
            ("raid6_4+2", 6, 4),
        ];
        for (name, all, data) in shapes {
            let usable = water_fill(&bytes, all, data);
            let expected = case["usable_gib"][name].as_f64().unwrap_or(0.0);
            let found = usable.usable_bytes as f64 / GIB;
            assert!(
                (found - expected).abs() < 0.001,
                "{} {name}: {found} instead of {expected}",
                case["name"]
            );
        }
    }
}

#[test]
fn b1_the_part_that_cannot_be_used_is_named() {
    let gib = |gib: u64| gib << 30;
    let usable = water_fill(&[gib(20), gib(20), gib(20), gib(60)], 3, 1);
    assert_eq!(usable.stranded_bytes, [0, 0, 0, gib(30)]);
}

fn domain(name: &str, hosts: &[&str]) -> FaultDomainView {
    FaultDomainView { name: name.into(), hosts: hosts.iter().map(|host| (*host).into()).collect() }
}

fn seven() -> Vec<(&'static str, bool)> {
    ["h1", "h2", "h3", "h4", "h5", "h6", "h7"].into_iter().map(|host| (host, true)).collect()
}

#[test]
fn a4_a_forgotten_host_counts_and_is_warned_about() {
    let mut racks = vec![
        domain("rack1", &["h1", "h2"]),
        domain("rack2", &["h3", "h4"]),
        domain("rack3", &["h5", "h6"]),
        domain("rack4", &[]),
    ];
    let effective = effective_domains(&seven(), &racks);
    assert_eq!(effective.domains, ["h7", "rack1", "rack2", "rack3"]);
    let warnings = [
        "fault domain rack4 has no host and counts 0",
        "host h7 is in no fault domain and counts as one of its own",
    ];
    assert_eq!(effective.warnings, warnings);
    racks[0].hosts.push("h7".into());
    assert_eq!(effective_domains(&seven(), &racks).domains.len(), 3);
}

#[test]
fn a4_names_that_differ_in_case_or_blanks_are_one_domain() {
    let racks = [domain("Rack A", &["h1"]), domain("rack a", &["h2"]), domain("racka ", &["h3"])];
    let effective = effective_domains(&seven()[..3], &racks);
    assert_eq!(effective.domains, ["Rack A"]);
    assert_eq!(effective.warnings.len(), 2);
}

#[test]
fn a4_hosts_without_named_domains_give_no_warning_and_dead_ones_do_not_count() {
    let effective = effective_domains(&[("h1", true), ("h2", false)], &[]);
    assert_eq!((effective.domains, effective.warnings), (vec!["h1".to_owned()], Vec::new()));
}

proptest! {
    /// The oracle really fills the domains: unit by unit, into the fullest ones first.
    #[test]
    fn water_level_is_what_filling_reaches(
        capacities in proptest::collection::vec(0..12u64, 0..8), all in 1..7u32,
    ) {
        let mut left = capacities.clone();
        let mut rows = 0;
        loop {
            left.sort_unstable_by(|a, b| b.cmp(a));
            let Some(chosen) = left.get_mut(..all as usize) else { break };
            if chosen.last() == Some(&0) {
                break;
            }
            chosen.iter_mut().for_each(|room| *room -= 1);
            rows += 1;
        }
        prop_assert_eq!(water_fill(&capacities, all, 1).usable_bytes, rows);
    }
}
