//! Who lives where, and how somebody begins to move.

use std::collections::BTreeSet;
use std::time::{Duration, Instant};

use anyhow::anyhow;
use async_trait::async_trait;
use serde::{Deserialize, Serialize};

use super::store::ShardedStore;
use super::work::if_available;
use crate::{Placement, Query, StoreError, TopicCounts};
use gristmill_config::HOME;
use gristmill_core::job::{Name, TopicId, WorkerId};

const DOING: &str = "move a tenant";
/// A topic of no jobs.
const PROBE: &str = "gristmill-probe-of-a-move";
/// How long whoever is carrying the tenant's jobs may take to let somebody else speak; and how long that may take.
const TURN: Duration = Duration::from_secs(5);
const PAUSE: Duration = Duration::from_millis(100);

/// Where a tenant lives, and what is left elsewhere.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct TenantPlacement {
    pub tenant: Name,
    /// The store that takes what is pushed.
    pub store: Name,
    /// The store that it is moving out of.
    pub from: Option<Name>,
    /// Stores that it lived in before.
    pub formerly: Vec<Name>,
    /// Topics of which there still are jobs in a store that it has left or is leaving.
    pub left: Vec<TopicCounts>,
    /// Stores of which it cannot be told what is left there.
    pub away: Vec<Name>,
}

/// Tells and changes where tenants live.
#[async_trait]
pub trait TenantPlacements: std::fmt::Debug + Send + Sync + 'static {
    /// Every tenant that has or had jobs, ordered by name.
    async fn residences(&self) -> Result<Vec<TenantPlacement>, StoreError>;

    /// Where one tenant lives; whoever is not known would live in the home store.
    async fn residence(&self, tenant: &Name) -> Result<TenantPlacement, StoreError>;

    /// Begins to move a tenant: from now on it lives in `to`, and its jobs follow. Does nothing if it lives there.
    ///
    /// # Errors
    /// [`StoreError::Refused`]: there is no such store, or somebody else changes the tenant's residence at this moment.
    async fn relocate(&self, tenant: &Name, to: &Name) -> Result<(), StoreError>;
}

#[async_trait]
impl TenantPlacements for ShardedStore {
    async fn residences(&self) -> Result<Vec<TenantPlacement>, StoreError> {
        self.look().await?;
        let mut residences = Vec::new();
        for tenant in self.tenants().await? {
            residences.push(self.look_where(&tenant).await?);
        }
        Ok(residences)
    }

    async fn residence(&self, tenant: &Name) -> Result<TenantPlacement, StoreError> {
        self.look().await?;
        self.look_where(tenant).await
    }

    async fn relocate(&self, tenant: &Name, to: &Name) -> Result<(), StoreError> {
        self.look().await?;
        let Some(target) = self.0.members.iter().position(|member| member.name == *to) else {
            let names: Vec<_> = self.0.members.iter().map(|member| member.name.as_str()).collect();
            return Err(refused(format!("there is no store `{to}`; there are: {}", names.join(", "))));
        };
        let who = WorkerId::new(&format!("relocation-{:016x}", fastrand::u64(..)));
        // Whoever carries jobs out of the target would pause its topics.
        let is_left = self.record(tenant).behind().any(|name| name == to);
        if is_left {
            self.take_the_wheel(tenant, &who).await?;
        }
        let turn = self.turn(tenant);
        let _turn = turn.write().await;
        let begun = self.begin_move(tenant, to, target).await;
        if is_left {
            self.primary().ask(self.0.registry.lock_move(tenant, &who, Duration::ZERO)).await.ok();
        }
        begun
    }
}

impl ShardedStore {
    async fn look_where(&self, tenant: &Name) -> Result<TenantPlacement, StoreError> {
        let (record, places) = (self.record(tenant), self.places(tenant));
        let (mut left, mut away) = (Vec::new(), Vec::new());
        for place in places.members.iter().skip(1) {
            let member = self.member(*place);
            match if_available(member.ask(member.store.counts(tenant)).await)? {
                Some(counts) => left.extend(counts.into_iter().filter(|counts| in_all(counts) > 0)),
                None => away.push(member.name.clone()),
            }
        }
        let Placement { store, from, formerly, .. } = record;
        Ok(TenantPlacement { tenant: tenant.clone(), store, from, formerly, left, away })
    }

