//! `/metrics`: Prometheus text, straight from snapshots and counters.
use crate::app::App;
use crate::db::to_word;
use crate::error::AppError;
use crate::http::auth::CurrentUser;
use crate::service::resync;
use axum::extract::State;
use axum::http::header;
use axum::response::{IntoResponse, Response};
use model::engine::Counters;
use model::state::ObjectHealth;
use std::collections::BTreeMap;
use std::fmt::Write;

/// Every health, so that a series never vanishes.
const HEALTHS: [ObjectHealth; 8] = [
    ObjectHealth::Inaccessible,
    ObjectHealth::ReducedRebuilding,
    ObjectHealth::ReducedWaiting,
    ObjectHealth::ReducedCannotRebuild,
    ObjectHealth::PolicyChange,
    ObjectHealth::NonCompliant,
    ObjectHealth::Moving,
    ObjectHealth::Healthy,
];

type Read = fn(&Counters) -> u64;
const COUNTERS: [(&str, &str, Read); 7] = [
    ("reads_total", "Reads done since the start.", |counters| counters.reads),
    ("writes_total", "Writes done since the start.", |counters| counters.writes),
    ("read_bytes_total", "Bytes read since the start.", |counters| counters.read_bytes),
    ("written_bytes_total", "Bytes written since the start.", |counters| counters.written_bytes),
    ("read_latency_microseconds_total", "Sum of read latencies.", |counters| counters.read_latency_us_total),
    ("write_latency_microseconds_total", "Sum of write latencies.", |counters| {
        counters.write_latency_us_total
    }),
    ("resync_bytes_total", "Bytes moved by resync since the start.", |counters| counters.resync_bytes),
];

fn escape(label: &str) -> String {
    label.replace('\\', "\\\\").replace('"', "\\\"").replace('\n', "\\n")
}

/// One series of each name: name → (help, type, lines).
#[derive(Default)]
struct Text(BTreeMap<String, (&'static str, &'static str, String)>);

impl Text {
    fn add(
        &mut self,
        name: &str,
        (help, kind): (&'static str, &'static str),
        labels: &[(&str, &str)],
        value: u64,
    ) {
        let name = format!("millpond_{name}");
        let labels: Vec<String> =
            labels.iter().map(|(key, value)| format!("{key}=\"{}\"", escape(value))).collect();
        let line = format!("{name}{{{}}} {value}", labels.join(","));
        let entry = self.0.entry(name).or_insert_with(|| (help, kind, String::new()));
        let _ = writeln!(entry.2, "{line}");
    }

    fn finish(self) -> String {
        let mut text = String::new();
        for (name, (help, kind, lines)) in self.0 {
            let _ = write!(text, "# HELP {name} {help}\n# TYPE {name} {kind}\n{lines}");
        }
        text
    }
}

/// GET /metrics
pub async fn metrics(_: CurrentUser, State(app): State<App>) -> Result<Response, AppError> {
    let mut text = Text::default();
    for cluster in app.clusters.values() {
        let key = cluster.key.as_str();
        let up = cluster.snapshot().await;
        let help = ("Whether the storage engine answers.", "gauge");
        text.add("engine_up", help, &[("cluster", key)], u64::from(up.is_ok()));
        let Ok(snapshot) = up else { continue };
        for health in HEALTHS {
            let count = snapshot.objects.iter().filter(|object| object.health == health).count() as u64;
            let labels = [("cluster", key), ("health", &to_word(&health))];
            text.add("objects", ("Objects by health.", "gauge"), &labels, count);
        }
        for host in &snapshot.hosts {
            let connected = u64::from(host.state == model::state::HostState::Connected);
            let labels = [("cluster", key), ("host", &host.name)];
            text.add("host_connected", ("Whether the host is connected.", "gauge"), &labels, connected);
        }
        for disk in &snapshot.disks {
            let id = disk.id.to_string();
            let labels = [("cluster", key), ("disk", &id), ("name", &disk.name), ("host", &disk.host)];
            text.add("disk_size_bytes", ("Size of the disk.", "gauge"), &labels, disk.size_bytes);
            text.add("disk_used_bytes", ("Bytes allocated on the disk.", "gauge"), &labels, disk.used_bytes);
            let help = ("Checksum errors on the disk since the start.", "counter");
            text.add("disk_checksum_errors_total", help, &labels, disk.checksum_errors);
        }
        let left = resync::of(snapshot.resync.clone()).bytes_left;
        text.add("resync_bytes_left", ("Bytes that resync has left.", "gauge"), &[("cluster", key)], left);
        for (entity, counters) in cluster.engine.counters().await.unwrap_or_default() {
            for (name, help, read) in COUNTERS {
                text.add(name, (help, "counter"), &[("cluster", key), ("entity", &entity)], read(&counters));
            }
        }
    }
    let kind = [(header::CONTENT_TYPE, "text/plain; version=0.0.4; charset=utf-8")];
    Ok((kind, text.finish()).into_response())
}
