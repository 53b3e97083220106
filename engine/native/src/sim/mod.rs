//! The seeded simulator: the engine's own code on simulated disks, in virtual time, against a stupid oracle.
//!
//! Map: `content` what is written · `reference` what reads may show · `workload` clients and what they do · `world` lives,
//! crashes, healing · `group` a disk group on simulated disks · `leg_world` one group alone ·
//! `object_world` a mirrored object over hosts that come and go · `scenarios` all of them by name.
//! Invariant: a world is its seed: the same seed gives the same I/O in the same order.
pub mod content;
pub mod group;
pub mod leg_world;
pub mod object_world;
pub mod reference;
pub mod scenarios;
pub mod workload;
pub mod world;
