//! A small layer over CBOR for long-lived structures: maps with integer keys, unknown keys kept, a checksum at the end.
//!
//! Map: [`Cbor`] is what can be written and read; [`MapWriter`] and [`MapReader`] do structures; [`seal`] and [`open`] put the
//! CRC-32C of everything before it behind the bytes (4 bytes, little endian). Invariants: equal values give equal bytes (keys are
//! sorted, lengths definite, integers in their shortest form); bytes from a disk are never trusted: every length is bounded
//! by the input, recursion by the caller, and an error is returned instead of a panic.
use minicbor::decode::Decoder;
use minicbor::encode::Encoder;
use std::collections::BTreeMap;

/// The raw values of keys that this version does not know: rewritten as they were.
pub type Unknown = BTreeMap<u64, Vec<u8>>;

/// Why bytes are not the structure that was expected. Nothing has been changed.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CborError {
    /// Shorter than its checksum, or the checksum differs.
    #[error("the checksum does not match")]
    Checksum,
    /// Not CBOR, or not of the expected type.
    #[error("malformed: {0}")]
    Malformed(String),
    /// Bytes follow the value.
    #[error("bytes follow the value")]
    Trailing,
    /// A key stands twice in one map.
    #[error("key {0} stands twice")]
    Duplicate(u64),
    /// A key that must be there is not.
    #[error("key {0} is missing")]
    Missing(u64),
    /// A number has no meaning here.
    #[error("{value} is not a known {what}")]
    Unnamed {
        /// What the number names.
        what: &'static str,
        /// The number.
        value: u64,
    },
    /// Nested deeper than any valid structure.
    #[error("nested too deeply")]
    TooDeep,
    /// Uses something whose number is reserved and that this version does not do.
    #[error("{0} are not supported by this version")]
    Reserved(&'static str),
}

impl From<minicbor::decode::Error> for CborError {
    fn from(error: minicbor::decode::Error) -> Self {
        Self::Malformed(error.to_string())
    }
}

/// What can be written as one CBOR value and read back.
pub trait Cbor: Sized {
    /// Appends the value.
    fn write(&self, out: &mut Vec<u8>);
    /// Reads the value, which is all of `bytes`.
    fn read(bytes: &[u8]) -> Result<Self, CborError>;
}

/// Runs one encoder step; writing to a vector cannot fail.
fn encode(out: &mut Vec<u8>, step: impl FnOnce(&mut Encoder<&mut Vec<u8>>)) {
    step(&mut Encoder::new(out));
}

/// Runs one decoder step over all of `bytes`.
fn decode<'b, T>(
    bytes: &'b [u8],
    step: impl FnOnce(&mut Decoder<'b>) -> Result<T, minicbor::decode::Error>,
) -> Result<T, CborError> {
    let mut decoder = Decoder::new(bytes);
    let value = step(&mut decoder)?;
    if decoder.position() == bytes.len() { Ok(value) } else { Err(CborError::Trailing) }
}

macro_rules! primitive {
    ($($kind:ident),*) => {$(
        impl Cbor for $kind {
            fn write(&self, out: &mut Vec<u8>) {
                encode(out, |e| drop(e.$kind(*self)));
            }
            fn read(bytes: &[u8]) -> Result<Self, CborError> {
                decode(bytes, |d| d.$kind())
            }
        }
    )*};
}
primitive!(u8, u16, u32, u64, i64, bool);

impl Cbor for String {
    fn write(&self, out: &mut Vec<u8>) {
        encode(out, |e| drop(e.str(self)));
    }
    fn read(bytes: &[u8]) -> Result<Self, CborError> {
        decode(bytes, |d| d.str().map(str::to_owned))
    }
}

impl Cbor for uuid::Uuid {
    fn write(&self, out: &mut Vec<u8>) {
        encode(out, |e| drop(e.bytes(self.as_bytes())));
    }
    fn read(bytes: &[u8]) -> Result<Self, CborError> {
        let raw = decode(bytes, |d| d.bytes())?;
        Self::from_slice(raw).map_err(|error| CborError::Malformed(error.to_string()))
    }
}

impl Cbor for (u64, u64) {
    fn write(&self, out: &mut Vec<u8>) {
        encode(out, |e| drop(e.array(2)));
        self.0.write(out);
        self.1.write(out);
    }
    fn read(bytes: &[u8]) -> Result<Self, CborError> {
        match Vec::<u64>::read(bytes)?[..] {
            [first, second] => Ok((first, second)),
            _ => Err(CborError::Malformed("a pair has two members".into())),
        }
    }
}

impl<T: Cbor> Cbor for Vec<T> {
    fn write(&self, out: &mut Vec<u8>) {
        encode(out, |e| drop(e.array(self.len() as u64)));
        self.iter().for_each(|item| item.write(out));
    }
    fn read(bytes: &[u8]) -> Result<Self, CborError> {
        array(bytes)?.into_iter().map(T::read).collect()
    }
}

/// Ids are sixteen bytes.
macro_rules! id {
    ($($name:ident),*) => {$(
        impl Cbor for model::ids::$name {
            fn write(&self, out: &mut Vec<u8>) {
                self.0.write(out);
            }
            fn read(bytes: &[u8]) -> Result<Self, CborError> {
                uuid::Uuid::read(bytes).map(Self)
            }
        }
    )*};
}
id!(ClusterId, HostId, DiskId, DiskGroupId, ObjectId, ComponentId);

impl Cbor for model::units::Timestamp {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.write(out);
    }
    fn read(bytes: &[u8]) -> Result<Self, CborError> {
        i64::read(bytes).map(Self)
    }
}

