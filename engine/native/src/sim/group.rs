//! One disk group on simulated disks: made small, opened, killed, and checked to the last extent.
use super::reference::{Outage, Violation};
use crate::cap::CapDisk;
use crate::cap::label::Label;
use crate::dg::{Dg, DgConfig, DgParts};
use crate::fmt::layout::REGIONS_OFFSET;
use crate::fmt::superblock::{CheckpointRoot, GroupLog, Region, RegionKind, Roles, Superblock};
use crate::io::sim::{CrashKind, Events, SimDisk};
use crate::io::{Disk, Env};
use model::ids::{ClusterId, DiskGroupId, DiskId, HostId};
use model::state::Media;
use model::units::{BLOCK_BYTES, DISK_BYTES_MIN};

const MIB: u64 = 1 << 20;

/// How small the groups of a world are drawn.
#[derive(Clone, Copy, Debug)]
pub struct Limits {
    /// Least and most bytes for extents on each disk, MiB.
    pub extents_mib: (u64, u64),
    /// A log or a disk may have lost records: the components say so, and it is no mistake.
    pub damage: bool,
    /// Every host has one capacity disk apart from its log; else half of them have one disk for both.
    pub apart: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self { extents_mib: (6, 11), damage: false, apart: false }
    }
}

/// What one group is made of.
pub struct Group {
    /// The group.
    pub id: DiskGroupId,
    /// The host it belongs to.
    pub host: HostId,
    /// The disk with the log, and its id.
    pub log: (DiskId, SimDisk),
    /// Capacity disks; a combined group has the log disk here.
    pub caps: Vec<(DiskId, SimDisk)>,
    log_bytes: u64,
    extent_bytes: u64,
    cluster: ClusterId,
    config: DgConfig,
    /// A log or a disk may have lost records.
    pub damage: bool,
    /// Running.
    pub dg: Option<Dg>,
    /// The capacity disks as it has them open.
    pub opened: Vec<Disk>,
}

fn broken(what: &str, error: &dyn std::error::Error) -> Violation {
    let mut text = format!("{what}: {error}");
    let mut source = error.source();
    while let Some(cause) = source {
        text = format!("{text}: {cause}");
        source = cause.source();
    }
    Violation(text)
}

impl Group {
    /// A group with `caps` capacity disks of `extent_bytes` (zero: combined, one disk), its limits drawn small.
    pub fn draw(
        env: &Env,
        events: &Events,
        cluster: ClusterId,
        host: HostId,
        caps: usize,
        limits: &Limits,
    ) -> Self {
        let log_bytes = (1 + env.below(3)) * MIB;
        let (least, most) = limits.extents_mib;
        let extent_bytes = (least + env.below(most - least + 1)) * MIB;
        let disk = |size_bytes| {
            // The smallest disk that a label allows; what is not written costs nothing.
            let size_bytes = DISK_BYTES_MIN.max(size_bytes);
            (DiskId::from_random(env.id_bytes()), SimDisk::new(size_bytes, env.next_u64(), events))
        };
        let edges = REGIONS_OFFSET + MIB;
        let log = disk(edges + log_bytes + if caps == 0 { extent_bytes } else { 0 });
        let members = (0..caps).map(|_| disk(edges + extent_bytes)).collect();
        Self {
            id: DiskGroupId::from_random(env.id_bytes()),
            host,
            caps: if caps == 0 { vec![log.clone()] } else { members },
            log,
            log_bytes,
            extent_bytes,
            cluster,
            config: DgConfig {
                writes_back: true,
                overlay_runs_max: 32 + env.below(2000) as usize,
                sweep_runs: 1 + env.below(64) as usize,
                destage_depth: 1 + env.below(16) as usize,
                checkpoint_seconds: 1 + env.below(4),
                batch_blocks_max: 4 + env.below(60) as usize,
            },
            damage: limits.damage,
            dg: None,
            opened: Vec::new(),
        }
    }

    /// Size of the log, blocks.
    pub fn log_blocks(&self) -> u64 {
        self.log_bytes / BLOCK_BYTES
    }

    /// Where the log lies on its disk, bytes.
    pub fn log_region(&self) -> std::ops::Range<u64> {
        REGIONS_OFFSET..REGIONS_OFFSET + self.log_bytes
    }

    /// Longest batch, blocks.
    pub fn batch_blocks(&self) -> u64 {
        self.config.batch_blocks_max as u64
    }

    /// Where it stands, for a report.
    pub fn describe(&self) -> String {
        let log = self.dg.as_ref().map(Dg::log_usage);
        let in_flight: Vec<usize> = self.disks().map(SimDisk::in_flight).collect();
        format!("log {log:?}, I/O under way {in_flight:?}, {:?}", self.config)
    }

    /// Whether one disk carries log and extents.
    pub fn is_combined(&self) -> bool {
        self.log.0 == self.caps[0].0
    }

    /// All disks, each once.
    pub fn disks(&self) -> impl Iterator<Item = &SimDisk> {
        let caps = self.caps.iter().filter(|(id, _)| *id != self.log.0);
        [&self.log].into_iter().chain(caps).map(|(_, disk)| disk)
    }

