//! Moving jobs to and from another store.

use std::collections::HashSet;
use std::time::Duration;

use redis::{RedisResult, Value, pipe};

use super::clock::TimeReply;
use super::envelope;
use super::holder::parse_claim;
use super::key_names::{Keys, all_behind, slots_field};
use super::look::inspect::read_holders;
use super::path::push::{held, priority, yes};
use super::record::{read_failure, write_failure};
use super::script::reply::Reply;
use super::script::run::{BatchCall, positions};
use super::script::{Call, script};
use super::store::{Numbered, Partition, SCRIPT, SCRIPT_JOBS, by_tenant};
use crate::batch::{Weight, parts as cut};
use crate::clock::point_ms;
use crate::weight::Weigh;
use crate::{Imported, Sealed, StoreError, StoredJob, StoredPlace};
use gristmill_core::job::{JobId, Name, Priority, TopicId, Unique};
use gristmill_core::time::Timestamp;

const READ: &str = "read jobs to be moved";
const IMPORT: &str = "import jobs";
const REMOVE: &str = "remove exported jobs";

/// What a sealed job is known by that this store can keep: its stamp and envelope.
const KIND: &str = "redis";

/// How many elements of each List one call of the script looks at.
const ADOPTED: usize = 1000;

type Bytes = Option<Vec<u8>>;

/// Ids with the place that they are in.
type Placed = Vec<(JobId, StoredPlace)>;

impl Partition {
    pub(super) async fn export(&self, topic: &TopicId, limit: usize) -> Result<Vec<StoredJob>, StoreError> {
        if limit == 0 {
            return Ok(Vec::new());
        }
        let keys = self.keys(&topic.tenant);
        let mut look_at = limit;
        loop {
            self.adopt_waiting(&keys, &topic.topic, look_at).await?;
            let found = self.waiting_and_dead(&keys, &topic.topic, look_at).await?;
            let mut jobs = Vec::new();
            for part in found.chunks(SCRIPT_JOBS) {
                jobs.extend(self.read_stored(&keys, topic, part).await?);
            }
            // None at all means that the topic is empty. So where nothing but ids of running jobs was found, which only
            // others can have written there, look further.
            if !jobs.is_empty() || found.len() < look_at {
                jobs.truncate(limit);
                return Ok(jobs);
            }
            look_at = look_at.saturating_mul(2);
        }
    }

    pub(super) async fn import(&self, jobs: &[StoredJob]) -> Result<Vec<Imported>, StoreError> {
        let groups = by_tenant(jobs, |stored| &stored.job.spec.topic.tenant);
        self.list_tenants(IMPORT, groups.keys().copied()).await?;
        let mut parts = Vec::new();
        for (tenant, mut group) in groups {
            group.retain(|(_, stored)| can_keep(stored));
            let keys = self.keys(tenant);
            for (part, _) in cut(group, SCRIPT, |(_, stored)| weight(stored)) {
                let call = self.import_call(&keys, &part)?;
                parts.push(BatchCall { call, positions: positions(&part), read: read_imported });
            }
        }
        // As for a push: the other store removes what this one has.
        let mut imported = self.run_batch_acknowledged(IMPORT, parts).await?.into_iter();
        let answer = |stored| can_keep(stored).then(|| imported.next()).flatten().unwrap_or(Imported::Unreadable);
        Ok(jobs.iter().map(answer).collect())
    }

    pub(super) async fn remove_exported(&self, topic: &TopicId, ids: &[JobId]) -> Result<Vec<bool>, StoreError> {
        let keys = self.keys(&topic.tenant);
        let mut names = keys.with_rows([], [&topic.topic]);
        names.extend([keys.claims(), keys.failures(), keys.checkpoints(), keys.moved()]);
        let mut answers = Vec::with_capacity(ids.len());
        for ids in ids.chunks(SCRIPT_JOBS) {
            let mut ask = pipe();
            ask.cmd("HMGET").arg(keys.jobs()).arg(ids.iter().map(JobId::as_str).collect::<Vec<_>>());
            let (stored,): (Vec<Bytes>,) = self.link.query(REMOVE, &ask).await?;
            let mut call = Call::new(
                script!(
                    "keys/line.lua",
                    "keys/waiting.lua",
                    "links/links.lua",
                    "path/finish/ends.lua",
                    "path/finish/finish.lua",
                    "transfer/remove_exported.lua"
                ),
                &names,
            );
            call.arg(self.now_argument()).arg(keys.wake_channel()).arg(topic.topic.as_str());
            for (id, stored) in ids.iter().zip(stored) {
                let job = stored.and_then(|stored| envelope::read(&topic.tenant, id.clone(), &stored).ok());
                let unique = job.and_then(|job| job.spec.options.unique);
                call.arg(id.as_str()).arg(unique.map(|unique| unique.value).unwrap_or_default());
            }
            answers.extend(self.yes_or_no(REMOVE, call).await?);
        }
        Ok(answers)
    }

