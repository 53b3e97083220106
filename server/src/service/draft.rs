//! The draft: all that a person has decided and no engine holds yet. Wizard and API work on the same one.
//!
//! Until the cluster is ready, hosts, lab, file disks, fault domains, claims and policies live here; finishing turns the
//! draft into a plan ([`super::plan`]) and hands it over. Identities are minted when a thing is first seen, so that a retry
//! makes the same cluster. Afterwards only disks that are not claimed yet stay.
use crate::app::{App, Cluster};
use crate::db::drafts;
use crate::edge::Rng;
use crate::error::{AppError, FieldError};
use crate::service::auth::{Actor, check_name};
use crate::service::grouping::{division, together};
use model::arithmetic;
use model::ids::{ClusterId, DiskId, HostId, TaskId};
use model::plan::{LabShape, Review};
use model::policy::Policy;
use model::state::{ClusterState, ClusterType, HostKind, HostRole, Media};
use model::units::REPAIR_DELAY_SECONDS;
use model::view::{FaultDomainView, SiteView};
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};
use std::collections::{BTreeMap, BTreeSet};

/// Hosts of one cluster at most. Source: vSAN.
pub const HOSTS_MAX: usize = 64;
/// Tries of a change when somebody else changes the draft at the same moment.
const TRIES: usize = 8;

/// What the draft holds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Draft {
    /// Identity that the cluster will have.
    pub cluster: ClusterId,
    /// Name; empty until it is given.
    pub name: String,
    /// Kind.
    pub cluster_type: ClusterType,
    /// Hosts in the order they were added.
    pub hosts: Vec<DraftHost>,
    /// Disks that the draft makes or knows: files, and those of this machine's devices that were given to a host. The other
    /// devices are listed live.
    pub disks: Vec<DraftDisk>,
    /// The lab, if it is one.
    pub lab: Option<LabShape>,
    /// Named fault domains.
    pub fault_domains: Vec<FaultDomainView>,
    /// Sites of a stretched cluster.
    pub sites: Vec<SiteView>,
    /// Site that is preferred.
    pub preferred_site: Option<String>,
    /// What is claimed for what.
    pub claims: Vec<Claim>,
    /// Data services.
    pub services: Services,
    /// Policies, the built-in one first.
    pub policies: Vec<Policy>,
    /// Name of the default policy.
    pub default_policy: String,
    /// Repair delay.
    pub repair_delay_seconds: u32,
    /// Licence key that was entered and verified.
    pub licence_key: Option<String>,
    /// The wizard step that the person left at; the pages define the words.
    pub step: String,
    /// The task that makes the cluster, once it was started.
    pub task: Option<TaskId>,
}

/// A host of the draft.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DraftHost {
    /// Identity.
    pub id: HostId,
    /// Name.
    pub name: String,
    /// Kind.
    pub kind: HostKind,
    /// Role.
    pub role: HostRole,
}

/// A disk of the draft: a file that is there or that will be made, or a block device. One without a host is left out.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct DraftDisk {
    /// Identity, fixed at first sight.
    pub id: DiskId,
    /// Name of its host.
    pub host: String,
    /// Short name.
    pub name: String,
    /// Absolute path.
    pub path: String,
    /// Size.
    pub size_bytes: u64,
    /// What it is made of.
    pub media: Media,
    /// What it lies on: disks with the same body fail together. Empty: it stands for itself.
    #[serde(default)]
    pub body: String,
    /// Whether the engine makes the file.
    pub make_file: bool,
    /// Whether the existing file or device holds anything.
    pub holds_data: bool,
    /// What was seen of a block device when it was given to its host or claimed; `None` for a file.
    #[serde(default)]
    pub review: Option<Review>,
    /// What a file that was there held when it was added; `None` for a device, and for a file that will be made.
    #[serde(default)]
    pub looked: Option<Review>,
}

impl DraftDisk {
    /// The mark of what was seen of it last.
    pub fn mark(&self) -> String {
        self.seen().map_or_else(|| "new".to_owned(), mark)
    }

    /// What was seen of it last; `None` for a file that will be made.
    pub fn seen(&self) -> Option<&Review> {
        self.review.as_ref().or(self.looked.as_ref())
    }
}

