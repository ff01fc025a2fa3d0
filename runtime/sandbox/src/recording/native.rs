//! The answers of a recording for a handler that runs as a process, without a component (`--native`), so that a debugger can hold it.
//!
//! What a handler asks by way of the SDK it asks natively, too: that is compared, call by call. The rest, such as what is ready when and what fuel remains,
//! only an engine in a component asks, and it is passed over. Time is asked more or less often: each answer is the next recorded time before the next
//! of the calls that are compared, or else the one before.

use std::sync::Arc;

use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_bytes::{ByteBuf, Bytes};

use super::answers::{Fault, FollowUpQuestion, HttpReply, about_request, request_question, response};
use super::boundary::{Log, Question, of_millis};
use super::native_end;
use super::{BodyPart, Recording, ReplayInput, ReplayRefused, Replayed};
use crate::attempt::{Attempt, LogLine, Report, Version};
use crate::bindings::http::HttpError;
use crate::bindings::queue::LinkedError;
use crate::guest_log::GuestLog;
use crate::keyed_state::StateError;
use gristmill_core::job::{Due, NewJob, Payload};
use gristmill_core::outcome::Outcome;
use gristmill_core::time::Timestamp;

/// A recorded attempt that a native handler does again. It asks nothing of the world.
#[derive(Debug)]
pub struct NativeReplay {
    recording: Arc<Recording>,
    attempt: Arc<Attempt>,
    log: GuestLog,
    /// The time of day that was answered last: seconds and nanoseconds.
    time: (u64, u32),
    requests: u32,
    notes: Vec<String>,
}

/// A request over HTTP.
#[derive(Debug, Clone, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct NativeRequest {
    /// Such as `GET`.
    pub method: String,
    /// With `http` or `https`.
    pub url: String,
    /// Names may repeat.
    pub headers: Vec<(String, String)>,
    /// None: it has no body.
    pub body: Option<Payload>,
    /// In milliseconds.
    pub timeout: Option<u64>,
    /// How many are followed.
    pub redirects: u32,
    /// Not the handler wrote it but a library, which puts its own version into headers: only method, scheme, host and port are compared.
    pub is_by_library: bool,
}

/// The recorded answer to a request.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct NativeResponse {
    /// Such as 200.
    pub status: u16,
    /// Names in lower case.
    pub headers: Vec<(String, String)>,
    /// All of it that was read.
    pub body: Payload,
    /// Where it came from.
    pub url: String,
}

/// Why a question has no good answer: for machines, and for people or the SDK.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// A stable name.
    pub code: &'static str,
    /// What there is to say.
    pub message: String,
}

impl Refusal {
    /// The question is not the recorded one. All that follow are refused, too.
    pub const ASKS_ELSE: &'static str = "asks-else";

    fn new(code: &'static str, message: impl Into<String>) -> Self {
        Self { code, message: message.into() }
    }
}

impl NativeReplay {
    /// Of the attempt that was recorded.
    ///
    /// # Errors
    /// [`ReplayRefused`]: the recording is incomplete, or of another body.
    pub fn new(recording: &Arc<Recording>, input: ReplayInput) -> Result<Self, ReplayRefused> {
        recording.check(&input.body)?;
        let attempt = Arc::new(recording.attempt(input).ok_or(ReplayRefused::Head)?);
        let mut log = GuestLog::new(&attempt, Some(Version(recording.head.component)));
        if let Some(log) = log.boundary.log() {
            log.ask_natively();
        }
        let time = of_millis(recording.head.started_ms());
        Ok(Self { recording: Arc::clone(recording), attempt, log, time, requests: 0, notes: Vec::new() })
    }

    /// The attempt that is done again.
    pub fn attempt(&self) -> &Attempt {
        &self.attempt
    }

    /// When its time was over.
    pub fn deadline(&self) -> Timestamp {
        self.recording.deadline()
    }

    /// When it began.
    pub fn began(&self) -> Timestamp {
        Timestamp::from_millis(self.recording.head.started_ms())
    }

    /// Writes a line of the job's log.
    pub fn log(&mut self, line: LogLine) {
        self.log.write(line);
    }

    /// The time of day: seconds since the Unix epoch, and nanoseconds.
    pub fn time(&mut self) -> (u64, u32) {
        if let Some(time) = self.log.boundary.log().and_then(Log::next_time) {
            self.time = time;
        }
        self.time
    }

    /// Whether the job was cancelled.
    ///
    /// # Errors
    /// [`Refusal::ASKS_ELSE`], as with all questions.
    pub fn is_cancelled(&mut self) -> Result<bool, Refusal> {
        self.ask("context.is-cancelled", "", &())
    }

    /// Whether a line of this level, such as `debug`, was kept.
    ///
    /// # Errors
    /// [`Refusal::ASKS_ELSE`].
    pub fn is_enabled(&mut self, level: &str) -> Result<bool, Refusal> {
        let level = level.to_uppercase();
        self.ask("log.enabled", &level, &level)
    }

