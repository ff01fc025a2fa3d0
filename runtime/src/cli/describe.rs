//! What people read of a job, its body and its failure; [`super::document`] is what programs read.

use super::screen;
use gristmill_config::units;
use gristmill_core::job::{Ended, Job, Payload, Priority, Progress, Unique};
use gristmill_core::outcome::Failure;
use gristmill_core::time::Timestamp;
use gristmill_store::{EndedAs, JobState, JobView, ResultView, WaitsFor};

/// As much of a body as fits on a screen line or three.
const PREVIEW_CHARS: usize = 240;

/// What may have become of a job that is not known.
pub(super) const UNKNOWN: &str =
    "it never was, or it ended longer ago than is remembered (a job of another tenant takes --tenant NAME)";

/// Lines of a text that a handler kept with its failure.
const CONTEXT_LINES: usize = 40;

/// The facts about a job, each with its name.
pub(super) fn view(view: &JobView, now: Timestamp) -> Vec<(&'static str, String)> {
    let mut facts = vec![("id", view.id.to_string()), ("state", state(view, now))];
    facts.extend(view.ended.as_ref().map(|ended| ("topic", ended.topic.to_string())));
    facts.extend(view.job.iter().flat_map(|of| job(of, now)));
    facts.extend(view.waits_for.as_ref().map(|others| ("waits for", waits_for(others))));
    facts.push(("attempts", view.attempts.to_string()));
    facts.extend(view.last_failure.as_ref().map(|last| ("last failure", failure(Some(last)))));
    facts.extend(view.progress.as_ref().map(|made| ("progress", progress(made))));
    facts.extend(view.checkpoint.as_ref().map(|checkpoint| ("checkpoint", payload(checkpoint))));
    // The kept result of a dead job is its last failure once more.
    let said_already = matches!(
        (&view.result, &view.last_failure),
        (Some(ResultView::Dead(end)), Some(last)) if end == last
    );
    if let Some(kept) = view.result.as_ref().filter(|_| !said_already) {
        facts.push(("result", result(kept)));
    } else if view.result.is_none() && view.ended.as_ref().is_some_and(|ended| ended.outcome == EndedAs::Complete) {
        facts.push((
            "result",
            "none, or not kept: `push --keep-result 1h` and the topic's `result-retention` keep it".into(),
        ));
    }
    facts
}

/// How far the jobs are that a job waits for, and the first that have not ended, or were not done.
fn waits_for(WaitsFor { open, total, ended, failed, jobs }: &WaitsFor) -> String {
    let open = if *open { "; open, so it takes more" } else { "" };
    let failed = if *failed > 0 { format!(", {failed} of them not done") } else { String::new() };
    let mut lines = format!("{ended} of {total} ended{failed}{open}");
    for job in jobs.iter().filter(|job| job.ended != Some(Ended::Complete)) {
        lines.push_str(&format!("\n{} {}", job.id, job.ended.map_or("not ended", Ended::as_str)));
    }
    lines
}

fn state(view: &JobView, now: Timestamp) -> String {
    match &view.state {
        JobState::Ready => match view.behind.as_ref().map(|behind| behind.holders.first()) {
            Some(Some(holder)) => {
                format!("ready: waits for job {holder}, which has the slot of its key; see `gristmill job why`")
            }
            Some(None) => "ready: waits for the slot of its key".into(),
            None => "ready: waits for a runner; see `gristmill job why`".into(),
        },
        JobState::Delayed { until } => format!("delayed until {until} ({})", distance(*until, now)),
        JobState::Waiting => "waiting for other jobs".into(),
        JobState::Running { worker, lease_until, cancelled, .. } => {
            let cancelled = if *cancelled { "; cancelled" } else { "" };
            let ran =
                view.claimed_at.map(|at| format!(" for {}", units::about_duration(now.since(at)))).unwrap_or_default();
            format!("running on {worker}{ran}, leased until {lease_until} ({}){cancelled}", distance(*lease_until, now))
        }
        JobState::Dead { since } => format!("dead since {since} ({})", distance(*since, now)),
        JobState::Finished => match &view.ended {
            Some(ended) => {
                format!("finished: {} at {} ({})", end(ended.outcome), ended.at, distance(ended.at, now))
            }
            None => "finished".into(),
        },
    }
}

fn progress(Progress { basis_points, note }: &Progress) -> String {
    let gap = if note.is_empty() { "" } else { ": " };
    format!("{}.{:02} %{gap}{}", basis_points / 100, basis_points % 100, note.replace('\n', " "))
}

/// How a job ended, in a word or two.
pub(super) const fn end(outcome: EndedAs) -> &'static str {
    match outcome {
        EndedAs::Complete => "done",
        EndedAs::Expired => "expired",
        EndedAs::Cancelled => "cancelled",
        EndedAs::Deleted => "dead, and deleted",
    }
}

