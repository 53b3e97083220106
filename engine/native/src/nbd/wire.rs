//! The transmission phase on the wire: requests, simple and structured replies. Pure.
//!
//! ```text
//! request      0 magic u32 · 4 flags u16 · 6 command u16 · 8 cookie u64 · 16 offset u64 · 24 length u32          28 bytes
//! simple reply 0 magic u32 · 4 error u32 · 8 cookie u64                                                          16 bytes
//! chunk        0 magic u32 · 4 flags u16 · 6 type u16 · 8 cookie u64 · 16 length u32 · then `length` bytes       20 bytes
//! ```
//! All numbers are big-endian. Source: the NBD protocol document, fixed newstyle with structured replies.
//! Invariant: decoding never fails on a right magic; what a field means is judged by the session, which can then answer.

use super::export::{Allocation, ExportError, Run};

/// Length of a request without its payload, bytes.
pub const REQUEST_BYTES: usize = 28;
/// Length of a simple reply without its payload, bytes.
pub const SIMPLE_BYTES: usize = 16;
/// Length of the header of a structured chunk, bytes.
pub const CHUNK_BYTES: usize = 20;
/// Longest head that goes before payload: a chunk header and an offset, or a hole with its length.
pub const HEAD_BYTES_MAX: usize = CHUNK_BYTES + 12;

const REQUEST_MAGIC: u32 = 0x2560_9513;
const SIMPLE_MAGIC: u32 = 0x6744_6698;
const CHUNK_MAGIC: u32 = 0x668e_33ef;

/// Reads a big-endian `u16` at `at`.
pub(super) fn be16(bytes: &[u8], at: usize) -> u16 {
    u16::from_be_bytes([bytes[at], bytes[at + 1]])
}

/// Reads a big-endian `u32` at `at`.
pub(super) fn be32(bytes: &[u8], at: usize) -> u32 {
    u32::from(be16(bytes, at)) << 16 | u32::from(be16(bytes, at + 2))
}

/// Reads a big-endian `u64` at `at`.
pub(super) fn be64(bytes: &[u8], at: usize) -> u64 {
    u64::from(be32(bytes, at)) << 32 | u64::from(be32(bytes, at + 4))
}

/// Command flags.
pub mod flag {
    /// Stable on media before the reply. Accepted on every command.
    pub const FUA: u16 = 1;
    /// Write zeroes without giving the space back.
    pub const NO_HOLE: u16 = 2;
    /// Answer a read in one content chunk.
    pub const DF: u16 = 4;
    /// Only the first extent of a block status.
    pub const REQ_ONE: u16 = 8;
}

/// Transmission flags: what an export can do.
pub mod transmission {
    /// Always set.
    pub const HAS_FLAGS: u16 = 1;
    /// Flush is understood.
    pub const SEND_FLUSH: u16 = 1 << 2;
    /// FUA is understood.
    pub const SEND_FUA: u16 = 1 << 3;
    /// Trim is understood.
    pub const SEND_TRIM: u16 = 1 << 5;
    /// Write zeroes is understood.
    pub const SEND_WRITE_ZEROES: u16 = 1 << 6;
    /// Don't-fragment is understood (only with structured replies).
    pub const SEND_DF: u16 = 1 << 7;
    /// A flush on one connection covers the writes of all.
    pub const CAN_MULTI_CONN: u16 = 1 << 8;
}

/// Error numbers of the protocol (Linux values).
pub mod errno {
    /// Not permitted.
    pub const PERM: u32 = 1;
    /// Input/output error.
    pub const IO: u32 = 5;
    /// Out of memory.
    pub const NOMEM: u32 = 12;
    /// Invalid request.
    pub const INVAL: u32 = 22;
    /// No space left.
    pub const NOSPC: u32 = 28;
    /// Not supported.
    pub const NOTSUP: u32 = 95;
    /// Shutting down.
    pub const SHUTDOWN: u32 = 108;
}

impl ExportError {
    /// The error number on the wire.
    pub fn errno(self) -> u32 {
        match self {
            Self::NoSpace => errno::NOSPC,
            Self::Io => errno::IO,
            Self::Invalid => errno::INVAL,
            Self::NotPermitted => errno::PERM,
            Self::NotSupported => errno::NOTSUP,
            Self::NoMemory => errno::NOMEM,
            Self::Shutdown => errno::SHUTDOWN,
        }
    }

    /// The meaning of an error number; an unknown one means invalid, as the protocol says.
    pub fn from_errno(number: u32) -> Self {
        match number {
            errno::NOSPC => Self::NoSpace,
            errno::IO => Self::Io,
            errno::PERM => Self::NotPermitted,
            errno::NOTSUP => Self::NotSupported,
            errno::NOMEM => Self::NoMemory,
            errno::SHUTDOWN => Self::Shutdown,
            _ => Self::Invalid,
        }
    }
}

