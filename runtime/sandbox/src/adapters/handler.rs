//! `gristmill:job/handler`: a function that takes a job and returns what becomes of it.

use std::time::Duration;

use wasmtime::Store;
use wasmtime::component::{ComponentExportIndex, InstancePre, TypedFunc};

use super::super::attempt::Attempt;
use super::super::bindings::types::{self, Job, PayloadParam, PayloadResult};
use super::super::classify::Stopped;
use super::super::error::LoadError;
use super::super::state::State;
use super::export;
use gristmill_core::job::Payload;
use gristmill_core::outcome::{FailureDetail, Outcome};
use gristmill_core::time::Timestamp;

pub(super) const EXPORT: &str = "gristmill:job/handler@0.1.0";

/// What a guest that returned normally says.
pub(crate) type HandleResult = Result<types::Outcome, types::Failure>;

pub(super) type Function = TypedFunc<(Job<'static>,), (HandleResult,)>;

pub(super) fn find(pre: &InstancePre<State>) -> Result<Option<ComponentExportIndex>, LoadError> {
    export::<(Job<'_>,), (HandleResult,)>(pre, EXPORT, "handle")
}

pub(super) async fn call(
    function: Function,
    store: &mut Store<State>,
    attempt: &Attempt,
    deadline: Timestamp,
) -> Result<Outcome, Stopped> {
    let metadata = borrowed(&attempt.job.spec.metadata);
    let job = guest_job(attempt, &metadata, deadline);
    let (answer,) = function.call_async(store, (job,)).await.map_err(Stopped::Running)?;
    Ok(outcome(answer))
}

pub(crate) fn outcome(answer: HandleResult) -> Outcome {
    match answer {
        Ok(types::Outcome::Complete(result)) => Outcome::Complete(result.map(payload)),
        Ok(types::Outcome::Snooze(ms)) => Outcome::Snooze(Duration::from_millis(ms)),
        Err(types::Failure::Retry((failure, after))) => {
            Outcome::Retry { detail: detail(failure), after: after.map(Duration::from_millis) }
        }
        Err(types::Failure::Reject(failure)) => Outcome::Reject(detail(failure)),
    }
}

pub(crate) fn guest_job<'a>(attempt: &'a Attempt, metadata: &'a [(&'a str, &'a str)], deadline: Timestamp) -> Job<'a> {
    let job = &attempt.job;
    let spec = &job.spec;
    Job {
        id: spec.id.as_str(),
        tenant: spec.topic.tenant.as_str(),
        topic: spec.topic.topic.as_str(),
        body: PayloadParam { data: &spec.body.data, content_type: spec.body.content_type.as_deref() },
        metadata,
        key: spec.options.key.as_deref(),
        attempt: attempt.attempt,
        max_attempts: attempt.max_attempts,
        enqueued_at: job.enqueued_at.as_millis(),
        due_at: job.due_at.as_millis(),
        deadline: deadline.as_millis(),
        checkpoint: attempt.checkpoint.as_deref(),
    }
}

pub(crate) fn borrowed(pairs: &[(String, String)]) -> Vec<(&str, &str)> {
    pairs.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

fn payload(payload: PayloadResult) -> Payload {
    Payload { data: payload.data, content_type: payload.content_type }
}

fn detail(failure: types::FailureDetail) -> FailureDetail {
    FailureDetail { code: failure.code, message: failure.message, context: failure.context.map(payload) }
}
