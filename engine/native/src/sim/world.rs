//! A world: boot, load and faults, crash, boot again, and at the end everything healed and compared.
//!
//! Invariant: nothing in a world depends on real time, threads or addresses: one seed, one history.
use super::reference::{Outage, Violation};
use super::workload::{Board, Load, Volume, client, read_all};
use crate::io::sim::Events;
use std::rc::Rc;
use std::time::Duration;

/// Virtual time after which a life counts as hung: more than every timeout of the engine together.
const HUNG: Duration = Duration::from_secs(3600);

/// What is simulated.
pub trait System {
    /// What its clients use.
    type Volume: Volume;
    /// Opens everything after a crash (or formats it in the first life).
    fn boot(&mut self) -> impl Future<Output = Result<Self::Volume, Violation>>;
    /// Everything stops at once; disks keep what survives.
    fn crash(&mut self, outage: Outage);
    /// One random fault or repair while clients run. Nothing happens when the budget of faults is used up.
    fn disturb(&mut self, board: &Board) -> impl Future<Output = ()>;
    /// Heals every fault, waits until all work is done, and compares every structure and byte.
    fn settle(&mut self, board: &Board) -> impl Future<Output = Result<(), Violation>>;
    /// Where things stand, for a report of a hang.
    fn describe(&self) -> String;
    /// The counter of all disks.
    fn events(&self) -> &Events;
}

/// How a world goes.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Lives, each ended by a crash but the last.
    pub lives: u64,
    /// Operations of each client in a life at most.
    pub ops: u64,
    /// Disturbances in a life at most.
    pub disturbances: u64,
    /// Whether power cuts happen, or only deaths of the process.
    pub power: bool,
}

/// What a world did.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Story {
    /// Operations of clients.
    pub ops: u64,
    /// Those that failed.
    pub failed: u64,
    /// Completed writes and flushes of disks.
    pub events: u64,
    /// Fingerprint of all I/O.
    pub trace: u64,
}

/// Runs `future` in virtual time on this thread.
pub fn in_virtual_time<T>(future: impl Future<Output = T>) -> T {
    let mut builder = tokio::runtime::Builder::new_current_thread();
    match builder.enable_time().start_paused(true).build() {
        Ok(runtime) => tokio::task::LocalSet::new().block_on(&runtime, future),
        Err(error) => panic!("no runtime: {error}"),
    }
}

/// Lives through `plan`. The error is the first broken promise.
pub async fn live<S: System>(
    system: &mut S,
    board: &Rc<Board>,
    load: &Rc<Load>,
    plan: Plan,
) -> Result<Story, Violation> {
    for life in 0..plan.lives {
        boot_through_crashes(system, board, plan).await?;
        let last = life + 1 == plan.lives;
        let lived = tokio::time::timeout(HUNG, one_life(system, board, load, plan, last)).await;
        lived.unwrap_or_else(|_| Err(hung(&format!("a life ({})", system.describe()))))?;
        if !last {
            crash(system, board, plan);
        }
    }
    board.may_fail.set(false);
    system.events().stop_after(None);
    let settled = tokio::time::timeout(HUNG, system.settle(board)).await;
    settled.unwrap_or_else(|_| Err(hung(&format!("healing ({})", system.describe()))))?;
    let read = tokio::time::timeout(HUNG, async {
        let volume = boot(system, board).await?;
        read_all(board, &volume, load).await;
        Ok(())
    });
    read.await.unwrap_or_else(|_| Err(hung("the last look")))?;
    system.crash(Outage::Kill);
    board.verdict()?;
    Ok(Story {
        ops: board.done.get(),
        failed: board.failed.get(),
        events: system.events().count(),
        trace: system.events().trace(),
    })
}

fn hung(what: &str) -> Violation {
    Violation(format!("{what} did not end in {} s of virtual time", HUNG.as_secs()))
}

fn crash<S: System>(system: &mut S, board: &Board, plan: Plan) {
    let power = plan.power && board.env.chance(1, 2);
    let outage = if power { Outage::Power } else { Outage::Kill };
    system.crash(outage);
    system.events().stop_after(None);
    // Until it is open again, nothing has flushed what a death of the process left: of several crashes in a row the worst counts.
    board.down.set(board.down.get().max(Some(outage)));
}

async fn boot<S: System>(system: &mut S, board: &Board) -> Result<S::Volume, Violation> {
    let volume = system.boot().await?;
    if let Some(outage) = board.down.take() {
        board.reference.borrow_mut().crash(outage);
    }
    Ok(volume)
}

/// Boots; now and then everything goes down again in the middle of it.
async fn boot_through_crashes<S: System>(system: &mut S, board: &Board, plan: Plan) -> Result<(), Violation> {
    while board.env.chance(1, 4) {
        let events = system.events().clone();
        events.stop_after(Some(events.count() + 1 + board.env.below(40)));
        let booted = {
            let boot = tokio::time::timeout(HUNG, boot(system, board));
            tokio::select! {
                biased;
                () = events.stopped() => None,
                booted = boot => Some(booted),
            }
        };
        if let Some(booted) = booted {
            booted.unwrap_or_else(|_| Err(hung("opening")))?;
        }
        crash(system, board, plan);
    }
    Ok(())
}

async fn one_life<S: System>(
    system: &mut S,
    board: &Rc<Board>,
    load: &Rc<Load>,
    plan: Plan,
    last: bool,
) -> Result<(), Violation> {
    let volume = boot(system, board).await?;
    if board.env.chance(1, 2) {
        read_all(board, &volume, load).await;
    }
    let events = system.events().clone();
    let cut_short = !last && board.env.chance(2, 3);
    if cut_short {
        events.stop_after(Some(events.count() + 1 + board.env.below(10 * plan.ops)));
    }
    let clients: Vec<_> = (0..load.clients)
        .map(|_| {
            tokio::task::spawn_local(client(Rc::clone(board), volume.clone(), Rc::clone(load), plan.ops))
        })
        .collect();
    tokio::select! {
        biased;
        () = events.stopped() => {}
        () = disturb_until_done(system, board, plan, &clients) => {}
    }
    for client in &clients {
        client.abort();
    }
    for client in clients {
        // An aborted client reports so; a panic in the engine is a broken promise.
        if let Err(error) = client.await
            && error.is_panic()
        {
            std::panic::resume_unwind(error.into_panic());
        }
    }
    if last {
        read_all(board, &volume, load).await;
    }
    board.verdict()
}

async fn disturb_until_done<S: System>(
    system: &mut S,
    board: &Board,
    plan: Plan,
    clients: &[tokio::task::JoinHandle<()>],
) {
    let mut left = board.env.below(plan.disturbances + 1);
    while clients.iter().any(|client| !client.is_finished()) {
        tokio::time::sleep(Duration::from_millis(1 + board.env.below(400))).await;
        if left > 0 {
            system.disturb(board).await;
            left -= 1;
        }
    }
}

#[cfg(test)]
#[path = "world_tests.rs"]
mod tests;
