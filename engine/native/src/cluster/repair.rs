//! What repair does next: pure decisions from what is known now. The thin loop that carries them out is `repair_loop`.
//!
//! Rules, in this order: a component that was given up and answers again is taken back; a reachable one that is behind is
//! brought up to date; a lost one is rebuilt elsewhere, at
//! once when its disk failed, after the repair delay when it is only away; a missing witness or copy is added when there is
//! room for it again. At most [`RESYNCS_MAX`] resyncs at a time, whichever object they belong to; redundancy comes before
//! new layouts. Invariant: a component is never given up before its replacement is current.
use model::ids::{ComponentId, ObjectId};
use model::state::ComponentState;
use model::units::Timestamp;

/// Resyncs at one time in the whole cluster.
pub const RESYNCS_MAX: usize = 2;

/// One object as repair sees it.
#[derive(Clone, Debug)]
pub struct Patient {
    /// The object.
    pub id: ObjectId,
    /// Whether it can be served: nothing is repaired otherwise.
    pub accessible: bool,
    /// Its components.
    pub parts: Vec<Part>,
    /// Whether its layout has fewer copies or witnesses than its policy asks for.
    pub incomplete: bool,
    /// Resyncs of it at work, by target.
    pub running: Vec<ComponentId>,
    /// A person asked not to wait.
    pub repair_now: bool,
    /// The last try to place a replacement failed in this state of the cluster; it is not repeated before something changes.
    pub placement_failed: bool,
}

/// One component as repair sees it.
#[derive(Clone, Copy, Debug)]
pub struct Part {
    /// The component.
    pub component: ComponentId,
    /// Its state.
    pub state: ComponentState,
    /// Whether it can be reached.
    pub reachable: bool,
    /// Whether it only votes.
    pub witness: bool,
    /// Since when it is away.
    pub absent_since: Option<Timestamp>,
    /// The component that it replaces is this one, or it is one that is being replaced.
    pub replaced: bool,
}

/// What to do.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Action {
    /// Take back a component that was given up, for a disk that did not answer in time, and that can be reached.
    TakeBack {
        /// Object.
        object: ObjectId,
        /// The component.
        component: ComponentId,
    },
    /// Bring a component up to date.
    Resync {
        /// Object.
        object: ObjectId,
        /// Target.
        component: ComponentId,
    },
    /// Place and build a replacement; the lost one goes when it is current.
    Replace {
        /// Object.
        object: ObjectId,
        /// The lost component.
        component: ComponentId,
    },
    /// Add what the policy asks for and the layout lacks.
    Complete {
        /// Object.
        object: ObjectId,
    },
    /// Do nothing before this moment.
    WaitUntil {
        /// Object.
        object: ObjectId,
        /// When the repair delay of its first absent component ends.
        at: Timestamp,
    },
}

/// When the repair of an absent component starts.
pub fn due(since: Timestamp, delay_seconds: u32) -> Timestamp {
    since.plus_seconds(u64::from(delay_seconds))
}

/// Decides for all objects. `delay_seconds` is the repair delay in force.
pub fn decide(now: Timestamp, patients: &[Patient], delay_seconds: u32) -> Vec<Action> {
    let mut slots = RESYNCS_MAX.saturating_sub(patients.iter().map(|patient| patient.running.len()).sum());
    let mut actions = Vec::new();
    let open = || patients.iter().filter(|patient| patient.accessible);
    for patient in open() {
        let back = patient.parts.iter().filter(|part| part.state == ComponentState::Absent && part.reachable);
        actions.extend(back.map(|part| Action::TakeBack { object: patient.id, component: part.component }));
    }
    // Redundancy first, then layouts that are being built.
    for wanted in [ComponentState::Stale, ComponentState::Resyncing, ComponentState::Reconfiguring] {
        for patient in open() {
            let behind = |part: &&Part| {
                part.state == wanted
                    && part.reachable
                    && !part.witness
                    && !patient.running.contains(&part.component)
            };
            for part in patient.parts.iter().filter(behind) {
                if slots > 0 {
                    slots -= 1;
                    actions.push(Action::Resync { object: patient.id, component: part.component });
                }
            }
        }
    }
    for patient in open() {
        lost(now, patient, delay_seconds, &mut actions);
        if patient.incomplete && !patient.placement_failed {
            actions.push(Action::Complete { object: patient.id });
        }
    }
    actions
}

