//! Reading: the newest record in the log over the map on the disk.
//!
//! Invariants: no byte is returned whose checksum did not match; a record that is being read keeps its log space; what the map gives
//! as bad is looked up once more, since its record may have been applied in between.
use super::core::Core;
use super::overlay::{Body, Piece};
use super::space::EXTENT_BLOCKS;
use super::{BlockRun, Content, Dg, DgError, LogUsage, UnstableRun};
use crate::cap;
use crate::fmt::{BLOCK, LocalId, crc32c};
use crate::io::{DiskError, IoBuf};
use crate::mutant::{Mutant, on};
use model::ids::DiskId;
use std::collections::BTreeSet;

/// A payload from the log.
pub(super) struct Fetched {
    pub buf: IoBuf,
    /// Blocks whose checksum did not match.
    pub bad: Vec<usize>,
}

impl Dg {
    /// Reads blocks, in order, each verified, with one more try when it is not right.
    ///
    /// # Errors
    /// `OutOfRange`, `NoComponent`, `DiskFailed`, `Failed`, `Gone`, `Capacity`. Single blocks that cannot be read are `Bad` or
    /// `IoError` runs, not an error.
    pub async fn read(&self, local: LocalId, block: u64, nblk: u32) -> Result<Vec<BlockRun>, DgError> {
        let core = self.core();
        let index = core.member_of_range(local, block, nblk)?;
        let runs = core.read_once(index, local, block, nblk).await?;
        if runs.iter().any(|run| matches!(run.content, Content::Bad | Content::IoError)) {
            return core.read_once(index, local, block, nblk).await;
        }
        Ok(runs)
    }

    /// Runs of (blocks, whether they hold data).
    ///
    /// # Errors
    /// `OutOfRange`, `NoComponent`, `DiskFailed`, `Failed`, `Gone`.
    pub async fn block_status(
        &self,
        local: LocalId,
        block: u64,
        nblk: u32,
    ) -> Result<Vec<(u64, bool)>, DgError> {
        let core = self.core();
        let index = core.member_of_range(local, block, nblk)?;
        let state = core.state.borrow();
        let comp = state.comps.get(&local).ok_or(DgError::NoComponent(local))?;
        let mut runs: Vec<(u64, bool)> = Vec::new();
        let mut push = |count: u64, data: bool| match runs.last_mut() {
            Some((last, same)) if *same == data => *last += count,
            _ => runs.push((count, data)),
        };
        for piece in comp.overlay.lookup(block, nblk) {
            match piece.rec.as_ref().map(|rec| &rec.body) {
                Some(body) => push(piece.nblk.into(), !matches!(body, Body::Hole)),
                None => {
                    let status = core.members[index].cap.status(local, piece.block, piece.nblk.into());
                    status.into_iter().for_each(|(count, data)| push(count, data));
                }
            }
        }
        Ok(runs)
    }

    /// What the log holds that is newer than `above`, in order of block: for the union roll-forward.
    pub fn unstable(&self, local: LocalId, above: u64) -> Vec<UnstableRun> {
        let state = self.core().state.borrow();
        let Some(comp) = state.comps.get(&local) else { return Vec::new() };
        let runs = comp.overlay.above(above).filter_map(|piece| {
            let rec = piece.rec?;
            let hole = matches!(rec.body, Body::Hole);
            let (block, nblk) = (piece.block, piece.nblk);
            Some(UnstableRun { block, nblk, oseq: rec.oseq, data_oseq: rec.data_oseq, hole })
        });
        runs.collect()
    }

    /// Extents (64 KiB, by index) with anything newer than `oseq`, in the log or on the disk, in order.
    pub fn changed_since(&self, local: LocalId, oseq: u64) -> Vec<u64> {
        let core = self.core();
        let Ok(index) = core.member_of(local) else { return Vec::new() };
        let on_disk = core.members[index].cap.changed_since(local, oseq);
        let mut extents: BTreeSet<u64> = on_disk.into_iter().map(|(extent, _)| extent).collect();
        for run in self.unstable(local, oseq) {
            extents
                .extend(run.block / EXTENT_BLOCKS..(run.block + u64::from(run.nblk)).div_ceil(EXTENT_BLOCKS));
        }
        extents.into_iter().collect()
    }

    /// Highest sequence of the object in this component; 0 for none.
    pub fn max_oseq(&self, local: LocalId) -> u64 {
        let core = self.core();
        let Ok(index) = core.member_of(local) else { return 0 };
        let logged = core.state.borrow().comps.get(&local).map_or(0, |comp| comp.overlay.max_oseq());
        logged.max(core.members[index].cap.oseq_max(local))
    }

    /// All writes up to here are stable, as far as this leg knows.
    pub fn stable_oseq(&self, local: LocalId) -> u64 {
        let state = self.core().state.borrow();
        state.comps.get(&local).map_or(0, |comp| comp.overlay.stable_oseq())
    }

    /// Where on its capacity disk the data of a block lies, bytes; `None` when it is not there. See `CapDisk::locate`.
    pub fn locate(&self, local: LocalId, block: u64) -> Option<u64> {
        let core = self.core();
        let index = core.member_of(local).ok()?;
        core.members[index].cap.locate(local, block)
    }

