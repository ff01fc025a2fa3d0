//! Runs a component again with the answers of a recording, and compares the ends.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use super::head::{ENGINE, short};
use super::{Divergence, KeptAnswer, Record, Recording, digest};
use crate::attempt::{Attempt, LogSink, Report};
use crate::classify::is_too_deep;
use crate::component::Component;
use crate::placeholders::KeptPlaceholder;
use gristmill_core::http_grant::HttpGrant;
use gristmill_core::job::Job;
use gristmill_core::time::Timestamp;
use gristmill_core::topic::{Capability, Grants};
use gristmill_core::units::counted;

/// A slow machine, or one that is busy, is no reason for another end than the recorded one.
const TIMEOUT_MIN: Duration = Duration::from_secs(600);

/// What a recording does not have.
#[derive(Debug, Clone)]
pub struct ReplayInput {
    /// The job's body.
    pub body: Vec<u8>,
    /// The secrets that the handler reads, by name.
    pub secrets: BTreeMap<String, Vec<u8>>,
    /// The environment that its topic grants.
    pub env: BTreeMap<String, String>,
    /// Where its log lines go.
    pub logs: LogSink,
}

/// What came of a replay.
#[derive(Debug)]
pub struct Replayed {
    /// How the component ended. Of no meaning if it asked something else than was recorded.
    pub report: Report,
    /// What is to be said of it.
    pub verdict: ReplayVerdict,
    /// What it asked and logged this time, as far as it came.
    pub again: Option<Box<Recording>>,
}

/// How a replay compares with what was recorded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum ReplayVerdict {
    /// It ended in the same way, to the bit: outcome, output, log lines and fuel.
    Same,
    /// It had the same answers and ended in another way: what differs, a sentence each.
    Differs(Vec<String>),
    /// It asked something to which there is no answer.
    AsksElse(Divergence),
}

/// Why a recording is not replayed.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum ReplayRefused {
    /// The reason.
    #[error("failed to replay the recording: it is incomplete: {0}")]
    Incomplete(String),
    /// The body is not the one that the attempt was given.
    #[error("failed to replay the recording: the job's body is not the one that was recorded")]
    OtherBody,
    /// The same component would use other fuel here.
    #[error(
        "failed to replay the recording: {0} recorded it, and this is {engine}\nreplay it with the version of gristmill that recorded it, or with `--component`",
        engine = ENGINE
    )]
    OtherEngine(String),
    /// Its head names a job that cannot be.
    #[error("failed to replay the recording: its job has an invalid name")]
    Head,
}

impl Component {
    /// Runs this component with the job and the answers of a recording; it asks nothing of the world. Needs a tokio runtime with time enabled.
    /// Cancel-safe, like [`Component::invoke`].
    ///
    /// # Errors
    /// [`ReplayRefused`]: there is no way to know how it would end.
    pub async fn replay(&self, recording: &Arc<Recording>, input: ReplayInput) -> Result<Replayed, ReplayRefused> {
        let head = &recording.head;
        recording.check(&input.body)?;
        if self.version().0 == head.component && head.engine != ENGINE {
            return Err(ReplayRefused::OtherEngine(head.engine.clone()));
        }
        let attempt = recording.attempt(input).ok_or(ReplayRefused::Head)?;
        let mut report = self.invoke(attempt).await;
        let again = report.recording.take();
        let verdict = match again.as_deref() {
            Some(Recording { diverged: Some(diverged), .. }) => ReplayVerdict::AsksElse(diverged.clone()),
            Some(again) => recording.compare(again, !is_too_deep(&report.outcome)),
            None => ReplayVerdict::Differs(vec![format!("it could not be run here: {:?}", report.outcome)]),
        };
        Ok(Replayed { report, verdict, again })
    }
}

