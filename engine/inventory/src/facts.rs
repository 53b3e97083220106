//! Facts of one device, merged from `lsblk`, sysfs, udev and `smartctl`. What nobody knows stays `None`.
//!
//! Invariants: the size in sysfs counts 512-byte units whatever the logical block is; two sources that contradict each
//! other about a size are reported as a contradiction, never averaged or silently chosen.
use crate::lsblk::Node;
use crate::smart::{self, Smart};
use crate::source::{Source, Tree};
use std::collections::BTreeMap;

/// Unit of the size files in sysfs, bytes, on every device.
const SYS_SECTOR_BYTES: u64 = 512;

/// Everything known about one device of the kernel.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Facts {
    /// What `lsblk` says, or a bare node with the name when there is no `lsblk`.
    pub node: Node,
    /// Size; `None` when unknown.
    pub size_bytes: Option<u64>,
    /// How two sources contradict each other about the size, in one sentence.
    pub size_conflict: Option<String>,
    /// Whether it rotates.
    pub rotational: Option<bool>,
    /// Turns a minute, of a rotating disk.
    pub rotation_rate: Option<u64>,
    /// Logical block.
    pub logical_block_bytes: Option<u32>,
    /// Physical block.
    pub physical_block_bytes: Option<u32>,
    /// Vendor.
    pub vendor: Option<String>,
    /// Model.
    pub model: Option<String>,
    /// Firmware.
    pub firmware: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// World-wide name, lower case.
    pub wwn: Option<String>,
    /// `sata, sas, nvme, usb, …`
    pub transport: Option<String>,
    /// Whether it refuses writes.
    pub read_only: Option<bool>,
    /// Whether its medium can be taken out.
    pub removable: Option<bool>,
    /// `none, host-aware, host-managed`.
    pub zoned: Option<String>,
    /// Commands that the device takes at a time.
    pub queue_depth: Option<u64>,
    /// Commands that its controller takes at a time, for all its devices.
    pub controller_queue_depth: Option<u64>,
    /// `write back` or `write through`.
    pub write_cache: Option<String>,
    /// Bytes of one discard at most; 0 when it cannot.
    pub discard_bytes_max: Option<u64>,
    /// Place in the machine: port and address, the same after every start.
    pub by_path: Option<String>,
    /// Identity link below `/dev/disk/by-id`.
    pub by_id: Option<String>,
    /// PCI address of the controller.
    pub controller: Option<String>,
    /// Enclosure: a shelf with its own electronics, a SAS expander, a USB dock.
    pub enclosure: Option<String>,
    /// Kernel names of what sits on it or on its partitions and holds it.
    pub holders: Vec<String>,
    /// File behind a loop device.
    pub backing_file: Option<String>,
    /// What it says about itself.
    pub smart: Smart,
}

impl Facts {
    /// Kernel name.
    pub fn kernel_name(&self) -> &str {
        &self.node.kname
    }
}

/// Nodes for the devices of sysfs, for a machine without `lsblk`.
pub(crate) fn nodes_of_sysfs(tree: &Tree) -> Vec<Node> {
    let node = |name: String| Node {
        kind: if name.starts_with("loop") { "loop" } else { "disk" }.to_owned(),
        path: format!("/dev/{}", name.replace('!', "/")),
        kname: name.clone(),
        name,
        ..Node::default()
    };
    tree.list("sys/block").into_iter().map(node).collect()
}

/// Facts of every node, in their order.
pub(crate) fn gather(source: &dyn Source, nodes: Vec<Node>) -> Vec<Facts> {
    let names: Vec<String> =
        nodes.iter().filter(|node| can_be_asked(node)).map(|node| node.kname.clone()).collect();
    let answers = source.smartctl(&names);
    let smart: BTreeMap<String, Smart> =
        answers.iter().map(|(name, json)| (name.clone(), smart::parse(json))).collect();
    let (by_path, by_id) = (source.by_path(), source.by_id());
    let of = |node: Node| {
        let smart = smart_of(&node, &smart).cloned().unwrap_or_default();
        let links = (by_path.get(&node.kname).cloned(), by_id.get(&node.kname).cloned());
        merge(source.tree(), node, smart, links)
    };
    nodes.into_iter().map(of).collect()
}

/// Real disks are asked, nothing else.
fn can_be_asked(node: &Node) -> bool {
    node.kind == "disk"
        && node.size_bytes != Some(0)
        && (node.kname.starts_with("sd") || node.kname.starts_with("nvme"))
}

/// The answer that is filed under the name; else the only one with the serial number (a recording may be named by model).
fn smart_of<'a>(node: &Node, answers: &'a BTreeMap<String, Smart>) -> Option<&'a Smart> {
    answers.get(&node.kname).or_else(|| answers.get(&node.name)).or_else(|| {
        let serial = node.serial.as_ref()?;
        let mut same = answers.values().filter(|smart| smart.serial.as_ref() == Some(serial));
        let first = same.next()?;
        same.next().is_none().then_some(first)
    })
}

