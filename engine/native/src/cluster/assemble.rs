//! Which disks make which cluster: pure, from the labels that were read. Start, scan, import and check all decide with it.
//!
//! Rules: a disk is known by its superblock, never by its path. The newest configuration by (epoch, sequence) among the disks that are
//! there counts; it is *confirmed* when more than half of the disks that it lists are there, because a committed one was written to more
//! than half. A disk group needs its log disk. The same disk seen twice is a copy of itself: neither is used before a person
//! decides. A capacity disk whose group remembers a later checkpoint of it is an old copy: its components are stale, never current.
use crate::fmt::config::{ClusterConfig, ConfigDisk};
use crate::fmt::slot::ConfigSlot;
use crate::fmt::superblock::{GroupLog, Roles, Superblock};
use model::ids::{ClusterId, DiskGroupId, DiskId, HostId};
use model::state::DiskRole;
use std::collections::{BTreeMap, BTreeSet};
use std::path::PathBuf;

/// One disk as it was read.
#[derive(Clone, Debug)]
pub struct SeenDisk {
    /// Where.
    pub path: PathBuf,
    /// Its newest valid superblock.
    pub superblock: Superblock,
    /// Its valid configuration slots.
    pub configs: Vec<ConfigSlot>,
    /// Whether its medium takes writes.
    pub writable: bool,
}

/// A cluster found on disks.
#[derive(Clone, Debug)]
pub struct Assembly {
    /// Identity.
    pub cluster: ClusterId,
    /// The newest configuration that is there.
    pub config: ClusterConfig,
    /// How many of the disks that it lists are there.
    pub present: usize,
    /// Its disk groups, in order of id.
    pub groups: Vec<AssembledGroup>,
    /// Listed disks that are not there.
    pub missing: Vec<ConfigDisk>,
    /// What is odd about the disks.
    pub findings: Vec<Finding>,
    /// The highest boot epoch on any disk of it.
    pub epoch_max: u32,
    /// The disks of it, by id; a disk that was seen twice is not among them.
    pub disks: BTreeMap<DiskId, SeenDisk>,
}

/// One disk group and whether it can be opened.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AssembledGroup {
    /// Identity.
    pub id: DiskGroupId,
    /// The host that the configuration names for its log disk, else the superblock's hint.
    pub host: HostId,
    /// The disk that carries the log, when it is there.
    pub log_disk: Option<DiskId>,
    /// Capacity disks that are there, in order of the group's list.
    pub capacity: Vec<DiskId>,
    /// Capacity disks that are there but are old copies of themselves.
    pub old_copies: Vec<DiskId>,
    /// Disks of the group that are not there.
    pub missing: Vec<DiskId>,
}

impl AssembledGroup {
    /// Whether its log is there, so that it can be opened.
    pub fn openable(&self) -> bool {
        self.log_disk.is_some()
    }
}

