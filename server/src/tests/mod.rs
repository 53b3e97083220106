//! Tests of the whole server in process: the real router and databases, a recorded engine, a clock that is set by hand.
use crate::app::{App, Config, NATIVE};
use crate::db::users::Role;
use crate::edge::{Clock, SystemRng};
use crate::service::auth;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};
use model::recorded::{GenerateSpec, Recorded, generate};
use model::state::ClusterState;
use model::units::Timestamp;
use model::view::Snapshot;
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering};
use tower::ServiceExt;

mod access;
mod api;
mod cases;
mod grouping;
mod import;
mod inventory;
mod people;
mod projections;
mod tls;

/// 2027-01-15.
const NOW: i64 = 1_800_000_000_000;

/// A clock that stands until it is set.
struct HandClock(AtomicI64);

impl Clock for HandClock {
    fn now(&self) -> Timestamp {
        Timestamp(self.0.load(Ordering::SeqCst))
    }
}

/// A server in its own folder.
struct Bench {
    app: App,
    engine: Arc<Recorded>,
    clock: Arc<HandClock>,
    router: axum::Router,
    folder: tempfile::TempDir,
}

/// An answer, read to its end.
struct Answer {
    status: StatusCode,
    headers: axum::http::HeaderMap,
    text: String,
}

impl Answer {
    fn json(&self) -> serde_json::Value {
        serde_json::from_str(&self.text).unwrap_or_default()
    }

    fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

fn recorded() -> Snapshot {
    generate(GenerateSpec { seed: 7, hosts: 6, disks_per_host: 2, objects: 25, faults: 1 })
}

fn unconfigured() -> Snapshot {
    let mut snapshot = generate(GenerateSpec { seed: 1, hosts: 1, disks_per_host: 1, objects: 0, faults: 0 });
    snapshot.cluster.state = ClusterState::Unconfigured;
    snapshot.cluster.writable = true;
    (snapshot.hosts, snapshot.disks, snapshot.objects) = (vec![], vec![], vec![]);
    snapshot
}

impl Bench {
    async fn new(snapshot: Snapshot) -> Self {
        Self::with(snapshot, |_| {}).await
    }

    /// With another command line.
    async fn with(snapshot: Snapshot, change: impl FnOnce(&mut Config)) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let engine = Arc::new(Recorded::new(snapshot));
        let clock = Arc::new(HandClock(AtomicI64::new(NOW)));
        let mut config = Config {
            data_dir: folder.path().to_owned(),
            listen: "127.0.0.1:7400".parse().unwrap(),
            public_url: Some("http://mill.example".into()),
            file_disk_dirs: vec![folder.path().canonicalize().unwrap()],
            lists_devices: false,
            inventory_dir: None,
            allows_loop_devices: false,
            lab: None,
            repair_delay_seconds: None,
            tls_source: None,
            tls: None,
            names: Vec::new(),
            supervised: false,
        };
        change(&mut config);
        let engines = vec![(NATIVE.to_owned(), engine.clone() as Arc<dyn model::engine::Engine>)];
        let app = App::open(config, clock.clone(), Arc::new(SystemRng), engines).await.unwrap();
        app.start_tasks();
        let router = crate::router::build(&app);
        Self { app, engine, clock, router, folder }
    }

    fn later(&self, seconds: i64) {
        self.clock.0.fetch_add(seconds * 1000, Ordering::SeqCst);
    }

    async fn token(&self, role: Role) -> String {
        let now = self.app.clock.now();
        auth::create_token(&self.app.console, self.app.rng.as_ref(), now, role.word(), role).await.unwrap()
    }

    /// A cookie header of a new session of a new user.
    async fn cookie(&self, role: Role) -> String {
        let (app, name) = (&self.app, role.word());
        let now = app.clock.now();
        let _ = auth::add_user(&app.console, &app.passwords, now, name, role, "correct horse").await;
        let secret = auth::sign_in(app, name, "correct horse", "127.0.0.1", "test", None).await.unwrap();
        format!("sid={secret}")
    }

    async fn send(&self, request: Request<Body>) -> Answer {
        let response = self.router.clone().oneshot(request).await.unwrap();
        let (parts, body) = response.into_parts();
        let is_stream =
            parts.headers.get(header::CONTENT_TYPE).is_some_and(|kind| kind == "text/event-stream");
        let bytes = match is_stream {
            true => Vec::new(),
            false => axum::body::to_bytes(body, 16 << 20).await.unwrap().to_vec(),
        };
        let text = String::from_utf8_lossy(&bytes).into_owned();
        Answer { status: parts.status, headers: parts.headers, text }
    }

    /// One request with these headers and body.
    async fn call(&self, method: Method, path: &str, headers: &[(&str, &str)], body: &str) -> Answer {
        let mut request = Request::builder().method(method).uri(path).header(header::HOST, "127.0.0.1:7400");
        for (name, value) in headers {
            request = request.header(*name, *value);
        }
        self.send(request.body(Body::from(body.to_owned())).unwrap()).await
    }

    /// One request of a program.
    async fn api(&self, token: &str, method: Method, path: &str, body: &str) -> Answer {
        let bearer = format!("Bearer {token}");
        let json = ("content-type", "application/json");
        self.call(method, path, &[("authorization", &bearer), json], body).await
    }
}

impl Drop for Bench {
    fn drop(&mut self) {
        self.app.stopping.send_replace(true);
    }
}
