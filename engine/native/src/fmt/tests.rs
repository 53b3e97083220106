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

const HEADER: header::Header =
    header::Header { dev_id: 5, self_off: 1 << 22, generation: 8, incarnation: 2, owner: 77 };
const PLACE: header::Place = header::Place { dev_id: Some(5), self_off: 1 << 22 };

prop_compose! {
    fn any_leaf_entry()(
        extent in prop::option::of(0u64..(1 << 48) - 1), bad: bool, oseq: u64, birth: u32, valid: u16, crc: [u32; 16], strip_oseq: [u64; 4],
    ) -> leaf::LeafEntry {
        let valid = if extent.is_some() { valid } else { 0 };
        let crc = std::array::from_fn(|i| if valid & (1 << i) != 0 { crc[i] } else { 0 });
        leaf::LeafEntry { extent, bad, oseq, birth, valid, crc, strip_oseq }
    }
}

prop_compose! {
    fn any_leaf()(index: u32, entries in prop::collection::vec(any_leaf_entry(), 32)) -> leaf::Leaf {
        leaf::Leaf { index, entries: entries.try_into().unwrap() }
    }
}

prop_compose! {
    fn any_directory()(level: u8, first: u64, entries in prop::collection::vec(any_entry(), 120)) -> dir::Directory {
        dir::Directory { level, first, entries: entries.try_into().unwrap() }
    }
}

prop_compose! {
    fn any_bitmap()(first: u64, states in prop::collection::vec(0..4u8, 0..2000)) -> bitmap::Bitmap {
        let mut page = bitmap::Bitmap::empty(first, states.len() as u32);
        for (index, state) in (0..).zip(states) {
            use bitmap::ExtentState::{Bad, Data, Free, Metadata};
            page.set(index, [Free, Data, Metadata, Bad][usize::from(state)]);
        }
        page
    }
}

