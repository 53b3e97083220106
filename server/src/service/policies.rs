//! Policies: in the draft until the cluster is ready, then in force on the disks.
use crate::app::{App, Cluster};
use crate::error::AppError;
use crate::service::auth::{Actor, check_name};
use crate::service::draft::{self, Draft, policy_problems};
use crate::service::{cluster, intent, volumes};
use model::arithmetic;
use model::engine::Intent;
use model::ids::TaskId;
use model::policy::{FaultToleranceMethod, Policy, SiteTolerance};
use model::state::ClusterState;
use model::what_if::{Answer, Question, answer};

/// All policies, by name, the built-in one first.
///
/// # Errors
/// [`AppError::Unavailable`], [`AppError::Internal`].
pub async fn all(app: &App, cluster: &Cluster) -> Result<Vec<Policy>, AppError> {
    let mut policies = cluster::snapshot_or_picture(app, cluster).await?.policies.clone();
    let built_in = Policy::built_in().name;
    policies.sort_by_key(|policy| (policy.name != built_in, policy.name.clone()));
    Ok(policies)
}

/// One policy.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn get(app: &App, cluster: &Cluster, name: &str) -> Result<Policy, AppError> {
    let found = all(app, cluster).await?.into_iter().find(|policy| policy.name == name);
    found.ok_or_else(|| AppError::NotFound(format!("policy \"{name}\"")))
}

/// What this engine lacks for a policy.
///
/// # Errors
/// [`AppError::NotYet`] with the engine's own sentence.
fn check_can(cluster: &Cluster, policy: &Policy) -> Result<(), AppError> {
    let can = cluster.engine.capabilities();
    let asked = [
        ("raid1", "RAID-1", policy.fault_tolerance_method == FaultToleranceMethod::Raid1),
        ("raid5", "RAID-5", policy.fault_tolerance_method == FaultToleranceMethod::Raid5),
        ("raid6", "RAID-6", policy.fault_tolerance_method == FaultToleranceMethod::Raid6),
        ("stripe", "striping", policy.stripe_width > 1),
        ("iops-limit", "an I/O limit", policy.iops_limit.is_some()),
        ("sites", "site tolerance", policy.site_tolerance != SiteTolerance::None),
    ];
    let missing = asked.into_iter().find(|(name, _, asked)| *asked && !can.can(name));
    let Some((name, words, _)) = missing else { return Ok(()) };
    let why = can.features.get(name).and_then(|feature| feature.why_not.clone());
    let text = why.unwrap_or_else(|| {
        format!("{words} is not there yet on this cluster; it comes with a later release")
    });
    Err(AppError::NotYet(text))
}

fn check(cluster: &Cluster, policy: &Policy) -> Result<(), AppError> {
    if let Err(detail) = check_name(&policy.name) {
        return Err(AppError::field("name", detail));
    }
    AppError::check(policy_problems(policy))?;
    check_can(cluster, policy)
}

/// Adds a policy.
///
/// # Errors
/// [`AppError::Invalid`], [`AppError::NotYet`], [`AppError::Conflict`] when the name is taken.
pub async fn add(app: &App, actor: &Actor, cluster: &Cluster, policy: Policy) -> Result<Policy, AppError> {
    check(cluster, &policy)?;
    if draft::is_unconfigured(cluster).await? {
        let put = |draft: &mut Draft| draft.put_policy(policy.clone(), None);
        return Ok(draft::change(app, actor, &cluster.key, None, put).await?.0);
    }
    let name = policy.name.clone();
    let put = Intent::PutPolicy { policy, expected_version: None, apply_now: false };
    intent::apply(app, actor, cluster, put).await?;
    get(app, cluster, &name).await
}

/// Replaces a policy. `policy.version` must be the version that the edit was based on; 0 takes the present one. With
/// `apply_now` the volumes follow, as the task that is answered.
///
/// # Errors
/// [`AppError::NotFound`], [`AppError::Invalid`], [`AppError::Conflict`] when it was changed meanwhile.
pub async fn replace(
    app: &App,
    actor: &Actor,
    cluster: &Cluster,
    policy: Policy,
    apply_now: bool,
) -> Result<(Policy, Option<TaskId>), AppError> {
    let present = get(app, cluster, &policy.name).await?;
    check(cluster, &policy)?;
    if policy.name == Policy::built_in().name && !arithmetic::same_promise(&present, &policy) {
        return Err(AppError::Conflict(
            "the policy \"default\" is built in; add another one and make it the default".into(),
        ));
    }
    let expected = if policy.version == 0 { present.version } else { policy.version };
    if draft::is_unconfigured(cluster).await? {
        let put = |draft: &mut Draft| draft.put_policy(policy.clone(), Some(expected));
        return Ok((draft::change(app, actor, &cluster.key, None, put).await?.0, None));
    }
    let name = policy.name.clone();
    let put = Intent::PutPolicy { policy, expected_version: Some(expected), apply_now };
    let outcome = intent::apply(app, actor, cluster, put).await?;
    if apply_now {
        volumes::finished_at_once(app, actor, cluster, &outcome, "put-policy", &name).await?;
    }
    Ok((get(app, cluster, &name).await?, apply_now.then_some(outcome.task)))
}

/// Deletes a policy that no volume uses.
///
/// # Errors
/// [`AppError::NotFound`], [`AppError::Conflict`] with the volumes that use it.
pub async fn delete(app: &App, actor: &Actor, cluster: &Cluster, name: &str) -> Result<(), AppError> {
    get(app, cluster, name).await?;
    if draft::is_unconfigured(cluster).await? {
        let delete = |draft: &mut Draft| draft.delete_policy(name);
        return draft::change(app, actor, &cluster.key, None, delete).await.map(|_| ());
    }
    intent::apply(app, actor, cluster, Intent::DeletePolicy { name: name.to_owned() }).await.map(|_| ())
}

/// What an edit would move and need, on the live cluster or on the one that the draft would make.
///
/// # Errors
/// [`AppError::Invalid`], [`AppError::Unavailable`].
pub async fn preview(app: &App, cluster: &Cluster, policy: Policy) -> Result<Answer, AppError> {
    AppError::check(policy_problems(&policy))?;
    let snapshot = cluster::snapshot_or_picture(app, cluster).await?;
    if snapshot.cluster.state == ClusterState::Unconfigured {
        return Ok(answer(&snapshot, &Question::PutPolicy { policy }));
    }
    Ok(cluster.engine.what_if(Question::PutPolicy { policy }).await?)
}
