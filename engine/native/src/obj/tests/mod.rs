//! Objects on components in memory: each rule has a scenario, each mutant dies in one, and random schedules meet an oracle.
mod address;
mod bytes;
mod mem;
mod random;
mod reshape;
mod rules;

use crate::mutant::Mutant;

/// A scenario returns what it found wrong.
type Verdict = Result<(), String>;

/// The scenario holds, and it notices when the rule is missing.
fn rule(mutant: Mutant, scenario: impl AsyncFn() -> Verdict) {
    assert_eq!(mem::run(&scenario), Ok(()));
    dies(mutant, &scenario);
}

fn dies(mutant: Mutant, scenario: &impl AsyncFn() -> Verdict) {
    crate::mutant::set(Some(mutant));
    let verdict = mem::run(scenario);
    crate::mutant::set(None);
    assert!(verdict.is_err(), "{mutant:?} lives");
}

/// An `Err` with what is wrong unless `holds`.
fn ensure(holds: bool, what: impl FnOnce() -> String) -> Verdict {
    if holds { Ok(()) } else { Err(what()) }
}
