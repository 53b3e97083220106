//! `serve`: understand the options, start the engine, open the databases, print the lines of the contract, serve, stop.
use super::people::sentence;
use super::{DataArgs, Outcome, announce, folder};
use crate::app::{App, Config, NATIVE};
use crate::edge::{Clock, SystemClock, SystemRng};
use crate::service::auth::Actor;
use crate::service::{draft, inventory, lab};
use crate::tls::{self, Tls};
use clap::Args;
use std::net::{SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::process::ExitCode;
use std::sync::Arc;
use std::time::Duration;

/// How often the certificate is read again, or renewed when it ends soon.
const CERTIFICATE_LOOK: Duration = Duration::from_secs(12 * 3600);

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
    tls: TlsArgs,
    #[command(flatten)]
    later: LaterArgs,
}

/// The certificate of the console.
#[derive(Args)]
struct TlsArgs {
    /// Certificate of the console in PEM form, with those that signed it after it
    #[arg(long, value_name = "FILE")]
    tls_cert: Option<PathBuf>,
    /// Its key, in PEM form
    #[arg(long, value_name = "FILE")]
    tls_key: Option<PathBuf>,
    /// Make a certificate for this machine's names and addresses, once, and show its fingerprint
    #[arg(long)]
    tls_self_signed: bool,
}

impl TlsArgs {
    /// Where the certificate comes from; a pair of files is read and checked, so that a wrong one is refused here.
    fn understand(&self) -> Result<Option<tls::Source>, String> {
        let source = match (&self.tls_cert, &self.tls_key, self.tls_self_signed) {
            (None, None, false) => return Ok(None),
            (None, None, true) => tls::Source::SelfSigned,
            (Some(certificate), Some(key), false) => tls::Source::Files {
                certificate: folder::absolute(certificate)?,
                key: folder::absolute(key)?,
            },
            (_, _, true) => {
                return Err(
                    "--tls-self-signed makes its own certificate; leave out --tls-cert and --tls-key".into(),
                );
            }
            (Some(_), None, false) => {
                return Err("--tls-cert needs the certificate's key; add --tls-key FILE".into());
            }
            (None, Some(_), false) => {
                return Err("--tls-key needs its certificate; add --tls-cert FILE".into());
            }
        };
        if source != tls::Source::SelfSigned {
            let read = source.open(Path::new(""), &[], SystemClock.now());
            read.map_err(|error| error.to_string())?;
        }
        Ok(Some(source))
    }
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
        let tls = self.tls.understand()?;
        if !listen.ip().is_loopback() && tls.is_none() {
            return Err(format!(
                "{listen} can be reached from elsewhere and needs TLS: add --tls-self-signed, or --tls-cert FILE --tls-key FILE; \
                 or stay on this machine with --listen 127.0.0.1:{}",
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
            tls_source: tls,
            tls: None,
            names: if listen.ip().is_loopback() { Vec::new() } else { tls::names::of_this_machine() },
            supervised: std::env::var_os("INVOCATION_ID").is_some(),
        };
        Ok(Plan { config })
    }
}

fn listen(address: SocketAddr) -> Result<TcpListener, String> {
    TcpListener::bind(address).map_err(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => {
            format!("{address} is in use; stop what listens there, or choose another port with --listen")
        }
        _ => format!("cannot listen on {address}: {error}"),
    })
}

/// Serves until SIGTERM or SIGINT.
pub(super) async fn run(Plan { mut config }: Plan) -> Outcome {
    // The port first: when it is taken, nothing has been touched.
    let listener = listen(config.listen)?;
    config.listen = listener.local_addr().map_err(|error| error.to_string())?;
    config.data_dir = folder::prepare(&config.data_dir)?;
    config.tls = config.tls_source.clone().map(|source| open_certificate(source, &config)).transpose()?;
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
    tokio::spawn(look_after_certificate(app.clone()));
    // Before anyone hears that it is ready: whoever stops it from then on gets an orderly end.
    let asked_to_stop = stop_signals();
    announce::ready(&app).await?;
    let served = serve(&app, listener, asked_to_stop).await;
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

fn open_certificate(source: tls::Source, config: &Config) -> Result<Tls, String> {
    let mut names = tls::names::of_this_machine();
    let listened = config.listen.ip();
    let public = config.public_url.as_deref().and_then(|url| url.split("://").nth(1));
    let public = public.map(|rest| rest.split(['/', ':']).next().unwrap_or_default().to_owned());
    let more = [(!listened.is_unspecified()).then(|| listened.to_string()), public];
    let more: Vec<String> = more.into_iter().flatten().filter(|name| !name.is_empty()).collect();
    names.extend(more.into_iter().filter(|name| !names.contains(name)).collect::<Vec<_>>());
    let tls = Tls::open(source, &config.data_dir, names, SystemClock.now());
    tls.map_err(|error| error.to_string())
}

/// Reads the certificate again on SIGHUP and twice a day, and renews one of our own that ends soon.
async fn look_after_certificate(app: App) {
    use tokio::signal::unix::{SignalKind, signal};
    if app.config.tls.is_none() {
        // Without a handler a server that was started by hand ends with its terminal.
        return;
    }
    let Ok(mut asked) = signal(SignalKind::hangup()) else { return };
    loop {
        tokio::select! {
            _ = asked.recv() => {}
            () = tokio::time::sleep(CERTIFICATE_LOOK) => {}
            () = app.stopped() => return,
        }
        let Some(tls) = app.config.tls.clone() else { continue };
        let now = app.clock.now();
        match tokio::task::spawn_blocking(move || tls.refresh(now).map(|is_new| is_new.then(|| tls.pair())))
            .await
        {
            Ok(Ok(Some(pair))) => {
                tracing::info!(sha256 = %pair.fingerprint(), "another certificate is in use")
            }
            Ok(Ok(None)) => {}
            Ok(Err(error)) => tracing::error!(%error, "the certificate in use stays"),
            Err(error) => tracing::error!(%error, "the certificate was not looked at"),
        }
    }
}

/// Takes SIGTERM and SIGINT from now on; the future ends when one of them comes.
fn stop_signals() -> impl Future<Output = ()> + Send + 'static {
    use tokio::signal::unix::{SignalKind, signal};
    let (term, int) = (signal(SignalKind::terminate()), signal(SignalKind::interrupt()));
    async move {
        match (term, int) {
            (Ok(mut term), Ok(mut int)) => tokio::select! { _ = term.recv() => {}, _ = int.recv() => {} },
            _ => std::future::pending().await,
        }
    }
}

async fn serve(
    app: &App,
    listener: TcpListener,
    asked_to_stop: impl Future<Output = ()> + Send + 'static,
) -> Result<(), String> {
    let stop = app.clone();
    let graceful = async move {
        asked_to_stop.await;
        tracing::info!("stopping");
        stop.stopping.send_replace(true);
    };
    crate::listen::serve(app, listener, graceful).await
}
