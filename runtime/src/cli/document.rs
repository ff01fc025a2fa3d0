//! What `--json` writes. Names are stable: fields are added, never renamed. Times are milliseconds since the Unix epoch.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use serde_json::{Map, Value, json};

use gristmill_core::job::{Job, NewJob, Payload};
use gristmill_core::outcome::{Failure, FailureDetail};
use gristmill_core::time::millis;
use gristmill_store::{DeadJob, JobState, JobView, ResultView, TopicCounts};

/// UTF-8 as it is in `text`, anything else in `base64`.
pub(super) fn payload(payload: &Payload) -> Value {
    let mut object = Map::new();
    object.insert("content_type".into(), payload.content_type.clone().into());
    object.insert("bytes".into(), payload.data.len().into());
    match std::str::from_utf8(&payload.data) {
        Ok(text) => object.insert("text".into(), text.into()),
        Err(_) => object.insert("base64".into(), STANDARD.encode(&payload.data).into()),
    };
    object.into()
}

pub(super) fn failure(failure: &Failure) -> Value {
    let Failure { reason, detail, backtrace } = failure;
    let FailureDetail { code, message, context } = detail;
    json!({
        "reason": reason.as_str(),
        "code": code,
        "message": message,
        "context": context.as_ref().map(payload),
        "backtrace": backtrace,
    })
}

pub(super) fn job(job: &Job) -> Value {
    let spec = &job.spec;
    json!({
        "id": spec.id.as_str(),
        "tenant": spec.topic.tenant.as_str(),
        "topic": spec.topic.topic.as_str(),
        "body": payload(&spec.body),
        "metadata": spec.metadata,
        "key": spec.key,
        "priority": spec.priority,
        "unique": spec.unique.as_ref().map(|unique| &unique.value),
        "unique_window_ms": spec.unique.as_ref().and_then(|unique| unique.window).map(millis),
        "attempts_max": spec.max_attempts,
        "ttl_ms": spec.ttl.map(millis),
        "keep_result_ms": spec.keep_result.map(millis),
        "enqueued_at_ms": job.enqueued_at.as_millis(),
        "due_at_ms": job.due_at.as_millis(),
    })
}

pub(super) fn view(view: &JobView) -> Value {
    let (state, place) = match &view.state {
        JobState::Ready => ("ready", json!({})),
        JobState::Delayed { until } => ("delayed", json!({ "until_ms": until.as_millis() })),
        JobState::Running { worker, delivery, lease_until, cancelled } => {
            let place = json!({
                "worker": worker,
                "delivery": delivery,
                "lease_until_ms": lease_until.as_millis(),
                "cancelled": cancelled,
            });
            ("running", place)
        }
        JobState::Dead { since } => ("dead", json!({ "since_ms": since.as_millis() })),
        JobState::Finished => ("finished", json!({})),
    };
    json!({
        "id": view.id.as_str(),
        "state": state,
        "place": place,
        "attempts": view.attempts,
        "job": view.job.as_ref().map(job),
        "last_failure": view.last_failure.as_ref().map(failure),
        "result": view.result.as_ref().map(result),
    })
}

pub(super) fn result(result: &ResultView) -> Value {
    match result {
        ResultView::Complete(output) => json!({ "outcome": "complete", "output": output.as_ref().map(payload) }),
        ResultView::Dead(cause) => json!({ "outcome": "dead", "failure": failure(cause) }),
        ResultView::Expired => json!({ "outcome": "expired" }),
        ResultView::Cancelled => json!({ "outcome": "cancelled" }),
    }
}

pub(super) fn dead(dead: &DeadJob) -> Value {
    json!({
        "job": job(&dead.job),
        "since_ms": dead.since.as_millis(),
        "attempts": dead.attempts,
        "failure": dead.failure.as_ref().map(failure),
    })
}

pub(super) fn counts(counts: &TopicCounts) -> Value {
    json!({
        "tenant": counts.topic.tenant.as_str(),
        "topic": counts.topic.topic.as_str(),
        "ready": counts.ready,
        "delayed": counts.delayed,
        "running": counts.running,
        "dead": counts.dead,
        "paused": counts.paused,
        "totals": counts.totals,
    })
}

/// A job that a handler enqueued.
pub(super) fn follow_up(new: &NewJob, due_in_ms: u64) -> Value {
    json!({
        "id": new.spec.id.as_str(),
        "topic": new.spec.topic.topic.as_str(),
        "body": payload(&new.spec.body),
        "metadata": new.spec.metadata,
        "key": new.spec.key,
        "priority": new.spec.priority,
        "unique": new.spec.unique.as_ref().map(|unique| &unique.value),
        "unique_window_ms": new.spec.unique.as_ref().and_then(|unique| unique.window).map(millis),
        "due_in_ms": due_in_ms,
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_core::outcome::Reason;

    #[test]
    fn bytes_that_are_no_text_are_written_in_base64() {
        let text = payload(&Payload { data: b"{}".to_vec(), content_type: Some("application/json".into()) });
        assert_eq!(text, json!({ "bytes": 2, "content_type": "application/json", "text": "{}" }));
        let binary = payload(&Payload { data: vec![0xff, 0xd8], content_type: None });
        assert_eq!(binary, json!({ "bytes": 2, "content_type": null, "base64": "/9g=" }));
    }

    #[test]
    fn a_dead_result_tells_why() {
        let detail = FailureDetail { code: "timeout".into(), message: "ran longer than 1s".into(), context: None };
        let cause = Failure { reason: Reason::Timeout, detail, backtrace: None };
        let written = result(&ResultView::Dead(cause));
        assert_eq!(written["outcome"], "dead");
        assert_eq!(written["failure"]["reason"], "timeout");
    }
}
