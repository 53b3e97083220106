//! Vocabulary of Millpond: ids, units, policies, states, views, placement, what-if, and the trait that every engine implements.
//!
//! Map: `ids`, `units`, `policy`, `state` are words; `view` is what an engine reports, `plan` what makes a cluster;
//! `arithmetic`, `placement`, `capacity`, `what_if` are pure functions over them; `engine` is the trait; `recorded` implements it
//! from data. Architecture invariant: this crate does no I/O, knows no clock, no randomness, no SQL and no HTTP.
pub mod engine;
pub mod ids;
pub mod placement;
pub mod plan;
pub mod policy;
pub mod state;
pub mod units;
pub mod view;
pub mod what_if;
