//! The cluster: hosts, configuration, directory of objects, repair, and the trait `Engine` of this machine.
//!
//! Map: `handle` the `Send` front that implements `Engine` by messages to the engine thread · `board` events, tasks and the version
//! that readers wait on · `faults` what a lab has broken, kept over restarts · `hint` the paths of the disks last used ·
//! `assemble` which disks make which cluster (pure; start, scan, import and check decide with it) ·
//! `source` opens disks and reads labels · `find` finds them by what is written on them · `watch` disks that are pulled and return ·
//! `replace` a new disk for a lost one · `import` what a cluster on disks would be, and taking it over · `offline` scan, import and
//! dump, `check` the check, for the command line ·
//! `capabilities` what works in this version · `blueprint` from a plan to labels and groups (pure) · `config_store` commits of the
//! configuration · `repair` what repair does next (pure) · `leg` components of open groups, by object · `core` the state · `open`
//! disks, epoch, groups, objects · `configure` making a cluster · `claim` the last look before a disk is written · `objects` volumes ·
//! `reshape` layouts follow policies · `care` the loop of repair · `power`, `corrupt` faults · `view` the snapshot · `intents` the calls
//! of the trait · `volumes`, `counters` the NBD side · `pace` how fast resyncs go · `start` the engine of a folder.
//! Invariants: one thread owns all of it; a message is plain data; nothing here is needed to read a disk (import works without the folder).
pub mod assemble;
pub mod blueprint;
pub mod board;
pub mod capabilities;
mod care;
pub mod check;
pub mod claim;
pub mod config_store;
mod configure;
pub mod core;
mod corrupt;
pub mod counters;
pub mod faults;
pub mod find;
pub mod handle;
pub mod hint;
pub mod import;
mod intents;
pub mod leg;
mod objects;
pub mod offline;
pub mod open;
mod pace;
mod power;
pub mod repair;
mod replace;
mod reshape;
pub mod source;
pub mod start;
#[cfg(test)]
mod tests;
mod view;
pub mod volumes;
mod watch;
