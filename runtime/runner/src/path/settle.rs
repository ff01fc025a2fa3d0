//! Settles what has ended, as much at once as came together while the last batch was on its way.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::work::{Finished, FinishedAttempt};
use crate::context::Context;
use crate::deployments::trap_streaks::TrapStreaks;
use crate::handlers::Handler;
use crate::journal::{AttemptLine, Journal};
use crate::record::{AttemptRecord, Observer};
use crate::recordings::RecordingSender;
use crate::store_retry::StoreRetry;
use crate::traces::Traces;
use gristmill_core::job::{Lease, TopicId};
use gristmill_core::outcome::OutcomeKind;
use gristmill_sandbox::RequestTrace;
use gristmill_store::{Settled, Settlement, Store, StoreError};

/// Settlements in one call: enough that the round trip does not matter, few enough that Redis is not held up.
const AT_ONCE: usize = 256;

/// The settling loop's own things.
#[derive(Clone)]
pub(crate) struct Settler {
    pub(crate) context: Context,
    pub(crate) observer: Option<Observer>,
    pub(crate) journal: Option<Journal>,
    pub(crate) traces: Option<Traces>,
    pub(crate) recordings: RecordingSender,
    pub(crate) trap_streaks: TrapStreaks,
    /// The topics of which a version has parked a job that serves it no longer.
    pub(crate) parked_late: mpsc::UnboundedSender<TopicId>,
}

impl Settler {
    /// Settles until every sender is dropped and the queue is empty.
    pub(crate) async fn run(self, finished: mpsc::UnboundedReceiver<Finished>) {
        match self.context.store.lanes() {
            1 => self.settle(finished).await,
            lanes => self.by_lane(lanes, finished).await,
        }
    }

    /// Each lane settles on its own: one that waits for its part of the store holds up no other.
    async fn by_lane(self, lanes: usize, mut finished: mpsc::UnboundedReceiver<Finished>) {
        let mut settling = JoinSet::new();
        let lanes = (0..lanes).map(|_| {
            let (lane, to_settle) = mpsc::unbounded_channel();
            let retry = Arc::new(self.context.retry.apart());
            let settler = Self { context: Context { retry, ..self.context.clone() }, ..self.clone() };
            settling.spawn(settler.settle(to_settle));
            lane
        });
        let lanes: Vec<_> = lanes.collect();
        loop {
            tokio::select! {
                next = finished.recv() => {
                    let Some(finished) = next else { break };
                    let lane = self.context.store.lane(&finished.settlement.lease);
                    if lanes.get(lane).is_none_or(|lane| lane.send(finished).is_err()) {
                        return;
                    }
                }
                // It has broken, and so has the runner.
                _ = settling.join_next() => return,
            }
        }
        drop(lanes);
        while settling.join_next().await.is_some() {}
    }

    async fn settle(self, mut finished: mpsc::UnboundedReceiver<Finished>) {
        let mut batch = Vec::with_capacity(AT_ONCE);
        while finished.recv_many(&mut batch, AT_ONCE).await > 0 {
            let (settlements, others): (Vec<_>, Vec<_>) = batch
                .drain(..)
                .map(|finished| {
                    let FinishedAttempt {
                        claim,
                        run,
                        requests,
                        outcome,
                        settlement,
                        log,
                        recording,
                        pause_after,
                        slot,
                    } = *finished;
                    (settlement, (claim, run, requests, outcome, log, recording, pause_after, slot))
                })
                .unzip();
            let answers = self.ask(&settlements).await;
            self.context.in_flight.put_down(&settlements);
            let (mut records, mut logs, mut pauses) = (Vec::new(), Vec::new(), Vec::new());
            let mut slots = Vec::with_capacity(settlements.len());
            for (((claim, run, requests, outcome, log, recording, pause_after, slot), settlement), settled) in
                others.into_iter().zip(settlements).zip(answers)
            {
                let verdict = settlement.verdict;
                let record = AttemptRecord { claim, run: Some(run), outcome, verdict, settled };
                slot.meter().attempt(&record.measured());
                if run.ran {
                    slot.topic().note_duration(run.duration);
                }
                self.context.bill.add(&record.claim.lease.topic, record.day(), record.cost());
                self.note(&record, requests.as_ref());
                if let Some(recording) = recording.filter(|_| settled == Some(Settled::Done)) {
                    self.recordings.send(recording);
                }
                if pause_after > 0 {
                    pauses.extend(self.trap_streaks.note(&record, pause_after));
                }
                if self.journal.is_some() || self.context.recent.is_some() {
                    records.push(record);
                    logs.push(log);
                }
                slots.push(slot);
            }
            // Together: the first one to be free wakes the claimer.
            drop(slots);
            if let Some(journal) = &self.journal {
                journal.append(records.iter().map(AttemptLine::from));
            }
            if let Some(recent) = &self.context.recent {
                recent.add(records.iter().zip(logs));
            }
            for pause in pauses {
                pause.carry_out(&self.context).await;
            }
        }
    }

