//! What can be done to a volume: pages first, consequences before the click.
use crate::app::App;
use crate::error::{AppError, FieldError};
use crate::http::auth::Operator;
use crate::http::body::{ByName, InCluster, Named};
use crate::http::render;
use crate::service::{resync, volumes};
use crate::web::parts::{self, Fact, Field};
use crate::web::precheck::{Ask, Precheck};
use crate::web::shell::{Page, Shell};
use crate::web::view::explain;
use crate::web::volumes::{new, policy_options, typed_bytes, typed_size, units};
use crate::web::{format, html, html_with};
use axum::extract::{Form, State};
use axum::http::StatusCode;
use axum::response::Response;
use model::view::{ObjectView, Snapshot};

fn about(shell: Shell, object: &ObjectView, verb: &str, ask: Ask) -> Precheck {
    let page = format!("/volumes/{}", object.name);
    Precheck { ask, ..Precheck::of(shell, ("Volumes", "/volumes"), (&object.name, &page), verb) }
}

fn delete_form(shell: Shell, object: &ObjectView, now: model::units::Timestamp, error: String) -> Precheck {
    let mut page = about(shell, object, "Delete", Ask::Typed { name: object.name.clone(), error });
    page.danger = true;
    page.warning = (
        format!("{} of data are destroyed.", format::bytes(object.used_bytes)),
        "It cannot be undone: the cluster keeps no copy, and no snapshot exists.".into(),
    );
    page.consequences = vec![
        Fact::bytes("Written by clients", object.used_bytes),
        Fact::bytes("Freed on disks", object.used_raw_bytes),
        Fact::new("Made", format::when(object.created_at, now).full),
        Fact::new("Clients", "Those attached now lose it at once; the export disappears"),
    ];
    let text = format!(
        "curl -X DELETE -H \"Authorization: Bearer $TOKEN\" \"$MILLPOND/api/v1/volumes/{0}?confirm={0}\"",
        object.name
    );
    page.command_list = parts::commands(&[("the same", text)]);
    page
}

/// `GET /volumes/{name}/delete`.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn delete_page(
    InCluster(cluster): InCluster,
    Named(path): Named<ByName>,
    page: Page,
) -> Result<Response, AppError> {
    let object = volumes::by_name(&cluster, &path.name).await?;
    html(&delete_form(page.shell, &object, page.now, String::new()))
}

/// What the delete form sends.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub struct Confirm {
    confirm: String,
}

/// `POST /volumes/{name}/delete`.
///
/// # Errors
/// [`AppError::NotFound`], [`AppError::Conflict`].
pub async fn delete(
    user: Operator,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Named(path): Named<ByName>,
    page: Page,
    Form(form): Form<Confirm>,
) -> Result<Response, AppError> {
    let object = volumes::by_name(&cluster, &path.name).await?;
    if form.confirm != path.name {
        let error = format!("type {} exactly; nothing was deleted", path.name);
        return html_with(
            StatusCode::UNPROCESSABLE_ENTITY,
            &delete_form(page.shell, &object, page.now, error),
        );
    }
    volumes::delete(&app, &user.0, &cluster, &path.name, Some(&form.confirm)).await?;
    Ok(render::go_to(&page.headers, "/volumes"))
}

/// What a size form sends.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub struct SizeForm {
    size: String,
    unit: String,
}

fn grow_form(shell: Shell, object: &ObjectView, form: SizeForm, errors: Vec<FieldError>) -> Precheck {
    let size = Field::text("size", "New size", form.size).checked(&errors);
    let mut page = about(shell, object, "Grow", Ask::Size { size, unit: form.unit, units: units() });
    page.lead =
        "It takes room only when it is written to. Clients see the new size when they attach again.".into();
    page.consequences =
        vec![Fact::bytes("Size now", object.size_bytes), Fact::new("Back", "A volume never shrinks")];
    page.errors = errors;
    let text =
        format!("curl -X PATCH … $MILLPOND/api/v1/volumes/{} -d '{{\"size_bytes\": BYTES}}'", object.name);
    page.command_list = parts::commands(&[("the same", text)]);
    page
}

/// `GET /volumes/{name}/grow`.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn grow_page(
    InCluster(cluster): InCluster,
    Named(path): Named<ByName>,
    page: Page,
) -> Result<Response, AppError> {
    let object = volumes::by_name(&cluster, &path.name).await?;
    let (size, unit) = typed_size(object.size_bytes);
    html(&grow_form(page.shell, &object, SizeForm { size, unit }, Vec::new()))
}

