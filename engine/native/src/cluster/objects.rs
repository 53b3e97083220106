//! Volumes come, grow and go.
//!
//! Invariants: room is looked for and taken in one turn, so that parallel requests never promise the same room twice; a volume
//! exists once its descriptor stands on all of its components; what a failed creation made is removed again.
use super::core::{ClusterCore, RunObject};
use super::leg::{Leg as LegHandle, Place};
use super::source::DiskSource;
use crate::dg::{DgError, NewComponent};
use crate::fmt::cbor::Unknown;
use crate::fmt::component::ComponentKind;
use crate::fmt::descriptor::{Leg, Node, ObjectDescriptor};
use crate::obj::address::AddressMap;
use crate::obj::store::Store;
use crate::obj::{ObjError, Owner};
use futures_util::future::join_all;
use model::arithmetic::{name_problem, size_problem};
use model::engine::{Applied, EngineError};
use model::ids::{ComponentId, ObjectId};
use model::placement::{Placement, PlannedLeg, PlannedNode, place};
use model::policy::Policy;
use model::state::{ComponentState, Severity};
use model::units::{BLOCK_BYTES, COMPONENT_BYTES_MAX, STRIPE_UNIT_BYTES};
use model::view::ObjectType;
use std::rc::Rc;

/// An error of an object as the caller of an intent hears it.
pub(super) fn object_error(name: &str, error: &ObjError) -> EngineError {
    let detail = match error {
        ObjError::Inaccessible(why) => {
            format!("volume {name:?} cannot be reached: {why}; bring its hosts back first")
        }
        ObjError::NoSpace => format!("not enough space for volume {name:?}"),
        other => format!("volume {name:?}: {other}"),
    };
    EngineError::Conflict { detail }
}

