//! The one bar from raw to usable: named deductions that add up exactly to raw, and what is left for new data.
use crate::service::capacity::{self, Capacity};
use crate::web::format;
use crate::web::parts::{self, Chip, Segment, Tone};
use crate::web::view::{explain, words};
use model::arithmetic;
use model::capacity::water_fill;
use model::placement::Topology;
use model::policy::Policy;
use model::state::DiskState;
use model::units::BLOCK_BYTES;
use model::view::Snapshot;
use std::collections::BTreeMap;

/// Free raw bytes, by what can become of them under one policy. The parts add up to the free bytes.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Free {
    /// New data that still fits.
    pub data_bytes: u64,
    /// Copies or parity of it.
    pub redundancy_bytes: u64,
    /// In fault domains that have more than the others can match.
    pub uneven_bytes: u64,
    /// On disks that take nothing now.
    pub away_bytes: u64,
}

/// What the free bytes are good for when new volumes use `policy`.
pub fn free(snapshot: &Snapshot, policy: &Policy) -> Free {
    let topology = Topology::from_snapshot(snapshot);
    let mut domains: BTreeMap<&str, u64> = BTreeMap::new();
    let mut away_bytes = 0;
    for room in &topology.rooms {
        match room.unusable {
            Some(_) => away_bytes += room.free_bytes,
            None => *domains.entry(&room.fault_domain).or_default() += room.free_bytes,
        }
    }
    let capacities: Vec<u64> = domains.values().copied().collect();
    let usable: u64 = capacities.iter().sum();
    let (all, data) = arithmetic::legs(policy);
    let enough = capacities.len() as u64 >= u64::from(arithmetic::fault_domains_needed(policy));
    let level = if enough { water_fill(&capacities, all, data).level_bytes } else { 0 };
    let data_bytes = level * u64::from(data);
    let mut redundancy_bytes = level * u64::from(all - data);
    let mut uneven_bytes = usable - data_bytes - redundancy_bytes;
    if uneven_bytes < BLOCK_BYTES && level > 0 {
        // What the level leaves by rounding holds no block: it is not worth a name of its own.
        redundancy_bytes += std::mem::take(&mut uneven_bytes);
    }
    Free { data_bytes, redundancy_bytes, uneven_bytes, away_bytes }
}

/// The bar: what is written and what it needs, what cannot be used and why, and last what is left for new data.
pub fn segments(snapshot: &Snapshot, capacity: &Capacity, policy: &Policy) -> Vec<Segment> {
    let part =
        |kind: &str| capacity.breakdown.iter().find(|part| part.kind == kind).map_or(0, |part| part.bytes);
    let free = free(snapshot, policy);
    let needs = arithmetic::fault_domains_needed(policy) as usize;
    let has = Topology::from_snapshot(snapshot).usable_domains().len();
    let uneven = if has < needs {
        format!(
            "{} needs {}; {}",
            policy.name,
            format::plural(needs as u64, "fault domain"),
            format::plural_that(has as u64, "domain", "takes data now", "take data now")
        )
    } else {
        "fault domains are uneven: copies must lie in different ones".into()
    };
    let note = |text: &str| text.to_owned();
    let pieces = vec![
        ("ink-2", note("Written by clients"), note("counted once"), part("data")),
        ("ink", note("Its copies and parity"), note("as its policies say"), part("redundancy")),
        ("line", note("Structures"), note("maps and checksums"), part("metadata")),
        ("maint", note("Promised"), note("to volumes that reserve room"), part("reserved")),
        ("absent", note("On disks that take nothing now"), note("absent, failed or full"), free.away_bytes),
        ("none", note("Cannot be used"), uneven, free.uneven_bytes),
        ("accent-2", note("For copies of new data"), format!("under {}", policy.name), free.redundancy_bytes),
        ("accent", note("Free for new data"), format!("under {}", policy.name), free.data_bytes),
    ];
    parts::segments(pieces.into_iter().filter(|piece| piece.3 > 0).collect())
}

/// Usable bytes of one policy.
#[derive(Clone, Debug, Default)]
pub struct PolicyRow {
    /// Name.
    pub name: String,
    /// In words.
    pub words: String,
    /// Usable in the empty cluster.
    pub usable: String,
    /// Exact.
    pub exact: String,
    /// More data that fits now.
    pub more: String,
    /// Needs and has.
    pub domains: Chip,
    /// What it can never use, by fault domain.
    pub stranded: String,
}

/// One row a policy.
pub fn policies(snapshot: &Snapshot, capacity: &Capacity) -> Vec<PolicyRow> {
    let row = |policy: &Policy| {
        let usable = capacity.usable_by_policy.iter().find(|usable| usable.policy == policy.name)?;
        let (needs, has) = (usable.needs_fault_domains, usable.has_fault_domains);
        let stranded = usable.stranded_bytes.iter().filter(|(_, bytes)| **bytes > 0 && has >= needs);
        let stranded: Vec<String> =
            stranded.map(|(name, bytes)| format!("{} of {name}", format::bytes(*bytes))).collect();
        Some(PolicyRow {
            name: policy.name.clone(),
            words: words::policy(policy, explain::noun(snapshot)),
            usable: format::bytes(usable.usable_bytes),
            exact: format::exact(usable.usable_bytes),
            more: format::bytes(free(snapshot, policy).data_bytes),
            domains: Chip::new(
                if needs <= has { Tone::Healthy } else { Tone::Degraded },
                format!("{needs} of {has}"),
            ),
            stranded: stranded.join(", "),
        })
    };
    snapshot.policies.iter().filter_map(row).collect()
}

