//! One disk as the engine sees it: dispatch over real and simulated disks, bounds, and the fault switch.
use super::file::FileDisk;
use super::scratch::ScratchDisk;
#[cfg(any(test, feature = "sim"))]
use super::sim::SimHandle;
use super::{FaultSwitch, IoBuf, Reader};
use model::state::Media;
use std::rc::Rc;

/// Smallest unit of offset and length of files and of most devices, bytes.
pub const SECTOR_BYTES: u64 = 512;
/// Zeros are written in pieces of this size, bytes.
pub(super) const ZERO_BYTES: usize = 1 << 20;
/// A device is asked for so many zeros at a time, bytes: seconds on a rotating disk.
const ZERO_PIECE_BYTES: u64 = 256 << 20;

/// What an I/O was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs, reason = "the names say it")]
pub enum IoOp {
    Read,
    Write,
    Flush,
    Discard,
}

impl std::fmt::Display for IoOp {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            IoOp::Read => "read",
            IoOp::Write => "write",
            IoOp::Flush => "flush",
            IoOp::Discard => "discard",
        })
    }
}

/// Why an I/O failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum DiskError {
    /// The disk is not there any more. A write under way may have landed, wholly, partly or not.
    #[error("the disk is gone")]
    Gone,
    /// The disk reported an error. A failed write leaves any mixture of old and new sectors.
    #[error("{op} of {len_bytes} bytes at {offset_bytes} failed (error {errno})")]
    Io {
        /// What was tried.
        op: IoOp,
        /// Where, bytes.
        offset_bytes: u64,
        /// How much, bytes.
        len_bytes: u64,
        /// Error number of the operating system.
        errno: i32,
    },
    /// The file system under a file disk has no room; nothing was written for certain.
    #[error("no space is left under the disk")]
    NoSpace,
    /// A flush failed, now or before: what was not flushed may be lost, and the disk takes no more writes.
    #[error("a flush failed: unflushed data may be lost")]
    FlushFailed,
    /// The range lies outside the disk or is not made of whole sectors: a bug of the caller or a damaged pointer.
    #[error("{len_bytes} bytes at {offset_bytes} are not a range of this disk")]
    OutOfRange {
        /// Where, bytes.
        offset_bytes: u64,
        /// How much, bytes.
        len_bytes: u64,
    },
}

/// Size and nature of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Geometry {
    /// Size, bytes.
    pub size_bytes: u64,
    /// What the disk writes at once, bytes.
    pub physical_block_bytes: u32,
    /// Smallest unit of offset and length, bytes: 512, or 4096 on a disk with such sectors.
    pub sector_bytes: u32,
    /// What it is made of.
    pub media: Media,
}

#[derive(Clone)]
pub(super) enum Kind {
    File(FileDisk),
    Scratch(ScratchDisk),
    #[cfg(any(test, feature = "sim"))]
    Sim(SimHandle),
}

/// One open disk. Clones share it.
#[derive(Clone)]
pub struct Disk {
    kind: Kind,
    geometry: Geometry,
    faults: Rc<FaultSwitch>,
}

impl Disk {
    pub(super) fn new(kind: Kind, geometry: Geometry) -> Self {
        Self { kind, geometry, faults: Rc::default() }
    }

    /// A disk over this one that takes writes in memory: this one is read and never written through it.
    pub fn scratch(self) -> Self {
        let geometry = self.geometry;
        Self::new(Kind::Scratch(ScratchDisk::new(self)), geometry)
    }

    /// Fills `buf`, which must not be shared, from `offset_bytes`, and gives it back.
    pub async fn read(&self, offset_bytes: u64, buf: IoBuf) -> Result<IoBuf, DiskError> {
        self.check(offset_bytes, buf.len() as u64)?;
        let io = async {
            self.delay(IoOp::Read, offset_bytes, buf.len() as u64).await?;
            match &self.kind {
                Kind::File(disk) => disk.read(offset_bytes, buf).await,
                Kind::Scratch(disk) => Box::pin(disk.read(offset_bytes, buf)).await,
                #[cfg(any(test, feature = "sim"))]
                Kind::Sim(disk) => disk.read(offset_bytes, buf).await,
            }
        };
        self.faults.unless_off(io).await.unwrap_or(Err(DiskError::Gone))
    }

