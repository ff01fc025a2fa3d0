//! Gathers jobs that are pushed one by one: what comes while two pushes of the tenant are on their way goes out together, in one script. That
//! costs the server a fraction of a script for each; a push that comes alone waits for nothing.
//!
//! The idea is the group commit of databases.

use anyhow::anyhow;
use tokio::runtime::Handle;

use super::gathering::{JOBS, Waiting};
use crate::batch::{STEP_BYTES, Weight};
use crate::redis::path::claim::behind::and_claim;
use crate::redis::store::Partition;
use crate::{Pushed, StoreError};
use gristmill_core::job::{Due, Name, NewJob};

/// Bytes of each job of a push: together one step of the store, all of them or none.
const BYTES: usize = STEP_BYTES / JOBS;

/// A push that is on its way. Dropped, it has those go out that wait: also if its caller has given up.
struct OnItsWay {
    store: Partition,
    tenant: Name,
}

impl Drop for OnItsWay {
    fn drop(&mut self) {
        loop {
            let waiting = self.store.gathering.next(&self.tenant);
            if waiting.is_empty() {
                return;
            }
            // Without a runtime nothing waits for an answer.
            if let Ok(runtime) = Handle::try_current() {
                let on_its_way = Self { store: self.store.clone(), tenant: self.tenant.clone() };
                runtime.spawn(async move { on_its_way.store.push_together(waiting).await });
                return;
            }
        }
    }
}

/// Whether a job is small enough to be gathered.
pub(super) fn is_small(job: &NewJob) -> bool {
    Weight::of_new(job).bytes <= BYTES
}

impl Partition {
    /// Pushes a small job, alone or with others.
    pub(super) async fn push_gathered(&self, job: &NewJob) -> Result<Vec<Pushed>, StoreError> {
        if let Some(answered) = self.gathering.enter(job) {
            let pushed = answered.await.unwrap_or_else(|_| Err(self.unanswered()))?;
            return Ok(vec![pushed]);
        }
        // In a box: those that wait, most of them if there are many, do not carry it around.
        Box::pin(self.push_at_once(job)).await
    }

    /// Has what comes meanwhile go out afterwards.
    async fn push_at_once(&self, job: &NewJob) -> Result<Vec<Pushed>, StoreError> {
        let _on_its_way = OnItsWay { store: self.clone(), tenant: job.spec.topic.tenant.clone() };
        let topic = std::slice::from_ref(&job.spec.topic);
        let claim = if job.due == Due::Now { self.waiting_claim(topic) } else { None };
        if claim.is_none() {
            return self.push_batch(std::slice::from_ref(job)).await;
        }
        and_claim(self.push_claimed(job), claim).await
    }

    async fn push_together(&self, waiting: Vec<Waiting>) {
        let (jobs, callers): (Vec<_>, Vec<_>) =
            waiting.into_iter().map(|waiting| (waiting.job, waiting.answer)).unzip();
        let answers = match self.push_batch(&jobs).await {
            Ok(pushed) => pushed.into_iter().map(Ok).collect(),
            Err(StoreError::Unavailable { store, source }) => {
                let again = |_| Err(StoreError::Unavailable { store: store.clone(), source: anyhow!("{source:#}") });
                jobs.iter().map(again).collect()
            }
            Err(StoreError::Unconfirmed { store, source }) => {
                let again = |_| Err(StoreError::Unconfirmed { store: store.clone(), source: anyhow!("{source:#}") });
                jobs.iter().map(again).collect()
            }
            // None is stored, perhaps because of one of them.
            Err(_) => self.push_one_by_one(&jobs).await,
        };
        for (caller, answer) in callers.into_iter().zip(answers) {
            // A caller that has given up does not learn what became of its job, as with any other push.
            drop(caller.send(answer));
        }
    }

    async fn push_one_by_one(&self, jobs: &[NewJob]) -> Vec<Result<Pushed, StoreError>> {
        let mut answers = Vec::with_capacity(jobs.len());
        for job in jobs {
            let pushed = self.push_batch(std::slice::from_ref(job)).await;
            answers.push(pushed.and_then(|mut pushed| pushed.pop().ok_or_else(|| self.unanswered())));
        }
        answers
    }

    fn unanswered(&self) -> StoreError {
        StoreError::Unavailable { store: self.link.address.clone(), source: anyhow!("a push was not answered") }
    }
}
