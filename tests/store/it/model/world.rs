//! Two stores with their models, to which the same happens; jobs move between them.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::num::NonZero;
use std::time::Duration;

use gristmill_core::job::{
    Claim, Due, JobChange, JobId, JobSpec, Lease, Name, NewJob, Payload, TopicId, Unique, WorkerId,
};
use gristmill_core::outcome::{Failure, FailureDetail, StateChange, Verdict};
use gristmill_core::time::Timestamp;
use gristmill_core::token::{NewToken, Rate, Scope, TokenHash, TokenLimits};
use gristmill_core::topic::{self, FleetLimits, KeyLimits, OnDead};
use gristmill_store::{ClaimFrom, DeadLimits, Imported, JobChanged, Migrated, Settlement, StateWrite, TokenAdded};
use gristmill_store_tests::test_store::{DEAD_AFTER, Kind, TestStore};

use super::operations::{
    Draft, End, Ending, Line, Move, Ms, Operation, Pick, TENANTS, TOPICS, TokenChange, WORKERS, When,
};
use super::plain::Key;
use super::side::{Difference, Side, same};
use super::versions::parked_by;

/// Longer than all that passes in a sequence: what ends by the server's own clock does not end in it.
const KEPT: Duration = Duration::from_secs(24 * 3600);

pub(super) struct World {
    /// The store to which things happen.
    here: Side,
    /// The store to which jobs move.
    there: Side,
    /// Every id ever pushed, the latest last; one that was pushed again is there again.
    pushed: Vec<Key>,
    topics: [TopicId; TOPICS],
    tenants: [Name; TENANTS],
    workers: [WorkerId; WORKERS],
}

fn back<T>(list: &[T], back: usize) -> Option<&T> {
    list.iter().rev().nth(back % list.len().max(1))
}

fn ms(ms: Ms) -> Duration {
    Duration::from_millis(ms)
}

impl World {
    pub(super) async fn new(kinds: [Kind; 2]) -> Result<Self, Difference> {
        let topics = ["acme/a", "acme/b", "other/a"].map(|topic| topic.parse().unwrap());
        let tenants = ["acme", "other"].map(|tenant| tenant.parse::<Name>().unwrap());
        let workers = ["w0", "w1", "w2"].map(WorkerId::new);
        let here = TestStore::new(kinds[0]).await;
        let there = Side::new(here.another_of(kinds[1]).await, tenants.clone()).await?;
        let here = Side::new(here, tenants.clone()).await?;
        Ok(Self { here, there, pushed: Vec::new(), topics, tenants, workers })
    }