    /// A setting.
    ///
    /// # Errors
    /// [`Refusal::ASKS_ELSE`].
    pub fn setting(&mut self, name: &str) -> Result<Option<String>, Refusal> {
        self.ask("config.get", name, &name)
    }

    /// A secret: the one that is given here, if it is the one that was recorded; or the placeholder that the handler had.
    ///
    /// # Errors
    /// [`Refusal::ASKS_ELSE`]: it is another secret here.
    pub fn secret(&mut self, name: &str) -> Result<Option<Vec<u8>>, Refusal> {
        if self.recording.placeholders().iter().any(|kept| !kept.is_variable && kept.name == name) {
            return self.ask("config.secret", name, &name);
        }
        let value = self.attempt.grants.secrets.get(name).cloned();
        let question = Question::new("config.secret", name, Some(&name));
        let is_same = self.log.boundary.log().is_some_and(|log| log.seal(&question, &value).is_ok());
        if is_same { Ok(value) } else { Err(self.asks_else()) }
    }

    /// Saves nothing, and says whether the recorded attempt could.
    ///
    /// # Errors
    /// `too-large` and `unavailable`, as then; [`Refusal::ASKS_ELSE`].
    pub fn save_checkpoint(&mut self, state: &[u8]) -> Result<(), Refusal> {
        let limit = self.attempt.limits.checkpoint_bytes;
        if state.len() as u64 > limit {
            return Err(Refusal::new("too-large", format!("a checkpoint may have no more than {limit} bytes")));
        }
        let saved: Result<(), String> = self.ask("context.checkpoint", "", &Bytes::new(state))?;
        saved.map_err(|reason| Refusal::new("unavailable", reason))
    }

    /// The state of the job's key.
    ///
    /// # Errors
    /// `no-key`, `state-too-large` and `state-unavailable`, as then; [`Refusal::ASKS_ELSE`].
    pub fn state(&mut self) -> Result<Option<Vec<u8>>, Refusal> {
        let answer: Result<Option<ByteBuf>, Fault> = self.ask("state.get", "", &())?;
        answer.map(|found| found.map(ByteBuf::into_vec)).map_err(of_state)
    }

    /// Sets nothing, and says whether the recorded attempt could.
    ///
    /// # Errors
    /// Those of [`Self::state`].
    pub fn set_state(&mut self, value: Option<&[u8]>) -> Result<(), Refusal> {
        let answer: Result<(), Fault> = self.ask("state.set", "", &value.map(Bytes::new))?;
        answer.map_err(of_state)
    }

    /// The id that the follow-up had.
    ///
    /// # Errors
    /// `unknown-topic` and `refused`, as then; [`Refusal::ASKS_ELSE`].
    pub fn enqueue(&mut self, new: &NewJob) -> Result<String, Refusal> {
        let spec = &new.spec;
        let topic = spec.topic.topic.as_str();
        let question = FollowUpQuestion {
            topic,
            payload: (Bytes::new(&spec.body.data), &spec.body.content_type),
            metadata: &spec.metadata,
            key: &spec.options.key,
            priority: spec.options.priority as u8,
            not_before: if let Due::At(at) = new.due { Some(at.as_millis()) } else { None },
            unique: &spec.options.unique.as_ref().map(|unique| unique.value.clone()),
            unique_window: spec
                .options
                .unique
                .as_ref()
                .and_then(|unique| unique.window)
                .map(gristmill_core::time::millis),
            links: (&spec.options.after, spec.options.after_failed, &spec.options.batch, spec.options.open),
        };
        // Of the two ways to enqueue, an SDK has one.
        let name = match self.log.boundary.log().and_then(Log::expected) {
            Some(("queue.enqueue", ..)) => "queue.enqueue",
            _ => "queue.enqueue-linked",
        };
        let answer: Result<String, Fault> = self.ask(name, question.about(), &question)?;
        answer.map_err(|fault| of_queue(fault.into(), topic))
    }

    /// Sends nothing, and gives the answer that came then.
    ///
    /// # Errors
    /// `denied`, `invalid`, `timeout`, `too-large`, `too-many` and `unreachable`, as then, with the contract's text or number; [`Refusal::ASKS_ELSE`].
    pub fn send(&mut self, request: &NativeRequest) -> Result<NativeResponse, Refusal> {
        let NativeRequest { method, url, headers, body, timeout, redirects, is_by_library } = request;
        let body = body.as_ref().map(|body| body.data.as_slice());
        let about = about_request(method, url);
        let mut question = Question::new(
            "http.send",
            &about,
            Some(&request_question(method, url, headers, body, *timeout, *redirects)),
        );
        match self.log.boundary.log().and_then(Log::expected) {
            // The headers of `wasi:http` are those of an engine.
            Some(("http.handle", expected, digest)) if expected == about => {
                question = Question { name: "http.handle", digest, ..question };
                self.answer::<Result<(), Fault>>(&question)?.map_err(of_http)?;
                self.requests += 1;
                return self.taped(url);
            }
            Some(("http.send", expected, digest))
                if *is_by_library && expected == about && digest != question.digest =>
            {
                question.digest = digest;
                let number = self.log.boundary.log().map_or(0, |log| log.number());
                self.notes.push(format!(
                    "call {number}, http.send ({about}): path, headers or body are others than recorded; a library may have put its version there"
                ));
            }
            _ => {}
        }
        let (answer, requests) = self.answer::<HttpReply>(&question)?;
        self.requests += requests;
        let answer = response(answer.map_err(of_http)?);
        let body = Payload { data: answer.body, content_type: None };
        Ok(NativeResponse { status: answer.status, headers: answer.headers, body, url: answer.url })
    }

