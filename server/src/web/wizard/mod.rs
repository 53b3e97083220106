//! The guided wizard: `/setup-cluster/{cluster}/{step}`. The draft is in SQLite, so that back, refresh, a second tab and a
//! restart of the server change nothing. Nothing is written to any disk before the last step, which says what it does.
//!
//! Every step is a [`Body`] (what the form shows) and a function that puts what was posted into the draft; the frame, the
//! side panel and the redirects are the same for all.
mod body;
mod claim;
mod cost;
mod group;
mod panel;
pub mod progress;
mod review;
mod save;

use crate::app::{App, Cluster};
use crate::error::{AppError, FieldError};
use crate::http::auth::Admin;
use crate::http::body::InCluster;
use crate::http::render;
use crate::service::draft::{self, Draft, Versioned};
use crate::service::grouping::{self, Candidate};
use crate::web::parts;
use crate::web::shell::{Page, Shell};
use crate::web::{format, html, html_with};
use askama::Template;
use axum::extract::{Form, Path, State};
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};
use body::Body;
use cost::Cost;
use panel::Panel;

/// What a form posts: names repeat, so it is no map.
pub type Posted = Vec<(String, String)>;

/// A step.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Step {
    /// Hosts and the name.
    Hosts,
    /// Failure domains out of this machine's disks.
    Group,
    /// Kind of cluster.
    Type,
    /// Data services.
    Services,
    /// Fault domains.
    Domains,
    /// Disks.
    Disks,
    /// Policies.
    Policies,
    /// Licence.
    Licence,
    /// Everything once more.
    Review,
}

/// All steps: address, name, title, what it is about.
const STEPS: [(Step, &str, &str, &str, &str); 9] = [
    (
        Step::Hosts,
        "hosts",
        "Hosts",
        "Name it and choose its hosts",
        "A host is a failure domain: what can fail at once. In a lab it is a folder of files; of one server, the next step makes \
         them.",
    ),
    (
        Step::Group,
        "group",
        "Group your disks",
        "Group your disks",
        "One server becomes several failure domains: take one of the ways below and change it as you like.",
    ),
    (
        Step::Type,
        "type",
        "Cluster type",
        "What kind of cluster is it?",
        "It decides which failures the cluster can be made to survive.",
    ),
    (
        Step::Services,
        "services",
        "Services",
        "Which services does its storage need?",
        "What is not in this release is named, not hidden.",
    ),
    (
        Step::Domains,
        "fault-domains",
        "Fault domains",
        "Which hosts fail together?",
        "Hosts in one rack or on one circuit share a fault domain. Copies of a volume never lie in the same one.",
    ),
    (
        Step::Disks,
        "disks",
        "Claim disks",
        "Claim disks",
        "Choose what each disk does. Nothing is made or erased until you confirm at the last step.",
    ),
    (
        Step::Policies,
        "policies",
        "Policies",
        "What shall volumes be promised?",
        "A policy says how many failures a volume survives. Make one or several, and choose the default.",
    ),
    (Step::Licence, "licence", "Licence", "Licence", "Community has every feature, no key and no clock."),
    (
        Step::Review,
        "review",
        "Review and create",
        "Review and create",
        "This is all that will happen. Disks are written to from here on, not before.",
    ),
];

impl Step {
    fn row(self) -> &'static (Step, &'static str, &'static str, &'static str, &'static str) {
        STEPS.iter().find(|row| row.0 == self).expect("every step is in the table")
    }

    fn of(word: &str) -> Result<Self, AppError> {
        let row = STEPS.iter().find(|row| row.1 == word);
        row.map(|row| row.0).ok_or_else(|| AppError::NotFound("this step".into()))
    }

    fn number(self) -> usize {
        STEPS.iter().position(|row| row.0 == self).unwrap_or(0) + 1
    }

    fn beside(self, by: isize) -> Option<Self> {
        let at = self.number().checked_add_signed(by)?.checked_sub(1)?;
        STEPS.get(at).map(|row| row.0)
    }

    fn href(self, cluster: &str) -> String {
        format!("/setup-cluster/{cluster}/{}", self.row().1)
    }
}

/// The page of a step.
#[derive(Template)]
#[template(path = "wizard.html", blocks = ["panel", "cost"])]
struct WizardPage {
    shell: Shell,
    title: &'static str,
    lead: &'static str,
    number: usize,
    count: usize,
    steps: Vec<parts::Step>,
    action: String,
    back: Option<String>,
    next_word: String,
    version: i64,
    errors: Vec<FieldError>,
    panel: Panel,
    cost: Cost,
    body: Body,
}

fn steps(draft: &Draft, cluster: &str, at: Step) -> Vec<parts::Step> {
    let furthest = STEPS.iter().find(|row| row.1 == draft.step).map_or(Step::Hosts, |row| row.0).max(at);
    STEPS
        .iter()
        .map(|(step, _, name, _, _)| {
            let state = match step {
                _ if *step == at => "now",
                _ if *step < furthest => "done",
                _ => "todo",
            };
            parts::Step {
                state,
                name: (*name).to_owned(),
                href: step.href(cluster),
                answer: if *step < furthest || *step == at {
                    body::answer(draft, *step)
                } else {
                    String::new()
                },
                reachable: *step <= furthest,
            }
        })
        .collect()
}

struct Request<'a> {
    app: &'a App,
    cluster: &'a Cluster,
    shell: Shell,
    step: Step,
    now: model::units::Timestamp,
    candidates: Vec<Candidate>,
}

/// What the form of a step may name: the disks that can be grouped.
async fn candidates(app: &App, draft: &Draft, step: Step) -> Result<Vec<Candidate>, AppError> {
    match step {
        Step::Group | Step::Disks | Step::Review => grouping::candidates(app, draft).await,
        _ => Ok(Vec::new()),
    }
}

