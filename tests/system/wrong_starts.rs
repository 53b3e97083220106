//! Wrong starts and wrong inputs: each gets one sentence that says what to do, and nothing is touched.
use harness::{Lab, Server, server::binary, tools};
use serde_json::{Value, json};
use std::path::Path;

/// Runs the program with arguments that must be refused; answers what it said.
fn refused(args: &[&str]) -> String {
    let output = tools::run(binary().to_str().expect("plain"), args);
    let said = String::from_utf8_lossy(&output.stderr).into_owned();
    assert!(!output.status.success(), "{args:?} was accepted");
    assert!(!said.contains("panicked"), "{args:?} panicked: {said}");
    assert!(said.trim().lines().count() <= 4, "one sentence, not {said:?}");
    said
}

fn assert_says(said: &str, words: &[&str]) {
    for word in words {
        assert!(said.contains(word), "{said:?} does not say {word:?}");
    }
}

fn empty_or_missing(path: &Path) -> bool {
    !path.exists() || std::fs::read_dir(path).is_ok_and(|mut entries| entries.next().is_none())
}

#[test]
fn a_public_address_without_tls_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let said = refused(&["serve", "--data", data.to_str().expect("plain"), "--listen", "0.0.0.0:7400"]);
    assert_says(&said, &["TLS", "127.0.0.1"]);
    assert!(empty_or_missing(&data));
}

#[test]
fn a_lab_larger_than_the_file_system_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let args = [
        "serve",
        "--data",
        data.to_str().expect("plain"),
        "--listen",
        "127.0.0.1:0",
        "--lab",
        "hosts=8,cache=1x1TiB,capacity=2x1TiB",
    ];
    let said = refused(&args);
    assert_says(&said, &["TiB", "free"]);
    assert!(!data.join("lab").exists());
}

#[test]
fn a_port_in_use_is_named() {
    let listener = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    let folder = tempfile::tempdir().expect("a folder");
    let said = refused(&[
        "serve",
        "--data",
        folder.path().join("data").to_str().expect("plain"),
        "--listen",
        &address,
    ]);
    assert_says(&said, &[&address, "in use"]);
}

#[test]
fn a_malformed_lab_and_an_unknown_option_are_explained() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    let data = data.to_str().expect("plain");
    let said = refused(&["serve", "--data", data, "--lab", "hosts=four"]);
    assert_says(&said, &["hosts"]);
    let said = refused(&["serve", "--data", data, "--lab", "hosts=4,cache=1x1MiB,capacity=2x1GiB"]);
    assert_says(&said, &["64 MiB"]);
    assert!(empty_or_missing(Path::new(data)));
}

#[test]
fn a_socket_path_that_is_too_long_is_refused() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("d".repeat(120));
    let said = refused(&["serve", "--data", data.to_str().expect("plain"), "--listen", "127.0.0.1:0"]);
    assert_says(&said, &["107"]);
}

#[test]
fn a_second_server_on_the_same_folder_names_the_holder() {
    let lab = Lab::ready(3, "1x256MiB", 3600);
    let data = lab.server.data.to_str().expect("plain").to_owned();
    let said = refused(&["serve", "--data", &data, "--listen", "127.0.0.1:0"]);
    assert_says(&said, &["in use", &lab.server.pid().as_raw_nonzero().to_string()]);
    let said = refused(&["check", "--data", &data]);
    assert_says(&said, &["in use"]);
    lab.api.get("/api/v1/cluster");
}

