//! The API's answers to right and wrong input, on a recording and on a draft.
use super::{Bench, recorded, unconfigured};
use crate::db::users::Role;
use crate::router;
use axum::http::Method;
use model::recorded::{GenerateSpec, generate};
use serde_json::json;

const NOT_NAMES: [&str; 12] = [
    "../../tmp/x",
    "..%2f..%2fx",
    "a/../../x",
    "C:\\x",
    ".",
    "..",
    "",
    "-x",
    "/etc/passwd",
    "a b",
    "a\u{0}",
    "<img>",
];

#[tokio::test]
async fn the_document_describes_every_route_and_no_other() {
    let document: serde_json::Value = serde_json::from_str(crate::api::openapi::DOCUMENT).unwrap();
    let mut described = 0;
    for (_, item) in document["paths"].as_object().unwrap() {
        described += item
            .as_object()
            .unwrap()
            .keys()
            .filter(|key| ["get", "post", "put", "patch", "delete"].contains(&key.as_str()))
            .count();
    }
    let api: Vec<_> =
        router::all().into_iter().filter(|route| crate::http::failure::is_api(&route.path)).collect();
    for route in &api {
        let operation = &document["paths"][&route.path][route.method.as_str().to_lowercase()];
        assert!(
            operation["summary"].as_str().is_some_and(|text| !text.is_empty()),
            "{} {}",
            route.method,
            route.path
        );
    }
    assert_eq!(described, api.len());
    // Every reference leads somewhere.
    let text = document.to_string();
    for part in text.split("#/components/schemas/").skip(1) {
        let name = part.split('"').next().unwrap();
        assert!(document["components"]["schemas"][name].is_object(), "{name}");
    }
}

#[tokio::test]
async fn every_list_of_a_recording_answers_and_pages() {
    let bench = Bench::new(recorded()).await;
    let token = bench.token(Role::Viewer).await;
    for path in [
        "cluster",
        "hosts",
        "disks",
        "policies",
        "volumes",
        "objects",
        "capacity",
        "resync",
        "health",
        "tasks",
        "events",
        "licence",
        "license",
        "performance?entity=cluster&metric=write_iops",
        "openapi.json",
        "clusters/native/volumes",
    ] {
        let answer = bench.api(&token, Method::GET, &format!("/api/v1/{path}"), "").await;
        assert_eq!(answer.status, 200, "{path}: {}", answer.text);
    }
    let mut seen = Vec::new();
    let mut after = String::new();
    loop {
        let answer =
            bench.api(&token, Method::GET, &format!("/api/v1/volumes?limit=7{after}"), "").await.json();
        seen.extend(
            answer["items"].as_array().unwrap().iter().map(|item| item["name"].as_str().unwrap().to_owned()),
        );
        match answer["next"].as_str() {
            Some(next) => after = format!("&after={next}"),
            None => break,
        }
    }
    let mut names: Vec<String> = recorded().objects.iter().map(|object| object.name.clone()).collect();
    names.sort();
    assert_eq!(seen, names);
    for wrong in
        ["limit=0", "limit=1001", "limit=-1", "limit=x", "after=nonsense", "sort=colour", "health=fine"]
    {
        let answer = bench.api(&token, Method::GET, &format!("/api/v1/volumes?{wrong}"), "").await;
        assert_eq!(answer.status, 422, "{wrong}: {}", answer.text);
    }
}

