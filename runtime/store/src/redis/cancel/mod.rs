//! Cancels jobs, waiting and running ones.

use redis::pipe;

use super::envelope;
use super::key_names::Keys;
use super::script::{Call, script};
use super::store::{Numbered, Partition, SCRIPT_JOBS, in_order};
use crate::clock::wait_ms;
use crate::{Cancelled, StoreError};
use gristmill_core::job::{JobId, JobSpec, Name, TopicId, Unique};

const DOING: &str = "cancel jobs";

/// A job to be cancelled. Without a spec if it cannot be read; its topic still says where it is.
struct Unwanted<'a> {
    place: usize,
    id: &'a JobId,
    topic: TopicId,
    spec: Option<JobSpec>,
}

impl Partition {
    pub(crate) async fn cancel(&self, tenant: &Name, ids: &[JobId]) -> Result<Vec<Cancelled>, StoreError> {
        self.end(tenant, ids, false).await
    }

    /// Cancels or kills. Two steps, because what the script must know of a job stands in its envelope. That part of it never changes.
    pub(super) async fn end(&self, tenant: &Name, ids: &[JobId], kill: bool) -> Result<Vec<Cancelled>, StoreError> {
        let keys = self.keys(tenant);
        let mut answers = Vec::with_capacity(ids.len());
        for (chunk, ids) in ids.chunks(SCRIPT_JOBS).enumerate() {
            let mut ask = pipe();
            ask.cmd("HMGET").arg(keys.jobs()).arg(ids.iter().map(JobId::as_str).collect::<Vec<_>>());
            let (stored,): (Vec<Option<Vec<u8>>>,) = self.link.query(DOING, &ask).await?;
            let mut unwanted = Vec::new();
            for (place, (id, stored)) in ids.iter().zip(stored).enumerate() {
                let place = chunk * SCRIPT_JOBS + place;
                let known = stored.and_then(|stored| read(tenant, id, &stored));
                match known {
                    Some((topic, spec)) => unwanted.push(Unwanted { place, id, topic, spec }),
                    None => answers.push((place, Cancelled::TooLate)),
                }
            }
            let mut unwanted = &unwanted[..];
            while !unwanted.is_empty() {
                let mut reply = self.reply(DOING, self.cancel_call(&keys, unwanted, kill)).await?;
                // The script leaves jobs for another call whose Lists are long.
                let (done, rest) = unwanted.split_at(reply.len().clamp(1, unwanted.len()));
                let mut gone = Vec::new();
                for job in done {
                    let answer = match reply.number().map_err(self.misread(DOING))? {
                        1 => {
                            gone.push((&job.topic, job.id));
                            Cancelled::Gone
                        }
                        2 => Cancelled::Stopping,
                        _ => Cancelled::TooLate,
                    };
                    answers.push((job.place, answer));
                }
                self.forget_recordings_of(gone).await;
                unwanted = rest;
            }
        }
        Ok(in_order(answers))
    }
}

impl Partition {
    fn cancel_call(&self, keys: &Keys, jobs: &[Unwanted<'_>], kill: bool) -> Call {
        let mut topics: Numbered<&Name> = Numbered(Vec::new());
        let numbers: Vec<usize> = jobs.iter().map(|job| topics.number(&job.topic.topic)).collect();
        let more = [keys.claims(), keys.failures(), keys.checkpoints(), keys.cancelled()];
        let mut names = keys.with_rows(more, topics.0.iter().copied());
        names.extend(topics.0.iter().map(|topic| keys.ended(topic)));
        names.extend(jobs.iter().map(|job| keys.result(job.id)));
        let mut call = Call::new(
            script!(
                "keys/line.lua",
                "keys/waiting.lua",
                "links/links.lua",
                "path/finish/ends.lua",
                "path/finish/finish.lua",
                "cancel/cancel.lua"
            ),
            &names,
        );
        call.arg(self.now_argument()).arg(keys.wake_channel()).arg(keys.done_channel());
        call.arg(if kill { "1" } else { "" }).topics(&topics.0);
        for (job, topic) in jobs.iter().zip(numbers) {
            let unique =
                job.spec.as_ref().and_then(|spec| spec.options.unique.as_ref()).and_then(Unique::held_until_done);
            let keep = job.spec.as_ref().and_then(|spec| spec.options.keep_result);
            call.arg(job.id.as_str()).arg(topic).arg(unique.unwrap_or_default());
            call.arg(keep.map_or(0, wait_ms)).arg(if keep.is_some() { "1" } else { "" });
        }
        call
    }
}

fn read(tenant: &Name, id: &JobId, stored: &[u8]) -> Option<(TopicId, Option<JobSpec>)> {
    match envelope::read(tenant, id.clone(), stored) {
        Ok(job) => Some((job.spec.topic.clone(), Some(job.spec))),
        Err(_) => Some((envelope::topic(tenant, stored).ok()?, None)),
    }
}
