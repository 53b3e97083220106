//! A mirrored object over several hosts: hosts die, lose power, return and are resynced while clients work.
//!
//! In the budgeted worlds never more hosts are hurt (away, or with a leg that is not current) than the policy tolerates, so
//! every operation must work and nothing acknowledged may be missed.
use super::content::SECTOR;
use super::group::Group;
use super::reference::{Outage, Violation};
use super::workload::{Board, Failure, Load, Volume};
use super::world::{Plan, Story, System, live};
use crate::cap::Content;
use crate::dg::{Dg, NewComponent};
use crate::fmt::component::ComponentKind;
use crate::fmt::descriptor::{Leg, Node, ObjectDescriptor};
use crate::io::sim::{Events, Misbehaviour};
use crate::io::{Env, IoBuf};
use crate::obj::store::Members;
use crate::obj::{Boot, Config, DgLeg, ObjError, Owner, quorum};
use model::ids::{ClusterId, ComponentId, HostId, ObjectId};
use model::policy::Policy;
use model::state::ComponentState;
use model::units::{BLOCK_BYTES, Timestamp};
use model::view::ObjectType;
use std::cell::RefCell;
use std::collections::BTreeSet;
use std::ops::Range;
use std::rc::Rc;
use std::time::Duration;

/// Bytes of each component: one stripe unit.
const COLUMN_BYTES: u64 = 1 << 20;
/// Patience of a settling world with one resync after the other.
const ROUNDS: usize = 40;

/// The groups that run, by host: where an object finds its components.
#[derive(Default)]
struct Directory(RefCell<Vec<Option<Dg>>>);

impl Members<DgLeg> for Directory {
    fn components(&self, object: ObjectId) -> Vec<(ComponentId, DgLeg)> {
        let groups = self.0.borrow();
        let legs = groups.iter().flatten().flat_map(|dg| {
            let mine = dg.components().into_iter().filter(|component| component.object == object);
            mine.map(|component| (component.component, DgLeg::new(dg.clone(), component.local)))
        });
        legs.collect()
    }

    fn host_name(&self, host: HostId) -> String {
        host.to_string()
    }
}

/// The volume.
#[derive(Clone)]
pub struct ObjectVolume(Owner<DgLeg>);

fn failure(error: ObjError) -> Failure {
    match error {
        ObjError::NoSpace => Failure::Refused,
        other => Failure::Failed(other.to_string()),
    }
}

fn bytes_of(sectors: &Range<u64>) -> (u64, u64) {
    (sectors.start * SECTOR, (sectors.end - sectors.start) * SECTOR)
}

impl Volume for ObjectVolume {
    async fn read(&self, sectors: Range<u64>) -> Result<Vec<IoBuf>, Failure> {
        let (offset, len) = bytes_of(&sectors);
        let bytes = self.0.read_bytes(offset, len).await.map_err(failure)?;
        Ok(vec![IoBuf::copy_of(&bytes)])
    }

    async fn write(&self, first: u64, data: IoBuf, durable: bool) -> Result<(), Failure> {
        self.0.write_bytes(first * SECTOR, &data, durable).await.map_err(failure)
    }

    async fn trim(&self, sectors: Range<u64>, keep: bool) -> Result<(), Failure> {
        let (offset, len) = bytes_of(&sectors);
        let done = if keep {
            self.0.write_zeroes(offset, len, true, false).await
        } else {
            self.0.trim(offset, len, false).await
        };
        done.map_err(failure)
    }

    async fn flush(&self) -> Result<(), Failure> {
        self.0.flush().await.map_err(failure)
    }
}

/// A world of one object.
pub struct ObjectWorld {
    hosts: Vec<Group>,
    up: Vec<bool>,
    directory: Rc<Directory>,
    events: Events,
    env: Env,
    object: ObjectId,
    tolerates: usize,
    columns: usize,
    owner: Option<Owner<DgLeg>>,
    epoch: u32,
    made: bool,
    resyncs: Vec<tokio::task::JoinHandle<()>>,
}

