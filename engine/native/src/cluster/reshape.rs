//! Bringing the layout of an object to what its policy asks: copies and witnesses are added and dropped, lost ones replaced.
//!
//! Invariants: one reshaping of an object at a time; a component is made before it is named by a descriptor and dropped only when
//! enough current ones are left; after a crash at any point the same call goes on from what is there.
use super::core::ClusterCore;
use super::leg::Leg as LegHandle;
use super::objects::object_error;
use super::source::DiskSource;
use crate::fmt::descriptor::{Leg, Node, ObjectDescriptor};
use crate::obj::address::groups;
use crate::obj::{ObjError, Owner};
use model::engine::{Applied, EngineError};
use model::ids::{ComponentId, ObjectId, TaskId};
use model::placement::{
    COMPONENT_METADATA_BYTES, PlannedLeg, SpareNeed, StayingLeg, domains_for_majority, place_one,
};
use model::policy::Policy;
use model::state::{ComponentState, Severity};
use std::collections::BTreeSet;

/// Copies that a mirror policy asks for.
pub(super) fn copies(policy: &Policy) -> usize {
    usize::from(policy.failures_to_tolerate) + 1
}

/// Witnesses that an object needs for a majority after the failures of its policy.
pub(super) fn witnesses_wanted(descriptor: &ObjectDescriptor, policy: &Policy) -> usize {
    let data: BTreeSet<&str> = descriptor.layout.legs().iter().map(|leg| leg.fault_domain.as_str()).collect();
    domains_for_majority(policy.failures_to_tolerate).saturating_sub(data.len())
}

/// Whether the layout has fewer copies or witnesses than `policy` asks for.
pub(super) fn incomplete(descriptor: &ObjectDescriptor, policy: &Policy) -> bool {
    let rows = groups(&descriptor.layout).unwrap_or_default();
    rows.iter().any(|row| row.legs().len() < copies(policy))
        || descriptor.witnesses.len() < witnesses_wanted(descriptor, policy)
}

/// Whether an edit asks for another tree, which this version cannot build beside the old one.
fn needs_new_tree(old: &Policy, new: &Policy) -> bool {
    old.fault_tolerance_method != new.fault_tolerance_method
        || old.stripe_width != new.stripe_width
        || old.data_legs != new.data_legs
        || old.site_tolerance != new.site_tolerance
}

/// Data legs with their place in their row, then witnesses: what `place_one` wants to know.
fn staying(descriptor: &ObjectDescriptor, without: Option<ComponentId>) -> Vec<StayingLeg> {
    let rows = groups(&descriptor.layout).unwrap_or_default();
    let data = rows
        .iter()
        .flat_map(|row| row.legs().into_iter().enumerate().map(|(replica, leg)| (leg, Some(replica))));
    let all = data.chain(descriptor.witnesses.iter().map(|leg| (leg, None)));
    let kept = all.filter(|(leg, _)| Some(leg.component) != without);
    kept.map(|(leg, replica)| StayingLeg { disk: leg.disk, replica }).collect()
}

