//! The end of a recording: what it has of secrets is replaced by digests, and what is repeated is written once.

use std::collections::HashMap;

use memchr::memmem::Finder;
use serde_bytes::ByteBuf;
use sha2::{Digest, Sha256};

use super::boundary::{Boundary, Log};
use super::head::{RecordingHead, short};
use super::{BodyPart, CONTENT_BYTES_MIN, KeptAnswer, Record, RecordedEnd, Recording, digest};
use crate::attempt::{Attempt, Report, Version};
use crate::classify::is_too_deep;
use crate::placeholders::Placeholders;
use gristmill_core::job::Payload;
use gristmill_core::outcome::{FailureDetail, Outcome};
use gristmill_core::time::Timestamp;
use gristmill_core::topic::Grants;

/// What is shorter stands in any text.
const SECRET_BYTES_MIN: usize = 4;
/// A variable of the environment need not be a secret, and `production` is a word like any other.
const VARIABLE_BYTES_MIN: usize = 12;

const HOLDS_SECRET: &str = "an answer has a secret in it, and is not kept";

impl Boundary {
    /// The recording of an attempt that ended so, if one is kept of it. Leaves nothing.
    pub(crate) fn finish(
        &mut self,
        attempt: &Attempt,
        placeholders: Option<&Placeholders>,
        version: Version,
        deadline: Timestamp,
        report: &Report,
    ) -> Option<Box<Recording>> {
        let mut log = self.take()?;
        let is_kept = match (&attempt.record, &report.outcome) {
            (Record::Off, _) | (_, Outcome::PoolFull | Outcome::HostFault(_)) => false,
            (Record::Failures, Outcome::Complete(_) | Outcome::Snooze(_)) => false,
            (Record::Failures | Record::All | Record::Replay(_), _) => true,
        };
        if !is_kept {
            return None;
        }
        if !matches!(attempt.record, Record::Replay(_)) {
            note_end(&mut log, &report.outcome);
        }
        let secrets = Secrets::of(&attempt.grants);
        let mut head = RecordingHead::of(attempt, placeholders, version, deadline);
        if head.checkpoint.as_ref().is_some_and(|checkpoint| secrets.are_in(checkpoint)) {
            head.checkpoint = None;
            log.incomplete.get_or_insert_with(|| HOLDS_SECRET.to_owned());
        }
        secrets.seal(&mut log);
        let body = &attempt.job.spec.body.data;
        let is_body_kept = matches!(attempt.record, Record::All) && log.has_room_for(body) && !secrets.are_in(body);
        let body = is_body_kept.then(|| ByteBuf::from(body.as_slice()));
        let Log { names, mut calls, bodies, lines, incomplete, diverged, .. } = log;
        let contents = collect(calls.iter_mut().map(|call| &mut call.answer));
        let lines =
            if secrets.are_in(&lines) { KeptAnswer::Sealed(digest(&lines)) } else { KeptAnswer::Here(lines.into()) };
        let end = RecordedEnd {
            outcome: report.outcome.kind().to_string(),
            digest: digest_of(&report.outcome),
            fuel: report.fuel,
            lines_dropped: report.log_lines_dropped,
        };
        let names = names.into_iter().map(str::to_owned).collect();
        let recording = Recording { head, incomplete, end, body, names, contents, calls, bodies, lines, diverged };
        // Metadata that a producer wrote, and whatever else: no recording is better than one with a secret.
        let is_clean = secrets.0.is_empty() || recording.plain().is_ok_and(|bytes| !secrets.are_in(&bytes));
        is_clean.then(|| Box::new(recording))
    }
}

fn note_end(log: &mut Log, outcome: &Outcome) {
    let by_time = match outcome {
        Outcome::TimedOut { .. } => "it was ended by its timeout, and a replay cannot end it at the same instruction",
        Outcome::Killed | Outcome::ShuttingDown | Outcome::LeaseExpired => "it was ended from outside",
        _ => return,
    };
    log.incomplete.get_or_insert_with(|| by_time.to_owned());
}

