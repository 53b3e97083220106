//! History: events and performance samples.
use super::{DbError, failed, to_word, word};
use model::state::Severity;
use model::units::Timestamp;
use model::view::Event;
use sqlx::{AssertSqlSafe, SqlitePool};

/// An event of the history.
#[derive(Clone, Debug, PartialEq)]
pub struct PastEvent {
    /// Order, also over restarts.
    pub id: i64,
    /// When.
    pub time: Timestamp,
    /// How bad.
    pub severity: Severity,
    /// Kind.
    pub kind: String,
    /// What it is about.
    pub subject: String,
    /// One sentence.
    pub text: String,
    /// Who did it, if a person did.
    pub user: Option<String>,
}

/// Adds events in order, each with who did it if a person did, in one transaction.
///
/// # Errors
/// [`DbError::Query`]; none was added then.
pub async fn add_events(
    db: &SqlitePool,
    cluster: &str,
    events: &[(Event, Option<String>)],
) -> Result<(), DbError> {
    let mut tx = db.begin().await.map_err(failed("add_events"))?;
    for (event, user) in events {
        sqlx::query(
            "INSERT INTO events (cluster, time, severity, kind, subject, text, actor) VALUES (?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(cluster)
        .bind(event.time.0)
        .bind(to_word(&event.severity))
        .bind(&event.kind)
        .bind(&event.subject)
        .bind(&event.text)
        .bind(user)
        .execute(&mut *tx)
        .await
        .map_err(failed("add_events"))?;
    }
    tx.commit().await.map_err(failed("add_events"))
}

/// What an event list is narrowed to.
#[derive(Clone, Debug, Default)]
pub struct EventFilter {
    /// Only this severity.
    pub severity: Option<Severity>,
    /// Only this kind.
    pub kind: Option<String>,
    /// Only this subject.
    pub subject: Option<String>,
}

/// Events, newest first, older than the id `before`.
///
/// # Errors
/// [`DbError::Query`], [`DbError::Inconsistent`].
pub async fn event_page(
    db: &SqlitePool,
    cluster: &str,
    filter: &EventFilter,
    before: Option<i64>,
    limit: i64,
) -> Result<Vec<PastEvent>, DbError> {
    type Row = (i64, i64, String, String, String, String, Option<String>);
    let rows: Vec<Row> = sqlx::query_as(
        "SELECT id, time, severity, kind, subject, text, actor FROM events WHERE cluster = ?1
         AND (?2 IS NULL OR id < ?2) AND (?3 IS NULL OR severity = ?3) AND (?4 IS NULL OR kind = ?4)
         AND (?5 IS NULL OR subject = ?5) ORDER BY id DESC LIMIT ?6",
    )
    .bind(cluster)
    .bind(before)
    .bind(filter.severity.as_ref().map(to_word))
    .bind(&filter.kind)
    .bind(&filter.subject)
    .bind(limit)
    .fetch_all(db)
    .await
    .map_err(failed("event_page"))?;
    rows.into_iter()
        .map(|(id, time, severity, kind, subject, text, user)| {
            let severity = word("events", &id.to_string(), &severity)?;
            Ok(PastEvent { id, time: Timestamp(time), severity, kind, subject, text, user })
        })
        .collect()
}

/// Rates of one entity over the time since the sample before.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Sample {
    /// `cluster`, `host:N`, `disk:ID`, `volume:N`.
    pub entity: String,
    /// Reads a second.
    pub read_iops: f64,
    /// Writes a second.
    pub write_iops: f64,
    /// Bytes read a second.
    pub read_bytes_per_second: f64,
    /// Bytes written a second.
    pub written_bytes_per_second: f64,
    /// Mean latency of reads, microseconds; `None` without reads.
    pub read_latency_us: Option<f64>,
    /// Mean latency of writes, microseconds; `None` without writes.
    pub write_latency_us: Option<f64>,
    /// I/Os under way at the time of the sample.
    pub outstanding: f64,
    /// Bytes moved by resync a second.
    pub resync_bytes_per_second: f64,
}

/// Metrics that can be asked for, with their units.
pub const METRICS: [(&str, &str); 8] = [
    ("read_iops", "1/s"),
    ("write_iops", "1/s"),
    ("read_bytes_per_second", "B/s"),
    ("written_bytes_per_second", "B/s"),
    ("read_latency_us", "us"),
    ("write_latency_us", "us"),
    ("outstanding", "1"),
    ("resync_bytes_per_second", "B/s"),
];

/// Adds the samples of one moment and drops those older than `keep_from`.
///
/// # Errors
/// [`DbError::Query`]; none was added then.
pub async fn add_samples(
    db: &SqlitePool,
    cluster: &str,
    time: Timestamp,
    samples: &[Sample],
    keep_from: Timestamp,
) -> Result<(), DbError> {
    let mut tx = db.begin().await.map_err(failed("add_samples"))?;
    sqlx::query("DELETE FROM samples WHERE time < ?")
        .bind(keep_from.0)
        .execute(&mut *tx)
        .await
        .map_err(failed("add_samples"))?;
    for sample in samples {
        sqlx::query(
            "INSERT OR REPLACE INTO samples (cluster, entity, time, read_iops, write_iops, read_bytes_per_second,
                 written_bytes_per_second, read_latency_us, write_latency_us, outstanding, resync_bytes_per_second)
             VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)",
        )
        .bind(cluster)
        .bind(&sample.entity)
        .bind(time.0)
        .bind(sample.read_iops)
        .bind(sample.write_iops)
        .bind(sample.read_bytes_per_second)
        .bind(sample.written_bytes_per_second)
        .bind(sample.read_latency_us)
        .bind(sample.write_latency_us)
        .bind(sample.outstanding)
        .bind(sample.resync_bytes_per_second)
        .execute(&mut *tx)
        .await
        .map_err(failed("add_samples"))?;
    }
    tx.commit().await.map_err(failed("add_samples"))
}

/// Points of one metric, oldest first. `metric` must be a name in [`METRICS`].
///
/// # Errors
/// [`DbError::Query`]; [`DbError::Inconsistent`] for another metric.
pub async fn points(
    db: &SqlitePool,
    cluster: &str,
    entity: &str,
    metric: &str,
    from: Timestamp,
    to: Timestamp,
) -> Result<Vec<(Timestamp, f64)>, DbError> {
    let Some((column, _)) = METRICS.iter().find(|(name, _)| *name == metric) else {
        return Err(DbError::Inconsistent { table: "samples", row: metric.to_owned() });
    };
    let sql = format!(
        "SELECT time, {column} FROM samples WHERE cluster = ? AND entity = ? AND time BETWEEN ? AND ?
         AND {column} IS NOT NULL ORDER BY time LIMIT 10000"
    );
    let rows: Vec<(i64, f64)> = sqlx::query_as(AssertSqlSafe(sql))
        .bind(cluster)
        .bind(entity)
        .bind(from.0)
        .bind(to.0)
        .fetch_all(db)
        .await
        .map_err(failed("points"))?;
    Ok(rows.into_iter().map(|(time, value)| (Timestamp(time), value)).collect())
}
