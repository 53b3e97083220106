//! Hosts and disks as tables: grouped by fault domain, each disk with what it is, what it does and what is wrong with it.
use crate::service::disks::Disk;
use crate::web::format;
use crate::web::parts::{self, Chip, Fact, Segment, Tone};
use crate::web::view::explain::sentence;
use crate::web::view::words;
use model::ids::DiskId;
use model::state::{DiskRole, DiskState, Eligibility, HostKind, HostRole};
use model::units::Timestamp;
use model::view::{ComponentView, DiskView, HostView, Snapshot};
use model::what_if::Answer;

/// From so much on, a capacity disk is drawn as nearly full. The health check warns at the same level.
const NEARLY_FULL_PERCENT: u8 = 80;

/// A fault domain with its hosts; a host in no named one stands alone.
#[derive(Clone, Debug, Default)]
pub struct DomainRows {
    /// Its name.
    pub name: String,
    /// Whether people named it.
    pub named: bool,
    /// Hosts, by name.
    pub hosts: Vec<HostRows>,
}

/// A host with its disks.
#[derive(Clone, Debug, Default)]
pub struct HostRows {
    /// Name; empty: disks of this machine that no host has.
    pub name: String,
    /// What it is.
    pub kind: &'static str,
    /// Disk groups and components, in words.
    pub notes: Vec<String>,
    /// State.
    pub chip: Chip,
    /// Its disks.
    pub disks: Vec<DiskRow>,
}

/// A disk.
#[derive(Clone, Debug, Default)]
pub struct DiskRow {
    /// Id.
    pub id: String,
    /// Short name.
    pub name: String,
    /// Model and serial, else the path.
    pub second: String,
    /// Flash or HDD.
    pub media: &'static str,
    /// What it does.
    pub role: &'static str,
    /// Size as printed on it.
    pub size: String,
    /// Size in binary units.
    pub size_binary: String,
    /// Exact size.
    pub size_exact: String,
    /// Whether it has a bar.
    pub carries: bool,
    /// Fill of the bar.
    pub fill: &'static str,
    /// Used, percent.
    pub percent: u8,
    /// The bar in words.
    pub used: String,
    /// State.
    pub chip: Chip,
    /// Checksum errors since the start.
    pub checksum_errors: String,
    /// Whether there are any.
    pub wrong_bytes: bool,
    /// Reasons, warnings and faults, a sentence each.
    pub notes: Vec<String>,
}

/// What a host is, as a noun.
pub fn kind(kind: HostKind) -> &'static str {
    match kind {
        HostKind::Machine => "Machine",
        HostKind::Enclosure => "Enclosure",
        HostKind::Disk => "Single disk",
        HostKind::Lab => "Lab host",
        HostKind::Ceph => "Ceph host",
    }
}

/// State of a disk; one that is not claimed says whether it could be.
fn disk_chip(disk: &Disk) -> Chip {
    let is_read = disk.device.as_ref().is_none_or(|device| device.contents.was_read);
    match (disk.view.role, disk.eligibility) {
        (DiskRole::None, Eligibility::Eligible) if !is_read => {
            Chip::new(Tone::Maint, "Free, not looked into")
        }
        (DiskRole::None, Eligibility::Eligible) if disk.why_not.is_some() => {
            Chip::new(Tone::Maint, "Blank and free")
        }
        (DiskRole::None, Eligibility::Eligible) => Chip::new(Tone::Maint, "Free to claim"),
        (DiskRole::None, Eligibility::EraseNeeded) => Chip::new(Tone::Absent, "Holds something"),
        (DiskRole::None, Eligibility::InUse) => Chip::new(Tone::Maint, "In use elsewhere"),
        (DiskRole::None, Eligibility::Ineligible) => Chip::new(Tone::Maint, "Cannot be claimed"),
        _ => words::disk(disk.view.state),
    }
}

