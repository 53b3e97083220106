//! What the policy in the editor needs and costs, on the cluster of the draft.
use super::Posted;
use super::body::why_not;
use crate::service::draft::Draft;
use crate::service::{capacity, plan};
use crate::web::format;
use crate::web::parts::Fact;
use crate::web::view::words;
use model::arithmetic;
use model::engine::Capabilities;
use model::policy::{FaultToleranceMethod, Policy};
use model::units::Timestamp;

/// What the policy in the editor needs and costs on the cluster of the draft.
#[derive(Clone, Debug, Default)]
pub struct Cost {
    /// Facts.
    pub facts: Vec<Fact>,
    /// What is wrong with it.
    pub problems: Vec<String>,
}

impl Cost {
    /// Computes it from what the editor holds; empty for other steps.
    pub fn of(draft: &Draft, can: &Capabilities, form: &Posted, now: Timestamp) -> Self {
        let policy = super::save::policy(form).unwrap_or_else(|_| Policy::built_in());
        let named = Policy { name: "new".into(), ..policy };
        let problems = crate::service::draft::policy_problems(&named);
        let usable = capacity::usable(&plan::picture(draft, now), &named);
        let cost = arithmetic::write_cost(&named);
        let (needs, has) = (usable.needs_fault_domains, usable.has_fault_domains);
        let mut facts = vec![
            Fact::new("Promise", words::policy(&named, super::panel::noun(draft))),
            Fact::new("Fault domains", format!("needs {needs}, you have {has}")),
            Fact::new("Space", format!("{:.2}× for every byte written", arithmetic::capacity_factor(&named))),
            Fact::bytes("Usable with it here", usable.usable_bytes).note(if has < needs {
                "too few fault domains"
            } else {
                ""
            }),
            Fact::new(
                "One small write",
                format!(
                    "{} and {} of disks",
                    format::plural(cost.reads.into(), "read"),
                    format::plural(cost.writes.into(), "write")
                ),
            ),
        ];
        let feature = match named.fault_tolerance_method {
            FaultToleranceMethod::Raid1 => "raid1",
            FaultToleranceMethod::Raid5 => "raid5",
            FaultToleranceMethod::Raid6 => "raid6",
        };
        if feature != "raid1" && !can.can(feature) {
            facts.push(Fact::new("In this release", why_not(can, feature)));
        }
        Self { facts, problems: problems.into_iter().map(|problem| problem.detail).collect() }
    }
}
