//! The scenario, and what must hold after it.

use std::collections::{BTreeMap, BTreeSet, HashSet};
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use gristmill_core::job::{Claim, Due, JobChange, JobId, NewJob, Priority, Progress, WorkerId};
use gristmill_core::outcome::{Reason, Verdict};
use gristmill_core::schedule::{Schedule, ScheduleId};
use gristmill_store::{
    ClaimFrom, DeadLimits, ManualClock, PlacementRegistry, PollTenant, ScheduleChange, Settled, Settlement,
    StateFilter, StoreError, Transfer, Uniques,
};
use gristmill_store_tests::test_store::{
    DEAD_AFTER, LEASE, delayed, failure, ids, job, of_priority, retry, tenant, topic, unique, worker,
};

use super::server::Server;

/// The topics of the scenario. Jobs of `next` are follow-ups, those of `raw` are adopted.
const TOPICS: [&str; 6] = ["mail", "next", "moved", "keyed", "limited", RAW];
const RAW: &str = "raw";

/// What the scenario consists of.
#[derive(Debug, Clone, Copy)]
pub(super) enum Part {
    Attempts,
    Changes,
    Waits,
    Workers,
    Moves,
    Looks,
    Operators,
}

pub(super) const PARTS: [Part; 7] =
    [Part::Attempts, Part::Changes, Part::Waits, Part::Workers, Part::Moves, Part::Looks, Part::Operators];

/// A call fails once at most, and the connection is made anew once.
const TRIES: usize = 5;

fn schedule() -> ScheduleId {
    ScheduleId { topic: topic("mail"), name: "often".parse().unwrap() }
}

/// What was acknowledged. A mark is the length of the file's log at that moment; zero where there is none.
#[derive(Debug, Clone, Default)]
pub(super) struct Acknowledged {
    pub(super) pushed: BTreeMap<JobId, u64>,
    /// Jobs that are over: acked, cancelled or deleted.
    pub(super) ended: BTreeMap<JobId, u64>,
    /// Batches that a cut may have left open.
    pub(super) batches: BTreeSet<JobId>,
}

/// All that a store can do.
pub(super) trait Whole: Transfer + PlacementRegistry + Uniques {}

impl<S: Transfer + PlacementRegistry + Uniques> Whole for S {}

/// A store, the clock that it goes by, and what it acknowledged.
pub(super) struct World {
    pub(super) store: Arc<dyn Whole>,
    pub(super) clock: Arc<ManualClock>,
    pub(super) log: Option<PathBuf>,
    /// Where the store is in Redis.
    pub(super) server: Option<Server>,
    pub(super) acknowledged: Acknowledged,
}

impl World {
    pub(super) fn new(store: Arc<dyn Whole>, clock: Arc<ManualClock>) -> Self {
        Self { store, clock, log: None, server: None, acknowledged: Acknowledged::default() }
    }

    /// Asks again while the store is unavailable.
    pub(super) async fn ask<T>(&self, question: impl AsyncFn(&dyn Whole) -> Result<T, StoreError>) -> T {
        for _ in 0..TRIES {
            match question(&*self.store).await {
                Err(StoreError::Unavailable { .. }) => {}
                answer => return answer.unwrap(),
            }
        }
        panic!("the store is unavailable {TRIES} times in a row");
    }

    pub(super) fn pass(&self, time: Duration) {
        self.clock.pass(time.as_millis() as u64);
    }

    fn mark(&self) -> u64 {
        self.log.as_ref().map_or(0, |log| std::fs::metadata(log).unwrap().len())
    }

    pub(super) async fn push(&mut self, jobs: &[NewJob]) {
        self.ask(async |store| store.push(jobs).await).await;
        self.note_pushed(ids(jobs));
    }

    fn note_pushed(&mut self, ids: Vec<JobId>) {
        let mark = self.mark();
        self.acknowledged.pushed.extend(ids.into_iter().map(|id| (id, mark)));
    }

