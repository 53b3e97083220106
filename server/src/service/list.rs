//! Paging of lists that are held in memory, with the same cursors as those of the projections.
use crate::db::views::query::{ListError, Page, Window, cursor, read_cursor};
use crate::error::AppError;

/// Turns a failed list into what the person is told.
pub fn failed(error: ListError) -> AppError {
    match error {
        ListError::Cursor(error) => AppError::field("after", error.to_string()),
        ListError::Db(error) => error.into(),
    }
}

/// The window of a request.
///
/// # Errors
/// [`AppError::Invalid`] when `limit` is not 1 to 1000.
pub fn window(limit: Option<u32>, after: Option<String>) -> Result<Window, AppError> {
    let limit = limit.unwrap_or(100);
    if (1..=1000).contains(&limit) {
        Ok(Window { after, limit })
    } else {
        Err(AppError::field("limit", "1 to 1000"))
    }
}

/// One page of `items`, which are in order; `id` is unique among them.
///
/// # Errors
/// [`AppError::Invalid`] for a foreign cursor, or one of an item that is gone.
pub fn page<T>(items: Vec<T>, window: &Window, id: impl Fn(&T) -> String) -> Result<Page<T>, AppError> {
    let skip = match &window.after {
        None => 0,
        Some(after) => {
            let (key, last) = read_cursor(after).map_err(|error| failed(error.into()))?;
            let place = items.iter().position(|item| id(item) == last);
            // When the last item of the page before is gone, its old place is the best answer.
            place.map_or_else(
                || key.as_i64().and_then(|key| usize::try_from(key).ok()).unwrap_or(0),
                |place| place + 1,
            )
        }
    };
    let total = items.len();
    let items: Vec<T> = items.into_iter().skip(skip).take(window.limit as usize).collect();
    let end = skip + items.len();
    let next = items.last().filter(|_| end < total).map(|last| cursor(&serde_json::json!(end), &id(last)));
    Ok(Page { items, next })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pages_cover_a_list_once() {
        let all: Vec<u32> = (0..7).collect();
        let mut seen = Vec::new();
        let mut after = None;
        loop {
            let window = window(Some(3), after).unwrap();
            let page = page(all.clone(), &window, ToString::to_string).unwrap();
            seen.extend(page.items);
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        assert_eq!(seen, all);
    }

    #[test]
    fn limits_and_cursors_are_checked() {
        assert!(window(Some(0), None).is_err());
        assert!(window(Some(1001), None).is_err());
        let window = window(None, Some("nonsense!".into())).unwrap();
        assert!(page(vec![1], &window, ToString::to_string).is_err());
    }
}
