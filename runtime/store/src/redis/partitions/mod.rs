//! The partitions of a tenant, used as one store.
//!
//! A tenant's keys share a slot, hence a server and a thread of it. A topic that is larger than that is spread over several
//! **partitions**, which have slots of their own: see [`partition_map`]. Each call goes to the partitions that may hold what it is about,
//! all at once, and here their answers become one. Calls about tenants without such topics go to the first partition as they are.

mod claim;
mod inspect;
mod links;
mod outbox;
pub(super) mod partition_map;
mod push;
pub(super) mod scan;
mod settle;
mod spread;
mod store;
mod transfer;
mod work;

use std::borrow::Cow;
use std::collections::{BTreeMap, HashSet};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::Instant;

use arc_swap::ArcSwapOption;
use futures_util::future::{join_all, try_join_all};
use parking_lot::{Mutex, RwLock};
use redis::pipe;

use super::clock::{TimeReply, server_time};
use super::key_names;
use super::store::{Partition, Server};
use crate::StoreError;
use crate::composite::{Asking, CompositeStore, Scope, StoreAnswer, ask_by_store};
use gristmill_core::job::TopicId;
use partition_map::PartitionMap;

pub use store::RedisStore;

const READ: &str = "read how topics are spread";

/// All partitions that this process has asked for something, and what it knows of them. Clones share it.
#[derive(Debug, Clone)]
pub(super) struct Partitions(Arc<PartitionRegistry>);

#[derive(Debug)]
struct PartitionRegistry {
    server: Server,
    list: RwLock<Vec<Partition>>,
    map: ArcSwapOption<PartitionMap>,
    reading: tokio::sync::Mutex<()>,
    /// The map stays as it is, for tests.
    is_fixed: AtomicBool,
    /// Partitions that a topic has departed from for good: nothing of the topic is there, and no process pushes there.
    departed: Mutex<HashSet<(u32, TopicId)>>,
    /// How often a claim got no answer from one of several partitions.
    lost_claims: AtomicU64,
    outboxes_read_at: Mutex<Option<Instant>>,
}

impl Partitions {
    pub(super) fn new(server: &Server) -> Self {
        Self(Arc::new(PartitionRegistry {
            server: server.clone(),
            list: RwLock::default(),
            map: ArcSwapOption::empty(),
            reading: tokio::sync::Mutex::default(),
            is_fixed: AtomicBool::default(),
            departed: Mutex::default(),
            lost_claims: AtomicU64::new(0),
            outboxes_read_at: Mutex::default(),
        }))
    }

    /// Keeps to this map.
    fn set_map(&self, map: PartitionMap) {
        self.0.map.store(Some(Arc::new(map)));
        self.0.is_fixed.store(true, Ordering::Relaxed);
    }

    /// Has the next poll look into outboxes.
    #[cfg(test)]
    pub(super) fn forget_look(&self) {
        *self.0.outboxes_read_at.lock() = None;
    }

    fn get(&self, number: u32) -> Partition {
        if let Some(known) = self.0.list.read().get(number as usize) {
            return known.clone();
        }
        let mut list = self.0.list.write();
        while list.len() <= number as usize {
            let next = u32::try_from(list.len()).unwrap_or(u32::MAX);
            list.push(Partition::new(self.0.server.clone(), next));
        }
        list.get(number as usize).cloned().unwrap_or_else(|| Partition::new(self.0.server.clone(), number))
    }
}

impl RedisStore {
    pub(super) fn partition(&self, number: u32) -> Partition {
        self.partitions.get(number)
    }

    /// The partition that has all jobs of topics that are not spread.
    pub(super) fn first(&self) -> Partition {
        self.partition(0)
    }

    /// Which partitions topics have, as it was a few seconds ago. A server that does not answer has changed nothing.
    ///
    /// # Errors
    /// The map was never read.
    pub(super) async fn map(&self) -> Result<Arc<PartitionMap>, StoreError> {
        let registry = &self.partitions.0;
        let map = registry.map.load_full();
        let is_new = self.server.map_age.is_new();
        match map {
            Some(map) if is_new => Ok(map),
            Some(map) => match registry.reading.try_lock() {
                Ok(_turn) => Ok(self.read_map().await.unwrap_or(map)),
                Err(_) => Ok(map),
            },
            None => self.read_map().await,
        }
    }