    pub(super) fn note_ended(&mut self, id: &JobId) {
        let mark = self.mark();
        self.acknowledged.ended.insert(id.clone(), mark);
    }

    /// Fewer than `max` where a reply was lost: the others are running, and come back when their lease has run out.
    pub(super) async fn claim(&self, worker: &WorkerId, of: &str, max: usize) -> Vec<Claim> {
        self.claim_from(worker, ClaimFrom::new(topic(of), max, LEASE)).await
    }

    pub(super) async fn claim_from(&self, worker: &WorkerId, from: ClaimFrom) -> Vec<Claim> {
        let from = [from];
        let claimed = self.ask(async |store| store.claim(worker, &from).await).await;
        assert!(claimed.refused.is_empty(), "{:?}", claimed.refused);
        for claim in &claimed.claims {
            let id = &claim.lease.job;
            assert!(!self.acknowledged.ended.contains_key(id), "{id} was over, and is claimed again");
        }
        claimed.claims
    }

    /// The store may have carried the settlement out before its reply was lost, and then answers that the lease is lost.
    pub(super) async fn settle(&self, settlement: Settlement) -> Settled {
        let batch = [settlement];
        self.ask(async |store| store.settle(&batch).await).await.remove(0)
    }

    pub(super) async fn ack(&mut self, claim: &Claim, follow_ups: Vec<NewJob>) {
        let ids = ids(&follow_ups);
        self.settle(Settlement { follow_ups, ..Settlement::of(claim, Verdict::Ack(None), Duration::ZERO) }).await;
        self.note_ended(&claim.lease.job);
        self.note_pushed(ids);
    }

    async fn end(&self, claim: &Claim, verdict: Verdict) -> Settled {
        self.settle(Settlement::of(claim, verdict, Duration::ZERO)).await
    }

    /// Takes back what is overdue.
    async fn reap(&self) -> usize {
        let overdue = self.ask(async |store| store.overdue(&[tenant()], DEAD_AFTER, 100).await).await;
        assert!(overdue.refused.is_empty(), "{:?}", overdue.refused);
        for overdue in &overdue.jobs {
            let back = Settlement::new(overdue.claim.lease.clone(), retry(0));
            self.settle(Settlement { only_if_overdue: Some(DEAD_AFTER), ..back }).await;
        }
        overdue.jobs.len()
    }

    /// Every operation of a job's life, and of those who look after jobs.
    pub(super) async fn play(&mut self) {
        for part in PARTS {
            self.play_part(part).await;
        }
    }

    /// A part of it, which needs no other part.
    pub(super) async fn play_part(&mut self, part: Part) {
        match part {
            Part::Attempts => {
                self.attempts().await;
                self.dead_jobs().await;
            }
            Part::Changes => {
                self.changes_and_cancels().await;
                self.schedules().await;
            }
            Part::Waits => {
                self.workflows().await;
                self.keys_and_limits().await;
            }
            Part::Workers => self.workers().await,
            Part::Moves => {
                self.moves().await;
                self.raw_jobs().await;
            }
            Part::Looks => self.looks().await,
            Part::Operators => {
                self.topics_and_tokens().await;
                self.placements().await;
                self.deployments().await;
                self.bill().await;
            }
        }
    }

