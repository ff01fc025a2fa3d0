//! Carries a tenant's jobs from where it lived to where it lives. Every server does, one at a time for each tenant, so that
//! a move goes on whoever dies; nothing of it is in anybody's memory.
//!
//! A batch is the order of steps of [`Transfer`](crate::Transfer): read, taken in, let go of. Before it is read its
//! topic is paused in the old store, and stays so: there nothing of it is claimed any more, by whatever node, and a job is
//! not claimed while it is on its way. The marks by which the new store knows what it has taken in are kept for a while: a process that was stopped in
//! the middle of a batch and wakes when another one has done it, finds them.

use std::collections::{BTreeMap, HashMap, HashSet, VecDeque};
use std::sync::Arc;
use std::time::{Duration, Instant};

use tokio_util::sync::CancellationToken;

use super::member::Shard;
use super::places::{Places, View};
use super::residence::in_all;
use super::store::{LOOK, ShardedStore};
use super::work::if_available;
use crate::{Imported, StoreError, StoredJob};
use gristmill_core::job::{JobId, Name, TopicId, WorkerId};

/// Jobs of a batch.
const BATCH: usize = 200;
/// For how long one process moves a tenant without saying so again.
const LEASE: Duration = Duration::from_secs(15);
/// How old a batch may be before it is taken in; an older one is read again.
const FRESH: Duration = Duration::from_secs(5);
/// After this long every node that is not cut off knows of a move; only then is anything carried.
const KNOWN_AFTER: Duration = LOOK.saturating_mul(3);
/// How often stores that tenants have left are looked at.
const LEFTOVERS_EVERY: Duration = Duration::from_secs(10);
/// Longer than a process can go on with an old batch without noticing.
const MARKED_FOR: Duration = Duration::from_secs(30);
/// How long the end may take for them.
const LAST_MARKS: Duration = Duration::from_secs(2);

impl ShardedStore {
    /// Carries whatever has to be carried, until stopped. `driver` is this process's name.
    pub async fn drive(self, driver: WorkerId, stop: CancellationToken) {
        let mut driver = Driver {
            changes: HashMap::new(),
            marked_for: if self.0.registry.is_ours_alone() { Duration::ZERO } else { MARKED_FOR },
            marks: VecDeque::new(),
            warned: HashSet::new(),
            several: self,
            me: driver,
        };
        let mut changes = driver.several.0.changes.subscribe();
        let mut leftovers_at = Instant::now();
        loop {
            tokio::select! {
                biased;
                () = stop.cancelled() => break,
                Ok(()) = changes.changed() => {}
                () = tokio::time::sleep(LOOK) => {}
            }
            let leftovers_too = Instant::now() >= leftovers_at;
            if leftovers_too {
                leftovers_at = Instant::now() + LEFTOVERS_EVERY;
            }
            tokio::select! {
                () = stop.cancelled() => break,
                () = driver.round(leftovers_too) => {}
            }
        }
        // Nobody else will.
        driver.marked_for = Duration::ZERO;
        tokio::time::timeout(LAST_MARKS, driver.forget_marks()).await.ok();
    }
}

struct Driver {
    several: ShardedStore,
    me: WorkerId,
    /// Since when each move is known, by its generation.
    changes: HashMap<Name, (u64, Instant)>,
    marked_for: Duration,
    marks: VecDeque<Marks>,
    /// Topics of which it was said that some jobs cannot follow yet.
    warned: HashSet<TopicId>,
}

/// Jobs that have moved, and are still marked in their new store.
struct Marks {
    since: Instant,
    store: Arc<Shard>,
    tenant: Name,
    ids: Vec<JobId>,
}

impl Driver {
    /// Once through all tenants. Cancel-safe: what is not done is done in the next round, whoever does it.
    async fn round(&mut self, leftovers_too: bool) {
        let view = self.several.view();
        for tenant in view.tenants() {
            let places = view.of(tenant);
            let wanted = if places.is_moving { self.is_known(&view, tenant) } else { leftovers_too };
            if places.is_single() || !wanted {
                continue;
            }
            match self.carry(tenant, places).await {
                Err(error) if error.is_unavailable() => {
                    tracing::debug!(%tenant, "is not moved now: {:#}", anyhow::Error::from(error))
                }
                Err(error) => tracing::error!(%tenant, "failed to move its jobs: {:#}", anyhow::Error::from(error)),
                Ok(()) => {}
            }
        }
        self.forget_marks().await;
    }

    fn is_known(&mut self, view: &View, tenant: &Name) -> bool {
        let generation = view.records.get(tenant).map_or(0, |record| record.generation);
        let known = self.changes.entry(tenant.clone()).or_insert((generation, Instant::now()));
        if known.0 != generation {
            *known = (generation, Instant::now());
        }
        known.1.elapsed() >= KNOWN_AFTER
    }

