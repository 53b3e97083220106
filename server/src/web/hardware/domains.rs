//! `/fault-domains`: which hosts fail together, how many domains really count, and what a change would mean before it is made.
use crate::app::{App, Cluster};
use crate::error::{AppError, FieldError};
use crate::http::auth::Operator;
use crate::http::body::InCluster;
use crate::http::render;
use crate::service::cluster::{self, snapshot_or_picture};
use crate::web::parts::{self, Check, Command, Crumb, Tone};
use crate::web::shell::{Page, Shell};
use crate::web::view::domains::{self, Touched};
use crate::web::view::explain::sentence;
use crate::web::view::hardware;
use crate::web::{format, html, html_with};
use askama::Template;
use axum::extract::{Form, State};
use axum::http::StatusCode;
use axum::response::Response;
use model::arithmetic;
use model::view::{FaultDomainView, Snapshot};

struct HostChoice {
    name: String,
    kind: &'static str,
    domain: String,
    effective: String,
}

#[derive(Template)]
#[template(path = "hardware/domains.html", blocks = ["preview"])]
struct DomainsPage {
    shell: Shell,
    trail: Vec<Crumb>,
    may: bool,
    errors: Vec<FieldError>,
    hosts: Vec<HostChoice>,
    known: Vec<String>,
    counts: String,
    changed: bool,
    checks: Vec<Check>,
    touched: Vec<Touched>,
    command_list: Vec<Command>,
}

/// Hosts by the name of the domain that was typed for them; a host with an empty field is in none.
fn typed(form: &[(String, String)]) -> Vec<FaultDomainView> {
    let mut list: Vec<FaultDomainView> = Vec::new();
    for (key, value) in form {
        let (Some(host), name) = (key.strip_prefix("d."), value.trim()) else { continue };
        if name.is_empty() {
            continue;
        }
        match list.iter_mut().find(|domain| domain.name == name) {
            Some(domain) => domain.hosts.push(host.to_owned()),
            None => list.push(FaultDomainView { name: name.to_owned(), hosts: vec![host.to_owned()] }),
        }
    }
    list
}

/// Checks on the wished domains: the model's warnings, and policies that would lack domains.
fn checks(
    snapshot: &Snapshot,
    effective: &model::capacity::EffectiveDomains,
    touched: &[Touched],
) -> Vec<Check> {
    let has = effective.domains.len();
    let mut list: Vec<Check> = effective
        .warnings
        .iter()
        .map(|text| Check { tone: Tone::Degraded, text: sentence(text), detail: String::new() })
        .collect();
    for policy in &snapshot.policies {
        let needs = arithmetic::fault_domains_needed(policy) as usize;
        if needs > has {
            let users = snapshot.objects.iter().filter(|object| object.policy == policy.name).count() as u64;
            list.push(Check {
                tone: Tone::Degraded,
                text: format!("Policy {} needs {needs} fault domains, there would be {has}.", policy.name),
                detail: format!(
                    "{} use it; no new one could be made with it.",
                    format::plural(users, "volume")
                ),
            });
        }
    }
    let broken = touched.iter().filter(|touched| touched.breaks).count() as u64;
    if broken > 0 {
        list.push(Check {
            tone: Tone::Failed,
            text: format!("{} would have two copies in one fault domain.", format::plural(broken, "volume")),
            detail: "They stay available, and are not as their policy says until a copy has moved.".into(),
        });
    }
    if list.is_empty() {
        list.push(Check {
            tone: Tone::Healthy,
            text: "Every host is in a domain, and every policy finds enough of them.".into(),
            detail: String::new(),
        });
    }
    list
}

