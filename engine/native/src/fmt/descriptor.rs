//! The object descriptor: who an object is, where its components lie, and which of them are current.
//!
//! One sealed CBOR map (see [`super::cbor`]) stands in every component of the object. Keys, all of them:
//!
//! ```text
//! descriptor  0 uuid · 1 name · 2 type · 3 size, bytes · 4 created · 5 (epoch, CSN) · 6 layout · 7 witnesses · 8 policy
//!             9 owner epoch · 10 tombstone: components still to be confirmed gone · 11 snapshots (reserved)
//!             12 durability components (reserved)
//! node        0 kind: 1 concat, 2 stripe, 3 mirror, 4 erasure, 5 leaf · 1 children · 2 k · 3 m · 4 leg
//! leg         0 component · 1 host · 2 fault domain · 3 site · 4 disk group · 5 disk · 6 size, bytes · 7 votes · 8 state
//!             9 state since · 10 stale from · 11 absent since · 12 resync cursor (extent, sequence) · 13 lost blocks
//! policy      0 name · 1 failures to tolerate · 2 method · 3 data legs · 4 stripe width · 5 reservation, percent
//!             6 IOPS limit · 7 checksum · 8 force provisioning · 9 site tolerance · 10 version
//! ```
//!
//! Invariants: descriptors of one object are ordered by (epoch, CSN); the winning one is the highest among components that hold
//! more than half of its votes; `stale_from` never rises while it is set; unknown keys of the
//! descriptor and of its legs survive a rewrite.
use super::cbor::{self, Cbor, CborError, MapReader, MapWriter, Unknown, numbered};
use model::ids::{ComponentId, DiskGroupId, DiskId, HostId, ObjectId};
use model::policy::{FaultToleranceMethod, Policy, SiteTolerance};
use model::state::ComponentState;
use model::units::Timestamp;
use model::view::ObjectType;

/// Order of the descriptors of one object: (boot epoch, change number).
pub type Csn = (u64, u64);

/// Nodes above a leaf: concatenation, stripe, mirror of sites, mirror. Deeper is no valid layout.
const DEPTH_MAX: u32 = 8;

numbered!(ObjectType, "object type", Volume = 1);
numbered!(FaultToleranceMethod, "fault tolerance method", Raid1 = 1, Raid5 = 2, Raid6 = 3);
numbered!(SiteTolerance, "site tolerance", None = 0, Mirroring = 1, Preferred = 2, Secondary = 3);
// 7 is reserved for durability components.
numbered!(
    ComponentState,
    "component state",
    Active = 1,
    Absent = 2,
    Degraded = 3,
    Stale = 4,
    Resyncing = 5,
    Reconfiguring = 6,
);

/// One object as its components know it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectDescriptor {
    /// Identity.
    pub uuid: ObjectId,
    /// Name.
    pub name: String,
    /// What it is for.
    pub object_type: ObjectType,
    /// Size that a client sees.
    pub size_bytes: u64,
    /// When it was made.
    pub created_at: Timestamp,
    /// Order of this descriptor among those of the object.
    pub csn: Csn,
    /// Where its bytes lie.
    pub layout: Node,
    /// Components that only vote.
    pub witnesses: Vec<Leg>,
    /// The policy that the layout follows, in full.
    pub policy: Policy,
    /// Boot epoch of the owner that wrote this.
    pub owner_epoch: u64,
    /// Set once the object is deleted: the components not yet confirmed gone.
    pub tombstone: Option<Vec<ComponentId>>,
    /// Keys of a later version.
    pub unknown: Unknown,
}

/// One node of the layout.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Node {
    /// Pieces one after the other.
    Concat(Vec<Node>),
    /// Columns, 1 MiB units in turn.
    Stripe(Vec<Node>),
    /// Equal copies.
    Mirror(Vec<Node>),
    /// Parity group of `k` data and `m` parity legs.
    Ec {
        /// Data legs.
        k: u8,
        /// Parity legs.
        m: u8,
        /// Data legs, then parity legs.
        children: Vec<Node>,
    },
    /// A component.
    Leaf(Box<Leg>),
}

