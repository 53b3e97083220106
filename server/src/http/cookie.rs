//! The session cookie: HttpOnly, SameSite=Lax (Strict would show the login page to every link from mail).
use axum::http::{HeaderMap, HeaderValue, header};

/// Name of the cookie on plain HTTP. With TLS it will be `__Host-sid` and `Secure`.
pub const SESSION_COOKIE: &str = "sid";

/// The secret in the cookie, if there is one.
pub fn session(headers: &HeaderMap) -> Option<String> {
    named(headers, SESSION_COOKIE)
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
pub fn sign_in(secret: &str) -> HeaderValue {
    let text = format!("{SESSION_COOKIE}={secret}; Path=/; HttpOnly; SameSite=Lax");
    HeaderValue::from_str(&text).expect("base64url is a header value")
}

/// `Set-Cookie` that signs out.
pub fn sign_out() -> HeaderValue {
    HeaderValue::from_static("sid=; Path=/; HttpOnly; SameSite=Lax; Max-Age=0")
}
