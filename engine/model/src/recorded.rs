//! An engine made of data alone: it shows a snapshot and refuses every change.
//!
//! Page tests, support bundles and `open` use it. [`generate`] makes a believable snapshot of any size with the real
//! placement, so that every rule that holds on a live cluster holds on it.
use crate::engine::{
    Applied, Attach, Capabilities, Counters, Engine, EngineError, EngineFuture, EngineKind, EventBatch,
    Intent,
};
use crate::ids::{ObjectId, TaskId};
use crate::view::{Event, Snapshot};
use crate::what_if::{Answer, Question, answer};
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Poll, Waker};

mod generate;

pub use generate::{GenerateSpec, generate};

/// A read-only engine over a snapshot that its owner may replace.
#[derive(Debug)]
pub struct Recorded {
    state: Mutex<State>,
}

#[derive(Debug)]
struct State {
    snapshot: Arc<Snapshot>,
    events: Vec<Event>,
    waiting: Vec<Waker>,
}

impl Recorded {
    /// An engine that shows `snapshot`.
    pub fn new(snapshot: Snapshot) -> Self {
        let state = State { snapshot: Arc::new(snapshot), events: Vec::new(), waiting: Vec::new() };
        Self { state: Mutex::new(state) }
    }

    /// Shows another snapshot from now on, with events that led to it; wakes everyone who waits for news.
    pub fn replace(&self, snapshot: Snapshot, events: Vec<Event>) {
        let mut state = self.lock();
        state.snapshot = Arc::new(snapshot);
        state.events.extend(events);
        state.waiting.drain(..).for_each(Waker::wake);
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, State> {
        // Every update leaves whole values behind, so a panic of another holder hides nothing.
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

fn read_only<T: Send + 'static>() -> EngineFuture<'static, T> {
    let text = "this is a recording: it can be looked at, not changed".to_owned();
    Box::pin(std::future::ready(Err(EngineError::Unsupported { capability: "write".into(), text })))
}

impl Engine for Recorded {
    fn capabilities(&self) -> Capabilities {
        Capabilities { engine: EngineKind::Recorded, features: BTreeMap::new() }
    }

    fn snapshot(&self) -> EngineFuture<'_, Arc<Snapshot>> {
        Box::pin(std::future::ready(Ok(self.lock().snapshot.clone())))
    }

    fn events(&self, seq: u64, version: u64) -> EngineFuture<'_, EventBatch> {
        Box::pin(std::future::poll_fn(move |context| {
            let mut state = self.lock();
            let events: Vec<Event> = state.events.iter().filter(|event| event.seq > seq).cloned().collect();
            if events.is_empty() && state.snapshot.version <= version {
                state.waiting.push(context.waker().clone());
                return Poll::Pending;
            }
            Poll::Ready(Ok(EventBatch { gap: false, events, version: state.snapshot.version }))
        }))
    }

    fn apply(&self, _task: TaskId, _intent: Intent) -> EngineFuture<'_, Applied> {
        read_only()
    }

    fn cancel(&self, _task: TaskId) -> EngineFuture<'_, ()> {
        read_only()
    }

    fn what_if(&self, question: Question) -> EngineFuture<'_, Answer> {
        let snapshot = self.lock().snapshot.clone();
        Box::pin(async move { Ok(answer(&snapshot, &question)) })
    }

    fn attach(&self, _volume: ObjectId) -> EngineFuture<'_, Attach> {
        Box::pin(std::future::ready(Ok(Attach::default())))
    }

    fn counters(&self) -> EngineFuture<'_, BTreeMap<String, Counters>> {
        Box::pin(std::future::ready(Ok(BTreeMap::new())))
    }

    fn shutdown(&self) -> EngineFuture<'_, ()> {
        Box::pin(std::future::ready(Ok(())))
    }
}

#[cfg(test)]
mod tests;
