//! The embedded engine of Millpond.
//!
//! Map, bottom up; a module imports only what stands above it in this list:
//! `fmt` pure codecs of everything on disk · `io` disks, buffers, clock, randomness · `cap` one capacity disk: allocation, map,
//! checkpoint · `dg` one disk group: log, overlay, destage, recovery · `obj` one object: range locks, mirrors, votes, resync ·
//! `cluster` hosts, configuration, directory, repair, the `Engine` trait · `nbd` the protocol front · `sim` the seeded simulator.
//! Invariants are listed in docs/ARCHITECTURE.md. One thread runs all of it; nothing here knows HTTP or SQL.
pub mod cap;
pub mod cluster;
pub mod dg;
pub mod fmt;
pub mod io;
pub mod mutant;
pub mod nbd;
pub mod obj;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
