//! Real incidents of other systems, each with its whole kind, on the real server.
use harness::{Lab, server::leaves, tools};
use serde_json::{Value, json};

const MIB: u64 = 1 << 20;

fn mirror(name: &str, failures: u8, reservation_percent: u8) -> Value {
    json!({"name": name, "failures_to_tolerate": failures, "fault_tolerance_method": "raid1", "stripe_width": 1,
        "object_space_reservation_percent": reservation_percent, "iops_limit": null, "checksum": true, "force_provisioning": false,
        "site_tolerance": "none"})
}

/// Hosts of the data copies, and of the witnesses.
fn hosts(object: &Value) -> (Vec<String>, Vec<String>) {
    let of = |kind: &str| {
        leaves(object)
            .iter()
            .filter(|leaf| leaf["kind"] == kind)
            .filter_map(|leaf| leaf["host"].as_str().map(str::to_owned))
            .collect()
    };
    (of("component"), of("witness"))
}

/// A1: disks do not count, domains do.
#[test]
fn enough_disks_on_too_few_hosts_are_refused_with_the_numbers() {
    let lab = Lab::ready(2, "2x256MiB", 3600);
    let answer = lab.api.call("POST", "/api/v1/volumes", Some(&json!({"name": "db", "size_bytes": 8 * MIB})));
    assert_eq!(answer.status, 409, "{}", answer.text);
    assert!(answer.text.contains("needs 3 fault domains, 2 available"), "{}", answer.text);
    let lab = Lab::ready(3, "2x256MiB", 3600);
    for index in 0..20 {
        let volume = lab.volume(&format!("v{index}"), MIB, None);
        assert_eq!(
            volume["compliance"], "compliant",
            "with exactly the needed number placement always succeeds"
        );
    }
}

/// A3: with no free domain nothing is rebuilt, and the object says so.
#[test]
fn two_copies_never_share_a_host_to_look_healthy() {
    let lab = Lab::ready(3, "2x256MiB", 1);
    lab.volume("db", 8 * MIB, None);
    let (copies, _) = hosts(&lab.object("db"));
    lab.fault(&format!("host:{}", copies[0]), "power-off");
    let object = lab.until_health("db", "reduced-cannot-rebuild");
    assert!(
        object["reason"].as_str().is_some_and(|reason| reason.contains("needs 3 fault domains, 2 available")),
        "{object}"
    );
    assert_eq!(object["compliance"], "non-compliant");
    let (after, _) = hosts(&object);
    assert_eq!(after, copies, "nothing was rebuilt beside the other copy");
    let answer = lab.api.post("/api/v1/what-if", &json!({"fail": [format!("host:{}", copies[1])]}));
    assert_eq!(answer["inaccessible"][0]["name"], "db", "{answer}");
}

/// A6: availability needs a majority of votes and a complete copy; the object names which condition fails.
#[test]
fn votes_decide_and_the_failing_condition_is_named() {
    let lab = Lab::ready(5, "1x256MiB", 3600);
    lab.api.post("/api/v1/policies", &mirror("two", 2, 0));
    lab.volume("one", 8 * MIB, None);
    lab.volume("pair", 8 * MIB, Some("two"));
    let (copies, witnesses) = hosts(&lab.object("one"));
    lab.fault(&format!("host:{}", witnesses[0]), "power-off");
    assert_eq!(lab.object("one")["accessible"], true);
    lab.fault(&format!("host:{}", copies[0]), "power-off");
    let object = lab.object("one");
    assert_eq!((&object["accessible"], &object["health"]), (&json!(false), &json!("inaccessible")));
    assert!(object["reason"].as_str().is_some_and(|reason| reason.contains("1 of 3 votes")), "{object}");
    lab.fault(&format!("host:{}", copies[0]), "power-on");
    lab.fault(&format!("host:{}", witnesses[0]), "power-on");
    lab.until_health("one", "healthy");
    let object = lab.until_health("pair", "healthy");
    assert_eq!(object["tolerates_now"], 2);
    let (copies, _) = hosts(&object);
    assert_eq!(copies.len(), 3);
    lab.fault(&format!("host:{}", copies[0]), "power-off");
    lab.fault(&format!("host:{}", copies[1]), "power-off");
    let object = lab.object("pair");
    assert_eq!((&object["accessible"], &object["tolerates_now"]), (&json!(true), &json!(0)), "{object}");
}

/// Six creations at once where four fit: the statuses.
fn six_at_once(lab: &Lab) -> Vec<u16> {
    std::thread::scope(|scope| {
        let calls: Vec<_> = (0..6)
            .map(|index| {
                let api = lab.api.clone();
                scope.spawn(move || {
                    let body =
                        json!({"name": format!("v{index}"), "size_bytes": 30 * MIB, "policy": "thick"});
                    api.call("POST", "/api/v1/volumes", Some(&body))
                })
            })
            .collect();
        let answers = calls.into_iter().map(|call| call.join().expect("a call"));
        answers
            .map(|answer| {
                let refused = answer.status == 409 && answer.text.contains("not enough space");
                assert!(answer.status == 201 || refused, "{} {}", answer.status, answer.text);
                answer.status
            })
            .collect()
    })
}

