//! Everything about a capacity disk in RAM: components, their leaves and trees, the allocators, and the account of space.
//!
//! All functions here are synchronous. Invariant of space: `reserve` promises only what leaves room to write every metadata page once
//! more while its old version is still there, so that neither a write with a reservation nor a checkpoint ever lacks space.
use super::extents::Extents;
use super::pages::{EXTENT_PAGES, Pages};
use super::tree::Tree;
use super::{CapError, ComponentInfo, Need, NewComponent, NewPage, Usage};
use crate::fmt::LocalId;
use crate::fmt::bitmap::ExtentState;
use crate::fmt::component::{Component, MAP_ROOTS, chained_pages};
use crate::fmt::dir::DirEntry;
use crate::fmt::layout::group_extents;
use crate::fmt::leaf::{EXTENT_BLOCKS, LEAF_EXTENTS, Leaf, LeafEntry};
use crate::fmt::superblock::Region;
use crate::io::IoBuf;
use model::units::EXTENT_BYTES;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// Levels of pages between the roots of a component and its leaves.
pub(super) const MAP_HEIGHT: usize = 2;
/// Levels of pages of the component table: 14,400 components. Source: vSAN allows 9,000 on a host.
pub(super) const TABLE_HEIGHT: usize = 2;
/// Pages kept beyond what is counted: descriptors that grow on a full disk.
const SPARE_PAGES: u64 = 32;

/// The extents of a component that blocks `block .. block + nblk` touch: (extent index, first block in it, number of blocks).
pub(super) fn pieces(block: u64, nblk: u64) -> impl Iterator<Item = (u64, usize, usize)> {
    const PER: u64 = EXTENT_BLOCKS as u64;
    let end = block + nblk;
    (block / PER..end.div_ceil(PER)).map(move |extent| {
        let first = block.max(extent * PER);
        let last = end.min((extent + 1) * PER);
        (extent, (first % PER) as usize, (last - first) as usize)
    })
}

/// Bits `first .. first + count` of a valid mask.
pub(super) fn mask(first: usize, count: usize) -> u16 {
    (((1u32 << count) - 1) << first) as u16
}

#[derive(Debug)]
pub(super) struct LeafNode {
    pub leaf: Leaf,
    pub dirty: bool,
}

/// A component in RAM.
#[derive(Debug)]
pub(super) struct Loaded {
    /// What the header says; its roots are those of `map`.
    pub header: Component,
    pub descriptor: Rc<[u8]>,
    /// Places of the pages with the rest of the descriptor, as last encoded.
    pub chain: Vec<u64>,
    pub map: Tree,
    pub leaves: BTreeMap<u32, LeafNode>,
    /// Position in the component table.
    pub slot: u64,
    pub dirty: bool,
    pub damaged: bool,
}

impl Loaded {
    /// The entry of an extent; one that was never written is all zero.
    pub fn entry(&self, extent: u64) -> LeafEntry {
        let (leaf, index) = place(extent);
        self.leaves.get(&leaf).map_or_else(LeafEntry::default, |node| node.leaf.entries[index])
    }

    /// Whether the extent has a leaf.
    pub fn has_leaf(&self, extent: u64) -> bool {
        self.leaves.contains_key(&place(extent).0)
    }

    /// Metadata pages: leaves, directories, header, descriptor.
    pub fn nodes(&self) -> u64 {
        self.leaves.len() as u64 + self.map.nodes() + 1 + chained_pages(self.descriptor.len()) as u64
    }

    /// Pages that an entry in leaf `index` would create.
    pub fn missing_pages(&self, index: u32) -> Vec<NewPage> {
        if self.leaves.contains_key(&index) {
            return Vec::new();
        }
        let local = self.header.local;
        let above = self.map.missing_pages(index.into());
        let above = above.map(|(level, index)| NewPage { local, level: level + 1, index });
        std::iter::once(NewPage { local, level: 0, index: index.into() }).chain(above).collect()
    }

    /// Extents in use.
    pub fn allocated(&self) -> u64 {
        self.map.roots().iter().map(|root| u64::from(root.allocated)).sum()
    }

    pub fn oseq_max(&self) -> u64 {
        self.map.roots().iter().map(|root| root.oseq_max).max().unwrap_or(0)
    }

    pub fn info(&self) -> ComponentInfo {
        ComponentInfo {
            local: self.header.local,
            component: self.header.component,
            object: self.header.object,
            kind: self.header.kind,
            size_blocks: self.header.size_blocks,
            csn: self.header.csn,
            descriptor: Rc::clone(&self.descriptor),
            applied_stable_oseq: self.header.applied_stable_oseq,
            used_bytes: self.allocated() * EXTENT_BYTES,
            oseq_max: self.oseq_max(),
            damaged: self.damaged,
        }
    }
}

/// Leaf and position in it of an extent of a component.
fn place(extent: u64) -> (u32, usize) {
    ((extent / LEAF_EXTENTS as u64) as u32, (extent % LEAF_EXTENTS as u64) as usize)
}

