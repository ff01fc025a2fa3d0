//! Sends this worker's heartbeats, and takes back the jobs of dead workers and overrun leases.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::sync::watch;
use tokio::time::Instant;

use super::decide::decide;
use super::lease_extender::extend_all;
use crate::context::Context;
use crate::journal::{AttemptLine, Journal};
use crate::record::AttemptRecord;
use crate::tenants;
use gristmill_core::job::{Lease, Name};
use gristmill_core::outcome::Outcome;
use gristmill_store::{Overdue, OverdueJobs, Settled, Settlement, StoreError};

/// How often a worker says that it lives, while it has jobs in hand.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// How often it does so and looks for overdue jobs while no job runs anywhere: a job that begins to run after a look has a worker that
/// was alive at that time. Short enough that this worker can judge all the while.
const IDLE_HEARTBEAT: Duration = Duration::from_millis(3500);
/// A worker that was silent for this long is dead: three heartbeats missed.
pub(crate) const DEAD_AFTER: Duration = Duration::from_secs(7);
/// Jobs taken back in one go.
const AT_ONCE: usize = 500;
/// Tenants in one call of the store.
const TENANTS_AT_ONCE: usize = 256;

/// The reaping loop's own things.
pub(crate) struct Reaper {
    pub(crate) context: Context,
    pub(crate) journal: Option<Journal>,
}

/// What one call of the store found.
#[derive(Debug, Default)]
struct Reaped {
    /// There may be more: the tenants are asked for one by one.
    one_by_one: bool,
    taken_back: usize,
    /// No job runs.
    none_run: bool,
}

/// Whether this worker can conclude from silence that others are dead.
#[derive(Debug)]
struct PeerTimeout {
    /// The store's returns.
    returns: watch::Receiver<u64>,
    /// When the store last took a heartbeat of this worker.
    last_heartbeat: Instant,
    trust_from: Instant,
    /// When the servers of these tenants were last unavailable, while others answered.
    unavailable: Mutex<HashMap<Name, Instant>>,
}

impl PeerTimeout {
    fn new(returns: watch::Receiver<u64>, now: Instant) -> Self {
        Self { returns, last_heartbeat: now, trust_from: now, unavailable: Mutex::default() }
    }

    /// Notes a heartbeat, and whether the store took it. Returns whether the store is available again after an outage.
    fn note_heartbeat(&mut self, taken: bool, now: Instant) -> bool {
        let is_back = self.returns.has_changed().unwrap_or_default();
        // After an outage every heartbeat is old and many leases have run out: the other workers get time to return first.
        if !taken || is_back {
            self.returns.mark_unchanged();
            self.trust_from = now + DEAD_AFTER;
        }
        if taken {
            self.last_heartbeat = now;
        }
        is_back
    }

    /// A worker that could not reach the store for a while must not conclude from silence that others are dead, nor from a
    /// lease that ran out meanwhile that its attempt is lost: those workers extend and settle as soon as they reach the store.
    fn can_judge(&self, now: Instant) -> bool {
        now >= self.trust_from && now.duration_since(self.last_heartbeat) <= 2 * HEARTBEAT
    }

    fn note_unavailable(&self, tenant: Name, now: Instant) {
        let mut unavailable = self.unavailable.lock();
        unavailable.retain(|_, last| now < *last + DEAD_AFTER);
        unavailable.insert(tenant, now);
    }

    /// The same of one tenant: whether its server, of several, has been there for long enough.
    fn can_judge_of(&self, tenant: &Name, now: Instant) -> bool {
        self.unavailable.lock().get(tenant).is_none_or(|last| now >= *last + DEAD_AFTER)
    }
}

impl Reaper {
    /// Beats and reaps until stopped.
    pub(crate) async fn run(self) {
        let (mut peer_timeout, outside) =
            (PeerTimeout::new(self.context.retry.returns(), Instant::now()), self.context.tenants.outside());
        while let Some(taken) = self.beat().await {
            self.note_beat(&mut peer_timeout, taken).await;
            let tenants: Vec<Name> = tenants::all(&self.context.registry.borrow(), &outside).into_iter().collect();
            let mut is_idle = true;
            for tenants in tenants.chunks(TENANTS_AT_ONCE) {
                let reaped = self.reap(tenants, &peer_timeout).await;
                is_idle &= reaped.none_run;
                // One by one, so that a tenant with many overdue jobs does not stop the others.
                for tenant in tenants.iter().filter(|_| reaped.one_by_one) {
                    self.reap_all(tenant, &peer_timeout).await;
                    if !self.beat_if_due(&mut peer_timeout).await {
                        return;
                    }
                }
                // A thousand tenants on a distant store take longer than a heartbeat may.
                if !self.beat_if_due(&mut peer_timeout).await {
                    return;
                }
            }
            let (ended, jitter) = (Instant::now(), 0.9 + fastrand::f64() / 5.0);
            loop {
                let pause = if is_idle { IDLE_HEARTBEAT } else { HEARTBEAT };
                tokio::select! {
                    () = tokio::time::sleep_until(ended + pause.mul_f64(jitter)) => break,
                    () = self.context.in_flight.until_some(), if is_idle => is_idle = false,
                    // Ends of leases that were given out over HTTP: pull workers send no heartbeats.
                    tenant = self.context.tenants.next_end() => self.reap_all(&tenant, &peer_timeout).await,
                    () = self.context.stop.cancelled() => return,
                }
            }
        }
    }

