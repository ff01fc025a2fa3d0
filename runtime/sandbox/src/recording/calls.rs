//! The calls of a recording in words, for people: what was asked, and the answer in short.

use std::collections::BTreeMap;

use schemars::JsonSchema;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use serde_bytes::ByteBuf;

use super::answers::{Answered, Fault};
use super::{BodyPart, Call, KeptAnswer, Recording, words};

/// Characters of an answer that are shown.
const SHOWN_CHARS: usize = 160;

const OF_HTTP: &[&str] = &["denied", "invalid", "timeout", "too large", "too many requests", "unreachable"];
const OF_QUEUE: &[&str] = &["denied", "too large", "too many", "unknown topic", "invalid links"];
const OF_STATE: &[&str] = &["no key", "too large", "unavailable"];

/// A call of the host whose answer a recording has.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize, JsonSchema)]
pub struct RecordedCall {
    /// Such as `http.send`.
    pub name: String,
    /// What was asked, as far as that is kept in words, such as `GET https://example.com`; empty if it is not.
    pub asked: String,
    /// The answer in one line of some 200 characters at most. A secret is not in it.
    pub answered: String,
}

impl std::fmt::Display for RecordedCall {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.pad(&words(&self.name, &self.asked))
    }
}

impl Recording {
    /// The calls whose answers it holds, in order.
    pub fn calls(&self) -> impl ExactSizeIterator<Item = RecordedCall> {
        let mut responses = Responses::of(self);
        self.calls.iter().map(move |call| RecordedCall {
            name: self.name(call).to_owned(),
            asked: call.about.clone(),
            answered: self.answered(call, &mut responses),
        })
    }

    fn answered(&self, call: &Call, responses: &mut Responses) -> String {
        let Some(bytes) = self.bytes_of(&call.answer) else {
            return match call.answer {
                KeptAnswer::Sealed(_) => "not kept: it is a secret, or may have one in it".to_owned(),
                _ => "ended the attempt".to_owned(),
            };
        };
        in_short(self.name(call), bytes, responses).unwrap_or_else(|| format!("{} bytes", bytes.len()))
    }
}

/// Status and bytes of the answers to the requests of `wasi:http`, which come after the call that sent them, by the number of the request.
struct Responses {
    known: BTreeMap<u32, (Option<u16>, usize)>,
    sent: u32,
}

impl Responses {
    fn of(recording: &Recording) -> Self {
        let mut known = BTreeMap::<u32, (Option<u16>, usize)>::new();
        for (request, part) in &recording.bodies {
            let (status, bytes) = known.entry(*request).or_default();
            match part {
                BodyPart::Head { status: got, .. } => *status = Some(*got),
                BodyPart::Data(data) => *bytes += data.len(),
                BodyPart::Failed(_) | BodyPart::End => {}
            }
        }
        Self { known, sent: 0 }
    }

    fn next(&mut self) -> String {
        self.sent = self.sent.saturating_add(1);
        match self.known.get(&self.sent) {
            Some((Some(status), bytes)) => format!("sent; then {status}, {bytes} bytes"),
            Some((None, _)) => "sent; then no answer".to_owned(),
            None => "sent".to_owned(),
        }
    }
}

/// None: the name is of another version, or the answer is of another type.
fn in_short(name: &str, bytes: &[u8], responses: &mut Responses) -> Option<String> {
    Some(match name {
        "config.get" => read::<Option<String>>(bytes)?.map_or_else(none, |value| text(value.as_bytes())),
        "config.get-all" => format!("{} settings", read::<Vec<(String, String)>>(bytes)?.len()),
        "context.now" => format!("{} ms", read::<u64>(bytes)?),
        "context.checkpoint" => match read::<Result<(), String>>(bytes)? {
            Ok(()) => "saved".to_owned(),
            Err(reason) => text(reason.as_bytes()),
        },
        "context.fuel-remaining" | "random.u64" | "insecure.u64" => read::<u64>(bytes)?.to_string(),
        "context.is-cancelled" | "log.enabled" | "pollable.ready" => yes_or_no(read(bytes)?),
        "random.bytes" | "insecure.bytes" => format!("{} bytes", read::<Vec<u8>>(bytes)?.len()),
        "insecure-seed" => {
            let (high, low) = read::<(u64, u64)>(bytes)?;
            format!("{high}, {low}")
        }
        "wall-clock.now" => {
            let (seconds, nanoseconds) = read::<(u64, u32)>(bytes)?;
            format!("{seconds}.{nanoseconds:09} s")
        }
        "monotonic-clock.now" | "monotonic-clock.resolution" => format!("{} ns", read::<u64>(bytes)?),
        "poll" => format!("ready: {:?}", read::<Vec<u32>>(bytes)?),
        "pollable.block" => "ready".to_owned(),
        "future-incoming-response.get" | "future-trailers.get" => {
            if read(bytes)? { "here" } else { "not yet" }.to_owned()
        }
        "input-stream.read" | "output-stream.check-write" => match read::<Option<u64>>(bytes)? {
            Some(bytes) => format!("{bytes} bytes"),
            None => "the end, or an error".to_owned(),
        },
        "http.send" => {
            let (answer, requests) = read::<(Result<Answered, Fault>, u32)>(bytes)?;
            responses.sent = responses.sent.saturating_add(requests);
            match answer {
                Ok((status, _, body, _)) => format!("{status}, {} bytes: {}", body.len(), text(&body)),
                Err(fault) => fault.in_words(OF_HTTP),
            }
        }
        "http.handle" => match read::<Result<(), Fault>>(bytes)? {
            Ok(()) => responses.next(),
            Err(fault) => fault.in_words(OF_HTTP),
        },
        "state.get" | "keyvalue.read" => match read::<Result<Option<ByteBuf>, Fault>>(bytes)? {
            Ok(None) => none(),
            Ok(Some(state)) => format!("{} bytes: {}", state.len(), text(&state)),
            Err(fault) => fault.in_words(OF_STATE),
        },
        "state.set" => match read::<Result<(), Fault>>(bytes)? {
            Ok(()) => "taken".to_owned(),
            Err(fault) => fault.in_words(OF_STATE),
        },
        "queue.enqueue" | "queue.enqueue-linked" => match read::<Result<String, Fault>>(bytes)? {
            Ok(id) => text(id.as_bytes()),
            Err(fault) => fault.in_words(OF_QUEUE),
        },
        _ => return None,
    })
}

