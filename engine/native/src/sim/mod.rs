//! The seeded simulator: the engine's own code on simulated disks, in virtual time, against a stupid oracle.
//!
//! Map: `content` what is written · `reference` what reads may show ·
//! `workload` clients and what they do · `world` lives, crashes, healing.
//! Invariant: a world is its seed: the same seed gives the same I/O in the same order.
pub mod content;
pub mod reference;
pub mod workload;
pub mod world;