/// `POST /volumes/{name}/grow`.
///
/// # Errors
/// [`AppError::NotFound`], [`AppError::Unplaceable`].
pub async fn grow(
    user: Operator,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Named(path): Named<ByName>,
    page: Page,
    Form(form): Form<SizeForm>,
) -> Result<Response, AppError> {
    let object = volumes::by_name(&cluster, &path.name).await?;
    let done = match typed_bytes(&form.size, &form.unit) {
        Ok(size_bytes) => volumes::grow(&app, &user.0, &cluster, &path.name, size_bytes).await,
        Err(detail) => Err(AppError::field("size", detail)),
    };
    match done {
        Ok(volume) => Ok(render::go_to(&page.headers, &format!("/volumes/{}", volume.name))),
        Err(AppError::Invalid(errors)) => {
            let errors = errors.into_iter().map(new::renamed).collect();
            html_with(StatusCode::UNPROCESSABLE_ENTITY, &grow_form(page.shell, &object, form, errors))
        }
        Err(other) => Err(other),
    }
}

/// What a policy form sends.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub struct PolicyForm {
    policy: String,
}

fn policy_form(
    shell: Shell,
    snapshot: &Snapshot,
    object: &ObjectView,
    chosen: &str,
    errors: Vec<FieldError>,
) -> Precheck {
    let options = policy_options(snapshot, chosen, explain::noun(snapshot));
    let mut page = about(shell, object, "Change the policy of", Ask::Policy(options));
    page.lead = "The old layout serves until the new one is complete; nothing is offline meanwhile.".into();
    page.consequences = vec![
        Fact::new("Policy now", &object.policy),
        Fact::bytes("Space on disks now", object.used_raw_bytes),
        Fact::new("Runs as", "a task that can be followed under Tasks"),
    ];
    page.verb = "Apply this policy".into();
    page.errors = errors;
    let text = format!(
        "curl -X PUT … $MILLPOND/api/v1/volumes/{}/policy -d '{{\"policy\": \"NAME\"}}'",
        object.name
    );
    page.command_list = parts::commands(&[("the same", text)]);
    page
}

/// `GET /volumes/{name}/policy`.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn policy_page(
    InCluster(cluster): InCluster,
    Named(path): Named<ByName>,
    page: Page,
) -> Result<Response, AppError> {
    let object = volumes::by_name(&cluster, &path.name).await?;
    let snapshot = cluster.snapshot().await?;
    html(&policy_form(page.shell, &snapshot, &object, &object.policy, Vec::new()))
}

/// `POST /volumes/{name}/policy`.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn policy(
    user: Operator,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Named(path): Named<ByName>,
    page: Page,
    Form(form): Form<PolicyForm>,
) -> Result<Response, AppError> {
    let object = volumes::by_name(&cluster, &path.name).await?;
    let done = volumes::apply_policy(&app, &user.0, &cluster, &path.name, Some(form.policy.clone())).await;
    let errors = match done {
        Ok(_) => return Ok(render::go_to(&page.headers, &format!("/volumes/{}", path.name))),
        Err(AppError::Invalid(errors)) => errors,
        Err(error @ (AppError::Unplaceable(_) | AppError::Conflict(_) | AppError::NotYet(_))) => {
            vec![FieldError::new("", error.to_string())]
        }
        Err(other) => return Err(other),
    };
    let snapshot = cluster.snapshot().await?;
    let filled = policy_form(page.shell, &snapshot, &object, &form.policy, errors);
    html_with(StatusCode::UNPROCESSABLE_ENTITY, &filled)
}

/// `GET /volumes/{name}/repair`: what rebuilding at once means.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn repair_page(
    InCluster(cluster): InCluster,
    Named(path): Named<ByName>,
    page: Page,
) -> Result<Response, AppError> {
    let object = volumes::by_name(&cluster, &path.name).await?;
    let missing: u64 = object
        .tree
        .leaves()
        .iter()
        .filter(|(leaf, _)| leaf.state == model::state::ComponentState::Absent)
        .map(|(leaf, _)| leaf.used_bytes)
        .sum();
    let mut filled = about(page.shell, &object, "Rebuild", Ask::Plain);
    filled.verb = format!("Rebuild {} now", object.name);
    filled.lead =
        "The absent part is built again on another fault domain, without waiting for its host.".into();
    filled.warning = (
        "If the host comes back soon, waiting is less work.".into(),
        "Then only what was written meanwhile would have been copied.".into(),
    );
    filled.consequences = vec![
        Fact::bytes("Copied in full", missing),
        Fact::new(
            "By itself",
            object.repair_at.map_or_else(|| "no timer runs".to_owned(), |at| format::when(at, page.now).full),
        ),
    ];
    let text =
        "curl -X POST -H \"Authorization: Bearer $TOKEN\" $MILLPOND/api/v1/resync/repair-now".to_owned();
    filled.command_list = parts::commands(&[("the same for every volume", text)]);
    html(&filled)
}

/// `POST /volumes/{name}/repair`.
///
/// # Errors
/// [`AppError::NotFound`], [`AppError::Unplaceable`].
pub async fn repair(
    user: Operator,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Named(path): Named<ByName>,
    page: Page,
) -> Result<Response, AppError> {
    let object = volumes::by_name(&cluster, &path.name).await?;
    resync::repair_now(&app, &user.0, &cluster, Some(object.uuid)).await?;
    Ok(render::go_to(&page.headers, &format!("/volumes/{}", path.name)))
}
