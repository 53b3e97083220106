//! The contract, by `curl` alone: from a lab to a mirrored volume that survives a host.
use harness::{Lab, Server, server::claims};
use serde_json::json;

#[test]
fn a_lab_becomes_a_cluster_with_a_mirrored_volume() {
    let folder = tempfile::Builder::new().prefix("mp-").tempdir().expect("a folder");
    let args = ["--lab", &Lab::shape(4, "2x256MiB"), "--repair-delay", "3600"];
    let server = Server::start(&folder.path().join("data"), &args);
    let code = server.setup_code.clone().expect("the code stands alone on the second line");
    assert!(
        server.setup_url.as_deref().is_some_and(|url| url.ends_with(&format!("/setup#{code}"))),
        "{:?}",
        server.setup_url
    );
    let api = server.api("admin");

    assert_eq!(api.get("/api/v1/cluster")["state"], "unconfigured");
    assert_eq!(api.items("/api/v1/hosts").len(), 4);
    let disks = api.items("/api/v1/disks");
    assert_eq!(disks.len(), 12);
    assert!(
        disks.iter().all(|disk| disk["eligibility"] == "eligible" && disk["role"] == "none"),
        "{disks:?}"
    );
    let fault_domains = json!([{"name": "left", "hosts": ["h1"]}, {"name": "middle", "hosts": ["h2"]}, {"name": "right", "hosts": ["h3"]}]);
    let gold = json!({"name": "gold", "failures_to_tolerate": 1, "fault_tolerance_method": "raid1", "stripe_width": 2,
        "object_space_reservation_percent": 0, "iops_limit": null, "checksum": true, "force_provisioning": false, "site_tolerance": "none"});
    api.post("/api/v1/policies", &gold);
    api.post(
        "/api/v1/cluster",
        &json!({"name": "mill", "type": "single-site", "fault_domains": fault_domains, "claims": claims(&api), "default_policy": "gold"}),
    );
    let cluster = api.get("/api/v1/cluster");
    assert_eq!(
        (&cluster["state"], &cluster["name"], &cluster["engine"]),
        (&json!("ready"), &json!("mill"), &json!("native"))
    );
    assert_eq!(cluster["default_policy"], "gold");

    let volume =
        api.expect(201, "POST", "/api/v1/volumes", Some(&json!({"name": "db", "size_bytes": 64 << 20})));
    assert_eq!(
        (&volume["health"], &volume["compliance"], &volume["policy"]),
        (&json!("healthy"), &json!("compliant"), &json!("gold"))
    );
    let object = api.get(&format!("/api/v1/objects/{}", volume["uuid"].as_str().expect("uuid")));
    let leaves = harness::server::leaves(&object);
    let data: Vec<_> = leaves.iter().filter(|leaf| leaf["kind"] == "component").collect();
    assert_eq!(data.len(), 4, "two copies of two columns: {object}");
    assert_eq!(
        object["votes"]["total"].as_u64().expect("votes") % 2,
        1,
        "the total of votes is odd: {object}"
    );
    assert_eq!(object["tolerates_now"], 1);

    api.expect(409, "POST", "/api/v1/volumes", Some(&json!({"name": "db", "size_bytes": 64 << 20})));
    api.expect(200, "PATCH", "/api/v1/volumes/db", Some(&json!({"size_bytes": 128 << 20})));
    assert_eq!(api.get("/api/v1/volumes/db")["size_bytes"], 128 << 20);
    api.expect(422, "DELETE", "/api/v1/volumes/db", None);
    api.expect(204, "DELETE", "/api/v1/volumes/db?confirm=db", None);
    api.expect(404, "GET", "/api/v1/volumes/db", None);
    server.stop();
}

#[test]
fn lists_page_and_roles_are_kept() {
    let lab = Lab::ready(3, "1x256MiB", 3600);
    for index in 0..5 {
        lab.volume(&format!("v{index}"), 1 << 20, None);
    }
    let first = lab.api.get("/api/v1/volumes?limit=2");
    assert_eq!(first["items"].as_array().expect("items").len(), 2);
    let next = first["next"].as_str().expect("a cursor").to_owned();
    let second = lab.api.get(&format!("/api/v1/volumes?limit=2&after={next}"));
    assert_eq!(second["items"][0]["name"], "v2");
    for limit in ["0", "-1", "1000000000", "x"] {
        let answer = lab.api.call("GET", &format!("/api/v1/volumes?limit={limit}"), None);
        assert!(matches!(answer.status, 400 | 422), "limit={limit} answered {}", answer.status);
    }
    let viewer = lab.server.api("viewer");
    viewer.expect(403, "POST", "/api/v1/volumes", Some(&json!({"name": "x", "size_bytes": 1 << 20})));
    let nobody = harness::Api { base: lab.server.base.clone(), token: String::new() };
    nobody.expect(401, "GET", "/api/v1/volumes", None);
    nobody.expect(200, "GET", "/healthz", None);
}

#[test]
fn what_is_not_there_yet_says_so() {
    let lab = Lab::ready(3, "1x256MiB", 3600);
    let raid5 = json!({"name": "r5", "failures_to_tolerate": 1, "fault_tolerance_method": "raid5", "stripe_width": 1,
        "object_space_reservation_percent": 0, "iops_limit": null, "checksum": true, "force_provisioning": false, "site_tolerance": "none"});
    let answer = lab.api.call("POST", "/api/v1/policies", Some(&raid5));
    assert!(matches!(answer.status, 409 | 422 | 501) && answer.text.contains("RAID-5"), "{}", answer.text);
    let document = lab.api.get("/api/v1/openapi.json");
    assert!(document["paths"]["/api/v1/volumes"].is_object(), "the API describes itself");
    assert_eq!(lab.api.get("/api/v1/cluster")["capabilities"]["raid5"]["available"], false);
}