    pub(crate) async fn clear_move_marks(&self, tenant: &Name, ids: &[JobId]) -> Result<(), StoreError> {
        let keys = self.keys(tenant);
        for ids in ids.chunks(SCRIPT_JOBS) {
            let mut forget = pipe();
            forget.cmd("HDEL").arg(keys.moved()).arg(ids.iter().map(JobId::as_str).collect::<Vec<_>>());
            self.link.query::<Value>("clear marks of moved jobs", &forget).await?;
        }
        Ok(())
    }
}

impl Partition {
    /// Makes jobs of what raw producers wrote, or it would stay behind.
    async fn adopt_waiting(&self, keys: &Keys, topic: &Name, limit: usize) -> Result<(), StoreError> {
        let mut names = keys.with_rows([], [topic]);
        names.extend([keys.strays(topic), keys.raw()]);
        let mut call = Call::new(
            script!("keys/line.lua", "keys/waiting.lua", "path/claim/adopt.lua", "transfer/adopt_waiting.lua"),
            &names,
        );
        call.arg(self.now_argument()).arg(topic.as_str()).arg(limit.min(ADOPTED));
        self.link.run(READ, vec![call]).await.map(drop)
    }

    /// Ids in the order of the move, at most `limit`, as they are at one moment; those that wait for keys, as they were just before.
    async fn waiting_and_dead(&self, keys: &Keys, topic: &Name, limit: usize) -> Result<Placed, StoreError> {
        let last = i64::try_from(limit).unwrap_or(i64::MAX);
        let (first_behind, last_behind) = all_behind(topic);
        let mut ask = pipe();
        ask.cmd("ZRANGEBYLEX").arg(keys.behind()).arg(first_behind).arg(last_behind).arg("LIMIT").arg(0).arg(last);
        let (lines,): (Vec<String>,) = self.link.query(READ, &ask).await?;
        let behind = match lines.is_empty() {
            true => Vec::new(),
            false => self.jobs_of_lines(READ, keys, &lines, limit, false).await?,
        };
        let mut ask = pipe();
        ask.atomic();
        for priority in Priority::ALL {
            ask.cmd("LRANGE").arg(keys.ready(priority, topic)).arg(-last).arg(-1);
        }
        for key in [keys.delayed(topic), keys.dead(topic)] {
            ask.cmd("ZRANGE").arg(key).arg(0).arg(last - 1).arg("WITHSCORES");
        }
        // Bytes and not text: what others wrote there may be anything.
        type List = Vec<Vec<u8>>;
        type Scores = Vec<(Vec<u8>, f64)>;
        let (high, normal, low, delayed, dead): (List, List, List, Scores, Scores) =
            self.link.query(READ, &ask).await?;

        let id = |bytes: Vec<u8>| String::from_utf8(bytes).ok()?.parse::<JobId>().ok();
        let at = |score: f64| Timestamp::from_millis(score.ceil() as u64);
        // In at the left, out at the right.
        let ready = [high, normal, low].into_iter().flat_map(|list| list.into_iter().rev());
        let ready = ready.filter_map(|bytes| Some((id(bytes)?, StoredPlace::Ready)));
        let delayed = delayed.into_iter();
        let delayed =
            delayed.filter_map(|(bytes, score)| Some((id(bytes)?, StoredPlace::Delayed { until: at(score) })));
        let dead = dead.into_iter();
        let dead = dead.filter_map(|(bytes, score)| Some((id(bytes)?, StoredPlace::Dead { since: at(score) })));
        let placed: Placed = ready.chain(delayed).chain(dead).take(limit).collect();
        // One that got the slot of its key since then is in both.
        let elsewhere: HashSet<&JobId> = placed.iter().map(|(id, _)| id).collect();
        let behind: Placed =
            behind.into_iter().filter(|id| !elsewhere.contains(id)).map(|id| (id, StoredPlace::Ready)).collect();
        Ok(placed.into_iter().chain(behind).take(limit).collect())
    }

