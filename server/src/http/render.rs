//! Page or fragment: the one place that decides by `HX-Request`.
use crate::error::AppError;
use crate::http::failure::wants_fragment;
use axum::http::{HeaderMap, HeaderValue, StatusCode, header};
use axum::response::{Html, IntoResponse, Response};

/// Answers htmx with `fragment` and everything else with `page`, under one status, with `Vary: HX-Request`. Both are
/// askama renders (`t.as_content()`, `t.render()`), so only the one that is needed is called.
///
/// # Errors
/// [`AppError::Internal`] when a template fails.
pub fn page_or_fragment(
    headers: &HeaderMap,
    status: StatusCode,
    page: impl FnOnce() -> askama::Result<String>,
    fragment: impl FnOnce() -> askama::Result<String>,
) -> Result<Response, AppError> {
    let html = if wants_fragment(headers) { fragment() } else { page() };
    let html = html.map_err(AppError::internal)?;
    let mut response = (status, Html(html)).into_response();
    response.headers_mut().insert(header::VARY, HeaderValue::from_static("HX-Request"));
    Ok(response)
}

/// Sends the browser elsewhere after a deed: 303, or `HX-Redirect` for htmx.
pub fn go_to(headers: &HeaderMap, address: &str) -> Response {
    let value = HeaderValue::from_str(address).unwrap_or(HeaderValue::from_static("/"));
    let (status, name) = if wants_fragment(headers) {
        (StatusCode::OK, header::HeaderName::from_static("hx-redirect"))
    } else {
        (StatusCode::SEE_OTHER, header::LOCATION)
    };
    (status, [(name, value)]).into_response()
}

/// `next` of a login form: only a path of this server, never another origin.
pub fn local_path(next: Option<&str>) -> &str {
    let is_local = |path: &&str| {
        path.starts_with('/')
            && !path.starts_with("//")
            && !path.contains('\\')
            && !path.chars().any(char::is_control)
    };
    next.filter(is_local).unwrap_or("/")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_login_never_leads_to_another_server() {
        assert_eq!(local_path(Some("/volumes?after=x")), "/volumes?after=x");
        for bad in ["//evil.example", "https://evil.example", "/\\evil.example", "", "volumes", "/a\r\nb"] {
            assert_eq!(local_path(Some(bad)), "/", "{bad:?}");
        }
        assert_eq!(local_path(None), "/");
    }
}
