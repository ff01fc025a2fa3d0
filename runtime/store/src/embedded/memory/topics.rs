//! The writer's memory of topics: their numbers, places and counts, written down once per commit.
//!
//! The file has one owner, so what is kept here is what is in the file, but for what the transaction under way has
//! changed. If a transaction fails, the topics that it changed are read anew. Every topic with jobs is in memory; of those without jobs, a
//! bounded number, and the others are read when they are asked for.

use std::borrow::Cow;
use std::collections::{BTreeMap, BTreeSet, HashMap, VecDeque};

use rusqlite::{Connection, OptionalExtension, params};

use super::running::Running;
use super::tenant_runs::{TenantRun, TenantRuns};
use super::topic::{SAVE, Topic, row_count};
use crate::LimitReached;
use crate::embedded::fault::{Done, Fault};
use crate::embedded::links::remaining;
use crate::embedded::look::ended::{self, EndRecord, Together};
use crate::embedded::place::{LAST_TOPIC, topic_of};
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_core::time::Timestamp;
use gristmill_core::topic::KeyLimits;

/// How many topics without jobs stay in memory. Those that are used now and then need not be read each time.
const EMPTY: usize = 4096;

/// Every topic with jobs.
const LOAD: &str = "SELECT * FROM topics WHERE ready > 0 OR delayed > 0 OR running > 0 OR dead > 0 ORDER BY number";

/// A topic by its name.
const FIND: &str = "SELECT * FROM topics WHERE tenant = ?1 AND topic = ?2";

/// A topic by its number.
const READ: &str = "SELECT * FROM topics WHERE number = ?1";

/// The number that was given out last.
const LAST: &str = "SELECT coalesce(max(number), 0) FROM topics";

/// A number that a forgotten topic had.
const UNUSED: &str = "SELECT min(number) + 1 FROM topics
                      WHERE NOT EXISTS (SELECT 1 FROM topics AS next WHERE next.number = topics.number + 1)";

/// Adds to a total.
const ADD: &str = "INSERT INTO totals (topic_number, name, n) VALUES (?1, ?2, ?3)
                   ON CONFLICT (topic_number, name) DO UPDATE SET n = n + ?3";

/// Forgets the totals of a topic.
const FORGET_TOTALS: &str = "DELETE FROM totals WHERE topic_number = ?1";

/// Forgets a topic, unless unique values name it by its number.
const FORGET: &str = "DELETE FROM topics WHERE number = ?1
                          AND NOT EXISTS (SELECT 1 FROM uniques WHERE topic_number = ?1)";

/// Forgets who paused a topic.
pub(in crate::embedded) const FORGET_PAUSE: &str = "DELETE FROM pauses WHERE topic_number = ?1";

/// A topic's place in the memory. Good until the end of the transaction.
pub(in crate::embedded) type Number = usize;

#[derive(Debug, Default)]
pub(in crate::embedded) struct Topics {
    topics: Vec<Topic>,
    /// A row was deleted since this was last asked.
    has_deleted: bool,
    /// Places of `topics` that are used again.
    free: Vec<Number>,
    by_id: HashMap<TopicId, Number>,
    by_number: HashMap<i64, Number>,
    /// The topics of each tenant that have delayed jobs or wait for their rate, with the time of what comes first.
    due: HashMap<Name, BTreeSet<(Timestamp, Name, Number)>>,
    /// The number in the file that was given out last.
    last: i64,
    /// Some jobs may wait for others, or have waited.
    pub(in crate::embedded) some_links: bool,
    /// Tenants whose ended jobs have links that are still to be passed on or forgotten.
    pub(in crate::embedded) unfinished: BTreeSet<Name>,
    /// Topics that were without jobs, the longest ago first. Some have jobs by now.
    empty: VecDeque<Number>,
    tenants: TenantRuns,
    /// What the transaction has changed, and whether it is to be written down at its end.
    changed: BTreeMap<Number, bool>,
    /// What is to be added to which total.
    tally: HashMap<(Number, Cow<'static, str>), u64>,
    /// The jobs that have ended in the transaction.
    ended: Vec<(Number, Together)>,
}

impl Topics {
    pub(in crate::embedded) fn load(connection: &Connection) -> Done<Self> {
        let some_links = remaining::some_links(connection)?;
        let mut all = Self { last: connection.query_row(LAST, [], |row| row.get(0))?, some_links, ..Self::default() };
        all.unfinished = remaining::unfinished(connection)?;
        let mut running = Running::load(connection)?;
        let mut select = connection.prepare(LOAD)?;
        let mut rows = select.query([])?;
        while let Some(row) = rows.next()? {
            if let Some(mut topic) = Topic::read(row)? {
                topic.running_jobs = running.remove(&topic.number).unwrap_or_default();
                topic.find_last(connection)?;
                all.add(topic);
            }
        }
        all.count_tenants();
        Ok(all)
    }

