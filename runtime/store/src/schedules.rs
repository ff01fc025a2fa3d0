//! Schedules: when topics get jobs without a producer. [`FindWork::migrate`](crate::FindWork::migrate) fires them.
//!
//! A schedule is a record that each change replaces. The changes are pure functions of `gristmill-core`; a store compares the record
//! that a change began with, and replaces it, in one step with the jobs that come with the change. So a tick has its jobs once,
//! however many runners deal with it.

use std::collections::HashSet;
use std::time::Duration;

use parking_lot::Mutex;
use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::error::StoreError;
use super::operations::operations;
use gristmill_core::job::{JobId, Name, NewJob};
use gristmill_core::schedule::{
    ManifestRecord, NewFiring, Offer, Origin, Record, SCHEDULES_PER_TENANT, Schedule, ScheduleId, Standing,
};
use gristmill_core::time::Timestamp;

operations! {
    parts:
    /// Schedules, as people see and change them.
    pub trait Schedules {
        /// The tenant's schedules, in order of topic and name; or one of them, if it is there.
        async fn schedules(
            &self,
            tenant: &Name,
            only: Option<&ScheduleId>,
        ) -> Result<Vec<StoredSchedule>, StoreError> [partitions current; ask tenant: by_id];

        /// Changes a schedule, in one step with the job that comes with [`ScheduleChange::Run`].
        ///
        /// A call that failed may have had its effect. Repeated, [`ScheduleChange::Run`] with the same id pushes no second job.
        async fn change_schedule(
            &self,
            schedule: &ScheduleId,
            change: &ScheduleChange,
        ) -> Result<ScheduleChanged, StoreError> [shards by hand; current schedule];
    }
}

operations! {
    parts:
    /// Schedules that manifests make.
    pub trait ManifestSchedules {
        /// Has the schedules of topics be what a manifest says, unless the store has seen a later manifest: see [`ManifestRecord`].
        /// Schedules that manifests made and that the offer does not have are removed.
        ///
        /// Returns a line for each topic for which some manifest has spoken, and for each offer.
        async fn offer_schedules(&self, tenant: &Name, offers: &[Offer]) -> Result<Vec<ManifestStanding>, StoreError>
            [shards by hand; current tenant];
    }
}

/// A schedule and what the store knows of it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct StoredSchedule {
    /// The topic and the name.
    #[serde(flatten)]
    pub id: ScheduleId,
    /// What it says, and what it did.
    #[serde(flatten)]
    pub record: Record,
}

/// What becomes of a schedule.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ScheduleChange {
    /// It is made, or redefined: a manifest's is refused.
    Put(Box<Schedule>),
    /// It fires no more.
    Pause,
    /// It fires again. What was due meanwhile is forgotten.
    Resume,
    /// It gets a job of this id now.
    Run(JobId),
    /// It is removed: a manifest's is refused.
    Remove,
    /// It is about to move into another store, and fires no more here.
    Export,
    /// It has come from another store: it is made unless it is there and fires.
    Import(Box<Record>),
    /// It has moved into another store: it is removed if it was about to.
    RemoveExported,
}

/// What a change did with a schedule.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
#[serde(rename_all = "kebab-case")]
pub enum ScheduleChanged {
    /// It was made.
    Made,
    /// It was changed, run or removed.
    Changed,
    /// It was like that already.
    Unchanged,
    /// There is no such schedule.
    Unknown,
    /// Only a manifest changes it.
    OfManifest,
    /// The tenant has [`SCHEDULES_PER_TENANT`] of them.
    TooMany,
}

/// Which manifest's schedules are in force in a topic.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ManifestStanding {
    /// The topic.
    pub topic: Name,
    /// How the offer stands; `None` if there was none for this topic.
    pub standing: Option<Standing>,
    /// Grows while processes back the schedules in force.
    pub backed: u64,
}

/// A step of one topic's schedules, to be taken if every record is what it was: all of it or nothing.
#[derive(Debug)]
pub(crate) struct Step<T> {
    pub(crate) edits: Vec<Edit>,
    pub(crate) jobs: Vec<NewJob>,
    pub(crate) answer: T,
}

/// A record that is replaced.
#[derive(Debug)]
pub(crate) struct Edit {
    /// `None`: the topic's [`ManifestRecord`].
    pub(crate) name: Option<Name>,
    /// As it was; `None` if there was none.
    pub(crate) old: Option<String>,
    /// As it is to be; `None` if there is to be none.
    pub(crate) new: Option<String>,
    /// When it is due.
    pub(crate) due: Option<Timestamp>,
}

/// After this long a schedule that this process cannot read is due again.
const UNREADABLE_FOR: Duration = Duration::from_secs(60);

