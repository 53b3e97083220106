//! Health checks, computed from a snapshot. Pure: each check says what it found, what that means, and what to do; a check that
//! cannot be made says `unknown`, never `green`.
use crate::app::{App, Cluster};
use crate::error::AppError;
use crate::service::cluster::snapshot_or_picture;
use crate::service::format::{bytes_text, plural, plural_that};
use model::state::{ClusterState, Compliance, DiskRole, DiskState, HostState, ObjectHealth};
use model::units::Timestamp;
use model::view::{DiskView, Snapshot};

/// A capacity disk is warned about from here on, percent. Source: vSAN, 80 %.
const DISK_FULL_WARN_PERCENT: u64 = 80;
/// And counts as nearly full from here on, percent.
const DISK_FULL_ERROR_PERCENT: u64 = 95;
/// Names in one sentence.
const NAMES_MAX: usize = 5;

/// Result of a check, best first.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, serde::Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum Status {
    /// As it should be.
    Green,
    /// Cannot be said.
    Unknown,
    /// Less than promised.
    Yellow,
    /// Data is unavailable, or soon.
    Red,
}

/// One check.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub struct Check {
    /// Stable word.
    pub id: &'static str,
    /// What is checked.
    pub title: &'static str,
    /// Result.
    pub status: Status,
    /// What was found.
    pub finding: String,
    /// What it means; empty when green.
    pub impact: &'static str,
    /// What to do; empty when green.
    pub remedy: &'static str,
    /// Names and numbers.
    pub evidence: Vec<String>,
}

/// Checks of one kind.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Group {
    /// Stable word.
    pub id: &'static str,
    /// Its checks.
    pub checks: Vec<Check>,
}

/// All checks of a cluster.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Health {
    /// The worst of all.
    pub status: Status,
    /// By kind.
    pub groups: Vec<Group>,
    /// When the facts were taken.
    pub last_run: Timestamp,
}

struct Finding {
    id: &'static str,
    title: &'static str,
    good: &'static str,
    impact: &'static str,
    remedy: &'static str,
}

impl Finding {
    /// Green without evidence, else `bad`; `what` is the noun that is counted and what one and several of them do.
    fn of(self, bad: Status, what: (&str, &str, &str), evidence: Vec<String>) -> Check {
        let (status, finding, impact, remedy) = if evidence.is_empty() {
            (Status::Green, self.good.to_owned(), "", "")
        } else {
            (bad, plural_that(evidence.len() as u64, what.0, what.1, what.2), self.impact, self.remedy)
        };
        let mut evidence = evidence;
        let more = evidence.len().saturating_sub(NAMES_MAX);
        evidence.truncate(NAMES_MAX);
        if more > 0 {
            evidence.push(format!("and {more} more"));
        }
        Check { id: self.id, title: self.title, status, finding, impact, remedy, evidence }
    }
}

fn objects(snapshot: &Snapshot, holds: impl Fn(ObjectHealth, Compliance) -> bool) -> Vec<String> {
    let found = snapshot.objects.iter().filter(|object| holds(object.health, object.compliance));
    found
        .map(|object| match &object.reason {
            Some(reason) => format!("{}: {reason}", object.name),
            None => object.name.clone(),
        })
        .collect()
}

