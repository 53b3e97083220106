//! The machines that are divided, lost and compared, and their plans.
use super::super::MIB;
use super::super::id;
use model::claims::{Division, Domain, Member, groups};
use model::ids::{ClusterId, DiskId, HostId};
use model::plan::{ClusterPlan, PlannedDisk, PlannedGroup, PlannedHost};
use model::policy::Policy;
use model::state::{ClusterType, HostKind, HostRole, Media};
use std::collections::BTreeSet;
use std::path::PathBuf;

/// A division by names: disks with their MiB and controller, domains with their cache and capacity disks.
pub struct Shape {
    pub name: &'static str,
    pub disks: &'static [(&'static str, u64, &'static str)],
    pub domains: &'static [(&'static str, &'static [&'static str], &'static [&'static str])],
}

pub const SHAPES: [Shape; 6] = [
    Shape {
        name: "three equal disks",
        disks: &[("a", 96, ""), ("b", 96, ""), ("c", 96, "")],
        domains: &[("a", &[], &["a"]), ("b", &[], &["b"]), ("c", &[], &["c"])],
    },
    Shape {
        name: "three rotating disks behind slices of one flash disk",
        disks: &[("n", 96, ""), ("a", 96, ""), ("b", 96, ""), ("c", 96, "")],
        domains: &[("a", &["n"], &["a"]), ("b", &["n"], &["b"]), ("c", &["n"], &["c"])],
    },
    Shape {
        name: "two controllers with two disks each",
        disks: &[("a", 96, "p"), ("b", 96, "p"), ("c", 96, "q"), ("d", 96, "q")],
        domains: &[("a", &[], &["a"]), ("b", &[], &["b"]), ("c", &[], &["c"]), ("d", &[], &["d"])],
    },
    Shape {
        name: "one flash disk and a file",
        disks: &[("ssd", 96, ""), ("file", 80, "")],
        domains: &[("ssd", &[], &["ssd"]), ("file", &[], &["file"])],
    },
    Shape {
        name: "five unequal disks",
        disks: &[("a", 64, ""), ("b", 80, ""), ("c", 96, ""), ("d", 128, ""), ("e", 192, "")],
        domains: &[
            ("a", &[], &["a"]),
            ("b", &[], &["b"]),
            ("c", &[], &["c"]),
            ("d", &[], &["d"]),
            ("e", &[], &["e"]),
        ],
    },
    Shape {
        name: "three domains with a cache disk and two data disks each, and one more",
        disks: &[
            ("n1", 64, ""),
            ("a", 80, ""),
            ("b", 80, ""),
            ("n2", 64, ""),
            ("c", 80, ""),
            ("d", 80, ""),
            ("n3", 64, ""),
            ("e", 80, ""),
            ("f", 80, ""),
            ("g", 96, ""),
        ],
        domains: &[
            ("x", &["n1"], &["a", "b"]),
            ("y", &["n2"], &["c", "d"]),
            ("z", &["n3"], &["e", "f"]),
            ("g", &[], &["g"]),
        ],
    },
];

fn disk_id(name: &str) -> DiskId {
    let number = name.bytes().fold(0, |sum, byte| sum * 256 + u32::from(byte));
    DiskId::from_random(id(3, number))
}

pub fn division(shape: &Shape) -> Division {
    let member = |(name, mib, controller): &(&str, u64, &str)| Member {
        id: disk_id(name),
        name: (*name).to_owned(),
        size_bytes: mib * MIB,
        media: Media::Flash,
        body: (*name).to_owned(),
        controller: (!controller.is_empty()).then(|| (*controller).to_owned()),
        enclosure: None,
    };
    let ids = |names: &[&str]| names.iter().map(|name| disk_id(name)).collect();
    let domains = shape.domains.iter().map(|(name, cache, capacity)| Domain {
        name: (*name).to_owned(),
        cache: ids(cache),
        capacity: ids(capacity),
    });
    Division {
        kind: HostKind::Disk,
        domains: domains.collect(),
        members: shape.disks.iter().map(member).collect(),
    }
}

fn path_of(member: &Member) -> PathBuf {
    PathBuf::from(format!("/simulated/{}", member.name))
}

pub fn policy(failures: u8) -> Policy {
    Policy { name: format!("ftt{failures}"), failures_to_tolerate: failures, ..Policy::built_in() }
}

/// The division as a plan: a cache disk that serves several domains has a host of its own.
pub fn plan_of(division: &Division, policies: &[Policy]) -> ClusterPlan {
    let shared: BTreeSet<DiskId> = division.shared_caches().iter().map(|(member, _)| member.id).collect();
    let home = |name: &str| {
        HostId::from_random(id(1, name.bytes().map(u32::from).sum::<u32>() * 7 + name.len() as u32))
    };
    let host = |name: &str| PlannedHost {
        id: home(name),
        name: name.to_owned(),
        kind: HostKind::Disk,
        role: HostRole::Data,
    };
    let disk = |wanted: DiskId| {
        let member = division.member(wanted).expect("known");
        PlannedDisk {
            id: member.id,
            name: member.name.clone(),
            path: path_of(member).display().to_string(),
            size_bytes: member.size_bytes,
            media: member.media,
            make_file: false,
            erase: false,
            review: None,
        }
    };
    let mut hosts: Vec<PlannedHost> = division.domains.iter().map(|domain| host(&domain.name)).collect();
    hosts.extend(
        shared.iter().map(|cache| host(&format!("log-{}", division.member(*cache).expect("known").name))),
    );
    let mut claims = Vec::new();
    for domain in &division.domains {
        for (cache, capacity) in groups(&domain.cache, &domain.capacity) {
            let apart = cache.filter(|cache| shared.contains(cache));
            claims.push(PlannedGroup {
                host: home(&domain.name),
                cache_host: apart
                    .map(|cache| home(&format!("log-{}", division.member(cache).expect("known").name))),
                cache: cache.map(disk),
                capacity: capacity.into_iter().map(disk).collect(),
            });
        }
    }
    let mut all = vec![Policy::built_in()];
    all.extend_from_slice(policies);
    ClusterPlan {
        id: ClusterId::from_random(id(9, 2)),
        name: "claims".into(),
        cluster_type: ClusterType::SingleSite,
        hosts,
        fault_domains: Vec::new(),
        sites: Vec::new(),
        claims,
        policies: all,
        default_policy: "default".into(),
        repair_delay_seconds: 3600,
        licence_key: None,
    }
}