    #[expect(clippy::indexing_slicing, reason = "free places are places of this memory, which never shrinks")]
    fn add(&mut self, topic: Topic) -> Number {
        let place = self.free.pop().unwrap_or(self.topics.len());
        self.by_id.insert(topic.id.clone(), place);
        self.by_number.insert(topic.number, place);
        if let Some(due) = topic.wakes_at() {
            self.due.entry(topic.id.tenant.clone()).or_default().insert((due, topic.id.topic.clone(), place));
        }
        if place == self.topics.len() {
            self.topics.push(topic);
        } else {
            self.topics[place] = topic;
        }
        self.list_empty(place);
        place
    }

    /// The topic; `None` if it has never been used.
    pub(in crate::embedded) fn find(&mut self, connection: &Connection, id: &TopicId) -> Done<Option<Number>> {
        if let Some(place) = self.by_id.get(id) {
            return Ok(Some(*place));
        }
        let mut find = connection.prepare_cached(FIND)?;
        let found = find.query_row([id.tenant.as_str(), id.topic.as_str()], |row| Ok(Topic::read(row))).optional()?;
        Ok(found.transpose()?.flatten().map(|topic| self.add(topic)))
    }

    /// The topic that the row of a job belongs to.
    pub(in crate::embedded) fn of_job(&self, row: i64, job: &JobId) -> Done<Number> {
        let number = topic_of(row);
        let lost = || Fault::Unreadable { job: job.to_string(), problem: format!("its topic {number} is missing") };
        self.by_number.get(&number).copied().ok_or_else(lost)
    }

    /// The number in the file of every topic with jobs.
    pub(in crate::embedded) fn numbers(&self) -> impl Iterator<Item = i64> {
        self.topics.iter().map(|topic| topic.number)
    }

    pub(in crate::embedded) fn find_or_add(&mut self, connection: &Connection, id: &TopicId) -> Done<Number> {
        if let Some(place) = self.find(connection, id)? {
            return Ok(place);
        }
        let number = self.next_number(connection)?;
        Ok(self.add(Topic::new(number, id.clone())))
    }

    fn next_number(&mut self, connection: &Connection) -> Done<i64> {
        if self.last < LAST_TOPIC {
            self.last += 1;
            return Ok(self.last);
        }
        // All those of this memory that are not in the file yet are at the end, which was reached.
        let unused: i64 = connection.query_row(UNUSED, [], |row| row.get(0))?;
        let is_free = unused <= LAST_TOPIC && !self.by_number.contains_key(&unused);
        let full = || Fault::Refused(format!("the file has {LAST_TOPIC} topics, and no room for more"));
        is_free.then_some(unused).ok_or_else(full)
    }

    #[expect(clippy::indexing_slicing, reason = "numbers are places of this memory, which never shrinks")]
    pub(in crate::embedded) fn get(&self, topic: Number) -> &Topic {
        &self.topics[topic]
    }

    /// The topic, to be changed.
    #[expect(clippy::indexing_slicing, reason = "numbers are places of this memory, which never shrinks")]
    pub(in crate::embedded) fn change(&mut self, topic: Number) -> &mut Topic {
        self.changed.insert(topic, true);
        &mut self.topics[topic]
    }

    /// The topic's running jobs, to be changed: they are written down as they change.
    #[expect(clippy::indexing_slicing, reason = "numbers are places of this memory, which never shrinks")]
    pub(in crate::embedded) fn running_jobs_mut(&mut self, topic: Number) -> &mut Running {
        self.changed.entry(topic).or_insert(false);
        &mut self.topics[topic].running_jobs
    }

    pub(in crate::embedded) fn count(&mut self, topic: Number, what: impl Into<Cow<'static, str>>, n: u64) {
        *self.tally.entry((topic, what.into())).or_default() += n;
        self.changed.insert(topic, true);
    }

    /// Notes how a job has ended, to be remembered.
    pub(in crate::embedded) fn remember(&mut self, topic: Number, job: &JobId, end: EndRecord) {
        if end.keep.is_zero() {
            return;
        }
        // Those that end together follow one another.
        match self.ended.iter_mut().rev().find(|(of, together)| *of == topic && together.end == end) {
            Some((_, together)) => together.add(job),
            None => {
                let mut together = Together::new(end);
                together.add(job);
                self.ended.push((topic, together));
                self.changed.insert(topic, true);
            }
        }
    }

