//! `/lab`: break and heal a lab on purpose. What a fault would do to volumes is said before it is made.
use crate::app::{App, Cluster};
use crate::error::{AppError, FieldError};
use crate::http::auth::Operator;
use crate::http::body::{Asked, InCluster};
use crate::http::render;
use crate::service::{capacity, faults};
use crate::web::parts::{self, Chip, Choice, Command, Crumb, Fact, Field};
use crate::web::shell::{Page, Shell};
use crate::web::view::explain::sentence;
use crate::web::view::{hardware, policy, words};
use crate::web::{html, html_with};
use askama::Template;
use axum::extract::{Form, State};
use axum::http::StatusCode;
use axum::response::Response;
use model::engine::Fault;
use model::units::Timestamp;
use model::view::Snapshot;

struct Target {
    key: String,
    name: String,
    chip: Chip,
    faults: Vec<String>,
}

struct HostCard {
    host: Target,
    domain: String,
    away: bool,
    disks: Vec<Target>,
}

#[derive(Template)]
#[template(path = "lab/list.html", blocks = ["live"])]
struct LabPage {
    shell: Shell,
    why_not: String,
    hosts: Vec<HostCard>,
    command_list: Vec<Command>,
}

fn hosts(snapshot: &Snapshot, now: Timestamp) -> Vec<HostCard> {
    let disk = |disk: &model::view::DiskView| Target {
        key: format!("disk:{}", disk.id),
        name: disk.name.clone(),
        chip: words::disk(disk.state),
        faults: disk.faults.clone(),
    };
    let card = |host: &model::view::HostView| HostCard {
        domain: host.fault_domain.clone().unwrap_or_default(),
        away: host.state == model::state::HostState::Absent,
        disks: snapshot.disks.iter().filter(|view| view.host == host.name).map(disk).collect(),
        host: Target {
            key: format!("host:{}", host.name),
            name: host.name.clone(),
            chip: words::host(host, now),
            faults: host.faults.clone(),
        },
    };
    snapshot.hosts.iter().map(card).collect()
}

fn lab_page(cluster: &Cluster, snapshot: &Snapshot, shell: Shell, now: Timestamp) -> LabPage {
    LabPage {
        why_not: policy::why_not(&cluster.engine.capabilities(), "faults"),
        hosts: hosts(snapshot, now),
        command_list: parts::commands(&[
            ("switch a host off", "curl -X POST … $MILLPOND/api/v1/lab/faults -d '{\"target\":\"host:h1\",\"fault\":\"power-off\"}'".into()),
            ("undo every fault of it", "curl -X POST … $MILLPOND/api/v1/lab/faults -d '{\"target\":\"host:h1\",\"fault\":\"heal\"}'".into()),
        ]),
        shell,
    }
}

/// `GET /lab`.
///
/// # Errors
/// [`AppError::Unavailable`].
pub async fn page(InCluster(cluster): InCluster, page: Page) -> Result<Response, AppError> {
    let snapshot = cluster.snapshot().await?;
    let shell = page.shell.live_on(&["lab".into()]);
    html(&lab_page(&cluster, &snapshot, shell, page.now))
}

/// The live part of the page.
///
/// # Errors
/// [`AppError::Unavailable`].
pub async fn live(app: &App, cluster: &Cluster) -> Result<String, AppError> {
    let snapshot = cluster.snapshot().await?;
    let filled = lab_page(cluster, &snapshot, Shell::default(), app.clock.now());
    crate::web::live::partials([("lab", filled.as_live().render())])
}

#[derive(Template)]
#[template(path = "lab/fault.html")]
struct FaultPage {
    shell: Shell,
    trail: Vec<Crumb>,
    title: String,
    target: String,
    name: String,
    chip: Chip,
    now: Vec<String>,
    loss: Vec<Fact>,
    choices: Vec<Choice>,
    chosen: String,
    latency: Field,
    errors: Vec<FieldError>,
    applied: Vec<String>,
    why_not: String,
    command_list: Vec<Command>,
}

/// Fault, word, what it does; those of hosts.
const HOST_FAULTS: [(&str, &str, &str); 4] = [
    (
        "power-off",
        "Switch it off",
        "Like pulling the plug: what it had not acknowledged is lost, what it had is on its disks.",
    ),
    ("power-on", "Switch it on", "It comes back and catches up on what was written meanwhile."),
    ("slow", "Make it slow", "Every I/O of it takes so much longer. It stays connected."),
    ("heal", "Heal it", "Undo every fault of it."),
];

/// Those of disks.
const DISK_FAULTS: [(&str, &str, &str); 5] = [
    ("fail", "Let it fail", "Every I/O of it fails, for good. Its parts are built again elsewhere at once."),
    ("slow", "Make it slow", "Every I/O of it takes so much longer."),
    ("full", "Make it full", "It says that it has no room. Reads go on."),
    (
        "corrupt",
        "Flip bytes on it",
        "Wrong bytes under the checksums: reads must notice, never return them, and mend them from another copy.",
    ),
    ("heal", "Heal it", "Undo every fault of it. Flipped bytes stay until a read or scrub mends them."),
];