impl<D: DiskSource + 'static> ClusterCore<D> {
    /// The volume's name, or `NotFound`.
    pub(super) fn volume_name(&self, id: ObjectId) -> Result<String, EngineError> {
        let state = self.state.borrow();
        let found = state.objects.get(&id).map(|object| object.descriptor().name.clone());
        found.ok_or_else(|| EngineError::NotFound { what: format!("volume {id}") })
    }

    /// The open volume, or why it cannot be changed now.
    pub(super) fn open_volume(&self, id: ObjectId) -> Result<(String, Owner<LegHandle>), EngineError> {
        let name = self.volume_name(id)?;
        if let Some(owner) = self.owner(id) {
            return Ok((name, owner));
        }
        let why = self.state.borrow().objects.get(&id).and_then(|object| object.why.clone());
        Err(object_error(&name, &ObjError::Inaccessible(why.unwrap_or_default())))
    }

    /// The policy of that name (the default one when `None`) as it is now.
    pub(super) fn policy(&self, name: Option<&str>) -> Result<Policy, EngineError> {
        let config = self.ready()?;
        let name = name.unwrap_or(&config.default_policy);
        let found = config.policies.iter().find(|policy| policy.name == name).cloned();
        found.ok_or_else(|| EngineError::NotFound { what: format!("policy {name:?}") })
    }

    /// Makes a volume. Done on return; a repetition under the same id is done, too.
    pub(super) async fn create_volume(
        &self,
        id: ObjectId,
        name: String,
        size_bytes: u64,
        policy: Option<&str>,
    ) -> Result<Applied, EngineError> {
        if let Some(detail) = name_problem(&name) {
            return Err(EngineError::Invalid { field: "name".into(), detail });
        }
        if let Some(detail) = size_problem(size_bytes) {
            return Err(EngineError::Invalid { field: "size_bytes".into(), detail });
        }
        let policy = self.policy(policy)?;
        if self.volume_name(id).is_ok_and(|known| known == name) {
            return Ok(Applied { done: true, ..Applied::default() });
        }
        self.take_name(&name)?;
        let made = self.make_volume(id, &name, size_bytes, policy).await;
        self.state.borrow_mut().names_taken.remove(&name);
        let warnings = made?;
        self.board.event(
            Severity::Info,
            "volume-created",
            format!("object:{id}"),
            format!("volume {name} was made"),
        );
        self.changed(None);
        Ok(Applied { done: true, applied: Vec::new(), warnings })
    }

    fn take_name(&self, name: &str) -> Result<(), EngineError> {
        let mut state = self.state.borrow_mut();
        let used = state.objects.values().any(|object| object.seen.name == name);
        if used || !state.names_taken.insert(name.to_owned()) {
            return Err(EngineError::NameTaken { what: format!("volume {name:?}") });
        }
        Ok(())
    }

    async fn make_volume(
        &self,
        id: ObjectId,
        name: &str,
        size_bytes: u64,
        policy: Policy,
    ) -> Result<Vec<String>, EngineError> {
        let _turn = self.place_turn.lock().await;
        let topology = self.topology();
        let placement = place(&topology, &policy, size_bytes).map_err(EngineError::Unplaceable)?;
        self.make_placed(id, name, size_bytes, policy, &placement).await?;
        Ok(placement.warnings)
    }

    /// Makes a volume where `placement` says; the caller holds the turn of placement.
    pub(super) async fn make_placed(
        &self,
        id: ObjectId,
        name: &str,
        size_bytes: u64,
        policy: Policy,
        placement: &Placement,
    ) -> Result<(), EngineError> {
        let layout = self.node_of(&placement.root);
        let witnesses = placement.witnesses.iter().map(|planned| self.leg_of(planned)).collect();
        let boot = self.boot();
        let descriptor = ObjectDescriptor {
            uuid: id,
            name: name.to_owned(),
            object_type: ObjectType::Volume,
            size_bytes,
            created_at: self.env.wall(),
            csn: boot.next_csn(),
            layout,
            witnesses,
            policy,
            owner_epoch: boot.epoch(),
            tombstone: None,
            unknown: Unknown::new(),
        };
        let legs = descriptor.legs();
        if let Err(error) = self.make_components(&descriptor, &legs).await {
            self.remove_components(id).await;
            return Err(error);
        }
        let (env, config) = (self.env.clone(), self.settings.objects);
        let opened = Owner::open(id, self.members(), boot, env, config, self.observer()).await;
        match opened {
            Ok(owner) => {
                let mut run = RunObject::new(owner.descriptor());
                run.owner = Some(owner);
                self.state.borrow_mut().objects.insert(id, run);
                Ok(())
            }
            Err(error) => {
                self.remove_components(id).await;
                Err(object_error(name, &error))
            }
        }
    }

    /// Makes the components of `legs`, all at once, each with `descriptor`. Those that were made stay in the directory.
    pub(super) async fn make_components(
        &self,
        descriptor: &ObjectDescriptor,
        legs: &[&Leg],
    ) -> Result<(), EngineError> {
        let bytes: Rc<[u8]> = descriptor.to_bytes().into();
        let made = legs.iter().map(async |leg| {
            let dg = self.directory.group(leg.disk_group).ok_or(DgError::Gone)?;
            let witness = leg.size_bytes == 0;
            let new = NewComponent {
                component: leg.component,
                object: descriptor.uuid,
                kind: if witness { ComponentKind::Witness } else { ComponentKind::Data },
                size_blocks: leg.size_bytes / BLOCK_BYTES,
                csn: descriptor.csn,
                descriptor: bytes.clone(),
            };
            let local = dg.create_component(leg.disk, new).await?;
            let place = Place { group: leg.disk_group, disk: leg.disk, local };
            self.directory.insert(descriptor.uuid, leg.component, place);
            Ok::<_, DgError>(())
        });
        let failed = join_all(made).await.into_iter().find_map(Result::err);
        failed.map_or(Ok(()), |error| {
            let name = &descriptor.name;
            Err(EngineError::Conflict {
                detail: format!("no component of volume {name:?} could be made: {error}; try again"),
            })
        })
    }

    /// Removes every reachable component of an object that never was.
    async fn remove_components(&self, object: ObjectId) {
        for component in self.directory.places(object).into_keys() {
            if let Some(leg) = self.directory.leg(object, component) {
                // What cannot be removed is an orphan that no descriptor in force names.
                let _ = leg.delete().await;
            }
        }
    }

    /// A component as it begins.
    pub(super) fn leg_of(&self, planned: &PlannedLeg) -> Leg {
        let state = self.state.borrow();
        let config = state.config.iter();
        let disk = config.clone().flat_map(|config| &config.disks).find(|disk| disk.id == planned.disk);
        let host = config.flat_map(|config| &config.hosts).find(|host| host.name == planned.host);
        let nil = uuid::Uuid::nil();
        let group = state.disks.get(&planned.disk).and_then(|run| {
            let label = run.label.as_ref()?;
            label.superblock().groups.first().map(|known| known.group)
        });
        Leg {
            component: ComponentId::from_random(self.env.id_bytes()),
            host: host.map_or(model::ids::HostId(nil), |host| host.id),
            fault_domain: planned.fault_domain.clone(),
            site: host.and_then(|host| host.site.clone()),
            disk_group: group.or(disk.map(|disk| disk.disk_group)).unwrap_or(model::ids::DiskGroupId(nil)),
            disk: planned.disk,
            size_bytes: planned.size_bytes,
            votes: planned.votes,
            state: ComponentState::Active,
            state_since: self.env.wall(),
            stale_from: None,
            absent_since: None,
            cursor: None,
            lost: Vec::new(),
            unknown: Unknown::new(),
        }
    }

    fn node_of(&self, planned: &PlannedNode) -> Node {
        let all = |children: &[PlannedNode]| children.iter().map(|child| self.node_of(child)).collect();
        match planned {
            PlannedNode::Concat(children) => Node::Concat(all(children)),
            PlannedNode::Stripe { columns, .. } => Node::Stripe(all(columns)),
            PlannedNode::Mirror(legs) | PlannedNode::Raid5(legs) | PlannedNode::Raid6(legs) => {
                Node::Mirror(legs.iter().map(|leg| Node::Leaf(Box::new(self.leg_of(leg)))).collect())
            }
        }
    }

    /// Grows a volume. Done on return.
    pub(super) async fn grow_volume(&self, id: ObjectId, size_bytes: u64) -> Result<Applied, EngineError> {
        self.ready()?;
        if let Some(detail) = size_problem(size_bytes) {
            return Err(EngineError::Invalid { field: "size_bytes".into(), detail });
        }
        let (name, owner) = self.open_volume(id)?;
        let _turn = self.place_turn.lock().await;
        let descriptor = owner.descriptor();
        if size_bytes < descriptor.size_bytes {
            let detail = format!("a volume cannot shrink; it has {} bytes", descriptor.size_bytes);
            return Err(EngineError::Invalid { field: "size_bytes".into(), detail });
        }
        let start = AddressMap::last_piece_start(&descriptor.layout)
            .map_err(|error| object_error(&name, &error.into()))?;
        let columns = last_columns(&descriptor.layout);
        let last_max = COMPONENT_BYTES_MAX / STRIPE_UNIT_BYTES * STRIPE_UNIT_BYTES * columns;
        let fits = (start * BLOCK_BYTES).saturating_add(last_max);
        let mut pieces = Vec::new();
        if size_bytes > fits {
            let topology = self.topology();
            let policy = Policy { stripe_width: columns.min(12) as u8, ..descriptor.policy.clone() };
            let placement = place(&topology, &policy, size_bytes - fits).map_err(EngineError::Unplaceable)?;
            if let Node::Concat(new) = self.node_of(&placement.root) {
                pieces = new;
            }
            let legs: Vec<&Leg> = pieces.iter().flat_map(|piece| piece.legs()).collect();
            self.make_components(&descriptor, &legs).await?;
        }
        owner.grow(size_bytes, pieces).await.map_err(|error| object_error(&name, &error))?;
        self.board.event(
            Severity::Info,
            "volume-grown",
            format!("object:{id}"),
            format!("volume {name} has {size_bytes} bytes now"),
        );
        self.with_object(id, |_| ());
        self.changed(None);
        Ok(Applied { done: true, ..Applied::default() })
    }

    /// Deletes a volume and its data. Done on return; what is on hosts that are away goes when they return.
    pub(super) async fn delete_volume(&self, id: ObjectId) -> Result<Applied, EngineError> {
        self.ready()?;
        let (name, owner) = self.open_volume(id)?;
        owner.delete().await.map_err(|error| object_error(&name, &error))?;
        self.state.borrow_mut().objects.remove(&id);
        self.board.event(
            Severity::Info,
            "volume-deleted",
            format!("object:{id}"),
            format!("volume {name} was deleted"),
        );
        self.unstick();
        self.changed(None);
        Ok(Applied { done: true, ..Applied::default() })
    }
}

/// Columns of the last piece.
fn last_columns(layout: &Node) -> u64 {
    let last = match layout {
        Node::Concat(pieces) => pieces.last().unwrap_or(layout),
        other => other,
    };
    if let Node::Stripe(columns) = last { columns.len().max(1) as u64 } else { 1 }
}
