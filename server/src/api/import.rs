//! Looking for a cluster on disks, and taking it over.
use crate::app::App;
use crate::error::AppError;
use crate::http::auth::Admin;
use crate::http::body::{Body, InCluster};
use crate::service::import::{self, FoundCluster};
use axum::Json;
use axum::extract::State;
use axum::response::Response;
use model::ids::ClusterId;
use model::state::ObjectHealth;
use model::view::ObjectView;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// Body of POST /import/scan.
#[derive(Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ScanBody {
    /// Absolute paths of disks, or of folders of disks.
    paths: Vec<String>,
}

/// Body of POST /import.
#[derive(Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ImportBody {
    /// Id of the cluster, from a scan.
    #[cfg_attr(test, schema(value_type = String))]
    cluster: ClusterId,
    /// Absolute paths of disks, or of folders of disks.
    paths: Vec<String>,
}

/// What a scan found.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct ScanAnswer {
    clusters: Vec<Found>,
    refused: Vec<RefusedPath>,
}

/// A path that cannot be used.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct RefusedPath {
    path: String,
    reason: String,
}

/// A cluster on disks.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct Found {
    uuid: String,
    name: String,
    disks_present: usize,
    disks_listed: usize,
    disks: Vec<PresentDisk>,
    missing: Vec<MissingDisk>,
    /// Whether nothing is in the way.
    importable: bool,
    /// What must be put right first, one sentence each.
    obstacles: Vec<String>,
    /// What is odd and not in the way, one sentence each.
    notes: Vec<String>,
    /// Obstacles and notes.
    findings: Vec<String>,
    /// How many objects would have which health.
    #[cfg_attr(test, schema(value_type = Object))]
    health: BTreeMap<String, usize>,
    /// The objects as they would be.
    objects: Vec<FoundObject>,
}

/// A disk that is there.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct PresentDisk {
    name: String,
    path: String,
}

/// A disk that is not there.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct MissingDisk {
    id: String,
    name: String,
    host: String,
}

/// An object as it would be.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct FoundObject {
    uuid: String,
    name: String,
    size_bytes: u64,
    policy: String,
    #[cfg_attr(test, schema(value_type = String))]
    health: ObjectHealth,
    #[serde(skip_serializing_if = "Option::is_none")]
    reason: Option<String>,
    accessible: bool,
    tolerates_now: u32,
}

impl From<&ObjectView> for FoundObject {
    fn from(object: &ObjectView) -> Self {
        Self {
            uuid: object.uuid.to_string(),
            name: object.name.clone(),
            size_bytes: object.size_bytes,
            policy: object.policy.clone(),
            health: object.health,
            reason: object.reason.clone(),
            accessible: object.accessible,
            tolerates_now: object.tolerates_now,
        }
    }
}

impl From<FoundCluster> for Found {
    fn from(found: FoundCluster) -> Self {
        let word = |health: ObjectHealth| {
            serde_json::to_value(health)
                .ok()
                .and_then(|word| Some(word.as_str()?.to_owned()))
                .unwrap_or_default()
        };
        let health =
            import::healths(&found).into_iter().map(|(health, count)| (word(health), count)).collect();
        let FoundCluster { id, name, present, missing, inside, obstacles, notes } = found;
        Self {
            uuid: id.to_string(),
            name,
            disks_present: present.len(),
            disks_listed: present.len() + missing.len(),
            disks: present
                .into_iter()
                .map(|(name, path)| PresentDisk { name, path: path.display().to_string() })
                .collect(),
            missing: missing
                .into_iter()
                .map(|(id, name, host)| MissingDisk { id: id.to_string(), name, host })
                .collect(),
            importable: obstacles.is_empty(),
            findings: [obstacles.clone(), notes.clone()].concat(),
            obstacles,
            notes,
            health,
            objects: inside.objects.iter().map(|object| FoundObject::from(&**object)).collect(),
        }
    }
}

/// POST /import/scan
pub async fn scan(
    _: Admin,
    InCluster(_): InCluster,
    Body(body): Body<ScanBody>,
) -> Result<Json<ScanAnswer>, AppError> {
    let scan = import::scan(&body.paths).await?;
    let refused = scan.refused.into_iter();
    let refused = refused.map(|(path, reason)| RefusedPath { path: path.display().to_string(), reason });
    let clusters = scan.clusters.into_iter().map(Found::from).collect();
    Ok(Json(ScanAnswer { clusters, refused: refused.collect() }))
}

/// POST /import
pub async fn start(
    Admin(actor): Admin,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Body(body): Body<ImportBody>,
) -> Result<Response, AppError> {
    let task = import::start(&app, &actor, &cluster, body.cluster, &body.paths, false).await?;
    Ok(super::accepted(task, Vec::new()))
}
