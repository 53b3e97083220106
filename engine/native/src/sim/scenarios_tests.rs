//! Seeds that every build runs, seeds that once failed, and mutants that must be noticed.
use super::*;

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
fn one_seed_is_one_history() {
    for name in ["leg", "object"] {
        let scenario = Scenario::named(name).expect("a scenario");
        assert_eq!(scenario.run(3), scenario.run(3), "{name}");
        assert_ne!(scenario.run(3), scenario.run(4), "{name}");
    }
}
