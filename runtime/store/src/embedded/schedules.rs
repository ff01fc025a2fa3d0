//! Schedules: rows of two tables, changed in the transaction that stores their jobs.

use async_trait::async_trait;
use rusqlite::{Connection, OptionalExtension, params};

use super::fault::{Done, Fault};
use super::file::request::Weight;
use super::path::push::pack;
use super::row::{at, ms};
use super::store::EmbeddedStore;
use super::work::Work;
use crate::schedules::{self, Edit, Step};
use crate::{
    ManifestSchedules, ManifestStanding, ScheduleChange, ScheduleChanged, Schedules, Signal, StoreError, StoredSchedule,
};
use gristmill_core::job::{JobId, Name, TopicId};
use gristmill_core::schedule::{Offer, Record, ScheduleId};
use gristmill_core::time::Timestamp;

/// How many schedules one request fires: each may store a hundred jobs.
const AT_ONCE: usize = 10;

/// A schedule's record.
const FIND: &str = "SELECT record FROM schedules WHERE tenant = ?1 AND topic = ?2 AND name = ?3";

/// How many schedules a tenant has.
const COUNT: &str = "SELECT count(*) FROM schedules WHERE tenant = ?1";

/// A tenant's schedules, or those of one topic, or one.
const LIST: &str = "SELECT topic, name, record FROM schedules
                    WHERE tenant = ?1 AND (?2 IS NULL OR topic = ?2) AND (?3 IS NULL OR name = ?3) ORDER BY topic, name";

/// The schedules of a tenant that are due.
const DUE: &str = "SELECT topic, name, record FROM schedules WHERE tenant = ?1 AND due <= ?2 ORDER BY due LIMIT ?3";

/// All schedules that wait for a tick.
const WAITING: &str = "SELECT tenant, topic, name, record FROM schedules WHERE due IS NOT NULL";

/// When the first schedule of a tenant is due.
pub(super) const FIRST: &str = "SELECT min(due) FROM schedules WHERE tenant = ?1 AND due IS NOT NULL";

/// Stores a schedule.
const PUT: &str = "INSERT INTO schedules (tenant, topic, name, due, record) VALUES (?1, ?2, ?3, ?4, ?5)
                   ON CONFLICT (tenant, topic, name) DO UPDATE SET due = excluded.due, record = excluded.record";

/// Removes a schedule.
const REMOVE: &str = "DELETE FROM schedules WHERE tenant = ?1 AND topic = ?2 AND name = ?3";

/// The schedules that manifests have given a tenant's topics.
const MANIFESTS: &str = "SELECT topic, record FROM manifest_schedules WHERE tenant = ?1 ORDER BY topic";

/// Stores which manifest is in force in a topic.
const PUT_MANIFEST: &str = "INSERT INTO manifest_schedules (tenant, topic, record) VALUES (?1, ?2, ?3)
                            ON CONFLICT (tenant, topic) DO UPDATE SET record = excluded.record";

/// Forgets the schedules that manifests have given a topic.
const REMOVE_MANIFEST: &str = "DELETE FROM manifest_schedules WHERE tenant = ?1 AND topic = ?2";

/// Whether a job waits or runs.
const IS_ALIVE: &str = "SELECT dead_since IS NULL FROM job_rows WHERE id = ?1 AND tenant = ?2";

#[async_trait]
impl Schedules for EmbeddedStore {
    async fn schedules(&self, tenant: &Name, only: Option<&ScheduleId>) -> Result<Vec<StoredSchedule>, StoreError> {
        let (tenant, only) = (tenant.clone(), only.cloned());
        self.read_list("list schedules", move |connection, _| {
            let (topic, name) = only.as_ref().map(|id| (&id.topic.topic, &id.name)).unzip();
            let read = |(id, text): (ScheduleId, String)| {
                Ok(StoredSchedule { record: schedules::read(&text).map_err(|error| unfit(&id, &error))?, id })
            };
            list(connection, &tenant, topic, name)?.into_iter().map(read).collect()
        })
        .await
    }

