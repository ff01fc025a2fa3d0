//! One store of a [`ShardedStore`](super::ShardedStore), and whether it is available.

use std::collections::HashSet;
use std::fmt;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use async_trait::async_trait;
use parking_lot::Mutex;
use tokio::sync::watch;

use crate::{Shards, StoreError, Transfer, WaitToClaim};
use gristmill_core::job::{Name, TopicId};

/// How long to wait before an unavailable store is probed: doubling from the first to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(1);

/// A store that becomes a shard, and its name in the manifest.
#[derive(Debug, Clone)]
pub struct ShardSpec {
    /// The name of the shard, as the manifest has it.
    pub name: Name,
    /// The store itself.
    pub store: Arc<dyn Transfer>,
    /// The store is reached over a network: a call waits for a timeout while the store is unavailable.
    pub is_remote: bool,
}

/// A store that is not called while it is unavailable. A background task probes it until it answers again, so that no
/// caller waits for a timeout. Implements the whole contract; [`operations!`](crate::operations) writes that.
pub(crate) struct Shard {
    pub(super) name: Name,
    pub(crate) store: Arc<dyn Transfer>,
    is_remote: bool,
    health: Mutex<Health>,
    /// Of all shards of the store.
    returns: watch::Sender<u64>,
    /// How often a part of the store, such as a partition of a Redis, may have lost claims: [`shard_returns`](crate::Claimed::shard_returns)
    /// of its own claims.
    pub(super) lost_claims: AtomicU64,
    /// Topics with ready jobs here whose tenant has another current shard.
    backlog: Mutex<HashSet<TopicId>>,
    this: Weak<Self>,
}

#[derive(Debug, Default)]
struct Health {
    unavailable: Option<Unavailable>,
    available_since: Option<Instant>,
}

#[derive(Debug)]
struct Unavailable {
    since: Instant,
    /// Its address, and the last error.
    store: String,
    problem: String,
}

impl Shard {
    /// `returns` changes each time that it becomes available again.
    pub(super) fn new(ShardSpec { name, store, is_remote }: ShardSpec, returns: watch::Sender<u64>) -> Arc<Self> {
        Arc::new_cyclic(|this| Self {
            name,
            store,
            is_remote,
            health: Mutex::default(),
            returns,
            lost_claims: AtomicU64::default(),
            backlog: Mutex::default(),
            this: this.clone(),
        })
    }

    /// Returns the answer to a call of this shard's store. While the store is unavailable the call is not made, and the error
    /// comes at once.
    pub(crate) async fn ask<T>(&self, call: impl Future<Output = Result<T, StoreError>>) -> Result<T, StoreError> {
        if let Some(error) = self.unavailable_error() {
            return Err(error);
        }
        let answer = call.await;
        if let Err(StoreError::Unavailable { store, source }) = &answer {
            self.note_unavailable(store, source);
        }
        answer
    }

    fn unavailable_error(&self) -> Option<StoreError> {
        let health = self.health.lock();
        let Unavailable { store, problem, .. } = health.unavailable.as_ref()?;
        Some(StoreError::Unavailable { store: store.clone(), source: anyhow!("{problem}") })
    }

    /// Whether it has become available again within this time. After an outage every heartbeat is old and many leases have run out: until all workers
    /// had time to return, none counts as dead and no attempt as lost.
    pub(super) fn has_just_returned(&self, within: Duration) -> bool {
        self.health.lock().available_since.is_some_and(|since| since.elapsed() < within)
    }

    fn note_unavailable(&self, store: &str, problem: &anyhow::Error) {
        let mut health = self.health.lock();
        if !self.is_remote || health.unavailable.is_some() {
            return;
        }
        let problem = format!("{problem:#}");
        tracing::error!(store = %self.name, "{store} is unavailable: {problem}; the tenants of other stores go on");
        health.unavailable = Some(Unavailable { since: Instant::now(), store: store.into(), problem });
        drop(tokio::spawn(probe_until_available(self.this.clone())));
    }

    fn note_available(&self) {
        let mut health = self.health.lock();
        if let Some(Unavailable { since, .. }) = health.unavailable.take() {
            tracing::info!(store = %self.name, unavailable_for = ?since.elapsed(), "is available again");
            health.available_since = Some(Instant::now());
            self.returns.send_modify(|returns| *returns += 1);
        }
    }

    pub(super) fn has_backlog(&self, topic: &TopicId) -> bool {
        self.backlog.lock().contains(topic)
    }

    pub(super) fn note_backlog(&self, topic: &TopicId) {
        self.backlog.lock().insert(topic.clone());
    }

    pub(super) fn clear_backlog(&self, topic: &TopicId) {
        self.backlog.lock().remove(topic);
    }
}

/// Ends when the store answers, or the shard is dropped.
async fn probe_until_available(shard: Weak<Shard>) {
    let mut pause = FIRST_PAUSE;
    loop {
        tokio::time::sleep(pause.mul_f64(1.0 - fastrand::f64() / 2.0)).await;
        let Some(shard) = shard.upgrade() else { return };
        match shard.store.probe().await {
            Err(error) if error.is_unavailable() => pause = (pause * 2).min(LONGEST_PAUSE),
            _ => return shard.note_available(),
        }
    }
}

#[async_trait]
impl Shards for Shard {
    async fn unavailable(&self) -> Result<Vec<StoreError>, StoreError> {
        self.ask(self.store.unavailable()).await
    }
}

impl WaitToClaim for Shard {}

/// Names are unique among the shards of a store.
impl PartialEq for Shard {
    fn eq(&self, other: &Self) -> bool {
        self.name == other.name
    }
}

impl fmt::Debug for Shard {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {:?}", self.name, self.store)
    }
}
