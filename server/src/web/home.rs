//! `/`: the first screen while there is no cluster, afterwards the dashboard.
use crate::app::{App, Cluster};
use crate::db::history::EventFilter;
use crate::db::users::Role;
use crate::error::{AppError, FieldError};
use crate::http::auth::{Admin, CurrentUser};
use crate::http::body::InCluster;
use crate::http::render;
use crate::service::draft::{self, Draft};
use crate::service::{capacity, events, lab, list, watch};
use crate::web::parts::{self, Chip, Command, Explain, Happening};
use crate::web::performance::{self, Figure};
use crate::web::shell::{Badge, Page, Shell};
use crate::web::view::cluster::{self, StateRow};
use crate::web::view::explain;
use crate::web::view::map::{self, DomainBox};
use crate::web::{format, html, html_with};
use askama::Template;
use axum::extract::{Form, State};
use axum::http::StatusCode;
use axum::response::Response;
use model::state::{ClusterState, HostState, ObjectHealth};
use model::units::Timestamp;
use model::view::Snapshot;
use std::collections::BTreeMap;

/// What the charts of the dashboard span.
const DASHBOARD_RANGE: &str = "15m";

#[derive(Template)]
#[template(path = "first.html")]
struct FirstPage {
    shell: Shell,
    errors: Vec<FieldError>,
    may: bool,
    lab_hosts: u32,
    lab_size: String,
    free_size: String,
    file_dirs: Vec<String>,
}

fn first(app: &App, shell: Shell, may: bool, errors: Vec<FieldError>) -> Result<FirstPage, AppError> {
    let shape = lab::one_click();
    let size = u64::try_from(lab::total_bytes(&shape)).unwrap_or(u64::MAX);
    Ok(FirstPage {
        shell,
        errors,
        may,
        lab_hosts: shape.hosts,
        lab_size: format::bytes(size),
        free_size: format::bytes(lab::free_bytes(&app.config.data_dir)?),
        file_dirs: app.config.file_disk_dirs.iter().map(|dir| dir.display().to_string()).collect(),
    })
}

