//! Policies and volumes' policies.
use super::dto;
use crate::app::App;
use crate::error::AppError;
use crate::http::auth::{CurrentUser, Operator};
use crate::http::body::{Asked, Body, ByName, InCluster, Named};
use crate::service::{list, policies};
use axum::Json;
use axum::extract::State;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use model::policy::Policy;
use serde::Deserialize;

/// GET /policies
pub async fn all(
    _: CurrentUser,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Asked(paging): Asked<super::Paging>,
) -> Result<Json<dto::List<dto::PolicyItem>>, AppError> {
    let all = policies::all(&app, &cluster).await?;
    Ok(super::items(list::page(all, &paging.window()?, |policy| policy.name.clone())?))
}

/// GET /policies/{name}
pub async fn get(
    _: CurrentUser,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Named(ByName { name }): Named<ByName>,
) -> Result<Json<dto::PolicyItem>, AppError> {
    Ok(Json(policies::get(&app, &cluster, &name).await?.into()))
}

/// POST /policies
pub async fn add(
    Operator(actor): Operator,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Body(body): Body<dto::PolicyBody>,
) -> Result<Response, AppError> {
    let policy = policies::add(&app, &actor, &cluster, body.into()).await?;
    Ok((StatusCode::CREATED, Json(dto::PolicyItem::from(policy))).into_response())
}

/// The body with the name of the path, which wins when the body has none.
fn named(name: String, body: dto::PolicyBody) -> Result<Policy, AppError> {
    if !body.name.is_empty() && body.name != name {
        return Err(AppError::field("name", "a policy keeps its name"));
    }
    Ok(Policy { name, ..body.into() })
}

/// Query of PUT /policies/{name}.
#[derive(Deserialize)]
pub struct ApplyQuery {
    apply: Option<String>,
}

/// PUT /policies/{name}
pub async fn replace(
    Operator(actor): Operator,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Named(ByName { name }): Named<ByName>,
    Asked(query): Asked<ApplyQuery>,
    Body(body): Body<dto::PolicyBody>,
) -> Result<Response, AppError> {
    let apply_now = match query.apply.as_deref() {
        None | Some("later") => false,
        Some("now") => true,
        Some(_) => return Err(AppError::field("apply", "now or later")),
    };
    let (policy, task) = policies::replace(&app, &actor, &cluster, named(name, body)?, apply_now).await?;
    let Some(task) = task else { return Ok(Json(dto::PolicyItem::from(policy)).into_response()) };
    let location = HeaderValue::from_str(&format!("/api/v1/tasks/{task}")).map_err(AppError::internal)?;
    let mut answer = serde_json::to_value(dto::PolicyItem::from(policy)).map_err(AppError::internal)?;
    answer["task"] = task.to_string().into();
    Ok((StatusCode::ACCEPTED, [(header::LOCATION, location)], Json(answer)).into_response())
}

/// DELETE /policies/{name}
pub async fn delete(
    Operator(actor): Operator,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Named(ByName { name }): Named<ByName>,
) -> Result<StatusCode, AppError> {
    policies::delete(&app, &actor, &cluster, &name).await?;
    Ok(StatusCode::NO_CONTENT)
}

/// POST /policies/{name}/preview
pub async fn preview(
    _: CurrentUser,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Named(ByName { name }): Named<ByName>,
    Body(body): Body<dto::PolicyBody>,
) -> Result<Json<super::risk::PreviewAnswer>, AppError> {
    Ok(Json(policies::preview(&app, &cluster, named(name, body)?).await?.into()))
}
