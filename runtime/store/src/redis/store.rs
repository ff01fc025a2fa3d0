//! [`RedisStore`]: what it holds, and which file does what of the contract.

use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use redis::RedisError;
use tokio::sync::mpsc;

use super::clock::{self, TimeReply};
use super::keys::Keys;
use super::link::Link;
use super::migrate::DueNext;
use crate::batch::Weight;
use crate::{
    Cancelled, ClaimFrom, Claimed, Clock, Cursor, DeadJob, DeadLimits, Imported, Inspect, JobView, Migrated, Overdue,
    Page, PendingWork, Produce, Pushed, Settled, Settlement, Signal, StateFilter, Store, StoreError, StoredJob,
    TopicCounts, Transfer,
};
use gristmill_core::job::{JobId, Lease, Name, NewJob, TopicId, WorkerId};
use gristmill_core::time::Timestamp;

/// How many jobs one script call may touch: about a millisecond of the server's only thread.
pub(super) const SCRIPT_JOBS: usize = 500;

/// How many bytes of jobs one script call may carry, unless a single job is larger.
pub(super) const SCRIPT_BYTES: usize = 4 * 1024 * 1024;

/// Both: what one script call may carry.
pub(super) const SCRIPT: Weight = Weight { jobs: SCRIPT_JOBS, bytes: SCRIPT_BYTES };

/// How many full script calls go out in one round trip.
pub(super) const CALLS_AT_ONCE: usize = 8;

/// Jobs in a Redis server. Clones share one connection.
///
/// No call waits longer than seven seconds (two to connect, five for a reply); none retries. A lost connection fails the
/// calls in flight with [`StoreError::Unavailable`], and the next call connects anew.
#[derive(Debug, Clone)]
pub struct RedisStore {
    pub(super) link: Arc<Link>,
    pub(super) prefix: Arc<str>,
    pub(super) clock: Clock,
    pub(super) due_next: Arc<DueNext>,
}

impl RedisStore {
    /// Connects to `url` (`redis://[[user]:password@]host[:port][/db]` or `unix:/path`). All keys begin with `prefix`,
    /// [`DEFAULT_PREFIX`](super::DEFAULT_PREFIX) unless several installations share a server.
    ///
    /// # Errors
    /// - [`StoreError::BadAddress`]: the URL makes no sense, or asks for TLS, which is not compiled in; or the prefix
    ///   contains braces.
    /// - [`StoreError::Unavailable`]: nobody answers there.
    /// - [`StoreError::Refused`]: wrong password, or no such database.
    pub async fn connect(url: &str, prefix: &str) -> Result<Self, StoreError> {
        let store = Self::at(url, prefix)?;
        store.link.connect().await?;
        Ok(store)
    }

    /// The same, connected when it is first asked for something.
    ///
    /// # Errors
    /// [`StoreError::BadAddress`].
    pub fn at(url: &str, prefix: &str) -> Result<Self, StoreError> {
        if prefix.contains(['{', '}']) {
            let problem = "braces in the prefix of the keys would hide the tenant's hash tag".into();
            return Err(StoreError::BadAddress { address: prefix.into(), problem });
        }
        let link = Link::new(url)?;
        Ok(Self { link: Arc::new(link), prefix: prefix.into(), clock: Clock::Own, due_next: Arc::default() })
    }

    /// The same store by another clock.
    #[must_use]
    pub fn with_clock(self, clock: Clock) -> Self {
        Self { clock, ..self }
    }

    /// What scripts get as `now`.
    pub(super) fn now_argument(&self) -> String {
        clock::argument(&self.clock)
    }

    /// The time, given the server's, rounded down.
    pub(super) fn now(&self, server: TimeReply) -> Timestamp {
        self.clock.now(|| clock::server_time(server))
    }

    /// The same since the Unix epoch, with its fraction of a millisecond.
    pub(super) fn exact(&self, server: TimeReply) -> Duration {
        match &self.clock {
            Clock::Own => clock::exact_time(server),
            Clock::Manual(_) => Duration::from_millis(self.now(server).as_millis()),
        }
    }

    pub(super) fn keys(&self, tenant: &Name) -> Keys {
        Keys::new(&self.prefix, tenant)
    }

    /// For replies that are not what the script can have said.
    pub(super) fn misread(&self, doing: &'static str) -> impl Fn(RedisError) -> StoreError + '_ {
        move |error| self.link.failed(doing, error)
    }

    /// For requests that are not sent.
    pub(super) fn refused(&self, doing: &'static str, source: impl Into<anyhow::Error>) -> StoreError {
        StoreError::Refused { store: self.link.address.clone(), doing, source: source.into() }
    }
}

/// Gathers items by tenant, each with its place in the batch.
pub(super) fn by_tenant<'a, T>(
    items: &'a [T],
    tenant: impl Fn(&'a T) -> &'a Name,
) -> BTreeMap<&'a Name, Vec<(usize, &'a T)>> {
    let mut groups: BTreeMap<&Name, Vec<(usize, &T)>> = BTreeMap::new();
    for (place, item) in items.iter().enumerate() {
        groups.entry(tenant(item)).or_default().push((place, item));
    }
    groups
}

