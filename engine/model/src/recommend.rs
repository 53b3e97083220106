//! Which disks of a host to claim for what, with the reason for each: the recommendation of the wizard.
use crate::ids::DiskId;
use crate::state::{DiskRole, Media};
use crate::units::DISK_BYTES_MIN;
use serde::{Deserialize, Serialize};

/// Capacity disks of one disk group at most.
pub const GROUP_CAPACITY_MAX: usize = 7;

/// A disk of one host that could be claimed.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Candidate {
    /// The disk.
    pub id: DiskId,
    /// Short name.
    pub name: String,
    /// Size.
    pub size_bytes: u64,
    /// What it is made of.
    pub media: Media,
}

/// What to do with a disk.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recommendation {
    /// The disk.
    pub id: DiskId,
    /// Recommended role.
    pub role: DiskRole,
    /// Disk group on its host that it belongs to, counted from 0; `None` when it is not claimed.
    pub group: Option<usize>,
    /// One sentence.
    pub reason: String,
}

/// Recommends roles for the disks of one host, in the order given.
///
/// Flash beside rotating disks becomes cache; of flash alone the smallest ones do, one for each seven others; a single
/// disk, or rotating disks alone, carry their own log.
pub fn recommend(disks: &[Candidate]) -> Vec<Recommendation> {
    let usable: Vec<&Candidate> = disks.iter().filter(|disk| disk.size_bytes >= DISK_BYTES_MIN).collect();
    let caches = cache_disks(&usable);
    let capacity: Vec<DiskId> =
        usable.iter().filter(|disk| !caches.contains(&disk.id)).map(|disk| disk.id).collect();
    let place = |list: &[DiskId], id| list.iter().position(|other| *other == id);
    let mixed = usable.iter().any(|disk| disk.media == Media::Hdd);
    let describe = |disk: &Candidate| {
        if disk.size_bytes < DISK_BYTES_MIN {
            let reason = format!("smaller than {} MiB, the least for any role", DISK_BYTES_MIN >> 20);
            return Recommendation { id: disk.id, role: DiskRole::None, group: None, reason };
        }
        let (role, group, reason) = match (place(&caches, disk.id), place(&capacity, disk.id)) {
            (Some(group), _) if mixed => {
                (DiskRole::Cache, group, "flash beside rotating disks: it takes every write first")
            }
            (Some(group), _) => {
                (DiskRole::Cache, group, "the smallest flash disk of this host: it takes every write first")
            }
            (None, Some(index)) if caches.is_empty() => {
                (DiskRole::Combined, index, "no faster disk to put before it: it carries its own log")
            }
            (None, index) => {
                let group = index.unwrap_or(0) % caches.len().max(1);
                (DiskRole::Capacity, group, "holds data behind the cache disk of its group")
            }
        };
        Recommendation { id: disk.id, role, group: Some(group), reason: reason.into() }
    };
    disks.iter().map(describe).collect()
}

/// The disks that become cache: as many as groups are needed, the smallest flash first.
fn cache_disks(usable: &[&Candidate]) -> Vec<DiskId> {
    let mut flash: Vec<&&Candidate> = usable.iter().filter(|disk| disk.media == Media::Flash).collect();
    flash.sort_by_key(|disk| (disk.size_bytes, disk.name.as_str(), disk.id));
    let rotating = usable.len() - flash.len();
    let count = match (flash.len(), rotating) {
        (0, _) | (1, 0) => 0,
        // Every flash disk serves, but no group is left without a rotating one.
        (flash, 1..) => flash.min(rotating),
        (flash, 0) => flash.div_ceil(GROUP_CAPACITY_MAX + 1),
    };
    flash.into_iter().take(count).map(|disk| disk.id).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn disks(shape: &[(u64, Media)]) -> Vec<Candidate> {
        let of = |(index, (gib, media)): (usize, &(u64, Media))| Candidate {
            id: DiskId(uuid::Uuid::from_u128(index as u128)),
            name: format!("d{index}"),
            size_bytes: gib << 30,
            media: *media,
        };
        shape.iter().enumerate().map(of).collect()
    }

    fn roles(shape: &[(u64, Media)]) -> Vec<DiskRole> {
        recommend(&disks(shape)).into_iter().map(|recommendation| recommendation.role).collect()
    }

    #[test]
    fn roles_follow_media_and_size() {
        use DiskRole::{Cache, Capacity, Combined, None};
        use Media::{Flash, Hdd};
        assert_eq!(roles(&[(100, Hdd), (10, Flash), (100, Hdd)]), [Capacity, Cache, Capacity]);
        assert_eq!(roles(&[(100, Flash), (10, Flash)]), [Capacity, Cache]);
        assert_eq!(roles(&[(100, Flash)]), [Combined]);
        assert_eq!(roles(&[(100, Hdd), (100, Hdd)]), [Combined, Combined]);
        assert_eq!(roles(&[(0, Flash), (100, Flash)]), [None, Combined]);
    }

    #[test]
    fn no_group_has_more_than_seven_capacity_disks() {
        for count in 1..40 {
            let list = recommend(&disks(&vec![(100, Media::Flash); count]));
            let caches = list.iter().filter(|one| one.role == DiskRole::Cache).count();
            for group in 0..caches {
                let of_group =
                    list.iter().filter(|one| one.role == DiskRole::Capacity && one.group == Some(group));
                assert!((1..=GROUP_CAPACITY_MAX).contains(&of_group.count()), "{count} disks");
            }
        }
    }
}
