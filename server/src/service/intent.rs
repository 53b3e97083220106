//! The one way in which anything changes: an intent under a task id, recorded, and seen in the lists afterwards.
use crate::app::{App, Cluster};
use crate::db::tasks;
use crate::error::AppError;
use crate::service::auth::{self, Actor};
use crate::service::format::plural;
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

/// Kind and subject of an intent, for the audit log and the history of tasks.
fn describe(intent: &Intent) -> (&'static str, String) {
    match intent {
        Intent::ConfigureCluster { plan } => ("configure-cluster", plan.name.clone()),
        Intent::AddClaims { claims, .. } => ("add-claims", plural(claims.len() as u64, "disk group")),
        Intent::UpdateCluster { .. } => ("update-cluster", "cluster".into()),
        Intent::SetFaultDomains { .. } => ("set-fault-domains", "cluster".into()),
        Intent::PutPolicy { policy, .. } => ("put-policy", policy.name.clone()),
        Intent::DeletePolicy { name } => ("delete-policy", name.clone()),
        Intent::CreateVolume { name, .. } => ("create-volume", name.clone()),
        Intent::GrowVolume { id, .. } => ("grow-volume", id.to_string()),
        Intent::DeleteVolume { id } => ("delete-volume", id.to_string()),
        Intent::ApplyPolicy { id, .. } => ("apply-policy", id.to_string()),
        Intent::RepairNow { .. } => ("repair-now", "cluster".into()),
        Intent::SetResyncLimit { .. } => ("set-resync-limit", "cluster".into()),
        Intent::SetLicence { .. } => ("set-licence", "cluster".into()),
        Intent::InjectFault { target, .. } => ("inject-fault", format!("{target:?}")),
        Intent::Scrub => ("scrub", "cluster".into()),
    }
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
    let (kind, subject) = describe(&intent);
    let result = cluster.engine.apply(task, intent).await.map_err(AppError::from);
    let (outcome, detail) = match &result {
        Ok(applied) => ("accepted", applied.applied.join("; ")),
        Err(error @ (AppError::Internal(_) | AppError::Unavailable(_))) => ("failed", error.to_string()),
        Err(error) => ("refused", error.to_string()),
    };
    auth::record(app, &actor.name, kind, &subject, &detail, outcome).await?;
    let applied = result?;
    if !applied.done {
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
