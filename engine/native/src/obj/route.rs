//! The running view of a committed descriptor: where to read and write now.
//!
//! A [`Route`] is immutable; a change of the descriptor or of who is reachable makes a new one. A request works on the
//! one it took. Invariant: every leg that the descriptor says is written is in the route; one without a store fails its
//! appends, so that it is marked before anything is acknowledged without it.
use super::address::{AddressMap, LayoutError, groups};
use super::quorum::{Loss, is_current, is_written};
use super::store::{Store, StoreError};
use crate::fmt::descriptor::{Leg, ObjectDescriptor};
use model::ids::ComponentId;
use std::cell::{Cell, RefCell};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::time::Duration;
use tokio::sync::Notify;

/// A disk that does not answer for so long is given up. Source: the time that clients bear, well below their own timeouts.
const SILENCE: Duration = Duration::from_secs(5);

/// One component as this run of the program knows it.
pub struct Member<S> {
    /// Identity.
    pub component: ComponentId,
    store: RefCell<Option<S>>,
    /// Set when it was lost, until the descriptor in force says so or recovery has made it equal again.
    missed: Cell<Option<Loss>>,
    /// The damage of the store as attached is not yet dealt with.
    untrusted: Cell<bool>,
    gone: Notify,
    /// Rises with every attachment: a request of an earlier one says nothing about the present.
    attachment: Cell<u64>,
    /// The record that it stored last: (block, sequence). Logs survive as a prefix, so with it everything survived.
    last: Cell<Option<(u64, u64)>>,
    /// Requests under way at it.
    pub outstanding: Cell<u32>,
    /// Blocks found bad on it since it was opened.
    pub bad_blocks: Cell<u64>,
}

impl<S: Store> Member<S> {
    pub(super) fn new(component: ComponentId, store: Option<S>) -> Self {
        Self {
            component,
            store: RefCell::new(store),
            missed: Cell::default(),
            untrusted: Cell::new(true),
            gone: Notify::new(),
            attachment: Cell::default(),
            last: Cell::default(),
            outstanding: Cell::default(),
            bad_blocks: Cell::default(),
        }
    }

    /// The component, if it is reachable and not known to have missed a write.
    pub fn store(&self) -> Option<S> {
        if self.missed.get().is_some() { None } else { self.store.borrow().clone() }
    }

    /// How it was lost, if no descriptor says so yet.
    pub fn missed(&self) -> Option<Loss> {
        self.missed.get()
    }

    /// What it missed stands in the descriptor in force, or recovery brings it.
    pub(super) fn forgive(&self) {
        self.missed.set(None);
        self.untrusted.set(false);
    }

    /// The component as attached, whatever it missed.
    pub(super) fn attached(&self) -> Option<S> {
        self.store.borrow().clone()
    }

    /// If its log lost flushed records and no descriptor says so yet: up to where it can be trusted.
    pub(super) fn damage(&self) -> Option<u64> {
        let status = self.untrusted.get().then(|| self.attached())??.status();
        status.damaged.then_some(status.applied_oseq)
    }

    pub(super) fn is_attached(&self) -> bool {
        self.store.borrow().is_some()
    }

    pub(super) fn attach(&self, store: S) {
        *self.store.borrow_mut() = Some(store);
        self.attachment.set(self.attachment.get() + 1);
        self.untrusted.set(true);
    }

    pub(super) fn stored(&self, block: u64, oseq: u64) {
        self.last.set(Some((block, oseq)));
    }

    pub(super) fn forget_stored(&self) {
        self.last.set(None);
    }

    /// Whether everything that it stored in this run of the program is still there, as attached now.
    pub(super) fn kept_all(&self, stable: u64) -> bool {
        let Some((block, oseq)) = self.last.get().filter(|(_, oseq)| *oseq > stable) else { return true };
        let covers = |run: super::store::Unsettled| {
            (run.block..run.block + run.nblk).contains(&block) && run.oseq >= oseq
        };
        self.attached().is_some_and(|store| store.unsettled(stable).into_iter().any(covers))
    }

