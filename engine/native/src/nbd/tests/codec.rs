//! Properties of the codecs.
use crate::nbd::option::{self, InfoKind, NAME_BYTES_MAX, Opt, OptionError, number};
use crate::nbd::wire::{self, ChunkKind, Command, Head, ReplyHead, Request};
use crate::nbd::{Allocation, ExportError, Run};
use proptest::prelude::*;

proptest! {
    #[test]
    fn requests_round_trip(flags: u16, command: u16, cookie: u64, offset: u64, len: u32) {
        let mut bytes = [0; wire::REQUEST_BYTES];
        bytes[..4].copy_from_slice(&[0x25, 0x60, 0x95, 0x13]);
        bytes[4..6].copy_from_slice(&flags.to_be_bytes());
        bytes[6..8].copy_from_slice(&command.to_be_bytes());
        bytes[8..16].copy_from_slice(&cookie.to_be_bytes());
        bytes[16..24].copy_from_slice(&offset.to_be_bytes());
        bytes[24..].copy_from_slice(&len.to_be_bytes());
        let request = Request::decode(&bytes).unwrap();
        prop_assert_eq!((request.flags, request.cookie, request.offset, request.len), (flags, cookie, offset, len));
        prop_assert_eq!(request.encode(), bytes);
        bytes[usize::from(command) % 4] ^= 1;
        prop_assert_eq!(Request::decode(&bytes), None);
    }

    #[test]
    fn any_option_is_decoded_or_refused(option in 0u32..16, data in prop::collection::vec(any::<u8>(), 0..200)) {
        // It does not panic, and what is accepted is what a client would have sent.
        if let Ok(Opt::Info(info) | Opt::Go(info)) = Opt::decode(option, &data) {
            prop_assert!(data.len() >= 6 + info.name.len());
        }
    }

    #[test]
    fn a_prefix_of_an_option_is_malformed(name in "[a-z]{0,40}", cut in 0usize..80) {
        let whole = option::info_request(name.as_bytes(), &[InfoKind::Name, InfoKind::BlockSize]);
        let cut = cut.min(whole.len());
        let decoded = Opt::decode(number::GO, &whole[..cut]);
        if cut == whole.len() {
            let Ok(Opt::Go(info)) = decoded else { return Err(TestCaseError::fail("refused")) };
            prop_assert_eq!(info.name, name.as_bytes());
            prop_assert!(info.wants(InfoKind::Name) && info.wants(InfoKind::BlockSize));
            prop_assert!(!info.wants(InfoKind::Export));
        } else {
            prop_assert_eq!(decoded, Err(OptionError::Malformed));
        }
    }

    #[test]
    fn heads_round_trip(cookie: u64, offset: u64, len in 1u32..1 << 25, error in 1u32..200) {
        let simple = ReplyHead::decode(Head::simple(cookie, error).as_slice());
        prop_assert_eq!(simple, Some(ReplyHead::Simple { error, cookie }));
        let data = Head::data(cookie, offset, len, false);
        let (head, rest) = data.as_slice().split_at(wire::CHUNK_BYTES);
        let chunk = ReplyHead::Chunk { kind: ChunkKind::OffsetData, done: false, cookie, len: len + 8 };
        prop_assert_eq!(ReplyHead::decode(head), Some(chunk));
        prop_assert_eq!(rest, &offset.to_be_bytes()[..]);
        let hole = Head::hole(cookie, offset, len, true);
        let (head, rest) = hole.as_slice().split_at(wire::CHUNK_BYTES);
        let chunk = ReplyHead::Chunk { kind: ChunkKind::OffsetHole, done: true, cookie, len: 12 };
        prop_assert_eq!(ReplyHead::decode(head), Some(chunk));
        prop_assert_eq!(&rest[8..], &len.to_be_bytes()[..]);
    }

    #[test]
    fn runs_round_trip(runs in prop::collection::vec((1u32.., 0u8..3), 1..40)) {
        let kinds = [Allocation::Data, Allocation::Zero, Allocation::Hole];
        let run = |(len, kind): &(u32, u8)| Run { len: u64::from(*len), allocation: kinds[usize::from(*kind)] };
        let runs: Vec<Run> = runs.iter().map(run).collect();
        let bytes = wire::block_status(7, 1, &runs);
        prop_assert_eq!(bytes.len(), wire::CHUNK_BYTES + 4 + 8 * runs.len());
        prop_assert_eq!(wire::decode_runs(&bytes[wire::CHUNK_BYTES + 4..]), Some(runs));
    }
}

#[test]
fn errors_round_trip() {
    use ExportError::*;
    for error in [NoSpace, Io, Invalid, NotPermitted, NotSupported, NoMemory, Shutdown] {
        assert_eq!(ExportError::from_errno(error.errno()), error);
    }
}

#[test]
fn flags_belong_to_commands() {
    assert_eq!(Command::Read.known_flags(true), 1 | 4);
    assert_eq!(Command::Read.known_flags(false), 1);
    assert_eq!(Command::WriteZeroes.known_flags(false), 1 | 2);
    assert_eq!(Command::BlockStatus.known_flags(true), 1 | 8);
    assert_eq!(Command::Flush.known_flags(true), 1);
}

#[test]
fn strings_over_the_limit_are_told_apart_from_missing_ones() {
    let long = vec![b'x'; NAME_BYTES_MAX + 1];
    let data = option::info_request(&long, &[]);
    assert_eq!(Opt::decode(number::GO, &data), Err(OptionError::TooLong));
    let fits = option::info_request(&long[1..], &[]);
    assert!(matches!(Opt::decode(number::GO, &fits), Ok(Opt::Go(_))));
    let mut query = option::meta_request(b"vol", &["base:", "base:allocation"]);
    let expected = Opt::decode(number::SET_META_CONTEXT, &query).unwrap();
    let Opt::SetMeta(decoded) = expected else { panic!("another option") };
    assert!(decoded.allocation && decoded.namespace && !decoded.is_empty);
    // More queries claimed than there are, up to the largest number.
    query[7..11].copy_from_slice(&u32::MAX.to_be_bytes());
    assert_eq!(Opt::decode(number::SET_META_CONTEXT, &query), Err(OptionError::Malformed));
}
