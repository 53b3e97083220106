//! The `Send` front of the engine: it implements the trait `Engine` by messages to the engine thread.
//!
//! The thread runs one tokio loop with everything else in it. A panic there aborts the process: a storage engine that lost a part of
//! itself must not go on, and its folder's lock must be free for the next start. What-if runs on the caller's thread, over a snapshot.
use model::engine::{
    Applied, Attach, Capabilities, Counters, Engine, EngineError, EngineFuture, EventBatch, Intent,
};
use model::ids::{ObjectId, TaskId};
use model::view::Snapshot;
use model::what_if::{Answer, Question};
use std::collections::BTreeMap;
use std::rc::Rc;
use std::sync::Arc;
use tokio::sync::{mpsc, oneshot};

/// Name of the engine thread.
const THREAD_NAME: &str = "engine";
/// Requests that wait for the engine thread; more wait at the caller.
const QUEUE_MAX: usize = 256;

type Reply<T> = oneshot::Sender<Result<T, EngineError>>;

enum Request {
    Snapshot(Reply<Arc<Snapshot>>),
    Events { seq: u64, version: u64, reply: Reply<EventBatch> },
    Apply { task: TaskId, intent: Box<Intent>, reply: Reply<Applied> },
    Cancel { task: TaskId, reply: Reply<()> },
    Attach { volume: ObjectId, reply: Reply<Attach> },
    Counters(Reply<BTreeMap<String, Counters>>),
    Shutdown(Reply<()>),
}

/// What the engine thread answers; the same calls as [`Engine`], on the thread itself.
#[allow(async_fn_in_trait, reason = "called on the engine thread only, where no future is sent")]
pub trait Core: 'static {
    /// As [`Engine::snapshot`].
    async fn snapshot(&self) -> Result<Arc<Snapshot>, EngineError>;
    /// As [`Engine::events`].
    async fn events(&self, seq: u64, version: u64) -> Result<EventBatch, EngineError>;
    /// As [`Engine::apply`].
    async fn apply(&self, task: TaskId, intent: Intent) -> Result<Applied, EngineError>;
    /// As [`Engine::cancel`].
    async fn cancel(&self, task: TaskId) -> Result<(), EngineError>;
    /// As [`Engine::attach`].
    async fn attach(&self, volume: ObjectId) -> Result<Attach, EngineError>;
    /// As [`Engine::counters`].
    async fn counters(&self) -> Result<BTreeMap<String, Counters>, EngineError>;
    /// As [`Engine::shutdown`].
    async fn shutdown(&self) -> Result<(), EngineError>;
}

/// A running engine. Dropping the last clone ends its thread without a shutdown, as a crash would.
#[derive(Clone)]
pub struct NativeEngine {
    requests: mpsc::Sender<Request>,
    capabilities: Capabilities,
    what_if: fn(&Snapshot, &Question) -> Answer,
}

impl NativeEngine {
    /// Starts the engine thread and waits until `open` has made the core there. `what_if` is the one pure function that answers
    /// questions; it runs on the caller's thread.
    ///
    /// # Errors
    /// What `open` answers; the thread has ended then.
    pub fn spawn<C, E, F>(
        capabilities: Capabilities,
        what_if: fn(&Snapshot, &Question) -> Answer,
        open: F,
    ) -> Result<Self, E>
    where
        C: Core,
        E: Send + 'static,
        F: AsyncFnOnce() -> Result<Rc<C>, E> + Send + 'static,
    {
        let (requests, inbox) = mpsc::channel(QUEUE_MAX);
        let (opened, outcome) = std::sync::mpsc::sync_channel(1);
        abort_when_the_engine_panics();
        let body = move || {
            let bomb = AbortOnPanic;
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            let runtime =
                runtime.unwrap_or_else(|error| panic!("the engine's event loop cannot be made: {error}"));
            tokio::task::LocalSet::new().block_on(&runtime, async move {
                match open().await {
                    Ok(core) => {
                        let _ = opened.send(Ok(()));
                        serve(core, inbox).await;
                    }
                    Err(error) => {
                        let _ = opened.send(Err(error));
                    }
                }
            });
            std::mem::forget(bomb);
        };
        let thread = std::thread::Builder::new().name(THREAD_NAME.into()).spawn(body);
        thread.unwrap_or_else(|error| panic!("the engine thread cannot be started: {error}"));
        outcome.recv().unwrap_or_else(|_| panic!("the engine thread ended while opening"))?;
        Ok(Self { requests, capabilities, what_if })
    }