    /// Does the same to both, and holds the answers and all that can be seen against each other.
    pub(super) async fn step(&mut self, operation: &Operation) -> Result<(), Difference> {
        match operation {
            Operation::Push(drafts) => self.push(drafts).await?,
            Operation::Pass(ms) => {
                self.here.queue.pass(*ms);
                let now = self.here.queue.now();
                (self.here.model.now, self.there.model.now) = (now, now);
            }
            Operation::Migrate { tenant, limit } => self.migrate(&self.tenants[*tenant].clone(), *limit).await?,
            Operation::Claim { worker, lines, lease } => self.claim(*worker, lines, *lease).await?,
            Operation::Settle(endings) => self.settle(endings).await?,
            Operation::Extend { claim, by } => {
                if let Some(claim) = self.pick(claim) {
                    let extended = self.here.queue.store.extend(std::slice::from_ref(&claim.lease), ms(*by)).await?;
                    same("extended", extended, vec![self.here.model.extend(&claim.lease, ms(*by))])?;
                }
            }
            Operation::Checkpoint { claim, state } => {
                if let Some(claim) = self.pick(claim) {
                    let saved = self.here.queue.store.checkpoint(&claim.lease, &[*state]).await?;
                    same("saved", saved, self.here.model.checkpoint(&claim.lease, &[*state]))?;
                }
            }
            Operation::Heartbeat { worker } => {
                self.here.queue.store.heartbeat(&self.workers[*worker]).await?;
                self.here.model.heartbeat(&self.workers[*worker]);
            }
            Operation::Retire { worker } => {
                self.here.queue.store.retire(&self.workers[*worker]).await?;
                self.here.model.retire(&self.workers[*worker]);
            }
            Operation::Reap { tenant, limit, verdict } => self.reap(*tenant, *limit, verdict).await?,
            Operation::Held { tenant, worker, except } => self.claims_of(*tenant, *worker, *except).await?,
            Operation::Change { jobs, due, priority } => {
                let change = JobChange { due: due.as_ref().map(|due| self.due(due)), priority: *priority };
                self.change(jobs, &change).await?;
            }
            Operation::Cancel { jobs, kill } => self.cancel(jobs, *kill).await?,
            Operation::Respawn(jobs) => {
                for (topic, ids) in self.dead(jobs) {
                    let respawned = self.here.queue.store.respawn(&topic, &ids).await?;
                    same("respawned", respawned, ids.iter().map(|id| self.here.model.respawn(&topic, id)).collect())?;
                }
            }
            Operation::DeleteDead(jobs) => {
                for (topic, ids) in self.dead(jobs) {
                    let deleted = self.here.queue.store.delete_dead(&topic, &ids).await?;
                    same("deleted", deleted, ids.iter().map(|id| self.here.model.delete_dead(&topic, id)).collect())?;
                }
            }
            Operation::Pause { topic, paused } => {
                let topic = &self.topics[*topic];
                let changed = self.here.queue.store.set_paused(topic, *paused).await?;
                same("paused or not", changed, self.here.model.set_paused(topic, *paused))?;
            }
            Operation::Forget { topic } => {
                let topic = &self.topics[*topic];
                let forgotten = self.here.queue.store.forget_topic(topic).await?;
                same("forgotten", forgotten, self.here.model.forget_topic(topic))?;
            }
            Operation::Sweep { keep, retention } => {
                let limits = |topic| DeadLimits { topic, keep: *keep, retention: ms(*retention) };
                let limits: Vec<DeadLimits> = self.topics.clone().into_iter().map(limits).collect();
                let dropped = self.here.queue.store.sweep(&limits).await?;
                same("dropped", dropped, limits.iter().map(|limits| self.here.model.sweep(limits)).collect())?;
            }
            Operation::Reopen => self.here.reopen().await?,
            Operation::List { topic, place, limit, pages } => {
                self.here.list(&self.topics[*topic], *place, *limit, *pages).await?
            }
            Operation::Tokens(changes) => {
                for change in changes {
                    self.change_token(change).await?;
                }
            }
            Operation::Record { job, recording } => {
                if let Some((tenant, job)) = back(&self.pushed, *job) {
                    self.here.record(&self.topics, tenant, job, *recording).await?;
                }
            }
            Operation::Decide { topic, decision, blind } => {
                self.here.decide(&self.topics[*topic], decision, *blind).await?
            }
            Operation::Move(parts) => self.move_jobs(parts).await?,
            Operation::Swap => std::mem::swap(&mut self.here, &mut self.there),
        }
        self.here.compare(&self.topics, &self.pushed).await
    }

    /// What is begun is ended.
    pub(super) async fn end(mut self) -> Result<(), Difference> {
        self.here.end().await?;
        self.there.end().await?;
        if self.here.watches_tokens() {
            // No change that was not made comes before this one.
            self.change_token(&TokenChange::Revoke { text: 0 }).await?;
            let last = TokenChange::Add { text: 0, tenant: None, limited: false, expires: None, made_by: None };
            self.change_token(&last).await?;
        }
        Ok(())
    }

    async fn move_jobs(&mut self, parts: &Move) -> Result<(), Difference> {
        let Self { here, there, .. } = self;
        if let Some((topic, limit)) = parts.export {
            here.exported = here.queue.store.export(&self.topics[topic], limit).await?;
            let expected = here.model.export(&self.topics[topic]).into_iter().take(limit).collect();
            same("exported", &here.exported, &expected)?;
        }
        let Some(topic) = here.exported.first().map(|stored| stored.job.spec.topic.clone()) else { return Ok(()) };
        let ids: Vec<JobId> = here.exported.iter().map(|stored| stored.job.spec.id.clone()).collect();
        if parts.import {
            let imported = there.queue.store.import(&here.exported).await?;
            let expected: Vec<Imported> = here.exported.iter().map(|job| there.model.import(job)).collect();
            same("imported", &imported, &expected)?;
            // What is claimed of them from here on counts on from where they were.
            there.claims.retain(|claim| !ids.contains(&claim.lease.job));
        }
        if parts.remove {
            let removed = here.queue.store.remove_exported(&topic, &ids).await?;
            same("removed", removed, ids.iter().map(|id| here.model.remove_exported(&topic, id)).collect())?;
        }
        if parts.clear {
            there.queue.store.clear_move_marks(&topic.tenant, &ids).await?;
            ids.iter().for_each(|id| there.model.clear_move_mark(&(topic.tenant.clone(), id.clone())));
        }
        there.compare(&self.topics, &self.pushed).await
    }

