//! Looking for a cluster on disks: who may, what is refused, and that what is no disk of ours is named with its reason.
use super::{Bench, recorded, unconfigured};
use crate::db::users::Role;
use axum::http::Method;
use serde_json::json;

async fn get(bench: &Bench, cookie: &str, path: &str) -> super::Answer {
    bench.call(Method::GET, path, &[("cookie", cookie)], "").await
}

#[tokio::test]
async fn the_page_is_for_administrators_and_explains_wrong_paths() {
    let bench = Bench::new(unconfigured()).await;
    let (admin, viewer) = (bench.cookie(Role::Admin).await, bench.cookie(Role::Viewer).await);
    assert_eq!(get(&bench, &viewer, "/import").await.status, 403);
    let page = get(&bench, &admin, "/import").await;
    assert_eq!(page.status, 200);
    assert!(page.text.contains("Look, without writing"), "{}", page.text);
    for (query, status, words) in [
        ("", 422, "name at least one disk or folder"),
        ("&paths=lab%2Fh1", 422, "is no absolute path"),
        ("&paths=%2Fdev%2Fnull", 409, "neither a file nor a block device"),
    ] {
        let page = get(&bench, &admin, &format!("/import?look=1{query}")).await;
        assert_eq!(page.status, status, "{query}");
        assert!(page.text.contains(words), "{query}: {}", page.text);
    }
}

#[tokio::test]
async fn what_is_no_disk_of_ours_is_named_and_left_as_it_is() {
    let bench = Bench::new(unconfigured()).await;
    let folder = tempfile::tempdir().unwrap();
    let (small, blank) = (folder.path().join("a & b"), folder.path().join("blank"));
    std::fs::write(&small, "notes").unwrap();
    std::fs::File::create(&blank).and_then(|file| file.set_len(64 << 20)).unwrap();
    let token = bench.token(Role::Admin).await;
    let body = json!({"paths": [folder.path()]}).to_string();
    let found = bench.api(&token, Method::POST, "/api/v1/import/scan", &body).await;
    assert_eq!(found.status, 200, "{}", found.text);
    let found = found.json();
    assert_eq!(found["clusters"], json!([]));
    let refused = found["refused"].as_array().unwrap();
    assert_eq!(refused.len(), 2, "{found}");
    assert!(
        refused.iter().all(|path| path["reason"].as_str().unwrap().contains("no superblock of Millpond")),
        "{found}"
    );
    let cookie = bench.cookie(Role::Admin).await;
    let path = folder.path().to_str().unwrap().replace('/', "%2F");
    let page = get(&bench, &cookie, &format!("/import?look=1&paths={path}")).await;
    assert!(
        page.text.contains("No cluster of Millpond on these disks") && page.text.contains("a &#38; b"),
        "{}",
        page.text
    );
    assert_eq!(std::fs::read(&small).unwrap(), b"notes");
}

#[tokio::test]
async fn a_cluster_that_is_not_there_cannot_be_taken_over() {
    let id = "11111111-1111-4111-8111-111111111111";
    let folder = tempfile::tempdir().unwrap();
    let body = json!({"cluster": id, "paths": [folder.path()]}).to_string();
    let configured = Bench::new(recorded()).await;
    let token = configured.token(Role::Admin).await;
    let answer = configured.api(&token, Method::POST, "/api/v1/import", &body).await;
    assert_eq!(answer.status, 409, "{}", answer.text);
    let bench = Bench::new(unconfigured()).await;
    let token = bench.token(Role::Admin).await;
    let answer = bench.api(&token, Method::POST, "/api/v1/import", &body).await;
    assert_eq!(answer.status, 404, "{}", answer.text);
    let answer =
        bench.api(&token, Method::POST, "/api/v1/import", r#"{"cluster": "x", "paths": ["/tmp"]}"#).await;
    assert_eq!(
        (answer.status.as_u16(), &answer.json()["errors"][0]["field"]),
        (422, &json!("cluster")),
        "{}",
        answer.text
    );
    let (cookie, form) =
        (bench.cookie(Role::Admin).await, ("content-type", "application/x-www-form-urlencoded"));
    let answer =
        bench.call(Method::POST, "/import", &[("cookie", &cookie), form], "cluster=x&path=%2Ftmp").await;
    assert_eq!(answer.status, 404, "{}", answer.text);
    // What is in the way, or gone, shows what is there now, with what was asked for.
    let form_of = format!("cluster={id}&path=%2Ftmp%2Fno-such-disk");
    let answer = bench.call(Method::POST, "/import", &[("cookie", &cookie), form], &form_of).await;
    assert_eq!(answer.status, 409, "{}", answer.text);
    assert!(
        answer.text.contains("/tmp/no-such-disk") && answer.text.contains("Look, without writing"),
        "{}",
        answer.text
    );
    let answer =
        bench.call(Method::POST, "/import", &[("cookie", &cookie), form], &format!("cluster={id}")).await;
    assert_eq!(answer.status, 422, "{}", answer.text);
    assert!(answer.text.contains("name at least one disk or folder"), "{}", answer.text);
}
