//! Volumes and the objects that they are.
use crate::app::{App, Cluster};
use crate::db::views::query::{ObjectQuery, ObjectRow, Page, Window};
use crate::error::{AppError, FieldError};
use crate::service::auth::{Actor, check_name};
use crate::service::{intent, list};
use model::arithmetic;
use model::engine::{Attach, Intent};
use model::ids::{ObjectId, TaskId};
use model::policy::Policy;
use model::state::ClusterState;
use model::view::{ObjectView, Snapshot};
use model::what_if::{Answer, Question};
use std::sync::Arc;

/// A page of objects (a volume is one).
///
/// # Errors
/// [`AppError::Invalid`] for a foreign cursor.
pub async fn page(
    app: &App,
    cluster: &Cluster,
    query: &ObjectQuery,
    window: &Window,
) -> Result<Page<ObjectRow>, AppError> {
    app.views.objects(&cluster.key, query, window).await.map_err(list::failed)
}

fn named(snapshot: &Snapshot, name: &str) -> Result<Arc<ObjectView>, AppError> {
    let object = snapshot.objects.iter().find(|object| object.name == name);
    object.cloned().ok_or_else(|| AppError::NotFound(format!("volume \"{name}\"")))
}

/// A volume by name, with its tree.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn by_name(cluster: &Cluster, name: &str) -> Result<Arc<ObjectView>, AppError> {
    named(&*cluster.snapshot().await?, name)
}

/// An object by id, with its tree.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn by_id(cluster: &Cluster, id: ObjectId) -> Result<Arc<ObjectView>, AppError> {
    let snapshot = cluster.snapshot().await?;
    let object = snapshot.objects.iter().find(|object| object.uuid == id);
    object.cloned().ok_or_else(|| AppError::NotFound(format!("object {id}")))
}

/// How a client reaches a volume.
///
/// # Errors
/// [`AppError::NotFound`], [`AppError::Unavailable`].
pub async fn attach(cluster: &Cluster, id: ObjectId) -> Result<Attach, AppError> {
    Ok(cluster.engine.attach(id).await?)
}

/// Whether the cluster can be worked on.
///
/// # Errors
/// [`AppError::Conflict`] with what to do.
pub async fn ready(cluster: &Cluster) -> Result<Arc<Snapshot>, AppError> {
    let snapshot = cluster.snapshot().await?;
    match snapshot.cluster.state {
        ClusterState::Ready => Ok(snapshot),
        ClusterState::Unconfigured => {
            Err(AppError::Conflict("there is no cluster yet; configure it first".into()))
        }
        ClusterState::Configuring => {
            Err(AppError::Conflict("the cluster is being made; wait until its task is done".into()))
        }
        ClusterState::Unavailable => Err(AppError::Unavailable(
            snapshot
                .cluster
                .state_reason
                .clone()
                .unwrap_or_else(|| "the cluster cannot be served now".into()),
        )),
    }
}

/// What is wrong with a new volume, field by field.
pub fn problems(name: &str, size_bytes: u64) -> Vec<FieldError> {
    let name = check_name(name).err().map(|detail| FieldError::new("name", detail));
    let size = arithmetic::size_problem(size_bytes).map(|detail| FieldError::new("size_bytes", detail));
    name.into_iter().chain(size).collect()
}

/// The policy of that name, or the default one.
fn policy(snapshot: &Snapshot, name: Option<&str>) -> Result<Policy, AppError> {
    let name = name.unwrap_or(&snapshot.cluster.default_policy);
    let policy = snapshot.policies.iter().find(|policy| policy.name == name);
    policy.cloned().ok_or_else(|| AppError::field("policy", format!("there is no policy \"{name}\"")))
}

/// What would happen if a volume like this were made.
///
/// # Errors
/// [`AppError::Invalid`], [`AppError::Conflict`] without a cluster.
pub async fn preview(
    cluster: &Cluster,
    size_bytes: u64,
    policy_name: Option<&str>,
) -> Result<Answer, AppError> {
    let snapshot = ready(cluster).await?;
    if let Some(detail) = arithmetic::size_problem(size_bytes) {
        return Err(AppError::field("size_bytes", detail));
    }
    let policy = policy(&snapshot, policy_name)?;
    Ok(cluster.engine.what_if(Question::CreateVolume { size_bytes, policy }).await?)
}

