//! Whole machines from recorded facts: real incidents, each with its right answer, and odd listings.
use super::*;
use crate::disk::WarningKind;
use crate::lsblk::LsblkError;
use crate::smart::Health;
use crate::source::Recorded;
use model::state::{Eligibility, Media};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

mod odd;

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("fixtures").join(name)
}

/// A recorded machine made of fixtures: (name in the folder, fixture).
fn machine(files: &[(&str, &str)]) -> tempfile::TempDir {
    let folder = tempfile::tempdir().unwrap();
    for (name, from) in files {
        std::fs::copy(fixture(from), folder.path().join(name)).unwrap();
    }
    folder
}

fn surveyed(folder: &Path) -> Inventory {
    survey(&Recorded::open(folder).unwrap(), Options::default()).unwrap()
}

fn recorded(files: &[(&str, &str)]) -> Inventory {
    surveyed(machine(files).path())
}

fn listed(rows: Value) -> Inventory {
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("lsblk.json"), json!({ "blockdevices": rows }).to_string()).unwrap();
    surveyed(folder.path())
}

fn claimable(inventory: &Inventory) -> Vec<&str> {
    inventory.disks.iter().filter(|disk| disk.can_be_claimed()).map(Disk::name).collect()
}

fn reason<'a>(inventory: &'a Inventory, name: &str) -> (Eligibility, &'a str) {
    let verdict = &inventory.find(name).unwrap_or_else(|| panic!("{name} is not listed")).verdict;
    (verdict.eligibility, verdict.reason.as_deref().unwrap_or(""))
}

fn texts(disk: &Disk) -> Vec<&str> {
    disk.warnings.iter().map(|warning| warning.text.as_str()).collect()
}

#[test]
fn e1_every_version_of_lsblk_gives_the_same_disk() {
    let files =
        ["E1_lsblk_2.31_all_strings.json", "E1_lsblk_2.34_typed.json", "E1_lsblk_2.37_mountpoints_list.json"];
    let mut ids = Vec::new();
    for file in files {
        let inventory = recorded(&[("lsblk.json", file)]);
        assert_eq!(inventory.disks.len(), 1, "{file}");
        let disk = &inventory.disks[0];
        assert_eq!(
            (disk.name(), disk.facts.size_bytes, disk.media()),
            ("sdc", Some(8_001_563_222_016), Some(Media::Hdd))
        );
        assert_eq!(disk.verdict.eligibility, Eligibility::Eligible, "{file}: {:?}", disk.verdict);
        ids.push(disk.id);
    }
    assert!(ids.iter().all(|id| *id == ids[0]), "an id is fixed at first sight");
    let broken = machine(&[("lsblk.json", "E1_lsblk_2.38_broken.txt")]);
    let error = survey(&Recorded::open(broken.path()).unwrap(), Options::default()).unwrap_err();
    let InventoryError::Listing(LsblkError::NotJson(_)) = &error else { panic!("{error:?}") };
    let listing = std::error::Error::source(&error).unwrap().to_string();
    assert!(listing.contains("lsblk output is not valid JSON"), "{listing}");
}

#[test]
fn e2_serial_numbers_that_are_not_unique() {
    let inventory =
        recorded(&[("lsblk.json", "E2_lsblk_usb_dock.json"), ("by-path.json", "E2_by_path.json")]);
    assert_eq!(inventory.disks.len(), 6);
    for name in ["sdb", "sdc", "sdd", "sde"] {
        let disk = inventory.find(name).unwrap();
        assert!(matches!(disk.identity, Identity::Path(_)), "{name}: {:?}", disk.identity);
        assert!(texts(disk).iter().any(|text| text.contains("serial not unique")), "{name}");
    }
    assert_eq!(claimable(&inventory), ["sdb", "sdc", "sdf", "sdg"]);
    for name in ["sdd", "sde"] {
        assert!(reason(&inventory, name).1.contains("too small to claim"));
    }
    let halves = ["sdf", "sdg"].map(|name| inventory.find(name).unwrap());
    assert!(halves.iter().all(|disk| matches!(disk.identity, Identity::Wwn(_))));
    assert!(halves.iter().all(|disk| texts(disk).iter().any(|text| text.contains("same physical drive"))));
    assert_eq!(halves[0].body, halves[1].body);
    let mut ids: Vec<_> = inventory.disks.iter().map(|disk| disk.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), 6);
    // The dock is one enclosure, and the halves are one failure domain.
    let enclosure = |name: &str| inventory.find(name).unwrap().facts.enclosure.clone();
    assert!(
        enclosure("sdb").is_some()
            && enclosure("sdb") == enclosure("sdc")
            && enclosure("sdd") != enclosure("sdb")
    );
    let members: Vec<grouping::Member> =
        inventory.disks.iter().filter(|disk| disk.can_be_claimed()).map(grouping::Member::from).collect();
    assert_eq!(grouping::propose(&members, &[])[0].domains.len(), 3);
}

