//! The client: writers side by side on one NBD connection, one sample a second, and reading everything back.
use super::ledger::{BLOCK_BYTES, Ledger, Verdict};
use super::{Outcome, Sample, VOLUME};
use crate::app::App;
use crate::engines::BlockClient;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;
use tokio::task::JoinSet;

/// Writers side by side.
const WRITERS: usize = 4;
/// Pause of a writer between two writes: a lab shares the machine with everything else.
const PAUSE: Duration = Duration::from_millis(8);
/// Blocks that are written to: 32 MiB.
const BLOCKS: u64 = 8192;
/// Bytes that are read back at once.
const READ_BLOCKS: u64 = 64;
/// Pause before a broken connection is opened again.
const RECONNECT: Duration = Duration::from_millis(250);

/// Shared by writers and sampler.
pub struct Load {
    ledger: Mutex<Ledger>,
    stopped: AtomicBool,
    latency_us_max: AtomicU64,
}

impl Load {
    /// An empty load; `run` tells runs apart.
    pub fn new(run: u64) -> Arc<Self> {
        Arc::new(Self {
            ledger: Mutex::new(Ledger::new(run, BLOCKS)),
            stopped: AtomicBool::new(false),
            latency_us_max: AtomicU64::new(0),
        })
    }

    fn ledger(&self) -> std::sync::MutexGuard<'_, Ledger> {
        self.ledger.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Acknowledged and failed writes.
    pub fn counts(&self) -> (u64, u64) {
        let ledger = self.ledger();
        (ledger.acknowledged(), ledger.failed())
    }

    /// Tells the writers to end after the write that is under way.
    pub fn stop(&self) {
        self.stopped.store(true, Ordering::Relaxed);
    }

    fn is_stopped(&self) -> bool {
        self.stopped.load(Ordering::Relaxed)
    }

    /// Writes and samples until [`Load::stop`] or until the server stops.
    pub async fn run(self: Arc<Self>, app: App) {
        let mut tasks = JoinSet::new();
        for _ in 0..WRITERS {
            tasks.spawn(write(self.clone(), app.clone()));
        }
        tasks.spawn(sample(self.clone(), app.clone()));
        tokio::select! {
            () = async { while tasks.join_next().await.is_some() {} } => {}
            () = app.stopped() => {}
        }
    }

    /// Reads back every block that an acknowledged write went to.
    ///
    /// # Errors
    /// One sentence when the volume cannot be read.
    pub async fn verify(&self, app: &App) -> Result<Outcome, String> {
        let client = connect(app).await?;
        client.flush().await?;
        let ledger = self.ledger().clone();
        let blocks = ledger.to_check();
        let mut outcome = Outcome { acknowledged: ledger.acknowledged(), ..Outcome::default() };
        for first in (0..ledger.blocks()).step_by(usize::try_from(READ_BLOCKS).unwrap_or(1)) {
            let bytes = client.read(first * BLOCK_BYTES as u64, READ_BLOCKS * BLOCK_BYTES as u64).await?;
            for (block, bytes) in (first..).zip(bytes.chunks(BLOCK_BYTES)) {
                if blocks.binary_search(&block).is_err() {
                    continue;
                }
                outcome.blocks_read += 1;
                match ledger.judge(block, bytes) {
                    Verdict::Right => {}
                    Verdict::Lost => outcome.lost += 1,
                    Verdict::Foreign => outcome.foreign += 1,
                }
            }
            app.watch.with(|report| report.verified = (outcome.blocks_read, blocks.len() as u64));
        }
        client.close().await;
        Ok(outcome)
    }
}

async fn connect(app: &App) -> Result<BlockClient, String> {
    BlockClient::connect(&app.config.data_dir.join("nbd.sock"), VOLUME).await
}

async fn write(load: Arc<Load>, app: App) {
    let mut client: Option<BlockClient> = None;
    while !load.is_stopped() {
        let open = match client.take() {
            Some(open) => open,
            None => match connect(&app).await {
                Ok(open) => open,
                Err(cause) => {
                    tracing::debug!(cause, "the watched volume cannot be attached");
                    tokio::time::sleep(RECONNECT).await;
                    continue;
                }
            },
        };
        let (write, content) = {
            let mut ledger = load.ledger();
            let write = ledger.take();
            (write, ledger.content(write))
        };
        let began = tokio::time::Instant::now();
        match open.write(write.block * BLOCK_BYTES as u64, &content).await {
            Ok(()) => {
                let micros = u64::try_from(began.elapsed().as_micros()).unwrap_or(u64::MAX);
                load.latency_us_max.fetch_max(micros, Ordering::Relaxed);
                load.ledger().acknowledge(write);
                client = Some(open);
                tokio::time::sleep(PAUSE).await;
            }
            Err(cause) => {
                tracing::debug!(cause, "a write of the watched volume failed");
                load.ledger().fail();
                tokio::time::sleep(RECONNECT).await;
            }
        }
    }
}

async fn sample(load: Arc<Load>, app: App) {
    let mut before = 0;
    let mut tick = tokio::time::interval(Duration::from_secs(1));
    tick.tick().await;
    while !load.is_stopped() {
        tick.tick().await;
        let (acknowledged, failed) = load.counts();
        let sample = Sample {
            time: app.clock.now(),
            writes: acknowledged - before,
            latency_us_max: load.latency_us_max.swap(0, Ordering::Relaxed),
        };
        app.watch.sample(sample, acknowledged, failed);
        before = acknowledged;
    }
}
