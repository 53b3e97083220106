//! A small NBD client: for the system tests and the server's own workloads.
//!
//! Requests of all clones run side by side on one connection (pipelining); a reader task sorts the replies by cookie.
//! Invariants: a request that returned `Ok` was acknowledged by the server; when the connection breaks, every request under
//! way and every later one fails with [`ClientError::Broken`], and nothing is known about the effect of those under way.

use super::export::{ExportError, Run};
use super::option::{self, InfoKind, number};
use super::wire::{self, ChunkKind, Command, ReplyHead, Request, be16, be32, be64, flag};
use std::collections::BTreeMap;
use std::io;
use std::path::Path;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use tokio::io::{AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::UnixStream;
use tokio::net::unix::{OwnedReadHalf, OwnedWriteHalf};
use tokio::sync::oneshot;

/// The longest reply to an option, bytes: beyond it the server is not believed.
const OPTION_REPLY_BYTES_MAX: u32 = 64 << 10;
/// The longest chunk that is not data of a read, bytes: beyond it the server is not believed.
const CHUNK_BYTES_MAX: u32 = 1 << 20;

/// Why a request or the connection failed.
#[derive(Debug, thiserror::Error)]
pub enum ClientError {
    /// No connection to the socket.
    #[error("cannot connect to the NBD socket")]
    Connect(#[source] io::Error),
    /// The handshake broke off.
    #[error("the NBD handshake failed")]
    Handshake(#[source] io::Error),
    /// The server refused an option, with its reply type.
    #[error("the server refused the export {name:?} ({reply:#x})")]
    Refused {
        /// The export asked for.
        name: String,
        /// Type of the reply.
        reply: u32,
    },
    /// The connection is gone.
    #[error("the NBD connection broke")]
    Broken,
    /// The server answered with an error.
    #[error("the server answered")]
    Request(#[from] ExportError),
}

/// A request under way.
struct Wait {
    request: Request,
    answer: Answer,
    sender: oneshot::Sender<Answer>,
}

/// What the chunks of a reply add up to.
#[derive(Default)]
struct Answer {
    data: Vec<u8>,
    runs: Vec<Run>,
    error: Option<u32>,
}

impl Wait {
    /// Takes a chunk with `len` bytes of content; `false` when it does not belong to the request.
    async fn chunk(
        &mut self,
        reader: &mut BufReader<OwnedReadHalf>,
        kind: ChunkKind,
        len: u32,
    ) -> io::Result<bool> {
        if kind == ChunkKind::OffsetData {
            let Some(data_len) = len.checked_sub(8) else { return Ok(false) };
            let offset = reader.read_u64().await?;
            let Some(part) = self.part(offset, data_len) else { return Ok(false) };
            reader.read_exact(part).await?;
            return Ok(true);
        }
        if len > CHUNK_BYTES_MAX {
            return Ok(false);
        }
        let mut content = vec![0; len as usize];
        reader.read_exact(&mut content).await?;
        match kind {
            ChunkKind::None => return Ok(len == 0),
            ChunkKind::OffsetHole if len == 12 => {
                let part = self.part(be64(&content, 0), be32(&content, 8));
                return Ok(part.map(|part| part.fill(0)).is_some());
            }
            ChunkKind::BlockStatus if len > 4 => match wire::decode_runs(&content[4..]) {
                Some(runs) => self.answer.runs = runs,
                None => return Ok(false),
            },
            ChunkKind::Error | ChunkKind::Unknown(0x8000..) if len >= 4 => {
                self.answer.error = Some(be32(&content, 0));
            }
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// The part of the answer that a chunk fills; `None` when it lies outside.
    fn part(&mut self, offset: u64, len: u32) -> Option<&mut [u8]> {
        let start = usize::try_from(offset.checked_sub(self.request.offset)?).ok()?;
        self.answer.data.get_mut(start..start.checked_add(len as usize)?)
    }
}

/// Requests under way; `None` once the connection is gone.
type Waiting = Mutex<Option<BTreeMap<u64, Wait>>>;

struct Inner {
    size_bytes: u64,
    flags: u16,
    cookie: AtomicU64,
    waiting: Arc<Waiting>,
    writer: tokio::sync::Mutex<OwnedWriteHalf>,
    /// A request was cut off while it was being sent.
    torn: AtomicBool,
}

/// A connection to one export. Clones share it.
#[derive(Clone)]
pub struct Client(Arc<Inner>);

impl Client {
    /// Connects to the socket at `path` and opens the export `name`. Must run inside a tokio runtime.
    pub async fn connect(path: &Path, name: &str) -> Result<Self, ClientError> {
        Self::over(UnixStream::connect(path).await.map_err(ClientError::Connect)?, name).await
    }

    /// Opens the export `name` over a stream that leads to a server.
    pub async fn over(mut stream: UnixStream, name: &str) -> Result<Self, ClientError> {
        let agreed = handshake(&mut stream, name).await.map_err(ClientError::Handshake)?;
        let (size_bytes, flags) =
            agreed.map_err(|reply| ClientError::Refused { name: name.into(), reply })?;
        let (reader, writer) = stream.into_split();
        let waiting = Arc::new(Mutex::new(Some(BTreeMap::new())));
        tokio::spawn(receive(BufReader::new(reader), Arc::clone(&waiting)));
        let (cookie, writer) = (AtomicU64::new(1), tokio::sync::Mutex::new(writer));
        Ok(Self(Arc::new(Inner { size_bytes, flags, cookie, waiting, writer, torn: AtomicBool::new(false) })))
    }

    /// Size of the export when it was opened, bytes.
    pub fn size_bytes(&self) -> u64 {
        self.0.size_bytes
    }

    /// Transmission flags of the export.
    pub fn flags(&self) -> u16 {
        self.0.flags
    }

    /// Reads `len` bytes at `offset`.
    pub async fn read(&self, offset: u64, len: u32) -> Result<Vec<u8>, ClientError> {
        Ok(self.request(Command::Read, 0, offset, len, &[]).await?.data)
    }

    /// Writes `data` at `offset`; with `fua` it is stable when this returns.
    pub async fn write(&self, offset: u64, data: &[u8], fua: bool) -> Result<(), ClientError> {
        let flags = if fua { flag::FUA } else { 0 };
        self.request(Command::Write, flags, offset, data.len() as u32, data).await.map(drop)
    }

    /// Makes every acknowledged write of the export stable.
    pub async fn flush(&self) -> Result<(), ClientError> {
        self.request(Command::Flush, 0, 0, 0, &[]).await.map(drop)
    }

    /// Gives the whole blocks of a range back.
    pub async fn trim(&self, offset: u64, len: u32) -> Result<(), ClientError> {
        self.request(Command::Trim, 0, offset, len, &[]).await.map(drop)
    }

    /// Makes a range read as zero; `no_hole` keeps its space.
    pub async fn write_zeroes(&self, offset: u64, len: u32, no_hole: bool) -> Result<(), ClientError> {
        let flags = if no_hole { flag::NO_HOLE } else { 0 };
        self.request(Command::WriteZeroes, flags, offset, len, &[]).await.map(drop)
    }

    /// The allocation of a range from its begin; may be shorter than the range.
    pub async fn block_status(&self, offset: u64, len: u32) -> Result<Vec<Run>, ClientError> {
        Ok(self.request(Command::BlockStatus, 0, offset, len, &[]).await?.runs)
    }

    /// Tells the server that nothing more comes. Requests under way are still answered.
    pub async fn disconnect(&self) -> Result<(), ClientError> {
        let request = Request { flags: 0, command: Command::Disconnect, cookie: 0, offset: 0, len: 0 };
        self.send(&request, &[]).await
    }

    async fn request(
        &self,
        command: Command,
        flags: u16,
        offset: u64,
        len: u32,
        payload: &[u8],
    ) -> Result<Answer, ClientError> {
        let cookie = self.0.cookie.fetch_add(1, Ordering::Relaxed);
        let request = Request { flags, command, cookie, offset, len };
        let (sender, answer) = oneshot::channel();
        let data = if command == Command::Read { vec![0; len as usize] } else { Vec::new() };
        let wait = Wait { request, answer: Answer { data, ..Answer::default() }, sender };
        lock(&self.0.waiting).as_mut().ok_or(ClientError::Broken)?.insert(cookie, wait);
        self.send(&request, payload).await?;
        let answer = answer.await.map_err(|_| ClientError::Broken)?;
        match answer.error {
            None => Ok(answer),
            Some(error) => Err(ExportError::from_errno(error).into()),
        }
    }

    async fn send(&self, request: &Request, payload: &[u8]) -> Result<(), ClientError> {
        let mut writer = self.0.writer.lock().await;
        if self.0.torn.swap(true, Ordering::Relaxed) {
            return Err(ClientError::Broken);
        }
        let sent = async {
            writer.write_all(&request.encode()).await?;
            writer.write_all(payload).await
        };
        sent.await.map_err(|_| ClientError::Broken)?;
        self.0.torn.store(false, Ordering::Relaxed);
        Ok(())
    }
}

fn lock(waiting: &Waiting) -> std::sync::MutexGuard<'_, Option<BTreeMap<u64, Wait>>> {
    waiting.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Sorts replies until the connection ends; then nobody waits any more.
async fn receive(mut reader: BufReader<OwnedReadHalf>, waiting: Arc<Waiting>) {
    while let Ok(true) = receive_one(&mut reader, &waiting).await {}
    lock(&waiting).take();
}

/// Takes one reply or chunk; `false` when it makes no sense.
async fn receive_one(reader: &mut BufReader<OwnedReadHalf>, waiting: &Waiting) -> io::Result<bool> {
    let mut bytes = [0; wire::CHUNK_BYTES];
    reader.read_exact(&mut bytes[..4]).await?;
    let Some(len) = ReplyHead::len_of([bytes[0], bytes[1], bytes[2], bytes[3]]) else { return Ok(false) };
    reader.read_exact(&mut bytes[4..len]).await?;
    let Some(head) = ReplyHead::decode(&bytes[..len]) else { return Ok(false) };
    let (ReplyHead::Simple { cookie, .. } | ReplyHead::Chunk { cookie, .. }) = head;
    let Some(mut wait) = lock(waiting).as_mut().and_then(|waiting| waiting.remove(&cookie)) else {
        return Ok(false);
    };
    let done = match head {
        // Structured replies are agreed on: a simple one carries no data.
        ReplyHead::Simple { error: 0, .. } if wait.request.command == Command::Read => return Ok(false),
        ReplyHead::Simple { error: 0, .. } => true,
        ReplyHead::Simple { error, .. } => {
            wait.answer.error = Some(error);
            true
        }
        ReplyHead::Chunk { kind, done, len, .. } => {
            if !wait.chunk(reader, kind, len).await? {
                return Ok(false);
            }
            done
        }
    };
    if done {
        // Whoever asked may have gone.
        let _ = wait.sender.send(wait.answer);
    } else if let Some(waiting) = lock(waiting).as_mut() {
        waiting.insert(cookie, wait);
    }
    Ok(true)
}

/// Opens `name`: its size and flags, or the type of the refusal.
async fn handshake(stream: &mut UnixStream, name: &str) -> io::Result<Result<(u64, u16), u32>> {
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).await?;
    let wanted = option::FIXED_NEWSTYLE | option::NO_ZEROES;
    if greeting[..16] != option::greeting()[..16] || be16(&greeting, 16) & wanted != wanted {
        return Err(out_of_step("the server does not speak fixed newstyle"));
    }
    stream.write_u32(u32::from(wanted)).await?;
    let context = option::meta_request(name.as_bytes(), &[option::ALLOCATION_CONTEXT]);
    let go = option::info_request(name.as_bytes(), &[InfoKind::BlockSize]);
    let options = [(number::STRUCTURED_REPLY, vec![]), (number::SET_META_CONTEXT, context), (number::GO, go)];
    let mut agreed = None;
    for (option, data) in options {
        stream.write_all(&option::header(option, data.len() as u32)).await?;
        stream.write_all(&data).await?;
        loop {
            let (reply, data) = option_reply(stream, option).await?;
            match reply {
                reply if reply == option::Reply::Ack as u32 => break,
                reply if reply & 1 << 31 != 0 => return Ok(Err(reply)),
                reply if reply == option::Reply::Info as u32 && data.len() == 12 && be16(&data, 0) == 0 => {
                    agreed = Some((be64(&data, 2), be16(&data, 10)));
                }
                _ => {}
            }
        }
    }
    agreed.map(Ok).ok_or_else(|| out_of_step("the server did not tell the size of the export"))
}

async fn option_reply(stream: &mut UnixStream, option: u32) -> io::Result<(u32, Vec<u8>)> {
    let mut header = [0; option::OPTION_REPLY_BYTES];
    stream.read_exact(&mut header).await?;
    let len = be32(&header, 16);
    if !option::is_reply(be64(&header, 0)) || be32(&header, 8) != option || len > OPTION_REPLY_BYTES_MAX {
        return Err(out_of_step("the server's reply to an option makes no sense"));
    }
    let mut data = vec![0; len as usize];
    stream.read_exact(&mut data).await?;
    Ok((be32(&header, 12), data))
}

fn out_of_step(what: &str) -> io::Error {
    io::Error::new(io::ErrorKind::InvalidData, what)
}
