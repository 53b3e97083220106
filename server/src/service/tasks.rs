//! Tasks: the engine's own state first, the history for those it has forgotten.
use crate::app::{App, Cluster};
use crate::db::tasks::{self, Task};
use crate::db::views::query::{Page, Window, cursor, read_cursor};
use crate::error::AppError;
use crate::service::auth::{self, Actor};
use crate::service::list;
use model::ids::TaskId;
use model::state::TaskState;

/// Brings a task of the history up to what the engine says now.
async fn fresh(cluster: &Cluster, mut task: Task) -> Result<Task, AppError> {
    let snapshot = cluster.snapshot().await?;
    if let Some(view) = snapshot.tasks.iter().find(|view| view.id == task.view.id) {
        task.view = view.clone();
    }
    Ok(task)
}

/// One task.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn get(app: &App, cluster: &Cluster, id: TaskId) -> Result<Task, AppError> {
    if let Some(task) = tasks::get(&app.console, &cluster.key, &id.to_string()).await? {
        return fresh(cluster, task).await;
    }
    let snapshot = cluster.snapshot().await?;
    let view = snapshot.tasks.iter().find(|view| view.id == id);
    let view = view.cloned().ok_or_else(|| AppError::NotFound(format!("task {id}")))?;
    Ok(Task { view, started_by: "engine".into() })
}

/// A page of tasks, newest first.
///
/// # Errors
/// [`AppError::Invalid`] for a foreign cursor.
pub async fn page(
    app: &App,
    cluster: &Cluster,
    state: Option<TaskState>,
    window: &Window,
) -> Result<Page<Task>, AppError> {
    let before = match &window.after {
        Some(after) => Some(read_cursor(after).map_err(|error| list::failed(error.into()))?.1),
        None => None,
    };
    let limit = i64::from(window.limit);
    let mut items = tasks::page(&app.console, &cluster.key, state, before.as_deref(), limit + 1).await?;
    let more = items.len() > window.limit as usize;
    items.truncate(window.limit as usize);
    let next = items.last().filter(|_| more).map(|task| {
        let id = task.view.id.to_string();
        cursor(&serde_json::json!(id), &id)
    });
    Ok(Page { items, next })
}

/// Stops a task.
///
/// # Errors
/// [`AppError::NotFound`]; [`AppError::Conflict`] when it has ended or cannot be stopped.
pub async fn cancel(app: &App, actor: &Actor, cluster: &Cluster, id: TaskId) -> Result<Task, AppError> {
    let task = get(app, cluster, id).await?;
    if task.view.state != TaskState::Running {
        return Err(AppError::Conflict("this task has ended already".into()));
    }
    cluster.engine.cancel(id).await?;
    auth::record(app, &actor.name, "cancel-task", &id.to_string(), &task.view.kind, "accepted").await?;
    cluster.settle().await?;
    get(app, cluster, id).await
}
