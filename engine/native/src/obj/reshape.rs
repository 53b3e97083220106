//! Changes of the layout: legs added, dropped, replaced, a larger size, the end.
//!
//! Every change of the write set is a barrier and one commit that stands on a majority of the old and of the new votes; the old
//! layout holds until then. Invariants: a new leg carries its mark (stale from 0) before its first byte; the last current leg
//! of a group is never dropped, and a current one not while a stale one is there; a component is removed only after the
//! commit that no longer names it; a deleted object leaves a tombstone until every component of it is confirmed gone.
use super::address::{AddressMap, groups};
use super::owner::{Access, ObjError, ObjectEvent, Owner};
use super::quorum::{self, group_of, is_current};
use super::resync::Pace;
use super::route::{Member, MemberMap, Route};
use super::store::{Members, Store, StoreError};
use crate::fmt::descriptor::{Leg, Node, ObjectDescriptor};
use crate::mutant::{Mutant, on};
use model::ids::{ComponentId, ObjectId};
use model::policy::Policy;
use model::state::ComponentState;
use model::units::{BLOCK_BYTES, COMPONENT_BYTES_MAX, STRIPE_UNIT_BYTES};
use std::rc::Rc;

impl<S: Store> Owner<S> {
    /// Adds an empty leg to group `group`. Its component exists and is reachable; it becomes current by [`Owner::resync`].
    pub async fn add_leg(&self, group: usize, mut leg: Leg) -> Result<(), ObjError> {
        let now = self.0.env.wall();
        (leg.state, leg.state_since, leg.stale_from) = (ComponentState::Reconfiguring, now, Some(0));
        (leg.cursor, leg.absent_since) = (None, None);
        self.reshape(&[leg.component], |descriptor| {
            let size = groups(&descriptor.layout)?
                .get(group)
                .and_then(|node| node.legs().first().map(|l| l.size_bytes));
            leg.size_bytes = size.ok_or(ObjError::Refused("the object has no such group"))?;
            let node = group_mut(&mut descriptor.layout, group).ok_or(ObjError::Refused("no such group"))?;
            match node {
                Node::Mirror(legs) => legs.push(Node::Leaf(Box::new(leg.clone()))),
                other => {
                    let first = std::mem::replace(other, Node::Mirror(Vec::new()));
                    *other = Node::Mirror(vec![first, Node::Leaf(Box::new(leg.clone()))]);
                }
            }
            Ok(())
        })
        .await
    }

    /// Adds a witness. Its component exists and is reachable.
    pub async fn add_witness(&self, mut leg: Leg) -> Result<(), ObjError> {
        (leg.state, leg.size_bytes, leg.stale_from) = (ComponentState::Active, 0, None);
        self.reshape(&[leg.component], |descriptor| {
            descriptor.witnesses.push(leg.clone());
            Ok(())
        })
        .await
    }

    /// Drops a leg or a witness, and removes its component if it is reachable.
    pub async fn drop_leg(&self, component: ComponentId) -> Result<(), ObjError> {
        self.reshape(&[], |descriptor| {
            may_drop(descriptor, component)?;
            descriptor.witnesses.retain(|witness| witness.component != component);
            remove(&mut descriptor.layout, component);
            Ok(())
        })
        .await?;
        let member = self.0.running.borrow_mut().remove(&component);
        if let Some(store) = member.and_then(|member| member.attached()) {
            // If it fails it is an orphan: no descriptor in force names it.
            let _ = store.delete().await;
        }
        Ok(())
    }

    /// Builds `new` beside `old`, and drops `old` once `new` is current. On an error the old leg is still there; the new one
    /// too, marked, unless it could not be added.
    pub async fn replace_leg(&self, old: ComponentId, new: Leg, pace: &impl Pace) -> Result<(), ObjError> {
        let group = group_of(&self.descriptor(), old)?;
        let group = group.ok_or(ObjError::Refused("the object has no such component"))?;
        let component = new.component;
        self.add_leg(group, new).await?;
        self.resync(component, pace).await?;
        self.drop_leg(old).await
    }

    /// The object follows this policy now; its layout was brought there before.
    pub async fn set_policy(&self, policy: Policy) -> Result<(), ObjError> {
        self.reshape(&[], |descriptor| {
            descriptor.policy = policy.clone();
            Ok(())
        })
        .await
    }

