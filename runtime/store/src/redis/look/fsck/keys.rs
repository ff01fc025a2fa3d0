//! All keys with our prefix, by their names: which partitions there are, and which keys are none of ours.

use std::collections::BTreeMap;

use redis::pipe;

use super::{DOING, TenantKeys, shown};
use crate::redis::key_names::{KnownKey, partitions, read_key, tenants_key};
use crate::redis::partitions::RedisStore;
use crate::redis::partitions::scan::escaped;
use crate::redis::record::is_state;
use crate::{Check, Finding, FsckReport, StoreError};
use gristmill_core::job::Name;

/// How many bytes of a state are read, less one: as many as its version may take.
const STATE_BYTES: usize = 20;

/// The partitions of tenants, by the number that they have.
type Partitions = BTreeMap<(Name, u32), TenantKeys>;

impl RedisStore {
    /// Looks through the names of all keys of all servers.
    pub(super) async fn find_partitions(&self, report: &mut FsckReport) -> Result<Partitions, StoreError> {
        let mut found = Partitions::new();
        let pattern = format!("{}:*", escaped(&self.server.prefix));
        for slot in self.a_slot_of_each_server(DOING).await? {
            let mut cursor = 0_u64;
            loop {
                let (next, keys) = self.scan_names(DOING, slot, cursor, &pattern).await?;
                self.look_at_keys(keys, &mut found, report).await?;
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        self.look_at_lists(&found, report).await?;
        Ok(found)
    }

    async fn look_at_keys(
        &self,
        keys: Vec<Vec<u8>>,
        found: &mut Partitions,
        report: &mut FsckReport,
    ) -> Result<(), StoreError> {
        report.look("keys", keys.len());
        if keys.is_empty() {
            return Ok(());
        }
        let mut ask = pipe();
        for key in &keys {
            ask.cmd("TYPE").arg(key).cmd("PTTL").arg(key);
        }
        let looks: Vec<redis::Value> = self.server.link.query(DOING, &ask).await?;
        for (key, look) in keys.iter().zip(looks.as_chunks::<2>().0) {
            let read = |value: &redis::Value| redis::from_redis_value::<String>(value.clone());
            let (kind, ttl) = (read(&look[0]), redis::from_redis_value::<i64>(look[1].clone()));
            let (kind, ttl) = (kind.map_err(Into::into), ttl.map_err(Into::into));
            let misread = self.server.misread(DOING);
            self.look_at_key(&shown(key), &kind.map_err(&misread)?, ttl.map_err(&misread)?, found, report);
        }
        self.look_at_states(&keys, report).await
    }

    /// Whether states among these keys can be read, by their first bytes. A key of another type has been found already.
    async fn look_at_states(&self, keys: &[Vec<u8>], report: &mut FsckReport) -> Result<(), StoreError> {
        let names: Vec<String> = keys.iter().map(|key| shown(key)).collect();
        let read = |name: &String| {
            let (tenant, _, kind, of) = read_key(&self.server.prefix, name)?.partition?;
            (kind == "state").then(|| (name.clone(), tenant, of.split_once(':').unwrap_or((of, "")).0.to_owned()))
        };
        let states: Vec<(String, Name, String)> = names.iter().filter_map(read).collect();
        if states.is_empty() {
            return Ok(());
        }
        let mut ask = pipe();
        for (name, ..) in &states {
            ask.cmd("GETRANGE").arg(name).arg(0).arg(STATE_BYTES);
        }
        let answers = self.server.link.query_each(DOING, ask).await?;
        for ((name, tenant, topic), answer) in states.into_iter().zip(answers) {
            let Ok(redis::Value::BulkString(stored)) = answer else { continue };
            let detail = if topic.parse::<Name>().is_err() {
                format!("`{topic}` is no topic")
            } else if stored.is_empty() || is_state(&stored) {
                // It has expired, or can be read.
                continue;
            } else {
                format!("it begins with `{}`", shown(&stored))
            };
            report.found(Finding::at(Check::StateUnreadable, name, detail).of(&tenant, Some(&topic), None));
        }
        Ok(())
    }

    fn look_at_key(&self, key: &str, kind: &str, ttl: i64, found: &mut Partitions, report: &mut FsckReport) {
        if kind == "none" {
            return;
        }
        let Some(known) = read_key(&self.server.prefix, key) else {
            report.found(Finding::at(Check::UnknownKey, key, format!("a key of type {kind}")));
            return;
        };
        let mut found_at = |check, detail: String| {
            let finding = Finding::at(check, key, detail);
            report.found(match &known.partition {
                Some((tenant, ..)) => finding.of(tenant, None, None),
                None => finding,
            });
        };
        let is_unusable = known.kind != kind;
        if is_unusable {
            found_at(Check::WrongType, format!("it is of type {kind}, and not {}", known.kind));
        } else if known.expires && ttl == -1 {
            found_at(Check::NoExpiry, "it never expires".into());
        }
        let KnownKey { partition: Some((tenant, number, name, of)), .. } = known else { return };
        let found = found.entry((tenant, number)).or_default();
        found.is_unusable |= is_unusable;
        match name {
            "jobs" | "schedules" => found.has_jobs = Some(key.to_owned()),
            "processing" => drop(found.holders.insert(of.to_owned())),
            "bill" => found.bills.push(key.to_owned()),
            "ready" | "ready-high" | "ready-low" | "delayed" | "dead" | "unique" | "windows" => {
                found.topics.extend(of.parse::<Name>());
            }
            _ => {}
        }
    }

    /// Whether tenants and their partitions are listed. They are before the first job is stored there.
    async fn look_at_lists(&self, found: &Partitions, report: &mut FsckReport) -> Result<(), StoreError> {
        let mut ask = pipe();
        ask.cmd("SMEMBERS").arg(tenants_key(&self.server.prefix));
        let (listed,): (std::collections::HashSet<String>,) = self.server.link.query(DOING, &ask).await?;
        let map = self.read_map().await?;
        for ((tenant, number), found) in found {
            let Some(key) = &found.has_jobs else { continue };
            let mut found_at = |check, place: &str, detail| {
                report.found(Finding::at(check, place, detail).of(tenant, None, None));
            };
            if !listed.contains(tenant.as_str()) {
                let detail = format!("`{}` does not have the tenant", tenants_key(&self.server.prefix));
                found_at(Check::TenantNotListed, key, detail);
            }
            if *number >= map.of_tenant(tenant) {
                let detail = format!("`{}` says nothing of partition {number}", partitions(&self.server.prefix));
                found_at(Check::PartitionNotListed, key, detail);
            }
        }
        Ok(())
    }
}
