//! `check`, `import`, `dump`, `open`: work on disks that no server uses.
use super::{DataArgs, Outcome, folder};
use crate::service::import;
use clap::Args;
use std::path::PathBuf;
use std::process::ExitCode;

#[derive(Args)]
pub(super) struct CheckArgs {
    /// Read and verify every byte of every copy
    #[arg(long)]
    deep: bool,
    #[command(flatten)]
    data: DataArgs,
}

#[derive(Args)]
pub(super) struct ImportArgs {
    /// New data folder
    #[arg(long, value_name = "NEWDIR", required_unless_present = "look")]
    data: Option<PathBuf>,
    /// Which cluster, by its id, when the disks hold several
    #[arg(long, value_name = "ID")]
    cluster: Option<uuid::Uuid>,
    /// Only say what is there and what would become of it
    #[arg(long)]
    look: bool,
    /// Disks, or folders of disks
    #[arg(required = true)]
    paths: Vec<PathBuf>,
}

#[derive(Args)]
pub(super) struct DumpArgs {
    /// The disk
    path: PathBuf,
}

#[derive(Args)]
pub(super) struct OpenArgs {
    /// A support bundle, an event log, a `ceph report`, or a folder of Ceph outputs
    path: PathBuf,
    /// Address to listen on
    #[arg(long, default_value = "127.0.0.1:7400")]
    listen: String,
}

/// Exit 0 clean, 1 findings; an error is 2 (set by the caller).
pub(super) fn check(args: &CheckArgs) -> Outcome {
    let data = folder::absolute(&args.data.data)?;
    if !data.is_dir() {
        return Err(format!("{} is not there; name the data folder with --data", data.display()));
    }
    let checked = crate::engines::check(&data, args.deep)?;
    checked.findings.iter().for_each(|finding| println!("{finding}"));
    let verdict = if checked.findings.is_empty() {
        "clean".into()
    } else {
        crate::service::format::plural(checked.findings.len() as u64, "finding")
    };
    println!("{}: {verdict}", checked.summary);
    Ok(ExitCode::from(u8::from(!checked.findings.is_empty())))
}

pub(super) fn import(args: &ImportArgs) -> Outcome {
    let Some(folder) = args.data.as_ref().filter(|_| !args.look) else { return look(&args.paths) };
    let fresh = !folder::absolute(folder)?.exists();
    let data = folder::prepare(folder)?;
    let imported = crate::engines::import(&data, &args.paths, args.cluster.map(model::ids::ClusterId));
    let (name, notes) = imported.inspect_err(|_| {
        if fresh {
            // Only the empty folder that was made just now.
            let _ = std::fs::remove_dir(&data);
        }
    })?;
    notes.iter().for_each(|note| eprintln!("millpond: {note}"));
    println!("cluster \"{name}\" can be served: millpond serve --data {}", data.display());
    Ok(ExitCode::SUCCESS)
}

/// Exit 0 when every cluster that was found can be imported, 1 otherwise.
fn look(paths: &[PathBuf]) -> Outcome {
    let scan = crate::engines::look(paths)?;
    let ready = !scan.clusters.is_empty() && scan.clusters.iter().all(|found| found.obstacles.is_empty());
    scan.clusters.iter().for_each(|found| print!("{}", import::described(found)));
    if scan.clusters.is_empty() {
        println!("no cluster of Millpond on these disks");
    }
    scan.refused.iter().for_each(|(_, why)| println!("not used: {why}"));
    Ok(ExitCode::from(u8::from(!ready)))
}

pub(super) fn dump(args: &DumpArgs) -> Outcome {
    let structures = crate::engines::dump(&args.path)?;
    println!("{}", serde_json::to_string_pretty(&structures).map_err(|error| error.to_string())?);
    Ok(ExitCode::SUCCESS)
}

pub(super) fn open(args: &OpenArgs) -> Outcome {
    let (path, listen) = (args.path.display(), &args.listen);
    Err(format!(
        "showing recordings ({path} on {listen}) comes with a later release; `millpond serve` has labs to look at"
    ))
}
