//! Random schedules against a reference: several clients, flushes, hosts that go and return, resyncs, crashes, reopening.
//!
//! The reference keeps, for each block, the values that a read may show: the newest flushed one, every later acknowledged one, and
//! those under way. Without a power cut the newest acknowledged one is the floor. After an opening the first read settles it, on
//! both legs and for ever.
use super::mem::{Crash, Latency, MemStore, World, block_of, component, mirror, run};
use crate::fmt::descriptor::Node;
use crate::io::Env;
use crate::obj::{ObjError, Owner};
use model::state::ComponentState;
use model::units::{BLOCK_BYTES, STRIPE_UNIT_BYTES, Timestamp};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::time::Duration;

const BLOCKS: usize = 6;

#[derive(Default)]
struct Known {
    /// Values in the order of acknowledgement; the first is the floor after power loss.
    acked: Vec<u64>,
    /// Index in `acked` of the newest flushed one.
    flushed: usize,
    under_way: Vec<u64>,
    /// Written, and neither acknowledged nor settled since.
    doubtful: Vec<u64>,
}

struct Reference {
    blocks: RefCell<Vec<Known>>,
    next: Cell<u64>,
}

impl Reference {
    fn new() -> Rc<Self> {
        let known = || Known { acked: vec![0], ..Known::default() };
        Rc::new(Self { blocks: RefCell::new((0..BLOCKS).map(|_| known()).collect()), next: Cell::new(1) })
    }

    fn allowed(&self, block: usize, power_lost: bool) -> Vec<u64> {
        let known = &self.blocks.borrow()[block];
        let from = if power_lost { known.flushed } else { known.acked.len() - 1 };
        known.acked[from..].iter().chain(&known.under_way).chain(&known.doubtful).copied().collect()
    }

    fn settle(&self, block: usize, value: u64) {
        self.blocks.borrow_mut()[block] = Known { acked: vec![value], ..Known::default() };
    }
}

struct Run {
    world: Rc<World>,
    reference: Rc<Reference>,
    rng: Env,
    legs: usize,
    hosts: usize,
    /// A host lost power since the last settlement.
    power_lost: Cell<bool>,
    alive: Rc<Cell<bool>>,
}

/// Blocks of the object that the run uses: two columns, two extents.
fn place(block: usize) -> u64 {
    [0, 1, 40, 256, 257, 300][block]
}

async fn write(
    object: Owner<MemStore>,
    reference: Rc<Reference>,
    block: usize,
    trim: bool,
    alive: Rc<Cell<bool>>,
) {
    let value = if trim { 0 } else { reference.next.replace(reference.next.get() + 1) };
    reference.blocks.borrow_mut()[block].under_way.push(value);
    let at = place(block) * BLOCK_BYTES;
    let result = if trim {
        object.trim(at, BLOCK_BYTES, false).await
    } else {
        object.write_bytes(at, &block_of(value), false).await
    };
    if !alive.get() {
        return; // A crash came between: its value stays possible.
    }
    let known = &mut reference.blocks.borrow_mut()[block];
    let index = known.under_way.iter().position(|other| *other == value).expect("put there above");
    known.under_way.remove(index);
    match result {
        Ok(()) => known.acked.push(value),
        Err(_) => known.doubtful.push(value),
    }
}

async fn flush(object: Owner<MemStore>, reference: Rc<Reference>, alive: Rc<Cell<bool>>) {
    let before: Vec<usize> = reference.blocks.borrow().iter().map(|known| known.acked.len() - 1).collect();
    let result = object.flush().await;
    if !alive.get() {
        return;
    }
    if result == Err(ObjError::UnflushedLost) {
        // Told: what was acknowledged since the last flush may be there or not.
        for known in reference.blocks.borrow_mut().iter_mut() {
            let lost = known.acked.split_off(known.flushed + 1);
            known.doubtful.extend(lost);
        }
    }
    if result.is_ok() {
        for (known, index) in reference.blocks.borrow_mut().iter_mut().zip(before) {
            known.flushed = known.flushed.max(index.min(known.acked.len() - 1));
        }
    }
}

