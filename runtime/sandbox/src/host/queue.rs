//! `queue`: follow-up jobs, kept back until the attempt is acknowledged.

use std::time::Duration;

use super::super::bindings::queue::{EnqueueError, Host, NewJob as Request, Priority as Asked};
use super::super::state::State;
use gristmill_core::admission::{FOLLOW_UPS_BYTES, FollowUpRules, NoFollowUp};
use gristmill_core::job::{Due, JobSpec, NewJob, Payload, Priority, TopicId, Unique};
use gristmill_core::time::Timestamp;

impl Host for State {
    fn enqueue(&mut self, request: Request) -> wasmtime::Result<Result<String, EnqueueError>> {
        self.charge(bytes_of(&request))?;
        Ok(self.accept(request))
    }
}

impl State {
    /// Keeps the follow-up, and returns its id.
    fn accept(&mut self, request: Request) -> Result<String, EnqueueError> {
        let is_limited = self.grants.enqueue.is_some();
        let no_name = |_| if is_limited { EnqueueError::Denied } else { EnqueueError::UnknownTopic };
        let topic = TopicId { tenant: self.topic.tenant.clone(), topic: request.topic.parse().map_err(no_name)? };
        let job = new_job(topic, request);
        let id = job.spec.id.as_str().to_owned();
        let rules = FollowUpRules {
            tenant: &self.topic.tenant,
            grants: &self.grants,
            targets: &self.targets,
            count: self.limits.follow_ups,
        };
        self.follow_ups.add(job, &rules).map_err(|no| match no {
            NoFollowUp::Denied(_) => EnqueueError::Denied,
            NoFollowUp::UnknownTopic(_) => EnqueueError::UnknownTopic,
            NoFollowUp::Refused(refused) => EnqueueError::TooLarge(refused.allowed()),
            NoFollowUp::TooMany(most) => EnqueueError::TooMany(most),
            NoFollowUp::TooLarge => EnqueueError::TooLarge(FOLLOW_UPS_BYTES),
        })?;
        Ok(id)
    }
}

fn new_job(topic: TopicId, request: Request) -> NewJob {
    let body = Payload { data: request.body.data, content_type: request.body.content_type };
    let window = request.unique_window.map(Duration::from_millis);
    let spec = JobSpec {
        metadata: request.metadata,
        key: request.key,
        priority: priority(request.priority),
        unique: request.unique.map(|value| Unique { value, window }),
        ..JobSpec::new(topic, body)
    };
    NewJob { spec, due: request.not_before.map_or(Due::Now, |at| Due::At(Timestamp::from_millis(at))) }
}

/// What it took to read the request.
fn bytes_of(request: &Request) -> usize {
    let metadata =
        request.metadata.iter().map(|(name, value)| name.len() + value.len() + size_of::<(String, String)>());
    request.body.data.len() + metadata.sum::<usize>()
}

const fn priority(asked: Asked) -> Priority {
    match asked {
        Asked::High => Priority::High,
        Asked::Normal => Priority::Normal,
        Asked::Low => Priority::Low,
    }
}
