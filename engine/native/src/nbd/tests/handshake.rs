//! Options: limits, names, padding, contexts; the session stays in step.
use super::*;
use crate::nbd::client::{Client, ClientError};
use crate::nbd::option::{info_request, meta_request};

const UNSUPPORTED: u32 = 1 << 31 | 1;
const INVALID: u32 = 1 << 31 | 3;
const UNKNOWN: u32 = 1 << 31 | 6;
const TOO_BIG: u32 = 1 << 31 | 9;

fn kinds(replies: &[(u32, Vec<u8>)]) -> Vec<u32> {
    replies.iter().map(|(kind, _)| *kind).collect()
}

#[test]
fn odd_names_are_refused_and_the_session_goes_on() {
    local(false, async {
        let (front, _) = front();
        let (mut stream, _session) = connect(&front);
        greet(&mut stream).await;
        for option in [number::GO, number::INFO] {
            for (name, reply) in [
                (vec![b'n'; 3000], UNKNOWN),
                (vec![b'n'; 4096], UNKNOWN),
                (vec![b'n'; 5000], TOO_BIG),
                (b"vol\0".to_vec(), UNKNOWN),
                (b"v\0l".to_vec(), UNKNOWN),
                (b"\xff\xfe".to_vec(), UNKNOWN),
                (Vec::new(), UNKNOWN),
            ] {
                assert_eq!(kinds(&ask(&mut stream, option, &info_request(&name, &[])).await), [reply]);
            }
            // More bytes of name, and more kinds, than there are.
            let mut name_claims = info_request(b"vol", &[]);
            name_claims[..4].copy_from_slice(&0xffff_ffffu32.to_be_bytes());
            let mut kinds_claim = info_request(b"vol", &[]);
            kinds_claim[7..].copy_from_slice(&0xffffu16.to_be_bytes());
            for data in [name_claims, kinds_claim, vec![], vec![0; 3]] {
                assert_eq!(kinds(&ask(&mut stream, option, &data).await), [INVALID]);
            }
        }
        assert_eq!(kinds(&ask(&mut stream, number::GO, &info_request(b"vol", &[])).await), [3, 3, 1]);
        assert_eq!(simple(&mut stream, request(Command::Read, 0, 0, 512), &[], 512).await, (0, vec![0; 512]));
    });
}

#[test]
fn unknown_and_long_options_stay_in_step() {
    local(false, async {
        let (front, _) = front();
        let (mut stream, session) = connect(&front);
        greet(&mut stream).await;
        for (option, len, reply) in
            [(5, 0, UNSUPPORTED), (77, 1000, UNSUPPORTED), (77, 1 << 20, TOO_BIG), (number::LIST, 4, INVALID)]
        {
            assert_eq!(kinds(&ask(&mut stream, option, &vec![1; len]).await), [reply]);
        }
        let list = ask(&mut stream, number::LIST, &[]).await;
        assert_eq!(list, [(2, b"\0\0\0\x03vol".to_vec()), (1, vec![])]);
        // Longer than what is read past: the connection ends.
        stream.write_all(&option::header(77, u32::MAX)).await.unwrap();
        assert!(matches!(soon(session).await.unwrap(), Err(SessionError::OptionLength(u32::MAX))));
        assert_eq!(stream.read(&mut [0; 8]).await.unwrap(), 0);
    });
}

#[test]
fn abort_is_acknowledged() {
    local(false, async {
        let (front, _) = front();
        let (mut stream, session) = connect(&front);
        greet(&mut stream).await;
        assert_eq!(kinds(&ask(&mut stream, number::ABORT, &[]).await), [1]);
        assert_eq!(stream.read(&mut [0; 8]).await.unwrap(), 0);
        soon(session).await.unwrap().unwrap();
    });
}

