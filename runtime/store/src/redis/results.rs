//! Results that are kept for a time: to look through, to forget, and to copy to and from another store.

use std::collections::BTreeSet;
use std::time::Duration;

use redis::{Value, pipe};

use super::key_names::read_key;
use super::look::inspect::finished;
use super::partitions::RedisStore;
use super::partitions::scan::escaped;
use super::record::{read_result, write_result_view};
use super::store::Partition;
use crate::clock::wait_ms;
use crate::list::PAGE_BYTES;
use crate::weight::Weigh;
use crate::{JobView, ResultsPage, StoreError, StoredResult};
use gristmill_core::job::{JobId, Name};

const LIST: &str = "list results";
const READ: &str = "read results to be copied";
const IMPORT: &str = "import results";

impl RedisStore {
    /// Looks through the keys of all tenants, a thousand in one call of one server: where a server ended, the next one follows.
    pub(crate) async fn results(
        &self,
        tenant: &Name,
        after: Option<&str>,
        limit: usize,
    ) -> Result<ResultsPage, StoreError> {
        let (server, cursor, skip) = after.and_then(read_cursor).unwrap_or_default();
        let slots = self.a_slot_of_each_server(LIST).await?;
        let Some(slot) = slots.get(server) else { return Ok(ResultsPage::default()) };
        let prefix = &self.server.prefix;
        let pattern = format!("{}:{{{}/*}}:result:*", escaped(prefix), escaped(tenant.as_str()));
        let (next, mut keys) = self.scan_names(LIST, *slot, cursor, &pattern).await?;
        // The same step of a scan brings the same keys, unless some came or went.
        keys.sort();
        let (mut page, mut bytes) = (ResultsPage::default(), 0);
        for (index, key) in keys.iter().enumerate().skip(skip) {
            if page.jobs.len() == limit || bytes >= PAGE_BYTES {
                page.next = Some(format!("{server}.{cursor}.{index}"));
                return Ok(page);
            }
            if let Some(view) = self.result_at(tenant, key).await? {
                bytes += view.weight();
                page.jobs.push(view);
            }
        }
        page.next = match next {
            0 => (server + 1 < slots.len()).then(|| format!("{}.0.0", server + 1)),
            next => Some(format!("{server}.{next}.0")),
        };
        Ok(page)
    }
}

/// Which server, where its scan goes on, and how many of the keys there are done.
fn read_cursor(text: &str) -> Option<(usize, u64, usize)> {
    let mut parts = text.split('.');
    Some((parts.next()?.parse().ok()?, parts.next()?.parse().ok()?, parts.next()?.parse().ok()?))
}

impl RedisStore {
    async fn result_at(&self, tenant: &Name, key: &[u8]) -> Result<Option<JobView>, StoreError> {
        let name = std::str::from_utf8(key).ok();
        let known = name.and_then(|name| read_key(&self.server.prefix, name)?.partition);
        let Some((_, number, _, id)) = known.filter(|(owner, ..)| owner == tenant) else { return Ok(None) };
        let Ok(id) = id.parse() else { return Ok(None) };
        let mut get = pipe();
        get.cmd("GET").arg(key);
        let (stored,): (Option<Vec<u8>>,) = self.partition(number).link.query(LIST, &get).await?;
        Ok(stored.and_then(|stored| finished(&id, &stored)))
    }
}

impl Partition {
    pub(crate) async fn forget_results(&self, tenant: &Name, ids: &[JobId]) -> Result<Vec<bool>, StoreError> {
        let keys = self.keys(tenant);
        let mut ask = pipe();
        ids.iter().for_each(|id| _ = ask.cmd("DEL").arg(keys.result(id)));
        let deleted: Vec<u64> =
            if ids.is_empty() { Vec::new() } else { self.link.query("forget results", &ask).await? };
        Ok(deleted.into_iter().map(|deleted| deleted > 0).collect())
    }
}

impl RedisStore {
    pub(crate) async fn jobs_with_result(&self, tenant: &Name) -> Result<Vec<JobId>, StoreError> {
        let prefix = &self.server.prefix;
        let pattern = format!("{}:{{{}/*}}:result:*", escaped(prefix), escaped(tenant.as_str()));
        let mut found = BTreeSet::new();
        for slot in self.a_slot_of_each_server(READ).await? {
            let mut cursor = 0;
            loop {
                let (next, keys) = self.scan_names(READ, slot, cursor, &pattern).await?;
                let names = keys.iter().filter_map(|key| std::str::from_utf8(key).ok());
                found.extend(names.filter_map(|name| {
                    let (owner, _, _, of) = read_key(prefix, name)?.partition?;
                    of.parse::<JobId>().ok().filter(|_| owner == *tenant)
                }));
                cursor = next;
                if cursor == 0 {
                    break;
                }
            }
        }
        Ok(found.into_iter().collect())
    }
}

impl Partition {
    pub(crate) async fn export_results(&self, tenant: &Name, jobs: &[JobId]) -> Result<Vec<StoredResult>, StoreError> {
        if jobs.is_empty() {
            return Ok(Vec::new());
        }
        let keys = self.keys(tenant);
        let mut ask = pipe();
        for job in jobs {
            let name = keys.result(job);
            ask.cmd("GET").arg(&name).cmd("PTTL").arg(&name);
        }
        let found: Vec<Value> = self.link.query(READ, &ask).await?;
        let (pairs, _) = found.as_chunks::<2>();
        let read = |(job, [stored, ttl]): (&JobId, &[Value; 2])| {
            let (Value::BulkString(stored), Value::Int(ttl)) = (stored, ttl) else { return None };
            let (attempts, end, topic) = read_result(stored)?;
            let ttl = Duration::from_millis(u64::try_from(*ttl).unwrap_or_default().max(1));
            Some(StoredResult { job: job.clone(), attempts, end, topic, ttl })
        };
        Ok(jobs.iter().zip(pairs).filter_map(read).collect())
    }

    pub(crate) async fn import_results(&self, tenant: &Name, results: &[StoredResult]) -> Result<u64, StoreError> {
        if results.is_empty() {
            return Ok(0);
        }
        self.list_tenants(IMPORT, [tenant]).await?;
        let keys = self.keys(tenant);
        let mut keep = pipe();
        for StoredResult { job, attempts, end, topic, ttl } in results {
            let stored = write_result_view(*attempts, end.clone(), topic.clone());
            let stored = stored.map_err(|error| self.refused(IMPORT, anyhow::Error::from(error)))?;
            keep.cmd("SET").arg(keys.result(job)).arg(stored).arg("NX").arg("PX").arg(wait_ms(*ttl).max(1));
        }
        let kept: Vec<Value> = self.link.query(IMPORT, &keep).await?;
        Ok(kept.iter().filter(|kept| **kept == Value::Okay).count() as u64)
    }
}
