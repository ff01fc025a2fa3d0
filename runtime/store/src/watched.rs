//! A store as seen from this process: how long each call takes, and what comes of it.
//!
//! Around a runner's store it measures. Around a door's it counts and tells, too: what comes in there is pushed, claimed
//! and settled by others, and nobody else in this process sees it.

use std::collections::HashSet;
use std::fmt::Debug;
use std::sync::Arc;
use std::time::{Duration, Instant};

use async_trait::async_trait;
use tokio::sync::mpsc;

use super::contract::{
    ClaimFrom, Claimed, DeadLimits, Migrated, Overdue, PendingWork, Produce, Pushed, Settled, Settlement, Signal, Store,
};
use super::error::StoreError;
use super::inspect::{Cancelled, DeadJob, Inspect, JobView, TopicCounts};
use super::list::{Cursor, Page, StateFilter};
use super::tokens::{FoundToken, TokenAdded, TokenLookup, Tokens};
use gristmill_core::job::{JobId, Lease, Name, NewJob, TopicId, WorkerId};

use gristmill_core::time::millis;
use gristmill_core::token::{NewToken, Token, TokenId, TokenLimits};
use gristmill_metrics::{CallResult, End, Event, EventKind, Metrics, Operation, TopicMeter};

/// A store, and where it is counted.
#[derive(Debug)]
pub struct Watched<S: ?Sized> {
    store: Arc<S>,
    metrics: Arc<Metrics>,
    /// What comes of the calls is counted and told here.
    is_door: bool,
}

impl<S: ?Sized> Watched<S> {
    /// Only measured: a runner counts and tells for itself, and knows more.
    pub fn measured(store: Arc<S>, metrics: Arc<Metrics>) -> Self {
        Self { store, metrics, is_door: false }
    }

    /// For a door.
    pub fn told(store: Arc<S>, metrics: Arc<Metrics>) -> Self {
        Self { store, metrics, is_door: true }
    }

    async fn timed<T>(
        &self,
        operation: Operation,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let begun = Instant::now();
        let answer = call.await;
        let said = match &answer {
            Ok(_) => CallResult::Ok,
            Err(error) if error.is_unavailable() => CallResult::Unavailable,
            Err(_) => CallResult::Refused,
        };
        self.metrics.call(operation, said, begun.elapsed());
        answer
    }

    /// Tells of each of some jobs.
    fn tell_each<'a>(&self, kind: EventKind, jobs: impl Iterator<Item = (&'a TopicId, &'a JobId)>) {
        if self.metrics.events().has_subscribers() {
            jobs.for_each(|(topic, job)| self.metrics.emit(|| Event::of_job(kind, topic, job)));
        }
    }

    fn note_pushed(&self, jobs: &[NewJob], pushed: &[Pushed]) {
        let stored = || {
            let stored = jobs.iter().zip(pushed).filter(|(_, pushed)| **pushed == Pushed::Stored);
            stored.map(|(job, _)| (&job.spec.topic, &job.spec.id))
        };
        // A batch is hardly ever of more than one topic.
        let mut meter: Option<(&TopicId, Arc<TopicMeter>)> = None;
        for (topic, _) in stored() {
            let known = meter.take().filter(|(known, _)| *known == topic);
            let (_, meter) = meter.insert(known.unwrap_or_else(|| (topic, self.metrics.topic(topic))));
            meter.pushed(1);
        }
        self.tell_each(EventKind::JobPushed, stored());
    }

    fn note_claimed(&self, worker: &WorkerId, claimed: &Claimed) {
        for claim in &claimed.claims {
            self.metrics.emit(|| Event {
                attempt: Some(claim.attempt),
                delivery: Some(claim.lease.delivery),
                worker: Some(worker.as_str().to_owned()),
                ..Event::of_job(EventKind::JobStarted, &claim.lease.topic, &claim.lease.job)
            });
        }
    }

    fn note_settled(&self, settlements: &[Settlement], answers: &[Settled]) {
        for (Settlement { lease, verdict, attempts, .. }, settled) in settlements.iter().zip(answers) {
            let end = End::of(verdict, Some(*settled));
            self.metrics.topic(&lease.topic).ended(end);
            let Some(kind) = EventKind::of_end(end) else { continue };
            self.metrics.emit(|| Event {
                attempt: Some(*attempts),
                delivery: Some(lease.delivery),
                worker: Some(lease.worker.as_str().to_owned()),
                reason: verdict.failure().map(|failure| failure.reason.to_string()),
                again_in_ms: verdict.again_in().map(millis),
                ..Event::of_job(kind, &lease.topic, &lease.job)
            });
        }
    }
}

