//! Settles what has ended, as much at once as came together while the last batch was on its way.

use std::sync::Arc;

use tokio::sync::mpsc;

use super::gate::Slot;
use super::hand::Hand;
use super::journal::Journal;
use super::lifeline::Lifeline;
use super::record::{AttemptRecord, Observer};
use crate::metrics::Metrics;
use crate::store::{Settled, Settlement, Store, StoreError};

/// Settlements in one call: enough that the round trip does not matter, few enough that Redis is not held up.
const AT_ONCE: usize = 256;

/// An attempt that has ended.
#[derive(Debug)]
pub(super) struct Finished {
    pub(super) settlement: Settlement,
    pub(super) record: Box<AttemptRecord>,
    /// Held until the attempt is settled: a store that is slower than the guests holds them back, and a topic with a
    /// concurrency of one does its jobs strictly one after the other.
    pub(super) slot: Slot,
}

/// Settles until every sender is gone and nothing is left.
pub(super) async fn run(
    store: Arc<dyn Store>,
    lifeline: Arc<Lifeline>,
    hand: Arc<Hand>,
    mut finished: mpsc::UnboundedReceiver<Finished>,
    observer: Option<Observer>,
    journal: Option<Journal>,
    metrics: Arc<Metrics>,
) {
    let (mut batch, mut records) = (Vec::with_capacity(AT_ONCE), Vec::new());
    while finished.recv_many(&mut batch, AT_ONCE).await > 0 {
        let (settlements, others): (Vec<_>, Vec<_>) =
            batch.drain(..).map(|Finished { settlement, record, slot }| (settlement, (record, slot))).unzip();
        let answers = match lifeline.call(|| store.settle(&settlements)).await {
            Some(Ok(answers)) => answers.into_iter().map(Some).collect(),
            Some(Err(error)) => one_by_one(&*store, &lifeline, &settlements, error).await,
            None => {
                let attempts = settlements.len();
                tracing::error!(
                    attempts,
                    "stopped with attempts unsettled: their jobs come back when their leases run out"
                );
                vec![None; attempts]
            }
        };
        hand.put_down(&settlements);
        for ((mut record, slot), answer) in others.into_iter().zip(answers) {
            record.settled = answer;
            slot.meter().attempt(&record.measured());
            if metrics.events().are_heard() {
                record.event().into_iter().for_each(|event| metrics.tell(|| event));
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

/// A batch was refused: find the culprit, so that it takes nobody along. Its job comes back when its lease runs out.
async fn one_by_one(
    store: &dyn Store,
    lifeline: &Lifeline,
    settlements: &[Settlement],
    refused: StoreError,
) -> Vec<Option<Settled>> {
    tracing::warn!("a batch was not settled, settling one by one: {:#}", anyhow::Error::from(refused));
    let mut answers = Vec::with_capacity(settlements.len());
    for settlement in settlements {
        let one = std::slice::from_ref(settlement);
        let answer = match lifeline.call(|| store.settle(one)).await {
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