#[test]
fn a_damaged_superblock_is_named_and_a_spare_copy_serves() {
    let lab = Lab::ready(3, "1x256MiB", 3600);
    lab.volume("db", 8 << 20, None);
    let data = lab.server.data.clone();
    let folder = lab.folder;
    lab.server.stop();
    let disk = data.join("lab/h1/h1-cap1.img");
    overwrite(&disk, 4096, 4096);
    overwrite(&disk, 65536, 4096);
    let server = Server::start(&data, &[]);
    let api = server.api("admin");
    api.until("/api/v1/volumes/db", "two copies of the superblock were enough", |volume| {
        volume["health"] == "healthy"
    });
    server.stop();
    // All copies gone: the disk is not ours any more; the cluster runs without it and says which one.
    let size = std::fs::metadata(&disk).expect("the disk").len();
    for offset in [4096, 65536, size - (128 << 10), size - 4096] {
        overwrite(&disk, offset, 4096);
    }
    let server = Server::start(&data, &[]);
    let api = server.api("admin");
    let disks = api.until("/api/v1/disks", "disks are listed", |disks| disks["items"].is_array());
    let lost = disks["items"]
        .as_array()
        .expect("items")
        .iter()
        .find(|disk| disk["path"].as_str().is_some_and(|path| path.ends_with("h1-cap1.img")));
    assert!(lost.is_none_or(|disk| disk["state"] != "healthy"), "{lost:?}");
    harness::until("the log names the disk", || server.log().contains("h1-cap1").then_some(()));
    drop(folder);
}

#[test]
fn a_folder_of_another_version_is_refused_and_left_alone() {
    let folder = tempfile::tempdir().expect("a folder");
    let data = folder.path().join("data");
    std::fs::create_dir(&data).expect("make the folder");
    std::fs::write(data.join("console.db"), b"SQLite format 3\0 of another program").expect("write");
    let before = std::fs::read(data.join("console.db")).expect("read");
    let said = refused(&["serve", "--data", data.to_str().expect("plain"), "--listen", "127.0.0.1:0"]);
    assert_says(&said, &["console.db"]);
    assert_eq!(std::fs::read(data.join("console.db")).expect("read"), before);
}

fn overwrite(path: &Path, offset: u64, length: usize) {
    use std::os::unix::fs::FileExt;
    let file = std::fs::OpenOptions::new().write(true).open(path).expect("open the disk");
    file.write_all_at(&vec![0xA5; length], offset).expect("damage the disk");
}

#[test]
fn wrong_names_and_sizes_are_refused_field_by_field() {
    let lab = Lab::ready(3, "1x256MiB", 3600);
    let names = ["../x", "..", ".", "", "a/../../x", "C:\\x", "-x", "a b", "<img src=x>", &"n".repeat(81)];
    for name in names {
        let answer =
            lab.api.call("POST", "/api/v1/volumes", Some(&json!({"name": name, "size_bytes": 1 << 20})));
        assert_eq!(answer.status, 422, "{name:?}: {}", answer.text);
        assert_eq!(answer.body["errors"][0]["field"], "name", "{}", answer.text);
    }
    for size in [
        json!(0),
        json!(1_u64 << 62),
        json!((1 << 20) + 1),
        json!(4096),
        json!(-1),
        json!("big"),
        Value::Null,
    ] {
        let answer =
            lab.api.call("POST", "/api/v1/volumes", Some(&json!({"name": "ok", "size_bytes": size})));
        assert!(matches!(answer.status, 400 | 422), "{size}: {}", answer.text);
        assert!(answer.text.contains("size_bytes"), "{size}: {}", answer.text);
    }
    assert!(lab.api.items("/api/v1/volumes").is_empty(), "nothing was made");
    let malformed = tools::ok(
        "curl",
        &[
            "-sS",
            "-o",
            "/dev/null",
            "-w",
            "%{http_code}",
            "-X",
            "POST",
            "-H",
            &format!("Authorization: Bearer {}", lab.api.token),
            "-H",
            "Content-Type: application/json",
            "--data-binary",
            "{\"name\":",
            &format!("{}/api/v1/volumes", lab.api.base),
        ],
    );
    assert_eq!(malformed, "400");
    let misdirected = tools::ok(
        "curl",
        &["-sS", "-o", "/dev/null", "-w", "%{http_code}", "-H", "Host: evil.example", &lab.api.base],
    );
    assert_eq!(misdirected, "421");
}
