//! How fast resyncs may go together, and how many bytes they have moved.
use crate::obj::Pace;
use std::cell::Cell;
use std::rc::Rc;
use std::time::Duration;
use tokio::time::Instant;

/// The shared limit. Clones share it.
#[derive(Clone, Default)]
pub struct ResyncPace(Rc<Inner>);

#[derive(Default)]
struct Inner {
    limit_bytes_per_second: Cell<Option<u64>>,
    /// When the bytes that were granted so far are used up at the present limit.
    free_at: Cell<Option<Instant>>,
    moved_bytes: Cell<u64>,
}

impl ResyncPace {
    /// Sets the limit; `None` lifts it. What waits already keeps its turn.
    pub fn set_limit(&self, limit_bytes_per_second: Option<u64>) {
        self.0.limit_bytes_per_second.set(limit_bytes_per_second);
        self.0.free_at.set(None);
    }

    /// The limit.
    pub fn limit(&self) -> Option<u64> {
        self.0.limit_bytes_per_second.get()
    }

    /// Bytes looked at since the start.
    pub fn moved_bytes(&self) -> u64 {
        self.0.moved_bytes.get()
    }
}

impl Pace for ResyncPace {
    async fn take(&self, bytes: u64) {
        self.0.moved_bytes.set(self.0.moved_bytes.get() + bytes);
        let Some(limit) = self.limit() else { return };
        let now = Instant::now();
        let turn = self.0.free_at.get().map_or(now, |free| free.max(now));
        let cost = Duration::from_secs_f64(bytes as f64 / limit.max(1) as f64);
        self.0.free_at.set(Some(turn + cost));
        tokio::time::sleep_until(turn).await;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn all_takers_together_keep_the_limit() {
        let pace = ResyncPace::default();
        pace.set_limit(Some(1 << 20));
        let begin = Instant::now();
        let takers = (0..4).map(|_| async {
            for _ in 0..5 {
                pace.take(1 << 19).await;
            }
        });
        futures_util::future::join_all(takers).await;
        let seconds = begin.elapsed().as_secs_f64();
        assert!((9.0..=10.5).contains(&seconds), "10 MiB at 1 MiB/s took {seconds} s");
        assert_eq!(pace.moved_bytes(), 10 << 20);
    }
}
