//! Wake-ups: the writer tells whoever listens in this process, once what it tells of is committed.

use std::collections::HashSet;
use std::sync::{Mutex, MutexGuard, PoisonError};

use tokio::sync::mpsc;

use crate::job::Name;
use crate::store::Signal;

/// How many signals may wait for a receiver. One that is further behind had better look for itself.
const WAITING: usize = 1024;

#[derive(Debug)]
struct Listener {
    tenants: HashSet<Name>,
    signals: mpsc::Sender<Signal>,
    /// The last thing that was told is [`Signal::Lost`].
    behind: bool,
}

/// Everybody who listens.
#[derive(Debug, Default)]
pub(super) struct Listeners(Mutex<Vec<Listener>>);

impl Listeners {
    pub(super) fn add(&self, tenants: &[Name]) -> mpsc::Receiver<Signal> {
        // One place more than may wait, for the news that there was no place.
        let (signals, receiver) = mpsc::channel(WAITING + 1);
        self.lock().push(Listener { tenants: tenants.iter().cloned().collect(), signals, behind: false });
        receiver
    }

    /// Tells everybody what concerns them, and forgets those who listen no more. Never waits.
    pub(super) fn tell(&self, signals: Vec<Signal>) {
        let mut listeners = self.lock();
        listeners.retain(|listener| !listener.signals.is_closed());
        for signal in &signals {
            listeners.iter_mut().for_each(|listener| listener.tell(signal));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Vec<Listener>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Listener {
    /// Only the writer sends, so the room it finds does not shrink under it. The last place is for [`Signal::Lost`], which
    /// is thus read after everything that was dropped.
    fn tell(&mut self, signal: &Signal) {
        if !tenant(signal).is_none_or(|tenant| self.tenants.contains(tenant)) {
            return;
        }
        let told = if self.signals.capacity() > 1 {
            self.behind = false;
            signal.clone()
        } else if self.behind {
            return;
        } else {
            self.behind = true;
            Signal::Lost
        };
        // Closed: nobody listens any more.
        let _ = self.signals.try_send(told);
    }
}

fn tenant(signal: &Signal) -> Option<&Name> {
    match signal {
        Signal::Ready(topic) => Some(&topic.tenant),
        Signal::Due(tenant, _) | Signal::Finished(tenant, _) | Signal::Cancelled(tenant, _) => Some(tenant),
        Signal::Lost => None,
    }
}
