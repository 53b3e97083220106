//! Which extents are free: the bitmap in RAM, exactly as the next checkpoint will write it, and what must not be used yet.
//!
//! Invariant: an extent that was freed is free in the bitmap at once, but stays in quarantine, and is not given out, until a checkpoint
//! that began after it was freed is durable. Without that, a crash would bring back a map that points at someone else's bytes.
use crate::fmt::bitmap::{Bitmap, ExtentState};
use crate::mutant::{Mutant, on};
use std::collections::BTreeSet;

/// The extents of one disk.
#[derive(Debug)]
pub(super) struct Extents {
    groups: Vec<Bitmap>,
    /// Extents of each group that can be given out now.
    available: Vec<u32>,
    /// Extents of the disk in each `ExtentState`.
    counts: [u64; 4],
    group_extents: u64,
    /// Where the next search begins (next fit).
    cursor: u64,
    /// Groups that differ from their newest page.
    dirty: BTreeSet<usize>,
    /// Freed since the last cut.
    quarantine: BTreeSet<u64>,
    /// Freed before the cut of the checkpoint that is being written.
    releasing: BTreeSet<u64>,
}

impl Extents {
    /// `total` free extents in groups of `group_extents`; every group counts as changed.
    pub fn new(total: u64, group_extents: u64) -> Self {
        let firsts = (0..total).step_by(group_extents as usize);
        let groups: Vec<_> =
            firsts.map(|first| Bitmap::empty(first, group_extents.min(total - first) as u32)).collect();
        Self {
            available: groups.iter().map(Bitmap::extents).collect(),
            counts: [total, 0, 0, 0],
            group_extents,
            cursor: 0,
            dirty: (0..groups.len()).collect(),
            quarantine: BTreeSet::new(),
            releasing: BTreeSet::new(),
            groups,
        }
    }

    pub fn total(&self) -> u64 {
        self.counts.iter().sum()
    }

    pub fn count(&self, state: ExtentState) -> u64 {
        self.counts[state as usize]
    }

    /// Extents that can be given out now.
    pub fn available(&self) -> u64 {
        self.count(ExtentState::Free) - self.quarantined()
    }

    /// Extents that come free with the next checkpoint.
    pub fn quarantined(&self) -> u64 {
        (self.quarantine.len() + self.releasing.len()) as u64
    }

    pub fn groups(&self) -> &[Bitmap] {
        &self.groups
    }

    pub fn get(&self, extent: u64) -> ExtentState {
        self.groups[(extent / self.group_extents) as usize].get((extent % self.group_extents) as u32)
    }

    fn set(&mut self, extent: u64, state: ExtentState) {
        let (group, index) = ((extent / self.group_extents) as usize, (extent % self.group_extents) as u32);
        let old = self.groups[group].get(index);
        self.counts[old as usize] -= 1;
        self.counts[state as usize] += 1;
        self.groups[group].set(index, state);
        self.dirty.insert(group);
    }

    /// Marks a free extent as used: what loading finds. `false` when it was not free.
    pub fn claim(&mut self, extent: u64, state: ExtentState) -> bool {
        if self.get(extent) != ExtentState::Free {
            return false;
        }
        self.set(extent, state);
        self.available[(extent / self.group_extents) as usize] -= 1;
        true
    }

    /// Gives out an extent, the first one after the last that was given out. `None`: there is none.
    pub fn take(&mut self, state: ExtentState) -> Option<u64> {
        if self.available() == 0 {
            return None;
        }
        let (first, count) = ((self.cursor / self.group_extents) as usize, self.groups.len());
        // The group of the cursor is searched twice: from the cursor on, and at the end as a whole.
        let extent = (0..=count).find_map(|step| {
            let group = (first + step) % count;
            let from = if step == 0 { (self.cursor % self.group_extents) as u32 } else { 0 };
            self.first_free(group, from)
        })?;
        self.cursor = (extent + 1) % self.total();
        self.claim(extent, state).then_some(extent)
    }

    fn first_free(&self, group: usize, from: u32) -> Option<u64> {
        if self.available[group] == 0 {
            return None;
        }
        let bitmap = &self.groups[group];
        (from..bitmap.extents())
            .filter(|index| bitmap.get(*index) == ExtentState::Free)
            .map(|index| bitmap.first() + u64::from(index))
            .find(|extent| !self.quarantine.contains(extent) && !self.releasing.contains(extent))
    }

    /// Frees an extent that the durable checkpoint may use.
    pub fn free(&mut self, extent: u64) {
        if on(Mutant::EarlyExtentReuse) {
            return self.free_unused(extent);
        }
        self.set(extent, ExtentState::Free);
        self.quarantine.insert(extent);
    }

    /// Frees an extent of which the durable checkpoint uses nothing.
    pub fn free_unused(&mut self, extent: u64) {
        self.set(extent, ExtentState::Free);
        self.available[(extent / self.group_extents) as usize] += 1;
    }

    /// Begins a checkpoint: what was freed so far comes free when it is durable. Returns the groups whose pages must be written.
    pub fn begin_release(&mut self) -> BTreeSet<usize> {
        self.releasing.append(&mut self.quarantine);
        std::mem::take(&mut self.dirty)
    }

    /// What comes free with the checkpoint that is being written.
    pub fn releasing(&self) -> &BTreeSet<u64> {
        &self.releasing
    }

    /// Ends a checkpoint: durable, or failed (then all waits for the next).
    pub fn end_release(&mut self, durable: bool) {
        let releasing = std::mem::take(&mut self.releasing);
        if !durable {
            self.quarantine.extend(releasing);
            return;
        }
        for extent in releasing {
            self.available[(extent / self.group_extents) as usize] += 1;
        }
    }

    /// Forgets what changed: the bitmap is what the disk says.
    pub fn set_clean(&mut self) {
        self.dirty.clear();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_freed_extent_waits_for_the_checkpoint_that_frees_it() {
        let mut extents = Extents::new(20, 8);
        let all: Vec<_> = (0..20).map(|_| extents.take(ExtentState::Data).unwrap()).collect();
        assert_eq!(all, (0..20).collect::<Vec<_>>());
        assert_eq!(extents.take(ExtentState::Data), None);
        extents.free(9);
        assert_eq!((extents.available(), extents.quarantined()), (0, 1));
        extents.begin_release();
        extents.free(3);
        assert_eq!(extents.take(ExtentState::Data), None);
        extents.end_release(false);
        assert_eq!(extents.take(ExtentState::Data), None);
        extents.begin_release();
        extents.end_release(true);
        assert_eq!(extents.available(), 2);
        assert_eq!(extents.take(ExtentState::Metadata), Some(3));
        assert_eq!(extents.take(ExtentState::Data), Some(9));
        assert_eq!((extents.count(ExtentState::Data), extents.count(ExtentState::Metadata)), (19, 1));
        assert_eq!(extents.take(ExtentState::Data), None);
    }

    #[test]
    fn the_search_wraps_round() {
        let mut extents = Extents::new(10, 4);
        for _ in 0..9 {
            extents.take(ExtentState::Data);
        }
        extents.free_unused(1);
        assert_eq!(extents.take(ExtentState::Data), Some(9));
        assert_eq!(extents.take(ExtentState::Data), Some(1));
        assert!(!extents.claim(1, ExtentState::Data));
    }
}
