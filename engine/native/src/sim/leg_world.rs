//! One disk group alone: a volume on one component per capacity disk, with the smallest owner that keeps the rules.
//!
//! The owner gives out sequences, says what is stable (the low-water mark) and flushes by itself, as an object does.
use super::content::SECTOR;
use super::group::{Group, Limits};
use super::reference::{Outage, Violation};
use super::workload::{Board, Failure, Load, Volume};
use super::world::{Plan, Story, System, live};
use crate::cap::Content;
use crate::dg::{Append, AppendKind, Dg, DgError, NewComponent};
use crate::fmt::component::ComponentKind;
use crate::fmt::{BLOCK, LocalId, crc32c};
use crate::io::sim::Events;
use crate::io::{Env, IoBuf};
use model::ids::{ClusterId, ComponentId, HostId, ObjectId};
use model::units::Timestamp;
use std::cell::{Cell, RefCell};
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

const SECTORS: u64 = BLOCK as u64 / SECTOR;
/// Blocks of the volume on each component: a few extents, so that rewriting is the rule.
const COMPONENT_BLOCKS: u64 = 192;

struct Sequence {
    next: Cell<u64>,
    under_way: RefCell<BTreeSet<u64>>,
}

impl Sequence {
    fn begin(&self) -> u64 {
        let oseq = self.next.get();
        self.next.set(oseq + 1);
        self.under_way.borrow_mut().insert(oseq);
        oseq
    }

    fn end(&self, oseq: u64) {
        self.under_way.borrow_mut().remove(&oseq);
    }
}

/// The volume of one group.
#[derive(Clone)]
pub struct Leg {
    /// The group.
    pub dg: Dg,
    /// Its components.
    pub locals: Rc<Vec<LocalId>>,
    sequence: Rc<Sequence>,
}

impl Leg {
    /// The parts of a range of sectors: component, first block there, blocks.
    fn parts(&self, sectors: Range<u64>) -> Vec<(LocalId, u64, u32)> {
        let (mut block, end) = (sectors.start / SECTORS, sectors.end / SECTORS);
        let mut parts = Vec::new();
        while block < end {
            let (index, at) = (block / COMPONENT_BLOCKS, block % COMPONENT_BLOCKS);
            let nblk = (end - block).min(COMPONENT_BLOCKS - at);
            parts.push((self.locals[index as usize], at, nblk as u32));
            block += nblk;
        }
        parts
    }

    async fn change(
        &self,
        kind: AppendKind,
        sectors: Range<u64>,
        data: Option<IoBuf>,
    ) -> Result<(), Failure> {
        let parts = self.parts(sectors);
        let mut rooms = Vec::new();
        for (local, block, nblk) in &parts {
            let room = self.dg.admit(*local, *block, *nblk);
            rooms.push(room.map_err(|error| match error {
                DgError::Capacity(_) => Failure::Refused,
                other => Failure::Failed(other.to_string()),
            })?);
        }
        let bytes = parts.iter().map(|(_, _, nblk)| self.dg.log_bytes((*nblk).into(), data.is_some())).sum();
        let _room = self.dg.log_room(bytes).await.map_err(|error| Failure::Failed(error.to_string()))?;
        let oseq = self.sequence.begin();
        let mut from = 0;
        let mut appends = Vec::new();
        for ((local, block, nblk), reservation) in parts.into_iter().zip(rooms) {
            let len = nblk as usize * BLOCK;
            let bufs: Vec<IoBuf> = data.iter().map(|data| data.slice(from..from + len)).collect();
            from += len;
            let crcs = bufs.iter().flat_map(|buf| buf.chunks(BLOCK).map(crc32c)).collect();
            let append = Append { local, kind, block, nblk, oseq, data_oseq: oseq, bufs, crcs, reservation };
            appends.push(self.dg.append(append));
        }
        // All at once: parts that queue behind later writes could wait for log space that only this write's end gives free.
        let done = futures_util::future::try_join_all(appends).await;
        done.map_err(|error| Failure::Failed(error.to_string()))?;
        self.sequence.end(oseq);
        Ok(())
    }

    async fn make_stable(&self) -> Result<(), Failure> {
        let low = self.sequence.under_way.borrow().first().copied().unwrap_or(self.sequence.next.get()) - 1;
        self.dg.flush().await.map_err(|error| Failure::Failed(error.to_string()))?;
        self.dg.components().iter().for_each(|component| self.dg.set_stable(component.local, low));
        Ok(())
    }
}

