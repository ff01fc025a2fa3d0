//! What is remembered of jobs that have ended: a text for each topic, to which `remember` of `path/finish/ends.lua` adds a line for jobs that
//! ended together: their ids, with spaces around each, then `|`, how they ended, when, for how many ms that is remembered, and their
//! attempts.

pub(in crate::redis) mod renewals;

use redis::{RedisResult, pipe};

use crate::joined::latest_end;
use crate::redis::clock::TimeReply;
use crate::redis::script::{Call, script};
use crate::redis::store::Partition;
use crate::{EndedAs, JobEnd, JobView, StoreError};
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_core::time::Timestamp;

const DOING: &str = "look for a job that ended";

/// Topics of which one call of the script looks through the texts: each has some 130 KB at most.
const TOPICS: usize = 50;

impl Partition {
    pub(crate) async fn ended(&self, tenant: &Name, id: &JobId) -> Result<Option<JobView>, StoreError> {
        let keys = self.keys(tenant);
        let mut ask = pipe();
        ask.cmd("ZRANGE").arg(keys.topics()).arg(0).arg(-1);
        let (topics,): (Vec<String>,) = self.link.query(DOING, &ask).await?;
        let topics: Vec<Name> = topics.iter().filter_map(|topic| topic.parse().ok()).collect();
        let mut found: Option<JobView> = None;
        for topics in topics.chunks(TOPICS) {
            let names: Vec<String> = topics.iter().map(|topic| keys.ended(topic)).collect();
            let mut call = Call::new(script!("look/ended/ended.lua"), &names);
            call.arg(self.now_argument()).arg(id.as_str());
            let mut reply = self.reply(DOING, call).await?;
            let mut read = || -> RedisResult<_> {
                let (now, mut ends) = (Timestamp::from_millis(reply.number()?), Vec::new());
                while !reply.is_empty() {
                    ends.push((reply.number()?, reply.text()?));
                }
                Ok((now, ends))
            };
            let (now, ends) = read().map_err(self.misread(DOING))?;
            for (place, end) in ends {
                let place = usize::try_from(place).unwrap_or_default();
                let Some(topic) = place.checked_sub(1).and_then(|place| topics.get(place)) else { continue };
                let topic = TopicId { tenant: tenant.clone(), topic: topic.clone() };
                let view =
                    read_end(&end, &topic, now).map(|(end, attempts)| JobView::over(id.clone(), attempts, Some(end)));
                found = latest_end(vec![found, view]);
            }
        }
        Ok(found)
    }

    pub(crate) async fn ended_jobs(&self, topic: &TopicId, limit: usize) -> Result<Vec<JobView>, StoreError> {
        let mut ask = pipe();
        ask.cmd("TIME").cmd("GET").arg(self.keys(&topic.tenant).ended(&topic.topic));
        let (time, text): (TimeReply, Option<String>) = self.link.query("list jobs that ended", &ask).await?;
        let now = self.now(time);
        let text = text.unwrap_or_default();
        // Where the text was cut, there may be the rest of an id.
        let text = if text.starts_with(' ') { &text } else { text.split_once(' ').map_or("", |(_, whole)| whole) };
        let lines = text.lines().rev().filter_map(|line| {
            let (ids, end) = line.split_once('|')?;
            Some((ids, read_end(end, topic, now)?))
        });
        let jobs = lines.flat_map(|(ids, (end, attempts))| {
            let ids = ids.split_whitespace().rev().filter_map(|id| id.parse().ok());
            ids.map(move |id| JobView::over(id, attempts, Some(end.clone())))
        });
        Ok(jobs.take(limit).collect())
    }
}

/// How jobs ended, and their attempts. `None` if that is no longer to be remembered, or is not what the script wrote.
fn read_end(end: &str, topic: &TopicId, now: Timestamp) -> Option<(JobEnd, u32)> {
    let mut fields = end.split(' ');
    let outcome = match fields.next()? {
        "c" => EndedAs::Complete,
        "e" => EndedAs::Expired,
        "x" => EndedAs::Cancelled,
        "d" => EndedAs::Deleted,
        _ => return None,
    };
    let (at, keep, attempts): (u64, u64, _) =
        (fields.next()?.parse().ok()?, fields.next()?.parse().ok()?, fields.next()?.parse().ok()?);
    let is_remembered = now.as_millis() < at.saturating_add(keep);
    is_remembered.then(|| (JobEnd { topic: topic.clone(), outcome, at: Timestamp::from_millis(at) }, attempts))
}
