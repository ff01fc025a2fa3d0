//! Signals from every shard that may hold something of the tenants, also from those that come later.

use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use futures_util::future::join_all;
use tokio::sync::mpsc;

use super::shard::Shard;
use super::store::ShardedStore;
use crate::{FindWork, Signal, Signals, StoreError};
use gristmill_core::job::{Name, TopicId, WorkerId};

/// How many signals may wait for the receiver. When it is full, the stores' channels also fill up.
const WAITING: usize = 1024;
/// How long to wait before subscribing again to a store that ended a subscription, or refused one.
const RETRY_PAUSE: Duration = Duration::from_secs(1);

#[async_trait]
impl Signals for ShardedStore {
    async fn signals(&self, tenants: &[Name]) -> Result<mpsc::Receiver<Signal>, StoreError> {
        Ok(self.forward_signals(tenants, None).await)
    }
}

/// A worker, and the topics of which it runs jobs.
type Served = (WorkerId, Arc<[TopicId]>);

impl ShardedStore {
    /// The signals of these tenants from all shards: those that `served` names a worker for, or all.
    pub(super) async fn forward_signals(&self, tenants: &[Name], served: Option<Served>) -> mpsc::Receiver<Signal> {
        let (signals, receiver) = mpsc::channel(WAITING);
        let forwarders = self.shards().iter().map(|shard| async {
            let forwarder = SignalForwarder {
                store: self.clone(),
                shard: Arc::clone(shard),
                tenants: tenants.into(),
                served: served.clone(),
                signals: signals.clone(),
            };
            let subscription = forwarder.subscribe().await;
            tokio::spawn(forwarder.run(subscription));
        });
        join_all(forwarders).await;
        receiver
    }
}

/// Passes on what one shard signals, until the receiver is dropped.
struct SignalForwarder {
    store: ShardedStore,
    shard: Arc<Shard>,
    tenants: Arc<[Name]>,
    /// Whose wake-ups these are; `None`: all signals are forwarded.
    served: Option<Served>,
    signals: mpsc::Sender<Signal>,
}

struct Subscription {
    /// The tenants that may have something in the shard.
    tenants: Vec<Name>,
    /// `None`: there are no such tenants, or the store ended the subscription or refused one.
    signals: Option<mpsc::Receiver<Signal>>,
}

impl SignalForwarder {
    async fn run(self, mut subscription: Subscription) {
        let mut changes = self.store.0.changes.subscribe();
        loop {
            let is_missing = subscription.signals.is_none() && !subscription.tenants.is_empty();
            tokio::select! {
                () = self.signals.closed() => return,
                signal = next(&mut subscription.signals) => {
                    match signal {
                        Some(signal) => self.forward(signal).await,
                        None => subscription.signals = None,
                    }
                    continue;
                }
                Ok(()) = changes.changed() => {
                    if subscription.signals.is_some() && subscription.tenants == self.tenants_here() {
                        continue;
                    }
                }
                () = tokio::time::sleep(RETRY_PAUSE), if is_missing => {}
            }
            let was_subscribed = subscription.signals.is_some();
            subscription = self.subscribe().await;
            // Between two subscriptions signals are lost.
            if was_subscribed || subscription.signals.is_some() {
                self.forward(Signal::Lost).await;
            }
        }
    }

    /// Waits for room. A dropped receiver ends the loop in [`Self::run`].
    async fn forward(&self, signal: Signal) {
        if let Signal::Ready(topic) = &signal {
            self.store.note_ready(&self.shard, [topic]);
        }
        self.signals.send(signal).await.ok();
    }

    fn tenants_here(&self) -> Vec<Name> {
        let map = self.store.map();
        self.tenants.iter().filter(|tenant| map.of(tenant).contains(&self.shard)).cloned().collect()
    }

    async fn subscribe(&self) -> Subscription {
        let tenants = self.tenants_here();
        if tenants.is_empty() {
            return Subscription { tenants, signals: None };
        }
        let signals = match &self.served {
            None => self.shard.signals(&tenants).await,
            Some((worker, topics)) => {
                let here: Vec<TopicId> =
                    topics.iter().filter(|topic| tenants.contains(&topic.tenant)).cloned().collect();
                self.shard.wake_ups(worker, &tenants, &here).await
            }
        };
        let signals = signals.map_err(anyhow::Error::from);
        let signals =
            signals.inspect_err(|error| tracing::debug!(store = %self.shard.name, "no signals yet: {error:#}"));
        Subscription { tenants, signals: signals.ok() }
    }
}

/// Returns `None` when the subscription has ended. Waits for ever if there is none.
async fn next(signals: &mut Option<mpsc::Receiver<Signal>>) -> Option<Signal> {
    match signals {
        Some(signals) => signals.recv().await,
        None => std::future::pending().await,
    }
}
