//! `/watch`: a run of "watch it lose a host", live.
use crate::app::{App, Cluster};
use crate::error::AppError;
use crate::http::auth::Operator;
use crate::http::body::InCluster;
use crate::http::render;
use crate::service::watch::{self, Phase, Report, VOLUME};
use crate::web::parts::{self, Chip, Command, Explain, Happening, Tone};
use crate::web::shell::{Page, Shell};
use crate::web::view::map::{self, DomainBox};
use crate::web::view::plot::{self, Plot, Unit};
use crate::web::view::{explain, placement, words};
use crate::web::{format, html};
use askama::Template;
use axum::extract::State;
use axum::http::HeaderMap;
use axum::response::Response;
use model::units::Timestamp;
use std::collections::BTreeMap;

struct StepMark {
    word: &'static str,
    done: bool,
    now: bool,
}

struct Verdict {
    tone: Tone,
    title: String,
    detail: String,
}

#[derive(Template)]
#[template(path = "watch.html", blocks = ["live"])]
struct WatchPage {
    shell: Shell,
    volume: &'static str,
    running: bool,
    seen: bool,
    may_start: bool,
    why_not: String,
    error: Option<String>,
    step: String,
    phase_chip: Chip,
    steps: Vec<StepMark>,
    verdict: Option<Verdict>,
    acknowledged: String,
    failed_words: String,
    rate: String,
    latency_words: String,
    volume_chip: Chip,
    volume_words: String,
    verified: String,
    verified_words: String,
    chart: Plot,
    span: String,
    banner: Option<Explain>,
    boxes: Vec<DomainBox>,
    legend: Vec<Chip>,
    history: Vec<Happening>,
    command_list: Vec<Command>,
}

const STEPS: [(Phase, &str); 7] = [
    (Phase::MakingCluster, "Make the cluster"),
    (Phase::MakingVolume, "Make a volume"),
    (Phase::Steady, "Write"),
    (Phase::HostOff, "Lose a host"),
    (Phase::Returning, "It returns"),
    (Phase::Verifying, "Read everything back"),
    (Phase::Done, "Result"),
];

fn tone(phase: Phase) -> Tone {
    match phase {
        Phase::Idle => Tone::Maint,
        Phase::HostOff => Tone::Absent,
        Phase::Steady | Phase::Done => Tone::Healthy,
        Phase::MakingCluster | Phase::MakingVolume | Phase::Returning | Phase::Verifying => Tone::Rebuilding,
        Phase::Failed => Tone::Failed,
    }
}

fn verdict(report: &Report) -> Option<Verdict> {
    let outcome = report.outcome.filter(|_| report.phase == Phase::Done)?;
    let wrong = outcome.lost + outcome.foreign;
    let (acknowledged, blocks) = (format::count(outcome.acknowledged), format::count(outcome.blocks_read));
    Some(Verdict {
        tone: if wrong == 0 { Tone::Healthy } else { Tone::Failed },
        title: format!("{} of {acknowledged} acknowledged writes lost", format::count(wrong)),
        detail: format!(
            "{blocks} blocks were read back, each was compared byte for byte with the last write acknowledged for it. {} of them \
             held older data, {} held bytes that nobody wrote. {} writes were answered with an error.",
            format::count(outcome.lost),
            format::count(outcome.foreign),
            format::count(report.failed)
        ),
    })
}

/// Seconds that the chart spans while a run is under way.
const SPAN_SECONDS: usize = 60;

