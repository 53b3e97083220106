//! The cluster as a whole: never better than its worst object, risk shown before it becomes a violation.
use crate::web::format;
use crate::web::parts::{Action, Chip, Deadline, Explain, Outcome, Tone};
use crate::web::view::{explain, words};
use model::state::{ClusterState, HostState, ObjectHealth};
use model::units::Timestamp;
use model::view::{ObjectView, Snapshot};
use std::sync::Arc;

/// Objects of one health.
pub struct StateRow {
    /// Health.
    pub chip: Chip,
    /// Its value in filters.
    pub value: &'static str,
    /// Objects.
    pub count: u64,
    /// One of them.
    pub example: String,
}

/// Objects by health, worst first; only healths that there are.
pub fn states(snapshot: &Snapshot) -> Vec<StateRow> {
    let row = |health: ObjectHealth| {
        let mut of = snapshot.objects.iter().filter(|object| object.health == health);
        let example = of.next()?.name.clone();
        Some(StateRow {
            chip: words::health(health),
            value: words::health_value(health),
            count: of.count() as u64 + 1,
            example,
        })
    };
    words::HEALTHS.into_iter().filter_map(row).collect()
}

/// The chip beside the name of the cluster: the worst object decides.
pub fn chip(snapshot: &Snapshot) -> Chip {
    if snapshot.cluster.state != ClusterState::Ready {
        return words::cluster(snapshot.cluster.state);
    }
    let worst = snapshot.objects.iter().map(|object| object.health).min();
    match worst {
        None | Some(ObjectHealth::Healthy | ObjectHealth::Moving) if away(snapshot).is_empty() => {
            Chip::new(Tone::Healthy, "Available and protected")
        }
        None | Some(ObjectHealth::Healthy | ObjectHealth::Moving) => {
            Chip::new(Tone::Absent, "A host is away")
        }
        Some(ObjectHealth::Inaccessible) => Chip::new(Tone::Failed, "Data unavailable"),
        Some(health) => Chip::new(words::health(health).tone, "Available, less protected"),
    }
}

fn away(snapshot: &Snapshot) -> Vec<&str> {
    let hosts = snapshot.hosts.iter().filter(|host| host.state == HostState::Absent);
    hosts.map(|host| host.name.as_str()).collect()
}

fn hurt(snapshot: &Snapshot) -> Vec<&Arc<ObjectView>> {
    let healthy = |health| matches!(health, ObjectHealth::Healthy | ObjectHealth::Moving);
    snapshot.objects.iter().filter(|object| !healthy(object.health)).collect()
}

/// The banner of the dashboard.
pub fn banner(snapshot: &Snapshot, now: Timestamp) -> Explain {
    let noun = explain::noun(snapshot);
    let hurt = hurt(snapshot);
    let lost = hurt.iter().filter(|object| !object.accessible).count();
    let all = format::plural(snapshot.objects.len() as u64, "volume");
    let away = away(snapshot);
    let mut explain = Explain {
        tone: chip(snapshot).tone,
        title: title(snapshot, lost, hurt.len()),
        text: Vec::new(),
        deadline: None,
        actions: Vec::new(),
        next_title: format!("If one more {noun} fails now"),
        next: next(snapshot, noun),
        back: back(snapshot, now),
    };
    if let Some(reason) = &snapshot.cluster.state_reason {
        explain.text.push(reason.clone());
    }
    if !away.is_empty() {
        let what = if away.len() == 1 { "does not answer" } else { "do not answer" };
        explain.text.push(format!("{} {what}.", away.join(", ")));
        let word = format!("Look at {}", away[0]);
        explain.actions.push(Action::new(word, format!("/hosts/{}", away[0]), "server").primary());
    }
    if let Some(worst) = hurt.iter().min_by_key(|object| object.health) {
        let reason = worst.reason.clone().unwrap_or_else(|| words::health(worst.health).word);
        explain.text.push(format!("The worst is {}: {reason}.", worst.name));
        let word = format!("Look at {}", worst.name);
        explain.actions.push(Action::new(word, format!("/volumes/{}", worst.name), "database"));
    } else if away.is_empty() {
        explain.text.push(format!("{all}: online and as redundant as promised."));
    }
    let first = hurt.iter().filter_map(|object| object.repair_at).min();
    explain.deadline = first.map(|at| Deadline {
        before: "From".into(),
        at: format::when(at, now),
        after: " on, what is still away is rebuilt elsewhere.".into(),
    });
    explain
}

