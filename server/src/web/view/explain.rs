//! What an object that is not green says: what, why, what happens by itself and when, what a person can do; what one more
//! failure would do; the way back. All of it from the snapshot and the model, nothing invented.
use crate::web::format;
use crate::web::parts::{Action, Deadline, Explain, Outcome, Tone};
use crate::web::view::words;
use model::availability::{Availability, Reach, if_one_more_fails};
use model::state::{ComponentState, DiskRole, HostState, ObjectHealth};
use model::units::Timestamp;
use model::view::{HostView, ObjectView, ResyncItem, Snapshot, TreeNode};
use std::collections::BTreeMap;

/// Seconds that a resync still needs: from the recent rate and the rate since its start. `None` while there is no rate.
pub fn eta_seconds(item: &ResyncItem, now: Timestamp) -> Option<(u64, u64)> {
    let left = item.bytes_total.saturating_sub(item.bytes_done);
    let recent = item.bytes_per_second.filter(|rate| *rate > 0)?;
    let elapsed = u64::try_from((now.0 - item.started_at.0) / 1000).unwrap_or(0).max(1);
    let since_start = (item.bytes_done / elapsed).max(1);
    let (slow, fast) = (recent.min(since_start), recent.max(since_start));
    Some((left.div_ceil(fast).max(1), left.div_ceil(slow).max(1)))
}

/// The range in words.
pub fn eta_words(item: &ResyncItem, now: Timestamp) -> String {
    match eta_seconds(item, now) {
        Some((low, high)) => format!("about {}", format::duration_range(low, high)),
        None => "not enough data yet".to_owned(),
    }
}

/// Hosts that are domains: all but those whose disks only carry logs of others.
pub fn domains(snapshot: &Snapshot) -> impl Iterator<Item = &HostView> {
    snapshot.hosts.iter().filter(|host| {
        let mut roles = snapshot.disks.iter().filter(|disk| disk.host == host.name).map(|disk| disk.role);
        let only_logs = roles.next().is_some_and(|first| first == DiskRole::Cache)
            && roles.all(|role| role == DiskRole::Cache);
        !only_logs
    })
}

/// The noun for a failure domain of this cluster.
pub fn noun(snapshot: &Snapshot) -> &'static str {
    let first = domains(snapshot).next().or(snapshot.hosts.first());
    first.map_or("host", |host| words::host_noun(host.kind))
}

/// The banner of an object.
pub fn explain(snapshot: &Snapshot, object: &ObjectView, now: Timestamp) -> Explain {
    let noun = noun(snapshot);
    let reason = object.reason.iter().map(|reason| sentence(reason));
    let mut explain = Explain {
        tone: words::health(object.health).tone,
        title: title(object),
        text: reason.collect(),
        deadline: deadline(object, now),
        actions: actions(snapshot, object),
        next_title: format!("If one more {noun} fails now"),
        next: next_failures(snapshot, object),
        back: way_back(snapshot, object, now),
    };
    if object.health == ObjectHealth::Healthy {
        explain.text.push(match object.tolerates_now {
            0 => format!("Its policy promises no redundancy: the loss of one {noun} can take it offline."),
            number => format!(
                "Any {} may be lost at once, and it stays in use.",
                format::plural(number.into(), noun)
            ),
        });
    }
    if let Some(text) = by_itself(object.health) {
        explain.text.push(text.to_owned());
    }
    if object.health == ObjectHealth::Inaccessible {
        explain.next.clear();
    }
    explain
}

/// First letter large, a full stop at the end.
/// Capital first, full stop last.
pub fn sentence(text: &str) -> String {
    let mut letters = text.chars();
    let first = letters.next().map(|first| first.to_uppercase().to_string()).unwrap_or_default();
    let end = if text.ends_with(['.', '?', '!']) { "" } else { "." };
    format!("{first}{}{end}", letters.as_str())
}

fn copies(tree: &TreeNode) -> (usize, usize) {
    let leaves = tree.leaves();
    let data = leaves.iter().filter(|(_, witness)| !witness);
    let all = data.clone().count();
    (data.filter(|(leaf, _)| leaf.state == ComponentState::Active).count(), all)
}

fn title(object: &ObjectView) -> String {
    let (complete, all) = copies(&object.tree);
    let parts = if complete == all {
        "All parts are complete.".to_owned()
    } else {
        let missing = (all - complete) as u64;
        let are = if missing == 1 { "is" } else { "are" };
        format!("{} of {} {are} incomplete.", format::count(missing), format::plural(all as u64, "part"))
    };
    match object.health {
        ObjectHealth::Healthy => "The data is online and as protected as its policy says.".into(),
        ObjectHealth::Inaccessible => "The data is unavailable. Nothing can be read or written now.".into(),
        ObjectHealth::PolicyChange => "A new layout is being built. The data is online.".into(),
        ObjectHealth::NonCompliant => {
            "Available and redundant, but another rule of its policy is not met.".into()
        }
        ObjectHealth::Moving => "The data is online and protected, and part of it moves.".into(),
        ObjectHealth::ReducedRebuilding
        | ObjectHealth::ReducedWaiting
        | ObjectHealth::ReducedCannotRebuild => format!("{parts} The data is online."),
    }
}

fn by_itself(health: ObjectHealth) -> Option<&'static str> {
    match health {
        ObjectHealth::Inaccessible => Some(
            "It comes back by itself as soon as enough of what is away returns; nothing written and flushed is lost.",
        ),
        ObjectHealth::ReducedRebuilding => Some("Missing bytes are copied now; nothing needs to be done."),
        ObjectHealth::ReducedCannotRebuild => {
            Some("Nothing happens by itself until there is room or another fault domain to rebuild on.")
        }
        ObjectHealth::PolicyChange => {
            Some("The old layout serves until the new one is complete, then it is dropped.")
        }
        ObjectHealth::NonCompliant => Some("It is looked at again whenever a host or disk changes."),
        _ => None,
    }
}

