//! Schedules: records in a HASH, the next tick of each in a ZSET, and one script that compares and replaces them.
//!
//! A tenant's schedules are in its first partition, and so are the jobs that they make, even of a topic that is spread over others: one
//! script stores both. They are claimed and found like jobs from before the topic was spread.

use std::collections::{BTreeMap, HashSet};
use std::time::Duration;

use redis::pipe;

use super::clock::TimeReply;
use super::key_names::Keys;
use super::links::NamedKeys;
use super::path::push::{NewJobArgument, add_jobs};
use super::script::run::BatchCall;
use super::script::{Call, script};
use super::store::{Numbered, Partition, SCRIPT_BYTES};
use crate::schedules::{self, Step};
use crate::{ManifestStanding, ScheduleChange, ScheduleChanged, StoreError, StoredSchedule};
use gristmill_core::job::{Name, TopicId};
use gristmill_core::schedule::{Offer, Record, ScheduleId, Standing};
use gristmill_core::time::Timestamp;

const LIST: &str = "list schedules";
const CHANGE: &str = "change a schedule";
const OFFER: &str = "make the schedules of a manifest";
const FIRE: &str = "fire schedules";

/// How many schedules are fired in one round, and of them in one round trip.
const AT_ONCE: usize = 64;
const TOGETHER: usize = 8;

/// How often a step is tried whose records another process has replaced first: each time one of them has got on.
const TRIES: usize = 100;

impl Partition {
    pub(crate) async fn schedules(
        &self,
        tenant: &Name,
        only: Option<&ScheduleId>,
    ) -> Result<Vec<StoredSchedule>, StoreError> {
        let found = match only {
            Some(id) => {
                let mut ask = pipe();
                ask.cmd("HGET").arg(self.keys(tenant).schedules()).arg(field(id));
                let (record,): (Option<String>,) = self.link.query(LIST, &ask).await?;
                record.map(|record| (id.clone(), record)).into_iter().collect()
            }
            None => self.records(LIST, tenant).await?,
        };
        let read = |(id, text): (ScheduleId, String)| match schedules::read(&text) {
            Ok(record) => Ok(StoredSchedule { id, record }),
            Err(error) => Err(self.unfit(LIST, &id, error)),
        };
        found.into_iter().map(read).collect()
    }

    pub(crate) async fn change_schedule(
        &self,
        id: &ScheduleId,
        change: &ScheduleChange,
    ) -> Result<ScheduleChanged, StoreError> {
        let keys = self.keys(&id.topic.tenant);
        self.list_tenants(CHANGE, [&id.topic.tenant]).await?;
        for _ in 0..TRIES {
            let mut ask = pipe();
            ask.atomic().cmd("TIME").cmd("HGET").arg(keys.schedules()).arg(field(id)).cmd("HLEN").arg(keys.schedules());
            let (time, old, count): (TimeReply, Option<String>, usize) = self.link.query(CHANGE, &ask).await?;
            let step = schedules::change(id, old.as_deref(), count, change, self.now(time));
            let step = step.map_err(|error| self.unfit(CHANGE, id, error))?;
            if self.take(CHANGE, &id.topic, &step).await? {
                return Ok(step.answer);
            }
        }
        Err(self.contended())
    }

    pub(crate) async fn offer_schedules(
        &self,
        tenant: &Name,
        offers: &[Offer],
    ) -> Result<Vec<ManifestStanding>, StoreError> {
        for _ in 0..TRIES {
            if let Some(standings) = self.try_offer(tenant, offers).await? {
                return Ok(standings);
            }
        }
        Err(self.contended())
    }