#[tokio::test]
async fn wrong_input_names_its_field_and_a_recording_changes_nothing() {
    let bench = Bench::new(recorded()).await;
    let token = bench.token(Role::Admin).await;
    let post = |body: String| {
        let (bench, token) = (&bench, &token);
        async move { bench.api(token, Method::POST, "/api/v1/volumes", &body).await }
    };
    for name in NOT_NAMES {
        let answer = post(json!({"name": name, "size_bytes": 1 << 20}).to_string()).await;
        assert_eq!(answer.status, 422, "{name:?}: {}", answer.text);
        assert_eq!(answer.json()["errors"][0]["field"], "name", "{name:?}");
    }
    for size in
        [json!(0), json!(1_u64 << 62), json!(-1), json!("big"), json!(null), json!(1.5), json!((1 << 20) + 1)]
    {
        let answer = post(json!({"name": "ok", "size_bytes": size}).to_string()).await;
        assert_eq!(answer.status, 422, "{size}: {}", answer.text);
        assert_eq!(answer.json()["errors"][0]["field"], "size_bytes", "{size}");
    }
    assert_eq!(post("{\"name\":".into()).await.status, 400);
    assert_eq!(post(json!({"name": "ok", "size_bytes": 1 << 20, "colour": 1}).to_string()).await.status, 422);
    assert_eq!(post("x".repeat(2 << 20)).await.status, 413);
    let refused = post(json!({"name": "ok", "size_bytes": 1 << 20}).to_string()).await;
    assert_eq!(refused.status, 501);
    assert_eq!(refused.header("content-type"), "application/problem+json");
    for field in ["type", "title", "status", "detail", "request_id"] {
        assert!(!refused.json()[field].is_null(), "{field}");
    }
    for target in ["host:none", "disk:x", "colour", "site:A", "disk:00000000-0000-4000-8000-000000000001"] {
        let body = json!({"fail": [target]}).to_string();
        let answer = bench.api(&token, Method::POST, "/api/v1/what-if", &body).await;
        assert_eq!(answer.status, 422, "{target}: {}", answer.text);
    }
    let host = recorded().hosts[0].name.clone();
    let body = json!({"target": format!("host:{host}"), "fault": "corrupt"}).to_string();
    assert_eq!(bench.api(&token, Method::POST, "/api/v1/lab/faults", &body).await.status, 422);
}

#[tokio::test]
async fn a_draft_is_made_by_api_step_by_step() {
    let bench = Bench::new(unconfigured()).await;
    let token = bench.token(Role::Admin).await;
    let call = |method: Method, path: &'static str, body: serde_json::Value| {
        let (bench, token) = (&bench, &token);
        async move { bench.api(token, method, &format!("/api/v1/{path}"), &body.to_string()).await }
    };
    let lab = json!({"hosts": 3, "cache": "1x64MiB", "capacity": "1x64MiB"});
    assert_eq!(call(Method::POST, "lab", lab).await.status, 200);
    let too_large = json!({"hosts": 64, "cache": "0", "capacity": "35x1000TiB"});
    let refused = call(Method::POST, "lab", too_large).await;
    assert!(refused.status == 409 && refused.text.contains("free"), "{}", refused.text);
    let small = json!({"hosts": 3, "cache": "1x1MiB", "capacity": "1x64MiB"});
    assert_eq!(call(Method::POST, "lab", small).await.json()["errors"][0]["field"], "cache");

    let hosts = call(Method::GET, "hosts", json!({})).await.json();
    assert_eq!(hosts["items"].as_array().unwrap().len(), 3);
    let disks = call(Method::GET, "disks", json!({})).await.json();
    let again = call(Method::GET, "disks", json!({})).await.json();
    assert_eq!(disks, again, "ids are fixed at first sight");
    assert_eq!(disks["items"].as_array().unwrap().len(), 6);

    let gold = json!({"name": "gold", "failures_to_tolerate": 1, "fault_tolerance_method": "raid1", "stripe_width": 0});
    let wrong = call(Method::POST, "policies", gold).await;
    assert_eq!(
        (wrong.status.as_u16(), wrong.json()["errors"][0]["field"].as_str()),
        (422, Some("stripe_width"))
    );
    let domains = json!([{"name": "a", "hosts": ["h1", "h9"]}, {"name": "A", "hosts": ["h1"]}, {"name": "../x", "hosts": []}]);
    let wrong = call(Method::PUT, "fault-domains", domains).await.json();
    let fields: Vec<&str> =
        wrong["errors"].as_array().unwrap().iter().filter_map(|error| error["field"].as_str()).collect();
    assert_eq!(
        fields,
        [
            "fault_domains[0].hosts[1]",
            "fault_domains[1].name",
            "fault_domains[1].hosts[0]",
            "fault_domains[2].name"
        ]
    );
    for name in NOT_NAMES {
        let answer = call(Method::POST, "hosts", json!({"name": name, "kind": "machine"})).await;
        assert_eq!(answer.status, 422, "{name:?}");
    }
    assert_eq!(call(Method::POST, "cluster", json!({"name": "mill", "claims": []})).await.status, 422);
    let answer = call(Method::POST, "volumes", json!({"name": "db", "size_bytes": 1 << 20})).await;
    assert_eq!(answer.status, 409, "there is no cluster yet: {}", answer.text);
}

