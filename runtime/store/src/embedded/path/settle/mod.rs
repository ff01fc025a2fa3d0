//! Settle: attempts end, each in one step with its follow-ups, result and counts.

pub(in crate::embedded) mod kept_answers;

use std::time::Duration;

use async_trait::async_trait;
use rusqlite::params;

use super::finish::how::{EndOptions, How};
use super::push::{CHUNK, Packed, pack};
use crate::batch::parts;
use crate::clock::wait_ms;
use crate::embedded::fault::{Done, Fault};
use crate::embedded::file::request::Weight;
use crate::embedded::memory::running::RunningJob;
use crate::embedded::memory::topics::{Number, Topics};
use crate::embedded::place::priority_of;
use crate::embedded::row::{ms, write_failure};
use crate::embedded::store::EmbeddedStore;
use crate::embedded::work::Work;
use crate::{Settle, Settled, Settlement, StoreError};
use gristmill_core::outcome::{Failure, Verdict};

const DOING: &str = "settle attempts";

/// Removes the rows of jobs that ended, which stand one behind the other.
const DELETE: &str = "DELETE FROM job_rows WHERE number BETWEEN ?1 AND ?2";

/// Removes a large body.
const DELETE_BODY: &str = "DELETE FROM bodies WHERE number = ?1";

/// Back to waiting, in another place. What is known of an earlier failure stays, unless there is a new one.
const PUT_BACK: &str =
    "UPDATE job_rows SET number = ?2, delayed_until = ?3, attempts = ?4, deliveries = deliveries + 1,
                            failure = coalesce(?5, failure), lease_until = NULL
                        WHERE number = ?1";

#[async_trait]
impl Settle for EmbeddedStore {
    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        for settlement in settlements {
            let tenant = &settlement.lease.topic.tenant;
            if let Some(job) = settlement.visible_follow_ups().iter().find(|job| job.spec.topic.tenant != *tenant) {
                let problem = format!("follow-up job {} is another tenant's", job.spec.id);
                return Err(self.error(Fault::Refused(problem), DOING));
            }
        }
        self.attempts_progress().forget(settlements);
        let mut asked = Vec::new();
        let weigh = |settlement: &&Settlement| {
            let jobs = if settlement.reuses_id() { CHUNK.jobs / 2 } else { 1 + settlement.follow_ups.len() };
            Weight { jobs, bytes: settlement.bytes() }
        };
        for (part, weight) in parts(settlements, CHUNK, weigh) {
            let prepared = part.into_iter().map(PreparedSettlement::of).collect::<Done<Vec<_>>>();
            let prepared = prepared.map_err(|fault| self.error(fault, DOING))?;
            let count = prepared.len();
            let settle = move |work: &mut Work<'_>| work.settle_all(&prepared);
            asked.push((self.ask(weight, settle).await, count));
        }
        let (mut answers, mut failed) = (Vec::with_capacity(settlements.len()), None);
        for (answer, count) in asked {
            match self.answer::<Vec<Settled>>(DOING, answer).await {
                Ok(settled) => answers.extend(settled.into_iter().map(Some)),
                Err(error) => {
                    answers.extend(std::iter::repeat_n(None, count));
                    failed = Some(error);
                }
            }
        }
        match failed {
            Some(error) => {
                self.kept_answers().keep(settlements, &answers);
                Err(error)
            }
            None => Ok(self.kept_answers().restore(settlements, answers.into_iter().flatten().collect())),
        }
    }
}

/// A settlement with what can be made ready outside the writer.
struct PreparedSettlement {
    settlement: Settlement,
    follow_ups: Vec<Packed>,
}

impl PreparedSettlement {
    fn of(settlement: &Settlement) -> Done<Self> {
        let follow_ups = pack(settlement.visible_follow_ups())?;
        let verdict = match &settlement.verdict {
            // A result that is not kept is not copied.
            Verdict::Ack(_) if settlement.keep_result.is_zero() => Verdict::Ack(None),
            verdict => verdict.clone(),
        };
        // Field by field, because a clone would copy the follow-ups a second time.
        let settlement = Settlement {
            lease: settlement.lease.clone(),
            verdict,
            follow_ups: Vec::new(),
            state: settlement.visible_state().cloned(),
            unique: None,
            ..*settlement
        };
        Ok(Self { settlement, follow_ups })
    }
}

/// Jobs that have ended, whose rows are still there.
type Ended = Vec<(Number, i64)>;

