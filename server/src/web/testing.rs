//! A console over recorded data for handler tests: signed in as an administrator, it gets and posts as a browser without
//! script would. The time is that of the sample, so that ages and countdowns are fixed.
use crate::app::{App, Config};
use crate::db::users::Role;
use crate::edge::{Clock, SystemRng};
use crate::service::auth;
use crate::web::sample;
use axum::body::Body;
use axum::http::{Method, Request, StatusCode, header};
use model::engine::{
    Applied, Attach, Capabilities, Capability, Counters, Engine, EngineError, EngineFuture, EngineKind,
    EventBatch, Intent,
};
use model::ids::{ObjectId, TaskId};
use model::policy::Policy;
use model::recorded::Recorded;
use model::units::Timestamp;
use model::view::{Event, Snapshot};
use model::what_if::{Answer, Question};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};
use tower::ServiceExt;

/// A recording that says it can mirror, stripe and be broken, and takes every intent down instead of refusing it.
pub struct Told {
    recorded: Recorded,
    policies: Vec<Policy>,
    intents: Mutex<Vec<Intent>>,
}

impl Engine for Told {
    fn capabilities(&self) -> Capabilities {
        let can =
            |available, why_not: Option<&str>| Capability { available, why_not: why_not.map(Into::into) };
        let mut features = BTreeMap::new();
        for name in ["raid1", "stripe", "iops-limit", "faults", "resync-limit"] {
            features.insert(name.to_owned(), can(true, None));
        }
        let later = "RAID-5 and RAID-6 come with a later release";
        features.insert("raid5".into(), can(false, Some(later)));
        features.insert("raid6".into(), can(false, Some(later)));
        Capabilities { engine: EngineKind::Recorded, features }
    }
    fn snapshot(&self) -> EngineFuture<'_, Arc<Snapshot>> {
        self.recorded.snapshot()
    }
    fn events(&self, seq: u64, version: u64) -> EngineFuture<'_, EventBatch> {
        self.recorded.events(seq, version)
    }
    fn apply(&self, _task: TaskId, intent: Intent) -> EngineFuture<'_, Applied> {
        if let Intent::PutPolicy { policy, expected_version: Some(expected), .. } = &intent {
            let known = self.policies.iter().find(|known| known.name == policy.name);
            if let Some(known) = known.filter(|known| known.version != *expected) {
                let what = format!("policy \"{}\"", policy.name);
                let stale = EngineError::StaleVersion { what, current: known.version.to_string() };
                return Box::pin(std::future::ready(Err(stale)));
            }
        }
        self.intents.lock().expect("no test panics while it holds this").push(intent);
        Box::pin(std::future::ready(Ok(Applied { done: true, ..Applied::default() })))
    }
    fn cancel(&self, task: TaskId) -> EngineFuture<'_, ()> {
        self.recorded.cancel(task)
    }
    fn what_if(&self, question: Question) -> EngineFuture<'_, Answer> {
        self.recorded.what_if(question)
    }
    fn attach(&self, volume: ObjectId) -> EngineFuture<'_, Attach> {
        self.recorded.attach(volume)
    }
    fn counters(&self) -> EngineFuture<'_, BTreeMap<String, Counters>> {
        self.recorded.counters()
    }
    fn shutdown(&self) -> EngineFuture<'_, ()> {
        self.recorded.shutdown()
    }
}

struct Fixed;

impl Clock for Fixed {
    fn now(&self) -> Timestamp {
        sample::NOW
    }
}

/// A signed-in console.
pub struct Console {
    /// The state behind it.
    pub app: App,
    engine: Arc<Told>,
    router: axum::Router,
    cookie: String,
    _folder: tempfile::TempDir,
}

impl Console {
    /// Over the sample cluster.
    pub async fn sample() -> Self {
        Self::over(sample::snapshot()).await
    }

