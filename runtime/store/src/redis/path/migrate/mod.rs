//! Migrate: due jobs go from delayed to ready.

pub(in crate::redis) mod due_next;

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use redis::{RedisResult, Value, from_redis_value, pipe};

use crate::redis::clock::TimeReply;
use crate::redis::key_names::Keys;
use crate::redis::path::claim::behind::and_claim;
use crate::redis::script::{Call, script};
use crate::redis::store::{Partition, SCRIPT_JOBS};
use crate::{Migrated, PendingWork, PollTenant, StoreError};
use due_next::{DueNext, Next};
use gristmill_core::job::{Name, TopicId};

const DOING: &str = "migrate due jobs";
const POLL: &str = "look for work";

/// How many topics one call of the script looks at.
const TOPICS: isize = 64;

/// How many jobs one call of the script moves at most.
const JOBS: usize = 1000;

/// Topics that are due so soon after the first one are migrated with it.
const TOGETHER: Duration = Duration::from_millis(5);

/// Ends the mark of a killed job in `cancelled`; the id is also there without it. No id has it.
const KILLED: char = '!';

/// What is due next, and when.
struct Heads {
    next: Next,
    due_in: Option<Duration>,
}

/// A score of `due`: ms with a fraction. Others may have written any.
fn since_epoch(score: f64) -> Duration {
    Duration::from_micros((score.max(0.0) * 1000.0).round() as u64)
}

impl Partition {
    pub(in crate::redis) async fn pass_on(&self, topics: &[TopicId]) -> Result<(), StoreError> {
        let pass_on = |topic: &TopicId| {
            let keys = self.keys(&topic.tenant);
            let mut call = Call::new(script!("path/migrate/pass_on.lua"), &[keys.active(), keys.waiters(&topic.topic)]);
            call.arg(topic.topic.as_str());
            call
        };
        self.link.run("wake another runner", topics.iter().map(pass_on).collect()).await.map(drop)
    }

    /// `partitions`: how many the tenant has.
    pub(in crate::redis) async fn migrate(
        &self,
        tenant: &Name,
        limit: usize,
        partitions: u32,
    ) -> Result<Migrated, StoreError> {
        let keys = self.keys(tenant);
        let mut next = self.due_next.lock().remove(tenant).unwrap_or_default();
        let (mut moved, mut fired, mut guessed) = (0, 0, true);
        loop {
            let some_fired = if next.schedules { self.fire(tenant, partitions).await? } else { 0 };
            fired += some_fired;
            moved += if next.ends { self.carry_ends(&keys).await? } else { 0 };
            let room = limit.saturating_sub(moved).min(JOBS);
            let some = self.migrate_topics(tenant, &next.topics, guessed, room, partitions == 1).await?;
            moved += some;
            // Off the way of the jobs that were just moved.
            let heads = self.look_at_heads(&keys).await?;
            let is_due = heads.due_in == Some(Duration::ZERO);
            // Nothing moved of what was seen to be due: another runner was faster. It will look again, and so will we. Unless it was a guess, which
            // may have come too early.
            let in_vain = some + some_fired == 0 && !next.ends && heads.next == next && !guessed;
            guessed = false;
            if moved >= limit || !is_due || in_vain {
                if heads.next != Next::default() {
                    self.due_next.lock().insert(tenant.clone(), heads.next);
                }
                return Ok(Migrated { moved, fired, next_due_in: heads.due_in });
            }
            next = heads.next;
        }
    }

