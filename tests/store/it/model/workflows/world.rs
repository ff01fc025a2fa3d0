//! A store and the plain model of its workflows, to which the same happens.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::Duration;

use gristmill_core::job::{
    AfterFailed, Claim, Due, Ended, JobId, JobSpec, Name, NewJob, PREDECESSORS, Payload, TopicId, WorkerId,
};
use gristmill_core::outcome::{Failure, FailureDetail, Outcome, Reason, Verdict};
use gristmill_store::{ClaimFrom, DeadLimits, JobView, Migrated, ResultView, Settlement, StateFilter, before_start};
use gristmill_store_tests::test_store::{Kind, TestStore, poll, tenant};
use serde_json::{Value, json};

use super::super::operations::{Back, Ms};
use super::super::side::{Difference, same};
use super::operations::{Draft, End, Ending, Operation, TOPICS, Which};
use super::plain::Model;

/// Longer than all that passes in a sequence.
const LONG: Duration = Duration::from_secs(24 * 3600);

/// How many of the jobs are looked at after each step: most operations are about one of these.
const LATEST: usize = 12;

pub(super) struct World {
    queue: TestStore,
    model: Model,
    topics: [TopicId; TOPICS],
    worker: WorkerId,
    tenant: Name,
    /// Every id ever pushed, the latest last; one that was pushed again is there again.
    pushed: Vec<JobId>,
    /// Those that were pushed as batches.
    batches: Vec<JobId>,
    claims: Vec<Claim>,
}

fn back<T: Clone>(list: &[T], back: Back) -> Option<T> {
    list.iter().rev().nth(back % list.len().max(1)).cloned()
}

const fn ms(ms: Ms) -> Duration {
    Duration::from_millis(ms)
}

impl World {
    pub(super) async fn new(kind: Kind) -> Self {
        let queue = TestStore::new(kind).await;
        let model = Model::new(queue.now());
        let topics = ["acme/a", "acme/b"].map(|topic| topic.parse().unwrap());
        let (pushed, batches, claims) = (Vec::new(), Vec::new(), Vec::new());
        Self { queue, model, topics, worker: WorkerId::new("w"), tenant: tenant(), pushed, batches, claims }
    }

    /// Does the same to both, and holds the answers and all that can be seen against each other.
    pub(super) async fn step(&mut self, operation: &Operation) -> Result<(), Difference> {
        let before = self.model.ready.clone();
        match operation {
            Operation::Push(drafts) => {
                let jobs = self.jobs(drafts, None);
                let pushed = self.queue.store.push(&jobs).await?;
                same("pushed", pushed, jobs.iter().map(|job| self.model.push(job)).collect())?;
            }
            Operation::Pass(ms) => {
                self.queue.pass(*ms);
                self.model.now = self.queue.now();
            }
            Operation::Migrate => {
                let migrated = self.queue.store.migrate(&self.tenant, 1000).await?;
                let moved = self.model.migrate();
                same("migrated", migrated, Migrated { moved, fired: 0, next_due_in: self.next_due_in() })?;
            }
            Operation::Claim { topic, max } => self.claim(*topic, *max).await?,
            Operation::Settle(endings) => self.settle(endings).await?,
            Operation::Seal(which) => {
                let id = self.named(which, None, &JobId::generate());
                let sealed = self.queue.store.seal(&self.tenant, &id).await?;
                same("sealed", sealed, self.model.seal(&id))?;
            }
            Operation::Cancel(jobs) => {
                let ids: Vec<JobId> = jobs.iter().filter_map(|place| back(&self.pushed, *place)).collect();
                let cancelled = self.queue.store.cancel(&self.tenant, &ids).await?;
                same("cancelled", cancelled, ids.iter().map(|id| self.model.cancel(id)).collect())?;
            }
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
            Operation::Sweep { topic, keep } => {
                let limits = DeadLimits { topic: self.topics[*topic].clone(), keep: *keep, retention: LONG };
                let dropped = self.queue.store.sweep(std::slice::from_ref(&limits)).await?;
                same("dropped", dropped, vec![self.model.sweep(&limits.topic, *keep)])?;
            }
            Operation::Reopen => self.queue.reopen().await,
        }
        self.compare(&before).await
    }

    pub(super) async fn end(self) -> Result<(), Difference> {
        self.compare_jobs(usize::MAX).await?;
        same("damage", self.queue.store.fsck().await?.findings, Vec::new())
    }

    fn next_due_in(&self) -> Option<Duration> {
        self.model.due().first().map(|(until, _)| until.since(self.model.now))
    }

    /// The job that is meant. `itself`: the new job that names it.
    fn named(&self, which: &Which, enqueuer: Option<&JobId>, itself: &JobId) -> JobId {
        let named = match which {
            Which::Any(place) => back(&self.pushed, *place),
            Which::Batch(place) => back(&self.batches, *place),
            Which::Itself => Some(itself.clone()),
            Which::Enqueuer => enqueuer.cloned(),
        };
        named.unwrap_or_else(|| "unknown".parse().unwrap())
    }

