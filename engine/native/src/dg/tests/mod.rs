//! The disk group on simulated disks: against a model, at every crash point, and without each of its safety rules.
mod crash_points;
mod faults;
mod holes;
mod objects;
mod random;
mod space;
mod world;

/// Runs `test` in virtual time.
fn run<T>(test: impl Future<Output = T>) -> T {
    let runtime =
        tokio::runtime::Builder::new_current_thread().enable_time().start_paused(true).build().unwrap();
    tokio::task::LocalSet::new().block_on(&runtime, test)
}
