//! A mirrored object over several hosts: hosts die, lose power, return and are resynced while clients work.
//!
//! Map: [`Kind`] what may happen in a world · [`ObjectWorld`] · [`run`].
//! In the budgeted worlds never more hosts are hurt (away, or with a leg that is not current) than the policy tolerates, so
//! every operation must work and nothing acknowledged may be missed. In unlimited ones any number may be away: operations may
//! fail, but nothing wrong is shown, and when all are back everything that was promised is there.
use super::cluster::{Cluster, Shape};
use super::group::Group;
use super::reference::{Outage, Violation};
use super::trouble::Troubles;
use super::volume::ObjectVolume;
use super::workload::{Board, Load};
use super::world::{Plan, Story, System, live};
use crate::io::Env;
use crate::io::sim::{Events, Misbehaviour};
use crate::obj::ObjError;
use model::units::Timestamp;
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

/// What may happen in a world.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Hosts come and go, within the budget.
    Plain,
    /// That, and troubles of other kinds, some in each seed, within the budget.
    Troubled,
    /// Any number of hosts is away at once.
    Unlimited,
}

/// A world of one object.
pub struct ObjectWorld {
    cluster: Cluster,
    kind: Kind,
    troubles: Troubles,
    resyncs: Vec<tokio::task::JoinHandle<()>>,
}

impl ObjectWorld {
    /// Draws one or two failures to tolerate, one or two columns, and as many hosts as that takes.
    pub fn draw(env: &Env, kind: Kind) -> Self {
        let id = env.id_bytes();
        let tolerates = if env.chance(1, 4) { 2 } else { 1 };
        let hosts = 2 * tolerates + 1;
        let shape = Shape { tolerates, columns: 1, step: 0, hosts };
        let troubles =
            if kind == Kind::Troubled { Troubles::draw(env, shape) } else { Troubles::none(shape) };
        let mut cluster = Cluster::draw(env, id, shape, &troubles.limits());
        cluster.shape.columns = 1 + env.below(2) as usize;
        if kind == Kind::Unlimited {
            cluster.config.device_timeout = Duration::from_secs(2);
        }
        if kind != Kind::Plain {
            cluster.shape.step = env.below(2) as usize;
        }
        Self { cluster, kind, troubles, resyncs: Vec::new() }
    }

    /// One host goes away, if the budget allows; the object is told, or finds out by itself.
    async fn lose_host(&mut self, board: &Board) {
        let mut may: BTreeSet<usize> = &self.cluster.hurt() | &self.troubles.hurt(&self.cluster);
        if self.kind == Kind::Unlimited {
            may = (0..self.cluster.hosts.len()).collect();
        } else if may.len() < self.cluster.shape.tolerates {
            may = self.troubles.may_hurt();
        }
        let may: Vec<usize> = may.into_iter().filter(|host| self.cluster.up[*host]).collect();
        if may.is_empty() {
            return;
        }
        let env = self.cluster.env.clone();
        let host = may[env.below(may.len() as u64) as usize];
        let outage = if env.chance(1, 2) { Outage::Kill } else { Outage::Power };
        if self.kind == Kind::Unlimited && outage == Outage::Power {
            board.reference.borrow_mut().weaken();
        }
        self.cluster.lose(host, outage);
        let components = self.cluster.components_of(host);
        if env.chance(1, 2)
            && let Some(owner) = &self.cluster.owner
        {
            owner.legs_gone(&components).await;
            if let Err(violation) = self.troubles.tell(&self.cluster, host, false).await {
                board.broken(violation);
            }
        }
    }

    async fn regain(&mut self, host: usize) -> Result<(), Violation> {
        match self.cluster.start(host).await {
            Ok(()) => {}
            Err(_) if self.troubles.may_kill(host) => {
                self.give_up(host);
                return Ok(());
            }
            Err(violation) => return Err(violation),
        }
        self.troubles.tell(&self.cluster, host, true).await?;
        match self.cluster.tell_of_return(host).await {
            Err(ObjError::Inaccessible(_)) if self.kind == Kind::Unlimited => Ok(()),
            other => other.map_err(|error| Violation(format!("a host returned: {error}"))),
        }
    }

    /// Its disks cannot be used any more.
    fn give_up(&mut self, host: usize) {
        self.cluster.lose(host, Outage::Kill);
        self.troubles.given_up.insert(host);
    }

    fn start_resyncs(&mut self) {
        for component in self.cluster.stale() {
            let Some(owner) = self.cluster.owner.clone() else { return };
            self.resyncs.push(tokio::task::spawn_local(async move {
                // It may be aborted by the next loss; settling starts it again.
                let _ = owner.resync(component, &()).await;
            }));
        }
    }

