//! Where facts come from: this machine, or a folder in which somebody recorded theirs.
//!
//! Invariants: nothing is ever written; every read is bounded; from a recorded folder nothing outside of it is read,
//! whatever links it contains. Commands run in the C locale, without a shell, and end after ten seconds.
use crate::lsblk;
use serde_json::Value;
use std::collections::BTreeMap;
use std::fs::File;
use std::io::{self, Read};
use std::os::unix::fs::{FileExt, OpenOptionsExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// Bytes of one attribute file at most.
const ATTRIBUTE_BYTES_MAX: u64 = 64 << 10;
/// Bytes of one JSON file at most: a listing of some ten thousand devices.
const JSON_BYTES_MAX: u64 = 64 << 20;
/// Seconds that a command may take: a disk that hangs must not hang the page.
const COMMAND_SECONDS_MAX: &str = "10";

/// Why the facts cannot be read at all.
#[derive(Debug, thiserror::Error)]
pub enum SourceError {
    /// `lsblk` is there, but failed; what it said.
    #[error("lsblk failed: {0}")]
    Lsblk(String),
    /// The folder is not there.
    #[error("the recorded folder {} cannot be read", .path.display())]
    Folder {
        /// The folder.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// What happened when a device was opened to look at its contents.
pub enum Access {
    /// It can be read.
    Open {
        /// The device, opened for reading.
        file: File,
        /// Somebody else holds it exclusively: the kernel refused `O_EXCL`.
        held: bool,
    },
    /// This user may not.
    Denied,
    /// It cannot be opened, for this reason.
    Failed(String),
    /// A recorded machine has facts, but no contents.
    NotHere,
}

/// A machine, as far as its disks go.
pub trait Source {
    /// What `lsblk` prints; `None` when there is no `lsblk`.
    ///
    /// # Errors
    /// [`SourceError`]
    fn lsblk(&self) -> Result<Option<Vec<u8>>, SourceError>;
    /// What `smartctl` says about these kernel names, by name; what it says about nothing is left out.
    fn smartctl(&self, names: &[String]) -> BTreeMap<String, Vec<u8>>;
    /// The stable path name of each kernel name (`/dev/disk/by-path`).
    fn by_path(&self) -> BTreeMap<String, String>;
    /// The stable identity link of each kernel name (`/dev/disk/by-id/…`, absolute).
    fn by_id(&self) -> BTreeMap<String, String>;
    /// The files of `/sys`, `/proc` and `/run`.
    fn tree(&self) -> &Tree;
    /// Opens a device to look at its contents.
    fn open(&self, path: &str) -> Access;
    /// Whether the disks are here: only then can they be claimed.
    fn is_this_machine(&self) -> bool;
}

/// A folder that is read like `/`: `sys/block/sda/size`.
#[derive(Clone, Debug)]
pub struct Tree {
    root: PathBuf,
}

impl Tree {
    /// The tree below `root`.
    pub fn new(root: &Path) -> Self {
        Self { root: root.canonicalize().unwrap_or_else(|_| root.to_owned()) }
    }

    /// The real path of `path`, when it lies inside.
    fn inside(&self, path: &str) -> Option<PathBuf> {
        let real = self.root.join(path).canonicalize().ok()?;
        real.starts_with(&self.root).then_some(real)
    }

    fn bytes(&self, path: &str, max: u64) -> Option<Vec<u8>> {
        let path = self.inside(path)?;
        // A pipe or a device in the folder must not hold the program up.
        if !path.metadata().ok()?.is_file() {
            return None;
        }
        let mut bytes = Vec::new();
        File::open(path).ok()?.take(max).read_to_end(&mut bytes).ok()?;
        Some(bytes)
    }

    /// The text of a file without blanks around it; `None` when it is missing, unreadable or empty.
    pub fn text(&self, path: &str) -> Option<String> {
        let bytes = self.bytes(path, ATTRIBUTE_BYTES_MAX)?;
        let text = String::from_utf8_lossy(&bytes).trim_matches(['\0', ' ', '\n', '\t', '\r']).to_owned();
        (!text.is_empty()).then_some(text)
    }

    /// A number in a file.
    pub fn number(&self, path: &str) -> Option<u64> {
        self.text(path)?.parse().ok()
    }

    /// Names in a folder, sorted.
    pub fn list(&self, path: &str) -> Vec<String> {
        let entries = self.inside(path).and_then(|path| path.read_dir().ok());
        let names = entries.into_iter().flatten().flatten();
        let mut names: Vec<String> =
            names.map(|entry| entry.file_name().to_string_lossy().into_owned()).collect();
        names.sort();
        names
    }

    /// Where `path` really lies, from the root on; a recorded link need not lead anywhere.
    pub fn real(&self, path: &str) -> Option<String> {
        let link = || std::fs::read_link(self.root.join(path)).ok();
        let real = match self.inside(path) {
            Some(real)
                if std::fs::symlink_metadata(self.root.join(path)).is_ok_and(|meta| meta.is_symlink()) =>
            {
                real
            }
            _ => link()?,
        };
        Some(real.strip_prefix(&self.root).unwrap_or(&real).to_string_lossy().into_owned())
    }
}

/// This machine.
#[derive(Clone, Debug)]
pub struct Machine {
    tree: Tree,
}

impl Default for Machine {
    fn default() -> Self {
        Self { tree: Tree { root: PathBuf::from("/") } }
    }
}

fn run(program: &str, arguments: &[&str]) -> io::Result<Output> {
    let mut command = Command::new("timeout");
    command.arg(COMMAND_SECONDS_MAX).arg(program).args(arguments).env("LC_ALL", "C").output()
}

/// `timeout` ends with these when the program is not there or cannot be run.
fn is_missing(output: &Output) -> bool {
    matches!(output.status.code(), Some(126 | 127))
}

/// Links of a folder in `/dev/disk`: kernel name to link name. Of several links of one device the first by name.
fn links(folder: &str) -> BTreeMap<String, String> {
    let mut links: Vec<(String, String)> = Vec::new();
    for entry in std::fs::read_dir(folder).into_iter().flatten().flatten() {
        let target = entry.path().canonicalize().ok();
        let device = target.and_then(|target| Some(target.file_name()?.to_string_lossy().into_owned()));
        if let Some(device) = device {
            links.push((device, entry.file_name().to_string_lossy().into_owned()));
        }
    }
    links.sort();
    links.dedup_by(|later, first| later.0 == first.0);
    links.into_iter().collect()
}

impl Source for Machine {
    fn lsblk(&self) -> Result<Option<Vec<u8>>, SourceError> {
        let list = |columns: &str| run("lsblk", &["--json", "--bytes", "--output", columns]);
        let failed = |error: io::Error| SourceError::Lsblk(error.to_string());
        let mut output = list(lsblk::COLUMNS).map_err(failed)?;
        if is_missing(&output) {
            return Ok(None);
        }
        if !output.status.success() {
            let older = lsblk::COLUMNS.replace("MOUNTPOINTS", "MOUNTPOINT").replace("PATH,", "");
            output = list(&older).map_err(failed)?;
        }
        if !output.status.success() && output.stdout.is_empty() {
            return Err(SourceError::Lsblk(String::from_utf8_lossy(&output.stderr).trim().to_owned()));
        }
        Ok(Some(output.stdout))
    }

    fn smartctl(&self, names: &[String]) -> BTreeMap<String, Vec<u8>> {
        let mut found = BTreeMap::new();
        for name in names {
            // A disk that sleeps is left asleep.
            let arguments = ["--json", "--all", "--nocheck=standby", &format!("/dev/{name}")];
            match run("smartctl", &arguments) {
                Ok(output) if is_missing(&output) => break,
                Ok(output) if !output.stdout.is_empty() => found.insert(name.clone(), output.stdout),
                _ => None,
            };
        }
        found
    }

    fn by_path(&self) -> BTreeMap<String, String> {
        links("/dev/disk/by-path")
    }

    fn by_id(&self) -> BTreeMap<String, String> {
        links("/dev/disk/by-id")
            .into_iter()
            .map(|(device, link)| (device, format!("/dev/disk/by-id/{link}")))
            .collect()
    }

    fn tree(&self) -> &Tree {
        &self.tree
    }

    fn open(&self, path: &str) -> Access {
        let open = |flags| std::fs::OpenOptions::new().read(true).custom_flags(flags).open(path);
        let plain = libc::O_CLOEXEC | libc::O_NONBLOCK;
        // Asked once and let go: only an exclusive open says whether a file system, an array or a pool holds the disk.
        let held =
            matches!(open(plain | libc::O_EXCL), Err(error) if error.raw_os_error() == Some(libc::EBUSY));
        match open(plain) {
            Ok(file) => Access::Open { file, held },
            Err(error) if error.kind() == io::ErrorKind::PermissionDenied => Access::Denied,
            Err(error) => Access::Failed(error.to_string()),
        }
    }

    fn is_this_machine(&self) -> bool {
        true
    }
}

/// A recorded machine: `lsblk.json`, `smartctl-NAME.json`, `by-path.json`, `by-id.json`, `sys/…`, `proc/…`, `run/…`, any
/// subset of them.
#[derive(Clone, Debug)]
pub struct Recorded {
    tree: Tree,
}

impl Recorded {
    /// The machine recorded in `folder`.
    ///
    /// # Errors
    /// [`SourceError::Folder`]
    pub fn open(folder: &Path) -> Result<Self, SourceError> {
        let wrong = |source| SourceError::Folder { path: folder.to_owned(), source };
        std::fs::read_dir(folder).map_err(wrong)?;
        Ok(Self { tree: Tree::new(folder) })
    }

    /// A JSON object of texts: device to link. The other way round is understood, too.
    fn links(&self, file: &str) -> BTreeMap<String, String> {
        let bytes = self.tree.bytes(file, JSON_BYTES_MAX).unwrap_or_default();
        let Ok(Value::Object(pairs)) = serde_json::from_slice(&bytes) else { return BTreeMap::new() };
        let pair = |(key, value): (String, Value)| {
            let value = value.as_str()?;
            let is_target = value.starts_with("../") || value.starts_with("/dev/") && !value.contains("by-");
            Some(match value.rsplit('/').next() {
                Some(device) if is_target => (device.to_owned(), key),
                _ => (key.rsplit('/').next().unwrap_or(&key).to_owned(), value.to_owned()),
            })
        };
        pairs.into_iter().filter_map(pair).collect()
    }
}

impl Source for Recorded {
    fn lsblk(&self) -> Result<Option<Vec<u8>>, SourceError> {
        Ok(self.tree.bytes("lsblk.json", JSON_BYTES_MAX))
    }

    fn smartctl(&self, _names: &[String]) -> BTreeMap<String, Vec<u8>> {
        let name = |file: &str| Some(file.strip_prefix("smartctl-")?.strip_suffix(".json")?.to_owned());
        let files = self.tree.list("");
        let read = |file: String| Some((name(&file)?, self.tree.bytes(&file, JSON_BYTES_MAX)?));
        files.into_iter().filter_map(read).collect()
    }

    fn by_path(&self) -> BTreeMap<String, String> {
        self.links("by-path.json")
    }

    fn by_id(&self) -> BTreeMap<String, String> {
        self.links("by-id.json")
    }

    fn tree(&self) -> &Tree {
        &self.tree
    }

    fn open(&self, _path: &str) -> Access {
        Access::NotHere
    }

    fn is_this_machine(&self) -> bool {
        false
    }
}

/// Reads exactly `buffer` at `offset` of an open device.
pub(crate) fn read_at(file: &File, offset: u64, buffer: &mut [u8]) -> io::Result<()> {
    file.read_exact_at(buffer, offset)
}
