//! Claim: ready jobs are taken by turns and leased to a worker.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use rusqlite::params;

use super::fault::Done;
use super::finish::How;
use super::request::Weight;
use super::row::{Known, job_columns, limit, ms, read_id, read_job, stored_bytes};
use super::store::EmbeddedStore;
use super::topics::Number;
use super::work::Work;
use crate::batch::{ByteBudget, CLAIM_BYTES};
use crate::clock::wait_ms;
use crate::{ClaimFrom, Claimed, Claims, StoreError};
use gristmill_core::job::{Claim, Job, JobId, Lease, Priority, TopicId, WorkerId};
use gristmill_core::outcome::Failure;

/// The first of a topic's ready jobs of one priority: those behind the last one that was claimed.
const FIRST: &str = "SELECT number, seq FROM jobs WHERE topic_number = ?1 AND priority = ?2 AND seq > ?3
                     ORDER BY seq LIMIT ?4";

/// Everything about one job.
const READ: &str = concat!("SELECT ", job_columns!(), " FROM jobs WHERE number = ?1");

/// Leases a ready job, which keeps its place in line. Changes no column of an index.
const LEASE: &str = "UPDATE jobs SET state = 'running', claimed_seq = ?2, worker = ?3, lease_until = ?4,
                         attempts = attempts + 1, deliveries = deliveries + 1, room = NULL
                     WHERE number = ?1";

#[async_trait]
impl Claims for EmbeddedStore {
    async fn claim(&self, worker: &WorkerId, from: &[ClaimFrom]) -> Result<Claimed, StoreError> {
        let (worker, from) = (worker.clone(), from.to_vec());
        let weight = Weight { jobs: from.iter().fold(0, |sum, line| sum.saturating_add(line.max)), bytes: 0 };
        self.write("claim jobs", weight, move |work| work.claim(&worker, &from)).await
    }
}

impl Work<'_> {
    fn claim(&mut self, worker: &WorkerId, from: &[ClaimFrom]) -> Done<Claimed> {
        let (mut claims, mut room) = (Vec::new(), ByteBudget::of(CLAIM_BYTES));
        let mut drained = BTreeSet::new();
        for line in from.iter().filter(|line| line.max > 0) {
            if self.claim_line(worker, line, &mut room, &mut claims)? {
                drained.insert(&line.topic);
            }
        }
        Ok(Claimed { claims, drained: drained.into_iter().cloned().collect(), ..Claimed::default() })
    }

    /// Leases jobs of a topic until there are no more, or no room for the next. Returns whether there are no more.
    fn claim_line(
        &mut self,
        worker: &WorkerId,
        line: &ClaimFrom,
        room: &mut ByteBudget,
        claims: &mut Vec<Claim>,
    ) -> Done<bool> {
        let Some(topic) = self.topics.find(self.connection, &line.topic)? else { return Ok(true) };
        let mut lines = self.lines(topic, line.max)?;
        // Where all topics are alike, no topic loses its turn.
        let alike = lines.len() == lines.normal.len();
        let state = self.topics.get(topic);
        let (mut turn, mut claimed, active) = (state.turn, state.claimed, state.active);
        let (mut taken, mut unreadable) = (0, Vec::new());
        let is_drained = loop {
            if taken == line.max {
                break false;
            }
            let Some((priority, place)) = lines.take(turn) else { break true };
            match self.take(place.number, worker, line, room)? {
                Some(Taken::Claim(claim)) => claims.push(*claim),
                Some(Taken::Unreadable { id, problem }) => unreadable.push((place.number, id, problem)),
                None => break false,
            }
            taken += 1;
            claimed.set(priority, place.seq);
            if !alike {
                turn = (turn + 1) % Priority::TURNS.len();
            }
        };
        if taken > 0 || is_drained && active {
            let changed = self.topics.change(topic);
            (changed.turn, changed.claimed) = (turn, claimed);
            changed.ready = changed.ready.saturating_sub(taken as u64);
            changed.running += taken as u64;
            // From here on the next job to arrive is told: no wake-up can be lost.
            changed.active &= !is_drained;
        }
        for (number, id, problem) in unreadable {
            self.bury_unreadable(topic, number, id, problem)?;
        }
        Ok(is_drained)
    }

    /// The first `max` ready jobs of each priority; none of a paused topic.
    fn lines(&mut self, topic: Number, max: usize) -> Done<Lines> {
        let max = if self.topics.get(topic).paused { 0 } else { max };
        Ok(Lines {
            high: self.first(topic, Priority::High, max)?.into_iter(),
            normal: self.first(topic, Priority::Normal, max)?.into_iter(),
            low: self.first(topic, Priority::Low, max)?.into_iter(),
        })
    }

    fn first(&mut self, topic: Number, priority: Priority, max: usize) -> Done<Vec<Place>> {
        let topic = self.topics.get(topic);
        let first = self.statements.get(FIRST)?;
        let places = first
            .query_map(params![topic.number, priority.as_str(), topic.claimed.get(priority), limit(max)], |row| {
                Ok(Place { number: row.get(0)?, seq: row.get(1)? })
            })?;
        Ok(places.collect::<Result<_, _>>()?)
    }

    /// Leases a job, if there is room for it.
    fn take(&mut self, number: i64, worker: &WorkerId, line: &ClaimFrom, room: &mut ByteBudget) -> Done<Option<Taken>> {
        let now = self.now();
        let lease_until = now.plus(Duration::from_millis(wait_ms(line.lease)));
        let taken = self.statements.get(READ)?.query_row([number], |row| Ok(read(row, &line.topic, room)))??;
        let Some((id, job, known)) = taken else { return Ok(None) };
        let lease = self.statements.get(LEASE)?;
        lease.execute(params![number, self.sequence.next(), worker.as_str(), ms(lease_until)])?;
        Ok(Some(match job {
            Ok(job) => Taken::Claim(Box::new(Claim {
                job: Arc::new(job),
                lease: Lease {
                    job: id,
                    topic: line.topic.clone(),
                    worker: worker.clone(),
                    delivery: known.deliveries + 1,
                },
                attempt: known.attempts.saturating_add(1),
                claimed_at: now,
                lease_until,
                previous: known.failure.map(|failure| failure.reason),
                checkpoint: known.checkpoint,
            })),
            Err(problem) => Taken::Unreadable { id, problem },
        }))
    }

    /// Gives a running job up that cannot be read, so that it holds nobody up and a person can see it among the dead.
    pub(super) fn bury_unreadable(&mut self, topic: Number, number: i64, id: JobId, problem: String) -> Done<()> {
        tracing::warn!(topic = %self.topics.get(topic).id, job = %id, %problem, "buried a job that cannot be read");
        let failure = Failure::unreadable(problem);
        self.free_all(topic, &id)?;
        let changed = self.topics.change(topic);
        changed.running = changed.running.saturating_sub(1);
        self.finish(topic, Some(number), &How::Dead(&failure), None)
    }
}