    /// The answer to the last request, by `wasi:http`.
    fn taped(&self, url: &str) -> Result<NativeResponse, Refusal> {
        let mut parts = self.recording.bodies.iter().filter(|(of, _)| *of == self.requests).map(|(_, part)| part);
        let (status, headers) = match parts.next() {
            Some(BodyPart::Head { status, headers }) => (*status, headers),
            Some(BodyPart::Failed(fault)) => return Err(of_http(fault.clone())),
            _ => return Err(Refusal::new("unreachable", "the recorded attempt did not wait for the answer")),
        };
        let text = |value: &ByteBuf| String::from_utf8_lossy(value).into_owned();
        let headers = headers.iter().map(|(name, value)| (name.clone(), text(value))).collect();
        let mut data = Vec::new();
        for part in parts {
            match part {
                BodyPart::Data(bytes) => data.extend_from_slice(bytes),
                BodyPart::Failed(fault) => return Err(of_http(fault.clone())),
                BodyPart::Head { .. } | BodyPart::End => {}
            }
        }
        Ok(NativeResponse { status, headers, body: Payload { data, content_type: None }, url: url.to_owned() })
    }

    fn ask<A: DeserializeOwned>(
        &mut self,
        name: &'static str,
        about: &str,
        question: &impl Serialize,
    ) -> Result<A, Refusal> {
        self.answer(&Question::new(name, about, Some(question)))
    }

    fn answer<A: DeserializeOwned>(&mut self, question: &Question<'_>) -> Result<A, Refusal> {
        if let Some(log) = self.log.boundary.log() {
            match log.answer(question) {
                Ok(Some(answer)) => return Ok(answer),
                Ok(None) => drop(log.diverge(question, Some("the last, which ended the attempt".to_owned()), false)),
                Err(_) => {}
            }
        }
        Err(self.asks_else())
    }

    fn asks_else(&mut self) -> Refusal {
        let diverged = self.log.boundary.log().and_then(|log| log.diverged.as_ref());
        Refusal::new(Refusal::ASKS_ELSE, diverged.map(ToString::to_string).unwrap_or_default())
    }

    /// What came of it, and what is to be said beside the verdict, which is about outcome, output and log lines.
    pub fn end(mut self, outcome: Outcome) -> (Replayed, Vec<String>) {
        let report = Report { log_lines_dropped: self.log.close(), ..Report::without_running(outcome) };
        let (version, deadline) = (Version(self.recording.head.component), self.recording.deadline());
        let again = self.log.boundary.finish(&self.attempt, None, version, deadline, &report);
        let verdict = native_end::verdict(&self.recording, again.as_deref(), &mut self.notes);
        (Replayed { report, verdict, again }, self.notes)
    }
}

/// In the words that the SDKs have for it in a component.
fn of_state(fault: Fault) -> Refusal {
    match fault.into() {
        StateError::NoKey => Refusal::new("no-key", "the job has no key, so it has no state: push it with one"),
        StateError::TooLarge(limit) => {
            Refusal::new("state-too-large", format!("the state is larger than {limit} bytes"))
        }
        StateError::Unavailable(reason) => Refusal::new("state-unavailable", reason),
    }
}

fn of_queue(error: LinkedError, topic: &str) -> Refusal {
    let message = match error {
        LinkedError::UnknownTopic => {
            let message = format!("there is no topic `{topic}` to enqueue to; name it under `topics` in the manifest");
            return Refusal::new("unknown-topic", message);
        }
        LinkedError::Denied => {
            format!("this topic may not enqueue to `{topic}`; name it in the manifest's `enqueue` grant")
        }
        LinkedError::TooLarge(limit) => {
            format!("the body is larger than the {limit} bytes that topic `{topic}` accepts")
        }
        LinkedError::TooMany(limit) => format!("one attempt may enqueue no more than {limit} jobs"),
        LinkedError::InvalidLinks(why) => format!("the job for topic `{topic}` has invalid links: {why}"),
    };
    Refusal::new("refused", message)
}

fn of_http(fault: Fault) -> Refusal {
    match fault.into() {
        HttpError::Denied(text) => Refusal::new("denied", text),
        HttpError::Invalid(text) => Refusal::new("invalid", text),
        HttpError::Timeout => Refusal::new("timeout", ""),
        HttpError::TooLarge(limit) => Refusal::new("too-large", limit.to_string()),
        HttpError::TooMany(limit) => Refusal::new("too-many", limit.to_string()),
        HttpError::Unreachable(text) => Refusal::new("unreachable", text),
    }
}