    async fn change_schedule(&self, id: &ScheduleId, change: &ScheduleChange) -> Result<ScheduleChanged, StoreError> {
        let (id, change) = (id.clone(), change.clone());
        self.write("change a schedule", Weight::default(), move |work| {
            let old = work.schedule(&id)?;
            let mut count = work.connection.prepare_cached(COUNT)?;
            let count: i64 = count.query_row([id.topic.tenant.as_str()], |row| row.get(0))?;
            let others = usize::try_from(count).unwrap_or(usize::MAX);
            let step = schedules::change(&id, old.as_deref(), others, &change, work.now());
            work.take(&id.topic, step.map_err(|error| unfit(&id, &error))?)
        })
        .await
    }
}

#[async_trait]
impl ManifestSchedules for EmbeddedStore {
    async fn offer_schedules(&self, tenant: &Name, offers: &[Offer]) -> Result<Vec<ManifestStanding>, StoreError> {
        let (tenant, offers) = (tenant.clone(), offers.to_vec());
        let of_topic =
            |topic: &Name, error: anyhow::Error| Fault::Refused(format!("schedules of `{topic}`: {error:#}"));
        self.write("make the schedules of a manifest", Weight::default(), move |work| {
            let known = manifests(work.connection, &tenant)?;
            let mut standings = Vec::new();
            for offer in &offers {
                let topic = &offer.topic.topic;
                let manifest = known.iter().find(|(known, _)| known == topic).map(|(_, record)| record.as_str());
                let rows = list(work.connection, &tenant, Some(topic), None)?;
                let rows: Vec<_> = rows.into_iter().map(|(id, text)| (id.name, text)).collect();
                let step = schedules::offer(offer, manifest, &rows, work.now());
                standings.push(work.take(&offer.topic, step.map_err(|error| of_topic(topic, error))?)?);
            }
            for (topic, record) in &known {
                if offers.iter().all(|offer| offer.topic.topic != *topic) {
                    standings.push(schedules::without_offer(topic, record).map_err(|error| of_topic(topic, error))?);
                }
            }
            Ok(standings)
        })
        .await
    }
}

