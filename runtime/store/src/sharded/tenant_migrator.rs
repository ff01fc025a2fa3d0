//! Moves tenants' jobs to where the tenants are placed. Each server does it, one at a time for each tenant, so that a move
//! goes on when a server dies; all of its state is in the stores.
//!
//! A batch is a [`TopicMove`]. Before it is exported, its topic is paused in the old store, and stays paused: no process
//! claims a job there while it moves. The new store's marks of what it imported are kept for a while: a process that was
//! stopped in the middle of a batch, and goes on after another one has moved it, finds them.

use std::collections::{HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::shard::Shard;
use super::shard_map::{ShardMap, TenantShards};
use super::store::{REFRESH_EVERY, ShardedStore};
use crate::composite::if_available;
use crate::{
    Control, Query, Schedules, StoreError, TopicCounts, TopicMove, Transfer, Unmoved, move_schedules, move_windows,
};
use gristmill_core::job::{JobId, Name, TopicId, WorkerId};
use gristmill_metrics::as_actor;

/// For how long one process moves a tenant before it must renew the lock.
const LEASE: Duration = Duration::from_secs(15);
/// By then every server that reaches the primary shard has read a new placement. Only then are jobs moved.
const KNOWN_AFTER: Duration = REFRESH_EVERY.saturating_mul(3);
/// How often to look for jobs in shards that tenants have left.
const LEFTOVERS_EVERY: Duration = Duration::from_secs(10);
/// Longer than a process can go on with an old batch without noticing.
const MARKED_FOR: Duration = Duration::from_secs(30);
/// How long the last marks may take when the migrator stops.
const LAST_MARKS: Duration = Duration::from_secs(2);

impl ShardedStore {
    /// Moves tenants' jobs until stopped. `mover` names this process in the locks.
    pub async fn migrate_tenants(self, mover: WorkerId, stop: CancellationToken) {
        let mut changes = self.0.changes.subscribe();
        let mut migrator = TenantMigrator {
            first_seen: HashMap::new(),
            marked_for: if self.0.registry.is_ours_alone() { Duration::ZERO } else { MARKED_FOR },
            marks: VecDeque::new(),
            warned: HashSet::new(),
            store: self,
            mover,
        };
        let mut leftovers_at = Instant::now();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Ok(()) = changes.changed() => {}
                () = tokio::time::sleep(REFRESH_EVERY) => {}
            }
            let with_leftovers = Instant::now() >= leftovers_at;
            if with_leftovers {
                leftovers_at = Instant::now() + LEFTOVERS_EVERY;
            }
            tokio::select! {
                () = stop.cancelled() => break,
                () = migrator.round(with_leftovers) => {}
            }
        }
        // No other process clears them.
        migrator.marked_for = Duration::ZERO;
        tokio::time::timeout(LAST_MARKS, migrator.clear_old_marks()).await.ok();
    }
}

struct TenantMigrator {
    store: ShardedStore,
    mover: WorkerId,
    /// The generation of each move that goes on, and since when this process knows it.
    first_seen: HashMap<Name, (u64, Instant)>,
    marked_for: Duration,
    marks: VecDeque<Marks>,
    /// Topics that a warning has named: some jobs cannot follow yet.
    warned: HashSet<TopicId>,
}

/// Jobs that have moved, and are still marked in their new shard.
struct Marks {
    since: Instant,
    shard: Arc<Shard>,
    tenant: Name,
    ids: Vec<JobId>,
}

impl TenantMigrator {
    /// Goes through all tenants once. Cancel-safe: the next round of any server does the rest.
    async fn round(&mut self, with_leftovers: bool) {
        let map = self.store.map();
        self.first_seen.retain(|tenant, _| map.of(tenant).is_moving);
        for tenant in map.tenants() {
            let shards = map.of(tenant);
            let is_due = if shards.is_moving { self.is_known(&map, tenant) } else { with_leftovers };
            if shards.departed().next().is_none() || !is_due {
                continue;
            }
            match self.migrate(tenant, shards).await {
                Err(error) if error.is_unavailable() => {
                    tracing::debug!(%tenant, "is not moved now: {:#}", anyhow::Error::from(error));
                }
                Err(error) => tracing::error!(%tenant, "failed to move its jobs: {:#}", anyhow::Error::from(error)),
                Ok(()) => {}
            }
        }
        self.clear_old_marks().await;
    }

    /// Whether every server has read the tenant's placement by now.
    fn is_known(&mut self, map: &ShardMap, tenant: &Name) -> bool {
        let generation = map.records.get(tenant).map_or(0, |record| record.generation);
        let seen = self.first_seen.entry(tenant.clone()).or_insert((generation, Instant::now()));
        if seen.0 != generation {
            *seen = (generation, Instant::now());
        }
        seen.1.elapsed() >= KNOWN_AFTER
    }

