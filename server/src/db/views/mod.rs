//! `views.db`: projections of what engines report. Rebuilt at every start; may be deleted at any time while stopped.
use super::DbError;
use model::view::Snapshot;
use sqlx::SqlitePool;
use std::path::Path;
use std::sync::Arc;

/// The projections.
#[derive(Clone)]
pub struct Views {
    #[allow(dead_code, reason = "filled next")]
    pool: SqlitePool,
}

impl Views {
    /// Builds the projections aside and renames them in.
    ///
    /// # Errors
    /// [`DbError`].
    pub async fn build(path: &Path, _first: &[(String, Arc<Snapshot>)]) -> Result<Self, DbError> {
        Ok(Self { pool: super::open(path).await? })
    }
}
