//! Log batches: the one form in which a disk group writes a change first.
//!
//! Map: [`Record`] one change · [`BatchHead`] what one batch holds · [`encode`] / [`decode`] its header blocks.
//! A batch is 1..=4 header blocks followed by its payload blocks, written by one vectored write at any order on the medium.
//! Invariants: the header is sealed over all its blocks; every payload block has its CRC-32C in the header; a header carries
//! the checksum of its predecessor (`prev_crc`), so a batch of an earlier lap or life never continues the chain. Bytes that
//! are not used are zero, and anything else is refused as corruption.
use super::header::{self, HEADER_BYTES, Header, Kind, Place};
use super::{BLOCK, FmtError, LocalId, on_disk};
use zerocopy::byteorder::little_endian::{U16, U32, U64};
use zerocopy::{FromBytes, IntoBytes};

/// Most records of one batch.
pub const RECORDS_MAX: usize = 64;
/// Most payload blocks of one batch: 1 MiB.
pub const PAYLOAD_BLOCKS_MAX: usize = 256;
/// Most header blocks of one batch. What the two limits above need is 2; the format leaves room for 4.
pub const HEAD_BLOCKS_MAX: usize = 4;
/// Bytes before the first record: the common header and the batch fields.
const RECORDS_AT: usize = HEADER_BYTES + size_of::<BatchRaw>();
/// Batch flag: the next batch lies at the start of the region.
const FLAG_WRAP: u32 = 1;

on_disk! {
    /// The fields of a batch, after the common header.
    pub(crate) struct BatchRaw {
        batch_seq: U64,
        prev_crc: U32,
        records: U16,
        head_blocks: U16,
        payload_blocks: U32,
        flags: U32,
        durable_upto: U64,
        rsv0: [u8; 32],
    }
}

on_disk! {
    /// One record; the checksums of all payload blocks follow the last.
    pub(crate) struct RecordRaw {
        component: U32,
        kind: u8,
        flags: u8,
        nblk: U16,
        block: U64,
        oseq: U64,
        data_oseq: U64,
        payload: U32,
        aux: [u8; 12],
    }
}
const RECORD_BYTES: usize = size_of::<RecordRaw>();
const _: () = assert!(RECORD_BYTES == 48 && RECORDS_AT == 128);

#[cfg(test)]
pub(crate) const TABLES: &[(&str, super::Fields, usize)] = &[
    ("log batch", BatchRaw::FIELDS, size_of::<BatchRaw>()),
    ("log record", RecordRaw::FIELDS, size_of::<RecordRaw>()),
];

/// What a record does. Numbers are for ever; those that no version writes yet are reserved and refused by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
#[repr(u8)]
pub enum RecordKind {
    /// Client data.
    Data = 1,
    /// Blocks given back: they read as zero.
    Trim = 2,
    /// Blocks written as zeros.
    Zero = 3,
    /// Reserved: data that was written straight to its extents.
    Remap = 4,
    /// Reserved: the copy of a data strip at a parity leg.
    EcCopy = 5,
    /// Reserved: a parity value.
    Parity = 6,
    /// The whole state of a component: identity, size, descriptor.
    Config = 7,
    /// Reserved: snapshot tables.
    Snap = 8,
    /// `stable_oseq` of a component.
    Stable = 9,
    /// Data copied from another leg.
    Resync = 10,
    /// Data rewritten because this leg's copy was bad.
    Repair = 11,
    /// The component is gone.
    Delete = 12,
    /// Nothing: fills the region up to its end.
    Pad = 13,
}

impl RecordKind {
    /// Every kind that this version reads.
    pub const ALL: [Self; 9] = [
        Self::Data,
        Self::Trim,
        Self::Zero,
        Self::Config,
        Self::Stable,
        Self::Resync,
        Self::Repair,
        Self::Delete,
        Self::Pad,
    ];

    fn from_number(number: u8) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| *kind as u8 == number)
    }

    /// Whether records of this kind change the blocks of a component.
    pub fn is_content(self) -> bool {
        matches!(self, Self::Data | Self::Trim | Self::Zero | Self::Resync | Self::Repair)
    }
}

/// Record flags.
pub mod flags {
    /// A resync or repair record that stands for blocks reading as zero; it has no payload.
    pub const HOLE: u8 = 2;
    /// Every bit that has a meaning.
    pub const ALL: u8 = HOLE;
}