    /// One command for 256 tenants without anything to find. Three more for each that may have something, all in one round trip; before them
    /// a call of a script for every 500 raw topics, and behind them one for the time where something is delayed.
    pub(in crate::redis) async fn poll_work(
        &self,
        tenants: &[PollTenant],
    ) -> Result<Vec<Result<PendingWork, StoreError>>, StoreError> {
        if tenants.is_empty() {
            return Ok(Vec::new());
        }
        let raw = tenants.iter().filter(|polled| !polled.raw.is_empty());
        // A full server refuses it, and its jobs must be found all the same. The next poll tries again.
        drop(self.list_tenants(POLL, raw.map(|polled| &polled.tenant)).await);
        let mut refused = self.poll_raw(tenants).await?;
        let names: Vec<&Name> = tenants.iter().map(|polled| &polled.tenant).collect();
        let keys = |keys: &Keys| [keys.active(), keys.cancelled(), keys.due()];
        let may_have = self.may_have(POLL, &names, &self.waiting, keys).await?;
        let mut look = pipe();
        for (tenant, _) in names.iter().zip(&may_have).filter(|(_, may_have)| **may_have) {
            let keys = self.keys(tenant);
            look.cmd("ZDIFF").arg(2).arg(keys.active()).arg(keys.limited()).cmd("SMEMBERS").arg(keys.cancelled());
            look.cmd("ZRANGE").arg(keys.due()).arg(0).arg(0).arg("WITHSCORES");
        }
        let answers = if look.is_empty() { Vec::new() } else { self.link.query_each(POLL, look).await? };
        let mut answers = answers.into_iter();
        let read = |(position, (tenant, may_have)): (usize, (&Name, bool))| {
            // All three, also behind an error: the next ones are the next tenant's.
            let own: Vec<_> = answers.by_ref().take(if may_have { 3 } else { 0 }).collect();
            let answer = may_have.then(|| own.into_iter().collect::<RedisResult<_>>());
            if let Some(error) = refused.remove(&position) {
                return Err(error);
            }
            type Reply = (Vec<String>, HashSet<String>, Vec<(String, f64)>);
            let Some(answer) = answer else { return Ok(PendingWork::default()) };
            let found = answer.and_then(|answer| Ok(from_redis_value::<Reply>(Value::Array(answer))?));
            let (active, cancelled, head) = found.map_err(self.misread(POLL))?;
            self.waiting.note(tenant, !(active.is_empty() && cancelled.is_empty() && head.is_empty()));
            // A version that knew no kills may have left a mark behind.
            let killed = cancelled.iter().filter_map(|member| member.strip_suffix(KILLED));
            let killed = killed.filter(|id| cancelled.contains(*id)).filter_map(|id| id.parse().ok()).collect();
            let ready = active.iter().filter_map(|topic| topic.parse().ok());
            let due = head.first().map(|(_, due)| since_epoch(*due));
            // The guess for the next migration, if there is no better one.
            if due.is_none() {
                self.due_next.lock().remove(tenant);
            } else {
                let heads = || Next::of(head.into_iter().map(|(member, _)| member));
                self.due_next.lock().entry(tenant.clone()).or_insert_with(heads);
            }
            Ok(PendingWork {
                ready: ready.map(|topic| TopicId { tenant: tenant.clone(), topic }).collect(),
                // When it is due; how long until then is known with the time.
                next_due_in: due,
                cancelled: cancelled.iter().filter_map(|id| id.parse().ok()).collect(),
                killed,
            })
        };
        let mut found: Vec<Result<PendingWork, StoreError>> =
            names.into_iter().zip(may_have).enumerate().map(read).collect();
        if found.iter().flatten().any(|pending| pending.next_due_in.is_some()) {
            let (time,): (TimeReply,) = self.link.query(POLL, pipe().cmd("TIME")).await?;
            let now = self.exact(time);
            for pending in found.iter_mut().flatten() {
                pending.next_due_in = pending.next_due_in.map(|due| due.saturating_sub(now));
            }
        }
        Ok(found)
    }
}

