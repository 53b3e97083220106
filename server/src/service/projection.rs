//! Keeps `views.db` and the history in step with an engine: snapshot, then events, by difference.
//!
//! What is written is compared with what is already there ([`Written`]), not with the snapshot before, so that a missed
//! event or a gap cannot leave a wrong row behind. At most one transaction a second, unless a deed asks for its result.
use crate::app::{App, Cluster};
use crate::db::views::Change;
use crate::db::{history, tasks};
use crate::error::AppError;
use model::ids::{ComponentId, DiskId, ObjectId, TaskId};
use model::view::{DiskView, HostView, ObjectView, ResyncItem, Snapshot, TaskView};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Shortest time between two transactions.
const TICK: Duration = Duration::from_secs(1);
/// Rows of one transaction.
const ROWS_MAX: usize = 5_000;
/// Used bytes are written when they changed by so much, or by 1 %.
const USED_STEP_BYTES: u64 = 64 << 20;

/// What the projections hold.
#[derive(Default)]
pub struct Written {
    hosts: BTreeMap<String, HostView>,
    disks: BTreeMap<DiskId, DiskView>,
    objects: BTreeMap<ObjectId, Arc<ObjectView>>,
    resync: BTreeMap<ComponentId, ResyncItem>,
    tasks: BTreeMap<TaskId, TaskView>,
}

impl Written {
    /// As after the first fill with `snapshot`.
    pub fn filled(snapshot: &Snapshot) -> Self {
        let mut written = Self::default();
        for change in difference(&written, snapshot) {
            written.note(&change);
        }
        written
    }

    fn note(&mut self, change: &Change) {
        match change {
            Change::PutHost(host) => drop(self.hosts.insert(host.name.clone(), host.clone())),
            Change::DropHost(name) => drop(self.hosts.remove(name)),
            Change::PutDisk(disk) => drop(self.disks.insert(disk.id, disk.clone())),
            Change::DropDisk(id) => drop(self.disks.remove(id)),
            Change::PutObject(object) => drop(self.objects.insert(object.uuid, object.clone())),
            Change::DropObject(id) => drop(self.objects.remove(id)),
            Change::PutResync(item) => drop(self.resync.insert(item.component, item.clone())),
            Change::DropResync(id) => drop(self.resync.remove(id)),
        }
    }
}

/// What has to be written so that the projections show `now`. Pure.
pub fn difference(written: &Written, now: &Snapshot) -> Vec<Change> {
    let mut changes = Vec::new();
    let hosts: BTreeMap<&str, &HostView> = now.hosts.iter().map(|host| (host.name.as_str(), host)).collect();
    changes.extend(
        written.hosts.keys().filter(|name| !hosts.contains_key(name.as_str())).cloned().map(Change::DropHost),
    );
    changes.extend(
        hosts
            .values()
            .filter(|host| written.hosts.get(&host.name) != Some(host))
            .map(|host| Change::PutHost((*host).clone())),
    );
    let disks: BTreeMap<DiskId, &DiskView> = now.disks.iter().map(|disk| (disk.id, disk)).collect();
    changes.extend(written.disks.keys().filter(|id| !disks.contains_key(id)).copied().map(Change::DropDisk));
    changes.extend(
        disks
            .values()
            .filter(|disk| disk_differs(written.disks.get(&disk.id), disk))
            .map(|disk| Change::PutDisk((*disk).clone())),
    );
    let objects: BTreeMap<ObjectId, &Arc<ObjectView>> =
        now.objects.iter().map(|object| (object.uuid, object)).collect();
    changes.extend(
        written.objects.keys().filter(|id| !objects.contains_key(id)).copied().map(Change::DropObject),
    );
    changes.extend(
        objects
            .values()
            .filter(|object| object_differs(written.objects.get(&object.uuid), object))
            .map(|object| Change::PutObject((*object).clone())),
    );
    let resync: BTreeMap<ComponentId, &ResyncItem> =
        now.resync.items.iter().map(|item| (item.component, item)).collect();
    changes
        .extend(written.resync.keys().filter(|id| !resync.contains_key(id)).copied().map(Change::DropResync));
    changes.extend(
        resync
            .values()
            .filter(|item| written.resync.get(&item.component) != Some(item))
            .map(|item| Change::PutResync((*item).clone())),
    );
    changes
}

/// Whether used bytes moved enough to be worth a write; from or to zero always is.
fn moved(before: u64, after: u64) -> bool {
    let step = USED_STEP_BYTES.min((before / 100).max(1));
    before.abs_diff(after) >= step || (before == 0) != (after == 0)
}

