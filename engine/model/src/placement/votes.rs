//! Votes: more than half of them must be reachable, so they decide which side of a failure goes on.
//!
//! Every fault domain of an object has the same number of votes, and one component one more if the total is even.
//! With D domains, n of which fail, (D-n)·V votes of D·V (+1) are left: more than half exactly when D >= 2n+1.
use std::collections::BTreeMap;

/// Fault domains that must hold a component, witnesses included, for a majority after `failures` of them.
pub const fn domains_for_majority(failures: u8) -> usize {
    2 * failures as usize + 1
}

/// Votes of the components of one object, given the fault domain of each, in the same order.
///
/// Each gets at least one, each domain the same total, and the total is odd (the first component of the first domain
/// gets one more when it would be even). An empty list gives an empty list.
pub fn votes<S: AsRef<str>>(domains: &[S]) -> Vec<u32> {
    let mut of_domain: BTreeMap<&str, Vec<usize>> = BTreeMap::new();
    for (index, domain) in domains.iter().enumerate() {
        of_domain.entry(domain.as_ref()).or_default().push(index);
    }
    let most = of_domain.values().map(Vec::len).max().unwrap_or(0);
    let mut votes = vec![0u32; domains.len()];
    for members in of_domain.values() {
        for turn in 0..most {
            votes[members[turn % members.len()]] += 1;
        }
    }
    if let Some(first) = votes.first_mut()
        && (of_domain.len() * most).is_multiple_of(2)
    {
        *first += 1;
    }
    votes
}
