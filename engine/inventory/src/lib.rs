//! The disks of a machine, told truly: what they are, what is on them, whether they may be claimed and what that will
//! cost, and how one machine can be divided into failure domains.
//!
//! Map, bottom up: `source` is the machine or a recorded folder; `lsblk`, `smart` and `facts` read and merge what is
//! known; `identity` says which rows are the same disk; `contents` looks into each; `uses` and `verdict` decide;
//! `warning` (with the table of `shingled`) says what it will cost; `grouping` proposes failure domains.
//! Invariants: nothing here writes; nothing odd in one row changes another; what is unknown is shown as unknown.
pub mod contents;
pub mod disk;
pub mod facts;
pub mod grouping;
pub mod identity;
pub mod lsblk;
mod shingled;
pub mod smart;
pub mod source;
mod uses;
mod verdict;
pub mod warning;

use contents::Contents;
use disk::{Class, Disk, Identity};
use identity::Known;
use source::{Access, Source};
use std::collections::BTreeMap;
use verdict::Looked;

pub use verdict::Options;

/// Why there is no inventory. The last good one stays.
#[derive(Debug, thiserror::Error)]
pub enum InventoryError {
    /// The facts cannot be read.
    #[error("this machine's disks cannot be listed")]
    Source(#[from] source::SourceError),
    /// The listing is none.
    #[error("this machine's disks cannot be listed")]
    Listing(#[from] lsblk::LsblkError),
}

/// The disks of a machine.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Inventory {
    /// All block devices, also those that are no disks: with the reason.
    pub disks: Vec<Disk>,
    /// What could not be read, one sentence each.
    pub notes: Vec<String>,
    /// Whether they are here: disks of a recorded machine cannot be claimed.
    pub is_this_machine: bool,
}

impl Inventory {
    /// Raw bytes of the machine: every physical disk once, implausible sizes left out.
    pub fn raw_bytes(&self) -> u64 {
        self.disks.iter().filter(|disk| disk.counts()).filter_map(|disk| disk.facts.size_bytes).sum()
    }

    /// The row with this name, or with this path.
    pub fn find(&self, name: &str) -> Option<&Disk> {
        self.disks.iter().find(|disk| disk.name() == name || disk.path() == name)
    }
}

/// Looks at a machine.
///
/// # Errors
/// [`InventoryError`] when nothing can be said; an empty list means that there are no disks.
pub fn survey(source: &dyn Source, options: Options) -> Result<Inventory, InventoryError> {
    let (nodes, notes) = listed(source)?;
    let known = identity::recognise(facts::gather(source, nodes));
    let mut disks: Vec<Disk> = known.into_iter().map(|known| judge(source, known, options)).collect();
    warning::warn(&mut disks);
    Ok(Inventory { disks, notes, is_this_machine: source.is_this_machine() })
}

/// Looks into one device and decides.
fn judge(source: &dyn Source, known: Known, options: Options) -> Disk {
    let (mut contents, fingerprint, looked) = look(source, &known, options);
    contents::add_lsblk(&mut contents, &known.facts.node);
    let uses = uses::uses(source.tree(), &known.facts, &contents);
    let verdict = verdict::verdict(&known, &contents, &uses, &looked, options);
    let Known { facts, class, identity, paths, body, warnings, .. } = known;
    let id = identity::disk_id(&match &class {
        // A second path shares the identity of its disk, and must not share its id.
        Class::PathOf(_) => Identity::Name(format!("path {} {}", identity.key(), facts.kernel_name())),
        _ => identity.clone(),
    });
    Disk { id, identity, class, facts, paths, body, contents, fingerprint, uses, verdict, warnings }
}

/// What each device is known by now, by path: asked again right before a disk is written.
///
/// # Errors
/// [`InventoryError`]
pub fn identities(source: &dyn Source) -> Result<BTreeMap<String, Identity>, InventoryError> {
    let known = identity::recognise(facts::gather(source, listed(source)?.0));
    Ok(known.into_iter().map(|known| (known.facts.node.path, known.identity)).collect())
}

/// The devices that `lsblk` lists, or sysfs without it; and what is odd about the listing.
fn listed(source: &dyn Source) -> Result<(Vec<lsblk::Node>, Vec<String>), InventoryError> {
    Ok(match source.lsblk()? {
        Some(text) => {
            let listing = lsblk::parse(&text)?;
            (listing.nodes, listing.odd)
        }
        None => (facts::nodes_of_sysfs(source.tree()), Vec::new()),
    })
}

fn look(source: &dyn Source, known: &Known, options: Options) -> (Contents, Option<String>, Looked) {
    let size = known.facts.size_bytes.unwrap_or(0);
    let may_be_claimed = match known.class {
        Class::Disk => true,
        Class::Loop => options.loop_devices,
        _ => false,
    };
    if !may_be_claimed || !disk::is_plausible(size) {
        return (Contents::default(), None, Looked::NotHere);
    }
    match source.open(&known.facts.node.path) {
        Access::Open { file, held } => {
            let read = |offset: u64, buffer: &mut [u8]| source::read_at(&file, offset, buffer);
            let contents = contents::look(&read, size);
            // Nobody claims a disk that is held: it need not be compared with anything later.
            let fingerprint = (!held).then(|| contents::fingerprint(&read, size, &contents));
            (contents, fingerprint, if held { Looked::Held } else { Looked::Free })
        }
        Access::Denied => (Contents::default(), None, Looked::Denied),
        Access::Failed(why) => (Contents::default(), None, Looked::Failed(why)),
        Access::NotHere => (Contents::default(), None, Looked::NotHere),
    }
}

#[cfg(test)]
mod tests;
