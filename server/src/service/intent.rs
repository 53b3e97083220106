//! The one way in which anything changes: an intent under a task id, recorded, and seen in the lists afterwards.
use crate::app::{App, Cluster};
use crate::db::tasks;
use crate::error::AppError;
use crate::service::auth::{self, Actor};
use crate::service::deeds;
use model::engine::{Applied, Intent};
use model::ids::TaskId;
use model::state::TaskState;
use model::view::TaskView;

/// What became of an intent.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The task that it runs as, or ran as.
    pub task: TaskId,
    /// What the engine said.
    pub applied: Applied,
}

/// Applies an intent under a new task id.
///
/// # Errors
/// As [`apply_as`].
pub async fn apply(app: &App, actor: &Actor, cluster: &Cluster, intent: Intent) -> Result<Outcome, AppError> {
    let task = app.rng.task_id(app.clock.now());
    apply_as(app, actor, cluster, task, intent).await
}

/// Applies an intent under a given task id; with one that was used before, the engine answers as it did then.
///
/// Who did it is recorded whether it was accepted or refused. When this returns, lists and pages show what was done.
///
/// # Errors
/// Whatever the engine refuses with; nothing has changed then, except after [`AppError::Unavailable`].
pub async fn apply_as(
    app: &App,
    actor: &Actor,
    cluster: &Cluster,
    task: TaskId,
    intent: Intent,
) -> Result<Outcome, AppError> {
    let (kind, subject) = deeds::describe(&intent);
    cluster.deeds.begin(task, actor, &intent, app.clock.now());
    let result = cluster.engine.apply(task, intent.clone()).await.map_err(AppError::from);
    let (outcome, detail) = match &result {
        Ok(applied) => ("accepted", applied.applied.join("; ")),
        Err(error @ (AppError::Internal(_) | AppError::Unavailable(_))) => ("failed", error.to_string()),
        Err(error) => ("refused", error.to_string()),
    };
    auth::record(app, &actor.name, kind, &subject, &detail, outcome).await?;
    if result.is_err() {
        cluster.deeds.forget(task);
    }
    let applied = result?;
    deeds::tell(app, actor, cluster, &intent).await?;
    if applied.done {
        cluster.deeds.done(task, app.clock.now());
    } else {
        let started_at = app.clock.now();
        let view = TaskView {
            id: task,
            kind: kind.into(),
            subject,
            state: TaskState::Running,
            progress_percent: 0,
            step: String::new(),
            started_at,
            finished_at: None,
            error: None,
        };
        tasks::started(&app.console, &cluster.key, &view, &actor.name).await?;
    }
    cluster.settle().await?;
    Ok(Outcome { task, applied })
}
