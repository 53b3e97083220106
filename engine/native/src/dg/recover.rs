//! Making and opening a group.
//!
//! Map: [`Dg::format`] writes the ring · [`Dg::open`] reads the log, replays it into memory, raises the epoch, starts the tasks.
//! Invariants: opening may crash at any point and be done again; what was found missing is in the superblock before anything is
//! appended, so that no later crash can forget it; the epoch is in every superblock of the group before the first append.
use super::append::{self, rec_of};
use super::config::upsert;
use super::core::{Core, Member, State};
use super::pins::{Batch, Batches, Pin, Ring};
use super::scan::{Found, Scanned, Source, scan};
use super::{Dg, DgConfig, DgError, DgParts, Handle, member};
use crate::cap::label::Label;
use crate::cap::{self, CapDisk};
use crate::fmt::log::{Record, RecordKind};
use crate::fmt::log_config::ConfigPayload;
use crate::fmt::superblock::{self, GroupLog, Region, Superblock};
use crate::fmt::{BLOCK, LocalId, crc32c};
use crate::io::{DiskError, IoBuf};
use crate::mutant::{Mutant, on};
use model::ids::{DiskGroupId, DiskId};
use std::cell::{Cell, RefCell};
use std::collections::{BTreeMap, BTreeSet, VecDeque};
use std::rc::Rc;
use tokio::sync::{Notify, mpsc, oneshot};

/// How the commands of a member's task arrive.
type Drains = mpsc::UnboundedReceiver<oneshot::Sender<()>>;

impl Dg {
    /// What the superblocks of a new group say of it.
    pub fn new_group(group: DiskGroupId, log_disk: DiskId, capacity: &[DiskId]) -> GroupLog {
        let member = |disk: &DiskId| superblock::Member {
            disk: *disk,
            epoch: 0,
            damaged_epoch: 0,
            checkpoint_generation: 0,
        };
        GroupLog {
            group,
            log_disk,
            tail_seq: 1,
            tail_offset_bytes: 0,
            flushed_seq: 0,
            next_local: LocalId(1),
            members: capacity.iter().map(member).collect(),
        }
    }

    /// Fills the ring of `group` with zeros and flushes: an append to written space needs no metadata of a file system under it, and
    /// no batch of an earlier life of the disk is left to be found.
    ///
    /// # Errors
    /// `NoLogRegion`; `ReadLog` when the disk fails.
    pub async fn format(log: &Label, group: DiskGroupId) -> Result<(), DgError> {
        let (disk, region) = {
            let superblock = log.superblock();
            (superblock.disk, superblock.log_region(group))
        };
        let region = region.ok_or(DgError::NoLogRegion(disk))?;
        let filled = log.disk().fill_with_zeros(region.offset_bytes, region.len_bytes).await;
        filled.map_err(DgError::ReadLog)?;
        log.disk().flush().await.map_err(DgError::ReadLog)
    }

    /// Opens a group: recovers what its log holds and starts its tasks (on the `LocalSet` of the caller).
    ///
    /// # Errors
    /// `NoLogRegion`, `Epoch`: nothing was written. `ReadLog`, `Label`: opening can be tried again. A capacity disk that cannot be
    /// opened is left out, like one that is not there.
    pub async fn open(parts: DgParts, cfg: DgConfig) -> Result<Self, DgError> {
        let (known, region, dev_id) = log_of(&parts)?;
        let (members, drains) = open_members(&parts, &known).await;
        // What this life builds on must not be lost by a power cut that a new batch would not notice.
        parts.log.disk().flush().await.map_err(DgError::ReadLog)?;
        let flushed =
            members.iter().map(|member| member.applied_batch.get()).fold(known.flushed_seq, u64::max);
        let source = Source {
            log: parts.log.disk(),
            region,
            dev_id,
            tail: (known.tail_seq, known.tail_offset_bytes),
            flushed_seq: flushed,
            epoch: parts.log.superblock().epoch,
        };
        let scanned = scan(&source).await.map_err(DgError::ReadLog)?;
        if scanned.damaged {
            tracing::error!(group = %parts.group, last = scanned.last_seq, "flushed batches are missing from the log");
        }
        let core = Rc::new(core_of(&parts, cfg, members, region, dev_id, &known, &scanned));
        for index in 0..core.members.len() {
            for info in core.members[index].cap.components() {
                core.add_comp(info.local, index, info.size_blocks, info.applied_stable_oseq);
            }
        }
        let damaged = scanned.damaged | core.replay(&scanned.batches).await?;
        core.enter_life(&parts, &known, damaged).await?;
        core.start(drains);
        Ok(Self { handle: Rc::new(Handle { core }) })
    }
}

