//! The history of events.
use crate::app::{App, Cluster};
use crate::db::history::{self, EventFilter, PastEvent};
use crate::db::views::query::{Page, Window, cursor, read_cursor};
use crate::error::AppError;
use crate::service::list;

/// A page of events, newest first.
///
/// # Errors
/// [`AppError::Invalid`] for a foreign cursor.
pub async fn page(
    app: &App,
    cluster: &Cluster,
    filter: &EventFilter,
    window: &Window,
) -> Result<Page<PastEvent>, AppError> {
    let before = match &window.after {
        Some(after) => read_cursor(after).map_err(|error| list::failed(error.into()))?.0.as_i64(),
        None => None,
    };
    let limit = i64::from(window.limit);
    let mut items = history::event_page(&app.console, &cluster.key, filter, before, limit + 1).await?;
    let more = items.len() > window.limit as usize;
    items.truncate(window.limit as usize);
    let next = items.last().filter(|_| more).map(|event| cursor(&event.id.into(), &event.id.to_string()));
    Ok(Page { items, next })
}
