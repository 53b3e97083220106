//! The commands of `millpond`. Each failure is one sentence on stderr that says what to do; nothing is touched before the
//! arguments have been understood.
use crate::db::users::Role;
use clap::{Args, Parser, Subcommand};
use std::path::PathBuf;
use std::process::ExitCode;
use tracing_subscriber::filter::{LevelFilter, Targets};
use tracing_subscriber::layer::SubscriberExt;
use tracing_subscriber::util::SubscriberInitExt;

mod announce;
mod folder;
mod licence;
mod offline;
mod people;
mod serve;
mod service;

/// A storage cluster with a browser console.
#[derive(Parser)]
#[command(name = "millpond", version, args_conflicts_with_subcommands = true)]
struct Cli {
    #[command(subcommand)]
    command: Option<Command>,
    #[command(flatten)]
    serve: serve::ServeArgs,
}

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant, reason = "made once")]
enum Command {
    /// Run console, API, engine and NBD (the default)
    Serve(serve::ServeArgs),
    /// Run the engine and NBD alone (a later release)
    Engine(DataArgs),
    /// Show a recording, read-only (a later release)
    Open(offline::OpenArgs),
    /// API tokens
    #[command(subcommand)]
    Token(people::TokenCommand),
    /// Console users
    #[command(subcommand)]
    User(people::UserCommand),
    /// Verify every structure of a stopped cluster, and with --deep every byte
    Check(offline::CheckArgs),
    /// Find a cluster on disks and make a new folder serve it
    Import(offline::ImportArgs),
    /// Print the on-disk structures of one disk as JSON
    Dump(offline::DumpArgs),
    /// Serve from the start of the machine on: a systemd service
    #[command(subcommand)]
    Service(service::ServiceCommand),
    /// Make and print signed licence keys
    #[command(subcommand)]
    Licence(licence::LicenceCommand),
}

/// `--data DIR`.
#[derive(Args)]
pub(crate) struct DataArgs {
    /// Data folder
    #[arg(long, value_name = "DIR", default_value = "./millpond-data")]
    data: PathBuf,
}

/// `--role` as clap reads it.
fn role(text: &str) -> Result<Role, String> {
    text.parse()
}

/// What a command ends with.
type Outcome = Result<ExitCode, String>;

/// Runs `future` on a runtime of its own.
fn block_on(future: impl Future<Output = Outcome>) -> Outcome {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build();
    runtime.map_err(|error| format!("cannot start: {error}"))?.block_on(future)
}

fn start_log() {
    let asked = std::env::var("MILLPOND_LOG").ok().and_then(|text| text.parse::<Targets>().ok());
    let filter = asked.unwrap_or_else(|| {
        Targets::new().with_default(LevelFilter::INFO).with_target("sqlx", LevelFilter::WARN)
    });
    let colours = std::io::IsTerminal::is_terminal(&std::io::stderr());
    let lines = tracing_subscriber::fmt::layer().with_ansi(colours).with_writer(std::io::stderr);
    // A second start of the log in one process is a test's; the first one stays.
    let _ = tracing_subscriber::registry().with(filter).with(lines).try_init();
}

/// Runs the command line.
pub fn main() -> ExitCode {
    let cli = Cli::parse();
    let command = cli.command.unwrap_or(Command::Serve(cli.serve));
    let failed_with = if matches!(command, Command::Check(_)) { 2 } else { 1 };
    let outcome = match command {
        Command::Serve(args) => {
            start_log();
            args.understand().and_then(|plan| block_on(serve::run(plan)))
        }
        Command::Engine(args) => Err(format!(
            "the engine alone comes with a later release; run `millpond serve --data {}`",
            args.data.display()
        )),
        Command::Open(args) => offline::open(&args),
        Command::Token(command) => block_on(people::token(command)),
        Command::User(command) => block_on(people::user(command)),
        Command::Check(args) => offline::check(&args),
        Command::Import(args) => offline::import(&args),
        Command::Dump(args) => offline::dump(&args),
        Command::Service(command) => service::run(command),
        Command::Licence(command) => block_on(licence::run(command)),
    };
    outcome.unwrap_or_else(|sentence| {
        eprintln!("millpond: {sentence}");
        ExitCode::from(failed_with)
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use clap::CommandFactory;

    #[test]
    fn the_command_line_is_consistent() {
        Cli::command().debug_assert();
    }

    fn serve(args: &[&str]) -> Result<serve::Plan, String> {
        let cli = Cli::try_parse_from([&["millpond"], args].concat()).map_err(|error| error.to_string())?;
        match cli.command {
            None => cli.serve.understand(),
            Some(Command::Serve(args)) => args.understand(),
            Some(_) => Err("another command".into()),
        }
    }

    #[test]
    fn serve_is_the_default_and_its_options_are_those_of_the_contract() {
        let plan = serve(&[]).unwrap();
        assert_eq!(plan.config.listen, "127.0.0.1:7400".parse().unwrap());
        assert!(plan.config.data_dir.ends_with("millpond-data"));
        let folder = tempfile::tempdir().unwrap();
        let data = folder.path().to_str().unwrap();
        let lab = "hosts=4,cache=1x256MiB,capacity=2x1GiB";
        let plan =
            serve(&["serve", "--data", data, "--listen", "127.0.0.1:0", "--lab", lab, "--repair-delay", "5"])
                .unwrap();
        assert_eq!(plan.config.lab.unwrap().hosts, 4);
        assert_eq!(plan.config.repair_delay_seconds, Some(5));
    }

    #[test]
    fn wrong_starts_say_what_to_do() {
        for (args, word) in [
            (vec!["--listen", "0.0.0.0:7400"], "TLS"),
            (vec!["--listen", "[::]:7400"], "TLS"),
            (vec!["--listen", "7400"], "--listen"),
            (vec!["--lab", "hosts=four"], "hosts"),
            (vec!["--lab", "hosts=64,cache=0,capacity=35x1000TiB"], "free"),
            (vec!["--ceph-conf", "/etc/ceph/ceph.conf"], "--ceph-conf"),
            (vec!["--nbd-listen", "127.0.0.1:10809"], "--nbd-listen"),
            (vec!["--tls-self-signed", "--tls-key", "/k"], "leave out"),
            (vec!["--tls-cert", "/no/such/cert.pem"], "--tls-key"),
            (vec!["--tls-key", "/no/such/key.pem"], "--tls-cert"),
            (vec!["--tls-cert", "/no/such/cert.pem", "--tls-key", "/no/such/key.pem"], "/no/such/cert.pem"),
            (vec!["--public-url", "mill.example"], "--public-url"),
            (vec!["--file-disks", "/no/such/folder"], "--file-disks"),
            (vec!["--colour"], "--colour"),
        ] {
            let error = serve(&args).err().unwrap_or_default();
            assert!(error.contains(word), "{args:?}: {error:?}");
        }
    }
}
