//! The one file that names an engine crate.
use crate::error::AppError;
use crate::service::inventory;
use model::ids::{ClusterId, DiskId};
use model::view::Snapshot;
use native::cluster::claim::{Found, Inspect, Inspector, ReadAt, Signature};
use native::cluster::handle::NativeEngine;
use native::cluster::offline;
use native::cluster::start::Options;
use serde_json::Value;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// What a look at disks found.
pub struct Scan {
    /// Clusters, in order of id.
    pub clusters: Vec<FoundCluster>,
    /// Paths that cannot be used, with the reason.
    pub refused: Vec<(PathBuf, String)>,
}

/// A cluster found on disks.
pub struct FoundCluster {
    /// Identity.
    pub id: ClusterId,
    /// Name.
    pub name: String,
    /// Its disks that are there: name and path.
    pub present: Vec<(String, PathBuf)>,
    /// Its disks that are not: id, name, and name of the host.
    pub missing: Vec<(DiskId, String, String)>,
    /// What it would be if it were opened now.
    pub inside: Arc<Snapshot>,
    /// What a person must put right before it may be imported, one sentence each.
    pub obstacles: Vec<String>,
    /// What a person should know, one sentence each.
    pub notes: Vec<String>,
}

impl From<native::cluster::import::FoundCluster> for FoundCluster {
    fn from(found: native::cluster::import::FoundCluster) -> Self {
        let native::cluster::import::FoundCluster { assembly, inside, obstacles, notes } = found;
        let host_of = |id| {
            let host = assembly.config.hosts.iter().find(|host| host.id == id);
            host.map(|host| host.name.clone()).unwrap_or_default()
        };
        Self {
            id: assembly.cluster,
            name: assembly.config.name.clone(),
            present: assembly
                .disks
                .values()
                .map(|disk| (disk.superblock.name.clone(), disk.path.clone()))
                .collect(),
            missing: assembly
                .missing
                .iter()
                .map(|disk| (disk.id, disk.name.clone(), host_of(disk.host)))
                .collect(),
            inside,
            obstacles,
            notes,
        }
    }
}

/// Looks at disks read-only, on this thread, which waits for them.
///
/// # Errors
/// One sentence when the machine refuses; a single bad path is listed instead.
pub fn look(paths: &[PathBuf]) -> Result<Scan, String> {
    let scanned = offline::scan(paths).map_err(|error| offline::sentence(&error))?;
    let clusters = scanned.clusters.into_iter().map(FoundCluster::from).collect();
    Ok(Scan { clusters, refused: scanned.refused })
}

/// Looks at disks read-only.
///
/// # Errors
/// [`AppError::Conflict`] when the machine refuses; a single bad path is listed instead.
pub async fn scan(paths: Vec<PathBuf>) -> Result<Scan, AppError> {
    let looked = tokio::task::spawn_blocking(move || look(&paths)).await;
    looked.map_err(AppError::internal)?.map_err(AppError::Conflict)
}

/// A client of one volume over the NBD socket: the server's own workloads use it, so that they see what any client sees.
pub struct BlockClient(native::nbd::client::Client);

/// An error and what caused it, in one line.
fn chain(error: &dyn std::error::Error) -> String {
    let causes = std::iter::successors(Some(error), |error| error.source());
    causes.map(ToString::to_string).collect::<Vec<_>>().join(": ")
}

impl BlockClient {
    /// Attaches to a volume by name.
    ///
    /// # Errors
    /// One line with the causes.
    pub async fn connect(socket: &Path, volume: &str) -> Result<Self, String> {
        let client = native::nbd::client::Client::connect(socket, volume).await;
        client.map(Self).map_err(|error| chain(&error))
    }

    /// Reads `length` bytes, at most 32 MiB.
    ///
    /// # Errors
    /// One line with the causes.
    pub async fn read(&self, offset: u64, length: u64) -> Result<Vec<u8>, String> {
        let length = u32::try_from(length).map_err(|error| error.to_string())?;
        self.0.read(offset, length).await.map_err(|error| chain(&error))
    }

