//! The stupid oracle: per sector, which writes a read may show.
//!
//! A write is a candidate from its start. It stops being one for live reads when another write that began after its end was
//! acknowledged, or when a read showed another one that came later. It stops being one after a power cut when such a later
//! write is durable. After a crash exactly one candidate is real; the first read finds out which, for good.
//! Invariants: the lists hold every state that the promises allow, never fewer; times are ticks of the reference's own clock.
use super::content::{SECTOR, Seen, seen};
use std::collections::{BTreeMap, BTreeSet};
use std::ops::Range;

/// A broken promise.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation(pub String);

/// How everything that serves the volume went down at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Outage {
    /// Acknowledged writes survive.
    Kill,
    /// Flushed writes survive.
    Power,
}

#[derive(Clone, Debug)]
struct Candidate {
    version: u64,
    zero: bool,
    start: u64,
    end: Option<u64>,
    /// When it was known to be overwritten: a read that begins later must not show it.
    dead_at: Option<u64>,
    /// No power cut can bring it back; kept only for reads that began before `dead_at`.
    lost: bool,
    durable: bool,
    /// One of several states that a crash may have left.
    alternative: bool,
    /// A read showed that this write came later than the candidate.
    before: Option<u64>,
}

struct Write {
    sectors: Range<u64>,
    start: u64,
    /// A copy may have been lost between its landing there and the acknowledgement.
    weak: bool,
}

/// The allowed states of one volume.
pub struct Reference {
    sectors: Vec<Vec<Candidate>>,
    writes: BTreeMap<u64, Write>,
    /// Acknowledged and not known durable: version to its end.
    acked: BTreeMap<u64, (u64, Range<u64>)>,
    /// Starts of the reads under way.
    reads: BTreeSet<u64>,
    clock: u64,
    next_version: u64,
}

impl Reference {
    /// A volume of `sectors` sectors that reads as zeros.
    pub fn new(sectors: u64) -> Self {
        let blank = Candidate {
            version: 0,
            zero: true,
            start: 0,
            end: Some(0),
            dead_at: None,
            lost: false,
            durable: true,
            alternative: false,
            before: None,
        };
        Self {
            sectors: vec![vec![blank]; sectors as usize],
            writes: BTreeMap::new(),
            acked: BTreeMap::new(),
            reads: BTreeSet::new(),
            clock: 1,
            next_version: 1,
        }
    }

    /// Size, sectors.
    pub fn sectors(&self) -> u64 {
        self.sectors.len() as u64
    }

    fn tick(&mut self) -> u64 {
        self.clock += 1;
        self.clock
    }

    /// A write or trim (`zero`) of `sectors` is about to be sent; its version.
    pub fn begin_write(&mut self, sectors: Range<u64>, zero: bool) -> u64 {
        let start = self.tick();
        let version = self.next_version;
        self.next_version += 1;
        for sector in sectors.clone() {
            self.sectors[sector as usize].push(Candidate {
                version,
                zero,
                start,
                end: None,
                dead_at: None,
                lost: false,
                durable: false,
                alternative: false,
                before: None,
            });
        }
        self.writes.insert(version, Write { sectors, start, weak: false });
        version
    }

    /// The write was acknowledged; `durable` when that was promised with it. A write that failed is never ended: it may or
    /// may not have happened.
    pub fn end_write(&mut self, version: u64, durable: bool) {
        let end = self.tick();
        let Some(write) = self.writes.remove(&version) else { return };
        for sector in write.sectors.clone() {
            for candidate in &mut self.sectors[sector as usize] {
                if candidate.version == version {
                    candidate.end = Some(end);
                } else if !write.weak && candidate.end.is_some_and(|end| end < write.start) {
                    candidate.dead_at.get_or_insert(end);
                }
            }
        }
        if durable {
            self.make_durable(version, write.sectors);
        } else {
            self.acked.insert(version, (end, write.sectors));
        }
    }

    /// The write is known not to have happened (refused before it began).
    pub fn forget_write(&mut self, version: u64) {
        let Some(write) = self.writes.remove(&version) else { return };
        for sector in write.sectors {
            self.sectors[sector as usize].retain(|candidate| candidate.version != version);
        }
    }

    /// A flush is about to be sent.
    pub fn begin_flush(&mut self) -> u64 {
        self.tick()
    }

    /// The flush that began at `start` succeeded: everything acknowledged before it is durable.
    pub fn end_flush(&mut self, start: u64) {
        let covered: Vec<u64> =
            self.acked.iter().filter(|(_, (end, _))| *end < start).map(|(version, _)| *version).collect();
        for version in covered {
            let (_, sectors) = self.acked.remove(&version).expect("listed above");
            self.make_durable(version, sectors);
        }
    }