/// Part of all, its width, its colour, its sentence.
type Share = (u64, String, u8, &'static str, String);

#[derive(Template)]
#[template(path = "dashboard.html", blocks = ["live"])]
struct Dashboard {
    shell: Shell,
    chip: Chip,
    banner: Explain,
    available: Share,
    protected: Share,
    raw: String,
    used: String,
    used_exact: String,
    used_percent: u8,
    fullest: String,
    resync_left: String,
    resync_words: String,
    states: Vec<StateRow>,
    history: Vec<Happening>,
    hosts_words: String,
    boxes: Vec<DomainBox>,
    figures: Vec<Figure>,
    command_list: Vec<Command>,
}

fn share(part: usize, whole: usize, good: &'static str, bad: &str) -> Share {
    let all = whole == part;
    let tone = if all { "healthy" } else { "absent" };
    let percent = if whole == 0 { 100 } else { format::percent(part as u64, whole as u64) };
    let text = if all { good.to_owned() } else { format!("{} {bad}", format::count((whole - part) as u64)) };
    (part as u64, format::plural(whole as u64, "volume"), percent, tone, text)
}

async fn dashboard(
    app: &App,
    cluster: &Cluster,
    shell: Shell,
    now: Timestamp,
) -> Result<Dashboard, AppError> {
    let snapshot = cluster.snapshot().await?;
    let room = capacity::of(&snapshot);
    let window = list::window(Some(8), None)?;
    let recent = events::page(app, cluster, &EventFilter::default(), &window).await?;
    let available = snapshot.objects.iter().filter(|object| object.accessible).count();
    let protected = snapshot.objects.iter().filter(|object| whole(object.health)).count();
    let all = snapshot.objects.len();
    let fullest = room.disks.iter().max_by_key(|disk| format::percent(disk.used_bytes, disk.size_bytes));
    let left: u64 =
        snapshot.resync.items.iter().map(|item| item.bytes_total.saturating_sub(item.bytes_done)).sum();
    Ok(Dashboard {
        chip: cluster::chip(&snapshot),
        banner: cluster::banner(&snapshot, now),
        available: share(available, all, "Everything can be read and written.", "cannot be read or written."),
        protected: share(
            protected,
            all,
            "Everything is as redundant as promised.",
            "less redundant than promised.",
        ),
        raw: format::bytes(room.raw_bytes),
        used: format::bytes(room.used_raw_bytes),
        used_exact: format::exact(room.used_raw_bytes),
        used_percent: format::percent(room.used_raw_bytes, room.raw_bytes),
        fullest: fullest.map_or_else(String::new, |disk| {
            format!("Fullest disk: {}, {}%.", disk.name, format::percent(disk.used_bytes, disk.size_bytes))
        }),
        resync_left: if left == 0 { "Nothing".into() } else { format::bytes(left) },
        resync_words: match snapshot.resync.items.len() as u64 {
            0 => resting_words(&snapshot),
            count => format!("left in {}.", format::plural(count, "resync")),
        },
        states: cluster::states(&snapshot),
        history: parts::happenings(&recent.items, now),
        hosts_words: hosts_words(&snapshot),
        boxes: map::domains(&snapshot, &BTreeMap::new(), false, now),
        figures: if shell.path.is_empty() {
            Vec::new()
        } else {
            performance::figures(app, cluster, "cluster", DASHBOARD_RANGE, now).await?
        },
        command_list: parts::commands(&[
            ("the cluster", "curl -H \"Authorization: Bearer $TOKEN\" $MILLPOND/api/v1/cluster".into()),
            (
                "its health, check by check",
                "curl -H \"Authorization: Bearer $TOKEN\" $MILLPOND/api/v1/health".into(),
            ),
        ]),
        shell,
    })
}

/// What it means that nothing moves: all is up to date, or something waits.
fn resting_words(snapshot: &Snapshot) -> String {
    let behind = snapshot.objects.iter().filter(|object| !whole(object.health)).count() as u64;
    match (behind, snapshot.resync.scheduled.len()) {
        (0, _) => "Every copy is up to date.".into(),
        (_, 0) => format!("moves now; {} not complete.", format::plural_that(behind, "volume", "is", "are")),
        (_, _) => {
            format!("moves now; {} for a timer.", format::plural_that(behind, "volume", "waits", "wait"))
        }
    }
}

/// Whether an object is as its policy says.
fn whole(health: ObjectHealth) -> bool {
    matches!(health, ObjectHealth::Healthy | ObjectHealth::Moving)
}

fn hosts_words(snapshot: &Snapshot) -> String {
    let hosts: Vec<_> = explain::domains(snapshot).collect();
    let here = hosts.iter().filter(|host| host.state == HostState::Connected).count();
    let all = format::plural(hosts.len() as u64, explain::noun(snapshot));
    if here == hosts.len() { format!("{all} connected") } else { format!("{here} of {all} connected") }
}

/// `GET /`.
///
/// # Errors
/// [`AppError::Unavailable`].
pub async fn page(
    user: CurrentUser,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    page: Page,
) -> Result<Response, AppError> {
    let snapshot = cluster.snapshot().await?;
    match snapshot.cluster.state {
        ClusterState::Unconfigured => html(&first(&app, page.shell, user.0.role >= Role::Admin, Vec::new())?),
        ClusterState::Configuring => {
            let task = draft::load(&app, &cluster.key).await?.draft.task;
            let to = task.map_or_else(
                || "/tasks".to_owned(),
                |task| format!("/setup-cluster/{}/progress?task={task}", cluster.key),
            );
            Ok(render::go_to(&page.headers, &to))
        }
        ClusterState::Ready | ClusterState::Unavailable => {
            let charts = performance::topic(DASHBOARD_RANGE, "cluster");
            let shell = page.shell.live_on(&["dashboard".into(), charts]);
            html(&dashboard(&app, &cluster, shell, page.now).await?)
        }
    }
}

/// `POST /start/lab`: the one click.
///
/// # Errors
/// What is not about room.
pub async fn start_lab(
    user: Admin,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    page: Page,
) -> Result<Response, AppError> {
    match watch::start_lab(&app, &user.0, &cluster).await {
        Ok(()) => Ok(render::go_to(&page.headers, "/watch")),
        Err(error @ AppError::Conflict(_)) => {
            let errors = vec![FieldError::new("", error.to_string())];
            html_with(StatusCode::CONFLICT, &first(&app, page.shell, true, errors)?)
        }
        Err(other) => Err(other),
    }
}

/// `lab=4`: plan a lab of so many hosts first.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub struct WizardForm {
    lab: Option<u32>,
}

