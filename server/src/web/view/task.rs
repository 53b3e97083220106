//! Tasks in words.
use crate::db::tasks::Task;
use crate::web::format;
use crate::web::parts::TaskRow;
use crate::web::view::words;
use model::state::TaskState;
use model::units::Timestamp;
use model::view::Snapshot;

/// What a kind of task does, as a verb. An unknown kind is shown as it is.
fn verb(kind: &str) -> &str {
    match kind {
        "configure-cluster" => "Make the cluster",
        "import-cluster" => "Import a cluster",
        "add-claims" => "Claim more disks:",
        "put-policy" => "Apply the edited policy",
        "apply-policy" => "Apply a policy to",
        "repair-now" => "Repair without waiting:",
        "scrub" => "Read and verify every byte:",
        "set-fault-domains" => "Put fault domains in force:",
        other => other,
    }
}

/// The subject for people: a volume's id is replaced by its name.
fn subject(snapshot: &Snapshot, subject: &str) -> String {
    let named = snapshot.objects.iter().find(|object| object.uuid.to_string() == subject);
    named.map_or_else(|| subject.to_owned(), |object| object.name.clone())
}

/// What a task does to what.
pub fn title(snapshot: &Snapshot, task: &Task) -> String {
    format!("{} {}", verb(&task.view.kind), subject(snapshot, &task.view.subject))
}

/// A task as a row.
pub fn row(snapshot: &Snapshot, task: &Task, now: Timestamp) -> TaskRow {
    let view = &task.view;
    TaskRow {
        id: view.id.to_string(),
        title: title(snapshot, task),
        chip: words::task(view.state),
        running: view.state == TaskState::Running,
        percent: view.progress_percent.min(100),
        spoken: format!("{}% done", view.progress_percent.min(100)),
        step: view.step.clone(),
        started_by: task.started_by.clone(),
        started: format::when(view.started_at, now),
        error: view.error.clone(),
    }
}
