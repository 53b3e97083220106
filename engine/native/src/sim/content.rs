//! What the simulator writes: every sector names the write that it came from, so that a read says which one it sees.
//!
//! A sector of 512 bytes holds the version of its write, its own place and words derived from both. Zero is what was never
//! written or was trimmed. Anything else is a wrong byte.
use crate::io::IoBuf;

/// Unit of the checker, bytes.
pub const SECTOR: u64 = 512;

/// What a sector shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Seen {
    /// Zeros.
    Zero,
    /// Written by the write of this version.
    Version(u64),
    /// Nothing that was ever written here.
    Garbage,
}

fn word(version: u64, sector: u64, index: u64) -> u64 {
    // Odd multipliers spread the three numbers over the word; any other mixing would do.
    let mixed = version.wrapping_mul(0x9e37_79b9_7f4a_7c15) ^ sector.wrapping_mul(0xc2b2_ae3d_27d4_eb4f);
    (mixed ^ (mixed >> 29)).wrapping_mul(0xbf58_476d_1ce4_e5b9).wrapping_add(index)
}

fn fill_sector(version: u64, sector: u64, bytes: &mut [u8]) {
    bytes[..8].copy_from_slice(&version.to_le_bytes());
    bytes[8..16].copy_from_slice(&sector.to_le_bytes());
    for (index, chunk) in bytes[16..].chunks_mut(8).enumerate() {
        chunk.copy_from_slice(&word(version, sector, index as u64).to_le_bytes());
    }
}

/// The content of `sectors` sectors from `first` as write `version` leaves it.
pub fn filled(version: u64, first: u64, sectors: u64) -> IoBuf {
    let mut buf = IoBuf::zeroed((sectors * SECTOR) as usize);
    for (sector, bytes) in (first..).zip(buf.as_mut().chunks_mut(SECTOR as usize)) {
        fill_sector(version, sector, bytes);
    }
    buf
}

/// What sector number `sector` shows when its bytes are `bytes`.
pub fn seen(sector: u64, bytes: &[u8]) -> Seen {
    if bytes.iter().all(|byte| *byte == 0) {
        return Seen::Zero;
    }
    let version = u64::from_le_bytes(bytes[..8].try_into().expect("eight bytes"));
    let mut want = [0; SECTOR as usize];
    fill_sector(version, sector, &mut want);
    if want == bytes { Seen::Version(version) } else { Seen::Garbage }
}
