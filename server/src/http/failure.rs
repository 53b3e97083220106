//! One failure, three bodies: a problem document for the API, a page for a browser, a toast for htmx.
//!
//! `AppError` becomes an empty response that carries a [`Failure`]; [`render`] fills in the body where path and headers are
//! known, and logs the cause once, with the request id.
use crate::error::{AppError, FieldError};
use axum::Json;
use axum::extract::Request;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::middleware::Next;
use axum::response::{IntoResponse, Response};
use model::placement::Refusal;

/// A failure on its way to the person.
#[derive(Clone, Debug)]
pub struct Failure {
    /// Status.
    pub status: StatusCode,
    /// Stable word, the last part of the problem's `type`.
    pub kind: &'static str,
    /// One safe sentence.
    pub detail: String,
    /// Wrong fields, on 422.
    pub errors: Vec<FieldError>,
    /// The numbers of a refusal.
    pub refusal: Option<Refusal>,
    /// Seconds to wait, on 429.
    pub retry_after_seconds: Option<i64>,
    /// For the log only.
    cause: String,
}

/// The body of every error of the API (RFC 9457).
#[derive(serde::Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct Problem {
    /// `urn:millpond:problem:KIND`.
    #[serde(rename = "type")]
    pub kind: String,
    /// The words of the status.
    pub title: String,
    /// The status again.
    pub status: u16,
    /// One sentence that says what to do.
    pub detail: String,
    /// The id under which the server log has the cause.
    pub request_id: String,
    /// Wrong fields, on 422.
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub errors: Vec<FieldError>,
    /// The numbers of a refusal, on 409.
    #[serde(skip_serializing_if = "Option::is_none")]
    #[cfg_attr(test, schema(value_type = Option<Object>))]
    pub refusal: Option<Refusal>,
}

fn status_and_kind(error: &AppError) -> (StatusCode, &'static str) {
    match error {
        AppError::NotSignedIn => (StatusCode::UNAUTHORIZED, "not-signed-in"),
        AppError::Forbidden { .. } => (StatusCode::FORBIDDEN, "forbidden"),
        AppError::Refused(_) => (StatusCode::FORBIDDEN, "refused"),
        AppError::NotFound(_) => (StatusCode::NOT_FOUND, "not-found"),
        AppError::MethodNotAllowed => (StatusCode::METHOD_NOT_ALLOWED, "method-not-allowed"),
        AppError::Malformed(_) => (StatusCode::BAD_REQUEST, "malformed"),
        AppError::TooLarge => (StatusCode::PAYLOAD_TOO_LARGE, "too-large"),
        AppError::Invalid(_) => (StatusCode::UNPROCESSABLE_ENTITY, "invalid"),
        AppError::Unplaceable(_) => (StatusCode::CONFLICT, "unplaceable"),
        AppError::Conflict(_) => (StatusCode::CONFLICT, "conflict"),
        AppError::TooManyTries { .. } => (StatusCode::TOO_MANY_REQUESTS, "too-many-tries"),
        AppError::NotYet(_) => (StatusCode::NOT_IMPLEMENTED, "not-yet"),
        AppError::Unavailable(_) => (StatusCode::SERVICE_UNAVAILABLE, "unavailable"),
        AppError::Internal(_) => (StatusCode::INTERNAL_SERVER_ERROR, "internal"),
    }
}

impl IntoResponse for AppError {
    fn into_response(self) -> Response {
        let (status, kind) = status_and_kind(&self);
        let (detail, cause) = (self.to_string(), self.cause_chain());
        let retry_after_seconds = match self {
            Self::TooManyTries { seconds } => Some(seconds),
            _ => None,
        };
        let (errors, refusal) = match self {
            Self::Invalid(errors) => (errors, None),
            Self::Unplaceable(refusal) => (Vec::new(), Some(refusal)),
            _ => (Vec::new(), None),
        };
        let mut response = status.into_response();
        let failure = Failure { status, kind, detail, errors, refusal, retry_after_seconds, cause };
        response.extensions_mut().insert(failure);
        response
    }
}

/// Whether the path belongs to programs rather than to people.
pub fn is_api(path: &str) -> bool {
    path == "/api" || path.starts_with("/api/") || path == "/metrics" || path == "/healthz"
}

/// Whether the answer goes into a page that htmx holds.
pub fn wants_fragment(headers: &HeaderMap) -> bool {
    headers.contains_key("hx-request") && !headers.contains_key("hx-history-restore-request")
}

/// The id of this request, as the propagate layer also puts it on the response.
fn request_id(headers: &HeaderMap) -> String {
    headers.get("x-request-id").and_then(|id| id.to_str().ok()).unwrap_or_default().to_owned()
}

/// Fills in the body of a failure and logs its cause once.
pub async fn render(request: Request, next: Next) -> Response {
    let id = request_id(request.headers());
    let path = request.uri().path().to_owned();
    let original = request.uri().path_and_query().map_or("/", |path| path.as_str()).to_owned();
    let is_get = request.method() == axum::http::Method::GET;
    let fragment = wants_fragment(request.headers());
    let mut response = next.run(request).await;
    let Some(failure) = response.extensions_mut().remove::<Failure>() else { return response };
    if failure.status.is_server_error() && failure.status != StatusCode::NOT_IMPLEMENTED {
        tracing::error!(request_id = %id, path = %path, cause = %failure.cause, "request failed");
    } else {
        tracing::debug!(request_id = %id, path = %path, cause = %failure.cause, "request refused");
    }
    let mut rendered = if is_api(&path) {
        problem(&failure, id)
    } else if failure.status == StatusCode::UNAUTHORIZED {
        sign_in(if is_get && !fragment { &original } else { "/" }, fragment)
    } else {
        (failure.status, axum::response::Html(crate::web::failure(&failure, &id, fragment))).into_response()
    };
    if let Some(seconds) = failure.retry_after_seconds {
        rendered.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds.unsigned_abs()));
    }
    rendered
}

fn problem(failure: &Failure, request_id: String) -> Response {
    let body = Problem {
        kind: format!("urn:millpond:problem:{}", failure.kind),
        title: failure.status.canonical_reason().unwrap_or("Error").to_owned(),
        status: failure.status.as_u16(),
        detail: failure.detail.clone(),
        request_id,
        errors: failure.errors.clone(),
        refusal: failure.refusal.clone(),
    };
    let mut response = (failure.status, Json(body)).into_response();
    let problem = HeaderValue::from_static("application/problem+json");
    response.headers_mut().insert(header::CONTENT_TYPE, problem);
    if failure.status == StatusCode::UNAUTHORIZED {
        response.headers_mut().insert(header::WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    response
}

/// A browser goes to the login page; htmx is told to, because a redirect would put that page inside a panel.
fn sign_in(next: &str, fragment: bool) -> Response {
    let next: String = next
        .bytes()
        .map(|byte| match byte {
            b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'/' | b'-' | b'_' | b'.' | b'~' => {
                (byte as char).to_string()
            }
            other => format!("%{other:02X}"),
        })
        .collect();
    let target =
        HeaderValue::from_str(&format!("/login?next={next}")).unwrap_or(HeaderValue::from_static("/login"));
    let mut response =
        if fragment { StatusCode::UNAUTHORIZED } else { StatusCode::SEE_OTHER }.into_response();
    let name = if fragment { header::HeaderName::from_static("hx-redirect") } else { header::LOCATION };
    response.headers_mut().insert(name, target);
    response
}
