//! Reading a log from its tail: which batches count, where the next one goes, and whether flushed ones are missing.
//!
//! Map: [`scan`] · [`Window`] reads ahead.
//! Invariants: nothing is written. A batch counts when its header is sealed for this place, continues the chain of its predecessor
//! (checksum, sequence, incarnation) and, where it may not have been flushed, all its payload matches. Where the chain ends the ring
//! is looked through once: a batch behind the end that knew the missing one to be flushed, or a superblock that did, means damage.
use crate::fmt::header::Place;
use crate::fmt::log::{self, BatchHead};
use crate::fmt::superblock::Region;
use crate::fmt::{BLOCK, crc32c};
use crate::io::{Disk, DiskError, IoBuf};
use crate::mutant::{Mutant, on};

/// What is read ahead at once, bytes.
const WINDOW_BYTES: u64 = 256 << 10;

/// Where and how to read.
pub(super) struct Source<'a> {
    pub log: &'a Disk,
    pub region: Region,
    pub dev_id: u64,
    /// Sequence of the first batch, and where it begins in the region.
    pub tail: (u64, u64),
    /// Newest batch that a superblock knows to be flushed.
    pub flushed_seq: u64,
    /// No batch has a higher incarnation.
    pub epoch: u32,
}

/// A batch that counts.
pub(super) struct Found {
    /// Where it begins, and what it takes, bytes of the region.
    pub offset: u64,
    pub len_bytes: u64,
    /// Where its payload begins on the disk.
    pub payload_at: u64,
    pub head: BatchHead,
    pub crc: u32,
}

/// What a log says.
pub(super) struct Scanned {
    /// Batches from the tail on.
    pub batches: Vec<Found>,
    /// Where the next batch goes.
    pub head: u64,
    /// The last batch that counts; the tail's predecessor when none does.
    pub last_seq: u64,
    /// The highest sequence of any batch in the ring: a new one must be above, so that none of these is ever taken for a successor.
    pub seq_max: u64,
    /// Flushed batches are missing.
    pub damaged: bool,
}

/// Reads the log.
///
/// # Errors
/// `Gone` and the like; a sector that cannot be read is a batch that does not count.
pub(super) async fn scan(source: &Source<'_>) -> Result<Scanned, DiskError> {
    let mut window = Window { source, start: 0, buf: IoBuf::zeroed(0) };
    let (mut batches, mut head) = chain(&mut window).await?;
    let flushed = batches.last().map_or(0, |last: &Found| last.head.durable_upto).max(source.flushed_seq);
    let mut keep = 0;
    for batch in &batches {
        if batch.head.batch_seq > flushed && !payload_matches(source, batch).await? {
            head = batch.offset;
            break;
        }
        keep += 1;
    }
    let mut seq_max = batches.last().map_or(0, |last| last.head.batch_seq).max(source.flushed_seq);
    batches.truncate(keep);
    let last_seq = batches.last().map_or(source.tail.0 - 1, |last| last.head.batch_seq);
    let mut damaged = source.flushed_seq > last_seq;
    let used: u64 = batches.iter().map(|batch| batch.len_bytes).sum();
    let mut skipped = 0;
    while skipped < source.region.len_bytes - used {
        let offset = (head + skipped) % source.region.len_bytes;
        skipped += BLOCK as u64;
        let Some((stray, ..)) = window.head_at(offset).await? else { continue };
        seq_max = seq_max.max(stray.batch_seq);
        damaged |= stray.batch_seq > last_seq && stray.durable_upto > last_seq;
    }
    if on(Mutant::NoLogScan) {
        damaged = false;
    }
    Ok(Scanned { batches, head, last_seq, seq_max: seq_max.max(last_seq), damaged })
}

/// Follows the chain of headers from the tail; returns the batches and where the chain ends.
async fn chain(window: &mut Window<'_>) -> Result<(Vec<Found>, u64), DiskError> {
    let source = window.source;
    let (tail_seq, mut offset) = source.tail;
    let len_bytes = source.region.len_bytes;
    let mut batches: Vec<Found> = Vec::new();
    let mut used = 0;
    while let Some((head, crc, head_bytes)) = window.head_at(offset).await? {
        let continues = match batches.last() {
            None => head.batch_seq == tail_seq,
            Some(last) => {
                head.batch_seq > last.head.batch_seq
                    && head.prev_crc == last.crc
                    && head.incarnation >= last.head.incarnation
            }
        };
        let end = offset + head_bytes + (head.crcs.len() * BLOCK) as u64;
        if !continues || end > len_bytes {
            break;
        }
        let next = if head.wrap { len_bytes } else { end };
        used += next - offset;
        if used >= len_bytes {
            break;
        }
        let payload_at = source.region.offset_bytes + offset + head_bytes;
        batches.push(Found { offset, len_bytes: next - offset, payload_at, head, crc });
        offset = next % len_bytes;
    }
    Ok((batches, offset))
}

async fn payload_matches(source: &Source<'_>, batch: &Found) -> Result<bool, DiskError> {
    let bytes = batch.head.crcs.len() * BLOCK;
    if bytes == 0 {
        return Ok(true);
    }
    match source.log.read(batch.payload_at, IoBuf::for_read(bytes)).await {
        Ok(buf) => Ok(buf.chunks(BLOCK).zip(&batch.head.crcs).all(|(block, crc)| crc32c(block) == *crc)),
        Err(DiskError::Io { .. }) => Ok(false),
        Err(error) => Err(error),
    }
}

/// A part of the region in memory.
struct Window<'a> {
    source: &'a Source<'a>,
    start: u64,
    buf: IoBuf,
}

impl Window<'_> {
    /// The header at `offset` with its checksum and length in bytes, when it is one of this log and not of the future.
    async fn head_at(&mut self, offset: u64) -> Result<Option<(BatchHead, u32, u64)>, DiskError> {
        let Some(blocks) = self.get(offset, BLOCK).await?.and_then(log::head_blocks_claimed) else {
            return Ok(None);
        };
        let head_bytes = blocks * BLOCK;
        let place =
            Place { dev_id: Some(self.source.dev_id), self_off: self.source.region.offset_bytes + offset };
        let epoch = self.source.epoch;
        let Some(bytes) = self.get(offset, head_bytes).await? else { return Ok(None) };
        let decoded = log::decode(bytes, place).ok().filter(|(head, _)| head.incarnation <= epoch);
        Ok(decoded.map(|(head, crc)| (head, crc, head_bytes as u64)))
    }

    /// `len` bytes at `offset` of the region; `None` beyond its end or when they cannot be read.
    async fn get(&mut self, offset: u64, len: usize) -> Result<Option<&[u8]>, DiskError> {
        let end = offset + len as u64;
        if end > self.source.region.len_bytes {
            return Ok(None);
        }
        let held = self.start <= offset && end <= self.start + self.buf.len() as u64;
        if !held {
            let bytes = WINDOW_BYTES.min(self.source.region.len_bytes - offset).max(len as u64);
            match self.read(offset, bytes as usize).await? {
                Some(buf) => self.buf = buf,
                None => match self.read(offset, len).await? {
                    Some(buf) => self.buf = buf,
                    None => return Ok(None),
                },
            }
            self.start = offset;
        }
        let from = (offset - self.start) as usize;
        Ok(Some(&self.buf[from..from + len]))
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Option<IoBuf>, DiskError> {
        match self.source.log.read(self.source.region.offset_bytes + offset, IoBuf::for_read(len)).await {
            Ok(buf) => Ok(Some(buf)),
            Err(DiskError::Io { .. }) => Ok(None),
            Err(error) => Err(error),
        }
    }
}