/// `POST /start/wizard`.
///
/// # Errors
/// [`AppError::Conflict`] when there is a cluster already.
pub async fn start_wizard(
    user: Admin,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    page: Page,
    Form(form): Form<WizardForm>,
) -> Result<Response, AppError> {
    let current = draft::load(&app, &cluster.key).await?.draft;
    if let (Some(hosts), true) = (form.lab, current.hosts.is_empty()) {
        let shape = model::plan::LabShape { hosts, ..lab::one_click() };
        lab::plan(&app, &user.0, &cluster, None, &shape).await?;
    }
    let name = |draft: &mut Draft| {
        if draft.name.is_empty() {
            draft.name = "pond-01".into();
        }
        Ok(())
    };
    draft::change_unconfigured(&app, &user.0, &cluster, None, name).await?;
    Ok(render::go_to(&page.headers, &format!("/setup-cluster/{}/hosts", cluster.key)))
}

/// The live part of the dashboard.
///
/// # Errors
/// [`AppError::Unavailable`].
pub async fn live(app: &App, cluster: &Cluster) -> Result<String, AppError> {
    let filled = dashboard(app, cluster, Shell::default(), app.clock.now()).await?;
    crate::web::live::partials([("dashboard", filled.as_live().render())])
}

#[derive(Template)]
#[template(
    source = r##"<hx-partial hx-target="#top-tasks .word" hx-swap="innerHTML">{{ tasks }}</hx-partial><hx-partial hx-target="#top-alerts" hx-swap="innerHTML"><svg class="i" aria-hidden="true"><use href="{{ crate::http::assets::asset("icons.svg") }}#bell"/></svg>{% if alerts > 0 %}<span class="hidden-text">Alerts: </span><span class="count">{{ alerts }}</span>{% else %}<span class="hidden-text">No alerts</span>{% endif %}</hx-partial><hx-partial hx-target="#cluster-name" hx-swap="innerHTML">{{ cluster }}</hx-partial>{% for badge in badges %}<hx-partial hx-target="#{{ badge.id }}" hx-swap="innerHTML">{% if badge.count > 0 %}<span class="badge">{{ badge.count }}<span class="hidden-text"> {{ badge.word }}</span></span>{% endif %}</hx-partial>{% endfor %}"##,
    ext = "html"
)]
struct Counts {
    tasks: String,
    alerts: u64,
    cluster: String,
    badges: Vec<Badge>,
}

/// The counts in the top bar and in the navigation.
///
/// # Errors
/// [`AppError::Internal`] when the template fails.
pub fn live_counts(cluster: &Cluster) -> Result<String, AppError> {
    let mut shell = Shell::default();
    shell.count(&cluster.projected.borrow());
    let counts = Counts {
        tasks: format::plural(shell.tasks_running, "task"),
        alerts: shell.alerts,
        badges: shell.badges(),
        cluster: shell.cluster,
    };
    counts.render().map_err(AppError::internal)
}
