//! Where tenants are placed, and how a move begins.

use std::collections::{BTreeMap, BTreeSet};
use std::time::{Duration, Instant};

use anyhow::anyhow;
use async_trait::async_trait;

use super::shard::Shard;
use super::store::ShardedStore;
use crate::composite::if_available;
use crate::{Control, Placement, Query, StoreError, TenantPlacement, TenantPlacements, TopicCounts, pause_alike};
use gristmill_config::HOME;
use gristmill_core::job::{Name, TopicId, WorkerId};

const DOING: &str = "move a tenant";
/// A topic that never has jobs.
const PROBE: &str = "gristmill-probe-of-a-move";
/// How long to wait until the process that moves the tenant's jobs releases the lock, and how often to try.
const LOCK_PATIENCE: Duration = Duration::from_secs(10);
const LOCK_PAUSE: Duration = Duration::from_millis(100);

#[async_trait]
impl TenantPlacements for ShardedStore {
    async fn placements(&self) -> Result<Vec<TenantPlacement>, StoreError> {
        self.refresh().await?;
        // Those that never had a job have a place as well.
        let mut tenants: BTreeSet<Name> = self.map().tenants().cloned().collect();
        tenants.extend(self.tenants().await?);
        let mut placements = Vec::with_capacity(tenants.len());
        for tenant in tenants {
            placements.push(self.known_placement(&tenant).await?);
        }
        Ok(placements)
    }

    async fn placement(&self, tenant: &Name) -> Result<TenantPlacement, StoreError> {
        self.refresh().await?;
        self.known_placement(tenant).await
    }

    async fn move_tenant(&self, tenant: &Name, to: &Name) -> Result<(), StoreError> {
        self.refresh().await?;
        let Some(target) = self.shards().iter().find(|shard| shard.name == *to) else {
            let names: Vec<_> = self.shards().iter().map(|shard| shard.name.as_str()).collect();
            return Err(refused(format!("there is no store `{to}`; there are: {}", names.join(", "))));
        };
        let mover = WorkerId::new(&format!("placement-{:016x}", fastrand::u64(..)));
        // A process that moves jobs out of the target would pause its topics.
        let is_departed = self.record(tenant).behind().any(|name| name == to);
        if is_departed {
            self.wait_for_move_lock(tenant, &mover).await?;
        }
        let lock = self.change_lock(tenant);
        let _exclusive = lock.write().await;
        let begun = self.begin_move(tenant, target).await;
        if is_departed {
            self.lock_move(tenant, &mover, Duration::ZERO).await.ok();
        }
        begun
    }
}

impl ShardedStore {
    async fn known_placement(&self, tenant: &Name) -> Result<TenantPlacement, StoreError> {
        let Placement { store, from, formerly, .. } = self.record(tenant);
        let (map, mut remaining, mut unavailable) = (self.map(), Vec::new(), Vec::new());
        for shard in map.of(tenant).departed() {
            match if_available(shard.counts(tenant).await)? {
                Some(counts) => remaining.extend(counts.into_iter().filter(|counts| counts.jobs() > 0)),
                None => unavailable.push(shard.name.clone()),
            }
        }
        Ok(TenantPlacement { tenant: tenant.clone(), store, from, formerly, remaining, unavailable })
    }

    /// The tenant's record, or the one that it would have.
    pub(super) fn record(&self, tenant: &Name) -> Placement {
        let map = self.map();
        if let Some(record) = map.records.get(tenant) {
            return record.clone();
        }
        let shards = map.of(tenant);
        let store = &shards.current().unwrap_or_else(|| self.primary()).name;
        let formerly = shards.departed().map(|shard| shard.name.clone()).filter(|name| name != store).collect();
        Placement { store: store.clone(), from: None, formerly, generation: 0 }
    }

    /// Makes `mover` the only process that moves the tenant's jobs, for `lease`. Returns `false` if another one does.
    pub(super) async fn lock_move(&self, tenant: &Name, mover: &WorkerId, lease: Duration) -> Result<bool, StoreError> {
        self.primary().ask(self.0.registry.lock_move(tenant, mover, lease)).await
    }

    /// Writes the next record of a tenant. Returns `false` if another process has written one meanwhile.
    pub(super) async fn write_record(&self, tenant: &Name, record: &Placement) -> Result<bool, StoreError> {
        self.primary().ask(self.0.registry.write_placement(tenant, record)).await
    }

    async fn wait_for_move_lock(&self, tenant: &Name, mover: &WorkerId) -> Result<(), StoreError> {
        let begun = Instant::now();
        while !self.lock_move(tenant, mover, LOCK_PATIENCE).await? {
            if begun.elapsed() > LOCK_PATIENCE {
                return Err(refused("another process is moving its jobs, and does not pause: try again".into()));
            }
            tokio::time::sleep(LOCK_PAUSE).await;
        }
        Ok(())
    }

    async fn begin_move(&self, tenant: &Name, target: &Shard) -> Result<(), StoreError> {
        self.refresh().await?;
        let (map, record) = (self.map(), self.record(tenant));
        let (_, source) = map.placed(tenant)?;
        if record.store == target.name {
            return Ok(());
        }
        refuse_same_store(tenant, source, target).await?;
        copy_pauses(tenant, source, target).await?;
        if !self.write_record(tenant, &record.moving_to(&target.name)).await? {
            return Err(refused("another process has moved it at the same moment: look where it lives now".into()));
        }
        let (from, to) = (&record.store, &target.name);
        tracing::info!(%tenant, %from, %to, "moving: what is pushed goes to the new store, what waits follows");
        self.refresh().await
    }
}

/// Refuses a move within one store that has two addresses: it would remove the jobs that it has imported. A pause in one
/// that shows in the other reveals it.
async fn refuse_same_store(tenant: &Name, source: &Shard, target: &Shard) -> Result<(), StoreError> {
    let Ok(topic) = PROBE.parse() else { return Ok(()) };
    let topic = TopicId { tenant: tenant.clone(), topic };
    target.set_paused(&topic, false).await?;
    source.set_paused(&topic, true).await?;
    let seen = target.counts(tenant).await;
    source.set_paused(&topic, false).await?;
    if seen?.iter().any(|counts| counts.topic == topic) {
        return Err(refused(format!("`{}` and `{}` are one store by two addresses", source.name, target.name)));
    }
    Ok(())
}

/// Makes the target's pauses those of the source. Others in the target are from an earlier move out of it.
async fn copy_pauses(tenant: &Name, source: &Shard, target: &Shard) -> Result<(), StoreError> {
    let paused = |counts: Vec<TopicCounts>| -> BTreeMap<_, _> {
        counts.into_iter().filter(|counts| counts.paused).map(|counts| (counts.topic, counts.pause)).collect()
    };
    let wanted = paused(source.counts(tenant).await?);
    let present = paused(target.counts(tenant).await?);
    for topic in present.keys().filter(|topic| !wanted.contains_key(topic)) {
        target.set_paused(topic, false).await?;
    }
    for (topic, pause) in wanted.into_iter().filter(|(topic, _)| !present.contains_key(topic)) {
        pause_alike(target, &topic, pause).await?;
    }
    Ok(())
}

fn refused(problem: String) -> StoreError {
    StoreError::Refused { store: HOME.into(), doing: DOING, source: anyhow!(problem) }
}
