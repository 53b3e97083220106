//! Units and limits. Suffix order in names: noun, unit, qualifier (`latency_us_max`).

/// One logical block, bytes: the unit of checksum, log payload and overlay.
pub const BLOCK_BYTES: u64 = 4096;
/// One extent, bytes: the unit of allocation on a capacity disk.
pub const EXTENT_BYTES: u64 = 64 << 10;
/// Width of one column of a stripe, bytes. Source: the striping unit of vSAN.
pub const STRIPE_UNIT_BYTES: u64 = 1 << 20;
/// The largest component, bytes: 255 GiB, a multiple of a leaf (2 MiB).
pub const COMPONENT_BYTES_MAX: u64 = 255 << 30;
/// The smallest volume, bytes.
pub const VOLUME_BYTES_MIN: u64 = 1 << 20;
/// The largest volume, bytes. Source: the largest virtual disk of vSAN, 62 TiB.
pub const VOLUME_BYTES_MAX: u64 = 62 << 40;
/// The smallest disk in any role, bytes.
pub const DISK_BYTES_MIN: u64 = 64 << 20;
/// Seconds that an absent component is waited for before it is rebuilt elsewhere. Source: vSAN, 60 minutes.
pub const REPAIR_DELAY_SECONDS: u32 = 3600;

const _: () = assert!(EXTENT_BYTES.is_multiple_of(BLOCK_BYTES));
const _: () = assert!(STRIPE_UNIT_BYTES.is_multiple_of(EXTENT_BYTES));
const _: () = assert!(COMPONENT_BYTES_MAX == 273_804_165_120);
const _: () = assert!(COMPONENT_BYTES_MAX.is_multiple_of(2 << 20));

/// Wall-clock time, milliseconds since 1970 UTC: for people, never for ordering.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash, serde::Serialize, serde::Deserialize,
)]
#[serde(transparent)]
pub struct Timestamp(pub i64);

impl Timestamp {
    /// The time `seconds` later.
    pub fn plus_seconds(self, seconds: u64) -> Self {
        Self(self.0.saturating_add_unsigned(seconds.saturating_mul(1000)))
    }
}
