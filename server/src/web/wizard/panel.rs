//! "What this gives you": the side panel of every step, computed from the picture of the cluster that the draft would make.
//! The same functions decide on the live cluster.
use crate::service::draft::Draft;
use crate::service::{capacity, plan};
use crate::web::format;
use crate::web::parts::{self, Check, Segment, Tone};
use crate::web::view::words;
use model::arithmetic;
use model::engine::Capabilities;
use model::policy::{FaultToleranceMethod, Policy};
use model::state::DiskRole;
use model::units::Timestamp;
use model::view::Snapshot;

/// Share of capacity that a cache should have. Source: the guideline of vSAN, 10 %.
const CACHE_PERCENT: u64 = 10;

/// The panel.
#[derive(Clone, Debug, Default)]
pub struct Panel {
    /// Usable with the default policy: number and unit.
    pub usable: (String, &'static str),
    /// Exact bytes.
    pub exact: String,
    /// The default policy in words.
    pub policy: String,
    /// Where the raw bytes go.
    pub pieces: Vec<Segment>,
    /// The bar in words.
    pub spoken: String,
    /// Usable by policy.
    pub options: Vec<PanelOption>,
    /// Heading of the options.
    pub options_title: String,
    /// What holds and what to know.
    pub checks: Vec<Check>,
    /// Warnings among the checks, in words; empty when all pass.
    pub warnings: String,
}

/// What one policy would give.
#[derive(Clone, Debug, Default)]
pub struct PanelOption {
    /// The policy in words.
    pub words: String,
    /// Usable bytes, or why not.
    pub value: String,
    /// What it costs and needs.
    pub note: String,
    /// It is the default policy.
    pub on: bool,
    /// It cannot be used.
    pub off: bool,
}

/// Computes the panel of a draft. With `assume`, nothing was claimed yet, and the recommended claims are reckoned with.
pub fn panel(draft: &Draft, can: &Capabilities, assume: bool, costs: &[String], now: Timestamp) -> Panel {
    let mut draft = std::borrow::Cow::Borrowed(draft);
    if assume && draft.claims.is_empty() {
        draft.to_mut().claims = plan::recommended_claims(&draft);
    }
    let draft = draft.as_ref();
    let picture = plan::picture(draft, now);
    let built_in = Policy::built_in();
    let default =
        draft.policies.iter().find(|policy| policy.name == draft.default_policy).unwrap_or(&built_in);
    let raw_bytes = capacity::of(&picture).raw_bytes;
    let usable = capacity::usable(&picture, default);
    let (all, data) = arithmetic::legs(default);
    let copies = usable.usable_bytes / u64::from(data.max(1)) * u64::from(all - data);
    // Labels, logs, maps and what is kept back: laid out as the engine does it.
    let laid_out: u64 = picture.disks.iter().map(|disk| disk.metadata_bytes).sum();
    let left = raw_bytes.saturating_sub(usable.usable_bytes + copies + laid_out);
    let stranded =
        usable.stranded_bytes.iter().max_by_key(|(_, bytes)| **bytes).filter(|(_, bytes)| **bytes > 0);
    let stranded = stranded.map(|(domain, _)| format!("most of it in {domain}")).unwrap_or_default();
    let copies_name = if data == 1 { "Further copies" } else { "Parity" };
    let pieces = vec![
        ("accent", "Usable for volumes".to_owned(), String::new(), usable.usable_bytes),
        ("accent-2", copies_name.to_owned(), String::new(), copies),
        ("maint", "Logs, maps and reserve".to_owned(), String::new(), laid_out),
        ("line", "Beyond this policy".to_owned(), stranded, left),
    ];
    let mut checks = checks(draft, &picture, default);
    checks.extend(costs.iter().map(|text| Check {
        tone: Tone::Absent,
        text: crate::web::view::explain::sentence(text),
        detail: String::new(),
    }));
    Panel {
        usable: format::bytes_parts(usable.usable_bytes),
        exact: format::exact(usable.usable_bytes),
        policy: words::policy(default, noun(draft)),
        spoken: format!(
            "Of {} raw: {} usable, {} for redundancy, {} for logs, maps and reserve, {} beyond this policy",
            format::bytes(raw_bytes),
            format::bytes(usable.usable_bytes),
            format::bytes(copies),
            format::bytes(laid_out),
            format::bytes(left)
        ),
        pieces: parts::segments(
            pieces.into_iter().filter(|piece| piece.3 > 0 || piece.0 == "accent").collect(),
        ),
        options: options(draft, &picture, can),
        options_title: format!(
            "If everything used one policy, with {}",
            format::plural(usable.has_fault_domains.into(), "fault domain")
        ),
        warnings: warnings(&checks),
        checks,
    }
}

/// The noun for a failure domain of the cluster that is planned.
pub fn noun(draft: &Draft) -> &'static str {
    let with_data = draft.claims.first().and_then(|claim| draft.host(&claim.host));
    with_data.or(draft.hosts.first()).map_or("host", |host| words::host_noun(host.kind))
}

