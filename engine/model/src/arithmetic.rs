//! Arithmetic of policies: which values are allowed, what a policy needs and costs, and what an edit rewrites.
//!
//! Invariant: nothing here looks at a cluster; the same policy always gives the same answer.
use crate::placement::Layout;
use crate::policy::{FaultToleranceMethod, Policy, SiteTolerance};
use crate::units::{BLOCK_BYTES, VOLUME_BYTES_MAX, VOLUME_BYTES_MIN};
use serde::{Deserialize, Serialize};

/// Longest name, bytes. Source: the longest policy name of vSAN.
pub const NAME_BYTES_MAX: usize = 80;
/// Most columns of a stripe. Source: vSAN.
pub const STRIPE_WIDTH_MAX: u8 = 12;
/// Most failures that a mirror survives. Source: vSAN.
pub const FAILURES_MAX: u8 = 3;

/// A value that is not allowed: the field as the API names it, and one sentence.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FieldError {
    /// Name of the field.
    pub field: String,
    /// One sentence that says what is allowed.
    pub detail: String,
}

impl FieldError {
    fn new(field: &str, detail: impl Into<String>) -> Self {
        Self { field: field.into(), detail: detail.into() }
    }
}

/// Why `name` cannot name a host, policy, fault domain or volume; `None` when it can.
pub fn name_problem(name: &str) -> Option<String> {
    let bytes = name.as_bytes();
    let allowed = |byte: &u8| byte.is_ascii_alphanumeric() || b"._-".contains(byte);
    if bytes.is_empty() {
        return Some("a name is needed".into());
    }
    if bytes.len() > NAME_BYTES_MAX {
        return Some(format!("at most {NAME_BYTES_MAX} characters, this has {}", name.chars().count()));
    }
    if !bytes[0].is_ascii_alphanumeric() {
        return Some("must begin with a letter or digit (A-Z a-z 0-9)".into());
    }
    if !bytes.iter().all(allowed) {
        return Some("only letters, digits, dot, underscore and hyphen (A-Z a-z 0-9 . _ -)".into());
    }
    None
}

/// Why a volume cannot have this size; `None` when it can.
pub fn size_problem(size_bytes: u64) -> Option<String> {
    if !(VOLUME_BYTES_MIN..=VOLUME_BYTES_MAX).contains(&size_bytes) {
        return Some(format!(
            "from 1 MiB ({VOLUME_BYTES_MIN}) to 62 TiB ({VOLUME_BYTES_MAX}) bytes, this is {size_bytes}"
        ));
    }
    if !size_bytes.is_multiple_of(BLOCK_BYTES) {
        return Some(format!("a multiple of {BLOCK_BYTES} bytes, this is {size_bytes}"));
    }
    None
}

/// Everything that is wrong with a policy, all fields at once. Empty when it is valid.
pub fn policy_problems(policy: &Policy) -> Vec<FieldError> {
    use FaultToleranceMethod::{Raid1, Raid5, Raid6};
    let mut problems = Vec::new();
    if let Some(detail) = name_problem(&policy.name) {
        problems.push(FieldError::new("name", detail));
    }
    let failures = policy.failures_to_tolerate;
    let wrong_failures = match policy.fault_tolerance_method {
        Raid1 if failures > FAILURES_MAX => Some("0 to 3 with raid1"),
        Raid5 if failures != 1 => Some("must be 1 with raid5: it has one parity"),
        Raid6 if failures != 2 => Some("must be 2 with raid6: it has two parities"),
        _ => None,
    };
    if let Some(allowed) = wrong_failures {
        problems.push(FieldError::new("failures_to_tolerate", format!("{allowed}, this is {failures}")));
    }
    let wrong_legs = match (policy.fault_tolerance_method, policy.data_legs) {
        (Raid1, Some(_)) => Some("only with raid5 or raid6: a mirror has whole copies"),
        (Raid5, Some(legs)) if legs != 2 && legs != 3 => Some("3 or 2 with raid5"),
        (Raid6, Some(legs)) if legs != 4 => Some("4 with raid6"),
        _ => None,
    };
    if let Some(allowed) = wrong_legs {
        problems.push(FieldError::new("data_legs", allowed));
    }
    if !(1..=STRIPE_WIDTH_MAX).contains(&policy.stripe_width) {
        problems.push(FieldError::new("stripe_width", format!("1 to 12, this is {}", policy.stripe_width)));
    }
    if policy.object_space_reservation_percent > 100 {
        let detail = format!("0 to 100, this is {}", policy.object_space_reservation_percent);
        problems.push(FieldError::new("object_space_reservation_percent", detail));
    }
    if policy.iops_limit == Some(0) {
        problems.push(FieldError::new("iops_limit", "at least 1, or null for no limit"));
    }
    problems
}