/// One component of an object.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Leg {
    /// Identity.
    pub component: ComponentId,
    /// Host that it lies on.
    pub host: HostId,
    /// Effective fault domain.
    pub fault_domain: String,
    /// Site, in a stretched cluster.
    pub site: Option<String>,
    /// Disk group.
    pub disk_group: DiskGroupId,
    /// Disk.
    pub disk: DiskId,
    /// Address space, a multiple of a block; 0 for a witness.
    pub size_bytes: u64,
    /// Votes.
    pub votes: u32,
    /// State when this descriptor was written.
    pub state: ComponentState,
    /// Since when.
    pub state_since: Timestamp,
    /// The component has every write up to this sequence and may lack later ones. `None`: it is current.
    pub stale_from: Option<u64>,
    /// Since when it is away: the repair timer counts from here.
    pub absent_since: Option<Timestamp>,
    /// How far a resync has come.
    pub cursor: Option<Cursor>,
    /// Blocks of which no good copy was left when this component was built: (first block, count).
    pub lost: Vec<(u64, u64)>,
    /// Keys of a later version.
    pub unknown: Unknown,
}

/// How far a resync has come: extents before `extent` hold every write up to `oseq`, on stable media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Cursor {
    /// First extent of the component that is not yet done.
    pub extent: u64,
    /// The object's stable sequence when the cursor was written.
    pub oseq: u64,
}

impl ObjectDescriptor {
    /// The bytes that every component carries.
    pub fn to_bytes(&self) -> Vec<u8> {
        cbor::seal(self)
    }

    /// Reads the bytes of a component; an error says what is wrong with them.
    pub fn from_bytes(bytes: &[u8]) -> Result<Self, CborError> {
        cbor::open(bytes)
    }

    /// Every component: data legs in layout order, then witnesses.
    pub fn legs(&self) -> Vec<&Leg> {
        let mut legs = self.layout.legs();
        legs.extend(&self.witnesses);
        legs
    }

    /// Calls `change` for every component: data legs in layout order, then witnesses.
    pub fn for_each_leg_mut(&mut self, change: &mut dyn FnMut(&mut Leg)) {
        self.layout.for_each_leg_mut(change);
        self.witnesses.iter_mut().for_each(change);
    }

    /// The component `id`, if the object has it.
    pub fn leg(&self, id: ComponentId) -> Option<&Leg> {
        self.legs().into_iter().find(|leg| leg.component == id)
    }

    /// All votes.
    pub fn votes_total(&self) -> u32 {
        self.legs().iter().map(|leg| leg.votes).sum()
    }
}

impl Node {
    /// Data legs below this node, in order.
    pub fn legs(&self) -> Vec<&Leg> {
        match self {
            Self::Leaf(leg) => vec![leg],
            Self::Concat(children)
            | Self::Stripe(children)
            | Self::Mirror(children)
            | Self::Ec { children, .. } => children.iter().flat_map(Self::legs).collect(),
        }
    }

    /// Calls `change` for every data leg below this node, in order.
    pub fn for_each_leg_mut(&mut self, change: &mut dyn FnMut(&mut Leg)) {
        match self {
            Self::Leaf(leg) => change(leg),
            Self::Concat(children)
            | Self::Stripe(children)
            | Self::Mirror(children)
            | Self::Ec { children, .. } => {
                children.iter_mut().for_each(|child| child.for_each_leg_mut(change))
            }
        }
    }

    fn read_at(bytes: &[u8], depth: u32) -> Result<Self, CborError> {
        if depth > DEPTH_MAX {
            return Err(CborError::TooDeep);
        }
        let mut map = MapReader::new(bytes)?;
        let kind = map.take::<u64>(0)?;
        if kind == 5 {
            return Ok(Self::Leaf(Box::new(map.take(4)?)));
        }
        let children = cbor::array(map.raw(1)?)?;
        let children =
            children.into_iter().map(|child| Self::read_at(child, depth + 1)).collect::<Result<_, _>>()?;
        match kind {
            1 => Ok(Self::Concat(children)),
            2 => Ok(Self::Stripe(children)),
            3 => Ok(Self::Mirror(children)),
            4 => Ok(Self::Ec { k: map.take(2)?, m: map.take(3)?, children }),
            value => Err(CborError::Unnamed { what: "layout node", value }),
        }
    }
}

impl Cbor for Node {
    fn write(&self, out: &mut Vec<u8>) {
        let mut map = MapWriter::new(&Unknown::new());
        match self {
            Self::Concat(children) => map.put(0, &1u8).put(1, children),
            Self::Stripe(children) => map.put(0, &2u8).put(1, children),
            Self::Mirror(children) => map.put(0, &3u8).put(1, children),
            Self::Ec { k, m, children } => map.put(0, &4u8).put(1, children).put(2, k).put(3, m),
            Self::Leaf(leg) => map.put(0, &5u8).put(4, &**leg),
        };
        map.finish(out);
    }

