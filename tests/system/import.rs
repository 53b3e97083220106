//! Disks from elsewhere: what a look says of each case, that it writes no byte, and what becomes of the cluster after the import.
use crate::journeys::{journey, set_up};
use harness::{Api, Lab, Server, server::binary, tools};
use serde_json::{Value, json};
use std::path::{Path, PathBuf};

const MIB: u64 = 1 << 20;

/// A cluster that was stopped: its disks lie in `folder/NAME/lab`.
struct Stopped {
    folder: tempfile::TempDir,
    data: PathBuf,
}

fn plain(path: &Path) -> &str {
    path.to_str().expect("a plain path")
}

fn write(lab: &Lab, byte: &str) {
    let command = format!("write -P {byte} 0 4M");
    tools::ok("qemu-io", &["-f", "raw", "-c", &command, "-c", "flush", &lab.server.nbd_uri("db")]);
}

fn stopped(hosts: u32) -> Stopped {
    let lab = Lab::ready(hosts, "1x256MiB", 3600);
    lab.volume("db", 16 * MIB, None);
    write(&lab, "0x77");
    let Lab { server, folder, .. } = lab;
    let data = server.data.clone();
    server.stop();
    Stopped { folder, data }
}

impl Stopped {
    fn lab(&self) -> PathBuf {
        self.data.join("lab")
    }

    fn disk(&self, host: &str, disk: &str) -> PathBuf {
        self.lab().join(host).join(format!("{host}-{disk}.img"))
    }
}

/// SHA-256 of every file below the folder.
fn sums(folder: &Path) -> String {
    tools::ok("sh", &["-c", &format!("find {} -type f | sort | xargs sha256sum", folder.display())])
}

/// A server without a cluster, to look with.
fn looker(folder: &Path) -> (Server, Api) {
    let server = Server::start(&folder.join("new"), &[]);
    let api = server.api("admin");
    (server, api)
}

fn scan(api: &Api, paths: &[&Path]) -> Value {
    let paths: Vec<&str> = paths.iter().map(|path| plain(path)).collect();
    api.expect(200, "POST", "/api/v1/import/scan", Some(&json!({ "paths": paths })))
}

/// Runs `millpond import`; answers whether it was done, and what was said.
fn import(data: &Path, args: &[&str]) -> (bool, String) {
    let output = tools::run(plain(&binary()), &[&["import", "--data", plain(data)][..], args].concat());
    (output.status.success(), String::from_utf8_lossy(&output.stderr).into_owned())
}

/// The one sentence among `sentences` that holds all `words`.
fn says(sentences: &Value, words: &[&str]) {
    let all = sentences.as_array().expect("a list of sentences");
    let has = |said: &&Value| words.iter().all(|word| said.as_str().is_some_and(|said| said.contains(word)));
    assert_eq!(all.iter().filter(has).count(), 1, "{words:?} in {sentences:#}");
}

/// Serves an imported folder, waits until `db` is healthy, reads it, and verifies every byte once it is stopped.
fn serve_and_verify(data: &Path, byte: &str) {
    let server = Server::start(data, &[]);
    let api = server.api("admin");
    api.until("/api/v1/volumes/db", "db is healthy", |volume| volume["health"] == "healthy");
    let command = format!("read -P {byte} 0 4M");
    tools::ok("qemu-io", &["-f", "raw", "-c", &command, &server.nbd_uri("db")]);
    server.stop();
    let checked = tools::run(plain(&binary()), &["check", "--deep", "--data", plain(data)]);
    assert_eq!(checked.status.code(), Some(0), "{}", String::from_utf8_lossy(&checked.stdout));
}

