//! The course of a run: each step waits for what it needs to see in the engine's snapshot.
use super::load::Load;
use super::{Phase, VOLUME};
use crate::app::{App, Cluster};
use crate::service::auth::Actor;
use crate::service::{intent, volumes};
use model::engine::{Fault, FaultTarget, Intent};
use model::state::{ClusterState, ComponentState, HostState, ObjectHealth, TaskState};
use model::view::{ObjectView, Snapshot};
use std::sync::Arc;
use std::time::Duration;

/// Size of the volume: 256 MiB.
const VOLUME_BYTES: u64 = 256 << 20;
/// Seconds of I/O before the host is lost, and while it is away: long enough to be seen as a line.
const STEADY_SECONDS: u64 = 8;
const AWAY_SECONDS: u64 = 15;
/// No step of a lab takes longer.
const PATIENCE: Duration = Duration::from_secs(180);

/// Carries a run through and records its end.
pub async fn run(app: App, actor: Actor, cluster: Arc<Cluster>) {
    let run = u64::try_from(app.clock.now().0).unwrap_or(1);
    let load = Load::new(run);
    let result = course(&app, &actor, &cluster, &load).await;
    load.stop();
    if let Err(cause) = result {
        let host = app.watch.report().host;
        if let Some(host) = host {
            let _ = power(&app, &actor, &cluster, &host, Fault::PowerOn).await;
        }
        app.watch.with(|report| report.error = Some(cause.clone()));
        app.watch.enter(Phase::Failed, app.clock.now(), cause);
    }
}

async fn course(app: &App, actor: &Actor, cluster: &Arc<Cluster>, load: &Arc<Load>) -> Result<(), String> {
    until(app, cluster, "the cluster to be ready", |snapshot| match snapshot.cluster.state {
        ClusterState::Ready => Seen::Yes,
        _ => failed_task(snapshot).map_or(Seen::NotYet, Seen::Never),
    })
    .await?;
    let enter = |phase, text: String| app.watch.enter(phase, app.clock.now(), text);
    if app.watch.report().phase == Phase::MakingCluster {
        enter(Phase::MakingVolume, "The cluster is ready; a mirrored volume is made".into());
    }
    all_hosts_on(app, actor, cluster).await?;
    make_volume(app, actor, cluster).await?;
    until(app, cluster, "the volume to be healthy", |snapshot| healthy(snapshot).into()).await?;
    let writing = tokio::spawn(load.clone().run(app.clone()));
    let first = wait_for_writes(app, load, 1).await?;
    enter(Phase::Steady, format!("Clients write to {VOLUME}, both copies are complete"));
    seconds(app, STEADY_SECONDS).await?;
    wait_for_writes(app, load, first + 1).await?;

    let host = victim(&*cluster.snapshot().await.map_err(words)?).ok_or("the volume has no copy to lose")?;
    app.watch.with(|report| report.host = Some(host.clone()));
    power(app, actor, cluster, &host, Fault::PowerOff).await?;
    enter(Phase::HostOff, format!("{host} is switched off, as if its power failed"));
    until(app, cluster, "the loss to be noticed", |snapshot| (!healthy(snapshot)).into()).await?;
    let before = load.counts().0;
    wait_for_writes(app, load, before + 1).await?;
    seconds(app, AWAY_SECONDS).await?;

    power(app, actor, cluster, &host, Fault::PowerOn).await?;
    let missed = load.counts().0.saturating_sub(before);
    enter(
        Phase::Returning,
        format!("{host} is switched on again; it missed about {missed} writes, only those are copied"),
    );
    until(app, cluster, "full protection", |snapshot| healthy(snapshot).into()).await?;
    seconds(app, 3).await?;

    load.stop();
    writing.await.map_err(|error| error.to_string())?;
    enter(Phase::Verifying, "Protected again. Writing has stopped; every block is read back".into());
    let outcome = load.verify(app).await?;
    app.watch.with(|report| {
        report.outcome = Some(outcome);
        report.acknowledged = outcome.acknowledged;
    });
    let text =
        format!("{} of {} acknowledged writes lost", outcome.lost + outcome.foreign, outcome.acknowledged);
    enter(Phase::Done, text);
    Ok(())
}

fn words(error: impl std::fmt::Display) -> String {
    error.to_string()
}

