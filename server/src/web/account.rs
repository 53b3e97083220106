//! `/account`: one's own password.
use crate::app::App;
use crate::error::{AppError, FieldError};
use crate::http::auth::CurrentUser;
use crate::service::auth;
use crate::web::auth::{From, address, agent, form_errors, signed_in};
use crate::web::parts::Field;
use crate::web::people::password_field;
use crate::web::shell::{Page, Shell};
use crate::web::{html, html_with};
use askama::Template;
use axum::extract::{Form, State};
use axum::response::Response;

#[derive(Template)]
#[template(path = "people/account.html")]
struct AccountPage {
    shell: Shell,
    errors: Vec<FieldError>,
    old: Field,
    password: Field,
}

fn account_page(shell: Shell, errors: Vec<FieldError>) -> AccountPage {
    let old = Field::text("old", "Password now", "");
    let old = Field { kind: "password", autocomplete: "current-password", ..old }.checked(&errors);
    AccountPage { shell, old, password: password_field("New password", &errors), errors }
}

/// `GET /account`.
///
/// # Errors
/// [`AppError::Internal`].
pub async fn page(_: CurrentUser, page: Page) -> Result<Response, AppError> {
    html(&account_page(page.shell, Vec::new()))
}

/// What the form of one's own password sends.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub struct PasswordForm {
    old: String,
    password: String,
}

/// `POST /account`: all sessions end, and a new one begins here.
///
/// # Errors
/// [`AppError::Internal`]; wrong fields show the form again.
pub async fn change_password(
    user: CurrentUser,
    State(app): State<App>,
    from: From,
    page: Page,
    Form(form): Form<PasswordForm>,
) -> Result<Response, AppError> {
    let agent = agent(&page.headers).to_owned();
    match auth::change_password(&app, &user.0, &form.old, &form.password, &address(from), &agent).await {
        Ok(secret) => Ok(signed_in(&app, &page.headers, &secret, "/account")),
        Err(error) => {
            let (status, errors) = form_errors(error)?;
            html_with(status, &account_page(page.shell, errors))
        }
    }
}

#[cfg(test)]
mod tests {
    use crate::web::testing::{Console, shows};

    #[tokio::test]
    async fn ones_own_password_needs_the_old_one() {
        let console = Console::sample().await;
        shows(&console.get("/account").await, &["Password now"]);
        assert_eq!(console.post("/account", "old=wrong&password=another+long+one").await.0, 422);
        assert_eq!(console.post("/account", "old=a+long+password&password=another+long+one").await.0, 303);
        assert_eq!(console.get("/account").await.0, 303, "the session of before has ended");
    }
}
