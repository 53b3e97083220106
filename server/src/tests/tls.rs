//! What is different when this server itself speaks TLS: cookies, HSTS, the names it answers to.
use super::{Bench, NOW, recorded};
use crate::db::users::Role;
use crate::service::auth;
use crate::tls::{Source, Tls};
use axum::http::Method;
use model::units::Timestamp;

async fn over_tls() -> Bench {
    Bench::with(recorded(), |config| {
        let names = ["localhost", "pond.example", "10.0.0.7"].map(str::to_owned).to_vec();
        config.listen = "0.0.0.0:7400".parse().unwrap();
        config.names = vec!["10.0.0.8".into()];
        config.tls = Some(Tls::open(Source::SelfSigned, &config.data_dir, names, Timestamp(NOW)).unwrap());
    })
    .await
}

async fn log_in(bench: &Bench) -> String {
    let app = &bench.app;
    let now = app.clock.now();
    auth::add_user(&app.console, &app.passwords, now, "ada", Role::Admin, "correct horse").await.unwrap();
    let form = ("content-type", "application/x-www-form-urlencoded");
    let answer = bench.call(Method::POST, "/login", &[form], "name=ada&password=correct+horse").await;
    assert_eq!(answer.status, 303, "{}", answer.text);
    answer.header("set-cookie").to_owned()
}

#[tokio::test]
async fn over_tls_cookies_are_secure_and_bound_to_the_host() {
    let bench = over_tls().await;
    let cookie = log_in(&bench).await;
    assert!(cookie.starts_with("__Host-sid=") && cookie.contains("; Secure"), "{cookie}");
    assert!(
        cookie.contains("Path=/;") && cookie.contains("HttpOnly") && !cookie.contains("Domain"),
        "{cookie}"
    );
    let pair = cookie.split(';').next().unwrap().to_owned();
    let bench_ref = &bench;
    let open = |cookie: String| async move {
        bench_ref.call(Method::GET, "/api/v1/cluster", &[("cookie", &cookie)], "").await
    };
    assert_eq!(open(pair.clone()).await.status, 200);
    // What plain HTTP or another host could have planted counts for nothing.
    assert_eq!(open(pair.replace("__Host-sid", "sid")).await.status, 401);
    let gone = bench.call(Method::POST, "/logout", &[("cookie", &pair)], "").await;
    let cookie = gone.header("set-cookie");
    assert!(
        cookie.starts_with("__Host-sid=;") && cookie.contains("Max-Age=0") && cookie.contains("Secure"),
        "{cookie}"
    );
    let answer = bench.call(Method::GET, "/healthz", &[], "").await;
    assert_eq!(
        answer.header("strict-transport-security"),
        "",
        "other ports of this name may speak plain HTTP"
    );
}

#[tokio::test]
async fn behind_a_proxy_that_speaks_tls_cookies_are_secure_too() {
    let named = |config: &mut crate::app::Config| config.public_url = Some("https://mill.example".into());
    let bench = Bench::with(recorded(), named).await;
    let cookie = log_in(&bench).await;
    assert!(cookie.starts_with("__Host-sid=") && cookie.contains("; Secure"), "{cookie}");
    let answer = bench.call(Method::GET, "/healthz", &[], "").await;
    assert_eq!(answer.header("strict-transport-security"), "max-age=31536000");
}

#[tokio::test]
async fn without_tls_nothing_pretends_to_be_secure() {
    let bench = Bench::new(recorded()).await;
    let cookie = log_in(&bench).await;
    assert!(cookie.starts_with("sid=") && !cookie.contains("Secure"), "{cookie}");
    let answer = bench.call(Method::GET, "/healthz", &[], "").await;
    assert_eq!(answer.header("strict-transport-security"), "");
}

#[tokio::test]
async fn it_answers_to_the_names_of_its_certificate_and_of_the_machine() {
    let bench = over_tls().await;
    let status = |host: &'static str| {
        let request = axum::http::Request::builder().uri("/healthz").header("host", host);
        let request = request.body(axum::body::Body::empty()).unwrap();
        bench.send(request)
    };
    for host in ["pond.example:7400", "10.0.0.7", "10.0.0.8:7400", "0.0.0.0:7400", "localhost"] {
        assert_eq!(status(host).await.status, 200, "{host}");
    }
    for host in ["evil.example", "10.0.0.9", "pond.example.evil.example", ""] {
        assert_eq!(status(host).await.status, 421, "{host:?}");
    }
    // HTTP/2 has no Host header, but an authority.
    let request = axum::http::Request::builder().uri("https://evil.example/healthz");
    let answer = bench.send(request.body(axum::body::Body::empty()).unwrap()).await;
    assert_eq!(answer.status, 421);
    let request = axum::http::Request::builder().uri("https://pond.example/healthz");
    assert_eq!(bench.send(request.body(axum::body::Body::empty()).unwrap()).await.status, 200);
}
