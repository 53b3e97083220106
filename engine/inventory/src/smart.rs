//! What a disk says about itself through `smartctl --json`.
//!
//! The exit status is a set of bits, not a yes or no, and an answer may be an envelope without data. Invariant: health is
//! `Passed` or `Failing` only when the disk said so; everything else is `Unknown`, with the message.
use crate::lsblk::{number, text};
use serde_json::Value;

/// The bit of the exit status that says "disk failing". Source: smartctl(8), EXIT STATUS.
const EXIT_FAILING: u64 = 1 << 3;

/// Self-assessment of a disk.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Health {
    /// It says that it is well.
    Passed,
    /// It says that it is failing.
    Failing,
    /// It says nothing, or cannot be asked; why, when that is known.
    #[default]
    Unknown,
}

/// What is known from `smartctl`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Smart {
    /// Self-assessment.
    pub health: Health,
    /// Messages and counters worth showing, one sentence each.
    pub notes: Vec<String>,
    /// Temperature, degrees Celsius.
    pub temperature_celsius: Option<u64>,
    /// Age.
    pub power_on_hours: Option<u64>,
    /// Model.
    pub model: Option<String>,
    /// Serial number.
    pub serial: Option<String>,
    /// World-wide name, as `0x…`.
    pub wwn: Option<String>,
    /// Firmware.
    pub firmware: Option<String>,
    /// Size that the disk itself names.
    pub size_bytes: Option<u64>,
    /// Turns a minute; 0 for flash.
    pub rotation_rate: Option<u64>,
    /// Whether it can trim. A rotating disk that can is shingled, as a rule.
    pub trim: Option<bool>,
}

/// Reads an answer. What is no JSON is an unknown state with a note.
pub fn parse(json: &[u8]) -> Smart {
    let Ok(value) = serde_json::from_slice::<Value>(json) else {
        return Smart { notes: vec!["smartctl output is not valid JSON".into()], ..Smart::default() };
    };
    let at = |path: &str| value.pointer(path);
    let exit = number(at("/smartctl/exit_status")).unwrap_or(0);
    let passed = at("/smart_status/passed").and_then(Value::as_bool);
    let health = match passed {
        Some(false) => Health::Failing,
        _ if exit & EXIT_FAILING != 0 => Health::Failing,
        Some(true) => Health::Passed,
        None => Health::Unknown,
    };
    let messages = at("/smartctl/messages").and_then(Value::as_array).into_iter().flatten();
    let mut notes: Vec<String> = messages.filter_map(|message| text(message.get("string"))).collect();
    if health == Health::Unknown && notes.is_empty() {
        notes.push(match exit & 0b11 {
            0 => "the disk says nothing about its health".into(),
            1 => "smartctl did not understand the device".into(),
            _ => "smartctl could not open the device".into(),
        });
    }
    let errors = number(at("/ata_smart_error_log/summary/count"))
        .or_else(|| number(at("/ata_smart_error_log/extended/count")))
        .or_else(|| number(at("/nvme_smart_health_information_log/num_err_log_entries")));
    if let Some(count) = errors.filter(|count| *count > 0) {
        notes.push(format!("{count} entries in the error log"));
    }
    let critical = number(at("/nvme_smart_health_information_log/critical_warning")).unwrap_or(0);
    if critical != 0 {
        notes.push(format!("critical warning {critical:#04x} of the NVMe device"));
    }
    if let Some(used) =
        number(at("/nvme_smart_health_information_log/percentage_used")).filter(|used| *used >= 80)
    {
        notes.push(format!("{used} % of its rated life is used"));
    }
    Smart {
        health,
        notes,
        temperature_celsius: number(at("/temperature/current")),
        power_on_hours: number(at("/power_on_time/hours")),
        model: text(at("/model_name")).or_else(|| text(at("/scsi_model_name"))),
        serial: text(at("/serial_number")),
        wwn: wwn(&value),
        firmware: text(at("/firmware_version")),
        size_bytes: number(at("/user_capacity/bytes")),
        rotation_rate: number(at("/rotation_rate")),
        trim: at("/trim/supported").and_then(Value::as_bool),
    }
}

/// The NAA name that `smartctl` gives in three numbers: 4 bits, 24 bits of vendor, 36 bits of his own.
fn wwn(value: &Value) -> Option<String> {
    let part = |name: &str| number(value.pointer(&format!("/wwn/{name}")));
    let (naa, oui, id) = (part("naa")?, part("oui")?, part("id")?);
    (naa < 16 && oui < 1 << 24 && id < 1 << 36).then(|| format!("{:#018x}", naa << 60 | oui << 36 | id))
}
