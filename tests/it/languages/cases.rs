//! What every language's handler makes of a signup.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use base64::Engine;
use base64::prelude::BASE64_STANDARD;
use gristmill::admission::{Rules, TenantRules};
use gristmill::job::{Due, Job, JobSpec, Name, NewJob, Payload, Priority};
use gristmill::outcome::Outcome;
use gristmill::sandbox::{
    Attempt, Cancellation, Component, LogLine, LogSink, Record, Recording, ReplayInput, ReplayVerdict, Report,
};
use gristmill::time::Timestamp;
use gristmill::topic::{Limits, Topic};
use parking_lot::Mutex;
use serde::Deserialize;

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Case {
    name: String,
    #[serde(default)]
    body: String,
    /// A body that is no text, instead of `body`.
    body_base64: Option<String>,
    config: BTreeMap<String, String>,
    attempt: u32,
    /// There is no topic but `welcome`.
    topic: String,
    /// The manifest's `enqueue` grant.
    enqueue: Option<Vec<Name>>,
    follow_ups: Option<u32>,
    expected: Expected,
}

#[derive(Debug, PartialEq, Deserialize)]
#[serde(deny_unknown_fields)]
struct Expected {
    outcome: String,
    code: Option<String>,
    /// None: any.
    message: Option<String>,
    after_ms: Option<u64>,
    output: Option<String>,
    content_type: Option<String>,
    log: Vec<Line>,
    follow_up: Option<FollowUp>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct Line {
    level: String,
    message: String,
    fields: Vec<(String, String)>,
}

#[derive(Debug, PartialEq, Deserialize)]
struct FollowUp {
    topic: String,
    due_in_ms: u64,
    content_type: Option<String>,
    priority: String,
    body: String,
    unique: Option<String>,
}

pub(super) fn all() -> Vec<Case> {
    let cases: Vec<Case> = serde_json::from_str(include_str!("../../welcome-cases.json")).unwrap();
    assert!(cases.len() > 50, "{} cases", cases.len());
    cases
}

impl Case {
    /// Runs one attempt with what the topic's manifest grants, and holds it to what is expected.
    pub(super) async fn hold(&self, component: &Component, topic: &Topic) {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let began = Timestamp::now();
        let attempt = self.attempt(topic, LogSink::Collect(Arc::clone(&lines)));
        let body = attempt.job.spec.body.data.clone();
        let mut report = component.invoke(attempt).await;
        let ended = Timestamp::now();
        ends_again(component, topic, body, report.recording.take()).await;
        let lines = std::mem::take(&mut *lines.lock());
        let mut seen = seen(&report, &lines);
        // The wait begins somewhere within the attempt.
        if let (Some(NewJob { due: Due::At(at), .. }), Some(follow_up)) =
            (report.follow_ups.first(), &mut seen.follow_up)
        {
            let wait = self.expected.follow_up.as_ref().map_or(0, |expected| expected.due_in_ms);
            let (soonest, latest) = (began.plus(Duration::from_millis(wait)), ended.plus(Duration::from_millis(wait)));
            assert!((soonest..=latest).contains(at), "{}: due at {at:?}, not in {soonest:?} to {latest:?}", self.name);
            follow_up.due_in_ms = wait;
        }
        if self.expected.message.is_none() {
            assert_eq!(seen.message.take().is_some(), seen.code.is_some(), "{}: a failure says what it is", self.name);
        }
        assert_eq!(seen, self.expected, "{}: {:?}\n{lines:?}", self.name, report.outcome);
    }

