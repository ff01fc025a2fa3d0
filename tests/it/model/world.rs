//! A store and the model of one, to which the same happens.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::fmt::Debug;
use std::sync::Arc;
use std::time::Duration;

use gristmill::job::{Claim, Due, JobId, JobSpec, Lease, Name, NewJob, Payload, TopicId, Unique, WorkerId};
use gristmill::outcome::{Failure, FailureDetail, Verdict};
use gristmill::store::{ClaimFrom, DeadLimits, JobView, Migrated, Settlement, StoreError};
use gristmill::time::Timestamp;
use gristmill_tests::test_store::{DEAD_AFTER, TestStore};

use super::operations::{Draft, End, Ending, Line, Ms, Operation, Pick, TENANTS, TOPICS, WORKERS, When};
use super::plain::{Key, Model};

/// Longer than all that passes in a sequence: what ends by the server's own clock does not end in it.
const KEPT: Duration = Duration::from_secs(24 * 3600);

pub(super) struct World {
    queue: TestStore,
    model: Model,
    /// Every id ever pushed, the latest last; one that was pushed again is there again.
    pushed: Vec<Key>,
    /// Every claim ever made, the latest last.
    claims: Vec<Claim>,
    topics: [TopicId; TOPICS],
    tenants: [Name; TENANTS],
    workers: [WorkerId; WORKERS],
}

/// What was to be seen, and what was.
#[derive(Debug)]
pub(super) struct Difference(pub(super) String);

impl From<StoreError> for Difference {
    fn from(error: StoreError) -> Self {
        Self(format!("the store failed: {error:?}"))
    }
}

fn same<T: PartialEq + Debug>(what: &str, store: T, model: T) -> Result<(), Difference> {
    if store == model {
        return Ok(());
    }
    Err(Difference(format!("{what}\n  of the store: {store:?}\n  of the model: {model:?}")))
}

fn back<T>(list: &[T], back: usize) -> Option<&T> {
    list.iter().rev().nth(back % list.len().max(1))
}

fn ms(ms: Ms) -> Duration {
    Duration::from_millis(ms)
}

impl World {
    pub(super) fn new(queue: TestStore) -> Self {
        let model = Model::new(queue.now());
        let topics = ["acme/a", "acme/b", "other/a"].map(|topic| topic.parse().unwrap());
        let tenants = ["acme", "other"].map(|tenant| tenant.parse().unwrap());
        let workers = ["w0", "w1", "w2"].map(WorkerId::new);
        Self { queue, model, pushed: Vec::new(), claims: Vec::new(), topics, tenants, workers }
    }

    /// Does the same to both, and holds the answers and all that can be seen against each other.
    pub(super) async fn step(&mut self, operation: &Operation) -> Result<(), Difference> {
        match operation {
            Operation::Push(drafts) => self.push(drafts).await?,
            Operation::Pass(ms) => {
                self.queue.pass(*ms);
                self.model.now = self.queue.now();
            }
            Operation::Migrate { tenant, limit } => self.migrate(&self.tenants[*tenant].clone(), *limit).await?,
            Operation::Claim { worker, lines, lease } => self.claim(*worker, lines, *lease).await?,
            Operation::Settle(endings) => self.settle(endings).await?,
            Operation::Extend { claim, by } => {
                if let Some(claim) = self.pick(claim) {
                    let extended = self.queue.store.extend(std::slice::from_ref(&claim.lease), ms(*by)).await?;
                    same("extended", extended, vec![self.model.extend(&claim.lease, ms(*by))])?;
                }
            }
            Operation::Checkpoint { claim, state } => {
                if let Some(claim) = self.pick(claim) {
                    let saved = self.queue.store.checkpoint(&claim.lease, &[*state]).await?;
                    same("saved", saved, self.model.checkpoint(&claim.lease, &[*state]))?;
                }
            }
            Operation::Heartbeat { worker } => {
                self.queue.store.heartbeat(&self.workers[*worker]).await?;
                self.model.heartbeat(&self.workers[*worker]);
            }
            Operation::Retire { worker } => {
                self.queue.store.retire(&self.workers[*worker]).await?;
                self.model.retire(&self.workers[*worker]);
            }
            Operation::Reap { tenant, limit, verdict } => self.reap(*tenant, *limit, verdict).await?,
            Operation::Held { tenant, worker, except } => self.claims_of(*tenant, *worker, *except).await?,
            Operation::Cancel(jobs) => self.cancel(jobs).await?,
            Operation::Respawn(jobs) => {
                for (topic, ids) in self.dead(jobs) {
                    let respawned = self.queue.store.respawn(&topic, &ids).await?;
                    same("respawned", respawned, ids.iter().map(|id| self.model.respawn(&topic, id)).collect())?;
                }
            }
            Operation::DeleteDead(jobs) => {
                for (topic, ids) in self.dead(jobs) {
                    let deleted = self.queue.store.delete_dead(&topic, &ids).await?;
                    same("deleted", deleted, ids.iter().map(|id| self.model.delete_dead(&topic, id)).collect())?;
                }
            }
            Operation::Pause { topic, paused } => {
                let topic = &self.topics[*topic];
                let changed = self.queue.store.set_paused(topic, *paused).await?;
                same("paused or not", changed, self.model.set_paused(topic, *paused))?;
            }
            Operation::Forget { topic } => {
                let topic = &self.topics[*topic];
                let forgotten = self.queue.store.forget_topic(topic).await?;
                same("forgotten", forgotten, self.model.forget_topic(topic))?;
            }
            Operation::Sweep { keep, retention } => {
                let limits = |topic| DeadLimits { topic, keep: *keep, retention: ms(*retention) };
                let limits: Vec<DeadLimits> = self.topics.clone().into_iter().map(limits).collect();
                let dropped = self.queue.store.sweep(&limits).await?;
                same("dropped", dropped, limits.iter().map(|limits| self.model.sweep(limits)).collect())?;
            }
            Operation::Reopen => self.queue.reopen().await,
        }
        self.compare().await
    }

