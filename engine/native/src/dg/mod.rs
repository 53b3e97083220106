//! One disk group: a write-ahead log in front of up to seven capacity disks.
//!
//! Map: `pins` what keeps log space · `overlay` newest logged records of a component · `space` room on capacity disks ·
//! `room` room in the log, promised before a record exists · `core` shared state, failure · `append` the log writer · `flush`
//! shared flushes · `config` components come, change and go · `member` destage and checkpoint of one capacity disk · `tail`
//! moving the tail · `read` overlay over map · `scan` reading the log · `recover` opening a group.
//! Invariants: an append returns in chain order once it is in the log (it survives the death of the process); a flush returns
//! once everything appended before it is on stable media; nothing that is not stable is destaged; log space is reused only after
//! the superblock that names the new tail is flushed; an error of the log or of a flush is final for the whole group.
mod append;
mod config;
mod core;
mod flush;
mod member;
mod overlay;
mod pins;
mod read;
mod recover;
mod room;
mod scan;
mod space;
mod tail;
#[cfg(test)]
mod tests;

pub use crate::cap::{BlockRun, Content};
pub use config::NewComponent;
pub use room::LogRoom;
pub use space::Reservation;

use self::core::Core;
use crate::cap::CapError;
use crate::cap::label::{Label, LabelError};
use crate::fmt::component::ComponentKind;
use crate::fmt::{FmtError, LocalId};
use crate::io::{DiskError, IoBuf};
use model::ids::{ComponentId, DiskGroupId, DiskId, ObjectId};
use std::rc::Rc;

/// Capacity disks of one group at most.
const MEMBERS: usize = crate::fmt::superblock::MEMBERS_MAX;

