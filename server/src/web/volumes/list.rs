//! `GET /volumes`: one keyset query a page; every filter has a URL.
use crate::app::App;
use crate::db::views::query::{ObjectQuery, ObjectRow, ObjectSort};
use crate::error::AppError;
use crate::http::body::{Asked, InCluster};
use crate::service::{list, volumes};
use crate::web::html;
use crate::web::parts::{self, Chip, Choice, Column, Command, Pager};
use crate::web::shell::{Page, Shell};
use crate::web::view::words;
use crate::web::{format, parts::Tone};
use askama::Template;
use axum::extract::State;
use axum::response::Response;

/// `?q=&state=&sort=&dir=&after=`.
#[derive(Clone, Debug, Default, serde::Deserialize)]
#[serde(default)]
pub struct Query {
    q: String,
    state: String,
    sort: String,
    dir: String,
    after: Option<String>,
}

struct Row {
    name: String,
    chip: Chip,
    size: String,
    size_exact: String,
    used: String,
    policy: String,
    tolerates: Chip,
}

#[derive(Template)]
#[template(path = "volumes/list.html")]
struct ListPage {
    shell: Shell,
    q: String,
    state_value: String,
    choices: Vec<Choice>,
    filtered: bool,
    columns: Vec<Column>,
    rows: Vec<Row>,
    pager: Pager,
    command_list: Vec<Command>,
}

impl Query {
    fn sort(&self) -> ObjectSort {
        match self.sort.as_str() {
            "size" => ObjectSort::Size,
            "used" => ObjectSort::Used,
            _ => ObjectSort::Name,
        }
    }

    fn href(&self, sort: &str, dir: &str, after: Option<&str>) -> String {
        let mut address =
            form_urlencoded(&[("q", &self.q), ("state", &self.state), ("sort", sort), ("dir", dir)]);
        if let Some(after) = after {
            address = format!("{address}&after={after}");
        }
        format!("/volumes?{address}")
    }

    fn column(&self, word: &'static str, sort: &'static str, number: bool) -> Column {
        let now = if self.sort.is_empty() { "name" } else { &self.sort };
        let descending = self.dir == "desc";
        let sorted = match (now == sort, descending) {
            (false, _) => "",
            (true, false) => "ascending",
            (true, true) => "descending",
        };
        let dir = if now == sort && !descending { "desc" } else { "asc" };
        Column { word, href: self.href(sort, dir, None), sorted, number }
    }
}

/// `a=1&b=2`, empty values left out.
fn form_urlencoded(pairs: &[(&str, &str)]) -> String {
    let encode = |text: &str| -> String {
        text.bytes()
            .map(|byte| match byte {
                b'A'..=b'Z' | b'a'..=b'z' | b'0'..=b'9' | b'-' | b'_' | b'.' => char::from(byte).to_string(),
                other => format!("%{other:02X}"),
            })
            .collect()
    };
    let filled = pairs.iter().filter(|(_, value)| !value.is_empty());
    filled.map(|(name, value)| format!("{name}={}", encode(value))).collect::<Vec<_>>().join("&")
}

fn row(row: ObjectRow) -> Row {
    let tolerates = match (row.accessible, row.tolerates_now) {
        (false, _) => Chip::new(Tone::Failed, "unavailable"),
        (true, 0) => Chip::new(Tone::Degraded, "0 failures"),
        (true, number) => Chip::new(Tone::Healthy, format::plural(number.into(), "failure")),
    };
    Row {
        chip: words::health(row.health),
        size: format::bytes(row.size_bytes),
        size_exact: format::exact(row.size_bytes),
        used: format::bytes(row.used_bytes),
        policy: row.policy,
        tolerates,
        name: row.name,
    }
}

/// The list.
///
/// # Errors
/// [`AppError::Invalid`] for a foreign cursor.
pub async fn page(
    State(app): State<App>,
    InCluster(cluster): InCluster,
    page: Page,
    Asked(query): Asked<Query>,
) -> Result<Response, AppError> {
    let health = words::HEALTHS.into_iter().find(|health| words::health_value(*health) == query.state);
    let asked = ObjectQuery {
        health,
        search: Some(query.q.trim().to_owned()).filter(|text| !text.is_empty()),
        sort: query.sort(),
        descending: query.dir == "desc",
        ..ObjectQuery::default()
    };
    let window = list::window(Some(100), query.after.clone())?;
    let found = volumes::page(&app, &cluster, &asked, &window).await?;
    let mut choices = vec![Choice::new("", "any")];
    choices.extend(
        words::HEALTHS.map(|health| Choice::new(words::health_value(health), words::health(health).word)),
    );
    let all = page_total(&app, &cluster.key).await?;
    let shown = found.items.len() as u64;
    let (sort, dir) = (query.sort.as_str(), query.dir.as_str());
    html(&ListPage {
        filtered: health.is_some() || asked.search.is_some() || query.after.is_some(),
        choices,
        columns: vec![
            query.column("Volume", "name", false),
            Column { word: "State", ..Column::default() },
            query.column("Size", "size", true),
            query.column("Written", "used", true),
            Column { word: "Policy", ..Column::default() },
            Column { word: "Survives now", ..Column::default() },
        ],
        pager: Pager {
            text: format!("{shown} of {} shown", format::plural(all, "volume")),
            first: query.after.as_ref().map(|_| query.href(sort, dir, None)),
            next: found.next.as_deref().map(|after| query.href(sort, dir, Some(after))),
        },
        rows: found.items.into_iter().map(row).collect(),
        command_list: parts::commands(&[
            ("this list", "curl -H \"Authorization: Bearer $TOKEN\" $MILLPOND/api/v1/volumes".into()),
            (
                "make one",
                "curl -X POST … $MILLPOND/api/v1/volumes -d '{\"name\":\"db\",\"size_bytes\":10737418240}'"
                    .into(),
            ),
        ]),
        q: query.q,
        state_value: query.state,
        shell: page.shell,
    })
}

async fn page_total(app: &App, cluster: &str) -> Result<u64, AppError> {
    Ok(app.views.health_counts(cluster).await?.iter().map(|(_, count)| count).sum())
}
