//! Questions about what would happen, and their answers. One function answers them all: [`answer`].
//!
//! Invariant: it decides with the same `placement` that acts, so an answer and the act agree on the same snapshot.
use crate::ids::{DiskId, ObjectId};
use crate::placement::Refusal;
use crate::policy::Policy;
use serde::{Deserialize, Serialize};

mod answers;

pub use answers::answer;

/// A question.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
#[serde(tag = "question", rename_all = "kebab-case")]
pub enum Question {
    /// These fail at once, now.
    Fail {
        /// What fails.
        targets: Vec<FailTarget>,
    },
    /// A volume like this is made.
    CreateVolume {
        /// Its size.
        size_bytes: u64,
        /// Its policy, in full: it need not be saved.
        policy: Policy,
    },
    /// A policy is replaced by this one (matched by name) and applied to its volumes.
    PutPolicy {
        /// The changed policy.
        policy: Policy,
    },
    /// A host goes into maintenance.
    Maintenance {
        /// Host name.
        host: String,
    },
}

/// What fails in a question.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FailTarget {
    /// A host by name.
    Host(String),
    /// A disk.
    Disk(DiskId),
    /// A fault domain by name.
    FaultDomain(String),
    /// A site by name.
    Site(String),
}

/// An object in an answer.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct ObjectRef {
    /// Identity.
    pub uuid: ObjectId,
    /// Name.
    pub name: String,
}

/// An answer. Fields that a question has nothing to say about stay at their defaults.
#[derive(Clone, Debug, Default, PartialEq, Serialize, Deserialize)]
pub struct Answer {
    /// Objects that would be unavailable.
    pub inaccessible: Vec<ObjectRef>,
    /// Objects that would be available with less redundancy than promised.
    pub reduced: Vec<ObjectRef>,
    /// Number of objects that nothing would happen to.
    pub unaffected: u64,
    /// Objects that a policy edit changes.
    pub objects: Vec<ObjectRef>,
    /// Bytes that would have to be rebuilt or moved.
    pub bytes_to_move: u64,
    /// Room needed on top while old and new exist together.
    pub peak_extra_bytes: u64,
    /// Whether the rebuild finds room and fault domains.
    pub rebuild_fits: bool,
    /// The fullest disk afterwards, 0..=100.
    pub fullest_disk_percent: u8,
    /// Whether the policy can be satisfied by the cluster as it is.
    pub satisfiable: bool,
    /// Fault domains that the policy needs.
    pub needs_fault_domains: u32,
    /// Fault domains that count now.
    pub has_fault_domains: u32,
    /// Raw bytes for each byte of data.
    pub capacity_factor: f64,
    /// Why not, with numbers.
    pub refusal: Option<Refusal>,
    /// The nearest policies that would work.
    pub nearest: Vec<Policy>,
}
