//! Wake-ups: the writer emits them to the listeners in this process, once the change is committed.

use std::collections::HashSet;

use parking_lot::{Mutex, MutexGuard};
use tokio::sync::mpsc;

use super::file::request::Request;
use crate::{Signal, WaitingClaims};
use gristmill_core::job::{Name, TopicId};
use gristmill_core::token::TokenId;

/// How many signals may wait for a receiver. One that is further behind had better look for itself.
const WAITING: usize = 1024;

#[derive(Debug)]
struct Listener {
    tenants: HashSet<Name>,
    /// It claims: what others have taken is no news to it.
    is_worker: bool,
    signals: mpsc::Sender<Signal>,
    /// The last signal that was sent is [`Signal::Lost`].
    behind: bool,
}

/// All listeners.
#[derive(Debug, Default)]
pub(super) struct Listeners {
    signals: Mutex<Vec<Listener>>,
    tokens: Mutex<Vec<mpsc::Sender<TokenId>>>,
    pub(super) claims: WaitingClaims<Request>,
}

impl Listeners {
    pub(super) fn add(&self, tenants: &[Name], is_worker: bool) -> mpsc::Receiver<Signal> {
        // One place more than may wait, for the news that there was no place.
        let (signals, receiver) = mpsc::channel(WAITING + 1);
        let tenants = tenants.iter().cloned().collect();
        lock(&self.signals).push(Listener { tenants, is_worker, signals, behind: false });
        receiver
    }

    /// Sends each listener what concerns it, and forgets those that listen no more. `taken`: the topics that claims which waited have drained. Never waits.
    pub(super) fn send(&self, signals: &[Signal], taken: &[TopicId]) {
        let mut listeners = lock(&self.signals);
        listeners.retain(|listener| !listener.signals.is_closed());
        for signal in signals {
            let is_taken = matches!(signal, Signal::Ready(topic) if taken.contains(topic));
            listeners
                .iter_mut()
                .filter(|listener| !(is_taken && listener.is_worker))
                .for_each(|listener| listener.send(signal));
        }
    }

    pub(super) fn add_for_tokens(&self) -> mpsc::Receiver<TokenId> {
        let (changes, receiver) = mpsc::channel(WAITING);
        lock(&self.tokens).push(changes);
        receiver
    }

    /// Sends all listeners the tokens that have changed, and gives up those that are too far behind: they see their channel end.
    pub(super) fn send_tokens(&self, changed: &[TokenId]) {
        if !changed.is_empty() {
            lock(&self.tokens).retain(|changes| changed.iter().all(|id| changes.try_send(id.clone()).is_ok()));
        }
    }
}

fn lock<T>(listeners: &Mutex<T>) -> MutexGuard<'_, T> {
    listeners.lock()
}

impl Listener {
    /// Only the writer sends, so the room it finds does not shrink under it. The last place is for [`Signal::Lost`], which
    /// is thus read after everything that was dropped.
    fn send(&mut self, signal: &Signal) {
        if !tenant(signal).is_none_or(|tenant| self.tenants.contains(tenant)) {
            return;
        }
        let signal = if self.signals.capacity() > 1 {
            self.behind = false;
            signal.clone()
        } else if self.behind {
            return;
        } else {
            self.behind = true;
            Signal::Lost
        };
        // Fails if the listener is gone.
        let _ = self.signals.try_send(signal);
    }
}

fn tenant(signal: &Signal) -> Option<&Name> {
    match signal {
        Signal::Ready(topic) | Signal::Deployed(topic) => Some(&topic.tenant),
        Signal::Due { tenant, .. }
        | Signal::Finished { tenant, .. }
        | Signal::Cancelled { tenant, .. }
        | Signal::Killed { tenant, .. } => Some(tenant),
        Signal::Lost => None,
    }
}
