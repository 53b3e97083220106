//! How full it is, what would still fit, and what failures would do.
use crate::app::{App, Cluster};
use crate::error::AppError;
use crate::service::cluster::snapshot_or_picture;
use model::capacity::{UsableByPolicy, usable_by_policy};
use model::placement::Topology;
use model::policy::Policy;
use model::state::{ClusterState, DiskRole};
use model::view::{DiskView, Snapshot};
use model::what_if::{Answer, FailTarget, Question, answer};

/// One part of the bar that shows raw capacity; the parts add up to it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// `data`, `redundancy`, `metadata`, `reserved`, `free`.
    pub kind: &'static str,
    /// Bytes.
    pub bytes: u64,
}

/// Capacity of a cluster.
#[derive(Clone, Debug)]
pub struct Capacity {
    /// Raw bytes of all capacity disks.
    pub raw_bytes: u64,
    /// Of these, allocated.
    pub used_raw_bytes: u64,
    /// Of these, neither allocated nor promised.
    pub free_raw_bytes: u64,
    /// For each policy: what could be stored in the empty cluster if everything used it.
    pub usable_by_policy: Vec<UsableByPolicy>,
    /// Where the raw bytes are.
    pub breakdown: Vec<Part>,
    /// The capacity disks.
    pub disks: Vec<DiskView>,
}

/// Capacity as the snapshot has it. Pure.
pub fn of(snapshot: &Snapshot) -> Capacity {
    let carries = |disk: &&DiskView| matches!(disk.role, DiskRole::Capacity | DiskRole::Combined);
    let disks: Vec<DiskView> = snapshot.disks.iter().filter(carries).cloned().collect();
    let sum = |bytes: &dyn Fn(&DiskView) -> u64| disks.iter().map(bytes).sum::<u64>();
    let raw_bytes = sum(&|disk| disk.size_bytes);
    let used_raw_bytes = sum(&|disk| disk.used_bytes.min(disk.size_bytes));
    let free_raw_bytes = sum(&DiskView::free_bytes);
    let metadata = sum(&|disk| disk.metadata_bytes.min(disk.used_bytes));
    let stored = used_raw_bytes.saturating_sub(metadata);
    let data = snapshot.objects.iter().map(|object| object.used_bytes).sum::<u64>().min(stored);
    let reserved = raw_bytes.saturating_sub(used_raw_bytes).saturating_sub(free_raw_bytes);
    let topology = Topology::from_snapshot(snapshot);
    Capacity {
        raw_bytes,
        used_raw_bytes,
        free_raw_bytes,
        usable_by_policy: snapshot
            .policies
            .iter()
            .map(|policy| usable_by_policy(&topology, policy))
            .collect(),
        breakdown: vec![
            Part { kind: "data", bytes: data },
            Part { kind: "redundancy", bytes: stored - data },
            Part { kind: "metadata", bytes: metadata },
            Part { kind: "reserved", bytes: reserved },
            Part { kind: "free", bytes: free_raw_bytes },
        ],
        disks,
    }
}

/// Capacity now, or of the cluster that the draft would make.
///
/// # Errors
/// [`AppError::Unavailable`], [`AppError::Internal`].
pub async fn now(app: &App, cluster: &Cluster) -> Result<Capacity, AppError> {
    Ok(of(&*snapshot_or_picture(app, cluster).await?))
}

/// Reads `host:h1`, `disk:ID`, `fault-domain:a`, `site:A`, and checks that there is such a thing.
///
/// # Errors
/// The sentence for the person.
pub fn target(snapshot: &Snapshot, text: &str) -> Result<FailTarget, String> {
    let wrong = || format!("`{text}` is not one of host:NAME, disk:ID, fault-domain:NAME, site:NAME");
    let (kind, name) = text.split_once(':').ok_or_else(wrong)?;
    let (target, there) = match kind {
        "host" => (FailTarget::Host(name.into()), snapshot.hosts.iter().any(|host| host.name == name)),
        "disk" => {
            let id = name.parse().map_err(|_| wrong())?;
            (FailTarget::Disk(id), snapshot.disks.iter().any(|disk| disk.id == id))
        }
        "fault-domain" => {
            // A host in no named fault domain is one of its own.
            let named = snapshot.cluster.fault_domains.iter().any(|domain| domain.name == name);
            let own = snapshot.hosts.iter().any(|host| host.name == name && host.fault_domain.is_none());
            (FailTarget::FaultDomain(name.into()), named || own)
        }
        "site" => {
            (FailTarget::Site(name.into()), snapshot.cluster.sites.iter().any(|site| site.name == name))
        }
        _ => return Err(wrong()),
    };
    if there { Ok(target) } else { Err(format!("there is no {kind} \"{name}\"")) }
}

/// What would happen if these failed at once; with a policy, whether that could be satisfied afterwards is not asked here.
///
/// # Errors
/// [`AppError::Invalid`] on `fail`, [`AppError::NotFound`] on `policy`.
pub async fn what_if(app: &App, cluster: &Cluster, fail: &[String]) -> Result<Answer, AppError> {
    let snapshot = snapshot_or_picture(app, cluster).await?;
    if fail.is_empty() {
        return Err(AppError::field("fail", "name at least one thing that fails"));
    }
    let mut targets = Vec::new();
    for (index, text) in fail.iter().enumerate() {
        let target = target(&snapshot, text);
        targets.push(target.map_err(|detail| AppError::field(format!("fail[{index}]"), detail))?);
    }
    ask(cluster, &snapshot, Question::Fail { targets }).await
}

/// Asks the engine, or when there is none configured, the picture.
async fn ask(cluster: &Cluster, snapshot: &Snapshot, question: Question) -> Result<Answer, AppError> {
    if snapshot.cluster.state == ClusterState::Unconfigured {
        return Ok(answer(snapshot, &question));
    }
    Ok(cluster.engine.what_if(question).await?)
}

/// What maintenance of a host would do.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn maintenance(app: &App, cluster: &Cluster, host: &str) -> Result<(Answer, Capacity), AppError> {
    let snapshot = snapshot_or_picture(app, cluster).await?;
    if !snapshot.hosts.iter().any(|known| known.name == host) {
        return Err(AppError::NotFound(format!("host \"{host}\"")));
    }
    let answer = ask(cluster, &snapshot, Question::Maintenance { host: host.to_owned() }).await?;
    Ok((answer, of(&snapshot)))
}

/// Usable bytes of one policy, for forms that author it.
pub fn usable(snapshot: &Snapshot, policy: &Policy) -> UsableByPolicy {
    usable_by_policy(&Topology::from_snapshot(snapshot), policy)
}
