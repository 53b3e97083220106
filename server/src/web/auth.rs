//! First-run setup, sign-in, sign-out and the theme: the pages before a session.
use crate::app::App;
use crate::error::{AppError, FieldError};
use crate::http::auth::CurrentUser;
use crate::http::{cookie, render};
use crate::service::auth;
use crate::web::parts::Field;
use crate::web::shell::{Page, Shell};
use crate::web::{html, html_with};
use askama::Template;
use axum::extract::{ConnectInfo, Extension, Form, Query, State};
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use std::net::SocketAddr;

/// Where a request came from, for the throttle; absent in tests without a socket.
pub type From = Option<Extension<ConnectInfo<SocketAddr>>>;

pub(super) fn address(from: From) -> String {
    from.map_or_else(|| "local".to_owned(), |Extension(ConnectInfo(from))| from.ip().to_string())
}

pub(super) fn agent(headers: &HeaderMap) -> &str {
    headers.get(header::USER_AGENT).and_then(|agent| agent.to_str().ok()).unwrap_or_default()
}

/// Errors of a failed form, or the error itself when it is none of the person's.
pub(super) fn form_errors(error: AppError) -> Result<(StatusCode, Vec<FieldError>), AppError> {
    match error {
        AppError::Invalid(errors) => Ok((StatusCode::UNPROCESSABLE_ENTITY, errors)),
        AppError::TooManyTries { .. } => {
            Ok((StatusCode::TOO_MANY_REQUESTS, vec![FieldError::new("", error.to_string())]))
        }
        other => Err(other),
    }
}

#[derive(Template)]
#[template(path = "auth/setup.html")]
struct SetupPage {
    shell: Shell,
    errors: Vec<FieldError>,
    code: Field,
    name: Field,
    password: Field,
}

impl SetupPage {
    fn new(shell: Shell, form: &SetupForm, errors: Vec<FieldError>) -> Self {
        let password = Field {
            kind: "password",
            autocomplete: "new-password",
            ..Field::text("password", "Password", "").help("At least 8 characters.")
        };
        let name = Field { autocomplete: "username", ..Field::text("name", "Name", &form.name) };
        Self {
            shell,
            code: Field::text("code", "Setup code", &form.code).checked(&errors),
            name: name.checked(&errors),
            password: password.checked(&errors),
            errors,
        }
    }
}

/// What the setup form sends.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub struct SetupForm {
    code: String,
    name: String,
    password: String,
}

/// `GET /setup`: exists until there is an administrator.
///
/// # Errors
/// [`AppError::NotFound`] afterwards.
pub async fn setup_page(State(app): State<App>, page: Page) -> Result<Response, AppError> {
    if !auth::setup_is_open(&app).await? {
        return Err(AppError::NotFound("the setup page".into()));
    }
    html(&SetupPage::new(page.shell, &SetupForm { name: "admin".into(), ..SetupForm::default() }, Vec::new()))
}

/// `POST /setup`.
///
/// # Errors
/// As [`auth::set_up`]; wrong fields show the form again.
pub async fn set_up(
    State(app): State<App>,
    from: From,
    page: Page,
    Form(form): Form<SetupForm>,
) -> Result<Response, AppError> {
    let agent = agent(&page.headers);
    match auth::set_up(&app, &form.code, &form.name, &form.password, &address(from), agent).await {
        Ok(secret) => Ok(signed_in(&app, &page.headers, &secret, "/")),
        Err(error) => {
            let (status, errors) = form_errors(error)?;
            html_with(status, &SetupPage::new(page.shell, &form, errors))
        }
    }
}

pub(super) fn signed_in(app: &App, headers: &HeaderMap, secret: &str, to: &str) -> Response {
    let mut response = render::go_to(headers, to);
    response.headers_mut().insert(header::SET_COOKIE, cookie::sign_in(secret, app.config.is_https()));
    response
}

#[derive(Template)]
#[template(path = "auth/login.html")]
struct LoginPage {
    shell: Shell,
    errors: Vec<FieldError>,
    next: String,
    name: Field,
    password: Field,
}

impl LoginPage {
    fn new(shell: Shell, name: &str, next: &str, errors: Vec<FieldError>) -> Self {
        let password = Field {
            kind: "password",
            autocomplete: "current-password",
            ..Field::text("password", "Password", "")
        };
        let name = Field { autocomplete: "username", ..Field::text("name", "Name", name) };
        Self {
            shell,
            next: render::local_path(Some(next)).to_owned(),
            name: name.checked(&errors),
            password: password.checked(&errors),
            errors,
        }
    }
}

/// What the login form sends.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub struct LoginForm {
    name: String,
    password: String,
    next: String,
}

/// `?next=`.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub struct Next {
    next: String,
}

/// `GET /login`; leads to setup while there is nobody.
///
/// # Errors
/// [`AppError::Internal`].
pub async fn login_page(
    State(app): State<App>,
    page: Page,
    Query(query): Query<Next>,
) -> Result<Response, AppError> {
    if auth::setup_is_open(&app).await? {
        return Ok(render::go_to(&page.headers, "/setup"));
    }
    html(&LoginPage::new(page.shell, "", &query.next, Vec::new()))
}

/// `POST /login`.
///
/// # Errors
/// As [`auth::sign_in`]; a wrong name or password shows the form again.
pub async fn log_in(
    State(app): State<App>,
    from: From,
    page: Page,
    Form(form): Form<LoginForm>,
) -> Result<Response, AppError> {
    let old = cookie::session(&page.headers, app.config.is_https());
    let agent = agent(&page.headers);
    let done = auth::sign_in(&app, &form.name, &form.password, &address(from), agent, old.as_deref()).await;
    match done {
        Ok(secret) => Ok(signed_in(&app, &page.headers, &secret, render::local_path(Some(&form.next)))),
        Err(error) => {
            let (status, errors) = form_errors(error)?;
            html_with(status, &LoginPage::new(page.shell, &form.name, &form.next, errors))
        }
    }
}

/// `POST /logout`.
///
/// # Errors
/// [`AppError::Internal`].
pub async fn log_out(
    user: CurrentUser,
    State(app): State<App>,
    headers: HeaderMap,
) -> Result<Response, AppError> {
    auth::sign_out(&app, &user.0).await?;
    let mut response = render::go_to(&headers, "/login");
    response.headers_mut().insert(header::SET_COOKIE, cookie::sign_out(app.config.is_https()));
    Ok(response)
}

/// What the theme switch sends.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub struct ThemeForm {
    theme: String,
    next: String,
}

/// `POST /theme`: the switch without JavaScript.
pub async fn theme(headers: HeaderMap, Form(form): Form<ThemeForm>) -> Response {
    let mut response = render::go_to(&headers, render::local_path(Some(&form.next)));
    let cookie = match form.theme.as_str() {
        "dark" => "theme=dark; Path=/; Max-Age=31536000; SameSite=Lax",
        "light" => "theme=light; Path=/; Max-Age=31536000; SameSite=Lax",
        _ => return response.into_response(),
    };
    response.headers_mut().insert(header::SET_COOKIE, HeaderValue::from_static(cookie));
    response
}
