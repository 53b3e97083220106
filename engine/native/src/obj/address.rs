//! Address arithmetic: blocks of an object to blocks of its groups, and back. Pure.
//!
//! An object is a concatenation of pieces; a piece is striped over columns in units of 1 MiB; a column is one group of equal
//! legs. Invariants: every block of the object lies at exactly one (group, block); an extent of a component (64 KiB) never
//! crosses a stripe unit, so it is one run of the object too.
use crate::fmt::descriptor::Node;
use model::units::{BLOCK_BYTES, STRIPE_UNIT_BYTES};

/// Blocks of one stripe unit.
const UNIT: u64 = STRIPE_UNIT_BYTES / BLOCK_BYTES;

/// Why a layout cannot be served. Nothing was changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum LayoutError {
    /// Not concat over stripe over mirror over leaf.
    #[error("the layout is not supported by this version")]
    Unsupported,
    /// A node has no children, or legs of a size that is no multiple of a block.
    #[error("the layout is malformed")]
    Malformed,
    /// The object is larger than its pieces.
    #[error("the layout is smaller than the object")]
    TooSmall,
}

/// A run of blocks that lies in one group without a gap.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Segment {
    /// Which group, in layout order.
    pub group: usize,
    /// First block in the components of that group.
    pub block: u64,
    /// Blocks.
    pub nblk: u64,
    /// First block in the object.
    pub at: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Piece {
    /// First block in the object.
    start: u64,
    /// Blocks of the object in it.
    blocks: u64,
    /// Index of its first group; columns follow.
    group: usize,
    columns: u64,
}

/// Where the blocks of one object lie.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AddressMap {
    pieces: Vec<Piece>,
    blocks: u64,
}

/// The groups of a layout in order: the mirror nodes (a lone leaf is a mirror of one).
pub fn groups(layout: &Node) -> Result<Vec<&Node>, LayoutError> {
    let pieces = children_or_self(layout, |node| matches!(node, Node::Concat(_)));
    let groups =
        pieces.into_iter().flat_map(|piece| children_or_self(piece, |node| matches!(node, Node::Stripe(_))));
    groups
        .map(|group| match group {
            Node::Leaf(_) => Ok(group),
            Node::Mirror(legs) if legs.iter().all(|leg| matches!(leg, Node::Leaf(_))) => Ok(group),
            _ => Err(LayoutError::Unsupported),
        })
        .collect()
}

fn children_or_self(node: &Node, splits: impl Fn(&Node) -> bool) -> Vec<&Node> {
    match node {
        Node::Concat(children) | Node::Stripe(children) if splits(node) => children.iter().collect(),
        _ => vec![node],
    }
}

impl AddressMap {
    /// The map of `layout` for an object of `size_bytes`.
    pub fn new(layout: &Node, size_bytes: u64) -> Result<Self, LayoutError> {
        groups(layout)?;
        let mut map = Self { pieces: Vec::new(), blocks: size_bytes.div_ceil(BLOCK_BYTES) };
        let (mut start, mut group) = (0, 0);
        for piece in children_or_self(layout, |node| matches!(node, Node::Concat(_))) {
            let columns = children_or_self(piece, |node| matches!(node, Node::Stripe(_)));
            let leg_bytes = columns.iter().flat_map(|column| column.legs()).map(|leg| leg.size_bytes).min();
            let leg_blocks = leg_bytes.filter(|bytes| bytes.is_multiple_of(BLOCK_BYTES));
            let leg_blocks = leg_blocks.ok_or(LayoutError::Malformed)? / BLOCK_BYTES;
            let columns_count = columns.len() as u64;
            let column_blocks = if columns_count > 1 { leg_blocks / UNIT * UNIT } else { leg_blocks };
            let blocks = column_blocks.checked_mul(columns_count).ok_or(LayoutError::Malformed)?;
            map.pieces.push(Piece { start, blocks, group, columns: columns_count });
            start = start.checked_add(blocks).ok_or(LayoutError::Malformed)?;
            group += columns.len();
        }
        if start < map.blocks { Err(LayoutError::TooSmall) } else { Ok(map) }
    }

    /// First block of the last piece of `layout`.
    pub fn last_piece_start(layout: &Node) -> Result<u64, LayoutError> {
        Self::new(layout, 0)?.pieces.last().map(|piece| piece.start).ok_or(LayoutError::Malformed)
    }

    /// Blocks of the object, the last one perhaps not whole.
    pub fn blocks(&self) -> u64 {
        self.blocks
    }

    /// The segments of `nblk` blocks from `block`, none longer than `most` blocks. The range must lie in the object.
    pub fn segments(&self, block: u64, nblk: u64, most: u64) -> impl Iterator<Item = Segment> + '_ {
        let end = block + nblk;
        let mut at = block;
        std::iter::from_fn(move || {
            (at < end).then(|| {
                let segment = self.segment(at, (end - at).min(most));
                at += segment.nblk;
                segment
            })
        })
    }

    fn segment(&self, at: u64, most: u64) -> Segment {
        let index = self.pieces.partition_point(|piece| piece.start <= at).saturating_sub(1);
        let piece = &self.pieces[index];
        let inside = at - piece.start;
        debug_assert!(inside < piece.blocks, "block {at} lies outside the object");
        if piece.columns == 1 {
            return Segment { group: piece.group, block: inside, nblk: most.min(piece.blocks - inside), at };
        }
        let (unit, offset) = (inside / UNIT, inside % UNIT);
        Segment {
            group: piece.group + (unit % piece.columns) as usize,
            block: unit / piece.columns * UNIT + offset,
            nblk: most.min(UNIT - offset),
            at,
        }
    }

    /// The object's run for `nblk` blocks from `block` of `group`: (first block, blocks), cut at the stripe unit and at the
    /// end of the object; `None` when it lies behind the end.
    pub fn object_run(&self, group: usize, block: u64, nblk: u64) -> Option<(u64, u64)> {
        let piece = self.pieces.iter().rfind(|piece| piece.group <= group)?;
        let (inside, room) = if piece.columns == 1 {
            (block, piece.blocks.checked_sub(block)?)
        } else {
            let unit = block / UNIT * piece.columns + (group - piece.group) as u64;
            let inside = unit * UNIT + block % UNIT;
            (inside, (UNIT - block % UNIT).min(piece.blocks.checked_sub(inside)?))
        };
        let at = piece.start + inside;
        let nblk = nblk.min(room).min(self.blocks.saturating_sub(at));
        (nblk > 0).then_some((at, nblk))
    }
}
