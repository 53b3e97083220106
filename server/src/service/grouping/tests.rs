//! From a proposal to the draft, to the plan, and back.
use super::*;
use crate::edge::SystemRng;
use crate::service::plan;
use ::inventory::grouping::best;
use model::claims::Fate;
use model::engine::{Capabilities, EngineKind};
use model::state::Media;

const GB: u64 = 1_000_000_000;

fn candidate(number: u128, name: &str, gigabytes: u64, media: Media) -> Candidate {
    let member = Member {
        id: DiskId(uuid::Uuid::from_u128(number)),
        name: name.into(),
        size_bytes: gigabytes * GB,
        media,
        body: name.into(),
        controller: None,
        enclosure: None,
    };
    let path = format!("/dev/{name}");
    Candidate {
        member,
        path,
        contents: None,
        is_read: true,
        holds_data: false,
        mark: "new".into(),
        device: None,
        warnings: Vec::new(),
    }
}

/// A box with one flash disk and three rotating ones; here all of them are files, so that nothing is asked of this machine.
fn mixed() -> (Draft, Vec<Candidate>) {
    let candidates = vec![
        candidate(1, "nvme0n1", 500, Media::Flash),
        candidate(2, "sda", 4000, Media::Hdd),
        candidate(3, "sdb", 4000, Media::Hdd),
        candidate(4, "sdc", 2000, Media::Hdd),
    ];
    let mut draft = Draft::new(&SystemRng, None);
    draft.name = "box".into();
    draft.disks = candidates.iter().map(draft_disk).collect();
    (draft, candidates)
}

fn draft_disk(one: &Candidate) -> DraftDisk {
    DraftDisk {
        id: one.member.id,
        host: String::new(),
        name: one.member.name.clone(),
        path: one.path.clone(),
        size_bytes: one.member.size_bytes,
        media: one.member.media,
        body: one.member.body.clone(),
        make_file: true,
        holds_data: one.holds_data,
        review: None,
        looked: None,
    }
}

fn can() -> Capabilities {
    Capabilities { engine: EngineKind::Native, features: BTreeMap::new() }
}

fn take(draft: &mut Draft, candidates: &[Candidate], index: usize) -> Grouping {
    let proposals = propose(&members(candidates, |_| true), &policies_of(draft));
    Wish::of(&proposals[index], draft).put(draft, &SystemRng, candidates);
    proposals[index].clone()
}

#[test]
fn every_proposal_becomes_a_draft_that_says_the_same() {
    let (mut draft, candidates) = mixed();
    let count = propose(&members(&candidates, |_| true), &policies_of(&draft)).len();
    assert_eq!(count, 3);
    for index in 0..count {
        let proposal = take(&mut draft, &candidates, index);
        let chosen = chosen(&draft, &candidates).expect("something is chosen");
        assert_eq!(chosen.yields, proposal.yields, "{}", proposal.title);
        assert_eq!((chosen.kind, chosen.domains.len()), (proposal.kind, proposal.domains.len()));
        let plan = plan::plan(&draft, &can()).unwrap_or_else(|error| panic!("{}: {error}", proposal.title));
        let again = Wish::from_draft(&draft);
        let before = draft.clone();
        again.put(&mut draft, &SystemRng, &candidates);
        assert_eq!(draft, before, "what is shown is what is there");
        assert!(plan.hosts.iter().all(|host| host.kind == proposal.kind || host.name == "nvme0n1"));
    }
}

#[test]
fn a_shared_cache_has_a_host_of_its_own() {
    let (mut draft, candidates) = mixed();
    let proposal = take(&mut draft, &candidates, 1);
    assert!(proposal.title.contains("slice"), "{}", proposal.title);
    let plan = plan::plan(&draft, &can()).expect("a plan");
    let home = plan.hosts.iter().find(|host| host.name == "nvme0n1").expect("the cache has a host").id;
    assert_eq!(plan.claims.len(), 3);
    assert!(plan.claims.iter().all(|claim| claim.cache_host == Some(home) && claim.host != home));
    assert!(serves_others(&draft, "nvme0n1") && !serves_others(&draft, "sda"));
    // The picture knows all that goes with it.
    let picture = plan::picture(&draft, model::units::Timestamp(0));
    let cache: Vec<_> = picture.disks.iter().filter(|disk| disk.name == "nvme0n1").collect();
    assert_eq!((cache.len(), cache[0].serves.len()), (1, 2));
    let lone = model::claims::of_snapshot(&picture, &|_| None);
    let verdict = model::claims::verdict(&lone, &Policy::built_in(), false);
    assert_eq!(verdict.single("cache disk nvme0n1").map(model::claims::Claim::worst), Some(Fate::Lost));
    assert_eq!(verdict.single("disk sda").map(model::claims::Claim::worst), Some(Fate::Reduced));
    // A cache disk of a host with data cannot be shared: its host would take the others along.
    let mut wrong = draft.clone();
    wrong.disks.iter_mut().find(|disk| disk.name == "nvme0n1").expect("listed").host = "sda".into();
    let error = plan::plan(&wrong, &can()).expect_err("refused").to_string();
    assert!(error.contains("give it a host of its own"), "{error}");
}