/// A word for what was seen of a disk: another one as soon as it is another disk, or holds something else. Whoever lets a disk
/// be erased says with it what they saw.
pub fn mark(seen: &Review) -> String {
    let contents = seen.contents.as_deref().unwrap_or_default();
    let digest = Sha256::digest(format!("{}\0{contents}\0{}", seen.identity, seen.fingerprint));
    digest.iter().take(12).map(|byte| format!("{byte:02x}")).collect()
}

/// One claim: disks of one host for their roles. An empty `cache` lets each capacity disk carry its own log.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct Claim {
    /// Name of the host.
    pub host: String,
    /// Ids of cache disks.
    #[serde(default)]
    #[cfg_attr(test, schema(value_type = Vec<String>))]
    pub cache: Vec<DiskId>,
    /// Ids of capacity disks.
    #[cfg_attr(test, schema(value_type = Vec<String>))]
    pub capacity: Vec<DiskId>,
    /// Ids of those that hold something and may be erased.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    #[cfg_attr(test, schema(value_type = Vec<String>))]
    pub erase: Vec<DiskId>,
    /// The `mark` that each of those was listed with. One that has another by now is refused: it holds something that nobody saw.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    #[cfg_attr(test, schema(value_type = std::collections::BTreeMap<String, String>))]
    pub expected: BTreeMap<DiskId, String>,
}

impl Claim {
    /// Lets a disk be erased that was seen with this mark.
    pub fn tick(&mut self, id: DiskId, mark: impl Into<String>) {
        if !self.erase.contains(&id) {
            self.erase.push(id);
        }
        self.expected.insert(id, mark.into());
    }
}

/// Data services of the cluster.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields, default)]
pub struct Services {
    /// Less space for the same data.
    pub space_efficiency: SpaceEfficiency,
    /// Encryption at rest.
    pub encryption: bool,
}

/// How space is saved.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(rename_all = "kebab-case")]
pub enum SpaceEfficiency {
    /// Not at all.
    #[default]
    None,
    /// Compression.
    Compression,
    /// Deduplication.
    Deduplication,
}

/// A draft with the version that a change of it must name.
#[derive(Clone, Debug, PartialEq)]
pub struct Versioned {
    /// The draft.
    pub draft: Draft,
    /// Rises with every change; 0 before the first.
    pub version: i64,
}

impl Draft {
    /// The empty draft of a new cluster.
    pub fn new(rng: &dyn Rng, repair_delay_seconds: Option<u32>) -> Self {
        Self {
            cluster: ClusterId::from_random(rng.bytes()),
            name: String::new(),
            cluster_type: ClusterType::SingleSite,
            hosts: Vec::new(),
            disks: Vec::new(),
            lab: None,
            fault_domains: Vec::new(),
            sites: Vec::new(),
            preferred_site: None,
            claims: Vec::new(),
            services: Services::default(),
            policies: vec![Policy::built_in()],
            default_policy: Policy::built_in().name,
            repair_delay_seconds: repair_delay_seconds.unwrap_or(REPAIR_DELAY_SECONDS),
            licence_key: None,
            step: String::new(),
            task: None,
        }
    }

    /// A host by name.
    pub fn host(&self, name: &str) -> Option<&DraftHost> {
        self.hosts.iter().find(|host| host.name == name)
    }

    /// A disk by id.
    pub fn disk(&self, id: DiskId) -> Option<&DraftDisk> {
        self.disks.iter().find(|disk| disk.id == id)
    }

    /// Disks that may be erased, each with the mark of what was seen when that was decided.
    pub fn ticked(&self) -> BTreeMap<DiskId, String> {
        let mut ticked = BTreeMap::new();
        for claim in &self.claims {
            for id in &claim.erase {
                let known = claim.expected.get(id).cloned().or_else(|| self.disk(*id).map(DraftDisk::mark));
                ticked.extend(known.map(|mark| (*id, mark)));
            }
        }
        ticked
    }

