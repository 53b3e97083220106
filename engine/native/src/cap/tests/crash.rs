//! Crashes at every disk event of histories with checkpoints: the disk comes back as one of its checkpoints, all of it.
use super::*;
use crate::io::sim::CrashKind;

/// What was done and which of it each checkpoint holds.
#[derive(Default)]
struct History {
    ops: Vec<Op>,
    /// Operations before the cut of each generation.
    cuts: BTreeMap<u64, usize>,
}

/// Runs a history with checkpoints; `history` says at any moment what was begun.
async fn run(disk: &CapDisk, seed: u64, history: &std::cell::RefCell<History>) {
    let mut script = Script::new(seed);
    history.borrow_mut().cuts.insert(1, 0);
    for round in 1..=3u64 {
        for _ in 0..14 {
            let op = script.next();
            history.borrow_mut().ops.push(op.clone());
            apply(disk, &op).await.unwrap();
        }
        let len = history.borrow().ops.len();
        history.borrow_mut().cuts.insert(round + 1, len);
        checkpoint(disk, round).await;
    }
}

fn blocks_of(ops: &[Op]) -> BTreeSet<(LocalId, u64)> {
    let writes = ops.iter().filter_map(|op| match *op {
        Op::Write { local, block, nblk, .. } => Some((local, block, nblk)),
        _ => None,
    });
    writes.flat_map(|(local, block, nblk)| (block..block + nblk).map(move |block| (local, block))).collect()
}

/// Stops the world after `event`, crashes, and looks. Returns whether the history ran to its end, and what is wrong.
async fn crash_at(event: u64, seed: u64, kind: CrashKind) -> (bool, Result<(), String>) {
    let medium = medium(64 * MIB, seed ^ event << 20);
    let disk = formatted(&medium).await;
    let events = medium.events().clone();
    events.stop_after(Some(events.count() + event));
    let history = std::cell::RefCell::default();
    let finished = tokio::select! {
        biased;
        () = run(&disk, seed, &history) => true,
        () = events.stopped() => false,
    };
    drop(disk);
    medium.crash(kind);
    events.stop_after(None);
    (finished, check(&medium, &history.into_inner()).await)
}

async fn check(medium: &SimDisk, history: &History) -> Result<(), String> {
    let disk = match Label::load(medium.open().await).await {
        Ok(label) => CapDisk::open(label).await.map_err(|error| format!("does not open: {error}"))?,
        Err(error) => return Err(format!("no label: {error}")),
    };
    let generation = disk.label().superblock().checkpoint.generation;
    let cut = *history.cuts.get(&generation).ok_or(format!("generation {generation} never was"))?;
    let newest = history.cuts.values().filter(|cut| **cut < history.ops.len()).max().copied().unwrap_or(0);
    if cut < newest {
        return Err(format!("an older checkpoint came back: {cut} operations, not {newest}"));
    }
    let touched = blocks_of(&history.ops[cut..]);
    let mut oracle = Oracle::new();
    history.ops[..cut].iter().for_each(|op| expect(&mut oracle, op));
    let findings = disk.verify(true, |local, block| touched.contains(&(local, block))).await;
    if !findings.is_empty() {
        return Err(format!("{findings:?}"));
    }
    compare_after_crash(&disk, &oracle, &touched).await?;
    // What the log still has is done again, and a checkpoint and another life later all is as if nothing had happened.
    for op in &history.ops[cut..] {
        expect(&mut oracle, op);
        apply(&disk, op).await.map_err(|error| format!("redo of {op:?}: {error}"))?;
    }
    checkpoint(&disk, 99).await;
    let disk = reopened(medium).await;
    compare(&disk, &oracle, &BTreeSet::new()).await?;
    let findings = disk.verify(true, |_, _| false).await;
    if findings.is_empty() { Ok(()) } else { Err(format!("{findings:?}")) }
}

