//! This machine's disks, or a recorded machine's, looked at and never written to.
//!
//! A look reads every disk and asks each about its health, which takes seconds on a busy machine: whoever asks gets the
//! latest one at once, and an old one is renewed behind it; only the first is waited for, and the first after something was
//! claimed. When a look fails, the last good one stays and the problem is told: an empty list never stands for an answer not
//! understood. What a claim saw of a disk is taken from here, and compared with the disk itself before it is written.
use crate::app::{App, Cluster};
use ::inventory::disk::{Class, Disk, Identity};
use ::inventory::smart::Health;
use ::inventory::source::{Machine, Recorded, Source};
use ::inventory::{Inventory, InventoryError, Options, survey};
use model::ids::TaskId;
use model::plan::Review;
use model::state::TaskState;
use model::units::Timestamp;
use model::view::Snapshot;
use std::collections::BTreeMap;
use std::error::Error;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use tokio::sync::Mutex;

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
    /// Rises when what was seen is no longer so: a look that began before is not kept.
    expired: u64,
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

    /// Whether the disks are here: those of a recorded machine cannot be claimed.
    pub fn is_this_machine(&self) -> bool {
        self.inventory.as_ref().is_some_and(|inventory| inventory.is_this_machine)
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
        let began = latest.expired;
        latest.keep(looked, now, began);
    } else if !latest.at.is_some_and(is_good) && !latest.renews {
        latest.renews = true;
        let (app, began) = (app.clone(), latest.expired);
        tokio::spawn(async move {
            let looked = survey_aside(&app).await;
            app.looks.0.lock().await.keep(looked, now, began);
        });
    }
    latest.seen.clone()
}

/// What was seen is no longer so: the next look is waited for.
pub async fn expire(app: &App) {
    let mut latest = app.looks.0.lock().await;
    latest.expired += 1;
    latest.at = None;
}

/// Expires the looks when a task has ended that opens or writes disks.
pub fn expire_after(app: &App, cluster: &Cluster, task: TaskId) {
    let Ok(cluster) = app.cluster(Some(&cluster.key)) else { return };
    let app = app.clone();
    tokio::spawn(async move {
        let mut projected = cluster.projected.subscribe();
        let has_ended = |snapshot: &Arc<Snapshot>| {
            snapshot.tasks.iter().any(|view| view.id == task && view.state != TaskState::Running)
        };
        // An error: the server stops.
        let _ = projected.wait_for(has_ended).await;
        expire(&app).await;
    });
}

impl Latest {
    fn keep(&mut self, looked: Result<Inventory, String>, at: Timestamp, began: u64) {
        self.renews = false;
        if began != self.expired {
            return;
        }
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
        self.at = Some(at);
    }
}

/// A look, on a thread that may wait for disks.
async fn survey_aside(app: &App) -> Result<Inventory, String> {
    let folder = app.config.inventory_dir.clone();
    let options = Options { loop_devices: app.config.allows_loop_devices };
    match tokio::task::spawn_blocking(move || survey_of(folder.as_deref(), options)).await {
        Ok(looked) => looked.map_err(|error| sentence(&error)),
        Err(error) => Err(format!("looking at the disks broke off: {error}")),
    }
}

fn survey_of(folder: Option<&Path>, options: Options) -> Result<Inventory, InventoryError> {
    let source: Box<dyn Source> = match folder {
        Some(folder) => Box::new(Recorded::open(folder)?),
        None => Box::new(Machine::default()),
    };
    survey(source.as_ref(), options)
}

/// What the devices of this machine are known by now, by path: asked right before they are written.
pub fn identities_now() -> BTreeMap<PathBuf, String> {
    match ::inventory::identities(&Machine::default()) {
        Ok(known) => known.into_iter().map(|(path, identity)| (path.into(), identity.key())).collect(),
        Err(error) => {
            tracing::warn!(problem = sentence(&error), "disks cannot be identified");
            BTreeMap::new()
        }
    }
}

/// What the person sees of a device when it is claimed.
pub fn review(disk: &Disk) -> Review {
    Review {
        identity: disk.identity.key(),
        contents: disk.contents.summary(),
        fingerprint: disk.fingerprint.clone().unwrap_or_default(),
    }
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

/// Why a disk of a recorded machine cannot be claimed by this process, whatever its verdict is; `None` for this machine's.
pub fn why_not(app: &App, path: &str) -> Option<String> {
    let folder = app.config.inventory_dir.as_ref()?;
    Some(format!(
        "{path} is a disk of the recorded machine in {}; claim it where it is, with Millpond running there",
        folder.display()
    ))
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