    async fn read_stored(
        &self,
        keys: &Keys,
        topic: &TopicId,
        part: &[(JobId, StoredPlace)],
    ) -> Result<Vec<StoredJob>, StoreError> {
        let ids: Vec<&str> = part.iter().map(|(id, _)| id.as_str()).collect();
        let mut ask = pipe();
        for key in [keys.jobs(), keys.claims(), keys.failures(), keys.checkpoints(), keys.priorities()] {
            ask.cmd("HMGET").arg(key).arg(&ids);
        }
        ask.cmd("TIME");
        type Texts = Vec<Option<String>>;
        type Reply = (Vec<Bytes>, Texts, Vec<Bytes>, Vec<Bytes>, Texts, TimeReply);
        let (stored, claims, failures, checkpoints, priorities, time): Reply = self.link.query(READ, &ask).await?;

        let mut jobs = Vec::with_capacity(part.len());
        let known =
            part.iter().zip(stored).zip(claims.iter().zip(&priorities)).zip(failures.into_iter().zip(checkpoints));
        for ((((id, place), stored), (claim, priority)), (failure, checkpoint)) in known {
            let (deliveries, attempts, worker) = parse_claim(claim.as_deref().unwrap_or_default());
            // Claimed, or gone, between the two questions.
            let Some(stored) = stored.filter(|_| worker.is_empty()) else { continue };
            let (job, sealed) = match envelope::read(&topic.tenant, id.clone(), &stored) {
                Ok(job) => (job, None),
                Err(problem) => {
                    let mut job = envelope::placeholder(topic, id.clone(), &stored);
                    job.spec.options.priority = priority.as_deref().and_then(Priority::parse).unwrap_or_default();
                    (job, Some(Sealed { kind: KIND, bytes: stored, problem: problem.to_string() }))
                }
            };
            let last_failure = failure.as_deref().and_then(read_failure);
            jobs.push(StoredJob {
                job,
                sealed,
                place: *place,
                attempts,
                deliveries,
                last_failure,
                checkpoint,
                holds_slot: false,
                unique_for: None,
            });
        }
        self.leave_out_linked(keys, &mut jobs).await?;
        self.add_windows(keys, topic, &mut jobs, self.now(time)).await?;
        self.add_slots(keys, topic, &mut jobs).await?;
        Ok(jobs)
    }

    /// Leaves out jobs that wait for others or have waited, and those that are waited for, unless they are dead: they stay until they have
    /// ended.
    async fn leave_out_linked(&self, keys: &Keys, jobs: &mut Vec<StoredJob>) -> Result<(), StoreError> {
        let mut ask = pipe();
        ask.cmd("EXISTS").arg(keys.links());
        let (some,): (bool,) = self.link.query(READ, &ask).await?;
        if !some || jobs.is_empty() {
            return Ok(());
        }
        let mut ask = pipe();
        for StoredJob { job, .. } in &*jobs {
            for before in [format!("w {} = ", job.spec.id), format!("j {} ", job.spec.id)] {
                let (first, last) = (format!("[{before}"), format!("({before}~"));
                ask.cmd("ZLEXCOUNT").arg(keys.links()).arg(first).arg(last);
            }
        }
        let counts: Vec<u64> = self.link.query(READ, &ask).await?;
        let (counts, _) = counts.as_chunks::<2>();
        let mut counts = counts.iter();
        jobs.retain(|stored| {
            let is_linked = counts.next().is_some_and(|counts| *counts != [0, 0]);
            !is_linked || matches!(stored.place, StoredPlace::Dead { .. })
        });
        Ok(())
    }

    /// How much longer jobs hold the values that are held for a time.
    async fn add_windows(
        &self,
        keys: &Keys,
        topic: &TopicId,
        jobs: &mut [StoredJob],
        now: Timestamp,
    ) -> Result<(), StoreError> {
        let window =
            |job: &StoredJob| job.job.spec.options.unique.as_ref().filter(|unique| unique.window.is_some()).cloned();
        let mut holding: Vec<_> = jobs.iter_mut().filter_map(|job| window(job).map(|unique| (job, unique))).collect();
        if holding.is_empty() {
            return Ok(());
        }
        let mut ask = pipe();
        ask.cmd("HMGET").arg(keys.unique(&topic.topic));
        for (_, unique) in &holding {
            ask.arg(&unique.value);
        }
        let (holders,): (Vec<Option<String>>,) = self.link.query(READ, &ask).await?;
        for ((job, _), holder) in holding.iter_mut().zip(holders) {
            let expiry = holder.as_deref().and_then(|holder| {
                let (id, expiry) = holder.split_once(' ')?;
                expiry.parse().ok().filter(|_| id == job.job.spec.id.as_str())
            });
            let left = expiry.map(|expiry| Timestamp::from_millis(expiry).since(now));
            job.unique_for = left.filter(|left| !left.is_zero());
        }
        Ok(())
    }

