//! One connection: handshake, then requests side by side until either end has enough.
//!
//! ```text
//! socket -> intake -> judge -> (memory) -> payload -> one task per request -> outbox -> socket
//! ```
//! Invariants:
//! - A request takes a place and its memory before it is read or executed, and gives them back when its reply is sent.
//! - A refused write is read off the stream first, so the next request is found where it is.
//! - The task of a request outlives the connection; its reply is then thrown away.

use super::export::{Chunk, Export, ExportDirectory, ExportError, Payload};
use super::front::{DRAIN_BYTES_MAX, Front, PAYLOAD_BYTES_MAX, STATUS_RUNS_MAX};
use super::handshake::{Agreed, negotiate};
use super::intake::{Intake, Next};
use super::option::ALLOCATION_CONTEXT_ID;
use super::reply::{Outbox, Piece};
use super::wire::{self, Command, Head, Request, errno, flag};
use std::cell::Cell;
use std::io;
use std::rc::Rc;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt};
use tokio::sync::{Notify, OwnedSemaphorePermit};
use tokio::time::timeout;

/// Why a session ended before its client said so. What was acknowledged holds.
#[derive(Debug, thiserror::Error)]
pub enum SessionError {
    /// The stream failed, or ended in the middle of something.
    #[error("the connection broke")]
    Stream(#[from] io::Error),
    /// No export was agreed on in time.
    #[error("the client did not finish the handshake in time")]
    HandshakeTimeout,
    /// Flags that this server did not offer.
    #[error("the client's flags {0:#x} are unknown")]
    ClientFlags(u32),
    /// The handshake is out of step.
    #[error("an option does not begin with its magic")]
    OptionMagic,
    /// An option too long to read past.
    #[error("an option of {0} bytes")]
    OptionLength(u32),
    /// An option that cannot be answered named no export.
    #[error("the client asked for an export that does not exist")]
    UnknownExport,
    /// The transmission is out of step.
    #[error("a request does not begin with its magic")]
    RequestMagic,
    /// A payload too long to read past.
    #[error("a write of {0} bytes")]
    PayloadLength(u32),
}

/// What is under way on one connection.
#[derive(Default)]
struct Flight {
    requests: Cell<usize>,
    bytes: Cell<usize>,
    room: Notify,
    idle: Notify,
}

impl Flight {
    /// Waits until nothing is under way.
    async fn idle(&self) {
        while self.requests.get() > 0 {
            self.idle.notified().await;
        }
    }
}

/// What one request holds until its reply is sent.
struct Hold {
    flight: Rc<Flight>,
    bytes: usize,
    /// Its part of the pool.
    #[allow(dead_code, reason = "held for its drop")]
    memory: Option<OwnedSemaphorePermit>,
}

impl Drop for Hold {
    fn drop(&mut self) {
        let flight = &self.flight;
        flight.requests.set(flight.requests.get() - 1);
        flight.bytes.set(flight.bytes.get() - self.bytes);
        flight.room.notify_one();
        if flight.requests.get() == 0 {
            flight.idle.notify_one();
        }
    }
}

struct Connection<D: ExportDirectory> {
    front: Front<D>,
    agreed: Agreed<D::Export>,
    flight: Rc<Flight>,
    outbox: Outbox<Hold>,
}

/// Serves one client over a stream until it leaves, misbehaves, or the front stops. Must run on a `LocalSet`.
pub async fn serve<D, R, W>(front: Front<D>, mut reader: R, mut writer: W) -> Result<(), SessionError>
where
    D: ExportDirectory,
    R: AsyncRead + Unpin,
    W: AsyncWrite + Unpin,
{
    let handshake = timeout(front.limits().handshake, negotiate(&front, &mut reader, &mut writer));
    let Some(agreed) = handshake.await.map_err(|_| SessionError::HandshakeTimeout)?? else {
        return Ok(writer.shutdown().await?);
    };
    let (flight, outbox) = (Rc::default(), Outbox::new());
    let connection = Rc::new(Connection { front, agreed, flight, outbox });
    let ended = connection.run(reader, &mut writer).await;
    connection.outbox.close();
    // A peer that is gone already is no news.
    let _ = writer.shutdown().await;
    ended
}

impl<D: ExportDirectory> Connection<D> {
    async fn run<R, W>(self: &Rc<Self>, reader: R, writer: &mut W) -> Result<(), SessionError>
    where
        R: AsyncRead + Unpin,
        W: AsyncWrite + Unpin,
    {
        let limits = self.front.limits();
        let sending = self.outbox.send(writer, limits.stalled, || self.front.is_short_of_memory());
        tokio::pin!(sending);
        let (ended, linger) = tokio::select! {
            error = &mut sending => return Err(error.into()),
            ended = self.receive(reader) => (ended, limits.linger),
            () = self.stopped() => (Ok(()), Duration::ZERO),
        };
        // The client has said all: its requests under way get their time, and their replies with them.
        let finished = timeout(linger, async {
            tokio::select! { _ = &mut sending => (), () = self.flight.idle() => () }
        });
        if finished.await.is_err() {
            tracing::debug!("requests under way outlive their connection");
        }
        ended
    }

