//! Who did what. Append only.
use super::{DbError, failed};
use model::units::Timestamp;
use sqlx::SqlitePool;

/// One line of the audit log.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Entry {
    /// When.
    pub time: Timestamp,
    /// User, token (`token:NAME`) or `command line`.
    pub actor: String,
    /// E.g. `create-volume`, `sign-in`.
    pub action: String,
    /// What it was done to.
    pub subject: String,
    /// One sentence; never a secret.
    pub detail: String,
    /// `accepted`, `refused` or `failed`.
    pub outcome: &'static str,
}

/// Adds a line.
///
/// # Errors
/// [`DbError::Query`].
pub async fn insert(db: &SqlitePool, entry: &Entry) -> Result<(), DbError> {
    sqlx::query("INSERT INTO audit (time, actor, action, subject, detail, outcome) VALUES (?, ?, ?, ?, ?, ?)")
        .bind(entry.time.0)
        .bind(&entry.actor)
        .bind(&entry.action)
        .bind(&entry.subject)
        .bind(&entry.detail)
        .bind(entry.outcome)
        .execute(db)
        .await
        .map(|_| ())
        .map_err(failed("insert_audit"))
}
