//! Opening disks and reading their labels.
//!
//! A [`DiskSource`] is where disks come from: files and devices of this machine, or simulated ones. [`look`] opens every path
//! exclusively, reads labels and configuration slots, writes nothing, and says of each path that it cannot use why.
use super::assemble::SeenDisk;
use super::find::{self, Candidate, Peek};
use crate::cap::label::{Label, LabelError, scan};
use crate::io::{Disk, OpenError, OpenOptions, Ring, open_file};
use model::ids::DiskId;
use model::state::Media;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::path::{Path, PathBuf};
use std::rc::Rc;
use std::time::Duration;

/// How long a look at a disk that may have failed is waited for: three spin-ups of a rotating disk.
const PEEK_WAIT: Duration = Duration::from_secs(30);

/// Where disks come from.
#[allow(async_fn_in_trait, reason = "called on the engine thread only, where no future is sent")]
pub trait DiskSource {
    /// Opens the disk at `path` exclusively, waiting for another holder up to `lock_wait`.
    ///
    /// # Errors
    /// As `io::open_file`; nothing was changed.
    async fn open(&self, path: &Path, writable: bool, lock_wait: Duration) -> Result<Disk, OpenError>;

    /// Devices that may carry a disk. Cheap: none is opened.
    fn candidates(&self) -> Vec<Candidate>;

    /// Looks at the superblocks at `path`, which may be in use, and changes nothing.
    async fn peek(&self, path: &Path) -> Peek;

    /// Whether the medium at `path` takes writes, as far as can be known without one.
    fn is_writable(&self, _path: &Path) -> bool {
        true
    }
}

/// Files and block devices of this machine.
#[derive(Clone)]
pub struct MachineSource {
    ring: Ring,
    /// Places that did not answer a look yet: they are not looked at again meanwhile, since each look takes a thread.
    hanging: Rc<RefCell<BTreeSet<PathBuf>>>,
}

impl MachineSource {
    /// Disks through this ring.
    pub fn new(ring: Ring) -> Self {
        Self { ring, hanging: Rc::default() }
    }
}

impl DiskSource for MachineSource {
    async fn open(&self, path: &Path, writable: bool, lock_wait: Duration) -> Result<Disk, OpenError> {
        // The superblock knows the media of a formatted disk; before that the inventory says it.
        let options = OpenOptions { writable, lock_wait, media: Media::Flash };
        open_file(&self.ring, path, options).await
    }

    fn candidates(&self) -> Vec<Candidate> {
        find::candidates(Path::new("/sys"))
    }

    async fn peek(&self, path: &Path) -> Peek {
        if self.hanging.borrow().contains(path) {
            return Peek::Unreadable;
        }
        let place = path.to_owned();
        let mut looked = tokio::task::spawn_blocking(move || find::peek(&place));
        match tokio::time::timeout(PEEK_WAIT, &mut looked).await {
            Ok(found) => found.unwrap_or(Peek::Unreadable),
            Err(_) => {
                let (hanging, path) = (self.hanging.clone(), path.to_owned());
                hanging.borrow_mut().insert(path.clone());
                tokio::task::spawn_local(async move {
                    let _ = looked.await;
                    hanging.borrow_mut().remove(&path);
                });
                Peek::Unreadable
            }
        }
    }

    fn is_writable(&self, path: &Path) -> bool {
        let protected = || {
            let stat = rustix::fs::stat(path).ok()?;
            let (major, minor) = (rustix::fs::major(stat.st_rdev), rustix::fs::minor(stat.st_rdev));
            std::fs::read_to_string(format!("/sys/dev/block/{major}:{minor}/ro")).ok()
        };
        rustix::fs::access(path, rustix::fs::Access::WRITE_OK).is_ok()
            && protected().is_none_or(|flag| flag.trim() != "1")
    }
}

/// Disks that are open already, each read through and written in memory: a cluster is opened on them without a byte written.
pub struct ScratchDisks(BTreeMap<PathBuf, Disk>);

impl ScratchDisks {
    /// Over the disks of a look.
    pub fn over(disks: &BTreeMap<PathBuf, Disk>) -> Self {
        Self(disks.iter().map(|(path, disk)| (path.clone(), disk.clone().scratch())).collect())
    }
}

