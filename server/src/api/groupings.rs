//! Proposals for failure domains out of one machine, as the API gives them.
use super::dto;
use crate::app::App;
use crate::db::to_word;
use crate::error::AppError;
use crate::http::auth::CurrentUser;
use crate::http::body::InCluster;
use crate::service::grouping;
use ::inventory::grouping as pure;
use axum::Json;
use axum::extract::State;
use serde::Serialize;

/// A way to divide this machine.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct Grouping {
    /// Kind of each domain: `disk`, `enclosure`, `machine`.
    pub kind: String,
    /// One line.
    pub title: String,
    /// Failure domains.
    pub domains: Vec<Domain>,
    /// What each policy gets.
    pub policies: Vec<Yield>,
    /// What to know.
    pub warnings: Vec<String>,
}

/// A failure domain of a proposal: disks by id.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct Domain {
    /// Name for the host.
    pub name: String,
    /// Cache disks; none when each capacity disk carries its own log.
    pub cache: Vec<String>,
    /// Capacity disks.
    pub capacity: Vec<String>,
}

/// What one policy gets from a grouping.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct Yield {
    /// The policy.
    pub policy: String,
    /// Bytes of data that fit when everything uses it.
    pub usable_bytes: u64,
    /// Bytes that it can never use.
    pub unused_bytes: u64,
    /// Fault domains that it needs.
    pub needs_fault_domains: u32,
    /// Fault domains that count.
    pub has_fault_domains: u32,
    /// Why it cannot be used.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub refusal: Option<String>,
    /// What would make it possible.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub remedy: Option<String>,
    /// Single losses that every volume survives.
    pub survives: Vec<String>,
    /// Single losses that some volume may not survive.
    pub dies_with: Vec<String>,
}

impl From<pure::Grouping> for Grouping {
    fn from(grouping: pure::Grouping) -> Self {
        let ids = |ids: Vec<model::ids::DiskId>| ids.iter().map(ToString::to_string).collect();
        let domain = |domain: pure::Domain| Domain {
            name: domain.name,
            cache: ids(domain.cache),
            capacity: ids(domain.capacity),
        };
        Self {
            kind: to_word(&grouping.kind),
            title: grouping.title,
            domains: grouping.domains.into_iter().map(domain).collect(),
            policies: grouping.yields.into_iter().map(Yield::from).collect(),
            warnings: grouping.warnings.into_iter().map(|warning| warning.text).collect(),
        }
    }
}

impl From<pure::Yield> for Yield {
    fn from(one: pure::Yield) -> Self {
        Self {
            policy: one.usable.policy,
            usable_bytes: one.usable.usable_bytes,
            unused_bytes: one.usable.stranded_bytes.values().sum(),
            needs_fault_domains: one.usable.needs_fault_domains,
            has_fault_domains: one.usable.has_fault_domains,
            refusal: one.refusal,
            remedy: one.remedy,
            survives: one.survives,
            dies_with: one.dies_with,
        }
    }
}

/// GET /disks/groupings
pub async fn all(
    _: CurrentUser,
    State(app): State<App>,
    InCluster(cluster): InCluster,
) -> Result<Json<dto::List<Grouping>>, AppError> {
    let proposals = grouping::proposals(&app, &cluster).await?;
    Ok(Json(dto::List { items: proposals.into_iter().map(Grouping::from).collect(), next: None }))
}
