//! Who may do what: every route of the router's own list, with every kind of caller, against a table written down here.
use super::{Answer, Bench, recorded};
use crate::db::users::Role;
use crate::http::auth::Access;
use crate::router;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode};

/// What needs nothing. Nothing else may.
const OPEN: [&str; 8] = [
    "GET /healthz",
    "GET /static/{*path}",
    "GET /setup",
    "POST /setup",
    "GET /login",
    "POST /login",
    "POST /theme",
    "GET /_kit",
];
/// Writes of the API that only administrators may do.
const ADMIN: [&str; 12] = [
    "POST /cluster",
    "PATCH /cluster",
    "POST /cluster/claims",
    "POST /lab",
    "POST /hosts",
    "PUT /fault-domains",
    "POST /disks",
    "POST /disks/{id}/replace",
    "PUT /licence",
    "PUT /license",
    "POST /import/scan",
    "POST /import",
];
/// Questions that are asked with a body.
const QUESTIONS: [&str; 2] = ["POST /what-if", "POST /policies/{name}/preview"];

/// The least role by the table; `None` is open.
fn least(method: &Method, path: &str) -> Option<Role> {
    let line = format!("{method} {path}");
    if OPEN.contains(&line.as_str()) {
        return None;
    }
    let Some(api) = path.strip_prefix("/api/v1/clusters/{cluster}").or(path.strip_prefix("/api/v1")) else {
        return Some(Role::Viewer);
    };
    let line = format!("{method} {api}");
    Some(if ADMIN.contains(&line.as_str()) {
        Role::Admin
    } else if *method == Method::GET || QUESTIONS.contains(&line.as_str()) {
        Role::Viewer
    } else {
        Role::Operator
    })
}

/// The path with something in its braces.
fn filled(path: &str) -> String {
    path.replace("{cluster}", "native")
        .replace("{id}", "00000000-0000-4000-8000-000000000001")
        .replace("{*path}", "app.css")
        .replace("{name}", "nothing")
        .split('/')
        .map(|part| if part.starts_with('{') { "x" } else { part })
        .collect::<Vec<_>>()
        .join("/")
}

fn is_api(path: &str) -> bool {
    path.starts_with("/api/") || path == "/metrics"
}

/// Refused for want of a session or token: 401 for programs, the way to the login page for people.
fn is_turned_away(path: &str, answer: &Answer) -> bool {
    match is_api(path) {
        true => {
            answer.status == StatusCode::UNAUTHORIZED
                && answer.header("content-type").contains("problem+json")
        }
        false => answer.status == StatusCode::SEE_OTHER && answer.header("location").starts_with("/login"),
    }
}

#[tokio::test]
async fn every_route_asks_for_what_the_table_says() {
    let bench = Bench::new(recorded()).await;
    let roles = [Role::Viewer, Role::Operator, Role::Admin];
    let (mut tokens, mut cookies) = (vec![], vec![]);
    for role in roles {
        tokens.push(format!("Bearer {}", bench.token(role).await));
        cookies.push(bench.cookie(role).await);
    }
    let json = ("content-type", "application/json");
    let routes = router::all();
    assert!(routes.len() > 100, "{}", routes.len());
    for route in &routes {
        let (method, pattern) = (route.method.clone(), route.path.as_str());
        let path = filled(pattern);
        let nobody = bench.call(method.clone(), &path, &[], "").await;
        let wrong = ("authorization", "Bearer mp_pat_0000000000000000000000000000000000000000000");
        let stranger = bench.call(method.clone(), &path, &[wrong, ("cookie", "sid=nonsense")], "").await;
        let Some(needs) = least(&method, pattern) else {
            assert_eq!(route.access, Access::Open, "{method} {pattern}");
            assert!(!is_turned_away(&path, &nobody), "{method} {pattern}");
            continue;
        };
        assert_ne!(route.access, Access::Open, "{method} {pattern}");
        assert!(is_turned_away(&path, &nobody), "{method} {pattern} without: {}", nobody.status);
        assert!(is_turned_away(&path, &stranger), "{method} {pattern} with nonsense: {}", stranger.status);
        if pattern == "/logout" {
            // It would end the sessions of this test.
            continue;
        }
        for (index, role) in roles.iter().enumerate() {
            let with_cookie =
                bench.call(method.clone(), &path, &[("cookie", cookies[index].as_str()), json], "").await;
            let with_token =
                bench.call(method.clone(), &path, &[("authorization", tokens[index].as_str())], "").await;
            if !is_api(&path) {
                // Pages say their own roles; what counts is that no token opens one, and no viewer is let through more.
                assert!(is_turned_away(&path, &with_token), "{method} {pattern} with a token");
                let Access::Role(needs) = route.access else { continue };
                assert_eq!(with_cookie.status == 403, *role < needs, "{method} {pattern} as {role:?}");
                continue;
            }
            for answer in [with_cookie, with_token] {
                let (status, refused) = (answer.status, *role < needs);
                assert_ne!(status, 401, "{method} {pattern} as {role:?}");
                assert_eq!(status == 403, refused, "{method} {pattern} as {role:?}: {status}");
            }
        }
    }
}

