//! Byte semantics of one object against a vector of bytes: unaligned writes, trims, zeroes, reads, status; legs stay equal.
use super::mem::{World, mirror, run};
use crate::fmt::descriptor::Node;
use crate::obj::ObjError;
use model::units::{BLOCK_BYTES, STRIPE_UNIT_BYTES};
use proptest::prelude::*;
use std::rc::Rc;

/// Not a multiple of a block, over two columns and a second piece.
const SIZE: u64 = 3 * STRIPE_UNIT_BYTES - 1000;

#[derive(Clone, Debug)]
enum Step {
    Write(u64, u64, u8),
    Trim(u64, u64),
    Zero(u64, u64, bool),
    Read(u64, u64),
    Flush,
}

fn range() -> impl Strategy<Value = (u64, u64)> {
    // Around the interesting borders, mostly small, often aligned.
    let border = prop::sample::select(vec![
        0,
        STRIPE_UNIT_BYTES,
        2 * STRIPE_UNIT_BYTES,
        SIZE - 9000,
        40 * BLOCK_BYTES,
    ]);
    let len = prop_oneof![0u64..600, 0u64..20_000, (0u64..8).prop_map(|blocks| blocks * BLOCK_BYTES)];
    let shift = prop_oneof![0u64..9000, (0u64..4).prop_map(|blocks| blocks * BLOCK_BYTES)];
    (border, shift, len).prop_map(|(border, shift, len)| {
        let start = (border + shift).saturating_sub(4096).min(SIZE);
        (start, len.min(SIZE - start))
    })
}

fn step() -> impl Strategy<Value = Step> {
    prop_oneof![
        4 => (range(), any::<u8>()).prop_map(|((at, len), byte)| Step::Write(at, len, byte)),
        2 => range().prop_map(|(at, len)| Step::Trim(at, len)),
        2 => (range(), any::<bool>()).prop_map(|((at, len), keep)| Step::Zero(at, len, keep)),
        3 => range().prop_map(|(at, len)| Step::Read(at, len)),
        1 => Just(Step::Flush),
    ]
}

fn world() -> Rc<World> {
    let striped = Node::Stripe(vec![mirror(0..2, STRIPE_UNIT_BYTES), mirror(2..4, STRIPE_UNIT_BYTES)]);
    World::new(1, Node::Concat(vec![striped, mirror(4..6, STRIPE_UNIT_BYTES)]), SIZE, 1)
}

fn trimmed(at: u64, len: u64) -> std::ops::Range<usize> {
    let end = if at + len == SIZE { SIZE } else { (at + len) / BLOCK_BYTES * BLOCK_BYTES };
    let start = at.next_multiple_of(BLOCK_BYTES).min(end);
    start as usize..end as usize
}

async fn play(steps: Vec<Step>) -> Result<(), TestCaseError> {
    let world = world();
    let object = world.open().await.expect("opens");
    let mut oracle = vec![0u8; SIZE as usize];
    for step in steps {
        match step {
            Step::Write(at, len, byte) => {
                object
                    .write_bytes(at, &vec![byte; len as usize], byte.is_multiple_of(2))
                    .await
                    .expect("writes");
                oracle[at as usize..(at + len) as usize].fill(byte);
            }
            Step::Trim(at, len) => {
                object.trim(at, len, false).await.expect("trims");
                oracle[trimmed(at, len)].fill(0);
            }
            Step::Zero(at, len, keep) => {
                object.write_zeroes(at, len, keep, false).await.expect("zeroes");
                oracle[at as usize..(at + len) as usize].fill(0);
            }
            Step::Read(at, len) => {
                let read = object.read_bytes(at, len).await.expect("reads");
                prop_assert!(read == oracle[at as usize..(at + len) as usize], "read at {} of {}", at, len);
                let status = object.block_status(at, len).await.expect("status");
                prop_assert_eq!(status.iter().map(|run| run.0).sum::<u64>(), len);
            }
            Step::Flush => object.flush().await.expect("flushes"),
        }
    }
    let all = object.read_bytes(0, SIZE).await.expect("reads");
    prop_assert!(all == oracle);
    for group in [0, 2, 4] {
        for block in 0..256 {
            prop_assert!(world.part(group).bytes(block) == world.part(group + 1).bytes(block));
        }
    }
    Ok(())
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(40))]

    #[test]
    fn bytes_are_as_written(steps in prop::collection::vec(step(), 1..40)) {
        run(async || play(steps).await)?;
    }
}

#[test]
fn ranges_outside_the_object_are_refused() {
    run(async || {
        let object = world().open().await.expect("opens");
        assert_eq!(object.write_bytes(SIZE - 1, &[1, 2], false).await, Err(ObjError::OutOfRange));
        assert_eq!(object.read_bytes(u64::MAX, 2).await, Err(ObjError::OutOfRange));
        assert_eq!(object.trim(0, u64::MAX, false).await, Err(ObjError::OutOfRange));
    });
}
