//! Address arithmetic against an oracle that walks byte by byte.
use super::mem::{leg, mirror};
use crate::fmt::descriptor::Node;
use crate::obj::address::{AddressMap, LayoutError};
use model::units::{BLOCK_BYTES, STRIPE_UNIT_BYTES};
use proptest::prelude::*;

/// (columns, stripe units a column) of each piece.
fn layout(pieces: &[(usize, u64)]) -> Node {
    let piece = |(columns, units): &(usize, u64)| {
        let column = || mirror(0..2, units * STRIPE_UNIT_BYTES);
        if *columns == 1 { column() } else { Node::Stripe((0..*columns).map(|_| column()).collect()) }
    };
    Node::Concat(pieces.iter().map(piece).collect())
}

/// Where the byte lies, by counting stripe units one after the other: (group, byte in the component).
fn oracle(pieces: &[(usize, u64)], byte: u64) -> (usize, u64) {
    let (mut unit, mut group) = (byte / STRIPE_UNIT_BYTES, 0);
    for (columns, units) in pieces {
        for row in 0..*units {
            for column in 0..*columns {
                if unit == 0 {
                    return (group + column, row * STRIPE_UNIT_BYTES + byte % STRIPE_UNIT_BYTES);
                }
                unit -= 1;
            }
        }
        group += columns;
    }
    unreachable!("the byte lies in the object")
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(200))]

    #[test]
    fn every_block_is_where_the_oracle_says(
        pieces in prop::collection::vec((1usize..4, 1u64..4), 1..4), start in any::<prop::sample::Index>(),
        len in 1u64..1500, most in 1u64..400, short in 0u64..256,
    ) {
        let bytes: u64 = pieces.iter().map(|(columns, units)| *columns as u64 * units * STRIPE_UNIT_BYTES).sum();
        let map = AddressMap::new(&layout(&pieces), bytes - short * BLOCK_BYTES).expect("a valid layout");
        let start = start.index(map.blocks() as usize) as u64;
        let len = len.min(map.blocks() - start);
        let mut at = start;
        for segment in map.segments(start, len, most) {
            prop_assert_eq!(segment.at, at);
            prop_assert!(segment.nblk <= most);
            for block in 0..segment.nblk {
                let (group, byte) = oracle(&pieces, (at + block) * BLOCK_BYTES);
                prop_assert_eq!((segment.group, (segment.block + block) * BLOCK_BYTES), (group, byte));
                let back = map.object_run(segment.group, segment.block + block, segment.nblk - block);
                let (back_at, back_len) = back.expect("inside");
                prop_assert_eq!(back_at, at + block);
                prop_assert!(back_len >= (segment.nblk - block).min(256 - (segment.block + block) % 256));
            }
            at += segment.nblk;
        }
        prop_assert_eq!(at, start + len);
    }
}

#[test]
fn blocks_behind_the_end_of_the_object_lie_nowhere() {
    let map = AddressMap::new(&layout(&[(2, 2)]), STRIPE_UNIT_BYTES + 8 * BLOCK_BYTES).expect("valid");
    assert_eq!(map.object_run(1, 0, 16), Some((256, 8)));
    assert_eq!(map.object_run(1, 8, 16), None);
    assert_eq!(map.object_run(0, 256, 16), None);
}

#[test]
fn layouts_of_later_versions_are_refused() {
    let nested = Node::Mirror(vec![mirror(0..2, 1 << 20), mirror(2..4, 1 << 20)]);
    assert_eq!(AddressMap::new(&nested, 4096), Err(LayoutError::Unsupported));
    let parity = Node::Ec { k: 2, m: 1, children: vec![Node::Leaf(Box::new(leg(0, 1 << 20)))] };
    assert_eq!(AddressMap::new(&parity, 4096), Err(LayoutError::Unsupported));
    assert_eq!(AddressMap::new(&mirror(0..2, 4096), 8192), Err(LayoutError::TooSmall));
    assert_eq!(
        AddressMap::new(&Node::Concat(vec![]), 0),
        Ok(AddressMap::new(&Node::Concat(vec![]), 0).unwrap())
    );
}
