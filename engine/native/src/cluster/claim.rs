//! The last look before a disk is written for the first time: is it still the disk that the person reviewed, and may what is on it go?
//!
//! What stands on foreign disks is read by an [`Inspect`] that the program around the engine hands in: the engine knows its own format
//! only. Order for all disks of a claim: open each exclusively, look into each, refuse the claim if anything speaks against any of them,
//! and only then erase and format. Invariants: nothing is written before every disk of the claim was looked at through the handle that
//! holds it; a disk is erased (signatures, tables, both ends) and flushed before the first superblock is written, so a crash in between
//! leaves one that is blank, or one that says what it held, never half a member.
use crate::io::{Disk, DiskError, Reader};
use model::engine::EngineError;
use model::plan::PlannedDisk;
use std::collections::BTreeMap;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes zeroed at both ends of a disk: every partition table, ZFS label, md and DRBD superblock of whole disks lies there.
const END_BYTES: u64 = 4 << 20;
/// Bytes zeroed before and after a signature: a ZFS label is 256 KiB long, and its signature stands somewhere in it.
const AROUND_BYTES: u64 = 256 << 10;
/// Looks at most until nothing is found any more: below a wiped signature another one may come up.
const ROUNDS_MAX: usize = 64;
/// A discard asks for so much at a time, bytes.
const DISCARD_BYTES: u64 = 1 << 30;
/// Bytes at the start and the end of a disk that must be zero for it to count as blank, when nobody can read signatures.
const BLANK_BYTES: u64 = 1 << 20;

/// Reads exactly a buffer at an offset.
pub type ReadAt<'a> = dyn Fn(u64, &mut [u8]) -> std::io::Result<()> + 'a;

/// Knows foreign disks. Called on a thread that may wait.
pub trait Inspect: Send + Sync {
    /// What the devices at these paths are known by now; what cannot be identified is left out.
    fn identities(&self, paths: &[PathBuf]) -> BTreeMap<PathBuf, String>;
    /// What is on a disk of `size_bytes`.
    fn look(&self, size_bytes: u64, read: &ReadAt<'_>) -> Found;
}

/// What an [`Inspect`] found on a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Found {
    /// Everything in one line; `None`: blank.
    pub contents: Option<String>,
    /// As [`model::plan::Review::fingerprint`].
    pub fingerprint: String,
    /// Where signatures stand.
    pub signatures: Vec<Signature>,
    /// Where reading failed, in one sentence.
    pub unreadable: Option<String>,
}

/// One place that must be erased.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Signature {
    /// Byte on the disk.
    pub offset_bytes: u64,
    /// It is a partition table: it goes last, since it says where the partitions are.
    pub is_table: bool,
}

/// An [`Inspect`] that settings can carry.
#[derive(Clone)]
pub struct Inspector(pub Arc<dyn Inspect>);

impl Default for Inspector {
    fn default() -> Self {
        Self(Arc::new(OnlyBlank))
    }
}

impl std::fmt::Debug for Inspector {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("Inspector")
    }
}

/// Knows no formats: anything at either end of a disk is data.
struct OnlyBlank;

impl Inspect for OnlyBlank {
    fn identities(&self, _: &[PathBuf]) -> BTreeMap<PathBuf, String> {
        BTreeMap::new()
    }

    fn look(&self, size_bytes: u64, read: &ReadAt<'_>) -> Found {
        let mut found = Found::default();
        let mut buffer = vec![0; BLANK_BYTES.min(size_bytes) as usize];
        for offset in [0, size_bytes - buffer.len() as u64] {
            match read(offset, &mut buffer) {
                Ok(()) if buffer.iter().any(|byte| *byte != 0) => found.contents = Some("data".into()),
                Ok(()) => {}
                Err(error) => found.unreadable = Some(format!("reading at byte {offset} failed: {error}")),
            }
        }
        found
    }
}

fn named(planned: &PlannedDisk) -> String {
    if planned.path.ends_with(&format!("/{}", planned.name)) {
        return planned.path.clone();
    }
    format!("{} ({})", planned.name, planned.path)
}

