//! `/performance`: I/O, throughput and latency of the cluster, a host, a disk or a volume over time.
//!
//! The server draws each chart and its table; with script uPlot draws it anew from the same samples and follows the stream.
use crate::app::{App, Cluster};
use crate::edge::rfc3339;
use crate::error::AppError;
use crate::http::auth::CurrentUser;
use crate::http::body::{Asked, InCluster};
use crate::service::performance;
use crate::web::parts::{self, Choice, Command, Tab};
use crate::web::shell::{Page, Shell};
use crate::web::view::plot::{self, Plot, Unit};
use crate::web::{format, html};
use askama::Template;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use model::units::Timestamp;
use model::view::Snapshot;

/// Points of a chart that the server draws.
const DRAWN: usize = 180;
/// Rows of its table.
const ROWS: usize = 60;

/// Stretches of time that can be looked at: word, name in the address, milliseconds.
const RANGES: [(&str, &str, i64); 4] = [
    ("15 min", "15m", 15 * 60_000),
    ("1 h", "1h", 3_600_000),
    ("6 h", "6h", 6 * 3_600_000),
    ("24 h", "24h", 24 * 3_600_000),
];

struct Metric {
    name: &'static str,
    word: &'static str,
}

struct Kind {
    id: &'static str,
    title: &'static str,
    unit: Unit,
    metrics: [Metric; 2],
}

const fn metric(name: &'static str, word: &'static str) -> Metric {
    Metric { name, word }
}

/// The charts.
const KINDS: [Kind; 3] = [
    Kind {
        id: "iops",
        title: "I/O a second",
        unit: Unit::PerSecond,
        metrics: [metric("write_iops", "Writes"), metric("read_iops", "Reads")],
    },
    Kind {
        id: "throughput",
        title: "Throughput",
        unit: Unit::BytesPerSecond,
        metrics: [metric("written_bytes_per_second", "Written"), metric("read_bytes_per_second", "Read")],
    },
    Kind {
        id: "latency",
        title: "Mean latency",
        unit: Unit::Microseconds,
        metrics: [metric("write_latency_us", "Writes"), metric("read_latency_us", "Reads")],
    },
];

/// One row of a chart's table.
pub struct Row {
    pub(super) time: String,
    pub(super) values: Vec<String>,
}

/// A chart with its sentence, its table and its file.
pub struct Figure {
    pub(super) id: &'static str,
    pub(super) title: &'static str,
    pub(super) unit: &'static str,
    pub(super) metrics: String,
    pub(super) url: String,
    pub(super) csv: String,
    pub(super) from_ms: i64,
    pub(super) to_ms: i64,
    pub(super) plot: Plot,
    pub(super) rows: Vec<Row>,
}

type Points = Vec<(Timestamp, f64)>;

/// Means of `count` equal stretches of time; `None` where nothing was measured. Pure.
fn means(points: &Points, from: Timestamp, to: Timestamp, count: usize) -> Vec<Option<f64>> {
    let mut sums = vec![(0.0, 0_u32); count];
    let span = (to.0 - from.0).max(1);
    for (time, value) in points.iter().filter(|(time, _)| (from..=to).contains(time)) {
        let share = (time.0 - from.0) as u128 * count as u128 / span as u128;
        let at = usize::try_from(share).unwrap_or(usize::MAX).min(count - 1);
        sums[at].0 += value;
        sums[at].1 += 1;
    }
    sums.into_iter().map(|(sum, number)| (number > 0).then(|| sum / f64::from(number))).collect()
}

/// The chart in one sentence.
fn caption(kind: &Kind, both: &[Points], range: &str) -> String {
    let one = |(metric, points): (&Metric, &Points)| {
        let word = metric.word.to_lowercase();
        let Some((_, last)) = points.last() else { return format!("no {word}") };
        let least = points.iter().map(|point| point.1).fold(f64::INFINITY, f64::min);
        let most = points.iter().map(|point| point.1).fold(0.0, f64::max);
        let (last, least, most) = (kind.unit.words(*last), kind.unit.words(least), kind.unit.words(most));
        if least == most {
            format!("{word} {last}")
        } else {
            format!("{word} {last}, between {least} and {most}")
        }
    };
    if both.iter().all(Vec::is_empty) {
        return format!("Nothing was measured in the last {range}.");
    }
    let said: Vec<String> = kind.metrics.iter().zip(both).map(one).collect();
    format!("Last {range}: now {}.", said.join("; "))
}

