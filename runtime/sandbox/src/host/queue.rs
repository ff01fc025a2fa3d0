//! `queue`: follow-up jobs, kept back until the attempt is acknowledged.

use std::time::Duration;

use super::super::bindings::queue::{EnqueueError, Host, NewJob as Request, Priority as Asked};
use super::super::state::State;
use gristmill_core::admission::{self, NoTarget};
use gristmill_core::job::{Due, JobSpec, NewJob, Payload, Priority, TopicId, Unique};
use gristmill_core::time::Timestamp;

/// All follow-ups of one attempt, headers included: they wait in the host's memory, where no limit of the guest's counts
/// them, and go to the store in one piece. The first one is held to its topic's rules only.
const FOLLOW_UPS_BYTES_MAX: u64 = 16 << 20;

impl Host for State {
    fn enqueue(&mut self, request: Request) -> wasmtime::Result<Result<String, EnqueueError>> {
        self.charge(bytes_of(&request))?;
        Ok(self.accept(request).map(|job| {
            let id = job.spec.id.as_str().to_owned();
            self.follow_ups_bytes += bytes(&job.spec);
            self.follow_ups.push(job);
            id
        }))
    }
}

impl State {
    fn accept(&self, request: Request) -> Result<NewJob, EnqueueError> {
        let target = admission::target(&request.topic, &self.grants, &self.targets);
        let (topic, rules) = target.map_err(|none| match none {
            NoTarget::Denied => EnqueueError::Denied,
            NoTarget::Unknown => EnqueueError::UnknownTopic,
        })?;
        let topic = TopicId { tenant: self.topic.tenant.clone(), topic: topic.clone() };
        let job = rules.admit(new_job(topic, request)).map_err(|refused| EnqueueError::TooLarge(refused.allowed()))?;
        if self.follow_ups.len() as u64 >= u64::from(self.limits.follow_ups) {
            return Err(EnqueueError::TooMany(self.limits.follow_ups));
        }
        if !self.follow_ups.is_empty() && self.follow_ups_bytes + bytes(&job.spec) > FOLLOW_UPS_BYTES_MAX {
            return Err(EnqueueError::TooLarge(FOLLOW_UPS_BYTES_MAX));
        }
        Ok(job)
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

fn bytes(spec: &JobSpec) -> u64 {
    spec.body.data.len() as u64 + admission::header_bytes(spec)
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