/// What the log disk says of the group; checks the epoch.
fn log_of(parts: &DgParts) -> Result<(GroupLog, Region, u64), DgError> {
    for label in parts.caps.iter().chain([&parts.log]) {
        let found = label.superblock().epoch;
        if parts.epoch < found {
            return Err(DgError::Epoch { given: parts.epoch, found });
        }
    }
    let superblock = parts.log.superblock();
    let missing = DgError::NoLogRegion(superblock.disk);
    match (superblock.group(parts.group), superblock.log_region(parts.group)) {
        (Some(known), Some(region)) => Ok((known.clone(), region, parts.log.dev_id())),
        _ => Err(missing),
    }
}

async fn open_members(parts: &DgParts, known: &GroupLog) -> (Vec<Member>, Vec<Drains>) {
    let (mut members, mut drains) = (Vec::new(), Vec::new());
    for label in &parts.caps {
        let disk = label.superblock().disk;
        if !known.members.iter().any(|member| member.disk == disk) {
            tracing::warn!(%disk, "not a member of this disk group");
            continue;
        }
        let cap = match CapDisk::open(label.clone()).await {
            Ok(cap) => cap,
            Err(error) => {
                tracing::error!(%disk, error = &error as &dyn std::error::Error, "capacity disk cannot be opened");
                continue;
            }
        };
        let root = label.superblock().checkpoint;
        let (sender, receiver) = mpsc::unbounded_channel();
        drains.push(receiver);
        members.push(Member {
            disk,
            cap,
            label: label.clone(),
            failed: Cell::new(false),
            pulled: Cell::new(false),
            last_batch: Cell::new(0),
            applied_batch: Cell::new(root.applied_batch),
            generation: Cell::new(root.generation),
            kick: Notify::new(),
            drains: sender,
            progress: Cell::new(None),
        });
    }
    (members, drains)
}

fn core_of(
    parts: &DgParts,
    cfg: DgConfig,
    members: Vec<Member>,
    region: Region,
    dev_id: u64,
    known: &GroupLog,
    scanned: &Scanned,
) -> Core {
    let last = scanned.batches.last();
    let state = State {
        comps: BTreeMap::new(),
        batches: Batches::default(),
        ring: Ring {
            len_bytes: region.len_bytes,
            head: scanned.head,
            used_bytes: scanned.batches.iter().map(|batch| batch.len_bytes).sum(),
        },
        next_seq: scanned.seq_max + 1,
        prev_crc: last.map_or(0, |last| last.crc),
        durable: scanned.last_seq,
        completed: scanned.last_seq,
        writing: None,
        flushing: None,
        queue: VecDeque::new(),
        urgent: VecDeque::new(),
        stable_dirty: BTreeMap::new(),
        blocked: false,
        overlay_runs: 0,
        next_local: known.next_local.0,
        damaged: BTreeSet::new(),
        unknown_last: 0,
    };
    Core {
        group: parts.group,
        cfg,
        epoch: parts.epoch,
        label: parts.log.clone(),
        log: parts.log.disk().clone(),
        dev_id,
        region_offset: region.offset_bytes,
        members,
        state: RefCell::new(state),
        dead: Cell::new(None),
        rooms: Rc::default(),
        flushed: Notify::new(),
        flush_wanted: Notify::new(),
        told_waiting: Cell::default(),
        tail_lock: tokio::sync::Mutex::new(()),
        tasks: RefCell::default(),
    }
}

