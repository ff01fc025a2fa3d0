//! Settle: attempts end, each in one step with its follow-ups, result and counts.

use std::collections::HashMap;
use std::time::Duration;

use async_trait::async_trait;
use parking_lot::Mutex;
use rusqlite::{OptionalExtension, params};

use super::fault::{Done, Fault};
use super::finish::{Asked, How};
use super::push::{CHUNK, Packed, pack};
use super::request::Weight;
use super::row::{at, attempts, ms, unique_until_done, write_failure};
use super::store::EmbeddedStore;
use super::topics::Number;
use super::work::Work;
use crate::batch::parts;
use crate::clock::wait_ms;
use crate::{Settle, Settled, Settlement, StoreError};
use gristmill_core::job::{JobId, Name};
use gristmill_core::outcome::{Failure, Verdict};

const DOING: &str = "settle attempts";

/// Attempts whose answers are kept, at most: those of one outage.
const KEPT_MAX: usize = 1 << 16;

/// The running job of a lease: nothing, if that very delivery is not running on that very worker.
const FENCE: &str = "SELECT number, topic_number, attempts, lease_until, cancelled, unique_value, unique_window_ms
                     FROM jobs
                     WHERE id = ?1 AND tenant = ?2 AND state = 'running' AND deliveries = ?3 AND worker = ?4";

/// Ends the running job of a lease whose end leaves nothing to tidy up but its row: what most acks are. Changes nothing
/// otherwise, whatever the reason.
const ACK: &str = "DELETE FROM jobs WHERE id = ?1 AND tenant = ?2 AND state = 'running' AND deliveries = ?3
                   AND worker = ?4 AND topic_number = ?5 AND unique_value IS NULL AND body IS NOT NULL";

/// Back to waiting. What is known of an earlier failure stays, unless there is a new one.
const PUT_BACK: &str = "UPDATE jobs SET state = ?2, seq = ?3, delayed_until = ?4, attempts = ?5,
                            failure = coalesce(?6, failure), worker = NULL, lease_until = NULL, claimed_seq = NULL
                        WHERE number = ?1";

