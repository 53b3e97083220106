//! Placement: where the components of an object lie. Pure: named filters, then a sort, and a reason for every refused host.
use serde::{Deserialize, Serialize};

/// Why something cannot be placed: the numbers, the reason per host, and the nearest thing that would work.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize, thiserror::Error)]
#[error("{summary}")]
pub struct Refusal {
    /// One sentence with the numbers, e.g. `needs 3 fault domains, 2 available`.
    pub summary: String,
    /// Fault domains needed.
    pub needs_fault_domains: u32,
    /// Fault domains that count.
    pub has_fault_domains: u32,
    /// Reason per refused host or disk: (name, one sentence).
    pub reasons: Vec<(String, String)>,
    /// What would work, in words.
    pub nearest: Vec<String>,
}