    async fn change_token(&mut self, change: &TokenChange) -> Result<(), Difference> {
        self.here.watch_tokens().await?;
        let Side { queue, model, .. } = &mut self.here;
        let hash = |text: &u8| TokenHash::of(&format!("text {text}"));
        let limits = |limited: bool| {
            let most = NonZero::new(5).unwrap();
            TokenLimits { requests: limited.then_some(Rate { per_second: most, burst: most }), throttle: None }
        };
        let changed = match change {
            TokenChange::Add { text, tenant, limited, expires, made_by } => {
                let new = NewToken {
                    hash: hash(text),
                    tenant: tenant.map(|tenant| self.tenants[tenant].clone()),
                    scopes: BTreeSet::from([Scope::Push]),
                    description: "for a test".into(),
                    limits: limits(*limited),
                    expires_in: expires.map(ms),
                    made_by: made_by.as_ref().map(|text| hash(text).id()),
                };
                let added = queue.store.add_token(&new).await?;
                same("added", &added, &model.add_token(&new))?;
                matches!(added, TokenAdded::Added(_)).then(|| new.hash.id()).into_iter().collect()
            }
            TokenChange::Revoke { text } => {
                let (id, revoked) = (hash(text).id(), queue.store.revoke_token(&hash(text).id()).await?);
                let expected = model.revoke_token(&id);
                same("revoked", revoked, expected.contains(&id))?;
                expected
            }
            TokenChange::Limit { text, limited } => {
                let id = hash(text).id();
                let limited_now = queue.store.set_token_limits(&id, limits(*limited)).await?;
                same("limited", limited_now, model.set_token_limits(&id, limits(*limited)))?;
                limited_now.then_some(id).into_iter().collect()
            }
            TokenChange::LiftRequirement => {
                let lifted = queue.store.lift_token_requirement().await?;
                same("lifted", lifted, model.lift_token_requirement())?;
                BTreeSet::new()
            }
        };
        self.here.compare_tokens(changed).await
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
        spec.options.priority = draft.priority;
        spec.options.unique =
            draft.unique.map(|(value, window)| Unique { value: format!("u{value}"), window: window.map(ms) });
        spec.options.ttl = draft.ttl.map(ms);
        spec.options.key = draft.key.map(|key| format!("k{key}"));
        spec.options.keep_result = draft.kept.then_some(KEPT);
        NewJob { spec, due: self.due(&draft.due) }
    }

    fn due(&self, when: &When) -> Due {
        match when {
            When::Now => Due::Now,
            When::After(wait) => Due::After(ms(*wait)),
            When::At(from_now) => {
                Due::At(Timestamp::from_millis(self.here.model.now.as_millis().saturating_add_signed(*from_now)))
            }
        }
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
        let pushed = self.here.queue.store.push(&jobs).await?;
        same("pushed", pushed, jobs.iter().map(|job| self.here.model.push(job)).collect())
    }

    /// Which topics' jobs go first is the store's affair, as long as each topic gets its share.
    async fn migrate(&mut self, tenant: &Name, limit: usize) -> Result<(), Difference> {
        let due = self.here.model.due(tenant);
        let all: usize = due.values().sum();
        let migrated = self.here.queue.store.migrate(tenant, limit).await?;
        let counts = self.here.queue.store.counts(tenant).await?;
        let topics = due.len();
        for (topic, due) in due {
            let delayed = counts.iter().find(|counts| counts.topic == topic).map_or(0, |counts| counts.delayed);
            let moved = self.here.model.delayed_in(&topic).saturating_sub(delayed as usize);
            if moved > due || moved < due.min(limit / topics) {
                return Err(Difference::new(format!("{moved} of {due} due jobs of {topic} were migrated")));
            }
            self.here.model.migrate(&topic, moved);
        }
        let next_due_in = self.here.model.next_due_in(tenant);
        same("migrated", migrated, Migrated { moved: limit.min(all), fired: 0, next_due_in })
    }

