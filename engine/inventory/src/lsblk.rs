//! What `lsblk --json --bytes` prints, read so that every version is understood and an odd value costs only itself.
//!
//! Old versions give every value as a string, newer ones numbers and booleans; mount points are one value or a list with
//! null. Invariant: a value that cannot be understood is `None`, a row that is no object is named in `odd`, and only a
//! text that is no JSON, or has no list, is an error: an empty list never stands for an answer that was not understood.
use serde_json::Value;

/// The columns that are asked for. `MOUNTPOINTS` came with util-linux 2.37; older ones know `MOUNTPOINT` alone. The zone
/// sizes are left out: one version printed them as a bare `0B`, which is no JSON.
pub const COLUMNS: &str = "NAME,KNAME,PATH,MAJ:MIN,TYPE,SIZE,ROTA,RO,RM,HOTPLUG,PHY-SEC,LOG-SEC,VENDOR,MODEL,REV,SERIAL,\
    WWN,TRAN,HCTL,FSTYPE,LABEL,UUID,PTTYPE,PARTTYPE,PKNAME,ZONED,GROUP,MOUNTPOINTS";

/// Why a listing cannot be used at all.
#[derive(Debug, thiserror::Error)]
pub enum LsblkError {
    /// The text is no JSON.
    #[error("lsblk output is not valid JSON; the last good inventory stays")]
    NotJson(#[source] serde_json::Error),
    /// JSON, but not a listing.
    #[error("lsblk output has no list of block devices; the last good inventory stays")]
    NoList,
}

/// One device of a listing and what lies on it.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Node {
    /// Name as shown (`mpatha`).
    pub name: String,
    /// Name in the kernel (`dm-0`).
    pub kname: String,
    /// Absolute path.
    pub path: String,
    /// `MAJOR:MINOR`.
    pub device: Option<String>,
    /// `disk, part, rom, loop, lvm, crypt, mpath, raid1, …`; empty when unknown.
    pub kind: String,
    /// Size.
    pub size_bytes: Option<u64>,
    /// Whether it rotates.
    pub rotational: Option<bool>,
    /// Whether it refuses writes.
    pub read_only: Option<bool>,
    /// Whether its medium can be taken out.
    pub removable: Option<bool>,
    /// Whether it can be pulled at run time.
    pub hotplug: Option<bool>,
    /// Physical block.
    pub physical_block_bytes: Option<u32>,
    /// Logical block.
    pub logical_block_bytes: Option<u32>,
    /// Vendor.
    pub vendor: Option<String>,
    /// Model.
    pub model: Option<String>,
    /// Firmware.
    pub revision: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// World-wide name.
    pub wwn: Option<String>,
    /// `sata, sas, nvme, usb, fc, iscsi, mmc, …`
    pub transport: Option<String>,
    /// `HOST:CHANNEL:TARGET:LUN`.
    pub hctl: Option<String>,
    /// What blkid takes the contents for.
    pub fstype: Option<String>,
    /// Label of these contents.
    pub label: Option<String>,
    /// Kind of the partition table.
    pub table: Option<String>,
    /// Type of this partition.
    pub part_type: Option<String>,
    /// Kernel name of the parent, in flat listings.
    pub parent: Option<String>,
    /// `none, host-aware, host-managed`.
    pub zoned: Option<String>,
    /// Group of the device node: members may open it.
    pub group: Option<String>,
    /// Where it is mounted; `[SWAP]` for swap in use.
    pub mounts: Vec<String>,
    /// Partitions, arrays and volumes on it.
    pub children: Vec<Node>,
}

impl Node {
    /// This node and everything on it.
    pub fn walk(&self) -> Vec<&Node> {
        let mut all = vec![self];
        let mut next = 0;
        while next < all.len() {
            let children = all[next].children.iter();
            all.extend(children);
            next += 1;
        }
        all
    }
}

/// A listing.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Listing {
    /// Devices in the order given; flat listings are made into trees.
    pub nodes: Vec<Node>,
    /// One sentence per row that could not be read.
    pub odd: Vec<String>,
}

