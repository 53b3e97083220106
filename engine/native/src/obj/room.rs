//! Room in the logs that a change goes to, taken before the change has a sequence.
//!
//! Invariants: rooms are taken log by log in one order that is the same for every object, and what waits for one holds no
//! sequence: so nobody waits in a circle. A leg that does not answer is given up; its append says so again, and it is marked.
use super::owner::Owner;
use super::quorum::Inaccessible;
use super::route::Member;
use super::store::Store;
use model::ids::DiskGroupId;
use std::rc::Rc;

/// The object cannot be served: the change must wait for its recovery.
pub(super) struct Blocked;

impl From<Inaccessible> for Blocked {
    fn from(_: Inaccessible) -> Self {
        Self
    }
}

/// One record on its way to one leg.
pub(super) struct Need<S: Store> {
    pub member: Rc<Member<S>>,
    pub nblk: u64,
    pub has_payload: bool,
}

/// What is needed of one log.
struct LogNeed<S> {
    log: DiskGroupId,
    store: S,
    bytes: u64,
    /// A leg in it.
    at: usize,
}

impl<S: Store> Owner<S> {
    /// Room for all of `needs`; none in logs of legs that are away.
    pub(super) async fn log_rooms(&self, needs: Vec<Need<S>>) -> Result<Vec<S::LogRoom>, Blocked> {
        let logs = by_log(&needs);
        let mut rooms = Vec::with_capacity(logs.len());
        for LogNeed { store, bytes, at, .. } in logs {
            if let Some(room) = store.log_room_now(bytes) {
                rooms.push(room);
                continue;
            }
            let member = &needs[at].member;
            let room = tokio::select! {
                biased;
                () = self.until_blocked() => return Err(Blocked),
                room = member.run(async |store| store.log_room(bytes).await) => room,
            };
            rooms.extend(room);
        }
        Ok(rooms)
    }
}

fn by_log<S: Store>(needs: &[Need<S>]) -> Vec<LogNeed<S>> {
    let mut logs: Vec<LogNeed<S>> = Vec::with_capacity(needs.len());
    for (at, need) in needs.iter().enumerate() {
        let Some(store) = need.member.store() else { continue };
        let (log, bytes) = (store.log(), store.log_bytes(need.nblk, need.has_payload));
        match logs.iter_mut().find(|known| known.log == log) {
            Some(known) => known.bytes += bytes,
            None => logs.push(LogNeed { log, store, bytes, at }),
        }
    }
    logs.sort_by_key(|need| need.log);
    logs
}
