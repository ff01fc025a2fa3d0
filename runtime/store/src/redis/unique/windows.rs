//! Unique values that jobs which are over hold for some more time, moved to and from another store.

use redis::pipe;

use crate::clock::wait_ms;
use crate::redis::clock::TimeReply;
use crate::redis::script::{Call, script};
use crate::redis::store::{Partition, SCRIPT_JOBS};
use crate::{StoreError, StoredWindow};
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_core::time::Timestamp;

const READ: &str = "read unique values to be moved";
const IMPORT: &str = "import unique values";
const REMOVE: &str = "remove exported unique values";

/// Values that are looked at in one round trip.
const PAGE: usize = 500;

impl Partition {
    pub(in crate::redis) async fn export_windows(
        &self,
        topic: &TopicId,
        limit: usize,
    ) -> Result<Vec<StoredWindow>, StoreError> {
        let keys = self.keys(&topic.tenant);
        let (time,): (TimeReply,) = self.link.query(READ, pipe().cmd("TIME")).await?;
        let (now, mut windows, mut offset) = (self.now(time), Vec::new(), 0);
        while windows.len() < limit {
            let mut ask = pipe();
            ask.cmd("ZRANGEBYSCORE").arg(keys.windows(&topic.topic)).arg(format!("({}", now.as_millis())).arg("+inf");
            ask.arg("LIMIT").arg(offset).arg(PAGE);
            let (values,): (Vec<String>,) = self.link.query(READ, &ask).await?;
            if values.is_empty() {
                break;
            }
            offset += values.len();
            let mut ask = pipe();
            ask.cmd("HMGET").arg(keys.unique(&topic.topic)).arg(&values);
            let (holders,): (Vec<Option<String>>,) = self.link.query(READ, &ask).await?;
            let read = |(value, holder): (String, Option<String>)| {
                let (holder, expiry) = holder.as_deref()?.split_once(' ')?;
                let (holder, expiry): (JobId, u64) = (holder.parse().ok()?, expiry.parse().ok()?);
                Some(StoredWindow { value, holder, ttl: Timestamp::from_millis(expiry).since(now) })
            };
            let found: Vec<StoredWindow> = values.into_iter().zip(holders).filter_map(read).collect();
            if found.is_empty() {
                continue;
            }
            let mut ask = pipe();
            for window in &found {
                ask.cmd("HEXISTS").arg(keys.jobs()).arg(window.holder.as_str());
            }
            let there: Vec<bool> = self.link.query(READ, &ask).await?;
            windows.extend(found.into_iter().zip(there).filter(|(_, there)| !there).map(|(window, _)| window));
        }
        windows.truncate(limit);
        Ok(windows)
    }

    pub(crate) async fn has_links(&self, tenant: &Name) -> Result<bool, StoreError> {
        let mut ask = pipe();
        ask.cmd("EXISTS").arg(self.keys(tenant).links());
        self.link.query::<(bool,)>(READ, &ask).await.map(|(exists,)| exists)
    }

    pub(crate) async fn import_windows(&self, topic: &TopicId, windows: &[StoredWindow]) -> Result<(), StoreError> {
        self.list_tenants(IMPORT, [&topic.tenant]).await?;
        let keys = self.keys(&topic.tenant);
        for windows in windows.chunks(SCRIPT_JOBS) {
            let script =
                script!("keys/line.lua", "keys/waiting.lua", "path/push/insert.lua", "unique/import_windows.lua");
            let mut call = Call::new(script, &keys.with_rows([], [&topic.topic]));
            call.arg(self.now_argument()).arg(keys.wake_channel()).arg(topic.topic.as_str());
            for window in windows {
                call.arg(&window.value).arg(window.holder.as_str()).arg(wait_ms(window.ttl));
            }
            self.link.run(IMPORT, vec![call]).await?;
        }
        Ok(())
    }

    pub(crate) async fn remove_windows(&self, topic: &TopicId, windows: &[StoredWindow]) -> Result<(), StoreError> {
        let keys = self.keys(&topic.tenant);
        for windows in windows.chunks(SCRIPT_JOBS) {
            let names = [keys.unique(&topic.topic), keys.windows(&topic.topic)];
            let mut call = Call::new(script!("unique/remove_windows.lua"), &names);
            for window in windows {
                call.arg(&window.value).arg(window.holder.as_str());
            }
            self.link.run(REMOVE, vec![call]).await?;
        }
        Ok(())
    }
}