fn data(snapshot: &Snapshot) -> Group {
    let inaccessible = Finding {
        id: "inaccessible",
        title: "Every volume can be read and written",
        good: "all volumes are available",
        impact: "these volumes answer no reads or writes until enough of their components are back",
        remedy: "bring back the hosts or disks that the placement page of the volume names",
    };
    let reduced = Finding {
        id: "reduced",
        title: "Every volume has the redundancy that its policy promises",
        good: "no volume lacks redundancy",
        impact: "these volumes are available, and another failure may change that",
        remedy: "bring the missing host back, or let the repair run; Resync shows when",
    };
    let out_of_date = Finding {
        id: "out-of-date",
        title: "Every volume follows the present version of its policy",
        good: "no volume follows an older version of its policy",
        impact: "these volumes keep the older rules",
        remedy: "apply the policy again on the page of the volume",
    };
    let is_reduced = |health, _| {
        use ObjectHealth::{NonCompliant, ReducedCannotRebuild, ReducedRebuilding, ReducedWaiting};
        matches!(health, ReducedRebuilding | ReducedWaiting | ReducedCannotRebuild | NonCompliant)
    };
    let gone = objects(snapshot, |health, _| health == ObjectHealth::Inaccessible);
    let old = objects(snapshot, |_, compliance| compliance == Compliance::OutOfDate);
    let checks = vec![
        inaccessible.of(Status::Red, ("volume", "is unavailable", "are unavailable"), gone),
        reduced.of(
            Status::Yellow,
            ("volume", "has less redundancy than promised", "have less redundancy than promised"),
            objects(snapshot, is_reduced),
        ),
        out_of_date.of(
            Status::Yellow,
            ("volume", "follows an older version of its policy", "follow an older version of their policy"),
            old,
        ),
    ];
    Group { id: "data", checks }
}

fn hosts(snapshot: &Snapshot) -> Group {
    let connected = Finding {
        id: "connected",
        title: "Every host is connected",
        good: "all hosts are connected",
        impact: "components on these hosts are absent",
        remedy: "bring the host back; after the repair delay its components are rebuilt elsewhere",
    };
    let away = snapshot.hosts.iter().filter(|host| host.state == HostState::Absent);
    let faults = Finding {
        id: "faults",
        title: "No fault is injected",
        good: "no fault is injected",
        impact: "something in this lab is broken on purpose",
        remedy: "heal it on the lab page",
    };
    let on_hosts =
        snapshot.hosts.iter().flat_map(|host| host.faults.iter().map(move |fault| (&host.name, fault)));
    let on_disks =
        snapshot.disks.iter().flat_map(|disk| disk.faults.iter().map(move |fault| (&disk.name, fault)));
    let injected = on_hosts.chain(on_disks).map(|(name, fault)| format!("{name}: {fault}")).collect();
    let checks = vec![
        connected.of(
            Status::Yellow,
            ("host", "is absent", "are absent"),
            away.map(|host| host.name.clone()).collect(),
        ),
        faults.of(Status::Yellow, ("fault", "is injected", "are injected"), injected),
    ];
    Group { id: "hosts", checks }
}

fn named(disks: &[DiskView], holds: impl Fn(&DiskView) -> bool) -> Vec<String> {
    disks.iter().filter(|disk| holds(disk)).map(|disk| disk.name.clone()).collect()
}

fn disks(snapshot: &Snapshot) -> Group {
    let failed = Finding {
        id: "failed",
        title: "No disk has failed",
        good: "no disk has failed",
        impact: "components on these disks are lost and are rebuilt on others",
        remedy: "replace the disk",
    };
    let slow = Finding {
        id: "slow",
        title: "No disk is slow",
        good: "no disk is much slower than its peers",
        impact: "every write waits for the slowest copy",
        remedy: "look at the disk's cabling and health; replace it if it stays slow",
    };
    let checksums = Finding {
        id: "checksums",
        title: "No disk returns wrong bytes",
        good: "no checksum error since the start",
        impact: "wrong bytes were found, not returned, and mended from another copy where there was one",
        remedy: "replace the disk when the number rises",
    };
    let wrong = snapshot.disks.iter().filter(|disk| disk.checksum_errors > 0);
    let wrong = wrong
        .map(|disk| format!("{}: {}", disk.name, plural(disk.checksum_errors, "checksum error")))
        .collect();
    let checks = vec![
        failed.of(
            Status::Red,
            ("disk", "has failed", "have failed"),
            named(&snapshot.disks, |disk| disk.state == DiskState::Failed),
        ),
        slow.of(
            Status::Yellow,
            ("disk", "is slow", "are slow"),
            named(&snapshot.disks, |disk| disk.state == DiskState::Slow),
        ),
        checksums.of(Status::Yellow, ("disk", "returned wrong bytes", "returned wrong bytes"), wrong),
    ];
    Group { id: "disks", checks }
}