    /// Forgets a topic without jobs. Returns `false` if it has jobs. Its row stays as long as unique values name the topic by
    /// its number.
    pub(in crate::embedded) fn forget(&mut self, connection: &Connection, topic: Number) -> Done<bool> {
        if !self.get(topic).is_empty() {
            return Ok(false);
        }
        let changed = self.change(topic);
        (changed.used, changed.active, changed.paused, changed.turn) = (false, false, false, 0);
        (changed.rate_full_at, changed.per_key) = (0, KeyLimits::DEFAULT);
        self.set_limited(topic, None);
        let number = self.get(topic).number;
        connection.prepare_cached(FORGET_TOTALS)?.execute([number])?;
        connection.prepare_cached(FORGET_PAUSE)?.execute([number])?;
        self.tally.retain(|(counted, _), _| *counted != topic);
        ended::forget(connection, number)?;
        self.ended.retain(|(of, _)| *of != topic);
        if connection.prepare_cached(FORGET)?.execute([number])? > 0 {
            self.has_deleted = true;
            // What is written down from now on is a row again.
            self.changed.insert(topic, false);
        }
        Ok(true)
    }

    /// When the first of the topic's delayed jobs is due.
    pub(in crate::embedded) fn next_due(&self, topic: Number) -> Option<Timestamp> {
        self.get(topic).next_due
    }

    pub(in crate::embedded) fn set_next_due(&mut self, topic: Number, next: Option<Timestamp>) {
        self.change(topic);
        self.move_due(topic, |topic| topic.next_due = next);
    }

    pub(in crate::embedded) fn set_limited(&mut self, topic: Number, limited: Option<LimitReached>) {
        let before = self.change(topic).limited;
        if limited == Some(LimitReached::TenantMaxRunning) && before != limited {
            let tenant = self.get(topic).id.tenant.clone();
            self.tenants.entry(tenant).or_default().waiting.push_back(topic);
        }
        self.move_due(topic, |topic| topic.limited = limited);
    }

    #[expect(clippy::indexing_slicing, reason = "numbers are places of this memory, which never shrinks")]
    fn move_due(&mut self, topic: Number, change: impl FnOnce(&mut Topic)) {
        let moved = &mut self.topics[topic];
        let before = moved.wakes_at();
        change(moved);
        let next = moved.wakes_at();
        if next == before {
            return;
        }
        let TopicId { tenant, topic: name } = moved.id.clone();
        let due = self.due.entry(tenant.clone()).or_default();
        if let Some(before) = before {
            due.remove(&(before, name.clone(), topic));
        }
        due.extend(next.map(|next| (next, name, topic)));
        if due.is_empty() {
            self.due.remove(&tenant);
        }
    }

    /// The topics of a tenant that have delayed jobs or wait for their rate, each with the time of what comes first: those that are due
    /// first come first.
    pub(in crate::embedded) fn due(&self, tenant: &Name) -> impl Iterator<Item = (Timestamp, Number)> {
        self.due.get(tenant).into_iter().flatten().map(|(due, _, topic)| (*due, *topic))
    }

    /// Counts `more` further running jobs of a topic; fewer if it is below zero.
    pub(in crate::embedded) fn add_running(&mut self, topic: Number, more: i64) {
        let changed = self.change(topic);
        changed.running = changed.running.saturating_add_signed(more);
        if !self.tenants.is_empty() {
            let tenant = self.get(topic).id.tenant.clone();
            if let Some(run) = self.tenants.get_mut(&tenant) {
                run.running = run.running.saturating_add_signed(more);
            }
        }
    }

    /// How many jobs of the tenant run, which is counted from now on.
    pub(in crate::embedded) fn tenant_run(&mut self, tenant: &Name) -> &TenantRun {
        if !self.tenants.contains_key(tenant) {
            self.tenants.insert(tenant.clone(), TenantRun::default());
            self.count_tenants();
        }
        self.tenants.entry(tenant.clone()).or_default()
    }

    /// Counts what is remembered of tenants anew.
    fn count_tenants(&mut self) {
        let mut tenants: TenantRuns = self.tenants.drain().map(|(tenant, _)| (tenant, TenantRun::default())).collect();
        let is_waiting = |topic: &Topic| topic.limited == Some(LimitReached::TenantMaxRunning);
        let topics = || self.by_id.values().filter_map(|place| Some((*place, self.topics.get(*place)?)));
        for (place, topic) in topics().filter(|(_, topic)| is_waiting(topic)) {
            tenants.entry(topic.id.tenant.clone()).or_default().waiting.push_back(place);
        }
        for (_, topic) in topics() {
            if let Some(run) = tenants.get_mut(&topic.id.tenant) {
                run.running += topic.running;
            }
        }
        self.tenants = tenants;
    }

    pub(in crate::embedded) fn has_waiting(&self, tenant: &Name) -> bool {
        self.tenants.get(tenant).is_some_and(|run| !run.waiting.is_empty())
    }

