//! A host is lost under load, comes back, or is replaced: I/O goes on, the pages tell the truth, redundancy returns.
use harness::{Lab, server::leaves, tools};
use serde_json::{Value, json};
use std::process::{Child, Command, Stdio};

const MIB: u64 = 1 << 20;

/// fio with verification in the background; its end is asserted by [`Load::finish`].
pub struct Load {
    child: Child,
}

impl Load {
    pub fn start(uri: &str, size_mib: u32, rate_mib: u32) -> Self {
        let child = Command::new("fio")
            .args([
                "--name=load",
                "--ioengine=nbd",
                "--rw=randwrite",
                "--bs=16k",
                "--iodepth=8",
                "--verify=crc32c",
            ])
            .args(["--verify_fatal=1", "--do_verify=1", "--randseed=5", "--allrandrepeat=1", "--minimal"])
            // Else it leaves a file in the source folder.
            .arg("--verify_state_save=0")
            .arg(format!("--size={size_mib}m"))
            .arg(format!("--rate={rate_mib}m"))
            .arg(format!("--uri={uri}"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("fio cannot be started; tests/run installs it");
        Self { child }
    }

    pub fn finish(self) {
        let output = self.child.wait_with_output().expect("fio ends");
        let said =
            format!("{}{}", String::from_utf8_lossy(&output.stdout), String::from_utf8_lossy(&output.stderr));
        assert!(output.status.success(), "fio found wrong data or an error:\n{said}");
    }
}

fn host_of_a_copy(object: &Value) -> String {
    let leaf = leaves(object).into_iter().find(|leaf| leaf["kind"] == "component").expect("a copy");
    leaf["host"].as_str().expect("a host").to_owned()
}

#[test]
fn a_host_is_lost_under_fio_and_catches_up() {
    let lab = Lab::ready(3, "1x512MiB", 3600);
    lab.volume("db", 128 * MIB, None);
    let uri = lab.server.nbd_uri("db");
    let load = Load::start(&uri, 64, 8);
    let host = host_of_a_copy(&lab.object("db"));
    lab.api
        .until("/api/v1/volumes/db", "data arrives", |volume| volume["used_bytes"].as_u64() > Some(2 * MIB));

    lab.fault(&format!("host:{host}"), "power-off");
    let object = lab.object("db");
    assert_eq!(object["health"], "reduced-waiting", "{object}");
    assert_eq!((&object["accessible"], &object["tolerates_now"]), (&json!(true), &json!(0)));
    let absent = leaves(&object).into_iter().find(|leaf| leaf["host"] == host.as_str()).expect("its leaf");
    assert_eq!(absent["state"], "absent");
    assert_eq!(lab.api.get(&format!("/api/v1/hosts/{host}"))["state"], "absent");
    let scheduled = lab.api.get("/api/v1/resync")["scheduled"].clone();
    assert!(
        scheduled.as_array().is_some_and(|items| items.len() == 1 && items[0]["starts_at"].is_string()),
        "{scheduled}"
    );

    // I/O goes on meanwhile: more is written while the host is away.
    let before = lab.api.get("/api/v1/volumes/db")["used_bytes"].as_u64();
    lab.api.until("/api/v1/volumes/db", "I/O goes on", |volume| volume["used_bytes"].as_u64() > before);
    lab.fault(&format!("host:{host}"), "power-on");
    load.finish();
    let object = lab.until_health("db", "healthy");
    assert_eq!(host_states(&object), ["active"; 3]);
    lab.check_deep();
}

fn host_states(object: &Value) -> Vec<String> {
    leaves(object).iter().map(|leaf| leaf["state"].as_str().unwrap_or_default().to_owned()).collect()
}

#[test]
fn with_a_spare_host_the_component_is_rebuilt_elsewhere() {
    let lab = Lab::ready(4, "1x512MiB", 2);
    lab.volume("db", 64 * MIB, None);
    let uri = lab.server.nbd_uri("db");
    let load = Load::start(&uri, 32, 8);
    let object = lab.object("db");
    let host = host_of_a_copy(&object);
    lab.fault(&format!("host:{host}"), "power-off");
    let rebuilt = harness::until("the component is rebuilt on another host", || {
        let object = lab.object("db");
        let gone = leaves(&object).iter().all(|leaf| leaf["host"] != host.as_str());
        (object["health"] == "healthy" && gone).then_some(object)
    });
    assert_eq!(rebuilt["tolerates_now"], 1);
    load.finish();
    lab.fault(&format!("host:{host}"), "power-on");
    lab.until_health("db", "healthy");
    lab.check_deep();
}

#[test]
fn faults_stay_over_a_restart_until_they_are_healed() {
    let lab = Lab::ready(3, "1x256MiB", 3600);
    lab.volume("db", 16 * MIB, None);
    let host = host_of_a_copy(&lab.object("db"));
    lab.fault(&format!("host:{host}"), "power-off");
    let lab = lab.restart(false, &[]);
    let object = lab.object("db");
    assert_eq!(object["health"], "reduced-waiting", "{object}");
    lab.fault(&format!("host:{host}"), "heal");
    lab.until_health("db", "healthy");
    let answer =
        lab.api.call("POST", "/api/v1/lab/faults", Some(&json!({"target": "host:h1", "fault": "corrupt"})));
    assert_eq!(answer.status, 422, "{}", answer.text);
}

#[test]
fn a_rotten_copy_is_repaired_from_the_good_one() {
    let lab = Lab::ready(3, "1x256MiB", 3600);
    lab.volume("db", 16 * MIB, None);
    let uri = lab.server.nbd_uri("db");
    tools::ok("qemu-io", &["-f", "raw", "-c", "write -P 0x5a 0 8M", "-c", "flush", &uri]);
    // Everything must have reached the capacity disks: a stop writes it back.
    let lab = lab.restart(false, &[]);
    let uri = lab.server.nbd_uri("db");
    let object = lab.object("db");
    let leaf = leaves(&object).into_iter().find(|leaf| leaf["kind"] == "component").expect("a copy");
    let target = format!("disk:{}", leaf["disk"].as_str().expect("a disk"));
    let body = json!({"target": target, "fault": "corrupt", "object": object["uuid"], "offset_bytes": 1 << 20, "length_bytes": 8192});
    let answer = lab.api.post("/api/v1/lab/faults", &body);
    assert!(answer["applied"].as_array().is_some_and(|applied| !applied.is_empty()), "{answer}");
    for _ in 0..4 {
        tools::ok("qemu-io", &["-f", "raw", "-c", "read -P 0x5a 0 8M", &uri]);
    }
    lab.api.until("/api/v1/events?limit=1000", "the repair is an event", |events| {
        events["items"]
            .as_array()
            .is_some_and(|items| items.iter().any(|event| event["kind"] == "block-repaired"))
    });
    lab.check_deep();
}
