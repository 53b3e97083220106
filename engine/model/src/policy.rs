//! The storage policy: what a person promises a volume. The arithmetic on it is in `arithmetic`.
use serde::{Deserialize, Serialize};

/// How copies or parity are made.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum FaultToleranceMethod {
    /// Whole copies.
    Raid1,
    /// One parity leg.
    Raid5,
    /// Two parity legs.
    Raid6,
}

/// What the policy asks of sites; anything but `None` needs a stretched cluster.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum SiteTolerance {
    /// Sites are not looked at.
    #[default]
    None,
    /// One full copy in each site.
    Mirroring,
    /// Kept in the preferred site only.
    Preferred,
    /// Kept in the secondary site only.
    Secondary,
}

/// A storage policy in full. Names are unique in a cluster; `version` rises by one with every edit.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Policy {
    /// Name, `[A-Za-z0-9][A-Za-z0-9._-]{0,79}`.
    pub name: String,
    /// Failures of fault domains to tolerate, 0..=3.
    pub failures_to_tolerate: u8,
    /// Mirror or parity.
    pub fault_tolerance_method: FaultToleranceMethod,
    /// Data legs of an erasure group: RAID-5 3 (default) or 2, RAID-6 4. `None` for mirrors.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_legs: Option<u8>,
    /// Disks that one copy is spread over, 1..=12.
    pub stripe_width: u8,
    /// Share of the volume's size that is reserved at creation, 0..=100.
    pub object_space_reservation_percent: u8,
    /// Limit in normalised I/Os (32 KiB) a second; `None` is unlimited.
    pub iops_limit: Option<u32>,
    /// Whether data carries checksums that reads verify.
    pub checksum: bool,
    /// Whether a volume may be made with less redundancy than asked when the cluster lacks hosts now.
    pub force_provisioning: bool,
    /// What is asked of sites.
    #[serde(default)]
    pub site_tolerance: SiteTolerance,
    /// Rises by one with every edit; 1 at creation.
    pub version: u64,
}

impl Policy {
    /// The built-in policy `default`: one failure, mirrored, stripe width 1.
    pub fn built_in() -> Self {
        Self {
            name: "default".into(),
            failures_to_tolerate: 1,
            fault_tolerance_method: FaultToleranceMethod::Raid1,
            data_legs: None,
            stripe_width: 1,
            object_space_reservation_percent: 0,
            iops_limit: None,
            checksum: true,
            force_provisioning: false,
            site_tolerance: SiteTolerance::None,
            version: 1,
        }
    }
}
