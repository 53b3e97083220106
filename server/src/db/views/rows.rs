//! Views of `model` as rows: JSON arrays in the order of the columns, because one `json_each` of a thousand rows costs a
//! hundredth of a thousand statements.
use super::Change;
use crate::db::to_word;
use model::view::{ComponentView, DiskView, HostView, ObjectView, ResyncItem};
use serde_json::{Value, json};

pub(super) const HOSTS: [&str; 13] = [
    "cluster",
    "id",
    "name",
    "kind",
    "role",
    "state",
    "fault_domain",
    "site",
    "disk_groups",
    "components",
    "components_max",
    "state_since",
    "faults",
];
pub(super) const DISKS: [&str; 16] = [
    "cluster",
    "id",
    "name",
    "host",
    "path",
    "size_bytes",
    "media",
    "role",
    "disk_group",
    "used_bytes",
    "reserved_bytes",
    "metadata_bytes",
    "state",
    "components",
    "checksum_errors",
    "faults",
];
pub(super) const OBJECTS: [&str; 17] = [
    "cluster",
    "uuid",
    "name",
    "type",
    "size_bytes",
    "used_bytes",
    "used_raw_bytes",
    "policy",
    "compliance",
    "health",
    "health_rank",
    "reason",
    "accessible",
    "votes_total",
    "votes_present",
    "tolerates_now",
    "repair_at",
];
const COMPONENTS: [&str; 12] = [
    "cluster",
    "uuid",
    "object",
    "is_witness",
    "state",
    "votes",
    "host",
    "fault_domain",
    "disk",
    "used_bytes",
    "bytes_to_sync",
    "reason",
];
pub(super) const RESYNC: [&str; 13] = [
    "cluster",
    "component",
    "object",
    "object_name",
    "reason",
    "state",
    "from_host",
    "to_host",
    "bytes_total",
    "bytes_done",
    "bytes_per_second",
    "started_at",
    "run",
];

/// Rows by table, ready for SQL.
pub(super) struct Batches {
    /// Table, key column, keys.
    pub gone: Vec<(&'static str, &'static str, Vec<String>)>,
    /// Table, columns, rows.
    pub put: Vec<(&'static str, &'static [&'static str], Vec<Value>)>,
}

/// Sorts changes by table. Components of a changed object are removed first: its tree may have lost some.
pub(super) fn batches(cluster: &str, changes: &[Change]) -> Batches {
    let (mut hosts, mut disks, mut objects, mut components, mut resync) =
        (vec![], vec![], vec![], vec![], vec![]);
    let (mut no_hosts, mut no_disks, mut no_objects, mut no_components, mut no_resync) =
        (vec![], vec![], vec![], vec![], vec![]);
    for change in changes {
        match change {
            Change::PutHost(view) => hosts.push(host(cluster, view)),
            Change::DropHost(name) => no_hosts.push(name.clone()),
            Change::PutDisk(view) => disks.push(disk(cluster, view)),
            Change::DropDisk(id) => no_disks.push(id.to_string()),
            Change::PutObject(view) => {
                no_components.push(view.uuid.to_string());
                objects.push(object(cluster, view));
                view.tree.for_each_leaf(&mut |leaf, is_witness| {
                    components.push(component(cluster, &view.uuid.to_string(), leaf, is_witness));
                });
            }
            Change::DropObject(id) => {
                no_components.push(id.to_string());
                no_objects.push(id.to_string());
            }
            Change::PutResync(item) => resync.push(resync_row(cluster, item)),
            Change::DropResync(id) => no_resync.push(id.to_string()),
        }
    }
    Batches {
        gone: vec![
            ("hosts", "name", no_hosts),
            ("disks", "id", no_disks),
            ("objects", "uuid", no_objects),
            ("components", "object", no_components),
            ("resync", "component", no_resync),
        ],
        put: vec![
            ("hosts", &HOSTS, hosts),
            ("disks", &DISKS, disks),
            ("objects", &OBJECTS, objects),
            ("components", &COMPONENTS, components),
            ("resync", &RESYNC, resync),
        ],
    }
}

fn host(cluster: &str, view: &HostView) -> Value {
    json!([
        cluster,
        view.id,
        view.name,
        to_word(&view.kind),
        to_word(&view.role),
        to_word(&view.state),
        view.fault_domain,
        view.site,
        view.disk_groups,
        view.components,
        view.components_max,
        view.state_since.0,
        serde_json::to_string(&view.faults).unwrap_or_default(),
    ])
}

fn disk(cluster: &str, view: &DiskView) -> Value {
    json!([
        cluster,
        view.id,
        view.name,
        view.host,
        view.path,
        view.size_bytes,
        to_word(&view.media),
        to_word(&view.role),
        view.disk_group,
        view.used_bytes,
        view.reserved_bytes,
        view.metadata_bytes,
        to_word(&view.state),
        view.components,
        view.checksum_errors,
        serde_json::to_string(&view.faults).unwrap_or_default(),
    ])
}

fn object(cluster: &str, view: &ObjectView) -> Value {
    json!([
        cluster,
        view.uuid,
        view.name,
        to_word(&view.object_type),
        view.size_bytes,
        view.used_bytes,
        view.used_raw_bytes,
        view.policy,
        to_word(&view.compliance),
        to_word(&view.health),
        view.health as u8,
        view.reason,
        u8::from(view.accessible),
        view.votes.total,
        view.votes.present,
        view.tolerates_now,
        view.repair_at.map(|time| time.0),
    ])
}

fn component(cluster: &str, object: &str, leaf: &ComponentView, is_witness: bool) -> Value {
    json!([
        cluster,
        leaf.uuid,
        object,
        u8::from(is_witness),
        to_word(&leaf.state),
        leaf.votes,
        leaf.host,
        leaf.fault_domain,
        leaf.disk,
        leaf.used_bytes,
        leaf.bytes_to_sync,
        leaf.reason,
    ])
}

fn resync_row(cluster: &str, item: &ResyncItem) -> Value {
    json!([
        cluster,
        item.component,
        item.object,
        item.object_name,
        to_word(&item.reason),
        to_word(&item.state),
        item.from,
        item.to,
        item.bytes_total,
        item.bytes_done,
        item.bytes_per_second,
        item.started_at.0,
        item.run,
    ])
}
