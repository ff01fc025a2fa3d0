//! What people ask about jobs and topics, and the switch that pauses one.

use std::collections::BTreeMap;

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, Row, params};

use super::fault::{Done, Fault};
use super::place::Line;
use super::result;
use super::row::{Known, at, job_columns, lease_until, read_job, shown_jobs, text, topic, whole};
use super::store::EmbeddedStore;
use super::topic::Lines;
use super::work::Work;
use crate::{JobState, JobView, Query, Signal, StoreError, TopicCounts};
use gristmill_core::job::{JobId, Name, Priority, TopicId};
use gristmill_core::time::Timestamp;

/// The topics of a tenant that held a job or are paused.
const TOPICS: &str =
    "SELECT topic, ready, delayed, running, dead, paused, number, claimed_high, claimed_normal, claimed_low
                      FROM topics WHERE tenant = ?1 AND (used = 1 OR paused = 1) ORDER BY topic";

/// When the job at the head of a line became due.
const HEAD: &str = "SELECT due_at FROM job_rows WHERE number > ?1 AND number <= ?2 ORDER BY number LIMIT 1";

/// What became of a tenant's jobs.
const TOTALS: &str = "SELECT topic, name, n FROM topics JOIN totals ON topic_number = number WHERE tenant = ?1";

/// Everybody who has or had jobs.
const TENANTS: &str = "SELECT DISTINCT tenant FROM topics WHERE used = 1 ORDER BY tenant";

/// A job and where it is.
const JOB: &str = shown_jobs!("id = ?1 AND job_rows.tenant = ?2");

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
}

impl Work<'_> {
    pub(super) fn set_paused(&mut self, id: &TopicId, paused: bool) -> Done<bool> {
        let found = self.topics.find(self.connection, id)?;
        if found.is_some_and(|topic| self.topics.get(topic).paused) == paused {
            return Ok(false);
        }
        let topic = self.topics.find_or_add(self.connection, id)?;
        let changed = self.topics.change(topic);
        changed.paused = paused;
        changed.active = !paused && changed.ready > 0;
        if changed.active {
            self.signals.push(Signal::Ready(id.clone()));
        }
        Ok(true)
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
            delayed: count("delayed")?,
            running: count("running")?,
            dead: count("dead")?,
            oldest_ready: match count("ready")? {
                0 => None,
                _ => oldest(connection, row.get("number")?, Lines::read(row)?)?,
            },
            paused: row.get("paused")?,
        });
    }
    Ok(topics)
}

/// The earliest due time at the heads of a topic's lines.
fn oldest(connection: &Connection, topic: i64, claimed: Lines) -> Done<Option<Timestamp>> {
    let mut head = connection.prepare_cached(HEAD)?;
    let mut oldest: Option<i64> = None;
    for line in Priority::ALL {
        let (_, last) = Line::Of(line).bounds(topic);
        let due = head.query_row([claimed.get(line), last], |row| row.get(0)).optional()?;
        oldest = oldest.into_iter().chain(due).min();
    }
    Ok(oldest.map(at))
}

fn view(connection: &Connection, tenant: &Name, id: &JobId, now: Timestamp) -> Done<Option<JobView>> {
    let kept = result::find(connection, tenant, id, now)?;
    let mut select = connection.prepare_cached(JOB)?;
    let mut rows = select.query(params![id.as_str(), tenant.as_str()])?;
    let Some(row) = rows.next()? else {
        return Ok(kept.map(|(attempts, result)| JobView {
            id: id.clone(),
            state: JobState::Finished,
            job: None,
            attempts,
            last_failure: None,
            result: Some(result),
        }));
    };
    let unreadable = |problem| Fault::Unreadable { job: id.to_string(), problem };
    let job = read_job(row, &topic(row, tenant)?).map_err(unreadable)?;
    let (state, known) = state(row)?;
    Ok(Some(JobView {
        id: id.clone(),
        state,
        job: Some(job),
        attempts: known.attempts,
        last_failure: known.failure,
        result: kept.map(|(_, result)| result),
    }))
}

/// Where a job is, and what is known of it, given a row of [`shown_jobs`].
pub(super) fn state(row: &Row<'_>) -> Done<(JobState, Known)> {
    let known = Known::read(row)?;
    if let Some(until) = row.get::<_, Option<i64>>("delayed_until")? {
        return Ok((JobState::Delayed { until: at(until) }, known));
    }
    if let Some(since) = row.get::<_, Option<i64>>("dead_since")? {
        return Ok((JobState::Dead { since: at(since) }, known));
    }
    let Some(worker) = row.get("worker")? else { return Ok((JobState::Ready, known)) };
    let known = known.claimed();
    let running = JobState::Running {
        worker,
        delivery: known.deliveries,
        lease_until: at(row.get("lease_until")?),
        cancelled: row.get("cancelled")?,
    };
    Ok((running, known))
}
