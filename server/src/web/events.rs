//! `/events`: what happened, newest first, by severity and subject; `/events.csv` the same for a spreadsheet.
use crate::app::{App, Cluster};
use crate::db::history::{EventFilter, PastEvent};
use crate::edge::rfc3339;
use crate::error::AppError;
use crate::http::body::{Asked, InCluster};
use crate::service::{events, list};
use crate::web::format::{self, When};
use crate::web::html;
use crate::web::parts::{self, Choice, Command, Pager, Tone};
use crate::web::shell::{Page, Shell};
use askama::Template;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use model::state::Severity;
use model::units::Timestamp;
use model::view::Snapshot;

/// Rows of an export, at most.
const EXPORT_MAX: usize = 10_000;

/// `?severity=&subject=&after=`.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub struct Query {
    severity: String,
    subject: String,
    after: Option<String>,
}

struct Row {
    when: When,
    tone: Tone,
    severity: &'static str,
    subject: String,
    subject_raw: String,
    href: String,
    text: String,
    user: String,
}

#[derive(Template)]
#[template(path = "events.html")]
struct EventsPage {
    shell: Shell,
    severity: String,
    subject: String,
    choices: Vec<Choice>,
    filtered: bool,
    rows: Vec<Row>,
    pager: Pager,
    export: String,
    command_list: Vec<Command>,
}

fn severity_word(severity: Severity) -> &'static str {
    match severity {
        Severity::Info => "info",
        Severity::Warning => "warning",
        Severity::Error => "error",
    }
}

impl Query {
    fn filter(&self) -> EventFilter {
        let severity = [Severity::Info, Severity::Warning, Severity::Error];
        EventFilter {
            severity: severity.into_iter().find(|severity| severity_word(*severity) == self.severity),
            subject: Some(self.subject.trim().to_owned()).filter(|subject| !subject.is_empty()),
            kind: None,
        }
    }

    fn href(&self, page: &str, after: Option<&str>) -> String {
        let after = after.map(|after| format!("&after={}", format::encoded(after))).unwrap_or_default();
        format!(
            "{page}?severity={}&subject={}{after}",
            format::encoded(&self.severity),
            format::encoded(self.subject.trim())
        )
    }
}

/// Name and page of what an event is about.
fn about(snapshot: &Snapshot, subject: &str) -> (String, String) {
    match subject.split_once(':') {
        Some(("policy", name)) => (name.to_owned(), format!("/policies/{name}")),
        Some(("user", name)) => (name.to_owned(), format!("/people/users/{name}")),
        Some(("token", name)) => (format!("token {name}"), "/people".to_owned()),
        Some(("fault-domain", name)) => (name.to_owned(), "/fault-domains".to_owned()),
        Some(("host", name)) => (name.to_owned(), format!("/hosts/{name}")),
        Some(("disk", id)) => {
            let disk = snapshot.disks.iter().find(|disk| disk.id.to_string() == id);
            disk.map_or_else(
                || (subject.to_owned(), String::new()),
                |disk| (disk.name.clone(), format!("/disks/{id}")),
            )
        }
        Some(("object" | "volume", id)) => {
            let object =
                snapshot.objects.iter().find(|object| object.uuid.to_string() == id || object.name == id);
            object.map_or_else(
                || (subject.to_owned(), String::new()),
                |object| (object.name.clone(), format!("/volumes/{}", object.name)),
            )
        }
        _ => (subject.to_owned(), String::new()),
    }
}

fn row(snapshot: &Snapshot, event: &PastEvent, now: Timestamp) -> Row {
    let (subject, href) = about(snapshot, &event.subject);
    Row {
        when: format::when(event.time, now),
        tone: parts::event_tone(event.severity, &event.kind),
        severity: severity_word(event.severity),
        subject,
        subject_raw: format::encoded(&event.subject),
        href,
        text: event.text.clone(),
        user: event.user.clone().unwrap_or_default(),
    }
}

/// `GET /events`.
///
/// # Errors
/// [`AppError::Invalid`] for a foreign cursor.
pub async fn page(
    State(app): State<App>,
    InCluster(cluster): InCluster,
    page: Page,
    Asked(query): Asked<Query>,
) -> Result<Response, AppError> {
    let window = list::window(Some(100), query.after.clone())?;
    let found = events::page(&app, &cluster, &query.filter(), &window).await?;
    let snapshot = cluster.snapshot().await?;
    let command = format!(
        "curl -H \"Authorization: Bearer $TOKEN\" \"$MILLPOND{}\"",
        query.href("/api/v1/events", None)
    );
    html(&EventsPage {
        choices: vec![
            Choice::new("", "any"),
            Choice::new("info", "info"),
            Choice::new("warning", "warning"),
            Choice::new("error", "error"),
        ],
        filtered: !query.severity.is_empty() || !query.subject.trim().is_empty(),
        rows: found.items.iter().map(|event| row(&snapshot, event, page.now)).collect(),
        pager: Pager {
            text: format!(
                "{}, newest first, times in UTC",
                format::plural(found.items.len() as u64, "event")
            ),
            first: query.after.as_ref().map(|_| query.href("/events", None)),
            next: found.next.as_deref().map(|after| query.href("/events", Some(after))),
        },
        export: query.href("/events.csv", None),
        command_list: parts::commands(&[("this list", command)]),
        severity: query.severity,
        subject: query.subject,
        shell: page.shell,
    })
}