#[test]
fn e3_two_paths_are_one_disk() {
    let inventory = recorded(&[("lsblk.json", "E3_lsblk_multipath.json")]);
    assert_eq!(claimable(&inventory), ["mpatha"]);
    let map = inventory.find("mpatha").unwrap();
    assert_eq!((map.facts.size_bytes, map.paths.len()), (Some(5_497_558_138_880), 2));
    assert_eq!(map.path(), "/dev/mapper/mpatha");
    for name in ["sdb", "sdc"] {
        assert!(reason(&inventory, name).1.contains("path of multipath device mpatha"));
    }
    for name in ["sdd", "sde"] {
        assert!(reason(&inventory, name).1.contains("two paths to one disk without multipath"));
    }
    assert_eq!(inventory.raw_bytes(), 2 * 5_497_558_138_880);
    let mut ids: Vec<_> = inventory.disks.iter().map(|disk| disk.id).collect();
    ids.sort_unstable();
    ids.dedup();
    assert_eq!(ids.len(), inventory.disks.len());
}

#[test]
fn e5_sizes_in_sysfs_count_512_bytes() {
    let inventory = surveyed(&fixture("E5"));
    let expected: Value =
        serde_json::from_slice(&std::fs::read(fixture("E5_expected.json")).unwrap()).unwrap();
    let expected = expected.as_object().unwrap();
    assert_eq!(inventory.disks.len(), expected.len());
    for (name, wanted) in expected {
        let disk = inventory.find(name).unwrap();
        assert_eq!(disk.facts.size_bytes, wanted["bytes"].as_u64(), "{name}");
        if let Some(block) = wanted.get("logical_block") {
            assert_eq!(disk.facts.logical_block_bytes.map(u64::from), block.as_u64(), "{name}");
        }
    }
    assert_eq!(inventory.find("sdc").unwrap().facts.logical_block_bytes, None, "unknown is shown as unknown");
    assert_eq!(claimable(&inventory), ["nvme0n1", "sda", "sdb", "sdc"]);
    assert!(reason(&inventory, "sdz").1.contains("implausible"));
    let sound = 8_001_563_222_016 + 2_048_408_248_320 + 2 * 1_000_204_886_016;
    assert_eq!(inventory.raw_bytes(), sound);
}

#[test]
fn e6_things_that_are_no_disks() {
    let inventory = recorded(&[("lsblk.json", "E6_lsblk_zero_size.json")]);
    assert_eq!(claimable(&inventory), ["sda"]);
    for name in ["sdd", "md126"] {
        assert!(
            reason(&inventory, name).1.contains("no medium / 0 bytes"),
            "{name}: {}",
            reason(&inventory, name).1
        );
    }
    for name in ["sr0", "loop3", "zram0", "mmcblk0boot0"] {
        assert!(!reason(&inventory, name).1.is_empty(), "{name}");
    }
    assert_eq!(inventory.raw_bytes(), 1_000_204_886_016);
}

#[test]
fn e9_what_is_on_a_disk_decides() {
    let inventory = recorded(&[("lsblk.json", "E9_lsblk_signatures.json")]);
    let eligible: Vec<&str> = inventory
        .disks
        .iter()
        .filter(|disk| disk.verdict.eligibility == Eligibility::Eligible)
        .map(Disk::name)
        .collect();
    assert_eq!(eligible, ["sdh"]);
    use Eligibility::{EraseNeeded, InUse, Ineligible};
    let expected = [
        ("sda", InUse, "system disk (/, /boot)"),
        ("sdb", EraseNeeded, "ZFS member (oldtank)"),
        ("sdc", InUse, "array md127 active"),
        ("sdd", InUse, "vg0-data mounted on /srv"),
        ("sde", EraseNeeded, "Ceph"),
        ("sdf", EraseNeeded, "LUKS"),
        ("sdg", EraseNeeded, "GPT with 1 partition"),
        ("sdi", Ineligible, "read-only"),
        ("sdj", InUse, "swap in use"),
    ];
    for (name, eligibility, words) in expected {
        let (said, why) = reason(&inventory, name);
        assert_eq!(said, eligibility, "{name}: {why}");
        assert!(why.contains(words), "{name}: {why}");
    }
    assert!(inventory.find("sdc").unwrap().contents.summary().unwrap().contains("mdadm member"));
}

