//! What a disk will cost whoever claims it: one sentence with numbers each. A warning never forbids.
//!
//! Source of the thresholds: vSAN's advice (queue depth of a controller 256, cache 10 % of the capacity behind it) and a
//! measured home lab in which shingled disks gave 3 to 4 MB/s with answers up to 3 s, and over 100 MB/s once replaced.
use crate::disk::{Class, Disk, Warning, WarningKind, size_text};
use crate::shingled;
use crate::smart::Health;
use model::claims::Division;
use model::ids::DiskId;
use model::state::{Eligibility, Media};
use std::collections::BTreeMap;

/// Commands at a time that a controller should take. Source: vSAN.
pub const QUEUE_DEPTH_ADVISED: u64 = 256;
/// Commands at a time below which a single device is called slow: what SATA offers.
const DEVICE_QUEUE_DEPTH_ADVISED: u64 = 31;
/// Share of the capacity behind it that a cache should have. Source: vSAN.
pub const CACHE_PERCENT_ADVISED: u64 = 10;
/// Most bytes of one disk that the log of a group uses. Source: vSAN's write buffer.
pub const LOG_BYTES_MAX: u64 = 600_000_000_000;
const _: () = assert!(LOG_BYTES_MAX >> 20 == model::disk_room::LOG_BYTES_MAX >> 20);
/// Bytes a second of a shingled disk under lasting writes, and of a conventional one; see above.
const SHINGLED_BYTES_PER_SECOND: u64 = 4_000_000;
const CONVENTIONAL_BYTES_PER_SECOND: u64 = 100_000_000;
/// Turns a minute of a rotating disk that does not say: the slowest common kind.
const ROTATION_RATE_ASSUMED: u64 = 5400;

/// Adds the warnings that need no more than the list itself.
pub(crate) fn warn(disks: &mut [Disk]) {
    let shared = shared_controllers(disks);
    let mut cases: BTreeMap<String, Vec<String>> = BTreeMap::new();
    for disk in disks.iter().filter(|disk| disk.class == Class::Disk) {
        if let Some(enclosure) = &disk.facts.enclosure {
            cases.entry(enclosure.clone()).or_default().push(disk.name().to_owned());
        }
    }
    for disk in disks.iter_mut().filter(|disk| disk.class == Class::Disk) {
        let case = disk.facts.enclosure.as_ref().and_then(|enclosure| cases.get(enclosure));
        let case: Vec<&str> = case.into_iter().flatten().map(String::as_str).collect();
        let mut warnings = of_disk(disk, &case);
        if disk.can_be_claimed() {
            warnings.extend(disk.facts.controller.as_ref().and_then(|key| shared.get(key)).cloned());
        }
        disk.warnings.append(&mut warnings);
    }
}

fn warning(kind: WarningKind, text: String) -> Warning {
    Warning { kind, text }
}

fn of_disk(disk: &Disk, case: &[&str]) -> Vec<Warning> {
    let parts =
        [shingled(disk), device_queue(disk), controller_queue(disk), write_cache(disk), bridge(disk, case)];
    let mut warnings: Vec<Warning> = parts.into_iter().flatten().collect();
    if *disk.health() == Health::Failing {
        let text = "its self-assessment (SMART) says that it is failing: expect to lose it soon".to_owned();
        warnings.push(warning(WarningKind::Doubtful, text));
    }
    warnings
}

/// A time as people say it.
fn duration_text(seconds: u64) -> String {
    match seconds {
        0..=7199 => format!("{} minutes", seconds.div_ceil(60)),
        7200..=172_799 => format!("{} hours", seconds.div_ceil(3600)),
        _ => format!("{} days", seconds.div_ceil(86_400)),
    }
}

