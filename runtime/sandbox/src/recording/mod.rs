//! What the host answered one attempt: the log of the boundary between host and guest, from which the attempt can be run again.
//!
//! A guest has no other way to learn anything, so a component with the same job, limits and answers ends in the same way, to the bit.
//! [`boundary`] writes the log while a guest runs and answers from it in a replay, [`replay`] runs a component again, [`seal`] keeps secrets
//! out, [`answers`] has answers whose types cannot be written down as they are, [`calls`] says in words what was asked and answered, [`native`]
//! answers a handler that has no component around it, and [`native_end`] compares how that ended.

pub(super) mod answers;
pub(super) mod boundary;
mod calls;
mod head;
mod native;
mod native_end;
mod replay;
mod seal;

use std::borrow::Cow;
use std::io::{self, Read as _, Write as _};
use std::sync::Arc;

use flate2::Compression;
use flate2::read::DeflateDecoder;
use flate2::write::DeflateEncoder;
use schemars::JsonSchema;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;
use sha2::{Digest, Sha256};

use crate::placeholders::KeptPlaceholder;
pub use calls::RecordedCall;
use gristmill_core::job::Job;
use gristmill_core::outcome::OutcomeKind;
use gristmill_core::time::Timestamp;
pub use head::RecordingHead;
pub use native::{NativeReplay, NativeRequest, NativeResponse, Refusal};
pub use replay::{ReplayInput, ReplayRefused, ReplayVerdict, Replayed};

/// What is recorded of an attempt.
#[derive(Debug, Clone, Default)]
pub enum Record {
    /// Nothing.
    #[default]
    Off,
    /// Its answers, which are dropped if it completes or snoozes.
    Failures,
    /// Its answers and its job's body, however it ends.
    All,
    /// It is a replay: its answers come from this recording, and are recorded anew.
    Replay(Arc<Recording>),
}

/// Answers and log lines of one recording, in bytes. One with more says only how the attempt ended. The job's body has what room they leave.
pub const RECORDING_BYTES_MAX: usize = 256 << 10;

/// How the bytes of a recording begin, before the form of what follows.
const MARK: [u8; 3] = *b"GMR";
/// Its fields, as [`postcard`] writes them.
const PLAIN: u8 = 4;
/// The same, deflated.
const DEFLATED: u8 = 5;
/// What has fewer bytes is not worth deflating.
const DEFLATED_BYTES_MIN: usize = 1024;
/// Much more than any recording has: its answers, and a checkpoint.
const INFLATED_BYTES_MAX: u64 = 64 << 20;
/// Of the SHA-256 over all before it, at the end.
const CHECKSUM_BYTES: usize = 8;
/// An answer with so many bytes stands in the contents: another that is the same costs its place there.
const CONTENT_BYTES_MIN: usize = 16;

/// The recording of one attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Recording {
    /// What went in.
    pub head: RecordingHead,
    /// Why it cannot be replayed; none if it can.
    pub incomplete: Option<String>,
    /// How it ended.
    pub end: RecordedEnd,
    /// The job's body, where all attempts are recorded, or a sample: the store gives none of a job that has completed. None also if the recording
    /// would have more than [`RECORDING_BYTES_MAX`] with it, or a secret is in it.
    pub body: Option<ByteBuf>,
    names: Vec<String>,
    contents: Vec<ByteBuf>,
    calls: Vec<Call>,
    bodies: Vec<(u32, BodyPart)>,
    /// All lines, one after the other.
    lines: KeptAnswer,
    /// Where a replay asked something else. Only a replay has it.
    #[serde(skip)]
    diverged: Option<Divergence>,
}

/// How a recorded attempt ended.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RecordedEnd {
    /// The kind of its outcome, such as `trapped`.
    pub outcome: String,
    /// The begin of the SHA-256 of the outcome with its result, or its failure.
    pub digest: [u8; 8],
    /// Fuel used.
    pub fuel: u64,
    /// Log lines dropped for the log limit.
    pub lines_dropped: u64,
}

impl RecordedEnd {
    /// Whether the job was done, or put off by its handler.
    pub fn completed(&self) -> bool {
        [OutcomeKind::Complete, OutcomeKind::Snooze].iter().any(|kind| self.outcome == kind.to_string())
    }
}

/// A call of the host whose answer does not follow from what went in.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
struct Call {
    /// Its place among the names.
    name: u32,
    /// What a person may read of the question.
    about: String,
    /// The begin of the SHA-256 of the question.
    asked: [u8; 8],
    answer: KeptAnswer,
}

