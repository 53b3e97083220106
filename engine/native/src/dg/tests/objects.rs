//! Objects whose legs lie in real groups on simulated disks: what the two layers owe each other.
use super::super::*;
use super::run;
use super::world::*;
use crate::fmt::descriptor::{Leg, Node, ObjectDescriptor};
use crate::io::Env;
use crate::io::sim::Misbehaviour;
use crate::obj::store::Members;
use crate::obj::{Boot, Config, DgLeg, Object, Owner, quorum};
use futures_util::future::try_join_all;
use model::ids::HostId;
use model::policy::Policy;
use model::state::ComponentState;
use model::units::{BLOCK_BYTES, Timestamp};
use model::view::ObjectType;
use std::cell::RefCell;
use std::time::Duration;

/// One group for each leg, by its place in the descriptor.
struct Groups(RefCell<Vec<(ComponentId, DgLeg)>>);

impl Members<DgLeg> for Groups {
    fn components(&self, _: ObjectId) -> Vec<(ComponentId, DgLeg)> {
        self.0.borrow().clone()
    }

    fn host_name(&self, host: HostId) -> String {
        host.to_string()
    }
}

fn leg(number: u8, size_bytes: u64) -> Leg {
    Leg {
        component: ComponentId::from_random([number; 16]),
        host: HostId::from_random([number; 16]),
        fault_domain: format!("h{number}"),
        site: None,
        disk_group: group_id(),
        disk: disk_id(1),
        size_bytes,
        votes: 1,
        state: ComponentState::Active,
        state_since: Timestamp(0),
        stale_from: None,
        absent_since: None,
        cursor: None,
        lost: Vec::new(),
        unknown: Default::default(),
    }
}

/// A mirror of two legs and a witness, each in a group of its own with a log of `log_bytes`.
async fn mirror(size_bytes: u64, log_bytes: u64) -> (Object, Vec<World>, Rc<Groups>) {
    let uuid = ObjectId::from_random([9; 16]);
    let mut descriptor = ObjectDescriptor {
        uuid,
        name: "v".into(),
        object_type: ObjectType::Volume,
        size_bytes,
        created_at: Timestamp(0),
        csn: (1, 1),
        layout: Node::Mirror((1..3).map(|n| Node::Leaf(Box::new(leg(n, size_bytes)))).collect()),
        witnesses: vec![leg(3, 0)],
        policy: Policy::built_in(),
        owner_epoch: 1,
        tombstone: None,
        unknown: Default::default(),
    };
    quorum::revote(&mut descriptor);
    let bytes: Rc<[u8]> = descriptor.to_bytes().into();
    let (mut worlds, mut found) = (Vec::new(), Vec::new());
    for leg in descriptor.legs() {
        let mut world = World::new(worlds.len() as u64, 1, log_bytes, false).await;
        let dg = world.open().await;
        let new = NewComponent {
            component: leg.component,
            object: uuid,
            kind: if leg.size_bytes == 0 { ComponentKind::Witness } else { ComponentKind::Data },
            size_blocks: leg.size_bytes / BLOCK_BYTES,
            csn: descriptor.csn,
            descriptor: bytes.clone(),
        };
        let local = dg.create_component(disk_id(1), new).await.unwrap();
        found.push((leg.component, DgLeg::new(dg, local)));
        worlds.push(world);
    }
    let groups = Rc::new(Groups(RefCell::new(found)));
    let env = Env::seeded(1, Timestamp(0));
    let observer = Rc::new(|_, _| {});
    let opened = Owner::open(uuid, groups.clone(), Boot::new(2), env, Config::default(), observer).await;
    (opened.unwrap(), worlds, groups)
}

#[test]
fn writes_longer_than_the_log_go_through() {
    run(async {
        let (object, _worlds, _) = mirror(40 * MIB, 16 * MIB).await;
        let write = async |n: u64| {
            let bytes = vec![n as u8 + 1; 20 << 20];
            object.write_bytes(n * (20 << 20), &bytes, false).await
        };
        let both = try_join_all((0..2).map(write));
        tokio::time::timeout(Duration::from_secs(600), both).await.expect("they do not hang").unwrap();
        let read = object.read_bytes(19 << 20, 2 << 20).await.unwrap();
        assert!(
            read[..1 << 20].iter().all(|byte| *byte == 1) && read[1 << 20..].iter().all(|byte| *byte == 2)
        );
    });
}

#[test]
fn a_silent_leg_is_marked_before_the_acknowledgement() {
    run(async {
        let (object, worlds, _) = mirror(4 * MIB, 4 * MIB).await;
        object.write_bytes(0, &[1; 4096], true).await.unwrap();
        worlds[1].log.misbehave(Misbehaviour { latency_ms_max: 1_000_000_000, ..Misbehaviour::default() });
        let write = object.write_bytes(0, &[2; 4096], false);
        tokio::time::timeout(Duration::from_secs(30), write)
            .await
            .expect("a silent leg is given up")
            .unwrap();
        let marks: Vec<bool> =
            object.descriptor().layout.legs().iter().map(|l| l.stale_from.is_some()).collect();
        assert_eq!(marks, [false, true]);
        assert_eq!(object.read_bytes(0, 4096).await.unwrap(), [2; 4096]);
    });
}
