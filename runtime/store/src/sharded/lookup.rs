//! What people ask: of every place, and put together as if it were one.

use std::cmp::Reverse;
use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;

use async_trait::async_trait;

use super::all::all;
use super::member::Shard;
use super::store::ShardedStore;
use super::work::if_available;
use crate::{Cancelled, Control, DeadJob, DeadJobs, JobState, JobView, Query, StoreError, TopicCounts};
use gristmill_core::job::{JobId, Name, TopicId};

#[async_trait]
impl Query for ShardedStore {
    /// Of a tenant that is moving everything is counted, also what is in both stores for a moment. A place that was left
    /// long ago is left out while it is away.
    async fn counts(&self, tenant: &Name) -> Result<Vec<TopicCounts>, StoreError> {
        let (first, places) = (self.first(tenant)?, self.places(tenant));
        let mut topics: BTreeMap<TopicId, TopicCounts> = BTreeMap::new();
        for place in places.members.iter() {
            let member = self.member(*place);
            let mut counted = member.ask(member.store.counts(tenant)).await;
            if *place != first && !places.is_moving {
                counted = if_available(counted).map(Option::unwrap_or_default);
            }
            for mut counts in counted? {
                // Elsewhere a pause only keeps jobs where whoever moves them can have them.
                counts.paused &= *place == first;
                match topics.get_mut(&counts.topic) {
                    Some(known) => add(known, counts),
                    None if *place != first && is_nothing(&counts) => {}
                    None => drop(topics.insert(counts.topic.clone(), counts)),
                }
            }
        }
        Ok(topics.into_values().collect())
    }

    /// The job that is alive, if there is one; of several, that in the place where the tenant lives. Looked for in the order
    /// in which jobs move, so that none is missed on its way.
    async fn job(&self, tenant: &Name, id: &JobId) -> Result<Option<JobView>, StoreError> {
        self.first(tenant)?;
        let (mut found, mut problem): (Option<JobView>, _) = (None, None);
        for place in self.places(tenant).in_order_of_moves() {
            let member = self.member(place);
            match member.ask(member.store.job(tenant, id)).await {
                Ok(Some(view)) => {
                    let is_over = view.state == JobState::Finished;
                    if !is_over || found.as_ref().is_none_or(|found| found.state == JobState::Finished) {
                        found = Some(view);
                    }
                }
                Ok(None) => {}
                Err(error) => problem = Some(error),
            }
        }
        match (found, problem) {
            (None, Some(error)) => Err(error),
            (found, _) => Ok(found),
        }
    }

    /// Those of every store that answers; of one that is unavailable, those that are known to live there.
    async fn tenants(&self) -> Result<Vec<Name>, StoreError> {
        let (view, mut tenants) = (self.view(), BTreeSet::new());
        let asked = all(self.0.members.iter().map(|member| member.ask(member.store.tenants()))).await;
        let nobody_answers = asked.iter().all(Result::is_err);
        for (place, here) in asked.into_iter().enumerate() {
            match here {
                Ok(here) => tenants.extend(here),
                Err(error) if nobody_answers || !error.is_unavailable() => return Err(error),
                Err(_) => {
                    let lives_here = |tenant: &&Name| view.of(tenant).members.first() == Some(&place);
                    tenants.extend(view.tenants().filter(lives_here).cloned());
                }
            }
        }
        Ok(tenants.into_iter().collect())
    }
}

#[async_trait]
impl DeadJobs for ShardedStore {
    async fn dead(&self, topic: &TopicId, skip: usize, limit: usize) -> Result<Vec<DeadJob>, StoreError> {
        let (first, places) = (self.first(&topic.tenant)?, self.places(&topic.tenant));
        if places.is_single() {
            let member = self.member(first);
            return member.ask(member.store.dead(topic, skip, limit)).await;
        }
        let (mut dead, mut seen) = (Vec::new(), BTreeSet::new());
        for place in places.in_order_of_moves() {
            let member = self.member(place);
            let mut here = member.ask(member.store.dead(topic, 0, skip.saturating_add(limit))).await;
            if place != first && !places.is_moving {
                here = if_available(here).map(Option::unwrap_or_default);
            }
            dead.extend(here?.into_iter().filter(|dead| seen.insert(dead.job.spec.id.clone())));
        }
        dead.sort_by_key(|dead| Reverse((dead.since, dead.job.spec.id.clone())));
        Ok(dead.into_iter().skip(skip).take(limit).collect())
    }