    /// New jobs of a producer, or the follow-up jobs of an attempt.
    fn jobs(&mut self, drafts: &[Draft], enqueuer: Option<&JobId>) -> Vec<NewJob> {
        let mut jobs = Vec::new();
        for draft in drafts {
            let number = self.pushed.len();
            // Ids do not sort as they come, so that it shows who sorts by which.
            let fresh = || format!("j{}-{number}", number * 7 % 10).parse().unwrap();
            // Whether an earlier result is still shown is left open: see `JobView::result`.
            let is_free = |id: &JobId| !self.model.results.contains_key(id) && Some(id) != enqueuer;
            let again = draft.again.and_then(|place| back(&self.pushed, place)).filter(is_free);
            let mut spec = JobSpec::new(
                self.topics[draft.topic].clone(),
                Payload { data: format!("{number}").into_bytes(), content_type: None },
            );
            spec.id = again.unwrap_or_else(fresh);
            spec.options.keep_result = draft.kept.then_some(LONG);
            spec.options.after = draft.after.iter().map(|which| self.named(which, enqueuer, &spec.id)).collect();
            spec.options.batch = draft.batch.as_ref().map(|which| self.named(which, enqueuer, &spec.id));
            spec.options.open = draft.open;
            // A job that waits for none does not say it.
            if draft.runs_anyway && spec.options.waits() {
                spec.options.after_failed = AfterFailed::Run;
            }
            self.pushed.push(spec.id.clone());
            self.batches.extend(draft.open.then(|| spec.id.clone()));
            let due = draft.delay.map_or(Due::Now, |delay| Due::After(ms(delay)));
            jobs.push(NewJob { spec, due });
        }
        jobs
    }

    async fn claim(&mut self, topic: usize, max: usize) -> Result<(), Difference> {
        let topic = &self.topics[topic];
        let from = ClaimFrom::new(topic.clone(), max, LONG);
        let claimed = self.queue.store.claim(&self.worker, &[from]).await?;
        let mut expected = self.model.claim(topic, max, &self.worker, LONG);
        for (expected, claim) in expected.iter_mut().zip(&claimed.claims) {
            expected.lease.batch = claim.lease.batch;
        }
        same("claims", &claimed.claims, &expected)?;
        same("strays", claimed.strays, 0)?;
        for claim in &claimed.claims {
            self.compare_start(claim).await?;
        }
        self.claims.extend(claimed.claims);
        Ok(())
    }

    /// What a runner does with a claimed job, and what its handler learns.
    async fn compare_start(&self, claim: &Claim) -> Result<(), Difference> {
        let spec = &claim.job.spec;
        let learned = match before_start(&*self.queue.store, claim, &|_| true).await {
            Ok(job) => Ok(job.map(|job| {
                let (_, text) = job.spec.metadata.iter().find(|(name, _)| name == PREDECESSORS).unwrap();
                serde_json::from_str::<Value>(text).unwrap()
            })),
            Err(Outcome::PredecessorFailed { job, ended }) => Err((job, ended)),
            Err(other) => return Err(Difference::new(format!("{} does not start: {other:?}", spec.id))),
        };
        let expected = match self.model.failed_before(spec) {
            Some(failed) => Err(failed),
            None => Ok(self
                .model
                .waits_for(&spec.id, 100)
                .map(|waited| waited.jobs.iter().map(|job| self.entry(&job.id, job.ended)).collect::<Value>())),
        };
        same("what is learned of the jobs before", learned, expected)
    }

    fn entry(&self, id: &JobId, ended: Option<Ended>) -> Value {
        let mut entry = json!({ "id": id, "ended": ended });
        if let (Some(Ended::Complete), Some((_, ResultView::Complete(Some(payload))))) =
            (ended, self.model.results.get(id))
        {
            entry["text"] = String::from_utf8(payload.data.clone()).unwrap().into();
        }
        entry
    }

    async fn settle(&mut self, endings: &[Ending]) -> Result<(), Difference> {
        let mut settlements: Vec<Settlement> = Vec::new();
        for ending in endings {
            let of_this_life = |claim: &&Claim| {
                self.model.jobs.get(&claim.lease.job).is_none_or(|record| record.job.spec == claim.job.spec)
            };
            let claims = self.claims.iter().filter(of_this_life).cloned();
            let (running, late): (Vec<_>, Vec<_>) = claims.partition(|claim| self.model.holds(&claim.lease));
            let Some(claim) = back(if ending.late { &late } else { &running }, ending.claim) else { continue };
            if settlements.iter().any(|settlement| settlement.lease == claim.lease) {
                continue;
            }
            let mut settlement = Settlement::of(&claim, verdict(&ending.verdict), Duration::ZERO);
            // Which of several settlements comes first is not promised, so whether the other jobs have ended is not.
            if endings.len() == 1 {
                settlement.follow_ups = self.jobs(&ending.follow_ups, Some(&claim.lease.job));
            }
            settlements.push(settlement);
        }
        let settled = self.queue.store.settle(&settlements).await?;
        same("settled", settled, settlements.iter().map(|settlement| self.model.settle(settlement)).collect())
    }