    /// Adds a host.
    ///
    /// # Errors
    /// [`AppError::Invalid`] on `name`; [`AppError::Conflict`] when it is taken or there are 64.
    pub fn add_host(&mut self, rng: &dyn Rng, name: &str, kind: HostKind) -> Result<(), AppError> {
        check_name(name).map_err(|detail| AppError::field("name", detail))?;
        if self.host(name).is_some() {
            return Err(AppError::Conflict(format!("host \"{name}\" exists already; choose another name")));
        }
        if self.hosts.len() >= HOSTS_MAX {
            return Err(AppError::Conflict(format!("a cluster has at most {HOSTS_MAX} hosts")));
        }
        let id = HostId::from_random(rng.bytes());
        self.hosts.push(DraftHost { id, name: name.to_owned(), kind, role: HostRole::Data });
        Ok(())
    }

    /// Removes a host with its disks, claims and place in fault domains.
    pub fn remove_host(&mut self, name: &str) {
        self.hosts.retain(|host| host.name != name);
        self.disks.retain(|disk| disk.host != name);
        self.claims.retain(|claim| claim.host != name);
        self.fault_domains.iter_mut().for_each(|domain| domain.hosts.retain(|host| host != name));
    }

    /// Replaces the named fault domains.
    ///
    /// # Errors
    /// [`AppError::Invalid`] with every wrong name, every host that is unknown or named twice, and hosts on one device that
    /// are kept apart.
    pub fn set_fault_domains(&mut self, domains: Vec<FaultDomainView>) -> Result<(), AppError> {
        let hosts: Vec<&str> = self.hosts.iter().map(|host| host.name.as_str()).collect();
        let mut problems = fault_domain_problems(&domains, &hosts);
        problems.extend(together::split(&division(self, &[]), &domains, true));
        AppError::check(problems)?;
        self.fault_domains = domains;
        Ok(())
    }

    /// Adds a policy, or replaces the one of that name when `replace`; its version is set here.
    ///
    /// # Errors
    /// [`AppError::Invalid`]; [`AppError::Conflict`] when the name is taken, or the version is not `expected`.
    pub fn put_policy(&mut self, mut policy: Policy, expected: Option<u64>) -> Result<Policy, AppError> {
        AppError::check(policy_problems(&policy))?;
        let old = self.policies.iter_mut().find(|old| old.name == policy.name);
        match (old, expected) {
            (None, None) => {
                policy.version = 1;
                self.policies.push(policy.clone());
            }
            (Some(old), Some(expected)) if old.version == expected => {
                policy.version = expected + 1;
                *old = policy.clone();
            }
            (Some(old), Some(_)) => {
                let (name, version) = (&old.name, old.version);
                let text = format!(
                    "policy \"{name}\" was changed meanwhile (now version {version}); look at it again and repeat"
                );
                return Err(AppError::Conflict(text));
            }
            (Some(old), None) => {
                return Err(AppError::Conflict(format!(
                    "policy \"{}\" exists already; choose another name",
                    old.name
                )));
            }
            (None, Some(_)) => return Err(AppError::NotFound(format!("policy \"{}\"", policy.name))),
        }
        Ok(policy)
    }

    /// Removes a policy.
    ///
    /// # Errors
    /// [`AppError::NotFound`]; [`AppError::Conflict`] for the built-in and the default one.
    pub fn delete_policy(&mut self, name: &str) -> Result<(), AppError> {
        if !self.policies.iter().any(|policy| policy.name == name) {
            return Err(AppError::NotFound(format!("policy \"{name}\"")));
        }
        if name == Policy::built_in().name {
            return Err(AppError::Conflict("the policy \"default\" is built in".into()));
        }
        if name == self.default_policy {
            return Err(AppError::Conflict(format!(
                "policy \"{name}\" is the default policy; choose another default first"
            )));
        }
        self.policies.retain(|policy| policy.name != name);
        Ok(())
    }
}

/// What is wrong with a policy, field by field.
pub fn policy_problems(policy: &Policy) -> Vec<FieldError> {
    let problems = arithmetic::policy_problems(policy);
    problems.into_iter().map(|problem| FieldError::new(problem.field, problem.detail)).collect()
}

