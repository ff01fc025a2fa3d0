//! Wake-ups for requests that wait: one subscription a tenant, for as long as somebody listens.

use std::collections::HashMap;
use std::slice;
use std::sync::{Arc, Weak};
use std::time::Duration;

use tokio::sync::{Mutex, broadcast, mpsc};
use tokio::task::JoinHandle;

use gristmill_core::job::Name;
use gristmill_store::{Signal, Store, StoreError};

/// Signals that a listener may fall behind; then it hears [`Signal::Lost`] instead.
const BEHIND: usize = 256;
/// How long to leave a store alone that ended its subscription.
const AGAIN_AFTER: Duration = Duration::from_secs(1);

/// Hands the store's signals to all who listen.
#[derive(Debug)]
pub(crate) struct Hub {
    store: Arc<dyn Store>,
    ears: Mutex<HashMap<Name, Weak<Ear>>>,
}

/// A subscription, which ends with the last of its listeners.
#[derive(Debug)]
struct Ear {
    heard: broadcast::Sender<Signal>,
    listening: JoinHandle<()>,
}

/// Hears what a tenant's store signals from now on.
#[derive(Debug)]
pub(crate) struct Listener {
    heard: broadcast::Receiver<Signal>,
    _ear: Arc<Ear>,
}

impl Hub {
    pub(crate) fn new(store: Arc<dyn Store>) -> Self {
        Self { store, ears: Mutex::default() }
    }

    /// Listens. Nothing that happens after this has returned is missed, so look at the store then and not before.
    ///
    /// # Errors
    /// The store takes no subscription.
    pub(crate) async fn listen(&self, tenant: &Name) -> Result<Listener, StoreError> {
        let mut ears = self.ears.lock().await;
        let ear = match ears.get(tenant).and_then(Weak::upgrade) {
            Some(ear) => ear,
            None => {
                let signals = self.store.signals(slice::from_ref(tenant)).await?;
                let ear = Arc::new(Ear::new(self.store.clone(), tenant.clone(), signals));
                ears.retain(|_, ear| ear.strong_count() > 0);
                ears.insert(tenant.clone(), Arc::downgrade(&ear));
                ear
            }
        };
        Ok(Listener { heard: ear.heard.subscribe(), _ear: ear })
    }
}

impl Listener {
    /// The next signal. Cancel-safe.
    pub(crate) async fn next(&mut self) -> Signal {
        match self.heard.recv().await {
            Ok(signal) => signal,
            Err(broadcast::error::RecvError::Lagged(_)) => Signal::Lost,
            // The sender lives as long as we do.
            Err(broadcast::error::RecvError::Closed) => std::future::pending().await,
        }
    }
}

impl Ear {
    fn new(store: Arc<dyn Store>, tenant: Name, signals: mpsc::Receiver<Signal>) -> Self {
        let heard = broadcast::Sender::new(BEHIND);
        let listening = tokio::spawn(hear(store, tenant, signals, heard.clone()));
        Self { heard, listening }
    }
}

impl Drop for Ear {
    fn drop(&mut self) {
        self.listening.abort();
    }
}

async fn hear(
    store: Arc<dyn Store>,
    tenant: Name,
    mut signals: mpsc::Receiver<Signal>,
    heard: broadcast::Sender<Signal>,
) {
    loop {
        while let Some(signal) = signals.recv().await {
            // Nobody listens at this moment: the ear is about to go.
            heard.send(signal).ok();
        }
        // The store ended it. Those who listen look for themselves until there is another one.
        heard.send(Signal::Lost).ok();
        tokio::time::sleep(AGAIN_AFTER).await;
        if let Ok(again) = store.signals(slice::from_ref(&tenant)).await {
            signals = again;
        }
    }
}
