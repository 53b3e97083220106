//! Pages over the recorded machines of real incidents: each disk once, with its right size, verdict and reason, nothing called blank
//! that nobody read, and whatever a device says about itself shown as text.
use super::{Bench, unconfigured};
use crate::db::users::Role;
use axum::http::Method;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/inventory/fixtures").join(name)
}

/// The three pages that list disks, and the page of each.
struct Pages {
    hosts: String,
    group: String,
    disks: String,
    /// By name.
    each: BTreeMap<String, String>,
}

/// A server over a folder.
async fn pages_of(folder: &Path) -> Pages {
    let path = folder.canonicalize().unwrap();
    let bench = Bench::with(unconfigured(), |config| config.inventory_dir = Some(path)).await;
    let cookie = bench.cookie(Role::Admin).await;
    let get = async |path: &str| {
        let page = bench.call(Method::GET, path, &[("cookie", &cookie)], "").await;
        assert_eq!(page.status, 200, "{path}: {}", page.text);
        for never in ["NaN", "<script>", " style=", "Blank", "Empty", "inf "] {
            assert!(!page.text.contains(never), "{path} shows {never:?}");
        }
        page.text
    };
    let hosts = get("/hosts").await;
    let mut each = BTreeMap::new();
    for link in hosts.split("<b><a href=\"").skip(1) {
        let (href, rest) = link.split_once("\">").unwrap();
        let (name, _) = rest.split_once("</a>").unwrap();
        each.insert(name.to_owned(), text(&get(href).await));
    }
    Pages {
        hosts,
        group: get("/setup-cluster/native/group").await,
        disks: get("/setup-cluster/native/disks").await,
        each,
    }
}

async fn pages(files: &[(&str, &str)]) -> Pages {
    let folder = tempfile::tempdir().unwrap();
    for (name, from) in files {
        std::fs::copy(fixture(from), folder.path().join(name)).unwrap();
    }
    pages_of(folder.path()).await
}

/// Text of a piece of a page, without its tags.
fn text(html: &str) -> String {
    let mut text = String::new();
    let mut inside = false;
    for letter in html.chars() {
        match letter {
            '<' => inside = true,
            '>' => {
                inside = false;
                text.push(' ');
            }
            _ if !inside => text.push(letter),
            _ => {}
        }
    }
    text.split_whitespace().collect::<Vec<_>>().join(" ").replace("&#39;", "'").replace("&#34;", "\"")
}

/// The row of a disk on the hosts page, with its notes; it must be there exactly once.
fn row(page: &str, name: &str) -> String {
    let mark = format!("\">{name}</a></b>");
    assert_eq!(page.matches(&mark).count(), 1, "{name} is listed once");
    let from = page.find(&mark).unwrap() + mark.len();
    // A row, then perhaps a row of notes.
    let rest = &page[from..];
    let end = rest.find("<b><a href=\"/disks/").unwrap_or(rest.len());
    text(&rest[..end])
}

/// Whether the grouping step offers a disk (a select for it) or refuses it with a reason.
fn offers(page: &str, name: &str) -> bool {
    let offered = page.contains(&format!("aria-label=\"Failure domain of {name}\""));
    let refused = page.matches(&format!("<td><span class=\"device\"><b>{name}</b>")).count();
    assert_eq!(refused, 1, "{name} has one row on the grouping step");
    offered
}

fn check(pages: &Pages, rows: &[(&str, &str, &str, &str)], offered: &[&str]) {
    for (name, size, chip, reason) in rows {
        let said = row(&pages.hosts, name);
        for wanted in [size, chip, reason] {
            assert!(said.to_lowercase().contains(&wanted.to_lowercase()), "{name}: no {wanted:?} in {said}");
        }
        assert_eq!(offers(&pages.group, name), offered.contains(name), "{name}");
        assert!(pages.disks.contains(&format!("<b>{name}</b>")), "{name} is on the claim step");
    }
    let count = pages.hosts.matches("<b><a href=\"/disks/").count();
    assert_eq!(count, rows.len(), "no other disk is listed");
}

#[tokio::test]
async fn e1_every_version_of_the_listing_shows_the_same_disk() {
    let broken = pages(&[("lsblk.json", "E1_lsblk_2.38_broken.txt")]).await;
    for page in [&broken.hosts, &broken.group, &broken.disks] {
        assert!(
            page.contains("lsblk output is not valid JSON"),
            "an empty list is no answer: {}",
            text(page)
        );
    }
    for file in
        ["E1_lsblk_2.31_all_strings.json", "E1_lsblk_2.34_typed.json", "E1_lsblk_2.37_mountpoints_list.json"]
    {
        let pages = pages(&[("lsblk.json", file)]).await;
        check(&pages, &[("sdc", "8 TB", "not looked into", "recorded machine")], &["sdc"]);
        assert!(row(&pages.hosts, "sdc").contains("HDD"), "{file}");
    }
}

