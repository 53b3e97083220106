//! `/tasks`: long work, who started it, how far it is, what stops it. Closing the browser changes nothing.
use crate::app::{App, Cluster};
use crate::db::tasks::Task;
use crate::error::AppError;
use crate::http::auth::Operator;
use crate::http::body::{Asked, ById, InCluster, Named};
use crate::http::render;
use crate::service::{list, tasks};
use crate::web::parts::{self, Chip, Command, Crumb, Explain, Fact, Pager, Tab, TaskRow, Tone};
use crate::web::shell::{Page, Shell};
use crate::web::view::explain::sentence;
use crate::web::view::{task, words};
use crate::web::{format, html, html_with};
use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use model::ids::TaskId;
use model::state::TaskState;
use model::units::Timestamp;
use model::view::Snapshot;

/// `?state=&after=`.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub struct Query {
    state: String,
    after: Option<String>,
}

#[derive(Template)]
#[template(path = "tasks/list.html", blocks = ["live"])]
struct ListPage {
    shell: Shell,
    tabs: Vec<Tab>,
    filtered: bool,
    rows: Vec<TaskRow>,
    pager: Pager,
    command_list: Vec<Command>,
}

const STATES: [(&str, &str, Option<TaskState>); 5] = [
    ("", "All", None),
    ("running", "Running", Some(TaskState::Running)),
    ("succeeded", "Done", Some(TaskState::Succeeded)),
    ("failed", "Failed", Some(TaskState::Failed)),
    ("cancelled", "Cancelled", Some(TaskState::Cancelled)),
];

async fn list_page(
    app: &App,
    cluster: &Cluster,
    shell: Shell,
    query: &Query,
    now: Timestamp,
) -> Result<ListPage, AppError> {
    let state = STATES.iter().find(|(value, _, _)| *value == query.state).and_then(|(_, _, state)| *state);
    let found = tasks::page(app, cluster, state, &list::window(Some(50), query.after.clone())?).await?;
    let snapshot = cluster.snapshot().await?;
    let href = |after: Option<&str>| match after {
        Some(after) => format!("/tasks?state={}&after={after}", query.state),
        None => format!("/tasks?state={}", query.state),
    };
    Ok(ListPage {
        tabs: STATES
            .map(|(value, word, _)| Tab {
                word: word.into(),
                href: if value.is_empty() { "/tasks".into() } else { format!("/tasks?state={value}") },
                current: value == query.state,
            })
            .to_vec(),
        filtered: state.is_some(),
        rows: found.items.iter().map(|found| task::row(&snapshot, found, now)).collect(),
        pager: Pager {
            text: format!("{}, newest first", format::plural(found.items.len() as u64, "task")),
            first: query.after.as_ref().map(|_| href(None)),
            next: found.next.as_deref().map(|after| href(Some(after))),
        },
        command_list: parts::commands(&[(
            "tasks",
            "curl -H \"Authorization: Bearer $TOKEN\" $MILLPOND/api/v1/tasks".into(),
        )]),
        shell,
    })
}

/// `GET /tasks`.
///
/// # Errors
/// [`AppError::Invalid`] for a foreign cursor.
pub async fn page(
    State(app): State<App>,
    InCluster(cluster): InCluster,
    page: Page,
    Asked(query): Asked<Query>,
) -> Result<Response, AppError> {
    let whole = query.state.is_empty() && query.after.is_none();
    let shell = if whole { page.shell.live_on(&["tasks".into()]) } else { page.shell };
    html(&list_page(&app, &cluster, shell, &query, page.now).await?)
}

#[derive(Template)]
#[template(path = "tasks/show.html", blocks = ["live", "chip"])]
struct ShowPage {
    shell: Shell,
    trail: Vec<Crumb>,
    title: String,
    chip: Chip,
    row: TaskRow,
    fact_list: Vec<Fact>,
    banner: Option<Explain>,
    errors: Vec<crate::error::FieldError>,
    command_list: Vec<Command>,
}

fn facts(task: &Task, now: Timestamp) -> Vec<Fact> {
    let view = &task.view;
    let mut facts = vec![
        Fact::new("Started by", &task.started_by),
        Fact::new("Started", format::when(view.started_at, now).full)
            .note(format::when(view.started_at, now).relative),
    ];
    if let Some(end) = view.finished_at {
        let seconds = u64::try_from((end.0 - view.started_at.0) / 1000).unwrap_or(0);
        facts.push(
            Fact::new("Ended", format::when(end, now).full)
                .note(format!("after {}", format::duration(seconds))),
        );
    }
    facts.push(Fact::new("Kind", &view.kind));
    facts.push(Fact::id("Id", &view.id.0));
    facts
}

fn banner(task: &Task) -> Option<Explain> {
    let (tone, title, text) = match task.view.state {
        TaskState::Failed => {
            (Tone::Failed, "It failed.", task.view.error.as_deref().map(sentence).unwrap_or_default())
        }
        TaskState::Cancelled => (
            Tone::Maint,
            "It was stopped.",
            "What was done before stays; nothing half-done is left in use.".to_owned(),
        ),
        TaskState::Running | TaskState::Succeeded => return None,
    };
    Some(Explain { tone, title: title.into(), text: vec![text], ..Explain::default() })
}

