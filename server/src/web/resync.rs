//! `/resync`: what moves and why, how fast and until when, what the timer will start, and the limit. Live.
use crate::app::{App, Cluster};
use crate::error::{AppError, FieldError};
use crate::http::auth::Operator;
use crate::http::body::InCluster;
use crate::http::render;
use crate::service::resync;
use crate::web::format::{self, When};
use crate::web::parts::{self, Chip, Command, Fact, Field};
use crate::web::precheck::Precheck;
use crate::web::shell::{Page, Shell};
use crate::web::view::explain::{self, sentence};
use crate::web::view::{policy, words};
use crate::web::{html, html_with};
use askama::Template;
use axum::extract::{Form, State};
use axum::http::StatusCode;
use axum::response::Response;
use model::units::Timestamp;
use model::view::{ResyncItem, Snapshot};

/// Rows of one page; more are counted.
const ROWS_MAX: usize = 100;

struct Move {
    id: String,
    volume: String,
    why: &'static str,
    chip: Chip,
    from: String,
    to: String,
    percent: u8,
    spoken: String,
    left: String,
    left_exact: String,
    rate: String,
    eta: String,
    run: String,
}

struct Planned {
    volume: String,
    why: String,
    at: When,
}

#[derive(Template)]
#[template(path = "resync.html", blocks = ["live"])]
struct ResyncPage {
    shell: Shell,
    left: (String, &'static str),
    left_exact: String,
    items: String,
    rate: String,
    eta: String,
    limit_words: String,
    moves: Vec<Move>,
    moves_more: usize,
    planned: Vec<Planned>,
    planned_more: usize,
    errors: Vec<FieldError>,
    limit: Field,
    limited: bool,
    why_no_limit: String,
    may: bool,
    command_list: Vec<Command>,
}

fn moving(item: &ResyncItem, now: Timestamp) -> Move {
    let left = resync::bytes_left(item);
    let percent = format::percent(item.bytes_done, item.bytes_total);
    Move {
        id: item.component.to_string(),
        volume: item.object_name.clone(),
        why: words::resync_reason(item.reason),
        chip: words::resync_state(item.state),
        from: item.from.clone(),
        to: item.to.clone(),
        percent,
        spoken: format!("{percent}% of {} looked at", format::bytes(item.bytes_total)),
        left: format::bytes(left),
        left_exact: format::exact(left),
        rate: item.bytes_per_second.map(format::rate).unwrap_or_default(),
        eta: explain::eta_words(item, now),
        run: if item.run > 1 { format!("run {}", item.run) } else { String::new() },
    }
}

/// Time left of all together: what is left at the sum of the faster, and of the slower rates.
fn eta_words(items: &[ResyncItem], now: Timestamp) -> String {
    let left: u64 = items.iter().map(resync::bytes_left).sum();
    let mut rates = (0_u64, 0_u64);
    for item in items.iter().filter(|item| resync::bytes_left(item) > 0) {
        if let Some((low, high)) = explain::eta_seconds(item, now) {
            rates.0 += resync::bytes_left(item) / low.max(1);
            rates.1 += resync::bytes_left(item) / high.max(1);
        }
    }
    match (left, rates) {
        (0, _) => "nothing to do".into(),
        (_, (_, 0)) => "not enough data yet".into(),
        (left, (fast, slow)) => {
            format!("about {}", format::duration_range((left / fast).max(1), (left / slow).max(1)))
        }
    }
}

fn build(
    cluster: &Cluster,
    snapshot: &Snapshot,
    shell: Shell,
    now: Timestamp,
    limit: Option<String>,
    errors: Vec<FieldError>,
) -> ResyncPage {
    let all = resync::of(snapshot.resync.clone());
    let view = &all.view;
    let rate: u64 = view.items.iter().filter_map(|item| item.bytes_per_second).sum();
    let can = cluster.engine.capabilities();
    let mut planned: Vec<_> = view.scheduled.iter().collect();
    planned.sort_by_key(|repair| repair.starts_at);
    let typed = limit.unwrap_or_else(|| {
        view.limit_bytes_per_second.map(|limit| (limit >> 20).to_string()).unwrap_or_default()
    });
    ResyncPage {
        left: format::bytes_parts(all.bytes_left),
        left_exact: format::exact(all.bytes_left),
        items: format::plural(view.items.len() as u64, "component"),
        rate: if rate > 0 { format::rate(rate) } else { "no data moves".into() },
        eta: eta_words(&view.items, now),
        limit_words: view.limit_bytes_per_second.map_or_else(
            || "No limit: resync takes what clients leave.".into(),
            |limit| format!("Limited to {} over the cluster.", format::rate(limit)),
        ),
        moves: view.items.iter().take(ROWS_MAX).map(|item| moving(item, now)).collect(),
        moves_more: view.items.len().saturating_sub(ROWS_MAX),
        planned: planned
            .iter()
            .take(ROWS_MAX)
            .map(|repair| Planned {
                volume: repair.object_name.clone(),
                why: sentence(&repair.why),
                at: format::when(repair.starts_at, now),
            })
            .collect(),
        planned_more: planned.len().saturating_sub(ROWS_MAX),
        limit: Field {
            short: true,
            required: false,
            ..Field::text("limit", "Limit, MiB/s", typed).checked(&errors)
        }
        .help("Over the whole cluster. Empty: no limit."),
        limited: view.limit_bytes_per_second.is_some(),
        why_no_limit: policy::why_not(&can, "resync-limit"),
        may: shell.role != "viewer",
        errors,
        command_list: parts::commands(&[
            ("what moves", "curl -H \"Authorization: Bearer $TOKEN\" $MILLPOND/api/v1/resync".into()),
            (
                "limit it",
                "curl -X PATCH … $MILLPOND/api/v1/resync -d '{\"limit_bytes_per_second\": 104857600}'".into(),
            ),
        ]),
        shell,
    }
}

/// `GET /resync`.
///
/// # Errors
/// [`AppError::Unavailable`].
pub async fn page(InCluster(cluster): InCluster, page: Page) -> Result<Response, AppError> {
    let snapshot = cluster.snapshot().await?;
    let shell = page.shell.live_on(&["resync".into()]);
    html(&build(&cluster, &snapshot, shell, page.now, None, Vec::new()))
}

/// The live part of the page.
///
/// # Errors
/// [`AppError::Unavailable`].
pub async fn live(app: &App, cluster: &Cluster) -> Result<String, AppError> {
    let snapshot = cluster.snapshot().await?;
    let filled = build(cluster, &snapshot, Shell::default(), app.clock.now(), None, Vec::new());
    crate::web::live::partials([("resync", filled.as_live().render())])
}

/// What the limit form sends.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub struct LimitForm {
    limit: String,
}

