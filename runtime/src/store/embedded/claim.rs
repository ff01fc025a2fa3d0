//! Claim: ready jobs are taken by turns and leased to a worker.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use rusqlite::{CachedStatement, params};

use super::fault::Done;
use super::request::Weight;
use super::row::{Known, job_columns, limit, ms, read_id, read_job};
use super::settle::End;
use super::store::EmbeddedStore;
use super::topics::Number;
use super::work::Work;
use crate::job::{Claim, Job, JobId, Lease, Priority, TopicId, WorkerId};
use crate::outcome::{Failure, FailureDetail, Reason};
use crate::store::clock::wait_ms;
use crate::store::{ClaimFrom, Claimed, StoreError};

/// The first of a topic's ready jobs of one priority.
const FIRST: &str = "SELECT number FROM jobs WHERE topic_number = ?1 AND priority = ?2 AND state = 'ready'
                     ORDER BY seq LIMIT ?3";

/// Everything about one job.
const READ: &str = concat!("SELECT ", job_columns!(), " FROM jobs LEFT JOIN bodies USING (number) WHERE number = ?1");

/// Leases a ready job.
const LEASE: &str = "UPDATE jobs SET state = 'running', seq = ?2, worker = ?3, lease_until = ?4,
                         attempts = attempts + 1, deliveries = deliveries + 1
                     WHERE number = ?1";

impl EmbeddedStore {
    pub(super) async fn claim_jobs(&self, worker: &WorkerId, from: &[ClaimFrom]) -> Result<Claimed, StoreError> {
        let (worker, from) = (worker.clone(), from.to_vec());
        let weight = Weight { jobs: from.iter().fold(0, |sum, line| sum.saturating_add(line.max)), bytes: 0 };
        self.write("claim jobs", weight, move |work| work.claim(&worker, &from)).await
    }
}

/// The statements that take a job, prepared once a line.
struct Taking<'a> {
    read: CachedStatement<'a>,
    lease: CachedStatement<'a>,
}

