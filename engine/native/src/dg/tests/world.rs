//! A disk group on simulated disks, and what its blocks may hold.
use super::super::*;
use crate::cap::CapDisk;
use crate::fmt::log::head_blocks_claimed;
use crate::fmt::superblock::{CheckpointRoot, EncryptionSlot, Region, RegionKind, Roles, Superblock};
use crate::fmt::{BLOCK, crc32c};
use crate::io::below;
use crate::io::sim::{CrashKind, Events, SimDisk};
use model::ids::{ClusterId, HostId};
use model::state::Media;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::SeedableRng;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

pub const MIB: u64 = 1 << 20;
/// Blocks of every component here.
pub const BLOCKS: u64 = 256;

/// The disks of one group. `combined` puts log and extents on one.
pub struct World {
    pub events: Events,
    pub log: SimDisk,
    pub caps: Vec<SimDisk>,
    pub combined: bool,
    pub log_bytes: u64,
    pub epoch: u32,
    pub cfg: DgConfig,
    pub rng: RefCell<ChaCha8Rng>,
}

pub fn disk_id(index: u8) -> DiskId {
    DiskId::from_random([index; 16])
}

pub fn group_id() -> DiskGroupId {
    DiskGroupId::from_random([77; 16])
}

impl World {
    /// Formats a group of `caps` capacity disks and a log of `log_bytes`; with `combined` one disk is both.
    pub async fn new(seed: u64, caps: u8, log_bytes: u64, combined: bool) -> Self {
        let events = Events::default();
        let log = SimDisk::new(64 * MIB, seed, &events);
        let made = |index| match combined {
            true => log.clone(),
            false => SimDisk::new(64 * MIB, seed ^ (u64::from(index) << 32), &events),
        };
        let caps: Vec<SimDisk> = (1..=caps).map(made).collect();
        let rng = RefCell::new(ChaCha8Rng::seed_from_u64(seed));
        let cfg = DgConfig::default();
        let world = Self { events, log, caps, combined, log_bytes, epoch: 0, cfg, rng };
        world.format().await;
        world
    }

    fn superblock(&self, index: u8, roles: Roles) -> Superblock {
        let ids: Vec<DiskId> = (1..=self.caps.len() as u8).map(disk_id).collect();
        let log_disk = if self.combined { disk_id(1) } else { disk_id(0) };
        let group = group_id();
        let mut regions = Vec::new();
        if roles.contains(Roles::CACHE) {
            let (offset_bytes, len_bytes) = (3 * MIB, self.log_bytes);
            regions.push(Region { kind: RegionKind::Log, group, offset_bytes, len_bytes });
        }
        if roles.contains(Roles::CAPACITY) {
            let offset_bytes = if self.combined { 3 * MIB + self.log_bytes } else { 3 * MIB };
            let len_bytes = 60 * MIB - offset_bytes;
            regions.push(Region { kind: RegionKind::Extents, group, offset_bytes, len_bytes });
        }
        Superblock {
            generation: 1,
            incompatible: 0,
            read_only_compatible: 0,
            compatible: 0,
            cluster: ClusterId::from_random([1; 16]),
            disk: disk_id(index),
            host: HostId::from_random([2; 16]),
            name: "disk".into(),
            size_bytes: 64 * MIB,
            physical_block_bytes: 4096,
            media: Media::Flash,
            roles,
            epoch: 0,
            clean: false,
            encryption: [EncryptionSlot::default(), EncryptionSlot::default()],
            checkpoint: CheckpointRoot::default(),
            regions,
            groups: vec![Dg::new_group(group, log_disk, &ids)],
        }
    }

    async fn format(&self) {
        let (own, roles) = if self.combined { (1, Roles::COMBINED) } else { (0, Roles::CACHE) };
        let log = Label::format(self.log.open().await, self.superblock(own, roles)).await.unwrap();
        Dg::format(&log, group_id()).await.unwrap();
        if self.combined {
            CapDisk::format(&log).await.unwrap();
            return;
        }
        for (index, cap) in (1..).zip(&self.caps) {
            let superblock = self.superblock(index, Roles::CAPACITY);
            CapDisk::format(&Label::format(cap.open().await, superblock).await.unwrap()).await.unwrap();
        }
    }

