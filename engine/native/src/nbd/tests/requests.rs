//! Commands: flags, errors, never-written exports, limits, stop.
use super::*;
use crate::nbd::client::{Client, ClientError};
use crate::nbd::front::PAYLOAD_BYTES_MAX;
use crate::nbd::{Allocation, ExportError, Run};
use proptest::prelude::*;

async fn client(front: &Front<MemDirectory>) -> Client {
    Client::over(connect(front).0, "vol").await.unwrap()
}

fn error(result: Result<impl Sized, ClientError>) -> Option<ExportError> {
    match result {
        Err(ClientError::Request(error)) => Some(error),
        _ => None,
    }
}

#[test]
fn a_never_written_export_can_be_trimmed_zeroed_flushed_and_read() {
    local(false, async {
        let (front, _) = front();
        let client = client(&front).await;
        client.trim(0, SIZE as u32).await.unwrap();
        client.trim(1, 0).await.unwrap();
        client.write_zeroes(4096, 4096, false).await.unwrap();
        client.write_zeroes(1, 3, true).await.unwrap();
        client.flush().await.unwrap();
        assert_eq!(client.read(0, SIZE as u32).await.unwrap(), vec![0; SIZE as usize]);
        assert!(client.read(7, 0).await.unwrap().is_empty());
        let hole = Run { len: SIZE, allocation: Allocation::Hole };
        assert_eq!(client.block_status(0, SIZE as u32).await.unwrap(), [hole]);
    });
}

#[test]
fn flush_and_fua_are_announced_and_reach_the_export() {
    local(false, async {
        let (front, export) = front();
        let client = client(&front).await;
        assert_eq!(client.flags(), 0x01ed, "flush, FUA, trim, zeroes, DF, multi-conn");
        client.write(0, &[1; 512], true).await.unwrap();
        assert_eq!(export.flushes(), 1);
        client.flush().await.unwrap();
        assert_eq!(export.flushes(), 2);
        let (mut stream, _session) = opened(&front).await;
        let flushed = [
            (Command::Read, 512, 2),
            (Command::Flush, 0, 3),
            (Command::Trim, 0, 4),
            (Command::WriteZeroes, 0, 5),
        ];
        for (command, data, flushes) in flushed {
            let answer = simple(&mut stream, request(command, 1, 0, 512), &[], data).await;
            assert_eq!((answer.0, export.flushes()), (0, flushes), "{command:?}");
        }
    });
}

#[test]
fn what_is_not_known_is_invalid_and_the_session_stays() {
    local(false, async {
        let (front, _) = front();
        let (mut stream, _session) = opened(&front).await;
        for command in [5, 8, 9, 0xffff] {
            let unknown = request(Command::Unknown(command), 0, 0, 0);
            assert_eq!(simple(&mut stream, unknown, &[], 0).await.0, 22);
        }
        for (command, flags) in [
            (Command::Read, 4),
            (Command::Read, 1 << 5),
            (Command::Flush, 2),
            (Command::Trim, 8),
            (Command::WriteZeroes, 1 << 4),
            (Command::BlockStatus, 0),
        ] {
            assert_eq!(simple(&mut stream, request(command, flags, 0, 512), &[], 0).await.0, 22);
        }
        // The payload of a refused write is not taken for requests.
        let payload = request(Command::Disconnect, 0, 0, 0).repeat(20);
        let refused = request(Command::Write, 1 << 9, 0, payload.len() as u32);
        assert_eq!(simple(&mut stream, refused, &payload, 0).await.0, 22);
        assert_eq!(simple(&mut stream, request(Command::Read, 0, 0, 512), &[], 512).await, (0, vec![0; 512]));
    });
}

#[test]
fn ranges_outside_have_their_errors() {
    local(false, async {
        let (front, _) = front();
        let client = client(&front).await;
        assert_eq!(error(client.read(SIZE - 1, 2).await), Some(ExportError::Invalid));
        assert_eq!(error(client.read(u64::MAX, 2).await), Some(ExportError::Invalid));
        assert_eq!(error(client.write(SIZE - 1, &[1; 2], false).await), Some(ExportError::NoSpace));
        assert_eq!(error(client.write(u64::MAX, &[1; 2], false).await), Some(ExportError::NoSpace));
        assert_eq!(error(client.write_zeroes(SIZE, 1, false).await), Some(ExportError::NoSpace));
        assert_eq!(error(client.trim(SIZE - 1, 2).await), Some(ExportError::Invalid));
        assert_eq!(error(client.block_status(SIZE - 1, 2).await), Some(ExportError::Invalid));
        client.write(SIZE - 1, &[7], false).await.unwrap();
        assert_eq!(client.read(SIZE - 1, 1).await.unwrap(), [7]);
    });
}

#[test]
fn payload_over_the_maximum_is_drained_or_the_connection_ends() {
    local(false, async {
        let (front, _) = front();
        let (mut stream, session) = opened(&front).await;
        let long = vec![1; PAYLOAD_BYTES_MAX as usize + 1];
        let write = request(Command::Write, 0, 0, long.len() as u32);
        assert_eq!(simple(&mut stream, write, &long, 0).await.0, 22);
        assert_eq!(simple(&mut stream, request(Command::Read, 0, 0, 512), &[], 512).await, (0, vec![0; 512]));
        stream.write_all(&request(Command::Write, 0, 0, u32::MAX)).await.unwrap();
        assert!(matches!(soon(session).await.unwrap(), Err(SessionError::PayloadLength(u32::MAX))));
    });
}