/// Something odd that a person should know; `Display` is the sentence, with the remedy.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Finding {
    /// Two paths carry the same disk.
    #[error(
        "{newer} and {older} are the same disk ({name}), one a copy of the other, and neither is used; {}",
        if *equal { "both are equal: leave one of them out".to_owned() } else { format!("{newer} was used last: leave {older} out") }
    )]
    Twice {
        /// Name of the disk.
        name: String,
        /// The path that was written last.
        newer: String,
        /// The other path.
        older: String,
        /// Both were written equally often.
        equal: bool,
    },
    /// The log disk of a group is missing.
    #[error(
        "host {host}: {disk}, which holds the log of its disk group, is missing, so what lies beside it ({}) cannot be used and its copies are absent; add that disk",
        match capacity { 0 => "nothing of it is there".to_owned(), 1 => "1 capacity disk".into(), more => format!("{more} capacity disks") }
    )]
    LogMissing {
        /// Its host.
        host: String,
        /// Name or id of the disk.
        disk: String,
        /// Capacity disks that are there.
        capacity: usize,
    },
    /// A capacity disk of a group is missing.
    #[error(
        "host {host}: capacity disk {disk} is missing; the copies on it are absent until it is added, or are rebuilt elsewhere after the repair delay"
    )]
    CapacityMissing {
        /// Its host.
        host: String,
        /// Name or id of the disk.
        disk: String,
    },
    /// A disk is older than its group remembers.
    #[error(
        "{path} is an older copy of disk {disk}, as from a backup (checkpoint {found}, its disk group remembers {known}); its copies count as stale and are brought up to date from the others; use the newer disk if there is one"
    )]
    OldCopy {
        /// Where.
        path: String,
        /// Name of the disk.
        disk: String,
        /// Its checkpoint.
        found: u64,
        /// The checkpoint that the group remembers.
        known: u64,
    },
    /// A disk was moved to another host.
    #[error(
        "disk {disk} was last used in another host than the configuration names; it is accepted where it is, nothing has to be done"
    )]
    Moved {
        /// Name of the disk.
        disk: String,
    },
    /// A host was renamed while a disk was away.
    #[error(
        "host {old} is called {new} in the newest configuration, and {path} still has the old name; the new one counts, nothing has to be done"
    )]
    Renamed {
        /// Name on the disk that was away.
        old: String,
        /// Name now.
        new: String,
        /// The disk.
        path: String,
    },
    /// A disk belongs to the cluster, but the configuration does not list it.
    #[error(
        "{path} belongs to this cluster but is no longer listed in it; it is left alone, take it away or claim it again"
    )]
    Unlisted {
        /// Where.
        path: String,
    },
    /// A disk may be read only.
    #[error(
        "{path} was written by a newer version with features that this one may not write (feature bits {features:#x}); use that version"
    )]
    ReadOnly {
        /// Where.
        path: String,
        /// The bits.
        features: u64,
    },
    /// A disk is encrypted.
    #[error("{path} is encrypted, and this version cannot unlock it; use the version that wrote it")]
    Locked {
        /// Where.
        path: String,
    },
    /// The medium takes no writes.
    #[error(
        "{path} is read-only (a write-protect switch, a read-only mount, or missing rights); make it writable, copy it to a disk that is, or leave it out: its copies are absent then"
    )]
    WriteProtected {
        /// Where.
        path: String,
    },
}

impl Finding {
    /// Whether a person must act before the cluster may be opened for writing.
    pub fn forbids_writing(&self) -> bool {
        matches!(
            self,
            Self::Twice { .. } | Self::ReadOnly { .. } | Self::Locked { .. } | Self::WriteProtected { .. }
        )
    }
}

impl Assembly {
    /// Whether more than half of the listed disks are there, so that the configuration is the one in force.
    pub fn confirmed(&self) -> bool {
        self.present * 2 > self.config.disks.len()
    }

    /// One sentence that says why the cluster is not writable; `None` when it is.
    pub fn refusal(&self) -> Option<String> {
        let newer = self
            .findings
            .iter()
            .find(|finding| matches!(finding, Finding::ReadOnly { .. } | Finding::Locked { .. }));
        newer.map(ToString::to_string).or_else(|| self.too_few())
    }

    /// One sentence when half of the listed disks or more are missing.
    pub fn too_few(&self) -> Option<String> {
        let listed = self.config.disks.len();
        (!self.confirmed()).then(|| {
            let names: Vec<&str> = self.missing.iter().take(4).map(|disk| disk.name.as_str()).collect();
            let (present, and_more) = (self.present, if self.missing.len() > 4 { ", …" } else { "" });
            format!(
                "{present} of {listed} disks of cluster {} are there, more than half are needed; add {}{and_more}",
                self.config.name,
                names.join(", ")
            )
        })
    }

    /// Everything that a person must put right before it may be imported, one sentence each.
    pub fn obstacles(&self) -> Vec<String> {
        let forbidden = self.findings.iter().filter(|finding| finding.forbids_writing());
        forbidden.map(ToString::to_string).chain(self.too_few()).collect()
    }

    /// What a person should know, one sentence each; none of it is in the way.
    pub fn notes(&self) -> Vec<String> {
        self.findings.iter().filter(|finding| !finding.forbids_writing()).map(ToString::to_string).collect()
    }
}

