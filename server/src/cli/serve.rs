//! `serve`: understand the options, start the engine, open the databases, print the lines of the contract, serve, stop.
use super::people::sentence;
use super::{DataArgs, Outcome, folder};
use crate::app::{App, Config, NATIVE};
use crate::edge::{SystemClock, SystemRng};
use crate::service::auth::{self, Actor};
use crate::service::{draft, inventory, lab};
use clap::Args;
use std::io::Write;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::TcpListener;

/// How long open requests may take to end once the server is asked to stop.
const REQUESTS_END: Duration = Duration::from_secs(10);

#[derive(Args)]
pub(super) struct ServeArgs {
    #[command(flatten)]
    data: DataArgs,
    /// Address of console and API; port 0 picks a free one
    #[arg(long, value_name = "ADDR", default_value = "127.0.0.1:7400")]
    listen: String,
    /// Plan this lab when the folder holds nothing: hosts=4,cache=1x256MiB,capacity=2x1GiB
    #[arg(long, value_name = "SHAPE")]
    lab: Option<String>,
    /// With a lab: list this machine's disks too
    #[arg(long)]
    devices: bool,
    /// List the disks of the machine recorded in this folder instead of this one's: they can be looked at, not claimed
    #[arg(long, value_name = "DIR")]
    inventory: Option<PathBuf>,
    /// A folder where file disks may be made (repeatable)
    #[arg(long, value_name = "DIR")]
    file_disks: Vec<PathBuf>,
    /// Seconds that an absent component is waited for
    #[arg(long, value_name = "SECONDS")]
    repair_delay: Option<u32>,
    /// What a proxy in front shows, e.g. https://mill.example
    #[arg(long, value_name = "URL")]
    public_url: Option<String>,
    #[command(flatten)]
    later: LaterArgs,
}

/// Options of the contract that come with a later release; each is refused by name.
#[derive(Args)]
#[command(next_help_heading = "In a later release")]
struct LaterArgs {
    /// Add this Ceph cluster
    #[arg(long, value_name = "FILE")]
    ceph_conf: Option<String>,
    /// As this Ceph client
    #[arg(long, value_name = "NAME")]
    ceph_name: Option<String>,
    /// Let it be changed
    #[arg(long)]
    ceph_writes: bool,
    /// NBD over TCP
    #[arg(long, value_name = "ADDR")]
    nbd_listen: Option<String>,
    /// Its certificate
    #[arg(long, value_name = "FILE")]
    nbd_tls_cert: Option<String>,
    /// Its key
    #[arg(long, value_name = "FILE")]
    nbd_tls_key: Option<String>,
    /// Who signs client certificates
    #[arg(long, value_name = "FILE")]
    nbd_tls_client_ca: Option<String>,
    /// NBD over TCP without TLS, on loopback
    #[arg(long)]
    nbd_insecure: bool,
    /// Group of the NBD socket
    #[arg(long, value_name = "NAME")]
    nbd_socket_group: Option<String>,
    /// Certificate of the console
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<String>,
    /// Its key
    #[arg(long, value_name = "FILE")]
    tls_key: Option<String>,
    /// Make a certificate
    #[arg(long)]
    tls_self_signed: bool,
}

impl LaterArgs {
    fn first(&self) -> Option<&'static str> {
        let given = [
            ("--ceph-conf", self.ceph_conf.is_some()),
            ("--ceph-name", self.ceph_name.is_some()),
            ("--ceph-writes", self.ceph_writes),
            ("--nbd-listen", self.nbd_listen.is_some()),
            ("--nbd-tls-cert", self.nbd_tls_cert.is_some()),
            ("--nbd-tls-key", self.nbd_tls_key.is_some()),
            ("--nbd-tls-client-ca", self.nbd_tls_client_ca.is_some()),
            ("--nbd-insecure", self.nbd_insecure),
            ("--nbd-socket-group", self.nbd_socket_group.is_some()),
            ("--tls-cert", self.tls_cert.is_some()),
            ("--tls-key", self.tls_key.is_some()),
            ("--tls-self-signed", self.tls_self_signed),
        ];
        given.into_iter().find(|(_, given)| *given).map(|(name, _)| name)
    }
}

/// Options that were understood; nothing has been touched.
pub(super) struct Plan {
    pub(super) config: Config,
}