fn warnings(checks: &[Check]) -> String {
    match checks.iter().filter(|check| check.tone != Tone::Healthy).count() {
        0 => String::new(),
        number => format!("{} to know", format::plural(number as u64, "thing")),
    }
}

/// The policies of the draft, then the common ones that it does not have.
fn options(draft: &Draft, picture: &Snapshot, can: &Capabilities) -> Vec<PanelOption> {
    let mirror = |failures| Policy { failures_to_tolerate: failures, ..Policy::built_in() };
    let parity = |method, failures, legs| Policy {
        failures_to_tolerate: failures,
        fault_tolerance_method: method,
        data_legs: Some(legs),
        ..Policy::built_in()
    };
    let common = [
        mirror(1),
        mirror(2),
        parity(FaultToleranceMethod::Raid5, 1, 2),
        parity(FaultToleranceMethod::Raid5, 1, 3),
        parity(FaultToleranceMethod::Raid6, 2, 4),
    ];
    let known = |policy: &Policy| {
        draft.policies.iter().any(|own| words::policy(own, "host") == words::policy(policy, "host"))
    };
    let others = common
        .iter()
        .filter(|policy| !known(policy))
        .map(|policy| option(noun(draft), picture, can, policy, None, false));
    let own = draft.policies.iter();
    let own = own.map(|policy| {
        option(noun(draft), picture, can, policy, Some(&policy.name), policy.name == draft.default_policy)
    });
    own.chain(others).collect()
}

fn option(
    noun: &'static str,
    picture: &Snapshot,
    can: &Capabilities,
    policy: &Policy,
    draft_name: Option<&str>,
    on: bool,
) -> PanelOption {
    let usable = capacity::usable(picture, policy);
    let method = match policy.fault_tolerance_method {
        FaultToleranceMethod::Raid1 => "raid1",
        FaultToleranceMethod::Raid5 => "raid5",
        FaultToleranceMethod::Raid6 => "raid6",
    };
    let (needs, has) = (usable.needs_fault_domains, usable.has_fault_domains);
    let feature = can.features.get(method).filter(|feature| !feature.available);
    let (value, note, off) = if let Some(feature) = feature {
        let why = feature.why_not.clone().unwrap_or_else(|| "not there in this release".into());
        ("Not yet".to_owned(), why, true)
    } else if has < needs {
        (
            "Not yet".to_owned(),
            format!("Needs {}; you have {has}.", format::plural(needs.into(), "fault domain")),
            true,
        )
    } else {
        let factor = arithmetic::capacity_factor(policy);
        let cost = arithmetic::write_cost(policy);
        let ios = cost.reads + cost.writes;
        let note = format!(
            "{factor:.2}× space, {} a small write. Needs {needs}.",
            format::plural(ios.into(), "disk I/O")
        );
        (format::bytes(usable.usable_bytes), note, false)
    };
    let own = draft_name.map(|name| format!("{name}: ")).unwrap_or_default();
    PanelOption { words: format!("{own}{}", words::policy(policy, noun)), value, note, on, off }
}

