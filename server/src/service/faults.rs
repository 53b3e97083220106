//! Faults of a lab: which may hit what, and applying them.
use crate::app::{App, Cluster};
use crate::error::AppError;
use crate::service::auth::Actor;
use crate::service::{capacity, intent, volumes};
use model::engine::{Fault, FaultTarget, Intent};
use model::what_if::FailTarget;

/// Whether such a fault can hit such a thing.
fn fits(target: &FaultTarget, fault: &Fault) -> bool {
    let is_disk = matches!(target, FaultTarget::Disk(_));
    match fault {
        Fault::Heal | Fault::Slow { .. } => true,
        Fault::PowerOff | Fault::PowerOn | Fault::Partition { .. } => !is_disk,
        Fault::Fail | Fault::Corrupt { .. } | Fault::Full => is_disk,
    }
}

/// Breaks or heals something; answers what was done, in words.
///
/// # Errors
/// [`AppError::Invalid`] when there is no such thing, or such a fault cannot hit it.
pub async fn inject(
    app: &App,
    actor: &Actor,
    cluster: &Cluster,
    target: &str,
    fault: Fault,
) -> Result<Vec<String>, AppError> {
    let snapshot = volumes::ready(cluster).await?;
    let target = capacity::target(&snapshot, target).map_err(|detail| AppError::field("target", detail))?;
    let target = match target {
        FailTarget::Host(name) => FaultTarget::Host(name),
        FailTarget::Disk(id) => FaultTarget::Disk(id),
        FailTarget::FaultDomain(name) => FaultTarget::FaultDomain(name),
        FailTarget::Site(name) => FaultTarget::Site(name),
    };
    if !fits(&target, &fault) {
        return Err(AppError::field("fault", "this fault cannot hit that kind of thing"));
    }
    if let Fault::Partition { from } = &fault {
        let unknown = from.iter().find(|name| !snapshot.hosts.iter().any(|host| host.name == **name));
        if let Some(name) = unknown {
            return Err(AppError::field("from", format!("there is no host \"{name}\"")));
        }
    }
    let outcome = intent::apply(app, actor, cluster, Intent::InjectFault { target, fault }).await?;
    Ok(outcome.applied.applied)
}
