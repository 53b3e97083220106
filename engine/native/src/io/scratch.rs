//! A disk that is read through and written to memory only: what is under it is never changed.
//!
//! Invariant: the disk below is read, and nothing else; what was written here is seen by later reads and gone with the last handle.
use super::disk::{Disk, DiskError};
use super::{IoBuf, disk::SECTOR_BYTES};
use std::cell::RefCell;
use std::collections::BTreeMap;
use std::rc::Rc;

const PAGE_BYTES: u64 = 4096;
/// Memory of one disk, pages: 64 MiB. Opening a cluster writes labels, descriptors and checkpoints, a few MiB a disk; who wants more
/// gets the answer of a disk that is full.
const PAGES_MAX: usize = 16 << 10;

type Page = [u8; PAGE_BYTES as usize];

/// The memory over one disk. Clones share it.
#[derive(Clone)]
pub(super) struct ScratchDisk {
    below: Rc<Disk>,
    pages: Rc<RefCell<BTreeMap<u64, Box<Page>>>>,
}

impl ScratchDisk {
    pub(super) fn new(below: Disk) -> Self {
        Self { below: Rc::new(below), pages: Rc::default() }
    }

    pub(super) async fn read(&self, offset_bytes: u64, buf: IoBuf) -> Result<IoBuf, DiskError> {
        let mut buf = self.below.read(offset_bytes, buf).await?;
        let end = offset_bytes + buf.len() as u64;
        let (first, last) = (offset_bytes / PAGE_BYTES, end.div_ceil(PAGE_BYTES));
        for (page, bytes) in self.pages.borrow().range(first..last) {
            let start = page * PAGE_BYTES;
            let (from, to) = (start.max(offset_bytes), (start + PAGE_BYTES).min(end));
            let inside = &bytes[(from - start) as usize..(to - start) as usize];
            buf.as_mut()[(from - offset_bytes) as usize..(to - offset_bytes) as usize]
                .copy_from_slice(inside);
        }
        Ok(buf)
    }

    pub(super) async fn write(&self, offset_bytes: u64, bufs: Vec<IoBuf>) -> Result<(), DiskError> {
        let mut at = offset_bytes;
        for buf in bufs {
            self.put(at, &buf).await?;
            at += buf.len() as u64;
        }
        Ok(())
    }

    pub(super) async fn discard(&self, offset_bytes: u64, len_bytes: u64) -> Result<(), DiskError> {
        let zeros = IoBuf::zeroed(PAGE_BYTES as usize);
        let end = offset_bytes + len_bytes;
        let mut at = offset_bytes;
        while at < end {
            let take = (PAGE_BYTES - at % PAGE_BYTES).min(end - at);
            self.put(at, &zeros[..take as usize]).await?;
            at += take;
        }
        Ok(())
    }

    async fn put(&self, offset_bytes: u64, bytes: &[u8]) -> Result<(), DiskError> {
        let end = offset_bytes + bytes.len() as u64;
        for page in offset_bytes / PAGE_BYTES..end.div_ceil(PAGE_BYTES) {
            let start = page * PAGE_BYTES;
            let (from, to) = (start.max(offset_bytes), (start + PAGE_BYTES).min(end));
            self.fault_in(page, to - from < PAGE_BYTES).await?;
            let part = &bytes[(from - offset_bytes) as usize..(to - offset_bytes) as usize];
            if let Some(held) = self.pages.borrow_mut().get_mut(&page) {
                held[(from - start) as usize..(to - start) as usize].copy_from_slice(part);
            }
        }
        Ok(())
    }

    /// Makes a page of memory, filled from the disk when not all of it will be overwritten.
    async fn fault_in(&self, page: u64, read: bool) -> Result<(), DiskError> {
        if self.pages.borrow().contains_key(&page) {
            return Ok(());
        }
        if self.pages.borrow().len() >= PAGES_MAX {
            return Err(DiskError::NoSpace);
        }
        let mut bytes = Box::new([0; PAGE_BYTES as usize]);
        if read {
            let size = self.below.geometry().size_bytes;
            let len = (size - page * PAGE_BYTES).min(PAGE_BYTES) / SECTOR_BYTES * SECTOR_BYTES;
            let buf = self.below.read(page * PAGE_BYTES, IoBuf::for_read(len as usize)).await?;
            bytes[..buf.len()].copy_from_slice(&buf);
        }
        // Somebody may have made it meanwhile; what was written there stays.
        self.pages.borrow_mut().entry(page).or_insert(bytes);
        Ok(())
    }

    pub(super) async fn quiesce(&self) {
        Box::pin(self.below.quiesce()).await;
    }
}

#[cfg(test)]
mod tests {
    use super::super::{OpenOptions, Ring, open_file};
    use super::*;
    use model::state::Media;
    use std::time::Duration;

    #[tokio::test(flavor = "current_thread")]
    async fn what_is_written_is_read_back_and_never_reaches_the_file() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        let content: Vec<u8> = (0..64 << 10).map(|at: u32| (at / 512) as u8).collect();
        std::fs::write(&path, &content).expect("write the file");
        let mut expected = content.clone();
        let local = tokio::task::LocalSet::new();
        local
            .run_until(async {
                let options = OpenOptions { writable: false, lock_wait: Duration::ZERO, media: Media::Flash };
                let below = open_file(&Ring::new().expect("a ring"), &path, options).await.expect("open");
                let disk = below.scratch();
                for (offset, len, byte) in
                    [(512, 512, 1), (4096, 8192, 2), (7680, 1024, 3), (61_440, 4096, 4)]
                {
                    let buf = IoBuf::copy_of(&vec![byte; len]);
                    disk.write(offset as u64, vec![buf.slice(0..512), buf.slice(512..len)])
                        .await
                        .expect("write");
                    expected[offset..offset + len].fill(byte);
                }
                disk.discard(10_240, 9_728).await.expect("discard");
                expected[10_240..10_240 + 9_728].fill(0);
                disk.flush().await.expect("flush");
                for (offset, len) in [(0, 64 << 10), (512, 1024), (7168, 4096), (19_456, 1024)] {
                    let read = disk.read(offset as u64, IoBuf::for_read(len)).await.expect("read");
                    assert_eq!(&read[..], &expected[offset..offset + len], "{len} bytes at {offset}");
                }
            })
            .await;
        assert_eq!(std::fs::read(&path).expect("read the file"), content);
    }

    #[tokio::test(flavor = "current_thread")]
    async fn memory_has_an_end() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("disk");
        let size = (PAGES_MAX as u64 + 1) * PAGE_BYTES;
        std::fs::File::create(&path).and_then(|file| file.set_len(size)).expect("make the file");
        let local = tokio::task::LocalSet::new();
        local
            .run_until(async {
                let options = OpenOptions { writable: false, lock_wait: Duration::ZERO, media: Media::Flash };
                let below = open_file(&Ring::new().expect("a ring"), &path, options).await.expect("open");
                let disk = below.scratch();
                assert_eq!(disk.discard(0, size).await, Err(DiskError::NoSpace));
                disk.write(0, vec![IoBuf::zeroed(4096)]).await.expect("what is there may be written again");
            })
            .await;
    }
}
