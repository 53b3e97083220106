//! Block devices: a cluster of loop devices is written, one is pulled under load and returns, one moves, one is replaced.
use crate::faults::Load;
use harness::loops::{self, Loop};
use harness::server::{binary, leaves};
use harness::{Api, Server, tools, until};
use serde_json::{Value, json};
use std::path::PathBuf;

const MIB: u64 = 1 << 20;
/// Enough for the log of a combined disk, 48 MiB of a volume, and a rebuild.
const DISK_BYTES: u64 = 192 * MIB;
const DOMAINS: [&str; 3] = ["d1", "d2", "d3"];

/// A served machine with loop devices. Fields end in order: the server lets go before the devices are given back.
struct Box {
    server: Server,
    api: Api,
    loops: Vec<Loop>,
    folder: tempfile::TempDir,
}

fn rows(api: &Api) -> Vec<Value> {
    api.items("/api/v1/disks?limit=1000")
}

/// The row of a device that is free to claim.
fn free(api: &Api, path: &str) -> Value {
    until(&format!("{path} is free"), || {
        let rows = rows(api);
        rows.into_iter().find(|row| row["path"] == path && row["eligibility"] == "eligible")
    })
}

fn id_of(row: &Value) -> String {
    row["id"].as_str().expect("an id").to_owned()
}

impl Box {
    /// Loop devices of their own for three failure domains, and a spare one; a mirrored volume `db` of 48 MiB.
    fn ready(sector_bytes: u32) -> Self {
        let folder = tempfile::Builder::new().prefix("mp-").tempdir().expect("a folder");
        let new = |index: usize| {
            Loop::new(&folder.path().join(format!("disk{index}.img")), DISK_BYTES, sector_bytes)
        };
        let loops: Vec<Loop> = (0..4).map(new).collect();
        let server = Server::with_loops(&folder.path().join("data"), &["--repair-delay", "3600"]);
        let api = server.api("admin");
        let mut claims = Vec::new();
        for (domain, device) in DOMAINS.iter().zip(&loops) {
            let row = free(&api, &device.path);
            assert_eq!(row["device"]["logical_block_bytes"], sector_bytes, "{row}");
            let id = id_of(&row);
            let host = json!({"name": domain, "kind": "disk", "disks": [id]});
            api.expect(201, "POST", "/api/v1/hosts", Some(&host));
            claims.push(json!({"host": domain, "cache": [], "capacity": [id]}));
        }
        let cluster = json!({"name": "box", "type": "single-site", "fault_domains": [], "claims": claims});
        api.post("/api/v1/cluster", &cluster);
        api.until("/api/v1/cluster", "the cluster is ready", |cluster| cluster["state"] == "ready");
        api.expect(201, "POST", "/api/v1/volumes", Some(&json!({"name": "db", "size_bytes": 48 * MIB})));
        Self { server, api, loops, folder }
    }

    fn object(&self) -> Value {
        let uuid = self.api.get("/api/v1/volumes/db")["uuid"].as_str().expect("uuid").to_owned();
        self.api.get(&format!("/api/v1/objects/{uuid}"))
    }

    fn until_health(&self, health: &str) -> Value {
        until(&format!("db is {health}"), || {
            let object = self.object();
            (object["health"] == health).then_some(object)
        })
    }

    /// The claimed disk at this path.
    fn row_at(&self, path: &str) -> Value {
        let is_it = |row: &Value| row["path"] == path && row["role"] == "combined";
        rows(&self.api).into_iter().find(is_it).unwrap_or_else(|| panic!("no claimed disk at {path}"))
    }

    fn until_state(&self, id: &str, state: &str) -> Value {
        until(&format!("disk {id} is {state}"), || {
            rows(&self.api).into_iter().find(|row| row["id"] == id && row["state"] == state)
        })
    }

    /// A device that carries a copy of the volume, as an index into `loops`, with the id of its disk.
    fn device_of_a_copy(&self) -> (usize, String) {
        let copy =
            leaves(&self.object()).into_iter().find(|leaf| leaf["kind"] == "component").expect("a copy");
        let path = copy["disk_path"].as_str().expect("a path");
        let index = self.loops.iter().position(|device| device.path == path).expect("one of ours");
        (index, copy["disk"].as_str().expect("a disk").to_owned())
    }

    fn stop(self) -> (Vec<Loop>, tempfile::TempDir, PathBuf) {
        let Self { server, loops, folder, .. } = self;
        let data = server.data.clone();
        server.stop();
        (loops, folder, data)
    }

    fn restart(self) -> Self {
        let (loops, folder, data) = self.stop();
        Self::over(loops, folder, &data)
    }

    fn over(loops: Vec<Loop>, folder: tempfile::TempDir, data: &std::path::Path) -> Self {
        let server = Server::with_loops(data, &[]);
        let api = server.api("admin");
        api.until("/api/v1/cluster", "the cluster is ready", |cluster| cluster["state"] == "ready");
        Self { server, api, loops, folder }
    }
}

fn check_deep(data: &std::path::Path) {
    let program = binary();
    let args = ["check", "--deep", "--data", data.to_str().expect("plain")];
    tools::ok(program.to_str().expect("plain"), &args);
}