impl<T> Step<T> {
    const fn nothing(answer: T) -> Self {
        Self { edits: Vec::new(), jobs: Vec::new(), answer }
    }
}

impl Edit {
    fn schedule(name: &Name, old: Option<&str>, record: &Record) -> anyhow::Result<Self> {
        let new = Some(serde_json::to_string(record)?);
        Ok(Self { name: Some(name.clone()), old: old.map(str::to_owned), new, due: record.awaited() })
    }

    fn removal(name: &Name, old: &str) -> Self {
        Self { name: Some(name.clone()), old: Some(old.to_owned()), new: None, due: None }
    }
}

/// A record as it is stored.
pub(crate) fn read<T: DeserializeOwned>(record: &str) -> anyhow::Result<T> {
    serde_json::from_str(record).map_err(|error| anyhow::anyhow!("its record cannot be read: {error}"))
}

/// Which step a change of a schedule is. `old`: its record. `others`: how many schedules the tenant has.
pub(crate) fn change(
    ScheduleId { name, topic }: &ScheduleId,
    old: Option<&str>,
    others: usize,
    change: &ScheduleChange,
    now: Timestamp,
) -> anyhow::Result<Step<ScheduleChanged>> {
    let id = ScheduleId { name: name.clone(), topic: topic.clone() };
    let replaced = |record: Record, jobs: Vec<NewJob>, answer| {
        Ok(Step { edits: vec![Edit::schedule(name, old, &record)?], jobs, answer })
    };
    let Some(text) = old else {
        return match change {
            ScheduleChange::Put(_) if others >= SCHEDULES_PER_TENANT => Ok(Step::nothing(ScheduleChanged::TooMany)),
            ScheduleChange::Put(schedule) => {
                replaced(Record::new((**schedule).clone(), Origin::Api, now)?, Vec::new(), ScheduleChanged::Made)
            }
            ScheduleChange::Import(record) => replaced(record.arrived(), Vec::new(), ScheduleChanged::Made),
            _ => Ok(Step::nothing(ScheduleChanged::Unknown)),
        };
    };
    let record = read::<Record>(text);
    if let (ScheduleChange::Remove, Err(_)) = (change, &record) {
        return Ok(Step { edits: vec![Edit::removal(name, text)], jobs: Vec::new(), answer: ScheduleChanged::Changed });
    }
    let record = record?;
    let of_manifest = record.origin == Origin::Manifest;
    let next = match change {
        ScheduleChange::Put(_) | ScheduleChange::Remove if of_manifest => {
            return Ok(Step::nothing(ScheduleChanged::OfManifest));
        }
        ScheduleChange::Put(schedule) => record.redefined(schedule, Origin::Api, now)?,
        ScheduleChange::Pause => record.paused(true, now)?,
        ScheduleChange::Resume => record.paused(false, now)?,
        ScheduleChange::Run(job) if record.last_job.as_ref() == Some(job) => None,
        ScheduleChange::Run(job) => {
            let NewFiring { record, jobs } = record.run(&id, job, now);
            return replaced(record, jobs, ScheduleChanged::Changed);
        }
        ScheduleChange::Export => (!record.moving).then(|| record.on_its_way()),
        // Left by a move that was interrupted, or this store is the one that it moves out of.
        ScheduleChange::Import(moved) => record.moving.then(|| moved.arrived()),
        ScheduleChange::RemoveExported if !record.moving => None,
        ScheduleChange::Remove | ScheduleChange::RemoveExported => {
            let edits = vec![Edit::removal(name, text)];
            return Ok(Step { edits, jobs: Vec::new(), answer: ScheduleChanged::Changed });
        }
    };
    match next {
        Some(record) => replaced(record, Vec::new(), ScheduleChanged::Changed),
        None => Ok(Step::nothing(ScheduleChanged::Unchanged)),
    }
}

/// Which step a due schedule is. `None` if it is not due. `is_alive`: its last job waits or runs; `is_full`: the tenant may not have more jobs.
pub(crate) fn fire(id: &ScheduleId, text: &str, (is_alive, is_full): (bool, bool), now: Timestamp) -> Option<Step<()>> {
    let fired = || -> anyhow::Result<Option<Step<()>>> {
        let Some(NewFiring { record, jobs }) = read::<Record>(text)?.fire(id, (is_alive, is_full), now)? else {
            return Ok(None);
        };
        Ok(Some(Step { edits: vec![Edit::schedule(&id.name, Some(text), &record)?], jobs, answer: () }))
    };
    fired().unwrap_or_else(|error| {
        tracing::warn!(topic = %id.topic, schedule = %id.name, "cannot fire here, and is tried again in a minute: {error:#}");
        let (text, due) = (Some(text.to_owned()), Some(now.plus(UNREADABLE_FOR)));
        let edit = Edit { name: Some(id.name.clone()), old: text.clone(), new: text, due };
        Some(Step { edits: vec![edit], jobs: Vec::new(), answer: () })
    })
}