    /// Bytes on the capacity disk.
    pub fn used_bytes(&self, local: LocalId) -> u64 {
        let core = self.core();
        let Ok(index) = core.member_of(local) else { return 0 };
        core.members[index].cap.component(local).map_or(0, |info| info.used_bytes)
    }

    /// Use of a capacity disk; `None` when it is not here.
    pub fn usage(&self, disk: DiskId) -> Option<cap::Usage> {
        let members = &self.core().members;
        members.iter().find(|member| member.disk == disk).map(|member| member.cap.usage())
    }

    /// Reads every structure of the capacity disks again, with `deep` all data that is not covered by the log, and says what is wrong.
    pub async fn verify(&self, deep: bool) -> Vec<(DiskId, cap::Finding)> {
        let core = self.core();
        let mut all = Vec::new();
        for member in core.members.iter().filter(|member| !member.failed.get()) {
            let covered = |local: LocalId, block: u64| {
                let state = core.state.borrow();
                state.comps.get(&local).is_some_and(|comp| comp.overlay.covers(block))
            };
            let findings = member.cap.verify(deep, covered).await;
            all.extend(findings.into_iter().map(|finding| (member.disk, finding)));
        }
        all
    }

    /// Use of the log.
    pub fn log_usage(&self) -> LogUsage {
        let core = self.core();
        let state = core.state.borrow();
        LogUsage {
            size_bytes: state.ring.len_bytes,
            used_bytes: state.ring.used_bytes,
            unstable_bytes: state.comps.values().map(|comp| comp.overlay.unstable_bytes()).sum(),
            waiting: state.blocked,
            overlay_runs: state.overlay_runs,
            stalled: core.members.iter().any(|member| member.is_stalled()),
        }
    }
}

impl Core {
    /// One pass over log and map.
    async fn read_once(
        &self,
        index: usize,
        local: LocalId,
        block: u64,
        nblk: u32,
    ) -> Result<Vec<BlockRun>, DgError> {
        self.check()?;
        let pieces = {
            let state = self.state.borrow();
            let comp = state.comps.get(&local).ok_or(DgError::NoComponent(local))?;
            comp.overlay.lookup(block, nblk)
        };
        let mut runs = Vec::with_capacity(pieces.len());
        for group in pieces.chunk_by(follows_in_log) {
            let first = &group[0];
            let nblk: u64 = group.iter().map(|piece| u64::from(piece.nblk)).sum();
            match first.rec.as_ref().map(|rec| &rec.body) {
                None => runs.extend(self.members[index].cap.read(local, first.block, nblk).await?),
                Some(Body::Hole) => runs.push(BlockRun { nblk, content: Content::Zero }),
                Some(Body::Logged { .. }) => match self.fetch(group).await {
                    Ok(fetched) => split(group, fetched, &mut runs),
                    Err(DiskError::Io { .. }) => runs.push(BlockRun { nblk, content: Content::IoError }),
                    Err(error) => return Err(self.check().err().unwrap_or(DgError::ReadLog(error))),
                },
            }
        }
        Ok(runs)
    }

    /// Reads pieces that follow each other in the log, in one go, and compares their checksums; once more when one does not match.
    pub async fn fetch(&self, pieces: &[Piece]) -> Result<Fetched, DiskError> {
        let blocks: usize = pieces.iter().map(|piece| piece.nblk as usize).sum();
        let at = pieces[0].logged_at().expect("a piece in the log");
        let mut again = false;
        loop {
            let result = self.log.read(at, IoBuf::for_read(blocks * BLOCK)).await;
            let verdict = result.map(|buf| {
                let crcs = pieces.iter().flat_map(Piece::crcs);
                let wrong = buf.chunks(BLOCK).zip(crcs).enumerate();
                let wrong =
                    wrong.filter(|(_, (block, crc))| !on(Mutant::NoReadChecksum) && crc32c(block) != **crc);
                Fetched { bad: wrong.map(|(index, _)| index).collect(), buf }
            });
            let settled = match &verdict {
                Ok(fetched) => fetched.bad.is_empty(),
                Err(error) => !matches!(error, DiskError::Io { .. }),
            };
            if settled || again {
                return verdict;
            }
            again = true;
        }
    }
}

/// Whether `b` begins in the log where `a` ends; so that one read brings both.
pub(super) fn follows_in_log(a: &Piece, b: &Piece) -> bool {
    let end = a.logged_at().map(|at| at + u64::from(a.nblk) * BLOCK as u64);
    end.is_some() && end == b.logged_at()
}

/// Cuts what was read into runs of good and bad blocks.
fn split(pieces: &[Piece], fetched: Fetched, runs: &mut Vec<BlockRun>) {
    let crcs: Vec<u32> = pieces.iter().flat_map(Piece::crcs).copied().collect();
    if fetched.bad.is_empty() {
        let content = Content::Data { buf: fetched.buf, crcs };
        return runs.push(BlockRun { nblk: pieces.iter().map(|piece| u64::from(piece.nblk)).sum(), content });
    }
    for (index, crc) in crcs.into_iter().enumerate() {
        let content = match fetched.bad.contains(&index) {
            true => Content::Bad,
            false => {
                let buf = fetched.buf.slice(index * BLOCK..(index + 1) * BLOCK);
                Content::Data { buf, crcs: vec![crc] }
            }
        };
        runs.push(BlockRun { nblk: 1, content });
    }
}
