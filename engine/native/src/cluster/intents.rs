//! Intents: each is refused with nothing changed, done on return, or a task that the snapshot shows.
use super::capabilities::{check_policy, unsupported};
use super::core::ClusterCore;
use super::counters;
use super::handle::Core;
use super::source::DiskSource;
use model::arithmetic::{name_problem, policy_problems};
use model::capacity::effective_domains;
use model::engine::{Applied, Attach, Counters, EngineError, EventBatch, Intent};
use model::ids::{ObjectId, TaskId};
use model::policy::Policy;
use model::state::Severity;
use model::view::{FaultDomainView, Snapshot};
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

fn invalid(field: &str, detail: impl Into<String>) -> EngineError {
    EngineError::Invalid { field: field.into(), detail: detail.into() }
}

fn done() -> Applied {
    Applied { done: true, ..Applied::default() }
}

impl<D: DiskSource + 'static> Core for ClusterCore<D> {
    async fn snapshot(&self) -> Result<Arc<Snapshot>, EngineError> {
        Ok(self.take_snapshot())
    }

    async fn events(&self, seq: u64, version: u64) -> Result<EventBatch, EngineError> {
        Ok(self.board.wait(seq, version).await)
    }

    async fn apply(&self, task: TaskId, intent: Intent) -> Result<Applied, EngineError> {
        match intent {
            Intent::ConfigureCluster { plan } => self.configure(task, plan),
            Intent::ImportCluster { cluster, paths } => self.import(task, cluster, &paths),
            Intent::AddClaims { hosts, claims } => self.add_claims(task, &hosts, &claims),
            Intent::ReplaceDisk { lost, by } => self.replace_disk(task, lost, &by),
            Intent::UpdateCluster { name, default_policy, repair_delay_seconds } => {
                self.update_cluster(name, default_policy, repair_delay_seconds).await
            }
            Intent::SetFaultDomains { fault_domains } => self.set_fault_domains(&fault_domains).await,
            Intent::PutPolicy { policy, expected_version, apply_now } => {
                self.put_policy(task, policy, expected_version, apply_now).await
            }
            Intent::DeletePolicy { name } => self.delete_policy(&name).await,
            Intent::CreateVolume { id, name, size_bytes, policy } => {
                self.create_volume(id, name, size_bytes, policy.as_deref()).await
            }
            Intent::GrowVolume { id, size_bytes } => self.grow_volume(id, size_bytes).await,
            Intent::DeleteVolume { id } => self.delete_volume(id).await,
            Intent::ApplyPolicy { id, expected_csn, policy } => {
                self.ready()?;
                self.apply_policy(task, id, expected_csn, policy.as_deref())
            }
            Intent::RepairNow { object } => self.repair_now(object),
            Intent::SetResyncLimit { limit_bytes_per_second } => {
                if limit_bytes_per_second == Some(0) {
                    return Err(invalid("limit_bytes_per_second", "at least 1, or null for no limit"));
                }
                self.pace.set_limit(limit_bytes_per_second);
                self.board.touch();
                Ok(done())
            }
            Intent::SetLicence { key } => {
                self.change_config(|config| config.licence_key = key).await?;
                Ok(done())
            }
            Intent::InjectFault { target, fault } => self.inject(&target, &fault).await,
            Intent::Scrub => Err(unsupported("scrub")),
        }
    }

    async fn cancel(&self, task: TaskId) -> Result<(), EngineError> {
        if self.board.task(task).is_none() {
            return Err(EngineError::NotFound { what: format!("task {task}") });
        }
        Err(unsupported("cancel"))
    }

    async fn attach(&self, volume: ObjectId) -> Result<Attach, EngineError> {
        let name = self.volume_name(volume)?;
        let socket = self.settings.nbd_socket.as_ref().map(|path| path.display().to_string());
        let uri = |socket: String| {
            format!("nbd+unix:///{}?socket={}", percent(&name, false), percent(&socket, true))
        };
        Ok(Attach { nbd_unix_uri: socket.map(uri), ..Attach::default() })
    }

    async fn counters(&self) -> Result<BTreeMap<String, Counters>, EngineError> {
        let mut all = BTreeMap::new();
        let mut cluster = Counters { resync_bytes: self.pace.moved_bytes(), ..Counters::default() };
        for object in self.state.borrow().objects.values() {
            let counted = object.counters.get();
            counters::sum(&mut cluster, &counted);
            all.insert(format!("volume:{}", object.seen.name), counted);
        }
        all.insert("cluster".into(), cluster);
        Ok(all)
    }

    async fn shutdown(&self) -> Result<(), EngineError> {
        self.stop().await;
        Ok(())
    }
}

