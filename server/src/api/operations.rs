//! Resync, tasks, events, lab faults.
use super::dto;
use crate::app::App;
use crate::db::history::{EventFilter, PastEvent};
use crate::edge::rfc3339;
use crate::error::AppError;
use crate::http::auth::{CurrentUser, Operator};
use crate::http::body::{Asked, Body, ById, InCluster, Named};
use crate::service::{events, faults, list, resync, tasks};
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use model::engine::Fault;
use model::ids::{ObjectId, TaskId};
use model::state::{Severity, TaskState};
use model::view::ResyncItem;
use serde::{Deserialize, Deserializer, Serialize};

/// One resync.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct ResyncEntry {
    object: String,
    object_name: String,
    component: String,
    reason: String,
    state: String,
    from: String,
    to: String,
    bytes_left: u64,
    bytes_total: u64,
    progress_percent: u8,
    #[serde(skip_serializing_if = "Option::is_none")]
    bytes_per_second: Option<u64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    eta_seconds: Option<u64>,
}

impl From<&ResyncItem> for ResyncEntry {
    fn from(item: &ResyncItem) -> Self {
        use crate::db::to_word;
        Self {
            object: item.object.to_string(),
            object_name: item.object_name.clone(),
            component: item.component.to_string(),
            reason: to_word(&item.reason),
            state: to_word(&item.state),
            from: item.from.clone(),
            to: item.to.clone(),
            bytes_left: resync::bytes_left(item),
            bytes_total: item.bytes_total,
            progress_percent: resync::progress_percent(item),
            bytes_per_second: item.bytes_per_second,
            eta_seconds: resync::eta_seconds(item),
        }
    }
}

/// A repair that the timer will start.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct ScheduledEntry {
    object: String,
    object_name: String,
    starts_at: String,
    why: String,
}

/// What moves.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct ResyncAnswer {
    bytes_left: u64,
    #[serde(skip_serializing_if = "Option::is_none")]
    eta_seconds: Option<u64>,
    items: Vec<ResyncEntry>,
    next: Option<String>,
    scheduled: Vec<ScheduledEntry>,
    limit_bytes_per_second: Option<u64>,
}

/// GET /resync
pub async fn resync(
    _: CurrentUser,
    InCluster(cluster): InCluster,
    Asked(paging): Asked<super::Paging>,
) -> Result<Json<ResyncAnswer>, AppError> {
    let now = resync::now(&cluster).await?;
    let page = list::page(now.view.items, &paging.window()?, |item| item.component.to_string())?;
    let scheduled = now.view.scheduled.into_iter().map(|repair| ScheduledEntry {
        object: repair.object.to_string(),
        object_name: repair.object_name,
        starts_at: rfc3339(repair.starts_at),
        why: repair.why,
    });
    Ok(Json(ResyncAnswer {
        bytes_left: now.bytes_left,
        eta_seconds: now.eta_seconds,
        items: page.items.iter().map(ResyncEntry::from).collect(),
        next: page.next,
        scheduled: scheduled.collect(),
        limit_bytes_per_second: now.view.limit_bytes_per_second,
    }))
}

/// Body of PATCH /resync; null lifts the limit.
#[derive(Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct LimitBody {
    #[serde(deserialize_with = "present")]
    limit_bytes_per_second: Option<u64>,
}

/// Must be there, and may be null.
fn present<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Option<u64>, D::Error> {
    Option::deserialize(deserializer)
}

/// PATCH /resync
pub async fn limit_resync(
    Operator(actor): Operator,
    State(app): State<App>,
    in_cluster: InCluster,
    Body(body): Body<LimitBody>,
) -> Result<Json<ResyncAnswer>, AppError> {
    resync::set_limit(&app, &actor, &in_cluster.0, body.limit_bytes_per_second).await?;
    resync(CurrentUser(actor), in_cluster, Asked(super::Paging::default())).await
}

/// Body of POST /resync/repair-now.
#[derive(Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct RepairBody {
    #[cfg_attr(test, schema(value_type = Option<String>))]
    object: Option<ObjectId>,
}

/// POST /resync/repair-now
pub async fn repair_now(
    Operator(actor): Operator,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Body(body): Body<RepairBody>,
) -> Result<Response, AppError> {
    let outcome = resync::repair_now(&app, &actor, &cluster, body.object).await?;
    Ok(super::accepted(outcome.task, outcome.applied.warnings))
}