fn read<A: DeserializeOwned>(bytes: &[u8]) -> Option<A> {
    match postcard::take_from_bytes(bytes) {
        Ok((answer, [])) => Some(answer),
        _ => None,
    }
}

fn none() -> String {
    "none".to_owned()
}

fn yes_or_no(is: bool) -> String {
    if is { "yes" } else { "no" }.to_owned()
}

/// The beginning of a text, in one line.
fn text(bytes: &[u8]) -> String {
    let Ok(text) = std::str::from_utf8(bytes) else { return "no text".to_owned() };
    let mut chars = text.chars();
    let mut shown: String = chars.by_ref().take(SHOWN_CHARS).map(|c| if c.is_control() { ' ' } else { c }).collect();
    if chars.next().is_some() {
        shown.push('…');
    }
    shown
}

impl Fault {
    /// Which error of these, and what it says.
    fn in_words(self, kinds: &[&str]) -> String {
        let (kind, said, number) = self.parts();
        let kind = kinds.get(usize::from(kind)).or(kinds.last()).copied().unwrap_or_default();
        match (said, number) {
            ("", 0) => kind.to_owned(),
            ("", limit) => format!("{kind}: the limit is {limit}"),
            (said, _) => format!("{kind}: {}", text(said.as_bytes())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn short(name: &str, answer: &impl Serialize) -> String {
        let mut responses = Responses { known: BTreeMap::from([(2, (Some(204), 7))]), sent: 0 };
        responses.sent = 1;
        in_short(name, &postcard::to_allocvec(answer).unwrap(), &mut responses).unwrap_or_else(|| "unknown".to_owned())
    }

    #[test]
    fn answers_are_read_by_the_names_of_their_calls() {
        let ok: Result<(), Fault> = Ok(());
        let response: Answered = (200, Vec::new(), ByteBuf::from("a\nb".as_bytes()), String::new());
        let limit = Fault::from(&crate::bindings::http::HttpError::TooLarge(99));
        assert_eq!(short("config.get", &Some("eu")), "eu");
        assert_eq!(short("config.get", &None::<String>), "none");
        assert_eq!(short("context.is-cancelled", &true), "yes");
        assert_eq!(short("wall-clock.now", &(5_u64, 7_u32)), "5.000000007 s");
        assert_eq!(short("http.send", &(Ok::<_, Fault>(response), 2_u32)), "200, 3 bytes: a b");
        assert_eq!(short("http.send", &(Err::<Answered, _>(limit), 0_u32)), "too large: the limit is 99");
        assert_eq!(short("http.handle", &ok), "sent; then 204, 7 bytes");
        assert_eq!(short("state.set", &ok), "taken");
        assert_eq!(short("state.get", &Ok::<_, Fault>(Some(ByteBuf::from([255])))), "1 bytes: no text");
        assert_eq!(short("made-up", &1), "unknown");
        assert_eq!(short("context.now", &"long text"), "unknown", "an answer of another type");
    }

    #[test]
    fn a_long_answer_is_cut() {
        let exact = "ä".repeat(SHOWN_CHARS);
        assert_eq!(short("config.get", &Some(&exact)), exact);
        assert_eq!(short("config.get", &Some(format!("{exact}b"))), format!("{exact}…"));
    }
}
