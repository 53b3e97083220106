//! Cluster, hosts, fault domains, disks, lab, licence, import.
use super::dto;
use crate::app::App;
use crate::error::AppError;
use crate::http::auth::{Admin, CurrentUser, Operator};
use crate::http::body::{Asked, Body, ById, ByName, InCluster, Named};
use crate::service::draft::{Claim, Services};
use crate::service::{cluster, disks, hosts, lab, licence, list, replace};
use axum::Json;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::{IntoResponse, Response};
use model::ids::DiskId;
use model::plan::{DiskShape, LabShape};
use model::state::{ClusterType, HostKind};
use model::view::{FaultDomainView, SiteView};
use serde::{Deserialize, Serialize};

type Answer<T> = Result<Json<T>, AppError>;

/// GET /clusters
pub async fn all(_: CurrentUser, State(app): State<App>) -> Answer<dto::List<dto::Cluster>> {
    let mut items = Vec::new();
    for cluster in app.clusters.values() {
        items.push(cluster::overview(&app, cluster).await?.into());
    }
    Ok(Json(dto::List { items, next: None }))
}

/// GET /cluster
pub async fn get(
    _: CurrentUser,
    State(app): State<App>,
    InCluster(cluster): InCluster,
) -> Answer<dto::Cluster> {
    Ok(Json(cluster::overview(&app, &cluster).await?.into()))
}

/// A policy's name, or a whole policy.
#[derive(Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum PolicyChoice {
    /// Name.
    Name(String),
    /// The policy.
    Whole(Box<dto::PolicyBody>),
}

/// Where the witness lies.
#[derive(Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Witness {
    /// Host.
    pub host: String,
    /// Disk.
    pub disk: String,
}

/// Body of POST /cluster; what is left out stays as the draft has it.
#[derive(Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ConfigureBody {
    name: Option<String>,
    #[serde(rename = "type")]
    #[cfg_attr(test, schema(value_type = Option<String>))]
    cluster_type: Option<ClusterType>,
    fault_domains: Option<Vec<dto::HostGroup>>,
    sites: Option<Vec<dto::HostGroup>>,
    preferred_site: Option<String>,
    witness: Option<Witness>,
    claims: Option<Vec<Claim>>,
    services: Option<Services>,
    default_policy: Option<PolicyChoice>,
    licence: Option<String>,
}

pub(super) fn domains(groups: Vec<dto::HostGroup>) -> Vec<FaultDomainView> {
    groups.into_iter().map(|group| FaultDomainView { name: group.name, hosts: group.hosts }).collect()
}

/// POST /cluster
pub async fn configure(
    Admin(actor): Admin,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Body(body): Body<ConfigureBody>,
) -> Result<Response, AppError> {
    if body.witness.is_some() {
        return Err(AppError::NotYet(
            "a witness host comes with two-node and stretched clusters, in a later release".into(),
        ));
    }
    let (default_policy, new_policy) = match body.default_policy {
        Some(PolicyChoice::Name(name)) => (Some(name), None),
        Some(PolicyChoice::Whole(policy)) => (None, Some((*policy).into())),
        None => (None, None),
    };
    let site = |group: dto::HostGroup| SiteView { name: group.name, hosts: group.hosts };
    let what = cluster::Configure {
        name: body.name,
        cluster_type: body.cluster_type,
        fault_domains: body.fault_domains.map(domains),
        sites: body.sites.map(|sites| sites.into_iter().map(site).collect()),
        preferred_site: body.preferred_site,
        claims: body.claims,
        services: body.services,
        default_policy,
        new_policy,
        licence: body.licence,
    };
    let warnings = cluster::overview(&app, &cluster).await?.warnings;
    let task = cluster::configure(&app, &actor, &cluster, None, &what).await?;
    Ok(super::accepted(task, warnings))
}

