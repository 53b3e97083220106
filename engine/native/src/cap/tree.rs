//! A tree of directory pages in RAM: numbered things (leaves, bitmap pages, component headers) and the sums over them.
//!
//! Invariants: allocated and oseq_max of every entry are those of what hangs below it, at any moment; place, checksum and digest are
//! those of the newest page that was encoded, and become new in [`Tree::commit`] (a digest for each write would cost more than the rest
//! of it); a page that changed has changed ancestors.
use super::checkpoint::Writer;
use crate::fmt::dir::{DIR_ENTRIES, DirEntry, Directory};
use crate::fmt::leaf::fold;
use std::collections::BTreeMap;

#[derive(Debug)]
struct Node {
    page: Directory,
    dirty: bool,
}

/// A tree with one or more roots and a fixed number of levels of pages.
#[derive(Debug)]
pub(super) struct Tree {
    roots: Vec<DirEntry>,
    /// Pages by level, level 0 pointing at the numbered things.
    levels: Vec<BTreeMap<u64, Node>>,
}

/// Sums over a page that is not encoded yet, for the entry that points at it.
fn sums(entries: &[DirEntry], old: DirEntry) -> DirEntry {
    let (mut allocated, mut oseq_max) = (0, 0);
    for entry in entries {
        allocated += entry.allocated;
        oseq_max = entry.oseq_max.max(oseq_max);
    }
    DirEntry { allocated, oseq_max, ..old }
}

const FAN_OUT: u64 = DIR_ENTRIES as u64;

impl Tree {
    /// An empty tree for `roots` × 120^`height` things.
    pub fn new(roots: usize, height: usize) -> Self {
        Self {
            roots: vec![DirEntry::default(); roots],
            levels: (0..height).map(|_| BTreeMap::new()).collect(),
        }
    }

    /// Levels that a tree with one root needs for `count` things.
    pub fn height_for(count: u64) -> usize {
        (1..).find(|height| FAN_OUT.saturating_pow(*height) >= count).unwrap_or(1) as usize
    }

    /// Things that fit.
    pub fn capacity(&self) -> u64 {
        self.roots.len() as u64 * FAN_OUT.pow(self.levels.len() as u32)
    }

    /// The entries that point at the top pages.
    pub fn roots(&self) -> &[DirEntry] {
        &self.roots
    }

    /// Pages.
    pub fn nodes(&self) -> u64 {
        self.levels.iter().map(|level| level.len() as u64).sum()
    }

    /// Pages that [`Tree::commit`] would write.
    pub fn dirty_nodes(&self) -> u64 {
        self.levels.iter().flat_map(BTreeMap::values).filter(|node| node.dirty).count() as u64
    }

    /// Byte offsets of all pages that were ever encoded.
    pub fn page_offsets(&self) -> Vec<u64> {
        let entries = self.levels[1..].iter().flat_map(BTreeMap::values).flat_map(|node| &node.page.entries);
        entries
            .chain(&self.roots)
            .map(|entry| entry.page_offset_bytes)
            .filter(|offset| *offset != 0)
            .collect()
    }

    /// The entry of thing `index`.
    pub fn get(&self, index: u64) -> DirEntry {
        let node = self.levels[0].get(&(index / FAN_OUT));
        node.map_or_else(DirEntry::default, |node| node.page.entries[(index % FAN_OUT) as usize])
    }

    /// Sets the entry of thing `index` and the sums above it. Returns the pages that came into being.
    pub fn set(&mut self, index: u64, entry: DirEntry) -> u64 {
        let (mut below, mut index, mut created) = (entry, index, 0);
        for level in 0..self.levels.len() {
            let page = index / FAN_OUT;
            let old = match self.levels.get(level + 1) {
                Some(above) => above
                    .get(&(page / FAN_OUT))
                    .map_or_else(DirEntry::default, |node| node.page.entries[(page % FAN_OUT) as usize]),
                None => self.roots[page as usize],
            };
            let node = self.levels[level].entry(page).or_insert_with(|| {
                created += 1;
                Node { page: Directory::empty(level as u8, page * FAN_OUT), dirty: true }
            });
            node.page.entries[(index % FAN_OUT) as usize] = below;
            node.dirty = true;
            below = sums(&node.page.entries, old);
            index = page;
        }
        self.roots[index as usize] = below;
        created
    }