    /// Reads the map. No caller then needs another one for some time.
    pub(super) async fn read_map(&self) -> Result<Arc<PartitionMap>, StoreError> {
        let registry = &self.partitions.0;
        if let Some(fixed) = registry.map.load_full().filter(|_| registry.is_fixed.load(Ordering::Relaxed)) {
            return Ok(fixed);
        }
        let asked_at = Instant::now();
        let mut ask = pipe();
        ask.cmd("HGETALL").arg(key_names::partitions(&self.server.prefix));
        let read = async {
            let (records,): (BTreeMap<String, String>,) = self.server.link.query(READ, &ask).await?;
            if records.is_empty() {
                return Ok(PartitionMap::default());
            }
            let (time,): (TimeReply,) = self.server.link.query(READ, pipe().cmd("TIME")).await?;
            Ok(PartitionMap::read(&records, server_time(time)))
        };
        let read = read.await;
        if let Some(map) = read.as_ref().ok().or(registry.map.load().as_deref()) {
            self.server.map_age.note(asked_at, map.is_plain());
        }
        let map = Arc::new(read?);
        registry.map.store(Some(Arc::clone(&map)));
        Ok(map)
    }
}

impl CompositeStore for RedisStore {
    type Store = Partition;

    /// All at once: nothing moves between them. News is not asked for in vain: if all of them are unavailable, that is an error.
    async fn ask<A, F: Future<Output = Result<A, StoreError>>>(
        &self,
        how: Asking,
        scope: &impl Scope,
        ask: impl Fn(Partition) -> F,
    ) -> Result<Vec<A>, StoreError> {
        let count = self.map().await?.of(scope);
        match how {
            Asking::News => available(join_all((0..count).map(|number| ask(self.partition(number)))).await),
            Asking::Answer | Asking::Change | Asking::All => self.ask_all(count, ask).await,
        }
    }

    async fn current(&self, _scope: &impl Scope) -> Result<Partition, StoreError> {
        Ok(self.first())
    }
}

impl RedisStore {
    /// Asks the first `count` partitions.
    ///
    /// # Errors
    /// The first one; others may have done what was asked.
    pub(in crate::redis) async fn ask_all<A, F: Future<Output = Result<A, StoreError>>>(
        &self,
        count: u32,
        ask: impl Fn(Partition) -> F,
    ) -> Result<Vec<A>, StoreError> {
        try_join_all((0..count).map(|number| ask(self.partition(number)))).await
    }

    /// Asks each partition for its part of a batch, all at once. An item is for the first `count` partitions.
    pub(super) async fn ask_partitions<'a, T: Clone, A, F: Future<Output = Result<A, StoreError>>>(
        &self,
        items: &'a [T],
        count: impl Fn(&T) -> u32,
        ask: impl Fn(Partition, Cow<'a, [T]>) -> F,
    ) -> Vec<StoreAnswer<u32, A>> {
        let most = items.iter().map(&count).max().unwrap_or_default();
        let (ask, count) = (&ask, &count);
        let parts = (0..most).map(|number| {
            let choose = move |_, item: &T| (number < count(item)).then_some(number);
            ask_by_store(items, choose, |number, part| ask(self.partition(number), part))
        });
        join_all(parts).await.into_iter().flatten().collect()
    }
}

/// The answers of partitions that are available.
///
/// # Errors
/// All of them are unavailable, or one refuses.
fn available<A>(answers: Vec<Result<A, StoreError>>) -> Result<Vec<A>, StoreError> {
    let (mut available, mut unavailable) = (Vec::with_capacity(answers.len()), None);
    for answer in answers {
        match answer {
            Err(error) if error.is_unavailable() => unavailable = Some(error),
            answer => available.push(answer?),
        }
    }
    match unavailable {
        Some(error) if available.is_empty() => Err(error),
        _ => Ok(available),
    }
}