/// The facts about a job that its producer gave.
pub(super) fn job(job: &Job, now: Timestamp) -> Vec<(&'static str, String)> {
    let spec = &job.spec;
    let mut facts = vec![
        ("topic", spec.topic.to_string()),
        ("enqueued", format!("{} ({})", job.enqueued_at, distance(job.enqueued_at, now))),
    ];
    if job.due_at != job.enqueued_at {
        facts.push(("due", format!("{} ({})", job.due_at, distance(job.due_at, now))));
    }
    let optional = [
        ("key", spec.options.key.clone()),
        ("priority", (spec.options.priority != Priority::Normal).then(|| spec.options.priority.to_string())),
        ("unique", spec.options.unique.as_ref().map(unique)),
        ("attempts max", spec.options.max_attempts.map(|attempts| attempts.to_string())),
        ("ttl", spec.options.ttl.map(units::about_duration)),
    ];
    facts.extend(optional.into_iter().filter_map(|(name, value)| Some((name, value?))));
    if !spec.metadata.is_empty() {
        let lines: Vec<_> = spec.metadata.iter().map(|(name, value)| format!("{name}={value}")).collect();
        facts.push(("metadata", lines.join("\n")));
    }
    facts.push(("body", payload(&spec.body)));
    facts
}

fn unique(unique: &Unique) -> String {
    match unique.window {
        None => unique.value.clone(),
        Some(window) => format!("{} for {} from its push on", unique.value, units::about_duration(window)),
    }
}

/// Size, type and beginning.
pub(super) fn payload(payload: &Payload) -> String {
    let size = units::SIZE.about(payload.data.len() as u64);
    let kind = payload.content_type.as_deref().map(|kind| format!(", {kind}")).unwrap_or_default();
    if payload.data.is_empty() {
        return format!("empty{kind}");
    }
    format!("{size}{kind}\n{}", screen::preview(&payload.data, PREVIEW_CHARS))
}

fn result(result: &ResultView) -> String {
    match result {
        ResultView::Complete(None) => "complete, with nothing to say".into(),
        ResultView::Complete(Some(output)) => format!("complete: {}", payload(output)),
        ResultView::Dead(cause) => format!("dead: {}", failure(Some(cause))),
        ResultView::Expired => "expired before it could start".into(),
        ResultView::Cancelled => "cancelled".into(),
    }
}

/// `in 5m` or `5m ago`, by this host's clock: good enough to read.
pub(super) fn distance(at: Timestamp, now: Timestamp) -> String {
    if at > now {
        return format!("in {}", units::about_duration(at.since(now)));
    }
    format!("{} ago", units::about_duration(now.since(at)))
}

/// A failure in words, with the rest of its message and its backtrace below.
pub(super) fn failure(failure: Option<&Failure>) -> String {
    let Some(Failure { reason, detail, backtrace, parked_by }) = failure else {
        return "the reason is no longer known".into();
    };
    let mut text = reason.to_string();
    if detail.code != reason.as_str() && !detail.code.is_empty() {
        text.push_str(&format!(" ({})", screen::clean(&detail.code)));
    }
    let mut message = detail.message.lines();
    if let Some(line) = message.next() {
        text.push_str(&format!(": {}", screen::clean(line)));
    }
    if let Some(version) = parked_by {
        text.push_str(&format!(
            "; it runs again by itself once another version than {} serves",
            screen::clean(version)
        ));
    }
    // A handler's own account, such as the stack of an exception.
    let context = detail.context.as_ref().filter(|context| is_text(context)).map(|context| context.data.as_slice());
    let context = context.map(String::from_utf8_lossy).unwrap_or_default();
    let backtrace = backtrace.iter().flat_map(|backtrace| backtrace.lines());
    for line in message.chain(context.lines().take(CONTEXT_LINES)).chain(backtrace) {
        text.push_str(&format!("\n  {}", screen::clean(line)));
    }
    text
}

/// Whether it is shown whole with the failure that it belongs to.
pub(super) fn is_text(context: &Payload) -> bool {
    context.content_type.as_deref().is_some_and(|kind| kind.starts_with("text/plain"))
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use gristmill_core::outcome::{FailureDetail, Reason};

    #[test]
    fn distances_look_forward_and_back() {
        let (early, late) = (Timestamp::from_millis(1000), Timestamp::from_millis(91_000));
        assert_eq!(distance(late, early), "in 1m30s");
        assert_eq!(distance(early, late), "1m30s ago");
    }

    #[test]
    fn a_job_that_waits_for_its_key_says_for_which_job() {
        let now = Timestamp::from_millis(0);
        let nothing = serde_json::Value::Null;
        let view = json!({ "id": "later", "state": "ready", "attempts": 0, "job": nothing, "last_failure": nothing, "result": nothing });
        let mut view: JobView = serde_json::from_value(view).unwrap();
        assert_eq!(state(&view, now), "ready: waits for a runner; see `gristmill job why`");
        view.behind = Some(gristmill_store::BehindKey { holders: vec!["first".parse().unwrap()], ahead: 0 });
        let said = state(&view, now);
        assert!(said.starts_with("ready: waits for job first, which has the slot of its key"), "{said}");
    }

    #[test]
    fn a_body_is_shown_by_size_type_and_beginning() {
        let text = Payload { data: b"{\"a\":1}".to_vec(), content_type: Some("application/json".into()) };
        assert_eq!(payload(&text), "7B, application/json\n{\"a\":1}");
        assert_eq!(payload(&Payload::default()), "empty");
    }

    #[test]
    fn a_failure_is_shown_with_its_backtrace() {
        let detail = FailureDetail { code: "trap".into(), message: "unreachable\non fire".into(), context: None };
        let cause = Failure { backtrace: Some("0: handle\n1: start".into()), ..Failure::new(Reason::Trap, detail) };
        assert_eq!(failure(Some(&cause)), "trap: unreachable\n  on fire\n  0: handle\n  1: start");
        assert_eq!(failure(None), "the reason is no longer known");
    }
}
