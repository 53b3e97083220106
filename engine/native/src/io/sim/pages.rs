//! A sparse image of a disk: pages that were never written read as zeros and cost nothing.
use super::super::disk::SECTOR_BYTES;
use std::collections::BTreeMap;
use std::sync::Arc;

const PAGE_BYTES: u64 = 4096;
pub(super) type Sector = [u8; SECTOR_BYTES as usize];

/// A sparse image. A clone shares all pages, is cheap, and may go to another thread.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Pages(BTreeMap<u64, Arc<[u8; PAGE_BYTES as usize]>>);

impl Pages {
    /// Fills `out` from `offset_bytes`.
    pub fn read(&self, offset_bytes: u64, out: &mut [u8]) {
        let mut at = 0;
        while at < out.len() {
            let (page, inside) = split(offset_bytes + at as u64);
            let take = (PAGE_BYTES as usize - inside).min(out.len() - at);
            match self.0.get(&page) {
                Some(bytes) => out[at..at + take].copy_from_slice(&bytes[inside..inside + take]),
                None => out[at..at + take].fill(0),
            }
            at += take;
        }
    }

    /// Puts `bytes` at `offset_bytes`.
    pub fn write(&mut self, offset_bytes: u64, bytes: &[u8]) {
        let mut at = 0;
        while at < bytes.len() {
            let (page, inside) = split(offset_bytes + at as u64);
            let take = (PAGE_BYTES as usize - inside).min(bytes.len() - at);
            let target = self.0.entry(page).or_insert_with(|| Arc::new([0; PAGE_BYTES as usize]));
            Arc::make_mut(target)[inside..inside + take].copy_from_slice(&bytes[at..at + take]);
            at += take;
        }
    }

    /// Makes the range read as zeros and forgets whole pages.
    pub fn discard(&mut self, offset_bytes: u64, len_bytes: u64) {
        let end = offset_bytes + len_bytes;
        let (first, last) = (offset_bytes.div_ceil(PAGE_BYTES), end / PAGE_BYTES);
        if first >= last {
            return self.write(offset_bytes, &vec![0; len_bytes as usize]);
        }
        let inside: Vec<u64> = self.0.range(first..last).map(|(page, _)| *page).collect();
        for page in inside {
            self.0.remove(&page);
        }
        self.write(offset_bytes, &vec![0; (first * PAGE_BYTES - offset_bytes) as usize]);
        self.write(last * PAGE_BYTES, &vec![0; (end - last * PAGE_BYTES) as usize]);
    }

    /// Whether every page of the range holds something.
    pub fn holds(&self, offset_bytes: u64, len_bytes: u64) -> bool {
        let first = offset_bytes / PAGE_BYTES;
        let last = (offset_bytes + len_bytes).div_ceil(PAGE_BYTES);
        self.0.range(first..last).count() as u64 == last - first
    }

    pub(super) fn sector(&self, sector: u64) -> Sector {
        let mut bytes = [0; SECTOR_BYTES as usize];
        self.read(sector * SECTOR_BYTES, &mut bytes);
        bytes
    }

    pub(super) fn set_sector(&mut self, sector: u64, bytes: &Sector) {
        self.write(sector * SECTOR_BYTES, bytes);
    }
}

fn split(offset_bytes: u64) -> (u64, usize) {
    (offset_bytes / PAGE_BYTES, (offset_bytes % PAGE_BYTES) as usize)
}
