//! The loop that carries out what `repair` decides, and keeps the snapshot fresh. Thin: facts in, actions out.
use super::core::{ClusterCore, RunObject};
use super::repair::{Action, Part, Patient, decide};
use super::reshape::incomplete;
use super::source::DiskSource;
use crate::fmt::descriptor::Leg;
use model::engine::EngineError;
use model::ids::{ComponentId, ObjectId};
use model::state::{ClusterState, ComponentState, Severity};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

/// Longest pause between two looks.
pub(super) const TICK: Duration = Duration::from_millis(250);

impl<D: DiskSource + 'static> ClusterCore<D> {
    /// Starts the loop; it ends with the core.
    pub(super) fn spawn_care(self: &Rc<Self>) {
        let me = Rc::downgrade(self);
        tokio::task::spawn_local(async move {
            loop {
                let Some(core) = me.upgrade() else { return };
                if core.state.borrow().stopping {
                    return;
                }
                core.look().await;
                tokio::select! {
                    () = core.care.notified() => {}
                    () = tokio::time::sleep(TICK) => {}
                }
            }
        });
    }

    /// One look: failed disks, repairs, the numbers of the snapshot.
    async fn look(&self) {
        self.ticks.set(self.ticks.get() + 1);
        if self.state.borrow().life != ClusterState::Ready {
            return;
        }
        self.find_failures().await;
        let delay = self.state.borrow().config.as_ref().map_or(0, |config| config.repair_delay_seconds);
        let patients = self.patients();
        for action in decide(self.env.wall(), &patients, delay) {
            self.act(action);
        }
        self.refresh();
    }

    /// Tells objects of disks that failed since the last look.
    async fn find_failures(&self) {
        for (dg, _) in self.directory.groups() {
            let (group, all, disks) = (dg.group(), dg.is_failed(), dg.failed_disks());
            if !all && disks.is_empty() {
                continue;
            }
            let hit = self.directory.on(|place| place.group == group && (all || disks.contains(&place.disk)));
            for (object, components) in hit {
                let Some(owner) = self.owner(object) else { continue };
                let known = |component: &ComponentId| {
                    owner.descriptor().leg(*component).is_none_or(|leg| leg.state == ComponentState::Degraded)
                };
                let fresh: Vec<_> = components.into_iter().filter(|component| !known(component)).collect();
                if !fresh.is_empty() && owner.inaccessible().is_none() {
                    owner.legs_failed(&fresh).await;
                    self.with_object(object, |_| ());
                }
            }
        }
    }

    fn patients(&self) -> Vec<Patient> {
        let state = self.state.borrow();
        let busy = |object: &RunObject| object.owner.is_some();
        state
            .objects
            .iter()
            .filter(|(_, object)| busy(object))
            .map(|(id, object)| self.patient(*id, object))
            .collect()
    }

    fn patient(&self, id: ObjectId, object: &RunObject) -> Patient {
        let descriptor = object.descriptor();
        let owner = object.owner.as_ref();
        let mut running: BTreeSet<ComponentId> = object.starting.clone();
        running.extend(owner.into_iter().flat_map(|owner| owner.resyncs()).map(|(component, _)| component));
        let part = |leg: &Leg, witness: bool| Part {
            component: leg.component,
            state: leg.state,
            reachable: self.directory.leg(id, leg.component).is_some(),
            witness,
            absent_since: leg.absent_since,
            replaced: object.replacing.contains(&leg.component),
        };
        let data = descriptor.layout.legs().into_iter().map(|leg| part(leg, false));
        let votes = descriptor.witnesses.iter().map(|leg| part(leg, true));
        Patient {
            id,
            accessible: owner.is_some_and(|owner| owner.inaccessible().is_none()),
            parts: data.chain(votes).collect(),
            incomplete: !object.reshaping && incomplete(&descriptor, &descriptor.policy),
            running: running.into_iter().collect(),
            repair_now: object.repair_now,
            placement_failed: object.stuck.is_some() || object.reshaping,
        }
    }

    fn act(&self, action: Action) {
        let core = self.rc();
        match action {
            Action::Resync { object, component } => {
                let Some(owner) = self.owner(object) else { return };
                self.with_object(object, |found| found.starting.insert(component));
                tokio::task::spawn_local(async move {
                    let result = owner.resync(component, &core.pace).await;
                    core.with_object(object, |found| found.starting.remove(&component));
                    if let Err(error) = result {
                        tracing::info!(%object, %component, %error, "a resync ended early");
                        tokio::time::sleep(TICK).await;
                    }
                    core.changed(Some(&BTreeSet::from([object])));
                });
            }
            Action::Replace { object, component } => {
                self.with_object(object, |found| found.replacing.insert(component));
                tokio::task::spawn_local(async move {
                    let result = core.replace(object, component).await;
                    core.with_object(object, |found| found.replacing.remove(&component));
                    core.after_repair(object, result);
                });
            }
            Action::Complete { object } => {
                let Some(owner) = self.owner(object) else { return };
                let policy = owner.descriptor().policy.clone();
                tokio::task::spawn_local(async move {
                    let result = core.shape(object, &policy).await;
                    core.after_repair(object, result);
                });
            }
            Action::WaitUntil { .. } => {}
        }
    }

    fn after_repair(&self, object: ObjectId, result: Result<(), EngineError>) {
        let said = match result {
            Ok(()) => self.with_object(object, |found| {
                (found.repair_now, found.stuck) = (false, None);
                None
            }),
            Err(EngineError::Unplaceable(refusal)) => self.with_object(object, |found| {
                found.stuck = Some(refusal.summary.clone());
                Some(format!("{} cannot be rebuilt: {}", found.seen.name, refusal.summary))
            }),
            Err(error) => {
                tracing::info!(%object, %error, "a repair ended early");
                None
            }
        };
        if let Some(Some(text)) = said {
            self.board.event(Severity::Warning, "cannot-rebuild", format!("object:{object}"), text);
        }
        self.changed(Some(&BTreeSet::from([object])));
    }
}
