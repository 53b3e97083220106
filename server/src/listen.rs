//! The port: connections, TLS, and how long anybody may take.
//!
//! Invariants, with and without TLS: a connection that says nothing, or says it slowly, is closed; there is an end to how many are open; a
//! stop ends them within a limit. Whoever speaks plain HTTP to the port of TLS is told so in HTTP.
use crate::app::App;
use axum_server::accept::Accept;
use axum_server::tls_rustls::RustlsAcceptor;
use axum_server::{Handle, Server};
use std::io::{Error, ErrorKind};
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt, ReadBuf};
use tokio::net::TcpStream;
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::time::timeout;

/// Connections that are open at one time; more are closed at once. A page holds two, a stream of live parts among them.
const CONNECTIONS_MAX: usize = 1024;
/// How long the first byte, the handshake, and the head of a request may take, each.
const PATIENCE: Duration = Duration::from_secs(15);
/// Requests of one HTTP/2 connection at one time.
const STREAMS_MAX: u32 = 128;
/// Head of one HTTP/2 request, bytes.
const HEAD_BYTES_MAX: u32 = 32 << 10;
/// An HTTP/2 connection is asked so often whether it is still there.
const PING: Duration = Duration::from_secs(30);
/// How long open requests may take to end once the server is asked to stop.
const REQUESTS_END: Duration = Duration::from_secs(10);
/// First byte of a TLS handshake.
const HANDSHAKE: u8 = 0x16;

/// What plain HTTP gets from the port of TLS.
const HINT: &str = "This port speaks TLS: write https:// instead of http:// in front of the address.\n";

/// Serves until `stop` ends and the requests that were open then, within a limit.
///
/// # Errors
/// One sentence.
pub async fn serve(
    app: &App,
    listener: std::net::TcpListener,
    stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), String> {
    let failed = |error: Error| format!("cannot serve: {error}");
    let handle = Handle::new();
    let mut server = axum_server::from_tcp(listener).map_err(failed)?.handle(handle.clone());
    limit(&mut server);
    tokio::spawn(async move {
        stop.await;
        handle.graceful_shutdown(Some(REQUESTS_END));
    });
    let service = crate::router::build(app).into_make_service_with_connect_info::<SocketAddr>();
    let door = Door { permits: Arc::new(Semaphore::new(CONNECTIONS_MAX)), tls: app.config.tls.is_some() };
    let server = server.first_request_timeout(PATIENCE);
    let served = match &app.config.tls {
        None => server.acceptor(door).serve(service).await,
        Some(tls) => {
            let acceptor = RustlsAcceptor::new(tls.acceptor()).handshake_timeout(PATIENCE).acceptor(door);
            server.acceptor(acceptor).serve(service).await
        }
    };
    served.map_err(failed)
}

fn limit(server: &mut Server<SocketAddr>) {
    let builder = server.http_builder();
    builder.http1().header_read_timeout(PATIENCE);
    builder
        .http2()
        .max_concurrent_streams(STREAMS_MAX)
        .max_header_list_size(HEAD_BYTES_MAX)
        .keep_alive_interval(PING)
        .keep_alive_timeout(PATIENCE);
}

/// Lets connections in, one permit each.
#[derive(Clone)]
struct Door {
    permits: Arc<Semaphore>,
    tls: bool,
}

impl<S: Send + 'static> Accept<TcpStream, S> for Door {
    type Stream = Held;
    type Service = S;
    type Future = Pin<Box<dyn Future<Output = std::io::Result<(Held, S)>> + Send>>;

    fn accept(&self, stream: TcpStream, service: S) -> Self::Future {
        let permit = self.permits.clone().try_acquire_owned();
        let tls = self.tls;
        Box::pin(async move {
            let permit = permit.map_err(|_| Error::from(ErrorKind::ConnectionRefused))?;
            stream.set_nodelay(true)?;
            if tls && !is_handshake(&stream).await? {
                // Whether the hint arrives is the client's affair.
                let _ = timeout(PATIENCE, hint(stream)).await;
                return Err(Error::from(ErrorKind::InvalidData));
            }
            Ok((Held { stream, _permit: permit }, service))
        })
    }
}

/// Whether a connection begins with a TLS handshake; nothing of it is taken away.
async fn is_handshake(stream: &TcpStream) -> std::io::Result<bool> {
    let mut first = [0];
    let count = timeout(PATIENCE, stream.peek(&mut first)).await.map_err(Error::other)??;
    if count == 0 { Err(Error::from(ErrorKind::UnexpectedEof)) } else { Ok(first[0] == HANDSHAKE) }
}

async fn hint(mut stream: TcpStream) -> std::io::Result<()> {
    // What was sent is read first: closing a connection with unread bytes takes the answer away from the client.
    let mut head = [0; 4096];
    let _ = stream.read(&mut head).await?;
    let length = HINT.len();
    let answer = format!(
        "HTTP/1.1 400 Bad Request\r\nContent-Type: text/plain\r\nContent-Length: {length}\r\nConnection: close\r\n\r\n{HINT}"
    );
    stream.write_all(answer.as_bytes()).await?;
    stream.shutdown().await?;
    while stream.read(&mut head).await? > 0 {}
    Ok(())
}

/// A connection with its permit.
struct Held {
    stream: TcpStream,
    _permit: OwnedSemaphorePermit,
}

impl AsyncRead for Held {
    fn poll_read(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &mut ReadBuf<'_>,
    ) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Held {
    fn poll_write(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buf: &[u8],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<std::io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[std::io::IoSlice<'_>],
    ) -> Poll<std::io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}