/// `POST /resync/limit`.
///
/// # Errors
/// As the engine refuses.
pub async fn limit(
    user: Operator,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    page: Page,
    Form(form): Form<LimitForm>,
) -> Result<Response, AppError> {
    let typed = form.limit.trim();
    let wrong =
        || AppError::field("limit", format!("\"{typed}\" is not a whole number of MiB/s from 1 to 1000000"));
    let asked = match typed {
        "" => Ok(None),
        text => text
            .parse::<u64>()
            .ok()
            .filter(|limit| (1..=1_000_000).contains(limit))
            .map(|limit| Some(limit << 20))
            .ok_or_else(wrong),
    };
    let done = match asked {
        Ok(limit) => resync::set_limit(&app, &user.0, &cluster, limit).await,
        Err(error) => Err(error),
    };
    let errors = match done {
        Ok(()) => return Ok(render::go_to(&page.headers, "/resync")),
        Err(AppError::Invalid(errors)) => {
            errors.into_iter().map(|error| FieldError::new("limit", error.detail)).collect()
        }
        Err(error @ AppError::NotYet(_)) => vec![FieldError::new("", sentence(&error.to_string()))],
        Err(other) => return Err(other),
    };
    let snapshot = cluster.snapshot().await?;
    let filled = build(&cluster, &snapshot, page.shell, page.now, Some(form.limit), errors);
    html_with(StatusCode::UNPROCESSABLE_ENTITY, &filled)
}

/// `POST /resync/limit/lift`.
///
/// # Errors
/// As the engine refuses.
pub async fn lift(
    user: Operator,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    page: Page,
) -> Result<Response, AppError> {
    resync::set_limit(&app, &user.0, &cluster, None).await?;
    Ok(render::go_to(&page.headers, "/resync"))
}

