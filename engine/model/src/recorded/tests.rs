//! Tests of recordings: generated snapshots are consistent, and intents are refused.
use super::*;
use crate::arithmetic::fault_domains_needed;
use crate::availability::availability_now;
use crate::engine::{Fault, FaultTarget};
use crate::ids::TaskId;
use crate::policy::{FaultToleranceMethod, Policy};
use crate::what_if::FailTarget;
use std::collections::BTreeSet;
use std::task::Context;

/// The answer of a future that must not have to wait.
fn now<T>(mut future: EngineFuture<'_, T>) -> Option<Result<T, EngineError>> {
    match future.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
        Poll::Ready(answer) => Some(answer),
        Poll::Pending => None,
    }
}

fn small(faults: u32) -> Snapshot {
    generate(GenerateSpec { seed: 7, hosts: 8, disks_per_host: 4, objects: 300, faults })
}

#[test]
fn equal_seeds_give_equal_snapshots_that_survive_serde() {
    let snapshot = small(1);
    assert_eq!(snapshot, small(1));
    assert_ne!(
        snapshot,
        generate(GenerateSpec { seed: 8, hosts: 8, disks_per_host: 4, objects: 300, faults: 1 })
    );
    let text = serde_json::to_string(&snapshot).expect("plain data");
    assert_eq!(serde_json::from_str::<Snapshot>(&text).expect("what was written"), snapshot);
}

#[test]
fn intents_survive_serde() {
    let intents = [
        Intent::PutPolicy { policy: Policy::built_in(), expected_version: None, apply_now: true },
        Intent::InjectFault {
            target: FaultTarget::Host("h1".into()),
            fault: Fault::Partition { from: vec!["h2".into()] },
        },
        Intent::SetLicence { key: None },
        Intent::Scrub,
    ];
    for intent in intents {
        let text = serde_json::to_string(&intent).expect("plain data");
        assert_eq!(serde_json::from_str::<Intent>(&text).expect("what was written"), intent, "{text}");
    }
}

#[test]
fn generated_objects_keep_every_rule() {
    let snapshot = small(0);
    assert_eq!(snapshot.objects.len(), 300);
    for object in &snapshot.objects {
        let policy =
            snapshot.policies.iter().find(|policy| policy.name == object.policy).expect("a known policy");
        assert_eq!(object.reason, None);
        assert!(availability_now(&object.tree).accessible);
        assert_eq!(object.tolerates_now, u32::from(policy.failures_to_tolerate));
        let domains: BTreeSet<_> =
            object.tree.leaves().iter().map(|(leaf, _)| leaf.fault_domain.clone()).collect();
        assert!(domains.len() >= fault_domains_needed(policy) as usize);
    }
    let components: u32 = snapshot.hosts.iter().map(|host| host.components).sum();
    let leaves: usize = snapshot.objects.iter().map(|object| object.tree.leaves().len()).sum();
    assert_eq!(components as usize, leaves);
    let raw: u64 = snapshot.objects.iter().map(|object| object.used_raw_bytes).sum();
    let on_disks: u64 = snapshot.disks.iter().map(|disk| disk.used_bytes - disk.metadata_bytes).sum();
    assert_eq!(raw, on_disks);
}

#[test]
fn it_answers_and_refuses_without_waiting() {
    let engine = Recorded::new(small(1));
    let snapshot = now(engine.snapshot()).expect("at once").expect("never refused");
    assert_eq!(now(engine.events(0, 0)).expect("newer").expect("never refused").version, 1);
    assert!(now(engine.events(0, snapshot.version)).is_none(), "nothing happens in a recording");
    let task = TaskId::from_random([7; 16]);
    assert!(matches!(now(engine.apply(task, Intent::Scrub)), Some(Err(EngineError::Unsupported { .. }))));
    engine.replace(Snapshot { version: 2, ..Snapshot::clone(&snapshot) }, Vec::new());
    assert_eq!(now(engine.events(0, snapshot.version)).expect("newer").expect("never refused").version, 2);
}

