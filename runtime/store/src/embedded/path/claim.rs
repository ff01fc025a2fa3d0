//! Claim: ready jobs are taken by turns and leased to a worker.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::fallible_streaming_iterator::FallibleStreamingIterator;
use rusqlite::{CachedStatement, Row, Rows};

use super::finish::how::How;
use crate::batch::{ByteBudget, CLAIM_BYTES};
use crate::clock::wait_ms;
use crate::embedded::fault::{Done, Fault};
use crate::embedded::file::request::{Request, Weight};
use crate::embedded::keys::key_rates::{Asking, HELD_BACK, KeyRates};
use crate::embedded::memory::running::{Claiming, RunningJob};
use crate::embedded::memory::topic::Topic;
use crate::embedded::memory::topics::Number;
use crate::embedded::place::JobLine;
use crate::embedded::row::{JOB_COLUMNS, JobHistory, job_columns, key_of_slot, read_id, read_job, stored_bytes, whole};
use crate::embedded::store::EmbeddedStore;
use crate::embedded::work::Work;
use crate::{ClaimFrom, Claimed, Claims, StoreError, WaitToClaim, WaitingClaim};
use gristmill_core::job::{Claim, Ended, Job, JobId, Lease, Priority, TopicId, WorkerId};
use gristmill_core::outcome::Failure;
use gristmill_core::time::Timestamp;

/// The ready jobs of a line: those behind the last one that was claimed. A text for each priority, because the three statements
/// are under way at once.
macro_rules! ready {
    ($priority:literal) => {
        concat!(
            "SELECT ",
            job_columns!(),
            ", number, large, slot FROM job_rows WHERE number > ?1 AND number <= ?2 ORDER BY number -- ",
            $priority
        )
    };
}
/// Where they stand in a row.
const NUMBER: usize = JOB_COLUMNS;
const LARGE: usize = JOB_COLUMNS + 1;
const SLOT: usize = JOB_COLUMNS + 2;

const READY: [(Priority, &str); 3] =
    [(Priority::High, ready!("high")), (Priority::Normal, ready!("normal")), (Priority::Low, ready!("low"))];

const DOING: &str = "claim jobs";

#[async_trait]
impl Claims for EmbeddedStore {
    async fn claim(&self, worker: &WorkerId, from: &[ClaimFrom]) -> Result<Claimed, StoreError> {
        let (mut from, mut refused) = (from.to_vec(), Vec::new());
        loop {
            let weight = Weight { jobs: from.iter().fold(0, |sum, line| sum.saturating_add(line.max)), bytes: 0 };
            let (worker, lines) = (worker.clone(), from.clone());
            let answer = self.ask(weight, move |work| work.claim(&worker, &lines)).await;
            match answer.await.unwrap_or(Err(Fault::Closed)) {
                Ok(claimed) => return Ok(Claimed { refused, ..claimed }),
                // After a damaged page SQLite commits nothing: the others once more, without this one.
                Err(Fault::Damaged { topic, fault }) => {
                    from.retain(|line| line.topic != topic);
                    refused.push((topic, self.error(*fault, DOING)));
                }
                Err(fault) => return Err(self.error(fault, DOING)),
            }
        }
    }
}

impl WaitToClaim for EmbeddedStore {
    fn wait_to_claim(&self, worker: &WorkerId, from: &[ClaimFrom]) -> Option<WaitingClaim> {
        let (worker, lines) = (worker.clone(), from.to_vec());
        let claim = move |work: &mut Work<'_>| work.claim(&worker, &lines);
        let (request, answer) = Request::new(self.clock.clone(), Weight::default(), claim);
        let number = self.waiting_claims().add(from, request);
        let (asked, waiting) = (self.clone(), self.clone());
        let answer = async move { asked.answer(DOING, answer).await };
        Some(WaitingClaim::new(answer, move || waiting.waiting_claims().take_back(number)))
    }
}