    /// What the store makes of them; of one that it refused, or did not answer in time, `None`.
    async fn ask(&self, settlements: &[Settlement]) -> Vec<Option<Settled>> {
        match self.context.retry.call(|| self.context.store.settle(settlements)).await {
            Some(Ok(answers)) => answers.into_iter().map(Some).collect(),
            Some(Err(error)) => one_by_one(&*self.context.store, &self.context.retry, settlements, error).await,
            None => {
                let attempts = settlements.len();
                tracing::error!(
                    attempts,
                    "stopped with attempts unsettled: their jobs come back when their leases run out"
                );
                vec![None; attempts]
            }
        }
    }

    fn note(&self, record: &AttemptRecord, requests: Option<&RequestTrace>) {
        if self.context.metrics.events().has_subscribers() {
            record.event().into_iter().for_each(|event| self.context.metrics.emit(|| event));
        }
        record.log();
        if self.is_parked_late(record) {
            self.parked_late.send(record.claim.lease.topic.clone()).ok();
        }
        if (record.outcome, record.settled) == (OutcomeKind::Killed, Some(Settled::Done)) {
            let Lease { job, topic, .. } = &record.claim.lease;
            tracing::warn!(%topic, %job, "killed, but the store knows of no kill any more: the job runs again; kill it once more");
        }
        if let Some(traces) = &self.traces {
            traces.record(record, requests);
        }
        if let (Some(observer), Some(Settled::Done)) = (&self.observer, record.settled) {
            observer(record);
        }
    }

    /// Whether another version serves the topic by now than the one that has parked the job. While that one is being tried, its jobs stay its own.
    fn is_parked_late(&self, record: &AttemptRecord) -> bool {
        let is_parked = record.verdict.failure().is_some_and(|failure| failure.parked_by.is_some());
        is_parked && {
            let registry = self.context.registry.borrow();
            let entry = registry.get(&record.claim.lease.topic).filter(|entry| entry.candidate.is_none());
            let served = entry.and_then(|entry| entry.handler.as_ref()).and_then(Handler::version);
            served.is_some() && served != record.run.and_then(|run| run.version)
        }
    }
}

/// A batch was refused: finds the settlement at fault, so that the others are settled. Its job comes back when its lease runs out.
async fn one_by_one(
    store: &dyn Store,
    retry: &StoreRetry,
    settlements: &[Settlement],
    refused: StoreError,
) -> Vec<Option<Settled>> {
    tracing::warn!("a batch was not settled, settling one by one: {:#}", anyhow::Error::from(refused));
    let mut answers = Vec::with_capacity(settlements.len());
    for settlement in settlements {
        let one = std::slice::from_ref(settlement);
        let answer = match retry.call(|| store.settle(one)).await {
            Some(Ok(settled)) => settled.first().copied(),
            Some(Err(error)) => {
                let job = &settlement.lease.job;
                tracing::error!(%job, "was not settled and will come back: {:#}", anyhow::Error::from(error));
                None
            }
            None => None,
        };
        answers.push(answer);
    }
    answers
}