fn shingled(disk: &Disk) -> Option<Warning> {
    let facts = &disk.facts;
    let zoned = facts.zoned.as_deref().unwrap_or("none");
    let model = facts.model.as_deref().and_then(shingled::known_model);
    // A virtual disk may claim to rotate and to trim; only one that sits on a real bus is suspected for it.
    let is_real = matches!(facts.transport.as_deref(), Some("sata" | "ata" | "sas"));
    let is_virtual = ["QEMU", "VBOX", "VMware", "Virtual"]
        .iter()
        .any(|name| [&facts.vendor, &facts.model].into_iter().flatten().any(|text| text.contains(name)));
    let trims = facts.smart.trim == Some(true) || facts.discard_bytes_max.is_some_and(|bytes| bytes > 0);
    let why = match (zoned, model) {
        ("host-aware", _) => "host-aware SMR".to_owned(),
        ("host-managed", _) => return None,
        (_, Some(model)) => format!("drive-managed SMR ({model})"),
        _ if disk.media() == Some(Media::Hdd) && trims && is_real && !is_virtual => {
            "probably drive-managed SMR (it rotates and can trim)".to_owned()
        }
        _ => return None,
    };
    let cost = facts.size_bytes.map(|size| {
        let (slow, fast) = (size / SHINGLED_BYTES_PER_SECOND, size / CONVENTIONAL_BYTES_PER_SECOND);
        format!(
            ", so rebuilding {} takes about {} instead of {} at 100 MB/s",
            size_text(size),
            duration_text(slow),
            duration_text(fast)
        )
    });
    let text = format!(
        "{why}: slow rebuild; lasting writes drop to about 4 MB/s with answers up to 3 s{}",
        cost.unwrap_or_default()
    );
    Some(warning(WarningKind::Shingled, text))
}

fn device_queue(disk: &Disk) -> Option<Warning> {
    let depth = disk.facts.queue_depth.filter(|depth| *depth < DEVICE_QUEUE_DEPTH_ADVISED)?;
    let text = format!(
        "it takes {depth} of the {DEVICE_QUEUE_DEPTH_ADVISED} commands at a time that SATA disks take: with answers of \
         10 ms that is at most {} a second; check the mode of its controller (AHCI) or its bridge",
        depth * 100
    );
    Some(warning(WarningKind::QueueDepth, text))
}

fn controller_queue(disk: &Disk) -> Option<Warning> {
    let depth = disk.facts.controller_queue_depth.filter(|depth| *depth < QUEUE_DEPTH_ADVISED)?;
    let controller = disk.facts.controller.as_deref().unwrap_or("its controller");
    let text = format!(
        "controller {controller} takes {depth} commands at a time, {QUEUE_DEPTH_ADVISED} are advised: {:.0} % of them, so \
         a rebuild and the clients wait for each other; leave the rebuild limit low",
        depth as f64 * 100.0 / QUEUE_DEPTH_ADVISED as f64
    );
    Some(warning(WarningKind::QueueDepth, text))
}

fn write_cache(disk: &Disk) -> Option<Warning> {
    let is_volatile = disk.facts.write_cache.as_deref() == Some("write back");
    if !is_volatile || disk.media() != Some(Media::Flash) {
        return None;
    }
    let size = disk.facts.size_bytes.map(|size| format!(" of {}", size_text(size))).unwrap_or_default();
    let shared = disk.facts.queue_depth.map_or_else(String::new, |depth| {
        format!("; with its queue of {depth} commands one flush serves {depth} waiting writers at most")
    });
    let text = format!(
        "the write cache of this flash disk{size} is volatile and nothing says that it survives power loss: nothing flushed is \
         lost, but every flush waits for the flash itself{shared}; a disk with power-loss protection answers at once"
    );
    Some(warning(WarningKind::WriteCache, text))
}

/// A disk behind a USB bridge, with those that go away together with it.
fn bridge(disk: &Disk, together: &[&str]) -> Option<Warning> {
    let is_usb = disk.facts.transport.as_deref() == Some("usb");
    let others: Vec<&str> = together.iter().copied().filter(|name| *name != disk.name()).collect();
    let what = match others.as_slice() {
        [] => "this disk away".to_owned(),
        others => format!("{} disks away at once (this one, {})", others.len() + 1, others.join(", ")),
    };
    let text = format!(
        "behind a USB bridge: 1 loose plug or bridge reset takes {what}; its serial number and health may be the bridge's"
    );
    is_usb.then(|| warning(WarningKind::Doubtful, text))
}