    async fn respawn(&self, topic: &TopicId, ids: &[JobId]) -> Result<Vec<bool>, StoreError> {
        self.in_any_place(
            &topic.tenant,
            ids,
            |member| async move { member.ask(member.store.respawn(topic, ids)).await },
        )
        .await
    }

    async fn delete_dead(&self, topic: &TopicId, ids: &[JobId]) -> Result<Vec<bool>, StoreError> {
        self.in_any_place(
            &topic.tenant,
            ids,
            |member| async move { member.ask(member.store.delete_dead(topic, ids)).await },
        )
        .await
    }
}

#[async_trait]
impl Control for ShardedStore {
    /// Where a job is in both stores for a moment, it goes in both.
    async fn cancel(&self, tenant: &Name, ids: &[JobId]) -> Result<Vec<Cancelled>, StoreError> {
        self.first(tenant)?;
        let (places, turn) = (self.places(tenant), self.turn(tenant));
        let _turn = turn.read().await;
        let mut answers = vec![Cancelled::TooLate; ids.len()];
        for place in places.in_order_of_moves() {
            let member = self.member(place);
            let cancelled = member.ask(member.store.cancel(tenant, ids)).await;
            let cancelled = if places.is_moving || places.members.first() == Some(&place) {
                cancelled?
            } else {
                if_available(cancelled)?.unwrap_or_default()
            };
            for (answer, here) in answers.iter_mut().zip(cancelled) {
                if *answer == Cancelled::TooLate || here == Cancelled::Gone {
                    *answer = here;
                }
            }
        }
        Ok(answers)
    }

    /// Stops the topic everywhere; starts it where the tenant lives, to which what is elsewhere will be moved.
    async fn set_paused(&self, topic: &TopicId, paused: bool) -> Result<bool, StoreError> {
        let (first, turn) = (self.first(&topic.tenant)?, self.turn(&topic.tenant));
        let _turn = turn.read().await;
        let places = self.places(&topic.tenant);
        for place in places.members.iter().filter(|place| **place != first && paused && places.is_moving) {
            let member = self.member(*place);
            member.ask(member.store.set_paused(topic, true)).await?;
        }
        let member = self.member(first);
        member.ask(member.store.set_paused(topic, paused)).await
    }

    /// Forgets the topic in every place that the tenant has, up to the first one in which the topic has jobs.
    async fn forget_topic(&self, topic: &TopicId) -> Result<bool, StoreError> {
        self.first(&topic.tenant)?;
        let (places, turn) = (self.places(&topic.tenant), self.turn(&topic.tenant));
        let _turn = turn.read().await;
        for place in places.in_order_of_moves() {
            let member = self.member(place);
            if !member.ask(member.store.forget_topic(topic)).await? {
                return Ok(false);
            }
        }
        Ok(true)
    }
}

impl ShardedStore {
    async fn in_any_place<F: Future<Output = Result<Vec<bool>, StoreError>>>(
        &self,
        tenant: &Name,
        ids: &[JobId],
        change: impl Fn(Arc<Shard>) -> F,
    ) -> Result<Vec<bool>, StoreError> {
        self.first(tenant)?;
        let (places, turn) = (self.places(tenant), self.turn(tenant));
        let _turn = turn.read().await;
        let mut answers = vec![false; ids.len()];
        for place in places.in_order_of_moves() {
            let changed = change(Arc::clone(self.member(place))).await;
            let changed = if places.is_moving || places.members.first() == Some(&place) {
                changed?
            } else {
                if_available(changed)?.unwrap_or_default()
            };
            answers.iter_mut().zip(changed).for_each(|(answer, here)| *answer |= here);
        }
        Ok(answers)
    }
}

fn add(known: &mut TopicCounts, more: TopicCounts) {
    known.ready += more.ready;
    known.delayed += more.delayed;
    known.running += more.running;
    known.dead += more.dead;
    known.oldest_ready = known.oldest_ready.into_iter().chain(more.oldest_ready).min();
    known.paused |= more.paused;
    for (name, n) in more.totals {
        *known.totals.entry(name).or_default() += n;
    }
}

/// A topic that was only ever paused.
fn is_nothing(counts: &TopicCounts) -> bool {
    counts.ready + counts.delayed + counts.running + counts.dead == 0 && counts.totals.is_empty()
}
