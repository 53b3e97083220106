//! Troubles that random worlds add to hosts that come and go: each seed has some kinds of them.
//!
//! Map: `rot` bits that flip at rest · `wrong_writes` writes that are lost or land elsewhere · `full` disks that take no new
//! data for a while · `objects` other objects that come, grow and go.
//! Invariant: what damages data strikes only the hosts that the budget names, and no other host is lost then, so that every
//! block has a good copy at any time.
mod full;
mod objects;
mod rot;
mod wrong_writes;

use self::objects::Objects;
use super::cluster::{Cluster, Shape};
use super::group::Limits;
use super::reference::Violation;
use super::volume::ObjectVolume;
use super::workload::{Board, read};
use crate::io::Env;
use std::collections::BTreeSet;

/// A kind of trouble.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Trouble {
    /// Bits flip, sectors become unreadable, at rest.
    Rot,
    /// Writes are acknowledged and lost, or land elsewhere.
    WrongWrites,
    /// A disk takes nothing new for a while.
    Full,
    /// Other objects are made, written, grown and deleted.
    Objects,
}

impl Trouble {
    const ALL: [Self; 4] = [Self::Rot, Self::WrongWrites, Self::Full, Self::Objects];

    fn damages(self) -> bool {
        matches!(self, Self::Rot | Self::WrongWrites)
    }
}

/// The troubles of one world.
pub struct Troubles {
    kinds: Vec<Trouble>,
    /// Hosts that may be hurt.
    victims: BTreeSet<usize>,
    /// Hosts whose disks cannot be used any more.
    pub given_up: BTreeSet<usize>,
    objects: Objects,
}

/// Rounds of reading everything until every rotten block was met on every leg.
const ROUNDS: u64 = 12;

impl Troubles {
    /// None.
    pub fn none(shape: Shape) -> Self {
        Self {
            kinds: Vec::new(),
            victims: (0..shape.hosts).collect(),
            given_up: BTreeSet::new(),
            objects: Objects::default(),
        }
    }

    /// One kind at least, each in half of the seeds.
    pub fn draw(env: &Env, shape: Shape) -> Self {
        let mut kinds: Vec<Trouble> = Trouble::ALL.into_iter().filter(|_| env.chance(1, 2)).collect();
        if kinds.is_empty() {
            kinds.push(Trouble::ALL[env.below(Trouble::ALL.len() as u64) as usize]);
        }
        if kinds.contains(&Trouble::WrongWrites) {
            // They can cost a whole disk, and then nothing can be made on its host.
            kinds.retain(|kind| *kind != Trouble::Objects);
        }
        let mut none = Self::none(shape);
        if kinds.iter().any(|kind| kind.damages()) {
            while none.victims.len() > shape.tolerates {
                let nth = env.below(none.victims.len() as u64) as usize;
                none.victims.remove(&none.victims.iter().copied().nth(nth).expect("one of them"));
            }
        }
        Self { kinds, ..none }
    }

    /// How the groups must be drawn for them.
    pub fn limits(&self) -> Limits {
        Limits { damage: self.kinds.iter().any(|kind| kind.damages()), ..Limits::default() }
    }

    /// The hosts of which one more may be lost when fewer are hurt than is tolerated.
    pub fn may_hurt(&self) -> BTreeSet<usize> {
        self.victims.clone()
    }

    /// Hosts that hold something of other objects that is not current.
    pub fn hurt(&self, cluster: &Cluster) -> BTreeSet<usize> {
        self.objects.hurt(cluster)
    }

    /// Everything stops.
    pub fn crash(&mut self) {
        self.objects.crash();
    }

    /// Everything has started.
    pub async fn boot(&mut self, cluster: &Cluster) -> Result<(), Violation> {
        self.objects.boot(cluster).await
    }

    /// A host has gone, or is `back`.
    pub async fn tell(&self, cluster: &Cluster, host: usize, back: bool) -> Result<(), Violation> {
        self.objects.tell(cluster, host, back).await
    }

    /// Whether the disks of a host may have become useless.
    pub fn may_kill(&self, host: usize) -> bool {
        self.kinds.contains(&Trouble::WrongWrites) && self.victims.contains(&host)
    }

    /// Whether what the disks of a host hold may rot.
    pub fn may_rot(&self, host: usize) -> bool {
        self.kinds.contains(&Trouble::Rot) && self.victims.contains(&host)
    }

    /// Something happens.
    pub async fn strike(&mut self, cluster: &mut Cluster, board: &Board) {
        let env = cluster.env.clone();
        let kind = self.kinds[env.below(self.kinds.len() as u64) as usize];
        if kind == Trouble::Objects {
            if let Err(violation) = self.objects.strike(cluster).await {
                board.broken(violation);
            }
            return;
        }
        let victims: Vec<usize> = self.victims.iter().copied().filter(|host| cluster.up[*host]).collect();
        if victims.is_empty() {
            return;
        }
        let victim = victims[env.below(victims.len() as u64) as usize];
        match kind {
            Trouble::Rot => rot::strike(cluster, victim),
            Trouble::WrongWrites => wrong_writes::strike(cluster, victim),
            Trouble::Full | Trouble::Objects => full::strike(cluster, victim),
        }
    }

    /// No disk misbehaves any more.
    pub fn end(&mut self, cluster: &mut Cluster) {
        for group in &cluster.hosts {
            group.disks().for_each(|disk| disk.misbehave(Default::default()));
            group.opened.iter().for_each(|disk| disk.faults().set_full(false));
        }
    }

    /// Hosts that need not be whole at the end.
    pub fn forgiven(&self) -> BTreeSet<usize> {
        (0..).take(64).filter(|host| self.given_up.contains(host) || self.may_kill(*host)).collect()
    }

    /// Reads everything until every leg has shown all it has: what is bad is repaired by that.
    pub async fn mend(&mut self, cluster: &mut Cluster, board: &Board) -> Result<(), Violation> {
        if self.kinds.iter().any(|kind| kind.damages()) {
            let volume = ObjectVolume(cluster.object()?);
            for round in 0..ROUNDS {
                // One read or two more than there are places: a place meets another leg in the next round, of two and of three.
                let places = cluster.sectors() / 64;
                for first in (0..=places + round % 2).map(|nth| nth % places * 64) {
                    read(board, &volume, first..first + 64).await;
                }
            }
        }
        let gone = !self.forgiven().is_empty();
        self.objects.mend(cluster, gone).await?;
        board.verdict()
    }
}