impl<D: DiskSource + 'static> ClusterCore<D> {
    async fn update_cluster(
        &self,
        name: Option<String>,
        default_policy: Option<String>,
        repair_delay_seconds: Option<u32>,
    ) -> Result<Applied, EngineError> {
        if let Some(detail) = name.as_deref().and_then(name_problem) {
            return Err(invalid("name", detail));
        }
        if let Some(policy) = &default_policy {
            self.policy(Some(policy))?;
        }
        self.change_config(|config| {
            config.name = name.unwrap_or_else(|| config.name.clone());
            config.default_policy = default_policy.unwrap_or_else(|| config.default_policy.clone());
            config.repair_delay_seconds = repair_delay_seconds.unwrap_or(config.repair_delay_seconds);
        })
        .await?;
        Ok(done())
    }

    async fn set_fault_domains(&self, domains: &[FaultDomainView]) -> Result<Applied, EngineError> {
        let config = self.ready()?;
        let mut seen = BTreeSet::new();
        for domain in domains {
            if let Some(detail) = name_problem(&domain.name) {
                return Err(invalid("fault_domains.name", format!("{:?}: {detail}", domain.name)));
            }
            for host in &domain.hosts {
                if !config.hosts.iter().any(|known| known.name == *host) {
                    return Err(invalid("fault_domains.hosts", format!("there is no host {host:?}")));
                }
                if !seen.insert(host) {
                    return Err(invalid("fault_domains.hosts", format!("{host} is in two fault domains")));
                }
            }
        }
        let hosts: Vec<(&str, bool)> = config.hosts.iter().map(|host| (host.name.as_str(), true)).collect();
        let effective = effective_domains(&hosts, domains);
        let named = |host: &str| domains.iter().any(|domain| domain.hosts.iter().any(|name| name == host));
        self.change_config(|config| {
            for host in &mut config.hosts {
                host.fault_domain = effective.of_host.get(&host.name).filter(|_| named(&host.name)).cloned();
            }
        })
        .await?;
        self.unstick();
        self.changed(None);
        Ok(Applied { done: true, applied: Vec::new(), warnings: effective.warnings })
    }

    async fn put_policy(
        &self,
        task: TaskId,
        policy: Policy,
        expected_version: Option<u64>,
        apply_now: bool,
    ) -> Result<Applied, EngineError> {
        let config = self.ready()?;
        if let Some(problem) = policy_problems(&policy).into_iter().next() {
            return Err(invalid(&problem.field, problem.detail));
        }
        check_policy(&policy)?;
        let known = config.policies.iter().find(|known| known.name == policy.name).map(|known| known.version);
        let what = format!("policy {:?}", policy.name);
        let version = match (known, expected_version) {
            (None, None) => 1,
            (Some(_), None) => return Err(EngineError::NameTaken { what }),
            (None, Some(_)) => return Err(EngineError::NotFound { what }),
            (Some(now), Some(expected)) if now == expected => now + 1,
            (Some(now), Some(_)) => return Err(EngineError::StaleVersion { what, current: now.to_string() }),
        };
        let stored = Policy { version, ..policy };
        let name = stored.name.clone();
        self.change_config(|config| {
            config.policies.retain(|known| known.name != stored.name);
            config.policies.push(stored);
        })
        .await?;
        if apply_now && known.is_some() {
            self.board.start_task(task, "apply-policy", &name);
            let core = self.rc();
            tokio::task::spawn_local(async move {
                let result = core.apply_to_all(task, &name).await;
                core.board.finish_task(task, result);
            });
            return Ok(Applied::default());
        }
        Ok(done())
    }

    /// Applies an edited policy to its volumes, one after the other, so that the extra room stays small.
    async fn apply_to_all(&self, task: TaskId, name: &str) -> Result<(), EngineError> {
        let policy = self.policy(Some(name))?;
        let users = self.users_of(name);
        let total = users.len().max(1);
        let mut first_error = None;
        for (index, (id, volume)) in users.into_iter().enumerate() {
            self.board.progress(task, (index * 100 / total) as u8, &format!("volume {volume}"));
            if let Err(error) = self.shape(id, &policy).await {
                first_error.get_or_insert(error);
            }
        }
        first_error.map_or(Ok(()), Err)
    }

    fn users_of(&self, policy: &str) -> Vec<(ObjectId, String)> {
        let state = self.state.borrow();
        let mut users: Vec<(ObjectId, String)> = state
            .objects
            .iter()
            .filter(|(_, object)| object.descriptor().policy.name == policy)
            .map(|(id, object)| (*id, object.seen.name.clone()))
            .collect();
        users.sort_by(|a, b| a.1.cmp(&b.1));
        users
    }

    async fn delete_policy(&self, name: &str) -> Result<Applied, EngineError> {
        let policy = self.policy(Some(name))?;
        let what = format!("policy {name:?}");
        if policy.name == Policy::built_in().name {
            return Err(EngineError::Conflict {
                detail: "the policy \"default\" is built in and stays".into(),
            });
        }
        if self.ready()?.default_policy == name {
            return Err(EngineError::InUse { what, users: "the cluster, as its default policy".into() });
        }
        let users: Vec<String> = self.users_of(name).into_iter().map(|(_, volume)| volume).collect();
        if !users.is_empty() {
            return Err(EngineError::InUse { what, users: users.join(", ") });
        }
        self.change_config(|config| config.policies.retain(|known| known.name != name)).await?;
        Ok(done())
    }

    fn repair_now(&self, only: Option<ObjectId>) -> Result<Applied, EngineError> {
        self.ready()?;
        if let Some(id) = only {
            self.volume_name(id)?;
        }
        let mut state = self.state.borrow_mut();
        for (id, object) in &mut state.objects {
            if only.is_none_or(|only| only == *id) {
                (object.repair_now, object.stuck, object.dirty) = (true, None, true);
            }
        }
        drop(state);
        self.board.event(
            Severity::Info,
            "repair-now",
            "cluster".into(),
            "repair starts without waiting".into(),
        );
        self.care.notify_one();
        Ok(done())
    }
}

/// Percent-encodes for an NBD URI; slashes stay in a path of the query.
fn percent(text: &str, slashes: bool) -> String {
    let mut encoded = String::new();
    for byte in text.bytes() {
        let plain = byte.is_ascii_alphanumeric() || b"-._~".contains(&byte) || (slashes && byte == b'/');
        if plain {
            encoded.push(byte.into());
        } else {
            encoded.push_str(&format!("%{byte:02X}"));
        }
    }
    encoded
}

#[cfg(test)]
mod tests {
    use super::percent;

    #[test]
    fn uris_are_encoded() {
        assert_eq!(percent("db-1", false), "db-1");
        assert_eq!(percent("/srv/a b/ü.sock", true), "/srv/a%20b/%C3%BC.sock");
        assert_eq!(percent("a/b?c", false), "a%2Fb%3Fc");
    }
}
