//! The one place where answers of the host are written down, and where a replay takes them from.

use std::collections::VecDeque;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_bytes::ByteBuf;
use sha2::{Digest, Sha256};

use super::{BodyPart, Call, Divergence, KeptAnswer, RECORDING_BYTES_MAX, Record, Recording, digest, words};
use crate::attempt::LogLine;

/// What the SDKs ask, for which a native handler has no other way.
const ASKED_NATIVELY: [&str; 11] = [
    "config.get",
    "config.secret",
    "context.checkpoint",
    "context.is-cancelled",
    "http.handle",
    "http.send",
    "log.enabled",
    "queue.enqueue",
    "queue.enqueue-linked",
    "state.get",
    "state.set",
];

/// Whether a native handler makes this call, too.
pub(super) fn is_asked_natively(name: &str) -> bool {
    ASKED_NATIVELY.contains(&name)
}

/// What an attempt has asked so far. Takes no memory until something is asked or logged.
#[derive(Debug, Default)]
pub(crate) struct Boundary(Option<Log>);

#[derive(Debug, Default)]
pub(crate) struct Log {
    pub(super) names: Vec<&'static str>,
    pub(super) calls: Vec<Call>,
    pub(super) bodies: Vec<(u32, BodyPart)>,
    pub(super) lines: Vec<u8>,
    pub(super) incomplete: Option<String>,
    /// Of what is above.
    bytes: usize,
    replay: Option<Box<Script>>,
    pub(super) diverged: Option<Divergence>,
}

/// What a replay takes its answers from.
#[derive(Debug)]
struct Script {
    recording: Arc<Recording>,
    next: usize,
    /// The handler has no component around it: what only components ask is passed over.
    is_native: bool,
}

impl Script {
    fn pass_over(&mut self) {
        while self.is_native && self.waits_at(|name| !is_asked_natively(name)) {
            self.next += 1;
        }
    }

    /// Whether a call comes next whose name is such a one.
    fn waits_at(&self, is_such: impl Fn(&str) -> bool) -> bool {
        self.recording.calls.get(self.next).is_some_and(|call| is_such(self.recording.name(call)))
    }
}

/// A replayed guest asked something else than was recorded. Ends the guest.
#[derive(Debug, thiserror::Error)]
#[error("it asks something else than was recorded")]
pub(crate) struct Diverged;

/// A question of the guest.
#[derive(Clone, Copy)]
pub(crate) struct Question<'a> {
    /// Of the call.
    pub(super) name: &'static str,
    /// What a person may read of it.
    pub(super) about: &'a str,
    /// Enough to distinguish questions, and none of their content. Zeros if nothing is recorded.
    pub(super) digest: [u8; 8],
}

impl Boundary {
    /// None if nothing is recorded.
    pub(crate) fn log(&mut self) -> Option<&mut Log> {
        self.0.as_mut()
    }

    pub(crate) fn of(record: &Record) -> Self {
        let replay = match record {
            Record::Off => return Self(None),
            Record::Failures | Record::All => None,
            Record::Replay(recording) => {
                Some(Box::new(Script { recording: Arc::clone(recording), next: 0, is_native: false }))
            }
        };
        Self(Some(Log { replay, ..Log::default() }))
    }

    pub(super) fn take(&mut self) -> Option<Log> {
        self.0.take()
    }

    /// A line of the guest. Those of the host about requests come when these end, which the guest does not see.
    pub(crate) fn note_line(&mut self, line: &LogLine) {
        let Some(log) = self.0.as_mut().filter(|_| line.source != "http") else { return };
        let fields = (log.calls.len(), line.level.as_str(), line.source, &line.message, &line.fields);
        if log.has_room(line.bytes())
            && let Ok(lines) = postcard::to_extend(&fields, std::mem::take(&mut log.lines))
        {
            log.lines = lines;
        }
    }

    /// Why the recording is of no use. The first reason stays.
    pub(crate) fn note_gap(&mut self, reason: &str) {
        if let Some(log) = &mut self.0 {
            log.incomplete.get_or_insert_with(|| reason.to_owned());
        }
    }

    /// A part of the answer to a request of `wasi:http`.
    pub(crate) fn note_body(&mut self, request: u32, part: impl FnOnce() -> BodyPart) {
        let Some(log) = &mut self.0 else { return };
        let part = part();
        if log.has_room(part.bytes()) {
            log.bodies.push((request, part));
        }
    }