fn figure(kind: &Kind, both: &[Points], entity: &str, range: &(&str, &str, i64), now: Timestamp) -> Figure {
    let (from, to) = (Timestamp(now.0 - range.2), now);
    let most = both.iter().flatten().map(|point| point.1).fold(0.0, f64::max);
    let top = kind.unit.top(most);
    let share = |at: usize| (at as f64 + 0.5) / DRAWN as f64;
    let trace = |(place, points): (usize, &Points)| {
        let means = means(points, from, to, DRAWN);
        let places = means.iter().enumerate().map(|(at, mean)| (share(at), mean.map(|mean| mean / top)));
        let class = if place == 0 { "a" } else { "b" };
        plot::trace(kind.metrics[place].word, class, &places.collect::<Vec<_>>(), place == 0)
    };
    let columns: Vec<Vec<Option<f64>>> = both.iter().map(|points| means(points, from, to, ROWS)).collect();
    let row = |at: usize| {
        let value = |column: &Vec<Option<f64>>| column[at].map(|mean| kind.unit.words(mean));
        let values: Vec<Option<String>> = columns.iter().map(value).collect();
        let time = Timestamp(from.0 + range.2 * at as i64 / ROWS as i64);
        values.iter().any(Option::is_some).then(|| Row {
            time: format::when(time, now).clock,
            values: values.into_iter().map(|value| value.unwrap_or_else(|| "–".into())).collect(),
        })
    };
    Figure {
        id: kind.id,
        title: kind.title,
        unit: match kind.unit {
            Unit::PerSecond => "per-second",
            Unit::BytesPerSecond => "bytes",
            Unit::Microseconds => "microseconds",
        },
        metrics: kind.metrics.iter().map(|metric| metric.name).collect::<Vec<_>>().join(","),
        url: format!("/api/v1/performance?entity={}", format::encoded(entity)),
        csv: format!("/performance.csv?entity={}&range={}", format::encoded(entity), range.1),
        from_ms: from.0,
        to_ms: to.0,
        plot: Plot {
            caption: caption(kind, both, range.0),
            y: plot::axis(kind.unit, top),
            x: plot::times(from, to),
            marks: Vec::new(),
            band: None,
            traces: both.iter().enumerate().map(trace).collect(),
        },
        rows: (0..ROWS).rev().filter_map(row).collect(),
    }
}

fn range_of(name: &str) -> &'static (&'static str, &'static str, i64) {
    RANGES.iter().find(|range| range.1 == name).unwrap_or(&RANGES[1])
}

/// The three charts of one entity over the named range (an hour when there is none of that name).
///
/// # Errors
/// [`AppError::Invalid`] for an entity that there cannot be.
pub async fn figures(
    app: &App,
    cluster: &Cluster,
    entity: &str,
    range: &str,
    now: Timestamp,
) -> Result<Vec<Figure>, AppError> {
    let range = range_of(range);
    let from = Timestamp(now.0 - range.2);
    let mut figures = Vec::new();
    for kind in &KINDS {
        let mut both = Vec::new();
        for metric in &kind.metrics {
            let series =
                performance::series(app, cluster, entity, metric.name, Some(from), Some(now)).await?;
            both.push(series.points);
        }
        figures.push(figure(kind, &both, entity, range, now));
    }
    Ok(figures)
}

/// Query of the page: what, and how long.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub struct Query {
    entity: String,
    range: String,
}

impl Query {
    fn entity(&self) -> &str {
        if self.entity.is_empty() { "cluster" } else { &self.entity }
    }
}

#[derive(Template)]
#[template(path = "performance.html")]
struct PerformancePage {
    shell: Shell,
    entity: String,
    range: String,
    choices: Vec<Choice>,
    tabs: Vec<Tab>,
    figures: Vec<Figure>,
    command_list: Vec<Command>,
}

fn choices(snapshot: &Snapshot) -> Vec<Choice> {
    let hosts =
        snapshot.hosts.iter().map(|host| (format!("host:{}", host.name), format!("Host {}", host.name)));
    let volumes = snapshot
        .objects
        .iter()
        .map(|object| (format!("volume:{}", object.name), format!("Volume {}", object.name)));
    let disks = snapshot
        .disks
        .iter()
        .filter(|disk| disk.role != model::state::DiskRole::None)
        .map(|disk| (format!("disk:{}", disk.id), format!("Disk {}", disk.name)));
    let all = [("cluster".to_owned(), "The whole cluster".to_owned())].into_iter();
    all.chain(hosts)
        .chain(volumes.take(200))
        .chain(disks.take(200))
        .map(|(value, word)| Choice::new(value, word))
        .collect()
}

/// `GET /performance`.
///
/// # Errors
/// [`AppError::Invalid`] for an entity that there cannot be; [`AppError::Unavailable`].
pub async fn page(
    State(app): State<App>,
    InCluster(cluster): InCluster,
    page: Page,
    Asked(query): Asked<Query>,
) -> Result<Response, AppError> {
    let (entity, range) = (query.entity().to_owned(), range_of(&query.range));
    let snapshot = cluster.snapshot().await?;
    let tab = |known: &(&'static str, &'static str, i64)| {
        let href = format!("/performance?entity={}&range={}", format::encoded(&entity), known.1);
        Tab { word: known.0.to_owned(), href, current: known.1 == range.1 }
    };
    let figures = figures(&app, &cluster, &entity, range.1, page.now).await?;
    let mut choices = choices(&snapshot);
    if !choices.iter().any(|choice| choice.value == entity) {
        choices.push(Choice::new(entity.clone(), entity.clone()));
    }
    html(&PerformancePage {
        shell: page.shell.live_on(&[topic(range.1, &entity)]),
        tabs: RANGES.iter().map(tab).collect(),
        choices,
        figures,
        command_list: parts::commands(&[(
            "one metric over time",
            format!(
                "curl -H \"Authorization: Bearer $TOKEN\" \"$MILLPOND/api/v1/performance?entity={}&metric=write_iops\"",
                format::encoded(&entity)
            ),
        )]),
        range: range.1.to_owned(),
        entity,
    })
}

