//! Pages about hardware: hosts with their disks, one host, one disk, fault domains.
pub mod disk;
pub mod domains;
pub mod host;

use crate::app::App;
use crate::error::AppError;
use crate::http::body::{Asked, InCluster};
use crate::service::cluster::snapshot_or_picture;
use crate::service::disks::{self, Disk};
use crate::web::parts::{self, Action, Choice, Command, Deadline, Explain, Tone};
use crate::web::shell::{Page, Shell};
use crate::web::view::hardware::{self, DomainRows};
use crate::web::view::{explain, words};
use crate::web::{format, html};
use askama::Template;
use axum::extract::State;
use axum::response::Response;
use model::state::{DiskRole, HostState};
use model::units::Timestamp;
use model::view::{HostView, Snapshot};

/// `?q=&state=`.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub struct Query {
    q: String,
    state: String,
}

#[derive(Template)]
#[template(path = "hardware/list.html")]
struct ListPage {
    shell: Shell,
    lead: String,
    banner: Option<Explain>,
    q: String,
    state_value: String,
    choices: Vec<Choice>,
    filtered: bool,
    domains: Vec<DomainRows>,
    command_list: Vec<Command>,
}

/// What an absent host means: since when, what happens by itself, what can be done. `None` when none is.
fn away(snapshot: &Snapshot, lab: bool, now: Timestamp) -> Option<Explain> {
    let hosts: Vec<&HostView> =
        snapshot.hosts.iter().filter(|host| host.state == HostState::Absent).collect();
    let first = *hosts.first()?;
    let names: Vec<&str> = hosts.iter().map(|host| host.name.as_str()).collect();
    let on_them = |host: &str| names.contains(&host);
    let hit = snapshot.objects.iter();
    let hit = hit.filter(|object| object.tree.leaves().iter().any(|(leaf, _)| on_them(&leaf.host))).count();
    let repair = snapshot.resync.scheduled.iter().map(|repair| repair.starts_at).min();
    let mut actions = vec![
        Action::new(format!("Look at {}", first.name), format!("/hosts/{}", first.name), "server").primary(),
    ];
    if lab {
        actions.push(Action::new(
            "Switch it on again…",
            format!("/lab/faults?target=host:{}", first.name),
            "power",
        ));
    }
    Some(Explain {
        tone: Tone::Absent,
        title: format!("{} {} away.", names.join(", "), if names.len() == 1 { "is" } else { "are" }),
        text: vec![
            format!(
                "Not heard of since {}. {} parts of {} are out of date or missing until then.",
                format::when(first.state_since, now).full,
                if names.len() == 1 { "Its" } else { "Their" },
                format::plural(hit as u64, "volume")
            ),
            "What comes back in time only copies what was written meanwhile.".into(),
        ],
        deadline: repair.map(|at| Deadline {
            before: "Without it, the missing parts are built again elsewhere from".into(),
            at: format::when(at, now),
            after: " on.".into(),
        }),
        actions,
        ..Explain::default()
    })
}

fn lead(snapshot: &Snapshot, disks: &[Disk]) -> String {
    let claimed = disks.iter().filter(|disk| disk.view.role != DiskRole::None).count() as u64;
    let free = disks.len() as u64 - claimed;
    let domains = model::placement::Topology::from_snapshot(snapshot).usable_domains().len() as u64;
    let noun = explain::noun(snapshot);
    format!(
        "{}, {} in use and {free} not claimed. Policies are compared with {} that take data now.",
        format::plural(snapshot.hosts.len() as u64, noun),
        format::plural(claimed, "disk"),
        format::plural(domains, "fault domain"),
    )
}

/// Why this machine's disks cannot be listed.
fn not_listed(problem: String) -> Explain {
    Explain {
        tone: Tone::Degraded,
        title: "This machine's disks cannot be listed.".into(),
        text: vec![problem, "What is shown of them is the last good look, if there was one.".into()],
        ..Explain::default()
    }
}