    /// Dead jobs by topic.
    fn dead(&self, jobs: &[Back]) -> BTreeMap<TopicId, Vec<JobId>> {
        let mut dead: Vec<(TopicId, JobId)> = Vec::new();
        for topic in &self.topics {
            dead.extend(self.model.dead(topic).into_iter().map(|id| (topic.clone(), id)));
        }
        let mut by_topic: BTreeMap<TopicId, Vec<JobId>> = BTreeMap::new();
        for (topic, id) in jobs.iter().filter_map(|place| back(&dead, *place)) {
            by_topic.entry(topic).or_default().push(id);
        }
        by_topic
    }

    /// Compares all that can be seen of the store. `before`: the ready jobs before the step.
    async fn compare(&mut self, before: &BTreeMap<TopicId, Vec<JobId>>) -> Result<(), Difference> {
        let store = Arc::clone(&self.queue.store);
        for topic in &self.topics {
            let ids = async |place| {
                let page = store.jobs(topic, place, None, 1000).await?;
                Ok::<_, Difference>(page.jobs.into_iter().map(|view| view.id).collect::<Vec<JobId>>())
            };
            same("delayed jobs", ids(StateFilter::Delayed).await?, self.model.delayed(topic))?;
            let line = ids(StateFilter::Ready).await?;
            let expected = self.model.ready.entry(topic.clone()).or_default();
            let known = before.get(topic).map_or(&[][..], Vec::as_slice);
            // In which order those line up that become ready in one step is not promised.
            let new = expected.iter().position(|id| !known.contains(id)).unwrap_or(expected.len());
            expected[new..].sort();
            let mut in_order = line.clone();
            in_order[new.min(line.len())..].sort();
            same("ready jobs", &in_order, expected)?;
            *expected = line;
        }
        let mut counts = store.counts(&self.tenant).await?;
        counts.iter_mut().for_each(|counts| counts.totals.retain(|_, n| *n > 0));
        same("counts", counts, self.model.counts())?;
        let wanted = poll(&*store, &self.tenant).await;
        same("next due time", wanted.next_due_in, self.next_due_in())?;
        let ready = self.model.ready.iter().filter(|(_, line)| !line.is_empty()).map(|(topic, _)| topic.clone());
        let unnamed: Vec<TopicId> = ready.filter(|topic| !wanted.ready.contains(topic)).collect();
        same("topics with ready jobs that no poll names", unnamed, Vec::new())?;
        self.compare_jobs(LATEST).await
    }

    /// Asks for so many jobs at once: one by one takes most of the time of a sequence.
    async fn compare_jobs(&self, latest: usize) -> Result<(), Difference> {
        let ids: BTreeSet<JobId> = self.pushed.iter().rev().take(latest).cloned().collect();
        let asked = ids.into_iter().map(|id| {
            let (store, tenant) = (Arc::clone(&self.queue.store), self.tenant.clone());
            tokio::spawn(async move {
                let view = store.job(&tenant, &id).await;
                let waits_for = store.waits_for(&tenant, &id, 1).await;
                let waiters = store.waiters(&tenant, &id).await;
                (id, view, waits_for, waiters)
            })
        });
        for asked in asked.collect::<Vec<_>>() {
            let (id, view, waits_for, waiters) = asked.await.expect("looking at a job does not panic");
            // Conformance tests when it was claimed.
            let view = view?.map(|view| JobView { claimed_at: None, result_topic: None, ..view });
            same("view of a job", view, self.model.view(&id))?;
            same("first job that one waits for", waits_for?, self.model.waits_for(&id, 1))?;
            same("jobs that wait for one", (&id, waiters?), (&id, self.model.waiters(&id)))?;
        }
        Ok(())
    }
}

fn verdict(end: &End) -> Verdict {
    let failure = |reason| Failure::new(reason, FailureDetail::default());
    match end {
        End::Ack(result) => {
            Verdict::Ack(result.map(|byte| Payload { data: format!("{byte}").into_bytes(), content_type: None }))
        }
        End::Retry(after) => Verdict::Retry { after: ms(*after), failure: failure(Reason::Failed) },
        End::Snooze(after) => Verdict::Snooze(ms(*after)),
        End::Release => Verdict::Release(Duration::ZERO),
        End::Bury => Verdict::Bury(failure(Reason::Rejected)),
        End::Expire => Verdict::Expire,
    }
}
