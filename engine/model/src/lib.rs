//! Vocabulary of Millpond: ids, units, policies, states, views, placement, what-if, and the trait that every engine
//! implements.
//!
//! Map: `ids`, `units`, `policy`, `state` are words; `view` is what an engine reports, `plan` what makes a cluster;
//! `arithmetic`, `placement`, `availability`, `capacity`, `claims`, `disk_room`, `health`, `what_if`, `recommend` are pure over
//! them; `engine` is the trait and `recorded` implements it from data. Architecture invariant: this crate does no I/O,
//! knows no clock, no randomness, no SQL and no HTTP.
pub mod arithmetic;
pub mod availability;
pub mod capacity;
pub mod claims;
pub mod disk_room;
pub mod engine;
pub mod health;
pub mod ids;
pub mod placement;
pub mod plan;
pub mod policy;
pub mod recommend;
pub mod recorded;

pub mod state;
pub mod tree;
pub mod units;
pub mod view;
pub mod what_if;