    /// A new job; with `again`, one of an id that was there before.
    fn job(&self, draft: &Draft, number: usize, again: bool) -> NewJob {
        // Ids do not sort as they come, so that it shows who sorts by which.
        let fresh = || format!("j{}-{}", number * 7 % 10, number).parse().unwrap();
        let mut topic = self.topics[draft.topic].clone();
        let earlier = draft.again.filter(|_| again).and_then(|place| back(&self.pushed, place));
        let id = earlier.map_or_else(fresh, |(tenant, id)| {
            topic.tenant = tenant.clone();
            id.clone()
        });
        if !self.topics.contains(&topic) {
            topic.topic = self.topics[0].topic.clone();
        }
        let mut spec = JobSpec::new(topic, Payload { data: vec![number as u8], content_type: None });
        spec.id = id;
        spec.priority = draft.priority;
        spec.unique = draft.unique.map(|(value, window)| Unique { value: format!("u{value}"), window: window.map(ms) });
        spec.ttl = draft.ttl.map(ms);
        spec.keep_result = draft.kept.then_some(KEPT);
        let due = match draft.due {
            When::Now => Due::Now,
            When::After(wait) => Due::After(ms(wait)),
            When::At(from_now) => {
                Due::At(Timestamp::from_millis(self.model.now.as_millis().saturating_add_signed(from_now)))
            }
        };
        NewJob { spec, due }
    }

    fn jobs(&mut self, drafts: &[Draft], again: bool) -> Vec<NewJob> {
        let mut jobs = Vec::new();
        for draft in drafts {
            let job = self.job(draft, self.pushed.len(), again);
            self.pushed.push((job.spec.topic.tenant.clone(), job.spec.id.clone()));
            jobs.push(job);
        }
        jobs
    }

    async fn push(&mut self, drafts: &[Draft]) -> Result<(), Difference> {
        let jobs = self.jobs(drafts, true);
        let pushed = self.queue.store.push(&jobs).await?;
        same("pushed", pushed, jobs.iter().map(|job| self.model.push(job)).collect())
    }

    /// Which topics' jobs go first is the store's affair, as long as each topic gets its share.
    async fn migrate(&mut self, tenant: &Name, limit: usize) -> Result<(), Difference> {
        let due = self.model.due(tenant);
        let all: usize = due.values().sum();
        let migrated = self.queue.store.migrate(tenant, limit).await?;
        let counts = self.queue.store.counts(tenant).await?;
        let topics = due.len();
        for (topic, due) in due {
            let delayed = counts.iter().find(|counts| counts.topic == topic).map_or(0, |counts| counts.delayed);
            let moved = self.model.delayed_in(&topic).saturating_sub(delayed as usize);
            if moved > due || moved < due.min(limit / topics) {
                return Err(Difference(format!("{moved} of {due} due jobs of {topic} were migrated")));
            }
            self.model.migrate(&topic, moved);
        }
        let next_due_in = self.model.next_due_in(tenant);
        same("migrated", migrated, Migrated { moved: limit.min(all), next_due_in })
    }

