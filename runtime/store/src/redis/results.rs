//! Results of jobs, copied to and from another store.

use std::collections::BTreeSet;
use std::time::Duration;

use redis::{Value, pipe};

use super::keys::read_key;
use super::partitions::RedisStore;
use super::record::{read_result, write_result_view};
use super::scan::escaped;
use super::store::Partition;
use crate::clock::wait_ms;
use crate::{StoreError, StoredResult};
use gristmill_core::job::{JobId, Name};

const READ: &str = "read results to be copied";
const IMPORT: &str = "import results";

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
