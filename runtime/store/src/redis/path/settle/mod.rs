//! Settle: from settlements to bounded calls of `settle.lua`, and what became of calls whose replies were lost.

mod call;
pub(in crate::redis) mod replies;

use std::collections::hash_map::Entry;
use std::collections::{HashMap, HashSet};
use std::time::Duration;

use crate::batch::{Weight, parts};
use crate::redis::partitions::partition_map::PartitionMap;
use crate::redis::script::run::{BatchCall, positions};
use crate::redis::store::{Partition, SCRIPT, SCRIPT_JOBS, by_tenant};
use crate::{Settled, Settlement, StoreError};
use call::by_group;
use gristmill_core::job::{JobId, WorkerId};
use gristmill_core::time::Timestamp;
use replies::{Placed, Record, read_settled};

pub(in crate::redis) const DOING: &str = "settle attempts";

/// The workers that are dead, by how long a worker may be silent.
pub(in crate::redis) type Dead = HashMap<Duration, Vec<WorkerId>>;

impl Partition {
    /// All leases say their batches. Follow-ups that another partition is to have go to the outbox.
    pub(in crate::redis) async fn settle(
        &self,
        settlements: &[Settlement],
        (map, now): (&PartitionMap, Timestamp),
    ) -> Result<Vec<Settled>, StoreError> {
        let dead = self.dead_workers(settlements).await?;
        let (mut parts, mut calls) = (Vec::new(), Vec::<(Record, Vec<Placed<'_>>)>::new());
        for (tenant, group) in by_tenant(settlements, |settlement| &settlement.lease.topic.tenant) {
            let keys = self.keys(tenant);
            for (part, _) in parts_of(by_group(&group, &dead)) {
                let record = self.replies.begin(&part);
                let call = self.settle_call(&keys, &part, (&dead, map, now), &record).await?;
                parts.push(BatchCall { call, positions: positions(&part), read: read_settled });
                calls.push((record, part));
            }
        }
        let answers = match self.run_batch(DOING, parts).await {
            Ok(answers) => self.with_lost_replies(settlements, answers).await,
            Err(error) => Err(error),
        };
        match &answers {
            Ok(answers) => {
                self.replies.note_answered(settlements, calls.into_iter().map(|(record, _)| record).collect());
                let cancelled = settlements.iter().zip(answers).filter(|(_, answer)| **answer == Settled::Cancelled);
                self.forget_recordings_of(cancelled.map(|(Settlement { lease, .. }, _)| (&lease.topic, &lease.job)))
                    .await;
            }
            // Any of the calls may have been run.
            Err(_) => calls.into_iter().for_each(|(record, part)| self.replies.note_lost(record, &part)),
        }
        answers
    }
}

impl Partition {
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

impl Partition {
    /// Heartbeats live in another slot than the jobs, so no script sees both. It need not: a worker found dead here that
    /// comes back to life before the script runs has been silent for as long as it may, and the fence still shows whether
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
}

/// Cuts settlements into what one script call may carry each; one settlement stays whole, however many follow-ups it has. One whose follow-up
/// job gets the id of a job that ends weighs much: all links of that have to be done with.
fn parts_of(settlements: Vec<Placed<'_>>) -> Vec<(Vec<Placed<'_>>, Weight)> {
    // Most batches have no follow-up jobs: then no job is looked for among the ends.
    let some_follow = settlements.iter().any(|(_, settlement)| !settlement.visible_follow_ups().is_empty());
    let ending = settlements.iter().filter(|_| some_follow);
    let ends: HashSet<&JobId> = ending.map(|(_, settlement)| &settlement.lease.job).collect();
    parts(settlements, SCRIPT, |(_, settlement)| {
        let follow_ups = settlement.visible_follow_ups();
        let least = if follow_ups.iter().any(|job| ends.contains(&job.spec.id)) { SCRIPT_JOBS / 2 } else { 1 };
        let jobs = follow_ups.iter().map(|job| Weight::of_new(job).jobs).fold(1, usize::saturating_add).max(least);
        Weight { jobs, bytes: settlement.bytes() }
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::store::SCRIPT_BYTES;
    use gristmill_core::job::{JobId, Lease, Payload};
    use gristmill_core::outcome::{Failure, FailureDetail, Reason, Verdict};

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
            Failure::new(Reason::Failed, detail)
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
