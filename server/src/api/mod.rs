//! JSON for programs: extract, call a service, answer. Shapes are in `dto`; nothing here decides anything.
use crate::api::openapi::HasSchema;
use crate::db::views::query::{Page, Window};
use crate::error::AppError;
use crate::service::list;
use axum::Json;
use axum::http::{HeaderValue, StatusCode, header};
use axum::response::{IntoResponse, Response};
use model::ids::TaskId;
use serde::Deserialize;

pub mod cluster;
pub mod device;
pub mod domains;
pub mod dto;
pub mod groupings;
pub mod import;
pub mod metrics;
pub mod openapi;
pub mod operations;
pub mod policies;
pub mod risk;
pub mod storage;

/// Liveness: says that requests are served, and nothing else.
pub async fn healthz() -> &'static str {
    "ok\n"
}

/// `limit` and `after` of every list.
#[derive(Debug, Default, Deserialize)]
pub struct Paging {
    limit: Option<u32>,
    after: Option<String>,
}

impl Paging {
    /// The window that they ask for.
    ///
    /// # Errors
    /// [`AppError::Invalid`].
    pub fn window(self) -> Result<Window, AppError> {
        list::window(self.limit, self.after)
    }
}

/// Answers a page.
pub fn items<A, B: From<A> + HasSchema>(page: Page<A>) -> Json<dto::List<B>> {
    Json(dto::List { items: page.items.into_iter().map(B::from).collect(), next: page.next })
}

/// 202 with the task and where to follow it.
pub fn accepted(task: TaskId, warnings: Vec<String>) -> Response {
    let location = HeaderValue::from_str(&format!("/api/v1/tasks/{task}")).expect("a uuid is a header value");
    let body = Json(dto::Accepted { task: task.to_string(), warnings });
    (StatusCode::ACCEPTED, [(header::LOCATION, location)], body).into_response()
}