impl Work<'_> {
    fn settle_all(&mut self, prepared: &[PreparedSettlement]) -> Done<Vec<Settled>> {
        let mut ended = Ended::new();
        let settled = prepared.iter().map(|one| self.settle(one, &mut ended)).collect::<Done<_>>()?;
        self.whole = false;
        self.delete_ended(&mut ended)?;
        Ok(settled)
    }

    fn settle(
        &mut self,
        PreparedSettlement { settlement, follow_ups }: &PreparedSettlement,
        ended: &mut Ended,
    ) -> Done<Settled> {
        let lease = &settlement.lease;
        let Some((topic, running)) = self.running(lease)? else { return Ok(Settled::LeaseLost) };
        let lease_until = running.lease_until;
        if let Some(dead_after) = settlement.only_if_overdue
            && lease_until > self.now()
            && !self.is_dead(&lease.worker, dead_after)?
        {
            return Ok(Settled::LeaseLost);
        }
        self.end_run(topic);
        self.add_fuel(topic, settlement.fuel)?;
        let changed = self.topics.change(topic);
        let Some(running) = changed.running_jobs.remove(&mut self.statements, &lease.job)? else {
            return Ok(Settled::LeaseLost);
        };
        let options = EndOptions {
            job: &lease.job,
            unique: running.unique.as_deref(),
            attempts: running.attempts,
            keep_result: settlement.keep_result,
            remember: settlement.remember,
            notify: settlement.notify,
        };
        let key = running.key.as_deref();
        self.whole = follow_ups.iter().any(|job| *job.id() == lease.job);
        self.links_follow = follow_ups.iter().any(Packed::is_linked);
        if running.cancelled && !matches!(settlement.verdict, Verdict::Ack(_) | Verdict::Expire) {
            self.finish(topic, Some(running.number), &How::Cancelled, key, Some(&options))?;
            self.carry_ends()?;
            return Ok(Settled::Cancelled);
        }
        match &settlement.verdict {
            Verdict::Ack(payload) if key.is_some() => {
                self.finish(topic, Some(running.number), &How::Acked(payload.as_ref()), key, Some(&options))?;
            }
            Verdict::Ack(payload) => {
                // Those of a batch go together.
                ended.push((topic, running.number));
                if let Some(body) = running.large {
                    self.statements.get(DELETE_BODY)?.execute([body])?;
                }
                self.finish(topic, None, &How::Acked(payload.as_ref()), None, Some(&options))?;
            }
            Verdict::Expire => self.finish(topic, Some(running.number), &How::Expired, key, Some(&options))?,
            Verdict::Bury(failure) => {
                self.finish(topic, Some(running.number), &How::Dead(failure), key, Some(&options))?
            }
            Verdict::Retry { after, failure } => {
                self.put_back(topic, &running, running.attempts, *after, Some(failure), "retried")?;
            }
            Verdict::Snooze(after) => self.put_back(topic, &running, less_one(&running), *after, None, "snoozed")?,
            Verdict::Release(after) => self.put_back(topic, &running, less_one(&running), *after, None, "released")?,
        }
        if let Some(state) = &settlement.state {
            self.write_state(&lease.topic, state)?;
        }
        if !follow_ups.is_empty() {
            // One of them may have the id of a job that has ended.
            self.delete_ended(ended)?;
        }
        for job in follow_ups {
            self.push(job, true)?;
        }
        self.carry_ends()?;
        Ok(Settled::Done)
    }

    /// Deletes rows of jobs that are neither running nor waiting any more, by as few statements as there are runs of them.
    fn delete_ended(&mut self, ended: &mut Ended) -> Done<()> {
        ended.sort_unstable_by_key(|(_, number)| *number);
        let one_run =
            |topics: &Topics, a: &(Number, i64), b: &(Number, i64)| topics.get(a.0).running_jobs.is_one_run(a.1, b.1);
        for run in ended.chunk_by(|a, b| one_run(self.topics, a, b)) {
            if let ([(_, first), ..], [.., (_, last)]) = (run, run) {
                self.statements.get(DELETE)?.execute([first, last])?;
            }
        }
        ended.clear();
        Ok(())
    }

    /// Back to waiting. Only a retry keeps the attempt that the claim counted; none takes back the delivery.
    fn put_back(
        &mut self,
        topic: Number,
        running: &RunningJob,
        attempts: u32,
        after: Duration,
        failure: Option<&Failure>,
        counted: &'static str,
    ) -> Done<()> {
        let priority = priority_of(running.number).unwrap_or_default();
        let place = if after.is_zero() {
            self.line_up(topic, priority)?
        } else {
            // It holds a slot of its key all the time.
            self.wait(topic, priority, self.time.up.plus(Duration::from_millis(wait_ms(after))), None)?
        };
        let failure = failure.map(write_failure).transpose()?;
        let mut put_back = self.connection.prepare_cached(PUT_BACK)?;
        put_back.execute(params![running.number, place.number, place.until.map(ms), attempts, failure])?;
        self.topics.count(topic, counted, 1);
        Ok(())
    }
}

fn less_one(running: &RunningJob) -> u32 {
    running.attempts.saturating_sub(1)
}
