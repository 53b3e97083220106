//! The words and tones of every state, in one place, so that the same state never has two names on two pages.
use crate::web::format;
use crate::web::parts::{Chip, Tone};
use model::policy::{FaultToleranceMethod, Policy};
use model::state::{
    ClusterState, ClusterType, Compliance, ComponentState, DiskRole, DiskState, HostKind, HostState, Media,
    ObjectHealth, ResyncReason, ResyncState, TaskState,
};
use model::units::Timestamp;
use model::view::{ComponentView, HostView, ObjectView, ResyncView};

/// Health of an object: the object states of the contract in a person's words.
pub fn health(health: ObjectHealth) -> Chip {
    match health {
        ObjectHealth::Healthy => Chip::new(Tone::Healthy, "Healthy"),
        ObjectHealth::Moving => Chip::new(Tone::Evacuating, "Healthy, moving"),
        ObjectHealth::NonCompliant => Chip::new(Tone::Degraded, "Not as its policy says"),
        ObjectHealth::PolicyChange => Chip::new(Tone::Rebuilding, "Policy change at work"),
        ObjectHealth::ReducedRebuilding => Chip::new(Tone::Rebuilding, "Reduced redundancy, rebuilding"),
        ObjectHealth::ReducedWaiting => Chip::new(Tone::Absent, "Reduced redundancy, waiting"),
        ObjectHealth::ReducedCannotRebuild => Chip::new(Tone::Degraded, "Reduced redundancy, cannot rebuild"),
        ObjectHealth::Inaccessible => Chip::new(Tone::Failed, "Unavailable"),
    }
}

/// The value of a health in addresses and filters.
pub fn health_value(health: ObjectHealth) -> &'static str {
    match health {
        ObjectHealth::Healthy => "healthy",
        ObjectHealth::Moving => "moving",
        ObjectHealth::NonCompliant => "non-compliant",
        ObjectHealth::PolicyChange => "policy-change",
        ObjectHealth::ReducedRebuilding => "reduced-rebuilding",
        ObjectHealth::ReducedWaiting => "reduced-waiting",
        ObjectHealth::ReducedCannotRebuild => "reduced-cannot-rebuild",
        ObjectHealth::Inaccessible => "inaccessible",
    }
}

/// All healths, worst first.
pub const HEALTHS: [ObjectHealth; 8] = [
    ObjectHealth::Inaccessible,
    ObjectHealth::ReducedCannotRebuild,
    ObjectHealth::ReducedWaiting,
    ObjectHealth::ReducedRebuilding,
    ObjectHealth::PolicyChange,
    ObjectHealth::NonCompliant,
    ObjectHealth::Moving,
    ObjectHealth::Healthy,
];

/// Compliance.
pub fn compliance(compliance: Compliance) -> Chip {
    match compliance {
        Compliance::Compliant => Chip::new(Tone::Healthy, "As its policy says"),
        Compliance::NonCompliant => Chip::new(Tone::Degraded, "Not as its policy says"),
        Compliance::OutOfDate => Chip::new(Tone::Maint, "Policy edited, not yet applied"),
    }
}

/// What an object survives from now on.
pub fn tolerates(object: &ObjectView, noun: &str) -> Chip {
    match (object.accessible, object.tolerates_now) {
        (false, _) => Chip::new(Tone::Failed, "Already unavailable"),
        (true, 0) => Chip::new(Tone::Degraded, "0 failures"),
        (true, number) => {
            Chip::new(Tone::Healthy, format!("loss of {}", format::plural(number.into(), noun)))
        }
    }
}

/// State of a component; with how far it is when it is being brought up to date.
pub fn component(leaf: &ComponentView, resync: &ResyncView, now: Timestamp) -> Chip {
    let since_seconds = u64::try_from((now.0 - leaf.state_since.0) / 1000).unwrap_or(0);
    let percent = resync
        .items
        .iter()
        .find(|item| item.component == leaf.uuid)
        .map(|item| format::percent(item.bytes_done, item.bytes_total));
    let at = |word: &str| percent.map_or_else(|| word.to_owned(), |percent| format!("{word} {percent}%"));
    match leaf.state {
        ComponentState::Active => Chip::new(Tone::Healthy, "Healthy"),
        ComponentState::Absent => {
            Chip::new(Tone::Absent, format!("Absent {}", format::duration(since_seconds)))
        }
        ComponentState::Degraded => Chip::new(Tone::Degraded, "Degraded"),
        ComponentState::Stale => Chip::new(Tone::Absent, at("Stale")),
        ComponentState::Resyncing => Chip::new(Tone::Rebuilding, at("Resyncing")),
        ComponentState::Reconfiguring => Chip::new(Tone::Rebuilding, at("Building")),
    }
}