fn merge(tree: &Tree, node: Node, smart: Smart, links: (Option<String>, Option<String>)) -> Facts {
    let block = format!("sys/block/{}", node.kname.replace('/', "!"));
    let text = |name: &str| tree.text(&format!("{block}/{name}"));
    let number = |name: &str| tree.number(&format!("{block}/{name}"));
    let flag = |name: &str| number(name).map(|number| number != 0);
    let narrow = |bytes: u64| u32::try_from(bytes).ok();
    let udev = udev(tree, node.device.clone().or_else(|| text("dev")).as_deref());
    let from_udev = |key: &str| udev.get(key).cloned();
    let place = Place::of(tree, &block, &node);
    let by_path = links.0.or_else(|| from_udev("ID_PATH"));
    let sys_size = number("size").and_then(|sectors| sectors.checked_mul(SYS_SECTOR_BYTES));
    let (size_bytes, size_conflict) = size(&node, sys_size, &smart);
    let rotational = node.rotational.or_else(|| flag("queue/rotational"));
    Facts {
        size_bytes,
        size_conflict,
        rotational,
        rotation_rate: smart.rotation_rate.filter(|rate| *rate > 0),
        logical_block_bytes: node.logical_block_bytes.or_else(|| {
            number("queue/logical_block_size").or_else(|| number("queue/hw_sector_size")).and_then(narrow)
        }),
        physical_block_bytes: node
            .physical_block_bytes
            .or_else(|| number("queue/physical_block_size").and_then(narrow)),
        vendor: node.vendor.clone().or_else(|| text("device/vendor")),
        model: node.model.clone().or_else(|| text("device/model")).or_else(|| smart.model.clone()),
        firmware: first([
            node.revision.clone(),
            text("device/rev"),
            text("device/firmware_rev"),
            smart.firmware.clone(),
        ]),
        serial: first([
            node.serial.clone(),
            text("device/serial"),
            smart.serial.clone(),
            from_udev("ID_SERIAL_SHORT"),
        ]),
        wwn: first([
            node.wwn.clone(),
            text("wwid"),
            text("device/wwid"),
            smart.wwn.clone(),
            from_udev("ID_WWN"),
        ])
        .map(|wwn| wwn.to_lowercase()),
        transport: node.transport.clone().or_else(|| from_udev("ID_BUS")),
        read_only: node.read_only.or_else(|| flag("ro")),
        removable: node.removable.or_else(|| flag("removable")),
        zoned: node.zoned.clone().or_else(|| text("queue/zoned")),
        queue_depth: number("device/queue_depth")
            .or_else(|| number("queue/nr_requests").filter(|_| node.kname.starts_with("nvme"))),
        controller_queue_depth: place.host_queue_depth,
        write_cache: text("queue/write_cache"),
        discard_bytes_max: number("queue/discard_max_bytes"),
        controller: place.controller.or_else(|| by_path.as_deref().and_then(pci_of_link)),
        enclosure: place.enclosure.or_else(|| by_path.as_deref().and_then(usb_port_of_link)),
        by_path,
        by_id: links.1,
        holders: holders(tree, &block, &node.kname),
        backing_file: text("loop/backing_file"),
        smart,
        node,
    }
}

fn first<const N: usize>(values: [Option<String>; N]) -> Option<String> {
    values.into_iter().flatten().next()
}

/// The size, and the contradiction when two sources name different ones.
fn size(node: &Node, sys: Option<u64>, smart: &Smart) -> (Option<u64>, Option<String>) {
    let named = [("lsblk", node.size_bytes), ("the kernel", sys), ("the disk itself", smart.size_bytes)];
    let known: Vec<(&str, u64)> = named.into_iter().filter_map(|(who, size)| Some((who, size?))).collect();
    // An empty card reader says 0 in one place and nothing in the others: no contradiction.
    let conflict = known.iter().find(|(_, size)| *size != known[0].1 && *size != 0 && known[0].1 != 0);
    let sentence = conflict.map(|(who, size)| {
        format!(
            "{} names {} bytes and {who} {size}: a bridge or controller in between is lying",
            known[0].0, known[0].1
        )
    });
    (known.first().map(|(_, size)| *size), sentence)
}

/// What holds the disk or one of its partitions.
fn holders(tree: &Tree, block: &str, name: &str) -> Vec<String> {
    let mut holders = tree.list(&format!("{block}/holders"));
    for part in tree.list(block).into_iter().filter(|entry| entry.starts_with(name)) {
        holders.extend(tree.list(&format!("{block}/{part}/holders")));
    }
    holders.sort();
    holders.dedup();
    holders
}

