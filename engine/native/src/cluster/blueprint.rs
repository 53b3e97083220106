//! From a plan to what will stand on the disks: groups, regions, superblocks and the first configuration. Pure but for ids.
//!
//! Everything that can be wrong with a plan is found here, before anything is touched.
use crate::fmt::config::{ClusterConfig, ConfigDisk, ConfigHost};
use crate::fmt::layout;
use crate::fmt::superblock::{GROUPS_MAX, GroupLog, MEMBERS_MAX, Member, Roles, Superblock};
use crate::fmt::{LocalId, cbor::Unknown};
use crate::io::Env;
use model::arithmetic::{name_problem, policy_problems};
use model::disk_room::COMBINED_LOG_PERCENT;
use model::engine::EngineError;
use model::ids::{ClusterId, DiskGroupId, DiskId, HostId};
use model::plan::{ClusterPlan, PlannedDisk, PlannedGroup, PlannedHost};
use model::state::{ClusterType, DiskRole};
use model::units::{DISK_BYTES_MIN, Timestamp};
use std::collections::{BTreeMap, BTreeSet};

/// One disk to be formatted.
#[derive(Clone, Debug)]
pub struct NewDisk {
    /// As planned.
    pub planned: PlannedDisk,
    /// Its host.
    pub host: HostId,
    /// Its label; geometry is corrected from the open disk.
    pub superblock: Superblock,
}

/// One disk group to be formatted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NewGroup {
    /// Identity.
    pub id: DiskGroupId,
    /// Its host.
    pub host: HostId,
    /// The disk with its log.
    pub log_disk: DiskId,
    /// Its capacity disks.
    pub capacity: Vec<DiskId>,
}

/// Everything that formatting needs.
#[derive(Clone, Debug)]
pub struct Blueprint {
    /// Disks, each once.
    pub disks: Vec<NewDisk>,
    /// Groups in order of the plan.
    pub groups: Vec<NewGroup>,
    /// Entries for the configuration.
    pub config_disks: Vec<ConfigDisk>,
}

fn invalid(field: &str, detail: impl Into<String>) -> EngineError {
    EngineError::Invalid { field: field.into(), detail: detail.into() }
}

/// The configuration of a new cluster as planned, without its disks.
///
/// # Errors
/// `Invalid` or `Unsupported`; the first thing that is wrong.
pub fn first_config(plan: &ClusterPlan, epoch: u32, now: Timestamp) -> Result<ClusterConfig, EngineError> {
    if plan.cluster_type != ClusterType::SingleSite {
        let (capability, name) = match plan.cluster_type {
            ClusterType::TwoNode => ("two-node", "a two-node cluster"),
            ClusterType::Stretched => ("stretched", "a stretched cluster"),
            _ => ("compute", "a compute cluster"),
        };
        let text = format!("{name} is not there yet in this version; choose a single site");
        return Err(EngineError::Unsupported { capability: capability.into(), text });
    }
    if let Some(detail) = name_problem(&plan.name) {
        return Err(invalid("name", detail));
    }
    check_hosts(&plan.hosts)?;
    for policy in &plan.policies {
        if let Some(problem) = policy_problems(policy).into_iter().next() {
            return Err(invalid(
                "policies",
                format!("{}: {} {}", policy.name, problem.field, problem.detail),
            ));
        }
    }
    if !plan.policies.iter().any(|policy| policy.name == plan.default_policy) {
        return Err(invalid("default_policy", format!("there is no policy {:?}", plan.default_policy)));
    }
    let domain_of = |name: &String| {
        plan.fault_domains.iter().find(|domain| domain.hosts.contains(name)).map(|domain| domain.name.clone())
    };
    let host =
        |planned: &PlannedHost| ConfigHost { fault_domain: domain_of(&planned.name), ..config_host(planned) };
    Ok(ClusterConfig {
        id: plan.id,
        name: plan.name.clone(),
        version: (u64::from(epoch), 1),
        created_at: now,
        hosts: plan.hosts.iter().map(host).collect(),
        disks: Vec::new(),
        policies: plan.policies.clone(),
        default_policy: plan.default_policy.clone(),
        repair_delay_seconds: plan.repair_delay_seconds,
        licence_key: plan.licence_key.clone(),
        cluster_type: plan.cluster_type,
        sites: Vec::new(),
        unknown: Unknown::new(),
    })
}

fn check_hosts(hosts: &[PlannedHost]) -> Result<(), EngineError> {
    let mut names = BTreeSet::new();
    for host in hosts {
        if let Some(detail) = name_problem(&host.name) {
            return Err(invalid("hosts", format!("{:?}: {detail}", host.name)));
        }
        if !names.insert(&host.name) {
            return Err(invalid("hosts", format!("{} is listed twice", host.name)));
        }
    }
    if hosts.is_empty() { Err(invalid("hosts", "a cluster needs at least one host")) } else { Ok(()) }
}

/// A host as the configuration keeps it, in no fault domain.
pub fn config_host(planned: &PlannedHost) -> ConfigHost {
    ConfigHost {
        id: planned.id,
        name: planned.name.clone(),
        kind: planned.kind,
        role: planned.role,
        fault_domain: None,
        site: None,
        maintenance: false,
        unknown: Unknown::new(),
    }
}

