//! All scenarios by name, for the program `sim` and for tests.
use super::reference::Violation;
use super::world::{Story, in_virtual_time};
use super::{leg_world, object_world};

/// A scenario: a name, what it is about, and how one seed of it runs.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// Name on the command line.
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    run: fn(u64) -> Result<Story, Violation>,
}

/// Every scenario.
pub const SCENARIOS: &[Scenario] = &[
    Scenario {
        name: "leg",
        about: "one disk group, crashes at any moment, no other faults",
        run: |seed| in_virtual_time(leg_world::run(seed)),
    },
    Scenario {
        name: "object",
        about: "a mirror over hosts that die, lose power, return and are resynced, never more than it tolerates",
        run: |seed| in_virtual_time(object_world::run(seed)),
    },
];

impl Scenario {
    /// The scenario called `name`.
    pub fn named(name: &str) -> Option<&'static Self> {
        SCENARIOS.iter().find(|scenario| scenario.name == name)
    }

    /// Runs one seed. A panic of the engine is a broken promise, too.
    pub fn run(&self, seed: u64) -> Result<Story, Violation> {
        let run = self.run;
        std::panic::catch_unwind(move || run(seed)).unwrap_or_else(|panic| {
            let text = panic.downcast_ref::<&str>().map(|text| (*text).to_owned());
            let text = text.or_else(|| panic.downcast_ref::<String>().cloned());
            Err(Violation(format!("panic: {}", text.unwrap_or_default())))
        })
    }
}

#[cfg(test)]
#[path = "scenarios_tests.rs"]
mod tests;