/// One change of one component.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// The component, or none (0) for `Pad`.
    pub component: LocalId,
    /// What it does.
    pub kind: RecordKind,
    /// [`flags`].
    pub flags: u8,
    /// Blocks of 4 KiB that it covers; for `Config` the payload blocks.
    pub nblk: u16,
    /// First block in the component; for `Config` the length of the payload in bytes.
    pub block: u64,
    /// Sequence of the object; for `Config` the CSN; for `Stable` the value.
    pub oseq: u64,
    /// The sequence that the content stands for; for `Config` the epoch of the CSN.
    pub data_oseq: u64,
    /// First payload block, counted from the end of the header.
    pub payload: u32,
}

impl Record {
    /// Payload blocks of this record.
    pub fn payload_blocks(&self) -> usize {
        let carries = match self.kind {
            RecordKind::Data | RecordKind::Config => true,
            RecordKind::Resync | RecordKind::Repair => self.flags & flags::HOLE == 0,
            _ => false,
        };
        if carries { usize::from(self.nblk) } else { 0 }
    }
}

/// The header of one batch.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BatchHead {
    /// Position in the chain; every batch has a higher one than its predecessor.
    pub batch_seq: u64,
    /// The boot epoch under which it was written.
    pub incarnation: u32,
    /// Checksum of the predecessor's header; 0 for the first batch of a log.
    pub prev_crc: u32,
    /// The highest batch known to be on stable media when this one was built.
    pub durable_upto: u64,
    /// The next batch lies at the start of the region.
    pub wrap: bool,
    /// What it changes, in order.
    pub records: Vec<Record>,
    /// CRC-32C of each payload block, in order; so many blocks follow the header.
    pub crcs: Vec<u32>,
}

/// Blocks of header that `records` records with `payload_blocks` checksums need.
pub fn head_blocks(records: usize, payload_blocks: usize) -> usize {
    (RECORDS_AT + records * RECORD_BYTES + payload_blocks * 4).div_ceil(BLOCK)
}

/// Writes the header into `out`, which is zeroed and [`head_blocks`] long, and seals it for byte `self_off` of disk `dev_id`.
/// Returns its checksum, the `prev_crc` of the next batch.
///
/// # Panics
/// When the head breaks a limit of this module or `out` has the wrong length: the builder of batches keeps them.
pub fn encode(head: &BatchHead, dev_id: u64, self_off: u64, out: &mut [u8]) -> u32 {
    let blocks = head_blocks(head.records.len(), head.crcs.len());
    assert!(out.len() == blocks * BLOCK && blocks <= HEAD_BLOCKS_MAX, "length of a batch header");
    let fields = BatchRaw {
        batch_seq: head.batch_seq.into(),
        prev_crc: head.prev_crc.into(),
        records: (head.records.len() as u16).into(),
        head_blocks: (blocks as u16).into(),
        payload_blocks: (head.crcs.len() as u32).into(),
        flags: if head.wrap { FLAG_WRAP } else { 0 }.into(),
        durable_upto: head.durable_upto.into(),
        rsv0: [0; 32],
    };
    out[HEADER_BYTES..RECORDS_AT].copy_from_slice(fields.as_bytes());
    let (records, rest) = out[RECORDS_AT..].split_at_mut(head.records.len() * RECORD_BYTES);
    for (slot, record) in records.chunks_exact_mut(RECORD_BYTES).zip(&head.records) {
        slot.copy_from_slice(raw(record).as_bytes());
    }
    for (slot, crc) in rest.chunks_exact_mut(4).zip(&head.crcs) {
        slot.copy_from_slice(&crc.to_le_bytes());
    }
    let (generation, incarnation) = (head.batch_seq, head.incarnation);
    header::seal(out, Kind::LogBatch, &Header { dev_id, self_off, generation, incarnation, owner: 0 })
}

fn raw(record: &Record) -> RecordRaw {
    RecordRaw {
        component: record.component.0.into(),
        kind: record.kind as u8,
        flags: record.flags,
        nblk: record.nblk.into(),
        block: record.block.into(),
        oseq: record.oseq.into(),
        data_oseq: record.data_oseq.into(),
        payload: record.payload.into(),
        aux: [0; 12],
    }
}

