//! The newest logged records of one component, by block: what the map on the capacity disk does not show yet.
//!
//! Map: [`Rec`] one record in the log · [`Overlay`] interval map of the newest ones, and what they replaced.
//! Invariants: runs do not overlap; per block the record with the highest sequence wins, of two equal the later; a replaced
//! record keeps its log space until the one that replaced it is stable (else a power cut could take the new one and leave
//! nothing of the old, flushed one).
use super::pins::Pin;
use super::space::Token;
use crate::fmt::BLOCK;
use crate::mutant::{Mutant, on};
use std::collections::BTreeMap;
use std::ops::Range;
use std::rc::Rc;

/// Where the content of a record is.
#[derive(Debug)]
pub(super) enum Body {
    /// It reads as zero.
    Hole,
    /// In the log, `offset_bytes` into the disk, one checksum a block from `crcs[first]`.
    Logged { offset_bytes: u64, crcs: Rc<[u32]>, first: usize },
}

/// One record in the log.
#[derive(Debug)]
pub(super) struct Rec {
    pub block: u64,
    pub nblk: u32,
    pub oseq: u64,
    pub data_oseq: u64,
    pub body: Body,
    /// Room on the capacity disk, given back when the record is applied.
    pub _tokens: Vec<Rc<Token>>,
    /// Keeps the batch in the log.
    pub _pin: Pin,
}

impl Rec {
    fn is_hole(&self) -> bool {
        matches!(self.body, Body::Hole)
    }

    /// Checksums of `nblk` blocks from `block` of the component.
    fn crcs(&self, block: u64, nblk: u32) -> &[u32] {
        match &self.body {
            Body::Hole => &[],
            Body::Logged { crcs, first, .. } => {
                let from = first + (block - self.block) as usize;
                &crcs[from..from + nblk as usize]
            }
        }
    }
}

#[derive(Debug)]
struct Run {
    nblk: u32,
    rec: Rc<Rec>,
}

/// A record that is not stable yet, and what it replaced.
#[derive(Debug)]
struct Unstable {
    rec: Rc<Rec>,
    replaced: Vec<Rc<Rec>>,
}

/// What an insertion did.
#[derive(Debug, Default)]
pub(super) struct Inserted {
    /// By how much the number of runs grew.
    pub grown: isize,
    /// Blocks whose content is hidden by a hole now, so that the map on the disk may never see it.
    pub hidden: Vec<Range<u64>>,
}

/// A part of a lookup: blocks of one record, or of none (then the map on the disk speaks).
#[derive(Debug)]
pub(super) struct Piece {
    pub block: u64,
    pub nblk: u32,
    pub rec: Option<Rc<Rec>>,
}

impl Piece {
    /// Where its content begins on the log disk, when it has any there.
    pub fn logged_at(&self) -> Option<u64> {
        let rec = self.rec.as_ref()?;
        match &rec.body {
            Body::Hole => None,
            Body::Logged { offset_bytes, .. } => Some(offset_bytes + (self.block - rec.block) * BLOCK as u64),
        }
    }

    /// The checksums of its blocks, none for a hole.
    pub fn crcs(&self) -> &[u32] {
        self.rec.as_ref().map_or(&[], |rec| rec.crcs(self.block, self.nblk))
    }
}

/// The newest records of one component.
#[derive(Debug, Default)]
pub(super) struct Overlay {
    runs: BTreeMap<u64, Run>,
    unstable: BTreeMap<(u64, u64), Unstable>,
    inserted: u64,
    stable_oseq: u64,
    max_oseq: u64,
}

impl Overlay {
    /// Adds a record.
    pub fn insert(&mut self, rec: Rec) -> Inserted {
        let mut hidden = Vec::new();
        let before = self.runs.len() as isize;
        self.max_oseq = self.max_oseq.max(rec.oseq);
        let rec = Rc::new(rec);
        let (start, end) = (rec.block, rec.block + u64::from(rec.nblk));
        let mut replaced = Vec::new();
        if self.overlaps(start, end) {
            self.cut(&rec, &mut replaced, &mut hidden);
        } else {
            self.runs.insert(start, Run { nblk: rec.nblk, rec: rec.clone() });
        }
        if rec.oseq > self.stable_oseq {
            if on(Mutant::SupersededByUnstable) {
                replaced.clear();
            }
            self.inserted += 1;
            self.unstable.insert((rec.oseq, self.inserted), Unstable { rec, replaced });
        }
        Inserted { grown: self.runs.len() as isize - before, hidden }
    }

    fn overlaps(&self, start: u64, end: u64) -> bool {
        self.runs.range(..end).next_back().is_some_and(|(at, run)| at + u64::from(run.nblk) > start)
    }

