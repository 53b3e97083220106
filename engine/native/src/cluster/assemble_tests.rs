//! Each way in which disks can be incomplete, doubled, old or mixed.
use super::*;
use crate::fmt::LocalId;
use crate::fmt::config::ConfigHost;
use crate::fmt::superblock::Member;
use model::policy::Policy;
use model::state::{ClusterType, DiskRole, HostKind, HostRole, Media};
use model::units::Timestamp;

fn bytes(kind: u8, number: u8) -> [u8; 16] {
    let mut bytes = [kind; 16];
    bytes[15] = number;
    bytes
}

fn group_id(host: u8) -> DiskGroupId {
    DiskGroupId::from_random(bytes(0x60, host))
}

fn disk_id(host: u8, number: u8) -> DiskId {
    DiskId::from_random(bytes(host, number))
}

fn host_id(host: u8) -> HostId {
    HostId::from_random(bytes(0x40, host))
}

/// `hosts` hosts, each with a cache disk (0) and a capacity disk (1).
pub fn config(cluster: u8, hosts: u8, version: (u64, u64)) -> ClusterConfig {
    let disks = (1..=hosts).flat_map(|host| {
        [(0, DiskRole::Cache), (1, DiskRole::Capacity)].map(|(number, role)| ConfigDisk {
            id: disk_id(host, number),
            name: format!("h{host}-{number}"),
            host: host_id(host),
            role,
            disk_group: group_id(host),
            serves: Vec::new(),
            unknown: Default::default(),
        })
    });
    ClusterConfig {
        id: ClusterId::from_random(bytes(0x70, cluster)),
        name: "mill".into(),
        version,
        created_at: Timestamp(1),
        hosts: (1..=hosts)
            .map(|host| ConfigHost {
                id: host_id(host),
                name: format!("h{host}"),
                kind: HostKind::Lab,
                role: HostRole::Data,
                fault_domain: None,
                site: None,
                maintenance: false,
                unknown: Default::default(),
            })
            .collect(),
        disks: disks.collect(),
        policies: vec![Policy::built_in()],
        default_policy: "default".into(),
        repair_delay_seconds: 3600,
        licence_key: None,
        cluster_type: ClusterType::SingleSite,
        sites: Vec::new(),
        unknown: Default::default(),
    }
}

pub fn seen(config: &ClusterConfig, host: u8, number: u8) -> SeenDisk {
    let group = GroupLog {
        group: group_id(host),
        log_disk: disk_id(host, 0),
        tail_seq: 1,
        tail_offset_bytes: 0,
        flushed_seq: 0,
        next_local: LocalId(1),
        members: vec![Member {
            disk: disk_id(host, 1),
            epoch: 3,
            checkpoint_generation: 5,
            damaged_epoch: 0,
        }],
    };
    let checkpoint = crate::fmt::superblock::CheckpointRoot { generation: 5, ..Default::default() };
    let superblock = Superblock {
        generation: 1,
        incompatible: 0,
        read_only_compatible: 0,
        compatible: 0,
        cluster: config.id,
        disk: disk_id(host, number),
        host: host_id(host),
        name: format!("h{host}-{number}"),
        size_bytes: 1 << 30,
        physical_block_bytes: 4096,
        media: Media::Flash,
        roles: if number == 0 { Roles::CACHE } else { Roles::CAPACITY },
        epoch: 3,
        clean: true,
        encryption: Default::default(),
        checkpoint,
        regions: Vec::new(),
        groups: vec![group],
    };
    let slot =
        ConfigSlot { epoch: config.version.0 as u32, sequence: config.version.1, payload: config.to_bytes() };
    SeenDisk {
        path: format!("/disks/h{host}-{number}").into(),
        superblock,
        configs: vec![slot],
        writable: true,
    }
}

fn all(config: &ClusterConfig, hosts: u8) -> Vec<SeenDisk> {
    (1..=hosts).flat_map(|host| [seen(config, host, 0), seen(config, host, 1)]).collect()
}

#[test]
fn complete_cluster_has_no_findings() {
    let config = config(1, 3, (3, 9));
    let found = assemble(all(&config, 3));
    assert_eq!(found.len(), 1);
    assert_eq!(found[0].findings, []);
    assert!(found[0].confirmed() && found[0].refusal().is_none());
    assert_eq!(found[0].groups.len(), 3);
    assert!(
        found[0]
            .groups
            .iter()
            .all(|group| group.openable() && group.capacity.len() == 1 && group.missing.is_empty())
    );
    assert_eq!(found[0].epoch_max, 3);
}

#[test]
fn the_newest_configuration_wins_even_from_one_disk() {
    let old = config(1, 3, (3, 9));
    let mut new = config(1, 3, (4, 1));
    new.name = "renamed".into();
    let mut disks = all(&old, 3);
    disks[2] = seen(&new, 2, 0);
    assert_eq!(assemble(disks)[0].config.name, "renamed");
}

#[test]
fn a_host_that_was_renamed_while_a_disk_was_away_has_its_new_name() {
    let old = config(1, 3, (3, 9));
    let mut new = config(1, 3, (4, 1));
    new.hosts[0].name = "pond".into();
    let mut disks = all(&new, 3);
    disks[1] = seen(&old, 1, 1);
    let found = assemble(disks);
    assert_eq!(found[0].config.hosts[0].name, "pond");
    assert!(
        matches!(&found[0].findings[..], [Finding::Renamed { old, new, .. }] if old == "h1" && new == "pond"),
        "{:?}",
        found[0].findings
    );
    assert!(found[0].obstacles().is_empty());
}

