//! The RAID tree of one object, row by row; short names of its components; the strip of votes.
use crate::web::format;
use crate::web::parts::{Chip, Tone};
use crate::web::view::map::Tag;
use crate::web::view::words;
use model::ids::{ComponentId, DiskId};
use model::state::ComponentState;
use model::units::Timestamp;
use model::view::{ComponentView, ObjectView, Snapshot, TreeNode};
use std::collections::BTreeMap;

/// One row of the treegrid.
#[derive(Clone, Debug, Default)]
pub struct RaidRow {
    /// Id for the address of the row.
    pub id: String,
    /// Depth, 1 for the root.
    pub level: usize,
    /// A node, not a leaf.
    pub group: bool,
    /// RAID level of a node, short name of a leaf.
    pub tag: String,
    /// `Mirror`, `Copy A`, `Stripe 2`, `Witness`.
    pub name: String,
    /// State.
    pub chip: Chip,
    /// Host of a leaf; what a node spans.
    pub place: String,
    /// Disk of a leaf.
    pub disk: String,
    /// Bytes.
    pub data: String,
    /// Lines to the left: classes of the style sheet.
    pub guides: Vec<String>,
}

impl RaidRow {
    /// Class of the indent.
    pub fn indent(&self) -> String {
        if self.level < 2 { String::new() } else { format!("d{}", self.level.min(4)) }
    }
}

/// Short names of the leaves of a tree: copies `A`, `B`, …, numbered when a copy has several parts; witnesses `W`.
pub fn short_names(tree: &TreeNode) -> BTreeMap<ComponentId, String> {
    let mut letters = Vec::new();
    collect_letters(tree, 0, &mut letters);
    let mut seen: BTreeMap<char, u32> = BTreeMap::new();
    let count = |letter: char| letters.iter().filter(|(_, other)| *other == letter).count();
    letters
        .iter()
        .map(|(id, letter)| {
            let number = seen.entry(*letter).or_default();
            *number += 1;
            (*id, if count(*letter) > 1 { format!("{letter}{number}") } else { letter.to_string() })
        })
        .collect()
}

fn collect_letters(node: &TreeNode, leg: u8, letters: &mut Vec<(ComponentId, char)>) {
    match node {
        TreeNode::Component(leaf) => letters.push((leaf.uuid, char::from(b'A' + leg.min(21)))),
        TreeNode::Witness(leaf) => letters.push((leaf.uuid, 'W')),
        TreeNode::Raid1 { children } | TreeNode::Raid5 { children } | TreeNode::Raid6 { children } => {
            for (index, child) in (0..).zip(children) {
                collect_letters(child, index, letters);
            }
        }
        TreeNode::Concat { children } | TreeNode::Raid0 { children } => {
            children.iter().for_each(|child| collect_letters(child, leg, letters));
        }
    }
}

/// Components of the object by disk, for the map.
pub fn tags(object: &ObjectView) -> BTreeMap<DiskId, Vec<Tag>> {
    let names = short_names(&object.tree);
    let mut tags: BTreeMap<DiskId, Vec<Tag>> = BTreeMap::new();
    object.tree.for_each_leaf(&mut |leaf, _| {
        let tag =
            Tag { text: names.get(&leaf.uuid).cloned().unwrap_or_default(), tone: leaf_tone(leaf.state) };
        tags.entry(leaf.disk).or_default().push(tag);
    });
    tags
}

/// Tone of a leaf.
pub fn leaf_tone(state: ComponentState) -> Tone {
    match state {
        ComponentState::Active => Tone::Healthy,
        ComponentState::Absent | ComponentState::Stale => Tone::Absent,
        ComponentState::Degraded => Tone::Degraded,
        ComponentState::Resyncing | ComponentState::Reconfiguring => Tone::Rebuilding,
    }
}

struct Rows<'a> {
    snapshot: &'a Snapshot,
    object: &'a ObjectView,
    names: BTreeMap<ComponentId, String>,
    now: Timestamp,
    rows: Vec<RaidRow>,
}

