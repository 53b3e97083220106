//! The sequence of an object: which writes are under way, and up to where everything is acknowledged.
//!
//! `oseq = boot epoch << 44 | counter`. Invariants: numbers are assigned in order, under the range lock, in this one place;
//! the low-water mark is below every number that is assigned and neither acknowledged nor given up, so a flush that begins
//! now makes everything up to it stable; `stable` never falls.
use crate::mutant::{Mutant, on};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;

/// Bits of the counter below the boot epoch. 2^44 writes are 203 days at a million a second; a counter that is full refuses.
pub const COUNTER_BITS: u32 = 44;

/// What one start of the program shares over all its objects, so that no number is used twice in one boot epoch, also when an
/// object is closed and opened again while one of its components is away.
#[derive(Debug)]
pub struct Boot {
    epoch: u64,
    counter_floor: Cell<u64>,
    csn: Cell<u64>,
}

impl Boot {
    /// The start with boot epoch `epoch`, which stands flushed on every reachable disk.
    pub fn new(epoch: u64) -> Rc<Self> {
        Rc::new(Self { epoch, counter_floor: Cell::new(0), csn: Cell::new(0) })
    }

    /// The boot epoch.
    pub fn epoch(&self) -> u64 {
        self.epoch
    }

    /// A change number that no descriptor of this epoch has had.
    pub fn next_csn(&self) -> (u64, u64) {
        self.csn.set(self.csn.get() + 1);
        (self.epoch, self.csn.get())
    }
}

struct UnderWay {
    oseq: u64,
    over: bool,
}

/// The sequence of one open object.
pub struct Sequencer {
    boot: Rc<Boot>,
    next: Cell<u64>,
    stable: Cell<u64>,
    acked_max: Cell<u64>,
    /// How many writes were acknowledged, and how many of them before the last flush that ended well began.
    acks: Cell<u64>,
    flushed_acks: Cell<u64>,
    /// Assigned numbers from the lowest that is not over.
    under_way: RefCell<VecDeque<UnderWay>>,
}

impl Sequencer {
    /// Continues above every number of this epoch that an object has used.
    pub fn new(boot: Rc<Boot>) -> Self {
        let next = boot.epoch << COUNTER_BITS | (boot.counter_floor.get() + 1);
        Self {
            boot,
            next: Cell::new(next),
            stable: Cell::new(0),
            acked_max: Cell::new(0),
            acks: Cell::new(0),
            flushed_acks: Cell::new(0),
            under_way: RefCell::default(),
        }
    }

    /// Assigns the next number. The caller holds the range lock of what it writes, and room in the log of every leg: from here
    /// on the write waits for nothing that another write holds.
    pub fn assign(&self) -> u64 {
        let oseq = self.next.get();
        self.next.set(oseq + 1);
        self.under_way.borrow_mut().push_back(UnderWay { oseq, over: false });
        oseq
    }

    /// The write `oseq` is acknowledged.
    pub fn acknowledge(&self, oseq: u64) {
        self.acked_max.set(self.acked_max.get().max(oseq));
        self.acks.set(self.acks.get() + 1);
        self.give_up(oseq);
    }

    /// The write `oseq` will never be acknowledged; what it left behind is for recovery.
    pub fn give_up(&self, oseq: u64) {
        let under_way = &mut *self.under_way.borrow_mut();
        if let Ok(index) = under_way.binary_search_by_key(&oseq, |write| write.oseq) {
            under_way[index].over = true;
        }
        while under_way.pop_front_if(|write| write.over).is_some() {}
    }

    /// Everything up to this number is acknowledged.
    pub fn low_water(&self) -> u64 {
        if on(Mutant::HighestAcked) {
            return self.acked_max.get();
        }
        self.under_way.borrow().front().map_or(self.next.get(), |write| write.oseq) - 1
    }

    /// Everything up to this number is on stable media on every active leg.
    pub fn stable(&self) -> u64 {
        self.stable.get()
    }

    /// Raises the stable number.
    pub fn raise_stable(&self, oseq: u64) {
        self.stable.set(self.stable.get().max(oseq));
    }

    /// How many writes were acknowledged so far: what a flush that begins now covers.
    pub fn acks(&self) -> u64 {
        self.acks.get()
    }

    /// A flush that began after `acks` acknowledgements ended well.
    pub fn flushed(&self, acks: u64) {
        self.flushed_acks.set(self.flushed_acks.get().max(acks));
    }

    /// Whether nothing was acknowledged since the last flush. The low-water mark cannot tell: an older write may hold it down.
    pub fn is_clean(&self) -> bool {
        self.acks.get() == self.flushed_acks.get()
    }
}

impl Drop for Sequencer {
    fn drop(&mut self) {
        let used = (self.next.get() - 1) & ((1 << COUNTER_BITS) - 1);
        self.boot.counter_floor.set(self.boot.counter_floor.get().max(used));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn low_water_waits_for_the_oldest_write() {
        let sequencer = Sequencer::new(Boot::new(3));
        let base = 3 << COUNTER_BITS;
        let (first, second) = (sequencer.assign(), sequencer.assign());
        assert_eq!((first, second), (base + 1, base + 2));
        sequencer.acknowledge(second);
        assert_eq!(sequencer.low_water(), base);
        sequencer.acknowledge(first);
        assert_eq!(sequencer.low_water(), second);
    }

    #[test]
    fn acknowledged_write_above_the_low_water_mark_is_not_clean() {
        let sequencer = Sequencer::new(Boot::new(1));
        let _older = sequencer.assign();
        let newer = sequencer.assign();
        sequencer.raise_stable(sequencer.low_water());
        sequencer.acknowledge(newer);
        assert!(!sequencer.is_clean());
        sequencer.flushed(sequencer.acks());
        assert!(sequencer.is_clean());
    }

    #[test]
    fn reopened_object_continues_above_all_numbers_of_the_epoch() {
        let boot = Boot::new(1);
        let first = Sequencer::new(boot.clone());
        let used = first.assign();
        drop(first);
        assert!(Sequencer::new(boot).assign() > used);
    }
}
