//! Metadata pages of 4 KiB inside extents of their own: which are in use, and which may not be used again yet.
//!
//! Invariant: as for extents, a page that was replaced is not given out before the checkpoint that replaced it is durable.
use crate::fmt::BLOCK;
use model::units::EXTENT_BYTES;
use std::collections::{BTreeMap, BTreeSet};

/// Pages of an extent.
pub(super) const EXTENT_PAGES: u64 = EXTENT_BYTES / BLOCK as u64;

/// The pool of metadata pages of one disk.
#[derive(Debug)]
pub(super) struct Pages {
    /// Byte offset of the extents region.
    base: u64,
    /// Bit per page of each metadata extent: in use or not free yet.
    used: BTreeMap<u64, u16>,
    /// Extents that have a free page.
    open: BTreeSet<u64>,
    free: u64,
    /// Replaced since the last cut.
    retired: Vec<u64>,
    /// Replaced by the checkpoint that is being written.
    releasing: Vec<u64>,
}

impl Pages {
    pub fn new(base: u64) -> Self {
        let (used, open) = (BTreeMap::new(), BTreeSet::new());
        Self { base, used, open, free: 0, retired: Vec::new(), releasing: Vec::new() }
    }

    /// Pages that can be given out now.
    pub fn free(&self) -> u64 {
        self.free
    }

    /// Pages of all extents.
    pub fn capacity(&self) -> u64 {
        self.used.len() as u64 * EXTENT_PAGES
    }

    /// Pages that come free with the next checkpoint.
    pub fn quarantined(&self) -> u64 {
        (self.retired.len() + self.releasing.len()) as u64
    }

    /// Adds an empty extent.
    pub fn add(&mut self, extent: u64) {
        self.used.insert(extent, 0);
        self.open.insert(extent);
        self.free += EXTENT_PAGES;
    }

    fn place(&self, offset_bytes: u64) -> (u64, u16) {
        let within = offset_bytes - self.base;
        (within / EXTENT_BYTES, 1 << (within % EXTENT_BYTES / BLOCK as u64))
    }

    /// Gives out a page by its byte offset on the disk, the lowest that is free.
    pub fn take(&mut self) -> Option<u64> {
        let extent = *self.open.first()?;
        let page = self.used[&extent].trailing_ones();
        let offset_bytes = self.base + extent * EXTENT_BYTES + u64::from(page) * BLOCK as u64;
        self.claim(offset_bytes);
        Some(offset_bytes)
    }

    /// Marks a page as used: what loading finds. `false` when it was in use already. Its extent must have been added.
    pub fn claim(&mut self, offset_bytes: u64) -> bool {
        let (extent, bit) = self.place(offset_bytes);
        let used = self.used.get_mut(&extent).expect("the extent was added");
        if *used & bit != 0 {
            return false;
        }
        *used |= bit;
        if *used == u16::MAX {
            self.open.remove(&extent);
        }
        self.free -= 1;
        true
    }

    /// A page that the next checkpoint no longer uses. Offset 0 is no page.
    pub fn retire(&mut self, offset_bytes: u64) {
        if offset_bytes != 0 {
            self.retired.push(offset_bytes);
        }
    }

    /// Begins a checkpoint: what was retired so far comes free when it is durable.
    pub fn begin_release(&mut self) {
        self.releasing.append(&mut self.retired);
    }

    /// Ends a checkpoint: durable, or failed (then all waits for the next).
    pub fn end_release(&mut self, durable: bool) {
        let releasing = std::mem::take(&mut self.releasing);
        if !durable {
            self.retired.extend(releasing);
            return;
        }
        for offset_bytes in releasing {
            let (extent, bit) = self.place(offset_bytes);
            *self.used.get_mut(&extent).expect("a page lies in a metadata extent") &= !bit;
            self.open.insert(extent);
            self.free += 1;
        }
    }

    /// Removes and returns an extent without any page in use.
    pub fn remove_empty(&mut self) -> Option<u64> {
        let extent = *self.open.iter().rev().find(|extent| self.used[extent] == 0)?;
        self.used.remove(&extent);
        self.open.remove(&extent);
        self.free -= EXTENT_PAGES;
        Some(extent)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_retired_page_waits_and_an_empty_extent_can_go() {
        let mut pages = Pages::new(1 << 20);
        assert_eq!(pages.take(), None);
        pages.add(5);
        let first = pages.take().unwrap();
        assert_eq!(first, (1 << 20) + 5 * EXTENT_BYTES);
        for _ in 1..EXTENT_PAGES {
            assert!(pages.take().is_some());
        }
        pages.retire(first);
        pages.retire(0);
        assert_eq!((pages.take(), pages.quarantined()), (None, 1));
        pages.begin_release();
        pages.end_release(false);
        assert_eq!(pages.take(), None);
        pages.begin_release();
        pages.end_release(true);
        assert_eq!(pages.take(), Some(first));
        assert!(!pages.claim(first));
        assert_eq!(pages.remove_empty(), None);
        pages.add(7);
        assert_eq!((pages.remove_empty(), pages.capacity(), pages.free()), (Some(7), EXTENT_PAGES, 0));
    }
}
