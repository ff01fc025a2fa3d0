//! Settle: plain acks go their own way, see [`super::ack`]; everything else goes through `settle.lua`.

use std::collections::HashMap;
use std::collections::hash_map::Entry;
use std::time::Duration;

use async_trait::async_trait;
use redis::RedisResult;

use super::ack::{ack_parts, plain_acks, read_lost};
use super::holder::Holder;
use super::keys::Keys;
use super::push::add_job;
use super::record::{write_failure, write_result};
use super::replies::{Read, Record};
use super::reply::Reply;
use super::run::{Part, positions};
use super::script::{Call, script};
use super::store::{Numbered, RedisStore, SCRIPT, by_tenant};
use crate::batch::{Weight, parts};
use crate::clock::wait_ms;
use crate::{Settle, Settled, Settlement, StoreError};
use gristmill_core::job::{Lease, Name, WorkerId};
use gristmill_core::outcome::{Failure, Verdict};

const DOING: &str = "settle attempts";

/// The workers that are dead, by how long a worker may be silent.
type Dead = HashMap<Duration, Vec<WorkerId>>;

/// A settlement and its place in the batch.
pub(super) type Placed<'a> = (usize, &'a Settlement);

#[async_trait]
impl Settle for RedisStore {
    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        let leases: Vec<&Lease> = settlements.iter().map(|settlement| &settlement.lease).collect();
        if let Some(leases) = self.with_batches(DOING, &leases).await? {
            let known = settlements.iter().zip(leases);
            let known: Vec<_> = known.map(|(settlement, lease)| Settlement { lease, ..settlement.clone() }).collect();
            return self.settle(&known).await;
        }
        let dead = self.dead_workers(settlements).await?;
        let (mut parts, mut calls): (Vec<_>, Vec<(Record, Vec<Placed<'_>>, Read)>) = Default::default();
        for (tenant, group) in by_tenant(settlements, |settlement| &settlement.lease.topic.tenant) {
            let keys = self.keys(tenant);
            let (plain, others) = plain_acks(group);
            for part in ack_parts(plain) {
                let record = self.replies.begin(&part);
                let call = self.ack_call(&keys, &part, &record);
                parts.push(Part { call, positions: positions(&part), read: read_lost });
                calls.push((record, part, read_lost));
            }
            for (part, _) in parts_of(others) {
                let record = self.replies.begin(&part);
                let call = self.settle_call(&keys, &part, &dead, &record)?;
                parts.push(Part { call, positions: positions(&part), read });
                calls.push((record, part, read));
            }
        }
        let answers = match self.run_parts(DOING, parts).await {
            Ok(answers) => self.with_lost_replies(settlements, answers).await,
            Err(error) => Err(error),
        };
        match &answers {
            Ok(_) => self.replies.note_answered(settlements, calls.into_iter().map(|(record, ..)| record).collect()),
            // Any of the calls may have been run.
            Err(_) => calls.into_iter().for_each(|(record, part, read)| self.replies.note_lost(record, &part, read)),
        }
        answers
    }
}

impl RedisStore {
    /// Puts in place of a lost lease what an earlier call answered that settled the same attempt, and whose reply was lost.
    async fn with_lost_replies(
        &self,
        settlements: &[Settlement],
        mut answers: Vec<Settled>,
    ) -> Result<Vec<Settled>, StoreError> {
        let mut kept: HashMap<String, Option<String>> = HashMap::new();
        for (settlement, answer) in settlements.iter().zip(&mut answers) {
            if *answer != Settled::LeaseLost {
                continue;
            }
            for call in self.replies.lost_calls(settlement) {
                let key = self.keys(&settlement.lease.topic.tenant).settled(&call.record.name);
                if !kept.contains_key(&key) {
                    let (found,) = self.link.query(DOING, redis::pipe().cmd("GET").arg(&key)).await?;
                    kept.insert(key.clone(), found);
                }
                let kept = kept.get(&key).and_then(Option::as_deref);
                let earlier = kept.and_then(|kept| call.answer(settlement, kept));
                *answer = earlier.filter(|earlier| *earlier != Settled::LeaseLost).unwrap_or(*answer);
            }
        }
        Ok(answers)
    }
}

impl RedisStore {
    /// Heartbeats live in another slot than the jobs, so no script sees both. It need not: a worker found dead here that
    /// comes back to life before the script runs has been silent for as long as it may, and the fence still tells whether
    /// the delivery is the one that was found overdue.
    async fn dead_workers(&self, settlements: &[Settlement]) -> Result<Dead, StoreError> {
        let mut dead = Dead::new();
        for dead_after in settlements.iter().filter_map(|settlement| settlement.only_if_overdue) {
            if let Entry::Vacant(unknown) = dead.entry(dead_after) {
                unknown.insert(self.silent_workers(DOING, dead_after).await?);
            }
        }
        Ok(dead)
    }

