//! Browser sessions. Only the SHA-256 of a cookie is stored; a session ends after 30 idle minutes or 12 hours.
use super::users::Role;
use super::{DbError, failed, word};
use model::units::Timestamp;
use sqlx::SqlitePool;

/// Idle end, milliseconds.
pub const IDLE_MS: i64 = 30 * 60 * 1000;
/// Absolute end, milliseconds.
pub const ABSOLUTE_MS: i64 = 12 * 3600 * 1000;
/// `seen_at` is written at most once in this many milliseconds.
const SEEN_EVERY_MS: i64 = 60 * 1000;

/// The person behind a valid session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Holder {
    /// User key.
    pub user_id: i64,
    /// Name.
    pub name: String,
    /// Role now (a change of role ends sessions anyway).
    pub role: Role,
}

/// Stores a session; `id` is the hash of the cookie.
///
/// # Errors
/// [`DbError::Query`].
pub async fn insert(
    db: &SqlitePool,
    id: &[u8; 32],
    user_id: i64,
    now: Timestamp,
    address: &str,
    agent: &str,
) -> Result<(), DbError> {
    let mut tx = db.begin_with("BEGIN IMMEDIATE").await.map_err(failed("insert_session"))?;
    sqlx::query("DELETE FROM sessions WHERE seen_at <= ? OR created_at <= ?")
        .bind(now.0 - IDLE_MS)
        .bind(now.0 - ABSOLUTE_MS)
        .execute(&mut *tx)
        .await
        .map_err(failed("insert_session"))?;
    sqlx::query(
        "INSERT INTO sessions (id, user_id, created_at, seen_at, address, agent) VALUES (?1, ?2, ?3, ?3, ?4, ?5)",
    )
    .bind(&id[..])
    .bind(user_id)
    .bind(now.0)
    .bind(address)
    .bind(agent)
    .execute(&mut *tx)
    .await
    .map_err(failed("insert_session"))?;
    sqlx::query("UPDATE users SET signed_in_at = ? WHERE id = ?")
        .bind(now.0)
        .bind(user_id)
        .execute(&mut *tx)
        .await
        .map_err(failed("insert_session"))?;
    tx.commit().await.map_err(failed("insert_session"))
}

/// Who holds the session, if it is valid now. `touch` counts as activity.
///
/// # Errors
/// [`DbError::Query`], [`DbError::Inconsistent`].
pub async fn holder(
    db: &SqlitePool,
    id: &[u8; 32],
    now: Timestamp,
    touch: bool,
) -> Result<Option<Holder>, DbError> {
    let row: Option<(i64, String, String, i64)> = sqlx::query_as(
        "SELECT u.id, u.name, u.role, s.seen_at FROM sessions s JOIN users u ON u.id = s.user_id
         WHERE s.id = ? AND s.seen_at > ? AND s.created_at > ?",
    )
    .bind(&id[..])
    .bind(now.0 - IDLE_MS)
    .bind(now.0 - ABSOLUTE_MS)
    .fetch_optional(db)
    .await
    .map_err(failed("session_holder"))?;
    let Some((user_id, name, role, seen_at)) = row else { return Ok(None) };
    if touch && now.0 - seen_at > SEEN_EVERY_MS {
        sqlx::query("UPDATE sessions SET seen_at = ? WHERE id = ?")
            .bind(now.0)
            .bind(&id[..])
            .execute(db)
            .await
            .map_err(failed("touch_session"))?;
    }
    let role = word("users", &name, &role)?;
    Ok(Some(Holder { user_id, name, role }))
}

/// Ends one session.
///
/// # Errors
/// [`DbError::Query`].
pub async fn delete(db: &SqlitePool, id: &[u8; 32]) -> Result<(), DbError> {
    sqlx::query("DELETE FROM sessions WHERE id = ?")
        .bind(&id[..])
        .execute(db)
        .await
        .map(|_| ())
        .map_err(failed("delete_session"))
}