    async fn claim(&mut self, worker: usize, lines: &[Line], lease: Ms) -> Result<(), Difference> {
        let by_topic: BTreeMap<usize, &Line> = lines.iter().map(|line| (line.topic, line)).collect();
        let from = |line: &Line| {
            let (max_running, halts) = line.per_key;
            let on_dead = if halts { OnDead::Halt } else { OnDead::Continue };
            let rate = line.key_rate.map(|(jobs, per, burst)| topic::Rate { jobs, per: ms(per), burst });
            let per_key = KeyLimits { max_running, on_dead, rate };
            let limits = FleetLimits { max_running: line.most, per_key, ..FleetLimits::NONE };
            ClaimFrom::new(self.topics[line.topic].clone(), line.max, ms(lease)).within(limits)
        };
        let lines: Vec<ClaimFrom> = by_topic.into_values().map(from).collect();
        let worker = &self.workers[worker];
        let mut claimed = self.here.queue.claim_within(worker, &lines).await?;
        let (mut claims, mut drained) = (Vec::new(), Vec::new());
        for line in &lines {
            let (taken, empty) = self.here.model.claim(worker, line);
            claims.extend(taken);
            drained.extend(empty.then(|| line.topic.clone()));
        }
        claimed.drained.sort();
        // Which topic's claims come first is not promised.
        claimed.claims.sort_by(|a, b| a.lease.topic.cmp(&b.lease.topic));
        same("claims", &claimed.claims, &claims)?;
        same("drained topics and strays", (claimed.drained, claimed.strays), (drained, 0))?;
        self.here.claims.extend(claims);
        Ok(())
    }

