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

/// Whoever waited for room in a log held room in others: a request over two batches waited for itself, two full logs for each
/// other, a resync for what nobody made stable.
#[test]
fn full_log_never_waits_for_itself() {
    passes(
        "object",
        [50, 60, 65, 92, 113, 127, 133, 143, 147, 186, 192, 254, 261, 357, 366, 392, 402, 477, 482, 494],
    );
}

/// What stale legs, or objects that were not open yet, had in a log filled it: a resync or a roll-forward of another object waited
/// for ever.
#[test]
fn logs_are_not_held_by_what_nobody_writes() {
    passes("troubles", [229, 326]);
}

/// A disk that went with its host in the middle of a destage was taken for a failed one, and its components never came back.
#[test]
fn disk_of_a_lost_host_comes_back() {
    passes("object", [49, 66, 81, 176]);
}

/// The power failed while the object was opened after a death of the process: what was not flushed may be gone.
#[test]
fn second_crash_before_the_next_open() {
    passes("object", [826]);
}

/// Content that one leg had applied was trimmed while the other had it in its log only: the trim left nothing in that leg's map,
/// and the leg that had been away kept the content.
#[test]
fn acknowledged_trim_is_kept() {
    passes("object", [120]);
}

/// A copy lost power between the landing of a write there and its acknowledgement, and was the first to return: what was not
/// flushed may be gone then.
#[test]
fn unflushed_write_on_a_lost_copy_may_be_gone() {
    passes("unlimited", [242]);
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
        (Mutant::AckBeforeStaleMark, "object", 0..400),
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