/// Sorts the disks into clusters, in order of id. Disks without any readable configuration make no cluster of their own.
pub fn assemble(seen: Vec<SeenDisk>) -> Vec<Assembly> {
    let mut clusters: BTreeMap<ClusterId, Vec<SeenDisk>> = BTreeMap::new();
    for disk in seen {
        clusters.entry(disk.superblock.cluster).or_default().push(disk);
    }
    clusters.into_iter().filter_map(|(id, disks)| assemble_one(id, disks)).collect()
}

fn assemble_one(cluster: ClusterId, seen: Vec<SeenDisk>) -> Option<Assembly> {
    let config = newest_config(cluster, &seen)?;
    let epoch_max = seen.iter().map(|disk| disk.superblock.epoch).max().unwrap_or(0);
    let mut findings = Vec::new();
    find_renamed(&config, &seen, &mut findings);
    let disks = once_each(seen, &mut findings);
    let listed: BTreeMap<DiskId, &ConfigDisk> = config.disks.iter().map(|disk| (disk.id, disk)).collect();
    for (id, disk) in &disks {
        check_disk(disk, listed.get(id).copied(), &mut findings);
    }
    let missing: Vec<ConfigDisk> =
        config.disks.iter().filter(|disk| !disks.contains_key(&disk.id)).cloned().collect();
    let present = config.disks.len() - missing.len();
    let ids: BTreeSet<DiskGroupId> = config.disks.iter().map(|disk| disk.disk_group).collect();
    let groups = ids.into_iter().map(|id| group(id, &config, &disks, &mut findings)).collect();
    Some(Assembly { cluster, config, present, groups, missing, findings, epoch_max, disks })
}

fn newest_config(cluster: ClusterId, seen: &[SeenDisk]) -> Option<ClusterConfig> {
    seen.iter()
        .flat_map(|disk| &disk.configs)
        .filter_map(|slot| ClusterConfig::from_bytes(&slot.payload).ok())
        .filter(|config| config.id == cluster)
        .max_by_key(|config| config.version)
}

fn once_each(seen: Vec<SeenDisk>, findings: &mut Vec<Finding>) -> BTreeMap<DiskId, SeenDisk> {
    let mut by_id: BTreeMap<DiskId, Vec<SeenDisk>> = BTreeMap::new();
    for disk in seen {
        by_id.entry(disk.superblock.disk).or_default().push(disk);
    }
    let mut once = BTreeMap::new();
    for (id, mut copies) in by_id {
        copies.sort_by_key(|disk| std::cmp::Reverse(last_written(disk)));
        if let [newer, older, ..] = &copies[..] {
            findings.push(Finding::Twice {
                name: newer.superblock.name.clone(),
                newer: newer.path.display().to_string(),
                older: older.path.display().to_string(),
                equal: last_written(newer) == last_written(older),
            });
        } else if let Some(disk) = copies.pop() {
            once.insert(id, disk);
        }
    }
    once
}

/// Order of the copies of one disk.
fn last_written(disk: &SeenDisk) -> (u32, u64) {
    (disk.superblock.epoch, disk.superblock.generation)
}

/// Hosts that an older configuration on some disk calls otherwise, each once.
fn find_renamed(config: &ClusterConfig, seen: &[SeenDisk], findings: &mut Vec<Finding>) {
    let mut told = BTreeSet::new();
    for disk in seen {
        let older = disk.configs.iter().filter_map(|slot| ClusterConfig::from_bytes(&slot.payload).ok());
        for host in older.filter(|older| older.id == config.id).flat_map(|older| older.hosts) {
            let now = config.hosts.iter().find(|known| known.id == host.id && known.name != host.name);
            if let Some(now) = now.filter(|now| told.insert(now.id)) {
                let path = disk.path.display().to_string();
                findings.push(Finding::Renamed { old: host.name, new: now.name.clone(), path });
            }
        }
    }
}

fn check_disk(disk: &SeenDisk, listed: Option<&ConfigDisk>, findings: &mut Vec<Finding>) {
    let path = disk.path.display().to_string();
    match listed {
        None => findings.push(Finding::Unlisted { path: path.clone() }),
        Some(listed) if listed.host != disk.superblock.host => {
            findings.push(Finding::Moved { disk: listed.name.clone() })
        }
        Some(_) => {}
    }
    if let crate::fmt::superblock::Access::ReadOnly(features) = disk.superblock.access() {
        findings.push(Finding::ReadOnly { path: path.clone(), features });
    }
    if disk.superblock.encryption.iter().any(|slot| slot.cipher != 0) {
        findings.push(Finding::Locked { path: path.clone() });
    }
    if !disk.writable {
        findings.push(Finding::WriteProtected { path });
    }
}

