//! Says that this worker lives, and takes back what dead ones and overrun leases left behind.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::watch;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::journal::Journal;
use super::lifeline::Lifeline;
use super::record::AttemptRecord;
use super::tenants::{self, Tenants};
use crate::handlers::Fleet;
use crate::job::{Name, WorkerId};
use crate::metrics::Metrics;
use crate::outcome::Outcome;
use crate::retry::{self, Tried};
use crate::store::{Overdue, Settled, Settlement, Store};

/// How often a worker says that it lives.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// A worker that was silent for this long is dead: three heartbeats missed.
pub(super) const DEAD_AFTER: Duration = Duration::from_secs(7);
/// Jobs taken back in one go.
const AT_ONCE: usize = 500;

/// The reaping loop's own things.
pub(super) struct Reaper {
    pub(super) store: Arc<dyn Store>,
    pub(super) lifeline: Arc<Lifeline>,
    pub(super) worker: WorkerId,
    pub(super) fleet: watch::Receiver<Arc<Fleet>>,
    pub(super) tenants: Tenants,
    pub(super) journal: Option<Journal>,
    pub(super) metrics: Arc<Metrics>,
    pub(super) stop: CancellationToken,
}

impl Reaper {
    /// Beats and reaps until stopped.
    pub(super) async fn run(self) {
        let (mut returns, outside) = (self.lifeline.returns(), self.tenants.outside());
        // After an outage everybody's heartbeat is old: give them time to be heard before calling them dead.
        let mut judge_from = Instant::now();
        while let Some(heard) = self.beat().await {
            // Who cannot make itself heard must not conclude that others are dead because it does not hear them.
            if !heard || returns.has_changed().unwrap_or_default() {
                returns.mark_unchanged();
                judge_from = Instant::now() + DEAD_AFTER;
            }
            let tenants = tenants::all(&self.fleet.borrow(), &outside);
            let dead_after = if Instant::now() < judge_from { Duration::MAX } else { DEAD_AFTER };
            let mut beaten = Instant::now();
            for tenant in &tenants {
                while self.reap(tenant, dead_after).await && !self.stop.is_cancelled() {}
                // A thousand tenants on a distant store take longer than a heartbeat may.
                if beaten.elapsed() > HEARTBEAT {
                    beaten = Instant::now();
                    self.beat().await;
                }
            }
            let round = Instant::now() + HEARTBEAT.mul_f64(0.9 + fastrand::f64() / 5.0);
            loop {
                tokio::select! {
                    () = tokio::time::sleep_until(round) => break,
                    // Ends of leases that were given out over HTTP, where nobody beats.
                    tenant = self.tenants.next_end() => while self.reap(&tenant, dead_after).await {},
                    () = self.stop.cancelled() => return,
                }
            }
        }
    }

    /// Whether the store took it; none: stopped.
    async fn beat(&self) -> Option<bool> {
        let answer = self.lifeline.call(|| self.store.heartbeat(&self.worker)).await?;
        Some(match answer {
            Ok(()) => true,
            Err(error) => {
                tracing::error!("failed to say that this worker lives: {:#}", anyhow::Error::from(error));
                false
            }
        })
    }

    /// True: there may be more, and it helps to go on.
    async fn reap(&self, tenant: &Name, dead_after: Duration) -> bool {
        let found = self.lifeline.call(|| self.store.overdue(tenant, dead_after, AT_ONCE)).await;
        let overdue = match found {
            Some(Ok(overdue)) if overdue.is_empty() => return false,
            Some(Ok(overdue)) => overdue,
            Some(Err(error)) => {
                tracing::error!(%tenant, "failed to look for overdue jobs: {:#}", anyhow::Error::from(error));
                return false;
            }
            None => return false,
        };
        let settlements: Vec<Settlement> = overdue.iter().map(|overdue| self.decide(overdue, dead_after)).collect();
        let answers = match self.store.settle(&settlements).await {
            Ok(answers) => answers,
            Err(error) => {
                // They are found again in the next round; to insist would keep this worker from saying that it lives.
                if error.is_away() {
                    self.lifeline.note_away(error);
                } else {
                    tracing::error!(%tenant, "failed to take jobs back: {:#}", anyhow::Error::from(error));
                }
                return false;
            }
        };
        let (mut taken_back, mut records) = (0, Vec::new());
        for ((overdue, settlement), answer) in overdue.iter().zip(&settlements).zip(answers) {
            let lease = &settlement.lease;
            if answer == Settled::Done {
                taken_back += 1;
                let record = record(overdue, settlement);
                self.metrics.topic(&lease.topic).attempt(&record.measured());
                self.metrics.tell(|| record.taken_back_event());
                record.event().into_iter().for_each(|event| self.metrics.tell(|| event));
                records.push(record);
                let (topic, job, worker) = (&lease.topic, &lease.job, &lease.worker);
                tracing::warn!(%topic, %job, %worker, verdict = settlement.verdict.name(), "taken back from a lost worker");
            }
        }
        if let Some(journal) = &self.journal {
            journal.append(&mut records);
        }
        overdue.len() == AT_ONCE && taken_back > 0
    }

    fn decide(&self, overdue: &Overdue, dead_after: Duration) -> Settlement {
        let claim = &overdue.claim;
        let spec = &claim.job.spec;
        let seat = self.fleet.borrow().seat(&spec.topic).cloned();
        let mut policy = seat.as_ref().map(|seat| seat.topic.retry).unwrap_or_default();
        if claim.lease.worker.is_pull() {
            // It chose the lease itself, as the time after which another one is to have the job.
            policy.backoff.base = Duration::ZERO;
        }
        let retention = seat.as_ref().map_or(Duration::ZERO, |seat| seat.topic.result_retention);
        let tried = Tried { attempt: claim.attempt, max_attempts: spec.max_attempts, previous: claim.previous };
        let verdict = retry::decide(outcome(overdue), tried, &policy, fastrand::f64());
        Settlement { only_if_overdue: Some(dead_after), ..Settlement::of(claim, verdict, retention) }
    }
}

fn outcome(overdue: &Overdue) -> Outcome {
    if overdue.worker_died { Outcome::WorkerDied } else { Outcome::LeaseExpired }
}

/// What is known of an attempt whose worker was lost.
fn record(overdue: &Overdue, settlement: &Settlement) -> Box<AttemptRecord> {
    let mut record = AttemptRecord {
        taken_from: Some(settlement.lease.worker.clone()),
        settled: Some(Settled::Done),
        ..AttemptRecord::of(&overdue.claim, &outcome(overdue), std::time::Instant::now())
    };
    record.take_verdict(&settlement.verdict);
    Box::new(record)
}
