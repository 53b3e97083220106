//! A capacity disk against a stupid oracle: operations, what they should have led to, and how to compare.
mod crash;
mod history;
mod label;
mod space;

use super::label::Label;
use super::{CapDisk, CapError, CheckpointMark, Content, NewComponent};
use crate::fmt::component::ComponentKind;
use crate::fmt::superblock::{CheckpointRoot, Roles, Superblock};
use crate::fmt::{BLOCK, LocalId, crc32c, layout};
use crate::io::sim::{Events, SimDisk};
use crate::io::{Disk, Env, IoBuf};
use model::ids::{ClusterId, ComponentId, DiskGroupId, DiskId, HostId, ObjectId};
use model::state::Media;
use std::collections::{BTreeMap, BTreeSet};

const MIB: u64 = 1 << 20;

/// A disk of `size_bytes` with one extents region.
fn superblock(size_bytes: u64) -> Superblock {
    let group = DiskGroupId::from_random([1; 16]);
    Superblock {
        generation: 1,
        incompatible: 0,
        read_only_compatible: 0,
        compatible: 0,
        cluster: ClusterId::from_random([2; 16]),
        disk: DiskId::from_random([3; 16]),
        host: HostId::from_random([4; 16]),
        name: "h1-cap1".into(),
        size_bytes,
        physical_block_bytes: 4096,
        media: Media::Flash,
        roles: Roles::CAPACITY,
        epoch: 1,
        clean: false,
        encryption: Default::default(),
        checkpoint: CheckpointRoot::default(),
        regions: layout::regions(Roles::CAPACITY, size_bytes, &[group], 0).unwrap(),
        groups: Vec::new(),
    }
}

async fn formatted(medium: &SimDisk) -> CapDisk {
    let disk = medium.open().await;
    let label = Label::format(disk.clone(), superblock(disk.geometry().size_bytes)).await.unwrap();
    CapDisk::format(&label).await.unwrap();
    CapDisk::open(label).await.unwrap()
}

async fn reopened(medium: &SimDisk) -> CapDisk {
    CapDisk::open(Label::load(medium.open().await).await.unwrap()).await.unwrap()
}

fn medium(size_bytes: u64, seed: u64) -> SimDisk {
    SimDisk::new(size_bytes, seed, &Events::default())
}

/// The bytes that the write with sequence `oseq` puts into `block`.
fn content(block: u64, oseq: u64) -> Vec<u8> {
    [block.to_le_bytes(), oseq.to_le_bytes()].concat().repeat(BLOCK / 16)
}

fn run_of(block: u64, nblk: u64, oseq: u64) -> (Vec<u32>, Vec<IoBuf>) {
    let blocks: Vec<_> = (block..block + nblk).map(|block| content(block, oseq)).collect();
    (blocks.iter().map(|block| crc32c(block)).collect(), vec![IoBuf::copy_of(&blocks.concat())])
}

/// Something that a disk group does to a capacity disk.
#[derive(Clone, Debug)]
enum Op {
    Create(LocalId, u64),
    Remove(LocalId),
    Describe(LocalId, u64, usize),
    Write { local: LocalId, block: u64, nblk: u64, oseq: u64 },
    Punch { local: LocalId, block: u64, nblk: u64, oseq: u64 },
}

fn new_component(local: LocalId, size_blocks: u64) -> NewComponent {
    NewComponent {
        local,
        component: ComponentId::from_random([local.0 as u8; 16]),
        object: ObjectId::from_random([9; 16]),
        kind: ComponentKind::Data,
        size_blocks,
        csn: (1, 1),
        descriptor: vec![7; 100].into(),
    }
}

async fn apply(disk: &CapDisk, op: &Op) -> Result<(), CapError> {
    match *op {
        Op::Create(local, size) => match disk.component(local) {
            Some(_) => Ok(()),
            None => disk.create(new_component(local, size)),
        },
        Op::Remove(local) => {
            disk.remove(local);
            Ok(())
        }
        Op::Describe(local, csn, len) => disk.set_descriptor(local, (1, csn), vec![csn as u8; len].into()),
        Op::Write { local, block, nblk, oseq } => {
            let (crcs, bufs) = run_of(block, nblk, oseq);
            let mut reservation = disk.reserve(disk.need(local, block, nblk))?;
            disk.write(local, block, oseq, oseq, &crcs, bufs, Some(&mut reservation)).await
        }
        Op::Punch { local, block, nblk, oseq } => disk.punch(local, block, nblk, oseq).await,
    }
}

/// What a component should hold.
#[derive(Clone, Debug, Default, PartialEq)]
struct Expected {
    size: u64,
    csn: u64,
    descriptor: usize,
    /// Sequence of the write that each block comes from.
    blocks: BTreeMap<u64, u64>,
    /// Sequence of each extent that was ever written.
    extents: BTreeMap<u64, u64>,
}

type Oracle = BTreeMap<LocalId, Expected>;

fn expect(oracle: &mut Oracle, op: &Op) {
    match *op {
        Op::Create(local, size) => {
            oracle.entry(local).or_insert(Expected { size, csn: 1, descriptor: 100, ..Expected::default() });
        }
        Op::Remove(local) => drop(oracle.remove(&local)),
        Op::Describe(local, csn, len) => {
            let expected = oracle.get_mut(&local).unwrap();
            (expected.csn, expected.descriptor) = (csn, len);
        }
        Op::Write { local, block, nblk, oseq } => {
            let expected = oracle.get_mut(&local).unwrap();
            for block in block..block + nblk {
                expected.blocks.insert(block, oseq);
                expected.extents.insert(block / 16, oseq);
            }
        }
        Op::Punch { local, block, nblk, oseq } => {
            let expected = oracle.get_mut(&local).unwrap();
            for block in block..block + nblk {
                expected.blocks.remove(&block);
                expected.extents.entry(block / 16).and_modify(|last| *last = oseq);
            }
        }
    }
}