    /// Opens the object. With too few hosts for that the others start, too, one after the other.
    async fn open(&mut self) -> Result<ObjectVolume, Violation> {
        loop {
            let away = (0..self.cluster.hosts.len()).find(|host| !self.cluster.up[*host]);
            match (self.cluster.open_object().await, away) {
                (Ok(owner), _) => return Ok(ObjectVolume(owner)),
                (Err(ObjError::Inaccessible(_)), Some(host)) if self.kind == Kind::Unlimited => {
                    self.cluster.start(host).await?;
                }
                (Err(error), _) => {
                    return Err(Violation(format!("the object cannot be opened: {error}")));
                }
            }
        }
    }
}

impl System for ObjectWorld {
    type Volume = ObjectVolume;

    async fn boot(&mut self) -> Result<ObjectVolume, Violation> {
        // A cluster starts with more than half of what belongs to it, so that no two starts have the same number.
        let up = |world: &Self| world.cluster.up.iter().filter(|up| **up).count();
        while self.kind == Kind::Unlimited
            && up(self) * 2 <= self.cluster.hosts.len()
            && let Some(away) = self.cluster.up.iter_mut().find(|up| !**up)
        {
            *away = true;
        }
        while let Err((host, violation)) = self.cluster.start_hosts().await {
            if !self.troubles.may_kill(host) {
                return Err(violation);
            }
            // What runs already dies with it and starts again without it.
            self.give_up(host);
            self.cluster.crash(Outage::Kill);
        }
        let volume = self.open().await?;
        self.troubles.boot(&self.cluster).await?;
        Ok(volume)
    }

    fn crash(&mut self, outage: Outage) {
        self.resyncs.drain(..).for_each(|task| task.abort());
        self.troubles.crash();
        self.cluster.crash(outage);
    }

    async fn disturb(&mut self, board: &Board) {
        self.resyncs.retain(|task| !task.is_finished());
        board.may_fail.set(self.kind == Kind::Unlimited);
        let env = self.cluster.env.clone();
        if self.kind == Kind::Troubled && env.chance(1, 2) {
            return self.troubles.strike(&mut self.cluster, board).await;
        }
        let up = self.cluster.up.clone();
        let away = (0..up.len()).filter(|host| !up[*host] && !self.troubles.given_up.contains(host));
        let away: Vec<usize> = away.collect();
        match env.below(4) {
            0 | 1 if away.is_empty() || self.kind == Kind::Unlimited && env.chance(2, 3) => {
                self.lose_host(board).await;
            }
            2 => {
                let host = env.below(up.len() as u64) as usize;
                let latency_ms_max = if env.chance(1, 2) { 4 } else { 60 };
                self.cluster.hosts[host].disks().for_each(|disk| {
                    disk.misbehave(Misbehaviour { latency_ms_max, ..disk.misbehaviour() });
                });
            }
            3 => self.start_resyncs(),
            _ => {
                for host in away {
                    if let Err(violation) = self.regain(host).await {
                        board.broken(violation);
                    }
                }
                if env.chance(2, 3) {
                    self.start_resyncs();
                }
            }
        }
    }

    async fn settle(&mut self, board: &Board) -> Result<(), Violation> {
        self.troubles.end(&mut self.cluster);
        for host in 0..self.cluster.hosts.len() {
            if !self.cluster.up[host] && !self.troubles.given_up.contains(&host) {
                self.regain(host).await?;
            }
        }
        if self.kind == Kind::Unlimited
            && let Some(owner) = &self.cluster.owner
        {
            // It says once that writes were lost before they were flushed.
            let _ = owner.flush().await;
        }
        let mut forgiven = self.troubles.forgiven();
        forgiven.extend(self.cluster.lacking().into_iter().filter(|host| self.troubles.may_rot(*host)));
        self.cluster.heal(&forgiven).await?;
        self.troubles.mend(&mut self.cluster, board).await?;
        self.cluster.settle(&forgiven).await
    }

    fn describe(&self) -> String {
        self.cluster.describe()
    }

    fn events(&self) -> &Events {
        &self.cluster.events
    }
}

/// One seed of this world.
pub async fn run(seed: u64, kind: Kind) -> Result<Story, Violation> {
    let env = Env::seeded(seed, Timestamp(0));
    let mut world = ObjectWorld::draw(&env, kind);
    let sectors = world.cluster.sectors();
    let unit = if env.chance(1, 2) { 1 } else { 8 };
    let mut load = Load::draw(&env, unit, sectors);
    let smallest = world.cluster.hosts.iter().map(Group::log_blocks).min().unwrap_or(0);
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
