//! One volume: where every part of it lies, what is at risk, what happens next. Live.
use crate::app::{App, Cluster};
use crate::db::history::EventFilter;
use crate::error::AppError;
use crate::http::body::{Asked, ByName, InCluster, Named};
use crate::service::{events, list, volumes};
use crate::web::parts::{self, Chip, Command, Crumb, Explain, Fact, Happening, Tab, Tone};
use crate::web::shell::{Page, Shell};
use crate::web::view::map::{self, DomainBox};
use crate::web::view::placement::{self, RaidRow, VoteStrip};
use crate::web::view::{explain, words};
use crate::web::{format, html};
use askama::Template;
use axum::extract::State;
use axum::response::Response;
use model::engine::Attach;
use model::units::Timestamp;
use model::view::{ObjectView, Snapshot};

/// A part that is being brought up to date.
struct Move {
    tag: String,
    title: String,
    chip: Chip,
    percent: u8,
    spoken: String,
    facts: Vec<Fact>,
}

#[derive(Template)]
#[template(
    path = "volumes/show.html",
    blocks = ["chip", "summary", "tree", "moves", "map", "votes", "history"]
)]
struct ShowPage {
    shell: Shell,
    name: String,
    uuid: String,
    trail: Vec<Crumb>,
    chip: Chip,
    fact_list: Vec<Fact>,
    banner: Explain,
    components: String,
    rows: Vec<RaidRow>,
    moves: Vec<Move>,
    by_what: &'static str,
    tabs: Vec<Tab>,
    boxes: Vec<DomainBox>,
    legend: Vec<Chip>,
    vote_strip: VoteStrip,
    history: Vec<Happening>,
    attach: Vec<Command>,
    command_list: Vec<Command>,
}

/// `?show=used`: only hosts and disks that hold a part.
#[derive(Default, serde::Deserialize)]
#[serde(default)]
pub struct Query {
    show: String,
}

fn fact_list(snapshot: &Snapshot, object: &ObjectView) -> Vec<Fact> {
    let noun = explain::noun(snapshot);
    let policy = snapshot.policies.iter().find(|policy| policy.name == object.policy);
    let policy_words = policy.map(|policy| words::policy(policy, noun)).unwrap_or_default();
    let tolerates = words::tolerates(object, noun);
    let compliance = words::compliance(object.compliance);
    let factor = if object.used_bytes == 0 {
        String::new()
    } else {
        format!("{:.2}× what was written", ratio(object.used_raw_bytes, object.used_bytes))
    };
    vec![
        Fact::new("Policy", &object.policy).link(format!("/policies/{}", object.policy)).note(policy_words),
        Fact::chip("Survives now", tolerates.tone, tolerates.word),
        Fact::bytes("Size", object.size_bytes).note(format!("{} written", format::bytes(object.used_bytes))),
        Fact::bytes("Space on disks", object.used_raw_bytes).note(factor),
        Fact::chip("Policy kept", compliance.tone, compliance.word),
        Fact::id("Object", &object.uuid.0),
    ]
}

#[allow(clippy::cast_precision_loss, reason = "shown with three digits")]
fn ratio(part: u64, whole: u64) -> f64 {
    part as f64 / whole as f64
}

fn moves(snapshot: &Snapshot, object: &ObjectView, now: Timestamp) -> Vec<Move> {
    let names = placement::short_names(&object.tree);
    let of = snapshot.resync.items.iter().filter(|item| item.object == object.uuid);
    of.map(|item| {
        let percent = format::percent(item.bytes_done, item.bytes_total);
        let done =
            format!("{} of {} looked at", format::bytes(item.bytes_done), format::bytes(item.bytes_total));
        let tag = names.get(&item.component).cloned().unwrap_or_else(|| "new".into());
        let rate = item.bytes_per_second.map_or_else(|| "not enough data yet".to_owned(), format::rate);
        Move {
            title: format!("Part {tag} is brought up to date"),
            chip: words::resync_state(item.state),
            percent,
            spoken: format!("{percent}%, {done}"),
            facts: vec![
                Fact::new("Why", words::resync_reason(item.reason)),
                Fact::new("From, to", format!("{} → {}", item.from, item.to)),
                Fact::new("Progress", done),
                Fact::new("Time left", explain::eta_words(item, now)).note(format!("at {rate}")),
            ],
            tag,
        }
    })
    .collect()
}

fn attach_lines(attach: &Attach, name: &str) -> Vec<Command> {
    let mut lines = Vec::new();
    if let Some(uri) = &attach.nbd_unix_uri {
        lines.push(Command {
            comment: "NBD over the unix socket, for QEMU, nbdcopy, fio:".into(),
            text: uri.clone(),
        });
        lines.push(Command {
            comment: "Copy an image in:".into(),
            text: format!("nbdcopy {name}.img '{uri}'"),
        });
        lines.push(Command {
            comment: "As a block device of this machine (root):".into(),
            text: format!("nbd-client -unix {} -name {name} /dev/nbd0", socket(uri)),
        });
    }
    if let Some(uri) = &attach.nbd_uri {
        lines.push(Command { comment: "NBD over TCP, with a client certificate:".into(), text: uri.clone() });
    }
    if let Some(rbd) = &attach.rbd {
        lines.push(Command { comment: "RBD:".into(), text: rbd.clone() });
    }
    lines
}

