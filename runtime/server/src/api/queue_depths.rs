//! How many jobs are where: counted when metrics are asked for, and at most once a second.

use std::collections::HashMap;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use gristmill_core::job::Name;
use gristmill_store::{Store, TopicCounts};

/// How long an answer of the store is good for.
const FRESH: Duration = Duration::from_secs(1);
/// How long all answers together may take. After that the store counts as unavailable.
const TIME: Duration = Duration::from_secs(3);
/// Tenants whose queues are counted at once.
pub(crate) const TENANTS: usize = 200;

/// The store's last answer, by tenant. The store is asked once at a time: requests that come meanwhile share its answer.
#[derive(Debug, Default)]
pub(crate) struct QueueDepths(Mutex<DepthCache>);

#[derive(Debug, Default)]
struct DepthCache {
    counts: HashMap<Name, (Instant, Vec<TopicCounts>)>,
    /// When it last failed to answer.
    unavailable_since: Option<Instant>,
}

/// The queue depths of some tenants, as the store answered.
#[derive(Debug)]
pub(crate) struct DepthSnapshot {
    /// The store has answered for every tenant.
    pub(crate) is_up: bool,
    /// In the order of the tenants.
    pub(crate) counts: Vec<TopicCounts>,
}

impl QueueDepths {
    /// Returns the counts of these tenants: at most [`TENANTS`].
    pub(crate) async fn read(&self, store: &dyn Store, tenants: &[Name]) -> DepthSnapshot {
        let mut cache = self.0.lock().await;
        let waits = cache.unavailable_since.is_some_and(|since| since.elapsed() < FRESH);
        // Those of other stores are shown for as long as the one that does not answer is left alone.
        cache.counts.retain(|_, (at, _)| waits || at.elapsed() < FRESH);
        if !waits {
            let answered = tokio::time::timeout(TIME, cache.ask(store, tenants)).await;
            cache.unavailable_since = (answered != Ok(true)).then(Instant::now);
        }
        let counts =
            tenants.iter().filter_map(|tenant| cache.counts.get(tenant)).flat_map(|(_, counts)| counts.clone());
        DepthSnapshot { is_up: cache.unavailable_since.is_none(), counts: counts.collect() }
    }
}

impl DepthCache {
    /// Returns whether the store has answered for all tenants. After an error it goes on: the next tenant may be in another of several stores.
    async fn ask(&mut self, store: &dyn Store, tenants: &[Name]) -> bool {
        let mut answers_for_all = true;
        for tenant in tenants {
            if self.counts.contains_key(tenant) {
                continue;
            }
            match store.counts(tenant).await {
                Ok(counts) => drop(self.counts.insert(tenant.clone(), (Instant::now(), counts))),
                Err(error) => {
                    if answers_for_all {
                        tracing::warn!(%tenant, "failed to count jobs for metrics: {:#}", anyhow::Error::from(error));
                    }
                    answers_for_all = false;
                }
            }
        }
        answers_for_all
    }
}
