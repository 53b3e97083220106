//! One open object: its owner, who alone decides what is written where, in which order, and what counts as stored.
//!
//! Map, bottom up: `store` what a component can do · `address` block arithmetic · `range` range locks · `sequence`
//! oseq, low water, stable · `gate` the barrier of the write set · `quorum` pure decisions on descriptors · `route` who
//! is reachable and written · `leg` a component in a disk group · `owner` the object, its access and its events ·
//! `commit` descriptor commits, marks, recovery · `roll` the union roll-forward · `write`, `read`, `resync`, `reshape`
//! (legs, size, delete) · `export` the NBD view.
//!
//! Invariants: acknowledged means in the log of every current leg; flushed means on stable media of every current leg;
//! a leg that missed an acknowledged write is marked stale on more than half of the votes before that acknowledgement;
//! `stale_from` never rises while it is set; a range lock is held until the request is acknowledged or has failed; a
//! future of this module, once polled, is polled to its end (a request that is dropped half way leaves its sequence
//! open for ever).
pub mod address;
mod commit;
mod export;
mod gate;
mod leg;
mod owner;
mod pieces;
pub mod quorum;
mod range;
mod read;
mod reshape;
mod resync;
mod roll;
mod room;
mod route;
mod sequence;
pub mod store;
#[cfg(test)]
mod tests;
mod write;

/// An object whose components lie in disk groups.
pub type Object = Owner<DgLeg>;

pub use leg::DgLeg;
pub use owner::{Config, ObjError, ObjectEvent, Observer, Owner};
pub use reshape::purge;
pub use resync::{Pace, Progress};
pub use sequence::{Boot, COUNTER_BITS};
