//! The cluster itself: what it is, making it, changing it.
use crate::app::{App, Cluster};
use crate::error::AppError;
use crate::service::auth::{Actor, check_name};
use crate::service::draft::{self, Claim, Draft, DraftHost, Services};
use crate::service::grouping::together;
use crate::service::{disks, intent, inventory, plan};
use model::engine::{Capabilities, Intent};
use model::ids::TaskId;
use model::plan::PlannedHost;
use model::policy::Policy;
use model::state::{ClusterState, ClusterType, TaskState};

use model::view::{ClusterView, FaultDomainView, SiteView, Snapshot};
use std::sync::Arc;

/// What there is to say about a cluster.
#[derive(Clone, Debug)]
pub struct Overview {
    /// Key in paths.
    pub key: String,
    /// Identity and configuration; from the draft while nothing is configured.
    pub view: ClusterView,
    /// What the engine can do.
    pub capabilities: Capabilities,
    /// Data services: chosen in the draft; a configured cluster of this release has none.
    pub services: Services,
    /// What to know although it is valid.
    pub warnings: Vec<String>,
}

/// The truth now, or while nothing is configured, the picture of the draft.
///
/// # Errors
/// [`AppError::Unavailable`], [`AppError::Internal`].
pub async fn snapshot_or_picture(app: &App, cluster: &Cluster) -> Result<Arc<Snapshot>, AppError> {
    let snapshot = cluster.snapshot().await?;
    if snapshot.cluster.state != ClusterState::Unconfigured {
        return Ok(snapshot);
    }
    let draft = draft::load(app, &cluster.key).await?.draft;
    Ok(Arc::new(plan::picture(&draft, app.clock.now())))
}

/// One cluster.
///
/// # Errors
/// [`AppError::Unavailable`], [`AppError::Internal`].
pub async fn overview(app: &App, cluster: &Cluster) -> Result<Overview, AppError> {
    let snapshot = snapshot_or_picture(app, cluster).await?;
    let (mut services, mut warnings) = (Services::default(), Vec::new());
    if snapshot.cluster.state == ClusterState::Unconfigured {
        let draft = draft::load(app, &cluster.key).await?.draft;
        warnings = plan::warnings(&draft);
        services = draft.services;
    }
    let capabilities = cluster.engine.capabilities();
    Ok(Overview {
        key: cluster.key.clone(),
        view: snapshot.cluster.clone(),
        capabilities,
        services,
        warnings,
    })
}

/// What `POST /cluster` says over the draft; what is `None` stays as the draft has it.
#[derive(Clone, Debug, Default)]
pub struct Configure {
    /// Name.
    pub name: Option<String>,
    /// Kind.
    pub cluster_type: Option<ClusterType>,
    /// Named fault domains.
    pub fault_domains: Option<Vec<FaultDomainView>>,
    /// Sites.
    pub sites: Option<Vec<SiteView>>,
    /// Preferred site.
    pub preferred_site: Option<String>,
    /// Claims.
    pub claims: Option<Vec<Claim>>,
    /// Data services.
    pub services: Option<Services>,
    /// A policy's name.
    pub default_policy: Option<String>,
    /// A whole policy that becomes the default.
    pub new_policy: Option<Policy>,
    /// A licence key.
    pub licence: Option<String>,
}

impl Configure {
    fn put(&self, draft: &mut Draft) -> Result<(), AppError> {
        if let Some(name) = &self.name {
            check_name(name).map_err(|detail| AppError::field("name", detail))?;
            draft.name.clone_from(name);
        }
        if let Some(cluster_type) = self.cluster_type {
            draft.cluster_type = cluster_type;
        }
        if let Some(domains) = &self.fault_domains {
            draft.set_fault_domains(domains.clone())?;
        }
        if let Some(sites) = &self.sites {
            draft.sites.clone_from(sites);
        }
        if let Some(site) = &self.preferred_site {
            draft.preferred_site = Some(site.clone());
        }
        if let Some(claims) = &self.claims {
            draft.claims.clone_from(claims);
        }
        if let Some(services) = &self.services {
            draft.services = services.clone();
        }
        if let Some(policy) = &self.new_policy {
            let known =
                draft.policies.iter().find(|known| known.name == policy.name).map(|known| known.version);
            draft.put_policy(policy.clone(), known)?;
            draft.default_policy.clone_from(&policy.name);
        }
        if let Some(name) = &self.default_policy {
            draft.default_policy.clone_from(name);
        }
        if let Some(key) = &self.licence {
            draft.licence_key = Some(key.clone());
        }
        Ok(())
    }
}

/// Makes the cluster from the draft: the last step of the wizard, and `POST /cluster`. A second call while the first is
/// under way answers the same task.
///
/// # Errors
/// [`AppError::Invalid`] with every wrong field, [`AppError::NotYet`], [`AppError::Conflict`] when there is a cluster already;
/// no disk was touched then.
pub async fn configure(
    app: &App,
    actor: &Actor,
    cluster: &Cluster,
    expected: Option<i64>,
    what: &Configure,
) -> Result<TaskId, AppError> {
    if let Some(key) = &what.licence {
        super::licence::verify(app, key).await?;
    }
    let named = disks::named_by(what.claims.as_deref().unwrap_or_default());
    let seen = disks::seen_for(app, cluster, &named).await?;
    let snapshot = cluster.snapshot().await?;
    let under_way = draft::load(app, &cluster.key).await?.draft.task;
    let under_way = under_way.filter(|task| is_running(&snapshot, *task));
    if let Some(task) = under_way {
        return Ok(task);
    }
    let new_task = app.rng.task_id(app.clock.now());
    let capabilities = cluster.engine.capabilities();
    let put = |draft: &mut Draft| {
        what.put(draft)?;
        disks::adopt(app, &seen, &snapshot, draft, &named)?;
        let plan = plan::plan(draft, &capabilities)?;
        draft.task = Some(new_task);
        Ok(plan)
    };
    let (plan, _) = draft::change_unconfigured(app, actor, cluster, expected, put).await?;
    intent::apply_as(app, actor, cluster, new_task, Intent::ConfigureCluster { plan }).await?;
    inventory::expire_after(app, cluster, new_task);
    Ok(new_task)
}

