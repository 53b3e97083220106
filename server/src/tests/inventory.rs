//! A recorded machine in API and pages: the verdict of every disk, refusals by name, and the last good look.
use super::{Bench, unconfigured};
use crate::db::users::Role;
use axum::http::Method;
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

fn fixture(name: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../engine/inventory/fixtures").join(name)
}

/// A server over a folder with this listing.
async fn over(listing: &str) -> (Bench, tempfile::TempDir) {
    over_files(&[(listing, "lsblk.json")]).await
}

async fn over_files(files: &[(&str, &str)]) -> (Bench, tempfile::TempDir) {
    let folder = tempfile::tempdir().unwrap();
    for (from, name) in files {
        std::fs::copy(fixture(from), folder.path().join(name)).unwrap();
    }
    let path = folder.path().canonicalize().unwrap();
    let bench = Bench::with(unconfigured(), |config| config.inventory_dir = Some(path)).await;
    (bench, folder)
}

async fn disks(bench: &Bench, token: &str) -> Vec<Value> {
    let answer = bench.api(token, Method::GET, "/api/v1/disks", "").await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    answer.json()["items"].as_array().unwrap().clone()
}

fn by_name<'a>(disks: &'a [Value], name: &str) -> &'a Value {
    disks.iter().find(|disk| disk["name"] == name).unwrap_or_else(|| panic!("{name} is not listed"))
}

#[tokio::test]
async fn every_disk_of_a_recorded_machine_has_its_verdict() {
    let (bench, _folder) = over("E9_lsblk_signatures.json").await;
    let token = bench.token(Role::Viewer).await;
    let disks = disks(&bench, &token).await;
    assert_eq!(disks.len(), 10);
    let eligible: Vec<_> = disks.iter().filter(|disk| disk["eligibility"] == "eligible").collect();
    assert_eq!((eligible.len(), &eligible[0]["path"]), (1, &json!("/dev/sdh")));
    for (name, eligibility, words) in [
        ("sda", "in-use", "system disk (/, /boot)"),
        ("sdb", "erase-needed", "ZFS member (oldtank)"),
        ("sdd", "in-use", "vg0-data mounted on /srv"),
        ("sdi", "ineligible", "read-only"),
    ] {
        let disk = by_name(&disks, name);
        assert_eq!(disk["eligibility"], eligibility, "{name}");
        assert!(disk["reason"].as_str().unwrap().contains(words), "{disk}");
        assert_eq!((&disk["role"], &disk["device"]["counts"]), (&json!("none"), &json!(true)));
    }
}

#[tokio::test]
async fn disks_of_a_recorded_machine_are_refused_by_name() {
    let (bench, _folder) = over("E9_lsblk_signatures.json").await;
    let token = bench.token(Role::Admin).await;
    let disks = disks(&bench, &token).await;
    let id = by_name(&disks, "sdh")["id"].clone();
    let host = json!({"name": "box", "kind": "disk", "disks": [id]}).to_string();
    let refused = bench.api(&token, Method::POST, "/api/v1/hosts", &host).await;
    assert_eq!((refused.status.as_u16(), &refused.json()["errors"][0]["field"]), (422, &json!("disks[0]")));
    let host = json!({"name": "box", "kind": "machine"}).to_string();
    assert_eq!(bench.api(&token, Method::POST, "/api/v1/hosts", &host).await.status, 201);
    let body = json!({"name": "c", "type": "single-site", "fault_domains": [], "claims": [{"host": "box", "cache": [],
        "capacity": [id], "erase": [id]}]});
    let refused = bench.api(&token, Method::POST, "/api/v1/cluster", &body.to_string()).await;
    let problem = refused.json();
    assert_eq!(
        (refused.status.as_u16(), &problem["errors"][0]["field"]),
        (422, &json!("claims[0].capacity[0]"))
    );
    let detail = problem["errors"][0]["detail"].as_str().unwrap();
    assert!(detail.contains("/dev/sdh is a disk of the recorded machine in"), "{detail}");
}