fn ask(snapshot: &Snapshot, question: Question) -> Answer {
    crate::what_if::answer(snapshot, &question)
}

#[test]
fn a3_failing_a_second_host_names_the_objects_that_stop() {
    let snapshot = generate(GenerateSpec { seed: 3, hosts: 3, disks_per_host: 2, objects: 60, faults: 1 });
    let answer = ask(&snapshot, Question::Maintenance { host: "h1".into() });
    assert!(!answer.inaccessible.is_empty());
    for object in &snapshot.objects {
        let listed = answer.inaccessible.iter().any(|stopped| stopped.uuid == object.uuid);
        let mirror_on_h1 = object.policy != "archive"
            && object.accessible
            && object.tree.leaves().iter().any(|(leaf, _)| leaf.host == "h1");
        assert!(listed || !mirror_on_h1, "{} is not listed", object.name);
    }
    assert!(!answer.rebuild_fits);
    let refusal = answer.refusal.expect("no third domain");
    assert!(refusal.summary.starts_with("needs 3 fault domains"), "{refusal}");
}

#[test]
fn failing_one_of_eight_reduces_and_fits_elsewhere() {
    let snapshot = small(0);
    let answer = ask(&snapshot, Question::Fail { targets: vec![FailTarget::Host("h2".into())] });
    let hit = snapshot
        .objects
        .iter()
        .filter(|object| object.tree.leaves().iter().any(|(leaf, _)| leaf.host == "h2"));
    assert_eq!(answer.reduced.len() + answer.inaccessible.len(), hit.count());
    assert_eq!(answer.unaffected as usize + answer.reduced.len() + answer.inaccessible.len(), 300);
    assert!(answer.inaccessible.iter().all(|object| {
        let object = snapshot.objects.iter().find(|other| other.uuid == object.uuid).expect("listed");
        object.policy == "archive"
    }));
    assert!(answer.rebuild_fits && answer.bytes_to_move > 0);
}

#[test]
fn a_policy_edit_is_counted_before_it_is_made() {
    let snapshot = small(0);
    let users = snapshot.objects.iter().filter(|object| object.policy == "default");
    let used: u64 = users.clone().map(|object| object.used_bytes).sum();
    let more = Policy { failures_to_tolerate: 2, ..Policy::built_in() };
    let answer = ask(&snapshot, Question::PutPolicy { policy: more.clone() });
    assert!(answer.satisfiable);
    assert_eq!((answer.objects.len(), answer.bytes_to_move), (users.count(), used));
    let limit = Policy { iops_limit: Some(500), ..Policy::built_in() };
    assert_eq!(ask(&snapshot, Question::PutPolicy { policy: limit }).objects, []);
    let parity = Policy { fault_tolerance_method: FaultToleranceMethod::Raid5, ..Policy::built_in() };
    assert!(ask(&snapshot, Question::PutPolicy { policy: parity }).bytes_to_move > used);
    let three = generate(GenerateSpec { seed: 3, hosts: 3, disks_per_host: 2, objects: 5, faults: 0 });
    let answer = ask(&three, Question::PutPolicy { policy: more });
    assert_eq!((answer.satisfiable, answer.needs_fault_domains, answer.has_fault_domains), (false, 5, 3));
}

#[test]
fn large_snapshots_are_made() {
    let snapshot =
        generate(GenerateSpec { seed: 1, hosts: 64, disks_per_host: 35, objects: 2_000, faults: 2 });
    assert_eq!(
        snapshot.disks.iter().filter(|disk| disk.role == crate::state::DiskRole::Capacity).count(),
        2_240
    );
    assert_eq!(snapshot.objects.len(), 2_000);
    assert!(!snapshot.resync.scheduled.is_empty());
    assert_eq!(snapshot.resync.items.len(), 1);
}
