//! Tests of the front over socket pairs with an export in memory.
//!
//! `codec` properties of the pure codecs · `handshake` options and their limits · `requests` commands, flags, errors, limits
//! of memory · `stream` slow, broken and silent peers.
mod codec;
mod handshake;
mod requests;
mod stream;

use super::mem::{MemDirectory, MemExport};
use super::option::{self, InfoKind, number};
use super::session::{self, SessionError};
use super::wire::{Command, REQUEST_BYTES, Request, be32, be64};
use super::{Front, Limits};
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::task::{JoinHandle, LocalSet};

const SIZE: u64 = 16 << 20;
/// Generous: a wait that takes so long has failed.
const PATIENCE: Duration = Duration::from_secs(60);

/// Runs a test on one thread, like the engine; with `paused` time moves only when everybody waits.
fn local<T>(paused: bool, test: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_all().start_paused(paused).build().unwrap();
    LocalSet::new().block_on(&runtime, test)
}

/// A front with the one export `vol`.
fn front_with(limits: Limits) -> (Front<MemDirectory>, MemExport) {
    let (directory, export) = (MemDirectory::default(), MemExport::new(SIZE));
    directory.insert("vol", export.clone());
    (Front::new(directory, limits), export)
}

fn front() -> (Front<MemDirectory>, MemExport) {
    front_with(Limits::default())
}

/// A connection to the front, and the end of its session.
fn connect(front: &Front<MemDirectory>) -> (UnixStream, JoinHandle<Result<(), SessionError>>) {
    let (client, server) = UnixStream::pair().unwrap();
    let (reader, writer) = server.into_split();
    (client, tokio::task::spawn_local(session::serve(front.clone(), reader, writer)))
}

/// Greets with both client flags.
async fn greet(stream: &mut UnixStream) {
    let mut greeting = [0; 18];
    stream.read_exact(&mut greeting).await.unwrap();
    assert_eq!(&greeting, b"NBDMAGICIHAVEOPT\0\x03");
    stream.write_u32(3).await.unwrap();
}

async fn send_option(stream: &mut UnixStream, option: u32, data: &[u8]) {
    stream.write_all(&option::header(option, data.len() as u32)).await.unwrap();
    stream.write_all(data).await.unwrap();
}

/// One reply to `option`: its type and data.
async fn option_reply(stream: &mut UnixStream, option: u32) -> (u32, Vec<u8>) {
    let mut header = [0; option::OPTION_REPLY_BYTES];
    stream.read_exact(&mut header).await.unwrap();
    assert_eq!(be64(&header, 0), 0x3_e889_0455_65a9);
    assert_eq!(be32(&header, 8), option);
    let mut data = vec![0; be32(&header, 16) as usize];
    stream.read_exact(&mut data).await.unwrap();
    (be32(&header, 12), data)
}

/// Sends an option and takes its replies up to the acknowledgement or error.
async fn ask(stream: &mut UnixStream, option: u32, data: &[u8]) -> Vec<(u32, Vec<u8>)> {
    send_option(stream, option, data).await;
    let mut replies = Vec::new();
    loop {
        let reply = option_reply(stream, option).await;
        let last = reply.0 == 1 || reply.0 >= 1 << 31;
        replies.push(reply);
        if last {
            return replies;
        }
    }
}

/// A connection that serves `vol` with simple replies.
async fn opened(front: &Front<MemDirectory>) -> (UnixStream, JoinHandle<Result<(), SessionError>>) {
    let (mut stream, session) = connect(front);
    greet(&mut stream).await;
    let replies = ask(&mut stream, number::GO, &option::info_request(b"vol", &[InfoKind::BlockSize])).await;
    assert_eq!(replies.last().unwrap().0, 1);
    (stream, session)
}

fn request(command: Command, flags: u16, offset: u64, len: u32) -> [u8; REQUEST_BYTES] {
    Request { flags, command, cookie: offset ^ u64::from(len), offset, len }.encode()
}

/// Sends a request with its payload and takes the simple reply: the error, and `data` bytes when there is none.
async fn simple(
    stream: &mut UnixStream,
    request: [u8; REQUEST_BYTES],
    payload: &[u8],
    data: usize,
) -> (u32, Vec<u8>) {
    stream.write_all(&request).await.unwrap();
    stream.write_all(payload).await.unwrap();
    let mut head = [0; 16];
    stream.read_exact(&mut head).await.unwrap();
    assert_eq!(be32(&head, 0), 0x6744_6698);
    assert_eq!(head[8..], request[8..16], "the cookie comes back");
    let error = be32(&head, 4);
    let mut bytes = vec![0; if error == 0 { data } else { 0 }];
    stream.read_exact(&mut bytes).await.unwrap();
    (error, bytes)
}

/// Waits for a future that must end.
async fn soon<T>(future: impl Future<Output = T>) -> T {
    tokio::time::timeout(PATIENCE, future).await.expect("it ends in time")
}

/// Lets every other task run until `done`.
async fn until(mut done: impl FnMut() -> bool) {
    soon(async {
        while !done() {
            tokio::task::yield_now().await;
        }
    })
    .await;
}
