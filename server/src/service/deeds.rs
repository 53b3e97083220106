//! Who changed what: each deed of a person or token stands in the history with its name, beside what the cluster does by itself.
//!
//! Some deeds are told by the engine (`volume-created`); the event then gets the name of who asked for it. The others are told
//! here. Invariants: an event is never told twice, and never by the name of somebody who did something else: kind, subject and
//! time have to fit.
use crate::app::{App, Cluster};
use crate::db::history;
use crate::error::AppError;
use crate::service::auth::Actor;
use crate::service::format::{bytes_text, plural_of};
use model::engine::{Fault, FaultTarget, Intent};
use model::ids::TaskId;
use model::state::Severity;
use model::units::Timestamp;
use model::view::{Event, FaultDomainView, Snapshot};
use std::sync::{Mutex, PoisonError};

/// Deeds that wait for their event; the oldest is forgotten beyond this.
const WAITING_MAX: usize = 64;

/// A deed whose event the engine has yet to tell.
struct Deed {
    task: TaskId,
    actor: String,
    kind: &'static str,
    subject: String,
    from: Timestamp,
    /// When it was done; `None` while its task runs.
    until: Option<Timestamp>,
}

/// Deeds of one cluster that wait for their event.
#[derive(Default)]
pub struct Deeds(Mutex<Vec<Deed>>);

