//! Deeds on a policy: delete, make it the default, apply it to volumes that follow an older version. Pages first.
use super::users;
use crate::app::{App, Cluster};
use crate::error::{AppError, FieldError};
use crate::http::auth::Operator;
use crate::http::body::{ByName, InCluster, Named};
use crate::http::render;
use crate::service::cluster::{self, snapshot_or_picture};
use crate::service::{policies, volumes};
use crate::web::parts::{self, Fact, Tone};
use crate::web::precheck::Precheck;
use crate::web::shell::{Page, Shell};
use crate::web::view::explain::sentence;
use crate::web::{format, html, html_with};
use axum::extract::State;
use axum::http::StatusCode;
use axum::response::Response;
use model::state::Compliance;

fn bare(shell: Shell, name: &str, verb: &str, command: (&str, String)) -> Precheck {
    let mut page = Precheck::of(shell, ("Policies", "/policies"), (name, &format!("/policies/{name}")), verb);
    page.command_list = parts::commands(&[command]);
    page
}

async fn deletion(app: &App, cluster: &Cluster, shell: Shell, name: &str) -> Result<Precheck, AppError> {
    policies::get(app, cluster, name).await?;
    let snapshot = snapshot_or_picture(app, cluster).await?;
    let using: Vec<String> = users(&snapshot, name).iter().map(|object| object.name.clone()).collect();
    let command =
        format!("curl -X DELETE -H \"Authorization: Bearer $TOKEN\" $MILLPOND/api/v1/policies/{name}");
    let mut page = bare(shell, name, "Delete", ("the same", command));
    page.danger = true;
    page.consequences = vec![
        if using.is_empty() {
            Fact::chip("In use", Tone::Healthy, "No volume uses it")
        } else {
            Fact::chip(
                "In use",
                Tone::Failed,
                format!("{} it", format::plural_that(using.len() as u64, "volume", "uses", "use")),
            )
        },
        Fact::new("Undo", "Author it again with the same values"),
    ];
    if name == model::policy::Policy::built_in().name {
        page.block("Not now.", "The policy \"default\" is built in and stays.");
    } else if name == snapshot.cluster.default_policy {
        page.block("Not now.", "It is the default policy. Make another one the default first.");
    } else if !using.is_empty() {
        page.block("Not now.", "Give these volumes another policy first; then it can be deleted.");
    }
    page.volumes = using;
    Ok(page)
}

/// `GET /policies/{name}/delete`.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn delete_page(
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Named(path): Named<ByName>,
    page: Page,
) -> Result<Response, AppError> {
    html(&deletion(&app, &cluster, page.shell, &path.name).await?)
}

/// `POST /policies/{name}/delete`.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn delete(
    user: Operator,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Named(path): Named<ByName>,
    page: Page,
) -> Result<Response, AppError> {
    let mut filled = deletion(&app, &cluster, page.shell, &path.name).await?;
    if !filled.is_blocked() {
        match policies::delete(&app, &user.0, &cluster, &path.name).await {
            Ok(()) => return Ok(render::go_to(&page.headers, "/policies")),
            Err(AppError::Conflict(text)) => filled.errors = vec![FieldError::new("", sentence(&text))],
            Err(other) => return Err(other),
        }
    }
    html_with(StatusCode::CONFLICT, &filled)
}

/// `GET /policies/{name}/default`: what the default applies to.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn default_page(
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Named(path): Named<ByName>,
    page: Page,
) -> Result<Response, AppError> {
    policies::get(&app, &cluster, &path.name).await?;
    let snapshot = snapshot_or_picture(&app, &cluster).await?;
    let command =
        format!("curl -X PATCH … $MILLPOND/api/v1/cluster -d '{{\"default_policy\":\"{}\"}}'", path.name);
    let mut filled = bare(page.shell, &path.name, "Make default:", ("the same", command));
    filled.title = format!("Make {} the default", path.name);
    filled.verb.clone_from(&filled.title);
    filled.consequences = vec![
        Fact::new(
            "Applies to",
            "New volumes that name no policy, from the console, the API and the command line",
        ),
        Fact::new(
            "Existing",
            format::plural_that(
                snapshot.objects.len() as u64,
                "volume",
                "keeps the policy it has",
                "keep the policy they have",
            ),
        ),
        Fact::new("Default now", &snapshot.cluster.default_policy),
    ];
    html(&filled)
}

/// `POST /policies/{name}/default`.
///
/// # Errors
/// [`AppError::Invalid`] when there is no such policy.
pub async fn make_default(
    user: Operator,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Named(path): Named<ByName>,
    page: Page,
) -> Result<Response, AppError> {
    cluster::update(&app, &user.0, &cluster, None, Some(path.name), None).await?;
    Ok(render::go_to(&page.headers, "/policies"))
}

/// `GET /policies/{name}/apply`: volumes that follow an older version.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn apply_page(
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Named(path): Named<ByName>,
    page: Page,
) -> Result<Response, AppError> {
    let policy = policies::get(&app, &cluster, &path.name).await?;
    let old = out_of_date(&app, &cluster, &path.name).await?;
    let command = "curl -X POST … $MILLPOND/api/v1/volumes/NAME/reapply".to_owned();
    let mut filled = bare(page.shell, &path.name, "Apply", ("for each volume", command));
    filled.title = format!("Apply {} to its volumes", path.name);
    filled.verb = format!("Apply to {}", format::plural(old.len() as u64, "volume"));
    filled.consequences = vec![
        Fact::new("Version", format!("{}: they follow an older one", policy.version)),
        Fact::new("Meanwhile", "Each stays in use; the old layout serves until the new one is complete"),
        Fact::new("Runs as", "One task a volume, under Tasks"),
    ];
    if old.is_empty() {
        filled.block("Nothing to do.", "Every volume follows the present version already.");
    }
    filled.volumes = old;
    html(&filled)
}

async fn out_of_date(app: &App, cluster: &Cluster, name: &str) -> Result<Vec<String>, AppError> {
    let snapshot = snapshot_or_picture(app, cluster).await?;
    let using = users(&snapshot, name);
    let old = using.iter().filter(|object| object.compliance == Compliance::OutOfDate);
    Ok(old.map(|object| object.name.clone()).collect())
}

/// `POST /policies/{name}/apply`. Stops at the first volume that cannot follow; those before it do.
///
/// # Errors
/// As the engine refuses.
pub async fn apply(
    user: Operator,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Named(path): Named<ByName>,
    page: Page,
) -> Result<Response, AppError> {
    for volume in out_of_date(&app, &cluster, &path.name).await? {
        volumes::apply_policy(&app, &user.0, &cluster, &volume, None).await?;
    }
    Ok(render::go_to(&page.headers, "/tasks"))
}