    fn attempt(&self, topic: &Topic, logs: LogSink) -> Attempt {
        let data = match &self.body_base64 {
            Some(text) => BASE64_STANDARD.decode(text).unwrap(),
            None => self.body.clone().into_bytes(),
        };
        let spec = JobSpec::new(self.topic.parse().unwrap(), Payload { data, content_type: None });
        let mut grants = (*topic.grants).clone();
        grants.config.clone_from(&self.config);
        grants.enqueue.clone_from(&self.enqueue);
        let limits = Limits { follow_ups: self.follow_ups.unwrap_or(topic.limits.follow_ups), ..topic.limits };
        Attempt { attempt: self.attempt, grants: Arc::new(grants), limits, ..attempt(topic, spec, logs) }
    }
}

/// Holds a replay of an attempt to the same end.
pub(super) async fn ends_again(component: &Component, topic: &Topic, body: Vec<u8>, recording: Option<Box<Recording>>) {
    let recording = Arc::new(*recording.expect("every attempt is recorded"));
    let (secrets, env) = (topic.grants.secrets.clone(), topic.grants.env.clone());
    let input = ReplayInput { body, secrets, env, logs: LogSink::Collect(Arc::default()) };
    let replayed = component.replay(&recording, input).await.unwrap();
    let calls: Vec<_> = recording.calls().collect();
    assert_eq!(replayed.verdict, ReplayVerdict::Same, "{:?}: {calls:?}", replayed.report);
}

/// The first attempt at a job of this topic.
pub(super) fn attempt(topic: &Topic, spec: JobSpec, logs: LogSink) -> Attempt {
    let rule = Rules::of(topic, TenantRules::ANY);
    Attempt {
        job: Arc::new(Job { spec, enqueued_at: Timestamp::now(), due_at: Timestamp::now() }),
        attempt: 1,
        max_attempts: 5,
        checkpoint: None,
        adapter: topic.adapter.clone(),
        limits: topic.limits,
        grants: Arc::clone(&topic.grants),
        targets: Arc::new(HashMap::from([("welcome".parse().unwrap(), rule)])),
        clock_offset_ms: 0,
        cancellation: Cancellation::default(),
        checkpoints: None,
        states: None,
        logs,
        trace: None,
        requests: None,
        record: Record::All,
    }
}

fn seen(report: &Report, lines: &[LogLine]) -> Expected {
    let text = |bytes: &[u8]| String::from_utf8(bytes.to_vec()).unwrap();
    let mut seen = Expected {
        outcome: String::new(),
        code: None,
        message: None,
        after_ms: None,
        output: None,
        content_type: None,
        log: lines.iter().filter(|line| line.source == "log").map(line).collect(),
        follow_up: report.follow_ups.first().map(follow_up),
    };
    assert!(report.follow_ups.len() <= 1, "{report:?}");
    let mut fail = |outcome: &str, detail: &gristmill::outcome::FailureDetail| {
        seen.outcome = outcome.to_owned();
        (seen.code, seen.message) = (Some(detail.code.clone()), Some(detail.message.clone()));
    };
    match &report.outcome {
        Outcome::Complete(Some(result)) => {
            seen.outcome = "complete".to_owned();
            seen.output = Some(text(&result.data));
            seen.content_type.clone_from(&result.content_type);
        }
        Outcome::Reject(detail) => fail("rejected", detail),
        Outcome::Retry { detail, after } => {
            fail("retry", detail);
            seen.after_ms = after.map(|after| u64::try_from(after.as_millis()).unwrap());
        }
        other => panic!("{other:?}\n{lines:?}"),
    }
    seen
}

fn line(line: &LogLine) -> Line {
    Line { level: line.level.as_str().to_lowercase(), message: line.message.clone(), fields: line.fields.clone() }
}

fn follow_up(job: &NewJob) -> FollowUp {
    let spec = &job.spec;
    let priority = match spec.options.priority {
        Priority::High => "high",
        Priority::Normal => "normal",
        Priority::Low => "low",
    };
    assert!(spec.metadata.is_empty() && spec.options.key.is_none(), "{job:?}");
    FollowUp {
        topic: spec.topic.to_string(),
        due_in_ms: 0,
        content_type: spec.body.content_type.clone(),
        priority: priority.to_owned(),
        body: String::from_utf8(spec.body.data.clone()).unwrap(),
        unique: spec.options.unique.as_ref().map(|unique| unique.value.clone()),
    }
}
