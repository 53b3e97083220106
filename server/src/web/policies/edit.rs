//! Author and edit a policy, with live arithmetic: `GET,POST /policies/new`, `/policies/{name}/edit`, `POST /policies/preview`.
use super::form::PolicyForm;
use crate::app::{App, Cluster};
use crate::error::{AppError, FieldError};
use crate::http::auth::Operator;
use crate::http::body::{Asked, ByName, InCluster, Named};
use crate::http::render;
use crate::service::cluster::snapshot_or_picture;
use crate::service::policies;
use crate::web::parts::{self, Choice, Command, Crumb, Fact, Field};
use crate::web::shell::{Page, Shell};
use crate::web::view::explain::sentence;
use crate::web::view::{policy as arithmetic, words};
use crate::web::{format, html, html_with};
use askama::Template;
use axum::extract::{Form, State};
use axum::http::StatusCode;
use axum::response::Response;
use model::policy::Policy;

/// What the form means now: numbers, or why there are none.
#[derive(Default)]
struct Meaning {
    cost: Vec<Fact>,
    problems: Vec<String>,
    refusal: Option<String>,
    reasons: Vec<(String, String)>,
    nearest: Vec<String>,
    consequences: Vec<Fact>,
    names: Vec<String>,
    changes: u64,
    changes_words: String,
}

#[derive(Template)]
#[template(path = "policies/edit.html", blocks = ["preview"])]
struct EditPage {
    shell: Shell,
    trail: Vec<Crumb>,
    title: String,
    lead: &'static str,
    /// Name of the policy that is edited; empty when it is new.
    of: String,
    errors: Vec<FieldError>,
    form: PolicyForm,
    name: Field,
    stripe: Field,
    reservation: Field,
    limit: Field,
    methods: Vec<Choice>,
    failures: Vec<Choice>,
    legs: Vec<Choice>,
    site_choices: Vec<Choice>,
    meaning: Meaning,
    command_list: Vec<Command>,
}

/// Names shown in a preview.
const NAMES_MAX: usize = 6;

async fn meaning(
    app: &App,
    cluster: &Cluster,
    form: &PolicyForm,
    editing: bool,
) -> Result<Meaning, AppError> {
    let snapshot = snapshot_or_picture(app, cluster).await?;
    let named = PolicyForm {
        name: if form.name.trim().is_empty() { "new".into() } else { form.name.clone() },
        ..form.clone()
    };
    let policy = match named.policy() {
        Ok(policy) => policy,
        Err(errors) => {
            let problems = errors.into_iter().map(|error| sentence(&error.detail)).collect();
            return Ok(Meaning { problems, ..Meaning::default() });
        }
    };
    let answer = policies::preview(app, cluster, policy.clone()).await?;
    let mut nearest: Vec<String> =
        answer.refusal.iter().flat_map(|refusal| refusal.nearest.clone()).collect();
    if nearest.is_empty() {
        nearest = answer.nearest.iter().map(|near| words::policy(near, "host")).collect();
    }
    let mut names: Vec<String> =
        answer.objects.iter().take(NAMES_MAX).map(|object| object.name.clone()).collect();
    if answer.objects.len() > NAMES_MAX {
        names.push(format!("and {} more", answer.objects.len() - NAMES_MAX));
    }
    Ok(Meaning {
        cost: arithmetic::cost(&snapshot, &policy),
        refusal: answer.refusal.as_ref().map(|refusal| sentence(&refusal.summary)),
        reasons: answer.refusal.iter().flat_map(|refusal| refusal.reasons.clone()).take(NAMES_MAX).collect(),
        nearest,
        consequences: if editing { arithmetic::consequences(&answer) } else { Vec::new() },
        changes: answer.objects.len() as u64,
        changes_words: format::plural(answer.objects.len() as u64, "volume"),
        names,
        problems: Vec::new(),
    })
}

async fn build(
    app: &App,
    cluster: &Cluster,
    shell: Shell,
    of: &str,
    form: PolicyForm,
    errors: Vec<FieldError>,
) -> Result<EditPage, AppError> {
    let can = cluster.engine.capabilities();
    let editing = !of.is_empty();
    let meaning = meaning(app, cluster, &form, editing).await?;
    let text = |name, label, value: &str| Field {
        short: true,
        required: false,
        ..Field::text(name, label, value).checked(&errors)
    };
    let trail = if editing {
        parts::crumbs(&[("Policies", "/policies"), (of, &format!("/policies/{of}"))], "Edit")
    } else {
        parts::crumbs(&[("Policies", "/policies")], "New policy")
    };
    Ok(EditPage {
        trail,
        title: if editing { format!("Edit {of}") } else { "Author a policy".into() },
        lead: "A policy is a promise: how many failures a volume survives, and what that may cost. The numbers beside it are those of this cluster.",
        of: of.to_owned(),
        name: Field::text("name", "Name", &form.name)
            .checked(&errors)
            .help("Letters, digits, dots, dashes and underscores."),
        stripe: text("stripe_width", "Stripe width", &form.stripe_width)
            .help("1 to 12 disks that one copy is spread over."),
        reservation: text(
            "object_space_reservation_percent",
            "Space reserved at once, %",
            &form.object_space_reservation_percent,
        )
        .help("0: a volume takes room only for what is written."),
        limit: text("iops_limit", "I/O limit, per second", &form.iops_limit)
            .help("In units of 32 KiB. Empty: none."),
        methods: arithmetic::methods(&can),
        failures: (0..=3).map(|number: u8| Choice::new(number.to_string(), number.to_string())).collect(),
        legs: if can.can("raid5") || can.can("raid6") {
            ["2", "3", "4"].map(|legs| Choice::new(legs, legs)).to_vec()
        } else {
            Vec::new()
        },
        site_choices: arithmetic::sites(&can),
        meaning,
        command_list: parts::commands(&[(
            "what an edit would move",
            format!(
                "curl -X POST … $MILLPOND/api/v1/policies/{}/preview -d '{{…}}'",
                if editing { of } else { "NAME" }
            ),
        )]),
        errors,
        form,
        shell,
    })
}

