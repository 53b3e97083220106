//! Disks: claimed ones from the engine, free ones from the draft, this machine's from `lsblk`.
use crate::app::{App, Cluster};
use crate::db::views::query::{Page, Window};
use crate::error::AppError;
use crate::service::auth::Actor;
use crate::service::draft::{self, Draft, DraftDisk};
use crate::service::format::bytes_text;
use crate::service::{inventory, list};
use model::ids::DiskId;
use model::state::{ClusterState, DiskRole, DiskState, Eligibility, HostKind, Media};
use model::units::DISK_BYTES_MIN;
use model::view::DiskView;
use std::collections::BTreeSet;
use std::path::{Component, Path, PathBuf};

/// A disk in a list, claimed or not.
#[derive(Clone, Debug, PartialEq)]
pub struct Disk {
    /// What is known of it; an unclaimed disk has role `none` and no group.
    pub view: DiskView,
    /// Model, of a block device.
    pub model: Option<String>,
    /// Serial number, of a block device.
    pub serial: Option<String>,
    /// What it holds now, in words.
    pub contents: Option<String>,
    /// Whether it may be claimed.
    pub eligibility: Eligibility,
    /// Why not.
    pub reason: Option<String>,
    /// What to know before it is claimed.
    pub warnings: Vec<String>,
}

/// A claimed disk.
pub fn claimed(view: DiskView) -> Disk {
    let reason = Some("in use by this cluster".to_owned());
    Disk {
        view,
        model: None,
        serial: None,
        contents: None,
        eligibility: Eligibility::InUse,
        reason,
        warnings: vec![],
    }
}

fn unclaimed(id: DiskId, name: &str, host: &str, path: &str, size_bytes: u64, media: Media) -> DiskView {
    DiskView {
        id,
        name: name.to_owned(),
        host: host.to_owned(),
        path: path.to_owned(),
        size_bytes,
        media,
        role: DiskRole::None,
        disk_group: None,
        used_bytes: 0,
        reserved_bytes: 0,
        metadata_bytes: 0,
        state: DiskState::Healthy,
        components: 0,
        checksum_errors: 0,
        faults: Vec::new(),
    }
}

fn of_draft(disk: &DraftDisk) -> Disk {
    let view = unclaimed(disk.id, &disk.name, &disk.host, &disk.path, disk.size_bytes, disk.media);
    let (eligibility, reason) = if disk.size_bytes < DISK_BYTES_MIN {
        let least = bytes_text(DISK_BYTES_MIN);
        (Eligibility::Ineligible, Some(format!("it is smaller than {least}, the least for any role")))
    } else if disk.holds_data {
        (
            Eligibility::EraseNeeded,
            Some("the file is not blank; it is only taken when `erase` names it".into()),
        )
    } else {
        (Eligibility::Eligible, None)
    };
    let contents = disk.holds_data.then(|| "data of unknown kind".to_owned());
    Disk { view, model: None, serial: None, contents, eligibility, reason, warnings: vec![] }
}

fn of_machine(device: inventory::Device) -> Disk {
    let name = device.path.rsplit('/').next().unwrap_or_default().to_owned();
    let view = unclaimed(device.id, &name, "", &device.path, device.size_bytes, device.media);
    let reason = Some(inventory::NOT_YET.to_owned());
    let (model, serial, contents) = (device.model, device.serial, device.contents);
    Disk { view, model, serial, contents, eligibility: Eligibility::Ineligible, reason, warnings: vec![] }
}

/// All disks: claimed, free files, this machine's. By host (naturally: `h2` before `h10`) and name.
///
/// # Errors
/// [`AppError::Unavailable`], [`AppError::Internal`].
pub async fn all(app: &App, cluster: &Cluster) -> Result<Vec<Disk>, AppError> {
    let snapshot = cluster.snapshot().await?;
    let draft = draft::load(app, &cluster.key).await?.draft;
    let known: BTreeSet<DiskId> = snapshot.disks.iter().map(|disk| disk.id).collect();
    let mut disks: Vec<Disk> = snapshot.disks.iter().cloned().map(claimed).collect();
    if snapshot.cluster.writable || snapshot.cluster.state == ClusterState::Unconfigured {
        disks.extend(draft.disks.iter().filter(|disk| !known.contains(&disk.id)).map(of_draft));
        // In a lab this machine's disks would only confuse; `--devices` lists them all the same.
        let is_lab = draft.lab.is_some() || snapshot.hosts.iter().any(|host| host.kind == HostKind::Lab);
        if app.config.lists_devices || !is_lab {
            disks.extend(inventory::devices().await.into_iter().map(of_machine));
        }
    }
    disks.sort_by_cached_key(|disk| {
        let (host, name) = (disk.view.host.clone(), disk.view.name.clone());
        (host.is_empty(), host.len(), host, name.len(), name, disk.view.id)
    });
    Ok(disks)
}

