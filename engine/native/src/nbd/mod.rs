//! The NBD front: serves exports to block clients over a byte stream.
//!
//! Map: `export` what is served · `wire`, `option` pure codecs · `handshake` from greeting to an agreed export ·
//! `session` one connection: admission, execution · `reply` the queue of replies and its one writer · `intake` requests
//! and payload off the stream · `patience` with slow peers · `front` what all connections share: directory, memory,
//! limits, stop · `listener` sockets · `client` a client for tests and workloads · `mem` an export in memory.
//!
//! Invariants:
//! - No length from the wire is used before it is bounded; memory of payloads and answers comes out of one pool.
//! - A request that cannot be understood is answered and the stream stays in step, or the connection ends; never a
//!   third way.
//! - An operation that began runs to its end, whatever happens to its connection.
pub mod client;
pub mod export;
pub mod front;
pub mod listener;
pub mod mem;
pub mod option;
pub mod session;
pub mod wire;

mod handshake;
mod intake;
mod patience;
mod reply;
#[cfg(test)]
mod tests;

pub use export::{Allocation, Chunk, Export, ExportDirectory, ExportError, Payload, Run};
pub use front::{Front, Limits};
