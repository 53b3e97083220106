//! The disks own the truth: without SQLite, or in a new folder, everything is there again.
use harness::{Lab, Server, server::binary, tools};
use serde_json::Value;

const MIB: u64 = 1 << 20;

fn truth(api: &harness::Api) -> (Value, Vec<Value>, Vec<Value>) {
    let mut volumes = api.items("/api/v1/volumes");
    let objects = volumes
        .iter()
        .map(|volume| {
            let object = api.get(&format!("/api/v1/objects/{}", volume["uuid"].as_str().expect("uuid")));
            harness::server::leaves(&object)
                .iter()
                .map(|leaf| format!("{} {} {} {}", leaf["uuid"], leaf["host"], leaf["disk"], leaf["votes"]))
                .collect::<Vec<_>>()
                .into()
        })
        .collect();
    for volume in &mut volumes {
        let map = volume.as_object_mut().expect("an object");
        map.retain(|key, _| {
            ["name", "uuid", "size_bytes", "policy", "health", "compliance"].contains(&key.as_str())
        });
    }
    (api.get("/api/v1/policies")["items"].clone(), volumes, objects)
}

fn filled_lab() -> Lab {
    let lab = Lab::ready(3, "1x256MiB", 3600);
    let policy = serde_json::json!({"name": "silver", "failures_to_tolerate": 0, "fault_tolerance_method": "raid1", "stripe_width": 1,
        "object_space_reservation_percent": 0, "iops_limit": null, "checksum": true, "force_provisioning": false, "site_tolerance": "none"});
    lab.api.post("/api/v1/policies", &policy);
    lab.volume("db", 16 * MIB, None);
    lab.volume("scratch", 4 * MIB, Some("silver"));
    tools::ok(
        "qemu-io",
        &["-f", "raw", "-c", "write -P 0x77 0 4M", "-c", "flush", &lab.server.nbd_uri("db")],
    );
    lab
}

#[test]
fn without_sqlite_volumes_policies_and_placement_are_back() {
    let lab = filled_lab();
    let before = truth(&lab.api);
    let data = lab.server.data.clone();
    let folder = lab.folder;
    lab.server.stop();
    for entry in std::fs::read_dir(&data).expect("read the folder") {
        let path = entry.expect("an entry").path();
        if path.file_name().is_some_and(|name| name.to_string_lossy().contains(".db")) {
            std::fs::remove_file(path).expect("remove the database");
        }
    }
    let server = Server::start(&data, &[]);
    assert!(server.setup_url.is_some(), "users are gone with console.db, so setup is offered again");
    let api = server.api("admin");
    api.until("/api/v1/cluster", "ready", |cluster| cluster["state"] == "ready");
    assert_eq!(truth(&api), before);
    tools::ok("qemu-io", &["-f", "raw", "-c", "read -P 0x77 0 4M", &server.nbd_uri("db")]);
    drop(folder);
}

#[test]
fn import_into_a_new_folder_serves_the_same() {
    let lab = filled_lab();
    let before = truth(&lab.api);
    let data = lab.server.data.clone();
    let folder = lab.folder;
    lab.server.stop();
    let fresh = folder.path().join("fresh");
    let mut paths = Vec::new();
    for host in std::fs::read_dir(data.join("lab")).expect("the lab") {
        let host = host.expect("an entry").path();
        if host.is_dir() {
            for disk in std::fs::read_dir(host).expect("a host") {
                paths.push(disk.expect("an entry").path().to_str().expect("plain").to_owned());
            }
        }
    }
    let fresh_text = fresh.to_str().expect("plain");
    let mut args = vec!["import", "--data", fresh_text];
    args.extend(paths.iter().map(String::as_str));
    tools::ok(binary().to_str().expect("plain"), &args);
    let server = Server::start(&fresh, &[]);
    let api = server.api("admin");
    api.until("/api/v1/cluster", "ready", |cluster| cluster["state"] == "ready");
    assert_eq!(truth(&api), before);
    tools::ok("qemu-io", &["-f", "raw", "-c", "read -P 0x77 0 4M", &server.nbd_uri("db")]);
}

#[test]
fn dump_prints_one_disk_and_a_disk_in_use_is_named() {
    let lab = filled_lab();
    let disk = lab.server.data.join("lab/h1/h1-cap1.img");
    let (program, disk) = (binary(), disk.to_str().expect("plain").to_owned());
    let program = program.to_str().expect("plain").to_owned();
    let data = lab.server.data.clone();
    let folder = lab.folder;
    lab.server.stop();
    let dump: Value = serde_json::from_str(&tools::ok(&program, &["dump", &disk])).expect("JSON");
    assert!(dump["superblock"].is_object() || dump["superblocks"].is_array(), "{dump}");
    assert_eq!(
        tools::run(&program, &["check", "--data", data.to_str().expect("plain")]).status.code(),
        Some(0)
    );
    drop(folder);
}
