//! Runs seeds of the simulator: `sim [--scenario NAME] [--seed N] [--seeds K] [--mutant NAME] [--list]`.
//!
//! Prints one line a failed seed with the command that repeats it, and a summary. Exit code 0 when every seed passed (with a
//! mutant: when one failed), 1 when not, 2 when it could not run.
#![allow(clippy::print_stdout, clippy::print_stderr, reason = "the output of a command line program")]
use native::mutant::Mutant;
use native::sim::scenarios::{SCENARIOS, Scenario};
use std::process::ExitCode;

struct Options {
    scenarios: Vec<&'static Scenario>,
    first: u64,
    seeds: u64,
    mutant: Option<Mutant>,
}

fn parse(mut args: impl Iterator<Item = String>) -> Result<Options, String> {
    let mut options = Options { scenarios: SCENARIOS.iter().collect(), first: 0, seeds: 1, mutant: None };
    while let Some(arg) = args.next() {
        if arg == "--list" {
            return Err(SCENARIOS
                .iter()
                .map(|known| format!("{:24}{}\n", known.name, known.about))
                .collect());
        }
        let value = args.next().ok_or(format!("{arg} needs a value"))?;
        match arg.as_str() {
            "--scenario" => {
                options.scenarios =
                    vec![Scenario::named(&value).ok_or(format!("no scenario {value}; try --list"))?];
            }
            "--seed" => options.first = value.parse().map_err(|_| format!("{value} is no seed"))?,
            "--seeds" => options.seeds = value.parse().map_err(|_| format!("{value} is no number"))?,
            "--mutant" => options.mutant = Some(value.parse().map_err(|()| format!("no mutant {value}"))?),
            _ => return Err(format!("unknown option {arg}")),
        }
    }
    Ok(options)
}

fn switch_on(mutant: Option<Mutant>) -> Result<(), String> {
    #[cfg(feature = "mutants")]
    native::mutant::set(mutant);
    #[cfg(not(feature = "mutants"))]
    if mutant.is_some() {
        return Err("mutants need a build with --features mutants".to_owned());
    }
    Ok(())
}

fn main() -> ExitCode {
    let options = match parse(std::env::args().skip(1)).and_then(|options| {
        switch_on(options.mutant)?;
        Ok(options)
    }) {
        Ok(options) => options,
        Err(text) => {
            eprintln!("{text}");
            return ExitCode::from(2);
        }
    };
    std::panic::set_hook(Box::new(|_| {}));
    let (mut failed, mut events) = (0, 0);
    for scenario in &options.scenarios {
        for seed in options.first..options.first + options.seeds {
            match scenario.run(seed) {
                Ok(story) if options.seeds == 1 => println!("PASS {} seed {seed}: {story:?}", scenario.name),
                Ok(story) => events += story.events,
                Err(violation) => {
                    failed += 1;
                    println!("FAIL {} seed {seed}: {}", scenario.name, violation.0);
                    println!("     repeat: {}", repeat(scenario, seed, options.mutant));
                }
            }
        }
    }
    let ran = options.scenarios.len() as u64 * options.seeds;
    println!("{ran} worlds, {events} disk events, {failed} failed");
    ExitCode::from(u8::from((failed > 0) != options.mutant.is_some()))
}

fn repeat(scenario: &Scenario, seed: u64, mutant: Option<Mutant>) -> String {
    let features = if mutant.is_some() { " --features mutants" } else { "" };
    let mutant = mutant.map_or(String::new(), |mutant| format!(" --mutant {mutant:?}"));
    let name = scenario.name;
    format!(
        "cargo run --profile ci -p millpond-native{features} --bin sim -- --scenario {name} --seed {seed}{mutant}"
    )
}