fn used_percent(disk: &DiskView) -> u64 {
    let promised = u128::from(disk.size_bytes.saturating_sub(disk.free_bytes()));
    u64::try_from(promised * 100 / u128::from(disk.size_bytes.max(1))).unwrap_or(100)
}

fn capacity(snapshot: &Snapshot) -> Group {
    let carries = |disk: &DiskView| matches!(disk.role, DiskRole::Capacity | DiskRole::Combined);
    let fuller = |percent: u64| {
        let full = snapshot.disks.iter().filter(|disk| carries(disk) && used_percent(disk) >= percent);
        full.map(|disk| {
            format!("{}: {} %, {} free", disk.name, used_percent(disk), bytes_text(disk.free_bytes()))
        })
        .collect::<Vec<_>>()
    };
    let nearly = fuller(DISK_FULL_ERROR_PERCENT);
    let (status, evidence) = if nearly.is_empty() {
        (Status::Yellow, fuller(DISK_FULL_WARN_PERCENT))
    } else {
        (Status::Red, nearly)
    };
    let room = Finding {
        id: "room",
        title: "No capacity disk is nearly full",
        good: "every capacity disk is below 80 %",
        impact: "writes to volumes with a component there will fail when it is full",
        remedy: "add disks, or delete or move volumes",
    };
    Group {
        id: "capacity",
        checks: vec![room.of(status, ("capacity disk", "is nearly full", "are nearly full"), evidence)],
    }
}

fn cluster_state(snapshot: &Snapshot) -> Group {
    let (status, finding) = match snapshot.cluster.state {
        ClusterState::Ready => (Status::Green, "the cluster serves".to_owned()),
        ClusterState::Unconfigured => (Status::Unknown, "there is no cluster yet".to_owned()),
        ClusterState::Configuring => (Status::Unknown, "the cluster is being made".to_owned()),
        ClusterState::Unavailable => (
            Status::Red,
            snapshot
                .cluster
                .state_reason
                .clone()
                .unwrap_or_else(|| "the cluster cannot be served".to_owned()),
        ),
    };
    let (impact, remedy) = match status {
        Status::Red => {
            ("no volume can be used", "look at the reason, and at the hosts and disks that are missing")
        }
        Status::Unknown => ("there is nothing to check yet", "finish the setup"),
        _ => ("", ""),
    };
    let (id, title, evidence) = ("state", "The cluster serves", Vec::new());
    Group { id: "cluster", checks: vec![Check { id, title, status, finding, impact, remedy, evidence }] }
}

/// All checks. Pure.
pub fn of(snapshot: &Snapshot) -> Health {
    let mut groups = vec![cluster_state(snapshot)];
    if snapshot.cluster.state == ClusterState::Ready {
        groups.extend([data(snapshot), hosts(snapshot), disks(snapshot), capacity(snapshot)]);
    }
    let worst = groups.iter().flat_map(|group| &group.checks).map(|check| check.status).max();
    Health { status: worst.unwrap_or(Status::Unknown), groups, last_run: snapshot.taken_at }
}

/// The checks now. An engine that does not answer is one more finding, not an error of the page.
///
/// # Errors
/// [`AppError::Internal`].
pub async fn now(app: &App, cluster: &Cluster) -> Result<Health, AppError> {
    match snapshot_or_picture(app, cluster).await {
        Ok(snapshot) => Ok(of(&snapshot)),
        Err(AppError::Unavailable(detail)) => {
            let check = Check {
                id: "engine",
                title: "The storage engine answers",
                status: Status::Red,
                finding: detail,
                impact: "no volume can be used, and nothing else can be said",
                remedy: "look at the server log; restart the server",
                evidence: Vec::new(),
            };
            let groups = vec![Group { id: "cluster", checks: vec![check] }];
            Ok(Health { status: Status::Red, groups, last_run: app.clock.now() })
        }
        Err(error) => Err(error),
    }
}
