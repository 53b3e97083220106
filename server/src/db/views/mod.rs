//! `views.db`: projections of what engines report, so that a page is one keyset query.
//!
//! Map: [`Views::build`] makes the file aside and renames it in; [`Views::apply`] brings changed rows in, one transaction a
//! call; `rows` maps views of `model` to rows; `query` reads. May be deleted at any time while the server is stopped.
use super::{DbError, failed};
use model::ids::{ComponentId, DiskId, ObjectId};
use model::view::{DiskView, HostView, ObjectView, ResyncItem, Snapshot};
use sqlx::sqlite::{SqliteConnectOptions, SqliteJournalMode, SqlitePoolOptions, SqliteSynchronous};
use sqlx::{AssertSqlSafe, SqliteConnection, SqlitePool};
use std::path::Path;
use std::sync::Arc;

pub mod query;
mod rows;

/// The log of the file is cut to this size after a checkpoint, bytes.
const JOURNAL_BYTES_MAX: &str = "67108864";
/// Rows of one `INSERT … FROM json_each`.
const CHUNK_ROWS: usize = 1000;

/// One changed row of the truth.
#[derive(Clone, Debug)]
pub enum Change {
    /// New or changed.
    PutHost(HostView),
    /// Gone, by name.
    DropHost(String),
    /// New or changed.
    PutDisk(DiskView),
    /// Gone.
    DropDisk(DiskId),
    /// New or changed, with its components.
    PutObject(Arc<ObjectView>),
    /// Gone, with its components.
    DropObject(ObjectId),
    /// New or changed.
    PutResync(ResyncItem),
    /// Ended.
    DropResync(ComponentId),
}

impl Change {
    /// Rows that it writes.
    pub fn rows(&self) -> usize {
        match self {
            Self::PutObject(object) => 1 + object.tree.leaves().len(),
            _ => 1,
        }
    }
}

/// The projections; cloning shares the pool.
#[derive(Clone)]
pub struct Views {
    pool: SqlitePool,
}

fn options(path: &Path) -> SqliteConnectOptions {
    SqliteConnectOptions::new()
        .filename(path)
        .create_if_missing(true)
        .journal_mode(SqliteJournalMode::Wal)
        .synchronous(SqliteSynchronous::Off)
        .pragma("journal_size_limit", JOURNAL_BYTES_MAX)
        .busy_timeout(super::BUSY_TIMEOUT)
}

fn remove(path: &Path) -> Result<(), DbError> {
    for suffix in ["", "-wal", "-shm"] {
        let file = format!("{}{suffix}", path.display());
        match std::fs::remove_file(&file) {
            Err(source) if source.kind() != std::io::ErrorKind::NotFound => {
                return Err(DbError::File { path: file, source });
            }
            _ => {}
        }
    }
    Ok(())
}

impl Views {
    /// Fills a new file beside `path` from the snapshots, renames it in and opens it. A damaged or foreign old file does not
    /// matter: it is replaced.
    ///
    /// # Errors
    /// [`DbError::Open`], [`DbError::Query`], [`DbError::File`]; the old file is still there unless the rename was done.
    pub async fn build(path: &Path, first: &[(String, Arc<Snapshot>)]) -> Result<Self, DbError> {
        let aside = path.with_extension("db.new");
        remove(&aside)?;
        let opened = |source| DbError::Open { path: path.display().to_string(), source };
        let filling = options(&aside).journal_mode(SqliteJournalMode::Off);
        let new = SqlitePoolOptions::new().max_connections(1).connect_with(filling).await.map_err(opened)?;
        sqlx::raw_sql(include_str!("schema.sql")).execute(&new).await.map_err(failed("views_schema"))?;
        let filled = Self { pool: new };
        for (cluster, snapshot) in first {
            filled.apply(cluster, snapshot, &everything(snapshot)).await?;
        }
        sqlx::raw_sql(include_str!("indexes.sql"))
            .execute(&filled.pool)
            .await
            .map_err(failed("views_indexes"))?;
        filled.pool.close().await;
        remove(path)?;
        std::fs::rename(&aside, path)
            .map_err(|source| DbError::File { path: path.display().to_string(), source })?;
        let pool = SqlitePoolOptions::new().max_connections(super::POOL_CONNECTIONS_MAX);
        let pool = pool.connect_with(options(path)).await;
        let pool = pool.map_err(|source| DbError::Open { path: path.display().to_string(), source })?;
        Ok(Self { pool })
    }

    /// Writes changes in one transaction, with the version and time of the snapshot that they bring nearer.
    ///
    /// # Errors
    /// [`DbError::Query`]; nothing was written then.
    pub async fn apply(&self, cluster: &str, snapshot: &Snapshot, changes: &[Change]) -> Result<(), DbError> {
        let mut tx = self.pool.begin_with("BEGIN IMMEDIATE").await.map_err(failed("apply_changes"))?;
        let batches = rows::batches(cluster, changes);
        for (table, key, gone) in &batches.gone {
            delete(&mut tx, table, key, cluster, gone).await?;
        }
        for (table, columns, rows) in &batches.put {
            for chunk in rows.chunks(CHUNK_ROWS) {
                insert(&mut tx, table, columns, chunk).await?;
            }
        }
        sqlx::query("INSERT OR REPLACE INTO clusters (cluster, version, taken_at) VALUES (?, ?, ?)")
            .bind(cluster)
            .bind(i64::try_from(snapshot.version).unwrap_or(i64::MAX))
            .bind(snapshot.taken_at.0)
            .execute(&mut *tx)
            .await
            .map_err(failed("apply_version"))?;
        tx.commit().await.map_err(failed("apply_commit"))
    }
}

async fn insert(
    tx: &mut SqliteConnection,
    table: &str,
    columns: &[&str],
    rows: &[serde_json::Value],
) -> Result<(), DbError> {
    let values: Vec<String> = (0..columns.len()).map(|index| format!("value ->> '$[{index}]'")).collect();
    let sql = format!(
        "INSERT OR REPLACE INTO {table} ({}) SELECT {} FROM json_each(?)",
        columns.join(", "),
        values.join(", ")
    );
    let json = serde_json::to_string(rows).unwrap_or_default();
    sqlx::query(AssertSqlSafe(sql)).bind(json).execute(tx).await.map(|_| ()).map_err(failed("insert_rows"))
}

async fn delete(
    tx: &mut SqliteConnection,
    table: &str,
    key: &str,
    cluster: &str,
    gone: &[String],
) -> Result<(), DbError> {
    if gone.is_empty() {
        return Ok(());
    }
    let sql = format!("DELETE FROM {table} WHERE cluster = ? AND {key} IN (SELECT value FROM json_each(?))");
    let json = serde_json::to_string(gone).unwrap_or_default();
    let query = sqlx::query(AssertSqlSafe(sql)).bind(cluster).bind(json);
    query.execute(tx).await.map(|_| ()).map_err(failed("delete_rows"))
}

/// All rows of a snapshot, for the first fill.
fn everything(snapshot: &Snapshot) -> Vec<Change> {
    let hosts = snapshot.hosts.iter().cloned().map(Change::PutHost);
    let disks = snapshot.disks.iter().cloned().map(Change::PutDisk);
    let objects = snapshot.objects.iter().cloned().map(Change::PutObject);
    let resync = snapshot.resync.items.iter().cloned().map(Change::PutResync);
    hosts.chain(disks).chain(objects).chain(resync).collect()
}
