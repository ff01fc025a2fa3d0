//! What people ask about jobs and topics.

use std::collections::BTreeMap;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::ended;
use crate::clock::NEVER;
use crate::embedded::fault::{Done, Fault};
use crate::embedded::keys::key_rates::was_held_back;
use crate::embedded::limits::tenant::read_use;
use crate::embedded::links::waits_for;
use crate::embedded::memory::topic::{PriorityRows, read_limited};
use crate::embedded::place::{JobLine, priority_of, topic_of};
use crate::embedded::results;
use crate::embedded::row::{JobHistory, at, job_columns, lease_until, ms, read_job, shown_jobs, text, topic, whole};
use crate::embedded::store::EmbeddedStore;
use crate::embedded::work;
use crate::turns::ahead_by_turns;
use crate::workflows::SHOWN;
use crate::{AHEAD, BehindKey, Heartbeat, JobState, JobView, Pause, Query, StoreError, TopicCounts};
use gristmill_core::job::{JobId, Name, Payload, Priority, Progress, TopicId, WorkerId};
use gristmill_core::time::Timestamp;

/// The topics of a tenant that held a job or are paused.
const TOPICS: &str =
    "SELECT topic, ready, waiting_for_key, delayed, running, dead, paused, since, actor, limited_until, number, claimed_high, claimed_normal, claimed_low
                      FROM topics LEFT JOIN pauses ON paused = 1 AND topic_number = number WHERE tenant = ?1 AND (used = 1 OR paused = 1) ORDER BY topic";

/// When the job at the head of a line became due.
const HEAD: &str = "SELECT due_at FROM job_rows WHERE number > ?1 AND number <= ?2 ORDER BY number LIMIT 1";

/// The jobs of a topic that wait for others.
const STANDING_BY: &str = "SELECT count(*) FROM job_rows WHERE number >> 43 = ?1 AND delayed_until = ?2";

/// What became of a tenant's jobs.
const TOTALS: &str = "SELECT topic, name, n FROM topics JOIN totals ON topic_number = number WHERE tenant = ?1";

/// All tenants that have or had jobs.
const TENANTS: &str = "SELECT tenant FROM topics WHERE used = 1 UNION SELECT tenant FROM schedules ORDER BY tenant";

/// The workers with the latest heartbeats.
const HEARTBEATS: &str =
    "SELECT worker, seen FROM (SELECT worker, seen FROM workers ORDER BY seen DESC LIMIT 1000) ORDER BY worker";

/// A job and where it is.
const JOB: &str = shown_jobs!("id = ?1 AND job_rows.tenant = ?2");

/// The row of a topic's job, and how far its lines were claimed.
const READY_PLACE: &str = "SELECT job_rows.number, turn, claimed_high, claimed_normal, claimed_low FROM job_rows
                           JOIN topics ON topics.number = job_rows.number >> 43
                           WHERE id = ?1 AND job_rows.tenant = ?2 AND topics.topic = ?3";

/// How many rows stand between two numbers, as far as it is counted.
const BETWEEN: &str =
    "SELECT count(*) FROM (SELECT 1 FROM job_rows WHERE number > ?1 AND number < ?2 ORDER BY number LIMIT ?3)";

/// The jobs that hold a slot of a key.
const HOLDERS: &str = "SELECT id FROM job_rows WHERE number >> 43 = ?1 AND key = ?2 AND slot > 0 ORDER BY id";

/// The jobs that hold a slot of a key of a topic, or wait for one.
const OF_KEY: &str =
    "SELECT id FROM job_rows WHERE number >> 43 = (SELECT number FROM topics WHERE tenant = ?1 AND topic = ?2)
                          AND key = ?3 AND slot IS NOT NULL ORDER BY id LIMIT ?4";

/// The holder of a unique value of a topic.
const HOLDER: &str = "SELECT holder FROM uniques WHERE topic_number = (SELECT number FROM topics WHERE tenant = ?1 AND topic = ?2) AND value = ?3";

