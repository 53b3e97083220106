//! Slow, broken and silent peers.
use super::*;
use crate::nbd::client::Client;
use crate::nbd::front::PAYLOAD_BYTES_MAX;

/// A whole conversation of a client that does not wait for answers: handshake and ten requests.
fn script() -> Vec<u8> {
    let mut bytes = vec![0, 0, 0, 3];
    bytes.extend(option::header(number::STRUCTURED_REPLY, 0));
    let name = option::info_request(b"vol", &[InfoKind::BlockSize]);
    bytes.extend(option::header(number::GO, name.len() as u32));
    bytes.extend(name);
    bytes.extend(request(Command::Unknown(99), 0, 0, 0));
    for at in 0..3u64 {
        bytes.extend(request(Command::Write, 0, at * 700, 600));
        bytes.extend([at as u8 + 1; 600]);
        bytes.extend(request(Command::Read, 0, at * 700, 600));
        bytes.extend(request(Command::Flush, 0, 0, 0));
    }
    bytes.extend(request(Command::Disconnect, 0, 0, 0));
    bytes
}

/// Sends `bytes` in pieces and returns all that comes back.
async fn converse(front: &Front<MemDirectory>, bytes: &[u8], piece: usize) -> Vec<u8> {
    let (stream, session) = connect(front);
    let (mut reader, mut writer) = stream.into_split();
    let mut answer = Vec::new();
    let send = async {
        for piece in bytes.chunks(piece) {
            writer.write_all(piece).await.unwrap();
            tokio::task::yield_now().await;
        }
    };
    // The client keeps its side open: the server closes after the disconnect.
    soon(async { tokio::join!(send, reader.read_to_end(&mut answer)).1.unwrap() }).await;
    soon(session).await.unwrap().unwrap();
    drop(writer);
    answer
}

#[test]
fn bytes_may_come_one_by_one() {
    local(false, async {
        let script = script();
        let one_by_one = converse(&front().0, &script, 1).await;
        assert!(one_by_one.len() > 3 * 600);
        for piece in [7, 512, script.len()] {
            // Requests begin in the order of the stream, and nothing in this export waits: the answers are the same.
            assert_eq!(converse(&front().0, &script, piece).await, one_by_one, "pieces of {piece} bytes");
        }
    });
}

#[test]
fn a_cut_at_any_byte_ends_only_that_session() {
    local(false, async {
        let (front, _) = front();
        let good = Client::over(connect(&front).0, "vol").await.unwrap();
        let script = script();
        for cut in 0..script.len().min(1000) {
            let (mut stream, session) = connect(&front);
            stream.write_all(&script[..cut]).await.unwrap();
            drop(stream);
            let _ = soon(session).await.unwrap();
            if cut % 20 == 0 {
                good.write(1 << 20, &[cut as u8; 512], false).await.unwrap();
                assert_eq!(good.read(1 << 20, 512).await.unwrap(), [cut as u8; 512]);
            }
        }
        assert_eq!(front.pool().available_permits(), front.limits().pool_bytes);
    });
}

#[test]
fn a_half_closed_client_gets_its_answers_and_the_end() {
    local(false, async {
        let (front, export) = front();
        let (mut stream, session) = opened(&front).await;
        export.hold(true);
        stream.write_all(&request(Command::Read, 0, 0, 4096)).await.unwrap();
        stream.shutdown().await.unwrap();
        until(|| export.waiting() == 1).await;
        export.hold(false);
        let mut answer = Vec::new();
        soon(stream.read_to_end(&mut answer)).await.unwrap();
        assert_eq!(answer.len(), 16 + 4096);
        soon(session).await.unwrap().unwrap();
    });
}

#[test]
fn a_silent_handshake_is_dropped() {
    for said in [0, 3, 4, 20, 30] {
        local(true, async {
            let (front, _) = front();
            let begin = tokio::time::Instant::now();
            let (mut stream, session) = connect(&front);
            stream.write_all(&script()[..said]).await.unwrap();
            assert!(matches!(session.await.unwrap(), Err(SessionError::HandshakeTimeout)));
            assert_eq!(begin.elapsed().as_secs(), front.limits().handshake.as_secs());
        });
    }
}

