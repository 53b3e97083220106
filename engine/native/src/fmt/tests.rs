//! What every codec must do: give back what was encoded, and refuse everything that was changed.
use super::dir::DirEntry;
use super::superblock::*;
use super::*;
use model::ids::{ClusterId, DiskGroupId, DiskId, HostId};
use model::state::Media;
use proptest::prelude::*;

/// Flips every single bit and then some random bytes of `block`: `open` must refuse each time.
pub(super) fn refuses_every_change(block: &[u8], seed: u64, open: impl Fn(&[u8]) -> Result<(), FmtError>) {
    use rand_chacha::rand_core::{Rng, SeedableRng};
    open(block).expect("unchanged it opens");
    let mut changed = block.to_vec();
    for bit in 0..block.len() * 8 {
        changed[bit / 8] ^= 1 << (bit % 8);
        assert!(open(&changed).is_err(), "flipped bit {bit}");
        changed[bit / 8] ^= 1 << (bit % 8);
    }
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(seed);
    for _ in 0..500 {
        let mut changed = block.to_vec();
        for _ in 0..1 + rng.next_u32() % 16 {
            let at = rng.next_u32() as usize % changed.len();
            changed[at] = rng.next_u32() as u8;
        }
        if changed != block {
            assert!(open(&changed).is_err(), "random damage");
        }
        let cut = rng.next_u32() as usize % block.len();
        assert!(open(&block[..cut]).is_err(), "cut to {cut}");
    }
}

prop_compose! {
    pub(super) fn any_entry()(page in 0u64..1 << 40, crc: u32, allocated: u32, oseq_max: u64, digest: u64) -> DirEntry {
        DirEntry { page_offset_bytes: page * 4096, crc, allocated, oseq_max, digest }
    }
}

prop_compose! {
    fn any_group()(
        ids: [[u8; 16]; 2], seqs: [u64; 3], next: u32, members in prop::collection::vec(any::<([u8; 16], [u32; 2], u64)>(), 0..=7),
    ) -> GroupLog {
        GroupLog {
            group: DiskGroupId::from_random(ids[0]),
            log_disk: DiskId::from_random(ids[1]),
            tail_seq: seqs[0],
            tail_offset_bytes: seqs[1],
            flushed_seq: seqs[2],
            next_local: LocalId(next),
            members: members.into_iter().map(|(disk, [epoch, damaged_epoch], checkpoint_generation)| {
                Member { disk: DiskId::from_random(disk), epoch, damaged_epoch, checkpoint_generation }
            }).collect(),
        }
    }
}

prop_compose! {
    fn any_superblock()(
        ids: [[u8; 16]; 3], numbers: [u64; 8], epoch: u32, clean: bool, name in "[a-zä-ü0-9-]{0,40}",
        table in any_entry(), bitmap in any_entry(),
        regions in prop::collection::vec(any::<([u8; 16], u64, u64)>(), 0..=16),
        groups in prop::collection::vec(any_group(), 0..=8),
        key in prop::collection::vec(any::<u8>(), 0..=72),
    ) -> Superblock {
        Superblock {
            generation: numbers[0], incompatible: 0, read_only_compatible: numbers[1], compatible: numbers[2],
            cluster: ClusterId::from_random(ids[0]), disk: DiskId::from_random(ids[1]), host: HostId::from_random(ids[2]),
            name, size_bytes: numbers[3], physical_block_bytes: epoch, media: Media::Hdd, roles: Roles::COMBINED, epoch, clean,
            encryption: [
                EncryptionSlot { cipher: 1, key_encryption_key: ClusterId::from_random(ids[0]).0, wrapped_key: key },
                EncryptionSlot::default(),
            ],
            checkpoint: CheckpointRoot {
                generation: numbers[4], applied_batch: numbers[5], table, bitmap, components: epoch,
                data_extents: numbers[6], metadata_extents: numbers[7],
            },
            regions: regions.into_iter().map(|(group, offset_bytes, len_bytes)| {
                Region { kind: RegionKind::Extents, group: DiskGroupId::from_random(group), offset_bytes, len_bytes }
            }).collect(),
            groups,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]
    #[test]
    fn superblock_round_trip(superblock in any_superblock()) {
        let block = superblock.encode(65536).unwrap();
        prop_assert_eq!(block.len(), BLOCK);
        prop_assert_eq!(Superblock::decode(&block, 65536), Ok(superblock));
        prop_assert_eq!(Superblock::decode(&block, 4096), Err(FmtError::Misplaced(65536)));
    }
}

fn superblock() -> Superblock {
    use proptest::strategy::ValueTree;
    let mut runner = proptest::test_runner::TestRunner::deterministic();
    let groups = vec![any_group().new_tree(&mut runner).unwrap().current(); 3];
    Superblock { groups, ..any_superblock().new_tree(&mut runner).unwrap().current() }
}

#[test]
fn superblock_refuses_every_change() {
    let block = superblock().encode(4096).unwrap();
    refuses_every_change(&block, 1, |bytes| Superblock::decode(bytes, 4096).map(drop));
}

#[test]
fn newer_formats_are_told_apart_from_damage() {
    let newer = Superblock { incompatible: 1 << 63, ..superblock() };
    assert_eq!(Superblock::decode(&newer.encode(0).unwrap(), 0), Err(FmtError::Incompatible(1 << 63)));
    let readable = Superblock { read_only_compatible: 6, ..superblock() };
    assert_eq!(Superblock::decode(&readable.encode(0).unwrap(), 0).unwrap().access(), Access::ReadOnly(6));
}

#[test]
fn too_much_of_anything_is_an_error() {
    let long = Superblock { name: "n".repeat(81), ..superblock() };
    assert_eq!(long.encode(0), Err(FmtError::Field("name")));
    let wide = Superblock { groups: vec![superblock().groups[0].clone(); 9], ..superblock() };
    assert_eq!(wide.encode(0), Err(FmtError::Field("groups")));
}

/// Bytes that are valid by checksum but use reserved space were not written by this format.
#[test]
fn reserved_bytes_must_be_zero_even_when_sealed() {
    let mut block = superblock().encode(4096).unwrap();
    let (head, _) =
        header::open(&block, header::Kind::Superblock, header::Place { dev_id: None, self_off: 4096 })
            .unwrap();
    block[BLOCK - 1] = 1;
    header::seal(&mut block, header::Kind::Superblock, &head);
    assert_eq!(Superblock::decode(&block, 4096), Err(FmtError::Reserved));
}

proptest! {
    #[test]
    fn config_slot_round_trip(epoch: u32, sequence: u64, payload in prop::collection::vec(any::<u8>(), 0..10_000)) {
        let slot = slot::ConfigSlot { epoch, sequence, payload };
        let mut block = slot.encode(5, 1 << 20).unwrap();
        prop_assert!(block.len().is_multiple_of(BLOCK));
        block.extend([7; 100]);
        prop_assert_eq!(slot::ConfigSlot::decode(&block, 5, 1 << 20), Ok(slot));
    }
}

#[test]
fn config_slot_refuses_every_change() {
    let slot = slot::ConfigSlot { epoch: 3, sequence: 9, payload: vec![0xa5; 5000] };
    let block = slot.encode(5, 1 << 20).unwrap();
    refuses_every_change(&block, 2, |bytes| slot::ConfigSlot::decode(bytes, 5, 1 << 20).map(drop));
    let full = slot::ConfigSlot { payload: vec![0; slot::PAYLOAD_BYTES_MAX + 1], ..slot };
    assert!(full.encode(5, 1 << 20).is_err());
}