    /// Grows the object: its last piece first, then `pieces` whose components exist. Every component must be reachable.
    pub async fn grow(&self, size_bytes: u64, pieces: Vec<Node>) -> Result<(), ObjError> {
        let before = self.descriptor();
        if size_bytes < before.size_bytes {
            return Err(ObjError::Refused("an object cannot shrink"));
        }
        let mut layout = before.layout.clone();
        let start = AddressMap::last_piece_start(&layout)? * BLOCK_BYTES;
        let last = last_piece_mut(&mut layout);
        let columns = if let Node::Stripe(columns) = last { columns.len() as u64 } else { 1 };
        let leg_bytes = if columns == 1 {
            (size_bytes - start).next_multiple_of(BLOCK_BYTES)
        } else {
            (size_bytes - start).div_ceil(columns * STRIPE_UNIT_BYTES) * STRIPE_UNIT_BYTES
        };
        let leg_bytes = leg_bytes.min(COMPONENT_BYTES_MAX);
        last.for_each_leg_mut(&mut |leg| leg.size_bytes = leg.size_bytes.max(leg_bytes));
        for leg in last.legs() {
            let member = self.member(leg.component).filter(|member| member.is_attached());
            let member = member.ok_or(ObjError::Refused("a component is away: grow when it has returned"))?;
            let resized =
                member.run_any(async |store| store.resize(leg.size_bytes / BLOCK_BYTES).await).await;
            resized.map_err(|error| {
                if error == StoreError::NoSpace { ObjError::NoSpace } else { ObjError::Aborted }
            })?;
        }
        let new: Vec<_> = pieces.iter().flat_map(|piece| piece.legs()).map(|leg| leg.component).collect();
        let layout = with_pieces(layout, pieces);
        AddressMap::new(&layout, size_bytes)?;
        self.reshape(&new, |descriptor| {
            if descriptor.csn != before.csn {
                return Err(ObjError::Refused("the layout changed meanwhile"));
            }
            (descriptor.size_bytes, descriptor.layout) = (size_bytes, layout.clone());
            Ok(())
        })
        .await
    }

    /// Deletes the object: a tombstone on more than half of the votes, then the reachable components. Those that hold the
    /// tombstone stay until [`purge`] knows that every component of the object is gone.
    pub async fn delete(&self) -> Result<(), ObjError> {
        let _closed = self.0.gate.close().await;
        let turn = self.0.commits.lock().await;
        if !self.is_open() {
            return Err(ObjError::Inaccessible(self.inaccessible().unwrap_or_default()));
        }
        let mut wanted = (*self.descriptor()).clone();
        let named: Vec<_> = wanted.legs().iter().map(|leg| leg.component).collect();
        wanted.tombstone = Some(named);
        if !on(Mutant::NoTombstone) {
            let committed = self.commit(&turn, wanted).await;
            committed.map_err(|_| ObjError::Inaccessible(self.inaccessible().unwrap_or_default()))?;
        }
        self.set_access(Access::Deleted);
        let found = self.0.members.components(self.0.id);
        if on(Mutant::NoTombstone) {
            for (_, store) in found {
                let _ = store.delete().await;
            }
            return Ok(());
        }
        bury(&self.descriptor(), self.0.boot.next_csn(), &found, |_| false).await;
        Ok(())
    }

    /// A barrier, one change, new votes, one commit.
    async fn reshape(
        &self,
        new: &[ComponentId],
        mut change: impl FnMut(&mut ObjectDescriptor) -> Result<(), ObjError>,
    ) -> Result<(), ObjError> {
        let _closed = self.0.gate.close().await;
        let turn = self.0.commits.lock().await;
        if !self.is_open() {
            return Err(ObjError::Inaccessible(self.inaccessible().unwrap_or_default()));
        }
        let old = self.descriptor();
        let mut wanted = (*old).clone();
        change(&mut wanted)?;
        if components(&wanted) != components(&old) {
            quorum::revote(&mut wanted);
        }
        Route::<S>::new(Rc::new(wanted.clone()), &mut MemberMap::new())?;
        self.admit_new(new, &old)?;
        self.commit(&turn, wanted).await.map_err(|_| ObjError::Aborted)?;
        self.tell(ObjectEvent::Changed);
        Ok(())
    }

    /// New components are reachable, and were not part of the object before.
    fn admit_new(&self, new: &[ComponentId], old: &ObjectDescriptor) -> Result<(), ObjError> {
        let found = self.0.members.components(self.0.id);
        for component in new {
            if old.leg(*component).is_some() {
                return Err(ObjError::Refused("the object has this component already"));
            }
            let store = found.iter().find(|(id, _)| id == component).map(|(_, store)| store.clone());
            let store = store.ok_or(ObjError::Refused("the new component is not reachable"))?;
            let member = Rc::new(Member::new(*component, Some(store)));
            member.forgive();
            self.0.running.borrow_mut().insert(*component, member);
        }
        Ok(())
    }
}

