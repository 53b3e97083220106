//! Usable capacity of unequal fault domains, and which fault domains there really are.
//!
//! Water-filling: N components of every stripe of data lie in different domains, so no domain can hold more than the
//! level s, the largest with Σ min(c_i, s) >= N·s. Usable is d·s, d of the N carrying data (a mirror: 1 of n+1).
//! What a domain has above s can never be used under that policy.
use crate::arithmetic::{fault_domains_needed, legs};
use crate::placement::Topology;
use crate::policy::Policy;
use crate::view::FaultDomainView;
use serde::{Deserialize, Serialize};
use std::collections::BTreeMap;

/// What could be stored if everything used one policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Usable {
    /// Bytes of data.
    pub usable_bytes: u64,
    /// Most raw bytes that one domain can contribute.
    pub level_bytes: u64,
    /// Raw bytes of each domain that this policy can never use, in the order given.
    pub stranded_bytes: Vec<u64>,
}

/// Usable bytes of domains with these raw capacities, for rows of `all` components of which `data` carry data.
pub fn water_fill(capacities_bytes: &[u64], all: u32, data: u32) -> Usable {
    let fits = |level: u64| {
        let sum: u128 = capacities_bytes.iter().map(|capacity| u128::from(*capacity.min(&level))).sum();
        sum >= u128::from(all) * u128::from(level)
    };
    let sum: u128 = capacities_bytes.iter().map(|capacity| u128::from(*capacity)).sum();
    let (mut low, mut high) = (0, u64::try_from(sum / u128::from(all.max(1))).unwrap_or(u64::MAX));
    while low < high {
        let middle = low + (high - low).div_ceil(2);
        if fits(middle) { low = middle } else { high = middle - 1 }
    }
    Usable {
        usable_bytes: low.saturating_mul(u64::from(data)),
        level_bytes: low,
        stranded_bytes: capacities_bytes.iter().map(|capacity| capacity.saturating_sub(low)).collect(),
    }
}

/// Usable capacity of a cluster under one policy.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct UsableByPolicy {
    /// Name of the policy.
    pub policy: String,
    /// Bytes of data that fit when everything uses it; 0 when there are too few fault domains.
    pub usable_bytes: u64,
    /// Fault domains that it needs.
    pub needs_fault_domains: u32,
    /// Fault domains that count.
    pub has_fault_domains: u32,
    /// Raw bytes per fault domain that it can never use.
    pub stranded_bytes: BTreeMap<String, u64>,
}

/// Usable bytes of the whole (empty) cluster if everything used `policy`. Disks that take nothing do not count.
pub fn usable_by_policy(topology: &Topology, policy: &Policy) -> UsableByPolicy {
    let mut domains: BTreeMap<&str, u64> = BTreeMap::new();
    for room in topology.rooms.iter().filter(|room| room.unusable.is_none()) {
        *domains.entry(&room.fault_domain).or_default() += room.total_bytes;
    }
    let needs = fault_domains_needed(policy);
    let has = u32::try_from(domains.len()).unwrap_or(u32::MAX);
    let capacities: Vec<u64> = domains.values().copied().collect();
    let (all, data) = legs(policy);
    let mut filled = water_fill(&capacities, all, data);
    if has < needs {
        filled = Usable { usable_bytes: 0, level_bytes: 0, stranded_bytes: capacities };
    }
    UsableByPolicy {
        policy: policy.name.clone(),
        usable_bytes: filled.usable_bytes,
        needs_fault_domains: needs,
        has_fault_domains: has,
        stranded_bytes: domains.keys().map(|name| (*name).to_owned()).zip(filled.stranded_bytes).collect(),
    }
}

/// Which fault domains there really are.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct EffectiveDomains {
    /// Effective domain of each host: the named one, else its own name.
    pub of_host: BTreeMap<String, String>,
    /// Domains with at least one usable host, by name. Their number is what policies are compared with.
    pub domains: Vec<String>,
    /// One sentence each: hosts in no domain, empty domains, names that differ only in case or blanks.
    pub warnings: Vec<String>,
}

/// Effective fault domains of `hosts` (name, usable): a host in no named domain counts as one of its own, an empty domain
/// counts nothing, and names that differ only in case or blanks are one domain. Warnings only when domains are in use.
pub fn effective_domains(hosts: &[(&str, bool)], named: &[FaultDomainView]) -> EffectiveDomains {
    let mut effective = EffectiveDomains::default();
    let mut first_spelling: BTreeMap<String, &str> = BTreeMap::new();
    for domain in named {
        let spelling = *first_spelling.entry(folded(&domain.name)).or_insert(&domain.name);
        if spelling != domain.name {
            let text = format!(
                "fault domains {spelling:?} and {:?} differ only in case or blanks: they count as one",
                domain.name
            );
            effective.warnings.push(text);
        }
        let known: Vec<_> =
            domain.hosts.iter().filter(|name| hosts.iter().any(|host| host.0 == **name)).collect();
        if known.is_empty() {
            effective.warnings.push(format!("fault domain {} has no host and counts 0", domain.name));
        }
        for host in known {
            effective.of_host.entry(host.clone()).or_insert_with(|| spelling.to_owned());
        }
    }
    for (host, _) in hosts {
        if effective.of_host.contains_key(*host) {
            continue;
        }
        let own = first_spelling.get(&folded(host)).copied().unwrap_or(host);
        effective.of_host.insert((*host).to_owned(), own.to_owned());
        if !named.is_empty() {
            let text = format!("host {host} is in no fault domain and counts as one of its own");
            effective.warnings.push(text);
        }
    }
    let usable = hosts.iter().filter(|host| host.1).filter_map(|host| effective.of_host.get(host.0));
    let domains: std::collections::BTreeSet<String> = usable.cloned().collect();
    effective.domains = domains.into_iter().collect();
    effective
}

/// A name without case and blanks.
fn folded(name: &str) -> String {
    name.split_whitespace().collect::<String>().to_lowercase()
}

#[cfg(test)]
#[path = "capacity_tests.rs"]
mod tests;
