//! Push: from jobs to bounded calls of `push_plain.lua`, where all jobs of a call are plain, or of `push.lua`.

use async_trait::async_trait;
use redis::{RedisResult, Value};

use super::envelope;
use super::error::unexpected;
use super::gather::is_small;
use super::keys::Keys;
use super::reply::Reply;
use super::run::{Part, positions};
use super::script::{Call, script};
use super::store::{Numbered, RedisStore, by_tenant};
use crate::batch::{STEP, Weight, parts as cut};
use crate::clock::{point_ms, wait_ms};
use crate::{Push, Pushed, StoreError};
use gristmill_core::job::{Due, JobSpec, Name, NewJob, Priority, Unique};

const DOING: &str = "push jobs";

/// A job's position in the batch, the job, and its envelope.
type Packed<'a> = (usize, (&'a NewJob, Vec<u8>));

#[async_trait]
impl Push for RedisStore {
    async fn push(&self, jobs: &[NewJob]) -> Result<Vec<Pushed>, StoreError> {
        match jobs {
            [job] if is_small(job) => self.push_gathered(job).await,
            jobs => self.push_batch(jobs).await,
        }
    }
}

impl RedisStore {
    pub(super) async fn push_batch(&self, jobs: &[NewJob]) -> Result<Vec<Pushed>, StoreError> {
        let groups = by_tenant(jobs, |job| &job.spec.topic.tenant);
        self.list_tenants(DOING, groups.keys().copied()).await?;
        let mut parts = Vec::new();
        for (tenant, group) in groups {
            let keys = self.keys(tenant);
            let packed = group.into_iter().map(|(position, job)| Ok((position, (job, self.pack(DOING, job)?))));
            let packed = packed.collect::<Result<Vec<_>, StoreError>>()?;
            for (part, _) in cut(packed, STEP, |(_, (job, _))| Weight::of_new(job)) {
                if part.iter().all(|(_, (job, _))| is_plain(job)) {
                    let call = self.push_plain_call(&keys, &part);
                    parts.push(Part { call, positions: positions(&part), read: read_known });
                } else {
                    let call = self.push_call(&keys, &part);
                    parts.push(Part { call, positions: positions(&part), read });
                }
            }
        }
        self.run_parts_acknowledged(DOING, parts).await
    }

    pub(super) fn pack(&self, doing: &'static str, job: &NewJob) -> Result<Vec<u8>, StoreError> {
        envelope::write(&job.spec).map_err(|error| self.refused(doing, error))
    }

    /// `jobs` are plain.
    fn push_plain_call(&self, keys: &Keys, jobs: &[Packed<'_>]) -> Call {
        let mut topics: Numbered<&Name> = Numbered(Vec::new());
        let same_topic = |(_, (one, _)): &Packed<'_>, (_, (next, _)): &Packed<'_>| one.spec.topic == next.spec.topic;
        let mut runs = Vec::new();
        for run in jobs.chunk_by(same_topic) {
            runs.extend(run.first().map(|(_, (job, _))| (topics.number(&job.spec.topic.topic), run)));
        }
        let names = keys.with_rows([], topics.0.iter().copied());
        let mut call = Call::new(script!("waiting.lua", "push_plain.lua"), &names);
        call.arg(self.now_argument()).arg(keys.wake_channel()).topics(&topics.0);
        for (topic, run) in runs {
            call.arg(topic).arg(run.len());
            for (_, (job, packed)) in run {
                call.arg(job.spec.id.as_str()).arg(packed);
            }
        }
        call
    }

    fn push_call(&self, keys: &Keys, jobs: &[Packed<'_>]) -> Call {
        let mut topics: Numbered<&Name> = Numbered(Vec::new());
        let numbers: Vec<usize> = jobs.iter().map(|(_, (job, _))| topics.number(&job.spec.topic.topic)).collect();
        let mut call =
            Call::new(script!("waiting.lua", "insert.lua", "push.lua"), &keys.with_rows([], topics.0.iter().copied()));
        call.arg(self.now_argument()).arg(keys.wake_channel()).topics(&topics.0);
        for ((_, (job, packed)), topic) in jobs.iter().zip(numbers) {
            add_job(&mut call, topic, job, packed);
        }
        call
    }
}

/// Whether a job is like most: due now, of normal priority, and without a unique value.
fn is_plain(job: &NewJob) -> bool {
    let is_due = matches!(job.due, Due::Now) || matches!(job.due, Due::After(wait) if wait.is_zero());
    is_due && job.spec.priority == Priority::Normal && job.spec.unique.is_none()
}

/// A new job as `push.lua` and `settle.lua` take it.
pub(super) fn add_job(call: &mut Call, topic: usize, job: &NewJob, packed: &[u8]) {
    let due = match job.due {
        Due::Now => String::new(),
        Due::After(wait) if wait.is_zero() => String::new(),
        Due::After(wait) => format!("+{}", wait_ms(wait)),
        Due::At(at) => point_ms(at).to_string(),
    };
    call.arg(topic).arg(job.spec.id.as_str()).arg(due).arg(priority(&job.spec));
    call.arg(job.spec.unique.as_ref().map(held).unwrap_or_default()).arg(packed);
}

/// A priority as scripts take it: empty for the usual one.
pub(super) fn priority(spec: &JobSpec) -> &'static str {
    match spec.priority {
        Priority::Normal => "",
        other => other.as_str(),
    }
}

/// A unique value as `insert.lua` takes it: for how long, and which.
pub(super) fn held(unique: &Unique) -> String {
    match unique.window {
        None => [":", &unique.value].concat(),
        Some(window) => format!("{}:{}", wait_ms(window), unique.value),
    }
}

/// Reads what `push_plain.lua` answered to so many jobs.
fn read_known(known: Reply, jobs: usize) -> RedisResult<Vec<Pushed>> {
    known.all_but(jobs, Pushed::Stored, &Pushed::Exists)
}

fn read(mut reply: Reply, _: usize) -> RedisResult<Vec<Pushed>> {
    let mut answers = Vec::new();
    while !reply.is_empty() {
        answers.push(match reply.value()? {
            Value::Int(1) => Pushed::Stored,
            Value::Int(0) => Pushed::Exists,
            Value::BulkString(id) => {
                let id = String::from_utf8(id).ok().and_then(|id| id.parse().ok());
                Pushed::Duplicate(id.ok_or_else(|| unexpected("what holds a unique value is no job"))?)
            }
            _ => return Err(unexpected("push.lua answered something else")),
        });
    }
    Ok(answers)
}