    /// Beats if the last heartbeat is old. Returns `false` if the runner was stopped.
    async fn beat_if_due(&self, peer_timeout: &mut PeerTimeout) -> bool {
        if peer_timeout.last_heartbeat.elapsed() > HEARTBEAT {
            let Some(taken) = self.beat().await else { return false };
            self.note_beat(peer_timeout, taken).await;
        }
        true
    }

    /// After an outage, prolongs the leases in hand before any worker judges: they may have run out meanwhile, or because the store's
    /// clock was set.
    async fn note_beat(&self, peer_timeout: &mut PeerTimeout, taken: bool) {
        if peer_timeout.note_heartbeat(taken, Instant::now()) {
            extend_all(&self.context).await;
        }
    }

    /// Reaps as long as more is found and taken back.
    async fn reap_all(&self, tenant: &Name, peer_timeout: &PeerTimeout) {
        while !self.context.stop.is_cancelled() {
            let reaped = self.reap(std::slice::from_ref(tenant), peer_timeout).await;
            if !reaped.one_by_one || reaped.taken_back == 0 {
                return;
            }
        }
    }

    /// Whether the store took it; none: stopped.
    async fn beat(&self) -> Option<bool> {
        let answer = self.context.retry.call(|| self.context.store.heartbeat(&self.context.worker)).await?;
        Some(match answer {
            Ok(()) => true,
            Err(error) => {
                tracing::error!("failed to say that this worker lives: {:#}", anyhow::Error::from(error));
                false
            }
        })
    }

    /// Takes overdue jobs of these tenants back, if this worker can judge.
    async fn reap(&self, tenants: &[Name], peer_timeout: &PeerTimeout) -> Reaped {
        if !peer_timeout.can_judge(Instant::now()) {
            return Reaped::default();
        }
        // Not tried again: after an outage the other workers need time to send heartbeats.
        let OverdueJobs { jobs: mut overdue, refused, none_run } =
            match self.context.store.overdue(tenants, DEAD_AFTER, AT_ONCE).await {
                Ok(overdue) => overdue,
                Err(error) => {
                    self.put_off(error);
                    return Reaped::default();
                }
            };
        for (tenant, error) in refused {
            if error.is_unavailable() {
                // The look for work says so, once.
                tracing::debug!(%tenant, "failed to look for overdue jobs: {:#}", anyhow::Error::from(error));
                peer_timeout.note_unavailable(tenant, Instant::now());
                continue;
            }
            tracing::error!(%tenant, "failed to look for overdue jobs: {:#}", anyhow::Error::from(error));
        }
        // A store also stops at a bound in bytes: a short answer does not mean that these are all.
        let one_by_one = !overdue.is_empty();
        let now = Instant::now();
        overdue.retain(|overdue| peer_timeout.can_judge_of(&overdue.claim.lease.topic.tenant, now));
        // This worker lives, whatever heartbeats of it the store has.
        overdue.retain(|overdue| !overdue.worker_died || overdue.claim.lease.worker != self.context.worker);
        if overdue.is_empty() {
            return Reaped { one_by_one, none_run, ..Reaped::default() };
        }
        let settlements: Vec<Settlement> = overdue.iter().map(|overdue| self.decide(overdue)).collect();
        let answers = match self.context.store.settle(&settlements).await {
            Ok(answers) => answers,
            Err(error) => {
                self.put_off(error);
                // The data of one tenant may be damaged: the others are not to wait for it.
                return Reaped { one_by_one: true, ..Reaped::default() };
            }
        };
        let done = answers.into_iter().map(|answer| answer == Settled::Done);
        let taken_back = overdue.into_iter().zip(settlements).zip(done).filter(|(_, done)| *done);
        let records: Vec<_> = taken_back.map(|((overdue, settlement), _)| record(overdue, settlement)).collect();
        records.iter().for_each(|record| self.note(record));
        if let Some(journal) = &self.journal {
            journal.append(records.iter().map(AttemptLine::from));
        }
        if let Some(recent) = &self.context.recent {
            recent.add(records.iter().map(|record| (record, None)));
        }
        Reaped { one_by_one, taken_back: records.len(), none_run }
    }

    fn note(&self, record: &AttemptRecord) {
        let Lease { job, topic, worker, .. } = &record.claim.lease;
        self.context.metrics.topic(topic).attempt(&record.measured());
        self.context.bill.add(topic, record.day(), record.cost());
        self.context.metrics.emit(|| record.taken_back_event());
        record.event().into_iter().for_each(|event| self.context.metrics.emit(|| event));
        tracing::warn!(%topic, %job, %worker, verdict = record.verdict.name(), "taken back from a lost worker");
    }