impl Core {
    /// Brings the log's records into memory. Returns whether a configuration in it could not be read.
    async fn replay(&self, batches: &[Found]) -> Result<bool, DgError> {
        let mut lost = false;
        for found in batches {
            let batch =
                self.state.borrow_mut().batches.push(found.head.batch_seq, found.offset, found.len_bytes);
            let crcs: Rc<[u32]> = found.head.crcs.as_slice().into();
            for record in &found.head.records {
                match record.kind {
                    RecordKind::Config => lost |= !self.replay_config(found, record, &batch).await?,
                    RecordKind::Delete => self.replay_delete(record, &batch),
                    RecordKind::Stable => self.replay_stable(record, &batch),
                    RecordKind::Pad => {}
                    _ => self.replay_content(found, record, &batch, &crcs),
                }
            }
        }
        let highest = self.state.borrow().comps.keys().next_back().map_or(0, |local| local.0);
        let mut state = self.state.borrow_mut();
        state.next_local = state.next_local.max(highest + 1);
        Ok(lost)
    }

    /// The member on which a record's component lies, when the record is not in its checkpoint; notes that the log has it.
    fn replays(&self, record: &Record, batch: &Batch) -> Option<usize> {
        let mut state = self.state.borrow_mut();
        state.next_local = state.next_local.max(record.component.0 + 1);
        let Some(comp) = state.comps.get(&record.component) else {
            state.unknown_last = batch.seq;
            return None;
        };
        let member = &self.members[comp.member];
        if batch.seq <= member.applied_batch.get() {
            return None;
        }
        member.last_batch.set(batch.seq);
        Some(comp.member)
    }

    fn replay_content(&self, found: &Found, record: &Record, batch: &Rc<Batch>, crcs: &Rc<[u32]>) {
        let Some(index) = self.replays(record, batch) else { return };
        let tokens = match record.payload_blocks() {
            0 => Vec::new(),
            // It was admitted when it was written; without a promise its write takes what is free.
            _ => self.admit(record.component, record.block, record.nblk.into()).unwrap_or_default().tokens,
        };
        let payload = u64::from(record.payload) * BLOCK as u64;
        let pin = Pin::new(batch, index);
        let rec =
            rec_of(record, found.payload_at + payload, crcs.clone(), record.payload as usize, tokens, pin);
        let mut state = self.state.borrow_mut();
        let Some(comp) = state.comps.get_mut(&record.component) else { return };
        let inserted = comp.overlay.insert(rec);
        state.overlay_runs = state.overlay_runs.wrapping_add_signed(inserted.grown);
        self.remember(index, record, inserted.hidden);
    }

    fn replay_stable(&self, record: &Record, batch: &Batch) {
        let value = record.oseq;
        if let Some(comp) = self.state.borrow_mut().comps.get_mut(&record.component) {
            comp.overlay.set_stable(value);
        }
        if self.replays(record, batch).is_some() {
            self.note_stable(&mut self.state.borrow_mut(), batch, record.component, value);
        }
    }

    fn replay_delete(&self, record: &Record, batch: &Batch) {
        if let Some(index) = self.replays(record, batch) {
            self.remove_comp(record.component);
            self.members[index].cap.remove(record.component);
        }
    }

    /// Returns whether the configuration could be read.
    async fn replay_config(
        &self,
        found: &Found,
        record: &Record,
        batch: &Rc<Batch>,
    ) -> Result<bool, DgError> {
        let from = record.payload as usize;
        let crcs = &found.head.crcs[from..from + usize::from(record.nblk)];
        let at = found.payload_at + (from * BLOCK) as u64;
        let Some(buf) = self.read_verified(at, crcs).await? else { return Ok(false) };
        let bytes = &buf[..buf.len()];
        let payload = ConfigPayload::decode(bytes).map_err(DgError::Record)?;
        let local = record.component;
        let mut state = self.state.borrow_mut();
        state.next_local = state.next_local.max(local.0 + 1);
        let Some(index) = self.members.iter().position(|member| member.disk == payload.disk) else {
            state.unknown_last = batch.seq;
            return Ok(true);
        };
        drop(state);
        if batch.seq <= self.members[index].applied_batch.get() {
            return Ok(true);
        }
        self.members[index].last_batch.set(batch.seq);
        let new = cap::NewComponent {
            local,
            component: payload.component,
            object: payload.object,
            kind: payload.kind,
            size_blocks: payload.size_blocks,
            csn: (record.data_oseq, record.oseq),
            descriptor: payload.descriptor.into(),
        };
        if let Err(error) = upsert(&self.members[index].cap, new) {
            tracing::error!(%local, error = &error as &dyn std::error::Error, "configuration cannot be replayed");
            return Ok(true);
        }
        let known = self.state.borrow_mut().comps.get_mut(&local).map(|comp| {
            comp.size_blocks = comp.size_blocks.max(payload.size_blocks);
        });
        if known.is_none() {
            self.add_comp(local, index, payload.size_blocks, 0);
        }
        Ok(true)
    }

