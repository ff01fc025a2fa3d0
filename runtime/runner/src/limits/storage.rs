//! What a tenant has in the store: counted now and then, and added to in between.

use std::collections::{BTreeSet, HashMap};
use std::sync::Arc;
use std::time::Duration;

use tokio::sync::Mutex;
use tokio::time::Instant;

use gristmill_config::TenantLimits;
use gristmill_core::job::{Name, NewJob, TopicId};
use gristmill_store::{Inspect, StoreError, StoreSize, TopicCounts, Usage};

/// How long a count holds, with what was let in since.
const HOLDS: Duration = Duration::from_secs(1);

/// How soon a tenant that is full is counted again: clients that are refused may ask again and again.
const AGAIN_AFTER: Duration = Duration::from_millis(100);

/// A count holds for this many times as long as it took.
const WORTH: u32 = 20;

/// The bytes that a tenant may have without a limit of its own, where the store does not say how much it can hold. Elsewhere
/// it is half of that: one tenant alone does not fill the store.
const UNKNOWN_SHARE: u64 = 10 << 30;

/// From this many tenants on, the counts that no longer hold are forgotten.
const FORGET_FROM: usize = 1024;

/// What the tenants with a limit have in the store.
#[derive(Debug)]
pub struct StorageUse {
    counts: Mutex<Counts>,
    holds: Duration,
}

/// What a push or an attempt brings.
#[derive(Debug, Default)]
pub struct Added {
    /// How many jobs.
    pub jobs: u64,
    /// Bytes of bodies, headers, links and states.
    pub bytes: u64,
    /// The topics that neither the manifest nor a component makes.
    pub topics: BTreeSet<Name>,
}

/// Which limit that would exceed, and how much it allows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Full {
    /// Jobs, dead ones included.
    Jobs(u64),
    /// Bytes of all that is stored of them.
    Bytes(u64),
    /// Topics that neither the manifest nor a component makes.
    Topics(u64),
}

impl Full {
    /// The limit's key in the manifest.
    pub const fn limit(self) -> &'static str {
        match self {
            Self::Jobs(_) => "stored-jobs",
            Self::Bytes(_) => "stored-bytes",
            Self::Topics(_) => "topics",
        }
    }
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

impl Default for StorageUse {
    fn default() -> Self {
        Self { counts: Mutex::default(), holds: HOLDS }
    }
}

#[derive(Debug, Default)]
struct Count {
    jobs: u64,
    /// `None` if they were not counted.
    bytes: Option<u64>,
    /// Those that neither the manifest nor a component makes.
    topics: BTreeSet<Name>,
    at: Option<Instant>,
    /// How long it took to count.
    took: Duration,
    /// How full the whole store was, and when; and the bytes that were let in since.
    size: Option<(Instant, StoreSize)>,
    let_in: u64,
}

/// Bytes of a link besides the ids, which a store has twice.
const LINK_BYTES: u64 = 60;

impl Added {
    /// Adds a job.
    pub fn add(&mut self, job: &NewJob) {
        let NewJob { spec, .. } = job;
        let links = spec.options.named().map(|id| LINK_BYTES + 2 * (id.as_str().len() + spec.id.as_str().len()) as u64);
        self.jobs += 1;
        self.bytes += spec.body.data.len() as u64 + spec.header_bytes() + links.sum::<u64>();
    }
}

impl Count {
    /// Whether the count is good for this long. One that took long is good for longer, so that the store also does other things.
    fn holds(&self, how_long: Duration) -> bool {
        self.at.is_some_and(|at| at.elapsed() < how_long.max(self.took * WORTH))
    }

    /// Whether what these limits are about was counted.
    fn knows(&self, limits: &TenantLimits) -> bool {
        limits.stored_bytes.is_none() || self.bytes.is_some()
    }

    /// The limits with that of bytes filled in, if the tenant has none of its own and could exceed the usual one: the tenants
    /// of a store that has room for all of them need not be counted.
    async fn with_usual_bytes(
        &mut self,
        store: &(impl Usage + ?Sized),
        tenant: &Name,
        added: &Added,
        limits: &TenantLimits,
        fresh: Duration,
    ) -> Result<TenantLimits, StoreError> {
        if limits.stored_bytes.is_some() {
            return Ok(*limits);
        }
        let known = self.size.filter(|(at, _)| at.elapsed() < fresh);
        let size = match known {
            Some((_, size)) => size,
            None => {
                let size = store.store_size(tenant).await?;
                (self.size, self.let_in) = (Some((Instant::now(), size)), 0);
                size
            }
        };
        let most = size.capacity.map_or(UNKNOWN_SHARE, |bytes| bytes / 2);
        let could_exceed = size.used.saturating_add(self.let_in).saturating_add(added.bytes) > most;
        Ok(TenantLimits { stored_bytes: could_exceed.then_some(most), ..*limits })
    }

