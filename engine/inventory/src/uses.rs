//! What uses a disk now: mounts, swap, arrays, volumes and mappings on it or on its partitions, whoever says so.
use crate::contents::{Contents, Kind};
use crate::disk::Use;
use crate::facts::Facts;
use crate::lsblk::Node;
use crate::source::Tree;

/// What `lsblk` shows as the mount point of swap in use.
const SWAP: &str = "[SWAP]";

/// Everything that uses the disk, most telling first.
pub(crate) fn uses(tree: &Tree, facts: &Facts, contents: &Contents) -> Vec<Use> {
    let mut uses = Vec::new();
    for node in facts.node.walk() {
        of_node(&facts.node, node, &mut uses);
    }
    of_proc(tree, facts, &mut uses);
    let shown: Vec<&str> = facts.node.walk().into_iter().map(|node| node.kname.as_str()).collect();
    for holder in facts.holders.iter().filter(|holder| !shown.contains(&holder.as_str())) {
        push(&mut uses, format!("held by {holder}"), format!("stop {holder} first"), false);
    }
    let imported = tree.list("proc/spl/kstat/zfs");
    for finding in contents.findings.iter().filter(|finding| finding.kind == Kind::Zfs) {
        let pool = finding.what.split(['(', ')']).nth(1).unwrap_or_default();
        if imported.iter().any(|name| name == pool) {
            push(&mut uses, format!("ZFS pool {pool} imported"), format!("run `zpool export {pool}`"), false);
        }
    }
    uses.sort_by_key(|one| !one.is_system);
    uses
}

fn push(uses: &mut Vec<Use>, what: String, remedy: String, is_system: bool) {
    if !uses.iter().any(|known| known.what == what) {
        uses.push(Use { what, remedy, is_system });
    }
}

/// Whether the system that runs here lives at this mount point.
fn is_system(mount: &str) -> bool {
    let below = |folder: &str| {
        mount.strip_prefix(folder).is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    };
    mount == "/"
        || ["/boot", "/efi", "/usr", "/var", "/etc"].iter().any(|folder| below(folder)) && !below("/var/lib")
}

fn of_mount(device: &str, path: &str, mount: &str, uses: &mut Vec<Use>) {
    if mount == SWAP {
        push(uses, "swap in use".into(), format!("run `swapoff {path}`"), false);
    } else if is_system(mount) {
        push(uses, mount.to_owned(), String::new(), true);
    } else {
        push(uses, format!("{device} mounted on {mount}"), format!("run `umount {mount}`"), false);
    }
}

fn of_node(disk: &Node, node: &Node, uses: &mut Vec<Use>) {
    for mount in &node.mounts {
        of_mount(&node.name, &node.path, mount, uses);
    }
    if std::ptr::eq(disk, node) || !node.mounts.is_empty() && node.kind == "lvm" {
        return;
    }
    let (name, path) = (&node.name, &node.path);
    match node.kind.as_str() {
        "part" | "disk" | "mpath" => {}
        kind if kind.starts_with("raid") || kind == "md" || kind == "linear" || name.starts_with("md") => {
            push(uses, format!("array {name} active"), format!("run `mdadm --stop {path}`"), false);
        }
        "lvm" => push(
            uses,
            format!("LVM volume {name} active"),
            format!("run `lvchange --activate n {path}`"),
            false,
        ),
        "crypt" => push(
            uses,
            format!("encryption mapping {name} open"),
            format!("run `cryptsetup close {name}`"),
            false,
        ),
        _ => push(uses, format!("held by {name}"), format!("stop {name} first"), false),
    }
}

/// A second opinion from the kernel: `lsblk` inside a container shows no mounts of the machine.
fn of_proc(tree: &Tree, facts: &Facts, uses: &mut Vec<Use>) {
    let block = format!("sys/block/{}", facts.kernel_name());
    let entries = tree.list(&block).into_iter().filter(|entry| entry.starts_with(facts.kernel_name()));
    let mut devices: Vec<(String, String)> =
        entries.filter_map(|part| Some((part.clone(), tree.text(&format!("{block}/{part}/dev"))?))).collect();
    devices.extend(tree.text(&format!("{block}/dev")).map(|number| (facts.kernel_name().to_owned(), number)));
    for node in facts.node.walk() {
        devices.extend(node.device.clone().map(|number| (node.kname.clone(), number)));
    }
    let mounts = tree.text("proc/self/mountinfo").unwrap_or_default();
    for line in mounts.lines() {
        let fields: Vec<&str> = line.split(' ').collect();
        let (Some(number), Some(mount)) = (fields.get(2), fields.get(4)) else { continue };
        // Btrfs has a number of its own; the source after the dash names the device.
        let source = fields
            .iter()
            .position(|field| *field == "-")
            .and_then(|dash| fields.get(dash + 2))
            .unwrap_or(&"");
        let is_it = |(name, known): &&(String, String)| known == number || *source == format!("/dev/{name}");
        if let Some((name, _)) = devices.iter().find(is_it) {
            of_mount(name, &format!("/dev/{name}"), &mount.replace("\\040", " "), uses);
        }
    }
    for line in tree.text("proc/swaps").unwrap_or_default().lines().skip(1) {
        let path = line.split_whitespace().next().unwrap_or_default();
        let name = path.rsplit('/').next().unwrap_or_default();
        if devices.iter().any(|(known, _)| known == name) || name == facts.kernel_name() {
            of_mount(name, path, SWAP, uses);
        }
    }
}
