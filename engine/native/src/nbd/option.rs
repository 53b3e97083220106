//! The handshake on the wire: greeting, options of the client, replies to them. Pure.
//!
//! ```text
//! greeting      0 "NBDMAGIC" · 8 "IHAVEOPT" · 16 handshake flags u16                                  18 bytes
//! client flags  u32
//! option        0 "IHAVEOPT" · 8 option u32 · 12 length u32 · then `length` bytes                     16 bytes
//! option reply  0 magic u64 · 8 option u32 · 12 type u32 · 16 length u32 · then `length` bytes        20 bytes
//! ```
//! Invariant: every length inside an option is checked against the bytes that are there before it is used.

use super::wire::{be16, be32};

/// Length of the header of an option, bytes.
pub const OPTION_BYTES: usize = 16;
/// Length of the header of a reply to an option, bytes.
pub const OPTION_REPLY_BYTES: usize = 20;
/// The longest export name, bytes. Source: the protocol's limit of strings.
pub const NAME_BYTES_MAX: usize = 4096;
/// The one metadata context that is served.
pub const ALLOCATION_CONTEXT: &str = "base:allocation";
/// Its number on the wire.
pub const ALLOCATION_CONTEXT_ID: u32 = 1;

const NBD_MAGIC: u64 = u64::from_be_bytes(*b"NBDMAGIC");
/// Begins every option.
pub const OPTION_MAGIC: u64 = u64::from_be_bytes(*b"IHAVEOPT");
const OPTION_REPLY_MAGIC: u64 = 0x0003_e889_0455_65a9;

/// Handshake flag: replies to options are understood. The same bit in the client's flags.
pub const FIXED_NEWSTYLE: u16 = 1;
/// Handshake flag: no padding after EXPORT_NAME. The same bit in the client's flags.
pub const NO_ZEROES: u16 = 2;

/// What a server says first.
pub fn greeting() -> [u8; 18] {
    let mut bytes = [0; 18];
    bytes[..8].copy_from_slice(&NBD_MAGIC.to_be_bytes());
    bytes[8..16].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
    bytes[16..].copy_from_slice(&(FIXED_NEWSTYLE | NO_ZEROES).to_be_bytes());
    bytes
}

/// Option numbers.
pub mod number {
    #![allow(missing_docs, reason = "the options of the protocol by their names")]
    pub const EXPORT_NAME: u32 = 1;
    pub const ABORT: u32 = 2;
    pub const LIST: u32 = 3;
    pub const INFO: u32 = 6;
    pub const GO: u32 = 7;
    pub const STRUCTURED_REPLY: u32 = 8;
    pub const LIST_META_CONTEXT: u32 = 9;
    pub const SET_META_CONTEXT: u32 = 10;
}

/// Types of replies to an option.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u32)]
#[allow(missing_docs, reason = "the reply types of the protocol by their names")]
pub enum Reply {
    Ack = 1,
    Server = 2,
    Info = 3,
    MetaContext = 4,
    ErrUnsupported = 1 << 31 | 1,
    ErrInvalid = 1 << 31 | 3,
    ErrUnknown = 1 << 31 | 6,
    ErrShutdown = 1 << 31 | 7,
    ErrTooBig = 1 << 31 | 9,
}

/// Appends a reply to option `option` with `data` to `out`.
pub fn put_reply(out: &mut Vec<u8>, option: u32, reply: Reply, data: &[u8]) {
    out.extend_from_slice(&OPTION_REPLY_MAGIC.to_be_bytes());
    out.extend_from_slice(&option.to_be_bytes());
    out.extend_from_slice(&(reply as u32).to_be_bytes());
    out.extend_from_slice(&(data.len() as u32).to_be_bytes());
    out.extend_from_slice(data);
}

/// Whether `magic` begins a reply to an option.
pub fn is_reply(magic: u64) -> bool {
    magic == OPTION_REPLY_MAGIC
}

/// The header of an option with `len` bytes of data.
pub fn header(option: u32, len: u32) -> [u8; OPTION_BYTES] {
    let mut bytes = [0; OPTION_BYTES];
    bytes[..8].copy_from_slice(&OPTION_MAGIC.to_be_bytes());
    bytes[8..12].copy_from_slice(&option.to_be_bytes());
    bytes[12..].copy_from_slice(&len.to_be_bytes());
    bytes
}

/// One option, its data taken apart.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Opt<'a> {
    /// Serve this export at once, without a reply.
    ExportName(&'a [u8]),
    /// End the handshake.
    Abort,
    /// Name all exports.
    List,
    /// Describe an export.
    Info(Info<'a>),
    /// Describe an export and serve it.
    Go(Info<'a>),
    /// Use structured replies.
    StructuredReply,
    /// Which contexts there are.
    ListMeta(MetaQuery<'a>),
    /// Which contexts the client wants.
    SetMeta(MetaQuery<'a>),
}

/// The data of INFO and GO.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Info<'a> {
    /// The export's name, as it came.
    pub name: &'a [u8],
    /// The kinds of information that the client asks for: 16-bit numbers as they came.
    wanted: &'a [u8],
}

impl Info<'_> {
    /// Whether the client asks for this kind.
    pub fn wants(&self, kind: InfoKind) -> bool {
        self.wanted.chunks_exact(2).any(|entry| be16(entry, 0) == kind as u16)
    }
}

/// Kinds of information about an export.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u16)]
#[allow(missing_docs, reason = "the information types of the protocol by their names")]
pub enum InfoKind {
    Export = 0,
    Name = 1,
    BlockSize = 3,
}

/// The data of LIST_META_CONTEXT and SET_META_CONTEXT.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct MetaQuery<'a> {
    /// The export's name, as it came.
    pub name: &'a [u8],
    /// Whether there was no query at all.
    pub is_empty: bool,
    /// Whether a query is exactly the context `base:allocation`.
    pub allocation: bool,
    /// Whether a query is the whole namespace `base:`.
    pub namespace: bool,
}

/// Why an option cannot be used. The session goes on.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OptionError {
    /// The number is not known.
    #[error("the option is not supported")]
    Unsupported,
    /// Its data does not add up.
    #[error("the option is malformed")]
    Malformed,
    /// A name or a query is longer than the protocol allows.
    #[error("a string is longer than {NAME_BYTES_MAX} bytes")]
    TooLong,
}

