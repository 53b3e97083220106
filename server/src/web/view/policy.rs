//! What a policy promises, needs and costs on this cluster, and what an edit would do to its volumes.
use crate::service::capacity;
use crate::web::format;
use crate::web::parts::{Choice, Fact, Tone};
use crate::web::view::{explain, words};
use model::arithmetic;
use model::engine::Capabilities;
use model::policy::{Policy, SiteTolerance};
use model::view::Snapshot;
use model::what_if::Answer;

/// What an engine lacks for `feature`, one sentence; empty when it can.
pub fn why_not(can: &Capabilities, feature: &str) -> String {
    if can.can(feature) {
        return String::new();
    }
    let said = can.features.get(feature).and_then(|feature| feature.why_not.as_deref());
    explain::sentence(said.unwrap_or("not there yet on this cluster; it comes with a later release"))
}

/// Ways to keep data, those the engine lacks with the reason.
pub fn methods(can: &Capabilities) -> Vec<Choice> {
    let choice =
        |value: &str, word: &str| Choice { why_not: why_not(can, value), ..Choice::new(value, word) };
    vec![
        choice("raid1", "Mirror (RAID 1)"),
        choice("raid5", "RAID 5, one parity"),
        choice("raid6", "RAID 6, two parities"),
    ]
}

/// Site tolerances, those the cluster lacks with the reason.
pub fn sites(can: &Capabilities) -> Vec<Choice> {
    let choice = |value: &str, word: &str| {
        let why_not = if value == "none" { String::new() } else { why_not(can, "sites") };
        Choice { why_not, ..Choice::new(value, word) }
    };
    vec![
        choice("none", "Sites are not looked at"),
        choice("mirroring", "A full copy in each site"),
        choice("preferred", "In the preferred site only"),
        choice("secondary", "In the secondary site only"),
    ]
}

/// Promise, needs and price, with this cluster's own numbers.
pub fn cost(snapshot: &Snapshot, policy: &Policy) -> Vec<Fact> {
    let noun = explain::noun(snapshot);
    let usable = capacity::usable(snapshot, policy);
    let cost = arithmetic::write_cost(policy);
    let (needs, has) = (usable.needs_fault_domains, usable.has_fault_domains);
    let enough = if needs <= has {
        Fact::chip("Fault domains", Tone::Healthy, format!("needs {needs}, has {has}"))
    } else {
        Fact::chip("Fault domains", Tone::Degraded, format!("needs {needs}, has {has}"))
    };
    let io = format!(
        "{} and {} on disks",
        format::plural(cost.reads.into(), "read"),
        format::plural(cost.writes.into(), "write")
    );
    let mut facts = vec![
        Fact::new("Promise", words::policy(policy, noun)),
        enough,
        Fact::new("Space", format!("{:.2}×", arithmetic::capacity_factor(policy)))
            .note("raw for each byte written"),
        Fact::bytes("Usable here", usable.usable_bytes).note("of data, if every volume used it"),
        Fact::new("One small write", io),
    ];
    if policy.object_space_reservation_percent > 0 {
        let share = format!("{} % of the size", policy.object_space_reservation_percent);
        facts.push(Fact::new("Reserved at once", share));
    }
    if policy.site_tolerance != SiteTolerance::None {
        facts.push(Fact::new("Sites", "needs a stretched cluster"));
    }
    if policy.force_provisioning {
        let risk = Fact::chip("Force provisioning", Tone::Degraded, "On");
        facts.push(risk.note("volumes may begin with less protection than promised"));
    }
    if !policy.checksum {
        facts.push(
            Fact::chip("Checksums", Tone::Degraded, "Off").note("wrong bytes of a disk would not be noticed"),
        );
    }
    facts
}

/// What an edit does to the volumes that use the policy.
pub fn consequences(answer: &Answer) -> Vec<Fact> {
    let changed = answer.objects.len() as u64;
    let mut facts = vec![Fact::new("Volumes that change", format::plural(changed, "volume"))];
    if changed > 0 {
        facts.push(Fact::bytes("To write", answer.bytes_to_move));
        facts.push(
            Fact::bytes("Extra room at the peak", answer.peak_extra_bytes).note("old and new exist together"),
        );
        facts.push(if answer.rebuild_fits {
            let note = format!("the fullest disk is then {} % full", answer.fullest_disk_percent);
            Fact::chip("Room for it", Tone::Healthy, "Fits").note(note)
        } else {
            Fact::chip("Room for it", Tone::Degraded, "Does not fit")
                .note("applying it now would be refused before anything starts")
        });
    }
    facts
}

/// Value of a method in forms.
pub fn method_value(policy: &Policy) -> &'static str {
    use model::policy::FaultToleranceMethod::{Raid1, Raid5, Raid6};
    match policy.fault_tolerance_method {
        Raid1 => "raid1",
        Raid5 => "raid5",
        Raid6 => "raid6",
    }
}
