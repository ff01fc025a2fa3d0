//! The tenants whose jobs the runner looks after: the registry's, and all others that have jobs in the store.
//!
//! A topic needs no handler here: its jobs may be claimed over HTTP. They must become due and be taken back all the same.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::{Notify, watch};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use super::store_retry::StoreRetry;
use crate::handlers::HandlerRegistry;
use gristmill_core::job::Name;
use gristmill_store::Store;

/// How often the store is asked which tenants have jobs, jittered; it may look at every key for that. A tenant that uses the HTTP server is known
/// at once.
const LOOK: Duration = Duration::from_secs(300);
/// Tenants outside of the registry that are looked after at once.
const MOST: usize = 10_000;
/// Leases whose end is waited for; those of further ones are found by the reaper's rounds.
const ENDS: usize = 10_000;
/// Ends within this time count as one.
const GRAIN_MS: u64 = 20;

/// The tenants outside of the registry, and when leases end that were given out over HTTP. Cheap to clone.
#[derive(Debug, Clone, Default)]
pub struct Tenants(Arc<Shared>);

#[derive(Debug, Default)]
struct Shared {
    outside: watch::Sender<Outside>,
    ends: Mutex<BTreeSet<(Instant, Name)>>,
    /// An end was added that is earlier than the others.
    earlier: Notify,
}

#[derive(Debug, Default)]
pub(super) struct Outside {
    known: Arc<BTreeSet<Name>>,
    /// Tenants that used the HTTP server since the store was asked.
    fresh: BTreeSet<Name>,
}

impl Tenants {
    /// A client pushes jobs of this tenant or claims some: the runner looks after them from now on.
    pub fn note(&self, tenant: &Name) {
        self.0.outside.send_if_modified(|outside| {
            if outside.fresh.contains(tenant) || outside.fresh.len() >= MOST {
                return false;
            }
            outside.fresh.insert(tenant.clone());
            let is_new = !outside.known.contains(tenant) && outside.known.len() < MOST;
            if is_new {
                Arc::make_mut(&mut outside.known).insert(tenant.clone());
            }
            is_new
        });
    }

    /// A lease of the tenant ends after this long: what it leaves behind is taken back then, and not at the next round.
    pub fn note_lease(&self, tenant: &Name, lease: Duration) {
        let grains = u64::try_from(lease.as_millis()).unwrap_or(u64::MAX) / GRAIN_MS;
        let lease = Duration::from_millis(grains.saturating_add(1).saturating_mul(GRAIN_MS));
        let Some(end) = Instant::now().checked_add(lease) else { return };
        let mut ends = self.0.ends.lock();
        if ends.len() >= ENDS {
            return;
        }
        let first = ends.first().is_none_or(|(first, _)| end < *first);
        ends.insert((end, tenant.clone()));
        drop(ends);
        if first {
            self.0.earlier.notify_one();
        }
    }

    /// The tenant whose lease is the next to end, when it does. Cancel-safe. One waiter at a time.
    pub(super) async fn next_end(&self) -> Name {
        loop {
            let first = self.0.ends.lock().first().cloned();
            match first {
                None => self.0.earlier.notified().await,
                Some((end, tenant)) if end <= Instant::now() => {
                    // All that ended of this tenant: one look finds them together.
                    let now = Instant::now();
                    self.0.ends.lock().retain(|(end, other)| *other != tenant || *end > now);
                    return tenant;
                }
                Some((end, _)) => tokio::select! {
                    () = tokio::time::sleep_until(end) => {}
                    () = self.0.earlier.notified() => {}
                },
            }
        }
    }

    pub(super) fn outside(&self) -> watch::Receiver<Outside> {
        self.0.outside.subscribe()
    }