/// How many jobs have waited for a slot of a key for longer than the one in a row.
const BEFORE: &str = "SELECT count(*) FROM job_rows WHERE number >> 43 = ?1 AND key = ?2 AND slot = 0 AND number < ?3";

#[async_trait]
impl Query for EmbeddedStore {
    async fn counts(&self, tenant: &Name) -> Result<Vec<TopicCounts>, StoreError> {
        let tenant = tenant.clone();
        self.read_list("count jobs", move |connection, _| counts(connection, &tenant)).await
    }

    async fn job(&self, tenant: &Name, id: &JobId) -> Result<Option<JobView>, StoreError> {
        let (tenant, id) = (tenant.clone(), id.clone());
        self.read("look up a job", move |connection, now| view(connection, &tenant, &id, now)).await
    }

    async fn ended(&self, tenant: &Name, id: &JobId) -> Result<Option<JobView>, StoreError> {
        let (tenant, id) = (tenant.clone(), id.clone());
        let find = move |connection: &Connection, now| ended::find(connection, &tenant, &id, now);
        self.read_list("look for a job that ended", find).await
    }

    async fn ended_jobs(&self, topic: &TopicId, limit: usize) -> Result<Vec<JobView>, StoreError> {
        let topic = topic.clone();
        let list = move |connection: &Connection, now| ended::list(connection, &topic, limit, now);
        self.read_list("list jobs that ended", list).await
    }

    async fn progress(&self, tenant: &Name, deliveries: &[(JobId, u64)]) -> Result<Vec<Option<Progress>>, StoreError> {
        Ok(self.attempts_progress().of(tenant, deliveries))
    }

    async fn jobs_of_key(&self, topic: &TopicId, key: &str, limit: usize) -> Result<Option<Vec<JobId>>, StoreError> {
        let (topic, key) = (topic.clone(), key.to_owned());
        let ask = move |connection: &Connection, _| {
            let mut select = connection.prepare_cached(OF_KEY)?;
            let most = i64::try_from(limit).unwrap_or(i64::MAX).saturating_add(1);
            let ids =
                select.query_map(params![topic.tenant.as_str(), topic.topic.as_str(), key, most], |row| row.get(0))?;
            let ids = ids.collect::<Result<Vec<String>, _>>()?;
            Ok((ids.len() <= limit).then(|| ids.iter().filter_map(|id| id.parse().ok()).collect()))
        };
        self.read("list the jobs of a key", ask).await
    }

    async fn unique_holder(&self, topic: &TopicId, value: &str) -> Result<Option<JobId>, StoreError> {
        let (topic, value) = (topic.clone(), value.to_owned());
        let ask = move |connection: &Connection, _| {
            let mut select = connection.prepare_cached(HOLDER)?;
            let of = params![topic.tenant.as_str(), topic.topic.as_str(), value];
            let held: Option<String> = select.query_row(of, |row| row.get(0)).optional()?;
            Ok(held.and_then(|id| id.parse().ok()))
        };
        self.read("look up a unique value", ask).await
    }

    async fn jobs_ahead(&self, topic: &TopicId, id: &JobId) -> Result<Option<u64>, StoreError> {
        let (topic, id) = (topic.clone(), id.clone());
        self.read("look for a job's place", move |connection, _| jobs_ahead(connection, &topic, &id)).await
    }

    async fn tenants(&self) -> Result<Vec<Name>, StoreError> {
        self.read_list("list tenants", |connection, _| {
            let mut select = connection.prepare_cached(TENANTS)?;
            let mut rows = select.query([])?;
            let mut tenants = Vec::new();
            while let Some(row) = rows.next()? {
                tenants.extend(text(row, "tenant")?.and_then(|tenant| tenant.parse().ok()));
            }
            Ok(tenants)
        })
        .await
    }

    async fn clock_time(&self, _: &Name) -> Result<Timestamp, StoreError> {
        self.read("read the clock", |_, now| Ok(now)).await
    }