#[test]
fn files_on_one_device_share_a_fault_domain() {
    let (mut draft, mut candidates) = mixed();
    candidates[1].member.body = "device sdx".into();
    candidates[2].member.body = "device sdx".into();
    let places = [(1, 0), (2, 1), (3, 2), (4, 3)];
    let wish = Wish {
        kind: HostKind::Disk,
        domains: ["a", "b", "c", "d"]
            .map(|name| WishDomain { before: String::new(), name: name.into() })
            .to_vec(),
        places: places
            .iter()
            .map(|(number, index)| (DiskId(uuid::Uuid::from_u128(*number)), Place::In(*index)))
            .collect(),
        erase: BTreeMap::new(),
    };
    wish.put(&mut draft, &SystemRng, &candidates);
    assert_eq!(draft.fault_domains.len(), 1);
    assert_eq!(draft.fault_domains[0].hosts, ["b", "c"]);
    let chosen = chosen(&draft, &candidates).expect("chosen");
    assert_eq!(chosen.yields[0].usable.has_fault_domains, 3);
    let picture = plan::picture(&draft, model::units::Timestamp(0));
    let domains = model::placement::Topology::from_snapshot(&picture).usable_domains().len();
    assert_eq!(domains, 3, "the engine counts as the page does");
    // Whatever the draft says of fault domains: the plan has them together, or is refused.
    draft.fault_domains.clear();
    let made = plan::plan(&draft, &can()).expect("a plan");
    assert_eq!(made.fault_domains.len(), 1);
    assert_eq!(made.fault_domains[0].hosts, ["b", "c"]);
    let apart =
        ["b", "c"].map(|host| FaultDomainView { name: format!("of-{host}"), hosts: vec![host.into()] });
    draft.fault_domains = apart.to_vec();
    let error = plan::plan(&draft, &can()).expect_err("refused").to_string();
    assert!(error.contains("b and c lie on one device"), "{error}");
    assert!(draft.set_fault_domains(apart.to_vec()).is_err());
    // A cluster that runs takes no second host on a device that carries data of another.
    let (old, new): (Vec<Claim>, Vec<Claim>) =
        draft.claims.iter().cloned().partition(|claim| claim.host != "c");
    let running = division(&Draft { claims: old, ..draft.clone() }, &candidates);
    let torn = |domains: &[FaultDomainView]| together::torn(&draft, &new, &running, domains);
    assert_eq!(torn(&[])[0].field, "claims[0].capacity");
    assert!(torn(&[])[0].detail.contains("claim the disk for b"), "{:?}", torn(&[]));
    assert_eq!(torn(&apart).len(), 1);
    let shelf = FaultDomainView { name: "shelf".into(), hosts: vec!["b".into(), "c".into()] };
    assert!(torn(std::slice::from_ref(&shelf)).is_empty());
    let all = division(&draft, &candidates);
    assert_eq!(together::split(&all, &[], false).len(), 1, "a cluster that runs is told of both");
    assert!(together::split(&all, &[shelf], false).is_empty());
}

#[test]
fn what_holds_something_is_claimed_only_when_it_was_ticked() {
    let (mut draft, mut candidates) = mixed();
    candidates[3].holds_data = true;
    draft.disks[3].holds_data = true;
    take(&mut draft, &candidates, 0);
    assert!(draft.claims.iter().all(|claim| claim.erase.is_empty()));
    assert!(plan::plan(&draft, &can()).is_err(), "nobody ticked it");
    let mut wish = Wish::from_draft(&draft);
    wish.erase.insert(candidates[3].member.id, candidates[3].mark.clone());
    wish.put(&mut draft, &SystemRng, &candidates);
    assert_eq!(draft.claims.iter().map(|claim| claim.erase.len()).sum::<usize>(), 1);
    assert!(plan::plan(&draft, &can()).is_ok());
}