/// The values that no recording may have.
struct Secrets(Vec<Finder<'static>>);

impl Secrets {
    fn of(grants: &Grants) -> Self {
        let secrets = grants.secrets.values().filter(|value| value.len() >= SECRET_BYTES_MIN);
        let variables = grants.env.values().filter(|value| value.len() >= VARIABLE_BYTES_MIN);
        // The guest does not have these, but what came by another way may have them.
        let withheld = grants.withheld.iter().map(|secret| secret.bytes.as_slice());
        let all = secrets.map(Vec::as_slice).chain(variables.map(String::as_bytes)).chain(withheld);
        Self(all.map(|value| Finder::new(value).into_owned()).collect())
    }

    fn are_in(&self, bytes: &[u8]) -> bool {
        self.0.iter().any(|secret| secret.find(bytes).is_some())
    }

    fn seal(&self, log: &mut Log) {
        if self.0.is_empty() {
            return;
        }
        for call in &mut log.calls {
            if self.are_in(call.about.as_bytes()) {
                call.about.clear();
            }
            if let KeptAnswer::Here(bytes) = &call.answer
                && self.are_in(bytes)
            {
                call.answer = KeptAnswer::Sealed(digest(bytes));
                log.incomplete.get_or_insert_with(|| HOLDS_SECRET.to_owned());
            }
        }
        // A secret may be cut by the end of a part.
        let mut bodies: HashMap<u32, Vec<u8>> = HashMap::new();
        for (request, part) in &log.bodies {
            let body = bodies.entry(*request).or_default();
            match part {
                BodyPart::Data(bytes) => body.extend_from_slice(bytes),
                BodyPart::Head { headers, .. } => headers.iter().for_each(|(_, value)| body.extend_from_slice(value)),
                BodyPart::Failed(_) | BodyPart::End => {}
            }
        }
        if bodies.values().any(|body| self.are_in(body)) {
            log.bodies.clear();
            log.incomplete.get_or_insert_with(|| HOLDS_SECRET.to_owned());
        }
    }
}

/// Moves answers of some size to the contents, each once.
fn collect<'a>(answers: impl Iterator<Item = &'a mut KeptAnswer>) -> Vec<ByteBuf> {
    let (mut places, mut contents) = (HashMap::new(), Vec::new());
    for answer in answers {
        if let KeptAnswer::Here(bytes) = answer
            && bytes.len() >= CONTENT_BYTES_MIN
        {
            let place = *places.entry(digest(bytes)).or_insert_with(|| {
                contents.push(std::mem::take(bytes));
                contents.len() - 1
            });
            *answer = KeptAnswer::Content(u32::try_from(place).unwrap_or(u32::MAX));
        }
    }
    contents
}

/// Over all that a handler returned, or how it was stopped.
fn digest_of(outcome: &Outcome) -> [u8; 8] {
    let mut hasher = Sha256::new();
    let mut add = |bytes: &[u8]| {
        hasher.update((bytes.len() as u64).to_le_bytes());
        hasher.update(bytes);
    };
    add(outcome.kind().to_string().as_bytes());
    let payload = |payload: &Option<Payload>, add: &mut dyn FnMut(&[u8])| {
        if let Some(Payload { data, content_type }) = payload {
            add(content_type.as_deref().unwrap_or_default().as_bytes());
            add(data);
        }
    };
    let failure = |detail: &FailureDetail, add: &mut dyn FnMut(&[u8])| {
        add(detail.code.as_bytes());
        add(detail.message.as_bytes());
        payload(&detail.context, add);
    };
    match outcome {
        Outcome::Complete(result) => payload(result, &mut add),
        Outcome::Retry { detail, after } => {
            failure(detail, &mut add);
            add(format!("{after:?}").as_bytes());
        }
        Outcome::Reject(detail) => failure(detail, &mut add),
        Outcome::Trapped { message, .. } if is_too_deep(outcome) => add(message.as_bytes()),
        other => add(format!("{other:?}").as_bytes()),
    }
    short(&hasher.finalize().into())
}
