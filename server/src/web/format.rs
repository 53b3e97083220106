//! Numbers and times for people. One rule for the whole product: binary units with binary names, three significant digits,
//! thin spaces between thousands; times in UTC with the zone said. Exact values go into titles and the API.
pub use crate::service::format::{count, plural, plural_of, plural_that};
use model::units::Timestamp;

/// `412 GiB`: three significant digits, never `0.00`.
pub fn bytes(bytes: u64) -> String {
    let (number, unit) = bytes_parts(bytes);
    format!("{number} {unit}")
}

/// `("412", "GiB")`, for a figure whose unit is set smaller.
pub fn bytes_parts(bytes: u64) -> (String, &'static str) {
    scaled(bytes, 1024.0, &["B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB"])
}

/// `3.84 TB`: what is printed on a disk.
pub fn label_bytes(bytes: u64) -> String {
    let (number, unit) = scaled(bytes, 1000.0, &["B", "kB", "MB", "GB", "TB", "PB", "EB"]);
    format!("{number} {unit}")
}

/// `105 MiB/s`.
pub fn rate(bytes_per_second: u64) -> String {
    format!("{}/s", bytes(bytes_per_second))
}

/// `1 234 567 bytes`, for titles.
pub fn exact(bytes: u64) -> String {
    format!("{} bytes", count(bytes))
}

#[allow(clippy::cast_precision_loss, reason = "three digits are shown")]
fn scaled(value: u64, step: f64, units: &[&'static str]) -> (String, &'static str) {
    let mut number = value as f64;
    let mut at = 0;
    // 999.5 would be rounded to 1000: it belongs to the next unit.
    while number >= if step > 1000.0 { 1023.5 } else { 999.5 } && at + 1 < units.len() {
        number /= step;
        at += 1;
    }
    let text = if at == 0 || number >= 99.95 {
        format!("{number:.0}")
    } else if number >= 9.995 {
        format!("{number:.1}")
    } else {
        format!("{number:.2}")
    };
    let text =
        if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text };
    (text, units[at])
}

/// Text for the query of an address.
pub fn encoded(text: &str) -> String {
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-_.".contains(&byte);
    text.bytes()
        .map(|byte| if plain(byte) { char::from(byte).to_string() } else { format!("%{byte:02X}") })
        .collect()
}

/// Whole percent of `part` in `whole`, 0 when there is nothing; never 100 before all is there, never 0 when something is.
pub fn percent(part: u64, whole: u64) -> u8 {
    if whole == 0 || part == 0 {
        return 0;
    }
    if part >= whole {
        return 100;
    }
    let exact = u128::from(part) * 100 / u128::from(whole);
    u8::try_from(exact).unwrap_or(99).clamp(1, 99)
}

/// Share of `part` in `whole` with two digits, for the width of a bar.
#[allow(clippy::cast_precision_loss, reason = "a width on the screen")]
pub fn width(part: u64, whole: u64) -> f64 {
    if whole == 0 { 0.0 } else { (part as f64 / whole as f64 * 10_000.0).round() / 100.0 }
}

/// `40 s`, `12 min`, `1 h 5 min`, `3 days`.
pub fn duration(seconds: u64) -> String {
    match seconds {
        0..90 => format!("{seconds} s"),
        90..5_400 => format!("{} min", (seconds + 30) / 60),
        5_400..172_800 => {
            let (hours, minutes) = (seconds / 3600, seconds % 3600 / 60);
            if minutes == 0 { format!("{hours} h") } else { format!("{hours} h {minutes} min") }
        }
        _ => format!("{} days", seconds / 86_400),
    }
}

/// A range of durations; one value when both read the same.
pub fn duration_range(low_seconds: u64, high_seconds: u64) -> String {
    let (low, high) = (duration(low_seconds), duration(high_seconds));
    if low == high { low } else { format!("{low} to {high}") }
}

/// One moment in all the ways a page shows it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct When {
    /// RFC 3339 in UTC.
    pub iso: String,
    /// `30 Nov 2026, 14:02:11 UTC`.
    pub full: String,
    /// `14:02` today, else the day.
    pub clock: String,
    /// `4 s ago`, `in 48 min`; the day when it is further away.
    pub relative: String,
}

/// Describes `time` as seen at `now`.
pub fn when(time: Timestamp, now: Timestamp) -> When {
    let Ok(moment) = jiff::Timestamp::from_millisecond(time.0) else {
        return When::default();
    };
    let utc = moment.to_zoned_datetime(jiff::tz::TimeZone::UTC);
    let away_seconds = (now.0 - time.0) / 1000;
    let day = utc.strftime("%-d %b %Y").to_string();
    let near = away_seconds.unsigned_abs() < 86_400;
    let relative = match away_seconds {
        _ if !near => day.clone(),
        0..2 => "now".to_owned(),
        2.. => format!("{} ago", duration(away_seconds.unsigned_abs())),
        _ => format!("in {}", duration(away_seconds.unsigned_abs())),
    };
    When {
        iso: moment.to_string(),
        full: utc.strftime("%-d %b %Y, %H:%M:%S UTC").to_string(),
        clock: if near { utc.strftime("%H:%M:%S").to_string() } else { day },
        relative,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bytes_have_three_digits_and_never_read_zero() {
        for (value, text) in [
            (0, "0 B"),
            (1, "1 B"),
            (1023, "1023 B"),
            (1024, "1 KiB"),
            (1 << 20, "1 MiB"),
            ((1 << 20) + 1, "1 MiB"),
            (1_536 << 20, "1.5 GiB"),
            (412 << 30, "412 GiB"),
            (1023 << 30, "1023 GiB"),
            ((1 << 40) - 1, "1 TiB"),
            (3_840_755_982_336, "3.49 TiB"),
            (u64::MAX, "16 EiB"),
        ] {
            assert_eq!(bytes(value), text, "{value}");
        }
        assert_eq!(label_bytes(3_840_755_982_336), "3.84 TB");
        assert_eq!(label_bytes(999_999), "1 MB");
    }

    #[test]
    fn percent_says_all_only_when_it_is_all() {
        assert_eq!(percent(0, 10), 0);
        assert_eq!(percent(1, 100_000), 1);
        assert_eq!(percent(99_999, 100_000), 99);
        assert_eq!(percent(5, 5), 100);
        assert_eq!(percent(1, 0), 0);
        assert_eq!(percent(u64::MAX - 1, u64::MAX), 99);
    }

    #[test]
    fn durations_read_well() {
        for (seconds, text) in [
            (0, "0 s"),
            (89, "89 s"),
            (90, "2 min"),
            (3_600, "60 min"),
            (5_400, "1 h 30 min"),
            (7_200, "2 h"),
            (200_000, "2 days"),
        ] {
            assert_eq!(duration(seconds), text);
        }
        assert_eq!(duration_range(600, 610), "10 min");
    }

    #[test]
    fn times_are_relative_near_now() {
        let now = Timestamp(1_796_047_863_000);
        assert_eq!(when(now, now).relative, "now");
        assert_eq!(when(Timestamp(now.0 - 12_000), now).relative, "12 s ago");
        assert_eq!(when(now.plus_seconds(2_880), now).relative, "in 48 min");
        assert_eq!(when(Timestamp(now.0 - 200_000_000), now).relative, "28 Nov 2026");
        assert_eq!(when(now, now).full, "30 Nov 2026, 14:11:03 UTC");
    }
}
