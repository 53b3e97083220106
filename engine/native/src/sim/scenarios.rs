//! All scenarios by name, for the program `sim` and for tests.
use super::object_world::Kind;
use super::reference::Violation;
use super::scripts::{in_flight, log, mirror, numbers, space};
use super::world::{Story, in_virtual_time};
use super::{leg_world, object_world};

type Run = fn(u64) -> Result<Story, Violation>;

/// A scenario: a name, what it is about, and how one seed of it runs.
#[derive(Clone, Copy)]
pub struct Scenario {
    /// Name on the command line.
    pub name: &'static str,
    /// What it shows.
    pub about: &'static str,
    /// A short history, not a random world.
    pub is_script: bool,
    run: Run,
}

/// Every scenario: random worlds first, then scripts.
pub const SCENARIOS: &[Scenario] = &[
    random("leg", "one disk group, crashes at any moment, no other faults", |seed| {
        in_virtual_time(leg_world::run(seed))
    }),
    random(
        "object",
        "a mirror over hosts that die, lose power, return and are resynced, never more than it tolerates",
        |seed| in_virtual_time(object_world::run(seed, Kind::Plain)),
    ),
    random("troubles", "the same with rot and wrong writes, some in each seed", |seed| {
        in_virtual_time(object_world::run(seed, Kind::Troubled))
    }),
    random(
        "unlimited",
        "any number of hosts is away: nothing wrong is shown, all is there in the end",
        |seed| in_virtual_time(object_world::run(seed, Kind::Unlimited)),
    ),
    script(
        "acknowledged-out-of-order",
        "a leg is lost on which the oldest write under way had not landed (inflight_model)",
        |seed| in_virtual_time(in_flight::acknowledged_out_of_order(seed)),
    ),
    script(
        "write-set-barrier",
        "a write to the old write set waits while a leg is resynced (writeset_model)",
        |seed| in_virtual_time(in_flight::write_set_behind_a_barrier(seed)),
    ),
    script("read-after-read", "a write is on one leg only while it is read again and again", |seed| {
        in_virtual_time(in_flight::read_after_read(seed))
    }),
    script("trim-beside-write", "a trim between the read and the write of a partial write", |seed| {
        in_virtual_time(in_flight::trim_beside_a_partial_write(seed))
    }),
    script("torn-write", "everything dies while a write is on one leg only (mirror_model)", |seed| {
        in_virtual_time(mirror::torn_write(seed))
    }),
    script(
        "torn-write-returns",
        "the only leg with a torn write returns later (mirror_model srconly)",
        |seed| in_virtual_time(mirror::torn_write_returns(seed)),
    ),
    script(
        "stale-mark-first",
        "a leg is lost, a write acknowledged, and only that leg is left (mirror_model late)",
        |seed| in_virtual_time(mirror::stale_mark_before_the_acknowledgement(seed)),
    ),
    script("trim-while-away", "an extent is trimmed while a leg is away", |seed| {
        in_virtual_time(mirror::trim_while_away(seed))
    }),
    script(
        "trim-of-hidden-content",
        "trimmed content is on the disk of one leg and in the log of the other",
        |seed| in_virtual_time(mirror::trim_of_hidden_content(seed)),
    ),
    script("unstable-stays-logged", "a disk is drained while a write is on one leg only", |seed| {
        in_virtual_time(mirror::unstable_stays_in_the_log(seed))
    }),
    script("deleted-while-away", "an object is deleted while a leg is away", |seed| {
        in_virtual_time(mirror::deleted_while_away(seed))
    }),
    script(
        "two-descriptors",
        "a mark reaches one component, and another is committed without it (csn_model2)",
        |seed| in_virtual_time(numbers::two_descriptors(seed)),
    ),
    script("numbers-of-a-resync", "the target of a resync is away at the next start (oseq_model)", |seed| {
        in_virtual_time(numbers::numbers_of_a_resync(seed))
    }),
    script("power-cut-after-flush", "the power fails right after a flush", |seed| {
        in_virtual_time(log::power_cut_after_a_flush(seed))
    }),
    script("rot-in-the-log", "a header in the middle of a log rots", |seed| {
        in_virtual_time(log::rot_in_the_middle(seed))
    }),
    script("log-wraps", "a full log wraps, the power fails at any moment", |seed| {
        in_virtual_time(log::wraps(seed))
    }),
    script("checkpoint-cut-short", "the power fails at any moment of a checkpoint", |seed| {
        in_virtual_time(log::checkpoint_cut_short(seed))
    }),
    script("replaced-unflushed", "a flushed record is replaced while a checkpoint moves the tail", |seed| {
        in_virtual_time(log::replaced_by_what_is_not_flushed(seed))
    }),
    script("freed-extent", "a full disk reuses what a trim freed, the power fails", |seed| {
        in_virtual_time(space::freed_before_the_checkpoint(seed))
    }),
    script("component-numbers", "components come and go through crashes", |seed| {
        in_virtual_time(space::component_numbers(seed))
    }),
    script("header-out-of-place", "a batch of the log stands where it was not written", |seed| {
        in_virtual_time(space::header_out_of_place(seed))
    }),
    script("rot-at-rest", "content rots on one leg", |seed| in_virtual_time(space::rot_at_rest(seed))),
];

const fn random(name: &'static str, about: &'static str, run: Run) -> Scenario {
    Scenario { name, about, is_script: false, run }
}

const fn script(name: &'static str, about: &'static str, run: Run) -> Scenario {
    Scenario { name, about, is_script: true, run }
}

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
