//! History of tasks: who started them, and how they went.
use super::{DbError, failed, to_word, word};
use model::state::TaskState;
use model::units::Timestamp;
use model::view::TaskView;
use sqlx::{AssertSqlSafe, SqlitePool};

/// A task and who started it.
#[derive(Clone, Debug, PartialEq)]
pub struct Task {
    /// The task.
    pub view: TaskView,
    /// User, token or `engine`.
    pub started_by: String,
}

type Row = (String, String, String, String, i64, String, String, i64, Option<i64>, Option<String>);
const COLUMNS: &str =
    "id, kind, subject, state, progress_percent, step, started_by, started_at, finished_at, error";

fn task(row: Row) -> Result<Task, DbError> {
    let (id, kind, subject, state, progress, step, started_by, started_at, finished_at, error) = row;
    let bad = || DbError::Inconsistent { table: "tasks", row: id.clone() };
    let view = TaskView {
        id: id.parse().map_err(|_| bad())?,
        kind,
        subject,
        state: word("tasks", &id, &state)?,
        progress_percent: u8::try_from(progress).map_err(|_| bad())?,
        step,
        started_at: Timestamp(started_at),
        finished_at: finished_at.map(Timestamp),
        error,
    };
    Ok(Task { view, started_by })
}

/// Adds a task, or brings it up to date. The starter of a known task stays; a finished task never runs again.
///
/// # Errors
/// [`DbError::Query`].
pub async fn put(db: &SqlitePool, cluster: &str, view: &TaskView, started_by: &str) -> Result<(), DbError> {
    sqlx::query(
        "INSERT INTO tasks (id, cluster, kind, subject, state, progress_percent, step, started_by, started_at,
             finished_at, error) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?, ?, ?)
         ON CONFLICT (id) DO UPDATE SET state = excluded.state, progress_percent = excluded.progress_percent,
             step = excluded.step, finished_at = excluded.finished_at, error = excluded.error
         WHERE tasks.state = 'running'",
    )
    .bind(view.id.to_string())
    .bind(cluster)
    .bind(&view.kind)
    .bind(&view.subject)
    .bind(to_word(&view.state))
    .bind(i64::from(view.progress_percent.min(100)))
    .bind(&view.step)
    .bind(started_by)
    .bind(view.started_at.0)
    .bind(view.finished_at.map(|time| time.0))
    .bind(&view.error)
    .execute(db)
    .await
    .map(|_| ())
    .map_err(failed("put_task"))
}

/// Notes who started a task; whatever else is known of it already stays.
///
/// # Errors
/// [`DbError::Query`].
pub async fn started(
    db: &SqlitePool,
    cluster: &str,
    view: &TaskView,
    started_by: &str,
) -> Result<(), DbError> {
    sqlx::query(
        "INSERT INTO tasks (id, cluster, kind, subject, state, progress_percent, step, started_by, started_at)
         VALUES (?, ?, ?, ?, 'running', 0, '', ?, ?) ON CONFLICT (id) DO UPDATE SET started_by = excluded.started_by",
    )
    .bind(view.id.to_string())
    .bind(cluster)
    .bind(&view.kind)
    .bind(&view.subject)
    .bind(started_by)
    .bind(view.started_at.0)
    .execute(db)
    .await
    .map(|_| ())
    .map_err(failed("task_started"))
}

/// Ends the tasks that run in the history but that `known` of the engine does not hold: the process stopped meanwhile.
///
/// # Errors
/// [`DbError::Query`].
pub async fn end_lost(
    db: &SqlitePool,
    cluster: &str,
    known: &[String],
    now: Timestamp,
) -> Result<(), DbError> {
    let known = serde_json::to_string(known).unwrap_or_else(|_| "[]".into());
    sqlx::query(
        "UPDATE tasks SET state = ?, finished_at = ?, error = ? WHERE cluster = ? AND state = 'running'
         AND id NOT IN (SELECT value FROM json_each(?))",
    )
    .bind(to_word(&TaskState::Failed))
    .bind(now.0)
    .bind("Millpond stopped while it ran; look at its subject and start it again if it is not done")
    .bind(cluster)
    .bind(known)
    .execute(db)
    .await
    .map(|_| ())
    .map_err(failed("end_lost_tasks"))
}

/// One task.
///
/// # Errors
/// [`DbError::Query`], [`DbError::Inconsistent`].
pub async fn get(db: &SqlitePool, cluster: &str, id: &str) -> Result<Option<Task>, DbError> {
    let sql = format!("SELECT {COLUMNS} FROM tasks WHERE cluster = ? AND id = ?");
    sqlx::query_as::<_, Row>(AssertSqlSafe(sql))
        .bind(cluster)
        .bind(id)
        .fetch_optional(db)
        .await
        .map_err(failed("get_task"))?
        .map(task)
        .transpose()
}

/// Tasks, newest first, after the id `before`.
///
/// # Errors
/// [`DbError::Query`], [`DbError::Inconsistent`].
pub async fn page(
    db: &SqlitePool,
    cluster: &str,
    state: Option<TaskState>,
    before: Option<&str>,
    limit: i64,
) -> Result<Vec<Task>, DbError> {
    let sql = format!(
        "SELECT {COLUMNS} FROM tasks WHERE cluster = ?1 AND (?2 IS NULL OR state = ?2) AND (?3 IS NULL OR id < ?3)
         ORDER BY id DESC LIMIT ?4"
    );
    sqlx::query_as::<_, Row>(AssertSqlSafe(sql))
        .bind(cluster)
        .bind(state.as_ref().map(to_word))
        .bind(before)
        .bind(limit)
        .fetch_all(db)
        .await
        .map_err(failed("task_page"))?
        .into_iter()
        .map(task)
        .collect()
}
