//! Heartbeats, and the running jobs that no worker runs any more.

use std::collections::HashSet;
use std::time::{Duration, Instant};

use redis::{RedisResult, Value, from_redis_value, pipe};

use super::claim::{Broken, Running, attempt, job_id};
use crate::batch::CLAIM_BYTES;
use crate::clock::wait_ms;
use crate::clock_step::ClockStep;
use crate::redis::clock::{self, Reading, TimeReply};
use crate::redis::connection::error::unexpected;
use crate::redis::envelope;
use crate::redis::holder::{Holder, read_holder};
use crate::redis::key_names::{Keys, workers};
use crate::redis::script::reply::Reply;
use crate::redis::script::{Call, script};
use crate::redis::store::{Partition, Server};
use crate::weight::Weigh;
use crate::{Heartbeat, Overdue, OverdueJobs, StoreError};
use gristmill_core::job::{Lease, Name, WorkerId};
use gristmill_core::time::Timestamp;

/// For how long a dead worker is remembered. Its jobs are taken back long before; should a tenant have had no runner
/// that looks for them in all that time, their leases run out and bring them back.
const FORGOTTEN_AFTER: Duration = Duration::from_secs(3600);

const OVERDUE: &str = "look for overdue jobs";

/// How many jobs of a tenant are found at once, at most: each costs the script five commands.
const JOBS: usize = 1000;

/// How many claims one call of the script looks at.
const SUSPECTS: usize = 500;

/// For how long further claims of a tenant are looked at. What is left then comes with the next look: each claim that was looked at
/// had overdue jobs, or need not be looked at again soon.
const LOOK_FOR: Duration = Duration::from_secs(1);

impl Server {
    /// Two plain commands: a heartbeat that is a little older than its writing is dead a little earlier, never later.
    ///
    /// A server whose memory is full refuses them. A worker must not count as dead for that, so then a script does it.
    ///
    /// Returns the step if the server's clock was set. Then no heartbeat was written: the server counts as unavailable once, so that workers
    /// are not judged by the times before.
    pub(in crate::redis) async fn heartbeat(&self, worker: &WorkerId) -> Result<Option<ClockStep>, StoreError> {
        const DOING: &str = "write a heartbeat";
        let asked = self.clock.passed();
        let mut look = pipe();
        look.cmd("TIME").cmd("ZRANGE").arg(workers(&self.prefix)).arg(-1).arg(-1).arg("WITHSCORES");
        let (time, last): (TimeReply, Vec<(String, u64)>) = self.link.query(DOING, &look).await?;
        let now = self.now(time);
        let reading = Reading { server: self.exact(time), asked, answered: self.clock.passed() };
        // A process that has just begun goes by what others have written.
        let written = last.first().map(|(_, at)| ClockStep { from: Timestamp::from_millis(*at), to: now });
        let written = written.filter(|step| step.back() > clock::STEP);
        let now = now.as_millis();
        if let Some(step) = self.clock_watch.step(reading).or(written) {
            self.lower_heartbeats(DOING, now).await?;
            return Ok(Some(step));
        }
        let mut beat = pipe();
        beat.cmd("ZADD").arg(workers(&self.prefix)).arg("GT").arg(now).arg(worker.as_str());
        if let Err(error) = self.check_id().await
            && error.is_unavailable()
        {
            return Err(error);
        }
        match self.link.query::<Value>(DOING, &beat).await {
            Err(StoreError::Full { .. }) => {
                let mut call = Call::new(script!("path/reap/heartbeat.lua"), &[workers(&self.prefix)]);
                call.arg(self.now_argument()).arg(worker.as_str());
                self.link.run(DOING, vec![call]).await.map(drop)
            }
            answer => answer.map(drop),
        }?;
        Ok(None)
    }

    pub(in crate::redis) async fn heartbeats(&self) -> Result<Vec<Heartbeat>, StoreError> {
        let mut look = pipe();
        look.cmd("ZRANGE").arg(workers(&self.prefix)).arg(-1000).arg(-1).arg("WITHSCORES").cmd("TIME");
        let (found, time): (Vec<(String, u64)>, TimeReply) = self.link.query("list workers", &look).await?;
        let now = self.now(time);
        let read = |(worker, at): (String, u64)| {
            let at = Timestamp::from_millis(at);
            Heartbeat { worker: WorkerId::new(&worker), at, silent_for: now.since(at) }
        };
        let mut found: Vec<_> = found.into_iter().map(read).collect();
        found.sort_by(|one, other| one.worker.cmp(&other.worker));
        Ok(found)
    }