    /// What is overdue is found again in the next round; to insist would keep this worker from saying that it lives.
    fn put_off(&self, error: StoreError) {
        if error.is_unavailable() {
            self.context.retry.note_unavailable(error);
        } else {
            tracing::error!("failed to take jobs back: {:#}", anyhow::Error::from(error));
        }
    }

    fn decide(&self, overdue: &Overdue) -> Settlement {
        let entry = self.context.registry.borrow().get(&overdue.claim.lease.topic).cloned();
        let topic = entry.as_deref().map(|entry| &entry.topic);
        let settlement = decide(&overdue.claim, topic, outcome(overdue), Vec::new());
        Settlement { only_if_overdue: Some(DEAD_AFTER), ..settlement }
    }
}

fn outcome(overdue: &Overdue) -> Outcome {
    if overdue.worker_died { Outcome::WorkerDied } else { Outcome::LeaseExpired }
}

/// What is known of an attempt whose worker was lost.
fn record(overdue: Overdue, settlement: Settlement) -> AttemptRecord {
    let (outcome, settled) = (outcome(&overdue).kind(), Some(Settled::Done));
    AttemptRecord { claim: Arc::new(overdue.claim), run: None, outcome, verdict: settlement.verdict, settled }
}

#[cfg(test)]
mod tests {

    use gristmill_core::job::{Due, JobSpec, NewJob, Payload};
    use gristmill_store::embedded::EmbeddedStore;
    use gristmill_store::prelude::*;
    use gristmill_store::{ClaimFrom, Clock, ManualClock};

    use super::*;

    #[tokio::test]
    async fn what_runs_keeps_its_lease_after_an_outage() {
        let clock = Arc::new(ManualClock::new(1_800_000_000_000));
        let store = EmbeddedStore::in_memory().await.unwrap().with_clock(Clock::Manual(Arc::clone(&clock)));
        let reaper = Reaper { context: Context::of(Arc::new(store.clone())), journal: None };
        let spec = JobSpec::new("t".parse().unwrap(), Payload::default());
        let from = [ClaimFrom::new(spec.topic.clone(), 1, Duration::from_secs(10))];
        store.push(&[NewJob { spec, due: Due::Now }]).await.unwrap();
        let claimed = store.claim(&reaper.context.worker, &from).await.unwrap();
        reaper.context.in_flight.take(claimed.claims);
        clock.pass(60_000);

        let tenants = [from[0].topic.tenant.clone()];
        let overdue = async || store.overdue(&tenants, DEAD_AFTER, 9).await.unwrap().jobs.len();
        let (outages, returns) = watch::channel(0);
        let mut peer_timeout = PeerTimeout::new(returns, Instant::now());
        reaper.note_beat(&mut peer_timeout, true).await;
        assert_eq!(overdue().await, 1);
        outages.send_replace(1);
        reaper.note_beat(&mut peer_timeout, true).await;
        assert_eq!(overdue().await, 0);
        assert!(!peer_timeout.can_judge(Instant::now()));
    }

    #[test]
    fn the_workers_of_a_tenant_get_time_after_its_server_was_unavailable() {
        let now = Instant::now();
        let peer_timeout = PeerTimeout::new(watch::channel(0).1, now);
        let [gone, other]: [Name; 2] = ["gone", "other"].map(|name| name.parse().unwrap());
        peer_timeout.note_unavailable(gone.clone(), now);
        assert!(peer_timeout.can_judge(now) && peer_timeout.can_judge_of(&other, now));
        assert!(!peer_timeout.can_judge_of(&gone, now + DEAD_AFTER - Duration::from_millis(1)));
        assert!(peer_timeout.can_judge_of(&gone, now + DEAD_AFTER));
    }

    #[test]
    fn a_worker_that_could_not_reach_the_store_waits_for_the_others_before_it_judges() {
        let (store, returns) = watch::channel(0);
        let mut now = Instant::now();
        let mut peer_timeout = PeerTimeout::new(returns, now);
        assert!(peer_timeout.can_judge(now));
        // This process, or its store, stood still.
        now += 3 * HEARTBEAT;
        assert!(!peer_timeout.can_judge(now));
        peer_timeout.note_heartbeat(true, now);
        assert!(peer_timeout.can_judge(now));
        // The store was unavailable, whichever loop saw it.
        store.send_replace(1);
        peer_timeout.note_heartbeat(true, now);
        assert!(!peer_timeout.can_judge(now));
        for _ in 0..4 {
            now += HEARTBEAT;
            peer_timeout.note_heartbeat(true, now);
        }
        assert!(peer_timeout.can_judge(now));
        peer_timeout.note_heartbeat(false, now);
        assert!(!peer_timeout.can_judge(now));
    }
}
