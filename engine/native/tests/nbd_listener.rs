//! The NBD socket: its file, and the descriptors of clients that come and go. One test: it counts the descriptors of its
//! process, so nothing else may run beside it.

use native::nbd::client::Client;
use native::nbd::listener::{ListenError, Listener};
use native::nbd::mem::{MemDirectory, MemExport};
use native::nbd::{Front, Limits};
use std::os::unix::fs::{MetadataExt, PermissionsExt};
use std::path::Path;
use std::time::Duration;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::UnixStream;
use tokio::task::LocalSet;

/// Generous: a wait that takes so long has failed.
const PATIENCE: Duration = Duration::from_secs(120);

async fn until(mut done: impl FnMut() -> bool) {
    let wait = async {
        while !done() {
            tokio::task::yield_now().await;
        }
    };
    tokio::time::timeout(PATIENCE, wait).await.expect("it happens in time");
}

fn descriptors() -> usize {
    std::fs::read_dir("/proc/self/fd").unwrap().count()
}

async fn refusals(dir: &Path) {
    let long = dir.join("x".repeat(120));
    assert!(matches!(Listener::bind(&long).await, Err(ListenError::PathTooLong { .. })));
    let file = dir.join("file");
    std::fs::write(&file, b"precious").unwrap();
    assert!(matches!(Listener::bind(&file).await, Err(ListenError::NotASocket(_))));
    assert_eq!(std::fs::read(&file).unwrap(), b"precious");
    let socket = dir.join("nbd.sock");
    drop(std::os::unix::net::UnixListener::bind(&socket).unwrap());
    let listener = Listener::bind(&socket).await.expect("the socket of a dead process is replaced");
    assert!(matches!(Listener::bind(&socket).await, Err(ListenError::InUse(_))));
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o600);
    let made = std::fs::metadata(&socket).unwrap();
    listener.share_with_group(made.gid()).unwrap();
    assert_eq!(std::fs::metadata(&socket).unwrap().permissions().mode() & 0o777, 0o660);
    drop(listener);
    assert!(!socket.exists());
    // A file that took the place of the socket meanwhile is left alone.
    let listener = Listener::bind(&socket).await.unwrap();
    std::fs::remove_file(&socket).unwrap();
    std::fs::write(&socket, b"other").unwrap();
    drop(listener);
    assert!(socket.exists());
    std::fs::remove_file(&socket).unwrap();
}

async fn come_and_go(socket: &Path, front: &Front<MemDirectory>) {
    let before = descriptors();
    for round in 0..5000 {
        let mut stream = UnixStream::connect(socket).await.unwrap();
        match round % 4 {
            // Half-closed and waiting for the end; closed in the middle of an option; half-closed; closed at once.
            0 => {
                stream.shutdown().await.unwrap();
                let mut greeting = Vec::new();
                stream.read_to_end(&mut greeting).await.unwrap();
                assert_eq!(greeting.len(), 18);
            }
            1 => stream.write_all(&[0, 0, 0, 3, b'I', b'H']).await.unwrap(),
            2 => stream.shutdown().await.unwrap(),
            _ => {}
        }
    }
    until(|| front.connections() == 0).await;
    assert_eq!(descriptors(), before);
    let client = Client::connect(socket, "vol").await.unwrap();
    client.write(0, &[1; 4096], false).await.unwrap();
    client.disconnect().await.unwrap();
    // The client's end is still open: the server closes its own.
    until(|| front.connections() == 0).await;
}

async fn too_many(socket: &Path, front: &Front<MemDirectory>) {
    let limit = front.limits().connections;
    let mut streams = Vec::new();
    for _ in 0..limit {
        let mut stream = UnixStream::connect(socket).await.unwrap();
        stream.read_exact(&mut [0; 18]).await.unwrap();
        streams.push(stream);
    }
    let mut turned_away = UnixStream::connect(socket).await.unwrap();
    assert_eq!(turned_away.read(&mut [0; 18]).await.unwrap(), 0);
    drop(streams);
    until(|| front.connections() == 0).await;
}

#[test]
fn the_socket_and_its_descriptors() {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
    let dir = tempfile::tempdir().unwrap();
    LocalSet::new().block_on(&runtime, async {
        refusals(dir.path()).await;
        let socket = dir.path().join("nbd.sock");
        let directory = MemDirectory::default();
        directory.insert("vol", MemExport::new(1 << 20));
        let front = Front::new(directory, Limits::default());
        let listener = Listener::bind(&socket).await.unwrap();
        let running = tokio::task::spawn_local(listener.run(front.clone()));
        come_and_go(&socket, &front).await;
        too_many(&socket, &front).await;
        let client = Client::connect(&socket, "vol").await.unwrap();
        assert_eq!(client.read(0, 4096).await.unwrap(), [1; 4096]);
        front.stop();
        tokio::time::timeout(PATIENCE, running).await.unwrap().unwrap();
        assert!(!socket.exists());
        assert!(client.flush().await.is_err());
    });
}