#[tokio::test]
async fn a_listing_that_cannot_be_read_keeps_the_last_good_one_and_is_never_empty() {
    let (bench, folder) = over("E1_lsblk_2.34_typed.json").await;
    let token = bench.token(Role::Viewer).await;
    let good = disks(&bench, &token).await;
    assert_eq!((good.len(), &good[0]["size_bytes"]), (1, &json!(8_001_563_222_016_u64)));
    std::fs::copy(fixture("E1_lsblk_2.38_broken.txt"), folder.path().join("lsblk.json")).unwrap();
    bench.later(60);
    // The look is renewed behind the answers: in the end the page tells the problem, and still shows the disk.
    let cookie = bench.cookie(Role::Viewer).await;
    let mut page = String::new();
    for _ in 0..1000 {
        page = bench.call(Method::GET, "/hosts", &[("cookie", &cookie)], "").await.text;
        if page.contains("lsblk output is not valid JSON") {
            break;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
    assert!(page.contains("lsblk output is not valid JSON") && page.contains("sdc"), "{page}");
    assert_eq!(disks(&bench, &token).await, good);

    let (first, _folder) = over("E1_lsblk_2.38_broken.txt").await;
    let token = first.token(Role::Viewer).await;
    let answer = first.api(&token, Method::GET, "/api/v1/disks", "").await;
    assert_eq!(answer.status, 409);
    assert!(answer.text.contains("lsblk output is not valid JSON"), "{}", answer.text);
    let cookie = first.cookie(Role::Admin).await;
    for page in ["/hosts", "/setup-cluster/native/disks"] {
        let page = first.call(Method::GET, page, &[("cookie", &cookie)], "").await;
        assert!(page.text.contains("lsblk output is not valid JSON"), "{}", page.text);
    }
}

#[tokio::test]
async fn the_pages_show_each_recorded_machine_without_a_wrong_claim() {
    for (listing, shown, hidden) in [
        ("E2_lsblk_usb_dock.json", "same physical drive", "NaN"),
        ("E3_lsblk_multipath.json", "two paths to one disk without multipath", "NaN"),
        ("E6_lsblk_zero_size.json", "no medium / 0 bytes", "NaN"),
        ("E9_lsblk_signatures.json", "system disk (/, /boot)", "Free to claim"),
        ("E10_lsblk.json", "Drive-managed SMR", "NaN"),
    ] {
        let (bench, _folder) = over(listing).await;
        let cookie = bench.cookie(Role::Admin).await;
        let page = bench.call(Method::GET, "/hosts", &[("cookie", &cookie)], "").await;
        assert_eq!(page.status, 200, "{listing}");
        let text = page.text.to_lowercase();
        assert!(text.contains(&shown.to_lowercase()), "{listing}: {}", page.text);
        assert!(!page.text.contains(hidden), "{listing}");
        let step = bench.call(Method::GET, "/setup-cluster/native/disks", &[("cookie", &cookie)], "").await;
        assert_eq!(step.status, 200, "{listing}");
        // No radio button for a disk of a recorded machine: it cannot be claimed here.
        assert!(!step.text.contains("type=\"radio\""), "{listing}");
    }
}

#[tokio::test]
async fn groupings_of_a_recorded_machine_say_what_they_survive_and_yield() {
    let files = [("E2_lsblk_usb_dock.json", "lsblk.json"), ("E2_by_path.json", "by-path.json")];
    let (bench, _folder) = over_files(&files).await;
    let token = bench.token(Role::Viewer).await;
    let answer = bench.api(&token, Method::GET, "/api/v1/disks/groupings", "").await;
    assert_eq!(answer.status, 200, "{}", answer.text);
    let answer = answer.json();
    let first = &answer["items"][0];
    assert_eq!((&first["kind"], &first["title"]), (&json!("disk"), &json!("each disk is a failure domain")));
    // Two halves of one drive are one domain, so four disks are three.
    assert_eq!(first["domains"].as_array().unwrap().len(), 3);
    let default =
        first["policies"].as_array().unwrap().iter().find(|one| one["policy"] == "default").unwrap();
    assert_eq!(default["has_fault_domains"], json!(3));
    // Of 2.5 TB that could be mirrored the logs, maps and what is kept back are no data.
    let usable = default["usable_bytes"].as_u64().unwrap();
    assert!((2_400_000_000_000..2_480_000_000_000).contains(&usable), "{usable}");
    assert!(
        default["survives"].as_array().unwrap().contains(&json!("the device with sdf, sdg")),
        "{default}"
    );
    // Both disks of the dock go with its plug.
    let both = json!(["controller 0000:00:14.0", "USB port 0:3 at 0000:00:14.0"]);
    assert_eq!(default["dies_with"], both);
}