/// Makes a volume.
///
/// # Errors
/// [`AppError::Invalid`] field by field; [`AppError::Conflict`] when the name is taken; [`AppError::Unplaceable`].
pub async fn create(
    app: &App,
    actor: &Actor,
    cluster: &Cluster,
    name: &str,
    size_bytes: u64,
    policy_name: Option<String>,
) -> Result<Arc<ObjectView>, AppError> {
    AppError::check(problems(name, size_bytes))?;
    let snapshot = ready(cluster).await?;
    policy(&snapshot, policy_name.as_deref())?;
    if named(&snapshot, name).is_ok() {
        return Err(AppError::Conflict(format!("volume \"{name}\" exists already; choose another name")));
    }
    let id = ObjectId::from_random(app.rng.bytes());
    let create = Intent::CreateVolume { id, name: name.to_owned(), size_bytes, policy: policy_name };
    intent::apply(app, actor, cluster, create).await?;
    by_id(cluster, id).await
}

/// Grows a volume.
///
/// # Errors
/// [`AppError::NotFound`]; [`AppError::Invalid`] for a smaller or wrong size.
pub async fn grow(
    app: &App,
    actor: &Actor,
    cluster: &Cluster,
    name: &str,
    size_bytes: u64,
) -> Result<Arc<ObjectView>, AppError> {
    let object = by_name(cluster, name).await?;
    if let Some(detail) = arithmetic::size_problem(size_bytes) {
        return Err(AppError::field("size_bytes", detail));
    }
    if size_bytes < object.size_bytes {
        let detail = format!("a volume only grows; this one has {} bytes", object.size_bytes);
        return Err(AppError::field("size_bytes", detail));
    }
    intent::apply(app, actor, cluster, Intent::GrowVolume { id: object.uuid, size_bytes }).await?;
    by_id(cluster, object.uuid).await
}

/// Deletes a volume and its data; `confirm` must be its name.
///
/// # Errors
/// [`AppError::NotFound`]; [`AppError::Invalid`] on `confirm`; [`AppError::Conflict`] when it is in use.
pub async fn delete(
    app: &App,
    actor: &Actor,
    cluster: &Cluster,
    name: &str,
    confirm: Option<&str>,
) -> Result<(), AppError> {
    let object = by_name(cluster, name).await?;
    if confirm != Some(name) {
        let detail = format!("deleting a volume destroys its data; repeat its name, \"{name}\"");
        return Err(AppError::field("confirm", detail));
    }
    intent::apply(app, actor, cluster, Intent::DeleteVolume { id: object.uuid }).await.map(|_| ())
}

/// Gives a volume another policy; `None` applies the edited one again.
///
/// # Errors
/// [`AppError::NotFound`], [`AppError::Invalid`], [`AppError::Unplaceable`].
pub async fn apply_policy(
    app: &App,
    actor: &Actor,
    cluster: &Cluster,
    name: &str,
    policy_name: Option<String>,
) -> Result<TaskId, AppError> {
    let snapshot = ready(cluster).await?;
    let object = named(&snapshot, name)?;
    if policy_name.is_some() {
        policy(&snapshot, policy_name.as_deref())?;
    }
    let apply = Intent::ApplyPolicy { id: object.uuid, expected_csn: None, policy: policy_name };
    let outcome = intent::apply(app, actor, cluster, apply).await?;
    finished_at_once(app, actor, cluster, &outcome, "apply-policy", name).await?;
    Ok(outcome.task)
}

/// A task that was done before its answer came is still a task: it can be asked for.
///
/// # Errors
/// [`AppError::Internal`].
pub async fn finished_at_once(
    app: &App,
    actor: &Actor,
    cluster: &Cluster,
    outcome: &intent::Outcome,
    kind: &str,
    subject: &str,
) -> Result<(), AppError> {
    if !outcome.applied.done {
        return Ok(());
    }
    let now = app.clock.now();
    let view = model::view::TaskView {
        id: outcome.task,
        kind: kind.to_owned(),
        subject: subject.to_owned(),
        state: model::state::TaskState::Succeeded,
        progress_percent: 100,
        step: outcome.applied.applied.join("; "),
        started_at: now,
        finished_at: Some(now),
        error: None,
    };
    Ok(crate::db::tasks::put(&app.console, &cluster.key, &view, &actor.name).await?)
}