impl Volume for Leg {
    async fn read(&self, sectors: Range<u64>) -> Result<Vec<IoBuf>, Failure> {
        let mut bufs = Vec::new();
        for (local, block, nblk) in self.parts(sectors) {
            let runs = self.dg.read(local, block, nblk).await;
            for run in runs.map_err(|error| Failure::Failed(error.to_string()))? {
                bufs.push(match run.content {
                    Content::Data { buf, .. } => buf,
                    Content::Zero => IoBuf::zeroed(run.nblk as usize * BLOCK),
                    Content::Bad | Content::IoError => {
                        return Err(Failure::Failed(format!("{} bad blocks at {local}/{block}", run.nblk)));
                    }
                });
            }
        }
        Ok(bufs)
    }

    async fn write(&self, first: u64, data: IoBuf, durable: bool) -> Result<(), Failure> {
        let end = first + data.len() as u64 / SECTOR;
        self.change(AppendKind::Data, first..end, Some(data)).await?;
        if durable { self.make_stable().await } else { Ok(()) }
    }

    async fn trim(&self, sectors: Range<u64>, keep: bool) -> Result<(), Failure> {
        self.change(if keep { AppendKind::Zero } else { AppendKind::Trim }, sectors, None).await
    }

    async fn flush(&self) -> Result<(), Failure> {
        self.make_stable().await
    }
}

/// A world of one group.
pub struct LegWorld {
    /// The group.
    pub group: Group,
    events: Events,
    env: Env,
    /// Components of the volume; empty before the first life.
    components: Vec<ComponentId>,
    scratch: ObjectId,
    /// The volume while the group runs.
    pub leg: Option<Leg>,
    auto_flush: Option<tokio::task::JoinHandle<()>>,
}

impl LegWorld {
    /// Draws a group of one to three capacity disks, or one that carries its own log.
    pub fn draw(env: &Env) -> Self {
        let events = Events::default();
        let cluster = ClusterId::from_random(env.id_bytes());
        let host = HostId::from_random(env.id_bytes());
        let group = Group::draw(env, &events, cluster, host, env.below(4) as usize, &Limits::default());
        let scratch = ObjectId::from_random(env.id_bytes());
        Self { group, events, env: env.clone(), components: Vec::new(), scratch, leg: None, auto_flush: None }
    }

    /// The world's randomness.
    pub fn env(&self) -> &Env {
        &self.env
    }

    /// Size of the volume, sectors.
    pub fn sectors(&self) -> u64 {
        self.group.caps.len() as u64 * COMPONENT_BLOCKS * SECTORS
    }

    async fn create_components(&mut self, dg: &Dg, epoch: u32) -> Result<(), Violation> {
        for (disk, _) in &self.group.caps {
            let component = ComponentId::from_random(self.env.id_bytes());
            let object = ObjectId::from_random([1; 16]);
            let new = new_component(component, object, epoch, COMPONENT_BLOCKS);
            dg.create_component(*disk, new).await.map_err(|error| Violation(error.to_string()))?;
            self.components.push(component);
        }
        Ok(())
    }

    /// A second object that comes and goes: whatever it shows must be its own.
    async fn scratch_life(&mut self) -> Result<(), DgError> {
        let Some(leg) = &self.leg else { return Ok(()) };
        let dg = leg.dg.clone();
        for old in dg.components().into_iter().filter(|component| component.object == self.scratch) {
            dg.delete_component(old.local).await?;
        }
        let disk = self.group.caps[self.env.below(self.group.caps.len() as u64) as usize].0;
        let component = ComponentId::from_random(self.env.id_bytes());
        let new = new_component(component, self.scratch, 1, 64);
        let local = dg.create_component(disk, new).await?;
        let mark = scratch_mark(component);
        for _ in 0..self.env.below(6) {
            let block = self.env.below(60);
            let Ok(reservation) = dg.admit(local, block, 4) else { break };
            let mut buf = IoBuf::zeroed(4 * BLOCK);
            buf.as_mut().fill(mark);
            let crcs = buf.chunks(BLOCK).map(crc32c).collect();
            let _room = dg.log_room(dg.log_bytes(4, true)).await?;
            let oseq = leg.sequence.begin();
            let (kind, bufs) = (AppendKind::Data, vec![buf]);
            dg.append(Append { local, kind, block, nblk: 4, oseq, data_oseq: oseq, bufs, crcs, reservation })
                .await?;
            leg.sequence.end(oseq);
        }
        // No owner leaves records unstable for long: they hold the tail of the log.
        dg.flush().await?;
        dg.set_stable(local, dg.max_oseq(local));
        Ok(())
    }

    async fn check_scratch(&self, dg: &Dg) -> Result<(), Violation> {
        for component in dg.components().into_iter().filter(|component| component.object == self.scratch) {
            let runs = dg.read(component.local, 0, 64).await.map_err(|error| Violation(error.to_string()))?;
            let mark = scratch_mark(component.component);
            for run in runs {
                match run.content {
                    Content::Zero => {}
                    Content::Data { buf, .. } if buf.iter().all(|byte| *byte == mark) => {}
                    other => {
                        return Err(Violation(format!("a new component shows {other:?} of another one")));
                    }
                }
            }
        }
        Ok(())
    }
}