/// State of a host; `None` while it is simply there.
pub fn host_note(host: &HostView, now: Timestamp) -> Option<Chip> {
    let since = format::duration(u64::try_from((now.0 - host.state_since.0) / 1000).unwrap_or(0));
    match host.state {
        HostState::Connected => None,
        HostState::Absent => Some(Chip::new(Tone::Absent, format!("Absent {since}"))),
        HostState::EnteringMaintenance => Some(Chip::new(Tone::Evacuating, "Entering maintenance")),
        HostState::Maintenance => Some(Chip::new(Tone::Maint, "In maintenance")),
    }
}

/// State of a host, always.
pub fn host(host: &HostView, now: Timestamp) -> Chip {
    host_note(host, now).unwrap_or_else(|| Chip::new(Tone::Healthy, "Connected"))
}

/// State of a disk.
pub fn disk(state: DiskState) -> Chip {
    match state {
        DiskState::Healthy => Chip::new(Tone::Healthy, "Healthy"),
        DiskState::Absent => Chip::new(Tone::Absent, "Absent"),
        DiskState::Failed => Chip::new(Tone::Failed, "Failed"),
        DiskState::Slow => Chip::new(Tone::Degraded, "Slow"),
        DiskState::Full => Chip::new(Tone::Degraded, "Full"),
    }
}

/// Role of a disk.
pub fn disk_role(role: DiskRole) -> &'static str {
    match role {
        DiskRole::None => "Not claimed",
        DiskRole::Cache => "Cache",
        DiskRole::Capacity => "Capacity",
        DiskRole::Combined => "Capacity with its own log",
    }
}

/// What a disk is made of.
pub fn media(media: Media) -> &'static str {
    match media {
        Media::Flash => "Flash",
        Media::Hdd => "HDD",
    }
}

/// The noun of a failure domain: every page speaks of what the cluster is made of.
pub fn host_noun(kind: HostKind) -> &'static str {
    match kind {
        HostKind::Machine | HostKind::Lab | HostKind::Ceph => "host",
        HostKind::Enclosure => "enclosure",
        HostKind::Disk => "disk",
    }
}

/// State of a cluster.
pub fn cluster(state: ClusterState) -> Chip {
    match state {
        ClusterState::Unconfigured => Chip::new(Tone::Maint, "Not configured"),
        ClusterState::Configuring => Chip::new(Tone::Rebuilding, "Being configured"),
        ClusterState::Ready => Chip::new(Tone::Healthy, "Ready"),
        ClusterState::Unavailable => Chip::new(Tone::Failed, "Unavailable"),
    }
}

/// Kind of a cluster.
pub fn cluster_type(kind: ClusterType) -> &'static str {
    match kind {
        ClusterType::SingleSite => "Single site",
        ClusterType::TwoNode => "Two nodes and a witness",
        ClusterType::Stretched => "Stretched over two sites",
        ClusterType::Compute => "Compute only",
    }
}

/// State of a task.
pub fn task(state: TaskState) -> Chip {
    match state {
        TaskState::Running => Chip::new(Tone::Rebuilding, "Running"),
        TaskState::Succeeded => Chip::new(Tone::Healthy, "Done"),
        TaskState::Failed => Chip::new(Tone::Failed, "Failed"),
        TaskState::Cancelled => Chip::new(Tone::Maint, "Cancelled"),
    }
}

/// Why bytes move.
pub fn resync_reason(reason: ResyncReason) -> &'static str {
    match reason {
        ResyncReason::Repair => "Rebuilt elsewhere",
        ResyncReason::Stale => "Catching up after an absence",
        ResyncReason::Evacuate => "Leaving its host or disk",
        ResyncReason::Rebalance => "Levelling disks",
        ResyncReason::PolicyChange => "New layout",
    }
}

/// State of a resync.
pub fn resync_state(state: ResyncState) -> Chip {
    match state {
        ResyncState::Active => Chip::new(Tone::Rebuilding, "Active"),
        ResyncState::Queued => Chip::new(Tone::Maint, "Queued"),
        ResyncState::Suspended => Chip::new(Tone::Absent, "Suspended"),
    }
}

/// A policy in a few words: `Mirror, tolerates 1 host`.
pub fn policy(policy: &Policy, noun: &str) -> String {
    let failures = policy.failures_to_tolerate;
    let tolerates = match failures {
        0 => "no redundancy".to_owned(),
        number => format!("tolerates the loss of {}", format::plural(number.into(), noun)),
    };
    let layout = match (policy.fault_tolerance_method, failures) {
        (FaultToleranceMethod::Raid1, 0) => "One copy".to_owned(),
        (FaultToleranceMethod::Raid1, _) => format!("Mirror of {}", failures + 1),
        (FaultToleranceMethod::Raid5, _) => format!("RAID 5 ({}+1)", policy.data_legs.unwrap_or(3)),
        (FaultToleranceMethod::Raid6, _) => format!("RAID 6 ({}+2)", policy.data_legs.unwrap_or(4)),
    };
    let stripe =
        if policy.stripe_width > 1 { format!(", {} stripes", policy.stripe_width) } else { String::new() };
    format!("{layout}, {tolerates}{stripe}")
}
