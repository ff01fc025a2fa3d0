//! What a store keeps of a schedule, and how it changes. Pure: each change is a new record, with the jobs that come with it.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{BadSchedule, Due, Overlap, Schedule, ScheduleId};
use crate::job::{Due as JobDue, JobId, JobSpec, Name, NewJob, TopicId};
use crate::time::{Timestamp, millis};

/// How many firings are remembered.
const REMEMBERED: usize = 10;

/// How many digests of earlier manifests are remembered.
const SUPERSEDED: usize = 16;

/// A schedule whose clock was set back may stand still for so long.
const STANDS_STILL: Duration = Duration::from_secs(300);

/// A schedule as it is stored.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Record {
    /// What it says.
    pub schedule: Schedule,
    /// Who made it.
    pub origin: Origin,
    /// It fires only when it is run by hand.
    pub paused: bool,
    /// It is on its way into another store, where it fires.
    #[serde(default)]
    pub moving: bool,
    /// Grows by one with each change.
    pub revision: u64,
    /// The tick that is next. `None` if none comes, or none is waited for.
    #[serde(rename = "next_ms")]
    pub next: Option<Timestamp>,
    /// The job that it made last.
    pub last_job: Option<JobId>,
    /// What it did last, the latest first: at most ten.
    pub firings: Vec<Firing>,
}

/// Who made a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema, strum::Display)]
#[serde(rename_all = "kebab-case")]
#[strum(serialize_all = "kebab-case")]
pub enum Origin {
    /// A manifest, which alone changes and removes it.
    Manifest,
    /// A client of the API, or a command.
    Api,
}

/// What a schedule did at a tick.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct Firing {
    /// The tick; the time of the request if it was run by hand.
    #[serde(rename = "tick_ms")]
    pub tick: Timestamp,
    /// When it was dealt with.
    #[serde(rename = "at_ms")]
    pub at: Timestamp,
    /// What it came to.
    #[serde(flatten)]
    pub result: FiringResult,
}

/// What a tick came to.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(tag = "result", rename_all = "kebab-case")]
pub enum FiringResult {
    /// A job.
    Job {
        /// Its id.
        job: JobId,
    },
    /// No job: the one before was not over (`overlap = "skip"`).
    Overlap {
        /// The job that was not over.
        job: JobId,
    },
    /// No job: the tenant has as much in the store as its limits allow.
    TenantFull,
    /// No job: this tick and those right before it were missed.
    Missed,
}

/// What firing comes to: the record to store, with these jobs.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct NewFiring {
    /// The record to store.
    pub record: Record,
    /// To be pushed in the same step.
    pub jobs: Vec<NewJob>,
}

impl Record {
    /// A new schedule.
    ///
    /// # Errors
    /// It makes no sense.
    pub fn new(schedule: Schedule, origin: Origin, now: Timestamp) -> Result<Self, BadSchedule> {
        let next = schedule.ticks()?.next_after(now);
        Ok(Self {
            schedule,
            origin,
            paused: false,
            moving: false,
            revision: 1,
            next,
            last_job: None,
            firings: Vec::new(),
        })
    }

    /// The schedule, redefined. It remains the same one, with its firings and its pause. If its ticks are others, those that were
    /// due before `now` are forgotten. Returns `None` if it says so already.
    ///
    /// # Errors
    /// It makes no sense.
    pub fn redefined(&self, schedule: &Schedule, origin: Origin, now: Timestamp) -> Result<Option<Self>, BadSchedule> {
        if (&self.schedule, self.origin) == (schedule, origin) {
            return Ok(None);
        }
        let ticks = schedule.ticks()?;
        let mut record = self.next_revision();
        if !self.schedule.has_ticks_of(schedule) && self.waits() {
            record.next = ticks.next_after(now);
        }
        (record.schedule, record.origin) = (schedule.clone(), origin);
        Ok(Some(record))
    }

    /// The schedule, paused or resumed: what was due meanwhile is forgotten. Returns `None` if it is like that already.
    ///
    /// # Errors
    /// It makes no sense to this version.
    pub fn paused(&self, paused: bool, now: Timestamp) -> Result<Option<Self>, BadSchedule> {
        if self.paused == paused {
            return Ok(None);
        }
        let mut record = Self { paused, ..self.next_revision() };
        record.next = if record.waits() { self.schedule.ticks()?.next_after(now) } else { None };
        Ok(Some(record))
    }

