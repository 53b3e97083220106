//! Hosts with a disk group each, and one mirrored object over them: what random worlds and scripts play with.
//!
//! Map: [`Shape`] how many of what · [`Cluster`] boots, crashes, loses and regains hosts, resyncs, heals, compares.
//! Invariant: it does nothing by itself: whoever plays decides what happens when.
use super::content::SECTOR;
use super::group::{Group, Limits};
use super::reference::{Outage, Violation};
use super::volume::{Directory, ObjectVolume};
use crate::cap::Content;
use crate::dg::{Dg, NewComponent};
use crate::fmt::component::ComponentKind;
use crate::fmt::descriptor::{Leg, Node, ObjectDescriptor};
use crate::io::Env;
use crate::io::sim::{Events, Misbehaviour};
use crate::obj::store::{Members, Store};
use crate::obj::{Boot, Config, DgLeg, ObjError, Owner, quorum};
use model::ids::{ClusterId, ComponentId, HostId, ObjectId};
use model::policy::Policy;
use model::state::ComponentState;
use model::units::{BLOCK_BYTES, Timestamp};
use model::view::ObjectType;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

/// Bytes of each component: one stripe unit.
pub const COLUMN_BYTES: u64 = 1 << 20;
/// Patience of a healing cluster with one resync after the other.
const ROUNDS: usize = 40;

/// How many of what a cluster has.
#[derive(Clone, Copy, Debug)]
pub struct Shape {
    /// Hosts that may be lost: each column has one leg more.
    pub tolerates: usize,
    /// Columns that the object is striped over.
    pub columns: usize,
    /// Hosts between the first legs of two columns: with none all columns share their hosts and logs.
    pub step: usize,
    /// Hosts; those without a leg hold a witness.
    pub hosts: usize,
}

impl Shape {
    /// A mirror of two legs and a witness.
    pub const MIRROR: Self = Self { tolerates: 1, columns: 1, step: 0, hosts: 3 };
}

/// Hosts and one object.
pub struct Cluster {
    /// By number.
    pub hosts: Vec<Group>,
    /// Which hosts run.
    pub up: Vec<bool>,
    /// Where the object finds its components.
    pub directory: Rc<Directory>,
    /// Counter of all disks.
    pub events: Events,
    /// The world's randomness.
    pub env: Env,
    /// What was asked for.
    pub shape: Shape,
    /// Of the object.
    pub config: Config,
    /// The object while it is open.
    pub owner: Option<Owner<DgLeg>>,
    /// Boot epoch.
    pub epoch: u32,
    /// Gives out the numbers of this epoch.
    pub boot: Rc<Boot>,
    object: ObjectId,
    made: bool,
}

/// An error as a broken promise.
pub fn broken(what: &str, error: &dyn std::error::Error) -> Violation {
    Violation(format!("{what}: {error}"))
}

impl Cluster {
    /// Draws the hosts of `shape` in a cluster called `id`.
    pub fn draw(env: &Env, id: [u8; 16], shape: Shape, limits: &Limits) -> Self {
        let events = Events::default();
        let cluster = ClusterId::from_random(id);
        let hosts: Vec<Group> = (0..shape.hosts)
            .map(|_| {
                let host = HostId::from_random(env.id_bytes());
                let caps = if limits.apart { 1 } else { env.below(2) as usize };
                Group::draw(env, &events, cluster, host, caps, limits)
            })
            .collect();
        Self {
            up: vec![true; hosts.len()],
            hosts,
            directory: Rc::default(),
            events,
            env: env.clone(),
            shape,
            config: Config::default(),
            owner: None,
            epoch: 0,
            boot: Boot::new(0),
            object: ObjectId::from_random(env.id_bytes()),
            made: false,
        }
    }

    /// Size of the object, sectors.
    pub fn sectors(&self) -> u64 {
        self.shape.columns as u64 * COLUMN_BYTES / SECTOR
    }

    /// The object that is open.
    pub fn object(&self) -> Result<Owner<DgLeg>, Violation> {
        self.owner.clone().ok_or_else(|| Violation("no object is open".to_owned()))
    }

    /// A number for a change of a descriptor, above all of this epoch.
    pub fn next_csn(&self) -> (u64, u64) {
        self.boot.next_csn()
    }

    /// How many components of an object the hosts that run hold.
    pub fn components(&self, object: ObjectId) -> usize {
        self.directory.components(object).len()
    }

    /// Removes what is left of an object that was never whole.
    pub async fn remove(&self, object: ObjectId) -> Result<(), Violation> {
        for (_, leg) in self.directory.components(object) {
            leg.delete().await.map_err(|error| broken("removing a component", &error))?;
        }
        Ok(())
    }

