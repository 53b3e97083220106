//! `GET /disks/{id}`: one disk, which components of which volumes lie on it, what its loss would do.
use crate::app::App;
use crate::db::history::EventFilter;
use crate::error::AppError;
use crate::http::body::{ById, InCluster, Named};
use crate::service::cluster::snapshot_or_picture;
use crate::service::{capacity, disks, events, list};
use crate::web::parts::{self, Action, Chip, Command, Crumb, Explain, Fact, Happening, Segment, Tone};
use crate::web::shell::{Page, Shell};
use crate::web::view::hardware::{self, DiskRow, PartRow};
use crate::web::{format, html};
use ::inventory::smart::Health;
use askama::Template;
use axum::extract::State;
use axum::response::Response;
use model::ids::DiskId;
use model::state::{DiskRole, DiskState};
use model::view::DiskView;

#[derive(Template)]
#[template(path = "hardware/disk.html")]
struct DiskPage {
    shell: Shell,
    trail: Vec<Crumb>,
    id: DiskId,
    name: String,
    chip: Chip,
    notes: Vec<String>,
    fact_list: Vec<Fact>,
    banner: Option<Explain>,
    carries: bool,
    segments: Vec<Segment>,
    spoken: String,
    loss: Vec<Fact>,
    part_rows: Vec<PartRow>,
    parts_count: String,
    no_parts: &'static str,
    history: Vec<Happening>,
    command_list: Vec<Command>,
}

fn facts(disk: &disks::Disk, row: &DiskRow) -> Vec<Fact> {
    let view = &disk.view;
    let mut facts = vec![
        Fact::new("Role", row.role),
        Fact::new("Media", row.media),
        Fact { exact: row.size_exact.clone(), ..Fact::new("Size", &row.size).note(&row.size_binary) },
    ];
    if !view.host.is_empty() {
        facts.insert(0, Fact::new("Host", &view.host).link(format!("/hosts/{}", view.host)));
    }
    let printed = [("Model", &disk.model), ("Serial", &disk.serial)];
    facts.extend(
        printed.into_iter().filter_map(|(name, value)| value.as_ref().map(|value| Fact::new(name, value))),
    );
    facts.extend(disk.device.iter().map(|device| health(device)));
    let errors = format!("{} since the start", row.checksum_errors);
    facts.push(Fact::chip(
        "Checksum errors",
        if row.wrong_bytes { Tone::Degraded } else { Tone::Healthy },
        errors,
    ));
    facts.push(Fact { mono: true, copy: Some(view.path.clone()), ..Fact::new("Path", &view.path) });
    facts.push(Fact::id("Id", &view.id.0));
    facts
}

/// What the disk says of itself; nothing said is neither well nor ill.
fn health(device: &::inventory::disk::Disk) -> Fact {
    let said = match device.health() {
        Health::Passed => Fact::chip("Says of itself", Tone::Healthy, "Passed"),
        Health::Failing => Fact::chip("Says of itself", Tone::Failed, "Failing"),
        Health::Unknown => Fact::chip("Says of itself", Tone::Maint, "Unknown"),
    };
    let smart = &device.facts.smart;
    let warmth = smart.temperature_celsius.map(|degrees| format!("{degrees} °C"));
    said.note(warmth.into_iter().chain(smart.notes.iter().cloned()).collect::<Vec<_>>().join("; "))
}

/// What a disk that is not healthy means. `None` for a healthy or unclaimed one.
fn banner(disk: &DiskView, lab: bool) -> Option<Explain> {
    let (tone, title, by_itself) = match disk.state {
        DiskState::Healthy => return None,
        DiskState::Absent => (
            Tone::Absent,
            "is away, pulled or with its host",
            "It is taken back wherever it is plugged in, and waited for until the repair delay has passed; what returns \
             only catches up. Resync shows the clock time.",
        ),
        DiskState::Failed => (
            Tone::Failed,
            "has failed for good",
            "What lay on it is built again on other disks at once, as far as fault domains and room allow.",
        ),
        DiskState::Slow => (
            Tone::Degraded,
            "answers much slower than its peers",
            "Every write waits for its slowest copy. Nothing is moved by itself.",
        ),
        DiskState::Full => (
            Tone::Degraded,
            "has no room left",
            "Writes that need more room there fail with \"no space\"; reads go on. Nothing is marked as lost for that.",
        ),
    };
    let mut actions = vec![Action::new("See what moves", "/resync", "refresh-cw")];
    if lab {
        actions.push(
            Action::new("Heal it…", format!("/lab/faults?target=disk:{}", disk.id), "flask-conical")
                .primary(),
        );
    }
    Some(Explain {
        tone,
        title: format!("{} {title}.", disk.name),
        text: vec![by_itself.into()],
        actions,
        ..Explain::default()
    })
}

/// What a script would ask about the disk, or do about one that is lost.
fn commands(disk: &DiskView) -> Vec<Command> {
    let mut commands = vec![(
        "what its loss would do",
        format!("curl -X POST … $MILLPOND/api/v1/what-if -d '{{\"fail\":[\"disk:{}\"]}}'", disk.id),
    )];
    let is_lost = matches!(disk.state, DiskState::Absent | DiskState::Failed);
    if is_lost && matches!(disk.role, DiskRole::Capacity | DiskRole::Combined) {
        commands.push((
            "put a free disk in its place",
            format!("curl -X POST … $MILLPOND/api/v1/disks/{}/replace -d '{{\"by\":\"ID\"}}'", disk.id),
        ));
    }
    parts::commands(&commands)
}

/// The page.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn page(
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Named(path): Named<ById<DiskId>>,
    page: Page,
) -> Result<Response, AppError> {
    let missing = || AppError::NotFound(format!("disk {}", path.id));
    let disk = hardware::find(disks::all(&app, &cluster).await?, path.id).ok_or_else(missing)?;
    let snapshot = snapshot_or_picture(&app, &cluster).await?;
    let carries = disk.view.role != DiskRole::None;
    let loss = if snapshot.disks.iter().any(|known| known.id == path.id) {
        hardware::loss_facts(&capacity::what_if(&app, &cluster, &[format!("disk:{}", path.id)]).await?)
    } else {
        Vec::new()
    };
    let filter = EventFilter { subject: Some(format!("disk:{}", path.id)), ..EventFilter::default() };
    let found = events::page(&app, &cluster, &filter, &list::window(Some(8), None)?).await?;
    let row = hardware::disk_row(&disk);
    let view = &disk.view;
    let part_rows = hardware::parts_on(&snapshot, &|leaf| leaf.disk == path.id, page.now);
    html(&DiskPage {
        id: path.id,
        trail: parts::crumbs(&[("Hosts and disks", "/hosts")], &view.name),
        fact_list: facts(&disk, &row),
        banner: carries.then(|| banner(view, page.shell.lab)).flatten(),
        carries,
        segments: hardware::disk_segments(view),
        spoken: format!("{} used, {} free", row.used, format::bytes(view.free_bytes())),
        loss,
        parts_count: format::plural(part_rows.len() as u64, "component"),
        part_rows,
        no_parts: match view.role {
            DiskRole::Cache => {
                "A cache disk carries the log of its group; components lie on the capacity disks behind it."
            }
            DiskRole::None => "It is not claimed, so nothing of this cluster lies on it.",
            _ => "It is empty: the next volume or repair may use it.",
        },
        history: parts::happenings(&found.items, page.now),
        command_list: commands(view),
        chip: row.chip,
        notes: row.notes,
        name: disk.view.name,
        shell: page.shell,
    })
}