/// A disk with its bar.
#[derive(Clone, Debug, Default)]
pub struct DiskFill {
    /// Id.
    pub id: String,
    /// Name.
    pub name: String,
    /// Host.
    pub host: String,
    /// Pieces of the bar.
    pub segments: Vec<Segment>,
    /// The bar in words.
    pub spoken: String,
    /// Percent used.
    pub percent: u8,
    /// Free.
    pub free: String,
    /// State when it is not healthy.
    pub chip: Option<Chip>,
}

/// The capacity disks, fullest first.
pub fn disks(capacity: &Capacity) -> Vec<DiskFill> {
    let mut disks: Vec<_> = capacity.disks.iter().collect();
    disks.sort_by_key(|disk| {
        let promised = u128::from(disk.size_bytes.saturating_sub(disk.free_bytes()));
        (std::cmp::Reverse(promised * 1_000_000 / u128::from(disk.size_bytes.max(1))), disk.name.clone())
    });
    let fill = |disk: &&model::view::DiskView| DiskFill {
        id: disk.id.to_string(),
        name: disk.name.clone(),
        host: disk.host.clone(),
        segments: super::hardware::disk_segments(disk),
        spoken: format!("{} of {} used", format::bytes(disk.used_bytes), format::bytes(disk.size_bytes)),
        percent: format::percent(disk.used_bytes, disk.size_bytes),
        free: format::bytes(disk.free_bytes()),
        chip: (disk.state != DiskState::Healthy).then(|| words::disk(disk.state)),
    };
    disks.iter().map(fill).collect()
}

/// The host whose loss would make the most to rebuild.
pub fn largest_host(snapshot: &Snapshot) -> Option<String> {
    let used = |name: &str| -> u64 {
        let disks = snapshot.disks.iter().filter(|disk| disk.host == name);
        let carries = disks.filter(|disk| disk.role != model::state::DiskRole::Cache);
        carries.map(|disk| disk.used_bytes.saturating_sub(disk.metadata_bytes)).sum()
    };
    let connected = snapshot.hosts.iter().filter(|host| host.state == model::state::HostState::Connected);
    connected
        .max_by_key(|host| (used(&host.name), std::cmp::Reverse(host.name.clone())))
        .map(|host| host.name.clone())
}

/// The default policy, else the built-in one.
pub fn default_policy(snapshot: &Snapshot) -> Policy {
    let found = snapshot.policies.iter().find(|policy| policy.name == snapshot.cluster.default_policy);
    found.cloned().unwrap_or_else(Policy::built_in)
}

/// Capacity of a snapshot.
pub fn of(snapshot: &Snapshot) -> Capacity {
    capacity::of(snapshot)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::recorded::{GenerateSpec, generate};

    #[test]
    fn the_deductions_add_up_to_raw_exactly() {
        for seed in 0..40 {
            let hosts = 1 + u32::try_from(seed % 9).unwrap();
            let mut snapshot =
                generate(GenerateSpec { seed, hosts, disks_per_host: 3, objects: 20, faults: hosts / 4 });
            // Uneven on purpose.
            snapshot.disks[1].size_bytes += seed * 1_234_567 * 4096;
            let capacity = of(&snapshot);
            for failures in 0..=3 {
                let policy = Policy { failures_to_tolerate: failures, ..Policy::built_in() };
                let sum = |bytes: &[u64]| bytes.iter().sum::<u64>();
                let free = free(&snapshot, &policy);
                let parts = [free.data_bytes, free.redundancy_bytes, free.uneven_bytes, free.away_bytes];
                assert_eq!(sum(&parts), capacity.free_raw_bytes, "seed {seed}");
                let widths: f64 =
                    segments(&snapshot, &capacity, &policy).iter().map(|piece| piece.percent).sum();
                assert!((widths - 100.0).abs() < 0.1, "seed {seed}: {widths}");
            }
        }
    }

    #[test]
    fn one_large_host_leaves_room_that_nothing_can_use() {
        let mut snapshot =
            generate(GenerateSpec { seed: 1, hosts: 4, disks_per_host: 1, objects: 0, faults: 0 });
        let capacity_disks: Vec<usize> = (0..snapshot.disks.len())
            .filter(|at| snapshot.disks[*at].role != model::state::DiskRole::Cache)
            .collect();
        for (place, at) in capacity_disks.into_iter().enumerate() {
            let disk = &mut snapshot.disks[at];
            (disk.used_bytes, disk.metadata_bytes, disk.reserved_bytes) = (0, 0, 0);
            disk.size_bytes = if place == 3 { 60 } else { 20 } << 40;
        }
        let three_copies = Policy { failures_to_tolerate: 2, ..Policy::built_in() };
        // Too few domains for that promise with its votes: nothing of it can be used.
        assert_eq!(free(&snapshot, &three_copies).data_bytes, 0);
        let two = free(&snapshot, &Policy::built_in());
        assert_eq!((two.data_bytes, two.uneven_bytes), (60 << 40, 0));
    }
}
