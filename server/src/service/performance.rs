//! Samples of the engine's counters, and the history made of them.
use crate::app::{App, Cluster};
use crate::db::history::{self, METRICS, Sample};
use crate::error::AppError;
use model::engine::Counters;
use model::units::Timestamp;
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

/// Time between two samples.
const EVERY: Duration = Duration::from_secs(10);
/// Samples are kept for a day, milliseconds.
const KEEP_MS: i64 = 24 * 3600 * 1000;

/// Rates between two readings of the counters of one entity. Counters that fell (a restart) count from zero. Pure.
pub fn rates(entity: &str, before: &Counters, after: &Counters, seconds: f64) -> Sample {
    let grown = |before: u64, after: u64| if after >= before { after - before } else { after };
    let rate = |before, after| grown(before, after) as f64 / seconds;
    let mean = |total: u64, count: u64| (count > 0).then(|| total as f64 / count as f64);
    let (reads, writes) = (grown(before.reads, after.reads), grown(before.writes, after.writes));
    Sample {
        entity: entity.to_owned(),
        read_iops: reads as f64 / seconds,
        write_iops: writes as f64 / seconds,
        read_bytes_per_second: rate(before.read_bytes, after.read_bytes),
        written_bytes_per_second: rate(before.written_bytes, after.written_bytes),
        read_latency_us: mean(grown(before.read_latency_us_total, after.read_latency_us_total), reads),
        write_latency_us: mean(grown(before.write_latency_us_total, after.write_latency_us_total), writes),
        outstanding: after.outstanding as f64,
        resync_bytes_per_second: rate(before.resync_bytes, after.resync_bytes),
    }
}

/// Samples one engine until the server stops.
pub async fn run(app: App, cluster: Arc<Cluster>) {
    let mut before: Option<(Timestamp, BTreeMap<String, Counters>)> = None;
    while !*app.stopping.borrow() {
        match cluster.engine.counters().await {
            Ok(after) => {
                let now = app.clock.now();
                if let Some((then, before)) = &before {
                    let stored = store(&app, &cluster.key, (*then, before), (now, &after)).await;
                    if let Err(error) = stored {
                        tracing::warn!(cause = %error.cause_chain(), "samples were not stored");
                    }
                }
                before = Some((now, after));
            }
            Err(error) => tracing::debug!(%error, "no counters"),
        }
        tokio::select! {
            () = tokio::time::sleep(EVERY) => {}
            () = app.stopped() => return,
        }
    }
}

async fn store(
    app: &App,
    cluster: &str,
    (then, before): (Timestamp, &BTreeMap<String, Counters>),
    (now, after): (Timestamp, &BTreeMap<String, Counters>),
) -> Result<(), AppError> {
    let seconds = (now.0 - then.0) as f64 / 1000.0;
    if seconds <= 0.0 {
        return Ok(());
    }
    let pairs = after.iter().filter_map(|(entity, after)| Some((entity, before.get(entity)?, after)));
    let samples: Vec<Sample> =
        pairs.map(|(entity, before, after)| rates(entity, before, after, seconds)).collect();
    let keep_from = Timestamp(now.0 - KEEP_MS);
    Ok(history::add_samples(&app.console, cluster, now, &samples, keep_from).await?)
}

/// One metric of one entity over time.
#[derive(Clone, Debug, PartialEq)]
pub struct Series {
    /// Unit of the values.
    pub unit: &'static str,
    /// Oldest first.
    pub points: Vec<(Timestamp, f64)>,
}

/// A series. Without `from` it is the last hour; without `to`, until now.
///
/// # Errors
/// [`AppError::Invalid`] on `metric` or `from`.
pub async fn series(
    app: &App,
    cluster: &Cluster,
    entity: &str,
    metric: &str,
    from: Option<Timestamp>,
    to: Option<Timestamp>,
) -> Result<Series, AppError> {
    let Some((_, unit)) = METRICS.iter().find(|(name, _)| *name == metric) else {
        let names: Vec<&str> = METRICS.iter().map(|(name, _)| *name).collect();
        return Err(AppError::field("metric", format!("one of {}", names.join(", "))));
    };
    let is_entity = entity == "cluster"
        || entity.split_once(':').is_some_and(|(kind, _)| ["host", "disk", "volume"].contains(&kind));
    if !is_entity {
        return Err(AppError::field("entity", "cluster, host:NAME, disk:ID or volume:NAME"));
    }
    let to = to.unwrap_or_else(|| app.clock.now());
    let from = from.unwrap_or(Timestamp(to.0 - 3600 * 1000));
    if from > to {
        return Err(AppError::field("from", "before `to`"));
    }
    let points = history::points(&app.console, &cluster.key, entity, metric, from, to).await?;
    Ok(Series { unit, points })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_differences_and_a_restart_is_not_negative() {
        let before =
            Counters { writes: 100, written_bytes: 1000, write_latency_us_total: 500, ..Counters::default() };
        let after =
            Counters { writes: 120, written_bytes: 3000, write_latency_us_total: 900, ..Counters::default() };
        let sample = rates("cluster", &before, &after, 10.0);
        assert_eq!((sample.write_iops, sample.written_bytes_per_second), (2.0, 200.0));
        assert_eq!((sample.write_latency_us, sample.read_latency_us), (Some(20.0), None));
        let restarted = rates("cluster", &after, &before, 10.0);
        assert_eq!(restarted.write_iops, 10.0);
    }
}