impl DiskSource for ScratchDisks {
    async fn open(&self, path: &Path, _writable: bool, _lock_wait: Duration) -> Result<Disk, OpenError> {
        self.0.get(path).cloned().ok_or_else(|| OpenError::Open {
            path: path.to_owned(),
            source: std::io::Error::from(std::io::ErrorKind::NotFound),
        })
    }

    fn candidates(&self) -> Vec<Candidate> {
        Vec::new()
    }

    async fn peek(&self, path: &Path) -> Peek {
        // They were found already: each is opened where it is.
        if self.0.contains_key(path) { Peek::Unreadable } else { Peek::NotThere }
    }
}

/// Why a path is not used.
#[derive(Debug, thiserror::Error)]
pub enum PathError {
    /// It cannot be opened, or somebody else uses it.
    #[error("{}", opening(.0))]
    Open(OpenError),
    /// A newer version wrote it.
    #[error(
        "{} was written by a newer version of Millpond ({error}); use that version, or leave it out if it belongs to another cluster",
        path.display()
    )]
    Newer {
        /// Which.
        path: PathBuf,
        /// What is not known: the format, or the feature bits.
        error: crate::fmt::FmtError,
    },
    /// It has no label that can be read.
    #[error("{}: {}", path.display(), super::offline::sentence(error))]
    Label {
        /// Which.
        path: PathBuf,
        /// Why.
        error: LabelError,
    },
}

/// Why a disk cannot be opened, with what helps.
fn opening(error: &OpenError) -> String {
    let told = super::offline::sentence(error);
    match error {
        OpenError::Open { source, .. } if source.kind() == std::io::ErrorKind::PermissionDenied => {
            format!("{told}; run this as root, or as a user of the group that the disk belongs to")
        }
        OpenError::InUse { .. } => format!("{told}; stop that first"),
        _ => told,
    }
}

impl PathError {
    /// Whether another process holds the disk.
    pub fn in_use(&self) -> bool {
        matches!(self, Self::Open(OpenError::InUse { .. }))
    }

    /// Whether the path may well be a part of the cluster, so that nothing is opened for writing without it.
    pub fn forbids_writing(&self) -> bool {
        self.in_use() || matches!(self, Self::Newer { .. })
    }
}

/// What [`look`] found.
#[derive(Default)]
pub struct Looked {
    /// Every disk with a label, as `assemble` wants it. The same disk may be there twice.
    pub seen: Vec<SeenDisk>,
    /// The open disks, by path.
    pub disks: BTreeMap<PathBuf, Disk>,
    /// Paths that cannot be used.
    pub refused: Vec<(PathBuf, PathError)>,
}

impl Looked {
    /// The open disk that carries `id`, if it was seen once.
    pub fn disk(&self, id: DiskId) -> Option<&Disk> {
        let mut found = self.seen.iter().filter(|disk| disk.superblock.disk == id);
        match (found.next(), found.next()) {
            (Some(disk), None) => self.disks.get(&disk.path),
            _ => None,
        }
    }
}

/// Opens `paths` and reads their labels; nothing is written. Waiting for a lock counts for all of them together.
pub async fn look(
    source: &impl DiskSource,
    paths: &[PathBuf],
    writable: bool,
    lock_wait: Duration,
) -> Looked {
    let mut looked = Looked::default();
    let deadline = tokio::time::Instant::now() + lock_wait;
    for path in paths {
        let wait = deadline.saturating_duration_since(tokio::time::Instant::now());
        let disk = match source.open(path, writable, wait).await {
            Ok(disk) => disk,
            Err(error) => {
                looked.refused.push((path.clone(), PathError::Open(error)));
                continue;
            }
        };
        match label_of(&disk).await {
            Ok((superblock, configs)) => {
                let writable = source.is_writable(path);
                looked.seen.push(SeenDisk { path: path.clone(), superblock, configs, writable });
                looked.disks.insert(path.clone(), disk);
            }
            Err(LabelError::Newer(error)) => {
                looked.refused.push((path.clone(), PathError::Newer { path: path.clone(), error }));
            }
            Err(error) => looked.refused.push((path.clone(), PathError::Label { path: path.clone(), error })),
        }
    }
    looked
}

async fn label_of(
    disk: &Disk,
) -> Result<(crate::fmt::superblock::Superblock, Vec<crate::fmt::slot::ConfigSlot>), LabelError> {
    let found = scan(disk).await?;
    let superblock = found.superblock.clone();
    let config = Label::read_only(disk.clone(), found).load_config().await?;
    Ok((superblock, config.into_iter().collect()))
}
