//! From a draft to a plan: what is right, and what is wrong field by field.
use super::*;
use crate::edge::{Rng, SystemRng};
use crate::service::lab;
use model::engine::EngineKind;
use std::path::Path;

fn nothing_special() -> Capabilities {
    Capabilities { engine: EngineKind::Native, features: BTreeMap::new() }
}

fn lab_draft(shape: &str) -> Draft {
    let rng: &dyn Rng = &SystemRng;
    let mut draft = Draft::new(rng, None);
    lab::put(&mut draft, rng, Path::new("/data"), &lab::parse_shape(shape).unwrap());
    draft.name = "mill".into();
    draft.claims = recommended_claims(&draft);
    draft
}

fn fields(result: Result<ClusterPlan, AppError>) -> Vec<String> {
    match result {
        Err(AppError::Invalid(errors)) => errors.into_iter().map(|error| error.field).collect(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn the_recommended_lab_is_a_plan() {
    let draft = lab_draft("hosts=4,cache=1x256MiB,capacity=2x1GiB");
    let plan = plan(&draft, &nothing_special()).unwrap();
    assert_eq!((plan.hosts.len(), plan.claims.len()), (4, 4));
    assert!(plan.claims.iter().all(|group| group.cache.is_some() && group.capacity.len() == 2));
    assert_eq!(picture(&draft, Timestamp(0)).disks.len(), 12);
}

#[test]
fn without_a_cache_each_disk_is_its_own_group() {
    let mut draft = lab_draft("hosts=3,cache=0,capacity=2x1GiB");
    draft.claims.iter_mut().for_each(|claim| claim.capacity.append(&mut claim.cache));
    let plan = plan(&draft, &nothing_special()).unwrap();
    assert_eq!(plan.claims.len(), 6);
    assert!(plan.claims.iter().all(|group| group.cache.is_none() && group.capacity.len() == 1));
}

#[test]
fn every_wrong_claim_names_its_field() {
    let mut draft = lab_draft("hosts=3,cache=1x256MiB,capacity=2x1GiB");
    let foreign = draft.claims[1].capacity[0];
    draft.claims[0].capacity.push(foreign);
    draft.claims[2].host = "h9".into();
    draft.name = "../x".into();
    let wrong = fields(plan(&draft, &nothing_special()));
    for field in ["name", "claims[0].capacity[2]", "claims[2].host"] {
        assert!(wrong.contains(&field.to_owned()), "{field} in {wrong:?}");
    }
}

#[test]
fn a_disk_that_holds_something_is_only_taken_when_it_is_listed() {
    let mut draft = lab_draft("hosts=3,cache=1x256MiB,capacity=1x1GiB");
    let id = draft.claims[0].capacity[0];
    draft.disks.iter_mut().filter(|disk| disk.id == id).for_each(|disk| disk.holds_data = true);
    assert_eq!(fields(plan(&draft, &nothing_special())), ["claims[0].capacity[0]"]);
    draft.claims[0].erase.push(id);
    assert!(plan(&draft, &nothing_special()).is_ok());
}

#[test]
fn what_the_engine_lacks_is_named() {
    let mut draft = lab_draft("hosts=3");
    draft.services.encryption = true;
    let error = plan(&draft, &nothing_special()).unwrap_err();
    assert!(matches!(&error, AppError::NotYet(text) if text.contains("encryption")), "{error}");
}
