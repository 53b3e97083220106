//! Ways to divide this machine into failure domains, from the disks that could be claimed and the files that are planned.
//!
//! Map: [`candidates`] what there is to divide; [`proposals`] ways to do it; [`Wish`] what a person made of one, and how it
//! becomes hosts, claims and fault domains of the draft; [`division`] the way back. `devices` says which files share a device.
//! Invariants: a disk lies in one domain at most; disks on one device end up in one fault domain, whatever was wished; what
//! holds something is only claimed when it was ticked by name.
use crate::app::{App, Cluster};
use crate::edge::Rng;
use crate::error::{AppError, FieldError};
use crate::service::auth::check_name;
use crate::service::draft::{self, Claim, Draft, DraftDisk, DraftHost};
use crate::service::{disks, file_disks, inventory, policies};
use ::inventory::disk as device;
use ::inventory::grouping::{Division, Domain, Grouping, Member, domain_of, evaluate, free_name, propose};
use ::inventory::warning::of_division;
use model::ids::{DiskId, HostId};
use model::policy::Policy;
use model::state::{HostKind, HostRole};
use model::view::FaultDomainView;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

mod devices;
pub mod together;

/// How the fault domain of hosts on one device is called, before the name of the first.
const ONE_DEVICE: &str = "device-of-";

/// A disk or file that could lie in a failure domain.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// What grouping knows of it.
    pub member: Member,
    /// Absolute path.
    pub path: String,
    /// What it holds, in words; `None` when it is blank or the file is not there yet.
    pub contents: Option<String>,
    /// Whether somebody looked: else nobody knows that it is blank.
    pub is_read: bool,
    /// Whether it holds something, so that claiming it erases it.
    pub holds_data: bool,
    /// The mark of what it holds: a tick for erasing names it.
    pub mark: String,
    /// The block device; `None` for a file.
    pub device: Option<Arc<device::Disk>>,
    /// What to know before it is claimed.
    pub warnings: Vec<String>,
}

/// Everything that could be divided: this machine's disks (or the recorded machine's) that could be claimed, and the files of the
/// draft. Empty for a lab: its files play hosts already.
///
/// # Errors
/// [`AppError::Internal`].
pub async fn candidates(app: &App, draft: &Draft) -> Result<Vec<Candidate>, AppError> {
    if draft.lab.is_some() {
        return Ok(Vec::new());
    }
    let seen = inventory::look(app).await;
    let free = seen.disks().filter(|disk| disk.can_be_claimed());
    let mut all: Vec<Candidate> = free.map(of_device).collect();
    let files: Vec<DraftDisk> = draft.disks.iter().filter(|disk| disk.review.is_none()).cloned().collect();
    all.extend(of_files(files, &seen).await?);
    Ok(all)
}

/// Files with what they lie on; asking a file system may take its time.
async fn of_files(files: Vec<DraftDisk>, seen: &inventory::Seen) -> Result<Vec<Candidate>, AppError> {
    let known: Vec<device::Disk> = seen.disks().cloned().collect();
    let looked = tokio::task::spawn_blocking(move || {
        files.iter().map(|file| of_file(file, &known)).collect::<Vec<_>>()
    });
    looked.await.map_err(AppError::internal)
}

/// What is known of the devices behind disks that are claimed already, block devices and files alike.
///
/// # Errors
/// [`AppError::Internal`].
pub async fn described(disks: Vec<DraftDisk>, seen: &inventory::Seen) -> Result<Vec<Member>, AppError> {
    let device =
        |disk: &DraftDisk| seen.disks().find(|found| found.path() == disk.path || found.id == disk.id);
    let (devices, files): (Vec<DraftDisk>, Vec<DraftDisk>) =
        disks.into_iter().partition(|disk| device(disk).is_some());
    let known = |disk: &DraftDisk| device(disk).map(|found| Member { id: disk.id, ..Member::from(found) });
    let mut members: Vec<Member> = devices.iter().filter_map(known).collect();
    members.extend(of_files(files, seen).await?.into_iter().map(|one| one.member));
    Ok(members)
}

