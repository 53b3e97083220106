//! A small cluster in trouble, for the kit page and the page tests: six hosts in three racks, one host away, one resync at work.
use crate::db::history::PastEvent;
use model::ids::{ClusterId, ComponentId, DiskGroupId, DiskId, HostId, ObjectId};
use model::policy::Policy;
use model::state::{
    ClusterState, ClusterType, Compliance, ComponentState, DiskRole, DiskState, HostKind, HostRole,
    HostState, Media, ObjectHealth, ResyncReason, ResyncState, Severity,
};
use model::units::Timestamp;
use model::view::{
    ClusterView, ComponentView, DiskView, FaultDomainView, HostView, ObjectType, ObjectView, ResyncItem,
    ResyncView, Snapshot, TreeNode, Votes,
};
use std::sync::Arc;
use uuid::Uuid;

/// When the sample was taken: 30 Nov 2026, 14:02:00 UTC.
pub const NOW: Timestamp = Timestamp(1_796_047_320_000);
const GIB: u64 = 1 << 30;

fn id(number: u128) -> Uuid {
    Uuid::from_u128(0x5f2c_9e1a_0000_4000_8000_0000_0000_0000 + number)
}

fn host(number: u32) -> HostView {
    let away = number == 3;
    HostView {
        id: HostId(id(number.into())),
        name: format!("h{number}"),
        kind: HostKind::Lab,
        role: HostRole::Data,
        state: if away { HostState::Absent } else { HostState::Connected },
        state_since: Timestamp(NOW.0 - 720_000),
        fault_domain: Some(rack(number)),
        site: None,
        disk_groups: 1,
        components: 1,
        components_max: 9000,
        faults: if away { vec!["powered off".into()] } else { Vec::new() },
    }
}

fn rack(host: u32) -> String {
    format!("rack-{}", ["a", "b", "c"][(host as usize - 1) / 2 % 3])
}

fn disk(host: u32, number: u32) -> DiskView {
    let name = if number == 0 { format!("h{host}-cache1") } else { format!("h{host}-cap{number}") };
    DiskView {
        id: disk_id(host, number),
        path: format!("/data/lab/h{host}/{name}.img"),
        name,
        host: format!("h{host}"),
        size_bytes: if number == 0 { 32 * GIB } else { 512 * GIB },
        media: Media::Flash,
        role: if number == 0 { DiskRole::Cache } else { DiskRole::Capacity },
        disk_group: Some(DiskGroupId(id(900 + u128::from(host)))),
        serves: Vec::new(),
        used_bytes: u64::from(host * 31 + number * 57) * GIB,
        reserved_bytes: 0,
        metadata_bytes: GIB,
        state: if host == 3 { DiskState::Absent } else { DiskState::Healthy },
        components: 1,
        checksum_errors: 0,
        faults: Vec::new(),
    }
}

fn disk_id(host: u32, number: u32) -> DiskId {
    DiskId(id(u128::from(host) * 100 + u128::from(number)))
}

fn leaf(number: u32, host: u32, state: ComponentState) -> ComponentView {
    ComponentView {
        uuid: ComponentId(id(5000 + u128::from(number))),
        state,
        state_since: Timestamp(NOW.0 - 720_000),
        votes: 1,
        host: format!("h{host}"),
        fault_domain: rack(host),
        disk: disk_id(host, 1),
        disk_path: disk(host, 1).path,
        used_bytes: 206 * GIB,
        bytes_to_sync: if state == ComponentState::Resyncing { 78 * GIB } else { 0 },
        reason: None,
    }
}

