//! Aligned, shareable buffers.
//!
//! Invariants: memory starts on a page of 4 KiB and never moves; bytes change only while exactly one handle exists, so a
//! buffer that an I/O holds cannot change under it.
use std::cell::Cell;
use std::ops::{Deref, Range};
use std::rc::Rc;
use zerocopy::{FromBytes, FromZeros, Immutable, IntoBytes, KnownLayout};

/// Alignment of every buffer, bytes: enough for O_DIRECT on any disk in use.
pub const ALIGNMENT_BYTES: usize = 4096;
/// Buffers of one page kept for reuse on each thread: 4 MiB.
const POOLED_PAGES_MAX: usize = 1024;

#[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
#[repr(C, align(4096))]
struct Page([u8; ALIGNMENT_BYTES]);

struct Memory(Vec<Page>);

thread_local! {
    /// Single pages given back, their bytes whatever they were.
    static POOL: Cell<Vec<Vec<Page>>> = const { Cell::new(Vec::new()) };
}

impl Memory {
    fn new(pages: usize, zeroed: bool) -> Self {
        if pages == 1
            && let Some(mut page) = POOL.try_with(pop).ok().flatten()
        {
            if zeroed {
                page[0].0.fill(0);
            }
            return Self(page);
        }
        match Page::new_vec_zeroed(pages) {
            Ok(memory) => Self(memory),
            Err(_) => std::alloc::handle_alloc_error(std::alloc::Layout::new::<Page>()),
        }
    }
}

fn pop(pool: &Cell<Vec<Vec<Page>>>) -> Option<Vec<Page>> {
    let mut pages = pool.take();
    let page = pages.pop();
    pool.set(pages);
    page
}

impl Drop for Memory {
    fn drop(&mut self) {
        if self.0.len() != 1 {
            return;
        }
        let page = std::mem::take(&mut self.0);
        // An error means that the thread is ending: the page is freed.
        let _ = POOL.try_with(|pool| {
            let mut pages = pool.take();
            if pages.len() < POOLED_PAGES_MAX {
                pages.push(page);
            }
            pool.set(pages);
        });
    }
}

/// A range of a reference-counted, 4 KiB aligned buffer. Cloning and slicing share the memory.
#[derive(Clone)]
pub struct IoBuf {
    memory: Rc<Memory>,
    start: usize,
    end: usize,
}

impl IoBuf {
    /// A buffer of `len` zero bytes.
    pub fn zeroed(len: usize) -> Self {
        Self { memory: Rc::new(Memory::new(len.div_ceil(ALIGNMENT_BYTES), true)), start: 0, end: len }
    }

    /// A buffer of `len` bytes that will all be overwritten; until then they are arbitrary.
    pub fn for_read(len: usize) -> Self {
        Self { memory: Rc::new(Memory::new(len.div_ceil(ALIGNMENT_BYTES), false)), start: 0, end: len }
    }

    /// A copy of `bytes`.
    pub fn copy_of(bytes: &[u8]) -> Self {
        let mut buf = Self::for_read(bytes.len());
        buf.as_mut().copy_from_slice(bytes);
        buf
    }

    /// The bytes.
    pub fn as_slice(&self) -> &[u8] {
        &self.memory.0.as_bytes()[self.start..self.end]
    }

    /// The bytes, to change them. Panics when the memory is shared with another handle: see [`IoBuf::try_mut`].
    #[allow(clippy::should_implement_trait, reason = "AsMut cannot say that it panics when shared")]
    pub fn as_mut(&mut self) -> &mut [u8] {
        self.try_mut().unwrap_or_else(|| panic!("the buffer is shared"))
    }

    /// The bytes, to change them; `None` when the memory is shared.
    pub fn try_mut(&mut self) -> Option<&mut [u8]> {
        let (start, end) = (self.start, self.end);
        Rc::get_mut(&mut self.memory).map(|memory| &mut memory.0.as_mut_bytes()[start..end])
    }

    /// The part `range` of this buffer, sharing its memory. Panics when it lies outside.
    pub fn slice(&self, range: Range<usize>) -> Self {
        assert!(range.start <= range.end && range.end <= self.len(), "{range:?} of {} bytes", self.len());
        Self { memory: Rc::clone(&self.memory), start: self.start + range.start, end: self.start + range.end }
    }

    /// Length, bytes.
    pub fn len(&self) -> usize {
        self.end - self.start
    }

    /// Whether it has no bytes.
    pub fn is_empty(&self) -> bool {
        self.start == self.end
    }
}

impl Deref for IoBuf {
    type Target = [u8];
    fn deref(&self) -> &[u8] {
        self.as_slice()
    }
}

impl std::fmt::Debug for IoBuf {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "IoBuf({} bytes)", self.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn slices_share_memory_and_forbid_change() {
        let mut buf = IoBuf::zeroed(8192);
        buf.as_mut()[4096] = 7;
        let slice = buf.slice(4096..4608);
        assert_eq!(slice[0], 7);
        assert!(buf.try_mut().is_none());
        drop(slice);
        assert!(buf.try_mut().is_some());
    }

    #[test]
    fn memory_is_aligned_and_zeroed_again_after_reuse() {
        for _ in 0..3 {
            let mut buf = IoBuf::zeroed(4096);
            assert_eq!(buf.as_ptr() as usize % ALIGNMENT_BYTES, 0);
            assert!(buf.iter().all(|byte| *byte == 0));
            buf.as_mut().fill(9);
        }
    }
}
