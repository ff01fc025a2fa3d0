//! Settles what has ended, as much at once as came together while the last batch was on its way.

use std::sync::Arc;

use tokio::sync::mpsc;
use tokio::task::JoinSet;

use super::in_flight::InFlight;
use super::journal::Journal;
use super::record::{AttemptRecord, Observer};
use super::slots::Slot;
use super::store_retry::StoreRetry;
use gristmill_metrics::Metrics;
use gristmill_store::{Settled, Settlement, Store, StoreError};

/// Settlements in one call: enough that the round trip does not matter, few enough that Redis is not held up.
const AT_ONCE: usize = 256;

/// An attempt that has ended.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) settlement: Settlement,
    pub(super) record: Box<AttemptRecord>,
    /// Delivery until the attempt is settled: a store that is slower than the guests holds them back, and a topic with a
    /// concurrency of one does its jobs strictly one after the other.
    pub(super) slot: Slot,
}

/// The settling loop's own things.
#[derive(Clone)]
pub(super) struct Settler {
    pub(super) store: Arc<dyn Store>,
    pub(super) retry: Arc<StoreRetry>,
    pub(super) in_flight: Arc<InFlight>,
    pub(super) observer: Option<Observer>,
    pub(super) journal: Option<Journal>,
    pub(super) metrics: Arc<Metrics>,
}

impl Settler {
    /// Settles until every sender is gone and nothing is left.
    pub(super) async fn run(self, finished: mpsc::UnboundedReceiver<Finished>) {
        match self.store.lanes() {
            1 => self.settle(finished).await,
            lanes => self.by_lane(lanes, finished).await,
        }
    }

    /// Each lane settles by itself: one that waits for its part of the store holds up no other.
    async fn by_lane(self, lanes: usize, mut finished: mpsc::UnboundedReceiver<Finished>) {
        let mut settling = JoinSet::new();
        let lanes = (0..lanes).map(|_| {
            let (lane, to_settle) = mpsc::unbounded_channel();
            let settler = Self { retry: Arc::new(self.retry.apart()), ..self.clone() };
            settling.spawn(settler.settle(to_settle));
            lane
        });
        let lanes: Vec<_> = lanes.collect();
        loop {
            tokio::select! {
                next = finished.recv() => {
                    let Some(finished) = next else { break };
                    let lane = self.store.lane(&finished.settlement.lease);
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
        let Self { store, retry, in_flight, observer, journal, metrics } = self;
        let (mut batch, mut records) = (Vec::with_capacity(AT_ONCE), Vec::new());
        while finished.recv_many(&mut batch, AT_ONCE).await > 0 {
            let (settlements, others): (Vec<_>, Vec<_>) =
                batch.drain(..).map(|Finished { settlement, record, slot }| (settlement, (record, slot))).unzip();
            let answers = match retry.call(|| store.settle(&settlements)).await {
                Some(Ok(answers)) => answers.into_iter().map(Some).collect(),
                Some(Err(error)) => one_by_one(&*store, &retry, &settlements, error).await,
                None => {
                    let attempts = settlements.len();
                    tracing::error!(
                        attempts,
                        "stopped with attempts unsettled: their jobs come back when their leases run out"
                    );
                    vec![None; attempts]
                }
            };
            in_flight.put_down(&settlements);
            for ((mut record, slot), answer) in others.into_iter().zip(answers) {
                record.settled = answer;
                slot.meter().attempt(&record.measured());
                if metrics.events().has_subscribers() {
                    record.event().into_iter().for_each(|event| metrics.emit(|| event));
                }
                if let Some(settled) = answer {
                    record.log(settled);
                    if let (Some(observer), Settled::Done) = (&observer, settled) {
                        observer(&record);
                    }
                }
                if journal.is_some() {
                    records.push(record);
                }
            }
            if let Some(journal) = &journal {
                journal.append(&mut records);
            }
        }
    }
}

/// A batch was refused: find the culprit, so that it takes nobody along. Its job comes back when its lease runs out.
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