#[test]
fn a_moved_set_of_disks_is_whole_and_is_taken_over_through_the_api() {
    let old = stopped(3);
    let moved = old.folder.path().join("moved");
    std::fs::rename(old.lab(), &moved).expect("move the disks");
    let before = sums(&moved);
    let (server, api) = looker(old.folder.path());
    let found = scan(&api, &[&moved]);
    let cluster = &found["clusters"][0];
    assert_eq!(
        (cluster["importable"].as_bool(), cluster["disks_present"].as_u64()),
        (Some(true), Some(6)),
        "{found}"
    );
    assert_eq!((&cluster["health"], &cluster["findings"]), (&json!({"healthy": 1}), &json!([])), "{cluster}");
    assert_eq!(cluster["objects"][0]["name"], "db");
    assert_eq!(sums(&moved), before, "a look writes no byte");
    let body = json!({"cluster": cluster["uuid"], "paths": [plain(&moved)]});
    api.post("/api/v1/import", &body);
    assert_eq!(api.get("/api/v1/cluster")["state"], "ready");
    api.until("/api/v1/volumes/db", "the volume is listed", |volume| volume["health"] == "healthy");
    tools::ok("qemu-io", &["-f", "raw", "-c", "read -P 0x77 0 4M", &server.nbd_uri("db")]);
    // A server with a cluster takes no second one, and says where to.
    let refused = api.call("POST", "/api/v1/import", Some(&body));
    assert_eq!(refused.status, 409, "{}", refused.text);
    let data = server.data.clone();
    server.stop();
    serve_and_verify(&data, "0x77");
}

#[test]
fn with_a_disk_missing_the_look_says_which_and_what_that_means() {
    let old = stopped(4);
    let (_server, api) = looker(old.folder.path());
    let away = old.folder.path().join("away");
    let lab = old.lab();
    // A capacity disk: its copies are absent, what is mirrored stays available.
    std::fs::rename(old.disk("h1", "cap1"), &away).expect("take it away");
    let before = sums(&lab);
    let found = scan(&api, &[&lab]);
    let cluster = &found["clusters"][0];
    says(&cluster["notes"], &["h1", "capacity disk h1-cap1 is missing", "add"]);
    assert_eq!(cluster["missing"][0]["name"], "h1-cap1");
    assert_eq!(
        (cluster["importable"].as_bool(), cluster["objects"][0]["accessible"].as_bool()),
        (Some(true), Some(true))
    );
    std::fs::rename(&away, old.disk("h1", "cap1")).expect("bring it back");
    // The disk with the log: what is beside it cannot be used.
    std::fs::rename(old.disk("h2", "cache1"), &away).expect("take it away");
    let found = scan(&api, &[&lab]);
    says(
        &found["clusters"][0]["notes"],
        &["h2-cache1", "holds the log", "beside it (1 capacity disk)", "add that disk"],
    );
    // Half of the disks: nothing may be written, and the sentence counts.
    for host in ["h1", "h3", "h4"] {
        std::fs::rename(old.disk(host, "cache1"), old.folder.path().join(host)).expect("take it away");
    }
    let found = scan(&api, &[&lab]);
    says(&found["clusters"][0]["obstacles"], &["4 of 8 disks", "more than half are needed"]);
    let (done, said) = import(&old.folder.path().join("fresh"), &[plain(&lab)]);
    assert!(!done && said.contains("4 of 8 disks"), "{said}");
    for (host, from) in [("h1", "h1"), ("h2", "away"), ("h3", "h3"), ("h4", "h4")] {
        std::fs::rename(old.folder.path().join(from), old.disk(host, "cache1")).expect("bring it back");
    }
    std::fs::rename(old.disk("h1", "cap1"), &away).expect("take it away");
    assert_eq!(sums(&lab), before, "no look and no refusal wrote a byte");
}