    /// Returns when the front stops and nothing is under way, or that takes too long.
    async fn stopped(&self) {
        self.front.stopping().await;
        let _ = timeout(self.front.limits().linger, self.flight.idle()).await;
    }

    /// Takes requests off the stream until there are no more.
    async fn receive<R: AsyncRead + Unpin>(self: &Rc<Self>, reader: R) -> Result<(), SessionError> {
        let mut intake = Intake::new(reader);
        loop {
            let request = match intake.next().await? {
                Next::Request(request) => request,
                Next::End => return Ok(()),
                Next::BadMagic => return Err(SessionError::RequestMagic),
            };
            if request.command == Command::Disconnect {
                return Ok(());
            }
            if let Err(error) = self.judge(&request) {
                if request.command == Command::Write {
                    if request.len > DRAIN_BYTES_MAX {
                        return Err(SessionError::PayloadLength(request.len));
                    }
                    intake.drain(request.len as usize).await?;
                }
                let hold = self.hold(0).await;
                self.fail(&request, error, hold);
                continue;
            }
            let hold = self.hold(memory_of(&request)).await;
            let payload = if request.command == Command::Write {
                let mut payload = Payload::for_write(request.offset, request.len as usize);
                let patience = self.front.limits().stalled;
                let give_up = || self.front.is_short_of_memory();
                intake.payload(payload.bytes_mut(), patience, give_up).await?;
                Some(payload)
            } else {
                None
            };
            tokio::task::spawn_local(Rc::clone(self).execute(request, payload, hold));
        }
    }

    /// Whether the request may be executed; its error number when not.
    fn judge(&self, request: &Request) -> Result<(), u32> {
        if self.front.is_stopping() {
            return Err(errno::SHUTDOWN);
        }
        if request.flags & !request.command.known_flags(self.agreed.structured) != 0 {
            return Err(errno::INVAL);
        }
        let size = self.agreed.export.size_bytes();
        let inside = request.offset.checked_add(u64::from(request.len)).is_some_and(|end| end <= size);
        let fits = request.len <= PAYLOAD_BYTES_MAX;
        match request.command {
            Command::Read if fits && inside => Ok(()),
            Command::Write if fits && !inside => Err(errno::NOSPC),
            Command::Write if fits => Ok(()),
            Command::WriteZeroes if !inside => Err(errno::NOSPC),
            Command::Trim | Command::WriteZeroes if inside => Ok(()),
            Command::BlockStatus if self.agreed.allocation && inside && request.len > 0 => Ok(()),
            Command::Flush => Ok(()),
            _ => Err(errno::INVAL),
        }
    }

    /// Takes a place and memory, waiting for both.
    async fn hold(&self, bytes: usize) -> Hold {
        let (flight, limits) = (&self.flight, self.front.limits());
        while flight.requests.get() >= limits.requests || flight.bytes.get() + bytes > limits.connection_bytes
        {
            flight.room.notified().await;
        }
        flight.requests.set(flight.requests.get() + 1);
        flight.bytes.set(flight.bytes.get() + bytes);
        let mut hold = Hold { flight: Rc::clone(flight), bytes, memory: None };
        if bytes > 0 {
            // The pool is never closed, and `bytes` is at most the largest payload: neither cast nor wait can fail.
            hold.memory = self.front.pool().clone().acquire_many_owned(bytes as u32).await.ok();
        }
        hold
    }

    async fn execute(self: Rc<Self>, request: Request, payload: Option<Payload>, hold: Hold) {
        let export = &self.agreed.export;
        let (offset, len, fua) = (request.offset, u64::from(request.len), request.fua());
        let done = match (request.command, payload) {
            (Command::Read, _) => return self.read(request, hold).await,
            (Command::BlockStatus, _) => return self.block_status(request, hold).await,
            (Command::Flush, _) => export.flush().await,
            _ if len == 0 => Ok(()),
            (Command::Write, Some(payload)) => export.write(offset, payload, fua).await,
            (Command::Trim, _) => export.trim(offset, len, fua).await,
            (Command::WriteZeroes, _) => {
                export.write_zeroes(offset, len, request.flags & flag::NO_HOLE != 0, fua).await
            }
            _ => Err(ExportError::Invalid),
        };
        match done {
            Ok(()) => self.outbox.put([Piece::Head(Head::simple(request.cookie, 0)), Piece::End(hold)]),
            Err(error) => self.fail(&request, error.errno(), hold),
        }
    }