fn show_page(snapshot: &Snapshot, found: &Task, shell: Shell, now: Timestamp) -> ShowPage {
    let title = task::title(snapshot, found);
    ShowPage {
        trail: parts::crumbs(&[("Tasks", "/tasks")], &title),
        chip: words::task(found.view.state),
        row: task::row(snapshot, found, now),
        fact_list: facts(found, now),
        banner: banner(found),
        errors: Vec::new(),
        command_list: parts::commands(&[
            (
                "this task",
                format!("curl -H \"Authorization: Bearer $TOKEN\" $MILLPOND/api/v1/tasks/{}", found.view.id),
            ),
            ("stop it", format!("curl -X POST … $MILLPOND/api/v1/tasks/{}/cancel", found.view.id)),
        ]),
        title,
        shell,
    }
}

/// `GET /tasks/{id}`.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn show(
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Named(path): Named<ById<TaskId>>,
    page: Page,
) -> Result<Response, AppError> {
    let found = tasks::get(&app, &cluster, path.id).await?;
    let running = found.view.state == TaskState::Running;
    let shell = if running { page.shell.live_on(&[format!("task:{}", path.id)]) } else { page.shell };
    html(&show_page(&*cluster.snapshot().await?, &found, shell, page.now))
}

/// `POST /tasks/{id}/cancel`.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn cancel(
    user: Operator,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Named(path): Named<ById<TaskId>>,
    page: Page,
) -> Result<Response, AppError> {
    let error = match tasks::cancel(&app, &user.0, &cluster, path.id).await {
        Ok(_) => return Ok(render::go_to(&page.headers, &format!("/tasks/{}", path.id))),
        Err(error @ (AppError::Conflict(_) | AppError::NotYet(_))) => error,
        Err(other) => return Err(other),
    };
    let found = tasks::get(&app, &cluster, path.id).await?;
    let mut filled = show_page(&*cluster.snapshot().await?, &found, page.shell, page.now);
    filled.errors = vec![crate::error::FieldError::new("", format!("It cannot be stopped: {error}."))];
    html_with(StatusCode::CONFLICT, &filled)
}

/// The live list.
///
/// # Errors
/// [`AppError::Unavailable`].
pub async fn live_list(app: &App, cluster: &Cluster) -> Result<String, AppError> {
    let filled = list_page(app, cluster, Shell::default(), &Query::default(), app.clock.now()).await?;
    crate::web::live::partials([("tasks", filled.as_live().render())])
}

/// The live part of one task; `None` when there is no such task.
///
/// # Errors
/// [`AppError::Unavailable`].
pub async fn live(app: &App, cluster: &Cluster, id: &str) -> Result<Option<String>, AppError> {
    let Ok(id) = id.parse() else { return Ok(None) };
    let found = match tasks::get(app, cluster, id).await {
        Err(AppError::NotFound(_)) => return Ok(None),
        other => other?,
    };
    let filled = show_page(&*cluster.snapshot().await?, &found, Shell::default(), app.clock.now());
    crate::web::live::partials([
        ("task-chip", filled.as_chip().render()),
        ("task", filled.as_live().render()),
    ])
    .map(Some)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::sample;
    use crate::web::testing::{Console, shows};
    use model::view::TaskView;

    fn running() -> TaskView {
        TaskView {
            id: TaskId::from_random([7; 16]),
            kind: "apply-policy".into(),
            subject: sample::object().uuid.to_string(),
            state: TaskState::Running,
            progress_percent: 40,
            step: "copying part B1 to h4".into(),
            started_at: Timestamp(sample::NOW.0 - 90_000),
            finished_at: None,
            error: None,
        }
    }

    #[tokio::test]
    async fn a_task_shows_its_step_and_can_be_stopped() {
        let mut snapshot = sample::snapshot();
        snapshot.tasks = vec![running()];
        let console = Console::over(snapshot).await;
        let path = format!("/tasks/{}", running().id);
        shows(
            &console.get(&path).await,
            &["Apply a policy to erp-db", "copying part B1", "40% done", "topics=shell,task:", "Stop it"],
        );
        let (status, page) = console.post(&format!("{path}/cancel"), "").await;
        assert!(status == 409 || status == 422, "{status}");
        assert!(page.contains("It cannot be stopped"), "{page}");
        let cluster = console.app.cluster(None).unwrap();
        let live = live(&console.app, &cluster, &running().id.to_string()).await.unwrap().unwrap();
        assert!(live.contains("#task-chip") && live.contains("copying part B1"), "{live}");
    }

    #[tokio::test]
    async fn the_list_names_what_failed_and_why() {
        let console = Console::sample().await;
        let failed = TaskView {
            state: TaskState::Failed,
            error: Some("h4 has no room; add a disk".into()),
            ..running()
        };
        crate::db::tasks::put(&console.app.console, crate::app::NATIVE, &failed, "ada").await.unwrap();
        shows(
            &console.get("/tasks").await,
            &["h4 has no room; add a disk", "Apply a policy to erp-db", "ada"],
        );
        shows(&console.get("/tasks?state=running").await, &["No task in this state"]);
        shows(
            &console.get(&format!("/tasks/{}", failed.id)).await,
            &["It failed.", "H4 has no room; add a disk."],
        );
    }
}