/// Random operations that make sense one after the other, by a seed.
struct Script {
    env: Env,
    oracle: Oracle,
    next_local: u32,
    oseq: u64,
}

/// Blocks of a component in these tests: two leaves and a bit, so that a leaf ends inside.
const SIZE_BLOCKS: u64 = 1100;

impl Script {
    fn new(seed: u64) -> Self {
        let env = Env::seeded(seed, model::units::Timestamp(0));
        Self { env, oracle: Oracle::new(), next_local: 1, oseq: 0 }
    }

    fn next(&mut self) -> Op {
        let existing: Vec<LocalId> = self.oracle.keys().copied().collect();
        let choice = if existing.is_empty() { 0 } else { self.env.below(20) };
        let local = existing.get(self.env.below(existing.len() as u64) as usize).copied();
        self.oseq += 1;
        let oseq = self.oseq;
        let block = self.env.below(SIZE_BLOCKS);
        let nblk = 1 + self.env.below((SIZE_BLOCKS - block).min(40));
        let op = match (choice, local) {
            (0, _) | (_, None) => {
                self.next_local += 1;
                Op::Create(LocalId(self.next_local), SIZE_BLOCKS)
            }
            (1, Some(local)) if existing.len() > 2 => Op::Remove(local),
            (2, Some(local)) => Op::Describe(local, oseq, self.env.below(12_000) as usize),
            (3..=6, Some(local)) => Op::Punch { local, block, nblk, oseq },
            (_, Some(local)) => Op::Write { local, block, nblk, oseq },
        };
        expect(&mut self.oracle, &op);
        op
    }
}

/// Compares a disk with what it should hold. Blocks in `touched` were overwritten in place after the checkpoint: anything but wrong bytes.
async fn compare(disk: &CapDisk, oracle: &Oracle, touched: &BTreeSet<(LocalId, u64)>) -> Result<(), String> {
    let found: Vec<LocalId> = disk.components().iter().map(|info| info.local).collect();
    let wanted: Vec<LocalId> = oracle.keys().copied().collect();
    if found != wanted {
        return Err(format!("components {found:?}, not {wanted:?}"));
    }
    for info in disk.components() {
        let expected = &oracle[&info.local];
        if info.damaged || info.csn.1 != expected.csn || info.descriptor.len() != expected.descriptor {
            return Err(format!("{info:?}, not {expected:?}"));
        }
        let changed: BTreeMap<u64, u64> = disk.changed_since(info.local, 0).into_iter().collect();
        if changed != expected.extents {
            return Err(format!("extents of {}: {changed:?}, not {:?}", info.local, expected.extents));
        }
        let half = expected.extents.values().max().copied().unwrap_or(0) / 2;
        let newer: BTreeMap<u64, u64> = disk.changed_since(info.local, half).into_iter().collect();
        if newer.iter().any(|(_, oseq)| *oseq <= half)
            || newer.len() != changed.values().filter(|oseq| **oseq > half).count()
        {
            return Err(format!("changed since {half}: {newer:?} of {changed:?}"));
        }
        let extents: BTreeSet<u64> = expected.blocks.keys().map(|block| block / 16).collect();
        if touched.is_empty() && info.used_bytes != extents.len() as u64 * 65536 {
            return Err(format!("{} uses {} bytes for {extents:?}", info.local, info.used_bytes));
        }
        compare_blocks(disk, info.local, expected, touched).await?;
    }
    Ok(())
}

async fn compare_blocks(
    disk: &CapDisk,
    local: LocalId,
    expected: &Expected,
    touched: &BTreeSet<(LocalId, u64)>,
) -> Result<(), String> {
    let runs = disk.read(local, 0, expected.size).await.map_err(|error| error.to_string())?;
    let mut block = 0;
    for run in runs {
        for i in 0..run.nblk {
            let want = expected.blocks.get(&block).map(|oseq| content(block, *oseq));
            let good = match (&run.content, want) {
                (Content::Data { buf, crcs }, Some(want)) => {
                    let at = i as usize * BLOCK;
                    buf[at..at + BLOCK] == want[..] && crcs[i as usize] == crc32c(&want)
                }
                (Content::Zero, None) => true,
                (Content::Bad, Some(_)) => touched.contains(&(local, block)),
                _ => false,
            };
            if !good {
                return Err(format!("block {block} of {local}: {:?}", run.content));
            }
            block += 1;
        }
    }
    let mut status =
        disk.status(local, 0, expected.size).into_iter().flat_map(|(n, data)| (0..n).map(move |_| data));
    match (0..expected.size).all(|block| status.next() == Some(expected.blocks.contains_key(&block)))
        && block == expected.size
    {
        true => Ok(()),
        false => Err(format!("status of {local} differs, or {block} blocks were read")),
    }
}

async fn checkpoint(disk: &CapDisk, applied_batch: u64) -> u64 {
    disk.checkpoint(CheckpointMark { applied_batch, applied_stable: Vec::new() }).await.unwrap()
}

fn raw(disk: &CapDisk) -> &Disk {
    disk.label().disk()
}