    fn superblock(&self, disk: DiskId, size_bytes: u64) -> Superblock {
        let is_log = disk == self.log.0;
        let has_extents = !is_log || self.is_combined();
        let mut regions = Vec::new();
        let mut offset_bytes = REGIONS_OFFSET;
        if is_log {
            regions.push(Region {
                kind: RegionKind::Log,
                group: self.id,
                offset_bytes,
                len_bytes: self.log_bytes,
            });
            offset_bytes += self.log_bytes;
        }
        if has_extents {
            let len_bytes = self.extent_bytes;
            regions.push(Region { kind: RegionKind::Extents, group: self.id, offset_bytes, len_bytes });
        }
        let members: Vec<DiskId> = self.caps.iter().map(|(id, _)| *id).collect();
        let groups: Vec<GroupLog> = vec![Dg::new_group(self.id, self.log.0, &members)];
        Superblock {
            generation: 0,
            incompatible: 0,
            read_only_compatible: 0,
            compatible: 0,
            cluster: self.cluster,
            disk,
            host: self.host,
            name: "simulated".to_owned(),
            size_bytes,
            physical_block_bytes: 4096,
            media: Media::Flash,
            roles: match (is_log, has_extents) {
                (true, true) => Roles::COMBINED,
                (true, false) => Roles::CACHE,
                _ => Roles::CAPACITY,
            },
            epoch: 0,
            clean: false,
            encryption: Default::default(),
            checkpoint: CheckpointRoot::default(),
            regions,
            groups,
        }
    }

    /// Makes the group on blank disks.
    pub async fn format(&self) -> Result<(), Violation> {
        let mut labels = Vec::new();
        for (id, medium) in self.caps.iter().chain((!self.is_combined()).then_some(&self.log)) {
            let disk = medium.open().await;
            let superblock = self.superblock(*id, disk.geometry().size_bytes);
            let has_extents = superblock.roles.contains(Roles::CAPACITY);
            let label =
                Label::format(disk, superblock).await.map_err(|error| broken("formatting", &error))?;
            if has_extents {
                CapDisk::format(&label).await.map_err(|error| broken("formatting extents", &error))?;
            }
            labels.push((*id, label));
        }
        let (_, log) = labels.iter().find(|(id, _)| *id == self.log.0).expect("the log disk is among them");
        Dg::format(log, self.id).await.map_err(|error| broken("formatting the log", &error))
    }

    /// Opens the disks and loads their labels, the log disk first.
    pub async fn load(&self) -> Result<Labels, Violation> {
        let load = async |medium: &SimDisk| {
            let disk: Disk = medium.open().await;
            Label::load(disk).await.map_err(|error| broken("loading a label", &error))
        };
        let log = load(&self.log.1).await?;
        let mut caps = Vec::new();
        for (id, medium) in &self.caps {
            caps.push(if *id == self.log.0 { log.clone() } else { load(medium).await? });
        }
        Ok(Labels { log, caps })
    }

    /// Opens the group in boot epoch `epoch`.
    pub async fn open(&mut self, labels: Labels, epoch: u32) -> Result<Dg, Violation> {
        self.opened = labels.caps.iter().map(|label| label.disk().clone()).collect();
        let parts = DgParts { group: self.id, log: labels.log, caps: labels.caps, epoch };
        let dg = Dg::open(parts, self.config).await.map_err(|error| broken("opening the group", &error))?;
        if !self.damage && dg.components().iter().any(|component| component.damaged) {
            return Err(Violation("records are missed although no disk lost any".to_owned()));
        }
        self.dg = Some(dg.clone());
        Ok(dg)
    }

    /// Everything of the group stops; the disks keep what survives.
    pub fn crash(&mut self, outage: Outage) {
        if let Some(dg) = self.dg.take() {
            dg.kill();
        }
        let kind = match outage {
            Outage::Kill => CrashKind::Kill,
            Outage::Power => CrashKind::Power,
        };
        self.disks().for_each(|disk| disk.crash(kind));
    }

    /// Stops the drained group and verifies every structure and byte on its disks.
    pub async fn verify(&mut self) -> Result<(), Violation> {
        if let Some(dg) = self.dg.take() {
            let log = dg.log_usage();
            if log.stalled {
                return Err(Violation(format!("stable data is not destaged: {log:?}")));
            }
            dg.kill();
        }
        self.disks().for_each(|disk| disk.crash(CrashKind::Kill));
        for label in self.load().await?.caps {
            let cap = CapDisk::open(label).await.map_err(|error| broken("opening extents", &error))?;
            let findings = cap.verify(true, |_, _| false).await;
            if let Some(finding) = findings.first() {
                return Err(Violation(format!("{} findings, the first: {finding:?}", findings.len())));
            }
        }
        Ok(())
    }
}

/// The labels of a group's disks.
pub struct Labels {
    /// Of the log disk.
    pub log: Label,
    /// Of the capacity disks.
    pub caps: Vec<Label>,
}

impl Labels {
    /// The highest boot epoch on these disks.
    pub fn epoch(&self) -> u32 {
        let caps = self.caps.iter().map(|label| label.superblock().epoch);
        caps.chain([self.log.superblock().epoch]).max().unwrap_or(0)
    }
}