impl OptionError {
    /// The reply that says so.
    pub fn reply(self) -> Reply {
        match self {
            Self::Unsupported => Reply::ErrUnsupported,
            Self::Malformed => Reply::ErrInvalid,
            Self::TooLong => Reply::ErrTooBig,
        }
    }
}

/// Takes bytes from the front of an option's data.
struct Cursor<'a>(&'a [u8]);

impl<'a> Cursor<'a> {
    fn take(&mut self, len: usize) -> Result<&'a [u8], OptionError> {
        let (head, rest) = self.0.split_at_checked(len).ok_or(OptionError::Malformed)?;
        self.0 = rest;
        Ok(head)
    }

    fn u32(&mut self) -> Result<u32, OptionError> {
        self.take(4).map(|bytes| be32(bytes, 0))
    }

    fn string(&mut self) -> Result<&'a [u8], OptionError> {
        let len = self.u32()? as usize;
        let string = self.take(len)?;
        if len > NAME_BYTES_MAX { Err(OptionError::TooLong) } else { Ok(string) }
    }

    fn end(self) -> Result<(), OptionError> {
        if self.0.is_empty() { Ok(()) } else { Err(OptionError::Malformed) }
    }
}

impl<'a> Opt<'a> {
    /// Takes the data of option `option` apart.
    pub fn decode(option: u32, data: &'a [u8]) -> Result<Self, OptionError> {
        let cursor = Cursor(data);
        match option {
            number::EXPORT_NAME if data.len() > NAME_BYTES_MAX => Err(OptionError::TooLong),
            number::EXPORT_NAME => Ok(Self::ExportName(data)),
            number::ABORT => Ok(Self::Abort),
            number::LIST => cursor.end().map(|()| Self::List),
            number::INFO => info(cursor).map(Self::Info),
            number::GO => info(cursor).map(Self::Go),
            number::STRUCTURED_REPLY => cursor.end().map(|()| Self::StructuredReply),
            number::LIST_META_CONTEXT => meta(cursor).map(Self::ListMeta),
            number::SET_META_CONTEXT => meta(cursor).map(Self::SetMeta),
            _ => Err(OptionError::Unsupported),
        }
    }
}

fn info(mut cursor: Cursor<'_>) -> Result<Info<'_>, OptionError> {
    let name = cursor.string()?;
    let count = cursor.take(2).map(|bytes| be16(bytes, 0))?;
    let wanted = cursor.take(usize::from(count) * 2)?;
    cursor.end()?;
    Ok(Info { name, wanted })
}

fn meta(mut cursor: Cursor<'_>) -> Result<MetaQuery<'_>, OptionError> {
    let name = cursor.string()?;
    let count = cursor.u32()?;
    let mut query = MetaQuery { name, is_empty: count == 0, allocation: false, namespace: false };
    // A count larger than the data ends at the first missing string.
    for _ in 0..count {
        let text = cursor.string()?;
        query.allocation |= text == ALLOCATION_CONTEXT.as_bytes();
        query.namespace |= text == b"base:";
    }
    cursor.end()?;
    Ok(query)
}

/// The data of an INFO reply that describes size and abilities.
pub fn export_info(size_bytes: u64, flags: u16) -> [u8; 12] {
    let mut bytes = [0; 12];
    bytes[..2].copy_from_slice(&(InfoKind::Export as u16).to_be_bytes());
    bytes[2..10].copy_from_slice(&size_bytes.to_be_bytes());
    bytes[10..].copy_from_slice(&flags.to_be_bytes());
    bytes
}

/// The data of an INFO reply that tells the block sizes, bytes: minimum, preferred, maximum payload.
pub fn block_size_info(min: u32, preferred: u32, max: u32) -> [u8; 14] {
    let mut bytes = [0; 14];
    bytes[..2].copy_from_slice(&(InfoKind::BlockSize as u16).to_be_bytes());
    bytes[2..6].copy_from_slice(&min.to_be_bytes());
    bytes[6..10].copy_from_slice(&preferred.to_be_bytes());
    bytes[10..].copy_from_slice(&max.to_be_bytes());
    bytes
}

/// The data of INFO and GO for a client: the export's name and the kinds that it asks for.
pub fn info_request(name: &[u8], kinds: &[InfoKind]) -> Vec<u8> {
    let mut data = Vec::with_capacity(6 + name.len() + 2 * kinds.len());
    data.extend_from_slice(&(name.len() as u32).to_be_bytes());
    data.extend_from_slice(name);
    data.extend_from_slice(&(kinds.len() as u16).to_be_bytes());
    for kind in kinds {
        data.extend_from_slice(&(*kind as u16).to_be_bytes());
    }
    data
}

/// The data of the meta context options for a client.
pub fn meta_request(name: &[u8], queries: &[&str]) -> Vec<u8> {
    let mut data = Vec::new();
    data.extend_from_slice(&(name.len() as u32).to_be_bytes());
    data.extend_from_slice(name);
    data.extend_from_slice(&(queries.len() as u32).to_be_bytes());
    for query in queries {
        data.extend_from_slice(&(query.len() as u32).to_be_bytes());
        data.extend_from_slice(query.as_bytes());
    }
    data
}