#[test]
fn huge_reads_of_a_hundred_connections_leave_a_good_client_alone() {
    local(false, async {
        let (front, _) = front();
        let good = client(&front).await;
        let bad = (0..100).map(|_| {
            let front = front.clone();
            tokio::task::spawn_local(async move {
                let (mut stream, _session) = opened(&front).await;
                for _ in 0..20 {
                    let huge = request(Command::Read, 0, 0, u32::MAX);
                    assert_eq!(simple(&mut stream, huge, &[], 0).await.0, 22);
                    let taken = front.limits().pool_bytes - front.pool().available_permits();
                    assert!(taken <= 100, "{taken} bytes: only the good client takes memory");
                }
            })
        });
        let bad: Vec<_> = bad.collect();
        for round in 0..50u8 {
            let at = u64::from(round) * 5000;
            good.write(at, &[round; 100], false).await.unwrap();
            assert_eq!(good.read(at, 100).await.unwrap(), [round; 100]);
            until(|| front.pool().available_permits() == front.limits().pool_bytes).await;
        }
        for task in bad {
            soon(task).await.unwrap();
        }
    });
}

#[test]
fn requests_and_memory_of_connections_are_bounded() {
    local(false, async {
        let small = Limits { requests: 4, pool_bytes: PAYLOAD_BYTES_MAX as usize, ..Limits::default() };
        let (front, export) = front_with(small);
        export.hold(true);
        let first = client(&front).await;
        let reads: Vec<_> = (0..10)
            .map(|_| {
                let client = first.clone();
                tokio::task::spawn_local(async move { client.read(0, 4096).await.unwrap() })
            })
            .collect();
        until(|| export.waiting() == 4).await;
        let second = client(&front).await;
        let large = tokio::task::spawn_local(async move { second.read(0, SIZE as u32).await.unwrap() });
        until(|| export.waiting() == 5).await;
        let third = client(&front).await;
        let blocked = tokio::task::spawn_local(async move { third.read(0, SIZE as u32).await.unwrap() });
        for _ in 0..200 {
            tokio::task::yield_now().await;
        }
        assert_eq!(export.waiting(), 5, "no more requests than allowed, no more memory than there is");
        export.hold(false);
        for read in reads {
            assert_eq!(soon(read).await.unwrap().len(), 4096);
        }
        assert_eq!(soon(large).await.unwrap().len() + soon(blocked).await.unwrap().len(), 2 * SIZE as usize);
        until(|| front.pool().available_permits() == front.limits().pool_bytes).await;
    });
}

#[test]
fn stop_refuses_new_requests_and_finishes_old_ones() {
    local(false, async {
        let (front, export) = front();
        let (stream, session) = connect(&front);
        let client = Client::over(stream, "vol").await.unwrap();
        export.hold(true);
        let write = {
            let client = client.clone();
            tokio::task::spawn_local(async move { client.write(0, &[5; 4096], false).await })
        };
        until(|| export.waiting() == 1).await;
        front.stop();
        assert_eq!(error(client.flush().await), Some(ExportError::Shutdown));
        let refused = client.write(0, &[6; 100_000], false).await;
        assert_eq!(error(refused), Some(ExportError::Shutdown));
        export.hold(false);
        soon(write).await.unwrap().unwrap();
        soon(session).await.unwrap().unwrap();
        assert!(matches!(client.flush().await, Err(ClientError::Broken)));
        let (mut late, _session) = connect(&front);
        greet(&mut late).await;
        let replies = ask(&mut late, number::GO, &option::info_request(b"vol", &[])).await;
        assert_eq!(replies[0].0, 1 << 31 | 7);
    });
}

#[test]
fn the_client_may_be_used_from_any_thread() {
    fn sendable<T: Send>(_: T) {}
    fn check(client: &Client) {
        sendable((client.clone(), client.read(0, 1), client.write(0, &[1], true), client.block_status(0, 1)));
        sendable(Client::connect(std::path::Path::new("socket"), "vol"));
    }
    let _: fn(&Client) = check;
}

#[derive(Clone, Debug)]
enum Step {
    Write(u64, Vec<u8>),
    Zero(u64, u32),
    Trim(u64, u32),
    Read(u64, u32),
}

fn step() -> impl Strategy<Value = Step> {
    let range = || (0u64..60_000, 0u32..20_000);
    prop_oneof![
        (range(), any::<u8>()).prop_map(|((at, len), byte)| Step::Write(at, vec![byte; len as usize])),
        range().prop_map(|(at, len)| Step::Zero(at, len)),
        range().prop_map(|(at, len)| Step::Trim(at, len)),
        range().prop_map(|(at, len)| Step::Read(at, len)),
    ]
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]
    #[test]
    fn bytes_are_those_of_a_flat_array(steps in prop::collection::vec(step(), 1..30)) {
        local(false, async {
            let (front, _) = front();
            let client = client(&front).await;
            let mut flat = vec![0u8; 100_000];
            for step in &steps {
                match step {
                    Step::Write(at, data) => {
                        client.write(*at, data, false).await.unwrap();
                        flat[*at as usize..][..data.len()].copy_from_slice(data);
                    }
                    Step::Zero(at, len) => {
                        client.write_zeroes(*at, *len, false).await.unwrap();
                        flat[*at as usize..][..*len as usize].fill(0);
                    }
                    Step::Trim(at, len) => {
                        client.trim(*at, *len).await.unwrap();
                        let (begin, end) = (at.div_ceil(4096) * 4096, (at + u64::from(*len)) / 4096 * 4096);
                        if begin < end {
                            flat[begin as usize..end as usize].fill(0);
                        }
                    }
                    Step::Read(at, len) => {
                        assert_eq!(client.read(*at, *len).await.unwrap(), flat[*at as usize..][..*len as usize]);
                    }
                }
            }
            assert_eq!(client.read(0, 100_000).await.unwrap(), flat);
        });
    }
}
