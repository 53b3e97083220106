//! `service print` and `service install`: the systemd unit that serves a data folder with these options.
//!
//! Invariants: what is written is shown first; nothing is written without root, without systemd, or over a unit that is not ours; a server
//! that runs now is left alone.
use super::serve::ServeArgs;
use super::{Outcome, folder};
use crate::service::unit::{UnitPlan, for_shell, owner};
use clap::{Args, Subcommand};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Command, ExitCode};

/// Where units of the administrator lie.
const UNITS: &str = "/etc/systemd/system";
/// Is there while systemd runs the machine.
const RUNS: &str = "/run/systemd/system";
/// Every unit of ours begins its description with it.
const OURS: &str = "Description=Millpond storage cluster";

#[derive(Subcommand)]
#[allow(clippy::large_enum_variant, reason = "made once")]
pub(super) enum ServiceCommand {
    /// Print the unit, with the options of `serve`
    Print(ServeArgs),
    /// Show the unit, write it after a question, and enable it
    Install(InstallArgs),
}

#[derive(Args)]
pub(super) struct InstallArgs {
    /// Name of the service
    #[arg(long, default_value = "millpond", value_name = "NAME")]
    name: String,
    /// Do not ask
    #[arg(long)]
    yes: bool,
    #[command(flatten)]
    serve: ServeArgs,
}

pub(super) fn run(command: ServiceCommand) -> Outcome {
    match command {
        ServiceCommand::Print(serve) => {
            print!("{}", unit(serve)?.text());
            Ok(ExitCode::SUCCESS)
        }
        ServiceCommand::Install(args) => install(args),
    }
}

/// The unit for these options. Nothing is touched, also no certificate is made.
fn unit(serve: ServeArgs) -> Result<UnitPlan, String> {
    let plan = serve.understand()?;
    let program =
        std::env::current_exe().map_err(|error| format!("this program cannot be found: {error}"))?;
    let folder = &plan.config.data_dir;
    let user = owner(folder).map_err(|error| format!("{}: {error}", folder.display()))?;
    Ok(UnitPlan::new(&plan.config, program, user))
}

fn install(args: InstallArgs) -> Outcome {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    if args.name.is_empty() || !args.name.bytes().all(plain) || args.name.starts_with(['-', '.']) {
        return Err(format!(
            "--name takes letters, digits, dots, dashes and underscores; `{}` is not one",
            args.name
        ));
    }
    let unit = unit(args.serve)?;
    let (text, path) = (unit.text(), PathBuf::from(UNITS).join(format!("{}.service", args.name)));
    check_machine(&path)?;
    println!("{} will be written:\n\n{text}", path.display());
    if !args.yes && !confirmed()? {
        return Err("nothing was written".into());
    }
    // A unit may only write to folders that are there.
    if !unit.data_dir.exists() {
        folder::prepare(&unit.data_dir)?;
    }
    std::fs::write(&path, &text).map_err(|error| format!("cannot write {}: {error}", path.display()))?;
    for arguments in [&["daemon-reload"][..], &["enable", &args.name]] {
        let done = Command::new("systemctl").args(arguments).status();
        if !done.is_ok_and(|status| status.success()) {
            let failed = arguments.join(" ");
            return Err(format!(
                "{} is written, but `systemctl {failed}` failed; run it again",
                path.display()
            ));
        }
    }
    println!(
        "{} is written and enabled. Stop the server that runs on {} now, if there is one, then: systemctl start {}",
        path.display(),
        for_shell(&unit.data_dir.display().to_string()),
        args.name
    );
    Ok(ExitCode::SUCCESS)
}

/// Whether this machine and this person can have a service of that name.
fn check_machine(path: &Path) -> Result<(), String> {
    if !Path::new(RUNS).is_dir() {
        return Err("systemd does not run this machine; `millpond service print` prints the unit for one that it runs".into());
    }
    if !rustix::process::geteuid().is_root() {
        return Err("a service is installed by root; run this with sudo, or write what `millpond service print` prints yourself".into());
    }
    match std::fs::read_to_string(path) {
        Ok(text) if !text.contains(OURS) => {
            Err(format!("{} is another program's; choose another name with --name", path.display()))
        }
        _ => Ok(()),
    }
}

fn confirmed() -> Result<bool, String> {
    print!("Write it? [y/N] ");
    let flushed = std::io::stdout().flush();
    let mut answer = String::new();
    let read = flushed.and_then(|()| std::io::stdin().read_line(&mut answer));
    read.map_err(|error| format!("cannot ask: {error}; add --yes to write it without a question"))?;
    Ok(matches!(answer.trim(), "y" | "Y" | "yes"))
}
