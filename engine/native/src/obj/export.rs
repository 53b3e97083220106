//! An object as the NBD front sees it.
use super::owner::{ObjError, Owner};
use super::store::{ReadRun, Store};
use crate::nbd::export::{Allocation, Chunk, Export, ExportError, Payload, Run};
use model::units::BLOCK_BYTES;

impl From<ObjError> for ExportError {
    fn from(error: ObjError) -> Self {
        match error {
            ObjError::OutOfRange => Self::Invalid,
            ObjError::NoSpace => Self::NoSpace,
            ObjError::Deleted => Self::Shutdown,
            ObjError::Refused(_) => Self::NotPermitted,
            ObjError::Inaccessible(_) | ObjError::Lost(_) | ObjError::UnflushedLost => Self::Io,
            ObjError::Layout(_) | ObjError::Aborted => Self::Io,
        }
    }
}

impl<S: Store> Export for Owner<S> {
    fn size_bytes(&self) -> u64 {
        Owner::size_bytes(self)
    }

    async fn read(&self, offset: u64, len: usize) -> Result<Vec<Chunk>, ExportError> {
        let end = self.check(offset, len as u64)?;
        if len == 0 {
            return Ok(Vec::new());
        }
        let blocks = offset / BLOCK_BYTES..end.div_ceil(BLOCK_BYTES);
        let runs = self.read_blocks(blocks).await?;
        let (mut skip, mut left) = ((offset % BLOCK_BYTES) as usize, len);
        let mut chunks = Vec::with_capacity(runs.len());
        for run in runs {
            let bytes = (run.blocks() * BLOCK_BYTES) as usize;
            let part = (bytes - skip).min(left);
            chunks.push(match run {
                ReadRun::Data(buf) => Chunk::Data(buf.slice(skip..skip + part)),
                ReadRun::Zero(_) | ReadRun::Bad(_) => Chunk::Zero(part),
            });
            (skip, left) = (0, left - part);
        }
        Ok(chunks)
    }

    async fn write(&self, offset: u64, payload: Payload, fua: bool) -> Result<(), ExportError> {
        let len = payload.len() as u64;
        let (buf, _) = payload.into_parts();
        Ok(Owner::write(self, offset, len, buf, fua).await?)
    }

    async fn trim(&self, offset: u64, len: u64, fua: bool) -> Result<(), ExportError> {
        Ok(Owner::trim(self, offset, len, fua).await?)
    }

    async fn write_zeroes(&self, offset: u64, len: u64, no_hole: bool, fua: bool) -> Result<(), ExportError> {
        Ok(Owner::write_zeroes(self, offset, len, no_hole, fua).await?)
    }

    async fn flush(&self) -> Result<(), ExportError> {
        Ok(Owner::flush(self).await?)
    }

    async fn block_status(&self, offset: u64, len: u64, runs_max: usize) -> Result<Vec<Run>, ExportError> {
        let runs = Owner::block_status(self, offset, len).await?;
        let run = |(len, allocated): (u64, bool)| {
            let allocation = if allocated { Allocation::Data } else { Allocation::Hole };
            Run { len, allocation }
        };
        Ok(runs.into_iter().take(runs_max).map(run).collect())
    }
}
