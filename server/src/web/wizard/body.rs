//! What the form of each step shows, taken from the draft; and the answer that the stepper shows for it.
use super::claim::{self, DiskHost};
use super::group::GroupForm;
use super::{Posted, Step, posted, size};
use crate::app::{App, Cluster};
use crate::error::{AppError, FieldError};
use crate::service::draft::{Draft, SpaceEfficiency};
use crate::service::grouping::{self, Candidate};
use crate::web::format;
use crate::web::parts::{Choice, Fact, Field};
use crate::web::view::words;
use model::arithmetic;
use model::engine::Capabilities;
use model::ids::DiskId;
use model::policy::Policy;
use model::state::ClusterType;
use std::collections::BTreeSet;

/// A choice of a step, with what is missing when it cannot be made.
pub struct Pick {
    /// Value.
    pub value: &'static str,
    /// Name.
    pub name: &'static str,
    /// What it means.
    pub text: &'static str,
    /// Chosen.
    pub chosen: bool,
    /// Why it cannot be chosen.
    pub why_not: String,
}

/// A host in a list.
pub struct HostRow {
    /// Name.
    pub name: String,
    /// Kind.
    pub kind: &'static str,
    /// Disks in words.
    pub disks: String,
    /// Its named fault domain.
    pub domain: String,
}

/// A policy of the draft.
pub struct PolicyRow {
    /// Name.
    pub name: String,
    /// In words.
    pub words: String,
    /// What it needs and costs.
    pub note: String,
    /// The default.
    pub chosen: bool,
    /// Whether it may be removed.
    pub removable: bool,
}

/// The form of a step.
#[allow(clippy::large_enum_variant, reason = "one a request, moved once into the page")]
pub enum Body {
    /// Name and hosts.
    Hosts { name: Field, hosts: Vec<HostRow>, lab: [Field; 3], host: Field, file: Option<[Field; 3]> },
    /// Failure domains out of this machine's disks.
    Group { group: GroupForm },
    /// One of several.
    Picks { legend: &'static str, name: &'static str, picks: Vec<Pick>, more: Vec<Pick> },
    /// Fault domain of each host.
    Domains { hosts: Vec<HostRow>, known: Vec<String>, together: Vec<String> },
    /// Claims.
    Disks { hosts: Vec<DiskHost>, costs: Vec<String> },
    /// Policies and the editor.
    Policies {
        rows: Vec<PolicyRow>,
        name: Field,
        methods: Vec<Choice>,
        method: String,
        failures: Vec<Choice>,
        failures_value: String,
        legs: Vec<Choice>,
        legs_value: String,
        stripe: Field,
        reservation: Field,
        iops: Field,
        checksum: bool,
        force: bool,
    },
    /// Key.
    Licence { key: Field, community: bool },
    /// Everything.
    Review {
        facts: Vec<Fact>,
        made: Vec<String>,
        erased: Vec<String>,
        policies: Vec<String>,
        problems: Vec<(String, String)>,
        keep: Option<super::review::Keep>,
        costs: Vec<String>,
    },
}

impl Body {
    /// The form of a step, filled from the draft, or from what was posted where the draft cannot hold it.
    ///
    /// # Errors
    /// [`AppError::Unavailable`], [`AppError::Internal`].
    pub async fn of(
        app: &App,
        cluster: &Cluster,
        draft: &Draft,
        step: Step,
        (form, candidates): (&Posted, &[Candidate]),
        errors: &[FieldError],
    ) -> Result<Self, AppError> {
        let can = cluster.engine.capabilities();
        Ok(match step {
            Step::Hosts => hosts(app, draft, form, errors),
            Step::Group => {
                Self::Group { group: GroupForm::of(app, cluster, draft, candidates, form, errors).await? }
            }
            Step::Type => types(draft, &can),
            Step::Services => services(draft, &can),
            Step::Domains => {
                let known = draft.fault_domains.iter().map(|domain| domain.name.clone()).collect();
                let division = grouping::division(draft, &[]);
                let lists = division.together().into_iter();
                let together = lists.map(|hosts| grouping::together::sentence(&hosts)).collect();
                Self::Domains {
                    together,
                    hosts: draft.hosts.iter().map(|host| host_row(draft, host)).collect(),
                    known,
                }
            }
            Step::Disks => {
                let costs = if draft.lab.is_some() { Vec::new() } else { grouping::costs(draft, candidates) };
                Self::Disks { hosts: claim::hosts(app, cluster, draft).await?, costs }
            }
            Step::Policies => policies(draft, &can, form, errors),
            Step::Licence => {
                let key = Field::text(
                    "key",
                    "Licence key",
                    draft.licence_key.clone().unwrap_or_else(|| posted(form, "key").into()),
                );
                Self::Licence { key: key.checked(errors), community: draft.licence_key.is_none() }
            }
            Step::Review => super::review::review(draft, &can, &app.config, candidates),
        })
    }
}

