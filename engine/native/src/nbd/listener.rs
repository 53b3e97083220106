//! The unix socket of the NBD front.
//!
//! Invariants: the socket has mode 0600 before the first client can reach it, and more only by request; a file that is
//! no socket, or a socket that somebody answers on, is never removed; on stop the file goes only if it is still the one
//! that was made here.

use super::export::ExportDirectory;
use super::front::Front;
use super::session;
use rustix::fs::{Mode, fchmod};
use std::io;
use std::os::unix::fs::{FileTypeExt, MetadataExt, PermissionsExt};
use std::path::{Path, PathBuf};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::net::{UnixListener, UnixSocket, UnixStream};

/// The longest path of a unix socket, bytes. Source: `sun_path` of Linux is 108 with the closing NUL.
pub const SOCKET_PATH_BYTES_MAX: usize = 107;
/// Clients that may wait to be accepted.
const BACKLOG: u32 = 256;
/// Rest after a failed accept (out of descriptors, mostly), so that the thread is not kept busy.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Why the socket cannot be opened as asked. Unless a variant says more, nothing was changed.
#[derive(Debug, thiserror::Error)]
pub enum ListenError {
    /// The path does not fit the system's limit.
    #[error(
        "the NBD socket path {path} has {len} bytes, and the system allows {SOCKET_PATH_BYTES_MAX}: \
         choose a data folder with a shorter path, or reach it through a short symbolic link"
    )]
    PathTooLong {
        /// The path.
        path: PathBuf,
        /// Its length, bytes.
        len: usize,
    },
    /// Something else lies there.
    #[error("{0} exists and is not a socket: move it away")]
    NotASocket(PathBuf),
    /// Another process serves it.
    #[error("{0} is served by another process: stop that one first")]
    InUse(PathBuf),
    /// Looking at what lies there failed.
    #[error("cannot look at {0}")]
    Inspect(PathBuf, #[source] io::Error),
    /// Removing the socket of a dead process failed.
    #[error("cannot remove the stale socket {0}")]
    RemoveStale(PathBuf, #[source] io::Error),
    /// The socket could not be made.
    #[error("cannot make the NBD socket {0}")]
    Bind(PathBuf, #[source] io::Error),
    /// The socket could not be given to a group; it keeps mode 0600, or its new group without the right to connect.
    #[error("cannot give the NBD socket {path} to the group {gid}: the server must belong to that group")]
    Share {
        /// The socket.
        path: PathBuf,
        /// The group.
        gid: u32,
        /// What the system says.
        #[source]
        error: io::Error,
    },
}

/// A bound unix socket.
pub struct Listener {
    socket: UnixListener,
    path: PathBuf,
    /// Device and inode of the file.
    identity: (u64, u64),
}

impl Listener {
    /// Makes the socket at `path`, mode 0600; the socket of a dead process is replaced.
    pub async fn bind(path: &Path) -> Result<Self, ListenError> {
        let len = path.as_os_str().len();
        if len > SOCKET_PATH_BYTES_MAX {
            return Err(ListenError::PathTooLong { path: path.to_owned(), len });
        }
        remove_stale(path).await?;
        let bound = || -> io::Result<(UnixListener, (u64, u64))> {
            let socket = UnixSocket::new_stream()?;
            // The mode of the descriptor is the mode of the file that bind makes; nobody can connect before listen.
            fchmod(&socket, Mode::RUSR | Mode::WUSR)?;
            socket.bind(path)?;
            std::fs::set_permissions(path, std::fs::Permissions::from_mode(0o600))?;
            let made = std::fs::symlink_metadata(path)?;
            Ok((socket.listen(BACKLOG)?, (made.dev(), made.ino())))
        };
        let (socket, identity) = bound().map_err(|error| ListenError::Bind(path.to_owned(), error))?;
        Ok(Self { socket, path: path.to_owned(), identity })
    }

    /// Lets the group `gid` connect, too: mode 0660.
    pub fn share_with_group(&self, gid: u32) -> Result<(), ListenError> {
        std::os::unix::fs::chown(&self.path, None, Some(gid))
            .and_then(|()| std::fs::set_permissions(&self.path, std::fs::Permissions::from_mode(0o660)))
            .map_err(|error| ListenError::Share { path: self.path.clone(), gid, error })
    }

    /// Where it is.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Serves clients until the front stops and its last connection has ended, then removes the socket.
    pub async fn run<D: ExportDirectory>(self, front: Front<D>) {
        accept(&front, async || Ok(self.socket.accept().await?.0.into_split())).await;
        drop(self);
        front.idle().await;
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        let ours =
            std::fs::symlink_metadata(&self.path).is_ok_and(|file| (file.dev(), file.ino()) == self.identity);
        if ours && let Err(error) = std::fs::remove_file(&self.path) {
            tracing::warn!(path = %self.path.display(), %error, "the NBD socket stays behind");
        }
    }
}

/// Takes connections from `next` (any kind of stream) and serves each on its own task, until the front stops. Must run on
/// a `LocalSet`.
pub async fn accept<D, R, W>(front: &Front<D>, mut next: impl AsyncFnMut() -> io::Result<(R, W)>)
where
    D: ExportDirectory,
    R: AsyncRead + Unpin + 'static,
    W: AsyncWrite + Unpin + 'static,
{
    loop {
        let accepted = tokio::select! {
            () = front.stopping() => return,
            accepted = next() => accepted,
        };
        let (reader, writer) = match accepted {
            Ok(stream) => stream,
            Err(error) => {
                tracing::warn!(%error, "an NBD client could not be accepted");
                tokio::time::sleep(ACCEPT_PAUSE).await;
                continue;
            }
        };
        let Some(seat) = front.admit() else {
            tracing::warn!(limit = front.limits().connections, "an NBD client was turned away: too many");
            continue;
        };
        let front = front.clone();
        tokio::task::spawn_local(async move {
            if let Err(error) = session::serve(front, reader, writer).await {
                tracing::debug!(%error, "an NBD session ended early");
            }
            drop(seat);
        });
    }
}

async fn remove_stale(path: &Path) -> Result<(), ListenError> {
    let inspect = |error| ListenError::Inspect(path.to_owned(), error);
    match std::fs::symlink_metadata(path) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
        Err(error) => return Err(inspect(error)),
        Ok(file) if !file.file_type().is_socket() => return Err(ListenError::NotASocket(path.to_owned())),
        Ok(_) => {}
    }
    match UnixStream::connect(path).await {
        Err(error) if error.kind() == io::ErrorKind::ConnectionRefused => {
            std::fs::remove_file(path).map_err(|error| ListenError::RemoveStale(path.to_owned(), error))
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => Ok(()),
        // A full backlog is somebody, too.
        Err(error) if error.kind() == io::ErrorKind::WouldBlock => Err(ListenError::InUse(path.to_owned())),
        Err(error) => Err(inspect(error)),
        Ok(_) => Err(ListenError::InUse(path.to_owned())),
    }
}