    /// Over any snapshot.
    pub async fn over(snapshot: Snapshot) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let engine = Arc::new(Told {
            policies: snapshot.policies.clone(),
            recorded: Recorded::new(snapshot),
            intents: Mutex::default(),
        });
        let config = Config {
            data_dir: folder.path().to_owned(),
            listen: "127.0.0.1:7400".parse().expect("an address"),
            public_url: None,
            file_disk_dirs: Vec::new(),
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
        let shared: Arc<dyn Engine> = engine.clone();
        let engines = vec![(crate::app::NATIVE.to_owned(), shared)];
        let app = App::open(config, Arc::new(Fixed), Arc::new(SystemRng), engines).await.expect("an app");
        let code = app.setup.text().to_owned();
        let secret = auth::set_up(&app, &code, "ada", "a long password", "", "").await.expect("a session");
        let actor = auth::session_actor(&app, &secret, false).await.expect("an actor");
        assert_eq!(actor.role, Role::Admin);
        let router = crate::router::build(&app);
        Self { app, engine, router, cookie: format!("sid={secret}"), _folder: folder }
    }

    /// Adds events to the history.
    pub async fn add_events(&self, events: &[Event]) {
        let events: Vec<_> = events.iter().map(|event| (event.clone(), None)).collect();
        crate::db::history::add_events(&self.app.console, crate::app::NATIVE, &events).await.expect("added");
    }

    /// What the pages asked the engine to do.
    pub fn intents(&self) -> Vec<Intent> {
        self.engine.intents.lock().expect("no test panics while it holds this").clone()
    }

    /// `GET`.
    pub async fn get(&self, path: &str) -> (StatusCode, String) {
        self.send(Method::GET, path, Body::empty()).await
    }

    /// `POST` of a form.
    pub async fn post(&self, path: &str, form: &str) -> (StatusCode, String) {
        self.send(Method::POST, path, Body::from(form.to_owned())).await
    }

    async fn send(&self, method: Method, path: &str, body: Body) -> (StatusCode, String) {
        let request = Request::builder()
            .method(method)
            .uri(path)
            .header(header::HOST, "127.0.0.1:7400")
            .header(header::COOKIE, &self.cookie)
            .header(header::CONTENT_TYPE, "application/x-www-form-urlencoded")
            .body(body)
            .expect("a request");
        let response = self.router.clone().oneshot(request).await.expect("an answer");
        let status = response.status();
        let bytes = axum::body::to_bytes(response.into_body(), 1 << 22).await.expect("a body");
        (status, String::from_utf8(bytes.to_vec()).expect("UTF-8"))
    }
}

/// Fails unless the page holds all of `words`, is free of inline style and script, and answered 200.
pub fn shows((status, page): &(StatusCode, String), words: &[&str]) {
    assert_eq!(*status, StatusCode::OK, "{page}");
    for word in words {
        assert!(page.contains(word), "no {word:?} in {page}");
    }
    for never in [" style=", "onclick=", "hx-on", "<style"] {
        assert!(!page.contains(never), "{never}");
    }
}

