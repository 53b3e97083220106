//! Volumes and objects.
use super::dto;
use crate::app::{App, Cluster};
use crate::db::views::query::{ObjectQuery, ObjectRow, ObjectSort};
use crate::error::AppError;
use crate::http::auth::{CurrentUser, Operator};
use crate::http::body::{Asked, Body, ById, ByName, InCluster, Named};
use crate::service::{list, volumes};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use model::ids::ObjectId;
use model::state::{Compliance, ObjectHealth};
use model::view::ObjectView;
use serde::Deserialize;

/// Filters, order and paging of volumes and objects.
#[derive(Deserialize)]
pub struct ObjectsQuery {
    health: Option<ObjectHealth>,
    compliance: Option<Compliance>,
    policy: Option<String>,
    search: Option<String>,
    host: Option<String>,
    #[serde(default)]
    sort: ObjectSort,
    #[serde(default)]
    descending: bool,
    limit: Option<u32>,
    after: Option<String>,
}

impl ObjectsQuery {
    async fn page(
        self,
        app: &App,
        cluster: &Cluster,
    ) -> Result<crate::db::views::query::Page<ObjectRow>, AppError> {
        let window = list::window(self.limit, self.after)?;
        let Self { health, compliance, policy, search, host, sort, descending, .. } =
            ObjectsQuery { limit: None, after: None, ..self };
        let query = ObjectQuery { health, compliance, policy, search, host, sort, descending };
        volumes::page(app, cluster, &query, &window).await
    }
}

async fn volume(cluster: &Cluster, object: &ObjectView) -> Result<dto::Volume, AppError> {
    Ok(dto::Volume {
        name: object.name.clone(),
        uuid: object.uuid.to_string(),
        size_bytes: object.size_bytes,
        used_bytes: object.used_bytes,
        policy: object.policy.clone(),
        compliance: object.compliance,
        health: object.health,
        attach: volumes::attach(cluster, object.uuid).await?,
    })
}

/// GET /volumes
pub async fn volumes(
    _: CurrentUser,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Asked(query): Asked<ObjectsQuery>,
) -> Result<Json<dto::List<dto::Volume>>, AppError> {
    let page = query.page(&app, &cluster).await?;
    let mut items = Vec::new();
    for row in page.items {
        items.push(dto::Volume {
            attach: volumes::attach(&cluster, row.uuid).await.unwrap_or_default(),
            name: row.name,
            uuid: row.uuid.to_string(),
            size_bytes: row.size_bytes,
            used_bytes: row.used_bytes,
            policy: row.policy,
            compliance: row.compliance,
            health: row.health,
        });
    }
    Ok(Json(dto::List { items, next: page.next }))
}

/// Body of POST /volumes.
#[derive(Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct VolumeBody {
    name: String,
    size_bytes: u64,
    policy: Option<String>,
}

/// POST /volumes
pub async fn create(
    Operator(actor): Operator,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Body(body): Body<VolumeBody>,
) -> Result<Response, AppError> {
    let object = volumes::create(&app, &actor, &cluster, &body.name, body.size_bytes, body.policy).await?;
    let location =
        HeaderValue::from_str(&format!("/api/v1/volumes/{}", object.name)).map_err(AppError::internal)?;
    let body = Json(volume(&cluster, &object).await?);
    Ok((StatusCode::CREATED, [(header::LOCATION, location)], body).into_response())
}

/// GET /volumes/{name}
pub async fn get(
    _: CurrentUser,
    InCluster(cluster): InCluster,
    Named(ByName { name }): Named<ByName>,
) -> Result<Json<dto::Volume>, AppError> {
    let object = volumes::by_name(&cluster, &name).await?;
    Ok(Json(volume(&cluster, &object).await?))
}

/// Body of PATCH /volumes/{name}.
#[derive(Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct GrowBody {
    size_bytes: u64,
}

/// PATCH /volumes/{name}
pub async fn grow(
    Operator(actor): Operator,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Named(ByName { name }): Named<ByName>,
    Body(body): Body<GrowBody>,
) -> Result<Json<dto::Volume>, AppError> {
    let object = volumes::grow(&app, &actor, &cluster, &name, body.size_bytes).await?;
    Ok(Json(volume(&cluster, &object).await?))
}

/// Query of DELETE /volumes/{name}.
#[derive(Deserialize)]
pub struct ConfirmQuery {
    confirm: Option<String>,
}

/// DELETE /volumes/{name}
pub async fn delete(
    Operator(actor): Operator,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Named(ByName { name }): Named<ByName>,
    Asked(query): Asked<ConfirmQuery>,
) -> Result<StatusCode, AppError> {
    volumes::delete(&app, &actor, &cluster, &name, query.confirm.as_deref()).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// Body of PUT /volumes/{name}/policy.
#[derive(Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PolicyName {
    policy: String,
}

/// PUT /volumes/{name}/policy
pub async fn set_policy(
    Operator(actor): Operator,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Named(ByName { name }): Named<ByName>,
    Body(body): Body<PolicyName>,
) -> Result<Response, AppError> {
    let task = volumes::apply_policy(&app, &actor, &cluster, &name, Some(body.policy)).await?;
    Ok(super::accepted(task, Vec::new()))
}

/// POST /volumes/{name}/reapply
pub async fn reapply(
    Operator(actor): Operator,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Named(ByName { name }): Named<ByName>,
) -> Result<Response, AppError> {
    let task = volumes::apply_policy(&app, &actor, &cluster, &name, None).await?;
    Ok(super::accepted(task, Vec::new()))
}

/// GET /objects
pub async fn objects(
    _: CurrentUser,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Asked(query): Asked<ObjectsQuery>,
) -> Result<Json<dto::List<dto::Object>>, AppError> {
    Ok(super::items(query.page(&app, &cluster).await?))
}

/// `{uuid}` in the path.
pub type ByObject = ById<ObjectId>;

/// GET /objects/{id}
pub async fn object(
    _: CurrentUser,
    InCluster(cluster): InCluster,
    Named(ById { id }): Named<ByObject>,
) -> Result<Json<dto::Object>, AppError> {
    Ok(Json(dto::Object::from(&*volumes::by_id(&cluster, id).await?)))
}
