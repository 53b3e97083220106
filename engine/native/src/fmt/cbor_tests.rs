//! The descriptor and the cluster configuration: round trip, unknown keys, damage.
use super::cbor::{Cbor, CborError, MapReader, MapWriter, Unknown, seal};
use super::config::{ClusterConfig, ConfigDisk, ConfigHost};
use super::descriptor::{Cursor, Leg, Node, ObjectDescriptor};
use model::ids::{ClusterId, ComponentId, DiskGroupId, DiskId, HostId, ObjectId};
use model::policy::Policy;
use model::state::{ClusterType, ComponentState, DiskRole, HostKind, HostRole};
use model::units::Timestamp;
use model::view::ObjectType;
use proptest::prelude::*;

fn unknown() -> impl Strategy<Value = Unknown> {
    prop::collection::btree_map(100u64..1 << 40, any::<u64>(), 0..3).prop_map(|keys| {
        let raw = |value: u64| {
            let mut out = Vec::new();
            vec![value, 7].write(&mut out);
            out
        };
        keys.into_iter().map(|(key, value)| (key, raw(value))).collect()
    })
}

prop_compose! {
    fn leg()(
        seed in any::<[u8; 16]>(), site in any::<Option<String>>(), size_bytes in any::<u64>(), votes in 0u32..9,
        stale_from in any::<Option<u64>>(), absent in any::<Option<i64>>(), cursor in any::<Option<(u64, u64)>>(),
        lost in prop::collection::vec(any::<(u64, u64)>(), 0..3), unknown in unknown(), state in 0usize..6,
    ) -> Leg {
        use ComponentState::*;
        Leg {
            component: ComponentId::from_random(seed),
            host: HostId::from_random(seed),
            fault_domain: "rack 1".into(),
            site,
            disk_group: DiskGroupId::from_random(seed),
            disk: DiskId::from_random(seed),
            size_bytes,
            votes,
            state: [Active, Absent, Degraded, Stale, Resyncing, Reconfiguring][state],
            state_since: Timestamp(-1),
            stale_from,
            absent_since: absent.map(Timestamp),
            cursor: cursor.map(|(extent, oseq)| Cursor { extent, oseq }),
            lost,
            unknown,
        }
    }
}

fn node() -> impl Strategy<Value = Node> {
    leg().prop_map(|leg| Node::Leaf(Box::new(leg))).prop_recursive(4, 12, 3, |inner| {
        let children = || prop::collection::vec(inner.clone(), 0..3);
        prop_oneof![
            children().prop_map(Node::Concat),
            children().prop_map(Node::Stripe),
            children().prop_map(Node::Mirror),
            (any::<u8>(), any::<u8>(), children()).prop_map(|(k, m, children)| Node::Ec { k, m, children }),
        ]
    })
}

prop_compose! {
    fn descriptor()(
        layout in node(), witnesses in prop::collection::vec(leg(), 0..3), name in any::<String>(),
        csn in any::<(u64, u64)>(), gone in any::<Option<[u8; 16]>>(), unknown in unknown(),
        iops_limit in any::<Option<u32>>(),
    ) -> ObjectDescriptor {
        ObjectDescriptor {
            uuid: ObjectId::from_random([7; 16]),
            name,
            object_type: ObjectType::Volume,
            size_bytes: 1 << 30,
            created_at: Timestamp(5),
            csn,
            layout,
            witnesses,
            policy: Policy { iops_limit, ..Policy::built_in() },
            owner_epoch: csn.0,
            tombstone: gone.map(|seed| vec![ComponentId::from_random(seed)]),
            unknown,
        }
    }
}

