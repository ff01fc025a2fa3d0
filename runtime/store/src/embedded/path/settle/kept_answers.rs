//! What settle calls answered that failed in part.

use std::collections::HashMap;

use parking_lot::Mutex;

use crate::{Settled, Settlement};
use gristmill_core::job::{JobId, Name};

/// Attempts whose answers are kept, at most: those of one outage.
const KEPT_MAX: usize = 1 << 16;

/// What settle calls answered that failed in part, for when the same attempts are settled again.
#[derive(Debug, Default)]
pub(in crate::embedded) struct KeptAnswers(Mutex<HashMap<Attempt, Settled>>);

/// With the number of the claim: a job that gets the id of one that has ended begins with the same delivery.
type Attempt = (Name, JobId, u64, Option<u64>);

impl KeptAnswers {
    pub(in crate::embedded) fn keep(&self, settlements: &[Settlement], answers: &[Option<Settled>]) {
        let mut kept = self.0.lock();
        if kept.len() >= KEPT_MAX {
            kept.clear();
        }
        let answers = settlements.iter().zip(answers);
        kept.extend(answers.filter_map(|(settlement, answer)| Some((attempt(settlement), (*answer)?))));
    }

    /// Puts the kept answers in place of lost leases.
    pub(in crate::embedded) fn restore(&self, settlements: &[Settlement], mut answers: Vec<Settled>) -> Vec<Settled> {
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
    (lease.topic.tenant.clone(), lease.job.clone(), lease.delivery, lease.batch)
}

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_core::job::{Lease, WorkerId};
    use gristmill_core::outcome::Verdict;

    #[test]
    fn a_job_that_has_the_id_of_one_that_ended_has_answers_of_its_own() {
        let settled_by = |claim| {
            let (topic, worker) = ("mail".parse().unwrap(), WorkerId::new("w"));
            let lease = Lease { job: "job".parse().unwrap(), topic, worker, delivery: 1, batch: Some(claim) };
            [Settlement::new(lease, Verdict::Ack(None))]
        };
        let kept = KeptAnswers::default();
        kept.keep(&settled_by(1), &[Some(Settled::Done)]);
        assert_eq!(kept.restore(&settled_by(2), vec![Settled::LeaseLost]), [Settled::LeaseLost]);
        assert_eq!(kept.restore(&settled_by(1), vec![Settled::LeaseLost]), [Settled::Done]);
    }
}
