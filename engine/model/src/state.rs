//! States that pages, API and engines share, in the words of the contract, and the legal moves between them.
use serde::{Deserialize, Serialize};

/// State of one component. The arrows, all of them:
///
/// ```text
/// Active        -> Absent | Degraded | Stale        host or disk away | permanent error | returned with missed writes
/// Absent        -> Active | Stale | Resyncing | Degraded   back with nothing missed | back behind | .. | found failed
/// Stale         -> Resyncing | Absent | Degraded
/// Resyncing     -> Active | Stale | Absent | Degraded
/// Reconfiguring -> Active | Stale | Absent | Degraded      a new leg before its first full copy
/// Degraded      -> (replaced by a new component, never comes back)
/// ```
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ComponentState {
    /// Readable, writable, up to date.
    Active,
    /// Unreachable, may come back: repair waits for the delay.
    Absent,
    /// Failed for good: repair starts at once.
    Degraded,
    /// Reachable, but missed writes: not readable until resynced.
    Stale,
    /// Being brought up to date.
    Resyncing,
    /// Being built for a new layout.
    Reconfiguring,
}

impl ComponentState {
    /// Whether the diagram above has an arrow from `self` to `next`.
    pub fn can_become(self, next: Self) -> bool {
        use ComponentState::*;
        matches!(
            (self, next),
            (Active, Absent | Degraded | Stale)
                | (Absent, Active | Stale | Resyncing | Degraded)
                | (Stale, Resyncing | Absent | Degraded)
                | (Resyncing | Reconfiguring, Active | Stale | Absent | Degraded)
        )
    }
}

/// Health of an object: the first that holds, worst first. See CONTRACT for the sentence of each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ObjectHealth {
    /// No majority of votes, or no complete copy.
    Inaccessible,
    /// Bytes move for redundancy.
    ReducedRebuilding,
    /// A component is absent and the repair timer runs.
    ReducedWaiting,
    /// Redundancy is missing and nothing can restore it now; `reason` says why.
    ReducedCannotRebuild,
    /// A new layout is being built.
    PolicyChange,
    /// Available and redundant, but another rule of the policy is not met.
    NonCompliant,
    /// Healthy, and moving.
    Moving,
    /// All that the policy promises holds.
    Healthy,
}

/// Whether an object is as its policy says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Compliance {
    /// As the policy says.
    Compliant,
    /// Not as the policy says, every reduced state included.
    NonCompliant,
    /// The policy was edited and not yet applied to this object.
    OutOfDate,
}

/// Liveness of a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostState {
    /// Reachable.
    Connected,
    /// Unreachable.
    Absent,
    /// On its way into maintenance.
    EnteringMaintenance,
    /// In maintenance.
    Maintenance,
}

/// What kind of failure domain a host is; the noun on every page follows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostKind {
    /// A machine.
    Machine,
    /// An enclosure or a controller of one machine.
    Enclosure,
    /// A single disk of one machine.
    Disk,
    /// A host of a lab: a folder of files.
    Lab,
    /// A host of a Ceph cluster.
    Ceph,
}

/// What a host does in the cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum HostRole {
    /// Holds data.
    Data,
    /// Holds witnesses only.
    Witness,
}

/// What a disk is made of.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Media {
    /// SSD, NVMe or a file on either.
    Flash,
    /// Rotating.
    Hdd,
}

/// What a disk does in its disk group.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskRole {
    /// Not claimed.
    None,
    /// Carries the log of its group.
    Cache,
    /// Carries components.
    Capacity,
    /// Carries its own log and components.
    Combined,
}

/// State of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum DiskState {
    /// Answers without errors.
    Healthy,
    /// Not there, or its host is away.
    Absent,
    /// Reported errors that do not go away.
    Failed,
    /// Answers much slower than its peers.
    Slow,
    /// Has no room left.
    Full,
}

/// Whether a disk may be claimed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Eligibility {
    /// Blank and free.
    Eligible,
    /// Holds something that the person must list in `erase`.
    EraseNeeded,
    /// In use, by this cluster or by something else.
    InUse,
    /// Cannot be used; `reason` says why.
    Ineligible,
}

/// Life of a cluster.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClusterState {
    /// Nothing claimed yet.
    Unconfigured,
    /// Disks are being formatted.
    Configuring,
    /// Serves.
    Ready,
    /// Exists, but cannot be served now.
    Unavailable,
}

/// What kind of cluster it is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ClusterType {
    /// All hosts in one place, with or without fault domains.
    #[default]
    SingleSite,
    /// Two hosts and a witness.
    TwoNode,
    /// Two sites and a witness.
    Stretched,
    /// Uses the storage of another cluster.
    Compute,
}

/// Severity of an event.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Severity {
    /// Worth knowing.
    Info,
    /// Redundancy or room is less than promised.
    Warning,
    /// Data is unavailable, or something failed.
    Error,
}

/// State of a task.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum TaskState {
    /// At work.
    Running,
    /// Done.
    Succeeded,
    /// Gave up; `error` says why.
    Failed,
    /// Stopped by a person.
    Cancelled,
}

/// Why bytes move.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResyncReason {
    /// A component is rebuilt elsewhere.
    Repair,
    /// A returned component catches up.
    Stale,
    /// A host or disk is being emptied.
    Evacuate,
    /// Disks are being levelled.
    Rebalance,
    /// A new layout is being built.
    PolicyChange,
}

/// State of one resync.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum ResyncState {
    /// Moving bytes.
    Active,
    /// Waiting for its turn.
    Queued,
    /// Stopped for now.
    Suspended,
}

#[cfg(test)]
mod tests {
    use super::ComponentState::{self, *};

    const ALL: [ComponentState; 6] = [Active, Absent, Degraded, Stale, Resyncing, Reconfiguring];

    #[test]
    fn stale_component_is_never_active_without_resync() {
        assert!(!Stale.can_become(Active));
    }

    #[test]
    fn degraded_component_never_comes_back() {
        for next in ALL {
            assert!(!Degraded.can_become(next), "{next:?}");
        }
    }

    #[test]
    fn no_state_becomes_itself() {
        for state in ALL {
            assert!(!state.can_become(state), "{state:?}");
        }
    }
}
