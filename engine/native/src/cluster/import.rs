//! A cluster on disks: what it would be if it were opened now, and taking it over.
//!
//! Invariants: [`look_inside`] opens the cluster as a start would, by the same code, over disks that are written in memory only,
//! so that what it shows is what will be and no byte on a disk changes. Nothing is taken over that a person has to put right
//! first, and everything is looked at again just before.
use super::assemble::{Assembly, SeenDisk, assemble};
use super::core::{ClusterCore, Settings};
use super::hint::{self, HintedDisk};
use super::offline::sentence;
use super::source::{DiskSource, Looked, ScratchDisks, look};
use crate::dg::DgConfig;
use crate::io::Env;
use model::engine::{Applied, EngineError};
use model::ids::{ClusterId, TaskId};
use model::state::{ClusterState, Severity};
use model::view::Snapshot;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

/// A folder that is none: a look has no data folder, and finds no faults of a lab in it.
const NO_FOLDER: &str = "/dev/null";

/// A cluster found on disks.
#[derive(Debug)]
pub struct FoundCluster {
    /// Which disks make it, and what is odd about them.
    pub assembly: Assembly,
    /// What it would be if it were opened now: hosts, disks, volumes with their health and place.
    pub inside: Arc<Snapshot>,
    /// What a person must put right before it may be imported, one sentence each; empty when nothing is in the way.
    pub obstacles: Vec<String>,
    /// What a person should know.
    pub notes: Vec<String>,
}

/// What a look at paths found.
#[derive(Debug)]
pub struct Scanned {
    /// Clusters, in order of id.
    pub clusters: Vec<FoundCluster>,
    /// Paths that cannot be used, each with its reason in one sentence.
    pub refused: Vec<(PathBuf, String)>,
}

/// Everything about the clusters on the disks that were looked at. Nothing is written; a cluster that cannot be opened is listed with the
/// reason.
pub(super) async fn look_inside(looked: Looked) -> Scanned {
    let Looked { seen, disks, refused } = looked;
    // What another process holds, or a newer version wrote, may belong to any of them.
    let unknown = refused.iter().filter(|(_, error)| error.forbids_writing());
    let unknown: Vec<String> = unknown.map(|(_, error)| sentence(error)).collect();
    let mut clusters = Vec::new();
    for assembly in assemble(seen) {
        let (inside, why) = open_in_memory(&assembly, ScratchDisks::over(&disks)).await;
        let obstacles = [assembly.obstacles(), unknown.clone(), why.into_iter().collect()].concat();
        let notes = assembly.notes();
        clusters.push(FoundCluster { assembly, inside, obstacles, notes });
    }
    let refused = refused.into_iter().map(|(path, error)| (path, sentence(&error))).collect();
    Scanned { clusters, refused }
}

/// Opens a cluster over disks in memory, looks, and lets go. The second is why it cannot be opened at all.
async fn open_in_memory(assembly: &Assembly, disks: ScratchDisks) -> (Arc<Snapshot>, Option<String>) {
    let settings = Settings {
        lock_wait: Duration::ZERO,
        looks_after: false,
        // What is in the logs stays there: to write it back would take more memory than a look has.
        groups: DgConfig { writes_back: false, ..DgConfig::default() },
        ..Settings::new(PathBuf::from(NO_FOLDER))
    };
    // The numbers that are minted in this life never leave it.
    let core = ClusterCore::unconfigured(disks, Env::machine([0; 32]), settings);
    let opened = core.open_listed(&hinted(assembly)).await;
    let inside = core.take_snapshot();
    core.close_groups();
    (inside, opened.err().map(|error| sentence(&error)))
}

/// The list of disks as the data folder keeps it.
pub(super) fn hinted(assembly: &Assembly) -> Vec<HintedDisk> {
    let disk = |disk: &SeenDisk| HintedDisk {
        id: disk.superblock.disk,
        name: disk.superblock.name.clone(),
        path: disk.path.clone(),
    };
    assembly.disks.values().map(disk).collect()
}

