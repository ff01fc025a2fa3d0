//! What `--json` writes. Names are stable: fields are added, never renamed. Times are milliseconds since the Unix epoch.

use serde::Serialize;
use serde_json::{Map, Value, json};

use gristmill_core::job::{Job, JobSpec, NewJob, Payload};
use gristmill_core::outcome::Failure;
use gristmill_core::time::millis;
use gristmill_store::{JobView, ResultView, TopicCounts};

/// As the HTTP API writes it, and how many bytes it has.
pub(super) fn payload(payload: &Payload) -> Value {
    with(object(payload).into(), [("bytes", payload.data.len().into())])
}

/// An object with more fields.
pub(super) fn with<const N: usize>(mut document: Value, fields: [(&str, Value); N]) -> Value {
    if let Some(object) = document.as_object_mut() {
        object.extend(fields.map(|(name, value)| (name.to_owned(), value)));
    }
    document
}

/// An object as the HTTP API writes it.
pub(super) fn object(value: &impl Serialize) -> Map<String, Value> {
    match serde_json::to_value(value) {
        Ok(Value::Object(fields)) => fields,
        // No type here is written as anything else.
        _ => Map::new(),
    }
}

pub(super) fn failure(failure: &Failure) -> Value {
    let mut fields = object(failure);
    fields.insert("context".into(), failure.detail.context.as_ref().map(payload).into());
    fields.into()
}

fn spec(spec: &JobSpec) -> Map<String, Value> {
    let mut fields = object(spec);
    fields.insert("body".into(), payload(&spec.body));
    fields.insert("unique".into(), spec.options.unique.as_ref().map(|unique| unique.value.clone()).into());
    let window = spec.options.unique.as_ref().and_then(|unique| unique.window);
    fields.insert("unique_window_ms".into(), window.map(millis).into());
    fields
}

pub(super) fn job(job: &Job) -> Value {
    let mut fields = object(job);
    fields.remove("spec");
    fields.extend(spec(&job.spec));
    fields.into()
}

pub(super) fn view(view: &JobView) -> Value {
    let mut place = object(&view.state);
    json!({
        "id": view.id,
        "state": place.remove("state"),
        "place": place,
        "attempts": view.attempts,
        "job": view.job.as_ref().map(job),
        "last_failure": view.last_failure.as_ref().map(failure),
        "result": view.result.as_ref().map(result),
        "checkpoint": view.checkpoint.as_ref().map(payload),
        "waits_for": view.waits_for,
        "progress": view.progress,
        "ended": view.ended,
    })
}

pub(super) fn result(result: &ResultView) -> Value {
    let mut fields = object(result);
    match result {
        ResultView::Complete(output) => fields.insert("output".into(), output.as_ref().map(payload).into()),
        ResultView::Dead(cause) => fields.insert("failure".into(), failure(cause)),
        ResultView::Expired | ResultView::Cancelled => None,
    };
    fields.into()
}

pub(super) fn counts(counts: &TopicCounts) -> Value {
    object(counts).into()
}

/// A job that a handler enqueued.
pub(super) fn follow_up(new: &NewJob, due_in_ms: u64) -> Value {
    let mut fields = spec(&new.spec);
    fields.insert("due_in_ms".into(), due_in_ms.into());
    fields.into()
}

#[cfg(test)]
mod tests {
    use super::*;
    use gristmill_core::outcome::{FailureDetail, Reason};

    #[test]
    fn bytes_that_are_no_text_are_written_in_base64() {
        let text = payload(&Payload { data: b"{}".to_vec(), content_type: Some("application/json".into()) });
        assert_eq!(text, json!({ "bytes": 2, "content_type": "application/json", "text": "{}" }));
        let binary = payload(&Payload { data: vec![0xff, 0xd8], content_type: None });
        assert_eq!(binary, json!({ "bytes": 2, "content_type": null, "base64": "/9g=" }));
    }

    #[test]
    fn a_dead_result_says_why() {
        let detail = FailureDetail { code: "timeout".into(), message: "ran longer than 1s".into(), context: None };
        let cause = Failure::new(Reason::Timeout, detail);
        let written = result(&ResultView::Dead(cause));
        assert_eq!(written["outcome"], "dead");
        assert_eq!(written["failure"]["reason"], "timeout");
    }
}