/// The division with hosts of one named fault domain under that name: they count as one.
pub fn named(mut division: Division, fault_domains: &[FaultDomainView]) -> Division {
    for domain in &mut division.domains {
        let named = fault_domains.iter().find(|named| named.hosts.contains(&domain.name));
        if let Some(named) = named {
            domain.name.clone_from(&named.name);
        }
    }
    division
}

/// On what a file that is to be a disk lies.
///
/// # Errors
/// [`AppError::Internal`].
pub async fn body_of(app: &App, path: std::path::PathBuf) -> Result<String, AppError> {
    let known: Vec<device::Disk> = inventory::look(app).await.disks().cloned().collect();
    let under = tokio::task::spawn_blocking(move || devices::under(&path, &known).body);
    under.await.map_err(AppError::internal)
}

fn of_device(disk: &device::Disk) -> Candidate {
    Candidate {
        member: Member::from(disk),
        path: disk.path().to_owned(),
        contents: disk.contents.summary(),
        is_read: disk.contents.was_read,
        holds_data: disk.verdict.eligibility == model::state::Eligibility::EraseNeeded,
        mark: draft::mark(&inventory::review(disk)),
        warnings: disk.warnings.iter().map(|warning| warning.text.clone()).collect(),
        device: Some(Arc::new(disk.clone())),
    }
}

/// A file: what lies on one device has one body, and the controller of that device.
fn of_file(file: &DraftDisk, known: &[device::Disk]) -> Candidate {
    let under = devices::under(std::path::Path::new(&file.path), known);
    let member = Member {
        id: file.id,
        name: file.name.clone(),
        size_bytes: file.size_bytes,
        media: under.media.unwrap_or(file.media),
        body: under.body,
        controller: under.controller,
        enclosure: under.enclosure,
    };
    Candidate {
        member,
        path: file.path.clone(),
        contents: file.holds_data.then(|| file_disks::contents(file.looked.as_ref())),
        is_read: true,
        holds_data: file.holds_data,
        mark: file.mark(),
        device: None,
        warnings: under.note.into_iter().collect(),
    }
}

/// Members of those candidates that `wanted` lets through.
pub fn members(candidates: &[Candidate], wanted: impl Fn(&Candidate) -> bool) -> Vec<Member> {
    candidates.iter().filter(|one| wanted(one)).map(|one| one.member.clone()).collect()
}

/// The policies of the draft, the default one first.
pub fn policies_of(draft: &Draft) -> Vec<Policy> {
    let (mut first, rest): (Vec<Policy>, Vec<Policy>) =
        draft.policies.iter().cloned().partition(|policy| policy.name == draft.default_policy);
    first.extend(rest);
    first
}

/// Proposals, finest first, each with what every policy gets from it.
///
/// # Errors
/// [`AppError::Unavailable`], [`AppError::Internal`].
pub async fn proposals(app: &App, cluster: &Cluster) -> Result<Vec<Grouping>, AppError> {
    let draft = draft::load(app, &cluster.key).await?.draft;
    let members = members(&candidates(app, &draft).await?, |_| true);
    Ok(propose(&members, &policies::all(app, cluster).await?))
}

/// Where a disk goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// Nowhere.
    Out,
    /// Into the domain with this index.
    In(usize),
    /// Its slices are the caches of all domains.
    Slices,
}

/// A domain as wished.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct WishDomain {
    /// The host it was before, if any: it keeps its identity.
    pub before: String,
    /// Its name.
    pub name: String,
}

/// What a person wants the failure domains to be.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Wish {
    /// Kind of every domain.
    pub kind: HostKind,
    /// The domains.
    pub domains: Vec<WishDomain>,
    /// Where each disk goes; one that is not named goes nowhere.
    pub places: BTreeMap<DiskId, Place>,
    /// Disks that hold something and may be erased, each with the mark that it was shown with.
    pub erase: BTreeMap<DiskId, String>,
}

