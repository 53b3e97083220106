//! What this engine can do in this version, by name; each `false` with the sentence that a person reads.
use model::engine::{Capabilities, Capability, EngineError, EngineKind};
use model::policy::{FaultToleranceMethod, Policy, SiteTolerance};

/// What works.
const AVAILABLE: [&str; 10] = [
    "raid1",
    "stripe",
    "thin",
    "faults",
    "resync-limit",
    "import",
    "fault-domains",
    "policy-apply",
    "block-devices",
    "replace",
];

/// What does not work yet, and what would serve meanwhile.
const MISSING: [(&str, &str); 17] = [
    (
        "raid5",
        "RAID-5 is not there yet in this version; a mirror for one failure needs one fault domain less",
    ),
    ("raid6", "RAID-6 is not there yet in this version; a mirror for two failures survives as many"),
    ("sites", "sites are not there yet in this version; use fault domains in one site"),
    ("two-node", "two-node clusters are not there yet in this version; three hosts of any size do the same"),
    ("stretched", "stretched clusters are not there yet in this version"),
    ("compute", "compute clusters are not there yet in this version; attach volumes over NBD"),
    ("compression", "compression is not there yet in this version"),
    ("deduplication", "deduplication is not there yet in this version"),
    ("encryption", "encryption at rest is not there yet in this version; use encrypted disks below it"),
    ("snapshots", "snapshots are not there yet in this version"),
    ("maintenance", "maintenance mode is not there yet in this version; the repair delay covers a reboot"),
    ("retire", "retiring a disk is not there yet in this version"),
    ("rebalance", "rebalancing is not there yet in this version; new volumes go to the freest disks"),
    (
        "relayout",
        "stripe width, method and site rules of existing volumes cannot be changed yet in this version; copy the volume to one with the new policy",
    ),
    (
        "scrub",
        "scrubbing a running cluster is not there yet in this version; millpond check --deep verifies a stopped one",
    ),
    ("cancel", "this task cannot be stopped"),
    ("iops-limit", "IOPS limits are stored and not yet enforced in this version"),
];

/// The capabilities of the native engine.
pub fn capabilities() -> Capabilities {
    let available =
        AVAILABLE.into_iter().map(|name| (name.to_owned(), Capability { available: true, why_not: None }));
    let missing = MISSING
        .into_iter()
        .map(|(name, why)| (name.to_owned(), Capability { available: false, why_not: Some(why.into()) }));
    Capabilities { engine: EngineKind::Native, features: available.chain(missing).collect() }
}

/// The refusal of something that is missing.
pub fn unsupported(capability: &str) -> EngineError {
    let text = MISSING
        .iter()
        .find(|(name, _)| *name == capability)
        .map_or_else(|| format!("{capability} is not there in this version"), |(_, why)| (*why).to_owned());
    EngineError::Unsupported { capability: capability.into(), text }
}

/// Refuses a policy that needs what this version lacks.
///
/// # Errors
/// `Unsupported`, by name.
pub fn check_policy(policy: &Policy) -> Result<(), EngineError> {
    match policy.fault_tolerance_method {
        FaultToleranceMethod::Raid1 => {}
        FaultToleranceMethod::Raid5 => return Err(unsupported("raid5")),
        FaultToleranceMethod::Raid6 => return Err(unsupported("raid6")),
    }
    if policy.site_tolerance != SiteTolerance::None { Err(unsupported("sites")) } else { Ok(()) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_missing_says_why_and_is_refused_by_name() {
        let all = capabilities();
        assert!(all.can("raid1") && !all.can("raid5") && !all.can("anything else"));
        assert!(all.features.values().all(|feature| feature.available || feature.why_not.is_some()));
        let parity = Policy { fault_tolerance_method: FaultToleranceMethod::Raid6, ..Policy::built_in() };
        let refused = check_policy(&parity);
        assert!(
            matches!(&refused, Err(EngineError::Unsupported { capability, .. }) if capability == "raid6")
        );
        assert_eq!(check_policy(&Policy::built_in()), Ok(()));
    }
}