impl Work<'_> {
    fn claim(&mut self, worker: &WorkerId, from: &[ClaimFrom]) -> Done<Claimed> {
        let mut claims = Vec::new();
        let mut drained = BTreeSet::new();
        for line in from.iter().filter(|line| line.max > 0) {
            if self.claim_line(worker, line, &mut claims)? < line.max {
                drained.insert(&line.topic);
            }
        }
        Ok(Claimed { claims, drained: drained.into_iter().cloned().collect(), strays: 0 })
    }

    /// Tells how many jobs were taken, those that turned out to be unreadable included.
    fn claim_line(&mut self, worker: &WorkerId, line: &ClaimFrom, claims: &mut Vec<Claim>) -> Done<usize> {
        let Some(topic) = self.topics.find(&line.topic) else { return Ok(0) };
        let taken = if self.topics.get(topic).paused { Vec::new() } else { self.choose(topic, line.max)? };
        if taken.len() < line.max && self.topics.get(topic).active {
            // From here on the next job to arrive is told: no wake-up can be lost.
            self.topics.change(topic).active = false;
        }
        if taken.is_empty() {
            return Ok(0);
        }
        let changed = self.topics.change(topic);
        changed.ready = changed.ready.saturating_sub(taken.len() as u64);
        changed.running += taken.len() as u64;

        let connection = self.connection;
        let mut taking = Taking { read: connection.prepare_cached(READ)?, lease: connection.prepare_cached(LEASE)? };
        claims.reserve(taken.len());
        for number in &taken {
            match self.take(&mut taking, *number, worker, line)? {
                Taken::Claim(claim) => claims.push(*claim),
                Taken::Unreadable { id, attempts, problem } => {
                    self.bury_unreadable(topic, *number, id, attempts, problem)?;
                }
            }
        }
        Ok(taken.len())
    }

    /// The jobs whose turn it is, in order.
    fn choose(&mut self, topic: Number, max: usize) -> Done<Vec<i64>> {
        let [high, normal, low] = [Priority::High, Priority::Normal, Priority::Low];
        let (high, low) = (self.first(topic, high, max)?, self.first(topic, low, max)?);
        let normal = self.first(topic, normal, max)?;
        if high.is_empty() && low.is_empty() {
            return Ok(normal);
        }
        let changed = self.topics.change(topic);
        let mut lines = Lines { high: high.into_iter(), normal: normal.into_iter(), low: low.into_iter() };
        let mut chosen = Vec::with_capacity(max.min(lines.high.len() + lines.normal.len() + lines.low.len()));
        while chosen.len() < max
            && let Some(number) = lines.take(changed.turn)
        {
            chosen.push(number);
            changed.turn = (changed.turn + 1) % Priority::TURNS.len();
        }
        Ok(chosen)
    }

    fn first(&self, topic: Number, priority: Priority, max: usize) -> Done<Vec<i64>> {
        let mut first = self.connection.prepare_cached(FIRST)?;
        let numbers =
            first.query_map(params![self.topics.get(topic).number, priority.as_str(), limit(max)], |row| row.get(0))?;
        Ok(numbers.collect::<Result<_, _>>()?)
    }

    fn take(&self, taking: &mut Taking<'_>, number: i64, worker: &WorkerId, line: &ClaimFrom) -> Done<Taken> {
        let now = self.now();
        let lease_until = now.plus(Duration::from_millis(wait_ms(line.lease)));
        let taken = taking.read.query_row([number], |row| Ok(read(row, &line.topic)))??;
        taking.lease.execute(params![number, self.sequence.next(), worker.as_str(), ms(lease_until)])?;
        let (id, job, known) = taken;
        let attempt = known.attempts.saturating_add(1);
        Ok(match job {
            Ok(job) => Taken::Claim(Box::new(Claim {
                job: Arc::new(job),
                lease: Lease {
                    job: id,
                    topic: line.topic.clone(),
                    worker: worker.clone(),
                    delivery: known.deliveries + 1,
                },
                attempt,
                claimed_at: now,
                lease_until,
                previous: known.failure.map(|failure| failure.reason),
                checkpoint: known.checkpoint,
            })),
            Err(problem) => Taken::Unreadable { id, attempts: attempt, problem },
        })
    }

    /// Gives a running job up that cannot be read, so that it holds nobody up and a person can see it among the dead.
    pub(super) fn bury_unreadable(
        &mut self,
        topic: Number,
        number: i64,
        id: JobId,
        attempts: u32,
        problem: String,
    ) -> Done<()> {
        tracing::warn!(topic = %self.topics.get(topic).id, job = %id, %problem, "buried a job that cannot be read");
        let detail = FailureDetail { code: "unreadable".into(), message: problem, context: None };
        let failure = Failure { reason: Reason::Rejected, detail, backtrace: None };
        self.free_all(topic, &id)?;
        let changed = self.topics.change(topic);
        changed.running = changed.running.saturating_sub(1);
        self.bury(&End { number, topic, job: &id, unique: None, attempts }, &failure)
    }
}

enum Taken {
    Claim(Box<Claim>),
    Unreadable { id: JobId, attempts: u32, problem: String },
}

type Row = (JobId, Result<Job, String>, Known);

fn read(row: &rusqlite::Row<'_>, topic: &TopicId) -> Done<Row> {
    Ok((read_id(row)?, read_job(row, topic), Known::read(row)?))
}

/// A topic's ready jobs, each priority in the order in which they became ready.
struct Lines {
    high: std::vec::IntoIter<i64>,
    normal: std::vec::IntoIter<i64>,
    low: std::vec::IntoIter<i64>,
}

impl Lines {
    /// The next job by turns; where nobody waits whose turn it is, the highest that waits.
    fn take(&mut self, turn: usize) -> Option<i64> {
        let whose = Priority::TURNS.get(turn % Priority::TURNS.len()).copied().unwrap_or_default();
        let line = |lines: &mut Self, priority| match priority {
            Priority::High => lines.high.next(),
            Priority::Normal => lines.normal.next(),
            Priority::Low => lines.low.next(),
        };
        line(self, whose).or_else(|| Priority::ALL.into_iter().find_map(|priority| line(self, priority)))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_taken_and_gaps_are_filled_from_above() {
        let line = |numbers: &[i64]| Vec::from(numbers).into_iter();
        let mut lines = Lines { high: line(&[1, 2, 3]), normal: line(&[10, 11]), low: line(&[20, 21]) };
        let order: Vec<i64> = (0..).map_while(|turn| lines.take(turn)).collect();
        // High, normal, high, high, normal; then high's turns go to low, the highest that is left.
        assert_eq!(order, [1, 10, 2, 3, 11, 20, 21]);
    }
}
