//! Claim: calls of `claim.lua`, of one tenant and at most 1,000 jobs each, and what to do with what is no readable job.

pub(in crate::redis) mod batches;
pub(in crate::redis) mod behind;
mod waiting_claims;

use std::collections::BTreeSet;
use std::sync::{Arc, LazyLock};
use std::time::Duration;

use anyhow::anyhow;
use redis::{RedisResult, Value};

use crate::clock::wait_ms;
use crate::redis::connection::error::unexpected;
use crate::redis::envelope;
use crate::redis::holder::Holder;
use crate::redis::key_names::{self, Keys};
use crate::redis::limits::{limits_argument, tenant_limits_argument};
use crate::redis::partitions::partition_map::PartitionMap;
use crate::redis::record::read_failure;
use crate::redis::script::reply::Reply;
use crate::redis::script::{Call, script};
use crate::redis::store::{Partition, by_tenant};
use crate::{ClaimFrom, Claimed, Settlement, StoreError};
use gristmill_core::job::{Claim, JobId, Lease, Priority, TopicId, WorkerId};
use gristmill_core::outcome::{Failure, Verdict};
use gristmill_core::time::Timestamp;

const DOING: &str = "claim jobs";

/// How many jobs one call may take: Lua's stack holds 8,000 values, and a script passes up to two per job at once.
const CLAIM_JOBS: usize = 1000;

/// How many unique values are looked at in one command.
const VALUES: usize = 1000;

/// [`Priority::TURNS`] as the script takes it: 1 for the first of [`Priority::ALL`] and so on.
static TURNS: LazyLock<String> = LazyLock::new(|| {
    let place = |turn| Priority::ALL.iter().position(|priority| *priority == turn).unwrap_or_default() + 1;
    Priority::TURNS.into_iter().map(|turn| place(turn).to_string()).collect()
});

/// What is known of a running job besides its stored form.
pub(in crate::redis) struct Running {
    pub(in crate::redis) lease: Lease,
    pub(in crate::redis) attempt: u32,
    pub(in crate::redis) claimed_at: Timestamp,
    pub(in crate::redis) lease_until: Timestamp,
}

/// A job that cannot be read, and why.
pub(in crate::redis) struct Broken {
    pub(in crate::redis) lease: Lease,
    problem: String,
}

impl Partition {
    /// Brings about this many bytes of jobs at most, but at least one job.
    pub(in crate::redis) async fn claim(
        &self,
        worker: &WorkerId,
        from: &[ClaimFrom],
        bytes: usize,
    ) -> Result<Claimed, StoreError> {
        let mut parts = Vec::new();
        for (tenant, lines) in by_tenant(from, |line| &line.topic.tenant) {
            let keys = self.keys(tenant);
            let cut = bounded(lines.into_iter().map(|(_, line)| line)).into_iter();
            parts.extend(cut.map(|part| (keys.clone(), self.next_batch(), part)));
        }
        let bytes = bytes / parts.len().max(1);
        let call = |(keys, batch, part): &(Keys, u64, Vec<_>)| {
            self.claim_call(keys, Holder { worker, batch: *batch }, part, bytes)
        };
        let calls = parts.iter().map(call).collect();
        let (mut claimed, mut broken, mut drained) = (Claimed::default(), Vec::new(), BTreeSet::new());
        for ((keys, batch, part), reply) in parts.iter().zip(self.link.run_each(DOING, calls).await?) {
            let holder = Holder { worker, batch: *batch };
            let mut read = |reply| read(reply, holder, part, &mut claimed, &mut broken, &mut drained);
            let refused = match reply.and_then(|reply| read(reply).map_err(self.misread(DOING))) {
                Ok(refused) => self.refused_topics((keys, holder, part), refused).await,
                // A tenant's call fails as a whole.
                Err(error) => self.refused_whole(part, error),
            };
            claimed.refused.extend(refused);
        }
        claimed.drained = drained.into_iter().cloned().collect();
        if let Err(error) = self.bury_broken(broken, None).await {
            let error = anyhow::Error::from(error);
            tracing::error!("failed to bury jobs that cannot be read, their leases bring them back: {error:#}");
        }
        Ok(claimed)
    }