    pub(in crate::redis) async fn retire(&self, worker: &WorkerId) -> Result<(), StoreError> {
        let mut forget = pipe();
        forget.cmd("ZREM").arg(workers(&self.prefix)).arg(worker.as_str());
        self.link.query::<Value>("forget a worker", &forget).await.map(drop)
    }

    /// The workers that have been silent for `dead_after`, the latest first, at most 1,000.
    pub(in crate::redis) async fn silent_workers(
        &self,
        doing: &'static str,
        dead_after: Duration,
    ) -> Result<Vec<WorkerId>, StoreError> {
        let mut call = Call::new(script!("path/reap/silent_workers.lua"), &[workers(&self.prefix)]);
        call.arg(self.now_argument()).arg(wait_ms(dead_after)).arg(wait_ms(FORGOTTEN_AFTER));
        let (mut reply, mut dead) = (self.reply(doing, call).await?, Vec::new());
        while !reply.is_empty() {
            dead.push(WorkerId::new(&reply.text().map_err(self.misread(doing))?));
        }
        Ok(dead)
    }

    /// Lowers heartbeats that are later than now: until then a dead worker would count as alive.
    async fn lower_heartbeats(&self, doing: &'static str, now: u64) -> Result<(), StoreError> {
        let mut look = pipe();
        look.cmd("ZRANGEBYSCORE").arg(workers(&self.prefix)).arg(format!("({now}")).arg("+inf");
        let (ahead,): (Vec<String>,) = self.link.query(doing, &look).await?;
        if ahead.is_empty() {
            return Ok(());
        }
        let mut lower = pipe();
        for worker in ahead {
            lower.cmd("ZADD").arg(workers(&self.prefix)).arg("XX").arg(now).arg(worker).ignore();
        }
        self.link.query(doing, &lower).await
    }
}

impl Partition {
    /// One command for 256 tenants without running jobs. Two for each of the others and two more where nothing is overdue, all in
    /// one round trip; the scripts run only if something may be.
    pub(in crate::redis) async fn overdue(
        &self,
        tenants: &[Name],
        dead_after: Duration,
        limit: usize,
    ) -> Result<OverdueJobs, StoreError> {
        let names: Vec<&Name> = tenants.iter().collect();
        let may_run =
            self.may_have(OVERDUE, &names, &self.running, |keys| [keys.leases(), keys.extended()]).await?.into_iter();
        let tenants: Vec<&Name> =
            names.into_iter().zip(may_run).filter_map(|(name, may_run)| may_run.then_some(name)).collect();
        if tenants.is_empty() {
            return Ok(OverdueJobs { none_run: true, ..OverdueJobs::default() });
        }
        let mut look = pipe();
        let leases = tenants.iter().map(|tenant| self.keys(tenant)).flat_map(|keys| [keys.leases(), keys.extended()]);
        for key in leases.chain([workers(&self.prefix)]) {
            look.cmd("ZRANGE").arg(key).arg(0).arg(0).arg("WITHSCORES");
        }
        look.cmd("TIME");
        let mut answers = self.link.query_each(OVERDUE, look).await?;
        let time = answers.pop().unwrap_or(Ok(Value::Nil)).and_then(|time| Ok(from_redis_value(time)?));
        let now = self.now(time.map_err(self.misread(OVERDUE))?);
        type Head = Vec<(String, u64)>;
        let read_head = |head: RedisResult<Value>| {
            head.and_then(|head| Ok(from_redis_value::<Head>(head)?)).map_err(self.misread(OVERDUE))
        };
        let passed =
            |head: &Head, wait| head.first().is_some_and(|(_, at)| Timestamp::from_millis(*at).plus(wait) <= now);
        let worker_died = passed(&read_head(answers.pop().unwrap_or(Ok(Value::Nil)))?, dead_after);
        let dead = if worker_died { self.silent_workers(OVERDUE, dead_after).await? } else { Vec::new() };

        let mut found = OverdueJobs { none_run: true, ..OverdueJobs::default() };
        let mut answers = answers.into_iter();
        for tenant in tenants {
            let left = limit.saturating_sub(found.jobs.len());
            // Both, also behind an error: the next ones are the next tenant's.
            let own: Vec<_> = answers.by_ref().take(2).map(read_head).collect();
            let heads = own.into_iter().collect::<Result<Vec<Head>, _>>();
            let none_run = heads.as_ref().is_ok_and(|heads| heads.iter().all(Vec::is_empty));
            self.running.note(tenant, heads.is_ok() && !none_run);
            found.none_run &= none_run;
            let jobs = match heads {
                Ok(_) if left == 0 || none_run => continue,
                Ok(heads) if !worker_died && !heads.iter().any(|head| passed(head, Duration::ZERO)) => continue,
                Ok(_) => self.overdue_of(tenant, &dead, dead_after, (left, now)).await,
                Err(error) => Err(error),
            };
            match jobs {
                Ok(jobs) => found.jobs.extend(jobs),
                // In a cluster, the other tenants' servers may answer.
                Err(error) if error.is_unavailable() && !self.link.is_cluster() => return Err(error),
                Err(error) => found.refused.push((tenant.clone(), error)),
            }
        }
        Ok(found)
    }
}

