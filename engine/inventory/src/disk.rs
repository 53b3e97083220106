//! What the inventory says about one disk: the words that pages and API use.
use crate::contents::Contents;
use crate::facts::Facts;
use crate::smart::Health;
use model::ids::DiskId;
use model::state::{Eligibility, Media};

/// What kind of device it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Class {
    /// A disk.
    Disk,
    /// Another way to the disk with this name.
    PathOf(String),
    /// A drive for CDs or DVDs.
    Optical,
    /// A file in disguise.
    Loop,
    /// Memory: `ram0`, `zram0`.
    Memory,
    /// Served by another program or machine: `nbd0`, `rbd0`, `drbd0`.
    Network,
    /// A small special area of an eMMC module.
    BootArea,
    /// An array, a volume or a mapping made of other disks.
    Assembled,
    /// A part of a disk in a flat listing without its disk.
    Partition,
}

/// What a disk is known by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Identity {
    /// Its world-wide name.
    Wwn(String),
    /// Model and serial number.
    Serial(String),
    /// Only the place where it is plugged in.
    Path(String),
    /// Only the name the kernel gave it this time.
    Name(String),
}

impl Identity {
    /// A key that no other identity has.
    pub fn key(&self) -> String {
        match self {
            Self::Wwn(name) => format!("wwn:{name}"),
            Self::Serial(name) => format!("serial:{name}"),
            Self::Path(name) => format!("path:{name}"),
            Self::Name(name) => format!("name:{name}"),
        }
    }
}

/// Whether a disk may be claimed, and why not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether.
    pub eligibility: Eligibility,
    /// Why not, with the remedy, in one sentence. `None` when it is eligible.
    pub reason: Option<String>,
}

/// Something that uses a disk now.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Use {
    /// `mounted at /srv`, `array md127 active`, `swap in use`.
    pub what: String,
    /// What ends it.
    pub remedy: String,
    /// It carries the system that runs here: nothing ends that.
    pub is_system: bool,
}

/// What to know before a disk is claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum WarningKind {
    /// Shingled.
    Shingled,
    /// The device, or its controller, takes few commands at a time.
    QueueDepth,
    /// The cache is small against the capacity behind it.
    SmallCache,
    /// The cache is larger than a log can use.
    LargeCache,
    /// A rotating disk as cache.
    RotationalCache,
    /// Claimed disks share a controller with disks that others use.
    SharedController,
    /// The write cache forgets when power is lost.
    WriteCache,
    /// Fault domains of different sizes.
    UnevenDomains,
    /// Several disks fail together.
    SharedFate,
    /// Identity, bridge or health is doubtful.
    Doubtful,
}

/// One sentence with numbers: what it will cost.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Warning {
    /// What it is about.
    pub kind: WarningKind,
    /// The sentence.
    pub text: String,
}

/// A disk, or another block device with the reason why it is none.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Disk {
    /// Made from the identity: the same at every look and after every start.
    pub id: DiskId,
    /// What it is known by.
    pub identity: Identity,
    /// What kind of device it is.
    pub class: Class,
    /// Everything known.
    pub facts: Facts,
    /// Name of each path to it; one, as a rule.
    pub paths: Vec<String>,
    /// Disks with the same key are parts of one physical drive and fail together.
    pub body: String,
    /// What is on it.
    pub contents: Contents,
    /// A word for what stands on it ([`crate::contents::fingerprint`]); `None` when it was not read.
    pub fingerprint: Option<String>,
    /// What uses it.
    pub uses: Vec<Use>,
    /// Whether it may be claimed.
    pub verdict: Verdict,
    /// What to know before.
    pub warnings: Vec<Warning>,
}

impl Disk {
    /// Short name.
    pub fn name(&self) -> &str {
        &self.facts.node.name
    }

    /// Absolute path.
    pub fn path(&self) -> &str {
        &self.facts.node.path
    }

    /// What it is made of; `None` when nobody says.
    pub fn media(&self) -> Option<Media> {
        self.facts.rotational.map(|rotates| if rotates { Media::Hdd } else { Media::Flash })
    }

    /// Self-assessment.
    pub fn health(&self) -> &Health {
        &self.facts.smart.health
    }

    /// Whether its bytes count as raw capacity of the machine: every physical disk once, with a believable size.
    pub fn counts(&self) -> bool {
        self.class == Class::Disk && self.facts.size_bytes.is_some_and(is_plausible)
    }

    /// Whether it may be claimed at all, now or after erasing.
    pub fn can_be_claimed(&self) -> bool {
        matches!(self.verdict.eligibility, Eligibility::Eligible | Eligibility::EraseNeeded)
    }
}

/// Larger than any disk that is made: 1 PiB, four times the largest flash disk announced so far.
pub const SIZE_BYTES_MAX: u64 = 1 << 50;

/// Whether a disk can have this size.
pub fn is_plausible(size_bytes: u64) -> bool {
    (1..=SIZE_BYTES_MAX).contains(&size_bytes)
}

/// A size as it is printed on disks: `8 TB`, `1.02 GB`.
pub fn size_text(bytes: u64) -> String {
    let units =
        [("PB", 1_000_000_000_000_000), ("TB", 1_000_000_000_000), ("GB", 1_000_000_000), ("MB", 1_000_000)];
    let Some((name, unit)) = units.into_iter().find(|(_, unit)| bytes >= *unit) else {
        return format!("{bytes} bytes");
    };
    let decimals = if bytes >= unit * 100 { 0 } else { 2 };
    let number = format!("{:.decimals$}", bytes as f64 / unit as f64);
    let short = if decimals > 0 { number.trim_end_matches('0').trim_end_matches('.') } else { &number };
    format!("{short} {name}")
}
