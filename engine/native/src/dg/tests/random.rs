//! Random work and crashes against the oracle.
use super::super::*;
use super::run;
use super::world::*;
use crate::io::sim::CrashKind;
use std::cell::RefCell;
use std::time::Duration;

type Shared = Rc<RefCell<Oracle>>;

struct Run {
    world: World,
    oracle: Shared,
    tag: u64,
}

impl Run {
    fn pick(&self) -> Option<LocalId> {
        let oracle = self.oracle.borrow();
        let locals: Vec<LocalId> = oracle.comps.keys().copied().collect();
        (!locals.is_empty()).then(|| locals[self.world.below(locals.len() as u64) as usize])
    }

    fn tags(&mut self) -> Vec<u64> {
        let nblk = match self.world.below(10) {
            0 => 60,
            1..=3 => 1 + self.world.below(20),
            _ => 1 + self.world.below(3),
        };
        let zero = self.world.below(8) == 0;
        self.tag += 1;
        vec![if zero { 0 } else { self.tag }; nblk as usize]
    }

    fn range(&self, nblk: usize) -> u64 {
        self.world.below(BLOCKS - nblk as u64 + 1)
    }

    async fn components(&mut self, dg: &Dg) {
        let csn = (u64::from(self.world.epoch), self.tag + 1);
        self.tag += 1;
        match self.world.below(3) {
            0 => {
                let disk = disk_id(1 + self.world.below(self.world.caps.len() as u64) as u8);
                let local = dg.create_component(disk, new_component(self.tag as u8, csn)).await.unwrap();
                assert!(self.oracle.borrow_mut().comps.insert(local, (csn, None)).is_none());
            }
            1 => {
                let Some(local) = self.pick() else { return };
                if let Some(entry) = self.oracle.borrow_mut().comps.get_mut(&local) {
                    entry.1 = Some(csn);
                }
                dg.commit_descriptor(local, csn, descriptor(csn)).await.unwrap();
                self.oracle.borrow_mut().comps.insert(local, (csn, None));
            }
            _ if self.oracle.borrow().comps.len() > 2 => {
                let Some(local) = self.pick() else { return };
                dg.delete_component(local).await.unwrap();
                self.oracle.borrow_mut().comps.remove(&local);
            }
            _ => {}
        }
    }

    async fn step(&mut self, dg: &Dg) {
        let Some(local) = self.pick() else { return self.components(dg).await };
        match self.world.below(40) {
            0..20 => {
                let tags = self.tags();
                let block = self.range(tags.len());
                change(dg, &self.oracle, local, block, &tags).await.unwrap();
            }
            20..30 => flush(dg, &self.oracle).await.unwrap(),
            30..34 => {
                let nblk = 1 + self.world.below(40);
                let block = self.range(nblk as usize);
                Oracle::check_live(&self.oracle, dg, local, block, nblk as u32).await;
            }
            34..36 => self.components(dg).await,
            36 => tokio::time::sleep(Duration::from_secs(self.world.below(40))).await,
            _ => tokio::time::sleep(Duration::from_millis(self.world.below(50))).await,
        }
    }

    /// Writes that are under way when the world ends.
    async fn leave_under_way(&mut self, dg: &Dg) {
        let Some(local) = self.pick() else { return };
        for slot in 0..self.world.below(6) {
            let tags = self.tags();
            let tags = tags[..tags.len().min(20)].to_vec();
            let (dg, oracle) = (dg.clone(), self.oracle.clone());
            tokio::task::spawn_local(
                async move { drop(change(&dg, &oracle, local, slot * 30, &tags).await) },
            );
        }
        if self.world.below(2) == 0 {
            tokio::time::sleep(Duration::from_millis(self.world.below(12))).await;
        }
    }
}

