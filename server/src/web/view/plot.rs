//! Lines over time as SVG, drawn on the server. Pure: points in, paths and labels out.
//!
//! Paths live in a box of 1000 × 100 that is stretched to the width there is; words are placed in percent and keep their size.
use crate::web::format;
use model::units::Timestamp;

/// Width of the box of paths.
const WIDTH: f64 = 1000.0;
/// Height of it.
const HEIGHT: f64 = 100.0;
/// Share of the height that the highest point may take, so that a line never touches the edge.
const HEADROOM: f64 = 0.96;

/// One line.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Trace {
    /// Name in the legend.
    pub name: String,
    /// `a` or `b`: colour and dash.
    pub class: &'static str,
    /// The line.
    pub path: String,
    /// What lies below it; empty for a second line.
    pub area: String,
}

/// A word at a place of the time axis, or a line through the plot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Mark {
    /// Percent of the width.
    pub x: String,
    /// `start`, `middle`, `end`: how the word lies to it.
    pub anchor: &'static str,
    /// The word.
    pub word: String,
}

/// A plot.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct Plot {
    /// What it shows, in one sentence.
    pub caption: String,
    /// Words of the value axis, highest first, evenly spaced.
    pub y: Vec<String>,
    /// Words of the time axis.
    pub x: Vec<Mark>,
    /// Moments.
    pub marks: Vec<Mark>,
    /// A stretch of time that is shaded: from, width, percent.
    pub band: Option<(String, String)>,
    /// Lines.
    pub traces: Vec<Trace>,
}

/// How values are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    /// A number each second.
    PerSecond,
    /// Bytes each second.
    BytesPerSecond,
    /// Microseconds, written as milliseconds.
    Microseconds,
}

impl Unit {
    /// A value in words.
    #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "three digits are shown")]
    pub fn words(self, value: f64) -> String {
        match self {
            Self::PerSecond if value < 9.95 => trimmed(value, 1),
            Self::PerSecond => format::count(value.round() as u64),
            Self::BytesPerSecond => format::rate(value.round() as u64),
            Self::Microseconds => {
                format!("{} ms", trimmed(value / 1000.0, if value < 9_950.0 { 2 } else { 0 }))
            }
        }
    }

    /// The end of the axis: the next round number above `most`.
    pub fn top(self, most: f64) -> f64 {
        let base = if self == Self::BytesPerSecond { 1024.0_f64 } else { 1000.0 };
        let mut unit = 1.0;
        while unit * base <= most {
            unit *= base;
        }
        let steps =
            [1.0, 2.0, 4.0, 5.0, 8.0, 10.0, 20.0, 40.0, 50.0, 80.0, 100.0, 200.0, 400.0, 500.0, 800.0, base];
        steps.iter().map(|step| step * unit).find(|top| *top >= most).unwrap_or(base * unit).max(1.0)
    }
}

fn trimmed(value: f64, digits: usize) -> String {
    let text = format!("{value:.digits$}");
    if text.contains('.') { text.trim_end_matches('0').trim_end_matches('.').to_owned() } else { text }
}

/// Percent with two digits.
pub fn percent(share: f64) -> String {
    format!("{}%", trimmed(share.clamp(0.0, 1.0) * 100.0, 2))
}

/// A word at `share` of the time axis, turned so that it stays inside.
pub fn mark(share: f64, word: impl Into<String>) -> Mark {
    let anchor = match share {
        ..0.04 => "start",
        0.96.. => "end",
        _ => "middle",
    };
    Mark { x: percent(share), anchor, word: word.into() }
}

