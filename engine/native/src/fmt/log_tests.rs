//! Log batches: round trips and damage.
use super::*;
use proptest::prelude::*;

const DEV: u64 = 0x77;
const AT: u64 = 1 << 20;
const PLACE: Place = Place { dev_id: Some(DEV), self_off: AT };

fn record() -> impl Strategy<Value = Record> {
    let kind = prop::sample::select(RecordKind::ALL.to_vec());
    (kind, any::<u8>(), 1..=4u16, 0..1u64 << 30, any::<u64>(), any::<u64>(), any::<u32>()).prop_map(
        |(kind, flags, nblk, block, oseq, data_oseq, component)| {
            let ranged = kind.is_content() || kind == RecordKind::Config;
            let nblk = if ranged { nblk } else { 0 };
            let block = if kind == RecordKind::Config { block % (u64::from(nblk) * 4096) } else { block };
            let component = LocalId(component);
            Record { component, kind, flags: flags & flags::ALL, nblk, block, oseq, data_oseq, payload: 0 }
        },
    )
}

fn head() -> impl Strategy<Value = BatchHead> {
    let numbers = (1..u64::MAX, any::<u64>(), any::<u32>(), any::<u32>(), any::<bool>());
    (prop::collection::vec(record(), 0..=RECORDS_MAX), numbers).prop_map(
        |(mut records, (batch_seq, durable, incarnation, prev_crc, wrap))| {
            let mut crcs = Vec::new();
            for record in &mut records {
                let blocks = record.payload_blocks();
                record.payload = if blocks > 0 { crcs.len() as u32 } else { 0 };
                crcs.extend((0..blocks).map(|block| record.oseq as u32 ^ block as u32));
            }
            BatchHead {
                batch_seq,
                incarnation,
                prev_crc,
                durable_upto: durable % batch_seq,
                wrap,
                records,
                crcs,
            }
        },
    )
}

fn bytes_of(head: &BatchHead) -> (Vec<u8>, u32) {
    let mut bytes = vec![0; head_blocks(head.records.len(), head.crcs.len()) * BLOCK];
    let crc = encode(head, DEV, AT, &mut bytes);
    (bytes, crc)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 200, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn what_is_encoded_is_decoded(head in head()) {
        let (bytes, crc) = bytes_of(&head);
        prop_assert_eq!(head_blocks_claimed(&bytes[..BLOCK]), Some(bytes.len() / BLOCK));
        prop_assert_eq!(decode(&bytes, PLACE), Ok((head, crc)));
    }

    #[test]
    fn any_flipped_bit_is_refused(head in head(), at in any::<prop::sample::Index>()) {
        let (mut bytes, _) = bytes_of(&head);
        let bit = at.index(bytes.len() * 8);
        bytes[bit / 8] ^= 1 << (bit % 8);
        prop_assert!(decode(&bytes, PLACE).is_err());
    }

    /// A valid seal around nonsense: whoever can write the checksum still cannot make a header that no writer writes.
    #[test]
    fn resealed_changes_are_refused_or_canonical(head in head(), at in any::<prop::sample::Index>(), value: u8) {
        let (mut bytes, _) = bytes_of(&head);
        let at = HEADER_BYTES + at.index(bytes.len() - HEADER_BYTES);
        bytes[at] = value;
        let (generation, incarnation) = (head.batch_seq, head.incarnation);
        let header = Header { dev_id: DEV, self_off: AT, generation, incarnation, owner: 0 };
        header::seal(&mut bytes, Kind::LogBatch, &header);
        if let Ok((read, _)) = decode(&bytes, PLACE) {
            prop_assert_eq!(bytes_of(&read).0, bytes);
        }
    }
}

#[test]
fn places_and_disks_are_told_apart() {
    let head = BatchHead {
        batch_seq: 9,
        incarnation: 2,
        prev_crc: 1,
        durable_upto: 8,
        wrap: true,
        records: vec![],
        crcs: vec![],
    };
    let (bytes, _) = bytes_of(&head);
    assert!(decode(&bytes, PLACE).is_ok());
    assert_eq!(decode(&bytes, Place { self_off: AT + 4096, ..PLACE }), Err(FmtError::Misplaced(AT)));
    assert_eq!(decode(&bytes, Place { dev_id: Some(1), ..PLACE }), Err(FmtError::OtherDisk));
    assert_eq!(head_blocks_claimed(&[0; 4096]), None);
}

#[test]
fn a_full_batch_fits_two_header_blocks() {
    assert_eq!(head_blocks(RECORDS_MAX, PAYLOAD_BLOCKS_MAX), 2);
    assert_eq!(head_blocks(0, 0), 1);
}