    /// The schedule on its way into another store: no tick is waited for here.
    #[must_use]
    pub fn on_its_way(&self) -> Self {
        Self { moving: true, ..self.next_revision() }
    }

    /// The schedule as it arrives in its new store.
    #[must_use]
    pub fn arrived(&self) -> Self {
        Self { moving: false, ..self.next_revision() }
    }

    /// The tick that a store waits for.
    pub fn awaited(&self) -> Option<Timestamp> {
        self.next.filter(|_| self.waits())
    }

    /// The last job, if the next tick gets none while it waits or runs.
    pub fn job_in_the_way(self) -> Option<JobId> {
        self.last_job.filter(|_| self.schedule.overlap == Overlap::Skip)
    }

    /// The schedule after its store's clock was set back to `now`. Returns `None` if it stays as it is: no tick is repeated unless the
    /// schedule would stand still for longer than from one tick to the next but one, and for some minutes.
    ///
    /// # Errors
    /// It makes no sense to this version.
    pub fn after_set_back(&self, now: Timestamp) -> Result<Option<Self>, BadSchedule> {
        let Some(next) = self.awaited().filter(|next| next.since(now) > STANDS_STILL) else { return Ok(None) };
        let ticks = self.schedule.ticks()?;
        let first = ticks.next_after(now);
        let second = first.and_then(|first| ticks.next_after(first));
        if second.is_none_or(|second| next <= second) {
            return Ok(None);
        }
        Ok(Some(Self { next: first, ..self.next_revision() }))
    }

    const fn waits(&self) -> bool {
        !self.paused && !self.moving
    }

    fn next_revision(&self) -> Self {
        Self { revision: self.revision.saturating_add(1), ..self.clone() }
    }

    /// What follows at `now`. Returns `None` if no tick is due. `is_alive`: the last job waits or runs. `is_full`: the tenant may not
    /// have more jobs.
    ///
    /// # Errors
    /// The schedule makes no sense to this version: a later one made it, or its time zone is gone.
    pub fn fire(
        &self,
        id: &ScheduleId,
        (is_alive, is_full): (bool, bool),
        now: Timestamp,
    ) -> Result<Option<NewFiring>, BadSchedule> {
        let Some(first) = self.awaited().filter(|first| *first <= now) else { return Ok(None) };
        let Due { ticks, missed, next } = self.schedule.ticks()?.due(first, now, self.schedule.missed);
        let (mut record, mut jobs) = (self.next_revision(), Vec::new());
        record.next = next;
        if let Some(tick) = missed {
            record.remember(Firing { tick, at: now, result: FiringResult::Missed });
        }
        let mut alive = self.last_job.clone().filter(|_| is_alive);
        for tick in ticks {
            if self.schedule.overlap == Overlap::Skip
                && let Some(job) = alive.clone()
            {
                record.remember(Firing { tick, at: now, result: FiringResult::Overlap { job } });
                continue;
            }
            if is_full {
                record.remember(Firing { tick, at: now, result: FiringResult::TenantFull });
                continue;
            }
            let job = self.schedule.job(id, tick);
            alive = Some(job.spec.id.clone());
            record.made(tick, now, &job);
            jobs.push(job);
        }
        Ok(Some(NewFiring { record, jobs }))
    }

    /// The schedule, run by hand at `now`: one job more, due at once.
    pub fn run(&self, id: &ScheduleId, job: &JobId, now: Timestamp) -> NewFiring {
        let job = NewJob { spec: self.schedule.spec(id, job.clone()), due: JobDue::Now };
        let mut record = self.next_revision();
        record.made(now, now, &job);
        NewFiring { record, jobs: vec![job] }
    }

    fn made(&mut self, tick: Timestamp, at: Timestamp, job: &NewJob) {
        self.last_job = Some(job.spec.id.clone());
        self.remember(Firing { tick, at, result: FiringResult::Job { job: job.spec.id.clone() } });
    }

    fn remember(&mut self, firing: Firing) {
        self.firings.truncate(REMEMBERED - 1);
        self.firings.insert(0, firing);
    }
}

