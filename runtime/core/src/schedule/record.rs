//! What a store keeps of a schedule, and how it changes. Pure: each change is a new record, with the jobs that come with it.

use std::collections::BTreeMap;
use std::time::Duration;

use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use sha2::{Digest, Sha256};

use super::{BadSchedule, Due, Overlap, Schedule, ScheduleId};
use crate::job::{Due as JobDue, JobId, JobOptions, JobSpec, Name, NewJob, TopicId};
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
        let options = JobOptions { ttl: self.ttl, ..JobOptions::default() };
        JobSpec { id: job, topic: topic.clone(), body: self.body.clone(), metadata: self.metadata.clone(), options }
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
#[path = "tests/record.rs"]
mod tests;
