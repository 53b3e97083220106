//! Capacity, what-if, maintenance precheck, health, performance.
use super::dto;
use crate::app::App;
use crate::edge::{parse_rfc3339, rfc3339};
use crate::error::AppError;
use crate::http::auth::CurrentUser;
use crate::http::body::{Asked, Body, ByName, InCluster, Named};
use crate::service::{capacity, disks, health, performance};
use axum::Json;
use axum::extract::State;
use model::ids::ObjectId;
use model::units::Timestamp;
use model::what_if::{Answer, ObjectRef};
use serde::{Deserialize, Serialize};

/// An object in an answer.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct Ref {
    uuid: String,
    name: String,
}

impl Ref {
    /// Names an object.
    pub fn new(uuid: ObjectId, name: String) -> Self {
        Self { uuid: uuid.to_string(), name }
    }
}

fn refs(objects: Vec<ObjectRef>) -> Vec<Ref> {
    objects.into_iter().map(|object| Ref::new(object.uuid, object.name)).collect()
}

/// What could be stored under one policy.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct UsableItem {
    policy: String,
    usable_bytes: u64,
    needs_fault_domains: u32,
    has_fault_domains: u32,
}

/// One part of the raw capacity.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct PartItem {
    kind: String,
    bytes: u64,
}

/// Capacity.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct CapacityAnswer {
    raw_bytes: u64,
    used_raw_bytes: u64,
    free_raw_bytes: u64,
    usable_by_policy: Vec<UsableItem>,
    breakdown: Vec<PartItem>,
    disks: Vec<dto::Disk>,
}

/// GET /capacity
pub async fn capacity(
    _: CurrentUser,
    State(app): State<App>,
    InCluster(cluster): InCluster,
) -> Result<Json<CapacityAnswer>, AppError> {
    let capacity = capacity::now(&app, &cluster).await?;
    let usable = |usable: model::capacity::UsableByPolicy| UsableItem {
        policy: usable.policy,
        usable_bytes: usable.usable_bytes,
        needs_fault_domains: usable.needs_fault_domains,
        has_fault_domains: usable.has_fault_domains,
    };
    Ok(Json(CapacityAnswer {
        raw_bytes: capacity.raw_bytes,
        used_raw_bytes: capacity.used_raw_bytes,
        free_raw_bytes: capacity.free_raw_bytes,
        usable_by_policy: capacity.usable_by_policy.into_iter().map(usable).collect(),
        breakdown: capacity
            .breakdown
            .iter()
            .map(|part| PartItem { kind: part.kind.into(), bytes: part.bytes })
            .collect(),
        disks: capacity.disks.into_iter().map(|view| disks::claimed(view).into()).collect(),
    }))
}

/// Body of POST /what-if.
#[derive(Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct WhatIfBody {
    fail: Vec<String>,
    policy: Option<String>,
}

/// What failures would do.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct WhatIfAnswer {
    inaccessible: Vec<Ref>,
    reduced: Vec<Ref>,
    unaffected: u64,
    bytes_to_rebuild: u64,
    rebuild_fits: bool,
    fullest_disk_percent: u8,
}

/// POST /what-if
pub async fn what_if(
    _: CurrentUser,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Body(body): Body<WhatIfBody>,
) -> Result<Json<WhatIfAnswer>, AppError> {
    if body.policy.is_some() {
        return Err(AppError::NotYet(
            "failures under another policy come with a later release; leave `policy` out".into(),
        ));
    }
    let answer = capacity::what_if(&app, &cluster, &body.fail).await?;
    Ok(Json(WhatIfAnswer {
        inaccessible: refs(answer.inaccessible),
        reduced: refs(answer.reduced),
        unaffected: answer.unaffected,
        bytes_to_rebuild: answer.bytes_to_move,
        rebuild_fits: answer.rebuild_fits,
        fullest_disk_percent: answer.fullest_disk_percent,
    }))
}

/// What a changed policy would need and move.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct PreviewAnswer {
    satisfiable: bool,
    needs_fault_domains: u32,
    has_fault_domains: u32,
    objects: Vec<Ref>,
    bytes_to_move: u64,
    peak_extra_bytes: u64,
    capacity_factor: f64,
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(value_type = Option<Object>))]
    refusal: Option<model::placement::Refusal>,
    nearest: Vec<dto::PolicyItem>,
}

