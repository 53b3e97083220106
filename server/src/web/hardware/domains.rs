//! `/fault-domains`: which hosts fail together, how many domains really count, and what a change would mean before it is made.
use crate::app::{App, Cluster};
use crate::error::{AppError, FieldError};
use crate::http::auth::Admin;
use crate::http::body::InCluster;
use crate::http::render;
use crate::service::cluster::{self, snapshot_or_picture};
use crate::service::domains::{self, Preview, Touched};
use crate::web::parts::{self, Check, Command, Crumb, Tone};
use crate::web::shell::{Page, Shell};
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

/// A domain with a name, also when it is empty.
struct Known {
    name: String,
    hosts: Vec<String>,
}

#[derive(Template)]
#[template(path = "hardware/domains.html", blocks = ["preview"])]
struct DomainsPage {
    shell: Shell,
    trail: Vec<Crumb>,
    may: bool,
    errors: Vec<FieldError>,
    hosts: Vec<HostChoice>,
    known: Vec<Known>,
    counts: String,
    changed: bool,
    checks: Vec<Check>,
    touched: Vec<Touched>,
    command_list: Vec<Command>,
}

/// Hosts by the name of the domain that was typed for them; a host with an empty field is in none. Domains that are named in
/// `domain` fields stay although no host is in them; `new` adds one, `drop` lets one go that has become empty.
fn typed(form: &[(String, String)]) -> Vec<FaultDomainView> {
    let all =
        |key: &'static str| form.iter().filter(move |(name, _)| name == key).map(|(_, value)| value.trim());
    let dropped: Vec<&str> = all("drop").collect();
    let named = all("domain").chain(all("new")).filter(|name| !name.is_empty() && !dropped.contains(name));
    let mut list: Vec<FaultDomainView> = Vec::new();
    for name in named {
        if !list.iter().any(|domain| domain.name == name) {
            list.push(FaultDomainView { name: name.to_owned(), hosts: Vec::new() });
        }
    }
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

/// What has to move, in words.
fn moves(preview: &Preview) -> String {
    let homeless = match preview.moves.homeless {
        0 => String::new(),
        number => format!(
            " {} in another domain.",
            format::plural_that(number.into(), "part", "would find no disk", "would find no disk")
        ),
    };
    format!(
        "They stay available. To be as their policy says again, {} would have to move; nothing moves by itself.{homeless}",
        format::bytes(preview.moves.bytes)
    )
}

/// Checks on the wished domains: the model's warnings, and policies that would lack domains.
fn checks(snapshot: &Snapshot, preview: &Preview, named: bool) -> Vec<Check> {
    let has = preview.then.domains.len();
    let mut list: Vec<Check> = preview
        .then
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
                text: format!(
                    "Policy {} needs {}; there would be {has}.",
                    policy.name,
                    format::plural(needs as u64, "fault domain")
                ),
                detail: format!(
                    "{} it; no new one could be made with it.",
                    format::plural_that(users, "volume", "uses", "use")
                ),
            });
        }
    }
    let broken = preview.touched.iter().filter(|touched| touched.breaks).count() as u64;
    if broken > 0 {
        list.push(Check {
            tone: Tone::Failed,
            text: format!("{} would have two copies in one fault domain.", format::plural(broken, "volume")),
            detail: moves(preview),
        });
    }
    if list.is_empty() {
        list.push(Check {
            tone: Tone::Healthy,
            text: if named {
                "Every host is in a domain, and every policy finds enough of them.".into()
            } else {
                "Every host is a domain of its own, and every policy finds enough of them.".into()
            },
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
    let changed = wished.as_ref().is_some_and(|wished| *wished != snapshot.cluster.fault_domains);
    let named = wished.unwrap_or_else(|| snapshot.cluster.fault_domains.clone());
    let preview = domains::preview(&snapshot, &named);
    let (now, then) = (&preview.now, &preview.then);
    let of = |host: &str| named.iter().find(|domain| domain.hosts.iter().any(|name| name == host));
    let hosts = snapshot.hosts.iter().map(|host| HostChoice {
        name: host.name.clone(),
        kind: hardware::kind(host.kind),
        domain: of(&host.name).map(|domain| domain.name.clone()).unwrap_or_default(),
        effective: then.of_host.get(&host.name).cloned().unwrap_or_default(),
    });
    Ok(DomainsPage {
        trail: parts::crumbs(&[("Hosts and disks", "/hosts")], "Fault domains"),
        may: shell.role == "admin",
        hosts: hosts.collect(),
        known: named.iter().map(|domain| Known { name: domain.name.clone(), hosts: domain.hosts.clone() }).collect(),
        counts: if changed {
            format!("{} count, {} now", then.domains.len(), now.domains.len())
        } else {
            format::plural_that(now.domains.len() as u64, "domain", "counts", "count")
        },
        changed,
        checks: checks(&snapshot, &preview, !named.is_empty()),
        touched: preview.touched,
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
    user: Admin,
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
    async fn an_empty_domain_is_kept_until_it_is_dropped() {
        let console = Console::sample().await;
        let hosts = "d.h1=rack-a&d.h2=rack-a&d.h3=rack-b&d.h4=rack-b&d.h5=rack-b&d.h6=rack-b";
        let domains = format!("domain=rack-a&domain=rack-b&domain=rack-c&new=rack-d&{hosts}");
        let page = console.post("/fault-domains/preview", &domains).await;
        shows(&page, &["name=\"domain\" value=\"rack-d\"", "Fault domain rack-c has no host and counts 0"]);
        assert_eq!(console.post("/fault-domains", &domains).await.0, 303);
        assert_eq!(console.post("/fault-domains", &format!("{domains}&drop=rack-c")).await.0, 303);
        let names = |intent: &Intent| match intent {
            Intent::SetFaultDomains { fault_domains } => {
                fault_domains.iter().map(|domain| domain.name.clone()).collect::<Vec<_>>().join(" ")
            }
            _ => String::new(),
        };
        let put: Vec<String> = console.intents().iter().map(names).collect();
        assert_eq!(put, ["rack-a rack-b rack-c rack-d", "rack-a rack-b rack-d"]);
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