impl<'a> Work<'a> {
    fn claim(&mut self, worker: &WorkerId, from: &[ClaimFrom]) -> Done<Claimed> {
        let claim = self.sequence.next_claim(self.now());
        let (mut claimed, mut room) = (Claimed::default(), ByteBudget::of(CLAIM_BYTES));
        let mut drained = BTreeSet::new();
        for line in from.iter().filter(|line| line.max > 0) {
            let Some(topic) = self.topics.find(self.connection, &line.topic)? else {
                drained.insert(&line.topic);
                continue;
            };
            let (next, key_rates) =
                self.read_next(topic, line, &mut room).map_err(|fault| fault.of_topic(&line.topic))?;
            if next.is_drained || next.is_held_back {
                drained.insert(&line.topic);
            }
            let (count, is_held_back) = (next.jobs.len(), next.is_held_back);
            let lease_until = self.now().plus(Duration::from_millis(wait_ms(line.lease)));
            if count > 0 || key_rates.as_ref().is_some_and(KeyRates::holds_some_back) {
                self.set_key_limits(topic, line.limits.per_key);
            }
            if let Some(key_rates) = key_rates {
                self.save_key_rates(topic, key_rates)?;
            }
            claimed.claims.extend(self.lease(topic, next, Claiming { worker, claim, lease_until })?);
            if line.limits.is_some() {
                self.note_started(topic, line.limits, count, is_held_back)?;
            }
        }
        for line in from.iter().filter(|line| line.limits.tenant.max_running.is_some()) {
            // A topic that waits until a job of the tenant ends may have been woken and found nothing to do.
            if self.topics.has_waiting(&line.topic.tenant) {
                let unused = self.allowed_of_tenant(&line.topic.tenant, line.limits.tenant)?;
                self.unlimit_waiting(&line.topic.tenant, unused);
            }
        }
        Ok(Claimed { drained: drained.into_iter().cloned().collect(), ..claimed })
    }

    /// Leases the jobs that are next in a topic.
    fn lease(&mut self, topic: Number, next: Next, by: Claiming<'_>) -> Done<Vec<Claim>> {
        let Next { jobs, turn, is_drained, .. } = next;
        let count = jobs.len();
        if count > 0 || is_drained && self.topics.get(topic).active {
            let changed = self.topics.change(topic);
            changed.turn = turn;
            changed.ready = changed.ready.saturating_sub(count as u64);
            // From here on the next job to arrive is signalled: no wake-up can be lost.
            changed.active &= !is_drained;
            self.topics.add_running(topic, i64::try_from(count).unwrap_or(i64::MAX));
        }
        let of = self.topics.get(topic).id.clone();
        let (mut claims, mut unreadable) = (Vec::with_capacity(count), Vec::new());
        let mut lines: [Vec<(JobId, RunningJob)>; 3] = Default::default();
        for Ready { priority, id, job, history, running, was_held_back } in jobs {
            if was_held_back {
                self.start_held_back(running.number)?;
            }
            match job {
                Ok(job) => claims.push(Claim {
                    job: Arc::new(job),
                    lease: Lease {
                        job: id.clone(),
                        topic: of.clone(),
                        worker: by.worker.clone(),
                        delivery: running.deliveries,
                        batch: Some(whole(by.claim)),
                    },
                    attempt: running.attempts,
                    claimed_at: self.time.now,
                    lease_until: by.lease_until,
                    previous: history.failure.map(|failure| failure.reason),
                    checkpoint: history.checkpoint,
                }),
                Err(problem) => unreadable.push((id.clone(), problem)),
            }
            if let Some(line) = lines.get_mut(priority as usize) {
                line.push((id, RunningJob { lease_until: by.lease_until, ..running }));
            }
        }
        for ((priority, _), jobs) in READY.into_iter().zip(lines) {
            let Some((_, last)) = jobs.last() else { continue };
            let last = last.number;
            let changed = self.topics.change(topic);
            changed.claimed.set(priority, last);
            changed.running_jobs.add(&mut self.statements, by, jobs)?;
        }
        for (id, problem) in unreadable {
            self.bury_unreadable(topic, &id, problem)?;
        }
        Ok(claims)
    }