impl Wish {
    /// The wish that makes a proposal true.
    pub fn of(grouping: &Grouping, draft: &Draft) -> Self {
        let shared = Division { kind: grouping.kind, domains: grouping.domains.clone(), members: Vec::new() };
        let shared: BTreeSet<DiskId> = shared_cache_ids(&shared);
        let mut places = BTreeMap::new();
        let mut domains = Vec::new();
        for (index, domain) in grouping.domains.iter().enumerate() {
            domains.push(WishDomain { before: domain.name.clone(), name: domain.name.clone() });
            for id in domain.capacity.iter().chain(&domain.cache) {
                places.insert(*id, if shared.contains(id) { Place::Slices } else { Place::In(index) });
            }
        }
        Self { kind: grouping.kind, domains, places, erase: draft.ticked() }
    }

    /// What the draft holds now.
    pub fn from_draft(draft: &Draft) -> Self {
        let carries = |host: &&DraftHost| !serves_others(draft, &host.name);
        let hosts: Vec<&DraftHost> = draft.hosts.iter().filter(carries).collect();
        let place = |disk: &DraftDisk| {
            let at = hosts.iter().position(|host| host.name == disk.host);
            match at {
                Some(index) => Place::In(index),
                None if draft.host(&disk.host).is_some() => Place::Slices,
                None => Place::Out,
            }
        };
        let domain = |host: &&DraftHost| WishDomain { before: host.name.clone(), name: host.name.clone() };
        Self {
            kind: hosts.first().map_or(HostKind::Disk, |host| host.kind),
            domains: hosts.iter().map(domain).collect(),
            places: draft.disks.iter().map(|disk| (disk.id, place(disk))).collect(),
            erase: draft.ticked(),
        }
    }

    /// What is wrong with the names, field by field (`n.INDEX`).
    pub fn problems(&self) -> Vec<FieldError> {
        let mut names = BTreeSet::new();
        let mut problems = Vec::new();
        for (index, domain) in self.domains.iter().enumerate() {
            let wrong = match check_name(&domain.name) {
                Err(detail) => Some(detail.to_owned()),
                Ok(()) if !names.insert(domain.name.to_lowercase()) => {
                    Some(format!("two failure domains are called \"{}\"", domain.name))
                }
                Ok(()) => None,
            };
            problems.extend(wrong.map(|detail| FieldError::new(format!("n.{index}"), detail)));
        }
        problems
    }

    /// Whether it may be erased, as it is now.
    pub fn erases(&self, candidate: &Candidate) -> bool {
        candidate.holds_data && self.erase.get(&candidate.member.id) == Some(&candidate.mark)
    }

    /// What is wrong with its disks, one by one (`disk-ID`): those that are gone, and ticks for what a disk holds no more.
    pub fn lost(&self, draft: &Draft, candidates: &[Candidate]) -> Vec<FieldError> {
        let find = |id: &DiskId| candidates.iter().find(|one| one.member.id == *id);
        let gone = self.places.iter().filter(|(id, place)| **place != Place::Out && find(id).is_none());
        let gone = gone.map(|(id, _)| {
            let name = draft.disk(*id).map_or_else(|| id.to_string(), |disk| disk.name.clone());
            FieldError::new(
                "",
                format!("{name} is not there any more, or in use: it is in no failure domain now"),
            )
        });
        let ticked = self.erase.keys().filter_map(find).filter(|one| one.holds_data && !self.erases(one));
        let ticked = ticked.map(|one| {
            let detail = disks::changed(&one.member.name, one.contents.as_deref());
            FieldError::new(format!("disk-{}", one.member.id), detail)
        });
        gone.chain(ticked).collect()
    }