    /// Counts what these limits are about.
    async fn of(
        store: &(impl Inspect + Usage + ?Sized),
        tenant: &Name,
        limits: &TenantLimits,
        is_known: impl Fn(&TopicId) -> bool,
    ) -> Result<Self, StoreError> {
        let begun = Instant::now();
        let bytes = if limits.stored_bytes.is_some() { Some(store.stored_bytes(tenant).await?) } else { None };
        let found = store.counts(tenant).await?;
        let jobs = found.iter().map(TopicCounts::jobs).sum();
        let topics = found.into_iter().map(|found| found.topic).filter(|id| !is_known(id)).map(|id| id.topic).collect();
        Ok(Self { jobs, bytes, topics, at: Some(Instant::now()), took: begun.elapsed(), ..Self::default() })
    }

    /// The limit that the tenant would exceed.
    fn full(&self, added: &Added, limits: &TenantLimits) -> Option<Full> {
        let jobs = self.jobs.saturating_add(added.jobs);
        if let Some(most) = limits.stored_jobs.filter(|most| jobs > *most) {
            return Some(Full::Jobs(most));
        }
        let bytes = self.bytes.unwrap_or_default().saturating_add(added.bytes);
        if let Some(most) = limits.stored_bytes.filter(|most| bytes > *most) {
            return Some(Full::Bytes(most));
        }
        let new = added.topics.difference(&self.topics).count();
        let topics = (self.topics.len() + new) as u64;
        (new > 0 && topics > limits.topics).then_some(Full::Topics(limits.topics))
    }

    fn add(&mut self, added: Added) {
        self.jobs += added.jobs;
        self.bytes = self.bytes.map(|bytes| bytes + added.bytes);
        self.let_in += added.bytes;
        self.topics.extend(added.topics);
    }
}

