//! `/search`: hosts, disks, volumes and objects by a part of their name or by id. One match leads there at once.
use crate::app::App;
use crate::db::views::query::ObjectQuery;
use crate::error::AppError;
use crate::http::body::{Asked, InCluster};
use crate::http::render;
use crate::service::{list, volumes};
use crate::web::format;
use crate::web::html;
use crate::web::parts::Chip;
use crate::web::shell::{Page, Shell};
use crate::web::view::words;
use askama::Template;
use axum::extract::State;
use axum::response::Response;

/// Most rows of one kind.
const ROWS_MAX: u32 = 50;

struct Hit {
    kind: &'static str,
    name: String,
    href: String,
    chip: Chip,
    note: String,
}

#[derive(Template)]
#[template(path = "search.html")]
struct SearchPage {
    shell: Shell,
    q: String,
    hits: Vec<Hit>,
}

/// `?q=`.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub struct Query {
    q: String,
}

/// `GET /search`.
///
/// # Errors
/// [`AppError::Unavailable`].
pub async fn page(
    State(app): State<App>,
    InCluster(cluster): InCluster,
    page: Page,
    Asked(query): Asked<Query>,
) -> Result<Response, AppError> {
    let q = query.q.trim().to_owned();
    let snapshot = cluster.snapshot().await?;
    let matches = |text: &str| text.to_lowercase().contains(&q.to_lowercase());
    let mut hits = Vec::new();
    if !q.is_empty() {
        let by_id =
            snapshot.objects.iter().find(|object| object.uuid.to_string().starts_with(&q) && q.len() >= 8);
        let asked = ObjectQuery { search: Some(q.clone()), ..ObjectQuery::default() };
        let found = volumes::page(&app, &cluster, &asked, &list::window(Some(ROWS_MAX), None)?).await?;
        let names = by_id.map(|object| (object.name.clone(), object.health)).into_iter();
        let names = names.chain(found.items.into_iter().map(|row| (row.name, row.health)));
        hits.extend(names.map(|(name, health)| Hit {
            kind: "volume",
            href: format!("/volumes/{name}"),
            chip: words::health(health),
            note: String::new(),
            name,
        }));
        hits.extend(snapshot.hosts.iter().filter(|host| matches(&host.name)).take(ROWS_MAX as usize).map(
            |host| Hit {
                kind: "host",
                name: host.name.clone(),
                href: format!("/hosts/{}", host.name),
                chip: words::host(host, page.now),
                note: host.fault_domain.clone().unwrap_or_default(),
            },
        ));
        let disks = snapshot
            .disks
            .iter()
            .filter(|disk| matches(&disk.name) || matches(&disk.path) || disk.id.to_string() == q);
        hits.extend(disks.take(ROWS_MAX as usize).map(|disk| Hit {
            kind: "disk",
            name: disk.name.clone(),
            href: format!("/disks/{}", disk.id),
            chip: words::disk(disk.state),
            note: format!("{}, {}", disk.host, format::bytes(disk.size_bytes)),
        }));
    }
    if let [only] = hits.as_slice() {
        return Ok(render::go_to(&page.headers, &only.href));
    }
    html(&SearchPage { shell: page.shell, q, hits })
}
