//! Foreign disks: every signature at every place is refused by name and left as it is, and goes when the person lists the disk.
use harness::loops::{self, Loop};
use harness::{Api, Server, until};
use serde_json::{Value, json};
use std::os::unix::fs::FileExt;

const K: u64 = 1 << 10;
const M: u64 = 1 << 20;
/// Larger than the second copy of a Btrfs superblock, and no multiple of 64 KiB, so that places at the end fall apart.
const SIZE: u64 = 72 * M + 36 * K;

/// Where bytes stand: from the start, or before the end.
#[derive(Clone, Copy)]
enum At {
    Start(u64),
    End(u64),
}
use At::{End, Start};

/// What the refusal must say, and what stands on the disk.
type Case = (&'static str, Vec<(At, Vec<u8>)>);

fn one(says: &'static str, at: At, bytes: &[u8]) -> Case {
    (says, vec![(at, bytes.to_vec())])
}

/// Zeros with bytes put in at offsets.
fn block(length: usize, parts: &[(usize, &[u8])]) -> Vec<u8> {
    let mut block = vec![0; length];
    for (at, bytes) in parts {
        block[*at..*at + bytes.len()].copy_from_slice(bytes);
    }
    block
}

fn file_systems() -> Vec<Case> {
    let ext = |compatible: u32, incompatible: u32, log_block: u32, name: &[u8]| {
        let words = [log_block.to_le_bytes(), compatible.to_le_bytes(), incompatible.to_le_bytes()];
        block(256, &[(24, &words[0]), (56, &[0x53, 0xef]), (92, &words[1]), (96, &words[2]), (120, name)])
    };
    vec![
        one("XFS file system", Start(0), b"XFSB"),
        one("Btrfs file system", Start(64 * K + 64), b"_BHRfS_M"),
        one("Btrfs file system", Start(64 * M + 64), b"_BHRfS_M"),
        one("ext2 file system", Start(K), &ext(0, 2, 2, b"")),
        one("ext3 file system (old)", Start(K), &ext(4, 2, 2, b"old")),
        one("ext4 file system (data)", Start(K), &ext(4, 0x2c2, 2, b"data")),
        one("ext4 file system (data)", Start(8193 << 10), &ext(4, 0x2c2, 0, b"data")),
        one("ext4 file system (data)", Start(16384 << 11), &ext(4, 0x2c2, 1, b"data")),
        one("NTFS file system", Start(3), b"NTFS    "),
        one("NTFS file system", End(512 - 3), b"NTFS    "),
        one("exFAT file system", Start(3), b"EXFAT   "),
        one("FAT32 file system", Start(82), b"FAT32   "),
        one("FAT32 file system", Start(6 * 512 + 82), b"FAT32   "),
        one("F2FS file system", Start(5 * K), b"\x10\x20\xf5\xf2"),
        one("HFS+ file system", End(K), b"H+\0\x04"),
        one("APFS container", Start(32), b"NXSB"),
        one("JFS file system", Start(32 * K), b"JFS1"),
        one("ISO 9660 image", Start(32 * K + 1), b"CD001"),
        one("VMFS datastore", Start(2 * M), b"\x5e\xf1\xab\x2f"),
        one("swap space", Start(4 * K - 10), b"SWAPSPACE2"),
        one("swap space", Start(64 * K - 10), b"SWAPSPACE2"),
        one("data of unknown kind", Start(200 * K + 7), b"?"),
        one("data of unknown kind", End(1), b"?"),
    ]
}

fn members() -> Vec<Case> {
    let md = |version: u32| {
        let magic = 0xa92b_4efc_u32.to_le_bytes();
        let name: &[u8] = if version == 1 { b"oldnas:0" } else { b"" };
        block(256, &[(0, &magic), (4, &version.to_le_bytes()), (32, name)])
    };
    let old = SIZE / (64 * K) * (64 * K) - 64 * K;
    let at_end = (SIZE / 512 - 16) / 8 * 8 * 512;
    let uberblock = 0x00ba_b10c_u64.to_le_bytes();
    let zfs = |label: u64| one("ZFS member", Start(label + 128 * K + 5 * K), &uberblock);
    let label_end = SIZE / (256 * K) * (256 * K);
    vec![
        one("mdadm member", Start(old), &md(0)),
        one("mdadm member (oldnas:0)", Start(at_end), &md(1)),
        one("mdadm member (oldnas:0)", Start(0), &md(1)),
        one("mdadm member (oldnas:0)", Start(4 * K), &md(1)),
        zfs(0),
        zfs(256 * K),
        zfs(label_end - 512 * K),
        zfs(label_end - 256 * K),
        one("LVM physical volume", Start(512), &block(512, &[(0, b"LABELONE"), (24, b"LVM2 001")])),
        one("LVM physical volume", Start(3 * 512), &block(512, &[(0, b"LABELONE"), (24, b"LVM2 001")])),
        one("Ceph OSD (bluestore)", Start(0), b"bluestore block device"),
        one(
            "bcache member",
            Start(4 * K + 24),
            b"\xc6\x85\x73\xf6\x4e\x1a\x45\xca\x82\x65\xf5\x7f\x48\xba\x6d\x81",
        ),
        one("Stratis member", Start(9 * 512 + 4), b"!Stra0tis\x86\xff\x02^\x41rh"),
        one("DRBD member", End(4 * K - 60), b"\x83\x74\x02\x6d"),
        one("Intel firmware RAID member", End(1024), b"Intel Raid ISM Cfg Sig. "),
        one("DDF firmware RAID member", End(512), b"\xde\x11\xde\x11"),
        one("LUKS encryption", Start(0), b"LUKS\xba\xbe\0\x01"),
        one("LUKS encryption", Start(16 * K), b"SKUL\xba\xbe"),
        one("LUKS encryption", Start(4 * M), b"SKUL\xba\xbe"),
        one("BitLocker encryption", Start(3), b"-FVE-FS-"),
        one("a damaged Millpond superblock", Start(4 * K), &block(4096, &[(0, b"MPND\x01\0\x01\0")])),
        one("a damaged Millpond superblock", Start(SIZE / 4096 * 4096 - 4096), b"MPND\x01\0\x01\0"),
    ]
}

fn tables() -> Vec<Case> {
    let linux = "0fc63daf-8483-4772-8e79-3d69d8477de4";
    let gpt = |entries: u64| {
        block(
            512,
            &[
                (0, b"EFI PART\0\0\x01\0"),
                (72, &entries.to_le_bytes()),
                (80, &128u32.to_le_bytes()),
                (84, &128u32.to_le_bytes()),
            ],
        )
    };
    let entry = |first: u64, last: u64| {
        let hex: Vec<u8> = linux.bytes().filter(|byte| *byte != b'-').collect();
        let digit = |byte: u8| char::from(byte).to_digit(16).expect("hex") as u8;
        let mut guid: Vec<u8> = hex.chunks(2).map(|two| digit(two[0]) << 4 | digit(two[1])).collect();
        guid[..4].reverse();
        guid[4..6].reverse();
        guid[6..8].reverse();
        block(128, &[(0, &guid), (32, &first.to_le_bytes()), (40, &last.to_le_bytes())])
    };
    let mbr = |kind: u8| {
        let (first, sectors) = (2048u32.to_le_bytes(), 8192u32.to_le_bytes());
        block(512, &[(450, &[kind]), (454, &first), (458, &sectors), (510, &[0x55, 0xaa])])
    };
    let backup = SIZE / 512 - 33;
    vec![
        ("GPT with 1 partition (Linux)", vec![(Start(512), gpt(2)), (Start(1024), entry(2048, 4095))]),
        (
            "GPT with 1 partition (Linux)",
            vec![(End(512), gpt(backup)), (Start(backup * 512), entry(2048, 4095))],
        ),
        (
            "XFS file system in partition 1",
            vec![(Start(512), gpt(2)), (Start(1024), entry(2048, 40_000)), (Start(M), b"XFSB".to_vec())],
        ),
        one("MBR partition table with 1 partition", Start(0), &mbr(0x83)),
        one("protective MBR of a GPT", Start(0), &mbr(0xee)),
        one("Windows dynamic disk", End(512), b"PRIVHEAD"),
    ]
}

fn offset(at: At) -> u64 {
    match at {
        Start(offset) => offset,
        End(back) => SIZE / 512 * 512 - back,
    }
}

fn prepared(folder: &std::path::Path, number: usize, case: &Case) -> Loop {
    let device = Loop::new(&folder.join(format!("foreign{number}.img")), SIZE, 512);
    let file = std::fs::OpenOptions::new().write(true).open(&device.file).expect("the image");
    for (at, bytes) in &case.1 {
        file.write_all_at(bytes, offset(*at)).expect("write");
    }
    file.sync_all().expect("sync");
    device
}

/// The row of each device, once all are listed.
fn ids(api: &Api, devices: &[Loop]) -> Vec<String> {
    until("every device is listed", || {
        let rows = api.items("/api/v1/disks?limit=1000");
        let id = |device: &Loop| {
            let row = rows.iter().find(|row| row["path"] == device.path.as_str())?;
            row["id"].as_str().map(str::to_owned)
        };
        devices.iter().map(id).collect()
    })
}

/// A cluster of one disk, of host `box`, to which others are claimed.
fn cluster(folder: &std::path::Path, first: &Loop) -> (Server, Api) {
    let server = Server::with_loops(&folder.join("data"), &[]);
    let api = server.api("admin");
    let id = ids(&api, std::slice::from_ref(first)).remove(0);
    api.expect(201, "POST", "/api/v1/hosts", Some(&json!({"name": "box", "kind": "machine"})));
    let claims = json!([{"host": "box", "cache": [], "capacity": [id]}]);
    let body = json!({"name": "box", "type": "single-site", "fault_domains": [], "claims": claims});
    api.post("/api/v1/cluster", &body);
    api.until("/api/v1/cluster", "ready", |cluster| cluster["state"] == "ready");
    (server, api)
}

fn claim(api: &Api, disks: &[&str], erase: &[&str]) -> harness::api::Answer {
    let claims = json!({"claims": [{"host": "box", "cache": [], "capacity": disks, "erase": erase}]});
    api.call("POST", "/api/v1/cluster/claims", Some(&claims))
}

/// Why a claim was refused: at once, or by its task, which looks into the disks once more.
fn refusal(api: &Api, answer: &harness::api::Answer) -> String {
    if answer.status == 422 {
        return answer.text.clone();
    }
    assert_eq!(answer.status, 202, "{}", answer.text);
    let path = format!("/api/v1/tasks/{}", answer.body["task"].as_str().expect("a task"));
    let task = api.until(&path, "the task ends", |task| task["state"] != "running");
    assert_eq!(task["state"], "failed", "it must not claim the disk: {task}");
    task["error"].as_str().expect("a reason").to_owned()
}

#[test]
fn every_foreign_disk_is_refused_by_name_left_alone_and_taken_when_it_is_listed() {
    let _alone = loops::alone();
    if loops::problem().is_some() {
        return;
    }
    let folder = tempfile::Builder::new().prefix("mp-").tempdir().expect("a folder");
    let cases: Vec<Case> = [file_systems(), members(), tables()].concat();
    assert!(cases.len() >= 40, "{} cases", cases.len());
    let first = Loop::new(&folder.path().join("first.img"), SIZE, 512);
    let devices: Vec<Loop> =
        cases.iter().enumerate().map(|(number, case)| prepared(folder.path(), number, case)).collect();
    let (server, api) = cluster(folder.path(), &first);
    let ids = ids(&api, &devices);
    let before: Vec<String> = devices.iter().map(Loop::digest).collect();
    let mut wrong = Vec::new();
    for ((says, _), (id, device)) in cases.iter().zip(ids.iter().zip(&devices)) {
        let why = refusal(&api, &claim(&api, &[id], &[]));
        if !why.contains(says) || !why.contains(device.name()) {
            wrong.push(format!("{says}: {why}"));
        }
    }
    assert!(wrong.is_empty(), "{} of {}\n{}", wrong.len(), cases.len(), wrong.join("\n"));
    let after: Vec<String> = devices.iter().map(Loop::digest).collect();
    assert_eq!(before, after, "a refused disk was written");

    // Listed, all of them go, at every place.
    let named: Vec<&str> = ids.iter().map(String::as_str).collect();
    let answer = claim(&api, &named, &named);
    assert_eq!(answer.status, 202, "{}", answer.text);
    api.finished(answer.body["task"].as_str().expect("a task"));
    // Where a superblock of ours was damaged, a good one stands now.
    let foreign = cases.iter().zip(&devices).filter(|((says, _), _)| !says.contains("Millpond"));
    for ((says, writes), device) in foreign {
        let file = std::fs::File::open(&device.file).expect("the image");
        for (at, bytes) in writes {
            let mut now = vec![0; bytes.len()];
            file.read_exact_at(&mut now, offset(*at)).expect("read");
            assert_ne!(&now, bytes, "{says} is still there");
        }
    }
    let claimed = api.items("/api/v1/disks?limit=1000");
    let roles = claimed.iter().filter(|row| row["role"] == "combined").count();
    assert_eq!(roles, cases.len() + 1);
    server.stop();
}

#[test]
fn a_disk_that_changed_since_it_was_reviewed_stops_the_whole_claim() {
    let _alone = loops::alone();
    if loops::problem().is_some() {
        return;
    }
    let folder = tempfile::Builder::new().prefix("mp-").tempdir().expect("a folder");
    let first = Loop::new(&folder.path().join("first.img"), SIZE, 512);
    let blank = Loop::new(&folder.path().join("blank.img"), SIZE, 512);
    let filled = Loop::new(&folder.path().join("filled.img"), SIZE, 512);
    let old = prepared(folder.path(), 0, &one("", Start(0), b"XFSB"));
    let (server, api) = cluster(folder.path(), &first);
    let devices = [blank, filled, old];
    let named = ids(&api, &devices);
    let [blank, filled, old] = &devices;

    // Somebody writes to two of them after they were listed.
    for (device, at, bytes) in [(filled, 64 * K + 64, b"_BHRfS_M"), (old, 0, b"LABELONE")] {
        let file = std::fs::OpenOptions::new().write(true).open(&device.file).expect("the image");
        file.write_all_at(bytes, at).expect("write");
        file.sync_all().expect("sync");
    }
    let before: Vec<String> = devices.iter().map(Loop::digest).collect();
    // Either the listing was read again in between and the claim is refused at once, for the first disk that is wrong, or the look just
    // before the first write finds both.
    let answer = claim(&api, &[&named[0], &named[1], &named[2]], &[&named[2]]);
    let why = refusal(&api, &answer);
    assert!(why.contains(filled.name()) && why.contains("Btrfs"), "{why}");
    let has_seen_both = why.contains(old.name()) && why.contains("changed since it was reviewed");
    assert!(answer.status == 422 || has_seen_both, "{why}");
    let after: Vec<String> = devices.iter().map(Loop::digest).collect();
    assert_eq!(before, after, "nothing is written to any disk of a claim that is refused");

    // Looked at again, both can go, and the blank one needs no leave.
    until("the new contents are listed", || {
        let rows: Vec<Value> = api.items("/api/v1/disks?limit=1000");
        let row = rows.into_iter().find(|row| row["path"] == filled.path.as_str())?;
        row["contents"].as_str().is_some_and(|contents| contents.contains("Btrfs")).then_some(())
    });
    let answer = claim(&api, &[&named[0], &named[1], &named[2]], &[&named[1], &named[2]]);
    assert_eq!(answer.status, 202, "{}", answer.text);
    api.finished(answer.body["task"].as_str().expect("a task"));
    assert!(blank.digest() != before[0]);
    server.stop();
}