impl StorageUse {
    /// Whether the tenant may have more in the store: `None`, or the limit that it would exceed. Without a limit of bytes, that is
    /// half of what the store can hold. What is let in counts from then on. `is_known`: whether the manifest or a component makes a topic.
    ///
    /// # Errors
    /// The store cannot count.
    pub async fn let_in(
        &self,
        store: &(impl Inspect + Usage + ?Sized),
        tenant: &Name,
        added: Added,
        limits: &TenantLimits,
        is_known: impl Fn(&TopicId) -> bool,
    ) -> Result<Option<Full>, StoreError> {
        let count = self.count_of(tenant).await;
        // The tenant's pushes wait for each other here, and those of other tenants do not.
        let mut count = count.lock().await;
        let limits = &count.with_usual_bytes(store, tenant, &added, limits, self.holds).await?;
        // Topics that were counted once need no new count.
        let counts_jobs = limits.stored_jobs.is_some() || limits.stored_bytes.is_some();
        let is_new = counts_jobs || !added.topics.is_subset(&count.topics);
        let is_full = count.full(&added, limits).is_some();
        let is_old = !count.holds(self.holds) || !count.knows(limits);
        if (is_new && is_old) || (is_full && !count.holds(AGAIN_AFTER)) {
            let counted = Count::of(store, tenant, limits, is_known).await?;
            *count = Count { size: count.size, let_in: count.let_in, ..counted };
        }
        let full = count.full(&added, limits);
        if full.is_none() {
            count.add(added);
        }
        Ok(full)
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
    use gristmill_core::job::{Due, JobSpec, Payload};
    use gristmill_store::embedded::EmbeddedStore;
    use gristmill_store::prelude::*;

    const LONG: Duration = Duration::from_secs(3600);

    fn job_of(topic: &str) -> NewJob {
        NewJob { spec: JobSpec::new(topic.parse().unwrap(), Payload::default()), due: Due::Now }
    }

    fn job() -> NewJob {
        job_of("acme/a")
    }

    /// Whether the tenant may have `more` jobs, with `most` in all.
    async fn may_add(storage: &StorageUse, store: &EmbeddedStore, tenant: &Name, more: u64, most: u64) -> bool {
        let limits = TenantLimits { stored_jobs: Some(most), ..TenantLimits::default() };
        let added = Added { jobs: more, ..Added::default() };
        storage.let_in(store, tenant, added, &limits, |_| true).await.unwrap().is_none()
    }

    #[tokio::test]
    async fn up_to_the_limit_and_not_one_more() {
        let (store, storage) =
            (EmbeddedStore::in_memory().await.unwrap(), StorageUse { holds: LONG, ..StorageUse::default() });
        let tenant: Name = "acme".parse().unwrap();
        let ask = async |more, most| may_add(&storage, &store, &tenant, more, most).await;
        store.push(&[job(), job()]).await.unwrap();
        assert!(!ask(4, 5).await, "two are there");
        assert!(ask(3, 5).await);
        store.push(&[job(), job(), job()]).await.unwrap();
        assert!(!ask(1, 5).await, "whether they are counted or were let in");
        assert!(ask(0, 5).await && ask(1, 6).await);
        let other: Name = "other".parse().unwrap();
        assert!(may_add(&storage, &store, &other, 5, 5).await);
    }

    #[tokio::test]
    async fn a_place_that_becomes_free_is_found() {
        let (store, storage) =
            (EmbeddedStore::in_memory().await.unwrap(), StorageUse { holds: LONG, ..StorageUse::default() });
        let (tenant, job): (Name, _) = ("acme".parse().unwrap(), job());
        store.push(std::slice::from_ref(&job)).await.unwrap();
        assert!(!may_add(&storage, &store, &tenant, 1, 1).await);
        store.cancel(&tenant, &[job.spec.id]).await.unwrap();
        let free = async {
            while !may_add(&storage, &store, &tenant, 1, 1).await {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        tokio::time::timeout(Duration::from_secs(30), free).await.expect("the place is seen to be free");
    }

    #[tokio::test]
    async fn bytes_that_are_stored_or_let_in_count() {
        let (store, tenant): (_, Name) = (EmbeddedStore::in_memory().await.unwrap(), "acme".parse().unwrap());
        let storage = StorageUse { holds: LONG, ..StorageUse::default() };
        let mut job = job();
        job.spec.body.data = vec![7; 60];
        job.spec.options.key = Some("k".repeat(10));
        store.push(std::slice::from_ref(&job)).await.unwrap();
        let limits = TenantLimits { stored_bytes: Some(150), ..TenantLimits::default() };
        let ask = async || {
            let mut added = Added::default();
            added.add(&job);
            storage.let_in(&store, &tenant, added, &limits, |_| true).await.unwrap()
        };
        assert_eq!(ask().await, None);
        assert_eq!(ask().await, Some(Full::Bytes(150)), "70 are stored, and 70 were let in");
    }

    /// A store of which only the size is known.
    #[derive(Debug)]
    struct OnlySized(StoreSize);

    #[async_trait::async_trait]
    impl Usage for OnlySized {
        async fn stored_bytes(&self, _: &Name) -> Result<u64, StoreError> {
            Ok(0)
        }

        async fn store_size(&self, _: &Name) -> Result<StoreSize, StoreError> {
            Ok(self.0)
        }
    }

    #[tokio::test]
    async fn a_tenant_without_a_limit_of_bytes_may_have_half_of_what_the_store_can_hold() {
        let (store, tenant) = (OnlySized(StoreSize { used: 60, capacity: Some(200) }), "acme".parse().unwrap());
        let mut count = Count::default();
        let limit = async |count: &mut Count, bytes, limits: TenantLimits| {
            let added = Added { bytes, ..Added::default() };
            count.with_usual_bytes(&store, &tenant, &added, &limits, LONG).await.unwrap().stored_bytes
        };
        let none = TenantLimits::default();
        assert_eq!(limit(&mut count, 40, none).await, None, "all tenants together have no more than one may have");
        assert_eq!(limit(&mut count, 41, none).await, Some(100));
        count.add(Added { bytes: 10, ..Added::default() });
        assert_eq!(limit(&mut count, 31, none).await, Some(100), "what was let in counts");
        let own = TenantLimits { stored_bytes: Some(7), ..none };
        assert_eq!(limit(&mut count, 1, own).await, Some(7));
    }

    #[tokio::test]
    async fn topics_that_are_stored_or_let_in_count_and_known_ones_do_not() {
        let (store, tenant): (_, Name) = (EmbeddedStore::in_memory().await.unwrap(), "acme".parse().unwrap());
        let storage = StorageUse { holds: LONG, ..StorageUse::default() };
        store.push(&[job_of("acme/mail"), job_of("acme/a"), job_of("other/x")]).await.unwrap();
        let limits = TenantLimits { topics: 3, ..TenantLimits::default() };
        let ask = async |names: &[&str]| {
            let topics = names.iter().map(|name| name.parse().unwrap()).collect();
            let added = Added { jobs: 1, bytes: 0, topics };
            storage.let_in(&store, &tenant, added, &limits, |id| id.topic.as_str() == "mail").await.unwrap()
        };
        let full = Some(Full::Topics(3));
        assert_eq!(ask(&["b", "c", "d"]).await, full, "`a` is stored");
        assert_eq!(ask(&["a", "b"]).await, None);
        assert_eq!(ask(&["c", "d"]).await, full, "`b` was let in, and what is refused is not counted");
        assert_eq!(ask(&["c"]).await, None);
        assert_eq!(ask(&["d"]).await, full);
        assert_eq!(ask(&["a", "b", "c"]).await, None, "a tenant that is full may use the topics that it has");
        assert_eq!(ask(&[]).await, None);
    }

    #[tokio::test]
    async fn tenants_that_push_no_more_are_forgotten() {
        let store = EmbeddedStore::in_memory().await.unwrap();
        let storage = StorageUse { holds: Duration::ZERO, ..StorageUse::default() };
        for n in 0..3 * FORGET_FROM {
            may_add(&storage, &store, &format!("t{n}").parse().unwrap(), 1, 5).await;
        }
        assert!(storage.counts.lock().await.by_tenant.len() <= FORGET_FROM);
    }
}
