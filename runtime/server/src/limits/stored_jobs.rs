//! How many jobs a tenant has in the store: counted now and then, and added to in between.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use gristmill_core::job::Name;
use gristmill_store::{Inspect, StoreError, TopicCounts};

/// How long a count holds, with what was let in since.
const HOLDS: Duration = Duration::from_secs(1);

/// How soon a tenant that is full is counted again: whoever is refused may ask again and again.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// From so many tenants on, the counts that no longer hold are forgotten.
const FORGET_FROM: usize = 1024;

/// The counts of tenants that are limited.
#[derive(Debug)]
pub(crate) struct StoredJobs {
    counts: Mutex<Counts>,
    holds: Duration,
}

#[derive(Debug)]
struct Counts {
    by_tenant: HashMap<Name, Arc<Mutex<Count>>>,
    forget_from: usize,
}

impl Default for Counts {
    fn default() -> Self {
        Self { by_tenant: HashMap::new(), forget_from: FORGET_FROM }
    }
}

impl Default for StoredJobs {
    fn default() -> Self {
        Self { counts: Mutex::default(), holds: HOLDS }
    }
}

#[derive(Debug, Clone, Copy, Default)]
struct Count {
    jobs: u64,
    at: Option<Instant>,
}

impl Count {
    fn holds(&self, how_long: Duration) -> bool {
        self.at.is_some_and(|at| at.elapsed() < how_long)
    }
}

impl StoredJobs {
    /// Whether the tenant may have `more` jobs, with `most` in all. Those that are let in count from then on.
    ///
    /// # Errors
    /// The store cannot count.
    pub(crate) async fn let_in(
        &self,
        store: &(impl Inspect + ?Sized),
        tenant: &Name,
        more: u64,
        most: u64,
    ) -> Result<bool, StoreError> {
        let count = self.count_of(tenant).await;
        // The tenant's pushes wait for each other here, and nobody else's do.
        let mut count = count.lock().await;
        let fits = |count: &Count| count.jobs.saturating_add(more) <= most;
        if !count.holds(self.holds) || (!fits(&count) && !count.holds(AGAIN_AFTER)) {
            let topics = store.counts(tenant).await?;
            let jobs = topics.iter().map(TopicCounts::jobs).sum();
            *count = Count { jobs, at: Some(Instant::now()) };
        }
        let fits = fits(&count);
        if fits {
            count.jobs += more;
        }
        Ok(fits)
    }

    /// The count of a tenant, which other tenants' pushes do not wait for.
    async fn count_of(&self, tenant: &Name) -> Arc<Mutex<Count>> {
        let mut counts = self.counts.lock().await;
        if counts.by_tenant.len() >= counts.forget_from {
            let in_use = |count: &Arc<_>| Arc::strong_count(count) > 1;
            let holds = |count: &Mutex<Count>| count.try_lock().is_ok_and(|count| count.holds(self.holds));
            counts.by_tenant.retain(|_, count| in_use(count) || holds(count));
            counts.forget_from = FORGET_FROM.max(counts.by_tenant.len() * 2);
        }
        counts.by_tenant.entry(tenant.clone()).or_default().clone()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_core::job::{Due, JobSpec, NewJob, Payload};
    use gristmill_store::embedded::EmbeddedStore;
    use gristmill_store::prelude::*;

    const LONG: Duration = Duration::from_secs(3600);

    fn job() -> NewJob {
        NewJob { spec: JobSpec::new("acme/a".parse().unwrap(), Payload::default()), due: Due::Now }
    }

    #[tokio::test]
    async fn up_to_the_limit_and_not_one_more() {
        let (store, stored) =
            (EmbeddedStore::in_memory().await.unwrap(), StoredJobs { holds: LONG, ..StoredJobs::default() });
        let tenant: Name = "acme".parse().unwrap();
        let ask = async |more, most| stored.let_in(&store, &tenant, more, most).await.unwrap();
        store.push(&[job(), job()]).await.unwrap();
        assert!(!ask(4, 5).await, "two are there");
        assert!(ask(3, 5).await);
        store.push(&[job(), job(), job()]).await.unwrap();
        assert!(!ask(1, 5).await, "whether they are counted or were let in");
        assert!(ask(0, 5).await && ask(1, 6).await);
        let other: Name = "other".parse().unwrap();
        assert!(stored.let_in(&store, &other, 5, 5).await.unwrap());
    }

    #[tokio::test]
    async fn a_place_that_becomes_free_is_found() {
        let (store, stored) =
            (EmbeddedStore::in_memory().await.unwrap(), StoredJobs { holds: LONG, ..StoredJobs::default() });
        let (tenant, job): (Name, _) = ("acme".parse().unwrap(), job());
        store.push(std::slice::from_ref(&job)).await.unwrap();
        assert!(!stored.let_in(&store, &tenant, 1, 1).await.unwrap());
        store.cancel(&tenant, &[job.spec.id]).await.unwrap();
        let free = async {
            while !stored.let_in(&store, &tenant, 1, 1).await.unwrap() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), free).await.expect("the place is seen to be free");
    }

    #[tokio::test]
    async fn tenants_that_push_no_more_are_forgotten() {
        let store = EmbeddedStore::in_memory().await.unwrap();
        let stored = StoredJobs { holds: Duration::ZERO, ..StoredJobs::default() };
        for n in 0..3 * FORGET_FROM {
            stored.let_in(&store, &format!("t{n}").parse().unwrap(), 1, 5).await.unwrap();
        }
        assert!(stored.counts.lock().await.by_tenant.len() <= FORGET_FROM);
    }
}