async fn fault_page(
    app: &App,
    cluster: &Cluster,
    page: (Shell, Timestamp),
    form: &FaultForm,
    errors: Vec<FieldError>,
    applied: Vec<String>,
) -> Result<FaultPage, AppError> {
    let (shell, now) = page;
    let snapshot = cluster.snapshot().await?;
    let cards = hosts(&snapshot, now);
    let all = cards.iter().flat_map(|card| std::iter::once(&card.host).chain(&card.disks));
    let target = all.into_iter().find(|target| target.key == form.target);
    let target = target.ok_or_else(|| AppError::NotFound(format!("\"{}\" in this lab", form.target)))?;
    let faults: &[(&str, &str, &str)] =
        if form.target.starts_with("disk:") { &DISK_FAULTS } else { &HOST_FAULTS };
    let loss = capacity::what_if(app, cluster, std::slice::from_ref(&form.target)).await?;
    let first = if target.faults.is_empty() { faults[0].0 } else { "heal" };
    Ok(FaultPage {
        trail: parts::crumbs(&[("Lab faults", "/lab")], &target.name),
        title: format!("Break or heal {}", target.name),
        target: form.target.clone(),
        name: target.name.clone(),
        chip: target.chip.clone(),
        now: target.faults.clone(),
        loss: hardware::loss_facts(&loss),
        choices: faults
            .iter()
            .map(|(value, word, what)| Choice { why_not: (*what).into(), ..Choice::new(*value, *word) })
            .collect(),
        chosen: if form.fault.is_empty() { first.into() } else { form.fault.clone() },
        latency: Field {
            short: true,
            required: false,
            ..Field::text(
                "latency_ms",
                "Added latency, ms",
                if form.latency_ms.is_empty() { "200" } else { &form.latency_ms },
            )
            .checked(&errors)
        }
        .help("For \"Make it slow\" only."),
        errors,
        applied,
        why_not: policy::why_not(&cluster.engine.capabilities(), "faults"),
        command_list: parts::commands(&[(
            "the same",
            format!(
                "curl -X POST … $MILLPOND/api/v1/lab/faults -d '{{\"target\":\"{}\",\"fault\":\"{}\"}}'",
                form.target,
                if form.fault.is_empty() { first } else { &form.fault }
            ),
        )]),
        shell,
    })
}

/// What the form sends; `?target=` alone opens it.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub struct FaultForm {
    target: String,
    fault: String,
    latency_ms: String,
}

impl FaultForm {
    fn fault(&self) -> Result<Fault, AppError> {
        Ok(match self.fault.as_str() {
            "power-off" => Fault::PowerOff,
            "power-on" => Fault::PowerOn,
            "fail" => Fault::Fail,
            "full" => Fault::Full,
            "corrupt" => Fault::Corrupt { object: None, offset_bytes: None, length_bytes: None },
            "heal" => Fault::Heal,
            "slow" => {
                let typed = self.latency_ms.trim();
                let latency = typed.parse::<u32>().ok().filter(|latency| (1..=60_000).contains(latency));
                let wrong = || AppError::field("latency_ms", "1 to 60000 ms");
                Fault::Slow { latency_ms: Some(latency.ok_or_else(wrong)?) }
            }
            _ => return Err(AppError::field("fault", "choose one of the faults")),
        })
    }
}

/// `GET /lab/faults?target=`.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn form(
    State(app): State<App>,
    InCluster(cluster): InCluster,
    page: Page,
    Asked(form): Asked<FaultForm>,
) -> Result<Response, AppError> {
    html(&fault_page(&app, &cluster, (page.shell, page.now), &form, Vec::new(), Vec::new()).await?)
}

/// `POST /lab/faults`. What was flipped is said on the page; everything else is seen on the lab page.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn apply(
    user: Operator,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    page: Page,
    Form(form): Form<FaultForm>,
) -> Result<Response, AppError> {
    let done = match form.fault() {
        Ok(fault) => faults::inject(&app, &user.0, &cluster, &form.target, fault).await,
        Err(error) => Err(error),
    };
    let errors = match done {
        Ok(applied) if form.fault == "corrupt" => {
            return html(
                &fault_page(&app, &cluster, (page.shell, page.now), &form, Vec::new(), applied).await?,
            );
        }
        Ok(_) => return Ok(render::go_to(&page.headers, "/lab")),
        Err(AppError::Invalid(errors)) => errors,
        Err(error @ (AppError::Conflict(_) | AppError::NotYet(_))) => {
            vec![FieldError::new("", sentence(&error.to_string()))]
        }
        Err(other) => return Err(other),
    };
    let filled = fault_page(&app, &cluster, (page.shell, page.now), &form, errors, Vec::new()).await?;
    html_with(StatusCode::UNPROCESSABLE_ENTITY, &filled)
}

#[cfg(test)]
mod tests {
    use crate::web::sample;
    use crate::web::testing::{Console, shows};
    use model::engine::{Fault, FaultTarget, Intent};

    #[tokio::test]
    async fn consequences_are_said_before_the_fault() {
        let console = Console::sample().await;
        shows(&console.get("/lab").await, &["h3", "powered off", "h6-cap2", "topics=shell,lab"]);
        let page = console.get("/lab/faults?target=host:h1").await;
        shows(&page, &["Switch it off", "Unavailable", "erp-db", "Break or heal h1"]);
        assert!(console.intents().is_empty());
        assert_eq!(console.post("/lab/faults", "target=host:h1&fault=slow&latency_ms=900").await.0, 303);
        let slow = Intent::InjectFault {
            target: FaultTarget::Host("h1".into()),
            fault: Fault::Slow { latency_ms: Some(900) },
        };
        assert_eq!(console.intents(), [slow]);
    }

    #[tokio::test]
    async fn a_fault_that_does_not_fit_is_refused_in_the_form() {
        let console = Console::sample().await;
        let disk = sample::snapshot().disks[1].id;
        let (status, page) =
            console.post("/lab/faults", &format!("target=disk:{disk}&fault=power-off")).await;
        assert_eq!(status, 422);
        assert!(page.contains("cannot hit that kind of thing"), "{page}");
        let (status, page) = console.post("/lab/faults", "target=host:h1&fault=slow&latency_ms=x").await;
        assert!(status == 422 && page.contains("1 to 60000 ms"), "{page}");
        assert_eq!(console.get("/lab/faults?target=host:h99").await.0, 404);
    }
}
