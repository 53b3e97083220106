//! What every request and background task shares.
use crate::db::views::Views;
use crate::edge::{Clock, Rng};
use crate::error::AppError;
use crate::service::auth::{Passwords, SetupCode};
use crate::service::deeds::Deeds;
use crate::service::live::Live;
use crate::tls::Tls;
use model::engine::{Engine, EngineKind};
use model::plan::LabShape;
use model::view::Snapshot;
use sqlx::SqlitePool;
use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use tokio::sync::{Notify, watch};

/// Key of the embedded cluster in paths, tables and drafts.
pub const NATIVE: &str = "native";

/// What the command line decided.
#[derive(Clone, Debug)]
pub struct Config {
    /// `--data`, absolute.
    pub data_dir: PathBuf,
    /// The address that is listened on.
    pub listen: SocketAddr,
    /// `--public-url`: what a proxy shows.
    pub public_url: Option<String>,
    /// `--file-disks`: folders in which file disks may be made, absolute.
    pub file_disk_dirs: Vec<PathBuf>,
    /// Whether this machine's disks are listed.
    pub lists_devices: bool,
    /// `--inventory`: the recorded machine whose disks are listed instead of this one's, absolute.
    pub inventory_dir: Option<PathBuf>,
    /// Loop devices may be claimed like disks: for tests.
    pub allows_loop_devices: bool,
    /// `--lab`, planned when nothing is configured.
    pub lab: Option<LabShape>,
    /// `--repair-delay`.
    pub repair_delay_seconds: Option<u32>,
    /// Where the certificate comes from, when this server itself speaks TLS.
    pub tls_source: Option<crate::tls::Source>,
    /// The certificate in use; there once the data folder is open.
    pub tls: Option<Tls>,
    /// What this machine is called by others; empty while it is only reached from itself.
    pub names: Vec<String>,
    /// Whether a service manager looks after this process.
    pub supervised: bool,
}

impl Config {
    /// Whether browsers come over HTTPS: this server speaks it, or a proxy before it does.
    pub fn is_https(&self) -> bool {
        self.tls.is_some() || self.is_public_https()
    }

    /// Whether its public address is one of HTTPS: whoever says so owns that name.
    pub fn is_public_https(&self) -> bool {
        self.public_url.as_ref().is_some_and(|url| url.starts_with("https://"))
    }

    /// The address that is listened on, as a browser takes it.
    pub fn base(&self) -> String {
        format!("{}://{}", if self.tls.is_some() { "https" } else { "http" }, self.listen)
    }

    /// The address that a person is shown: what a proxy in front shows, or one under which others reach this machine.
    pub fn shown(&self) -> String {
        let elsewhere = crate::tls::names::from_elsewhere(&self.names);
        let host =
            elsewhere.filter(|_| self.listen.ip().is_unspecified()).map(|name| match name.contains(':') {
                true => format!("[{name}]"),
                false => name.clone(),
            });
        let named = host.map(|host| format!("https://{host}:{}", self.listen.port()));
        self.public_url.clone().or(named).unwrap_or_else(|| self.base())
    }
}

/// One cluster that this process serves.
pub struct Cluster {
    /// Key in paths: `native`, or the name of a connection.
    pub key: String,
    /// Behind the trait.
    pub engine: Arc<dyn Engine>,
    /// Snapshot that the projections hold, and that live pages are rendered from.
    pub projected: watch::Sender<Arc<Snapshot>>,
    /// Wakes the projection at once.
    pub nudge: Notify,
    /// Who asked for what the engine is about to tell.
    pub deeds: Deeds,
}

impl Cluster {
    /// The truth now.
    ///
    /// # Errors
    /// [`AppError::Unavailable`].
    pub async fn snapshot(&self) -> Result<Arc<Snapshot>, AppError> {
        Ok(self.engine.snapshot().await?)
    }

    /// Which engine it is.
    pub fn kind(&self) -> EngineKind {
        self.engine.capabilities().engine
    }

    /// Waits until the projections hold what the engine holds now, so that a list shows what was just done. Gives up
    /// silently when the projection has ended: the deed is done, the list follows later.
    ///
    /// # Errors
    /// [`AppError::Unavailable`].
    pub async fn settle(&self) -> Result<(), AppError> {
        let version = self.snapshot().await?.version;
        let mut projected = self.projected.subscribe();
        self.nudge.notify_one();
        let caught_up = projected.wait_for(|snapshot| snapshot.version >= version);
        let _ = tokio::time::timeout(std::time::Duration::from_secs(5), caught_up).await;
        Ok(())
    }
}

