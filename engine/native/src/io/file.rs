//! Disks that are files or block devices of this machine: opening, locking, making.
//!
//! Invariants: a disk is used only under an exclusive lock that lives with the open file, so it is free only when the last
//! write of its holder, also of a killed one, has ended; a file that holds anything is never made into a disk; a device that
//! was pulled is let go, and every later I/O of this handle answers `Gone`: it comes back by being opened anew.
use super::device::{self, Device, Places};
use super::disk::{Disk, DiskError, Geometry, Kind, SECTOR_BYTES, ZERO_BYTES};
use super::uring::{Request, Ring, RingFile};
use super::{IoBuf, IoOp, Reader};
use model::state::Media;
use rustix::fs::{FileType, FlockOperation, Mode, OFlags, SeekFrom, Stat};
use std::cell::{Cell, RefCell};
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::rc::{Rc, Weak};
use std::time::Duration;

/// How long `serve` waits for the lock of a disk: what a killed process may need to end its last writes.
pub const LOCK_WAIT: Duration = Duration::from_secs(30);
/// Pause between two tries to lock.
const LOCK_RETRY: Duration = Duration::from_millis(50);
/// Sectors that the engine can use at most: every transfer is made of whole blocks of 4 KiB.
const LOGICAL_BLOCK_BYTES_MAX: u32 = 4096;

/// Why a disk could not be opened or made. Nothing was changed on it, but for `Prepare`.
#[derive(Debug, thiserror::Error)]
pub enum OpenError {
    /// The file or device could not be opened.
    #[error("cannot open {}", path.display())]
    Open {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Size or kind could not be found out.
    #[error("cannot inspect {}", path.display())]
    Inspect {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
    /// Somebody else has it open; asked until the deadline.
    #[error("{} is in use by {holder}", path.display())]
    InUse {
        /// Which.
        path: PathBuf,
        /// Who.
        holder: Holder,
    },
    /// Neither a regular file nor a block device.
    #[error("{} is neither a regular file nor a block device", path.display())]
    WrongKind {
        /// Which.
        path: PathBuf,
    },
    /// Sectors larger than a block.
    #[error("{} has sectors of {bytes} bytes; format it with 512 or 4096 (`sg_format`, `nvme format`)", path.display())]
    Sectors {
        /// Which.
        path: PathBuf,
        /// Their size.
        bytes: u32,
    },
    /// The file holds something.
    #[error("{} is not blank: it holds data that a disk would overwrite", path.display())]
    NotBlank {
        /// Which.
        path: PathBuf,
    },
    /// Size, zeros or durability failed. A file that this call made is removed again.
    #[error("cannot prepare {} as a disk", path.display())]
    Prepare {
        /// Which.
        path: PathBuf,
        /// Why.
        source: io::Error,
    },
}

/// Who holds a lock, as far as the kernel tells.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Holder {
    /// What holds a device, when it is no process: a mount, swap, an array.
    pub what: Option<String>,
    /// Process id; `None` when the kernel does not show it.
    pub pid: Option<u32>,
    /// Name of its command.
    pub command: Option<String>,
}

impl std::fmt::Display for Holder {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match (&self.what, &self.pid, &self.command) {
            (Some(what), ..) => f.write_str(what),
            (None, Some(pid), Some(command)) => write!(f, "process {pid} ({command})"),
            (None, Some(pid), None) => write!(f, "process {pid}"),
            _ => f.write_str("another process"),
        }
    }
}

/// How to open a disk.
#[derive(Clone, Copy, Debug)]
pub struct OpenOptions {
    /// Read-only when false.
    pub writable: bool,
    /// How long to wait for the lock: see [`LOCK_WAIT`].
    pub lock_wait: Duration,
    /// What it is made of, as the inventory found.
    pub media: Media,
}