    /// Reads the jobs that are next by turns, as many as are asked for, as its limits allow and as there is room for; none of a paused
    /// topic. Passes over those that the rate of their key holds back, which are returned if the keys have one. Changes nothing.
    fn read_next(
        &mut self,
        topic: Number,
        from: &ClaimFrom,
        room: &mut ByteBudget,
    ) -> Done<(Next, Option<KeyRates<'a>>)> {
        let max = self.allowed(topic, from)?;
        let topic = self.topics.get(topic);
        let waits = |priority| !topic.paused && topic.last.get(priority) > topic.claimed.get(priority);
        let prepare = |(priority, sql)| waits(priority).then(|| self.connection.prepare_cached(sql)).transpose();
        let [high, normal, low] = READY.map(prepare);
        let (mut high, mut normal, mut low) = (high?, normal?, low?);
        let mut lines = ReadyLines {
            high: open(high.as_mut(), topic, Priority::High)?,
            normal: open(normal.as_mut(), topic, Priority::Normal)?,
            low: open(low.as_mut(), topic, Priority::Low)?,
        };
        // Where all jobs are alike, no priority loses its turn.
        let alike = lines.high.head().is_none() && lines.low.head().is_none();
        let mut next = Next { jobs: Vec::new(), turn: topic.turn, is_drained: false, is_held_back: false };
        let mut key_rates = KeyRates::new(self.connection, topic, from.limits.per_key, self.time.now);
        while next.jobs.len() < max && !key_rates.as_ref().is_some_and(KeyRates::is_full) {
            let Some((priority, line)) = lines.next(next.turn) else {
                next.is_drained = true;
                break;
            };
            let Some(row) = line.head() else { break };
            let slot = row.get(SLOT)?;
            let key = if key_rates.is_some() { key_of_slot(row, slot)? } else { None };
            let mut asked = key_rates.as_mut().zip(asking(row, key.as_deref(), slot)?);
            if let Some((rates, asking)) = &mut asked
                && !rates.may_start(*asking)?
            {
                line.advance()?;
                continue;
            }
            let Some(job) = read(row, priority, &from.topic, room)? else { break };
            if let Some((rates, asking)) = asked {
                rates.start(asking)?;
            }
            next.jobs.push(job);
            line.advance()?;
            if !alike {
                next.turn = (next.turn + 1) % Priority::TURNS.len();
            }
        }
        if next.jobs.len() == max && max < from.max {
            next.is_held_back = lines.next(next.turn).is_some();
            next.is_drained = !next.is_held_back;
        }
        Ok((next, key_rates))
    }

    /// Gives up a running job that cannot be read, so that no other job waits for it and an operator can see it among the dead.
    fn bury_unreadable(&mut self, topic: Number, id: &JobId, problem: String) -> Done<()> {
        tracing::warn!(topic = %self.topics.get(topic).id, job = %id, %problem, "buried a job that cannot be read");
        let failure = Failure::unreadable(problem);
        self.free_all(topic, id)?;
        self.end_run(topic);
        let changed = self.topics.change(topic);
        let Some(running) = changed.running_jobs.remove(&mut self.statements, id)? else { return Ok(()) };
        self.finish(topic, Some(running.number), &How::Dead(&failure), running.key.as_deref(), None)?;
        let tenant = self.topics.get(topic).id.tenant.clone();
        self.note_end(&tenant, id, Ended::Dead);
        self.carry_ends()
    }
}

/// What a claim takes from a topic.
struct Next {
    jobs: Vec<Ready>,
    /// Whose turn it is then.
    turn: usize,
    /// There are no more.
    is_drained: bool,
    /// There are more, and the topic's limits keep them in line.
    is_held_back: bool,
}

/// A ready job that a claim takes.
struct Ready {
    priority: Priority,
    id: JobId,
    /// Or why it cannot be read.
    job: Result<Job, String>,
    history: JobHistory,
    running: RunningJob,
    /// By the rate of its key.
    was_held_back: bool,
}