fn disk_differs(before: Option<&DiskView>, after: &DiskView) -> bool {
    let Some(before) = before else { return true };
    if moved(before.used_bytes, after.used_bytes) || moved(before.reserved_bytes, after.reserved_bytes) {
        return true;
    }
    let (used_bytes, reserved_bytes, metadata_bytes) =
        (before.used_bytes, before.reserved_bytes, before.metadata_bytes);
    DiskView { used_bytes, reserved_bytes, metadata_bytes, ..after.clone() } != *before
}

fn object_differs(before: Option<&Arc<ObjectView>>, after: &Arc<ObjectView>) -> bool {
    let Some(before) = before else { return true };
    if Arc::ptr_eq(before, after) {
        return false;
    }
    if moved(before.used_bytes, after.used_bytes) || moved(before.used_raw_bytes, after.used_raw_bytes) {
        return true;
    }
    let head = |object: &ObjectView| {
        let votes = (object.votes.total, object.votes.present, object.tolerates_now, object.csn);
        let rule = (object.policy.clone(), object.policy_version, object.compliance, object.health);
        (
            object.name.clone(),
            object.size_bytes,
            rule,
            object.reason.clone(),
            object.accessible,
            votes,
            object.repair_at,
        )
    };
    let leaves = |object: &ObjectView| {
        let leaf = |(leaf, witness): (&model::view::ComponentView, bool)| {
            (leaf.uuid, leaf.state, leaf.votes, leaf.disk, leaf.host.clone(), leaf.reason.clone(), witness)
        };
        object.tree.leaves().into_iter().map(leaf).collect::<Vec<_>>()
    };
    head(before) != head(after) || leaves(before) != leaves(after)
}

/// Writes what changed, in transactions of a bounded size, and then shows the snapshot to live pages.
async fn write(
    app: &App,
    cluster: &Cluster,
    written: &mut Written,
    now: Arc<Snapshot>,
) -> Result<(), AppError> {
    let changes = difference(written, &now);
    let mut from = 0;
    while from < changes.len() {
        let mut rows = 0;
        let fits = changes[from..].iter().take_while(|change| {
            rows += change.rows();
            rows <= ROWS_MAX
        });
        let to = from + fits.count().max(1);
        app.views.apply(&cluster.key, &now, &changes[from..to]).await?;
        changes[from..to].iter().for_each(|change| written.note(change));
        from = to;
        if from < changes.len() {
            tokio::time::sleep(TICK).await;
        }
    }
    for task in &now.tasks {
        if written.tasks.get(&task.id) != Some(task) {
            tasks::put(&app.console, &cluster.key, task, "engine").await?;
            written.tasks.insert(task.id, task.clone());
        }
    }
    cluster.deeds.follow(&now);
    cluster.projected.send_replace(now);
    Ok(())
}

/// One turn: events to the history, changes to the projections.
async fn turn(app: &App, cluster: &Cluster, written: &mut Written, seq: &mut u64) -> Result<(), AppError> {
    let version = cluster.projected.borrow().version;
    let batch = tokio::select! {
        batch = cluster.engine.events(*seq, version) => batch?,
        () = cluster.nudge.notified() => model::engine::EventBatch::default(),
        () = app.stopped() => return Ok(()),
    };
    if batch.gap {
        tracing::info!(cluster = %cluster.key, "some events were missed; the projections are compared with a new snapshot");
    }
    for event in batch.events.iter().filter(|event| event.severity >= model::state::Severity::Warning) {
        tracing::warn!(cluster = %cluster.key, kind = event.kind, subject = event.subject, "{}", event.text);
    }
    if let Some(last) = batch.events.last() {
        let told: Vec<_> =
            batch.events.iter().map(|event| (event.clone(), cluster.deeds.behind(event))).collect();
        history::add_events(&app.console, &cluster.key, &told).await?;
        *seq = last.seq;
    }
    let now = cluster.snapshot().await?;
    write(app, cluster, written, now).await
}

/// Follows one engine until the server stops.
pub async fn run(app: App, cluster: Arc<Cluster>) {
    let first = cluster.projected.borrow().clone();
    let mut written = Written::filled(&first);
    let known: Vec<String> = first.tasks.iter().map(|task| task.id.to_string()).collect();
    if let Err(error) = tasks::end_lost(&app.console, &cluster.key, &known, app.clock.now()).await {
        tracing::error!(cause = %error, "cannot end lost tasks");
    }
    let mut seq = 0;
    let mut failures = 0_u32;
    while !*app.stopping.borrow() {
        match turn(&app, &cluster, &mut written, &mut seq).await {
            Ok(()) => failures = 0,
            Err(error) => {
                failures += 1;
                tracing::warn!(cluster = %cluster.key, failures, cause = %error.cause_chain(), "projection failed; it is tried again");
            }
        }
        let pause = TICK * failures.clamp(1, 60);
        tokio::select! {
            () = tokio::time::sleep(pause) => {}
            () = cluster.nudge.notified() => cluster.nudge.notify_one(),
            () = app.stopped() => {}
        }
    }
}