impl From<Answer> for PreviewAnswer {
    fn from(answer: Answer) -> Self {
        Self {
            satisfiable: answer.satisfiable,
            needs_fault_domains: answer.needs_fault_domains,
            has_fault_domains: answer.has_fault_domains,
            objects: refs(answer.objects),
            bytes_to_move: answer.bytes_to_move,
            peak_extra_bytes: answer.peak_extra_bytes,
            capacity_factor: answer.capacity_factor,
            refusal: answer.refusal,
            nearest: answer.nearest.into_iter().map(Into::into).collect(),
        }
    }
}

/// Query of the precheck.
#[derive(Deserialize)]
pub struct ModeQuery {
    mode: Option<String>,
}

/// What maintenance of a host would do.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct PrecheckAnswer {
    verdict: String,
    bytes_to_move: u64,
    inaccessible: Vec<Ref>,
    reduced: Vec<Ref>,
    blockers: Vec<String>,
    free_after_bytes: u64,
}

/// GET /hosts/{name}/maintenance/precheck
pub async fn precheck(
    _: CurrentUser,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Named(ByName { name }): Named<ByName>,
    Asked(query): Asked<ModeQuery>,
) -> Result<Json<PrecheckAnswer>, AppError> {
    let mode = query.mode.as_deref().unwrap_or("ensure-accessibility");
    if !["ensure-accessibility", "full-evacuation", "no-action"].contains(&mode) {
        return Err(AppError::field("mode", "ensure-accessibility, full-evacuation or no-action"));
    }
    let (answer, capacity) = capacity::maintenance(&app, &cluster, &name).await?;
    let moves = if mode == "full-evacuation" { answer.bytes_to_move } else { 0 };
    let mut blockers = Vec::new();
    if mode == "full-evacuation" && !answer.rebuild_fits {
        let summary = answer.refusal.map(|refusal| refusal.summary);
        blockers.push(summary.unwrap_or_else(|| "what lies on this host does not fit on the others".into()));
    }
    let verdict = match (answer.inaccessible.is_empty() && blockers.is_empty(), answer.reduced.is_empty()) {
        (false, _) => "red",
        (true, false) => "yellow",
        (true, true) => "green",
    };
    let on_host =
        capacity.disks.iter().filter(|disk| disk.host == name).map(model::view::DiskView::free_bytes);
    let free_after = capacity.free_raw_bytes.saturating_sub(on_host.sum()).saturating_sub(moves);
    Ok(Json(PrecheckAnswer {
        verdict: verdict.into(),
        bytes_to_move: moves,
        inaccessible: refs(answer.inaccessible),
        reduced: refs(answer.reduced),
        blockers,
        free_after_bytes: free_after,
    }))
}

/// GET /health
pub async fn health(
    _: CurrentUser,
    State(app): State<App>,
    InCluster(cluster): InCluster,
) -> Result<Json<serde_json::Value>, AppError> {
    let health = health::now(&app, &cluster).await?;
    let last_run = rfc3339(health.last_run);
    let check = |check: &health::Check| {
        let mut value = serde_json::to_value(check).unwrap_or_default();
        value["last_run"] = last_run.clone().into();
        value
    };
    let group = |group: &health::Group| serde_json::json!({"id": group.id, "checks": group.checks.iter().map(check).collect::<Vec<_>>()});
    let groups: Vec<_> = health.groups.iter().map(group).collect();
    Ok(Json(serde_json::json!({"status": health.status, "groups": groups})))
}

/// Query of GET /performance.
#[derive(Deserialize)]
pub struct SeriesQuery {
    entity: Option<String>,
    metric: Option<String>,
    from: Option<String>,
    to: Option<String>,
}

fn time(field: &str, text: Option<&str>) -> Result<Option<Timestamp>, AppError> {
    let Some(text) = text else { return Ok(None) };
    let time = parse_rfc3339(text).ok_or_else(|| AppError::field(field, "a time as 2026-01-31T12:00:00Z"))?;
    Ok(Some(time))
}

/// GET /performance
pub async fn performance(
    _: CurrentUser,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Asked(query): Asked<SeriesQuery>,
) -> Result<Json<serde_json::Value>, AppError> {
    let (from, to) = (time("from", query.from.as_deref())?, time("to", query.to.as_deref())?);
    let entity = query.entity.as_deref().unwrap_or("cluster");
    let metric = query.metric.as_deref().unwrap_or("write_iops");
    let series = performance::series(&app, &cluster, entity, metric, from, to).await?;
    let points: Vec<_> =
        series.points.iter().map(|(at, value)| serde_json::json!([rfc3339(*at), value])).collect();
    Ok(Json(serde_json::json!({"entity": entity, "metric": metric, "unit": series.unit, "points": points})))
}