fn title(snapshot: &Snapshot, lost: usize, hurt: usize) -> String {
    let all = snapshot.objects.len();
    match (lost, hurt, all) {
        (_, _, 0) => "The cluster is ready and holds no volume yet.".into(),
        (0, 0, _) => "All data is available and protected.".into(),
        (0, hurt, _) => format!("All data is available. {hurt} of {all} less protected than promised."),
        (lost, _, _) => format!("{lost} of {all} unavailable."),
    }
}

fn next(snapshot: &Snapshot, noun: &str) -> Vec<Outcome> {
    let at_risk = snapshot.objects.iter().filter(|object| object.accessible && object.tolerates_now == 0);
    let promised = |object: &ObjectView| {
        let policy = snapshot.policies.iter().find(|policy| policy.name == object.policy);
        policy.is_none_or(|policy| policy.failures_to_tolerate > 0)
    };
    let (surprising, known): (Vec<_>, Vec<_>) = at_risk.partition(|object| promised(object));
    let safe = snapshot.objects.iter().filter(|object| object.accessible && object.tolerates_now > 0).count();
    let mut outcomes = Vec::new();
    if !surprising.is_empty() {
        let count = format::plural(surprising.len() as u64, "volume");
        outcomes.push(Outcome::new(
            Tone::Failed,
            count,
            format!("Can go offline, if it is the wrong {noun}"),
        ));
    }
    if !known.is_empty() {
        let count = format::plural(known.len() as u64, "volume");
        outcomes.push(Outcome::new(
            Tone::Maint,
            count,
            "Can go offline; their policy promises no redundancy",
        ));
    }
    if safe > 0 {
        outcomes.push(Outcome::new(Tone::Healthy, format::plural(safe as u64, "volume"), "Online as before"));
    }
    outcomes
}

fn back(snapshot: &Snapshot, now: Timestamp) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    let away = away(snapshot);
    if !away.is_empty() && !hurt(snapshot).is_empty() {
        let title = format!("Soonest: when {} returns", away.join(", "));
        outcomes.push(Outcome::new(Tone::Healthy, title, "Only what was written meanwhile is copied"));
    }
    let slowest = snapshot.resync.items.iter().filter_map(|item| explain::eta_seconds(item, now)).max();
    if let Some((low, high)) = slowest {
        let count = format::plural(snapshot.resync.items.len() as u64, "resync");
        let title = format!("About {}", format::duration_range(low, high));
        outcomes.push(Outcome::new(Tone::Rebuilding, title, format!("Until {count} are through")));
    } else if !snapshot.resync.items.is_empty() {
        outcomes.push(Outcome::new(Tone::Rebuilding, "Resync has begun", "Not enough data yet for a time"));
    }
    outcomes
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::sample;

    #[test]
    fn one_hurt_object_is_enough_to_be_not_green() {
        let snapshot = sample::snapshot();
        assert_ne!(chip(&snapshot).tone, Tone::Healthy);
        let banner = banner(&snapshot, sample::NOW);
        assert!(banner.title.contains("1 of 3"), "{}", banner.title);
        assert!(banner.text.iter().any(|text| text.contains("h3")));
        assert!(banner.next.iter().any(|outcome| outcome.tone == Tone::Failed));
        assert!(banner.deadline.is_some());
    }

    #[test]
    fn a_host_away_is_not_green_even_when_no_object_lies_there() {
        let mut snapshot = sample::snapshot();
        snapshot.objects.clear();
        assert_eq!(chip(&snapshot).tone, Tone::Absent);
    }
}