#[test]
fn a_cloned_disk_is_named_and_neither_copy_is_used() {
    let old = stopped(3);
    let clone = old.folder.path().join("clone.img");
    std::fs::copy(old.disk("h1", "cap1"), &clone).expect("clone it");
    let (lab, before) = (old.lab(), sums(&old.lab()));
    let (_server, api) = looker(old.folder.path());
    let found = scan(&api, &[&lab, &clone]);
    let cluster = &found["clusters"][0];
    assert_eq!(cluster["importable"], false, "{cluster}");
    says(&cluster["obstacles"], &["h1-cap1", plain(&clone), "same disk", "leave one of them out"]);
    let fresh = old.folder.path().join("fresh");
    let (done, said) = import(&fresh, &[plain(&lab), plain(&clone)]);
    assert!(!done && said.contains("same disk") && !fresh.exists(), "{said}");
    assert_eq!(sums(&lab), before, "no look and no refusal wrote a byte");
    let (done, said) = import(&fresh, &[plain(&lab)]);
    assert!(done, "{said}");
    serve_and_verify(&fresh, "0x77");
}

/// A cluster whose disks named by `which` (of the host with the first copy of `db`) were restored from a backup of an earlier life.
fn restored(which: impl Fn(&Path) -> bool) -> (Stopped, Vec<PathBuf>) {
    let lab = Lab::ready(3, "1x256MiB", 3600);
    lab.volume("db", 16 * MIB, None);
    write(&lab, "0x11");
    let leaves = harness::server::leaves(&lab.object("db"));
    let copy = leaves.iter().find(|leaf| leaf["kind"] == "component").expect("a copy");
    let path = PathBuf::from(copy["disk_path"].as_str().expect("a path"));
    let host = path.parent().expect("the folder of its host");
    let disks = std::fs::read_dir(host).expect("list").map(|entry| entry.expect("an entry").path());
    let disks: Vec<PathBuf> = disks.filter(|path| which(path)).collect();
    let backup = lab.folder.path().join("backup");
    std::fs::create_dir(&backup).expect("make the folder");
    let saved = |disk: &PathBuf| backup.join(disk.file_name().expect("a name"));
    let back_up = || disks.iter().for_each(|disk| _ = std::fs::copy(disk, saved(disk)).expect("back it up"));
    let lab = lab.restart_with(back_up);
    write(&lab, "0x22");
    let Lab { server, folder, .. } = lab;
    let data = server.data.clone();
    server.stop();
    disks.iter().for_each(|disk| _ = std::fs::copy(saved(disk), disk).expect("restore it"));
    (Stopped { folder, data }, disks)
}

#[test]
fn a_disk_from_a_backup_is_known_and_brought_up_to_date() {
    let (old, disks) = restored(|path| plain(path).contains("-cap"));
    let (lab, before) = (old.lab(), sums(&old.lab()));
    let (looking, api) = looker(old.folder.path());
    let found = scan(&api, &[&lab]);
    let cluster = &found["clusters"][0];
    assert_eq!(cluster["importable"], true, "{cluster}");
    says(&cluster["notes"], &[plain(&disks[0]), "older copy", "backup", "stale"]);
    assert_ne!(cluster["objects"][0]["health"], "healthy", "{cluster}");
    assert_eq!(cluster["objects"][0]["accessible"], true);
    assert_eq!(sums(&lab), before, "a look writes no byte");
    looking.stop();
    let fresh = old.folder.path().join("fresh");
    let (done, said) = import(&fresh, &[plain(&lab)]);
    assert!(done && said.contains("older copy"), "{said}");
    serve_and_verify(&fresh, "0x22");
}

#[test]
fn a_whole_host_from_a_backup_never_gives_out_what_was_before() {
    let (old, _) = restored(|_| true);
    let fresh = old.folder.path().join("fresh");
    let (done, said) = import(&fresh, &[plain(&old.lab())]);
    assert!(done, "{said}");
    serve_and_verify(&fresh, "0x22");
}