fn checks(draft: &Draft, picture: &Snapshot, default: &Policy) -> Vec<Check> {
    let good = |text: String| Check { tone: Tone::Healthy, text, detail: String::new() };
    let warn = |text: String, detail: &str| Check { tone: Tone::Absent, text, detail: detail.to_owned() };
    let mut checks = Vec::new();
    let idle: Vec<&str> = draft
        .hosts
        .iter()
        .filter(|host| !draft.claims.iter().any(|claim| claim.host == host.name))
        .filter(|host| !crate::service::grouping::serves_others(draft, &host.name))
        .map(|host| host.name.as_str())
        .collect();
    match (draft.hosts.is_empty(), idle.as_slice()) {
        (true, _) => {
            checks.push(warn("No failure domain yet".into(), "Take a grouping, plan a lab or add hosts"))
        }
        (false, []) => checks.push(good(format!("Every {} gives capacity", noun(draft)))),
        (false, idle) => checks.push(warn(
            format!("{} gives no capacity", idle.join(", ")),
            "One without a claimed disk is left out of the cluster",
        )),
    }
    let usable = capacity::usable(picture, default);
    let (needs, has) = (usable.needs_fault_domains, usable.has_fault_domains);
    let domains =
        format!("{} for the default policy, which needs {needs}", format::plural(has.into(), "fault domain"));
    checks.push(match has {
        _ if has < needs => warn(domains, "Volumes with it could not be made"),
        _ if has == needs => {
            warn(domains, "After a loss nothing can be rebuilt until it returns: one more would help")
        }
        _ => good(domains),
    });
    checks.extend(cache_check(picture));
    let open = draft.disks.iter().filter(|disk| disk.holds_data);
    let open =
        open.filter(|disk| !draft.claims.iter().any(|claim| claim.erase.contains(&disk.id))).count() as u64;
    if open > 0 {
        checks.push(warn(
            format!("{} with data left alone", format::plural(open, "disk")),
            "Erasing one has to be ticked by name",
        ));
    }
    checks.extend(plan::warnings(draft).into_iter().map(|text| warn(text, "")));
    checks
}

fn cache_check(picture: &Snapshot) -> Option<Check> {
    let sum =
        |role| picture.disks.iter().filter(|disk| disk.role == role).map(|disk| disk.size_bytes).sum::<u64>();
    let (cache, data) = (sum(DiskRole::Cache), sum(DiskRole::Capacity));
    if cache == 0 || data == 0 {
        return None;
    }
    let percent = cache * 100 / data;
    let text = format!("Cache is {percent}% of capacity");
    let detail = format!("Guideline: {CACHE_PERCENT}% or more");
    let tone = if percent >= CACHE_PERCENT { Tone::Healthy } else { Tone::Absent };
    Some(Check { tone, text, detail })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::{Rng, SystemRng};
    use crate::service::lab;
    use std::collections::BTreeMap;

    fn draft(shape: &str) -> Draft {
        let rng: &dyn Rng = &SystemRng;
        let mut draft = Draft::new(rng, None);
        lab::put(&mut draft, rng, std::path::Path::new("/data"), &lab::parse_shape(shape).unwrap());
        draft.claims = plan::recommended_claims(&draft);
        draft
    }

    fn can() -> Capabilities {
        Capabilities { engine: model::engine::EngineKind::Native, features: BTreeMap::new() }
    }

    #[test]
    fn the_pieces_add_up_to_the_raw_bytes() {
        let draft = draft("hosts=4,cache=1x256MiB,capacity=2x1GiB");
        let panel = panel(&draft, &can(), false, &["it rotates".into()], Timestamp(0));
        // Of 8 GiB, labels and maps subtracted.
        assert_eq!(panel.usable, ("3.97".to_owned(), "GiB"));
        assert!(panel.checks.iter().any(|check| check.text == "It rotates."));
        let width: f64 = panel.pieces.iter().map(|piece| piece.percent).sum();
        assert!((width - 100.0).abs() < 0.1, "{width}");
        assert!(panel.options[0].on && !panel.options[0].off);
        assert!(panel.options.iter().any(|option| option.off && option.note.contains("you have 4")));
    }

    #[test]
    fn too_few_hosts_give_nothing_and_say_so() {
        let panel = panel(&draft("hosts=2"), &can(), false, &[], Timestamp(0));
        assert_eq!(panel.usable.0, "0");
        assert!(!panel.warnings.is_empty());
        assert!(panel.checks.iter().any(|check| check.text.contains("needs 3")), "{:?}", panel.checks);
    }
}