fn is_running(snapshot: &Snapshot, task: TaskId) -> bool {
    snapshot.tasks.iter().any(|view| view.id == task && view.state == TaskState::Running)
}

/// Adds disk groups to a configured cluster.
///
/// # Errors
/// [`AppError::Invalid`], [`AppError::Conflict`] when there is no cluster yet.
pub async fn add_claims(
    app: &App,
    actor: &Actor,
    cluster: &Cluster,
    claims: &[Claim],
) -> Result<TaskId, AppError> {
    let snapshot = cluster.snapshot().await?;
    if snapshot.cluster.state != ClusterState::Ready {
        return Err(AppError::Conflict("there is no cluster yet; claim these disks when you make it".into()));
    }
    let named = disks::named_by(claims);
    let seen = disks::seen_for(app, cluster, &named).await?;
    let mut draft = draft::load(app, &cluster.key).await?.draft;
    let claimed: Vec<_> = snapshot.disks.iter().map(|disk| disk.id).collect();
    draft.disks.retain(|disk| !claimed.contains(&disk.id));
    // Hosts of the cluster keep the identity that the engine knows, also when the console's history was deleted.
    draft.hosts.retain(|host| !snapshot.hosts.iter().any(|known| known.name == host.name));
    draft.hosts.extend(snapshot.hosts.iter().map(|host| DraftHost {
        id: host.id,
        name: host.name.clone(),
        kind: host.kind,
        role: host.role,
    }));
    disks::adopt(app, &seen, &snapshot, &mut draft, &named)?;
    plan::check_claims(&draft, claims)?;
    let running = together::hosts_of(app, &snapshot).await?;
    AppError::check(together::torn(&draft, claims, &running, &snapshot.cluster.fault_domains))?;
    let is_new = |name: &str| !snapshot.hosts.iter().any(|host| host.name == name);
    let hosts = draft.hosts.iter().filter(|host| is_new(&host.name));
    let hosts = hosts.filter(|host| claims.iter().any(|claim| claim.host == host.name));
    let hosts = hosts
        .map(|host| PlannedHost { id: host.id, name: host.name.clone(), kind: host.kind, role: host.role })
        .collect();
    let claims = plan::planned_groups(&draft, claims);
    let task = intent::apply(app, actor, cluster, Intent::AddClaims { hosts, claims }).await?.task;
    inventory::expire_after(app, cluster, task);
    Ok(task)
}

/// Changes name, default policy or repair delay; in the draft while nothing is configured.
///
/// # Errors
/// [`AppError::Invalid`], [`AppError::NotFound`] for a policy.
pub async fn update(
    app: &App,
    actor: &Actor,
    cluster: &Cluster,
    name: Option<String>,
    default_policy: Option<String>,
    repair_delay_seconds: Option<u32>,
) -> Result<(), AppError> {
    if let Some(name) = &name {
        check_name(name).map_err(|detail| AppError::field("name", detail))?;
    }
    let snapshot = snapshot_or_picture(app, cluster).await?;
    if let Some(policy) = &default_policy
        && !snapshot.policies.iter().any(|known| known.name == *policy)
    {
        return Err(AppError::field("default_policy", format!("there is no policy \"{policy}\"")));
    }
    if draft::is_unconfigured(cluster).await? {
        let put = |draft: &mut Draft| {
            if let Some(name) = &name {
                draft.name.clone_from(name);
            }
            if let Some(policy) = &default_policy {
                draft.default_policy.clone_from(policy);
            }
            draft.repair_delay_seconds = repair_delay_seconds.unwrap_or(draft.repair_delay_seconds);
            Ok(())
        };
        draft::change(app, actor, &cluster.key, None, put).await?;
        return Ok(());
    }
    let update = Intent::UpdateCluster { name, default_policy, repair_delay_seconds };
    intent::apply(app, actor, cluster, update).await.map(|_| ())
}

/// Replaces the named fault domains.
///
/// # Errors
/// [`AppError::Invalid`], or as the engine refuses.
pub async fn set_fault_domains(
    app: &App,
    actor: &Actor,
    cluster: &Cluster,
    fault_domains: Vec<FaultDomainView>,
) -> Result<(), AppError> {
    if draft::is_unconfigured(cluster).await? {
        let put = |draft: &mut Draft| draft.set_fault_domains(fault_domains.clone());
        draft::change(app, actor, &cluster.key, None, put).await?;
        return Ok(());
    }
    check_fault_domains(cluster, &fault_domains).await?;
    let running = together::hosts_of(app, &*cluster.snapshot().await?).await?;
    AppError::check(together::split(&running, &fault_domains, false))?;
    intent::apply(app, actor, cluster, Intent::SetFaultDomains { fault_domains }).await.map(|_| ())
}

/// Checks named fault domains against the hosts of a configured cluster.
///
/// # Errors
/// [`AppError::Invalid`].
pub async fn check_fault_domains(cluster: &Cluster, domains: &[FaultDomainView]) -> Result<(), AppError> {
    let snapshot = cluster.snapshot().await?;
    let hosts: Vec<&str> = snapshot.hosts.iter().map(|host| host.name.as_str()).collect();
    AppError::check(draft::fault_domain_problems(domains, &hosts))
}
