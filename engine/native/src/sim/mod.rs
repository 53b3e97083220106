//! The seeded simulator: the engine's own code on simulated disks, in virtual time, against a stupid oracle.
//!
//! Map: `content` what is written · `reference` what reads may show · `workload` clients and what they do · `world` lives,
//! crashes, healing · `group` a disk group on simulated disks · `cluster` hosts and a mirrored object, `volume` what its clients
//! see · `leg_world` one group alone · `object_world` a mirrored object over hosts that come and go · `trouble` what else goes
//! wrong there · `scripts` short histories, one for each rule · `scenarios` all of them by name · `killers` which of them
//! notices that a rule is missing.
//! Invariant: a world is its seed: the same seed gives the same I/O in the same order.
pub mod cluster;
pub mod content;
pub mod group;
pub mod killers;
pub mod leg_world;
pub mod object_world;
pub mod reference;
pub mod scenarios;
pub mod scripts;
pub mod trouble;
pub mod volume;
pub mod workload;
pub mod world;
