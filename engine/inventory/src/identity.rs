//! Which rows are the same disk, and what each is known by.
//!
//! A world-wide name or a serial number identifies only when nobody else has it: bridges report their own, some vendors
//! one for all. Invariant: two rows with one identity are two paths to one disk, and only one row of them can be claimed.
use crate::disk::{Class, Identity, Warning, WarningKind};
use crate::facts::Facts;
use model::ids::DiskId;
use sha2::{Digest, Sha256};
use std::collections::BTreeMap;

/// What kind of device a row is, from its kernel name and type.
pub(crate) fn class(facts: &Facts) -> Class {
    let name = facts.kernel_name();
    let has = |prefix: &str| {
        name.strip_prefix(prefix).is_some_and(|rest| rest.starts_with(|first: char| first.is_ascii_digit()))
    };
    let is_area = name.starts_with("mmcblk") && ["boot", "rpmb", "gp"].iter().any(|area| name.contains(area));
    match facts.node.kind.as_str() {
        "rom" => Class::Optical,
        "loop" => Class::Loop,
        "part" => Class::Partition,
        "mpath" => Class::Disk,
        _ if has("sr") => Class::Optical,
        _ if has("loop") => Class::Loop,
        _ if has("ram") || has("zram") => Class::Memory,
        _ if ["nbd", "rbd", "drbd"].iter().any(|prefix| has(prefix)) => Class::Network,
        _ if is_area => Class::BootArea,
        _ if ["md", "dm-", "bcache", "zd"].iter().any(|prefix| has(prefix)) => Class::Assembled,
        "disk" | "" => Class::Disk,
        _ => Class::Assembled,
    }
}

/// Whether a serial number says anything: bridges and blank firmware report fillers.
fn is_meaningful(serial: &str) -> bool {
    let mut bytes = serial.bytes();
    let first = bytes.next().unwrap_or(b'0');
    let all_same = bytes.all(|byte| byte == first);
    serial.len() >= 4
        && !all_same
        && !["none", "unknown", "0123456789abcdef", "123456789012"].contains(&serial.to_lowercase().as_str())
}

/// A disk whose paths and doubts are known.
pub(crate) struct Known {
    pub facts: Facts,
    pub class: Class,
    pub identity: Identity,
    pub paths: Vec<String>,
    pub body: String,
    pub warnings: Vec<Warning>,
    /// Two paths, and nothing that joins them.
    pub lacks_multipath: bool,
}

/// Adds what `lsblk` shows below its paths as a row of its own: the map of a multipath disk is the disk.
fn with_multipath(all: Vec<Facts>) -> Vec<(Facts, Vec<String>)> {
    let mut maps: BTreeMap<String, (Facts, Vec<String>)> = BTreeMap::new();
    let mut rows = Vec::new();
    for facts in all {
        for map in facts.node.children.iter().filter(|child| child.kind == "mpath") {
            let joined = maps.entry(map.kname.clone()).or_insert_with(|| {
                // A map has no serial number of its own: it is the disk behind it, at another path.
                let size_bytes = map.size_bytes.or(facts.size_bytes);
                (Facts { node: map.clone(), size_bytes, holders: Vec::new(), ..facts.clone() }, Vec::new())
            });
            joined.1.push(facts.node.name.clone());
        }
        rows.push((facts, Vec::new()));
    }
    rows.extend(maps.into_values());
    rows
}

/// Recognises every row.
pub(crate) fn recognise(all: Vec<Facts>) -> Vec<Known> {
    let rows = with_multipath(all);
    let multipathed: BTreeMap<String, String> = rows
        .iter()
        .flat_map(|(facts, paths)| paths.iter().map(|path| (path.clone(), facts.node.name.clone())))
        .collect();
    let mut known: Vec<Known> = Vec::new();
    for (facts, paths) in rows {
        let class = match multipathed.get(&facts.node.name) {
            Some(map) => Class::PathOf(map.clone()),
            None => class(&facts),
        };
        let paths = if paths.is_empty() { vec![facts.node.name.clone()] } else { paths };
        let identity = Identity::Name(facts.kernel_name().to_owned());
        let body = facts.kernel_name().to_owned();
        let row = Known { facts, class, identity, paths, body, warnings: Vec::new(), lacks_multipath: false };
        known.push(row);
    }
    join_paths(&mut known);
    identify(&mut known);
    join_bodies(&mut known);
    known
}

/// Two rows are paths to one disk when name, size and (where both have one) serial number are equal. On networks that
/// have several paths as a rule, model and serial number are enough.
fn is_same_disk(one: &Facts, other: &Facts) -> bool {
    let same = |one: &Option<String>, other: &Option<String>| one.is_some() && one == other;
    let no_contradiction =
        |one: &Option<String>, other: &Option<String>| one.is_none() || other.is_none() || one == other;
    let size = one.size_bytes.is_some() && one.size_bytes == other.size_bytes;
    let by_name = same(&one.wwn, &other.wwn) && no_contradiction(&one.serial, &other.serial);
    let has_paths = |facts: &Facts| matches!(facts.transport.as_deref(), Some("fc" | "sas" | "iscsi"));
    let by_serial = one.wwn.is_none()
        && other.wwn.is_none()
        && same(&one.serial, &other.serial)
        && one.serial.as_deref().is_some_and(is_meaningful)
        && same(&one.model, &other.model)
        && has_paths(one)
        && has_paths(other);
    size && (by_name || by_serial)
}

