//! SQLite: the only module with SQL. Callers see domain types.
//!
//! Two files: `console.db` (people, settings, drafts, history; migrated, durable) and `views.db` (projections; rebuilt at
//! every start, may always go). Architecture invariant: nothing here is a fact that only a storage engine can know.
use sqlx::migrate::{Migration, MigrationType, Migrator};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions};
use sqlx::{SqlSafeStr, SqlitePool};
use std::path::Path;
use std::sync::LazyLock;
use std::time::Duration;

pub mod audit;
pub mod drafts;
pub mod history;
pub mod sessions;
pub mod settings;
pub mod tasks;
pub mod throttle;
pub mod tokens;
pub mod users;
pub mod views;

/// Connections to one database file.
pub type Pool = SqlitePool;

/// Longest wait for another writer before `database is locked`.
const BUSY_TIMEOUT: Duration = Duration::from_secs(10);
/// Connections to one file. SQLite has one writer; more only help readers.
const POOL_CONNECTIONS_MAX: u32 = 6;

/// Every file of `migrations/`: its number, its name, its text. By hand, because the macro that reads the folder builds SQLite and
/// sqlx a second time, for the compiler; a test holds list and folder together.
const MIGRATION_FILES: &[(i64, &str, &str)] =
    &[(1, "console", include_str!("../../../migrations/0001_console.sql"))];

static MIGRATIONS: LazyLock<Migrator> = LazyLock::new(|| {
    let migration = |&(version, name, sql): &(i64, &'static str, &'static str)| {
        Migration::new(version, name.into(), MigrationType::Simple, sql.into_sql_str(), false)
    };
    Migrator::with_migrations(MIGRATION_FILES.iter().map(migration).collect())
});

/// Why the database is not usable or a query failed. `Display` never repeats its source.
#[derive(Debug, thiserror::Error)]
pub enum DbError {
    /// The file cannot be opened.
    #[error("cannot open the database {path}")]
    Open {
        /// Which.
        path: String,
        /// Cause.
        #[source]
        source: sqlx::Error,
    },
    /// The file is of another version.
    #[error(
        "{path} was made by another version of Millpond; use that version, or move the file away (no data is in it, users and history are)"
    )]
    Version {
        /// Which.
        path: String,
        /// Cause.
        #[source]
        source: sqlx::migrate::MigrateError,
    },
    /// A query failed.
    #[error("query `{name}` failed")]
    Query {
        /// Function it is in.
        name: &'static str,
        /// Cause.
        #[source]
        source: sqlx::Error,
    },
    /// A row makes no sense.
    #[error("table {table} holds a row that makes no sense: {row}")]
    Inconsistent {
        /// Table.
        table: &'static str,
        /// Key of the row.
        row: String,
    },
    /// A file operation around the databases failed.
    #[error("cannot replace {path}")]
    File {
        /// Which.
        path: String,
        /// Cause.
        #[source]
        source: std::io::Error,
    },
}

/// `map_err` of one query.
pub(crate) fn failed(name: &'static str) -> impl FnOnce(sqlx::Error) -> DbError {
    move |source| DbError::Query { name, source }
}

/// The options that every connection to `console.db` has.
fn console_options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .foreign_keys(true)
        .busy_timeout(BUSY_TIMEOUT)
}

async fn open(path: &Path) -> Result<SqlitePool, DbError> {
    SqlitePoolOptions::new()
        .max_connections(POOL_CONNECTIONS_MAX)
        .connect_with(console_options(path))
        .await
        .map_err(|source| DbError::Open { path: path.display().to_string(), source })
}

async fn migrate(pool: &SqlitePool, path: &Path) -> Result<(), DbError> {
    MIGRATIONS.run(pool).await.map_err(|source| DbError::Version { path: path.display().to_string(), source })
}

/// Opens (creating when missing) and migrates `console.db`: what `serve` does.
///
/// # Errors
/// [`DbError::Open`], or [`DbError::Version`] when a newer release made the file; nothing was changed then.
pub async fn open_console(path: &Path) -> Result<SqlitePool, DbError> {
    let pool = open(path).await?;
    migrate(&pool, path).await?;
    Ok(pool)
}

/// Opens `console.db` for one command: a missing file is made, an existing one is never migrated.
///
/// # Errors
/// [`DbError::Version`] when the file is not of this release; [`DbError::Open`].
pub async fn open_console_for_command(path: &Path) -> Result<SqlitePool, DbError> {
    let is_new = !path.exists();
    let pool = open(path).await?;
    if is_new {
        migrate(&pool, path).await?;
        return Ok(pool);
    }
    let version = |source| DbError::Version { path: path.display().to_string(), source };
    let applied: i64 = sqlx::query_scalar("SELECT count(*) FROM _sqlx_migrations WHERE success")
        .fetch_one(&pool)
        .await
        .map_err(|source| version(sqlx::migrate::MigrateError::Execute(source)))?;
    let newest: i64 = sqlx::query_scalar("SELECT coalesce(max(version), 0) FROM _sqlx_migrations")
        .fetch_one(&pool)
        .await
        .map_err(failed("newest_migration"))?;
    let ours = MIGRATIONS.iter().map(|migration| migration.version).max().unwrap_or_default();
    if newest != ours || usize::try_from(applied).ok() != Some(MIGRATIONS.iter().count()) {
        return Err(version(sqlx::migrate::MigrateError::VersionMissing(newest)));
    }
    Ok(pool)
}

/// Reads an enum that is stored as its word of the contract.
pub(crate) fn word<T: serde::de::DeserializeOwned>(
    table: &'static str,
    row: &str,
    text: &str,
) -> Result<T, DbError> {
    serde_json::from_value(serde_json::Value::String(text.to_owned()))
        .map_err(|_| DbError::Inconsistent { table, row: row.to_owned() })
}

/// The word of the contract for an enum.
pub fn to_word<T: serde::Serialize>(value: &T) -> String {
    match serde_json::to_value(value) {
        Ok(serde_json::Value::String(word)) => word,
        other => unreachable!("not a word: {other:?}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_file_of_migrations_is_in_the_list() {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("../migrations");
        let mut files: Vec<String> = std::fs::read_dir(folder)
            .expect("the folder of migrations")
            .map(|entry| entry.expect("an entry").file_name().to_string_lossy().into_owned())
            .collect();
        files.sort();
        let listed: Vec<String> =
            MIGRATION_FILES.iter().map(|(version, name, _)| format!("{version:04}_{name}.sql")).collect();
        assert_eq!(files, listed);
    }
}