impl Partition {
    async fn overdue_of(
        &self,
        tenant: &Name,
        dead: &[WorkerId],
        dead_after: Duration,
        (limit, now): (usize, Timestamp),
    ) -> Result<Vec<Overdue>, StoreError> {
        let keys = self.keys(tenant);
        let holders = self.holders(OVERDUE, &keys).await?;
        let suspect = |(text, end): &(String, u64)| {
            let (worker, batch) = read_holder(text)?;
            let died = dead.iter().any(|dead| dead.as_str() == worker);
            (died || Timestamp::from_millis(*end) <= now).then(|| (WorkerId::new(worker), batch, died))
        };
        let suspects: Vec<_> = holders.iter().filter_map(suspect).collect();
        let (begun, mut overdue, mut known) = (Instant::now(), Vec::new(), HashSet::new());
        let (mut left, mut bytes) = (limit.min(JOBS), CLAIM_BYTES);
        let mut parts = suspects.chunks(SUSPECTS);
        // Without a claim to look at there may be jobs whose own leases have ended.
        let mut next = Some(parts.next().unwrap_or_default());
        while let Some(part) = next.filter(|_| left > 0 && bytes > 0) {
            let mut found = self.overdue_among(tenant, &keys, part, (left, bytes), dead_after).await?;
            found.retain(|found| known.insert(found.claim.lease.job.clone()));
            left = left.saturating_sub(found.len());
            bytes = found.iter().fold(bytes, |bytes, found| bytes.saturating_sub(found.claim.weight()));
            overdue.extend(found);
            next = parts.next().filter(|_| begun.elapsed() < LOOK_FOR);
        }
        Ok(overdue)
    }

    /// Looks at some claims, and at the jobs whose own leases have ended: for at most this many jobs and bytes of them.
    async fn overdue_among(
        &self,
        tenant: &Name,
        keys: &Keys,
        suspects: &[(WorkerId, u64, bool)],
        (jobs, bytes): (usize, usize),
        dead_after: Duration,
    ) -> Result<Vec<Overdue>, StoreError> {
        let mut names =
            vec![keys.leases(), keys.jobs(), keys.claims(), keys.failures(), keys.checkpoints(), keys.extended()];
        names.extend(suspects.iter().map(|(worker, batch, _)| keys.processing(Holder { worker, batch: *batch })));
        let mut call = Call::new(script!("path/reap/overdue.lua"), &names);
        call.arg(self.now_argument()).arg(jobs).arg(bytes);
        for (worker, batch, died) in suspects {
            call.arg(Holder { worker, batch: *batch }.text()).arg(u8::from(*died));
        }
        let mut broken = Vec::new();
        let overdue = read(self.reply(OVERDUE, call).await?, tenant, &mut broken).map_err(self.misread(OVERDUE))?;
        self.bury_broken(broken, Some(dead_after)).await?;
        Ok(overdue)
    }
}

fn read(mut reply: Reply, tenant: &Name, broken: &mut Vec<Broken>) -> RedisResult<Vec<Overdue>> {
    let now = Timestamp::from_millis(reply.number()?);
    // When an overdue attempt was claimed is not kept; `now` stands in for it.
    let (mut jobs, mut overdue) = (reply.array()?, Vec::new());
    while !jobs.is_empty() {
        let (id, stored) = (job_id(&jobs.text()?)?, jobs.bytes()?);
        let (delivery, attempt) = (jobs.number()?, attempt(jobs.number()?));
        let holder = jobs.text()?;
        let (worker, batch) = read_holder(&holder).ok_or_else(|| unexpected("a holder is none"))?;
        let lease_until = Timestamp::from_millis(jobs.number()?);
        let worker_died = jobs.number()? == 1;
        let (failure, checkpoint) = (jobs.bytes()?, jobs.bytes()?);

        let topic = envelope::topic(tenant, &stored).map_err(|_| unexpected("a topic's name is no name"))?;
        let lease = Lease { job: id, topic, worker: WorkerId::new(worker), delivery, batch: Some(batch) };
        let running = Running { lease, attempt, claimed_at: now, lease_until };
        match running.claim(stored, &failure, checkpoint) {
            Ok(claim) => overdue.push(Overdue { claim, worker_died }),
            Err(unreadable) => broken.push(unreadable),
        }
    }
    Ok(overdue)
}
