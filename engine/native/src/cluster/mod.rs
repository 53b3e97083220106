//! The cluster: hosts, configuration, directory of objects, repair, and the trait `Engine` of this machine.
//!
//! Map: `handle` the `Send` front that implements `Engine` by messages to the engine thread · `board` events, tasks and the version
//! that readers wait on · `faults` what a lab has broken, kept over restarts · `hint` the paths of the disks last used ·
//! `assemble` which disks make which cluster (pure; start, scan, import and check decide with it) ·
//! `source` opens disks and reads labels · `offline` scan, import and dump for the command line ·
//! `capabilities` what works in this version · `blueprint` from a plan to labels and groups (pure) · `config_store` commits of the
//! configuration · `repair` what repair does next (pure).
//! Invariants: one thread owns all of it; a message is plain data; nothing here is needed to read a disk (import works without the folder).
pub mod assemble;
pub mod blueprint;
pub mod board;
pub mod capabilities;
pub mod config_store;
pub mod faults;
pub mod handle;
pub mod hint;
pub mod offline;
pub mod repair;
pub mod source;