#[test]
fn names_are_checked_and_roles_survive_a_rename() {
    let (mut draft, candidates) = mixed();
    take(&mut draft, &candidates, 2);
    // The person lets the flash disk hold data, too.
    let all: Vec<DiskId> = candidates.iter().map(|one| one.member.id).collect();
    draft.claims[0] =
        Claim { host: draft.claims[0].host.clone(), cache: vec![], capacity: all, ..Claim::default() };
    let mut wish = Wish::from_draft(&draft);
    let id = draft.hosts[0].id;
    wish.domains[0].name = "box-1".into();
    wish.put(&mut draft, &SystemRng, &candidates);
    assert_eq!(
        (draft.hosts[0].id, draft.claims[0].host.as_str(), draft.claims[0].cache.len()),
        (id, "box-1", 0)
    );
    wish.domains.push(WishDomain { before: String::new(), name: "BOX-1".into() });
    wish.domains.push(WishDomain { before: String::new(), name: "../x".into() });
    let fields: Vec<String> = wish.problems().into_iter().map(|problem| problem.field).collect();
    assert_eq!(fields, ["n.1", "n.2"]);
}

#[test]
fn what_survives_everything_is_recommended() {
    let (draft, candidates) = mixed();
    let proposals = propose(&members(&candidates, |_| true), &policies_of(&draft));
    assert_eq!(best(&proposals), Some(0));
    assert!(costs(&draft, &candidates).is_empty(), "nothing is claimed yet");
}

#[test]
fn fault_domains_set_by_hand_stay() {
    let (mut draft, mut candidates) = mixed();
    take(&mut draft, &candidates, 0);
    let names: Vec<String> = draft.hosts.iter().map(|host| host.name.clone()).collect();
    let rack = |hosts: &[&String]| FaultDomainView {
        name: "rack".into(),
        hosts: hosts.iter().map(|host| (*host).clone()).collect(),
    };
    draft.fault_domains = vec![rack(&[&names[0], &names[1]])];
    let mut wish = Wish::from_draft(&draft);
    wish.domains[0].name = "attic".into();
    wish.put(&mut draft, &SystemRng, &candidates);
    assert_eq!(draft.fault_domains, [rack(&[&"attic".into(), &names[1]])], "also under a new name");
    // What lies on one device joins it, and leaves no domain of its own behind when it is split again.
    let capacity = draft.claims[1].capacity[0];
    let body = candidates.iter().find(|one| one.member.id == capacity).expect("known").member.body.clone();
    let third = draft.claims[2].capacity[0];
    let other = candidates.iter_mut().find(|one| one.member.id == third).expect("known");
    let own = std::mem::replace(&mut other.member.body, body);
    Wish::from_draft(&draft).put(&mut draft, &SystemRng, &candidates);
    assert_eq!(draft.fault_domains.len(), 1);
    assert_eq!(draft.fault_domains[0].hosts, ["attic", &names[1], &names[2]]);
    draft.fault_domains.clear();
    Wish::from_draft(&draft).put(&mut draft, &SystemRng, &candidates);
    assert!(draft.fault_domains[0].name.starts_with(ONE_DEVICE));
    candidates.iter_mut().find(|one| one.member.id == third).expect("known").member.body = own;
    Wish::from_draft(&draft).put(&mut draft, &SystemRng, &candidates);
    assert!(draft.fault_domains.is_empty(), "{:?}", draft.fault_domains);
}

#[test]
fn what_is_recommended_keeps_slices_and_ticks() {
    let (mut draft, mut candidates) = mixed();
    let grouping = take(&mut draft, &candidates, 1);
    assert!(grouping.title.contains("slice"));
    let sliced = draft.claims.clone();
    draft.claims = plan::recommended_claims(&draft);
    assert_eq!(draft.claims, sliced, "the shared cache stays what it is");
    candidates[3].holds_data = true;
    draft.disks[3].holds_data = true;
    let mut wish = Wish::from_draft(&draft);
    wish.erase.insert(candidates[3].member.id, candidates[3].mark.clone());
    wish.put(&mut draft, &SystemRng, &candidates);
    let ticked = draft.claims.clone();
    draft.claims = plan::recommended_claims(&draft);
    assert_eq!(draft.claims, ticked, "what was ticked stays ticked");
    assert_eq!(draft.ticked().len(), 1);
    let warned = plan::warnings(&draft);
    assert!(!warned.iter().any(|text| text.contains("policy default needs")), "{warned:?}");
    draft.claims.truncate(2);
    let warned = plan::warnings(&draft);
    assert!(
        warned.iter().any(|text| text.starts_with("2 of the 3 disks that the policy default needs")),
        "{warned:?}"
    );
}