    /// Opens the group in a new life.
    pub async fn open(&mut self) -> Dg {
        self.epoch += 1;
        self.try_open().await.unwrap()
    }

    pub async fn try_open(&self) -> Result<Dg, DgError> {
        let log = Label::load(self.log.open().await).await.unwrap();
        let mut caps = Vec::new();
        for cap in &self.caps {
            let label =
                if self.combined { log.clone() } else { Label::load(cap.open().await).await.unwrap() };
            caps.push(label);
        }
        Dg::open(DgParts { group: group_id(), log, caps, epoch: self.epoch }, self.cfg).await
    }

    /// Ends the life of the group.
    pub fn crash(&self, dg: Dg, kind: CrashKind) {
        dg.kill();
        drop(dg);
        self.log.crash(kind);
        if !self.combined {
            self.caps.iter().for_each(|cap| cap.crash(kind));
        }
        self.events.stop_after(None);
    }

    pub fn below(&self, n: u64) -> u64 {
        below(&mut *self.rng.borrow_mut(), n)
    }
}

/// Offsets (on the disk) of the batch headers in the ring, oldest batch first.
pub fn headers(world: &World) -> Vec<u64> {
    let blocks = (0..world.log_bytes / 4096).map(|block| 3 * MIB + block * 4096);
    let seq = |at: &u64| {
        let block = world.log.peek(*at, 4096);
        head_blocks_claimed(&block)?;
        Some((u64::from_le_bytes(block[64..72].try_into().ok()?), *at))
    };
    let found: BTreeMap<u64, u64> = blocks.filter_map(|at| seq(&at)).collect();
    found.into_values().collect()
}

/// A component to make.
pub fn new_component(number: u8, csn: (u64, u64)) -> NewComponent {
    NewComponent {
        component: ComponentId::from_random([number; 16]),
        object: ObjectId::from_random([number; 16]),
        kind: ComponentKind::Data,
        size_blocks: BLOCKS,
        csn,
        descriptor: descriptor(csn),
    }
}

pub fn descriptor(csn: (u64, u64)) -> Rc<[u8]> {
    vec![csn.1 as u8; 100 + csn.1 as usize % 5000].into()
}

/// The block that stands for `tag`; 0 is zeros.
pub fn block_of(tag: u64) -> [u8; BLOCK] {
    let mut bytes = [0; BLOCK];
    bytes.chunks_exact_mut(8).for_each(|part| part.copy_from_slice(&tag.to_le_bytes()));
    bytes
}

/// A data append of `tags`, one block each.
pub fn data(local: LocalId, block: u64, oseq: u64, tags: &[u64]) -> Append {
    let bytes: Vec<u8> = tags.iter().flat_map(|tag| block_of(*tag)).collect();
    let crcs = bytes.chunks(BLOCK).map(crc32c).collect();
    let (kind, nblk, bufs) = (AppendKind::Data, tags.len() as u32, vec![IoBuf::copy_of(&bytes)]);
    Append {
        local,
        kind,
        block,
        nblk,
        oseq,
        data_oseq: oseq,
        bufs,
        crcs,
        reservation: Reservation::default(),
    }
}

/// A trim.
pub fn trim(local: LocalId, block: u64, oseq: u64, nblk: u32) -> Append {
    let kind = AppendKind::Trim;
    let (bufs, crcs) = (Vec::new(), Rc::from([]));
    Append {
        local,
        kind,
        block,
        nblk,
        oseq,
        data_oseq: oseq,
        bufs,
        crcs,
        reservation: Reservation::default(),
    }
}

/// Tags of a range; `None` where it is not readable.
pub async fn tags(dg: &Dg, local: LocalId, block: u64, nblk: u32) -> Vec<Option<u64>> {
    let mut tags = Vec::new();
    for run in dg.read(local, block, nblk).await.unwrap() {
        match run.content {
            Content::Data { buf, crcs } => {
                assert_eq!((buf.len(), crcs.len()), (run.nblk as usize * BLOCK, run.nblk as usize));
                for bytes in buf.chunks(BLOCK) {
                    let tag = u64::from_le_bytes(bytes[..8].try_into().unwrap());
                    assert_eq!(bytes, block_of(tag), "a mixture");
                    tags.push(Some(tag));
                }
            }
            Content::Zero => tags.extend((0..run.nblk).map(|_| Some(0))),
            Content::Bad | Content::IoError => tags.extend((0..run.nblk).map(|_| None)),
        }
    }
    assert_eq!(tags.len(), nblk as usize);
    tags
}