/// POST /scrub
pub async fn scrub(
    Operator(actor): Operator,
    State(app): State<App>,
    InCluster(cluster): InCluster,
) -> Result<Response, AppError> {
    let outcome = resync::scrub(&app, &actor, &cluster).await?;
    Ok(super::accepted(outcome.task, outcome.applied.warnings))
}

/// Query of GET /tasks.
#[derive(Deserialize)]
pub struct TasksQuery {
    state: Option<TaskState>,
    limit: Option<u32>,
    after: Option<String>,
}

/// GET /tasks
pub async fn tasks(
    _: CurrentUser,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Asked(query): Asked<TasksQuery>,
) -> Result<Json<dto::List<dto::TaskItem>>, AppError> {
    let window = list::window(query.limit, query.after)?;
    Ok(super::items(tasks::page(&app, &cluster, query.state, &window).await?))
}

/// GET /tasks/{id}
pub async fn task(
    _: CurrentUser,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Named(ById { id }): Named<ById<TaskId>>,
) -> Result<Json<dto::TaskItem>, AppError> {
    Ok(Json(tasks::get(&app, &cluster, id).await?.into()))
}

/// POST /tasks/{id}/cancel
pub async fn cancel_task(
    Operator(actor): Operator,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Named(ById { id }): Named<ById<TaskId>>,
) -> Result<Json<dto::TaskItem>, AppError> {
    Ok(Json(tasks::cancel(&app, &actor, &cluster, id).await?.into()))
}

/// An event.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct EventItem {
    id: i64,
    time: String,
    severity: String,
    kind: String,
    subject: String,
    text: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    user: Option<String>,
}

impl From<PastEvent> for EventItem {
    fn from(event: PastEvent) -> Self {
        let severity = crate::db::to_word(&event.severity);
        let PastEvent { id, time, kind, subject, text, user, .. } = event;
        Self { id, time: rfc3339(time), severity, kind, subject, text, user }
    }
}

/// Query of GET /events.
#[derive(Deserialize)]
pub struct EventsQuery {
    severity: Option<Severity>,
    kind: Option<String>,
    subject: Option<String>,
    limit: Option<u32>,
    after: Option<String>,
}

/// GET /events
pub async fn events(
    _: CurrentUser,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Asked(query): Asked<EventsQuery>,
) -> Result<Json<dto::List<EventItem>>, AppError> {
    let window = list::window(query.limit, query.after)?;
    let filter = EventFilter { severity: query.severity, kind: query.kind, subject: query.subject };
    Ok(super::items(events::page(&app, &cluster, &filter, &window).await?))
}

/// Body of POST /lab/faults. Which of the others count depends on `fault`.
#[derive(Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct FaultBody {
    target: String,
    fault: String,
    latency_ms: Option<u32>,
    from: Option<Vec<String>>,
    #[cfg_attr(test, schema(value_type = Option<String>))]
    object: Option<ObjectId>,
    offset_bytes: Option<u64>,
    length_bytes: Option<u64>,
}

impl FaultBody {
    fn fault(&self) -> Result<Fault, AppError> {
        Ok(match self.fault.as_str() {
            "power-off" => Fault::PowerOff,
            "power-on" => Fault::PowerOn,
            "slow" => Fault::Slow { latency_ms: self.latency_ms },
            "partition" => match &self.from {
                Some(from) if !from.is_empty() => Fault::Partition { from: from.clone() },
                _ => return Err(AppError::field("from", "name the hosts that cannot be reached")),
            },
            "fail" => Fault::Fail,
            "corrupt" => Fault::Corrupt {
                object: self.object,
                offset_bytes: self.offset_bytes,
                length_bytes: self.length_bytes,
            },
            "full" => Fault::Full,
            "heal" => Fault::Heal,
            _ => {
                let detail = "power-off, power-on, slow, partition, fail, corrupt, full or heal";
                return Err(AppError::field("fault", detail));
            }
        })
    }
}

/// What a fault did.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct FaultAnswer {
    applied: Vec<String>,
}

/// POST /lab/faults
pub async fn inject_fault(
    Operator(actor): Operator,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Body(body): Body<FaultBody>,
) -> Result<Json<FaultAnswer>, AppError> {
    let fault = body.fault()?;
    let applied = faults::inject(&app, &actor, &cluster, &body.target, fault).await?;
    Ok(Json(FaultAnswer { applied }))
}
