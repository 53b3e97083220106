//! Samples of counters, and the history made of them.
use crate::app::{App, Cluster};
use std::sync::Arc;

/// Samples one engine until the server stops.
pub async fn run(app: App, _cluster: Arc<Cluster>) {
    app.stopped().await;
}
