//! Hosts: from the draft while nothing is configured, then from the projections.
use crate::app::{App, Cluster};
use crate::db::views::query::{Page, Window};
use crate::error::AppError;
use crate::service::auth::Actor;
use crate::service::{cluster, disks, draft, list};
use model::ids::DiskId;
use model::state::HostKind;
use model::view::HostView;

/// A page of hosts.
///
/// # Errors
/// [`AppError::Invalid`] for a foreign cursor.
pub async fn page(app: &App, cluster: &Cluster, window: &Window) -> Result<Page<HostView>, AppError> {
    if draft::is_unconfigured(cluster).await? {
        let hosts = cluster::snapshot_or_picture(app, cluster).await?.hosts.clone();
        return list::page(hosts, window, |host| host.name.clone());
    }
    app.views.hosts(&cluster.key, window).await.map_err(list::failed)
}

/// One host.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn get(app: &App, cluster: &Cluster, name: &str) -> Result<HostView, AppError> {
    let snapshot = cluster::snapshot_or_picture(app, cluster).await?;
    let host = snapshot.hosts.iter().find(|host| host.name == name);
    host.cloned().ok_or_else(|| AppError::NotFound(format!("host \"{name}\"")))
}

/// Adds a host to the draft: a failure domain out of this machine's disks. After the cluster is ready it waits there for
/// its first claim.
///
/// # Errors
/// [`AppError::Invalid`], [`AppError::Conflict`].
pub async fn add(
    app: &App,
    actor: &Actor,
    cluster: &Cluster,
    name: &str,
    kind: HostKind,
    ids: &[DiskId],
) -> Result<(), AppError> {
    if !matches!(kind, HostKind::Machine | HostKind::Enclosure | HostKind::Disk) {
        return Err(AppError::field("kind", "choose machine, enclosure or disk; lab hosts come with a lab"));
    }
    let snapshot = cluster.snapshot().await?;
    if snapshot.hosts.iter().any(|host| host.name == name) {
        return Err(AppError::Conflict(format!("host \"{name}\" exists already; choose another name")));
    }
    let named = |(index, id): (usize, &DiskId)| disks::Named::new(format!("disks[{index}]"), *id, name);
    let named: Vec<_> = ids.iter().enumerate().map(named).collect();
    let seen = disks::seen_for(app, cluster, &named).await?;
    let put = |draft: &mut draft::Draft| {
        draft.add_host(app.rng.as_ref(), name, kind)?;
        disks::adopt(app, &seen, &snapshot, draft, &named)?;
        for disks::Named { field, id, .. } in &named {
            let Some(disk) = draft.disks.iter_mut().find(|disk| disk.id == *id) else {
                return Err(AppError::field(field.clone(), format!("there is no free disk {id}")));
            };
            disk.host = name.to_owned();
        }
        Ok(())
    };
    draft::change(app, actor, &cluster.key, None, put).await.map(|_| ())
}
