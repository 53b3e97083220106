//! Pages: extract, call a service, render. No SQL, nothing of an engine.
//!
//! Map: `shell` is the frame and `chrome` its fixed parts, `parts` what the component macros take, `view` turns snapshots into
//! it, `format` numbers and times into words; one module a page or group of pages; `live` renders what changes while a page is open.
pub mod about;
pub mod account;
pub mod auth;
pub mod capacity;
pub mod chrome;
#[cfg(test)]
mod colours;
pub mod events;
pub mod failure;
pub mod format;
pub mod hardware;
pub mod health;
pub mod home;
pub mod import;
#[cfg(debug_assertions)]
pub mod kit;
pub mod lab;
pub mod licence;
#[cfg(test)]
mod lint;
pub mod live;
pub mod parts;
pub mod people;
pub mod performance;
pub mod policies;
pub mod precheck;
pub mod resync;
#[cfg(any(test, debug_assertions))]
pub mod sample;
pub mod search;
pub mod shell;
pub mod survives;
pub mod tasks;
#[cfg(test)]
pub mod testing;
pub mod view;
pub mod volumes;
pub mod watch;
pub mod wizard;

pub use failure::failure;
pub use live::live;

use crate::error::AppError;
use askama::Template;
use axum::http::StatusCode;
use axum::response::{Html, IntoResponse, Response};

/// A page with status 200.
///
/// # Errors
/// [`AppError::Internal`] when the template fails.
pub fn html(page: &impl Template) -> Result<Response, AppError> {
    html_with(StatusCode::OK, page)
}

/// A page with a status.
///
/// # Errors
/// [`AppError::Internal`] when the template fails.
pub fn html_with(status: StatusCode, page: &impl Template) -> Result<Response, AppError> {
    let html = page.render().map_err(AppError::internal)?;
    Ok((status, Html(html)).into_response())
}
