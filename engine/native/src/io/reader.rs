//! Reading an open disk from another thread, byte by byte: for looking at what is on it before anything is written.
//!
//! Invariant: it reads through the handle that holds the disk exclusively and past the page cache, in whole blocks, so what it
//! sees is what is on the disk now, and no write.
use super::ALIGNMENT_BYTES;
use super::disk::SECTOR_BYTES;
#[cfg(any(test, feature = "sim"))]
use super::sim::Pages;
use std::io;
use std::os::fd::OwnedFd;

/// Bytes read at once, at most.
const PIECE_BYTES: u64 = 1 << 20;
const UNIT: u64 = ALIGNMENT_BYTES as u64;

/// A second handle of an open disk; the exclusive hold lasts until both are closed.
pub struct Reader {
    source: Source,
    size_bytes: u64,
}

enum Source {
    Handle(OwnedFd),
    /// What a simulated disk held when it was asked.
    #[cfg(any(test, feature = "sim"))]
    Image(Pages),
}

impl Source {
    fn read(&self, offset: u64, buffer: &mut [u8]) -> io::Result<usize> {
        match self {
            Self::Handle(fd) => loop {
                match rustix::io::pread(fd, &mut *buffer, offset) {
                    Err(rustix::io::Errno::INTR | rustix::io::Errno::AGAIN) => {}
                    read => return Ok(read?),
                }
            },
            #[cfg(any(test, feature = "sim"))]
            Self::Image(image) => {
                image.read(offset, buffer);
                Ok(buffer.len())
            }
        }
    }
}

impl Reader {
    pub(super) fn new(fd: OwnedFd, size_bytes: u64) -> Self {
        Self { source: Source::Handle(fd), size_bytes }
    }

    #[cfg(any(test, feature = "sim"))]
    pub(super) fn of_image(image: Pages, size_bytes: u64) -> Self {
        Self { source: Source::Image(image), size_bytes }
    }

    /// Bytes of the disk.
    pub fn size_bytes(&self) -> u64 {
        self.size_bytes
    }

    /// Fills `buffer` from `offset`, whatever its alignment.
    ///
    /// # Errors
    /// `UnexpectedEof` beyond the end; what the disk says.
    pub fn read_at(&self, mut offset: u64, mut buffer: &mut [u8]) -> io::Result<()> {
        let end = offset.checked_add(buffer.len() as u64).filter(|end| *end <= self.size_bytes);
        if end.is_none() {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        while !buffer.is_empty() {
            let from = offset / UNIT * UNIT;
            let to = (offset + buffer.len() as u64).next_multiple_of(UNIT).min(from + PIECE_BYTES);
            let piece = self.blocks(from, (to - from) as usize)?;
            let skip = (offset - from) as usize;
            let take = piece.len().saturating_sub(skip).min(buffer.len());
            if take == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
            let (now, rest) = buffer.split_at_mut(take);
            now.copy_from_slice(&piece[skip..skip + take]);
            (offset, buffer) = (offset + take as u64, rest);
        }
        Ok(())
    }

    /// Whole blocks from `from`; fewer at the end of a disk that is no multiple of a block.
    fn blocks(&self, from: u64, length: usize) -> io::Result<Vec<u8>> {
        let mut memory = vec![0; length + ALIGNMENT_BYTES];
        let start = memory.as_ptr().align_offset(ALIGNMENT_BYTES);
        let mut done = 0;
        while done < length {
            match self.source.read(from + done as u64, &mut memory[start + done..start + length])? {
                0 => break,
                count => done += count,
            }
            // A file may end within a sector; to ask for the rest would be refused.
            if !done.is_multiple_of(SECTOR_BYTES as usize) {
                break;
            }
        }
        memory.truncate(start + done);
        Ok(memory.split_off(start))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::os::unix::fs::{FileExt, OpenOptionsExt};

    #[test]
    fn any_range_is_read_as_it_is() {
        let file = tempfile::tempfile().expect("a file");
        let bytes: Vec<u8> = (0..3 * 4096 + 512u32).map(|index| (index % 251) as u8).collect();
        file.write_all_at(&bytes, 0).expect("write");
        let reader = Reader::new(file.into(), bytes.len() as u64);
        for (offset, length) in
            [(0, 1), (510, 2), (4095, 2), (4096, 4096), (1, 12_000), (12_288, 512), (0, 12_800)]
        {
            let mut buffer = vec![0; length];
            reader.read_at(offset, &mut buffer).expect("read");
            assert_eq!(buffer, bytes[offset as usize..offset as usize + length], "{length} at {offset}");
        }
        assert!(reader.read_at(12_799, &mut [0; 2]).is_err());
        // A file may end anywhere.
        let odd = tempfile::NamedTempFile::new().expect("a file");
        std::fs::write(odd.path(), &bytes[..5000]).expect("write");
        let direct = std::fs::OpenOptions::new().read(true).custom_flags(libc::O_DIRECT).open(odd.path());
        let reader = Reader::new(direct.unwrap_or_else(|_| odd.reopen().expect("the file")).into(), 5000);
        let mut buffer = vec![0; 904];
        reader.read_at(4096, &mut buffer).expect("read");
        assert_eq!(buffer, bytes[4096..5000]);
        assert!(reader.read_at(u64::MAX, &mut [0; 2]).is_err());
    }
}