    /// Gives the component up: requests waiting for it fail at once.
    pub(super) fn detach(&self, loss: Loss) {
        if self.missed.get().is_none() {
            self.missed.set(Some(loss));
        }
        self.store.borrow_mut().take();
        self.gone.notify_waiters();
    }

    /// Runs a request at the component. One whose disk is silent for too long is away, so that clients do not wait
    /// for it; it ends with [`StoreError::Gone`] when the component is given up meanwhile. A component
    /// that is away or failed is given up.
    pub async fn run<T>(
        &self,
        request: impl AsyncFnOnce(S) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        if self.missed.get().is_some() { Err(StoreError::Gone) } else { self.run_any(request).await }
    }

    /// The same for requests that do not mind what it missed.
    pub(super) async fn run_any<T>(
        &self,
        request: impl AsyncFnOnce(S) -> Result<T, StoreError>,
    ) -> Result<T, StoreError> {
        let attachment = self.attachment.get();
        let gone = self.gone.notified();
        let Some(store) = self.attached() else { return Err(StoreError::Gone) };
        let watched = store.clone();
        let silence = async move {
            while !watched.is_silent(SILENCE) {
                tokio::time::sleep(SILENCE).await;
            }
        };
        let under_way = UnderWay::new(&self.outstanding);
        let result = tokio::select! {
            biased;
            result = request(store) => result,
            () = gone => Err(StoreError::Gone),
            () = silence => {
                tracing::warn!(component = %self.component, "a component does not answer");
                Err(StoreError::Gone)
            }
        };
        drop(under_way);
        // Before anything else runs, so that a component that returns meanwhile is not given up for its past.
        match &result {
            Err(StoreError::Gone) if attachment == self.attachment.get() => self.detach(Loss::Away),
            Err(StoreError::Failed) if attachment == self.attachment.get() => self.detach(Loss::Failed),
            _ => {}
        }
        result
    }
}

/// Counts one request, also when its caller gives it up.
struct UnderWay<'a>(&'a Cell<u32>);

impl<'a> UnderWay<'a> {
    fn new(count: &'a Cell<u32>) -> Self {
        count.set(count.get() + 1);
        Self(count)
    }
}

impl Drop for UnderWay<'_> {
    fn drop(&mut self) {
        self.0.set(self.0.get() - 1);
    }
}

/// A leg of a group.
pub struct RouteLeg<S> {
    /// The running component.
    pub member: Rc<Member<S>>,
    /// Whether it may be read.
    pub current: bool,
    /// Blocks that it does not have: (first block, count).
    pub lost: Vec<(u64, u64)>,
}

/// Where to read and write.
pub struct Route<S> {
    /// The descriptor in force.
    pub descriptor: Rc<ObjectDescriptor>,
    /// Where the blocks lie.
    pub map: AddressMap,
    /// Legs that are written, by group.
    pub groups: Vec<Vec<RouteLeg<S>>>,
}

/// All components of one object, by id.
pub type MemberMap<S> = BTreeMap<ComponentId, Rc<Member<S>>>;

impl<S: Store> Route<S> {
    /// The route of `descriptor`; components without a member get an unreachable one.
    pub fn new(descriptor: Rc<ObjectDescriptor>, members: &mut MemberMap<S>) -> Result<Self, LayoutError> {
        let map = AddressMap::new(&descriptor.layout, descriptor.size_bytes)?;
        let mut leg_of = |leg: &Leg| {
            let fresh = || Rc::new(Member::new(leg.component, None));
            let member = members.entry(leg.component).or_insert_with(fresh).clone();
            RouteLeg { member, current: is_current(leg), lost: leg.lost.clone() }
        };
        let written = |group: &crate::fmt::descriptor::Node| {
            group.legs().into_iter().filter(|leg| is_written(leg)).cloned().collect::<Vec<_>>()
        };
        let groups = groups(&descriptor.layout)?.into_iter().map(written);
        let groups = groups.map(|legs| legs.iter().map(&mut leg_of).collect()).collect();
        Ok(Self { descriptor: descriptor.clone(), map, groups })
    }

    /// Every leg that is written.
    pub fn legs(&self) -> impl Iterator<Item = &RouteLeg<S>> {
        self.groups.iter().flatten()
    }
}
