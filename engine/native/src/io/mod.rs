//! Disks, buffers, clock and randomness: everything that the engine may ask of the outside.
//!
//! Map: [`IoBuf`] aligned buffers · [`Disk`] one disk, a real file or device (`uring`, `file`, `device`), a simulated one
//! ([`sim`]), or one over another that is written in memory (`scratch`) ·
//! [`Reader`] reads an open disk on another thread ·
//! [`FaultSwitch`] faults switched on a running disk · [`Env`] wall clock and randomness.
//! Invariants: an I/O owns its buffers until the disk is done with them, whatever happens to the future that waits for it;
//! an I/O is whole or an error, never short; an error of a flush is final.
mod buf;
mod device;
mod disk;
mod env;
mod faults;
mod file;
mod reader;
mod scratch;
#[cfg(any(test, feature = "sim"))]
pub mod sim;
mod uring;

pub use buf::{ALIGNMENT_BYTES, IoBuf};
pub use device::Places;
pub use disk::{Disk, DiskError, Geometry, IoOp};
pub use env::{Env, below};
pub use faults::FaultSwitch;
pub use file::{FileLock, Holder, LOCK_WAIT, OpenError, OpenOptions, create_file, lock_file, open_file};
pub use reader::Reader;
pub use uring::Ring;