    /// The answer to a request of `wasi:http`, if this is a replay.
    pub(crate) fn body(&self, request: u32) -> Option<VecDeque<BodyPart>> {
        let recording = &self.0.as_ref()?.replay.as_ref()?.recording;
        let parts = recording.bodies.iter().filter(|(of, _)| *of == request);
        Some(parts.map(|(_, part)| part.clone()).collect())
    }

    /// A replay goes beyond what was recorded.
    pub(crate) fn note_beyond(&mut self, asked: &str) {
        if let Some(log) = &mut self.0 {
            let number = log.calls.len() + 1;
            let asked = asked.to_owned();
            log.diverged.get_or_insert(Divergence { number, recorded: None, asked, is_sealed: false });
        }
    }

    /// # Errors
    /// It is a replay that asked something else.
    pub(crate) fn check(&self) -> Result<(), Diverged> {
        let diverged = self.0.as_ref().is_some_and(|log| log.diverged.is_some());
        if diverged { Err(Diverged) } else { Ok(()) }
    }
}

impl Log {
    /// Whether the job's body has room beside the rest, and a replay would have a use for it.
    pub(super) fn has_room_for(&self, body: &[u8]) -> bool {
        self.incomplete.is_none() && self.bytes.saturating_add(body.len()) <= RECORDING_BYTES_MAX
    }

    /// Counts so many bytes, if there is room for them.
    fn has_room(&mut self, bytes: usize) -> bool {
        const EACH: usize = 32;
        if self.bytes > RECORDING_BYTES_MAX {
            return false;
        }
        self.bytes = self.bytes.saturating_add(bytes + EACH);
        let has_room = self.bytes <= RECORDING_BYTES_MAX;
        if !has_room {
            let most = RECORDING_BYTES_MAX >> 10;
            self.incomplete.get_or_insert_with(|| format!("its calls and log lines have more than {most} KiB"));
            (self.calls, self.bodies, self.lines) = Default::default();
        }
        has_room
    }

    /// Writes an answer down.
    pub(crate) fn keep(&mut self, question: &Question<'_>, answer: &impl Serialize) {
        self.push(question, KeptAnswer::Here(ByteBuf::from(bytes_of(answer))));
    }

    /// The call ended the guest.
    pub(crate) fn note_end(&mut self, question: &Question<'_>) {
        self.push(question, KeptAnswer::None);
    }

    /// Writes the digest of a secret down, or compares it in a replay.
    ///
    /// # Errors
    /// It is another secret than was recorded, or something else was asked.
    pub(crate) fn seal(&mut self, question: &Question<'_>, answer: &impl Serialize) -> Result<(), Diverged> {
        let sealed = digest(&bytes_of(answer));
        match self.recorded_answer(question)? {
            Some(KeptAnswer::Sealed(recorded)) if recorded != sealed => {
                Err(self.diverge(question, Some(question.in_words()), true))
            }
            _ => {
                self.push(question, KeptAnswer::Sealed(sealed));
                Ok(())
            }
        }
    }

    /// The answer, if this is a replay, and the call did not end the guest: then it will again.
    ///
    /// # Errors
    /// Something else was asked when it was recorded.
    pub(crate) fn answer<A: DeserializeOwned>(&mut self, question: &Question<'_>) -> Result<Option<A>, Diverged> {
        match self.recorded_answer(question)? {
            None | Some(KeptAnswer::None) => Ok(None),
            Some(KeptAnswer::Here(bytes)) => match postcard::from_bytes(&bytes) {
                Ok(answer) => {
                    self.push(question, KeptAnswer::Here(bytes));
                    Ok(Some(answer))
                }
                Err(_) => Err(self.diverge(question, Some("an answer of another kind".to_owned()), false)),
            },
            Some(_) => Err(self.diverge(question, Some(question.in_words()), true)),
        }
    }

    fn push(&mut self, question: &Question<'_>, answer: KeptAnswer) {
        let bytes = if let KeptAnswer::Here(bytes) = &answer { bytes.len() } else { 0 };
        if self.has_room(bytes + question.about.len()) {
            let place = self.names.iter().position(|known| *known == question.name).unwrap_or_else(|| {
                self.names.push(question.name);
                self.names.len() - 1
            });
            let name = u32::try_from(place).unwrap_or(u32::MAX);
            self.calls.push(Call { name, about: question.about.to_owned(), asked: question.digest, answer });
        }
    }