/// Why a disk group did not do something.
#[derive(Clone, Debug, thiserror::Error)]
pub enum DgError {
    /// The group was stopped (host power-off or shutdown). What was under way may be in the log or not.
    #[error("the disk group is stopped")]
    Gone,
    /// The log failed or a flush of it: final, what was not flushed may be lost. Its legs are stale from their stable sequence.
    #[error("the log of the disk group failed")]
    Failed,
    /// The capacity disk of the component failed; nothing was written.
    #[error("capacity disk {0} failed")]
    DiskFailed(DiskId),
    /// The group has no such component.
    #[error("no component {0} in this disk group")]
    NoComponent(LocalId),
    /// The capacity disk of the component was pulled; nothing was written.
    #[error("capacity disk {0} is not there")]
    DiskGone(DiskId),
    /// The disk is no member of the group, or not there.
    #[error("disk {0} is not in this disk group")]
    NoDisk(DiskId),
    /// The range does not lie in the component, or payload and range differ: a mistake of the caller.
    #[error("{nblk} blocks at {block} are not a range of component {local}")]
    OutOfRange {
        /// The component.
        local: LocalId,
        /// First block.
        block: u64,
        /// Blocks.
        nblk: u32,
    },
    /// The descriptor is longer than one batch takes.
    #[error("a descriptor of {0} bytes is too long")]
    DescriptorTooLong(usize),
    /// The capacity disk refused; `CapError` says why. Out of space is raised here, before anything is written.
    #[error("the capacity disk refused")]
    Capacity(#[source] Rc<CapError>),
    /// The superblock could not be written.
    #[error("superblock of the disk group")]
    Label(#[source] Rc<LabelError>),
    /// Reading the log failed.
    #[error("reading the log failed")]
    ReadLog(#[source] DiskError),
    /// A record in the log cannot be understood although its checksum holds.
    #[error("a record in the log makes no sense")]
    Record(#[source] FmtError),
    /// The log disk has no region for this group.
    #[error("disk {0} carries no log of this disk group")]
    NoLogRegion(DiskId),
    /// The boot epoch is not above the one on the disk: `found` was there.
    #[error("boot epoch {given} is not above {found}")]
    Epoch {
        /// What the caller gave.
        given: u32,
        /// What a superblock has.
        found: u32,
    },
}

impl From<CapError> for DgError {
    fn from(error: CapError) -> Self {
        Self::Capacity(Rc::new(error))
    }
}

impl From<LabelError> for DgError {
    fn from(error: LabelError) -> Self {
        Self::Label(Rc::new(error))
    }
}

/// Numbers of a group that may be tuned. The defaults are for flash.
#[derive(Clone, Copy, Debug)]
pub struct DgConfig {
    /// Runs of blocks that all overlays together may hold; appends wait above. 1,000,000 are about 200 MiB.
    pub overlay_runs_max: usize,
    /// Runs that one sweep of the elevator takes. Source: vSAN-like elevators, 128.
    pub sweep_runs: usize,
    /// Destage writes at once on one disk.
    pub destage_depth: usize,
    /// Seconds between checkpoints of a disk that has something new.
    pub checkpoint_seconds: u64,
    /// Longest payload of one batch, blocks.
    pub batch_blocks_max: usize,
    /// Whether the log is written back to the capacity disks; a look at a cluster leaves it.
    pub writes_back: bool,
}

impl Default for DgConfig {
    fn default() -> Self {
        Self {
            overlay_runs_max: 1_000_000,
            sweep_runs: 128,
            destage_depth: 16,
            checkpoint_seconds: 30,
            batch_blocks_max: crate::fmt::log::PAYLOAD_BLOCKS_MAX,
            writes_back: true,
        }
    }
}

/// What a group is made of when it is opened. A `combined` group gives the same label twice.
pub struct DgParts {
    /// The group.
    pub group: DiskGroupId,
    /// The disk with the log region.
    pub log: Label,
    /// The capacity disks that are there.
    pub caps: Vec<Label>,
    /// Boot epoch of the cluster: above the one in any superblock of the group.
    pub epoch: u32,
}

/// What kind of change an append is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AppendKind {
    /// Client data.
    Data,
    /// Blocks given back.
    Trim,
    /// Blocks of zeros.
    Zero,
    /// Copied from another leg under a fresh sequence; without buffers it is a hole.
    Resync,
    /// Rewritten under its own sequence because this copy was bad; without buffers it is a hole.
    Repair,
}

/// One change of one component.
pub struct Append {
    /// The component.
    pub local: LocalId,
    /// What it is.
    pub kind: AppendKind,
    /// First block of 4 KiB.
    pub block: u64,
    /// Blocks.
    pub nblk: u32,
    /// Sequence of the object.
    pub oseq: u64,
    /// The sequence that the content stands for; `oseq` for client writes.
    pub data_oseq: u64,
    /// Payload, `nblk` blocks in whole blocks each, or nothing for a hole.
    pub bufs: Vec<IoBuf>,
    /// CRC-32C of each block.
    pub crcs: Rc<[u32]>,
    /// Room on the capacity disk, from [`Dg::admit`].
    pub reservation: Reservation,
}

/// A component as its group knows it.
#[derive(Clone, Debug)]
pub struct DgComponent {
    /// Number in the group.
    pub local: LocalId,
    /// The component.
    pub component: ComponentId,
    /// Its object.
    pub object: ObjectId,
    /// What it is for.
    pub kind: ComponentKind,
    /// The disk it lies on.
    pub disk: DiskId,
    /// Blocks of 4 KiB; 0 for a witness.
    pub size_blocks: u64,
    /// Version of the descriptor: (boot epoch, number).
    pub csn: (u64, u64),
    /// The object's descriptor, sealed.
    pub descriptor: Rc<[u8]>,
    /// All writes up to here are on this leg: where it is stale from when it is damaged.
    pub applied_stable_oseq: u64,
    /// The newest stable sequence that this leg knows.
    pub stable_oseq: u64,
    /// The disk or the log lost records of this component, and no descriptor says so yet.
    pub damaged: bool,
}

/// A run of blocks in the log that is newer than a sequence.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct UnstableRun {
    /// First block.
    pub block: u64,
    /// Blocks.
    pub nblk: u32,
    /// Sequence of the record.
    pub oseq: u64,
    /// The sequence that the content stands for.
    pub data_oseq: u64,
    /// It reads as zero.
    pub hole: bool,
}

/// How full the log is and how it goes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LogUsage {
    /// Size of the region.
    pub size_bytes: u64,
    /// Between tail and head.
    pub used_bytes: u64,
    /// Payload that its owners have not made stable: it cannot leave the log. When an object cannot be served, nobody does.
    pub unstable_bytes: u64,
    /// Appends wait for room.
    pub waiting: bool,
    /// Runs in memory.
    pub overlay_runs: usize,
    /// Stable data has waited for 10 s without any progress of destaging.
    pub stalled: bool,
}

/// One open disk group. Clones share it; the last drop stops its tasks.
#[derive(Clone)]
pub struct Dg {
    handle: Rc<Handle>,
}

struct Handle {
    core: Rc<Core>,
}

impl Drop for Handle {
    fn drop(&mut self) {
        self.core.kill();
    }
}

impl Dg {
    fn core(&self) -> &Rc<Core> {
        &self.handle.core
    }

    /// The group.
    pub fn group(&self) -> DiskGroupId {
        self.core().group
    }

    /// Host power-off: every task stops, every waiter gets `Gone`. I/O under way may still land.
    pub fn kill(&self) {
        self.core().kill();
    }

    /// Whether an error of the log was final.
    pub fn is_failed(&self) -> bool {
        self.core().check().is_err()
    }

    /// Whether the group was stopped, or the disk of its log was pulled: it is as it was when it is opened again.
    pub fn is_stopped(&self) -> bool {
        matches!(self.core().check(), Err(DgError::Gone))
    }

    /// Members of the group whose disk failed or was pulled.
    pub fn failed_disks(&self) -> Vec<DiskId> {
        self.core().members.iter().filter(|member| member.failed.get()).map(|member| member.disk).collect()
    }

    /// The disk is not there any more, although no I/O has met that yet. Nothing happens when it is not in the group.
    pub fn disk_pulled(&self, disk: DiskId) {
        let core = self.core();
        if core.label.superblock().disk == disk {
            core.fail(&DiskError::Gone);
        }
        if let Some(index) = core.members.iter().position(|member| member.disk == disk) {
            core.fail_member(index, &DiskError::Gone);
        }
    }

    /// Members of the group whose disk was pulled.
    pub fn pulled_disks(&self) -> Vec<DiskId> {
        self.core().members.iter().filter(|member| member.pulled.get()).map(|member| member.disk).collect()
    }
}
