//! The loop that carries out what `repair` decides, and keeps the snapshot fresh. Thin: facts in, actions out.
use super::core::{ClusterCore, RunObject};
use super::repair::{Action, Part, Patient, decide};
use super::reshape::{copies, incomplete};
use super::source::DiskSource;
use crate::fmt::descriptor::{Leg, ObjectDescriptor};
use crate::obj::ObjError;
use crate::obj::address::groups;
use crate::obj::store::Store;
use model::engine::EngineError;
use model::ids::{ComponentId, ObjectId};
use model::state::{ClusterState, ComponentState, Severity};
use std::collections::BTreeSet;
use std::rc::Rc;
use std::time::Duration;

/// Longest pause between two looks.
pub(super) const TICK: Duration = Duration::from_millis(250);
/// Rest after a repair or a resync that ended early, so that a full disk is not tried again and again.
const REST: Duration = Duration::from_secs(5);
/// A disk that leaves a request unanswered for so long is not asked again yet.
const SILENCE: Duration = Duration::from_secs(1);
/// Rest after one whose source or target went away: they may be back at once.
const REST_SHORT: Duration = Duration::from_millis(500);

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
        self.watch_disks();
        self.find_failures().await;
        self.forget_haste();
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
            let (stopped, pulled) = (dg.is_stopped(), dg.pulled_disks());
            let hit = self.directory.on(|place| place.group == group && (all || disks.contains(&place.disk)));
            for (object, components) in hit {
                let Some(owner) = self.owner(object) else { continue };
                let places = self.directory.places(object);
                let is_away = |component: &ComponentId| {
                    stopped || places.get(component).is_some_and(|place| pulled.contains(&place.disk))
                };
                let known = |component: &ComponentId| {
                    owner.descriptor().leg(*component).is_none_or(|leg| match leg.state {
                        ComponentState::Degraded => true,
                        ComponentState::Absent => is_away(component),
                        _ => false,
                    })
                };
                let fresh: Vec<_> = components.into_iter().filter(|component| !known(component)).collect();
                if !fresh.is_empty() && owner.inaccessible().is_none() {
                    let (away, failed): (Vec<_>, Vec<_>) = fresh.into_iter().partition(is_away);
                    owner.legs_gone(&away).await;
                    owner.legs_failed(&failed).await;
                    self.with_object(object, |_| ());
                }
            }
        }
    }

    /// A wish to repair without waiting holds for what is absent now, not for the next absence.
    fn forget_haste(&self) {
        for object in self.state.borrow_mut().objects.values_mut().filter(|object| object.repair_now) {
            let descriptor = object.descriptor();
            object.repair_now = descriptor.legs().iter().any(|leg| leg.state == ComponentState::Absent);
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
        let built = being_built(&descriptor);
        let part = |leg: &Leg, witness: bool| Part {
            component: leg.component,
            state: leg.state,
            reachable: !object.resting.contains(&leg.component)
                && self.directory.leg(id, leg.component).is_some_and(|leg| !leg.is_silent(SILENCE)),
            witness,
            absent_since: leg.absent_since,
            replaced: object.replacing.contains(&leg.component) || built.contains(&leg.component),
        };
        let data = descriptor.layout.legs().into_iter().map(|leg| part(leg, false));
        let votes = descriptor.witnesses.iter().map(|leg| part(leg, true));
        Patient {
            id,
            accessible: owner.is_some_and(|owner| owner.inaccessible().is_none()),
            parts: data.chain(votes).collect(),
            incomplete: !object.reshaping
                && !object.completing
                && incomplete(&descriptor, &descriptor.policy),
            running: running.into_iter().collect(),
            repair_now: object.repair_now,
            placement_failed: object.stuck.is_some() || object.reshaping,
        }
    }

    fn act(&self, action: Action) {
        let core = self.rc();
        match action {
            Action::TakeBack { object, component } => {
                let Some(owner) = self.owner(object) else { return };
                self.with_object(object, |found| found.resting.insert(component));
                tokio::task::spawn_local(async move {
                    let result = owner.legs_returned(&[component]).await;
                    core.changed(Some(&BTreeSet::from([object])));
                    if let Err(error) = &result {
                        tracing::info!(%object, %component, %error, "a component could not be taken back");
                    }
                    if result.is_err() || !owner.is_reachable(component) {
                        tokio::time::sleep(REST).await;
                    }
                    core.with_object(object, |found| found.resting.remove(&component));
                    core.care.notify_one();
                });
            }
            Action::Resync { object, component } => {
                let Some(owner) = self.owner(object) else { return };
                self.with_object(object, |found| found.starting.insert(component));
                tokio::task::spawn_local(async move {
                    let result = owner.resync(component, &core.pace).await;
                    core.with_object(object, |found| {
                        found.starting.remove(&component);
                        if result.is_err() {
                            found.resting.insert(component);
                        }
                    });
                    core.changed(Some(&BTreeSet::from([object])));
                    if let Err(error) = result {
                        tracing::info!(%object, %component, %error, "a resync ended early");
                        tokio::time::sleep(if error == ObjError::Aborted { REST_SHORT } else { REST }).await;
                        core.with_object(object, |found| found.resting.remove(&component));
                        core.care.notify_one();
                    }
                });
            }
            Action::Replace { object, component } => {
                self.with_object(object, |found| found.replacing.insert(component));
                tokio::task::spawn_local(async move {
                    let result = core.replace(object, component).await;
                    core.rest_after(&result).await;
                    core.with_object(object, |found| found.replacing.remove(&component));
                    core.after_repair(object, result);
                });
            }
            Action::Complete { object } => {
                let Some(owner) = self.owner(object) else { return };
                let policy = owner.descriptor().policy.clone();
                self.with_object(object, |found| found.completing = true);
                tokio::task::spawn_local(async move {
                    let result = core.shape(object, &policy).await;
                    core.rest_after(&result).await;
                    core.with_object(object, |found| found.completing = false);
                    core.after_repair(object, result);
                });
            }
            Action::WaitUntil { .. } => {}
        }
    }

    /// Waits after a repair that failed for a reason which may pass by itself.
    async fn rest_after(&self, result: &Result<(), EngineError>) {
        if matches!(result, Err(error) if !matches!(error, EngineError::Unplaceable(_))) {
            tokio::time::sleep(REST).await;
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

/// Lost components of rows that have a replacement already, which is not current yet: they only wait for it.
fn being_built(descriptor: &ObjectDescriptor) -> BTreeSet<ComponentId> {
    let wanted = copies(&descriptor.policy);
    let rows = groups(&descriptor.layout).unwrap_or_default();
    let waiting = rows.iter().map(|row| row.legs()).filter(|legs| {
        let current = legs.iter().filter(|leg| leg.stale_from.is_none()).count();
        legs.len() > wanted && current < wanted
    });
    waiting.flatten().map(|leg| leg.component).collect()
}