/// What a request wants.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the commands of the protocol by their names")]
pub enum Command {
    Read,
    Write,
    Disconnect,
    Flush,
    Trim,
    WriteZeroes,
    BlockStatus,
    /// Anything else, by its number.
    Unknown(u16),
}

impl Command {
    fn from_number(number: u16) -> Self {
        match number {
            0 => Self::Read,
            1 => Self::Write,
            2 => Self::Disconnect,
            3 => Self::Flush,
            4 => Self::Trim,
            6 => Self::WriteZeroes,
            7 => Self::BlockStatus,
            other => Self::Unknown(other),
        }
    }

    fn number(self) -> u16 {
        match self {
            Self::Read => 0,
            Self::Write => 1,
            Self::Disconnect => 2,
            Self::Flush => 3,
            Self::Trim => 4,
            Self::WriteZeroes => 6,
            Self::BlockStatus => 7,
            Self::Unknown(number) => number,
        }
    }

    /// The flags that this command knows.
    pub fn known_flags(self, structured: bool) -> u16 {
        flag::FUA
            | match self {
                Self::Read if structured => flag::DF,
                Self::WriteZeroes => flag::NO_HOLE,
                Self::BlockStatus => flag::REQ_ONE,
                _ => 0,
            }
    }
}

/// One request. Nothing in it has been judged yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Request {
    /// Command flags.
    pub flags: u16,
    /// The command.
    pub command: Command,
    /// The client's name for the request, repeated in the reply.
    pub cookie: u64,
    /// Begin of the range, bytes.
    pub offset: u64,
    /// Length of the range (and of the payload of a write), bytes.
    pub len: u32,
}

impl Request {
    /// Whether the client wants stable media before the reply.
    pub fn fua(&self) -> bool {
        self.flags & flag::FUA != 0
    }

    /// Reads one; `None` when the magic is wrong: the stream is out of step and cannot be mended.
    pub fn decode(bytes: &[u8; REQUEST_BYTES]) -> Option<Self> {
        (be32(bytes, 0) == REQUEST_MAGIC).then(|| Self {
            flags: be16(bytes, 4),
            command: Command::from_number(be16(bytes, 6)),
            cookie: be64(bytes, 8),
            offset: be64(bytes, 16),
            len: be32(bytes, 24),
        })
    }

    /// Its bytes.
    pub fn encode(&self) -> [u8; REQUEST_BYTES] {
        let mut bytes = [0; REQUEST_BYTES];
        bytes[..4].copy_from_slice(&REQUEST_MAGIC.to_be_bytes());
        bytes[4..6].copy_from_slice(&self.flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&self.command.number().to_be_bytes());
        bytes[8..16].copy_from_slice(&self.cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&self.offset.to_be_bytes());
        bytes[24..].copy_from_slice(&self.len.to_be_bytes());
        bytes
    }
}

/// The bytes that go before the payload of a reply, of any of its shapes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Head {
    bytes: [u8; HEAD_BYTES_MAX],
    len: u8,
}

impl Head {
    fn put(&mut self, bytes: &[u8]) -> &mut Self {
        let at = usize::from(self.len);
        self.bytes[at..at + bytes.len()].copy_from_slice(bytes);
        self.len += bytes.len() as u8;
        self
    }

    /// Its bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.bytes[..usize::from(self.len)]
    }

    fn empty() -> Self {
        Self { bytes: [0; HEAD_BYTES_MAX], len: 0 }
    }

    /// A simple reply; `error` 0 is success.
    pub fn simple(cookie: u64, error: u32) -> Self {
        let mut head = Self::empty();
        head.put(&SIMPLE_MAGIC.to_be_bytes()).put(&error.to_be_bytes()).put(&cookie.to_be_bytes());
        head
    }

    fn chunk(cookie: u64, kind: ChunkKind, len: u32, done: bool) -> Self {
        let mut head = Self::empty();
        head.put(&CHUNK_MAGIC.to_be_bytes()).put(&u16::from(done).to_be_bytes());
        head.put(&kind.number().to_be_bytes()).put(&cookie.to_be_bytes()).put(&len.to_be_bytes());
        head
    }

    /// The last chunk of a reply that has nothing more to say.
    pub fn done(cookie: u64) -> Self {
        Self::chunk(cookie, ChunkKind::None, 0, true)
    }

    /// `len` bytes of data from `offset` follow.
    pub fn data(cookie: u64, offset: u64, len: u32, done: bool) -> Self {
        let mut head = Self::chunk(cookie, ChunkKind::OffsetData, len + 8, done);
        head.put(&offset.to_be_bytes());
        head
    }

    /// `len` bytes from `offset` are zero; nothing follows.
    pub fn hole(cookie: u64, offset: u64, len: u32, done: bool) -> Self {
        let mut head = Self::chunk(cookie, ChunkKind::OffsetHole, 12, done);
        head.put(&offset.to_be_bytes()).put(&len.to_be_bytes());
        head
    }

    /// The request failed; no message.
    pub fn error(cookie: u64, error: u32) -> Self {
        let mut head = Self::chunk(cookie, ChunkKind::Error, 6, true);
        head.put(&error.to_be_bytes()).put(&0u16.to_be_bytes());
        head
    }
}

