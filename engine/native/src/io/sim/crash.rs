//! What a crash leaves on a simulated disk.
use super::{Medium, Pages, Pending, SimDisk, SimWrite, State};
use std::collections::BTreeMap;

/// How the disk's user went away.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CrashKind {
    /// The process died, the machine lives on: completed writes survive, those under way land in part or late.
    Kill,
    /// The disk lost power: only what a flush covered is certain.
    Power,
}

/// How the sectors of one power cut choose among their versions.
#[derive(Clone, Copy)]
enum Survival {
    Nothing,
    Everything,
    /// Each write wholly or not at all, in any combination.
    WholeWrites,
    /// Each sector any of its versions.
    AnySector,
}

impl SimDisk {
    /// Ends the life of all open handles and leaves what survives. After `Kill`, writes may land until [`SimDisk::open`]
    /// returns.
    pub fn crash(&self, kind: CrashKind) {
        let medium = &*self.0;
        medium.life.set(medium.life.get() + 1);
        medium.holds.lift();
        match kind {
            CrashKind::Kill => kill(medium),
            CrashKind::Power => cut_power(medium),
        }
        if medium.state.borrow().in_flight.is_empty() {
            medium.settled.notify_waiters();
        }
    }
}

fn kill(medium: &Medium) {
    let numbers: Vec<u64> = medium.state.borrow().in_flight.keys().copied().collect();
    for number in numbers {
        // A write is late only while its timer runs: in a stopped world none does.
        let late = medium.below(3) == 0 && !medium.events.is_stopped();
        let mut state = medium.state.borrow_mut();
        if late {
            if let Some(io) = state.in_flight.get_mut(&number) {
                io.reply = None;
            }
            continue;
        }
        let Some(io) = state.in_flight.remove(&number) else { continue };
        drop(state);
        if let Pending::Write(write) = io.what {
            medium.land_in_part(&write);
        }
    }
}

fn cut_power(medium: &Medium) {
    let mut state = medium.state.borrow_mut();
    let State { image, durable, unflushed, in_flight, .. } = &mut *state;
    let mut writes: Vec<SimWrite> = unflushed.drain(..).map(|(_, write)| write).collect();
    for (_, io) in std::mem::take(in_flight) {
        if let Pending::Write(write) = io.what {
            writes.push(write);
        }
    }
    let survival = match medium.below(6) {
        0 => Survival::Nothing,
        1 => Survival::Everything,
        2 | 3 => Survival::WholeWrites,
        _ => Survival::AnySector,
    };
    match survival {
        Survival::Nothing => {}
        Survival::Everything => writes.iter().for_each(|write| write.apply(durable)),
        Survival::WholeWrites => {
            for write in writes.iter().filter(|_| medium.below(2) == 0) {
                write.apply(durable);
            }
        }
        Survival::AnySector => any_version(medium, durable, &writes),
    }
    *image = durable.clone();
}

fn any_version(medium: &Medium, durable: &mut Pages, writes: &[SimWrite]) {
    let mut versions: BTreeMap<u64, Vec<usize>> = BTreeMap::new();
    for (index, write) in writes.iter().enumerate() {
        for sector in write.sectors() {
            versions.entry(sector).or_default().push(index);
        }
    }
    for (sector, candidates) in versions {
        let choice = medium.below(candidates.len() as u64 + 1) as usize;
        if choice > 0 {
            durable.set_sector(sector, &writes[candidates[choice - 1]].sector(sector));
        }
    }
}

impl Medium {
    /// A write that was interrupted: nothing, everything, or any of its sectors.
    pub(super) fn land_in_part(&self, write: &SimWrite) {
        match self.below(4) {
            0 => {}
            1 => self.land(write.clone()),
            _ => {
                let image = self.state.borrow().image.clone();
                let mut mixed = vec![0; write.len_bytes as usize];
                for (at, sector) in mixed.chunks_mut(super::SECTOR_BYTES as usize).zip(write.sectors()) {
                    let new = self.below(2) == 0;
                    at.copy_from_slice(&if new { write.sector(sector) } else { image.sector(sector) });
                }
                self.land(SimWrite { data: vec![super::IoBuf::copy_of(&mixed)], ..write.clone() });
            }
        }
    }
}