/// As `compare`, but a block overwritten in place since may also be bad, or already be what its log record will make it again.
async fn compare_after_crash(
    disk: &CapDisk,
    oracle: &Oracle,
    touched: &BTreeSet<(LocalId, u64)>,
) -> Result<(), String> {
    // One bit more than nothing, so that extents allocated without a valid block are not compared by their bytes.
    let mut touched = touched.clone();
    touched.insert((LocalId(u32::MAX), 0));
    compare(disk, oracle, &touched).await
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn every_crash_leaves_a_whole_checkpoint() {
    for (kind, seeds) in [(CrashKind::Power, 0..3), (CrashKind::Kill, 3..5)] {
        for seed in seeds {
            let mut event = 0;
            loop {
                let (finished, result) = crash_at(event, seed, kind).await;
                result.unwrap_or_else(|error| panic!("seed {seed} event {event} {kind:?}: {error}"));
                if finished {
                    break;
                }
                event += 1;
            }
            assert!(event > 40, "{event} events are no history");
        }
    }
}

/// Trims one block of a full disk and writes elsewhere until nothing is free; a power cut undoes the trim, so the block must be there.
async fn trim_and_write_on_a_full_disk() -> Result<(), String> {
    let medium = medium(64 * MIB, 1);
    let disk = formatted(&medium).await;
    let local = LocalId(1);
    disk.create(new_component(local, 1 << 20)).unwrap();
    let written = super::space::fill(&disk, local, 16).await;
    checkpoint(&disk, 1).await;
    disk.punch(local, written[3], 1, 2).await.unwrap();
    for block in (written.len() as u64 * 16..).step_by(16) {
        let (crcs, bufs) = run_of(block, 1, 3);
        match disk.write(local, block, 3, 3, &crcs, bufs, None).await {
            Ok(()) => {}
            Err(CapError::NoSpace { .. }) => break,
            Err(error) => return Err(error.to_string()),
        }
    }
    raw(&disk).flush().await.unwrap();
    medium.crash(CrashKind::Power);
    let mut oracle = Oracle::new();
    expect(&mut oracle, &Op::Create(local, 1 << 20));
    written
        .iter()
        .for_each(|block| expect(&mut oracle, &Op::Write { local, block: *block, nblk: 1, oseq: 1 }));
    compare(&reopened(&medium).await, &oracle, &BTreeSet::new()).await
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn what_a_trim_freed_is_not_overwritten_before_the_next_checkpoint() {
    trim_and_write_on_a_full_disk().await.unwrap();
}

async fn killed(mutant: crate::mutant::Mutant) -> bool {
    for seed in 0..40 {
        for event in (1..50).step_by(3) {
            crate::mutant::set(Some(mutant));
            let (_, result) = crash_at(event, seed, CrashKind::Power).await;
            crate::mutant::set(None);
            if result.is_err() {
                return true;
            }
        }
    }
    false
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn mutants_die() {
    use crate::mutant::Mutant;
    for mutant in [Mutant::SkipCheckpointFlush, Mutant::ForgetHoleSequence] {
        assert!(killed(mutant).await, "{mutant:?} lives");
    }
    crate::mutant::set(Some(Mutant::EarlyExtentReuse));
    let result = trim_and_write_on_a_full_disk().await;
    crate::mutant::set(None);
    assert!(result.is_err(), "EarlyExtentReuse lives");
}

#[tokio::test(flavor = "local", start_paused = true)]
async fn a_checkpoint_that_found_no_room_below_the_disk_can_be_tried_again() {
    let medium = medium(64 * MIB, 1);
    let disk = formatted(&medium).await;
    let local = LocalId(1);
    disk.create(new_component(local, SIZE_BLOCKS)).unwrap();
    let mut oracle = Oracle::new();
    expect(&mut oracle, &Op::Create(local, SIZE_BLOCKS));
    for oseq in 1..=4 {
        let op = Op::Write { local, block: oseq * 37, nblk: 20, oseq };
        expect(&mut oracle, &op);
        apply(&disk, &op).await.unwrap();
        raw(&disk).faults().set_full(true);
        let failed = disk.checkpoint(CheckpointMark::default()).await;
        assert!(failed.is_err() && disk.is_dirty() || oseq > 1, "{failed:?}");
        raw(&disk).faults().set_full(false);
    }
    checkpoint(&disk, 1).await;
    let disk = reopened(&medium).await;
    compare(&disk, &oracle, &BTreeSet::new()).await.unwrap();
    assert_eq!(disk.verify(true, |_, _| false).await, []);
}
