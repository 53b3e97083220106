//! `/licence`: Community is the default and whole; a key can be entered, shown and taken out again.
use crate::app::{App, Cluster};
use crate::error::{AppError, FieldError};
use crate::http::auth::Admin;
use crate::http::body::InCluster;
use crate::http::render;
use crate::service::licence::{self, Licence};
use crate::web::parts::{self, Chip, Command, Fact, Tone};
use crate::web::shell::{Page, Shell};
use crate::web::{html, html_with};
use askama::Template;
use axum::extract::{Form, State};
use axum::http::StatusCode;
use axum::response::Response;

#[derive(Template)]
#[template(path = "licence.html")]
struct LicencePage {
    shell: Shell,
    chip: Chip,
    has_key: bool,
    facts: Vec<Fact>,
    errors: Vec<FieldError>,
    key: String,
    may: bool,
    command_list: Vec<Command>,
}

fn chip(licence: &Licence) -> Chip {
    match licence.state {
        "valid" => Chip::new(Tone::Healthy, "Key is valid"),
        "expired" => Chip::new(Tone::Maint, "Key has ended"),
        "invalid" => Chip::new(Tone::Degraded, "Key cannot be verified"),
        _ => Chip::new(Tone::Healthy, "Community"),
    }
}

fn facts(licence: &Licence) -> Vec<Fact> {
    let end = licence.expires_at.clone().unwrap_or_else(|| "never".into());
    let mut facts = vec![Fact::new("Edition", &licence.edition)];
    facts.extend(licence.holder.as_ref().map(|holder| Fact::new("Held by", holder)));
    let note = if licence.expires_at.is_some() { "nothing stops working then" } else { "" };
    facts.push(Fact::new("Ends", end).note(note));
    let extras = if licence.features.is_empty() { "none".to_owned() } else { licence.features.join(", ") };
    facts.push(Fact::new("Extras", extras));
    facts.push(Fact::new(
        "Needed",
        if licence.required { "yes" } else { "no: every feature works without a key" },
    ));
    facts
}

async fn build(
    app: &App,
    cluster: &Cluster,
    shell: Shell,
    key: String,
    errors: Vec<FieldError>,
) -> Result<LicencePage, AppError> {
    let licence = licence::get(app, cluster).await?;
    Ok(LicencePage {
        chip: chip(&licence),
        has_key: licence.state != "community",
        facts: facts(&licence),
        may: shell.role == "admin",
        errors,
        key,
        command_list: parts::commands(&[
            ("the licence", "curl -H \"Authorization: Bearer $TOKEN\" $MILLPOND/api/v1/licence".into()),
            ("read a key without storing it", "millpond licence show KEY".into()),
        ]),
        shell,
    })
}

/// `GET /licence`.
///
/// # Errors
/// [`AppError::Unavailable`].
pub async fn page(
    State(app): State<App>,
    InCluster(cluster): InCluster,
    page: Page,
) -> Result<Response, AppError> {
    html(&build(&app, &cluster, page.shell, String::new(), Vec::new()).await?)
}

/// What the form sends.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub struct KeyForm {
    key: String,
}

/// `POST /licence`: an empty key goes back to Community.
///
/// # Errors
/// As the engine refuses.
pub async fn put(
    user: Admin,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    page: Page,
    Form(form): Form<KeyForm>,
) -> Result<Response, AppError> {
    let key = form.key.trim();
    let done = if key.is_empty() {
        Err(AppError::field("key", "paste a key, or leave this page: Community needs none"))
    } else {
        licence::put(&app, &user.0, &cluster, Some(key.to_owned())).await
    };
    match done {
        Ok(_) => Ok(render::go_to(&page.headers, "/licence")),
        Err(AppError::Invalid(errors)) => {
            let filled = build(&app, &cluster, page.shell, form.key, errors).await?;
            html_with(StatusCode::UNPROCESSABLE_ENTITY, &filled)
        }
        Err(other) => Err(other),
    }
}

/// `POST /licence/remove`: back to Community.
///
/// # Errors
/// As the engine refuses.
pub async fn remove(
    user: Admin,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    page: Page,
) -> Result<Response, AppError> {
    licence::put(&app, &user.0, &cluster, None).await?;
    Ok(render::go_to(&page.headers, "/licence"))
}

#[cfg(test)]
mod tests {
    use crate::web::testing::{Console, shows};

    #[tokio::test]
    async fn community_is_whole_and_a_wrong_key_stays_in_its_field() {
        let console = Console::sample().await;
        shows(&console.get("/licence").await, &["Community", "every feature works without a key", "Ends"]);
        let (status, page) = console.post("/licence", "key=mpl1.nonsense").await;
        assert_eq!(status, 422);
        assert!(page.contains("mpl1.nonsense") && page.contains("no issuer of keys yet"), "{page}");
        assert!(console.intents().is_empty());
    }
}
