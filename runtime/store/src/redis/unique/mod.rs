//! Unique values that are held, to look them up and to free them.

mod windows;

use redis::pipe;

use super::clock::TimeReply;
use super::script::{Call, script};
use super::store::Partition;
use crate::{StoreError, UniqueHold};
use gristmill_core::job::TopicId;
use gristmill_core::time::Timestamp;

impl Partition {
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
        let mut call =
            Call::new(script!("unique/free_unique.lua"), &[keys.unique(&topic.topic), keys.windows(&topic.topic)]);
        call.arg(self.now_argument()).arg(value);
        Ok(self.reply(DOING, call).await?.number().map_err(self.misread(DOING))? == 1)
    }

    pub(crate) async fn free_windows(&self, topic: &TopicId) -> Result<u64, StoreError> {
        const DOING: &str = "free unique values";
        let keys = self.keys(&topic.tenant);
        let call =
            Call::new(script!("unique/free_windows.lua"), &[keys.unique(&topic.topic), keys.windows(&topic.topic)]);
        self.reply(DOING, call).await?.number().map_err(self.misread(DOING))
    }
}
