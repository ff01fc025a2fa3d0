//! What a runner asks of shards: claims from all of them, settles on the shard that a lease is from. A shard that does not
//! answer delays no other.

use std::collections::{BTreeMap, HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;

use super::all::all;
use super::member::Shard;
use super::store::ShardedStore;
use crate::{
    ClaimFrom, Claimed, Claims, DeadLimits, Leases, Migrated, Overdue, PendingWork, Schedule, Settle, Settled,
    Settlement, StoreError, Sweep, Workers,
};
use gristmill_core::job::{JobId, Lease, Name, TopicId, WorkerId};

/// When to look for due jobs again in a store that is away.
const LOOK_AGAIN: Duration = Duration::from_secs(1);
/// How long one store may take to hear that a worker lives, so that the others hear it in time.
const HEARTBEAT_TIME: Duration = Duration::from_secs(1);

#[async_trait]
impl Claims for ShardedStore {
    /// A store that does not answer has nothing to claim: its topics count as drained, until a look finds them again.
    async fn claim(&self, worker: &WorkerId, from: &[ClaimFrom]) -> Result<Claimed, StoreError> {
        let view = self.view();
        let (mut behind, mut first): (Lines, Lines) = (BTreeMap::new(), BTreeMap::new());
        {
            let topics_with_backlog = self.topics_with_backlog();
            for line in from {
                for place in view.of(&line.topic.tenant).members.iter().skip(1) {
                    if topics_with_backlog.contains(&(*place, line.topic.clone())) {
                        behind.entry(*place).or_default().push(line.clone());
                    }
                }
            }
        }
        let mut claimed = Claimed::default();
        let asked = topics(&behind);
        let mut taken: HashMap<TopicId, usize> = HashMap::new();
        for (place, answer) in self.claim_from(worker, behind).await {
            // Until a look or a signal says that there is something again.
            let drained = match &answer {
                Some(answer) => answer.drained.clone(),
                None => asked.get(&place).cloned().unwrap_or_default(),
            };
            let mut topics_with_backlog = self.topics_with_backlog();
            drained.into_iter().for_each(|topic| _ = topics_with_backlog.remove(&(place, topic)));
            let Some(answer) = answer else { continue };
            answer.claims.iter().for_each(|claim| *taken.entry(claim.lease.topic.clone()).or_default() += 1);
            claimed.claims.extend(answer.claims);
            claimed.strays += answer.strays;
        }
        for line in from {
            let max = match taken.get_mut(&line.topic) {
                Some(taken) => {
                    let less = line.max.min(*taken);
                    *taken -= less;
                    line.max - less
                }
                None => line.max,
            };
            match view.of(&line.topic.tenant).members.first() {
                Some(place) if max > 0 => first.entry(*place).or_default().push(ClaimFrom { max, ..line.clone() }),
                Some(_) => {}
                // It lives in a store that is not ours.
                None => claimed.drained.push(line.topic.clone()),
            }
        }
        let asked = topics(&first);
        for (place, answer) in self.claim_from(worker, first).await {
            match answer {
                Some(answer) => {
                    claimed.claims.extend(answer.claims);
                    claimed.drained.extend(answer.drained);
                    claimed.strays += answer.strays;
                }
                None => claimed.drained.extend(asked.get(&place).cloned().unwrap_or_default()),
            }
        }
        let topics_with_backlog = self.topics_with_backlog();
        let stirs = |topic: &TopicId| {
            view.of(&topic.tenant)
                .members
                .iter()
                .skip(1)
                .any(|place| topics_with_backlog.contains(&(*place, topic.clone())))
        };
        claimed.drained.retain(|topic| topics_with_backlog.is_empty() || !stirs(topic));
        claimed.shard_returns = self.0.members.iter().map(|member| member.returns()).sum();
        Ok(claimed)
    }
}

#[async_trait]
impl Settle for ShardedStore {
    /// Where a lease was claimed, there it is settled. Which place that was is not written down: in every other one it is
    /// lost, and so a place that does not know it is only the next one's turn.
    async fn settle(&self, settlements: &[Settlement]) -> Result<Vec<Settled>, StoreError> {
        let lost = |answer: &Settled| *answer == Settled::LeaseLost;
        let tenant = |settlement: &Settlement| settlement.lease.topic.tenant.clone();
        let settle =
            |member: Arc<Shard>, batch: Vec<Settlement>| async move { member.ask(member.store.settle(&batch)).await };
        self.place_by_place(settlements, tenant, Settled::LeaseLost, lost, settle).await
    }
}

#[async_trait]
impl Leases for ShardedStore {
    /// Of a store that is away nobody can tell, so its leases are taken to be kept: a settle will find out.
    async fn extend(&self, leases: &[Lease], lease: Duration) -> Result<Vec<bool>, StoreError> {
        let tenant = |lease: &Lease| lease.topic.tenant.clone();
        let extend = |member: Arc<Shard>, batch: Vec<Lease>| async move {
            match member.ask(member.store.extend(&batch, lease)).await {
                Err(error) if error.is_unavailable() => Ok(vec![true; batch.len()]),
                kept => kept,
            }
        };
        self.place_by_place(leases, tenant, false, |kept| !kept, extend).await
    }

    async fn checkpoint(&self, lease: &Lease, state: &[u8]) -> Result<bool, StoreError> {
        let places = self.places(&lease.topic.tenant);
        for place in places.members.iter() {
            let member = self.member(*place);
            if member.ask(member.store.checkpoint(lease, state)).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    async fn claims_of(
        &self,
        tenant: &Name,
        worker: &WorkerId,
        except: &HashSet<JobId>,
    ) -> Result<Vec<Lease>, StoreError> {
        let mut found = Vec::new();
        for place in self.places(tenant).in_order_of_moves() {
            let member = self.member(place);
            found.extend(
                if_available(member.ask(member.store.claims_of(tenant, worker, except)).await)?.unwrap_or_default(),
            );
        }
        Ok(found)
    }
}

#[async_trait]
impl Workers for ShardedStore {
    /// Every store hears it; that one does not is no reason for the others to think that the worker is dead.
    async fn heartbeat(&self, worker: &WorkerId) -> Result<(), StoreError> {
        let beats = self.0.members.iter().map(|member| async move {
            let beat = member.ask(member.store.heartbeat(worker));
            tokio::time::timeout(HEARTBEAT_TIME, beat).await.unwrap_or_else(|_| Err(silent(member)))
        });
        one_is_enough(all(beats).await)
    }

    async fn retire(&self, worker: &WorkerId) -> Result<(), StoreError> {
        let members = self.0.members.iter();
        one_is_enough(all(members.map(|member| member.ask(member.store.retire(worker)))).await)
    }

    async fn overdue(&self, tenant: &Name, dead_after: Duration, limit: usize) -> Result<Vec<Overdue>, StoreError> {
        let mut found = Vec::new();
        for place in self.places(tenant).in_order_of_moves() {
            let member = self.member(place);
            let overdue = member.store.overdue(tenant, member.dead_after(dead_after), limit);
            found.extend(if_available(member.ask(overdue).await)?.unwrap_or_default());
        }
        found.truncate(limit);
        Ok(found)
    }
}

#[async_trait]
impl Schedule for ShardedStore {
    async fn migrate(&self, tenant: &Name, limit: usize) -> Result<Migrated, StoreError> {
        let mut all = Migrated::default();
        for place in self.places(tenant).in_order_of_moves() {
            let member = self.member(place);
            let migrated = match member.ask(member.store.migrate(tenant, limit)).await {
                Err(error) if error.is_unavailable() => Migrated { moved: 0, next_due_in: Some(LOOK_AGAIN) },
                migrated => migrated?,
            };
            all.moved += migrated.moved;
            all.next_due_in = earlier(all.next_due_in, migrated.next_due_in);
        }
        Ok(all)
    }

    async fn poll_work(&self, tenant: &Name, raw: &[Name]) -> Result<PendingWork, StoreError> {
        let mut all = PendingWork::default();
        for place in self.places(tenant).in_order_of_moves() {
            let member = self.member(place);
            let Some(wanted) = if_available(member.ask(member.store.poll_work(tenant, raw)).await)? else { continue };
            self.note_ready(place, &wanted.ready);
            all.ready.extend(wanted.ready);
            all.cancelled.extend(wanted.cancelled);
            all.next_due_in = earlier(all.next_due_in, wanted.next_due_in);
        }
        all.ready.sort();
        all.ready.dedup();
        Ok(all)
    }
}

#[async_trait]
impl Sweep for ShardedStore {
    async fn sweep(&self, limits: &[DeadLimits]) -> Result<Vec<u64>, StoreError> {
        let view = self.view();
        let mut dropped = vec![0; limits.len()];
        for (place, member) in self.0.members.iter().enumerate() {
            let here = |limits: &DeadLimits| view.of(&limits.topic.tenant).members.contains(&place);
            let (positions, batch): (Vec<usize>, Vec<DeadLimits>) =
                limits.iter().cloned().enumerate().filter(|(_, limits)| here(limits)).unzip();
            if batch.is_empty() {
                continue;
            }
            let swept = if_available(member.ask(member.store.sweep(&batch)).await)?.unwrap_or_default();
            for (at, swept) in positions.into_iter().zip(swept) {
                if let Some(dropped) = dropped.get_mut(at) {
                    *dropped += swept;
                }
            }
        }
        Ok(dropped)
    }
}

impl ShardedStore {
    /// None of a store that is unavailable, or that refused, which is logged.
    async fn claim_from(&self, worker: &WorkerId, lines: Lines) -> Vec<(usize, Option<Claimed>)> {
        let claims = lines.into_iter().map(|(place, lines)| async move {
            let member = self.member(place);
            match member.ask(member.store.claim(worker, &lines)).await {
                Ok(claimed) => (place, Some(claimed)),
                Err(error) => {
                    if !error.is_unavailable() {
                        tracing::error!(store = %member.name, "failed to claim: {:#}", anyhow::Error::from(error));
                    }
                    (place, None)
                }
            }
        });
        all(claims).await
    }

    /// Asks about each item in its tenant's places, one after the other, as long as the answer is `open`.
    async fn place_by_place<T: Clone, A: Clone, F: Future<Output = Result<Vec<A>, StoreError>>>(
        &self,
        items: &[T],
        tenant: impl Fn(&T) -> Name,
        unknown: A,
        open: impl Fn(&A) -> bool,
        ask: impl Fn(Arc<Shard>, Vec<T>) -> F,
    ) -> Result<Vec<A>, StoreError> {
        let view = self.view();
        let mut answers = vec![unknown; items.len()];
        for round in 0..self.0.members.len() {
            let mut groups: BTreeMap<usize, (Vec<usize>, Vec<T>, bool)> = BTreeMap::new();
            for (at, (item, _)) in items.iter().zip(&answers).enumerate().filter(|(_, (_, answer))| open(answer)) {
                let places = view.of(&tenant(item));
                let Some(place) = places.members.get(round) else { continue };
                let (positions, batch, must) = groups.entry(*place).or_default();
                positions.push(at);
                batch.push(item.clone());
                *must |= round == 0 || places.is_moving;
            }
            if groups.is_empty() {
                break;
            }
            let asked = groups.into_iter().map(|(place, (positions, batch, must))| {
                let asked = ask(Arc::clone(self.member(place)), batch);
                async move { (positions, must, asked.await) }
            });
            for (positions, must, answered) in all(asked).await {
                match answered {
                    Ok(answered) => {
                        for (at, answer) in positions.into_iter().zip(answered) {
                            if let Some(slot) = answers.get_mut(at) {
                                *slot = answer;
                            }
                        }
                    }
                    // A place that was left long ago, and hardly ever knows anything.
                    Err(error) if error.is_unavailable() && !must => {}
                    Err(error) => return Err(error),
                }
            }
        }
        Ok(answers)
    }
}

/// Lines of a claim by place.
type Lines = BTreeMap<usize, Vec<ClaimFrom>>;

fn topics(lines: &Lines) -> BTreeMap<usize, Vec<TopicId>> {
    lines.iter().map(|(place, lines)| (*place, lines.iter().map(|line| line.topic.clone()).collect())).collect()
}

/// None: the store is away.
pub(super) fn if_available<T>(answer: Result<T, StoreError>) -> Result<Option<T>, StoreError> {
    match answer {
        Err(error) if error.is_unavailable() => Ok(None),
        answer => answer.map(Some),
    }
}

pub(super) fn one_is_enough(answers: Vec<Result<(), StoreError>>) -> Result<(), StoreError> {
    let mut problem = None;
    for answer in answers {
        match answer {
            Ok(()) => return Ok(()),
            Err(error) => problem = Some(error),
        }
    }
    problem.map_or(Ok(()), Err)
}

fn silent(member: &Shard) -> StoreError {
    let source = anyhow::anyhow!("no answer within {} s", HEARTBEAT_TIME.as_secs());
    StoreError::Unavailable { store: member.name.to_string(), source }
}

fn earlier(one: Option<Duration>, other: Option<Duration>) -> Option<Duration> {
    one.into_iter().chain(other).min()
}
