//! The look at what waits, and what it leaves out: paused topics.

use std::time::Duration;

use redis::{Value, pipe};

use super::clock::TimeReply;
use super::keys::Keys;
use super::script::{Call, PAUSE, POLL_RAW};
use super::store::{RedisStore, SCRIPT_JOBS};
use crate::{PendingWork, StoreError};
use gristmill_core::job::{Name, TopicId};

const DOING: &str = "look for work";

impl RedisStore {
    /// Three commands where nothing is delayed, a fourth one for the time where something is; and one call of a script
    /// for every 500 raw topics.
    pub(super) async fn look_for_work(&self, tenant: &Name, raw: &[Name]) -> Result<PendingWork, StoreError> {
        let keys = self.keys(tenant);
        let calls = raw.chunks(SCRIPT_JOBS).map(|topics| self.poll_raw_call(&keys, topics)).collect();
        self.link.run(DOING, calls).await?;

        let mut look = pipe();
        look.cmd("SMEMBERS").arg(keys.active()).cmd("SMEMBERS").arg(keys.cancelled());
        look.cmd("ZRANGE").arg(keys.due()).arg(0).arg(0).arg("WITHSCORES");
        type Found = (Vec<String>, Vec<String>, Vec<(String, u64)>);
        let (active, cancelled, head): Found = self.link.query(DOING, &look).await?;
        let ready = active.iter().filter_map(|topic| topic.parse().ok());
        let next_due_in = match head.first() {
            Some((_, due)) => {
                let (time,): (TimeReply,) = self.link.query(DOING, pipe().cmd("TIME")).await?;
                Some(Duration::from_millis(*due).saturating_sub(self.exact(time)))
            }
            None => None,
        };
        Ok(PendingWork {
            ready: ready.map(|topic| TopicId { tenant: tenant.clone(), topic }).collect(),
            next_due_in,
            cancelled: cancelled.iter().filter_map(|id| id.parse().ok()).collect(),
        })
    }

    fn poll_raw_call(&self, keys: &Keys, topics: &[Name]) -> Call {
        let mut names = keys.waiting();
        for topic in topics {
            names.extend(keys.row(topic));
        }
        let mut call = Call::new(&POLL_RAW, &names);
        call.arg(self.now_argument()).arg(keys.wake_channel());
        for topic in topics {
            call.arg(topic.as_str());
        }
        call
    }

    pub(super) async fn pause(&self, topic: &TopicId, paused: bool) -> Result<bool, StoreError> {
        let keys = self.keys(&topic.tenant);
        let mut names = keys.waiting();
        names.extend(keys.row(&topic.topic));
        let mut call = Call::new(&PAUSE, &names);
        call.arg(keys.wake_channel()).arg(topic.topic.as_str()).arg(u8::from(paused));
        let replies = self.link.run("pause a topic", vec![call]).await?;
        Ok(matches!(replies.as_slice(), [Value::Int(1)]))
    }
}