/// How many header blocks the batch has whose first block is `block`, by its own word: read so many, then [`decode`].
/// `None` when no batch can begin so.
pub fn head_blocks_claimed(block: &[u8]) -> Option<usize> {
    let len = header::length_claimed(block).ok()?;
    (len % BLOCK == 0 && (1..=HEAD_BLOCKS_MAX).contains(&(len / BLOCK))).then_some(len / BLOCK)
}

/// Reads the header at the start of `bytes`; returns it with its checksum.
///
/// # Errors
/// [`FmtError`] when the seal does not hold (checksum, place, device) or any field says what no writer writes.
pub fn decode(bytes: &[u8], place: Place) -> Result<(BatchHead, u32), FmtError> {
    let (outer, crc) = header::open(bytes, Kind::LogBatch, place)?;
    let bytes = &bytes[..header::length_claimed(bytes)?];
    let (fields, rest) = bytes
        .get(HEADER_BYTES..)
        .and_then(|bytes| BatchRaw::ref_from_prefix(bytes).ok())
        .ok_or(FmtError::Length(bytes.len()))?;
    let (n_rec, n_crc) = (usize::from(fields.records.get()), fields.payload_blocks.get() as usize);
    let check = |ok: bool, what: &'static str| if ok { Ok(()) } else { Err(FmtError::Field(what)) };
    check(fields.batch_seq.get() == outer.generation && outer.owner == 0, "batch_seq")?;
    check(n_rec <= RECORDS_MAX, "records")?;
    check(n_crc <= PAYLOAD_BLOCKS_MAX, "payload_blocks")?;
    let blocks = head_blocks(n_rec, n_crc);
    check(usize::from(fields.head_blocks.get()) == blocks && bytes.len() == blocks * BLOCK, "head_blocks")?;
    check(fields.flags.get() & !FLAG_WRAP == 0, "flags")?;
    check(fields.durable_upto.get() < fields.batch_seq.get(), "durable_upto")?;
    let (raw_records, rest) = rest.split_at(n_rec * RECORD_BYTES);
    let (raw_crcs, slack) = rest.split_at(n_crc * 4);
    if fields.rsv0 != [0; 32] || slack.iter().any(|byte| *byte != 0) {
        return Err(FmtError::Reserved);
    }
    let mut records = Vec::with_capacity(n_rec);
    let mut payload = 0;
    for slot in raw_records.chunks_exact(RECORD_BYTES) {
        let raw = RecordRaw::ref_from_bytes(slot).map_err(|_| FmtError::Field("record"))?;
        let record = checked(raw, payload)?;
        payload += record.payload_blocks();
        records.push(record);
    }
    check(payload == n_crc, "payload")?;
    let crcs = raw_crcs.chunks_exact(4).map(|crc| u32::from_le_bytes([crc[0], crc[1], crc[2], crc[3]]));
    let head = BatchHead {
        batch_seq: fields.batch_seq.get(),
        incarnation: outer.incarnation,
        prev_crc: fields.prev_crc.get(),
        durable_upto: fields.durable_upto.get(),
        wrap: fields.flags.get() & FLAG_WRAP != 0,
        records,
        crcs: crcs.collect(),
    };
    Ok((head, crc))
}

/// One record, whose payload must start at block `payload` when it has any.
fn checked(raw: &RecordRaw, payload: usize) -> Result<Record, FmtError> {
    let kind = RecordKind::from_number(raw.kind).ok_or(FmtError::Field("kind"))?;
    let record = Record {
        component: LocalId(raw.component.get()),
        kind,
        flags: raw.flags,
        nblk: raw.nblk.get(),
        block: raw.block.get(),
        oseq: raw.oseq.get(),
        data_oseq: raw.data_oseq.get(),
        payload: raw.payload.get(),
    };
    let ranged = kind.is_content() || kind == RecordKind::Config;
    let good = raw.aux == [0; 12]
        && record.flags & !flags::ALL == 0
        && (record.nblk > 0) == ranged
        && record.block.checked_add(u64::from(record.nblk)).is_some()
        && if record.payload_blocks() > 0 { record.payload as usize == payload } else { record.payload == 0 };
    if !good {
        return Err(FmtError::Field("record"));
    }
    if kind == RecordKind::Config && record.block > u64::from(record.nblk) * BLOCK as u64 {
        return Err(FmtError::Field("config length"));
    }
    Ok(record)
}

#[cfg(test)]
#[path = "log_tests.rs"]
mod tests;
