//! A job as lmstfy describes it.

use std::collections::BTreeMap;

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde::Serialize;

use gristmill_core::job::Job;
use gristmill_core::time::Timestamp;

/// A job in an answer.
#[derive(Debug, Serialize)]
pub(super) struct JobDescription<'a> {
    /// Only in the answer to a consume.
    #[serde(skip_serializing_if = "Option::is_none")]
    msg: Option<&'static str>,
    namespace: &'a str,
    queue: &'a str,
    job_id: &'a str,
    data: String,
    /// Seconds; 0 is for ever.
    ttl: u64,
    elapsed_ms: u64,
    remain_tries: u32,
    attributes: Option<BTreeMap<&'a str, &'a str>>,
}

impl<'a> JobDescription<'a> {
    pub(super) fn new(namespace: &'a str, queue: &'a str, job: &'a Job, remain_tries: u32, now: Timestamp) -> Self {
        let mut attributes = BTreeMap::new();
        for (name, value) in &job.spec.metadata {
            // The first value of each name: lmstfy has one.
            attributes.entry(name.as_str()).or_insert(value.as_str());
        }
        Self {
            msg: None,
            namespace,
            queue,
            job_id: job.spec.id.as_str(),
            data: STANDARD.encode(&job.spec.body.data),
            ttl: job.expires_at().map_or(0, |end| seconds_left(end, now)),
            elapsed_ms: now.as_millis().saturating_sub(job.enqueued_at.as_millis()),
            remain_tries,
            attributes: (!attributes.is_empty()).then_some(attributes),
        }
    }

    pub(super) fn consumed(self) -> Self {
        Self { msg: Some("new job"), ..self }
    }
}

/// Rounded to seconds, as in Redis; never 0, which would be for ever.
fn seconds_left(end: Timestamp, now: Timestamp) -> u64 {
    (end.as_millis().saturating_sub(now.as_millis()).saturating_add(500) / 1000).max(1)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn seconds_are_rounded_and_never_zero() {
        let remaining = |end| seconds_left(Timestamp::from_millis(end), Timestamp::from_millis(1000));
        assert_eq!([remaining(11_000), remaining(10_999), remaining(10_500), remaining(10_499)], [10, 10, 10, 9]);
        assert_eq!([remaining(1001), remaining(1000), remaining(0)], [1, 1, 1]);
    }
}
