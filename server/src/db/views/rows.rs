//! Views of `model` as rows: JSON arrays in the order of the columns, because one `json_each` of a thousand rows costs a
//! hundredth of a thousand statements.
use super::Change;
use crate::db::to_word;
use model::view::{ComponentView, DiskView, HostView, ObjectView, ResyncItem};
use serde_json::{Value, json};

/// A table: its columns and, beside each, how a row gets its value, so that the two cannot drift apart. Every row begins with the
/// key of its cluster.
macro_rules! table {
    ($columns:ident, fn $row:ident($($argument:ident: $type:ty),*) { $($column:literal: $value:expr,)* }) => {
        const $columns: &[&str] = &["cluster", $($column),*];

        fn $row(cluster: &str, $($argument: $type),*) -> Value {
            json!([cluster, $($value),*])
        }
    };
}

table! {
    HOSTS, fn host(view: &HostView) {
        "id": view.id,
        "name": view.name,
        "kind": to_word(&view.kind),
        "role": to_word(&view.role),
        "state": to_word(&view.state),
        "fault_domain": view.fault_domain,
        "site": view.site,
        "disk_groups": view.disk_groups,
        "components": view.components,
        "components_max": view.components_max,
        "state_since": view.state_since.0,
        "faults": serde_json::to_string(&view.faults).unwrap_or_default(),
    }
}

table! {
    DISKS, fn disk(view: &DiskView) {
        "id": view.id,
        "name": view.name,
        "host": view.host,
        "path": view.path,
        "size_bytes": view.size_bytes,
        "media": to_word(&view.media),
        "role": to_word(&view.role),
        "disk_group": view.disk_group,
        "used_bytes": view.used_bytes,
        "reserved_bytes": view.reserved_bytes,
        "metadata_bytes": view.metadata_bytes,
        "state": to_word(&view.state),
        "components": view.components,
        "checksum_errors": view.checksum_errors,
        "faults": serde_json::to_string(&view.faults).unwrap_or_default(),
    }
}

table! {
    OBJECTS, fn object(view: &ObjectView) {
        "uuid": view.uuid,
        "name": view.name,
        "type": to_word(&view.object_type),
        "size_bytes": view.size_bytes,
        "used_bytes": view.used_bytes,
        "used_raw_bytes": view.used_raw_bytes,
        "policy": view.policy,
        "compliance": to_word(&view.compliance),
        "health": to_word(&view.health),
        "health_rank": view.health as u8,
        "reason": view.reason,
        "accessible": u8::from(view.accessible),
        "votes_total": view.votes.total,
        "votes_present": view.votes.present,
        "tolerates_now": view.tolerates_now,
        "repair_at": view.repair_at.map(|time| time.0),
    }
}

table! {
    COMPONENTS, fn component(object: &str, leaf: &ComponentView, is_witness: bool) {
        "uuid": leaf.uuid,
        "object": object,
        "is_witness": u8::from(is_witness),
        "state": to_word(&leaf.state),
        "votes": leaf.votes,
        "host": leaf.host,
        "fault_domain": leaf.fault_domain,
        "disk": leaf.disk,
        "used_bytes": leaf.used_bytes,
        "bytes_to_sync": leaf.bytes_to_sync,
        "reason": leaf.reason,
    }
}

table! {
    RESYNC, fn resync_row(item: &ResyncItem) {
        "component": item.component,
        "object": item.object,
        "object_name": item.object_name,
        "reason": to_word(&item.reason),
        "state": to_word(&item.state),
        "from_host": item.from,
        "to_host": item.to,
        "bytes_total": item.bytes_total,
        "bytes_done": item.bytes_done,
        "bytes_per_second": item.bytes_per_second,
        "started_at": item.started_at.0,
        "run": item.run,
    }
}

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
            ("hosts", HOSTS, hosts),
            ("disks", DISKS, disks),
            ("objects", OBJECTS, objects),
            ("components", COMPONENTS, components),
            ("resync", RESYNC, resync),
        ],
    }
}
