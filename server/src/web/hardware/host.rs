//! `GET /hosts/{name}`: one host, its disks, what lies on it, what its loss would do.
use crate::app::App;
use crate::db::history::EventFilter;
use crate::error::AppError;
use crate::http::body::{ByName, InCluster, Named};
use crate::service::cluster::snapshot_or_picture;
use crate::service::{capacity, disks, events, hosts, list};
use crate::web::hardware::host_banner;
use crate::web::parts::{self, Chip, Command, Crumb, Explain, Fact, Happening};
use crate::web::shell::{Page, Shell};
use crate::web::view::hardware::{self, DiskRow, PartRow};
use crate::web::view::words;
use crate::web::{format, html};
use askama::Template;
use axum::extract::State;
use axum::response::Response;
use model::view::{HostView, Snapshot};

#[derive(Template)]
#[template(path = "hardware/host.html")]
struct HostPage {
    shell: Shell,
    trail: Vec<Crumb>,
    name: String,
    chip: Chip,
    fact_list: Vec<Fact>,
    banner: Explain,
    disk_rows: Vec<DiskRow>,
    loss: Vec<Fact>,
    part_rows: Vec<PartRow>,
    parts_count: String,
    history: Vec<Happening>,
    command_list: Vec<Command>,
}

fn facts(snapshot: &Snapshot, host: &HostView) -> Vec<Fact> {
    let own: Vec<_> = snapshot.disks.iter().filter(|disk| disk.host == host.name).collect();
    let raw = own
        .iter()
        .filter(|disk| disk.role != model::state::DiskRole::Cache)
        .map(|disk| disk.size_bytes)
        .sum();
    let used = own
        .iter()
        .filter(|disk| disk.role != model::state::DiskRole::Cache)
        .map(|disk| disk.used_bytes)
        .sum();
    let domain = match &host.fault_domain {
        Some(domain) => Fact::new("Fault domain", domain).link("/fault-domains"),
        None => Fact::new("Fault domain", "one of its own").link("/fault-domains"),
    };
    vec![
        Fact::new("Kind", hardware::kind(host.kind)),
        domain,
        Fact::new("Disk groups", format::count(host.disk_groups.into())),
        Fact::new("Components", format::count(host.components.into()))
            .note(format!("of {}", format::count(host.components_max.into()))),
        Fact::bytes("Raw capacity", raw).note(format!("{} used", format::bytes(used))),
        Fact::id("Id", &host.id.0),
    ]
}

/// The page.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn page(
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Named(path): Named<ByName>,
    page: Page,
) -> Result<Response, AppError> {
    let host = hosts::get(&app, &cluster, &path.name).await?;
    let snapshot = snapshot_or_picture(&app, &cluster).await?;
    let loss = capacity::what_if(&app, &cluster, &[format!("host:{}", host.name)]).await?;
    let disks = disks::all(&app, &cluster).await?;
    let filter = EventFilter { subject: Some(format!("host:{}", host.name)), ..EventFilter::default() };
    let found = events::page(&app, &cluster, &filter, &list::window(Some(8), None)?).await?;
    let part_rows = hardware::parts_on(&snapshot, &|leaf| leaf.host == host.name, page.now);
    html(&HostPage {
        trail: parts::crumbs(&[("Hosts and disks", "/hosts")], &host.name),
        chip: words::host(&host, page.now),
        fact_list: facts(&snapshot, &host),
        banner: host_banner(&snapshot, &host, page.shell.lab, page.now),
        disk_rows: disks.iter().filter(|disk| disk.view.host == host.name).map(hardware::disk_row).collect(),
        loss: hardware::loss_facts(&loss),
        parts_count: format::plural(part_rows.len() as u64, "component"),
        part_rows,
        history: parts::happenings(&found.items, page.now),
        command_list: parts::commands(&[
            (
                "this host",
                format!("curl -H \"Authorization: Bearer $TOKEN\" $MILLPOND/api/v1/hosts/{}", host.name),
            ),
            (
                "what its loss would do",
                format!("curl -X POST … $MILLPOND/api/v1/what-if -d '{{\"fail\":[\"host:{}\"]}}'", host.name),
            ),
        ]),
        name: host.name,
        shell: page.shell,
    })
}