    fn make_durable(&mut self, version: u64, sectors: Range<u64>) {
        for sector in sectors {
            let list = &mut self.sectors[sector as usize];
            let Some(durable) = list.iter_mut().find(|candidate| candidate.version == version) else {
                continue;
            };
            durable.durable = true;
            let start = durable.start;
            for other in list.iter_mut().filter(|other| other.version != version) {
                other.lost |= other.end.is_some_and(|end| end < start) || other.before == Some(version);
            }
            let oldest = self.reads.first().copied().unwrap_or(u64::MAX);
            list.retain(|other| !other.lost || other.dead_at.is_some_and(|dead| oldest < dead));
        }
    }

    /// A read is about to be sent.
    pub fn begin_read(&mut self) -> u64 {
        let start = self.tick();
        self.reads.insert(start);
        start
    }

    /// The read that began at `start` failed.
    pub fn end_read(&mut self, start: u64) {
        self.reads.remove(&start);
    }

    /// Judges what the read that began at `start` returned for the sectors from `first`.
    pub fn check_read(&mut self, start: u64, first: u64, bytes: &[u8]) -> Result<(), Violation> {
        self.reads.remove(&start);
        let now = self.tick();
        for (sector, shown) in (first..).zip(bytes.chunks(SECTOR as usize)) {
            let list = &mut self.sectors[sector as usize];
            check_sector(list, start, now, seen(sector, shown))
                .map_err(|allowed| Violation(format!("sector {sector} {allowed}")))?;
        }
        Ok(())
    }

    /// Everything went down; what is under way may or may not have happened.
    pub fn crash(&mut self, outage: Outage) {
        let now = self.tick();
        self.writes.clear();
        self.acked.clear();
        self.reads.clear();
        for list in &mut self.sectors {
            if outage == Outage::Kill {
                list.retain(|candidate| candidate.dead_at.is_none());
            }
            list.retain(|candidate| !candidate.lost);
            let many = list.len() > 1;
            for candidate in list {
                candidate.start = candidate.start.min(now);
                candidate.end = Some(now);
                candidate.dead_at = None;
                candidate.durable = true;
                candidate.alternative = many;
                candidate.before = None;
            }
        }
    }

    /// A copy lost power: writes that were acknowledged and not flushed, or are under way, may be gone, or not, while everything
    /// goes on. What they replaced can be shown again until a later write is acknowledged.
    pub fn weaken(&mut self) {
        self.acked.clear();
        self.writes.values_mut().for_each(|write| write.weak = true);
        for candidate in self.sectors.iter_mut().flatten().filter(|candidate| !candidate.lost) {
            (candidate.dead_at, candidate.before) = (None, None);
        }
    }

    /// Sectors of which more than one state is possible.
    pub fn undecided(&self) -> usize {
        self.sectors.iter().filter(|list| list.len() > 1).count()
    }
}

fn check_sector(list: &mut Vec<Candidate>, start: u64, now: u64, shown: Seen) -> Result<(), String> {
    let fits = |candidate: &Candidate| match shown {
        Seen::Zero => candidate.zero,
        Seen::Version(version) => !candidate.zero && candidate.version == version,
        Seen::Garbage => false,
    };
    // What was overwritten while the read ran may still be shown.
    let alive = |candidate: &Candidate| candidate.dead_at.is_none_or(|dead| start < dead);
    let mut matching = (0..list.len()).filter(|at| fits(&list[*at]) && alive(&list[*at]));
    let Some(first) = matching.next() else {
        let allowed: Vec<&Candidate> = list.iter().filter(|candidate| alive(candidate)).collect();
        return Err(format!("shows {shown:?}, allowed are {allowed:?}"));
    };
    if matching.next().is_none() {
        collapse(list, first, start, now);
    }
    Ok(())
}

/// A read from `start` to `now` showed candidate `only`: what cannot be shown any more is marked.
fn collapse(list: &mut Vec<Candidate>, only: usize, start: u64, now: u64) {
    let shown = list[only].clone();
    let was_over = |candidate: &Candidate| candidate.end.is_some_and(|end| end < start);
    for candidate in list.iter_mut().filter(|candidate| candidate.version != shown.version) {
        if candidate.end.is_some_and(|end| end < shown.start) {
            candidate.dead_at.get_or_insert(now);
        } else if was_over(candidate) && was_over(&shown) {
            candidate.dead_at.get_or_insert(now);
            candidate.before.get_or_insert(shown.version);
        }
    }
    if shown.alternative {
        list.retain(|candidate| candidate.version == shown.version || !candidate.alternative);
        list.iter_mut().for_each(|candidate| candidate.alternative = false);
    }
}

#[cfg(test)]
#[path = "reference_tests.rs"]
mod tests;
