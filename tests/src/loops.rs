//! Loop devices: files that are block devices, with sectors of any size, that can be pulled and put back.
//!
//! Invariant: each one is given back when its value ends, also after a panic. Tests with loop devices run one after the other
//! ([`alone`]): a look at the machine opens every device for a moment, and another server would take it for in use.
use crate::tools;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// Sets the size limit of a loop device, 0 for none: the only way to take a device away under somebody who holds it.
/// `ioctl` numbers and the place of the limit: kernel, `linux/loop.h`.
const LIMIT: &str = r#"
    my ($path, $limit) = @ARGV;
    open(my $device, '+<', $path) or die "open: $!";
    my $info = "\0" x 232;
    ioctl($device, 0x4C05, $info) or die "get: $!";
    substr($info, 32, 8) = pack('Q', $limit);
    ioctl($device, 0x4C04, $info) or die "set: $!";
"#;

/// Holds back every other test with loop devices while it lives.
pub fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Why no loop device can be made here; `None` when one can. The test says so, past what hides the words of tests that pass.
pub fn problem() -> Option<String> {
    let folder = tempfile::tempdir().ok()?;
    match Loop::try_new(&folder.path().join("try.img"), 1 << 20, 512) {
        Ok(_) => None,
        Err(why) => {
            crate::say(&format!(
                "skipped: loop devices cannot be made here ({why}); run as root on a machine that has them"
            ));
            Some(why)
        }
    }
}

/// A loop device.
#[derive(Debug)]
pub struct Loop {
    /// `/dev/loop7`.
    pub path: String,
    /// The file behind it.
    pub file: PathBuf,
    sector_bytes: u32,
}

impl Loop {
    /// A device over a new sparse file of `size_bytes`.
    pub fn new(file: &Path, size_bytes: u64, sector_bytes: u32) -> Self {
        Self::try_new(file, size_bytes, sector_bytes).unwrap_or_else(|why| panic!("losetup: {why}"))
    }

    fn try_new(file: &Path, size_bytes: u64, sector_bytes: u32) -> Result<Self, String> {
        let made = std::fs::File::create(file).and_then(|file| file.set_len(size_bytes));
        made.map_err(|error| error.to_string())?;
        let path = attach(file, sector_bytes)?;
        Ok(Self { path, file: file.to_owned(), sector_bytes })
    }

    /// Kernel name: `loop7`.
    pub fn name(&self) -> &str {
        self.path.trim_start_matches("/dev/")
    }

    /// Takes the device away from whoever uses it; what is on it stays.
    pub fn pull(&self) {
        // One sector is left: without any it would have its whole size.
        tools::ok("perl", &["-e", LIMIT, &self.path, &self.sector_bytes.to_string()]);
    }

    /// Puts it back.
    pub fn put_back(&self) {
        tools::ok("perl", &["-e", LIMIT, &self.path, "0"]);
    }

    /// Takes a device that nobody holds away; its name is free.
    pub fn unplug(&mut self) {
        detach(&self.path);
    }

    /// Brings an unplugged one back, under the first name that is free.
    pub fn plug(&mut self) {
        self.path = attach(&self.file, self.sector_bytes).unwrap_or_else(|why| panic!("losetup: {why}"));
    }

    /// The SHA-256 of what is on it.
    pub fn digest(&self) -> String {
        tools::ok("sha256sum", &[self.file.to_str().expect("a plain path")])
    }
}

impl Drop for Loop {
    fn drop(&mut self) {
        detach(&self.path);
    }
}

fn attach(file: &Path, sector_bytes: u32) -> Result<String, String> {
    let output = Command::new("losetup")
        .args(["--find", "--show", "--direct-io=on", "--sector-size", &sector_bytes.to_string()])
        .arg(file)
        .output()
        .map_err(|error| error.to_string())?;
    match output.status.success() {
        true => Ok(String::from_utf8_lossy(&output.stdout).trim().to_owned()),
        false => Err(String::from_utf8_lossy(&output.stderr).trim().to_owned()),
    }
}

fn detach(path: &str) {
    let _ = Command::new("losetup").args(["--detach", path]).output();
}
