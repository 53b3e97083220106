//! `/api/v1/openapi.json`: a file beside the code. The tests make it of the route table and refuse an old one, so that a
//! person who builds the program does not build what describes it, and a change of the API is seen as a difference of the file.
#[cfg(test)]
mod made;

use crate::http::auth::CurrentUser;
use axum::http::{HeaderValue, header};
use axum::response::{IntoResponse, Response};

/// The document, JSON.
pub const DOCUMENT: &str = include_str!("../openapi.json");

/// A body or an answer of the API. With the tests: one whose schema is known.
#[cfg(not(test))]
pub trait HasSchema {}
#[cfg(not(test))]
impl<T> HasSchema for T {}
#[cfg(test)]
pub use utoipa::ToSchema as HasSchema;

/// What the document says of a route. Empty in the program.
#[derive(Clone, Copy)]
pub struct Facts {
    /// One line.
    #[cfg(test)]
    pub summary: &'static str,
    /// Body.
    #[cfg(test)]
    pub takes: Option<made::SchemaOf>,
    /// Answer.
    #[cfg(test)]
    pub answers: Option<made::SchemaOf>,
    /// Status when it went well.
    #[cfg(test)]
    pub status: u16,
}

#[cfg(not(test))]
impl Facts {
    /// Nothing said yet.
    pub const NONE: Self = Self {};

    /// Says in one line what the route is.
    pub fn says(&mut self, _: &'static str) {}

    /// Says what its body is.
    pub fn takes<T>(&mut self) {}

    /// Says what it answers.
    pub fn answers<T>(&mut self) {}

    /// Says that it answers a list.
    pub fn lists<T>(&mut self) {}

    /// Says the status when it went well.
    pub fn status(&mut self, _: u16) {}
}

/// GET /openapi.json
pub async fn get(_: CurrentUser) -> Response {
    ([(header::CONTENT_TYPE, HeaderValue::from_static("application/json"))], DOCUMENT).into_response()
}
