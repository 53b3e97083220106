//! The overlay against a flat array.
use super::super::pins::Batches;
use super::*;
use proptest::prelude::*;

fn rec(batches: &mut Batches, seq: u64, block: u64, nblk: u32, oseq: u64) -> Rec {
    let batch = batches.push(seq, seq * 4096, 4096);
    let pin = Pin::new(&batch, 0);
    let _tokens = vec![];
    Rec { block, nblk, oseq, data_oseq: oseq, body: Body::Hole, _tokens, _pin: pin }
}

#[derive(Debug, Clone)]
enum Step {
    Insert { block: u64, nblk: u32, oseq: u64 },
    Stable(u64),
    Destage(usize),
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (0..24u64, 1..9u32, 1..60u64).prop_map(|(block, nblk, oseq)| Step::Insert { block, nblk, oseq }),
        1 => (0..60u64).prop_map(Step::Stable),
        1 => (1..4usize).prop_map(Step::Destage),
    ]
}

/// The stupid model: per block the batch of the newest record, and for each batch who must be stable before it may go.
#[derive(Default)]
struct Model {
    /// block → (oseq, batch)
    newest: BTreeMap<u64, (u64, u64)>,
    /// (batch that was replaced somewhere, oseq of what replaced it)
    replaced: Vec<(u64, u64)>,
    /// batch → oseq, while it is unstable it is kept
    oseqs: BTreeMap<u64, u64>,
    stable: u64,
}

impl Model {
    fn pinned(&self, batch: u64) -> bool {
        self.newest.values().any(|(_, holder)| *holder == batch)
            || self.oseqs.get(&batch).is_some_and(|oseq| *oseq > self.stable)
            || self.replaced.iter().any(|(old, by)| *old == batch && *by > self.stable)
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 400, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn agrees_with_a_map_of_blocks(steps in prop::collection::vec(step(), 1..60)) {
        let (mut batches, mut overlay, mut model) = (Batches::default(), Overlay::default(), Model::default());
        let mut next = 0;
        for step in steps {
            match step {
                Step::Insert { block, nblk, oseq } => {
                    next += 1;
                    overlay.insert(rec(&mut batches, next, block, nblk, oseq));
                    model.oseqs.insert(next, oseq);
                    for at in block..block + u64::from(nblk) {
                        let old = model.newest.get(&at).copied();
                        if old.is_none_or(|(old, _)| old <= oseq) {
                            model.newest.insert(at, (oseq, next));
                            model.replaced.extend(old.map(|(_, batch)| (batch, oseq)));
                        }
                    }
                }
                Step::Stable(oseq) => {
                    overlay.set_stable(oseq);
                    model.stable = model.stable.max(oseq);
                }
                Step::Destage(limit) => {
                    for piece in overlay.destageable(0, limit) {
                        let rec = piece.rec.expect("a record");
                        prop_assert!(rec.oseq <= model.stable);
                        overlay.applied(&rec, piece.block, piece.nblk);
                        for at in piece.block..piece.block + u64::from(piece.nblk) {
                            prop_assert_eq!(model.newest.remove(&at), Some((rec.oseq, rec._pin.seq())));
                        }
                    }
                }
            }
            check(&overlay, &batches, &model, next)?;
        }
    }
}

fn check(overlay: &Overlay, batches: &Batches, model: &Model, next: u64) -> Result<(), TestCaseError> {
    let mut at = 0;
    for piece in overlay.lookup(0, 40) {
        prop_assert_eq!(piece.block, at);
        for block in piece.block..piece.block + u64::from(piece.nblk) {
            let found = piece.rec.as_ref().map(|rec| (rec.oseq, rec._pin.seq()));
            prop_assert_eq!(found, model.newest.get(&block).copied());
        }
        at += u64::from(piece.nblk);
    }
    prop_assert_eq!(at, 40);
    let applied = (1..=next).take_while(|batch| !model.pinned(*batch)).last().unwrap_or(0);
    prop_assert_eq!(batches.applied(0, 0, u64::MAX), applied);
    Ok(())
}

#[test]
fn the_mutant_gives_up_a_flushed_record_for_one_that_is_not() {
    let run = || {
        let (mut batches, mut overlay) = (Batches::default(), Overlay::default());
        overlay.insert(rec(&mut batches, 1, 0, 1, 1));
        overlay.set_stable(1);
        overlay.insert(rec(&mut batches, 2, 0, 1, 2));
        batches.applied(0, 0, u64::MAX)
    };
    assert_eq!(run(), 0);
    crate::mutant::set(Some(Mutant::SupersededByUnstable));
    let applied = run();
    crate::mutant::set(None);
    assert_eq!(applied, 1);
}
