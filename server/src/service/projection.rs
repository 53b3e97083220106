//! Keeps `views.db` and the history in step with an engine: snapshot, then events, by difference.
use crate::app::{App, Cluster};
use std::sync::Arc;

/// Follows one engine until the server stops.
pub async fn run(app: App, _cluster: Arc<Cluster>) {
    app.stopped().await;
}