/// Notes whether a tenant has as much in the store as it may.
pub(crate) fn note_full(full: &Mutex<HashSet<Name>>, tenant: &Name, is_full: bool) {
    let mut full = full.lock();
    if is_full {
        full.insert(tenant.clone());
    } else {
        full.remove(tenant);
    }
}

/// Which step a schedule is whose store's clock was set back. `None`: it stays as it is.
pub(crate) fn after_set_back(id: &ScheduleId, text: &str, now: Timestamp) -> Option<Step<()>> {
    let mended = || -> anyhow::Result<Option<Step<()>>> {
        let Some(record) = read::<Record>(text)?.after_set_back(now)? else { return Ok(None) };
        Ok(Some(Step { edits: vec![Edit::schedule(&id.name, Some(text), &record)?], jobs: Vec::new(), answer: () }))
    };
    // One that cannot be read is looked at when it is due.
    mended().unwrap_or_default()
}

/// How an offer stands, and what is to be written for it. `schedules`: the topic's, of which an offer that takes over needs to know.
pub(crate) fn offer(
    offer: &Offer,
    manifest: Option<&str>,
    schedules: &[(Name, String)],
    now: Timestamp,
) -> anyhow::Result<Step<ManifestStanding>> {
    let before = manifest.map_or_else(|| Ok(ManifestRecord::default()), read::<ManifestRecord>)?;
    let topic = offer.topic.topic.clone();
    if manifest.is_none() && offer.schedules.is_empty() {
        let standing = Some(Standing::InForce);
        return Ok(Step::nothing(ManifestStanding { topic, standing, backed: 0 }));
    }
    let (after, standing) = before.after(offer);
    let mut edits = Vec::new();
    if after.digest != before.digest {
        let find = |name: &Name| schedules.iter().find(|(known, _)| known == name).map(|(_, text)| text.as_str());
        for (name, schedule) in &offer.schedules {
            let old = find(name);
            let record = match old.map(read::<Record>).transpose()? {
                Some(record) => record.redefined(schedule, Origin::Manifest, now)?,
                None => Some(Record::new(schedule.clone(), Origin::Manifest, now)?),
            };
            edits.extend(record.map(|record| Edit::schedule(name, old, &record)).transpose()?);
        }
        for (name, text) in schedules.iter().filter(|(name, _)| !offer.schedules.contains_key(name)) {
            if read::<Record>(text)?.origin == Origin::Manifest {
                edits.push(Edit::removal(name, text));
            }
        }
    }
    if after != before {
        // One that takes over from processes that have ended, and has nothing to defend against them, leaves no trace.
        let is_last_word = offer.insist && offer.schedules.is_empty();
        let new = if is_last_word { None } else { Some(serde_json::to_string(&after)?) };
        edits.push(Edit { name: None, old: manifest.map(str::to_owned), new, due: None });
    }
    let answer = ManifestStanding { topic, standing: Some(standing), backed: after.backed };
    Ok(Step { edits, jobs: Vec::new(), answer })
}

/// How a topic stands for which there was no offer.
pub(crate) fn without_offer(topic: &Name, manifest: &str) -> anyhow::Result<ManifestStanding> {
    let ManifestRecord { backed, .. } = read(manifest)?;
    Ok(ManifestStanding { topic: topic.clone(), standing: None, backed })
}

/// Moves a tenant's schedules, or one of them, into another store: none fires in both, and none is lost however often the move is
/// interrupted and begun again.
///
/// # Errors
/// A store is unavailable or refuses.
pub async fn move_schedules<F, T>(
    from: &F,
    to: &T,
    tenant: &Name,
    only: Option<&ScheduleId>,
) -> Result<usize, StoreError>
where
    F: Schedules + ?Sized,
    T: Schedules + ?Sized,
{
    let schedules = from.schedules(tenant, only).await?;
    let count = schedules.len();
    for StoredSchedule { id, .. } in schedules {
        from.change_schedule(&id, &ScheduleChange::Export).await?;
        // As it is now: it may have fired meanwhile.
        for StoredSchedule { record, .. } in from.schedules(tenant, Some(&id)).await? {
            to.change_schedule(&id, &ScheduleChange::Import(Box::new(record))).await?;
        }
        from.change_schedule(&id, &ScheduleChange::RemoveExported).await?;
    }
    Ok(count)
}