impl Run {
    fn new(seed: u64) -> Self {
        let rng = Env::seeded(seed, Timestamp(0));
        let (copies, witnesses) = if rng.chance(1, 4) { (3, 2) } else { (2, 1) };
        let leg_bytes = 2 * STRIPE_UNIT_BYTES;
        let layout = if rng.chance(1, 3) {
            Node::Stripe(vec![mirror(0..copies, leg_bytes), mirror(copies..2 * copies, leg_bytes)])
        } else {
            mirror(0..copies, leg_bytes)
        };
        let legs = layout.legs().len();
        let world = World::new(seed, layout, 2 * STRIPE_UNIT_BYTES, witnesses);
        let jitter = Duration::from_micros(1 + rng.below(3000));
        for n in 0..legs + witnesses {
            world.part(n).latency.set(Latency { jitter, ..Latency::default() });
        }
        let reference = Reference::new();
        let (power_lost, alive) = (Cell::new(false), Rc::new(Cell::new(true)));
        Self { world, reference, rng, legs, hosts: legs + witnesses, power_lost, alive }
    }

    fn down(&self) -> Vec<usize> {
        (0..self.hosts).filter(|n| !self.world.is_up(*n)).collect()
    }

    async fn step(&self, object: &Owner<MemStore>) -> Result<(), String> {
        match self.rng.below(100) {
            0..40 => {
                let (block, trim) = (self.rng.below(BLOCKS as u64) as usize, self.rng.chance(1, 8));
                tokio::task::spawn_local(write(
                    object.clone(),
                    self.reference.clone(),
                    block,
                    trim,
                    self.alive.clone(),
                ));
            }
            40..55 => {
                tokio::task::spawn_local(flush(object.clone(), self.reference.clone(), self.alive.clone()));
            }
            55..60 if self.down().is_empty() => {
                let n = self.rng.below(self.hosts as u64) as usize;
                let kind = if self.rng.chance(1, 2) { Crash::Power } else { Crash::Kill };
                self.world.down(n, kind);
                // With power it lost what was not flushed: fine as long as it is marked before it can be alone.
                if kind == Crash::Power || self.rng.chance(1, 2) {
                    object.legs_gone(&[component(n)]).await;
                }
                self.power_lost
                    .set(self.power_lost.get() || kind == Crash::Power && object.inaccessible().is_some());
            }
            60..68 => {
                for n in self.down() {
                    object.legs_gone(&[component(n)]).await;
                    self.world.up(n);
                    let _ = object.legs_returned(&[component(n)]).await;
                }
            }
            68..76 => {
                for leg in object.descriptor().layout.legs() {
                    if leg.state == ComponentState::Stale {
                        let (object, target) = (object.clone(), leg.component);
                        tokio::task::spawn_local(async move { _ = object.resync(target, &()).await });
                    }
                }
            }
            76..86 => {
                let block = self.rng.below(BLOCKS as u64) as usize;
                let before = self.reference.allowed(block, false);
                match object.read_bytes(place(block) * BLOCK_BYTES, 8).await {
                    Ok(bytes) => {
                        let value = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
                        let after = self.reference.allowed(block, true);
                        if !before.contains(&value) && !after.contains(&value) {
                            return Err(format!(
                                "live read of block {block}: {value}, allowed {before:?} {after:?}"
                            ));
                        }
                    }
                    Err(ObjError::Inaccessible(_)) => {}
                    Err(other) => return Err(other.to_string()),
                }
            }
            _ => tokio::time::sleep(Duration::from_micros(self.rng.below(4000))).await,
        }
        Ok(())
    }