    async fn heartbeats(&self) -> Result<Vec<Heartbeat>, StoreError> {
        self.read_list("list workers", |connection, now| {
            let mut select = connection.prepare_cached(HEARTBEATS)?;
            let workers = select.query_map([], |row| {
                let (worker, at) = (WorkerId::new(&row.get::<_, String>(0)?), at(row.get(1)?));
                Ok(Heartbeat { worker, at, silent_for: now.since(at) })
            })?;
            Ok(workers.collect::<Result<Vec<_>, _>>()?)
        })
        .await
    }
}

fn counts(connection: &Connection, tenant: &Name) -> Done<Vec<TopicCounts>> {
    let mut totals: BTreeMap<String, BTreeMap<String, u64>> = BTreeMap::new();
    let mut select = connection.prepare_cached(TOTALS)?;
    let mut rows = select.query([tenant.as_str()])?;
    while let Some(row) = rows.next()? {
        let n = whole(row.get("n")?);
        if n > 0 {
            totals.entry(row.get("topic")?).or_default().insert(row.get("name")?, n);
        }
    }
    let (budget, limits) = read_use(connection, tenant)?;
    let mut select = connection.prepare_cached(TOPICS)?;
    let mut rows = select.query([tenant.as_str()])?;
    let mut topics = Vec::new();
    while let Some(row) = rows.next()? {
        let count = |column: &str| row.get(column).map(whole);
        let topic = topic(row, tenant)?;
        topics.push(TopicCounts {
            totals: totals.remove(topic.topic.as_str()).unwrap_or_default(),
            topic,
            ready: count("ready")?,
            waiting_for_key: count("waiting_for_key")?,
            delayed: count("delayed")?,
            waiting: match count("delayed")? {
                0 => 0,
                _ => standing_by(connection, row.get("number")?)?,
            },
            running: count("running")?,
            dead: count("dead")?,
            oldest_ready: match count("ready")? {
                0 => None,
                _ => oldest(connection, row.get("number")?, PriorityRows::read(row)?)?,
            },
            paused: row.get("paused")?,
            pause: match row.get::<_, Option<i64>>("since")? {
                Some(since) => Some(Pause { since: at(since), by: row.get("actor")? }),
                None => None,
            },
            limited: read_limited(row)?.map(|limited| budget.named(limits, limited)),
        });
    }
    Ok(topics)
}

/// How many jobs of a topic wait for others.
fn standing_by(connection: &Connection, topic: i64) -> Done<u64> {
    Ok(connection.prepare_cached(STANDING_BY)?.query_row([topic, ms(NEVER)], |row| row.get(0).map(whole))?)
}

/// The earliest due time at the heads of a topic's lines.
fn oldest(connection: &Connection, topic: i64, claimed: PriorityRows) -> Done<Option<Timestamp>> {
    let mut head = connection.prepare_cached(HEAD)?;
    let mut oldest: Option<i64> = None;
    for line in Priority::ALL {
        let (_, last) = JobLine::Of(line).bounds(topic);
        let due = head.query_row([claimed.get(line), last], |row| row.get(0)).optional()?;
        oldest = oldest.into_iter().chain(due).min();
    }
    Ok(oldest.map(at))
}

fn view(connection: &Connection, tenant: &Name, id: &JobId, now: Timestamp) -> Done<Option<JobView>> {
    let kept = results::find(connection, tenant, id, now)?;
    let mut select = connection.prepare_cached(JOB)?;
    let mut rows = select.query(params![id.as_str(), tenant.as_str()])?;
    let Some(row) = rows.next()? else {
        let over = |(attempts, result, result_topic)| JobView {
            result: Some(result),
            result_topic,
            ..JobView::over(id.clone(), attempts, None)
        };
        return Ok(kept.map(over));
    };
    let behind = behind(connection, row)?;
    let was_held_back = was_held_back(row)?;
    let unreadable = |problem| Fault::Unreadable { job: id.to_string(), problem };
    let job = read_job(row, &topic(row, tenant)?).map_err(unreadable)?;
    let (state, history) = state(row)?;
    let rate_of_key = was_held_back && matches!(state, JobState::Delayed { .. });
    let waits_for = if job.spec.options.waits() { waits_for(connection, tenant, id, SHOWN)? } else { None };
    let (result, result_topic) = kept.map(|(_, result, topic)| (result, topic)).unzip();
    Ok(Some(JobView {
        id: id.clone(),
        state,
        job: Some(job),
        attempts: history.attempts,
        last_failure: history.failure,
        result,
        result_topic: result_topic.flatten(),
        behind,
        rate_of_key,
        waits_for,
        checkpoint: history.checkpoint.map(|data| Payload { data, content_type: None }),
        claimed_at: claimed_at(row)?,
        progress: None,
        ended: None,
    }))
}

