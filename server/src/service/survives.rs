//! What the cluster, or the one that the draft would make, survives: every loss of one thing and of two, for one policy.
//!
//! Invariant: a claim about a loss is `model::claims`' own, which the native engine checks in its simulator; beside it stands
//! what would become of the volumes that are there, from where they lie now.
use crate::app::{App, Cluster};
use crate::error::AppError;
use crate::service::cluster::snapshot_or_picture;
use crate::service::draft::{self, DraftDisk};
use crate::service::{grouping, inventory};
use ::inventory::grouping::Member;
use model::claims::{Claim, Division, Fate, Verdict, fate_of_tree, of_snapshot, verdict};
use model::ids::DiskId;
use model::policy::Policy;
use model::state::ClusterState;
use model::view::{DiskView, Snapshot};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

/// What survives under one policy.
#[derive(Clone, Debug)]
pub struct Survives {
    /// The cluster, or the picture of the one that the draft would make.
    pub snapshot: Arc<Snapshot>,
    /// How it is divided.
    pub division: Division,
    /// The policy.
    pub policy: Policy,
    /// The claims.
    pub verdict: Verdict,
}

impl Survives {
    /// How many volumes of the cluster would meet each fate, whatever their policies.
    pub fn volumes(&self, claim: &Claim) -> BTreeMap<Fate, u64> {
        let direct = claim.lost.iter().flat_map(|index| self.verdict.parts[*index].disks.iter().copied());
        let gone: BTreeSet<DiskId> = self.division.gone_with(&direct.collect());
        let mut counts = BTreeMap::new();
        for object in &self.snapshot.objects {
            *counts.entry(fate_of_tree(&object.tree, &gone)).or_default() += 1;
        }
        counts
    }
}

/// What survives under the policy of that name, the default one when none is named.
///
/// # Errors
/// [`AppError::NotFound`] for an unknown policy; [`AppError::Unavailable`].
pub async fn of(app: &App, cluster: &Cluster, policy: Option<&str>) -> Result<Survives, AppError> {
    let snapshot = snapshot_or_picture(app, cluster).await?;
    let name = policy.unwrap_or(&snapshot.cluster.default_policy);
    let known = snapshot.policies.iter().find(|policy| policy.name == name).cloned();
    let policy = known.ok_or_else(|| AppError::NotFound(format!("policy \"{name}\"")))?;
    let division = division(app, cluster, &snapshot).await?;
    let judged = {
        let (division, policy) = (division.clone(), policy.clone());
        // Hundreds of pairs, each tried on several layouts: not on a thread that serves pages.
        tokio::task::spawn_blocking(move || verdict(&division, &policy, true))
    };
    let verdict = judged.await.map_err(AppError::internal)?;
    Ok(Survives { snapshot, division, policy, verdict })
}

async fn division(app: &App, cluster: &Cluster, snapshot: &Snapshot) -> Result<Division, AppError> {
    if snapshot.cluster.state == ClusterState::Unconfigured {
        let draft = draft::load(app, &cluster.key).await?.draft;
        if draft.lab.is_none() {
            let candidates = grouping::candidates(app, &draft).await?;
            return Ok(grouping::named(
                grouping::division(&draft, &candidates),
                &grouping::together::settled(&draft),
            ));
        }
    }
    let lab = snapshot.hosts.iter().any(|host| host.kind == model::state::HostKind::Lab);
    if lab {
        // The files of a lab play hosts: what they lie on is not asked.
        return Ok(of_snapshot(snapshot, &|_| None));
    }
    let seen = inventory::look(app).await;
    let files: Vec<DraftDisk> = snapshot.disks.iter().map(as_file).collect();
    let known = grouping::described(files, &seen).await?;
    let device = |disk: &DiskView| known.iter().find(|member: &&Member| member.id == disk.id).cloned();
    Ok(of_snapshot(snapshot, &device))
}

/// A disk of the cluster as one of a draft, to look at what it lies on.
pub fn as_file(disk: &DiskView) -> DraftDisk {
    DraftDisk {
        id: disk.id,
        host: disk.host.clone(),
        name: disk.name.clone(),
        path: disk.path.clone(),
        size_bytes: disk.size_bytes,
        media: disk.media,
        body: String::new(),
        make_file: false,
        holds_data: false,
        review: None,
        looked: None,
    }
}