fn life_of_a_disk(sector_bytes: u32) {
    let machine = Box::ready(sector_bytes);
    let uri = machine.server.nbd_uri("db");
    let load = Load::start(&uri, 32, 4);
    machine
        .api
        .until("/api/v1/volumes/db", "data arrives", |volume| volume["used_bytes"].as_u64() > Some(2 * MIB));

    // Pulled: absent, not failed, and I/O goes on.
    let (index, id) = machine.device_of_a_copy();
    machine.loops[index].pull();
    let object = machine.until_health("reduced-waiting");
    let lost = leaves(&object).into_iter().find(|leaf| leaf["disk"] == id.as_str()).expect("its leaf");
    assert_eq!((&lost["state"], &object["accessible"]), (&json!("absent"), &json!(true)), "{object}");
    machine.until_state(&id, "absent");
    let before = machine.api.get("/api/v1/volumes/db")["used_bytes"].as_u64();
    machine.api.until("/api/v1/volumes/db", "I/O goes on", |volume| volume["used_bytes"].as_u64() > before);

    // Put back: taken back by itself, only what it missed is copied.
    machine.loops[index].put_back();
    machine.until_state(&id, "healthy");
    machine.until_health("healthy");
    load.finish();

    let (loops, folder, data) = machine.stop();
    check_deep(&data);
    let machine = Box::over(loops, folder, &data);
    machine.until_health("healthy");

    // Replaced: a blank disk takes the place of one that is gone for good; what stood there is rebuilt on it.
    let (index, id) = machine.device_of_a_copy();
    machine.loops[index].pull();
    machine.until_state(&id, "absent");
    let uri = machine.server.nbd_uri("db");
    tools::ok("qemu-io", &["-f", "raw", "-c", "write -P 0x5a 40M 1M", "-c", "flush", &uri]);
    let spare = id_of(&free(&machine.api, &machine.loops[3].path));
    machine.api.post(&format!("/api/v1/disks/{id}/replace"), &json!({"by": spare}));
    let object = machine.until_health("healthy");
    assert!(leaves(&object).iter().all(|leaf| leaf["disk"] != id.as_str()), "{object}");
    assert!(leaves(&object).iter().any(|leaf| leaf["disk"] == spare.as_str()), "{object}");
    assert!(!rows(&machine.api).iter().any(|row| row["id"] == id.as_str() && row["role"] != "none"));
    tools::ok("qemu-io", &["-f", "raw", "-c", "read -P 0x5a 40M 1M", &uri]);

    let (_loops, _folder, data) = machine.stop();
    check_deep(&data);
}

#[test]
fn a_pulled_disk_returns_and_a_lost_one_is_replaced_with_sectors_of_512_bytes() {
    let _alone = loops::alone();
    if loops::problem().is_none() {
        life_of_a_disk(512);
    }
}

#[test]
fn a_pulled_disk_returns_and_a_lost_one_is_replaced_with_sectors_of_4096_bytes() {
    let _alone = loops::alone();
    if loops::problem().is_none() {
        life_of_a_disk(4096);
    }
}

#[test]
fn disks_that_changed_their_names_are_found_and_faults_are_taken_like_those_of_files() {
    let _alone = loops::alone();
    if loops::problem().is_some() {
        return;
    }
    let machine = Box::ready(512);
    let uri = machine.server.nbd_uri("db");
    tools::ok("qemu-io", &["-f", "raw", "-c", "write -P 0x77 0 8M", "-c", "flush", &uri]);
    let ids: Vec<String> =
        machine.loops[..3].iter().map(|device| id_of(&machine.row_at(&device.path))).collect();
    let (mut loops, folder, data) = machine.stop();

    // Their names go round: each is where another one was.
    let before: Vec<String> = loops.iter().map(|device| device.path.clone()).collect();
    let mut unplugged: Vec<Loop> = loops.drain(..).rev().collect();
    unplugged.iter_mut().for_each(Loop::unplug);
    unplugged.iter_mut().for_each(Loop::plug);
    unplugged.reverse();
    let after: Vec<String> = unplugged.iter().map(|device| device.path.clone()).collect();
    assert_ne!(before, after, "the devices have other names now");
    let machine = Box::over(unplugged, folder, &data);
    for (device, id) in machine.loops.iter().zip(&ids) {
        assert_eq!(id_of(&machine.row_at(&device.path)), *id);
    }
    machine.until_health("healthy");
    let uri = machine.server.nbd_uri("db");
    tools::ok("qemu-io", &["-f", "raw", "-c", "read -P 0x77 0 8M", &uri]);

    // The fault switch: such a disk has failed, and heals.
    let (_, id) = machine.device_of_a_copy();
    let fault = |fault: &str| json!({"target": format!("disk:{id}"), "fault": fault});
    machine.api.post("/api/v1/lab/faults", &fault("fail"));
    tools::ok("qemu-io", &["-f", "raw", "-c", "write -P 0x11 1M 1M", "-c", "flush", &uri]);
    machine.until_state(&id, "failed");
    machine.api.post("/api/v1/lab/faults", &fault("heal"));
    machine.until_health("healthy");
    let machine = machine.restart();
    machine.until_health("healthy");
    let (_loops, _folder, data) = machine.stop();
    check_deep(&data);
}

#[test]
fn a_disk_in_use_is_named_with_what_uses_it() {
    let _alone = loops::alone();
    if loops::problem().is_some() {
        return;
    }
    let machine = Box::ready(512);
    let program = binary();
    let program = program.to_str().expect("plain");
    let pid = machine.server.pid().as_raw_nonzero().to_string();
    let refused = tools::run(program, &["dump", &machine.loops[0].path]);
    let said = String::from_utf8_lossy(&refused.stderr).into_owned();
    assert!(!refused.status.success() && said.contains(&pid), "{said}");
}
