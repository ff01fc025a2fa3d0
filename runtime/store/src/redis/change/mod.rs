//! Change: when waiting jobs are due, and their priorities.

use redis::pipe;

use super::envelope;
use super::key_names::Keys;
use super::path::push::due_argument;
use super::script::{Call, script};
use super::store::{Numbered, Partition, SCRIPT_JOBS, in_order};
use crate::batch::{STEP_BYTES, Weight, parts};
use crate::{JobChanged, StoreError};
use gristmill_core::job::{Job, JobChange, JobId, Name};

const DOING: &str = "change jobs";

/// A job that is to be changed, and its envelope after that, if that is another one.
struct Changing<'a> {
    place: usize,
    id: &'a JobId,
    job: Job,
    /// Bytes that are stored now.
    stored: usize,
    envelope: Vec<u8>,
}

impl Partition {
    /// Two steps, because the script cannot read envelopes. It goes by when a job was enqueued: if another one has the id by then, that is not
    /// changed.
    pub(crate) async fn change(
        &self,
        tenant: &Name,
        ids: &[JobId],
        change: &JobChange,
    ) -> Result<Vec<JobChanged>, StoreError> {
        let keys = self.keys(tenant);
        let mut answers = Vec::with_capacity(ids.len());
        for (chunk, ids) in ids.chunks(SCRIPT_JOBS).enumerate() {
            let mut ask = pipe();
            ask.cmd("HMGET").arg(keys.jobs()).arg(ids.iter().map(JobId::as_str).collect::<Vec<_>>());
            let (stored,): (Vec<Option<Vec<u8>>>,) = self.link.query(DOING, &ask).await?;
            let mut changing = Vec::new();
            for (place, (id, stored)) in ids.iter().zip(stored).enumerate() {
                let place = chunk * SCRIPT_JOBS + place;
                let stored = stored.unwrap_or_default();
                match envelope::read(tenant, id.clone(), &stored).ok() {
                    Some(job) => {
                        let envelope = self.changed_envelope(&job, change)?;
                        changing.push(Changing { place, id, job, stored: stored.len(), envelope });
                    }
                    None => answers.push((place, JobChanged::TooLate)),
                }
            }
            let most = Weight { jobs: SCRIPT_JOBS, bytes: STEP_BYTES };
            for (part, _) in parts(changing, most, |job| Weight::of_job(job.stored.max(job.envelope.len()))) {
                let mut part = &part[..];
                while !part.is_empty() {
                    let mut reply = self.reply(DOING, self.change_call(&keys, part, change)).await?;
                    // The script leaves jobs for another call whose Lists are long.
                    let (done, rest) = part.split_at(reply.len().clamp(1, part.len()));
                    for job in done {
                        let answer = match reply.number().map_err(self.misread(DOING))? {
                            2 => JobChanged::Changed,
                            1 => JobChanged::Unchanged,
                            _ => JobChanged::TooLate,
                        };
                        answers.push((job.place, answer));
                    }
                    part = rest;
                }
            }
        }
        Ok(in_order(answers))
    }

    /// The envelope with the new priority; empty if that stays.
    fn changed_envelope(&self, job: &Job, change: &JobChange) -> Result<Vec<u8>, StoreError> {
        let Some(priority) = change.priority else { return Ok(Vec::new()) };
        let mut spec = job.spec.clone();
        spec.options.priority = priority;
        envelope::write(&spec).map_err(|error| self.refused(DOING, error))
    }

    fn change_call(&self, keys: &Keys, jobs: &[Changing<'_>], change: &JobChange) -> Call {
        let mut topics: Numbered<&Name> = Numbered(Vec::new());
        let numbers: Vec<usize> = jobs.iter().map(|job| topics.number(&job.job.spec.topic.topic)).collect();
        let names = keys.with_rows([keys.claims()], topics.0.iter().copied());
        let mut call = Call::new(script!("keys/line.lua", "keys/waiting.lua", "change/change.lua"), &names);
        call.arg(self.now_argument()).arg(keys.wake_channel());
        call.arg(change.due.map_or_else(|| "-".into(), due_argument));
        call.arg(change.priority.map_or("", |priority| priority.as_str())).topics(&topics.0);
        for (job, topic) in jobs.iter().zip(numbers) {
            let enqueued = job.job.enqueued_at.as_millis().to_be_bytes();
            call.arg(job.id.as_str()).arg(topic).arg(&enqueued[..]).arg(&job.envelope);
        }
        call
    }
}