/// A capacity disk in RAM.
#[derive(Debug)]
pub(super) struct State {
    pub region: Region,
    pub components: BTreeMap<LocalId, Loaded>,
    pub slots: BTreeSet<u64>,
    pub table: Tree,
    pub bitmap: Tree,
    pub extents: Extents,
    pub pages: Pages,
    /// Extents promised and not yet used.
    pub reserved_extents: u64,
    /// Map pages promised that do not exist yet, with the number of their writers. However many wait for a page, it is one page.
    promised: BTreeMap<NewPage, u32>,
    /// Metadata pages that a checkpoint of everything would write.
    pub nodes: u64,
    /// Generation of the newest cut.
    pub generation: u64,
    pub dirty: bool,
    /// Pages that a failed checkpoint may not have written: written again by the next.
    pub backlog: Vec<(u64, IoBuf)>,
}

impl State {
    /// An empty disk of which nothing is on the disk yet.
    pub fn new(region: Region) -> Self {
        let extents = Extents::new(region.len_bytes / EXTENT_BYTES, group_extents(region.len_bytes));
        let groups = extents.groups().len() as u64;
        let mut bitmap = Tree::new(1, Tree::height_for(groups));
        let mut table = Tree::new(1, TABLE_HEIGHT);
        let mut nodes = groups + table.set(0, DirEntry::default());
        for group in 0..groups {
            nodes += bitmap.set(group, DirEntry::default());
        }
        Self {
            region,
            components: BTreeMap::new(),
            slots: BTreeSet::new(),
            table,
            bitmap,
            extents,
            pages: Pages::new(region.offset_bytes),
            reserved_extents: 0,
            promised: BTreeMap::new(),
            nodes,
            generation: 0,
            dirty: true,
            backlog: Vec::new(),
        }
    }

    pub fn component(&self, local: LocalId) -> Result<&Loaded, CapError> {
        self.components.get(&local).ok_or(CapError::NoComponent(local))
    }

    pub fn component_mut(&mut self, local: LocalId) -> Result<&mut Loaded, CapError> {
        self.dirty = true;
        let component = self.components.get_mut(&local).ok_or(CapError::NoComponent(local))?;
        component.dirty = true;
        Ok(component)
    }

    /// Checks that blocks lie in a component.
    pub fn check_range(&self, local: LocalId, block: u64, nblk: u64) -> Result<&Loaded, CapError> {
        let component = self.component(local)?;
        match block.checked_add(nblk) {
            Some(end) if end <= component.header.size_blocks => Ok(component),
            end => Err(CapError::Range { local, block, end: end.unwrap_or(u64::MAX) }),
        }
    }

    /// Changes the entry of an extent and all sums above it. A promise of a page that comes into being is thereby kept.
    pub fn change(
        &mut self,
        local: LocalId,
        extent: u64,
        change: impl FnOnce(&mut LeafEntry),
    ) -> Result<(), CapError> {
        let component = self.component_mut(local)?;
        let (index, position) = place(extent);
        let created = component.missing_pages(index);
        let node = component
            .leaves
            .entry(index)
            .or_insert_with(|| LeafNode { leaf: Leaf::empty(index), dirty: true });
        change(&mut node.leaf.entries[position]);
        node.dirty = true;
        let entry = DirEntry {
            allocated: node.leaf.allocated(),
            oseq_max: node.leaf.oseq_max(),
            ..component.map.get(index.into())
        };
        component.map.set(index.into(), entry);
        self.nodes += created.len() as u64;
        for page in created {
            self.promised.remove(&page);
        }
        Ok(())
    }

    /// Map pages promised that do not exist yet.
    pub fn promised_pages(&self) -> u64 {
        self.promised.len() as u64
    }

    /// Extents that must become metadata before everything in RAM, and `promised_pages`, could be written once more.
    fn metadata_debt(&self, promised_pages: u64) -> u64 {
        let needed = self.pages.quarantined() + 2 * (self.nodes + promised_pages) + SPARE_PAGES;
        needed.saturating_sub(self.pages.capacity()).div_ceil(EXTENT_PAGES)
    }

    /// Whether so much more can be promised.
    fn has_room(&self, extents: u64, pages: u64) -> Result<(), CapError> {
        let debt = self.metadata_debt(self.promised_pages() + pages);
        if self.reserved_extents + extents + debt <= self.extents.available() {
            return Ok(());
        }
        Err(CapError::NoSpace { after_checkpoint: self.extents.quarantined() })
    }

    /// Promises it to one writer.
    pub fn promise(&mut self, need: &Need) -> Result<(), CapError> {
        let new = need.pages.iter().filter(|page| !self.promised.contains_key(page)).count();
        self.has_room(need.extents, new as u64)?;
        self.reserved_extents += need.extents;
        for page in &need.pages {
            *self.promised.entry(*page).or_default() += 1;
        }
        Ok(())
    }

