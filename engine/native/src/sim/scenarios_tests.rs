//! Seeds that every build runs, seeds that once failed, and mutants that must be noticed.
use super::super::killers::{Fate, killer, try_mutant};
use super::*;
use crate::mutant::Mutant;

fn passes(name: &str, seeds: impl IntoIterator<Item = u64>) {
    let scenario = Scenario::named(name).expect("a scenario");
    for seed in seeds {
        if let Err(violation) = scenario.run(seed) {
            panic!("{name} seed {seed}: {}", violation.0);
        }
    }
}

#[test]
fn group_alone_survives_crashes() {
    passes("leg", 0..12);
}

#[test]
fn object_survives_hosts_that_come_and_go() {
    passes("object", 0..8);
}

#[test]
fn object_survives_other_troubles() {
    passes("troubles", 0..8);
}

#[test]
fn too_many_losses_cost_nothing_but_time() {
    passes("unlimited", 0..8);
}

#[test]
fn every_script_passes() {
    for script in SCENARIOS.iter().filter(|scenario| scenario.is_script) {
        passes(script.name, 0..4);
    }
}

#[test]
fn one_seed_is_one_history() {
    for name in ["leg", "object", "troubles", "unlimited", "log-wraps"] {
        let scenario = Scenario::named(name).expect("a scenario");
        assert_eq!(scenario.run(3), scenario.run(3), "{name}");
        assert_ne!(scenario.run(3), scenario.run(4), "{name}");
    }
}

/// Found and not yet mended: a request that spans batches of a full log waits for itself, since the stable records that its
/// first part replaced keep the log and can no longer be applied.
#[test]
#[ignore = "a request over several batches can wait for itself when the log is full"]
fn full_log_never_waits_for_itself() {
    passes("object", [50, 60, 92, 113, 127, 133, 147]);
}

/// Content that one leg had applied was trimmed while the other had it in its log only: the trim left nothing in that leg's map,
/// and the leg that had been away kept the content.
#[test]
fn acknowledged_trim_is_kept() {
    passes("object", [120]);
}

#[test]
fn every_mutant_dies() {
    let alive: Vec<_> = Mutant::ALL
        .iter()
        .map(|mutant| (*mutant, try_mutant(*mutant)))
        .filter(|(_, fate)| !matches!(fate, Fate::Dies(..)))
        .collect();
    assert!(alive.is_empty(), "{alive:#?}");
}

#[test]
fn random_worlds_notice_mutants_too() {
    // Which seed notices changes with every change of the order of events: any of a few must.
    let known = [
        (Mutant::NoEpochBump, "leg", 0..4),
        (Mutant::SkipLogFlush, "leg", 10..30),
        (Mutant::NoRollForward, "object", 14..40),
        (Mutant::EarlyRangeUnlock, "object", 0..10),
        (Mutant::AckBeforeStaleMark, "object", 0..60),
    ];
    for (mutant, name, mut seeds) in known {
        let scenario = Scenario::named(name).expect("a scenario");
        crate::mutant::set(Some(mutant));
        let noticed = seeds.find(|seed| scenario.run(*seed).is_err());
        crate::mutant::set(None);
        let seed = noticed.unwrap_or_else(|| panic!("{mutant:?} lives through {name}"));
        assert!(scenario.run(seed).is_ok(), "{name} seed {seed} without {mutant:?}");
    }
}

#[test]
fn killers_are_scenarios() {
    for mutant in Mutant::ALL {
        let name = killer(*mutant).scenario;
        assert!(Scenario::named(name).is_some(), "{mutant:?} is to be killed by {name}");
    }
}