    /// The topic of the tenant that has waited for the longest until a job of the tenant ends: it is no longer among those that wait.
    pub(in crate::embedded) fn next_waiting(&mut self, tenant: &Name) -> Option<Number> {
        let run = self.tenants.get_mut(tenant)?;
        let is_waiting = |place: &Number| {
            self.topics.get(*place).is_some_and(|topic| topic.limited == Some(LimitReached::TenantMaxRunning))
        };
        std::iter::from_fn(|| run.waiting.pop_front()).find(is_waiting)
    }

    /// The same of the tenant of a topic.
    pub(in crate::embedded) fn waiting_beside(&mut self, topic: Number) -> Option<Number> {
        if self.tenants.is_empty() {
            return None;
        }
        let tenant = self.get(topic).id.tenant.clone();
        self.next_waiting(&tenant)
    }

    /// Writes down what has changed, before it is committed.
    pub(in crate::embedded) fn save(&mut self, connection: &Connection, now: Timestamp) -> Done<()> {
        if !self.changed.is_empty() {
            let mut save = connection.prepare_cached(SAVE)?;
            for (place, _) in self.changed.iter().filter(|(_, is_written)| **is_written) {
                self.get(*place).save(&mut save, now)?;
            }
            let mut add = connection.prepare_cached(ADD)?;
            for ((place, what), n) in std::mem::take(&mut self.tally) {
                add.execute(params![self.get(place).number, what, row_count(n)])?;
            }
            for (place, together) in std::mem::take(&mut self.ended) {
                together.save(connection, self.get(place).number, now)?;
            }
        }
        Ok(())
    }

    /// Whether rows of topics have changed, with the time of the change.
    pub(in crate::embedded) fn are_written(&self) -> bool {
        self.changed.values().any(|is_written| *is_written)
    }

    /// Whether a row was deleted since this was last asked: it may have been the one that was changed last.
    pub(in crate::embedded) fn take_deleted(&mut self) -> bool {
        std::mem::take(&mut self.has_deleted)
    }

    /// Notes that the transaction was committed, and forgets topics without jobs that are too many.
    pub(in crate::embedded) fn committed(&mut self) {
        for (place, _) in std::mem::take(&mut self.changed) {
            self.list_empty(place);
        }
        while self.empty.len() > EMPTY
            && let Some(place) = self.empty.pop_front()
        {
            self.forget_empty(place);
        }
    }

    /// Reads what the transaction has changed again, once it is rolled back in the file. Topics that it made stay as ones that
    /// were never used.
    ///
    /// # Errors
    /// The file cannot be read. Then the memory says something else than the file.
    #[expect(clippy::indexing_slicing, reason = "numbers are places of this memory, which never shrinks")]
    pub(in crate::embedded) fn roll_back(&mut self, connection: &Connection) -> Done<()> {
        self.tally.clear();
        self.ended.clear();
        self.unfinished = remaining::unfinished(connection)?;
        let mut read = connection.prepare_cached(READ)?;
        for (place, _) in std::mem::take(&mut self.changed) {
            let Topic { number, ref id, listed, .. } = *self.get(place);
            let id = id.clone();
            let found = read.query_row([number], |row| Ok(Topic::read(row))).optional()?;
            let mut topic = found.transpose()?.flatten().unwrap_or_else(|| Topic::new(number, id));
            topic.running_jobs = Running::load_of(connection, number)?;
            topic.find_last(connection)?;
            self.move_due(place, |old| (old.next_due, old.limited) = (topic.next_due, topic.limited));
            self.topics[place] = Topic { listed, ..topic };
            self.list_empty(place);
        }
        if !self.tenants.is_empty() {
            self.count_tenants();
        }
        Ok(())
    }

    #[expect(clippy::indexing_slicing, reason = "numbers are places of this memory, which never shrinks")]
    fn list_empty(&mut self, place: Number) {
        let topic = &mut self.topics[place];
        if topic.is_empty() && !std::mem::replace(&mut topic.listed, true) {
            self.empty.push_back(place);
        }
    }

    /// Forgets a topic that was listed as empty, if it still is.
    #[expect(clippy::indexing_slicing, reason = "numbers are places of this memory, which never shrinks")]
    fn forget_empty(&mut self, place: Number) {
        let topic = &mut self.topics[place];
        topic.listed = false;
        // One that waits for its tenant is named by its place.
        let waits = topic.wakes_at().is_some() || topic.limited == Some(LimitReached::TenantMaxRunning);
        if topic.is_empty() && !waits {
            self.by_id.remove(&topic.id);
            self.by_number.remove(&topic.number);
            self.free.push(place);
        }
    }
}

#[cfg(test)]
#[path = "../tests/topics.rs"]
mod tests;
