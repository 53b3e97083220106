//! Pages: extract, call a service, render. No SQL, nothing of an engine.
use crate::app::App;
use crate::error::AppError;
use crate::http::failure::Failure;
use crate::service::live::Topic;

/// Renders a live topic as one or more `<hx-partial>`; `None` for a topic that there is not.
///
/// # Errors
/// Whatever the services say.
pub async fn live(_app: &App, _topic: &Topic) -> Result<Option<String>, AppError> {
    Ok(None)
}

/// The page (or, for htmx, the toast) of a failure.
pub fn failure(failure: &Failure, request_id: &str, _fragment: bool) -> String {
    let text = |text: &str| text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;");
    format!(
        "<!doctype html><html lang=en><title>{status}</title><h1>{status}</h1><p role=alert>{detail}</p><p>Request {id}</p>",
        status = text(&failure.status.to_string()),
        detail = text(&failure.detail),
        id = text(request_id),
    )
}
