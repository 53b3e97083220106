//! Login throttle that survives a restart. Keys: `u:NAME` and `ip:ADDRESS`.
use super::{DbError, failed};
use model::units::Timestamp;
use sqlx::SqlitePool;

/// Wrong tries that cost nothing.
pub const FREE_TRIES: i64 = 5;
/// Longest wait, seconds.
pub const WAIT_SECONDS_MAX: i64 = 15 * 60;
/// A key is forgotten after a day without a wrong try, milliseconds.
const FORGET_MS: i64 = 24 * 3600 * 1000;

/// Seconds to wait after `fails` wrong tries: 0 for the first five, then 2, 4, 8, … up to 15 minutes.
pub fn wait_seconds(fails: i64) -> i64 {
    match fails - FREE_TRIES {
        over if over < 0 => 0,
        over => 2_i64
            .checked_shl(u32::try_from(over.min(20)).unwrap_or(20))
            .map_or(WAIT_SECONDS_MAX, |wait| wait.min(WAIT_SECONDS_MAX)),
    }
}

/// Seconds until the next try is taken for any of `keys`; 0 is now.
///
/// # Errors
/// [`DbError::Query`].
pub async fn seconds_left(db: &SqlitePool, keys: &[String; 2], now: Timestamp) -> Result<i64, DbError> {
    let until: Option<i64> = sqlx::query_scalar("SELECT max(retry_at) FROM throttle WHERE k IN (?, ?)")
        .bind(&keys[0])
        .bind(&keys[1])
        .fetch_one(db)
        .await
        .map_err(failed("throttle_left"))?;
    Ok(until.map_or(0, |until| ((until - now.0).max(0) + 999) / 1000))
}

/// Counts a try before its password is looked at, so that parallel tries cannot all pass. Answers the seconds to wait, 0
/// when the try may go on.
///
/// # Errors
/// [`DbError::Query`].
pub async fn count(db: &SqlitePool, keys: &[String; 2], now: Timestamp) -> Result<i64, DbError> {
    let mut tx = db.begin_with("BEGIN IMMEDIATE").await.map_err(failed("throttle_count"))?;
    let until: Option<i64> = sqlx::query_scalar("SELECT max(retry_at) FROM throttle WHERE k IN (?, ?)")
        .bind(&keys[0])
        .bind(&keys[1])
        .fetch_one(&mut *tx)
        .await
        .map_err(failed("throttle_count"))?;
    if let Some(until) = until
        && until > now.0
    {
        return Ok((until - now.0 + 999) / 1000);
    }
    sqlx::query("DELETE FROM throttle WHERE last_at < ?")
        .bind(now.0 - FORGET_MS)
        .execute(&mut *tx)
        .await
        .map_err(failed("throttle_count"))?;
    for key in keys {
        let fails: i64 = sqlx::query_scalar(
            "INSERT INTO throttle (k, fails, retry_at, last_at) VALUES (?1, 1, 0, ?2)
             ON CONFLICT (k) DO UPDATE SET fails = fails + 1, last_at = ?2 RETURNING fails",
        )
        .bind(key)
        .bind(now.0)
        .fetch_one(&mut *tx)
        .await
        .map_err(failed("throttle_count"))?;
        let wait = wait_seconds(fails);
        if wait > 0 {
            sqlx::query("UPDATE throttle SET retry_at = ? WHERE k = ?")
                .bind(now.0 + wait * 1000)
                .bind(key)
                .execute(&mut *tx)
                .await
                .map_err(failed("throttle_count"))?;
        }
    }
    tx.commit().await.map_err(failed("throttle_count"))?;
    Ok(0)
}

/// Forgets `keys`: the try was right.
///
/// # Errors
/// [`DbError::Query`].
pub async fn forget(db: &SqlitePool, keys: &[String; 2]) -> Result<(), DbError> {
    sqlx::query("DELETE FROM throttle WHERE k IN (?, ?)")
        .bind(&keys[0])
        .bind(&keys[1])
        .execute(db)
        .await
        .map(|_| ())
        .map_err(failed("throttle_forget"))
}

/// Forgets all wrong tries: who owns the data folder says so.
///
/// # Errors
/// [`DbError::Query`].
pub async fn forget_all(db: &SqlitePool) -> Result<(), DbError> {
    sqlx::query("DELETE FROM throttle").execute(db).await.map(|_| ()).map_err(failed("throttle_forget_all"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn five_tries_are_free_and_the_wait_doubles_to_a_quarter_of_an_hour() {
        let waits: Vec<i64> = (1..=16).map(wait_seconds).collect();
        assert_eq!(waits, [0, 0, 0, 0, 2, 4, 8, 16, 32, 64, 128, 256, 512, 900, 900, 900]);
        assert_eq!(wait_seconds(i64::MAX), WAIT_SECONDS_MAX);
    }
}
