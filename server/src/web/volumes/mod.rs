//! Pages about volumes: list, new, one volume with its placement, and what can be done to it.
pub mod change;
pub mod list;
pub mod new;
pub mod show;

use crate::web::format;
use crate::web::parts::Choice;
use crate::web::view::words;
use model::arithmetic;
use model::policy::Policy;
use model::view::Snapshot;

/// A policy that can be picked for a volume.
#[derive(Clone, Debug, Default)]
pub struct PolicyOption {
    /// Name.
    pub name: String,
    /// In words.
    pub words: String,
    /// Raw bytes for each byte of data.
    pub factor: String,
    /// What it needs, and what there is.
    pub needs: String,
    /// Picked.
    pub chosen: bool,
}

/// All policies of the cluster, with what each costs here.
pub fn policy_options(snapshot: &Snapshot, chosen: &str, noun: &str) -> Vec<PolicyOption> {
    let has = usable_domains(snapshot);
    let option = |policy: &Policy| {
        let needs = arithmetic::fault_domains_needed(policy);
        let enough = if u64::from(needs) <= has { "" } else { ", too few" };
        PolicyOption {
            name: policy.name.clone(),
            words: words::policy(policy, noun),
            factor: format!("{:.2}× space", arithmetic::capacity_factor(policy)),
            needs: format!(
                "Needs {}; there are {has}{enough}.",
                format::plural(needs.into(), "fault domain")
            ),
            chosen: policy.name == chosen,
        }
    };
    snapshot.policies.iter().map(option).collect()
}

/// Fault domains with a disk that takes something now.
pub fn usable_domains(snapshot: &Snapshot) -> u64 {
    model::placement::Topology::from_snapshot(snapshot).usable_domains().len() as u64
}

/// Units that a size can be given in.
pub fn units() -> Vec<Choice> {
    ["MiB", "GiB", "TiB"].map(|unit| Choice::new(unit, unit)).to_vec()
}

/// Bytes of a size that was typed: a number with at most one point, and a unit. Rounded up to a block.
///
/// # Errors
/// One sentence.
pub fn typed_bytes(size: &str, unit: &str) -> Result<u64, String> {
    let shift = match unit {
        "MiB" => 20,
        "GiB" => 30,
        "TiB" => 40,
        _ => return Err("choose MiB, GiB or TiB".into()),
    };
    let text = size.trim().replace(',', ".");
    let (whole, part) = text.split_once('.').unwrap_or((&text, ""));
    let wrong = || format!("\"{}\" is not a number; write for example 1.5", size.trim());
    let digits = |text: &str| text.bytes().all(|byte| byte.is_ascii_digit());
    if whole.is_empty() || !digits(whole) || !digits(part) || part.len() > 6 {
        return Err(wrong());
    }
    let millionths: u128 = format!("{whole}{part:0<6}").parse().map_err(|_| wrong())?;
    let bytes = (millionths << shift) / 1_000_000;
    let bytes = bytes.div_ceil(u128::from(model::units::BLOCK_BYTES)) * u128::from(model::units::BLOCK_BYTES);
    u64::try_from(bytes).map_err(|_| "that is more than any volume can have; the largest is 62 TiB".into())
}

/// A size in the largest unit that shows it exactly enough: (`1.5`, `GiB`).
pub fn typed_size(bytes: u64) -> (String, String) {
    let (shift, unit) = match bytes {
        0..0x4000_0000 => (20, "MiB"),
        0x4000_0000..0x100_0000_0000 => (30, "GiB"),
        _ => (40, "TiB"),
    };
    let thousandths = (u128::from(bytes) * 1000).div_ceil(1 << shift);
    let text = format!("{}.{:03}", thousandths / 1000, thousandths % 1000);
    (text.trim_end_matches('0').trim_end_matches('.').to_owned(), unit.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_are_read_as_people_write_them() {
        assert_eq!(typed_bytes("1.5", "GiB"), Ok(3 << 29));
        assert_eq!(typed_bytes(" 1,5 ", "GiB"), Ok(3 << 29));
        assert_eq!(typed_bytes("62", "TiB"), Ok(62 << 40));
        assert_eq!(typed_bytes("0.001", "MiB"), Ok(4096));
        for bad in ["", "-1", "1.5.2", "1e9", "0x10", "½", "1.2345678"] {
            assert!(typed_bytes(bad, "GiB").is_err(), "{bad:?}");
        }
        assert!(typed_bytes("99999999999999999999", "TiB").is_err());
        assert!(typed_bytes("1", "PiB").is_err());
    }

    #[test]
    fn a_size_reads_back_not_smaller() {
        for bytes in [1 << 20, 3 << 29, (1 << 40) + 4096, 700 << 30] {
            let (text, unit) = typed_size(bytes);
            assert!(typed_bytes(&text, &unit).unwrap() >= bytes, "{bytes}: {text} {unit}");
        }
    }
}