/// The line of I/O: a sample a second.
fn chart(report: &Report) -> Plot {
    let most = report.samples.iter().map(|sample| sample.writes).max().unwrap_or(0);
    let top = Unit::PerSecond.top(most as f64);
    let least = if report.phase.is_running() { SPAN_SECONDS } else { 2 };
    let seconds = report.samples.len().max(least) - 1;
    let share = |index: usize| index as f64 / seconds as f64;
    let points: Vec<(f64, Option<f64>)> = report
        .samples
        .iter()
        .enumerate()
        .map(|(index, sample)| (share(index), Some(sample.writes as f64 / top)))
        .collect();
    let moment = |phase| {
        let mark = report.marks.iter().find(|mark| mark.phase == phase)?;
        report.samples.iter().position(|sample| sample.time >= mark.time).map(share)
    };
    let (off, on) = (moment(Phase::HostOff), moment(Phase::Returning));
    let now = points.last().map_or(1.0, |point| point.0);
    let band = off.map(|off| (plot::percent(off), plot::percent(on.unwrap_or(now) - off)));
    let words = [(off, "host off"), (on, "host on again")];
    let ends = [(0.0, "0 s".to_owned()), (1.0, format!("{seconds} s"))];
    let last = report.samples.back().map_or(0, |sample| sample.writes);
    let fewest = report.samples.iter().skip(1).map(|sample| sample.writes).min().unwrap_or(0);
    Plot {
        caption: format!(
            "Acknowledged writes a second: now {last}, least {fewest}, most {most} over {}.",
            format::plural(report.samples.len() as u64, "second")
        ),
        y: plot::axis(Unit::PerSecond, top),
        x: ends.into_iter().map(|(share, word)| plot::mark(share, word)).collect(),
        marks: words.into_iter().filter_map(|(at, word)| Some(plot::mark(at?, word))).collect(),
        band,
        traces: vec![plot::trace("Writes", "a", &points, true)],
    }
}

async fn build(
    app: &App,
    cluster: &Cluster,
    shell: Shell,
    may: bool,
    now: Timestamp,
) -> Result<WatchPage, AppError> {
    let report = app.watch.report();
    let snapshot = cluster.snapshot().await?;
    let object = snapshot.objects.iter().find(|object| object.name == VOLUME);
    let faults = cluster.engine.capabilities().can("faults");
    let ready = snapshot.cluster.state == model::state::ClusterState::Ready;
    let last = report.samples.back();
    let seen = !matches!(report.phase, Phase::Idle);
    let history = report.marks.iter().rev().map(|mark| Happening {
        when: format::when(mark.time, now),
        tone: tone(mark.phase),
        text: mark.text.clone(),
        detail: String::new(),
    });
    let tags = object.map(|object| placement::tags(object)).unwrap_or_default();
    Ok(WatchPage {
        volume: VOLUME,
        running: report.phase.is_running(),
        seen,
        may_start: may && faults && ready,
        why_not: match (faults, ready) {
            (false, _) => "Only a lab may be broken on purpose.".into(),
            (_, false) => "There is no cluster yet.".into(),
            _ => "It needs the role operator.".into(),
        },
        error: report.error.clone().filter(|_| !report.phase.is_running()),
        step: report.marks.last().map(|mark| mark.text.clone()).unwrap_or_default(),
        phase_chip: Chip::new(tone(report.phase), phase_word(report.phase)),
        steps: STEPS
            .iter()
            .filter(|(phase, _)| *phase != Phase::MakingCluster || report.marks.iter().any(|mark| mark.phase == *phase))
            .map(|(phase, word)| StepMark { word, done: *phase < report.phase, now: *phase == report.phase })
            .collect(),
        verdict: verdict(&report),
        acknowledged: format::count(report.acknowledged),
        failed_words: format!("{} answered with an error.", format::count(report.failed)),
        rate: last.map_or_else(|| "0".into(), |sample| format::count(sample.writes)),
        latency_words: last.map_or_else(String::new, |sample| {
            format!("Longest wait {} ms.", format::count(sample.latency_us_max.div_ceil(1000)))
        }),
        volume_chip: object.map_or_else(|| Chip::new(Tone::Maint, "Not made yet"), |object| words::health(object.health)),
        volume_words: object.map_or_else(String::new, |object| {
            format!("Data {}, {}.", if object.accessible { "available" } else { "not available" }, words::tolerates(object, "host").word)
        }),
        verified: format::count(report.verified.0),
        verified_words: if report.verified.1 == 0 {
            "At the end every block is read back.".into()
        } else {
            format!("of {} blocks.", format::count(report.verified.1))
        },
        span: match (report.samples.len() as u64, report.phase.is_running()) {
            (0, _) => "Writing begins when the volume is there.".into(),
            (seconds, true) => format!("{} so far", format::plural(seconds, "second")),
            (seconds, false) => format!("over {}", format::plural(seconds, "second")),
        },
        chart: chart(&report),
        banner: object.filter(|_| report.phase.is_running()).map(|object| explain::explain(&snapshot, object, now)),
        boxes: map::domains(&snapshot, if tags.is_empty() { &EMPTY } else { &tags }, false, now),
        legend: map::legend(),
        history: history.collect(),
        command_list: parts::commands(&[
            ("switch a host off", "curl -X POST … $MILLPOND/api/v1/lab/faults -d '{\"target\":\"host:h1\",\"fault\":\"power-off\"}'".into()),
            ("and on again", "curl -X POST … $MILLPOND/api/v1/lab/faults -d '{\"target\":\"host:h1\",\"fault\":\"power-on\"}'".into()),
        ]),
        shell,
    })
}