fn join_paths(known: &mut [Known]) {
    for index in 0..known.len() {
        if known[index].class != Class::Disk {
            continue;
        }
        let same = |other: &usize| {
            known[*other].class == Class::Disk && is_same_disk(&known[index].facts, &known[*other].facts)
        };
        let others: Vec<usize> = (index + 1..known.len()).filter(same).collect();
        for other in others {
            let (name, path) = (known[index].facts.node.name.clone(), known[other].facts.node.name.clone());
            known[index].paths.push(path);
            known[index].lacks_multipath = true;
            known[other].class = Class::PathOf(name);
            known[other].lacks_multipath = true;
        }
    }
}

/// Gives every row the strongest identity that nobody else has.
fn identify(known: &mut [Known]) {
    let count = |of: &dyn Fn(&Facts) -> Option<String>| {
        let mut counts: BTreeMap<String, usize> = BTreeMap::new();
        for row in known.iter().filter(|row| row.class == Class::Disk) {
            if let Some(key) = of(&row.facts) {
                *counts.entry(key).or_default() += 1;
            }
        }
        counts
    };
    let wwn = |facts: &Facts| facts.wwn.clone();
    let serial = |facts: &Facts| {
        let serial = facts.serial.clone().filter(|serial| is_meaningful(serial))?;
        Some(format!("{} {serial}", facts.model.as_deref().unwrap_or_default().trim()))
    };
    let bare_serial = |facts: &Facts| facts.serial.clone();
    let (wwns, serials, bare) = (count(&wwn), count(&serial), count(&bare_serial));
    for row in known.iter_mut() {
        let unique = |key: Option<String>, counts: &BTreeMap<String, usize>| {
            key.filter(|key| counts.get(key).copied().unwrap_or(0) <= 1)
        };
        let by_wwn = unique(wwn(&row.facts), &wwns);
        let is_shared =
            bare_serial(&row.facts).is_some_and(|serial| bare.get(&serial).copied().unwrap_or(0) > 1);
        let by_serial = unique(serial(&row.facts), &serials).filter(|_| !is_shared);
        // A path row is no disk of its own: it must not take the identity of its disk.
        let is_path = matches!(row.class, Class::PathOf(_));
        row.identity =
            match (by_wwn.filter(|_| !is_path), by_serial.filter(|_| !is_path), row.facts.by_path.clone()) {
                (Some(wwn), _, _) => Identity::Wwn(wwn),
                (None, Some(serial), _) => Identity::Serial(serial),
                (None, None, Some(path)) => Identity::Path(path),
                (None, None, None) => Identity::Name(row.facts.kernel_name().to_owned()),
            };
        if row.class == Class::Disk && is_shared && !matches!(row.identity, Identity::Wwn(_)) {
            let serial = row.facts.serial.clone().unwrap_or_default();
            let others = bare.get(&serial).copied().unwrap_or(1) - 1;
            let text = match &row.identity {
                Identity::Path(path) => format!(
                    "serial not unique: {others} more device has {serial}; until it is claimed it is known only by its \
                     place {path}, afterwards by what Millpond wrote on it"
                ),
                _ => format!(
                    "serial not unique: {others} more device has {serial}; until it is claimed it is known only by its \
                     name, which may change at the next start"
                ),
            };
            row.warnings.push(Warning { kind: WarningKind::Doubtful, text });
        }
    }
}

/// Halves of one drive: one serial number, different world-wide names, one target.
fn join_bodies(known: &mut [Known]) {
    let key = |row: &Known| {
        let facts = &row.facts;
        let is_half =
            row.class == Class::Disk && facts.wwn.is_some() && facts.transport.as_deref() != Some("usb");
        let serial = facts.serial.clone().filter(|serial| is_half && is_meaningful(serial))?;
        Some(format!("{} {serial}", facts.model.as_deref().unwrap_or_default()))
    };
    let mut bodies: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (index, row) in known.iter().enumerate() {
        if let Some(key) = key(row) {
            bodies.entry(key).or_default().push(index);
        }
    }
    for (body, rows) in bodies.into_iter().filter(|(_, rows)| rows.len() > 1) {
        let names: Vec<String> = rows.iter().map(|row| known[*row].facts.node.name.clone()).collect();
        for row in rows {
            let others: Vec<&str> = names
                .iter()
                .filter(|name| **name != known[row].facts.node.name)
                .map(String::as_str)
                .collect();
            let text = format!(
                "same physical drive as {}: {} devices fail together, so they are one failure domain",
                others.join(", "),
                names.len()
            );
            known[row].body = body.clone();
            known[row].warnings.push(Warning { kind: WarningKind::SharedFate, text });
        }
    }
}

/// The id that belongs to an identity.
pub fn disk_id(identity: &Identity) -> DiskId {
    let digest: [u8; 32] = Sha256::digest(identity.key().as_bytes()).into();
    let mut id = [0; 16];
    id.copy_from_slice(&digest[..16]);
    DiskId::from_random(id)
}