    /// The reasons of a script, which name no key where it found one of another type.
    async fn refused_topics(
        &self,
        (keys, holder, part): (&Keys, Holder<'_>, &[ClaimFrom]),
        refused: Vec<(TopicId, String)>,
    ) -> Vec<(TopicId, StoreError)> {
        let mut errors = Vec::with_capacity(refused.len());
        for (topic, mut problem) in refused {
            if problem.contains("WRONGTYPE") {
                let lines: Vec<ClaimFrom> = part.iter().filter(|line| line.topic == topic).cloned().collect();
                let call = self.claim_call(keys, holder, &lines, 0);
                problem = self.link.wrong_key(DOING, &self.prefix, &call).await.unwrap_or(problem);
            }
            errors.push((topic, self.refused(DOING, anyhow!(problem))));
        }
        errors
    }

    /// The error of a tenant's call, for each topic of it. The tenant's server, one of a cluster, may be unavailable, which passes.
    fn refused_whole(&self, part: &[ClaimFrom], error: StoreError) -> Vec<(TopicId, StoreError)> {
        let is_unavailable = error.is_unavailable();
        let problem = match error {
            StoreError::Unavailable { source, .. } => format!("{source:#}"),
            error => format!("{:#}", anyhow::Error::from(error)),
        };
        let of_topic = || match is_unavailable {
            true => StoreError::Unavailable { store: self.link.address.clone(), source: anyhow!(problem.clone()) },
            false => self.refused(DOING, anyhow!(problem.clone())),
        };
        part.iter().map(|line| (line.topic.clone(), of_topic())).collect()
    }
}

impl Partition {
    pub(in crate::redis) fn claim_call(
        &self,
        keys: &Keys,
        holder: Holder<'_>,
        part: &[ClaimFrom],
        bytes: usize,
    ) -> Call {
        let lease = part.first().map_or(0, |line| wait_ms(line.lease));
        let mut names = vec![
            keys.processing(holder),
            keys.jobs(),
            keys.claims(),
            keys.leases(),
            keys.active(),
            keys.failures(),
            keys.checkpoints(),
            keys.counts(),
            keys.priorities(),
            keys.paused(),
            keys.turns(),
            keys.topics(),
            keys.large(),
            keys.limited(),
            keys.rates(),
            keys.due(),
            keys.per_key(),
            keys.tenant(),
            keys.key_rates(),
            keys.keyed(),
            keys.slots(),
        ];
        for topic in part.iter().map(|line| &line.topic.topic) {
            names.extend(Priority::ALL.map(|priority| keys.ready(priority, topic)));
            names.extend([keys.delayed(topic), keys.dead(topic), keys.strays(topic), keys.waiters(topic)]);
        }
        names.push(keys.raw());
        let mut call = Call::new(
            script!("signals/waiters.lua", "path/claim/plain_claim.lua", "signals/wake.lua"; "path/claim/adopt.lua", "keys/key_rates.lua", "path/claim/turns.lua", "limits/limits.lua", "path/claim/claim.lua"),
            &names,
        );
        call.arg(self.now_argument()).arg(holder.text()).arg(&*TURNS).arg(bytes).arg(lease).arg(keys.wake_channel());
        for line in part {
            call.arg(line.topic.topic.as_str()).arg(line.max).arg(limits_argument(line.limits));
        }
        let raw = part.iter().filter(|line| line.raw_producers).map(|line| line.topic.topic.as_str());
        call.arg(raw.fold(String::from(" "), |names, name| names + name + " "));
        call.arg(tenant_limits_argument(part));
        let is_woken = self.woken.lock().contains(holder.worker);
        call.arg(if is_woken { key_names::runner_channel(&self.prefix, holder.worker) } else { String::new() });
        call
    }