fn kind(kind: model::state::HostKind) -> &'static str {
    match kind {
        model::state::HostKind::Lab => "lab host",
        other => words::host_noun(other),
    }
}

fn host_row(draft: &Draft, host: &crate::service::draft::DraftHost) -> HostRow {
    let disks: Vec<u64> =
        draft.disks.iter().filter(|disk| disk.host == host.name).map(|disk| disk.size_bytes).collect();
    let all = size(disks.iter().sum());
    HostRow {
        name: host.name.clone(),
        kind: kind(host.kind),
        disks: format!("{}, {all}", format::plural(disks.len() as u64, "disk")),
        domain: domain_of(draft, &host.name),
    }
}

pub(super) fn domain_of(draft: &Draft, host: &str) -> String {
    let domains = grouping::together::settled(draft);
    let domain = domains.into_iter().find(|domain| domain.hosts.iter().any(|name| name == host));
    domain.map(|domain| domain.name).unwrap_or_default()
}

fn hosts(app: &App, draft: &Draft, form: &Posted, errors: &[FieldError]) -> Body {
    let typed = |name: &str, otherwise: String| match posted(form, name) {
        "" => otherwise,
        typed => typed.to_owned(),
    };
    let shape = draft.lab.clone();
    let (count, cache, capacity) = shape.map_or(("4".into(), "1x256MiB".into(), "2x1GiB".into()), |shape| {
        let disks = |disks: model::plan::DiskShape| match disks.count {
            0 => "0".to_owned(),
            count => format!("{count}x{}MiB", disks.size_bytes >> 20),
        };
        (shape.hosts.to_string(), disks(shape.cache), disks(shape.capacity))
    });
    let optional = |field: Field| Field { required: false, ..field };
    let lab = [
        Field { short: true, ..Field::text("lab_hosts", "Hosts", typed("lab_hosts", count)) },
        Field::text("lab_cache", "Cache disks of each", typed("lab_cache", cache))
            .help("Count x size; 0 for none."),
        Field::text("lab_capacity", "Capacity disks of each", typed("lab_capacity", capacity))
            .help("Count x size."),
    ];
    let file = [
        Field::text("file_host", "Host", posted(form, "file_host")),
        Field::text("file_path", "Path of the file", posted(form, "file_path")),
        Field::text("file_size", "Size in bytes or with a unit", posted(form, "file_size"))
            .help("Leave empty when the file is there."),
    ];
    let may_add_files = !app.config.file_disk_dirs.is_empty();
    Body::Hosts {
        name: Field::text("name", "Name of the cluster", typed("name", draft.name.clone())).checked(errors),
        hosts: draft.hosts.iter().map(|host| host_row(draft, host)).collect(),
        lab: lab.map(|field| optional(field.checked(errors))),
        host: optional(Field::text("host", "Name of a host", posted(form, "host")).checked(errors)),
        file: may_add_files.then(|| file.map(|field| optional(field.checked(errors)))),
    }
}

pub(super) fn why_not(can: &Capabilities, feature: &str) -> String {
    if can.can(feature) {
        return String::new();
    }
    let why = can.features.get(feature).and_then(|feature| feature.why_not.clone());
    why.unwrap_or_else(|| "not in this release".into())
}

fn types(draft: &Draft, can: &Capabilities) -> Body {
    let pick = |value, name, text, kind, feature: &str| Pick {
        value,
        name,
        text,
        chosen: draft.cluster_type == kind,
        why_not: if feature.is_empty() { String::new() } else { why_not(can, feature) },
    };
    let picks = vec![
        pick(
            "single-site",
            "Single site",
            "All hosts in one place, with or without fault domains. Survives the loss of hosts or racks.",
            ClusterType::SingleSite,
            "",
        ),
        pick(
            "two-node",
            "Two nodes and a witness",
            "Two hosts with data and a third that only votes.",
            ClusterType::TwoNode,
            "two-node",
        ),
        pick(
            "stretched",
            "Stretched over two sites",
            "A full copy in each of two sites, and a witness in a third. Survives the loss of a site.",
            ClusterType::Stretched,
            "stretched",
        ),
        pick(
            "compute",
            "Compute only",
            "Uses the storage of another cluster.",
            ClusterType::Compute,
            "compute",
        ),
    ];
    Body::Picks { legend: "Cluster type", name: "type", picks, more: Vec::new() }
}

fn services(draft: &Draft, can: &Capabilities) -> Body {
    let chosen = draft.services.space_efficiency;
    let pick = |value, name, text, kind, feature: &str| Pick {
        value,
        name,
        text,
        chosen: chosen == kind,
        why_not: if feature.is_empty() { String::new() } else { why_not(can, feature) },
    };
    let picks = vec![
        pick(
            "none",
            "No space efficiency",
            "Every block takes its full size. Fastest.",
            SpaceEfficiency::None,
            "",
        ),
        pick(
            "compression",
            "Compression",
            "Blocks are compressed when they are written back.",
            SpaceEfficiency::Compression,
            "compression",
        ),
        pick(
            "deduplication",
            "Deduplication and compression",
            "Equal blocks of a disk group are stored once.",
            SpaceEfficiency::Deduplication,
            "deduplication",
        ),
    ];
    let more = vec![Pick {
        value: "on",
        name: "Encryption at rest",
        text: "Disks can be thrown away without wiping them.",
        chosen: draft.services.encryption,
        why_not: why_not(can, "encryption"),
    }];
    Body::Picks { legend: "Space efficiency", name: "space_efficiency", picks, more }
}