#[test]
fn two_clusters_mixed_are_told_apart_and_one_is_chosen() {
    let (one, two) = (stopped(3), stopped(3));
    let (first, second) = (one.lab(), two.lab());
    let before = (sums(&first), sums(&second));
    let (_server, api) = looker(one.folder.path());
    let found = scan(&api, &[&first, &second]);
    assert_eq!(found["clusters"].as_array().map(Vec::len), Some(2), "{found}");
    assert!(
        found["clusters"].as_array().expect("clusters").iter().all(|cluster| cluster["importable"] == true)
    );
    let fresh = one.folder.path().join("fresh");
    let (done, said) = import(&fresh, &[plain(&first), plain(&second)]);
    assert!(!done && said.contains("2 clusters") && said.contains("--cluster") && !fresh.exists(), "{said}");
    assert_eq!((sums(&first), sums(&second)), before, "no look and no refusal wrote a byte");
    let mine = scan(&api, &[&first])["clusters"][0]["uuid"].as_str().expect("a uuid").to_owned();
    let (done, said) = import(&fresh, &["--cluster", &mine, plain(&first), plain(&second)]);
    assert!(done, "{said}");
    assert_eq!(sums(&second), before.1);
    serve_and_verify(&fresh, "0x77");
}

#[test]
fn a_disk_in_use_and_what_is_no_disk_are_named() {
    let lab = Lab::ready(3, "1x256MiB", 3600);
    let (looking, api) = looker(lab.folder.path());
    let pid = lab.server.pid().as_raw_nonzero().to_string();
    let found = scan(&api, &[&lab.server.data.join("lab")]);
    assert_eq!(found["clusters"], json!([]));
    says(
        &found["refused"]
            .as_array()
            .expect("a list")
            .iter()
            .map(|path| path["reason"].clone())
            .take(1)
            .collect(),
        &["in use by", &pid],
    );
    let pipe = lab.folder.path().join("pipe");
    tools::ok("mkfifo", &[plain(&pipe)]);
    let answer = api.call("POST", "/api/v1/import/scan", Some(&json!({"paths": [plain(&pipe)]})));
    assert!(
        answer.status == 409 && answer.text.contains("neither a file nor a block device"),
        "{}",
        answer.text
    );
    let answer = api.call("POST", "/api/v1/import/scan", Some(&json!({"paths": ["lab", "/dev/null"]})));
    assert!(answer.status == 422 && answer.body["errors"][0]["field"] == "paths[0]", "{}", answer.text);
    api.expect(422, "POST", "/api/v1/import/scan", Some(&json!({"paths": []})));
    looking.api("viewer").expect(403, "POST", "/api/v1/import/scan", Some(&json!({"paths": ["/tmp"]})));
    lab.api.get("/api/v1/cluster");
}

#[test]
fn a_cluster_is_imported_in_the_browser_after_a_look() {
    journey(async || {
        let old = stopped(4);
        let away = old.folder.path().join("away");
        std::fs::rename(old.disk("h1", "cap1"), &away).expect("take one away");
        let before = sums(&old.lab());
        let (folder, server, browser) = set_up(&[]).await;
        browser.assert_page(&format!("{}/import", server.base), "import").await;
        browser.open(&format!("{}/", server.base)).await;
        browser.press("Import a cluster").await;
        browser.fill("#paths", "not/absolute").await;
        browser.press("Look, without writing").await;
        browser.until_text("is no absolute path").await;
        browser.fill("#paths", plain(&old.lab())).await;
        browser.press("Look, without writing").await;
        browser.until_text("capacity disk h1-cap1 is missing").await;
        browser.until_text("What importing lab does").await;
        browser.press("Where db lies").await;
        browser.assert_clean_console().await;
        let url = browser.driver.current_url().await.expect("a URL").to_string();
        browser.assert_page(&url, "import-found").await;
        assert_eq!(sums(&old.lab()), before, "a look writes no byte");
        browser.open(&url).await;
        browser.press("Import lab").await;
        browser.until_text("Import a cluster").await;
        let api = server.api("viewer");
        api.until("/api/v1/cluster", "ready", |cluster| cluster["state"] == "ready");
        api.until("/api/v1/volumes", "its volume", |list| list["items"][0]["name"] == "db");
        browser.open(&format!("{}/volumes", server.base)).await;
        browser.until_text("db").await;
        browser.assert_clean_console().await;
        browser.open(&url).await;
        browser.until_text("This server serves the cluster lab").await;
        browser.close().await;
        drop((folder, old));
    });
}