/// A line through points given as shares of width and height (0 below). A point without a value interrupts it.
pub fn trace(name: &str, class: &'static str, points: &[(f64, Option<f64>)], filled: bool) -> Trace {
    let place = |x: f64, y: f64| {
        let (x, y) = (x.clamp(0.0, 1.0) * WIDTH, HEIGHT - y.clamp(0.0, 1.0) * HEIGHT * HEADROOM);
        (format!("{x:.1}"), format!("{y:.1}"))
    };
    let (mut path, mut area) = (String::new(), String::new());
    for run in points.split(|(_, value)| value.is_none()).filter(|run| !run.is_empty()) {
        let placed: Vec<_> = run.iter().filter_map(|(x, y)| y.map(|y| place(*x, y))).collect();
        let line: Vec<String> = placed.iter().map(|(x, y)| format!("{x} {y}")).collect();
        // A lone point is drawn as a dot: a line of no length with round ends.
        let line = if line.len() == 1 { format!("{0} L{0}", line[0]) } else { line.join(" L") };
        path.push_str(&format!("M{line}"));
        if let (true, Some(first), Some(last)) = (filled, placed.first(), placed.last()) {
            area.push_str(&format!("M{line} L{} {HEIGHT} L{} {HEIGHT} Z", last.0, first.0));
        }
    }
    Trace { name: name.into(), class, path, area }
}

/// Words of a value axis: top, middle, zero.
pub fn axis(unit: Unit, top: f64) -> Vec<String> {
    vec![unit.words(top), unit.words(top / 2.0), "0".into()]
}

/// Words of a time axis between two moments: five, in UTC.
pub fn times(from: Timestamp, to: Timestamp) -> Vec<Mark> {
    const PARTS: i64 = 4;
    let at = |part: i64| Timestamp(from.0 + (to.0 - from.0) * part / PARTS);
    let clock = |time: Timestamp| {
        let moment = jiff::Timestamp::from_millisecond(time.0).unwrap_or_default();
        moment.to_zoned_datetime(jiff::tz::TimeZone::UTC).strftime("%H:%M").to_string()
    };
    (0..=PARTS).map(|part| mark(part as f64 / PARTS as f64, clock(at(part)))).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_axis_ends_at_a_round_number_above_everything() {
        for (unit, most, top) in [
            (Unit::PerSecond, 0.0, 1.0),
            (Unit::PerSecond, 328.0, 400.0),
            (Unit::PerSecond, 999.5, 1000.0),
            (Unit::PerSecond, 1001.0, 2000.0),
            (Unit::BytesPerSecond, 3.0 * 1024.0 * 1024.0, 4.0 * 1024.0 * 1024.0),
            (Unit::BytesPerSecond, 1020.0, 1024.0),
            (Unit::Microseconds, 41_000.0, 50_000.0),
        ] {
            assert_eq!(unit.top(most), top, "{unit:?} {most}");
        }
        assert_eq!(Unit::Microseconds.words(2_400.0), "2.4 ms");
        assert_eq!(Unit::Microseconds.words(41_000.0), "41 ms");
        assert_eq!(Unit::PerSecond.words(0.5), "0.5");
        assert_eq!(Unit::BytesPerSecond.words(4_194_304.0), "4 MiB/s");
    }

    #[test]
    fn a_line_is_interrupted_where_there_is_no_value() {
        let points = [(0.0, Some(0.0)), (0.5, Some(1.0)), (0.6, None), (1.0, Some(0.5))];
        let line = trace("writes", "a", &points, true);
        assert_eq!(line.path, "M0.0 100.0 L500.0 4.0M1000.0 52.0 L1000.0 52.0");
        assert!(line.area.starts_with("M0.0 100.0 L500.0 4.0 L500.0 100 L0.0 100 Z"), "{}", line.area);
        assert_eq!(trace("x", "a", &[], true).path, "");
        let outside = trace("x", "a", &[(2.0, Some(9.0))], false);
        assert!(outside.path.starts_with("M1000.0 4.0"), "{}", outside.path);
    }

    #[test]
    fn words_stay_inside() {
        assert_eq!(
            (mark(0.0, "a").anchor, mark(0.5, "b").anchor, mark(1.0, "c").anchor),
            ("start", "middle", "end")
        );
        assert_eq!(percent(1.0 / 3.0), "33.33%");
        let words: Vec<String> =
            times(Timestamp(0), Timestamp(3_600_000)).into_iter().map(|mark| mark.word).collect();
        assert_eq!(words, ["00:00", "00:15", "00:30", "00:45", "01:00"]);
    }
}
