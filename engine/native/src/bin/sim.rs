//! Runs seeds of the simulator: `sim [--scenario NAME] [--seed N] [--seeds K] [--jobs J] [--mutant NAME] [--list]
//! [--mutants]`.
//!
//! `--mutants` runs for every mutant the scenario that must notice it. Without a name all ordinary scenarios run.
//! Prints one line a failed seed with the command that repeats it, and a summary. Exit code 0 when every seed passed (with a
//! mutant: when one failed), 1 when not, 2 when it could not run.
//!
//! A world lives in one thread, with its own virtual time and its own mutant, so J of them run at once (default: one a core). What is
//! printed, and in which order, does not depend on J.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the output of a command line program")]
use native::mutant::{Mutant, set};
use native::sim::killers::{Fate, killer, try_mutant};
use native::sim::reference::Violation;
use native::sim::scenarios::{SCENARIOS, Scenario};
use native::sim::world::Story;
use std::collections::BTreeMap;
use std::num::NonZero;
use std::process::ExitCode;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc;

struct Options {
    scenarios: Vec<&'static Scenario>,
    first: u64,
    seeds: u64,
    jobs: usize,
    mutant: Option<Mutant>,
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Options, String> {
    let jobs = std::thread::available_parallelism().map_or(1, NonZero::get);
    let mut options =
        Options { scenarios: SCENARIOS.iter().collect(), first: 0, seeds: 1, jobs, mutant: None };
    while let Some(arg) = args.next() {
        if arg == "--list" {
            return Err(SCENARIOS
                .iter()
                .map(|known| format!("{:24}{}\n", known.name, known.about))
                .collect());
        }
        if arg == "--mutants" {
            return Err("mutants need a build with --features mutants".to_owned());
        }
        let value = args.next().ok_or(format!("{arg} needs a value"))?;
        match arg.as_str() {
            "--scenario" => {
                options.scenarios =
                    vec![Scenario::named(&value).ok_or(format!("no scenario {value}; try --list"))?];
            }
            "--seed" => options.first = value.parse().map_err(|_| format!("{value} is no seed"))?,
            "--seeds" => options.seeds = value.parse().map_err(|_| format!("{value} is no number"))?,
            "--jobs" => options.jobs = value.parse().map_err(|_| format!("{value} is no number"))?,
            "--mutant" if cfg!(not(feature = "mutants")) => {
                return Err("mutants need a build with --features mutants".to_owned());
            }
            "--mutant" => options.mutant = Some(value.parse().map_err(|()| format!("no mutant {value}"))?),
            _ => return Err(format!("unknown option {arg}")),
        }
    }
    Ok(options)
}

/// Runs every world on `options.jobs` threads and hands each result to `take`, in the order of scenarios and seeds.
fn run_all(options: &Options, mut take: impl FnMut(&'static Scenario, u64, Result<Story, Violation>)) {
    let worlds = options.scenarios.len() as u64 * options.seeds;
    let world = |index: u64| {
        let scenario = options.scenarios[usize::try_from(index / options.seeds).expect("few scenarios")];
        (scenario, options.first + index % options.seeds)
    };
    let next = AtomicU64::new(0);
    let (results, arrived) = mpsc::channel();
    std::thread::scope(|scope| {
        for _ in 0..options.jobs.max(1) {
            let (results, next) = (results.clone(), &next);
            scope.spawn(move || {
                set(options.mutant);
                loop {
                    let index = next.fetch_add(1, Ordering::Relaxed);
                    if index >= worlds {
                        break;
                    }
                    let (scenario, seed) = world(index);
                    if results.send((index, scenario.run(seed))).is_err() {
                        break;
                    }
                }
            });
        }
        drop(results);
        let (mut early, mut due) = (BTreeMap::new(), 0);
        for (index, result) in arrived {
            early.insert(index, result);
            while let Some(result) = early.remove(&due) {
                let (scenario, seed) = world(due);
                take(scenario, seed, result);
                due += 1;
            }
        }
    });
}

fn main() -> ExitCode {
    if cfg!(feature = "mutants") && std::env::args().any(|arg| arg == "--mutants") {
        std::panic::set_hook(Box::new(|_| {}));
        return try_all_mutants();
    }
    let options = match parse(std::env::args().skip(1)) {
        Ok(options) => options,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    std::panic::set_hook(Box::new(|_| {}));
    let (mut ran, mut failed, mut events) = (0_u64, 0_u64, 0);
    run_all(&options, |scenario, seed, result| {
        ran += 1;
        match result {
            Ok(story) if options.seeds == 1 => println!("PASS {} seed {seed}: {story:?}", scenario.name),
            Ok(story) => events += story.events,
            Err(violation) => {
                failed += 1;
                println!("FAIL {} seed {seed}: {}", scenario.name, violation.0);
                println!("     repeat: {}", repeat(scenario, seed, options.mutant));
            }
        }
    });
    println!("{ran} worlds, {events} disk events, {failed} failed");
    let complete = ran == options.scenarios.len() as u64 * options.seeds;
    ExitCode::from(u8::from(!complete || (failed > 0) != options.mutant.is_some()))
}

fn try_all_mutants() -> ExitCode {
    let mut alive = 0;
    for mutant in Mutant::ALL {
        let fate = try_mutant(*mutant);
        let scenario = killer(*mutant).scenario;
        match &fate {
            Fate::Dies(seed, why) => println!("{mutant:?} dies in {scenario} seed {seed}: {why}"),
            Fate::Lives => println!("{mutant:?} LIVES through {scenario}"),
            Fate::Broken(seed, why) => println!("{scenario} seed {seed} FAILS without {mutant:?}: {why}"),
        }
        alive += u32::from(!matches!(fate, Fate::Dies(..)));
    }
    println!("{} mutants, {alive} not dead", Mutant::ALL.len());
    ExitCode::from(u8::from(alive > 0))
}

fn repeat(scenario: &Scenario, seed: u64, mutant: Option<Mutant>) -> String {
    let features = if mutant.is_some() { " --features mutants" } else { "" };
    let mutant = mutant.map_or(String::new(), |mutant| format!(" --mutant {mutant:?}"));
    let name = scenario.name;
    format!(
        "cargo run --profile ci -p millpond-native{features} --bin sim -- --scenario {name} --seed {seed}{mutant}"
    )
}
