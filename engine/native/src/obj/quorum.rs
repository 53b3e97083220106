//! Decisions on descriptors: which one is in force, whether the object can be served, who is written, what a loss changes. Pure.
//!
//! Invariants: the write set comes from [`is_written`] alone, and only from a committed descriptor; a leg is current exactly
//! when it carries no `stale_from`; a mark is set at the stable sequence and never rises; the last current leg of a group is
//! never marked.
use super::address::{LayoutError, groups};
use crate::fmt::descriptor::{Leg, Node, ObjectDescriptor};
use model::ids::{ComponentId, HostId};
use model::state::ComponentState;
use model::units::Timestamp;

/// One reachable component and the descriptor that it holds.
#[derive(Clone, Debug)]
pub struct Candidate {
    /// The component.
    pub component: ComponentId,
    /// What it holds.
    pub descriptor: ObjectDescriptor,
    /// The log of its group lost flushed records, so its descriptor may be an older one: it has no say.
    pub damaged: bool,
}

/// Why an object cannot be served.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Inaccessible {
    /// Half of the votes or fewer are reachable.
    NoMajority {
        /// Reachable votes.
        present: u32,
        /// All votes.
        total: u32,
    },
    /// A group has no reachable current leg; the current ones are on these hosts.
    NoCurrentLeg(Vec<HostId>),
}

/// Whether writes go to this leg. The one place that says so.
pub fn is_written(leg: &Leg) -> bool {
    is_current(leg) || matches!(leg.state, ComponentState::Resyncing | ComponentState::Reconfiguring)
}

/// Whether this leg has every acknowledged write.
pub fn is_current(leg: &Leg) -> bool {
    leg.stale_from.is_none()
}

/// The descriptor in force: the highest of all reachable, if more than half of its own votes are among them.
pub fn winner(candidates: &[Candidate]) -> Result<&ObjectDescriptor, Inaccessible> {
    let sound = || candidates.iter().filter(|candidate| !candidate.damaged);
    let best = sound().map(|candidate| &candidate.descriptor).max_by_key(|descriptor| descriptor.csn);
    let Some(best) = best else {
        let total = candidates.first().map_or(0, |candidate| candidate.descriptor.votes_total());
        return Err(Inaccessible::NoMajority { present: 0, total });
    };
    // Written only after a tombstone was on a majority, before the first component went: it needs no votes.
    if best.tombstone.is_some() && best.votes_total() == 0 {
        return Ok(best);
    }
    majority(best, |component| sound().any(|candidate| candidate.component == component)).map(|()| best)
}

/// Whether more than half of the votes of `descriptor` are reachable.
pub fn majority(
    descriptor: &ObjectDescriptor,
    reachable: impl Fn(ComponentId) -> bool,
) -> Result<(), Inaccessible> {
    let total = descriptor.votes_total();
    let present = descriptor.legs().iter().filter(|leg| reachable(leg.component)).map(|leg| leg.votes).sum();
    if present * 2 > total { Ok(()) } else { Err(Inaccessible::NoMajority { present, total }) }
}

/// Whether every group has a reachable current leg.
pub fn complete(
    descriptor: &ObjectDescriptor,
    reachable: impl Fn(ComponentId) -> bool,
) -> Result<(), Inaccessible> {
    for group in groups(&descriptor.layout).unwrap_or_default() {
        let legs = group.legs();
        if !legs.iter().any(|leg| is_current(leg) && reachable(leg.component)) {
            let mut hosts: Vec<_> = legs.iter().filter(|leg| is_current(leg)).map(|leg| leg.host).collect();
            hosts.dedup();
            return Err(Inaccessible::NoCurrentLeg(hosts));
        }
    }
    Ok(())
}

/// How a leg was lost.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Loss {
    /// It is away and may come back.
    Away,
    /// Its disk failed for good.
    Failed,
    /// It is reachable, but cannot be trusted above this sequence.
    Behind(u64),
}

/// Moves a leg to `state` if the diagram of states has that arrow.
pub fn move_to(leg: &mut Leg, state: ComponentState, now: Timestamp) {
    if leg.state == state {
        return;
    }
    debug_assert!(leg.state.can_become(state), "{:?} to {state:?}", leg.state);
    leg.state = state;
    leg.state_since = now;
    match state {
        ComponentState::Absent | ComponentState::Degraded => _ = leg.absent_since.get_or_insert(now),
        _ => leg.absent_since = None,
    }
}

/// Marks the legs and witnesses that `loss` names. A data leg becomes stale from `stable`, or stays so from earlier. Fails when
/// that would leave a group without a current leg: then nothing may be marked, the object has to wait for one to return.
pub fn mark_lost(
    descriptor: &ObjectDescriptor,
    stable: u64,
    now: Timestamp,
    loss: impl Fn(ComponentId) -> Option<Loss>,
) -> Result<ObjectDescriptor, Inaccessible> {
    complete(descriptor, |component| loss(component).is_none())?;
    let mut marked = descriptor.clone();
    let mark = &mut |leg: &mut Leg| {
        let Some(loss) = loss(leg.component).filter(|_| leg.state != ComponentState::Degraded) else {
            return;
        };
        if leg.size_bytes == 0 && matches!(loss, Loss::Behind(_)) {
            return; // A witness misses nothing but descriptors, and gets the next one.
        }
        let (state, from) = match loss {
            Loss::Away => (ComponentState::Absent, stable),
            Loss::Failed => (ComponentState::Degraded, stable),
            Loss::Behind(oseq) => (ComponentState::Stale, oseq.min(stable)),
        };
        if leg.size_bytes > 0 {
            leg.stale_from = Some(leg.stale_from.map_or(from, |earlier| earlier.min(from)));
        }
        move_to(leg, state, now);
    };
    marked.for_each_leg_mut(mark);
    Ok(marked)
}

/// Sets the votes anew, witnesses included, from the fault domains of all components.
pub fn revote(descriptor: &mut ObjectDescriptor) {
    let domains: Vec<String> = descriptor.legs().iter().map(|leg| leg.fault_domain.clone()).collect();
    let mut votes = model::placement::votes(&domains).into_iter();
    descriptor.for_each_leg_mut(&mut |leg| leg.votes = votes.next().unwrap_or(1));
}

/// Whether the group of `component` has another leg that `is_sound`.
pub fn has_other(layout: &Node, component: ComponentId, is_sound: impl Fn(&Leg) -> bool) -> bool {
    let groups = groups(layout).unwrap_or_default();
    let holds = |legs: &Vec<&Leg>| legs.iter().any(|leg| leg.component == component);
    let of = groups.iter().map(|group| group.legs()).find(holds);
    of.is_some_and(|legs| legs.iter().any(|leg| leg.component != component && is_sound(leg)))
}

/// Index of the group that holds `component`, and whether it is its only current leg.
pub fn group_of(descriptor: &ObjectDescriptor, component: ComponentId) -> Result<Option<usize>, LayoutError> {
    let groups = groups(&descriptor.layout)?;
    Ok(groups.iter().position(|group| group.legs().iter().any(|leg| leg.component == component)))
}