/// Replacements and waits for the lost components of one object: one replacement at a time.
fn lost(now: Timestamp, patient: &Patient, delay_seconds: u32, actions: &mut Vec<Action>) {
    let mut wait: Option<Timestamp> = None;
    let mut replacing = patient.parts.iter().any(|part| part.replaced);
    let taken_back = |part: &Part| part.state == ComponentState::Absent && part.reachable;
    for part in patient.parts.iter().filter(|part| !part.replaced && !taken_back(part)) {
        let start = match part.state {
            ComponentState::Degraded => now,
            ComponentState::Absent if patient.repair_now => now,
            ComponentState::Absent => due(part.absent_since.unwrap_or(now), delay_seconds),
            _ => continue,
        };
        if start > now {
            wait = Some(wait.map_or(start, |earlier| earlier.min(start)));
        } else if !replacing && !patient.placement_failed {
            replacing = true;
            actions.push(Action::Replace { object: patient.id, component: part.component });
        }
    }
    if let Some(at) = wait {
        actions.push(Action::WaitUntil { object: patient.id, at });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id(number: u8) -> ComponentId {
        ComponentId::from_random([number; 16])
    }

    fn part(number: u8, state: ComponentState) -> Part {
        let away = matches!(state, ComponentState::Absent | ComponentState::Degraded);
        Part {
            component: id(number),
            state,
            reachable: !away,
            witness: false,
            absent_since: away.then_some(Timestamp(1_000)),
            replaced: false,
        }
    }

    fn patient(number: u8, parts: Vec<Part>) -> Patient {
        Patient {
            id: ObjectId::from_random([number; 16]),
            accessible: true,
            parts,
            incomplete: false,
            running: Vec::new(),
            repair_now: false,
            placement_failed: false,
        }
    }

    use ComponentState::{Absent, Active, Degraded, Reconfiguring, Stale};

    #[test]
    fn an_absent_component_waits_and_a_failed_one_does_not() {
        let away = patient(1, vec![part(1, Active), part(2, Absent)]);
        let object = away.id;
        let due = Timestamp(1_000 + 60_000);
        assert_eq!(
            decide(Timestamp(2_000), std::slice::from_ref(&away), 60),
            [Action::WaitUntil { object, at: due }]
        );
        assert_eq!(
            decide(due, std::slice::from_ref(&away), 60),
            [Action::Replace { object, component: id(2) }]
        );
        let hurried = Patient { repair_now: true, ..away };
        assert_eq!(decide(Timestamp(2_000), &[hurried], 60), [Action::Replace { object, component: id(2) }]);
        let failed = patient(1, vec![part(1, Active), part(2, Degraded)]);
        assert_eq!(decide(Timestamp(2_000), &[failed], 60), [Action::Replace { object, component: id(2) }]);
    }

    #[test]
    fn what_answers_again_is_taken_back_and_not_rebuilt() {
        let mut away = patient(1, vec![part(1, Active), part(2, Absent)]);
        away.parts[1].reachable = true;
        let (object, component) = (away.id, id(2));
        assert_eq!(decide(Timestamp(1 << 40), &[away], 60), [Action::TakeBack { object, component }]);
    }

    #[test]
    fn two_resyncs_at_a_time_redundancy_before_new_layouts() {
        let building = patient(1, vec![part(1, Active), part(2, Reconfiguring)]);
        let behind: Vec<Patient> =
            (2..5).map(|number| patient(number, vec![part(number, Stale), part(9, Active)])).collect();
        let all: Vec<Patient> = [building].into_iter().chain(behind.clone()).collect();
        let resync =
            |patient: &Patient| Action::Resync { object: patient.id, component: patient.parts[0].component };
        assert_eq!(decide(Timestamp(0), &all, 60), [resync(&behind[0]), resync(&behind[1])]);
        let busy = Patient { running: vec![id(2), id(3)], ..behind[0].clone() };
        assert_eq!(decide(Timestamp(0), &[busy], 60), []);
    }

    #[test]
    fn what_cannot_be_served_or_placed_is_left_alone() {
        let stuck =
            Patient { placement_failed: true, ..patient(1, vec![part(1, Active), part(2, Degraded)]) };
        assert_eq!(decide(Timestamp(0), &[stuck], 60), []);
        let down = Patient { accessible: false, ..patient(1, vec![part(1, Stale), part(2, Degraded)]) };
        assert_eq!(decide(Timestamp(0), &[down], 60), []);
    }

    #[test]
    fn one_replacement_at_a_time_and_missing_parts_are_added() {
        let mut two = patient(1, vec![part(1, Active), part(2, Degraded), part(3, Degraded)]);
        assert_eq!(decide(Timestamp(0), &[two.clone()], 60).len(), 1);
        two.parts[1].replaced = true;
        assert_eq!(decide(Timestamp(0), &[two], 60), []);
        let short = Patient { incomplete: true, ..patient(1, vec![part(1, Active)]) };
        assert_eq!(
            decide(Timestamp(0), std::slice::from_ref(&short), 60),
            [Action::Complete { object: short.id }]
        );
    }
}