/// A page of disks; only those of `host` when given.
///
/// # Errors
/// [`AppError::Invalid`] for a foreign cursor.
pub async fn page(
    app: &App,
    cluster: &Cluster,
    host: Option<&str>,
    window: &Window,
) -> Result<Page<Disk>, AppError> {
    let mut disks = all(app, cluster).await?;
    disks.retain(|disk| host.is_none_or(|host| disk.view.host == host));
    list::page(disks, window, |disk| disk.view.id.to_string())
}

/// The path when it lies in a folder where file disks may be made.
fn allowed_path(app: &App, path: &str) -> Result<PathBuf, AppError> {
    let wrong = |detail: String| Err(AppError::field("path", detail));
    let asked = Path::new(path);
    if !asked.is_absolute()
        || path.contains('\0')
        || asked.components().any(|part| part == Component::ParentDir)
    {
        return wrong("an absolute path without `..`".into());
    }
    let (Some(parent), Some(name)) = (asked.parent(), asked.file_name()) else {
        return wrong("an absolute path of a file".into());
    };
    let Ok(parent) = parent.canonicalize() else {
        return wrong(format!("the folder {} is not there", parent.display()));
    };
    if app.config.file_disk_dirs.is_empty() {
        return wrong("no folder for file disks; start the server with --file-disks DIR".into());
    }
    if !app.config.file_disk_dirs.iter().any(|dir| parent.starts_with(dir)) {
        let dirs: Vec<String> =
            app.config.file_disk_dirs.iter().map(|dir| dir.display().to_string()).collect();
        return wrong(format!("file disks may lie in {} only", dirs.join(", ")));
    }
    Ok(parent.join(name))
}

/// Adds a file as a disk of a host. Nothing is made before the disk is claimed.
///
/// # Errors
/// [`AppError::Invalid`]; [`AppError::Conflict`] when the path is a disk already.
pub async fn add_file(
    app: &App,
    actor: &Actor,
    cluster: &Cluster,
    host: &str,
    path: &str,
    size_bytes: Option<u64>,
) -> Result<DiskId, AppError> {
    let path = allowed_path(app, path)?;
    if let Some(size) = size_bytes
        && (size < DISK_BYTES_MIN || !size.is_multiple_of(4096) || size > 1 << 50)
    {
        let least = bytes_text(DISK_BYTES_MIN);
        return Err(AppError::field("size_bytes", format!("{least} to 1 PiB, a multiple of 4096")));
    }
    let looked_at = path.clone();
    let look = tokio::task::spawn_blocking(move || inventory::look_at_file(&looked_at, size_bytes));
    let file = look.await.map_err(AppError::internal)??;
    let text = path.display().to_string();
    let snapshot = cluster.snapshot().await?;
    if snapshot.disks.iter().any(|disk| disk.path == text) {
        return Err(AppError::Conflict(format!("{text} is a disk of the cluster already")));
    }
    let put = |draft: &mut Draft| {
        let known = draft.host(host).is_some() || snapshot.hosts.iter().any(|known| known.name == host);
        if !known {
            return Err(AppError::field("host", format!("there is no host \"{host}\"; add it first")));
        }
        if draft.disks.iter().any(|disk| disk.path == text) {
            return Err(AppError::Conflict(format!("{text} is listed already")));
        }
        let id = inventory::mint(app.rng.as_ref());
        let stem = path.file_stem().map(|stem| stem.to_string_lossy().into_owned()).unwrap_or_default();
        draft.disks.push(DraftDisk {
            id,
            host: host.to_owned(),
            name: stem,
            path: text.clone(),
            size_bytes: file.size_bytes,
            media: Media::Flash,
            make_file: file.make_file,
            holds_data: file.holds_data,
        });
        Ok(id)
    };
    let (id, _) = draft::change(app, actor, &cluster.key, None, put).await?;
    Ok(id)
}
