//! A new disk in the place of an absent or failed one.
use crate::app::{App, Cluster};
use crate::error::{AppError, FieldError};
use crate::service::auth::Actor;
use crate::service::draft::{self, Claim, DraftHost};
use crate::service::{disks, intent, inventory, plan};
use model::engine::Intent;
use model::ids::{DiskId, TaskId};

/// Replaces `lost` by `by`, a device of this machine or a file of the draft. What `by` holds is only overwritten when `erase`
/// names it.
///
/// # Errors
/// [`AppError::NotFound`], [`AppError::Invalid`] on `by`; [`AppError::Conflict`] when the lost disk works or its group cannot
/// be used. Nothing was written then.
pub async fn replace(
    app: &App,
    actor: &Actor,
    cluster: &Cluster,
    lost: DiskId,
    by: DiskId,
    erase: Vec<DiskId>,
) -> Result<TaskId, AppError> {
    let snapshot = cluster.snapshot().await?;
    let known = snapshot.disks.iter().find(|disk| disk.id == lost);
    let known = known.ok_or_else(|| AppError::NotFound(format!("disk {lost}")))?;
    let named = [disks::Named::new("by", by, &known.host)];
    let seen = disks::seen_for(app, cluster, &named).await?;
    let mut draft = draft::load(app, &cluster.key).await?.draft;
    draft.hosts.retain(|host| host.name != known.host);
    let host = snapshot.hosts.iter().find(|host| host.name == known.host);
    draft.hosts.extend(host.map(|host| DraftHost {
        id: host.id,
        name: host.name.clone(),
        kind: host.kind,
        role: host.role,
    }));
    // It takes the place of the lost one, whatever host it was meant for.
    draft.disks.iter_mut().filter(|disk| disk.id == by).for_each(|disk| disk.host.clone_from(&known.host));
    disks::adopt(app, &seen, &snapshot, &mut draft, &named)?;
    let claim =
        Claim { host: known.host.clone(), cache: Vec::new(), capacity: vec![by], erase, ..Claim::default() };
    plan::check_claims(&draft, std::slice::from_ref(&claim)).map_err(on_by)?;
    let groups = plan::planned_groups(&draft, &[claim]);
    let planned = groups.into_iter().flat_map(|group| group.capacity).next();
    let by = planned.ok_or_else(|| AppError::field("by", format!("there is no free disk {by}")))?;
    let task = intent::apply(app, actor, cluster, Intent::ReplaceDisk { lost, by }).await?.task;
    inventory::expire_after(app, cluster, task);
    Ok(task)
}

/// Claims are checked by the fields of a claim; the request has one.
fn on_by(error: AppError) -> AppError {
    match error {
        AppError::Invalid(errors) => AppError::Invalid(
            errors.into_iter().map(|error| FieldError { field: "by".into(), ..error }).collect(),
        ),
        other => other,
    }
}