/// The rows of the tree, in order.
pub fn raid_rows(snapshot: &Snapshot, object: &ObjectView, now: Timestamp) -> Vec<RaidRow> {
    let names = short_names(&object.tree);
    let mut rows = Rows { snapshot, object, names, now, rows: Vec::new() };
    rows.add(&object.tree, 1, &[], None, "");
    rows.rows
}

impl Rows<'_> {
    /// `through` tells for each depth above whether more rows follow there; `last` whether this is the last child.
    fn add(&mut self, node: &TreeNode, level: usize, through: &[bool], last: Option<bool>, role: &str) {
        let mut guides = Vec::new();
        for (depth, more) in (1..).zip(through) {
            if *more {
                guides.push(format!("g{depth} through"));
            }
        }
        if let Some(last) = last {
            guides.push(format!("g{} {}", level - 1, if last { "end" } else { "tee" }));
        }
        let (tag, children) = match node {
            TreeNode::Component(leaf) => return self.leaf(leaf, level, guides, role),
            TreeNode::Witness(leaf) => return self.leaf(leaf, level, guides, "Witness"),
            TreeNode::Concat { children } => ("PIECES", children),
            TreeNode::Raid0 { children } => ("RAID 0", children),
            TreeNode::Raid1 { children } => ("RAID 1", children),
            TreeNode::Raid5 { children } => ("RAID 5", children),
            TreeNode::Raid6 { children } => ("RAID 6", children),
        };
        self.rows.push(self.group(node, tag, level, guides, role));
        let mut below = through.to_vec();
        if let Some(last) = last {
            below.push(!last);
        }
        for (index, child) in children.iter().enumerate() {
            let role = child_role(node, index);
            self.add(child, level + 1, &below, Some(index + 1 == children.len()), &role);
        }
    }

    fn leaf(&mut self, leaf: &ComponentView, level: usize, guides: Vec<String>, role: &str) {
        let disk = self.snapshot.disks.iter().find(|disk| disk.id == leaf.disk);
        let to_sync = leaf.bytes_to_sync > 0;
        let data = format::bytes(leaf.used_bytes);
        self.rows.push(RaidRow {
            id: leaf.uuid.to_string(),
            level,
            group: false,
            tag: self.names.get(&leaf.uuid).cloned().unwrap_or_default(),
            name: role.to_owned(),
            chip: words::component(leaf, &self.snapshot.resync, self.now),
            place: leaf.host.clone(),
            disk: disk.map_or_else(|| leaf.disk_path.clone(), |disk| disk.name.clone()),
            data: if to_sync { format!("{} to sync", format::bytes(leaf.bytes_to_sync)) } else { data },
            guides,
        });
    }

    fn group(&self, node: &TreeNode, tag: &str, level: usize, guides: Vec<String>, role: &str) -> RaidRow {
        let leaves = node.leaves();
        let data: Vec<_> = leaves.iter().filter(|(_, witness)| !witness).map(|(leaf, _)| *leaf).collect();
        let worst = data.iter().map(|leaf| leaf_tone(leaf.state)).max().unwrap_or_default();
        let complete = data.iter().filter(|leaf| leaf.state == ComponentState::Active).count();
        let word = if complete == data.len() {
            "Complete".to_owned()
        } else if let TreeNode::Raid1 { children } = node {
            let copies: Vec<_> =
                children.iter().filter(|child| !matches!(child, TreeNode::Witness(_))).collect();
            let whole = copies.iter().filter(|copy| is_complete(copy)).count();
            format!("{whole} of {} copies", copies.len())
        } else {
            format!("{complete} of {} parts", data.len())
        };
        let mut domains: Vec<&str> = leaves.iter().map(|(leaf, _)| leaf.fault_domain.as_str()).collect();
        domains.sort_unstable();
        domains.dedup();
        let used: u64 = data.iter().map(|leaf| leaf.used_bytes).sum();
        RaidRow {
            id: format!("{}-{}", self.object.uuid, self.rows.len()),
            level,
            group: true,
            tag: tag.to_owned(),
            name: if role.is_empty() { root_name(node).to_owned() } else { role.to_owned() },
            chip: Chip::new(worst, word),
            place: format::plural(domains.len() as u64, "fault domain"),
            disk: String::new(),
            data: format::bytes(used),
            guides,
        }
    }
}