    /// Gives up jobs that cannot be read, so that no other job waits for them and an operator can see them among the dead.
    pub(in crate::redis) async fn bury_broken(
        &self,
        broken: Vec<Broken>,
        overdue: Option<Duration>,
    ) -> Result<(), StoreError> {
        let mut settlements: Vec<_> = broken.into_iter().map(|broken| broken.settlement(overdue)).collect();
        for settlement in &mut settlements {
            settlement.unique = self.value_held_by(&settlement.lease).await?;
        }
        if !settlements.is_empty() {
            let map = PartitionMap::default();
            self.settle(&settlements, (&map, map.now())).await?;
        }
        Ok(())
    }
}

impl Partition {
    /// The unique value that a job holds until it is over, looked up among all of its topic: the job itself cannot be read.
    async fn value_held_by(&self, lease: &Lease) -> Result<Option<String>, StoreError> {
        let key = self.keys(&lease.topic.tenant).unique(&lease.topic.topic);
        let mut cursor = 0;
        loop {
            let mut scan = redis::pipe();
            scan.cmd("HSCAN").arg(&key).arg(cursor).arg("COUNT").arg(VALUES);
            let ((next, holders),): ((u64, Vec<(String, String)>),) = self.link.query(DOING, &scan).await?;
            if let Some((value, _)) = holders.into_iter().find(|(_, holder)| holder == lease.job.as_str()) {
                return Ok(Some(value));
            }
            cursor = next;
            if cursor == 0 {
                return Ok(None);
            }
        }
    }
}

impl Broken {
    fn settlement(self, overdue: Option<Duration>) -> Settlement {
        let Self { lease, problem } = self;
        tracing::warn!(topic = %lease.topic, job = %lease.job, %problem, "buried a job that cannot be read");
        let failure = Failure::unreadable(problem);
        Settlement { only_if_overdue: overdue, ..Settlement::new(lease, Verdict::Bury(failure)) }
    }
}

impl Running {
    /// Joins what is known with what is stored. `failure` and `checkpoint` are empty if there is none.
    pub(in crate::redis) fn claim(self, stored: Vec<u8>, failure: &[u8], checkpoint: Vec<u8>) -> Result<Claim, Broken> {
        let Self { lease, attempt, claimed_at, lease_until } = self;
        match envelope::read_from(&lease.topic, lease.job.clone(), stored) {
            Ok(job) => Ok(Claim {
                job: Arc::new(job),
                lease,
                attempt,
                claimed_at,
                lease_until,
                previous: read_failure(failure).map(|failure| failure.reason),
                checkpoint: Some(checkpoint).filter(|state| !state.is_empty()),
            }),
            Err(problem) => Err(Broken { lease, problem: problem.to_string() }),
        }
    }
}

/// Cuts the lines of a claim into calls of at most [`CLAIM_JOBS`] jobs each; a large line is spread over several. All jobs of a
/// call have one lease, hence one length.
fn bounded<'a>(lines: impl Iterator<Item = &'a ClaimFrom>) -> Vec<Vec<ClaimFrom>> {
    let mut parts: Vec<(usize, Vec<ClaimFrom>)> = Vec::new();
    for line in lines {
        let mut remaining = line.max;
        while remaining > 0 {
            let fits = |(room, part): &(usize, Vec<ClaimFrom>)| {
                *room > 0 && part.first().is_some_and(|first| first.lease == line.lease)
            };
            let position = parts.iter().rposition(fits).unwrap_or_else(|| {
                parts.push((CLAIM_JOBS, Vec::new()));
                parts.len() - 1
            });
            let Some((room, part)) = parts.get_mut(position) else { break };
            let max = remaining.min(*room);
            part.push(ClaimFrom { max, ..line.clone() });
            (remaining, *room) = (remaining - max, *room - max);
        }
    }
    parts.into_iter().map(|(_, part)| part).collect()
}

