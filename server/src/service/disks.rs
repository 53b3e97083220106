//! Disks: claimed ones from the engine, free ones from the draft, this machine's from the inventory.
use crate::app::{App, Cluster};
use crate::db::views::query::{Page, Window};
use crate::error::{AppError, FieldError};
use crate::service::auth::Actor;
use crate::service::draft::{self, Claim, Draft, DraftDisk};
use crate::service::format::bytes_text;
use crate::service::{file_disks, inventory, list};
use ::inventory::disk as device;
use model::ids::DiskId;
use model::state::{ClusterState, DiskRole, DiskState, Eligibility, HostKind, Media};
use model::units::DISK_BYTES_MIN;
use model::view::{DiskView, Snapshot};
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Component, Path, PathBuf};
use std::sync::Arc;

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
    /// The block device of this machine (or of a recorded one) behind it.
    pub device: Option<Arc<device::Disk>>,
    /// Why this process cannot claim it, whatever its verdict is.
    pub why_not: Option<String>,
}

impl Disk {
    /// Whether this process can claim it, perhaps after erasing.
    pub fn can_be_claimed(&self) -> bool {
        self.why_not.is_none() && matches!(self.eligibility, Eligibility::Eligible | Eligibility::EraseNeeded)
    }
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
        device: None,
        why_not: None,
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
    let warnings = vec![];
    Disk {
        view,
        model: None,
        serial: None,
        contents,
        eligibility,
        reason,
        warnings,
        device: None,
        why_not: None,
    }
}

fn of_machine(app: &App, disk: &device::Disk) -> Disk {
    // The contract knows two kinds of media: what nobody says is taken for the slower one, and the row says so.
    let media = disk.media().unwrap_or(Media::Hdd);
    let size_bytes = disk.facts.size_bytes.unwrap_or(0);
    let mut warnings: Vec<String> = disk.warnings.iter().map(|warning| warning.text.clone()).collect();
    if disk.media().is_none() && disk.class == device::Class::Disk {
        warnings.push("nobody says whether it rotates: it is taken for a rotating disk".into());
    }
    let can_be_claimed = disk.can_be_claimed();
    Disk {
        view: unclaimed(disk.id, disk.name(), "", disk.path(), size_bytes, media),
        model: disk.facts.model.clone(),
        serial: disk.facts.serial.clone(),
        contents: disk.contents.summary(),
        eligibility: disk.verdict.eligibility,
        reason: disk.verdict.reason.clone(),
        warnings,
        device: Some(Arc::new(disk.clone())),
        why_not: can_be_claimed.then(|| inventory::why_not(app, disk.path())),
    }
}

/// Whether this machine's disks are listed: in a lab they would only confuse, unless somebody asked for them.
fn lists_devices(app: &App, draft: &Draft, snapshot: &Snapshot) -> bool {
    let is_lab = draft.lab.is_some() || snapshot.hosts.iter().any(|host| host.kind == HostKind::Lab);
    app.config.lists_devices || app.config.inventory_dir.is_some() || !is_lab
}

/// Why this machine's disks cannot be listed, in one sentence; `None` when they are, or when nobody asked for them.
///
/// # Errors
/// [`AppError::Unavailable`], [`AppError::Internal`].
pub async fn problem(app: &App, cluster: &Cluster) -> Result<Option<String>, AppError> {
    let snapshot = cluster.snapshot().await?;
    let draft = draft::load(app, &cluster.key).await?.draft;
    if !lists_devices(app, &draft, &snapshot) {
        return Ok(None);
    }
    Ok(inventory::look(app).await.problem)
}

/// Refuses block devices among the disks that are named, each by its path and with the reason.
///
/// # Errors
/// [`AppError::Invalid`] with every field that names one.
pub async fn refuse_devices(app: &App, named: &[(String, DiskId)]) -> Result<(), AppError> {
    if named.is_empty() {
        return Ok(());
    }
    let seen = inventory::look(app).await;
    let paths: BTreeMap<DiskId, &str> = seen.disks().map(|disk| (disk.id, disk.path())).collect();
    let refused = named.iter().filter_map(|(field, id)| {
        let path = paths.get(id)?;
        Some(FieldError::new(field.clone(), inventory::why_not(app, path)))
    });
    AppError::check(refused.collect())
}

/// Every disk that claims name, with its field.
pub fn named_by(claims: &[Claim]) -> Vec<(String, DiskId)> {
    let of_claim = |(index, claim): (usize, &Claim)| {
        let lists = [("cache", claim.cache.clone()), ("capacity", claim.capacity.clone())];
        lists.into_iter().flat_map(move |(part, ids)| {
            let field = move |(place, id)| (format!("claims[{index}].{part}[{place}]"), id);
            ids.into_iter().enumerate().map(field)
        })
    };
    claims.iter().enumerate().flat_map(of_claim).collect()
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
        if lists_devices(app, &draft, &snapshot) {
            let claimed: BTreeSet<String> = disks.iter().map(|disk| disk.view.path.clone()).collect();
            let seen = inventory::look(app).await;
            let free = seen.disks().filter(|disk| !claimed.contains(disk.path()));
            disks.extend(free.map(|disk| of_machine(app, disk)));
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
    if disks.is_empty()
        && let Some(problem) = problem(app, cluster).await?
    {
        // An empty list would say that there are no disks.
        return Err(AppError::Conflict(problem));
    }
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
    let look = tokio::task::spawn_blocking(move || file_disks::look_at_file(&looked_at, size_bytes));
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
        let id = file_disks::mint(app.rng.as_ref());
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