    fn settle_call(&self, keys: &Keys, part: &[Placed<'_>], dead: &Dead, record: &Record) -> Result<Call, StoreError> {
        let mut named = self.name(keys, part)?;
        let (names, mut next_result) = named.keys(keys, record);
        let mut call = Call::new(script!("waiting.lua", "insert.lua", "finish.lua", "settle.lua"), &names);
        call.arg(self.now_argument()).arg(keys.wake_channel()).arg(keys.done_channel()).arg(record.number);
        call.holders(&named.holders.0).topics(&named.topics.0);
        for (_, settlement) in part {
            let lease = &settlement.lease;
            call.arg(lease.job.as_str()).arg(lease.delivery);
            call.arg(named.holders.number(Holder::of(lease))).arg(named.topics.number(&lease.topic.topic));
            self.add_verdict(&mut call, settlement, &mut next_result)?;
            call.arg(if settlement.notify { "1" } else { "" });
            call.arg(guard(settlement, dead));
            let follow_ups = settlement.visible_follow_ups();
            call.arg(follow_ups.len());
            for job in follow_ups {
                add_job(&mut call, named.topics.number(&job.spec.topic.topic), job, &self.pack(DOING, job)?);
            }
        }
        Ok(call)
    }

    /// Gathers whatever the settlements name that has keys of its own.
    fn name<'a>(&self, keys: &Keys, part: &[Placed<'a>]) -> Result<Named<'a>, StoreError> {
        let mut named = Named { holders: Numbered(Vec::new()), topics: Numbered(Vec::new()), results: Vec::new() };
        for (_, settlement) in part {
            let lease = &settlement.lease;
            named.holders.number(Holder::of(lease));
            named.topics.number(&lease.topic.topic);
            for job in settlement.visible_follow_ups() {
                if job.spec.topic.tenant != lease.topic.tenant {
                    return Err(
                        self.refused(DOING, anyhow::anyhow!("follow-up job {} is another tenant's", job.spec.id))
                    );
                }
                named.topics.number(&job.spec.topic.topic);
            }
            if keeps_result(settlement) {
                named.results.push(keys.result(&lease.job));
            }
        }
        Ok(named)
    }

    /// Verdict, wait, failure, reason, unique value, and the result with its key and retention.
    fn add_verdict(&self, call: &mut Call, settlement: &Settlement, next_result: &mut usize) -> Result<(), StoreError> {
        let verdict = &settlement.verdict;
        let (wait, failure): (Duration, Option<&Failure>) = match verdict {
            Verdict::Retry { after, failure } => (*after, Some(failure)),
            Verdict::Snooze(after) | Verdict::Release(after) => (*after, None),
            Verdict::Bury(failure) => (Duration::ZERO, Some(failure)),
            Verdict::Ack(_) | Verdict::Expire => (Duration::ZERO, None),
        };
        let unwritable = |error| self.refused(DOING, anyhow::Error::from(error));
        let stored = failure.map(write_failure).transpose().map_err(unwritable)?.unwrap_or_default();
        let reason = failure.map_or("", |failure| failure.reason.as_str());
        let unique = settlement.unique.as_deref().unwrap_or_default();
        call.arg(verdict.name()).arg(wait_ms(wait)).arg(stored).arg(reason).arg(unique);
        if keeps_result(settlement) {
            let result = write_result(verdict, settlement.attempts).map_err(unwritable)?.unwrap_or_default();
            call.arg(*next_result).arg(result).arg(wait_ms(settlement.keep_result));
            *next_result += 1;
        } else {
            call.arg("").arg("").arg(0);
        }
        Ok(())
    }
}