/// Opens the file or block device at `path` exclusively, past the page cache where the file system allows it.
pub async fn open_file(ring: &Ring, path: &Path, options: OpenOptions) -> Result<Disk, OpenError> {
    let access = if options.writable { OFlags::RDWR } else { OFlags::RDONLY };
    let fd = open_locked(path, access, options.lock_wait).await?;
    let size_bytes = rustix::fs::seek(&fd, SeekFrom::End(0)).map_err(|errno| inspect(path, errno))?;
    let stat = rustix::fs::fstat(&fd).map_err(|errno| inspect(path, errno))?;
    let device = match FileType::from_raw_mode(stat.st_mode) {
        FileType::BlockDevice => Some(
            Device::of(&fd, &stat, size_bytes, Places::default()).map_err(|errno| inspect(path, errno))?,
        ),
        _ => None,
    };
    let sector_bytes = device.as_ref().map_or(SECTOR_BYTES as u32, |device| device.logical_block_bytes);
    if sector_bytes > LOGICAL_BLOCK_BYTES_MAX || !sector_bytes.is_power_of_two() {
        return Err(OpenError::Sectors { path: path.to_owned(), bytes: sector_bytes });
    }
    let geometry = Geometry {
        size_bytes: size_bytes - size_bytes % u64::from(sector_bytes),
        physical_block_bytes: device.as_ref().map_or(4096, |device| device.physical_block_bytes),
        sector_bytes,
        media: options.media,
    };
    match go_direct(&fd) {
        Err(errno) if device.is_some() => return Err(open_error(path, errno)),
        Err(errno) => {
            tracing::debug!(%errno, "this file system has no direct I/O; the page cache is used");
        }
        Ok(()) => {}
    }
    let file = Rc::new(RingFile::new(fd, sector_bytes as usize));
    let open = OpenFile {
        last: Rc::downgrade(&file),
        file: RefCell::new(Some(file)),
        can_discard: Cell::new(device.as_ref().is_none_or(Device::can_discard)),
        device,
    };
    Ok(Disk::new(Kind::File(FileDisk { ring: ring.clone(), open: Rc::new(open) }), geometry))
}

/// An exclusive lock on a file that is no disk, made when missing; free when dropped or when the process ends.
#[derive(Debug)]
pub struct FileLock(#[allow(dead_code, reason = "the lock lives with the descriptor")] OwnedFd);

/// Locks the file at `path`, waiting up to `wait` for another holder.
pub async fn lock_file(path: &Path, wait: Duration) -> Result<FileLock, OpenError> {
    open_locked(path, OFlags::RDWR | OFlags::CREATE, wait).await.map(FileLock)
}

/// Makes the file at `path` a blank, sparse disk of `size_bytes`. Durable on return.
pub async fn create_file(path: &Path, size_bytes: u64) -> Result<(), OpenError> {
    let path = path.to_owned();
    let failed = path.clone();
    let made = tokio::task::spawn_blocking(move || create_blocking(&path, size_bytes)).await;
    made.unwrap_or_else(|stopped| Err(OpenError::Prepare { path: failed, source: io::Error::other(stopped) }))
}

fn create_blocking(path: &Path, size_bytes: u64) -> Result<(), OpenError> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    let (fd, made) = match rustix::fs::open(path, flags | OFlags::CREATE | OFlags::EXCL, mode) {
        Ok(fd) => (fd, true),
        Err(rustix::io::Errno::EXIST) => {
            (rustix::fs::open(path, flags, mode).map_err(|errno| open_error(path, errno))?, false)
        }
        Err(errno) => return Err(open_error(path, errno)),
    };
    if rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Err(OpenError::InUse { path: path.to_owned(), holder: holder_of(&fd) });
    }
    if !made {
        require_blank(path, &fd)?;
    }
    let file = File::from(fd);
    let prepared = prepare(path, &file, size_bytes);
    if prepared.is_err() && made {
        // The caller hears the first error; an empty file that stays is blank and may be used again.
        let _ = std::fs::remove_file(path);
    }
    prepared.map_err(|source| OpenError::Prepare { path: path.to_owned(), source })
}

fn require_blank(path: &Path, fd: &OwnedFd) -> Result<(), OpenError> {
    let stat = rustix::fs::fstat(fd).map_err(|errno| inspect(path, errno))?;
    if FileType::from_raw_mode(stat.st_mode) != FileType::RegularFile {
        return Err(OpenError::WrongKind { path: path.to_owned() });
    }
    match rustix::fs::seek(fd, SeekFrom::Data(0)) {
        Err(rustix::io::Errno::NXIO) => Ok(()),
        Err(errno) if stat.st_size > 0 => Err(inspect(path, errno)),
        Err(_) => Ok(()),
        Ok(_) => Err(OpenError::NotBlank { path: path.to_owned() }),
    }
}

fn prepare(path: &Path, file: &File, size_bytes: u64) -> io::Result<()> {
    file.set_len(size_bytes)?;
    file.sync_all()?;
    let folder = path.parent().filter(|parent| !parent.as_os_str().is_empty()).unwrap_or(Path::new("."));
    File::open(folder)?.sync_all()
}