/// What is wrong with named fault domains, given the hosts there are.
pub fn fault_domain_problems(domains: &[FaultDomainView], hosts: &[&str]) -> Vec<FieldError> {
    let mut problems = Vec::new();
    let (mut names, mut placed) = (BTreeSet::new(), BTreeSet::new());
    for (index, domain) in domains.iter().enumerate() {
        let field = format!("fault_domains[{index}]");
        if let Err(detail) = check_name(&domain.name) {
            problems.push(FieldError::new(format!("{field}.name"), detail));
        }
        if !names.insert(domain.name.to_lowercase()) {
            let detail = format!("two fault domains are called \"{}\"", domain.name);
            problems.push(FieldError::new(format!("{field}.name"), detail));
        }
        for (place, host) in domain.hosts.iter().enumerate() {
            let detail = if !hosts.contains(&host.as_str()) {
                format!("there is no host \"{host}\"")
            } else if !placed.insert(host) {
                format!("host \"{host}\" is in two fault domains")
            } else {
                continue;
            };
            problems.push(FieldError::new(format!("{field}.hosts[{place}]"), detail));
        }
    }
    problems
}

fn corrupt(error: serde_json::Error) -> AppError {
    AppError::internal(format!("the stored draft cannot be read: {error}"))
}

/// The draft of a cluster. The first call mints its identity and stores it.
///
/// # Errors
/// [`AppError::Internal`].
pub async fn load(app: &App, cluster: &str) -> Result<Versioned, AppError> {
    if let Some((body, version)) = drafts::get(&app.console, cluster).await? {
        return Ok(Versioned { draft: serde_json::from_str(&body).map_err(corrupt)?, version });
    }
    let draft = Draft::new(app.rng.as_ref(), app.config.repair_delay_seconds);
    let body = serde_json::to_string(&draft).map_err(corrupt)?;
    let stored = drafts::put(&app.console, cluster, &body, 0, "millpond", app.clock.now()).await?;
    if stored { Ok(Versioned { draft, version: 1 }) } else { Box::pin(load(app, cluster)).await }
}

/// Changes the draft. With `expected` (a form), somebody else's change in between is a conflict; without (the API), the
/// change is made again on the newer draft.
///
/// # Errors
/// Whatever `change` says, nothing is stored then; [`AppError::Conflict`].
pub async fn change<T>(
    app: &App,
    actor: &Actor,
    cluster: &str,
    expected: Option<i64>,
    mut change: impl FnMut(&mut Draft) -> Result<T, AppError>,
) -> Result<(T, Versioned), AppError> {
    for _ in 0..TRIES {
        let Versioned { mut draft, version } = load(app, cluster).await?;
        if expected.is_some_and(|expected| expected != version) {
            break;
        }
        let answer = change(&mut draft)?;
        let body = serde_json::to_string(&draft).map_err(corrupt)?;
        if drafts::put(&app.console, cluster, &body, version, &actor.name, app.clock.now()).await? {
            return Ok((answer, Versioned { draft, version: version + 1 }));
        }
        if expected.is_some() {
            break;
        }
    }
    Err(AppError::Conflict("somebody else changed the draft meanwhile; look at it again and repeat".into()))
}

/// Like [`change`], refused once the cluster is configured.
///
/// # Errors
/// As [`change`]; [`AppError::Conflict`] when the cluster is not `unconfigured` any more.
pub async fn change_unconfigured<T>(
    app: &App,
    actor: &Actor,
    cluster: &Cluster,
    expected: Option<i64>,
    make: impl FnMut(&mut Draft) -> Result<T, AppError>,
) -> Result<(T, Versioned), AppError> {
    if !is_unconfigured(cluster).await? {
        return Err(AppError::Conflict("the cluster is configured already; this is decided before".into()));
    }
    change(app, actor, &cluster.key, expected, make).await
}

/// Whether the draft, and not an engine, holds hosts and policies of the cluster.
///
/// # Errors
/// [`AppError::Unavailable`].
pub async fn is_unconfigured(cluster: &Cluster) -> Result<bool, AppError> {
    Ok(cluster.snapshot().await?.cluster.state == ClusterState::Unconfigured)
}