    /// Lays `rec` over what is there, where it is not older.
    fn cut(&mut self, rec: &Rc<Rec>, replaced: &mut Vec<Rc<Rec>>, hidden: &mut Vec<Range<u64>>) {
        let (start, end) = (rec.block, rec.block + u64::from(rec.nblk));
        let mut free_from = start;
        for at in self.starts(start, end) {
            let run = self.runs.remove(&at).expect("listed above");
            let (run_start, run_end) = (at, at + u64::from(run.nblk));
            if run.rec.is_hole() != rec.is_hole() && (run.rec.oseq > rec.oseq) == run.rec.is_hole() {
                hidden.push(start.max(run_start)..end.min(run_end));
            }
            if run.rec.oseq > rec.oseq {
                self.put(free_from, run_start, rec);
                free_from = run_end;
                self.runs.insert(at, run);
                continue;
            }
            self.put(run_start, start, &run.rec);
            self.put(end, run_end, &run.rec);
            replaced.push(run.rec);
        }
        self.put(free_from, end, rec);
    }

    fn put(&mut self, start: u64, end: u64, rec: &Rc<Rec>) {
        if start < end {
            self.runs.insert(start, Run { nblk: (end - start) as u32, rec: rec.clone() });
        }
    }

    /// Starts of the runs that overlap `start..end`, ascending.
    fn starts(&self, start: u64, end: u64) -> Vec<u64> {
        let first = self.runs.range(..start).next_back();
        let first = first.filter(|(at, run)| *at + u64::from(run.nblk) > start).map(|(at, _)| *at);
        first.into_iter().chain(self.runs.range(start..end).map(|(at, _)| *at)).collect()
    }

    /// The blocks `block..block + nblk` in order, each with its newest record.
    pub fn lookup(&self, block: u64, nblk: u32) -> Vec<Piece> {
        let end = block + u64::from(nblk);
        let mut pieces = Vec::new();
        let mut from = block;
        let first = self.runs.range(..block).next_back();
        let first = first.filter(|(at, run)| *at + u64::from(run.nblk) > block);
        for (at, run) in first.into_iter().chain(self.runs.range(block..end)) {
            if *at > from {
                pieces.push(Piece { block: from, nblk: (at - from) as u32, rec: None });
                from = *at;
            }
            let to = end.min(at + u64::from(run.nblk));
            pieces.push(Piece { block: from, nblk: (to - from) as u32, rec: Some(run.rec.clone()) });
            from = to;
        }
        if from < end {
            pieces.push(Piece { block: from, nblk: (end - from) as u32, rec: None });
        }
        pieces
    }

    /// Everything up to `oseq` is stable: what stable records replaced gives its log space back. Never lowered.
    pub fn set_stable(&mut self, oseq: u64) {
        self.stable_oseq = self.stable_oseq.max(oseq);
        while let Some(entry) = self.unstable.first_entry() {
            if entry.key().0 > self.stable_oseq {
                break;
            }
            drop(entry.remove().replaced);
        }
    }

    /// Up to `limit` runs that may be applied to the disk, in order of block from `from`.
    pub fn destageable(&self, from: u64, limit: usize) -> Vec<Piece> {
        let stable = if on(Mutant::DestageUnstable) { u64::MAX } else { self.stable_oseq };
        let ready = self.runs.range(from..).filter(|(_, run)| run.rec.oseq <= stable).take(limit);
        ready.map(|(at, run)| Piece { block: *at, nblk: run.nblk, rec: Some(run.rec.clone()) }).collect()
    }

    /// Whether anything is left that is stable and not applied.
    pub fn has_destageable(&self) -> bool {
        self.runs.values().any(|run| run.rec.oseq <= self.stable_oseq)
    }

    /// `rec` is applied to the disk for these blocks: drops what of it is still the newest there.
    pub fn applied(&mut self, rec: &Rc<Rec>, block: u64, nblk: u32) -> usize {
        let mut dropped = 0;
        for at in self.starts(block, block + u64::from(nblk)) {
            if Rc::ptr_eq(&self.runs[&at].rec, rec) {
                self.runs.remove(&at);
                dropped += 1;
            }
        }
        dropped
    }

    /// The newest records above `oseq`, in order of block.
    pub fn above(&self, oseq: u64) -> impl Iterator<Item = Piece> {
        let newer = self.runs.iter().filter(move |(_, run)| run.rec.oseq > oseq);
        newer.map(|(at, run)| Piece { block: *at, nblk: run.nblk, rec: Some(run.rec.clone()) })
    }

    /// Whether a record is newer than what the map has for `block`.
    pub fn covers(&self, block: u64) -> bool {
        self.overlaps(block, block + 1)
    }

    /// All writes up to here are on stable media of every active leg.
    pub fn stable_oseq(&self) -> u64 {
        self.stable_oseq
    }

    /// The highest sequence that was ever inserted in this life, 0 for none.
    pub fn max_oseq(&self) -> u64 {
        self.max_oseq
    }

    /// Payload of the records that are not stable yet: it keeps its log space.
    pub fn unstable_bytes(&self) -> u64 {
        let logged = self.unstable.values().filter(|entry| !matches!(entry.rec.body, Body::Hole));
        logged.map(|entry| u64::from(entry.rec.nblk) * BLOCK as u64).sum()
    }

    /// Runs held in memory.
    pub fn runs(&self) -> usize {
        self.runs.len()
    }
}

#[cfg(test)]
#[path = "overlay_tests.rs"]
mod tests;