    /// Writes `bufs` one after the other from `offset_bytes`. Not durable before a flush that starts after it returned.
    pub async fn write(&self, offset_bytes: u64, bufs: Vec<IoBuf>) -> Result<(), DiskError> {
        let len_bytes = bufs.iter().map(|buf| buf.len() as u64).sum();
        self.check(offset_bytes, len_bytes)?;
        let io = async {
            self.delay(IoOp::Write, offset_bytes, len_bytes).await?;
            if self.faults.flush_failed() {
                return Err(DiskError::FlushFailed);
            }
            if self.faults.is_full() && !self.is_allocated(offset_bytes, len_bytes) {
                return Err(DiskError::NoSpace);
            }
            match &self.kind {
                Kind::File(disk) => disk.write(offset_bytes, bufs).await,
                Kind::Scratch(disk) => Box::pin(disk.write(offset_bytes, bufs)).await,
                #[cfg(any(test, feature = "sim"))]
                Kind::Sim(disk) => disk.write(offset_bytes, bufs).await,
            }
        };
        self.faults.unless_off(io).await.unwrap_or(Err(DiskError::Gone))
    }

    /// Makes every write that returned before this call durable. An error is final: see [`DiskError::FlushFailed`].
    pub async fn flush(&self) -> Result<(), DiskError> {
        let io = async {
            self.delay(IoOp::Flush, 0, 0).await?;
            if self.faults.flush_failed() {
                return Err(DiskError::FlushFailed);
            }
            match &self.kind {
                Kind::File(disk) => disk.flush().await,
                Kind::Scratch(_) => Ok(()),
                #[cfg(any(test, feature = "sim"))]
                Kind::Sim(disk) => disk.flush().await,
            }
        };
        match self.faults.unless_off(io).await.unwrap_or(Err(DiskError::Gone)) {
            Err(error) if error != DiskError::Gone => {
                self.faults.set_flush_failed();
                Err(DiskError::FlushFailed)
            }
            other => other,
        }
    }

