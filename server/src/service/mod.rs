//! Use cases: typed functions over the views of `model`, for pages and API alike.
//!
//! Architecture invariant: no HTTP type in here, no SQL, and no fact about storage that an engine did not report. Whatever
//! changes a cluster goes through [`intent::apply`], which mints the task id, records who did it and waits for the lists.
pub mod auth;
pub mod live;
pub mod performance;
pub mod projection;