    async fn attempts(&mut self) {
        let mut jobs = vec![job("mail"), job("mail"), job("mail"), delayed("mail", 5), unique("mail", "u")];
        jobs.extend([of_priority(Priority::High), of_priority(Priority::Low)]);
        self.push(&jobs).await;
        self.ask(async |store| store.heartbeat(&worker()).await).await;
        for (number, claim) in self.claim(&worker(), "mail", 3).await.into_iter().enumerate() {
            let leases = [claim.lease.clone()];
            assert_eq!(self.ask(async |store| store.extend(&leases, LEASE).await).await, [true]);
            assert!(self.ask(async |store| store.checkpoint(&leases[0], b"half").await).await);
            let half = [(claim.lease.clone(), Progress { basis_points: 5_000, note: String::new() })];
            self.ask(async |store| store.note_progress(&half).await).await;
            match number {
                0 => self.ack(&claim, vec![job("next"), delayed("next", 3)]).await,
                1 => _ = self.end(&claim, retry(5)).await,
                _ => _ = self.end(&claim, Verdict::Snooze(Duration::from_millis(5))).await,
            }
        }
        self.pass(Duration::from_millis(10));
        self.ask(async |store| store.migrate(&tenant(), 100).await).await;
        if let Some(claim) = self.claim(&worker(), "mail", 1).await.first() {
            self.end(claim, Verdict::Release(Duration::ZERO)).await;
        }
        let polled = [PollTenant { tenant: tenant(), raw: Vec::new() }];
        self.ask(async |store| store.poll_work(&polled).await).await;
    }

    /// Of these follow-up jobs of a topic with three partitions, some belong where the job is not that enqueues them. Jobs have keys, so
    /// that the partitions are the same each time: the slots of `foo` and `hello` are of partition 2, that of `bar` of 0, that of `baz` of 1.
    pub(super) async fn follow_ups_elsewhere(&mut self) {
        let with_key = |mut job: NewJob, key: &str| {
            job.spec.options.key = Some(key.into());
            job
        };
        self.push(&[with_key(job("mail"), "foo"), with_key(job("mail"), "bar")]).await;
        for claim in self.claim(&worker(), "mail", 2).await {
            let follow_ups = ["foo", "bar", "baz", "hello"].map(|key| with_key(job("next"), key)).into_iter();
            self.ack(&claim, follow_ups.chain([with_key(delayed("next", 3), "bar")]).collect()).await;
        }
    }

    async fn dead_jobs(&mut self) {
        for claim in self.claim(&worker(), "mail", 2).await {
            self.end(&claim, Verdict::Bury(failure(Reason::Trap))).await;
        }
        let limits = [DeadLimits { topic: topic("mail"), keep: 100, retention: Duration::from_secs(3600) }];
        self.ask(async |store| store.sweep(&limits).await).await;
        let dead = self.ask(async |store| store.oldest_dead(&topic("mail"), 10).await).await;
        let mut dead: Vec<JobId> = dead.into_iter().map(|(_, id)| id).collect();
        if let Some(last) = dead.pop() {
            self.ask(async |store| store.delete_dead(&topic("mail"), std::slice::from_ref(&last)).await).await;
            self.note_ended(&last);
        }
        self.ask(async |store| store.respawn(&topic("mail"), &dead).await).await;
    }

    async fn changes_and_cancels(&mut self) {
        let waiting = [job("mail"), delayed("mail", 60_000)];
        self.push(&waiting).await;
        let change = JobChange { due: Some(Due::Now), priority: Some(Priority::High) };
        self.ask(async |store| store.change(&tenant(), &ids(&waiting), &change).await).await;
        self.ask(async |store| store.cancel(&tenant(), &ids(&waiting)).await).await;
        for id in ids(&waiting) {
            self.note_ended(&id);
        }
        self.push(&[job("mail")]).await;
        if let Some(claim) = self.claim(&worker(), "mail", 1).await.first() {
            let id = claim.lease.job.clone();
            self.ask(async |store| store.cancel(&tenant(), std::slice::from_ref(&id)).await).await;
            // From now on any end but an ack is the end of the job, also that of a reap.
            self.note_ended(&id);
            self.end(claim, retry(0)).await;
        }
    }

    /// A schedule has a job for a tick, and one that is run by hand.
    async fn schedules(&mut self) {
        let every = Some(Duration::from_secs(1));
        let put = ScheduleChange::Put(Box::new(Schedule { every, ..Schedule::default() }));
        self.change_schedule(put).await;
        let by_hand = JobId::generate();
        self.change_schedule(ScheduleChange::Run(by_hand.clone())).await;
        self.note_pushed(vec![by_hand.clone()]);
        self.pass(Duration::from_secs(1));
        self.ask(async |store| store.migrate(&tenant(), 100).await).await;
        let found = self.ask(async |store| store.schedules(&tenant(), Some(&schedule())).await).await;
        let fired = found[0].record.last_job.clone().filter(|job| *job != by_hand);
        self.note_pushed(vec![fired.expect("a job for the tick")]);
        self.change_schedule(ScheduleChange::Remove).await;
    }