fn read(mut reply: Reply, _: usize) -> RedisResult<Vec<Settled>> {
    let mut answers = Vec::new();
    while !reply.is_empty() {
        answers.push(match reply.number()? {
            1 => Settled::Done,
            2 => Settled::Cancelled,
            _ => Settled::LeaseLost,
        });
    }
    Ok(answers)
}

/// What a part of a batch names, in the order in which the script gets it.
struct Named<'a> {
    holders: Numbered<Holder<'a>>,
    topics: Numbered<&'a Name>,
    results: Vec<String>,
}

impl Named<'_> {
    /// The keys for `settle.lua`, and the number of the first result's key.
    fn keys(&mut self, keys: &Keys, record: &Record) -> (Vec<String>, usize) {
        let record = keys.settled(&record.name);
        let more = [
            keys.claims(),
            keys.leases(),
            keys.failures(),
            keys.checkpoints(),
            keys.cancelled(),
            keys.extended(),
            record,
        ];
        let more = more.into_iter().chain(self.holders.0.iter().map(|holder| keys.processing(*holder)));
        let mut names = keys.with_rows(more, self.topics.0.iter().copied());
        let first_result = names.len() + 1;
        names.append(&mut self.results);
        (names, first_result)
    }
}

/// Whatever the verdict is: the job may have been cancelled, and then this is its end.
fn keeps_result(settlement: &Settlement) -> bool {
    !settlement.keep_result.is_zero()
}

/// What besides the fence must hold: nothing for a worker's own settlements and for those of a dead worker.
fn guard(settlement: &Settlement, dead: &Dead) -> &'static str {
    match settlement.only_if_overdue {
        Some(dead_after) if !dead.get(&dead_after).is_some_and(|dead| dead.contains(&settlement.lease.worker)) => {
            "lease"
        }
        _ => "",
    }
}

/// Cuts settlements into what one script call may carry each; one settlement stays whole, however many follow-ups it has.
fn parts_of(settlements: Vec<Placed<'_>>) -> Vec<(Vec<Placed<'_>>, Weight)> {
    parts(settlements, SCRIPT, |(_, settlement)| Weight {
        jobs: 1 + settlement.visible_follow_ups().len(),
        bytes: settlement.bytes(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::store::SCRIPT_BYTES;
    use gristmill_core::job::{JobId, Lease, Payload};
    use gristmill_core::outcome::{FailureDetail, Reason};

    #[test]
    fn results_and_failures_weigh_alike() {
        let lease = || Lease {
            job: JobId::generate(),
            topic: "a".parse().unwrap(),
            worker: WorkerId::new("w"),
            delivery: 1,
            batch: None,
        };
        let payload = || Payload { data: vec![0; SCRIPT_BYTES / 2], content_type: None };
        let failure = || {
            let detail = FailureDetail { context: Some(payload()), ..FailureDetail::default() };
            Failure { reason: Reason::Failed, detail, backtrace: None }
        };
        let wait = Duration::ZERO;
        for verdict in [
            Verdict::Ack(Some(payload())),
            Verdict::Bury(failure()),
            Verdict::Retry { after: wait, failure: failure() },
        ] {
            let settlements = [0, 1, 2].map(|_| Settlement::new(lease(), verdict.clone()));
            let parts = parts_of(settlements.iter().enumerate().collect());
            assert_eq!(parts.iter().map(|(part, _)| part.len()).collect::<Vec<_>>(), [2, 1], "{}", verdict.name());
        }
    }
}
