//! Follow-up jobs that belong in another partition than the job that enqueued them. No script sees both. So the script that settles
//! the attempt writes them to the outbox of its partition, in the same step; then they are pushed, and leave the outbox. What a
//! process could not push that died at this moment, the polls of others push.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use futures_util::future::join_all;
use redis::{Value, pipe};

use super::{Partition, PartitionMap, RedisStore};
use crate::clock::wait_ms;
use crate::composite::{Asking, CompositeStore};
use crate::redis::envelope;
use crate::redis::store::SCRIPT_JOBS;
use crate::{PollTenant, Push, Pushed, Settled, Settlement, StoreError};
use gristmill_core::job::{Due, JobId, Name, NewJob, NoLink};
use gristmill_core::time::Timestamp;

const DOING: &str = "push follow-up jobs";

/// How often a process looks into the outboxes of others.
const LOOK_EVERY: Duration = Duration::from_secs(10);

/// A process that wrote a follow-up to an outbox longer ago than this does not push it any more.
const OVERDUE_AFTER: Duration = Duration::from_secs(30);

/// About how many follow-ups of a partition are looked at once.
const ENTRIES: usize = 100;

impl RedisStore {
    /// Pushes the follow-ups of these settlements that are in outboxes. Those for which that fails stay there.
    pub(super) async fn send_follow_ups(
        &self,
        (map, now): (&PartitionMap, Timestamp),
        settlements: &[Settlement],
        answers: &[Settled],
    ) {
        let mut outboxes: BTreeMap<(u32, &Name), Vec<NewJob>> = BTreeMap::new();
        for (settlement, answer) in settlements.iter().zip(answers) {
            let number = map.of_lease(&settlement.lease);
            let others =
                settlement.visible_follow_ups().iter().filter(|job| map.of_follow_up(&job.spec, number, now) != number);
            if *answer == Settled::Done {
                let outbox = (number, &settlement.lease.topic.tenant);
                others.for_each(|job| outboxes.entry(outbox).or_default().push(job.clone()));
            }
        }
        let sent = outboxes.into_iter().map(|((number, tenant), jobs)| self.send(self.partition(number), tenant, jobs));
        join_all(sent).await.into_iter().for_each(log_unsent);
    }

    /// Pushes what processes that have died left in outboxes of these tenants.
    pub(super) async fn empty_outboxes(&self, map: &PartitionMap, tenants: &[PollTenant]) {
        let is_due = |last: &mut Option<Instant>| {
            let is_due = last.is_none_or(|last| last.elapsed() >= LOOK_EVERY);
            if is_due {
                *last = Some(Instant::now());
            }
            is_due
        };
        if map.is_plain() || !is_due(&mut self.partitions.0.outboxes_read_at.lock()) {
            return;
        }
        for tenant in tenants.iter().map(|polled| &polled.tenant).filter(|tenant| map.of_tenant(tenant) > 1) {
            let ask = |partition: Partition| async move {
                let jobs = partition.overdue_follow_ups(tenant).await?;
                self.send_overdue(partition, tenant, jobs).await
            };
            log_unsent(self.ask(Asking::News, tenant, ask).await.map(drop));
        }
    }

    /// Pushes follow-ups that processes have left, unless another process that has found them does so. Else a job that one has pushed, and that is done
    /// by now, would be pushed again by the other.
    pub(in crate::redis) async fn send_overdue(
        &self,
        from: Partition,
        tenant: &Name,
        jobs: Vec<NewJob>,
    ) -> Result<(), StoreError> {
        if jobs.is_empty() || !from.begin_sending(tenant).await? {
            return Ok(());
        }
        self.send(from, tenant, jobs).await
    }

    /// Pushes follow-ups, and takes them out of the partition's outbox.
    async fn send(&self, from: Partition, tenant: &Name, jobs: Vec<NewJob>) -> Result<(), StoreError> {
        let key = from.keys(tenant).outbox();
        for jobs in jobs.chunks(SCRIPT_JOBS) {
            let pushed = self.push(jobs).await?;
            let mut sent = pipe();
            sent.cmd("HDEL").arg(&key).arg("");
            for (job, pushed) in jobs.iter().zip(pushed) {
                if let Pushed::Refused(no) = pushed {
                    self.send_refused(job, no).await?;
                }
                sent.arg(job.spec.id.as_str());
            }
            self.server.link.query::<Value>(DOING, &sent).await?;
        }
        Ok(())
    }
}

impl RedisStore {
    /// Pushes a follow-up that was refused. The attempt has ended, so what it cannot wait for counts as ended, as unknown. What it was to wait for may
    /// have been refused before it, and be stored by now.
    async fn send_refused(&self, job: &NewJob, no: NoLink) -> Result<(), StoreError> {
        let again = self.push(std::slice::from_ref(job)).await?;
        if matches!(again[..], [Pushed::Refused(_)]) {
            let (tenant, id) = (&job.spec.topic.tenant, &job.spec.id);
            tracing::warn!(%tenant, job = %id, "a follow-up job cannot wait as its handler asked: {no}");
            let map = self.map().await?;
            let partition = self.partition(map.of_job(&job.spec, map.now()));
            partition.push_followers(std::slice::from_ref(job)).await?;
        }
        Ok(())
    }
}

impl Partition {
    /// Whether this is the process that pushes what is in the outbox for long; for a time no other one is.
    async fn begin_sending(&self, tenant: &Name) -> Result<bool, StoreError> {
        let mut begin = pipe();
        let key = self.keys(tenant).outbox_sender();
        begin.cmd("SET").arg(key).arg("").arg("NX").arg("PX").arg(wait_ms(OVERDUE_AFTER));
        let (begun,): (Value,) = self.link.query(DOING, &begin).await?;
        Ok(begun != Value::Nil)
    }

    pub(in crate::redis) async fn overdue_follow_ups(&self, tenant: &Name) -> Result<Vec<NewJob>, StoreError> {
        type Entries = (u64, Vec<(String, Vec<u8>)>);
        let mut look = pipe();
        look.cmd("HSCAN").arg(self.keys(tenant).outbox()).arg(0).arg("COUNT").arg(ENTRIES).cmd("TIME");
        let ((_, entries), time): (Entries, _) = self.link.query(DOING, &look).await?;
        let now = self.now(time);
        let mut jobs = Vec::new();
        for (id, stored) in entries {
            let Ok(id) = id.parse::<JobId>() else { continue };
            match envelope::read(tenant, id, &stored) {
                Ok(job) if now.since(job.enqueued_at) < OVERDUE_AFTER => {}
                Ok(job) => jobs.push(NewJob { due: Due::At(job.due_at), spec: job.spec }),
                Err(problem) => tracing::error!(%tenant, "a follow-up job in the outbox cannot be read: {problem}"),
            }
        }
        Ok(jobs)
    }
}

fn log_unsent(sent: Result<(), StoreError>) {
    if let Err(error) = sent {
        let seconds = OVERDUE_AFTER.as_secs();
        tracing::warn!(
            "failed to push follow-up jobs, which are tried again after {seconds} s: {:#}",
            anyhow::Error::from(error)
        );
    }
}
