//! Counters of one volume since the start: what clients asked and how long it took.
use crate::io::IoBuf;
use crate::nbd::{Chunk, Export, ExportError, Payload, Run};
use model::engine::Counters;
use std::cell::Cell;
use std::rc::Rc;
use tokio::time::Instant;

/// Counters that many requests add to.
#[derive(Debug, Default)]
pub struct VolumeCounters(Cell<Counters>);

impl VolumeCounters {
    /// The sums now.
    pub fn get(&self) -> Counters {
        self.0.get()
    }

    fn add(&self, change: impl FnOnce(&mut Counters)) {
        let mut counters = self.0.get();
        change(&mut counters);
        self.0.set(counters);
    }
}

/// Adds one volume's counters to a sum.
pub fn sum(total: &mut Counters, one: &Counters) {
    total.reads += one.reads;
    total.writes += one.writes;
    total.read_bytes += one.read_bytes;
    total.written_bytes += one.written_bytes;
    total.read_latency_us_total += one.read_latency_us_total;
    total.write_latency_us_total += one.write_latency_us_total;
    total.outstanding += one.outstanding;
    total.resync_bytes += one.resync_bytes;
}

/// An export that counts.
#[derive(Clone)]
pub struct Counted<E> {
    /// What it serves.
    pub export: E,
    /// Where it counts.
    pub counters: Rc<VolumeCounters>,
}

impl<E: Export> Counted<E> {
    async fn timed<T>(
        &self,
        io: impl Future<Output = Result<T, ExportError>>,
        done: impl FnOnce(&mut Counters, u64),
    ) -> Result<T, ExportError> {
        let begin = Instant::now();
        self.counters.add(|counters| counters.outstanding += 1);
        let result = io.await;
        let us = u64::try_from(begin.elapsed().as_micros()).unwrap_or(u64::MAX);
        self.counters.add(|counters| {
            counters.outstanding -= 1;
            if result.is_ok() {
                done(counters, us);
            }
        });
        result
    }
}

fn wrote(len: u64) -> impl FnOnce(&mut Counters, u64) {
    move |counters, us| {
        counters.writes += 1;
        counters.written_bytes += len;
        counters.write_latency_us_total += us;
    }
}

impl<E: Export> Export for Counted<E> {
    fn size_bytes(&self) -> u64 {
        self.export.size_bytes()
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Vec<Chunk>, ExportError> {
        let done = |counters: &mut Counters, us| {
            counters.reads += 1;
            counters.read_bytes += len as u64;
            counters.read_latency_us_total += us;
        };
        self.timed(self.export.read(offset, len), done).await
    }

    async fn write(&self, offset: u64, payload: Payload, fua: bool) -> Result<(), ExportError> {
        let len = payload.len() as u64;
        self.timed(self.export.write(offset, payload, fua), wrote(len)).await
    }

    async fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), ExportError> {
        self.timed(self.export.trim(offset, len, fua), wrote(0)).await
    }

    async fn write_zeroes(&self, offset: u64, len: u64, no_hole: bool, fua: bool) -> Result<(), ExportError> {
        self.timed(self.export.write_zeroes(offset, len, no_hole, fua), wrote(0)).await
    }

    async fn flush(&self) -> Result<(), ExportError> {
        self.export.flush().await
    }

    async fn block_status(&self, offset: u64, len: u64, runs_max: usize) -> Result<Vec<Run>, ExportError> {
        self.export.block_status(offset, len, runs_max).await
    }
}

/// A buffer of a chunk, for readers inside the engine.
pub fn bytes_of(chunks: &[Chunk]) -> Vec<u8> {
    let mut bytes = Vec::new();
    for chunk in chunks {
        match chunk {
            Chunk::Data(buf) => bytes.extend_from_slice(IoBuf::as_slice(buf)),
            Chunk::Zero(len) => bytes.resize(bytes.len() + len, 0),
        }
    }
    bytes
}
