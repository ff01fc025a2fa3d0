//! Pushes, each job to its partition.
//!
//! Once a topic is spread further, jobs that were pushed before are still where they were. Until they have left, ids and unique
//! values are looked up there first.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::RedisResult;

use super::{PartitionMap, RedisStore};
use crate::composite::answer_by_store;
use crate::redis::key_names::Keys;
use crate::redis::path::claim::job_id;
use crate::redis::script::reply::Reply;
use crate::redis::script::{Call, script};
use crate::redis::store::SCRIPT_JOBS;
use crate::{Push, Pushed, Query, StoreError};
use gristmill_core::job::{JobId, JobSpec, NewJob, TopicId, Unique};
use gristmill_core::time::Timestamp;

const LOOK_UP: &str = "look up jobs pushed before";

/// How long pushes of unique values wait before and after a topic is spread further: until all processes push to the new
/// partitions.
const CHANGE: Duration = Duration::from_millis(500);

/// After this long no process pushes to the earlier partitions any more.
const PUSHED_UNTIL: Duration = Duration::from_secs(15);

/// A partition and a topic, and what is looked up there: positions with ids and unique values, either of which may be empty.
type Lookups<'a> = BTreeMap<(u32, &'a TopicId), Vec<(usize, &'a str, &'a str)>>;

#[async_trait]
impl Push for RedisStore {
    async fn push(&self, jobs: &[NewJob]) -> Result<Vec<Pushed>, StoreError> {
        let map = self.map().await?;
        if map.is_plain() {
            return self.first().push(jobs).await;
        }
        // In a box: the usual push does not carry it around.
        Box::pin(self.push_spread(map, jobs)).await
    }
}

impl RedisStore {
    /// Pushes where some topic is spread, or was.
    async fn push_spread(&self, mut map: Arc<PartitionMap>, jobs: &[NewJob]) -> Result<Vec<Pushed>, StoreError> {
        let is_unique = |job: &&NewJob| job.spec.options.unique.is_some();
        let spreads = jobs.iter().filter(is_unique).filter_map(|job| map.spread(&job.spec.topic));
        if let Some(wait) = spreads.filter_map(|spread| spread.change_lasts(CHANGE, map.now())).max() {
            tokio::time::sleep(wait).await;
            map = self.map().await?;
        }
        let now = map.now();
        let mut known = self.pushed_before((&map, now), jobs.iter().map(|job| &job.spec)).await?;
        let mut places = Vec::with_capacity(jobs.len());
        for (position, job) in jobs.iter().enumerate() {
            let mut place = Ok(map.of_job(&job.spec, now));
            if job.spec.options.is_linked() && !known.contains_key(&position) {
                place = self.place_of_linked((&map, now), job, &places).await?;
            }
            if let Err(no) = &place {
                known.insert(position, (0, Pushed::Refused(no.clone())));
            }
            places.push((job, place.unwrap_or_default()));
        }
        let choose = |position: usize, _: &NewJob| {
            places.get(position).filter(|_| !known.contains_key(&position)).map(|(_, number)| *number)
        };
        let answer = |position| known.get(&position).map_or(Pushed::Exists, |(_, pushed)| pushed.clone());
        answer_by_store(jobs, choose, (0..jobs.len()).map(answer).collect(), |number, jobs| {
            let partition = self.partition(number);
            async move { partition.push(&jobs).await }
        })
        .await
    }

    /// The jobs, by position, whose ids or unique values are known in a partition that their topic had before: which one.
    pub(super) async fn pushed_before(
        &self,
        (map, now): (&PartitionMap, Timestamp),
        jobs: impl Iterator<Item = &JobSpec>,
    ) -> Result<HashMap<usize, (u32, Pushed)>, StoreError> {
        let mut lookups = Lookups::new();
        for (position, job) in jobs.enumerate() {
            let Some(spread) = map.spread(&job.topic) else { continue };
            let value = job.options.unique.as_ref().map_or("", |unique| unique.value.as_str());
            for number in spread.earlier_places(job, now) {
                if !self.partitions.0.departed.lock().contains(&(number, job.topic.clone())) {
                    lookups.entry((number, &job.topic)).or_default().push((position, job.id.as_str(), value));
                }
            }
        }
        let mut known = HashMap::new();
        for ((number, topic), found, has_departed) in self.look_up(&lookups).await? {
            known.extend(found.into_iter().map(|(position, pushed)| (position, (number, pushed))));
            if has_departed && map.spread(topic).is_some_and(|spread| spread.has_lasted(PUSHED_UNTIL, now)) {
                self.partitions.0.departed.lock().insert((number, topic.clone()));
            }
        }
        Ok(known)
    }

