//! The shape that a policy gives an object of a size: pieces, columns, legs and their sizes.
//!
//! All pieces of an object have the same size but the last, so that every leg needs the same room: this is what makes
//! the search exact (a disk takes so many legs, whichever they are).
use crate::policy::{FaultToleranceMethod, Policy, SiteTolerance};
use crate::units::{BLOCK_BYTES, COMPONENT_BYTES_MAX, EXTENT_BYTES, STRIPE_UNIT_BYTES};

/// Room for the structures of an empty component or a witness: its header and first map pages, four extents.
pub const COMPONENT_METADATA_BYTES: u64 = 256 << 10;

/// Room for the map of so many bytes of a component: one page for 32 extents, one above for 120 of these, and the next version of each
/// beside the old one (docs/on-disk-format.md).
pub fn map_bytes(bytes: u64) -> u64 {
    let leaves = bytes.div_ceil(32 * EXTENT_BYTES);
    2 * BLOCK_BYTES * (leaves + leaves.div_ceil(120))
}

/// Shape of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Layout {
    /// Mirror or parity.
    pub method: FaultToleranceMethod,
    /// Failures that the policy promises to survive.
    pub failures: u8,
    /// Legs a row: copies, or data and parity.
    pub legs: usize,
    /// Of these, legs that a row needs to be readable.
    pub legs_needed: usize,
    /// Fault domains needed.
    pub domains: usize,
    /// Columns a piece.
    pub columns: usize,
    /// Address space of each piece, in order.
    pub pieces_bytes: Vec<u64>,
    /// Bytes set aside for each leg.
    pub reserve_bytes: u64,
    /// Whether fewer domains than needed are accepted.
    pub forced: bool,
    /// What is asked of sites.
    pub sites: SiteTolerance,
}

impl Layout {
    /// The shape of an object of `size_bytes` under `policy`. Out-of-range fields are clamped; validation is elsewhere.
    pub fn of(policy: &Policy, size_bytes: u64) -> Self {
        let failures = policy.failures_to_tolerate.min(3);
        let (legs, needed, domains) = match policy.fault_tolerance_method {
            FaultToleranceMethod::Raid1 => (usize::from(failures) + 1, 1, 2 * usize::from(failures) + 1),
            FaultToleranceMethod::Raid5 if policy.data_legs == Some(2) => (3, 2, 3),
            FaultToleranceMethod::Raid5 => (4, 3, 4),
            FaultToleranceMethod::Raid6 => (6, 4, 6),
        };
        let columns = usize::from(policy.stripe_width.clamp(1, 12));
        let mut layout = Self {
            method: policy.fault_tolerance_method,
            failures,
            legs,
            legs_needed: needed,
            domains,
            columns,
            pieces_bytes: Vec::new(),
            reserve_bytes: 0,
            forced: false,
            sites: policy.site_tolerance,
        };
        layout.pieces_bytes = layout.split(size_bytes);
        let largest = layout.pieces_bytes.first().map_or(0, |piece| layout.leg_bytes(*piece));
        let percent = u128::from(policy.object_space_reservation_percent.min(100));
        let reserved = u64::try_from((u128::from(largest) * percent).div_ceil(100)).unwrap_or(u64::MAX);
        let map = map_bytes(reserved).saturating_add(COMPONENT_METADATA_BYTES);
        layout.reserve_bytes = reserved.saturating_add(map);
        layout
    }

    /// The same as a mirror of `copies` that takes what domains there are.
    pub(super) fn forced_to(&self, copies: usize) -> Self {
        Self {
            method: FaultToleranceMethod::Raid1,
            legs: copies,
            legs_needed: 1,
            forced: true,
            ..self.clone()
        }
    }

    /// Rows: columns of all pieces.
    pub fn rows(&self) -> usize {
        self.pieces_bytes.len() * self.columns
    }

    /// Address space of one leg of a piece of `piece_bytes`.
    pub fn leg_bytes(&self, piece_bytes: u64) -> u64 {
        let column = if self.columns == 1 {
            piece_bytes
        } else {
            piece_bytes.div_ceil(self.columns as u64 * STRIPE_UNIT_BYTES) * STRIPE_UNIT_BYTES
        };
        column.div_ceil(self.legs_needed as u64).next_multiple_of(BLOCK_BYTES)
    }

    /// Pieces as equal as the stripe allows, so that no leg exceeds [`COMPONENT_BYTES_MAX`].
    fn split(&self, size_bytes: u64) -> Vec<u64> {
        let unit = self.columns as u64 * self.legs_needed as u64 * STRIPE_UNIT_BYTES;
        let piece_max = COMPONENT_BYTES_MAX / STRIPE_UNIT_BYTES * unit;
        let count = size_bytes.div_ceil(piece_max).max(1);
        let each = size_bytes.div_ceil(count).next_multiple_of(unit).min(piece_max);
        let mut left = size_bytes;
        let mut pieces = Vec::new();
        while left > each {
            pieces.push(each);
            left -= each;
        }
        pieces.push(left);
        pieces
    }
}