    /// The running group of a host.
    pub fn dg(&self, host: usize) -> Result<Dg, Violation> {
        let dg = self.directory.0.borrow().get(host).cloned().flatten();
        dg.ok_or_else(|| Violation(format!("host {host} does not run")))
    }

    /// A new leg on `host`, a witness when `size_bytes` is 0.
    pub fn leg(&self, host: usize, size_bytes: u64) -> Leg {
        let group = &self.hosts[host];
        Leg {
            component: ComponentId::from_random(self.env.id_bytes()),
            host: group.host,
            fault_domain: format!("h{host}"),
            site: None,
            disk_group: group.id,
            disk: group.caps[0].0,
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

    /// The descriptor of a new object of a shape.
    pub fn descriptor(&self, uuid: ObjectId, shape: Shape) -> ObjectDescriptor {
        let Shape { tolerates, columns, step, hosts } = shape;
        let hosts_of = |column| (0..=tolerates).map(move |leg| (column * step + leg) % hosts);
        let column = |column| {
            let legs = hosts_of(column).map(|host| Node::Leaf(Box::new(self.leg(host, COLUMN_BYTES))));
            Node::Mirror(legs.collect())
        };
        let mut layouts: Vec<Node> = (0..columns).map(column).collect();
        let layout = if layouts.len() == 1 { layouts.remove(0) } else { Node::Stripe(layouts) };
        let with_leg: BTreeSet<usize> = (0..columns).flat_map(hosts_of).collect();
        let mut descriptor = ObjectDescriptor {
            uuid,
            name: "v".to_owned(),
            object_type: ObjectType::Volume,
            size_bytes: columns as u64 * COLUMN_BYTES,
            created_at: Timestamp(0),
            csn: (u64::from(self.epoch), 1),
            layout,
            witnesses: (0..hosts).filter(|host| !with_leg.contains(host)).map(|h| self.leg(h, 0)).collect(),
            policy: Policy::built_in(),
            owner_epoch: self.epoch.into(),
            tombstone: None,
            unknown: Default::default(),
        };
        quorum::revote(&mut descriptor);
        descriptor
    }

    /// Makes the components of an object on the hosts that run.
    pub async fn make(&self, descriptor: &ObjectDescriptor) -> Result<(), Violation> {
        let bytes: Rc<[u8]> = descriptor.to_bytes().into();
        for leg in descriptor.legs() {
            let host = self.hosts.iter().position(|group| group.host == leg.host).expect("drawn from them");
            let new = NewComponent {
                component: leg.component,
                object: descriptor.uuid,
                kind: if leg.size_bytes == 0 { ComponentKind::Witness } else { ComponentKind::Data },
                size_blocks: leg.size_bytes / BLOCK_BYTES,
                csn: descriptor.csn,
                descriptor: Rc::clone(&bytes),
            };
            let made = self.dg(host)?.create_component(leg.disk, new).await;
            made.map_err(|error| broken("making a component", &error))?;
        }
        Ok(())
    }

    /// Components of the object on a host.
    pub fn components_of(&self, host: usize) -> Vec<ComponentId> {
        let Some(owner) = &self.owner else { return Vec::new() };
        let host = self.hosts[host].host;
        let descriptor = owner.descriptor();
        let legs = descriptor.legs();
        legs.into_iter().filter(|leg| leg.host == host).map(|leg| leg.component).collect()
    }

    /// Hosts that are away or hold something that is not current.
    pub fn hurt(&self) -> BTreeSet<usize> {
        let mut hurt: BTreeSet<usize> = (0..self.hosts.len()).filter(|host| !self.up[*host]).collect();
        let Some(owner) = &self.owner else { return hurt };
        for leg in owner.descriptor().legs() {
            if leg.state != ComponentState::Active || leg.stale_from.is_some() {
                hurt.extend(self.hosts.iter().position(|group| group.host == leg.host));
            }
        }
        hurt
    }

    /// Starts all hosts that are up, in a new epoch, and opens the object.
    pub async fn boot(&mut self) -> Result<ObjectVolume, Violation> {
        self.start_hosts().await.map_err(|(_, violation)| violation)?;
        let owner =
            self.open_object().await.map_err(|error| broken("the object cannot be opened", &error))?;
        Ok(ObjectVolume(owner))
    }

    /// Starts all hosts that are up, in a new epoch. The first time the disks are formatted and the object is made. The error
    /// names the host that did not start.
    pub async fn start_hosts(&mut self) -> Result<(), (usize, Violation)> {
        if !self.made {
            self.events.stop_after(None);
        }
        let mut labels = Vec::new();
        for host in 0..self.hosts.len() {
            let group = &self.hosts[host];
            if !self.made {
                group.format().await.map_err(|violation| (host, violation))?;
            }
            labels.push(match self.up[host] {
                true => Some(group.load().await.map_err(|violation| (host, violation))?),
                false => None,
            });
        }
        self.epoch = 1 + labels.iter().flatten().map(|labels| labels.epoch()).max().unwrap_or(0);
        self.boot = Boot::new(self.epoch.into());
        self.directory.0.replace(vec![None; labels.len()]);
        for (host, labels) in labels.into_iter().enumerate() {
            if let Some(labels) = labels {
                let opened = self.hosts[host].open(labels, self.epoch).await;
                let dg = opened.map_err(|violation| (host, violation))?;
                self.directory.0.borrow_mut()[host] = Some(dg);
            }
        }
        if !self.made {
            self.make(&self.descriptor(self.object, self.shape)).await.map_err(|violation| (0, violation))?;
            self.made = true;
        }
        Ok(())
    }

    /// Opens the object on the hosts that run.
    pub async fn open_object(&mut self) -> Result<Owner<DgLeg>, ObjError> {
        let opened = self.open(self.object).await;
        if let Ok(owner) = &opened {
            self.owner = Some(owner.clone());
        }
        opened
    }

    /// Opens any object.
    pub async fn open(&self, object: ObjectId) -> Result<Owner<DgLeg>, ObjError> {
        let boot = self.boot.clone();
        let members: Rc<dyn Members<DgLeg>> = self.directory.clone();
        Owner::open(object, members, boot, self.env.clone(), self.config, Rc::new(|_, _| {})).await
    }

    /// Everything stops at once.
    pub fn crash(&mut self, outage: Outage) {
        self.owner = None;
        self.directory.0.borrow_mut().clear();
        for (host, up) in self.hosts.iter_mut().zip(&self.up) {
            if *up {
                host.crash(outage);
            }
        }
    }

    /// One host goes away. Nobody is told.
    pub fn lose(&mut self, host: usize, outage: Outage) {
        self.up[host] = false;
        if let Some(entry) = self.directory.0.borrow_mut().get_mut(host) {
            *entry = None;
        }
        self.hosts[host].crash(outage);
    }

    /// One host goes away, and the object hears of it before it goes on.
    pub async fn lose_and_tell(&mut self, host: usize, outage: Outage) {
        self.lose(host, outage);
        if let Some(owner) = &self.owner {
            owner.legs_gone(&self.components_of(host)).await;
        }
    }

    /// One host starts, in the running epoch; the object is not told.
    pub async fn start(&mut self, host: usize) -> Result<(), Violation> {
        let labels = self.hosts[host].load().await?;
        let dg = self.hosts[host].open(labels, self.epoch).await?;
        self.directory.0.borrow_mut()[host] = Some(dg);
        self.up[host] = true;
        Ok(())
    }

    /// The object hears that a host was away, perhaps for the first time, and that it is back.
    pub async fn tell_of_return(&self, host: usize) -> Result<(), ObjError> {
        let components = self.components_of(host);
        let Some(owner) = &self.owner else { return Ok(()) };
        owner.legs_gone(&components).await;
        owner.legs_returned(&components).await
    }

    /// One host returns, in the running epoch.
    pub async fn regain(&mut self, host: usize) -> Result<(), Violation> {
        self.start(host).await?;
        self.tell_of_return(host).await.map_err(|error| Violation(format!("a host returned: {error}")))
    }

    /// Hosts that run without a component that the object has there: that it was made stood only in a log that rotted.
    pub fn lacking(&self) -> BTreeSet<usize> {
        let Some(owner) = &self.owner else { return BTreeSet::new() };
        let known: BTreeSet<ComponentId> =
            self.directory.components(self.object).into_iter().map(|(component, _)| component).collect();
        let descriptor = owner.descriptor();
        let missing = descriptor.legs().into_iter().filter(|leg| !known.contains(&leg.component));
        missing.filter_map(|leg| self.hosts.iter().position(|group| group.host == leg.host)).collect()
    }

    /// Legs that a resync can make current.
    pub fn stale(&self) -> Vec<ComponentId> {
        let Some(owner) = &self.owner else { return Vec::new() };
        let descriptor = owner.descriptor();
        let legs = descriptor.legs();
        let stale = legs.into_iter().filter(|leg| {
            matches!(leg.state, ComponentState::Stale | ComponentState::Resyncing) && leg.size_bytes > 0
        });
        stale.map(|leg| leg.component).collect()
    }

    /// Heals every disk, regains every host and resyncs until all but the hosts in `given_up` are current.
    pub async fn heal(&mut self, given_up: &BTreeSet<usize>) -> Result<(), Violation> {
        for host in 0..self.hosts.len() {
            self.hosts[host].disks().for_each(|disk| disk.misbehave(Misbehaviour::default()));
            if !self.up[host] && !given_up.contains(&host) {
                self.regain(host).await?;
            }
        }
        let Some(owner) = self.owner.clone() else { return Ok(()) };
        for _ in 0..ROUNDS {
            // A disk that was slow for long was given up: its components are taken back, as the cluster does.
            let absent: Vec<_> = owner
                .descriptor()
                .legs()
                .into_iter()
                .filter(|leg| {
                    let host = self.hosts.iter().position(|group| group.host == leg.host);
                    leg.state == ComponentState::Absent && host.is_some_and(|host| self.up[host])
                })
                .map(|leg| leg.component)
                .collect();
            if !absent.is_empty() {
                let back = owner.legs_returned(&absent).await;
                back.map_err(|error| Violation(format!("taking back what was given up: {error}")))?;
            }
            for component in self.stale() {
                // Another run may be at work: the next round looks again.
                let _ = owner.resync(component, &()).await;
            }
            if self.hurt().is_subset(given_up) {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
        Err(Violation(format!("the object does not become whole again: {:?}", owner.descriptor())))
    }

    /// Applies everything to the disks, compares all legs, stops, and verifies every disk but those of the hosts in
    /// `unverified`.
    pub async fn settle(&mut self, unverified: &BTreeSet<usize>) -> Result<(), Violation> {
        let Some(owner) = self.owner.clone() else { return Ok(()) };
        owner.flush().await.map_err(|error| Violation(error.to_string()))?;
        self.drain().await?;
        self.compare_legs().await?;
        self.owner = None;
        self.directory.0.borrow_mut().clear();
        for (number, (host, up)) in self.hosts.iter_mut().zip(&self.up).enumerate() {
            if *up && !unverified.contains(&number) {
                host.verify().await?;
            }
        }
        Ok(())
    }

    /// Applies everything that is stable to the disks of the hosts that run.
    pub async fn drain(&self) -> Result<(), Violation> {
        let groups = self.directory.0.borrow().clone();
        for dg in groups.into_iter().flatten() {
            dg.drain().await.map_err(|error| Violation(error.to_string()))?;
        }
        Ok(())
    }

    /// All current legs of a column hold the same bytes.
    pub async fn compare_legs(&self) -> Result<(), Violation> {
        let Some(owner) = &self.owner else { return Ok(()) };
        let descriptor = owner.descriptor();
        let groups =
            crate::obj::address::groups(&descriptor.layout).map_err(|error| Violation(error.to_string()))?;
        for group in groups {
            let mut first: Option<(ComponentId, Vec<u8>)> = None;
            for leg in group.legs().into_iter().filter(|leg| quorum::is_current(leg)) {
                let bytes = self.bytes_of_leg(leg).await?;
                match &first {
                    Some((other, known)) if *known != bytes => {
                        return Err(Violation(format!("legs {other} and {} differ", leg.component)));
                    }
                    Some(_) => {}
                    None => first = Some((leg.component, bytes)),
                }
            }
        }
        Ok(())
    }

    async fn bytes_of_leg(&self, leg: &Leg) -> Result<Vec<u8>, Violation> {
        let groups = self.directory.0.borrow().clone();
        for dg in groups.into_iter().flatten() {
            let Some(found) = dg.components().into_iter().find(|known| known.component == leg.component)
            else {
                continue;
            };
            let runs = dg.read(found.local, 0, found.size_blocks as u32).await;
            let mut bytes = Vec::new();
            for run in runs.map_err(|error| Violation(error.to_string()))? {
                match run.content {
                    Content::Data { buf, .. } => bytes.extend_from_slice(&buf),
                    Content::Zero => bytes.resize(bytes.len() + (run.nblk * BLOCK_BYTES) as usize, 0),
                    other => return Err(Violation(format!("leg {} shows {other:?}", leg.component))),
                }
            }
            return Ok(bytes);
        }
        Err(Violation(format!("leg {} is nowhere", leg.component)))
    }

    /// Where things stand, for a report.
    pub fn describe(&self) -> String {
        let hosts: Vec<String> = self.hosts.iter().map(Group::describe).collect();
        let owner = self.owner.as_ref();
        let states = owner.map(|owner| {
            let states =
                owner.descriptor().legs().iter().map(|leg| (leg.state, leg.stale_from)).collect::<Vec<_>>();
            format!("{states:?}, inaccessible {:?}, resyncs {:?}", owner.inaccessible(), owner.resyncs())
        });
        format!("up {:?}, {hosts:#?}, legs {states:?}", self.up)
    }
}