    /// Pages that [`Tree::set`] of `index` would create: their level, and which of that level.
    pub fn missing_pages(&self, index: u64) -> impl Iterator<Item = (u8, u64)> {
        let mut page = index;
        let above = self.levels.iter().enumerate().map(move |(level, pages)| {
            page /= FAN_OUT;
            (level as u8, page, pages.contains_key(&page))
        });
        above.filter(|(_, _, exists)| !exists).map(|(level, page, _)| (level, page))
    }

    /// Things whose sequence is above `oseq`, in order; pages without any are skipped.
    pub fn changed_since(&self, oseq: u64) -> Vec<u64> {
        let mut found = Vec::new();
        for (page, root) in self.roots.iter().enumerate() {
            if root.oseq_max > oseq {
                self.walk(self.levels.len() - 1, page as u64, oseq, &mut found);
            }
        }
        found
    }

    fn walk(&self, level: usize, page: u64, oseq: u64, found: &mut Vec<u64>) {
        let Some(node) = self.levels[level].get(&page) else { return };
        for (i, entry) in node.page.entries.iter().enumerate() {
            let index = page * FAN_OUT + i as u64;
            match (entry.oseq_max > oseq, level) {
                (false, _) => {}
                (true, 0) => found.push(index),
                (true, _) => self.walk(level - 1, index, oseq, found),
            }
        }
    }

    /// Encodes every changed page to a free place, from the bottom up; the old places are retired. `owner` goes into the headers.
    pub fn commit(&mut self, owner: u64, writer: &mut Writer<'_>) {
        for level in 0..self.levels.len() {
            let changed: Vec<u64> =
                self.levels[level].iter().filter(|(_, node)| node.dirty).map(|(page, _)| *page).collect();
            for page in changed {
                let Some(node) = self.levels[level].get_mut(&page) else { continue };
                node.dirty = false;
                let directory = node.page.clone();
                let parent = match self.levels.get_mut(level + 1) {
                    Some(above) => above
                        .get_mut(&(page / FAN_OUT))
                        .map(|node| &mut node.page.entries[(page % FAN_OUT) as usize]),
                    None => self.roots.get_mut(page as usize),
                };
                let Some(parent) = parent else { continue };
                let (offset, crc) =
                    writer.put(parent.page_offset_bytes, owner, |header| directory.encode(header));
                *parent = fold(&directory.entries, offset, crc);
            }
        }
    }

    /// Puts a page that was read from the disk into its place; nothing counts as changed by that.
    pub fn insert_loaded(&mut self, page: Directory) {
        let (level, index) = (usize::from(page.level), page.first / FAN_OUT);
        self.levels[level].insert(index, Node { page, dirty: false });
    }

    /// Sets a root as it was read from the disk.
    pub fn set_root(&mut self, index: usize, entry: DirEntry) {
        self.roots[index] = entry;
    }

    /// Levels of pages.
    pub fn height(&self) -> usize {
        self.levels.len()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sums_follow_every_change_and_walks_skip_what_is_old() {
        let mut tree = Tree::new(16, 2);
        assert_eq!(tree.capacity(), 16 * 14_400);
        let leaf =
            |allocated, oseq_max| DirEntry { allocated, oseq_max, digest: oseq_max, ..DirEntry::default() };
        assert_eq!(tree.missing_pages(15_000).collect::<Vec<_>>(), [(0, 125), (1, 1)]);
        assert_eq!(tree.set(15_000, leaf(3, 40)), 2);
        assert_eq!(tree.set(7, leaf(2, 50)), 2);
        assert_eq!(tree.set(8, leaf(1, 10)), 0);
        assert_eq!((tree.missing_pages(9).count(), tree.missing_pages(120).count(), tree.nodes()), (0, 1, 4));
        assert_eq!((tree.roots()[0].allocated, tree.roots()[0].oseq_max), (3, 50));
        assert_eq!((tree.roots()[1].allocated, tree.roots()[1].oseq_max), (3, 40));
        assert_eq!(tree.changed_since(0), [7, 8, 15_000]);
        assert_eq!(tree.changed_since(10), [7, 15_000]);
        assert_eq!(tree.changed_since(40), [7]);
        tree.set(7, leaf(0, 0));
        assert_eq!((tree.roots()[0].allocated, tree.roots()[0].oseq_max), (1, 10));
        tree.set(8, DirEntry::default());
        assert_eq!((tree.roots()[0].allocated, tree.roots()[0].oseq_max), (0, 0));
    }

    #[test]
    fn a_bitmap_tree_is_as_high_as_its_disk_needs() {
        let heights = [1, 8, 120, 121, 14_400, 14_401].map(Tree::height_for);
        assert_eq!(heights, [1, 1, 1, 2, 2, 3]);
    }
}