impl Recording {
    /// Whether it can be replayed with this body.
    pub(super) fn check(&self, body: &[u8]) -> Result<(), ReplayRefused> {
        match &self.incomplete {
            Some(reason) => Err(ReplayRefused::Incomplete(reason.clone())),
            None if short(&digest(body)) != self.head.body => Err(ReplayRefused::OtherBody),
            None => Ok(()),
        }
    }

    /// The same attempt.
    pub(super) fn attempt(self: &Arc<Self>, input: ReplayInput) -> Option<Attempt> {
        let head = &self.head;
        let mut limits = head.limits;
        limits.timeout = limits.timeout.max(TIMEOUT_MIN);
        let mut grants = Grants { secrets: input.secrets, env: input.env, ..Grants::default() };
        for KeptPlaceholder { is_variable, name, .. } in &head.placeholders {
            // The guest did not see it then either.
            if *is_variable { drop(grants.env.remove(name)) } else { drop(grants.secrets.remove(name)) }
        }
        if head.keeps_state {
            grants.switches.insert(Capability::State);
        }
        grants.http = head.request_bytes.map(|bytes| {
            let mut http = HttpGrant::of(Vec::new());
            http.request_bytes = bytes;
            Arc::new(http)
        });
        let mut attempt = Attempt::at(head.job(input.body)?, limits);
        let job = Arc::make_mut(&mut attempt.job);
        *job = Job {
            enqueued_at: Timestamp::from_millis(head.enqueued_ms),
            due_at: Timestamp::from_millis(head.due_ms),
            ..job.clone()
        };
        Some(Attempt {
            attempt: head.attempt,
            max_attempts: head.max_attempts,
            checkpoint: head.checkpoint.clone().map(serde_bytes::ByteBuf::into_vec),
            adapter: head.adapter.adapter(),
            grants: Arc::new(grants),
            logs: input.logs,
            record: Record::Replay(Arc::clone(self)),
            ..attempt
        })
    }

    /// When the attempt's time was over.
    pub(crate) fn deadline(&self) -> Timestamp {
        Timestamp::from_millis(self.head.deadline_ms)
    }

    /// `is_fuel_exact`: the same component uses the same on every machine.
    fn compare(&self, again: &Self, is_fuel_exact: bool) -> ReplayVerdict {
        let (before, now) = (&self.end, &again.end);
        let mut differences = Vec::new();
        if before.outcome != now.outcome {
            differences.push(format!("outcome: {} was recorded, now it is {}", before.outcome, now.outcome));
        } else if before.digest != now.digest {
            differences.push(format!("output: it is {} again, with another result or message", now.outcome));
        }
        if is_fuel_exact && before.fuel != now.fuel {
            differences.push(format!("fuel: {} were recorded, now it used {}", before.fuel, now.fuel));
        }
        if self.calls.len() != again.calls.len() {
            let (recorded, asked) = (self.calls.len(), again.calls.len());
            differences.push(format!("calls: {recorded} were recorded, now it made {asked}"));
        }
        let are_same_lines = match (&self.lines, &again.lines) {
            (KeptAnswer::Sealed(_), _) | (_, KeptAnswer::Sealed(_)) => {
                self.digest_of(&self.lines) == again.digest_of(&again.lines)
            }
            (before, now) => self.bytes_of(before) == again.bytes_of(now),
        };
        if !are_same_lines || before.lines_dropped != now.lines_dropped {
            differences.push(self.first_line(again));
        }
        if differences.is_empty() { ReplayVerdict::Same } else { ReplayVerdict::Differs(differences) }
    }

    fn first_line(&self, again: &Self) -> String {
        let (Some(before), Some(now)) = (self.lines(), again.lines()) else { return "log: other lines".to_owned() };
        let first = before.iter().zip(&now).position(|(before, now)| before != now);
        let number = first.unwrap_or_else(|| before.len().min(now.len())) + 1;
        format!(
            "log: {} recorded, now {}; line {number} is the first that differs",
            counted(before.len(), "line was", "lines were"),
            now.len()
        )
    }
}