#[test]
fn e10_shingled_disks_are_known_by_zone_and_by_model() {
    let inventory = recorded(&[
        ("lsblk.json", "E10_lsblk.json"),
        ("smartctl-sda.json", "E10_smartctl_WD40EFAX.json"),
        ("smartctl-sdb.json", "E10_smartctl_WD40EFRX.json"),
        ("smartctl-WD80EFAX.json", "E10_smartctl_WD80EFAX.json"),
    ]);
    let shingled = |name: &str| {
        let warnings = &inventory.find(name).unwrap().warnings;
        warnings
            .iter()
            .find(|warning| warning.kind == WarningKind::Shingled)
            .map(|warning| warning.text.clone())
    };
    let text = shingled("sda").unwrap();
    assert!(text.contains("drive-managed SMR") && text.contains("slow rebuild"), "{text}");
    assert!(text.contains("4 TB takes about 12 days instead of 12 hours"), "{text}");
    assert_eq!((shingled("sdb"), shingled("sdc")), (None, None));
    assert_eq!(claimable(&inventory), ["sda", "sdb", "sdc"]);
    assert!(reason(&inventory, "sdd").1.contains("host-managed"));
    for (model, is_shingled) in [
        ("WDC WD20EFAX-68FB5N0", true),
        ("WDC WD60EFAX-68SHWN0", true),
        ("WDC WD30EFAX-68JH4N1", true),
        ("TOSHIBA HDWD240", true),
        ("ST8000DM004-2CX188", true),
        ("ST8000VN004-2M2101", false),
        ("WDC WD100EFAX-68LHPN0", false),
        ("WDC WD120EFAX-68UNTN0", false),
    ] {
        assert_eq!(shingled::known_model(model).is_some(), is_shingled, "{model}");
    }
}