fn deadline(object: &ObjectView, now: Timestamp) -> Option<Deadline> {
    let at = object.repair_at.filter(|_| object.health == ObjectHealth::ReducedWaiting)?;
    Some(Deadline {
        before: "At".into(),
        at: format::when(at, now),
        after: ", if it is still away, the missing part is rebuilt on another fault domain. Until then it is waited for, because \
                catching up is much less work than a full copy."
            .into(),
    })
}

fn actions(snapshot: &Snapshot, object: &ObjectView) -> Vec<Action> {
    let mut actions = Vec::new();
    let away = snapshot.hosts.iter().find(|host| {
        host.state == HostState::Absent && object.tree.leaves().iter().any(|(leaf, _)| leaf.host == host.name)
    });
    if let (Some(host), true) = (away, object.health != ObjectHealth::Healthy) {
        let word = format!("Look at {}", host.name);
        actions.push(Action::new(word, format!("/hosts/{}", host.name), "server").primary());
    }
    match object.health {
        ObjectHealth::ReducedWaiting => {
            actions.push(Action::new("Rebuild now…", format!("/volumes/{}/repair", object.name), "zap"));
        }
        ObjectHealth::ReducedRebuilding | ObjectHealth::PolicyChange | ObjectHealth::Moving => {
            actions.push(Action::new("See what moves", "/resync", "refresh-cw"));
        }
        ObjectHealth::ReducedCannotRebuild => {
            actions.push(Action::new("See room and fault domains", "/capacity", "chart-pie"));
        }
        ObjectHealth::NonCompliant => actions.push(Action::new(
            "Look at its policy",
            format!("/policies/{}", object.policy),
            "file-sliders",
        )),
        ObjectHealth::Inaccessible | ObjectHealth::Healthy => {}
    }
    actions
}

/// What the loss of each single host would do, hosts with the same outcome together; worst first.
fn next_failures(snapshot: &Snapshot, object: &ObjectView) -> Vec<Outcome> {
    let mut groups: BTreeMap<(bool, String), Vec<String>> = BTreeMap::new();
    let leaves = object.tree.leaves();
    for (host, then) in if_one_more_fails(&object.tree) {
        let still_there = leaves.iter().any(|(leaf, _)| leaf.host == host && Reach::now(leaf) > Reach::Gone);
        if still_there {
            groups.entry((then.accessible, condition(&then))).or_default().push(host);
        }
    }
    let others = snapshot.hosts.iter().filter(|host| {
        host.state == HostState::Connected && !leaves.iter().any(|(leaf, _)| leaf.host == host.name)
    });
    let others: Vec<String> = others.map(|host| host.name.clone()).collect();
    let mut outcomes: Vec<Outcome> = groups
        .into_iter()
        .map(|((accessible, detail), hosts)| {
            let tone = if accessible { Tone::Healthy } else { Tone::Failed };
            Outcome::new(tone, names(&hosts), detail)
        })
        .collect();
    if !others.is_empty() && object.accessible {
        outcomes.push(Outcome::new(Tone::Healthy, names(&others), "Nothing: holds no part of it"));
    }
    outcomes
}

fn condition(then: &Availability) -> String {
    match &then.condition {
        None => "Stays online".into(),
        Some(text) => format!("Offline: {text}"),
    }
}

/// `h1, h2 and 3 more`.
fn names(hosts: &[String]) -> String {
    const SHOWN: usize = 4;
    if hosts.len() <= SHOWN {
        return hosts.join(", ");
    }
    format!("{} and {} more", hosts[..SHOWN].join(", "), hosts.len() - SHOWN)
}

fn way_back(snapshot: &Snapshot, object: &ObjectView, now: Timestamp) -> Vec<Outcome> {
    let mut back = Vec::new();
    if object.health == ObjectHealth::Healthy {
        return back;
    }
    let away: Vec<String> = snapshot
        .hosts
        .iter()
        .filter(|host| host.state == HostState::Absent)
        .filter(|host| object.tree.leaves().iter().any(|(leaf, _)| leaf.host == host.name))
        .map(|host| host.name.clone())
        .collect();
    if !away.is_empty() {
        let detail = "Only what was written meanwhile is copied";
        back.push(Outcome::new(Tone::Healthy, format!("Soonest: when {} returns", names(&away)), detail));
    }
    for item in snapshot.resync.items.iter().filter(|item| item.object == object.uuid) {
        let left = format::bytes(item.bytes_total.saturating_sub(item.bytes_done));
        let rate =
            item.bytes_per_second.map(|rate| format!(" at {}", format::rate(rate))).unwrap_or_default();
        let detail = format!("{left} left from {} to {}{rate}", item.from, item.to);
        back.push(Outcome::new(Tone::Rebuilding, capital(&eta_words(item, now)), detail));
    }
    if let Some(at) = object.repair_at {
        let missing: u64 = object
            .tree
            .leaves()
            .iter()
            .filter(|(leaf, witness)| !witness && leaf.state == ComponentState::Absent)
            .map(|(leaf, _)| leaf.used_bytes)
            .sum();
        // An absent part does not report what it holds: the copies that are there do.
        let missing = if missing == 0 { object.used_bytes } else { missing };
        let when = format::when(at, now);
        let title = format!("Otherwise: from {} UTC on", when.clock);
        back.push(Outcome::new(
            Tone::Absent,
            title,
            format!("About {} are copied to another fault domain", format::bytes(missing)),
        ));
    }
    back
}

fn capital(text: &str) -> String {
    sentence(text).trim_end_matches('.').to_owned()
}