fn policies(draft: &Draft, can: &Capabilities, form: &Posted, errors: &[FieldError]) -> Body {
    let typed = |name: &str, otherwise: &str| match posted(form, name) {
        "" => otherwise.to_owned(),
        typed => typed.to_owned(),
    };
    let row = |policy: &Policy| PolicyRow {
        name: policy.name.clone(),
        words: words::policy(policy, super::panel::noun(draft)),
        note: format!(
            "{:.2}× space, needs {}",
            arithmetic::capacity_factor(policy),
            format::plural(arithmetic::fault_domains_needed(policy).into(), "fault domain")
        ),
        chosen: policy.name == draft.default_policy,
        removable: policy.name != Policy::built_in().name && policy.name != draft.default_policy,
    };
    let method = |value: &str, word: &str| Choice {
        why_not: if value == "raid1" { String::new() } else { why_not(can, value) },
        ..Choice::new(value, word)
    };
    let number = |number: u8| Choice::new(number.to_string(), number.to_string());
    let field = |name, label, otherwise: &str| Field {
        short: true,
        required: false,
        ..Field::text(name, label, typed(name, otherwise)).checked(errors)
    };
    Body::Policies {
        rows: draft.policies.iter().map(row).collect(),
        name: Field {
            required: false,
            ..Field::text("name", "Name of the new policy", typed("name", "")).checked(errors)
        },
        methods: vec![method("raid1", "Mirror"), method("raid5", "RAID 5"), method("raid6", "RAID 6")],
        method: typed("fault_tolerance_method", "raid1"),
        failures: (0..=3).map(number).collect(),
        failures_value: typed("failures_to_tolerate", "1"),
        legs: if ["raid5", "raid6"].iter().any(|name| why_not(can, name).is_empty()) {
            [2, 3, 4].map(number).to_vec()
        } else {
            Vec::new()
        },
        legs_value: typed("data_legs", "3"),
        stripe: field("stripe_width", "Stripes of each copy", "1").help("1 to 12 disks."),
        reservation: field("object_space_reservation_percent", "Reserved at creation, %", "0")
            .help("0 is thin."),
        iops: field("iops_limit", "I/O limit a second", "").help("Empty is none. Counted in 32 KiB."),
        checksum: form.is_empty() || posted(form, "checksum") == "on",
        force: posted(form, "force_provisioning") == "on",
    }
}

/// The answer to a step so far, for the stepper.
pub fn answer(draft: &Draft, step: Step) -> String {
    let count = |number: usize, one: &str| format::plural(number as u64, one);
    match step {
        Step::Hosts => match &draft.lab {
            Some(_) => format!("lab of {}", count(draft.hosts.len(), "host")),
            None => {
                // A host whose disks only carry logs of others is no domain.
                let hosts = draft.hosts.iter().filter(|host| !grouping::serves_others(draft, &host.name));
                count(hosts.count(), super::panel::noun(draft))
            }
        },
        Step::Group => match draft.lab {
            Some(_) => "a lab has its hosts".to_owned(),
            None => count(draft.claims.len(), super::panel::noun(draft)),
        },
        Step::Type => words::cluster_type(draft.cluster_type).to_owned(),
        Step::Services => match (draft.services.space_efficiency, draft.services.encryption) {
            (SpaceEfficiency::None, false) => "none".to_owned(),
            (SpaceEfficiency::None, true) => "encryption".to_owned(),
            (_, false) => "space efficiency".to_owned(),
            (_, true) => "space efficiency, encryption".to_owned(),
        },
        Step::Domains => match grouping::together::settled(draft).len() {
            0 => "each host is its own".to_owned(),
            number => count(number, "fault domain"),
        },
        Step::Disks => {
            let disks: BTreeSet<DiskId> = draft
                .claims
                .iter()
                .flat_map(|claim| claim.cache.iter().chain(&claim.capacity))
                .copied()
                .collect();
            let disks = disks.len();
            format!("{} for {}", count(disks, "disk"), count(draft.claims.len(), super::panel::noun(draft)))
        }
        Step::Policies => {
            format!("{}, default is {}", count(draft.policies.len(), "policy"), draft.default_policy)
        }
        Step::Licence => {
            if draft.licence_key.is_some() {
                "a key".to_owned()
            } else {
                "Community".to_owned()
            }
        }
        Step::Review => String::new(),
    }
}
