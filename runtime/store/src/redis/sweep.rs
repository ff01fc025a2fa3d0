//! Sweep: what has outlived its limits is dropped.

use std::collections::HashSet;

use async_trait::async_trait;
use redis::pipe;

use super::keys::Keys;
use super::script::{Call, script};
use super::store::{RedisStore, by_tenant, in_order};
use crate::clock::wait_ms;
use crate::{DeadLimits, StoreError, Sweep};

const DOING: &str = "sweep";

/// How many topics one call of the script may look at: each may have 1,000 jobs to drop.
const TOPICS: usize = 16;

#[async_trait]
impl Sweep for RedisStore {
    /// One command for each tenant where there is nothing that could be dropped, however many topics are named; a call of
    /// the script only for topics with dead jobs or with unique values that are held for a time.
    async fn sweep(&self, limits: &[DeadLimits]) -> Result<Vec<u64>, StoreError> {
        let mut answers = Vec::with_capacity(limits.len());
        for (tenant, group) in by_tenant(limits, |line| &line.topic.tenant) {
            let keys = self.keys(tenant);
            let mut look = pipe();
            look.cmd("SMEMBERS").arg(keys.perishable());
            let (perishable,): (HashSet<String>,) = self.link.query(DOING, &look).await?;
            let (some, none): (Vec<_>, Vec<_>) =
                group.into_iter().partition(|(_, line)| perishable.contains(line.topic.topic.as_str()));
            answers.extend(none.into_iter().map(|(place, _)| (place, 0)));
            // One call at a time: between them, the server has time for others.
            for part in some.chunks(TOPICS) {
                let mut reply = self.reply(DOING, self.sweep_call(&keys, part)).await?;
                for (place, _) in part {
                    answers.push((*place, reply.number().map_err(self.misread(DOING))?));
                }
            }
        }
        Ok(in_order(answers))
    }
}

impl RedisStore {
    fn sweep_call(&self, keys: &Keys, part: &[(usize, &DeadLimits)]) -> Call {
        let more = [keys.claims(), keys.failures(), keys.checkpoints()];
        let mut call = Call::new(
            script!("waiting.lua", "insert.lua", "finish.lua", "sweep.lua"),
            &keys.with_rows(more, part.iter().map(|(_, line)| &line.topic.topic)),
        );
        call.arg(self.now_argument());
        for (_, line) in part {
            call.arg(line.topic.topic.as_str()).arg(line.keep).arg(wait_ms(line.retention));
        }
        call
    }
}
