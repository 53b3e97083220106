//! Disks: claimed ones from the engine, free ones from the draft, this machine's from the inventory.
use crate::app::{App, Cluster};
use crate::db::views::query::{Page, Window};
use crate::error::{AppError, FieldError};
use crate::service::auth::Actor;
use crate::service::draft::{self, Claim, Draft, DraftDisk};
use crate::service::format::bytes_text;
use crate::service::inventory::Seen;
use crate::service::{file_disks, grouping, inventory, list};
use ::inventory::disk as device;
use ::inventory::identity::disk_id;
use ::inventory::smart::Health;
use model::ids::DiskId;
use model::state::{ClusterState, DiskRole, DiskState, Eligibility, HostKind, Media};
use model::units::DISK_BYTES_MIN;
use model::view::{DiskView, Snapshot};
use std::collections::BTreeSet;
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
    /// A word for that: a claim that lets it be erased can name it. Empty for claimed disks and files that are not there yet.
    pub mark: String,
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
        mark: String::new(),
        eligibility: Eligibility::InUse,
        reason,
        warnings: vec![],
        device: None,
        why_not: None,
    }
}

/// Adds what the machine says of the device behind a claimed disk that is there: model, serial number, health.
fn with_device(disk: Disk, seen: &Seen) -> Disk {
    let is_it =
        |device: &&device::Disk| disk.view.state != DiskState::Absent && device.path() == disk.view.path;
    let Some(device) = seen.disks().find(is_it) else { return disk };
    let is_failing = *device.health() == Health::Failing;
    let failing = is_failing.then(|| "the disk says that it is failing: replace it soon".to_owned());
    Disk {
        model: device.facts.model.clone(),
        serial: device.facts.serial.clone(),
        warnings: failing.into_iter().collect(),
        device: Some(Arc::new(device.clone())),
        ..disk
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
        serves: Vec::new(),
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
    let contents = disk.holds_data.then(|| file_disks::contents(disk.looked.as_ref()));
    let warnings = vec![];
    Disk {
        view,
        model: None,
        serial: None,
        contents,
        mark: disk.seen().map(draft::mark).unwrap_or_default(),
        eligibility,
        reason,
        warnings,
        device: None,
        why_not: None,
    }
}

/// A device of the machine as a disk `id` of `host`; of no host while `host` is empty.
fn of_machine(app: &App, id: DiskId, host: &str, disk: &device::Disk) -> Disk {
    // The contract knows two kinds of media: what nobody says is taken for the slower one, and the row says so.
    let media = disk.media().unwrap_or(Media::Hdd);
    let size_bytes = disk.facts.size_bytes.unwrap_or(0);
    let mut warnings: Vec<String> = disk.warnings.iter().map(|warning| warning.text.clone()).collect();
    if disk.media().is_none() && disk.class == device::Class::Disk {
        warnings.push("nobody says whether it rotates: it is taken for a rotating disk".into());
    }
    Disk {
        view: unclaimed(id, disk.name(), host, disk.path(), size_bytes, media),
        model: disk.facts.model.clone(),
        serial: disk.facts.serial.clone(),
        contents: disk.contents.summary(),
        mark: draft::mark(&inventory::review(disk)),
        eligibility: disk.verdict.eligibility,
        reason: disk.verdict.reason.clone(),
        warnings,
        device: Some(Arc::new(disk.clone())),
        why_not: inventory::why_not(app, disk.path()).filter(|_| disk.can_be_claimed()),
    }
}

/// A disk of the draft: a file, or a device of this machine as it is seen now.
fn of_any(app: &App, free: &[(DiskId, &device::Disk)], disk: &DraftDisk) -> Disk {
    let live = free.iter().find(|(id, _)| *id == disk.id).map(|(_, device)| *device);
    match (&disk.review, live) {
        (None, _) => of_draft(disk),
        (Some(_), Some(device)) => of_machine(app, disk.id, &disk.host, device),
        (Some(_), None) => Disk {
            eligibility: Eligibility::Ineligible,
            reason: Some("it is not there any more, or in use: check its cable, or leave it out".into()),
            ..of_draft(disk)
        },
    }
}

/// The devices that no cluster of this process holds, with the id of each. A device that is known by its place or name only
/// gets another id when a claimed disk had that place: the other one may come back.
fn free_devices<'a>(seen: &'a Seen, snapshot: &Snapshot) -> Vec<(DiskId, &'a device::Disk)> {
    let taken: BTreeSet<DiskId> = snapshot.disks.iter().map(|disk| disk.id).collect();
    let held: BTreeSet<&str> = snapshot
        .disks
        .iter()
        .filter(|disk| disk.state != DiskState::Absent)
        .map(|disk| disk.path.as_str())
        .collect();
    let id_of = |disk: &device::Disk| {
        let mut id = disk.id;
        while taken.contains(&id) {
            let words = format!("{} instead of {id}", disk.identity.key());
            id = disk_id(&device::Identity::Name(words));
        }
        id
    };
    seen.disks().filter(|disk| !held.contains(disk.path())).map(|disk| (id_of(disk), disk)).collect()
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

/// A disk that a request names.
#[derive(Clone, Debug)]
pub struct Named {
    /// Field of the request.
    pub field: String,
    /// Id.
    pub id: DiskId,
    /// Host that it is named for.
    pub host: String,
    /// The mark of what the caller saw of it, when it may be erased.
    pub expected: Option<String>,
}

impl Named {
    /// A disk that is not to be erased.
    pub fn new(field: impl Into<String>, id: DiskId, host: &str) -> Self {
        Self { field: field.into(), id, host: host.to_owned(), expected: None }
    }
}

/// Every disk that claims name, with its field.
pub fn named_by(claims: &[Claim]) -> Vec<Named> {
    let of_claim = |(index, claim): (usize, &Claim)| {
        let (host, expected) = (claim.host.clone(), claim.expected.clone());
        let lists = [("cache", claim.cache.clone()), ("capacity", claim.capacity.clone())];
        lists.into_iter().flat_map(move |(part, ids)| {
            let (host, expected) = (host.clone(), expected.clone());
            ids.into_iter().enumerate().map(move |(place, id)| Named {
                field: format!("claims[{index}].{part}[{place}]"),
                id,
                host: host.clone(),
                expected: expected.get(&id).cloned(),
            })
        })
    };
    claims.iter().enumerate().flat_map(of_claim).collect()
}

/// What is known of this machine's disks, when `named` names something else than files of the draft.
///
/// # Errors
/// [`AppError::Internal`].
pub async fn seen_for(app: &App, cluster: &Cluster, named: &[Named]) -> Result<Seen, AppError> {
    let draft = draft::load(app, &cluster.key).await?.draft;
    let is_file = |id| draft.disk(id).is_some_and(|disk| disk.review.is_none());
    match named.iter().all(|one| is_file(one.id)) {
        true => Ok(Seen::default()),
        false => Ok(inventory::look(app).await),
    }
}

/// [`seen_for`] every disk of the draft.
///
/// # Errors
/// [`AppError::Internal`].
pub async fn seen_for_draft(app: &App, cluster: &Cluster) -> Result<Seen, AppError> {
    let draft = draft::load(app, &cluster.key).await?.draft;
    match draft.disks.iter().any(|disk| disk.review.is_some()) {
        true => Ok(inventory::look(app).await),
        false => Ok(Seen::default()),
    }
}

/// Why a disk that was ticked for erasing is not taken: it is not what was ticked any more.
pub fn changed(disk: &str, contents: Option<&str>) -> String {
    let now = contents.unwrap_or("nothing that is known");
    format!(
        "{disk} was changed since it was listed and holds {now} now: look at it again, and tick it again if that may go"
    )
}

/// Takes this machine's devices that are named into the draft, each under the host it is named for and as it was last seen:
/// with that it is compared before it is written. Files of the draft stay as they are.
///
/// # Errors
/// [`AppError::Invalid`] with every field that names a device which cannot be claimed, and why.
pub fn adopt(
    app: &App,
    seen: &Seen,
    snapshot: &Snapshot,
    draft: &mut Draft,
    named: &[Named],
) -> Result<(), AppError> {
    let free = free_devices(seen, snapshot);
    let mut problems = Vec::new();
    for Named { field, id, host, expected } in named {
        let known = draft.disks.iter().position(|disk| disk.id == *id);
        if known.is_some_and(|known| draft.disks[known].review.is_none()) {
            continue;
        }
        let Some((_, device)) = free.iter().find(|(free, _)| free == id) else {
            // Without an entry in the draft the plan says that there is no such disk.
            problems.extend(known.map(|known| {
                let detail = format!("{} is not there any more, or in use", draft.disks[known].path);
                FieldError::new(field.clone(), detail)
            }));
            continue;
        };
        let review = inventory::review(device);
        if expected.as_ref().is_some_and(|expected| *expected != draft::mark(&review)) {
            problems.push(FieldError::new(field.clone(), changed(device.path(), review.contents.as_deref())));
            continue;
        }
        let why = inventory::why_not(app, device.path()).or_else(|| {
            let reason = device.verdict.reason.clone().unwrap_or_default();
            (!device.can_be_claimed()).then(|| format!("{}: {reason}", device.path()))
        });
        if let Some(detail) = why {
            problems.push(FieldError::new(field.clone(), detail));
            continue;
        }
        let disk = DraftDisk {
            id: *id,
            host: host.clone(),
            name: device.name().to_owned(),
            path: device.path().to_owned(),
            size_bytes: device.facts.size_bytes.unwrap_or(0),
            media: device.media().unwrap_or(Media::Hdd),
            body: device.body.clone(),
            make_file: false,
            holds_data: device.verdict.eligibility == Eligibility::EraseNeeded,
            review: Some(review),
            looked: None,
        };
        match known {
            // It stays with the host that it was given to; the plan says so when a claim names another.
            Some(known) if draft.host(&draft.disks[known].host).is_some() => {
                draft.disks[known] = DraftDisk { host: draft.disks[known].host.clone(), ..disk };
            }
            Some(known) => draft.disks[known] = disk,
            None => draft.disks.push(disk),
        }
    }
    AppError::check(problems)
}

/// All disks: claimed, free files, this machine's. By host (naturally: `h2` before `h10`) and name.
///
/// # Errors
/// [`AppError::Unavailable`], [`AppError::Internal`].
pub async fn all(app: &App, cluster: &Cluster) -> Result<Vec<Disk>, AppError> {
    let snapshot = cluster.snapshot().await?;
    let draft = draft::load(app, &cluster.key).await?.draft;
    let known: BTreeSet<DiskId> = snapshot.disks.iter().map(|disk| disk.id).collect();
    let lists_devices = lists_devices(app, &draft, &snapshot);
    let seen = match lists_devices || draft.disks.iter().any(|disk| disk.review.is_some()) {
        true => inventory::look(app).await,
        false => Seen::default(),
    };
    let mut disks: Vec<Disk> =
        snapshot.disks.iter().map(|disk| with_device(claimed(disk.clone()), &seen)).collect();
    if snapshot.cluster.writable || snapshot.cluster.state == ClusterState::Unconfigured {
        let free = free_devices(&seen, &snapshot);
        let planned = draft.disks.iter().filter(|disk| !known.contains(&disk.id));
        disks.extend(planned.map(|disk| of_any(app, &free, disk)));
        if lists_devices {
            let rest = free.iter().filter(|(id, _)| draft.disk(*id).is_none());
            disks.extend(rest.map(|(id, disk)| of_machine(app, *id, "", disk)));
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
    let body = grouping::body_of(app, path.clone()).await?;
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
            body: body.clone(),
            make_file: file.make_file,
            holds_data: file.holds_data,
            review: None,
            looked: file.looked.clone(),
        });
        Ok(id)
    };
    let (id, _) = draft::change(app, actor, &cluster.key, None, put).await?;
    Ok(id)
}

#[cfg(test)]
mod tests;