/// Body of PATCH /cluster.
#[derive(Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct UpdateBody {
    name: Option<String>,
    default_policy: Option<String>,
    repair_delay_seconds: Option<u32>,
}

/// PATCH /cluster
pub async fn update(
    Admin(actor): Admin,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Body(body): Body<UpdateBody>,
) -> Answer<dto::Cluster> {
    let UpdateBody { name, default_policy, repair_delay_seconds } = body;
    cluster::update(&app, &actor, &cluster, name, default_policy, repair_delay_seconds).await?;
    Ok(Json(cluster::overview(&app, &cluster).await?.into()))
}

/// Body of POST /cluster/claims.
#[derive(Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ClaimsBody {
    claims: Vec<Claim>,
}

/// POST /cluster/claims
pub async fn claim(
    Admin(actor): Admin,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Body(body): Body<ClaimsBody>,
) -> Result<Response, AppError> {
    let task = cluster::add_claims(&app, &actor, &cluster, &body.claims).await?;
    Ok(super::accepted(task, Vec::new()))
}

/// `2x1GiB`, or count and size.
#[derive(Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(untagged)]
pub enum DisksBody {
    /// As in `--lab`.
    Text(String),
    /// In numbers.
    Shape {
        /// Disks a host.
        count: u32,
        /// Size of each.
        size_bytes: u64,
    },
}

impl DisksBody {
    fn shape(&self, field: &str) -> Result<DiskShape, AppError> {
        match self {
            Self::Text(text) => lab::parse_disks(text).map_err(|detail| AppError::field(field, detail)),
            Self::Shape { count, size_bytes } => Ok(DiskShape { count: *count, size_bytes: *size_bytes }),
        }
    }
}

/// Body of POST /lab.
#[derive(Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct LabBody {
    hosts: u32,
    cache: DisksBody,
    capacity: DisksBody,
    sites: Option<u32>,
    witness: Option<bool>,
}

/// What a planned lab looks like.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct LabAnswer {
    hosts: Vec<String>,
    total_bytes: u64,
}

/// POST /lab
pub async fn plan_lab(
    Admin(actor): Admin,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Body(body): Body<LabBody>,
) -> Answer<LabAnswer> {
    if body.sites.is_some_and(|sites| sites > 1) || body.witness == Some(true) {
        return Err(AppError::NotYet(
            "labs with sites and a witness come with stretched clusters, in a later release".into(),
        ));
    }
    let (cache, capacity) = (body.cache.shape("cache")?, body.capacity.shape("capacity")?);
    let shape = LabShape { hosts: body.hosts, cache, capacity };
    let draft = lab::plan(&app, &actor, &cluster, None, &shape).await?.draft;
    let total_bytes = u64::try_from(lab::total_bytes(&shape)).unwrap_or(u64::MAX);
    Ok(Json(LabAnswer { hosts: draft.hosts.into_iter().map(|host| host.name).collect(), total_bytes }))
}

/// GET /hosts
pub async fn hosts(
    _: CurrentUser,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Asked(paging): Asked<super::Paging>,
) -> Answer<dto::List<dto::Host>> {
    Ok(super::items(hosts::page(&app, &cluster, &paging.window()?).await?))
}

/// GET /hosts/{name}
pub async fn host(
    _: CurrentUser,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Named(ByName { name }): Named<ByName>,
) -> Answer<dto::Host> {
    Ok(Json(hosts::get(&app, &cluster, &name).await?.into()))
}

/// Body of POST /hosts.
#[derive(Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct HostBody {
    name: String,
    #[cfg_attr(test, schema(value_type = String))]
    kind: HostKind,
    #[serde(default)]
    #[cfg_attr(test, schema(value_type = Vec<String>))]
    disks: Vec<DiskId>,
}

/// POST /hosts
pub async fn add_host(
    Admin(actor): Admin,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Body(body): Body<HostBody>,
) -> Result<Response, AppError> {
    hosts::add(&app, &actor, &cluster, &body.name, body.kind, &body.disks).await?;
    let answer = serde_json::json!({"name": body.name, "kind": body.kind});
    Ok((StatusCode::CREATED, Json(answer)).into_response())
}