impl Schedule {
    /// The job of a tick. Its id names schedule and tick, so that no store takes it twice.
    fn job(&self, id: &ScheduleId, tick: Timestamp) -> NewJob {
        let digest = Sha256::digest(format!("{}/{}/{}", id.topic.tenant, id.topic.topic, id.name));
        let own = hex::encode(digest.get(..8).unwrap_or_default());
        let job = format!("schedule-{own}-{}", tick.as_millis()).parse().unwrap_or_else(|_| JobId::generate());
        let due = JobDue::At(Timestamp::from_millis(tick.as_millis().saturating_add(self.shift(&digest, tick))));
        NewJob { spec: self.spec(id, job), due }
    }

    /// How much later than its tick a job is due, ms: up to the jitter, evenly, and the same on every runner.
    fn shift(&self, of: &[u8], tick: Timestamp) -> u64 {
        let digest = Sha256::new_with_prefix(of).chain_update(tick.as_millis().to_be_bytes()).finalize();
        let number = digest.iter().take(8).fold(0, |number, byte| number << 8 | u64::from(*byte));
        number % millis(self.jitter).saturating_add(1)
    }

    /// A job such as each tick gets, of which only the id is another.
    pub fn spec(&self, ScheduleId { topic, .. }: &ScheduleId, job: JobId) -> JobSpec {
        let spec = JobSpec::new(topic.clone(), self.body.clone());
        JobSpec { id: job, metadata: self.metadata.clone(), ttl: self.ttl, ..spec }
    }
}

/// What a manifest says of a topic's schedules: all of them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Offer {
    /// The topic.
    pub topic: TopicId,
    /// Its schedules, by name.
    pub schedules: BTreeMap<Name, Schedule>,
    /// Stands for [`Self::schedules`].
    pub digest: String,
    /// What this process offered before.
    pub replaces: Option<String>,
    /// What the store answered last: if no other process has backed the manifest in force since then, this one does.
    pub seen: Option<u64>,
    /// Take over from a manifest that no process backs any more.
    pub insist: bool,
}

impl Offer {
    /// An offer of what a manifest says, made for the first time. `digest_of` gives a text that is the same for equal schedules
    /// only.
    pub fn new(topic: TopicId, schedules: BTreeMap<Name, Schedule>, digest_of: impl AsRef<[u8]>) -> Self {
        let digest = Sha256::digest(digest_of);
        let digest = hex::encode(digest.get(..16).unwrap_or_default());
        Self { topic, schedules, digest, replaces: None, seen: None, insist: false }
    }
}

/// Which manifest's schedules are in force in a topic, as it is stored.
///
/// There is no clock that all manifests share, and a deployment replaces runners one by one. So a manifest that is new to the store
/// wins, one that was replaced loses, and it wins again when no process backs the one in force any more.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ManifestRecord {
    /// The digest of the schedules in force.
    pub digest: String,
    /// Grows while processes back the schedules in force.
    pub backed: u64,
    /// The digests of those that were in force before, the latest last.
    pub superseded: Vec<String>,
}

/// How a topic's schedules stand after an offer.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Standing {
    /// Those of the offer are in force.
    InForce,
    /// The store has seen a later manifest.
    Superseded,
}