fn assert_no_disk_is_over_booked(lab: &Lab) {
    for disk in lab.api.items("/api/v1/disks") {
        assert!(disk["used_bytes"].as_u64() <= disk["size_bytes"].as_u64(), "{disk}");
    }
}

/// B5: check and reservation are one step; what a deleted volume held is there for the next.
#[test]
fn parallel_requests_never_over_book_a_disk() {
    let lab = Lab::ready(3, "1x110MiB", 3600);
    lab.api.post("/api/v1/policies", &mirror("thick", 1, 100));
    for round in 0..20 {
        let statuses = six_at_once(&lab);
        let made = statuses.iter().filter(|status| **status == 201).count();
        assert_eq!(made, 4, "round {round}: nine places, two on different hosts each: {statuses:?}");
        assert_no_disk_is_over_booked(&lab);
        for volume in lab.api.items("/api/v1/volumes") {
            let name = volume["name"].as_str().expect("a name");
            lab.api.expect(204, "DELETE", &format!("/api/v1/volumes/{name}?confirm={name}"), None);
        }
    }
}

/// B5: the components that are there are not counted a second time when they catch up.
#[test]
fn a_full_cluster_catches_up_in_place() {
    let lab = Lab::ready(3, "1x110MiB", 3600);
    lab.api.post("/api/v1/policies", &mirror("thick", 1, 100));
    lab.api.post("/api/v1/policies", &mirror("single", 0, 100));
    assert_eq!(six_at_once(&lab).iter().filter(|status| **status == 201).count(), 4);
    for size_mib in [32, 16, 8, 4, 2, 1] {
        for number in 0.. {
            assert!(number < 9, "three disks of 110 MiB end somewhere");
            let body = json!({"name": format!("fill-{size_mib}-{number}"), "size_bytes": size_mib * MIB, "policy": "single"});
            let answer = lab.api.call("POST", "/api/v1/volumes", Some(&body));
            if answer.status == 409 {
                break;
            }
            assert_eq!(answer.status, 201, "{}", answer.text);
        }
    }
    let volumes = lab.api.items("/api/v1/volumes");
    let mirrors: Vec<&str> = volumes
        .iter()
        .filter(|volume| volume["policy"] == "thick")
        .filter_map(|volume| volume["name"].as_str())
        .collect();
    assert_eq!(mirrors.len(), 4, "{volumes:?}");
    let write = |name: &str, pattern: u8, size: &str| {
        let uri = lab.server.nbd_uri(name);
        tools::ok(
            "qemu-io",
            &["-f", "raw", "-c", &format!("write -P {pattern} 0 {size}"), "-c", "flush", &uri],
        );
    };
    for volume in &volumes {
        let size = volume["size_bytes"].as_u64().expect("a size").to_string();
        write(volume["name"].as_str().expect("a name"), 1, &size);
    }

    let (copies, _) = hosts(&lab.object(mirrors[0]));
    let host = format!("host:{}", copies[0]);
    lab.fault(&host, "power-off");
    lab.until_health(mirrors[0], "reduced-waiting");
    mirrors.iter().for_each(|name| write(name, 2, "30M"));
    lab.fault(&host, "power-on");
    for name in &mirrors {
        lab.until_health(name, "healthy");
    }
    assert_no_disk_is_over_booked(&lab);

    let (others, _) = hosts(&lab.object(mirrors[0]));
    let other = others.iter().find(|name| **name != copies[0]).expect("a second copy");
    lab.fault(&format!("host:{other}"), "power-off");
    let uri = lab.server.nbd_uri(mirrors[0]);
    tools::ok("qemu-io", &["-f", "raw", "-c", "read -P 2 0 30M", &uri]);
    lab.fault(&format!("host:{other}"), "power-on");
    lab.until_health(mirrors[0], "healthy");
    lab.check_deep();
}

/// C1: progress stays within 0..=100, never falls within a run, and ends at exactly nothing left.
#[test]
fn resync_progress_is_honest() {
    let lab = Lab::ready(3, "1x512MiB", 3600);
    lab.volume("db", 96 * MIB, None);
    let uri = lab.server.nbd_uri("db");
    harness::tools::ok("qemu-io", &["-f", "raw", "-c", "write -P 1 0 64M", "-c", "flush", &uri]);
    let (copies, _) = hosts(&lab.object("db"));
    lab.api.patch("/api/v1/resync", &json!({"limit_bytes_per_second": 16 * MIB}));
    lab.fault(&format!("host:{}", copies[0]), "power-off");
    harness::tools::ok("qemu-io", &["-f", "raw", "-c", "write -P 2 0 32M", "-c", "flush", &uri]);
    lab.fault(&format!("host:{}", copies[0]), "power-on");
    let mut last: std::collections::BTreeMap<String, f64> = std::collections::BTreeMap::new();
    let mut seen = 0;
    harness::until("the resync ends", || {
        let resync = lab.api.get("/api/v1/resync");
        for item in resync["items"].as_array().expect("items") {
            let percent = item["progress_percent"].as_f64().expect("a percentage");
            let key = format!("{} {}", item["component"], item["run"]);
            assert!((0.0..=100.0).contains(&percent), "{item}");
            assert!(percent >= *last.get(&key).unwrap_or(&0.0), "progress fell: {item}");
            assert!(item["bytes_left"].as_u64() <= item["bytes_total"].as_u64(), "{item}");
            assert!(item["eta_seconds"].is_null() || item["eta_seconds"].as_f64() >= Some(0.0), "{item}");
            assert_eq!(item["reason"], "stale", "{item}");
            last.insert(key, percent);
            seen += 1;
        }
        (lab.object("db")["health"] == "healthy").then_some(())
    });
    assert!(seen > 0, "the resync was seen at work");
    let resync = lab.api.get("/api/v1/resync");
    assert_eq!(
        (&resync["bytes_left"], resync["items"].as_array().map(Vec::len)),
        (&json!(0), Some(0)),
        "{resync}"
    );
}