/// One world, several lives. The text says what was wrong.
pub async fn lives(seed: u64, combined: bool, lives: u64) -> Result<(), String> {
    let mut world = World::new(seed, if combined { 1 } else { 2 }, MIB, combined).await;
    if world.below(2) == 0 {
        world.cfg.sweep_runs = 3;
        world.cfg.destage_depth = 2;
    }
    let mut run = Run { world, oracle: Shared::default(), tag: 0 };
    let mut dg = run.world.open().await;
    for _ in 0..lives {
        let owner = tokio::task::spawn_local(own(dg.clone(), run.oracle.clone()));
        for _ in 0..run.world.below(80) {
            run.step(&dg).await;
        }
        owner.abort();
        run.leave_under_way(&dg).await;
        let kind = if run.world.below(2) == 0 { CrashKind::Kill } else { CrashKind::Power };
        run.world.crash(dg, kind);
        dg = run.world.open().await;
        let checked = check_crash(&run.oracle, &dg, kind).await;
        checked.map_err(|error| format!("seed {seed} after {kind:?}: {error}"))?;
    }
    dg.drain().await.map_err(|error| error.to_string())?;
    let used = dg.log_usage();
    if used.used_bytes > 0 || used.overlay_runs > 0 {
        return Err(format!("seed {seed}: the log does not drain: {used:?}"));
    }
    match dg.verify(true).await.first() {
        Some(finding) => Err(format!("seed {seed}: {finding:?}")),
        None => Ok(()),
    }
}

#[test]
fn agrees_with_the_oracle_through_crashes() {
    for seed in 0..40 {
        run(lives(seed, false, 6)).unwrap();
    }
}

#[test]
fn a_combined_disk_agrees_with_the_oracle_through_crashes() {
    for seed in 1000..1020 {
        run(lives(seed, true, 6)).unwrap();
    }
}

/// A bit that rots in the log, anywhere and at any time the group is closed, is never a silent step back: what was flushed is there,
/// is known to be bad, or its component is known to be damaged.
async fn rots(seed: u64) -> Result<bool, String> {
    let world = World::new(seed, 1, MIB, false).await;
    let mut run = Run { world, oracle: Shared::default(), tag: 0 };
    let dg = run.world.open().await;
    let owner = tokio::task::spawn_local(own(dg.clone(), run.oracle.clone()));
    for _ in 0..40 {
        run.step(&dg).await;
    }
    owner.abort();
    flush(&dg, &run.oracle).await.map_err(|error| error.to_string())?;
    // The stable sequences go into the log by themselves; they are the witness of the flush. (Nothing can know of a flush that no later
    // write speaks of.)
    tokio::time::sleep(Duration::from_secs(3)).await;
    flush(&dg, &run.oracle).await.map_err(|error| error.to_string())?;
    run.world.crash(dg, CrashKind::Power);
    let newest = headers(&run.world);
    let newest = &newest[newest.len().saturating_sub(9)..];
    let at = newest[run.world.below(newest.len() as u64) as usize] + run.world.below(8192);
    run.world.log.flip_bit(at, run.world.below(8) as u8);
    let dg = run.world.open().await;
    let damaged: Vec<LocalId> =
        dg.components().iter().filter(|found| found.damaged).map(|found| found.local).collect();
    if !damaged.is_empty() {
        return Ok(true);
    }
    let known: Vec<LocalId> = run.oracle.borrow().comps.keys().copied().collect();
    for local in &known {
        if dg.component(*local).is_none() {
            return Err(format!("seed {seed}: component {local} is lost unseen"));
        }
    }
    for local in known {
        let bad = Oracle::wrong(&run.oracle, &dg, local).await;
        if let Some(text) = bad {
            return Err(format!("seed {seed}, bit at {at}: {text}"));
        }
    }
    Ok(false)
}

#[test]
fn a_rotten_bit_is_never_a_silent_step_back() {
    let damaged = (2000..2060).filter(|seed| run(rots(*seed)).unwrap()).count();
    assert!(damaged > 0, "no bit hit a header that mattered");
}
