//! Push: from jobs to bounded calls of `push.lua`.

use redis::{RedisResult, Value};

use super::envelope;
use super::error::unexpected;
use super::keys::Keys;
use super::reply::Reply;
use super::script::{Call, PUSH};
use super::store::{CALLS_AT_ONCE, Numbered, RedisStore, SCRIPT_BYTES, SCRIPT_JOBS, by_tenant, in_order};
use crate::clock::{point_ms, wait_ms};
use crate::{Pushed, StoreError};
use gristmill_core::job::{Due, JobSpec, Name, NewJob, Priority, Unique};

const DOING: &str = "push jobs";

/// A job, its place in the batch, and its envelope.
type Packed<'a> = (usize, &'a NewJob, Vec<u8>);

impl RedisStore {
    pub(super) async fn push_jobs(&self, jobs: &[NewJob]) -> Result<Vec<Pushed>, StoreError> {
        let mut answers = Vec::with_capacity(jobs.len());
        for (tenant, group) in by_tenant(jobs, |job| &job.spec.topic.tenant) {
            let keys = self.keys(tenant);
            let packed = group.into_iter().map(|(place, job)| Ok((place, job, self.pack(DOING, job)?)));
            let chunks = chunk(packed.collect::<Result<_, StoreError>>()?);
            for chunks in chunks.chunks(CALLS_AT_ONCE) {
                let calls = chunks.iter().map(|jobs| self.push_call(&keys, jobs)).collect();
                let replies = self.link.run(DOING, calls).await?;
                for (jobs, reply) in chunks.iter().zip(replies) {
                    let pushed = read(reply).map_err(self.misread(DOING))?;
                    answers.extend(jobs.iter().map(|(place, ..)| *place).zip(pushed));
                }
            }
        }
        Ok(in_order(answers))
    }

    pub(super) fn pack(&self, doing: &'static str, job: &NewJob) -> Result<Vec<u8>, StoreError> {
        envelope::write(&job.spec).map_err(|error| self.refused(doing, error))
    }

    fn push_call(&self, keys: &Keys, jobs: &[Packed<'_>]) -> Call {
        let mut topics: Numbered<&Name> = Numbered(Vec::new());
        let numbers: Vec<usize> = jobs.iter().map(|(_, job, _)| topics.number(&job.spec.topic.topic)).collect();

        let mut names = keys.waiting();
        for topic in &topics.0 {
            names.extend(keys.row(topic));
        }
        let mut call = Call::new(&PUSH, &names);
        call.arg(self.now_argument()).arg(keys.wake_channel()).arg(topics.0.len());
        for topic in &topics.0 {
            call.arg(topic.as_str());
        }
        for ((_, job, packed), topic) in jobs.iter().zip(numbers) {
            add_job(&mut call, topic, job, packed);
        }
        call
    }
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

/// Cuts a batch into what one script call may carry each.
fn chunk(jobs: Vec<Packed<'_>>) -> Vec<Vec<Packed<'_>>> {
    let mut chunks: Vec<Vec<Packed<'_>>> = Vec::new();
    let mut bytes = 0;
    for job in jobs {
        match chunks.last_mut() {
            Some(chunk) if chunk.len() < SCRIPT_JOBS && bytes + job.2.len() <= SCRIPT_BYTES => {
                bytes += job.2.len();
                chunk.push(job);
            }
            _ => {
                bytes = job.2.len();
                chunks.push(vec![job]);
            }
        }
    }
    chunks
}

fn read(reply: Value) -> RedisResult<Vec<Pushed>> {
    let mut reply = Reply::new(reply)?;
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

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_core::job::Payload;

    #[test]
    fn chunks_are_bounded_in_jobs_and_bytes() {
        let job = NewJob { spec: JobSpec::new("a".parse().unwrap(), Payload::default()), due: Due::Now };
        let sizes = |lengths: &[usize]| -> Vec<usize> {
            let packed = lengths.iter().enumerate().map(|(place, bytes)| (place, &job, vec![0; *bytes]));
            chunk(packed.collect()).iter().map(Vec::len).collect()
        };
        assert_eq!(sizes(&[]), Vec::<usize>::new());
        assert_eq!(sizes(&[1; SCRIPT_JOBS]), [SCRIPT_JOBS]);
        assert_eq!(sizes(&[1; SCRIPT_JOBS + 1]), [SCRIPT_JOBS, 1]);
        assert_eq!(sizes(&[SCRIPT_BYTES / 2, SCRIPT_BYTES / 2]), [2]);
        assert_eq!(sizes(&[SCRIPT_BYTES / 2, SCRIPT_BYTES / 2 + 1]), [1, 1]);
        assert_eq!(sizes(&[SCRIPT_BYTES + 1, 1]), [1, 1]);
    }
}