    /// Writes; when it returns, the volume has acknowledged.
    ///
    /// # Errors
    /// One line with the causes; nothing is known about the effect then.
    pub async fn write(&self, offset: u64, data: &[u8]) -> Result<(), String> {
        self.0.write(offset, data, false).await.map_err(|error| chain(&error))
    }

    /// Flushes.
    ///
    /// # Errors
    /// One line with the causes.
    pub async fn flush(&self) -> Result<(), String> {
        self.0.flush().await.map_err(|error| chain(&error))
    }

    /// Detaches.
    pub async fn close(&self) {
        let _ = self.0.disconnect().await;
    }
}

/// Lets the engine see foreign disks with the eyes of the inventory.
struct Eyes;

impl Inspect for Eyes {
    fn identities(&self, paths: &[PathBuf]) -> BTreeMap<PathBuf, String> {
        let mut known = inventory::identities_now();
        known.retain(|path, _| paths.contains(path));
        let file = |path: &PathBuf| Some((path.clone(), crate::service::file_disks::identity(path)?));
        known.extend(paths.iter().filter_map(file));
        known
    }

    fn look(&self, size_bytes: u64, read: &ReadAt<'_>) -> Found {
        let contents = ::inventory::contents::look(read, size_bytes);
        let place = |finding: &::inventory::contents::Finding| {
            let is_table = finding.kind == ::inventory::contents::Kind::Table;
            Some(Signature { offset_bytes: finding.offset_bytes?, is_table })
        };
        // Data without a signature is not looked for block by block: it is overwritten in time.
        let signs =
            |finding: &&::inventory::contents::Finding| finding.kind != ::inventory::contents::Kind::Unknown;
        Found {
            contents: contents.summary(),
            fingerprint: ::inventory::contents::fingerprint(read, size_bytes, &contents),
            signatures: contents.findings.iter().filter(signs).filter_map(place).collect(),
            unreadable: contents.unreadable,
        }
    }
}

/// Starts the embedded engine of a data folder.
///
/// # Errors
/// One sentence that says what to do; nothing runs then.
pub async fn start(
    data_dir: &Path,
    repair_delay_seconds: Option<u32>,
) -> Result<Arc<dyn model::engine::Engine>, String> {
    let inspector = Inspector(Arc::new(Eyes));
    let options = Options { repair_delay_seconds, inspector, ..Options::new(data_dir) };
    // Starting waits for locks and reads disks.
    let started = tokio::task::spawn_blocking(move || NativeEngine::start(options)).await;
    let started = started.map_err(|error| error.to_string())?;
    Ok(Arc::new(started.map_err(|error| offline::sentence(&error))?))
}

/// What a check looked at, and what is wrong.
pub struct Checked {
    /// One sentence for people.
    pub summary: String,
    /// One sentence each; empty is clean.
    pub findings: Vec<String>,
}

/// Verifies a stopped cluster.
///
/// # Errors
/// One sentence: it could not be run.
pub fn check(data_dir: &Path, deep: bool) -> Result<Checked, String> {
    let report = native::cluster::check::check(data_dir, deep, native::io::LOCK_WAIT);
    let report = report.map_err(|error| offline::sentence(&error))?;
    let compared = crate::service::format::bytes_text(report.compared_bytes);
    let depth = if deep { format!(", {compared} of copies compared") } else { String::new() };
    let (name, disks, objects) = (&report.cluster, report.disks, report.objects);
    let summary = format!("cluster \"{name}\": {disks} disks and {objects} objects verified{depth}");
    Ok(Checked { summary, findings: report.findings })
}

/// Makes a new folder serve the cluster on these disks: its name, and what is odd.
///
/// # Errors
/// One sentence; the folder is as before.
pub fn import(
    data_dir: &Path,
    paths: &[PathBuf],
    cluster: Option<ClusterId>,
) -> Result<(String, Vec<String>), String> {
    offline::import(data_dir, paths, cluster).map_err(|error| offline::sentence(&error))
}

/// The on-disk structures of one disk.
///
/// # Errors
/// One sentence.
pub fn dump(path: &Path) -> Result<Value, String> {
    offline::dump(path).map_err(|error| offline::sentence(&error))
}