async fn build(
    app: &App,
    cluster: &Cluster,
    shell: Shell,
    wished: Option<Vec<FaultDomainView>>,
    errors: Vec<FieldError>,
) -> Result<DomainsPage, AppError> {
    let snapshot = snapshot_or_picture(app, cluster).await?;
    let now = domains::effective(&snapshot, &snapshot.cluster.fault_domains);
    let changed = wished.as_ref().is_some_and(|wished| *wished != snapshot.cluster.fault_domains);
    let named = wished.unwrap_or_else(|| snapshot.cluster.fault_domains.clone());
    let then = domains::effective(&snapshot, &named);
    let touched = domains::touched_volumes(&snapshot, &then);
    let of = |host: &str| named.iter().find(|domain| domain.hosts.iter().any(|name| name == host));
    let hosts = snapshot.hosts.iter().map(|host| HostChoice {
        name: host.name.clone(),
        kind: hardware::kind(host.kind),
        domain: of(&host.name).map(|domain| domain.name.clone()).unwrap_or_default(),
        effective: then.of_host.get(&host.name).cloned().unwrap_or_default(),
    });
    Ok(DomainsPage {
        trail: parts::crumbs(&[("Hosts and disks", "/hosts")], "Fault domains"),
        may: shell.role != "viewer",
        hosts: hosts.collect(),
        known: snapshot.cluster.fault_domains.iter().map(|domain| domain.name.clone()).collect(),
        counts: if changed {
            format!("{} count, {} now", then.domains.len(), now.domains.len())
        } else {
            format!("{} count", format::plural(now.domains.len() as u64, "domain"))
        },
        changed,
        checks: checks(&snapshot, &then, &touched),
        touched,
        errors,
        command_list: parts::commands(&[(
            "replace all of them",
            "curl -X PUT … $MILLPOND/api/v1/fault-domains -d '[{\"name\":\"rack-a\",\"hosts\":[\"h1\",\"h2\"]}]'".into(),
        )]),
        shell,
    })
}

/// `GET /fault-domains`.
///
/// # Errors
/// [`AppError::Unavailable`].
pub async fn page(
    State(app): State<App>,
    InCluster(cluster): InCluster,
    page: Page,
) -> Result<Response, AppError> {
    html(&build(&app, &cluster, page.shell, None, Vec::new()).await?)
}

/// `POST /fault-domains/preview`: nothing is changed.
///
/// # Errors
/// [`AppError::Unavailable`].
pub async fn preview(
    State(app): State<App>,
    InCluster(cluster): InCluster,
    page: Page,
    Form(form): Form<Vec<(String, String)>>,
) -> Result<Response, AppError> {
    let filled = build(&app, &cluster, page.shell, Some(typed(&form)), Vec::new()).await?;
    render::page_or_fragment(
        &page.headers,
        StatusCode::OK,
        || filled.render(),
        || filled.as_preview().render(),
    )
}

/// `POST /fault-domains`.
///
/// # Errors
/// As the engine refuses.
pub async fn apply(
    user: Operator,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    page: Page,
    Form(form): Form<Vec<(String, String)>>,
) -> Result<Response, AppError> {
    let wished = typed(&form);
    let errors = match cluster::set_fault_domains(&app, &user.0, &cluster, wished.clone()).await {
        Ok(()) => return Ok(render::go_to(&page.headers, "/fault-domains")),
        Err(AppError::Invalid(errors)) => {
            errors.into_iter().map(|error| FieldError::new("", error.detail)).collect()
        }
        Err(error @ (AppError::Conflict(_) | AppError::NotYet(_))) => {
            vec![FieldError::new("", error.to_string())]
        }
        Err(other) => return Err(other),
    };
    let filled = build(&app, &cluster, page.shell, Some(wished), errors).await?;
    html_with(StatusCode::UNPROCESSABLE_ENTITY, &filled)
}

#[cfg(test)]
mod tests {
    use crate::web::testing::{Console, shows};
    use model::engine::Intent;

    #[tokio::test]
    async fn a_change_is_shown_before_it_is_made() {
        let console = Console::sample().await;
        shows(
            &console.get("/fault-domains").await,
            &["rack-a", "3 domains count", "Every host is in a domain"],
        );
        let form = "d.h1=rack-a&d.h2=rack-b&d.h3=rack-b&d.h4=rack-a&d.h5=rack-c&d.h6=";
        let page = console.post("/fault-domains/preview", form).await;
        shows(
            &page,
            &["4 count, 3 now", "Host h6 is in no fault domain", "two copies in one fault domain", "mail"],
        );
        assert!(console.intents().is_empty(), "a preview changes nothing");
        assert_eq!(console.post("/fault-domains", form).await.0, 303);
        let intents = console.intents();
        assert!(
            matches!(&intents[..], [Intent::SetFaultDomains { fault_domains }] if fault_domains.len() == 3)
        );
    }

    #[tokio::test]
    async fn a_wrong_name_keeps_what_was_typed() {
        let console = Console::sample().await;
        let (status, page) = console.post("/fault-domains", "d.h1=rack%20one%2F&d.h2=rack-b").await;
        assert_eq!(status, 422);
        assert!(page.contains("rack one/") && page.contains("form-error"), "{page}");
        assert!(console.intents().is_empty());
    }
}
