//! What a disk offers to components, and all of them together.
use crate::ids::DiskId;

/// One disk that carries components, usable or not.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Room {
    /// The disk.
    pub disk: DiskId,
    /// Its short name, for reasons.
    pub disk_name: String,
    /// Name of its host.
    pub host: String,
    /// Effective fault domain: the named one, else the host's name.
    pub fault_domain: String,
    /// Site of the host.
    pub site: Option<String>,
    /// Size.
    pub total_bytes: u64,
    /// Bytes that a new component could take now.
    pub free_bytes: u64,
    /// Bytes that thin components on it may yet grow by: only sorted by, never filtered.
    pub promised_bytes: u64,
    /// Components on it.
    pub components: u32,
    /// Components that it may carry.
    pub components_max: u32,
    /// Why it takes nothing new, in one sentence (`h3 is absent`); `None` when it does.
    pub unusable: Option<String>,
}

impl Room {
    /// Sort key: what is left when everything promised is taken; the freest has the largest.
    pub(super) fn freedom(&self) -> i128 {
        i128::from(self.free_bytes) - i128::from(self.promised_bytes)
    }
}

/// Every disk that carries components. Hosts without such a disk do not appear.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Topology {
    /// All of them, in any order.
    pub rooms: Vec<Room>,
}

impl Topology {
    /// Names of the fault domains with at least one usable disk.
    pub fn usable_domains(&self) -> std::collections::BTreeSet<&str> {
        let usable = self.rooms.iter().filter(|room| room.unusable.is_none());
        usable.map(|room| room.fault_domain.as_str()).collect()
    }
}