    /// Puts the wish into the draft: hosts, disks, claims and fault domains. What the engine is told later follows from these alone.
    pub fn put(&self, draft: &mut Draft, rng: &dyn Rng, candidates: &[Candidate]) {
        let mut slices: Vec<&Candidate> =
            candidates.iter().filter(|one| self.place(one) == Place::Slices).collect();
        // Dealt out as proposals deal them: the largest first.
        slices.sort_by_key(|one| (std::cmp::Reverse(one.member.size_bytes), one.member.name.as_str()));
        let before = std::mem::take(&mut draft.hosts);
        let host = |name: &str, old: &str, kind: HostKind| {
            let known = before.iter().find(|host| host.name == old);
            let id = known.map_or_else(|| HostId::from_random(rng.bytes()), |known| known.id);
            DraftHost { id, name: name.to_owned(), kind, role: HostRole::Data }
        };
        let mut hosts: Vec<DraftHost> =
            self.domains.iter().map(|domain| host(&domain.name, &domain.before, self.kind)).collect();
        let mut names: BTreeSet<String> = hosts.iter().map(|host| host.name.clone()).collect();
        // A disk whose slices serve several domains is of none of them: its own host can be lost, and only that takes it along.
        let mut homes: BTreeMap<DiskId, String> = BTreeMap::new();
        for cache in &slices {
            let name = free_name(&cache.member.name, &mut names);
            hosts.push(host(&name, &name, HostKind::Disk));
            homes.insert(cache.member.id, name);
        }
        for (id, place) in &self.places {
            if let Place::In(index) = place
                && let Some(domain) = self.domains.get(*index)
            {
                homes.insert(*id, domain.name.clone());
            }
        }
        draft.hosts = hosts;
        put_disks(draft, candidates, &homes);
        let old = std::mem::take(&mut draft.claims);
        draft.claims = self.claims(&slices, candidates, &old);
        draft.fault_domains = self.kept(draft);
        draft.fault_domains = together::settled(draft);
    }

    /// The fault domains that a person named, with the hosts that are still there under the names that they have now.
    fn kept(&self, draft: &Draft) -> Vec<FaultDomainView> {
        let renamed = |host: &String| {
            let domain = self.domains.iter().find(|domain| domain.before == *host);
            let name = domain.map_or(host, |domain| &domain.name);
            draft.host(name).map(|host| host.name.clone())
        };
        let by_hand = draft.fault_domains.iter().filter(|domain| !domain.name.starts_with(ONE_DEVICE));
        let now = by_hand.map(|domain| FaultDomainView {
            name: domain.name.clone(),
            hosts: domain.hosts.iter().filter_map(renamed).collect(),
        });
        now.filter(|domain| !domain.hosts.is_empty()).collect()
    }

    fn place(&self, candidate: &Candidate) -> Place {
        self.places.get(&candidate.member.id).copied().unwrap_or(Place::Out)
    }

    /// Claims of the domains: roles as they were where the disks of a domain are the same, else as they are recommended.
    fn claims(&self, slices: &[&Candidate], candidates: &[Candidate], old: &[Claim]) -> Vec<Claim> {
        let mut claims = Vec::new();
        for (index, domain) in self.domains.iter().enumerate() {
            let group: Vec<&Candidate> =
                candidates.iter().filter(|one| self.place(one) == Place::In(index)).collect();
            let members: Vec<&Member> = group.iter().map(|one| &one.member).collect();
            let ids: BTreeSet<DiskId> = members.iter().map(|member| member.id).collect();
            let known = old.iter().find(|claim| claim.host == domain.before && own_disks(claim) == ids);
            let Domain { mut cache, mut capacity, .. } = match known {
                Some(claim) if slices.is_empty() => {
                    let (cache, capacity) = (claim.cache.clone(), claim.capacity.clone());
                    Domain { name: domain.name.clone(), cache, capacity }
                }
                _ => domain_of(domain.name.clone(), &members),
            };
            let one_body = members.iter().all(|member| member.body == members[0].body);
            if !slices.is_empty() || one_body {
                capacity.append(&mut cache);
            }
            if let Some(slice) = (!slices.is_empty()).then(|| slices[index % slices.len()]) {
                cache = vec![slice.member.id];
            }
            if capacity.is_empty() {
                continue;
            }
            let used = group.iter().copied().chain(slices.iter().copied());
            let mut claim = Claim { host: domain.name.clone(), cache, capacity, ..Claim::default() };
            for one in used.filter(|one| self.erases(one)) {
                if own_disks(&claim).contains(&one.member.id) {
                    claim.tick(one.member.id, one.mark.clone());
                }
            }
            claims.push(claim);
        }
        claims
    }
}

fn own_disks(claim: &Claim) -> BTreeSet<DiskId> {
    claim.cache.iter().chain(&claim.capacity).copied().collect()
}

