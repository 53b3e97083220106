//! The projections show what the engine reports, whatever came before.
use super::{Bench, recorded};
use crate::app::NATIVE;
use crate::db::views::query::{ObjectQuery, ObjectRow, ObjectSort, Window};
use crate::service::projection::{Written, difference};
use model::recorded::{GenerateSpec, generate};
use model::state::ObjectHealth;
use model::view::Snapshot;
use std::sync::Arc;

async fn rows(bench: &Bench, query: &ObjectQuery) -> Vec<ObjectRow> {
    let (mut rows, mut after) = (Vec::new(), None);
    loop {
        let window = Window { after, limit: 4 };
        let page = bench.app.views.objects(NATIVE, query, &window).await.unwrap();
        rows.extend(page.items);
        after = page.next;
        if after.is_none() {
            return rows;
        }
    }
}

fn heads(snapshot: &Snapshot) -> Vec<(String, String, ObjectHealth, u64)> {
    let head = |object: &Arc<model::view::ObjectView>| {
        (object.name.clone(), object.uuid.to_string(), object.health, object.size_bytes)
    };
    let mut heads: Vec<_> = snapshot.objects.iter().map(head).collect();
    heads.sort();
    heads
}

async fn shown(bench: &Bench) -> Vec<(String, String, ObjectHealth, u64)> {
    let rows = rows(bench, &ObjectQuery::default()).await;
    rows.into_iter().map(|row| (row.name, row.uuid.to_string(), row.health, row.size_bytes)).collect()
}

#[tokio::test]
async fn a_new_snapshot_replaces_what_was_shown() {
    let bench = Bench::new(recorded()).await;
    assert_eq!(shown(&bench).await, heads(&recorded()));
    let mut next = generate(GenerateSpec { seed: 9, hosts: 9, disks_per_host: 3, objects: 40, faults: 2 });
    next.version = 2;
    bench.engine.replace(next.clone(), Vec::new());
    bench.app.cluster(None).unwrap().settle().await.unwrap();
    assert_eq!(shown(&bench).await, heads(&next));
    let window = Window { after: None, limit: 1000 };
    let hosts = bench.app.views.hosts(NATIVE, &window).await.unwrap().items;
    assert_eq!(hosts.len(), next.hosts.len());
    assert!(hosts.iter().all(|host| next.hosts.contains(host)));
    let disks = bench.app.views.disks(NATIVE, None, &window).await.unwrap().items;
    assert_eq!(disks.len(), next.disks.len());
    assert!(disks.iter().all(|disk| next.disks.contains(disk)));
    let components = bench.app.views.components(NATIVE, None, None, &window).await.unwrap().items;
    let leaves: usize = next.objects.iter().map(|object| object.tree.leaves().len()).sum();
    assert_eq!(components.len(), leaves);
}

#[tokio::test]
async fn every_order_pages_over_everything_once() {
    let bench = Bench::new(recorded()).await;
    let total = recorded().objects.len();
    for sort in [ObjectSort::Name, ObjectSort::Size, ObjectSort::Used, ObjectSort::Health] {
        for descending in [false, true] {
            let query = ObjectQuery { sort, descending, ..ObjectQuery::default() };
            let rows = rows(&bench, &query).await;
            let mut ids: Vec<_> = rows.iter().map(|row| row.uuid).collect();
            ids.sort();
            ids.dedup();
            assert_eq!((rows.len(), ids.len()), (total, total), "{sort:?} {descending}");
        }
    }
    let host = &recorded().hosts[0].name;
    let query = ObjectQuery { host: Some(host.clone()), ..ObjectQuery::default() };
    let on_host = |object: &&Arc<model::view::ObjectView>| {
        object.tree.leaves().iter().any(|(leaf, _)| leaf.host == *host)
    };
    let snapshot = recorded();
    assert_eq!(rows(&bench, &query).await.len(), snapshot.objects.iter().filter(on_host).count());
}

#[test]
fn nothing_is_written_when_nothing_changed() {
    let snapshot = recorded();
    assert!(difference(&Written::filled(&snapshot), &snapshot).is_empty());
    // A copy behind other pointers, with a little more used, is not worth a write either; a new health is.
    let mut next = snapshot.clone();
    for object in &mut next.objects {
        let mut copy = (**object).clone();
        copy.used_bytes += (copy.used_bytes / 200).min(1 << 20);
        *object = Arc::new(copy);
    }
    assert!(difference(&Written::filled(&snapshot), &next).is_empty());
    let mut copy = (*next.objects[0]).clone();
    copy.health = ObjectHealth::Inaccessible;
    next.objects[0] = Arc::new(copy);
    assert_eq!(difference(&Written::filled(&snapshot), &next).len(), 1);
}