#[async_trait]
impl Settle for EmbeddedStore {
    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        for settlement in settlements {
            let tenant = &settlement.lease.topic.tenant;
            if let Some(job) = settlement.visible_follow_ups().iter().find(|job| job.spec.topic.tenant != *tenant) {
                let problem = format!("follow-up job {} is another tenant's", job.spec.id);
                return Err(self.told(Fault::Refused(problem), DOING));
            }
        }
        let mut asked = Vec::new();
        let weigh =
            |settlement: &&Settlement| Weight { jobs: 1 + settlement.follow_ups.len(), bytes: settlement.bytes() };
        for (part, weight) in parts(settlements, CHUNK, weigh) {
            let endings = part.into_iter().map(Ending::of).collect::<Done<Vec<_>>>();
            let endings = endings.map_err(|fault| self.told(fault, DOING))?;
            let count = endings.len();
            let settle = move |work: &mut Work<'_>| endings.iter().map(|ending| work.settle(ending)).collect();
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

/// What settle calls answered that failed in part, for when the same attempts are settled again.
#[derive(Debug, Default)]
pub(super) struct KeptAnswers(Mutex<HashMap<Attempt, Settled>>);

type Attempt = (Name, JobId, u64);

impl KeptAnswers {
    fn keep(&self, settlements: &[Settlement], answers: &[Option<Settled>]) {
        let mut kept = self.0.lock();
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        let answers = settlements.iter().zip(answers);
        kept.extend(answers.filter_map(|(settlement, answer)| Some((attempt(settlement), (*answer)?))));
    }

    /// Puts the kept answers in place of lost leases.
    fn restore(&self, settlements: &[Settlement], mut answers: Vec<Settled>) -> Vec<Settled> {
        let mut kept = self.0.lock();
        if !kept.is_empty() {
            for (settlement, answer) in settlements.iter().zip(&mut answers) {
                let earlier = kept.remove(&attempt(settlement));
                *answer = earlier.filter(|_| *answer == Settled::LeaseLost).unwrap_or(*answer);
            }
        }
        answers
    }
}

fn attempt(Settlement { lease, .. }: &Settlement) -> Attempt {
    (lease.topic.tenant.clone(), lease.job.clone(), lease.delivery)
}

/// A settlement with what can be made ready outside the writer.
struct Ending {
    settlement: Settlement,
    follow_ups: Vec<Packed>,
}

impl Ending {
    fn of(settlement: &Settlement) -> Done<Self> {
        let follow_ups = pack(settlement.visible_follow_ups())?;
        // Field by field, because a clone would copy the follow-ups a second time.
        let settlement = Settlement {
            lease: settlement.lease.clone(),
            verdict: settlement.verdict.clone(),
            follow_ups: Vec::new(),
            unique: None,
            ..*settlement
        };
        Ok(Self { settlement, follow_ups })
    }
}

/// A running job that a lease still names.
struct Running {
    number: i64,
    topic: Number,
    attempts: u32,
    lease_until: gristmill_core::time::Timestamp,
    cancelled: bool,
    /// The value that the end of the job sets free.
    unique: Option<String>,
}

impl Work<'_> {
    fn settle(&mut self, Ending { settlement, follow_ups }: &Ending) -> Done<Settled> {
        if self.settle_plain_ack(settlement)? {
            for job in follow_ups {
                self.push(job)?;
            }
            return Ok(Settled::Done);
        }
        let Some(running) = self.running(settlement)? else { return Ok(Settled::LeaseLost) };
        if let Some(dead_after) = settlement.only_if_overdue
            && running.lease_until > self.now()
            && !self.is_dead(&settlement.lease.worker, dead_after)?
        {
            return Ok(Settled::LeaseLost);
        }
        let changed = self.topics.change(running.topic);
        changed.running = changed.running.saturating_sub(1);
        let asked = Asked {
            job: &settlement.lease.job,
            unique: running.unique.as_deref(),
            attempts: running.attempts,
            keep_result: settlement.keep_result,
            notify: settlement.notify,
        };
        let mut finish = |how: How<'_>| self.finish(running.topic, Some(running.number), &how, Some(&asked));
        if running.cancelled && !matches!(settlement.verdict, Verdict::Ack(_) | Verdict::Expire) {
            finish(How::Cancelled)?;
            return Ok(Settled::Cancelled);
        }
        match &settlement.verdict {
            Verdict::Ack(payload) => finish(How::Acked(payload.as_ref()))?,
            Verdict::Expire => finish(How::Expired)?,
            Verdict::Bury(failure) => finish(How::Dead(failure))?,
            Verdict::Retry { after, failure } => {
                self.put_back(&running, running.attempts, *after, Some(failure), "retried")?;
            }
            Verdict::Snooze(after) => self.put_back(&running, less_one(&running), *after, None, "snoozed")?,
            Verdict::Release(after) => self.put_back(&running, less_one(&running), *after, None, "released")?,
        }
        for job in follow_ups {
            self.push(job)?;
        }
        Ok(Settled::Done)
    }

    /// Settles an ack in one statement, if it is one like most. False: nothing is done yet.
    fn settle_plain_ack(&mut self, settlement: &Settlement) -> Done<bool> {
        let Settlement { lease, verdict: Verdict::Ack(payload), attempts, only_if_overdue: None, .. } = settlement
        else {
            return Ok(false);
        };
        let Some(topic) = self.topics.find(self.connection, &lease.topic)? else { return Ok(false) };
        let ended = self.statements.get(ACK)?.execute(params![
            lease.job.as_str(),
            lease.topic.tenant.as_str(),
            i64::try_from(lease.delivery).unwrap_or(i64::MAX),
            lease.worker.as_str(),
            self.topics.get(topic).number
        ])?;
        if ended == 0 {
            return Ok(false);
        }
        let changed = self.topics.change(topic);
        changed.running = changed.running.saturating_sub(1);
        let asked = Asked {
            job: &lease.job,
            unique: None,
            attempts: *attempts,
            keep_result: settlement.keep_result,
            notify: settlement.notify,
        };
        self.finish(topic, None, &How::Acked(payload.as_ref()), Some(&asked))?;
        Ok(true)
    }

    fn running(&mut self, settlement: &Settlement) -> Done<Option<Running>> {
        let lease = &settlement.lease;
        let fence = self.statements.get(FENCE)?;
        let delivery = i64::try_from(lease.delivery).unwrap_or(i64::MAX);
        let found = fence
            .query_row(
                params![lease.job.as_str(), lease.topic.tenant.as_str(), delivery, lease.worker.as_str()],
                |row| {
                    let running = Running {
                        number: row.get("number")?,
                        topic: 0,
                        attempts: attempts(row.get("attempts")?),
                        lease_until: at(row.get("lease_until")?),
                        cancelled: row.get("cancelled")?,
                        unique: unique_until_done(row),
                    };
                    Ok((running, row.get::<_, i64>("topic_number")?))
                },
            )
            .optional()?;
        let of_topic = |(running, number)| Ok(Running { topic: self.topics.of_job(number, &lease.job)?, ..running });
        found.map(of_topic).transpose()
    }

    /// Back to waiting. Only a retry keeps the attempt that the claim counted; none takes back the delivery.
    fn put_back(
        &mut self,
        running: &Running,
        attempts: u32,
        after: Duration,
        failure: Option<&Failure>,
        counted: &'static str,
    ) -> Done<()> {
        let place = if after.is_zero() {
            self.line_up(running.topic)
        } else {
            self.wait(running.topic, self.time.up.plus(Duration::from_millis(wait_ms(after))))
        };
        let failure = failure.map(write_failure).transpose()?;
        let mut put_back = self.connection.prepare_cached(PUT_BACK)?;
        put_back.execute(params![
            running.number,
            place.state(),
            place.seq(),
            place.until().map(ms),
            attempts,
            failure
        ])?;
        self.topics.count(running.topic, counted, 1);
        Ok(())
    }
}

fn less_one(running: &Running) -> u32 {
    running.attempts.saturating_sub(1)
}