impl<D: DiskSource + 'static> ClusterCore<D> {
    /// Gives a volume a policy (its own, as it is now, when `None`), as a task.
    pub(super) fn apply_policy(
        &self,
        task: TaskId,
        id: ObjectId,
        expected_csn: Option<(u64, u64)>,
        policy: Option<&str>,
    ) -> Result<Applied, EngineError> {
        if self.board.task(task).is_some() {
            return Ok(Applied::default());
        }
        let (name, owner) = self.open_volume(id)?;
        let descriptor = owner.descriptor();
        if let Some(expected) = expected_csn.filter(|expected| *expected != descriptor.csn) {
            let current =
                format!("{}.{}, not {}.{}", descriptor.csn.0, descriptor.csn.1, expected.0, expected.1);
            return Err(EngineError::StaleVersion { what: format!("volume {name:?}"), current });
        }
        let wanted = self.policy(Some(policy.unwrap_or(&descriptor.policy.name)))?;
        super::capabilities::check_policy(&wanted)?;
        if needs_new_tree(&descriptor.policy, &wanted) {
            return Err(super::capabilities::unsupported("relayout"));
        }
        self.room_for(&descriptor, &wanted)?;
        self.board.start_task(task, "apply-policy", &name);
        let core = self.rc();
        tokio::task::spawn_local(async move {
            core.board.progress(task, 1, "adding copies");
            let result = core.shape(id, &wanted).await;
            core.board.finish_task(task, result);
        });
        Ok(Applied::default())
    }

    /// Refuses at once when the cluster has too few fault domains for the policy.
    fn room_for(&self, descriptor: &ObjectDescriptor, policy: &Policy) -> Result<(), EngineError> {
        let asks_more = copies(policy) > copies(&descriptor.policy);
        if !asks_more || policy.force_provisioning {
            return Ok(());
        }
        let thin = Policy { object_space_reservation_percent: 0, ..policy.clone() };
        model::placement::place(&self.topology(), &thin, descriptor.size_bytes)
            .map_err(EngineError::Unplaceable)?;
        Ok(())
    }

    /// Brings an object to `policy`: returns when every copy is current and the descriptor says the policy.
    pub(super) async fn shape(&self, id: ObjectId, policy: &Policy) -> Result<(), EngineError> {
        let busy = self.with_object(id, |object| std::mem::replace(&mut object.reshaping, true));
        match busy {
            None => return Err(EngineError::NotFound { what: format!("volume {id}") }),
            Some(true) => {
                return Err(EngineError::Conflict {
                    detail: "another change of this volume is at work; try again later".into(),
                });
            }
            Some(false) => {}
        }
        let result = self.shape_alone(id, policy).await;
        self.with_object(id, |object| object.reshaping = false);
        self.changed(None);
        result
    }

    async fn shape_alone(&self, id: ObjectId, policy: &Policy) -> Result<(), EngineError> {
        let (name, owner) = self.open_volume(id)?;
        let error = |error: ObjError| object_error(&name, &error);
        self.add_copies(&owner, policy).await?;
        self.drop_copies(&owner, policy).await.map_err(error)?;
        self.set_witnesses(&owner, policy).await?;
        self.settle_copies(id, &owner, &name).await?;
        if owner.descriptor().policy != *policy {
            owner.set_policy(policy.clone()).await.map_err(error)?;
        }
        self.board.event(
            Severity::Info,
            "layout-changed",
            format!("object:{id}"),
            format!("{name} follows policy {}", policy.name),
        );
        Ok(())
    }

    async fn add_copies(&self, owner: &Owner<LegHandle>, policy: &Policy) -> Result<(), EngineError> {
        loop {
            let descriptor = owner.descriptor();
            let rows = groups(&descriptor.layout).unwrap_or_default();
            let short = rows.iter().position(|row| row.legs().len() < copies(policy));
            let Some(row) = short else { return Ok(()) };
            let legs = rows[row].legs();
            let used = legs.iter().map(|leg| self.used_of(&descriptor, leg)).max().unwrap_or(0);
            let (replica, size_bytes) = (legs.len(), legs.first().map_or(0, |leg| leg.size_bytes));
            // Witnesses are set anew afterwards: when only their domains are left, one of them gives way.
            let placed = self.new_leg(&descriptor, policy, Some(replica), size_bytes, used, None).await;
            let leg = match (placed, descriptor.witnesses.last()) {
                (Ok(leg), _) => leg,
                (Err(EngineError::Unplaceable(_)), Some(witness)) => {
                    owner
                        .drop_leg(witness.component)
                        .await
                        .map_err(|error| object_error(&descriptor.name, &error))?;
                    continue;
                }
                (Err(error), _) => return Err(error),
            };
            owner.add_leg(row, leg).await.map_err(|error| object_error(&descriptor.name, &error))?;
        }
    }

    async fn drop_copies(&self, owner: &Owner<LegHandle>, policy: &Policy) -> Result<(), ObjError> {
        loop {
            let descriptor = owner.descriptor();
            let rows = groups(&descriptor.layout)?;
            let Some(row) = rows.iter().find(|row| row.legs().len() > copies(policy)) else { return Ok(()) };
            let mut legs = row.legs();
            // Those behind or away go first, then the newest.
            legs.sort_by_key(|leg| (leg.stale_from.is_none(), leg.state == ComponentState::Active));
            let behind =
                legs.first().filter(|leg| leg.stale_from.is_some() || leg.state != ComponentState::Active);
            let victim = behind.copied().or(row.legs().last().copied()).map(|leg| leg.component);
            owner.drop_leg(victim.ok_or(ObjError::Refused("a row without legs"))?).await?;
        }
    }

    async fn set_witnesses(&self, owner: &Owner<LegHandle>, policy: &Policy) -> Result<(), EngineError> {
        loop {
            let descriptor = owner.descriptor();
            let wanted = witnesses_wanted(&descriptor, policy);
            let error = |error: ObjError| object_error(&descriptor.name, &error);
            if let Some(surplus) = descriptor.witnesses.get(wanted) {
                owner.drop_leg(surplus.component).await.map_err(error)?;
            } else if descriptor.witnesses.len() < wanted {
                let leg = self.new_leg(&descriptor, policy, None, 0, 0, None).await?;
                owner.add_witness(leg).await.map_err(error)?;
            } else {
                return Ok(());
            }
        }
    }

    /// Waits until the repair loop has made every copy current.
    async fn settle_copies(
        &self,
        id: ObjectId,
        owner: &Owner<LegHandle>,
        name: &str,
    ) -> Result<(), EngineError> {
        self.changed(None);
        loop {
            let descriptor = owner.descriptor();
            let building = descriptor.layout.legs().into_iter().any(|leg| {
                let reachable = self.directory.leg(id, leg.component).is_some();
                leg.stale_from.is_some() && (reachable || leg.state == ComponentState::Reconfiguring)
            });
            if !building {
                return Ok(());
            }
            if self.owner(id).is_none() || self.state.borrow().stopping {
                return Err(EngineError::Conflict {
                    detail: format!("the change of {name:?} was broken off; apply it again"),
                });
            }
            tokio::time::sleep(super::care::TICK).await;
        }
    }

    fn used_of(&self, descriptor: &ObjectDescriptor, leg: &Leg) -> u64 {
        self.directory.leg(descriptor.uuid, leg.component).map_or(0, |handle| handle.used_bytes())
    }

    /// Places and makes one component.
    pub(super) async fn new_leg(
        &self,
        descriptor: &ObjectDescriptor,
        policy: &Policy,
        replica: Option<usize>,
        size_bytes: u64,
        used_bytes: u64,
        without: Option<ComponentId>,
    ) -> Result<Leg, EngineError> {
        let _turn = self.place_turn.lock().await;
        let topology = self.topology();
        let reserved = size_bytes / 100 * u64::from(policy.object_space_reservation_percent);
        let bytes = used_bytes.max(reserved) + COMPONENT_METADATA_BYTES;
        let domains = domains_for_majority(policy.failures_to_tolerate);
        let need = SpareNeed { bytes, replica, domains };
        let disk =
            place_one(&topology, need, &staying(descriptor, without)).map_err(EngineError::Unplaceable)?;
        let room = topology.rooms.iter().find(|room| room.disk == disk);
        let (host, fault_domain) =
            room.map(|room| (room.host.clone(), room.fault_domain.clone())).unwrap_or_default();
        let planned = PlannedLeg { disk, host, fault_domain, size_bytes, reserve_bytes: bytes, votes: 1 };
        let leg = self.leg_of(&planned);
        self.make_components(descriptor, &[&leg]).await?;
        Ok(leg)
    }

    /// Replaces a lost component; it goes when the new one is current.
    pub(super) async fn replace(&self, id: ObjectId, lost: ComponentId) -> Result<(), EngineError> {
        let (name, owner) = self.open_volume(id)?;
        let error = |error: ObjError| object_error(&name, &error);
        let descriptor = owner.descriptor();
        let policy = descriptor.policy.clone();
        if descriptor.witnesses.iter().any(|witness| witness.component == lost) {
            if descriptor.witnesses.len() > witnesses_wanted(&descriptor, &policy) {
                return owner.drop_leg(lost).await.map_err(error);
            }
            let leg = self.new_leg(&descriptor, &policy, None, 0, 0, Some(lost)).await?;
            owner.add_witness(leg).await.map_err(error)?;
            return owner.drop_leg(lost).await.map_err(error);
        }
        let rows = groups(&descriptor.layout).unwrap_or_default();
        let Some(row) = rows.iter().find(|row| row.legs().iter().any(|leg| leg.component == lost)) else {
            return Ok(());
        };
        let legs = row.legs();
        if legs.len() > copies(&policy) {
            // A replacement is there from before: the lost one goes once that is current.
            let current = legs.iter().filter(|leg| leg.stale_from.is_none()).count();
            return if current >= copies(&policy) {
                owner.drop_leg(lost).await.map_err(error)
            } else {
                Ok(())
            };
        }
        let replica = legs.iter().position(|leg| leg.component == lost);
        let used = legs.iter().map(|leg| self.used_of(&descriptor, leg)).max().unwrap_or(0);
        let size_bytes = legs.first().map_or(0, |leg| leg.size_bytes);
        let leg = self.new_leg(&descriptor, &policy, replica, size_bytes, used, Some(lost)).await?;
        let component = leg.component;
        self.with_object(id, |object| object.replacing.extend([lost, component]));
        self.board.event(
            Severity::Info,
            "rebuild-started",
            format!("object:{id}"),
            format!("{name}: a copy is rebuilt elsewhere"),
        );
        let replaced = owner.replace_leg(lost, leg, &self.pace).await;
        self.with_object(id, |object| {
            object.replacing.remove(&lost);
            object.replacing.remove(&component);
        });
        replaced.map_err(error)?;
        // A lost component whose disk is back could not be removed through the object, which had given it up.
        self.remove_orphans(id, &owner.descriptor()).await;
        Ok(())
    }
}

/// The place of each leaf in the tree: pieces of columns of rows.
pub(super) fn pieces(layout: &Node) -> Vec<Vec<Vec<&Leg>>> {
    let columns = |node: &'_ Node| -> Vec<Vec<ComponentId>> {
        match node {
            Node::Stripe(children) => children.iter().map(ids).collect(),
            other => vec![ids(other)],
        }
    };
    let pieces = match layout {
        Node::Concat(children) => children.iter().map(columns).collect(),
        other => vec![columns(other)],
    };
    let legs = layout.legs();
    let find = |id: ComponentId| legs.iter().copied().find(|leg| leg.component == id);
    let row = |row: Vec<ComponentId>| row.into_iter().filter_map(find).collect();
    pieces.into_iter().map(|piece: Vec<_>| piece.into_iter().map(row).collect()).collect()
}

fn ids(node: &Node) -> Vec<ComponentId> {
    node.legs().into_iter().map(|leg| leg.component).collect()
}