    /// A writer no longer needs it. Pages that came into being are promised to nobody.
    pub fn give_back(&mut self, left: &Need) {
        self.reserved_extents -= left.extents;
        for page in &left.pages {
            if let Entry::Occupied(mut writers) = self.promised.entry(*page) {
                *writers.get_mut() -= 1;
                if *writers.get() == 0 {
                    writers.remove();
                }
            }
        }
    }

    pub fn create(&mut self, new: NewComponent) -> Result<(), CapError> {
        let slot = (0..self.table.capacity()).find(|slot| !self.slots.contains(slot));
        let (Some(slot), false) = (slot, self.components.contains_key(&new.local) || new.local.0 == 0) else {
            return Err(CapError::CannotCreate(new.local));
        };
        let pages =
            1 + chained_pages(new.descriptor.len()) as u64 + self.table.missing_pages(slot).count() as u64;
        self.has_room(0, pages)?;
        let header = Component {
            local: new.local,
            component: new.component,
            object: new.object,
            kind: new.kind,
            size_blocks: new.size_blocks,
            csn: new.csn,
            applied_stable_oseq: 0,
            roots: [DirEntry::default(); MAP_ROOTS],
        };
        let loaded = Loaded {
            header,
            descriptor: new.descriptor,
            chain: Vec::new(),
            map: Tree::new(MAP_ROOTS, MAP_HEIGHT),
            leaves: BTreeMap::new(),
            slot,
            dirty: true,
            damaged: false,
        };
        self.nodes += loaded.nodes() + self.table.set(slot, DirEntry::default());
        self.slots.insert(slot);
        self.components.insert(new.local, loaded);
        self.dirty = true;
        Ok(())
    }

    pub fn remove(&mut self, local: LocalId) -> bool {
        let Some(gone) = self.components.remove(&local) else { return false };
        for (index, node) in &gone.leaves {
            self.pages.retire(gone.map.get((*index).into()).page_offset_bytes);
            for extent in node.leaf.entries.iter().filter_map(|entry| entry.extent) {
                self.extents.free(extent);
            }
        }
        for offset in gone.map.page_offsets().into_iter().chain(gone.chain.iter().copied()) {
            self.pages.retire(offset);
        }
        self.pages.retire(self.table.get(gone.slot).page_offset_bytes);
        self.nodes -= gone.nodes();
        self.nodes += self.table.set(gone.slot, DirEntry::default());
        self.slots.remove(&gone.slot);
        self.dirty = true;
        true
    }

    pub fn set_descriptor(
        &mut self,
        local: LocalId,
        csn: (u64, u64),
        bytes: Rc<[u8]>,
    ) -> Result<(), CapError> {
        let old = chained_pages(self.component(local)?.descriptor.len()) as u64;
        let new = chained_pages(bytes.len()) as u64;
        if new > old + SPARE_PAGES / 4 {
            self.has_room(0, new - old)?;
        }
        let component = self.component_mut(local)?;
        component.header.csn = csn;
        component.descriptor = bytes;
        self.nodes = self.nodes + new - old;
        Ok(())
    }

    pub fn usage(&self) -> Usage {
        let bytes = |extents: u64| extents * EXTENT_BYTES;
        let due = self.metadata_debt(self.promised_pages());
        let reserved = self.reserved_extents + due;
        let available = self.extents.available();
        Usage {
            size_bytes: bytes(self.extents.total()),
            data_bytes: bytes(self.extents.count(ExtentState::Data)),
            metadata_bytes: bytes(self.extents.count(ExtentState::Metadata)),
            bad_bytes: bytes(self.extents.count(ExtentState::Bad)),
            reserved_bytes: bytes(reserved.min(available)),
            metadata_due_bytes: bytes(due.min(available)),
            free_bytes: bytes(available.saturating_sub(reserved)),
        }
    }

    /// What a write needs that does not exist yet.
    pub fn need(&self, local: LocalId, block: u64, nblk: u64) -> Need {
        let Some(component) = self.components.get(&local) else { return Need::default() };
        let mut need = Need::default();
        let mut leaf = None;
        for (extent, _, _) in pieces(block, nblk) {
            need.extents += u64::from(component.entry(extent).extent.is_none());
            let (index, _) = place(extent);
            if leaf != Some(index) {
                need.join(Need { extents: 0, pages: component.missing_pages(index) });
            }
            leaf = Some(index);
        }
        need
    }

    /// The byte offset on the disk of an extent.
    pub fn offset_bytes(&self, extent: u64) -> u64 {
        self.region.offset_bytes + extent * EXTENT_BYTES
    }

    /// Counts the pages afresh, to compare with `nodes`.
    pub fn count_nodes(&self) -> u64 {
        let components: u64 = self.components.values().map(Loaded::nodes).sum();
        components + self.table.nodes() + self.bitmap.nodes() + self.extents.groups().len() as u64
    }
}
