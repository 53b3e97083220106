//! The replies of one connection: a flat queue of pieces, sent by one writer straight from where the bytes lie.
//!
//! Invariants: the pieces of one reply are put together and in order; what a request holds (its place, its memory) is given
//! back when the last byte of its reply is in the socket, or the connection is gone.

use super::patience::Patience;
use super::wire::Head;
use crate::io::IoBuf;
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::future::poll_fn;
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll, ready};
use std::time::Duration;
use tokio::io::{AsyncWrite, AsyncWriteExt};
use tokio::sync::Notify;

/// Slices in one system call.
const SLICES_MAX: usize = 64;
static ZEROES: [u8; 64 << 10] = [0; 64 << 10];

/// A part of a reply. `H` is what the request holds.
pub(super) enum Piece<H> {
    Head(Head),
    Bytes(Vec<u8>),
    Data(IoBuf),
    Zero(usize),
    /// The end of a reply.
    End(#[allow(dead_code, reason = "held for its drop")] H),
}

impl<H> Piece<H> {
    fn len(&self) -> usize {
        match self {
            Self::Head(head) => head.as_slice().len(),
            Self::Bytes(bytes) => bytes.len(),
            Self::Data(buf) => buf.len(),
            Self::Zero(len) => *len,
            Self::End(_) => 0,
        }
    }
}

struct Queue<H> {
    pieces: VecDeque<Piece<H>>,
    /// Bytes of the first piece that are sent.
    sent: usize,
}

pub(super) struct Outbox<H> {
    queue: RefCell<Queue<H>>,
    filled: Notify,
    closed: Cell<bool>,
}

impl<H> Outbox<H> {
    pub(super) fn new() -> Self {
        let queue = RefCell::new(Queue { pieces: VecDeque::new(), sent: 0 });
        Self { queue, filled: Notify::new(), closed: Cell::new(false) }
    }

    /// Puts one reply.
    pub(super) fn put(&self, reply: impl IntoIterator<Item = Piece<H>>) {
        if self.closed.get() {
            // Dropping the pieces gives back what the request holds.
            reply.into_iter().for_each(drop);
            return;
        }
        self.queue.borrow_mut().pieces.extend(reply);
        self.filled.notify_one();
    }

    /// Throws away what is queued and what will be.
    pub(super) fn close(&self) {
        self.closed.set(true);
        let pieces = std::mem::take(&mut self.queue.borrow_mut().pieces);
        drop(pieces);
    }

    /// Sends for ever; returns when the stream fails. When the peer takes next to nothing for `period`, `give_up` decides
    /// whether to wait on.
    pub(super) async fn send<W: AsyncWrite + Unpin>(
        &self,
        writer: &mut W,
        period: Duration,
        give_up: impl Fn() -> bool,
    ) -> io::Error {
        loop {
            self.release();
            if self.queue.borrow().pieces.is_empty() {
                if let Err(error) = writer.flush().await {
                    return error;
                }
                self.filled.notified().await;
                continue;
            }
            let mut patience = Patience::new(period);
            while !self.queue.borrow().pieces.is_empty() {
                let step = poll_fn(|cx| self.poll_send(Pin::new(&mut *writer), cx));
                match patience.step(step, &give_up).await {
                    Ok(Some(0)) => return io::ErrorKind::WriteZero.into(),
                    Ok(sent) => self.advance(sent.unwrap_or(0)),
                    Err(error) => return error,
                }
            }
        }
    }

    /// Takes the ends at the front off the queue.
    fn release(&self) {
        loop {
            // The borrow ends before the drop, which may wake others.
            let piece = {
                let mut queue = self.queue.borrow_mut();
                match queue.pieces.front() {
                    Some(piece) if piece.len() == 0 => queue.pieces.pop_front(),
                    _ => return,
                }
            };
            drop(piece);
        }
    }

    fn advance(&self, sent: usize) {
        self.queue.borrow_mut().sent += sent;
        loop {
            self.release();
            let piece = {
                let mut queue = self.queue.borrow_mut();
                let Some(len) = queue.pieces.front().map(Piece::len) else { break };
                if queue.sent < len {
                    break;
                }
                queue.sent -= len;
                queue.pieces.pop_front()
            };
            drop(piece);
        }
    }

    fn poll_send<W: AsyncWrite>(&self, writer: Pin<&mut W>, cx: &mut Context<'_>) -> Poll<io::Result<usize>> {
        let queue = self.queue.borrow();
        let mut slices = [IoSlice::new(&[]); SLICES_MAX];
        let mut count = 0;
        let mut skip = queue.sent;
        for piece in &queue.pieces {
            let bytes: &[u8] = match piece {
                Piece::Head(head) => head.as_slice(),
                Piece::Bytes(bytes) => bytes,
                Piece::Data(buf) => buf.as_slice(),
                Piece::Zero(len) => {
                    let mut left = *len - std::mem::take(&mut skip);
                    while left > 0 && count < SLICES_MAX {
                        let part = left.min(ZEROES.len());
                        slices[count] = IoSlice::new(&ZEROES[..part]);
                        count += 1;
                        left -= part;
                    }
                    if left > 0 {
                        break;
                    }
                    continue;
                }
                Piece::End(_) => continue,
            };
            if count == SLICES_MAX {
                break;
            }
            slices[count] = IoSlice::new(&bytes[std::mem::take(&mut skip)..]);
            count += 1;
        }
        let sent = ready!(writer.poll_write_vectored(cx, &slices[..count]))?;
        Poll::Ready(Ok(sent))
    }
}