/// A disk as a row.
pub fn disk_row(disk: &Disk) -> DiskRow {
    let view = &disk.view;
    let percent = format::percent(view.used_bytes, view.size_bytes);
    let carries = view.role != DiskRole::None;
    let printed = [disk.model.as_deref(), disk.serial.as_deref()];
    let printed: Vec<&str> = printed.into_iter().flatten().collect();
    let mut notes: Vec<String> =
        view.faults.iter().map(|fault| format!("Fault on purpose: {fault}.")).collect();
    let reason = disk.reason.as_ref().filter(|_| view.role == DiskRole::None);
    notes.extend(reason.map(|reason| sentence(reason)));
    notes.extend(disk.why_not.as_ref().map(|why_not| sentence(why_not)));
    let said = |contents: &&String| !notes.iter().any(|note| note.contains(contents.as_str()));
    let contents = disk.contents.as_ref().filter(said).map(|contents| format!("It holds {contents}."));
    notes.extend(contents);
    if !view.serves.is_empty() {
        let groups = view.serves.len() + 1;
        notes.push(format!(
            "It carries the logs of {groups} disk groups in slices: they share its fate, and when it fails, all {groups} are lost at once."
        ));
    }
    notes.extend(disk.warnings.iter().map(|warning| sentence(warning)));
    DiskRow {
        id: view.id.to_string(),
        name: view.name.clone(),
        second: if printed.is_empty() { view.path.clone() } else { printed.join(" · ") },
        media: words::media(view.media),
        role: words::disk_role(view.role),
        size: format::label_bytes(view.size_bytes),
        size_binary: format::bytes(view.size_bytes),
        size_exact: format::exact(view.size_bytes),
        carries,
        fill: if percent >= NEARLY_FULL_PERCENT && view.role != DiskRole::Cache { "degraded" } else { "ink" },
        percent,
        used: format!("{} of {}", format::bytes(view.used_bytes), format::bytes(view.size_bytes)),
        chip: disk_chip(disk),
        checksum_errors: format::count(view.checksum_errors),
        wrong_bytes: view.checksum_errors > 0,
        notes,
    }
}

fn host_rows(host: &HostView, disks: Vec<DiskRow>, now: Timestamp) -> HostRows {
    let mut notes = vec![
        format::plural(host.disk_groups.into(), "disk group"),
        format!(
            "{} of {} components",
            format::count(host.components.into()),
            format::count(host.components_max.into())
        ),
    ];
    if host.role == HostRole::Witness {
        notes.insert(0, "witnesses only".into());
    }
    notes.extend(host.faults.iter().map(|fault| format!("fault on purpose: {fault}")));
    HostRows { name: host.name.clone(), kind: kind(host.kind), notes, chip: words::host(host, now), disks }
}

/// Hosts with the disks that `shown` lets through, by fault domain. A host without such a disk stays when `all` is asked for.
pub fn by_domain(
    snapshot: &Snapshot,
    disks: &[Disk],
    shown: &dyn Fn(&Disk) -> bool,
    all: bool,
    now: Timestamp,
) -> Vec<DomainRows> {
    let rows_of = |host: &str| {
        let of = disks.iter().filter(|disk| disk.view.host == host && shown(disk));
        of.map(disk_row).collect::<Vec<_>>()
    };
    let mut domains: Vec<DomainRows> = Vec::new();
    for host in &snapshot.hosts {
        let rows = rows_of(&host.name);
        if rows.is_empty() && !all {
            continue;
        }
        let name = host.fault_domain.clone().unwrap_or_else(|| host.name.clone());
        let at = domains.iter().position(|domain| domain.name == name).unwrap_or_else(|| {
            domains.push(DomainRows {
                name: name.clone(),
                named: host.fault_domain.is_some(),
                hosts: Vec::new(),
            });
            domains.len() - 1
        });
        domains[at].hosts.push(host_rows(host, rows, now));
    }
    domains.sort_by_key(|domain| (!domain.named, domain.name.len(), domain.name.clone()));
    let free = disks
        .iter()
        .filter(|disk| !snapshot.hosts.iter().any(|host| host.name == disk.view.host) && shown(disk));
    let free: Vec<DiskRow> = free.map(disk_row).collect();
    if !free.is_empty() {
        let chip = Chip::new(Tone::Maint, "In no cluster");
        let host = HostRows { kind: "Disks of this machine", chip, disks: free, ..HostRows::default() };
        domains.push(DomainRows { hosts: vec![host], ..DomainRows::default() });
    }
    domains
}

/// Whether a disk deserves a look: what the filter "needs attention" keeps.
pub fn needs_attention(disk: &Disk) -> bool {
    let view = &disk.view;
    let claimed = view.role != DiskRole::None;
    let nearly_full = format::percent(view.used_bytes, view.size_bytes) >= NEARLY_FULL_PERCENT;
    claimed
        && (view.state != DiskState::Healthy
            || view.checksum_errors > 0
            || !view.faults.is_empty()
            || (nearly_full && view.role != DiskRole::Cache))
}