/// The object in trouble: a mirror of two stripes; one stripe absent, one being copied.
pub fn object() -> ObjectView {
    let copy = |first: u32, states: [ComponentState; 2], hosts: [u32; 2]| TreeNode::Raid0 {
        children: vec![
            TreeNode::Component(leaf(first, hosts[0], states[0])),
            TreeNode::Component(leaf(first + 1, hosts[1], states[1])),
        ],
    };
    ObjectView {
        uuid: ObjectId(id(7000)),
        name: "erp-db".into(),
        object_type: ObjectType::Volume,
        size_bytes: 700 * GIB,
        used_bytes: 412 * GIB,
        used_raw_bytes: 824 * GIB,
        policy: "default".into(),
        policy_version: 1,
        compliance: Compliance::NonCompliant,
        health: ObjectHealth::ReducedWaiting,
        reason: Some("h3 stopped answering, so part B1 is absent".into()),
        accessible: true,
        votes: Votes { total: 5, present: 4 },
        tolerates_now: 0,
        repair_at: Some(NOW.plus_seconds(2_880)),
        csn: (1, 4),
        created_at: Timestamp(NOW.0 - 86_400_000 * 9),
        tree: TreeNode::Raid1 {
            children: vec![
                copy(1, [ComponentState::Active; 2], [1, 2]),
                copy(3, [ComponentState::Absent, ComponentState::Resyncing], [3, 4]),
                TreeNode::Witness(ComponentView {
                    used_bytes: 16 << 20,
                    ..leaf(9, 5, ComponentState::Active)
                }),
            ],
        },
    }
}

/// The same kind of object, whole.
pub fn healthy_object(number: u128, name: &str) -> ObjectView {
    ObjectView {
        uuid: ObjectId(id(7000 + number)),
        name: name.into(),
        health: ObjectHealth::Healthy,
        compliance: Compliance::Compliant,
        reason: None,
        repair_at: None,
        tolerates_now: 1,
        votes: Votes { total: 3, present: 3 },
        tree: TreeNode::Raid1 {
            children: vec![
                TreeNode::Component(leaf(10, 1, ComponentState::Active)),
                TreeNode::Component(leaf(11, 4, ComponentState::Active)),
                TreeNode::Witness(leaf(12, 6, ComponentState::Active)),
            ],
        },
        ..object()
    }
}

/// The snapshot.
pub fn snapshot() -> Snapshot {
    let racks = ["rack-a", "rack-b", "rack-c"].iter().zip([["h1", "h2"], ["h3", "h4"], ["h5", "h6"]]);
    Snapshot {
        version: 1,
        taken_at: NOW,
        cluster: ClusterView {
            id: ClusterId(id(1)),
            name: "pond-01".into(),
            cluster_type: ClusterType::SingleSite,
            state: ClusterState::Ready,
            state_reason: None,
            writable: true,
            fault_domains: racks
                .map(|(name, hosts)| FaultDomainView {
                    name: (*name).into(),
                    hosts: hosts.map(str::to_owned).to_vec(),
                })
                .collect(),
            sites: Vec::new(),
            default_policy: "default".into(),
            repair_delay_seconds: 3600,
            licence_key: None,
            created_at: Timestamp(NOW.0 - 86_400_000 * 10),
            config_version: (1, 1),
        },
        hosts: (1..=6).map(host).collect(),
        disks: (1..=6).flat_map(|host| (0..=2).map(move |number| disk(host, number))).collect(),
        policies: vec![Policy::built_in()],
        objects: vec![
            Arc::new(object()),
            Arc::new(healthy_object(1, "mail")),
            Arc::new(healthy_object(2, "registry")),
        ],
        resync: ResyncView {
            items: vec![ResyncItem {
                object: object().uuid,
                object_name: "erp-db".into(),
                component: ComponentId(id(5004)),
                run: 1,
                reason: ResyncReason::Repair,
                state: ResyncState::Active,
                from: "h2".into(),
                to: "h4".into(),
                bytes_total: 206 * GIB,
                bytes_done: 128 * GIB,
                bytes_per_second: Some(120 << 20),
                started_at: Timestamp(NOW.0 - 1_200_000),
            }],
            scheduled: Vec::new(),
            limit_bytes_per_second: None,
        },
        tasks: Vec::new(),
    }
}

/// Events of the object, newest first.
pub fn events() -> Vec<PastEvent> {
    let event = |seconds: i64, severity, kind: &str, text: &str| PastEvent {
        id: seconds,
        time: Timestamp(NOW.0 - seconds * 1000),
        severity,
        kind: kind.into(),
        subject: "object:1".into(),
        text: text.into(),
        user: None,
    };
    vec![
        event(1200, Severity::Info, "resync-started", "erp-db: part B2 is copied to h4-cap1"),
        event(1260, Severity::Error, "disk-failed", "Disk h4-cap2 reported unrecoverable read errors"),
        event(1320, Severity::Warning, "host-absent", "h3 stopped answering"),
    ]
}