impl ObjectWorld {
    /// Draws one or two failures to tolerate, one or two columns, and as many hosts as that takes.
    pub fn draw(env: &Env) -> Self {
        let events = Events::default();
        let cluster = ClusterId::from_random(env.id_bytes());
        let tolerates = if env.chance(1, 4) { 2 } else { 1 };
        let hosts: Vec<Group> = (0..2 * tolerates + 1)
            .map(|_| {
                let host = HostId::from_random(env.id_bytes());
                Group::draw(env, &events, cluster, host, env.below(2) as usize)
            })
            .collect();
        Self {
            up: vec![true; hosts.len()],
            hosts,
            directory: Rc::default(),
            events,
            env: env.clone(),
            object: ObjectId::from_random(env.id_bytes()),
            tolerates,
            columns: 1 + env.below(2) as usize,
            owner: None,
            epoch: 0,
            made: false,
            resyncs: Vec::new(),
        }
    }

    fn size_bytes(&self) -> u64 {
        self.columns as u64 * COLUMN_BYTES
    }

    fn leg(&self, host: usize, size_bytes: u64) -> Leg {
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

    fn descriptor(&self) -> ObjectDescriptor {
        let column = |_| {
            let legs = (0..=self.tolerates).map(|host| Node::Leaf(Box::new(self.leg(host, COLUMN_BYTES))));
            Node::Mirror(legs.collect())
        };
        let mut columns: Vec<Node> = (0..self.columns).map(column).collect();
        let layout = if columns.len() == 1 { columns.remove(0) } else { Node::Stripe(columns) };
        let mut descriptor = ObjectDescriptor {
            uuid: self.object,
            name: "v".to_owned(),
            object_type: ObjectType::Volume,
            size_bytes: self.size_bytes(),
            created_at: Timestamp(0),
            csn: (u64::from(self.epoch), 1),
            layout,
            witnesses: (self.tolerates + 1..self.hosts.len()).map(|host| self.leg(host, 0)).collect(),
            policy: Policy::built_in(),
            owner_epoch: self.epoch.into(),
            tombstone: None,
            unknown: Default::default(),
        };
        quorum::revote(&mut descriptor);
        descriptor
    }

    async fn make_object(&self) -> Result<(), Violation> {
        let descriptor = self.descriptor();
        let bytes: Rc<[u8]> = descriptor.to_bytes().into();
        for leg in descriptor.legs() {
            let host = self.hosts.iter().find(|group| group.host == leg.host).expect("drawn from them");
            let new = NewComponent {
                component: leg.component,
                object: self.object,
                kind: if leg.size_bytes == 0 { ComponentKind::Witness } else { ComponentKind::Data },
                size_blocks: leg.size_bytes / BLOCK_BYTES,
                csn: descriptor.csn,
                descriptor: Rc::clone(&bytes),
            };
            let dg = host.dg.as_ref().expect("all hosts run");
            dg.create_component(leg.disk, new).await.map_err(|error| Violation(error.to_string()))?;
        }
        Ok(())
    }

    fn components_of(&self, host: usize) -> Vec<ComponentId> {
        let Some(owner) = &self.owner else { return Vec::new() };
        let host = self.hosts[host].host;
        let descriptor = owner.descriptor();
        let legs = descriptor.legs();
        legs.into_iter().filter(|leg| leg.host == host).map(|leg| leg.component).collect()
    }

    /// Hosts that are away or hold something that is not current.
    fn hurt(&self) -> BTreeSet<usize> {
        let mut hurt: BTreeSet<usize> = (0..self.hosts.len()).filter(|host| !self.up[*host]).collect();
        let Some(owner) = &self.owner else { return hurt };
        for leg in owner.descriptor().legs() {
            if leg.state != ComponentState::Active || leg.stale_from.is_some() {
                hurt.extend(self.hosts.iter().position(|group| group.host == leg.host));
            }
        }
        hurt
    }

    /// One host goes away, if the budget allows; the object is told, or finds out by itself.
    async fn lose_host(&mut self) {
        let mut may = self.hurt();
        if may.len() < self.tolerates {
            may = (0..self.hosts.len()).collect();
        }
        let may: Vec<usize> = may.into_iter().filter(|host| self.up[*host]).collect();
        if may.is_empty() {
            return;
        }
        let host = may[self.env.below(may.len() as u64) as usize];
        let outage = if self.env.chance(1, 2) { Outage::Kill } else { Outage::Power };
        self.up[host] = false;
        self.directory.0.borrow_mut()[host] = None;
        self.hosts[host].crash(outage);
        let components = self.components_of(host);
        if self.env.chance(1, 2)
            && let Some(owner) = &self.owner
        {
            owner.legs_gone(&components).await;
        }
    }

    /// One host returns, in the running epoch.
    async fn return_host(&mut self, host: usize) -> Result<(), Violation> {
        let labels = self.hosts[host].load().await?;
        let dg = self.hosts[host].open(labels, self.epoch).await?;
        self.directory.0.borrow_mut()[host] = Some(dg);
        self.up[host] = true;
        let components = self.components_of(host);
        if let Some(owner) = &self.owner {
            // It was not told of the loss, perhaps: it hears of both now.
            owner.legs_gone(&components).await;
            let back = owner.legs_returned(&components).await;
            back.map_err(|error| Violation(format!("a host returned: {error}")))?;
        }
        Ok(())
    }

    fn stale(&self) -> Vec<ComponentId> {
        let Some(owner) = &self.owner else { return Vec::new() };
        let descriptor = owner.descriptor();
        let legs = descriptor.legs();
        let stale = legs.into_iter().filter(|leg| {
            matches!(leg.state, ComponentState::Stale | ComponentState::Resyncing) && leg.size_bytes > 0
        });
        stale.map(|leg| leg.component).collect()
    }

    fn start_resyncs(&mut self) {
        for component in self.stale() {
            let Some(owner) = self.owner.clone() else { return };
            self.resyncs.push(tokio::task::spawn_local(async move {
                // It may be aborted by the next loss; settling starts it again.
                let _ = owner.resync(component, &()).await;
            }));
        }
    }

    async fn heal(&mut self) -> Result<(), Violation> {
        for host in 0..self.hosts.len() {
            self.hosts[host].disks().for_each(|disk| disk.misbehave(Misbehaviour::default()));
            if !self.up[host] {
                self.return_host(host).await?;
            }
        }
        let Some(owner) = self.owner.clone() else { return Ok(()) };
        for _ in 0..ROUNDS {
            for component in self.stale() {
                // Another run may be at work: the next round looks again.
                let _ = owner.resync(component, &()).await;
            }
            if self.hurt().is_empty() {
                return Ok(());
            }
            tokio::time::sleep(Duration::from_secs(10)).await;
        }
        Err(Violation(format!("the object does not become whole again: {:?}", owner.descriptor().layout)))
    }

    /// All legs of a column hold the same bytes.
    async fn compare_legs(&self) -> Result<(), Violation> {
        let Some(owner) = &self.owner else { return Ok(()) };
        let descriptor = owner.descriptor();
        let mut seen: Vec<(usize, ComponentId, Vec<u8>)> = Vec::new();
        let groups =
            crate::obj::address::groups(&descriptor.layout).map_err(|error| Violation(error.to_string()))?;
        for (index, group) in groups.iter().enumerate() {
            for leg in group.legs() {
                let bytes = self.bytes_of_leg(leg).await?;
                if let Some((_, other, _)) =
                    seen.iter().find(|(at, _, known)| *at == index && *known != bytes)
                {
                    return Err(Violation(format!("legs {other} and {} differ", leg.component)));
                }
                seen.push((index, leg.component, bytes));
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
}

impl System for ObjectWorld {
    type Volume = ObjectVolume;

    async fn boot(&mut self) -> Result<ObjectVolume, Violation> {
        if !self.made {
            self.events.stop_after(None);
            for host in &self.hosts {
                host.format().await?;
            }
        }
        let mut labels = Vec::new();
        for host in 0..self.hosts.len() {
            labels.push(if self.up[host] { Some(self.hosts[host].load().await?) } else { None });
        }
        self.epoch = 1 + labels.iter().flatten().map(|labels| labels.epoch()).max().unwrap_or(0);
        let mut running = Vec::new();
        for (host, labels) in labels.into_iter().enumerate() {
            running.push(match labels {
                Some(labels) => Some(self.hosts[host].open(labels, self.epoch).await?),
                None => None,
            });
        }
        self.directory.0.replace(running);
        if !self.made {
            self.make_object().await?;
            self.made = true;
        }
        let members: Rc<dyn Members<DgLeg>> = self.directory.clone();
        let boot = Boot::new(self.epoch.into());
        let opened =
            Owner::open(self.object, members, boot, self.env.clone(), Config::default(), Rc::new(|_, _| {}))
                .await;
        let owner = opened.map_err(|error| Violation(format!("the object cannot be opened: {error}")))?;
        self.owner = Some(owner.clone());
        Ok(ObjectVolume(owner))
    }

    fn crash(&mut self, outage: Outage) {
        self.resyncs.drain(..).for_each(|task| task.abort());
        self.owner = None;
        self.directory.0.borrow_mut().clear();
        for (host, up) in self.hosts.iter_mut().zip(&self.up) {
            if *up {
                host.crash(outage);
            }
        }
    }

    async fn disturb(&mut self, board: &Board) {
        self.resyncs.retain(|task| !task.is_finished());
        let away: Vec<usize> = (0..self.hosts.len()).filter(|host| !self.up[*host]).collect();
        match self.env.below(4) {
            0 | 1 if away.is_empty() => self.lose_host().await,
            2 => {
                let host = self.env.below(self.hosts.len() as u64) as usize;
                let latency_ms_max = if self.env.chance(1, 2) { 4 } else { 60 };
                let how = Misbehaviour { latency_ms_max, ..Misbehaviour::default() };
                self.hosts[host].disks().for_each(|disk| disk.misbehave(how));
            }
            3 => self.start_resyncs(),
            _ => {
                for host in away {
                    if let Err(violation) = self.return_host(host).await {
                        board.broken(violation);
                    }
                }
                if self.env.chance(2, 3) {
                    self.start_resyncs();
                }
            }
        }
    }

    async fn settle(&mut self, _: &Board) -> Result<(), Violation> {
        self.heal().await?;
        let Some(owner) = self.owner.clone() else { return Ok(()) };
        owner.flush().await.map_err(|error| Violation(error.to_string()))?;
        let groups = self.directory.0.borrow().clone();
        for dg in groups.into_iter().flatten() {
            dg.drain().await.map_err(|error| Violation(error.to_string()))?;
        }
        self.compare_legs().await?;
        self.owner = None;
        self.directory.0.borrow_mut().clear();
        for host in &mut self.hosts {
            host.verify().await?;
        }
        Ok(())
    }

    fn describe(&self) -> String {
        let hosts: Vec<String> = self.hosts.iter().map(Group::describe).collect();
        let owner = self.owner.as_ref();
        let states = owner.map(|owner| {
            let states =
                owner.descriptor().legs().iter().map(|leg| (leg.state, leg.stale_from)).collect::<Vec<_>>();
            format!("{states:?}, inaccessible {:?}, resyncs {:?}", owner.inaccessible(), owner.resyncs())
        });
        format!("up {:?}, {hosts:#?}, legs {states:?}", self.up)
    }

    fn events(&self) -> &Events {
        &self.events
    }
}

/// One seed of this world.
pub async fn run(seed: u64) -> Result<Story, Violation> {
    let env = Env::seeded(seed, Timestamp(0));
    let mut world = ObjectWorld::draw(&env);
    let sectors = world.size_bytes() / SECTOR;
    let unit = if env.chance(1, 2) { 1 } else { 8 };
    let mut load = Load::draw(&env, unit, sectors);
    let smallest = world.hosts.iter().map(Group::log_blocks).min().unwrap_or(0);
    load.big = load.big.min(smallest / (4 * load.clients));
    let load = Rc::new(load);
    let board = Board::new(&env, sectors);
    let plan = Plan {
        lives: 1 + env.below(4),
        ops: 20 + env.below(150),
        disturbances: 2 + env.below(10),
        power: env.chance(2, 3),
    };
    live(&mut world, &board, &load, plan).await
}
