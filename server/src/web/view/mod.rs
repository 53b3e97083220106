//! From the engine's snapshot to what the screen shows. Pure: a snapshot and the time in, plain view data out.
pub mod capacity;
pub mod cluster;
pub mod explain;
pub mod hardware;
pub mod map;
pub mod placement;
pub mod plot;
pub mod policy;
pub mod task;
pub mod words;