impl Request<'_> {
    async fn page(
        self,
        versioned: &Versioned,
        errors: Vec<FieldError>,
        posted: &Posted,
    ) -> Result<WizardPage, AppError> {
        let Self { app, cluster, shell, step, now, candidates } = self;
        let draft = &versioned.draft;
        let capabilities = cluster.engine.capabilities();
        let body = Body::of(app, cluster, draft, step, (posted, &candidates), &errors).await?;
        let row = step.row();
        let tells = matches!(step, Step::Disks | Step::Review) && draft.lab.is_none();
        let costs = if tells { grouping::costs(draft, &candidates) } else { Vec::new() };
        let next = step.beside(1).map(|next| next.row().2.to_lowercase());
        Ok(WizardPage {
            shell,
            title: row.3,
            lead: row.4,
            number: step.number(),
            count: STEPS.len(),
            steps: steps(draft, &cluster.key, step),
            action: step.href(&cluster.key),
            back: step.beside(-1).map(|back| back.href(&cluster.key)),
            next_word: next.map_or_else(|| "Create the cluster".to_owned(), |next| format!("Next: {next}")),
            version: versioned.version,
            errors,
            panel: panel::panel(draft, &capabilities, step < Step::Disks, &costs, now),
            cost: Cost::of(draft, &capabilities, posted, now),
            body,
        })
    }
}

async fn unconfigured(cluster: &Cluster) -> Result<(), AppError> {
    if draft::is_unconfigured(cluster).await? {
        return Ok(());
    }
    Err(AppError::Conflict("the cluster is there already; it is changed on its own pages".into()))
}

/// `GET /setup-cluster/{cluster}/{step}`.
///
/// # Errors
/// [`AppError::NotFound`]; [`AppError::Conflict`] once the cluster is there.
pub async fn page(
    _user: Admin,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Path((_, step)): Path<(String, String)>,
    page: Page,
) -> Result<Response, AppError> {
    let step = Step::of(&step)?;
    unconfigured(&cluster).await?;
    let versioned = draft::load(&app, &cluster.key).await?;
    let candidates = candidates(&app, &versioned.draft, step).await?;
    let request =
        Request { app: &app, cluster: &cluster, shell: page.shell, step, now: page.now, candidates };
    html(&request.page(&versioned, Vec::new(), &Posted::new()).await?)
}

fn posted<'a>(form: &'a Posted, name: &str) -> &'a str {
    form.iter().find(|(key, _)| key == name).map_or("", |(_, value)| value)
}

/// `POST /setup-cluster/{cluster}/{step}`: saves, then goes where `go` says: `next`, `leave`, or stays.
///
/// # Errors
/// What is not a mistake of the form.
pub async fn save(
    user: Admin,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Path((_, step)): Path<(String, String)>,
    page: Page,
    Form(form): Form<Posted>,
) -> Result<Response, AppError> {
    let step = Step::of(&step)?;
    unconfigured(&cluster).await?;
    let go = posted(&form, "go");
    let saved = save::save(&app, &user.0, &cluster, step, &form).await;
    let errors = match saved {
        Ok(Some(address)) => return Ok(render::go_to(&page.headers, &address)),
        Ok(None) => {
            let to = match (go, step.beside(1)) {
                ("leave", _) => "/".to_owned(),
                ("next", Some(next)) => next.href(&cluster.key),
                _ => step.href(&cluster.key),
            };
            return Ok(render::go_to(&page.headers, &to));
        }
        Err(AppError::Invalid(errors)) => errors,
        Err(error @ (AppError::Conflict(_) | AppError::NotYet(_))) => {
            vec![FieldError::new("", error.to_string())]
        }
        Err(other) => return Err(other),
    };
    let mut versioned = draft::load(&app, &cluster.key).await?;
    // What was typed stays on the page, also the part of it that was right.
    let candidates = candidates(&app, &versioned.draft, step).await?;
    let _ = save::put(&mut versioned.draft, step, &form, app.rng.as_ref(), &candidates);
    let request =
        Request { app: &app, cluster: &cluster, shell: page.shell, step, now: page.now, candidates };
    let filled = request.page(&versioned, errors, &form).await?;
    html_with(StatusCode::UNPROCESSABLE_ENTITY, &filled)
}

/// `POST /setup-cluster/{cluster}/{step}/preview`: panel and cost for what the form holds now; nothing is saved.
///
/// # Errors
/// As [`page`].
pub async fn preview(
    _user: Admin,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Path((_, step)): Path<(String, String)>,
    page: Page,
    Form(form): Form<Posted>,
) -> Result<Response, AppError> {
    let step = Step::of(&step)?;
    let mut versioned = draft::load(&app, &cluster.key).await?;
    let candidates = candidates(&app, &versioned.draft, step).await?;
    let _ = save::put(&mut versioned.draft, step, &form, app.rng.as_ref(), &candidates);
    let gives = group::summary(&versioned.draft, &candidates).render();
    let request =
        Request { app: &app, cluster: &cluster, shell: page.shell, step, now: page.now, candidates };
    let filled = request.page(&versioned, Vec::new(), &form).await?;
    let panel = filled.as_panel().render().map_err(AppError::internal)?;
    let cost = filled.as_cost().render();
    let beside = match step {
        Step::Policies => crate::web::live::partials([("cost", cost)])?,
        Step::Group => crate::web::live::partials([("gives", gives)])?,
        _ => String::new(),
    };
    Ok(Html(format!("{panel}{beside}")).into_response())
}

/// Bytes for people, for the bodies.
fn size(bytes: u64) -> String {
    format::bytes(bytes)
}
