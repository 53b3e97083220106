//! A cluster that is already on disks: choose them, look at what is there without writing a byte, and take it over.
use crate::app::{App, Cluster};
use crate::error::{AppError, FieldError};
use crate::http::auth::Admin;
use crate::http::body::InCluster;
use crate::http::render;
use crate::service::import::{self, Candidate, FoundCluster, Scan};
use crate::web::parts::{self, Chip, Command, Fact, Tone};
use crate::web::shell::{Page, Shell};
use crate::web::view::placement::{self, RaidRow};
use crate::web::view::{explain, words};
use crate::web::{format, html, html_with};
use askama::Template;
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use axum_extra::extract::{Form, Query};
use model::ids::ClusterId;
use model::state::{ClusterState, HostState};
use model::units::Timestamp;

/// Volumes whose parts are shown; of the others there is the row. Source: a page that a browser draws at once.
const TREES_MAX: usize = 50;
/// Volumes that get a row.
const ROWS_MAX: usize = 500;

/// A disk to choose.
struct Pick {
    path: String,
    what: String,
    size: String,
    chosen: bool,
}

/// A volume that was found.
struct VolumeRow {
    name: String,
    size: String,
    policy: String,
    chip: Chip,
    survives: Chip,
    reason: String,
    tree: Vec<RaidRow>,
}

/// A cluster that was found.
struct ClusterCard {
    id: String,
    name: String,
    chip: Chip,
    facts: Vec<Fact>,
    obstacles: Vec<String>,
    notes: Vec<String>,
    missing: Vec<(String, String)>,
    present: Vec<(String, String)>,
    volumes: Vec<VolumeRow>,
    more: usize,
    /// Why it cannot be imported here although nothing is wrong with it; empty when it can.
    not_here: String,
}

#[derive(Template)]
#[template(path = "import.html")]
struct ImportPage {
    shell: Shell,
    errors: Vec<FieldError>,
    picks: Vec<Pick>,
    problem: String,
    typed: String,
    looked: bool,
    clusters: Vec<ClusterCard>,
    refused: Vec<(String, String)>,
    not_here: String,
    data_dir: String,
    there: Chip,
    away: Chip,
    command_list: Vec<Command>,
}

/// What the form sends: chosen disks, and paths typed one a line.
#[derive(Clone, Default, serde::Deserialize)]
#[serde(default)]
pub struct LookForm {
    look: String,
    disk: Vec<String>,
    paths: String,
}

impl LookForm {
    fn all(&self) -> Vec<String> {
        let typed = self.paths.lines().map(str::trim).filter(|line| !line.is_empty()).map(str::to_owned);
        self.disk.iter().cloned().chain(typed).collect()
    }
}

/// What the button of a cluster sends.
#[derive(Clone, Default, serde::Deserialize)]
#[serde(default)]
pub struct StartForm {
    cluster: String,
    path: Vec<String>,
}

fn picks(candidates: Vec<Candidate>, form: &LookForm, first: bool) -> Vec<Pick> {
    let pick = |found: Candidate| Pick {
        // All of them at first: an import wants every disk of the cluster.
        chosen: first || form.disk.contains(&found.path),
        size: format::bytes(found.size_bytes),
        what: found.what,
        path: found.path,
    };
    candidates.into_iter().map(pick).collect()
}

fn chip(found: &FoundCluster) -> Chip {
    let hurt = found.inside.objects.iter().filter(|object| !object.accessible).count() as u64;
    match (found.obstacles.is_empty(), hurt, found.missing.is_empty() && found.notes.is_empty()) {
        (false, ..) => Chip::new(Tone::Failed, "Cannot be imported yet"),
        (true, 0, true) => Chip::new(Tone::Healthy, "Complete"),
        (true, 0, false) => Chip::new(Tone::Degraded, "Can be imported, not complete"),
        (true, ..) => Chip::new(
            Tone::Degraded,
            format!("Can be imported, {} unavailable", format::plural(hurt, "volume")),
        ),
    }
}

fn facts(found: &FoundCluster, now: Timestamp) -> Vec<Fact> {
    let inside = &found.inside;
    let (here, listed) = (found.present.len(), found.present.len() + found.missing.len());
    let up = inside.hosts.iter().filter(|host| host.state == HostState::Connected).count();
    let healths: Vec<String> = import::healths(found)
        .into_iter()
        .map(|(health, count)| {
            format!("{} {}", format::count(count as u64), words::health(health).word.to_lowercase())
        })
        .collect();
    let volumes = Fact::new("Volumes", format::count(inside.objects.len() as u64)).note(healths.join(", "));
    let mut facts = vec![
        Fact::new("Disks there", format!("{here} of {listed}")),
        Fact::new("Hosts with disks", format!("{up} of {}", inside.hosts.len())),
        volumes,
        Fact::new("Default policy", &inside.cluster.default_policy),
        Fact::id("Cluster", &found.id.0),
    ];
    if inside.cluster.created_at.0 > 0 {
        facts.insert(3, Fact::new("Made", format::when(inside.cluster.created_at, now).full));
    }
    facts
}