impl Deeds {
    fn with<T>(&self, change: impl FnOnce(&mut Vec<Deed>) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Remembers who asked, before the engine is asked.
    pub fn begin(&self, task: TaskId, actor: &Actor, intent: &Intent, now: Timestamp) {
        let Some((kind, subject)) = told_by_engine(intent) else { return };
        let deed = Deed { task, actor: actor.name.clone(), kind, subject, from: now, until: None };
        self.with(|deeds| {
            deeds.push(deed);
            let over = deeds.len().saturating_sub(WAITING_MAX);
            deeds.drain(..over);
        });
    }

    /// The deed was refused: nobody did anything.
    pub fn forget(&self, task: TaskId) {
        self.with(|deeds| deeds.retain(|deed| deed.task != task));
    }

    /// The deed is done: later events are not its own.
    pub fn done(&self, task: TaskId, now: Timestamp) {
        self.with(|deeds| {
            deeds.iter_mut().filter(|deed| deed.task == task).for_each(|deed| {
                deed.until.get_or_insert(now);
            });
        });
    }

    /// Ends the deeds whose tasks have ended in the snapshot.
    pub fn follow(&self, snapshot: &Snapshot) {
        for task in snapshot.tasks.iter() {
            if let Some(finished_at) = task.finished_at {
                self.done(task.id, finished_at);
            }
        }
    }

    /// Who is behind an event, if a deed is; each deed is behind one.
    pub fn behind(&self, event: &Event) -> Option<String> {
        self.with(|deeds| {
            let fits = |deed: &Deed| {
                let in_time = event.time >= deed.from && deed.until.is_none_or(|until| event.time <= until);
                in_time && deed.kind == event.kind && deed.subject == event.subject
            };
            let at = deeds.iter().position(fits)?;
            Some(deeds.remove(at).actor)
        })
    }
}

/// Kind and subject of the event by which the engine tells that the intent was done.
fn told_by_engine(intent: &Intent) -> Option<(&'static str, String)> {
    match intent {
        Intent::ConfigureCluster { .. } => Some(("cluster-made", "cluster".into())),
        Intent::ImportCluster { .. } => Some(("cluster-imported", "cluster".into())),
        Intent::AddClaims { .. } => Some(("disks-claimed", "cluster".into())),
        Intent::ReplaceDisk { by, .. } => Some(("disk-replaced", format!("disk:{}", by.id))),
        Intent::CreateVolume { id, .. } => Some(("volume-created", format!("object:{id}"))),
        Intent::GrowVolume { id, .. } => Some(("volume-grown", format!("object:{id}"))),
        Intent::DeleteVolume { id } => Some(("volume-deleted", format!("object:{id}"))),
        Intent::ApplyPolicy { id, .. } => Some(("layout-changed", format!("object:{id}"))),
        Intent::RepairNow { .. } => Some(("repair-now", "cluster".into())),
        _ => None,
    }
}

fn domains(list: &[FaultDomainView]) -> String {
    if list.is_empty() {
        return "every host is a fault domain of its own".into();
    }
    let one = |domain: &FaultDomainView| match domain.hosts.len() {
        0 => format!("{} without a host", domain.name),
        _ => format!("{} with {}", domain.name, domain.hosts.join(", ")),
    };
    format!("fault domains are {}", list.iter().map(one).collect::<Vec<_>>().join("; "))
}

fn changes(name: Option<&str>, policy: Option<&str>, delay_seconds: Option<u32>) -> String {
    let said = [
        name.map(|name| format!("its name is {name}")),
        policy.map(|policy| format!("the default policy is {policy}")),
        delay_seconds.map(|seconds| format!("repair waits {seconds} s")),
    ];
    format!("cluster changed: {}", said.into_iter().flatten().collect::<Vec<_>>().join(", "))
}

fn fault_words(fault: &Fault) -> (&'static str, String) {
    match fault {
        Fault::PowerOff => ("fault-injected", "was switched off on purpose".into()),
        Fault::PowerOn => ("fault-healed", "was switched on".into()),
        Fault::Slow { .. } => ("fault-injected", "was made slow on purpose".into()),
        Fault::Partition { from } => {
            ("fault-injected", format!("was cut off from {} on purpose", from.join(", ")))
        }
        Fault::Fail => ("fault-injected", "was made to fail on purpose".into()),
        Fault::Corrupt { .. } => ("fault-injected", "got wrong bytes on purpose".into()),
        Fault::Full => ("fault-injected", "was made full on purpose".into()),
        Fault::Heal => ("fault-healed", "was healed".into()),
    }
}

/// Subject and words for what a fault hits.
fn target(target: &FaultTarget, snapshot: &Snapshot) -> (String, String) {
    match target {
        FaultTarget::Host(name) => (format!("host:{name}"), format!("host {name}")),
        FaultTarget::FaultDomain(name) => (format!("fault-domain:{name}"), format!("fault domain {name}")),
        FaultTarget::Site(name) => (format!("site:{name}"), format!("site {name}")),
        FaultTarget::Disk(id) => {
            let disk = snapshot.disks.iter().find(|disk| disk.id == *id);
            (
                format!("disk:{id}"),
                format!("disk {}", disk.map_or_else(|| id.to_string(), |disk| disk.name.clone())),
            )
        }
    }
}

/// Kind, subject and sentence of an intent that the engine does not tell itself.
fn told_here(intent: &Intent, snapshot: &Snapshot) -> Option<(&'static str, String, String)> {
    let cluster = || "cluster".to_owned();
    Some(match intent {
        Intent::UpdateCluster { name, default_policy, repair_delay_seconds } => (
            "cluster-changed",
            cluster(),
            changes(name.as_deref(), default_policy.as_deref(), *repair_delay_seconds),
        ),
        Intent::SetFaultDomains { fault_domains } => {
            ("fault-domains-changed", cluster(), domains(fault_domains))
        }
        Intent::PutPolicy { policy, expected_version, .. } => {
            let (kind, word) = match expected_version {
                None => ("policy-added", "added"),
                Some(_) => ("policy-changed", "changed"),
            };
            (kind, format!("policy:{}", policy.name), format!("policy {} was {word}", policy.name))
        }
        Intent::DeletePolicy { name } => {
            ("policy-deleted", format!("policy:{name}"), format!("policy {name} was deleted"))
        }
        Intent::SetResyncLimit { limit_bytes_per_second } => (
            "resync-limited",
            cluster(),
            match limit_bytes_per_second {
                Some(limit) => format!("resync is limited to {}/s", bytes_text(*limit)),
                None => "resync has no limit any more".into(),
            },
        ),
        Intent::SetLicence { key } => {
            let text =
                if key.is_some() { "a licence key was stored" } else { "back to Community, without a key" };
            ("licence-changed", cluster(), text.into())
        }
        Intent::InjectFault { target: hit, fault } => {
            let ((kind, words), (subject, name)) = (fault_words(fault), target(hit, snapshot));
            (kind, subject, format!("{name} {words}"))
        }
        Intent::Scrub => ("scrub-started", cluster(), "every byte of every copy is verified".into()),
        _ => return None,
    })
}

/// Writes the event of a deed that was done, when the engine does not tell it.
///
/// # Errors
/// [`AppError::Internal`].
pub async fn tell(app: &App, actor: &Actor, cluster: &Cluster, intent: &Intent) -> Result<(), AppError> {
    let snapshot = cluster.projected.borrow().clone();
    match told_here(intent, &snapshot) {
        Some((kind, subject, text)) => say(app, &actor.name, &cluster.key, kind, subject, text).await,
        None => Ok(()),
    }
}

/// Adds one event by `user` to the history of a cluster.
///
/// # Errors
/// [`AppError::Internal`].
pub async fn say(
    app: &App,
    user: &str,
    cluster: &str,
    kind: &str,
    subject: String,
    text: String,
) -> Result<(), AppError> {
    let time = app.clock.now();
    let event = Event { seq: 0, time, severity: Severity::Info, kind: kind.into(), subject, text };
    Ok(history::add_events(&app.console, cluster, &[(event, Some(user.to_owned()))]).await?)
}

/// Kind and subject of an intent, for the audit log and the history of tasks.
pub fn describe(intent: &Intent) -> (&'static str, String) {
    match intent {
        Intent::ConfigureCluster { plan } => ("configure-cluster", plan.name.clone()),
        Intent::ImportCluster { cluster, .. } => ("import-cluster", cluster.to_string()),
        Intent::AddClaims { claims, .. } => ("add-claims", plural_of(claims, "disk group")),
        Intent::ReplaceDisk { lost, .. } => ("replace-disk", lost.to_string()),
        Intent::UpdateCluster { .. } => ("update-cluster", "cluster".into()),
        Intent::SetFaultDomains { .. } => ("set-fault-domains", "cluster".into()),
        Intent::PutPolicy { policy, .. } => ("put-policy", policy.name.clone()),
        Intent::DeletePolicy { name } => ("delete-policy", name.clone()),
        Intent::CreateVolume { name, .. } => ("create-volume", name.clone()),
        Intent::GrowVolume { id, .. } => ("grow-volume", id.to_string()),
        Intent::DeleteVolume { id } => ("delete-volume", id.to_string()),
        Intent::ApplyPolicy { id, .. } => ("apply-policy", id.to_string()),
        Intent::RepairNow { .. } => ("repair-now", "cluster".into()),
        Intent::SetResyncLimit { .. } => ("set-resync-limit", "cluster".into()),
        Intent::SetLicence { .. } => ("set-licence", "cluster".into()),
        Intent::InjectFault { target, .. } => ("inject-fault", format!("{target:?}")),
        Intent::Scrub => ("scrub", "cluster".into()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::sample;
    use model::ids::ObjectId;

    fn event(kind: &str, subject: &str, time: i64) -> Event {
        let (kind, subject) = (kind.into(), subject.into());
        Event { seq: 1, time: Timestamp(time), severity: Severity::Info, kind, subject, text: String::new() }
    }

    fn task(number: u8) -> TaskId {
        TaskId::from_random([number; 16])
    }

    #[test]
    fn an_event_gets_the_name_of_who_asked_for_it_and_no_other_does() {
        let (deeds, id) = (Deeds::default(), ObjectId::from_random([7; 16]));
        let subject = format!("object:{id}");
        let ada = Actor { name: "ada".into(), ..Actor::command_line() };
        deeds.begin(task(1), &ada, &Intent::DeleteVolume { id }, Timestamp(100));
        assert_eq!(deeds.behind(&event("volume-deleted", &subject, 99)), None, "it was before");
        assert_eq!(deeds.behind(&event("volume-deleted", "object:other", 101)), None);
        assert_eq!(deeds.behind(&event("volume-grown", &subject, 101)), None);
        assert_eq!(deeds.behind(&event("volume-deleted", &subject, 101)).as_deref(), Some("ada"));
        assert_eq!(deeds.behind(&event("volume-deleted", &subject, 102)), None, "a deed is behind one event");
        deeds.begin(task(2), &ada, &Intent::DeleteVolume { id }, Timestamp(200));
        deeds.done(task(2), Timestamp(210));
        assert_eq!(deeds.behind(&event("volume-deleted", &subject, 211)), None, "it was done by then");
        deeds.begin(task(3), &ada, &Intent::DeleteVolume { id }, Timestamp(300));
        deeds.forget(task(3));
        assert_eq!(deeds.behind(&event("volume-deleted", &subject, 301)), None, "it was refused");
    }

    #[test]
    fn every_intent_is_told_once() {
        let snapshot = sample::snapshot();
        let id = ObjectId::from_random([7; 16]);
        let host = FaultTarget::Host("h1".into());
        let intents = [
            Intent::DeleteVolume { id },
            Intent::GrowVolume { id, size_bytes: 1 },
            Intent::ApplyPolicy { id, expected_csn: None, policy: None },
            Intent::RepairNow { object: None },
            Intent::SetFaultDomains { fault_domains: Vec::new() },
            Intent::UpdateCluster { name: None, default_policy: None, repair_delay_seconds: Some(5) },
            Intent::DeletePolicy { name: "gold".into() },
            Intent::SetResyncLimit { limit_bytes_per_second: Some(1 << 20) },
            Intent::SetLicence { key: Some("secret".into()) },
            Intent::InjectFault { target: host, fault: Fault::PowerOff },
            Intent::Scrub,
        ];
        for intent in intents {
            let here = told_here(&intent, &snapshot);
            assert!(here.is_some() != told_by_engine(&intent).is_some(), "{intent:?}");
            assert!(!here.is_some_and(|(_, _, text)| text.contains("secret")), "{intent:?}");
        }
    }
}
