//! Votes and availability over all sets of failures.
use super::*;
use crate::ids::{ComponentId, DiskId};
use crate::placement::votes;
use crate::units::Timestamp;
use proptest::prelude::*;

fn leaf(domain: &str, votes: u32, state: ComponentState) -> ComponentView {
    ComponentView {
        uuid: ComponentId(uuid::Uuid::nil()),
        state,
        state_since: Timestamp(0),
        votes,
        host: domain.into(),
        fault_domain: domain.into(),
        disk: DiskId(uuid::Uuid::nil()),
        disk_path: String::new(),
        used_bytes: 0,
        bytes_to_sync: 0,
        reason: None,
    }
}

/// One row of `data` legs with `witnesses`, each in a domain of its own, votes as the product gives them.
fn row(node: fn(Vec<TreeNode>) -> TreeNode, data: usize, witnesses: usize) -> TreeNode {
    let names: Vec<String> = (1..=data + witnesses).map(|number| format!("h{number}")).collect();
    let leaves =
        names.iter().zip(votes(&names)).map(|(name, votes)| leaf(name, votes, ComponentState::Active));
    let leaf_of =
        |(index, leaf)| if index < data { TreeNode::Component(leaf) } else { TreeNode::Witness(leaf) };
    node(leaves.enumerate().map(leaf_of).collect())
}

fn raid1(children: Vec<TreeNode>) -> TreeNode {
    TreeNode::Raid1 { children }
}

fn raid5(children: Vec<TreeNode>) -> TreeNode {
    TreeNode::Raid5 { children }
}

fn raid6(children: Vec<TreeNode>) -> TreeNode {
    TreeNode::Raid6 { children }
}

fn without(tree: &TreeNode, gone: &[&str]) -> Availability {
    availability(tree, &|leaf| {
        if gone.contains(&leaf.host.as_str()) { Reach::Gone } else { Reach::now(leaf) }
    })
}

#[test]
fn a6_mirror_needs_a_majority_and_says_so() {
    let tree = row(raid1, 2, 1);
    assert!(without(&tree, &["h3"]).accessible);
    assert!(without(&tree, &["h1"]).accessible);
    let lost = without(&tree, &["h3", "h1"]);
    assert_eq!((lost.accessible, lost.condition.as_deref()), (false, Some("no majority: 1 of 3 votes")));
}

#[test]
fn a6_votes_without_data_are_not_enough() {
    let tree = row(raid1, 3, 2);
    assert!(without(&tree, &["h1", "h2"]).accessible);
    assert!(!without(&tree, &["h1", "h2", "h4"]).accessible);
    let lost = without(&tree, &["h1", "h2", "h3"]);
    let condition = "no majority: 2 of 5 votes; data incomplete: 0 of 3 components";
    assert_eq!(lost.condition.as_deref(), Some(condition));
}

#[test]
fn a6_parity_survives_its_parities() {
    let tree = row(raid6, 6, 0);
    let all = ["h1", "h2", "h3", "h4", "h5", "h6"];
    for set in combinations(6, 2) {
        let gone: Vec<_> = set.iter().map(|index| all[*index]).collect();
        assert!(without(&tree, &gone).accessible, "{gone:?}");
    }
    for set in combinations(6, 3) {
        let gone: Vec<_> = set.iter().map(|index| all[*index]).collect();
        let condition = without(&tree, &gone).condition.expect("three of six are too many");
        assert!(condition.ends_with("data incomplete: 3 of 6 components"), "{condition}");
    }
    assert_eq!((tolerates_now(&tree), tolerates_now(&row(raid5, 4, 0))), (2, 1));
}

#[test]
fn a6_two_hosts_have_no_failure_to_give() {
    assert_eq!(tolerates_now(&row(raid1, 2, 0)), 0);
    assert_eq!(tolerates_now(&row(raid1, 2, 1)), 1);
    let one_more = if_one_more_fails(&row(raid1, 2, 0));
    assert_eq!(one_more.values().filter(|answer| answer.accessible).count(), 1);
}

