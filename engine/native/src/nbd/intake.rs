//! Requests and payload off the stream.
//!
//! Headers are gathered through a small buffer: several per system call when the client pipelines, and at most a few hundred
//! bytes of a payload are copied; the rest is received straight into its aligned buffer.

use super::patience::Patience;
use super::wire::{REQUEST_BYTES, Request};
use std::io;
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt};

/// Room for eighteen requests.
const GATHER_BYTES: usize = 512;
/// Refused payload is thrown away in pieces of this size, bytes.
const DRAIN_PIECE_BYTES: usize = 16 << 10;

pub(super) struct Intake<R> {
    reader: R,
    gathered: [u8; GATHER_BYTES],
    start: usize,
    end: usize,
}

/// What the stream held next.
pub(super) enum Next {
    Request(Request),
    /// The peer sends nothing more.
    End,
    /// Not a request: out of step.
    BadMagic,
}

impl<R: AsyncRead + Unpin> Intake<R> {
    pub(super) fn new(reader: R) -> Self {
        Self { reader, gathered: [0; GATHER_BYTES], start: 0, end: 0 }
    }

    /// The next request. An end in the middle of one is an end.
    pub(super) async fn next(&mut self) -> io::Result<Next> {
        loop {
            if let Some(header) = self.gathered[self.start..self.end].first_chunk::<REQUEST_BYTES>() {
                let request = Request::decode(header);
                self.start += REQUEST_BYTES;
                return Ok(request.map_or(Next::BadMagic, Next::Request));
            }
            self.gathered.copy_within(self.start..self.end, 0);
            self.end -= self.start;
            self.start = 0;
            let received = self.reader.read(&mut self.gathered[self.end..]).await?;
            if received == 0 {
                return Ok(Next::End);
            }
            self.end += received;
        }
    }

    fn take_gathered(&mut self, len: usize) -> &[u8] {
        let len = len.min(self.end - self.start);
        self.start += len;
        &self.gathered[self.start - len..self.start]
    }

    /// Fills `into` with payload. When next to nothing comes for `patience`, `give_up` decides
    /// whether to wait on.
    pub(super) async fn payload(
        &mut self,
        into: &mut [u8],
        patience: Duration,
        give_up: impl Fn() -> bool,
    ) -> io::Result<()> {
        let gathered = self.take_gathered(into.len());
        let mut filled = gathered.len();
        into[..filled].copy_from_slice(gathered);
        if filled == into.len() {
            return Ok(());
        }
        let mut patience = Patience::new(patience);
        while filled < into.len() {
            match patience.step(self.reader.read(&mut into[filled..]), &give_up).await? {
                Some(0) => return Err(io::ErrorKind::UnexpectedEof.into()),
                received => filled += received.unwrap_or(0),
            }
        }
        Ok(())
    }

    /// Throws `len` bytes of payload away.
    pub(super) async fn drain(&mut self, len: usize) -> io::Result<()> {
        let mut left = len - self.take_gathered(len).len();
        let mut piece = vec![0; DRAIN_PIECE_BYTES.min(left)];
        while left > 0 {
            let room = left.min(piece.len());
            match self.reader.read(&mut piece[..room]).await? {
                0 => return Err(io::ErrorKind::UnexpectedEof.into()),
                received => left -= received,
            }
        }
        Ok(())
    }
}
