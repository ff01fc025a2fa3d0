//! What the benches measure by itself: a job like those of `gristmill-bench`, and one attempt at it.

use std::sync::Arc;
use std::time::Duration;

use gristmill::job::{Job, JobId, JobSpec, Name, Payload};
use gristmill::outcome::{Outcome, Verdict};
use gristmill::retry::{Tried, decide};
use gristmill::sandbox::parts::load_apart;
use gristmill::sandbox::{Attempt, Component, Report};
use gristmill::store::redis::envelope;
use gristmill::time::Timestamp;
use gristmill::topic::{Limits, RetryPolicy};

use crate::text;

/// Bytes.
const BODY: usize = 200;

/// A job with a body of 200 bytes and nothing else.
pub fn job() -> Job {
    let body = Payload { data: vec![b'x'; BODY], content_type: None };
    let at = Timestamp::from_millis(1_800_000_000_000);
    Job { spec: JobSpec::new("bench".parse().unwrap(), body), enqueued_at: at, due_at: at }
}

/// A job with everything that a producer can say about it.
pub fn full_job() -> Job {
    let mut job = job();
    let spec = &mut job.spec;
    spec.body.content_type = Some("application/json".into());
    spec.metadata = vec![("traceparent".into(), "00-4bf92f3577b34da6a3ce929d0e0e4736-00f067aa0ba902b7-01".into())];
    spec.options.key = Some("customer-4711".into());
    spec.options.max_attempts = Some(10);
    spec.options.ttl = Some(Duration::from_secs(3600));
    spec.options.keep_result = Some(Duration::from_secs(600));
    job
}

/// The job as the Redis store keeps it; none if it cannot be written.
pub fn encode(job: &Job) -> Option<Vec<u8>> {
    envelope::write_stored(job).ok()
}

/// The job `id` of `tenant` from what [`encode`] made; none if it is something else.
pub fn decode(tenant: &Name, id: JobId, stored: &[u8]) -> Option<Job> {
    envelope::read(tenant, id, stored).ok()
}

/// The no-op handler in WebAssembly text.
pub fn component() -> Component {
    load_apart(&text::handler("")).unwrap()
}

/// The first attempt at a job, with default limits and nothing granted.
pub fn attempt(job: &Arc<Job>) -> Attempt {
    Attempt { job: Arc::clone(job), max_attempts: 5, ..Attempt::at(job.spec.clone(), Limits::default()) }
}

/// Runs one attempt, which succeeds.
pub async fn invoke(component: &Component, job: &Arc<Job>) -> Report {
    let report = component.invoke(attempt(job)).await;
    assert!(matches!(report.outcome, Outcome::Complete(Some(_))), "{:?}", report.outcome);
    report
}

/// What follows from the outcome of a second attempt by the default policy.
pub fn verdict(outcome: Outcome) -> Verdict {
    let tried = Tried { attempt: 2, max_attempts: None, previous: None };
    decide(outcome, tried, &RetryPolicy::default(), 0.5)
}

/// Makes an outcome to decide on.
pub type MakeOutcome = fn() -> Outcome;

/// The outcome that nearly every attempt has, and the one that takes the most words.
pub fn outcomes() -> [(&'static str, MakeOutcome); 2] {
    [("complete", || Outcome::Complete(None)), ("timed out", || Outcome::TimedOut { limit: Duration::from_secs(30) })]
}
