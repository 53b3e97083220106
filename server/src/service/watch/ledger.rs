//! Which numbered block was sent and which was acknowledged, and what a block must hold when it is read back. Pure.
//!
//! Every write carries a number that rises over the whole run. A block that was read back is right exactly when it holds,
//! byte for byte, a write of this run to this block that is not older than the last one acknowledged for it.

/// One write, bytes.
pub const BLOCK_BYTES: usize = 4096;
/// Words of a block.
const WORDS: usize = BLOCK_BYTES / 8;
/// Coprime to every power of two: spreads consecutive writes over all blocks, each block once a round.
const STRIDE: u64 = 0x9E37_79B1;

/// What was sent and acknowledged.
#[derive(Clone, Debug)]
pub struct Ledger {
    run: u64,
    next: u64,
    sent: Vec<u64>,
    acknowledged: Vec<u64>,
    total: u64,
    failed: u64,
}

/// One write that is to be sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Write {
    /// Its number, from 1.
    pub number: u64,
    /// The block it goes to.
    pub block: u64,
}

/// What a block that was read back shows.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// Holds the acknowledged write, or a later one that was under way.
    Right,
    /// Holds an older write than the one that was acknowledged, or none.
    Lost,
    /// Holds bytes that nobody wrote.
    Foreign,
}

impl Ledger {
    /// An empty ledger over `blocks` blocks, a power of two. `run` tells runs on one volume apart.
    pub fn new(run: u64, blocks: u64) -> Self {
        let empty = vec![0; usize::try_from(blocks).unwrap_or(0)];
        Self { run, next: 0, sent: empty.clone(), acknowledged: empty, total: 0, failed: 0 }
    }

    /// Blocks.
    pub fn blocks(&self) -> u64 {
        self.sent.len() as u64
    }

    /// Acknowledged writes.
    pub fn acknowledged(&self) -> u64 {
        self.total
    }

    /// Writes that the volume answered with an error.
    pub fn failed(&self) -> u64 {
        self.failed
    }

    /// The next write. Writers side by side never have two writes of one block under way, as long as there are fewer
    /// writers than blocks.
    pub fn take(&mut self) -> Write {
        self.next += 1;
        let block = self.next.wrapping_mul(STRIDE) % self.blocks().max(1);
        self.sent[index(block)] = self.next;
        Write { number: self.next, block }
    }

    /// The volume acknowledged a write.
    pub fn acknowledge(&mut self, write: Write) {
        self.total += 1;
        let known = &mut self.acknowledged[index(write.block)];
        *known = (*known).max(write.number);
    }

    /// The volume answered with an error, or the connection broke: nothing is known about the effect.
    pub fn fail(&mut self) {
        self.failed += 1;
    }

    /// The bytes of a write.
    pub fn content(&self, write: Write) -> Vec<u8> {
        content(self.run, write.block, write.number)
    }

    /// Blocks with an acknowledged write.
    pub fn to_check(&self) -> Vec<u64> {
        (0..).zip(&self.acknowledged).filter(|(_, number)| **number > 0).map(|(block, _)| block).collect()
    }

    /// Judges a block that was read back.
    pub fn judge(&self, block: u64, bytes: &[u8]) -> Verdict {
        let at = index(block);
        let (least, most) = (self.acknowledged[at], self.sent[at]);
        let Some(word) = bytes.get(..8).and_then(|word| word.try_into().ok()) else {
            return Verdict::Foreign;
        };
        let number = u64::from_le_bytes(word);
        if bytes.iter().all(|byte| *byte == 0) {
            return if least == 0 { Verdict::Right } else { Verdict::Lost };
        }
        if bytes != content(self.run, block, number) {
            return Verdict::Foreign;
        }
        if (least..=most).contains(&number) { Verdict::Right } else { Verdict::Lost }
    }
}

fn index(block: u64) -> usize {
    usize::try_from(block).expect("a block of the ledger")
}

fn content(run: u64, block: u64, number: u64) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(BLOCK_BYTES);
    bytes.extend(number.to_le_bytes());
    for word in 1..WORDS as u64 {
        let mixed = (number ^ run.rotate_left(17) ^ block.rotate_left(40)).wrapping_add(word);
        bytes.extend(mixed.wrapping_mul(0x9E37_79B9_7F4A_7C15).to_le_bytes());
    }
    bytes
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_block_is_written_once_a_round() {
        let mut ledger = Ledger::new(1, 64);
        let mut blocks: Vec<u64> = (0..64).map(|_| ledger.take().block).collect();
        blocks.sort_unstable();
        assert_eq!(blocks, (0..64).collect::<Vec<_>>());
    }

    #[test]
    fn only_the_acknowledged_write_or_a_later_one_is_right() {
        let mut ledger = Ledger::new(7, 1);
        let (first, second, third) = (ledger.take(), ledger.take(), ledger.take());
        ledger.acknowledge(first);
        ledger.acknowledge(second);
        let judge = |write: Write| ledger.judge(0, &ledger.content(write));
        assert_eq!(judge(first), Verdict::Lost);
        assert_eq!(judge(second), Verdict::Right);
        assert_eq!(judge(third), Verdict::Right, "it was under way");
        assert_eq!(ledger.judge(0, &[0; BLOCK_BYTES]), Verdict::Lost);
        assert_eq!(ledger.acknowledged(), 2);
    }

    #[test]
    fn a_flipped_byte_another_block_and_another_run_are_foreign() {
        let mut ledger = Ledger::new(7, 2);
        let write = ledger.take();
        ledger.acknowledge(write);
        let mut bytes = ledger.content(write);
        for place in [8, 100, BLOCK_BYTES - 1] {
            bytes[place] ^= 1;
            assert_eq!(ledger.judge(write.block, &bytes), Verdict::Foreign, "byte {place}");
            bytes[place] ^= 1;
        }
        let other = content(7, write.block ^ 1, write.number);
        assert_eq!(ledger.judge(write.block, &other), Verdict::Foreign);
        assert_eq!(ledger.judge(write.block, &content(8, write.block, write.number)), Verdict::Foreign);
        assert_eq!(ledger.judge(write.block, &[1, 2]), Verdict::Foreign);
    }
}