fn shared_cache_ids(division: &Division) -> BTreeSet<DiskId> {
    let mut users: BTreeMap<DiskId, u32> = BTreeMap::new();
    let caches = division.domains.iter().flat_map(|domain| &domain.cache);
    caches.for_each(|id| *users.entry(*id).or_default() += 1);
    users.into_iter().filter(|(_, count)| *count > 1).map(|(id, _)| id).collect()
}

/// Whether a host of the draft only holds cache disks whose slices serve other hosts.
pub fn serves_others(draft: &Draft, host: &str) -> bool {
    let claims = draft.claims.iter().filter(|claim| claim.host != host);
    let mut caches = claims.flat_map(|claim| &claim.cache);
    caches.any(|id| draft.disk(*id).is_some_and(|disk| disk.host == host))
}

/// Disks of the draft: every file, and the devices that lie in a domain.
fn put_disks(draft: &mut Draft, candidates: &[Candidate], homes: &BTreeMap<DiskId, String>) {
    let home = |id: DiskId| homes.get(&id).cloned().unwrap_or_default();
    draft.disks.retain(|disk| disk.review.is_none());
    for disk in &mut draft.disks {
        disk.host = home(disk.id);
        // What the file lies on is only known by looking.
        let known = candidates.iter().find(|one| one.member.id == disk.id);
        disk.media = known.map_or(disk.media, |known| known.member.media);
        if let Some(known) = known {
            disk.body.clone_from(&known.member.body);
        }
    }
    let placed = candidates.iter().filter(|one| one.device.is_some() && homes.contains_key(&one.member.id));
    draft.disks.extend(placed.map(|one| DraftDisk {
        id: one.member.id,
        host: home(one.member.id),
        name: one.member.name.clone(),
        path: one.path.clone(),
        size_bytes: one.member.size_bytes,
        media: one.member.media,
        body: one.member.body.clone(),
        make_file: false,
        holds_data: one.holds_data,
        review: one.device.as_ref().map(|device| inventory::review(device)),
        looked: None,
    }));
}

/// The division that the claims of a draft make. A disk that is no candidate any more stands for itself.
pub fn division(draft: &Draft, candidates: &[Candidate]) -> Division {
    let mut members = members(candidates, |_| true);
    for disk in &draft.disks {
        if !members.iter().any(|member| member.id == disk.id) {
            members.push(Member {
                id: disk.id,
                name: disk.name.clone(),
                size_bytes: disk.size_bytes,
                media: disk.media,
                body: if disk.body.is_empty() { &disk.path } else { &disk.body }.clone(),
                controller: None,
                enclosure: None,
            });
        }
    }
    let domain = |claim: &Claim| Domain {
        name: claim.host.clone(),
        cache: claim.cache.clone(),
        capacity: claim.capacity.clone(),
    };
    let kind = draft.claims.first().and_then(|claim| draft.host(&claim.host)).map(|host| host.kind);
    Division {
        kind: kind.unwrap_or(HostKind::Disk),
        domains: draft.claims.iter().map(domain).collect(),
        members,
    }
}

/// What the roles of the draft's claims will cost, a sentence with numbers each.
pub fn costs(draft: &Draft, candidates: &[Candidate]) -> Vec<String> {
    let rate = |id: DiskId| {
        let known = candidates.iter().find(|one| one.member.id == id)?;
        known.device.as_ref()?.facts.rotation_rate
    };
    let division = division(draft, candidates);
    let uneven = policies_of(draft).first().map(|policy| {
        let domains = division.domains.clone();
        evaluate(division.kind, "", domains, &division.members, std::slice::from_ref(policy)).warnings
    });
    let mut texts: Vec<String> =
        of_division(&division, &rate).into_iter().map(|warning| warning.text).collect();
    let known = |warning: &device::Warning| warning.kind == device::WarningKind::UnevenDomains;
    texts.extend(uneven.into_iter().flatten().filter(known).map(|warning| warning.text));
    texts
}

/// What the draft's domains survive and yield; `None` while nothing is in them.
pub fn chosen(draft: &Draft, candidates: &[Candidate]) -> Option<Grouping> {
    let Division { kind, domains, members } = division(draft, candidates);
    let title = "your failure domains";
    (!domains.is_empty()).then(|| evaluate(kind, title, domains, &members, &policies_of(draft)))
}

#[cfg(test)]
mod tests;