/// `GET /hosts`.
///
/// # Errors
/// [`AppError::Unavailable`].
pub async fn page(
    State(app): State<App>,
    InCluster(cluster): InCluster,
    page: Page,
    Asked(query): Asked<Query>,
) -> Result<Response, AppError> {
    let snapshot = snapshot_or_picture(&app, &cluster).await?;
    let disks = disks::all(&app, &cluster).await?;
    let wanted = query.q.trim().to_lowercase();
    let named = |disk: &Disk| {
        let view = &disk.view;
        let texts =
            [Some(&view.name), Some(&view.host), Some(&view.path), disk.model.as_ref(), disk.serial.as_ref()];
        wanted.is_empty() || texts.into_iter().flatten().any(|text| text.to_lowercase().contains(&wanted))
    };
    let shown = |disk: &Disk| {
        named(disk)
            && match query.state.as_str() {
                "attention" => hardware::needs_attention(disk),
                "free" => disk.view.role == DiskRole::None,
                "cache" => disk.view.role == DiskRole::Cache,
                "capacity" => matches!(disk.view.role, DiskRole::Capacity | DiskRole::Combined),
                _ => true,
            }
    };
    let problem = disks::problem(&app, &cluster).await?;
    let filtered = !wanted.is_empty() || !query.state.is_empty();
    html(&ListPage {
        lead: lead(&snapshot, &disks),
        banner: away(&snapshot, page.shell.lab, page.now).or(problem.map(not_listed)),
        domains: hardware::by_domain(&snapshot, &disks, &shown, !filtered, page.now),
        choices: vec![
            Choice::new("", "all disks"),
            Choice::new("attention", "that need attention"),
            Choice::new("capacity", "with data"),
            Choice::new("cache", "as cache"),
            Choice::new("free", "not claimed"),
        ],
        filtered,
        q: query.q,
        state_value: query.state,
        command_list: parts::commands(&[
            ("hosts", "curl -H \"Authorization: Bearer $TOKEN\" $MILLPOND/api/v1/hosts".into()),
            ("disks", "curl -H \"Authorization: Bearer $TOKEN\" $MILLPOND/api/v1/disks".into()),
        ]),
        shell: page.shell,
    })
}

/// The banner of one host.
fn host_banner(snapshot: &Snapshot, host: &HostView, lab: bool, now: Timestamp) -> Explain {
    let chip = words::host(host, now);
    let mut banner = match away(snapshot, lab, now) {
        Some(away) if host.state == HostState::Absent => away,
        _ => Explain {
            tone: chip.tone,
            title: format!("{} is {}.", host.name, chip.word.to_lowercase()),
            ..Explain::default()
        },
    };
    banner.actions.retain(|action| !action.href.starts_with("/hosts/"));
    banner
}

#[cfg(test)]
mod tests {
    use crate::web::sample;
    use crate::web::testing::{Console, shows};

    #[tokio::test]
    async fn hosts_stand_in_their_fault_domains_with_their_disks() {
        let console = Console::sample().await;
        let page = console.get("/hosts").await;
        shows(
            &page,
            &["rack-a", "h3 is away.", "Absent 12 min", "h1-cap1", "512 GiB", "Lab host", "1 disk group"],
        );
        assert!(page.1.find("rack-a") < page.1.find("rack-b"));
    }

    #[tokio::test]
    async fn a_filter_keeps_what_it_names_and_can_be_cleared() {
        let mut snapshot = sample::snapshot();
        snapshot.disks[1].checksum_errors = 7;
        snapshot.disks[1].faults = vec!["full".into()];
        let console = Console::over(snapshot).await;
        let page = console.get("/hosts?q=h1&state=attention").await;
        shows(&page, &["h1-cap1", "Fault on purpose: full.", ">7<", "Clear filters"]);
        assert!(!page.1.contains("h2-cap1") && !page.1.contains("h1-cap2"));
        shows(&console.get("/hosts?q=nothing").await, &["Nothing matches the filter"]);
    }

    #[tokio::test]
    async fn a_host_says_what_its_loss_would_do() {
        let console = Console::sample().await;
        let page = console.get("/hosts/h1").await;
        shows(&page, &["If h1 fails now", "erp-db", "h1-cap1", "fault domain", "Rebuild"]);
        assert_eq!(console.get("/hosts/h99").await.0, 404);
    }

    #[tokio::test]
    async fn a_disk_lists_the_components_that_lie_on_it() {
        let console = Console::sample().await;
        let id = sample::snapshot().disks[1].id;
        let page = console.get(&format!("/disks/{id}")).await;
        shows(&page, &["h1-cap1", "erp-db", "mail", "If h1-cap1 fails now", "Structures"]);
        assert_eq!(console.get("/disks/nonsense").await.0, 404);
    }
}
