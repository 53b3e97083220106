//! Users and API tokens, as an administrator manages them. Each change stands in the audit log and in the history.
//!
//! Invariant: somebody who may change the cluster always remains; `db::users` checks it in the statement that changes.
use crate::app::App;
use crate::db::tokens::{self, Token};
use crate::db::users::{self, Role, User};
use crate::error::AppError;
use crate::service::auth::{self, Actor};
use crate::service::deeds;

/// All users by name.
///
/// # Errors
/// [`AppError::Internal`].
pub async fn all(app: &App) -> Result<Vec<User>, AppError> {
    Ok(users::all(&app.console).await?)
}

/// One user.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn get(app: &App, name: &str) -> Result<User, AppError> {
    let user = users::by_name(&app.console, name).await?;
    user.ok_or_else(|| AppError::NotFound(format!("user \"{name}\"")))
}

/// All API tokens by name, without their secrets, which nobody has.
///
/// # Errors
/// [`AppError::Internal`].
pub async fn all_tokens(app: &App) -> Result<Vec<Token>, AppError> {
    Ok(tokens::all(&app.console).await?)
}

/// Records a deed that was done or refused, and passes on what became of it.
async fn told<T>(
    app: &App,
    actor: &Actor,
    (kind, subject, text): (&str, String, String),
    result: Result<T, AppError>,
) -> Result<T, AppError> {
    let (outcome, detail) = match &result {
        Ok(_) => ("accepted", text.clone()),
        Err(error @ AppError::Internal(_)) => ("failed", error.to_string()),
        Err(error) => ("refused", error.to_string()),
    };
    auth::record(app, &actor.name, kind, &subject, &detail, outcome).await?;
    let value = result?;
    deeds::say(app, &actor.name, &app.default_cluster, kind, subject, text).await?;
    Ok(value)
}

/// Adds a user.
///
/// # Errors
/// [`AppError::Invalid`] on `name` or `password`; [`AppError::Conflict`] when the name is taken.
pub async fn add(app: &App, actor: &Actor, name: &str, role: Role, password: &str) -> Result<(), AppError> {
    let done = auth::add_user(&app.console, &app.passwords, app.clock.now(), name, role, password).await;
    let text = format!("user {name} was added as {}", role.word());
    told(app, actor, ("user-added", format!("user:{name}"), text), done).await
}

/// Changes what a user may do; all sessions of the user end.
///
/// # Errors
/// [`AppError::NotFound`]; [`AppError::Conflict`] for the last administrator.
pub async fn set_role(app: &App, actor: &Actor, name: &str, role: Role) -> Result<(), AppError> {
    let done = auth::changed(users::update(&app.console, name, Some(role), None).await?, name);
    let text = format!("user {name} is {} now", role.word());
    told(app, actor, ("user-changed", format!("user:{name}"), text), done).await
}

/// Sets a new password for a user; all sessions of the user end.
///
/// # Errors
/// [`AppError::Invalid`] on `password`; [`AppError::NotFound`].
pub async fn reset_password(app: &App, actor: &Actor, name: &str, password: &str) -> Result<(), AppError> {
    let done = auth::reset_user(&app.console, &app.passwords, name, None, password).await;
    let text = format!("user {name} has a new password");
    told(app, actor, ("user-changed", format!("user:{name}"), text), done).await
}

/// Removes a user; all sessions end at once.
///
/// # Errors
/// [`AppError::NotFound`]; [`AppError::Conflict`] for the last administrator.
pub async fn remove(app: &App, actor: &Actor, name: &str) -> Result<(), AppError> {
    let done = auth::changed(users::delete(&app.console, name).await?, name);
    told(app, actor, ("user-removed", format!("user:{name}"), format!("user {name} was removed")), done).await
}

/// Makes an API token and answers its secret, which exists only here.
///
/// # Errors
/// [`AppError::Invalid`] on `name`; [`AppError::Conflict`] when a token has that name.
pub async fn create_token(app: &App, actor: &Actor, name: &str, role: Role) -> Result<String, AppError> {
    let taken = tokens::all(&app.console).await?.iter().any(|token| token.name == name);
    let done = if taken {
        Err(AppError::Conflict(format!("token \"{name}\" exists already; revoke it, or choose another name")))
    } else {
        auth::create_token(&app.console, app.rng.as_ref(), app.clock.now(), name, role).await
    };
    let text = format!("token {name} was made as {}", role.word());
    told(app, actor, ("token-created", format!("token:{name}"), text), done).await
}

/// Revokes every API token of a name; what used it is refused from the next request on.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn revoke_token(app: &App, actor: &Actor, name: &str) -> Result<(), AppError> {
    let done = match tokens::delete(&app.console, name).await? {
        true => Ok(()),
        false => Err(AppError::NotFound(format!("token \"{name}\""))),
    };
    told(app, actor, ("token-revoked", format!("token:{name}"), format!("token {name} was revoked")), done)
        .await
}