/// The jobs that the job of a row waits for, if it waits for its key.
fn behind(connection: &Connection, row: &Row<'_>) -> Done<Option<BehindKey>> {
    let (number, slot, key): (i64, Option<i64>, Option<String>) =
        (row.get("number")?, row.get("slot")?, row.get("key")?);
    if slot != Some(0) {
        return Ok(None);
    }
    let mut select = connection.prepare_cached(HOLDERS)?;
    let holders = select.query_map(params![topic_of(number), key], |row| row.get(0))?;
    let holders = holders.collect::<Result<Vec<String>, _>>()?;
    let mut before = connection.prepare_cached(BEFORE)?;
    let ahead = before.query_row(params![topic_of(number), key, number], |row| row.get(0).map(whole))?;
    Ok(Some(BehindKey { holders: holders.iter().filter_map(|id| id.parse().ok()).collect(), ahead }))
}

/// Counts the ready jobs of higher priority, and those before the job in its own line.
fn jobs_ahead(connection: &Connection, topic: &TopicId, id: &JobId) -> Done<Option<u64>> {
    let place = connection
        .prepare_cached(READY_PLACE)?
        .query_row(params![id.as_str(), topic.tenant.as_str(), topic.topic.as_str()], |row| {
            Ok((row.get::<_, i64>("number")?, row.get::<_, i64>("turn")?, PriorityRows::read(row)?))
        });
    let Some((number, turn, claimed)) = place.optional()? else { return Ok(None) };
    let Some(own) = priority_of(number).filter(|own| claimed.get(*own) < number) else { return Ok(None) };
    let mut count = connection.prepare_cached(BETWEEN)?;
    let mut jobs_until =
        |line, end| count.query_row([claimed.get(line), end, AHEAD.cast_signed() + 1], |row| row.get(0).map(whole));
    let before = jobs_until(own, number)?;
    let mut lines = [0; 3];
    for (jobs, line) in lines.iter_mut().zip(Priority::ALL) {
        *jobs = if line == own { before + 1 } else { jobs_until(line, JobLine::Of(line).bounds(topic_of(number)).1)? };
    }
    Ok(ahead_by_turns(usize::try_from(turn).unwrap_or_default(), own, before, lines))
}

/// When a running job was claimed, given a row of [`shown_jobs`].
pub(in crate::embedded) fn claimed_at(row: &Row<'_>) -> Done<Option<Timestamp>> {
    Ok(row.get::<_, Option<i64>>("claim")?.map(work::claimed_at))
}

/// Where a job is, and what is known of it, given a row of [`shown_jobs`].
pub(in crate::embedded) fn state(row: &Row<'_>) -> Done<(JobState, JobHistory)> {
    let history = JobHistory::read(row)?;
    if let Some(until) = row.get::<_, Option<i64>>("delayed_until")? {
        return Ok((JobState::delayed(at(until)), history));
    }
    if let Some(since) = row.get::<_, Option<i64>>("dead_since")? {
        return Ok((JobState::Dead { since: at(since) }, history));
    }
    let Some(worker) = row.get("worker")? else { return Ok((JobState::Ready, history)) };
    let history = history.claimed();
    let running = JobState::Running {
        worker,
        delivery: history.deliveries,
        lease_until: at(row.get("lease_until")?),
        cancelled: row.get("cancelled")?,
    };
    Ok((running, history))
}