async fn open_locked(path: &Path, access: OFlags, wait: Duration) -> Result<OwnedFd, OpenError> {
    let deadline = tokio::time::Instant::now() + wait;
    let is_device = rustix::fs::stat(path)
        .is_ok_and(|stat| FileType::from_raw_mode(stat.st_mode) == FileType::BlockDevice);
    let exclusive = if is_device { OFlags::EXCL } else { OFlags::empty() };
    loop {
        let opened = rustix::fs::open(path, access | exclusive | OFlags::CLOEXEC, Mode::RUSR | Mode::WUSR);
        let holder = match opened {
            Err(rustix::io::Errno::BUSY) if is_device => device_holder(path),
            Err(errno) => return Err(open_error(path, errno)),
            Ok(fd) => {
                require_kind(path, &fd)?;
                match rustix::fs::flock(&fd, FlockOperation::NonBlockingLockExclusive) {
                    Ok(()) => return Ok(fd),
                    Err(rustix::io::Errno::WOULDBLOCK | rustix::io::Errno::INTR) => holder_of(&fd),
                    Err(errno) => return Err(open_error(path, errno)),
                }
            }
        };
        if tokio::time::Instant::now() >= deadline {
            return Err(OpenError::InUse { path: path.to_owned(), holder });
        }
        tokio::time::sleep(LOCK_RETRY.min(deadline - tokio::time::Instant::now())).await;
    }
}

fn require_kind(path: &Path, fd: &OwnedFd) -> Result<(), OpenError> {
    let stat = rustix::fs::fstat(fd).map_err(|errno| inspect(path, errno))?;
    match FileType::from_raw_mode(stat.st_mode) {
        FileType::RegularFile | FileType::BlockDevice => Ok(()),
        _ => Err(OpenError::WrongKind { path: path.to_owned() }),
    }
}

/// Who holds a device that cannot be opened exclusively.
fn device_holder(path: &Path) -> Holder {
    rustix::fs::stat(path).map(|stat| device::holder(&Places::default(), &stat)).unwrap_or_default()
}

/// Looks the holder of a lock up in the kernel's table: `N: FLOCK ADVISORY WRITE PID MAJOR:MINOR:INODE START END`.
fn holder_of(fd: &OwnedFd) -> Holder {
    rustix::fs::fstat(fd).map(|stat| holder_by_lock(&stat)).unwrap_or_default()
}

/// The process that has locked the file or the device node with this `stat`.
pub(super) fn holder_by_lock(stat: &Stat) -> Holder {
    let (major, minor) = (rustix::fs::major(stat.st_dev), rustix::fs::minor(stat.st_dev));
    let place = format!("{major:02x}:{minor:02x}:{}", stat.st_ino);
    // The kernel gives the table out in pieces: a line can be missed while others come and go.
    let pid = (0..5).find_map(|_| lock_owner(&place));
    let command = pid.and_then(|pid| std::fs::read_to_string(format!("/proc/{pid}/comm")).ok());
    Holder { what: None, pid, command: command.map(|name| name.trim().to_owned()) }
}

fn lock_owner(place: &str) -> Option<u32> {
    let locks = std::fs::read_to_string("/proc/locks").ok()?;
    locks.lines().find_map(|line| {
        let fields: Vec<&str> = line.split_whitespace().collect();
        let held = fields.get(1) == Some(&"FLOCK") && fields.get(5) == Some(&place);
        held.then(|| fields[4].parse().ok()).flatten()
    })
}

/// Switches the page cache off where the file system can; where it cannot, flushes do the work.
fn go_direct(fd: &OwnedFd) -> rustix::io::Result<()> {
    rustix::fs::fcntl_getfl(fd).and_then(|flags| rustix::fs::fcntl_setfl(fd, flags | OFlags::DIRECT))
}

fn open_error(path: &Path, errno: rustix::io::Errno) -> OpenError {
    OpenError::Open { path: path.to_owned(), source: errno.into() }
}

fn inspect(path: &Path, errno: rustix::io::Errno) -> OpenError {
    OpenError::Inspect { path: path.to_owned(), source: errno.into() }
}

/// One open file or device on the ring.
#[derive(Clone)]
pub(super) struct FileDisk {
    ring: Ring,
    open: Rc<OpenFile>,
}

struct OpenFile {
    /// `None` once it was pulled: then the kernel may forget the device.
    file: RefCell<Option<Rc<RingFile>>>,
    /// The same, for those who wait for the last I/O of a pulled one.
    last: Weak<RingFile>,
    /// When it is a block device.
    device: Option<Device>,
    /// Cleared when the device says that it cannot.
    can_discard: Cell<bool>,
}

impl FileDisk {
    pub(super) async fn read(&self, offset_bytes: u64, buf: IoBuf) -> Result<IoBuf, DiskError> {
        match self.run(offset_bytes, buf.len() as u64, Request::Read(buf)).await? {
            Request::Read(buf) => Ok(buf),
            _ => unreachable!("the ring gives back what it was given"),
        }
    }

