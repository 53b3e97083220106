//! Settings of the console: one text a name.
use super::{DbError, failed};
use sqlx::SqlitePool;

/// The value of a setting.
///
/// # Errors
/// [`DbError::Query`].
pub async fn get(db: &SqlitePool, name: &str) -> Result<Option<String>, DbError> {
    sqlx::query_scalar("SELECT value FROM settings WHERE name = ?")
        .bind(name)
        .fetch_optional(db)
        .await
        .map_err(failed("get_setting"))
}

/// Sets or replaces a setting.
///
/// # Errors
/// [`DbError::Query`].
pub async fn put(db: &SqlitePool, name: &str, value: &str) -> Result<(), DbError> {
    sqlx::query(
        "INSERT INTO settings (name, value) VALUES (?, ?) ON CONFLICT (name) DO UPDATE SET value = excluded.value",
    )
    .bind(name)
    .bind(value)
    .execute(db)
    .await
    .map(|_| ())
    .map_err(failed("put_setting"))
}
