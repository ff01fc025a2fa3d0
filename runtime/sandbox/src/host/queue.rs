//! `queue`: follow-up jobs, kept back until the attempt is acknowledged.

use std::time::Duration;

use serde_bytes::Bytes;

use super::super::attempt::LogLine;
use super::super::bindings::queue::{
    self as wit, EnqueueError, Host, LinkedError, NewJob as Request, Priority as WitPriority,
};
use super::super::recording::answers::{Fault, FollowUpQuestion};
use super::super::state::State;
use gristmill_core::admission::{FOLLOW_UPS_BYTES, FollowUpRules, NoFollowUp, Refused};
use gristmill_core::job::{AfterFailed, Due, JobId, JobOptions, JobSpec, NewJob, Payload, Priority, TopicId, Unique};
use gristmill_core::time::Timestamp;

impl Host for State {
    fn enqueue(&mut self, request: Request) -> wasmtime::Result<Result<String, EnqueueError>> {
        self.charge(bytes_of(&request))?;
        let accepted = self.accept("queue.enqueue", request, JobOptions::default())?;
        Ok(accepted.map_err(|error| match error {
            LinkedError::Denied => EnqueueError::Denied,
            LinkedError::TooLarge(limit) => EnqueueError::TooLarge(limit),
            LinkedError::TooMany(limit) => EnqueueError::TooMany(limit),
            LinkedError::UnknownTopic => EnqueueError::UnknownTopic,
            // A job without links has no wrong ones, but perhaps reserved metadata or a time in seconds, for which this function has no words.
            LinkedError::InvalidLinks(message) => {
                let fields = Vec::new();
                self.log(LogLine { level: tracing::Level::WARN, source: "log", message, fields });
                EnqueueError::Denied
            }
        }))
    }

    fn enqueue_linked(
        &mut self,
        request: Request,
        wanted: wit::Links,
    ) -> wasmtime::Result<Result<String, LinkedError>> {
        let ids = wanted.after.iter().chain(&wanted.batch).map(|id| id.len() + size_of::<String>());
        self.charge(bytes_of(&request) + ids.sum::<usize>())?;
        match links(wanted) {
            Ok(links) => self.accept("queue.enqueue-linked", request, links),
            Err(error) => Ok(Err(error)),
        }
    }
}

impl State {
    /// Keeps the follow-up, and returns its id.
    fn accept(
        &mut self,
        name: &'static str,
        request: Request,
        links: JobOptions,
    ) -> wasmtime::Result<Result<String, LinkedError>> {
        let Request { topic, body, metadata, key, priority, not_before, unique, unique_window } = &request;
        let question = FollowUpQuestion {
            topic,
            payload: (Bytes::new(&body.data), &body.content_type),
            metadata,
            key,
            priority: *priority as u8,
            not_before: *not_before,
            unique,
            unique_window: *unique_window,
            links: (&links.after, links.after_failed, &links.batch, links.open),
        };
        let about = question.about().to_owned();
        let question = self.question(name, &about, &question);
        let accepted = |state: &mut Self| Ok(state.accept_now(request, links).map_err(|error| Fault::from(&error)));
        Ok(self.ask(&question, accepted)?.map_err(LinkedError::from))
    }

    fn accept_now(&mut self, request: Request, links: JobOptions) -> Result<String, LinkedError> {
        let is_limited = self.attempt.grants.enqueue.is_some();
        let no_name = |_| if is_limited { LinkedError::Denied } else { LinkedError::UnknownTopic };
        let topic = TopicId { tenant: self.topic().tenant.clone(), topic: request.topic.parse().map_err(no_name)? };
        let job = new_job(topic, request, links);
        let id = job.spec.id.as_str().to_owned();
        let Self { attempt, follow_ups, .. } = self;
        let rules = FollowUpRules {
            tenant: &attempt.job.spec.topic.tenant,
            grants: &attempt.grants,
            targets: &attempt.targets,
            count: attempt.limits.follow_ups,
            near: Some(&attempt.job.spec),
        };
        follow_ups.add(job, &rules).map_err(|no| match no {
            NoFollowUp::Denied(_) => LinkedError::Denied,
            NoFollowUp::UnknownTopic(_) => LinkedError::UnknownTopic,
            NoFollowUp::Links(_)
            | NoFollowUp::Foreign(_)
            | NoFollowUp::TooManyLinks
            | NoFollowUp::Ended
            | NoFollowUp::Refused(
                Refused::After { .. }
                | Refused::Reserved { .. }
                | Refused::Seconds { .. }
                | Refused::Ttl
                | Refused::Empty { .. }
                | Refused::MediaType,
            ) => LinkedError::InvalidLinks(no.to_string()),
            NoFollowUp::Refused(refused) => LinkedError::TooLarge(refused.allowed()),
            NoFollowUp::TooMany(most) => LinkedError::TooMany(most),
            NoFollowUp::TooLarge => LinkedError::TooLarge(FOLLOW_UPS_BYTES),
        })?;
        Ok(id)
    }
}

fn links(wanted: wit::Links) -> Result<JobOptions, LinkedError> {
    let id = |text: &String| text.parse::<JobId>().map_err(|bad| LinkedError::InvalidLinks(bad.to_string()));
    Ok(JobOptions {
        after: wanted.after.iter().map(id).collect::<Result<_, _>>()?,
        after_failed: match wanted.after_failed {
            wit::AfterFailed::Dead => AfterFailed::Dead,
            wit::AfterFailed::Run => AfterFailed::Run,
        },
        batch: wanted.batch.as_ref().map(id).transpose()?,
        open: wanted.open,
        ..JobOptions::default()
    })
}

fn new_job(topic: TopicId, request: Request, links: JobOptions) -> NewJob {
    let body = Payload { data: request.body.data, content_type: request.body.content_type };
    let window = request.unique_window.map(Duration::from_millis);
    let options = JobOptions {
        key: request.key,
        priority: priority(request.priority),
        unique: request.unique.map(|value| Unique { value, window }),
        ..links
    };
    let spec = JobSpec { metadata: request.metadata, options, ..JobSpec::new(topic, body) };
    NewJob { spec, due: request.not_before.map_or(Due::Now, |at| Due::At(Timestamp::from_millis(at))) }
}

/// What it took to read the request.
fn bytes_of(request: &Request) -> usize {
    let metadata =
        request.metadata.iter().map(|(name, value)| name.len() + value.len() + size_of::<(String, String)>());
    request.body.data.len() + metadata.sum::<usize>()
}

const fn priority(wanted: WitPriority) -> Priority {
    match wanted {
        WitPriority::High => Priority::High,
        WitPriority::Normal => Priority::Normal,
        WitPriority::Low => Priority::Low,
    }
}
