//! Sentences about groupings: what is survived, with the noun of what is lost, and which things share a fate.
use super::{Division, Sentence};
use crate::disk::{Warning, WarningKind};
use model::claims::{Claim, Fate, PartKind, Verdict, noun_of};
use model::state::HostKind;
use std::collections::BTreeMap;

/// The noun of a part.
fn noun(kind: PartKind, domain: HostKind) -> &'static str {
    match kind {
        PartKind::Disk => "disk",
        PartKind::Cache => "cache disk",
        PartKind::Device => "device",
        PartKind::Controller => "controller",
        PartKind::Enclosure => "enclosure",
        PartKind::Domain => noun_of(domain),
    }
}

/// What has to be added for one more fault domain of this kind.
pub(super) fn remedy_noun(kind: HostKind, count: u32) -> &'static str {
    match (kind, count) {
        (HostKind::Disk, 1) => "disk",
        (HostKind::Disk, _) => "disks",
        (HostKind::Enclosure, 1) => "controller or enclosure with a disk",
        (HostKind::Enclosure, _) => "controllers or enclosures with a disk each",
        (_, 1) => "host with a disk",
        (_, _) => "hosts with a disk each",
    }
}

/// The least that votes, with its verb.
pub(super) fn tiny(kind: HostKind, count: u32, size: &str) -> String {
    match (kind, count) {
        (HostKind::Disk, 1) => format!("even a file of {size} on another device is"),
        (HostKind::Disk, _) => format!("even {count} files of {size}, each on another device, are"),
        (_, 1) => format!("even one with {size} is"),
        (_, _) => format!("even {count} with {size} each are"),
    }
}

/// What happens, for a sentence about a loss that is not survived.
fn consequence(fate: Fate) -> &'static str {
    match fate {
        Fate::Lost => "data can be lost",
        Fate::Unavailable => "volumes stop until it is back",
        Fate::Reduced | Fate::Available => "volumes stay in use",
    }
}

/// What a verdict survives: one sentence for each kind of thing, and one for two losses at once.
pub(super) fn sentences(verdict: &Verdict, domain: HostKind) -> Vec<Sentence> {
    let mut by_noun: BTreeMap<(bool, &str), Vec<&Claim>> = BTreeMap::new();
    for claim in &verdict.singles {
        let noun = noun(verdict.parts[claim.lost[0]].kind, domain);
        by_noun.entry((!claim.worst().goes_on(), noun)).or_default().push(claim);
    }
    let mut sentences = Vec::new();
    for ((dies, noun), claims) in &by_noun {
        let names: Vec<String> = claims.iter().map(|claim| verdict.names(claim).join(" and ")).collect();
        let all = !by_noun.contains_key(&(!dies, *noun));
        let which = match (all, names.as_slice()) {
            (true, [_, _, ..]) => format!("any one {noun}"),
            _ => names.join(" or "),
        };
        let text = if *dies {
            let worst = claims.iter().map(|claim| claim.worst()).max().unwrap_or(Fate::Lost);
            format!("Does not survive the loss of {which}: {}.", consequence(worst))
        } else {
            format!("Survives the loss of {which}.")
        };
        sentences.push(Sentence { good: !dies, text });
    }
    sentences.extend(of_pairs(verdict));
    sentences
}

fn of_pairs(verdict: &Verdict) -> Option<Sentence> {
    let all = verdict.doubles.len();
    let survived = verdict.doubles.iter().filter(|claim| claim.worst().goes_on()).count();
    let text = match survived {
        _ if all == 0 => return None,
        0 => "Two losses at once, before the first is rebuilt, are not survived.".to_owned(),
        _ if survived == all => "Survives any two of these at once.".to_owned(),
        _ => format!("Of {all} pairs that can be lost at once, {survived} are survived."),
    };
    Some(Sentence { good: survived == all, text })
}

pub(super) fn shared_bodies(division: &Division) -> Vec<Warning> {
    let sentence = |names: Vec<&str>| Warning {
        kind: WarningKind::SharedFate,
        text: format!(
            "the failure domains {} lie on one device and fail together: {} count as 1",
            names.join(" and "),
            names.len()
        ),
    };
    division.together().into_iter().map(sentence).collect()
}

pub(super) fn shared_caches(division: &Division) -> Vec<Warning> {
    let shared = division.shared_caches();
    let sentence = |(member, names): &(&model::claims::Member, Vec<&str>)| Warning {
        kind: WarningKind::SharedFate,
        text: format!(
            "the disk {} is the cache of {}: when it fails, all {} are lost at once",
            member.name,
            names.join(", "),
            names.len()
        ),
    };
    shared.iter().map(sentence).collect()
}