impl Work<'_> {
    fn schedule(&self, ScheduleId { topic, name }: &ScheduleId) -> Done<Option<String>> {
        let mut find = self.connection.prepare_cached(FIND)?;
        Ok(find.query_row([&topic.tenant, &topic.topic, name].map(Name::as_str), |row| row.get(0)).optional()?)
    }

    /// Takes a step whose records were read in this transaction.
    fn take<T>(&mut self, topic: &TopicId, step: Step<T>) -> Done<T> {
        for edit in &step.edits {
            self.write_schedule(topic, edit)?;
        }
        for job in pack(&step.jobs)? {
            self.push(&job, false)?;
        }
        let earliest = step.edits.iter().filter_map(|edit| edit.due).min();
        self.signals
            .extend(earliest.map(|due| Signal::Due { tenant: topic.tenant.clone(), wait: self.time.until(due) }));
        Ok(step.answer)
    }

    /// Has the schedules wait for no tick that is further away than they ever are: the clock was set back.
    pub(super) fn mend_schedules(&mut self) -> Done<()> {
        let mut select = self.connection.prepare(WAITING)?;
        let rows =
            select.query_map([], |row| Ok((row.get::<_, String>(0)?, (row.get(1)?, row.get(2)?, row.get(3)?))))?;
        for (tenant, row) in rows.collect::<Result<Vec<_>, _>>()? {
            let Ok(tenant) = tenant.parse::<Name>() else { continue };
            for (id, text) in named(&tenant, vec![row]) {
                if let Some(step) = schedules::after_set_back(&id, &text, self.now()) {
                    self.take(&id.topic, step)?;
                }
            }
        }
        Ok(())
    }

    fn write_schedule(&self, topic: &TopicId, Edit { name, new, due, .. }: &Edit) -> Done<()> {
        let (tenant, topic) = (topic.tenant.as_str(), topic.topic.as_str());
        let prepare = |sql| self.connection.prepare_cached(sql);
        match (name.as_ref().map(Name::as_str), new) {
            (Some(name), Some(record)) => prepare(PUT)?.execute(params![tenant, topic, name, due.map(ms), record])?,
            (Some(name), None) => prepare(REMOVE)?.execute([tenant, topic, name])?,
            (None, Some(record)) => prepare(PUT_MANIFEST)?.execute([tenant, topic, record])?,
            (None, None) => prepare(REMOVE_MANIFEST)?.execute([tenant, topic])?,
        };
        Ok(())
    }

    /// Fires the tenant's schedules that are due. Returns how many.
    pub(super) fn fire_schedules(&mut self, tenant: &Name, is_full: bool) -> Done<usize> {
        if self.first_schedule(tenant)?.is_none_or(|first| first > self.now()) {
            return Ok(0);
        }
        let mut select = self.connection.prepare_cached(DUE)?;
        let values = params![tenant.as_str(), ms(self.now()), super::row::limit(AT_ONCE)];
        let due = select.query_map(values, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        let due: Vec<_> = named(tenant, due.collect::<Result<Vec<_>, _>>()?);
        let fired = due.len();
        for (id, text) in due {
            let last = schedules::read::<Record>(&text).ok().and_then(|record| record.job_in_the_way());
            let is_alive = last.map_or(Ok(false), |job| self.is_alive(tenant, &job))?;
            if let Some(step) = schedules::fire(&id, &text, (is_alive, is_full), self.now()) {
                self.take(&id.topic, step)?;
            }
        }
        Ok(fired)
    }

    /// When the tenant's first schedule is due.
    pub(super) fn first_schedule(&self, tenant: &Name) -> Done<Option<Timestamp>> {
        first_schedule(self.connection, tenant)
    }

    fn is_alive(&self, tenant: &Name, job: &JobId) -> Done<bool> {
        let mut find = self.connection.prepare_cached(IS_ALIVE)?;
        let found = find.query_row([job.as_str(), tenant.as_str()], |row| row.get(0)).optional()?;
        Ok(found.unwrap_or(false))
    }
}

/// When the tenant's first schedule is due.
pub(super) fn first_schedule(connection: &Connection, tenant: &Name) -> Done<Option<Timestamp>> {
    let first: Option<i64> = connection.prepare_cached(FIRST)?.query_row([tenant.as_str()], |row| row.get(0))?;
    Ok(first.map(at))
}

/// A tenant's schedules with their records; all, those of a topic, or those of a name.
fn list(
    connection: &Connection,
    tenant: &Name,
    topic: Option<&Name>,
    name: Option<&Name>,
) -> Done<Vec<(ScheduleId, String)>> {
    let mut select = connection.prepare_cached(LIST)?;
    let values = params![tenant.as_str(), topic.map(Name::as_str), name.map(Name::as_str)];
    let rows = select.query_map(values, |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
    Ok(named(tenant, rows.collect::<Result<_, _>>()?))
}

/// Rows with names that are names.
fn named(tenant: &Name, rows: Vec<(String, String, String)>) -> Vec<(ScheduleId, String)> {
    let id = |topic: &str, name: &str| {
        Some(ScheduleId {
            topic: TopicId { tenant: tenant.clone(), topic: topic.parse().ok()? },
            name: name.parse().ok()?,
        })
    };
    rows.into_iter().filter_map(|(topic, name, record)| Some((id(&topic, &name)?, record))).collect()
}

fn manifests(connection: &Connection, tenant: &Name) -> Done<Vec<(Name, String)>> {
    let mut select = connection.prepare_cached(MANIFESTS)?;
    let rows = select.query_map([tenant.as_str()], |row| Ok((row.get::<_, String>(0)?, row.get(1)?)))?;
    let rows = rows.collect::<Result<Vec<_>, _>>()?;
    Ok(rows.into_iter().filter_map(|(topic, record)| Some((topic.parse().ok()?, record))).collect())
}

fn unfit(id: &ScheduleId, error: &anyhow::Error) -> Fault {
    Fault::Refused(format!("schedule {id}: {error:#}"))
}
