//! What a form of the step *Group your disks* holds, and what its buttons do to the draft.
use super::super::{Posted, posted};
use super::proposals;
use crate::app::App;
use crate::error::AppError;
use crate::service::draft::Draft;
use crate::service::grouping::{Candidate, Place, Wish, WishDomain};
use model::ids::DiskId;
use model::state::HostKind;

/// The wish that a form holds; `None` when it is not the form of this step.
pub fn wish_of(form: &Posted) -> Option<Wish> {
    let kind = match posted(form, "kind") {
        "machine" => HostKind::Machine,
        "enclosure" => HostKind::Enclosure,
        "disk" => HostKind::Disk,
        _ => return None,
    };
    let named = |index: usize| form.iter().any(|(name, _)| *name == format!("n.{index}"));
    let domain = |index: usize| WishDomain {
        before: posted(form, &format!("o.{index}")).to_owned(),
        name: posted(form, &format!("n.{index}")).trim().to_owned(),
    };
    let place = |value: &str| match value.strip_prefix('d').and_then(|number| number.parse().ok()) {
        Some(index) => Place::In(index),
        None if value == "slices" => Place::Slices,
        None => Place::Out,
    };
    let ids = |prefix: &'static str| {
        let with = move |(name, value): &(String, String)| {
            let id: DiskId = name.strip_prefix(prefix)?.parse().ok()?;
            Some((id, value.clone()))
        };
        form.iter().filter_map(with)
    };
    Some(Wish {
        kind,
        domains: (0..).take_while(|index| named(*index)).map(domain).collect(),
        places: ids("g.").map(|(id, value)| (id, place(&value))).collect(),
        erase: ids("e.").collect(),
    })
}

/// Does what a button of this step asks, beyond keeping the form: takes a proposal, adds and removes domains.
///
/// # Errors
/// [`AppError::Invalid`] with the field.
pub fn act(
    draft: &mut Draft,
    rng: &dyn crate::edge::Rng,
    candidates: &[Candidate],
    form: &Posted,
    go: &str,
) -> Result<(), AppError> {
    let Some(mut wish) = wish_of(form) else {
        if go == "leave-lab" {
            let lab: Vec<String> = draft.hosts.iter().map(|host| host.name.clone()).collect();
            lab.iter().for_each(|name| draft.remove_host(name));
            (draft.lab, draft.claims) = (None, Vec::new());
        }
        return Ok(());
    };
    let lost = wish.lost(draft, candidates);
    if let Some(key) = go.strip_prefix("take:") {
        let proposals = proposals(draft, candidates, &wish.erase);
        let taken = proposals.iter().find(|proposal| proposal.title == key);
        let taken = taken.ok_or_else(|| {
            AppError::field("", "the disks have changed meanwhile; look at the groupings again and take one")
        })?;
        let erase = std::mem::take(&mut wish.erase);
        wish = Wish { erase, ..Wish::of(taken, draft) };
    } else if go == "add-domain" {
        let name = posted(form, "new_domain").trim().to_owned();
        if let Err(detail) = crate::service::auth::check_name(&name) {
            return Err(AppError::field("new_domain", detail));
        }
        if wish.domains.iter().any(|domain| domain.name.eq_ignore_ascii_case(&name)) {
            return Err(AppError::field(
                "new_domain",
                format!("there is a failure domain \"{name}\" already"),
            ));
        }
        wish.domains.push(WishDomain { before: String::new(), name });
    } else if let Some(index) = go.strip_prefix("remove-domain:").and_then(|number| number.parse().ok()) {
        remove(&mut wish, index);
    } else if let Some(id) = go.strip_prefix("drop:").and_then(|id| id.parse::<DiskId>().ok()) {
        draft.disks.retain(|disk| disk.id != id || disk.review.is_some());
        wish.places.remove(&id);
    }
    AppError::check(wish.problems().into_iter().chain(lost).collect())?;
    wish.put(draft, rng, candidates);
    Ok(())
}

/// Removes a domain; its disks are left out.
fn remove(wish: &mut Wish, index: usize) {
    if index >= wish.domains.len() {
        return;
    }
    wish.domains.remove(index);
    for place in wish.places.values_mut() {
        *place = match *place {
            Place::In(at) if at == index => Place::Out,
            Place::In(at) if at > index => Place::In(at - 1),
            other => other,
        };
    }
}

/// Whether the step may be left.
///
/// # Errors
/// [`AppError::Invalid`] that says what to do.
pub fn check(app: &App, draft: &Draft, candidates: &[Candidate]) -> Result<(), AppError> {
    if let (Some(folder), true) =
        (&app.config.inventory_dir, draft.disks.iter().any(|disk| disk.review.is_some()))
    {
        let text = format!(
            "these are disks of the recorded machine in {}: nothing of them can be claimed here; start Millpond on that machine",
            folder.display()
        );
        return Err(AppError::field("", text));
    }
    if draft.lab.is_some() || draft.claims.iter().any(|claim| !claim.capacity.is_empty()) {
        return Ok(());
    }
    let text = match (candidates.is_empty(), app.config.file_disk_dirs.is_empty()) {
        (false, _) => "take one of the groupings, or put a disk into a failure domain".to_owned(),
        (true, false) => {
            "no disk of this server can be claimed: add a file as a disk below, or attach a disk".to_owned()
        }
        (true, true) => {
            "no disk of this server can be claimed: attach one, or start the server with --file-disks DIR to \
                         use files; each reason is listed below"
                .to_owned()
        }
    };
    Err(AppError::field("", text))
}