impl ManifestRecord {
    /// The record after an offer, and how the offer stands. An offer that takes over has to be carried out.
    pub fn after(&self, offer: &Offer) -> (Self, Standing) {
        let mut record = self.clone();
        if self.digest == offer.digest {
            if offer.seen == Some(self.backed) {
                record.backed = self.backed.saturating_add(1);
            }
            return (record, Standing::InForce);
        }
        let is_old = self.superseded.contains(&offer.digest);
        let was_ours = offer.replaces.as_ref() == Some(&self.digest);
        if is_old && !was_ours && !offer.insist {
            return (record, Standing::Superseded);
        }
        record.superseded.retain(|digest| *digest != offer.digest);
        record.superseded.push(std::mem::replace(&mut record.digest, offer.digest.clone()));
        let over = record.superseded.len().saturating_sub(SUPERSEDED);
        record.superseded.drain(..over);
        record.backed = self.backed.saturating_add(1);
        (record, Standing::InForce)
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    const HOUR: u64 = 3_600_000;

    fn at(ms: u64) -> Timestamp {
        Timestamp::from_millis(ms)
    }

    fn id() -> ScheduleId {
        ScheduleId { topic: "acme/report".parse().unwrap(), name: "nightly".parse().unwrap() }
    }

    fn hourly() -> Schedule {
        Schedule { every: Some(Duration::from_secs(3600)), ..Schedule::default() }
    }

    fn record(schedule: Schedule) -> Record {
        Record::new(schedule, Origin::Api, at(HOUR + 1)).unwrap()
    }

    #[test]
    fn a_tick_makes_one_job_and_moves_the_schedule_on() {
        let record = record(hourly());
        assert_eq!(record.awaited(), Some(at(2 * HOUR)));
        assert_eq!(record.fire(&id(), (false, false), at(2 * HOUR - 1)).unwrap(), None);
        let NewFiring { record, jobs } = record.fire(&id(), (false, false), at(2 * HOUR)).unwrap().unwrap();
        assert_eq!((jobs.len(), jobs[0].due), (1, JobDue::At(at(2 * HOUR))));
        assert_eq!((record.awaited(), record.revision), (Some(at(3 * HOUR)), 2));
        assert_eq!(
            record.fire(&id(), (true, false), at(HOUR)).unwrap(),
            None,
            "a clock that is set back repeats no tick"
        );
        let again = record.fire(&id(), (true, false), at(3 * HOUR)).unwrap().unwrap();
        assert_ne!(again.jobs[0].spec.id, jobs[0].spec.id);
        assert_eq!(again.record.firings.len(), 2);
    }

    #[test]
    fn a_tick_is_skipped_while_the_last_job_lives() {
        let record = record(Schedule { overlap: Overlap::Skip, ..hourly() });
        let NewFiring { record, jobs } = record.fire(&id(), (true, false), at(2 * HOUR)).unwrap().unwrap();
        assert_eq!(jobs.len(), 1, "there is no last job");
        let skipped = record.fire(&id(), (true, false), at(3 * HOUR)).unwrap().unwrap();
        assert_eq!(skipped.jobs, []);
        assert_eq!(skipped.record.firings[0].result, FiringResult::Overlap { job: jobs[0].spec.id.clone() });
        assert_eq!(skipped.record.awaited(), Some(at(4 * HOUR)));
        assert_eq!(record.fire(&id(), (false, false), at(3 * HOUR)).unwrap().unwrap().jobs.len(), 1);
    }

    #[test]
    fn a_tick_is_skipped_while_the_tenant_is_full() {
        let NewFiring { record, jobs } = record(hourly()).fire(&id(), (false, true), at(2 * HOUR)).unwrap().unwrap();
        assert_eq!((jobs.len(), &record.firings[0].result), (0, &FiringResult::TenantFull));
        assert_eq!((record.awaited(), record.last_job.clone()), (Some(at(3 * HOUR)), None));
        assert_eq!(record.fire(&id(), (false, false), at(3 * HOUR)).unwrap().unwrap().jobs.len(), 1);
    }

    #[test]
    fn a_changed_schedule_is_the_same_one() {
        let record = record(hourly()).fire(&id(), (false, false), at(2 * HOUR)).unwrap().unwrap().record;
        assert_eq!(record.redefined(&hourly(), Origin::Api, at(9 * HOUR)).unwrap(), None);
        let body = crate::job::Payload { data: b"x".to_vec(), content_type: None };
        let other_body = Schedule { body, ..hourly() };
        let changed = record.redefined(&other_body, Origin::Api, at(9 * HOUR)).unwrap().unwrap();
        assert_eq!((changed.awaited(), changed.firings.len()), (Some(at(3 * HOUR)), 1), "it is still due");
        let other_ticks = Schedule { every: Some(Duration::from_secs(7200)), ..hourly() };
        let changed = record.redefined(&other_ticks, Origin::Manifest, at(9 * HOUR)).unwrap().unwrap();
        assert_eq!((changed.awaited(), changed.firings.len()), (Some(at(10 * HOUR)), 1));
        let paused = record.paused(true, at(9 * HOUR)).unwrap().unwrap();
        let changed = paused.redefined(&other_ticks, Origin::Api, at(9 * HOUR)).unwrap().unwrap();
        assert_eq!((changed.paused, changed.awaited()), (true, None));
    }

    #[test]
    fn what_was_due_during_a_pause_is_forgotten() {
        let record = record(hourly());
        assert_eq!(record.paused(false, at(HOUR)).unwrap(), None);
        let paused = record.paused(true, at(HOUR)).unwrap().unwrap();
        assert_eq!(paused.fire(&id(), (false, false), at(9 * HOUR)).unwrap(), None);
        assert_eq!(paused.run(&id(), &JobId::generate(), at(9 * HOUR)).jobs.len(), 1, "it is run by hand all the same");
        assert_eq!(paused.paused(false, at(9 * HOUR)).unwrap().unwrap().awaited(), Some(at(10 * HOUR)));
    }

    #[test]
    fn a_schedule_on_its_way_fires_where_it_arrives() {
        let record = record(hourly());
        let leaving = record.on_its_way();
        assert_eq!(leaving.awaited(), None);
        assert_eq!(leaving.arrived().awaited(), record.awaited());
    }

    #[test]
    fn jitter_makes_jobs_due_later_and_differs_from_tick_to_tick() {
        let schedule = Schedule { jitter: Duration::from_millis(99), ..hourly() };
        let shift = |tick: u64| match schedule.job(&id(), at(tick)).due {
            JobDue::At(due) => due.since(at(tick)).as_millis(),
            _ => panic!("it is due at a time"),
        };
        let shifts: std::collections::BTreeSet<_> = (1..2000).map(|n| shift(n * HOUR)).collect();
        assert_eq!((shifts.first(), shifts.last(), shifts.len()), (Some(&0), Some(&99), 100));
        assert_eq!(shift(HOUR), shift(HOUR));
    }

    #[test]
    fn the_last_ten_firings_are_remembered_the_latest_first() {
        let mut record = record(hourly());
        for n in 2..20 {
            record = record.fire(&id(), (false, false), at(n * HOUR)).unwrap().unwrap().record;
        }
        assert_eq!(record.firings.len(), 10);
        assert_eq!((record.firings[0].tick, record.firings[9].tick), (at(19 * HOUR), at(10 * HOUR)));
        let read: Record = serde_json::from_str(&serde_json::to_string(&record).unwrap()).unwrap();
        assert_eq!(read, record);
    }

    #[test]
    fn manifests_in_a_rollout_do_not_alternate() {
        let offer = |text: &str| Offer::new("report".parse().unwrap(), BTreeMap::new(), text);
        let (old, new) = (offer("old"), offer("new"));
        let (record, standing) = ManifestRecord::default().after(&old);
        assert_eq!((standing, &record.digest), (Standing::InForce, &old.digest));
        let (record, standing) = record.after(&new);
        assert_eq!((standing, &record.digest), (Standing::InForce, &new.digest));
        assert_eq!(record.after(&old), (record.clone(), Standing::Superseded));
        let insisting = Offer { insist: true, ..old.clone() };
        assert_eq!(record.after(&insisting).0.digest, old.digest, "no process backs the new one");
        let rolled_back = Offer { replaces: Some(new.digest.clone()), ..old.clone() };
        assert_eq!(record.after(&rolled_back).0.digest, old.digest, "the process that had the new one has this now");
        assert_eq!(record.after(&rolled_back).0.after(&new).1, Standing::Superseded);
    }

    #[test]
    fn a_manifest_in_force_is_backed_once_per_look() {
        let offer = Offer::new("report".parse().unwrap(), BTreeMap::new(), "one");
        let record = ManifestRecord::default().after(&offer).0;
        let look = |seen| record.after(&Offer { seen, ..offer.clone() }).0.backed - record.backed;
        assert_eq!((look(None), look(Some(record.backed)), look(Some(record.backed + 1))), (0, 1, 0));
    }

    #[test]
    fn the_digests_of_few_manifests_are_remembered() {
        let mut record = ManifestRecord::default();
        for n in 0..100 {
            record = record.after(&Offer::new("report".parse().unwrap(), BTreeMap::new(), format!("{n}"))).0;
        }
        assert_eq!(record.superseded.len(), SUPERSEDED);
    }
}
