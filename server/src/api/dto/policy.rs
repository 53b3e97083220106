//! A policy, as it is written and read.
use model::arithmetic;
use model::policy::{FaultToleranceMethod, Policy, SiteTolerance};
use serde::{Deserialize, Serialize};

/// A policy, as it is written and read.
#[derive(Clone, Serialize, Deserialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
#[serde(deny_unknown_fields)]
pub struct PolicyBody {
    /// Name; the one in the path when it is left out.
    #[serde(default)]
    pub name: String,
    /// Failures of fault domains, 0 to 3.
    pub failures_to_tolerate: u8,
    /// `raid1`, `raid5`, `raid6`.
    #[cfg_attr(test, schema(value_type = String))]
    pub fault_tolerance_method: FaultToleranceMethod,
    /// RAID-5: 3 or 2; RAID-6: 4.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub data_legs: Option<u8>,
    /// 1 to 12.
    #[serde(default = "one")]
    pub stripe_width: u8,
    /// 0 to 100.
    #[serde(default)]
    pub object_space_reservation_percent: u8,
    /// Normalised I/Os a second; null is none.
    #[serde(default)]
    pub iops_limit: Option<u32>,
    /// Whether reads verify.
    #[serde(default = "yes")]
    pub checksum: bool,
    /// Whether a volume may be made with less redundancy.
    #[serde(default)]
    pub force_provisioning: bool,
    /// `none`, `mirroring`, `preferred`, `secondary`.
    #[serde(default)]
    #[cfg_attr(test, schema(value_type = String))]
    pub site_tolerance: SiteTolerance,
    /// The version that an edit is based on; 0 or left out takes the present one.
    #[serde(default)]
    pub version: u64,
}

fn one() -> u8 {
    1
}

fn yes() -> bool {
    true
}

impl From<PolicyBody> for Policy {
    fn from(body: PolicyBody) -> Self {
        Self {
            name: body.name,
            failures_to_tolerate: body.failures_to_tolerate,
            fault_tolerance_method: body.fault_tolerance_method,
            data_legs: body.data_legs,
            stripe_width: body.stripe_width,
            object_space_reservation_percent: body.object_space_reservation_percent,
            iops_limit: body.iops_limit,
            checksum: body.checksum,
            force_provisioning: body.force_provisioning,
            site_tolerance: body.site_tolerance,
            version: body.version,
        }
    }
}

/// A policy with what it costs.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct PolicyItem {
    /// The policy.
    #[serde(flatten)]
    pub policy: PolicyBody,
    /// Fault domains that it needs.
    pub needs_fault_domains: u32,
    /// Raw bytes for each byte of data.
    pub capacity_factor: f64,
}

impl From<Policy> for PolicyItem {
    fn from(policy: Policy) -> Self {
        let (needs_fault_domains, capacity_factor) =
            (arithmetic::fault_domains_needed(&policy), arithmetic::capacity_factor(&policy));
        let policy = PolicyBody {
            name: policy.name,
            failures_to_tolerate: policy.failures_to_tolerate,
            fault_tolerance_method: policy.fault_tolerance_method,
            data_legs: policy.data_legs,
            stripe_width: policy.stripe_width,
            object_space_reservation_percent: policy.object_space_reservation_percent,
            iops_limit: policy.iops_limit,
            checksum: policy.checksum,
            force_provisioning: policy.force_provisioning,
            site_tolerance: policy.site_tolerance,
            version: policy.version,
        };
        Self { policy, needs_fault_domains, capacity_factor }
    }
}
