//! What readers wait on: the event ring, the tasks, and the version of the snapshot.
//!
//! Invariants: `seq` rises by one an event; the ring keeps the newest [`EVENTS_MAX`] and a reader that is further behind is told of the
//! gap; the progress of a task never falls; a finished task does not change any more.
use crate::io::Env;
use model::engine::{EngineError, EventBatch};
use model::ids::TaskId;
use model::state::{Severity, TaskState};
use model::view::{Event, TaskView};
use std::cell::{Cell, RefCell};
use std::collections::VecDeque;
use std::rc::Rc;
use tokio::sync::Notify;

/// Events kept for readers; the history is the server's.
pub const EVENTS_MAX: usize = 4096;
/// Finished tasks kept in the snapshot; the history is the server's.
pub const FINISHED_TASKS_MAX: usize = 200;

/// Events, tasks and version. Clones share.
#[derive(Clone)]
pub struct Board {
    inner: Rc<Inner>,
}

struct Inner {
    env: Env,
    version: Cell<u64>,
    last_seq: Cell<u64>,
    events: RefCell<VecDeque<Event>>,
    tasks: RefCell<Vec<TaskView>>,
    changed: Notify,
}

impl Board {
    /// An empty board. Versions of different lives of the engine do not compare, so they start at 1 each.
    pub fn new(env: Env) -> Self {
        let inner = Inner {
            env,
            version: Cell::new(1),
            last_seq: Cell::new(0),
            events: RefCell::default(),
            tasks: RefCell::default(),
            changed: Notify::new(),
        };
        Self { inner: Rc::new(inner) }
    }

    /// The version now.
    pub fn version(&self) -> u64 {
        self.inner.version.get()
    }

    /// Says that something in the snapshot changed.
    pub fn touch(&self) {
        self.inner.version.set(self.inner.version.get() + 1);
        self.inner.changed.notify_waiters();
    }

    /// Adds an event and touches.
    pub fn event(&self, severity: Severity, kind: &str, subject: String, text: String) {
        let seq = self.inner.last_seq.get() + 1;
        self.inner.last_seq.set(seq);
        let mut events = self.inner.events.borrow_mut();
        if events.len() == EVENTS_MAX {
            events.pop_front();
        }
        events.push_back(Event {
            seq,
            time: self.inner.env.wall(),
            severity,
            kind: kind.into(),
            subject,
            text,
        });
        drop(events);
        self.touch();
    }

    /// Waits until there is an event after `seq` or the version is newer than `version`; answers both.
    pub async fn wait(&self, seq: u64, version: u64) -> EventBatch {
        loop {
            // Registered before the look, so that a change between look and wait is not missed.
            let changed = self.inner.changed.notified();
            if self.inner.last_seq.get() > seq || self.version() > version {
                return self.batch(seq);
            }
            changed.await;
        }
    }

    fn batch(&self, seq: u64) -> EventBatch {
        let events = self.inner.events.borrow();
        let gap = events.front().is_some_and(|oldest| oldest.seq > seq.saturating_add(1));
        let events = events.iter().filter(|event| event.seq > seq).cloned().collect();
        EventBatch { gap, events, version: self.version() }
    }

    /// All tasks, oldest first.
    pub fn tasks(&self) -> Vec<TaskView> {
        self.inner.tasks.borrow().clone()
    }

    /// A task by id.
    pub fn task(&self, id: TaskId) -> Option<TaskView> {
        self.inner.tasks.borrow().iter().find(|task| task.id == id).cloned()
    }

