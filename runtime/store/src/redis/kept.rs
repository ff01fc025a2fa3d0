//! Results and unique values that are kept for a time, to look through and to forget.

use redis::pipe;

use super::clock::TimeReply;
use super::inspect::finished;
use super::keys::read_key;
use super::partitions::RedisStore;
use super::scan::escaped;
use super::script::{Call, script};
use super::store::Partition;
use crate::list::PAGE_BYTES;
use crate::weight::Weigh;
use crate::{JobView, ResultsPage, StoreError, UniqueHold};
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_core::time::Timestamp;

const LIST: &str = "list results";

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

    pub(crate) async fn unique_hold(&self, topic: &TopicId, value: &str) -> Result<Option<UniqueHold>, StoreError> {
        let mut ask = pipe();
        ask.cmd("HGET").arg(self.keys(&topic.tenant).unique(&topic.topic)).arg(value).cmd("TIME");
        let (held, time): (Option<String>, TimeReply) = self.link.query("look up a unique value", &ask).await?;
        let held = held.and_then(|held| {
            // Behind the id, until when it is held.
            let (holder, until) = held.split_once(' ').map_or((held.as_str(), None), |(id, until)| (id, Some(until)));
            let until = until.map(|until| until.parse().map(Timestamp::from_millis)).transpose().ok()?;
            Some(UniqueHold { holder: holder.parse().ok()?, until })
        });
        Ok(held.filter(|hold| hold.until.is_none_or(|until| until > self.now(time))))
    }

    pub(crate) async fn free_unique(&self, topic: &TopicId, value: &str) -> Result<bool, StoreError> {
        const DOING: &str = "free a unique value";
        let keys = self.keys(&topic.tenant);
        let mut call = Call::new(script!("free_unique.lua"), &[keys.unique(&topic.topic), keys.windows(&topic.topic)]);
        call.arg(self.now_argument()).arg(value);
        Ok(self.reply(DOING, call).await?.number().map_err(self.misread(DOING))? == 1)
    }

    pub(crate) async fn free_windows(&self, topic: &TopicId) -> Result<u64, StoreError> {
        const DOING: &str = "free unique values";
        let keys = self.keys(&topic.tenant);
        let call = Call::new(script!("free_windows.lua"), &[keys.unique(&topic.topic), keys.windows(&topic.topic)]);
        self.reply(DOING, call).await?.number().map_err(self.misread(DOING))
    }
}