impl ServeArgs {
    /// Checks everything that can be checked without touching anything.
    pub(super) fn understand(self) -> Result<Plan, String> {
        if let Some(name) = self.later.first() {
            return Err(format!("{name} comes with a later release; leave it out"));
        }
        let listen: SocketAddr = self.listen.parse().map_err(|_| {
            format!("--listen takes an address and a port, as 127.0.0.1:7400; `{}` is not one", self.listen)
        })?;
        if !listen.ip().is_loopback() {
            return Err(format!(
                "{listen} can be reached from elsewhere and needs TLS, which comes with a later release; use \
                 --listen 127.0.0.1:{} and put a proxy with TLS in front",
                listen.port()
            ));
        }
        if let Some(url) = &self.public_url
            && !(url.starts_with("http://") || url.starts_with("https://"))
        {
            return Err(format!(
                "--public-url takes a whole address, as https://mill.example; `{url}` is not one"
            ));
        }
        let mut file_disk_dirs = Vec::new();
        for dir in &self.file_disks {
            let canonical = dir.canonicalize();
            file_disk_dirs
                .push(canonical.map_err(|error| format!("--file-disks {}: {error}", dir.display()))?);
        }
        let inventory_dir = self.inventory.as_deref().map(inventory::check_folder).transpose();
        let inventory_dir = inventory_dir.map_err(|error| format!("--inventory: {error}"))?;
        let data_dir = folder::absolute(&self.data.data)?;
        let lab = self.lab.as_deref().map(lab::parse_shape).transpose();
        let lab = lab.map_err(|error| format!("--lab: {error}"))?;
        if let Some(shape) = &lab
            && !data_dir.join("lab").exists()
        {
            lab::check_room(shape, &data_dir).map_err(|error| error.to_string())?;
        }
        let config = Config {
            data_dir,
            listen,
            public_url: self.public_url.map(|url| url.trim_end_matches('/').to_owned()),
            file_disk_dirs,
            lists_devices: self.devices,
            inventory_dir,
            // A variable and no option: nobody who is not testing Millpond itself wants it.
            allows_loop_devices: std::env::var_os("MILLPOND_ALLOW_LOOP_DEVICES")
                .is_some_and(|set| set == "1"),
            lab,
            repair_delay_seconds: self.repair_delay,
        };
        Ok(Plan { config })
    }
}

async fn listen(address: SocketAddr) -> Result<TcpListener, String> {
    TcpListener::bind(address).await.map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            format!("{address} is in use; stop what listens there, or choose another port with --listen")
        }
        _ => format!("cannot listen on {address}: {error}"),
    })
}

/// Serves until SIGTERM or SIGINT.
pub(super) async fn run(Plan { mut config }: Plan) -> Outcome {
    // The port first: when it is taken, nothing has been touched.
    let listener = listen(config.listen).await?;
    config.listen = listener.local_addr().map_err(|error| error.to_string())?;
    config.data_dir = folder::prepare(&config.data_dir)?;
    let engine = crate::engines::start(&config.data_dir, config.repair_delay_seconds).await?;
    let clusters = vec![(NATIVE.to_owned(), engine.clone())];
    let app = App::open(config, Arc::new(SystemClock), Arc::new(SystemRng), clusters).await;
    let app = match app {
        Ok(app) => app,
        Err(error) => {
            let _ = engine.shutdown().await;
            return Err(sentence(&error));
        }
    };
    if let Err(error) = prepare_draft(&app).await {
        let _ = engine.shutdown().await;
        return Err(error);
    }
    app.start_tasks();
    announce(&app).await?;
    let served = serve(&app, listener).await;
    for cluster in app.clusters.values() {
        if let Err(error) = cluster.engine.shutdown().await {
            tracing::error!(cluster = %cluster.key, %error, "the engine did not stop cleanly");
        }
    }
    app.console.close().await;
    served?;
    Ok(ExitCode::SUCCESS)
}

/// Plans the lab of the command line and its repair delay, when nothing is configured and no lab is planned.
async fn prepare_draft(app: &App) -> Result<(), String> {
    let cluster = app.cluster(None).map_err(|error| sentence(&error))?;
    if !draft::is_unconfigured(&cluster).await.map_err(|error| sentence(&error))? {
        return Ok(());
    }
    let actor = Actor::command_line();
    let known = draft::load(app, &cluster.key).await.map_err(|error| sentence(&error))?.draft;
    if let Some(shape) = app.config.lab.as_ref().filter(|_| known.lab.is_none()) {
        lab::plan(app, &actor, &cluster, None, shape).await.map_err(|error| sentence(&error))?;
    }
    if let Some(seconds) = app.config.repair_delay_seconds {
        let put = |draft: &mut draft::Draft| {
            draft.repair_delay_seconds = seconds;
            Ok(())
        };
        let changed = draft::change(app, &actor, &cluster.key, None, put).await;
        changed.map_err(|error| sentence(&error))?;
    }
    Ok(())
}

/// The lines of the contract on stdout. A closed stdout is no reason to stop.
async fn announce(app: &App) -> Result<(), String> {
    let base = format!("http://{}", app.config.listen);
    let mut text = String::new();
    if auth::setup_is_open(app).await.map_err(|error| sentence(&error))? {
        let shown = app.config.public_url.as_deref().unwrap_or(&base);
        let code = app.setup.text();
        text = format!("setup: {shown}/setup#{code}\n{code}\n");
    }
    text.push_str(&format!("millpond ready on {base}\n"));
    let mut stdout = std::io::stdout().lock();
    let _ = stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush());
    Ok(())
}

async fn asked_to_stop() {
    use tokio::signal::unix::{SignalKind, signal};
    let (term, int) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    match (term, int) {
        (Ok(mut term), Ok(mut int)) => tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} },
        _ => std::future::pending().await,
    }
}

async fn serve(app: &App, listener: TcpListener) -> Result<(), String> {
    let service = crate::router::build(app).into_make_service_with_connect_info::<SocketAddr>();
    let stop = app.clone();
    let graceful = async move {
        asked_to_stop().await;
        tracing::info!("stopping");
        stop.stopping.send_replace(true);
    };
    let server = axum::serve(listener, service).with_graceful_shutdown(graceful);
    let overdue = async {
        app.stopped().await;
        tokio::time::sleep(REQUESTS_END).await;
    };
    tokio::select! {
        served = async { server.await } => served.map_err(|error| format!("cannot serve: {error}")),
        () = overdue => Ok(()),
    }
}
