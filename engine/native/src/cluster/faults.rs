//! What a lab has broken: kept in `lab/faults.json` until healed, over restarts too.
//!
//! Pure table plus load and store. The cluster applies it: it switches disks and hosts, this says what should be switched.
//! It is about simulated hardware, not about data: losing the file heals the lab.
use super::hint;
use model::engine::{EngineError, Fault, FaultTarget};
use model::ids::DiskId;
use serde::{Deserialize, Serialize};
use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;

/// Added latency of `slow` when none is given, milliseconds.
pub const SLOW_MS_DEFAULT: u32 = 200;
/// The most that may be added, milliseconds: above it clients give up.
pub const SLOW_MS_MAX: u32 = 10_000;

/// Everything that is broken.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LabFaults {
    /// By host name.
    pub hosts: BTreeMap<String, HostFaults>,
    /// By disk.
    pub disks: BTreeMap<DiskId, DiskFaults>,
}

/// What is broken about a host.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFaults {
    /// It has no power.
    pub off: bool,
    /// Latency added to every I/O of its disks, milliseconds; 0 is none.
    pub slow_ms: u32,
    /// Hosts it cannot talk to.
    pub partitioned_from: BTreeSet<String>,
}

/// What is broken about a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DiskFaults {
    /// Every I/O fails.
    pub failing: bool,
    /// Latency added to every I/O, milliseconds; 0 is none.
    pub slow_ms: u32,
    /// It says that it has no room.
    pub full: bool,
}

impl HostFaults {
    /// In words, for the host's page.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if self.off {
            words.push("powered off".into());
        }
        if self.slow_ms > 0 {
            words.push(format!("every I/O takes {} ms longer", self.slow_ms));
        }
        if !self.partitioned_from.is_empty() {
            let names: Vec<&str> = self.partitioned_from.iter().map(String::as_str).collect();
            words.push(format!("cut off from {}", names.join(", ")));
        }
        words
    }
}

impl DiskFaults {
    /// In words, for the disk's row.
    pub fn words(&self) -> Vec<String> {
        let mut words = Vec::new();
        if self.failing {
            words.push("every I/O fails".into());
        }
        if self.slow_ms > 0 {
            words.push(format!("every I/O takes {} ms longer", self.slow_ms));
        }
        if self.full {
            words.push("says that it is full".into());
        }
        words
    }
}

impl LabFaults {
    /// Reads what is broken in the lab under `lab`; nothing when the file is missing or unreadable.
    pub fn load(lab: &Path) -> Self {
        std::fs::read(lab.join("faults.json"))
            .ok()
            .and_then(|text| serde_json::from_slice(&text).ok())
            .unwrap_or_default()
    }

    /// Writes it.
    ///
    /// # Errors
    /// When the folder cannot be written.
    pub fn store(&self, lab: &Path) -> std::io::Result<()> {
        hint::replace(lab, &lab.join("faults.json"), self)
    }

    /// Faults of a host; none when it is not in the table.
    pub fn host(&self, name: &str) -> HostFaults {
        self.hosts.get(name).cloned().unwrap_or_default()
    }

    /// Faults of a disk; none when it is not in the table.
    pub fn disk(&self, id: DiskId) -> DiskFaults {
        self.disks.get(&id).cloned().unwrap_or_default()
    }

    /// Enters `fault` for each of `hosts` (the hosts that the target names) or for the disk. `Corrupt` leaves nothing to keep.
    ///
    /// # Errors
    /// `Invalid` for a pair of target and fault that makes no sense; the table is unchanged then.
    pub fn inject(
        &mut self,
        target: &FaultTarget,
        hosts: &[String],
        fault: &Fault,
    ) -> Result<(), EngineError> {
        match target {
            FaultTarget::Disk(id) => self.inject_disk(*id, fault),
            _ => hosts.iter().try_for_each(|host| self.inject_host(host, fault)),
        }
    }