/// Fault domains that a policy needs: a mirror for n failures 2n+1, RAID-5 4 (3 as 2+1), RAID-6 6.
pub fn fault_domains_needed(policy: &Policy) -> u32 {
    u32::try_from(Layout::of(policy, VOLUME_BYTES_MIN).domains).unwrap_or(u32::MAX)
}

/// Legs a row: (all, needed to read).
pub fn legs(policy: &Policy) -> (u32, u32) {
    let layout = Layout::of(policy, VOLUME_BYTES_MIN);
    (u32::try_from(layout.legs).unwrap_or(u32::MAX), u32::try_from(layout.legs_needed).unwrap_or(u32::MAX))
}

/// Raw bytes for each byte of data: legs by data legs, doubled when each site holds a copy.
pub fn capacity_factor(policy: &Policy) -> f64 {
    let (all, needed) = legs(policy);
    let sites = if policy.site_tolerance == SiteTolerance::Mirroring { 2.0 } else { 1.0 };
    f64::from(all) / f64::from(needed) * sites
}

/// Disk I/Os that one small write of a client costs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct WriteCost {
    /// Reads of old data and parity.
    pub reads: u32,
    /// Writes of data and parity.
    pub writes: u32,
}

/// Cost of one small write: a mirror writes every copy; parity reads and writes data and each parity (4 I/Os for RAID-5,
/// 6 for RAID-6).
pub fn write_cost(policy: &Policy) -> WriteCost {
    let (all, needed) = legs(policy);
    let parities = all - needed;
    match policy.fault_tolerance_method {
        FaultToleranceMethod::Raid1 => WriteCost { reads: 0, writes: all },
        _ => WriteCost { reads: 1 + parities, writes: 1 + parities },
    }
}

/// What replacing one policy by another does to the data of its volumes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Rewrite {
    /// Nothing moves.
    Nothing,
    /// So many copies are added a row; only these are written.
    AddLegs(u32),
    /// So many copies are dropped a row; nothing is written.
    DropLegs(u32),
    /// Everything is written again, beside the old layout.
    Rebuild,
}

/// What an edit from `old` to `new` rewrites. Names, limits and force provisioning never do; mirrors add or drop copies; a
/// change of method, data legs, stripe width or site, checksums switched on, or a first reservation rebuild.
pub fn rewrite(old: &Policy, new: &Policy) -> Rewrite {
    let (old_legs, old_needed) = legs(old);
    let (new_legs, new_needed) = legs(new);
    let first_reservation =
        old.object_space_reservation_percent == 0 && new.object_space_reservation_percent > 0;
    if old.fault_tolerance_method != new.fault_tolerance_method
        || old_needed != new_needed
        || old.stripe_width != new.stripe_width
        || old.site_tolerance != new.site_tolerance
        || (new.checksum && !old.checksum)
        || first_reservation
    {
        return Rewrite::Rebuild;
    }
    match new_legs.cmp(&old_legs) {
        std::cmp::Ordering::Greater => Rewrite::AddLegs(new_legs - old_legs),
        std::cmp::Ordering::Less => Rewrite::DropLegs(old_legs - new_legs),
        std::cmp::Ordering::Equal => Rewrite::Nothing,
    }
}