    /// Empties every shard but the current one; ends the move when nothing is left.
    async fn migrate(&mut self, tenant: &Name, shards: &TenantShards) -> Result<(), StoreError> {
        let Some(current) = shards.current() else { return Ok(()) };
        if !shards.is_moving && !is_anything_left(tenant, shards).await? {
            return Ok(());
        }
        if !self.store.lock_move(tenant, &self.mover, LEASE).await? {
            return Ok(());
        }
        for from in shards.old_first().filter(|shard| !shards.is_current(shard)) {
            let Some(counts) = if_available(from.counts(tenant).await)? else { continue };
            for counts in counts {
                if counts.jobs() > counts.running {
                    self.move_topic(from, current, shards, &counts.topic).await?;
                }
                move_windows(&**from, &**current, &counts.topic).await?;
            }
            let lock = self.store.change_lock(tenant);
            let _exclusive = lock.write().await;
            if self.store.map().of(tenant) == shards {
                move_schedules(&**from, &**current, tenant, None).await?;
            }
        }
        if shards.is_moving && !is_anything_left(tenant, shards).await? {
            self.end_move(tenant).await?;
        }
        self.store.lock_move(tenant, &self.mover, Duration::ZERO).await.map(drop)
    }

    async fn end_move(&self, tenant: &Name) -> Result<(), StoreError> {
        let record = self.store.record(tenant);
        if record.from.is_some() && self.store.write_record(tenant, &record.moved()).await? {
            tracing::info!(%tenant, store = %record.store, "has moved: nothing is left behind");
        }
        self.store.refresh().await
    }

    /// Moves batches until no job waits or is dead in the old shard but those that the new one cannot take.
    async fn move_topic(
        &mut self,
        from: &Arc<Shard>,
        to: &Arc<Shard>,
        shards: &TenantShards,
        topic: &TopicId,
    ) -> Result<(), StoreError> {
        let mut moving = TopicMove::new(&**from, &**to, topic);
        let mut jobs = 0;
        loop {
            let lock = self.store.change_lock(&topic.tenant);
            let _exclusive = lock.write().await;
            // The tenant may have moved on meanwhile, or another process may have taken over.
            let is_current = self.store.map().of(&topic.tenant) == shards;
            if !is_current || !self.store.lock_move(&topic.tenant, &self.mover, LEASE).await? {
                return Ok(());
            }
            as_actor(format!("the move of its tenant to store {}", to.name), from.set_paused(topic, true)).await?;
            let Some(moved) = moving.next_batch().await? else { break };
            jobs += moved.len();
            let ids = moved.into_iter().map(|job| job.id).collect();
            let marks = Marks { since: Instant::now(), shard: Arc::clone(to), tenant: topic.tenant.clone(), ids };
            self.marks.push_back(marks);
            self.clear_old_marks().await;
        }
        let kept = moving.kept.len() as u64;
        self.warn_of_kept(&moving);
        run_linked(from, to, topic, kept).await?;
        if jobs > 0 {
            tracing::info!(%topic, from = %from.name, to = %to.name, jobs, "moved");
        }
        Ok(())
    }

    /// Warns once of a topic's jobs that the new shard cannot take.
    fn warn_of_kept(&mut self, TopicMove { from, to, topic, kept }: &TopicMove<'_, Shard>) {
        let Some((id, reason)) = kept.first_key_value() else {
            self.warned.remove(*topic);
            return;
        };
        if self.warned.insert(TopicId::clone(topic)) {
            let problem = match reason {
                Unmoved::IdTaken => "it has another job by this id; they follow when that is over".to_owned(),
                Unmoved::Unreadable(problem) => format!("it is of another kind, and the job cannot be read: {problem}"),
            };
            tracing::warn!(
                %topic, from = %from.name, to = %to.name, jobs = kept.len(), first = %id, %problem,
                "jobs stay in the store that the tenant has left: the new one cannot take them"
            );
        }
    }

    async fn clear_old_marks(&mut self) {
        while let Some(Marks { since, shard, tenant, ids }) = self.marks.front() {
            if since.elapsed() < self.marked_for || shard.clear_move_marks(tenant, ids).await.is_err() {
                return;
            }
            self.marks.pop_front();
        }
    }
}

/// Jobs that wait for others, and those that are waited for, stay in the old store until they have ended: has them run there.
async fn run_linked(from: &Shard, to: &Shard, topic: &TopicId, kept: u64) -> Result<(), StoreError> {
    let of = |counts: Vec<TopicCounts>| counts.into_iter().find(|counts| counts.topic == *topic);
    let stay = of(from.counts(&topic.tenant).await?).is_some_and(|left| left.ready + left.delayed > kept);
    if stay && !of(to.counts(&topic.tenant).await?).is_some_and(|counts| counts.paused) {
        from.set_paused(topic, false).await?;
    }
    Ok(())
}

/// Whether a shard that the tenant has left holds jobs of it. Running ones count: they may be retried.
///
/// # Errors
/// The tenant is moving, and one of these shards does not answer: the move does not end without it.
async fn is_anything_left(tenant: &Name, shards: &TenantShards) -> Result<bool, StoreError> {
    for shard in shards.departed() {
        let look = async {
            let has_jobs = shard.counts(tenant).await?.iter().any(|counts| counts.jobs() > 0);
            Ok(has_jobs || !shard.schedules(tenant, None).await?.is_empty())
        };
        let found = look.await;
        if if shards.is_moving { found? } else { if_available(found)?.unwrap_or_default() } {
            return Ok(true);
        }
    }
    Ok(false)
}
