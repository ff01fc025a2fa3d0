//! Wake-ups for requests that wait: one subscription for each tenant, for as long as a request listens.

use std::collections::HashMap;
use std::slice;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Mutex as AsyncMutex, broadcast, mpsc};
use tokio::task::JoinHandle;

use gristmill_core::job::Name;
use gristmill_store::{Signal, Store, StoreError};

/// Signals that a listener may fall behind; then it receives [`Signal::Lost`] instead.
const BEHIND: usize = 256;
/// How long to leave a store alone that ended its subscription.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Sends the signals of the store to all listeners.
#[derive(Debug)]
pub(crate) struct SignalHub {
    store: Arc<dyn Store>,
    subscriptions: Mutex<HashMap<Name, TenantSubscription>>,
}

/// Locked while the store is asked for it: the store of one tenant may be slow, and others need not wait for that.
type TenantSubscription = Arc<AsyncMutex<Weak<Subscription>>>;

/// A subscription, which ends with the last of its listeners.
#[derive(Debug)]
struct Subscription {
    sender: broadcast::Sender<Signal>,
    listening: JoinHandle<()>,
}

/// Receives what a tenant's store signals from now on.
#[derive(Debug)]
pub(crate) struct Listener {
    receiver: broadcast::Receiver<Signal>,
    _subscription: Arc<Subscription>,
}

impl SignalHub {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, subscriptions: Mutex::default() }
    }

    /// Listens. Nothing that happens after this has returned is missed, so look at the store then and not before.
    ///
    /// # Errors
    /// The store takes no subscription.
    pub(crate) async fn listen(&self, tenant: &Name) -> Result<Listener, StoreError> {
        let of_tenant = self.of_tenant(tenant);
        let mut known = of_tenant.lock().await;
        let subscription = match known.upgrade() {
            Some(subscription) => subscription,
            None => {
                let signals = self.store.signals(slice::from_ref(tenant)).await?;
                let subscription = Arc::new(Subscription::new(self.store.clone(), tenant.clone(), signals));
                *known = Arc::downgrade(&subscription);
                subscription
            }
        };
        Ok(Listener { receiver: subscription.sender.subscribe(), _subscription: subscription })
    }

    fn of_tenant(&self, tenant: &Name) -> TenantSubscription {
        let mut subscriptions = self.subscriptions.lock();
        if let Some(known) = subscriptions.get(tenant) {
            return Arc::clone(known);
        }
        // What no request has at hand can be locked.
        subscriptions.retain(|_, known| {
            Arc::strong_count(known) > 1 || known.try_lock().is_ok_and(|known| known.strong_count() > 0)
        });
        Arc::clone(subscriptions.entry(tenant.clone()).or_default())
    }
}

impl Listener {
    /// The next signal. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Signal {
        match self.receiver.recv().await {
            Ok(signal) => signal,
            Err(broadcast::error::RecvError::Lagged(_)) => Signal::Lost,
            // The sender lives as long as we do.
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

impl Subscription {
    fn new(store: Arc<dyn Store>, tenant: Name, signals: mpsc::Receiver<Signal>) -> Self {
        let sender = broadcast::Sender::new(BEHIND);
        let listening = tokio::spawn(forward(store, tenant, signals, sender.clone()));
        Self { sender, listening }
    }
}

impl Drop for Subscription {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn forward(
    store: Arc<dyn Store>,
    tenant: Name,
    mut signals: mpsc::Receiver<Signal>,
    sender: broadcast::Sender<Signal>,
) {
    loop {
        while let Some(signal) = signals.recv().await {
            // No client listens at this moment: the subscription is about to go.
            sender.send(signal).ok();
        }
        // The store ended it. The listeners poll the store until there is another one.
        sender.send(Signal::Lost).ok();
        tokio::time::sleep(AGAIN_AFTER).await;
        if let Ok(again) = store.signals(slice::from_ref(&tenant)).await {
            signals = again;
        }
    }
}

#[cfg(test)]
mod tests {
    use futures_util::FutureExt;

    use super::*;
    use gristmill_store::embedded::EmbeddedStore;

    #[tokio::test]
    async fn a_tenant_whose_store_does_not_answer_keeps_no_other_from_listening() {
        let hub = SignalHub::new(Arc::new(EmbeddedStore::in_memory().await.unwrap()));
        let [slow, other]: [Name; 2] = ["slow", "other"].map(|name| name.parse().unwrap());
        let of_slow = hub.of_tenant(&slow);
        let asking = of_slow.lock().await;
        assert!(hub.listen(&slow).now_or_never().is_none(), "it waits for the store");
        let listening = hub.listen(&other).await.unwrap();
        drop(asking);
        let both = [hub.listen(&slow).await.unwrap(), hub.listen(&slow).await.unwrap()];
        assert_eq!(of_slow.lock().await.strong_count(), 2, "they share a subscription");

        drop((of_slow, listening, both));
        drop(hub.listen(&"last".parse().unwrap()).await.unwrap());
        assert_eq!(hub.subscriptions.lock().len(), 1, "those whose listeners are gone are forgotten");
    }
}