    pub(super) async fn write(&self, offset_bytes: u64, bufs: Vec<IoBuf>) -> Result<(), DiskError> {
        let len_bytes = bufs.iter().map(|buf| buf.len() as u64).sum();
        self.run(offset_bytes, len_bytes, Request::Write(bufs)).await.map(drop)
    }

    pub(super) async fn flush(&self) -> Result<(), DiskError> {
        self.run(0, 0, Request::Flush).await.map(drop)
    }

    pub(super) async fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), DiskError> {
        if !self.open.can_discard.get() {
            return Ok(());
        }
        match self.run(offset_bytes, len_bytes, Request::Discard { len_bytes }).await {
            Err(DiskError::Io { errno, .. }) if is_unsupported(errno) => {}
            done => return done.map(drop),
        }
        if self.open.device.is_some() {
            // Nobody relies on what a device gives back; writing zeros over it all would cost more than it is worth.
            self.open.can_discard.set(false);
            return Ok(());
        }
        let end = offset_bytes + len_bytes;
        let zeros = IoBuf::zeroed(ZERO_BYTES.min(len_bytes as usize));
        for at in (offset_bytes..end).step_by(ZERO_BYTES) {
            let piece = zeros.len().min((end - at) as usize);
            self.write(at, vec![zeros.slice(0..piece)]).await?;
        }
        Ok(())
    }

    /// Asks a device to fill the range with zeros; `false` when it has to be written. (A file would only get unwritten extents,
    /// which cost a flush of metadata later.)
    pub(super) async fn zero(&self, offset_bytes: u64, len_bytes: u64) -> Result<bool, DiskError> {
        if self.open.device.is_none() {
            return Ok(false);
        }
        match self.run(offset_bytes, len_bytes, Request::Zero { len_bytes }).await {
            Err(DiskError::Io { errno, .. }) if is_unsupported(errno) => Ok(false),
            done => done.map(|_| true),
        }
    }

    pub(super) async fn quiesce(&self) {
        if let Some(file) = self.open.last.upgrade() {
            file.quiesce().await;
        }
    }

    /// Whether it was pulled: found by an I/O before, or asked now.
    pub(super) fn is_pulled(&self) -> bool {
        let open = self.open.file.borrow().clone();
        open.is_none_or(|file| self.lets_go(&file))
    }

    pub(super) fn reader(&self, size_bytes: u64) -> Option<Reader> {
        let file = self.open.file.borrow().clone()?;
        let fd = rustix::io::fcntl_dupfd_cloexec(&file.fd, 0).ok()?;
        Some(Reader::new(fd, size_bytes))
    }

    /// Whether the file system has space for every byte of the range already. Unknown counts as no.
    pub(super) fn is_allocated(&self, offset_bytes: u64, len_bytes: u64) -> bool {
        let Some(file) = self.open.file.borrow().clone() else { return false };
        let data = rustix::fs::seek(&file.fd, SeekFrom::Data(offset_bytes));
        let hole = rustix::fs::seek(&file.fd, SeekFrom::Hole(offset_bytes));
        data == Ok(offset_bytes) && hole.is_ok_and(|hole| hole >= offset_bytes + len_bytes)
    }

    async fn run(&self, offset_bytes: u64, len_bytes: u64, request: Request) -> Result<Request, DiskError> {
        let op: IoOp = request.op();
        let Some(file) = self.open.file.borrow().clone() else { return Err(DiskError::Gone) };
        self.ring.run(&file, offset_bytes, request).await.map_err(|errno| match errno {
            libc::ENODEV | libc::ENXIO | libc::ENOMEDIUM => {
                self.let_go();
                DiskError::Gone
            }
            // A device that was pulled answers with any error, "no space" included: it has become smaller.
            _ if self.lets_go(&file) => DiskError::Gone,
            libc::ENOSPC | libc::EDQUOT => DiskError::NoSpace,
            _ => DiskError::Io { op, offset_bytes, len_bytes, errno },
        })
    }

    /// Lets a device go that is not there any more; whether it did.
    fn lets_go(&self, file: &RingFile) -> bool {
        let is_pulled = self.open.device.as_ref().is_some_and(|device| !device.is_there(&file.fd));
        if is_pulled {
            self.let_go();
        }
        is_pulled
    }

    /// Closes a device once its last I/O has ended. A regular file stays open: its name may lead to another one.
    fn let_go(&self) {
        if self.open.device.is_some() {
            self.open.file.borrow_mut().take();
        }
    }
}

fn is_unsupported(errno: i32) -> bool {
    matches!(errno, libc::EOPNOTSUPP | libc::EINVAL | libc::ENOSYS | libc::ENOTTY)
}

#[cfg(test)]
#[path = "file_tests.rs"]
mod tests;
