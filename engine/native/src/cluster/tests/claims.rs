//! Claims against the engine: what `model::claims` says about a division happens when the same disks are lost in virtual time.
//!
//! For every single and every double loss a cluster is made on simulated disks, with a volume of each layout that the claim
//! was drawn from; the parts are lost at once; volumes are written and read; then the process dies, starts without what is lost,
//! and is read again. The claim and what happened must be the same, volume by volume, in both directions.
use super::machine::{DATA_BYTES, SimCore, World};
use super::*;
use crate::cap::Content;
use crate::cap::label::Label;
use crate::cluster::handle::Core;
use crate::dg::{Dg, DgConfig, DgParts};
use model::claims::{Claim, Division, Fate, layouts, verdict};
use model::ids::{ComponentId, DiskGroupId};
use model::placement::{Placement, PlannedLeg};
use std::collections::{BTreeMap, BTreeSet};

mod shapes;

use shapes::{SHAPES, Shape, division, plan_of, policy};

/// Where a volume is written after the loss.
const LATER: u64 = 512 << 10;

/// Makes a volume where a placement says, and fills its beginning.
async fn volume(world: &World, number: u8, policy: &Policy, placement: &Placement) -> ObjectId {
    let object = ObjectId::from_random(id(5, number.into()));
    let made = world.core.make_placed(object, &format!("v{number}"), MIB, policy.clone(), placement).await;
    made.expect("made");
    world.fill(object, number).await;
    object
}

/// Whether a volume can be written and then read, with the right bytes; a restarted one is only read.
async fn goes_on(core: &SimCore, object: ObjectId, number: u8, write: bool) -> bool {
    let Some(owner) = core.owner(object) else { return false };
    let later = pattern(number + 100, 8192);
    if write
        && !matches!(tokio::time::timeout(PATIENCE, owner.write_bytes(LATER, &later, true)).await, Ok(Ok(())))
    {
        return false;
    }
    let read = async {
        Ok::<_, crate::obj::ObjError>((
            owner.read_bytes(0, DATA_BYTES as u64).await?,
            owner.read_bytes(LATER, 8192).await?,
        ))
    };
    match tokio::time::timeout(PATIENCE, read).await {
        Ok(Ok(bytes)) => {
            assert_eq!(bytes, (pattern(number, DATA_BYTES), later), "a wrong byte was read");
            true
        }
        _ => false,
    }
}

/// Components that can be read with the right bytes on what is left, without asking the cluster: groups of which log and disk are
/// both there are opened on their own.
async fn survivors(world: &World, objects: &BTreeMap<ObjectId, u8>) -> BTreeSet<ComponentId> {
    let mut labels: BTreeMap<DiskId, Label> = BTreeMap::new();
    for (_, disk) in world.machine.there() {
        let label = Label::load(disk.open().await).await.expect("a label");
        let disk = label.superblock().disk;
        labels.insert(disk, label);
    }
    let mut found: BTreeMap<DiskGroupId, (DiskId, BTreeSet<DiskId>)> = BTreeMap::new();
    for label in labels.values() {
        for group in &label.superblock().groups {
            let members = group.members.iter().map(|member| member.disk);
            found.entry(group.group).or_insert((group.log_disk, BTreeSet::new())).1.extend(members);
        }
    }
    let mut readable = BTreeSet::new();
    for (group, (log, members)) in found {
        let caps: Vec<Label> = members.iter().filter_map(|disk| labels.get(disk).cloned()).collect();
        let Some(log) = labels.get(&log).cloned().filter(|_| !caps.is_empty()) else { continue };
        let Ok(dg) = Dg::open(DgParts { group, log, caps, epoch: 1000 }, DgConfig::default()).await else {
            continue;
        };
        for component in dg.components() {
            let Some(number) = objects.get(&component.object).filter(|_| component.size_blocks > 0) else {
                continue;
            };
            let runs = dg.read(component.local, 0, (DATA_BYTES / 4096) as u32).await.unwrap_or_default();
            let bytes: Vec<u8> = runs
                .iter()
                .flat_map(|run| match &run.content {
                    Content::Data { buf, .. } => buf.as_slice().to_vec(),
                    _ => Vec::new(),
                })
                .collect();
            if bytes == pattern(*number, DATA_BYTES) {
                readable.insert(component.component);
            }
        }
        dg.kill();
    }
    readable
}

/// Loses the parts of one claim in a fresh cluster and compares what happens with what was claimed.
async fn judge(
    shape: &Shape,
    division: &Division,
    policy: &Policy,
    claim: &Claim,
    lost: &BTreeSet<DiskId>,
    seed: u64,
) {
    let gone = division.gone_with(lost);
    let what = format!("{} under {}, {lost:?} lost (seed {seed})", shape.name, policy.name);
    let mut world = World::new(plan_of(division, std::slice::from_ref(policy)), seed).await;
    let layouts = layouts(&division.topology(), policy, &gone);
    let mut volumes = Vec::new();
    for (number, (fate, placement)) in layouts.iter().enumerate() {
        let number = number as u8 + 1;
        let object = volume(&world, number, policy, placement).await;
        let descriptor = world.core.owner(object).expect("open").descriptor();
        let data: Vec<ComponentId> = descriptor.layout.legs().into_iter().map(|leg| leg.component).collect();
        let touched = placement
            .legs()
            .into_iter()
            .chain(&placement.witnesses)
            .any(|leg: &PlannedLeg| gone.contains(&leg.disk));
        volumes.push((number, object, *fate, data, touched));
    }
    world.pull(lost).await;
    let mut live = BTreeMap::new();
    for (number, object, ..) in &volumes {
        live.insert(*object, goes_on(&world.core, *object, *number, true).await);
    }
    world.stop();
    let numbers = volumes.iter().map(|(number, object, ..)| (*object, *number)).collect();
    let readable = survivors(&world, &numbers).await;
    let mut happened = BTreeSet::new();
    for (number, object, claimed, data, touched) in &volumes {
        let real = match (live[object], touched, data.iter().any(|component| readable.contains(component))) {
            (true, false, _) => Fate::Available,
            (true, true, _) => Fate::Reduced,
            (false, _, true) => Fate::Unavailable,
            (false, _, false) => Fate::Lost,
        };
        assert_eq!(real, *claimed, "{what}: volume {number}");
        happened.insert(real);
    }
    assert_eq!(happened, claim.fates, "{what}");
    let ready = world.restart().await;
    assert_eq!(ready, claim.restarts, "{what}: whether it starts again");
    if !ready {
        return;
    }
    for (number, object, claimed, ..) in volumes {
        let again = goes_on(&world.core, object, number, false).await;
        assert_eq!(again, claimed.goes_on(), "{what}: volume {number} after a restart");
    }
    world.stop();
}

