//! Time and randomness: the two things that come from outside. Everything else takes them as parameters.
use model::ids::TaskId;
use model::units::Timestamp;

/// Wall clock.
pub trait Clock: Send + Sync + 'static {
    /// Now.
    fn now(&self) -> Timestamp;
}

/// Source of unpredictable bytes.
pub trait Rng: Send + Sync + 'static {
    /// Fills `buffer`.
    fn fill(&self, buffer: &mut [u8]);
}

impl dyn Rng {
    /// `N` unpredictable bytes.
    pub fn bytes<const N: usize>(&self) -> [u8; N] {
        let mut buffer = [0; N];
        self.fill(&mut buffer);
        buffer
    }

    /// A task id: UUIDv7, so that ids sort by time.
    pub fn task_id(&self, now: Timestamp) -> TaskId {
        let millis = u64::try_from(now.0).unwrap_or_default();
        TaskId(uuid::Builder::from_unix_timestamp_millis(millis, &self.bytes()).into_uuid())
    }
}

/// The clock of the machine.
pub struct SystemClock;

impl Clock for SystemClock {
    #[allow(clippy::disallowed_methods, reason = "this is the edge where time comes in")]
    fn now(&self) -> Timestamp {
        let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
        Timestamp(i64::try_from(since.as_millis()).unwrap_or(i64::MAX))
    }
}

/// The random generator of the operating system.
pub struct SystemRng;

impl Rng for SystemRng {
    fn fill(&self, buffer: &mut [u8]) {
        getrandom::fill(buffer).expect("the operating system gives random bytes");
    }
}

/// RFC 3339 in UTC, milliseconds.
pub fn rfc3339(time: Timestamp) -> String {
    match jiff::Timestamp::from_millisecond(time.0) {
        Ok(time) => format!("{time:.3}"),
        Err(_) => String::new(),
    }
}

/// Reads RFC 3339.
pub fn parse_rfc3339(text: &str) -> Option<Timestamp> {
    text.parse::<jiff::Timestamp>().ok().map(|time| Timestamp(time.as_millisecond()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_read_back() {
        let time = Timestamp(1_796_047_863_042);
        assert_eq!(rfc3339(time), "2026-11-30T14:11:03.042Z");
        assert_eq!(parse_rfc3339(&rfc3339(time)), Some(time));
        assert_eq!(parse_rfc3339("yesterday"), None);
    }

    #[test]
    fn task_ids_sort_by_time() {
        let rng: &dyn Rng = &SystemRng;
        assert!(rng.task_id(Timestamp(1_000)) < rng.task_id(Timestamp(1_001)));
    }
}