    /// The recorded answer to this question, if this is a replay.
    fn recorded_answer(&mut self, question: &Question<'_>) -> Result<Option<KeptAnswer>, Diverged> {
        if self.diverged.is_some() {
            return Err(Diverged);
        }
        let Some(script) = &mut self.replay else { return Ok(None) };
        script.pass_over();
        let recording = &script.recording;
        let found = recording.calls.get(script.next);
        script.next += 1;
        match found.filter(|found| recording.name(found) == question.name && found.asked == question.digest) {
            Some(found) => Ok(Some(match recording.bytes_of(&found.answer) {
                Some(bytes) => KeptAnswer::Here(ByteBuf::from(bytes)),
                None => found.answer.clone(),
            })),
            None => {
                let recorded = found.map(|found| recording.in_words(found));
                Err(self.diverge(question, recorded, false))
            }
        }
    }

    /// From now on a native handler asks.
    pub(super) fn ask_natively(&mut self) {
        if let Some(script) = &mut self.replay {
            script.is_native = true;
        }
    }

    /// What is recorded for the next question, in a replay: the call's name, what a person may read of it, and its digest.
    pub(super) fn expected(&mut self) -> Option<(&str, &str, [u8; 8])> {
        let script = self.replay.as_mut()?;
        script.pass_over();
        let recording = &script.recording;
        let call = recording.calls.get(script.next)?;
        Some((recording.name(call), &call.about, call.asked))
    }

    /// The number of the next call in the recording, from 1.
    pub(super) fn number(&self) -> usize {
        self.replay.as_ref().map_or(0, |script| script.next + 1)
    }

    /// The next time of day that is recorded before the next question of a native handler, with the seconds' nanoseconds.
    pub(super) fn next_time(&mut self) -> Option<(u64, u32)> {
        let script = self.replay.as_mut()?;
        while script.waits_at(|name| !is_asked_natively(name)) {
            let call = script.recording.calls.get(script.next)?;
            let bytes = script.recording.bytes_of(&call.answer);
            let time = match script.recording.name(call) {
                "wall-clock.now" => bytes.and_then(|bytes| postcard::from_bytes(bytes).ok()),
                "context.now" => bytes.and_then(|bytes| postcard::from_bytes::<u64>(bytes).ok()).map(of_millis),
                _ => None,
            };
            script.next += 1;
            if time.is_some() {
                return time;
            }
        }
        None
    }

    pub(super) fn diverge(&mut self, question: &Question<'_>, recorded: Option<String>, is_sealed: bool) -> Diverged {
        let number = self.replay.as_ref().map_or(0, |script| script.next);
        self.diverged = Some(Divergence { number, recorded, asked: question.in_words(), is_sealed });
        Diverged
    }
}

impl<'a> Question<'a> {
    /// `question` is looked at only if the attempt is recorded.
    pub(crate) fn new(name: &'static str, about: &'a str, question: Option<&impl Serialize>) -> Self {
        let bytes = question.map(bytes_of).unwrap_or_default();
        let digest = match bytes.as_slice() {
            [] => [0; 8],
            bytes => Sha256::digest(bytes).first_chunk().copied().unwrap_or_default(),
        };
        Self { name, about, digest }
    }

    pub(super) fn in_words(&self) -> String {
        words(self.name, self.about)
    }
}

/// Seconds, and the remaining nanoseconds.
pub(super) const fn of_millis(millis: u64) -> (u64, u32) {
    (millis / 1000, (millis % 1000) as u32 * 1_000_000)
}

fn bytes_of(value: &impl Serialize) -> Vec<u8> {
    postcard::to_allocvec(value).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_fields_of_log_lines_count_against_what_a_recording_may_have() {
        let fields = vec![("grain".to_owned(), "x".repeat(1000))];
        let line = LogLine { level: tracing::Level::INFO, source: "log", message: String::new(), fields };
        let mut boundary = Boundary::of(&Record::All);
        (0..=RECORDING_BYTES_MAX / 1000).for_each(|_| boundary.note_line(&line));
        let log = boundary.log().unwrap();
        assert_eq!((log.lines.len(), log.incomplete.is_some()), (0, true));
    }
}
