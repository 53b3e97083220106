//! What the API says of a block device beyond the fields of the contract.
use crate::service::inventory::{health_word, known_by};
use serde::Serialize;

/// A block device of this machine, or of a recorded one. What nobody knows is null.
#[derive(Serialize)]
#[cfg_attr(test, derive(utoipa::ToSchema))]
pub struct Device {
    /// What it is known by: world-wide name, serial number, place in the machine, name in the kernel.
    pub known_by: &'static str,
    /// World-wide name.
    pub wwn: Option<String>,
    /// `sata, sas, nvme, usb, …`
    pub transport: Option<String>,
    /// Names of the paths to it.
    pub paths: Vec<String>,
    /// Disks with the same value are parts of one physical drive.
    pub drive: String,
    /// PCI address of its controller.
    pub controller: Option<String>,
    /// Its enclosure.
    pub enclosure: Option<String>,
    /// Logical block.
    pub logical_block_bytes: Option<u32>,
    /// Physical block.
    pub physical_block_bytes: Option<u32>,
    /// `none, host-aware, host-managed`.
    pub zoned: Option<String>,
    /// `passed`, `failing`, `unknown`: what the disk says itself.
    pub health: &'static str,
    /// What else it says.
    pub health_notes: Vec<String>,
    /// Temperature.
    pub temperature_celsius: Option<u64>,
    /// Whether its bytes count as raw capacity of the machine.
    pub counts: bool,
}

impl From<&::inventory::disk::Disk> for Device {
    fn from(disk: &::inventory::disk::Disk) -> Self {
        let facts = &disk.facts;
        Self {
            known_by: known_by(&disk.identity),
            wwn: facts.wwn.clone(),
            transport: facts.transport.clone(),
            paths: disk.paths.clone(),
            drive: disk.body.clone(),
            controller: facts.controller.clone(),
            enclosure: facts.enclosure.clone(),
            logical_block_bytes: facts.logical_block_bytes,
            physical_block_bytes: facts.physical_block_bytes,
            zoned: facts.zoned.clone(),
            health: health_word(disk.health()),
            health_notes: facts.smart.notes.clone(),
            temperature_celsius: facts.smart.temperature_celsius,
            counts: disk.counts(),
        }
    }
}
