//! Builds the tree that people see from rows of components: levels with a single child are left out.
use crate::policy::FaultToleranceMethod;
use crate::view::{ComponentView, TreeNode};

/// The tree of an object: pieces of columns of rows, witnesses at the root.
///
/// `pieces[p][c]` are the legs of column `c` of piece `p`. A single leg without a row stands for itself.
pub fn tree(
    method: FaultToleranceMethod,
    pieces: Vec<Vec<Vec<ComponentView>>>,
    witnesses: Vec<ComponentView>,
) -> TreeNode {
    let row = |legs: Vec<ComponentView>| {
        let mut children: Vec<TreeNode> = legs.into_iter().map(TreeNode::Component).collect();
        match (method, children.len()) {
            (FaultToleranceMethod::Raid1, 1) => children.remove(0),
            (FaultToleranceMethod::Raid1, _) => TreeNode::Raid1 { children },
            (FaultToleranceMethod::Raid5, _) => TreeNode::Raid5 { children },
            (FaultToleranceMethod::Raid6, _) => TreeNode::Raid6 { children },
        }
    };
    let piece = |columns: Vec<Vec<ComponentView>>| {
        let children = columns.into_iter().map(row).collect();
        single_or(children, |children| TreeNode::Raid0 { children })
    };
    let data = single_or(pieces.into_iter().map(piece).collect(), |children| TreeNode::Concat { children });
    if witnesses.is_empty() {
        return data;
    }
    let witnesses = witnesses.into_iter().map(TreeNode::Witness);
    match data {
        TreeNode::Raid1 { mut children } => {
            children.extend(witnesses);
            TreeNode::Raid1 { children }
        }
        other => TreeNode::Raid1 { children: std::iter::once(other).chain(witnesses).collect() },
    }
}

fn single_or(mut children: Vec<TreeNode>, many: fn(Vec<TreeNode>) -> TreeNode) -> TreeNode {
    if children.len() == 1 { children.remove(0) } else { many(children) }
}
