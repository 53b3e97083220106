//! Reads a checkpoint back: all pages from the superblock's roots down to the leaves, checked against what their parents say of them.
//!
//! What is wrong with one component stays with it; a damaged component table or bitmap tree is an error for the whole disk. The free
//! extents follow from what the maps reach; the bitmap on the disk must say the same.
use super::checkpoint::table_entry;
use super::label::Label;
use super::state::{LeafNode, Loaded, MAP_HEIGHT, State};
use super::tree::Tree;
use super::{CapError, Finding};
use crate::fmt::bitmap::{Bitmap, ExtentState};
use crate::fmt::component::{Component, MAP_ROOTS, decode_chained};
use crate::fmt::dir::{DirEntry, Directory};
use crate::fmt::header::{Header, Place};
use crate::fmt::leaf::{Leaf, fold};
use crate::fmt::superblock::{CheckpointRoot, Region};
use crate::fmt::{BLOCK, FmtError, LocalId};
use crate::io::{Disk, DiskError, IoBuf};
use model::units::EXTENT_BYTES;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// Extents of metadata kept while loading: 16 MiB.
const CACHED_EXTENTS_MAX: usize = 256;

/// Reads pages of one checkpoint.
struct Reader {
    disk: Disk,
    dev_id: u64,
    region: Region,
    generation: u64,
    /// Whole extents of pages, since pages lie together.
    cache: RefCell<BTreeMap<u64, IoBuf>>,
}

/// Why a page could not be used.
enum PageError {
    Disk(DiskError),
    Format(FmtError),
}

impl Reader {
    /// Reads the page that `entry` points at. `decode` also checks; the page must have the checksum that the parent keeps, belong to
    /// `owner`, and be no newer than the checkpoint. What fails is read once more, past the cache.
    async fn page<T>(
        &self,
        offset: u64,
        crc: u32,
        owner: u64,
        decode: impl Fn(&[u8], Place) -> Result<(T, Header, u32), FmtError>,
    ) -> Result<T, PageError> {
        let within = offset.wrapping_sub(self.region.offset_bytes);
        if within >= self.region.len_bytes || !within.is_multiple_of(BLOCK as u64) {
            return Err(PageError::Format(FmtError::Field("page_offset_bytes")));
        }
        let place = Place { dev_id: Some(self.dev_id), self_off: offset };
        let check = |buf: &[u8]| match decode(buf, place)? {
            (_, _, found) if found != crc => Err(FmtError::Checksum),
            (_, header, _) if header.owner != owner => Err(FmtError::Field("owner")),
            (_, header, _) if header.generation > self.generation => Err(FmtError::Field("generation")),
            (page, _, _) => Ok(page),
        };
        if let Ok(buf) = self.cached(within).await
            && let Ok(page) = check(&buf)
        {
            return Ok(page);
        }
        let buf = self.disk.read(offset, IoBuf::for_read(BLOCK)).await.map_err(PageError::Disk)?;
        check(&buf).map_err(PageError::Format)
    }

    async fn cached(&self, within: u64) -> Result<IoBuf, DiskError> {
        let (extent, start) = (within / EXTENT_BYTES, (within % EXTENT_BYTES) as usize);
        let page = |buf: &IoBuf| buf.slice(start..start + BLOCK);
        if let Some(buf) = self.cache.borrow().get(&extent) {
            return Ok(page(buf));
        }
        let offset = self.region.offset_bytes + extent * EXTENT_BYTES;
        let buf = self.disk.read(offset, IoBuf::for_read(EXTENT_BYTES as usize)).await?;
        let mut cache = self.cache.borrow_mut();
        if cache.len() >= CACHED_EXTENTS_MAX {
            cache.clear();
        }
        let found = page(&buf);
        cache.insert(extent, buf);
        Ok(found)
    }