    /// Returns `None` if another process has replaced a record first.
    async fn try_offer(&self, tenant: &Name, offers: &[Offer]) -> Result<Option<Vec<ManifestStanding>>, StoreError> {
        let mut ask = pipe();
        ask.atomic().cmd("TIME").cmd("HGETALL").arg(self.keys(tenant).manifests());
        let (time, known): (TimeReply, BTreeMap<String, String>) = self.link.query(OFFER, &ask).await?;
        let of_topic =
            |topic: &Name, error: anyhow::Error| self.refused(OFFER, error.context(format!("schedules of `{topic}`")));
        let (mut standings, mut records) = (Vec::new(), None);
        for offer in offers {
            let topic = &offer.topic.topic;
            let manifest = known.get(topic.as_str()).map(String::as_str);
            let mut step = schedules::offer(offer, manifest, &[], self.now(time));
            let takes_over = step
                .as_ref()
                .is_ok_and(|step| !step.edits.is_empty() && step.answer.standing == Some(Standing::InForce));
            if takes_over {
                if records.is_none() {
                    records = Some(self.records(OFFER, tenant).await?);
                }
                let here = records.iter().flatten().filter(|(id, _)| id.topic.topic == *topic);
                let here: Vec<_> = here.map(|(id, record)| (id.name.clone(), record.clone())).collect();
                step = schedules::offer(offer, manifest, &here, self.now(time));
            }
            let step = step.map_err(|error| of_topic(topic, error))?;
            if !step.edits.is_empty() {
                self.list_tenants(OFFER, [tenant]).await?;
            }
            if !self.take(OFFER, &offer.topic, &step).await? {
                return Ok(None);
            }
            standings.push(step.answer);
        }
        for (topic, manifest) in &known {
            let Ok(topic) = topic.parse::<Name>() else { continue };
            if offers.iter().all(|offer| offer.topic.topic != topic) {
                standings.push(schedules::without_offer(&topic, manifest).map_err(|error| of_topic(&topic, error))?);
            }
        }
        Ok(Some(standings))
    }

    /// Fires the tenant's schedules that are due, some at a time. Returns how many. `partitions`: how many the tenant has.
    pub(super) async fn fire_schedules(&self, tenant: &Name, partitions: u32) -> Result<usize, StoreError> {
        let keys = self.keys(tenant);
        let mut ask = pipe();
        ask.cmd("TIME").cmd("ZRANGE").arg(keys.ticks()).arg(0).arg(AT_ONCE - 1).arg("WITHSCORES");
        let (time, first): (TimeReply, Vec<(String, f64)>) = self.link.query(FIRE, &ask).await?;
        let now = self.now(time);
        let due = first
            .into_iter()
            .filter(|(_, due)| Duration::from_secs_f64(due.max(0.0) / 1000.0) <= now.since(Timestamp::default()));
        let due: Vec<ScheduleId> = due.filter_map(|(field, _)| schedule_id(tenant, &field)).collect();
        if due.is_empty() {
            return Ok(0);
        }
        let mut ask = pipe();
        for id in &due {
            ask.cmd("HGET").arg(keys.schedules()).arg(field(id));
        }
        let records: Vec<Option<String>> = self.link.query(FIRE, &ask).await?;
        let due: Vec<_> = due.iter().zip(records).filter_map(|(id, record)| Some((id, record?))).collect();
        let alive = self.alive_last_jobs(tenant, &due, partitions).await?;
        let (mut steps, mut bytes) = (Vec::new(), 0);
        let is_full = self.full.lock().contains(tenant);
        for (place, (id, record)) in due.iter().enumerate() {
            let is_alive = alive.contains(&place);
            let Some(step) = schedules::fire(id, record, (is_alive, is_full), now) else { continue };
            let call = self.step_call(FIRE, &id.topic, &step)?;
            steps.push(BatchCall { call, positions: vec![steps.len()], read: |reply, _| reply.yes_or_no() });
            bytes += step.jobs.iter().map(|job| job.spec.body.data.len()).sum::<usize>();
            // The others stay due.
            if bytes > SCRIPT_BYTES {
                break;
            }
        }
        let mut fired = 0;
        while !steps.is_empty() {
            let rest = steps.split_off(TOGETHER.min(steps.len()));
            let taken = self.run_batch(FIRE, std::mem::replace(&mut steps, rest)).await?;
            let ours = taken.into_iter().filter(|is_taken| *is_taken).count();
            fired += ours;
            // Another process fires them, and is ahead: what the server does for this one would hold that one up.
            if ours == 0 {
                break;
            }
        }
        Ok(fired)
    }

    /// Has the schedules wait for no tick that is further away than they ever are: the clock was set back.
    pub(super) async fn mend_schedules(&self, tenant: &Name) -> Result<(), StoreError> {
        let (time,): (TimeReply,) = self.link.query(CHANGE, pipe().cmd("TIME")).await?;
        for (id, record) in self.records(CHANGE, tenant).await? {
            // One that another process has replaced meanwhile was mended by it.
            if let Some(step) = schedules::after_set_back(&id, &record, self.now(time)) {
                self.take(CHANGE, &id.topic, &step).await?;
            }
        }
        Ok(())
    }

