//! Sweep: what has outlived its limits is dropped.

use std::time::Duration;

use redis::{RedisResult, pipe};

use crate::clock::wait_ms;
use crate::list::PAGE_JOBS;
use crate::redis::clock::TimeReply;
use crate::redis::key_names::Keys;
use crate::redis::script::{Call, script};
use crate::redis::store::{Partition, by_tenant, in_order};
use crate::{DeadLimits, IDLE_TOPICS, StoreError, Sweepable};
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_core::time::Timestamp;

const DOING: &str = "sweep";

/// How many topics one call of the script may look at: each may have 1,000 jobs to drop.
const TOPICS: usize = 16;

impl Partition {
    pub(in crate::redis) async fn sweepable(&self, tenant: &Name, idle_for: Duration) -> Result<Sweepable, StoreError> {
        let keys = self.keys(tenant);
        let mut call =
            Call::new(script!("path/sweep/sweepable.lua"), &[keys.perishable(), keys.topics(), keys.paused()]);
        call.arg(self.now_argument()).arg(wait_ms(idle_for)).arg(IDLE_TOPICS);
        let mut reply = self.reply(DOING, call).await?;
        let mut topics = || -> RedisResult<Vec<TopicId>> {
            let (mut names, mut topics) = (reply.array()?, Vec::new());
            while !names.is_empty() {
                let topic = names.text()?.parse().ok();
                topics.extend(topic.map(|topic| TopicId { tenant: tenant.clone(), topic }));
            }
            Ok(topics)
        };
        let mut topics = || topics().map_err(self.misread(DOING));
        Ok(Sweepable { perishable: topics()?, idle: topics()? })
    }

    /// For each topic whether it was in use within this time.
    pub(in crate::redis) async fn in_use(
        &self,
        tenant: &Name,
        topics: &[TopicId],
        within: Duration,
    ) -> Result<Vec<bool>, StoreError> {
        let (key, mut look) = (self.keys(tenant).topics(), pipe());
        look.cmd("TIME")
            .cmd("ZMSCORE")
            .arg(key)
            .arg(topics.iter().map(|topic| topic.topic.as_str()).collect::<Vec<_>>());
        let (time, used_at): (TimeReply, Vec<Option<u64>>) = self.link.query(DOING, &look).await?;
        let now = self.now(time);
        Ok(used_at.into_iter().map(|at| at.is_some_and(|at| now.since(Timestamp::from_millis(at)) < within)).collect())
    }

    pub(in crate::redis) async fn sweep(&self, limits: &[DeadLimits]) -> Result<Vec<u64>, StoreError> {
        let mut answers = Vec::with_capacity(limits.len());
        for (tenant, group) in by_tenant(limits, |line| &line.topic.tenant) {
            let keys = self.keys(tenant);
            // One call at a time: between them, the server has time for others.
            for part in group.chunks(TOPICS) {
                let mut reply = self.reply(DOING, self.sweep_call(&keys, part)).await?;
                let mut dropped = Vec::new();
                for (place, line) in part {
                    let mut ids = reply.array().map_err(self.misread(DOING))?;
                    answers.push((*place, ids.len() as u64));
                    while !ids.is_empty() {
                        // One that cannot be read has no recording.
                        let id = ids.text().map_err(self.misread(DOING))?.parse::<JobId>();
                        dropped.extend(id.ok().map(|id| (&line.topic, id)));
                    }
                }
                self.forget_recordings_of(dropped.iter().map(|(topic, id)| (*topic, id))).await;
            }
        }
        Ok(in_order(answers))
    }

    pub(crate) async fn oldest_dead(
        &self,
        topic: &TopicId,
        limit: usize,
    ) -> Result<Vec<(Timestamp, JobId)>, StoreError> {
        let Some(last) = limit.min(PAGE_JOBS).checked_sub(1) else { return Ok(Vec::new()) };
        let mut ask = pipe();
        ask.cmd("ZRANGE").arg(self.keys(&topic.tenant).dead(&topic.topic)).arg(0).arg(last).arg("WITHSCORES");
        let (found,): (Vec<(String, u64)>,) = self.link.query("look for the oldest dead jobs", &ask).await?;
        let read = |(id, since): (String, u64)| Some((Timestamp::from_millis(since), id.parse().ok()?));
        Ok(found.into_iter().filter_map(read).collect())
    }
}

impl Partition {
    fn sweep_call(&self, keys: &Keys, part: &[(usize, &DeadLimits)]) -> Call {
        let more = [keys.claims(), keys.failures(), keys.checkpoints()];
        let topics = || part.iter().map(|(_, line)| &line.topic.topic);
        let mut names = keys.with_rows(more, topics());
        names.extend(topics().map(|topic| keys.ended(topic)));
        let script = script!(
            "keys/line.lua",
            "keys/waiting.lua",
            "links/links.lua",
            "path/push/insert.lua",
            "path/finish/ends.lua",
            "path/finish/finish.lua",
            "path/sweep/sweep.lua"
        );
        let mut call = Call::new(script, &names);
        call.arg(self.now_argument()).arg(keys.wake_channel());
        for (_, line) in part {
            call.arg(line.topic.topic.as_str()).arg(line.keep).arg(wait_ms(line.retention));
        }
        call
    }
}
