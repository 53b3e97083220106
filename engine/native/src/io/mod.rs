//! Disks, buffers, clock and randomness: everything that the engine may ask of the outside.
//!
//! Map: [`IoBuf`] aligned buffers · [`Disk`] one disk, a real file or device (`uring`, `file`) or a simulated one ([`sim`]) ·
//! [`FaultSwitch`] faults switched on a running disk · [`Env`] wall clock and randomness.
//! Invariants: an I/O owns its buffers until the disk is done with them, whatever happens to the future that waits for it;
//! an I/O is whole or an error, never short; an error of a flush is final.
mod buf;
mod disk;
mod env;
mod faults;
mod file;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
mod uring;

pub use buf::{ALIGNMENT_BYTES, IoBuf};
pub use disk::{Disk, DiskError, Geometry, IoOp};
pub use env::{Env, below};
pub use faults::FaultSwitch;
pub use file::{FileLock, Holder, LOCK_WAIT, OpenError, OpenOptions, create_file, lock_file, open_file};
pub use uring::Ring;
