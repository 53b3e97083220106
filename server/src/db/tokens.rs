//! API tokens, stored as SHA-256.
use super::users::Role;
use super::{DbError, failed, word};
use model::units::Timestamp;
use sqlx::SqlitePool;

/// `used_at` is written at most once in this many milliseconds.
const USED_EVERY_MS: i64 = 60 * 1000;

/// A token as it is listed; the secret itself is shown once and never again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Token {
    /// Name.
    pub name: String,
    /// First characters, to recognise it.
    pub prefix: String,
    /// Role.
    pub role: Role,
    /// When it was made.
    pub created_at: Timestamp,
    /// Last use, to the minute.
    pub used_at: Option<Timestamp>,
}

/// Stores a token. Several may have one name; revoking it revokes them all.
///
/// # Errors
/// [`DbError::Query`].
pub async fn insert(
    db: &SqlitePool,
    hash: &[u8; 32],
    prefix: &str,
    name: &str,
    role: Role,
    now: Timestamp,
) -> Result<(), DbError> {
    sqlx::query("INSERT INTO tokens (hash, prefix, name, role, created_at) VALUES (?, ?, ?, ?, ?)")
        .bind(&hash[..])
        .bind(prefix)
        .bind(name)
        .bind(role.word())
        .bind(now.0)
        .execute(db)
        .await
        .map(|_| ())
        .map_err(failed("insert_token"))
}

/// Name and role of a valid token.
///
/// # Errors
/// [`DbError::Query`], [`DbError::Inconsistent`].
pub async fn holder(
    db: &SqlitePool,
    hash: &[u8; 32],
    now: Timestamp,
) -> Result<Option<(String, Role)>, DbError> {
    let row: Option<(String, String, Option<i64>)> = sqlx::query_as(
        "SELECT name, role, used_at FROM tokens WHERE hash = ? AND (expires_at IS NULL OR expires_at > ?)",
    )
    .bind(&hash[..])
    .bind(now.0)
    .fetch_optional(db)
    .await
    .map_err(failed("token_holder"))?;
    let Some((name, role, used_at)) = row else { return Ok(None) };
    if used_at.is_none_or(|used_at| now.0 - used_at > USED_EVERY_MS) {
        sqlx::query("UPDATE tokens SET used_at = ? WHERE hash = ?")
            .bind(now.0)
            .bind(&hash[..])
            .execute(db)
            .await
            .map_err(failed("touch_token"))?;
    }
    let role = word("tokens", &name, &role)?;
    Ok(Some((name, role)))
}

/// All tokens by name.
///
/// # Errors
/// [`DbError::Query`], [`DbError::Inconsistent`].
pub async fn all(db: &SqlitePool) -> Result<Vec<Token>, DbError> {
    let rows: Vec<(String, String, String, i64, Option<i64>)> =
        sqlx::query_as("SELECT name, prefix, role, created_at, used_at FROM tokens ORDER BY name, id")
            .fetch_all(db)
            .await
            .map_err(failed("all_tokens"))?;
    rows.into_iter()
        .map(|(name, prefix, role, created_at, used_at)| {
            let role = word("tokens", &name, &role)?;
            let (created_at, used_at) = (Timestamp(created_at), used_at.map(Timestamp));
            Ok(Token { name, prefix, role, created_at, used_at })
        })
        .collect()
}

/// Revokes all tokens of a name; false when there is none.
///
/// # Errors
/// [`DbError::Query`].
pub async fn delete(db: &SqlitePool, name: &str) -> Result<bool, DbError> {
    let done = sqlx::query("DELETE FROM tokens WHERE name = ?")
        .bind(name)
        .execute(db)
        .await
        .map_err(failed("delete_token"))?;
    Ok(done.rows_affected() > 0)
}
