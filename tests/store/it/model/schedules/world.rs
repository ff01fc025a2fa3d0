//! A store and the plain model of its schedules, to which the same happens.

use std::collections::VecDeque;
use std::time::Duration;

use gristmill_core::job::{Claim, JobId, Payload, TopicId, WorkerId};
use gristmill_core::outcome::{Failure, FailureDetail, Reason, Settled, Verdict};
use gristmill_core::schedule::{FiringResult, Schedule, ScheduleId};
use gristmill_store::{ClaimFrom, ScheduleChange, ScheduleChanged, Settlement, StateFilter, StoredSchedule};
use gristmill_store_tests::test_store::{Kind, TestStore, poll};

use super::super::operations::Ms;
use super::super::side::{Difference, same};
use super::operations::{Operation, SCHEDULES};
use super::plain::{Fired, Named};

/// Longer than all that passes in a sequence.
const LEASE: Duration = Duration::from_secs(30 * 24 * 3600);

pub(super) struct World {
    queue: TestStore,
    schedules: [Named; SCHEDULES],
    topic: TopicId,
    worker: WorkerId,
    claims: Vec<Claim>,
    /// How many jobs were made by hand.
    runs: usize,
}

impl World {
    pub(super) async fn new(kind: Kind) -> Self {
        let (queue, topic) = (TestStore::new(kind).await, "mail".parse().unwrap());
        Self { queue, schedules: Default::default(), topic, worker: WorkerId::new("w"), claims: Vec::new(), runs: 0 }
    }

    /// Does the same to both, and holds the answers and all that can be seen against each other.
    pub(super) async fn step(&mut self, operation: &Operation) -> Result<(), Difference> {
        let now = self.now();
        match operation {
            Operation::Put { schedule, every, missed, overlap } => {
                let body = Payload { data: name(*schedule).into_bytes(), content_type: None };
                let (every_ms, missed, overlap) = (*every, *missed, *overlap);
                let every = Some(Duration::from_millis(every_ms));
                let put = Schedule { every, missed, overlap, body, ..Schedule::default() };
                let expected = self.schedules[*schedule].put(now, every_ms, missed, overlap);
                self.change(*schedule, ScheduleChange::Put(Box::new(put)), expected).await?;
            }
            Operation::Pause { schedule, paused } => {
                let change = if *paused { ScheduleChange::Pause } else { ScheduleChange::Resume };
                let expected = self.schedules[*schedule].pause(now, *paused);
                self.change(*schedule, change, expected).await?;
            }
            Operation::Run { schedule, again } => {
                let last = self.schedules[*schedule].schedule.as_ref().and_then(|found| found.last_job.clone());
                let last = last.filter(|job| *again && job.starts_with("run"));
                self.runs += usize::from(last.is_none());
                let job = last.unwrap_or_else(|| format!("run{}", self.runs));
                let expected = self.schedules[*schedule].run(now, &job);
                self.change(*schedule, ScheduleChange::Run(job.parse().unwrap()), expected).await?;
            }
            Operation::Remove { schedule } => {
                let expected = self.schedules[*schedule].remove();
                self.change(*schedule, ScheduleChange::Remove, expected).await?;
            }
            Operation::Pass(ms) => self.queue.pass(*ms),
            Operation::Migrate => {
                while self.queue.store.migrate(&self.topic.tenant, 1000).await?.fired > 0 {}
                self.schedules.iter_mut().for_each(|schedule| schedule.migrate(now));
            }
            Operation::Claim { max } => self.claim(*max).await?,
            Operation::Settle { claim, dead } => self.settle(*claim, *dead).await?,
            Operation::Reopen => self.queue.reopen().await,
        }
        self.compare().await
    }

    pub(super) async fn end(self) -> Result<(), Difference> {
        same("damage", self.queue.store.fsck().await?.findings, Vec::new())
    }

    fn now(&self) -> Ms {
        self.queue.now().as_millis()
    }

    async fn change(
        &self,
        schedule: usize,
        change: ScheduleChange,
        expected: ScheduleChanged,
    ) -> Result<(), Difference> {
        let id = ScheduleId { topic: self.topic.clone(), name: name(schedule).parse().unwrap() };
        same("changed", self.queue.store.change_schedule(&id, &change).await?, expected)
    }

