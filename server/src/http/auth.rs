//! Who asks, and whether the route lets them. The route table says the role; [`guard`] checks it before the body is read.
use crate::app::App;
use crate::db::users::Role;
use crate::error::AppError;
use crate::http::{cookie, failure};
use crate::service::auth::{self, Actor};
use axum::extract::{FromRequestParts, OptionalFromRequestParts, Request, State};
use axum::http::{HeaderMap, Method, header, request::Parts};
use axum::middleware::Next;
use axum::response::Response;

/// What a route asks of the one who calls it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Access {
    /// Nothing: login, setup, static files, liveness.
    Open,
    /// A session or token of at least this role.
    Role(Role),
}

/// The signed-in person or program.
#[derive(Clone, Debug)]
pub struct CurrentUser(pub Actor);

/// Like [`CurrentUser`], at least operator: in the signature of every handler that works.
#[derive(Clone, Debug)]
pub struct Operator(pub Actor);

/// Like [`CurrentUser`], an administrator.
#[derive(Clone, Debug)]
pub struct Admin(pub Actor);

/// Finds out who asks: a bearer token on API paths, else the session cookie. A present but invalid token never falls back to
/// the cookie.
///
/// # Errors
/// [`AppError::NotSignedIn`]; [`AppError::Internal`].
pub async fn authenticate(
    app: &App,
    method: &Method,
    path: &str,
    headers: &HeaderMap,
) -> Result<Actor, AppError> {
    let is_api = failure::is_api(path);
    if let Some(value) = headers.get(header::AUTHORIZATION) {
        let text = value.to_str().map_err(|_| AppError::NotSignedIn)?;
        let (scheme, token) = text.split_once(' ').ok_or(AppError::NotSignedIn)?;
        if !is_api || !scheme.eq_ignore_ascii_case("bearer") {
            return Err(AppError::NotSignedIn);
        }
        return auth::token_actor(app, token.trim()).await;
    }
    let secret = cookie::session(headers, app.config.is_https()).ok_or(AppError::NotSignedIn)?;
    let actor = auth::session_actor(app, &secret, true).await?;
    let safe = method == Method::GET || method == Method::HEAD || method == Method::OPTIONS;
    if is_api && !safe && !is_json(headers) {
        return Err(AppError::Refused(
            "with a session cookie, writes to the API must be `Content-Type: application/json`",
        ));
    }
    Ok(actor)
}

fn is_json(headers: &HeaderMap) -> bool {
    let value = headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok()).unwrap_or_default();
    value.split(';').next().is_some_and(|mime| mime.trim().eq_ignore_ascii_case("application/json"))
}

/// Lets a request through when its caller may use the route, and tells the handler who it is.
///
/// # Errors
/// [`AppError::NotSignedIn`], [`AppError::Forbidden`], [`AppError::Refused`].
pub async fn guard(
    State((app, access)): State<(App, Access)>,
    mut request: Request,
    next: Next,
) -> Result<Response, AppError> {
    let found = authenticate(&app, request.method(), request.uri().path(), request.headers()).await;
    match (access, found) {
        (Access::Open, Ok(actor)) => {
            request.extensions_mut().insert(actor);
        }
        (Access::Open, Err(_)) => {}
        (Access::Role(needs), found) => {
            let actor = found?;
            if actor.role < needs {
                return Err(AppError::Forbidden { needs: needs.word() });
            }
            request.extensions_mut().insert(actor);
        }
    }
    Ok(next.run(request).await)
}

fn at_least(parts: &Parts, needs: Role) -> Result<Actor, AppError> {
    let actor = parts.extensions.get::<Actor>().ok_or(AppError::NotSignedIn)?;
    if actor.role < needs { Err(AppError::Forbidden { needs: needs.word() }) } else { Ok(actor.clone()) }
}

impl FromRequestParts<App> for CurrentUser {
    type Rejection = AppError;
    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, AppError> {
        at_least(parts, Role::Viewer).map(Self)
    }
}

impl OptionalFromRequestParts<App> for CurrentUser {
    type Rejection = AppError;
    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Option<Self>, AppError> {
        Ok(parts.extensions.get::<Actor>().cloned().map(Self))
    }
}

impl FromRequestParts<App> for Operator {
    type Rejection = AppError;
    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, AppError> {
        at_least(parts, Role::Operator).map(Self)
    }
}

impl FromRequestParts<App> for Admin {
    type Rejection = AppError;
    async fn from_request_parts(parts: &mut Parts, _: &App) -> Result<Self, AppError> {
        at_least(parts, Role::Admin).map(Self)
    }
}