/// Path of the socket in `nbd+unix:///NAME?socket=PATH`, percent-decoded.
fn socket(uri: &str) -> String {
    let encoded = uri.split_once("socket=").map_or("", |(_, path)| path);
    let mut bytes = Vec::new();
    let mut rest = encoded.bytes();
    while let Some(byte) = rest.next() {
        let digit = |byte: Option<u8>| byte.and_then(|byte| char::from(byte).to_digit(16));
        match (byte, byte == b'%') {
            (_, true) => {
                let (high, low) = (digit(rest.next()).unwrap_or(0), digit(rest.next()).unwrap_or(0));
                bytes.push(u8::try_from(high * 16 + low).unwrap_or(b'?'));
            }
            (byte, false) => bytes.push(byte),
        }
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

async fn history(
    app: &App,
    cluster: &Cluster,
    object: &ObjectView,
    now: Timestamp,
) -> Result<Vec<Happening>, AppError> {
    let filter = EventFilter { subject: Some(format!("object:{}", object.uuid)), ..EventFilter::default() };
    let found = events::page(app, cluster, &filter, &list::window(Some(8), None)?).await?;
    Ok(parts::happenings(&found.items, now))
}

async fn build(
    app: &App,
    cluster: &Cluster,
    shell: Shell,
    object: &ObjectView,
    only_used: bool,
    now: Timestamp,
) -> Result<ShowPage, AppError> {
    let snapshot = cluster.snapshot().await?;
    let name = object.name.clone();
    let tab = |word: &str, show: &str, current| Tab {
        word: word.into(),
        href: format!("/volumes/{name}{show}"),
        current,
    };
    let attach = volumes::attach(cluster, object.uuid).await.unwrap_or_default();
    let leaves = object.tree.leaves().len() as u64;
    Ok(ShowPage {
        trail: parts::crumbs(&[("Volumes", "/volumes")], &name),
        chip: words::health(object.health),
        fact_list: fact_list(&snapshot, object),
        banner: explain::explain(&snapshot, object, now),
        components: format::plural(leaves, "component"),
        rows: placement::raid_rows(&snapshot, object, now),
        moves: moves(&snapshot, object, now),
        by_what: if snapshot.cluster.fault_domains.is_empty() { "by host" } else { "by fault domain" },
        tabs: vec![tab("All disks", "", !only_used), tab("Used disks", "?show=used", only_used)],
        boxes: map::domains(&snapshot, &placement::tags(object), only_used, now),
        legend: map::legend(),
        vote_strip: placement::votes(object),
        history: history(app, cluster, object, now).await?,
        attach: attach_lines(&attach, &name),
        command_list: parts::commands(&[
            (
                "the tree with placement",
                format!("curl -H \"Authorization: Bearer $TOKEN\" $MILLPOND/api/v1/objects/{}", object.uuid),
            ),
            (
                "the volume",
                format!("curl -H \"Authorization: Bearer $TOKEN\" $MILLPOND/api/v1/volumes/{name}"),
            ),
        ]),
        uuid: object.uuid.to_string(),
        name,
        shell,
    })
}

/// `GET /volumes/{name}`.
///
/// # Errors
/// [`AppError::NotFound`].
pub async fn page(
    State(app): State<App>,
    InCluster(cluster): InCluster,
    Named(path): Named<ByName>,
    page: Page,
    Asked(query): Asked<Query>,
) -> Result<Response, AppError> {
    let object = volumes::by_name(&cluster, &path.name).await?;
    let shell = page.shell.live_on(&[format!("volume:{}:{}", object.uuid, query.show)]);
    html(&build(&app, &cluster, shell, &object, query.show == "used", page.now).await?)
}

/// The live parts of the page: `volume:UUID:SHOW`. `None` once the volume is gone.
///
/// # Errors
/// [`AppError::Unavailable`].
pub async fn live(app: &App, cluster: &Cluster, id: &str, show: &str) -> Result<Option<String>, AppError> {
    let Ok(id) = id.parse() else { return Ok(None) };
    let object = match volumes::by_id(cluster, id).await {
        Err(AppError::NotFound(_)) => return Ok(None),
        other => other?,
    };
    let page = build(app, cluster, Shell::default(), &object, show == "used", app.clock.now()).await?;
    let blocks = [
        ("volume-chip", page.as_chip().render()),
        ("volume-top", page.as_summary().render()),
        ("volume-tree", page.as_tree().render()),
        ("volume-moves", page.as_moves().render()),
        ("volume-map", page.as_map().render()),
        ("volume-votes", page.as_votes().render()),
        ("volume-history", page.as_history().render()),
    ];
    crate::web::live::partials(blocks).map(Some)
}

/// Tone of a volume in the history of a page that watches it.
pub fn tone(object: &ObjectView) -> Tone {
    words::health(object.health).tone
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::web::sample;

    #[test]
    fn the_socket_of_an_address_is_decoded() {
        assert_eq!(socket("nbd+unix:///db?socket=%2Fdata%2Fnbd.sock"), "/data/nbd.sock");
        assert_eq!(socket("nbd+unix:///db?socket=/a%20b"), "/a b");
    }

    #[test]
    fn a_moving_part_says_why_and_how_long() {
        let (snapshot, object) = (sample::snapshot(), sample::object());
        let moves = moves(&snapshot, &object, sample::NOW);
        assert_eq!(moves.len(), 1);
        assert_eq!(moves[0].tag, "B2");
        assert_eq!(moves[0].percent, 62);
        let left = &moves[0].facts[3];
        assert!(left.value.starts_with("about ") && left.value.contains("min"), "{}", left.value);
    }
}