    /// Asks the store now and then, until stopped.
    pub(super) async fn run(self, store: Arc<dyn Store>, retry: Arc<StoreRetry>, stop: CancellationToken) {
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => return,
                found = retry.call(|| store.tenants()) => match found {
                    Some(Ok(found)) => self.replace(found),
                    Some(Err(error)) => tracing::error!("failed to list tenants: {:#}", anyhow::Error::from(error)),
                    None => return,
                },
            }
            tokio::select! {
                () = stop.cancelled() => return,
                () = tokio::time::sleep(LOOK.mul_f64(0.5 + fastrand::f64())) => {}
            }
        }
    }

    fn replace(&self, found: Vec<Name>) {
        if found.len() > MOST {
            let tenants = found.len();
            tracing::warn!(
                tenants,
                "more tenants have jobs than are looked after without a topic in the manifest: {MOST}"
            );
        }
        self.0.outside.send_if_modified(|outside| {
            let fresh = std::mem::take(&mut outside.fresh);
            let known: BTreeSet<Name> = fresh.into_iter().chain(found).take(MOST).collect();
            let changed = known != *outside.known;
            if changed {
                outside.known = Arc::new(known);
            }
            changed
        });
    }
}

/// The registry's tenants and the others, in order.
pub(super) fn all(registry: &HandlerRegistry, outside: &watch::Receiver<Outside>) -> BTreeSet<Name> {
    let known = Arc::clone(&outside.borrow().known);
    registry.tenants().union(&known).cloned().collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_store::embedded::EmbeddedStore;

    fn name(text: &str) -> Name {
        text.parse().unwrap()
    }

    fn known(tenants: &Tenants) -> Vec<String> {
        all(&HandlerRegistry::default(), &tenants.outside()).into_iter().map(String::from).collect()
    }

    #[test]
    fn a_tenant_that_sent_a_request_is_known_until_the_store_has_been_asked_twice() {
        let tenants = Tenants::default();
        tenants.note(&name("visitor"));
        assert_eq!(known(&tenants), ["visitor"]);
        tenants.replace(vec![name("holder")]);
        assert_eq!(known(&tenants), ["holder", "visitor"]);
        tenants.replace(vec![name("holder")]);
        assert_eq!(known(&tenants), ["holder"]);
    }

    #[test]
    fn no_more_are_known_than_are_looked_after() {
        let tenants = Tenants::default();
        for n in 0..=MOST {
            tenants.note(&name(&format!("t{n}")));
        }
        assert_eq!(known(&tenants).len(), MOST);
        tenants.replace((0..=MOST).map(|n| name(&format!("u{n}"))).collect());
        assert_eq!(known(&tenants).len(), MOST);
    }

    #[tokio::test]
    async fn the_first_lease_to_end_is_returned_first_and_not_early() {
        let tenants = Tenants::default();
        tenants.note_lease(&name("late"), Duration::from_secs(3600));
        let waiting = tokio::spawn({
            let tenants = tenants.clone();
            async move { tenants.next_end().await }
        });
        tokio::task::yield_now().await;
        tenants.note_lease(&name("early"), Duration::ZERO);
        tenants.note_lease(&name("never"), Duration::MAX);
        assert_eq!(waiting.await.unwrap(), name("early"));
        let begun = Instant::now();
        tenants.note_lease(&name("next"), Duration::from_millis(50));
        assert_eq!(tenants.next_end().await, name("next"));
        assert!(begun.elapsed() > Duration::from_millis(50));
        assert_eq!(
            tenants.0.ends.lock().first().map(|(_, tenant)| tenant.clone()),
            Some(name("late")),
            "it is still to come"
        );
    }

    #[tokio::test]
    async fn tenants_of_the_store_are_found_at_the_start() {
        let store: Arc<dyn Store> = Arc::new(EmbeddedStore::in_memory().await.unwrap());
        let spec =
            gristmill_core::job::JobSpec::new("acme/a".parse().unwrap(), gristmill_core::job::Payload::default());
        store.push(&[gristmill_core::job::NewJob { spec, due: gristmill_core::job::Due::Now }]).await.unwrap();
        let tenants = Tenants::default();
        let (mut outside, stop) = (tenants.outside(), CancellationToken::new());
        let retry = Arc::new(StoreRetry::new(stop.clone()));
        let running = tokio::spawn(tenants.clone().run(store, retry, stop.clone()));
        outside.changed().await.unwrap();
        assert_eq!(known(&tenants), ["acme"]);
        stop.cancel();
        running.await.unwrap();
    }
}