prop_compose! {
    fn config()(
        name in any::<String>(), version in any::<(u64, u64)>(), domain in any::<Option<String>>(),
        licence_key in any::<Option<String>>(), maintenance in any::<bool>(), unknown in unknown(),
    ) -> ClusterConfig {
        let host = HostId::from_random([1; 16]);
        ClusterConfig {
            id: ClusterId::from_random([2; 16]),
            name,
            version,
            created_at: Timestamp(1),
            hosts: vec![ConfigHost {
                id: host,
                name: "h1".into(),
                kind: HostKind::Lab,
                role: HostRole::Data,
                fault_domain: domain.clone(),
                site: domain,
                maintenance,
                unknown: unknown.clone(),
            }],
            disks: vec![ConfigDisk {
                id: DiskId::from_random([3; 16]),
                name: "h1-cap1".into(),
                host,
                role: DiskRole::Combined,
                disk_group: DiskGroupId::from_random([4; 16]),
                serves: Vec::new(),
                unknown: unknown.clone(),
            }],
            policies: vec![Policy::built_in()],
            default_policy: "default".into(),
            repair_delay_seconds: 3600,
            licence_key,
            cluster_type: ClusterType::SingleSite,
            sites: vec!["a".into()],
            unknown,
        }
    }
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(64))]

    #[test]
    fn descriptor_comes_back_equal(descriptor in descriptor()) {
        prop_assert_eq!(ObjectDescriptor::from_bytes(&descriptor.to_bytes()), Ok(descriptor));
    }

    #[test]
    fn configuration_comes_back_equal(config in config()) {
        prop_assert_eq!(ClusterConfig::from_bytes(&config.to_bytes()), Ok(config));
    }

    #[test]
    fn flipped_bits_and_cuts_are_refused(descriptor in descriptor(), at in any::<prop::sample::Index>(), bit in 0u8..8) {
        let mut bytes = descriptor.to_bytes();
        let at = at.index(bytes.len());
        prop_assert!(ObjectDescriptor::from_bytes(&bytes[..at]).is_err());
        bytes[at] ^= 1 << bit;
        prop_assert_eq!(ObjectDescriptor::from_bytes(&bytes), Err(CborError::Checksum));
    }

    /// Damage below a right checksum (a mistake of a writer) is an error or a value, never a panic.
    #[test]
    fn garbage_never_panics(
        descriptor in descriptor(), config in config(), at in any::<prop::sample::Index>(), byte in any::<u8>(),
        garbage in prop::collection::vec(any::<u8>(), 0..64),
    ) {
        let _ = ObjectDescriptor::read(&garbage);
        let _ = ClusterConfig::read(&garbage);
        for mut body in [written(&descriptor), written(&config)] {
            let at = at.index(body.len());
            body[at] = byte;
            let _ = ObjectDescriptor::read(&body);
            let _ = ClusterConfig::read(&body);
        }
    }
}

fn written(value: &impl Cbor) -> Vec<u8> {
    let mut out = Vec::new();
    value.write(&mut out);
    out
}

/// One map from scratch, sealed as a structure would be.
struct Raw(MapWriter);

impl Cbor for Raw {
    fn write(&self, out: &mut Vec<u8>) {
        self.0.finish(out);
    }
    fn read(_: &[u8]) -> Result<Self, CborError> {
        Err(CborError::TooDeep)
    }
}

#[test]
fn deep_nesting_is_refused_without_deep_recursion() {
    let mut node = Node::Concat(vec![]);
    for _ in 0..1000 {
        node = Node::Concat(vec![node]);
    }
    assert_eq!(Node::read(&written(&node)), Err(CborError::TooDeep));
}

#[test]
fn reserved_keys_are_refused_by_name() {
    let mut map = MapWriter::new(&Unknown::new());
    map.put(11, &1u8);
    let error = ObjectDescriptor::from_bytes(&seal(&Raw(map))).unwrap_err();
    assert_eq!(error.to_string(), "snapshots are not supported by this version");
}

#[test]
fn key_standing_twice_is_refused() {
    assert_eq!(MapReader::new(&[0xa2, 1, 2, 1, 3]).err(), Some(CborError::Duplicate(1)));
}