/// Name of the live topic of an entity.
pub fn topic(range: &str, entity: &str) -> String {
    format!("performance:{range}:{entity}")
}

/// The live part: the sentences, and the time of the newest sample, on which the charts fetch what is new.
///
/// # Errors
/// [`AppError::Invalid`] for an entity that there cannot be.
pub async fn live(app: &App, cluster: &Cluster, range: &str, entity: &str) -> Result<String, AppError> {
    let now = app.clock.now();
    let mut blocks = String::new();
    for figure in figures(app, cluster, entity, range, now).await? {
        let part = Sentence { id: figure.id, text: figure.plot.caption };
        blocks.push_str(&part.render().map_err(AppError::internal)?);
    }
    let from = Some(Timestamp(now.0 - 120_000));
    let outstanding = performance::series(app, cluster, entity, "outstanding", from, Some(now)).await?;
    if let Some((time, _)) = outstanding.points.last() {
        let part = Newest { time_ms: time.0, iso: rfc3339(*time) };
        blocks.push_str(&part.render().map_err(AppError::internal)?);
    }
    Ok(blocks)
}

#[derive(Template)]
#[template(
    source = r##"<hx-partial hx-target="#caption-{{ id }}" hx-swap="innerHTML">{{ text }}</hx-partial>"##,
    ext = "html"
)]
struct Sentence {
    id: &'static str,
    text: String,
}

#[derive(Template)]
#[template(
    source = r##"<hx-partial hx-target="#newest-sample" hx-swap="innerHTML"><span data-sample="{{ time_ms }}">Sampled every 10 s, last <time datetime="{{ iso }}" data-ago>now</time></span></hx-partial>"##,
    ext = "html"
)]
struct Newest {
    time_ms: i64,
    iso: String,
}

/// `GET /performance.csv`: all samples of the range.
///
/// # Errors
/// [`AppError::Invalid`].
pub async fn export(
    _: CurrentUser,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Asked(query): Asked<Query>,
) -> Result<Response, AppError> {
    let now = app.clock.now();
    let from = Timestamp(now.0 - range_of(&query.range).2);
    let mut text = String::from("time,metric,value\r\n");
    for metric in KINDS.iter().flat_map(|kind| &kind.metrics) {
        let series =
            performance::series(&app, &cluster, query.entity(), metric.name, Some(from), Some(now)).await?;
        for (time, value) in series.points {
            text.push_str(&format!("{},{},{value}\r\n", rfc3339(time), metric.name));
        }
    }
    let name = "attachment; filename=\"performance.csv\"";
    let headers = [(header::CONTENT_TYPE, "text/csv; charset=utf-8"), (header::CONTENT_DISPOSITION, name)];
    Ok((headers, text).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::db::history::{Sample, add_samples};
    use crate::web::sample;
    use crate::web::testing::{Console, shows};

    #[test]
    fn means_are_of_their_stretch_and_silence_is_not_zero() {
        let points =
            vec![(Timestamp(0), 2.0), (Timestamp(100), 4.0), (Timestamp(1000), 6.0), (Timestamp(5000), 9.0)];
        assert_eq!(means(&points, Timestamp(0), Timestamp(1000), 4), [Some(3.0), None, None, Some(6.0)]);
    }

    #[tokio::test]
    async fn charts_have_a_sentence_a_table_and_a_file() {
        let console = Console::sample().await;
        shows(&console.get("/performance").await, &["Nothing was measured in the last 1 h."]);
        for minute in 0..30 {
            let time = Timestamp(sample::NOW.0 - 60_000 * (30 - minute));
            let write_iops = 100.0 + minute as f64;
            let sample = Sample { entity: "cluster".into(), write_iops, ..Sample::default() };
            add_samples(&console.app.console, crate::app::NATIVE, time, &[sample], Timestamp(0))
                .await
                .unwrap();
        }
        let page = console.get("/performance").await;
        shows(
            &page,
            &[
                "now writes 129, between 100 and 129",
                "<td class=\"num\">129</td>",
                "data-metrics=\"write_iops,read_iops\"",
            ],
        );
        shows(&console.get("/").await, &["now writes 129"]);
        let (status, csv) = console.get("/performance.csv?range=15m").await;
        assert_eq!(status, 200);
        assert_eq!(csv.lines().filter(|line| line.contains(",write_iops,")).count(), 15, "{csv}");
        assert_eq!(console.get("/performance?entity=moon").await.0, 422);
    }
}