#[test]
fn an_open_session_may_be_silent() {
    local(true, async {
        let (front, _) = front();
        let client = Client::over(connect(&front).0, "vol").await.unwrap();
        tokio::time::sleep(Duration::from_secs(100_000)).await;
        client.flush().await.unwrap();
    });
}

#[test]
fn a_request_that_hangs_does_not_keep_a_closed_connection() {
    local(true, async {
        let (front, export) = front();
        let (mut stream, session) = opened(&front).await;
        export.hold(true);
        stream.write_all(&request(Command::Flush, 0, 0, 0)).await.unwrap();
        until(|| export.waiting() == 1).await;
        drop(stream);
        session.await.unwrap().unwrap();
        assert_eq!(export.waiting(), 1, "the request itself is not dropped");
        export.hold(false);
        until(|| export.waiting() == 0).await;
    });
}

/// A front whose memory is that of one large request.
fn narrow() -> (Front<MemDirectory>, MemExport) {
    let (directory, export) = (MemDirectory::default(), MemExport::new(64 << 20));
    directory.insert("vol", export.clone());
    (Front::new(directory, Limits { pool_bytes: PAYLOAD_BYTES_MAX as usize, ..Limits::default() }), export)
}

#[test]
fn a_stalled_payload_gives_its_memory_up() {
    local(true, async {
        let (front, _) = narrow();
        let (mut stalled, session) = opened(&front).await;
        stalled.write_all(&request(Command::Write, 0, 0, PAYLOAD_BYTES_MAX)).await.unwrap();
        stalled.write_all(&[1; 1000]).await.unwrap();
        until(|| front.pool().available_permits() == 0).await;
        let good = Client::over(connect(&front).0, "vol").await.unwrap();
        good.write(0, &[2; 4096], false).await.unwrap();
        assert_eq!(good.read(0, 4096).await.unwrap(), [2; 4096]);
        assert!(matches!(session.await.unwrap(), Err(SessionError::Stream(_))));
    });
}

#[test]
fn a_payload_in_drops_gives_its_memory_up() {
    local(true, async {
        let (front, _) = narrow();
        let (mut slow, session) = opened(&front).await;
        slow.write_all(&request(Command::Write, 0, 0, PAYLOAD_BYTES_MAX)).await.unwrap();
        let drops = async {
            for _ in 0..1000 {
                if slow.write_all(&[1]).await.is_err() {
                    return;
                }
                tokio::time::sleep(Duration::from_secs(1)).await;
            }
            panic!("a byte a second holds the memory");
        };
        let good = Client::over(connect(&front).0, "vol").await.unwrap();
        let ((), written) = tokio::join!(drops, good.write(0, &[2; 4096], false));
        written.unwrap();
        assert!(matches!(session.await.unwrap(), Err(SessionError::Stream(_))));
    });
}

#[test]
fn a_stalled_payload_is_waited_for_while_there_is_memory() {
    local(true, async {
        let (front, export) = front();
        let (mut paused, _session) = opened(&front).await;
        paused.write_all(&request(Command::Write, 1, 0, 4096)).await.unwrap();
        tokio::time::sleep(Duration::from_secs(100_000)).await;
        paused.write_all(&[3; 4096]).await.unwrap();
        paused.read_exact(&mut [0; 16]).await.unwrap();
        assert_eq!(export.flushes(), 1);
    });
}

#[test]
fn a_client_that_takes_no_answers_gives_its_memory_up() {
    local(true, async {
        let (front, _) = narrow();
        let (mut stalled, session) = opened(&front).await;
        stalled.write_all(&request(Command::Read, 0, 0, PAYLOAD_BYTES_MAX)).await.unwrap();
        until(|| front.pool().available_permits() == 0).await;
        let good = Client::over(connect(&front).0, "vol").await.unwrap();
        good.write(0, &[2; 4096], false).await.unwrap();
        assert!(matches!(session.await.unwrap(), Err(SessionError::Stream(_))));
    });
}