#[test]
fn export_name_is_followed_by_134_or_10_bytes() {
    local(false, async {
        let (front, export) = front();
        for (flags, len) in [(1, 134), (3, 10), (0, 134), (2, 10)] {
            let (mut stream, _session) = connect(&front);
            stream.read_exact(&mut [0; 18]).await.unwrap();
            stream.write_u32(flags).await.unwrap();
            send_option(&mut stream, number::EXPORT_NAME, b"vol").await;
            let mut answer = vec![9; len];
            stream.read_exact(&mut answer).await.unwrap();
            assert_eq!(be64(&answer, 0), SIZE);
            assert_eq!(be32(&answer, 6) & 0xffff, 0x016d, "flush, FUA, trim, zeroes, multi-conn; no DF");
            assert!(answer[10..].iter().all(|byte| *byte == 0));
            // The next reply begins right after.
            let write =
                simple(&mut stream, request(Command::Write, 0, 4096, 4096), &[flags as u8; 4096], 0).await;
            assert_eq!(write.0, 0);
            let read = simple(&mut stream, request(Command::Read, 0, 4096, 4096), &[], 4096).await;
            assert_eq!(read, (0, vec![flags as u8; 4096]));
        }
        assert_eq!(export.flushes(), 0);
    });
}

#[test]
fn export_name_with_an_unknown_name_closes() {
    local(false, async {
        let (front, _) = front();
        for name in [vec![b'x'; 10], vec![b'x'; 3000], vec![b'x'; 5000], vec![b'x'; 40_000], vec![]] {
            let (mut stream, session) = connect(&front);
            greet(&mut stream).await;
            send_option(&mut stream, number::EXPORT_NAME, &name).await;
            assert!(soon(session).await.unwrap().is_err());
            // Bytes that were not read turn the end into a reset.
            assert_eq!(stream.read(&mut [0; 8]).await.unwrap_or(0), 0);
        }
    });
}

#[test]
fn unknown_client_flags_close() {
    local(false, async {
        let (front, _) = front();
        let (mut stream, session) = connect(&front);
        stream.write_u32(0x8000_0001).await.unwrap();
        assert!(matches!(soon(session).await.unwrap(), Err(SessionError::ClientFlags(0x8000_0001))));
    });
}

#[test]
fn contexts_need_structured_replies_and_the_same_export() {
    local(false, async {
        let (front, _) = front();
        front.directory().insert("other", MemExport::new(SIZE));
        let (mut stream, _session) = connect(&front);
        greet(&mut stream).await;
        let query = meta_request(b"vol", &["base:allocation", "x-else:thing"]);
        assert_eq!(kinds(&ask(&mut stream, number::SET_META_CONTEXT, &query).await), [INVALID]);
        assert_eq!(kinds(&ask(&mut stream, number::STRUCTURED_REPLY, &[]).await), [1]);
        let unknown = meta_request(b"none", &["base:allocation"]);
        assert_eq!(kinds(&ask(&mut stream, number::SET_META_CONTEXT, &unknown).await), [UNKNOWN]);
        for (queries, contexts) in
            [(&[][..], 1), (&["base:"], 1), (&["base:allocation"], 1), (&["base:allo"], 0), (&["qemu:"], 0)]
        {
            let replies = ask(&mut stream, number::LIST_META_CONTEXT, &meta_request(b"vol", queries)).await;
            assert_eq!(replies.len(), contexts + 1, "{queries:?}");
        }
        let selected = ask(&mut stream, number::SET_META_CONTEXT, &query).await;
        assert_eq!(selected, [(4, b"\0\0\0\x01base:allocation".to_vec()), (1, vec![])]);
        // Selected for one export, served another: not in force.
        assert_eq!(kinds(&ask(&mut stream, number::GO, &info_request(b"other", &[])).await), [3, 3, 1]);
        stream.write_all(&request(Command::BlockStatus, 0, 0, 4096)).await.unwrap();
        let mut head = [0; 26];
        stream.read_exact(&mut head).await.unwrap();
        assert_eq!((be32(&head, 0), be32(&head, 20)), (0x668e_33ef, 22), "a structured EINVAL");
    });
}

#[test]
fn the_client_tells_a_refusal() {
    local(false, async {
        let (front, _) = front();
        let (stream, _session) = connect(&front);
        let refused = Client::over(stream, "nothing").await.err().unwrap();
        assert!(matches!(refused, ClientError::Refused { reply: UNKNOWN, .. }), "{refused}");
    });
}
