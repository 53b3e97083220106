//! The step *Group your disks*: ways to divide this machine side by side, and the one that was taken, to change freely.
//!
//! Invariant: what the form held is shown again, also when a part of it is wrong; the numbers beside it are those of the draft
//! that it would make.
use super::{Posted, posted};
use crate::app::{App, Cluster};
use crate::error::{AppError, FieldError};
use crate::service::disks;
use crate::service::draft::{Draft, DraftDisk};
use crate::service::grouping::{self, Candidate, Place, Wish, WishDomain};
use crate::web::format;
use crate::web::parts::{Choice, Field};
use crate::web::view::words;
use ::inventory::grouping::{Grouping, Sentence, Yield, best, propose};
use askama::Template;
use model::ids::DiskId;
use model::state::{Eligibility, HostKind};
use std::collections::{BTreeMap, BTreeSet};

mod act;

pub use act::{act, check, wish_of};

/// What a grouping gives under one policy.
#[derive(Clone, Debug, Default)]
pub struct Gives {
    /// Usable, number and unit.
    pub usable: (String, &'static str),
    /// Exact bytes.
    pub exact: String,
    /// The policy.
    pub policy: String,
    /// What it survives and what not.
    pub sentences: Vec<Sentence>,
    /// Why nothing can be stored with it.
    pub refusal: Option<String>,
    /// What would make it possible.
    pub remedy: Option<String>,
    /// What to know.
    pub warnings: Vec<String>,
}

/// The grouping of the draft in numbers; also a part of its own, sent again with every change.
#[derive(Template, Clone, Debug, Default)]
#[template(path = "wizard/gives.html")]
pub struct Summary {
    /// `None` while nothing is in a domain.
    pub gives: Option<Gives>,
    /// `3 disks`, the noun of the kind.
    pub domains: String,
    /// The page that judges every loss.
    pub href: String,
}

/// A domain of a proposal.
pub struct CardDomain {
    /// Name.
    pub name: String,
    /// Its disks in words.
    pub disks: String,
}

/// A way to divide the machine.
pub struct Card {
    /// What its button sends.
    pub key: String,
    /// One line.
    pub title: String,
    /// `3 disks`.
    pub count: String,
    /// Domains.
    pub domains: Vec<CardDomain>,
    /// What the default policy gets.
    pub gives: Gives,
    /// Whether the draft is it.
    pub taken: bool,
    /// Whether to begin with it.
    pub best: bool,
}

/// A disk or file.
pub struct Row {
    /// Id.
    pub id: String,
    /// Name.
    pub name: String,
    /// Model and serial, or path.
    pub second: String,
    /// Flash or HDD.
    pub media: &'static str,
    /// Size as printed.
    pub label: String,
    /// Size in binary units.
    pub binary: String,
    /// What it holds.
    pub contents: String,
    /// Whether claiming it erases something.
    pub holds_data: bool,
    /// Whether that was ticked.
    pub erase: bool,
    /// The mark of what it holds: the value of the tick.
    pub mark: String,
    /// Where it is: value of the choice.
    pub place: String,
    /// A file that can be taken off the list.
    pub is_file: bool,
    /// What to know.
    pub warnings: Vec<String>,
}

/// A domain being made.
pub struct DomainRows {
    /// Number of it in the form.
    pub index: usize,
    /// Name field.
    pub name: String,
    /// Name before.
    pub before: String,
    /// What is wrong with the name.
    pub error: Option<String>,
    /// Disks.
    pub disks: Vec<Row>,
    /// The cache disks whose slices serve it.
    pub slices: String,
}

/// A disk that is not offered.
pub struct Refused {
    /// Name.
    pub name: String,
    /// Model, or path.
    pub second: String,
    /// Why.
    pub reason: String,
}

/// The form.
pub struct GroupForm {
    /// A lab: its files play hosts, nothing is to be divided.
    pub lab: bool,
    /// Why this machine's disks cannot be listed, or why they cannot be claimed here.
    pub notes: Vec<String>,
    /// Proposals.
    pub cards: Vec<Card>,
    /// Kinds of domain.
    pub kinds: Vec<Choice>,
    /// The kind now.
    pub kind: String,
    /// Domains.
    pub domains: Vec<DomainRows>,
    /// Where a disk can go.
    pub places: Vec<Choice>,
    /// Disks whose slices serve all domains.
    pub slices: Vec<Row>,
    /// Disks that are left out.
    pub out: Vec<Row>,
    /// Name of a new domain.
    pub new_domain: Field,
    /// A file to add; `None` where none may be made.
    pub file: Option<[Field; 2]>,
    /// Where files may lie.
    pub file_dirs: String,
    /// Disks that are not offered.
    pub refused: Vec<Refused>,
    /// Numbers.
    pub summary: Summary,
}

/// What proposals are made of: disks that hold nothing, and those that may be erased.
fn offered(candidates: &[Candidate], erase: &BTreeMap<DiskId, String>) -> Vec<::inventory::grouping::Member> {
    grouping::members(candidates, |one| !one.holds_data || erase.get(&one.member.id) == Some(&one.mark))
}

/// The proposals, as this step shows them.
pub fn proposals(draft: &Draft, candidates: &[Candidate], erase: &BTreeMap<DiskId, String>) -> Vec<Grouping> {
    propose(&offered(candidates, erase), &grouping::policies_of(draft))
}

fn gives(one: &Yield, warnings: &[::inventory::disk::Warning]) -> Gives {
    Gives {
        usable: format::bytes_parts(one.usable.usable_bytes),
        exact: format::exact(one.usable.usable_bytes),
        policy: one.usable.policy.clone(),
        sentences: one.sentences.clone(),
        refusal: one.refusal.clone(),
        remedy: one.remedy.clone(),
        warnings: warnings.iter().map(|warning| warning.text.clone()).collect(),
    }
}

/// `3 disks`: domains by the noun of their kind.
fn counted(kind: HostKind, count: usize) -> String {
    format::plural(count as u64, words::host_noun(kind))
}

/// What the draft gives.
pub fn summary(draft: &Draft, candidates: &[Candidate]) -> Summary {
    let chosen = grouping::chosen(draft, candidates);
    Summary {
        domains: chosen
            .as_ref()
            .map_or_else(String::new, |chosen| counted(chosen.kind, chosen.domains.len())),
        gives: chosen.and_then(|chosen| Some(gives(chosen.yields.first()?, &chosen.warnings))),
        href: "/survives".to_owned(),
    }
}

fn card(grouping: &Grouping, chosen: Option<&Grouping>, names: &BTreeMap<DiskId, String>) -> Card {
    let shape =
        |domains: &[::inventory::grouping::Domain]| -> BTreeSet<(BTreeSet<DiskId>, BTreeSet<DiskId>)> {
            let set = |ids: &[DiskId]| ids.iter().copied().collect();
            domains.iter().map(|domain| (set(&domain.cache), set(&domain.capacity))).collect()
        };
    let list = |ids: &[DiskId]| -> String {
        let known: Vec<&str> = ids.iter().filter_map(|id| names.get(id)).map(String::as_str).collect();
        known.join(", ")
    };
    let domain = |domain: &::inventory::grouping::Domain| CardDomain {
        name: domain.name.clone(),
        disks: match domain.cache.is_empty() {
            true => list(&domain.capacity),
            false => format!("{} behind {}", list(&domain.capacity), list(&domain.cache)),
        },
    };
    Card {
        key: grouping.title.clone(),
        title: crate::web::view::explain::sentence(&grouping.title).trim_end_matches('.').to_owned(),
        count: counted(grouping.kind, grouping.domains.len()),
        domains: grouping.domains.iter().map(domain).collect(),
        gives: grouping.yields.first().map(|one| gives(one, &grouping.warnings)).unwrap_or_default(),
        taken: chosen.is_some_and(|chosen| {
            chosen.kind == grouping.kind && shape(&chosen.domains) == shape(&grouping.domains)
        }),
        best: false,
    }
}

/// What is said of a disk on which nothing was found: `blank` only when somebody looked.
pub fn unknown_or(blank: &str, is_read: bool) -> String {
    if is_read { blank.to_owned() } else { "Not looked into".to_owned() }
}

fn row(candidate: &Candidate, wish: &Wish) -> Row {
    let member = &candidate.member;
    let facts = candidate.device.as_ref().map(|device| &device.facts);
    let printed: Vec<&str> = facts
        .map(|facts| [&facts.model, &facts.serial].into_iter().flatten().map(String::as_str).collect())
        .unwrap_or_default();
    Row {
        id: member.id.to_string(),
        name: member.name.clone(),
        second: if printed.is_empty() { candidate.path.clone() } else { printed.join(" · ") },
        media: words::media(member.media),
        label: format::label_bytes(member.size_bytes),
        binary: format::bytes(member.size_bytes),
        contents: candidate.contents.clone().unwrap_or_else(|| unknown_or("Empty", candidate.is_read)),
        holds_data: candidate.holds_data,
        erase: wish.erases(candidate),
        mark: candidate.mark.clone(),
        place: match wish.places.get(&member.id) {
            Some(Place::In(index)) if *index < wish.domains.len() => format!("d{index}"),
            Some(Place::Slices) => "slices".into(),
            _ => String::new(),
        },
        is_file: candidate.device.is_none(),
        warnings: candidate.warnings.clone(),
    }
}

/// Disks of the machine that are not offered, each with the reason.
async fn refused(app: &App, cluster: &Cluster) -> Result<Vec<Refused>, AppError> {
    let all = disks::all(app, cluster).await?;
    let refused = all.into_iter().filter(|disk| {
        disk.device.is_some() && matches!(disk.eligibility, Eligibility::InUse | Eligibility::Ineligible)
    });
    let row = |disk: disks::Disk| Refused {
        second: disk.model.clone().unwrap_or_else(|| disk.view.path.clone()),
        name: disk.view.name.clone(),
        reason: disk.reason.unwrap_or_default(),
    };
    Ok(refused.map(row).collect())
}

/// What lies in a failure domain of the draft and is not there any more.
fn gone(draft: &Draft, candidates: &[Candidate]) -> Vec<String> {
    let is_there = |disk: &&DraftDisk| candidates.iter().any(|one| one.member.id == disk.id);
    let gone = draft.disks.iter().filter(|disk| !disk.host.is_empty() && !is_there(disk));
    let text = |disk: &DraftDisk| {
        format!(
            "{} of the failure domain {} is not there any more, or in use: with the next change here it leaves it.",
            disk.name, disk.host
        )
    };
    if draft.lab.is_some() { Vec::new() } else { gone.map(text).collect() }
}

fn notes(app: &App, problem: Option<String>, gone: Vec<String>) -> Vec<String> {
    let recorded = app.config.inventory_dir.as_ref().map(|folder| {
        format!(
            "These are the disks of the recorded machine in {}: divide them as you like; they are claimed where they are, \
             with Millpond running there.",
            folder.display()
        )
    });
    problem.into_iter().chain(gone).chain(recorded).collect()
}

impl GroupForm {
    /// The form, from what was posted or else from the draft.
    ///
    /// # Errors
    /// [`AppError::Unavailable`], [`AppError::Internal`].
    pub async fn of(
        app: &App,
        cluster: &Cluster,
        draft: &Draft,
        candidates: &[Candidate],
        form: &Posted,
        errors: &[FieldError],
    ) -> Result<Self, AppError> {
        let wish = wish_of(form).unwrap_or_else(|| Wish::from_draft(draft));
        let chosen = grouping::chosen(draft, candidates);
        let names: BTreeMap<DiskId, String> =
            candidates.iter().map(|one| (one.member.id, one.member.name.clone())).collect();
        let proposals = proposals(draft, candidates, &wish.erase);
        let best = best(&proposals);
        let mut cards: Vec<Card> =
            proposals.iter().map(|proposal| card(proposal, chosen.as_ref(), &names)).collect();
        if let Some(index) = best {
            cards[index].best = true;
        }
        let at = |place: &str| -> Vec<Row> {
            candidates.iter().map(|one| row(one, &wish)).filter(|row| row.place == place).collect()
        };
        let slices = at("slices");
        let sliced: Vec<&str> = slices.iter().map(|row| row.name.as_str()).collect();
        let domain = |(index, domain): (usize, &WishDomain)| DomainRows {
            index,
            name: domain.name.clone(),
            before: domain.before.clone(),
            error: errors
                .iter()
                .find(|error| error.field == format!("n.{index}"))
                .map(|error| error.detail.clone()),
            disks: at(&format!("d{index}")),
            slices: sliced.join(", "),
        };
        let place =
            |(index, domain): (usize, &WishDomain)| Choice::new(format!("d{index}"), domain.name.clone());
        let mut places = vec![Choice { none: true, ..Choice::new("", "Left out") }];
        places.extend(wish.domains.iter().enumerate().map(place));
        places.push(Choice::new("slices", "Slices: cache of all"));
        let typed = |name: &str| posted(form, name).to_owned();
        let optional = |field: Field| Field { required: false, ..field.checked(errors) };
        let dirs = &app.config.file_disk_dirs;
        let dirs: Vec<String> = dirs.iter().map(|dir| dir.display().to_string()).collect();
        let path = typed("file_path");
        let path = if path.is_empty() {
            dirs.first().map(|dir| format!("{dir}/")).unwrap_or_default()
        } else {
            path
        };
        let file = [
            optional(Field::text("file_path", "Path of the file", path)),
            optional(Field::text("file_size", "Size", typed("file_size")))
                .help("As 200GiB or in bytes. Leave empty when the file is there."),
        ];
        Ok(Self {
            lab: draft.lab.is_some(),
            notes: notes(app, disks::problem(app, cluster).await?, gone(draft, candidates)),
            cards,
            kinds: vec![
                Choice::new("disk", "A disk"),
                Choice::new("enclosure", "An enclosure or controller"),
                Choice::new("machine", "A machine"),
            ],
            kind: kind_value(wish.kind).to_owned(),
            domains: wish.domains.iter().enumerate().map(domain).collect(),
            places,
            out: at(""),
            slices,
            new_domain: optional(Field::text("new_domain", "Name of a new domain", typed("new_domain"))),
            file: (!dirs.is_empty()).then_some(file),
            file_dirs: dirs.join(", "),
            refused: refused(app, cluster).await?,
            summary: summary(draft, candidates),
        })
    }
}

fn kind_value(kind: HostKind) -> &'static str {
    match kind {
        HostKind::Machine | HostKind::Lab | HostKind::Ceph => "machine",
        HostKind::Enclosure => "enclosure",
        HostKind::Disk => "disk",
    }
}