    async fn read_verified(&self, at: u64, crcs: &[u32]) -> Result<Option<IoBuf>, DgError> {
        for _ in 0..2 {
            match self.log.read(at, IoBuf::for_read(crcs.len() * BLOCK)).await {
                Ok(buf) if buf.chunks(BLOCK).zip(crcs).all(|(block, crc)| crc32c(block) == *crc) => {
                    return Ok(Some(buf));
                }
                Ok(_) | Err(DiskError::Io { .. }) => {}
                Err(error) => return Err(DgError::ReadLog(error)),
            }
        }
        Ok(None)
    }

    /// Writes epoch and what was found missing into the superblocks of the group.
    async fn enter_life(&self, parts: &DgParts, known: &GroupLog, damaged: bool) -> Result<(), DgError> {
        let mut lost: BTreeMap<DiskId, u32> = BTreeMap::new();
        for member in &self.members {
            let Some(before) = known.members.iter().find(|known| known.disk == member.disk) else { continue };
            let (epoch, generation) = (member.label.superblock().epoch, member.generation.get());
            let old = epoch < before.epoch || generation < before.checkpoint_generation;
            let mut since = before.damaged_epoch;
            if damaged || old {
                let newest = member.cap.components().iter().map(|info| info.csn.0).max().unwrap_or(0);
                // Descriptors of this very epoch were committed before anyone could know.
                since = self.epoch + u32::from(newest >= u64::from(self.epoch));
            }
            if old {
                tracing::error!(disk = %member.disk, "an old copy of the disk: its components are stale");
            }
            let stale = member.cap.components().into_iter().filter(|info| info.csn.0 < u64::from(since));
            self.state.borrow_mut().damaged.extend(stale.map(|info| info.local));
            lost.insert(member.disk, since);
        }
        let (empty, next_seq, head, durable, next_local) = {
            let state = self.state.borrow();
            let empty = state.batches.is_first(u64::MAX);
            (empty, state.next_seq, state.ring.head, state.durable, state.next_local)
        };
        let begin = |superblock: &mut Superblock| {
            superblock.clean = false;
            if !on(Mutant::NoEpochBump) {
                superblock.epoch = self.epoch;
            }
        };
        let change = |superblock: &mut Superblock| {
            begin(superblock);
            let Some(group) = superblock.group_mut(self.group) else { return };
            if empty {
                (group.tail_seq, group.tail_offset_bytes) = (next_seq, head);
            }
            group.flushed_seq = durable;
            group.next_local = LocalId(next_local);
            for known in &mut group.members {
                if let Some(member) = self.members.iter().find(|member| member.disk == known.disk) {
                    known.damaged_epoch = lost.get(&member.disk).copied().unwrap_or(0);
                    known.checkpoint_generation = member.generation.get();
                }
            }
        };
        self.label.update(change).await?;
        for label in &parts.caps {
            let same = label.superblock().disk == self.label.superblock().disk;
            if !same {
                label.update(begin).await?;
            }
        }
        Ok(())
    }

    fn start(self: &Rc<Self>, drains: Vec<Drains>) {
        let mut tasks = self.tasks.borrow_mut();
        tasks.push(tokio::task::spawn_local(append::run(Rc::clone(self))));
        if !self.cfg.writes_back {
            return;
        }
        for (index, drains) in drains.into_iter().enumerate() {
            tasks.push(tokio::task::spawn_local(member::run(Rc::clone(self), index, drains)));
        }
    }
}