    /// What is written down of the tenant, or would be.
    pub(super) fn record(&self, tenant: &Name) -> Placement {
        let view = self.view();
        if let Some(record) = view.records.get(tenant) {
            return record.clone();
        }
        let mut names = view.of(tenant).members.iter().map(|place| self.member(*place).name.clone());
        let store = names.next().unwrap_or_else(|| self.primary().name.clone());
        let formerly = names.filter(|name| *name != store && name.as_str() == HOME).collect();
        Placement { store, from: None, formerly, generation: 0 }
    }

    /// Nobody else carries the tenant's jobs or changes its residence for a while.
    async fn take_the_wheel(&self, tenant: &Name, who: &WorkerId) -> Result<(), StoreError> {
        let begun = Instant::now();
        while !self.primary().ask(self.0.registry.lock_move(tenant, who, 2 * TURN)).await? {
            if begun.elapsed() > 2 * TURN {
                return Err(refused("another process is carrying its jobs, and does not pause: try again".into()));
            }
            tokio::time::sleep(PAUSE).await;
        }
        Ok(())
    }

    async fn begin_move(&self, tenant: &Name, to: &Name, target: usize) -> Result<(), StoreError> {
        self.look().await?;
        let (record, source) = (self.record(tenant), self.first(tenant)?);
        if record.store == *to {
            return Ok(());
        }
        self.must_be_two(tenant, source, target).await?;
        self.take_pauses_along(tenant, source, target).await?;
        if !self.primary().ask(self.0.registry.write_placement(tenant, &record.moving_to(to))).await? {
            return Err(refused("somebody else has moved it at the same moment: look where it lives now".into()));
        }
        let from = &record.store;
        tracing::info!(%tenant, %from, %to, "moving: what is pushed goes to the new store, what waits follows");
        self.look().await
    }

    /// One store by two addresses would let go of the jobs that it took in: a pause of a topic that nobody has tells.
    async fn must_be_two(&self, tenant: &Name, source: usize, target: usize) -> Result<(), StoreError> {
        let Ok(topic) = PROBE.parse() else { return Ok(()) };
        let topic = TopicId { tenant: tenant.clone(), topic };
        let (source, target) = (self.member(source), self.member(target));
        target.ask(target.store.set_paused(&topic, false)).await?;
        source.ask(source.store.set_paused(&topic, true)).await?;
        let seen = target.ask(target.store.counts(tenant)).await;
        source.ask(source.store.set_paused(&topic, false)).await?;
        if seen?.iter().any(|counts| counts.topic == topic) {
            return Err(refused(format!("`{}` and `{}` are one store by two addresses", source.name, target.name)));
        }
        Ok(())
    }

    /// What was paused in the new store before was so for the sake of an earlier move.
    async fn take_pauses_along(&self, tenant: &Name, source: usize, target: usize) -> Result<(), StoreError> {
        let (source, target) = (self.member(source), self.member(target));
        let paused = |counts: Vec<TopicCounts>| -> BTreeSet<_> {
            counts.into_iter().filter(|counts| counts.paused).map(|counts| counts.topic).collect()
        };
        let wanted = paused(source.ask(source.store.counts(tenant)).await?);
        let present = paused(target.ask(target.store.counts(tenant)).await?);
        for topic in wanted.symmetric_difference(&present) {
            target.ask(target.store.set_paused(topic, wanted.contains(topic))).await?;
        }
        Ok(())
    }
}

/// Jobs that are anywhere.
pub(super) fn in_all(counts: &TopicCounts) -> u64 {
    counts.ready + counts.delayed + counts.running + counts.dead
}

fn refused(problem: String) -> StoreError {
    StoreError::Refused { store: HOME.into(), doing: DOING, source: anyhow!(problem) }
}
