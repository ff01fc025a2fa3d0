//! Claims of topics that are spread: a look shows which partitions have ready jobs, and each of these gives its share.

use std::collections::BTreeMap;
use std::sync::atomic::Ordering;

use async_trait::async_trait;
use futures_util::future::join_all;
use redis::pipe;

use super::{Partition, PartitionMap, RedisStore, available};
use crate::batch::CLAIM_BYTES;
use crate::redis::key_names;
use crate::weight::Weigh;
use crate::{ClaimFrom, Claimed, Claims, StoreError};
use gristmill_core::job::{TopicId, WorkerId};
use gristmill_core::time::Timestamp;
use gristmill_core::topic::FleetLimits;

const DOING: &str = "claim jobs";

#[async_trait]
impl Claims for RedisStore {
    async fn claim(&self, worker: &WorkerId, from: &[ClaimFrom]) -> Result<Claimed, StoreError> {
        let map = self.map().await?;
        let shared = shares_of_tenants(from, &map);
        let from = shared.as_deref().unwrap_or(from);
        if from.iter().all(|line| map.of_topic(&line.topic) == 1) {
            let claimed = self.first().claim(worker, from, CLAIM_BYTES).await?;
            return Ok(Claimed { shard_returns: self.lost_claims(), ..claimed });
        }
        let mut topics = self.topic_claims(worker, &one_of_each_topic(from), &map).await?;
        let (mut claimed, mut room) = (Claimed::default(), CLAIM_BYTES);
        // A partition may have fewer jobs than its share: then the others are asked for more.
        loop {
            let shares = shares(&mut topics);
            if shares.is_empty() || room == 0 {
                break;
            }
            let some = match self.claim_shares(worker, shares, room, &mut topics).await {
                // The poll shows what remains.
                Err(_) if !claimed.claims.is_empty() => break,
                some => some?,
            };
            let bytes = some.claims.iter().map(Weigh::weight).sum();
            room = room.saturating_sub(bytes);
            claimed.claims.extend(some.claims);
            claimed.refused.extend(some.refused);
            claimed.strays += some.strays;
        }
        claimed.shard_returns = self.lost_claims();
        let drained = topics.into_iter().filter(|topic| topic.ready.is_empty() && !topic.has_remaining);
        claimed.drained = drained.map(|topic| topic.from.topic).collect();
        Ok(claimed)
    }
}

/// What a claim still asks of a topic that is spread.
struct TopicClaim {
    /// With what remains of `max`.
    from: ClaimFrom,
    /// The partitions that may have ready jobs.
    ready: Vec<u32>,
    /// There are jobs in a partition that is not asked again: too large ones, or damaged ones.
    has_remaining: bool,
}

/// The entries of a claim, those of one topic as one: with the first one's lease and limits.
fn one_of_each_topic(from: &[ClaimFrom]) -> Vec<ClaimFrom> {
    let mut entries: Vec<ClaimFrom> = Vec::with_capacity(from.len());
    for more in from {
        match entries.iter_mut().find(|entry| entry.topic == more.topic) {
            Some(entry) => entry.max += more.max,
            None => entries.push(more.clone()),
        }
    }
    entries
}

/// The entries with the share of one partition of what their tenants may do: `None` if there is nothing to share. A partition knows only what its
/// own jobs do.
fn shares_of_tenants(from: &[ClaimFrom], map: &PartitionMap) -> Option<Vec<ClaimFrom>> {
    let is_shared = |line: &ClaimFrom| line.limits.tenant.is_some() && map.of_tenant(&line.topic.tenant) > 1;
    from.iter().any(is_shared).then(|| {
        let share = |line: &ClaimFrom| {
            let tenant = line.limits.tenant.share(map.of_tenant(&line.topic.tenant));
            line.clone().within(FleetLimits { tenant, ..line.limits })
        };
        from.iter().map(share).collect()
    })
}

/// What each partition is asked for: of each topic equal shares, and of partitions that get one more, or none where there are too few, those
/// that chance chooses.
fn shares(topics: &mut [TopicClaim]) -> BTreeMap<u32, Vec<ClaimFrom>> {
    let mut shares: BTreeMap<u32, Vec<ClaimFrom>> = BTreeMap::new();
    for TopicClaim { from, ready, .. } in topics {
        fastrand::shuffle(ready);
        let count = ready.len().max(1);
        for (place, number) in ready.iter().enumerate() {
            let max = from.max / count + usize::from(place < from.max % count);
            if max > 0 {
                shares.entry(*number).or_default().push(ClaimFrom { max, ..from.clone() });
            }
        }
    }
    shares
}

impl RedisStore {
    fn lost_claims(&self) -> u64 {
        self.partitions.0.lost_claims.load(Ordering::Relaxed)
    }

