//! A store and the plain model of its tenants, to which the same happens.

use std::collections::BTreeSet;
use std::time::Duration;

use gristmill_core::job::{Claim, Due, JobId, JobSpec, NewJob, Payload, TopicId, WorkerId};
use gristmill_core::outcome::{Failure, FailureDetail, Reason, Settled, Verdict};
use gristmill_core::topic::{FleetLimits, Rate, TenantFleetLimits};
use gristmill_store::{Cancelled, ClaimFrom, Settlement};
use gristmill_store_tests::test_store::{Kind, TestStore, poll};

use super::super::side::{Difference, same};
use super::operations::{Ending, Operation, TENANTS, TOPICS};
use super::plain::Tenant;

/// Longer than all that passes in a sequence.
const LEASE: Duration = Duration::from_secs(30 * 24 * 3600);

/// From the first moment of a store's clock to a minute before midnight.
const TO_THE_END_OF_THE_DAY_MS: u64 = 16 * 3_600_000 - 60_000;

pub(super) struct World {
    queue: TestStore,
    tenants: [Tenant; 2],
    topics: [TopicId; TOPICS],
    worker: WorkerId,
    claims: Vec<Claim>,
    pushed: usize,
}

impl World {
    pub(super) async fn new(kind: Kind) -> Self {
        let queue = TestStore::new(kind).await;
        queue.pass(TO_THE_END_OF_THE_DAY_MS);
        let topics = ["acme/a", "acme/b", "acme/c", "other/a"].map(|topic| topic.parse().unwrap());
        let tenants = TENANTS.map(|topics| Tenant::of(topics.len()));
        Self { queue, tenants, topics, worker: WorkerId::new("w"), claims: Vec::new(), pushed: 0 }
    }

    /// Does the same to both, and whatever is due; and holds the answers and all that can be seen against each other.
    pub(super) async fn step(&mut self, operation: &Operation) -> Result<(), Difference> {
        match operation {
            Operation::Push { topic, count } => self.push(*topic, *count).await?,
            Operation::Pass(ms) => self.queue.pass(*ms),
            Operation::Limits(max_running, jobs_per_day, fuel_per_hour) => {
                let (max_running, jobs_per_day, fuel_per_hour) = (*max_running, *jobs_per_day, *fuel_per_hour);
                for tenant in &mut self.tenants {
                    tenant.limits = TenantFleetLimits { max_running, jobs_per_day, fuel_per_hour };
                }
            }
            Operation::Claim { topic, max, most, rate } => {
                let rate = rate.map(|(jobs, per, burst)| Rate { jobs, per: Duration::from_millis(per), burst });
                self.claim(*topic, *max, (*most, rate)).await?;
            }
            Operation::Settle(endings) => self.settle(endings).await?,
            Operation::Cancel { topic, count } => {
                let (tenant, of) = self.place(*topic);
                let line = &mut self.tenants[tenant].topics[of].line;
                let gone = line.split_off(line.len().saturating_sub(*count));
                let cancelled = self.queue.store.cancel(&self.topics[*topic].tenant, &gone).await?;
                same("cancelled", cancelled, vec![Cancelled::Gone; gone.len()])?;
            }
            Operation::Pause { topic, paused } => {
                let (tenant, of) = self.place(*topic);
                self.queue.store.set_paused(&self.topics[*topic], *paused).await?;
                self.tenants[tenant].topics[of].paused = *paused;
            }
            Operation::Reopen => self.queue.reopen().await,
        }
        self.migrate().await?;
        self.compare().await
    }

    pub(super) async fn end(self) -> Result<(), Difference> {
        same("damage", self.queue.store.fsck().await?.findings, Vec::new())
    }

    /// The tenant of a topic, and which of its topics it is.
    fn place(&self, topic: usize) -> (usize, usize) {
        let tenant = TENANTS.iter().position(|topics| topics.contains(&topic)).unwrap();
        (tenant, topic - TENANTS[tenant].start)
    }

    async fn push(&mut self, topic: usize, count: usize) -> Result<(), Difference> {
        let job = |number: usize| {
            let mut spec = JobSpec::new(self.topics[topic].clone(), Payload { data: Vec::new(), content_type: None });
            spec.id = format!("j{number}").parse().unwrap();
            NewJob { spec, due: Due::Now }
        };
        let jobs: Vec<NewJob> = (self.pushed..self.pushed + count).map(job).collect();
        self.pushed += count;
        self.queue.store.push(&jobs).await?;
        let (tenant, of) = self.place(topic);
        let topic = &mut self.tenants[tenant].topics[of];
        topic.held_a_job = true;
        topic.line.extend(jobs.into_iter().map(|job| job.spec.id));
        Ok(())
    }