enum Taken {
    Claim(Box<Claim>),
    Unreadable { id: JobId, problem: String },
}

type Row = (JobId, Result<Job, String>, Known);

/// Returns `None` if there is no room for the job.
fn read(row: &rusqlite::Row<'_>, topic: &TopicId, room: &mut ByteBudget) -> Done<Option<Row>> {
    if !room.take(stored_bytes(row)?) {
        return Ok(None);
    }
    Ok(Some((read_id(row)?, read_job(row, topic), Known::read(row)?)))
}

/// Where a ready job is: its row, and its place in line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct Place {
    number: i64,
    seq: i64,
}

/// A topic's ready jobs, each priority in the order in which they became ready.
struct Lines {
    high: std::vec::IntoIter<Place>,
    normal: std::vec::IntoIter<Place>,
    low: std::vec::IntoIter<Place>,
}

impl Lines {
    fn len(&self) -> usize {
        self.high.len() + self.normal.len() + self.low.len()
    }

    /// The next job by turns; where nobody waits whose turn it is, the highest that waits.
    fn take(&mut self, turn: usize) -> Option<(Priority, Place)> {
        let whose = Priority::TURNS.get(turn % Priority::TURNS.len()).copied().unwrap_or_default();
        self.next(whose).or_else(|| Priority::ALL.into_iter().find_map(|priority| self.next(priority)))
    }

    fn next(&mut self, priority: Priority) -> Option<(Priority, Place)> {
        let line = match priority {
            Priority::High => &mut self.high,
            Priority::Normal => &mut self.normal,
            Priority::Low => &mut self.low,
        };
        line.next().map(|place| (priority, place))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn turns_are_taken_and_gaps_are_filled_from_above() {
        let line = |numbers: &[i64]| {
            numbers.iter().map(|&number| Place { number, seq: number }).collect::<Vec<_>>().into_iter()
        };
        let mut lines = Lines { high: line(&[1, 2, 3]), normal: line(&[10, 11]), low: line(&[20, 21]) };
        let order: Vec<i64> = (0..).map_while(|turn| Some(lines.take(turn)?.1.number)).collect();
        // High, normal, high, high, normal; then high's turns go to low, the highest that is left.
        assert_eq!(order, [1, 10, 2, 3, 11, 20, 21]);
    }
}
