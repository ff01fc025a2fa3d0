//! `queue`: follow-up jobs, kept back until the attempt is acknowledged.

use std::time::Duration;

use super::super::attempt::FollowUpRule;
use super::super::bindings::queue::{EnqueueError, Host, NewJob as Request, Priority as Asked};
use super::super::state::State;
use gristmill_core::job::{Due, JobSpec, Name, NewJob, Payload, Priority, TopicId, Unique};
use gristmill_core::time::Timestamp;

/// Names and values of headers, key and unique value of one job, together. Its body has the target topic's limit.
const HEADER_BYTES_MAX: u64 = 64 << 10;

/// What a header takes besides its text, at least: else a guest could send a million of nothing.
const HEADER_BYTES: usize = 4;

/// All follow-ups of one attempt, headers included: they wait in the host's memory, where no limit of the guest's counts
/// them, and go to the store in one piece. The first one is held to its topic's limit only.
const FOLLOW_UPS_BYTES_MAX: u64 = 16 << 20;

impl Host for State {
    fn enqueue(&mut self, request: Request) -> wasmtime::Result<Result<String, EnqueueError>> {
        self.count_call()?;
        let bytes = request.body.data.len() as u64 + header_bytes(&request);
        Ok(self.accept(request, bytes).map(|job| {
            let id = job.spec.id.as_str().to_owned();
            self.follow_ups_bytes += bytes;
            self.follow_ups.push(job);
            id
        }))
    }
}

impl State {
    fn accept(&self, request: Request, bytes: u64) -> Result<NewJob, EnqueueError> {
        let (topic, rule) = self.target(&request.topic)?;
        for (bytes, limit) in
            [(request.body.data.len() as u64, rule.payload_bytes), (header_bytes(&request), HEADER_BYTES_MAX)]
        {
            if bytes > limit {
                return Err(EnqueueError::TooLarge(limit));
            }
        }
        if self.follow_ups.len() as u64 >= u64::from(self.limits.follow_ups) {
            return Err(EnqueueError::TooMany(self.limits.follow_ups));
        }
        if !self.follow_ups.is_empty() && self.follow_ups_bytes + bytes > FOLLOW_UPS_BYTES_MAX {
            return Err(EnqueueError::TooLarge(FOLLOW_UPS_BYTES_MAX));
        }
        let topic = TopicId { tenant: self.topic.tenant.clone(), topic };
        let body = Payload { data: request.body.data, content_type: request.body.content_type };
        let spec = JobSpec {
            metadata: request.metadata,
            key: request.key,
            priority: priority(request.priority),
            unique: request
                .unique
                .map(|value| Unique { value, window: request.unique_window.map(Duration::from_millis) }),
            ttl: rule.ttl,
            ..JobSpec::new(topic, body)
        };
        let due = request.not_before.map_or(Due::Now, |at| Due::At(Timestamp::from_millis(at)));
        Ok(NewJob { spec, due })
    }

    /// A topic that is not granted is denied whether it exists or not, so that names do not leak.
    fn target(&self, topic: &str) -> Result<(Name, FollowUpRule), EnqueueError> {
        if self.grants.enqueue.as_ref().is_some_and(|granted| granted.iter().all(|name| name.as_str() != topic)) {
            return Err(EnqueueError::Denied);
        }
        let name: Name = topic.parse().map_err(|_| EnqueueError::UnknownTopic)?;
        let rule = *self.targets.get(&name).ok_or(EnqueueError::UnknownTopic)?;
        Ok((name, rule))
    }
}

fn header_bytes(request: &Request) -> u64 {
    let optional = [&request.key, &request.unique, &request.body.content_type];
    let optional = optional.into_iter().flatten().map(String::len).sum::<usize>();
    let metadata = request.metadata.iter().map(|(name, value)| name.len() + value.len() + HEADER_BYTES).sum::<usize>();
    (optional + metadata) as u64
}

const fn priority(asked: Asked) -> Priority {
    match asked {
        Asked::High => Priority::High,
        Asked::Normal => Priority::Normal,
        Asked::Low => Priority::Low,
    }
}