    async fn change_schedule(&self, change: ScheduleChange) {
        self.ask(async |store| store.change_schedule(&schedule(), &change).await).await;
    }

    async fn workers(&mut self) {
        self.push(&[job("mail"), job("mail"), job("mail")]).await;
        let other = WorkerId::new("host-2-def");
        self.ask(async |store| store.heartbeat(&other).await).await;
        if let Some(server) = &self.server {
            server.set_memory(1).await;
            self.ask(async |store| store.heartbeat(&other).await).await;
            server.set_memory(0).await;
        }
        self.claim(&other, "mail", 1).await;
        self.claim(&worker(), "mail", 1).await;
        // What a runner does after an outage: it gives back what it does not know of.
        let unknown = self.ask(async |store| store.claims_of(&tenant(), &worker(), &HashSet::new()).await).await;
        for lease in unknown {
            self.settle(Settlement::new(lease, Verdict::Release(Duration::ZERO))).await;
        }
        self.pass(DEAD_AFTER);
        self.ask(async |store| store.heartbeat(&worker()).await).await;
        self.reap().await;
        self.claim(&worker(), "mail", 1).await;
        self.pass(LEASE);
        self.reap().await;
        self.ask(async |store| store.retire(&other).await).await;
    }

    async fn moves(&mut self) {
        self.push(&[job("moved"), delayed("moved", 5)]).await;
        let stored = self.ask(async |store| store.export(&topic("moved"), 10).await).await;
        let ids: Vec<JobId> = self.acknowledged.pushed.keys().cloned().collect();
        let moved: Vec<JobId> = self.listed("moved", &ids).await;
        self.ask(async |store| store.remove_exported(&topic("moved"), &moved).await).await;
        self.ask(async |store| store.import(&stored).await).await;
        // In between only the caller has them, as if they came from another store.
        self.note_pushed(moved.clone());
        self.ask(async |store| store.clear_move_marks(&tenant(), &moved).await).await;
    }

    /// Jobs of which the store learns when it looks at the topic: by a claim, and where they are to be exported.
    async fn raw_jobs(&mut self) {
        let Some(server) = &self.server else { return };
        let ids = server.write_raw(&topic(RAW)).await;
        self.note_pushed(ids);
        let polled = [PollTenant { tenant: tenant(), raw: vec![topic(RAW).topic] }];
        self.ask(async |store| store.poll_work(&polled).await).await;
        for (number, claim) in self.claim(&worker(), RAW, 2).await.into_iter().enumerate() {
            match number {
                0 => self.ack(&claim, Vec::new()).await,
                _ => _ = self.end(&claim, retry(5)).await,
            }
        }
        self.ask(async |store| store.export(&topic(RAW), 10).await).await;
        self.ask(async |store| store.migrate(&tenant(), 100).await).await;
        if let Some(claim) = self.claim(&worker(), RAW, 1).await.first() {
            self.ack(claim, Vec::new()).await;
        }
    }