/// Why a disk may not be written, in one sentence that names it, what is on it and what to do. Pure.
pub fn problem(
    planned: &PlannedDisk,
    size_bytes: u64,
    identity: Option<&str>,
    found: &Found,
) -> Option<String> {
    let disk = named(planned);
    if let Some(why) = &found.unreadable {
        return Some(format!("{disk} cannot be read in full ({why}): check its cable, or replace it"));
    }
    if let Some(review) = &planned.review {
        let again = "look at the disks again and claim anew";
        if identity != Some(review.identity.as_str()) {
            let (was, is) = (&review.identity, identity.unwrap_or("not to be identified"));
            return Some(format!(
                "{disk} is another disk than the one reviewed (it was {was}, it is {is}): {again}"
            ));
        }
        if size_bytes != planned.size_bytes {
            let was = planned.size_bytes;
            return Some(format!(
                "{disk} had {was} bytes when it was reviewed and has {size_bytes}: {again}"
            ));
        }
    }
    let reviewed = planned.review.as_ref().and_then(|review| review.contents.as_deref());
    if let Some(contents) = found.contents.as_deref().or(reviewed).filter(|_| !planned.erase) {
        return Some(format!(
            "{disk} holds {contents} and is not listed for erasing: list it in `erase` if that may go, or leave the disk out"
        ));
    }
    let review = planned.review.as_ref().filter(|review| review.fingerprint != found.fingerprint)?;
    let say = |contents: Option<&str>| contents.unwrap_or("nothing").to_owned();
    Some(format!(
        "{disk} was changed since it was reviewed (it held {}, it holds {}): look at the disks again and claim anew",
        say(review.contents.as_deref()),
        say(found.contents.as_deref()),
    ))
}

/// Why a claim is refused: nothing was written to any of its disks.
pub(super) fn refusal(mut problems: Vec<String>) -> EngineError {
    let first = problems.remove(0);
    let more = match problems.len() {
        0 => String::new(),
        _ => format!("; also {}", problems.join("; also ")),
    };
    EngineError::Conflict { detail: format!("{first}{more}. Nothing was written to any disk of this claim") }
}

/// What the disks at these paths are known by.
pub(super) async fn identities(inspector: &Inspector, paths: Vec<PathBuf>) -> BTreeMap<PathBuf, String> {
    if paths.is_empty() {
        return BTreeMap::new();
    }
    let inspector = inspector.0.clone();
    let asked = tokio::task::spawn_blocking(move || inspector.identities(&paths));
    asked.await.unwrap_or_default()
}

/// Looks into an open disk.
///
/// # Errors
/// `Gone` when it was pulled.
pub(super) async fn look(inspector: &Inspector, disk: &Disk) -> Result<Found, DiskError> {
    let reader: Reader = disk.reader().ok_or(DiskError::Gone)?;
    let inspector = inspector.0.clone();
    let looked = tokio::task::spawn_blocking(move || {
        inspector.look(reader.size_bytes(), &|offset: u64, buffer: &mut [u8]| reader.read_at(offset, buffer))
    });
    Ok(looked.await.unwrap_or_else(|stopped| Found {
        unreadable: Some(format!("looking at it broke off: {stopped}")),
        ..Found::default()
    }))
}

/// Erases what is on a disk: the signatures inside partitions first, then tables, then both ends; what the device can give back is
/// given back. Flushed on return.
///
/// # Errors
/// A sentence; the disk then holds what it held, less, or nothing.
pub(super) async fn erase(inspector: &Inspector, disk: &Disk, path: &Path) -> Result<(), String> {
    let failed = |error: DiskError| format!("{} could not be erased: {error}", path.display());
    let size = disk.geometry().size_bytes;
    for _ in 0..ROUNDS_MAX {
        let found = look(inspector, disk).await.map_err(failed)?.signatures;
        let inner: Vec<Signature> = found.iter().filter(|one| !one.is_table).copied().collect();
        let now = if inner.is_empty() { &found } else { &inner };
        if now.is_empty() {
            break;
        }
        for signature in now {
            let start = signature.offset_bytes.saturating_sub(AROUND_BYTES);
            zero(disk, start, signature.offset_bytes + AROUND_BYTES).await.map_err(failed)?;
        }
        // A table must not outlive its partitions by a power cut that keeps only some of the writes.
        disk.flush().await.map_err(failed)?;
    }
    zero(disk, 0, END_BYTES).await.map_err(failed)?;
    zero(disk, size.saturating_sub(END_BYTES), size).await.map_err(failed)?;
    let mut at = 0;
    while at < size {
        let len = DISCARD_BYTES.min(size - at);
        disk.discard(at, len / BLOCK * BLOCK).await.map_err(failed)?;
        at += len;
    }
    disk.flush().await.map_err(failed)?;
    let left = look(inspector, disk).await.map_err(failed)?;
    match left.signatures.is_empty() {
        true => Ok(()),
        false => Err(format!(
            "{} still holds {} after it was erased: erase it with its own tools, or leave it out",
            path.display(),
            left.contents.unwrap_or_default()
        )),
    }
}

const BLOCK: u64 = crate::fmt::BLOCK as u64;

/// Zeros from `start` to `end`, widened to whole blocks and cut at the end of the disk.
async fn zero(disk: &Disk, start: u64, end: u64) -> Result<(), DiskError> {
    let sector = u64::from(disk.geometry().sector_bytes);
    let start = start / BLOCK * BLOCK;
    let end = end.next_multiple_of(BLOCK).min(disk.geometry().size_bytes / sector * sector);
    if start < end { disk.fill_with_zeros(start, end - start).await } else { Ok(()) }
}

#[cfg(test)]
#[path = "claim_tests.rs"]
mod tests;
