//! Migrate: due jobs go from delayed to ready. And the look at what waits.

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::{Connection, params};
use tokio::sync::mpsc;

use crate::clock::{NEVER, fraction};
use crate::embedded::fault::Done;
use crate::embedded::file::request::Weight;
use crate::embedded::keys::slot::missing_key;
use crate::embedded::memory::topics::Number;
use crate::embedded::row::{at, limit as limited, ms, priority, text};
use crate::embedded::schedules::first_schedule;
use crate::embedded::store::EmbeddedStore;
use crate::embedded::work::Work;
use crate::schedules::note_full;
use crate::{FindWork, LimitReached, Migrated, PendingWork, PollTenant, Signal, StoreError};
use gristmill_core::job::{JobId, Name, TopicId, WorkerId};
use gristmill_core::time::Timestamp;

/// How many jobs one request moves at most, so that others get their turn.
const JOBS: usize = 1000;

/// How many topics one request looks at: those whose jobs are due first.
const TOPICS: usize = 64;

/// The due jobs of a topic, in the order in which they become ready.
const DUE: &str = "SELECT number, priority, key, slot FROM job_rows WHERE number >> 43 = ?1 AND delayed_until <= ?2
                   ORDER BY delayed_until, id LIMIT ?3";

/// A delayed job is due.
const READY: &str =
    "UPDATE job_rows SET number = ?2, delayed_until = NULL, slot = coalesce(?3, slot) WHERE number = ?1";

/// When the first of a topic's delayed jobs is due, but for those that wait for others.
const NEXT: &str = "SELECT min(delayed_until) FROM job_rows WHERE number >> 43 = ?1 AND delayed_until < ?2";

/// Topics of a tenant with ready jobs that may start.
const WANTED: &str = "SELECT topic FROM topics WHERE tenant = ?1 AND active = 1 AND paused = 0
                          AND limited_until IS NULL ORDER BY topic";

/// When the first of a tenant's delayed jobs is due, or a rate allows more; at once, if ends of jobs are still to be passed on.
const NEXT_OF_TENANT: &str = "SELECT min(at) FROM (
                                  SELECT next_due AS at FROM topics WHERE tenant = ?1
                                  UNION ALL SELECT 0 FROM awaited INDEXED BY awaited_ended
                                      WHERE tenant = ?1 AND ended IS NOT NULL
                                  UNION ALL SELECT 0 FROM links INDEXED BY links_gone
                                      WHERE tenant = ?1 AND job = '' AND ended = 'f'
                                  UNION ALL SELECT limited_until FROM topics WHERE tenant = ?1 AND limited_until >= 0)";

/// Running jobs of a tenant that were cancelled, and whether they were killed.
const CANCELLED: &str = "SELECT id, killed FROM job_rows WHERE tenant = ?1 AND cancelled = 1 ORDER BY id";

#[async_trait]
impl FindWork for EmbeddedStore {
    /// All workers are in this process: each receives everything.
    async fn wake_ups(
        &self,
        _worker: &WorkerId,
        tenants: &[Name],
        _topics: &[TopicId],
    ) -> Result<mpsc::Receiver<Signal>, StoreError> {
        Ok(self.listen(tenants, true))
    }

    /// They have received it.
    async fn pass_on(&self, _topics: &[TopicId]) -> Result<(), StoreError> {
        Ok(())
    }

    async fn set_full(&self, tenant: &Name, is_full: bool) -> Result<(), StoreError> {
        note_full(self.full(), tenant, is_full);
        Ok(())
    }

    async fn migrate(&self, tenant: &Name, limit: usize) -> Result<Migrated, StoreError> {
        let (mut moved, mut fired) = (0, 0);
        let is_full = self.full().lock().contains(tenant);
        loop {
            let (tenant, some) = (tenant.clone(), limit.saturating_sub(moved).min(JOBS));
            let weight = Weight { jobs: some, bytes: 0 };
            let migrated =
                self.write("migrate due jobs", weight, move |work| work.migrate(&tenant, some, is_full)).await?;
            moved += migrated.moved;
            fired += migrated.fired;
            let is_idle = migrated.moved + migrated.fired == 0;
            if moved >= limit || is_idle || migrated.next_due_in != Some(Duration::ZERO) {
                return Ok(Migrated { moved, fired, ..migrated });
            }
        }
    }

    async fn poll_work(&self, tenants: &[PollTenant]) -> Result<Vec<Result<PendingWork, StoreError>>, StoreError> {
        const DOING: &str = "look for work";
        let (tenants, fraction) = (tenants.to_vec(), fraction(&self.clock));
        let found = self.read(DOING, move |connection, now| {
            let poll = |polled: &PollTenant| poll_work(connection, &polled.tenant, now, fraction);
            Ok(tenants.iter().map(poll).collect::<Vec<_>>())
        });
        Ok(found.await?.into_iter().map(|found| found.map_err(|fault| self.error(fault, DOING))).collect())
    }
}

