//! What moves, how fast, and until when.
use crate::app::{App, Cluster};
use crate::db::views::query::{Page, Window};
use crate::error::AppError;
use crate::service::auth::Actor;
use crate::service::{intent, list, volumes};
use model::engine::Intent;
use model::ids::ObjectId;
use model::state::ResyncState;
use model::view::{ResyncItem, ResyncView};

/// The smallest limit, bytes a second: below it a rebuild would not end.
const LIMIT_MIN: u64 = 4096;

/// All of it at once.
#[derive(Clone, Debug)]
pub struct Resync {
    /// As the engine reports it.
    pub view: ResyncView,
    /// Bytes left of all items.
    pub bytes_left: u64,
    /// Seconds to the end at the present rates; `None` without a rate.
    pub eta_seconds: Option<u64>,
}

/// Bytes that an item has left.
pub fn bytes_left(item: &ResyncItem) -> u64 {
    item.bytes_total.saturating_sub(item.bytes_done)
}

/// Seconds that an item has left at its present rate.
pub fn eta_seconds(item: &ResyncItem) -> Option<u64> {
    let rate = item.bytes_per_second.filter(|rate| *rate > 0)?;
    (item.state == ResyncState::Active).then(|| bytes_left(item).div_ceil(rate))
}

/// 0..=100.
pub fn progress_percent(item: &ResyncItem) -> u8 {
    if item.bytes_total == 0 {
        return 100;
    }
    let percent = u128::from(item.bytes_done.min(item.bytes_total)) * 100 / u128::from(item.bytes_total);
    u8::try_from(percent).unwrap_or(100)
}

/// Sums up what an engine reports. Pure.
pub fn of(view: ResyncView) -> Resync {
    let bytes_left = view.items.iter().map(bytes_left).sum::<u64>();
    let rate: u64 = view.items.iter().filter_map(|item| item.bytes_per_second).sum();
    let eta_seconds = (rate > 0 && bytes_left > 0).then(|| bytes_left.div_ceil(rate.max(1)));
    Resync { view, bytes_left, eta_seconds }
}

/// What moves now.
///
/// # Errors
/// [`AppError::Unavailable`].
pub async fn now(cluster: &Cluster) -> Result<Resync, AppError> {
    Ok(of(cluster.snapshot().await?.resync.clone()))
}

/// A page of items from the projections.
///
/// # Errors
/// [`AppError::Invalid`] for a foreign cursor.
pub async fn page(app: &App, cluster: &Cluster, window: &Window) -> Result<Page<ResyncItem>, AppError> {
    app.views.resync(&cluster.key, window).await.map_err(list::failed)
}

/// Limits resync; `None` lifts the limit.
///
/// # Errors
/// [`AppError::Invalid`].
pub async fn set_limit(
    app: &App,
    actor: &Actor,
    cluster: &Cluster,
    limit: Option<u64>,
) -> Result<(), AppError> {
    if limit.is_some_and(|limit| limit < LIMIT_MIN) {
        return Err(AppError::field("limit_bytes_per_second", "at least 4096, or null for no limit"));
    }
    volumes::ready(cluster).await?;
    let set = Intent::SetResyncLimit { limit_bytes_per_second: limit };
    intent::apply(app, actor, cluster, set).await.map(|_| ())
}

/// Repairs what is absent without waiting for the timer.
///
/// # Errors
/// [`AppError::Conflict`] without a cluster.
pub async fn repair_now(
    app: &App,
    actor: &Actor,
    cluster: &Cluster,
    object: Option<ObjectId>,
) -> Result<intent::Outcome, AppError> {
    volumes::ready(cluster).await?;
    let outcome = intent::apply(app, actor, cluster, Intent::RepairNow { object }).await?;
    volumes::finished_at_once(app, actor, cluster, &outcome, "repair-now", "cluster").await?;
    Ok(outcome)
}

/// Reads and verifies every byte in the background.
///
/// # Errors
/// [`AppError::Conflict`] without a cluster; [`AppError::NotYet`].
pub async fn scrub(app: &App, actor: &Actor, cluster: &Cluster) -> Result<intent::Outcome, AppError> {
    volumes::ready(cluster).await?;
    let outcome = intent::apply(app, actor, cluster, Intent::Scrub).await?;
    volumes::finished_at_once(app, actor, cluster, &outcome, "scrub", "cluster").await?;
    Ok(outcome)
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::ids::ComponentId;
    use model::state::ResyncReason;
    use model::units::Timestamp;

    fn item(total: u64, done: u64, rate: Option<u64>) -> ResyncItem {
        ResyncItem {
            object: ObjectId::from_random([1; 16]),
            object_name: "db".into(),
            component: ComponentId::from_random([2; 16]),
            run: 1,
            reason: ResyncReason::Repair,
            state: ResyncState::Active,
            from: "h1".into(),
            to: "h2".into(),
            bytes_total: total,
            bytes_done: done,
            bytes_per_second: rate,
            started_at: Timestamp(0),
        }
    }

    #[test]
    fn progress_never_exceeds_a_hundred_or_divides_by_nothing() {
        assert_eq!(progress_percent(&item(0, 0, None)), 100);
        assert_eq!(progress_percent(&item(u64::MAX, u64::MAX - 1, None)), 99);
        assert_eq!(progress_percent(&item(10, 11, None)), 100);
        assert_eq!(bytes_left(&item(10, 11, None)), 0);
    }

    #[test]
    fn an_end_is_only_promised_with_a_rate() {
        assert_eq!(eta_seconds(&item(100, 0, None)), None);
        assert_eq!(eta_seconds(&item(100, 0, Some(0))), None);
        assert_eq!(eta_seconds(&item(100, 1, Some(10))), Some(10));
    }
}