    /// What operators and metrics ask, while a job runs.
    async fn looks(&mut self) {
        self.push(&[job("mail"), job("mail")]).await;
        let running = self.claim(&worker(), "mail", 1).await;
        for of in TOPICS {
            for place in [StateFilter::Ready, StateFilter::Delayed, StateFilter::Running, StateFilter::Dead] {
                self.ask(async |store| store.jobs(&topic(of), place, None, 100).await).await;
            }
        }
        for claim in &running {
            assert!(self.ask(async |store| store.job(&tenant(), &claim.lease.job).await).await.is_some());
        }
        self.ask(async |store| store.counts(&tenant()).await).await;
        self.ask(async |store| store.jobs_of_key(&topic("keyed"), "k", 10).await).await;
        self.ask(async |store| store.sweepable(&tenant(), Duration::ZERO).await).await;
        self.ask(async |store| store.stored_bytes(&tenant()).await).await;
        self.ask(async |store| store.probe().await).await;
        self.ask(async |store| store.pass_on(&[topic("mail")]).await).await;
        for claim in running {
            self.ack(&claim, Vec::new()).await;
            let ended = self.ask(async |store| store.ended(&tenant(), &claim.lease.job).await).await;
            assert!(ended.is_some(), "{} ended and is not remembered", claim.lease.job);
        }
    }

    /// Those of the jobs that wait in the topic.
    async fn listed(&self, of: &str, ids: &[JobId]) -> Vec<JobId> {
        let mut found = Vec::new();
        for place in [StateFilter::Ready, StateFilter::Delayed] {
            let page = self.ask(async |store| store.jobs(&topic(of), place, None, 100).await).await;
            found.extend(page.jobs.into_iter().map(|view| view.id));
        }
        found.retain(|id| ids.contains(id));
        found
    }

    /// Brings every job to its end, and holds the store to what it acknowledged up to `mark`.
    ///
    /// # Panics
    /// When a job that was pushed does not come, one comes twice or after its end, or something is left anywhere.
    pub(super) async fn assert_all_end_once(mut self, mark: u64) {
        let all = self.acknowledged.clone();
        self.acknowledged.ended.retain(|_, ended| *ended <= mark);
        let mut drained = BTreeSet::new();
        assert_eq!(self.ask(async |store| store.fsck().await).await.findings, []);
        // A cut may have left it paused, and with a schedule.
        self.change_schedule(ScheduleChange::Remove).await;
        self.ask(async |store| store.set_paused(&topic("mail"), false).await).await;
        for batch in &all.batches {
            self.ask(async |store| store.seal(&tenant(), batch).await).await;
        }
        loop {
            // Also the longest delay and every lease are over.
            self.pass(Duration::from_secs(120));
            self.ask(async |store| store.migrate(&tenant(), 1000).await).await;
            let polled = [PollTenant { tenant: tenant(), raw: Vec::new() }];
            self.ask(async |store| store.poll_work(&polled).await).await;
            let taken_back = self.reap().await;
            let mut found = taken_back;
            for of in TOPICS {
                let dead = self.ask(async |store| store.oldest_dead(&topic(of), 100).await).await;
                let dead: Vec<JobId> = dead.into_iter().map(|(_, id)| id).collect();
                self.ask(async |store| store.respawn(&topic(of), &dead).await).await;
                for claim in self.claim(&worker(), of, 100).await {
                    let id = claim.lease.job.clone();
                    assert!(all.pushed.contains_key(&id), "{id} was never pushed");
                    // A job that was cancelled while it ran is gone with a retry: an ack counts.
                    assert_eq!(self.end(&claim, Verdict::Ack(None)).await, Settled::Done);
                    assert!(drained.insert(id.clone()), "{id} was acked twice");
                    self.note_ended(&id);
                    found += 1;
                }
            }
            if found == 0 {
                break;
            }
        }
        for (id, pushed) in all.pushed.iter().filter(|(_, pushed)| **pushed <= mark) {
            let ended = all.ended.get(id);
            let is_over = ended.is_some_and(|ended| *ended <= mark);
            assert!(drained.contains(id) || is_over, "{id} is lost at {mark}: pushed at {pushed}, over at {ended:?}");
        }
        for counts in self.ask(async |store| store.counts(&tenant()).await).await {
            let left = counts.ready + counts.delayed + counts.running + counts.dead;
            assert_eq!(left, 0, "jobs that are counted and do not come: {counts:?}");
        }
        assert_eq!(self.ask(async |store| store.fsck().await).await.findings, []);
    }
}
