//! What people ask about jobs and topics.

use std::collections::{BTreeMap, BTreeSet, HashMap, HashSet};

use redis::{RedisResult, pipe};

use crate::budget::BudgetUse;
use crate::clock::NEVER;
use crate::redis::clock::TimeReply;
use crate::redis::envelope;
use crate::redis::holder::{claim_fields, claimed_at, parse_claim};
use crate::redis::key_names::{Keys, counter, slots_field};
use crate::redis::record::{read_failure, read_result};
use crate::redis::script::{Call, script};
use crate::redis::store::Partition;
use crate::turns::ahead_by_turns;
use crate::workflows::SHOWN;
use crate::{AHEAD, BehindKey, JobState, JobView, LimitReached, Pause, StoreError, TopicCounts};
use gristmill_core::job::{Job, JobId, Name, Payload, Priority, TopicId};
use gristmill_core::time::Timestamp;
use gristmill_core::topic::TenantFleetLimits;

/// A counter that the scripts keep and that is no total.
const RUNNING: &str = "running";

const LOOK_UP: &str = "look up a job";

type Bytes = Option<Vec<u8>>;

impl Partition {
    pub(crate) async fn clock_time(&self, _: &Name) -> Result<Timestamp, StoreError> {
        let (time,): (TimeReply,) = self.link.query("read the clock", pipe().cmd("TIME")).await?;
        Ok(self.now(time))
    }

    pub(crate) async fn counts(&self, tenant: &Name) -> Result<Vec<TopicCounts>, StoreError> {
        const DOING: &str = "count jobs";
        let keys = self.keys(tenant);
        let mut ask = pipe();
        ask.cmd("ZRANGE").arg(keys.topics()).arg(0).arg(-1).cmd("SMEMBERS").arg(keys.paused());
        ask.cmd("HGETALL").arg(keys.counts()).cmd("ZRANGE").arg(keys.limited()).arg(0).arg(-1).arg("WITHSCORES");
        ask.cmd("HGETALL").arg(keys.tenant()).cmd("HGETALL").arg(keys.pauses());
        type Texts = HashMap<String, String>;
        type Reply = (Vec<String>, HashSet<String>, HashMap<String, i64>, HashMap<String, f64>, Texts, Texts);
        let (used, paused, counters, limited, of_tenant, pauses): Reply = self.link.query(DOING, &ask).await?;
        let (budget, tenant_limits) = read_tenant(&of_tenant);
        let topics: BTreeSet<Name> = used.iter().chain(&paused).filter_map(|name| name.parse().ok()).collect();

        let mut totals: BTreeMap<TopicId, BTreeMap<String, u64>> = BTreeMap::new();
        for (field, n) in counters {
            if let Some((topic, what)) = counter(&field, tenant) {
                totals.entry(topic).or_default().insert(what, u64::try_from(n).unwrap_or(0));
            }
        }
        let mut ask = pipe();
        for topic in &topics {
            for priority in Priority::ALL {
                ask.cmd("LLEN").arg(keys.ready(priority, topic));
            }
            ask.cmd("ZCARD").arg(keys.delayed(topic)).cmd("ZCARD").arg(keys.dead(topic));
            ask.cmd("ZCOUNT").arg(keys.delayed(topic)).arg(NEVER.as_millis()).arg("+inf");
            ask.cmd("HGET").arg(keys.slots()).arg(format!(" {topic}"));
        }
        let sizes: Vec<Option<u64>> = if topics.is_empty() { Vec::new() } else { self.link.query(DOING, &ask).await? };
        let sizes: Vec<u64> = sizes.into_iter().map(Option::unwrap_or_default).collect();
        let (sizes, _) = sizes.as_chunks::<7>();
        let with_ready: Vec<&Name> = topics
            .iter()
            .zip(sizes)
            .filter(|(_, [high, normal, low, ..])| high + normal + low > 0)
            .map(|(topic, _)| topic)
            .collect();
        let oldest = self.find_oldest(tenant, &with_ready).await?;
        let oldest: HashMap<Name, Option<Timestamp>> = with_ready.into_iter().cloned().zip(oldest).collect();
        Ok(topics
            .into_iter()
            .zip(sizes)
            .map(|(topic, &[high, normal, low, delayed, dead, waiting, waiting_for_key])| {
                let oldest_ready = oldest.get(&topic).copied().flatten();
                let ready = high + normal + low + waiting_for_key;
                let paused = paused.contains(topic.as_str());
                let pause = pauses.get(topic.as_str()).filter(|_| paused).and_then(|noted| read_pause(noted));
                let limited = limited.get(topic.as_str()).copied().map(limit_reached);
                let limited = limited.map(|limited| budget.named(tenant_limits, limited));
                let topic = TopicId { tenant: tenant.clone(), topic };
                let mut totals = totals.remove(&topic).unwrap_or_default();
                let running = totals.remove(RUNNING).unwrap_or(0);
                TopicCounts {
                    topic,
                    ready,
                    waiting_for_key,
                    delayed,
                    waiting,
                    running,
                    dead,
                    oldest_ready,
                    paused,
                    pause,
                    limited,
                    totals,
                }
            })
            .collect())
    }