/// For each controller with both disks that others use and disks that could be claimed: what it means.
fn shared_controllers(disks: &[Disk]) -> BTreeMap<String, Warning> {
    let mut of: BTreeMap<&str, (Vec<&Disk>, Vec<&Disk>)> = BTreeMap::new();
    for disk in disks.iter().filter(|disk| disk.class == Class::Disk) {
        let Some(controller) = disk.facts.controller.as_deref() else { continue };
        let (used, free) = of.entry(controller).or_default();
        if disk.verdict.eligibility == Eligibility::InUse {
            used.push(disk);
        } else if disk.can_be_claimed() {
            free.push(disk);
        }
    }
    let mixed = of.into_iter().filter(|(_, (used, free))| !used.is_empty() && !free.is_empty());
    let sentence = |(controller, (used, free)): (&str, (Vec<&Disk>, Vec<&Disk>))| {
        let names: Vec<&str> = used.iter().map(|disk| disk.name()).collect();
        let depth = used.iter().chain(&free).find_map(|disk| disk.facts.controller_queue_depth);
        let queue = depth.map(|depth| format!(" and its {depth} commands at a time")).unwrap_or_default();
        let text = format!(
            "shares controller {controller}{queue} with {}, which something else uses: the work of {} disks waits in one \
             queue, and a reset stops them all",
            names.join(", "),
            used.len() + free.len()
        );
        (controller.to_owned(), warning(WarningKind::SharedController, text))
    };
    mixed.map(sentence).collect()
}

/// A disk group as it would be claimed.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct GroupClaim<'a> {
    /// Cache disks; none when each capacity disk carries its own log.
    pub cache: Vec<&'a Disk>,
    /// Capacity disks.
    pub capacity: Vec<&'a Disk>,
}

/// What is asked of a claimed disk or file.
#[derive(Clone, Debug)]
struct Claimed<'a> {
    key: String,
    name: &'a str,
    size_bytes: Option<u64>,
    rotates: bool,
    rotation_rate: u64,
}

impl<'a> From<&'a Disk> for Claimed<'a> {
    fn from(disk: &'a Disk) -> Self {
        Self {
            key: disk.path().to_owned(),
            name: disk.name(),
            size_bytes: disk.facts.size_bytes,
            rotates: disk.media() == Some(Media::Hdd),
            rotation_rate: disk.facts.rotation_rate.unwrap_or(ROTATION_RATE_ASSUMED),
        }
    }
}

/// What the chosen roles will cost. A cache disk of several groups serves them in even slices.
pub fn of_claims(groups: &[GroupClaim<'_>]) -> Vec<Warning> {
    fn claimed<'a>(disks: &[&'a Disk]) -> Vec<Claimed<'a>> {
        disks.iter().map(|disk| Claimed::from(*disk)).collect()
    }
    let groups: Vec<_> =
        groups.iter().map(|group| (claimed(&group.cache), claimed(&group.capacity))).collect();
    of_groups(&groups)
}

/// The same for a division, files included; `rate` knows the turns a minute of a disk.
pub fn of_division(division: &Division, rate: &dyn Fn(DiskId) -> Option<u64>) -> Vec<Warning> {
    let claimed = |ids: &[DiskId]| -> Vec<Claimed<'_>> {
        let known = ids.iter().filter_map(|id| division.member(*id));
        known
            .map(|member| Claimed {
                key: member.id.to_string(),
                name: &member.name,
                size_bytes: Some(member.size_bytes),
                rotates: member.media == Media::Hdd,
                rotation_rate: rate(member.id).unwrap_or(ROTATION_RATE_ASSUMED),
            })
            .collect()
    };
    let groups: Vec<_> =
        division.domains.iter().map(|domain| (claimed(&domain.cache), claimed(&domain.capacity))).collect();
    of_groups(&groups)
}

