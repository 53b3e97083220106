//! The checkpoint: RAM becomes the state that the disk comes back to.
//!
//! Order, each step after the one before: (1) no write under way; everything that changed is encoded to free pages, in one synchronous
//! cut; (2) flush of the data; (3) the pages are written; (4) flush; (5) the superblock pair with the new roots; (6) flush; (7) what the
//! cut had freed can be used again. Until (6) the old checkpoint holds, and nothing that it uses has been touched.
//! The cut is a copy, so writes go on while it is written: bitmap, maps and headers in it agree with each other (correction: a leaf must
//! never name an extent that the bitmap of the same checkpoint calls free).
use super::pages::Pages;
use super::state::{Loaded, State};
use super::{CapDisk, CapError, CheckpointMark};
use crate::fmt::BLOCK;
use crate::fmt::bitmap::ExtentState;
use crate::fmt::component::{CHAINED_BYTES, INLINE_BYTES, Next, chained_pages, encode_chained};
use crate::fmt::dir::DirEntry;
use crate::fmt::header::Header;
use crate::fmt::leaf::fold;
use crate::fmt::superblock::CheckpointRoot;
use crate::io::{DiskError, IoBuf};
use crate::mutant::{Mutant, on};
use model::units::EXTENT_BYTES;

/// Bytes of pages in a row that are written at once.
const WRITE_BYTES_MAX: usize = 1 << 20;

/// Gives pages their places and collects what must be written.
pub(super) struct Writer<'a> {
    pages: &'a mut Pages,
    dev_id: u64,
    generation: u64,
    incarnation: u32,
    images: Vec<(u64, IoBuf)>,
}

impl Writer<'_> {
    /// Encodes a page to a free place; the place of its last version (0: none) is retired. Returns place and checksum.
    pub fn put(
        &mut self,
        old: u64,
        owner: u64,
        encode: impl FnOnce(&Header) -> (Vec<u8>, u32),
    ) -> (u64, u32) {
        let self_off = self.pages.take().expect("the pages of a cut are counted before it begins");
        self.pages.retire(old);
        let header = Header {
            dev_id: self.dev_id,
            self_off,
            generation: self.generation,
            incarnation: self.incarnation,
            owner,
        };
        let (block, crc) = encode(&header);
        self.images.push((self_off, IoBuf::copy_of(&block)));
        (self_off, crc)
    }
}

/// What a checkpoint has to write.
struct Cut {
    images: Vec<(u64, IoBuf)>,
    root: CheckpointRoot,
}

impl CapDisk {
    /// Body of [`CapDisk::checkpoint`].
    pub(super) async fn run_checkpoint(&self, mark: CheckpointMark) -> Result<u64, CapError> {
        let _turn = self.0.checkpointing.lock().await;
        let cut = {
            let _gate = self.0.gate.write().await;
            let (dev_id, incarnation) = (self.0.label.dev_id(), self.0.label.superblock().epoch);
            self.0.state.borrow_mut().cut(dev_id, incarnation, &mark)?
        };
        let generation = cut.root.generation;
        let committed = self.commit(&cut).await;
        if committed.is_ok() {
            self.discard_released().await;
        }
        self.0.state.borrow_mut().end_checkpoint(cut.images, committed.is_ok());
        committed.map(|()| generation)
    }

    async fn commit(&self, cut: &Cut) -> Result<(), CapError> {
        if !on(Mutant::SkipCheckpointFlush) {
            self.disk().flush().await?;
        }
        let mut images: Vec<_> = self.0.state.borrow().backlog.iter().chain(&cut.images).cloned().collect();
        images.sort_by_key(|(offset, _)| *offset);
        let mut images = images.into_iter().peekable();
        while let Some((offset, image)) = images.next() {
            let mut run = vec![image];
            let next = |run: &Vec<IoBuf>| offset + (run.len() * BLOCK) as u64;
            while run.len() * BLOCK < WRITE_BYTES_MAX
                && let Some((_, image)) = images.next_if(|(at, _)| *at == next(&run))
            {
                run.push(image);
            }
            self.disk().write(offset, run).await?;
        }
        if !on(Mutant::SkipCheckpointFlush) {
            self.disk().flush().await?;
        }
        let root = cut.root;
        Ok(self.0.label.update(|superblock| superblock.checkpoint = root).await?)
    }

    /// Gives freed extents back to what is under the disk, before anyone can use them again. A disk that cannot do that keeps them.
    async fn discard_released(&self) {
        let freed: Vec<u64> = {
            let state = self.0.state.borrow();
            state.extents.releasing().iter().map(|extent| state.offset_bytes(*extent)).collect()
        };
        let mut freed = freed.into_iter().peekable();
        while let Some(offset) = freed.next() {
            let mut len = EXTENT_BYTES;
            while freed.next_if_eq(&(offset + len)).is_some() {
                len += EXTENT_BYTES;
            }
            match self.disk().discard(offset, len).await {
                Ok(()) => {}
                Err(DiskError::Gone) => return,
                Err(error) => tracing::debug!(%error, offset, len, "discard failed"),
            }
        }
    }
}

