//! `GET /capacity`: one bar from raw to usable, usable by policy, disks, and whether a rebuild would fit.
use crate::app::App;
use crate::error::AppError;
use crate::http::body::InCluster;
use crate::service::capacity as service;
use crate::service::cluster::snapshot_or_picture;
use crate::web::parts::{self, Command, Fact, Segment};
use crate::web::shell::{Page, Shell};
use crate::web::view::capacity::{self, DiskFill, PolicyRow};
use crate::web::view::hardware;
use crate::web::{format, html};
use askama::Template;
use axum::extract::State;
use axum::response::Response;

/// Disks that one page draws.
const DISKS_MAX: usize = 120;

#[derive(Template)]
#[template(path = "capacity.html")]
struct CapacityPage {
    shell: Shell,
    default: String,
    left: (String, &'static str),
    left_exact: String,
    raw: String,
    raw_exact: String,
    spoken: String,
    segments: Vec<Segment>,
    policies: Vec<PolicyRow>,
    largest: String,
    noun: &'static str,
    loss: Vec<Fact>,
    disks: Vec<DiskFill>,
    disks_more: usize,
    command_list: Vec<Command>,
}

/// The page.
///
/// # Errors
/// [`AppError::Unavailable`].
pub async fn page(
    State(app): State<App>,
    InCluster(cluster): InCluster,
    page: Page,
) -> Result<Response, AppError> {
    let snapshot = snapshot_or_picture(&app, &cluster).await?;
    let now = capacity::of(&snapshot);
    let policy = capacity::default_policy(&snapshot);
    let segments = capacity::segments(&snapshot, &now, &policy);
    let spoken: Vec<String> =
        segments.iter().map(|piece| format!("{} {}", piece.name, piece.amount)).collect();
    let left = capacity::free(&snapshot, &policy).data_bytes;
    let largest = capacity::largest_host(&snapshot).unwrap_or_default();
    let loss = if largest.is_empty() {
        Vec::new()
    } else {
        hardware::loss_facts(&service::what_if(&app, &cluster, &[format!("host:{largest}")]).await?)
    };
    let mut disks = capacity::disks(&now);
    let disks_more = disks.len().saturating_sub(DISKS_MAX);
    disks.truncate(DISKS_MAX);
    html(&CapacityPage {
        default: policy.name,
        left: format::bytes_parts(left),
        left_exact: format::exact(left),
        raw: format::bytes(now.raw_bytes),
        raw_exact: format::exact(now.raw_bytes),
        spoken: format!("Raw {}: {}", format::bytes(now.raw_bytes), spoken.join(", ")),
        segments,
        policies: capacity::policies(&snapshot, &now),
        largest,
        noun: crate::web::view::explain::noun(&snapshot),
        loss,
        disks,
        disks_more,
        command_list: parts::commands(&[
            ("capacity", "curl -H \"Authorization: Bearer $TOKEN\" $MILLPOND/api/v1/capacity".into()),
            (
                "what a failure would do",
                "curl -X POST … $MILLPOND/api/v1/what-if -d '{\"fail\":[\"host:h1\"]}'".into(),
            ),
        ]),
        shell: page.shell,
    })
}

#[cfg(test)]
mod tests {
    use crate::web::testing::{Console, shows};

    #[tokio::test]
    async fn the_page_goes_from_raw_to_usable() {
        let page = Console::sample().await.get("/capacity").await;
        shows(
            &page,
            &["Free for new data", "On disks that take nothing now", "6 TiB", "rebuild", "h1-cap1", "usable"],
        );
    }
}