/// What one block may hold.
#[derive(Clone, Debug, Default)]
struct History {
    flushed: u64,
    /// Written after the flush, in order: number of the write, and tag.
    later: Vec<(u64, u64)>,
    /// The newest write that was acknowledged.
    acked: u64,
}

impl History {
    fn live(&self) -> u64 {
        let acked = self.later.iter().rev().find(|(number, _)| *number <= self.acked);
        acked.map_or(self.flushed, |(_, tag)| *tag)
    }
}

/// CSN with its epoch.
pub type Version = (u64, u64);

/// One write as the oracle knows it.
#[derive(Clone, Copy)]
pub struct Write {
    number: u64,
    pub oseq: u64,
}

/// What every block may hold, and which components exist.
#[derive(Default)]
pub struct Oracle {
    blocks: BTreeMap<(LocalId, u64), History>,
    /// Version of each descriptor: the one that was acknowledged, and one that may have been reached.
    pub comps: BTreeMap<LocalId, (Version, Option<Version>)>,
    pub deleting: BTreeSet<LocalId>,
    oseqs: BTreeMap<LocalId, u64>,
    in_flight: BTreeSet<(LocalId, u64)>,
    numbers: u64,
}

impl Oracle {
    /// A write is sent.
    pub fn sent(&mut self, local: LocalId, block: u64, tags: &[u64]) -> Write {
        self.numbers += 1;
        for (at, tag) in (block..).zip(tags) {
            self.blocks.entry((local, at)).or_default().later.push((self.numbers, *tag));
        }
        let oseq = self.oseqs.entry(local).or_default();
        *oseq += 1;
        self.in_flight.insert((local, *oseq));
        Write { number: self.numbers, oseq: *oseq }
    }

    /// A write was acknowledged.
    pub fn acked(&mut self, local: LocalId, block: u64, nblk: usize, write: Write) {
        for at in block..block + nblk as u64 {
            let history = self.blocks.entry((local, at)).or_default();
            history.acked = history.acked.max(write.number);
        }
        self.in_flight.remove(&(local, write.oseq));
    }

    /// For each component the sequence up to which everything is acknowledged.
    fn low_water(&self) -> BTreeMap<LocalId, u64> {
        let low = |(local, last): (&LocalId, &u64)| {
            let lowest = self.in_flight.range((*local, 0)..=(*local, u64::MAX)).next();
            (*local, lowest.map_or(*last, |(_, oseq)| oseq - 1))
        };
        self.oseqs.iter().map(low).collect()
    }

    /// Live reads see the last acknowledged write.
    pub async fn check_live(oracle: &RefCell<Self>, dg: &Dg, local: LocalId, block: u64, nblk: u32) {
        for (at, tag) in (block..).zip(tags(dg, local, block, nblk).await) {
            let history = oracle.borrow().blocks.get(&(local, at)).cloned().unwrap_or_default();
            assert_eq!(tag, Some(history.live()), "component {local} block {at}: {history:?}");
        }
    }

    /// A readable block that is not what was last acknowledged.
    pub async fn wrong(oracle: &RefCell<Self>, dg: &Dg, local: LocalId) -> Option<String> {
        let found = tags(dg, local, 0, BLOCKS as u32).await;
        let oracle = oracle.borrow();
        let live = |at: u64| oracle.blocks.get(&(local, at)).map_or(0, History::live);
        let mut wrong = (0..).zip(found).filter(|(at, tag)| tag.is_some_and(|tag| tag != live(*at)));
        wrong.next().map(|(at, tag)| format!("component {local} block {at}: {tag:?}, not {}", live(at)))
    }