    async fn claim(&mut self, worker: usize, lines: &[Line], lease: Ms) -> Result<(), Difference> {
        let by_topic: BTreeMap<usize, usize> = lines.iter().map(|line| (line.topic, line.max)).collect();
        let from =
            |(topic, max): (usize, usize)| ClaimFrom { topic: self.topics[topic].clone(), max, lease: ms(lease) };
        let lines: Vec<ClaimFrom> = by_topic.into_iter().map(from).collect();
        let worker = &self.workers[worker];
        let mut claimed = self.queue.store.claim(worker, &lines).await?;
        let (mut claims, mut drained) = (Vec::new(), Vec::new());
        for line in &lines {
            let (taken, empty) = self.model.claim(worker, line);
            claims.extend(taken);
            drained.extend(empty.then(|| line.topic.clone()));
        }
        claimed.drained.sort();
        same("claims", &claimed.claims, &claims)?;
        same("drained topics and strays", (claimed.drained, claimed.strays), (drained, 0))?;
        self.claims.extend(claims);
        Ok(())
    }

    /// A claim of a job that is over counts as long as its id was not pushed again: deliveries are counted from one for each
    /// job, not for each id.
    fn pick(&mut self, pick: &Pick) -> Option<Claim> {
        let model = &mut self.model;
        let claims = self.claims.iter().filter(|claim| model.is_of_this_life(claim));
        let (running, late): (Vec<_>, Vec<_>) = claims.cloned().partition(|claim| model.holds(&claim.lease));
        match pick {
            Pick::Running(place) => back(&running, *place).cloned(),
            Pick::Late(place) => {
                let still_here: Vec<Claim> = late.iter().filter(|claim| model.has_job_of(claim)).cloned().collect();
                back(if still_here.is_empty() { &late } else { &still_here }, *place).cloned()
            }
        }
    }

    async fn settle(&mut self, endings: &[Ending]) -> Result<(), Difference> {
        let mut batch: Vec<Settlement> = Vec::new();
        for ending in endings {
            let Some(claim) = self.pick(&ending.claim) else { continue };
            // Which of two different ends of one attempt comes first is not promised.
            if batch.iter().any(|settlement| settlement.lease == claim.lease) {
                continue;
            }
            let mut settlement = settlement(&claim, &ending.verdict, if ending.kept { KEPT } else { Duration::ZERO });
            // Nor is it whether a job of the same batch is over by then.
            let mut follow_ups = self.jobs(&ending.follow_ups, endings.len() == 1);
            follow_ups.retain(|job| job.spec.topic.tenant == claim.lease.topic.tenant);
            settlement.follow_ups = follow_ups;
            settlement.only_if_overdue = ending.only_if_overdue.then_some(DEAD_AFTER);
            batch.extend(ending.twice.then(|| settlement.clone()));
            batch.push(settlement);
        }
        self.settle_all(&batch).await
    }

    async fn settle_all(&mut self, batch: &[Settlement]) -> Result<(), Difference> {
        let settled = self.queue.store.settle(batch).await?;
        same("settled", settled, batch.iter().map(|settlement| self.model.settle(settlement)).collect())
    }

    async fn reap(&mut self, tenant: usize, limit: usize, verdict: &End) -> Result<(), Difference> {
        let tenant = &self.tenants[tenant];
        let mut found = self.queue.store.overdue(tenant, DEAD_AFTER, limit).await?;
        let running = self.model.running(tenant, DEAD_AFTER);
        let overdue = running.into_iter().filter(|(_, _, overdue)| *overdue).map(|(claim, died, _)| (claim, died));
        let overdue: Vec<(Claim, bool)> = overdue.collect();
        same("overdue jobs found", found.len(), limit.min(overdue.len()))?;
        for found in &mut found {
            let expected = overdue.iter().find(|(claim, _)| claim.lease == found.claim.lease).cloned();
            // When it was claimed need not be remembered.
            found.claim.claimed_at = self.model.now;
            same("overdue job", Some((found.claim.clone(), found.worker_died)), expected)?;
        }
        let reap =
            |claim| Settlement { only_if_overdue: Some(DEAD_AFTER), ..settlement(claim, verdict, Duration::ZERO) };
        let batch: Vec<Settlement> = found.iter().map(|found| reap(&found.claim)).collect();
        self.settle_all(&batch).await
    }

    async fn claims_of(&mut self, tenant: usize, worker: usize, except: Option<usize>) -> Result<(), Difference> {
        let (tenant, worker) = (&self.tenants[tenant], &self.workers[worker]);
        let except: HashSet<JobId> = except
            .and_then(|place| back(&self.claims, place))
            .map(|claim| claim.lease.job.clone())
            .into_iter()
            .collect();
        let mut held = self.queue.store.claims_of(tenant, worker, &except).await?;
        held.sort_by(|a, b| a.job.cmp(&b.job));
        let running = self.model.running(tenant, DEAD_AFTER).into_iter().map(|(claim, ..)| claim.lease);
        let expected: Vec<Lease> =
            running.filter(|lease| lease.worker == *worker && !except.contains(&lease.job)).collect();
        same("held", held, expected)
    }