#[test]
fn half_of_the_disks_are_not_enough() {
    let config = config(1, 2, (3, 9));
    let mut disks = all(&config, 2);
    disks.truncate(2);
    let found = assemble(disks);
    assert!(!found[0].confirmed());
    assert!(
        found[0].findings.iter().any(
            |finding| matches!(finding, Finding::LogMissing { disk, capacity: 0, .. } if disk == "h2-0")
        ),
        "a disk with a log is called so although nothing of its host is there: {:?}",
        found[0].findings
    );
    let refusal = found[0].refusal().expect("a sentence");
    assert!(refusal.contains("2 of 4 disks") && refusal.contains("h2-0"), "{refusal}");
}

#[test]
fn a_group_without_its_log_disk_cannot_be_opened() {
    let config = config(1, 3, (3, 9));
    let mut disks = all(&config, 3);
    disks.remove(0);
    let found = assemble(disks);
    let group = found[0].groups.iter().find(|group| group.id == group_id(1)).expect("the group");
    assert!(!group.openable());
    assert!(
        matches!(&found[0].findings[..], [Finding::LogMissing { disk, capacity: 1, .. }] if disk == "h1-0")
    );
}

#[test]
fn a_missing_capacity_disk_is_named() {
    let config = config(1, 3, (3, 9));
    let mut disks = all(&config, 3);
    disks.remove(3);
    let found = assemble(disks);
    assert!(matches!(&found[0].findings[..], [Finding::CapacityMissing { disk, .. }] if disk == "h2-1"));
    assert_eq!(found[0].missing.len(), 1);
}

#[test]
fn the_same_disk_twice_is_used_from_neither_path() {
    let config = config(1, 3, (3, 9));
    let mut disks = all(&config, 3);
    let mut copy = seen(&config, 3, 1);
    copy.path = "/copies/h3-1".into();
    disks.push(copy);
    let found = assemble(disks);
    assert!(!found[0].disks.contains_key(&disk_id(3, 1)));
    let said = |found: &Assembly| found.obstacles().join(" ");
    assert!(said(&found[0]).contains("both are equal: leave one of them out"), "{:?}", found[0].findings);
    let mut disks = all(&config, 3);
    let mut copy = seen(&config, 3, 1);
    copy.path = "/copies/h3-1".into();
    copy.superblock.generation = 0;
    disks.insert(0, copy);
    let found = assemble(disks);
    assert!(
        said(&found[0]).contains("/disks/h3-1 was used last: leave /copies/h3-1 out"),
        "{}",
        said(&found[0])
    );
}

#[test]
fn an_older_copy_of_a_disk_is_never_current() {
    let config = config(1, 3, (3, 9));
    for (epoch, generation, old) in [(3, 5, false), (3, 4, true), (2, 9, true), (4, 1, false)] {
        let mut disks = all(&config, 3);
        disks[1].superblock.epoch = epoch;
        disks[1].superblock.checkpoint.generation = generation;
        let found = assemble(disks);
        let group = found[0].groups.iter().find(|group| group.id == group_id(1)).expect("the group");
        assert_eq!(!group.old_copies.is_empty(), old, "epoch {epoch} checkpoint {generation}");
        assert_eq!(group.capacity, [disk_id(1, 1)], "it is still opened, as stale");
    }
}

#[test]
fn two_clusters_and_unlisted_disks_are_kept_apart() {
    let (one, two) = (config(1, 2, (3, 9)), config(2, 3, (1, 1)));
    let mut disks = all(&one, 2);
    disks.extend((3..=3).flat_map(|host| [seen(&two, host, 0), seen(&two, host, 1)]));
    disks.push(seen(&one, 9, 1));
    let found = assemble(disks);
    assert_eq!(found.len(), 2);
    assert!(
        found[0]
            .findings
            .iter()
            .any(|finding| matches!(finding, Finding::Unlisted { path } if path == "/disks/h9-1"))
    );
    assert!(!found[1].confirmed());
}

#[test]
fn encrypted_and_newer_disks_are_named() {
    let config = config(1, 3, (3, 9));
    let mut disks = all(&config, 3);
    disks[0].superblock.encryption[0].cipher = 1;
    disks[1].superblock.read_only_compatible = 1 << 40;
    disks[2].superblock.host = host_id(7);
    disks[3].writable = false;
    let found = assemble(disks);
    let findings = &found[0].findings;
    assert!(findings.iter().any(|finding| matches!(finding, Finding::Locked { .. })), "{findings:?}");
    assert!(
        findings
            .iter()
            .any(|finding| matches!(finding, Finding::ReadOnly { features, .. } if *features == 1 << 40)),
        "{findings:?}"
    );
    assert_eq!(found[0].obstacles().len(), 3, "{:?}", found[0].obstacles());
    assert!(found[0].refusal().is_some(), "it is never opened for writing");
    assert!(findings.iter().any(|finding| matches!(finding, Finding::WriteProtected { .. })), "{findings:?}");
    assert!(
        findings.iter().any(|finding| matches!(finding, Finding::Moved { disk } if disk == "h2-0")),
        "{findings:?}"
    );
}