/// Answers in the order of the batch, from answers in any order, each with its place.
pub(super) fn in_order<T>(mut answers: Vec<(usize, T)>) -> Vec<T> {
    answers.sort_unstable_by_key(|(place, _)| *place);
    answers.into_iter().map(|(_, answer)| answer).collect()
}

/// Numbers things as Lua does, from 1 on, in the order of their first appearance.
#[derive(Debug)]
pub(super) struct Numbered<T>(pub(super) Vec<T>);

impl<T: PartialEq> Numbered<T> {
    pub(super) fn number(&mut self, thing: T) -> usize {
        // Batches name few things, and mostly the same one again: no map is faster than this.
        if let Some(place) = self.0.iter().rposition(|known| *known == thing) {
            return place + 1;
        }
        self.0.push(thing);
        self.0.len()
    }
}

#[async_trait]
impl Produce for RedisStore {
    async fn push(&self, jobs: &[NewJob]) -> Result<Vec<Pushed>, StoreError> {
        self.push_jobs(jobs).await
    }

    async fn signals(&self, tenants: &[Name]) -> Result<mpsc::Receiver<Signal>, StoreError> {
        self.listen(tenants).await
    }
}

#[async_trait]
impl Store for RedisStore {
    async fn claim(&self, worker: &WorkerId, from: &[ClaimFrom]) -> Result<Claimed, StoreError> {
        self.claim_jobs(worker, from).await
    }

    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        self.settle_attempts(settlements).await
    }

    async fn migrate(&self, tenant: &Name, limit: usize) -> Result<Migrated, StoreError> {
        self.migrate_due(tenant, limit).await
    }

    async fn extend(&self, leases: &[Lease], lease: Duration) -> Result<Vec<bool>, StoreError> {
        self.extend_leases(leases, lease).await
    }

    async fn checkpoint(&self, lease: &Lease, state: &[u8]) -> Result<bool, StoreError> {
        self.save_checkpoint(lease, state).await
    }

    async fn heartbeat(&self, worker: &WorkerId) -> Result<(), StoreError> {
        self.beat(worker).await
    }

    async fn retire(&self, worker: &WorkerId) -> Result<(), StoreError> {
        self.forget_worker(worker).await
    }

    async fn overdue(&self, tenant: &Name, dead_after: Duration, limit: usize) -> Result<Vec<Overdue>, StoreError> {
        self.find_overdue(tenant, dead_after, limit).await
    }

    async fn claims_of(
        &self,
        tenant: &Name,
        worker: &WorkerId,
        except: &HashSet<JobId>,
    ) -> Result<Vec<Lease>, StoreError> {
        self.find_held(tenant, worker, except).await
    }

    async fn poll_work(&self, tenant: &Name, raw: &[Name]) -> Result<PendingWork, StoreError> {
        self.look_for_work(tenant, raw).await
    }

    async fn sweep(&self, limits: &[DeadLimits]) -> Result<Vec<u64>, StoreError> {
        self.sweep_topics(limits).await
    }
}

#[async_trait]
impl Transfer for RedisStore {
    async fn export(&self, topic: &TopicId, limit: usize) -> Result<Vec<StoredJob>, StoreError> {
        self.outgoing_jobs(topic, limit).await
    }

    async fn import(&self, jobs: &[StoredJob]) -> Result<Vec<Imported>, StoreError> {
        self.take_jobs_in(jobs).await
    }

    async fn remove_exported(&self, topic: &TopicId, ids: &[JobId]) -> Result<Vec<bool>, StoreError> {
        self.let_go_of(topic, ids).await
    }

    async fn clear_move_marks(&self, tenant: &Name, ids: &[JobId]) -> Result<(), StoreError> {
        self.forget_moved_jobs(tenant, ids).await
    }
}

#[async_trait]
impl Inspect for RedisStore {
    async fn counts(&self, tenant: &Name) -> Result<Vec<TopicCounts>, StoreError> {
        self.count_topics(tenant).await
    }

    async fn job(&self, tenant: &Name, id: &JobId) -> Result<Option<JobView>, StoreError> {
        self.view_job(tenant, id).await
    }

    async fn jobs(
        &self,
        topic: &TopicId,
        place: StateFilter,
        after: Option<&Cursor>,
        limit: usize,
    ) -> Result<Page, StoreError> {
        self.list_jobs(topic, place, after, limit).await
    }

    async fn dead(&self, topic: &TopicId, skip: usize, limit: usize) -> Result<Vec<DeadJob>, StoreError> {
        self.list_dead(topic, skip, limit).await
    }

    async fn respawn(&self, topic: &TopicId, ids: &[JobId]) -> Result<Vec<bool>, StoreError> {
        self.respawn_dead(topic, ids).await
    }

    async fn delete_dead(&self, topic: &TopicId, ids: &[JobId]) -> Result<Vec<bool>, StoreError> {
        self.delete_dead_jobs(topic, ids).await
    }

    async fn cancel(&self, tenant: &Name, ids: &[JobId]) -> Result<Vec<Cancelled>, StoreError> {
        self.cancel_jobs(tenant, ids).await
    }

    async fn set_paused(&self, topic: &TopicId, paused: bool) -> Result<bool, StoreError> {
        self.pause(topic, paused).await
    }

    async fn tenants(&self) -> Result<Vec<Name>, StoreError> {
        self.find_tenants().await
    }
}