#[tokio::test]
async fn e2_disks_with_one_serial_number_are_told_apart() {
    let pages = pages(&[("lsblk.json", "E2_lsblk_usb_dock.json"), ("by-path.json", "E2_by_path.json")]).await;
    let rows = [
        ("sdb", "500 GB", "not looked into", "serial not unique"),
        ("sdc", "2 TB", "not looked into", "serial not unique"),
        ("sdd", "", "Cannot be claimed", "too small to claim"),
        ("sde", "", "Cannot be claimed", "too small to claim"),
        ("sdf", "TB", "not looked into", "same physical drive"),
        ("sdg", "TB", "not looked into", "same physical drive"),
    ];
    check(&pages, &rows, &["sdb", "sdc", "sdf", "sdg"]);
    assert!(pages.group.contains("the device with sdf, sdg"), "they count as one where it matters");
    assert!(
        row(&pages.hosts, "sdb").contains("2 disks away at once (this one, sdc)"),
        "with figures of this dock"
    );
}

#[tokio::test]
async fn e3_two_paths_are_one_disk() {
    let pages = pages(&[("lsblk.json", "E3_lsblk_multipath.json")]).await;
    let rows = [
        ("mpatha", "5.5 TB", "not looked into", ""),
        ("sdb", "", "Cannot be claimed", "path of multipath device mpatha"),
        ("sdc", "", "Cannot be claimed", "path of multipath device mpatha"),
        ("sdd", "", "Cannot be claimed", "two paths to one disk without multipath"),
        ("sde", "", "Cannot be claimed", "two paths to one disk without multipath"),
    ];
    check(&pages, &rows, &["mpatha"]);
    // Four paths are two disks, of which one can be claimed.
    assert_eq!(pages.group.matches("aria-label=\"Failure domain of ").count(), 1);
    assert!(pages.each["mpatha"].contains("5,497,558,138,880") || pages.each["mpatha"].contains("5.5 TB"));
}

#[tokio::test]
async fn e5_sizes_are_what_the_disk_has() {
    let pages = pages_of(&fixture("E5")).await;
    let rows = [
        ("sda", "2.05 TB", "not looked into", ""),
        ("nvme0n1", "1 TB", "not looked into", ""),
        ("sdb", "", "not looked into", ""),
        ("sdc", "1 TB", "not looked into", ""),
        ("sdz", "", "Cannot be claimed", "implausible"),
    ];
    let names: Vec<&str> = rows.iter().map(|row| row.0).collect();
    for name in &names {
        let said = row(&pages.hosts, name);
        assert!(!said.contains("64 TB") && !said.contains("16.4 TB"), "{name}: {said}");
    }
    assert!(row(&pages.hosts, "sdz").contains("mplausible"));
    assert!(!offers(&pages.group, "sdz"));
    let all = names.iter().map(|name| row(&pages.hosts, name)).collect::<Vec<_>>().join("\n");
    for size in ["8 TB", "2.05 TB", "1 TB"] {
        assert!(all.contains(size), "no {size} in {all}");
    }
}

#[tokio::test]
async fn e6_things_that_are_no_disks_say_why() {
    let pages = pages(&[("lsblk.json", "E6_lsblk_zero_size.json")]).await;
    assert!(offers(&pages.group, "sda"));
    for name in ["sdd", "md126"] {
        assert!(row(&pages.hosts, name).contains("o medium / 0 bytes"), "{name}");
        assert!(!offers(&pages.group, name), "{name}");
    }
    for (name, why) in
        [("sr0", "optical"), ("mmcblk0boot0", "boot area"), ("loop3", "loop"), ("zram0", "memory")]
    {
        let said = row(&pages.hosts, name).to_lowercase();
        assert!(said.contains(why) && !offers(&pages.group, name), "{name}: {said}");
    }
    assert!(!pages.hosts.contains("0 %") && !pages.group.contains("0 %"), "nothing has no share of nothing");
}