    /// Looks up ids and unique values. Returns for each partition and topic which are known, and whether nothing of the topic is
    /// left there.
    #[allow(clippy::type_complexity, reason = "one caller takes it apart at once")]
    async fn look_up<'a>(
        &self,
        lookups: &Lookups<'a>,
    ) -> Result<Vec<((u32, &'a TopicId), Vec<(usize, Pushed)>, bool)>, StoreError> {
        let (mut calls, mut asked) = (Vec::new(), Vec::new());
        for ((number, topic), jobs) in lookups {
            let keys = Keys::new(&self.server.prefix, &topic.tenant, *number);
            for part in jobs.chunks(SCRIPT_JOBS) {
                let names = keys.with_rows([], [&topic.topic]);
                let mut call = Call::new(
                    script!("keys/line.lua", "keys/waiting.lua", "path/push/insert.lua", "partitions/look_up.lua"),
                    &names,
                );
                call.arg(self.server.now_argument()).arg(topic.topic.as_str());
                for (_, id, value) in part {
                    call.arg(*id).arg(*value);
                }
                calls.push(call);
                asked.push(((*number, *topic), part));
            }
        }
        let replies = self.server.link.run(LOOK_UP, calls).await?;
        let answers = asked.into_iter().zip(replies).map(|((place, part), reply)| {
            let (found, has_departed) = Reply::new(reply).and_then(|reply| read(reply, part))?;
            Ok((place, found, has_departed))
        });
        answers.collect::<RedisResult<_>>().map_err(self.server.misread(LOOK_UP))
    }

    /// Those of the topic's dead jobs whose unique values other jobs hold, in whichever partition.
    pub(super) async fn held_elsewhere(
        &self,
        map: &PartitionMap,
        topic: &TopicId,
        ids: &[JobId],
    ) -> Result<HashSet<JobId>, StoreError> {
        let (mut held, now) = (HashSet::new(), map.now());
        let Some(spread) = map.spread(topic).filter(|spread| spread.has_earlier(now)) else { return Ok(held) };
        let mut jobs = Vec::new();
        for id in ids {
            jobs.extend(self.job(&topic.tenant, id).await?.and_then(|view| view.job).map(|job| job.spec));
        }
        let mut lookups = Lookups::new();
        for (position, job) in jobs.iter().enumerate() {
            let Some(value) = job.options.unique.as_ref().and_then(Unique::held_until_done) else { continue };
            for number in spread.earlier_places(job, now).chain([map.of_job(job, now)]) {
                lookups.entry((number, topic)).or_default().push((position, "", value));
            }
        }
        for (_, found, _) in self.look_up(&lookups).await? {
            let others = found.into_iter().filter_map(|(position, pushed)| Some((&jobs.get(position)?.id, pushed)));
            let others = others.filter(|(id, pushed)| !matches!(pushed, Pushed::Duplicate(holder) if holder == *id));
            held.extend(others.map(|(id, _)| id.clone()));
        }
        Ok(held)
    }
}

fn read(mut reply: Reply, part: &[(usize, &str, &str)]) -> RedisResult<(Vec<(usize, Pushed)>, bool)> {
    let has_departed = reply.number()? == 1;
    let mut found = Vec::new();
    for (position, id, _) in part {
        let holder = reply.text()?;
        if holder.is_empty() {
            continue;
        }
        let pushed = if holder == *id { Pushed::Exists } else { Pushed::Duplicate(job_id(&holder)?) };
        found.push((*position, pushed));
    }
    Ok((found, has_departed))
}