/// Goes on with the deletion of an object whose descriptor in force is a tombstone: removes what returned, and the holders
/// of the tombstone once nothing is left to wait for. `gone` says that a component can never return.
pub async fn purge<S: Store>(
    object: ObjectId,
    members: &dyn Members<S>,
    csn: (u64, u64),
    gone: impl Fn(ComponentId) -> bool,
) {
    let found = members.components(object);
    let candidates = super::owner::candidates(&found, |_| false);
    if let Ok(winner) = quorum::winner(&candidates)
        && winner.tombstone.is_some()
    {
        bury(winner, csn, &found, gone).await;
    }
}

async fn bury<S: Store>(
    tombstone: &ObjectDescriptor,
    csn: (u64, u64),
    found: &[(ComponentId, S)],
    gone: impl Fn(ComponentId) -> bool,
) {
    // First a tombstone that proves itself, so that the votes of removed components are not missed.
    let mut proof = tombstone.clone();
    (proof.layout, proof.witnesses, proof.csn) = (Node::Concat(Vec::new()), Vec::new(), csn);
    let here = |component: &ComponentId| found.iter().any(|(id, _)| id == component);
    let waiting = tombstone.tombstone.iter().flatten().filter(|id| !here(id) && !gone(**id));
    let waiting: Vec<_> = waiting.copied().collect();
    let done = waiting.is_empty();
    proof.tombstone = Some(waiting);
    let bytes: Rc<[u8]> = proof.to_bytes().into();
    let mut holders = Vec::new();
    for (component, store) in found {
        if store.commit_descriptor(csn, bytes.clone()).await.is_ok() {
            holders.push((component, store));
        }
    }
    // One holder is enough to remember; it goes last, and only when nothing can come back.
    let keep = if done { 0 } else { holders.len().min(2) };
    for (_, store) in holders.iter().rev().take(holders.len() - keep) {
        let _ = store.delete().await;
    }
}

fn components(descriptor: &ObjectDescriptor) -> Vec<ComponentId> {
    descriptor.legs().iter().map(|leg| leg.component).collect()
}

fn may_drop(descriptor: &ObjectDescriptor, component: ComponentId) -> Result<(), ObjError> {
    if descriptor.witnesses.iter().any(|witness| witness.component == component) {
        return Ok(());
    }
    let group =
        group_of(descriptor, component)?.ok_or(ObjError::Refused("the object has no such component"))?;
    let legs = groups(&descriptor.layout)?[group].legs();
    let others = || legs.iter().filter(|leg| leg.component != component);
    if !others().any(|leg| is_current(leg)) {
        return Err(ObjError::Refused("it is the last current copy"));
    }
    let dropped_is_current = legs.iter().any(|leg| leg.component == component && is_current(leg));
    if dropped_is_current && others().any(|leg| !is_current(leg)) {
        return Err(ObjError::Refused("another copy is not current: drop that one first"));
    }
    Ok(())
}

/// The node of a group, in layout order.
fn group_mut(node: &mut Node, index: usize) -> Option<&mut Node> {
    let mut left = index;
    walk_groups(node, &mut left)
}

fn walk_groups<'a>(node: &'a mut Node, left: &mut usize) -> Option<&'a mut Node> {
    match node {
        Node::Concat(children) | Node::Stripe(children) => {
            children.iter_mut().find_map(|child| walk_groups(child, left))
        }
        _ if *left == 0 => Some(node),
        _ => {
            *left -= 1;
            None
        }
    }
}

/// Removes a leaf.
fn remove(node: &mut Node, component: ComponentId) {
    let is_it = |child: &Node| matches!(child, Node::Leaf(leg) if leg.component == component);
    match node {
        Node::Concat(children)
        | Node::Stripe(children)
        | Node::Mirror(children)
        | Node::Ec { children, .. } => {
            children.retain(|child| !is_it(child));
            children.iter_mut().for_each(|child| remove(child, component));
        }
        Node::Leaf(_) => {}
    }
}

fn last_piece_mut(layout: &mut Node) -> &mut Node {
    if matches!(layout, Node::Concat(pieces) if !pieces.is_empty())
        && let Node::Concat(pieces) = layout
    {
        return pieces.last_mut().expect("checked above");
    }
    layout
}

fn with_pieces(layout: Node, pieces: Vec<Node>) -> Node {
    match (layout, pieces.is_empty()) {
        (layout, true) => layout,
        (Node::Concat(mut before), false) => {
            before.extend(pieces);
            Node::Concat(before)
        }
        (single, false) => Node::Concat(std::iter::once(single).chain(pieces).collect()),
    }
}