/// Parts of [`App`].
pub struct Parts {
    /// `console.db`.
    pub console: SqlitePool,
    /// `views.db`.
    pub views: Views,
    /// Clusters by key.
    pub clusters: BTreeMap<String, Arc<Cluster>>,
    /// Key of the default cluster.
    pub default_cluster: String,
    /// Time.
    pub clock: Arc<dyn Clock>,
    /// Randomness.
    pub rng: Arc<dyn Rng>,
    /// Command line.
    pub config: Config,
    /// Password hashing with a bound on memory.
    pub passwords: Passwords,
    /// The code that the first administrator must know.
    pub setup: SetupCode,
    /// Live pages.
    pub live: Live,
    /// Looks at this machine's disks.
    pub looks: crate::service::inventory::Looks,
    /// The latest run of "watch it lose a host".
    pub watch: crate::service::watch::Watch,
    /// True once the process is asked to stop: streams and background tasks end.
    pub stopping: watch::Sender<bool>,
}

/// Shared state; cloning copies a pointer.
#[derive(Clone)]
pub struct App(Arc<Parts>);

impl std::ops::Deref for App {
    type Target = Parts;
    fn deref(&self) -> &Parts {
        &self.0
    }
}

impl App {
    /// Opens the databases in `config.data_dir`, fills the projections from the engines, and returns the state. Background
    /// tasks are started by [`App::start_tasks`].
    ///
    /// # Errors
    /// [`AppError::Internal`] when a database cannot be opened; [`AppError::Unavailable`] when an engine does not answer.
    pub async fn open(
        config: Config,
        clock: Arc<dyn Clock>,
        rng: Arc<dyn Rng>,
        engines: Vec<(String, Arc<dyn Engine>)>,
    ) -> Result<Self, AppError> {
        let console = crate::db::open_console(&config.data_dir.join("console.db")).await?;
        let default_cluster = engines.first().map_or(NATIVE, |(key, _)| key).to_owned();
        let mut clusters = BTreeMap::new();
        let mut first = Vec::new();
        for (key, engine) in engines {
            let snapshot = engine.snapshot().await?;
            first.push((key.clone(), snapshot.clone()));
            let projected = watch::Sender::new(snapshot);
            let cluster = Cluster {
                key: key.clone(),
                engine,
                projected,
                nudge: Notify::new(),
                deeds: Deeds::default(),
            };
            clusters.insert(key, Arc::new(cluster));
        }
        let views = Views::build(&config.data_dir.join("views.db"), &first).await?;
        let setup = SetupCode::new(rng.as_ref());
        let passwords = Passwords::new();
        let stopping = watch::Sender::new(false);
        let live = Live::default();
        Ok(Self(Arc::new(Parts {
            console,
            views,
            clusters,
            default_cluster,
            clock,
            rng,
            config,
            passwords,
            setup,
            live,
            looks: crate::service::inventory::Looks::default(),
            watch: crate::service::watch::Watch::default(),
            stopping,
        })))
    }

    /// Starts projections, samples and live pages. They end when `stopping` becomes true.
    pub fn start_tasks(&self) {
        for cluster in self.clusters.values() {
            tokio::spawn(crate::service::projection::run(self.clone(), cluster.clone()));
            tokio::spawn(crate::service::performance::run(self.clone(), cluster.clone()));
        }
        tokio::spawn(crate::http::live::run(self.clone()));
    }

    /// A cluster by key; `None` is the default one.
    ///
    /// # Errors
    /// [`AppError::NotFound`].
    pub fn cluster(&self, key: Option<&str>) -> Result<Arc<Cluster>, AppError> {
        let key = key.unwrap_or(&self.default_cluster);
        self.clusters.get(key).cloned().ok_or_else(|| AppError::NotFound(format!("cluster \"{key}\"")))
    }

    /// Resolves when the process is asked to stop.
    pub async fn stopped(&self) {
        let _ = self.stopping.subscribe().wait_for(|stopping| *stopping).await;
    }
}
