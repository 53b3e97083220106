//! Hub of live pages: a topic is rendered once a tick, however many people look at it.
use std::collections::BTreeMap;
use std::sync::{Arc, Mutex, PoisonError};
use tokio::sync::{Notify, Semaphore, broadcast};

/// Ticks that a slow reader may fall behind before it is told everything again.
const BACKLOG: usize = 64;
/// Open streams of all people together.
const STREAMS_MAX: usize = 512;

/// What a page wants to hear about, e.g. `resync` or `task:ID`, of one cluster.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Topic {
    /// Key of the cluster.
    pub cluster: String,
    /// Name, as in the address of the stream.
    pub name: String,
}

/// One rendered topic.
#[derive(Clone, Debug)]
pub struct Frame {
    /// Which.
    pub topic: Topic,
    /// Rises with every frame of any topic.
    pub id: u64,
    /// One or more `<hx-partial>`.
    pub html: Arc<str>,
}

struct Entry {
    readers: usize,
    last: Option<Frame>,
}

/// The hub.
pub struct Live {
    sender: broadcast::Sender<Frame>,
    topics: Mutex<BTreeMap<Topic, Entry>>,
    wanted: Notify,
    streams: Arc<Semaphore>,
}

impl Default for Live {
    fn default() -> Self {
        Self {
            sender: broadcast::Sender::new(BACKLOG),
            topics: Mutex::default(),
            wanted: Notify::new(),
            streams: Arc::new(Semaphore::new(STREAMS_MAX)),
        }
    }
}

/// One open stream; its interest ends when it is dropped.
pub struct Subscription {
    app: crate::app::App,
    topics: Vec<Topic>,
    receiver: broadcast::Receiver<Frame>,
    _permit: tokio::sync::OwnedSemaphorePermit,
}

impl Live {
    fn lock(&self) -> std::sync::MutexGuard<'_, BTreeMap<Topic, Entry>> {
        self.topics.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Topics that somebody looks at now.
    pub fn wanted_topics(&self) -> Vec<Topic> {
        self.lock().keys().cloned().collect()
    }

    /// Waits until somebody looks at anything.
    pub async fn wait_for_interest(&self) {
        while self.lock().is_empty() {
            self.wanted.notified().await;
        }
    }

    /// Hands out a rendered topic, when it differs from the last time.
    pub fn publish(&self, topic: &Topic, html: &str) {
        let mut topics = self.lock();
        let id =
            topics.values().filter_map(|entry| entry.last.as_ref()).map(|frame| frame.id).max().unwrap_or(0);
        let Some(entry) = topics.get_mut(topic) else { return };
        if entry.last.as_ref().is_some_and(|last| *last.html == *html) {
            return;
        }
        let frame = Frame { topic: topic.clone(), id: id + 1, html: html.into() };
        entry.last = Some(frame.clone());
        let _ = self.sender.send(frame);
    }

    /// Opens a stream; `None` when too many are open.
    pub fn subscribe(app: &crate::app::App, topics: Vec<Topic>) -> Option<Subscription> {
        let permit = app.live.streams.clone().try_acquire_owned().ok()?;
        let receiver = app.live.sender.subscribe();
        let mut entries = app.live.lock();
        for topic in &topics {
            entries.entry(topic.clone()).or_insert(Entry { readers: 0, last: None }).readers += 1;
        }
        drop(entries);
        app.live.wanted.notify_one();
        Some(Subscription { app: app.clone(), topics, receiver, _permit: permit })
    }
}

impl Subscription {
    /// The present state of all its topics.
    pub fn all(&self) -> Vec<Frame> {
        let entries = self.app.live.lock();
        self.topics.iter().filter_map(|topic| entries.get(topic)?.last.clone()).collect()
    }

    /// The next frames: one, or after falling behind, all of them.
    pub async fn next(&mut self) -> Vec<Frame> {
        loop {
            match self.receiver.recv().await {
                Ok(frame) if self.topics.contains(&frame.topic) => return vec![frame],
                Ok(_) => {}
                Err(broadcast::error::RecvError::Lagged(_)) => return self.all(),
                Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
            }
        }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        let mut entries = self.app.live.lock();
        for topic in &self.topics {
            if let Some(entry) = entries.get_mut(topic) {
                entry.readers -= 1;
                if entry.readers == 0 {
                    entries.remove(topic);
                }
            }
        }
    }
}
