//! `token` and `user`: they write `console.db` before the first start and while the server runs.
use super::{DataArgs, Outcome, folder, role};
use crate::db::users::Role;
use crate::edge::{Clock, SystemClock, SystemRng};
use crate::error::AppError;
use crate::service::auth::{self, Passwords};
use clap::{Args, Subcommand};
use sqlx::SqlitePool;
use std::io::Read;
use std::path::Path;
use std::process::ExitCode;

#[derive(Subcommand)]
pub(super) enum TokenCommand {
    /// Print a new API token, alone, on stdout
    Create {
        #[command(flatten)]
        data: DataArgs,
        /// Name, to recognise it in the audit log
        #[arg(long)]
        name: String,
        /// viewer, operator or admin
        #[arg(long, value_parser = role)]
        role: Role,
    },
}

#[derive(Subcommand)]
pub(super) enum UserCommand {
    /// Add a console user
    Add(UserArgs),
    /// Set a new password (and role); all sessions of the user end
    Reset(UserArgs),
}

#[derive(Args)]
pub(super) struct UserArgs {
    #[command(flatten)]
    data: DataArgs,
    /// User name
    #[arg(long)]
    name: String,
    /// viewer, operator or admin
    #[arg(long, value_parser = role)]
    role: Option<Role>,
    /// Read the password from stdin (its first line)
    #[arg(long, required = true)]
    password_stdin: bool,
}

pub(super) async fn open(data: &Path) -> Result<SqlitePool, String> {
    let folder = folder::prepare(data)?;
    crate::db::open_console_for_command(&folder.join("console.db")).await.map_err(|error| error.to_string())
}

pub(super) async fn token(TokenCommand::Create { data, name, role }: TokenCommand) -> Outcome {
    let console = open(&data.data).await?;
    let secret = auth::create_token(&console, &SystemRng, SystemClock.now(), &name, role).await;
    let secret = secret.map_err(|error| sentence(&error))?;
    console.close().await;
    println!("{secret}");
    Ok(ExitCode::SUCCESS)
}

pub(super) async fn user(command: UserCommand) -> Outcome {
    let password = first_line_of_stdin()?;
    let passwords = Passwords::new();
    match command {
        UserCommand::Add(args) => {
            let console = open(&args.data.data).await?;
            let role = args.role.unwrap_or(Role::Viewer);
            let added =
                auth::add_user(&console, &passwords, SystemClock.now(), &args.name, role, &password).await;
            added.map_err(|error| sentence(&error))?;
            console.close().await;
        }
        UserCommand::Reset(args) => {
            let console = open(&args.data.data).await?;
            let now = SystemClock.now();
            let reset = auth::rescue_user(&console, &passwords, now, &args.name, args.role, &password).await;
            reset.map_err(|error| sentence(&error))?;
            console.close().await;
        }
    }
    Ok(ExitCode::SUCCESS)
}

fn first_line_of_stdin() -> Result<String, String> {
    let mut text = String::new();
    let read = std::io::stdin().take(4096).read_to_string(&mut text);
    read.map_err(|error| format!("cannot read the password from stdin: {error}"))?;
    Ok(text.lines().next().unwrap_or_default().to_owned())
}

/// At the terminal the cause may be seen.
pub(super) fn sentence(error: &AppError) -> String {
    match error {
        AppError::Internal(_) => error.cause_chain(),
        other => other.to_string(),
    }
}