#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
enum KeptAnswer {
    Here(ByteBuf),
    /// Its place among the contents.
    Content(u32),
    /// It is a secret, or has one in it: its SHA-256.
    Sealed([u8; 32]),
    /// The call ended the guest.
    None,
}

/// A part of the answer to a request of `wasi:http`, in the order in which the guest read them.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum BodyPart {
    Head { status: u16, headers: Vec<(String, ByteBuf)> },
    Data(ByteBuf),
    Failed(answers::Fault),
    End,
}

/// A call that differs from the recorded one.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Divergence {
    /// Which call, from 1.
    pub number: usize,
    /// What the recording has there, such as ``http.send (GET https://example.com)``; none if it ends before.
    pub recorded: Option<String>,
    /// What the component asks.
    pub asked: String,
    /// The question is the same; the answer is a secret, and another value than the recorded one is at hand.
    pub is_sealed: bool,
}

impl std::fmt::Display for Divergence {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let Self { number, recorded, asked, is_sealed } = self;
        match recorded {
            _ if *is_sealed => write!(
                f,
                "call {number} is {asked}, and the value here is another: it must be in the manifest here as it was there"
            ),
            Some(recorded) if recorded == asked => {
                write!(f, "call {number} is {asked} as recorded, but with other contents")
            }
            Some(recorded) => write!(f, "call {number} was {recorded}, and is now {asked}"),
            None => write!(f, "call {number} is {asked}, and the recording ends before it"),
        }
    }
}

/// A log line of a recorded attempt.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedLine {
    /// Calls that came before it.
    pub after: u32,
    /// `TRACE` to `ERROR`.
    pub level: String,
    /// `log`, `stdout`, `stderr` or `progress`.
    pub source: String,
    /// The text.
    pub message: String,
    /// Names and values beside the text.
    pub fields: Vec<(String, String)>,
}

/// Why bytes are no recording.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum BadRecording {
    /// They begin with something else.
    #[error("failed to read the recording: this is no recording of an attempt")]
    Foreign,
    /// Another version wrote them.
    #[error("failed to read the recording: it has form {0}, and this version reads forms 4 and 5")]
    Form(u8),
    /// Some of them are missing, or others than were written.
    #[error("failed to read the recording: it is damaged or cut off")]
    Damaged,
}

impl BodyPart {
    fn bytes(&self) -> usize {
        match self {
            Self::Data(bytes) => bytes.len(),
            Self::Head { headers, .. } => headers.iter().map(|(name, value)| name.len() + value.len()).sum(),
            Self::Failed(_) | Self::End => 0,
        }
    }
}

impl Recording {
    /// As it is stored: a mark, the form, the contents, and a checksum.
    ///
    /// # Errors
    /// Never in practice: its fields can all be written.
    pub fn to_bytes(&self) -> Result<Vec<u8>, BadRecording> {
        let mut bytes = Vec::with_capacity(MARK.len() + 1 + self.bytes() + CHECKSUM_BYTES);
        bytes.extend_from_slice(&MARK);
        bytes.push(PLAIN);
        let begin = bytes.len();
        let mut bytes = postcard::to_extend(self, bytes).map_err(|_| BadRecording::Damaged)?;
        let plain = bytes.get(begin..).unwrap_or_default();
        if plain.len() >= DEFLATED_BYTES_MIN
            && let Ok(deflated) = deflated(plain)
            && deflated.len() < plain.len()
        {
            bytes = [MARK.as_slice(), &[DEFLATED], &deflated].concat();
        }
        let checksum = Sha256::digest(&bytes);
        bytes.extend_from_slice(checksum.get(..CHECKSUM_BYTES).unwrap_or_default());
        Ok(bytes)
    }

    /// All that is in it, in the clear.
    pub(crate) fn plain(&self) -> Result<Vec<u8>, BadRecording> {
        postcard::to_allocvec(self).map_err(|_| BadRecording::Damaged)
    }

    /// Reads what [`Self::to_bytes`] wrote.
    ///
    /// # Errors
    /// [`BadRecording`]. Bytes from outside may be anything.
    pub fn parse(bytes: &[u8]) -> Result<Self, BadRecording> {
        let rest = bytes.strip_prefix(MARK.as_slice()).ok_or(BadRecording::Foreign)?;
        let (form, rest) = rest.split_first().ok_or(BadRecording::Damaged)?;
        if ![PLAIN, DEFLATED].contains(form) {
            return Err(BadRecording::Form(*form));
        }
        let body_bytes = rest.len().checked_sub(CHECKSUM_BYTES).ok_or(BadRecording::Damaged)?;
        let (body, checksum) = rest.split_at(body_bytes);
        let all = bytes.get(..bytes.len() - CHECKSUM_BYTES).unwrap_or_default();
        if Sha256::digest(all).get(..CHECKSUM_BYTES) != Some(checksum) {
            return Err(BadRecording::Damaged);
        }
        let plain = match *form {
            DEFLATED => Cow::Owned(inflated(body).map_err(|_| BadRecording::Damaged)?),
            _ => Cow::Borrowed(body),
        };
        match postcard::take_from_bytes::<Self>(&plain) {
            Ok((recording, [])) if recording.is_sound() => Ok(recording),
            _ => Err(BadRecording::Damaged),
        }
    }