    /// After a crash every block holds what it may, and what was read stays. The owner then makes it stable.
    async fn check_crash(&mut self, dg: &Dg, kind: CrashKind) -> Result<(), String> {
        self.check_components(dg)?;
        for component in dg.components() {
            let local = component.local;
            if component.damaged {
                return Err(format!("component {local} is said to be damaged"));
            }
            for (at, tag) in (0..).zip(tags(dg, local, 0, BLOCKS as u32).await) {
                let history = self.blocks.entry((local, at)).or_default();
                let mut allowed = vec![];
                match kind {
                    CrashKind::Kill => {
                        allowed.push(history.live());
                        let newer = history.later.iter().filter(|(number, _)| *number > history.acked);
                        allowed.extend(newer.map(|(_, tag)| *tag));
                    }
                    CrashKind::Power => {
                        allowed.push(history.flushed);
                        allowed.extend(history.later.iter().map(|(_, tag)| *tag));
                    }
                }
                let Some(tag) = tag.filter(|tag| allowed.contains(tag)) else {
                    return Err(format!("component {local} block {at}: {tag:?} is none of {allowed:?}"));
                };
                *history = History { flushed: tag, ..History::default() };
            }
            let oseq = self.oseqs.get(&local).copied().unwrap_or(0);
            if dg.max_oseq(local) > oseq {
                return Err(format!("component {local}: sequence {} of {oseq}", dg.max_oseq(local)));
            }
            dg.set_stable(local, oseq);
        }
        self.in_flight.clear();
        Ok(())
    }

    fn check_components(&mut self, dg: &Dg) -> Result<(), String> {
        let found: BTreeMap<LocalId, DgComponent> =
            dg.components().into_iter().map(|component| (component.local, component)).collect();
        let deleting = std::mem::take(&mut self.deleting);
        self.comps.retain(|local, _| !deleting.contains(local) || found.contains_key(local));
        for (local, (csn, maybe)) in &mut self.comps {
            let component = found.get(local).ok_or(format!("component {local} is lost"))?;
            if component.csn != *csn && Some(component.csn) != *maybe {
                return Err(format!("component {local}: version {:?}, not {csn:?}", component.csn));
            }
            if component.descriptor != descriptor(component.csn) {
                return Err(format!("component {local}: descriptor of another version"));
            }
            (*csn, *maybe) = (component.csn, None);
        }
        for local in found.keys().filter(|local| !self.comps.contains_key(local)) {
            // One that was being created when the world ended.
            if self.blocks.keys().any(|(known, _)| known == local) {
                return Err(format!("component {local} is back from the dead"));
            }
        }
        Ok(())
    }
}

/// See [`Oracle::check_crash`].
pub async fn check_crash(oracle: &RefCell<Oracle>, dg: &Dg, kind: CrashKind) -> Result<(), String> {
    let mut taken = oracle.take();
    let checked = taken.check_crash(dg, kind).await;
    oracle.replace(taken);
    checked
}

/// What an owner does: flushes, then says what is stable.
pub async fn flush(dg: &Dg, oracle: &RefCell<Oracle>) -> Result<(), DgError> {
    let (covered, stable): (Vec<_>, _) = {
        let oracle = oracle.borrow();
        (oracle.blocks.iter().map(|(at, history)| (*at, history.acked)).collect(), oracle.low_water())
    };
    dg.flush().await?;
    for (at, acked) in covered {
        if let Some(history) = oracle.borrow_mut().blocks.get_mut(&at) {
            let newest = history.later.iter().rev().find(|(number, _)| *number <= acked);
            history.flushed = newest.map_or(history.flushed, |(_, tag)| *tag);
            history.later.retain(|(number, _)| *number > acked);
        }
    }
    stable.into_iter().for_each(|(local, oseq)| dg.set_stable(local, oseq));
    Ok(())
}

/// One write (or, with tag 0, a trim), with everything the oracle must hear of it.
pub async fn change(
    dg: &Dg,
    oracle: &RefCell<Oracle>,
    local: LocalId,
    block: u64,
    tags: &[u64],
) -> Result<(), DgError> {
    let write = oracle.borrow_mut().sent(local, block, tags);
    let nblk = tags.len() as u32;
    let append = match tags[0] {
        0 => trim(local, block, write.oseq, nblk),
        _ => Append { reservation: dg.admit(local, block, nblk)?, ..data(local, block, write.oseq, tags) },
    };
    dg.append(append).await?;
    oracle.borrow_mut().acked(local, block, tags.len(), write);
    Ok(())
}

/// Flushes whenever the group asks for it, until it is gone.
pub async fn own(dg: Dg, oracle: Rc<RefCell<Oracle>>) {
    loop {
        dg.flush_wanted().notified().await;
        if flush(&dg, &oracle).await.is_err() {
            return;
        }
    }
}
