//! Waiting on conditions. The limits are generous: they end a hung test, they do not measure anything.
use std::time::Duration;

/// How often a condition is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(50);
/// Looks before a test gives up: three minutes.
const LOOKS_MAX: u32 = 3600;

/// Waits until `condition` answers `Some`; panics with `what` after three minutes.
pub fn until<T>(what: &str, condition: impl FnMut() -> Option<T>) -> T {
    within(LOOKS_MAX, what, condition)
}

/// Like [`until`], with another number of looks (20 a second).
pub fn within<T>(looks: u32, what: &str, mut condition: impl FnMut() -> Option<T>) -> T {
    for _ in 0..looks {
        if let Some(value) = condition() {
            return value;
        }
        pause();
    }
    panic!("waited in vain for: {what}");
}

#[allow(clippy::disallowed_methods, reason = "the pause between two looks at a condition")]
fn pause() {
    std::thread::sleep(LOOK_EVERY);
}
