//! What keeps log space: the batches between tail and head, and how many live records each has per member.
//!
//! Map: [`Ring`] arithmetic of the region · [`Batch`] one batch in it · [`Pin`] one live record, counted down by drop ·
//! [`Batches`] all of them, oldest first.
//! Invariants: a record is counted from its append until it is applied to its disk or superseded by a stable record;
//! the counters change through [`Pin`] only, so that none can be forgotten or released twice.
use super::MEMBERS;
use crate::fmt::BLOCK;
use std::cell::Cell;
use std::collections::VecDeque;
use std::rc::Rc;

/// One batch in the log.
#[derive(Debug)]
pub(super) struct Batch {
    /// Its position in the chain.
    pub seq: u64,
    /// Where it begins, bytes from the start of the region.
    pub offset_bytes: u64,
    /// What it takes of the ring, up to the next batch.
    pub len_bytes: u64,
    pending: [Cell<u32>; MEMBERS],
}

/// A live record of one member in one batch.
#[derive(Debug)]
pub(super) struct Pin {
    batch: Rc<Batch>,
    member: usize,
}

impl Pin {
    /// Counts a live record of `member` in `batch`.
    pub fn new(batch: &Rc<Batch>, member: usize) -> Self {
        batch.pending[member].set(batch.pending[member].get() + 1);
        Self { batch: batch.clone(), member }
    }

    /// The chain position of the batch.
    #[cfg(test)]
    pub fn seq(&self) -> u64 {
        self.batch.seq
    }
}

impl Drop for Pin {
    fn drop(&mut self) {
        let pending = &self.batch.pending[self.member];
        pending.set(pending.get() - 1);
    }
}

/// Where the next batch goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Place {
    /// At this offset.
    At(u64),
    /// At the start of the region, after a pad that fills these bytes from this offset.
    Wrapped {
        /// Where the pad begins.
        pad_at: u64,
        /// What it fills.
        pad_bytes: u64,
    },
}

/// The region as a ring: `head` is where the next batch begins, `used_bytes` lie before it.
#[derive(Clone, Copy, Debug)]
pub(super) struct Ring {
    pub len_bytes: u64,
    pub head: u64,
    pub used_bytes: u64,
}

impl Ring {
    /// Bytes that a batch may take. One block stays free, so that a full ring differs from an empty one.
    pub fn free_bytes(&self) -> u64 {
        self.len_bytes - self.used_bytes - BLOCK as u64
    }

    /// Where `bytes` fit while `keep_bytes` stay free; `None` when they do not.
    pub fn place(&self, bytes: u64, keep_bytes: u64) -> Option<Place> {
        let room = self.len_bytes - self.head;
        let (place, taken) = if bytes <= room {
            (Place::At(self.head), bytes)
        } else {
            (Place::Wrapped { pad_at: self.head, pad_bytes: room }, bytes + room)
        };
        (taken + keep_bytes <= self.free_bytes()).then_some(place)
    }

    /// Moves the head over `bytes` that were written at it.
    pub fn advance(&mut self, bytes: u64) {
        self.used_bytes += bytes;
        self.head += bytes;
        debug_assert!(self.head <= self.len_bytes && self.used_bytes < self.len_bytes);
        if self.head == self.len_bytes {
            self.head = 0;
        }
    }
}

/// The batches in the log, oldest first.
#[derive(Default)]
pub(super) struct Batches {
    list: VecDeque<Rc<Batch>>,
}

impl Batches {
    /// Adds the batch that was written at the head.
    pub fn push(&mut self, seq: u64, offset_bytes: u64, len_bytes: u64) -> Rc<Batch> {
        debug_assert!(self.list.back().is_none_or(|last| last.seq < seq));
        let batch = Rc::new(Batch { seq, offset_bytes, len_bytes, pending: Default::default() });
        self.list.push_back(batch.clone());
        batch
    }

    /// The highest batch, at most `limit`, up to which no record of `member` is pending; `floor` when there is none.
    pub fn applied(&self, member: usize, floor: u64, limit: u64) -> u64 {
        let done =
            self.list.iter().take_while(|batch| batch.seq <= limit && batch.pending[member].get() == 0);
        done.last().map_or(floor, |batch| batch.seq.max(floor))
    }

    /// The first batch after `seq`, as (seq, offset): what the tail may move to. `None` when that is the head.
    pub fn first_after(&self, seq: u64) -> Option<(u64, u64)> {
        let at = self.list.partition_point(|batch| batch.seq <= seq);
        self.list.get(at).map(|batch| (batch.seq, batch.offset_bytes))
    }

    /// Forgets every batch before `seq`; returns the bytes that become free.
    pub fn release_before(&mut self, seq: u64) -> u64 {
        let mut freed = 0;
        while let Some(batch) = self.list.pop_front_if(|batch| batch.seq < seq) {
            freed += batch.len_bytes;
        }
        freed
    }

    /// Bytes of the batches after `after` up to `upto`.
    pub fn bytes_between(&self, after: u64, upto: u64) -> u64 {
        let from = self.list.partition_point(|batch| batch.seq <= after);
        let range = self.list.range(from..).take_while(|batch| batch.seq <= upto);
        range.map(|batch| batch.len_bytes).sum()
    }

    /// Whether nothing lies before batch `seq`.
    pub fn is_first(&self, seq: u64) -> bool {
        self.list.front().is_none_or(|batch| batch.seq >= seq)
    }

    /// Batches in the log.
    #[cfg(test)]
    pub fn len(&self) -> usize {
        self.list.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_batch_is_applied_when_its_last_pin_is_dropped() {
        let mut batches = Batches::default();
        let first = batches.push(5, 0, 8192);
        let second = batches.push(6, 8192, 4096);
        let (a, b) = (Pin::new(&first, 0), Pin::new(&first, 0));
        let c = Pin::new(&second, 1);
        assert_eq!((batches.applied(0, 4, 9), batches.applied(1, 4, 9)), (4, 5));
        drop(a);
        assert_eq!(batches.applied(0, 4, 9), 4);
        drop(b);
        assert_eq!((batches.applied(0, 4, 9), batches.applied(0, 4, 5)), (6, 5));
        drop(c);
        assert_eq!(batches.applied(1, 4, 9), 6);
        assert_eq!((batches.first_after(5), batches.first_after(6)), (Some((6, 8192)), None));
        assert_eq!((batches.release_before(6), batches.len()), (8192, 1));
    }

    proptest! {
        #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]
        /// Against a map of bytes: no batch overlaps one that is still in the ring, and one block stays free.
        #[test]
        fn the_ring_never_hands_out_used_bytes(steps in prop::collection::vec((1..9u64, 0..3usize), 1..200)) {
            let block = BLOCK as u64;
            let mut ring = Ring { len_bytes: 32 * block, head: 0, used_bytes: 0 };
            let mut live: VecDeque<(u64, u64)> = VecDeque::new();
            for (blocks, releases) in steps {
                for _ in 0..releases {
                    ring.used_bytes -= live.pop_front().map_or(0, |(_, len)| len);
                }
                let Some(place) = ring.place(blocks * block, 0) else { continue };
                if let Place::Wrapped { pad_at, pad_bytes } = place {
                    live.push_back((pad_at, pad_bytes));
                    ring.advance(pad_bytes);
                }
                let at = ring.head;
                prop_assert!(live.iter().all(|(from, len)| at + blocks * block <= *from || from + len <= at));
                live.push_back((at, blocks * block));
                ring.advance(blocks * block);
                prop_assert!(live.iter().map(|(_, len)| len).sum::<u64>() < 32 * block);
            }
        }
    }
}