impl State {
    /// Encodes everything that changed. An error (no pages for it) has changed nothing.
    fn cut(&mut self, dev_id: u64, incarnation: u32, mark: &CheckpointMark) -> Result<Cut, CapError> {
        debug_assert_eq!(self.nodes, self.count_nodes());
        for (local, oseq) in &mark.applied_stable {
            if let Ok(component) = self.component_mut(*local) {
                component.header.applied_stable_oseq = component.header.applied_stable_oseq.max(*oseq);
            }
        }
        self.provide_pages()?;
        self.generation += 1;
        self.dirty = false;
        let Self { components, table, bitmap, extents, pages, .. } = self;
        let mut writer =
            Writer { pages, dev_id, generation: self.generation, incarnation, images: Vec::new() };
        for component in components.values_mut().filter(|component| component.dirty) {
            let entry = component.commit(table.get(component.slot), &mut writer);
            table.set(component.slot, entry);
        }
        table.commit(0, &mut writer);
        for group in extents.begin_release() {
            let page = &extents.groups()[group];
            let old = bitmap.get(group as u64).page_offset_bytes;
            let (page_offset_bytes, crc) = writer.put(old, 0, |header| page.encode(header));
            let allocated = page.extents() - page.count(ExtentState::Free);
            bitmap.set(group as u64, DirEntry { page_offset_bytes, crc, allocated, ..DirEntry::default() });
        }
        bitmap.commit(0, &mut writer);
        let images = writer.images;
        self.pages.begin_release();
        let root = CheckpointRoot {
            generation: self.generation,
            applied_batch: mark.applied_batch,
            table: self.table.roots()[0],
            bitmap: self.bitmap.roots()[0],
            components: self.components.len() as u32,
            data_extents: self.extents.count(ExtentState::Data),
            metadata_extents: self.extents.count(ExtentState::Metadata),
        };
        Ok(Cut { images, root })
    }

    /// Turns as many extents into metadata as the cut needs, before the bitmap is encoded.
    fn provide_pages(&mut self) -> Result<(), CapError> {
        let dirty = self.components.values().filter(|component| component.dirty);
        let pages: u64 = dirty.map(Loaded::dirty_nodes).sum();
        // The table changes where a component does, the bitmap anywhere: all of both is counted.
        let needed = pages + self.table.nodes() + self.bitmap.nodes() + self.extents.groups().len() as u64;
        while self.pages.free() < needed {
            let no_space = CapError::NoSpace { after_checkpoint: self.extents.quarantined() };
            let extent = self.extents.take(ExtentState::Metadata).ok_or(no_space)?;
            self.pages.add(extent);
        }
        Ok(())
    }

    fn end_checkpoint(&mut self, images: Vec<(u64, IoBuf)>, durable: bool) {
        self.extents.end_release(durable);
        self.pages.end_release(durable);
        if !durable {
            self.backlog.extend(images);
            self.dirty = true;
            return;
        }
        self.backlog.clear();
        // Twice the pages in use stay; the durable checkpoint uses nothing of an extent without pages.
        let keep = 2 * self.nodes + 2 * self.promised_pages() + super::pages::EXTENT_PAGES * 4;
        while self.pages.capacity() > keep
            && let Some(extent) = self.pages.remove_empty()
        {
            self.extents.free_unused(extent);
        }
    }
}

impl Loaded {
    /// Pages that [`Loaded::commit`] will write.
    fn dirty_nodes(&self) -> u64 {
        let leaves = self.leaves.values().filter(|node| node.dirty).count() as u64;
        leaves + self.map.dirty_nodes() + 1 + chained_pages(self.descriptor.len()) as u64
    }

    /// Encodes leaves, directories, descriptor and header, from the bottom up. Returns the entry for the component table.
    fn commit(&mut self, old: DirEntry, writer: &mut Writer<'_>) -> DirEntry {
        let owner = u64::from(self.header.local.0);
        for (index, node) in self.leaves.iter_mut().filter(|(_, node)| node.dirty) {
            let entry = self.map.get((*index).into());
            let (page_offset_bytes, crc) =
                writer.put(entry.page_offset_bytes, owner, |header| node.leaf.encode(header));
            self.map.set(
                (*index).into(),
                DirEntry { page_offset_bytes, crc, digest: node.leaf.digest(), ..entry },
            );
            node.dirty = false;
        }
        self.map.commit(owner, writer);
        self.header.roots.copy_from_slice(self.map.roots());
        for offset in std::mem::take(&mut self.chain) {
            writer.pages.retire(offset);
        }
        let mut next = Next::default();
        let rest = self.descriptor.get(INLINE_BYTES..).unwrap_or_default();
        for part in rest.chunks(CHAINED_BYTES).rev() {
            let (offset_bytes, crc) = writer.put(0, owner, |header| encode_chained(header, part, next));
            next = Next { offset_bytes, crc };
            self.chain.push(offset_bytes);
        }
        let (component, descriptor) = (&self.header, &self.descriptor);
        let (offset, crc) =
            writer.put(old.page_offset_bytes, owner, |header| component.encode(header, descriptor, next));
        self.dirty = false;
        table_entry(&self.header.roots, offset, crc)
    }
}

/// The table's entry of a component: the sums over its roots. Sequences of different objects do not compare: there is no maximum.
pub(super) fn table_entry(roots: &[DirEntry], offset: u64, crc: u32) -> DirEntry {
    DirEntry { oseq_max: 0, ..fold(roots, offset, crc) }
}