    pub(crate) async fn job(&self, tenant: &Name, id: &JobId) -> Result<Option<JobView>, StoreError> {
        let keys = self.keys(tenant);
        let mut ask = pipe();
        ask.cmd("HGET").arg(keys.jobs()).arg(id.as_str()).cmd("GET").arg(keys.result(id));
        let (stored, result): (Bytes, Bytes) = self.link.query(LOOK_UP, &ask).await?;
        match stored {
            // The topic, which the rest of the keys depend on, never changes.
            Some(stored) => self.view_stored(&keys, self.read(tenant, id, &stored)?).await,
            None => Ok(result.and_then(|result| finished(id, &result))),
        }
    }

    /// Those of this partition, and at most one more than `limit`.
    pub(crate) async fn jobs_of_key(
        &self,
        topic: &TopicId,
        key: &str,
        limit: usize,
    ) -> Result<Option<Vec<JobId>>, StoreError> {
        let (keys, field) = (self.keys(&topic.tenant), slots_field(&topic.topic, key));
        self.jobs_of_lines("list the jobs of a key", &keys, &[field], limit + 1, true).await.map(Some)
    }

    pub(crate) async fn unique_holder(&self, topic: &TopicId, value: &str) -> Result<Option<JobId>, StoreError> {
        let mut ask = pipe();
        ask.cmd("HGET").arg(self.keys(&topic.tenant).unique(&topic.topic)).arg(value);
        let (held,): (Option<String>,) = self.link.query("look up a unique value", &ask).await?;
        // Behind the id, until when it is held.
        Ok(held.and_then(|held| held.split(' ').next()?.parse().ok()))
    }

    pub(crate) async fn jobs_ahead(&self, topic: &TopicId, id: &JobId) -> Result<Option<u64>, StoreError> {
        const DOING: &str = "look for a job's place";
        let keys = self.keys(&topic.tenant);
        let mut ask = pipe();
        ask.atomic();
        for priority in Priority::ALL {
            let line = keys.ready(priority, &topic.topic);
            // Claims take from the right.
            ask.cmd("LPOS").arg(&line).arg(id.as_str()).arg("RANK").arg(-1).arg("MAXLEN").arg(AHEAD + 1);
            ask.cmd("LLEN").arg(line);
        }
        ask.cmd("HGET").arg(keys.turns()).arg(topic.topic.as_str());
        let found: Vec<Option<u64>> = self.link.query(DOING, &ask).await?;
        let ([high, normal, low], turn) = match found.as_chunks::<2>() {
            (&[high, normal, low], turn) => ([high, normal, low], turn.iter().flatten().next().copied()),
            _ => return Ok(None),
        };
        let turn = usize::try_from(turn.unwrap_or_default()).unwrap_or_default();
        let places = [high, normal, low].map(|[place, jobs]| (place, jobs.unwrap_or_default()));
        let own = Priority::ALL.into_iter().zip(places).find_map(|(own, (place, jobs))| Some((own, place?, jobs)));
        let Some((own, place, jobs)) = own else { return Ok(None) };
        Ok(ahead_by_turns(turn, own, jobs.saturating_sub(place + 1), places.map(|(_, jobs)| jobs)))
    }
}

impl Partition {
    /// The ids of at most `limit` jobs that wait for these keys, fields of `slots`, or hold their slots as well, if that is wanted: those of a key together, the
    /// ones that have waited longest first.
    pub(in crate::redis) async fn jobs_of_lines(
        &self,
        doing: &'static str,
        keys: &Keys,
        fields: &[String],
        limit: usize,
        with_holders: bool,
    ) -> Result<Vec<JobId>, StoreError> {
        let mut call = Call::new(script!("keys/line.lua", "look/list/of_keys.lua"), &[keys.slots()]);
        call.arg(limit).arg(u8::from(with_holders)).arg(fields);
        let mut reply = self.reply(doing, call).await?;
        let mut ids = Vec::new();
        while !reply.is_empty() {
            ids.extend(reply.text().map_err(self.misread(doing))?.parse().ok());
        }
        Ok(ids)
    }

