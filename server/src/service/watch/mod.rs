//! Watch it lose a host: a volume of a lab under numbered writes, one host switched off and on again, every acknowledged
//! write read back at the end.
//!
//! The numbers are counted at the client's side of the NBD socket, so they say what a client sees, not what the engine
//! believes. The course of a run is in [`Phase`]; each phase ends on a condition, never on a time alone.
mod course;
mod ledger;
mod load;

use crate::app::{App, Cluster};
use crate::error::AppError;
use crate::service::auth::Actor;
use crate::service::draft::Draft;
use crate::service::{cluster, draft, lab, plan};
use model::units::Timestamp;
use std::collections::VecDeque;
use std::sync::{Arc, Mutex, PoisonError};

/// Name of the volume that is written to.
pub const VOLUME: &str = "watched";
/// Seconds of I/O that the page shows.
const SAMPLES_MAX: usize = 150;

/// Where a run is. The arrows, all of them: each phase to the next one, and every phase but the last two to `Failed`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub enum Phase {
    /// No run yet.
    #[default]
    Idle,
    /// The cluster is being made.
    MakingCluster,
    /// The volume is being made.
    MakingVolume,
    /// Writes flow, all is well.
    Steady,
    /// A host is off; writes go on.
    HostOff,
    /// The host is on again; what it missed is copied.
    Returning,
    /// Writes have stopped; every block is read back.
    Verifying,
    /// All was read back.
    Done,
    /// It could not be carried through; `error` says why.
    Failed,
}

impl Phase {
    /// Whether a run is under way.
    pub fn is_running(self) -> bool {
        !matches!(self, Self::Idle | Self::Done | Self::Failed)
    }
}

/// One second of I/O.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Sample {
    /// End of the second.
    pub time: Timestamp,
    /// Writes acknowledged in it.
    pub writes: u64,
    /// Longest wait for an acknowledgement, microseconds.
    pub latency_us_max: u64,
}

/// Something that happened in the run.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Mark {
    /// When.
    pub time: Timestamp,
    /// The phase that began.
    pub phase: Phase,
    /// One sentence.
    pub text: String,
}

/// What reading back showed.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Outcome {
    /// Acknowledged writes.
    pub acknowledged: u64,
    /// Blocks that were read back; each holds the last of its writes.
    pub blocks_read: u64,
    /// Of these, blocks that hold an older write than the acknowledged one.
    pub lost: u64,
    /// Blocks that hold bytes nobody wrote.
    pub foreign: u64,
}

/// All that the page shows.
#[derive(Clone, Debug, Default)]
pub struct Report {
    /// Where the run is.
    pub phase: Phase,
    /// The host that is lost.
    pub host: Option<String>,
    /// Writes acknowledged so far.
    pub acknowledged: u64,
    /// Writes answered with an error so far.
    pub failed: u64,
    /// The last seconds.
    pub samples: VecDeque<Sample>,
    /// What happened, oldest first.
    pub marks: Vec<Mark>,
    /// Blocks read back so far, of all.
    pub verified: (u64, u64),
    /// The end.
    pub outcome: Option<Outcome>,
    /// Why it failed.
    pub error: Option<String>,
}

/// The latest run, shared by its tasks and the pages.
#[derive(Clone, Default)]
pub struct Watch(Arc<Mutex<Report>>);

impl Watch {
    fn with<T>(&self, change: impl FnOnce(&mut Report) -> T) -> T {
        change(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// The report now.
    pub fn report(&self) -> Report {
        self.with(|report| report.clone())
    }

    /// Begins a run unless one is under way.
    fn begin(&self, phase: Phase, now: Timestamp, text: &str) -> Result<(), AppError> {
        self.with(|report| {
            if report.phase.is_running() {
                return Err(AppError::Conflict("a run is under way; watch it to its end".into()));
            }
            let mark = Mark { time: now, phase, text: text.to_owned() };
            *report = Report { phase, marks: vec![mark], ..Report::default() };
            Ok(())
        })
    }

    fn enter(&self, phase: Phase, now: Timestamp, text: impl Into<String>) {
        self.with(|report| {
            report.phase = phase;
            report.marks.push(Mark { time: now, phase, text: text.into() });
        });
    }

    fn sample(&self, sample: Sample, acknowledged: u64, failed: u64) {
        self.with(|report| {
            report.samples.push_back(sample);
            while report.samples.len() > SAMPLES_MAX {
                report.samples.pop_front();
            }
            report.acknowledged = acknowledged;
            report.failed = failed;
        });
    }
}

/// The one click of the first screen: plans the lab, makes the cluster, and begins a run.
///
/// # Errors
/// [`AppError::Conflict`] when there is a cluster already, a run is under way, or there is no room.
pub async fn start_lab(app: &App, actor: &Actor, cluster: &Arc<Cluster>) -> Result<(), AppError> {
    app.watch.begin(Phase::MakingCluster, app.clock.now(), "The lab is being made")?;
    let made = make_lab(app, actor, cluster).await;
    if let Err(error) = &made {
        app.watch.with(|report| *report = Report { error: Some(error.to_string()), ..Report::default() });
        return made;
    }
    tokio::spawn(course::run(app.clone(), actor.clone(), cluster.clone()));
    Ok(())
}

async fn make_lab(app: &App, actor: &Actor, cluster: &Cluster) -> Result<(), AppError> {
    lab::plan(app, actor, cluster, None, &lab::one_click()).await?;
    let claim = |draft: &mut Draft| {
        if draft.name.is_empty() {
            draft.name = "lab".into();
        }
        draft.claims = plan::recommended_claims(draft);
        Ok(())
    };
    draft::change_unconfigured(app, actor, cluster, None, claim).await?;
    cluster::configure(app, actor, cluster, None, &cluster::Configure::default()).await?;
    Ok(())
}

/// Begins a run on a cluster that is there.
///
/// # Errors
/// [`AppError::Conflict`] when a run is under way or there is no cluster; [`AppError::NotYet`] where no fault can be made.
pub async fn start(app: &App, actor: &Actor, cluster: &Arc<Cluster>) -> Result<(), AppError> {
    if !cluster.engine.capabilities().can("faults") {
        return Err(AppError::NotYet("only a lab may be broken on purpose".into()));
    }
    crate::service::volumes::ready(cluster).await?;
    app.watch.begin(Phase::MakingVolume, app.clock.now(), "The run begins")?;
    tokio::spawn(course::run(app.clone(), actor.clone(), cluster.clone()));
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_run_at_a_time() {
        let watch = Watch::default();
        watch.begin(Phase::MakingVolume, Timestamp(0), "one").unwrap();
        assert!(watch.begin(Phase::MakingVolume, Timestamp(1), "two").is_err());
        watch.enter(Phase::Done, Timestamp(2), "end");
        watch.begin(Phase::MakingVolume, Timestamp(3), "three").unwrap();
        assert_eq!(watch.report().marks.len(), 1);
    }

    #[test]
    fn samples_do_not_grow_without_end() {
        let watch = Watch::default();
        for second in 0..1000 {
            watch.sample(Sample { time: Timestamp(second), writes: 1, latency_us_max: 1 }, 1, 0);
        }
        assert_eq!(watch.report().samples.len(), SAMPLES_MAX);
    }
}
