//! Fault domains: put them in force, or see first what other ones would mean.
use super::dto;
use super::risk::Ref;
use crate::app::App;
use crate::error::AppError;
use crate::http::auth::Admin;
use crate::http::body::{Asked, Body, InCluster};
use crate::service::{cluster, domains};
use axum::Json;
use axum::extract::State;
use axum::response::{IntoResponse, Response};
use serde::{Deserialize, Serialize};

/// Query of PUT /fault-domains.
#[derive(Deserialize)]
pub struct PreviewQuery {
    preview: Option<String>,
}

/// A volume that other fault domains would touch.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct TouchedItem {
    #[serde(flatten)]
    object: Ref,
    /// Failures of fault domains that it survives now.
    tolerates_now: u32,
    /// And with the other domains.
    tolerates_then: u32,
    /// Whether its policy is kept now and would not be any more.
    breaks_policy: bool,
}

/// What other fault domains would mean. Nothing moves by itself when they are put in force.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct DomainsPreview {
    /// Domains that count now.
    has_fault_domains: u32,
    /// And would count.
    would_have_fault_domains: u32,
    /// Volumes whose protection would change.
    objects: Vec<TouchedItem>,
    /// Bytes that have to move before every volume keeps its policy again.
    bytes_to_move: u64,
    /// Parts that would find no disk in another domain.
    without_a_place: u32,
    /// One sentence each: empty domains, hosts in none, names that count as one.
    warnings: Vec<String>,
}

impl From<domains::Preview> for DomainsPreview {
    fn from(preview: domains::Preview) -> Self {
        let count = |list: &[String]| u32::try_from(list.len()).unwrap_or(u32::MAX);
        let item = |touched: domains::Touched| TouchedItem {
            object: Ref::new(touched.uuid, touched.name),
            tolerates_now: touched.before,
            tolerates_then: touched.after,
            breaks_policy: touched.breaks,
        };
        Self {
            has_fault_domains: count(&preview.now.domains),
            would_have_fault_domains: count(&preview.then.domains),
            objects: preview.touched.into_iter().map(item).collect(),
            bytes_to_move: preview.moves.bytes,
            without_a_place: preview.moves.homeless,
            warnings: preview.then.warnings,
        }
    }
}

/// PUT /fault-domains, and with `?preview=1` nothing but the answer.
pub async fn put(
    Admin(actor): Admin,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Asked(query): Asked<PreviewQuery>,
    Body(body): Body<Vec<dto::HostGroup>>,
) -> Result<Response, AppError> {
    let wished = super::cluster::domains(body);
    match query.preview.as_deref() {
        None | Some("0") => {
            cluster::set_fault_domains(&app, &actor, &cluster, wished).await?;
            let now: dto::Cluster = cluster::overview(&app, &cluster).await?.into();
            Ok(Json(now).into_response())
        }
        Some("1") => {
            let seen = domains::preview_now(&app, &cluster, &wished).await?;
            Ok(Json(DomainsPreview::from(seen)).into_response())
        }
        Some(_) => Err(AppError::field("preview", "1, or leave it out")),
    }
}