fn of_groups(groups: &[(Vec<Claimed<'_>>, Vec<Claimed<'_>>)]) -> Vec<Warning> {
    let mut warnings = Vec::new();
    let mut caches: BTreeMap<&str, (&Claimed<'_>, u64, usize)> = BTreeMap::new();
    for (cache, capacity) in groups {
        let behind: u64 = capacity.iter().filter_map(|disk| disk.size_bytes).sum();
        for one in cache {
            let entry = caches.entry(&one.key).or_insert((one, 0, 0));
            entry.1 += behind / cache.len().max(1) as u64;
            entry.2 += 1;
        }
    }
    for (cache, behind, groups) in caches.into_values() {
        warnings.extend(cache_size(cache, behind, groups));
        warnings.extend(rotational_cache(cache));
        if groups > 1 {
            let text = format!(
                "{} is the cache of {groups} disk groups: when it fails, all {groups} are lost at once, so together they \
                 count as one failure",
                cache.name
            );
            warnings.push(warning(WarningKind::SharedFate, text));
        }
    }
    warnings.extend(rotating_logs(groups));
    warnings
}

fn cache_size(cache: &Claimed<'_>, behind: u64, groups: usize) -> Option<Warning> {
    let size = cache.size_bytes?;
    let wanted =
        u64::try_from(u128::from(behind) * u128::from(CACHE_PERCENT_ADVISED) / 100).unwrap_or(u64::MAX);
    if size < wanted {
        let percent = size as f64 * 100.0 / behind as f64;
        let text = format!(
            "cache {} has {}, {percent:.1} % of the {} behind it; {CACHE_PERCENT_ADVISED} % ({}) are advised: once it is \
             full, writes go at the speed of the capacity disks",
            cache.name,
            size_text(size),
            size_text(behind),
            size_text(wanted)
        );
        return Some(warning(WarningKind::SmallCache, text));
    }
    let useful = LOG_BYTES_MAX.saturating_mul(groups as u64);
    let text = format!(
        "of cache {} only {} of {} are used: a log takes at most {}",
        cache.name,
        size_text(useful),
        size_text(size),
        size_text(LOG_BYTES_MAX)
    );
    (size > useful).then(|| warning(WarningKind::LargeCache, text))
}

fn rotational_cache(cache: &Claimed<'_>) -> Option<Warning> {
    if !cache.rotates {
        return None;
    }
    let rate = cache.rotation_rate;
    let text = format!(
        "cache {} rotates ({rate} turns a minute): each flush waits for a turn, so {} flushes a second at most; use flash, \
         or let each disk carry its own log",
        cache.name,
        rate / 60
    );
    Some(warning(WarningKind::RotationalCache, text))
}

/// Rotating disks that carry their own logs, by how fast they turn.
fn rotating_logs(groups: &[(Vec<Claimed<'_>>, Vec<Claimed<'_>>)]) -> Vec<Warning> {
    let mut by_rate: BTreeMap<u64, Vec<&str>> = BTreeMap::new();
    let own = groups.iter().filter(|(cache, _)| cache.is_empty()).flat_map(|(_, capacity)| capacity);
    for disk in own.filter(|disk| disk.rotates) {
        by_rate.entry(disk.rotation_rate).or_default().push(disk.name);
    }
    let sentence = |(rate, names): (u64, Vec<&str>)| {
        let verb = if names.len() == 1 {
            "carries its own log and rotates"
        } else {
            "carry their own logs and rotate"
        };
        let text = format!(
            "{} {verb} ({rate} turns a minute): a client that flushes each write gets {} flushes a second at most; a flash \
             disk as cache would take them",
            names.join(", "),
            rate / 60
        );
        warning(WarningKind::RotationalCache, text)
    };
    by_rate.into_iter().map(sentence).collect()
}