static EMPTY: BTreeMap<model::ids::DiskId, Vec<map::Tag>> = BTreeMap::new();

fn phase_word(phase: Phase) -> &'static str {
    STEPS.iter().find(|(known, _)| *known == phase).map_or("Ready", |(_, word)| word)
}

/// `GET /watch`.
///
/// # Errors
/// [`AppError::Unavailable`].
pub async fn page(
    State(app): State<App>,
    InCluster(cluster): InCluster,
    page: Page,
) -> Result<Response, AppError> {
    let may = page.shell.role != "viewer";
    let shell = page.shell.live_on(&["watch".into()]);
    html(&build(&app, &cluster, shell, may, page.now).await?)
}

/// `POST /watch`: begins a run.
///
/// # Errors
/// [`AppError::Conflict`], [`AppError::NotYet`].
pub async fn start(
    user: Operator,
    State(app): State<App>,
    InCluster(cluster): InCluster,
    headers: HeaderMap,
) -> Result<Response, AppError> {
    watch::start(&app, &user.0, &cluster).await?;
    Ok(render::go_to(&headers, "/watch"))
}

/// The live part of the page.
///
/// # Errors
/// [`AppError::Unavailable`].
pub async fn live(app: &App, cluster: &Cluster) -> Result<String, AppError> {
    let filled = build(app, cluster, Shell::default(), true, app.clock.now()).await?;
    crate::web::live::partials([("watch", filled.as_live().render())])
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::service::watch::{Mark, Outcome, Sample};

    fn report(lost: u64) -> Report {
        Report {
            phase: Phase::Done,
            samples: (0..10)
                .map(|second| Sample { time: Timestamp(second * 1000), writes: 100, latency_us_max: 900 })
                .collect(),
            marks: vec![Mark { time: Timestamp(4000), phase: Phase::HostOff, text: "off".into() }],
            outcome: Some(Outcome { acknowledged: 12_345, blocks_read: 8_000, lost, foreign: 0 }),
            ..Report::default()
        }
    }

    #[test]
    fn the_verdict_is_green_only_when_nothing_is_lost() {
        let good = verdict(&report(0)).unwrap();
        assert_eq!(good.tone, Tone::Healthy);
        assert!(good.title.starts_with("0 of 12"), "{}", good.title);
        assert_eq!(verdict(&report(1)).unwrap().tone, Tone::Failed);
        assert!(verdict(&Report { phase: Phase::Verifying, ..report(0) }).is_none());
    }

    #[test]
    fn the_chart_marks_the_loss() {
        let chart = chart(&report(0));
        let words: Vec<&str> = chart.marks.iter().map(|mark| mark.word.as_str()).collect();
        assert_eq!(words, ["host off"]);
        assert_eq!(chart.marks[0].x, "44.44%", "the fifth of ten samples");
        assert_eq!(chart.band, Some(("44.44%".into(), "55.56%".into())), "it is still away at the end");
        assert!(chart.traces[0].path.starts_with("M0.0 4.0 L"), "{}", chart.traces[0].path);
        assert!(chart.caption.contains("least 100"), "{}", chart.caption);
    }

    #[test]
    fn a_chart_without_samples_is_empty() {
        let chart = chart(&Report::default());
        assert_eq!((chart.traces[0].path.as_str(), chart.marks.len()), ("", 0));
    }
}
