//! The cluster configuration: what every disk knows of the whole.
//!
//! One sealed CBOR map (see [`super::cbor`]) stands in two slots on every disk. Keys, all of them:
//!
//! ```text
//! config  0 cluster · 1 name · 2 (epoch, sequence) · 3 created · 4 hosts · 5 disks · 6 policies · 7 default policy
//!         8 repair delay, seconds · 9 licence key · 10 type · 11 sites
//! host    0 id · 1 name · 2 kind · 3 role · 4 fault domain · 5 site · 6 maintenance
//! disk    0 id · 1 name · 2 host · 3 role · 4 disk group · 5 more disk groups (slices of a cache disk)
//! ```
//!
//! Invariants: configurations are ordered by (epoch, sequence); one is in force once more than half of the disks that it lists
//! carry it; unknown keys survive a rewrite; names of volumes are not here, they come from descriptors.
use super::cbor::{self, Cbor, CborError, MapReader, MapWriter, Unknown, numbered};
use model::ids::{ClusterId, DiskGroupId, DiskId, HostId};
use model::policy::Policy;
use model::state::{ClusterType, DiskRole, HostKind, HostRole};
use model::units::Timestamp;

numbered!(ClusterType, "cluster type", SingleSite = 1, TwoNode = 2, Stretched = 3, Compute = 4);
numbered!(HostKind, "host kind", Machine = 1, Enclosure = 2, Disk = 3, Lab = 4, Ceph = 5);
numbered!(HostRole, "host role", Data = 1, Witness = 2);
numbered!(DiskRole, "disk role", None = 0, Cache = 1, Capacity = 2, Combined = 3);

/// The configuration of one cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ClusterConfig {
    /// Identity.
    pub id: ClusterId,
    /// Name.
    pub name: String,
    /// Order: (boot epoch, sequence).
    pub version: (u64, u64),
    /// When it was made.
    pub created_at: Timestamp,
    /// Hosts.
    pub hosts: Vec<ConfigHost>,
    /// Disks claimed; more than half of them must carry a configuration before it counts.
    pub disks: Vec<ConfigDisk>,
    /// Policies, by name.
    pub policies: Vec<Policy>,
    /// Name of the default policy.
    pub default_policy: String,
    /// How long an absent component is waited for.
    pub repair_delay_seconds: u32,
    /// The signed licence key, if one was entered.
    pub licence_key: Option<String>,
    /// Kind of cluster.
    pub cluster_type: ClusterType,
    /// Names of sites, the preferred one first; empty in a single site.
    pub sites: Vec<String>,
    /// Keys of a later version.
    pub unknown: Unknown,
}

/// A host of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigHost {
    /// Identity.
    pub id: HostId,
    /// Name.
    pub name: String,
    /// Kind.
    pub kind: HostKind,
    /// Data or witness.
    pub role: HostRole,
    /// Its named fault domain; `None` means that it is one of its own.
    pub fault_domain: Option<String>,
    /// Its site.
    pub site: Option<String>,
    /// Whether it is in maintenance.
    pub maintenance: bool,
    /// Keys of a later version.
    pub unknown: Unknown,
}

/// A disk of the cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConfigDisk {
    /// Identity, as in its superblock.
    pub id: DiskId,
    /// Name, unique on its host.
    pub name: String,
    /// Host that it was last seen on.
    pub host: HostId,
    /// What it does.
    pub role: DiskRole,
    /// Its disk group.
    pub disk_group: DiskGroupId,
    /// More disk groups whose logs lie on it, in slices.
    pub serves: Vec<DiskGroupId>,
    /// Keys of a later version.
    pub unknown: Unknown,
}

impl ConfigDisk {
    /// Every disk group that lies on it, or whose log does.
    pub fn groups(&self) -> impl Iterator<Item = DiskGroupId> {
        std::iter::once(self.disk_group).chain(self.serves.iter().copied())
    }
}

impl ClusterConfig {
    /// The bytes that every disk carries.
    pub fn to_bytes(&self) -> Vec<u8> {
        cbor::seal(self)
    }

    /// Reads the bytes of a disk; an error says what is wrong with them.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CborError> {
        cbor::open(bytes)
    }
}

impl Cbor for ClusterConfig {
    fn write(&self, out: &mut Vec<u8>) {
        let mut map = MapWriter::new(&self.unknown);
        map.put(0, &self.id).put(1, &self.name).put(2, &self.version).put(3, &self.created_at);
        map.put(4, &self.hosts).put(5, &self.disks).put(6, &self.policies).put(7, &self.default_policy);
        map.put(8, &self.repair_delay_seconds).put_some(9, self.licence_key.as_ref());
        map.put(10, &self.cluster_type).put(11, &self.sites).finish(out);
    }

    fn read(bytes: &[u8]) -> Result<Self, CborError> {
        let mut map = MapReader::new(bytes)?;
        Ok(Self {
            id: map.take(0)?,
            name: map.take(1)?,
            version: map.take(2)?,
            created_at: map.take(3)?,
            hosts: map.take(4)?,
            disks: map.take(5)?,
            policies: map.take(6)?,
            default_policy: map.take(7)?,
            repair_delay_seconds: map.take(8)?,
            licence_key: map.take_some(9)?,
            cluster_type: map.take(10)?,
            sites: map.take(11)?,
            unknown: map.unknown(),
        })
    }
}

impl Cbor for ConfigHost {
    fn write(&self, out: &mut Vec<u8>) {
        let mut map = MapWriter::new(&self.unknown);
        map.put(0, &self.id).put(1, &self.name).put(2, &self.kind).put(3, &self.role);
        map.put_some(4, self.fault_domain.as_ref()).put_some(5, self.site.as_ref());
        map.put(6, &self.maintenance).finish(out);
    }

    fn read(bytes: &[u8]) -> Result<Self, CborError> {
        let mut map = MapReader::new(bytes)?;
        Ok(Self {
            id: map.take(0)?,
            name: map.take(1)?,
            kind: map.take(2)?,
            role: map.take(3)?,
            fault_domain: map.take_some(4)?,
            site: map.take_some(5)?,
            maintenance: map.take(6)?,
            unknown: map.unknown(),
        })
    }
}

impl Cbor for ConfigDisk {
    fn write(&self, out: &mut Vec<u8>) {
        let mut map = MapWriter::new(&self.unknown);
        map.put(0, &self.id).put(1, &self.name).put(2, &self.host).put(3, &self.role);
        let serves = (!self.serves.is_empty()).then_some(&self.serves);
        map.put(4, &self.disk_group).put_some(5, serves).finish(out);
    }

    fn read(bytes: &[u8]) -> Result<Self, CborError> {
        let mut map = MapReader::new(bytes)?;
        Ok(Self {
            id: map.take(0)?,
            name: map.take(1)?,
            host: map.take(2)?,
            role: map.take(3)?,
            disk_group: map.take(4)?,
            serves: map.take_some(5)?.unwrap_or_default(),
            unknown: map.unknown(),
        })
    }
}