#[async_trait]
impl<S: Inspect + ?Sized> Inspect for Watched<S> {
    async fn counts(&self, tenant: &Name) -> Result<Vec<TopicCounts>, StoreError> {
        self.timed(Operation::Counts, self.store.counts(tenant)).await
    }

    async fn job(&self, tenant: &Name, id: &JobId) -> Result<Option<JobView>, StoreError> {
        self.timed(Operation::Job, self.store.job(tenant, id)).await
    }

    async fn jobs(
        &self,
        topic: &TopicId,
        place: StateFilter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        self.timed(Operation::List, self.store.jobs(topic, place, after, limit)).await
    }

    async fn dead(&self, topic: &TopicId, skip: usize, limit: usize) -> Result<Vec<DeadJob>, StoreError> {
        self.timed(Operation::Dead, self.store.dead(topic, skip, limit)).await
    }

    async fn respawn(&self, topic: &TopicId, ids: &[JobId]) -> Result<Vec<bool>, StoreError> {
        let respawned = self.timed(Operation::Respawn, self.store.respawn(topic, ids)).await?;
        if self.is_door {
            let alive = ids.iter().zip(&respawned).filter(|(_, respawned)| **respawned);
            self.tell_each(EventKind::JobRespawned, alive.map(|(id, _)| (topic, id)));
        }
        Ok(respawned)
    }

    async fn delete_dead(&self, topic: &TopicId, ids: &[JobId]) -> Result<Vec<bool>, StoreError> {
        self.timed(Operation::DeleteDead, self.store.delete_dead(topic, ids)).await
    }

    async fn cancel(&self, tenant: &Name, ids: &[JobId]) -> Result<Vec<Cancelled>, StoreError> {
        let cancelled = self.timed(Operation::Cancel, self.store.cancel(tenant, ids)).await?;
        // A running one is told of when it has stopped, by whoever settles it.
        let gone = ids.iter().zip(&cancelled).filter(|(_, cancelled)| self.is_door && **cancelled == Cancelled::Gone);
        for (id, _) in gone {
            self.metrics.emit(|| Event {
                tenant: Some(tenant.clone()),
                job: Some(id.clone()),
                ..Event::new(EventKind::JobCancelled)
            });
        }
        Ok(cancelled)
    }

    async fn set_paused(&self, topic: &TopicId, paused: bool) -> Result<bool, StoreError> {
        let changed = self.timed(Operation::Pause, self.store.set_paused(topic, paused)).await?;
        if self.is_door && changed {
            let kind = if paused { EventKind::TopicPaused } else { EventKind::TopicResumed };
            self.metrics.emit(|| Event::of_topic(kind, topic));
        }
        Ok(changed)
    }

    async fn tenants(&self) -> Result<Vec<Name>, StoreError> {
        self.timed(Operation::Tenants, self.store.tenants()).await
    }

    /// Asks for a job of each part.
    async fn unavailable(&self) -> Result<Vec<StoreError>, StoreError> {
        self.timed(Operation::Job, self.store.unavailable()).await
    }
}

#[async_trait]
impl<S: Produce + ?Sized> Produce for Watched<S> {
    async fn push(&self, jobs: &[NewJob]) -> Result<Vec<Pushed>, StoreError> {
        let pushed = self.timed(Operation::Push, self.store.push(jobs)).await?;
        if self.is_door {
            self.note_pushed(jobs, &pushed);
        }
        Ok(pushed)
    }

    async fn signals(&self, tenants: &[Name]) -> Result<mpsc::Receiver<Signal>, StoreError> {
        self.timed(Operation::Signals, self.store.signals(tenants)).await
    }
}

