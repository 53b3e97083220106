//! A new volume: the form, and what it would take while it is filled in.
use crate::app::{App, Cluster};
use crate::error::{AppError, FieldError};
use crate::http::auth::Operator;
use crate::http::body::{Asked, InCluster};
use crate::http::render;
use crate::service::volumes;
use crate::web::format;
use crate::web::html;
use crate::web::parts::{self, Choice, Crumb, Fact, Field};
use crate::web::shell::{Page, Shell};
use crate::web::view::explain;
use crate::web::volumes::{PolicyOption, policy_options, typed_bytes, units};
use askama::Template;
use axum::extract::{Form, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use model::view::Snapshot;

/// What the form sends.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub struct NewForm {
    name: String,
    size: String,
    unit: String,
    policy: String,
}

#[derive(Template)]
#[template(path = "volumes/new.html", blocks = ["form", "preview"])]
struct NewPage {
    shell: Shell,
    trail: Vec<Crumb>,
    errors: Vec<FieldError>,
    name: Field,
    size: Field,
    unit: String,
    units: Vec<Choice>,
    policies: Vec<PolicyOption>,
    refusal: Option<String>,
    reasons: Vec<String>,
    fact_list: Vec<Fact>,
}

impl NewPage {
    async fn new(
        shell: Shell,
        cluster: &Cluster,
        form: NewForm,
        errors: Vec<FieldError>,
    ) -> Result<Self, AppError> {
        let snapshot = volumes::ready(cluster).await?;
        let chosen = if form.policy.is_empty() { &snapshot.cluster.default_policy } else { &form.policy };
        let unit = if form.unit.is_empty() { "GiB".to_owned() } else { form.unit.clone() };
        let name = Field::text("name", "Name", &form.name)
            .help("Letters, digits, dots, dashes and underscores. Clients use it to attach.");
        let mut page = Self {
            shell,
            trail: parts::crumbs(&[("Volumes", "/volumes")], "New"),
            name: name.checked(&errors),
            size: Field::text("size", "Size", &form.size).checked(&errors),
            errors,
            units: units(),
            policies: policy_options(&snapshot, chosen, explain::noun(&snapshot)),
            refusal: None,
            reasons: Vec::new(),
            fact_list: Vec::new(),
            unit,
        };
        if let Ok(size_bytes) = typed_bytes(&form.size, &page.unit) {
            page.preview(cluster, &snapshot, size_bytes, &chosen.clone()).await;
        }
        Ok(page)
    }

    async fn preview(&mut self, cluster: &Cluster, snapshot: &Snapshot, size_bytes: u64, policy: &str) {
        let answer = match volumes::preview(cluster, size_bytes, Some(policy)).await {
            Ok(answer) => answer,
            Err(error) => {
                self.refusal = Some(error.to_string());
                return;
            }
        };
        if let Some(refusal) = &answer.refusal {
            self.refusal = Some(format!("{}.", refusal.summary));
            self.reasons = refusal.reasons.iter().map(|(name, why)| format!("{name}: {why}")).collect();
            self.reasons.extend(refusal.nearest.iter().map(|nearest| format!("Would work: {nearest}")));
        }
        let noun = explain::noun(snapshot);
        #[allow(
            clippy::cast_precision_loss,
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "shown with three digits"
        )]
        let raw = (size_bytes as f64 * answer.capacity_factor) as u64;
        self.fact_list = vec![
            Fact::bytes("Size for clients", size_bytes),
            Fact::bytes("Raw space when full", raw)
                .note(format!("{:.2}× for every byte", answer.capacity_factor)),
            Fact::new(
                "Fault domains",
                format!("{} of {} used", answer.needs_fault_domains, answer.has_fault_domains),
            ),
            Fact::new("Fullest disk afterwards", format!("{}%", answer.fullest_disk_percent)),
        ];
        let policy = snapshot.policies.iter().find(|known| known.name == policy);
        if let Some(policy) = policy {
            let cost = model::arithmetic::write_cost(policy);
            let survives = format::plural(policy.failures_to_tolerate.into(), noun);
            self.fact_list.push(Fact::new("Survives", format!("the loss of {survives}")));
            self.fact_list.push(Fact::new(
                "One small write costs",
                format!(
                    "{} and {} of disks",
                    format::plural(cost.reads.into(), "read"),
                    format::plural(cost.writes.into(), "write")
                ),
            ));
        }
    }
}

/// `GET /volumes/new`.
///
/// # Errors
/// [`AppError::Conflict`] without a cluster.
pub async fn page(
    InCluster(cluster): InCluster,
    page: Page,
    Asked(form): Asked<NewForm>,
) -> Result<Response, AppError> {
    let form =
        if form.size.is_empty() { NewForm { size: "1".into(), unit: "GiB".into(), ..form } } else { form };
    html(&NewPage::new(page.shell, &cluster, form, Vec::new()).await?)
}

/// `GET /volumes/new/preview`: the side panel alone.
///
/// # Errors
/// [`AppError::Conflict`] without a cluster.
pub async fn preview(
    InCluster(cluster): InCluster,
    page: Page,
    Asked(form): Asked<NewForm>,
) -> Result<Response, AppError> {
    let filled = NewPage::new(page.shell, &cluster, form, Vec::new()).await?;
    Ok(Html(filled.as_preview().render().map_err(AppError::internal)?).into_response())
}

/// `POST /volumes/new`.
///
/// # Errors
/// What is not a mistake of the form.
pub async fn make(
    user: Operator,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    page: Page,
    Form(form): Form<NewForm>,
) -> Result<Response, AppError> {
    let size = typed_bytes(&form.size, &form.unit);
    let mut errors = Vec::new();
    if let Err(detail) = &size {
        errors.push(FieldError::new("size", detail));
        errors.extend(volumes::problems(&form.name, 1 << 30));
    } else {
        let policy = Some(form.policy.clone()).filter(|policy| !policy.is_empty());
        let name = form.name.trim();
        match volumes::create(&app, &user.0, &cluster, name, size.unwrap_or_default(), policy).await {
            Ok(volume) => return Ok(render::go_to(&page.headers, &format!("/volumes/{}", volume.name))),
            Err(AppError::Invalid(found)) => errors.extend(found.into_iter().map(renamed)),
            Err(AppError::Conflict(text)) => errors.push(FieldError::new("name", text)),
            Err(AppError::Unplaceable(refusal)) => errors.push(FieldError::new("", refusal.summary)),
            Err(other) => return Err(other),
        }
    }
    let filled = NewPage::new(page.shell, &cluster, form, errors).await?;
    crate::web::html_with(StatusCode::UNPROCESSABLE_ENTITY, &filled)
}

/// The field of the form that a field of the API is typed into.
pub fn renamed(error: FieldError) -> FieldError {
    if error.field == "size_bytes" { FieldError { field: "size".into(), ..error } } else { error }
}
