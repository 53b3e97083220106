//! The layers around every route: request id, trace, panics, security headers, host names, cross-site writes, sizes.
use crate::app::App;
use crate::error::AppError;
use crate::http::failure;
use axum::Router;
use axum::extract::{DefaultBodyLimit, Request, State};
use axum::http::{HeaderName, HeaderValue, StatusCode, header};
use axum::middleware::{self, Next};
use axum::response::{IntoResponse, Response};
use tower_http::catch_panic::CatchPanicLayer;
use tower_http::compression::CompressionLayer;
use tower_http::csrf::CsrfLayer;
use tower_http::request_id::{MakeRequestId, PropagateRequestIdLayer, RequestId, SetRequestIdLayer};
use tower_http::set_header::SetResponseHeaderLayer;
use tower_http::trace::TraceLayer;

/// Nothing inline, nothing from elsewhere.
pub const CSP: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; font-src 'self'; \
    connect-src 'self'; form-action 'self'; base-uri 'none'; frame-ancestors 'none'; object-src 'none'";

/// Under a public address of HTTPS: browsers do not come back without TLS for a year. Never for a name that was only found: the word
/// holds for every port of it, and other services there may speak plain HTTP.
const HSTS: &str = "max-age=31536000";

/// Largest body of a request, bytes: a wizard with 64 hosts and 2,240 disks posts less than 200 KiB.
const BODY_BYTES_MAX: usize = 1 << 20;

/// Headers of every response; a handler may set its own value first.
const HEADERS: [(&str, &str); 7] = [
    ("content-security-policy", CSP),
    ("x-content-type-options", "nosniff"),
    ("referrer-policy", "same-origin"),
    ("cross-origin-opener-policy", "same-origin"),
    ("cross-origin-resource-policy", "same-origin"),
    ("permissions-policy", "camera=(), microphone=(), geolocation=()"),
    ("cache-control", "no-store"),
];

/// Request ids from our own source of randomness. An id that a client sends is not taken: it would reach the log.
#[derive(Clone)]
struct OwnId(App);

impl MakeRequestId for OwnId {
    fn make_request_id<B>(&mut self, _: &axum::http::Request<B>) -> Option<RequestId> {
        let id = uuid::Builder::from_random_bytes(self.0.rng.bytes()).into_uuid().simple().to_string();
        HeaderValue::from_str(&id).ok().map(RequestId::new)
    }
}

async fn drop_foreign_id(mut request: Request, next: Next) -> Response {
    request.headers_mut().remove("x-request-id");
    next.run(request).await
}

/// Names that this server answers to. Anything else may be a foreign page that rebinds its name to our address.
async fn check_host(State(app): State<App>, request: Request, next: Next) -> Response {
    let header = request.headers().get(header::HOST).and_then(|value| value.to_str().ok());
    let host = header.or_else(|| request.uri().authority().map(|authority| authority.as_str()));
    if host.is_some_and(|host| is_ours(&app, host)) {
        return next.run(request).await;
    }
    let text = "This server does not answer to that name. Use the address it printed, or start it with --public-url.\n";
    (StatusCode::MISDIRECTED_REQUEST, text).into_response()
}

fn is_ours(app: &App, host: &str) -> bool {
    let name = host_name(host).to_ascii_lowercase();
    let public = app.config.public_url.as_deref().and_then(|url| url.split_once("://"));
    let public = public.map(|(_, rest)| host_name(rest.split('/').next().unwrap_or_default()));
    let bare = name.trim_start_matches('[').trim_end_matches(']');
    ["localhost", "127.0.0.1", "[::1]"].contains(&name.as_str())
        || app.config.names.iter().any(|ours| ours == bare)
        || app.config.tls.as_ref().is_some_and(|tls| tls.pair().is_for(bare))
        || name == host_name(&app.config.listen.to_string())
        || public.is_some_and(|public| public.eq_ignore_ascii_case(&name))
}

/// `name` of `name:port`; an IPv6 address keeps its brackets.
fn host_name(host: &str) -> &str {
    match host.rsplit_once(':') {
        Some((name, port)) if port.bytes().all(|byte| byte.is_ascii_digit()) && !name.is_empty() => name,
        _ => host,
    }
}

fn on_panic(_: Box<dyn std::any::Any + Send + 'static>) -> Response {
    AppError::internal("a handler panicked; the panic is in the log above").into_response()
}

fn cross_site() -> Response {
    AppError::Refused("this came from another site; open the page here and repeat").into_response()
}

/// Puts all layers around `routes`. Failures are logged by [`failure::render`], once and with their cause. The last added is the outermost.
pub fn wrap(app: &App, routes: Router<App>) -> Router<App> {
    let mut routes = routes
        .layer(DefaultBodyLimit::max(BODY_BYTES_MAX))
        .layer(CatchPanicLayer::custom(on_panic))
        .layer(CsrfLayer::new().with_rejection_response(|_| cross_site()))
        .layer(middleware::from_fn(failure::render))
        .layer(middleware::from_fn_with_state(app.clone(), check_host));
    for (name, value) in HEADERS {
        let name = HeaderName::from_static(name);
        routes = routes.layer(SetResponseHeaderLayer::if_not_present(name, HeaderValue::from_static(value)));
    }
    if app.config.is_public_https() {
        let value = HeaderValue::from_static(HSTS);
        routes =
            routes.layer(SetResponseHeaderLayer::if_not_present(header::STRICT_TRANSPORT_SECURITY, value));
    }
    routes
        .layer(CompressionLayer::new())
        .layer(TraceLayer::new_for_http().on_failure(()))
        .layer(PropagateRequestIdLayer::x_request_id())
        .layer(SetRequestIdLayer::x_request_id(OwnId(app.clone())))
        .layer(middleware::from_fn(drop_foreign_id))
}

#[cfg(test)]
mod tests {
    use super::host_name;

    #[test]
    fn host_names_lose_their_port_only() {
        assert_eq!(host_name("127.0.0.1:7400"), "127.0.0.1");
        assert_eq!(host_name("[::1]:7400"), "[::1]");
        assert_eq!(host_name("[::1]"), "[::1]");
        assert_eq!(host_name("example"), "example");
    }
}