    async fn cancel(&mut self, jobs: &[usize]) -> Result<(), Difference> {
        let keys: Vec<Key> = jobs.iter().filter_map(|place| back(&self.pushed, *place).cloned()).collect();
        let Some((tenant, _)) = keys.first().cloned() else { return Ok(()) };
        let ids: Vec<JobId> = keys.into_iter().map(|(_, id)| id).collect();
        let cancelled = self.queue.store.cancel(&tenant, &ids).await?;
        same("cancelled", cancelled, ids.iter().map(|id| self.model.cancel(&tenant, id)).collect())
    }

    /// Dead jobs by topic, where there are any; else whatever job there is.
    fn dead(&self, jobs: &[usize]) -> BTreeMap<TopicId, Vec<JobId>> {
        let mut dead: Vec<(TopicId, JobId)> = Vec::new();
        for topic in &self.topics {
            dead.extend(self.model.dead(topic).into_iter().map(|dead| (topic.clone(), dead.job.spec.id)));
        }
        if dead.is_empty() {
            dead = self.pushed.iter().map(|(_, id)| (self.topics[0].clone(), id.clone())).collect();
        }
        let mut by_topic: BTreeMap<TopicId, Vec<JobId>> = BTreeMap::new();
        for (topic, id) in jobs.iter().filter_map(|place| back(&dead, *place)) {
            by_topic.entry(topic.clone()).or_default().push(id.clone());
        }
        by_topic
    }

    /// Holds all that can be seen of the store against the model.
    async fn compare(&self) -> Result<(), Difference> {
        let store = &self.queue.store;
        for tenant in &self.tenants {
            let mut counts = store.counts(tenant).await?;
            for counts in &mut counts {
                counts.totals.retain(|_, n| *n > 0);
            }
            same("counts", counts, self.model.counts(tenant))?;
            let wanted = store.poll_work(tenant, &[]).await?;
            same("next due time", wanted.next_due_in, self.model.next_due_in(tenant))?;
            same("cancelled jobs", wanted.cancelled.into_iter().collect(), self.model.cancelled(tenant))?;
            let (named, (surely, perhaps)) = (BTreeSet::from_iter(wanted.ready), self.model.ready(tenant));
            if !named.is_superset(&surely) || !named.is_subset(&perhaps) {
                return Err(Difference(format!("ready: {named:?} is not between {surely:?} and {perhaps:?}")));
            }
        }
        for topic in &self.topics {
            same("dead jobs", store.dead(topic, 0, 1000).await?, self.model.dead(topic))?;
            same("jobs at rest", store.export(topic, 1000).await?, self.model.export(topic))?;
        }
        self.compare_views().await
    }

    /// Asks for all jobs at once: one by one takes most of the time of a sequence.
    async fn compare_views(&self) -> Result<(), Difference> {
        let keys: BTreeSet<Key> = self.pushed.iter().cloned().collect();
        let views = keys.into_iter().map(|key| {
            let store = Arc::clone(&self.queue.store);
            tokio::spawn(async move {
                let view = store.job(&key.0, &key.1).await;
                (key, view)
            })
        });
        for view in views.collect::<Vec<_>>() {
            let (key, seen) = view.await.expect("looking at a job does not panic");
            let (mut seen, mut expected) = (seen?, self.model.view(&key));
            if self.model.is_blurred(&key) {
                let blur = |view: Option<JobView>| {
                    let view = view.filter(|view| view.job.is_some());
                    view.map(|view| JobView { result: None, ..view })
                };
                (seen, expected) = (blur(seen), blur(expected));
            }
            same("view of a job", seen, expected)?;
        }
        Ok(())
    }
}

fn settlement(claim: &Claim, end: &End, retention: Duration) -> Settlement {
    let failure = |reason| {
        let detail =
            FailureDetail { code: "c".into(), message: format!("of attempt {}", claim.attempt), context: None };
        Failure { reason, detail, backtrace: None }
    };
    let verdict = match end {
        End::Ack(None) => Verdict::Ack(None),
        End::Ack(Some(byte)) => Verdict::Ack(Some(Payload { data: vec![*byte], content_type: None })),
        End::Retry(after) => Verdict::Retry { after: ms(*after), failure: failure(gristmill::outcome::Reason::Failed) },
        End::Snooze(after) => Verdict::Snooze(ms(*after)),
        End::Release(after) => Verdict::Release(ms(*after)),
        End::Bury(reason) => Verdict::Bury(failure(*reason)),
        End::Expire => Verdict::Expire,
    };
    Settlement::of(claim, verdict, retention)
}
