//! Use cases: typed functions over the views of `model`, for pages and API alike.
//!
//! Architecture invariant: no HTTP type in here, no SQL, and no fact about storage that an engine did not report. Whatever
//! changes a cluster goes through [`intent::apply`], which mints the task id, records who did it and waits for the lists.
pub mod auth;
pub mod capacity;
pub mod cluster;
pub mod deeds;
pub mod disks;
pub mod domains;
pub mod draft;
pub mod events;
pub mod faults;
pub mod file_disks;
pub mod format;
pub mod grouping;
pub mod health;
pub mod hosts;
pub mod import;
pub mod intent;
pub mod inventory;
pub mod lab;
pub mod licence;
pub mod list;
pub mod live;
pub mod people;
pub mod performance;
pub mod plan;
pub mod policies;
pub mod projection;
pub mod replace;
pub mod resync;
pub mod survives;
pub mod tasks;
pub mod unit;
pub mod volumes;
pub mod watch;