/// Whether two policies promise the same layout and rules, whatever their names and versions.
pub fn same_promise(old: &Policy, new: &Policy) -> bool {
    Policy { name: String::new(), version: 0, ..old.clone() }
        == Policy { name: String::new(), version: 0, ..new.clone() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use FaultToleranceMethod::{Raid1, Raid5, Raid6};

    fn policy(method: FaultToleranceMethod, failures: u8, data_legs: Option<u8>) -> Policy {
        let built_in = Policy::built_in();
        Policy { fault_tolerance_method: method, failures_to_tolerate: failures, data_legs, ..built_in }
    }

    #[test]
    fn needs_costs_and_legs_follow_the_table() {
        let rows = [
            (policy(Raid1, 0, None), 1, 1.0, (0, 1)),
            (policy(Raid1, 1, None), 3, 2.0, (0, 2)),
            (policy(Raid1, 2, None), 5, 3.0, (0, 3)),
            (policy(Raid1, 3, None), 7, 4.0, (0, 4)),
            (policy(Raid5, 1, None), 4, 4.0 / 3.0, (2, 2)),
            (policy(Raid5, 1, Some(2)), 3, 1.5, (2, 2)),
            (policy(Raid6, 2, None), 6, 1.5, (3, 3)),
        ];
        for (policy, domains, factor, (reads, writes)) in rows {
            assert_eq!(policy_problems(&policy), []);
            assert_eq!(fault_domains_needed(&policy), domains, "{policy:?}");
            assert!((capacity_factor(&policy) - factor).abs() < 1e-9, "{policy:?}");
            assert_eq!(write_cost(&policy), WriteCost { reads, writes }, "{policy:?}");
        }
    }

    #[test]
    fn every_wrong_field_is_named_at_once() {
        let wrong = Policy {
            name: "../x".into(),
            failures_to_tolerate: 4,
            data_legs: Some(3),
            stripe_width: 13,
            object_space_reservation_percent: 101,
            iops_limit: Some(0),
            ..Policy::built_in()
        };
        let fields: Vec<_> = policy_problems(&wrong).into_iter().map(|problem| problem.field).collect();
        let expected = [
            "name",
            "failures_to_tolerate",
            "data_legs",
            "stripe_width",
            "object_space_reservation_percent",
            "iops_limit",
        ];
        assert_eq!(fields, expected);
        assert_eq!(policy_problems(&policy(Raid5, 2, Some(4))).len(), 2);
        assert_eq!(policy_problems(&policy(Raid6, 1, Some(2))).len(), 2);
    }

    #[test]
    fn names_keep_to_the_alphabet() {
        for good in ["a", "db-1", "9.img_x", &"n".repeat(80)] {
            assert_eq!(name_problem(good), None, "{good}");
        }
        for bad in [
            "",
            ".",
            "..",
            "-x",
            "../../tmp/x",
            "a/b",
            "C:\\x",
            "a b",
            "a\0",
            "é",
            "..%2fx",
            "<img>",
            &"n".repeat(81),
        ] {
            assert!(name_problem(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn sizes_keep_to_the_limits() {
        for good in [VOLUME_BYTES_MIN, 1 << 30, VOLUME_BYTES_MAX] {
            assert_eq!(size_problem(good), None);
        }
        for bad in [0, 4096, VOLUME_BYTES_MIN + 1, VOLUME_BYTES_MAX + 4096, 1 << 62, u64::MAX] {
            assert!(size_problem(bad).is_some(), "{bad}");
        }
    }

    #[test]
    fn edits_rewrite_what_they_must() {
        let mirror = policy(Raid1, 1, None);
        let with = |change: &dyn Fn(&mut Policy)| {
            let mut changed = mirror.clone();
            change(&mut changed);
            rewrite(&mirror, &changed)
        };
        assert_eq!(with(&|policy| policy.iops_limit = Some(100)), Rewrite::Nothing);
        assert_eq!(with(&|policy| policy.name = "other".into()), Rewrite::Nothing);
        assert_eq!(with(&|policy| policy.failures_to_tolerate = 3), Rewrite::AddLegs(2));
        assert_eq!(with(&|policy| policy.failures_to_tolerate = 0), Rewrite::DropLegs(1));
        assert_eq!(with(&|policy| policy.stripe_width = 2), Rewrite::Rebuild);
        assert_eq!(with(&|policy| policy.object_space_reservation_percent = 1), Rewrite::Rebuild);
        assert_eq!(with(&|policy| policy.checksum = false), Rewrite::Nothing);
        assert_eq!(rewrite(&mirror, &policy(Raid5, 1, None)), Rewrite::Rebuild);
        assert_eq!(rewrite(&policy(Raid5, 1, None), &policy(Raid5, 1, Some(2))), Rewrite::Rebuild);
        let reserved = |percent| Policy { object_space_reservation_percent: percent, ..mirror.clone() };
        assert_eq!(rewrite(&reserved(20), &reserved(30)), Rewrite::Nothing);
    }
}