    /// Gives the range back to what is under the disk; afterwards it reads as zeros, or as before on a device that cannot
    /// give anything back.
    pub async fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), DiskError> {
        self.check(offset_bytes, len_bytes)?;
        let io = async {
            self.delay(IoOp::Discard, offset_bytes, len_bytes).await?;
            match &self.kind {
                Kind::File(disk) => disk.discard(offset_bytes, len_bytes).await,
                Kind::Scratch(disk) => Box::pin(disk.discard(offset_bytes, len_bytes)).await,
                #[cfg(any(test, feature = "sim"))]
                Kind::Sim(disk) => disk.discard(offset_bytes, len_bytes).await,
            }
        };
        self.faults.unless_off(io).await.unwrap_or(Err(DiskError::Gone))
    }

    /// Fills the range with zeros: devices that can do so by themselves are asked to. Durable after the next flush.
    pub async fn fill_with_zeros(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), DiskError> {
        self.check(offset_bytes, len_bytes)?;
        let zeros = IoBuf::zeroed(ZERO_BYTES.min(len_bytes as usize));
        let mut device = self.as_file();
        let end = offset_bytes + len_bytes;
        let mut at = offset_bytes;
        while at < end {
            if let Some(disk) = device {
                let piece = ZERO_PIECE_BYTES.min(end - at);
                let asked = self.faults.unless_off(disk.zero(at, piece)).await;
                match asked.unwrap_or(Err(DiskError::Gone))? {
                    true => at += piece,
                    false => device = None,
                }
                continue;
            }
            let piece = (zeros.len() as u64).min(end - at);
            self.write(at, vec![zeros.slice(0..piece as usize)]).await?;
            at += piece;
        }
        Ok(())
    }

    /// Whether the disk was pulled, as far as the kernel says. A disk that was pulled stays so until it is opened anew.
    pub fn is_pulled(&self) -> bool {
        match &self.kind {
            Kind::File(disk) => disk.is_pulled(),
            Kind::Scratch(_) => false,
            #[cfg(any(test, feature = "sim"))]
            Kind::Sim(disk) => disk.is_pulled(),
        }
    }

    /// A handle to look at the disk from another thread; `None` for a pulled one, and for one that is only looked at as it is.
    pub fn reader(&self) -> Option<Reader> {
        match &self.kind {
            Kind::File(disk) => disk.reader(self.geometry.size_bytes),
            Kind::Scratch(_) => None,
            #[cfg(any(test, feature = "sim"))]
            Kind::Sim(disk) => disk.reader(self.geometry.size_bytes),
        }
    }

    fn as_file(&self) -> Option<&FileDisk> {
        match &self.kind {
            Kind::File(disk) => Some(disk),
            Kind::Scratch(_) => None,
            #[cfg(any(test, feature = "sim"))]
            Kind::Sim(_) => None,
        }
    }

    /// Flips one bit in every sector of the range, past all checks of the engine: the fault "corrupt" of a lab.
    pub async fn corrupt(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), DiskError> {
        let mut buf = self.read(offset_bytes, IoBuf::for_read(len_bytes as usize)).await?;
        for sector in buf.as_mut().chunks_mut(SECTOR_BYTES as usize) {
            let at = sector.len() / 2;
            sector[at] ^= 0x10;
        }
        self.write(offset_bytes, vec![buf]).await?;
        self.flush().await
    }

    /// Size and nature.
    pub fn geometry(&self) -> Geometry {
        self.geometry
    }

    /// The fault switches of this disk.
    pub fn faults(&self) -> &FaultSwitch {
        &self.faults
    }

    /// Waits until nothing of this disk is under way below the engine, abandoned I/O included.
    pub async fn quiesce(&self) {
        match &self.kind {
            Kind::File(disk) => disk.quiesce().await,
            Kind::Scratch(disk) => disk.quiesce().await,
            #[cfg(any(test, feature = "sim"))]
            Kind::Sim(disk) => disk.quiesce().await,
        }
    }

    /// Whether both are the same open disk.
    pub fn same_as(&self, other: &Disk) -> bool {
        Rc::ptr_eq(&self.faults, &other.faults)
    }

    fn is_allocated(&self, offset_bytes: u64, len_bytes: u64) -> bool {
        match &self.kind {
            Kind::File(disk) => disk.is_allocated(offset_bytes, len_bytes),
            Kind::Scratch(_) => true,
            #[cfg(any(test, feature = "sim"))]
            Kind::Sim(disk) => disk.is_allocated(offset_bytes, len_bytes),
        }
    }

    fn check(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), DiskError> {
        let inside = offset_bytes.checked_add(len_bytes).is_some_and(|end| end <= self.geometry.size_bytes);
        let whole = (offset_bytes | len_bytes).is_multiple_of(self.geometry.sector_bytes.into());
        if inside && whole { Ok(()) } else { Err(DiskError::OutOfRange { offset_bytes, len_bytes }) }
    }

    async fn delay(&self, op: IoOp, offset_bytes: u64, len_bytes: u64) -> Result<(), DiskError> {
        if !self.faults.slow().is_zero() {
            tokio::time::sleep(self.faults.slow()).await;
        }
        if self.faults.is_failing() {
            return Err(DiskError::Io { op, offset_bytes, len_bytes, errno: libc::EIO });
        }
        Ok(())
    }
}

impl std::fmt::Debug for Disk {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "Disk({} bytes)", self.geometry.size_bytes)
    }
}