/// The blueprint of disk groups that are claimed at once.
///
/// # Errors
/// `Invalid`, with the disk that is wrong: too small, claimed twice, too many in a group.
pub fn blueprint(
    cluster: ClusterId,
    hosts: &[ConfigHost],
    claims: &[PlannedGroup],
    epoch: u32,
    env: &Env,
) -> Result<Blueprint, EngineError> {
    let mut draft = Draft::default();
    for claim in claims {
        let known = |id: HostId| hosts.iter().any(|host| host.id == id);
        if !known(claim.host) || !claim.cache_host.is_none_or(known) {
            return Err(invalid("claims", "names a host that is not in the cluster"));
        }
        draft.claim(claim, env)?;
    }
    if draft.groups.is_empty() {
        return Err(invalid("claims", "claim at least one capacity disk"));
    }
    draft.finish(cluster, epoch)
}

#[derive(Default)]
struct Draft {
    groups: Vec<NewGroup>,
    /// Disks in order of first mention, with role and groups.
    disks: Vec<(PlannedDisk, HostId, DiskRole, Vec<DiskGroupId>)>,
}

impl Draft {
    fn claim(&mut self, claim: &PlannedGroup, env: &Env) -> Result<(), EngineError> {
        if claim.capacity.is_empty() {
            return Err(invalid("claims.capacity", "a disk group needs at least one capacity disk"));
        }
        if claim.cache.is_some() && claim.capacity.len() > MEMBERS_MAX {
            let detail = format!("at most {MEMBERS_MAX} capacity disks behind one cache disk");
            return Err(invalid("claims.capacity", detail));
        }
        let new_id = || DiskGroupId::from_random(env.id_bytes());
        let capacity: Vec<DiskId> = claim.capacity.iter().map(|disk| disk.id).collect();
        match &claim.cache {
            Some(cache) => {
                let id = new_id();
                self.groups.push(NewGroup { id, host: claim.host, log_disk: cache.id, capacity });
                self.add(cache, claim.cache_host.unwrap_or(claim.host), DiskRole::Cache, id)?;
                claim.capacity.iter().try_for_each(|disk| self.add(disk, claim.host, DiskRole::Capacity, id))
            }
            None => claim.capacity.iter().try_for_each(|disk| {
                let id = new_id();
                self.groups.push(NewGroup {
                    id,
                    host: claim.host,
                    log_disk: disk.id,
                    capacity: vec![disk.id],
                });
                self.add(disk, claim.host, DiskRole::Combined, id)
            }),
        }
    }

    fn add(
        &mut self,
        disk: &PlannedDisk,
        host: HostId,
        role: DiskRole,
        group: DiskGroupId,
    ) -> Result<(), EngineError> {
        if disk.size_bytes < DISK_BYTES_MIN {
            let detail = format!(
                "{} has {} bytes; the least is {DISK_BYTES_MIN} (64 MiB)",
                disk.name, disk.size_bytes
            );
            return Err(invalid("claims", detail));
        }
        let Some(known) = self.disks.iter_mut().find(|known| known.0.id == disk.id) else {
            if self.disks.iter().any(|known| known.0.path == disk.path) {
                return Err(invalid("claims", format!("{} is claimed twice", disk.path)));
            }
            self.disks.push((disk.clone(), host, role, vec![group]));
            return Ok(());
        };
        // Only a cache disk may serve several groups, in slices.
        if role != DiskRole::Cache || known.2 != DiskRole::Cache || known.1 != host {
            return Err(invalid("claims", format!("{} is claimed twice", disk.name)));
        }
        if known.3.len() == GROUPS_MAX {
            return Err(invalid("claims", format!("{} serves {GROUPS_MAX} groups already", disk.name)));
        }
        known.3.push(group);
        Ok(())
    }

    fn finish(self, cluster: ClusterId, epoch: u32) -> Result<Blueprint, EngineError> {
        let by_id: BTreeMap<DiskGroupId, &NewGroup> =
            self.groups.iter().map(|group| (group.id, group)).collect();
        let mut blueprint =
            Blueprint { disks: Vec::new(), groups: self.groups.clone(), config_disks: Vec::new() };
        for (planned, host, role, groups) in self.disks {
            let groups = groups.iter().map(|id| group_log(by_id[id], epoch)).collect();
            blueprint.add_disk(cluster, epoch, planned, host, role, groups)?;
        }
        Ok(blueprint)
    }
}

/// The blueprint of one capacity disk that joins a group which is there: `group` as its log disk knows it, with the new member.
///
/// # Errors
/// `Invalid` when the disk is too small.
pub fn member(
    cluster: ClusterId,
    host: HostId,
    planned: &PlannedDisk,
    group: GroupLog,
    epoch: u32,
) -> Result<Blueprint, EngineError> {
    let mut blueprint = Blueprint { disks: Vec::new(), groups: Vec::new(), config_disks: Vec::new() };
    blueprint.add_disk(cluster, epoch, planned.clone(), host, DiskRole::Capacity, vec![group])?;
    Ok(blueprint)
}