    /// Reads a tree. Returns what its lowest pages point at; pages that cannot be used are reported by their entry.
    async fn tree(
        &self,
        tree: &mut Tree,
        roots: &[DirEntry],
        owner: u64,
        bad: &mut Vec<(u64, PageError)>,
    ) -> Result<Vec<(u64, DirEntry)>, CapError> {
        for (index, root) in roots.iter().enumerate() {
            tree.set_root(index, *root);
        }
        let mut entries: Vec<(u64, DirEntry)> = (0..).zip(roots.iter().copied()).collect();
        for level in (0..tree.height()).rev() {
            let mut below = Vec::new();
            for (index, entry) in entries.into_iter().filter(|(_, entry)| !entry.is_empty()) {
                let decode = |block: &[u8], place: Place| {
                    let (page, header, crc) = Directory::decode(block, place)?;
                    check_page(&page, level, index, &entry)?;
                    Ok((page, header, crc))
                };
                match self.page(entry.page_offset_bytes, entry.crc, owner, decode).await {
                    Ok(page) => {
                        below.extend((page.first..).zip(page.entries));
                        tree.insert_loaded(page);
                    }
                    Err(PageError::Disk(DiskError::Gone)) => return Err(DiskError::Gone.into()),
                    Err(error) => bad.push((entry.page_offset_bytes, error)),
                }
            }
            entries = below;
        }
        entries.retain(|(_, entry)| !entry.is_empty());
        Ok(entries)
    }
}

/// A directory page must stand where its parent says, and sum up to what the parent says.
fn check_page(page: &Directory, level: usize, index: u64, entry: &DirEntry) -> Result<(), FmtError> {
    if usize::from(page.level) != level || page.first != index * page.entries.len() as u64 {
        return Err(FmtError::Field("first"));
    }
    let sums = fold(&page.entries, entry.page_offset_bytes, entry.crc);
    if sums == *entry { Ok(()) } else { Err(FmtError::Field("sums")) }
}

impl From<PageError> for FmtError {
    /// An unreadable page is one whose checksum cannot be right.
    fn from(error: PageError) -> Self {
        match error {
            PageError::Disk(_) => FmtError::Checksum,
            PageError::Format(error) => error,
        }
    }
}

fn fatal(offset_bytes: u64, error: PageError) -> CapError {
    match error {
        PageError::Disk(error) => error.into(),
        PageError::Format(source) => CapError::Damaged { offset_bytes, source },
    }
}

fn describe(error: &PageError) -> String {
    match error {
        PageError::Disk(error) => format!("metadata page cannot be read: {error}"),
        PageError::Format(error) => format!("metadata page is damaged: {error}"),
    }
}

/// A checkpoint in RAM, and what was wrong with it.
pub(super) struct Loading {
    pub state: State,
    pub findings: Vec<Finding>,
    reader: Reader,
    /// Pages in use, and what owns them.
    pages: Vec<(u64, Option<LocalId>)>,
}

/// Loads the newest checkpoint that the label names.
///
/// # Errors
/// `NoExtents`; `Damaged` for a page of the component table or of the bitmap; `Disk`.
pub(super) async fn load(label: &Label) -> Result<Loading, CapError> {
    let (root, region) = {
        let superblock = label.superblock();
        (superblock.checkpoint, superblock.extents_region().ok_or(CapError::NoExtents)?)
    };
    if root.generation == 0 {
        return Err(CapError::NoExtents);
    }
    let reader = Reader {
        disk: label.disk().clone(),
        dev_id: label.dev_id(),
        region,
        generation: root.generation,
        cache: RefCell::default(),
    };
    let mut state = State::new(region);
    state.generation = root.generation;
    let mut loading = Loading { state, findings: Vec::new(), reader, pages: Vec::new() };
    let disk_bitmap = loading.load_bitmap(&root).await?;
    loading.load_components(&root).await?;
    loading.account(&disk_bitmap);
    loading.state.nodes = loading.state.count_nodes();
    loading.compare_counters(&root);
    Ok(loading)
}

impl Loading {
    fn find(&mut self, component: Option<LocalId>, offset_bytes: u64, text: String) {
        self.findings.push(Finding { component, block: None, offset_bytes: Some(offset_bytes), text });
    }