/// Waits so many seconds, or until the server stops.
async fn seconds(app: &App, seconds: u64) -> Result<(), String> {
    tokio::select! {
        () = tokio::time::sleep(Duration::from_secs(seconds)) => Ok(()),
        () = app.stopped() => Err("the server stops".into()),
    }
}

/// What a look at a snapshot says.
enum Seen {
    Yes,
    NotYet,
    Never(String),
}

impl From<bool> for Seen {
    fn from(seen: bool) -> Self {
        if seen { Self::Yes } else { Self::NotYet }
    }
}

/// Waits until a snapshot shows something.
async fn until(
    app: &App,
    cluster: &Cluster,
    what: &str,
    look: impl Fn(&Snapshot) -> Seen,
) -> Result<(), String> {
    let mut projected = cluster.projected.subscribe();
    let seen = async {
        loop {
            let snapshot = cluster.snapshot().await.map_err(words)?;
            match look(&snapshot) {
                Seen::Yes => return Ok(()),
                Seen::Never(cause) => return Err(cause),
                Seen::NotYet => {}
            }
            // The projection follows the engine within a second; the timeout is for changes that it missed.
            let _ = tokio::time::timeout(Duration::from_secs(1), projected.changed()).await;
        }
    };
    tokio::select! {
        seen = tokio::time::timeout(PATIENCE, seen) => {
            seen.unwrap_or_else(|_| Err(format!("waited {} s for {what}", PATIENCE.as_secs())))
        }
        () = app.stopped() => Err("the server stops".into()),
    }
}

async fn wait_for_writes(app: &App, load: &Load, least: u64) -> Result<u64, String> {
    let flowing = async {
        while load.counts().0 < least {
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
        load.counts().0
    };
    tokio::select! {
        count = tokio::time::timeout(PATIENCE, flowing) => {
            count.map_err(|_| format!("no write was acknowledged for {} s", PATIENCE.as_secs()))
        }
        () = app.stopped() => Err("the server stops".into()),
    }
}

fn failed_task(snapshot: &Snapshot) -> Option<String> {
    let failed = snapshot.tasks.iter().find(|task| task.state == TaskState::Failed)?;
    Some(failed.error.clone().unwrap_or_else(|| format!("{} failed", failed.kind)))
}

fn watched(snapshot: &Snapshot) -> Option<&ObjectView> {
    snapshot.objects.iter().find(|object| object.name == VOLUME).map(AsRef::as_ref)
}

fn healthy(snapshot: &Snapshot) -> bool {
    watched(snapshot).is_some_and(|object| object.health == ObjectHealth::Healthy)
}

/// The host of the last complete copy.
fn victim(snapshot: &Snapshot) -> Option<String> {
    let leaves = watched(snapshot)?.tree.leaves();
    let copies = leaves.iter().filter(|(leaf, witness)| !witness && leaf.state == ComponentState::Active);
    copies.map(|(leaf, _)| leaf.host.clone()).next_back()
}

async fn power(app: &App, actor: &Actor, cluster: &Cluster, host: &str, fault: Fault) -> Result<(), String> {
    let inject = Intent::InjectFault { target: FaultTarget::Host(host.to_owned()), fault };
    intent::apply(app, actor, cluster, inject).await.map(|_| ()).map_err(words)
}

/// A run that was cut off may have left a host off.
async fn all_hosts_on(app: &App, actor: &Actor, cluster: &Cluster) -> Result<(), String> {
    let snapshot = cluster.snapshot().await.map_err(words)?;
    for host in snapshot.hosts.iter().filter(|host| host.state == HostState::Absent) {
        power(app, actor, cluster, &host.name, Fault::PowerOn).await?;
    }
    Ok(())
}

async fn make_volume(app: &App, actor: &Actor, cluster: &Cluster) -> Result<(), String> {
    if watched(&*cluster.snapshot().await.map_err(words)?).is_some() {
        return Ok(());
    }
    volumes::create(app, actor, cluster, VOLUME, VOLUME_BYTES, None).await.map(|_| ()).map_err(words)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::sample;

    #[test]
    fn the_victim_holds_a_complete_copy() {
        let mut snapshot = sample::snapshot();
        assert_eq!(victim(&snapshot), None);
        let mut object = sample::healthy_object(5, VOLUME);
        object.name = VOLUME.into();
        snapshot.objects.push(Arc::new(object));
        assert_eq!(victim(&snapshot).as_deref(), Some("h4"));
        assert!(healthy(&snapshot));
    }
}