impl Blueprint {
    fn add_disk(
        &mut self,
        cluster: ClusterId,
        epoch: u32,
        planned: PlannedDisk,
        host: HostId,
        role: DiskRole,
        groups: Vec<GroupLog>,
    ) -> Result<(), EngineError> {
        let roles = match role {
            DiskRole::Cache => Roles::CACHE,
            DiskRole::Combined => Roles::COMBINED,
            _ => Roles::CAPACITY,
        };
        let ids: Vec<DiskGroupId> = groups.iter().map(|group| group.group).collect();
        let regions = layout::regions(roles, planned.size_bytes, &ids, COMBINED_LOG_PERCENT)
            .map_err(|error| invalid("claims", format!("{}: {error}", planned.name)))?;
        self.config_disks.push(ConfigDisk {
            id: planned.id,
            name: planned.name.clone(),
            host,
            role,
            disk_group: ids[0],
            serves: ids[1..].to_vec(),
            unknown: Unknown::new(),
        });
        let superblock = Superblock {
            generation: 1,
            incompatible: 0,
            read_only_compatible: 0,
            compatible: 0,
            cluster,
            disk: planned.id,
            host,
            name: planned.name.clone(),
            size_bytes: planned.size_bytes,
            physical_block_bytes: 4096,
            media: planned.media,
            roles,
            epoch,
            clean: true,
            encryption: Default::default(),
            checkpoint: Default::default(),
            groups,
            regions,
        };
        self.disks.push(NewDisk { planned, host, superblock });
        Ok(())
    }
}

/// A disk that joins a group: nothing in the log is older than it.
pub fn new_member(disk: DiskId, epoch: u32) -> Member {
    Member { disk, epoch, damaged_epoch: 0, checkpoint_generation: 0 }
}

/// A group whose log is empty.
fn group_log(group: &NewGroup, epoch: u32) -> GroupLog {
    GroupLog {
        group: group.id,
        log_disk: group.log_disk,
        tail_seq: 1,
        tail_offset_bytes: 0,
        flushed_seq: 0,
        next_local: LocalId(1),
        members: group.capacity.iter().map(|disk| new_member(*disk, epoch)).collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use model::state::{HostKind, HostRole, Media};

    fn disk(number: u8, mib: u64) -> PlannedDisk {
        PlannedDisk {
            id: DiskId::from_random([number; 16]),
            name: format!("d{number}"),
            path: format!("/disks/{number}"),
            size_bytes: mib << 20,
            media: Media::Flash,
            make_file: true,
            erase: false,
            review: None,
        }
    }

    fn hosts() -> Vec<ConfigHost> {
        let (kind, role) = (HostKind::Lab, HostRole::Data);
        vec![config_host(&PlannedHost { id: HostId::from_random([1; 16]), name: "h1".into(), kind, role })]
    }

    fn made(claims: &[(Option<PlannedDisk>, Vec<PlannedDisk>)]) -> Result<Blueprint, EngineError> {
        let env = Env::seeded(1, Timestamp(0));
        let host = hosts()[0].id;
        let claim = |(cache, capacity): &(Option<PlannedDisk>, Vec<PlannedDisk>)| PlannedGroup {
            host,
            cache_host: None,
            cache: cache.clone(),
            capacity: capacity.clone(),
        };
        let claims: Vec<_> = claims.iter().map(claim).collect();
        blueprint(ClusterId::from_random([9; 16]), &hosts(), &claims, 4, &env)
    }

    #[tokio::test(start_paused = true)]
    async fn roles_groups_and_slices_follow_the_claims() {
        let shared = disk(1, 256);
        let plan = made(&[
            (Some(shared.clone()), vec![disk(2, 128), disk(3, 128)]),
            (Some(shared), vec![disk(4, 128)]),
            (None, vec![disk(5, 128), disk(6, 128)]),
        ]);
        let plan = plan.expect("a good plan");
        assert_eq!(plan.groups.len(), 4, "two behind the shared cache, one for each combined disk");
        assert_eq!(plan.disks.len(), 6);
        let cache = &plan.disks[0].superblock;
        assert_eq!((cache.regions.len(), cache.groups.len()), (2, 2));
        assert_eq!(plan.config_disks[0].groups().count(), 2, "the configuration knows both");
        let combined = &plan.disks[4].superblock;
        assert_eq!((combined.roles, combined.regions.len()), (Roles::COMBINED, 2));
        for disk in &plan.disks {
            disk.superblock.encode(4096).expect("fits its block");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn bad_claims_are_refused_before_anything_is_touched() {
        assert!(made(&[]).is_err());
        assert!(made(&[(Some(disk(1, 256)), vec![])]).is_err());
        assert!(made(&[(None, vec![disk(1, 63)])]).is_err());
        assert!(made(&[(Some(disk(1, 256)), vec![disk(1, 256)])]).is_err());
        assert!(made(&[(None, vec![disk(1, 256)]), (None, vec![disk(1, 256)])]).is_err());
        let many = (2..10).map(|number| disk(number, 128)).collect();
        assert!(made(&[(Some(disk(1, 256)), many)]).is_err());
    }
}