    /// Answers with an error, in the shape that the command's answer has.
    fn fail(&self, request: &Request, error: u32, hold: Hold) {
        let structured =
            self.agreed.structured && matches!(request.command, Command::Read | Command::BlockStatus);
        let head = if structured { Head::error } else { Head::simple };
        self.outbox.put([Piece::Head(head(request.cookie, error)), Piece::End(hold)]);
    }

    async fn read(&self, request: Request, hold: Hold) {
        let len = request.len as usize;
        let chunks =
            if len == 0 { Ok(Vec::new()) } else { self.agreed.export.read(request.offset, len).await };
        match chunks {
            Ok(chunks) if chunks.iter().map(Chunk::len).sum::<usize>() == len => {
                self.answer_read(&request, chunks, hold);
            }
            Ok(_) => {
                tracing::error!(
                    offset = request.offset,
                    len,
                    "the export answered a read with another length"
                );
                self.fail(&request, errno::IO, hold);
            }
            Err(error) => self.fail(&request, error.errno(), hold),
        }
    }

    fn answer_read(&self, request: &Request, mut chunks: Vec<Chunk>, hold: Hold) {
        chunks.retain(|chunk| !chunk.is_empty());
        let cookie = request.cookie;
        let solid = || chunks.iter().all(|chunk| matches!(chunk, Chunk::Data(_)));
        let head = if !self.agreed.structured {
            Some(Head::simple(cookie, 0))
        } else if request.len == 0 {
            Some(Head::done(cookie))
        } else if request.flags & flag::DF != 0 || solid() {
            Some(Head::data(cookie, request.offset, request.len, true))
        } else {
            None
        };
        if let Some(head) = head {
            let pieces = std::iter::once(Piece::Head(head)).chain(chunks.into_iter().map(piece));
            return self.outbox.put(pieces.chain(std::iter::once(Piece::End(hold))));
        }
        let last = chunks.len() - 1;
        let mut offset = request.offset;
        let pieces = chunks.into_iter().enumerate().flat_map(|(at, chunk)| {
            // At most the length of the request, which has 32 bits.
            let len = chunk.len() as u32;
            let (begin, done) = (offset, at == last);
            offset += u64::from(len);
            match chunk {
                Chunk::Zero(_) => [Some(Piece::Head(Head::hole(cookie, begin, len, done))), None],
                data => [Some(Piece::Head(Head::data(cookie, begin, len, done))), Some(piece(data))],
            }
        });
        self.outbox.put(pieces.flatten().chain(std::iter::once(Piece::End(hold))));
    }

    async fn block_status(&self, request: Request, hold: Hold) {
        let runs_max = if request.flags & flag::REQ_ONE != 0 { 1 } else { STATUS_RUNS_MAX };
        let len = u64::from(request.len);
        match self.agreed.export.block_status(request.offset, len, runs_max).await {
            Ok(mut runs) => {
                runs.retain(|run| run.len > 0);
                runs.truncate(runs_max);
                let total = runs.iter().fold(0u64, |sum, run| sum.saturating_add(run.len));
                if runs.is_empty() || total > len {
                    tracing::error!(offset = request.offset, len, total, "the export answered another range");
                    return self.fail(&request, errno::IO, hold);
                }
                let bytes = wire::block_status(request.cookie, ALLOCATION_CONTEXT_ID, &runs);
                self.outbox.put([Piece::Bytes(bytes), Piece::End(hold)]);
            }
            Err(error) => self.fail(&request, error.errno(), hold),
        }
    }
}

fn piece(chunk: Chunk) -> Piece<Hold> {
    match chunk {
        Chunk::Data(buf) => Piece::Data(buf),
        Chunk::Zero(len) => Piece::Zero(len),
    }
}

/// Memory that a request takes, bytes: its payload or its answer.
fn memory_of(request: &Request) -> usize {
    match request.command {
        Command::Read | Command::Write => request.len as usize,
        Command::BlockStatus => 16 * STATUS_RUNS_MAX,
        _ => 0,
    }
}