#[async_trait]
impl<S: Tokens + ?Sized> Tokens for Watched<S> {
    async fn add_token(&self, token: &NewToken) -> Result<TokenAdded, StoreError> {
        self.timed(Operation::Token, self.store.add_token(token)).await
    }

    async fn tokens(&self, tenant: Option<&Name>) -> Result<Vec<Token>, StoreError> {
        self.timed(Operation::Token, self.store.tokens(tenant)).await
    }

    async fn revoke_token(&self, id: &TokenId) -> Result<bool, StoreError> {
        self.timed(Operation::Token, self.store.revoke_token(id)).await
    }

    async fn set_token_limits(&self, id: &TokenId, limits: TokenLimits) -> Result<bool, StoreError> {
        self.timed(Operation::Token, self.store.set_token_limits(id, limits)).await
    }
}

#[async_trait]
impl<S: TokenLookup + ?Sized> TokenLookup for Watched<S> {
    async fn find_token(&self, id: &TokenId) -> Result<Option<FoundToken>, StoreError> {
        self.timed(Operation::Token, self.store.find_token(id)).await
    }

    async fn has_tokens(&self) -> Result<bool, StoreError> {
        self.timed(Operation::Token, self.store.has_tokens()).await
    }

    async fn token_changes(&self) -> Result<mpsc::Receiver<TokenId>, StoreError> {
        self.timed(Operation::Signals, self.store.token_changes()).await
    }
}

#[async_trait]
impl<S: Store + ?Sized> Store for Watched<S> {
    async fn claim(&self, worker: &WorkerId, from: &[ClaimFrom]) -> Result<Claimed, StoreError> {
        let claimed = self.timed(Operation::Claim, self.store.claim(worker, from)).await?;
        if self.is_door {
            self.note_claimed(worker, &claimed);
        }
        Ok(claimed)
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        let settled = self.timed(Operation::Settle, self.store.settle(settlements)).await?;
        if self.is_door {
            self.note_settled(settlements, &settled);
        }
        Ok(settled)
    }

    async fn migrate(&self, tenant: &Name, limit: usize) -> Result<Migrated, StoreError> {
        self.timed(Operation::Migrate, self.store.migrate(tenant, limit)).await
    }

    async fn extend(&self, leases: &[Lease], lease: Duration) -> Result<Vec<bool>, StoreError> {
        self.timed(Operation::Extend, self.store.extend(leases, lease)).await
    }

    async fn checkpoint(&self, lease: &Lease, state: &[u8]) -> Result<bool, StoreError> {
        self.timed(Operation::Checkpoint, self.store.checkpoint(lease, state)).await
    }

    async fn heartbeat(&self, worker: &WorkerId) -> Result<(), StoreError> {
        self.timed(Operation::Heartbeat, self.store.heartbeat(worker)).await
    }

    async fn retire(&self, worker: &WorkerId) -> Result<(), StoreError> {
        self.timed(Operation::Retire, self.store.retire(worker)).await
    }

    async fn overdue(&self, tenant: &Name, dead_after: Duration, limit: usize) -> Result<Vec<Overdue>, StoreError> {
        self.timed(Operation::Overdue, self.store.overdue(tenant, dead_after, limit)).await
    }

    async fn claims_of(
        &self,
        tenant: &Name,
        worker: &WorkerId,
        except: &HashSet<JobId>,
    ) -> Result<Vec<Lease>, StoreError> {
        self.timed(Operation::Held, self.store.claims_of(tenant, worker, except)).await
    }

    async fn poll_work(&self, tenant: &Name, raw: &[Name]) -> Result<PendingWork, StoreError> {
        self.timed(Operation::Wanted, self.store.poll_work(tenant, raw)).await
    }

    async fn sweep(&self, limits: &[DeadLimits]) -> Result<Vec<u64>, StoreError> {
        self.timed(Operation::Sweep, self.store.sweep(limits)).await
    }

    fn lanes(&self) -> usize {
        self.store.lanes()
    }

    fn lane(&self, lease: &Lease) -> usize {
        self.store.lane(lease)
    }
}