    async fn claim(
        &mut self,
        topic: usize,
        max: usize,
        (max_running, rate): (Option<u32>, Option<Rate>),
    ) -> Result<(), Difference> {
        let (tenant, of) = self.place(topic);
        // What a claim of a topic that never held a job says counts for nothing, or not.
        if !self.tenants[tenant].topics[of].held_a_job || max == 0 {
            return Ok(());
        }
        let limits = FleetLimits { max_running, rate, tenant: self.tenants[tenant].limits, ..FleetLimits::NONE };
        let from = ClaimFrom::new(self.topics[topic].clone(), max, LEASE).within(limits);
        let claimed = self.queue.store.claim(&self.worker, &[from]).await?;
        let expected = self.tenants[tenant].claim(self.queue.now(), of, max, (max_running, rate));
        let taken: Vec<JobId> = claimed.claims.iter().map(|claim| claim.lease.job.clone()).collect();
        same("drained topics", claimed.drained.len(), usize::from(taken.len() < max))?;
        same("claims", taken, expected)?;
        self.claims.extend(claimed.claims);
        Ok(())
    }

    async fn settle(&mut self, endings: &[Ending]) -> Result<(), Difference> {
        let mut batch: Vec<Settlement> = Vec::new();
        for ending in endings {
            let place = self.claims.len().checked_sub(1 + ending.claim % self.claims.len().max(1));
            let Some(claim) = place.map(|place| self.claims[place].clone()) else { break };
            let of_topic = |other: &&Settlement| other.lease.topic == claim.lease.topic;
            let mut others = batch.iter().filter(of_topic);
            if others.clone().any(|other| other.lease.job == claim.lease.job) {
                continue;
            }
            // Which of two jobs that are put back lines up first is not promised.
            let retries = ending.retries && others.all(|other| matches!(other.verdict, Verdict::Ack(_)));
            let mut settlement = Settlement::of(&claim, verdict(retries), Duration::ZERO);
            settlement.lease.delivery += u64::from(ending.late);
            settlement.fuel = ending.fuel;
            batch.push(settlement);
        }
        let settled = self.queue.store.settle(&batch).await?;
        let expected = batch.iter().map(|settlement| self.settle_one(settlement)).collect();
        same("settled", settled, expected)
    }

    fn settle_one(&mut self, Settlement { lease, verdict, fuel, .. }: &Settlement) -> Settled {
        let topic = self.topics.iter().position(|topic| *topic == lease.topic).unwrap();
        let (tenant, of) = self.place(topic);
        let Some(place) = self.claims.iter().position(|claim| claim.lease == *lease) else { return Settled::LeaseLost };
        self.claims.remove(place);
        let retries = !matches!(verdict, Verdict::Ack(_));
        self.tenants[tenant].settle(self.queue.now(), of, &lease.job, retries, *fuel);
        Settled::Done
    }

    async fn migrate(&mut self) -> Result<(), Difference> {
        for (tenant, topics) in self.tenants.iter_mut().zip(TENANTS) {
            let name = &self.topics[topics.start].tenant;
            while self.queue.store.migrate(name, 1000).await?.moved > 0 {}
            tenant.migrate(self.queue.now());
        }
        Ok(())
    }

    async fn compare(&mut self) -> Result<(), Difference> {
        for (tenant, topics) in self.tenants.iter_mut().zip(TENANTS) {
            let names = &self.topics[topics];
            let counts = self.queue.store.counts(&names[0].tenant).await?;
            for (of, name) in names.iter().enumerate() {
                let Some(counts) = counts.iter().find(|counts| counts.topic == *name) else { continue };
                let topic = &tenant.topics[of];
                let expected = (topic.line.len() as u64, topic.running.len() as u64, topic.paused);
                same("ready and running jobs", (counts.ready, counts.running, counts.paused), expected)?;
                same(&format!("limit of {name}"), counts.limited, tenant.limited(of, counts.limited))?;
            }
            let named: BTreeSet<TopicId> = poll(&*self.queue.store, &names[0].tenant).await.ready.into_iter().collect();
            let (ready, limited) = tenant.ready();
            let unnamed = ready.iter().map(|of| &names[*of]).find(|topic| !named.contains(topic));
            same("a topic with ready jobs that no poll names", unnamed, None)?;
            let in_vain = limited.iter().map(|of| &names[*of]).find(|topic| named.contains(topic));
            same("a topic that waits, and is named by a poll", in_vain, None)?;
            same("topics wait though more jobs may run", tenant.waits_in_vain(), false)?;
            tenant.forget_wakes();
        }
        Ok(())
    }
}

fn verdict(retries: bool) -> Verdict {
    let failure = Failure::new(Reason::Failed, FailureDetail::default());
    if retries { Verdict::Retry { after: Duration::ZERO, failure } } else { Verdict::Ack(None) }
}