    fn inject_host(&mut self, name: &str, fault: &Fault) -> Result<(), EngineError> {
        let mut host = self.host(name);
        match fault {
            Fault::PowerOff => host.off = true,
            Fault::PowerOn => host.off = false,
            Fault::Slow { latency_ms } => host.slow_ms = latency(*latency_ms)?,
            Fault::Partition { from } => {
                if from.is_empty() || from.iter().any(|other| other == name) {
                    return Err(invalid("from", "name the other hosts that it cannot talk to"));
                }
                host.partitioned_from = from.iter().cloned().collect();
            }
            Fault::Heal => host = HostFaults::default(),
            Fault::Fail | Fault::Corrupt { .. } | Fault::Full => {
                return Err(invalid(
                    "fault",
                    "a host can be power-off, power-on, slow, partition or heal; fail, corrupt and full are for disks",
                ));
            }
        }
        if host == HostFaults::default() {
            self.hosts.remove(name);
        } else {
            self.hosts.insert(name.into(), host);
        }
        Ok(())
    }

    fn inject_disk(&mut self, id: DiskId, fault: &Fault) -> Result<(), EngineError> {
        let mut disk = self.disk(id);
        match fault {
            Fault::Fail => disk.failing = true,
            Fault::Slow { latency_ms } => disk.slow_ms = latency(*latency_ms)?,
            Fault::Full => disk.full = true,
            Fault::Corrupt { .. } => {}
            Fault::Heal => disk = DiskFaults::default(),
            Fault::PowerOff | Fault::PowerOn | Fault::Partition { .. } => {
                return Err(invalid(
                    "fault",
                    "a disk can be fail, corrupt, slow, full or heal; power and partition are for hosts",
                ));
            }
        }
        if disk == DiskFaults::default() {
            self.disks.remove(&id);
        } else {
            self.disks.insert(id, disk);
        }
        Ok(())
    }
}

fn latency(asked_ms: Option<u32>) -> Result<u32, EngineError> {
    match asked_ms.unwrap_or(SLOW_MS_DEFAULT) {
        1..=SLOW_MS_MAX => Ok(asked_ms.unwrap_or(SLOW_MS_DEFAULT)),
        _ => Err(invalid("latency_ms", "between 1 and 10000; use heal to take it away")),
    }
}

fn invalid(field: &str, detail: &str) -> EngineError {
    EngineError::Invalid { field: field.into(), detail: detail.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn host(name: &str) -> (FaultTarget, Vec<String>) {
        (FaultTarget::Host(name.into()), vec![name.into()])
    }

    #[test]
    fn faults_add_up_and_heal_takes_all_away() {
        let (target, hosts) = host("h1");
        let mut faults = LabFaults::default();
        faults.inject(&target, &hosts, &Fault::PowerOff).expect("off");
        faults.inject(&target, &hosts, &Fault::Slow { latency_ms: None }).expect("slow");
        assert_eq!(faults.host("h1").words(), ["powered off", "every I/O takes 200 ms longer"]);
        faults.inject(&target, &hosts, &Fault::PowerOn).expect("on");
        assert!(!faults.host("h1").off && faults.host("h1").slow_ms == 200, "power says nothing about speed");
        faults.inject(&target, &hosts, &Fault::Heal).expect("heal");
        assert_eq!(faults, LabFaults::default());
    }

    #[test]
    fn pairs_that_make_no_sense_are_refused_and_change_nothing() {
        let (target, hosts) = host("h1");
        let mut faults = LabFaults::default();
        assert!(faults.inject(&target, &hosts, &Fault::Full).is_err());
        assert!(faults.inject(&target, &hosts, &Fault::Partition { from: vec!["h1".into()] }).is_err());
        assert!(faults.inject(&target, &hosts, &Fault::Slow { latency_ms: Some(0) }).is_err());
        assert!(
            faults.inject(&FaultTarget::Disk(DiskId::from_random([1; 16])), &[], &Fault::PowerOff).is_err()
        );
        assert_eq!(faults, LabFaults::default());
    }

    #[test]
    fn faults_are_kept_over_a_restart() {
        let lab = tempfile::tempdir().expect("a folder");
        let (target, hosts) = host("h2");
        let mut faults = LabFaults::load(lab.path());
        faults.inject(&target, &hosts, &Fault::PowerOff).expect("off");
        faults.inject(&FaultTarget::Disk(DiskId::from_random([1; 16])), &[], &Fault::Fail).expect("fail");
        faults.store(lab.path()).expect("store");
        assert_eq!(LabFaults::load(lab.path()), faults);
    }
}
