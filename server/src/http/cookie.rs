//! The session cookie: HttpOnly, SameSite=Lax (Strict would show the login page to every link from mail). Over TLS, also that of a
//! proxy, it is Secure and bound to this host by its name, so that neither plain HTTP nor a neighbour's host can plant one.
use axum::http::{HeaderMap, HeaderValue, header};

/// Name of the cookie; `tls` is whether browsers come over TLS.
pub fn session_name(tls: bool) -> &'static str {
    if tls { "__Host-sid" } else { "sid" }
}

/// What every session cookie carries beside its name and value.
fn attributes(tls: bool) -> &'static str {
    if tls { "Path=/; HttpOnly; SameSite=Lax; Secure" } else { "Path=/; HttpOnly; SameSite=Lax" }
}

/// The secret in the cookie, if there is one.
pub fn session(headers: &HeaderMap, tls: bool) -> Option<String> {
    named(headers, session_name(tls))
}

/// The value of any cookie.
pub fn named(headers: &HeaderMap, name: &str) -> Option<String> {
    headers
        .get_all(header::COOKIE)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|line| line.split(';'))
        .filter_map(|pair| pair.trim().split_once('='))
        .find(|(key, value)| *key == name && !value.is_empty())
        .map(|(_, value)| value.to_owned())
}

/// `Set-Cookie` that signs in. `secret` is base64url.
pub fn sign_in(secret: &str, tls: bool) -> HeaderValue {
    let text = format!("{}={secret}; {}", session_name(tls), attributes(tls));
    HeaderValue::from_str(&text).expect("base64url is a header value")
}

/// `Set-Cookie` that signs out.
pub fn sign_out(tls: bool) -> HeaderValue {
    let text = format!("{}=; {}; Max-Age=0", session_name(tls), attributes(tls));
    HeaderValue::from_str(&text).expect("constant text is a header value")
}