/// Query of GET /disks.
#[derive(Deserialize)]
pub struct DisksQuery {
    host: Option<String>,
    limit: Option<u32>,
    after: Option<String>,
}

/// GET /disks
pub async fn disks(
    _: CurrentUser,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Asked(query): Asked<DisksQuery>,
) -> Answer<dto::List<dto::Disk>> {
    let window = list::window(query.limit, query.after)?;
    Ok(super::items(disks::page(&app, &cluster, query.host.as_deref(), &window).await?))
}

/// Body of POST /disks.
#[derive(Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct FileDiskBody {
    host: String,
    path: String,
    size_bytes: Option<u64>,
}

/// POST /disks
pub async fn add_disk(
    Admin(actor): Admin,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Body(body): Body<FileDiskBody>,
) -> Result<Response, AppError> {
    let id = disks::add_file(&app, &actor, &cluster, &body.host, &body.path, body.size_bytes).await?;
    let all = disks::all(&app, &cluster).await?;
    let disk = all.into_iter().find(|disk| disk.view.id == id).map(dto::Disk::from);
    Ok((StatusCode::CREATED, Json(disk)).into_response())
}

/// POST /disks/{id}/retire
pub async fn retire_disk(
    Operator(_): Operator,
    Named(ById { id }): Named<ById<DiskId>>,
) -> Result<(), AppError> {
    Err(AppError::NotYet(format!(
        "retiring disk {id} by command comes with a later release; an absent or failed one can be replaced"
    )))
}

/// Body of POST /disks/{id}/replace.
#[derive(Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct ReplaceBody {
    /// Id of the disk that takes its place.
    #[cfg_attr(test, schema(value_type = String))]
    by: DiskId,
    /// Named again when it holds something that may be erased.
    #[serde(default)]
    #[cfg_attr(test, schema(value_type = Vec<String>))]
    erase: Vec<DiskId>,
}

/// POST /disks/{id}/replace
pub async fn replace_disk(
    Admin(actor): Admin,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Named(ById { id }): Named<ById<DiskId>>,
    Body(body): Body<ReplaceBody>,
) -> Result<Response, AppError> {
    let task = replace::replace(&app, &actor, &cluster, id, body.by, body.erase).await?;
    Ok(super::accepted(task, Vec::new()))
}

/// POST /hosts/{name}/maintenance
pub async fn maintenance(
    Operator(_): Operator,
    Named(ByName { name }): Named<ByName>,
) -> Result<(), AppError> {
    Err(AppError::NotYet(format!(
        "maintenance of host \"{name}\" comes with a later release; the precheck answers now"
    )))
}

/// What the licence is.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct LicenceAnswer {
    edition: String,
    required: bool,
    state: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    expires_at: Option<String>,
    features: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
}

impl From<licence::Licence> for LicenceAnswer {
    fn from(licence: licence::Licence) -> Self {
        let licence::Licence { edition, required, state, expires_at, features, holder } = licence;
        Self { edition, required, state: state.into(), expires_at, features, holder }
    }
}

/// GET /licence
pub async fn licence(
    _: CurrentUser,
    State(app): State<App>,
    InCluster(cluster): InCluster,
) -> Answer<LicenceAnswer> {
    Ok(Json(licence::get(&app, &cluster).await?.into()))
}

/// Body of PUT /licence; null goes back to Community.
#[derive(Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct LicenceBody {
    key: Option<String>,
}

/// PUT /licence
pub async fn put_licence(
    Admin(actor): Admin,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Body(body): Body<LicenceBody>,
) -> Answer<LicenceAnswer> {
    Ok(Json(licence::put(&app, &actor, &cluster, body.key).await?.into()))
}