    /// Looks which partitions may have ready jobs.
    async fn topic_claims(
        &self,
        worker: &WorkerId,
        from: &[ClaimFrom],
        map: &PartitionMap,
    ) -> Result<Vec<TopicClaim>, StoreError> {
        let looks = self.ask_partitions(
            from,
            |line| if line.max == 0 { 0 } else { map.of_topic(&line.topic) },
            |partition, lines| async move { partition.with_ready(worker, &lines, map).await },
        );
        let looks = looks.await.into_iter();
        let looks = looks.map(|part| part.answer.map(|ready| (part.store, part.positions, ready)));
        let topic_claim = |from: &ClaimFrom| {
            let limits = from.limits.share(map.of_topic(&from.topic));
            TopicClaim { from: from.clone().within(limits), ready: Vec::new(), has_remaining: from.max == 0 }
        };
        let mut topics: Vec<TopicClaim> = from.iter().map(topic_claim).collect();
        for (number, positions, is_ready) in available(looks.collect())? {
            for (position, is_ready) in positions.into_iter().zip(is_ready) {
                if let Some(topic) = topics.get_mut(position).filter(|_| is_ready) {
                    topic.ready.push(number);
                }
            }
        }
        Ok(topics)
    }

    /// Claims a share of each partition, all at once, and takes off what was claimed and which partitions need not be
    /// asked again.
    async fn claim_shares(
        &self,
        worker: &WorkerId,
        shares: BTreeMap<u32, Vec<ClaimFrom>>,
        bytes: usize,
        topics: &mut [TopicClaim],
    ) -> Result<Claimed, StoreError> {
        let bytes = bytes / shares.len().max(1);
        let claims = shares.into_iter().map(|(number, asked)| async move {
            let claimed = self.partition(number).claim(worker, &asked, bytes).await;
            (number, asked, claimed)
        });
        let (mut total, mut answers) = (Claimed::default(), Vec::new());
        for (number, asked, answer) in join_all(claims).await {
            let lost = answer.is_err();
            for share in asked {
                let Some(topic) = topics.iter_mut().find(|topic| topic.from.topic == share.topic) else { continue };
                let mine = |topic: &&TopicId| **topic == share.topic;
                let (got, is_drained) = answer.as_ref().map_or((0, true), |claimed| {
                    let got = claimed.claims.iter().filter(|claim| claim.lease.topic == share.topic).count();
                    (got, claimed.drained.iter().any(|topic| mine(&topic)))
                });
                topic.from.max = topic.from.max.saturating_sub(got);
                if is_drained || got < share.max {
                    topic.ready.retain(|ready| *ready != number);
                }
                topic.has_remaining |= !is_drained && got < share.max;
            }
            if lost {
                // What it may have claimed is looked for as after a shard has come back.
                self.partitions.0.lost_claims.fetch_add(1, Ordering::Relaxed);
            }
            answers.push(answer);
        }
        for claimed in available(answers)? {
            total.claims.extend(claimed.claims);
            total.refused.extend(claimed.refused);
            total.strays += claimed.strays;
        }
        Ok(total)
    }
}

impl Partition {
    /// For each topic whether it may have ready jobs; topics of one partition count as if they had. The worker waits for those
    /// that have none, as if it had claimed and found them drained.
    async fn with_ready(
        &self,
        worker: &WorkerId,
        lines: &[ClaimFrom],
        map: &PartitionMap,
    ) -> Result<Vec<bool>, StoreError> {
        let channel = self.woken.lock().contains(worker).then(|| key_names::runner_channel(&self.prefix, worker));
        let spread: Vec<&TopicId> =
            lines.iter().map(|line| &line.topic).filter(|topic| map.of_topic(topic) > 1).collect();
        let mut look = pipe();
        // In this order: a job that comes between the two finds the worker waiting.
        for topic in &spread {
            let keys = self.keys(&topic.tenant);
            if let Some(channel) = &channel {
                let since = Timestamp::now().as_millis();
                look.cmd("ZADD").arg(keys.waiters(&topic.topic)).arg("NX").arg(since).arg(channel);
            }
            look.cmd("SISMEMBER").arg(keys.active()).arg(topic.topic.as_str());
        }
        let answers = if look.is_empty() { Vec::new() } else { self.link.query_each(DOING, look).await? };
        let step = if channel.is_some() { 2 } else { 1 };
        // A damaged key is for the claim to report.
        let mut is_ready =
            answers.iter().skip(step - 1).step_by(step).map(|answer| *answer != Ok(redis::Value::Int(0)));
        let is_spread = |line: &ClaimFrom| map.of_topic(&line.topic) > 1;
        Ok(lines.iter().map(|line| !is_spread(line) || is_ready.next().unwrap_or(true)).collect())
    }
}