fn scratch_mark(component: ComponentId) -> u8 {
    1 + component.0.as_bytes()[0] % 255
}

/// A component of `size_blocks` blocks with some descriptor.
pub(super) fn new_component(
    component: ComponentId,
    object: ObjectId,
    epoch: u32,
    size_blocks: u64,
) -> NewComponent {
    NewComponent {
        component,
        object,
        kind: ComponentKind::Data,
        size_blocks,
        csn: (u64::from(epoch), 1),
        descriptor: component.0.as_bytes().as_slice().into(),
    }
}

impl System for LegWorld {
    type Volume = Leg;

    async fn boot(&mut self) -> Result<Leg, Violation> {
        if self.components.is_empty() {
            // Making a group is not what is crashed here.
            self.events.stop_after(None);
            self.group.format().await?;
        }
        let labels = self.group.load().await?;
        let epoch = labels.epoch() + 1;
        let dg = self.group.open(labels, epoch).await?;
        if self.components.is_empty() {
            self.create_components(&dg, epoch).await?;
        }
        let found = dg.components();
        let local = |id: &ComponentId| found.iter().find(|component| component.component == *id);
        let Some(locals) = self.components.iter().map(|id| local(id).map(|found| found.local)).collect()
        else {
            return Err(Violation("a component that was made is gone".to_owned()));
        };
        self.check_scratch(&dg).await?;
        // What one copy holds is the truth: roll forward is to make it stable.
        dg.flush().await.map_err(|error| Violation(error.to_string()))?;
        for component in dg.components() {
            dg.set_stable(component.local, dg.max_oseq(component.local));
        }
        let sequence =
            Sequence { next: Cell::new(u64::from(epoch) << 44 | 1), under_way: RefCell::default() };
        let leg = Leg { dg, locals: Rc::new(locals), sequence: Rc::new(sequence) };
        self.auto_flush = Some(tokio::task::spawn_local(auto_flush(leg.clone())));
        self.leg = Some(leg.clone());
        Ok(leg)
    }

    fn crash(&mut self, outage: Outage) {
        if let Some(task) = self.auto_flush.take() {
            task.abort();
        }
        self.leg = None;
        self.group.crash(outage);
    }

    async fn disturb(&mut self, board: &Board) {
        let Some(leg) = &self.leg else { return };
        let done = match self.env.below(3) {
            0 => leg.dg.drain().await,
            1 => {
                let local = leg.locals[0];
                leg.dg.make_room(local).await
            }
            _ => self.scratch_life().await,
        };
        if let Err(error) = done
            && !matches!(error, DgError::Capacity(_))
        {
            board.broken(Violation(format!("a disturbance failed: {error}")));
        }
    }

    async fn settle(&mut self, _: &Board) -> Result<(), Violation> {
        let Some(leg) = self.leg.take() else { return Ok(()) };
        leg.make_stable().await.map_err(|failure| Violation(format!("{failure:?}")))?;
        leg.dg.drain().await.map_err(|error| Violation(error.to_string()))?;
        if let Some(task) = self.auto_flush.take() {
            task.abort();
        }
        drop(leg);
        self.group.verify().await
    }

    fn describe(&self) -> String {
        let under_way = self.leg.as_ref().map(|leg| leg.sequence.under_way.borrow().clone());
        format!("{}, under way {under_way:?}", self.group.describe())
    }

    fn events(&self) -> &Events {
        &self.events
    }
}

/// What an object does once a second and when a log fills.
async fn auto_flush(leg: Leg) {
    loop {
        let asked = tokio::time::timeout(Duration::from_secs(1), leg.dg.flush_wanted().notified());
        // Either way it is time to flush.
        let _ = asked.await;
        if leg.make_stable().await.is_err() {
            return;
        }
    }
}

/// One seed of this world.
pub async fn run(seed: u64) -> Result<Story, Violation> {
    let env = Env::seeded(seed, Timestamp(0));
    let mut world = LegWorld::draw(&env);
    let mut load = Load::draw(&env, SECTORS, world.sectors());
    // What is under way pins the log, and so does what it replaced: a request of several batches can wait for itself when
    // the log is full (seed 86 without this line).
    load.big = load.big.min(world.group.batch_blocks()).min(world.group.log_blocks() / (4 * load.clients));
    let load = Rc::new(load);
    let board = Board::new(&env, world.sectors());
    let plan = Plan {
        lives: 1 + env.below(5),
        ops: 20 + env.below(200),
        disturbances: env.below(4),
        power: env.chance(2, 3),
    };
    live(&mut world, &board, &load, plan).await
}