fn is_complete(node: &TreeNode) -> bool {
    node.leaves().iter().all(|(leaf, witness)| *witness || leaf.state == ComponentState::Active)
}

fn root_name(node: &TreeNode) -> &'static str {
    match node {
        TreeNode::Concat { .. } => "Pieces in a row",
        TreeNode::Raid0 { .. } => "Stripe",
        TreeNode::Raid1 { .. } => "Mirror",
        TreeNode::Raid5 { .. } => "One parity",
        TreeNode::Raid6 { .. } => "Two parities",
        TreeNode::Component(_) => "Single copy",
        TreeNode::Witness(_) => "Witness",
    }
}

fn child_role(parent: &TreeNode, index: usize) -> String {
    let letter = char::from(b'A' + u8::try_from(index.min(21)).unwrap_or(21));
    match parent {
        TreeNode::Raid1 { .. } => format!("Copy {letter}"),
        TreeNode::Raid5 { .. } | TreeNode::Raid6 { .. } => format!("Part {letter}"),
        TreeNode::Raid0 { .. } => format!("Stripe {}", index + 1),
        _ => format!("Piece {}", index + 1),
    }
}

/// The strip of votes: one entry a vote.
#[derive(Clone, Debug, Default)]
pub struct VoteStrip {
    /// Votes that count now.
    pub present: Vec<String>,
    /// Votes of components that are away.
    pub missing: Vec<String>,
    /// Votes of components that are present but not yet readable.
    pub syncing: Vec<String>,
    /// All of it in words.
    pub spoken: String,
    /// What follows from it.
    pub sentence: String,
    /// In two words.
    pub chip: Chip,
}

/// Votes of an object.
pub fn votes(object: &ObjectView) -> VoteStrip {
    let names = short_names(&object.tree);
    let mut strip = VoteStrip::default();
    object.tree.for_each_leaf(&mut |leaf, _| {
        let list = match leaf.state {
            ComponentState::Active => &mut strip.present,
            ComponentState::Absent | ComponentState::Degraded => &mut strip.missing,
            _ => &mut strip.syncing,
        };
        let name = names.get(&leaf.uuid).cloned().unwrap_or_default();
        list.extend(std::iter::repeat_n(name, leaf.votes as usize));
    });
    let (total, present) = (object.votes.total, object.votes.present);
    let needed = total / 2 + 1;
    let spare = present.saturating_sub(needed);
    let are = |number: u32| if number == 1 { "is" } else { "are" };
    let reachable =
        format!("{present} of {} {} reachable", format::plural(total.into(), "vote"), are(present));
    strip.spoken = format!("{reachable}, {needed} {} needed.", are(needed));
    let follows = match (present >= needed, spare) {
        (false, _) => "so nobody may read or write: two halves could otherwise go separate ways.".to_owned(),
        (true, 0) => "so the object stays in use, and the loss of one more vote would stop it.".to_owned(),
        (true, spare) => format!("so {} more may be lost.", format::plural(spare.into(), "vote")),
    };
    strip.sentence = format!("{reachable} and {needed} {} needed, {follows}", are(needed));
    strip.chip = match (present >= needed, spare) {
        (false, _) => Chip::new(Tone::Failed, "No majority"),
        (true, 0) => Chip::new(Tone::Absent, "No spare vote"),
        (true, spare) => Chip::new(Tone::Healthy, format!("{} spare", format::plural(spare.into(), "vote"))),
    };
    strip
}