impl Work<'_> {
    fn migrate(&mut self, tenant: &Name, limit: usize, is_full: bool) -> Done<Migrated> {
        let fired = self.fire_schedules(tenant, is_full)?;
        let passed = self.go_on_with_ends(tenant)?;
        let now = self.now();
        let due = self.topics.due(tenant).take_while(|(at, _)| *at <= now);
        let due: Vec<Number> = due.map(|(_, topic)| topic).take(TOPICS).collect();
        let mut moved = 0;
        for (place, topic) in due.iter().enumerate() {
            // An equal share of what is left: a topic with a million due jobs does not hold up the ones after it.
            let share = limit.saturating_sub(moved).div_ceil(due.len() - place);
            if share == 0 {
                break;
            }
            moved += self.wake_topic(*topic, share)?;
        }
        let next = self.topics.due(tenant).next().map(|(at, _)| at);
        let next = next.into_iter().chain(self.first_schedule(tenant)?).min();
        let next = if self.topics.unfinished.contains(tenant) { Some(self.now()) } else { next };
        Ok(Migrated { moved: moved + passed, fired, next_due_in: next.map(|at| self.time.until(at)) })
    }

    /// Does what is due for a topic. Returns how many of its jobs became ready, and one more if its rate allows more.
    fn wake_topic(&mut self, topic: Number, limit: usize) -> Done<usize> {
        let mut moved = 0;
        if self.topics.get(topic).next_due.is_some_and(|due| due <= self.now()) {
            moved += self.migrate_topic(topic, limit)?;
        }
        let limited_until = self.topics.get(topic).limited.as_ref().and_then(LimitReached::until);
        if limited_until.is_some_and(|until| until <= self.now()) {
            self.unlimit(topic);
            moved += 1;
        }
        Ok(moved)
    }

    fn migrate_topic(&mut self, topic: Number, limit: usize) -> Done<usize> {
        let mut due = self.connection.prepare_cached(DUE)?;
        let jobs = due
            .query_map(params![self.topics.get(topic).number, ms(self.now()), limited(limit)], |row| {
                Ok((row.get("number")?, priority(row), missing_key(row)))
            })?
            .collect::<Result<Vec<(i64, _, _)>, _>>()?;
        let mut ready = self.connection.prepare_cached(READY)?;
        let moved = jobs.len();
        for (number, priority, key) in jobs {
            let place = self.wait(topic, priority?, self.now(), key?.as_deref())?;
            ready.execute(params![number, place.number, place.slot])?;
        }
        let changed = self.topics.change(topic);
        changed.delayed = changed.delayed.saturating_sub(moved as u64);
        self.find_next_due(topic)?;
        Ok(moved)
    }

    /// Looks when the topic's first delayed job is due.
    pub(in crate::embedded) fn find_next_due(&mut self, topic: Number) -> Done<()> {
        let mut next = self.connection.prepare_cached(NEXT)?;
        let due: Option<i64> = next.query_row([self.topics.get(topic).number, ms(NEVER)], |row| row.get(0))?;
        self.topics.set_next_due(topic, due.map(at));
        Ok(())
    }
}

fn poll_work(connection: &Connection, tenant: &Name, now: Timestamp, fraction: Duration) -> Done<PendingWork> {
    let mut wanted = PendingWork::default();
    let mut select = connection.prepare_cached(WANTED)?;
    let mut rows = select.query([tenant.as_str()])?;
    while let Some(row) = rows.next()? {
        let topic = text(row, "topic")?.and_then(|topic| topic.parse().ok());
        wanted.ready.extend(topic.map(|topic| TopicId { tenant: tenant.clone(), topic }));
    }
    let mut next = connection.prepare_cached(NEXT_OF_TENANT)?;
    let next: Option<i64> = next.query_row([tenant.as_str()], |row| row.get(0))?;
    let next = next.map(at).into_iter().chain(first_schedule(connection, tenant)?).min();
    wanted.next_due_in = next.map(|due| due.since(now).saturating_sub(fraction));
    let mut select = connection.prepare_cached(CANCELLED)?;
    let mut rows = select.query([tenant.as_str()])?;
    while let Some(row) = rows.next()? {
        let Some(id) = text(row, "id")?.and_then(|id| id.parse::<JobId>().ok()) else { continue };
        wanted.killed.extend(row.get::<_, bool>("killed")?.then(|| id.clone()));
        wanted.cancelled.push(id);
    }
    Ok(wanted)
}