    /// A claim of a job that is over counts as long as its id was not pushed again: deliveries are counted from one for each
    /// job, not for each id.
    fn pick(&mut self, pick: &Pick) -> Option<Claim> {
        let model = &mut self.here.model;
        let claims = self.here.claims.iter().filter(|claim| model.is_of_this_life(claim));
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
            settlement.state = claim.job.spec.options.key.clone().zip(ending.state).map(|(key, state)| {
                let change = state.map_or(StateChange::Delete, |state| StateChange::Set(vec![state]));
                StateWrite { key, change, ttl: KEPT }
            });
            settlement.only_if_overdue = ending.only_if_overdue.then_some(DEAD_AFTER);
            batch.extend(ending.twice.then(|| settlement.clone()));
            batch.push(settlement);
        }
        let others = batch.clone();
        for settlement in &mut batch {
            let comes_first = |other: &Settlement, job: &NewJob| other.lease != settlement.lease && depends(job, other);
            settlement.follow_ups.retain(|job| !others.iter().any(|other| comes_first(other, job)));
        }
        self.settle_all(&batch).await
    }

    async fn settle_all(&mut self, batch: &[Settlement]) -> Result<(), Difference> {
        // Nor is it which of two lines up first: a job that waited for its key, or one that is put back.
        let some_keyed = batch.iter().any(|settlement| settlement.is_keyed);
        for part in batch.chunks(if some_keyed { 1 } else { batch.len().max(1) }) {
            self.settle_part(part).await?;
        }
        Ok(())
    }

    async fn settle_part(&mut self, batch: &[Settlement]) -> Result<(), Difference> {
        let settled = self.here.queue.store.settle(batch).await?;
        same("settled", settled, batch.iter().map(|settlement| self.here.model.settle(settlement)).collect())?;
        for settlement in batch {
            let Some(StateWrite { key, .. }) = &settlement.state else { continue };
            let topic = &settlement.lease.topic;
            let known = self.here.model.states.get(&(topic.clone(), key.clone())).cloned();
            same("state", self.here.queue.store.state(topic, key).await?, known)?;
        }
        Ok(())
    }

    async fn reap(&mut self, tenant: usize, limit: usize, verdict: &End) -> Result<(), Difference> {
        let tenant = &self.tenants[tenant];
        let mut found = self.here.queue.store.overdue(std::slice::from_ref(tenant), DEAD_AFTER, limit).await?.jobs;
        let running = self.here.model.running(tenant, DEAD_AFTER);
        let overdue = running.into_iter().filter(|(_, _, overdue)| *overdue).map(|(claim, died, _)| (claim, died));
        let overdue: Vec<(Claim, bool)> = overdue.collect();
        same("overdue jobs found", found.len(), limit.min(overdue.len()))?;
        for found in &mut found {
            let expected = overdue.iter().find(|(claim, _)| claim.lease == found.claim.lease).cloned();
            // When it was claimed need not be remembered.
            found.claim.claimed_at = self.here.model.now;
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
            .and_then(|place| back(&self.here.claims, place))
            .map(|claim| claim.lease.job.clone())
            .into_iter()
            .collect();
        let mut held = self.here.queue.store.claims_of(tenant, worker, &except).await?;
        held.sort_by(|a, b| a.job.cmp(&b.job));
        let running = self.here.model.running(tenant, DEAD_AFTER).into_iter().map(|(claim, ..)| claim.lease);
        let expected: Vec<Lease> =
            running.filter(|lease| lease.worker == *worker && !except.contains(&lease.job)).collect();
        same("held", held, expected)
    }

    /// Jobs, as if all were of the tenant of the first.
    fn named(&self, jobs: &[usize]) -> Option<(Name, Vec<JobId>)> {
        let keys: Vec<Key> = jobs.iter().filter_map(|place| back(&self.pushed, *place).cloned()).collect();
        let (tenant, _) = keys.first().cloned()?;
        Some((tenant, keys.into_iter().map(|(_, id)| id).collect()))
    }

    async fn change(&mut self, jobs: &[usize], change: &JobChange) -> Result<(), Difference> {
        let Some((tenant, ids)) = self.named(jobs) else { return Ok(()) };
        let changed = self.here.queue.store.change(&tenant, &ids, change).await?;
        let expected: Vec<JobChanged> = ids.iter().map(|id| self.here.model.change(&tenant, id, change)).collect();
        if expected.contains(&JobChanged::Changed) {
            // A job may have left its place and come back to it.
            self.here.end_listing();
        }
        same("changed", changed, expected)
    }

    async fn cancel(&mut self, jobs: &[usize], kill: bool) -> Result<(), Difference> {
        let Some((tenant, ids)) = self.named(jobs) else { return Ok(()) };
        let store = &self.here.queue.store;
        let cancelled = if kill { store.kill(&tenant, &ids).await? } else { store.cancel(&tenant, &ids).await? };
        same("cancelled", cancelled, ids.iter().map(|id| self.here.model.cancel(&tenant, id, kill)).collect())
    }

    /// Dead jobs by topic, where there are any; else whatever job there is.
    fn dead(&self, jobs: &[usize]) -> BTreeMap<TopicId, Vec<JobId>> {
        let mut dead: Vec<(TopicId, JobId)> = Vec::new();
        for topic in &self.topics {
            dead.extend(self.here.model.dead(topic).into_iter().rev().map(|(_, id)| (topic.clone(), id)));
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
}

fn settlement(claim: &Claim, end: &End, retention: Duration) -> Settlement {
    let failure = |reason| {
        let detail =
            FailureDetail { code: "c".into(), message: format!("of attempt {}", claim.attempt), context: None };
        Failure::new(reason, detail)
    };
    let verdict = match end {
        End::Ack(None) => Verdict::Ack(None),
        End::Ack(Some(byte)) => Verdict::Ack(Some(Payload { data: vec![*byte], content_type: None })),
        End::Retry(after) => {
            Verdict::Retry { after: ms(*after), failure: failure(gristmill_core::outcome::Reason::Failed) }
        }
        End::Snooze(after) => Verdict::Snooze(ms(*after)),
        End::Release(after) => Verdict::Release(ms(*after)),
        End::Bury(reason) => Verdict::Bury(Failure { parked_by: parked_by(*reason), ..failure(*reason) }),
        End::Expire => Verdict::Expire,
    };
    Settlement::of(claim, verdict, retention)
}

/// Whether it depends on the order of a batch, which is not promised, what becomes of a follow-up job beside another settlement: that one
/// sets the job's unique value free, or puts its own job into the same line.
fn depends(job: &NewJob, other: &Settlement) -> bool {
    let is_put_back = matches!(other.verdict, Verdict::Retry { .. } | Verdict::Snooze(_) | Verdict::Release(_));
    let is_freed =
        other.unique.is_some() && other.unique == job.spec.options.unique.as_ref().map(|unique| unique.value.clone());
    job.spec.topic == other.lease.topic && (is_put_back || is_freed)
}