/// What the job of a row asks the rate of its key.
fn asking<'k>(row: &Row<'_>, key: Option<&'k str>, slot: Option<i64>) -> Done<Option<Asking<'k>>> {
    let Some(key) = key else { return Ok(None) };
    Ok(Some(Asking { row: row.get(NUMBER)?, key, was_held_back: slot == Some(HELD_BACK) }))
}

/// Returns `None` if there is no room for the job.
fn read(row: &Row<'_>, priority: Priority, topic: &TopicId, room: &mut ByteBudget) -> Done<Option<Ready>> {
    if !room.take(stored_bytes(row)?) {
        return Ok(None);
    }
    let (job, history) = (read_job(row, topic), JobHistory::read(row)?.claimed());
    let unique = match &job {
        Ok(job) => {
            job.spec.options.unique.as_ref().filter(|unique| unique.window.is_none() && !unique.value.is_empty())
        }
        Err(_) => None,
    };
    let slot: Option<i64> = row.get(SLOT)?;
    let running = RunningJob {
        number: row.get(NUMBER)?,
        attempts: history.attempts,
        deliveries: history.deliveries,
        lease_until: Timestamp::default(),
        cancelled: false,
        unique: unique.map(|unique| unique.value.clone()),
        key: key_of_slot(row, slot)?,
        large: row.get(LARGE)?,
    };
    let id = match &job {
        Ok(job) => job.spec.id.clone(),
        Err(_) => read_id(row)?,
    };
    Ok(Some(Ready { priority, id, job, history, running, was_held_back: slot == Some(HELD_BACK) }))
}

/// The ready jobs of one priority, in the order in which they became ready. One that is not open has none.
struct OpenLine<'a>(Option<Rows<'a>>);

fn open<'a>(statement: Option<&'a mut CachedStatement<'_>>, topic: &Topic, priority: Priority) -> Done<OpenLine<'a>> {
    let (_, last) = JobLine::Of(priority).bounds(topic.number);
    let rows = statement.map(|statement| statement.query([topic.claimed.get(priority), last])).transpose()?;
    let mut line = OpenLine(rows);
    line.advance()?;
    Ok(line)
}

impl OpenLine<'_> {
    fn head(&self) -> Option<&Row<'_>> {
        self.0.as_ref()?.get()
    }

    fn advance(&mut self) -> Done<()> {
        Ok(self.0.iter_mut().try_for_each(Rows::advance)?)
    }
}

/// Something that waits in line, or not.
trait Waits {
    fn waits(&self) -> bool;
}

impl Waits for OpenLine<'_> {
    fn waits(&self) -> bool {
        self.head().is_some()
    }
}

/// A topic's ready jobs.
struct ReadyLines<L> {
    high: L,
    normal: L,
    low: L,
}

impl<L: Waits> ReadyLines<L> {
    /// The line whose job is next by turns; if that line has no jobs, the highest that has some.
    fn next(&mut self, turn: usize) -> Option<(Priority, &mut L)> {
        let priority = Priority::at_turn(turn, |priority| self.line(priority).waits())?;
        Some((priority, self.line_mut(priority)))
    }

    const fn line(&self, priority: Priority) -> &L {
        match priority {
            Priority::High => &self.high,
            Priority::Normal => &self.normal,
            Priority::Low => &self.low,
        }
    }

    const fn line_mut(&mut self, priority: Priority) -> &mut L {
        match priority {
            Priority::High => &mut self.high,
            Priority::Normal => &mut self.normal,
            Priority::Low => &mut self.low,
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::VecDeque;

    use super::*;

    impl Waits for VecDeque<i64> {
        fn waits(&self) -> bool {
            !self.is_empty()
        }
    }

    #[test]
    fn turns_are_taken_and_gaps_are_filled_from_above() {
        let mut lines = ReadyLines {
            high: VecDeque::from([1, 2, 3]),
            normal: VecDeque::from([10, 11]),
            low: VecDeque::from([20, 21]),
        };
        let order: Vec<i64> = (0..).map_while(|turn| lines.next(turn)?.1.pop_front()).collect();
        // High, normal, high, high, normal; then high's turns go to low, the highest that is left.
        assert_eq!(order, [1, 10, 2, 3, 11, 20, 21]);
    }
}
