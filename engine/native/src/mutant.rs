//! Mutants: each removes one safety rule, so that the tests can prove that they notice.
//!
//! In the program every check is a constant `false` and costs nothing. In the tests of this crate, and in a simulator that is
//! built with the feature `mutants`, one mutant can be switched on per thread, so that one build proves all of them.
//! `sim::killers` names for each the scenario that notices it.

macro_rules! mutants {
    ($($(#[$about:meta])* $name:ident,)*) => {
        /// The safety rules that can be removed. The name says what is missing when it is on.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
        #[allow(missing_docs, reason = "each variant is explained where it is used")]
        pub enum Mutant {
            $($(#[$about])* $name,)*
        }

        impl Mutant {
            /// All of them.
            pub const ALL: &[Self] = &[$(Self::$name,)*];
        }
    };
}

mutants! {
    /// `stable_oseq` is the highest acknowledged instead of the low-water mark (correction 1).
    HighestAcked,
    /// The incarnation is not raised at open (correction 2).
    NoEpochBump,
    /// The write set changes without waiting for writes under the old one (correction 3).
    NoBarrier,
    /// An invalid batch is always the end of the log (correction 4).
    NoLogScan,
    /// Log space is reused before the superblock that names the new tail is flushed (correction 5).
    EarlyLogReuse,
    /// Records above `stable_oseq` are destaged.
    DestageUnstable,
    /// A freed extent is reused before the checkpoint that freed it is durable.
    EarlyExtentReuse,
    /// The write is acknowledged before the stale mark is on a majority.
    AckBeforeStaleMark,
    /// Delta resync looks at the good side only.
    OneSidedDelta,
    /// No union roll-forward at open.
    NoRollForward,
    /// Superseded by an unstable record counts as superseded.
    SupersededByUnstable,
    /// Trims take no range lock.
    TrimWithoutLock,
    /// The own offset of a block is not checked.
    NoSelfOffset,
    /// A trimmed extent forgets its sequence (correction 8).
    ForgetHoleSequence,
    /// A trim of content that never left the log leaves no entry in the map.
    ForgetHiddenData,
    /// The range lock is released before the acknowledgement (correction 10).
    EarlyRangeUnlock,
    /// Checksums are not verified on read.
    NoReadChecksum,
    /// The flush of the log is skipped.
    SkipLogFlush,
    /// The flush of data before the checkpoint's superblock is skipped.
    SkipCheckpointFlush,
    /// A deleted object leaves no tombstone (correction 9).
    NoTombstone,
    /// A local id is used again (correction 14).
    ReuseLocalId,
}

impl std::str::FromStr for Mutant {
    type Err = ();
    fn from_str(name: &str) -> Result<Self, ()> {
        Self::ALL.iter().copied().find(|mutant| format!("{mutant:?}") == name).ok_or(())
    }
}

#[cfg(any(test, feature = "mutants"))]
mod switch {
    use super::Mutant;
    use std::cell::Cell;
    thread_local!(static ON: Cell<Option<Mutant>> = const { Cell::new(None) });

    /// Switches one mutant on for this thread, or all off.
    pub fn set(mutant: Option<Mutant>) {
        ON.with(|on| on.set(mutant));
    }

    /// Whether `mutant` is on in this thread.
    pub fn on(mutant: Mutant) -> bool {
        ON.with(|on| on.get() == Some(mutant))
    }
}
#[cfg(any(test, feature = "mutants"))]
pub use switch::{on, set};

/// Whether `mutant` is on: never, in this build.
#[cfg(not(any(test, feature = "mutants")))]
#[inline(always)]
pub const fn on(_mutant: Mutant) -> bool {
    false
}

/// Switches nothing on: this build has no mutants.
#[cfg(not(any(test, feature = "mutants")))]
pub const fn set(_mutant: Option<Mutant>) {}
