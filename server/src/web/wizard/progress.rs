//! The page of the task that makes the cluster: true at load, live afterwards, and the same after the browser was closed.
use crate::app::{App, Cluster};
use crate::error::AppError;
use crate::http::body::{Asked, InCluster};
use crate::service::tasks;
use crate::web::parts::{self, Chip, Command, Fact};
use crate::web::shell::{Page, Shell};
use crate::web::view::words;
use crate::web::{format, html};
use askama::Template;
use axum::extract::State;
use axum::response::Response;
use model::ids::TaskId;
use model::state::TaskState;
use model::units::Timestamp;

#[derive(Template)]
#[template(path = "wizard/progress.html", blocks = ["live"])]
struct ProgressPage {
    shell: Shell,
    chip: Chip,
    percent: u8,
    spoken: String,
    step: String,
    succeeded: bool,
    error: Option<String>,
    back: String,
    facts: Vec<Fact>,
    command_list: Vec<Command>,
}

/// `?task=ID`.
#[derive(serde::Deserialize)]
pub struct Query {
    task: TaskId,
}

async fn build(
    app: &App,
    cluster: &Cluster,
    shell: Shell,
    id: TaskId,
    now: Timestamp,
) -> Result<ProgressPage, AppError> {
    let task = tasks::get(app, cluster, id).await?;
    let view = &task.view;
    let percent = view.progress_percent;
    Ok(ProgressPage {
        shell,
        chip: words::task(view.state),
        percent,
        spoken: format!("{percent}% done"),
        step: if view.step.is_empty() { "Disks are being prepared".into() } else { view.step.clone() },
        succeeded: view.state == TaskState::Succeeded,
        error: view.error.clone(),
        back: format!("/setup-cluster/{}/review", cluster.key),
        facts: vec![
            Fact::new("Cluster", &view.subject),
            Fact::new("Started", format::when(view.started_at, now).full)
                .note(format!("by {}", task.started_by)),
            Fact::id("Task", &view.id.0),
        ],
        command_list: parts::commands(&[(
            "follow the task",
            format!("curl -H \"Authorization: Bearer $TOKEN\" $MILLPOND/api/v1/tasks/{id}"),
        )]),
    })
}

/// `GET /setup-cluster/{cluster}/progress?task=ID`.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn page(
    State(app): State<App>,
    InCluster(cluster): InCluster,
    page: Page,
    Asked(query): Asked<Query>,
) -> Result<Response, AppError> {
    let shell = page.shell.live_on(&[format!("progress:{}", query.task)]);
    html(&build(&app, &cluster, shell, query.task, page.now).await?)
}

/// The live part of the page.
///
/// # Errors
/// [`AppError::Unavailable`].
pub async fn live(app: &App, cluster: &Cluster, id: &str) -> Result<Option<String>, AppError> {
    let Ok(id) = id.parse() else { return Ok(None) };
    let filled = build(app, cluster, Shell::default(), id, app.clock.now()).await?;
    crate::web::live::partials([("progress", filled.as_live().render())]).map(Some)
}