    /// Starts a task; `false` when one of that id exists (the intent is a repetition).
    pub fn start_task(&self, id: TaskId, kind: &str, subject: &str) -> bool {
        if self.task(id).is_some() {
            return false;
        }
        let mut tasks = self.inner.tasks.borrow_mut();
        let finished = tasks.iter().filter(|task| task.state != TaskState::Running).count();
        if finished > FINISHED_TASKS_MAX
            && let Some(oldest) = tasks.iter().position(|task| task.state != TaskState::Running)
        {
            tasks.remove(oldest);
        }
        tasks.push(TaskView {
            id,
            kind: kind.into(),
            subject: subject.into(),
            state: TaskState::Running,
            progress_percent: 0,
            step: String::new(),
            started_at: self.inner.env.wall(),
            finished_at: None,
            error: None,
        });
        drop(tasks);
        self.touch();
        true
    }

    /// Says how far a running task is. Less than before is taken as before.
    pub fn progress(&self, id: TaskId, percent: u8, step: &str) {
        self.with_running(id, |task| {
            task.progress_percent = task.progress_percent.max(percent.min(100));
            task.step = step.into();
        });
    }

    /// Ends a running task.
    pub fn finish_task(&self, id: TaskId, outcome: Result<(), EngineError>) {
        let now = self.inner.env.wall();
        self.with_running(id, |task| {
            task.finished_at = Some(now);
            match outcome {
                Ok(()) => (task.state, task.progress_percent) = (TaskState::Succeeded, 100),
                Err(error) => (task.state, task.error) = (TaskState::Failed, Some(error.to_string())),
            }
        });
    }

    /// Marks a running task as cancelled; `false` when it is not running.
    pub fn cancel_task(&self, id: TaskId) -> bool {
        let now = self.inner.env.wall();
        self.with_running(id, |task| (task.state, task.finished_at) = (TaskState::Cancelled, Some(now)))
    }

    fn with_running(&self, id: TaskId, change: impl FnOnce(&mut TaskView)) -> bool {
        let mut tasks = self.inner.tasks.borrow_mut();
        let found = tasks.iter_mut().find(|task| task.id == id && task.state == TaskState::Running);
        let running = found.map(change).is_some();
        drop(tasks);
        if running {
            self.touch();
        }
        running
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::units::Timestamp;

    fn board() -> Board {
        Board::new(Env::seeded(1, Timestamp(0)))
    }

    fn says(board: &Board, text: &str) {
        board.event(Severity::Info, "test", "cluster".into(), text.into());
    }

    #[tokio::test(start_paused = true)]
    async fn reader_that_is_behind_the_ring_is_told_of_the_gap() {
        let board = board();
        for index in 0..EVENTS_MAX + 2 {
            says(&board, &index.to_string());
        }
        let late = board.wait(1, 0).await;
        assert!(late.gap);
        assert_eq!(late.events.len(), EVENTS_MAX);
        let current = board.wait(2, 0).await;
        assert!(!current.gap);
    }

    #[tokio::test(start_paused = true)]
    async fn waiting_ends_with_the_next_event() {
        let board = board();
        let version = board.version();
        let waiting = board.wait(0, version);
        tokio::pin!(waiting);
        assert!(futures_pending(&mut waiting).await);
        says(&board, "now");
        assert_eq!(waiting.await.events[0].text, "now");
    }

    async fn futures_pending<F: Future>(future: &mut std::pin::Pin<&mut F>) -> bool {
        std::future::poll_fn(|context| std::task::Poll::Ready(future.as_mut().poll(context).is_pending()))
            .await
    }

    #[tokio::test(start_paused = true)]
    async fn progress_never_falls_and_a_finished_task_stays() {
        let board = board();
        let id = TaskId::from_random([7; 16]);
        assert!(board.start_task(id, "test", "x"));
        assert!(!board.start_task(id, "test", "x"), "a repetition is no second task");
        board.progress(id, 60, "more than half");
        board.progress(id, 20, "a step back");
        assert_eq!(board.task(id).map(|task| task.progress_percent), Some(60));
        board.finish_task(id, Ok(()));
        board.progress(id, 1, "too late");
        assert!(!board.cancel_task(id));
        assert_eq!(
            board.task(id).map(|task| (task.state, task.progress_percent)),
            Some((TaskState::Succeeded, 100))
        );
    }
}
