//! Volumes as the NBD front finds them: by name, only open ones.
use super::core::ClusterCore;
use super::counters::Counted;
use super::leg::Leg;
use super::source::DiskSource;
use crate::nbd::ExportDirectory;
use crate::obj::Owner;
use std::rc::{Rc, Weak};

/// The volumes of a cluster.
pub struct Volumes<D>(Weak<ClusterCore<D>>);

impl<D> Clone for Volumes<D> {
    fn clone(&self) -> Self {
        Self(self.0.clone())
    }
}

impl<D: DiskSource + 'static> Volumes<D> {
    /// The volumes of `core`, for as long as it lives.
    pub fn new(core: &Rc<ClusterCore<D>>) -> Self {
        Self(Rc::downgrade(core))
    }
}

impl<D: DiskSource + 'static> ExportDirectory for Volumes<D> {
    type Export = Counted<Owner<Leg>>;

    async fn open(&self, name: &str) -> Option<Self::Export> {
        let core = self.0.upgrade()?;
        let state = core.state.borrow();
        let object = state.objects.values().find(|object| object.seen.name == name)?;
        Some(Counted { export: object.owner.clone()?, counters: object.counters.clone() })
    }

    fn names(&self) -> Vec<String> {
        let Some(core) = self.0.upgrade() else { return Vec::new() };
        let state = core.state.borrow();
        let open = state.objects.values().filter(|object| object.owner.is_some());
        let mut names: Vec<String> = open.map(|object| object.seen.name.clone()).collect();
        names.sort();
        names
    }
}
