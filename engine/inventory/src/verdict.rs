//! May this disk be claimed? The first rule that applies decides, and says why and what to do, in one sentence.
//!
//! Invariant: a disk that carries the running system, a mount or swap is never offered; a disk that nobody could look
//! into is never called blank.
use crate::contents::{Contents, Kind};
use crate::disk::{Class, SIZE_BYTES_MAX, Use, Verdict, is_plausible, size_text};
use crate::identity::Known;
use crate::smart::Health;
use model::state::Eligibility::{self, EraseNeeded, InUse, Ineligible};
use model::units::{BLOCK_BYTES, DISK_BYTES_MIN};

/// How looking into a disk went.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Looked {
    /// It was read, and nobody holds it.
    Free,
    /// It was read, and somebody holds it.
    Held,
    /// This user may not read it.
    Denied,
    /// It cannot be opened.
    Failed(String),
    /// A recorded machine: only facts.
    NotHere,
}

/// What the person allowed beyond the ordinary.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Options {
    /// Loop devices may be claimed like disks: for tests.
    pub loop_devices: bool,
}

/// The verdict on one row.
pub(crate) fn verdict(
    known: &Known,
    contents: &Contents,
    uses: &[Use],
    looked: &Looked,
    options: Options,
) -> Verdict {
    let no = |reason: String| Verdict { eligibility: Ineligible, reason: Some(reason) };
    if let Some(reason) = by_class(known, options) {
        return no(reason);
    }
    if let Some(verdict) = by_use(uses, looked) {
        return verdict;
    }
    if let Some(reason) =
        by_size(known).or_else(|| by_hardware(known)).or_else(|| by_access(known, contents, looked))
    {
        return no(reason);
    }
    match contents.summary() {
        None => Verdict { eligibility: Eligibility::Eligible, reason: None },
        Some(summary) if contents.has(Kind::Millpond) => Verdict {
            eligibility: EraseNeeded,
            reason: Some(format!("{summary}: import that cluster instead, or list the disk for erasing")),
        },
        Some(summary) => Verdict {
            eligibility: EraseNeeded,
            reason: Some(format!("holds {summary}: it is only taken when it is listed for erasing")),
        },
    }
}

fn by_class(known: &Known, options: Options) -> Option<String> {
    let name = &known.facts.node.name;
    let is_empty = known.facts.size_bytes.is_none_or(|size| size == 0);
    match &known.class {
        Class::Loop | Class::Network if is_empty => Some("no medium / 0 bytes: nothing is attached to it".into()),
        Class::Disk if known.lacks_multipath => Some(format!(
            "two paths to one disk without multipath ({}): set up multipath, or unplug all paths but one",
            known.paths.join(", ")
        )),
        Class::Disk => None,
        Class::PathOf(disk) if known.lacks_multipath => Some(format!(
            "two paths to one disk without multipath ({disk}, {name}): set up multipath, or unplug all paths but one"
        )),
        Class::PathOf(disk) => Some(format!("path of multipath device {disk}: claim {disk} instead")),
        Class::Optical => Some("an optical drive: it cannot hold a datastore".into()),
        Class::Loop if options.loop_devices => None,
        Class::Loop => {
            let file = known.facts.backing_file.as_deref().map(|file| format!(" of {file}")).unwrap_or_default();
            Some(format!(
                "a loop device{file}: it is gone after a restart; give the file as a file disk (--file-disks) instead"
            ))
        }
        Class::Memory => Some("memory, not a disk: its contents are lost with the power".into()),
        Class::Network => Some(
            "served by another program or machine, perhaps by this cluster itself: use a local disk, or a file on a \
             mounted share"
                .into(),
        ),
        Class::BootArea => Some("the boot area of an eMMC module, not a disk".into()),
        Class::Assembled => Some(match known.facts.size_bytes {
            Some(0) => "no medium / 0 bytes: an array or volume that is not active".into(),
            _ => "made of other disks: claim those, once this is stopped".into(),
        }),
        Class::Partition => Some("a partition: claim the whole disk, once it is free".into()),
    }
}

fn by_use(uses: &[Use], looked: &Looked) -> Option<Verdict> {
    let in_use = |reason: String| Some(Verdict { eligibility: InUse, reason: Some(reason) });
    let mut system: Vec<&str> =
        uses.iter().filter(|one| one.is_system).map(|one| one.what.as_str()).collect();
    if !system.is_empty() {
        system.sort_unstable();
        return in_use(format!("system disk ({}): it is never claimed; use another disk", system.join(", ")));
    }
    if let Some(first) = uses.first() {
        let all: Vec<&str> = uses.iter().map(|one| one.what.as_str()).collect();
        return in_use(format!("{}: in use; {} first, then look again", all.join(", "), first.remedy));
    }
    if *looked == Looked::Held {
        return in_use(
            "another program holds it exclusively (a pool, an OSD or a virtual machine): stop that first, then look again"
                .into(),
        );
    }
    None
}

fn by_size(known: &Known) -> Option<String> {
    let facts = &known.facts;
    match facts.size_bytes {
        None => Some("its size is unknown: check the cable and look again".into()),
        Some(0) => Some("no medium / 0 bytes: put a medium in, or connect the device, and look again".into()),
        Some(size) if !is_plausible(size) => Some(format!(
            "implausible size of {} ({size} bytes, more than {}): the bridge in between is lying; connect the disk directly",
            size_text(size),
            size_text(SIZE_BYTES_MAX)
        )),
        Some(_) if facts.size_conflict.is_some() => {
            facts.size_conflict.as_ref().map(|conflict| format!("{conflict}; connect the disk directly"))
        }
        Some(size) if size < DISK_BYTES_MIN => Some(format!(
            "too small to claim: {}, the least is {} MiB",
            size_text(size),
            DISK_BYTES_MIN >> 20
        )),
        Some(_) => None,
    }
}

fn by_hardware(known: &Known) -> Option<String> {
    let facts = &known.facts;
    if facts.read_only == Some(true) {
        let path = &facts.node.path;
        return Some(format!(
            "read-only: take off its write protection, or run `blockdev --setrw {path}`, and look again"
        ));
    }
    if facts.zoned.as_deref() == Some("host-managed") {
        return Some(
            "host-managed zoned disk (SMR): it takes no random writes; use a conventional disk".into(),
        );
    }
    let block = facts
        .logical_block_bytes
        .map(u64::from)
        .filter(|block| *block > BLOCK_BYTES || !block.is_power_of_two());
    if let Some(block) = block {
        return Some(format!(
            "logical blocks of {block} bytes: format it with 512 or 4096 (`sg_format`, `nvme format`)"
        ));
    }
    if facts.smart.health == Health::Failing {
        return Some("its own self-assessment (SMART) says that it is failing: replace it".into());
    }
    None
}

fn by_access(known: &Known, contents: &Contents, looked: &Looked) -> Option<String> {
    let node = &known.facts.node;
    match looked {
        Looked::Denied => {
            let group = node.group.as_deref().unwrap_or("disk");
            Some(format!(
                "this user may not read {}, so nobody knows what is on it: run `sudo usermod --append --groups {group} \
                 \"$USER\"`, log in again and restart Millpond, or start it as root",
                node.path
            ))
        }
        Looked::Failed(why) => {
            Some(format!("it cannot be opened ({why}): check cable and power and look again"))
        }
        Looked::Free | Looked::Held | Looked::NotHere => {
            contents.unreadable.as_ref().map(|why| format!("{why}: replace the disk, or check its cable"))
        }
    }
}
