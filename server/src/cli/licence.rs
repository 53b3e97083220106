//! `licence issuer init`, `licence issue`, `licence show`.
//!
//! `issuer init` makes a key pair: the secret half goes into a file that only its owner reads, the public half is printed and,
//! with `--data`, stored as the issuer that this server trusts. `issue` signs terms with the secret half.
use super::{Outcome, people};
use crate::db::settings;
use crate::edge::{SystemRng, parse_rfc3339};
use crate::service::licence::{self, Terms};
use clap::Subcommand;
use std::io::Write;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Subcommand)]
pub(super) enum LicenceCommand {
    /// The key pair of who issues licences
    #[command(subcommand)]
    Issuer(IssuerCommand),
    /// Print a signed licence key
    Issue {
        /// File with the secret half, from `issuer init`
        #[arg(long, value_name = "FILE")]
        issuer: PathBuf,
        /// Who will hold it
        #[arg(long)]
        holder: String,
        /// Edition
        #[arg(long, default_value = "supported")]
        edition: String,
        /// A named extra (repeatable)
        #[arg(long = "feature")]
        features: Vec<String>,
        /// End, e.g. 2030-01-01T00:00:00Z; never without
        #[arg(long, value_name = "TIME")]
        expires_at: Option<String>,
    },
    /// Print what a key says, without verifying it
    Show {
        /// The key
        key: String,
    },
}

#[derive(Subcommand)]
pub(super) enum IssuerCommand {
    /// Make a key pair; never over an existing file
    Init {
        /// File for the secret half
        #[arg(long, value_name = "FILE")]
        issuer: PathBuf,
        /// Data folder of a server that shall trust this issuer
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
    },
    /// Print the public half, and with --data make that server trust it
    Show {
        /// File with the secret half
        #[arg(long, value_name = "FILE")]
        issuer: PathBuf,
        /// Data folder of a server that shall trust this issuer
        #[arg(long, value_name = "DIR")]
        data: Option<PathBuf>,
    },
}

pub(super) async fn run(command: LicenceCommand) -> Outcome {
    match command {
        LicenceCommand::Issuer(IssuerCommand::Init { issuer, data }) => {
            let secret = licence::new_issuer(&SystemRng);
            let file = std::fs::OpenOptions::new().write(true).create_new(true).mode(0o600).open(&issuer);
            let written = file.and_then(|mut file| {
                writeln!(file, "{secret}")?;
                file.sync_all()
            });
            written.map_err(|error| format!("cannot make {}: {error}", issuer.display()))?;
            trust(&secret, data).await
        }
        LicenceCommand::Issuer(IssuerCommand::Show { issuer, data }) => trust(&read(&issuer)?, data).await,
        LicenceCommand::Issue { issuer, holder, edition, features, expires_at } => {
            if let Some(end) = expires_at.as_deref().filter(|end| parse_rfc3339(end).is_none()) {
                return Err(format!("`{end}` is not a time as 2030-01-01T00:00:00Z"));
            }
            let terms = Terms { edition, holder, features, expires_at };
            let key = licence::issue(&read(&issuer)?, &terms);
            println!("{}", key.map_err(|_| format!("{} is not an issuer's secret half", issuer.display()))?);
            Ok(ExitCode::SUCCESS)
        }
        LicenceCommand::Show { key } => {
            let terms = licence::read(&key).map_err(|error| error.to_string())?;
            println!("{}", serde_json::to_string_pretty(&terms).map_err(|error| error.to_string())?);
            Ok(ExitCode::SUCCESS)
        }
    }
}

fn read(issuer: &PathBuf) -> Result<String, String> {
    std::fs::read_to_string(issuer).map_err(|error| format!("cannot read {}: {error}", issuer.display()))
}

async fn trust(secret: &str, data: Option<PathBuf>) -> Outcome {
    let public =
        licence::public_half(secret).map_err(|_| "this file is not an issuer's secret half".to_owned())?;
    if let Some(data) = data {
        let console = people::open(&data).await?;
        let put = settings::put(&console, licence::ISSUER_SETTING, &public).await;
        put.map_err(|error| error.to_string())?;
        console.close().await;
    }
    println!("{public}");
    Ok(ExitCode::SUCCESS)
}