/// The cluster of that id among what was found, if nothing is in its way.
///
/// # Errors
/// One sentence each: it is not there, or what must be put right.
pub(super) fn chosen(scanned: Scanned, cluster: ClusterId) -> Result<FoundCluster, Vec<String>> {
    let found = scanned.clusters.into_iter().find(|found| found.assembly.cluster == cluster);
    let Some(found) = found else {
        let reasons: Vec<String> = scanned.refused.into_iter().map(|(_, why)| why).collect();
        let first = format!("cluster {cluster} is not on these disks; look at them again");
        return Err([vec![first], reasons].concat());
    };
    if found.obstacles.is_empty() { Ok(found) } else { Err(found.obstacles) }
}

impl<D: DiskSource + 'static> ClusterCore<D> {
    /// Takes over a cluster, as a task. Until nothing is in the way nothing is written; then it is opened as at any start, and
    /// its disks are listed in the data folder.
    pub(super) fn import(
        &self,
        task: TaskId,
        cluster: ClusterId,
        paths: &[String],
    ) -> Result<Applied, EngineError> {
        if self.board.task(task).is_some() {
            return Ok(Applied::default());
        }
        if self.state.borrow().life != ClusterState::Unconfigured {
            let detail = "this server has a cluster already; import into a new data folder".into();
            return Err(EngineError::Conflict { detail });
        }
        let paths: Vec<PathBuf> = paths.iter().map(PathBuf::from).collect();
        if paths.is_empty() || paths.iter().any(|path| !path.is_absolute()) {
            let detail = "name the disks by their absolute paths".into();
            return Err(EngineError::Invalid { field: "paths".into(), detail });
        }
        self.state.borrow_mut().life = ClusterState::Configuring;
        self.board.start_task(task, "import-cluster", &cluster.to_string());
        let core = self.rc();
        tokio::task::spawn_local(async move {
            let result = core.take_over_from(task, cluster, &paths).await;
            if result.is_err() {
                core.forget_import();
            }
            core.board.finish_task(task, result);
        });
        Ok(Applied::default())
    }

    async fn take_over_from(
        &self,
        task: TaskId,
        cluster: ClusterId,
        paths: &[PathBuf],
    ) -> Result<(), EngineError> {
        let conflict = |detail: String| EngineError::Conflict { detail };
        self.board.progress(task, 10, "looking at the disks once more");
        let looked = look(&self.source, paths, false, self.settings.lock_wait).await;
        let found = chosen(look_inside(looked).await, cluster).map_err(|why| conflict(why.join("; ")))?;
        let disks = hinted(&found.assembly);
        self.board.progress(task, 50, "opening the cluster");
        self.open_listed(&disks).await.map_err(|error| conflict(sentence(&error)))?;
        self.store_hint().map_err(|error| conflict(sentence(&error)))?;
        let name = found.assembly.config.name;
        let text = format!("cluster {name} was imported from {} disks", disks.len());
        self.board.event(Severity::Info, "cluster-imported", "cluster".into(), text);
        self.unstick();
        self.changed(None);
        Ok(())
    }

    /// Lets go of every open group, as a crash would.
    fn close_groups(&self) {
        for (group, _) in self.directory.groups() {
            self.directory.remove_group(group.group());
            group.kill();
        }
    }

    /// Back to no cluster, after an import that failed.
    fn forget_import(&self) {
        self.close_groups();
        let mut state = self.state.borrow_mut();
        (state.life, state.reason, state.config) = (ClusterState::Unconfigured, None, None);
        state.disks.clear();
        state.hosts.clear();
        state.objects.clear();
    }
}

/// Whether a data folder may take a cluster: it lists no disks.
///
/// # Errors
/// When the list is there and cannot be read.
pub(super) fn is_free(folder: &Path) -> Result<bool, hint::HintError> {
    Ok(hint::load(folder)?.is_none_or(|listed| listed.is_empty()))
}