fn card(found: FoundCluster, not_here: &str, now: Timestamp) -> ClusterCard {
    let inside = found.inside.clone();
    let noun = explain::noun(&inside);
    let row = |(index, object): (usize, &std::sync::Arc<model::view::ObjectView>)| VolumeRow {
        name: object.name.clone(),
        size: format::bytes(object.size_bytes),
        policy: object.policy.clone(),
        chip: words::health(object.health),
        survives: words::tolerates(object, noun),
        reason: object.reason.as_deref().map(explain::sentence).unwrap_or_default(),
        tree: if index < TREES_MAX { placement::raid_rows(&inside, object, now) } else { Vec::new() },
    };
    ClusterCard {
        id: found.id.to_string(),
        chip: chip(&found),
        facts: facts(&found, now),
        volumes: inside.objects.iter().take(ROWS_MAX).enumerate().map(row).collect(),
        more: inside.objects.len().saturating_sub(ROWS_MAX),
        missing: found.missing.into_iter().map(|(_, name, host)| (name, host)).collect(),
        present: found.present.into_iter().map(|(name, path)| (name, path.display().to_string())).collect(),
        name: found.name,
        obstacles: found.obstacles.iter().map(|text| explain::sentence(text)).collect(),
        notes: found.notes.iter().map(|text| explain::sentence(text)).collect(),
        not_here: not_here.to_owned(),
    }
}

/// Why nothing can be imported into this server; empty when it can.
async fn not_here(cluster: &Cluster, data_dir: &str) -> Result<String, AppError> {
    let snapshot = cluster.snapshot().await?;
    Ok(match snapshot.cluster.state {
        ClusterState::Unconfigured => String::new(),
        _ => format!(
            "This server serves the cluster {} from {data_dir}. Import into a new folder on the command line, and serve that one.",
            snapshot.cluster.name
        ),
    })
}

async fn import_page(
    app: &App,
    cluster: &Cluster,
    page: Page,
    form: &LookForm,
    scan: Option<Scan>,
    errors: Vec<FieldError>,
) -> Result<ImportPage, AppError> {
    let (candidates, problem) = import::candidates(app).await;
    let data_dir = app.config.data_dir.display().to_string();
    let not_here = not_here(cluster, &data_dir).await?;
    let looked = scan.is_some();
    let (clusters, refused) = scan.map_or((Vec::new(), Vec::new()), |scan| (scan.clusters, scan.refused));
    let named = form.all();
    let shell_paths: Vec<String> = named.iter().map(|path| crate::service::unit::for_shell(path)).collect();
    let shell_paths = if shell_paths.is_empty() { "PATH…".to_owned() } else { shell_paths.join(" ") };
    Ok(ImportPage {
        picks: picks(candidates, form, !looked && errors.is_empty()),
        problem: problem.unwrap_or_default(),
        typed: form.paths.clone(),
        looked,
        clusters: clusters.into_iter().map(|found| card(found, &not_here, page.now)).collect(),
        refused: refused.into_iter().map(|(path, why)| (path.display().to_string(), why)).collect(),
        not_here,
        data_dir,
        there: Chip::new(Tone::Healthy, "There"),
        away: Chip::new(Tone::Absent, "Missing"),
        command_list: parts::commands(&[
            ("look only; nothing is written", format!("millpond import --look {shell_paths}")),
            (
                "into a new folder, for a server that is started then",
                format!("millpond import --data NEWDIR {shell_paths}"),
            ),
        ]),
        shell: page.shell,
        errors,
    })
}

/// `GET /import`: which disks; with `look=1` what is on them. Writes nothing, so it may be loaded again.
///
/// # Errors
/// [`AppError::Unavailable`]; wrong paths show the form again.
pub async fn page(
    _: Admin,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    page: Page,
    Query(form): Query<LookForm>,
) -> Result<Response, AppError> {
    if form.look.is_empty() {
        return html(&import_page(&app, &cluster, page, &form, None, Vec::new()).await?);
    }
    let (status, scan, errors) = match import::scan(&form.all()).await {
        Ok(scan) => (StatusCode::OK, Some(scan), Vec::new()),
        Err(AppError::Invalid(errors)) => {
            let at_field = |error: FieldError| FieldError::new("paths", error.detail);
            (StatusCode::UNPROCESSABLE_ENTITY, None, errors.into_iter().map(at_field).collect())
        }
        Err(AppError::Conflict(why)) => (StatusCode::CONFLICT, None, vec![FieldError::new("paths", why)]),
        Err(other) => return Err(other),
    };
    html_with(status, &import_page(&app, &cluster, page, &form, scan, errors).await?)
}

/// `POST /import`: takes the cluster over, and leads to the task.
///
/// # Errors
/// [`AppError::NotFound`] for a cluster that is not there; what is in the way shows the form again.
pub async fn start(
    user: Admin,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    page: Page,
    Form(form): Form<StartForm>,
) -> Result<Response, AppError> {
    let wanted = form.cluster.parse().map(ClusterId);
    let wanted = wanted.map_err(|_| AppError::NotFound("a cluster of that id".into()))?;
    match import::start(&app, &user.0, &cluster, wanted, &form.path, true).await {
        Ok(task) => Ok(render::go_to(&page.headers, &format!("/tasks/{task}"))),
        Err(error @ (AppError::Conflict(_) | AppError::NotFound(_) | AppError::Invalid(_))) => {
            let (status, why) = match error {
                AppError::Invalid(wrong) => {
                    let said: Vec<String> = wrong.into_iter().map(|error| error.detail).collect();
                    (StatusCode::UNPROCESSABLE_ENTITY, said.join("; "))
                }
                other => (StatusCode::CONFLICT, other.to_string()),
            };
            let errors = vec![FieldError::new("", why)];
            let form = LookForm { paths: form.path.join("\n"), ..LookForm::default() };
            let scan = import::scan(&form.all()).await.ok();
            html_with(status, &import_page(&app, &cluster, page, &form, scan, errors).await?)
        }
        Err(other) => Err(other),
    }
}