impl Partition {
    /// Looks at the raw topics. Returns the errors of tenants that have one, by position.
    async fn poll_raw(&self, tenants: &[PollTenant]) -> Result<HashMap<usize, StoreError>, StoreError> {
        let (mut calls, mut positions) = (Vec::new(), Vec::new());
        for (position, PollTenant { tenant, raw }) in tenants.iter().enumerate() {
            let keys = self.keys(tenant);
            for topics in raw.chunks(SCRIPT_JOBS) {
                calls.push(self.poll_raw_call(&keys, topics));
                positions.push(position);
            }
        }
        let answers = positions.into_iter().zip(self.link.run_each(POLL, calls).await?);
        Ok(answers.filter_map(|(position, answer)| Some((position, answer.err()?))).collect())
    }

    fn poll_raw_call(&self, keys: &Keys, topics: &[Name]) -> Call {
        let mut names = keys.waiting();
        for topic in topics {
            names.extend(keys.row(topic));
        }
        names.push(keys.raw());
        let mut call = Call::new(script!("keys/line.lua", "keys/waiting.lua", "path/migrate/poll_raw.lua"), &names);
        call.arg(self.now_argument()).arg(keys.wake_channel());
        for topic in topics {
            call.arg(topic.as_str());
        }
        call
    }

    /// Fires schedules that are due. What a full server refuses does not hold up the jobs that are due.
    async fn fire(&self, tenant: &Name, partitions: u32) -> Result<usize, StoreError> {
        match self.fire_schedules(tenant, partitions).await {
            Err(error) if !error.is_unavailable() => {
                tracing::error!(%tenant, "failed to fire schedules: {:#}", anyhow::Error::from(error));
                Ok(0)
            }
            fired => fired,
        }
    }

    async fn look_at_heads(&self, keys: &Keys) -> Result<Heads, StoreError> {
        let mut look = pipe();
        look.cmd("TIME").cmd("ZRANGE").arg(keys.due()).arg(0).arg(TOPICS - 1).arg("WITHSCORES");
        let (time, heads): (TimeReply, Vec<(String, f64)>) = self.link.query(DOING, &look).await?;
        let (first, now) = (heads.first().map(|(_, due)| since_epoch(*due)), self.exact(time));
        let due_in = first.map(|due| due.saturating_sub(now));
        let horizon = first.map(|due| due.max(now).saturating_add(TOGETHER));
        let together = heads.into_iter().take_while(|(_, due)| Some(since_epoch(*due)) <= horizon);
        Ok(Heads { next: Next::of(together.map(|(member, _)| member)), due_in })
    }

    /// Moves due jobs of these topics, and has those claimed from whose rate allows more. Returns how many; none if they are guessed and
    /// something else is due. If a claim waits for one of them, and may be made, it is sent behind this.
    async fn migrate_topics(
        &self,
        tenant: &Name,
        next: &[DueNext],
        guessed: bool,
        limit: usize,
        may_claim: bool,
    ) -> Result<usize, StoreError> {
        if next.is_empty() || limit == 0 {
            return Ok(0);
        }
        let (keys, id) =
            (self.keys(tenant), |next: &DueNext| TopicId { tenant: tenant.clone(), topic: next.topic.clone() });
        let claim = if may_claim { self.waiting_claim(&next.iter().map(id).collect::<Vec<_>>()) } else { None };
        let is_claimed = |next: &&DueNext| claim.as_ref().is_some_and(|(topics, _)| topics.contains(&id(next)));
        let (claimed, others): (Vec<&DueNext>, Vec<&DueNext>) = next.iter().partition(is_claimed);
        let (claimed, next) = (claimed.len(), [claimed, others].concat());
        let names = keys.with_rows([keys.limited()], next.iter().map(|next| &next.topic));
        let mut call = Call::new(script!("keys/line.lua", "keys/waiting.lua", "path/migrate/migrate.lua"), &names);
        call.arg(self.now_argument()).arg(keys.wake_channel()).arg(limit).arg(if guessed { "1" } else { "" });
        call.arg(claimed).arg(next.iter().map(|next| next.member.as_str()).collect::<Vec<_>>());
        let moved = and_claim(self.reply(DOING, call), claim).await?.integer().map_err(self.misread(DOING))?;
        Ok(usize::try_from(moved).unwrap_or(0))
    }
}
