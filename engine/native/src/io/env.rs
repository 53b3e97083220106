//! Wall clock and randomness as parameters. Monotonic time is `tokio::time`, virtual in the simulator.
use model::units::Timestamp;
use rand_chacha::ChaCha8Rng;
use rand_chacha::rand_core::{Rng, SeedableRng};
use std::cell::RefCell;
use std::rc::Rc;

#[derive(Clone, Copy)]
enum Wall {
    /// The clock of the machine.
    Machine,
    /// A fixed start plus the time that tokio says has passed.
    Virtual(Timestamp, tokio::time::Instant),
}

/// Wall clock and seeded randomness; clones share the generator.
#[derive(Clone)]
pub struct Env {
    wall: Wall,
    rng: Rc<RefCell<ChaCha8Rng>>,
}

impl Env {
    /// The machine's clock and a generator seeded by the caller (from the operating system, at the edge).
    pub fn machine(seed: [u8; 32]) -> Self {
        Self { wall: Wall::Machine, rng: Rc::new(RefCell::new(ChaCha8Rng::from_seed(seed))) }
    }

    /// Virtual time from `start`, and everything random from `seed`.
    pub fn seeded(seed: u64, start: Timestamp) -> Self {
        let wall = Wall::Virtual(start, tokio::time::Instant::now());
        Self { wall, rng: Rc::new(RefCell::new(ChaCha8Rng::seed_from_u64(seed))) }
    }

    /// Wall-clock time, for people; never for ordering.
    pub fn wall(&self) -> Timestamp {
        match self.wall {
            Wall::Machine => machine_wall(),
            Wall::Virtual(start, since) => {
                Timestamp(start.0.saturating_add_unsigned(since.elapsed().as_millis() as u64))
            }
        }
    }

    /// Fills `bytes` with randomness.
    pub fn fill_bytes(&self, bytes: &mut [u8]) {
        self.rng.borrow_mut().fill_bytes(bytes);
    }

    /// Sixteen random bytes: an id is made with `ObjectId::from_random(env.id_bytes())`, and so on.
    pub fn id_bytes(&self) -> [u8; 16] {
        let mut bytes = [0; 16];
        self.fill_bytes(&mut bytes);
        bytes
    }

    /// A random number.
    pub fn next_u64(&self) -> u64 {
        self.rng.borrow_mut().next_u64()
    }

    /// A number in `0..n`; zero when `n` is zero.
    pub fn below(&self, n: u64) -> u64 {
        below(&mut *self.rng.borrow_mut(), n)
    }

    /// True in `numerator` of `denominator` cases.
    pub fn chance(&self, numerator: u64, denominator: u64) -> bool {
        self.below(denominator) < numerator
    }
}

/// A number in `0..n`; zero when `n` is zero. The bias of the multiplication is below n / 2^64.
pub fn below(rng: &mut impl Rng, n: u64) -> u64 {
    ((u128::from(rng.next_u64()) * u128::from(n)) >> 64) as u64
}

#[allow(clippy::disallowed_methods, reason = "the edge where the machine's clock comes in")]
fn machine_wall() -> Timestamp {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH).unwrap_or_default();
    Timestamp(since.as_millis() as i64)
}