    async fn ask<T>(&self, request: impl FnOnce(Reply<T>) -> Request) -> Result<T, EngineError> {
        let (reply, answer) = oneshot::channel();
        self.requests.send(request(reply)).await.map_err(|_| stopped())?;
        answer.await.map_err(|_| stopped())?
    }
}

/// Makes a panic on an engine thread the end of the process, also one in a task, which the event loop would only end.
fn abort_when_the_engine_panics() {
    static ONCE: std::sync::Once = std::sync::Once::new();
    ONCE.call_once(|| {
        let before = std::panic::take_hook();
        std::panic::set_hook(Box::new(move |info| {
            before(info);
            if std::thread::current().name() == Some(THREAD_NAME) {
                std::process::abort();
            }
        }));
    });
}

/// A panic of the engine thread aborts the process.
struct AbortOnPanic;

impl Drop for AbortOnPanic {
    fn drop(&mut self) {
        if std::thread::panicking() {
            std::process::abort();
        }
    }
}

fn stopped() -> EngineError {
    EngineError::Unavailable { detail: "it has stopped; start millpond again".into() }
}

async fn serve<C: Core>(core: Rc<C>, mut inbox: mpsc::Receiver<Request>) {
    while let Some(request) = inbox.recv().await {
        if let Request::Shutdown(reply) = request {
            let _ = reply.send(core.shutdown().await);
            return;
        }
        let core = Rc::clone(&core);
        // Each request is a task of its own: a slow one (waiting for events, making a volume) holds up no other.
        tokio::task::spawn_local(async move { answer(&*core, request).await });
    }
}

async fn answer<C: Core>(core: &C, request: Request) {
    // A caller that went away does not want its answer; nothing is lost by that.
    match request {
        Request::Snapshot(reply) => drop(reply.send(core.snapshot().await)),
        Request::Events { seq, version, reply } => drop(reply.send(core.events(seq, version).await)),
        Request::Apply { task, intent, reply } => drop(reply.send(core.apply(task, *intent).await)),
        Request::Cancel { task, reply } => drop(reply.send(core.cancel(task).await)),
        Request::Attach { volume, reply } => drop(reply.send(core.attach(volume).await)),
        Request::Counters(reply) => drop(reply.send(core.counters().await)),
        Request::Shutdown(reply) => drop(reply.send(Ok(()))),
    }
}

impl Engine for NativeEngine {
    fn capabilities(&self) -> Capabilities {
        self.capabilities.clone()
    }

    fn snapshot(&self) -> EngineFuture<'_, Arc<Snapshot>> {
        Box::pin(self.ask(Request::Snapshot))
    }

    fn events(&self, seq: u64, version: u64) -> EngineFuture<'_, EventBatch> {
        Box::pin(self.ask(move |reply| Request::Events { seq, version, reply }))
    }

    fn apply(&self, task: TaskId, intent: Intent) -> EngineFuture<'_, Applied> {
        Box::pin(self.ask(move |reply| Request::Apply { task, intent: Box::new(intent), reply }))
    }

    fn cancel(&self, task: TaskId) -> EngineFuture<'_, ()> {
        Box::pin(self.ask(move |reply| Request::Cancel { task, reply }))
    }

    fn what_if(&self, question: Question) -> EngineFuture<'_, Answer> {
        Box::pin(async move {
            let snapshot = self.snapshot().await?;
            Ok((self.what_if)(&snapshot, &question))
        })
    }

    fn attach(&self, volume: ObjectId) -> EngineFuture<'_, Attach> {
        Box::pin(self.ask(move |reply| Request::Attach { volume, reply }))
    }

    fn counters(&self) -> EngineFuture<'_, BTreeMap<String, Counters>> {
        Box::pin(self.ask(Request::Counters))
    }

    fn shutdown(&self) -> EngineFuture<'_, ()> {
        Box::pin(self.ask(Request::Shutdown))
    }
}
