//! Labs: hosts that are folders, disks that are files. Planned in the draft, made with the cluster.
use crate::app::{App, Cluster};
use crate::edge::Rng;
use crate::error::{AppError, FieldError};
use crate::service::auth::Actor;
use crate::service::draft::{self, Draft, DraftDisk, HOSTS_MAX, Versioned};
use crate::service::format::bytes_text;
use model::ids::{DiskId, HostId};
use model::plan::{DiskShape, LabShape};
use model::state::{HostKind, HostRole, Media};
use model::units::DISK_BYTES_MIN;
use std::path::Path;

/// Disks of one kind on a lab host: five disk groups of seven, as on a real host.
const DISKS_MAX: u32 = 35;

/// The lab that one click makes: 6 hosts, each with a cache of 256 MiB and two capacity disks of 1 GiB.
pub fn one_click() -> LabShape {
    let cache = DiskShape { count: 1, size_bytes: 256 << 20 };
    LabShape { hosts: 6, cache, capacity: DiskShape { count: 2, size_bytes: 1 << 30 } }
}

/// Reads `hosts=4,cache=1x256MiB,capacity=2x1GiB`; every part may be left out.
///
/// # Errors
/// One sentence that names the part.
pub fn parse_shape(text: &str) -> Result<LabShape, String> {
    let mut shape = LabShape { hosts: 4, ..one_click() };
    for part in text.split(',').filter(|part| !part.trim().is_empty()) {
        let (name, value) = part.split_once('=').ok_or_else(|| {
            format!("`{part}` is not NAME=VALUE; write hosts=4,cache=1x256MiB,capacity=2x1GiB")
        })?;
        match name.trim() {
            "hosts" => {
                shape.hosts =
                    value.trim().parse().map_err(|_| format!("hosts: `{value}` is not a number"))?;
            }
            "cache" => shape.cache = parse_disks(value).map_err(|error| format!("cache: {error}"))?,
            "capacity" => {
                shape.capacity = parse_disks(value).map_err(|error| format!("capacity: {error}"))?
            }
            other => return Err(format!("`{other}` is not one of hosts, cache, capacity")),
        }
    }
    match problems(&shape).into_iter().next() {
        Some(problem) => Err(format!("{}: {}", problem.field, problem.detail)),
        None => Ok(shape),
    }
}

/// The shape as [`parse_shape`] reads it.
pub fn shape_text(shape: &LabShape) -> String {
    let disks = |disks: DiskShape| match disks.count {
        0 => "0".to_owned(),
        count => format!("{count}x{}", disks.size_bytes),
    };
    format!("hosts={},cache={},capacity={}", shape.hosts, disks(shape.cache), disks(shape.capacity))
}

/// Reads `2x1GiB`, or `0` for none.
///
/// # Errors
/// One sentence.
pub fn parse_disks(text: &str) -> Result<DiskShape, String> {
    let text = text.trim();
    if text == "0" {
        return Ok(DiskShape { count: 0, size_bytes: 0 });
    }
    let wrong = || format!("`{text}` is not COUNTxSIZE, e.g. 2x1GiB");
    let (count, size) = text.split_once('x').ok_or_else(wrong)?;
    let count = count.parse().map_err(|_| wrong())?;
    Ok(DiskShape { count, size_bytes: parse_size(size).ok_or_else(wrong)? })
}

/// Reads a size in bytes with a binary unit: `256MiB`, `1GiB`, `4096`.
pub fn parse_size(text: &str) -> Option<u64> {
    let text = text.trim();
    let digits = text.find(|letter: char| !letter.is_ascii_digit()).unwrap_or(text.len());
    let (number, unit) = text.split_at(digits);
    let shift = match unit.trim() {
        "" | "B" => 0,
        "KiB" | "K" => 10,
        "MiB" | "M" => 20,
        "GiB" | "G" => 30,
        "TiB" | "T" => 40,
        _ => return None,
    };
    number.parse::<u64>().ok()?.checked_mul(1 << shift)
}

/// What is wrong with a shape.
pub fn problems(shape: &LabShape) -> Vec<FieldError> {
    let mut problems = Vec::new();
    if shape.hosts == 0 || shape.hosts as usize > HOSTS_MAX {
        problems.push(FieldError::new("hosts", format!("1 to {HOSTS_MAX} hosts")));
    }
    for (field, disks, least) in [("cache", shape.cache, 0), ("capacity", shape.capacity, 1)] {
        if !(least..=DISKS_MAX).contains(&disks.count) {
            problems.push(FieldError::new(field, format!("{least} to {DISKS_MAX} disks a host")));
        } else if disks.count > 0 && disks.size_bytes < DISK_BYTES_MIN {
            let least = bytes_text(DISK_BYTES_MIN);
            problems.push(FieldError::new(field, format!("a disk has at least {least}")));
        } else if !disks.size_bytes.is_multiple_of(4096) {
            problems.push(FieldError::new(field, "a size is a multiple of 4096 bytes"));
        }
    }
    problems
}

/// Bytes of all its disks.
pub fn total_bytes(shape: &LabShape) -> u128 {
    let one = |disks: DiskShape| u128::from(disks.count) * u128::from(disks.size_bytes);
    u128::from(shape.hosts) * (one(shape.cache) + one(shape.capacity))
}