    fn read(bytes: &[u8]) -> Result<Self, CborError> {
        Self::read_at(bytes, 0)
    }
}

impl Cbor for Leg {
    fn write(&self, out: &mut Vec<u8>) {
        let mut map = MapWriter::new(&self.unknown);
        map.put(0, &self.component)
            .put(1, &self.host)
            .put(2, &self.fault_domain)
            .put_some(3, self.site.as_ref());
        map.put(4, &self.disk_group).put(5, &self.disk).put(6, &self.size_bytes).put(7, &self.votes);
        map.put(8, &self.state).put(9, &self.state_since).put_some(10, self.stale_from.as_ref());
        map.put_some(11, self.absent_since.as_ref());
        map.put_some(12, self.cursor.map(|cursor| (cursor.extent, cursor.oseq)).as_ref());
        map.put_some(13, Some(&self.lost).filter(|lost| !lost.is_empty()));
        map.finish(out);
    }

    fn read(bytes: &[u8]) -> Result<Self, CborError> {
        let mut map = MapReader::new(bytes)?;
        Ok(Self {
            component: map.take(0)?,
            host: map.take(1)?,
            fault_domain: map.take(2)?,
            site: map.take_some(3)?,
            disk_group: map.take(4)?,
            disk: map.take(5)?,
            size_bytes: map.take(6)?,
            votes: map.take(7)?,
            state: map.take(8)?,
            state_since: map.take(9)?,
            stale_from: map.take_some(10)?,
            absent_since: map.take_some(11)?,
            cursor: map.take_some(12)?.map(|(extent, oseq)| Cursor { extent, oseq }),
            lost: map.take_list(13)?,
            unknown: map.unknown(),
        })
    }
}

impl Cbor for Policy {
    fn write(&self, out: &mut Vec<u8>) {
        let mut map = MapWriter::new(&Unknown::new());
        map.put(0, &self.name).put(1, &self.failures_to_tolerate).put(2, &self.fault_tolerance_method);
        map.put_some(3, self.data_legs.as_ref()).put(4, &self.stripe_width);
        map.put(5, &self.object_space_reservation_percent).put_some(6, self.iops_limit.as_ref());
        map.put(7, &self.checksum).put(8, &self.force_provisioning).put(9, &self.site_tolerance);
        map.put(10, &self.version).finish(out);
    }

    fn read(bytes: &[u8]) -> Result<Self, CborError> {
        let mut map = MapReader::new(bytes)?;
        Ok(Self {
            name: map.take(0)?,
            failures_to_tolerate: map.take(1)?,
            fault_tolerance_method: map.take(2)?,
            data_legs: map.take_some(3)?,
            stripe_width: map.take(4)?,
            object_space_reservation_percent: map.take(5)?,
            iops_limit: map.take_some(6)?,
            checksum: map.take(7)?,
            force_provisioning: map.take(8)?,
            site_tolerance: map.take(9)?,
            version: map.take(10)?,
        })
    }
}

impl Cbor for ObjectDescriptor {
    fn write(&self, out: &mut Vec<u8>) {
        let mut map = MapWriter::new(&self.unknown);
        map.put(0, &self.uuid).put(1, &self.name).put(2, &self.object_type).put(3, &self.size_bytes);
        map.put(4, &self.created_at).put(5, &self.csn).put(6, &self.layout).put(7, &self.witnesses);
        map.put(8, &self.policy).put(9, &self.owner_epoch).put_some(10, self.tombstone.as_ref());
        map.finish(out);
    }

    fn read(bytes: &[u8]) -> Result<Self, CborError> {
        let mut map = MapReader::new(bytes)?;
        map.refuse(11, "snapshots")?;
        map.refuse(12, "durability components")?;
        Ok(Self {
            uuid: map.take(0)?,
            name: map.take(1)?,
            object_type: map.take(2)?,
            size_bytes: map.take(3)?,
            created_at: map.take(4)?,
            csn: map.take(5)?,
            layout: map.take(6)?,
            witnesses: map.take(7)?,
            policy: map.take(8)?,
            owner_epoch: map.take(9)?,
            tombstone: map.take_some(10)?,
            unknown: map.unknown(),
        })
    }
}