#[tokio::test]
async fn a_file_disk_stays_in_its_folder() {
    let bench = Bench::new(unconfigured()).await;
    let token = bench.token(Role::Admin).await;
    let folder = bench.folder.path().canonicalize().unwrap();
    let folder = folder.to_str().unwrap();
    let host = json!({"name": "box", "kind": "machine"}).to_string();
    assert_eq!(bench.api(&token, Method::POST, "/api/v1/hosts", &host).await.status, 201);
    let add = |path: String| {
        let (bench, token) = (&bench, &token);
        let body = json!({"host": "box", "path": path, "size_bytes": 64 << 20}).to_string();
        async move { bench.api(token, Method::POST, "/api/v1/disks", &body).await }
    };
    for path in ["/etc/passwd", "relative.img", "/tmp/../etc/x", "", "/"] {
        assert_eq!(add(path.into()).await.json()["errors"][0]["field"], "path", "{path:?}");
    }
    assert_eq!(add(format!("{folder}/../x.img")).await.status, 422);
    assert_eq!(add(format!("{folder}/a.img")).await.status, 201);
    assert_eq!(add(format!("{folder}/a.img")).await.status, 409);
    assert!(!bench.folder.path().join("a.img").exists(), "nothing is made before it is claimed");
}

#[tokio::test]
async fn other_fault_domains_are_looked_at_before_they_are_put_in_force() {
    let whole = GenerateSpec { seed: 7, hosts: 6, disks_per_host: 2, objects: 25, faults: 0 };
    let bench = Bench::new(generate(whole)).await;
    let admin = bench.token(Role::Admin).await;
    let hosts = bench.api(&admin, Method::GET, "/api/v1/hosts", "").await.json();
    let names: Vec<_> = hosts["items"].as_array().unwrap().iter().map(|host| host["name"].clone()).collect();
    let put = |query: &str, domains: serde_json::Value| {
        let (bench, admin, path) = (&bench, &admin, format!("/api/v1/fault-domains{query}"));
        async move { bench.api(admin, Method::PUT, &path, &domains.to_string()).await }
    };
    let together = json!([{"name": "room", "hosts": names}]);
    let seen = put("?preview=1", together.clone()).await;
    assert_eq!(seen.status, 200, "{}", seen.text);
    let seen = seen.json();
    assert_eq!(seen["would_have_fault_domains"], 1);
    assert!(
        seen["bytes_to_move"].as_u64().unwrap() > 0 && seen["without_a_place"].as_u64().unwrap() > 0,
        "{seen}"
    );
    let broken = seen["objects"].as_array().unwrap().iter().filter(|object| object["breaks_policy"] == true);
    assert!(broken.clone().count() > 0 && broken.clone().all(|object| object["uuid"].is_string()), "{seen}");
    let same = put("?preview=1", json!([])).await.json();
    assert_eq!((&same["objects"], &same["bytes_to_move"]), (&json!([]), &json!(0)), "{same}");
    assert_eq!(put("?preview=1", json!([{"name": "a", "hosts": ["nobody"]}])).await.status, 422);
    assert_eq!(put("?preview=yes", together).await.status, 422);
    let operator = bench.token(Role::Operator).await;
    let refused = bench.api(&operator, Method::PUT, "/api/v1/fault-domains?preview=1", "[]").await;
    assert_eq!(refused.status, 403);
}