    /// Empties every place but the first; ends the move when nothing is left.
    async fn carry(&mut self, tenant: &Name, places: &Places) -> Result<(), StoreError> {
        if !places.is_moving && !self.is_anything_left(tenant, places).await? {
            return Ok(());
        }
        if !self.is_ours(tenant, LEASE).await? {
            return Ok(());
        }
        for place in places.in_order_of_moves().filter(|place| places.members.first() != Some(place)) {
            let from = Arc::clone(self.several.member(place));
            let Some(counts) = if_available(from.ask(from.store.counts(tenant)).await)? else { continue };
            for counts in counts.into_iter().filter(|counts| in_all(counts) > counts.running) {
                self.carry_topic(&from, places, &counts.topic).await?;
            }
        }
        if places.is_moving && !self.is_anything_left(tenant, places).await? {
            self.end_move(tenant).await?;
        }
        self.is_ours(tenant, Duration::ZERO).await.map(drop)
    }

    /// Running jobs count: they may come back.
    async fn is_anything_left(&self, tenant: &Name, places: &Places) -> Result<bool, StoreError> {
        for place in places.members.iter().skip(1) {
            let member = self.several.member(*place);
            let counts = member.ask(member.store.counts(tenant)).await;
            // Nobody can tell what is in a store that is away, so a move does not end without it.
            let counts = if places.is_moving { counts? } else { if_available(counts)?.unwrap_or_default() };
            if counts.iter().any(|counts| in_all(counts) > 0) {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn is_ours(&self, tenant: &Name, lease: Duration) -> Result<bool, StoreError> {
        self.several.primary().ask(self.several.0.registry.lock_move(tenant, &self.me, lease)).await
    }

    async fn end_move(&self, tenant: &Name) -> Result<(), StoreError> {
        let record = self.several.record(tenant);
        let registry = &self.several.0.registry;
        if record.from.is_some()
            && self.several.primary().ask(registry.write_placement(tenant, &record.moved())).await?
        {
            tracing::info!(%tenant, store = %record.store, "has moved: nothing is left behind");
        }
        self.several.look().await
    }

    /// Batch by batch, until nothing waits or is dead there but what the new store cannot take.
    async fn carry_topic(&mut self, from: &Arc<Shard>, places: &Places, topic: &TopicId) -> Result<(), StoreError> {
        let Some(first) = places.members.first() else { return Ok(()) };
        let to = Arc::clone(self.several.member(*first));
        let (mut kept, mut moved) = (BTreeMap::new(), 0);
        loop {
            let turn = self.several.turn(&topic.tenant);
            let _turn = turn.write().await;
            // It may have moved on meanwhile, or another process may have taken over.
            if self.several.places(&topic.tenant) != *places || !self.is_ours(&topic.tenant, LEASE).await? {
                return Ok(());
            }
            let begun = Instant::now();
            from.ask(from.store.set_paused(topic, true)).await?;
            let mut batch = from.ask(from.store.export(topic, BATCH + kept.len())).await?;
            batch.retain(|stored| !kept.contains_key(&stored.job.spec.id));
            if batch.is_empty() {
                break;
            }
            if begun.elapsed() > FRESH {
                continue;
            }
            moved += self.carry_batch(from, &to, topic, &batch, &mut kept).await?;
            self.forget_marks().await;
        }
        if kept.is_empty() {
            self.warned.remove(topic);
        }
        if let Some((id, problem)) = kept.first_key_value()
            && self.warned.insert(topic.clone())
        {
            tracing::warn!(
                %topic, from = %from.name, to = %to.name, jobs = kept.len(), first = %id, %problem,
                "jobs stay in the store that the tenant has left: the new one cannot take them"
            );
        }
        if moved > 0 {
            tracing::info!(%topic, from = %from.name, to = %to.name, jobs = moved, "moved");
        }
        Ok(())
    }

    async fn carry_batch(
        &mut self,
        from: &Arc<Shard>,
        to: &Arc<Shard>,
        topic: &TopicId,
        batch: &[StoredJob],
        kept: &mut BTreeMap<JobId, String>,
    ) -> Result<usize, StoreError> {
        let taken_in = to.ask(to.store.import(batch)).await?;
        let mut ids = Vec::with_capacity(batch.len());
        for (stored, taken_in) in batch.iter().zip(taken_in) {
            let id = &stored.job.spec.id;
            match taken_in {
                Imported::Stored | Imported::Before => ids.push(id.clone()),
                Imported::IdTaken => {
                    kept.insert(id.clone(), "it has another job by this id; they follow when that is over".into());
                }
                Imported::Unreadable => {
                    let problem = stored.sealed.as_ref().map_or("", |sealed| &sealed.problem);
                    kept.insert(id.clone(), format!("it is of another kind, and the job cannot be read: {problem}"));
                }
            }
        }
        let gone = from.ask(from.store.remove_exported(topic, &ids)).await?;
        let slipped = gone.iter().filter(|gone| !**gone).count();
        if slipped > 0 {
            tracing::debug!(%topic, slipped, "jobs were changed or gone in the old store before it let go of them");
        }
        let marks = Marks { since: Instant::now(), store: Arc::clone(to), tenant: topic.tenant.clone(), ids };
        let moved = marks.ids.len();
        self.marks.push_back(marks);
        Ok(moved)
    }

    async fn forget_marks(&mut self) {
        while let Some(marks) = self.marks.front() {
            if marks.since.elapsed() < self.marked_for {
                return;
            }
            let Marks { store, tenant, ids, .. } = marks;
            if store.ask(store.store.clear_move_marks(tenant, ids)).await.is_err() {
                return;
            }
            self.marks.pop_front();
        }
    }
}