    /// Everything stops; some host may stay away at the next opening.
    async fn crash(&self) -> Result<Owner<MemStore>, String> {
        self.alive.set(false);
        let power = self.rng.chance(1, 2);
        let absent = self.down();
        let stay: Vec<usize> = if !absent.is_empty() && self.rng.chance(1, 2) {
            absent
        } else if self.rng.chance(1, 3) {
            vec![self.rng.below(self.hosts as u64) as usize]
        } else {
            Vec::new()
        };
        self.power_lost.set(self.power_lost.get() || power);
        self.world.crash_all(if power { Crash::Power } else { Crash::Kill }, &stay);
        // Tasks of the old life run into closed doors.
        tokio::time::sleep(Duration::from_secs(30)).await;
        if self.rng.chance(1, 4) {
            let world = self.world.clone();
            let opening = tokio::task::spawn_local(async move { world.open().await.is_ok() });
            tokio::time::sleep(Duration::from_micros(self.rng.below(6000))).await;
            opening.abort();
            self.world.crash_all(if power { Crash::Power } else { Crash::Kill }, &stay);
        }
        let object = match self.world.open().await {
            Ok(object) => object,
            Err(_) => {
                (0..self.hosts).for_each(|n| self.world.up(n));
                self.world.open().await.map_err(|error| format!("with every host: {error}"))?
            }
        };
        self.settle(&object).await?;
        Ok(object)
    }

    /// Reads everything: within what is allowed, and equal on every current leg.
    async fn settle(&self, object: &Owner<MemStore>) -> Result<(), String> {
        for block in 0..BLOCKS {
            let bytes =
                object.read_bytes(place(block) * BLOCK_BYTES, 8).await.map_err(|error| error.to_string())?;
            let value = u64::from_le_bytes(bytes.try_into().expect("eight bytes"));
            let allowed = self.reference.allowed(block, self.power_lost.get());
            if !allowed.contains(&value) {
                return Err(format!("block {block} reads {value}, allowed {allowed:?}"));
            }
            self.reference.settle(block, value);
        }
        match object.flush().await {
            Err(ObjError::UnflushedLost) => object.flush().await,
            other => other,
        }
        .map_err(|error| error.to_string())?;
        self.power_lost.set(false);
        self.compare(object)
    }

    fn compare(&self, object: &Owner<MemStore>) -> Result<(), String> {
        let descriptor = object.descriptor();
        for group in crate::obj::address::groups(&descriptor.layout).expect("a valid layout") {
            let current = group.legs().into_iter().filter(|leg| leg.stale_from.is_none());
            let parts: Vec<_> =
                current.map(|leg| self.world.parts.borrow()[&leg.component].clone()).collect();
            for block in 0..512 {
                let values: Vec<_> = parts.iter().map(|part| part.value(block)).collect();
                if values.windows(2).any(|pair| pair[0] != pair[1]) {
                    return Err(format!("current legs differ at block {block}: {values:?}"));
                }
            }
        }
        Ok(())
    }

    /// Every host back, every leg resynced: all legs equal, nothing acknowledged lost.
    async fn heal(&self, object: &Owner<MemStore>) -> Result<(), String> {
        for n in self.down() {
            object.legs_gone(&[component(n)]).await;
            self.world.up(n);
            let _ = object.legs_returned(&[component(n)]).await;
        }
        let all: Vec<_> = (0..self.hosts).map(component).collect();
        object.legs_returned(&all).await.map_err(|error| format!("healing: {error}"))?;
        tokio::time::sleep(Duration::from_secs(30)).await;
        for n in 0..self.legs {
            if object.descriptor().leg(component(n)).is_some_and(|leg| leg.stale_from.is_some()) {
                object.resync(component(n), &()).await.map_err(|error| format!("healing {n}: {error}"))?;
            }
        }
        self.settle(object).await
    }
}

async fn schedule(seed: u64) -> Result<(), String> {
    let mut run = Run::new(seed);
    let mut object = run.world.open().await.map_err(|error| error.to_string())?;
    for _ in 0..2 + run.rng.below(4) {
        for _ in 0..run.rng.below(60) {
            run.step(&object).await?;
        }
        if run.rng.chance(1, 4) {
            run.heal(&object).await?;
        }
        object = run.crash().await?;
        run.alive = Rc::new(Cell::new(true));
    }
    run.heal(&object).await
}

#[test]
fn random_schedules_lose_nothing() {
    let seeds: u64 = std::env::var("OBJ_SEEDS").ok().and_then(|text| text.parse().ok()).unwrap_or(60);
    for seed in 0..seeds {
        if let Err(what) = run(async || schedule(seed).await) {
            panic!("seed {seed}: {what}");
        }
    }
}