    async fn load_bitmap(&mut self, root: &CheckpointRoot) -> Result<Vec<Bitmap>, CapError> {
        let mut tree = Tree::new(1, self.state.bitmap.height());
        let mut bad = Vec::new();
        let entries = self.reader.tree(&mut tree, &[root.bitmap], 0, &mut bad).await?;
        if let Some((offset, error)) = bad.into_iter().next() {
            return Err(fatal(offset, error));
        }
        let mut groups = Vec::new();
        for (index, entry) in &entries {
            let loaded = self.reader.page(entry.page_offset_bytes, entry.crc, 0, Bitmap::decode).await;
            let page = loaded.map_err(|error| fatal(entry.page_offset_bytes, error))?;
            let expected = self.state.extents.groups().get(*index as usize);
            let fits = expected
                .is_some_and(|group| (group.first(), group.extents()) == (page.first(), page.extents()));
            let allocated = page.extents() - page.count(ExtentState::Free);
            if !fits || allocated != entry.allocated {
                let source = FmtError::Field("bitmap");
                return Err(CapError::Damaged { offset_bytes: entry.page_offset_bytes, source });
            }
            groups.push(page);
        }
        if groups.len() != self.state.extents.groups().len() {
            let source = FmtError::Field("bitmap");
            return Err(CapError::Damaged { offset_bytes: root.bitmap.page_offset_bytes, source });
        }
        self.pages.extend(entries.iter().map(|(_, entry)| (entry.page_offset_bytes, None)));
        self.pages.extend(tree.page_offsets().into_iter().map(|offset| (offset, None)));
        self.state.bitmap = tree;
        Ok(groups)
    }

    async fn load_components(&mut self, root: &CheckpointRoot) -> Result<(), CapError> {
        let mut table = Tree::new(1, self.state.table.height());
        let mut bad = Vec::new();
        let entries = self.reader.tree(&mut table, &[root.table], 0, &mut bad).await?;
        if let Some((offset, error)) = bad.into_iter().next() {
            return Err(fatal(offset, error));
        }
        self.pages.extend(table.page_offsets().into_iter().map(|offset| (offset, None)));
        self.state.table = table;
        for (slot, entry) in entries {
            self.load_component(slot, entry).await?;
        }
        Ok(())
    }

    /// Loads one component; damage inside it is a finding and marks it, a header that cannot be read is only a finding.
    async fn load_component(&mut self, slot: u64, entry: DirEntry) -> Result<(), CapError> {
        let offset = entry.page_offset_bytes;
        let owner = RefCell::new(0);
        let decode = |block: &[u8], place: Place| {
            let decoded = Component::decode(block, place)?;
            // The table does not know the local id: the header says it itself.
            let header = Header { owner: 0, ..decoded.header };
            *owner.borrow_mut() = decoded.header.owner;
            let crc = decoded.crc;
            Ok((decoded, header, crc))
        };
        self.pages.push((offset, None));
        self.state.slots.insert(slot);
        let decoded = match self.reader.page(offset, entry.crc, 0, decode).await {
            Ok(decoded) => decoded,
            Err(PageError::Disk(DiskError::Gone)) => return Err(DiskError::Gone.into()),
            Err(error) => {
                self.find(None, offset, format!("component header: {}", describe(&error)));
                return Ok(());
            }
        };
        let (local, owner) = (decoded.component.local, owner.into_inner());
        let mut loaded = Loaded {
            header: decoded.component,
            descriptor: decoded.descriptor.clone().into(),
            chain: Vec::new(),
            map: Tree::new(MAP_ROOTS, MAP_HEIGHT),
            leaves: BTreeMap::new(),
            slot,
            dirty: false,
            damaged: false,
        };
        let findings = self.findings.len();
        if table_entry(&loaded.header.roots, offset, entry.crc) != entry {
            self.find(Some(local), offset, "component header: sums differ from the table's".into());
        }
        let (mut bytes, mut next) = (decoded.descriptor, decoded.next);
        while next.offset_bytes != 0 && bytes.len() < decoded.descriptor_bytes {
            let decode = |block: &[u8], place: Place| {
                let (part, next, crc) = decode_chained(block, place)?;
                let (header, _) =
                    crate::fmt::header::open(block, crate::fmt::header::Kind::Descriptor, place)?;
                Ok(((part, next), header, crc))
            };
            let page = self.reader.page(next.offset_bytes, next.crc, owner, decode).await;
            let Ok((part, after)) = page else { break };
            self.pages.push((next.offset_bytes, Some(local)));
            loaded.chain.push(next.offset_bytes);
            bytes.extend(part);
            next = after;
        }
        if bytes.len() != decoded.descriptor_bytes {
            self.find(Some(local), next.offset_bytes, "descriptor cannot be read".into());
        }
        loaded.descriptor = bytes.into();
        self.load_map(local, &mut loaded).await?;
        loaded.damaged = self.findings.len() > findings;
        if self.state.components.insert(local, loaded).is_some() {
            self.find(Some(local), offset, "two components have this number".into());
        }
        Ok(())
    }