/// Reads what `claim.lua` answered. Returns the topics that it refused, each with the reason.
fn read<'a>(
    reply: Value,
    Holder { worker, batch }: Holder<'_>,
    part: &'a [ClaimFrom],
    claimed: &mut Claimed,
    broken: &mut Vec<Broken>,
    drained: &mut BTreeSet<&'a TopicId>,
) -> RedisResult<Vec<(TopicId, String)>> {
    let mut reply = Reply::new(reply)?;
    let now = Timestamp::from_millis(reply.number()?);
    let (mut empty, mut strays) = (reply.array()?, reply.array()?);
    let ids = reply.text()?;
    let (mut stored, mut runs, mut before) = (reply.array()?, reply.array()?, reply.array()?);
    let mut ids = ids.split_terminator(' ');
    if ids.clone().count() != stored.len() {
        return Err(unexpected("claim.lua answered with ids and jobs of different numbers"));
    }
    let (mut why, mut refused) = (reply.array()?, Vec::new());
    while !why.is_empty() {
        refused.push((line_at(part, why.number()?)?.topic.clone(), why.text()?));
    }
    while !empty.is_empty() {
        drained.insert(&line_at(part, empty.number()?)?.topic);
    }
    while !strays.is_empty() {
        let topic = &line_at(part, strays.number()?)?.topic;
        tracing::warn!(%topic, "set an element of the ready list aside whose job is missing, running, delayed or dead; see the topic's `strays`");
        claimed.strays += 1;
    }
    let mut next_history = JobHistory::next(&mut before)?;
    let mut position = 0;
    while !runs.is_empty() {
        let (line, jobs) = (line_at(part, runs.number()?)?, runs.number()?);
        for _ in 0..jobs {
            position += 1;
            let history = if next_history.position == position {
                std::mem::replace(&mut next_history, JobHistory::next(&mut before)?)
            } else {
                JobHistory::default()
            };
            let (job, topic) = (job_id(ids.next().unwrap_or_default())?, line.topic.clone());
            let lease = Lease { job, topic, worker: worker.clone(), delivery: history.delivery, batch: Some(batch) };
            let lease_until = now.plus(Duration::from_millis(wait_ms(line.lease)));
            let running = Running { lease, attempt: history.attempt, claimed_at: now, lease_until };
            match running.claim(stored.bytes()?, &history.failure, history.checkpoint) {
                Ok(claim) => claimed.claims.push(claim),
                Err(unreadable) => broken.push(unreadable),
            }
        }
    }
    Ok(refused)
}

/// What a claim says of a job that was claimed before. By default: of one that was not.
struct JobHistory {
    /// Of the job in the reply, counted from 1; 0 is none.
    position: u64,
    delivery: u64,
    attempt: u32,
    failure: Vec<u8>,
    checkpoint: Vec<u8>,
}

impl Default for JobHistory {
    fn default() -> Self {
        Self { position: 0, delivery: 1, attempt: 1, failure: Vec::new(), checkpoint: Vec::new() }
    }
}

impl JobHistory {
    /// The next one in the reply, if there is one.
    fn next(reply: &mut Reply) -> RedisResult<Self> {
        if reply.is_empty() {
            return Ok(Self::default());
        }
        let (position, delivery, attempt) = (reply.number()?, reply.number()?, attempt(reply.number()?));
        Ok(Self { position, delivery, attempt, failure: reply.bytes()?, checkpoint: reply.bytes()? })
    }
}

/// The entry of a claim by its place in the call, counted from 1.
fn line_at(part: &[ClaimFrom], number: u64) -> RedisResult<&ClaimFrom> {
    let number = usize::try_from(number).unwrap_or(usize::MAX);
    part.get(number.wrapping_sub(1)).ok_or_else(|| unexpected("claim.lua named a topic that was not asked for"))
}

pub(in crate::redis) fn job_id(text: &str) -> RedisResult<JobId> {
    text.parse().map_err(|_| unexpected("the id of a stored job is no job id"))
}

pub(in crate::redis) fn attempt(number: u64) -> u32 {
    u32::try_from(number).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_are_bounded_and_large_lines_spread() {
        let line = |max| ClaimFrom::new("a".parse().unwrap(), max, Duration::from_secs(1));
        let sizes = |lines: &[ClaimFrom]| -> Vec<Vec<usize>> {
            bounded(lines.iter()).iter().map(|part| part.iter().map(|line| line.max).collect()).collect()
        };
        assert_eq!(sizes(&[line(0)]), Vec::<Vec<usize>>::new());
        assert_eq!(sizes(&[line(10), line(990)]), [vec![10, 990]]);
        assert_eq!(sizes(&[line(10), line(991)]), [vec![10, 990], vec![1]]);
        assert_eq!(sizes(&[line(2500)]), [vec![1000], vec![1000], vec![500]]);
        let longer = ClaimFrom { lease: Duration::from_secs(2), ..line(20) };
        assert_eq!(sizes(&[line(10), longer, line(30)]), [vec![10, 30], vec![20]], "a lease for each call");
    }
}