#[test]
fn stale_components_vote_but_are_not_read() {
    let leaves = [("h1", ComponentState::Absent), ("h2", ComponentState::Stale)];
    let mut children: Vec<_> =
        leaves.into_iter().map(|(host, state)| TreeNode::Component(leaf(host, 1, state))).collect();
    children.push(TreeNode::Witness(leaf("h3", 1, ComponentState::Active)));
    let answer = availability_now(&raid1(children));
    assert_eq!(answer.condition.as_deref(), Some("data incomplete: 0 of 2 components"));
    assert_eq!(answer.votes, Votes { total: 3, present: 2 });
}

#[test]
fn two_copies_in_one_domain_tolerate_nothing() {
    let mut tree = row(raid1, 2, 1);
    if let TreeNode::Raid1 { children } = &mut tree
        && let TreeNode::Component(second) = &mut children[1]
    {
        second.fault_domain = "h1".into();
    }
    assert_eq!(tolerates_now(&tree), 0);
}

fn any_state() -> impl Strategy<Value = ComponentState> {
    prop_oneof![
        4 => Just(ComponentState::Active),
        1 => Just(ComponentState::Absent),
        1 => Just(ComponentState::Stale),
    ]
}

fn any_tree() -> impl Strategy<Value = TreeNode> {
    let kind = prop_oneof![Just(raid1 as fn(Vec<TreeNode>) -> TreeNode), Just(raid5 as _), Just(raid6 as _)];
    let leg = (0..7usize, 1..3u32, any_state());
    let legs = proptest::collection::vec(leg, 1..7);
    let rows = proptest::collection::vec((kind, legs), 1..4);
    let witnesses = proptest::collection::vec((0..7usize, 1..3u32), 0..3);
    (rows, witnesses).prop_map(|(rows, witnesses)| {
        let of = |(domain, votes, state): (usize, u32, ComponentState)| {
            TreeNode::Component(leaf(&format!("d{domain}"), votes, state))
        };
        let rows = rows.into_iter().map(|(kind, legs)| kind(legs.into_iter().map(of).collect())).collect();
        let witness =
            |(domain, votes)| TreeNode::Witness(leaf(&format!("d{domain}"), votes, ComponentState::Active));
        let root = TreeNode::Concat { children: rows };
        raid1([root].into_iter().chain(witnesses.into_iter().map(witness)).collect())
    })
}

proptest! {
    /// The oracle fails every set of domains and looks.
    #[test]
    fn tolerates_now_agrees_with_every_failure_set(tree in any_tree()) {
        let domains: BTreeSet<String> =
            tree.leaves().iter().map(|(leaf, _)| leaf.fault_domain.clone()).collect();
        let domains: Vec<String> = domains.into_iter().collect();
        let survives = |failed: usize| {
            combinations(domains.len(), failed).into_iter().all(|set| {
                let gone: Vec<&str> = set.into_iter().map(|index| domains[index].as_str()).collect();
                without(&tree, &gone).accessible
            })
        };
        let oracle = if survives(0) { (1..=3).take_while(|failed| survives(*failed)).count() } else { 0 };
        prop_assert_eq!(tolerates_now(&tree) as usize, oracle);
    }

    /// For any spread of components over enough domains: at least one vote each, equal domains, odd, a majority after any n.
    #[test]
    fn votes_keep_a_majority_after_any_failure_set(
        spread in proptest::collection::vec(1..5usize, 1..9),
    ) {
        let domains: Vec<String> =
            spread.iter().enumerate().flat_map(|(domain, count)| vec![format!("d{domain}"); *count]).collect();
        let given = votes(&domains);
        let total: u32 = given.iter().sum();
        prop_assert!(given.iter().all(|votes| *votes >= 1));
        prop_assert!(total % 2 == 1);
        let of = |domain: usize| -> u32 {
            let name = format!("d{domain}");
            domains.iter().zip(&given).filter(|(of, _)| **of == name).map(|(_, votes)| *votes).sum()
        };
        let totals: Vec<u32> = (0..spread.len()).map(of).collect();
        let least = totals.iter().min().copied().unwrap_or(0);
        prop_assert!(totals.iter().sum::<u32>() - least * u32::try_from(totals.len()).unwrap_or(0) <= 1);
        let failures = (spread.len() - 1) / 2;
        for set in combinations(spread.len(), failures.min(3)) {
            let lost: u32 = set.iter().map(|domain| totals[*domain]).sum();
            prop_assert!((total - lost) * 2 > total, "{:?} of {:?}", set, totals);
        }
    }
}
