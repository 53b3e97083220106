//! What all connections share: the directory, the memory for payloads and answers, the limits, the stop.
//!
//! Invariant: the sum of all payloads and answers under way is at most [`Limits::pool_bytes`], over all connections.

use super::export::ExportDirectory;
use super::wire::transmission;
use std::cell::Cell;
use std::rc::Rc;
use std::sync::Arc;
use std::time::Duration;
use tokio::sync::{Notify, Semaphore, watch};

/// The largest payload of one request, bytes: what clients assume without asking.
pub const PAYLOAD_BYTES_MAX: u32 = 32 << 20;
/// The block size that suits best, bytes.
pub const BLOCK_BYTES_PREFERRED: u32 = 4096;
/// Payload that is refused and still read off the stream, so that the session goes on, bytes; with more it ends.
pub const DRAIN_BYTES_MAX: u32 = 64 << 20;
/// Descriptors in one block status, at most.
pub const STATUS_RUNS_MAX: usize = 1024;

/// Limits of the front. They guard the process against its clients.
#[derive(Clone, Debug)]
pub struct Limits {
    /// Connections at one time; the next is closed at once.
    pub connections: usize,
    /// Requests of one connection under way; more wait in the socket.
    pub requests: usize,
    /// Payload and answers of one connection under way, bytes.
    pub connection_bytes: usize,
    /// Payload and answers of all connections under way, bytes.
    pub pool_bytes: usize,
    /// Time from connect to the agreed export.
    pub handshake: Duration,
    /// A peer that neither sends its payload nor takes its answers for so long is dropped, if others need the memory.
    pub stalled: Duration,
    /// Time for what is under way after the client or the server ended the session.
    pub linger: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 256,
            requests: 128,
            connection_bytes: 64 << 20,
            pool_bytes: 64 << 20,
            handshake: Duration::from_secs(10),
            stalled: Duration::from_secs(10),
            linger: Duration::from_secs(10),
        }
    }
}

struct Inner<D> {
    directory: D,
    limits: Limits,
    pool: Arc<Semaphore>,
    stop: watch::Sender<bool>,
    connections: Cell<usize>,
    ended: Notify,
}

/// The shared side of the NBD server; clones are handles to the same.
pub struct Front<D>(Rc<Inner<D>>);

impl<D> Clone for Front<D> {
    fn clone(&self) -> Self {
        Self(Rc::clone(&self.0))
    }
}

impl<D: ExportDirectory> Front<D> {
    /// A front that serves `directory`. Limits too small for one request are raised to it.
    pub fn new(directory: D, mut limits: Limits) -> Self {
        limits.pool_bytes = limits.pool_bytes.clamp(PAYLOAD_BYTES_MAX as usize, Semaphore::MAX_PERMITS);
        limits.connection_bytes = limits.connection_bytes.max(PAYLOAD_BYTES_MAX as usize);
        limits.requests = limits.requests.max(1);
        let pool = Arc::new(Semaphore::new(limits.pool_bytes));
        let (stop, _) = watch::channel(false);
        let (connections, ended) = (Cell::new(0), Notify::new());
        Self(Rc::new(Inner { directory, limits, pool, stop, connections, ended }))
    }

    /// What is served.
    pub fn directory(&self) -> &D {
        &self.0.directory
    }

    /// The limits in force.
    pub fn limits(&self) -> &Limits {
        &self.0.limits
    }

    pub(super) fn pool(&self) -> &Arc<Semaphore> {
        &self.0.pool
    }

    /// Whether a request of the largest size would have to wait for memory.
    pub(super) fn is_short_of_memory(&self) -> bool {
        self.0.pool.available_permits() < PAYLOAD_BYTES_MAX as usize
    }

    /// Refuses new connections and requests (they are told that the server shuts down); requests under way are finished,
    /// then the connections close.
    pub fn stop(&self) {
        self.0.stop.send_replace(true);
    }

    /// Whether the front is stopping.
    pub fn is_stopping(&self) -> bool {
        *self.0.stop.borrow()
    }

    /// Waits until the front is told to stop.
    pub async fn stopping(&self) {
        // The sender lives in `self`: waiting cannot fail.
        let _ = self.0.stop.subscribe().wait_for(|stop| *stop).await;
    }

    /// Takes a place for a connection; `None` when all are taken.
    pub fn admit(&self) -> Option<Seat<D>> {
        let taken = self.0.connections.get();
        (taken < self.0.limits.connections).then(|| {
            self.0.connections.set(taken + 1);
            Seat(self.clone())
        })
    }

    /// Connections now.
    pub fn connections(&self) -> usize {
        self.0.connections.get()
    }

    /// Waits until no connection is left.
    pub async fn idle(&self) {
        while self.connections() > 0 {
            self.0.ended.notified().await;
        }
    }
}

/// The place of one connection; free again when it is dropped.
pub struct Seat<D>(Front<D>);

impl<D> Drop for Seat<D> {
    fn drop(&mut self) {
        let inner = &self.0.0;
        inner.connections.set(inner.connections.get() - 1);
        inner.ended.notify_waiters();
    }
}

/// What every export can do, as transmission flags.
pub(super) fn transmission_flags(structured: bool) -> u16 {
    use transmission::*;
    let always = HAS_FLAGS | SEND_FLUSH | SEND_FUA | SEND_TRIM | SEND_WRITE_ZEROES | CAN_MULTI_CONN;
    always | if structured { SEND_DF } else { 0 }
}