/// A component and the volume that it is part of.
#[derive(Clone, Debug, Default)]
pub struct PartRow {
    /// Name of the volume.
    pub volume: String,
    /// Id of the component.
    pub id: String,
    /// Component or witness.
    pub kind: &'static str,
    /// State.
    pub chip: Chip,
    /// Votes.
    pub votes: u32,
    /// Host and disk, for the page of a host.
    pub disk: String,
    /// Id of the disk.
    pub disk_id: String,
    /// Data.
    pub data: String,
    /// Exact data.
    pub data_exact: String,
    /// Why it is not active.
    pub reason: String,
}

/// Components that `held` lets through, by volume.
pub fn parts_on(snapshot: &Snapshot, held: &dyn Fn(&ComponentView) -> bool, now: Timestamp) -> Vec<PartRow> {
    let mut rows = Vec::new();
    for object in &snapshot.objects {
        for (leaf, witness) in object.tree.leaves().into_iter().filter(|(leaf, _)| held(leaf)) {
            let disk = snapshot.disks.iter().find(|disk| disk.id == leaf.disk);
            rows.push(PartRow {
                volume: object.name.clone(),
                id: leaf.uuid.to_string(),
                kind: if witness { "Witness" } else { "Component" },
                chip: words::component(leaf, &snapshot.resync, now),
                votes: leaf.votes,
                disk: disk.map_or_else(|| leaf.disk_path.clone(), |disk| disk.name.clone()),
                disk_id: leaf.disk.to_string(),
                data: format::bytes(leaf.used_bytes),
                data_exact: format::exact(leaf.used_bytes),
                reason: leaf.reason.as_deref().map(sentence).unwrap_or_default(),
            });
        }
    }
    rows
}

/// What is on a disk, laid out on one bar that adds up to its size.
pub fn disk_segments(disk: &DiskView) -> Vec<Segment> {
    let metadata = disk.metadata_bytes.min(disk.used_bytes);
    let used = disk.used_bytes.min(disk.size_bytes);
    let reserved = disk.size_bytes - used - disk.free_bytes().min(disk.size_bytes - used);
    let data_name = if disk.role == DiskRole::Cache { "Log" } else { "Data" };
    parts::segments(vec![
        ("ink-2", data_name.into(), String::new(), used - metadata),
        ("line", "Structures".into(), "superblock, map, checksums".into(), metadata),
        ("maint", "Promised".into(), "to volumes that reserve room".into(), reserved),
        ("none", "Free".into(), String::new(), disk.size_bytes - used - reserved),
    ])
}

/// What the loss of something would do, as facts.
pub fn loss_facts(answer: &Answer) -> Vec<Fact> {
    let names = |list: &[model::what_if::ObjectRef]| {
        let first: Vec<&str> = list.iter().take(8).map(|object| object.name.as_str()).collect();
        match list.len().saturating_sub(first.len()) {
            0 => first.join(", "),
            more => format!("{}, and {more} more", first.join(", ")),
        }
    };
    let count = |list: &[model::what_if::ObjectRef]| format::plural(list.len() as u64, "volume");
    let tone = |bad: bool, tone| if bad { tone } else { Tone::Healthy };
    let (gone, reduced) = (&answer.inaccessible, &answer.reduced);
    let mut facts = vec![
        Fact::chip("Unavailable", tone(!gone.is_empty(), Tone::Failed), count(gone)).note(names(gone)),
        Fact::chip("Less redundancy", tone(!reduced.is_empty(), Tone::Degraded), count(reduced))
            .note(names(reduced)),
        Fact::new("Not touched", format::plural(answer.unaffected, "volume")),
        Fact::bytes("To rebuild elsewhere", answer.bytes_to_move),
    ];
    if answer.bytes_to_move > 0 || !answer.rebuild_fits {
        facts.push(match (&answer.refusal, answer.rebuild_fits) {
            (_, true) => Fact::chip("Rebuild", Tone::Healthy, "Fits")
                .note(format!("the fullest disk is then {} % full", answer.fullest_disk_percent)),
            (Some(refusal), false) => {
                Fact::chip("Rebuild", Tone::Degraded, "Does not fit").note(sentence(&refusal.summary))
            }
            (None, false) => Fact::chip("Rebuild", Tone::Degraded, "Does not fit"),
        });
    }
    facts
}

/// The disk of that id.
pub fn find(disks: Vec<Disk>, id: DiskId) -> Option<Disk> {
    disks.into_iter().find(|disk| disk.view.id == id)
}