fn group(
    id: DiskGroupId,
    config: &ClusterConfig,
    disks: &BTreeMap<DiskId, SeenDisk>,
    findings: &mut Vec<Finding>,
) -> AssembledGroup {
    let listed: Vec<&ConfigDisk> = config.disks.iter().filter(|disk| disk.disk_group == id).collect();
    let name_of = |disk: DiskId| {
        config
            .disks
            .iter()
            .find(|listed| listed.id == disk)
            .map_or_else(|| disk.to_string(), |listed| listed.name.clone())
    };
    // Any member knows which disk carries the log; the log disk itself knows most.
    let known = disks.values().filter_map(|disk| disk.superblock.group(id).map(|group| (disk, group)));
    let cache = listed.iter().find(|disk| disk.role == DiskRole::Cache).map(|disk| disk.id);
    let log_disk = known.clone().map(|(_, group)| group.log_disk).next().or(cache);
    let log_seen = log_disk.and_then(|log| disks.get(&log));
    let memory: Option<&GroupLog> = log_seen.and_then(|disk| disk.superblock.group(id));
    let carries = |disk: &SeenDisk| {
        disk.superblock.roles.contains(Roles::CAPACITY) || disk.superblock.roles.contains(Roles::WITNESS)
    };
    let mut capacity: Vec<DiskId> =
        known.filter(|(disk, _)| carries(disk)).map(|(disk, _)| disk.superblock.disk).collect();
    capacity.sort_by_key(|disk| listed.iter().position(|listed| listed.id == *disk));
    let old_copies: Vec<DiskId> =
        capacity.iter().copied().filter(|disk| is_old(&disks[disk], memory, findings)).collect();
    let mut missing: BTreeSet<DiskId> =
        listed.iter().map(|disk| disk.id).filter(|disk| !disks.contains_key(disk)).collect();
    if let Some(memory) = memory {
        missing
            .extend(memory.members.iter().map(|member| member.disk).filter(|disk| !disks.contains_key(disk)));
    }
    let host_of = log_disk.or(capacity.first().copied());
    let host = listed.iter().find(|disk| Some(disk.id) == host_of).or(listed.first()).map(|disk| disk.host);
    let host_name = config
        .hosts
        .iter()
        .find(|known| Some(known.id) == host)
        .map_or_else(|| "unknown".to_owned(), |known| known.name.clone());
    if let Some(log) = log_disk.filter(|_| log_seen.is_none()) {
        let (host, capacity) = (host_name.clone(), capacity.len());
        findings.push(Finding::LogMissing { host, disk: name_of(log), capacity });
        missing.insert(log);
    }
    for disk in missing.iter().filter(|disk| Some(**disk) != log_disk) {
        findings.push(Finding::CapacityMissing { host: host_name.clone(), disk: name_of(*disk) });
    }
    AssembledGroup {
        id,
        host: host.unwrap_or(HostId(uuid::Uuid::nil())),
        log_disk: log_disk.filter(|_| log_seen.is_some()),
        capacity,
        old_copies,
        missing: missing.into_iter().collect(),
    }
}

fn is_old(disk: &SeenDisk, memory: Option<&GroupLog>, findings: &mut Vec<Finding>) -> bool {
    let superblock = &disk.superblock;
    let Some(known) =
        memory.and_then(|memory| memory.members.iter().find(|member| member.disk == superblock.disk))
    else {
        return false;
    };
    let found = superblock.checkpoint.generation;
    let old = (superblock.epoch, found) < (known.epoch, known.checkpoint_generation);
    if old {
        let path = disk.path.display().to_string();
        findings.push(Finding::OldCopy {
            path,
            disk: superblock.name.clone(),
            found,
            known: known.checkpoint_generation,
        });
    }
    old
}

#[cfg(test)]
#[path = "assemble_tests.rs"]
pub(super) mod tests;