    /// Which schedule's jobs go first is not promised.
    async fn claim(&mut self, max: usize) -> Result<(), Difference> {
        let from = ClaimFrom::new(self.topic.clone(), max, LEASE);
        let claimed = self.queue.store.claim(&self.worker, &[from]).await?.claims;
        let ready: usize = self.schedules.iter().map(|schedule| schedule.ready.len()).sum();
        same("jobs that are claimed", claimed.len(), ready.min(max))?;
        for claim in claimed {
            let schedule = &mut self.schedules[schedule_of(&claim.job.spec.body)];
            let first = schedule.ready.pop_front();
            same("claimed", Some(last_part(&claim.lease.job)), first.clone())?;
            schedule.running.extend(first);
            self.claims.push(claim);
        }
        Ok(())
    }

    async fn settle(&mut self, place: usize, dead: bool) -> Result<(), Difference> {
        if self.claims.is_empty() {
            return Ok(());
        }
        let claim = self.claims.remove(place % self.claims.len());
        let failure = Failure::new(Reason::Failed, FailureDetail::default());
        let verdict = if dead { Verdict::Bury(failure) } else { Verdict::Ack(None) };
        let settled = self.queue.store.settle(&[Settlement::of(&claim, verdict, Duration::ZERO)]).await?;
        let job = last_part(&claim.lease.job);
        self.schedules[schedule_of(&claim.job.spec.body)].running.retain(|running| *running != job);
        same("settled", settled, vec![Settled::Done])
    }

    async fn compare(&self) -> Result<(), Difference> {
        let (store, tenant) = (&self.queue.store, &self.topic.tenant);
        let found = store.schedules(tenant, None).await?;
        let expected: Vec<usize> =
            (0..SCHEDULES).filter(|schedule| self.schedules[*schedule].schedule.is_some()).collect();
        let names: Vec<String> = found.iter().map(|found| found.id.name.to_string()).collect();
        same("schedules", names, expected.iter().map(|schedule| name(*schedule)).collect())?;
        for (found, schedule) in found.into_iter().zip(expected) {
            self.compare_one(found, schedule)?;
        }
        let next = self.schedules.iter().filter_map(|schedule| schedule.schedule.as_ref()?.next).min();
        let next_due_in = next.map(|next| Duration::from_millis(next.saturating_sub(self.now())));
        same("next due time", poll(&**store, tenant).await.next_due_in, next_due_in)?;

        let mut ready: [VecDeque<String>; SCHEDULES] = Default::default();
        let mut after = None;
        loop {
            let page = store.jobs(&self.topic, StateFilter::Ready, after.as_ref(), 1000).await?;
            for job in page.jobs.into_iter().filter_map(|view| view.job) {
                ready[schedule_of(&job.spec.body)].push_back(last_part(&job.spec.id));
            }
            after = page.next;
            if after.is_none() {
                break;
            }
        }
        for (ready, schedule) in ready.into_iter().zip(&self.schedules) {
            same("ready jobs", &ready, &schedule.ready)?;
        }
        Ok(())
    }

    fn compare_one(&self, found: StoredSchedule, schedule: usize) -> Result<(), Difference> {
        let Some(expected) = &self.schedules[schedule].schedule else { return Ok(()) };
        let record = found.record;
        let firings = record.firings.into_iter().map(|firing| {
            let fired = match firing.result {
                FiringResult::Job { job } => Fired::Job(last_part(&job)),
                FiringResult::Overlap { job } => Fired::Overlap(last_part(&job)),
                FiringResult::TenantFull => unreachable!("no tenant is full here"),
                FiringResult::Missed => Fired::Missed,
            };
            (firing.tick.as_millis(), fired)
        });
        same("firings", firings.collect(), expected.firings.clone())?;
        let next = record.next.map(|next| next.as_millis());
        let last_job = record.last_job.as_ref().map(last_part);
        let what = "whether it is paused, the next tick and the last job";
        same(what, (record.paused, next, last_job), (expected.paused, expected.next, expected.last_job.clone()))
    }
}

fn name(schedule: usize) -> String {
    format!("s{schedule}")
}

/// The schedule by the name in the body of its jobs.
fn schedule_of(body: &Payload) -> usize {
    (0..SCHEDULES).find(|schedule| name(*schedule).as_bytes() == body.data).unwrap()
}

/// What tells the jobs of a schedule apart: the tick, or that it was run by hand.
fn last_part(job: &JobId) -> String {
    job.as_str().rsplit('-').next().unwrap_or_default().to_owned()
}