    /// The schedules, by position, whose last job waits or runs. It may have come from another store, into another partition.
    async fn alive_last_jobs(
        &self,
        tenant: &Name,
        schedules: &[(&ScheduleId, String)],
        partitions: u32,
    ) -> Result<HashSet<usize>, StoreError> {
        let in_the_way = schedules.iter().enumerate().filter_map(|(place, (id, record))| {
            let job = schedules::read::<Record>(record).ok().and_then(|record| record.job_in_the_way())?;
            Some((place, &id.topic.topic, job))
        });
        let (in_the_way, mut alive) = (in_the_way.collect::<Vec<_>>(), HashSet::new());
        if in_the_way.is_empty() {
            return Ok(alive);
        }
        for keys in (0..partitions).map(|number| Keys::new(&self.prefix, tenant, number)) {
            let mut ask = pipe();
            ask.atomic();
            for (_, topic, job) in &in_the_way {
                ask.cmd("HEXISTS").arg(keys.jobs()).arg(job.as_str());
                ask.cmd("ZSCORE").arg(keys.dead(topic)).arg(job.as_str());
            }
            let answers: Vec<Option<f64>> = self.link.query(FIRE, &ask).await?;
            let stored = |answer: &[Option<f64>]| matches!(answer, [Some(1.0), None]);
            let found = in_the_way.iter().zip(answers.chunks(2)).filter(|(_, answer)| stored(answer));
            alive.extend(found.map(|((place, ..), _)| *place));
        }
        Ok(alive)
    }

    /// Takes a step. Returns `false` if another process has replaced one of its records.
    async fn take<T>(&self, doing: &'static str, topic: &TopicId, step: &Step<T>) -> Result<bool, StoreError> {
        if step.edits.is_empty() {
            return Ok(true);
        }
        let call = self.step_call(doing, topic, step)?;
        Ok(self.yes_or_no(doing, call).await? == [true])
    }

    fn step_call<T>(&self, doing: &'static str, topic: &TopicId, step: &Step<T>) -> Result<Call, StoreError> {
        let keys = self.keys(&topic.tenant);
        let mut names = keys.with_rows([], [&topic.topic]);
        names.extend([keys.schedules(), keys.ticks(), keys.manifests()]);
        let mut call = Call::new(
            script!(
                "keys/line.lua",
                "keys/waiting.lua",
                "links/links.lua",
                "path/push/insert.lua",
                "schedules/schedule.lua"
            ),
            &names,
        );
        call.arg(self.now_argument()).arg(keys.wake_channel()).arg(topic.topic.as_str()).arg(step.edits.len());
        for edit in &step.edits {
            let due = edit.due.map(|due| due.as_millis().to_string()).unwrap_or_default();
            call.arg(edit.name.as_ref().map_or("", Name::as_str)).arg(edit.old.as_deref().unwrap_or_default());
            call.arg(edit.new.as_deref().unwrap_or_default()).arg(due);
        }
        let packed = step.jobs.iter().map(|job| self.pack(doing, job)).collect::<Result<Vec<_>, _>>()?;
        let jobs = step.jobs.iter().zip(&packed);
        let jobs: Vec<_> =
            jobs.map(|(job, packed)| NewJobArgument { job, packed, follows: None, is_elsewhere: false }).collect();
        add_jobs(&mut call, &jobs, &mut Numbered(vec![&topic.topic]), &NamedKeys::default());
        Ok(call)
    }

    async fn records(&self, doing: &'static str, tenant: &Name) -> Result<Vec<(ScheduleId, String)>, StoreError> {
        let mut ask = pipe();
        ask.cmd("HGETALL").arg(self.keys(tenant).schedules());
        let (records,): (BTreeMap<String, String>,) = self.link.query(doing, &ask).await?;
        let mut records: Vec<_> =
            records.into_iter().filter_map(|(field, record)| Some((schedule_id(tenant, &field)?, record))).collect();
        records.sort_unstable();
        Ok(records)
    }

    fn unfit(&self, doing: &'static str, id: &ScheduleId, error: anyhow::Error) -> StoreError {
        self.refused(doing, error.context(format!("schedule {id}")))
    }

    /// Many processes change the same schedule at once. One of them gets on each time, so trying again helps.
    fn contended(&self) -> StoreError {
        let source = anyhow::anyhow!("other processes change the same schedule all the time");
        StoreError::Unavailable { store: self.link.address.clone(), source }
    }
}

fn field(ScheduleId { topic, name }: &ScheduleId) -> String {
    format!("{}/{name}", topic.topic)
}

fn schedule_id(tenant: &Name, field: &str) -> Option<ScheduleId> {
    let (topic, name) = field.split_once('/')?;
    Some(ScheduleId { topic: TopicId { tenant: tenant.clone(), topic: topic.parse().ok()? }, name: name.parse().ok()? })
}