/// Gives each variant of an enum its number on disk, which never changes.
macro_rules! numbered {
    ($kind:ty, $what:literal, $($variant:ident = $number:literal),* $(,)?) => {
        impl $crate::fmt::cbor::Cbor for $kind {
            fn write(&self, out: &mut Vec<u8>) {
                match self { $(<$kind>::$variant => ($number as u8).write(out),)* }
            }
            fn read(bytes: &[u8]) -> Result<Self, $crate::fmt::cbor::CborError> {
                match u64::read(bytes)? {
                    $($number => Ok(<$kind>::$variant),)*
                    value => Err($crate::fmt::cbor::CborError::Unnamed { what: $what, value }),
                }
            }
        }
    };
}
pub(crate) use numbered;

/// The raw bytes of the next value.
fn value<'b>(decoder: &mut Decoder<'b>) -> Result<&'b [u8], CborError> {
    let start = decoder.position();
    decoder.skip()?;
    let input: &'b [u8] = decoder.input();
    input.get(start..decoder.position()).ok_or_else(|| CborError::Malformed("the value is cut off".into()))
}

/// The raw members of an array, which is all of `bytes`.
pub fn array(bytes: &[u8]) -> Result<Vec<&[u8]>, CborError> {
    let mut decoder = Decoder::new(bytes);
    let count = decoder.array()?.ok_or_else(|| CborError::Malformed("an array of no fixed length".into()))?;
    let mut members = Vec::new();
    for _ in 0..count {
        members.push(value(&mut decoder)?);
    }
    if decoder.position() == bytes.len() { Ok(members) } else { Err(CborError::Trailing) }
}

/// Gathers the fields of one structure.
pub struct MapWriter(BTreeMap<u64, Vec<u8>>);

impl MapWriter {
    /// Starts with the keys that an older version of this program could not read.
    pub fn new(unknown: &Unknown) -> Self {
        Self(unknown.clone())
    }

    /// Sets a field.
    pub fn put<T: Cbor>(&mut self, key: u64, value: &T) -> &mut Self {
        let mut raw = Vec::new();
        value.write(&mut raw);
        self.0.insert(key, raw);
        self
    }

    /// Sets a field if there is a value; an absent key means none.
    pub fn put_some<T: Cbor>(&mut self, key: u64, value: Option<&T>) -> &mut Self {
        if let Some(value) = value {
            self.put(key, value);
        }
        self
    }

    /// Appends the map.
    pub fn finish(&self, out: &mut Vec<u8>) {
        encode(out, |e| drop(e.map(self.0.len() as u64)));
        for (key, raw) in &self.0 {
            key.write(out);
            out.extend_from_slice(raw);
        }
    }
}

/// The fields of one structure, taken one by one; what is left is unknown.
pub struct MapReader<'b>(BTreeMap<u64, &'b [u8]>);

impl<'b> MapReader<'b> {
    /// Splits a map, which is all of `bytes`, into its raw values.
    pub fn new(bytes: &'b [u8]) -> Result<Self, CborError> {
        let mut decoder = Decoder::new(bytes);
        let count = decoder.map()?.ok_or_else(|| CborError::Malformed("a map of no fixed length".into()))?;
        let mut fields = BTreeMap::new();
        for _ in 0..count {
            let key = decoder.u64()?;
            if fields.insert(key, value(&mut decoder)?).is_some() {
                return Err(CborError::Duplicate(key));
            }
        }
        if decoder.position() == bytes.len() { Ok(Self(fields)) } else { Err(CborError::Trailing) }
    }

    /// Takes the raw value of a field that must be there.
    pub fn raw(&mut self, key: u64) -> Result<&'b [u8], CborError> {
        self.0.remove(&key).ok_or(CborError::Missing(key))
    }

    /// Takes a field that must be there.
    pub fn take<T: Cbor>(&mut self, key: u64) -> Result<T, CborError> {
        T::read(self.raw(key)?)
    }

    /// Takes a field that may be absent.
    pub fn take_some<T: Cbor>(&mut self, key: u64) -> Result<Option<T>, CborError> {
        self.0.remove(&key).map(T::read).transpose()
    }

    /// Takes a list that is absent when it is empty.
    pub fn take_list<T: Cbor>(&mut self, key: u64) -> Result<Vec<T>, CborError> {
        Ok(self.take_some(key)?.unwrap_or_default())
    }

    /// Refuses a reserved key by name.
    pub fn refuse(&self, key: u64, what: &'static str) -> Result<(), CborError> {
        if self.0.contains_key(&key) { Err(CborError::Reserved(what)) } else { Ok(()) }
    }

    /// What was not taken.
    pub fn unknown(self) -> Unknown {
        self.0.into_iter().map(|(key, raw)| (key, raw.to_vec())).collect()
    }
}

/// Writes `value` with its checksum behind it.
pub fn seal<T: Cbor>(value: &T) -> Vec<u8> {
    let mut out = Vec::new();
    value.write(&mut out);
    let crc = checksum(&out);
    out.extend_from_slice(&crc.to_le_bytes());
    out
}

/// Verifies the checksum and reads the value.
pub fn open<T: Cbor>(bytes: &[u8]) -> Result<T, CborError> {
    let (body, crc) = bytes.split_last_chunk::<4>().ok_or(CborError::Checksum)?;
    if checksum(body) != u32::from_le_bytes(*crc) {
        return Err(CborError::Checksum);
    }
    T::read(body)
}

/// CRC-32C of `bytes`.
fn checksum(bytes: &[u8]) -> u32 {
    crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, bytes) as u32
}
