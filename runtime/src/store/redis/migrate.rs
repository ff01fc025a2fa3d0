//! Migrate: due jobs go from delayed to ready.

use std::time::Duration;

use redis::pipe;

use super::clock::TimeReply;
use super::keys::Keys;
use super::reply::Reply;
use super::script::{Call, MIGRATE};
use super::store::RedisStore;
use crate::job::Name;
use crate::store::{Migrated, StoreError};
use crate::time::Timestamp;

/// How many topics one call of the script looks at.
const TOPICS: isize = 64;

/// How many jobs one call of the script moves at most.
const JOBS: usize = 1000;

impl RedisStore {
    pub(super) async fn migrate_due(&self, tenant: &Name, limit: usize) -> Result<Migrated, StoreError> {
        let keys = self.keys(tenant);
        let mut moved = 0;
        loop {
            let migrated = self.migrate_some(&keys, limit.saturating_sub(moved).min(JOBS)).await?;
            moved += migrated.moved;
            // Nothing moved although jobs are due: another runner was faster. It will look again, and so will we.
            let done = moved >= limit || migrated.moved == 0 || migrated.next_due_in != Some(Duration::ZERO);
            if done {
                return Ok(Migrated { moved, ..migrated });
            }
        }
    }

    /// Two steps, because a script may not make up key names: which topics are due, and then the script with their keys,
    /// which asks for the time again. A topic that becomes due in between is found the next time.
    async fn migrate_some(&self, keys: &Keys, limit: usize) -> Result<Migrated, StoreError> {
        const DOING: &str = "migrate due jobs";
        let mut look = pipe();
        look.cmd("TIME").cmd("ZRANGE").arg(keys.due()).arg(0).arg(TOPICS - 1).arg("WITHSCORES");
        let (time, heads): (TimeReply, Vec<(String, u64)>) = self.link.query(DOING, &look).await?;
        let now = self.now(time);

        let due = heads.iter().take_while(|(_, at)| *at <= now.as_millis());
        let due: Vec<Name> = due.filter_map(|(topic, _)| topic.parse().ok()).collect();
        if due.is_empty() || limit == 0 {
            let next = heads.first().map(|(_, at)| Timestamp::from_millis(*at).since(now));
            return Ok(Migrated { moved: 0, next_due_in: next });
        }

        let mut names = keys.waiting();
        for topic in &due {
            names.extend(keys.row(topic));
        }
        let mut call = Call::new(&MIGRATE, &names);
        call.arg(self.now_argument()).arg(keys.wake_channel()).arg(limit);
        for topic in &due {
            call.arg(topic.as_str());
        }
        let reply = self.link.run(DOING, vec![call]).await?.pop().unwrap_or_default();
        let read = |mut reply: Reply| {
            let moved = usize::try_from(reply.number()?).unwrap_or(usize::MAX);
            // The empty string is no number: nothing is delayed.
            Ok(Migrated { moved, next_due_in: reply.number().ok().map(Duration::from_millis) })
        };
        Reply::new(reply).and_then(read).map_err(self.misread(DOING))
    }
}