async fn check(shape: &Shape, failures: u8) -> (usize, usize) {
    let (division, policy) = (division(shape), policy(failures));
    let verdict = verdict(&division, &policy, true);
    let claims: Vec<&Claim> = verdict.singles.iter().chain(&verdict.doubles).collect();
    for (index, claim) in claims.iter().enumerate() {
        let lost = claim.lost.iter().flat_map(|part| verdict.parts[*part].disks.iter().copied()).collect();
        judge(shape, &division, &policy, claim, &lost, index as u64 + 1).await;
    }
    (claims.len(), claims.iter().filter(|claim| claim.worst().goes_on()).count())
}

/// Losses that are judged, and of these that are survived, must be as many as in the table: else the test would pass on nothing.
async fn run(shape: usize, failures: u8, expected: (usize, usize)) {
    let local = tokio::task::LocalSet::new();
    let counted = local.run_until(check(&SHAPES[shape], failures)).await;
    assert_eq!(counted, expected, "{} under {failures}", SHAPES[shape].name);
}

#[tokio::test(start_paused = true)]
async fn three_equal_disks_do_as_claimed() {
    run(0, 1, (6, 3)).await;
    run(0, 0, (6, 0)).await;
}

#[tokio::test(start_paused = true)]
async fn slices_of_one_cache_disk_do_as_claimed() {
    run(1, 1, (10, 3)).await;
}

#[tokio::test(start_paused = true)]
async fn two_controllers_do_as_claimed() {
    run(2, 1, (4 + 2 + 11, 4)).await;
}

#[tokio::test(start_paused = true)]
async fn five_unequal_disks_do_as_claimed() {
    run(4, 1, (15, 5)).await;
    run(4, 2, (15, 15)).await;
}

#[tokio::test(start_paused = true)]
async fn domains_with_cache_disks_do_as_claimed() {
    let local = tokio::task::LocalSet::new();
    let (judged, survived) = local.run_until(check(&SHAPES[5], 1)).await;
    assert!(judged > 60 && survived >= 13, "{judged}, {survived}");
}

#[tokio::test(start_paused = true)]
async fn what_cannot_be_placed_is_refused_by_both() {
    let division = division(&SHAPES[3]);
    let said = verdict(&division, &policy(1), true);
    let local = tokio::task::LocalSet::new();
    local
        .run_until(async {
            let world = World::new(plan_of(&division, &[policy(1)]), 1).await;
            let intent = Intent::CreateVolume {
                id: ObjectId::from_random(id(5, 1)),
                name: "v".into(),
                size_bytes: MIB,
                policy: Some("ftt1".into()),
            };
            let refused = world.core.apply(TaskId::from_random(id(7, 2)), intent).await;
            let Err(EngineError::Unplaceable(refusal)) = refused else { panic!("{refused:?}") };
            assert_eq!(said.refusal, Some(refusal.summary));
            world.stop();
            assert_eq!(check(&SHAPES[3], 0).await, (3, 0));
        })
        .await;
}

/// Writes until nothing more fits; what fits is the yield, no less than claimed and hardly more.
async fn fill(shape: &Shape, failures: u8) {
    let (division, policy) = (division(shape), policy(failures));
    let claimed = verdict(&division, &policy, false).usable.usable_bytes;
    let world = World::new(plan_of(&division, std::slice::from_ref(&policy)), 1).await;
    let mut open = Vec::new();
    for number in 1..=8u32 {
        let object = ObjectId::from_random(id(5, number));
        let (name, policy) = (format!("v{number}"), Some(policy.name.clone()));
        let intent = Intent::CreateVolume { id: object, name, size_bytes: 200 * MIB, policy };
        world.core.apply(TaskId::from_random(id(8, number)), intent).await.expect("thin");
        open.push((object, 0));
    }
    let mut written = 0;
    let block = pattern(7, MIB as usize);
    while !open.is_empty() {
        let mut still = Vec::new();
        for (object, at) in open {
            let owner = world.core.owner(object).expect("open");
            if at < 200 && owner.write_bytes(at * MIB, &block, false).await.is_ok() {
                written += MIB;
                still.push((object, at + 1));
            }
        }
        open = still;
    }
    assert!(written + 3 * MIB >= claimed, "{}: {written} of {claimed} claimed", shape.name);
    assert!(written <= claimed + claimed / 20, "{}: {written}, only {claimed} claimed", shape.name);
    world.stop();
}

#[tokio::test(start_paused = true)]
async fn yields_are_what_can_be_written() {
    let local = tokio::task::LocalSet::new();
    local.run_until(fill(&SHAPES[0], 1)).await;
}
