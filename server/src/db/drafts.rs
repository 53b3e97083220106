//! Drafts: what a person has decided and no engine holds yet. The body is JSON of `service::draft`.
use super::{DbError, failed};
use model::units::Timestamp;
use sqlx::SqlitePool;

/// Body and version of the draft of a cluster.
///
/// # Errors
/// [`DbError::Query`].
pub async fn get(db: &SqlitePool, cluster: &str) -> Result<Option<(String, i64)>, DbError> {
    sqlx::query_as("SELECT body, version FROM drafts WHERE cluster = ?")
        .bind(cluster)
        .fetch_optional(db)
        .await
        .map_err(failed("get_draft"))
}

/// Stores the draft when its version is still `expected` (0: there is none yet); false when somebody was faster.
///
/// # Errors
/// [`DbError::Query`].
pub async fn put(
    db: &SqlitePool,
    cluster: &str,
    body: &str,
    expected: i64,
    actor: &str,
    now: Timestamp,
) -> Result<bool, DbError> {
    let done = sqlx::query(
        "INSERT INTO drafts (cluster, body, version, updated_by, updated_at) SELECT ?1, ?2, ?3 + 1, ?4, ?5
         WHERE ?3 = coalesce((SELECT version FROM drafts WHERE cluster = ?1), 0)
         ON CONFLICT (cluster) DO UPDATE SET body = excluded.body, version = excluded.version,
             updated_by = excluded.updated_by, updated_at = excluded.updated_at",
    )
    .bind(cluster)
    .bind(body)
    .bind(expected)
    .bind(actor)
    .bind(now.0)
    .execute(db)
    .await
    .map_err(failed("put_draft"))?;
    Ok(done.rows_affected() == 1)
}