/// A larger cluster in trouble, to look at.
fn to_look_at() -> Snapshot {
    use model::state::{DiskState, TaskState};
    use model::view::{ScheduledRepair, TaskView};
    let mut snapshot = sample::snapshot();
    let policy = |name: &str, failures, change: &dyn Fn(&mut Policy)| {
        let mut policy = Policy { name: name.into(), failures_to_tolerate: failures, ..Policy::built_in() };
        change(&mut policy);
        policy
    };
    snapshot.policies.push(policy("gold", 2, &|policy| policy.stripe_width = 2));
    snapshot.policies.push(policy("scratch", 0, &|policy| policy.checksum = false));
    snapshot.disks[4].checksum_errors = 3;
    snapshot.disks[11].state = DiskState::Slow;
    snapshot.disks[11].faults = vec!["slow: 900 ms on every I/O".into()];
    snapshot.disks[16].used_bytes = snapshot.disks[16].size_bytes * 9 / 10;
    snapshot.disks[17].size_bytes *= 2;
    let repair = |object: &model::view::ObjectView, minutes: i64| ScheduledRepair {
        object: object.uuid,
        object_name: object.name.clone(),
        starts_at: Timestamp(sample::NOW.0 + minutes * 60_000),
        why: "h3 is absent and the repair delay runs".into(),
    };
    snapshot.resync.scheduled = vec![repair(&sample::object(), 48)];
    let task = |number: u8, kind: &str, state, percent, step: &str, error: Option<&str>| TaskView {
        id: TaskId::from_random([number; 16]),
        kind: kind.into(),
        subject: sample::object().uuid.to_string(),
        state,
        progress_percent: percent,
        step: step.into(),
        started_at: Timestamp(sample::NOW.0 - 600_000 * i64::from(number)),
        finished_at: (state != TaskState::Running).then_some(sample::NOW),
        error: error.map(Into::into),
    };
    snapshot.tasks = vec![
        task(1, "apply-policy", TaskState::Running, 62, "copying part B2 from h2 to h4", None),
        task(2, "configure-cluster", TaskState::Succeeded, 100, "", None),
        task(
            3,
            "apply-policy",
            TaskState::Failed,
            20,
            "",
            Some("h4-cap1 has no room; add a disk and apply it again"),
        ),
    ];
    snapshot
}

#[tokio::test]
#[ignore = "serves every page on 127.0.0.1:7499 until it is stopped, for a person who wants to look at them"]
async fn look() {
    let snapshot = to_look_at();
    let console = Console::over(snapshot.clone()).await;
    for task in &snapshot.tasks {
        crate::db::tasks::put(&console.app.console, crate::app::NATIVE, task, "ada").await.expect("a task");
    }
    let event = |seq: u64, severity, kind: &str, subject: &str, text: &str| Event {
        seq,
        time: Timestamp(sample::NOW.0 - 3_600_000 + 60_000 * i64::try_from(seq).unwrap_or(0)),
        severity,
        kind: kind.into(),
        subject: subject.into(),
        text: text.into(),
    };
    use model::state::Severity::{Error, Info, Warning};
    let object = format!("object:{}", sample::object().uuid);
    console
        .add_events(&[
            event(1, Info, "cluster-ready", "cluster", "The cluster pond-01 serves"),
            event(20, Info, "volume-created", &object, "Volume erp-db was made under default"),
            event(48, Warning, "host-absent", "host:h3", "h3 stopped answering"),
            event(
                49,
                Warning,
                "object-reduced",
                &object,
                "erp-db lost part B1 with h3; repair starts at 14:50",
            ),
            event(
                55,
                Error,
                "disk-failed",
                &format!("disk:{}", snapshot.disks[11].id),
                "h4-cap2 answers 40 times slower than its peers",
            ),
            event(57, Info, "resync-started", &object, "Part B2 of erp-db is copied from h2 to h4"),
        ])
        .await;
    console.app.start_tasks();
    let cookie: axum::http::HeaderValue = console.cookie.parse().expect("a header");
    let signed_in = axum::middleware::from_fn(
        move |mut request: axum::extract::Request, next: axum::middleware::Next| {
            let cookie = cookie.clone();
            async move {
                let theme = request.uri().query().is_some_and(|query| query.contains("theme=dark"));
                let text = format!(
                    "{}{}",
                    cookie.to_str().unwrap_or_default(),
                    if theme { "; theme=dark" } else { "" }
                );
                request.headers_mut().insert(header::COOKIE, text.parse().expect("a header"));
                next.run(request).await
            }
        },
    );
    let router = console.router.clone().layer(signed_in);
    let listener = tokio::net::TcpListener::bind("127.0.0.1:7499").await.expect("the port is free");
    axum::serve(listener, router).await.expect("served until it is stopped");
}