    /// Which delayed and dead jobs hold a slot of their key.
    async fn add_slots(&self, keys: &Keys, topic: &TopicId, jobs: &mut [StoredJob]) -> Result<(), StoreError> {
        let fields = jobs.iter_mut().filter(|stored| stored.place != StoredPlace::Ready).filter_map(|stored| {
            let field = slots_field(&topic.topic, stored.job.spec.shared_key()?);
            Some((stored, field))
        });
        let (with_keys, fields): (Vec<_>, Vec<_>) = fields.unzip();
        if fields.is_empty() {
            return Ok(());
        }
        let mut ask = pipe();
        ask.cmd("HMGET").arg(keys.slots()).arg(fields);
        let (holders,): (Vec<Option<String>>,) = self.link.query(READ, &ask).await?;
        for (stored, holders) in with_keys.into_iter().zip(holders) {
            stored.holds_slot = read_holders(&holders.unwrap_or_default()).contains(&stored.job.spec.id);
        }
        Ok(())
    }

    fn import_call(&self, keys: &Keys, part: &[(usize, &StoredJob)]) -> Result<Call, StoreError> {
        let mut topics: Numbered<&Name> = Numbered(Vec::new());
        let numbers: Vec<usize> = part.iter().map(|(_, stored)| topics.number(&stored.job.spec.topic.topic)).collect();
        let more = [keys.claims(), keys.failures(), keys.checkpoints(), keys.moved()];
        let mut call = Call::new(
            script!("keys/line.lua", "keys/waiting.lua", "path/push/insert.lua", "transfer/import.lua"),
            &keys.with_rows(more, topics.0.iter().copied()),
        );
        call.arg(self.now_argument()).arg(keys.wake_channel()).topics(&topics.0);
        for ((_, stored), topic) in part.iter().zip(numbers) {
            let StoredJob { job, place, attempts, deliveries, last_failure, checkpoint, holds_slot, .. } = stored;
            let (place, at) = match place {
                StoredPlace::Ready => ("ready", 0),
                StoredPlace::Delayed { until } => ("delayed", point_ms(*until)),
                StoredPlace::Dead { since } => ("dead", point_ms(*since)),
            };
            let unwritable = |error| self.refused(IMPORT, anyhow::Error::from(error));
            let failure = last_failure.as_ref().map(write_failure).transpose().map_err(unwritable)?;
            call.arg(job.spec.id.as_str()).arg(topic).arg(place).arg(at);
            call.arg(priority(&job.spec)).arg(still_held(stored).unwrap_or_default());
            call.arg(if *deliveries == 0 { String::new() } else { format!("{deliveries}:{attempts}:") });
            call.arg(failure.unwrap_or_default()).arg(checkpoint.as_deref().unwrap_or_default());
            call.arg(job.spec.shared_key().unwrap_or_default()).arg(yes(*holds_slot));
            call.arg(body(stored).map_err(unwritable)?);
        }
        Ok(call)
    }
}

/// Whether this store can keep the form of the job; it can keep any that can be read.
fn can_keep(stored: &StoredJob) -> bool {
    stored.sealed.as_ref().is_none_or(|sealed| sealed.open(KIND).is_some())
}

/// Stamp and envelope of a job that this store [can keep](can_keep).
fn body(stored: &StoredJob) -> Result<Vec<u8>, rmp_serde::encode::Error> {
    match stored.sealed.as_ref().and_then(|sealed| sealed.open(KIND)) {
        Some(bytes) => Ok(bytes.to_vec()),
        None => envelope::write_stored(&stored.job),
    }
}

/// The unique value that the job brings along, as `import.lua` takes it. A dead job holds none until it is over.
fn still_held(stored: &StoredJob) -> Option<String> {
    let unique = stored.job.spec.options.unique.clone()?;
    let window: Option<Duration> = match unique.window {
        Some(_) => Some(stored.unique_for?),
        None if matches!(stored.place, StoredPlace::Dead { .. }) => return None,
        None => None,
    };
    Some(held(&Unique { window, ..unique }))
}

fn weight(stored: &StoredJob) -> Weight {
    Weight::of_job(stored.weight())
}

fn read_imported(mut reply: Reply, _: usize) -> RedisResult<Vec<Imported>> {
    let mut imported = Vec::new();
    while !reply.is_empty() {
        imported.push(match reply.number()? {
            1 => Imported::Stored,
            2 => Imported::Before,
            _ => Imported::IdTaken,
        });
    }
    Ok(imported)
}