/// The block status of one context, header included; the last chunk of its reply. Runs longer than the protocol can say
/// end the list.
pub fn block_status(cookie: u64, context: u32, runs: &[Run]) -> Vec<u8> {
    let fitting = runs.iter().position(|run| run.len > u64::from(u32::MAX)).map_or(runs.len(), |at| at + 1);
    let runs = &runs[..fitting];
    let head = Head::chunk(cookie, ChunkKind::BlockStatus, 4 + 8 * runs.len() as u32, true);
    let mut bytes = Vec::with_capacity(CHUNK_BYTES + 4 + 8 * runs.len());
    bytes.extend_from_slice(head.as_slice());
    bytes.extend_from_slice(&context.to_be_bytes());
    for run in runs {
        let flags: u32 = match run.allocation {
            Allocation::Data => 0,
            Allocation::Zero => STATE_ZERO,
            Allocation::Hole => STATE_HOLE | STATE_ZERO,
        };
        let len = u32::try_from(run.len).unwrap_or(u32::MAX);
        bytes.extend_from_slice(&len.to_be_bytes());
        bytes.extend_from_slice(&flags.to_be_bytes());
    }
    bytes
}

/// `base:allocation`: a write may fail for want of space.
const STATE_HOLE: u32 = 1;
/// `base:allocation`: reads as zero.
const STATE_ZERO: u32 = 2;

/// The runs in the payload of a block status chunk (without the context id); `None` when it is malformed.
pub fn decode_runs(payload: &[u8]) -> Option<Vec<Run>> {
    if payload.is_empty() || !payload.len().is_multiple_of(8) {
        return None;
    }
    let run = |entry: &[u8]| Run {
        len: u64::from(be32(entry, 0)),
        allocation: match be32(entry, 4) & (STATE_HOLE | STATE_ZERO) {
            flags if flags & STATE_ZERO == 0 => Allocation::Data,
            STATE_ZERO => Allocation::Zero,
            _ => Allocation::Hole,
        },
    };
    Some(payload.chunks_exact(8).map(run).collect())
}

/// What a structured chunk carries.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the chunk types of the protocol by their names")]
pub enum ChunkKind {
    None,
    OffsetData,
    OffsetHole,
    BlockStatus,
    Error,
    /// Anything else, by its number; bit 15 means an error.
    Unknown(u16),
}

impl ChunkKind {
    fn number(self) -> u16 {
        match self {
            Self::None => 0,
            Self::OffsetData => 1,
            Self::OffsetHole => 2,
            Self::BlockStatus => 5,
            Self::Error => 1 << 15 | 1,
            Self::Unknown(number) => number,
        }
    }

    fn from_number(number: u16) -> Self {
        [Self::None, Self::OffsetData, Self::OffsetHole, Self::BlockStatus, Self::Error]
            .into_iter()
            .find(|kind| kind.number() == number)
            .unwrap_or(Self::Unknown(number))
    }
}

/// The begin of a reply, as a client reads it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReplyHead {
    /// A simple reply; the data of a successful read follows.
    Simple {
        /// 0 or an error number.
        error: u32,
        /// Which request.
        cookie: u64,
    },
    /// A structured chunk; `len` bytes follow.
    Chunk {
        /// What follows.
        kind: ChunkKind,
        /// Whether it is the last of its reply.
        done: bool,
        /// Which request.
        cookie: u64,
        /// Length of what follows, bytes.
        len: u32,
    },
}

impl ReplyHead {
    /// How many bytes the head has, told by its first four; `None` when they are no magic.
    pub fn len_of(magic: [u8; 4]) -> Option<usize> {
        match u32::from_be_bytes(magic) {
            SIMPLE_MAGIC => Some(SIMPLE_BYTES),
            CHUNK_MAGIC => Some(CHUNK_BYTES),
            _ => None,
        }
    }

    /// Reads one of exactly the length that [`ReplyHead::len_of`] told.
    pub fn decode(bytes: &[u8]) -> Option<Self> {
        let magic = bytes.first_chunk::<4>()?;
        if Self::len_of(*magic)? != bytes.len() {
            return None;
        }
        Some(if bytes.len() == SIMPLE_BYTES {
            Self::Simple { error: be32(bytes, 4), cookie: be64(bytes, 8) }
        } else {
            Self::Chunk {
                done: be16(bytes, 4) & 1 != 0,
                kind: ChunkKind::from_number(be16(bytes, 6)),
                cookie: be64(bytes, 8),
                len: be32(bytes, 16),
            }
        })
    }
}
