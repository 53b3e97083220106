//! The label of a disk: its superblock in four copies, and the two slots of the cluster configuration.
//!
//! One [`Label`] per open disk, shared by all who change it (the checkpoint of the extents, the logs of up to eight groups).
//! Invariants: updates run one after the other; the pair that is overwritten is never the newest valid one, so a crash in an update
//! leaves the old or the new superblock; a generation is never used twice, not even after a failed update.
use crate::fmt::header;
use crate::fmt::layout::{CONFIG_SLOT_BYTES, CONFIG_SLOTS};
use crate::fmt::slot::ConfigSlot;
use crate::fmt::superblock::{Superblock, copies};
use crate::fmt::{BLOCK, FmtError, dev_id};
use crate::io::{Disk, DiskError, IoBuf};
use model::units::DISK_BYTES_MIN;
use std::cell::{Cell, Ref, RefCell};
use std::rc::Rc;

/// Why a label could not be read or written.
#[derive(Debug, thiserror::Error)]
pub enum LabelError {
    /// No copy of the superblock is valid: the disk is foreign (or wiped), and is never written. The first copy's error is the source.
    #[error("the disk has no superblock of Millpond")]
    Foreign(#[source] FmtError),
    /// A newer program wrote the disk. It is not written.
    #[error("the disk was written by a newer version")]
    Newer(#[source] FmtError),
    /// The disk failed. An update that failed may or may not be what the next load finds; both are consistent.
    #[error("the label could not be read or written")]
    Disk(#[from] DiskError),
    /// The superblock has more in it than fits. Nothing was written.
    #[error("the superblock cannot be encoded")]
    Encode(#[source] FmtError),
    /// The configuration is longer than a slot (1 MiB). Nothing was written.
    #[error("the cluster configuration cannot be encoded")]
    Config(#[source] FmtError),
}

/// What [`scan`] found on a disk.
#[derive(Debug)]
pub struct Scan {
    /// The valid copy with the highest generation.
    pub superblock: Superblock,
    /// Copies that are neither valid nor of the older pair's generation: to be repaired.
    pub damaged: Vec<u64>,
    /// Whether the newest pair is A (the first two of [`copies`]).
    newest_is_a: bool,
}

/// Reads all copies and writes nothing: for `check`, `dump`, import, and the first look at a disk.
///
/// # Errors
/// `Foreign`, `Newer`, `Disk` (only when no copy could be read).
pub async fn scan(disk: &Disk) -> Result<Scan, LabelError> {
    // Anything smaller than the smallest disk is foreign; it may not even have room for the copies.
    if disk.geometry().size_bytes < DISK_BYTES_MIN {
        let found = disk.geometry().size_bytes as usize;
        return Err(LabelError::Foreign(FmtError::Short { needed: DISK_BYTES_MIN as usize, found }));
    }
    let mut valid: Vec<(usize, Superblock)> = Vec::new();
    let mut invalid = Vec::new();
    let mut first_error = None;
    for (index, offset) in copies(disk.geometry().size_bytes).into_iter().enumerate() {
        let buf = match disk.read(offset, IoBuf::for_read(BLOCK)).await {
            Ok(buf) => buf,
            Err(DiskError::Gone) => return Err(DiskError::Gone.into()),
            Err(error) => {
                invalid.push((index, offset));
                first_error.get_or_insert(LabelError::Disk(error));
                continue;
            }
        };
        match Superblock::decode(&buf, offset) {
            Ok(superblock) => valid.push((index, superblock)),
            Err(error) if error.is_newer() => return Err(LabelError::Newer(error)),
            Err(error) => {
                invalid.push((index, offset));
                first_error.get_or_insert(LabelError::Foreign(error));
            }
        }
    }
    let newest = valid.iter().max_by_key(|(index, superblock)| (superblock.generation, 4 - index));
    let Some((index, superblock)) = newest.cloned() else {
        return Err(first_error.unwrap_or(LabelError::Foreign(FmtError::Magic)));
    };
    let newest_is_a = index < 2;
    // The partner of the newest copy must say the same; a copy of the older pair is damaged only when it cannot be read.
    let offsets = copies(disk.geometry().size_bytes);
    let partner = valid.iter().find(|(other, _)| *other == (index ^ 1));
    if partner.is_some_and(|(_, other)| *other != superblock) {
        invalid.push((index ^ 1, offsets[index ^ 1]));
    }
    let damaged = invalid.into_iter().map(|(_, offset)| offset).collect();
    Ok(Scan { superblock, damaged, newest_is_a })
}

/// The label of one open disk. Clones share it.
#[derive(Clone)]
pub struct Label(Rc<Inner>);

struct Inner {
    disk: Disk,
    superblock: RefCell<Superblock>,
    /// Whether the newest superblock on the disk is in pair A.
    newest_is_a: Cell<bool>,
    /// The highest generation tried so far.
    tried: Cell<u64>,
    updating: tokio::sync::Mutex<()>,
}

impl Label {
    /// Writes `superblock` to both pairs of a disk that holds nothing worth keeping (the caller has made sure), and erases both slots
    /// of the cluster configuration.
    ///
    /// # Errors
    /// `Encode`, `Disk`; the disk is then foreign or has this label.
    pub async fn format(disk: Disk, superblock: Superblock) -> Result<Self, LabelError> {
        let generation = superblock.generation.max(1);
        let superblock = Superblock { generation, ..superblock };
        for slot in CONFIG_SLOTS {
            disk.write(slot, vec![IoBuf::zeroed(BLOCK)]).await?;
        }
        let label = Self::new(disk, superblock, true);
        let all = copies(label.disk().geometry().size_bytes);
        let newest = label.superblock().clone();
        label.write_copies(&newest, &all).await?;
        label.disk().flush().await?;
        Ok(label)
    }

    /// Loads the label, rewrites damaged copies, and flushes: what was loaded is then durable.
    ///
    /// # Errors
    /// As [`scan`].
    pub async fn load(disk: Disk) -> Result<Self, LabelError> {
        let found = scan(&disk).await?;
        let label = Self::new(disk, found.superblock, found.newest_is_a);
        if !found.damaged.is_empty() {
            let newest = label.superblock().clone();
            label.write_copies(&newest, &found.damaged).await?;
        }
        label.disk().flush().await?;
        Ok(label)
    }

    /// A label for looking only: `superblock` as [`scan`] found it. Nothing was repaired.
    pub fn read_only(disk: Disk, found: Scan) -> Self {
        Self::new(disk, found.superblock, found.newest_is_a)
    }

    fn new(disk: Disk, superblock: Superblock, newest_is_a: bool) -> Self {
        Self(Rc::new(Inner {
            disk,
            tried: Cell::new(superblock.generation),
            superblock: RefCell::new(superblock),
            newest_is_a: Cell::new(newest_is_a),
            updating: tokio::sync::Mutex::new(()),
        }))
    }

    /// The disk.
    pub fn disk(&self) -> &Disk {
        &self.0.disk
    }

    /// The superblock as it is on the disk. Do not hold it across an await.
    pub fn superblock(&self) -> Ref<'_, Superblock> {
        self.0.superblock.borrow()
    }

    /// Applies `change`, writes the older pair and flushes the disk. On return the change is durable, and seen by
    /// [`Label::superblock`]; `change` sees the result of every update before it. Updates of several callers wait for each other.
    ///
    /// # Errors
    /// `Encode` (nothing written), `Disk` (memory is unchanged; the next load finds the old superblock or the new one).
    pub async fn update(&self, change: impl FnOnce(&mut Superblock)) -> Result<(), LabelError> {
        let _turn = self.0.updating.lock().await;
        let mut next = self.superblock().clone();
        change(&mut next);
        next.generation = self.0.tried.get() + 1;
        self.0.tried.set(next.generation);
        let all = copies(self.disk().geometry().size_bytes);
        let older = if self.0.newest_is_a.get() { &all[2..] } else { &all[..2] };
        self.write_copies(&next, older).await?;
        self.disk().flush().await?;
        *self.0.superblock.borrow_mut() = next;
        self.0.newest_is_a.set(!self.0.newest_is_a.get());
        Ok(())
    }

    async fn write_copies(&self, superblock: &Superblock, offsets: &[u64]) -> Result<(), LabelError> {
        for offset in offsets {
            let block = superblock.encode(*offset).map_err(LabelError::Encode)?;
            self.disk().write(*offset, vec![IoBuf::copy_of(&block)]).await?;
        }
        Ok(())
    }

    /// The newest valid cluster configuration on this disk; `None` when neither slot holds one.
    ///
    /// # Errors
    /// `Disk` when a slot could not be read.
    pub async fn load_config(&self) -> Result<Option<ConfigSlot>, LabelError> {
        let slots = self.config_slots().await?;
        Ok(slots.into_iter().flatten().max_by_key(|slot| (slot.epoch, slot.sequence)))
    }

    /// Writes a version of the cluster configuration over the older slot and flushes. The newer slot is never touched.
    ///
    /// # Errors
    /// `Config` (nothing written), `Disk` (the newer slot is as it was).
    pub async fn store_config(&self, slot: &ConfigSlot) -> Result<(), LabelError> {
        let _turn = self.0.updating.lock().await;
        let order = |slot: &Option<ConfigSlot>| slot.as_ref().map(|slot| (slot.epoch, slot.sequence));
        let slots = self.config_slots().await?;
        let older = if order(&slots[0]) > order(&slots[1]) { CONFIG_SLOTS[1] } else { CONFIG_SLOTS[0] };
        let block = slot.encode(self.dev_id(), older).map_err(LabelError::Config)?;
        self.disk().write(older, vec![IoBuf::copy_of(&block)]).await?;
        Ok(self.disk().flush().await?)
    }

    async fn config_slots(&self) -> Result<[Option<ConfigSlot>; 2], LabelError> {
        let mut slots = [None, None];
        for (slot, offset) in slots.iter_mut().zip(CONFIG_SLOTS) {
            let head = self.disk().read(offset, IoBuf::for_read(BLOCK)).await?;
            let Ok(len) = header::length_claimed(&head) else { continue };
            if len > CONFIG_SLOT_BYTES as usize || !len.is_multiple_of(BLOCK) {
                continue;
            }
            let block = self.disk().read(offset, IoBuf::for_read(len)).await?;
            *slot = ConfigSlot::decode(&block, self.dev_id(), offset).ok();
        }
        Ok(slots)
    }

    /// Number of this disk in block headers.
    pub fn dev_id(&self) -> u64 {
        dev_id(self.superblock().disk)
    }
}