/// Reads a listing.
///
/// # Errors
/// [`LsblkError`] when it is none.
pub fn parse(text: &[u8]) -> Result<Listing, LsblkError> {
    let text = String::from_utf8_lossy(text);
    let value: Value = serde_json::from_str(&text).map_err(LsblkError::NotJson)?;
    let rows = value.get("blockdevices").and_then(Value::as_array).ok_or(LsblkError::NoList)?;
    let mut listing = Listing::default();
    for (index, row) in rows.iter().enumerate() {
        match node(row, &mut listing.odd) {
            Some(node) => attach(&mut listing.nodes, node),
            None => listing.odd.push(format!("row {} of lsblk has no name and cannot be shown", index + 1)),
        }
    }
    Ok(listing)
}

/// A partition of a flat listing goes below its disk.
fn attach(nodes: &mut Vec<Node>, node: Node) {
    let parent = (node.kind == "part").then_some(node.parent.as_deref()).flatten();
    match parent.and_then(|parent| nodes.iter().position(|known| known.kname == parent)) {
        Some(index) => nodes[index].children.push(node),
        None => nodes.push(node),
    }
}

fn node(row: &Value, odd: &mut Vec<String>) -> Option<Node> {
    let get = |name: &str| row.get(name);
    let name = text(get("name")).or_else(|| text(get("kname")))?;
    let kname = text(get("kname")).unwrap_or_else(|| name.clone());
    let path =
        text(get("path")).filter(|path| path.starts_with('/')).unwrap_or_else(|| format!("/dev/{name}"));
    let mut children = Vec::new();
    for child in get("children").and_then(Value::as_array).into_iter().flatten() {
        match node(child, odd) {
            Some(child) => children.push(child),
            None => odd.push(format!("a part of {name} has no name in lsblk and cannot be shown")),
        }
    }
    Some(Node {
        device: text(get("maj:min")),
        kind: text(get("type")).unwrap_or_default(),
        size_bytes: number(get("size")),
        rotational: flag(get("rota")),
        read_only: flag(get("ro")),
        removable: flag(get("rm")),
        hotplug: flag(get("hotplug")),
        physical_block_bytes: number(get("phy-sec")).and_then(|bytes| u32::try_from(bytes).ok()),
        logical_block_bytes: number(get("log-sec")).and_then(|bytes| u32::try_from(bytes).ok()),
        vendor: text(get("vendor")),
        model: text(get("model")),
        revision: text(get("rev")),
        serial: text(get("serial")),
        wwn: text(get("wwn")),
        transport: text(get("tran")),
        hctl: text(get("hctl")),
        fstype: text(get("fstype")),
        label: text(get("label")),
        table: text(get("pttype")),
        part_type: text(get("parttype")),
        parent: text(get("pkname")),
        zoned: text(get("zoned")),
        group: text(get("group")),
        mounts: mounts(get("mountpoints").or_else(|| get("mountpoint"))),
        children,
        name,
        kname,
        path,
    })
}

fn mounts(value: Option<&Value>) -> Vec<String> {
    match value {
        Some(Value::Array(list)) => list.iter().filter_map(|one| text(Some(one))).collect(),
        other => text(other).into_iter().collect(),
    }
}

/// A text without blanks around it; `None` when there is none.
pub(crate) fn text(value: Option<&Value>) -> Option<String> {
    let text = match value? {
        Value::String(text) => text.trim().to_owned(),
        Value::Number(number) => number.to_string(),
        _ => return None,
    };
    (!text.is_empty()).then_some(text)
}

/// A whole number, also from a string; `None` for anything else (`7.3T`, `0B`, -1).
pub(crate) fn number(value: Option<&Value>) -> Option<u64> {
    match value? {
        Value::Number(number) => number.as_u64(),
        Value::String(text) => text.trim().parse().ok(),
        _ => None,
    }
}

/// A truth value in any of the spellings that versions used.
pub(crate) fn flag(value: Option<&Value>) -> Option<bool> {
    match value? {
        Value::Bool(flag) => Some(*flag),
        Value::Number(number) => number.as_u64().map(|number| number != 0),
        Value::String(text) => match text.trim() {
            "1" | "true" => Some(true),
            "0" | "false" => Some(false),
            _ => None,
        },
        _ => None,
    }
}