    /// Whether all places that it names exist.
    fn is_sound(&self) -> bool {
        let is_there = |kept: &KeptAnswer| match kept {
            KeptAnswer::Content(place) => (*place as usize) < self.contents.len(),
            _ => true,
        };
        let calls = self.calls.iter().all(|call| (call.name as usize) < self.names.len() && is_there(&call.answer));
        calls && is_there(&self.lines)
    }

    /// The job as it was, if its body is here.
    pub fn job(&self) -> Option<Job> {
        self.body.as_ref().and_then(|_| self.job_as_known())
    }

    /// The job as far as it is known: with an empty body if that is not here.
    pub fn job_as_known(&self) -> Option<Job> {
        let spec = self.head.job(self.body.clone().unwrap_or_default().into_vec())?;
        let (enqueued_at, due_at) = (self.head.enqueued_ms, self.head.due_ms);
        Some(Job { spec, enqueued_at: Timestamp::from_millis(enqueued_at), due_at: Timestamp::from_millis(due_at) })
    }

    /// How many bytes its answers, bodies of responses and log lines have, roughly as many as [`Self::to_bytes`] gives.
    pub fn bytes(&self) -> usize {
        const HEAD: usize = 256;
        const EACH: usize = 16;
        let here = |kept: &KeptAnswer| if let KeptAnswer::Here(bytes) = kept { bytes.len() } else { 0 };
        let calls: usize = self.calls.iter().map(|call| call.about.len() + here(&call.answer) + EACH).sum();
        let contents: usize = self.contents.iter().map(|content| content.len()).sum();
        let bodies: usize = self.bodies.iter().map(|(_, part)| part.bytes() + EACH).sum();
        HEAD + calls + contents + bodies + here(&self.lines) + self.body.as_ref().map_or(0, |body| body.len())
    }

    /// What the attempt had instead of secrets that it did not see.
    pub(crate) fn placeholders(&self) -> &[KeptPlaceholder] {
        &self.head.placeholders
    }

    /// The log lines, in order; none if a secret was in them.
    pub fn lines(&self) -> Option<Vec<RecordedLine>> {
        let mut rest = self.bytes_of(&self.lines)?;
        let mut lines = Vec::new();
        while !rest.is_empty() {
            let (line, after) = postcard::take_from_bytes(rest).ok()?;
            lines.push(line);
            rest = after;
        }
        Some(lines)
    }

    fn bytes_of<'a>(&'a self, kept: &'a KeptAnswer) -> Option<&'a [u8]> {
        match kept {
            KeptAnswer::Here(bytes) => Some(bytes),
            KeptAnswer::Content(place) => self.contents.get(*place as usize).map(|bytes| bytes.as_slice()),
            KeptAnswer::Sealed(_) | KeptAnswer::None => None,
        }
    }

    fn digest_of(&self, kept: &KeptAnswer) -> Option<[u8; 32]> {
        match kept {
            KeptAnswer::Sealed(digest) => Some(*digest),
            kept => self.bytes_of(kept).map(digest),
        }
    }

    fn name(&self, call: &Call) -> &str {
        self.names.get(call.name as usize).map_or("", String::as_str)
    }

    fn in_words(&self, call: &Call) -> String {
        words(self.name(call), &call.about)
    }
}

fn deflated(plain: &[u8]) -> io::Result<Vec<u8>> {
    let mut encoder = DeflateEncoder::new(Vec::new(), Compression::fast());
    encoder.write_all(plain)?;
    encoder.finish()
}

fn inflated(deflated: &[u8]) -> io::Result<Vec<u8>> {
    let mut plain = Vec::new();
    let read = DeflateDecoder::new(deflated).take(INFLATED_BYTES_MAX + 1).read_to_end(&mut plain)?;
    if read as u64 > INFLATED_BYTES_MAX { Err(io::ErrorKind::FileTooLarge.into()) } else { Ok(plain) }
}

fn words(name: &str, about: &str) -> String {
    if about.is_empty() { name.to_owned() } else { format!("{name} ({about})") }
}

fn digest(bytes: &[u8]) -> [u8; 32] {
    Sha256::digest(bytes).into()
}