#[tokio::test]
async fn e9_what_is_on_a_disk_decides() {
    let pages = pages(&[("lsblk.json", "E9_lsblk_signatures.json")]).await;
    let rows = [
        ("sda", "", "In use elsewhere", "system disk (/, /boot)"),
        ("sdb", "", "Holds something", "ZFS member (oldtank)"),
        ("sdc", "", "In use elsewhere", "array md127 active"),
        ("sdd", "", "In use elsewhere", "vg0-data mounted on /srv"),
        ("sde", "", "Holds something", "Ceph"),
        ("sdf", "", "Holds something", "LUKS"),
        ("sdg", "", "Holds something", "GPT with 1 partition"),
        ("sdh", "", "not looked into", ""),
        ("sdi", "", "Cannot be claimed", "read-only"),
        ("sdj", "", "In use elsewhere", "swap in use"),
    ];
    check(&pages, &rows, &["sdb", "sde", "sdf", "sdg", "sdh"]);
    // What holds something is in no proposal until it is ticked by name: to take all takes one.
    let cards = &pages.group[..pages.group.find("Your failure domains").unwrap()];
    assert!(cards.contains("sdh") && !cards.contains("sdb") && !cards.contains("sdf"), "{cards}");
}

#[tokio::test]
async fn e10_shingled_disks_are_named_with_their_cost() {
    let pages = pages(&[
        ("lsblk.json", "E10_lsblk.json"),
        ("smartctl-sda.json", "E10_smartctl_WD40EFAX.json"),
        ("smartctl-sdb.json", "E10_smartctl_WD40EFRX.json"),
        ("smartctl-sdc.json", "E10_smartctl_WD80EFAX.json"),
    ])
    .await;
    let said = row(&pages.hosts, "sda");
    for words in ["rive-managed SMR", "slow rebuild", "4 TB takes about 12 days instead of 12 hours"] {
        assert!(said.contains(words), "no {words:?} in {said}");
        assert!(text(&pages.group).contains(words), "it is said where the disk is taken");
    }
    for name in ["sdb", "sdc"] {
        assert!(!row(&pages.hosts, name).contains("SMR"), "{name} is none, whatever its letters");
    }
    let refused = row(&pages.hosts, "sdd").to_lowercase();
    assert!(refused.contains("host-managed"), "{refused}");
    let offered = ["sda", "sdb", "sdc", "sdd"].map(|name| offers(&pages.group, name));
    assert_eq!(offered, [true, true, true, false], "a warning does not forbid");
}

#[tokio::test]
async fn e11_health_is_shown_only_when_the_disk_says_it() {
    let folder = tempfile::tempdir().unwrap();
    let names = ["sda", "sdb", "sdc", "sdd", "sde"];
    let disks = names.map(|name| {
        serde_json::json!({"name": name, "path": format!("/dev/{name}"), "type": "disk", "size": 4_000_787_030_016_u64,
            "rota": true, "serial": format!("SERIAL-{name}"), "model": "M1"})
    });
    std::fs::write(
        folder.path().join("lsblk.json"),
        serde_json::json!({ "blockdevices": disks }).to_string(),
    )
    .unwrap();
    for (name, from) in [
        ("sda", "E11_smartctl_exit64_ok.json"),
        ("sdb", "E11_smartctl_exit8_failing.json"),
        ("sdc", "E11_smartctl_unknown_usb_bridge.json"),
        ("sdd", "E11_smartctl_no_open.json"),
    ] {
        std::fs::copy(fixture(from), folder.path().join(format!("smartctl-{name}.json"))).unwrap();
    }
    let pages = pages_of(folder.path()).await;
    for (name, says) in [
        ("sda", &["Says of itself Passed", "34 °C", "7 entries in the error log"][..]),
        ("sdb", &["Says of itself Failing", "41 °C"]),
        ("sdc", &["Says of itself Unknown", "Unknown USB bridge"]),
        ("sdd", &["Says of itself Unknown", "could not open"]),
        ("sde", &["Says of itself Unknown"]),
    ] {
        for words in says {
            assert!(pages.each[name].contains(words), "{name}: no {words:?} in {}", pages.each[name]);
        }
        let is_failing = name == "sdb";
        assert_eq!(row(&pages.hosts, name).contains("failing"), is_failing, "{name}");
        assert_eq!(
            offers(&pages.group, name),
            !is_failing,
            "a disk that says that it is failing is not offered: {name}"
        );
    }
}

#[tokio::test]
async fn what_a_device_says_about_itself_is_text() {
    let folder = tempfile::tempdir().unwrap();
    let listing = serde_json::json!({"blockdevices": [
        {"name": "sda", "path": "/dev/sda", "type": "disk", "size": 4_000_787_030_016_u64, "rota": true,
         "serial": "\"><script>alert(1)</script>", "model": "<img src=x onerror=alert(1)>", "vendor": "{{7*7}}"},
    ]});
    std::fs::write(folder.path().join("lsblk.json"), listing.to_string()).unwrap();
    let pages = pages_of(folder.path()).await;
    for page in [&pages.hosts, &pages.group, &pages.disks] {
        assert!(page.contains("onerror") && !page.contains("<img src=x"), "{page}");
    }
}