/// Free bytes of the file system that holds `dir` (or its nearest parent that exists).
///
/// # Errors
/// [`AppError::Internal`].
pub fn free_bytes(dir: &Path) -> Result<u64, AppError> {
    let there = dir.ancestors().find(|dir| dir.exists()).unwrap_or(Path::new("/"));
    let stat = rustix::fs::statvfs(there).map_err(AppError::internal)?;
    Ok(stat.f_bavail.saturating_mul(stat.f_frsize))
}

/// Whether there is room for the lab; its files are sparse, but a lab that could never be filled would lie.
///
/// # Errors
/// [`AppError::Conflict`] with the numbers.
pub fn check_room(shape: &LabShape, data_dir: &Path) -> Result<(), AppError> {
    let (needs, free) = (total_bytes(shape), free_bytes(data_dir)?);
    if needs <= u128::from(free) {
        return Ok(());
    }
    let needs = bytes_text(u64::try_from(needs).unwrap_or(u64::MAX));
    Err(AppError::Conflict(format!(
        "this lab has disks of {needs} together, and {} has {} free; make it smaller or choose another --data folder",
        data_dir.display(),
        bytes_text(free)
    )))
}

/// Puts a lab into a draft: hosts `h1…`, disks `hN-cache1`, `hN-cap1`, … in `DIR/lab/hN/`. Replaces an earlier lab.
pub fn put(draft: &mut Draft, rng: &dyn Rng, data_dir: &Path, shape: &LabShape) {
    let old: Vec<String> =
        draft.hosts.iter().filter(|host| host.kind == HostKind::Lab).map(|host| host.name.clone()).collect();
    old.iter().for_each(|name| draft.remove_host(name));
    draft.lab = Some(shape.clone());
    for number in 1..=shape.hosts {
        let host = format!("h{number}");
        let id = HostId::from_random(rng.bytes());
        draft.hosts.push(draft::DraftHost {
            id,
            name: host.clone(),
            kind: HostKind::Lab,
            role: HostRole::Data,
        });
        for (part, disks) in [("cache", shape.cache), ("cap", shape.capacity)] {
            for index in 1..=disks.count {
                let name = format!("{host}-{part}{index}");
                let path = data_dir.join("lab").join(&host).join(format!("{name}.img"));
                draft.disks.push(DraftDisk {
                    id: DiskId::from_random(rng.bytes()),
                    host: host.clone(),
                    name,
                    path: path.display().to_string(),
                    size_bytes: disks.size_bytes,
                    media: Media::Flash,
                    body: String::new(),
                    make_file: true,
                    holds_data: false,
                    review: None,
                    looked: None,
                });
            }
        }
    }
}

/// Plans a lab.
///
/// # Errors
/// [`AppError::Invalid`], [`AppError::Conflict`] when there is no room, or a cluster already.
pub async fn plan(
    app: &App,
    actor: &Actor,
    cluster: &Cluster,
    expected: Option<i64>,
    shape: &LabShape,
) -> Result<Versioned, AppError> {
    AppError::check(problems(shape))?;
    check_room(shape, &app.config.data_dir)?;
    let put = |draft: &mut Draft| {
        put(draft, app.rng.as_ref(), &app.config.data_dir, shape);
        Ok(())
    };
    let ((), versioned) = draft::change_unconfigured(app, actor, cluster, expected, put).await?;
    Ok(versioned)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::edge::SystemRng;

    #[test]
    fn the_shape_of_the_contract_is_read() {
        let shape = parse_shape("hosts=4,cache=1x256MiB,capacity=2x1GiB").unwrap();
        assert_eq!(shape.hosts, 4);
        assert_eq!(shape.cache, DiskShape { count: 1, size_bytes: 256 << 20 });
        assert_eq!(shape.capacity, DiskShape { count: 2, size_bytes: 1 << 30 });
        assert_eq!(total_bytes(&shape), 4 * ((256 << 20) + (2 << 30)));
        assert_eq!(parse_shape("hosts=3,cache=0").unwrap().cache.count, 0);
    }

    #[test]
    fn a_wrong_shape_names_its_part() {
        for (text, word) in [
            ("hosts=four", "hosts"),
            ("hosts=0", "hosts"),
            ("hosts=65", "hosts"),
            ("cache=1x1MiB", "64 MiB"),
            ("capacity=0", "capacity"),
            ("capacity=2x", "capacity"),
            ("capacity=2x99999999999999999999TiB", "capacity"),
            ("colour=blue", "colour"),
            ("hosts", "NAME=VALUE"),
        ] {
            let error = parse_shape(text).unwrap_err();
            assert!(error.contains(word), "{text}: {error}");
        }
    }

    #[test]
    fn planning_again_replaces_the_lab() {
        let rng: &dyn Rng = &SystemRng;
        let mut draft = Draft::new(rng, None);
        put(&mut draft, rng, Path::new("/data"), &parse_shape("hosts=6").unwrap());
        put(&mut draft, rng, Path::new("/data"), &parse_shape("hosts=3,capacity=2x1GiB").unwrap());
        assert_eq!(draft.hosts.len(), 3);
        assert_eq!(draft.disks.len(), 9);
        assert_eq!(draft.disks[1].path, "/data/lab/h1/h1-cap1.img");
    }
}