/// `GET /policies/new`.
///
/// # Errors
/// [`AppError::Unavailable`].
pub async fn new_page(
    State(app): State<App>,
    InCluster(cluster): InCluster,
    page: Page,
) -> Result<Response, AppError> {
    let form = PolicyForm { name: String::new(), ..PolicyForm::of(&Policy::built_in()) };
    html(&build(&app, &cluster, page.shell, "", form, Vec::new()).await?)
}

/// `GET /policies/{name}/edit`.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn edit_page(
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Named(path): Named<ByName>,
    page: Page,
) -> Result<Response, AppError> {
    let policy = policies::get(&app, &cluster, &path.name).await?;
    html(&build(&app, &cluster, page.shell, &path.name, PolicyForm::of(&policy), Vec::new()).await?)
}

/// `?of=`: the policy that is edited.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub struct Of {
    of: String,
}

/// `POST /policies/preview`: nothing is changed.
///
/// # Errors
/// [`AppError::Unavailable`].
pub async fn preview(
    State(app): State<App>,
    InCluster(cluster): InCluster,
    page: Page,
    Asked(query): Asked<Of>,
    Form(form): Form<PolicyForm>,
) -> Result<Response, AppError> {
    let filled = build(&app, &cluster, page.shell, &query.of, form, Vec::new()).await?;
    render::page_or_fragment(
        &page.headers,
        StatusCode::OK,
        || filled.render(),
        || filled.as_preview().render(),
    )
}

/// The errors to show above the form, and the status; what is no matter of the form goes on.
fn form_errors(error: AppError) -> Result<(StatusCode, Vec<FieldError>), AppError> {
    match error {
        AppError::Invalid(errors) => Ok((StatusCode::UNPROCESSABLE_ENTITY, errors)),
        error @ (AppError::Conflict(_) | AppError::Unplaceable(_)) => {
            Ok((StatusCode::CONFLICT, vec![FieldError::new("", sentence(&error.to_string()))]))
        }
        error @ AppError::NotYet(_) => {
            Ok((StatusCode::UNPROCESSABLE_ENTITY, vec![FieldError::new("", sentence(&error.to_string()))]))
        }
        other => Err(other),
    }
}

/// `POST /policies/new`.
///
/// # Errors
/// [`AppError::Unavailable`].
pub async fn add(
    user: Operator,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    page: Page,
    Form(form): Form<PolicyForm>,
) -> Result<Response, AppError> {
    let done = match form.policy() {
        Ok(policy) => policies::add(&app, &user.0, &cluster, policy).await,
        Err(errors) => Err(AppError::Invalid(errors)),
    };
    match done {
        Ok(policy) => Ok(render::go_to(&page.headers, &format!("/policies/{}", policy.name))),
        Err(error) => {
            let (status, errors) = form_errors(error)?;
            html_with(status, &build(&app, &cluster, page.shell, "", form, errors).await?)
        }
    }
}

/// `POST /policies/{name}/edit`. When somebody else saved meanwhile, the values stay, the form takes the new version, and the
/// person looks again.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn save(
    user: Operator,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Named(path): Named<ByName>,
    page: Page,
    Form(form): Form<PolicyForm>,
) -> Result<Response, AppError> {
    let mut form = PolicyForm { name: path.name.clone(), ..form };
    let done = match form.policy() {
        Ok(policy) => policies::replace(&app, &user.0, &cluster, policy, form.apply == "now").await,
        Err(errors) => Err(AppError::Invalid(errors)),
    };
    let error = match done {
        Ok((_, Some(task))) => return Ok(render::go_to(&page.headers, &format!("/tasks/{task}"))),
        Ok((policy, None)) => return Ok(render::go_to(&page.headers, &format!("/policies/{}", policy.name))),
        Err(error) => error,
    };
    let (status, mut errors) = form_errors(error)?;
    let present = policies::get(&app, &cluster, &path.name).await?;
    if status == StatusCode::CONFLICT && present.version.to_string() != form.version {
        form.version = present.version.to_string();
        let promise = words::policy(&present, "host");
        let text = format!(
            "It is now version {}, \"{promise}\". Your values are below; review them and save again.",
            present.version
        );
        errors.push(FieldError::new("", text));
    }
    html_with(status, &build(&app, &cluster, page.shell, &path.name, form, errors).await?)
}
