//! This machine's disks, or a recorded machine's, looked at and never written to. Block devices can be claimed in a later
//! release.
//!
//! A look reads every disk and asks each about its health, which takes seconds on a busy machine: whoever asks gets the
//! latest one at once, and an old one is renewed behind it; only the first is waited for. When a look fails, the last good
//! one stays and the problem is told: an empty list never stands for an answer not understood.
use crate::app::App;
use ::inventory::disk::{Class, Disk, Identity};
use ::inventory::smart::Health;
use ::inventory::source::{Machine, Recorded, Source};
use ::inventory::{Inventory, InventoryError, Options, survey};
use model::units::Timestamp;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Mutex;

/// Why no block device can be claimed yet.
pub const NOT_YET: &str = "block devices come with a later release; file disks and labs work now";
/// How long a look is good for, milliseconds.
const LOOK_GOOD_MS: i64 = 15_000;

/// The looks at the machine.
#[derive(Default)]
pub struct Looks(Mutex<Latest>);

#[derive(Default)]
struct Latest {
    at: Option<Timestamp>,
    seen: Seen,
    /// A new look is under way.
    renews: bool,
}

/// What is known of the machine's disks.
#[derive(Clone, Default)]
pub struct Seen {
    /// The last good look; `None` before the first.
    pub inventory: Option<Arc<Inventory>>,
    /// Why the latest look failed, in one sentence.
    pub problem: Option<String>,
}

impl Seen {
    /// The disks that are worth a row: all but empty slots for memory and loop devices.
    pub fn disks(&self) -> impl Iterator<Item = &Disk> {
        let all = self.inventory.iter().flat_map(|inventory| &inventory.disks);
        all.filter(|disk| {
            !matches!(disk.class, Class::Loop | Class::Memory)
                || disk.facts.size_bytes.is_some_and(|size| size > 0)
        })
    }
}

/// The latest look at the machine. Waits for the first one only.
pub async fn look(app: &App) -> Seen {
    let mut latest = app.looks.0.lock().await;
    let now = app.clock.now();
    // A clock that was set back must not freeze the list.
    let is_good = |at: Timestamp| (0..LOOK_GOOD_MS).contains(&(now.0 - at.0));
    if latest.at.is_none() {
        let looked = survey_aside(app).await;
        latest.keep(looked, now);
    } else if !latest.at.is_some_and(is_good) && !latest.renews {
        latest.renews = true;
        let app = app.clone();
        tokio::spawn(async move {
            let looked = survey_aside(&app).await;
            app.looks.0.lock().await.keep(looked, now);
        });
    }
    latest.seen.clone()
}

impl Latest {
    fn keep(&mut self, looked: Result<Inventory, String>, at: Timestamp) {
        match looked {
            Ok(inventory) => {
                inventory.notes.iter().for_each(|note| tracing::warn!(%note, "a disk cannot be shown"));
                self.seen = Seen { inventory: Some(Arc::new(inventory)), problem: None };
            }
            Err(problem) => {
                tracing::warn!(%problem, "this machine's disks cannot be listed");
                self.seen.problem = Some(problem);
            }
        }
        (self.at, self.renews) = (Some(at), false);
    }
}

/// A look, on a thread that may wait for disks.
async fn survey_aside(app: &App) -> Result<Inventory, String> {
    let folder = app.config.inventory_dir.clone();
    match tokio::task::spawn_blocking(move || survey_of(folder.as_deref())).await {
        Ok(looked) => looked.map_err(|error| sentence(&error)),
        Err(error) => Err(format!("looking at the disks broke off: {error}")),
    }
}

fn survey_of(folder: Option<&Path>) -> Result<Inventory, InventoryError> {
    let source: Box<dyn Source> = match folder {
        Some(folder) => Box::new(Recorded::open(folder)?),
        None => Box::new(Machine::default()),
    };
    survey(source.as_ref(), Options::default())
}

/// Whether a recorded machine can be looked at; for the command line.
///
/// # Errors
/// Why not, in one sentence.
pub fn check_folder(folder: &Path) -> Result<PathBuf, String> {
    let absolute = folder.canonicalize().map_err(|error| format!("{}: {error}", folder.display()))?;
    Recorded::open(&absolute).map(|_| absolute).map_err(|error| sentence(&error))
}

fn sentence(error: &dyn Error) -> String {
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(cause) = source {
        text.push_str(": ");
        text.push_str(&cause.to_string());
        source = cause.source();
    }
    text
}

/// Why a disk of the machine cannot be claimed by this process, whatever its verdict is.
pub fn why_not(app: &App, path: &str) -> String {
    match &app.config.inventory_dir {
        Some(folder) => format!(
            "{path} is a disk of the recorded machine in {}; claim it where it is, with Millpond running there",
            folder.display()
        ),
        None => format!("{path}: {NOT_YET}"),
    }
}

/// Health of a disk in one word, as the API gives it.
pub fn health_word(health: &Health) -> &'static str {
    match health {
        Health::Passed => "passed",
        Health::Failing => "failing",
        Health::Unknown => "unknown",
    }
}

/// What a disk is known by, in words.
pub fn known_by(identity: &Identity) -> &'static str {
    match identity {
        Identity::Wwn(_) => "world-wide name",
        Identity::Serial(_) => "serial number",
        Identity::Path(_) => "place in the machine",
        Identity::Name(_) => "name in the kernel",
    }
}