/// Properties that udev keeps of a device.
fn udev(tree: &Tree, device: Option<&str>) -> BTreeMap<String, String> {
    let file = device.and_then(|device| tree.text(&format!("run/udev/data/b{device}"))).unwrap_or_default();
    let pair = |line: &str| {
        let (key, value) = line.strip_prefix("E:")?.split_once('=')?;
        (!value.is_empty()).then(|| (key.to_owned(), value.to_owned()))
    };
    file.lines().filter_map(pair).collect()
}

/// Where a device is plugged in.
struct Place {
    controller: Option<String>,
    enclosure: Option<String>,
    host_queue_depth: Option<u64>,
}

impl Place {
    fn of(tree: &Tree, block: &str, node: &Node) -> Self {
        let real = tree.real(block).or_else(|| tree.real(&format!("{block}/device"))).unwrap_or_default();
        let parts: Vec<&str> = real.split('/').collect();
        let controller = parts.iter().rev().find(|part| is_pci_address(part)).map(|part| (*part).to_owned());
        let slot = tree
            .list(&format!("{block}/device"))
            .into_iter()
            .find(|name| name.starts_with("enclosure_device"));
        let shelf = slot.and_then(|slot| tree.real(&format!("{block}/device/{slot}"))).and_then(|real| {
            let above = real.rsplit('/').nth(1)?.to_owned();
            Some(format!("enclosure {above}"))
        });
        let expander =
            parts.iter().find(|part| part.starts_with("expander-")).map(|part| format!("SAS {part}"));
        let usb = parts.iter().position(|part| part.starts_with("usb")).and_then(|at| {
            let port = parts[at + 1..].iter().take_while(|part| is_usb_port(part)).last()?;
            Some(format!("USB port {port}"))
        });
        let host = parts
            .iter()
            .find(|part| part.strip_prefix("host").is_some_and(|rest| rest.parse::<u32>().is_ok()));
        let host = host.map(|host| (*host).to_owned());
        let by_hctl = || Some(format!("host{}", node.hctl.as_deref()?.split(':').next()?));
        let host_queue_depth = host
            .or_else(by_hctl)
            .and_then(|host| tree.number(&format!("sys/class/scsi_host/{host}/can_queue")));
        Self { controller, enclosure: shelf.or(expander).or(usb), host_queue_depth }
    }
}

/// `0000:3b:00.0`
fn is_pci_address(part: &str) -> bool {
    let shape = |text: &str, lengths: &[usize]| {
        let pieces: Vec<&str> = text.split([':', '.']).collect();
        pieces.len() == lengths.len()
            && pieces.iter().zip(lengths).all(|(piece, length)| {
                piece.len() == *length && piece.bytes().all(|byte| byte.is_ascii_hexdigit())
            })
    };
    part.contains('.') && shape(part, &[4, 2, 2, 1])
}

/// `3-1`, `1-5.2`, but no interface (`3-1:1.0`).
fn is_usb_port(part: &str) -> bool {
    part.contains('-') && part.bytes().all(|byte| byte.is_ascii_digit() || b"-.".contains(&byte))
}

/// The last PCI address in a link name such as `pci-0000:3b:00.0-sas-phy4-lun-0`.
fn pci_of_link(link: &str) -> Option<String> {
    link.split('-').rev().find(|part| is_pci_address(part)).map(ToOwned::to_owned)
}

/// `USB port 0:3 at 0000:00:14.0` from `pci-0000:00:14.0-usb-0:3:1.0-scsi-0:0:0:1`: everything in a dock has one port.
fn usb_port_of_link(link: &str) -> Option<String> {
    let (before, after) = link
        .split_once("-usb-")
        .or_else(|| link.split_once("-usbv2-"))
        .or_else(|| link.split_once("-usbv3-"))?;
    let port = after.split('-').next()?;
    let port = port.rsplit_once(':').map_or(port, |(port, _interface)| port);
    Some(format!("USB port {port} at {}", before.trim_start_matches("pci-")))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn places_are_read_from_links() {
        assert_eq!(pci_of_link("pci-0000:3b:00.0-sas-phy4-lun-0").as_deref(), Some("0000:3b:00.0"));
        assert_eq!(pci_of_link("platform-x-usb-0:1"), None);
        let dock = |lun: u8| format!("pci-0000:00:14.0-usb-0:3:1.0-scsi-0:0:0:{lun}");
        assert_eq!(usb_port_of_link(&dock(0)).as_deref(), Some("USB port 0:3 at 0000:00:14.0"));
        assert_eq!(usb_port_of_link(&dock(0)), usb_port_of_link(&dock(1)));
        assert!(is_usb_port("1-5.2") && !is_usb_port("3-1:1.0") && !is_usb_port("host3"));
    }
}