/// `GET /resync/repair`: what rebuilding at once means.
///
/// # Errors
/// [`AppError::Unavailable`].
pub async fn repair_page(InCluster(cluster): InCluster, page: Page) -> Result<Response, AppError> {
    let snapshot = cluster.snapshot().await?;
    let scheduled = &snapshot.resync.scheduled;
    let waits = |id| scheduled.iter().any(|repair| repair.object == id);
    let leaves =
        snapshot.objects.iter().filter(|object| waits(object.uuid)).flat_map(|object| object.tree.leaves());
    let absent = leaves.filter(|(leaf, _)| leaf.state == model::state::ComponentState::Absent);
    let bytes: u64 = absent.map(|(leaf, _)| leaf.used_bytes).sum();
    let first = scheduled.iter().map(|repair| repair.starts_at).min();
    let mut filled =
        Precheck::of(page.shell, ("Resync", "/resync"), ("what is absent", "/resync"), "Rebuild");
    filled.trail = parts::crumbs(&[("Resync", "/resync")], "Repair now");
    filled.title = "Rebuild what is absent, without waiting".into();
    filled.verb = "Rebuild them now".into();
    filled.lead = "If the host comes back soon, waiting is less work: then only what was written meanwhile would have been \
        copied.".into();
    if scheduled.is_empty() {
        filled.block("Nothing to do.", "Nothing waits for a repair timer.");
    }
    filled.consequences = vec![
        Fact::new("Rebuilt elsewhere", format::plural(scheduled.len() as u64, "volume")),
        Fact::bytes("Copied in full", bytes),
        Fact::new(
            "By itself",
            first.map_or_else(
                || "no timer runs".to_owned(),
                |at| format!("from {} on", format::when(at, page.now).full),
            ),
        ),
        Fact::new(
            "Undo",
            "A rebuild that has begun goes on; a host that returns is then no longer needed for these parts",
        ),
    ];
    filled.command_list = parts::commands(&[(
        "the same",
        "curl -X POST -H \"Authorization: Bearer $TOKEN\" $MILLPOND/api/v1/resync/repair-now".into(),
    )]);
    html(&filled)
}

/// `POST /resync/repair`.
///
/// # Errors
/// As the engine refuses.
pub async fn repair(
    user: Operator,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    page: Page,
) -> Result<Response, AppError> {
    resync::repair_now(&app, &user.0, &cluster, None).await?;
    Ok(render::go_to(&page.headers, "/resync"))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::sample;
    use crate::web::testing::{Console, shows};
    use model::engine::Intent;
    use model::view::ScheduledRepair;

    #[tokio::test]
    async fn it_says_what_moves_why_and_until_when() {
        let mut snapshot = sample::snapshot();
        let why = "h3 is absent".to_owned();
        let (object, object_name) = (sample::object().uuid, "erp-db".to_owned());
        snapshot.resync.scheduled =
            vec![ScheduledRepair { object, object_name, starts_at: sample::NOW.plus_seconds(2880), why }];
        let console = Console::over(snapshot).await;
        let page = console.get("/resync").await;
        shows(
            &page,
            &[
                "Rebuilt elsewhere",
                "78 GiB",
                "120 MiB/s",
                "about ",
                "in 48 min",
                "H3 is absent.",
                "topics=shell,resync",
                "Repair now",
            ],
        );
        shows(&console.get("/resync/repair").await, &["206 GiB", "1 volume"]);
        assert_eq!(console.post("/resync/repair", "").await.0, 303);
        assert!(matches!(console.intents()[..], [Intent::RepairNow { object: None }]));
        let live = live(&console.app, &console.app.cluster(None).unwrap()).await.unwrap();
        assert!(live.starts_with("<hx-partial hx-target=\"#resync\"") && live.contains("78 GiB"), "{live}");
    }

    #[tokio::test]
    async fn an_end_is_only_said_when_there_is_a_rate() {
        let mut snapshot = sample::snapshot();
        snapshot.resync.items[0].bytes_per_second = None;
        shows(&Console::over(snapshot).await.get("/resync").await, &["not enough data yet"]);
    }

    #[tokio::test]
    async fn the_limit_is_read_and_a_wrong_one_stays_in_its_field() {
        let console = Console::sample().await;
        let (status, page) = console.post("/resync/limit", "limit=fast").await;
        assert_eq!(status, 422);
        assert!(page.contains("value=\"fast\"") && page.contains("aria-invalid"), "{page}");
        assert_eq!(console.post("/resync/limit", "limit=200").await.0, 303);
        assert_eq!(console.post("/resync/limit", "limit=").await.0, 303);
        let limits: Vec<_> = console.intents().into_iter().collect();
        assert!(matches!(
            limits[..],
            [
                Intent::SetResyncLimit { limit_bytes_per_second: Some(209_715_200) },
                Intent::SetResyncLimit { limit_bytes_per_second: None }
            ]
        ));
    }
}