prop_compose! {
    fn any_component()(
        ids: [[u8; 16]; 2], local: u32, kind in 0..5usize, numbers: [u64; 4], roots in prop::collection::vec(any_entry(), 16),
    ) -> component::Component {
        use component::ComponentKind::{Data, Durability, Parity, Strip, Witness};
        component::Component {
            local: LocalId(local),
            component: model::ids::ComponentId::from_random(ids[0]),
            object: model::ids::ObjectId::from_random(ids[1]),
            kind: [Data, Witness, Strip, Parity, Durability][kind],
            size_blocks: numbers[0],
            csn: (numbers[1], numbers[2]),
            applied_stable_oseq: numbers[3],
            roots: roots.try_into().unwrap(),
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn leaf_round_trip(leaf in any_leaf()) {
        let (block, crc) = leaf.encode(&HEADER);
        prop_assert_eq!(leaf::Leaf::decode(&block, PLACE), Ok((leaf, HEADER, crc)));
    }

    #[test]
    fn directory_round_trip(page in any_directory()) {
        let (block, crc) = page.encode(&HEADER);
        prop_assert_eq!(dir::Directory::decode(&block, PLACE), Ok((page, HEADER, crc)));
    }

    #[test]
    fn bitmap_round_trip(page in any_bitmap()) {
        let (block, crc) = page.encode(&HEADER);
        prop_assert_eq!(bitmap::Bitmap::decode(&block, PLACE), Ok((page, HEADER, crc)));
    }

    #[test]
    fn component_round_trip(component in any_component(), len in 0..12_000usize) {
        let header = header::Header { owner: component.local.0.into(), ..HEADER };
        let descriptor: Vec<u8> = (0..len).map(|i| i as u8).collect();
        let next = match component::chained_pages(len) {
            0 => component::Next::default(),
            _ => component::Next { offset_bytes: 8192, crc: 6 },
        };
        let (block, crc) = component.encode(&header, &descriptor, next);
        let decoded = component::Component::decode(&block, PLACE).unwrap();
        prop_assert_eq!((decoded.component, decoded.header, decoded.crc), (component, header, crc));
        let inline = &descriptor[..len.min(component::INLINE_BYTES)];
        prop_assert_eq!((&decoded.descriptor[..], decoded.descriptor_bytes, decoded.next), (inline, len, next));
    }

    #[test]
    fn descriptor_page_round_trip(part in prop::collection::vec(any::<u8>(), 1..=component::CHAINED_BYTES), offset_bytes: u64, crc: u32) {
        let next = component::Next { offset_bytes, crc };
        let (block, crc) = component::encode_chained(&HEADER, &part, next);
        prop_assert_eq!(component::decode_chained(&block, PLACE), Ok((part, next, crc)));
    }

    /// Equal content in other places has an equal digest; any other content another one.
    #[test]
    fn digests_see_content_alone(leaf in any_leaf(), position in 0..32usize, block in 0..16usize) {
        let mut moved = leaf.clone();
        for entry in &mut moved.entries {
            entry.extent = entry.extent.map(|extent| extent ^ 1);
            entry.oseq ^= 3;
        }
        prop_assert_eq!(moved.digest(), leaf.digest());
        let mut other = leaf.clone();
        other.entries[position].valid ^= 1 << block;
        prop_assert_ne!(other.digest(), leaf.digest());
    }
}

fn sample<T: std::fmt::Debug>(strategy: impl Strategy<Value = T>) -> T {
    use proptest::strategy::ValueTree;
    strategy.new_tree(&mut proptest::test_runner::TestRunner::deterministic()).unwrap().current()
}

#[test]
fn map_pages_refuse_every_change() {
    let (leaf, _) = sample(any_leaf()).encode(&HEADER);
    refuses_every_change(&leaf, 3, |bytes| leaf::Leaf::decode(bytes, PLACE).map(drop));
    let (page, _) = sample(any_directory()).encode(&HEADER);
    refuses_every_change(&page, 4, |bytes| dir::Directory::decode(bytes, PLACE).map(drop));
    let (page, _) = sample(any_bitmap()).encode(&HEADER);
    refuses_every_change(&page, 5, |bytes| bitmap::Bitmap::decode(bytes, PLACE).map(drop));
    let next = component::Next { offset_bytes: 8192, crc: 6 };
    let (page, _) = sample(any_component()).encode(&HEADER, &[5; 4000], next);
    refuses_every_change(&page, 6, |bytes| component::Component::decode(bytes, PLACE).map(drop));
    let (page, _) = component::encode_chained(&HEADER, &[5; 400], next);
    refuses_every_change(&page, 7, |bytes| component::decode_chained(bytes, PLACE).map(drop));
}

/// Whatever is sealed around nonsense is an error or a value, and every value encodes to the same bytes again.
#[test]
fn sealed_nonsense_never_panics() {
    use header::Kind::{Bitmap, Component, Descriptor, Directory, Leaf, Superblock};
    use rand_chacha::rand_core::{Rng, SeedableRng};
    let mut rng = rand_chacha::ChaCha8Rng::seed_from_u64(9);
    for round in 0..300 {
        let mut block = vec![0; BLOCK];
        rng.fill_bytes(&mut block);
        if round % 3 == 0 {
            block[200..].fill(0); // little is set: more decoders get far
        }
        for kind in [Superblock, Leaf, Directory, Bitmap, Component, Descriptor] {
            header::seal(&mut block, kind, &HEADER);
            let again = match kind {
                Leaf => leaf::Leaf::decode(&block, PLACE).ok().map(|(leaf, ..)| leaf.encode(&HEADER).0),
                Directory => {
                    dir::Directory::decode(&block, PLACE).ok().map(|(page, ..)| page.encode(&HEADER).0)
                }
                Bitmap => bitmap::Bitmap::decode(&block, PLACE).ok().map(|(page, ..)| page.encode(&HEADER).0),
                Superblock => {
                    superblock::Superblock::decode(&block, HEADER.self_off).ok().map(|_| block.clone())
                }
                Component => component::Component::decode(&block, PLACE).ok().map(|_| block.clone()),
                _ => component::decode_chained(&block, PLACE)
                    .ok()
                    .map(|(part, next, _)| component::encode_chained(&HEADER, &part, next).0),
            };
            assert!(again.is_none_or(|again| again == block), "{kind:?} has two encodings");
        }
    }
}

/// Every structure of this module that has a table in docs/on-disk-format.md.
fn tables() -> Vec<(&'static str, Fields, usize)> {
    [
        header::TABLES,
        superblock::TABLES,
        superblock::PART_TABLES,
        slot::TABLES,
        component::TABLES,
        dir::TABLES,
        leaf::TABLES,
        bitmap::TABLES,
        log::TABLES,
        log_config::TABLES,
    ]
    .concat()
}

/// Size, and (offset, bytes, field) in order.
type Table = (usize, Vec<(usize, usize, String)>);

/// The tables of the document: heading "### name, N bytes", then rows "| offset | bytes | field | meaning |".
fn documented(text: &str) -> std::collections::BTreeMap<String, Table> {
    let mut found = std::collections::BTreeMap::new();
    let mut current = None;
    for line in text.lines() {
        if let Some(heading) = line.strip_prefix("#") {
            let heading = heading.trim_start_matches('#').trim();
            let parts =
                heading.rsplit_once(", ").and_then(|(name, size)| Some((name, size.strip_suffix(" bytes")?)));
            current = parts.and_then(|(name, size)| Some((name.to_lowercase(), size.parse().ok()?)));
            continue;
        }
        let cells: Vec<&str> = line.split('|').map(str::trim).collect();
        let row = match cells[..] {
            ["", offset, bytes, field, _, ""] => offset.parse().ok().zip(bytes.parse().ok()).zip(Some(field)),
            _ => None,
        };
        if let (Some((name, size)), Some(((offset, bytes), field))) = (&current, row) {
            let table = found.entry(String::clone(name)).or_insert((*size, Vec::new()));
            table.1.push((offset, bytes, field.trim_matches('`').to_owned()));
        }
    }
    found
}

/// The tables in the document are what the code does, all of them, field by field.
#[test]
fn the_document_shows_the_bytes_of_the_code() {
    let text = include_str!("../../../../docs/on-disk-format.md");
    let documented = documented(text);
    for (name, fields, size) in tables() {
        let code: Vec<_> =
            fields.iter().map(|(name, offset, bytes)| (*offset, *bytes, (*name).to_owned())).collect();
        let wanted = || {
            let rows =
                code.iter().map(|(offset, bytes, field)| format!("| {offset} | {bytes} | `{field}` | |\n"));
            format!(
                "### {name}, {size} bytes\n\n| offset | bytes | field | meaning |\n|---:|---:|---|---|\n{}",
                rows.collect::<String>()
            )
        };
        assert_eq!(
            documented.get(name),
            Some(&(size, code.clone())),
            "the document should have\n{}",
            wanted()
        );
    }
}
