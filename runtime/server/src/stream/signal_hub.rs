//! Wake-ups for requests that wait: one subscription for each tenant, for as long as a request listens.

use std::collections::HashMap;
use std::slice;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Mutex, broadcast, mpsc};
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
    subscriptions: Mutex<HashMap<Name, Weak<Subscription>>>,
}

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
        let mut subscriptions = self.subscriptions.lock().await;
        let subscription = match subscriptions.get(tenant).and_then(Weak::upgrade) {
            Some(subscription) => subscription,
            None => {
                let signals = self.store.signals(slice::from_ref(tenant)).await?;
                let subscription = Arc::new(Subscription::new(self.store.clone(), tenant.clone(), signals));
                subscriptions.retain(|_, subscription| subscription.strong_count() > 0);
                subscriptions.insert(tenant.clone(), Arc::downgrade(&subscription));
                subscription
            }
        };
        Ok(Listener { receiver: subscription.sender.subscribe(), _subscription: subscription })
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
