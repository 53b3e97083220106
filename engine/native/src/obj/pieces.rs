//! How one change goes to the legs: in pieces that each have a sequence, so that no write needs more of a log than it has.
//!
//! Invariants: room is granted for all pieces of a change or for none; a piece of data is one record a leg; a change without
//! payload is one piece whose records are as few as the counts in them allow, also over many stripe units.
use super::owner::ObjError;
use super::route::{Member, Route};
use super::store::{Append, Change, DATA_BLOCKS_MAX, HOLE_BLOCKS_MAX, Store, StoreError};
use crate::fmt::crc32c;
use crate::io::IoBuf;
use model::units::BLOCK_BYTES;
use std::ops::Range;
use std::rc::Rc;

const BLOCK: usize = BLOCK_BYTES as usize;

/// What goes to the legs: whole blocks.
pub(super) struct Op {
    change: Change,
    pub block: u64,
    pub nblk: u64,
    /// The blocks; empty for holes.
    buf: Option<IoBuf>,
    crcs: Vec<u32>,
}

/// One record for one leg, with its room.
pub(super) struct Part<S: Store> {
    pub member: Rc<Member<S>>,
    pub append: Append<S::Room>,
}

/// What shares one sequence.
pub(super) struct Piece<S: Store> {
    pub parts: Vec<Part<S>>,
    /// Payload for one leg.
    pub bytes: u64,
}

/// A run of blocks of one group without payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Hole {
    group: usize,
    block: u64,
    nblk: u64,
}

impl Op {
    pub fn hole(change: Change, blocks: &Range<u64>) -> Self {
        Self { change, block: blocks.start, nblk: blocks.end - blocks.start, buf: None, crcs: Vec::new() }
    }

    pub fn data(block: u64, buf: IoBuf) -> Self {
        let crcs = buf.chunks(BLOCK).map(crc32c).collect();
        Self { change: Change::Data, block, nblk: (buf.len() / BLOCK) as u64, buf: Some(buf), crcs }
    }

    /// The pieces, with room on every leg for everything that may be new; nothing is appended before all of it is granted.
    pub fn admit<S: Store>(&self, route: &Route<S>) -> Result<Vec<Piece<S>>, ObjError> {
        let Some(buf) = &self.buf else { return Ok(vec![self.hole_piece(route)]) };
        let segments = route.map.segments(self.block, self.nblk, DATA_BLOCKS_MAX);
        let piece = |segment: super::address::Segment| {
            let (first, count) = ((segment.at - self.block) as usize, segment.nblk as usize);
            let part = buf.slice(first * BLOCK..(first + count) * BLOCK);
            let crcs: Rc<[u32]> = self.crcs[first..first + count].into();
            let mut parts = Vec::with_capacity(2);
            for leg in &route.groups[segment.group] {
                let room = match leg.member.store().map(|store| store.admit(segment.block, segment.nblk)) {
                    Some(Ok(room)) => Some(room),
                    Some(Err(StoreError::NoSpace)) => return Err(ObjError::NoSpace),
                    // The append will say so again, and the leg be marked.
                    Some(Err(_)) | None => None,
                };
                let append = Append {
                    change: self.change,
                    block: segment.block,
                    nblk: segment.nblk,
                    oseq: 0,
                    bufs: vec![part.clone()],
                    crcs: crcs.clone(),
                    room,
                };
                parts.push(Part { member: leg.member.clone(), append });
            }
            Ok(Piece { parts, bytes: segment.nblk * BLOCK_BYTES })
        };
        segments.map(piece).collect()
    }

    fn hole_piece<S: Store>(&self, route: &Route<S>) -> Piece<S> {
        let mut parts = Vec::new();
        for Hole { group, block, nblk } in holes(route, self.block, self.nblk) {
            for leg in &route.groups[group] {
                let append = Append {
                    change: self.change,
                    block,
                    nblk,
                    oseq: 0,
                    bufs: Vec::new(),
                    crcs: Rc::default(),
                    room: None,
                };
                parts.push(Part { member: leg.member.clone(), append });
            }
        }
        Piece { parts, bytes: 0 }
    }
}

/// The runs of each group in a range of the object: stripe units that follow each other in their group are joined.
fn holes<S: Store>(route: &Route<S>, block: u64, nblk: u64) -> Vec<Hole> {
    let mut holes: Vec<Hole> = Vec::new();
    let mut last_of = vec![usize::MAX; route.groups.len()];
    for segment in route.map.segments(block, nblk, HOLE_BLOCKS_MAX) {
        let joins = |hole: &&mut Hole| {
            hole.block + hole.nblk == segment.block && hole.nblk + segment.nblk <= HOLE_BLOCKS_MAX
        };
        match holes.get_mut(last_of[segment.group]).filter(joins) {
            Some(hole) => hole.nblk += segment.nblk,
            None => {
                last_of[segment.group] = holes.len();
                holes.push(Hole { group: segment.group, block: segment.block, nblk: segment.nblk });
            }
        }
    }
    holes
}