    /// Reads everything about the job at one moment, or else it might be seen in two places.
    async fn view_stored(&self, keys: &Keys, job: Job) -> Result<Option<JobView>, StoreError> {
        let (topic, id) = (&job.spec.topic, &job.spec.id);
        let names = [
            keys.jobs(),
            keys.claims(),
            keys.failures(),
            keys.leases(),
            keys.extended(),
            keys.cancelled(),
            keys.delayed(&topic.topic),
            keys.dead(&topic.topic),
            keys.result(id),
            keys.keyed(),
            keys.slots(),
            keys.checkpoints(),
        ];
        let mut call = Call::new(script!("keys/line.lua", "look/inspect/view.lua"), &names);
        call.arg(id.as_str());
        call.arg(job.spec.shared_key().map(|key| slots_field(&topic.topic, key)).unwrap_or_default());
        let mut reply = self.reply(LOOK_UP, call).await?;
        let mut read = || -> RedisResult<_> {
            let stored = (reply.bytes()?, reply.bytes()?, reply.text()?, reply.bytes()?);
            let at = [reply.text()?, reply.text()?, reply.text()?];
            let cancelled = reply.number()? == 1;
            let behind = (reply.text()?, reply.text()?.parse().ok());
            let last = (reply.bytes()?, reply.number()? == 1);
            Ok((stored, at.map(|ms| ms.parse().ok()), cancelled, behind, last))
        };
        let (
            (result, stored, claim, failure),
            [lease, delayed, dead],
            cancelled,
            (holders, ahead),
            (checkpoint, was_held_back),
        ) = read().map_err(self.misread(LOOK_UP))?;
        if stored.is_empty() {
            // It ended between the two questions.
            return Ok(finished(id, &result));
        }
        let (delivery, attempts, worker) = parse_claim(&claim);
        let waits_for = match job.spec.options.waits() {
            true => self.waits_for(&topic.tenant, id, SHOWN).await?,
            false => None,
        };
        let (kept, result_topic) = read_result(&result).map(|(_, result, topic)| (result, topic)).unzip();
        Ok(Some(JobView {
            id: id.clone(),
            state: state((worker, delivery), cancelled, lease, delayed, dead),
            job: Some(self.read(&topic.tenant, id, &stored)?),
            attempts,
            last_failure: read_failure(&failure),
            result: kept,
            result_topic: result_topic.flatten(),
            behind: ahead.map(|ahead| BehindKey { holders: read_holders(&holders), ahead }),
            rate_of_key: was_held_back && delayed.is_some(),
            waits_for,
            checkpoint: Some(Payload { data: checkpoint, content_type: None }).filter(|saved| !saved.data.is_empty()),
            claimed_at: claimed_at(claim_fields(&claim).2),
            progress: None,
            ended: None,
        }))
    }

    fn read(&self, tenant: &Name, id: &JobId, stored: &[u8]) -> Result<Job, StoreError> {
        envelope::read(tenant, id.clone(), stored).map_err(|problem| StoreError::Unreadable {
            store: self.link.address.clone(),
            job: id.to_string(),
            problem: problem.to_string(),
        })
    }
}

/// The jobs that hold the slots of a key: in its field of `slots` the first line.
pub(in crate::redis) fn read_holders(text: &str) -> Vec<JobId> {
    let mut ids: Vec<JobId> =
        text.lines().next().unwrap_or_default().split(' ').filter_map(|id| id.parse().ok()).collect();
    ids.sort();
    ids
}

/// Since when a topic is paused, and by whom, as `pauses` has it. `None`: another program wrote it.
pub(in crate::redis) fn read_pause(noted: &str) -> Option<Pause> {
    let (since, by) = noted.split_once(' ')?;
    let by = Some(by).filter(|by| !by.is_empty()).map(str::to_owned);
    Some(Pause { since: Timestamp::from_millis(since.parse().ok()?), by })
}

/// What `tenant` says of budgets: how far they are used, and what they are.
fn read_tenant(fields: &HashMap<String, String>) -> (BudgetUse, TenantFleetLimits) {
    let number = |name: &str| fields.get(name).and_then(|text| text.parse().ok()).unwrap_or_default();
    let used = BudgetUse { day: number("day"), jobs: number("jobs"), hour: number("hour"), fuel: number("fuel") };
    let mut limits = fields.get("limits").map_or("", String::as_str).split(':').skip(1).map(|most| most.parse().ok());
    let mut next = || limits.next().flatten();
    let limits = TenantFleetLimits { max_running: None, jobs_per_day: next(), fuel_per_hour: next() };
    (used, limits)
}

/// What a score in `limited` says: a finite one is a time in whole milliseconds; one below zero, since when a job of the tenant has to end.
fn limit_reached(score: f64) -> LimitReached {
    if score.is_infinite() {
        LimitReached::MaxRunning
    } else if score < 0.0 {
        LimitReached::TenantMaxRunning
    } else {
        LimitReached::Rate { until: Timestamp::from_millis(score as u64) }
    }
}

pub(in crate::redis) fn finished(id: &JobId, result: &[u8]) -> Option<JobView> {
    let (attempts, result, result_topic) = read_result(result)?;
    Some(JobView { result: Some(result), result_topic, ..JobView::over(id.clone(), attempts, None) })
}

fn state(
    (worker, delivery): (&str, u64),
    cancelled: bool,
    lease: Option<f64>,
    delayed: Option<f64>,
    dead: Option<f64>,
) -> JobState {
    // Rounded up, as lists have them.
    let at = |ms: Option<f64>| ms.map(|ms| Timestamp::from_millis(ms.ceil() as u64));
    match (at(lease), at(delayed), at(dead)) {
        (Some(lease_until), ..) => JobState::Running { worker: worker.to_owned(), delivery, lease_until, cancelled },
        (_, Some(until), _) => JobState::delayed(until),
        (_, _, Some(since)) => JobState::Dead { since },
        _ => JobState::Ready,
    }
}
