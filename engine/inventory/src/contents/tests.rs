//! Prepared foreign disks: every signature at every place, as sparse files, each recognised and named.
use super::*;
use proptest::prelude::*;
use std::os::unix::fs::FileExt;

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;
const G: u64 = 1 << 30;
/// Larger than every place but the two farthest Ceph and Btrfs copies, and no multiple of 64 KiB.
const SIZE: u64 = 20 * G + 36 * K;

/// A sparse file with these bytes at these offsets.
fn disk(size: u64, writes: &[(u64, Vec<u8>)]) -> std::fs::File {
    let file = tempfile::tempfile().unwrap();
    file.set_len(size).unwrap();
    for (offset, bytes) in writes {
        file.write_all_at(bytes, *offset).unwrap();
    }
    file
}

fn look_at(file: &std::fs::File, size: u64) -> Contents {
    look(&|offset, buffer| file.read_exact_at(buffer, offset), size)
}

/// `bytes` with others put in at offsets.
fn block(length: usize, parts: &[(usize, &[u8])]) -> Vec<u8> {
    let mut block = vec![0; length];
    for (at, bytes) in parts {
        block[*at..*at + bytes.len()].copy_from_slice(bytes);
    }
    block
}

fn md(version: u32, name: &str) -> Vec<u8> {
    block(256, &[(0, &0xa92b_4efc_u32.to_le_bytes()), (4, &version.to_le_bytes()), (32, name.as_bytes())])
}

fn ext(compatible: u32, incompatible: u32, log_block: u32, name: &str) -> Vec<u8> {
    let words = [compatible.to_le_bytes(), incompatible.to_le_bytes(), log_block.to_le_bytes()];
    block(
        256,
        &[(24, &words[2]), (56, &[0x53, 0xef]), (92, &words[0]), (96, &words[1]), (120, name.as_bytes())],
    )
}