/// D1: a returned copy is not current before its resync has ended, even when votes would suffice.
#[test]
fn a_stale_copy_is_never_served() {
    let lab = Lab::ready(3, "1x512MiB", 3600);
    lab.volume("db", 64 * MIB, None);
    let uri = lab.server.nbd_uri("db");
    let write = |pattern: &str| {
        let commands: Vec<String> =
            (0..16).map(|index| format!("write -P {pattern} {}k 64k", index * 3072)).collect();
        let mut args = vec!["-f", "raw"];
        commands.iter().for_each(|command| args.extend(["-c", command]));
        args.extend(["-c", "flush", &uri]);
        harness::tools::ok("qemu-io", &args);
    };
    write("0x11");
    let (copies, _) = hosts(&lab.object("db"));
    lab.fault(&format!("host:{}", copies[1]), "power-off");
    write("0x22");
    // So slow that the only current copy leaves before the other has caught up.
    lab.api.patch("/api/v1/resync", &json!({"limit_bytes_per_second": 4096}));
    lab.fault(&format!("host:{}", copies[1]), "power-on");
    lab.fault(&format!("host:{}", copies[0]), "power-off");
    let object = lab.object("db");
    assert_eq!(
        (&object["health"], &object["accessible"]),
        (&json!("inaccessible"), &json!(false)),
        "{object}"
    );
    let reason = object["reason"].as_str().expect("a reason");
    assert!(reason.contains("latest data") && reason.contains(&copies[0]), "{reason}");
    lab.api.patch("/api/v1/resync", &json!({"limit_bytes_per_second": null}));
    lab.fault(&format!("host:{}", copies[0]), "power-on");
    lab.until_health("db", "healthy");
    for index in 0..16 {
        harness::tools::ok(
            "qemu-io",
            &["-f", "raw", "-c", &format!("read -P 0x22 {}k 64k", index * 3072), &uri],
        );
    }
}

/// G5: a flush that was answered is kept by kill -9 of everything.
#[test]
fn flushed_blocks_are_there_after_kill_9() {
    let lab = Lab::ready(3, "1x256MiB", 3600);
    lab.volume("db", 16 * MIB, None);
    let uri = lab.server.nbd_uri("db");
    let mut commands = Vec::new();
    for block in 0..200 {
        commands.push(format!("write -P {} {}k 4k", 1 + block % 250, block * 4));
        if block % 10 == 9 {
            commands.push("flush".to_owned());
        }
    }
    let mut args = vec!["-f", "raw"];
    commands.iter().for_each(|command| args.extend(["-c", command]));
    args.push(&uri);
    harness::tools::ok("qemu-io", &args);
    let lab = lab.restart(true, &[]);
    let uri = lab.server.nbd_uri("db");
    for block in 0..200 {
        harness::tools::ok(
            "qemu-io",
            &["-f", "raw", "-c", &format!("read -P {} {}k 4k", 1 + block % 250, block * 4), &uri],
        );
    }
}

/// G6: mkfs on a brand-new export. The kernel's client is not needed: the same requests are replayed.
#[test]
fn a_never_written_export_takes_every_request() {
    let lab = Lab::ready(3, "1x256MiB", 3600);
    lab.volume("new", 64 * MIB, None);
    let uri = lab.server.nbd_uri("new");
    let args = [
        "-f",
        "raw",
        "-c",
        "discard 0 64M",
        "-c",
        "write -z 0 4k",
        "-c",
        "flush",
        "-c",
        "read -P 0 0 1M",
        "-c",
        "discard 4096 512",
        &uri,
    ];
    harness::tools::ok("qemu-io", &args);
    let image = lab.folder.path().join("ext4.img");
    let image = image.to_str().expect("plain");
    harness::tools::ok("truncate", &["-s", "64M", image]);
    harness::tools::ok("mkfs.ext4", &["-q", "-F", image]);
    harness::tools::ok("nbdcopy", &["--flush", image, &uri]);
    harness::tools::ok("qemu-img", &["compare", "-f", "raw", "-F", "raw", image, &uri]);
}