#[tokio::test]
async fn an_expired_session_opens_nothing() {
    let bench = Bench::new(recorded()).await;
    let cookie = bench.cookie(Role::Admin).await;
    let cookie = [("cookie", cookie.as_str())];
    assert_eq!(bench.call(Method::GET, "/api/v1/cluster", &cookie, "").await.status, 200);
    bench.later(31 * 60);
    for route in router::all().iter().filter(|route| route.access != Access::Open) {
        let path = filled(&route.path);
        let answer = bench.call(route.method.clone(), &path, &cookie, "").await;
        assert!(is_turned_away(&path, &answer), "{} {path}: {}", route.method, answer.status);
    }
}

#[tokio::test]
async fn no_spelling_of_a_path_gets_around_the_guard() {
    let bench = Bench::new(recorded()).await;
    let name = recorded().cluster.name;
    for path in [
        "//api/v1/cluster",
        "/api//v1/cluster",
        "/api/../api/v1/cluster",
        "/static/../api/v1/cluster",
        "/static/..%2fapi/v1/cluster",
        "/api/v1/./cluster",
        "/%61pi/v1/cluster",
        "/api/v1/%63luster",
        "/API/v1/cluster",
        "/api/v1/Cluster",
        "/api/v1/cluster/",
        "/api/v1/cluster;x=1",
        "/api/v1/cluster%00",
        "/healthz/../api/v1/cluster",
        "/api/v1/clusters/native/cluster",
        "/api",
        "/api/v1/no/such/thing",
    ] {
        for method in [Method::GET, Method::HEAD, Method::OPTIONS, Method::POST, Method::TRACE] {
            let answer = bench.call(method.clone(), path, &[], "").await;
            assert!(!answer.status.is_success(), "{method} {path}: {}", answer.status);
            assert!(!answer.text.contains(&name), "{method} {path} reveals the name");
            if path.starts_with("/api/") {
                assert_eq!(answer.status, 401, "{method} {path}");
            }
        }
    }
}

#[tokio::test]
async fn the_body_is_not_read_before_the_role_is_known() {
    let bench = Bench::new(recorded()).await;
    let viewer = bench.token(Role::Viewer).await;
    for (token, status) in [("", 401), (viewer.as_str(), 403)] {
        let never =
            futures_util::stream::poll_fn(|_| -> std::task::Poll<Option<Result<Vec<u8>, std::io::Error>>> {
                panic!("the body was read")
            });
        let request = Request::post("/api/v1/volumes").header("host", "localhost");
        let request =
            request.header("authorization", format!("Bearer {token}")).body(Body::from_stream(never));
        assert_eq!(bench.send(request.unwrap()).await.status, status);
    }
}

#[tokio::test]
async fn writes_from_elsewhere_and_foreign_names_are_refused() {
    let bench = Bench::new(recorded()).await;
    let cookie = bench.cookie(Role::Admin).await;
    let cookie = ("cookie", cookie.as_str());
    let json = ("content-type", "application/json");
    let body = r#"{"name": "x", "size_bytes": 1048576}"#;
    for evidence in [
        ("origin", "https://evil.example"),
        ("sec-fetch-site", "cross-site"),
        ("sec-fetch-site", "same-site"),
    ] {
        let answer = bench.call(Method::POST, "/api/v1/volumes", &[cookie, json, evidence], body).await;
        assert_eq!(answer.status, 403, "{evidence:?}");
        let answer = bench.call(Method::POST, "/logout", &[cookie, evidence], "").await;
        assert_eq!(answer.status, 403, "{evidence:?}");
    }
    let form =
        bench.call(Method::POST, "/api/v1/volumes", &[cookie, ("content-type", "text/plain")], body).await;
    assert_eq!(form.status, 403);
    let own = bench
        .call(Method::POST, "/api/v1/volumes", &[cookie, json, ("origin", "http://127.0.0.1:7400")], body)
        .await;
    assert_ne!(own.status, 403);
    for (host, ours) in [
        ("127.0.0.1:7400", true),
        ("localhost:9", true),
        ("[::1]:7400", true),
        ("mill.example", true),
        ("evil.example", false),
        ("127.0.0.1.evil.example", false),
        ("", false),
    ] {
        let request = Request::get("/healthz").header("host", host).body(Body::empty()).unwrap();
        assert_eq!(bench.send(request).await.status == 200, ours, "{host:?}");
    }
}

#[tokio::test]
async fn every_answer_carries_the_headers_that_keep_a_browser_safe() {
    let bench = Bench::new(recorded()).await;
    for path in ["/login", "/api/v1/cluster", "/no/such/page", "/healthz"] {
        let sent = ("x-request-id", "from-the-client");
        let answer = bench.call(Method::GET, path, &[sent], "").await;
        assert_eq!(answer.header("content-security-policy"), crate::http::layers::CSP, "{path}");
        for (name, value) in [
            ("x-content-type-options", "nosniff"),
            ("referrer-policy", "same-origin"),
            ("cross-origin-opener-policy", "same-origin"),
            ("cache-control", "no-store"),
        ] {
            assert_eq!(answer.header(name), value, "{path}");
        }
        let id = answer.header("x-request-id");
        assert!(id.len() == 32 && id != "from-the-client", "{path}: {id}");
    }
}
