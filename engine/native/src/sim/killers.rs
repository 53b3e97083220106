//! Which scenario notices that a rule of safety is missing.
//!
//! Invariant: every mutant has one, by a `match` without a default: a new mutant does not compile without it.
use super::scenarios::Scenario;
use crate::mutant::Mutant;
use std::ops::Range;

/// A scenario and the seeds of which one at least must fail with the mutant, while all pass without it.
#[derive(Clone, Debug)]
pub struct Killer {
    /// Name of the scenario.
    pub scenario: &'static str,
    /// Its seeds.
    pub seeds: Range<u64>,
}

/// What kills `mutant`.
pub fn killer(mutant: Mutant) -> Killer {
    let (scenario, seeds) = match mutant {
        Mutant::HighestAcked => ("acknowledged-out-of-order", 0..8),
        Mutant::NoEpochBump => ("two-descriptors", 0..8),
        Mutant::NoBarrier => ("write-set-barrier", 0..16),
        Mutant::NoLogScan => ("rot-in-the-log", 0..8),
        Mutant::EarlyLogReuse => ("log-wraps", 0..400),
        Mutant::DestageUnstable => ("unstable-stays-logged", 0..16),
        Mutant::EarlyExtentReuse => ("freed-extent", 0..4),
        Mutant::AckBeforeStaleMark => ("stale-mark-first", 0..16),
        Mutant::OneSidedDelta => ("torn-write-returns", 0..8),
        Mutant::NoRollForward => ("torn-write", 0..16),
        Mutant::SupersededByUnstable => ("replaced-unflushed", 0..400),
        Mutant::TrimWithoutLock => ("trim-beside-write", 0..8),
        Mutant::NoSelfOffset => ("header-out-of-place", 0..1),
        Mutant::ForgetHoleSequence => ("trim-while-away", 0..4),
        Mutant::ForgetHiddenData => ("trim-of-hidden-content", 0..8),
        Mutant::EarlyRangeUnlock => ("read-after-read", 0..8),
        Mutant::NoReadChecksum => ("rot-at-rest", 0..4),
        Mutant::SkipLogFlush => ("power-cut-after-flush", 0..16),
        Mutant::SkipCheckpointFlush => ("checkpoint-cut-short", 0..200),
        Mutant::NoTombstone => ("deleted-while-away", 0..4),
        Mutant::ReuseLocalId => ("component-numbers", 0..4),
    };
    Killer { scenario, seeds }
}

/// How a mutant ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Fate {
    /// The seed that noticed, and what it said.
    Dies(u64, String),
    /// No seed noticed.
    Lives,
    /// This seed fails without any mutant, and this is why.
    Broken(u64, String),
}

/// Runs the killer of `mutant`: each seed with it until one fails, and that one without it. Outside of tests and without the
/// feature `mutants` every mutant lives.
pub fn try_mutant(mutant: Mutant) -> Fate {
    let Killer { scenario, seeds } = killer(mutant);
    let Some(scenario) = Scenario::named(scenario) else {
        return Fate::Broken(0, format!("there is no scenario {scenario}"));
    };
    for seed in seeds {
        crate::mutant::set(Some(mutant));
        let noticed = scenario.run(seed);
        crate::mutant::set(None);
        if let Err(violation) = noticed {
            return match scenario.run(seed) {
                Ok(_) => Fate::Dies(seed, violation.0),
                Err(violation) => Fate::Broken(seed, violation.0),
            };
        }
    }
    Fate::Lives
}