#[test]
fn e10_a_rotating_disk_that_trims_is_suspected() {
    let row = json!([{"name": "sda", "type": "disk", "size": 4_000_787_030_016_u64, "rota": true, "model": "NEW MODEL",
        "serial": "X123", "tran": "sata"}]);
    let folder = tempfile::tempdir().unwrap();
    std::fs::write(folder.path().join("lsblk.json"), json!({ "blockdevices": row }).to_string()).unwrap();
    std::fs::write(folder.path().join("smartctl-sda.json"), br#"{"trim": {"supported": true}}"#).unwrap();
    let inventory = surveyed(folder.path());
    assert!(texts(&inventory.disks[0])[0].starts_with("probably drive-managed SMR"));
    // A virtual disk that does the same is not: nothing is known of what lies below it.
    let rows = json!([{"name": "vda", "type": "disk", "size": 274_877_906_944_u64, "rota": true},
        {"name": "sda", "type": "disk", "size": 274_877_906_944_u64, "rota": true, "model": "QEMU HARDDISK", "tran": "sata"}]);
    std::fs::write(folder.path().join("lsblk.json"), json!({ "blockdevices": rows }).to_string()).unwrap();
    std::fs::create_dir_all(folder.path().join("sys/block/vda/queue")).unwrap();
    std::fs::write(folder.path().join("sys/block/vda/queue/discard_max_bytes"), "1073741824").unwrap();
    let inventory = surveyed(folder.path());
    assert!(inventory.disks.iter().all(|disk| disk.warnings.is_empty()), "{:?}", inventory.disks);
}

#[test]
fn e11_health_is_said_only_when_the_disk_says_it() {
    let read = |name: &str| smart::parse(&std::fs::read(fixture(name)).unwrap());
    let bridge = read("E11_smartctl_unknown_usb_bridge.json");
    assert_eq!(bridge.health, Health::Unknown);
    assert!(bridge.notes[0].contains("Unknown USB bridge"));
    let closed = read("E11_smartctl_no_open.json");
    assert_eq!(closed.health, Health::Unknown);
    assert!(closed.notes[0].contains("could not open"));
    let old = read("E11_smartctl_exit64_ok.json");
    assert_eq!((old.health, old.temperature_celsius), (Health::Passed, Some(34)));
    assert_eq!(old.notes, ["7 entries in the error log"]);
    let failing = read("E11_smartctl_exit8_failing.json");
    assert_eq!((failing.health, failing.temperature_celsius), (Health::Failing, Some(41)));
    // Every exit status: a missing answer is never a verdict, unless bit 3 says so.
    for exit in 0..256u64 {
        let answer = json!({"smartctl": {"exit_status": exit}}).to_string();
        let health = smart::parse(answer.as_bytes()).health;
        assert_eq!(health, if exit & 8 != 0 { Health::Failing } else { Health::Unknown }, "{exit}");
        let passed =
            json!({"smartctl": {"exit_status": exit & !8}, "smart_status": {"passed": true}}).to_string();
        assert_eq!(smart::parse(passed.as_bytes()).health, Health::Passed, "{exit}");
    }
    for odd in ["", "[]", "{", "null", r#"{"smart_status": {"passed": "yes"}}"#, r#"{"smart_status": true}"#]
    {
        assert_eq!(smart::parse(odd.as_bytes()).health, Health::Unknown, "{odd}");
    }
}

/// Lists of a second source: what `lsblk` does not show, the kernel does.
#[test]
fn mounts_swap_pools_and_holders_of_the_kernel_count_too() {
    let row = |name: &str, number: &str| {
        json!({"name": name, "type": "disk", "size": 1_000_204_886_016_u64, "rota": true,
        "maj:min": number, "serial": format!("SERIAL-{name}"), "fstype": null, "mountpoints": [null]})
    };
    let mut pool = row("sdd", "8:48");
    pool["fstype"] = json!("zfs_member");
    pool["label"] = json!("tank");
    let rows = json!([row("sda", "8:0"), row("sdb", "8:16"), row("sdc", "8:32"), pool, row("sde", "8:64")]);
    let folder = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = folder.path().join(name);
        std::fs::create_dir_all(path.parent().unwrap()).unwrap();
        std::fs::write(path, text).unwrap();
    };
    write("lsblk.json", &json!({ "blockdevices": rows }).to_string());
    write("sys/block/sda/sda1/dev", "8:1\n");
    write(
        "proc/self/mountinfo",
        "22 1 8:1 / / rw,relatime shared:1 - ext4 /dev/sda1 rw\n23 1 0:40 / /data\\040x rw - btrfs /dev/sde rw\n",
    );
    write("proc/swaps", "Filename\tType\tSize\tUsed\tPriority\n/dev/sdb partition 100 0 -2\n");
    write("sys/block/sdc/holders/dm-7/dev", "254:7\n");
    write("proc/spl/kstat/zfs/tank/state", "ONLINE\n");
    let inventory = surveyed(folder.path());
    for (name, words) in [
        ("sda", "system disk (/)"),
        ("sdb", "swap in use"),
        ("sdc", "held by dm-7"),
        ("sdd", "ZFS pool tank imported"),
        ("sde", "sde mounted on /data x"),
    ] {
        let (eligibility, why) = reason(&inventory, name);
        assert_eq!(eligibility, Eligibility::InUse, "{name}: {why}");
        assert!(why.contains(words), "{name}: {why}");
    }
}

#[test]
fn a_recorded_folder_cannot_show_what_lies_outside_of_it() {
    let secret = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(secret.path(), "SECRET").unwrap();
    let folder = tempfile::tempdir().unwrap();
    let device = folder.path().join("sys/block/sda/device");
    std::fs::create_dir_all(&device).unwrap();
    std::os::unix::fs::symlink(secret.path(), device.join("model")).unwrap();
    std::os::unix::fs::symlink(secret.path(), folder.path().join("by-path.json")).unwrap();
    let inventory = surveyed(folder.path());
    assert_eq!(inventory.disks[0].facts.model, None);
    assert!(!inventory.is_this_machine);
}

/// Wherever this runs: the disk under `/` is never offered, and nothing that could not be read is called blank.
#[test]
fn this_machine_keeps_its_own_disks() {
    let Ok(inventory) = survey(&source::Machine::default(), Options::default()) else { return };
    assert!(inventory.is_this_machine);
    for disk in &inventory.disks {
        let mounted = disk.facts.node.walk().iter().any(|node| !node.mounts.is_empty());
        assert!(!(mounted && disk.can_be_claimed()), "{}", disk.name());
        assert!(
            disk.verdict.eligibility != Eligibility::Eligible || disk.contents.was_read,
            "{}",
            disk.name()
        );
    }
}

#[test]
fn controllers_and_their_queues_are_read_from_sysfs() {
    let folder = tempfile::tempdir().unwrap();
    for (name, used) in [("sda", true), ("sdb", false)] {
        let real = folder.path().join(format!("sys/devices/pci0000:00/0000:00:1f.2/ata1/host0/block/{name}"));
        std::fs::create_dir_all(real.join("queue")).unwrap();
        std::fs::create_dir_all(real.join("device")).unwrap();
        std::fs::write(real.join("size"), "1953525168").unwrap();
        std::fs::write(real.join("queue/rotational"), "0").unwrap();
        std::fs::write(real.join("queue/write_cache"), "write back").unwrap();
        std::fs::write(real.join("device/queue_depth"), "1").unwrap();
        if used {
            std::fs::create_dir_all(real.join("holders/md0")).unwrap();
        }
        let block = folder.path().join("sys/block");
        std::fs::create_dir_all(&block).unwrap();
        let target = format!("../devices/pci0000:00/0000:00:1f.2/ata1/host0/block/{name}");
        std::os::unix::fs::symlink(target, block.join(name)).unwrap();
    }
    std::fs::create_dir_all(folder.path().join("sys/class/scsi_host/host0")).unwrap();
    std::fs::write(folder.path().join("sys/class/scsi_host/host0/can_queue"), "31\n").unwrap();
    let inventory = surveyed(folder.path());
    let disk = inventory.find("sdb").unwrap();
    assert_eq!(disk.facts.controller.as_deref(), Some("0000:00:1f.2"));
    let texts = texts(disk);
    assert_eq!(disk.warnings.len(), 4, "{texts:?}");
    assert!(
        texts.iter().any(|text| text.contains("takes 31 commands at a time, 256 are advised: 12 %")),
        "{texts:?}"
    );
    assert!(texts.iter().any(|text| text.starts_with("it takes 1 of the 31 commands")), "{texts:?}");
    assert!(
        texts.iter().any(|text| text.contains("write cache of this flash disk of 1 TB is volatile")),
        "{texts:?}"
    );
    assert!(
        texts.iter().any(|text| text.contains("with sda, which something else uses: the work of 2 disks")),
        "{texts:?}"
    );
}

#[test]
fn roles_are_warned_of_with_numbers() {
    let row = |name: &str, size: u64, rotates: bool| {
        json!({"name": name, "type": "disk", "size": size, "rota": rotates,
        "serial": format!("SERIAL-{name}")})
    };
    let tb = 1_000_000_000_000_u64;
    let inventory = listed(json!([
        row("sda", 4 * tb, true),
        row("sdb", 4 * tb, true),
        row("sdc", tb / 10, false),
        row("sdd", 2 * tb, false),
        row("sde", 4 * tb, true)
    ]));
    let get = |name: &str| inventory.find(name).unwrap();
    let claim = |cache: &str, capacity: &[&str]| warning::GroupClaim {
        cache: vec![get(cache)],
        capacity: capacity.iter().map(|name| get(name)).collect(),
    };
    let texts = |claims: &[warning::GroupClaim<'_>]| {
        warning::of_claims(claims).into_iter().map(|one| (one.kind, one.text)).collect::<Vec<_>>()
    };
    let small = texts(&[claim("sdc", &["sda", "sdb"])]);
    assert_eq!(small[0].0, WarningKind::SmallCache);
    assert!(
        small[0].1.contains("100 GB, 1.2 % of the 8 TB behind it; 10 % (800 GB) are advised"),
        "{}",
        small[0].1
    );
    let large = texts(&[claim("sdd", &["sda"])]);
    assert_eq!(large[0].0, WarningKind::LargeCache);
    assert!(large[0].1.contains("only 600 GB of 2 TB"), "{}", large[0].1);
    let rotating = texts(&[claim("sde", &["sda"])]);
    assert!(
        rotating
            .iter()
            .any(|one| one.0 == WarningKind::RotationalCache && one.1.contains("90 flushes a second"))
    );
    let shared = texts(&[claim("sdd", &["sda"]), claim("sdd", &["sdb"])]);
    assert!(
        shared.iter().any(|one| one.0 == WarningKind::SharedFate && one.1.contains("2 disk groups")),
        "{shared:?}"
    );
    // At the line exactly there is nothing to say.
    let exact = listed(json!([row("a", 400_000_000_000, false), row("b", 4 * tb, true)]));
    let claim = warning::GroupClaim { cache: vec![&exact.disks[0]], capacity: vec![&exact.disks[1]] };
    assert_eq!(warning::of_claims(&[claim]), []);
}