/// A field of a CSV file. A spreadsheet would run what begins with = + - @ or a control character as a formula: such text
/// gets a leading apostrophe.
fn csv_field(text: &str) -> String {
    let runs = text.trim_start().starts_with(['=', '+', '-', '@']) || text.starts_with(['\t', '\r', '\n']);
    let text = if runs { format!("'{text}") } else { text.to_owned() };
    if text.contains(['"', ',', '\n', '\r']) { format!("\"{}\"", text.replace('"', "\"\"")) } else { text }
}

async fn export_text(app: &App, cluster: &Cluster, query: &Query) -> Result<String, AppError> {
    let mut text = String::from("time,severity,kind,subject,text,user\r\n");
    let (mut after, mut rows) = (None, 0);
    while rows < EXPORT_MAX {
        let found = events::page(app, cluster, &query.filter(), &list::window(Some(1000), after)?).await?;
        for event in &found.items {
            let fields = [
                rfc3339(event.time),
                severity_word(event.severity).to_owned(),
                event.kind.clone(),
                event.subject.clone(),
                event.text.clone(),
                event.user.clone().unwrap_or_default(),
            ];
            let line: Vec<String> = fields.iter().map(|field| csv_field(field)).collect();
            text.push_str(&line.join(","));
            text.push_str("\r\n");
        }
        rows += found.items.len();
        after = found.next;
        if after.is_none() {
            break;
        }
    }
    Ok(text)
}

/// `GET /events.csv`: the filter, not the page.
///
/// # Errors
/// [`AppError::Internal`].
pub async fn export(
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Asked(query): Asked<Query>,
) -> Result<Response, AppError> {
    let text = export_text(&app, &cluster, &query).await?;
    let headers = [
        (header::CONTENT_TYPE, "text/csv; charset=utf-8"),
        (header::CONTENT_DISPOSITION, "attachment; filename=\"millpond-events.csv\""),
    ];
    Ok((headers, text).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::sample;
    use crate::web::testing::{Console, shows};
    use model::view::Event;

    fn event(seq: u64, severity: Severity, subject: &str, text: &str) -> Event {
        let time = Timestamp(sample::NOW.0 - 1000 * i64::try_from(seq).unwrap());
        Event { seq, time, severity, kind: "host-absent".into(), subject: subject.into(), text: text.into() }
    }

    #[test]
    fn a_spreadsheet_runs_nothing() {
        for (text, field) in [
            ("plain", "plain"),
            ("=1+1", "'=1+1"),
            ("+cmd", "'+cmd"),
            ("-2", "'-2"),
            ("@x", "'@x"),
            ("  =x", "'  =x"),
            ("\tx", "'\tx"),
            ("a,\"b\"", "\"a,\"\"b\"\"\""),
            ("=a,b", "\"'=a,b\""),
        ] {
            assert_eq!(csv_field(text), field);
        }
    }

    #[tokio::test]
    async fn events_are_filtered_paged_and_exported() {
        let console = Console::sample().await;
        let mut list: Vec<Event> =
            (0..130).map(|seq| event(seq, Severity::Info, "cluster", "tick")).collect();
        list.push(event(131, Severity::Warning, "host:h3", "=h3 <b>stopped</b> answering"));
        console.add_events(&list).await;
        let first = console.get("/events").await;
        shows(&first, &["/hosts/h3", "&#60;b&#62;stopped", "rel=\"next\""]);
        let next = first.1.split("href=\"").find(|part| part.contains("rel=\"next\"")).unwrap();
        let next = next.split('"').next().unwrap().replace("&#38;", "&");
        shows(&console.get(&next).await, &["31 events", "First page"]);
        let warnings = console.get("/events?severity=warning").await;
        shows(&warnings, &["1 event"]);
        assert!(!warnings.1.contains(">tick<"));
        shows(&console.get("/events?subject=host:h9").await, &["Nothing matches"]);
        let (_, csv) = console.get("/events.csv?severity=warning").await;
        assert!(csv.contains(",warning,host-absent,host:h3,'=h3 <b>stopped</b> answering,\r\n"), "{csv}");
        assert_eq!(console.get("/events.csv").await.1.lines().count(), 132);
    }
}