    async fn load_map(&mut self, local: LocalId, loaded: &mut Loaded) -> Result<(), CapError> {
        let owner = u64::from(local.0);
        let mut bad = Vec::new();
        let roots = loaded.header.roots;
        let entries = self.reader.tree(&mut loaded.map, &roots, owner, &mut bad).await?;
        for (offset, error) in bad {
            self.find(Some(local), offset, describe(&error));
        }
        self.pages.extend(loaded.map.page_offsets().into_iter().map(|offset| (offset, Some(local))));
        for (index, entry) in entries {
            let decode = |block: &[u8], place: Place| {
                let (leaf, header, crc) = Leaf::decode(block, place)?;
                let sums = (leaf.allocated(), leaf.oseq_max(), leaf.digest());
                let right =
                    u64::from(leaf.index) == index && sums == (entry.allocated, entry.oseq_max, entry.digest);
                if right { Ok((leaf, header, crc)) } else { Err(FmtError::Field("sums")) }
            };
            self.pages.push((entry.page_offset_bytes, Some(local)));
            match self.reader.page(entry.page_offset_bytes, entry.crc, owner, decode).await {
                Ok(leaf) => drop(loaded.leaves.insert(leaf.index, LeafNode { leaf, dirty: false })),
                Err(PageError::Disk(DiskError::Gone)) => return Err(DiskError::Gone.into()),
                Err(error) => self.find(Some(local), entry.page_offset_bytes, describe(&error)),
            }
        }
        Ok(())
    }

    /// Fills the allocators from what the maps reach, and compares with the bitmap of the disk.
    fn account(&mut self, disk: &[Bitmap]) {
        let region = self.state.region;
        let damaged = !self.findings.is_empty();
        let mut metadata = BTreeSet::new();
        for (offset, owner) in std::mem::take(&mut self.pages) {
            let extent = (offset.wrapping_sub(region.offset_bytes)) / EXTENT_BYTES;
            if extent >= self.state.extents.total() {
                continue; // reported where the page was read
            }
            if metadata.insert(extent) {
                self.state.extents.claim(extent, ExtentState::Metadata);
                self.state.pages.add(extent);
            }
            if !self.state.pages.claim(offset) {
                self.find(owner, offset, "metadata page is used twice".into());
            }
        }
        let mut data = Vec::new();
        for (local, component) in &self.state.components {
            let entries = component.leaves.values().flat_map(|node| &node.leaf.entries);
            data.extend(entries.filter_map(|entry| entry.extent).map(|extent| (*local, extent)));
        }
        for (local, extent) in data {
            let claimed =
                extent < self.state.extents.total() && self.state.extents.claim(extent, ExtentState::Data);
            if !claimed {
                let offset = region.offset_bytes.wrapping_add(extent.wrapping_mul(EXTENT_BYTES));
                self.find(Some(local), offset, format!("extent {extent} is used twice or outside the disk"));
            }
        }
        self.compare_bitmap(disk, damaged);
    }

    fn compare_bitmap(&mut self, disk: &[Bitmap], damaged: bool) {
        let mut equal = true;
        for page in disk {
            for index in 0..page.extents() {
                let extent = page.first() + u64::from(index);
                let (says, reached) = (page.get(index), self.state.extents.get(extent));
                if says == reached {
                    continue;
                }
                // An emptied metadata extent stays with the pool until a checkpoint gives it back.
                let emptied = says == ExtentState::Metadata && reached == ExtentState::Free;
                let keep = says == ExtentState::Bad || damaged;
                if keep && reached == ExtentState::Free {
                    self.state.extents.claim(extent, says);
                } else if emptied {
                    self.state.extents.claim(extent, says);
                    self.state.pages.add(extent);
                } else {
                    equal = false;
                    let offset = self.state.offset_bytes(extent);
                    self.find(
                        None,
                        offset,
                        format!("extent {extent} is {says:?} in the bitmap, but {reached:?}"),
                    );
                }
            }
        }
        if equal {
            self.state.extents.set_clean();
            self.state.dirty = false;
        }
    }

    fn compare_counters(&mut self, root: &CheckpointRoot) {
        let state = &self.state;
        let found = (state.components.len() as u32, state.extents.count(ExtentState::Data));
        if self.findings.is_empty() && found != (root.components, root.data_extents) {
            let text = format!("{found:?} components and data extents, the superblock says otherwise");
            self.find(None, 0, text);
        }
    }
}
