//! JSON for programs: extract, call a service, answer. Shapes are in `dto`; nothing here decides anything.

/// Liveness: says that requests are served, and nothing else.
pub async fn healthz() -> &'static str {
    "ok\n"
}
