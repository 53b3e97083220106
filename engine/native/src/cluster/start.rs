//! Starting and stopping the engine of a data folder.
use super::capabilities::capabilities;
use super::claim::Inspector;
use super::core::{ClusterCore, Settings};
use super::handle::NativeEngine;
use super::open::StartError;
use super::source::{DiskSource, MachineSource};
use super::volumes::Volumes;
use crate::io::{Env, LOCK_WAIT, Ring, lock_file};
use crate::nbd::listener::Listener;
use crate::nbd::{Front, Limits};
use futures_util::future::join_all;
use std::io::Read;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::PathBuf;
use std::time::Duration;

/// How long a stop may write back what is dirty. Source: the contract.
const DRAIN: Duration = Duration::from_secs(30);

/// How to start.
#[derive(Clone, Debug)]
pub struct Options {
    /// The data folder; made when missing.
    pub data_dir: PathBuf,
    /// Written to the cluster when given.
    pub repair_delay_seconds: Option<u32>,
    /// How long to wait for the locks of folder and disks.
    pub lock_wait: Duration,
    /// Whether volumes are served on `nbd.sock` in the folder.
    pub nbd: bool,
    /// Knows foreign disks; the default one tells blank from not blank.
    pub inspector: Inspector,
}

impl Options {
    /// The defaults for a data folder.
    pub fn new(data_dir: impl Into<PathBuf>) -> Self {
        Self {
            data_dir: data_dir.into(),
            repair_delay_seconds: None,
            lock_wait: LOCK_WAIT,
            nbd: true,
            inspector: Inspector::default(),
        }
    }
}

impl NativeEngine {
    /// Starts the engine of a data folder on its own thread, and waits until it answers.
    ///
    /// # Errors
    /// `StartError`: one sentence that says what to do; nothing runs then.
    pub fn start(options: Options) -> Result<Self, StartError> {
        Self::spawn(capabilities(), model::what_if::answer, move || open(options))
    }
}

async fn open(options: Options) -> Result<std::rc::Rc<ClusterCore<MachineSource>>, StartError> {
    let data_dir = prepare_folder(&options.data_dir)?;
    let lock = lock_file(&data_dir.join("lock"), options.lock_wait).await;
    let lock = lock.map_err(|error| StartError::Folder(error.to_string()))?;
    let socket = data_dir.join("nbd.sock");
    let listener = match options.nbd {
        true => Some(Listener::bind(&socket).await.map_err(StartError::Nbd)?),
        false => None,
    };
    let ring = Ring::new().map_err(StartError::Ring)?;
    let settings = Settings {
        lock_wait: options.lock_wait,
        repair_delay_seconds: options.repair_delay_seconds,
        nbd_socket: options.nbd.then_some(socket),
        inspector: options.inspector,
        ..Settings::new(data_dir)
    };
    let core = ClusterCore::start(MachineSource::new(ring), Env::machine(seed()?), settings).await?;
    if let Some(listener) = listener {
        let front = Front::new(Volumes::new(&core), Limits::default());
        *core.front.borrow_mut() = Some(front.clone());
        tokio::task::spawn_local(listener.run(front));
    }
    *core.lock.borrow_mut() = Some(lock);
    Ok(core)
}

fn prepare_folder(folder: &std::path::Path) -> Result<PathBuf, StartError> {
    let failed =
        |error: std::io::Error| StartError::Folder(format!("{} cannot be used: {error}", folder.display()));
    if !folder.exists() {
        std::fs::DirBuilder::new().recursive(true).mode(0o700).create(folder).map_err(failed)?;
        std::fs::set_permissions(folder, std::fs::Permissions::from_mode(0o700)).map_err(failed)?;
    }
    std::path::absolute(folder).map_err(failed)
}

/// Thirty-two bytes from the operating system.
fn seed() -> Result<[u8; 32], StartError> {
    let mut seed = [0; 32];
    let read = std::fs::File::open("/dev/urandom").and_then(|mut file| file.read_exact(&mut seed));
    read.map_err(|error| StartError::Folder(format!("/dev/urandom cannot be read: {error}")))?;
    Ok(seed)
}

impl<D: DiskSource + 'static> ClusterCore<D> {
    /// Stops: no new requests, flush, write back for a while, labels marked clean.
    pub(super) async fn stop(&self) {
        self.state.borrow_mut().stopping = true;
        self.care.notify_one();
        let front = self.front.borrow_mut().take();
        if let Some(front) = front {
            front.stop();
            // Connections end by themselves within the limits of the front.
            let _ = tokio::time::timeout(DRAIN, front.idle()).await;
        }
        let owners: Vec<_> =
            self.state.borrow().objects.values().filter_map(|object| object.owner.clone()).collect();
        join_all(owners.iter().map(|owner| owner.flush())).await;
        // Whoever opens groups just now is waited for, as long as for the rest.
        let turn = tokio::time::timeout(DRAIN, self.disks_turn.lock()).await;
        let groups = self.directory.groups();
        let drained = join_all(groups.iter().map(|(dg, _)| dg.drain()));
        let drained = tokio::time::timeout(DRAIN, drained).await;
        let clean = turn.is_ok() && drained.is_ok_and(|results| results.iter().all(Result::is_ok));
        for (dg, _) in &groups {
            dg.kill();
            self.directory.remove_group(dg.group());
        }
        let labels: Vec<_> = self.state.borrow().disks.values().filter_map(|run| run.label.clone()).collect();
        if clean {
            join_all(labels.iter().map(|label| label.update(|superblock| superblock.clean = true))).await;
        }
        self.board.touch();
    }
}