/// A ZFS label: the list with a pool's name, and one uberblock in slot `slot` of 1 KiB.
fn zfs_label(pool: &str, slot: usize, big_endian: bool) -> Vec<u8> {
    let mut list = vec![1, 1, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    for (key, value) in [("hostname", "oldbox"), ("name", pool)] {
        list.extend([0, 0, 0, 36, 0, 0, 0, 32]);
        list.extend(u32::try_from(key.len()).unwrap().to_be_bytes());
        list.extend(key.as_bytes());
        list.extend([0, 0, 0, 9, 0, 0, 0, 1]);
        list.extend(u32::try_from(value.len()).unwrap().to_be_bytes());
        list.extend(value.as_bytes());
        list.resize(list.len().next_multiple_of(4), 0);
    }
    let magic = if big_endian { 0x00ba_b10c_u64.to_be_bytes() } else { 0x00ba_b10c_u64.to_le_bytes() };
    block(256 << 10, &[(16 << 10, &list), ((128 << 10) + slot * 1024, &magic)])
}

fn gpt(entries_lba: u64, entry_bytes: u32) -> Vec<u8> {
    block(
        512,
        &[
            (0, b"EFI PART\0\0\x01\0"),
            (72, &entries_lba.to_le_bytes()),
            (80, &128u32.to_le_bytes()),
            (84, &entry_bytes.to_le_bytes()),
        ],
    )
}

fn gpt_entry(guid: &str, first: u64, last: u64) -> Vec<u8> {
    let guid: uuid::Uuid = guid.parse().unwrap();
    block(128, &[(0, &guid.to_bytes_le()), (32, &first.to_le_bytes()), (40, &last.to_le_bytes())])
}

const LINUX: &str = "0fc63daf-8483-4772-8e79-3d69d8477de4";
const VSAN: &str = "381cfccc-7288-11e0-92ee-000c2911d0b2";

fn mbr(kind: u8, first: u32, sectors: u32) -> Vec<u8> {
    let (first, sectors) = (first.to_le_bytes(), sectors.to_le_bytes());
    block(512, &[(450, &[kind]), (454, &first), (458, &sectors), (510, &[0x55, 0xaa])])
}

fn millpond(generation: u64, at: u64, format: u16, whole: bool) -> Vec<u8> {
    let mut sb = block(
        4096,
        &[
            (0, b"MPND\x01\0\x01\0"),
            (12, &4096u32.to_le_bytes()),
            (24, &at.to_le_bytes()),
            (32, &generation.to_le_bytes()),
            (64, &format.to_le_bytes()),
            (96, &[0x11; 16]),
            (112, &[0x22; 16]),
            (159, &[7]),
            (160, b"h1-cap1"),
        ],
    );
    let crc = crc_fast::checksum(crc_fast::CrcAlgorithm::Crc32Iscsi, &sb);
    sb[8..12].copy_from_slice(&u32::try_from(crc).unwrap().to_le_bytes());
    sb[4000] ^= u8::from(!whole);
    sb
}

/// Name of the case, what it must be called, its kind, where the finding must be said to stand, and the writes.
type Case = (&'static str, &'static str, Kind, &'static str, Vec<(u64, Vec<u8>)>);

fn text(offset: u64, bytes: &[u8]) -> Vec<(u64, Vec<u8>)> {
    vec![(offset, bytes.to_vec())]
}

fn tables_and_ours() -> Vec<Case> {
    let end = SIZE / 4096 * 4096;
    let names = "h1-cap1 of the Millpond cluster 11111111-1111-1111-1111-111111111111";
    let ours = |name: &'static str, at: u64, place: &'static str| {
        (name, names, Kind::Millpond, place, vec![(at, millpond(3, at, 0, true))])
    };
    let gpt_parts = |at: u64, entries: u64, sector: u64| {
        vec![(at, gpt(entries, 128)), (entries * sector, gpt_entry(LINUX, 2048, 4095))]
    };
    let last = |sector: u64| SIZE / sector * sector - sector;
    vec![
        (
            "millpond A0",
            names,
            Kind::Millpond,
            "superblock copy 1 of 4",
            vec![(4 * K, millpond(3, 4 * K, 0, true))],
        ),
        ours("millpond A1", end - 128 * K, "superblock copy 2 of 4"),
        ours("millpond B0", 64 * K, "superblock copy 3 of 4"),
        ours("millpond B1", end - 4 * K, "superblock copy 4 of 4"),
        (
            "millpond damaged",
            "a damaged Millpond superblock",
            Kind::Millpond,
            "superblock copy 1 of 4",
            vec![(4 * K, millpond(3, 4 * K, 0, false))],
        ),
        (
            "millpond newer",
            "h1-cap1 of the Millpond cluster 11111111-1111-1111-1111-111111111111, format 7",
            Kind::Millpond,
            "superblock copy 1 of 4",
            vec![(4 * K, millpond(3, 4 * K, 7, true))],
        ),
        ("gpt", "GPT with 1 partition (Linux)", Kind::Table, "", gpt_parts(512, 2, 512)),
        ("gpt 4K", "GPT with 1 partition (Linux)", Kind::Table, "", gpt_parts(4096, 2, 4096)),
        (
            "gpt backup",
            "GPT with 1 partition (Linux)",
            Kind::Table,
            "backup at the end",
            gpt_parts(last(512), SIZE / 512 - 33, 512),
        ),
        (
            "gpt backup 4K",
            "GPT with 1 partition (Linux)",
            Kind::Table,
            "backup at the end",
            gpt_parts(last(4096), SIZE / 4096 - 5, 4096),
        ),
        (
            "vsan",
            "GPT with 1 partition (VMware vSAN)",
            Kind::Table,
            "",
            vec![(512, gpt(2, 128)), (1024, gpt_entry(VSAN, 2048, 9999))],
        ),
        ("mbr", "MBR partition table with 1 partition", Kind::Table, "", vec![(0, mbr(0x83, 2048, 8192))]),
        ("mbr protective", "protective MBR of a GPT", Kind::Table, "", vec![(0, mbr(0xee, 1, u32::MAX))]),
        ("ldm", "Windows dynamic disk", Kind::Table, "", text(6 * 512, b"PRIVHEAD")),
        ("ldm end", "Windows dynamic disk", Kind::Table, "at the end", text(last(512), b"PRIVHEAD")),
        ("apple", "Apple partition map", Kind::Table, "", text(512, b"PM\0\0")),
    ]
}

fn members() -> Vec<Case> {
    let zfs = |name: &'static str, at: u64, place: &'static str, slot: usize, big: bool| {
        (name, "ZFS member (oldtank)", Kind::Zfs, place, vec![(at, zfs_label("oldtank", slot, big))])
    };
    let end = SIZE / (256 * K) * (256 * K);
    let md_old = SIZE / (64 * K) * (64 * K) - 64 * K;
    let md_end = (SIZE / 512 - 16) / 8 * 8 * 512;
    let raid = |name: &'static str, what: &'static str, place: &'static str, at: u64, bytes: Vec<u8>| {
        (name, what, Kind::Raid, place, vec![(at, bytes)])
    };
    let lvm = block(512, &[(0, b"LABELONE"), (24, b"LVM2 001")]);
    vec![
        zfs("zfs L0", 0, "label 1 of 4", 0, false),
        zfs("zfs L1", 256 * K, "label 2 of 4", 4, false),
        zfs("zfs L2", end - 512 * K, "label 3 of 4", 127, false),
        zfs("zfs L3", end - 256 * K, "label 4 of 4", 8, true),
        (
            "zfs without list",
            "ZFS member",
            Kind::Zfs,
            "label 1 of 4",
            text(128 * K + 9 * K, &0x00ba_b10c_u64.to_le_bytes()),
        ),
        raid("md 0.90", "mdadm member", "superblock 0.90", md_old, md(0, "")),
        raid("md 0.90 big endian", "mdadm member", "superblock 0.90", md_old, {
            block(256, &[(0, &0xa92b_4efc_u32.to_be_bytes())])
        }),
        raid("md 1.0", "mdadm member (oldnas:0)", "superblock 1.0", md_end, md(1, "oldnas:0")),
        raid("md 1.1", "mdadm member (oldnas:0)", "superblock 1.1", 0, md(1, "oldnas:0")),
        raid("md 1.2", "mdadm member (oldnas:0)", "superblock 1.2", 4 * K, md(1, "oldnas:0")),
        ("lvm 0", "LVM physical volume", Kind::Lvm, "label in sector 0", text(0, &lvm)),
        ("lvm 1", "LVM physical volume", Kind::Lvm, "label in sector 1", text(512, &lvm)),
        ("lvm 3", "LVM physical volume", Kind::Lvm, "label in sector 3", text(3 * 512, &lvm)),
        ("luks 1", "LUKS encryption", Kind::Encrypted, "version 1", text(0, b"LUKS\xba\xbe\0\x01")),
        (
            "luks 2",
            "LUKS encryption (secrets)",
            Kind::Encrypted,
            "version 2",
            text(0, &block(128, &[(0, b"LUKS\xba\xbe\0\x02"), (24, b"secrets")])),
        ),
        ("luks 2nd", "LUKS encryption", Kind::Encrypted, "second header", text(16 * K, b"SKUL\xba\xbe")),
        ("luks 2nd far", "LUKS encryption", Kind::Encrypted, "second header", text(4 * M, b"SKUL\xba\xbe")),
        ("ext2", "ext2 file system", Kind::FileSystem, "", text(K, &ext(0, 2, 2, ""))),
        ("ext3", "ext3 file system (old)", Kind::FileSystem, "", text(K, &ext(4, 2, 2, "old"))),
        ("ext4", "ext4 file system (data)", Kind::FileSystem, "", text(K, &ext(4, 0x2c2, 2, "data"))),
        (
            "ext4 backup",
            "ext4 file system (data)",
            Kind::FileSystem,
            "backup of a block group",
            text(128 * M, &ext(4, 0x2c2, 2, "data")),
        ),
    ]
}

#[test]
fn every_prepared_foreign_disk_is_recognised_and_named() {
    let mut cases = tables_and_ours();
    cases.extend(members());
    let mut wrong = Vec::new();
    for (name, what, kind, place, writes) in &cases {
        let contents = look_at(&disk(SIZE, writes), SIZE);
        let is_it =
            |finding: &&Finding| finding.what == *what && finding.kind == *kind && finding.place == *place;
        if contents.findings.iter().find(is_it).is_none() || contents.unreadable.is_some() {
            wrong.push(format!("{name}: {:?} {:?}", contents.findings, contents.unreadable));
        }
    }
    assert!(wrong.is_empty(), "{} of {} wrong\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    assert!(cases.len() + magic::rows().len() >= 40);
}

/// Every row of the table, on a disk large enough for its place, alone: it is found there, and nothing else is.
#[test]
fn every_row_of_the_table_is_found_at_its_place() {
    let mut rows = 0;
    for (kind, what, place, offset, magic) in magic::rows() {
        let far = matches!(place, "third copy" | "label copy at 100 GiB" | "label copy at 1000 GiB");
        let size = if far { 1001 * G } else { SIZE };
        let at = match offset {
            Ok(start) => start,
            Err(back) => size / 512 * 512 - back,
        };
        let contents = look_at(&disk(size, &[(at, magic.to_vec())]), size);
        let found: Vec<_> =
            contents.findings.iter().map(|one| (one.kind, one.place.as_str(), one.offset_bytes)).collect();
        assert_eq!(found, [(kind, place, Some(at))], "{what} {place}: {:?}", contents.findings);
        assert!(contents.findings[0].what.starts_with(what), "{what}");
        rows += 1;
    }
    assert!(rows >= 60, "{rows} rows");
}

/// Each format rounds the size in its own way: on a disk that is no multiple of 4 KiB the places fall apart.
#[test]
fn superblocks_at_the_end_follow_the_rounding_of_their_format() {
    let size = 20 * G + 40 * K + 1536;
    let sectors = size / 512;
    let places = [
        (size / (64 * K) * (64 * K) - 64 * K, md(0, ""), "superblock 0.90"),
        ((sectors - 16) & !7, md(1, "a"), "superblock 1.0"),
        (size / (256 * K) * (256 * K) - 256 * K, zfs_label("a", 1, false), "label 4 of 4"),
        (size / 4096 * 4096 - 4096, millpond(1, 0, 0, true), "superblock copy 4 of 4"),
    ];
    for (index, (at, bytes, place)) in places.into_iter().enumerate() {
        let at = if index == 1 { at * 512 } else { at };
        let contents = look_at(&disk(size, &[(at, bytes)]), size);
        assert!(
            contents.findings.iter().any(|finding| finding.place == place),
            "{place}: {:?}",
            contents.findings
        );
    }
}

#[test]
fn swap_is_found_for_every_page_size() {
    for page in [4 * K, 8 * K, 16 * K, 32 * K, 64 * K] {
        for (word, what) in
            [(b"SWAPSPACE2", "swap space"), (b"S1SUSPEND\0", "a suspended system in swap space")]
        {
            let contents = look_at(&disk(SIZE, &[(page - 10, word.to_vec())]), SIZE);
            assert_eq!(contents.summary().as_deref(), Some(what), "{page}");
        }
    }
}

#[test]
fn partitions_are_looked_into_with_512_and_4096_byte_sectors() {
    for sector in [512u64, 4096] {
        let first = M / sector;
        let writes = [
            (sector, gpt(2, 128)),
            (2 * sector, gpt_entry(LINUX, first, SIZE / sector - 100)),
            (M, zfs_label("tank", 0, false)),
        ];
        let contents = look_at(&disk(SIZE, &writes), SIZE);
        let expected = "ZFS member (tank) in partition 1; GPT with 1 partition (Linux)";
        assert_eq!(contents.summary().as_deref(), Some(expected), "{sector}");
    }
    let writes =
        [(0, mbr(0x05, 2048, 100_000)), (2048 * 512, mbr(0x83, 2048, 8192)), (4096 * 512, b"XFSB".to_vec())];
    let contents = look_at(&disk(SIZE, &writes), SIZE);
    assert!(
        contents.summary().unwrap().starts_with("XFS file system in partition 5"),
        "{:?}",
        contents.findings
    );
}

#[test]
fn a_blank_disk_is_blank_and_a_stray_byte_is_not() {
    assert_eq!(look_at(&disk(SIZE, &[]), SIZE).summary(), None);
    for at in [0, 200 * K, SIZE - 1, SIZE - 200 * K, SIZE / 64 * 30 / 4096 * 4096 + 17] {
        let contents = look_at(&disk(SIZE, &[(at, vec![7])]), SIZE);
        let expected = format!("data of unknown kind (not zero at byte {at})");
        assert_eq!(contents.summary(), Some(expected));
    }
    for size in [0, 1, 511, 512, 4096, 70_000, M] {
        assert_eq!(
            look_at(&disk(size, &[]), size),
            Contents { was_read: true, ..Contents::default() },
            "{size}"
        );
    }
}

#[test]
fn a_fingerprint_follows_what_stands_on_a_disk() {
    let word = |writes: &[(u64, Vec<u8>)]| {
        let file = disk(SIZE, writes);
        let read = |offset: u64, buffer: &mut [u8]| file.read_exact_at(buffer, offset);
        fingerprint(&read, SIZE, &look(&read, SIZE))
    };
    let ext4 = |name: &str| vec![(K, ext(4, 0x2c2, 2, name))];
    assert_eq!(word(&ext4("data")), word(&ext4("data")));
    let words = [word(&[]), word(&ext4("data")), word(&ext4("date")), word(&text(SIZE - 1, &[1]))];
    for (index, one) in words.iter().enumerate() {
        assert_eq!(words.iter().position(|other| other == one), Some(index), "each of its own");
    }
    // A byte beside a signature that lies far from both ends.
    let copy = |more: &[(u64, Vec<u8>)]| word(&[&[(64 * M + 64, b"_BHRfS_M".to_vec())], more].concat());
    assert_ne!(copy(&[]), copy(&text(64 * M + 900, &[1])));
}

#[test]
fn a_place_that_cannot_be_read_is_said_and_the_rest_is_still_seen() {
    let file = disk(SIZE, &[(0, b"XFSB".to_vec())]);
    let read = |offset: u64, buffer: &mut [u8]| {
        if offset > SIZE / 2 {
            return Err(io::Error::other("medium error"));
        }
        file.read_exact_at(buffer, offset)
    };
    let contents = look(&read, SIZE);
    assert_eq!(contents.summary().as_deref(), Some("XFS file system"));
    assert!(contents.unreadable.unwrap().contains("medium error"));
}

#[test]
fn what_only_lsblk_sees_is_kept() {
    let node = Node { fstype: Some("ceph_bluestore".into()), table: Some("gpt".into()), ..Node::default() };
    let mut contents = look_at(&disk(SIZE, &[]), SIZE);
    add_lsblk(&mut contents, &node);
    assert_eq!(contents.summary().as_deref(), Some("Ceph OSD (bluestore); GPT with 0 partitions"));
}

proptest! {
    /// Whatever stands on a disk: looking at it ends, reads a bounded number of bytes, all of them inside.
    #[test]
    fn looking_is_bounded(
        writes in prop::collection::vec((0u64..(2 * M), prop::collection::vec(any::<u8>(), 1..600)), 0..6),
        heads in prop::collection::vec(0usize..4, 0..4),
        size in (64 * K)..(4 * M),
    ) {
        let mut image = vec![0u8; usize::try_from(size).unwrap()];
        let mut put = |at: u64, bytes: &[u8]| {
            let at = usize::try_from(at).unwrap().min(image.len());
            let end = (at + bytes.len()).min(image.len());
            image[at..end].copy_from_slice(&bytes[..end - at]);
        };
        for head in heads {
            match head {
                0 => put(512, &block(512, &[(0, b"EFI PART"), (72, &[0xff; 20])])),
                1 => put(512, &gpt(2, 128)),
                2 => put(0, &mbr(0x05, 1, 9)),
                _ => put(4096, &mbr(0x05, 0, 9)),
            }
        }
        for (at, bytes) in &writes {
            put(*at, bytes);
        }
        let (spent, reads) = (Cell::new(0u64), Cell::new(0u64));
        let read = |offset: u64, buffer: &mut [u8]| {
            spent.set(spent.get() + buffer.len() as u64);
            reads.set(reads.get() + 1);
            let at = usize::try_from(offset).unwrap();
            buffer.copy_from_slice(&image[at..at + buffer.len()]);
            Ok(())
        };
        let contents = look(&read, size);
        prop_assert!(spent.get() < 64 << 20, "{} bytes", spent.get());
        prop_assert!(reads.get() < 8000, "{} reads", reads.get());
        let is_blank = image.iter().all(|byte| *byte == 0);
        prop_assert!(!is_blank || contents.summary().is_none());
    }
}
